#!/usr/bin/env python3
"""Holds `kvrt logits` against tiny/*.golden, *.golden8 and *.golden32, from the command line down to the kernels.

  check_tiny.py PROGRAM      exit 1 on a difference, 77 when numpy or gguf is missing
"""
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

TINY = Path(__file__).parent / "tiny"
# Logits have a standard deviation of 2.5. A value that lies between two codes (f16 of K and V, 8 bits of an input) may round the
# other way than in double precision. For f16 that costs up to 1e-3; for 8 bits up to 0.3 in that row, so most rows must be close.
FLOAT_MAX, EIGHT_BITS_CLOSE, EIGHT_BITS_MAX, EXACT_MAX = 2e-3, 2e-3, 0.5, 0.8
# Shares of the largest logit of a row: against transformers with K and V rounded to f16 as kvrt keeps them, and with nothing rounded.
ARCH_MAX, ARCH_UNROUNDED_MAX = 1e-4, 4e-3


def logits(program, model, tokens, vocab, folder):
    out = Path(folder) / "logits"
    ids = ",".join(str(t) for t in tokens)
    subprocess.run([program, "logits", "-m", str(model), "--tokens", ids, "-o", str(out), "--all"], check=True, stderr=subprocess.PIPE)
    rows = np.fromfile(out, "<f4")
    if rows.size != len(tokens) * vocab:
        sys.exit(f"{model.name}: {rows.size} logits, expected {len(tokens)} x {vocab}")
    return rows.reshape(len(tokens), vocab)


def far(own, truth):
    """Largest difference of each row; a NaN is infinitely far."""
    return np.nan_to_num(np.abs(own - truth), nan=np.inf).max(axis=1)


def check(program, golden, folder):
    tokens, rows, exact = reference.read_golden(golden)
    own = logits(program, golden.with_suffix(".gguf"), tokens, exact.shape[1], folder)[rows]
    unrounded = golden.with_suffix(".golden32")
    if unrounded.exists():
        scale = np.abs(exact).max(axis=1)
        worst, plain = (far(own, exact) / scale).max(), (far(own, reference.read_golden(unrounded)[2]) / scale).max()
        return worst <= ARCH_MAX and plain <= ARCH_UNROUNDED_MAX, (
            f"worst relative difference {worst:.1e}, limit {ARCH_MAX}; from unrounded K and V {plain:.1e}, limit {ARCH_UNROUNDED_MAX}")
    eight_bits = golden.with_suffix(".golden8")
    if not eight_bits.exists():
        worst = far(own, exact).max()
        return worst <= FLOAT_MAX, f"worst difference {worst:.2e}, limit {FLOAT_MAX}"
    rounded = far(own, reference.read_golden(eight_bits)[2])
    close, worst, worst_exact = int((rounded <= EIGHT_BITS_CLOSE).sum()), rounded.max(), far(own, exact).max()
    good = 2 * close >= len(rows) and worst <= EIGHT_BITS_MAX and worst_exact <= EXACT_MAX
    return good, (f"{close} of {len(rows)} rows within {EIGHT_BITS_CLOSE}, at least half wanted; "
                  f"worst {worst:.3f}, limit {EIGHT_BITS_MAX}; from unrounded inputs {worst_exact:.3f}, limit {EXACT_MAX}")


def main():
    goldens = sorted(TINY.glob("*.golden"))
    if len(sys.argv) != 2 or not goldens:
        sys.exit(__doc__)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for golden in goldens:
            good, text = check(sys.argv[1], golden, folder)
            failed += not good
            print(f"{'ok    ' if good else 'FAILED'} {golden.stem}: {text}")
    sys.exit(failed != 0)


main()
