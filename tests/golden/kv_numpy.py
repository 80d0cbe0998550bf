#!/usr/bin/env python3
"""KV in int8, fp8 and int4 against a second implementation in numpy, from runtime/compute/NUMERICS.md alone, on tiny models in f32.

  kv_numpy.py --kvrt PROGRAM     exit 1 where a format's logits are not numpy's

Rounding is a step: where numpy's sums have other last bits than kvrt's, a number now and then becomes its neighbour. So the distance of the two
may be a part of what the format itself costs, and a rule that differs (a table, a scale, a bias that is apart, a factor) costs more. Exit 77: no
numpy or gguf.
"""
import argparse
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
MODELS = ["llama_gqa_f32", "llama_heads_f32", "qwen2_gqa_f32", "with_bias_qwen2"]
FORMATS = ["int8", "fp8", "int4", "int8/int4", "int4/f16"]
TOKENS, SHARE = 90, 0.12
ENTRIES = np.array([-123, -93, -72, -55, -41, -28, -15, -3, 9, 21, 34, 48, 63, 80, 101, 127], np.float32)
BETWEEN = (ENTRIES[1:] + ENTRIES[:-1]) / 2
TRIES = [1, -1, 0.93, -0.93, 1.07, -1.07]


def f16(x):
    return x.astype(np.float16).astype(np.float32)


def inverse(scale):
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def int8(x, key):
    top = np.float32(127 if key or x.shape[-1] > 64 else 63)
    scale = f16(np.abs(x).max(-1, keepdims=True) / top)
    return np.clip(np.rint(x * inverse(scale)), -top, top) * scale


def fp8(x, key):
    scale = f16(np.abs(x).max(-1, keepdims=True) / np.float32(1.75))
    v = x * (256 * inverse(scale))
    unit = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(np.abs(v), 1e-30))), -6) - 3)
    return (np.clip(np.rint(v / unit) * unit, -448, 448) / 256).astype(np.float32) * scale


def int4(x, key, size=32):
    out = []
    for first in range(0, x.shape[-1], size):
        group = x[..., first:first + size]
        most, least = np.maximum(group.max(-1, keepdims=True), 0), np.minimum(group.min(-1, keepdims=True), 0)
        largest = np.where(most >= -least, most, least) / np.float32(127)
        best = scale = entry = None
        for times in TRIES:
            tried = f16(largest * np.float32(times))
            found = ENTRIES[(group[..., None] * inverse(tried)[..., None] > BETWEEN).sum(-1)]
            error = ((group - found * tried) ** 2).sum(-1, keepdims=True)
            if best is None:
                best, scale, entry = error, tried, found
            else:
                entry, scale, best = np.where(error < best, found, entry), np.where(error < best, tried, scale), np.minimum(error, best)
        scale = np.where(scale == 0, scale, f16((group * entry).sum(-1, keepdims=True) / (entry * entry).sum(-1, keepdims=True)))
        out.append(entry * scale)
    return np.concatenate(out, -1)


def hadamard(x):
    """By the matrix, over runs of the largest power of two; its own inverse."""
    dim = x.shape[-1] & -x.shape[-1]
    i = np.arange(dim)
    signs = 1 - 2 * (np.array([[bin(a & b).count("1") for b in i] for a in i]) % 2)
    return (x.reshape(*x.shape[:-1], -1, dim) @ signs.astype(np.float32) / np.float32(np.sqrt(dim))).reshape(x.shape)


