#!/usr/bin/env python3
"""Writes runtime/text/unicode/tables.inc: case mappings and printability as Python's str has them.

usage: make_unicode_tables.py > runtime/text/unicode/tables.inc
"""
import sys
import unicodedata

LAST = 0x110000


def runs(pairs):
    """(code, delta) in order -> [first, last, step, delta]: neighbours with one delta, 1 or 2 apart."""
    out = []
    for code, delta in pairs:
        run = out[-1] if out else None
        if run and run[3] == delta and (run[0] == run[1] and code - run[1] in (1, 2) or code - run[1] == run[2]):
            run[2] = code - run[1]
            run[1] = code
        else:
            out.append([code, code, 1, delta])
    return out


def print_rows(name, kind, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ", ".join(hex(x) if i < 2 or kind == "Expansion" else str(x) for i, x in enumerate(row)) + "},"
        if len(line) + len(text) > 138:
            print(line)
            line = "   "
        line += text
    print(line + "\n};")


def main():
    points = [c for c in range(0x80, LAST) if not 0xD800 <= c < 0xE000]
    print(f"// By tests/golden/make_unicode_tables.py: Unicode {unicodedata.unidata_version}. Code points above U+007F.")
    for name, change in (("Upper", str.upper), ("Lower", str.lower), ("Title", str.title)):
        mapped = [(c, change(chr(c))) for c in points]
        if name == "Title":  # where it is not upper case
            mapped = [(c, to) for c, to in mapped if to != chr(c).upper()]
        print_rows(f"k{name}", "CaseRun", runs((c, ord(to) - c) for c, to in mapped if len(to) == 1 and (ord(to) != c or name == "Title")))
        print_rows(f"k{name}Long", "Expansion", [[c, *map(ord, to), *([0] * (3 - len(to)))] for c, to in mapped if len(to) > 1])
    hidden = []
    for c in range(0x80, LAST):
        if chr(c).isprintable():
            continue
        if hidden and hidden[-1][1] == c - 1:
            hidden[-1][1] = c
        else:
            hidden.append([c, c])
    print_rows("kHidden", "Range", hidden)


sys.stdout.reconfigure(encoding="utf-8")
main()
