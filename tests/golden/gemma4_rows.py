"""The rows of make_arch.py of Gemma 4: their configs, and what GGUF wants of their weights and keys."""
import numpy as np
import transformers as hf

SLIDING, FULL = "sliding_attention", "full_attention"


def cases(config, window):
    """Yields (architecture, name, config) as arch_rows.cases."""
    rope = {SLIDING: dict(rope_type="default", rope_theta=10000.0),
            FULL: dict(rope_type="proportional", partial_rotary_factor=0.25, rope_theta=1000000.0)}
    base = dict(head_dim=16, global_head_dim=32, sliding_window=window, rope_parameters=rope, tie_word_embeddings=True,
                intermediate_size=48)
    yield "gemma4", "row_gemma4_e", config(
        hf.Gemma4TextConfig, layers=6, **base, kv_heads=2, layer_types=[SLIDING, SLIDING, FULL, SLIDING, SLIDING, FULL],
        num_kv_shared_layers=3, use_double_wide_mlp=True, hidden_size_per_layer_input=8, vocab_size_per_layer_input=304,
        final_logit_softcapping=5.0)
    equal = dict(base, kv_heads=2, num_global_key_value_heads=1, attention_k_eq_v=True, hidden_size_per_layer_input=0)
    yield "gemma4", "row_gemma4_dense", config(
        hf.Gemma4TextConfig, layers=4, **equal, layer_types=[SLIDING, SLIDING, FULL, FULL], final_logit_softcapping=5.0)
    yield "gemma4", "row_gemma4_moe", config(
        hf.Gemma4TextConfig, layers=3, **equal, layer_types=[SLIDING, FULL, FULL], enable_moe_block=True, num_experts=6, top_k_experts=3,
        moe_intermediate_size=24)


def draw(name, x):
    """The weights that are no matrix, and the embeddings; None: as in other models. Scores are not divided, so Q is made smaller."""
    if name.endswith(("norm.weight", "norm_1.weight", "norm_2.weight")):
        return np.float32(0.1) * x + np.float32(0.15 if name.endswith("q_norm.weight") else 1)
    if name.endswith(("layer_scalar", "router.scale", "per_expert_scale")):
        return np.float32(0.2) * x + np.float32(1)
    if "embed_tokens" in name:  # both are multiplied by the root of their width
        return x / np.float32(np.sqrt(8 if "per_layer" in name else x.shape[1]))
    return None


def tensors(name, w):
    """The (GGUF name, array) of a parameter; None: as in other models, but for the 1 that gemma's norms have added."""
    block = f"blk.{name.split('.')[2]}." if ".layers." in name else ""
    names = {"layer_scalar": "layer_output_scale.weight", "router.scale": "ffn_gate_inp.scale",
             "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
             "experts.down_proj": "ffn_down_exps.weight"}
    return next(([(block + to, w)] for end, to in names.items() if name.endswith(end)), None)


def write_keys(w, cfg):
    sliding = [kind == SLIDING for kind in cfg.layer_types]
    layers = [cfg.per_layer_config[i] for i in range(cfg.num_hidden_layers)]
    full, narrow = layers[sliding.index(False)].head_dim, layers[sliding.index(True)].head_dim
    heads = [layer.num_key_value_heads for layer in layers]
    w.add_head_count_kv(heads if cfg.attention_k_eq_v else heads[0])
    w.add_key_length(full)
    w.add_value_length(full)
    w.add_key_length_swa(narrow)
    w.add_value_length_swa(narrow)
    w.add_sliding_window_pattern(sliding)
    w.add_shared_kv_layers(cfg.num_kv_shared_layers)
    w.add_embedding_length_per_layer_input(cfg.hidden_size_per_layer_input)
    own = cfg.num_hidden_layers - cfg.num_kv_shared_layers
    ff = cfg.intermediate_size
    w.add_feed_forward_length([ff if i < own else 2 * ff for i in range(cfg.num_hidden_layers)] if cfg.use_double_wide_mlp else ff)
    if cfg.final_logit_softcapping:
        w.add_final_logit_softcapping(cfg.final_logit_softcapping)
    rope = cfg.rope_parameters
    w.add_rope_dimension_count(full)
    w.add_rope_dimension_count_swa(narrow)
    w.add_rope_freq_base(rope[FULL]["rope_theta"])
    w.add_rope_freq_base_swa(rope[SLIDING]["rope_theta"])
    turned = int(full * rope[FULL]["partial_rotary_factor"] / 2)
    w.add_tensor("rope_freqs.weight", np.array([1.0] * turned + [1e30] * (full // 2 - turned), np.float32))
