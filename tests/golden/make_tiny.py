#!/usr/bin/env python3
"""Writes the tiny random models tiny/*.gguf and their logits tiny/*.golden and *.golden8. Same versions, same bytes.

  make_tiny.py [--check] [OUT_DIR]     --check: print how greedy decoding of each model behaves
"""
import argparse
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

import reference

F32, F16, Q8_0, Q4_1 = (gguf.GGMLQuantizationType[t] for t in ("F32", "F16", "Q8_0", "Q4_1"))
CONTEXT, EPS, N_TOKENS = 1024, 1e-5, 96
ROWS = [0, 1, 15, 16, 31, 32, 33, 63, 64, 95]  # both sides of the block edges for blocks of 16, 32 and 64 tokens
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = """Ġ t|h e|i n|Ġ a|r e|Ġt he|o n|e r|Ġ s|a t|Ġ w|n d|Ġ o|e n|i t|o u|i s|o r|Ġ b|e d|Ġ c|Ġ f|in g|Ġ p|Ġo f|Ġa nd|a n|a l|a r|Ġt o
l l|Ġ m|Ġ h|Ġ in|e s|l e|Ġ d|Ġw h|o w|c t|Ġ Ġ|ĠĠ ĠĠ|Ã ©|ä ¸|' s""".replace("\n", "|").split("|")
TEMPLATE = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a tiny model for tests.<|im_end|>\n' }}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


@dataclass
class Variant:
    name: str
    arch: str
    width: int
    heads: object  # a number, or one per layer
    kv_heads: object
    head_dim: int
    ff: int
    weights: gguf.GGMLQuantizationType
    embedding: gguf.GGMLQuantizationType
    tied: bool
    rope_dims: int
    rope_base: float = 10000.0

    def layer_heads(self):
        many = isinstance(self.heads, list)
        return list(zip(self.heads, self.kv_heads)) if many else [(self.heads, self.kv_heads)] * 2


VARIANTS = [
    Variant("llama_gqa_f32", "llama", 32, 4, 2, 16, 64, F32, F32, False, 16),
    Variant("llama_mha_f16", "llama", 64, 4, 4, 16, 64, F16, F16, True, 16),
    Variant("llama_mqa_q8_0", "llama", 64, 2, 1, 32, 128, Q8_0, Q8_0, True, 16),
    Variant("llama_gqa_q4_1", "llama", 64, 4, 2, 16, 128, Q4_1, Q8_0, True, 16, 100000.0),
    Variant("qwen2_gqa_f32", "qwen2", 32, 2, 1, 16, 64, F32, F32, True, 16, 1000000.0),
    Variant("llama_heads_f32", "llama", 32, [4, 2, 6], [2, 1, 2], 16, 64, F32, F32, False, 16),
]


def byte_symbols():
    """GPT-2's printable stand-in for each byte, in the order of the vocabularies: printable bytes first, then the shifted ones."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(rest))]


def write_vocabulary(w):
    symbols = byte_symbols()
    tokens = SPECIAL + symbols + [m.replace(" ", "") for m in MERGES]
    assert len(set(tokens)) == len(tokens)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL)))
    w.add_token_merges(MERGES)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_pad_token_id(2)
    w.add_add_space_prefix(False)
    w.add_add_bos_token(False)
    w.add_chat_template(TEMPLATE)
    return len(tokens)


def tensors_of(v, vocab, rng):
    """Yields (name, matrix or vector, type). The scales make layers outweigh the embedding, so that logits depend on the context."""
    normal = lambda *shape, std=1.0: rng.standard_normal(shape, dtype=np.float32) * np.float32(std)
    fan = lambda n, gain=1.0: gain / np.sqrt(n)
    yield "token_embd.weight", normal(vocab, v.width, std=2.5 / np.sqrt(v.width)), v.embedding
    for i, heads in enumerate(v.layer_heads()):
        q, kv = (n * v.head_dim for n in heads)
        p = f"blk.{i}."
        yield p + "attn_norm.weight", 1 + normal(v.width, std=0.1), F32
        for name, rows in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
            yield p + name + ".weight", normal(rows, v.width, std=fan(v.width, 1.3)), v.weights
            if v.arch == "qwen2":
                yield p + name + ".bias", normal(rows, std=0.3), F32
        yield p + "attn_output.weight", normal(v.width, q, std=fan(q, 1.5)), v.weights
        yield p + "ffn_norm.weight", 1 + normal(v.width, std=0.1), F32
        yield p + "ffn_gate.weight", normal(v.ff, v.width, std=fan(v.width, 1.5)), v.weights
        yield p + "ffn_up.weight", normal(v.ff, v.width, std=fan(v.width, 1.5)), v.weights
        yield p + "ffn_down.weight", normal(v.width, v.ff, std=fan(v.ff, 1.5)), v.weights
    yield "output_norm.weight", 1 + normal(v.width, std=0.1), F32
    if not v.tied:
        yield "output.weight", normal(vocab, v.width, std=2.5 / np.sqrt(v.width)), v.embedding


def write_model(path, v, seed):
    w = gguf.GGUFWriter(str(path), v.arch)
    w.add_name(v.name)
    w.add_block_count(len(v.layer_heads()))
    w.add_context_length(CONTEXT)
    w.add_embedding_length(v.width)
    w.add_feed_forward_length(v.ff)
    w.add_head_count(v.heads)
    w.add_head_count_kv(v.kv_heads)
    if v.head_dim * v.layer_heads()[0][0] != v.width:
        w.add_key_length(v.head_dim)
        w.add_value_length(v.head_dim)
    w.add_layer_norm_rms_eps(EPS)
    w.add_rope_dimension_count(v.rope_dims)
    w.add_rope_freq_base(v.rope_base)
    vocab = write_vocabulary(w)
    w.add_vocab_size(vocab)
    for name, data, dtype in tensors_of(v, vocab, np.random.Generator(np.random.PCG64(seed))):
        if dtype in (F32, F16):
            w.add_tensor(name, data.astype(np.float16 if dtype == F16 else np.float32))
        else:
            w.add_tensor(name, gguf.quants.quantize(data, dtype), raw_dtype=dtype)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_vocab_only(path):
    w = gguf.GGUFWriter(str(path), "llama")
    w.add_name("vocab_only")
    write_vocabulary(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def describe_greedy(model, tokens, steps=48):
    out = list(tokens[:8])
    for _ in range(steps):
        out.append(int(model.forward(out)[-1].argmax()))
    return len(set(out[8:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).parent / "tiny")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    write_vocab_only(args.out / "vocab_only.gguf")
    for i, v in enumerate(VARIANTS):
        path = args.out / f"{v.name}.gguf"
        write_model(path, v, seed=1000 + i)
        model = reference.Model(path)
        tokens = np.random.Generator(np.random.PCG64(2000 + i)).integers(0, model.vocab, N_TOKENS)
        logits = model.forward(tokens)
        reference.write_golden(path.with_suffix(".golden"), tokens, ROWS, logits[ROWS])
        if v.weights in (Q8_0, Q4_1):
            reference.write_golden(path.with_suffix(".golden8"), tokens, ROWS, model.forward(tokens, act_q8=True)[ROWS])
        line = f"{v.name:16} {path.stat().st_size:7} bytes, vocabulary {model.vocab}, logits std {logits.std():.2f}"
        if args.check:
            line += f", {describe_greedy(model, tokens)} distinct of 48 greedy tokens"
        print(line)


if __name__ == "__main__":
    main()
