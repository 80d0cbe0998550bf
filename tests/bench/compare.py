#!/usr/bin/env python3
"""kvrt and its peer (peer.py), alternating, so that a machine's moods fall on both; prints one table and writes all runs as JSON.

  compare.py --kvrt PROGRAM --peer-python PYTHON --model MODEL.gguf [--pairs 5] [--threads N] [--out FILE] [--text FILE] [--quick]

A ratio is kvrt over the peer for speeds, the peer over kvrt for times and sizes: above 1 kvrt is better. It is taken per pair; the table
shows the median, the least and the greatest of the pairs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
FULL = {"prompt": [512, 2048], "depth": [0, 2048], "batch": [1, 4, 8], "state": [2048]}
QUICK = {"prompt": [512], "depth": [0], "batch": [], "state": []}


def text_of_any_length(path):
    with open(path, "w") as file:
        for day in range(1, 1200):
            file.write(f"Day {day}: wind {day * 7 % 31} knots, {day * 13 % 97} birds on the north beach, lamp oil {day * 5 % 53} litres.\n")


def run(command, label):
    print("+ " + " ".join(map(str, command)), file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{label} exits {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def flat(result):
    """Every figure under one name: state_2048.load_ms."""
    out = {}
    for key, value in result.items():
        if isinstance(value, dict):
            out.update({f"{key}.{inner}": v for inner, v in value.items()})
        elif isinstance(value, (int, float)):
            out[key] = value
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvrt", required=True)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="runs within each measurement")
    parser.add_argument("--threads", type=int, default=min(len(os.sched_getaffinity(0)), 8))
    parser.add_argument("--text")
    parser.add_argument("--out", default="build/bench.json")
    parser.add_argument("--quick", action="store_true", help="prefill 512 and decode only")
    a = parser.parse_args()
    what = QUICK if a.quick else FULL

    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        text = a.text or os.path.join(folder, "text")
        if not a.text:
            text_of_any_length(text)
        common = ["--threads", str(a.threads), "--runs", str(a.runs)]
        kvrt = [a.kvrt, "bench", "-m", a.model, "-f", text, "--json", *common]
        peer = [a.peer_python, HERE / "peer.py", a.model, "--text", text, *common]
        for name, values in what.items():
            # An empty list is measured as nothing: kvrt takes 0 for that.
            kvrt += ["--" + name, ",".join(map(str, values)) if values else "none"]
            peer += ["--" + name, *map(str, values)]
        for i in range(a.pairs):
            first, second = (kvrt, peer) if i % 2 == 0 else (peer, kvrt)
            both = [run(first, first[0]), run(second, second[0])]
            pairs.append({"kvrt": both[i % 2], "peer": both[1 - i % 2]})

    info = pairs[0]["kvrt"]
    print(f"{info['cpu']}; {info['isa']}; {a.threads} threads; reads {info['read_gb_s']:.1f} GB/s; {pairs[0]['peer']['peer']}; {a.pairs} pairs")
    print(f"{'':32} {'kvrt':>12} {'peer':>12} {'ratio':>7}   least .. greatest")
    rows = [(flat(p["kvrt"]), flat(p["peer"])) for p in pairs]
    summary = {}
    for key in rows[0][0]:
        if key in ("threads",) or not all(key in peer for _, peer in rows):
            continue
        faster = key.endswith("tok_s")
        ratios = sorted((k[key] / p[key] if faster else p[key] / k[key]) for k, p in rows if k[key] and p[key])
        ours, theirs = (statistics.median(r[i][key] for r in rows) for i in (0, 1))
        summary[key] = {"kvrt": ours, "peer": theirs, "ratio": statistics.median(ratios), "least": ratios[0], "greatest": ratios[-1]}
        print(f"{key:32} {ours:12.1f} {theirs:12.1f} {summary[key]['ratio']:7.2f}   {ratios[0]:.2f} .. {ratios[-1]:.2f}")
    path = pathlib.Path(a.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cpu": info["cpu"], "isa": info["isa"], "threads": a.threads, "summary": summary, "pairs": pairs}, indent=1) + "\n")
    print(f"all runs: {path}", file=sys.stderr)


main()
