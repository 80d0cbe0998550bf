#!/usr/bin/env python3
"""What is made of include/kvrt.abi.json for the bindings: the raw layers, which are kvrt.h's structs, constants and functions as each language
declares them, and with made_*.py the enums, values and options that programs see, with their docs.

  raw.py check --source DIR     fails where a file differs from what write makes
  raw.py write --source DIR     writes them anew (./dev abi does, too)

Each raw layer names in one table the size of every struct and the offset of every field, so that a binding compares with the library that it loads.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import made_csharp  # noqa: E402
import made_go  # noqa: E402
import made_python  # noqa: E402
import made_rust  # noqa: E402
from phrases import MADE, Abi, camel  # noqa: E402


# ---- Rust ---------------------------------------------------------------------------------------------------------------------------

RUST = {"void": "c_void", "char": "c_char", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "float": "f32",
        "double": "f64", "size_t": "usize"}


def rust_type(abi, declared):
    name, count = abi.plain(declared)
    stars = len(name) - len(name.rstrip("*"))
    base, constant = name.rstrip("*").removeprefix("const "), name.startswith("const ")
    out = RUST.get(base) or (f"Option<{base}>" if base in abi.callbacks else base)
    for i in range(stars):
        out = f"*{'const' if constant and i == 0 else 'mut'} {out}"
    return f"[{out}; {count}]" if count else out


def rust_signature(abi, function, names=True):
    given = [(f"{p['name']}: " if names else "") + rust_type(abi, p["type"]) for p in function["parameters"]]
    result = "" if function["result"] == "void" else f" -> {rust_type(abi, function['result'])}"
    return f"({', '.join(given)}){result}"


def rust_field(field):
    return "type_" if field["name"] == "type" else field["name"]


def rust_constant_type(enum):
    return "i32" if enum in ("KVRT", "KVRT_DETAIL", "KVRT_LOG") else "u32"


def rust(abi):
    out = [f"// {MADE}", "use std::os::raw::{c_char, c_void};", "", f"pub const KVRT_ABI_VERSION: u32 = {abi.version};"]
    for alias, name in abi.typedefs.items():
        out.append(f"pub type {alias} = {RUST[name]};")
    for enum, values in abi.enums.items():
        out += [""] + [f"pub const {name}: {rust_constant_type(enum)} = {value};" for name, value in values.items()]
    for name in abi.handles:
        out += ["", "#[repr(C)]", f"pub struct {name} {{", "    _opaque: [u8; 0],", "}"]
    out.append("")
    for name, callback in abi.callbacks.items():
        out.append(f"pub type {name} = unsafe extern \"C\" fn{rust_signature(abi, callback)};")
    for name, struct in abi.structs.items():
        out += ["", "#[repr(C)]", "#[derive(Clone, Copy)]", f"pub struct {name} {{"]
        out += [f"    pub {rust_field(f)}: {rust_type(abi, f['type'])}," for f in struct["fields"]] + ["}"]
    out += ["", "extern \"C\" {"] + [f"    pub fn {name}{rust_signature(abi, f)};" for name, f in abi.functions.items()] + ["}"]
    out += ["", "/// Each struct, its size, and its fields with their offsets, as Rust lays them out.", "pub fn layout() -> Vec<crate::Layout> {",
            "    vec!["]
    out += [f"        layout!({name} {{ {', '.join(rust_field(f) for f in struct['fields'])} }})," for name, struct in abi.structs.items()]
    return "\n".join(out + ["    ]", "}", ""])


# ---- C# -----------------------------------------------------------------------------------------------------------------------------

CSHARP = {"char": "byte", "int32_t": "int", "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong", "size_t": "UIntPtr"}
CSHARP_WORDS = {"event", "out", "params", "ref", "in"}


def csharp_type(abi, declared, owned=False):
    """A pointer to a handle is its SafeHandle, or with `owned` an IntPtr: of what retains, releases and closes. A callback is an IntPtr."""
    name, _ = abi.plain(declared)
    base, stars = name.replace("const ", "").rstrip("*"), name.count("*")
    if base in abi.handles:
        return "IntPtr" if owned else ("out " if stars == 2 else "") + camel(base) + "Handle"
    if base in abi.callbacks or (base, stars) == ("void", 1):
        return "IntPtr"
    return CSHARP.get(base, base) + "*" * stars


def csharp_parameters(abi, function, owned=False):
    named = lambda name: "@" + name if name in CSHARP_WORDS else name
    return ", ".join(f"{csharp_type(abi, p['type'], owned)} {named(p['name'])}" for p in function["parameters"])


def csharp_field(abi, field):
    _, count = abi.plain(field["type"])
    kind = csharp_type(abi, field["type"].split("[")[0], owned=True)
    return f"[FieldOffset({field['offset']})] internal {f'fixed {kind} ' if count else f'{kind} '}{field['name']}{f'[{count}]' if count else ''};"


def csharp(abi):
    out = [f"// {MADE}", "using System;", "using System.Runtime.InteropServices;", "", "namespace Kvrt", "{"]
    for name, callback in abi.callbacks.items():
        out += ["    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]",
                f"    internal unsafe delegate {csharp_type(abi, callback['result'])} {name}({csharp_parameters(abi, callback)});", ""]
    for name, struct in abi.structs.items():
        out += [f"    [StructLayout(LayoutKind.Explicit, Size = {struct['size']})]", f"    internal unsafe struct {name}", "    {"]
        out += [f"        {csharp_field(abi, f)}" for f in struct["fields"]] + ["    }", ""]
    out += ["    internal static unsafe class Native", "    {", f"        private const string Library = \"{abi.library}\";",
            f"        internal const uint KVRT_ABI_VERSION = {abi.version};"]
    for values in abi.enums.values():
        out += [""] + [f"        internal const int {name} = {value};" for name, value in values.items()]
    for name, function in abi.functions.items():
        owned = name.endswith(("_retain", "_release", "_close"))
        out += ["", "        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]",
                f"        internal static extern {csharp_type(abi, function['result'])} {name}({csharp_parameters(abi, function, owned)});"]
    out += ["", "        /// <summary>Each struct: its name and size, and the names and offsets of its fields.</summary>",
            "        internal static readonly string[] Layout =", "        {"]
    for name, struct in abi.structs.items():
        out.append(f"            \"{name} {struct['size']} {' '.join(f['name'] + ' ' + str(f['offset']) for f in struct['fields'])}\",")
    return "\n".join(out + ["        };", "    }", "}", ""])


# ---- Python -------------------------------------------------------------------------------------------------------------------------

PYTHON = {"void": "None", "char": "c_char", "int32_t": "c_int32", "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64",
          "float": "c_float", "double": "c_double", "size_t": "c_size_t"}
def python_type(abi, declared, read=False):
    """A type of ctypes. Every pointer is a c_void_p, but for text that the library reads (`read`), which is bytes."""
    name, count = abi.plain(declared)
    if name in abi.callbacks:
        return name
    base = ("c_char_p" if read and name == "const char*" else "c_void_p") if "*" in name else PYTHON[name]
    return f"{base} * {count}" if count else base


def python_attribute(kind):
    """The type of such a field's value."""
    if " * " in kind:
        return "Chars" if kind.startswith("c_char ") else f'"Array[{kind.split()[0]}]"'
    return {"c_char_p": "Optional[bytes]", "c_void_p": "Optional[int]", "c_float": "float", "c_double": "float"}.get(kind, "int" if kind.startswith("c_") else "Any")


