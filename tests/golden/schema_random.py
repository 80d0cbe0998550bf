#!/usr/bin/env python3
"""Small random schemas, all values of a small universe: what a grammar takes, PyPI's jsonschema takes.

  schema_random.py DUMP COUNT [SEED]

Not in CI but for a few hundred. Prints how many schemas were supported, and of the valid values those taken; fails where an invalid one is.
"""
import collections
import json
import random
import sys

from schema_suites import Dump, judge_of, keyword_of, text_of, valid

SCALARS = [None, True, False, 0, 1, 2, 3, 1.5, -1, "", "a", "b", "ab", "ba", "aab"]
UNIVERSE = SCALARS + [[], [1], ["a"], [1, 1], [1, "a"], [None, 2]] + [
    {}, {"x": 1}, {"x": "a"}, {"x": ""}, {"y": 1}, {"x": 1, "y": 2}, {"x": "a", "y": "b"}, {"x": None, "y": 1}, {"x": {}}, {"x": {"x": 1}}, {"x": [1]}]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


class Schemas:
    def __init__(self, rng):
        self.rng = rng

    def assertion(self, depth):
        r = self.rng
        name = r.choice(["type", "type", "enum", "const", "required", "required", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
                         "minItems", "maxItems", "minProperties", "maxProperties", "multipleOf", "format", "properties", "properties", "items",
                         "additionalProperties", "dependentRequired", "contains", "patternProperties", "propertyNames"])
        value = {
            "type": lambda: r.choice(TYPES) if r.random() < 0.7 else r.sample(TYPES, r.randint(1, 3)),
            "enum": lambda: r.sample(SCALARS + UNIVERSE, r.randint(1, 4)), "const": lambda: r.choice(SCALARS * 3 + UNIVERSE),
            "required": lambda: r.sample(["x", "y", "z"], r.randint(1, 2)), "pattern": lambda: r.choice(["a", "^a", "b$", "^a?$", "^$", "ab"]),
            "minimum": lambda: r.choice([0, 1, 1.5, 2]), "maximum": lambda: r.choice([0, 1, 2]), "exclusiveMinimum": lambda: r.choice([0, 1]),
            "multipleOf": lambda: r.choice([1, 2, 0.5]), "format": lambda: r.choice(["date", "ipv4", "ipv6"]),
            "properties": lambda: {n: self.make(depth - 1) for n in r.sample(["x", "y"], r.randint(1, 2))}, "items": lambda: self.make(depth - 1),
            "additionalProperties": lambda: r.choice([True, False, self.make(depth - 1)]), "dependentRequired": lambda: {"x": ["y"]},
            "contains": lambda: self.make(depth - 1), "patternProperties": lambda: {r.choice(["^x", "y"]): self.make(depth - 1)},
            "propertyNames": lambda: r.choice([{"maxLength": 1}, {"pattern": "^x"}, {"enum": ["x", "y"]}]),
        }
        return name, value.get(name, lambda: r.randint(0, 2))()

    def make(self, depth):
        r = self.rng
        if r.random() < 0.06:
            return r.choice([True, False, {}])
        out = dict(self.assertion(depth) for _ in range(r.choice([1, 1, 2, 2, 3]))) if depth <= 0 or r.random() < 0.75 else {}
        if depth > 0:
            for _ in range(r.choice([0, 1, 1, 2])):
                name = r.choice(["not", "not", "allOf", "anyOf", "oneOf", "oneOf", "if", "$ref", "dependentSchemas"])
                if name in ("allOf", "anyOf", "oneOf"):
                    out[name] = [self.make(depth - 1) for _ in range(r.randint(1, 3))]
                elif name == "if":
                    out.update({n: self.make(depth - 1) for n in ["if", *r.sample(["then", "else"], r.randint(1, 2))]})
                elif name == "$ref":
                    out[name] = "#/$defs/" + r.choice("ab")
                elif name == "dependentSchemas":
                    out[name] = {"x": self.make(depth - 1)}
                else:
                    out[name] = self.make(depth - 1)
        return out

    def whole(self):
        """Of one type mostly: then values are taken that the keywords of others say nothing about."""
        out = self.make(self.rng.choice([1, 2, 2, 3]))
        if isinstance(out, dict):
            if self.rng.random() < 0.7:
                out.setdefault("type", self.rng.choice([*TYPES, ["string", "integer"], TYPES]))
            if "$ref" in json.dumps(out):
                out["$defs"] = {"a": self.make(1), "b": self.make(0)}
                for definition in out["$defs"].values():  # they lead nowhere else
                    if "$ref" in json.dumps(definition):
                        return self.whole()
        return out


def main():
    dump, count, seed = Dump(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    texts = [text_of(v) for v in UNIVERSE]
    totals, refusals, faults = collections.Counter(), collections.Counter(), []
    for number in range(count):
        schema = Schemas(random.Random(seed * 1_000_003 + number)).whole()
        message, answers, marks = dump.ask(json.dumps(schema).encode(), texts, generations=2, seed=number, tokens=60)
        judge = judge_of(schema)
        verdicts = [valid(judge, v) for v in UNIVERSE]
        totals["supported"] += not message
        if message:
            refusals[keyword_of(message)] += 1
            # An answer that the rules leave out has another message; one of the named type would have been taken.
            if "nothing fits" in message and isinstance(schema, dict) and any(verdicts):
                totals["said to have no answers, with one in the universe"] += 1
                if "--facts" in sys.argv:
                    print("nothing fits:", json.dumps(schema), [v for v, ok in zip(UNIVERSE, verdicts) if ok][:3])
            continue
        for value, verdict, mark in zip(UNIVERSE, verdicts, marks):
            totals["valid"] += verdict is True
            totals["valid and taken"] += verdict is True and mark == 1
            if mark == 1 and verdict is False:
                faults.append(f"{json.dumps(schema)} takes {json.dumps(value)}")
        for answer in answers:
            totals["answers"] += answer != b"\xff"
            if answer != b"\xff" and valid(judge, json.loads(answer)) is False:
                faults.append(f"{json.dumps(schema)} answers {answer[:200]!r}")
    print(f"{count} schemas:", ", ".join(f"{k} {v}" for k, v in totals.items()))
    for what, n in refusals.most_common(12):
        print(f"  {n:5} {what}")
    print(len(faults), "invalid taken or answered")
    for line in sorted(faults, key=len)[:20]:
        print(" ", line)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
