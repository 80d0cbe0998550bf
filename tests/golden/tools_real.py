#!/usr/bin/env python3
"""A real model with tools: 50 prompts with 3 tools, under each tool_choice; also saved in mid-answer, closed, opened and continued.

  tools_real.py MODEL.gguf [PROMPTS [SEED]]     KVRT_LIBRARY names libkvrt.so.0; for Qwen2.5-Coder 0.5B (./dev model qwen2.5-coder)

Judged by PyPI's jsonschema and by a reading of the raw text that knows nothing of kvrt: REQUIRED and NAMED answers are calls alone, each of a tool
that there is, with arguments that fit its schema; AUTO's calls fit, too, and come as TOOL_CALL, its text as CONTENT, without a marker; NONE has no
call. This model answers AUTO with its JSON in ```, without a mark, so AUTO is run a second time with a sampler that opens a call by it, at once or
after some text. An answer that max_tokens cuts may end in half a call, which is content. Not in CI. Exit 1: something was wrong; 77: skipped.
"""
import json
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python"))
try:
    import jsonschema
    import kvrt
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)
from kvrt import EventType, Reason, Reply, ToolChoice

STRING = {"type": "string"}
PARAMETERS = {
    "get_weather": {"type": "object", "required": ["city"], "additionalProperties": False, "properties": {
        "city": {**STRING, "description": "name of a city"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}, "unit": {"enum": ["C", "F"]}}},
    "send_mail": {"type": "object", "required": ["to", "subject", "body"], "additionalProperties": False, "properties": {
        "to": {"type": "array", "items": {**STRING, "format": "email"}, "minItems": 1, "maxItems": 4}, "subject": {**STRING, "maxLength": 80}, "body": STRING}},
    "book_table": {"type": "object", "required": ["restaurant", "guests", "when"], "additionalProperties": False, "properties": {
        "restaurant": STRING, "guests": {"type": "integer", "minimum": 1, "maximum": 20},
        "when": {"type": "object", "required": ["date", "time"], "additionalProperties": False,
                 "properties": {"date": {**STRING, "format": "date"}, "time": {**STRING, "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}}},
        "seat": {"enum": ["inside", "outside", None]}}},
}
TOOLS = [{"type": "function", "function": {"name": name, "description": name.replace("_", " "), "parameters": p}} for name, p in PARAMETERS.items()]
CITIES = ["Paris", "São Paulo", "Tokyo (東京)", "Zürich", "New York", "Reykjavík", "O'Fallon", "Łódź", "Cairo", "Hanoi"]
PROMPTS = [
    *(f"What is the weather in {city} for the next {n + 1} days, in {'Celsius' if n % 2 else 'Fahrenheit'}?" for n, city in enumerate(CITIES)),
    *(f"Send a mail to {who} about {what}." for who, what in [
        ("ann@example.com", "the meeting on Monday"), ("bob@example.org and eve@example.org", 'the file named "report \\ final"'),
        ("team@example.net", "lunch"), ("o.brien@example.ie", "a bug in the parser, with the JSON {\"a\": [1, 2]}"), ("li@example.cn", "the plan, in Chinese"),
        ("hr@example.com", "two days off"), ("support@example.com", "a broken screen"), ("anna.maria@mail.example.co.uk", "the invoice"),
        ("dev@example.io", "the Python code print('hi\\n')"), ("me@example.com", "nothing")]),
    *(f"Book a table at {where} for {n} on 2025-0{n}-1{n} at {17 + n % 5}:30, {seat}." for n, (where, seat) in enumerate([
        ("Chez Léon", "inside"), ("The \"Blue\" Door", "outside"), ("Sushi 銀座", "inside"), ("Trattoria da Enzo", "outside please"), ("Noma", "anywhere"),
        ("El Celler", "inside"), ("Gasthof Adler", "in the garden"), ("Big Al's", "inside")], 1)),
    "Is it raining in Berlin and in Madrid? Look up both.", "Weather in Oslo, then mail it to kim@example.com.",
    "Book a table at Luigi's tonight and tell jo@example.com.", "Compare the weather of Rome and Athens.",
    "Write a Python function that adds two numbers.", "What is 2 + 2?", "Hello!", "Explain what a hash table is in one sentence.",
    "Translate 'good morning' to French.", "Who are you?", "Write a haiku about the sea.", "What does <tool_call> mean? Write the tag itself in your answer.",
    "Give me JSON with the keys a and b.", "List three prime numbers.", "What tools do you have?", "Say the word weather.",
    "Reverse the string 'abc' in C.", "Thanks, that is all.", "Do nothing.", "Is 7 odd?", "Name a colour.", "Write an SQL query that counts users.",
]
MARKS = ("<tool_call>", "</tool_call>")
CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.S)
faults, counts = [], {}


def unmarked(raw):
    """The calls that an answer begins with, without a mark."""
    calls, fence = [], re.compile(r"```(?:json)?\s*")
    while True:
        text = fence.sub("", raw.lstrip(" \t\r\n;,"), count=1)
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return calls
        more = value if isinstance(value, list) else [value]
        if not all(isinstance(v, dict) and list(v)[:2] == ["name", "arguments"] and v["name"] in PARAMETERS for v in more):
            return calls
        calls, raw = calls + more, re.sub(r"^\s*```", "", text[end:])


class Opens:
    """A sampler: the most probable token, but for the first one, which begins a text, and the mark of a call as token number `at`."""

    def __init__(self, mark, at, first):
        self.mark, self.left, self.first = mark, at, [first]

    def __call__(self, logits):
        self.left -= 1
        if self.left == -1: return self.mark
        return self.first.pop() if self.first and self.left >= 0 else max(range(len(logits)), key=logits.__getitem__)


class Answer:
    """The events of an answer, in one piece or in several."""

    def __init__(self):
        self.raw, self.calls, self.content, self.reason, self.order, self.tokens = "", [], "", None, "", 0

    def take(self, events, stop_after=None):
        for event in events:
            if event.type in (EventType.TOKEN, EventType.DONE):
                self.raw += event.text
                self.tokens += event.type == EventType.TOKEN
            if event.type == EventType.TOOL_CALL:
                self.calls.append(json.loads(event.text))
                self.order += "T"
            if event.type == EventType.CONTENT:
                self.content += event.text
                self.order += "" if self.order.endswith("C") else "C"
            if event.type == EventType.DONE:
                self.reason = event.reason
            if stop_after is not None and event.type == EventType.TOKEN and stop_after(self):
                return
        return


def fits(call):
    if call.get("name") not in PARAMETERS:
        return False
    judge = jsonschema.Draft202012Validator(PARAMETERS[call["name"]], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return judge.is_valid(call["arguments"])


def judge(choice, name, prompt, answer, opened=None):
    key = counts.setdefault(choice.name if opened is None else "AUTO, opened", {"answers": 0, "with calls": 0, "calls": 0, "with text": 0, "cut": 0, "tokens": 0})
    cut = answer.reason == Reason.MAX_TOKENS
    for what, n in (("answers", 1), ("with calls", bool(answer.calls)), ("calls", len(answer.calls)), ("with text", bool(answer.content.strip())),
                    ("cut", cut), ("tokens", answer.tokens)):
        key[what] += n
    whole = (unmarked(answer.raw) or [json.loads(text) for text in CALL.findall(answer.raw)]) if choice != ToolChoice.NONE else []
    plain = [{"name": call["name"], "arguments": call["arguments"]} for call in answer.calls]
    rules = [
        (all(fits(call) for call in answer.calls), "a call does not fit"),
        (plain == whole, "the raw text has other calls"),
        (cut or not any(mark in answer.content for mark in MARKS), "a marker in content"),
        (choice != ToolChoice.NONE or not answer.calls, "a call with NONE"),
        (choice not in (ToolChoice.REQUIRED, ToolChoice.NAMED) or cut or (answer.calls and not answer.content.strip()), "no call, or text beside it"),
        (choice != ToolChoice.NAMED or all(call["name"] == name for call in answer.calls), "another tool"),
        (opened is None or cut or (answer.calls and answer.order == ("CT" if opened else "T")), f"parts in the order {answer.order}"),
        (answer.reason in (Reason.EOS, Reason.MAX_TOKENS), f"ended by {answer.reason}"),
    ]
    for good, what in rules:
        if not good:
            faults.append(f"{choice.name}, {prompt!r}: {what}\n    raw {answer.raw!r}\n    calls {answer.calls} content {answer.content!r}")


def options(choice, name, seed):
    return {"max_tokens": 400, "temperature": 0.0 if seed % 2 == 0 else 0.8, "seed": seed + 1, "reply": Reply.AUTO, "tool_choice": choice,
            "parallel_calls_max": 3 if choice != ToolChoice.NONE else 0, **({"tool_name": name} if name else {})}


def resumed(model, runtime, prompts, seed):
    """Stopped in mid-call or mid-text, suspended, closed, opened from the store and continued: the same tokens and parts as in one piece."""
    done = {"in a call": 0, "in text": 0}
    with tempfile.TemporaryDirectory() as folder, runtime.open_store(folder) as store:
        for i, prompt in enumerate(prompts):
            choice = ToolChoice.REQUIRED if i % 2 == 0 else ToolChoice.AUTO
            whole, parts = Answer(), Answer()
            how = options(choice, "", 2 * i)  # greedy: the tokens can be compared
            with model.open_session(tools=TOOLS) as session:
                session.append_message(prompt)
                whole.take(session.generate(**how))
            half = max(1, whole.tokens // 2)
            with model.open_session(tools=TOOLS, store=store) as session:
                session.append_message(prompt)
                parts.take(session.generate(**{**how, "max_tokens": half}))
                session.suspend(f"s{i}", overwrite=True)
            done["in a call" if parts.raw.rfind(MARKS[0]) > parts.raw.rfind(MARKS[1]) else "in text"] += 1
            rest = Answer()
            with model.resume(store, f"s{i}", tools=TOOLS) as session:
                go_on = {k: v for k, v in how.items() if k not in ("tool_choice", "parallel_calls_max")}
                rest.take(session.generate(**{**go_on, "max_tokens": how["max_tokens"] - half, "continue_grammar": True}))
            if parts.raw + rest.raw != whole.raw:
                faults.append(f"resumed {choice.name}, {prompt!r}: other text\n    {whole.raw!r}\n    {parts.raw!r} + {rest.raw!r}")
            elif rest.reason == Reason.EOS and not all(fits(json.loads(text)) for text in CALL.findall(parts.raw + rest.raw)):
                faults.append(f"resumed {choice.name}, {prompt!r}: a call does not fit")
            elif any(not fits(call) for call in rest.calls):
                faults.append(f"resumed {choice.name}, {prompt!r}: a call does not fit: {rest.calls}")
    return done


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    prompts = PROMPTS[:int(sys.argv[2])] if len(sys.argv) > 2 else PROMPTS
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    names = list(PARAMETERS)
    begin = time.monotonic()
    with kvrt.Runtime() as runtime, runtime.open_model(sys.argv[1]) as model:
        for choice in (ToolChoice.REQUIRED, ToolChoice.AUTO, ToolChoice.NONE, ToolChoice.NAMED):
            for i, prompt in enumerate(prompts):
                name, answer = names[i % 3] if choice == ToolChoice.NAMED else "", Answer()
                with model.open_session(tools=TOOLS) as session:
                    session.append_message(prompt)
                    answer.take(session.generate(**options(choice, name, seed + i)))
                judge(choice, name, prompt, answer)
            print(choice.name, counts[choice.name], f"{len(faults)} faults, {time.monotonic() - begin:.0f} s", flush=True)
        (mark,), (first, *_) = (model.tokenize(text, special=True) for text in (MARKS[0], "I see"))
        for i, prompt in enumerate(prompts):
            opened, answer = (0, 3, 12)[i % 3], Answer()
            with model.open_session(tools=TOOLS) as session:
                session.append_message(prompt)
                answer.take(session.generate(max_tokens=400, reply=Reply.AUTO, parallel_calls_max=1, sampler=Opens(mark, opened, first)))
            judge(ToolChoice.AUTO, "", prompt, answer, opened)
        print("AUTO, opened", counts["AUTO, opened"], f"{len(faults)} faults, {time.monotonic() - begin:.0f} s", flush=True)
        print("resumed", resumed(model, runtime, prompts[::3], seed), f"{time.monotonic() - begin:.0f} s")
    for fault in faults[:20]:
        print(fault)
    print(f"{len(prompts)} prompts, {len(TOOLS)} tools, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
