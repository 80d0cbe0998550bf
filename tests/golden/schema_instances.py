"""Instances of a schema that may well be valid, and changed ones; a validator judges them. For schema_suites.py."""
import decimal
import json

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
            try:
                import rstr
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
            for p, schema in s["patternProperties"].items():
                try:
                    import rstr
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
