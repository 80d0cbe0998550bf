#!/usr/bin/env python3
"""The memory that N programs with one model take together, with and without the weight cache: the sum of their proportional set sizes (Pss of
smaps_rollup, where a page that k processes share counts 1/k in each), while all of them have answered a prompt and none has ended.

  shared_weights.py MODEL.gguf [--kvrt build/release/bin/kvrt] [--processes 8] [--json]

The bound is 1.5 times the model and 45 MB for each process. The cache is a directory of its own, made anew: all programs open at once, one of
them writes it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).parents[2]


def pss(pid):
    fields = (line.split() for line in open(f"/proc/{pid}/smaps_rollup"))
    found = {f[0]: int(f[1]) * 1024 for f in fields if f[0] in ("Pss:", "Pss_Anon:", "Pss_File:")}
    return found["Pss:"], found["Pss_Anon:"], found["Pss_File:"]


def measure(a, cache):
    """Sums over the processes: each a chat that has answered once and waits for its next line."""
    command = [a.kvrt, "chat", "-m", a.model, "-n", "4", *cache]
    programs = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(a.processes)]
    try:
        for program in programs:
            program.stdin.write(b"Hello\n")
            program.stdin.flush()
        for program in programs:
            while not program.stdout.read1(65536).endswith(b"\n"):  # of the answer's end
                if program.poll() is not None:
                    raise SystemExit(f"a program ended with {program.returncode}")
        return [sum(parts) for parts in zip(*(pss(program.pid) for program in programs))]
    finally:
        for program in programs:
            program.kill()
            program.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--kvrt", default=str(ROOT / "build/release/bin/kvrt"))
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = {"without": measure(a, ["--no-weight-cache"]), "with": measure(a, ["--cache-dir", os.path.join(directory, "weights")])}
    bound = 1.5 * os.path.getsize(a.model) + 45e6 * a.processes
    if a.json:
        print(json.dumps({"processes": a.processes, "bound": bound, **{f"pss_{k}_cache": v[0] for k, v in figures.items()}}))
    else:
        for name, (total, anonymous, file) in figures.items():
            print(f"{name} the cache: {total / 1e6:.0f} MB of {a.processes} processes, {anonymous / 1e6:.0f} anonymous and {file / 1e6:.0f} of files")
        print(f"the bound with it: {bound / 1e6:.0f} MB")
    return figures["with"][0] > bound


if __name__ == "__main__":
    raise SystemExit(main())
