#!/usr/bin/env python3
"""Writes runtime/text/unicode/accents.inc: what BERT's normalizer in PyPI tokenizers takes away, and what it takes for punctuation. Its tables
are of several versions of Unicode, so they are asked for each code point.

usage: make_accent_tables.py > runtime/text/unicode/accents.inc
"""
import tokenizers
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by a rule


def print_rows(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(map(hex, row)) + "},"
        if len(line) + len(text) > 138:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def main():
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean, strip, words = BertNormalizer(**{**off, "clean_text": True}), BertNormalizer(**{**off, "strip_accents": True}), BertPreTokenizer()
    print(f"// By tests/golden/make_accent_tables.py: tokenizers {tokenizers.__version__}. Code points above U+007F.")
    print_rows("kRemoved", "AccentRange", ranges(c for c in POINTS if clean.normalize_str(chr(c)) == ""))
    print_rows("kPunctuation", "AccentRange", ranges(c for c in POINTS if len(words.pre_tokenize_str("a" + chr(c) + "b")) == 3))
    bare = {c: strip.normalize_str(chr(c)) for c in POINTS if c not in HANGUL}
    print_rows("kMarks", "AccentRange", ranges(c for c, to in bare.items() if to == ""))
    print_rows("kBare", "BarePair", [[c, ord(to)] for c, to in bare.items() if len(to) == 1 and ord(to) != c])
    print_rows("kParts", "BareParts", [[c, *map(ord, to), *([0] * (3 - len(to)))] for c, to in bare.items() if len(to) > 1])


main()
