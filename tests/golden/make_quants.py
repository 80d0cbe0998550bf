#!/usr/bin/env python3
"""Writes quants.bin: rows of each tensor type and what PyPI gguf's dequantize makes of them. Needs gguf and numpy.

Little-endian, for each type: u32 ggml type, u32 elements n, u32 bytes of the row, the row, f32[n].
F16 is all 65,536 patterns. Q4_1 and Q8_0 hold random blocks and every edge of their f16 scales that is not NaN.
"""
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x2E66, 0x9BCD]


def q4_1(rng):
    blocks = []
    for scale in EDGES:
        for minimum in EDGES:
            blocks.append(struct.pack("<HH", scale, minimum) + rng.bytes(16))
    for _ in range(16):
        scale, minimum = rng.normal(0, 0.05, 2).astype(np.float16)
        blocks.append(scale.tobytes() + minimum.tobytes() + rng.bytes(16))
    return b"".join(blocks)


def q8_0(rng):
    every_byte = bytes(range(256))
    blocks = [struct.pack("<H", scale) + every_byte[i : i + 32] for scale in EDGES for i in range(0, 256, 32)]
    for _ in range(16):
        blocks.append(np.float16(rng.normal(0, 0.05)).tobytes() + rng.bytes(32))
    return b"".join(blocks)


def main(path):
    rng = np.random.default_rng(7)
    rows = {
        T.F32: np.array([0.0, -0.0, 1e-45, -1.5, 3.4e38, np.inf, -np.inf], dtype="<f4").tobytes(),
        T.F16: np.arange(65536, dtype="<u2").tobytes(),
        T.Q4_1: q4_1(rng),
        T.Q8_0: q8_0(rng),
    }
    with open(path, "wb") as out:
        for kind, row in rows.items():
            data = np.frombuffer(row, dtype={T.F32: "<f4", T.F16: "<f2"}.get(kind, np.uint8))
            values = dequantize(data, kind).astype("<f4").ravel()
            out.write(struct.pack("<III", int(kind), values.size, len(row)) + row + values.tobytes())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quants.bin")
