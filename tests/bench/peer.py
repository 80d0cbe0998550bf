#!/usr/bin/env python3
"""llama.cpp through llama-cpp-python, measured as kvrt bench measures kvrt; prints one JSON object with the same keys.

  peer.py MODEL.gguf --text FILE [--threads 2] [--prompt 512 ...] [--depth 0 ...] [--batch 1 ...] [--state N ...] [--decode 64] [--runs 3]

prefill   tokens per second of one sequence into an empty cache, micro-batches of 512
decode    tokens per second of one sequence behind `depth` tokens, one call per token
batch     tokens per second summed over sequences of 128 tokens each
state     one sequence saved to a file (in place, no fsync) and loaded again: bytes, milliseconds, and the first token afterwards
Figures are medians of the runs; Python is in no measured loop but for the one call per step.
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


class Context:
    """A loaded model with a cache for `sequences` sequences of together `size` tokens."""

    def __init__(self, path, threads, size, sequences=1):
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = size, BATCH, 512, sequences
        params.n_threads = params.n_threads_batch = threads
        self.ctx = llama.llama_init_from_model(self.model, params)
        if not self.ctx:
            sys.exit("the peer cannot make a context")
        self.memory = llama.llama_get_memory(self.ctx)
        self.batch = llama.llama_batch_init(BATCH, 0, sequences)

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

    def clear(self):
        llama.llama_memory_clear(self.memory, True)

    def cut(self, sequence, position):
        llama.llama_memory_seq_rm(self.memory, sequence, position, -1)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_decode(c, tokens, sequences, depth, steps, runs):
    speeds = []
    for _ in range(runs):
        for s in range(sequences):
            c.cut(s, depth)

        def all_steps():
            for i in range(steps):
                c.step([(tokens[i], depth + i, s, True) for s in range(sequences)])

        speeds.append(sequences * steps / seconds(all_steps))
    return round(statistics.median(speeds), 1)


def measure_state(c, tokens, runs):
    ids = (llama.llama_token * len(tokens))(*tokens)
    got = ctypes.c_size_t(0)
    times = {"save_ms": [], "load_ms": [], "first_decode_ms": []}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sequence").encode()
        c.clear()
        c.prefill(tokens)
        for _ in range(runs):
            times["save_ms"].append(seconds(lambda: llama.llama_state_seq_save_file(c.ctx, path, 0, ids, len(tokens))))
            c.clear()
            times["load_ms"].append(seconds(lambda: llama.llama_state_seq_load_file(c.ctx, path, 0, ids, len(tokens), ctypes.byref(got))))
            times["first_decode_ms"].append(seconds(lambda: c.step([(tokens[0], len(tokens), 0, True)])))
            c.cut(0, len(tokens))
        size = os.path.getsize(path)
    return {"bytes": size} | {key: round(statistics.median(v) * 1e3, 2) for key, v in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--text", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    for name in ("prompt", "depth", "batch", "state"):
        parser.add_argument("--" + name, type=int, nargs="*", default=[])
    a = parser.parse_args()
    silent = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(silent, ctypes.c_void_p(0))

    result = {"peer": "llama-cpp-python " + llama.__version__, "threads": a.threads}
    size = max(a.prompt + [d + a.decode for d in a.depth] + [n + 1 for n in a.state] + [256])
    with open(a.text, "rb") as file:
        text = file.read()
    with Context(a.model, a.threads, size + 512) as c:
        tokens = c.tokenize(text, size)
        c.prefill(tokens[:64])
        for n in a.prompt:
            speeds = []
            for _ in range(a.runs):
                c.clear()
                speeds.append(n / seconds(lambda: c.prefill(tokens[:n])))
            result[f"prefill_{n}_tok_s"] = round(statistics.median(speeds), 1)
        for d in a.depth:
            c.clear()
            if d:
                c.prefill(tokens[:d])
            result[f"decode_at_{d}_tok_s"] = measure_decode(c, tokens, 1, d, a.decode, a.runs)
        for n in a.state:
            result[f"state_{n}"] = measure_state(c, tokens[:n], a.runs)
    for b in a.batch:
        with Context(a.model, a.threads, b * (128 + a.decode + 64), b) as c:
            for s in range(b):
                c.prefill(tokens[:128], s)
            result[f"decode_batch_{b}_tok_s"] = measure_decode(c, tokens, b, 128, a.decode, a.runs)
    print(json.dumps(result))


main()
