#!/usr/bin/env python3
"""draw.py [--check]: draws the README's pictures beside this file, of chat.json and forest.json (record.py) and of tests/bench/results, and
writes their texts into README.md for those who do not see them.

With --check nothing is written: exits 1 where a picture or its text is not what the data say.
"""
import json
import pathlib
import re
import sys
import textwrap
from xml.sax.saxutils import unescape

from chat import chat
from svg import box, line, picture, text

HERE = pathlib.Path(__file__).parent
README = HERE / "../../README.md"
RESULTS = json.loads((HERE / "../../tests/bench/results/2026-11-22-epyc-25-17.json").read_text())
MIB = 1 << 20


def about(data):
    return f"{data['machine']}, {data['isa']}; {data['model']}; {data['date']}"


def forest(data):
    """Sessions that begin alike below each other; every chunk of the store once, in the row that has it first."""
    left, top, row, bar = 20, 72, 9, 7
    sessions = data["sessions"]
    owners = {}
    for session in sessions:
        for key, *_ in session["chunks"]:
            owners[key] = owners.get(key, 0) + 1
    scale = 740 / max(session["tokens"] for session in sessions)
    parts, lines, place = [], [], {}
    for n, session in enumerate(sessions):
        y, before = top + n * row, None
        for key, begin, end, _ in session["chunks"]:
            if key in place:
                before = (place[key], left + end * scale)
                continue
            if before:
                lines.append(line([(before[1] - 1, before[0] + bar), (before[1] - 1, y + bar / 2), (before[1] + 4, y + bar / 2)], "dim", 1))
                before = None
            place[key] = y
            many = owners[key]
            parts.append(box(left + begin * scale, y, max((end - begin) * scale - 1.5, 1), bar, "ours" if many > 3 else "third" if many > 1 else "other", 2))
    size = {key: bytes_ for session in sessions for key, _, _, bytes_ in session["chunks"]}
    stored, named = sum(size.values()), sum(bytes_ for session in sessions for *_, bytes_ in session["chunks"])
    assert data["store"]["chunks"] == len(size) and data["store"]["chunk_bytes"] == stored
    height = top + len(sessions) * row + 34
    legend = [("ours", f"KV of {max(owners.values())} sessions"), ("third", "of a few"), ("other", "of one")]
    for n, (colour, what) in enumerate(legend):
        parts += [box(left + n * 150, 44, 12, 12, colour, 3), text(left + 18 + n * 150, 54, what, "dim s")]
    sum_up = f"{len(sessions)} sessions with {named / MIB:.0f} MiB of KV, in {stored / MIB:.0f} MiB on disk"
    parts += [text(left, 28, sum_up, "ink b"), text(left, height - 12, f"a row: a session, tokens to the right; {data['model']}, {data['date']}", "dim s")]
    what = f"{sum_up}. Four conversations and their forks: what sessions have in common is there once."
    return picture(800, height, "KV that sessions share", what, lines + parts)


ROWS = {
    "prefill_512_once_tok_s": "prefill 512", "prefill_2048_once_tok_s": "prefill 2,048", "prefill_8000_once_tok_s": "prefill 8,000",
    "decode_at_0_tok_s": "decode at 0", "decode_at_2048_tok_s": "decode at 2,048", "decode_at_8000_tok_s": "decode at 8,000",
    "decode_batch_8_tok_s": "8 sequences",
}
MODELS = {"q4_1, avx512": "SmolLM2 135M Q4_1", "gemma, avx512": "Gemma 3 270M Q4_K_M"}
BENCHED = {"qwen2.5-coder": "Qwen2.5 0.5B Q4_K_M", "qwen2.5-coder-1.5b": "Qwen2.5 1.5B Q4_K_M"}


def round_half_up(value):
    return f"{int(value + 0.5):,}"


def measured():
    """(name, figures, where) of each model: of the results of one day, and of the newest that `./dev bench --json` wrote of the others."""
    meta, peers = RESULTS["meta"], RESULTS["against_the_peer"]
    where = f"{meta['cpu']}, AVX-512; {meta['peer'].split(',')[0]}; {meta['date']}"
    panels = [(name, peers[key], where) for key, name in MODELS.items()]
    for key, name in BENCHED.items():
        for path in sorted(HERE.glob("../../tests/bench/results/*-qwen.json"), reverse=True):
            data = json.loads(path.read_text())
            entry = data["models"].get(key)
            if entry:
                cpu = data["cpu"].get("model name", "a CPU").replace("(R)", "")
                figures = {row.replace("_at_once_", "_once_"): found for row, found in entry["summary"].items()}
                panels.append((name, figures, f"{cpu}, {entry['isa']}; llama-cpp-python {data['peer']['version']}; {data['date'][:10]}"))
                break
    return panels


