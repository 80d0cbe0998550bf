#!/usr/bin/env python3
"""The ABI of kvrt.h in one description, include/kvrt.abi.json, and the changes that it may have.

  abi.py check --source DIR     lists the changes since the description: a break fails, an addition passes
  abi.py current --source DIR   fails where the description, its table (runtime/api/abi_table.inc) or a binding's raw layer (bindings/raw.py) is not
                                as write makes it
  abi.py write --source DIR     writes them anew (./dev abi). A break needs a line in CHANGELOG.md, and from version 0.2.0 on --force.
                                A function that is new or changed moves to the newest node of kvrt.map

--cc is the compiler: it preprocesses the header, and its program prints sizes, offsets and values; pycparser gives names and types.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from pycparser import c_ast, c_parser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings"))
import raw  # noqa: E402
import words  # noqa: E402

FROZEN = (0, 2, 0)
# The types that the parser must know of the headers that kvrt.h includes; the sizes come from the real ones.
SYSTEM = {
    "stddef.h": "typedef unsigned long size_t;\n",
    "stdint.h": "".join(f"typedef {'unsigned ' if u else ''}long {u}int{bits}_t;\n" for u in ("", "u") for bits in (8, 16, 32, 64)),
    "string.h": "",
}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"abi: {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def spell(node):
    """A type as kvrt.h would write it: const char*, char[256], kvrt_event_fn."""
    if isinstance(node, c_ast.TypeDecl):
        names = node.type.names if isinstance(node.type, c_ast.IdentifierType) else [node.type.name]
        return " ".join([*node.quals, *names])
    if isinstance(node, c_ast.PtrDecl):
        return " ".join([spell(node.type) + "*", *node.quals])
    if isinstance(node, c_ast.ArrayDecl):
        return f"{spell(node.type)}[{node.dim.value}]"
    sys.exit(f"abi: {node.coord}: a type of kind {type(node).__name__}, which kvrt.h does not use")


def signature(function):
    given = [p for p in function.args.params if not (p.name is None and spell(p.type) == "void")] if function.args else []
    return {"result": spell(function.type), "parameters": [{"name": p.name or "", "type": spell(p.type)} for p in given]}


def common(names):
    """The name of an enumeration: the words that the names of its values have in common."""
    words = [name.split("_") for name in names]
    shared = 0
    while all(len(w) > shared + 1 and w[shared] == words[0][shared] for w in words):
        shared += 1
    return "_".join(words[0][:shared])


def parse(header, cc):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in SYSTEM.items():
            pathlib.Path(folder, name).write_text(text)
        text = run(cc, "-E", "-P", "-nostdinc", "-isystem", folder, "-D__attribute__(x)=", header)
    found = {"typedefs": {}, "handles": [], "callbacks": {}, "enums": {}, "structs": {}, "functions": {}}
    for node in c_parser.CParser().parse(text).ext:
        inner = node.type
        if isinstance(node, c_ast.Typedef) and not node.name.startswith("kvrt_"):
            continue
        if isinstance(node, c_ast.Typedef) and isinstance(inner, c_ast.PtrDecl) and isinstance(inner.type, c_ast.FuncDecl):
            found["callbacks"][node.name] = signature(inner.type)
        elif isinstance(node, c_ast.Typedef) and isinstance(inner.type, c_ast.Struct):
            if inner.type.decls is None:
                found["handles"].append(node.name)
            else:
                found["structs"][node.name] = {"fields": [{"name": d.name, "type": spell(d.type)} for d in inner.type.decls]}
        elif isinstance(node, c_ast.Typedef):
            found["typedefs"][node.name] = spell(inner)
        elif isinstance(inner, c_ast.Enum):
            names = [value.name for value in inner.values.enumerators]
            found["enums"][common(names)] = dict.fromkeys(names)
        elif isinstance(inner, c_ast.FuncDecl):
            found["functions"][node.name] = signature(inner)
        else:
            sys.exit(f"abi: {node.coord}: a declaration of a kind that kvrt.h does not use")
    return found


def measure(header, cc, found):
    """Sizes, offsets and values, as the compiler has them."""
    asked = ["KVRT_ABI_VERSION", "KVRT_VERSION_MAJOR", "KVRT_VERSION_MINOR", "KVRT_VERSION_PATCH"]
    for name, struct in found["structs"].items():
        asked += [f"sizeof({name})", f"_Alignof({name})"]
        asked += [f"{ask}{field['name']})" for field in struct["fields"] for ask in (f"offsetof({name}, ", f"sizeof((({name}*)0)->")]
    asked += [name for values in found["enums"].values() for name in values]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "measure.c"), pathlib.Path(folder, "measure")
        prints = "".join(f'  printf("%lld\\n", (long long)({a}));\n' for a in asked)
        source.write_text(f'#include <stddef.h>\n#include <stdio.h>\n#include "{header}"\nint main(void) {{\n{prints}  return 0;\n}}\n')
        run(cc, "-std=c11", source, "-o", program)
        numbers = iter(map(int, run(program).split()))
    head = {"abi_version": next(numbers), "version": [next(numbers) for _ in range(3)]}
    for struct in found["structs"].values():
        struct["size"], struct["align"] = next(numbers), next(numbers)
        for field in struct["fields"]:
            field["offset"], field["size"] = next(numbers), next(numbers)
    for values in found["enums"].values():
        for name in values:
            values[name] = next(numbers)
    return head


def nodes(symbol_map):
    """Every function's version node, and the newest one."""
    text = re.sub(r"#[^\n]*|/\*.*?\*/", "", symbol_map.read_text(), flags=re.S)
    found, newest = {}, None
    for newest, body in re.findall(r"(KVRT_[\d.]+)\s*\{(.*?)\}", text, re.S):
        found.update(dict.fromkeys(re.findall(r"\bkvrt_\w+(?=\s*;)", body), newest))
    return found, newest


