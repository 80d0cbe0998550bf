#!/usr/bin/env python3
"""What a template writes for a turn with calls, the masks of such an answer allow, and the reply parser reads back.

Jinja2 renders a history. What stands in it from the end of the prompt to the mark that ends the turn is what a model has to write: it goes token
by token through the masks, with marks as control tokens, as ordinary tokens and as bytes. Each token may come, the turn may end there, and the parts
are the turn's. A family of which no template renders calls writes them as its row says.

usage: written_turns.py DUMP_PROGRAM [FOLDER]
DUMP_PROGRAM: answer_dump, with reply_dump beside it; the templates' folder, by default templates/
"""
import itertools
import json
import pathlib
import subprocess
import sys

try:
    import jinja2
except ImportError:
    sys.exit(77)
from reply_families import HERE, NO_CALLS, NOW, ONE_CALL, answer_of, detect, rendered, written
from template_environment import environment

DEFAULT, _, _, REQUIRED, NAMED = range(5)
BEGIN, CLOSED, REASONING = range(3)
CHOICES = {DEFAULT: "DEFAULT", REQUIRED: "REQUIRED", NAMED: "NAMED"}
MARKS = ("bytes", "control tokens", "ordinary tokens")
# What ends a turn; in some families the next message does.
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<end_of_turn>", "<turn|>", "<|END_OF_TURN_TOKEN|>", "<|end_of_text|>", "<|endoftext|>", "<|user|>", "<｜end▁of▁sentence｜>", "<|assistant_end|>",
        "<seed:eos>", "[e~[", "<SPECIAL_12>", "<|hy_eos|>", "<｜hy_eos:opensource｜>", "<|eom|>", "<|end_of_msg|>", "<|eot|>", "<|end|>", "[|endofturn|]", "<end_of_sentence>", "<|observation|>"]

STRING, INTEGER = {"type": "string", "description": "s"}, {"type": "integer", "description": "n"}
OPTS = {"type": "object", "description": "o", "properties": {"unit": STRING, "tags": {"type": "array", "description": "l", "items": STRING}, "n": {"type": "object", "description": "o", "properties": {"x": INTEGER}}}}
PROPERTIES = {"city": STRING, "days": INTEGER, "ref": STRING, "exact": {"type": "boolean", "description": "b"}, "note": {"type": ["string", "null"], "description": "s"}, "lines": STRING, "opts": OPTS}
TOOLS = [{"type": "function", "function": {"name": name, "description": "A tool", "parameters": {"type": "object", "properties": properties, "required": [k for k in properties if k == "city"]}}} for name, properties in (("get_weather", PROPERTIES), ("now", {}))]
SIMPLE = json.loads(json.dumps(TOOLS).replace('["string", "null"]', '"string"'))  # for templates that know no lists of types
FULL, NESTED = {"city": "Zürich \"東京\" <b> & 👍", "days": -3, "ref": "5123123"}, {"city": "it's", "opts": {"unit": "12", "tags": ["a", "1"], "n": {"x": 7}}}
TURNS = {"full": [("get_weather", FULL)], "nested": [("get_weather", NESTED)], "lines": [("get_weather", {"city": "x", "lines": "a\n  b = \"c\"\n"})], "required alone": [("get_weather", {"city": ""})],
         "late": [("get_weather", {"days": 0, "ref": "", "city": "Rome"})], "late, nested": [("get_weather", {"opts": {"tags": [], "unit": "C"}, "city": "Rome"})], "true": [("get_weather", {"city": "Rome", "exact": True})],
         "null": [("get_weather", {"city": "Rome", "note": None})], "no arguments": [("now", {})], "two": [("get_weather", FULL), ("get_weather", NESTED)], "three": [("get_weather", FULL), ("now", {}), ("get_weather", NESTED)]}
SAID = {"": ("", None), "text": ("Let me see.", None), "reasoning": ("", "So be it."), "reasoning, text": ("Let me see.", "So be it.")}
SITUATIONS = [(turn, said) for turn, said in itertools.product(TURNS, SAID) if said == "" or turn in ("full", "no arguments", "two")]

