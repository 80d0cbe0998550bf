#!/usr/bin/env python3
"""The KV formats' gates: the effect of rounding K and V on the logits, and of nothing else; and the size of their snapshots.

  kl_kv.py --kvrt PROGRAM [--which gemma3] [--model MODEL.gguf] [--windows 1]    exit 1 when a format costs more than its limit
  kl_kv.py --attention [--which qwen2.5-coder]    only how far attention's probabilities are from those of f32 KV, in numpy, and a line of JSON
  kl_kv.py --kvrt PROGRAM --peer-python PYTHON --which ...      measures llama.cpp's 4-bit KV, to its own f16, and keeps it in data/kl_peer_kv.json

The real weights are dequantized to F16 first, so that the program rounds no activations: those of a quantized matrix are rounded to 8 bits,
and the least change before them flips some of these roundings, which by itself is a KL of 5e-3 between any two KV formats, F32 and F16 too.
KL(f16 || format) in nats over all positions of 4 windows of 512 tokens (or of the last --windows of them); int4's and int8/int4's beside those of
llama.cpp's q4_0/q4_0 and q8_0/q4_0 of the same file and tokens; with the file's own weights, int8's beside that of f32 KV, the floor; on one
window, how far each format is from an f32 forward pass in numpy, and in numpy alone (kv_numpy.py) the KL of attention's probabilities, by layer;
and the chunks of a session of the windows' tokens, saved with the real
weights. Exit 77: the model is not there, or numpy or gguf is not.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
from f16_file import dequantized
from kv_numpy import AttentionKl
from kl import HERE, ROWS_AT_ONCE, WHICH, log_softmax

# A format for both, or K's and V's. Of the mean; none: only the peer bounds it.
LIMITS = {"f32": 1e-5, "bf16": 1e-3, "int8": 1e-3, "fp8": 1.5e-2, "int8/f16": 1e-3, "f16/int8": 1e-3, "f16/fp8": 1e-2, "int8/int4": None, "int4": None}
QWEN = {"bf16": 5e-3, "int8": 5e-4, "fp8": 4e-3}  # K's bias is apart; bf16 has it inside
OWN_LIMITS = {"qwen2.5-coder": QWEN | {"int8/int4": 4e-3, "int4": 2.5e-2}, "qwen2.5-coder-1.5b": QWEN}
# Models to which e4m3 costs more than that. It may cost as much as in numpy, but for the chance of which roundings flip.
COSTS_AS_IN_NUMPY = {"gemma3": {"fp8": 1.25}}
# The peer's types for those of kvrt, and the shares of its mean and of its 99.9 % that kvrt's may have.
PEER, PEER_TYPES, PEER_MEAN, PEER_TAIL = HERE / "data" / "kl_peer_kv.json", {"int4": "q4_0/q4_0", "int8/int4": "q8_0/q4_0"}, 0.8, 1.0
TEXT, WHOLE_TEXT = HERE.parent / "data" / "text_kjv.txt", ("smollm2", "gemma3")
FLOORS = 2.0  # own weights: int8's share of the floor
REFERENCE_TOKENS, ATTENTION_TOKENS = 128, 256
ATTENTION_FORMATS = ["f16", "int8", "fp8", "int8/int4", "int4"]
WITHOUT_ATTENTION = ("gemma3",)  # kv_numpy.py has no norms of Q and K
SIZE_LIMITS = {"f16": 0.88, "bf16": 0.9, "f32": 2.0, "int8": 0.45, "fp8": 0.47, "int8/f16": 0.69, "f16/int8": 0.69, "int4": 0.3}  # of the bytes of a snapshot, in those of f16 without compression


def options(kv):
    k, _, v = kv.partition("/")
    return ["--kv-k", k, "--kv-v", v] if v else ["--kv", k]


def logits(program, model, window, kv, folder):
    path = Path(folder) / kv.replace("/", "_")
    subprocess.run([program, "logits", "-m", model, "--tokens", ",".join(map(str, window)), "-o", path, "--all", *options(kv)], check=True,
                   stderr=subprocess.DEVNULL)
    rows = np.fromfile(path, "<f4")
    if rows.size % len(window) or not np.isfinite(rows).all():
        sys.exit(f"FAILED: {kv}: {rows.size} logits for {len(window)} tokens, or one that is not finite")
    return rows.reshape(len(window), -1)


def divergence(truth, other):
    """KL(truth || other) of each row."""
    out = []
    for i in range(0, len(truth), ROWS_AT_ONCE):
        p, q = log_softmax(truth[i:i + ROWS_AT_ONCE]), log_softmax(other[i:i + ROWS_AT_ONCE])
        out.extend((np.exp(p) * (p - q)).sum(axis=-1))
    return out


class Fp8Model(reference.Model):
    """K and V as e4m3 times a scale per token and KV head, as kvrt.h says of KVRT_KV_FP8 but computed here."""

    def stored(self, t):
        t = t.astype(np.float32)
        scale = (np.abs(t).max(-1, keepdims=True) / 448).astype(np.float16).astype(np.float32)
        x = t / np.where(scale == 0, 1, scale)
        unit = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-30))), -6) - 3)
        return np.clip(np.round(x / unit) * unit, -448, 448).astype(np.float32) * scale


def cost_in_numpy(model, window):
    truth, rounded = (m.head(m.hidden(window)) for m in (reference.Model(model, np.float32), Fp8Model(model, np.float32)))
    return np.mean(divergence(truth, rounded))


def tail(values):
    return float(np.quantile(values, 0.999))


def peer_windows(program, which, model, windows):
    """Windows for the comparison with the peer. Of small models the whole text: of 2,048 positions the 99.9 % is one of two or three."""
    if which not in WHOLE_TEXT:
        return windows
    text = subprocess.run([program, "tokenize", "-m", model, "-f", TEXT, "--json"], check=True, capture_output=True, text=True).stdout
    tokens, start = json.loads(text)["tokens"], windows[0][:1] if which == "gemma3" else []
    return [start + tokens[i:i + 512 - len(start)] for i in range(0, len(tokens) - 512, 512)]


def measure_peer(python, model, windows, folder):
    """Mean and 99.9 % of llama.cpp's 4-bit KV to its own f16."""
    def rows(window, types):
        path = Path(folder) / "peer"
        subprocess.run([python, HERE / "peer_logits.py", model, ",".join(map(str, window)), path, types], check=True, stderr=subprocess.DEVNULL)
        return np.fromfile(path, "<f4").reshape(len(window), -1)

    found = {types: [] for types in PEER_TYPES.values()}
    for window in windows:
        truth = rows(window, "f16/f16")
        for types, all_of_it in found.items():
            all_of_it.extend(divergence(truth, rows(window, types)))
    return {types: {"mean": float(np.mean(kl)), "tail": tail(kl), "positions": len(kl)} for types, kl in found.items()}


