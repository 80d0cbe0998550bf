#!/usr/bin/env python3
"""Answers that are drawn by their grammar: every call has a tool's name and arguments that fit its schema, by jsonschema; where calls are required
there is nothing else, where they are not to come there is none, and content that a schema binds fits it, behind reasoning of any kind; beside tools that
may be called the answer is calls or such content.

usage: answers.py DUMP_PROGRAM [COUNT [SEED]]   COUNT: answers of each family and way
"""
import json
import random
import subprocess
import sys

import jsonschema

program = sys.argv[1]
count, seed = (int(a) for a in (sys.argv[2:] + ["3", "1"][len(sys.argv) - 2:])[:2])
DEFAULT, NONE, AUTO, REQUIRED, NAMED = range(5)
BEGIN, CLOSED, REASONING, CONTENT = range(4)
STRING = {"type": "string"}
PARAMETERS = {
    "get_weather": {"type": "object", "properties": {"city": STRING, "days": {"type": "integer", "minimum": 1, "maximum": 14}, "unit": {"enum": ["C", "F"]}}, "required": ["city"]},
    "search": {"type": "object", "properties": {"query": {"type": "string", "minLength": 1}, "tags": {"type": "array", "items": STRING, "maxItems": 3},
                                                "opts": {"type": "object", "properties": {"exact": {"type": "boolean"}, "n": {"type": ["integer", "null"]}}, "required": ["exact"]}}, "required": ["query"]},
    "now": {"type": "object", "properties": {}},
}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": p}} for name, p in PARAMETERS.items()]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}}, "required": ["answer", "n"]}
SCRIPTS = ["</think>", "<think>", "[/THINK]", "<tool_call>", "hello ", "日本 ünï", '{"name": "', '{"name": "nobody", "parameters": {}}', "get_weather", "now", '{"a": 1}', "[f(x=1)]", '"', "}", "\n\n", "<|channel|>", "<|message|>", "<|end|>",
           "<|start|>assistant", "```json\n", "```tool_code\n", "[TOOL_CALLS]", "<function=", "final", "analysis", "all\n", "</parameter>", "<|tool_call|>", "Action:"]
# Calls without their family's mark, at an answer's begin; and what begins so and is none.
SCRIPTS += [begin + '{"name": "' + name + '", "' + key + '": ' for begin in ("", "```json\n", "[", "</think>\n\n") for name, key in (("now", "arguments"), ("search", "parameters"), ("get_weather", "arguments"))]
SCRIPTS += ["[now(", "[search(query='", '{"name": "search", "description": "', '{"name": "', "```\n{", "```"]


def families(program):
    dump = program.replace("answer_dump", "reply_dump")
    rows = [json.loads(line) for line in subprocess.run([dump, "families"], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()]
    return {row["name"]: row["written"] for row in sorted(rows, key=lambda row: row["name"])}


def scripts(row):
    """Calls and the begins of calls as the family writes them: within reasoning, too, a sampler likes to write them."""
    begin = (row["begin"] + row["call"]).replace("%d", "0")
    return SCRIPTS + [begin, begin + "search" + row["named"].replace("%d", "0").replace("%D", "1").replace("%i", "a1B2c3D4e"), begin + "nobody", row["call"] or begin]


def requests(names):
    for name in names:
        marks = [] if name in ("gpt-oss", "Functionary 3.2") else ["<think>", "</think>"]  # they have channels, or no reasoning
        ways = [(None, BEGIN)] + [(marks, place) for place in (BEGIN, REASONING, CLOSED) if marks]
        for controls in (0, 1):
            for choice in (NONE, AUTO, REQUIRED, NAMED):
                for reasoning, place in ways:
                    yield {"family": name, "controls": controls, "choice": choice, "tool_name": "search" if choice == NAMED else "", "place": place, **({"reasoning": reasoning} if reasoning else {})}
            yield {"family": name, "controls": controls, "choice": REQUIRED, "calls_max": 1}
            for reasoning, place in ways:
                yield {"family": name, "controls": controls, "kind": 2, "source": json.dumps(SCHEMA), "place": place, **({"reasoning": reasoning} if reasoning else {})}
                yield {"family": name, "controls": controls, "kind": 2, "source": json.dumps(SCHEMA), "choice": AUTO, "place": place, **({"reasoning": reasoning} if reasoning else {})}
                if place == REASONING:
                    yield {"family": name, "controls": controls, "choice": AUTO, "reasoning": reasoning, "place": place, "over": 1}


def wrong(request, answer):
    """What is wrong with an answer, or None."""
    if answer["dead"]:
        return "no token is left"
    if not answer["ended"]:
        return None  # cut: a call that is not whole is content
    parts = answer["parts"]
    calls = [json.loads(text) for kind, text in parts if kind == "T"]
    content = "".join(text for kind, text in parts if kind == "C")
    for call in calls:
        if call["name"] not in PARAMETERS:
            return f"a call of {call['name']!r}"
        try:
            jsonschema.validate(call["arguments"], PARAMETERS[call["name"]])
        except jsonschema.ValidationError as error:
            return f"arguments: {error.message}"
    if calls and request.get("kind") and request.get("choice") == AUTO:
        return f"content {content!r} beside calls" if content.strip() else None
    if request.get("kind"):
        try:
            jsonschema.validate(json.loads(content), SCHEMA)
        except ValueError as error:
            return f"content {content!r}: {error}"
        return "calls" if calls else None
    choice = request["choice"]
    if choice == NONE and calls:
        return "a call"
    if choice in (REQUIRED, NAMED) and (not calls or content.strip()):
        return f"{len(calls)} calls and content {content!r}"
    if choice == NAMED and {call["name"] for call in calls} != {"search"}:
        return "another tool's call"
    if request.get("calls_max") and len(calls) > request["calls_max"]:
        return "too many calls"
    return None


rows = families(program)
asked = [dict(r, seed=seed * 1000003 + i * 101 + n, scripts=scripts(rows[r["family"]])) for i, r in enumerate(requests(rows)) for n in range(count)]
random.Random(seed).shuffle(asked)
run = subprocess.run([program, json.dumps(TOOLS)], input="\n".join(map(json.dumps, asked)).encode(), stdout=subprocess.PIPE)
lines = run.stdout.decode().splitlines()
failed, refused, ended, called = 0, {}, 0, 0
for request, line in zip(asked, lines):
    answer = json.loads(line)
    if "message" in answer:
        refused[(request["family"], answer["message"])] = refused.get((request["family"], answer["message"]), 0) + 1
        continue
    if "parts" not in answer:
        failed += 1
        print("nothing is bound:", json.dumps({k: v for k, v in request.items() if k != "scripts"}))
        continue
    ended += answer["ended"]
    called += sum(kind == "T" for kind, _ in answer["parts"])
    what = wrong(request, answer)
    if what:
        failed += 1
        print(what, json.dumps({k: v for k, v in request.items() if k != "scripts"}), json.dumps(answer, ensure_ascii=False))
for (family, message), n in sorted(refused.items()):
    print(f"refused: {family}: {message} ({n})")
print(f"{len(lines)} answers of {len(asked)}, {ended} to their end, {called} calls, {failed} wrong, {sum(refused.values())} refused")
sys.exit(1 if failed or run.returncode or len(lines) != len(asked) else 0)
