#!/usr/bin/env python3
"""Writes one tiny random model per architecture row, tiny/row_*.gguf, and its logits from transformers in f32 on the CPU.

  make_arch.py [--only NAME] [OUT_DIR]     needs torch and transformers, which the tests do not; README.md says which versions

The weights are drawn here, put into the transformers model and written to GGUF under the names that gguf's own map gives them, changed
as the format wants it (Gemma's norms have 1 added, Llama's Q and K have the pairs of a rotation side by side, experts are stacked).
*.golden: K (after RoPE) and V rounded to f16 on their way into the cache, as the runtime stores them. *.golden32: nothing rounded.
*.golden8, in *.golden32's place where experts are quantized: their inputs are rounded to 8 bits, too.
*.greedy: the tokens that follow a prompt, each the most likely one, with nothing rounded but what *.golden8 rounds of experts' inputs.
"""
import argparse
import math
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers as hf

import arch_keys
import arch_rows
import expert_rows
import gemma4_rows
import make_tiny
import recurrent_rows
import reference
from arch_rows import LAYER_EPS, VOCAB, WIDTH

N_TOKENS = 100
ROWS = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 98, 99]  # both sides of a window of 16 and of block edges
# Above phi3's original context: transformers takes the other factors below it, kvrt those of the model's context alone.
N_PROMPT, N_GREEDY = 80, 200
MXFP4 = gguf.GGMLQuantizationType.MXFP4
GRANITES = ("granite", "minicpm", "granitehybrid", "granitemoe")


def draw(name, shape, arch, rng):
    """The scales make layers outweigh the embedding, so that logits depend on the context."""
    x = rng.standard_normal(shape, dtype=np.float32)
    if arch in recurrent_rows.ARCHS and (drawn := recurrent_rows.draw(arch, name, x)) is not None:
        return drawn
    if arch == "gemma4" and (drawn := gemma4_rows.draw(name, x)) is not None:
        return drawn
    if name.endswith("bias"):
        return np.float32(0.3) * x
    if "norm" in name or ".ln_" in name:
        return np.float32(0.1) * x + np.float32(0 if arch.startswith("gemma") else 1)
    if name.endswith("sinks"):
        return x
    if any(part in name for part in ("embed", "lm_head", "wte", "wpe")):
        scale = 2.5 / math.sqrt(WIDTH)
        if arch.startswith("gemma"):
            scale = 1.0 / math.sqrt(WIDTH)  # it is multiplied by sqrt(WIDTH)
        if arch in GRANITES and "embed" in name:
            scale /= 12.0  # and this by embedding_multiplier
        return x * np.float32(scale)
    gain = 1.3 if any(part in name for part in ("q_proj", "k_proj", "v_proj", "qkv_proj", "c_attn")) else 1.5
    if arch == "gpt-oss" and ".experts." in name:  # many a gate and up is beyond the limit of 7
        gain = 6.0 if "gate_up" in name else 0.3
    return x * np.float32(gain / math.sqrt(shape[-2 if transposed(name, arch) else -1]))


def transposed(name, arch):
    """[inputs, outputs], where GGUF has [outputs, inputs]."""
    return (arch == "gpt2" and ".c_" in name or arch == "gpt-oss" and ".experts." in name) and not name.endswith("bias")


