"""The base of the server's tests: a server in a folder of its own, with a tiny model, and OpenAI's client for it."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import gguf
import openai

import forced

SERVER = pathlib.Path(os.environ["KVRT_SERVER"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = SOURCE / "tests" / "golden" / "tiny"
PLAIN = TINY / "llama_gqa_f32.gguf"
os.environ["KVRT_CACHE"] = ""


def words_of_the_library():
    """What no client should read: names of kvrt.h, but for those that are OpenAI's or this server's own fields, too."""
    abi = json.loads((SOURCE / "include" / "kvrt.abi.json").read_text())
    names = {field["name"] for struct in abi["structs"].values() for field in struct["fields"] if "_" in field["name"]}
    readme = (SOURCE / "samples" / "server" / "README.md").read_text()
    taken = readme[readme.index("## What it takes"):readme.index("## Errors")]
    names -= set(re.findall(r"\w+", " ".join(re.findall("`([^`]*)`", taken))))
    names |= {name.removeprefix("KVRT_") for name in abi["enums"]["KVRT"]} | {"session", "sessions", "struct", "NULL"}
    return re.compile(r"\b(?:" + "|".join(sorted(names)) + r"|kvrt_\w+|KVRT_\w+|k[A-Z]\w+Max)\b")


LIBRARY = words_of_the_library()


def check_words(text):
    """A client's error, as JSON or a stream with it, speaks of what the client sent; paths that it names do not count."""
    for error in re.findall(r'\{"error":\{.*\}\}', text):
        error = json.loads(error)["error"]
        for said in (error["message"], error["code"] or ""):
            found = LIBRARY.search(re.sub(r"/\S+", "", said))
            if found:
                raise AssertionError(f"an error speaks of {found.group()}: {error}")


def with_template(folder, name, model=PLAIN):
    """A tiny model with another chat template."""
    out = pathlib.Path(folder, name + ".gguf")
    template = (SOURCE / "tests" / "golden" / "templates" / (name + ".jinja")).read_text()
    command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force", "--chat-template", template, str(model), str(out)]
    subprocess.run(command, check=True, capture_output=True)
    return out


class Server:
    """A running server. `port` stays the same over restarts."""

    def __init__(self, model, *options, store=None, **environment):
        self.model, self.environment = str(model), {**os.environ, **environment}
        self.options = [*map(str, options), *(["--store", str(store)] if store else [])]
        self.port, self.process = 0, None
        self.start()

    def start(self):
        command = [str(SERVER), self.model, "--port", str(self.port), "--threads", "1", *self.options]
        deadline = time.time() + 30
        while True:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
            line = self.process.stdout.readline()
            if line or time.time() > deadline:
                break
            self.process.wait()  # the address is still in use
        self.port = int(re.search(r":(\d+)/v1", line).group(1)) if line else self.fail()

    def fail(self):
        raise AssertionError(f"the server does not start: {self.process.stderr.read()}")

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def stop(self, number=signal.SIGTERM):
        """Its exit code and what it wrote to standard error."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def client(self, key="none", **options):
        def check(response):
            if response.status_code >= 400:
                check_words(response.read().decode())

        http = openai.DefaultHttpxClient(event_hooks={"response": [check]})
        options = {"max_retries": 0, "timeout": 60, "http_client": http, **options}
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=key, **options)

    def raw(self, method, path, body=None, headers=None):
        """Status, headers and body of a request that no library makes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            data = response.read()
            check_words(data.decode(errors="replace"))
            return response.status, response.headers, data

    def post(self, body, path="/v1/chat/completions", headers=None):
        """Status and JSON of a body that is sent as it is."""
        def once(pairs):
            if len(dict(pairs)) < len(pairs):
                raise ValueError(f"a name comes twice: {[name for name, _ in pairs]}")
            return dict(pairs)

        status, _, data = self.raw("POST", path, body if isinstance(body, (bytes, str)) else json.dumps(body), headers)
        return status, json.loads(data, object_pairs_hook=once)

    def metric(self, name):
        _, _, data = self.raw("GET", "/metrics")
        return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", data.decode(), re.M).group(1))


class Case(unittest.TestCase):
    """One server for all tests of a class."""

    base = PLAIN  # the model
    template = None  # another chat template for it
    options = ()
    keys = ""  # the content of the file of API keys
    stored = True
    environment = {}

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="kvrt-server-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        model = cls.make_model()
        cls.name = model.stem
        options = list(cls.options)
        if cls.keys:
            (cls.dir / "keys").write_text(cls.keys)
            options += ["--keys", cls.dir / "keys"]
        cls.server = Server(model, *options, store=cls.dir / "store" if cls.stored else None, **cls.environment)
        cls.addClassCleanup(cls.server.kill)
        cls.client = cls.server.client()

    @classmethod
    def make_model(cls):
        return with_template(cls.dir, cls.template, cls.base) if cls.template else cls.base

    def setUp(self):
        if self.server.process.poll() is not None:  # a test that failed has left it so
            self.server.start()

    def ask(self, text="Hello", client=None, **options):
        """The answer to a text, or to a list of messages."""
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        options = {"max_tokens": 8, "temperature": 0, **options}
        return (client or self.client).chat.completions.create(model=self.name, messages=messages, **options)

    def refused(self, kind, code=None, **options):
        """The error that a request gets: its class, code and parameter."""
        with self.assertRaises(kind) as caught:
            self.ask(**options)
        if code:
            self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def refused_beside(self, begin, count):
        """The error of a request beside so many streams. They may be over before it is asked: then all are tried again."""
        for _ in range(20):
            begun, error = [begin() for _ in range(count)], None
            try:
                self.ask()
            except openai.RateLimitError as refused:
                error = refused
            for stream in begun:
                stream.close()
            self.eventually(lambda: self.server.metric("kvrt_sessions_generating") == 0, "the answers go on without their clients")
            if error:
                return error
        return self.fail("no request was refused")

    @staticmethod
    def byte(value):
        """The token of a byte, in the tiny model's vocabulary of bytes and pairs."""
        tokens = gguf.GGUFReader(PLAIN).get_field("tokenizer.ggml.tokens").contents()
        plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        return tokens.index(chr(value) if value in plain else chr(0x100 + [b for b in range(0x100) if b not in plain].index(value)))

    def eventually(self, true, what, seconds=60):
        deadline = time.time() + seconds
        while not true():
            self.assertLess(time.time(), deadline, what)
            time.sleep(0.01)


class Forced(Case):
    """With a model whose answers are forced."""

    answers = []  # of forced.write
    context = 8192

    @classmethod
    def make_model(cls):
        return forced.write(cls.dir / "forced.gguf", cls.answers, cls.context)


def message(answer):
    """The message of an answer as a client sends it back."""
    return answer.choices[0].message.model_dump(exclude_none=True)
