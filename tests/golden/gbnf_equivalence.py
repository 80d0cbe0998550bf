#!/usr/bin/env python3
"""GBNF against a recognizer written here, on random small grammars: an Earley parser over characters, by the notation's definition.

  gbnf_equivalence.py DUMP_PROGRAM [SEED]

A quarter of them name tokens, too, of the vocabulary's <think>, </think> (control tokens) and <call> (which is text as well).

Of each grammar, every text up to a length over its alphabet's sample is accepted by both or by neither, every answer that a sampler makes
is accepted here, and a grammar that is refused for what it is (left recursion, nothing fits) is that by the recognizer's own analysis.
"""
import itertools
import random
import struct
import subprocess
import sys

ALPHABET = ["a", "b", "\u00e9", "\n", "\U0001F600"]
GRAMMARS, LENGTH = 800, 4
TOKENS = ["<think>", "</think>", "<call>"]
FIRST_ID = 266  # of TOKENS in the vocabulary
LIMIT = b"\xff"  # the matcher said that it leaves readings out


# ---- grammars: an expression is ("lit", text), ("class", negated, [(lo, hi)...]), ("any",), ("ref", rule), ("seq", [e...]), ("alt", [e...]),
# ("rep", e, min, max or None), ("token", negated, text)

def random_class(rng):
    ranges = []
    for _ in range(rng.randint(1, 2)):
        lo, hi = sorted(rng.choice(ALPHABET + ["c", "A", "z", "\u4e00"]) for _ in range(2))
        ranges.append((lo, hi if rng.random() < 0.5 else lo))
    return ("class", rng.random() < 0.35, ranges)


def random_expression(rng, rules, depth, tokens=False):
    if tokens and rng.random() < 0.3:
        return ("token", rng.random() < 0.35, rng.choice(TOKENS + ["a", "\n"]))
    kind = rng.choices(["lit", "class", "any", "ref", "seq", "alt", "rep"], [4, 2, 0.3, 3, 3, 3, 2] if depth < 3 else [4, 2, 0.3, 2, 0, 0, 0])[0]
    sub = lambda: random_expression(rng, rules, depth + 1, tokens)
    if kind == "lit" and tokens and rng.random() < 0.15:
        return ("lit", "<call>")
    if kind == "lit":
        return ("lit", "".join(rng.choice(ALPHABET[:4] if rng.random() < 0.8 else ALPHABET) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))))
    if kind == "class":
        return random_class(rng)
    if kind == "any":
        return ("any",)
    if kind == "ref":
        return ("ref", rng.choice(rules))
    if kind == "rep":
        return ("rep", sub(), *rng.choice([(0, 1), (0, None), (1, None), (2, 2), (1, 3), (2, None), (0, 2), (0, 0)]))
    return (kind, [sub() for _ in range(rng.randint(1, 3))])


def escaped(c, rng, special):
    names = {"\n": "\\n", "\\": "\\\\", "\"": "\\\""}
    if c in names or c in special:
        return names.get(c, "\\" + c)
    code, kind = ord(c), rng.randrange(6)
    if kind == 0 and code < 0x100:
        return "\\x%02x" % code
    if kind == 1 and code < 0x10000:
        return "\\u%04X" % code
    return "\\U%08x" % code if kind == 2 else c


def spelled(e, rng, nested):
    gap = lambda: rng.choice([" ", "  ", "\t"] + (["\n ", " # note ] \" |\n"] if nested else []))
    if e[0] == "lit":
        return '"' + "".join(escaped(c, rng, "") for c in e[1]) + '"'
    if e[0] == "class":
        return "[" + "^" * e[1] + "".join(escaped(lo, rng, "]^-") + ("" if lo == hi and rng.random() < 0.7 else "-" + escaped(hi, rng, "]^-")) for lo, hi in e[2]) + "]"
    if e[0] == "any":
        return "."
    if e[0] == "ref":
        return e[1]
    if e[0] == "token":
        by_id = e[2] not in TOKENS or rng.random() < 0.4
        return "!" * e[1] + ("<[%d]>" % (FIRST_ID + TOKENS.index(e[2]) if e[2] in TOKENS else ord(e[2])) if by_id else e[2])
    inside = lambda x: spelled(x, rng, True)
    if e[0] == "seq":
        return "(" + gap() + gap().join(map(inside, e[1])) + gap() + ")"
    if e[0] == "alt":
        return "(" + (gap() + "|" + gap()).join(map(inside, e[1])) + ")"
    low, high = e[2], e[3]
    signs = {(0, 1): ["?", "{0,1}"], (0, None): ["*", "{0,}"], (1, None): ["+", "{1,}"]}.get((low, high), [])
    signs = signs or ["{%d}" % low if low == high else "{%d,%s}" % (low, "" if high is None else high)]
    return "(" + inside(e[1]) + ")" + rng.choice(signs)


