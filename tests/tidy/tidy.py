#!/usr/bin/env python3
"""The rules of the tree that no compiler checks. Prints a line per fault and exits 1 when there is one.

  tidy.py --source DIR [--build DIR]

With --build, a configured and built folder with compile_commands.json, it also checks flags, object files and dead sources.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import layers
import shapes

NUMERIC = re.compile(r"runtime/compute/.*|runtime/model/forward\.cc|runtime/engine/sampling/sampler\.cc")
MATH = "exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos tan sincos sinh cosh tanh asin acos atan atan2 asinh acosh atanh cbrt hypot erf erfc tgamma lgamma"
LIBM = {name + suffix for name in MATH.split() for suffix in ("", "f", "l")}
# Calls and headers that use the host's locale; runtime/base/numbers.h does without it. printf's integers and strings are the same in all.
LIBRARY = re.compile(r"(runtime|storage|cuda)/.*")
LOCALE_CALLS = (
    "strtod strtof strtold strtol strtoul strtoll strtoull atof atoi atol atoll stod stof stold stoi stol stoul stoll stoull scanf fscanf sscanf vsscanf "
    "isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper strcasecmp strncasecmp strcoll "
    "strxfrm strftime localeconv setlocale nl_langinfo mbstowcs wcstombs mbrtowc wcrtomb strerror strerror_r"
).split()
LOCALE_CALL = re.compile(r"(?<![\w.>])(" + "|".join(LOCALE_CALLS) + r")\s*\(")
LOCALE_INCLUDE = re.compile(r'\s*#\s*include\s+<(sstream|fstream|iostream|istream|ostream|iomanip|locale|regex|format|cctype|cwctype|clocale|nlohmann/.*)>')
LOCALE_PRINT = re.compile(r"%[-+#0-9.*']*(?:[lL]?[aAeEfFgG]|l[sc]|'\w)")
LOCALE_SYMBOLS = {n + s for n in LOCALE_CALLS for s in ("", "_l")} | {"__isoc99_" + n for n in LOCALE_CALLS} | {"__isoc23_" + n for n in LOCALE_CALLS}
LOCALE_SYMBOLS |= {"__ctype_b_loc", "__ctype_tolower_loc", "__ctype_toupper_loc", "__xpg_strerror_r"}
LOCALE_SYMBOLS -= {"strerror_l"}
# Streams, and std::to_string of a double (a call of vsnprintf with "%f").
LOCALE_MANGLED = re.compile(r"_ZN?K?S[oi][A-Z0-9]|_ZNK?S[oid]|_ZNK?St7__cxx11\d+basic_[io]?stringstream|_ZNSt8ios_base|_ZNSt6locale|\w*__to_xstring")
# Headers of the system: the library has its calls in one folder, and loads CUDA by two files.
SYSTEM_INCLUDE = re.compile(
    r"\s*#\s*include\s*<((?:sys|linux|asm|net|netinet|arpa|mach)/[\w/.]+|csignal|"
    r"(?:unistd|fcntl|pthread|signal|dlfcn|link|elf|dirent|sched|spawn|poll|semaphore|termios|ucontext|execinfo|pwd|grp|netdb|syslog|windows)\.h)>")
SYSTEM_PLACES = ("runtime/base/posix/", "runtime/compute/open_cuda.cc", "cuda/backend/gemm_library.cc")
BAD_FLAGS = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-march=native", "-mtune=native")
FILE_LINES, FUNCTION_LINES = 400, 70
CODE = layers.CODE
LISTED = CODE | {".py", ".sh"}
# Built by a script of their own, not by the tree's build.
BUILT_ELSEWHERE = ("tests/consumer/",)

faults = []


def fault(where, what):
    faults.append(f"{where}: {what}")


def files_of(source):
    """Of the tree, and what is new in its folders. New files beside README.md are the user's: its examples are tried there."""
    def listed(*options):
        out = subprocess.run(["git", "-C", source, "ls-files", *options, "-z"], capture_output=True, check=True).stdout.decode()
        return [n for n in out.split("\0") if n]

    try:
        names = listed("-c") + [n for n in listed("-o", "--exclude-standard") if "/" in n]
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build/", "."))]
    return sorted(n for n in names if (source / n).is_file())


