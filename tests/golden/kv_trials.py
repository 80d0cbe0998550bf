#!/usr/bin/env python3
"""Ways to have fewer bytes of K and V that kvrt has not: what each costs the logits, in numpy. Nothing here is a test.

  kv_trials.py [--which qwen2.5-coder] [--windows 4] [--same-text] [K/V ...]     all of TRIALS, or those named: f16/rows64, kivi4x64, int4@tail32

KL(f16 || trial) in nats over windows of 512 tokens, with the weights in F16 (kl_kv.py says why), and first choices that change. Formats of
kvrt's own are kv_numpy.py's. K loses its bias and has int4's factors as there, but for int8. The others, for K, V or both, with R tokens
or numbers:

  kivi4xR      KIVI (arXiv 2402.02750): K by channel over R tokens, V by token over R numbers; integers of 4 bits, a scale and a least number in f16
  channel4xR   int4's table and scale, but by channel over R tokens and without a transform
  int4xR       int4 with groups of R numbers
  apart4xR     the largest 1 % of a token's numbers in a layer apart, in f16 with 8 bits that say which; the others as int4xR. apart4plainxR: not transformed
  rowsR        the parts of a layer's V, all KV heads together, along the R principal directions of another text's V; headsR: R in all, as many of each head
  matrixR      along those of V's matrix times the norm's weights
  weightedR    as rowsR, the error weighted by the output's matrix. A suffix i8: the parts in int8, in a random basis of the same space, a scale a token
  @tailR       each query sees the rows of its own block of R tokens unrounded
  @bias        K keeps its bias
"""
import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
    import kv_numpy
    from make_kl_tokens import OFFSETS, POSITIONS, TEXT, tokenizer_of
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from f16_file import dequantized
from kl import HERE, WHICH
from kl_kv import ROWS_AT_ONCE, tail
from kv_numpy import f16, hadamard, int4, int8, inverse

OTHER_TEXTS, CALIBRATION_WINDOWS = ("include/kvrt.h", "docs/USING.md"), 4
COMMON = ["f16/int8", "f16/int4", "int8", "int8/int4", "int4", "kivi4x64", "kivi4x64@tail64", "int4@tail64", "channel4x32/int4", "int8/kivi4x64",
          "apart4x64", "apart4plainx64", "kivi2x32"]
# V at the bytes of int8 and int4, and above.
TRIALS = {"qwen2.5-coder": [*COMMON, "f16/rows96", "f16/rows64", "f16/rows70i8", "f16/weighted64", "f16/weighted70i8", "f16/matrix64", "f16/heads64"],
          "smollm2": [*COMMON, "f16/rows144", "f16/rows96", "f16/rows106i8", "f16/weighted96", "f16/weighted106i8", "f16/matrix96", "f16/heads96"]}
NAME = re.compile(r"(?P<kind>kivi|channel|int(?=4x)|apart|rows|matrix|heads|weighted)(?P<bits>\d(?=x|plain))?(?P<plain>plain)?x?(?P<size>\d+)(?P<i8>i8)?")


def affine(x, bits):
    """Each run of the last axis."""
    top, least = np.float32(2**bits - 1), f16(x.min(-1, keepdims=True))
    scale = f16((x.max(-1, keepdims=True) - least) / top)
    return np.clip(np.rint((x - least) * inverse(scale)), 0, top) * scale + least


def by_channel(x, rows, codec):
    """codec's last axis: the rows of a block in one channel."""
    blocks = np.moveaxis(x.reshape(-1, rows, *x.shape[1:]), 1, -1)
    return np.moveaxis(codec(blocks), -1, 1).reshape(x.shape)


def by_token(x, size, codec):
    return codec(x.reshape(*x.shape[:-1], -1, size)).reshape(x.shape)


def outliers(count):
    """How many of a token's numbers in a layer are apart: 1 %."""
    return max(1, round(count / 100))


def apart(x, size, plain):
    rows = x.reshape(x.shape[0], -1)
    largest = np.argsort(-np.abs(rows), axis=-1)[:, :outliers(rows.shape[-1])]
    rest = rows.copy()
    np.put_along_axis(rest, largest, 0, -1)
    rest = rest.reshape(x.shape)
    out = (int4(rest, False, size) if plain else hadamard(int4(hadamard(rest), False, size))).reshape(rows.shape)
    np.put_along_axis(out, largest, f16(np.take_along_axis(rows, largest, -1)), -1)
    return out.reshape(x.shape)


