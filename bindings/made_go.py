"""The Go package's types, constants and layouts, made of include/kvrt.abi.json."""
from phrases import FLAGS, Tongue, wrapped

NUMBERS = {"char": "string", "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "float": "float32",
      "double": "float64", "size_t": "uint64"}
# Each enumeration of kvrt.h: the type of its values, and how their names begin.
ENUMS = {"KVRT": ("Status", "Status"), "KVRT_DETAIL": ("Detail", "Detail"), "KVRT_EVENT": ("EventType", "Event"), "KVRT_REASON": ("Reason", "Reason"),
            "KVRT_REUSE": ("Reuse", "Reuse"), "KVRT_LOG": ("LogLevel", "Log"), "KVRT_ISA": ("ISA", "ISA"), "KVRT_DEVICE": ("Device", "Device"),
            "KVRT_DETERMINISM": ("Determinism", "Determinism"), "KVRT_GEMM": ("GEMM", "GEMM"), "KVRT_KV": ("KVFormat", "KV"),
            "KVRT_GROUP": ("GroupKind", "Group"), "KVRT_CACHE": ("Cache", "Cache"), "KVRT_TEXT": ("TextFlags", "Text"), "KVRT_INSPECT": ("InspectFlags", "Inspect"),
            "KVRT_REPAIR": ("RepairOutcome", "Repair"), "KVRT_STATE": ("State", "State"), "KVRT_FOREIGN_KV": ("ForeignKV", "ForeignKV"),
            "KVRT_LOGITS": ("Logits", "Logits"), "KVRT_SAMPLER": ("Sampler", "Sampler"), "KVRT_GRAMMAR": ("GrammarKind", "Grammar"),
            "KVRT_TOOL_CHOICE": ("ToolChoice", "ToolChoice"), "KVRT_REPLY": ("Reply", "Reply"), "KVRT_DURABILITY": ("Durability", "Durability"),
            "KVRT_CODEC": ("Codec", "Codec")}
# Pointers by name: their type in Go, and the function of `texts` for what goes beside the struct; "": the package sets them by hand.
POINTERS = {"log": ("func(level LogLevel, text string)", ""), "wake": ("func()", ""),
               "logit_bias": ("[]TokenValue", ""), "stop_tokens": ("[]int32", ""), "stop_strings": ("[]string", "list")}
CALLS = {"kvrt_runtime_open": "OpenRuntime", "kvrt_model_open": "Runtime.OpenModel", "kvrt_model_plan": "Runtime.Plan", "kvrt_model_inspect": "Runtime.Inspect",
         "kvrt_store_open": "Runtime.OpenStore", "kvrt_store_repair": "Runtime.RepairStore", "kvrt_session_open": "Model.OpenSession",
         "kvrt_session_resume": "Model.Resume"}
BY_HAND = ("kvrt_error", "kvrt_event")
CAPITALS = {word: word.upper() for word in (
    "kv", "isa", "cuda", "cpu", "io", "gemm", "id", "bos", "eos", "fd", "os", "ttl", "ttft", "tpot", "avx2", "avx512", "f16", "bf16", "f32", "int8", "fp8", "int4", "int4",
    "json", "gbnf", "gc")} | {"zstd": "ZSTD", "ok": "OK"}


def go_name(words):
    return "".join(CAPITALS.get(word, word.capitalize()) for word in words.lower().split("_"))


def go_struct_name(name):
    return go_name(name.removeprefix("kvrt_"))


class GoTongue(Tongue):
    def constant(self, name):
        return self.value(self.abi.enum_of[name], name)


def tongue(abi):
    return GoTongue(abi, struct=go_struct_name, enum=lambda e: ENUMS[e][0], field=go_name, value=lambda e, v: ENUMS[e][1] + go_name(v.removeprefix(e + "_")), call=go_name,
                  calls=CALLS, null="nil", empty='""', true="True: ", spell=True)


def comment(doc, before, name=None):
    """Lines of a comment, which begins with a name if there is one."""
    if name and doc:
        doc = f"{name}: " + (doc[0].lower() if doc[1:2].islower() or doc[1:2] == " " else doc[0]) + doc[1:]
    return wrapped(doc, 150, before + "// ", "\t")


def go_fields(abi, struct):
    """(field, its type in Go, the way that it goes)."""
    for field in abi.shown(struct):
        name, role = field["name"], field.get("role")
        base, count = abi.plain(field["type"])
        if name in POINTERS and (base.endswith("*") or base in abi.callbacks):
            yield (field, *POINTERS[name])
        elif role == "handle":
            yield field, "*" + go_struct_name(base.rstrip("*")), "hold"
        elif role == "json":
            yield field, "any", "json"
        elif base == "const char*":
            yield field, "string", "add"
        elif base == "char":
            yield field, "string", "chars"
        elif role == "flag":
            yield field, "bool", "number"
        else:
            kind = ENUMS[field["enum"]][0] if "enum" in field else NUMBERS[base]
            yield field, (f"[{count}]" if count else "") + kind, "array" if count else "number"