def strip_comments(text):
    """Comments and string contents become spaces; lines stay where they are."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)


def check_math_text(names, texts):
    for name in names:
        if NUMERIC.fullmatch(name):
            for number, line in enumerate(strip_comments(texts[name]).splitlines(), 1):
                # An unqualified call may be one of ours; whether libm gets called shows in the object files.
                for match in re.finditer(r"(?:\bstd\s*::\s*|(?<![\w>])::\s*|\b__builtin_)(\w+)\s*\(", line):
                    if match.group(1) in LIBM:
                        fault(f"{name}:{number}", f"{match.group(0).strip()[:-1]} is libm's, which differs between machines")


def check_system_includes(names, texts):
    for name in names:
        if LIBRARY.fullmatch(name) and pathlib.PurePath(name).suffix in CODE and not name.startswith(SYSTEM_PLACES):
            for number, line in enumerate(texts[name].splitlines(), 1):
                include = SYSTEM_INCLUDE.match(line)
                if include:
                    fault(f"{name}:{number}", f"<{include.group(1)}> is the system's: see runtime/base/posix")


def check_documented(texts):
    """Every function of the header has a comment of its own, on the line before it."""
    lines = texts.get("include/kvrt.h", "").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("KVRT_API") and not lines[number - 1].rstrip().endswith("*/"):
            fault(f"include/kvrt.h:{number + 1}", "a function without a comment of its own: what it does, its statuses, threads")


def check_locale_text(names, texts):
    for name in names:
        if not LIBRARY.fullmatch(name) or pathlib.PurePath(name).suffix not in CODE:
            continue
        code = strip_comments(texts[name]).splitlines()
        for number, line in enumerate(texts[name].splitlines(), 1):
            plain = code[number - 1]
            call, include = LOCALE_CALL.search(plain), LOCALE_INCLUDE.match(line)
            if call:
                fault(f"{name}:{number}", f"{call.group(1)} depends on the host's locale: see runtime/base/numbers.h")
            if include:
                fault(f"{name}:{number}", f"<{include.group(1)}> depends on the host's locale: see runtime/base/numbers.h and json.h")
            for text in re.findall(r'"((?:\\.|[^"\\])*)"', line.split("//")[0]):
                text = text.replace("%%", "")
                if LOCALE_PRINT.search(text) and not plain.lstrip().startswith("#"):
                    fault(f"{name}:{number}", f'"{text}" prints by the host\'s locale: see shown and print_real')


def functions(text):
    """(name, first line, lines) of the function bodies, by the layout that clang-format gives: a body ends at a } in its own column."""
    lines = strip_comments(text).splitlines()
    found, i = [], 0
    while i < len(lines):
        head, start = lines[i], i
        opens = head.rstrip().endswith("{")
        while opens and head.count(")") > head.count("(") and start > 0:  # the head of a function may take several lines
            start -= 1
            head = lines[start] + head
        if opens and start > 0 and lines[start - 1].startswith("__global__") and not lines[start - 1].rstrip().endswith(("{", ";", ",")):
            start -= 1  # a kernel's attributes have a line of their own
            head = lines[start] + head
        if opens and re.match(r"\s*:", head) and start > 0 and "(" in lines[start - 1]:  # the initializers of a constructor
            start -= 1
            head = lines[start] + head
        first = re.match(r"(\s*)(\w+)?", head)
        word, column = first.group(2), len(first.group(1))
        if opens and "(" in head and word not in ("namespace", "class", "struct", "enum", "union", "extern", None) and column <= 4:
            end = next((j for j in range(i + 1, len(lines)) if re.match(r" {%d}}" % column, lines[j])), len(lines) - 1)
            named = re.findall(r"([\w~:]+)\s*\(", re.sub(r"__launch_bounds__\(\w+\)", "", head))
            found.append((named[0] if named else "?", start + 1, end - start + 1))
            i = end + 1
        else:
            i += 1
    return found


def check_sizes(names, texts):
    """A report, not a limit: a file or function may be long where long.txt says why. Gives the report's lines."""
    reasons, report = {}, []
    for line in texts.get("tests/tidy/long.txt", "").splitlines():
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(": ")
            reasons[key] = reason.strip()
            if not reasons[key]:
                fault("tests/tidy/long.txt", f"{key} has no reason")
    unused = set(reasons)

    def judge(key, where, lines, limit, kind):
        if lines <= limit:
            return
        if key in reasons:
            unused.discard(key)
            report.append(f"{where}: {kind} of {lines} lines: {reasons[key]}")
        else:
            fault(where, f"{kind} of {lines} lines: split it where it holds two ideas, or say in tests/tidy/long.txt why it is one")

    for name in names:
        if pathlib.PurePath(name).suffix not in LISTED or name == "include/kvrt.h":
            continue
        judge(name, name, texts[name].count("\n"), FILE_LINES, "file")
        if pathlib.PurePath(name).suffix in CODE:
            longest = {}
            for function, line, lines in functions(texts[name]):
                if lines >= longest.get(function, (0, 0))[1]:
                    longest[function] = (line, lines)
            for function, (line, lines) in longest.items():
                judge(f"{name}:{function}", f"{name}:{line}", lines, FUNCTION_LINES, f"function {function}")
    for key in sorted(unused):
        fault("tests/tidy/long.txt", f"{key} is not long, or gone: remove its line")
    return report


