#!/usr/bin/env python3
"""A turn that Jinja2 renders by a family's template is read back as the same turn, and its calls stand in it as the family's row writes them.

usage: reply_families.py DUMP_PROGRAM [FOLDER]  the templates' folder; by default templates/
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys

try:
    import jinja2
except ImportError:
    sys.exit(77)
from call_texts import arguments_text
from template_environment import environment

NOW = 1753100000
HERE = pathlib.Path(__file__).parent / "templates"
# Templates whose history shows no calls, or in another form than the model's.
NO_CALLS = {"command_r", "command_r7b", "command_r_documents", "functionary", "gemma1", "gemma2", "gemma3", "gemma3_functions", "granite3", "granite3_3", "phi4_mini", "smollm3", "deepseek_r1", "llama4"}
ONE_CALL = {"gpt_oss", "openai-gpt-oss-120b", "GigaChat3-10B-A1.8B", "GigaChat3.1-10B-A1.8B"}  # they show a turn's first one alone
PYTHON_OBJECTS = {"minicpm5", "openbmb-MiniCPM5-1B", "ByteDance-Seed-OSS"}  # str() of them, which is read too
SORTED = {"gemma4"}  # the names of members are
OTHER_SPACE = {"command_r_tools", "mistral_v2", "mistral_v3", "deepseek_v3_2", "deepseek_v4", "exaone4"}  # white space that the row does not write
FAMILIES = {"gpt-oss", "DeepSeek V3.2", "DeepSeek V4", "DeepSeek V3", "DeepSeek V3.1", "Kimi K2", "Kimi K3", "Ministral", "Mistral", "Command R7B", "Apertus", "GigaChat 3.1", "GigaChat 3", "LFM2", "Gemma 4",
            "GLM 4.7", "Seed-OSS", "MiniMax M3", "MiniMax M2", "StepFun", "Qwen3-Coder", "Hunyuan", "GLM", "MiniMax M1", "MiniCPM", "Nemotron Nano 2", "Apriel", "Hermes", "Functionary 3.1", "Functionary 3.2", "Llama 3"}
STRING, INTEGER = {"type": "string", "description": "s"}, {"type": "integer", "description": "n"}
PROPERTIES = {"city": STRING, "days": INTEGER, "ref": STRING, "exact": {"type": "boolean", "description": "b"}, "lines": STRING,
              "opts": {"type": "object", "description": "o", "properties": {"unit": STRING, "tags": {"type": "array", "description": "l", "items": STRING}, "n": {"type": "object", "description": "o", "properties": {"x": INTEGER}}}}}
TOOLS = [{"type": "function", "function": {"name": name, "description": "A tool", "parameters": {"type": "object", "properties": properties, "required": []}}} for name, properties in (("get_weather", PROPERTIES), ("now", {}))]
ARGUMENTS = [{"city": "Zürich \"東京\" <b> & 👍", "days": -3, "ref": "5123123", "exact": True}, {"city": "it's", "opts": {"unit": "12", "tags": ["a", "1"], "n": {"x": 7}}}, {"lines": "a\n  b = \"c\"\n", "days": 0}, {"city": ""}]
TURNS = [[("get_weather", a)] for a in ARGUMENTS] + [[("now", {})], [("get_weather", ARGUMENTS[0]), ("now", {}), ("get_weather", ARGUMENTS[1])]]


def detect(program, source):
    return json.loads(subprocess.run([program, "detect"], input=source.encode(), stdout=subprocess.PIPE, check=True).stdout)


def parts_of(program, style, pieces):
    u32 = lambda n: n.to_bytes(4, "little")
    data = u32(len(pieces)) + b"".join(u32(0) + u32(len(p)) + p for p in pieces)
    out = subprocess.run([program, str(style[0]), style[1], style[2], str(int(style[3])), json.dumps(TOOLS)], input=data, stdout=subprocess.PIPE, check=True).stdout
    return [(line[0], json.loads(line[1:])) for line in out.decode().split("\n") if line]


def rendered(template, turn, content, reasoning, tools=TOOLS):
    """The turn as an answer to the prompt, and whether the prompt opens reasoning; None where the template refuses it."""
    for as_text in (False, True):
        calls = [{"id": f"abcdefgh{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(a) if as_text else a}} for i, (name, a) in enumerate(turn)]
        said = [{"role": "user", "content": "Q"}]
        answer = {"role": "assistant", "content": content, "tool_calls": calls, **({"reasoning_content": reasoning, "thinking": reasoning} if reasoning else {})}
        base = {"tools": tools, "bos_token": "<s>", "eos_token": "</s>", "documents": None}
        try:
            prompt = template.render(messages=said, add_generation_prompt=True, **base)
            whole = template.render(messages=said + [answer], add_generation_prompt=False, **base)
        except Exception:  # arguments of the other kind, more than one call, content with calls
            continue
        return prompt, whole
    return None


def answer_of(prompt, whole, style):
    """What follows the prompt, and whether that opens reasoning; a prompt may do so where the history has none, or end it at once."""
    begin, end = (re.escape(mark) for mark in style[1:3])
    if whole.startswith(prompt): return whole[len(prompt):], bool(begin) and prompt.rstrip().endswith(style[1])
    bare = re.sub(rf"(?:{begin}\s*)?(?:{end}\s*)?\Z", "", prompt) if begin else prompt
    return (whole[len(bare):], False) if whole.startswith(bare) else None


def written(row, turn):
    calls = []
    for i, (name, arguments) in enumerate(turn):
        number = lambda text: text.replace("%d", str(i)).replace("%D", str(i + 1)).replace("%i", f"abcdefgh{i}").replace("%s", "")
        calls.append(number(row["call"]) + name + number(row["named"]) + arguments_text(row, arguments) + number(row["end"]))
    return row["begin"].replace("%s", "") + row["between"].join(calls) + row["close"]


def has_bool(turn): return any(isinstance(v, bool) for _, arguments in turn for v in arguments.values())  # str() of it, in some templates


def in_order(value):
    if isinstance(value, dict): return {k: in_order(value[k]) for k in sorted(value)}
    return [in_order(v) for v in value] if isinstance(value, (list, tuple)) else value


def bytes_of(text): return [bytes([b]) for b in text.encode()]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    rows = {}
    for line in subprocess.run([program, "families"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], row["written"])
    env, seen, shown, wrong, turns = environment(NOW), set(), {}, 0, 0
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        style = detect(program, source)
        if not style[4] or (folder == HERE and path.stem in NO_CALLS): continue
        read, squeezed = 0, (lambda text: re.sub(r"\s", "", text)) if path.stem in OTHER_SPACE else str
        for turn, (content, reasoning) in itertools.product(TURNS, (("Let me see.", "So be it."), ("Let me see.", None), ("", None))):
            made = rendered(env.from_string(source), turn, content, reasoning)
            if made is None: continue
            split = answer_of(*made, style)
            if split is None: continue
            (answer, style[3]), whole = split, made[1]
            if path.stem in ONE_CALL: turn = turn[:1]
            found = parts_of(program, style, [answer.encode()])
            calls = [(part["name"], part["arguments"]) for part in (json.loads(text) for kind, text in found if kind == "T")]
            problem = None
            if found != parts_of(program, style, bytes_of(answer)): problem = "byte by byte it is other parts"
            elif calls != turn: problem = f"the calls are {calls}"
            elif content and content in whole and not any(kind == "C" and content in text for kind, text in found): problem = f"the content is not {content!r}"
            elif reasoning and style[1] and style[1] in answer and ("R", reasoning) not in found: problem = f"the reasoning is not {reasoning!r}"
            elif not has_bool(turn) and not (path.stem in PYTHON_OBJECTS and "opts" in str(turn)) and squeezed(written(rows[style[4]], in_order(turn) if path.stem in SORTED else turn)) not in squeezed(whole): problem = f"it has not\n  {written(rows[style[4]], turn)!r}"
            read, turns = read + 1, turns + 1
            if problem:
                wrong += 1
                shown[path.name] = shown.get(path.name, 0) + 1
                if shown[path.name] == 1: print(f"{path.name}, {style[4]}: {answer!r}\n  is read as {found}\n  {problem}")
        if read: seen.add(style[4])
    print(f"{turns} turns of {len(seen)} families, wrong {wrong}")
    if folder == HERE and FAMILIES - seen: sys.exit(f"no turn of {sorted(FAMILIES - seen)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__": main()
