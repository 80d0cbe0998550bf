#!/usr/bin/env python3
"""tidy.py on small trees with one planted fault each: it must find that one, and nothing in the clean tree."""
import json
import pathlib
import subprocess
import sys
import tempfile

TIDY = pathlib.Path(__file__).with_name("tidy.py")
LONG_BODY = "  g();\n" * 80
WALK = "<!-- walk -->\n" + "".join(f"{i}. `runtime/base/a.h` `a`\n" for i in (1, 2, 3))

CLEAN = {
    "include/kvrt.h": "/* One. */\nKVRT_API int kvrt_one(\n    int a);\n",
    "runtime/api/kvrt.map": "KVRT_0.1 { global: kvrt_one; local: *; };\n",
    "runtime/base/a.h": "int a();\n",
    "runtime/base/posix/c.cc": "#include <unistd.h>\n",
    "bindings/cli/main.cc": "#include <unistd.h>\n",
    "runtime/text/d.cc": '// strtod( in a comment\nbool g() { return name == "isalpha" && f("%d%% of %s, %.100s", "100 % free") && x.strtod(1); }\n',
    "runtime/compute/b.cc": '#include "runtime/base/a.h"\n// std::exp( in a comment is no call\nfloat f(float x) { return sqrt(x); }\n',
}
PLANTED = [
    ({"runtime/base/c.cc": '#include "runtime/kv/k.h"\n', "runtime/kv/k.h": ""}, "runtime/base must not include runtime/kv/k.h"),
    ({"runtime/base/c.cc": '#include "runtime/base/posix/k.h"\n', "runtime/base/posix/k.h": ""}, "runtime/base must not include runtime/base/posix/k.h"),
    ({"runtime/base/posix/c.cc": '#include "runtime/kv/k.h"\n', "runtime/kv/k.h": ""}, "runtime/base/posix must not include"),
    ({"bindings/c.c": '#include "runtime/base/a.h"\n'}, "bindings must not include runtime/base/a.h"),
    ({"bindings/cli/c.cc": '#include "runtime/base/a.h"\n'}, "bindings/cli must not include runtime/base/a.h"),
    ({"bindings/cpp/c.hpp": '#include "bindings/cli/k.h"\n', "bindings/cli/k.h": ""}, "bindings/cpp must not include bindings/cli/k.h"),
    ({"storage/c.cc": '#include "runtime/compute/k.h"\n', "runtime/compute/k.h": ""}, "storage must not include"),
    ({"cuda/kernels/c.cu": '#include "runtime/engine/k.h"\n', "runtime/engine/k.h": ""}, "cuda must not include runtime/engine/k.h"),
    ({"cuda/kernels/c.cu": '#include "tests/cuda/k.h"\n', "tests/cuda/k.h": ""}, "cuda must not include tests/cuda/k.h"),
    ({"runtime/compute/cpu/c.cc": '#include "runtime/model/k.h"\n', "runtime/model/k.h": ""}, "runtime/compute must not include"),
    ({"runtime/model/c.cc": '#include "runtime/kv/k.h"\n', "runtime/kv/k.h": ""}, "runtime/model must not include"),
    ({"runtime/kv/c.cc": '#include "runtime/compute/k.h"\n', "runtime/compute/k.h": ""}, "runtime/kv must not include"),
    ({"runtime/text/c.cc": '#include "runtime/text/grammar/k.h"\n', "runtime/text/grammar/k.h": ""}, "runtime/text must not include"),
    ({"runtime/text/unicode/c.cc": '#include "runtime/text/tokenizer/k.h"\n', "runtime/text/tokenizer/k.h": ""}, "runtime/text/unicode must not include"),
    ({"runtime/text/tokenizer/c.cc": '#include "runtime/text/grammar/k.h"\n', "runtime/text/grammar/k.h": ""}, "runtime/text/tokenizer must not include"),
    ({"runtime/text/template/c.cc": '#include "runtime/text/reply/k.h"\n', "runtime/text/reply/k.h": ""}, "runtime/text/template must not include"),
    ({"runtime/text/grammar/c.cc": '#include "runtime/text/template/k.h"\n', "runtime/text/template/k.h": ""}, "runtime/text/grammar must not include"),
    ({"runtime/text/reply/c.cc": '#include "runtime/text/grammar/k.h"\n', "runtime/text/grammar/k.h": ""}, "runtime/text/reply must not include"),
    ({"storage/values.h": '#include "storage/store/k.h"\n', "storage/store/k.h": ""}, "storage must not include storage/store/k.h"),
    ({"storage/segment/c.cc": '#include "storage/catalog/k.h"\n', "storage/catalog/k.h": ""}, "storage/segment must not include"),
    ({"storage/catalog/c.cc": '#include "storage/store/k.h"\n', "storage/store/k.h": ""}, "storage/catalog must not include"),
    ({"storage/store/c.cc": '#include "storage/repair/k.h"\n', "storage/repair/k.h": ""}, "storage/store must not include"),
    ({"storage/repair/c.cc": '#include "runtime/engine/k.h"\n', "runtime/engine/k.h": ""}, "storage/repair must not include"),
    ({"runtime/engine/c.cc": '#include "include/kvrt.h"\n'}, "runtime/engine must not include"),
    ({"runtime/engine/sampling/c.cc": '#include "runtime/kv/k.h"\n', "runtime/kv/k.h": ""}, "runtime/engine/sampling must not include"),
    ({"runtime/engine/conversation/c.cc": '#include "runtime/engine/session/k.h"\n', "runtime/engine/session/k.h": ""}, "runtime/engine/conversation must not include"),
    ({"runtime/engine/session/c.cc": '#include "runtime/engine/step/k.h"\n', "runtime/engine/step/k.h": ""}, "runtime/engine/session must not include"),
    ({"runtime/engine/step/c.cc": '#include "runtime/engine/k.h"\n', "runtime/engine/k.h": ""}, "runtime/engine/step must not include"),
    ({"runtime/engine/resources/c.cc": '#include "runtime/engine/session/k.h"\n', "runtime/engine/session/k.h": ""}, "runtime/engine/resources must not include"),
    ({"ARCHITECTURE.md": WALK.replace("`a`", "`b`")}, "runtime/base/a.h has no b"),
    ({"ARCHITECTURE.md": WALK + "4. `runtime/base/a.h` `a`\n" * 8}, "a walk of 11 steps"),
    ({"ARCHITECTURE.md": WALK}, "comes to runtime/base/a.h more than twice"),
    ({"runtime/api/c.cc": '#include "tests/api/k.h"\n', "tests/api/k.h": ""}, "runtime/api must not include"),
    ({"samples/c.c": '#include "runtime/base/a.h"\n'}, "samples must not include"),
    ({"tests/api/c.c": '#include "runtime/base/a.h"\n'}, "tests/api must not include"),
    ({"tests/consumer/c.c": '#include "runtime/base/a.h"\n'}, "tests/consumer must not include"),
    ({"tests/bindings/c.cc": '#include "runtime/base/a.h"\n'}, "tests/bindings must not include"),
    ({"include/k.hpp": '#include "runtime/base/a.h"\n'}, "include must not include"),
    ({"runtime/base/c.cc": '#include "runtime/base/none.h"\n'}, "is no file of the tree"),
    ({"runtime/compute/c.cc": "float g(float x) { return std::exp(x); }\n"}, "std::exp is libm's"),
    ({"runtime/engine/sampling/sampler.cc": "float g(float x) { return ::powf(x, x); }\n"}, "::powf is libm's"),
    ({"runtime/text/c.cc": "double g(const char* s) { return strtod(s, nullptr); }\n"}, "strtod depends on the host's locale"),
    ({"storage/c.cc": "double g(const std::string& s) { return std::stod(s); }\n"}, "stod depends on the host's locale"),
    ({"runtime/text/c.cc": "bool g(char c) { return std::isalpha(c); }\n"}, "isalpha depends on the host's locale"),
    ({"runtime/text/c.cc": "#include <sstream>\n"}, "<sstream> depends on the host's locale"),
    ({"runtime/text/c.cc": "#include <nlohmann/json.hpp>\n"}, "<nlohmann/json.hpp> depends on the host's locale"),
    ({"runtime/api/c.cc": 'Status g(double d) { return error(kA, kB, "found %5.1f%%", d); }\n'}, "prints by the host's locale"),
    ({"runtime/api/c.cc": 'void g(char* s, double d) { snprintf(s, 9, "%d %.*g", 1, 2, d); }\n'}, "prints by the host's locale"),
    ({"runtime/model/c.cc": "#include <sys/mman.h>\n"}, "<sys/mman.h> is the system's"),
    ({"runtime/base/c.h": "#include <csignal>\n", "runtime/base/c.cc": '#include "runtime/base/c.h"\n'}, "<csignal> is the system's"),
    ({"cuda/backend/c.cc": "#  include <dlfcn.h>\n"}, "<dlfcn.h> is the system's"),
    ({"runtime/base/c.cc": "int x;\n" * 401}, "file of 401 lines"),
    ({"runtime/base/c.cc": "void longer(int x) {\n" + LONG_BODY + "}\n"}, "function longer of 82 lines"),
    ({"runtime/base/c.cc": "class C {\n  void in_class(\n      int x) {\n  " + LONG_BODY + "  }\n};\n"}, "function in_class of 83 lines"),
    ({"cuda/kernels/c.cu": "__global__ void __launch_bounds__(kThreads)\n    kernel(int x) {\n" + LONG_BODY + "}\nvoid next() {\n}\n"}, "function kernel of 83 lines"),
    ({"tests/tidy/long.txt": "runtime/base/gone.cc: it was one idea\n"}, "runtime/base/gone.cc is not long, or gone"),
    ({"tests/tidy/long.txt": "runtime/base/c.cc:g: one idea\n", "runtime/base/c.cc": "int x;\n" * 401}, "file of 401 lines"),
    ({"tests/tidy/long.txt": "runtime/base/c.cc: \n", "runtime/base/c.cc": "int x;\n" * 401}, "runtime/base/c.cc has no reason"),
    ({"runtime/base/dead.h": ""}, "runtime/base/dead.h: nothing includes it"),
    ({"tests/dead.sh": ""}, "tests/dead.sh: nothing names it"),
    ({"cmake/x.cmake": "add_compile_options(-ffast-math)\n"}, "-ffast-math changes results"),
    ({"include/kvrt.h": "\nKVRT_API int kvrt_one(int a);\n"}, "a function without a comment of its own"),
    ({"include/kvrt.h": "/* One. */\nKVRT_API int kvrt_one(int a);\n/* Two. */\nKVRT_API kvrt_status kvrt_two(void);\n"}, "kvrt_two is declared in kvrt.h and not exported"),
    ({"runtime/api/kvrt.map": "KVRT_0.1 { global: kvrt_one; kvrt_old; local: *; };\n"}, "kvrt_old is exported and not declared"),
]