# Templates that write calls in a way that no family has: their calls are text, free unless others are asked for.
NO_FAMILY = {"deepseek_v3", "deepseek_v3_1", "nemotron"}
# Turns that no model writes so: the text behind the calls.
OTHER_ORDER = {"gemma4"}


def turn_of(prompt, whole, style):
    """What the model has to write for the turn, and where: the prompt may open or close its reasoning. None: it cannot be told."""
    split = answer_of(prompt, whole, style)
    if split is None: return None
    answer, opened = split
    if not answer.strip(): return None
    ends = [answer.find(mark) for mark in ENDS if mark in answer]
    if style[4] == "gpt-oss": ends = [answer.find("<|call|>") + len("<|call|>")]
    if style[4].startswith("GigaChat"): ends = [answer.rfind("<|message_sep|>")]
    closed = bool(style[2]) and whole.startswith(prompt) and prompt.rstrip().endswith(style[2])
    return answer[:min(ends, default=len(answer))], REASONING if opened else CLOSED if closed else BEGIN


def without_turns(program, folder):
    """Of families whose template renders no calls the row's: by default they are free."""
    reply_dump, rows = program.replace("answer_dump", "reply_dump"), rows_of(program)
    for stem in sorted(NO_CALLS if folder == HERE else ()):
        family = detect(reply_dump, (folder / f"{stem}.jinja").read_text())[4]
        if family and (folder / f"{stem}.jinja").read_text(): yield {"template": str(folder / f"{stem}.jinja"), "text": written(rows[family], TURNS["full"])}, {"family": family, "template": stem, "turn": "full", "said": "", "marks": [stem], "calls": TURNS["full"], "content": "", "reasoning": None}


def rows_of(program):
    rows = {}
    for line in subprocess.run([program.replace("answer_dump", "reply_dump"), "families"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], row["written"])
    return rows


def turns_of(program, folder):
    """The turns of all templates, and of the families without one: of each what is asked of its answer, and what it has to be."""
    reply_dump = program.replace("answer_dump", "reply_dump")
    env, seen = environment(NOW), set()
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        if folder == HERE and path.stem in NO_CALLS or "tool_calls" not in source: continue
        style, template = detect(reply_dump, source), env.from_string(source)
        for name, said in SITUATIONS:
            content, reasoning = SAID[said]
            made = rendered(template, TURNS[name], content, reasoning, TOOLS) or rendered(template, TURNS[name], content, reasoning, SIMPLE)
            turn = made and turn_of(*made, style)
            if content and path.stem in OTHER_ORDER or not turn or (content and content not in turn[0]) or (reasoning and reasoning not in turn[0]): continue  # the template leaves it out
            seen.add(style[4])
            calls = TURNS[name][:1] if path.stem in ONE_CALL else TURNS[name]
            yield {"template": str(path), "place": turn[1], "text": turn[0]}, {"family": style[4], "template": path.stem, "turn": name, "said": said, "marks": style[1:3], "calls": calls, "content": content, "reasoning": reasoning}
    rows = rows_of(program)
    for family in sorted(rows.keys() - seen):
        for name in TURNS:
            yield {"family": family, "text": written(rows[family], TURNS[name])}, {"family": family, "template": "", "turn": name, "said": "", "marks": [], "calls": TURNS[name], "content": "", "reasoning": None}


# What gpt-oss writes beside what its template does: the recipient on either side, calls in analysis, names without their namespace, other recipients.
OSS_ARGUMENTS = '{"city": "Rome"}'
OSS = [(f" to={to}<|channel|>{channel}{type}<|message|>{OSS_ARGUMENTS}<|call|>", [("get_weather", {"city": "Rome"})]) for to in ("functions.get_weather", "get_weather") for channel in ("commentary", "analysis") for type in ("", " json", " <|constrain|>json", "<|constrain|>json", " code")]
OSS += [(f"<|channel|>{channel} to={to}{type}<|message|>{OSS_ARGUMENTS}<|call|>", [("get_weather", {"city": "Rome"})]) for to in ("functions.get_weather", "get_weather") for channel in ("commentary", "analysis") for type in ("", " json", " <|constrain|>json", "<|constrain|>json", " code")]
OSS_OTHER = [f"{header}<|message|>{text}<|call|>" for text in ('{"query": "Rome"}', "print(1)") for header in (" to=browser.search<|channel|>analysis code", "<|channel|>analysis to=python code", "<|channel|>commentary to=get_weathers json", "<|channel|>commentary to=function")]