class Model(reference.Model):
    """K and V of the formats, given by K's and V's name."""

    FACTORED, BIAS_APART = ("int4",), 2.25

    def kv(self, name):
        self.k, _, self.v = name.partition("/")
        self.v = self.v or self.k
        return self

    def rounded(self, x, name, key, apart):
        if name == "f16":
            return f16(x)
        transforms = name == "int4" or key and (name == "int8" or name == "fp8" and apart)
        codec = {"int8": int8, "fp8": fp8, "int4": int4}[name]
        # kvrt's transform has no factor: a power of two times the square root of another.
        grown = np.float32(np.sqrt(x.shape[-1] & -x.shape[-1]))
        return hadamard(codec(hadamard(x) * grown, key) / grown) if transforms else codec(x, key)

    def pair_squares(self, layer, name, heads):
        rows = self.matrix(f"blk.{layer}.{name}.weight").w * self.vector(f"blk.{layer}.attn_norm.weight")
        return self.by_pair((rows * rows).sum(1).reshape(heads, self.head_dim))

    def by_pair(self, x):
        pairs = self.rope_dims // 2
        return x[:, 0:2 * pairs:2] + x[:, 1:2 * pairs:2] if self.interleaved else x[:, :pairs] + x[:, pairs:2 * pairs]

    def by_dim(self, pairs, rest):
        out = np.full((pairs.shape[0], self.head_dim), rest, np.float32)
        n = pairs.shape[1]
        if self.interleaved:
            out[:, 0:2 * n:2] = out[:, 1:2 * n:2] = pairs
        else:
            out[:, :n] = out[:, n:2 * n] = pairs
        return out

    def attention(self, layer, x):
        heads, kv_heads, d = self.heads[layer], self.kv_heads[layer], self.head_dim
        p, n, group = f"blk.{layer}.", x.shape[0], heads // kv_heads
        q, k, v = (self.linear(p + f"attn_{name}", x).reshape(n, -1, d) for name in "qkv")
        few_bits, squares = self.k not in ("f16", "f32"), self.pair_squares(layer, "attn_k", kv_heads)
        bias, apart = self.vector(p + "attn_k.bias"), np.zeros((kv_heads, d), np.float32)
        if bias is not None and few_bits:
            bias = bias.reshape(kv_heads, d)
            large = self.by_pair(bias * bias) > self.BIAS_APART * squares
            apart = (bias * self.by_dim(large, 0)).astype(np.float32)
            self.any_apart |= bool(large.any())
        k = k - apart
        q, k, rotated = (self.rope(t, layer) for t in (q, k, np.broadcast_to(apart, k.shape)))
        factor = np.ones((kv_heads, d), np.float32)
        if self.k in self.FACTORED:
            q_bias = self.vector(p + "attn_q.bias")
            q_squares = self.pair_squares(layer, "attn_q", heads) + (0 if q_bias is None else self.by_pair(q_bias.reshape(heads, d) ** 2))
            factor = self.by_dim((q_squares[::group] / squares) ** 0.175, 1)
        self.factor = factor
        if few_bits:
            k = self.rounded((k * factor).astype(np.float32), self.k, True, self.any_apart) / factor + rotated
        elif self.k == "f16":
            k = f16(k)
        if self.v != "f32":
            v = self.rounded(v.astype(np.float32), self.v, False, False)
        return self.linear(p + "attn_output", self.attend(layer, q, k, v).reshape(n, heads * d))

    def logits(self, tokens, name):
        self.kv(name)
        self.any_apart = False
        if self.k != "f32":  # whether any layer's bias is apart decides how all of them store fp8
            self.hidden(tokens, kv_f16=False)
        return self.head(self.hidden(tokens, kv_f16=False))


class AttentionKl(Model):
    """How far attention's probabilities are from those of f32 KV: KL(f32 || format) in nats, by layer, the mean of heads and rows. Each format
    has a run of its own, so a layer's figure has what the layers before it cost, too."""

    truth, found = None, None

    def seen(self, layer, head, score):
        p = super().seen(layer, head, score)
        if self.truth is None:
            return p
        if self.found is None:
            self.truth[layer, head] = p
            return p
        its = self.truth[layer, head].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.found[layer].append(np.where(its > 0, its * (np.log(its) - np.log(np.maximum(p.astype(np.float64), 1e-300))), 0).sum(-1))
        return p

    def by_layer(self, tokens, names):
        """{format: [of each layer]}"""
        out, self.truth, self.found = {}, {}, None
        self.kv("f32").hidden(tokens, kv_f16=False)
        for name in names:
            self.truth, truth = None, self.truth
            self.kv(name).any_apart = False
            self.hidden(tokens, kv_f16=False)
            self.truth, self.found = truth, [[] for _ in range(self.layers)]
            self.hidden(tokens, kv_f16=False)
            out[name] = [float(np.mean(rows)) for rows in self.found]
        return out


def kvrt(program, model, tokens, name, folder):
    path, (k, _, v) = Path(folder) / "logits", name.partition("/")
    subprocess.run([program, "logits", "-m", model, "--tokens", ",".join(map(str, tokens)), "-o", path, "--all", "--kv-k", k, "--kv-v", v or k],
                   check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(path, "<f4").reshape(len(tokens), -1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvrt", required=True)
    args = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            path = HERE / "tiny" / f"{name}.gguf"
            model = Model(path, np.float32)
            tokens = np.random.Generator(np.random.PCG64(5)).integers(3, model.vocab, TOKENS)
            exact = model.logits(tokens, "f32")
            for kv in FORMATS:
                ours, theirs = kvrt(args.kvrt, path, tokens, kv, folder), model.logits(tokens, kv)
                cost, apart = (np.sqrt(np.mean((a - b) ** 2)) for a, b in ((theirs, exact), (ours, theirs)))
                print(f"{name:16} {kv:10} costs {cost:.2e}, kvrt and numpy are {apart:.2e} apart: {apart / cost:.3f}, limit {SHARE}")
                failed |= not apart <= SHARE * cost
    if failed:
        sys.exit("FAILED: a format is not what NUMERICS.md says")
    layers = AttentionKl(HERE / "tiny" / f"{MODELS[-1]}.gguf", np.float32).by_layer(tokens, ["f32", "f16", "int8", "int4"])
    means = [float(np.mean(kl)) for kl in layers.values()]
    print("attention's KL to f32: " + ", ".join(f"{kv} {kl:.2e}" for kv, kl in zip(layers, means)))
    if means[0] != 0 or sorted(means) != means:
        sys.exit("FAILED: attention's KL is not 0 for f32, or does not grow with fewer bits")


if __name__ == "__main__":
    main()
