"""The parts that gpu_check.py runs: programs, their arguments, how long each may take, and how its output is judged."""
import json
import os
import pathlib
import shutil
import sys
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional

HERE = pathlib.Path(__file__).resolve().parent
DEVICE_TESTS = ("rows", "draw", "fused", "matmul", "attention", "key_bias", "states", "graphs", "backend", "gemm_library", "prompts", "fp8",
                "fp8_prompts")  # tests/cuda
# Tests of the public contract that compute on the device: KVRT_TEST_CUDA_LIBRARY tells them so (tests/api/support.h). These also hold where
# kernels for few rows and for many differ in last bits, if only a prompt is cut alike each time;
API = ("api_reuse", "api_sampling", "api_wake", "api_reentry", "api_store_show", "api_metrics", "api_lifecycle", "api_grammar",
       "api_reply")
# with strict determinism these do too.
STRICT = ("api_turns", "api_store_calls", "api_messages", "api_kv_formats", "api_shared_prefix", "api_company", "api_rewind", "api_edits",
          "api_autosave", "api_beside", "api_states", "api_cancel", "api_threads", "api_limits", "api_windows", "api_recurrent",
          "api_checkpoints", "api_answers", "api_fork_reuse", "api_own_kv")
SIMULATOR = "api_random"
REAL_TOKENS = "cuda_real_tokens"
BENCHMARKS = ("copies", "rows", "matvec", "gemm", "attention", "step")
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The tests that run under a sanitizer. It makes kernels many times slower, and these have every kernel.
SANITIZED = ("rows", "draw", "fp8", "fused", "matmul", "attention", "key_bias", "states")
SANITIZER_ERROR = 86  # the exit code that it is asked for
TEXT_DAYS = 400


@dataclass
class Part:
    name: str
    group: str
    commands: List[List[str]]
    seconds: int = 120  # of each command, at most
    environment: Dict[str, str] = field(default_factory=dict)
    figures: bool = False  # standard output is JSON lines to be kept
    beside: bool = False  # may run beside others of its kind: nothing of it is timed
    judge: Optional[Callable] = None  # of the commands' standard outputs: the fault, or None
    missing: str = ""  # why it cannot run here


def program(a, name):
    return str(a.bin / name)


def device_test(a, name):
    return [program(a, f"cuda_{name}")] if a.emulated else [program(a, "gpu_tests"), name]


def programs(emulated):
    """The programs of the build, by their targets' names."""
    kernels = [*(f"cuda_{name}" for name in DEVICE_TESTS), "bench_cuda_emulated"] if emulated else ["gpu_tests", "bench_cuda"]
    return [*kernels, *API, *STRICT, SIMULATOR, REAL_TOKENS, "kvrt_cli"]


def find_sanitizer():
    for folder in (None, "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", os.environ.get("CUDA_HOME", "") + "/bin"):
        found = shutil.which("compute-sanitizer", path=folder)
        if found:
            return found
    return None


def bench(a, name):
    program_name = [program(a, "bench_cuda_emulated"), "--smoke"] if a.emulated else [program(a, "bench_cuda")]
    return Part(f"bench {name}", "bench", [[*program_name, name]], seconds=300, figures=True)


def sanitizer(a):
    found, parts = find_sanitizer(), []
    for tool in SANITIZER_TOOLS:
        for name in SANITIZED:
            part = Part(f"{tool} gpu_{name}", "sanitizer", [[found or "compute-sanitizer", "--tool", tool, "--error-exitcode", str(SANITIZER_ERROR),
                                                             "--print-limit", "20", *device_test(a, name)]], seconds=180)
            part.missing = "" if found else "compute-sanitizer was not found"
            parts.append(part)
    return parts


# ---- the model, through the program kvrt

def write_text(folder):
    path = folder / "text"
    path.write_text("".join(f"Day {day}: wind {day * 7 % 31} knots, {day * 13 % 97} birds on the north beach, lamp oil {day * 5 % 53} litres.\n"
                            for day in range(1, TEXT_DAYS)))
    return str(path)


