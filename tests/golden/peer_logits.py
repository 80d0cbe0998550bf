#!/usr/bin/env python3
"""Writes llama.cpp's logits of every position, f32, row by row; f16 KV, or K and V in two of its types. Needs llama-cpp-python.

  peer_logits.py MODEL.gguf TOKEN,TOKEN,... OUT [q8_0/q4_0]     peer_logits.py --version
  peer_logits.py --windows N MODEL.gguf @FILE OUT [q8_0/q4_0]   of the file's tokens in windows of N, as llama-perplexity --kl-divergence-base
                                                                writes them: a file for kvrt eval --foreign (kld_file.py)
"""
import ctypes
import sys
from pathlib import Path

import kld_file
import llama_cpp as L
import numpy as np


KV_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}


def window_logits(model, tokens, types):
    """[tokens][vocabulary]; types: of K and V."""
    params = L.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = len(tokens)
    params.type_k, params.type_v = (KV_TYPES[name] for name in types.split("/"))
    if params.type_v > 1:
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
    rows = [np.ctypeslib.as_array(L.llama_get_logits_ith(context, i), (vocab,)).astype("<f4") for i in range(len(tokens))]
    L.llama_batch_free(batch)
    L.llama_free(context)
    return np.stack(rows)


def write_windows(model, tokens, context, out, types):
    windows = [tokens[i:i + context] for i in range(0, len(tokens) - context + 1, context)]
    if not windows:
        sys.exit(f"{len(tokens)} tokens have no window of {context}")
    vocab = L.llama_model_get_vocab(model)
    begin = [L.llama_vocab_bos(vocab)] if L.llama_vocab_get_add_bos(vocab) else []  # in place of a window's first token
    rows = (window_logits(model, begin + w[len(begin):], types)[list(kld_file.rows_of(context))] for w in windows)
    kld_file.write(out, windows, L.llama_vocab_n_tokens(vocab), rows)


def main():
    if sys.argv[1:] == ["--version"]:
        print("llama-cpp-python " + L.__version__)
        return
    args, context = sys.argv[1:], 0
    if args[0] == "--windows":
        context, args = int(args[1]), args[2:]
    path, ids, out = args[:3]
    types = args[3] if len(args) > 3 else "f16/f16"
    if ids.startswith("@"):
        ids = Path(ids[1:]).read_text().replace(",", " ")
    tokens = [int(t) for t in ids.replace(",", " ").split()]
    quiet = L.llama_log_callback(lambda level, text, user: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    if context:
        write_windows(model, tokens, context, out, types)
    else:
        window_logits(model, tokens, types).tofile(out)


main()
