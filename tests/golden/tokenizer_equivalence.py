#!/usr/bin/env python3
"""kvrt's tokens equal those of PyPI tokenizers and sentencepiece, built from the same vocabularies, on generated text; and decode to it.

usage: tokenizer_equivalence.py DUMP_PROGRAM fast|full|long|speed [FAMILY...]      exit 77: skipped, no tokenizers or no sentencepiece

fast: 20 kB of text per family; full: 1 MB, 50 kB for each name of a pre-tokenizer, and SmolLM2's vocabulary where its file is; long: 1 MB for
all, and Gemma 3's vocabulary where its file is. KVRT_VOCABULARIES: the folder models/ of llama.cpp (PyPI's llama_cpp_python has it), whose
ggml-vocab-*.gguf are held against the tokens published with them. speed: as long, and prints MB/s beside the reference's, also of this repository's own text.
"""
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

try:
    import tokenizer_models as m
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)
from tokenizer_texts import generate, newer_than_unicode_14

MODELS = Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))) / "kvrt/models"
SMOLLM = os.environ.get("KVRT_MODEL") or str(MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA = os.environ.get("KVRT_GEMMA") or str(MODELS / "gemma-3-270m-Q4_K_M.gguf")  # not downloaded by default
PROGRAM, MODE, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
SIZE = {"fast": 20_000}.get(MODE, 1_000_000)
PRE_SIZE = {"fast": 20_000, "full": 50_000}.get(MODE, 1_000_000)
ROOT = Path(__file__).resolve().parents[2]
ORDINARY = [p.read_text() for pattern in ("runtime/**/*.cc", "storage/*.md", "*.md", "include/*.h") for p in sorted(ROOT.glob(pattern))] if MODE == "speed" else []
wrong = 0


def program(model, flags, texts, check=True):
    """Length-prefixed texts through the program: tokens of each."""
    data = b"".join(len(t).to_bytes(4, "little") + t for t in (t if isinstance(t, bytes) else t.encode() for t in texts))
    return subprocess.run([PROGRAM, str(model), flags], input=data, stdout=subprocess.PIPE, stderr=None if check else subprocess.PIPE, check=check)


def tokens_of(model, flags, texts):
    out, at, lists = program(model, flags, texts).stdout, 0, []
    while at < len(out):
        n = int.from_bytes(out[at:at + 4], "little")
        lists.append(list(memoryview(out[at + 4:at + 4 + 4 * n]).cast("i")))
        at += 4 + 4 * n
    assert len(lists) == len(texts), (len(lists), len(texts))
    return lists


def hold(name, model, flags, reference, texts):
    """Counts the texts whose tokens differ, and shows where."""
    global wrong
    start = time.monotonic()
    expected = reference(texts)
    theirs, ours, bad = time.monotonic() - start, tokens_of(model, flags, texts), 0
    for text, a, b in zip(texts, ours, expected):
        if a == b: continue
        bad += 1
        if bad > 3: continue
        k = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        print(f"  {name}: token {k} of {len(b)}: {a[k:k + 6]}, expected {b[k:k + 6]}, after {a[max(0, k - 3):k]} in {text[:40]!r}...")
    wrong += bad
    size = sum(len(t if isinstance(t, bytes) else t.encode()) for t in texts)
    speed = ""
    if MODE == "speed":  # of both, start of the programs excluded
        rate = lambda some: float(program(model, flags + "t", some).stdout)
        start = time.monotonic()
        reference(ORDINARY)
        ordinary = sum(len(t.encode()) for t in ORDINARY) * 1e-6 / (time.monotonic() - start)
        speed = f"; MB/s (the reference's): {rate(texts):.1f} ({size * 1e-6 / theirs:.1f}), of ordinary text {rate(ORDINARY):.1f} ({ordinary:.1f})"
    print(f"{name}: {len(texts)} texts, {size} bytes, {sum(map(len, ours))} tokens, {bad} differ{speed}", flush=True)


def wanted(name):
    return not ONLY or any(o in name for o in ONLY)


def hold_pre_tokenizers(folder):
    if not any(wanted("pre " + pre) for pre in m.PRE): return
    vocab, merges = m.train_bytes()
    # The punctuation of Rust's character tables is older than Unicode 14.
    marks = lambda c: not (unicodedata.category(c)[0] == "P" and newer_mark(c))
    for pre in m.PRE:
        if not wanted("pre " + pre): continue
        reference = m.byte_level(folder / "b.gguf", pre, vocab, merges)
        usable = marks if pre in ("falcon", "chameleon") else lambda c: True
        texts = generate(PRE_SIZE, usable) + (marked_texts() if pre in m.COMPOSES else [])
        hold("pre " + pre, folder / "b.gguf", "" if pre in m.COMPOSES else "r", reference, texts)


def marked_texts():
    """Every character that NFC may change, taken apart, among marks in any order; and runs of marks without an end."""
    rng = random.Random(11)
    marks = [c for c in map(chr, range(0x300, 0x20000)) if unicodedata.combining(c) and not newer_than_unicode_14(ord(c))]
    apart = [unicodedata.normalize("NFD", c) for c in map(chr, range(0xC0, 0x30000)) if unicodedata.decomposition(c) and "<" not in unicodedata.decomposition(c)]
    apart += [chr(c) for c in range(0xC0, 0x30000) if unicodedata.decomposition(chr(c))] + [unicodedata.normalize("NFD", chr(c)) for c in range(0xAC00, 0xD7A4, 17)]
    jamo = [chr(c) for c in (*range(0x10FE, 0x1115), *range(0x115E, 0x1178), *range(0x11A6, 0x11C5), 0xAC00, 0xAC01, 0xD7A3, 0xD788)]
    some = lambda of, most: "".join(rng.choice(of) for _ in range(rng.randrange(most + 1)))
    texts = [" ".join(apart[i:i + 40]) for i in range(0, len(apart), 40)] + ["".join(apart[i:i + 40]) for i in range(0, len(apart), 40)]
    texts += ["".join(rng.choice((rng.choice(apart), rng.choice("aeiouAO q"), chr(rng.randrange(0xA0, 0x250)))) + some(marks, 3) for _ in range(60)) for _ in range(300)]
    texts += [some(jamo, 60) for _ in range(60)] + [some(marks, 60) for _ in range(60)]
    return texts + ["e" + rng.choice(marks) * 5000 + "a\u0316\u0301" * 1000, some(marks, 20000), "\u0344" * 3000, "\u1100" + "\u1161" * 3000, "\u0958\u212b\u2126\uf900"]


def newer_mark(c):
    return unicodedata.ucd_3_2_0.category(c) == "Cn"


def invalid(texts):
    """Short texts of which some bytes are gone or others."""
    rng = random.Random(7)
    cut = [t[:400].encode() for t in texts]
    return [bytes(rng.choice((b, rng.randrange(256))) if rng.random() < 0.05 else b for b in t if rng.random() > 0.02) for t in cut] + [bytes(range(256))]


def hold_sentencepiece(folder):
    symbols = ["<ud>", "▁▁", "\u0301x", "http://", "中"]
    bpe = dict(model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False)
    nfkc = dict(model_type="unigram", normalization_rule_name="nmt_nfkc", seed_sentencepiece_size=20_000, num_sub_iterations=1)
    families = {
        "spm bpe, byte fallback": (dict(bpe, byte_fallback=True, split_digits=True), "r"),
        "spm bpe, no prefix, user-defined, merges over spaces": (dict(bpe, byte_fallback=True, add_dummy_prefix=False, user_defined_symbols=symbols,
                                                                        split_by_whitespace=False, split_by_unicode_script=False), "r"),
        "spm bpe, unknown": (dict(bpe, user_defined_symbols=symbols), ""),
        "spm bpe, extra white space removed, nfkc": (dict(bpe, byte_fallback=True, remove_extra_whitespaces=True, normalization_rule_name="nmt_nfkc"), ""),
        "unigram, nfkc": (nfkc, ""),
        "unigram, byte fallback, user-defined": (dict(nfkc, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                                                      user_defined_symbols=symbols), "r"),
        "unigram, nfkc, user-defined, spaces kept": (dict(nfkc, remove_extra_whitespaces=False, user_defined_symbols=symbols), ""),
    }
    for name, (options, flags) in families.items():
        if not wanted(name): continue
        reference = m.train_sentencepiece(folder / "s.gguf", **options)
        # The families spell a space as U+2581: it comes back as one.
        texts = generate(SIZE, lambda c: c != "\u2581" or not flags)
        hold(name, folder / "s.gguf", flags, reference, texts)
        if not options.get("byte_fallback"): hold(name + ", invalid UTF-8", folder / "s.gguf", "", reference, invalid(texts))


def hold_others(folder):
    path = folder / "o.gguf"
    if wanted("gemma 4, trained"):
        reference = m.train_gemma4(path)
        hold("gemma 4, trained", path, "r", reference, generate(SIZE, lambda c: c != "\u2581"))
    for name, lowercase, strip_accents in (("wordpiece, uncased", True, None), ("wordpiece, cased", False, None), ("wordpiece, uncased with accents", True, False),
                                           ("wordpiece, cased without accents", False, True)):
        if not wanted(name): continue
        reference = m.train_wordpiece(path, lowercase, strip_accents)
        texts = generate(SIZE)
        every = [c for c in map(chr, range(0x110000)) if not 0xD800 <= ord(c) < 0xE000 and not newer_than_unicode_14(ord(c))]
        texts += ["".join(every[i:i + 50]) + " ".join(every[i:i + 50]) for i in range(0, len(every), 50 if MODE != "fast" else 1000)]
        texts += ["x" * n for n in (99, 100, 101)] + ["é" * n for n in (99, 100, 101)]
        hold(name, path, "", reference, texts)


def hold_published(folder):
    """Vocabularies that llama.cpp publishes with texts and the tokens that transformers made of them."""
    for path in sorted(Path(folder).glob("ggml-vocab-*.gguf")):
        if not Path(f"{path}.inp").exists() or not wanted(path.name): continue
        texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        tokens = [[int(t) for t in line.split()] for line in Path(f"{path}.out").read_text().split("\n")]
        hold(path.name, path, "", lambda some: tokens[:len(some)], texts)
        if "gemma-4" in path.name:
            plain, special = m.real_gemma4(path)
            texts = generate(SIZE, lambda c: c != "\u2581") + ["\n" * n + "a" + " " * n + "\t" * n for n in range(1, 70)]
            texts.append("x <|turn>user\nhi<turn|>\n<|channel>thought\n<channel|> <eos><unused3>[multimodal]")
            hold("Gemma 4", path, "r", plain, texts)
            hold("Gemma 4, special tokens", path, "rs", special, texts)
            hold_long(path)


def hold_smollm():
    plain, special, tokens = m.real_byte_level(SMOLLM)
    known = set(tokens)
    symbols = {b: t for b, t in zip(*byte_symbols())}
    missing = {b for b, s in symbols.items() if s not in known}
    texts = generate(SIZE, lambda c: not any(b in missing for b in c.encode()))
    hold("SmolLM2", SMOLLM, "r", plain, texts)
    hold("SmolLM2, special tokens", SMOLLM, "rs", special, texts)
    # tokenizers leaves out a byte without a token, too.
    lost = [chr(c) for c in (0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0x40000, 0x80000)]
    rng = random.Random(5)
    broken = ["".join(rng.choice(lost) + c if rng.random() < 0.1 else c for c in t[:2000]) for t in texts[:200]] + lost + ["".join(lost) * 20]
    hold("SmolLM2, bytes without a token", SMOLLM, "", plain, broken)
    hold("SmolLM2, bytes without a token, special tokens", SMOLLM, "s", special, broken)
    hold_long(SMOLLM)


def hold_gemma():
    hold("Gemma 3", GEMMA, "r", m.real_sentencepiece(GEMMA), generate(SIZE, lambda c: c != "\u2581"))
    hold_long(GEMMA)


def hold_long(model):
    """A text of one character must not take the square of its length: that would be hours; the bound is for a machine under load."""
    global wrong
    for unit in ("a", " "):
        start = time.monotonic()
        tokens = tokens_of(model, "r", [unit * (4_000_000 // len(unit.encode()))])
        seconds = time.monotonic() - start
        wrong += seconds > 30
        print(f"{model}: 4 MB of {unit!r}: {len(tokens[0])} tokens, {seconds:.1f} s{', too slow' * (seconds > 30)}", flush=True)


def byte_symbols():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return printable + rest, [chr(b) for b in printable] + [chr(0x100 + i) for i in range(len(rest))]


def main():
    with tempfile.TemporaryDirectory() as name:
        hold_pre_tokenizers(Path(name))
        hold_sentencepiece(Path(name))
        hold_others(Path(name))
    if "KVRT_VOCABULARIES" in os.environ: hold_published(os.environ["KVRT_VOCABULARIES"])
    # Gemma 3's 262,144 pieces take Python most of a minute to read.
    for path, test, modes in ((SMOLLM, hold_smollm, ("full", "long", "speed")), (GEMMA, hold_gemma, ("long", "speed"))):
        if MODE not in modes or not wanted(path): continue
        if os.path.exists(path): test()
        else: print("no file", path)
    sys.exit(1 if wrong else 0)


main()
