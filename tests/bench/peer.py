#!/usr/bin/env python3
"""llama.cpp through llama-cpp-python, measured as kvrt bench measures kvrt; prints one JSON object with the same keys.

  peer.py MODEL.gguf --text FILE [--settings JSON] [--prompt 512 ...] [--depth 0 ...] [--batch 1 ...] [--state N ...] [--decode 64] [--runs 3]
  peer.py MODEL.gguf --text FILE --sweep GROUP ... [--threads 2]

prefill   tokens per second of one sequence into an empty cache
decode    tokens per second of one sequence behind `depth` tokens, one call per token: groups decode_0 and decode_deep
batch     tokens per second summed over sequences of 128 tokens each
state     one sequence saved to a file (in place, no fsync) and loaded again, from the page cache and from the disk: bytes, milliseconds, and
          the first token afterwards
A group is measured with its settings, {"prefill": {"threads": 2, "flash": 1, "ubatch": 512, "mmap": 1}, ...}; one that has none is left
out. --sweep finds them: the fastest of threads (1 to --threads), flash attention, micro-batch, and mmap or not, by group.
Figures are medians of the runs, of one run beyond 4,096 tokens; Python is in no measured loop but for the one call per step.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time

import llama_cpp as llama

BATCH = 2048
BATCH_DEPTH, SWEEP_DEPTH = 128, 2048
GROUPS = ["prefill", "decode_0", "decode_deep", "batch", "state"]


class Context:
    """A loaded model with a cache for `sequences` sequences of together `size` tokens."""

    def __init__(self, path, settings, size, sequences=1):
        model = llama.llama_model_default_params()
        model.load_mode = llama.LLAMA_LOAD_MODE_MMAP if settings["mmap"] else llama.LLAMA_LOAD_MODE_NONE
        self.model = llama.llama_model_load_from_file(path.encode(), model)
        if not self.model:
            sys.exit(f"the peer cannot load {path}")
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = size, BATCH, settings["ubatch"], sequences
        params.n_threads = params.n_threads_batch = settings["threads"]
        params.flash_attn_type = settings["flash"]
        self.ctx = llama.llama_init_from_model(self.model, params)
        if not self.ctx:
            sys.exit("the peer cannot make a context")
        self.memory = llama.llama_get_memory(self.ctx)
        self.batch = llama.llama_batch_init(BATCH, 0, sequences)
        self.held = 0  # tokens of sequence 0

    def threads(self, count):
        llama.llama_set_n_threads(self.ctx, count, count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.ctx)
        llama.llama_model_free(self.model)

    def tokenize(self, text, count):
        out = (llama.llama_token * (len(text) + 8))()
        got = llama.llama_tokenize(llama.llama_model_get_vocab(self.model), text, len(text), out, len(out), False, False)
        if got < count:
            sys.exit(f"the text has {got} tokens, {count} are needed")
        return list(out[:count])

    def step(self, rows):
        """One call: rows of (token, position, sequence, logits wanted)."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            self.batch.token[i] = token
            self.batch.pos[i] = position
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = sequence
            self.batch.logits[i] = wanted
        if llama.llama_decode(self.ctx, self.batch) != 0:
            sys.exit("the peer cannot decode")

    def prefill(self, tokens, sequence=0):
        for start in range(0, len(tokens), BATCH):
            part = tokens[start : start + BATCH]
            self.step([(t, start + i, sequence, start + i + 1 == len(tokens)) for i, t in enumerate(part)])
        if sequence == 0:
            self.held = len(tokens)

    def clear(self):
        llama.llama_memory_clear(self.memory, True)
        self.held = 0

    def cut(self, sequence, position):
        llama.llama_memory_seq_rm(self.memory, sequence, position, -1)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_prefill(c, tokens, runs):
    speeds = []
    for _ in range(runs):
        c.clear()
        speeds.append(len(tokens) / seconds(lambda: c.prefill(tokens)))
    return speeds


def measure_decode(c, tokens, sequences, depth, steps, runs):
    speeds = []
    for _ in range(runs):
        for s in range(sequences):
            c.cut(s, depth)

        def all_steps():
            for i in range(steps):
                c.step([(tokens[i], depth + i, s, True) for s in range(sequences)])

        speeds.append(sequences * steps / seconds(all_steps))
    return speeds


