#!/usr/bin/env python3
"""models.py KVRT [--check]: writes into README.md which models fit into which memory, as `kvrt plan` counts it.

A model that is too large to fetch for this is planned by its header: the shapes that its config.json has, in the types that llama.cpp's
Q4_K_M gives them, over a file of holes. With --check nothing is written: exits 1 where README.md has another table.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import gguf

README = pathlib.Path(__file__).parent / "../README.md"
RESULTS = pathlib.Path(__file__).parent / "../tests/bench/results"
TOKENS = 8192
SHAPES = ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary")
# The machine's memory, the model, where it is, its shape: all are Qwen2 with biases and an output of its own.
MODELS = [
    ("4 GB", "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", "`./dev model qwen2.5-coder-1.5b`", (28, 1536, 12, 2, 8960, 151936)),
    ("8 GB", "qwen2.5-7b-instruct-q4_k_m-00001-of-00002", "[Qwen](https://huggingface.co/Qwen/Qwen2.5-7B-Instruct-GGUF)", (28, 3584, 28, 4, 18944, 152064)),
    ("16 GB", "qwen2.5-14b-instruct-q4_k_m-00001-of-00003", "[Qwen](https://huggingface.co/Qwen/Qwen2.5-14B-Instruct-GGUF)", (48, 5120, 40, 8, 13824, 152064)),
    ("32 GB", "qwen2.5-32b-instruct-q4_k_m-00001-of-00005", "[Qwen](https://huggingface.co/Qwen/Qwen2.5-32B-Instruct-GGUF)", (64, 5120, 40, 8, 27648, 152064)),
]


def tensors(shape):
    """Names, shapes in numpy's order, and types. More bits where llama.cpp's use_more_bits has them."""
    of = dict(zip(SHAPES, shape))
    layers, width, head = of["layers"], of["width"], of["width"] // of["heads"]
    low, high, exact = gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K, gguf.GGMLQuantizationType.F32
    yield "token_embd.weight", (of["vocabulary"], width), low
    yield "output.weight", (of["vocabulary"], width), high
    yield "output_norm.weight", (width,), exact
    for i in range(layers):
        more = high if i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2 else low
        kv = of["kv_heads"] * head
        yield f"blk.{i}.attn_norm.weight", (width,), exact
        yield f"blk.{i}.ffn_norm.weight", (width,), exact
        for name, rows, kind in (("q", width, low), ("k", kv, low), ("v", kv, more)):
            yield f"blk.{i}.attn_{name}.weight", (rows, width), kind
            yield f"blk.{i}.attn_{name}.bias", (rows,), exact
        yield f"blk.{i}.attn_output.weight", (width, width), low
        yield f"blk.{i}.ffn_gate.weight", (of["ffn"], width), low
        yield f"blk.{i}.ffn_up.weight", (of["ffn"], width), low
        yield f"blk.{i}.ffn_down.weight", (width, of["ffn"]), more


def write_header(path, shape):
    of = dict(zip(SHAPES, shape))
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(of["layers"])
    writer.add_context_length(32768)
    writer.add_embedding_length(of["width"])
    writer.add_feed_forward_length(of["ffn"])
    writer.add_head_count(of["heads"])
    writer.add_head_count_kv(of["kv_heads"])
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([f"{i}" for i in range(of["vocabulary"])])
    writer.add_token_merges(["0 1"])
    size = 0
    for name, dims, kind in tensors(shape):
        block, bytes_of = gguf.GGML_QUANT_SIZES[kind]
        count = 1
        for dim in dims:
            count *= dim
        bytes_ = count // block * bytes_of
        writer.tensors[0][name] = gguf.gguf_writer.TensorInfo(shape=dims, dtype=kind, nbytes=bytes_)
        size += -(-bytes_ // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    path.open("ab").truncate(-(-path.stat().st_size // 32) * 32 + size)
    return size


def speed(name):
    """Tokens a second of an empty conversation, of the newest results of `./dev bench` that have them."""
    for file in sorted(RESULTS.glob("*.json"), reverse=True):
        data = json.loads(file.read_text())
        models = data.get("models")
        for entry in models.values() if isinstance(models, dict) else []:
            if isinstance(entry, dict) and entry.get("file") == f"{name}.gguf" and "summary" in entry:
                cpu = data["cpu"].get("model name", "a CPU").replace("(R)", "")
                return f"{entry['summary']['decode_at_0_tok_s']['kvrt']:.1f} ({data['threads']} threads, {cpu})"
    return "—"


def table(kvrt):
    rows = ["| memory | file (.gguf) | from | size | `kvrt plan`, 8,192 tokens | tokens a second | tools |", "|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for memory, name, place, shape in MODELS:
            path = pathlib.Path(folder, "model.gguf")
            size = write_header(path, shape)
            plan = subprocess.run([kvrt, "plan", "-m", path, "--context", str(TOKENS), "--json"], capture_output=True, text=True, check=True).stdout
            total = json.loads(plan)["total_bytes"]
            assert total < int(memory.split()[0]) * 0.9 * 2**30, (name, total)
            rows.append(f"| {memory} | {name} | {place} | {size / 1e9:.1f} GB | {total / 2**30:.1f} GiB | {speed(name)} | yes |")
    return "\n".join(rows) + "\n"


def main():
    kvrt, *rest = sys.argv[1:]
    text = README.read_text()
    made = table(kvrt)
    new, count = re.subn(r"\| memory \| file.*?\n(?=\n)", lambda _: made, text, flags=re.S)
    if count != 1:
        sys.exit(f"models.py: README.md has {count} tables of models")
    if rest == ["--check"]:
        if new != text:
            sys.exit("models.py: README.md has another table than kvrt plan: python3 docs/models.py KVRT writes it")
    else:
        README.write_text(new)


if __name__ == "__main__":
    main()
