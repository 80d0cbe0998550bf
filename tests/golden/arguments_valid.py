#!/usr/bin/env python3
"""Tool calls as every family writes them: whatever arguments the grammar of a tool's schema lets a walk make, the reply parser reads as one
call, and PyPI jsonschema takes the arguments. And instances of the schema, written as the family's template does: what a grammar takes of them is read as
valid, and it takes those that the grammar of JSON arguments takes, but where the reader would read another value.

  arguments_valid.py DUMP_PROGRAM REPLY_DUMP WALKS INSTANCES [SEED]     exit 77: skipped, no jsonschema
"""
import collections
import json
import random
import subprocess
import sys

try:
    import jsonschema
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)
from call_texts import arguments_text
from schema_instances import Maker, mutated

STR, INT, NUM, BOOL, NULL = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))


def tool(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required, **more}


def arr(items, **more):
    return {"type": "array", "items": items, **more}


POINT = tool({"x": NUM, "y": INT}, ["x"])
SCHEMAS = [
    {"type": "object", "properties": {}},
    tool({"city": STR}),
    tool({"city": STR, "days": INT, "exact": BOOL, "rate": NUM, "none": NULL}, ["city"]),
    tool({"unit": {"type": "string", "enum": ["celsius", "fahrenheit", "a\"b", "null", "", "</parameter>"]}}),
    tool({"unit": {"enum": ["5", 5, "x", None, "true", ["a", {"b": "c"}], {"k": [1, "</arg_value>"]}]}}),
    tool({"code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{2,4}$"}, "tag": {"type": "string", "pattern": "<[a-z/]+>"}}),
    tool({"day": {"type": "string", "format": "date"}, "at": {"type": "string", "format": "date-time"}}),
    tool({"name": {"type": "string", "minLength": 2, "maxLength": 6}, "text": {"type": "string", "minLength": 1}, "long": {"type": "string", "maxLength": 300}}),
    tool({"n": {"type": "integer", "minimum": -5, "maximum": 120}, "f": {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5}, "m": {"type": "integer", "multipleOf": 5}}),
    tool({"opts": tool({"unit": STR, "deep": tool({"flag": BOOL, "list": arr(INT)})}, ["unit"])}),
    tool({"tags": arr(STR, minItems=1, maxItems=4), "points": arr(POINT), "grid": arr(arr(INT), maxItems=3)}),
    tool({"v": {"anyOf": [STR, INT]}}), tool({"v": {"anyOf": [{"type": "string", "maxLength": 4}, arr(STR), POINT]}}),
    tool({"v": {"type": ["string", "null"]}, "w": {"type": ["integer", "null"]}, "o": {"type": ["object", "null"]}, "x": {"type": ["array", "boolean"]}}),
    tool({"v": {"oneOf": [STR, NUM, BOOL, NULL]}}), tool({"v": {"type": "string", "nullable": True}}),
    tool({"v": {"type": ["string", "number"], "minLength": 2, "minimum": 10}}), tool({"v": {"anyOf": [{"type": "string", "pattern": "^[0-9a-z]{1,3}$"}, {"type": "integer", "minimum": 100}]}}),
    tool({"mode": {"const": "fast"}, "n": {"const": 3}, "o": {"const": {"a": [1, None, True], "b": "x"}}}),
    tool({"stadt": {"enum": ["Zürich", "東京", "👍🏽"]}, "straße": STR, "größe": INT}, ["stadt"]),
    tool({"a": INT, "b": STR, "c": BOOL}, []), tool({"a": INT}, ["a"], additionalProperties=STR), tool({"a": INT}, [], additionalProperties=INT),
    tool({"a": STR}, ["a"], additionalProperties=True), {"type": "object", "additionalProperties": {"anyOf": [INT, STR]}}, {"type": "object"},
    tool({"any": {}}), tool({"any": True, "list": {"type": "array"}, "object": {"type": "object"}}, []),
    tool({"map": {"type": "object", "additionalProperties": arr(NUM)}, "open": tool({"a": STR}, additionalProperties=BOOL)}),
    tool({"tree": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": tool({"value": STR, "children": arr({"$ref": "#/$defs/node"}, maxItems=2)}, ["value"])}}),
    tool({"kind": STR, "item": INT, "items": arr(tool({"item": STR, "n": INT}, ["item"]))}, ["items"]),
    tool({"p": {"allOf": [STR, {"minLength": 2}, {"not": {"enum": ["ab", "null"]}}]}, "q": {"not": {"type": "string"}}}, ["p"]),
    {"type": "object", "properties": {"a": INT, "b": STR}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"anyOf": [tool({"a": {"type": "string"}}), tool({"b": STR}, additionalProperties=INT)]},
    tool({"e": {"type": "string", "format": "email"}, "u": {"type": "string", "format": "uri"}, "id": {"type": "string", "format": "uuid"}}, []),
    tool({"set": arr({"enum": ["a", "b", "</b>", 1]}, uniqueItems=True), "pair": {"type": "array", "prefixItems": [STR, INT], "items": False, "minItems": 2}}),
    tool({"s": {"type": "string", "not": {"pattern": "^[0-9]+$"}}, "n": {"type": ["integer", "string"], "enum": ["1", 1, "one"]}}),
    tool({"if": {"enum": ["x", "y"]}, "then": INT}, ["if"], **{"if": {"properties": {"if": {"const": "x"}}}, "then": {"required": ["then"]}}),
    {"type": "object", "patternProperties": {"^x-": INT, "^s": STR}, "additionalProperties": False, "minProperties": 1},
    tool({"a-b": INT, "c d": STR}, []), tool({"v": {"properties": {"a": STR}, "required": ["a"]}, "w": {"items": INT}, "l": {"minLength": 3}}),
    tool({"v": {"type": "string", "const": "<tool_call>\n</tool_call>"}, "w": {"type": "string", "enum": ["<![CDATA[x]]>", " pad ", "\n", "<|\"|>"]}}),
]


def rows_of(program):
    rows = {}
    for line in subprocess.run([program, "families"], capture_output=True, check=True).stdout.decode().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], row["written"])
    return rows


