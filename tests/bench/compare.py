#!/usr/bin/env python3
"""kvrt and its peer (peer.py), alternating, so that a machine's moods fall on both: one table per model, all runs as JSON.

  ./dev bench [--model smollm2|smollm2-q4_0|gemma3|qwen2.5-coder|qwen2.5-coder-1.5b|PATH ...] [--isa avx2] [--pairs 5] [--quick] [--json FILE]
  ./dev bench --neighbour          decode beside a foreign busy process, against one thread alone
  ./dev bench --kv-formats int8    decode with another KV format, against kvrt's own f16
  ./dev bench --resume             resume of 2,048 tokens by codec, from the page cache and from the disk, against the peer's state load

The peer is llama-cpp-python of PyPI, compiled for this machine into build/peer, or for AVX2 into build/peer-avx2 where kvrt runs with
--isa avx2; where the processor has AMX, by clang 14 with it and without (build/peer-amx, build/peer-no-amx). Its settings are swept before and
the fastest taken for each kind of figure, with the build that was faster. A ratio is kvrt over the peer for speeds, the peer over
kvrt for times and sizes: above 1 kvrt is better. It is taken per pair; the table shows the median, the least and the greatest of the pairs.
"of limit" is kvrt's share of the speed at this machine's measured ceilings: weights and KV read once a step at its read bandwidth, or
products at its ports' peak, whichever takes longer. Rows "at once" are prefill in steps of 512 tokens, as the peer does it; the others are
the library as it comes, which bounds a step of a prompt alone to 500 ms.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peers
import record
from cost import Cost, Limits

HERE, ROOT = pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[2]
# The measurements of one process; `runs` is within it.
FULL = [
    {"prompt": [512, 2048], "depth": [0, 2048], "batch": [1, 4, 8], "state": [2048], "runs": 3},
    {"prompt": [8000], "depth": [8000], "batch": [], "state": [], "runs": 1},
]
QUICK = [{"prompt": [512], "depth": [0], "batch": [8], "state": [], "runs": 2}]
AT_ONCE_MS = 60000  # no step takes so long: rows alone bound it
DECODE_TOKENS = 64


def lines_of(command, label, environment=None):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=os.environ | (environment or {}))
    if done.returncode != 0:
        sys.exit(f"{label} exits {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout.splitlines()


def run(command, label, environment=None):
    """The JSON object on the last line of a program's output."""
    return json.loads(lines_of(command, label, environment)[-1])


def spread(rows):
    """The median ratio of the pairs, the least and the greatest."""
    r = sorted(row["ratio"] for row in rows)
    return f"{statistics.median(r):5.2f}   {r[0]:.2f} .. {r[-1]:.2f}"


def flat(result):
    """Every figure under one name: state_2048.load_ms."""
    out = {}
    for key, value in result.items():
        if isinstance(value, dict):
            out.update({f"{key}.{inner}": v for inner, v in value.items()})
        elif isinstance(value, (int, float)):
            out[key] = value
    return out


class Kvrt:
    def __init__(self, a, model, text):
        self.a, self.model, self.text = a, model, text

    def bench(self, what, extra=()):
        names = ("prompt", "depth", "append", "batch", "state")
        lists = [word for name in names for word in (f"--{name}", ",".join(map(str, what.get(name, []))) or "none")]
        isa = ["--isa", self.a.isa] if self.a.isa else []
        threads = [] if "--threads" in extra else ["--threads", self.a.threads]
        return run([self.a.kvrt, "bench", "-m", self.model, "-f", self.text, "--json", "--runs", what["runs"], "--decode", DECODE_TOKENS,
                    *threads, *isa, *lists, *extra], "kvrt")

    def measure(self, plan):
        result = {}
        for what in plan:
            result |= self.bench(what)
            whole = self.bench({"prompt": what["prompt"], "runs": what["runs"]}, ["--step-ms", AT_ONCE_MS])
            result |= {key.replace("tok_s", "at_once_tok_s"): v for key, v in whole.items() if key.startswith("prefill_")}
        return result


