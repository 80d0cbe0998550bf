"""The C# assembly's enums, values and options, made of include/kvrt.abi.json."""
from phrases import BY_HAND, MADE, Tongue, camel, enum_type, info_type, wrapped

# What a program does not see as such: flags of inspect are a bool.
OTHER_ENUMS = {"KVRT_INSPECT"}
CALLS = {"kvrt_runtime_open": "the constructor of Runtime", "kvrt_model_open": "Runtime.OpenModel", "kvrt_model_plan": "Runtime.Plan", "kvrt_model_inspect": "Runtime.Inspect",
         "kvrt_store_open": "Runtime.OpenStore", "kvrt_store_repair": "Runtime.RepairStore", "kvrt_session_open": "Model.OpenSession",
         "kvrt_session_resume": "Model.Resume"}
NUMBERS = {"int32_t": "int", "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong", "float": "float", "double": "double", "size_t": "ulong"}
# Options that Fill.cs sets by hand, and their types.
OPTIONS = {"log": "Action<LogLevel, string>", "wake": "Action", "logit_bias": "IReadOnlyDictionary<int, float>", "stop_tokens": "IReadOnlyList<int>",
           "stop_strings": "IReadOnlyList<string>"}
MORE = {"log": " What it throws goes to TaskScheduler.UnobservedTaskException.", "wake": " It only signals: it must not call kvrt. What it throws goes to "
        "TaskScheduler.UnobservedTaskException."}


def tongue(abi):
    return Tongue(abi, struct=info_type, enum=enum_type, field=camel, value=lambda e, v: camel(v.removeprefix(e + "_").lower()), call=camel, calls=CALLS,
                  null="null", spell=True)


def summary(doc, indent):
    doc = doc.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    before = " " * indent
    if not doc:
        return []
    if "\n" not in doc and len(doc) + indent + 31 <= 150:
        return [f"{before}/// <summary>{doc}</summary>"]
    return [before + "/// <summary>"] + [before + line for line in wrapped(doc, 150 - indent, "/// ")] + [before + "/// </summary>"]


def enums(abi, say):
    out = [f"// {MADE}", "using System;", "", "namespace Kvrt", "{"]
    for enum, values in abi.enums.items():
        if enum in OTHER_ENUMS:
            continue
        flags = enum == "KVRT_TEXT"
        out += ([""] if out[-1] != "{" else []) + summary(say.say(abi.docs["enum " + enum], own=enum), 4) + (["    [Flags]"] if flags else [])
        out += [f"    public enum {say.enum(enum)}", "    {"] + (["        /// <summary>None of them.</summary>", "        None = 0,"] if flags else [])
        for value in values:
            out += summary(say.say(abi.docs[value], own=enum), 8) + [f"        {say.value(enum, value)} = Native.{value},"]
        out[-1] = out[-1].rstrip(",")
        out.append("    }")
    return "\n".join(out + ["}", ""])


def said(say, field):
    return say.say(field["doc"], field.get("role"), field.get("enum"))


def property_of(abi, say, field):
    """A property that gives a field of `raw`."""
    name, (base, count) = field["name"], abi.plain(field["type"])
    raw = "raw." + name
    if base == "char":
        return f"public string {camel(name)} {{ get {{ fixed (byte* text = {raw}) return Utf8.Terminated(text, {count}); }} }}"
    if count:
        kind = say.enum(field["enum"]) if "enum" in field else NUMBERS[base]
        way = "Kinds" if "enum" in field else "Values"
        return f"public {kind}[] {camel(name)} {{ get {{ fixed ({NUMBERS[base]}* values = {raw}) return Utf8.{way}(values, raw.kv_groups); }} }}"
    if field.get("role") == "flag":
        return f"public bool {camel(name)} => {raw} != 0;"
    if "enum" in field:
        return f"public {say.enum(field['enum'])} {camel(name)} => ({say.enum(field['enum'])}){raw};"
    return f"public {NUMBERS[base]} {camel(name)} => {raw};"


def values(abi, say):
    out = [f"// {MADE}", "namespace Kvrt", "{"]
    for name in abi.structs:
        if name.endswith("_options") or name in BY_HAND:
            continue
        kind = info_type(name)
        out += ([""] if out[-1] != "{" else []) + summary(say.say(abi.docs[name]), 4)
        out += [f"    public sealed unsafe class {kind}", "    {", f"        private {name} raw;", "", f"        internal {kind}({name} raw)", "        {",
                "            this.raw = raw;", "        }"]
        for field in abi.shown(name):
            out += [""] + summary(said(say, field), 8) + ["        " + property_of(abi, say, field)]
        out.append("    }")
    return "\n".join(out + ["}", ""])


def option(abi, say, field):
    """(type, statement that sets it in `raw`)."""
    name, role, base = field["name"], field.get("role"), abi.plain(field["type"])[0]
    value = "o." + camel(name)
    if name in OPTIONS:
        return OPTIONS[name], ""
    if role in ("text", "json", "path"):
        return "string", f"raw.{name} = arena.Text({value}, out raw.{name}_size);"
    if role == "handle":
        return camel(base.rstrip("*")), f"if ({value} != null) raw.{name} = arena.Hold({value}.Handle);"
    if role == "flag":
        return "bool", f"raw.{name} = Flag({value});"
    if role == "enum":
        return say.enum(field["enum"]), f"raw.{name} = (uint){value};"
    return NUMBERS[base], f"raw.{name} = {value};"


def options(abi, say):
    out = [f"// {MADE}", "using System;", "using System.Collections.Generic;", "", "namespace Kvrt", "{"]
    fill = ["", "    /// <summary>Options as the structs of the header, without what Fill.cs adds. What they point to lies in the arena.</summary>",
            "    internal static unsafe partial class Fill", "    {"]
    for name in (n for n in abi.structs if n.endswith("_options")):
        made = [(field, *option(abi, say, field)) for field in abi.shown(name)]
        out += ([""] if out[-1] != "{" else []) + summary(say.say(abi.docs[name]), 4) + [f"    public sealed partial class {camel(name)}", "    {"]
        for field, kind, _ in made:
            out += ([""] if out[-1] != "    {" else []) + summary(said(say, field) + MORE.get(field["name"], ""), 8)
            out.append(f"        public {kind} {camel(field['name'])} {{ get; set; }}")
        rest, memory = any(not line for _, _, line in made), any("arena." in line for _, _, line in made)
        out.append("    }")
        fill += ([""] if fill[-1] != "    {" else []) + [
            f"        {'private' if rest else 'internal'} static {name} {'Plain' if rest else 'Of'}({camel(name)} o{', Arena arena' if memory else ''})", "        {",
            f"            {name} raw = new {name} {{ struct_size = (uint)sizeof({name}) }};", "            if (o == null) return raw;"]
        fill += ["            " + line for _, _, line in made if line] + ["            return raw;", "        }"]
    return "\n".join(out + fill + ["    }", "}", ""])


def files(abi):
    say = tongue(abi)
    folder = "bindings/csharp/src/"
    return {folder + "Enums.cs": enums(abi, say), folder + "Values.cs": values(abi, say), folder + "Options.cs": options(abi, say)}
