"""recipes.py SOURCE: the vcpkg port and the Conan recipe agree with CMakeLists.txt, the files that the recipe exports are enough to configure, and a
static package of Conan's gives the static library."""
import ast
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import types
import unittest.mock

source = pathlib.Path(sys.argv[1]).resolve()
build_files = [source / "CMakeLists.txt", *source.glob("cmake/*.cmake"), *source.glob("bindings/*/CMakeLists.txt"), *source.glob("runtime/*/CMakeLists.txt")]
cmake = "".join(p.read_text() for p in build_files)
version = re.search(r"project\(kvrt VERSION ([\d.]+)", cmake).group(1)
options = set(re.findall(r"^\s*(?:option|set)\((KVRT_\w+)", cmake, re.M))
# What CMake looks for: vcpkg's name, Conan's name, the program's alone.
NEEDS = {"libzstd": ("zstd", "zstd"), "sqlite3": ("sqlite3", "sqlite3"), "libpcre2-8": ("pcre2", "pcre2"), "libsodium": ("libsodium", "libsodium"),
         "xxhash.h": ("xxhash", "xxhash"), "nlohmann/json.hpp": ("nlohmann-json", "nlohmann_json"), "CLI/CLI.hpp": ("cli11", "cli11"), "fmt": ("fmt", "fmt")}
OPTIONAL = {"libedit"}  # neither has it; kvrt chat reads plain lines without it
TOOLS = {"nlohmann/json.hpp", "CLI/CLI.hpp", "fmt"}
faults = []


def same(what, found, expected):
    if found != expected:
        faults.append(f"{what}: expected {expected}, found {found}")


found = set(re.findall(r"pkg_check_modules\(\w+ (?:REQUIRED )?IMPORTED_TARGET (\S+?)\)", cmake)) | set(re.findall(r"find_path\(\w+ (\S+)", cmake))
found |= {p for p in re.findall(r"(?m)^\s*find_package\((\w+)", cmake) if p not in ("Threads", "PkgConfig", "GTest")}
same("what CMake looks for", found, set(NEEDS) | OPTIONAL)

port = source / "packaging/vcpkg/ports/kvrt"
manifest = json.loads((port / "vcpkg.json").read_text())
plain = [d if isinstance(d, str) else d["name"] for d in manifest["dependencies"]]
same("vcpkg.json: name and version", (manifest["name"], manifest["version-semver"]), ("kvrt", version))
same("vcpkg.json: dependencies in order", plain, sorted(plain))
same("vcpkg.json: dependencies", {d for d in plain if not d.startswith("vcpkg-")}, {v for k, (v, _) in NEEDS.items() if k not in TOOLS})
same("vcpkg.json: dependencies of tools", set(manifest["features"]["tools"]["dependencies"]), {NEEDS[k][0] for k in TOOLS})
portfile = (port / "portfile.cmake").read_text()
same("portfile.cmake: options that CMakeLists.txt lacks", set(re.findall(r"KVRT_\w+", portfile)) - options, set())
for named in re.findall(r'\$\{SOURCE_PATH\}/([^"]+)"', portfile):
    same(f"portfile.cmake: {named} is there", (source / named).is_file(), True)

recipe = source / "packaging/conan/conanfile.py"
text = recipe.read_text()
required = {r.split("/")[0] for r in re.findall(r'self\.requires\("([^"]+)"\)', text)}
same("conanfile.py: requirements", required, {c for _, c in NEEDS.values()})
same("conanfile.py: options that CMakeLists.txt lacks", set(re.findall(r"KVRT_\w+", text)) - options, set())
exported = next(ast.literal_eval(n.iter) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.For) and "CMakeLists.txt" in ast.unparse(n.iter))
with tempfile.TemporaryDirectory() as folder:
    for pattern in exported:
        for path in source.glob(pattern):
            to = pathlib.Path(folder, "source", path.relative_to(source))
            to.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if path.is_dir() else shutil.copy)(path, to)
    command = ["cmake", "-S", f"{folder}/source", "-B", f"{folder}/build", "-DKVRT_TESTS=OFF", "-DKVRT_SAMPLES=OFF", "-DKVRT_CUDA=OFF", "-DKVRT_STATIC=ON"]
    run = subprocess.run(command, capture_output=True, text=True)
    same("the files that conanfile.py exports: cmake's exit", run.returncode, 0)
    if run.returncode:
        faults.append(run.stderr)

# The recipe's package() and package_info() without Conan, on files as CMake installs them: what those find who link the package.
tools = types.SimpleNamespace(copy=lambda *a, **k: None, load=None, mkdir=lambda _, path: os.makedirs(path), rename=lambda _, a, b: os.rename(a, b),
                              rm=lambda _, pattern, where: [p.unlink() for p in pathlib.Path(where).glob(pattern)], rmdir=lambda _, path: None)
stubs = {f"conan{name}": unittest.mock.MagicMock() for name in (".errors", ".tools.build", ".tools.cmake", ".tools.gnu")}
with unittest.mock.patch.dict(sys.modules, {**stubs, "conan": types.SimpleNamespace(ConanFile=object), "conan.tools.files": tools}):
    made = runpy.run_path(str(recipe))["KvrtConan"]
SHARED, STATIC = {"libkvrt.so", "libkvrt.so.0"}, {"libkvrt.a"}
for shared, program, linked, kept in ((True, True, SHARED, SHARED), (False, False, STATIC, STATIC), (False, True, STATIC, SHARED)):
    with tempfile.TemporaryDirectory() as folder:
        conan = made()
        conan.options, conan.package_folder, conan.source_folder = types.SimpleNamespace(shared=shared, tools=program), folder, str(source)
        lib = pathlib.Path(folder, "lib")
        lib.mkdir()
        for name in SHARED if shared else SHARED | STATIC:
            (lib / name).touch()
        parts = {name: types.SimpleNamespace(libdirs=["lib"], set_property=lambda *_: None) for name in ("libkvrt", "cpp")}
        conan.cpp_info = types.SimpleNamespace(components=parts, set_property=lambda *_: None)
        conan.package()
        conan.package_info()
        what = f"conanfile.py: shared={shared}, tools={program}"
        same(f"{what}: what is linked", {p.name for c in parts.values() for d in c.libdirs for p in pathlib.Path(folder, d).glob("libkvrt.*")}, linked)
        same(f"{what}: what lib has", {p.name for p in lib.glob("libkvrt.*")}, kept)

print("\n".join(faults) or "recipes: ok")
sys.exit(bool(faults))
