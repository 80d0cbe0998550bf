"""The transformer forward pass in numpy, read straight from a GGUF: the independent truth for logits.

It shares nothing with the runtime: `gguf` (PyPI) reads the file and dequantizes, numpy does the rest.
Architectures: llama, qwen2, gemma3. Model(path).forward(tokens) gives logits [n, vocab].  precision=np.float64 accumulates everything in double.
kv_f16 rounds K (after RoPE) and V to f16, as the runtime stores them.  act_q8 rounds the input of every
quantized matmul to 8 bits per 32 values, as the runtime does.
"""
from pathlib import Path
import struct

import gguf
import numpy as np

ROPE_INTERLEAVED = {"llama": True, "qwen2": False, "gemma3": False}  # pairs (2i, 2i + 1), or (i, i + rope_dims / 2)
LOCAL_BASE, GLOBAL_EVERY = 10000.0, 6  # Gemma 3: each sixth layer sees everything, the others a window, with a RoPE base of their own
UNQUANTIZED = tuple(gguf.GGMLQuantizationType[t] for t in ("F32", "F16", "BF16"))


class Matrix:
    """weight [out, in]; `quantized` says whether its input may be rounded to 8 bits."""

    def __init__(self, tensor, precision):
        self.quantized = tensor.tensor_type not in UNQUANTIZED
        self.w = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(precision)


def round_to_q8(x):
    """Per 32 values: scale = amax / 127, whole numbers to nearest even."""
    blocks = x.reshape(*x.shape[:-1], -1, 32).astype(np.float32)
    amax = np.abs(blocks).max(axis=-1, keepdims=True)
    inverse = np.divide(np.float32(127), amax, out=np.zeros_like(amax), where=amax > 0)
    return (np.rint(blocks * inverse) * (amax / np.float32(127))).reshape(x.shape).astype(x.dtype)