def python(abi):
    out = [f'"""kvrt.h for ctypes. {MADE}"""', "from ctypes import (CFUNCTYPE, Array, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64,",
           "                    c_void_p)", "from typing import Any, Dict, List, Optional, Tuple, Type", "", "from ._base import Struct", "", f"ABI_VERSION = {abi.version}", "Chars = bytes  # a field's name may be bytes", ""]
    for name, callback in abi.callbacks.items():
        out.append(f"{name} = CFUNCTYPE({', '.join(python_type(abi, t) for t in [callback['result'], *(p['type'] for p in callback['parameters'])])})")
    for name, struct in abi.structs.items():
        fields = [(f["name"], python_type(abi, f["type"], read=name.endswith("_options"))) for f in struct["fields"]]
        out += ["", "", f"class {name}(Struct):"] + [f"    {field}: {python_attribute(kind)}" for field, kind in fields]
        out += ["    _fields_ = ["] + [f'        ("{field}", {kind}),' for field, kind in fields] + ["    ]"]
    out += ["", "", "STRUCTS: List[Type[Struct]] = ["] + [f"    {name}," for name in abi.structs] + ["]"]
    out += ["", "# Each function: its result, and its arguments.", "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {"]
    for name, function in abi.functions.items():
        result = python_type(abi, function["result"], read=True)
        out.append(f'    "{name}": ({result}, [{", ".join(python_type(abi, p["type"], read=True) for p in function["parameters"])}]),')
    return "\n".join(out + ["}", ""])


# ---- output -------------------------------------------------------------------------------------------------------------------------

# A language adds itself here: its raw layer, and what is made with the header's words.
MADE_OF_WORDS = (made_rust, made_csharp, made_go, made_python)
OUTPUTS = {"bindings/rust/kvrt-sys/src/raw.rs": rust, "bindings/csharp/src/Raw.cs": csharp,
           "bindings/python/kvrt/_raw.py": python}


def outputs(text):
    abi = Abi(text)
    return {path: make(abi) for path, make in OUTPUTS.items()} | {path: text for made in MADE_OF_WORDS for path, text in made.files(abi).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("check", "write"))
    parser.add_argument("--source", type=pathlib.Path, required=True)
    o = parser.parse_args()
    old = []
    for path, text in outputs((o.source / "include/kvrt.abi.json").read_text()).items():
        file = o.source / path
        if o.verb == "write":
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            old.append(path)
    sys.exit(f"raw: {', '.join(old)}: not as include/kvrt.abi.json says: ./dev abi" if old else 0)


if __name__ == "__main__":
    main()
