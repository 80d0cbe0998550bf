"""kvrt.abi.json for those who make bindings of it: its parts, and its words in the words of a language.

A doc of kvrt.h speaks C: NULL, kvrt_session_next, KVRT_REASON_EOS, 1 for true. A Tongue says the same in a language's own names. What it cannot
say fails: no name that begins with kvrt_, no NULL and no type of C gets into a made doc.
"""
import collections
import json
import re
import textwrap


class Abi:
    def __init__(self, text):
        described = json.loads(text)
        self.library, self.version = described["library"], described["abi_version"]
        self.typedefs, self.handles = described["typedefs"], described["handles"]
        self.callbacks, self.enums = described["callbacks"], described["enums"]
        self.structs, self.functions = described["structs"], described["functions"]
        self.docs = collections.defaultdict(str, described["docs"])
        self.enum_of = {value: enum for enum, values in self.enums.items() for value in values}

    def plain(self, declared):
        """A type without its typedef, and the length of an array."""
        array = re.fullmatch(r"(.+)\[(\d+)\]", declared)
        name, count = (array[1], int(array[2])) if array else (declared, None)
        return self.typedefs.get(name, name), count

    def shown(self, struct):
        """The fields that a program sees: no struct_size, no size beside a pointer, nothing that belongs to a callback."""
        fields = self.structs[struct]["fields"]
        pointers = {f["name"] for f in fields if self.plain(f["type"])[0].endswith("*")}
        for field in fields:
            name = field["name"]
            base = re.sub(r"_(size|count)$", "", name)
            if name not in ("struct_size", "reserved") and not name.endswith(("_user", "_user_free")) and (
                    base == name or not {base, base + "s"} & pointers):
                yield {"doc": "", **field}

    def signed(self, enum):
        """Whether the header gives an enumeration's values as int32_t."""
        return enum in ("KVRT", "KVRT_DETAIL", "KVRT_LOG")


def camel(name):
    return "".join(word.capitalize() for word in name.removeprefix("kvrt_").split("_"))


def info_type(struct):
    """What a program calls a struct of outputs: kvrt_store_props is StoreInfo."""
    return camel(struct.replace("_props", "_info"))


# Each enumeration of kvrt.h: its type, where a language has no other name for it.
ENUMS = {"KVRT": "Status", "KVRT_REUSE": "ReuseStopped", "KVRT_LOG": "LogLevel", "KVRT_KV": "KvFormat", "KVRT_TEXT": "TextFlags", "KVRT_INSPECT": "InspectFlags",
         "KVRT_EVENT": "EventType", "KVRT_REPAIR": "RepairOutcome", "KVRT_GROUP": "GroupKind", "KVRT_GRAMMAR": "GrammarKind"}
FLAGS = ("KVRT_TEXT", "KVRT_INSPECT")
# What a made file says of itself.
MADE = "Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."
# The structs of one event, message or failure: their likes in a language are by hand.
BY_HAND = {"kvrt_error", "kvrt_event", "kvrt_token_value", "kvrt_message_props"}
# A name of C in a doc: a field or a struct, a function, a constant; or any name of several words.
NAME = r"\bkvrt_\w+\.\w+|\b[kK][vV][rR][tT]_\w+|\b[a-z]+(?:_[a-z0-9]+)+"
# Words that only look like constants.
VARIABLES = ("KVRT_CACHE",)


def enum_type(enum, names=()):
    return dict(names).get(enum) or ENUMS.get(enum) or camel(enum.removeprefix("KVRT_").lower())


