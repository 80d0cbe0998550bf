"""The Rust crate's numbers, values and options, made of include/kvrt.abi.json."""
import re

from phrases import BY_HAND, FLAGS, MADE, Tongue, camel, enum_type, wrapped

NAMES = {"KVRT_REUSE": "Reuse"}
# By hand: enums with what belongs to a value in them.
OTHER_ENUMS = {"KVRT_EVENT", "KVRT_GRAMMAR", "KVRT_TOOL_CHOICE", *FLAGS}
CALLS = {}
NUMBERS = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "float": "f32", "double": "f64", "size_t": "usize"}
# Options that are not as their role says: (type, how they get into the struct; "": by hand, in raw_options.rs); None: another field has it.
OPTIONS = {"log": ("Option<Log>", ""), "wake": ("Option<Wake>", ""), "from_fd": None, "fd": ("Option<BorrowedFd<'a>>", ""), "domain": ("&'a str", "word"),
           "autosave_name": ("&'a str", "word"), "logit_bias": ("&'a [TokenValue]", ""), "stop_tokens": ("&'a [i32]", ""), "stop_strings": ("&'a [&'a str]", ""),
           "grammar_kind": None, "grammar": ("Grammar<'a>", ""), "tool_choice": ("ToolChoice<'a>", ""), "tool_name": None}
DOCS = {"fd": "Read the file from this descriptor, which is open for reading and seekable. The path then only names it in messages, and may be empty. "
              "The caller may close it after `Model::open`.",
        "grammar": "Constrained output. INVALID with ignore_eos and with prefill. With sampler HOST, LOGITS has -INFINITY for tokens that do not fit.",
        "tool_choice": "Which calls of the session's tools the answer has. Not Required or Named with a grammar. These three fields are INVALID with "
                       "`Grammar::Continue` (the answer goes on with those that it began with), ignore_eos and prefill."}
PATHS = {"Log": "kept", "Wake": "kept", "Store": "store", "Model": "model", "Cancel": "cancel", "TokenValue": "event", "Grammar": "generate", "ToolChoice": "generate"}


def tongue(abi):
    return Tongue(abi, struct=camel, enum=lambda e: enum_type(e, NAMES.items()), field=lambda f: {"from_fd": "`fd`", "grammar_kind": "grammar"}.get(f, f),
                  value=lambda e, v: v.removeprefix(e + "_"), call=lambda verb: verb, calls=CALLS, null="`None`", empty="`None`", dot="::", true="",
                  false="False: ", code="`{}`")


def comment(doc, indent):
    """Doc comments; `code` in code, and no link of what stands in brackets."""
    doc = re.sub(r"``+(.*?)``+", r"`\1`", doc)
    return [" " * indent + line for line in wrapped(doc, 138 - indent, "/// ")]


def numbers(abi, say):
    out = ["//! The constants of kvrt.h: numbers with names. A library that is newer than this crate may give others, and they are kept.",
           f"// {MADE}", "use crate::value::numbers;", "", "numbers! {"]
    for enum, values in abi.enums.items():
        if enum in OTHER_ENUMS:
            continue
        out += ([""] if out[-1] != "numbers! {" else []) + comment(say.say(abi.docs["enum " + enum], own=enum), 4)
        out += ["    #[derive(Default)]"] if 0 in values.values() else []
        out.append(f"    {say.enum(enum)}: {'i32' if abi.signed(enum) else 'u32'} {{")
        for value in values:
            out += comment(say.say(abi.docs[value], own=enum), 8) + [f"        {say.value(enum, value)} = {value},"]
        out.append("    }")
    return "\n".join(out + ["}", ""])


def field_type(abi, say, field):
    base, count = abi.plain(field["type"])
    if base == "char":
        return "String"
    kind = "bool" if field.get("role") == "flag" else say.enum(field["enum"]) if "enum" in field else NUMBERS[base]
    return f"[{kind}; {count}]" if count else kind


def values(abi, say):
    out = ["//! What the library tells: of runtimes, models, stores and sessions, and of calls.",
           f"// {MADE}", "use crate::numbers::*;", "use crate::value::values;", "", "values! {"]
    for name in abi.structs:
        if name.endswith("_options") or name in BY_HAND:
            continue
        out += ([""] if out[-1] != "values! {" else []) + comment(say.say(abi.docs[name]), 4) + [f"    {camel(name)}: {name} {{"]
        for field in abi.shown(name):
            out += comment(say.say(field["doc"], field.get("role")), 8) + [f"        {field['name']}: {field_type(abi, say, field)},"]
        out.append("    }")
    return "\n".join(out + ["}", ""])


