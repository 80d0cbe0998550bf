#!/usr/bin/env python3
"""kvrt's tokens equal those of PyPI tokenizers, built from the same vocabulary and merges, on generated text; and decode to it.

usage: tokenizer_equivalence.py DUMP_PROGRAM [MODEL]     exit 77: skipped, no model or no tokenizers

The text is made from a fixed seed, of characters that Unicode 14 assigns (PCRE2 10.42's tables) and noncharacters, and of bytes for which
the vocabulary has tokens: tokenizers drops a byte without a token silently, kvrt refuses it (tested below).
"""
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

SEED = 20240611
TEXT_BYTES = 1_300_000


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


try:
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
except ImportError as e:
    skip(e)


def byte_symbols():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    symbols = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in symbols:
            symbols[b] = chr(0x100 + len(symbols) - len(printable))
    return symbols


def load(path):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    assert get("model") == "gpt2" and get("pre") == "smollm", (get("model"), get("pre"))
    tokens, types = get("tokens"), get("token_type")
    reference = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in get("merges")]))
    reference.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    reference.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, types) if kind == 3]
    return reference, tokens, special


# Characters assigned in it are letters and numbers for both sides; a newer Python's own table would let later ones in.
UNICODE = unicodedata if unicodedata.unidata_version == "14.0.0" else unicodedata.ucd_3_2_0


def newer_than_unicode_14(c):
    """Unassigned there, and so perhaps assigned since; noncharacters never are."""
    return UNICODE.category(chr(c)) == "Cn" and not (c & 0xFFFE == 0xFFFE or 0xFDD0 <= c <= 0xFDEF)