class Tongue:
    """How a language says things. `struct` and `enum` give types, `field` a field's name, `value` an enumerator's, `calls` the functions whose
    name is not Noun.verb, `null` and `empty` NULL of a pointer and of a text, `true` and `false` the beginning of a flag's doc. `spell`: the
    bare names of an enumeration's values, too, are as the language has them."""

    def __init__(self, abi, *, struct, enum, field, value, call, calls, null, empty=None, dot=".", true="True: ", false="False: ", code="{}",
                 spell=False):
        self.abi, self.struct, self.enum, self.field, self.value, self.call = abi, struct, enum, field, value, call
        self.calls, self.null, self.empty, self.dot, self.true, self.false, self.code, self.spell = calls, null, empty or null, dot, true, false, code, spell
        self.fields = {f["name"] for s in abi.structs.values() for f in s["fields"] if "_" in f["name"]}

    def function(self, name):
        noun, verb = name.removeprefix("kvrt_").split("_", 1)
        return self.calls.get(name) or camel(noun) + self.dot + self.call(verb)

    def constant(self, name):
        enum = self.abi.enum_of[name]
        return self.enum(enum) + self.dot + self.value(enum, name)

    def word(self, m):
        """A name of C in the language."""
        name, field = m[0], None
        if "." in name:
            name, field = name.split(".")
        if name in VARIABLES or name.rstrip("_") in VARIABLES:
            return m[0]
        if name in self.abi.structs:
            return self.code.format(self.struct(name) + (self.dot + self.field(field) if field else ""))
        if name in self.abi.functions:
            return self.code.format(self.function(name))
        if "kvrt_" + name in self.abi.functions and "_" in name and name not in self.fields:
            return self.code.format(self.function("kvrt_" + name))
        if name in self.abi.enum_of:
            return self.code.format(self.constant(name))
        return self.field(name) if name in self.fields else m[0]

    def say(self, doc, role=None, own=None):
        """A doc in the language. `role` is the field's, `own` the enumeration that it is about."""
        if not doc:
            return ""
        doc = re.sub(r"(?:[;,] |\b(?:Texts are )|)NUL-terminated\b[.;]? ?|(?:[;,] )?each ended by a NUL(?=[;.])|, the NULs included", "", doc)
        doc = re.sub(r'^("": [^;]*?);?$', r"\1.", doc.strip()) if doc.strip().endswith(";") else doc.strip()
        doc = re.sub(r"A call whose `err` has a wrong struct_size is INVALID and does nothing\.", "", doc).strip()
        doc = re.sub(r": \w+_user_free [^.]*", "", doc)
        if own:
            doc = re.sub(r"^kvrt_\w+\.\w+: (.)", lambda m: m[1].upper(), doc)
        named = re.search(r"KVRT_[A-Z0-9_]+?(?=_\.\.\.)", doc) if role else None
        if named:
            lead = re.split(r"(?<=\w)[.:;] ", self.abi.docs["enum " + named[0]] if not self.abi.docs["enum " + named[0]].startswith("kvrt_") else
                            self.abi.docs["enum " + named[0]].split(": ", 1)[1])[0].rstrip(".")
            before, after = doc.split(named[0] + "_...")
            after = after if not after or after[0] in ",;:" else "." + after
            doc = before + (lead[0].lower() if before else lead[0].upper()) + lead[1:] + (after or ".")
        if role == "flag":
            doc = re.sub(r"(^|^\w+: |[;:] |\. )1: ([\w`])", lambda m: m[1] + (self.true + m[2] if self.true else m[2].upper()), doc)
            doc = re.sub(r"(^|[;:] |\. )0: ", lambda m: m[1].replace("; ", ". ") + self.false, doc)
        doc = re.sub(r"\bNULL\b", self.empty if role in ("text", "path", "json") else self.null, doc)
        doc = "\n".join(self.line(line, own) for line in doc.split("\n"))
        doc = re.sub(r"^([a-z])(?=[a-z]*[ ,.:])", lambda m: m[1].upper(), doc)
        doc += "" if doc.endswith((".", ":", '"', "*/")) or doc.split("\n")[-1].startswith(("    ", "- ")) else "."
        self.check(doc)
        return doc

    def line(self, line, own):
        """A line of a doc in the language. A table keeps its columns, and the bare names in it."""
        if line.startswith("    "):
            cells = re.split(r"( {2,})", line[4:])
            said = [re.sub(NAME, self.word, cell) for cell in cells]
            for i in range(1, len(cells), 2):
                said[i] = " " * max(2, len(cells[i]) + len(cells[i - 1]) - len(said[i - 1]))
            return "    " + "".join(said)
        line = re.sub(NAME, self.word, line)
        if own and self.spell:
            line = re.sub(r"\b[A-Z][A-Z0-9_]+\b", lambda m: self.value(own, f"{own}_{m[0]}") if f"{own}_{m[0]}" in self.abi.enums[own] else m[0], line)
        return line

    def check(self, doc):
        names = [w for w in re.findall(r"\b(?:kvrt|KVRT)_\w+|\bNULL?\b|\bstruct_size\b|\bsize_t\b|\bu?int\d+_t\b", doc) if w.rstrip("_") not in VARIABLES]
        if names:
            raise SystemExit(f"raw: a name of C in a made doc: {', '.join(names)}: {doc!r}")


def prose(doc):
    """A doc's paragraphs: (kind, text), of which a "table" keeps its lines."""
    for part in re.split(r"\n\n+", doc):
        lines = part.split("\n")
        at = 0
        while at < len(lines):
            end = at + 1
            table = lines[at].startswith("    ")
            while table and end < len(lines) and lines[end].startswith("    "):
                end += 1
            kind = "table" if table else "item" if lines[at].startswith("- ") else "text"
            yield kind, "\n".join(lines[at:end])
            at = end


def wrapped(doc, width, prefix, table="    "):
    """Lines of a comment, each with `prefix`; `table` is before each line of a table."""
    out, before = [], None
    for kind, text in prose(doc) if doc else ():
        if before and (kind, before) != ("item", "item"):
            out.append(prefix.rstrip())
        if kind == "table":
            out += [(prefix.rstrip() if table == "\t" else prefix) + table + line[4:] for line in text.split("\n")]
        else:
            out += textwrap.wrap(text, width, initial_indent=prefix, subsequent_indent=prefix + ("  " if kind == "item" else ""),
                                 break_long_words=False, break_on_hyphens=False)
        before = kind
    return out
