#!/usr/bin/env python3
"""The store's long tier, in slices that add up: power cuts, kills, want of memory, flipped bits, random calls, fuzzing.

  ./dev torture [MINUTES [SEED [PART...]]]     (10 minutes, a seed of the clock, every part; a part by how its name begins)

Two programs run at a time. Their figures are added to tests/fault/torture.json under a hash of the tested code (storage/, Env, the parsers
of files), so that short runs add up for as long as that code stays as it is. One line of figures at the end; exit 1 after a violation.
"""
import concurrent.futures
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests/fault/torture.json"
BIN = ROOT / "build/release/bin"
FUZZ = ROOT / "build/fuzz/bin"
TINY = ROOT / "tests/golden/tiny/llama_gqa_q4_1.gguf"
TESTED = ("storage/**/*.*", "runtime/base/env.*", "runtime/engine/snapshot/*", "runtime/engine/sources/*", "runtime/model/gguf*")
FUZZ_TARGETS = ("segment", "catalog", "manifest", "gguf", "api")
SLICE_S = 60
ACTS = 12  # of power_cut_story.h


def tested_hash():
    digest = hashlib.sha256()
    for path in sorted(p for pattern in TESTED for p in ROOT.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


class Part:
    """A program that is run in slices; figures: the numbers to add up, by the expression that finds each in the output."""

    def __init__(self, name, command, figures, once=False, next=0):
        self.name, self.command, self.figures, self.once, self.next = name, command, figures, once, next

    def done(self, sums):
        return self.once and sums.get("runs", 0) > 0

    def run(self, sums, seconds, seed):
        command = [str(c).format(seconds=seconds, seed=seed, next=sums.get("next", self.next)) for c in self.command]
        start = time.monotonic()
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        found = {"runs": 1, "seconds": round(time.monotonic() - start), "violations": int(result.returncode != 0)}
        for figure, expression in self.figures.items():
            match = re.findall(expression, result.stdout)
            found[figure] = int(match[-1]) if match else 0
        return found, result, command


class PowerCuts(Part):
    def done(self, sums):
        return "of" in sums and sums["next"] >= sums["of"]


def parts():
    # Every cut of every story; the operations before it arrive in every way, after three acts in five ways at random.
    cut = {"stories": r"(\d+) stories", "states": r"(\d+) states", "next": r"next story (\d+)", "of": r"next story \d+ of (\d+)"}
    for name, depth, parts, first in (("power cuts", 2, 1000000, 0), ("power cuts after three acts", 3, 5, ACTS + ACTS**2)):
        yield PowerCuts(name, [BIN / "power_cut", "--depth", depth, "--parts", parts, "--from", "{next}", "--seconds", "{seconds}"], cut, next=first)
    yield Part("power cuts of a migration", [BIN / "power_cut", "--depth", 0], {"states": r"(\d+) states"}, once=True)
    yield Part("kills", [BIN / "fault_api_kill", 300, "{seed}", TINY], {"kills": r"(\d+) kills", "inside a save": r"(\d+) of them inside"})
    yield Part("processes", [BIN / "processes", "--seeds", 100000, "--first-seed", "{seed}", "--seconds", "{seconds}"],
               {"seeds": r"processes: (\d+) seeds", "calls": r"processes: .* (\d+) calls", "kills": r"processes: .* (\d+) kills"})
    yield Part("processes with a model", [BIN / "fault_api_processes", 500, "{seed}", TINY],
               {"kills": r"(\d+) kills", "resumes": r"(\d+) resumes", "saves": r"(\d+) saves"})
    yield Part("bit flips", [BIN / "bit_flips", 20000, "{seed}"], {"flips": r"bit flips: (\d+)"})
    yield Part("random calls", [BIN / "api_random", "{seconds}", "{seed}"], {"calls": r"(\d+) calls"})
    yield Part("want of memory", [BIN / "fault_api_memory", 1], {"checks": r"(\d+) checks"}, once=True)
    for target in FUZZ_TARGETS:
        program, found = FUZZ / f"fuzz_{target}", ROOT / "build/fuzz/found" / target
        if program.exists():
            found.mkdir(parents=True, exist_ok=True)  # new inputs go to the first directory: never into the committed ones
            yield Part(f"fuzz {target}", [program, "-max_total_time={seconds}", "-seed={seed}", "-timeout=10", "-rss_limit_mb=2048",
                                          f"-artifact_prefix={ROOT}/build/fuzz/", found, ROOT / "tests/fuzz/corpus" / target],
                       {"inputs": r"Done (\d+) runs"})


def add(sums, found):
    for key, value in found.items():
        sums[key] = value if key in ("next", "of") else sums.get(key, 0) + value


def main():
    if any(not a.isdigit() for a in sys.argv[1:3]):
        sys.exit(__doc__)
    minutes = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    end = time.monotonic() + 60 * minutes
    book = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    sums = book.setdefault(tested_hash(), {})
    wanted = sys.argv[3:] or [""]
    queue, broken = [p for p in parts() if any(p.name.startswith(w) for w in wanted)], []
    if not queue:
        sys.exit(f"torture: no part is called {' or '.join(wanted)}: {', '.join(p.name for p in parts())}")

    def slice_of(part, number):
        left = max(5, min(SLICE_S, round(end - time.monotonic())))
        return part, part.run(sums.get(part.name, {}), left, seed + number)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running, number = set(), 0
        while queue or running:
            while queue and len(running) < 2 and time.monotonic() < end and not broken:
                part = queue.pop(0)
                if not part.done(sums.get(part.name, {})):
                    running.add(pool.submit(slice_of, part, number := number + 1))
            if not running:
                break
            over, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for part, (found, result, command) in (f.result() for f in over):
                add(sums.setdefault(part.name, {}), found)
                sums["last"] = str(datetime.date.today())
                print(f"{part.name}: " + ", ".join(f"{v} {k}" for k, v in found.items() if k not in ("runs", "next", "of")), file=sys.stderr, flush=True)
                if found["violations"]:
                    broken.append(f"{' '.join(command)}\n{result.stdout[-3000:]}")
                queue.append(part)
    RESULTS.write_text(json.dumps(book, indent=1, sort_keys=True) + "\n")
    totals = [f"{name}: " + ", ".join(f"{v} {k}" for k, v in s.items() if k not in ("runs", "seconds", "next", "of", "violations"))
              for name, s in sorted(sums.items()) if isinstance(s, dict)]
    violations = sum(s["violations"] for s in sums.values() if isinstance(s, dict))
    print(f"torture of {tested_hash()}: " + "; ".join(totals) + f"; {violations} violations")
    for text in broken:
        print(text, file=sys.stderr)
    sys.exit(1 if broken else 0)


main()
