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


# ---- Go -----------------------------------------------------------------------------------------------------------------------------

GO = {"char": "string", "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "float": "float32",
      "double": "float64", "size_t": "uint64"}
# Each enumeration of kvrt.h: the type of its values, which begin with `prefix`.
GO_ENUMS = {"KVRT": ("Status", "Status"), "KVRT_DETAIL": ("Detail", "Detail"), "KVRT_EVENT": ("EventType", "Event"), "KVRT_REASON": ("Reason", "Reason"),
            "KVRT_REUSE": ("Reuse", "Reuse"), "KVRT_LOG": ("LogLevel", "Log"), "KVRT_ISA": ("ISA", "ISA"), "KVRT_DEVICE": ("Device", "Device"),
            "KVRT_DETERMINISM": ("Determinism", "Determinism"), "KVRT_GEMM": ("GEMM", "GEMM"), "KVRT_KV": ("KVFormat", "KV"),
            "KVRT_GROUP": ("GroupKind", "Group"), "KVRT_CACHE": ("Cache", "Cache"), "KVRT_TEXT": ("TextFlags", "Text"), "KVRT_INSPECT": ("InspectFlags", "Inspect"),
            "KVRT_REPAIR": ("RepairOutcome", "Repair"), "KVRT_STATE": ("State", "State"), "KVRT_FOREIGN_KV": ("ForeignKV", "ForeignKV"),
            "KVRT_LOGITS": ("Logits", "Logits"), "KVRT_SAMPLER": ("Sampler", "Sampler"), "KVRT_GRAMMAR": ("GrammarKind", "Grammar"),
            "KVRT_TOOL_CHOICE": ("ToolChoice", "ToolChoice"), "KVRT_REPLY": ("Reply", "Reply"), "KVRT_DURABILITY": ("Durability", "Durability"),
            "KVRT_CODEC": ("Codec", "Codec")}
GO_FLAGS = ("KVRT_TEXT", "KVRT_INSPECT")
# Fields whose number is a value of an enumeration, or 0 or 1; in structs where they are int32_t or uint32_t.
GO_FIELDS = {"reason": "Reason", "reuse_stopped": "Reuse", "isa": "ISA", "log_level": "LogLevel", "device": "Device", "determinism": "Determinism",
             "prompt_gemm": "GEMM", "kv_format": "KVFormat", "kv_format_v": "KVFormat", "kv_group_kind": "GroupKind", "cache": "Cache", "outcome": "RepairOutcome", "state": "State",
             "foreign_kv": "ForeignKV", "logits": "Logits", "sampler": "Sampler", "grammar_kind": "GrammarKind", "tool_choice": "ToolChoice",
             "reply": "Reply", "durability": "Durability", "codec": "Codec", "last_error_status": "Status", "last_error_detail": "Detail",
             **{name: "bool" for name in (
                 "from_fd", "kv_populate", "no_generation_prompt", "has_weights", "add_bos", "has_template", "fits", "read_only", "must_exist",
                 "no_prefix_cache", "autosave_turn", "ignore_eos", "emit_logits", "all_or_nothing", "prefill", "overwrite", "generated",
                 "awaits_accept", "inexact", "ended")}}
# Pointers that are no text: their type in Go, and the function of `texts` for what goes beside the struct; "": the package sets them by hand.
GO_POINTERS = {"log": ("func(level LogLevel, text string)", ""), "wake": ("func()", ""), "store": ("*Store", ""), "cancel": ("*Cancel", ""),
               "logit_bias": ("[]TokenValue", ""), "stop_tokens": ("[]int32", ""), "stop_strings": ("[]string", "list"), "tools": ("any", "json"),
               "documents": ("any", "json"), "variables": ("any", "json")}
GO_BY_HAND = ("kvrt_error", "kvrt_event")
GO_CAPITALS = {word: word.upper() for word in (
    "kv", "isa", "cuda", "cpu", "io", "gemm", "id", "bos", "eos", "fd", "os", "ttl", "ttft", "tpot", "avx2", "avx512", "f16", "bf16", "f32", "int8", "fp8",
    "json", "gbnf", "gc")} | {"zstd": "ZSTD", "ok": "OK"}


def go_name(words):
    return "".join(GO_CAPITALS.get(word, word.capitalize()) for word in words.lower().split("_"))