def generate(usable):
    rng = random.Random(SEED)
    bmp = [chr(c) for c in range(0x10000) if not 0xD800 <= c < 0xE000 and not newer_than_unicode_14(c)]
    astral = [chr(c) for c in [*range(0x10000, 0x14700), *range(0x1D000, 0x1FB00), *range(0x20000, 0x20800), 0xE0001, 0xE0067, 0xF0000, 0x10FFFD]
              if not newer_than_unicode_14(c)]
    scripts = [(0x41, 0x7B), (0xC0, 0x180), (0x370, 0x400), (0x400, 0x500), (0x5D0, 0x5EB), (0x620, 0x64B), (0x905, 0x93A), (0xE01, 0xE3B),
               (0x10A0, 0x10F0), (0x1100, 0x1200), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4)]
    spaces = [" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u0085", "\u180e", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff", "\x1c", "\x1f", "\x0b"]
    emoji = ["👩‍💻", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "🏳️‍🌈", "👍🏽", "❤️", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🤖"]
    code = ["for (int i = 0; i < n; ++i) {\n    sum += a[i] * 0x1F;\n}\n", "def f(x):\n\treturn {'k': x ** 2}  # it's 100%\n",
            "SELECT * FROM t WHERE id=42 AND s <> '';\n", "<div class=\"a-b\">&nbsp;</div>\r\n", "\\begin{x}_{i}^{2}\\end{x}", "https://e.org/?q=a%20b&c=1#2"]
    words = ["don't", "WE'LL", "it's", "I've", "you're", "he'd", "I'm", "'tis", "''s", "'S", "naïve", "e\u0301te\u0301", "Straße", "ﬁne", "x²", "½", "Ⅷ", "٣٤", "१२३", "四"]
    special = ["<|im_start|>user\nhi<|im_end|>\n", "<|endoftext|>", "<|im_", "|>", "<file_sep>"]

    def piece():
        kind = rng.randrange(14)
        if kind < 3:
            low, high = rng.choice(scripts)
            text = "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 12)))
            return "".join(c for c in text if not newer_than_unicode_14(ord(c)))
        if kind == 3: return "".join(rng.choice(bmp) for _ in range(rng.randrange(1, 20)))
        if kind == 4: return "".join(rng.choice(astral) for _ in range(rng.randrange(1, 4)))
        if kind == 5: return rng.choice(emoji)
        if kind == 6: return rng.choice(code)
        if kind == 7: return str(rng.randrange(10 ** rng.randrange(1, 15)))
        if kind == 8: return rng.choice(spaces) * rng.choice([1, 1, 2, 3, 17])
        if kind == 9: return rng.choice(words)
        if kind == 10: return "".join(chr(rng.randrange(0x21, 0x7F)) for _ in range(rng.randrange(1, 9)))
        if kind == 11: return "".join(rng.choice("aeiou\u0300\u0301\u0308\u05b0\u064e") for _ in range(rng.randrange(1, 9)))
        if kind == 12: return rng.choice(special)
        return chr(rng.randrange(0x20))

    texts = ["".join(c for c in bmp if usable(c)), " ".join(c for c in bmp if usable(c)), "a" * 60_000, " " * 30_000 + "x", "\n" * 30_000,
             " \n" * 9_000, "7" * 5_000, "!" * 20_000, "é" * 20_000, "ab" * 20_000, "", " ", "a  1 b", "1  a"]
    total = sum(len(t.encode()) for t in texts)
    while total < TEXT_BYTES:
        text = "".join(c for c in (rng.choice(["", " ", " "]).join(piece() for _ in range(400))) if usable(c))
        texts.append(text)
        total += len(text.encode())
    return texts, total


def dump(program, model, special, data):
    """Length-prefixed texts through the program: tokens of each; checks that they decode to it."""
    out = subprocess.run([program, model, "special" if special else "plain"], input=data, stdout=subprocess.PIPE, check=True).stdout
    at, lists = 0, []
    while at < len(out):
        n = int.from_bytes(out[at:at + 4], "little")
        lists.append([int.from_bytes(out[at + 4 + 4 * i:at + 8 + 4 * i], "little") for i in range(n)])
        at += 4 + 4 * n
    return lists


def main():
    program = sys.argv[1]
    model = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("KVRT_MODEL") or os.path.expanduser("~/.cache/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    if not os.path.exists(model): skip("no model at " + model)
    reference, tokens, special = load(model)
    known = set(tokens)
    missing = {b for b, s in byte_symbols().items() if s not in known}
    texts, total = generate(lambda c: not any(b in missing for b in c.encode()))
    data = b"".join(len(t.encode()).to_bytes(4, "little") + t.encode() for t in texts)
    wrong = 0
    for parse_special in (False, True):
        if parse_special: reference.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
        start = time.monotonic()
        ours = dump(program, model, parse_special, data)
        seconds = time.monotonic() - start
        assert len(ours) == len(texts), (len(ours), len(texts))
        for i, (text, ids) in enumerate(zip(texts, ours)):
            expected = reference.encode(text, add_special_tokens=False).ids
            if ids == expected: continue
            wrong += 1
            if wrong > 5: continue
            k = next((k for k, (a, b) in enumerate(zip(ids, expected)) if a != b), min(len(ids), len(expected)))
            print(f"text {i}: token {k} differs: {[tokens[t] for t in ids[k:k + 4]]} expected {[tokens[t] for t in expected[k:k + 4]]} "
                  f"after {reference.decode(expected[max(0, k - 6):k], skip_special_tokens=False)!r}")
        print(f"special={parse_special}: {len(texts)} texts, {total} bytes, {sum(map(len, ours))} tokens, program {seconds:.2f} s, wrong so far {wrong}")
    for b in sorted(missing & set(range(0x80))):  # refused, never dropped
        run = subprocess.run([program, model, "plain"], input=b"\x02\0\0\0a" + bytes([b]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if run.returncode == 0 or f"byte 0x{b:02x} at byte 1" not in run.stderr.decode():
            print(f"byte 0x{b:02x} without a token: expected a refusal, found {run.returncode} {run.stderr!r}")
            wrong += 1
    sys.exit(1 if wrong else 0)


main()
