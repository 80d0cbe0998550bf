#!/usr/bin/env python3
"""Holds `kvrt logits` against reference.py on a model of each tensor type, written here and thrown away.

  check_types.py PROGRAM      exit 1 on a difference, 77 when numpy or gguf is missing

Types that gguf can quantize to hold normal weights; the others random blocks, scaled to the same spread.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    import make_quants
    import make_tiny
    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

T = gguf.GGMLQuantizationType
PLAIN = (T.F32, T.F16, T.BF16)
TYPES = PLAIN + (T.MXFP4,) + tuple(make_quants.HALVES)
WIDTH, FF, HEADS, KV_HEADS, TOKENS = 256, 512, 4, 2, 24  # rows of one and of two superblocks
# Logits have a standard deviation of 2 to 4. As in check_tiny.py, a value between two codes may round the other way in f32; most rows
# hold no such input and must be close, and none may be as far as a wrong weight puts it.
CLOSE, FAR = 2e-3, 0.3


def matrix(kind, rows, cols, std, rng):
    """[rows, bytes of a row], and nothing else about how a type is laid out than where its f16 fields are."""
    normal = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(std)
    try:
        return gguf.quants.quantize(normal, kind)
    except NotImplementedError:
        pass
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    fields = make_quants.HALVES[kind]
    blocks = rng.integers(0, 256, (rows * cols // elems, size), dtype=np.uint8)

    def fill(*values):
        for at, value in zip(fields, values):
            scales = np.float16(value * rng.uniform(0.8, 1.25, len(blocks)))
            blocks[:, at : at + 2] = scales[:, None].view(np.uint8)
        return gguf.quants.dequantize(blocks.reshape(rows, -1), kind)

    minimum = fill(1, 0).mean() / -fill(0, 1).mean() if len(fields) == 2 else 0  # takes the mean to zero
    scale = std / fill(1, minimum).std()
    fill(scale, scale * minimum)
    return blocks.reshape(rows, -1)


def write_model(path, kind, rng):
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_block_count(1)
    w.add_context_length(128)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(WIDTH // HEADS)
    vocab, kv = make_tiny.write_vocabulary(w), WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd": (vocab, WIDTH, 2.5), "blk.0.attn_q": (WIDTH, WIDTH, 1.3), "blk.0.attn_k": (kv, WIDTH, 1.3),
              "blk.0.attn_v": (kv, WIDTH, 1.3), "blk.0.attn_output": (WIDTH, WIDTH, 1.5), "blk.0.ffn_gate": (FF, WIDTH, 1.5),
              "blk.0.ffn_up": (FF, WIDTH, 1.5), "blk.0.ffn_down": (WIDTH, FF, 1.5)}
    for name, (rows, cols, gain) in shapes.items():
        w.add_tensor(name + ".weight", matrix(kind, rows, cols, gain / np.sqrt(cols), rng), raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        w.add_tensor(name + ".weight", (1 + 0.1 * rng.standard_normal(WIDTH)).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def check(program, kind, seed, folder):
    rng = np.random.default_rng(seed)
    path, out = folder / f"{kind.name}.gguf", folder / "logits"
    write_model(path, kind, rng)
    model = reference.Model(path)
    tokens = rng.integers(0, model.vocab, TOKENS)
    truth = model.forward(tokens, act_q8=True)
    ids = ",".join(str(t) for t in tokens)
    run = subprocess.run([program, "logits", "-m", str(path), "--tokens", ids, "-o", str(out), "--all"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{kind.name}: {run.stderr}")
    own = np.fromfile(out, "<f4").reshape(truth.shape)
    far = np.nan_to_num(np.abs(own - truth), nan=np.inf).max(axis=1)
    close, worst = int((far <= CLOSE).sum()), far.max()
    good = 1 < truth.std() < 10 and 4 * close >= 3 * TOKENS and worst <= (CLOSE if kind in PLAIN else FAR)
    print(f"{'ok    ' if good else 'FAILED'} {kind.name:7} {close} of {TOKENS} rows within {CLOSE}, median {np.median(far):.1e}, "
          f"worst {worst:.1e}, logits' deviation {truth.std():.2f}")
    return good


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        results = [check(sys.argv[1], kind, seed, Path(folder)) for seed, kind in enumerate(TYPES)]
    sys.exit(not all(results) or len(results) != 16)


main()