def keep_peer(python, which, figures):
    version = subprocess.run([python, HERE / "peer_logits.py", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    kept = json.loads(PEER.read_text()) if PEER.is_file() else {}
    kept[which] = {"peer": version, **figures}
    PEER.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(kept[which])


def beside_peer(program, which, model, windows, folder):
    """True: kvrt's 4-bit KV costs more beside the peer's than it may."""
    found = {kv: [] for kv in PEER_TYPES}
    for window in windows:
        truth = logits(program, model, window, "f16", folder)
        for kv, all_of_it in found.items():
            all_of_it.extend(divergence(truth, logits(program, model, window, kv, folder)))
    kept, failed = json.loads(PEER.read_text()).get(which) if PEER.is_file() else None, False
    for kv, types in PEER_TYPES.items():
        if not kept:
            print(f"{kv:8} no figures of the peer for {which}: --peer-python measures them")
            continue
        mean, worst, peer = np.mean(found[kv]), tail(found[kv]), kept[types]
        print(f"{kv:8} {mean / peer['mean']:.3f} x the mean of {kept['peer']} {types} ({peer['mean']:.3e}), limit {PEER_MEAN}; "
              f"{worst / peer['tail']:.3f} x its 99.9 % ({peer['tail']:.3e}), limit {PEER_TAIL}; {len(found[kv])} positions")
        if len(found[kv]) != peer["positions"]:
            sys.exit(f"FAILED: {PEER} is of {peer['positions']} positions: --peer-python makes it again")
        failed |= not (mean <= PEER_MEAN * peer["mean"] and worst <= PEER_TAIL * peer["tail"])
    return failed


def above_floor(program, source, windows, folder):
    """True: with the file's own weights int8 costs more of the floor than it may."""
    kl = {"f32": [], "int8": []}
    for window in windows:
        truth = logits(program, source, window, "f16", folder)
        for kv, all_of_it in kl.items():
            all_of_it.extend(divergence(truth, logits(program, source, window, kv, folder)))
    floor, int8 = (np.mean(kl[kv]) for kv in ("f32", "int8"))
    print(f"own weights: int8 {int8:.3e}, floor (f32 KV) {floor:.3e}: {int8 / floor:.2f}, limit {FLOORS}")
    return not int8 <= FLOORS * floor


def attention(which, model, window):
    """Prints, of each format, the KL of attention's probabilities to those of f32 KV, by layer."""
    if which in WITHOUT_ATTENTION:
        print("attention: not of this model, whose Q and K are normalized")
        return
    with np.errstate(over="ignore"):
        found = AttentionKl(model, np.float32).by_layer(window[:ATTENTION_TOKENS], ATTENTION_FORMATS)
    for kv, layers in found.items():
        worst = int(np.argmax(layers))
        print(f"attention, {kv:10} mean KL to f32 {np.mean(layers):.2e}, first layer {layers[0]:.2e}, worst layer {worst}: {layers[worst]:.2e}, "
              f"last layer {layers[-1]:.2e}")
    print(json.dumps({"attention_kl": found, "model": which, "positions": len(window[:ATTENTION_TOKENS])}))


def snapshot_ratio(program, source, tokens, token_bytes, kv, folder):
    """Bytes of the store's segments over those of the tokens' KV in f16."""
    store = Path(folder) / f"store_{kv.replace('/', '_')}"
    subprocess.run([program, "run", "-m", source, *options(kv), "--tokens", ",".join(map(str, tokens)), "-n", "0", "--store", store,
                    "--session", "s"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return sum(path.stat().st_size for path in (store / "segs").rglob("*.seg")) / (len(tokens) * token_bytes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvrt")
    parser.add_argument("--attention", action="store_true")
    parser.add_argument("--peer-python")
    parser.add_argument("--which", choices=WHICH, default="smollm2")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--windows", type=int, default=4)
    args = parser.parse_args()
    if not args.kvrt and not args.attention:
        parser.error("--kvrt or --attention expected")
    source = args.model or WHICH[args.which].model
    if not source.is_file():
        print(f"skipped: {source} is not there")
        sys.exit(77)
    windows = json.loads(WHICH[args.which].tokens.read_text())["windows"][-args.windows:]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "f16.gguf")
        dequantized(source, model)
        if args.attention:
            return attention(args.which, model, windows[0])
        for_peer = peer_windows(args.kvrt, args.which, source, windows)
        if args.peer_python:
            return keep_peer(args.peer_python, args.which, measure_peer(args.peer_python, model, for_peer, folder))
        limits = LIMITS | OWN_LIMITS.get(args.which, {})
        found = {kv: [] for kv in limits}
        for window in windows:
            truth = logits(args.kvrt, model, window, "f16", folder)
            for kv in limits:
                found[kv].extend(divergence(truth, logits(args.kvrt, model, window, kv, folder)))
        for kv, times in COSTS_AS_IN_NUMPY.get(args.which, {}).items():
            mean, limit = np.mean(found.pop(kv)[-len(windows[-1]):]), times * cost_in_numpy(model, windows[-1])
            print(f"{kv:8} mean KL to f16 {mean:.3e} over the last window; limit {limit:.1e}, {times} x numpy's own")
            failed |= not mean <= limit
        for kv, limit in limits.items():
            if kv not in found:
                continue
            mean = np.mean(found[kv])
            print(f"{kv:8} mean KL to f16 {mean:.3e} over {len(found[kv])} positions, 99.9 % {tail(found[kv]):.3e}; limit {limit or 'none'}")
            failed |= limit is not None and not mean <= limit
        failed |= beside_peer(args.kvrt, args.which, model, for_peer, folder) | above_floor(args.kvrt, source, windows, folder)
        window = windows[0][:REFERENCE_TOKENS]
        exact = reference.Model(model, np.float32)
        truth = exact.head(exact.hidden(window, kv_f16=False))
        off = {kv: np.sqrt(np.mean((logits(args.kvrt, model, window, kv, folder) - truth) ** 2)) for kv in ("f32", "f16", "bf16", "int8", "fp8", "int4")}
        print("logits off the f32 reference by " + ", ".join(f"{kv} {o:.2e}" for kv, o in off.items()))
        failed |= not off["f32"] <= off["f16"] <= off["int8"]
        attention(args.which, model, windows[0])
        tokens, token_bytes = sum(windows, []), 2 * 2 * sum(exact.kv_heads) * exact.head_dim
        for kv, limit in SIZE_LIMITS.items():
            ratio = snapshot_ratio(args.kvrt, source, tokens, token_bytes, kv, folder)
            print(f"{kv:8} snapshot of {len(tokens)} tokens {ratio:.4f} x raw f16, limit {limit}")
            failed |= not ratio <= limit
    if failed:
        sys.exit("FAILED: a KV format costs more than it may, or its snapshots do")


if __name__ == "__main__":
    main()
