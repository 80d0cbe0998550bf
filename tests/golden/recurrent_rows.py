"""The rows of make_arch.py whose models have recurrent layers: their configs, and what GGUF wants of their weights and keys."""
import gguf
import numpy as np
import transformers as hf

QWENS = ("qwen3next", "qwen35", "qwen35moe")
NEMOTRONS = ("nemotron_h", "nemotron_h_moe")
ARCHS = ("lfm2", "granitehybrid", "lfm2moe", *QWENS, *NEMOTRONS)


def cases(config, rope):
    """Yields (architecture, name, config) as arch_rows.cases."""
    yield "lfm2", "row_lfm2", config(
        hf.Lfm2Config, layers=4, head_dim=8, rope_parameters=rope, norm_eps=1e-6, conv_L_cache=3, block_auto_adjust_ff_dim=False,
        layer_types=["conv", "full_attention", "conv", "conv"], tie_word_embeddings=True)
    granite = dict(layers=3, head_dim=8, embedding_multiplier=12.0, residual_multiplier=0.6, attention_multiplier=0.25, logits_scaling=6.0,
                   mamba_n_heads=4, mamba_d_state=24)
    yield "granitehybrid", "row_granitehybrid", config(
        hf.GraniteMoeHybridConfig, **granite, layer_types=["linear_attention", "linear_attention", "attention"], mamba_n_groups=2,
        num_local_experts=0, shared_intermediate_size=64)
    yield "granitehybrid", "row_granitehybrid_moe", config(
        hf.GraniteMoeHybridConfig, **granite, layer_types=["linear_attention", "attention", "linear_attention"], mamba_n_groups=1,
        num_local_experts=6, num_experts_per_tok=3, intermediate_size=24, shared_intermediate_size=40)
    qwen = dict(rope_parameters=dict(rope, partial_rotary_factor=0.5), linear_num_key_heads=2, linear_num_value_heads=6,
                linear_key_head_dim=16, linear_value_head_dim=16, num_experts_per_tok=3, moe_intermediate_size=24,
                shared_expert_intermediate_size=40)
    yield "qwen3next", "row_qwen3next", config(
        hf.Qwen3NextConfig, layers=4, **qwen, num_experts=8, layer_types=["linear_attention", "full_attention"] * 2, gguf_ssm_in=False)
    yield "qwen3next", "row_qwen3next_old", config(
        hf.Qwen3NextConfig, **qwen, num_experts=4, layer_types=["full_attention", "linear_attention"], gguf_ssm_in=True)
    yield "lfm2moe", "row_lfm2moe", config(
        hf.Lfm2MoeConfig, layers=3, head_dim=8, rope_parameters=rope, norm_eps=1e-6, conv_L_cache=4, num_dense_layers=1, num_experts=8,
        num_experts_per_tok=3, moe_intermediate_size=24, layer_types=["conv", "conv", "full_attention"], tie_word_embeddings=True)
    yield "qwen35", "row_qwen35", config(
        hf.Qwen3_5TextConfig, layers=3, **qwen, layer_types=["linear_attention", "full_attention", "linear_attention"],
        tie_word_embeddings=True)
    yield "qwen35moe", "row_qwen35moe", config(
        hf.Qwen3_5MoeTextConfig, **qwen, num_experts=8, layer_types=["linear_attention", "full_attention"])
    nemotron = dict(num_hidden_layers=None, ssm_state_size=16, mamba_num_heads=6, mamba_head_dim=16, layer_norm_epsilon=1e-6)
    yield "nemotron_h", "row_nemotron_h", config(
        hf.NemotronHConfig, **nemotron, n_groups=3,
        layers_block_type=["linear_attention", "mlp", "linear_attention", "full_attention", "mlp", "linear_attention"])
    yield "nemotron_h_moe", "row_nemotron_h_moe", config(
        hf.NemotronHConfig, **nemotron, n_groups=2, layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40,
        routed_scaling_factor=2.5)


def recurrent_layers(cfg):
    return [kind not in ("full_attention", "attention") for kind in cfg.layer_types]  # MLPs of their own, too


def draw(arch, name, x):
    """The weights that are no matrix; None: as in other models."""
    if name.endswith(("conv.weight", "conv1d.weight")):
        return np.float32(0.8) * x
    if name.endswith("A_log"):  # some heads forget within a token, others within tens
        return np.float32(1.5) * x - np.float32(1)
    if arch in QWENS and name.endswith("norm.weight") and ".linear_attn." not in name:
        return np.float32(0.1) * x  # 1 is added to it
    return x if name.endswith(".D") else None


