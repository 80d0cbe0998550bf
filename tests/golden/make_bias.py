#!/usr/bin/env python3
"""Writes tiny/with_bias_*.gguf: models of tiny/ whose K has a bias as large as Qwen2.5's, so that K is stored without it. Same input, same bytes.

  make_bias.py [OUT_DIR]

Every second pair's bias of the first KV head in every layer is multiplied; other pairs keep theirs. with_bias_qwen2 has logits of reference.py, too.
"""
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np

import make_tiny
import reference

HERE = Path(__file__).parent
# RoPE over halves of a head, likewise with YaRN, over a part of it, over neighbours; windows and sinks.
SOURCES = {"qwen2": "qwen2_gqa_f32", "qwen2_yarn": "row_qwen2_yarn", "stablelm": "row_stablelm_bias", "glm4": "row_glm4", "gpt_oss": "row_gpt_oss"}
TIMES = 60.0


def enlarge(path, interleaved):
    """Multiplies the biases in the file."""
    reader = gguf.GGUFReader(path)
    arch = reader.get_field("general.architecture").contents()
    key = lambda name, default=None: default if (field := reader.get_field(f"{arch}.{name}")) is None else field.contents()
    head_dim = key("attention.key_length") or key("embedding_length") // key("attention.head_count")
    rope = key("rope.dimension_count", head_dim)
    pairs = np.arange(1, rope // 2, 2)
    dims = np.concatenate([2 * pairs, 2 * pairs + 1] if interleaved else [pairs, pairs + rope // 2])
    places = [(t.data_offset, t.data.copy()) for t in reader.tensors if t.name.endswith("attn_k.bias")]
    assert places, path
    with open(path, "r+b") as file:
        for offset, bias in places:
            bias[dims] *= np.float32(TIMES)
            file.seek(offset)
            file.write(bias.astype("<f4").tobytes())


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "tiny"
    for name, source in SOURCES.items():
        path = out / f"with_bias_{name}.gguf"
        shutil.copyfile(HERE / "tiny" / f"{source}.gguf", path)
        enlarge(path, interleaved=name == "glm4")
    model = reference.Model(out / "with_bias_qwen2.gguf")
    tokens = np.random.Generator(np.random.PCG64(3000)).integers(0, model.vocab, make_tiny.N_TOKENS)
    reference.write_golden(out / "with_bias_qwen2.golden", tokens, make_tiny.ROWS, model.forward(tokens)[make_tiny.ROWS])


if __name__ == "__main__":
    main()
