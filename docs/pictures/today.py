#!/usr/bin/env python3
"""today.py PROGRAM LIBRARY: runs anew what the pictures show, and the README's lines for documents. Exits 1 where they say something else
today. Numbers (times, rates, where the kill fell) may differ, and an answer may be cut at another place.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import record
from terminal import Terminal

HERE = pathlib.Path(__file__).parent
ROOT = HERE / "../.."
NO_CACHE = {"KVRT_CACHE": ""}  # a test writes nothing into its user's
TURNS = r"\((?:cut|notansweredyet);[^)]*\)|/helpliststhecommands|>/continue|user:|assistant:|N"


def said(recording):
    """The text of the first terminal before the kill and of the chat that goes on, without spaces and numbers."""
    terminal = Terminal(record.COLUMNS)
    for _, pane, text in recording:
        if pane == 0:
            terminal.feed(text.encode("utf-8", "surrogateescape"))
    text = "\n".join("".join(character for character, _ in line) for line in terminal.lines)
    before, after = re.split(r"\n.*Killed.*\n", text)
    return [re.sub(TURNS, "", re.sub(r"[\d.]*\d", "N", "".join(part.split()))) for part in (before, after)]


def same(what, shown, today, least):
    """One goes on where the other ends."""
    end = min(len(shown), len(today))
    if end < least or shown[:end] != today[:end]:
        at = next((i for i, (a, b) in enumerate(zip(shown, today)) if a != b), end)
        sys.exit(f"today.py: {what}: the picture has ...{shown[max(at - 60, 0):at + 40]!r}, the program says ...{today[max(at - 60, 0):at + 40]!r}")


def check_chat(folder, environment):
    recording = record.chat(folder, environment)["recording"]
    shown = json.loads((HERE / "chat.json").read_text())["recording"]
    for what, a, b in zip(("the chat", "the chat that goes on"), said(shown), said(recording)):
        second = re.sub(r"\s", "", record.SECOND)
        same(what, a, b, a.index(second) + len(second))


def check_forest(folder, environment):
    cut = lambda sessions: [(s["name"], s["tokens"], [chunk[:3] for chunk in s["chunks"]]) for s in sessions]
    if cut(json.loads((HERE / "forest.json").read_text())["sessions"]) != cut(record.forest(folder, environment)["sessions"]):
        sys.exit("today.py: the forest has other sessions or blocks today")


def check_documents(folder, environment, library):
    readme = (ROOT / "README.md").read_text()
    lines = re.findall(r"^python3 bindings/python/examples/rag.py .*$", readme, re.M)
    expected = re.search(r"`\((\d+ of \d+ tokens came from the disk); \.\.\.\)`", readme)[1]
    os.symlink((ROOT / "bindings").resolve(), f"{folder}/bindings")
    os.symlink((ROOT / "docs").resolve(), f"{folder}/docs")
    environment = environment | {"PYTHONPATH": "bindings/python", "KVRT_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
    for line in lines:
        done = subprocess.run(line.replace("model.gguf memory", "model.gguf read"), shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    if expected not in done.stderr:
        sys.exit(f"today.py: the documents: README.md has {expected!r}, the program says {done.stderr!r}")


def main():
    kvrt, library = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    model = os.environ.get("KVRT_MODEL") or f"{cache}/kvrt/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    if not os.path.exists(model):
        print(f"today.py: no model {model}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        check_chat(folder, record.place(folder, kvrt, model) | NO_CACHE)
    with tempfile.TemporaryDirectory() as folder:
        environment = record.place(folder, kvrt, model) | NO_CACHE
        check_forest(folder, environment)
        check_documents(folder, environment, library)
    print("today.py: the pictures are what the program says")


main()