def drop_pages(path):
    """The file leaves the page cache (stays, on a file system that is nothing else)."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def measure_state(c, tokens, runs):
    ids = (llama.llama_token * len(tokens))(*tokens)
    got = ctypes.c_size_t(0)
    times = {"save_ms": [], "load_ms": [], "cold_load_ms": [], "first_decode_ms": []}

    def load(path):
        return seconds(lambda: llama.llama_state_seq_load_file(c.ctx, path, 0, ids, len(tokens), ctypes.byref(got)))

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sequence").encode()
        c.clear()
        c.prefill(tokens)
        for _ in range(runs):
            times["save_ms"].append(seconds(lambda: llama.llama_state_seq_save_file(c.ctx, path, 0, ids, len(tokens))))
            drop_pages(path)
            c.clear()
            times["cold_load_ms"].append(load(path))  # it leaves the pages cached
            c.clear()
            times["load_ms"].append(load(path))
            times["first_decode_ms"].append(seconds(lambda: c.step([(tokens[0], len(tokens), 0, True)])))
            c.cut(0, len(tokens))
        size = os.path.getsize(path)
    return {"bytes": size} | {key: round(statistics.median(v) * 1e3, 2) for key, v in times.items()}


def measure_batch(path, settings, tokens, sequences, steps, runs):
    with Context(path, settings, sequences * (BATCH_DEPTH + steps + 64), sequences) as c:
        for s in range(sequences):
            c.prefill(tokens[:BATCH_DEPTH], s)
        return measure_decode(c, tokens, sequences, BATCH_DEPTH, steps, runs)


class Measure:
    """All figures; contexts are kept as long as the next figure has the same settings."""

    def __init__(self, a, settings, tokens, size):
        self.a, self.settings, self.tokens, self.size = a, settings, tokens, size
        self.key, self.context, self.result = None, None, {}

    def with_context(self, settings):
        key = {name: value for name, value in settings.items() if name != "threads"}
        if key != self.key:
            self.close()
            self.key, self.context = key, Context(self.a.model, settings, self.size)
            self.context.threads(settings["threads"])
            self.context.prefill(self.tokens[:64])
        self.context.threads(settings["threads"])
        return self.context

    def close(self):
        if self.context:
            self.context.__exit__()
        self.key = self.context = None

    def runs(self, count):
        return self.a.runs if count <= 4096 else 1

    def lengths(self):
        for n in sorted({*self.a.prompt, *self.a.depth}):
            if n in self.a.prompt and "prefill" in self.settings:
                c = self.with_context(self.settings["prefill"])
                self.note(f"prefill_{n}_tok_s", measure_prefill(c, self.tokens[:n], self.runs(n)))
            group = "decode_deep" if n else "decode_0"
            if n in self.a.depth and group in self.settings:
                c = self.with_context(self.settings[group])
                if c.held != n:
                    c.clear()
                    if n:
                        c.prefill(self.tokens[:n])
                self.note(f"decode_at_{n}_tok_s", measure_decode(c, self.tokens, 1, n, self.a.decode, self.a.runs))

    def note(self, name, values):
        self.result[name] = round(statistics.median(values), 1)

    def all(self):
        self.lengths()
        if "state" in self.settings:
            for n in self.a.state:
                self.result[f"state_{n}"] = measure_state(self.with_context(self.settings["state"]), self.tokens[:n], self.a.runs)
        self.close()
        if "batch" in self.settings:
            for b in self.a.batch:
                speeds = measure_batch(self.a.model, self.settings["batch"], self.tokens, b, self.a.decode, self.a.runs)
                self.note(f"decode_batch_{b}_tok_s", speeds)
        return self.result


def try_settings(a, settings, tokens, groups, found):
    """The best of two runs of each group, noted in found[group]."""
    with Context(a.model, settings, SWEEP_DEPTH + 512) as c:
        c.prefill(tokens[:64])
        best = {}
        if "prefill" in groups:
            best["prefill"] = max(measure_prefill(c, tokens[:512], 2))
        if "decode_0" in groups:
            c.clear()
            best["decode_0"] = max(measure_decode(c, tokens, 1, 0, 48, 2))
        if "decode_deep" in groups:
            c.clear()
            c.prefill(tokens[:SWEEP_DEPTH])
            best["decode_deep"] = max(measure_decode(c, tokens, 1, SWEEP_DEPTH, 24, 2))
    if "batch" in groups:
        best["batch"] = max(measure_batch(a.model, settings, tokens, 8, 24, 2))
    for group, speed in best.items():
        found[group].append({**settings, "tok_s": round(speed, 1)})
    print(f"  {settings}: " + ", ".join(f"{group} {speed:.0f}" for group, speed in best.items()), file=sys.stderr, flush=True)


def sweep(a, tokens):
    """Every combination with mmap, then each group's best without."""
    found = {group: [] for group in a.sweep}
    for flash in (1, 0):
        for ubatch in (512, 128):
            for threads in sorted({1, a.threads}, reverse=True):
                # A micro-batch matters to prefill alone.
                groups = [g for g in a.sweep if ubatch == 512 or g == "prefill"]
                if groups:
                    try_settings(a, {"threads": threads, "flash": flash, "ubatch": ubatch, "mmap": 1}, tokens, groups, found)
    for group in a.sweep:
        best = max(found[group], key=lambda row: row["tok_s"])
        try_settings(a, {**{k: v for k, v in best.items() if k != "tok_s"}, "mmap": 0}, tokens, [group], found)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--settings", type=json.loads)
    parser.add_argument("--sweep", nargs="+", choices=GROUPS)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    for name in ("prompt", "depth", "batch", "state"):
        parser.add_argument("--" + name, type=int, nargs="*", default=[])
    a = parser.parse_args()
    silent = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(silent, ctypes.c_void_p(0))

    plain = {"threads": a.threads, "flash": -1, "ubatch": 512, "mmap": 1}
    size = max(a.prompt + [d + a.decode for d in a.depth] + [n + 1 for n in a.state] + [SWEEP_DEPTH if a.sweep else 256])
    with open(a.text, "rb") as file:
        text = file.read()
    with Context(a.model, plain, 512) as c:
        tokens = c.tokenize(text, size)
    if a.sweep:
        result = {"sweep": sweep(a, tokens)}
    else:
        result = Measure(a, a.settings or dict.fromkeys(GROUPS, plain), tokens, size + 512).all()
    print(json.dumps({"peer": "llama-cpp-python " + llama.__version__, **result}))


main()