def describe(header, symbol_map, cc):
    header = header.resolve()
    found = parse(header, cc)
    head = measure(header, cc, found)
    node_of, newest = nodes(symbol_map)
    for name, function in found["functions"].items():
        function["node"] = node_of.get(name) or sys.exit(f"abi: {symbol_map}: {name} of {header.name} is in no node")
    words.describe(found, header.read_text())
    target = {"library": f"libkvrt.so.{head['version'][0]}", "abi_version": head["abi_version"], "machine": run(cc, "-dumpmachine").split("-")[0]}
    return {**target, **found}, newest, tuple(head["version"])


# ---- changes ------------------------------------------------------------------------------------------------------------------------


class Changes:
    def __init__(self, newest):
        self.breaks, self.additions, self.unmoved, self.newest = [], [], [], newest

    def struct(self, name, old, new):
        now = {field["name"]: field for field in new["fields"]}
        at = {field["offset"]: field for field in new["fields"]}
        known = set()
        for field in old["fields"]:
            where = f"{name}.{field['name']}"
            mine = now.get(field["name"])
            if mine is None:
                mine = at.get(field["offset"], {})
                same = all(mine.get(key) == field[key] for key in ("offset", "size", "type"))
                if same and re.fullmatch(r"reserved\d*", field["name"]):
                    self.additions.append(f"{name}.{mine['name']} takes the place of {field['name']}")
                else:
                    self.breaks.append(f"{where} was removed or renamed" + (f" ({mine['name']} is in its place)" if mine else ""))
            elif mine["type"] != field["type"] or mine["size"] != field["size"]:
                self.breaks.append(f"{where} was retyped: {field['type']} of {field['size']} bytes is {mine['type']} of {mine['size']}")
            elif mine["offset"] != field["offset"]:
                self.breaks.append(f"{where} moved from {field['offset']} to {mine['offset']}")
            known.add(mine.get("name"))
        for field in new["fields"]:
            if field["name"] in known:
                continue
            if field["offset"] < old["size"]:
                self.breaks.append(f"{name}.{field['name']} was inserted at {field['offset']}: fields go past the {old['size']} bytes there were")
            elif old["fields"][0]["name"] != "struct_size":
                self.breaks.append(f"{name}.{field['name']} is new: {name} has no struct_size, so it must not grow")
            else:
                self.additions.append(f"{name}.{field['name']} was appended")
        if old["align"] != new["align"]:
            self.breaks.append(f"{name} has alignment {new['align']}, it had {old['align']}")

    def function(self, name, old, new):
        show = lambda s: f"{s['result']} ({', '.join(p['type'] for p in s['parameters'])})"
        if show(old) != show(new):
            self.breaks.append(f"{name} was {show(old)}, it is {show(new)}")
            if "node" in new and new["node"] == old["node"] != self.newest:
                self.unmoved.append(name)
        elif old.get("node") != new.get("node"):
            self.breaks.append(f"{name} went from {old['node']} to {new['node']}: programs that were linked with it do not start any more")
        elif [p["name"] for p in old["parameters"]] != [p["name"] for p in new["parameters"]]:
            self.additions.append(f"{name}: parameters have other names")

    def compare(self, old, new):
        for key in ("library", "abi_version", "machine"):
            if old[key] != new[key]:
                self.breaks.append(f"{key} was {old[key]}, it is {new[key]}")
        equal = lambda name, a, b: None if a == b else self.breaks.append(f"{name} was {a}, it is {b}")
        flat = lambda abi: {name: value for values in abi["enums"].values() for name, value in values.items()}
        as_set = lambda abi: dict.fromkeys(abi["handles"])
        for what, before, now, each in (
                ("struct", old["structs"], new["structs"], self.struct), ("enumerator", flat(old), flat(new), equal),
                ("type", old["typedefs"], new["typedefs"], equal), ("handle", as_set(old), as_set(new), equal),
                ("callback", old["callbacks"], new["callbacks"], self.function), ("function", old["functions"], new["functions"], self.function)):
            for name, value in before.items():
                if name in now:
                    each(name, value, now[name])
                else:
                    self.breaks.append(f"{what} {name} was removed or renamed")
            self.additions += [f"{what} {name} is new" for name in now if name not in before]
        self.unmoved += [name for name, function in new["functions"].items() if name not in old["functions"] and function["node"] != self.newest]


