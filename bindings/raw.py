#!/usr/bin/env python3
"""The raw layers of the bindings, made of include/kvrt.abi.json: kvrt.h's structs, constants and functions as each language declares them.

  raw.py check --source DIR     fails where a file differs from what write makes
  raw.py write --source DIR     writes them anew (./dev abi does, too)

Each names in one table the size of every struct and the offset of every field, so that a binding compares with the library that it loads.
"""
import argparse
import json
import pathlib
import re
import sys

MADE = "Made of include/kvrt.abi.json by bindings/raw.py (./dev abi): do not edit."


class Abi:
    def __init__(self, text):
        described = json.loads(text)
        self.library, self.version = described["library"], described["abi_version"]
        self.typedefs, self.handles = described["typedefs"], described["handles"]
        self.callbacks, self.enums = described["callbacks"], described["enums"]
        self.structs, self.functions = described["structs"], described["functions"]

    def plain(self, declared):
        """A type without its typedef, and the length of an array."""
        array = re.fullmatch(r"(.+)\[(\d+)\]", declared)
        name, count = (array[1], int(array[2])) if array else (declared, None)
        return self.typedefs.get(name, name), count


def camel(name):
    return "".join(word.capitalize() for word in name.removeprefix("kvrt_").split("_"))


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
        out += [f"    pub {f['name'] + '_' if f['name'] == 'type' else f['name']}: {rust_type(abi, f['type'])}," for f in struct["fields"]] + ["}"]
    out += ["", "extern \"C\" {"] + [f"    pub fn {name}{rust_signature(abi, f)};" for name, f in abi.functions.items()] + ["}"]
    out += ["", "/// Each struct, its size, and its fields with their offsets.", "pub const LAYOUT: &[(&str, usize, &[(&str, usize)])] = &["]
    for name, struct in abi.structs.items():
        fields = ", ".join(f"(\"{f['name']}\", {f['offset']})" for f in struct["fields"])
        out.append(f"    (\"{name}\", std::mem::size_of::<{name}>(), &[{fields}]),")
    return "\n".join(out + ["];", ""])


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


# ---- output -------------------------------------------------------------------------------------------------------------------------

# A language adds itself here.
OUTPUTS = {"bindings/rust/kvrt-sys/src/raw.rs": rust, "bindings/csharp/src/Raw.cs": csharp}


def outputs(text):
    abi = Abi(text)
    return {path: make(abi) for path, make in OUTPUTS.items()}


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
