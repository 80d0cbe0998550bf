#!/usr/bin/env python3
"""Faults planted under int8 KV, which kvrt eval has to find: text_divergence.log10 leaves the 95 % interval that the same text gives int8
without a fault.

  eval_faults.py KVRT DEVICE tiny TINY   with no fault planted, the device is the CPU; with one, the base stays as it is
  eval_faults.py KVRT DEVICE smollm2     on $KVRT_MODEL, or SmolLM2 in the model cache
  eval_faults.py KVRT DEVICE qwen        on Qwen2.5-Coder 0.5B in the model cache

DEVICE is built of fault_device.cc. Exit 77: the model is not there, or what writes it in F16.
"""
import html
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "kvrt/models")
SMOLLM2 = os.environ.get("KVRT_MODEL") or str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf")
QWEN = str(CACHE / "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf")
SHORT = ["--tokens", "1024", "--axes", "needles"]
LONG = ["--tokens", "2304", "--axes", "counting"]

INT8 = ["--candidates", "int8"]

# Model: (its weights, options, faults). A scale of 1.02 in one layer costs less than the rounding of activations that matrices of quantized
# weights are multiplied by: it is found where weights are in F16.
PLANTED = {
    "smollm2": [("file", SHORT, ["rotation", "swap"]), ("f16", LONG, ["scale:24"])],
    "qwen": [("file", SHORT, ["rotation", "swap"])],
}


class Eval:
    def __init__(self, kvrt, device, model, options):
        self.command = [kvrt, "eval", "-m", model, "--no-weight-cache", "--json", "-o", "eval", "--answer", "16", *options]
        self.device = device

    def run(self, fault, options=INT8):
        planted = ["--device", "cuda", "--cuda-library", self.device] if fault else []
        environment = {**os.environ, "XDG_CONFIG_HOME": "/nowhere", "KVRT_TEST_FAULT": fault or ""}
        return subprocess.run([*self.command, *planted, *options], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def __call__(self, fault=None, options=INT8):
        """The report of a run with this fault; None: on the CPU itself."""
        done = self.run(fault, options)
        if done.returncode:
            sys.exit(f"{' '.join(done.args)}: exit {done.returncode}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


def breaks(run, whole):
    """int8 gives NaN from a position on: it has no figures, the report says where it broke, and fp8's are those of a run without the fault."""
    pathlib.Path("gate").write_text('{"int8.counting.score": {"min": 0}, "fp8.divergence.mean": {"max": 100}}')
    options = ["--candidates", "int8,fp8", "--gate", "gate"]
    both = run("none", options)["result"]["configurations"]
    assert [c["configuration"] for c in both] == ["f16", "int8", "fp8"] and both[1]["axes"][0] == whole["result"]["configurations"][1]["axes"][0]
    # From positions that the first question has, and that only a later one has.
    for fault, axis in ("nan:3", "counting"), ("nan:700", "scenario"):
        done = run.run(fault, options)
        assert done.returncode == 13, done
        report = json.loads(done.stdout.splitlines()[-1])
        base, fp8 = report["result"]["configurations"]
        (broken,) = report["result"]["broken"]
        assert base == both[0] and fp8 == both[2], "the others are as without the fault"
        assert [s["answers"].keys() for s in report["result"]["samples"]] == 5 * [{"f16", "fp8"}], report["result"]["samples"]
        assert [c["configuration"] for c in report["run"]["configurations"]] == ["f16", "fp8"], report["run"]
        assert broken["configuration"] == "int8" and broken["status"] == "DEVICE" and "NaN" in broken["message"], broken
        assert broken["axis"] == axis and broken["position"] >= int(fault[4:]), broken
        assert f"position {broken['position']} " in broken["message"], broken
        words = f"int8 broke in {broken['axis']}, case {broken['case']}, position {broken['position']}: "
        assert f"gate: there is no figure int8.counting.score: {words}" in done.stderr, done.stderr
        assert "fp8" not in done.stderr, done.stderr
        assert words in html.unescape(pathlib.Path("eval.html").read_text())
        assert not pathlib.Path("eval.part").exists()
        print(f"{fault}: {words}{broken['message']}")


def tiny(kvrt, device, folder):
    """A tiny model with room for long texts; it makes a token of most letters."""
    model = pathlib.Path(folder, "llama_gqa_f32.gguf").read_bytes()
    key = b"llama.context_length" + struct.pack("<I", 4)
    at = model.index(key) + len(key)
    pathlib.Path("model.gguf").write_bytes(model[:at] + struct.pack("<I", 1 << 16) + model[at + 4:])
    run = Eval(kvrt, device, "model.gguf", ["--tokens", "128", "--axes", "counting", "--kv-bytes", "64M"])
    cpu, none = run(), run("none")
    assert cpu["result_sha256"] == none["result_sha256"], "a device without a fault is not the CPU"
    base, int8 = none["result"]["configurations"]
    for fault in "rotation", "swap", "scale:0":
        configurations = run(fault)["result"]["configurations"]
        assert configurations[0] == base, f"{fault}: the base has it, too"
        assert configurations[1]["text_divergence"] != int8["text_divergence"], f"{fault}: int8 has none"
    breaks(run, none)
    refused = subprocess.run(run.command + INT8 + ["--device", "cuda", "--cuda-library", device], env={**os.environ, "KVRT_TEST_FAULT": "scale"},
                             capture_output=True, text=True)
    assert refused.returncode == 14 and "KVRT_TEST_FAULT" in refused.stderr, refused


def in_f16(source, path):
    """The same weights in F16, or in F32 where they are a vector."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
    try:
        from f16_file import dequantized
    except ImportError as missing:
        print(f"skipped: no model in F16: {missing}")
        sys.exit(77)
    dequantized(source, path)


def found(kvrt, device, name, model):
    """True: each fault of the model leaves int8's interval, on the side of worse."""
    if not os.access(model, os.R_OK):
        print(f"skipped: no model {model}")
        sys.exit(77)
    good = True
    for weights, options, faults in PLANTED[name]:
        if weights == "f16":
            in_f16(model, "f16.gguf")
        run = Eval(kvrt, device, model if weights == "file" else "f16.gguf", options)
        base, int8 = run("none")["result"]["configurations"]
        for fault in faults:
            configurations = run(fault)["result"]["configurations"]
            assert configurations[0] == base, f"{fault}: the base has it, too"
            interval, figure = (c["text_divergence"]["log10"] for c in (int8, configurations[1]))
            out = figure["mean"] > interval["mean"] + interval["half_width_95"]
            print(f"{name}, weights: {weights}, {fault}: log10 {figure['mean']:.3f}; int8's is {interval['mean']:.3f} "
                  f"± {interval['half_width_95']:.3f} of {interval['n']} positions: {'found' if out else 'NOT FOUND'}; "
                  f"mean {configurations[1]['text_divergence']['mean']:.3e}, {int8['text_divergence']['mean']:.3e}", flush=True)
            good &= out
    return good


def main():
    kvrt, device, name = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if name == "tiny":
            tiny(kvrt, device, sys.argv[4])
            return 0
        return 0 if found(kvrt, device, name, QWEN if name == "qwen" else SMOLLM2) else 1


if __name__ == "__main__":
    sys.exit(main())
