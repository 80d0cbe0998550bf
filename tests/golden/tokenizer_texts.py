"""Texts to hold tokenizers against: mixed scripts, code, emoji, numbers, white space of all kinds, control characters; from a fixed seed.

Characters are those that Unicode 14 assigns (PCRE2 10.42's tables), and noncharacters: the other side may know later ones.
"""
import random
import re
import unicodedata

SEED = 20240611


# Characters assigned in it are letters and numbers for both sides; a newer Python's own table would let later ones in.
UNICODE = unicodedata if unicodedata.unidata_version == "14.0.0" else unicodedata.ucd_3_2_0


def newer_than_unicode_14(c):
    """Unassigned there, and so perhaps assigned since; noncharacters never are."""
    return UNICODE.category(chr(c)) == "Cn" and not (c & 0xFFFE == 0xFFFE or 0xFDD0 <= c <= 0xFDEF)


def generate(size, usable=lambda c: True):
    """Texts of `size` bytes together or more, with no character that is not `usable`."""
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

    run = size // 40
    texts = ["a" * run, " " * run + "x", "\n" * run, " \n" * (run // 2), "7" * (run // 4), "!" * run, "é" * run, "ab" * run, " " * run + "ก",
             "1234 ²12345६७८९ Ⅷ123", "", " ", "a  1 b", "1  a", "  12  汉字  ⺀!", "'ſ 'S 'Ll'lL'K", "\u2581", " \u2581a", "x" * 300 + "ſ"]
    if size > 500_000:
        texts += ["".join(bmp), " ".join(bmp)]
    texts = ["".join(c for c in t if usable(c)) for t in texts]
    total = sum(len(t.encode()) for t in texts)
    while total < size:
        text = "".join(c for c in (rng.choice(["", " ", " "]).join(piece() for _ in range(400))) if usable(c))
        texts.append(text)
        total += len(text.encode())
    return texts


def train_texts():
    """Lines for the trainers: text as above, and words that repeat."""
    rng = random.Random(SEED + 1)
    words = "the of and to in a is that for it as was with be by on not he I this are or his from at which but have an had they you were their".split()
    words += ["ing", "tion", "straße", "été", "слово", "мир", "संस्कृत", "हिन्दी", "日本語", "中文", "한국어", "مرحبا", "שלום", "ไทย", "12", "345", "2024", "();", "{\n", "://"]
    lines = [rng.choice(["", " "]).join(rng.choices(words, k=12)) for _ in range(3000)]
    # No markers: kvrt takes a piece that spells one for a control token.
    return lines + [re.sub(r"\0|<\|(im_start|im_end|endoftext)\|>", "", t) for t in generate(120_000) if len(t) < 4000]
