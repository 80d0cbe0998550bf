"""The base of all tests. KVRT_SOURCE_DIR is the source tree: the tests run beside it, on the installed package."""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import kvrt

os.environ["KVRT_CACHE"] = ""  # tests leave the user's cache alone
SOURCE = pathlib.Path(os.environ["KVRT_SOURCE_DIR"])
TINY = SOURCE / "tests" / "golden" / "tiny"
MODEL = TINY / "llama_gqa_f32.gguf"
PROMPT = [5, 6, 7, 8]


def best(row):
    return max(range(len(row)), key=row.__getitem__)


def python(code, *arguments, flags=(), **environment):
    """Runs code in a Python of its own, with this package."""
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def with_template(model, name, out):
    """Writes the GGUF file `out`: that model with the chat template of this name, of tests/golden/templates."""
    data = pathlib.Path(model).read_bytes()
    template = (SOURCE / "tests" / "golden" / "templates" / f"{name}.jinja").read_bytes()

    def number(kind, at):
        return struct.unpack_from(kind, data, at)[0]

    def value_end(kind, at):
        if kind == 8:  # a string
            return at + 8 + number("<Q", at)
        if kind != 9:
            return at + (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8)[kind]
        kind, count, at = number("<I", at), number("<Q", at + 4), at + 12  # a list
        for _ in range(count):
            at = value_end(kind, at)
        return at

    at, begin, end = 24, 0, 0
    for _ in range(number("<Q", 16)):  # keys
        key_end = at + 8 + number("<Q", at)
        key, value = data[at + 8:key_end], key_end + 4
        at = value_end(number("<I", key_end), value)
        if key == b"tokenizer.chat_template":
            begin, end = value, at
    for _ in range(number("<Q", 8)):  # tensors
        at += 8 + number("<Q", at)
        at += 4 + 8 * number("<I", at) + 12
    head = data[:begin] + struct.pack("<Q", len(template)) + template + data[end:at]
    out.write_bytes(head + bytes(-len(head) % 32) + data[(at + 31) // 32 * 32:])
    return out


class Case(unittest.TestCase):
    """A runtime, a model, a directory and a store, which close at the end."""

    threads = 1

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="kvrt-python-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.runtime = self.enterContext(kvrt.Runtime(threads=self.threads))
        self.model = self.enterContext(self.runtime.open_model(MODEL))
        self.store = self.enterContext(self.runtime.open_store(os.path.join(self.dir, "store")))

    def enterContext(self, manager):  # unittest has it since 3.11
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def open(self, tokens=PROMPT, **options):
        session = self.enterContext(self.model.open_session(store=self.store, **options))
        if tokens:
            session.append(tokens)
        return session

    def computed(self, tokens):
        """A session whose KV is there to be saved."""
        session = self.open(tokens)
        session.prefill()
        return session

    def answer(self, session, count, **options):
        """The tokens of a generation of `count`."""
        generation = session.generate(max_tokens=count, ignore_eos=True, **options)
        return [event.token for event in generation if event.type is kvrt.EventType.TOKEN]

    def poisoned(self):
        """A model whose last weights are NaN: a session of it fails at its first step."""
        data = bytearray(MODEL.read_bytes())
        data[-(len(data) // 8):] = b"\xff" * (len(data) // 8)
        path = pathlib.Path(self.dir, "nan.gguf")
        path.write_bytes(data)
        return self.enterContext(self.runtime.open_model(path))
