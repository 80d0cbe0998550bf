"""The rows of make_arch.py that add to what older ones with experts have: their configs, and what GGUF wants of their weights and keys."""
import gguf
import numpy as np
import transformers as hf

import arch_keys

ROUTED = ("glm4moe", "dots1", "exaone-moe", "bailingmoe2")  # their keys are DeepSeek's
ARCHS = (*ROUTED, "minimax-m2", "ernie4_5-moe", "olmoe", "qwen2moe", "granitemoe", "hunyuan-moe")


def cases(config, rope):
    """Yields (architecture, name, config) as arch_rows.cases."""
    half = dict(rope, partial_rotary_factor=0.5)
    glm = dict(rope_parameters=half, attention_bias=True, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
               first_k_dense_replace=1, norm_topk_prob=True)
    yield "glm4moe", "row_glm4moe", config(
        hf.Glm4MoeConfig, **glm, n_shared_experts=1, routed_scaling_factor=2.5, use_qk_norm=True, gguf_draft_blocks=1)
    yield "glm4moe", "row_glm4moe_air", config(
        hf.Glm4MoeConfig, **glm, n_shared_experts=2, routed_scaling_factor=1.0, use_qk_norm=False, gguf_draft_blocks=0)
    yield "minimax-m2", "row_minimax_m2", config(
        hf.MiniMaxM2Config, rope_parameters=half, num_local_experts=8, num_experts_per_tok=3, intermediate_size=24)
    yield "ernie4_5-moe", "row_ernie4_5_moe", config(
        hf.Ernie4_5_MoeConfig, rope_parameters=rope, moe_num_experts=8, moe_k=3, moe_intermediate_size=24, moe_num_shared_experts=2,
        moe_layer_start_index=1, tie_word_embeddings=True)
    yield "olmoe", "row_olmoe", config(
        hf.OlmoeConfig, kv_heads=4, head_dim=8, rope_parameters=rope, num_experts=8, num_experts_per_tok=3, intermediate_size=24, norm_topk_prob=False)
    yield "qwen2moe", "row_qwen2moe", config(
        hf.Qwen2MoeConfig, head_dim=8, rope_parameters=rope, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24,
        shared_expert_intermediate_size=40, norm_topk_prob=False)
    yield "dots1", "row_dots1", config(
        hf.Dots1Config, kv_heads=4, head_dim=8, rope_parameters=rope, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24,
        first_k_dense_replace=1, n_shared_experts=2, norm_topk_prob=True, routed_scaling_factor=2.5)
    yield "granitemoe", "row_granitemoe", config(
        hf.GraniteMoeSharedConfig, head_dim=8, rope_parameters=rope, embedding_multiplier=12.0, residual_multiplier=0.6,
        attention_multiplier=0.25, logits_scaling=6.0, num_local_experts=6, num_experts_per_tok=3, intermediate_size=24,
        shared_intermediate_size=40)
    yield "hunyuan-moe", "row_hunyuan_moe", config(
        hf.HunYuanMoEV1Config, head_dim=8, rope_parameters=rope, num_experts=8, moe_topk=3, intermediate_size=24, tie_word_embeddings=True)
    yield "exaone-moe", "row_exaone_moe", config(
        hf.ExaoneMoeConfig, layers=3, head_dim=8, rope_parameters=rope, sliding_window=16,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=24, num_shared_experts=1, routed_scaling_factor=2.5)
    # Ling 2 is not in transformers: a GLM without biases that has its matrices of Q, K and V in one.
    yield "bailingmoe2", "row_bailingmoe2", config(
        hf.Glm4MoeConfig, **dict(glm, attention_bias=False), head_dim=8, n_shared_experts=1, routed_scaling_factor=2.5, use_qk_norm=True,
        n_group=4, topk_group=2)


def tensors(arch, name, weights):
    """The (GGUF name, array) of a parameter; None: as in other models."""
    block, w = f"blk.{name.split('.')[2]}." if ".layers." in name else "", weights[name]
    if arch == "bailingmoe2" and name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        parts = [weights[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
        return [(block + "attn_qkv.weight", np.concatenate(parts))] if "q_proj" in name else []
    if name.endswith("moe_statics.e_score_correction_bias"):
        return [(block + "exp_probs_b.bias", w[0])]
    if name.endswith("shared_mlp.input_linear.weight"):
        half = len(w) // 2
        return [(block + "ffn_gate_shexp.weight", w[:half]), (block + "ffn_up_shexp.weight", w[half:])]
    names = {"block_sparse_moe.router.weight": "ffn_gate_inp", "shared_mlp.output_linear.weight": "ffn_down_shexp",
             "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp", "mlp.gate.wg.weight": "ffn_gate_inp"}
    if (part := ".".join(name.split(".")[3:])) not in names:
        return None
    return [(f"{block}{names[part]}.weight", w[0] if part == "mlp.shared_expert_gate.weight" else w)]


def draft_blocks(cfg, found):
    """The blocks behind the layers that guess tokens ahead: what the last layer has, and theirs."""
    last, width = f"blk.{cfg.num_hidden_layers - 1}.", cfg.hidden_size
    for i in range(getattr(cfg, "gguf_draft_blocks", 0)):
        block = f"blk.{cfg.num_hidden_layers + i}."
        yield from [(block + name.removeprefix(last), w) for name, w in found if name.startswith(last)]
        yield block + "nextn.eh_proj.weight", np.zeros((width, 2 * width), np.float32)
        yield from ((f"{block}nextn.{norm}.weight", np.ones(width, np.float32)) for norm in ("enorm", "hnorm", "shared_head_norm"))


def write_keys(w, arch, cfg):
    if arch in ROUTED:
        arch_keys.write_routing(w, cfg, sigmoid=True)
    if getattr(cfg, "gguf_draft_blocks", 0):
        w.add_nextn_predict_layers(cfg.gguf_draft_blocks)
    if arch == "minimax-m2":
        w.add_expert_feed_forward_length(cfg.intermediate_size)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "ernie4_5-moe":
        w.add_interleave_moe_layer_step(1)
        w.add_leading_dense_block_count(cfg.moe_layer_start_index)
        w.add_expert_shared_count(cfg.moe_num_shared_experts)
        w.add_expert_shared_feed_forward_length(cfg.moe_num_shared_experts * cfg.moe_intermediate_size)
    if arch == "qwen2moe":
        w.add_expert_shared_feed_forward_length(cfg.shared_expert_intermediate_size)
    if arch == "granitemoe":
        w.add_expert_shared_feed_forward_length(cfg.shared_intermediate_size)
    if arch == "hunyuan-moe":
        w.add_expert_shared_feed_forward_length(cfg.intermediate_size)
        w.add_expert_feed_forward_length(cfg.intermediate_size)
        w.add_expert_shared_count(1)
