"""The rows of make_arch.py whose models have recurrent layers: their configs, and what GGUF wants of their weights and keys."""
import gguf
import numpy as np
import transformers as hf


def cases(config, rope):
    """Yields (architecture, name, config) as make_arch.cases."""
    yield "lfm2", "row_lfm2", config(
        hf.Lfm2Config, layers=4, head_dim=8, rope_parameters=rope, norm_eps=1e-6, conv_L_cache=3, block_auto_adjust_ff_dim=False,
        layer_types=["conv", "full_attention", "conv", "conv"], tie_word_embeddings=True)


ARCHS = ("lfm2",)


def recurrent_layers(cfg):
    return [kind not in ("full_attention", "attention") for kind in cfg.layer_types]


def draw(name, x):
    """The weights that are no matrix; None: as in other models."""
    if name.endswith("conv.weight"):
        return np.float32(0.8) * x
    return None


def tensors(arch, cfg, name, w):
    """The (GGUF name, array) of a parameter; None: as in other models."""
    if name.endswith("conv.conv.weight"):
        return [(f"blk.{name.split('.')[2]}.shortconv.conv.weight", w[:, 0])]
    return None


def write_keys(w, arch, cfg):
    w.add_head_count_kv([0 if recurrent else cfg.num_key_value_heads for recurrent in recurrent_layers(cfg)])
    if arch == "lfm2":
        w.add_shortconv_l_cache(cfg.conv_L_cache)
