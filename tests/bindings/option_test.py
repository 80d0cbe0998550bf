#!/usr/bin/env python3
"""option_test.py SOURCE WORK CC [--cxx CXX] [--cargo CARGO] [--go GO] [--mcs MCS] [--library LIBRARY] [--go-cache DIR]: an option of each role is
added to a copy of kvrt.h, and the bindings are made anew. Nothing else of them is touched; each that has its compiler here builds, and has the
options. Go's is built with LIBRARY.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

NUMBERS = """  uint32_t planted_flag; /**< 1: it is planted. NULL is none. */
  uint32_t planted_enum; /**< KVRT_CODEC_..., or see kvrt_session_next. */
  uint64_t planted_number; /**< As many as KVRT_REASON_EOS. */
"""
TEXTS = """  const char* planted_text; /**< A text; NULL: none. */
  size_t planted_text_size; /**< Bytes of it. */
  const char* planted_path; /**< Path of a file; NULL: none. */
  size_t planted_path_size; /**< Bytes of that path. */
"""
HANDLES = """  kvrt_model* planted_model; /**< A model; NULL: none. */
"""
# (A text in a struct that has none yet gives it a lifetime in Rust.)
STRUCTS = {"kvrt_save_options": NUMBERS, "kvrt_model_options": NUMBERS + TEXTS, "kvrt_generate_options": NUMBERS + TEXTS + HANDLES}
# What programs see of them: a file of each binding, and what it must say.
SEEN = {
    "rust/kvrt/src/options.rs": ["pub planted_flag: bool,", "/// It is planted. `None` is none.", "pub planted_enum: Codec,", "see `Session::next`",
                                 "pub planted_number: u64,", "As many as `Reason::EOS`.", "pub planted_path: Option<&'a Path>,",
                                 "pub planted_model: Option<&'a Model>,"],
    "csharp/src/Options.cs": ["public bool PlantedFlag { get; set; }", "True: it is planted. null is none.", "public Codec PlantedEnum", "Session.Next",
                              "public string PlantedText", "As many as Reason.Eos.", "arena.Text(o.PlantedPath, out raw.planted_path_size)",
                              "arena.Hold(o.PlantedModel.Handle)"],
    "go/raw.go": ["\tPlantedFlag bool", "// True: it is planted. nil is none.", "\tPlantedEnum Codec", "Session.Next", "\tPlantedText string", '// A text; "": none.',
                  "As many as ReasonEOS.", "\tPlantedModel *Model", "t.hold(o.PlantedModel.at())"],
    "python/kvrt/_raw.py": ['("planted_flag", c_uint32)', '("planted_text", c_char_p)'], "python/kvrt/_enums.py": ['"planted_enum": Codec,', '"planted_flag",'],
}


def run(command, folder, **environment):
    done = subprocess.run([str(c) for c in command], cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"option_test: {' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def tree(source, work):
    shutil.rmtree(work, ignore_errors=True)
    for name in ("include", "bindings", "runtime/api", "tests/abi"):
        shutil.copytree(source / name, work / name, ignore=shutil.ignore_patterns("__pycache__", "target"))
    header = work / "include/kvrt.h"
    text = header.read_text()
    for struct, planted in STRUCTS.items():
        text, n = re.subn(rf"^}} {struct};$", planted + f"}} {struct};", text, flags=re.M)
        if n != 1:
            sys.exit(f"option_test: no {struct} in kvrt.h any more")
    header.write_text(text)


def files_of(work):
    return {p: p.read_bytes() for p in (work / "bindings").rglob("*") if p.is_file()}


def build(o, work):
    """The bindings that were built."""
    bindings, done = work / "bindings", ["python"]
    run([sys.executable, "-m", "compileall", "-q", bindings / "python/kvrt"], work)
    if o.cxx:
        source = work / "planted.cc"
        source.write_text("#include <kvrt.hpp>\nint main() { kvrt_model_options o = {}; o.planted_text = \"x\"; return o.planted_flag; }\n")
        run([o.cxx, "-std=c++17", "-fsyntax-only", "-I", work / "include", "-I", bindings / "cpp", source], work)
        done.append("c++")
    if o.cargo:
        run([o.cargo, "check", "--offline", "--locked", "--quiet"], bindings / "rust", KVRT_LIB_DIR="/", CARGO_TARGET_DIR=str(work.parent / "option_target"),
            PATH=f"{pathlib.Path(o.cargo).parent}:{os.environ['PATH']}")
        done.append("rust")
    if o.mcs:
        run(["sh", bindings / "csharp/build.sh", work / "assemblies"], work, MCS=str(o.mcs))
        done.append("c#")
    if o.go and o.library:
        (work / "kvrt.pc").write_text(f"Name: kvrt\nDescription: planted\nVersion: 0\nLibs: -L{o.library.parent} -lkvrt\nCflags: -I{work / 'include'}\n")
        run([o.go, "build", "."], bindings / "go", PKG_CONFIG_PATH=str(work), GOCACHE=str(o.go_cache or work / "cache"), GOPATH=str(work / "path"),
            GOFLAGS="-mod=mod", GOPROXY="off", GOTOOLCHAIN="local", CGO_ENABLED="1")
        done.append("go")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "work"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("cc")
    for name in ("cxx", "cargo", "go", "mcs"):
        parser.add_argument(f"--{name}")
    for name in ("library", "go-cache"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    o = parser.parse_args()
    work = o.work.resolve()
    tree(o.source, work)
    before = files_of(work)
    run([sys.executable, "tests/abi/abi.py", "write", "--source", ".", "--cc", o.cc], work)
    bad = [f"{file}: no {text!r}" for file, texts in SEEN.items() for text in texts if text not in (work / "bindings" / file).read_text()]
    made = sorted(str(p.relative_to(work)) for p, text in files_of(work).items() if before.get(p) != text and "__pycache__" not in str(p))
    strange = [name for name in made if b"do not edit" not in (work / name).read_bytes().lower()]
    bad += [f"{name} changed, and does not say that it is made" for name in strange]
    if bad:
        sys.exit("option_test: " + "\n".join(bad))
    print(f"option_test: ok: {len(made)} files made anew; built: {', '.join(build(o, work))}")


if __name__ == "__main__":
    main()
