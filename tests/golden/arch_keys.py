"""Keys of GGUF that a transformers config asks for: the rotation and latent attention's."""
import math

import gguf
import numpy as np


def write_rope(w, cfg):
    if not hasattr(cfg, "rope_parameters") or cfg.model_type == "gemma4_text":
        return
    rope = cfg.rope_parameters.get("full_attention", cfg.rope_parameters)
    dims = int(getattr(cfg, "qk_rope_head_dim", None) or head_dim(cfg) * rope.get("partial_rotary_factor", 1.0))
    w.add_rope_dimension_count(dims)
    w.add_rope_freq_base(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "mscale_all_dim" in rope:
            w.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"] * (1.0 if cfg.model_type == "ministral3" else 0.1))
        if cfg.model_type == "ministral3":
            w.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(rope, dims))
    if kind == "longrope":
        original = rope["original_max_position_embeddings"]
        assert original == cfg.original_max_position_embeddings  # transformers fills in one from the other
        scale = cfg.max_position_embeddings / original
        w.add_rope_scaling_orig_ctx_len(original)
        w.add_rope_scaling_attn_factors(1.0 if scale <= 1 else math.sqrt(1 + math.log(scale) / math.log(original)))
        w.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
        w.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))


def write_latent(w, cfg):
    if cfg.q_lora_rank:
        w.add_q_lora_rank(cfg.q_lora_rank)
    w.add_kv_lora_rank(cfg.kv_lora_rank)
    w.add_key_length(cfg.kv_lora_rank + cfg.qk_rope_head_dim)
    w.add_value_length(cfg.kv_lora_rank)
    w.add_key_length_mla(cfg.qk_nope_head_dim + cfg.qk_rope_head_dim)
    w.add_value_length_mla(cfg.v_head_dim)
    write_routing(w, cfg, sigmoid=cfg.model_type == "deepseek_v3")


def write_routing(w, cfg, sigmoid):
    w.add_leading_dense_block_count(cfg.first_k_dense_replace)
    w.add_expert_shared_count(getattr(cfg, "n_shared_experts", None) or cfg.num_shared_experts)
    w.add_expert_weights_scale(cfg.routed_scaling_factor)
    w.add_expert_weights_norm(cfg.norm_topk_prob)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    w.add_expert_group_count(cfg.n_group)
    w.add_expert_group_used_count(cfg.topk_group)


def head_dim(cfg):
    return getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads


def llama3_factors(rope, dims):
    factors = []
    for i in range(dims // 2):
        turns = rope["original_max_position_embeddings"] * rope["rope_theta"] ** (-2 * i / dims) / (2 * math.pi)
        keep = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        keep = min(max(keep, 0.0), 1.0)
        factors.append(1 / (keep + (1 - keep) / rope["factor"]))
    return np.array(factors, np.float32)
