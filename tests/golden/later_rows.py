"""The rows of make_arch.py behind its own. A row's number is its seed: a new one goes to the end."""
import transformers as hf


def cases(config, rope, yarn, norm_eps):
    """Yields (architecture, name, config) as make_arch.cases."""
    yield "arcee", "row_arcee", config(hf.ArceeConfig, head_dim=8, rope_parameters=yarn)
    command_r = dict(head_dim=8, rope_parameters=rope, layer_norm_eps=norm_eps, logit_scale=0.3, tie_word_embeddings=True)
    yield "command-r", "row_command_r", config(hf.CohereConfig, **command_r, use_qk_norm=False)
    yield "command-r", "row_command_r_plus", config(hf.CohereConfig, **command_r, use_qk_norm=True)
