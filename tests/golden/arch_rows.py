"""The rows that make_arch.py makes models of, as configs of transformers."""
import math

import numpy as np
import transformers as hf

import expert_rows
import gemma4_rows
import recurrent_rows

VOCAB, WIDTH, FF, CONTEXT, EPS = 304, 32, 64, 1024, 1e-6
WINDOW = 16
LAYER_EPS = 1e-4  # of LayerNorms


def config(cls, layers=2, heads=4, kv_heads=2, head_dim=16, **more):
    base = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=FF, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=CONTEXT, rms_norm_eps=EPS, bos_token_id=1,
                eos_token_id=2, pad_token_id=2, tie_word_embeddings=False)
    return cls(**{**base, **more})


def ramp(n, low, high):
    return [float(np.float32(f)) for f in np.linspace(low, high, n)]


LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)


def longrope(original):
    return dict(rope_type="longrope", rope_theta=10000.0, short_factor=ramp(6, 1.0, 1.5), long_factor=ramp(6, 1.0, 20.0),
                original_max_position_embeddings=original, partial_rotary_factor=0.75)


def default_rope(base=10000.0):
    return dict(rope_type="default", rope_theta=base)


def cases():
    """Yields (architecture, name, config). A row's place here is its seed: a new one goes to the end, so that no other file changes."""
    plain = default_rope()
    gemma3_rope = {"sliding_attention": default_rope(), "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=100000.0)}
    yield "llama", "row_llama3", config(hf.LlamaConfig, rope_parameters=LLAMA3)
    yield "qwen2", "row_qwen2_yarn", config(hf.Qwen2Config, heads=2, kv_heads=1, rope_parameters=YARN, tie_word_embeddings=True)
    yield "qwen3", "row_qwen3", config(hf.Qwen3Config, rope_parameters=default_rope(1e6), tie_word_embeddings=True)
    yield "gemma2", "row_gemma2", config(
        hf.Gemma2Config, heads=1, kv_heads=1, head_dim=256, query_pre_attn_scalar=256, sliding_window=WINDOW, rope_parameters=plain,
        attn_logit_softcapping=5.0, final_logit_softcapping=2.0, tie_word_embeddings=True)
    yield "gemma3", "row_gemma3", config(
        hf.Gemma3TextConfig, layers=7, heads=2, kv_heads=1, head_dim=24, query_pre_attn_scalar=24, sliding_window=WINDOW,
        intermediate_size=48, rope_parameters=gemma3_rope, tie_word_embeddings=True)
    # Phi-3 has head_dim = width / heads.
    phi3 = lambda original: dict(heads=2, kv_heads=1, head_dim=16, partial_rotary_factor=0.75, rope_parameters=longrope(original),
                                 original_max_position_embeddings=original)
    yield "phi3", "row_phi3_short", config(hf.Phi3Config, **phi3(CONTEXT))
    yield "phi3", "row_phi3_long", config(hf.Phi3Config, **phi3(64), sliding_window=48)
    yield "olmo2", "row_olmo2", config(hf.Olmo2Config, head_dim=8, rope_parameters=default_rope(500000.0))
    yield "qwen3moe", "row_qwen3moe", config(
        hf.Qwen3MoeConfig, rope_parameters=plain, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=True)
    yield "llama", "row_mixtral", config(
        hf.MixtralConfig, heads=4, kv_heads=1, head_dim=8, rope_parameters=plain, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=None, intermediate_size=40)
    yield "olmo2", "row_olmo3", config(
        hf.Olmo3Config, layers=4, head_dim=8, sliding_window=WINDOW, rope_parameters=dict(YARN), intermediate_size=48)
    yield "granite", "row_granite", config(
        hf.GraniteConfig, head_dim=8, rope_parameters=plain, embedding_multiplier=12.0, residual_multiplier=0.6, attention_multiplier=0.25,
        logits_scaling=6.0)
    yield "smollm3", "row_smollm3", config(hf.SmolLM3Config, layers=5, head_dim=8, rope_parameters=plain, tie_word_embeddings=True)
    yield "ernie4_5", "row_ernie4_5", config(hf.Ernie4_5Config, rope_parameters=default_rope(500000.0), tie_word_embeddings=True)
    yield "seed_oss", "row_seed_oss", config(hf.SeedOssConfig, rope_parameters=default_rope(1e6), attention_bias=True, attention_out_bias=False)
    yield "cohere2", "row_cohere2", config(
        hf.Cohere2Config, layers=5, head_dim=8, sliding_window=WINDOW, rope_parameters=plain, layer_norm_eps=LAYER_EPS, logit_scale=0.3,
        tie_word_embeddings=True)
    yield "gpt-oss", "row_gpt_oss", config(
        hf.GptOssConfig, layers=3, sliding_window=WINDOW, rope_parameters=dict(YARN, truncate=False), intermediate_size=24,
        num_local_experts=6, num_experts_per_tok=2)
    yield "starcoder2", "row_starcoder2", config(
        hf.Starcoder2Config, head_dim=8, sliding_window=48, rope_parameters=plain, norm_epsilon=LAYER_EPS, tie_word_embeddings=True)
    yield "gpt2", "row_gpt2", hf.GPT2Config(
        vocab_size=VOCAB, n_embd=WIDTH, n_inner=FF, n_layer=2, n_head=4, n_positions=CONTEXT, layer_norm_epsilon=LAYER_EPS, bos_token_id=1,
        eos_token_id=2)
    for bias in (False, True):
        yield "stablelm", "row_stablelm_bias" if bias else "row_stablelm", config(
            hf.StableLmConfig, head_dim=8, rope_parameters=dict(plain, partial_rotary_factor=0.5), layer_norm_eps=LAYER_EPS, use_qkv_bias=bias)
    yield "glm4", "row_glm4", config(
        hf.Glm4Config, rope_parameters=dict(plain, partial_rotary_factor=0.5), attention_bias=True)
    yield "hunyuan-dense", "row_hunyuan", config(hf.HunYuanDenseV1Config, rope_parameters=plain, tie_word_embeddings=True)
    # All experts are chosen: rounded inputs then do not change which.
    yield "gpt-oss", "row_gpt_oss_mxfp4", config(
        hf.GptOssConfig, layers=2, sliding_window=WINDOW, rope_parameters=dict(YARN, truncate=False), intermediate_size=32,
        num_local_experts=4, num_experts_per_tok=4, experts_implementation="eager")
    # A MiniCPM is a granite whose scores have the common scale.
    yield "minicpm", "row_minicpm", config(
        hf.GraniteConfig, head_dim=8, rope_parameters=plain, embedding_multiplier=12.0, residual_multiplier=1.4 / math.sqrt(2),
        attention_multiplier=1 / math.sqrt(8), logits_scaling=4.0)
    mla = dict(kv_heads=4, head_dim=8, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=20, moe_intermediate_size=16,
               n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1)
    yield "deepseek2", "row_deepseek2", config(
        hf.DeepseekV2Config, **mla, rope_parameters=plain, q_lora_rank=None, n_shared_experts=2, routed_scaling_factor=1.5,
        topk_method="group_limited_greedy", n_group=4, topk_group=2)
    yield "deepseek2", "row_deepseek3", config(
        hf.DeepseekV3Config, **mla, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0), q_lora_rank=24, n_shared_experts=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, n_group=2, topk_group=1)
    yield from recurrent_rows.cases(config, plain)
    yield from expert_rows.cases(config, plain)
    yield "exaone4", "row_exaone4", config(
        hf.Exaone4Config, layers=3, head_dim=8, sliding_window=WINDOW, rope_parameters=LLAMA3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], tie_word_embeddings=True)
    yield "exaone4", "row_exaone4_full", config(
        hf.Exaone4Config, head_dim=8, sliding_window=None, rope_parameters=LLAMA3, layer_types=["full_attention"] * 2)
    tempered = dict(YARN, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=1.0)
    yield "mistral3", "row_mistral3", config(hf.Ministral3Config, rope_parameters=dict(tempered, llama_4_scaling_beta=0.5))
    yield "mistral4", "row_mistral4", config(
        hf.Mistral4Config, **dict(mla, first_k_dense_replace=0, head_dim=24), rope_parameters=dict(tempered, llama_4_scaling_beta=0.1), q_lora_rank=24,
        n_shared_experts=1, norm_topk_prob=True, n_group=1, topk_group=1)
    yield "phi3", "row_phi4_mini", config(hf.Phi3Config, **phi3(64), sliding_window=None, tie_word_embeddings=True)
    yield from gemma4_rows.cases(config, WINDOW)
    yield "arcee", "row_arcee", config(hf.ArceeConfig, head_dim=8, rope_parameters=dict(YARN))
    for name, norm in (("row_command_r", False), ("row_command_r_plus", True)):
        yield "command-r", name, config(
            hf.CohereConfig, head_dim=8, rope_parameters=default_rope(500000.0), layer_norm_eps=LAYER_EPS, logit_scale=0.3,
            use_qk_norm=norm, tie_word_embeddings=True)