class Model:
    def __init__(self, path, precision=np.float64):
        reader = gguf.GGUFReader(str(path))
        self.precision = precision
        self.arch = self._value(reader, "general.architecture")
        key = lambda name, default=None: self._value(reader, f"{self.arch}.{name}", default)
        self.interleaved = ROPE_INTERLEAVED[self.arch]
        self.layers = key("block_count")
        self.width = key("embedding_length")
        by_layer = lambda value: value if isinstance(value, list) else [value] * self.layers
        self.heads = by_layer(key("attention.head_count"))
        self.kv_heads = by_layer(key("attention.head_count_kv", self.heads))
        self.head_dim = key("attention.key_length", self.width // self.heads[0])
        self.rope_dims = key("rope.dimension_count", self.head_dim)
        self.rope_base = key("rope.freq_base", 10000.0)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.gemma = self.arch == "gemma3"
        self.window = key("attention.sliding_window") if self.gemma else None
        if self.gemma and (key("rope.scaling.type") or self.layers == 62):
            raise ValueError(f"{path}: a Gemma 3 of another size than this reference knows")
        self.tensors = {t.name: t for t in reader.tensors}
        self.matrices = {}
        self.vocab = int(self.tensors["token_embd.weight"].shape[1])

    @staticmethod
    def _value(reader, name, default=None):
        field = reader.get_field(name)
        return default if field is None else field.contents()

    def matrix(self, name):
        if name not in self.matrices:
            self.matrices[name] = Matrix(self.tensors[name], self.precision)
        return self.matrices[name]

    def vector(self, name):
        return self.tensors[name].data.astype(self.precision) if name in self.tensors else None

    def linear(self, name, x):
        m = self.matrix(name + ".weight")
        y = (round_to_q8(x) if self.act_q8 and m.quantized else x) @ m.w.T
        bias = self.vector(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.precision(self.eps)) * self.vector(name)

    def local(self, layer):
        return self.gemma and layer % GLOBAL_EVERY != GLOBAL_EVERY - 1

    def rope(self, x, layer):
        """x [n, heads, head_dim], positions 0 .. n - 1; the dimensions beyond rope_dims pass through."""
        half = self.rope_dims // 2
        theta = (LOCAL_BASE if self.local(layer) else self.rope_base) ** (-2.0 * np.arange(half) / self.rope_dims)
        angle = np.arange(x.shape[0])[:, None] * theta
        cos, sin = (f(angle)[:, None, :].astype(self.precision) for f in (np.cos, np.sin))
        first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if self.interleaved else (slice(0, half), slice(half, 2 * half))
        out = x.copy()
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., first] * sin + x[..., second] * cos
        return out

    def stored(self, t):
        """K or V of a layer, [tokens][heads][dim], as the KV keeps it."""
        return t.astype(np.float32).astype(np.float16)

    def attention(self, layer, x):
        heads, kv_heads = self.heads[layer], self.kv_heads[layer]
        p, n, d = f"blk.{layer}.", x.shape[0], self.head_dim
        q = self.linear(p + "attn_q", x).reshape(n, heads, d)
        k = self.linear(p + "attn_k", x).reshape(n, kv_heads, d)
        if self.gemma:
            q, k = self.norm(p + "attn_q_norm.weight", q), self.norm(p + "attn_k_norm.weight", k)
        q, k = self.rope(q, layer), self.rope(k, layer)
        v = self.linear(p + "attn_v", x).reshape(n, kv_heads, d)
        if self.kv_f16:
            k, v = (self.stored(t).astype(self.precision) for t in (k, v))
        return self.linear(p + "attn_output", self.attend(layer, q, k, v).reshape(n, heads * d))

    def attend(self, layer, q, k, v):
        """q [tokens][heads][dim], k and v as they are stored, of heads that several of q's share."""
        n, heads, group = q.shape[0], q.shape[1], q.shape[1] // k.shape[1]
        out = np.empty_like(q)
        unseen = np.triu(np.ones((n, n), bool), 1)
        if self.local(layer):
            unseen |= np.tril(np.ones((n, n), bool), -self.window)
        for h in range(heads):
            score = q[:, h] @ k[:, h // group].T / self.precision(np.sqrt(self.head_dim))
            score[unseen] = -np.inf
            out[:, h] = self.seen(layer, h, score) @ v[:, h // group]
        return out

    def seen(self, layer, head, score):
        """What a head gives each position, of its scores: [tokens][tokens], rows of probabilities."""
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        return weight / weight.sum(axis=-1, keepdims=True)

    def mlp(self, p, x):
        gate = self.linear(p + "ffn_gate", x)
        if self.gemma:
            active = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi).astype(self.precision) * (gate + self.precision(0.044715) * gate**3)))
        else:
            active = gate / (1 + np.exp(-gate))
        return self.linear(p + "ffn_down", active * self.linear(p + "ffn_up", x))

    def block_output(self, name, x):
        return self.norm(name, x) if self.gemma else x

    def hidden(self, tokens, kv_f16=True, act_q8=False):
        """The rows that the head multiplies: after the last norm, [n, width]."""
        self.kv_f16, self.act_q8 = kv_f16, act_q8
        x = self.matrix("token_embd.weight").w[np.asarray(tokens)]
        if self.gemma:
            x = x * self.precision(np.sqrt(self.width))
        for i in range(self.layers):
            p = f"blk.{i}."
            x = x + self.block_output(p + "post_attention_norm.weight", self.attention(i, self.norm(p + "attn_norm.weight", x)))
            x = x + self.block_output(p + "post_ffw_norm.weight", self.mlp(p, self.norm(p + "ffn_norm.weight", x)))
        return self.norm("output_norm.weight", x)

    def head(self, hidden):
        return self.linear("output" if "output.weight" in self.tensors else "token_embd", hidden)

    def forward(self, tokens, kv_f16=True, act_q8=False):
        return self.head(self.hidden(tokens, kv_f16, act_q8))


def write_golden(path, tokens, rows, logits):
    """The .golden format of README.md; logits [len(rows), vocab]."""
    with open(path, "wb") as f:
        f.write(struct.pack("<4sIIII", b"KVGL", 1, len(tokens), logits.shape[1], len(rows)))
        f.write(np.asarray(tokens, "<i4").tobytes() + np.asarray(rows, "<u4").tobytes() + logits.astype("<f4").tobytes())


def read_golden(path):
    data = Path(path).read_bytes()
    magic, version, n, vocab, n_rows = struct.unpack_from("<4sIIII", data)
    if magic != b"KVGL" or version != 1 or len(data) != 20 + 4 * (n + n_rows + n_rows * vocab):
        raise ValueError(f"{path}: not a golden file of version 1; write it again with make_tiny.py")
    tokens = np.frombuffer(data, "<i4", n, 20)
    rows = np.frombuffer(data, "<u4", n_rows, 20 + 4 * n)
    return tokens, rows, np.frombuffer(data, "<f4", n_rows * vocab, 20 + 4 * (n + n_rows)).reshape(n_rows, vocab)