def go_struct_name(name):
    return go_name(name.removeprefix("kvrt_"))


def go_fields(abi, struct):
    """(field, its type in Go, the way that it goes): what a program sees of a struct. An array's length, and sizes beside pointers, stay inside."""
    fields = abi.structs[struct]["fields"]
    names = {f["name"] for f in fields if abi.plain(f["type"])[0].endswith("*")}
    for field in fields:
        name = field["name"]
        base, count = abi.plain(field["type"])
        size_of = name.removesuffix("_size").removesuffix("_count")
        if name in ("struct_size", "reserved") or name.endswith(("_user", "_user_free")) or size_of != name and {size_of, size_of + "s"} & names:
            continue
        if name in GO_FIELDS and base in ("uint32_t", "int32_t"):
            yield name, (f"[{count}]" if count else "") + GO_FIELDS[name], "array" if count else "number"
        elif name in GO_POINTERS and (base.endswith("*") or base in abi.callbacks):
            yield (name, *GO_POINTERS[name])
        elif base == "const char*":
            yield name, "string", "add"
        elif base == "char":
            yield name, "string", "chars"
        else:
            yield name, (f"[{count}]" if count else "") + GO[base], "array" if count else "number"


def go_columns(rows, before="\t"):
    """Lines as gofmt aligns them: rows of two texts."""
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{before}{row[0]:{width}} {row[1]}" for row in rows]


def go_enum(enum, values):
    kind, prefix = GO_ENUMS[enum]
    made = {name: prefix + go_name(name.removeprefix(enum + "_")) for name in values}
    base = "int32" if enum in ("KVRT", "KVRT_DETAIL", "KVRT_LOG") else "uint32"
    out = ["", f"// {kind} has the values {enum}_... of kvrt.h, which says what each means.", f"type {kind} {base}", "",
           f"// The values of {kind}.", "const ("]
    out += go_columns([(made[name], f"{kind} = {value}") for name, value in values.items()]) + [")", ""]
    out += [f"// String gives the name as kvrt.h has it, without {enum}_.", f"func (v {kind}) String() string {{"]
    if enum in GO_FLAGS:
        pairs = ", ".join(f'{{uint32({made[name]}), "{name.removeprefix(enum + "_")}"}}' for name in values)
        return out + [f"\treturn flagNames(uint32(v), []flagName{{{pairs}}})", "}"]
    out.append("\tswitch v {")
    for name in values:
        out += [f"\tcase {made[name]}:", f'\t\treturn "{name.removeprefix(enum + "_")}"']
    return out + ["\t}", "\treturn unknown(int64(v))", "}"]


def go_struct(abi, name):
    fields = list(go_fields(abi, name))
    kind = go_struct_name(name)
    out = ["", f"// {kind} is {name}: kvrt.h says what each field means" + (", and 0 is its default." if name.endswith("_options") else "."),
           f"type {kind} struct {{"] + go_columns([(go_name(field), declared) for field, declared, _ in fields]) + ["}", ""]
    if name.endswith("_options"):
        out += [f"func (o *{kind}) fill(c *C.{name}, t *texts) {{", "\tc.struct_size = C.uint32_t(unsafe.Sizeof(*c))", "\tif o == nil {", "\t\treturn", "\t}"]
        for field, declared, way in fields:
            at = f"o.{go_name(field)}"
            if way == "number":
                c_type = next(abi.plain(f["type"])[0] for f in abi.structs[name]["fields"] if f["name"] == field)
                out.append(f"\tc.{field} = " + (f"flag({at})" if declared == "bool" else f"C.{c_type}({at})"))
            elif way:
                out.append(f"\tc.{field}_size = t.{way}({at})")
        return out + ["}"]
    out += [f"func to{kind}(c *C.{name}) {kind} {{", f"\treturn {kind}{{"]
    rows = []
    for field, declared, way in fields:
        c = f"c.{field}"
        value = f"chars({c}[:])" if way == "chars" else f"{c} != 0" if declared == "bool" else f"numbers[{declared.partition(']')[2]}]({c})" if way == "array" else f"{declared}({c})"
        rows.append((go_name(field) + ":", value + ","))
    return out + go_columns(rows, "\t\t") + ["\t}", "}"]