def judge_perplexity(outputs):
    cpu, device = (json.loads(text)["perplexity"] for text in outputs)
    return None if abs(device / cpu - 1) < 5e-3 else f"perplexity {device} on the device, {cpu} on the CPU"


def judge_resume(outputs):
    first, second = (json.loads(text) for text in outputs)
    found = second["reused_disk"] + second["reused_memory"]
    return None if found + 1 >= first["prompt_tokens"] else f"{found} of {first['prompt_tokens']} tokens came back in a new process"


def judge_doctor(outputs):
    lines = [json.loads(line) for line in outputs[0].splitlines()]
    works = [line for line in lines if line["what"] == "cuda" and line["mark"] == "ok" and "works" in line["text"]]
    return None if works else "doctor shows no device that works: " + "; ".join(line["text"] for line in lines if line["what"] == "cuda")


def with_model(a, scratch):
    kvrt, library = program(a, "kvrt"), ["--cuda-library", str(a.library)]
    device = ["--device", "cuda", *library]
    doctor = Part("doctor", "model", [[kvrt, "doctor", "--json", *library]], judge=judge_doctor)
    text, store = write_text(scratch), str(scratch / "store")
    model = ["-m", str(a.model or "")]
    chat = [kvrt, "run", *model, *device, "--store", store, "--session", "ann", "-n", "16", "--temp", "0", "--json", "-p"]
    lists = ["--prompt", "32,512", "--depth", "0", "--append", "none", "--batch", "8", "--state", "none", "--runs", "3"] if a.quick else [
        "--prompt", "17,32,64,128,512,2048,8000", "--depth", "0,2048,8000", "--append", "1,8,16,64", "--batch", "1,8,16,32,64", "--state", "2048",
        "--runs", "5"]
    parts = [
        Part("perplexity", "model", [[kvrt, "perplexity", *model, "-f", text, "--chunks", "4", "--json", *where] for where in ([], device)],
             judge=judge_perplexity, figures=True),
        Part("resume", "model", [[*chat, "The log of the lighthouse. " * 12], [*chat, " And then?"]], judge=judge_resume, figures=True),
        Part("bench kvrt", "model", [[kvrt, "bench", *model, *device, "-f", text, "--json", *lists]], figures=True, seconds=240)]
    for part in parts:
        part.missing = "" if a.model else "there is no model; --model FILE"
    return [doctor, *parts]


def torch_peer():
    return Part("torch", "peer", [[sys.executable, str(HERE / "torch_peer.py")]], figures=True, seconds=150)


def all_parts(a, scratch):
    """In the order in which they run. a: the arguments of gpu_check.py, with `library` and `tiny` found."""
    on_device = {"KVRT_TEST_CUDA_LIBRARY": str(a.library), "KVRT_TINY_DIR": str(a.tiny), "KVRT_MODEL": str(a.model or "none")}
    by_class, strict = {**on_device, "KVRT_TEST_STEP_MS": "60000"}, {**on_device, "KVRT_TEST_CUDA_STRICT": "1"}
    parts = [Part(f"gpu_{name}", "tests", [device_test(a, name)], environment=on_device) for name in DEVICE_TESTS]
    parts += [Part(REAL_TOKENS, "tests", [[program(a, REAL_TOKENS)]], environment=on_device), *with_model(a, scratch)]
    parts += [bench(a, name) for name in BENCHMARKS]
    parts += [Part(name, "api", [[program(a, name)]], environment=by_class, beside=True) for name in API]
    parts += [Part(name, "api", [[program(a, name)]], environment=strict, beside=True) for name in STRICT]
    parts.append(Part(SIMULATOR, "api", [[program(a, SIMULATOR), "5" if a.quick else "20"]], environment=strict, beside=True))
    if not a.no_sanitizer and not a.emulated:
        parts += sanitizer(a)
    if not a.emulated:
        parts.append(torch_peer())
    return parts