class Peer:
    """Its groups of figures, each with the build, the settings and the OpenMP binding that were fastest."""

    def __init__(self, a, pythons, model, text):
        self.a, self.pythons, self.model, self.text = a, pythons, model, text
        self.settings, self.swept = {}, {}

    def command(self, build, *arguments):
        return [self.pythons[build], HERE / "peer.py", self.model, "--text", self.text, "--decode", DECODE_TOKENS, *arguments]

    def sweep(self, plan):
        groups = [g for g, used in (("prefill", any(w["prompt"] for w in plan)), ("decode_0", any(0 in w["depth"] for w in plan)),
                                    ("decode_deep", any(d for w in plan for d in w["depth"])), ("batch", any(w["batch"] for w in plan))) if used]
        for build, bind in itertools.product(self.pythons, ("false", "true")):
            say(f"the settings of {build}, OMP_PROC_BIND={bind}")
            found = run(self.command(build, "--sweep", *groups, "--threads", self.a.threads), "the peer", {"OMP_PROC_BIND": bind})["sweep"]
            for group, rows in found.items():
                self.swept.setdefault(group, []).extend({**row, "bind": bind, "build": build} for row in rows)
        self.settings = {group: max(rows, key=lambda row: row["tok_s"]) for group, rows in self.swept.items()}
        if "prefill" in self.settings:
            self.settings["state"] = self.settings["prefill"]
        for group, row in self.settings.items():
            say(f"  {group}: {row}")

    def plain(self):
        row = {"threads": self.a.threads, "flash": -1, "ubatch": 512, "mmap": 1, "bind": "false", "build": next(iter(self.pythons))}
        self.settings = dict.fromkeys(("prefill", "decode_0", "decode_deep", "batch", "state"), row)

    def measure(self, plan):
        result = {}
        for build, bind in sorted({(row["build"], row["bind"]) for row in self.settings.values()}):
            settings = {g: {k: v for k, v in row.items() if k not in ("bind", "build", "tok_s")} for g, row in self.settings.items()
                        if (row["build"], row["bind"]) == (build, bind)}
            for what in plan:
                lists = [word for name in ("prompt", "depth", "batch", "state") for word in (f"--{name}", *what[name])]
                command = self.command(build, "--settings", json.dumps(settings), "--runs", what["runs"], *lists)
                result |= run(command, "the peer", {"OMP_PROC_BIND": bind})
        # Its steps are of 512 rows anyhow: one figure stands beside both of kvrt's.
        return result | {key.replace("tok_s", "at_once_tok_s"): v for key, v in result.items() if key.startswith("prefill_")}


STARTED = time.monotonic()
# Ends with its parent, whatever the parent's end.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass"


def say(text):
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", file=sys.stderr, flush=True)


def first_token(a, python, model):
    """Fresh processes from opening the model to the first token, and the memory that is resident then (first_token.py)."""
    library = pathlib.Path(a.kvrt).resolve().parents[1] / "lib/libkvrt.so"
    common = [HERE / "first_token.py", model, "--threads", a.threads, "--side"]
    both = {"kvrt": run([sys.executable, *common, "kvrt"], "first_token.py", {"KVRT_LIBRARY": str(library)}),
            "peer": run([python, *common, "peer"], "first_token.py")}
    return {side: {f"first_token.{k}": figures[k] for k in ("open_ms", "total_ms", "rss_bytes")} for side, figures in both.items()}


def pairs_of(a, kvrt, peer, plan):
    pairs = []
    python = peer.pythons[peer.settings["prefill"]["build"]]
    for i in range(a.pairs):
        order = (kvrt, peer) if i % 2 == 0 else (peer, kvrt)
        both = {}
        for side in order:
            name = "kvrt" if side is kvrt else "peer"
            say(f"pair {i + 1} of {a.pairs}: {name}")
            both[name] = side.measure(plan)
        # A process that measures the library alone has one kernel table: the one of the machine.
        if not a.quick and not a.isa:
            for name, figures in first_token(a, python, kvrt.model).items():
                both[name] |= figures
        pairs.append(both)
    return pairs


def summarize(pairs, limits):
    rows = [(flat(p["kvrt"]), flat(p["peer"])) for p in pairs]
    summary = {}
    for key in rows[0][0]:
        if key == "threads" or not all(key in peer for _, peer in rows):
            continue
        faster = key.endswith("tok_s")
        ratios = sorted((k[key] / p[key] if faster else p[key] / k[key]) for k, p in rows if k[key] and p[key])
        if not ratios:
            continue
        ours, theirs = ([r[i][key] for r in rows] for i in (0, 1))
        limit = limits.of(key)
        summary[key] = {"kvrt": statistics.median(ours), "peer": statistics.median(theirs), "ratio": statistics.median(ratios), "least": ratios[0],
                        "greatest": ratios[-1], "spread": (max(ours) - min(ours)) / statistics.median(ours),
                        "of_limit": statistics.median(ours) / limit if limit else None}
    return summary


