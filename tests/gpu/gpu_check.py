#!/usr/bin/env python3
"""Whether kvrt works on this machine's CUDA device, and its speed there: one JSON of results. ./dev gpu-check builds and calls it.

  gpu_check.py [--bin DIR] [--lib DIR] [--model FILE|synthetic] [--out FILE.json] [--quick] [--no-sanitizer] [--part NAME ...]
               [--minutes N] [--go-on]

Parts are kernels against the CPU's (gpu_rows, gpu_matmul, gpu_attention), logits through the backend (gpu_backend, gpu_prompts), the tests of the
public contract and the simulator on the device, a real model through the program kvrt, the benchmarks, compute-sanitizer on the kernels, and
PyTorch's figures for the same shapes. One that fails stops no other; one whose tool is not here is skipped, which the result says. It ends after
--minutes: a part that did not come to its end is "unfinished" in the result, and the same command with --go-on does it, and keeps the rest.
It needs Python 3.9 and the programs, nothing else: a folder made by ./dev gpu-check --prepare has them.
--part runs those whose names begin so. --emulated tries this program out with the tests over the emulation: no device, no measurement.
Exit code: 0 all is well, 1 a part failed or is unfinished, 77 there is no device.
"""
import argparse
import concurrent.futures
import datetime
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gpu_parts
import gpu_summary

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PREPARED = (HERE / "bin").is_dir()
STARTED = time.monotonic()
TAIL_LINES, TAIL_CHARS = 60, 6000
STATUSES = ("ok", "failed", "skipped", "unfinished")
NOT_WELL = ("failed", "unfinished")
LOCK = threading.Lock()
RUNNING = set()  # process groups


def say(text):
    with LOCK:
        print(f"[{time.monotonic() - STARTED:4.0f} s] {text}", flush=True)


def tail(text):
    return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]


def run(command, seconds, environment):
    """(exit code or None where it ran out of time, standard output, standard error). It ends with all that it has started."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                   env={**os.environ, **environment}, start_new_session=True)
    except OSError as e:
        return 127, "", f"{command[0]}: {e}"
    RUNNING.add(process.pid)
    try:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err
    finally:
        RUNNING.discard(process.pid)


def interrupted(number, _):
    """Ctrl-C and kill end the running programs too: each has a process group of its own."""
    for group in list(RUNNING):
        os.killpg(group, signal.SIGKILL)
    os._exit(128 + number)


def json_lines(text):
    out = []
    for line in text.splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            pass
    return out


def judge(part, outcomes):
    """(status, why) of a part's commands, of which the last may be the first that failed."""
    code, out, err = outcomes[-1]
    if code is None:
        return "failed", f"it took longer than {part.seconds} s"
    if part.group == "sanitizer" and "Device not supported" in out + err:
        return "skipped", "compute-sanitizer does not know this device or its driver"
    if code == 77:
        return "skipped", (out + err).strip().splitlines()[-1] if (out + err).strip() else "exit code 77"
    if code != 0:
        found = part.group == "sanitizer" and code == gpu_parts.SANITIZER_ERROR
        return "failed", "the sanitizer found errors" if found else f"exit code {code}"
    try:
        why = part.judge([o for _, o, _ in outcomes]) if part.judge else None
    except (ValueError, KeyError, IndexError) as e:
        why = f"its output is not what was expected: {e!r}"
    return ("failed", why) if why else ("ok", "")


