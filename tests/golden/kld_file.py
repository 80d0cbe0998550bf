"""The file of predictions that llama-perplexity writes (--kl-divergence-base) and reads (--kl-divergence), in numpy, from its layout alone.

All numbers are little-endian. "_logits_", u32 tokens a window, i32 tokens of the vocabulary, i32 windows, i32 tokens [windows][tokens a window].
Then, of each window, a row for each position from its middle to its last but one: f32 step, f32 least, u16 [vocabulary], and one more if
that is odd. A token's log of its probability is least + step * its value; the best one has 65535, and what is 16 or more below it 0.
"""
import struct

import numpy as np


def rows_of(context):
    return range(context // 2, context - 1)


def write(path, windows, vocabulary, rows):
    """windows: lists of tokens, of one length; rows: the logits [positions of rows_of][vocabulary] of each window, in order."""
    context = len(windows[0])
    with open(path, "wb") as f:
        f.write(b"_logits_" + struct.pack("<Iii", context, vocabulary, len(windows)) + np.asarray(windows, "<i4").tobytes())
        for logits in rows:
            for row in np.asarray(logits, np.float64):
                most = row.max()
                least = max(row.min(), most - 16)
                total = np.log(np.exp(row - most).sum())
                step = np.float32((most - least) / 65535)
                f.write(struct.pack("<ff", step, least - most - total))
                values = np.rint(np.maximum(row - least, 0) / np.float64(step)) if step else np.zeros(vocabulary)
                f.write(np.append(np.minimum(values, 65535), np.zeros(vocabulary % 2)).astype("<u2").tobytes())