def go(abi):
    out = ["// Code generated by bindings/raw.py of include/kvrt.abi.json (./dev abi). DO NOT EDIT.", "", "package kvrt", "", "// #include <kvrt.h>", 'import "C"', "", 'import "unsafe"', "",
           "// The ABI that this package was made for: see kvrt_abi_version.", f"const abiVersion = {abi.version}"]
    for enum, values in abi.enums.items():
        out += go_enum(enum, values)
    for name in abi.structs:
        if name not in GO_BY_HAND:
            out += go_struct(abi, name)
    out += ["", "// layouts has each struct, its size, and its fields with their offsets, as the compiler of this package sees them.", "func layouts() []layout {",
            "\treturn []layout{"]
    for name, struct in abi.structs.items():
        out.append(f'\t\t{{"{name}", unsafe.Sizeof(C.{name}{{}}), []field{{')
        out += [f'\t\t\t{{"{f["name"]}", unsafe.Offsetof(C.{name}{{}}.{"_type" if f["name"] == "type" else f["name"]})}},' for f in struct["fields"]]
        out.append("\t\t}},")
    return "\n".join(out + ["\t}", "}", ""])


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
# Each enumeration of kvrt.h: its class in Python, and a word on it.
PYTHON_ENUMS = {
    "KVRT": ("Status", "The class of a call's result."), "KVRT_DETAIL": ("Detail", "The finer reason of a failure."),
    "KVRT_EVENT": ("EventType", "What an event tells."), "KVRT_REASON": ("Reason", "Why a generation ended."),
    "KVRT_REUSE": ("ReuseStopped", "Why a prompt's KV was reused no further than reuse_stopped_at."),
    "KVRT_LOG": ("LogLevel", "The level of a line of the log."), "KVRT_ISA": ("Isa", "Which instructions the CPU's kernels use."),
    "KVRT_DEVICE": ("Device", "What a runtime computes on."), "KVRT_DETERMINISM": ("Determinism", "Which bits CUDA promises."),
    "KVRT_GEMM": ("Gemm", "The precision in which CUDA multiplies a prompt."), "KVRT_KV": ("KvFormat", "The format in which K or V is stored."),
    "KVRT_GROUP": ("GroupKind", "What a group's layers keep of the tokens."),
    "KVRT_CACHE": ("Cache", "Which directory keeps weights from one open to the next."),
    "KVRT_TEXT": ("TextFlags", "Flags of tokenize, detokenize and the calls like them."), "KVRT_INSPECT": ("InspectFlags", "Flags of inspect."),
    "KVRT_REPAIR": ("RepairOutcome", "What a repair did."), "KVRT_STATE": ("State", "A session's state."),
    "KVRT_FOREIGN_KV": ("ForeignKv", "The use that a resume makes of KV of another arithmetic."),
    "KVRT_LOGITS": ("Logits", "Which logits a prefill gives."), "KVRT_SAMPLER": ("SamplerKind", "Who chooses the tokens."),
    "KVRT_GRAMMAR": ("GrammarKind", "What an answer is constrained by."), "KVRT_TOOL_CHOICE": ("ToolChoice", "Which calls of the session's tools an answer has."),
    "KVRT_REPLY": ("Reply", "How an answer is split into CONTENT, REASONING and TOOL_CALL events."),
    "KVRT_DURABILITY": ("Durability", "Which part of a save is on the disk when it returns."), "KVRT_CODEC": ("Codec", "How a save stores KV chunks.")}


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


def python_enums(abi):
    out = [f'"""The enums of kvrt.h, which says what each value means. {MADE}"""', "from ._base import Open, OpenFlag"]
    for enum, values in abi.enums.items():
        name, about = PYTHON_ENUMS[enum]
        flags = enum in ("KVRT_TEXT", "KVRT_INSPECT")
        out += ["", "", f"class {name}({'OpenFlag' if flags else 'Open'}):", f'    """{enum}_...: {about[0].lower()}{about[1:]}"""', ""]
        out += [f"    {value.removeprefix(enum + '_')} = {number}" for value, number in values.items()]
    return "\n".join(out + [""])


# ---- output -------------------------------------------------------------------------------------------------------------------------

# A language adds itself here.
OUTPUTS = {"bindings/rust/kvrt-sys/src/raw.rs": rust, "bindings/go/raw.go": go, "bindings/csharp/src/Raw.cs": csharp,
           "bindings/python/kvrt/_raw.py": python, "bindings/python/kvrt/_enums.py": python_enums}


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
