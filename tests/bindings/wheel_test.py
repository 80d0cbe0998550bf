#!/usr/bin/env python3
"""The distributions of the Python binding, as a user has them.

  wheel_test.py --source DIR --library FILE [--wheel FILE]

--library: a libkvrt.so.0 with its dependencies and libstdc++ inside (KVRT_STATIC_DEPS). --wheel: the wheel to look at, which holds that library; it has
the licences of what is linked into that. Without it one is made. auditwheel must agree with its tag. In an empty virtual environment, with no compiler and nothing of the source tree in reach, the
wheel runs the README's program; the wheel of CUDA puts its library beside the other; the source distribution works with the system's library.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PLATFORM = "manylinux_2_34_x86_64"
NEWEST = {"GLIBC": (2, 34), "GCC": (12, 0, 0)}  # and no symbol of libstdc++
NEEDED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
# Ends a program that takes anything of the tree, or starts another program; at its end it tells what is mapped.
GUARD = """
import atexit, os, sys
FORBIDDEN = {forbidden!r}
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork"):
        os.write(2, f"guard: {{event}} {{arguments}}\\n".encode())
        os._exit(70)
    if event in ("open", "ctypes.dlopen", "os.listdir", "os.scandir") and any(str(arguments[0]).startswith(f + "/") for f in FORBIDDEN):
        os.write(2, f"guard: {{event}} {{arguments[0]}}\\n".encode())
        os._exit(70)
def mapped():
    with open("/proc/self/maps") as maps, open("maps.txt", "w") as told:
        told.writelines(sorted({{line.split()[5] + "\\n" for line in maps if ".so" in line}}))
sys.addaudithook(watch)
atexit.register(mapped)
"""


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"wheel_test: {what}: expected {wanted!r}, found {found!r}")


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        sys.exit(f"wheel_test: {' '.join(map(str, command))} exits {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def pip(*arguments, **options):
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, **options)


def build(project, work, **environment):
    """The wheel of a project, in a folder of its own."""
    out = pathlib.Path(tempfile.mkdtemp(dir=work))
    pip("wheel", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "-w", out, project,
        env={**{k: v for k, v in os.environ.items() if not k.startswith("KVRT_")}, **environment})
    wheel, = out.glob("*.whl")
    return wheel


def environment(work, name, *wanted):
    """A virtual environment with what `pip install` makes of these, no more, without pip. Gives its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", work / name)
    python = work / name / "bin" / "python"
    pip("--python", python, "install", "--quiet", "--no-index", *wanted)
    return python


def check_contents(wheel, library, source, noticed):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        version = re.search(r'__version__ = "(.+)"', (source / "bindings/python/kvrt/__init__.py").read_text())[1]
        expect(wheel.name, f"kvrt-{version}-py3-none-{PLATFORM}.whl", "the wheel's name")
        expect([n for n in names if ".so" in n], ["kvrt/libkvrt.so.0"], "libraries")
        expect(archive.read("kvrt/libkvrt.so.0") == library.read_bytes(), True, "the library as it was built")
        modules = {f"kvrt/{file.name}" for file in (source / "bindings/python/kvrt").iterdir() if file.suffix == ".py"}
        expect({n for n in names if n.startswith("kvrt/")} - {"kvrt/libkvrt.so.0"}, modules | {"kvrt/py.typed"}, "modules")
        info = f"kvrt-{version}.dist-info"
        expect(f"{info}/licenses/LICENSE" in names, True, "its licence")
        notices = archive.read(f"{info}/licenses/THIRD_PARTY_NOTICES").decode().lower() if noticed else ""
        expect([linked for linked in ("zstd", "sqlite", "pcre2", "sodium", "stdc++") if noticed and linked not in notices], [], "missing in THIRD_PARTY_NOTICES")
        metadata = archive.read(f"{info}/METADATA").decode()
        files = re.findall("^License-File: (.+)$", metadata, re.M)
        expect(sorted(files), ["LICENSE", "THIRD_PARTY_NOTICES"] if noticed else ["LICENSE"], "License-File in METADATA")
        expect({n for n in names if "/licenses/" in n}, {f"{info}/licenses/{name}" for name in files}, "licence files")
        for line in (f"Version: {version}", "License-Expression: MIT", "Requires-Python: >=3.9", f"Requires-Dist: kvrt-cuda=={version}; extra == 'cuda'",
                     "Description-Content-Type: text/markdown", "Classifier: Typing :: Typed"):
            expect(line in metadata.splitlines(), True, f"{line} in METADATA")


