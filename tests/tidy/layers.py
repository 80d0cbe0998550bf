"""Which folder may include which, and what else keeps the tree a tree: no knots, no name twice, a class's methods in its own folder."""
import collections
import os.path
import pathlib
import re

CODE = {".c", ".cc", ".cu", ".h", ".hpp"}
TEXT = {"runtime/text", "runtime/text/unicode", "runtime/text/tokenizer", "runtime/text/template", "runtime/text/grammar", "runtime/text/reply",
        "runtime/text/answer"}
STORAGE = {"storage", "storage/segment", "storage/catalog", "storage/store", "storage/repair"}
COMPUTE = {"runtime/compute", "runtime/compute/cpu", "runtime/compute/quant"}
BELOW_ENGINE = {"runtime/base", "runtime/compute", "runtime/model", "runtime/kv"} | TEXT | STORAGE
# What a step works with, and the engine too.
STEP = {"runtime/engine/session", "runtime/engine/conversation", "runtime/engine/resources", "runtime/engine/sampling", "runtime/engine/speculation"}
ENGINE = STEP | {"runtime/engine", "runtime/engine/step", "runtime/engine/sources", "runtime/engine/snapshot", "runtime/engine/describe"}
CUDA = {"cuda/backend", "cuda/emulation", "cuda/gemm", "cuda/kernels"}
# A folder and those that its files may include, besides its own: includes go one way. "abi" is include/kvrt.h. A folder with code has a row.
LAYERS = {
    "runtime/base": set(),
    "runtime/base/posix": {"runtime/base"},
    "runtime/compute": {"runtime/base"},
    "runtime/compute/quant": {"runtime/base", "runtime/compute"},
    "runtime/compute/cpu": {"runtime/base", "runtime/compute", "runtime/compute/quant"},
    "runtime/model": {"runtime/base", "runtime/compute", "runtime/compute/quant"},
    "runtime/text": {"runtime/base"},
    "runtime/text/unicode": {"runtime/base"},
    "runtime/text/tokenizer": {"runtime/base", "runtime/text/unicode"},
    "runtime/text/template": {"runtime/base", "runtime/text", "runtime/text/unicode"},
    "runtime/text/grammar": {"runtime/base", "runtime/text", "runtime/text/unicode", "runtime/text/tokenizer"},
    "runtime/text/reply": {"runtime/base", "runtime/text", "runtime/text/template"},
    "runtime/text/answer": {"runtime/base", "runtime/text", "runtime/text/grammar", "runtime/text/reply", "runtime/text/template"},
    "runtime/kv": {"runtime/base"},
    "storage": {"runtime/base"},
    "storage/segment": {"runtime/base", "storage"},
    "storage/catalog": {"runtime/base", "storage", "storage/segment"},
    "storage/store": {"runtime/base", "storage", "storage/segment", "storage/catalog"},
    "storage/repair": {"runtime/base", "storage", "storage/segment", "storage/catalog", "storage/store"},
    "cuda/emulation": {"runtime/base", "runtime/compute", "runtime/compute/quant"},
    "cuda/kernels": {"runtime/base", "runtime/compute", "runtime/compute/quant", "cuda/emulation"},
    "cuda/gemm": {"runtime/base", "runtime/compute", "cuda/emulation", "cuda/kernels"},
    "cuda/backend": {"runtime/base", "cuda/emulation", "cuda/gemm", "cuda/kernels"} | COMPUTE,
    "runtime/engine": BELOW_ENGINE | STEP | {"runtime/engine/step", "runtime/engine/sources", "runtime/engine/snapshot"},
    "runtime/engine/snapshot": BELOW_ENGINE | STEP | {"runtime/engine/step", "runtime/engine/sources"},
    "runtime/engine/sources": BELOW_ENGINE | STEP | {"runtime/engine/step"},
    "runtime/engine/describe": BELOW_ENGINE | {"runtime/engine/resources", "runtime/engine/sources", "runtime/engine/snapshot"},
    "runtime/engine/step": BELOW_ENGINE | STEP,
    "runtime/engine/session": BELOW_ENGINE | {"runtime/engine/conversation", "runtime/engine/resources", "runtime/engine/sampling",
                                              "runtime/engine/speculation"},
    "runtime/engine/conversation": BELOW_ENGINE | {"runtime/engine/resources", "runtime/engine/sampling", "runtime/engine/speculation"},
    "runtime/engine/speculation": {"runtime/base", "runtime/engine/sampling"},
    "runtime/engine/resources": BELOW_ENGINE,
    "runtime/engine/sampling": {"runtime/base", "runtime/compute", "runtime/text/tokenizer"},
    "runtime/api": BELOW_ENGINE | {"runtime/engine", "runtime/engine/conversation", "runtime/engine/describe", "runtime/engine/resources",
                                   "runtime/engine/snapshot", "abi"},
    "include": set(),
    "bindings/cpp": {"abi"},
    "bindings/cli": {"abi", "bindings/cpp"},
    "bindings/cli/eval": {"abi", "bindings/cli", "bindings/cli/eval/cases", "bindings/cpp"},
    "bindings/cli/eval/cases": set(),
    "bindings/csharp/tests": {"abi"},
    "bindings/go": {"abi"},
    "samples": {"abi"},
    "samples/server": {"abi", "bindings/cpp"},
    "packaging/conan/test_package": {"abi"},
    "tests/api": {"abi"},
    "tests/bench": {"abi", "bindings/cli", "tests/api", "tests/cuda", "tests/support"} | BELOW_ENGINE | COMPUTE | CUDA,
    "tests/bench/overhead": {"abi"},
    "tests/bindings": {"abi", "bindings/cpp"},
    "tests/cli": {"runtime/base", "tests/support"} | COMPUTE,
    "tests/consumer": {"abi"},
    "tests/consumer/project": {"abi"},
    "tests/cuda": {"runtime/base", "runtime/engine/sampling", "tests/api", "tests/cuda/emulation", "tests/ops", "tests/support"} | COMPUTE | CUDA,
    "tests/cuda/emulation": {"cuda/emulation", "cuda/kernels"} | COMPUTE,
    "tests/fault": {"runtime/base", "tests/api", "tests/support"} | STORAGE,
    "tests/fuzz": {"abi", "runtime/engine/snapshot", "tests/support"} | BELOW_ENGINE,
    "tests/golden": {"abi", "runtime/engine/sampling", "tests/api", "tests/support"} | BELOW_ENGINE,
    "tests/ops": {"runtime/base", "tests/support"} | COMPUTE,
    "tests/server": {"samples/server"},
    "tests/sim": {"abi", "tests/api", "tests/support"} | BELOW_ENGINE | ENGINE,
    "tests/support": BELOW_ENGINE,
    "tests/unit/base": {"runtime/base", "runtime/base/posix", "tests/support"},
    "tests/unit/compute": {"runtime/base", "tests/ops", "tests/support"} | COMPUTE,
    "tests/unit/engine": {"tests/support"} | BELOW_ENGINE | COMPUTE | ENGINE,
    "tests/unit/eval": {"bindings/cli/eval", "bindings/cli/eval/cases"},
    "tests/unit/kv": {"runtime/base", "runtime/kv", "tests/support"},
    "tests/unit/model": {"runtime/base", "runtime/model", "tests/ops", "tests/support"} | COMPUTE,
    "tests/unit/storage": {"runtime/base", "tests/support"} | STORAGE,
    "tests/unit/text": {"runtime/base", "tests/support"} | TEXT,
    "tests/walk": {"abi", "tests/api"},
}
LIBRARY = ("runtime/", "storage/", "cuda/")