# Object files of these sources, with --build: the symbols that they call tell, however the source spells them.
OBJECTS = [
    ("#include <string>\nstd::string f(double d);\nstd::string f(double d) { return std::to_string(d); }\n", "which depends on the host's locale"),
    ("#include <sstream>\nvoid f(std::ostream& o, double d);\nvoid f(std::ostream& o, double d) { o << d; }\n", "which depends on the host's locale"),
    ("#include <cstdlib>\ndouble f(const char* s);\ndouble f(const char* s) { return (strtod)(s, nullptr); }\n", "calls strtod, which depends"),
    ("#include <string>\nstd::string f(int i);\nstd::string f(int i) { return std::to_string(i); }\n", None),
]


def run_objects(text):
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        for name, content in (CLEAN | {"storage/c.cc": text}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        (root / "build").mkdir()
        command = "c++ -std=c++20 -O2 -ffp-contract=off -o c.o -c " + str(root / "storage/c.cc")
        subprocess.run(command.split(), cwd=root / "build", check=True)
        entry = {"directory": str(root / "build"), "file": str(root / "storage/c.cc"), "command": command}
        (root / "build/compile_commands.json").write_text(json.dumps([entry]))
        done = subprocess.run([sys.executable, TIDY, "--source", root, "--build", root / "build"], capture_output=True, text=True)
        return done.stdout


def run(files, untracked=None):
    """With `untracked`, the other files are those of a git repository."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in (CLEAN | files).items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if untracked:
            for words in ("init -q", "add ."):
                subprocess.run(["git", "-C", root, *words.split()], check=True)
            pathlib.Path(root, untracked).write_text("import kvrt\n")
        done = subprocess.run([sys.executable, TIDY, "--source", root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


bad = 0
code, out = run({})
if code != 0:
    print("the clean tree has faults:\n" + out)
    bad += 1
code, out = run({"tests/tidy/long.txt": "runtime/base/c.cc: a table\n", "runtime/base/c.cc": "int x;\n" * 401})
if "runtime/base/c.cc: file of 401 lines: a table" not in out or "1 long pieces" not in out:
    print("a long file with a reason is not reported:\n" + out)
    bad += 1
for name, faults in (("ann.py", 0), ("tests/ann.py", 1)):  # new files in the root are a newcomer's, who tries the README's examples
    code, out = run({"tests/b.sh": "# b.sh\n", "README.md": "b.sh\n"}, name)
    if code != faults or ("nothing names it" in out) != (faults == 1):
        print(f"a new {name}: expected {faults} faults, found (exit {code}):\n{out}")
        bad += 1
for files, expected in PLANTED:
    code, out = run(files)
    if code != 1 or expected not in out:
        print(f"planted {sorted(files)}: expected \"{expected}\", found (exit {code}):\n{out}")
        bad += 1
for text, expected in OBJECTS:
    out = run_objects(text)
    if (expected or "") not in out or (expected is None and "locale" in out):
        print(f"object of {text!r}: expected {expected}, found:\n{out}")
        bad += 1
print(f"{3 + len(PLANTED) + len(OBJECTS)} trees, {bad} faults")
sys.exit(1 if bad else 0)