def print_table(title, summary):
    print(f"\n{title}\n{'':32} {'kvrt':>12} {'peer':>12} {'ratio':>7}   least .. greatest   spread   of limit")
    for key, row in summary.items():
        share = f"{row['of_limit']:8.0%}" if row["of_limit"] else ""
        print(f"{key.replace('_at_once_tok_s', '_tok_s, at once'):32} {row['kvrt']:12.1f} {row['peer']:12.1f} {row['ratio']:7.2f}   {row['least']:5.2f} .. "
              f"{row['greatest']:<8.2f} {row['spread']:8.0%}   {share}", flush=True)


def neighbour(a, kvrt, peer):
    """decode at 0 of all threads beside one busy process, over that of one thread alone; kvrt and the peer."""
    what, ratios = {"prompt": [], "depth": [0], "batch": [], "state": [], "runs": 3}, {"kvrt": [], "peer": []}
    key = "decode_at_0_tok_s"

    def speeds(threads):
        peer.settings = {"decode_0": {**peer.settings["decode_0"], "threads": threads}}
        return {"kvrt": kvrt.bench(what, ["--threads", threads])[key], "peer": peer.measure([what])[key]}

    for i in range(a.pairs):
        say(f"neighbour, round {i + 1} of {a.pairs}")
        alone = speeds(1)
        busy = subprocess.Popen([sys.executable, "-c", BUSY])
        try:
            beside = speeds(a.threads)
        finally:
            busy.kill()
            busy.wait()
        for side, values in ratios.items():
            values.append({"alone": alone[side], "beside": beside[side], "ratio": beside[side] / alone[side]})
    print(f"\ndecode at 0: {a.threads} threads beside a foreign busy process, over one thread alone (gate 0.7)")
    for side, values in ratios.items():
        print(f"{side:6} {spread(values)}")
    return ratios


def resume(a, path, peer):
    """A resume's time over that of the peer's state load, both into memory that has its pages; files where TMPDIR says."""
    what, ratios = {"prompt": [], "depth": [], "batch": [], "state": [2048], "runs": 5}, {}
    command = [pathlib.Path(a.build) / "bin/saving", path, "--tokens", 20, "--runs", 5]
    for i in range(a.pairs):
        say(f"resume, round {i + 1} of {a.pairs}")
        theirs = peer.measure([what])["state_2048"]
        for ours in (json.loads(line) for line in lines_of(command, "saving") if line.startswith('{"load"')):
            for name, key, other in (("warm", "resume_ms", "load_ms"), ("cold", "cold_ms", "cold_load_ms")):
                row = {"kvrt_ms": ours[key], "peer_ms": theirs[other], "ratio": ours[key] / theirs[other]}
                ratios.setdefault(f"{ours['codec']} {name}", []).append(row)
    print("\nresume of 2,048 tokens over the peer's state load (gates: zstd warm 3, none warm 1.2, cold 1)")
    for key, values in ratios.items():
        ms = [statistics.median(v[side] for v in values) for side in ("kvrt_ms", "peer_ms")]
        print(f"{key:10} {ms[0]:6.1f} ms {ms[1]:6.1f} ms  {spread(values)}")
    return ratios


