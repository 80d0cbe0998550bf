#!/usr/bin/env python3
"""Writes the token windows of the KL gate, made by `tokenizers` or `sentencepiece` (PyPI) from the vocabulary of a GGUF.

  make_kl_tokens.py MODEL.gguf data/kl_tokens.json
"""
import json
import sys
from pathlib import Path

import gguf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

HERE = Path(__file__).parent
TEXT = HERE.parent / "data" / "text_kjv.txt"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # of the model's tokenizer.json
OFFSETS, POSITIONS = [0, 3000, 6000, 9000], 512


def tokenizer_of(path):
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.get_field("tokenizer.ggml." + key).contents()
    if value("model") == "llama":
        import tokenizer_models
        return tokenizer_models.real_sentencepiece(path), [value("bos_token_id")]
    if (value("model"), value("pre")) not in (("gpt2", "smollm"), ("gpt2", "qwen2")):
        sys.exit(f"{path}: expected a tokenizer gpt2 / smollm or qwen2, found {value('model')} / {value('pre')}")
    vocab = {token: i for i, token in enumerate(value("tokens"))}
    merges = [tuple(m.split(" ")) for m in value("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    if value("pre") == "qwen2":
        split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        return lambda text: tokenizer.encode(text).ids, []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return lambda text: tokenizer.encode(text).ids, []


def main():
    encode, start = tokenizer_of(sys.argv[1])
    ids = encode(TEXT.read_text(encoding="utf-8"))
    assert len(ids) >= OFFSETS[-1] + POSITIONS, f"the text has only {len(ids)} tokens"
    out = {"text": TEXT.name, "tokens_of_text": len(ids), "offsets": OFFSETS, "windows": [(start + ids[o:])[:POSITIONS] for o in OFFSETS]}
    Path(sys.argv[2]).write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
