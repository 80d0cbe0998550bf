#!/usr/bin/env python3
"""draw.py [--check]: draws the README's pictures beside this file, of chat.json and shared.json (record.py) and of tests/bench/results, and
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
RESULTS = HERE / "../../tests/bench/results/2026-11-22-epyc-25-17.json"
MIB = 1 << 20


def about(data):
    return f"{data['machine']}, {data['isa']}; {data['model']}; {data['date']}"


def shared(data):
    """Every chunk of the store once: those of all sessions, then of some, then of one."""
    left, top, wide, row, gap = 150, 76, 30, 62, 4
    sessions = data["sessions"]
    chains = [[chunk["key"] for chunk in session["chunks"]] for session in sessions]
    size = {chunk["key"]: chunk["bytes"] for session in sessions for chunk in session["chunks"]}
    owners = {key: [n for n, chain in enumerate(chains) if key in chain] for key in size}
    place = {}
    for n, chain in enumerate(chains):
        for column, key in enumerate(chain):
            place.setdefault(key, (left + column * (wide + gap), top + n * row))
    parts = [text(20, 30, "Three sessions in one store: what begins alike is there once", "ink b")]
    lines = []
    for n, (session, chain) in enumerate(zip(sessions, chains)):
        y = top + n * row
        own = sum(size[key] for key in chain if len(owners[key]) == 1)
        parts += [text(20, y + 13, session["name"], "ink b m"), text(20, y + 28, f"{session['tokens']} tokens", "dim s")]
        for key, after in zip(chain, chain[1:]):
            (x, from_y), (to_x, to_y) = place[key], place[after]
            if from_y != to_y:
                lines.append(line([(x + wide / 2, from_y + wide), (x + wide / 2, to_y + wide / 2), (to_x, to_y + wide / 2)], "dim"))
        last = place[chain[-1]]
        parts.append(text(last[0] + wide + 10, last[1] + 19, f"own KV: {own / MIB:.1f} MiB", "dim s"))
    for key, (x, y) in place.items():
        parts.append(box(x, y, wide, wide, {3: "ours", 2: "third", 1: "other"}[len(owners[key])], 4))
    height = top + len(sessions) * row + 54
    stored, named = sum(size.values()), sum(size[key] for chain in chains for key in chain)
    legend = [("ours", "in all three"), ("third", "in two"), ("other", "in one")]
    for n, (colour, what) in enumerate(legend):
        parts += [box(20 + n * 120, height - 46, 12, 12, colour, 3), text(38 + n * 120, height - 36, what, "dim s")]
    blocks = sum(map(len, chains))
    sum_up = (f"{blocks} blocks of {sessions[0]['block_tokens']} tokens or fewer in the sessions, {len(size)} in the store: "
              f"{named / MIB:.1f} MiB of KV in {stored / MIB:.1f} MiB")
    assert data["store"]["chunks"] == len(size) and data["store"]["chunk_bytes"] == stored
    parts += [text(20, height - 14, sum_up + ".", "ink s"), text(780, height - 36, f"{data['model']}, {data['date']}", "dim s", "end")]
    what = f"Blocks of KV in a store. Session ann-2 is a fork of ann; bob began with the same system message. {sum_up}."
    return picture(800, height, "KV blocks that sessions share", what, lines + parts)


ROWS = {
    "prefill_512_once_tok_s": "prefill 512", "prefill_2048_once_tok_s": "prefill 2,048", "prefill_8000_once_tok_s": "prefill 8,000",
    "decode_at_0_tok_s": "decode at 0", "decode_at_2048_tok_s": "decode at 2,048", "decode_at_8000_tok_s": "decode at 8,000",
    "decode_batch_8_tok_s": "8 sequences",
}
MODELS = {"q4_1, avx512": "SmolLM2 135M Q4_1", "q4_0, avx512": "SmolLM2 135M Q4_0", "gemma, avx512": "Gemma 3 270M Q4_K_M"}


def round_half_up(value):
    return f"{int(value + 0.5):,}"


def speed(data):
    left, top, row, panel, most = 130, 84, 30, 218, 8
    parts = [text(20, 30, "Tokens a second, as a multiple of llama.cpp's", "ink b"),
             text(20, 50, "bar: median of alternating pairs; line: least to greatest (none: one pair); figures: kvrt / llama.cpp, tokens/s; red: equal", "dim s")]
    bottom = top + row * len(ROWS)
    for n, (key, name) in enumerate(MODELS.items()):
        x0 = left + n * (panel + 8)
        scale = (panel - 20) / most
        parts.append(text(x0, top - 12, name, "ink b s"))
        for times in range(0, most + 1, 2):
            parts.append(line([(x0 + times * scale, top), (x0 + times * scale, bottom)], "frame", 1))
            parts.append(text(x0 + times * scale, bottom + 16, f"{times}×", "dim s", "middle"))
        parts.append(line([(x0 + scale, top), (x0 + scale, bottom)], "bad", 1.5))
        for m, (row_key, what) in enumerate(ROWS.items()):
            y = top + m * row
            if n == 0:
                parts.append(text(left - 10, y + 15, what, "ink s", "end"))
            found = data["against_the_peer"][key].get(row_key)
            if not found:
                parts.append(text(x0 + 6, y + 15, "not measured", "dim s"))
                continue
            parts.append(box(x0, y + 5, found["ratio"] * scale, 12, "ours", 2))
            parts.append(line([(x0 + found["least"] * scale, y + 11), (x0 + found["greatest"] * scale, y + 11)], "ink", 1.5))
            label = f"{round_half_up(found['kvrt'])} / {round_half_up(found['peer'])}"
            parts.append(text(x0 + 2, y + 28, label, "dim halo"))
    where = f"{data['meta']['cpu']}, AVX-512; {data['meta']['peer'].split(',')[0]}; {data['meta']['date']}"
    parts += [text(20, bottom + 42, where, "dim s"), text(20, bottom + 60, "Prompts in steps of 512 tokens on both sides.", "dim s")]
    low = min(row["ratio"] for key in MODELS for name, row in data["against_the_peer"][key].items() if name in ROWS)
    high = max(row["ratio"] for key in MODELS for name, row in data["against_the_peer"][key].items() if name in ROWS)
    halo = ".halo{font-size:10px;paint-order:stroke;stroke:#fff;stroke-width:3px}@media(prefers-color-scheme:dark){.halo{stroke:#0d1117}}"
    what = f"kvrt computes {low:g} to {high:g} times as many tokens a second as llama.cpp. {where}."
    return picture(left + 3 * (panel + 8) + 8, bottom + 76, "Speed beside llama.cpp", what, parts, halo)


def described(text, name, what):
    """README.md with `what` as the text of a picture."""
    link = textwrap.fill(f"![{what}](docs/pictures/{name}.svg)", 150, break_on_hyphens=False)
    text, count = re.subn(rf"!\[[^\]]*\]\(docs/pictures/{name}\.svg\)", lambda _: link, text)
    if count != 1:
        sys.exit(f"draw.py: README.md shows {name}.svg {count} times")
    return text


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    read = lambda path: json.loads(path.read_text())
    drawn = {"chat": chat(read(HERE / "chat.json"), about), "shared": shared(read(HERE / "shared.json")), "speed": speed(read(RESULTS))}
    files = {HERE / f"{name}.svg": svg for name, svg in drawn.items()}
    files[README] = README.read_text()
    for name, svg in drawn.items():
        files[README] = described(files[README], name, unescape(re.search("<desc[^>]*>(.*)</desc>", svg)[1]))
    stale = []
    for path, content in files.items():
        if not check:
            path.write_text(content)
        elif not path.is_file() or path.read_text() != content:
            stale.append(path.name)
    if stale:
        sys.exit(f"draw.py: {', '.join(stale)}: not what the data say: ./dev pictures --draw")


main()
