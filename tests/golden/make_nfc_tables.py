#!/usr/bin/env python3
"""Writes runtime/text/unicode/nfc.inc: the tables of NFC as PyPI tokenizers' normalizer has it, asked for each code point. Its Unicode is older than
Python's, whose classes are the only guess: each is tried.

usage: make_nfc_tables.py > runtime/text/unicode/nfc.inc
"""
import unicodedata

import tokenizers
from tokenizers.normalizers import NFC, NFD

POINTS = [chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by a rule
compose, decompose = NFC().normalize_str, NFD().normalize_str


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


def ranges(rows):
    """(code, value) in order -> [first, last, value]"""
    out = []
    for c, value in rows:
        if out and out[-1][1] == c - 1 and out[-1][2] == value:
            out[-1][1] = c
        else:
            out.append([c, c, value])
    return out


def class_of(c):
    """The combining class: Python's, or 0 where the normalizer does not know the mark yet."""
    expected = unicodedata.combining(c)
    if not expected: return 0
    other = "\u0301" if expected != 230 else "\u0316"  # of the classes 230 and 220
    before, after = decompose("b" + c + other), decompose("b" + other + c)
    if before != after:
        assert (before, after) == ("b" + c + other, "b" + other + c), hex(ord(c))
        return 0
    return expected


def main():
    whole = {c: decompose(c) for c in POINTS if ord(c) not in HANGUL and decompose(c) != c}
    pairs = {}
    for c, parts in whole.items():
        first = compose(parts[:-1])
        if len(parts) > 1 and len(first) == 1 and compose(first + parts[-1]) == c: pairs[first, parts[-1]] = c
    classes = {c: class_of(c) for c in POINTS}
    seconds = {b for _, b in pairs} | {chr(c) for c in [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]}
    # What stands as it is, whatever comes before it and whatever starter comes after it.
    unstable = [c for c in POINTS if classes[c] or c in seconds or compose(c) != c]
    assert ord(unstable[0]) >= 0x300 and not any(0x4000 <= ord(c) < 0xA000 for c in unstable)  # nfc.cc
    assert max(map(len, whole.values())) <= 4
    print(f"// By tests/golden/make_nfc_tables.py: tokenizers {tokenizers.__version__}.")
    print_rows("kClasses", "ClassRange", ranges((ord(c), k) for c, k in classes.items() if k))
    print_rows("kUnstable", "UnstableRange", [row[:2] for row in ranges((ord(c), 0) for c in unstable)])
    print_rows("kWhole", "WholeRow", [[ord(c), *map(ord, to), *([0] * (4 - len(to)))] for c, to in whole.items()])
    print_rows("kPairs", "PairRow", sorted([ord(a), ord(b), ord(c)] for (a, b), c in pairs.items()))


main()
