#!/usr/bin/env python3
"""Writes llama.cpp's logits of every position, f32, row by row; f16 KV, or K and V in two of its types. Needs llama-cpp-python.

  peer_logits.py MODEL.gguf TOKEN,TOKEN,... OUT [q8_0/q4_0]     peer_logits.py --version
"""
import ctypes
import sys

import llama_cpp as L
import numpy as np


KV_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}


def main():
    if sys.argv[1:] == ["--version"]:
        print("llama-cpp-python " + L.__version__)
        return
    path, ids, out = sys.argv[1:4]
    k, v = (KV_TYPES[name] for name in (sys.argv[4] if len(sys.argv) > 4 else "f16/f16").split("/"))
    tokens = [int(t) for t in ids.split(",")]
    quiet = L.llama_log_callback(lambda level, text, user: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    params = L.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = len(tokens)
    params.type_k, params.type_v = k, v
    if v > 1:
        params.flash_attn_type = 1  # without it V has to be f16
    context = L.llama_init_from_model(model, params)
    if not context:
        sys.exit("llama.cpp takes no such KV types")
    batch = L.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    if L.llama_decode(context, batch):
        sys.exit("llama_decode failed")
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    with open(out, "wb") as f:
        for i in range(len(tokens)):
            np.ctypeslib.as_array(L.llama_get_logits_ith(context, i), (vocab,)).astype("<f4").tofile(f)


main()
