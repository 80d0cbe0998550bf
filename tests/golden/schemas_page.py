#!/usr/bin/env python3
"""Runs the example of each row of docs/SCHEMAS.md through the C ABI, on a tiny model whose tokens the host chooses.

  schemas_page.py SOURCE_DIR     with KVRT_LIBRARY and PYTHONPATH=bindings/python; exit 77: skipped, no jsonschema or gguf

Valid, and never written: PyPI's jsonschema says that the texts of the row are valid; the mask stops each of those under `never`, and lets each
under `instead` come to its end, token by token. Refused: the status, and the part of the message.
"""
import json
import math
import pathlib
import re
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
try:
    import gguf  # noqa: F401, make_tiny needs it
    import jsonschema
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)
import kvrt
import make_tiny

ROWS_MIN = 80  # of both tables: a page that is read wrong does not pass
PIECES = ["a" * 2**i for i in range(1, 11)]  # tokens for long texts, beside those of bytes
CONTEXT = 16384


class Stop(Exception):
    """What a sampler raises when it has seen enough."""


def expand(text):
    """The notation of the page."""
    def repeated(match):
        body, count = match.group(1), int(match.group(2))
        parts = [body.replace("#", str(i)) for i in range(1, count + 1)]
        if body.endswith(","):
            parts[-1] = parts[-1][:-1]
        return "".join(parts)

    while "⟨" in text:
        text, count = re.subn(r"⟨([^⟨⟩]*)⟩×(\d+)", repeated, text)
        assert count, text
    return text.replace("⏎", "\n")


def spans(cell):
    return [expand(code) for code in re.findall(r"`([^`]+)`", cell)]


def rows(page, heading):
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert set(lines[1]) <= set("|-"), lines[1]
    columns = lines[0].count("|") - 1
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == columns, line
        yield cells


class Model:
    def __init__(self, folder):
        make_tiny.CONTEXT = CONTEXT
        make_tiny.MERGES = make_tiny.MERGES + [f"{piece} {piece}" for piece in ["a", *PIECES[:-1]]]
        path = pathlib.Path(folder, "model.gguf")
        make_tiny.write_model(path, make_tiny.VARIANTS[0], 1)
        self.model = kvrt.Runtime(threads=1).open_model(path, kv_bytes_max=16 << 20, cache_dir=False)
        special = len(make_tiny.SPECIAL)
        printable = [ord(symbol) for symbol in make_tiny.byte_symbols() if ord(symbol) < 256]
        self.bytes = {b: special + i for i, b in enumerate(printable + [b for b in range(256) if b not in printable])}
        first = special + 256 + len(make_tiny.MERGES) - len(PIECES)
        self.pieces = [(piece, first + i) for i, piece in reversed(list(enumerate(PIECES)))]

    def tokens(self, text):
        out, data, at = [], text.encode(), 0
        while at < len(data):
            piece, token = next(((p, t) for p, t in self.pieces if data.startswith(p.encode(), at)), (None, None))
            out.append(token if piece else self.bytes[data[at]])
            at += len(piece) if piece else 1
        return out

    def taken(self, schema, text, wide):
        """Whether the whole text may come, and the answer end there."""
        left = iter([*self.tokens(text), make_tiny.SPECIAL.index("<|im_end|>")])
        came = 0

        def sample(logits):
            nonlocal came
            token = next(left)
            if math.isinf(logits[token]):
                raise Stop
            came += 1
            return token

        with self.model.open_session() as session:
            session.append([5])
            try:
                session.generate(json_schema=schema, json_schema_open=wide, sampler=sample).read()
            except Stop:
                return False
        return True

    def refused(self, schema):
        with self.model.open_session() as session:
            session.append([5])
            try:
                session.begin(json_schema=schema)
            except kvrt.Error as error:
                return error.status.name, error.message
        return "OK", ""


def valid(schema, text):
    judge = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return judge(schema, format_checker=judge.FORMAT_CHECKER).is_valid(json.loads(text))


def never_written(model, cells):
    """The faults of a row."""
    _, what, schema, never, instead = cells
    schema, usual, wide = spans(schema), *(spans(part) for part in (instead + "JSON_SCHEMA_OPEN").split("JSON_SCHEMA_OPEN")[:2])
    assert len(schema) == 1 and (usual or wide), what
    for text in spans(never):
        if not valid(json.loads(schema[0]), text):
            yield f"{text[:80]} is not valid"
        if model.taken(schema[0], text, False):
            yield f"{text[:80]} comes"
    for text, is_wide in [(t, False) for t in usual] + [(t, True) for t in wide]:
        if not valid(json.loads(schema[0]), text):
            yield f"{text[:80]}, instead, is not valid"
        if not model.taken(schema[0], text, is_wide):
            yield f"{text[:80]}, instead, does not come"


def is_refused(model, cells):
    what, schema, status, part = cells
    (schema,), (part,) = spans(schema), spans(part)
    if "not valid" not in what:
        json.loads(schema)
    found, message = model.refused(schema)
    if found != status or part not in message or not message.startswith("schema: "):
        yield f"{found}: {message}"


def main():
    page = (source / "docs/SCHEMAS.md").read_text()
    count, faults = 0, []
    with tempfile.TemporaryDirectory() as folder:
        model = Model(folder)
        for heading, check in (("Valid, and never written", never_written), ("Refused", is_refused)):
            for cells in rows(page, heading):
                count += 1
                faults += [f"{heading}: {' | '.join(cells[:2])[:100]}: {fault}" for fault in check(model, cells)]
    for fault in faults:
        print(fault)
    print(f"schemas_page: {count} rows, {len(faults)} faults")
    sys.exit(bool(faults) or count < ROWS_MIN)


if __name__ == "__main__":
    main()