def pairs_together(w, heads):
    """From halves to interleaved pairs, within each head."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def gguf_tensors(arch, cfg, weights):
    """Yields (GGUF name, array) for the transformers parameters."""
    enum = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(enum, cfg.num_hidden_layers)
    for name, w in weights.items():
        if name == "lm_head.weight" and cfg.tie_word_embeddings:
            continue
        if arch in ("gemma2", "gemma3") and "norm" in name:
            w = w + np.float32(1)
        if arch == "gemma4" and (found := gemma4_rows.tensors(name, w)) is not None:
            yield from found
            continue
        if arch in ("llama", "smollm3", "mistral3", "arcee", *GRANITES) and ("q_proj" in name or "k_proj" in name):
            w = pairs_together(w, cfg.num_attention_heads if "q_proj" in name else cfg.num_key_value_heads)
        if arch in recurrent_rows.ARCHS and (found := recurrent_rows.tensors(arch, cfg, name, w)) is not None:
            yield from found
            continue
        if arch in expert_rows.ARCHS and (found := expert_rows.tensors(arch, name, weights)) is not None:
            yield from found
            continue
        if name.endswith("kv_b_proj.weight"):
            block, w = f"blk.{name.split('.')[2]}.", w.reshape(cfg.num_attention_heads, -1, cfg.kv_lora_rank)
            yield block + "attn_k_b.weight", w[:, :cfg.qk_nope_head_dim].swapaxes(1, 2)
            yield block + "attn_v_b.weight", w[:, cfg.qk_nope_head_dim:]
            continue
        if name.endswith("e_score_correction_bias"):
            yield f"blk.{name.split('.')[2]}.exp_probs_b.bias", w
            continue
        if transposed(name, arch):
            w = w.swapaxes(-1, -2)
        if ".experts." in name:
            block = f"blk.{name.split('.')[2]}."
            if arch == "gpt-oss":  # gate's rows and up's take turns
                kind = "bias" if name.endswith("bias") else "weight"
                parts = {"gate": w[:, ::2], "up": w[:, 1::2]} if "gate_up" in name else {"down": w}
                yield from ((f"{block}ffn_{part}_exps.{kind}", x) for part, x in parts.items())
                continue
            if name.endswith("gate_up_proj") and arch == "mistral4":
                yield block + "ffn_gate_up_exps.weight", w
            elif name.endswith("gate_up_proj"):
                half = w.shape[1] // 2
                yield block + "ffn_gate_exps.weight", w[:, :half]
                yield block + "ffn_up_exps.weight", w[:, half:]
            else:
                yield block + "ffn_down_exps.weight", w
            continue
        if name.endswith("sinks"):
            name += ".weight"
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found, f"{arch}: gguf has no name for {name}"
        yield found, w


def write_model(path, arch, cfg, weights):
    w = gguf.GGUFWriter(str(path), arch)
    w.add_name(path.stem)
    w.add_block_count(cfg.num_hidden_layers + getattr(cfg, "gguf_draft_blocks", 0))
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    if arch not in ("qwen35moe", "gemma4", *recurrent_rows.NEMOTRONS):
        w.add_feed_forward_length(cfg.n_inner if arch == "gpt2" else cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    latent = hasattr(cfg, "kv_lora_rank")
    if arch in recurrent_rows.ARCHS:
        recurrent_rows.write_keys(w, arch, cfg)
    elif arch not in ("gpt2", "gemma4"):
        w.add_head_count_kv(1 if latent else cfg.num_key_value_heads)
    if arch in ("cohere2", "command-r", "starcoder2", "gpt2", "stablelm"):
        w.add_layer_norm_eps(LAYER_EPS)
    else:
        w.add_layer_norm_rms_eps(recurrent_rows.norm_eps(cfg))
    if latent:
        arch_keys.write_latent(w, cfg)
    elif arch == "gemma4":
        gemma4_rows.write_keys(w, cfg)
    elif arch_keys.head_dim(cfg) * cfg.num_attention_heads != cfg.hidden_size or arch.startswith("gemma"):
        w.add_key_length(cfg.head_dim)
        w.add_value_length(cfg.head_dim)
    if getattr(cfg, "sliding_window", None):
        w.add_sliding_window(cfg.sliding_window)
        if arch in ("exaone4", "exaone-moe"):
            w.add_sliding_window_pattern([kind == "sliding_attention" for kind in cfg.layer_types])
    if getattr(cfg, "attn_logit_softcapping", None):
        w.add_attn_logit_softcapping(cfg.attn_logit_softcapping)
        w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    if arch in GRANITES:
        w.add_embedding_scale(cfg.embedding_multiplier)
        w.add_residual_scale(cfg.residual_multiplier)
        if arch != "minicpm":
            w.add_attention_scale(cfg.attention_multiplier)
        w.add_logit_scale(cfg.logits_scaling)
    if arch in ("cohere2", "command-r"):
        w.add_logit_scale(cfg.logit_scale)
    experts = getattr(cfg, "num_local_experts", None) or getattr(cfg, "num_experts", None)
    if experts and arch != "nemotron_h":
        w.add_expert_count(experts)
        w.add_expert_used_count(getattr(cfg, {"hunyuan-moe": "moe_topk", "gemma4": "top_k_experts"}.get(arch, "num_experts_per_tok")))
        if hasattr(cfg, "moe_intermediate_size"):
            w.add_expert_feed_forward_length(cfg.moe_intermediate_size)
        if arch == "gpt-oss":
            w.add_expert_feed_forward_length(cfg.intermediate_size)
    if arch in expert_rows.ARCHS:
        expert_rows.write_keys(w, arch, cfg)
    vocab = make_tiny.write_vocabulary(w)
    assert vocab == VOCAB
    w.add_vocab_size(vocab)
    arch_keys.write_rope(w, cfg)
    tensors = list(gguf_tensors(arch, cfg, weights))
    for name, data in [*tensors, *expert_rows.draft_blocks(cfg, tensors)]:
        if path.stem.endswith("mxfp4") and name.endswith("exps.weight"):
            w.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(data), MXFP4), raw_dtype=MXFP4)
        else:
            w.add_tensor(name, np.ascontiguousarray(data))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class RoundedCache(hf.DynamicCache):
    """Attention reads K and V back as f16 keeps them."""

    def update(self, key, value, *args, **kwargs):
        return super().update(key.half().float(), value.half().float(), *args, **kwargs)


def logits(model, tokens, cache):
    with torch.no_grad():
        kept = {"cache" if model.config.model_type == "gemma4_text" else "past_key_values": cache}
        return model(torch.tensor(tokens)[None], use_cache=cache is not None, **kept).logits[0].double().numpy()


def write_greedy(path, model, seed):
    """Nothing ends the text. Beside each token its lead over the second, as a share of the largest logit."""
    tokens, leads = np.random.Generator(np.random.PCG64(seed)).integers(0, VOCAB, N_PROMPT).tolist(), []
    for _ in range(N_GREEDY):
        last = logits(model, tokens, None)[-1]
        second, first = np.sort(last)[-2:]
        tokens.append(int(last.argmax()))
        leads.append((first - second) / np.abs(last).max())
    path.write_bytes(struct.pack("<4sIII", b"KVGR", 1, N_PROMPT, N_GREEDY) + np.array(tokens, "<i4").tobytes() +
                     np.array(leads, "<f4").tobytes())
    return f"{len(set(tokens[N_PROMPT:]))} different tokens of {N_GREEDY}, least lead {min(leads):.1e}"


def round_latents(model, cfg):
    """Attention reads latents as f16 keeps them. transformers' cache has the K and V that are made of them."""
    module = sys.modules[type(model).__module__]
    half = lambda x: x.half().float()
    for layer in model.model.layers:
        layer.self_attn.kv_a_layernorm.register_forward_hook(lambda m, i, out: half(out))
    name = "apply_rotary_emb" if cfg.model_type == "deepseek_v2" else "apply_rotary_pos_emb_interleave"
    rotate = getattr(module, name)
    setattr(module, name, lambda q, k, *args: (lambda q, k: (q, half(k)))(*rotate(q, k, *args)))


