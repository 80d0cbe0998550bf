"""Two threads beside one foreign busy process, against one thread alone (each on its own): steps of bench_kernels, alternating.

    beside_busy.py build/release/bin/bench_kernels [--pairs 5] [--filter 'step/rows/depth/(1|8|128)/0/']

Prints, for each step, the medians in ms and the share of one thread's speed. Nothing else may run on the machine.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys


def measure(args, threads):
    command = [args.bench, f"--benchmark_filter={args.filter}", "--benchmark_min_time=0.5", "--benchmark_format=csv"]
    out = subprocess.run(command, env=os.environ | {"KVRT_THREADS": str(threads)}, capture_output=True, text=True, check=True).stdout
    lines = out[out.index("name,iterations"):].splitlines()
    return {row["name"].removesuffix("/real_time"): float(row["real_time"]) for row in csv.DictReader(lines)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--filter", default="step/rows/depth/(1|8|128)/0/")
    args = parser.parse_args()
    runs = {"one": [], "two": [], "busy": []}
    for _ in range(args.pairs):
        runs["one"].append(measure(args, 1))
        runs["two"].append(measure(args, 2))
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            runs["busy"].append(measure(args, 2))
        finally:
            busy.kill()
            busy.wait()
    print(f"{'step':28} {'1 thread':>10} {'2 threads':>10} {'2 + busy':>10} {'2 + busy / 1':>13}")
    for name in runs["one"][0]:
        one, two, busy = (statistics.median(run[name] for run in runs[kind]) for kind in ("one", "two", "busy"))
        print(f"{name:28} {one:10.2f} {two:10.2f} {busy:10.2f} {one / busy:13.2f}")


if __name__ == "__main__":
    main()
