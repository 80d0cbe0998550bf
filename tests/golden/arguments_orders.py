#!/usr/bin/env python3
"""Members of arguments in any order: random schemas and instances, written in random orders by every way that families have. What PyPI's jsonschema
says is valid is taken in each of them, and read as it was; what is not, a missing member or one that comes twice, is taken in none.

  arguments_orders.py DUMP_PROGRAM REPLY_DUMP SCHEMAS [SEED]     exit 77: skipped, no jsonschema
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

FAMILIES = ["Hermes", "LFM2", "Gemma 4", "Qwen3-Coder", "GLM", "DeepSeek V4", "Kimi K3", "MiniMax M3", "MiniCPM"]
NO_OTHERS = ["MiniMax M3"]  # it has no names that no schema lists
NAMES = ["a", "ab", "abc", "abd", "b", "ba", "bab", "city", "city_code", "cit", "days", "x", "x1", "x12", "unit", "units", "z_", "_z"]
OTHERS = ["abe", "ci", "city_", "other", "x2", "zz", "bb"]


class Pairs(dict):
    """An object as it is written: its members may come twice."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.pairs = pairs

    def items(self):
        return self.pairs


class Case:
    def __init__(self, rng):
        self.rng = rng
        self.schema = self.object(2)
        self.judge = jsonschema.Draft202012Validator(self.schema)

    def leaf(self):
        r = self.rng
        return r.choice([{"type": "integer"}, {"type": "string", "maxLength": 9}, {"type": "boolean"}, {"type": "array", "items": {"type": "integer"}},
                         {"enum": ["low", "high"]}, {"type": "number"}, {"type": "string"}])

    def object(self, depth):
        r = self.rng
        count = r.choice([1, 2, 3, 3, 4, 5, 7, 9]) if depth < 2 or r.random() < 0.85 else r.choice([33, 64])
        names = r.sample(NAMES, min(count, len(NAMES))) + [f"n{i}" for i in range(count - len(NAMES))]
        properties = {n: self.object(depth - 1) if depth > 0 and r.random() < 0.15 else self.leaf() for n in names}
        out = {"type": "object", "properties": properties}
        if r.random() < 0.7:
            out["required"] = r.sample(names, r.randint(0, min(3, count)))
        if r.random() < 0.2:
            out["properties"][r.choice(names)] = r.choice([False, {"allOf": [{"type": "integer"}, {"type": "string"}]}])
        if r.random() < 0.4:
            out["additionalProperties"] = r.choice([False, {"type": "integer"}, {"type": "string", "maxLength": 4}])
        if r.random() < 0.25:
            out["minProperties"] = r.randint(0, count)
        if r.random() < 0.25:
            out["maxProperties"] = r.randint(0, count + 2)
        if r.random() < 0.15:
            out["dependentRequired"] = {r.choice(names): r.sample(names, 1)}
        if r.random() < 0.15:
            out["anyOf"] = [{"required": [n]} for n in r.sample(names, min(2, count))]
        if r.random() < 0.1:
            out["if"], out["then"] = {"required": [r.choice(names)]}, {"required": [r.choice(names)]}
        if r.random() < 0.1:
            out["patternProperties"] = {"^y": {"type": "boolean"}}
        return out

    def value(self, schema):
        r = self.rng
        if not isinstance(schema, dict) or "allOf" in schema:
            return 1
        if "enum" in schema:
            return r.choice(schema["enum"])
        if "properties" in schema:
            return self.instance(schema)
        return {"integer": lambda: r.randint(-9, 99), "string": lambda: r.choice(["", "x y", "Zürich", "</b>"])[:schema.get("maxLength", 99)], "boolean": lambda: r.random() < 0.5,
                "number": lambda: r.choice([1, 2.5, -3]), "array": lambda: [r.randint(0, 9) for _ in range(r.randint(0, 2))]}[schema["type"]]()

    def instance(self, schema):
        r = self.rng
        names, share = schema["properties"], r.choice([0.2, 0.6, 1])
        out = {n: self.value(s) for n, s in names.items() if (s is not False and "allOf" not in s and r.random() < share) or (n in schema.get("required", []) and r.random() < 0.9)}
        if schema.get("additionalProperties") and r.random() < 0.6:
            out |= {n: self.value(schema["additionalProperties"]) for n in r.sample(OTHERS, r.randint(1, 2))}
        if "patternProperties" in schema and r.random() < 0.5:
            out |= {"y1": True}
        if r.random() < 0.04:
            out |= {r.choice(OTHERS): 1}
        return out

    def shuffled(self, value):
        if isinstance(value, dict):
            return Pairs([(k, self.shuffled(v)) for k, v in self.rng.sample(list(value.items()), len(value))])
        return [self.shuffled(v) for v in value] if isinstance(value, list) else value

    def twice(self, value, schema):
        """A listed member comes twice; None: there is none."""
        listed = [p for p in value.pairs if p[0] in schema["properties"]]
        if not listed:
            return None
        pairs = list(value.pairs)
        pairs.insert(self.rng.randint(0, len(pairs)), self.rng.choice(listed))
        return Pairs(pairs)

    def texts(self):
        """Values as they are written, and what each is: "open" is valid, and not to be taken for sure."""
        for i in range(9):
            value = self.instance(self.schema)
            written = self.shuffled(value)
            double = self.twice(written, self.schema) if i % 3 == 2 else None
            if double is not None:
                yield double, "twice", value
            else:
                valid = self.judge.is_valid(value)
                yield written, "invalid" if not valid else "valid" if known(value, self.schema) else "open", value


