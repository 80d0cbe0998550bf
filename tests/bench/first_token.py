#!/usr/bin/env python3
"""From opening a model to the first token of a prompt, and the memory that is resident then, of kvrt and its peer: fresh processes, alternating.

  first_token.py MODEL.gguf --peer-python PYTHON [--pairs 5] [--threads N] [--prompt 128] [--cache-dir DIR] [--cold] [--json]
  first_token.py MODEL.gguf --side kvrt|peer ...      one process's figures as one JSON object

Times begin when the library is loaded and end when the token is known. rss_bytes is the growth of the process since the open, so that
an interpreter and its libraries count on neither side; anon_bytes is the part of it that no file backs; peak_bytes the most on the way.
--cold: the model's and the cache's pages are dropped from the page cache first. KVRT_LIBRARY names libkvrt.so, as for the bindings.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
WARM_UP = 2  # pairs that do not count: they fill the page cache, and the cache directory


def resident():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {key: int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "RssAnon", "VmHWM")}


def prompt_of(count, vocab):
    """Tokens of no meaning: their values change no time."""
    return [1000 + i * 7919 % (vocab - 2000) for i in range(count)]


def measure(open_model, first_token):
    """The measurement of either side: the same figures between the same moments."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # VmHWM starts again
    before, start = resident(), time.perf_counter()
    model = open_model()
    opened = time.perf_counter()
    token = first_token(model)
    done, after = time.perf_counter(), resident()
    return {
        "open_ms": round((opened - start) * 1e3, 2),
        "first_token_ms": round((done - opened) * 1e3, 2),
        "total_ms": round((done - start) * 1e3, 2),
        "rss_bytes": after["VmRSS"] - before["VmRSS"],
        "anon_bytes": after["RssAnon"] - before["RssAnon"],
        "peak_bytes": after["VmHWM"] - before["VmRSS"],
        "process_bytes": after["VmRSS"],
        "token": token,
    }


def measure_kvrt(a):
    sys.path.insert(0, str(HERE.parents[1] / "bindings/python"))
    import kvrt

    options = {"cache_dir": a.cache_dir or None}

    def open_model():
        runtime = kvrt.Runtime(threads=a.threads)
        return runtime, runtime.open_model(a.model, **options)

    def first_token(opened):
        session = opened[1].open_session()
        session.append(prompt_of(a.prompt, opened[1].info().vocab_size))
        with session.generate(max_tokens=1, ignore_eos=True) as generation:
            return next(event.token for event in generation if event.type == kvrt.EventType.TOKEN)

    return measure(open_model, first_token)


def measure_peer(a):
    import llama_cpp as llama

    silent = llama.llama_log_callback(lambda level, text, user: None)
    llama.llama_log_set(silent, ctypes.c_void_p(0))

    def open_model():
        llama.llama_backend_init()
        model = llama.llama_model_load_from_file(a.model.encode(), llama.llama_model_default_params())
        params = llama.llama_context_default_params()
        params.n_ctx = max(512, a.prompt + 1)
        params.n_threads = params.n_threads_batch = a.threads
        return model, llama.llama_init_from_model(model, params)

    def first_token(opened):
        model, context = opened
        vocab = llama.llama_model_get_vocab(model)
        tokens = (llama.llama_token * a.prompt)(*prompt_of(a.prompt, llama.llama_vocab_n_tokens(vocab)))
        if llama.llama_decode(context, llama.llama_batch_get_one(tokens, a.prompt)) != 0:
            sys.exit("the peer cannot decode")
        return llama.llama_sampler_sample(llama.llama_sampler_init_greedy(), context, -1)

    return measure(open_model, first_token)


def drop(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(a, side, threads):
    if a.cold:
        for path in [a.model, *pathlib.Path(a.cache_dir).glob("*")] if a.cache_dir else [a.model]:
            drop(path)
    python = sys.executable if side == "kvrt" else a.peer_python
    command = [python, __file__, a.model, "--side", side, "--threads", str(threads), "--prompt", str(a.prompt)]
    done = subprocess.run(command + (["--cache-dir", a.cache_dir] if a.cache_dir else []), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{side} exits {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(a):
    pairs = []
    for i in range(WARM_UP + a.pairs):
        # The peer's best of one and all threads, as everywhere.
        peer = min((run(a, "peer", n) for n in sorted({1, a.threads})), key=lambda result: result["total_ms"])
        pair = {"kvrt": run(a, "kvrt", a.threads), "peer": peer}
        if i >= WARM_UP:
            pairs.append(pair)
    keys = ("open_ms", "first_token_ms", "total_ms", "rss_bytes", "anon_bytes", "peak_bytes")
    ratios = {key: [pair["kvrt"][key] / pair["peer"][key] for pair in pairs] for key in keys}
    if a.json:
        print(json.dumps({"prompt": a.prompt, "cold": a.cold, "threads": a.threads, "pairs": pairs}))
        return
    print(f"{'':16}{'kvrt':>14}{'peer':>14}{'kvrt / peer':>14}{'least':>8}{'most':>8}")
    for key in keys:
        own, other = (statistics.median(pair[side][key] for pair in pairs) for side in ("kvrt", "peer"))
        spread = f"{statistics.median(ratios[key]):14.2f}{min(ratios[key]):8.2f}{max(ratios[key]):8.2f}"
        print(f"{key:16}{own:14,.1f}{other:14,.1f}{spread}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--side", choices=("kvrt", "peer"))
    parser.add_argument("--peer-python")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(len(os.sched_getaffinity(0)), 8))
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--cache-dir")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if a.side:
        print(json.dumps(measure_kvrt(a) if a.side == "kvrt" else measure_peer(a)))
    elif a.peer_python:
        compare(a)
    else:
        parser.error("--side or --peer-python is needed")


main()