def folder_of(name):
    return "abi" if name == "include/kvrt.h" else str(pathlib.PurePath(name).parent)


def unit_of(name):
    """X.h and X.cc are one unit."""
    return re.sub(r"\.\w+$", "", name)


def check_includes(source, names, texts, fault):
    """One way, and every quoted include names a file of the tree. Returns (file, file that it includes) of all."""
    edges, rowless = [], set()
    for name in names:
        if pathlib.PurePath(name).suffix not in CODE:
            continue
        own = "include" if name == "include/kvrt.h" else folder_of(name)
        if own not in LAYERS and own not in rowless:
            rowless.add(own)
            fault(own, "a folder with code, and no row in LAYERS (tests/tidy/layers.py) says what it may include")
        for number, line in enumerate(texts[name].splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match:
                continue
            path = match.group(1)
            near = str(pathlib.PurePath(name).parent / path)
            target = next((t for t in (path, near, "include/" + path, "bindings/cpp/" + path) if (source / t).is_file()), None)
            if target is None:
                fault(f"{name}:{number}", f'"{path}" is no file of the tree')
                continue
            target = os.path.normpath(target)
            edges.append((name, target))
            if own in LAYERS and folder_of(target) not in LAYERS[own] | {own}:
                fault(f"{name}:{number}", f"{own} must not include {target}")
    return edges


def knots(edges):
    """The sets of nodes, two or more, each of which leads to all the others: Tarjan's strong components."""
    leads = collections.defaultdict(set)
    for a, b in edges:
        leads[a].add(b)
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(leads.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            members = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(" ".join(sorted(members)))

    for node in sorted(leads):
        if node not in number:
            visit(node)
    return found


def reasons_of(texts, path, fault):
    """KEY: REASON, a line each."""
    reasons = {}
    for line in texts.get(path, "").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(": ")
            reasons[key] = reason.strip()
            if not reasons[key]:
                fault(path, f"{key} has no reason")
    return reasons


def check_knots(edges, texts, fault):
    """Neither folders nor units of the library include each other in a circle, but those of knots.txt."""
    inner = [(a, b) for a, b in edges if a.startswith(LIBRARY) and b.startswith(LIBRARY)]
    folders = knots({(folder_of(a), folder_of(b)) for a, b in inner if folder_of(a) != folder_of(b)})
    units = knots({(unit_of(a), unit_of(b)) for a, b in inner if unit_of(a) != unit_of(b)})
    listed = reasons_of(texts, "tests/tidy/knots.txt", fault)
    for kind, found in (("folders", folders), ("files", units)):
        for knot in found:
            if knot not in listed:
                fault(knot.split()[0], f"{kind} that include each other in a circle: {knot}")
    for key in sorted(set(listed) - set(folders + units)):
        fault("tests/tidy/knots.txt", f"{key} is no knot: remove its line")


def check_names(names, texts, fault):
    """No two files of the library have one name, but those of names.txt."""
    paths = collections.defaultdict(list)
    for name in names:
        if name.startswith(LIBRARY) and pathlib.PurePath(name).suffix in CODE:
            paths[pathlib.PurePath(name).name].append(name)
    listed = reasons_of(texts, "tests/tidy/names.txt", fault)
    twice = {n: p for n, p in paths.items() if len(p) > 1}
    for name in sorted(set(twice) - set(listed)):
        fault(twice[name][0], f"{', '.join(twice[name][1:])} has its name: a name says what one file is for")
    for name in sorted(set(listed) - set(twice)):
        fault("tests/tidy/names.txt", f"{name} is there once, or not at all: remove its line")


DEFINED = re.compile(r"^(?!\s)(?:[\w:<>,&*\[\] ]+?[\s&*])?((?:\w+::)+)(?:~?\w+|operator[^\s\w(]+)\s*\(", re.M)
DECLARED = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(?:KVRT_\w+(?:\([^)]*\))?\s+)?([\w:]+)(?:\s+final)?\s*(?::[^:;{}()][^;{}()]*)?\{")


def check_homes(names, texts, strip, fault):
    """A class's methods are defined in the folder of its header, or, where they are the system's, in its posix/."""
    library = [n for n in names if n.startswith(LIBRARY) and pathlib.PurePath(n).suffix in CODE]
    code = {n: strip(texts[n]) for n in library}
    homes = collections.defaultdict(set)
    for name in library:
        for match in DECLARED.finditer(code[name]):
            homes[match.group(1).split("::")[-1]].add(folder_of(name))
    for name in library:
        for match in DEFINED.finditer(code[name]):
            owner = match.group(1).rstrip(":").split("::")[-1]
            here = folder_of(name)
            if owner in homes and not {here, here.removesuffix("/posix")} & homes[owner]:
                line = code[name].count("\n", 0, match.start(1)) + 1
                fault(f"{name}:{line}", f"a method of {owner}, whose folder is {', '.join(sorted(homes[owner]))}")