def known(value, schema):
    """No member has another name than the schema has, where it does not say that there may be others."""
    if not isinstance(value, dict) or not isinstance(schema, dict) or "properties" not in schema:
        return True
    stated = "additionalProperties" in schema
    for name, one in value.items():
        if name in schema["properties"]:
            if not known(one, schema["properties"][name]):
                return False
        elif not stated and not ("patternProperties" in schema and name.startswith("y")):
            return False
    return True


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def others(value, schema):
    if isinstance(value, dict) and isinstance(schema, dict) and "properties" in schema:
        return any(n not in schema["properties"] or others(v, schema["properties"][n]) for n, v in value.items())
    return False


def main():
    program, reply, count = sys.argv[1:4]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    rows = {}
    for line in subprocess.run([reply, "families"], capture_output=True, check=True).stdout.decode().splitlines():
        row = json.loads(line)
        rows.setdefault(row["name"], row["written"])
    cases = [Case(random.Random(seed * 1_000_003 + i)) for i in range(int(count))]
    made = [list(case.texts()) for case in cases]
    requests = [{"schema": c.schema, "families": FAMILIES, "texts": {f: [arguments_text(rows[f], written) for written, _, _ in texts] for f in FAMILIES}} for c, texts in zip(cases, made)]
    out = subprocess.run([program, "1", str(seed)], input="".join(json.dumps(r) + "\n" for r in requests), stdout=subprocess.PIPE, text=True, check=True).stdout
    counts, bad, refused = collections.Counter(), [], collections.Counter()
    for line in out.split("\n")[:-1]:
        family, controls, number, kind, *rest = line.split("\t")
        case = cases[int(number)]
        where = f"{family} {controls} schema {number} {json.dumps(case.schema)}: "
        if kind == "U":
            message = json.loads(rest[0])
            refused[message] += 1
        if kind == "C":
            call = json.loads(rest[0])["arguments"]
            counts["walks"] += 1
            if not case.judge.is_valid(call):
                bad.append(f"{where}a walk makes {json.dumps(call)}")
        if kind == "B":
            bad.append(f"{where}a walk makes no call: {rest[0]}")
        if kind != "T":
            continue
        written, what, value = made[int(number)][int(rest[0])]
        taken, read = rest[1] == "1", json.loads(rest[2])["arguments"] if rest[2] else None
        if what == "valid" and family in NO_OTHERS and others(value, case.schema):
            continue
        counts[what] += 1
        text = requests[int(number)]["texts"][family][int(rest[0])]
        if taken and what == "twice":
            bad.append(f"{where}takes {text}")
        if taken and what == "invalid" and (same(read, value) or not case.judge.is_valid(read)):  # bare text may be a string that is valid
            bad.append(f"{where}takes {text}")
        if not taken and what == "valid" and same(read, value):  # bare text may be another value for the reader
            bad.append(f"{where}does not take {text}")
        if taken and what == "valid" and not same(read, value):
            bad.append(f"{where}{text} is read as {rest[2]}")
    for message, n in refused.most_common(8):
        print(f"refused {n}: {message}")
    for line in sorted(bad, key=len)[:20]:
        print(line[:1200])
    print(f"{len(cases)} schemas in {len(FAMILIES)} families, {sum(refused.values())} refused: {counts['valid']} valid texts, {counts['invalid']} invalid, {counts['twice']} with a member twice, "
          f"{counts['walks']} walks, {len(bad)} wrong")
    return 1 if bad or min(counts["valid"], counts["invalid"], counts["twice"]) < 10 * len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
