"""What kvrt.h says of its declarations: the words of their comments, and the role that a field or parameter has beyond its type.

A comment before a declaration is its doc, or one behind it that begins with /**<. A function's comment says in its list what parameters are.
"""
import re

TOKEN = re.compile(r"""/\*\*<(?P<after>.*?)\*/ | /\*\*(?P<before>.*?)\*/ | //[^\n]* | /\*.*?\*/
    | ^\#(?:[^\n]*\\\n)*[^\n]*$
    | typedef\ struct\ \w+\ (?P<handle>\w+);
    | typedef\ struct\ \w+\ \{ (?P<struct>)
    | \}\ (?P<end>\w+);
    | (?P<enum>enum)\ \{ | \};
    | (?P<value>KVRT_\w+)\ =\ [^,\n/]+,?
    | typedef\ [^;]*?\(\*(?P<callback>\w+)\)\([^;]*;
    | typedef\ \w+\ (?P<typedef>\w+);
    | KVRT_API\ [^;(]*?(?P<function>kvrt_\w+)\([^;]*;
    | (?P<field>[a-z][\w\ *]*?[\ *]\w+(?:\[\w+\])?);""", re.VERBOSE | re.DOTALL | re.MULTILINE)


def clean(comment):
    """A comment's text: a paragraph, an item of a list and a row of a table have a line each."""
    lines = [re.sub(r"^ *\* ?", "", line).rstrip() for line in comment.strip().split("\n")]
    out, at = [], None
    for line in lines:
        if not line or line.startswith(("    ", "- ")):
            out.append(line)
            at = None if not line or line.startswith("    ") else len(out) - 1
        elif at is None:
            out.append(line.strip())
            at = len(out) - 1
        else:
            out[at] += " " + line.strip()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip("\n")


def of_header(text):
    """The docs by name; those of fields by (struct, field), those of an enumeration by the name of its first value and "enum"."""
    docs, before, struct, enum, last = {}, None, None, None, None
    fields = []
    for m in TOKEN.finditer(text):
        kind = m.lastgroup
        if kind == "before":
            before = None if "@" in m["before"] else clean(m["before"])
        elif kind == "after":
            docs[last] = clean(m["after"])
        elif kind == "struct":
            struct, fields, enum = before, [], None
            before = None
        elif kind == "end":
            docs |= {(m["end"], name): doc for name, doc in fields} | {m["end"]: struct}
            docs |= {(m["end"], name): docs.pop(("?", name)) for name, doc in fields if ("?", name) in docs}
            struct = None
        elif kind == "enum":
            enum, before = before, None
            first = True
        elif kind == "value":
            if first:
                docs[m["value"], "enum"], first = enum, False
            last = m["value"]
            docs[last], before = before, None
        elif kind == "field":
            name = re.search(r"(\w+)(\[\w+\])?$", m["field"])[1]
            fields.append((name, before))
            last, before = ("?", name), None
        elif kind:
            last = m[kind]
            docs[last], before = before, None
        else:
            before = None
    return docs


def parameters(doc):
    """What a function's list says of its parameters, by name: "- `text`, capacity, needed: the bytes." is of all three."""
    found = {}
    for item in re.findall(r"^- (.*)$", doc or "", re.MULTILINE):
        m = re.match(r"(`\*?\w+`(?:, `?\w+`?)*): (.*)", item)
        for name in re.findall(r"\w+", m[1]) if m else ():
            found[name] = m[2][0].upper() + m[2][1:]
    return found


def role(abi, name, declared, doc, of_field):
    """text, path, json, flag, enum, handle, callback, list or user; none: a number, or a struct of the caller's. `of_field` gives the
    doc of the same field elsewhere, for "As in kvrt_model_options"; None: it is a parameter."""
    as_in = re.match(r"As in (kvrt_\w+)", doc or "")
    if as_in and of_field and of_field(as_in[1], name):
        doc = of_field(as_in[1], name)
    base = declared.split("[")[0]
    plain = base.replace("const ", "").rstrip("*")
    if plain in abi["callbacks"]:
        return {"role": "callback"}
    if plain in abi["handles"]:
        return {"role": "handle"}
    if base == "void*":
        return {"role": "user"}
    if base in ("const char*", "char") and (base != "char" or "[" in declared):
        if re.match(r"Path of|The directory of|The file", doc or "") or name == "path":
            return {"role": "path"}
        return {"role": "json" if re.match(r"A JSON", doc or "") else "list" if re.match(r"Texts ", doc or "") else "text"}
    if base.startswith("const ") and base.endswith("*"):
        return {} if plain in abi["structs"] and name not in ("logit_bias", "top") else {"role": "list"}
    if base == "kvrt_status":
        return {"role": "enum", "enum": "KVRT"}
    named = re.search(r"KVRT_([A-Z0-9_]+?)_\.\.\.", doc or "")
    if named and base in ("int32_t", "uint32_t"):
        return {"role": "enum", "enum": "KVRT_" + named[1]}
    if of_field and base == "uint32_t" and re.search(r"^[01]: ", doc or "") and not re.search(r"\b2: ", doc):
        return {"role": "flag"}
    return {}


def describe(found, text):
    """Adds docs and roles to what abi.py found: `doc` of fields and parameters, and `docs` of all else by
    name; that of an enumeration is "enum KVRT_DEVICE", for KVRT_DEVICE is a status, too."""
    docs = of_header(text)
    said = lambda doc: {"doc": doc} if doc else {}
    for name, struct in found["structs"].items():
        for field in struct["fields"]:
            doc = docs.get((name, field["name"]))
            field |= role(found, field["name"], field["type"], doc, lambda s, f: docs.get((s, f))) | said(doc)
    for name, function in [*found["functions"].items(), *found["callbacks"].items()]:
        listed = parameters(docs.get(name))
        for p in function["parameters"]:
            doc = listed.get(p["name"])
            p |= role(found, p["name"], p["type"], doc, None) | said(doc)
    found["docs"] = {}
    for enum, values in found["enums"].items():
        found["docs"] |= {f"enum {enum}": docs.get((next(iter(values)), "enum"))} | {value: docs.get(value) for value in values}
    for name in [*found["handles"], *found["typedefs"], *found["callbacks"], *found["structs"], *found["functions"]]:
        found["docs"][name] = docs.get(name)
    found["docs"] = {name: doc for name, doc in found["docs"].items() if doc}
