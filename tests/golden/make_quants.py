#!/usr/bin/env python3
"""Writes quants.bin: rows of each tensor type and their values by PyPI gguf's dequantize. Needs gguf and numpy.

Little-endian, for each type: u32 ggml type, u32 elements n, u32 bytes of the row, the row, f32[n].
F16 is all 65,536 patterns, BF16 every 61st. The others hold random blocks with every edge of their f16 scales that is not NaN; Q8_0
has every byte, the small blocks every nibble, MXFP4 every scale.
"""
import struct
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

EDGES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x2E66, 0x9BCD]
# The places of the f16 fields in a block: the scale, then the minimum where there is one.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}


def row_of(kind, rng):
    elems, size = GGML_QUANT_SIZES[kind]
    blocks = []
    for i in range(48 if elems == 32 else 16):
        block = bytearray([255] * size if i == 0 else bytes(size) if i == 1 else rng.bytes(size))
        for at in HALVES[kind]:
            edge = EDGES[(i if at == HALVES[kind][0] else i * 5 + 1) % len(EDGES)]
            bits = edge if i < 36 else int(np.float16(rng.normal(0, 0.05)).view(np.uint16))
            block[at : at + 2] = struct.pack("<H", bits)
        blocks.append(bytes(block))
    return b"".join(blocks)


def q8_0(rng):
    every_byte = bytes(range(256))
    return b"".join(struct.pack("<H", scale) + every_byte[i : i + 32] for scale in EDGES for i in range(0, 256, 32))


def main(path):
    rng = np.random.default_rng(7)
    rows = {
        T.F32: np.array([0.0, -0.0, 1e-45, -1.5, 3.4e38, np.inf, -np.inf], dtype="<f4").tobytes(),
        T.F16: np.arange(65536, dtype="<u2").tobytes(),
        T.BF16: np.arange(0, 65536, 61, dtype="<u2").tobytes(),
        T.MXFP4: b"".join(bytes([e]) + rng.bytes(16) for e in range(256)),
        T.Q8_0: q8_0(rng),
    }
    for kind in HALVES:
        rows.setdefault(kind, row_of(kind, rng))
    with open(path, "wb") as out:
        for kind, row in rows.items():
            data = np.frombuffer(row, dtype={T.F32: "<f4", T.F16: "<f2"}.get(kind, np.uint8))
            values = dequantize(data, kind).astype("<f4").ravel()
            out.write(struct.pack("<III", int(kind), values.size, len(row)) + row + values.tobytes())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quants.bin")