def do(part, deadline):
    record = {"part": part.name, "group": part.group, "status": "skipped", "seconds": 0}
    if part.missing:
        record["why"] = part.missing
        return record
    start, outcomes = time.monotonic(), []
    if deadline - start < 2:
        record.update(status="unfinished", why="the time was used up before its turn: --minutes")
        return record
    for command in part.commands:
        outcomes.append(run(command, max(1.0, min(part.seconds, deadline - time.monotonic())), part.environment))
        if outcomes[-1][0] != 0:
            break
    cut = outcomes[-1][0] is None and time.monotonic() >= deadline
    status, why = ("unfinished", "the time was used up while it ran: --minutes") if cut else judge(part, outcomes)
    output = "\n".join(text for _, out, err in outcomes for text in (out, err) if text)
    record.update(status=status, seconds=round(time.monotonic() - start, 2))
    passed = re.findall(r"\[  PASSED  \] (\d+) test", output)
    if passed:
        record["cases"] = int(passed[-1])
    if why:
        record["why"] = why
    if status in NOT_WELL:
        record["command"] = part.commands[len(outcomes) - 1]
        record["output"] = tail(output)
    if part.figures:
        record["figures"] = [figure for _, out, _ in outcomes for figure in json_lines(out)]
    return record


def show(record):
    cases = f"{record['cases']} cases" if "cases" in record else ""
    say(f"{record['status']:10} {record['part']:26} {record['seconds']:6.1f} s  {record.get('why') or cases}")
    if record["status"] in NOT_WELL and record.get("output"):
        with LOCK:
            print("\n".join("        " + line for line in record["output"].splitlines()[-15:]), flush=True)


class Results:
    """The content of the JSON: written anew after each part, so that a run that is cut short leaves its results so far."""

    def __init__(self, path, head, before):
        self.path, self.head, self.records = path, head, before

    def add(self, record):
        with LOCK:
            self.records.append(record)
            count = {status: sum(r["status"] == status for r in self.records) for status in STATUSES}
            text = json.dumps({**self.head, "count": count, "parts": self.records}, indent=1) + "\n"
            part = self.path.with_name(self.path.name + ".part")
            part.write_text(text)
            os.replace(part, self.path)