# ---- output -------------------------------------------------------------------------------------------------------------------------


def to_json(abi):
    """A line for each field, value, type and function, so that a diff reads."""
    one = lambda value: json.dumps(value, separators=(", ", ": "))
    lines = lambda items, indent: (",\n" + " " * indent).join(items)
    named = lambda values, indent: lines([f"{one(name)}: {one(value)}" for name, value in values.items()], indent)
    structs = lines([f'{one(name)}: {{"size": {s["size"]}, "align": {s["align"]}, "fields": [\n      '
                     + lines([one({key: f[key] for key in ("name", "offset", "size", "type", "role", "enum", "doc") if key in f}) for f in s["fields"]], 6) + "]}"
                     for name, s in abi["structs"].items()], 4)
    enums = lines([f"{one(name)}: {{\n      {named(values, 6)}}}" for name, values in abi["enums"].items()], 4)
    functions = {name: {key: f[key] for key in ("node", "result", "parameters")} for name, f in abi["functions"].items()}
    return (f'{{\n  "library": {one(abi["library"])},\n  "abi_version": {abi["abi_version"]},\n  "machine": {one(abi["machine"])},\n'
            f'  "typedefs": {one(abi["typedefs"])},\n  "handles": {one(abi["handles"])},\n  "callbacks": {{\n    {named(abi["callbacks"], 4)}\n  }},\n'
            f'  "enums": {{\n    {enums}\n  }},\n  "structs": {{\n    {structs}\n  }},\n  "functions": {{\n    {named(functions, 4)}\n  }},\n'
            f'  "docs": {{\n    {named(abi["docs"], 4)}\n  }}\n}}\n')


def to_table(abi):
    rows = "".join(f"STRUCT({name})\n" + "".join(f"FIELD({name}, {f['name']})\n" for f in s["fields"]) for name, s in abi["structs"].items())
    return "// Every struct of kvrt.h and its fields, for kvrt_struct_size and kvrt_struct_offset. ./dev abi writes it.\n" + rows


def moved(symbol_map, names, node):
    """The map with these functions in another node, so that a program of the old ones is refused."""
    symbol_map = re.sub(rf"^ *({'|'.join(names)});\n", "", symbol_map, flags=re.M)
    head, mark, tail = symbol_map.partition(f"{node} {{\n  global:\n")
    body, end, rest = tail.partition("}")
    listed = sorted(names + re.findall(r"kvrt_\w+", body))
    return head + mark + "".join(f"    {name};\n" for name in listed) + end + rest


def frozen(source, version):
    tags = subprocess.run(["git", "-C", source, "tag", "--list", "v0.2.0"], capture_output=True, text=True)
    return version >= FROZEN or bool(tags.stdout.strip())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("check", "current", "write"))
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--force", action="store_true", help="write a break although the ABI is frozen")
    o = parser.parse_args(arguments)
    baseline, table = o.source / "include/kvrt.abi.json", o.source / "runtime/api/abi_table.inc"
    abi, newest, version = describe(o.source / "include/kvrt.h", o.source / "runtime/api/kvrt.map", o.cc)
    written = {baseline: to_json(abi), table: to_table(abi)}
    if o.verb != "check":
        written |= {o.source / path: text for path, text in raw.outputs(written[baseline]).items()}
    if o.verb == "current":
        old = [str(path) for path, text in written.items() if not path.exists() or path.read_text() != text]
        sys.exit(f"abi: {' and '.join(old)} {'are' if len(old) > 1 else 'is'} not as the header says: ./dev abi" if old else 0)

    changes = Changes(newest)
    if baseline.exists():
        changes.compare(json.loads(baseline.read_text()), abi)
    for line in changes.additions:
        print(f"abi: {line}")
    for line in changes.breaks + [f"{name} is new or changed, and not in {newest}" for name in changes.unmoved]:
        print(f"abi: BREAK: {line}")
    if o.verb == "check":
        if changes.breaks or changes.unmoved:
            sys.exit("abi: programs and bindings that were built with the header before would break")
        print("abi: additions alone: ./dev abi takes them into the description" if changes.additions else "abi: as described")
        return
    if changes.breaks and frozen(o.source, version) and not o.force:
        sys.exit("abi: nothing was written: since 0.2.0 the ABI only grows. A break means another soname (--force)")
    if changes.unmoved:
        symbol_map = o.source / "runtime/api/kvrt.map"
        written[symbol_map] = moved(symbol_map.read_text(), changes.unmoved, newest)
        for name in changes.unmoved:
            abi["functions"][name]["node"] = newest
        written[baseline] = to_json(abi)
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"abi: wrote {path}")
    if changes.breaks:
        print(f"abi: CHANGELOG.md needs this line:\n* ABI: what was built with an older kvrt.h must be built anew: {'; '.join(changes.breaks)}.")


if __name__ == "__main__":
    main()