class Model(kv_numpy.Model):
    class Factored:
        def __contains__(self, name):
            return name != "int8"

    FACTORED = Factored()

    def set(self, trial):
        name, _, options = trial.partition("@")
        self.tail = int(options.removeprefix("tail")) if options.startswith("tail") else 0
        self.BIAS_APART = np.inf if options == "bias" else kv_numpy.Model.BIAS_APART
        self.any_apart, self.lost, self.seen = False, {}, None
        return self.kv(name)

    def attention(self, layer, x):
        self.layer = layer
        return super().attention(layer, x)

    def rounded(self, x, name, key, apart_bias):
        out = self.stored_as(x, name, key, apart_bias).astype(np.float32)
        self.lost[key] = x - out
        if not key and self.seen is not None:
            self.seen[self.layer].append(x.reshape(x.shape[0], -1))
        return out

    def stored_as(self, x, name, key, apart_bias):
        found = NAME.fullmatch(name)
        if not found:
            return super().rounded(x, name, key, apart_bias)
        kind, size = found["kind"], int(found["size"])
        if kind == "kivi":
            codec = lambda t: affine(t, int(found["bits"]))
            return by_channel(x, size, codec) if key else by_token(x, size, codec)
        if kind == "channel":
            return by_channel(x, size, lambda t: int4(t, False, size))
        if kind == "int":
            return hadamard(int4(hadamard(x), False, size))
        return apart(x, size, found["plain"]) if kind == "apart" else self.low_rank(x, kind, size, found["i8"])

    def low_rank(self, x, kind, rank, i8):
        mean, into, back = self.bases[kind][self.layer]
        if kind == "heads":
            heads = x.shape[1]
            kept = np.concatenate([np.arange(rank // heads) + h * x.shape[2] for h in range(heads)])
        else:
            kept = np.arange(rank)
        into, back = into[:, kept], back[kept]
        if i8:  # any basis of the space will do: in a random one the parts are alike
            turn = np.linalg.qr(np.random.Generator(np.random.PCG64(7)).standard_normal((rank, rank)))[0].astype(np.float32)
            into, back = into @ turn, turn.T @ back
        parts = (x.reshape(x.shape[0], -1) - mean) @ into
        return ((int8(parts, True) if i8 else f16(parts)) @ back + mean).reshape(x.shape)

    def attend(self, layer, q, k, v):
        if not self.tail:
            return super().attend(layer, q, k, v)
        n, group = q.shape[0], q.shape[1] // k.shape[1]
        exact_k, exact_v, out, block = k + self.lost[True] / self.factor, v + self.lost[False], np.empty_like(q), np.arange(n) // self.tail
        own, unseen = block[:, None] == block, np.triu(np.ones((n, n), bool), 1)
        for h in range(q.shape[1]):
            score = np.where(own, q[:, h] @ exact_k[:, h // group].T, q[:, h] @ k[:, h // group].T) / np.float32(np.sqrt(self.head_dim))
            score[unseen] = -np.inf
            weight = np.exp(score - score.max(axis=-1, keepdims=True))
            weight /= weight.sum(axis=-1, keepdims=True)
            out[:, h] = np.where(own, weight, 0) @ exact_v[:, h // group] + np.where(own, 0, weight) @ v[:, h // group]
        return out

    def calibrate(self, windows):
        """Sets bases[kind][layer]: the mean, [numbers], and the matrices into the parts and back, [numbers][numbers], the parts of most weight first."""
        self.set("f16").seen = [[] for _ in range(self.layers)]
        for window in windows:
            self.hidden(window, kv_f16=False)
        seen, self.seen = self.seen, None
        self.bases = {kind: [] for kind in ("rows", "matrix", "heads", "weighted")}
        for layer, rows in enumerate(map(np.concatenate, seen)):
            p, d, mean = f"blk.{layer}.", self.head_dim, rows.mean(0)
            one, spread = np.eye(rows.shape[1]), np.cov(rows.astype(np.float64).T)
            by_matrix = (self.matrix(p + "attn_v.weight").w * self.vector(p + "attn_norm.weight")).astype(np.float64)
            bias = self.vector(p + "attn_v.bias")
            within, root = np.zeros_like(spread), np.zeros_like(spread)
            group, output = self.heads[layer] // self.kv_heads[layer], self.matrix(p + "attn_output.weight").w.astype(np.float64)
            for h in range(self.kv_heads[layer]):
                at = slice(h * d, (h + 1) * d)
                within[at, at] = directions(spread[at, at])
                readers = output[:, h * group * d:(h + 1) * group * d].reshape(-1, d)
                root[at, at] = np.linalg.cholesky(readers.T @ readers)
            weighted = root @ directions(root.T @ spread @ root)
            for kind, center, into in (("rows", mean, directions(spread)), ("matrix", np.zeros_like(mean) if bias is None else bias, directions(by_matrix @ by_matrix.T)),
                                       ("heads", mean, within), ("weighted", mean, weighted)):
                self.bases[kind].append(tuple(np.asarray(t, np.float32) for t in (center, into, np.linalg.solve(into, one))))


def directions(spread):
    return np.linalg.eigh(spread)[1][:, ::-1]


def bits(name, key, heads, dim):
    """A number's, of K or of V."""
    numbers, found = heads * dim, NAME.fullmatch(name)
    if not found:
        return {"f16": 16, "int8": 8 + 16 / dim, "int4": 4 + 16 / min(dim, 32)}[name]
    size = int(found["size"])
    if found["kind"] == "kivi":
        return int(found["bits"]) + 32 / size
    if found["kind"] in ("channel", "int"):
        return 4 + 16 / size
    if found["kind"] == "apart":
        return 4 + 16 / size + outliers(numbers) * 24 / numbers
    return (size * 8 + 16 if found["i8"] else size * 16) / numbers


def calibration_windows(source, same_text):
    encode, start = tokenizer_of(source)
    if same_text:  # what lies between the measured windows
        ids = encode(TEXT.read_text(encoding="utf-8"))
        firsts = [o + POSITIONS * i for o in OFFSETS[:3] for i in (1, 2, 3)][:CALIBRATION_WINDOWS]
    else:
        ids = encode("".join((HERE.parents[1] / path).read_text(encoding="utf-8") for path in OTHER_TEXTS))
        firsts = [i * (len(ids) - POSITIONS) // (CALIBRATION_WINDOWS - 1) for i in range(CALIBRATION_WINDOWS)]
    return [(start + ids[first:])[:POSITIONS] for first in firsts]


def probabilities(logits):
    """In f32; every trial uses them."""
    x = np.exp(logits - logits.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def divergence(truth, chances, own):
    """KL of each row from the differences of the logits: exact enough in f32, and one exponential."""
    out = []
    for i in range(0, len(truth), ROWS_AT_ONCE):
        p, d = chances[i:i + ROWS_AT_ONCE], own[i:i + ROWS_AT_ONCE] - truth[i:i + ROWS_AT_ONCE]
        d -= (p * d).sum(-1, keepdims=True)
        out.extend(np.log1p((p * np.expm1(d)).sum(-1)))
    return out


def report(model, trials, found, changed):
    for trial in trials:
        k, _, v = trial.partition("@")[0].partition("/")
        each = bits(k, True, model.kv_heads[0], model.head_dim), bits(v or k, False, model.kv_heads[0], model.head_dim)
        print(f"{trial:20} bits {each[0]:.2f}/{each[1]:.2f} mean {sum(each) / 2:6.3f}  KL {np.mean(found[trial]):.3e}  99.9 % {tail(found[trial]):.3e}  "
              f"first choices {changed[trial]} of {len(found[trial])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--which", choices=TRIALS, default="qwen2.5-coder")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--same-text", action="store_true", help="take the directions from the measured text, between the windows")
    parser.add_argument("trials", nargs="*")
    args = parser.parse_args()
    source, trials = WHICH[args.which].model, args.trials or TRIALS[args.which]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f16.gguf"
        dequantized(source, path)
        model = Model(path, np.float32)
    if any(re.search("rows|matrix|heads|weighted", trial) for trial in trials):
        model.calibrate(calibration_windows(source, args.same_text))
    found, changed = {trial: [] for trial in trials}, dict.fromkeys(trials, 0)
    for window in json.loads(WHICH[args.which].tokens.read_text())["windows"][-args.windows:]:
        truth = model.set("f16").head(model.hidden(window))
        chances = probabilities(truth)
        for trial in trials:
            started = time.process_time()
            rows = model.set(trial).head(model.hidden(window, kv_f16=False))
            found[trial].extend(divergence(truth, chances, rows))
            changed[trial] += int((truth.argmax(-1) != rows.argmax(-1)).sum())
            print(f"  {trial} {np.mean(found[trial]):.3e} {time.process_time() - started:.1f} s", file=sys.stderr, flush=True)
        report(model, trials, found, changed)


if __name__ == "__main__":
    main()
