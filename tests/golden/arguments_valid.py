#!/usr/bin/env python3
"""Tool calls as every family writes them: whatever arguments the grammar of a tool's schema lets a walk make, the reply parser reads as one
call, and PyPI jsonschema takes the arguments.

  arguments_valid.py DUMP_PROGRAM WALKS [SEED]     exit 77: skipped, no jsonschema
"""
import collections
import json
import subprocess
import sys

try:
    import jsonschema
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

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


def main():
    program, walks, seed = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "1"
    lines = "".join(json.dumps(s, ensure_ascii=False) + "\n" for s in SCHEMAS)
    out = subprocess.run([program, walks, seed], input=lines, capture_output=True, text=True, check=True).stdout
    judges = [jsonschema.Draft202012Validator(s, format_checker=jsonschema.FormatChecker()) for s in SCHEMAS]
    counts, bad, refused = collections.Counter(), [], collections.defaultdict(set)
    per = collections.defaultdict(collections.Counter)
    for line in out.split("\n")[:-1]:
        family, controls, number, kind, *rest = line.split("\t")
        counts[kind] += 1
        per[family][kind] += 1
        if kind == "U":
            refused[rest[0]].add(f"{family} {number}")
        if kind == "B":
            bad.append(f"{family} {controls} schema {number}: no call: {rest[0][:400]}")
        if kind != "C":
            continue
        call = json.loads(rest[0])
        errors = list(judges[int(number)].iter_errors(call["arguments"]))
        if call["name"] != "f" or errors:
            counts["invalid"] += 1
            bad.append(f"{family} {controls} schema {number}: {json.dumps(call)[:300]}: {errors[:1]}"[:600])
    for message, where in sorted(refused.items()):
        print("refused:", message, sorted(where)[:6], len(where))
    for line in bad[:40]:
        print(line)
    print({family: dict(c) for family, c in per.items() if c["L"] > c["C"]})
    print(f"{len(SCHEMAS)} schemas, {len(per)} families: {counts['C']} calls, {counts['B']} texts that are none, {counts['invalid']} invalid, {counts['L']} unfinished, {counts['U']} refused")
    return 1 if bad or not counts["C"] or counts["L"] > counts["C"] / 5 else 0


if __name__ == "__main__":
    sys.exit(main())
