#!/usr/bin/env python3
"""How many ways lead through the library's functions (lizard's CCN: its branches, loops, && and ||, and one).

  branches.py SOURCE       fails for functions with more than they may have, and when too many have many; prints the greatest
  branches.py --self-test  on functions of known numbers
"""
import pathlib
import sys

import lizard

MANY, MANY_MOST = 15, 95  # functions above MANY in all
STRICT = {"runtime/engine/": 20, "runtime/kv/": 20, "storage/store/": 20}
LIBRARY = ("runtime", "storage", "cuda")


def count(name, text):
    """[(CCN, line, function)] of a file."""
    return [(f.cyclomatic_complexity, f.start_line, f.name) for f in lizard.analyze_file.analyze_source_code(name, text).function_list]


def judge(found):
    """Faults of [(file, CCN, line, function)]."""
    faults = []
    for name, ccn, line, function in found:
        most = next((most for folder, most in STRICT.items() if name.startswith(folder)), ccn)
        if ccn > most:
            faults.append(f"{name}:{line}: {function} has a CCN of {ccn}, at most {most} are wanted: a table, a value or a named step says more")
    many = sorted((f for f in found if f[1] > MANY), key=lambda f: -f[1])
    if len(many) > MANY_MOST:
        faults += [f"{name}:{line}: {function} has a CCN of {ccn}" for name, ccn, line, function in many]
        faults.append(f"{len(many)} functions have a CCN above {MANY}, at most {MANY_MOST} are wanted")
    return faults, many


def self_test():
    branches = "".join(f"  if (a == {i} && b) return {i};\n" for i in range(10))  # 1 + 2 * 10
    code = f"namespace kvrt {{\nint plain(int a) {{ return a; }}\nint Own::many(int a, bool b) {{\n{branches}  return 0;\n}}\n}}\n"
    assert [f[:2] for f in count("c.cc", code)] == [(1, 2), (21, 3)], count("c.cc", code)
    strict, _ = judge([("runtime/kv/c.cc", 21, 3, "many"), ("runtime/kv/c.cc", 20, 3, "few"), ("runtime/text/c.cc", 40, 3, "elsewhere")])
    assert len(strict) == 1 and "many has a CCN of 21, at most 20" in strict[0], strict
    most, _ = judge([("runtime/text/c.cc", MANY + 1, i, "f") for i in range(MANY_MOST)])
    over, _ = judge([("runtime/text/c.cc", MANY + 1, i, "f") for i in range(MANY_MOST + 1)])
    assert not most and f"{MANY_MOST + 1} functions have a CCN above {MANY}" in over[-1], over
    print("branches: ok")


def main(source):
    found = []
    for folder in LIBRARY:
        for path in sorted((source / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                name = str(path.relative_to(source))
                found += [(name, *f) for f in count(name.replace(".cu", ".cc"), path.read_text())]
    faults, many = judge(found)
    for name, ccn, line, function in many[:10]:
        print(f"{name}:{line}: {function}: {ccn}")
    print(f"branches: {len(found)} functions, {len(many)} above {MANY}", *faults, sep="\n")
    sys.exit(1 if faults or not found else 0)


if sys.argv[1:] == ["--self-test"]:
    self_test()
else:
    main(pathlib.Path(sys.argv[1]))
