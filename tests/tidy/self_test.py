#!/usr/bin/env python3
"""tidy.py on small trees with one planted fault each: it must find that one, and nothing in the clean tree."""
import json
import pathlib
import subprocess
import sys
import tempfile

import layers
import shapes

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


def large_class(methods, fields, head="class Large {\n public:\n"):
    return head + "".join(f"  int m{i}(int a, std::map<int, int> b = {{}}) const;\n" for i in range(methods)) + \
        "".join(f"  std::map<int, int> f{i} = {{{{1, 2}}}};\n" for i in range(fields)) + "};\n"


PLANTED = [
    ({"runtime/new/c.cc": "int x;\n"}, "runtime/new: a folder with code, and no row"),
    ({"runtime/base/d.cc": "", "storage/d.cc": ""}, "runtime/base/d.cc: runtime/text/d.cc, storage/d.cc has its name"),
    ({"tests/tidy/names.txt": "a.h: one for each device\n"}, "a.h is there once, or not at all"),
    ({"tests/tidy/names.txt": "d.cc: \n", "storage/d.cc": ""}, "d.cc has no reason"),
    ({"runtime/base/c.h": "class Own {\n  void f();\n};\n", "runtime/kv/c.cc": "void Own::f() {}\n"}, "runtime/kv/c.cc:1: a method of Own, whose folder is runtime/base"),
    ({"runtime/base/c.h": "class Own final : public A {\n  class In;\n};\n", "runtime/kv/c.cc": "\nstd::pair<int, int> kvrt::Own::f(\n    int a) {}\n"},
     "runtime/kv/c.cc:2: a method of Own"),
    ({"runtime/base/c.h": "struct Own {\n  Own();\n};\n", "runtime/kv/c.cc": "Own::Own() : a_(1) {}\n"}, "runtime/kv/c.cc:1: a method of Own"),
    ({"tests/tidy/knots.txt": "runtime/base/a runtime/base/c: they were one\n"}, "runtime/base/a runtime/base/c is no knot"),
    ({"runtime/kv/c.cc": large_class(31, 0)}, "class Large of 31 public methods and 0 fields"),
    ({"runtime/kv/c.h": large_class(0, 21)}, "class Large of 0 public methods and 21 fields"),
    ({"runtime/kv/c.h": large_class(0, 21), "tests/tidy/classes.txt": "Large: one idea\n"}, "class Large of 0 public methods and 21 fields"),
    ({"runtime/base/c.h": large_class(0, 21)}, "say in tests/tidy/classes.txt why it is one"),
    ({"runtime/base/c.h": large_class(0, 20, "class Outer {\n  struct Large {\n") + "  int a;\n};\n", "runtime/base/d.h": large_class(31, 0, "struct Outer::Large final : A {\n")},
     "class Outer::Large of 31 public"),
    ({"tests/tidy/classes.txt": "Gone: one idea\n"}, "Gone is not large, or gone"),
    ({"tests/tidy/classes.txt": "Gone: at most 3 methods\n"}, "Gone is not large, or gone"),
    ({"runtime/kv/c.h": large_class(4, 0, "class Large {\n"), "tests/tidy/classes.txt": "Large: at most 3 methods\n"}, "class Large of 4 methods, at most 3"),
    ({"tests/tidy/classes.txt": "".join(f"Large{i}: one idea\n" for i in range(13))}
     | {f"runtime/base/c{i}.h": large_class(31, 0, f"struct Large{i} {{\n") for i in range(13)}, "13 large classes, at most 12"),
    ({"ARCHITECTURE.md": WALK.replace("`a`", "`b`")}, "runtime/base/a.h has no b"),
    ({"ARCHITECTURE.md": WALK + "4. `runtime/base/a.h` `a`\n" * 8}, "a walk of 11 steps"),
    ({"ARCHITECTURE.md": WALK}, "comes to runtime/base/a.h more than twice"),
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


# What a class has, and what it has not.
COUNTED = """
template <typename T>
class alignas(64) Box final : public Base<T> {
 public:
  enum class Kind : uint8_t { kA, kB };
  using Map = std::map<int, int>;
  static constexpr int kMost = 3;
  explicit Box(int a, int* b)
      : a_{a}, b_(*b), c_(f(a)) {
    g();
  }
  Box(const Box&) = delete;
  ~Box() = default;
  const Map& map() const { return map_; }
  bool operator==(const Box& o) const = default;
  int operator()(int a) { return a; }
  static Result<std::unique_ptr<Box>> open(
      const std::function<void(int, int)>& each = {});
  struct Inner {
    int x, y = {3}, z = f(1, 2);
  };
  class Announced;
  friend class Other;

 private:
  void g() KVRT_REQUIRES(mu_);
  mutable Mutex mu_;
  Map map_ KVRT_GUARDED_BY(mu_), other_;
  void (*call_)(int a, int b) = nullptr;
  std::function<void(int)> done_ = [](int a) { return a; };
  enum { kOne, kTwo } kind_ = kOne;
  uint8_t bytes_[kMost] = {1, 2, 3}, more_[2];
  int a_, b_;
};
"""


def check_rows():
    """Every folder, including every other: reported where its row does not have it, and only there."""
    folders = sorted(set(layers.LAYERS) - {"include"}) + ["abi"]
    header = {f: "include/kvrt.h" if f == "abi" else f"{f}/k{i}.h" for i, f in enumerate(folders)}
    includes = {f"{f}/c{i}.cc": "".join(f'#include "{header[g]}"\n' for g in folders if g != f) for i, f in enumerate(sorted(layers.LAYERS))}
    _, out = run({path: "" for path in header.values() if path != "include/kvrt.h"} | includes)
    wrong = 0
    for i, own in enumerate(sorted(layers.LAYERS)):
        for other in folders:
            if other != own and (f": {own} must not include {header[other]}\n" in out) != (other not in layers.LAYERS[own]):
                print(f"{own} includes {header[other]}: reported, and its row allows it, or the other way round")
                wrong += 1
    return wrong


def check_knots():
    """Each knot of the list is one where its line is missing, and none where it is there."""
    wrong, allowed = 0, (TIDY.parent / "knots.txt").read_text()
    for line in [line for line in allowed.splitlines() if line and not line.startswith("#")] + ["runtime/base/x runtime/base/y runtime/base/z: new"]:
        members = line.split(": ")[0].split()
        heads = {m: m + ".h" if m not in layers.LAYERS else m + "/k.h" for m in members}
        ring = {heads[m]: f'#include "{heads[n]}"\n' for m, n in zip(members, members[1:] + members[:1])}
        circle = f"that include each other in a circle: {line.split(': ')[0]}\n"
        if circle not in run(ring)[1] or circle in run(ring | {"tests/tidy/knots.txt": line + "\n"})[1]:
            print("not reported as a knot, or reported although it is listed: " + line)
            wrong += 1
    return wrong


bad = check_rows() + check_knots()
found = shapes.classes(COUNTED)
if found != [shapes.Shape("Box", 3, 5, 4, 10), shapes.Shape("Inner", 19, 0, 0, 3)]:
    print(f"counted wrongly: {found}")
    bad += 1
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