def of_oss(folder):
    base = {"family": "gpt-oss", "turn": "other recipients", "said": "", "marks": [], "content": "", "reasoning": None}
    for text, calls in OSS: yield {"family": "gpt-oss", "text": text}, {**base, "template": "", "calls": calls}
    for text in OSS_OTHER: yield {"family": "gpt-oss", "text": text}, {**base, "template": "other", "calls": []}


def asked(program, folder):
    seen = set()
    for request, about in itertools.chain(turns_of(program, folder), without_turns(program, folder), of_oss(folder)):
        for choice, marks in itertools.product(CHOICES, range(len(MARKS))):
            if choice != DEFAULT and (about["content"] or not about["calls"]) or choice == NAMED and len({name for name, _ in about["calls"]}) > 1: continue
            key = (about["family"], *about["marks"], request.get("place"), request["text"], choice, marks)
            if key in seen: continue  # another template of the family writes it, too
            seen.add(key)
            named = {"tool_name": about["calls"][0][0]} if choice == NAMED else {}
            yield {**request, **named, "choice": choice, "controls": marks, "about": about}


def problem(request, answer):
    about = request["about"]
    if about["template"] in NO_FAMILY: return None if (not answer["bound"] if request["choice"] == DEFAULT else "message" in answer) else f"a family is found: {answer}"
    if "message" in answer: return f"refused: {answer['message']}"
    if request["choice"] == DEFAULT and answer["bound"] != (about["template"] not in NO_CALLS): return f"it is {'' if answer['bound'] else 'not '}bound by default"
    if not answer["all"]: return f"the mask ends it before {request['text'].encode()[answer['taken']:].decode(errors='replace')!r}"
    if not answer["end"]: return "the turn may not end"
    calls = [(call["name"], call["arguments"]) for call in (json.loads(text) for kind, text in answer["parts"] if kind == "T")]
    if calls != about["calls"]: return f"the calls are {calls}"
    if about["turn"] == "other recipients": return None
    text = {kind: "".join(t for k, t in answer["parts"] if k == kind).strip() for kind in "CR"}
    if text["C"] != about["content"]: return f"the content is {text['C']!r}"
    if text["R"] != (about["reasoning"] or ""): return f"the reasoning is {text['R']!r}"
    return None


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    requests = sorted(asked(program, folder), key=lambda r: (r.get("template", r.get("family")), r.get("place", 0), r["choice"], r.get("tool_name", ""), r["controls"]))
    run = subprocess.run([program, json.dumps(TOOLS)], input="\n".join(map(json.dumps, requests)).encode(), stdout=subprocess.PIPE)
    lines = run.stdout.decode().splitlines()
    shown, wrong = {}, 0
    for request, answer in zip(requests, map(json.loads, lines)):
        about, what = request["about"], problem(request, answer)
        if what is None: continue
        wrong += 1
        key = (about["family"], about["template"], what[:20])
        shown[key] = shown.get(key, 0) + 1
        if shown[key] == 1: print(f"{about['template'] or 'the row'}, {about['family']}, {CHOICES[request['choice']]}, marks are {MARKS[request['controls']]}, {about['turn']}, {about['said']}: {request['text']!r}\n  {what}")
    templates, families = ({r["about"][key] for r in requests} for key in ("template", "family"))
    print(f"{len(lines)} answers of {len(requests)}: {len(templates)} templates, {len(families)} families; {wrong} wrong")
    sys.exit(1 if wrong or run.returncode or len(lines) != len(requests) else 0)


if __name__ == "__main__": main()