def halves(w):
    return w[:len(w) // 2], w[len(w) // 2:]


def tensors(arch, cfg, name, w):
    """The (GGUF name, array) of a parameter; None: as in other models."""
    block = f"blk.{name.split('.')[2]}." if ".layers." in name else ""
    if name.endswith("conv.conv.weight"):
        return [(block + "shortconv.conv.weight", w[:, 0])]
    if arch == "granitehybrid":
        return granite_tensors(cfg, name, block, w)
    if name.endswith("expert_bias"):
        return [(block + "exp_probs_b.bias", w)]
    if name.endswith("e_score_correction_bias"):
        return [(block + "exp_probs_b.bias", w)]
    if arch in NEMOTRONS:
        return nemotron_tensors(cfg, name, block, w)
    return qwen_tensors(cfg, name, block, w) if arch in QWENS else None


def nemotron_tensors(cfg, name, block, w):
    outside = {"model.embeddings.weight": "token_embd.weight", "model.norm_f.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in outside:
        return [(outside[name], w)]
    kind = name.split(".", 3)[3].removeprefix("mixer.")
    if ".mixer." not in name:
        return [(block + "attn_norm.weight", w)]
    if kind in ("q_proj.weight", "k_proj.weight", "v_proj.weight"):
        return [(f"{block}attn_{kind[0]}.weight", w)]
    names = {"o_proj.weight": "attn_output", "up_proj.weight": "ffn_up", "down_proj.weight": "ffn_down", "gate.weight": "ffn_gate_inp",
             "experts.up_proj": "ffn_up_exps", "experts.down_proj": "ffn_down_exps", "shared_experts.up_proj.weight": "ffn_up_shexp",
             "shared_experts.down_proj.weight": "ffn_down_shexp"}
    if kind in names:
        return [(f"{block}{names[kind]}.weight", w)]
    return mamba_tensors(cfg.n_groups, kind, block, w)


def granite_tensors(cfg, name, block, w):
    if name.endswith("shared_mlp.input_linear.weight"):
        suffix = "_shexp.weight" if cfg.num_local_experts else ".weight"
        return [(block + "ffn_" + part + suffix, half) for part, half in zip(("gate", "up"), halves(w))]
    if name.endswith("shared_mlp.output_linear.weight"):
        return [(block + ("ffn_down_shexp.weight" if cfg.num_local_experts else "ffn_down.weight"), w)]
    if name.endswith("router.weight"):
        return [(block + "ffn_gate_inp.weight", w)]
    return mamba_tensors(cfg.mamba_n_groups, name.split("mamba.")[-1], block, w)


def mamba_tensors(groups, kind, block, w):
    if kind == "conv1d.weight":
        return [(block + "ssm_conv1d.weight", w[:, 0])]
    if kind == "norm.weight":
        return [(block + "ssm_norm.weight", w.reshape(groups, -1))]
    if kind in ("A_log", "D"):
        return [(block + "ssm_a", -np.exp(w)[..., None]) if kind == "A_log" else (block + "ssm_d", w[..., None])]
    names = {"dt_bias": "ssm_dt.bias", "conv1d.bias": "ssm_conv1d.bias", "in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight"}
    return [(block + names[kind], w)] if kind in names else None


def qwen_tensors(cfg, name, block, w):
    if ".linear_attn." not in name:
        return [(norm_name(name, block), w + np.float32(1))] if name.endswith("norm.weight") else None
    kind = name.split("linear_attn.")[-1]
    if "qwen3_5" in cfg.model_type:  # heads with the same key are not beside each other
        w = tiled(cfg, kind, w)
    if kind == "in_proj_qkvz.weight" and cfg.gguf_ssm_in:
        return [(block + "ssm_in.weight", w)]
    if kind == "in_proj_qkvz.weight":  # each head of Q with its K, V and gates
        values = cfg.linear_num_value_heads // cfg.linear_num_key_heads * cfg.linear_value_head_dim
        dims = np.cumsum([cfg.linear_key_head_dim, cfg.linear_key_head_dim, values])
        by_head = w.reshape(cfg.linear_num_key_heads, -1, w.shape[1])
        q, k, v, z = (part.reshape(-1, w.shape[1]) for part in np.split(by_head, dims, axis=1))
        return [(block + "attn_qkv.weight", np.concatenate([q, k, v])), (block + "attn_gate.weight", z)]
    delta = {"in_proj_ba.weight": ("ssm_ba.weight", w), "in_proj_qkv.weight": ("attn_qkv.weight", w),
             "in_proj_z.weight": ("attn_gate.weight", w), "in_proj_b.weight": ("ssm_beta.weight", w),
             "in_proj_a.weight": ("ssm_alpha.weight", w), "norm.weight": ("ssm_norm.weight", w), "out_proj.weight": ("ssm_out.weight", w),
             "dt_bias": ("ssm_dt.bias", w), "A_log": ("ssm_a", -np.exp(w)),
             "conv1d.weight": ("ssm_conv1d.weight", w[:, 0] if w.ndim == 3 else w)}
    return [(block + delta[kind][0], delta[kind][1])]


def tiled(cfg, kind, w):
    """The first head of every key, then the second one of every key ..; in Q, K and V V's rows alone."""
    keys, dim = cfg.linear_num_key_heads, cfg.linear_value_head_dim
    deal = lambda x, dim: x.reshape(keys, -1, dim, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    if kind == "norm.weight":
        return w
    if kind == "out_proj.weight":
        return deal(w.T, dim).T
    if kind in ("in_proj_qkv.weight", "conv1d.weight"):
        qk = 2 * keys * cfg.linear_key_head_dim
        return np.concatenate([w[:qk], deal(w[qk:], dim)])
    return deal(w, dim if kind == "in_proj_z.weight" else 1)


def norm_name(name, block):
    if not block:
        return "output_norm.weight"
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm", "q_norm": "attn_q_norm", "k_norm": "attn_k_norm"}
    return f"{block}{names[name.split('.')[-2]]}.weight"


def write_keys(w, arch, cfg):
    if arch in ("lfm2", "lfm2moe", "granitehybrid", *NEMOTRONS):
        w.add_head_count_kv([0 if recurrent else cfg.num_key_value_heads for recurrent in recurrent_layers(cfg)])
    if arch in ("lfm2", "lfm2moe"):
        w.add_shortconv_l_cache(cfg.conv_L_cache)
    if arch == "lfm2moe":
        w.add_leading_dense_block_count(cfg.num_dense_layers)
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "granitehybrid":
        w.add_ssm_conv_kernel(cfg.mamba_d_conv)
        w.add_ssm_state_size(cfg.mamba_d_state)
        w.add_ssm_group_count(cfg.mamba_n_groups)
        w.add_ssm_inner_size(cfg.mamba_expand * cfg.hidden_size)
        w.add_ssm_time_step_rank(cfg.mamba_n_heads)
        w.add_rope_scaling_finetuned(False)
        w.add_expert_shared_feed_forward_length(cfg.shared_intermediate_size)
    if arch in QWENS:
        w.add_head_count_kv(cfg.num_key_value_heads)
        w.add_ssm_conv_kernel(cfg.linear_conv_kernel_dim)
        w.add_ssm_state_size(cfg.linear_key_head_dim)
        w.add_ssm_group_count(cfg.linear_num_key_heads)
        w.add_ssm_inner_size(cfg.linear_value_head_dim * cfg.linear_num_value_heads)
        w.add_ssm_time_step_rank(cfg.linear_num_value_heads)
        if getattr(cfg, "gguf_ssm_in", False):
            w.add_array(f"{arch}.attention.recurrent_layers", recurrent_layers(cfg))
        else:
            w.add_full_attention_interval(2)
        if arch != "qwen35":
            w.add_expert_shared_feed_forward_length(cfg.shared_expert_intermediate_size)
        if arch != "qwen3next":
            w.add_rope_dimension_sections([2, 1, 1, 0])
    if arch in NEMOTRONS:
        w.add_layer_norm_eps(cfg.layer_norm_epsilon)
        w.add_ssm_conv_kernel(cfg.conv_kernel)
        w.add_ssm_state_size(cfg.ssm_state_size)
        w.add_ssm_group_count(cfg.n_groups)
        w.add_ssm_inner_size(cfg.mamba_num_heads * cfg.mamba_head_dim)
        w.add_ssm_time_step_rank(cfg.mamba_num_heads)
        w.add_rope_scaling_finetuned(False)
        ff = cfg.moe_intermediate_size if arch == "nemotron_h_moe" else cfg.intermediate_size
        w.add_feed_forward_length([ff if kind in ("mlp", "moe") else 0 for kind in cfg.layer_types])
    if arch == "nemotron_h_moe":
        w.add_expert_shared_feed_forward_length(cfg.moe_shared_expert_intermediate_size)
        w.add_expert_shared_count(cfg.n_shared_experts)
        w.add_expert_weights_norm(cfg.norm_topk_prob)
        w.add_expert_weights_scale(cfg.routed_scaling_factor)
        w.add_expert_group_count(cfg.n_group)


def norm_eps(cfg):
    return next(getattr(cfg, name) for name in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon") if hasattr(cfg, name))
