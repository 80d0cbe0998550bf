#!/usr/bin/env python3
"""What speculation does to the speed of answers: plain and with it, alternating, and whether both are the same.

  tests/bench/speculate.py --model smollm2|qwen2.5-coder|qwen2.5-coder-1.5b|FILE [--draft FILE] [--modes lookup,draft,both] [--k 0,4]
                           [--only edits,quotes] [--items N] [--answer N] [--isa avx2] [--quick] [--json FILE]

The workloads: edits (a file with a small change, given whole), quotes (answers that quote a document), code and prose (free text), sessions (eight
at once, edits and free text), requests (whole ones: prompts of 100 and 2,000 tokens, answers of 32 and 512), resume (half an answer, all closed
and opened again, the other half). Their texts are speculate_files.py's and speculate_texts.py's. speculate.c computes the pairs, in one process.

A ratio is one pair's: tokens per second after the first token with speculation over those without (sessions: of all, from the first begin to the
last end; requests: the time of the request without over that with it). The table has the median of the pairs, the least and the greatest;
acceptance is accepted / drafted tokens, "a step" generated tokens over steps of the model. The memory's read speed is measured before and
after each pair: one during which it moved by more than 5 % is run again, five times at most. Exits with 1 where an answer differs.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import speculate_files
import speculate_texts

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path.home() / ".cache/kvrt/models"
NAMES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-Q4_K_M.gguf", "qwen2.5-coder": "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf",
         "qwen2.5-coder-1.5b": "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf"}
ISA = {"scalar": 1, "avx2": 2, "avx512": 3}
ANSWERS = {"edits": 800, "quotes": 96, "code": 80, "prose": 80, "sessions": 48, "resume": 560}  # tokens at most
REQUESTS = [(100, 32), (100, 512), (2000, 32), (2000, 512)]
WORKLOADS = ["edits", "quotes", "code", "prose", "sessions", "requests", "resume"]
MOVED, AGAIN = 0.05, 5
STARTED = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", file=sys.stderr, flush=True)


class Program:
    """speculate.c's process."""

    def __init__(self, a, folder):
        self.folder, self.files = folder, 0
        command = [a.program, a.model, "--threads", a.threads, "--isa", ISA.get(a.isa, 0), "--pool", a.pool]
        command += ["--draft", a.draft] if a.draft else []
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"speculate.c ended with {self.process.wait()}, asked to {' '.join(map(str, words))}")
        return json.loads(line)

    def file(self, messages):
        self.files += 1
        path = self.folder / f"{self.files}.json"
        path.write_text(json.dumps(messages))
        return path

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


def prompt_of(program, tokens, seed):
    """A prompt of about so many tokens, as the model counts them."""
    low, high = 1, tokens * 2
    while low < high:
        middle = (low + high + 1) // 2
        if program.ask("count", program.file(speculate_texts.long_prompt(middle, seed)))["tokens"] <= tokens:
            low = middle
        else:
            high = middle - 1
    return speculate_texts.long_prompt(low, seed)