# ---- productions: symbols are ("set", negated, ranges), ("token", negated, text) or a name; the grammar's own names and fresh ones

class Productions:
    def __init__(self, grammar):
        self.of, self.fresh = {}, 0
        for name, expression in grammar.items():
            self.of[name] = [self.symbols(expression)]

    def new(self, alternatives):
        self.fresh += 1
        self.of[f"#{self.fresh}"] = alternatives
        return f"#{self.fresh}"

    def symbols(self, e):
        if e[0] == "lit":
            return [("set", False, [(c, c)]) for c in e[1]]
        if e[0] == "class":
            return [("set", e[1], e[2])]
        if e[0] == "any":
            return [("set", True, [])]
        if e[0] == "token":
            return [e]
        if e[0] == "ref":
            return [e[1]]
        if e[0] == "seq":
            return [s for x in e[1] for s in self.symbols(x)]
        if e[0] == "alt":
            return [self.new([self.symbols(x) for x in e[1]])]
        one, low, high = self.new([self.symbols(e[1])]), e[2], e[3]
        if high is None:
            more = self.new([[]])
            self.of[more].append([one, more])
            return [one] * low + [more]
        tail = []
        for _ in range(high - low):
            tail = [self.new([[], [one] + tail])]
        return [one] * low + tail

    def fixpoint(self, holds):
        found, more = set(), True
        while more:
            more = False
            for name, alternatives in self.of.items():
                if name not in found and any(all(holds(s, found) for s in a) for a in alternatives):
                    found.add(name)
                    more = True
        return found

    def nullable(self):
        return self.fixpoint(lambda s, found: isinstance(s, str) and s in found)

    def productive(self):
        full = lambda s: s[1] or s[2]  # a token is always there
        return self.fixpoint(lambda s, found: s in found if isinstance(s, str) else full(s))

    def left_recursive(self):
        nullable, productive = self.nullable(), self.productive()
        first = {name: set() for name in self.of}
        for name, alternatives in self.of.items():
            for a in alternatives:
                if any(isinstance(s, str) and s not in productive for s in a):
                    continue
                for s in a:
                    if isinstance(s, str):
                        first[name].add(s)
                    if not isinstance(s, str) or s not in nullable:
                        break
        for name in [n for n in self.of if not n.startswith("#")]:
            seen, open_ = set(), [name]
            while open_:
                for to in first[open_.pop()] - seen:
                    seen.add(to)
                    open_.append(to)
            if name in seen:
                return True
        return False


def cells(text, tokens):
    """(character or "" for what is no text, the token that begins here or "", its cells), cell by cell."""
    out, at = [], 0
    while at < len(text):
        special = next((t for t in TOKENS if tokens and text.startswith(t, at)), text[at])
        if special in TOKENS[:2]:
            out.append(("", special, 1))
        else:
            out += [(c, special if i == 0 else "", len(special)) for i, c in enumerate(special)]
        at += len(special)
    return out


def reads(symbol, cell):
    """How many cells the symbol takes here; 0: it does not fit."""
    if symbol[0] == "token":
        return cell[2] if cell[1] and (cell[1] == symbol[2]) != symbol[1] else 0
    return int(cell[0] != "" and matches(symbol, cell[0]))


def matches(symbol, c):
    return any(lo <= c <= hi for lo, hi in symbol[2]) != symbol[1]


def recognizes(p, nullable, text):
    """Earley's algorithm; nullable names are stepped over when predicted (Aycock and Horspool)."""
    columns = [set() for _ in range(len(text) + 1)]

    def add(column, item, work):
        if item not in columns[column]:
            columns[column].add(item)
            work.append(item)

    work = []
    for i, _ in enumerate(p.of["root"]):
        add(0, ("root", i, 0, 0), work)
    for at in range(len(text) + 1):
        work = list(columns[at])
        while work:
            name, alternative, dot, origin = work.pop()
            symbols = p.of[name][alternative]
            if dot == len(symbols):
                for other in list(columns[origin]):
                    o_symbols = p.of[other[0]][other[1]]
                    if other[2] < len(o_symbols) and o_symbols[other[2]] == name:
                        add(at, (other[0], other[1], other[2] + 1, other[3]), work)
            elif isinstance(symbols[dot], str):
                for i, _ in enumerate(p.of[symbols[dot]]):
                    add(at, (symbols[dot], i, 0, at), work)
                if symbols[dot] in nullable:
                    add(at, (name, alternative, dot + 1, origin), work)
            elif at < len(text) and (n := reads(symbols[dot], text[at])):
                columns[at + n].add((name, alternative, dot + 1, origin))
    return any(n == "root" and d == len(p.of[n][i]) and o == 0 for n, i, d, o in columns[-1])