def check_dead(names, texts, included, compiled):
    everything = {n: t for n, t in texts.items()}
    for name in names:
        suffix, base = pathlib.PurePath(name).suffix, pathlib.PurePath(name).name
        if suffix in (".h", ".hpp") and name not in included and name != "include/kvrt.h":
            fault(name, "nothing includes it")
        elif suffix in (".c", ".cc") and compiled is not None and name not in compiled and not name.startswith(BUILT_ELSEWHERE):
            # A CMakeLists.txt that names it builds it where its tools are installed, or with a sanitizer.
            fuzzed = f"kvrt_fuzz_test({pathlib.PurePath(name).stem} "
            if not any(base in t or fuzzed in t for n, t in everything.items() if n.endswith("CMakeLists.txt")):
                fault(name, "nothing builds it")
        elif suffix in (".py", ".sh") and base != "__init__.py" and not base.startswith("test_"):  # unittest finds those by their names
            stem = pathlib.PurePath(name).stem
            if not any(base in t or re.search(rf"\bimport {stem}\b|\bfrom \.?{stem}\b", t) for n, t in everything.items() if n != name):
                fault(name, "nothing names it")


def check_flags(source, names, texts, commands):
    for name in names:
        if name.endswith((".cmake", "CMakeLists.txt", "CMakePresets.json")) or name == "dev":
            for flag in BAD_FLAGS:
                if flag in texts[name]:
                    fault(name, f"{flag} changes results")
    for command in commands:
        words = command["command"].split()
        name = command["file"]
        separate = "--fmad=false" if "nvcc" in words[0] + words[1] else "-ffp-contract=off"  # a product and a sum are two roundings
        if separate not in words and not name.startswith("tests/api/header"):  # those compile the header alone, and no sum
            fault(name, f"built without {separate}")
        for flag in BAD_FLAGS:
            if flag in words:
                fault(name, f"built with {flag}")


def check_objects(build, commands):
    for command in commands:
        numeric, library = NUMERIC.fullmatch(command["file"]), command["file"].startswith(("runtime/", "storage/"))
        if not numeric and not library:
            continue
        path = build / command["command"].split(" -o ")[1].split()[0]
        if not path.is_file():
            fault(command["file"], f"not built: no {path}")
            continue
        out = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        for line in filter(str.strip, out.splitlines()):
            kind, symbol = line.split()[-2:]
            symbol = symbol.split("@")[0]
            if numeric and kind == "U" and symbol in LIBM:
                fault(command["file"], f"calls {symbol} of libm, which differs between machines")
            if library and (symbol in LOCALE_SYMBOLS or LOCALE_MANGLED.match(symbol)):
                fault(command["file"], f"calls {symbol}, which depends on the host's locale")


