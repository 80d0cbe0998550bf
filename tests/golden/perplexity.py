#!/usr/bin/env python3
"""`kvrt perplexity` over a whole text, held against an f32 forward pass of the same dequantized weights.

  perplexity.py --kvrt PROGRAM [--which gemma3]     exit 1 when it is more than PERPLEXITY_MAX off the stored figure of the reference
  perplexity.py --kvrt PROGRAM --store [...]         compute that figure with reference.py and keep it in data/perplexity*.json

The text is ../data/text_kjv.txt in windows of 512 tokens, the second half of each scored. Exit 77: the model is not there, or numpy or gguf
is not.
"""
import argparse
import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

try:
    import gguf
    import numpy as np
    import reference
    from kl import WHICH, log_softmax
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

HERE = Path(__file__).parent
TEXT, CONTEXT, PERPLEXITY_MAX = HERE.parent / "data" / "text_kjv.txt", 512, 0.005


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def reference_losses(path, tokens, bos):
    """The mean negative log-likelihood of each window's second half."""
    model = reference.Model(path, np.float32)
    losses = []
    for begin in range(0, len(tokens) - CONTEXT + 1, CONTEXT):
        window = tokens[begin:begin + CONTEXT]
        if bos is not None:
            window[0] = bos
        hidden = model.hidden(window, kv_f16=False)
        scored = range(CONTEXT // 2, CONTEXT - 1)
        rows = log_softmax(model.head(hidden[scored.start:scored.stop]))
        losses.append(-float(np.mean([rows[p - scored.start, window[p + 1]] for p in scored])))
        print(f"window {len(losses)}: perplexity so far {math.exp(np.mean(losses)):.4f}", flush=True)
    return losses


def store(kvrt, path, data):
    """The tokens are kvrt's, whose tokenizer golden_tokenizer holds against others."""
    reader = gguf.GGUFReader(str(path))
    value = lambda key: field.contents() if (field := reader.get_field(key)) else None
    tokens = json.loads(subprocess.run([kvrt, "tokenize", "-m", str(path), "-f", str(TEXT), "--json"], check=True,
                                       capture_output=True, text=True).stdout)["tokens"]
    bos = value("tokenizer.ggml.bos_token_id") if value("tokenizer.ggml.add_bos_token") else None
    losses = reference_losses(str(path), tokens, bos)
    data.write_text(json.dumps({"model_sha256": digest(path), "text_sha256": digest(TEXT), "context": CONTEXT, "tokens": len(tokens),
                                "perplexity": round(math.exp(np.mean(losses)), 6), "windows_nll": [round(x, 6) for x in losses]},
                               indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvrt", required=True)
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--which", choices=WHICH, default="smollm2")
    args = parser.parse_args()
    path, data = WHICH[args.which].model, HERE / "data" / WHICH[args.which].tokens.name.replace("kl_tokens", "perplexity")
    if not path.is_file():
        print(f"skipped: {path} is not there")
        sys.exit(77)
    if args.store:
        store(args.kvrt, path, data)
    stored = json.loads(data.read_text())
    if (stored["model_sha256"], stored["text_sha256"]) != (digest(path), digest(TEXT)):
        sys.exit(f"{data} is of another model or text: make it again with --store")
    got = json.loads(subprocess.run([args.kvrt, "perplexity", "-m", str(path), "-f", str(TEXT), "--context", str(CONTEXT), "--json"],
                                    check=True, capture_output=True, text=True).stdout)
    off = got["perplexity"] / stored["perplexity"] - 1
    print(f"perplexity {got['perplexity']:.4f} over {got['tokens_scored']} tokens in {got['windows']} windows, the reference's "
          f"{stored['perplexity']:.4f}: {100 * off:+.3f} %, limit {100 * PERPLEXITY_MAX} %")
    if got["windows"] != len(stored["windows_nll"]) or not abs(off) <= PERPLEXITY_MAX:
        sys.exit("FAILED")


main()