def derived(p, productive, symbol, rng, depth):
    """A text of a name's, or None where the tries run too deep."""
    if symbol[0] == "token":
        return rng.choice([t for t in TOKENS + ["a", "b"] if t != symbol[2]]) if symbol[1] else symbol[2]
    if not isinstance(symbol, str):
        fits = [c for c in ALPHABET + ["c", "z"] if matches(symbol, c)] or [symbol[2][0][0]]
        return rng.choice(fits) if matches(symbol, fits[0]) else None
    if depth > 12:
        return None
    alternatives = [a for a in p.of[symbol] if all(not isinstance(s, str) or s in productive for s in a)]
    parts = [derived(p, productive, s, rng, depth + 1) for s in rng.choice(alternatives)] if alternatives else [None]
    return None if None in parts else "".join(parts)


def sized(data):
    return struct.pack("<I", len(data)) + data


def main(program, seed):
    rng = random.Random(seed)
    texts = ["".join(t) for n in range(LENGTH + 1) for t in itertools.product(ALPHABET[:4] if n > 2 else ALPHABET, repeat=n)]
    cases, request = [], b""
    for _ in range(GRAMMARS):
        rules = ["root", "x", "y-1", "Z9"][:rng.randint(1, 4)]
        tokens = rng.random() < 0.25
        grammar = {name: random_expression(rng, rules, 0, tokens) for name in rules}
        tokens = "token" in repr(grammar)
        order = rng.sample(rules, len(rules))
        source = "\n".join(f"{name} ::= {spelled(grammar[name], rng, False)}" + rng.choice(["", " ", " # end", "\r"]) for name in order)
        if tokens:  # one token for each character
            with_tokens = [t for t in ["".join(rng.choice(["a", "b", "\n"] + 2 * TOKENS) for _ in range(rng.randint(1, 5))) for _ in range(60)]]
        sample = with_tokens + ["", "a", "<call>"] if tokens else rng.sample(texts, 40) + texts[:6] + ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(5, 9))) for _ in range(6)]
        p = Productions(grammar)
        fitting = [derived(p, p.productive(), "root", rng, 0) for _ in range(40)]
        sample += sorted({t for t in fitting if t is not None and len(t) <= 40 and (not tokens or t.isascii())})
        cases.append((source, p, sample, tokens))
        request += struct.pack("<IIIIQ", 0, 4, len(sample), 12, rng.getrandbits(40)) + sized(source.encode()) + b"".join(sized(t.encode()) for t in sample)
    run = subprocess.run([program, "bytes"], input=request, stdout=subprocess.PIPE)
    assert run.returncode == 0, f"the dump exits with {run.returncode}"
    data, at = run.stdout, 0

    def take(n):
        nonlocal at
        at += n
        return data[at - n:at]

    faults, yes, no, refused, limited = [], 0, 0, 0, 0
    named = 0
    for source, p, sample, tokens in cases:
        status, = struct.unpack("<I", take(4))
        message = take(struct.unpack("<I", take(4))[0]).decode()
        nothing, left = "root" not in p.productive(), p.left_recursive()
        expected = "nothing fits" if nothing else "left recursion" if left else ""
        if bool(status) != bool(expected) or expected not in message:
            faults.append(f"{source!r}: {message!r}, expected {expected!r}")
        if status:
            refused += 1
            continue
        answers = [take(struct.unpack("<I", take(4))[0]) for _ in range(4)]
        taken = take(len(sample))
        if expected:
            continue
        nullable = p.nullable()
        for text in answers:
            if tokens:  # of what tokens its text is nobody says
                continue
            if text == LIMIT:
                limited += 1
                continue
            text = text.decode()
            if len(text) <= 60 and not recognizes(p, nullable, cells(text, False)):
                faults.append(f"{source!r}: answer {text!r}")
        for text, mine in zip(sample, taken):
            if mine == 2:
                limited += 1
                continue
            theirs = recognizes(p, nullable, cells(text, tokens))
            named += tokens and theirs
            yes, no = yes + theirs, no + (not theirs)
            if theirs != bool(mine):
                faults.append(f"{source!r}: {text!r} is {'' if theirs else 'not '}an answer")
    assert at == len(data)
    assert limited < 100, limited
    assert yes > 2000 and no > 10000 and refused > 20 and named > 500, (yes, no, refused, named)
    print(f"{GRAMMARS} grammars, {refused} refused, {yes} texts accepted, {named} of them where tokens are named, {no} not, {limited} met a limit, {len(faults)} faults (seed {seed})")
    for line in faults[:20]:
        print(line)
    sys.exit(bool(faults))


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