def check_symbols(texts):
    """Declared in kvrt.h = listed in kvrt.map."""
    header = re.sub(r"\s+", " ", strip_comments(texts["include/kvrt.h"]))
    declared = set(re.findall(r"KVRT_API [\w *]*?\b(kvrt_\w+)\(", header))
    listed = set(re.findall(r"\b(kvrt_\w+);", texts["runtime/api/kvrt.map"]))
    if not declared:
        fault("include/kvrt.h", "no KVRT_API declarations found")
    for name in sorted(declared - listed):
        fault("runtime/api/kvrt.map", f"{name} is declared in kvrt.h and not exported")
    for name in sorted(listed - declared):
        fault("runtime/api/kvrt.map", f"{name} is exported and not declared in kvrt.h")


WALK_STEP = re.compile(r"\d+\. `([\w./]+)` `([\w:]+)`")


def check_walks(texts):
    """The walks of ARCHITECTURE.md: each step's file has its function, a walk is short, and comes to no file more than twice."""
    page = texts.get("ARCHITECTURE.md", "")
    for walk in page.split("<!-- walk -->")[1:]:
        steps = []
        for line in walk.strip().splitlines():
            match = WALK_STEP.match(line)
            if not match:
                break
            steps.append(match.groups())
        for path, symbol in steps:
            if not re.search(r"(?<![\w:])" + re.escape(symbol) + r"\b", strip_comments(texts.get(path, ""))):
                fault("ARCHITECTURE.md", f"{path} has no {symbol}")
        most = 15 if steps and steps[0][1] == "kvrt_session_append" else 10
        if not 3 <= len(steps) <= most:
            fault("ARCHITECTURE.md", f"a walk of {len(steps)} steps, at most {most} are wanted")
        for path in {p for p, _ in steps if sum(p == q for q, _ in steps) > 2}:
            fault("ARCHITECTURE.md", f"a walk comes to {path} more than twice")


def load_commands(source, build):
    commands = json.loads((build / "compile_commands.json").read_text())
    inside = []
    for c in commands:
        path = pathlib.Path(c["file"]).resolve()
        batch = re.findall(r'#include "(.*)"', path.read_text()) if path.parent.name == "Unity" and path.is_relative_to(build) else [path]
        for file in (pathlib.Path(p).resolve() for p in batch):
            if file.is_relative_to(source) and not file.is_relative_to(build):
                inside.append({"file": str(file.relative_to(source)), "command": c["command"]})
    return inside


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    source = args.source.resolve()
    names = files_of(source)
    readable = {".txt", ".json", ".cmake", ".md", ".map", ".in", ".yml", ".toml", ""} | LISTED
    texts = {n: (source / n).read_text(errors="replace") for n in names if pathlib.PurePath(n).suffix in readable}
    commands = load_commands(source, args.build.resolve()) if args.build else []

    edges = layers.check_includes(source, names, texts, fault)
    layers.check_knots(edges, texts, fault)
    layers.check_names(names, texts, fault)
    layers.check_homes(names, texts, strip_comments, fault)
    check_math_text(names, texts)
    check_locale_text(names, texts)
    check_system_includes(names, texts)
    check_documented(texts)
    long = check_sizes(names, texts) + shapes.check_classes(names, texts, strip_comments, fault)
    check_dead(names, texts, {target for _, target in edges}, {c["file"] for c in commands} if args.build else None)
    check_flags(source, names, texts, commands)
    check_symbols(texts)
    check_walks(texts)
    if args.build:
        check_objects(args.build.resolve(), commands)
    for line in long + faults:
        print(line)
    print(f"tidy: {len(names)} files, {len(commands)} compile commands, {len(long)} long pieces, {len(faults)} faults", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
