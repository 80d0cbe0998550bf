#!/usr/bin/env python3
"""JSON schemas, both ways: every answer that a sampler makes under a schema's masks is valid by PyPI jsonschema; every instance made here
from the schema, which jsonschema confirms, is taken; and a damaged instance is taken only where jsonschema still accepts it.

  schema_valid.py DUMP_PROGRAM bytes|model|MODEL.gguf GENERATIONS_PER_SCHEMA [SEED]     exit 77: skipped, no model or no jsonschema
  schema_valid.py schemas                                                              prints them, one a line: for tests/bench/bench_grammar
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import uuid

try:
    import jsonschema
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

STR, INT, NUM, BOOL, NULL = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))
DATE = {"type": "string", "format": "date", "examples": ["2024-02-29", "1999-12-31", "0001-01-01", "2000-02-29", "9999-11-30"]}


def obj(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required, **more}


def arr(items, **more):
    return {"type": "array", "items": items, **more}


def pattern(p, *examples):
    return {"type": "string", "pattern": p, "examples": list(examples)}


def fmt(f, *examples):
    return {"type": "string", "format": f, "examples": list(examples)}


SCHEMAS = [
    STR, INT, NUM, BOOL, NULL, {}, True,
    {"type": ["string", "null", "integer"]},
    {"type": "string", "minLength": 3, "maxLength": 9},
    {"type": "string", "maxLength": 40},
    {"enum": ["red", "green", "a\"b\\c\n", "\u00e9\u20ac\U0001F600", 17, -2.5, None, True, ["x", 1], {"k": "v", "n": []}]},
    {"const": {"answer": 42, "list": [1, 2, {"deep": None}]}},
    {"type": "integer", "minimum": 17, "maximum": 4099},
    {"type": "integer", "exclusiveMinimum": -1000, "exclusiveMaximum": 7},
    {"type": "integer", "minimum": 1},
    {"type": "integer", "maximum": -30},
    {"type": "number", "minimum": -1.25, "exclusiveMaximum": 3.5},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "number", "minimum": 0.001, "maximum": 0.0042},
    {"type": "number", "multipleOf": 1, "minimum": 9, "maximum": 1e3},
    arr(INT), arr(BOOL, minItems=2, maxItems=5), arr(arr(NUM, maxItems=3), minItems=1),
    {"type": "array", "prefixItems": [STR, INT, NULL], "items": BOOL, "minItems": 2, "maxItems": 6},
    {"type": "array", "prefixItems": [INT, INT], "items": False, "minItems": 2},
    obj({"name": STR, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "email": fmt("email", "a.b@example.org", "x@y.z")}, ["name", "age"]),
    obj({"a": INT, "b": STR, "c": NULL, "d": BOOL}, []),
    obj({"a": INT, "b": STR}, ["b"], additionalProperties=False),
    obj({"id": INT, "idx": STR}, ["id"], additionalProperties=NUM),
    obj({"x\"y": INT, "\u00fc": INT, "": NULL}, ["\u00fc"], additionalProperties=True),
    {"type": "object"}, {"type": "object", "additionalProperties": arr(STR, maxItems=2)},
    {"type": "object", "required": ["one", "two"]},
    obj({"shape": {"anyOf": [obj({"kind": {"const": "circle"}, "r": NUM}), obj({"kind": {"const": "box"}, "w": NUM, "h": NUM})]}}),
    {"oneOf": [STR, INT, arr(STR), obj({"t": {"const": 1}, "v": STR}), obj({"t": {"const": 2}, "w": INT})]},
    {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "number"}, {"type": "null"}]},
    {"type": "object", "properties": {"id": INT}, "required": ["id"], "anyOf": [{"properties": {"a": STR}, "required": ["a"]}, {"properties": {"b": BOOL}, "required": ["b"]}]},
    {"allOf": [obj({"a": INT}), obj({"b": STR, "a": {"minimum": 5}}, ["b"])]},
    {"allOf": [{"minimum": 3}, {"maximum": 12}, INT]},
    {"$defs": {"tree": obj({"value": INT, "children": arr({"$ref": "#/$defs/tree"}, maxItems=3)}, ["value"])}, "$ref": "#/$defs/tree"},
    {"definitions": {"node": obj({"v": STR, "next": {"anyOf": [NULL, {"$ref": "#/definitions/node"}]}})}, "allOf": [{"$ref": "#/definitions/node"}]},
    obj({"self": {"$ref": "#"}, "n": BOOL}, ["n"]),
    {"$defs": {"a/b": INT, "p%q": STR}, "type": "array", "prefixItems": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/p%25q"}], "minItems": 2},
    pattern("^[A-Z]{2}-[0-9]{3,5}$", "AB-123", "ZZ-99999"), pattern("^(foo|bar)+(\\.[a-z]+)*$", "foo", "barfoo.x.yz"),
    pattern("cat", "cat", "a cat\n", "\U0001F408cat\"s\\"), pattern("^\\d+(?:px|em)?$|^auto$", "12px", "0", "auto"),
    pattern("^[^\\s\"]+ \\S.{0,5}[\\w\\-]$", "a bb_", "\u00fc\\ x12345z"), pattern("^[\\u00e0-\\u00ff\\x41]*$", "", "\u00e9A\u00ff"),
    pattern("^\"[\\\\/]\\t?\"$", "\"\\\"", "\"/\t\""), pattern("", "", "anything"), pattern("^a{2,3}?b*?[]x]$|^[^a]$" .replace("[]x]", "[x\\]]"), "aabb]", "aaax", "b"),
    DATE, fmt("time", "23:59:59Z", "00:00:00.123+05:30"), fmt("date-time", "2024-02-29T12:00:00Z", "1970-01-01T00:00:00.5-08:00"),
    fmt("uuid", "123e4567-e89b-12d3-a456-426614174000"), fmt("ipv4", "127.0.0.1", "255.255.255.0", "1.20.3.199"),
    fmt("hostname", "example.org", "a-b.c"), fmt("uri", "https://example.org/a/b?x=1#y", "ftp://h:21"), fmt("password", "x", ""),
    obj({"title": STR, "tags": arr({"enum": ["a", "b", "c"]}, maxItems=4), "date": DATE, "score": {"type": "number", "minimum": 0, "maximum": 1},
         "meta": obj({"ok": BOOL, "note": {"type": ["string", "null"], "maxLength": 20}}, ["ok"])}, ["title", "score"], title="T", description="d"),
]


class Maker:
    """A valid instance's text. Strings of a pattern or format are taken from `examples`."""

    def __init__(self, root, rng):
        self.root, self.rng = root, rng

    def space(self):
        return self.rng.choice(["", "", "", " ", "\n", "\n  ", "\n" + " " * 40])

    def free_string(self, low, high):
        pool = ["a", "Z", " ", "\"", "\\", "/", "\n", "\x01", "\x7f", "\u00e9", "\u2028", "\uffff", "\U0001F600", "\U0010FFFF", "7"]
        value = "".join(self.rng.choice(pool) for _ in range(self.rng.randint(low, high)))
        return json.dumps(value, ensure_ascii=self.rng.random() < 0.5)

    def exact(self, value):
        if isinstance(value, list):
            return "[" + ("," + self.space()).join(self.exact(v) for v in value) + "]"
        if isinstance(value, dict):
            return "{" + ("," + self.space()).join(self.exact(k) + ":" + self.rng.choice(["", " "]) + self.exact(v) for k, v in value.items()) + "}"
        return json.dumps(value, ensure_ascii=False)

    def number(self, s, integer):
        whole = integer or s.get("multipleOf") == 1
        low, high = s.get("minimum", s.get("exclusiveMinimum")), s.get("maximum", s.get("exclusiveMaximum"))
        if low is None and high is None:
            low, high = -10**self.rng.randint(0, 15), 10**self.rng.randint(0, 15)
        low = high - 10**self.rng.randint(0, 9) if low is None else low
        high = low + 10**self.rng.randint(0, 9) if high is None else high
        for _ in range(1000):
            value = self.rng.randint(-int(-low // 1), int(high // 1)) if whole else round(self.rng.uniform(low, high), self.rng.randint(0, 6))
            value = self.rng.choice([value, value, low, high])
            value = int(value) if value == int(value) else value
            if abs(value) < 10**15 and jsonschema.Draft202012Validator(s).is_valid(value) and "e" not in repr(value) and len(re.sub("[-.]", "", repr(value)).lstrip("0")) <= 15:
                return repr(value)
        raise ValueError(f"no number for {s}")

    def anything(self, depth):
        kinds = [lambda: self.make(t, depth + 1) for t in (STR, INT, NUM, BOOL, NULL)]
        if depth < 4:
            kinds += [lambda: self.make(arr({}, maxItems=3), depth + 1), lambda: self.make({"type": "object"}, depth + 1)]
        return self.rng.choice(kinds)()

    def make(self, s, depth=0):
        if depth > 40:
            raise RecursionError
        if s is True or not (set(s) - {"title", "description", "examples", "$defs", "definitions"}):
            return self.anything(depth)
        if "$ref" in s:
            at = self.root
            for part in s["$ref"].split("/")[1:]:
                at = at[part.replace("%25", "%").replace("~1", "/").replace("~0", "~")]
            return self.make(at, depth + 1)
        if "const" in s:
            return self.exact(s["const"])
        if "enum" in s:
            return self.exact(self.rng.choice(s["enum"]))
        for keyword in ("anyOf", "oneOf"):
            if keyword in s:
                rest = {k: v for k, v in s.items() if k != keyword}
                branch = self.rng.choice(s[keyword] if depth < 8 else s[keyword][:1])
                return self.make(self.merged([rest, branch]) if "type" in rest else branch, depth + 1)
        if "allOf" in s:
            return self.make(self.merged(s["allOf"]), depth + 1)
        if "examples" in s:
            return self.exact(self.rng.choice(s["examples"]))
        kind = s.get("type", "object")
        kind = self.rng.choice(kind) if isinstance(kind, list) else kind
        if kind in ("integer", "number"):
            return self.number(s, kind == "integer")
        if kind == "string":
            low = s.get("minLength", 0)
            return self.free_string(low, s.get("maxLength", low + 8))
        if kind == "boolean":
            return self.rng.choice(["true", "false"])
        return {"null": lambda *_: "null", "array": self.array, "object": self.object}[kind](s, depth)

    def merged(self, parts):
        out = {}
        for part in parts:
            for key, value in part.items():
                if key == "properties":
                    mine = out.setdefault(key, {})
                    for name, schema in value.items():
                        mine[name] = {**mine.get(name, {}), **schema}
                elif key == "required":
                    out[key] = out.get(key, []) + value
                else:
                    out[key] = value
        return out

    def enclosed(self, items, ends):
        if not items:
            return ends
        return ends[0] + self.space() + ("," + self.space()).join(items) + self.space() + ends[1]

    def array(self, s, depth):
        prefix, rest = s.get("prefixItems", []), s.get("items", True)
        low = s.get("minItems", 0)
        high = s.get("maxItems", low + (4 if depth < 5 else 0))
        high = min(high, len(prefix)) if rest is False else high
        count = self.rng.randint(low, max(low, high if depth < 5 else low))
        return self.enclosed([self.make(prefix[i] if i < len(prefix) else rest, depth + 1) for i in range(count)], "[]")

    def object(self, s, depth):
        members, required = [], s.get("required", [])
        properties = {**s.get("properties", {}), **{n: s.get("additionalProperties", True) for n in required if n not in s.get("properties", {})}}
        add = lambda name, schema: members.append(self.exact(name) + ":" + self.rng.choice(["", " "]) + self.make(schema, depth + 1))
        for name, schema in properties.items():
            if name in required or self.rng.random() < (0.5 if depth < 6 else 0):
                add(name, schema)
        others = s.get("additionalProperties", True if "properties" not in s else False)
        if others is not False:
            for name in self.rng.sample(["i", "idxx", "x", "x\"z", "\u00fd", "\n\x02", "\U0001F600", "zz top", "O"], self.rng.randint(0, 3 if depth < 6 else 0)):
                if name not in properties:
                    add(name, others)
        return self.enclosed(members, "{}")


def formatted(schema, value):
    """The formats that jsonschema leaves to packages of its own, for the schemas above whose value is one string."""
    name = schema.get("format") if isinstance(schema, dict) else None
    import datetime
    if name in ("time", "date-time"):
        date, time = ("1970-01-01", value) if name == "time" else value.split("T")
        datetime.date.fromisoformat(date)
        datetime.time.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", re.sub(r"\.(\d{1,5})(?=[Z+-])", lambda m: "." + m[1].ljust(6, "0"), time)).replace("Z", "+00:00"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", date) and re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", time), value
    if name == "uuid":
        assert str(uuid.UUID(value)) == value.lower(), value
    if name == "hostname":
        assert re.fullmatch(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*", value), value
    if name == "uri":
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*", value), value


def fault(validator, schema, text):
    """Why a text is no valid answer, or None."""
    try:
        text = text.decode()
        value = json.loads(text, parse_constant=lambda c: (_ for _ in ()).throw(ValueError(c)))
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
        for error in validator.iter_errors(value):
            return error.message
        formatted(schema, value)
    except (ValueError, AssertionError) as e:
        return f"{type(e).__name__}: {e}"
    return None


def damaged(text, rng):
    text = bytearray(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        kind = rng.randrange(4)
        if kind == 0:
            text[at] = rng.choice(b'"\\{}[]:, 0123456789abcdefnrtu-+.eE\n')
        elif kind == 1 and len(text) > 1:
            del text[at]
        elif kind == 2:
            text.insert(at, rng.choice(b'"\\{}[]:, 0129azE.-'))
        else:
            text[at:at] = text[at:at + rng.randint(1, 6)]
    return bytes(text)


def sized(data):
    return struct.pack("<I", len(data)) + data


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data), "the dump's reply is cut short"
        self.at += n
        return self.data[self.at - n:self.at]

    def string(self):
        return self.take(struct.unpack("<I", self.take(4))[0])


def main(program, model, generations, seed):
    if model == "model":
        model = os.environ.get("KVRT_MODEL", os.path.expanduser("~/.cache/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf"))
        if not os.path.exists(model):
            print("skipped: no", model)
            sys.exit(77)
    rng = random.Random(seed)
    requests, instances = b"", []
    for schema in SCHEMAS:
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        validator.check_schema(schema)
        maker = Maker(schema, rng)
        valid = [maker.make(schema).encode() for _ in range(25)]
        for text in valid:
            assert fault(validator, schema, text) is None, ("an instance made here is wrong", schema, text)
        texts = valid + [damaged(t, rng) for t in valid]
        texts = [t for t in texts if b"\x04" not in t and is_utf8(t)]  # text only: the tokenizer takes nothing else
        instances.append((schema, validator, valid, texts))
        requests += struct.pack("<IIIIQ", 1, generations, len(texts), 160, rng.getrandbits(40)) + sized(json.dumps(schema).encode())
        requests += b"".join(map(sized, texts))
    run = subprocess.run([program, model], input=requests, stdout=subprocess.PIPE)
    assert run.returncode == 0, f"the dump exits with {run.returncode}"
    reader, faults, count, taken, refused = Reader(run.stdout), [], 0, 0, 0
    for schema, validator, valid, texts in instances:
        (status,) = struct.unpack("<I", reader.take(4))
        message = reader.string().decode()
        if status:
            faults.append(f"{schema}: {message}")
            continue
        answers = [reader.string() for _ in range(generations)]
        for text in answers:
            count += 1
            why = fault(validator, schema, text)
            if why:
                faults.append(f"{schema}: answer {text!r}: {why}")
        if generations > 20 and len(set(answers)) == 1 and schema != NULL and "const" not in str(schema):
            faults.append(f"{schema}: {generations} answers are all {answers[0]!r}")
        for text in texts:
            accepted = {b"\0": False, b"\1": True}[reader.take(1)]
            if text in valid and not accepted:
                faults.append(f"{schema}: {text!r} is valid and not taken")
            if accepted and fault(validator, schema, text):
                faults.append(f"{schema}: {text!r} is taken: {fault(validator, schema, text)}")
            taken, refused = taken + accepted, refused + (not accepted)
    assert reader.at == len(run.stdout)
    assert refused > 100 and taken > 500, (taken, refused)
    print(f"{len(SCHEMAS)} schemas, {count} answers, {taken} instances taken, {refused} refused, {len(faults)} faults (seed {seed})")
    for line in faults[:20]:
        print(line[:1000])
    sys.exit(bool(faults))


def is_utf8(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


if sys.argv[1] == "schemas":
    print(*map(json.dumps, SCHEMAS), sep="\n")
    sys.exit()
main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