def check_symbols(library):
    """No version of a symbol is newer than the wheel's tag says, and no other library is needed."""
    text = run("readelf", "-V", "-d", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    expect(needed - NEEDED, set(), "libraries that it needs")
    wanted = set(re.findall(r"Name: ([A-Z]+[A-Z0-9]*_[0-9.]+)  Flags", text))
    expect(bool(wanted), True, "versions of symbols")
    for name in wanted:
        family, _, number = name.partition("_")
        expect(family in NEWEST and tuple(map(int, number.split("."))) <= NEWEST[family], True, f"{name}: a symbol that {PLATFORM} has")


def check_auditwheel(wheel):
    text = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
    expect(f'is consistent with the following platform tag: "{PLATFORM}"' in text, True, f"auditwheel, which says {text}")


def check_bare(wheel, work, source, build_tree):
    """The README's program, as it is printed, twice."""
    program = re.search(r"```python\n(.*?)```", (source / "bindings/python/README.md").read_text(), re.S)[1]
    (work / "program.py").write_text(program)
    shutil.copy(source / "tests/golden/tiny/llama_gqa_f32.gguf", work / "model.gguf")
    python = environment(work, "bare", wheel)
    site, = (work / "bare" / "lib").glob("python3*/site-packages")
    (site / "wheel_guard.py").write_text(GUARD.format(forbidden=[str(source), str(build_tree)]))
    (site / "wheel_guard.pth").write_text("import wheel_guard\n")  # not sitecustomize: Debian's Python has one, which comes first
    bare = {"PATH": str(work / "nothing"), "HOME": str(work)}
    for reused in ("0", "[1-9][0-9]*"):
        out = run(python, "-W", "error", "program.py", cwd=work, env=bare)
        expect(bool(re.search(rf"\nreused {reused} of [1-9][0-9]* tokens\n$", out)), True, f"the program, which says {out}")
    mapped = (work / "maps.txt").read_text().split()
    expect([m for m in mapped if "kvrt" in pathlib.Path(m).name], [str(site / "kvrt" / "libkvrt.so.0")], "the library that is used")
    expect([m for m in mapped if re.search(r"stdc\+\+|sqlite|zstd|pcre|sodium", pathlib.Path(m).name)], [], "libraries beside it")
    guarded = subprocess.run([python, "-c", f"open({str(source / 'LICENSE')!r})"], env=bare, cwd=work, capture_output=True)
    expect(guarded.returncode, 70, "the guard")


def check_cuda(wheel, work, source, library):
    """libkvrt looks for libkvrt_cuda.so beside itself, where the other wheel puts it. Here another library has that name, and is refused."""
    cuda = build(source / "bindings/python/cuda", work, KVRT_WHEEL_LIBRARY=str(library), KVRT_WHEEL_PLATFORM=PLATFORM)
    expect(cuda.name, wheel.name.replace("kvrt-", "kvrt_cuda-"), "the name of CUDA's wheel")
    shutil.copy(wheel, cuda.parent)
    python = environment(work, "cuda", "--find-links", cuda.parent, "kvrt[cuda]")
    code = "import kvrt\ntry:\n  kvrt.Runtime(device=kvrt.Device.CUDA)\nexcept kvrt.Incompatible as error:\n  print(error)"
    said = run(python, "-c", code, env={"PATH": "/nowhere"})
    expect("libkvrt_cuda.so is not libkvrt_cuda" in said, True, f"the library that it finds: {said}")


def check_sdist(work, source, library):
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", work / "sdist", cwd=source / "bindings/python")
    sdist, = (work / "sdist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
        expect([member.name for member in archive if not member.isfile()], [], "links in the source distribution")
        licence = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/LICENSE").read()
        expect(licence, (source / "LICENSE").read_bytes(), "LICENSE in the source distribution")
    for name in ("LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "wheel_library.py", "kvrt/_raw.py", "kvrt/py.typed", "examples/agent.py"):
        expect(name in names, True, f"{name} in {sdist.name}")
    expect([name for name in names if name.startswith(("cuda", "tests")) or ".so" in name], [], "what is not in the source distribution")
    wheel = build(sdist, work)
    expect(wheel.name, f"{sdist.name.removesuffix('.tar.gz')}-py3-none-any.whl", "a wheel without a library")
    python = environment(work, "plain", wheel)
    expect(run(python, "-c", "import kvrt; print(kvrt.library_version())", env={"KVRT_LIBRARY": str(library)}), "0.1.0\n", "a library of the user's")
    missing = subprocess.run([python, "-c", "import kvrt"], env={"KVRT_LIBRARY": "/nowhere/libkvrt.so.0"}, capture_output=True, text=True)
    expect("Install libkvrt, or set KVRT_LIBRARY" in missing.stderr, True, f"what it says without one: {missing.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--wheel", type=pathlib.Path)
    o = parser.parse_args()
    source, library = o.source.resolve(), o.library.resolve()
    with tempfile.TemporaryDirectory(prefix="kvrt-wheel-") as folder:
        work = pathlib.Path(folder)
        wheel = o.wheel or build(source / "bindings/python", work, KVRT_WHEEL_LIBRARY=str(library), KVRT_WHEEL_PLATFORM=PLATFORM)
        check_contents(wheel.resolve(), library, source, noticed=o.wheel is not None)
        check_symbols(library)
        check_auditwheel(wheel)
        check_bare(wheel.resolve(), work, source, library.parent)
        check_cuda(wheel.resolve(), work, source, library)
        check_sdist(work, source, library)


if __name__ == "__main__":
    main()