def quantize_experts(model, weights):
    """The experts' weights become what MXFP4 keeps of them."""
    for name, parameter in model.named_parameters():
        if ".experts." in name and not name.endswith("bias"):
            kept = gguf.quants.quantize(np.ascontiguousarray(weights[name].swapaxes(-1, -2)), MXFP4)
            parameter.data.copy_(torch.from_numpy(gguf.quants.dequantize(kept, MXFP4).swapaxes(-1, -2).copy()))


def round_experts_inputs(model):
    """To 8 bits, as the runtime multiplies quantized weights."""
    q8 = lambda x: torch.from_numpy(reference.round_to_q8(x.detach().numpy()))
    for layer in model.model.layers:
        experts = layer.mlp.experts
        experts.register_forward_pre_hook(lambda _, args: (q8(args[0]), *args[1:]))
        experts._apply_gate = lambda gate_up, inner=experts._apply_gate: q8(inner(gate_up))


def make(path, arch, cfg, seed):
    cfg._attn_implementation = "eager"
    build = hf.Mistral4ForCausalLM if arch == "mistral4" else hf.AutoModelForCausalLM.from_config  # which does not know it
    model = build(cfg).float().eval()
    rng = np.random.Generator(np.random.PCG64(seed))
    weights = {}
    buffers = [(name, b) for name, b in model.named_buffers() if name.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar"))]
    for name, parameter in [*model.named_parameters(), *buffers]:
        weights[name] = draw(name, tuple(parameter.shape), arch, rng)
        parameter.data.copy_(torch.from_numpy(weights[name]))
    write_model(path, arch, cfg, weights)
    if path.stem.endswith("mxfp4"):
        quantize_experts(model, weights)
    tokens = np.random.Generator(np.random.PCG64(seed + 500)).integers(0, VOCAB, N_TOKENS)
    exact = logits(model, tokens, None)
    if not path.stem.endswith("mxfp4"):
        chosen = write_greedy(path.with_suffix(".greedy"), model, seed + 1000)
    if hasattr(cfg, "kv_lora_rank"):
        round_latents(model, cfg)
        rounded = logits(model, tokens, None)
    else:
        rounded = logits(model, tokens, RoundedCache(config=cfg) if arch in recurrent_rows.ARCHS else RoundedCache())
    reference.write_golden(path.with_suffix(".golden"), tokens, ROWS, rounded[ROWS])
    if path.stem.endswith("mxfp4"):
        round_experts_inputs(model)
        reference.write_golden(path.with_suffix(".golden8"), tokens, ROWS, logits(model, tokens, RoundedCache())[ROWS])
        chosen = write_greedy(path.with_suffix(".greedy"), model, seed + 1000)
    else:
        reference.write_golden(path.with_suffix(".golden32"), tokens, ROWS, exact[ROWS])
    far = np.abs(rounded - exact).max(axis=1) / np.abs(exact).max(axis=1)
    print(f"{path.stem:16} {path.stat().st_size:7} bytes, logits std {exact.std():.2f}, f16 K and V move a row's logits by up to "
          f"{far.max():.1e} of the largest; {chosen}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, default=Path(__file__).parent / "tiny")
    parser.add_argument("--only")
    args = parser.parse_args()
    print(f"transformers {hf.__version__}, torch {torch.__version__}, gguf {gguf.__file__}")
    for i, (arch, name, cfg) in enumerate(arch_rows.cases()):
        if args.only in (None, name):
            make(args.out / f"{name}.gguf", arch, cfg, seed=3000 + i)


if __name__ == "__main__":
    main()
