"""The peer, llama.cpp as llama-cpp-python of PyPI, compiled for this machine or for AVX2, and models that are made with its tools."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "0.3.36"
AVX2_ARGS = "-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON -DGGML_AVX512=OFF"
# g++ 12 tells its optimizer that _tile_loadconfig reads 8 bytes, not 64: where a processor has AMX, a peer that it compiled dies. clang 14 calls
# the macro that ggml asks for __AMXINT8__, so that AMX is left out unless it is defined here.
CLANG = {"CC": "clang-14", "CXX": "clang++-14"}
AMX = {"CFLAGS": "-D__AMX_INT8__", "CXXFLAGS": "-D__AMX_INT8__"}
INFO = "import llama_cpp as l; print(l.__version__); print(l.llama_print_system_info().decode())"
QUANTIZE = """
import ctypes, sys, llama_cpp as l
log = l.llama_log_callback(lambda level, text, user: None)
l.llama_log_set(log, ctypes.c_void_p(0))
p = l.llama_model_quantize_default_params()
p.ftype, p.allow_requantize = l.LLAMA_FTYPE_MOSTLY_Q4_0, True
sys.exit(l.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(p)))
"""


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def show(command):
    print("+ " + " ".join(map(str, command)), file=sys.stderr, flush=True)


def peer_info(python):
    """The peer's description of itself, or None where it is not there or not whole."""
    if not pathlib.Path(python).exists():
        return None
    done = subprocess.run([python, "-c", INFO], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return {"version": lines[0], "system": lines[1]} if done.returncode == 0 and len(lines) > 1 else None


def builds(isa=None, cpuinfo=None):
    """The folders in build/ for the peers of this machine, the environment that each is compiled in, and what its description has to match."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    if isa == "avx2":
        return {"peer-avx2": ({"CMAKE_ARGS": AVX2_ARGS}, "(?!.*AVX512 )")}
    if not re.search(r"^flags\s*:.*\bamx_tile\b", cpuinfo, re.MULTILINE):
        return {"peer": ({}, "")}
    return {"peer-amx": (CLANG | AMX, ".*AMX_INT8"), "peer-no-amx": (CLANG, "(?!.*AMX_INT8)")}


def install_peers(isa=None, top=ROOT / "build"):
    """The Pythons of the peers by the names of their builds. Compiled where they are not there yet, which takes minutes each."""
    return {name: install_peer(top / name, environment, pattern) for name, (environment, pattern) in builds(isa).items()}


def install_peer(folder, more, pattern):
    python = folder / "bin/python"

    def good():
        info = peer_info(python)
        return info and info["version"] == VERSION and re.match(pattern, info["system"])

    if good():
        return python
    # No wheel of pip's cache: it does not know for which instruction set it was compiled.
    commands = [["rm", "-rf", folder], [sys.executable, "-m", "venv", folder],
                [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-binary", "llama-cpp-python",
                 f"llama-cpp-python=={VERSION}", "numpy"]]
    environment = os.environ | more
    print(f"llama-cpp-python is compiled into {folder} now, which takes some minutes", file=sys.stderr)
    for command in commands:
        show(command)
        if subprocess.run(command, env=environment).returncode != 0:
            sys.exit(f"the peer cannot be installed: {' '.join(map(str, command))} failed; it needs PyPI, cmake and {more.get('CXX', 'a C++ compiler')}")
    if not good():
        sys.exit(f"the peer was installed, but {python} cannot import llama_cpp {VERSION}, or it is for another processor: {peer_info(python)}")
    return python


def locked_model(name):
    """A model of .ci/models.lock in the cache."""
    row = next(line.split() for line in (ROOT / ".ci/models.lock").read_text().splitlines() if line.startswith(name + " "))
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = cache / "kvrt/models" / row[2]
    fetch = "./dev model" + {"smollm2": "", "gemma3": " gemma3 --accept-gemma-terms"}.get(name, f" {name}")
    if not path.exists():
        sys.exit(f"{path} is not there; to fetch it: {fetch}")
    if sha256(path) != row[1]:
        sys.exit(f"{path} has not the SHA-256 of .ci/models.lock; to fetch it again: {fetch}")
    return path


def requantized(source, python, folder):
    """The source's weights as Q4_0 by the peer's own quantizer; made anew when source or peer change."""
    target = folder / source.name.replace("Q4_1", "Q4_0")
    stamp, made_from = target.with_suffix(".from"), f"{sha256(source)} {VERSION}\n"
    if target.exists() and stamp.exists() and stamp.read_text() == made_from:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    print(f"+ llama_model_quantize {source} {target} Q4_0", file=sys.stderr)
    if subprocess.run([python, "-c", QUANTIZE, source, target]).returncode != 0:
        sys.exit(f"the peer's quantizer failed on {source}")
    stamp.write_text(made_from)
    return target


def resolve_model(name, python):
    if name in ("smollm2", "gemma3", "qwen2.5-coder", "qwen2.5-coder-1.5b"):
        return locked_model(name)
    if name == "smollm2-q4_0":
        return requantized(locked_model("smollm2"), python, ROOT / "build/bench")
    path = pathlib.Path(name)
    if not path.is_file():
        sys.exit(f"{name} is no model: expected smollm2, smollm2-q4_0, gemma3, qwen2.5-coder, qwen2.5-coder-1.5b or the path of a GGUF file")
    return path