def speed(panels):
    """Of all models the figures that each of them has."""
    rows = {key: what for key, what in ROWS.items() if all(key in figures for _, figures, _ in panels)}
    left, top, row, panel = 130, 84, 30, min(218, 872 // len(panels))
    most = max(2, -(-int(max(figures[key]["greatest"] for _, figures, _ in panels for key in rows) + 1) // 2) * 2)
    parts = [text(20, 30, "Tokens a second, as a multiple of llama.cpp's", "ink b"),
             text(20, 50, "bar: median of alternating pairs; line: least to greatest (none: one pair); figures: kvrt / llama.cpp, tokens/s; red: equal", "dim s")]
    bottom = top + row * len(rows)
    for n, (name, figures, _) in enumerate(panels):
        x0 = left + n * (panel + 8)
        scale = (panel - 20) / most
        parts.append(text(x0, top - 12, name, "ink b s"))
        for times in range(0, most + 1, 2):
            parts.append(line([(x0 + times * scale, top), (x0 + times * scale, bottom)], "frame", 1))
            parts.append(text(x0 + times * scale, bottom + 16, f"{times}×", "dim s", "middle"))
        parts.append(line([(x0 + scale, top), (x0 + scale, bottom)], "bad", 1.5))
        for m, (row_key, what) in enumerate(rows.items()):
            y, found = top + m * row, figures[row_key]
            if n == 0:
                parts.append(text(left - 10, y + 15, what, "ink s", "end"))
            parts.append(box(x0, y + 5, found["ratio"] * scale, 12, "ours", 2))
            parts.append(line([(x0 + found["least"] * scale, y + 11), (x0 + found["greatest"] * scale, y + 11)], "ink", 1.5))
            label = f"{round_half_up(found['kvrt'])} / {round_half_up(found['peer'])}"
            parts.append(text(x0 + 2, y + 28, label, "dim halo"))
    places = list(dict.fromkeys(where for *_, where in panels))
    for n, where in enumerate([*places, "Prompts in steps of 512 tokens on both sides."]):
        parts.append(text(20, bottom + 42 + 18 * n, where, "dim s"))
    ratios = [figures[key]["ratio"] for _, figures, _ in panels for key in rows]
    halo = ".halo{font-size:10px;paint-order:stroke;stroke:#fff;stroke-width:3px}@media(prefers-color-scheme:dark){.halo{stroke:#0d1117}}"
    what = f"kvrt computes {min(ratios):.3g} to {max(ratios):.3g} times as many tokens a second as llama.cpp. {'; '.join(places)}."
    return picture(max(left + len(panels) * (panel + 8) + 8, 760), bottom + 58 + 18 * len(places), "Speed beside llama.cpp", what, parts, halo)


def described(text, name, what):
    """README.md with `what` as the text of a picture."""
    link = textwrap.fill(f"![{what}](docs/pictures/{name}.svg)", 150, break_on_hyphens=False)
    text, count = re.subn(rf"!\[[^\]]*\]\(docs/pictures/{name}\.svg\)", lambda _: link, text)
    if count != 1:
        sys.exit(f"draw.py: README.md shows {name}.svg {count} times")
    return text


def documents(text):
    """README.md with the seconds of rag.json, once that is measured."""
    text = re.sub(r"\n\nWith [^\n]* the\sfirst\stoken\swas\sseen\s.*?\)\.(?=\n)", "", text, flags=re.S)
    if not (HERE / "rag.json").exists():
        return text
    data = json.loads((HERE / "rag.json").read_text())
    first, second, third = data["runs"]
    said = (f"With {data['model'].removesuffix('.gguf')} and {data['document']} ({first['tokens']:,} tokens) the first token was seen after {first['seconds']:.1f} s, in the second "
            f"process after {second['seconds']:.1f} s, and in the third after {third['seconds']:.1f} s ({data['machine']}, {data['isa']}; {data['date']}).")
    before, anchor, after = text.partition("with the seconds from its start to the first token.")
    if not anchor:
        sys.exit("draw.py: README.md does not say what rag.py says")
    return before + anchor + "\n\n" + textwrap.fill(said, 150, break_on_hyphens=False) + after


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    read = lambda path: json.loads(path.read_text())
    drawn = {"chat": chat(read(HERE / "chat.json"), about), "forest": forest(read(HERE / "forest.json")), "speed": speed(measured())}
    files = {HERE / f"{name}.svg": svg for name, svg in drawn.items()}
    files[README] = README.read_text()
    for name, svg in drawn.items():
        files[README] = described(files[README], name, unescape(re.search("<desc[^>]*>(.*)</desc>", svg)[1]))
    files[README] = documents(files[README])
    stale = []
    for path, content in files.items():
        if not check:
            path.write_text(content)
        elif not path.is_file() or path.read_text() != content:
            stale.append(path.name)
    if stale:
        sys.exit(f"draw.py: {', '.join(stale)}: not what the data say: ./dev pictures --draw")


main()
