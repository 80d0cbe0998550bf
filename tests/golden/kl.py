#!/usr/bin/env python3
"""The KL gate: the distance of a program's logits from an f32 forward pass of the same dequantized weights.

  kl.py --kvrt PROGRAM [--which gemma3] [--model MODEL.gguf]  test kvrt; exit 1 when it is worse than LIMIT_FACTOR x peer + LIMIT_SLACK
  kl.py --peer-python PYTHON [--store] [--which ...]          measure llama.cpp through that Python; --store keeps it in data/kl_peer*.json
  (both options: kvrt is held against the peer measured now)

Mean of KL(reference || candidate) in nats over 4 windows of 512 positions, and how far the perplexity of so few tokens is off
(perplexity.py judges that, over a whole text). Without --model: $KVRT_MODEL (SmolLM2's), then the model cache. Exit 77: the model is not
there, or numpy or gguf is not.
"""
import argparse
import datetime
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = Path(__file__).parent
LIMIT_FACTOR, LIMIT_SLACK = 1.1, 2e-4
ROWS_AT_ONCE = 64


class Which:
    def __init__(self, file, suffix, variable):
        self.tokens, self.peer = HERE / "data" / f"kl_tokens{suffix}.json", HERE / "data" / f"kl_peer{suffix}.json"
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.model = Path(os.environ.get(variable) or cache / "kvrt" / "models" / file)


WHICH = {"smollm2": Which("SmolLM2-135M-Instruct.Q4_1.gguf", "", "KVRT_MODEL"),
         "gemma3": Which("gemma-3-270m-Q4_K_M.gguf", "_gemma3", "KVRT_GEMMA"),
         "qwen2.5-coder": Which("Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf", "_qwen2.5", "KVRT_QWEN"),
         "qwen2.5-coder-1.5b": Which("Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf", "_qwen2.5", "KVRT_QWEN_1_5B")}


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


class Candidate:
    """A program that writes the f32 logits of every position of a window, row by row."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.means, self.same_top, self.worst = [], 0, 0.0
        self.losses = []  # of each token of the text: the log of the factor by which the candidate finds it less likely

    def logits(self, window, vocab, path):
        subprocess.run(self.command(",".join(map(str, window)), str(path)), check=True, stderr=subprocess.DEVNULL)
        rows = np.fromfile(path, "<f4")
        if rows.size != len(window) * vocab:
            sys.exit(f"{self.name} wrote {rows.size} logits, expected {len(window)} x {vocab}")
        return rows.reshape(len(window), vocab)

    def compare(self, truth, window):
        """truth: generator of blocks of reference logits."""
        total, at, rows = 0.0, 0, len(window)
        for block, own in truth:
            p, q = log_softmax(block), log_softmax(own)
            kl = (np.exp(p) * (p - q)).sum(axis=-1)
            if not np.isfinite(kl).all():
                sys.exit(f"{self.name}: logits that are not finite near row {at}")
            following = np.array(window[at + 1:at + len(kl) + 1])
            self.losses.extend((p - q)[range(len(following)), following])
            total, at = total + kl.sum(), at + len(kl)
            self.worst = max(self.worst, kl.max())
            self.same_top += int((block.argmax(axis=-1) == own.argmax(axis=-1)).sum())
        self.means.append(float(total / rows))

    @property
    def mean(self):
        return float(np.mean(self.means))

    def report(self, positions):
        windows = " ".join(f"{m:.6f}" for m in self.means)
        print(f"{self.name:5} mean KL {self.mean:.6f} (windows {windows}), worst {self.worst:.4f}, "
              f"same first token {100 * self.same_top / positions:.2f} %, perplexity off by {100 * self.perplexity_off:+.3f} +- "
              f"{100 * self.perplexity_error:.3f} %", flush=True)

    @property
    def perplexity_off(self):
        return math.exp(np.mean(self.losses)) - 1

    @property
    def perplexity_error(self):
        return float(np.std(self.losses) / math.sqrt(len(self.losses)))


def candidates(args):
    out = {}
    if args.kvrt:
        out["kvrt"] = Candidate("kvrt", lambda ids, path: [args.kvrt, "logits", "-m", args.model, "--tokens", ids, "-o", path, "--all"])
    if args.peer_python:
        script = str(HERE / "peer_logits.py")
        out["peer"] = Candidate("peer", lambda ids, path: [args.peer_python, script, args.model, ids, path])
    return out


def measure(model_path, windows, found):
    model = reference.Model(model_path, np.float32)
    with tempfile.TemporaryDirectory() as folder, np.errstate(over="ignore"):
        for window in windows:
            hidden = model.hidden(window, kv_f16=False)
            rows = {name: c.logits(window, model.vocab, Path(folder) / name) for name, c in found.items()}
            truth = [model.head(hidden[i:i + ROWS_AT_ONCE]) for i in range(0, len(window), ROWS_AT_ONCE)]
            for name, c in found.items():
                c.compare(zip(truth, np.array_split(rows[name], range(ROWS_AT_ONCE, len(window), ROWS_AT_ONCE))), window)


def store_peer(path, peer, windows, digest, python):
    version = subprocess.run([python, str(HERE / "peer_logits.py"), "--version"], check=True, capture_output=True, text=True).stdout.strip()
    path.write_text(json.dumps({
        "model_sha256": digest, "peer": version, "kv": "f16", "mean_kl": round(peer.mean, 7),
        "windows_kl": [round(m, 7) for m in peer.means], "positions": [len(w) for w in windows],
        "date": datetime.date.today().isoformat()}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvrt")
    parser.add_argument("--peer-python")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--which", choices=WHICH, default="smollm2")
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    which = WHICH[args.which]
    path = args.model or which.model
    if not path.is_file():
        fetch = "./dev model" if args.which == "smollm2" else f"./dev model {args.which} --accept-gemma-terms"
        print(f"skipped: {path} is not there; {fetch} fetches it")
        sys.exit(77)
    args.model = str(path)
    found = candidates(args)
    if not found:
        parser.error("--kvrt or --peer-python expected")
    windows = json.loads(which.tokens.read_text())["windows"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    stored = json.loads(which.peer.read_text()) if which.peer.exists() and not args.store else None
    if not args.peer_python and stored["model_sha256"] != digest:
        sys.exit(f"{path}: the stored figure is of another model; give --peer-python")

    positions = sum(map(len, windows))
    measure(path, windows, found)
    for c in found.values():
        c.report(positions)
    if args.store:
        store_peer(which.peer, found["peer"], windows, digest, args.peer_python)
    if args.kvrt:
        peer_mean = found["peer"].mean if args.peer_python else stored["mean_kl"]
        limit = LIMIT_FACTOR * peer_mean + LIMIT_SLACK
        print(f"limit {limit:.6f} = {LIMIT_FACTOR} x {peer_mean:.6f} (llama.cpp) + {LIMIT_SLACK}")
        if not found["kvrt"].mean <= limit:
            sys.exit("FAILED: kvrt's logits are further from the f32 reference than llama.cpp's")


if __name__ == "__main__":
    main()