def items_of(a, program, workload):
    """(name, conversations, most tokens of an answer, past the end of the turn, with the prompt) of each."""
    if workload == "requests":
        rows = [(f"prompt {p}, answer {n}", [prompt_of(program, p, seed)], n, 1, 1) for p, n in a.requests for seed in range(a.items or 1)]
        return [(workload + ": " + name, *rest) for name, *rest in rows]
    make = {"edits": speculate_files.edits, "quotes": speculate_texts.quotes, "code": speculate_texts.code, "prose": speculate_texts.prose, "sessions": speculate_texts.groups,
            "resume": speculate_files.edits}[workload]
    items = make()
    most = {"resume": 4, "sessions": 4}.get(workload, len(items))
    most = min(most, a.items or (2 if a.quick else most))
    step = max(1, len(items) // most)
    answer = a.answer or (48 if a.quick else ANSWERS[workload])
    return [(name, talk if workload == "sessions" else [talk], answer, 0, 0) for name, talk in items[::step][:most]]


def moved(row):
    before, after = row["gb_s"]
    return abs(after / before - 1) > MOVED


def pair(program, files, item, mode, k, first):
    _, _, answer, past_end, whole = item
    for again in range(AGAIN + 1):
        row = program.ask("pair", mode, k, answer, past_end, whole, int(first), *files)
        if not moved(row):
            break
    return row | {"again": again, "calm": not moved(row)}


def ratio(workload, row):
    plain, mode = row["plain"], row["mode"]
    if workload == "requests":
        return plain["ms"] / mode["ms"]
    if workload == "sessions":
        return (mode["generated"] / mode["ms"]) / (plain["generated"] / plain["ms"])
    if plain["generated"] < 2 or mode["decode_ms"] == 0:
        return None
    return plain["decode_ms"] / mode["decode_ms"]


def measure_pairs(a, program, workload, results):
    items = items_of(a, program, workload)
    for i, item in enumerate(items):
        files = [program.file(messages) for messages in item[1]]
        for j, (mode, k) in enumerate((mode, k) for mode in a.modes for k in a.k):
            row = pair(program, files, item, mode, k, (i + j) % 2 == 0)
            row |= {"workload": workload if workload != "requests" else item[0], "item": item[0], "by": mode, "k": k}
            row["ratio"] = ratio(workload, row)
            results.append(row)
            shown = f"{row['ratio']:.2f}" if row["ratio"] else "-"
            say(f"{workload} {i + 1} of {len(items)}, {mode}{f' of {k}' if k else ''}: {shown}, {row['mode']['accepted']} of {row['mode']['drafted']} accepted"
                + ("" if row["same"] else ", THE ANSWERS DIFFER") + ("" if row["calm"] else ", the memory's speed moved"))


def measure_resumes(a, program, results):
    for item in items_of(a, program, "resume"):
        for mode, k in ((mode, k) for mode in a.modes for k in a.k):
            row = program.ask("resume", mode, k, item[2], program.file(item[1][0]))
            results.append(row | {"workload": "resume", "item": item[0], "by": mode, "k": k})
            say(f"resume, {mode}: {share(row['second'])} without a break, {share(row['after'])} after it" + ("" if row["same"] else ", THE ANSWERS DIFFER"))


def share(part):
    return f"{part['accepted'] / part['drafted']:.0%} of {part['drafted']}" if part["drafted"] else "none drafted"


def table(results):
    print(f"{'':36} {'mode':>10} {'k':>4} {'pairs':>6} {'ratio':>7}  least .. greatest {'accepted':>9} {'a step':>7} {'plain tok/s':>12} {'again':>6} {'moved':>6}")
    keys = dict.fromkeys((row["workload"], row["by"], row["k"]) for row in results if row["workload"] != "resume")
    for workload, mode, k in keys:
        rows = [row for row in results if (row["workload"], row["by"], row["k"]) == (workload, mode, k) and row["ratio"]]
        if not rows:
            continue
        ratios = sorted(row["ratio"] for row in rows)
        total = {key: sum(row["mode"][key] for row in rows) for key in ("generated", "drafted", "accepted", "steps")}
        speed = statistics.median(1e3 * row["plain"]["generated"] / row["plain"]["ms"] for row in rows)
        accepted = f"{total['accepted'] / total['drafted']:9.0%}" if total["drafted"] else f"{'-':>9}"
        steps = "-" if workload.startswith("requests") else f"{total['generated'] / total['steps']:.2f}"  # those have the prompt's, too
        print(f"{workload:36} {mode:>10} {k or 'free':>4} {len(rows):6} {statistics.median(ratios):7.3f}  {ratios[0]:5.2f} .. {ratios[-1]:<8.2f} {accepted} {steps:>7} {speed:12.1f} "
              f"{sum(row['again'] for row in rows):6} {sum(not row['calm'] for row in rows):6}")
    resumes = [row for row in results if row["workload"] == "resume"]
    for row in resumes:
        print(f"resume of {row['item']:20} {row['by']:>10} {row['k'] or 'free':>4}  first half {share(row['before'])}; second half: {share(row['second'])} without a break, {share(row['after'])} after it")
    different = [row for row in results if not row["same"]]
    print(f"{len(results)} pairs, {len(different)} of them with answers that differ" + "".join(f"\n  {row['workload']}: {row['item']}, {row['by']} of {row['k']}" for row in different))
    return bool(different)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-coder-1.5b", help="the target: a name, or a file")
    parser.add_argument("--draft", help="the draft: likewise; without it the modes draft and both are left out")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["lookup", "draft", "both"])
    parser.add_argument("--k", type=lambda text: [int(k) for k in text.split(",")], default=[0], help="tokens proposed for a step; 0: as it pays (default)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=WORKLOADS, help=", ".join(WORKLOADS))
    parser.add_argument("--items", type=int, help="prompts of each workload at most; of requests, for each length")
    parser.add_argument("--answer", type=int, help="tokens of an answer at most")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--isa", choices=list(ISA), help="the kernels, when not the best")
    parser.add_argument("--pool", type=int, default=24576, help="tokens that each model's pool holds")
    parser.add_argument("--quick", action="store_true", help="two prompts of each, short answers")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--json", type=pathlib.Path)
    a = parser.parse_args()
    a.model, a.draft = (str(MODELS / NAMES[name]) if name in NAMES else name for name in (a.model, a.draft))
    unknown = set(a.only) - set(WORKLOADS) | set(a.modes) - {"lookup", "draft", "both", "plain"}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    a.modes = [mode for mode in a.modes if a.draft or mode in ("lookup", "plain")]
    a.requests = [(p, min(n, a.answer or n)) for p, n in (REQUESTS[::2] if a.quick else REQUESTS)]
    a.program = a.build / "bin/speculate"
    return a


def main():
    a = arguments()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(a, pathlib.Path(folder))
        for workload in a.only:
            if workload == "resume":
                measure_resumes(a, program, results)
            else:
                measure_pairs(a, program, workload, results)
            if a.json:  # after each, so that a run that is ended has what it measured
                a.json.write_text(json.dumps({"model": a.model, "draft": a.draft, "isa": a.isa, "results": results}, indent=1) + "\n")
        program.close()
    return table(results)


if __name__ == "__main__":
    sys.exit(main())
