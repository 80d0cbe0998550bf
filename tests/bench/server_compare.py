#!/usr/bin/env python3
"""samples/server against llama.cpp's server of llama-cpp-python: clients at once, each in a conversation of its own, streamed.

  server_compare.py --server PROGRAM [--model FILE] [--peer FOLDER] [--clients 8] [--turns 6] [--tokens 64] [--rounds 1] [--json FILE]

The peer answers one request after another: it does not batch. It runs with interrupt_requests off (else a request would cut the one before), with
as many threads as kvrt, and in each of its settings: without a cache, with its cache in memory, and with that on disk, which alone
survives a restart. Its best setting counts. Every answer has to be whole, on both sides. The two take turns.

Measured: tokens of answers a second, over all; the time to the first text of each request, whose 95th percentile counts; and that of one more turn
of every conversation after both were killed and started again. Needs openai (.ci/requirements.txt); compiles the peer into FOLDER where it is
not there, which takes minutes.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import openai
import peers

SYSTEM = ("You keep the records of a harbour. You know every boat, its owner, its colours and the day on which it came. You answer in plain sentences, "
          "name the boat first, and never leave out the day. When a boat is not in the records you say so. ") * 4
QUESTIONS = ("Tell me about the boat number {} that came to berth {}: who owns it, what are its colours, and when will it leave again? "
             "Please name all that the records say of it, and what the harbour master wrote beside its name.")
PEER_SETTINGS = {"no cache": [], "memory cache": ["--cache", "true", "--cache_type", "ram", "--cache_size", str(2 << 30)],
                 "disk cache": ["--cache", "true", "--cache_type", "disk", "--cache_size", str(2 << 30)]}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server's process, at one port."""

    def __init__(self, command, folder):
        self.command, self.folder, self.port, self.process = command, folder, free_port(), None
        self.start()

    def start(self):
        log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen([*self.command, "--port", str(self.port)], cwd=self.folder, stdout=log, stderr=log)
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0, timeout=3600)
        deadline = time.time() + 120
        while True:
            try:
                self.model = self.client.models.list().data[0].id
                break
            except openai.APIError:
                if time.time() > deadline or self.process.poll() is not None:
                    sys.exit(f"{self.command[0]} does not start: {(self.folder / 'log').read_text()[-2000:]}")
                time.sleep(0.1)
        self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": "Hello"}], max_tokens=4)  # it is warm

    def kill(self):
        self.process.kill()
        self.process.wait()


class Talk:
    """One client's conversation."""

    def __init__(self, number, tokens):
        self.number, self.tokens = number, tokens
        self.messages = [{"role": "system", "content": SYSTEM}]
        self.first_text, self.generated = [], 0

    def turn(self, server):
        self.messages.append({"role": "user", "content": QUESTIONS.format(self.number, len(self.messages))})
        begun, text, count, reason, first = time.perf_counter(), "", 0, None, None
        for chunk in server.client.chat.completions.create(model=server.model, messages=self.messages, max_tokens=self.tokens, temperature=0, stream=True):
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.perf_counter() - begun
                    text += choice.delta.content
                    count += 1
                reason = choice.finish_reason or reason
        if reason not in ("stop", "length") or not text:
            raise RuntimeError(f"client {self.number}: an answer that is not whole: {reason}, {text!r}")
        self.first_text.append(first)
        self.generated += count
        self.messages.append({"role": "assistant", "content": text})


def all_at_once(talks, work):
    """The seconds until all have done it."""
    faults = []

    def run(talk):
        try:
            work(talk)
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(t,)) for t in talks]
    begun = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if faults:
        raise faults[0]
    return time.perf_counter() - begun


def p95(values):
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def measure(command, options):
    """One server: all turns, a kill, and one turn more."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kvrt-compare-"))
    server = Server(command, folder)
    try:
        talks = [Talk(i, options.tokens) for i in range(options.clients)]
        seconds = all_at_once(talks, lambda talk: [talk.turn(server) for _ in range(options.turns)])
        first_text = [t for talk in talks for t in talk.first_text]
        result = {"tokens_per_s": sum(t.generated for t in talks) / seconds, "first_text_p95_s": p95(first_text),
                  "first_text_median_s": statistics.median(first_text), "answers": len(first_text)}
        server.kill()
        server.start()
        for talk in talks:
            talk.first_text = []
        all_at_once(talks, lambda talk: talk.turn(server))
        result["after_restart_p95_s"] = p95([talk.first_text[0] for talk in talks])
        return result
    finally:
        server.kill()
        shutil.rmtree(folder)


def median_of(runs):
    return {key: statistics.median(r[key] for r in runs) for key in runs[0]}


def compare(options, pythons):
    threads = str(options.threads)
    peer = ["-m", "llama_cpp.server", "--model", str(options.model), "--n_ctx", "4096", "--interrupt_requests", "false", "--n_threads", threads,
            "--n_threads_batch", threads]
    commands = {"kvrt": [str(options.server), str(options.model), "--threads", threads, "--store", "store"]}
    for build, python in pythons.items():
        commands |= {f"llama.cpp, {name}" + (f", {build}" if len(pythons) > 1 else ""): [str(python), *peer, *more] for name, more in PEER_SETTINGS.items()}
    runs = {name: [] for name in commands}
    for number in range(options.rounds):
        for name, command in commands.items():
            try:
                runs[name].append(measure(command, options))
                print(f"round {number + 1}, {name}: {json.dumps(runs[name][-1])}", file=sys.stderr, flush=True)
            except Exception as fault:
                if name == "kvrt":
                    raise
                print(f"round {number + 1}, {name}: does not count: {fault}", file=sys.stderr, flush=True)
    results = {name: median_of(r) for name, r in runs.items() if len(r) == options.rounds}
    if len(results) < 2:
        sys.exit("the peer gave whole answers in none of its settings")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--peer", type=pathlib.Path, default=peers.ROOT / "build/peer-server")
    for name, default in (("clients", 8), ("turns", 6), ("tokens", 64), ("rounds", 1), ("threads", len(os.sched_getaffinity(0)))):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.server, options.model = options.server.resolve(), (options.model or peers.locked_model("smollm2")).resolve()
    pythons = peers.install_peers(top=options.peer)
    for python in pythons.values():
        needs = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"llama-cpp-python[server]=={peers.VERSION}"]
        peers.show(needs)
        subprocess.run(needs, check=True)
    results = compare(options, pythons)
    best = {key: (max if key == "tokens_per_s" else min)((r[key] for n, r in results.items() if n != "kvrt"))
            for key in ("tokens_per_s", "first_text_p95_s", "after_restart_p95_s")}
    ratios = {key: results["kvrt"][key] / value for key, value in best.items()}
    print(f"{'':28}tokens/s  first text p95  after a restart p95")
    for name, r in results.items():
        print(f"{name:28}{r['tokens_per_s']:8.1f}{r['first_text_p95_s']:14.3f} s{r['after_restart_p95_s']:19.3f} s")
    print(f"{'kvrt / the best of the peer':28}{ratios['tokens_per_s']:8.2f}{ratios['first_text_p95_s']:14.3f}{ratios['after_restart_p95_s']:21.3f}")
    if options.json:
        shape = {key: getattr(options, key) for key in ("clients", "turns", "tokens", "rounds", "threads")}
        options.json.write_text(json.dumps({"model": options.model.name, "peer": f"llama-cpp-python {peers.VERSION}, its server: one request at a time",
                                            **shape, "results": results, "ratios": ratios}, indent=1) + "\n")


if __name__ == "__main__":
    main()
