"""The Python package's enums and values, made of include/kvrt.abi.json."""
from phrases import BY_HAND, FLAGS, MADE, Tongue, camel, enum_type, info_type, wrapped

NAMES = {"KVRT_SAMPLER": "SamplerKind"}
CALLS = {"kvrt_runtime_open": "Runtime", "kvrt_model_open": "Runtime.open_model", "kvrt_model_plan": "Runtime.plan", "kvrt_model_inspect": "Runtime.inspect",
         "kvrt_store_open": "Runtime.open_store", "kvrt_store_repair": "Runtime.repair_store", "kvrt_session_open": "Model.open_session",
         "kvrt_session_resume": "Model.resume"}


def tongue(abi):
    return Tongue(abi, struct=info_type, enum=lambda e: enum_type(e, NAMES.items()), field=lambda f: f, value=lambda e, v: v.removeprefix(e + "_"),
                  call=lambda verb: verb, calls=CALLS, null="None", true="True: ")


def docstring(doc, indent):
    """The lines of a docstring behind what it is about."""
    before, quotes = " " * indent, '"' * 3
    if not doc:
        return []
    lines = wrapped(doc.replace("\\", "\\\\").replace(quotes, "'" * 3), 150 - indent, "")
    lines[0] = quotes + lines[0]
    lines[-1] += " " + quotes if lines[-1].endswith('"') else quotes
    return [(before + line).rstrip() for line in lines]


def enums(abi, say):
    out = [f'"""The enums of the library. {MADE}"""', "from typing import Dict, Type, Union", "", "from ._base import Open, OpenFlag"]
    for enum, values in abi.enums.items():
        out += ["", "", f"class {say.enum(enum)}({'OpenFlag' if enum in FLAGS else 'Open'}):"] + docstring(say.say(abi.docs["enum " + enum], own=enum), 4) + [""]
        for value, number in values.items():
            out += [f"    {say.value(enum, value)} = {number}"] + docstring(say.say(abi.docs[value], own=enum), 4)
    options = {f["name"]: f for name, s in abi.structs.items() if name.endswith("_options") for f in s["fields"]}
    out += ["", "", "# By the names that they have in the header.", "ENUMS: Dict[str, Union[Type[Open], Type[OpenFlag]]] = {"]
    out += [f'    "{enum}": {say.enum(enum)},' for enum in abi.enums] + ["}", "", "# The options whose number is a value of an enum.", "OPTIONS: Dict[str, Type[Open]] = {"]
    out += [f'    "{name}": {say.enum(f["enum"])},' for name, f in options.items() if "enum" in f] + ["}", "", "# The options that are 0 or 1.", "FLAGS = {"]
    return "\n".join(out + [f'    "{name}",' for name, f in options.items() if f.get("role") == "flag"] + ["}", ""])


def field_type(abi, say, field):
    base, count = abi.plain(field["type"])
    kind = ("bool" if field.get("role") == "flag" else say.enum(field["enum"]) if "enum" in field else "str" if base == "char"
            else "float" if base in ("float", "double") else "int")
    return f"Tuple[{kind}, ...]" if count and base != "char" else kind


def values(abi, say):
    made = [name for name in abi.structs if not name.endswith("_options") and name not in BY_HAND]
    named = {say.enum(f["enum"]) for name in made for f in abi.shown(name) if "enum" in f}
    out = [f'"""What the library tells, as Python sees it. {MADE}"""', "from __future__ import annotations", "", "import dataclasses", "from typing import Tuple",
           "", f"from ._enums import {', '.join(sorted(named))}"]
    for name in made:
        out += ["", "", "@dataclasses.dataclass(frozen=True)", f"class {info_type(name)}:"] + docstring(say.say(abi.docs[name]), 4) + [""]
        for field in abi.shown(name):
            out += [f"    {field['name']}: {field_type(abi, say, field)}"] + docstring(say.say(field["doc"], field.get("role")), 4)
    return "\n".join(out + [""])


def files(abi):
    say = tongue(abi)
    return {"bindings/python/kvrt/_enums.py": enums(abi, say), "bindings/python/kvrt/_values.py": values(abi, say)}
