#!/usr/bin/env python3
"""tidy.py on small trees with one planted fault each: it must find that one, and nothing in the clean tree."""
import pathlib
import subprocess
import sys
import tempfile

TIDY = pathlib.Path(__file__).with_name("tidy.py")
LONG_BODY = "  g();\n" * 80

CLEAN = {
    "include/kvrt.h": "KVRT_API int kvrt_one(\n    int a);\n",
    "runtime/api/kvrt.map": "KVRT_0.1 { global: kvrt_one; local: *; };\n",
    "runtime/base/a.h": "int a();\n",
    "runtime/compute/b.cc": '#include "runtime/base/a.h"\n// std::exp( in a comment is no call\nfloat f(float x) { return sqrt(x); }\n',
}
PLANTED = [
    ({"runtime/base/c.cc": '#include "runtime/kv/k.h"\n', "runtime/kv/k.h": ""}, "runtime/base must not include runtime/kv/k.h"),
    ({"bindings/cli/c.cc": '#include "runtime/base/a.h"\n'}, "bindings must not include runtime/base/a.h"),
    ({"storage/c.cc": '#include "runtime/compute/k.h"\n', "runtime/compute/k.h": ""}, "storage must not include"),
    ({"runtime/base/c.cc": '#include "runtime/base/none.h"\n'}, "is no file of the tree"),
    ({"runtime/compute/c.cc": "float g(float x) { return std::exp(x); }\n"}, "std::exp is libm's"),
    ({"runtime/engine/sampler.cc": "float g(float x) { return ::powf(x, x); }\n"}, "::powf is libm's"),
    ({"runtime/base/c.cc": "int x;\n" * 401}, "file of 401 lines"),
    ({"runtime/base/c.cc": "void longer(int x) {\n" + LONG_BODY + "}\n"}, "function longer of 82 lines"),
    ({"runtime/base/c.cc": "class C {\n  void in_class(\n      int x) {\n  " + LONG_BODY + "  }\n};\n"}, "function in_class of 83 lines"),
    ({"tests/tidy/exceptions.txt": "runtime/base/gone.cc 500\n"}, "runtime/base/gone.cc is gone"),
    ({"tests/tidy/exceptions.txt": "runtime/base/c.cc 450\n", "runtime/base/c.cc": "int x;\n" * 420}, "lower its number"),
    ({"tests/tidy/exceptions.txt": "runtime/base/c.cc 450\n", "runtime/base/c.cc": "int x;\n" * 460}, "file of 460 lines; at most 450"),
    ({"runtime/base/dead.h": ""}, "runtime/base/dead.h: nothing includes it"),
    ({"tests/dead.sh": ""}, "tests/dead.sh: nothing names it"),
    ({"cmake/x.cmake": "add_compile_options(-ffast-math)\n"}, "-ffast-math changes results"),
    ({"include/kvrt.h": "KVRT_API int kvrt_one(int a);\nKVRT_API kvrt_status kvrt_two(void);\n"}, "kvrt_two is declared in kvrt.h and not exported"),
    ({"runtime/api/kvrt.map": "KVRT_0.1 { global: kvrt_one; kvrt_old; local: *; };\n"}, "kvrt_old is exported and not declared"),
]


def run(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in (CLEAN | files).items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, TIDY, "--source", root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


bad = 0
code, out = run({})
if code != 0:
    print("the clean tree has faults:\n" + out)
    bad += 1
for files, expected in PLANTED:
    code, out = run(files)
    if code != 1 or expected not in out:
        print(f"planted {sorted(files)}: expected \"{expected}\", found (exit {code}):\n{out}")
        bad += 1
print(f"{1 + len(PLANTED)} trees, {bad} faults")
sys.exit(1 if bad else 0)