def run_all(parts, results, deadline):
    """One after the other; those that may run beside others of their kind, a few at a time."""
    jobs = max(1, min(4, (os.cpu_count() or 1) // 2))
    for beside, group in itertools.groupby(parts, lambda part: part.beside):
        with concurrent.futures.ThreadPoolExecutor(jobs if beside else 1) as pool:
            for done in concurrent.futures.as_completed([pool.submit(do, part, deadline) for part in group]):
                results.add(done.result())
                show(done.result())


# ---- the device and its machine

def find_device(a):
    """bench_cuda's description of the device, and the driver's version of nvidia-smi. Exits where there is none."""
    part = gpu_parts.bench(a, "device")
    code, out, err = run(part.commands[0], part.seconds, {})
    lines = json_lines(out)
    if code == 77 or (code == 0 and not lines):
        say(f"there is no device: {err.strip()}")
        sys.exit(77)
    if code != 0:
        say(f"the device does not work: {' '.join(part.commands[0])}: exit code {code}\n{tail(err)}")
        sys.exit(1)
    device = {key: value for key, value in lines[0].items() if key != "part"}
    query = ["nvidia-smi", "--query-gpu=driver_version,name,memory.total,pci.bus_id", "--format=csv,noheader"]
    if shutil.which("nvidia-smi"):
        code, out, _ = run(query, 30, {})
        rows = [[cell.strip() for cell in line.split(",")] for line in out.splitlines()] if code == 0 else []
        if rows and len(rows[0]) == 4:
            device.update(driver=rows[0][0], devices=[row[1] for row in rows])
    add_cublaslt(device)
    return device


def add_cublaslt(device):
    """cuBLASLt is used where it is found. Python packages have it too, where the dynamic linker does not look."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout if pathlib.Path("/sbin/ldconfig").exists() else ""
    folders = [pathlib.Path("/usr/local/cuda/lib64"), *(pathlib.Path(p) / sub for p in sys.path for sub in ("nvidia/cu13/lib", "nvidia/cublas/lib"))]
    found = next((folder for folder in folders if (folder / "libcublasLt.so.13").exists()), None)
    if "libcublasLt.so.13" in known or not found:
        device["cublaslt"] = "known to the dynamic linker" if "libcublasLt.so.13" in known else "none"
        return
    device["cublaslt"] = str(found)
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), str(found))))


def of_build(a):
    """The file that ./dev wrote beside the programs."""
    path = a.bin.parent / "build.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def find_model(a):
    if a.model == "synthetic":
        return None
    if a.model:
        return pathlib.Path(a.model) if pathlib.Path(a.model).is_file() else sys.exit(f"gpu_check.py: {a.model} is no file")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "kvrt/models"
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    given = [pathlib.Path(os.environ["KVRT_MODEL"])] if os.environ.get("KVRT_MODEL") else []
    return next((path for path in (*given, *HERE.glob("*.gguf"), cache / name) if path.is_file()), None)


def finished(path):
    """The records of an earlier run, but for the parts that are to be done again."""
    try:
        return [record for record in json.loads(path.read_text())["parts"] if record["status"] != "unfinished"]
    except FileNotFoundError:
        return []


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=HERE / "bin" if PREPARED else ROOT / "build/gpu/bin")
    parser.add_argument("--lib", type=pathlib.Path, help="where libkvrt_cuda.so is (lib beside --bin)")
    parser.add_argument("--model", help="a GGUF file (SmolLM2, where it is found); synthetic: none")
    parser.add_argument("--out", type=pathlib.Path, default=(HERE if PREPARED else ROOT / "build/gpu") / "gpu-check.json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-sanitizer", action="store_true")
    parser.add_argument("--minutes", type=float, default=9, help="for all parts together")
    parser.add_argument("--go-on", action="store_true", help="only what --out lacks or has as unfinished")
    parser.add_argument("--part", action="append", default=[], metavar="NAME")
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--programs", action="store_true", help="print the build targets that it needs, and do nothing")
    a = parser.parse_args()
    if a.programs:
        print("\n".join(gpu_parts.programs(a.emulated)))
        sys.exit(0)
    a.bin = a.bin.resolve()
    a.lib = (a.lib or a.bin.parent / "lib").resolve()
    a.library = a.lib / ("libkvrt_cuda_emulated.so" if a.emulated else "libkvrt_cuda.so")
    a.tiny = HERE / "tiny" if PREPARED else ROOT / "tests/golden/tiny"
    a.model = find_model(a)
    if not a.bin.is_dir():
        sys.exit(f"gpu_check.py: there is no {a.bin}: ./dev gpu-check builds it")
    return a


def main():
    a = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    device = find_device(a)
    say(f"{device['name']}, compute capability {device['compute_capability']}, driver {device.get('driver', device['driver_cuda'])}, "
        f"copies {device['copy_gb_s']:.0f} GB/s")
    head = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": device, "build": of_build(a),
            "system": {"kernel": os.uname().release, "cpus": os.cpu_count(), "python": sys.version.split()[0]},
            "model": a.model.name if a.model else "synthetic", "arguments": sys.argv[1:]}
    a.out.parent.mkdir(parents=True, exist_ok=True)
    before = finished(a.out) if a.go_on else []
    results = Results(a.out, head, before)
    with tempfile.TemporaryDirectory(prefix="kvrt-gpu-check-") as scratch:
        parts = gpu_parts.all_parts(a, pathlib.Path(scratch))
        if a.part:
            parts = [part for part in parts if any(part.name.startswith(name) for name in a.part)]
            if not parts:
                sys.exit(f"gpu_check.py: no part's name begins with {' or '.join(a.part)}")
        done = {record["part"] for record in before}
        run_all([part for part in parts if part.name not in done], results, STARTED + 60 * a.minutes)
    gpu_summary.show(results.records)
    count = {status: [r["part"] for r in results.records if r["status"] == status] for status in STATUSES}
    named = [f"{len(parts)} {status}: {', '.join(parts)}" for status, parts in count.items() if parts and status in NOT_WELL]
    say("; ".join([f"{len(count['ok'])} parts ok", f"{len(count['skipped'])} skipped", *named, f"results: {a.out}"]))
    sys.exit(1 if named else 0)


if __name__ == "__main__":
    main()
