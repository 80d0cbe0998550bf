"""refused.py KVRT TINY: what a file needs that kvrt lacks, or is wrong, is named by kvrt inspect and when the model is opened alike."""
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import types

kvrt, tiny = sys.argv[1], pathlib.Path(sys.argv[2])
U32, I32, TEXT = 4, 5, 8
STATUSES = {"CORRUPT": 9, "UNSUPPORTED": 14}


class File:
    """A model of `tiny`, changed where it lies: nothing moves."""

    def __init__(self, model):
        self.data = bytearray((tiny / f"{model}.gguf").read_bytes())

    def after(self, name):
        """Where a key's or a tensor's fields begin: behind its name, which is behind its length."""
        written = struct.pack("<Q", len(name)) + name.encode()
        assert self.data.count(written) == 1, name
        return self.data.index(written) + len(written)

    def put(self, at, layout, *values):
        struct.pack_into("<" + layout, self.data, at, *values)
        return self

    def rename(self, name, to):
        assert len(name) == len(to)
        return self.put(self.after(name) - len(name), f"{len(to)}s", to.encode())

    def number(self, key, value):
        assert struct.unpack_from("<I", self.data, self.after(key)) == (U32,), key
        return self.put(self.after(key) + 4, "I", value)

    def key_type(self, key, number):
        return self.put(self.after(key), "I", number)

    def element_type(self, key, number):
        return self.put(self.after(key) + 4, "I", number)

    def element(self, key, index, value):
        return self.put(self.after(key) + 16 + 4 * index, "i", value)

    def text(self, key, value):
        at = self.after(key) + 4
        assert struct.unpack_from("<Q", self.data, at) == (len(value),), key
        return self.put(at + 8, f"{len(value)}s", value.encode())

    def shape(self, tensor, *ne):
        at = self.after(tensor)
        assert struct.unpack_from("<I", self.data, at) == (len(ne),), tensor
        return self.put(at + 4, f"{len(ne)}Q", *ne)

    def real(self, tensor, index, value):
        """A number of a tensor of type F32: the data begins behind the last tensor's fields."""
        at = self.after(tensor)
        dims, = struct.unpack_from("<I", self.data, at)
        kind, offset = struct.unpack_from("<IQ", self.data, at + 4 + 8 * dims)
        assert kind == 0, tensor
        end = 0
        for name in (name for name in self.tensors()):
            info = self.after(name)
            end = max(end, info + 4 + 8 * struct.unpack_from("<I", self.data, info)[0] + 12)
        return self.put((end + 31) // 32 * 32 + offset + 4 * index, "f", value)

    def tensors(self):
        """The names, by the forms that they have."""
        return {m.group(1).decode() for m in re.finditer(rb"\0\0\0\0((?:blk\.\d+\.|output|token_embd|per_layer|rope)[a-z0-9_.]+)[\x01-\x04]\0\0\0", bytes(self.data))}

    def everywhere(self, old, new):
        assert len(old) == len(new) and old.encode() in self.data
        self.data = self.data.replace(old.encode(), new.encode())
        return self

    def kind(self, tensor, number):
        at = self.after(tensor)
        return self.put(at + 4 + 8 * struct.unpack_from("<I", self.data, at)[0], "I", number)


def other(tensor, **pairs):
    """A file of another kind: texts, and one tensor of no bytes worth a word."""
    name = lambda text: struct.pack("<Q", len(text)) + text.encode()
    data = struct.pack("<4sIQQ", b"GGUF", 3, 1, len(pairs))
    for key, value in pairs.items():
        data += name("general." + key) + struct.pack("<I", TEXT) + name(value)
    data += name(tensor) + struct.pack("<IQIQ", 1, 8, 0, 0)
    return types.SimpleNamespace(data=data + bytes(-len(data) % 32) + bytes(32))


# (the file, the status, what the message says after the file's name)
CASES = [
    (File("row_llama3").text("general.architecture", "lambd"), "UNSUPPORTED",
     'metadata key general.architecture: architecture "lambd" is not supported; these are: llama, qwen2, '),
    (File("row_llama3").rename("rope_freqs.weight", "rope_steps.weight"), "UNSUPPORTED",
     "tensor rope_steps.weight is not known to architecture llama"),
    (File("row_qwen2_yarn").text("qwen2.rope.scaling.type", "warp"), "UNSUPPORTED",
     'metadata key qwen2.rope.scaling.type: RoPE scaling "warp" is not supported; these are: none, linear, yarn, longrope'),
    (File("row_llama3").kind("blk.1.ffn_up.weight", 26), "UNSUPPORTED",
     "tensor blk.1.ffn_up.weight: type I32 is not supported; these are: F32, F16, "),
    (File("row_llama3").kind("blk.1.ffn_norm.weight", 26), "UNSUPPORTED",
     "tensor blk.1.ffn_norm.weight: type I32 is not supported; these are: F32, F16, "),
    (File("row_llama3").kind("blk.0.attn_q.weight", 99), "UNSUPPORTED",
     "tensor blk.0.attn_q.weight: unknown tensor type 99; the last known one is "),
    # A recurrent layer's tensors: Mamba-2, a short convolution, the delta rule.
    (File("row_granitehybrid").rename("blk.1.ssm_a", "blk.1.ssm_x"), "CORRUPT", "tensor blk.1.ssm_a is missing, expected shape [1, 4]"),
    (File("row_granitehybrid").shape("blk.0.ssm_conv1d.weight", 160, 4), "CORRUPT",
     "tensor blk.0.ssm_conv1d.weight: expected shape [4, 160], found [160, 4]"),
    (File("row_lfm2").rename("blk.2.shortconv.conv.weight", "blk.2.shortconv.comb.weight"), "CORRUPT",
     "tensor blk.2.shortconv.conv.weight is missing, expected shape [3, 32]"),
    (File("row_lfm2").shape("blk.0.shortconv.in_proj.weight", 96, 32), "CORRUPT",
     "tensor blk.0.shortconv.in_proj.weight: expected shape [32, 96], found [96, 32]"),
    (File("row_qwen3next").rename("blk.0.ssm_dt.bias", "blk.0.ssm_xt.bias"), "CORRUPT", "tensor blk.0.ssm_dt.bias is missing, expected shape [6]"),
    (File("row_qwen3next").shape("blk.2.ssm_out.weight", 32, 96), "CORRUPT",
     "tensor blk.2.ssm_out.weight: expected shape [96, 32], found [32, 96]"),
    (File("row_granitehybrid").number("granitehybrid.ssm.group_count", 3), "UNSUPPORTED",
     "metadata key granitehybrid.ssm.group_count: expected a divisor of granitehybrid.ssm.time_step_rank, which is 4, found 3"),
    (File("row_qwen3next").number("qwen3next.ssm.group_count", 4), "UNSUPPORTED",
     "metadata key qwen3next.ssm.group_count: expected a divisor of qwen3next.ssm.time_step_rank, which is 6, found 4"),
    # Files of other formats.
    (types.SimpleNamespace(data=b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\n"), "CORRUPT",
     "not a GGUF file: expected 47 47 55 46 (GGUF), found a Git LFS pointer, which stands for the file"),
    (types.SimpleNamespace(data=b"<!DOCTYPE html><html>404 Not found"), "CORRUPT", "found a web page"),
    (types.SimpleNamespace(data=b"ggjt\1\0\0\0"), "CORRUPT", "found 67 67 6a 74 (ggjt)"),
    (types.SimpleNamespace(data=bytes(8)), "CORRUPT", "found 00 00 00 00 (CORRUPT)"),
    # Sound files that are no models.
    (other("blk.0.attn_q.weight.lora_a", architecture="llama", type="adapter"), "UNSUPPORTED",
     'metadata key general.type: found "adapter": the file is an adapter (LoRA), expected a model'),
    (other("blk.0.attn_q.weight.counts", type="imatrix"), "UNSUPPORTED", 'found "imatrix": the file is an importance matrix, expected a model'),
    (other("mm.0.weight", architecture="clip", type="mmproj"), "UNSUPPORTED", "the file is a projector of images or sound (mmproj), "),
    (other("mm.0.weight", architecture="clip"), "UNSUPPORTED", "the file is a projector of images or sound (mmproj), "),
    (other("direction.1", architecture="controlvector"), "UNSUPPORTED", "the file is a control vector, expected a model"),
    (other("encoder.conv1.weight", architecture="whisper"), "UNSUPPORTED", 'architecture "whisper" is not supported; these are: llama, '),
    (File("row_glm4moe").everywhere("blk.0.", "blk.9."), "UNSUPPORTED",
     "metadata key glm4moe.nextn_predict_layers: the file has the draft layers (MTP) alone, expected a model"),
    # Sound files whose tensors are laid out otherwise.
    (File("row_llama3").rename("blk.1.ffn_gate.weight", "blk.0.attn_qkv.weight"), "UNSUPPORTED",
     "tensor blk.0.attn_qkv.weight: Q, K and V in one matrix are not known to architecture llama"),
    (File("row_llama3").rename("rope_freqs.weight", "v.position.weight"), "UNSUPPORTED",
     "tensor v.position.weight is not known to architecture llama: images and sound are not supported"),
    # Numbers and shapes that contradict each other.
    (File("row_deepseek2").number("deepseek2.attention.key_length", 41), "CORRUPT",
     "metadata key deepseek2.attention.key_length: expected 40, found 41: all heads share one row of the rank 32 and 8 rotated dimensions"),
    (File("row_deepseek2").number("deepseek2.attention.head_count_kv", 4), "CORRUPT",
     "metadata key deepseek2.attention.head_count_kv: expected 1, found 4"),
    (File("row_lfm2").shape("token_embd.weight", 304, 32), "CORRUPT",
     "tensor token_embd.weight: expected rows of 32 numbers (lfm2.embedding_length), found rows of 304"),
    (File("row_granitehybrid").number("granitehybrid.ssm.state_size", 15), "UNSUPPORTED",
     "metadata key granitehybrid.ssm.state_size: expected channels of the convolution, "),
    # Numbers of another type.
    (File("row_lfm2").number("lfm2.shortconv.l_cache", 2**32 - 4).key_type("lfm2.shortconv.l_cache", I32), "CORRUPT",
     "metadata key lfm2.shortconv.l_cache: expected a non-negative integer, found -4"),
    (File("row_lfm2").key_type("lfm2.rope.freq_base", U32), "CORRUPT", "metadata key lfm2.rope.freq_base: expected a float, found u32"),
    (File("row_qwen3next_old").element_type("qwen3next.attention.recurrent_layers", 0), "UNSUPPORTED",
     "metadata key qwen3next.attention.recurrent_layers: expected an array with a flag for each of 2 layers, found an array of u8"),
    # Arrays by layer.
    (File("row_lfm2").element("lfm2.attention.head_count_kv", 0, -2), "CORRUPT",
     "metadata key lfm2.attention.head_count_kv: layer 0 has -2, expected 0 to "),
    (File("row_lfm2").number("lfm2.block_count", 5), "CORRUPT",
     "metadata key lfm2.attention.head_count_kv: expected a number for each of 5 layers, found 4"),
    (File("row_granitehybrid").number("granitehybrid.block_count", 2), "CORRUPT",
     "metadata key granitehybrid.attention.head_count_kv: expected a number for each of 2 layers, found 3"),
    (File("row_qwen3next_old").number("qwen3next.block_count", 3), "UNSUPPORTED",
     "metadata key qwen3next.attention.recurrent_layers: expected an array with a flag for each of 3 layers, found 2"),
    (File("row_nemotron_h").number("nemotron_h.block_count", 3), "UNSUPPORTED",
     "metadata key nemotron_h.feed_forward_length: expected an array with a number for each of 3 blocks, found "),
    # What would be computed otherwise, without a word.
    (File("row_granitehybrid").key_type("granitehybrid.rope.scaling.finetuned", 0), "CORRUPT",
     "metadata key granitehybrid.rope.scaling.finetuned: expected a bool, found u8"),
    (File("row_glm4moe").rename("blk.2.nextn.eh_proj.weight", "blk.2.nextn.hh_proj.weight"), "CORRUPT",
     "tensor blk.2.nextn.eh_proj.weight is missing: nextn_predict_layers is 1, of 3 blocks"),
    (File("row_granitehybrid").rename("blk.1.ssm_conv1d.bias", "blk.1.ssm_conv2d.bias"), "CORRUPT",
     "tensor blk.1.ssm_conv1d.bias is missing, other layers have theirs"),
    (File("row_lfm2moe").rename("blk.2.exp_probs_b.bias", "blk.2.exp_probs_c.bias"), "CORRUPT",
     "tensor blk.2.exp_probs_b.bias is missing, other layers have theirs"),
]

# What the header alone does not show, or is no matter of the weights: inspect names it as the opening does.
OPENED = [
    (File("row_qwen2moe").rename("tokenizer.chat_template", "tokenizer.chat_template".replace("chat", "cart")).rename("qwen2moe.rope.freq_base", "tokenizer.chat_template"), "CORRUPT",
     "metadata key tokenizer.chat_template: expected a string, found f32"),
    (File("row_qwen2moe").rename("tokenizer.ggml.tokens", "tokenizer.ggml.tokenz").rename("tokenizer.ggml.token_type", "tokenizer.ggml.token_kind").rename("tokenizer.ggml.merges", "tokenizer.ggml.tokens"),
     "CORRUPT", "token_embd.weight has 304 rows, tokenizer.ggml.tokens 45 entries"),
    (File("row_granitehybrid").real("blk.1.ssm_a", 2, 0.5), "CORRUPT", "tensor blk.1.ssm_a: expected no number above 0: states decay, found 0.5"),
    (File("row_glm4moe").real("blk.1.exp_probs_b.bias", 7, float("nan")), "CORRUPT", "tensor blk.1.exp_probs_b.bias: expected finite numbers, found nan"),
]

# Files that are changed and still run.
SOUND = [
    File("row_nemotron_h").rename("nemotron_h.attention.layer_norm_rms_epsilon", "nemotron_h.attention.layer_norm_own_epsilon"),
]


def said(*words):
    """What a command says, and its exit code."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KVRT_")} | {"KVRT_CACHE": "", "XDG_CONFIG_HOME": "/nowhere"}
    done = subprocess.run([kvrt, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment)
    assert 0 <= done.returncode < 64, (words, done.returncode, done.stderr)
    return done.stdout + done.stderr, done.returncode


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / "changed.gguf")
        for file, status, message in CASES + OPENED:
            pathlib.Path(model).write_bytes(file.data)
            for words in (("inspect", model), ("plan", "-m", model), ("logits", "-m", model, "--tokens", "1", "-o", model + ".out")):
                if words[0] == "plan" and any(file is opened for opened, _, _ in OPENED): continue
                text, code = said(*words)
                blamed = "tokenizer.ggml.model: expected" in text  # a tokenizer that no such file has
                if code != STATUSES[status] or blamed or any(part not in text for part in (message, status, "changed.gguf")):
                    failed += 1
                    print(f"kvrt {words[0]}: expected {status}: {message!r}, found {code}: {text!r}")
        for file in SOUND:
            pathlib.Path(model).write_bytes(file.data)
            text, code = said("logits", "-m", model, "--tokens", "1", "-o", model + ".out")
            if code != 0:
                failed += 1
                print(f"a sound file: {text!r}")
    sys.exit(failed != 0)


main()