def go_columns(rows, before="\t"):
    """Lines as gofmt aligns them: rows of two texts."""
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{before}{row[0]:{width}} {row[1]}" for row in rows]


def go_enum(abi, say, enum, values):
    kind = ENUMS[enum][0]
    made = {name: say.value(enum, name) for name in values}
    out = [""] + comment(say.say(abi.docs["enum " + enum], own=enum), "", kind) + [f"type {kind} {'int32' if abi.signed(enum) else 'uint32'}", "",
                                                                                         f"// The values of {kind}.", "const ("]
    for name, value in values.items():
        out += ([""] if out[-1] != "const (" else []) + comment(say.say(abi.docs[name], own=enum), "\t", made[name]) + [f"\t{made[name]} {kind} = {value}"]
    out += [")", "", f"// String gives the name, such as {next(iter(values)).removeprefix(enum + '_')}.", f"func (v {kind}) String() string {{"]
    if enum in FLAGS:
        pairs = ", ".join(f'{{uint32({made[name]}), "{name.removeprefix(enum + "_")}"}}' for name in values)
        return out + [f"\treturn flagNames(uint32(v), []flagName{{{pairs}}})", "}"]
    out.append("\tswitch v {")
    for name in values:
        out += [f"\tcase {made[name]}:", f'\t\treturn "{name.removeprefix(enum + "_")}"']
    return out + ["\t}", "\treturn unknown(int64(v))", "}"]


def go_struct(abi, say, name):
    fields = list(go_fields(abi, name))
    kind = go_struct_name(name)
    out = [""] + comment(say.say(abi.docs[name]), "", kind) + [f"type {kind} struct {{"]
    for field, declared, _ in fields:
        doc = say.say(field["doc"], field.get("role"), field.get("enum"))
        out += ([""] if not out[-1].endswith(" {") else []) + comment(doc.replace('""', "nil") if declared == "any" else doc, "\t") + [f"\t{go_name(field['name'])} {declared}"]
    out += ["}", ""]
    if name.endswith("_options"):
        out += [f"func (o *{kind}) fill(c *C.{name}, t *texts) {{", "\tc.struct_size = C.uint32_t(unsafe.Sizeof(*c))", "\tif o == nil {", "\t\treturn", "\t}"]
        for field, declared, way in fields:
            name, at = field["name"], f"o.{go_name(field['name'])}"
            if way == "number":
                out.append(f"\tc.{name} = " + (f"flag({at})" if declared == "bool" else f"C.{abi.plain(field['type'])[0]}({at})"))
            elif way == "hold":
                out += [f"\tif {at} != nil {{", f"\t\tc.{name} = (*C.{field['type'].rstrip('*')})(t.hold({at}.at()))", "\t}"]
            elif way:
                out.append(f"\tc.{name}_size = t.{way}({at})")
        return out + ["}"]
    out += [f"func to{kind}(c *C.{name}) {kind} {{", f"\treturn {kind}{{"]
    rows = []
    for field, declared, way in fields:
        c = f"c.{field['name']}"
        value = (f"chars({c}[:])" if way == "chars" else f"{c} != 0" if declared == "bool" else f"numbers[{declared.partition(']')[2]}]({c})" if way == "array"
                 else f"{declared}({c})")
        rows.append((go_name(field["name"]) + ":", value + ","))
    return out + go_columns(rows, "\t\t") + ["\t}", "}"]


def go(abi):
    say = tongue(abi)
    out = ["// Code generated by bindings/raw.py of include/kvrt.abi.json (./dev abi). DO NOT EDIT.", "", "package kvrt", "", "// #include <kvrt.h>", 'import "C"', "", 'import "unsafe"', "",
           "// The ABI that this package was made for: see kvrt_abi_version.", f"const abiVersion = {abi.version}"]
    for enum, values in abi.enums.items():
        out += go_enum(abi, say, enum, values)
    for name in abi.structs:
        if name not in BY_HAND:
            out += go_struct(abi, say, name)
    out += ["", "// layouts has each struct, its size, and its fields with their offsets, as the compiler of this package sees them.", "func layouts() []layout {",
            "\treturn []layout{"]
    for name, struct in abi.structs.items():
        out.append(f'\t\t{{"{name}", unsafe.Sizeof(C.{name}{{}}), []field{{')
        out += [f'\t\t\t{{"{f["name"]}", unsafe.Offsetof(C.{name}{{}}.{"_type" if f["name"] == "type" else f["name"]})}},' for f in struct["fields"]]
        out.append("\t\t}},")
    return "\n".join(out + ["\t}", "}", ""])


def files(abi):
    return {"bindings/go/raw.go": go(abi)}