def same(a, b):
    """Equal, with the types of numbers."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def instances(schema, count, rng):
    out = []
    for i in range(count):
        value = Maker(schema, rng).make(schema)
        value = mutated(value, rng) if i % 3 == 2 else value
        if isinstance(value, dict):
            out.append(value)
    return out


def main():
    program, reply, walks, count = sys.argv[1:5]
    seed = sys.argv[5] if len(sys.argv) > 5 else "1"
    rows, rng = rows_of(reply), random.Random(int(seed))
    judges = [jsonschema.Draft202012Validator(s, format_checker=jsonschema.FormatChecker()) for s in SCHEMAS]
    made = [instances(s, int(count), rng) for s in SCHEMAS]
    requests = [{"schema": s, "texts": {family: [arguments_text(row, value) for value in values] for family, row in rows.items()}} for s, values in zip(SCHEMAS, made)]
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    out = subprocess.run([program, walks, seed], input=lines, capture_output=True, text=True, check=True).stdout
    counts, bad, refused, missed = collections.Counter(), [], collections.defaultdict(set), set()
    lines = out.split("\n")[:-1]
    as_json = {tuple(line.split("\t")[2:5:2]) for line in lines if line.startswith("Hermes\t0\t") and line.split("\t")[3] == "T" and line.split("\t")[5] == "1"}
    for line in lines:
        family, controls, number, kind, *rest = line.split("\t")
        counts[kind] += 1
        where = f"{family} {controls} schema {number}"
        if kind == "U":
            refused[json.loads(rest[0])].add(f"{family} {number}")
        if kind == "B":
            bad.append(f"{where}: no call: {rest[0][:400]}")
        if kind == "C":
            call = json.loads(rest[0])
            errors = list(judges[int(number)].iter_errors(call["arguments"]))
            counts["invalid"] += call["name"] != "f" or bool(errors)
            if call["name"] != "f" or errors:
                bad.append(f"{where}: {json.dumps(call)[:300]}: {errors[:1]}"[:600])
        if kind == "T":
            value = made[int(number)][int(rest[0])]
            taken, call = rest[1] == "1", json.loads(rest[2])["arguments"] if rest[2] else None
            counts["taken"] += taken
            if taken and (call is None or list(judges[int(number)].iter_errors(call))):
                bad.append(f"{where}: takes {value} which is read as {call}")
            if not taken and (number, rest[0]) in as_json and call is not None and same(call, value):
                missed.add(f"{family} schema {number}: {requests[int(number)]['texts'][family][int(rest[0])]}"[:300])
    for message, where in sorted(refused.items()):
        print("refused:", message, sorted(where)[:6], len(where))
    for line in bad[:40]:
        print(line)
    missed = [text for text in missed if not text.startswith("MiniMax M3")]  # it has no names that no schema lists, and arrays of no known type as JSON
    for text in sorted(missed)[:60]:
        print("not taken:", text)
    print(f"{len(SCHEMAS)} schemas, {len(rows)} families: {counts['C']} calls, {counts['B']} texts that are none, {counts['invalid']} invalid, {counts['L']} unfinished, "
          f"{counts['U']} refused; of {counts['T']} texts {counts['taken']} taken, {len(missed)} missed")
    return 1 if bad or missed or not counts["C"] or counts["L"] > counts["C"] / 5 else 0


if __name__ == "__main__":
    sys.exit(main())