def kv_formats(a, kvrt):
    """decode at depth with other KV formats over the same with f16; kvrt alone."""
    what, ratios = {"depth": [2048, 8000], "runs": 3}, {}
    for i in range(a.pairs):
        speeds = {}
        for kv in ("f16", *a.kv_formats):
            say(f"KV formats, round {i + 1} of {a.pairs}: {kv}")
            speeds[kv] = kvrt.bench(what, ["--kv", kv])
        for kv in a.kv_formats:
            for key in (f"decode_at_{depth}_tok_s" for depth in what["depth"]):
                f16, other = speeds["f16"][key], speeds[kv][key]
                ratios.setdefault(f"{kv} {key}", []).append({"f16": f16, kv: other, "ratio": other / f16})
    print("\ndecode over kvrt's own with f16 KV")
    for key, values in ratios.items():
        print(f"{key:32} {spread(values)}")
    return ratios


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="smollm2 (default), smollm2-q4_0 (made by the peer's quantizer), gemma3, qwen2.5-coder, qwen2.5-coder-1.5b, or a path; may be repeated")
    parser.add_argument("--isa", choices=["avx2"], help="kvrt's kernel table, when not the best; the peer is the one for it")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(len(os.sched_getaffinity(0)), 8))
    parser.add_argument("--quick", action="store_true", help="prefill 512, decode at 0 and 8 sequences only")
    parser.add_argument("--no-sweep", action="store_true", help="the peer with its defaults: not its best")
    parser.add_argument("--neighbour", action="store_true", help="measure beside a busy process instead")
    parser.add_argument("--kv-formats", nargs="+", metavar="FORMAT", help="measure these against f16 instead")
    parser.add_argument("--resume", action="store_true", help="measure resumes from the store instead")
    parser.add_argument("--text", help="file to take tokens from")
    parser.add_argument("--json", default=str(ROOT / "build/bench.json"), help="where all runs go (default: build/bench.json)")
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="where kvrt was built")
    parser.add_argument("--peer-python", help="a Python that has llama_cpp, in place of the one in build/")
    a = parser.parse_args()
    if a.pairs < 1 or a.threads < 1:
        parser.error("--pairs and --threads are at least 1")
    a.kvrt = pathlib.Path(a.build) / "bin/kvrt"
    return a


def main():
    a = arguments()
    pythons = {"given": a.peer_python} if a.peer_python else peers.install_peers(a.isa)
    infos = {build: peers.peer_info(python) or sys.exit(f"{python} cannot import llama_cpp") for build, python in pythons.items()}
    info, python = next(iter(infos.values())), next(iter(pythons.values()))
    if len(infos) > 1:
        info = info | {"builds": infos}
    models = [(name, peers.resolve_model(name, python)) for name in a.model or ["smollm2"]]
    result = record.of_machine(a, info)
    peak = record.peak(a)
    result |= {"peak": peak, "models": {}}
    with tempfile.TemporaryDirectory() as folder:
        text = a.text or record.write_text(folder)
        result["prompt_sha256"] = peers.sha256(text)
        for name, path in models:
            say(f"{name}: {path}")
            # Only SmolLM2's longest contexts are a goal.
            plan = QUICK if a.quick else FULL if name.startswith("smollm2") else FULL[:1]
            kvrt, peer = Kvrt(a, path, text), Peer(a, pythons, path, text)
            if a.no_sweep or a.kv_formats or a.resume:
                peer.plain()
            else:
                peer.sweep([{"prompt": [], "depth": [0], "batch": []}] if a.neighbour else plan)
            entry = {"file": path.name, "sha256": peers.sha256(path), "peer_settings": peer.settings, "peer_sweep": peer.swept}
            if a.neighbour:
                entry["neighbour"] = neighbour(a, kvrt, peer)
            elif a.resume:
                entry["resume"] = resume(a, path, peer)
            elif a.kv_formats:
                entry["kv_formats"] = kv_formats(a, kvrt)
            else:
                entry["pairs"] = pairs_of(a, kvrt, peer, plan)
                first, cost = entry["pairs"][0]["kvrt"], Cost(path)
                # kvrt measures how fast memory is read before and after its figures: the ceiling is the greatest of all.
                read = max(peak["all"]["read_gb_s"], *(p["kvrt"]["read_gib_s"] * 2**30 / 1e9 for p in entry["pairs"]))
                limits = Limits(cost, peak["all"] | {"read_gb_s": read}, first["isa"], first["kv_bytes_per_token"], DECODE_TOKENS)
                entry |= {"weights_read_per_token": cost.weight_bytes, "tensor_types": cost.types, "summary": summarize(entry["pairs"], limits)}
                entry |= {k: first[k] for k in ("isa", "numerics", "kv_format", "block_tokens", "step_ms_max", "version")}
                print_table(f"{name} ({', '.join(cost.types)}): {first['cpu']}, {first['isa']}, {a.threads} threads, KV {first['kv_format']}; "
                            f"peer {info['version']}; {a.pairs} pairs", entry["summary"])
            result["models"][name] = entry
    record.finish(result, a)


if __name__ == "__main__":
    main()