def option(abi, say, field):
    """(type, lines that set it in `raw`) of an option, or None."""
    name, role = field["name"], field.get("role")
    if name in OPTIONS:
        by_hand = OPTIONS[name]
        if by_hand is None:
            return None
        return by_hand[0], f"(raw.{name}, raw.{name}_size) = {by_hand[1]}(self.{name});" if by_hand[1] else ""
    if role in ("text", "json", "path"):
        kind = "path" if role == "path" else "text"
        return f"Option<&'a {'Path' if kind == 'path' else 'str'}>", f"(raw.{name}, raw.{name}_size) = {kind}(self.{name});"
    if role == "handle":
        handle = camel(field["type"].rstrip("*"))
        return f"Option<&'a {handle}>", f"raw.{name} = self.{name}.map_or(std::ptr::null_mut(), {handle}::raw);"
    kind = field_type(abi, say, field)
    if role == "flag":
        return kind, f"raw.{name} = self.{name}.into();"
    if role == "enum":
        return kind, f"raw.{name} = self.{name}.number(){' as u32' if abi.signed(field['enum']) else ''};"
    return kind, f"raw.{name} = self.{name};"


def options(abi, say):
    out = []
    for name in (n for n in abi.structs if n.endswith("_options")):
        made = [(field, *option(abi, say, field)) for field in abi.shown(name) if option(abi, say, field)]
        life = any("'a" in kind for _, kind, _ in made)
        copied = not any(kind in ("Option<Log>", "Option<Wake>") for _, kind, _ in made)
        out += [""] + comment(say.say(abi.docs[name]), 0) + [f"#[derive(Clone, {'Copy, ' if copied else ''}Debug, Default)]",
                                                              f"pub struct {camel(name)}{chr(60)}'a> {{" if life else f"pub struct {camel(name)} {{"]
        for field, kind, _ in made:
            doc = DOCS.get(field["name"]) or say.say(field["doc"], field.get("role"))
            if kind == "&'a str":
                doc = doc.replace("`None`", '""')
            elif kind.startswith("&'a ["):
                doc = re.sub(r"[;.]? `None`: none", "", doc)
            out += comment(doc, 4) + [f"    pub {field['name']}: {kind},"]
        rest = any(field["name"] in OPTIONS and not line for field, _, line in made)
        out += ["}", "", f"impl {camel(name)}{'<' + chr(39) + '_>' if life else ''} {{",
                "    /// The header's struct, which points into the options: it is for a call that ends while they live." +
                (" raw_options.rs has the rest of it." if rest else ""),
                f"    pub(crate) fn {'plain' if rest else 'raw'}(&self) -> sys::{name} {{", f"        let mut raw = init!({name});"]
        out += ["        " + line for _, _, line in made if line] + ["        raw", "    }", "}"]
    text = "\n".join(out)
    uses = {f"use crate::{PATHS[word]}::{word};" for word in PATHS if re.search(rf"[ <\[]{word}[<>\]:,]", re.sub(r"///.*", "", text))}
    functions = sorted(f for f in ("path", "text", "word") if f"= {f}(" in text)
    head = ["//! Options of the calls that open, plan, render, generate and save. `Default` is what the library does by itself.",
            f"// {MADE}"]
    uses |= {f"use crate::buffer::{{{', '.join(functions)}}};", "use crate::numbers::*;", "use crate::sys;", "use crate::value::init;",
             "use std::os::unix::io::BorrowedFd;", "use std::path::Path;"}
    merged = {}
    for use in uses:
        module, word = re.fullmatch(r"use (.*)::([^:]+);", use).groups()
        merged.setdefault(module, []).append(word)
    lines = sorted(f"use {module}::{words[0] if len(words) == 1 else '{' + ', '.join(sorted(words)) + '}'};" for module, words in merged.items())
    return "\n".join(head + lines + [text[1:] if text.startswith("\n\n") else text, ""])


def files(abi):
    say = tongue(abi)
    folder = "bindings/rust/kvrt/src/"
    return {folder + "numbers.rs": numbers(abi, say), folder + "values.rs": values(abi, say), folder + "options.rs": options(abi, say)}
