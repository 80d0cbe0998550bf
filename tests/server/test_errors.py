"""What is refused, and how: by name, with OpenAI's codes, before and after the first byte."""
import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

import openai

from support import Case, PLAIN, Server, TINY


class Errors(Case):
    options = ("--body", "64K", "--answers", "4")

    def test_bad_json(self):
        for body, code in (("{", "invalid_json"), ("", "invalid_json"), ("[]", "invalid_json"), ('{"a":1}x', "invalid_json"),
                           ('{"model": "\\ud800"}', "invalid_json"), (b'{"model": "\xff"}', "invalid_json"), ("[" * 5000, "invalid_json"),
                           ('{"messages": 01}', "invalid_json"), ('{"x": "a\nb"}', "invalid_json")):
            with self.subTest(body=body[:20]):
                status, answer = self.server.post(body)
                self.assertEqual((status, answer["error"]["code"], answer["error"]["type"]), (400, code, "invalid_request_error"))
                self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})

    def test_a_field_twice(self):
        body = json.dumps({"model": self.name, "messages": [{"role": "user", "content": "Hi"}], "user": "a", "metadata": None})
        for more in ('"user": "b"', '"metadata": {}', '"model": null'):
            status, answer = self.server.post(body[:-1] + ", " + more + "}")
            self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "invalid_value", more.split('"')[1]))

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "Hi"}])
        self.assertEqual((caught.exception.code, caught.exception.param), ("model_not_found", "model"))

    def test_unknown_paths(self):
        status, _, data = self.server.raw("GET", "/v1/nothing")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (404, "unknown_url"))

    def test_unknown_field(self):
        error = self.refused(openai.BadRequestError, "unknown_parameter", extra_body={"max_tokns": 3})
        self.assertEqual(error.param, "max_tokns")

    def test_refused_fields(self):
        for name, value in (("functions", []), ("audio", {}), ("web_search_options", {})):
            error = self.refused(openai.BadRequestError, "unsupported_parameter", extra_body={name: value})
            self.assertEqual(error.param, name)
        self.assertEqual(self.refused(openai.BadRequestError, store=True).param, "store")
        self.assertEqual(self.refused(openai.BadRequestError, modalities=["audio"]).param, "modalities")

    def test_values(self):
        schema = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}}
        dynamic = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$dynamicRef": "#x"}}}}
        for options, param in (
                ({"temperature": 3}, "temperature"), ({"temperature": "hot"}, "temperature"), ({"top_p": -1}, "top_p"), ({"n": 0}, "n"),
                ({"n": 1.5}, "n"), ({"n": 1000}, "n"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -2}, "max_tokens"), ({"max_tokens": -1.5}, "max_tokens"), ({"stop": [""]}, "stop[0]"),
                ({"stop": ["a"] * 17}, "stop"), ({"stop": "a\0b"}, "stop"), ({"stop": ["a", 1]}, "stop[1]"), ({"seed": 1.5}, "seed"),
                ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logit_bias": {"5": 101}}, "logit_bias.5"), ({"logit_bias": {"99999": 1}}, "logit_bias.99999"),

                ({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                ({"max_completion_tokens": 4}, "max_tokens"), ({"frequency_penalty": 3}, "frequency_penalty"),
                ({"response_format": {"type": "xml"}}, "response_format.type"), ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
                ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}}, "response_format.json_schema.schema"),
                ({"response_format": "json"}, "response_format"), ({"stream_options": {"x": True}, "stream": True}, "stream_options.x"),
                (schema, "response_format"), (dynamic, "response_format")):
            with self.subTest(options=options):
                error = self.refused(openai.BadRequestError, **options)
                self.assertEqual((error.param, bool(error.code)), (param, True), error.message)
        self.assertIn('temperature: expected a number in [0,2], found "hot"', self.refused(openai.BadRequestError, temperature="hot").message)
        long = self.refused(openai.BadRequestError, temperature="\u00e9" * 1000).message
        self.assertLess(len(long), 200)
        self.assertNotIn("\ufffd", long)

    def test_messages(self):
        image = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "http://x"}}]
        call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}

        def calls(**function):
            return {"role": "assistant", "tool_calls": [call, {"id": "2", "type": "function", "function": function}]}

        for message, param in (
                ({"role": "user"}, "[1].content"), ({"role": "king", "content": "a"}, "[1].role"), ({"content": "a"}, "[1].role"), ("a", "[1]"),
                ({"role": 5, "content": "a"}, "[1].role"), ({"role": "user", "content": 5}, "[1].content"), ({"role": "user", "content": None}, "[1].content"),
                ({"role": "user", "content": image}, "[1].content[1].type"), ({"role": "tool", "content": "a"}, "[1].tool_call_id"),
                ({"role": "user", "content": [{"text": "a"}]}, "[1].content[0].type"), ({"role": "user", "content": ["a"]}, "[1].content[0]"),
                ({"role": "user", "content": [{"type": "text", "text": 5}]}, "[1].content[0].text"), ({"role": "user", "content": "a", "name": 5}, "[1].name"),
                ({"role": "user", "content": "a", "tool_calls": [call]}, "[1].tool_calls"), ({"role": "assistant", "tool_calls": {}}, "[1].tool_calls"),
                ({"role": "assistant", "tool_calls": [{}]}, "[1].tool_calls[0].function"), (calls(arguments="{}"), "[1].tool_calls[1].function.name"),
                (calls(name=""), "[1].tool_calls[1].function.name"), (calls(name="a", arguments={}), "[1].tool_calls[1].function.arguments"),
                ({"role": "assistant", "function_call": {}}, "[1].function_call")):
            with self.subTest(message=message):
                self.assertEqual(self.refused(openai.BadRequestError, text=[{"role": "user", "content": "Hello"}, message]).param, "messages" + param)
        self.assertIn("image_url", self.refused(openai.BadRequestError, text=[{"role": "user", "content": image}]).message)
        self.assertEqual(self.refused(openai.BadRequestError, text=[]).param, "messages")

    def test_unknown_members_of_messages(self):
        # Clients send back what other servers added: it says nothing here, and the answer is the same.
        plain = self.ask("Hello")
        more = self.ask([{"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}], "annotations": [], "x": 1}])
        self.assertEqual(plain.choices[0].message.content, more.choices[0].message.content)

    def test_too_long(self):
        # A token of this model is a byte: prompts grow with their texts.
        few, more = (self.ask("long " * n, max_tokens=1).usage.prompt_tokens for n in (10, 20))
        found = few + (more - few) // 10 * 1990
        words = f"This model's maximum context length is 1024 tokens. However, your messages resulted in {found} tokens."
        for options in ({}, {"stream": True}, {"n": 3}):
            error = self.refused(openai.BadRequestError, "context_length_exceeded", text="long " * 2000, **options)
            self.assertEqual((error.param, error.body["message"]), ("messages", words))
        for prompt in ("long " * 2000, ["a", "long " * 2000], [5] * 5000):
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.completions.create(model=self.name, prompt=prompt)
            self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "prompt"))
            self.assertIn("This model's maximum context length is 1024 tokens. However, your prompt resulted in ", caught.exception.body["message"])

    def test_what_leaves_no_answer(self):
        # A prompt of as many tokens as the context has, and of one less.
        base = self.ask("", max_tokens=1).usage.prompt_tokens
        error = self.refused(openai.BadRequestError, "context_length_exceeded", text="a" * (1024 - base))
        self.assertIn("resulted in 1024 tokens", error.message)
        answer = self.ask("a" * (1023 - base), max_tokens=5, logit_bias={"2": -100, "0": -100})
        self.assertEqual((answer.choices[0].finish_reason, answer.usage.completion_tokens), ("length", 1))

    def test_many_messages(self):
        # One rendering says that they do not fit: the time does not grow with their square.
        begun = time.time()
        error = self.refused(openai.BadRequestError, "context_length_exceeded", text=[{"role": "user", "content": "a b"}] * 1200)
        self.assertEqual(error.param, "messages")
        self.assertIn("context length is 1024 tokens", error.message)
        self.assertLess(time.time() - begun, 30)

    def test_the_context_fills(self):
        answer = self.ask("word " * 150, max_tokens=openai.omit, logit_bias={"2": -100, "0": -100})
        self.assertEqual((answer.choices[0].finish_reason, answer.usage.total_tokens), ("length", 1024))

    def test_too_large(self):
        error = self.refused(openai.APIStatusError, text="long " * 20000)
        self.assertEqual((error.status_code, error.code), (413, "request_too_large"))
        self.assertEqual(self.server.raw("GET", "/health")[0], 200)

    def test_too_large_in_chunks(self):
        def body():
            for _ in range(100):
                yield b" " * 4096

        try:
            status = self.server.raw("POST", "/v1/chat/completions", body(), {"Transfer-Encoding": "chunked"})[0]
        except (BrokenPipeError, ConnectionResetError):
            status = 413  # it was closed while we sent
        self.assertIn(status, (400, 413))

    def test_too_many_at_once(self):
        error = self.refused_beside(lambda: self.ask("Long", max_tokens=900, stream=True, logit_bias={"2": -100, "0": -100}), 4)
        self.assertEqual((error.code, error.response.headers["Retry-After"]), ("rate_limit_exceeded", "1"))
        self.ask()

    def test_half_a_request(self):
        # A client that sends half a request, or nothing, holds nobody up.
        with socket.create_connection(("127.0.0.1", self.server.port)) as silent, socket.create_connection(("127.0.0.1", self.server.port)) as half:
            half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            self.ask()
            self.assertTrue(silent.fileno() >= 0)
        self.ask()


class Large(Case):
    """Bodies of the sizes that the server takes."""

    def test_a_megabyte_of_messages(self):
        for count, code in ((2048, "context_length_exceeded"), (30_000, "invalid_value")):
            begun = time.time()
            text = "long " * (2 << 20 >> 13) if count == 2048 else "a"
            status, answer = self.server.post({"model": self.name, "messages": [{"role": "user", "content": text}] * count})
            self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, code, "messages"), answer)
            self.assertLess(time.time() - begun, 30)

    def test_a_megabyte_of_json(self):
        for body in ("[" * (1 << 20), '{"a":' * (1 << 18), '{"a":[' + "1," * (1 << 19) + "1]}", '{"a":[' + "0," * (1 << 20) + "0]}", '{"seed":' + "9" * (1 << 20) + "}"):
            status, answer = self.server.post(body)
            self.assertEqual((status, answer["error"]["code"]), (400, "unknown_parameter" if "1,1" in body else "invalid_value" if "seed" in body else "invalid_json"))


class Pool(unittest.TestCase):
    """A pool of KV that holds less than the model's context: that is what a conversation may have."""

    def test_the_pool_is_the_limit(self):
        # Layers that see everything, layers with windows, recurrent ones.
        for model, sizes in ((PLAIN, ("16K", "100K", "1M")), (TINY / "row_gemma3.gguf", ("45K", "100K", "1M")), (TINY / "row_lfm2.gguf", ("10K", "20K"))):
            found = []
            for kv_bytes in sizes:
                with self.subTest(model=model.stem, kv_bytes=kv_bytes):
                    server = Server(model, "--kv-bytes", kv_bytes)
                    try:
                        found.append(self.check(server))
                    finally:
                        server.kill()
            self.assertEqual((len(found), found), (len(set(found)), sorted(found)))

    def check(self, server):
        client = server.client()
        most = list(client.models.list())[0].max_model_len
        # By what the model itself takes: tokens as they are, up to the one that does not fit.
        ask = {"model": pathlib.Path(server.model).stem, "logit_bias": {"0": -100, "1": -100, "2": -100}}
        whole = client.completions.create(prompt=[5] * 40, max_tokens=4096, **ask)
        self.assertEqual((whole.choices[0].finish_reason, whole.usage.total_tokens), ("length", most))
        last = client.completions.create(prompt=[5] * (most - 1), max_tokens=4096, **ask)
        self.assertEqual(last.usage.completion_tokens, 1)
        for count in (most, most + 1, most + 5000):
            with self.assertRaises(openai.BadRequestError) as caught:
                client.completions.create(prompt=[5] * count, **ask)
            self.assertIn(f"maximum context length is {most} tokens. However, your prompt resulted in {count} tokens", caught.exception.message)
            self.assertEqual(caught.exception.code, "context_length_exceeded")
        return most


class Words(Case):
    """Errors that the library finds, in the terms of a client. support.py looks at the words of every error of every test."""

    template = "qwen2_5"

    def test_of_the_library(self):
        def form(schema):
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}

        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"$dynamicRef": "#b"}}}}}
        ban = {str(i): -100 for i in range(3, 259)}
        for options, param, code in (
                (form({"type": "nothing"}), "response_format", "invalid_json_schema"), (form({"$dynamicRef": "#x"}), "response_format", "unsupported_value"),
                (form({"type": "string", "minLength": 10**9}), "response_format", "limit_exceeded"),
                (form({"const": "ok"}) | {"logit_bias": ban}, "logit_bias", "invalid_value"),
                ({"tools": [tool], "tool_choice": "required"}, "tools", "unsupported_value"),
                ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "invalid_value")):
            for stream in (False, True):
                with self.subTest(options=str(options)[:100], stream=stream):
                    body = {"model": self.name, "messages": [{"role": "user", "content": "?"}], "max_tokens": 40, "stream": stream, **options}
                    status, answer = self.server.post(body)
                    self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, param, code), answer)

    def test_without_a_template(self):
        bare = self.dir / "bare.gguf"
        command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force", "--remove-metadata", "tokenizer.chat_template", str(PLAIN), str(bare)]
        subprocess.run(command, check=True, capture_output=True)
        server = Server(bare)
        self.addCleanup(server.kill)
        for body, path, param in (({"messages": [{"role": "user", "content": "?"}]}, "chat/completions", "messages"), ({"input": "?"}, "responses", "input")):
            status, answer = server.post({"model": "bare", **body}, "/v1/" + path)
            self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "unsupported_value", param))
            self.assertIn("no chat template", answer["error"]["message"])


class Ended(Case):
    """Answers that take too long: the pool has room for one of 64 at a time."""

    options = ("--time-limit", "1", "--kv-bytes", "300K")

    def test_the_time_limit(self):
        error = self.refused(openai.InternalServerError, "time_limit", text="Long", max_tokens=900, n=64, temperature=1,
                             logit_bias={"2": -100, "0": -100})
        self.assertEqual((error.status_code, error.response.headers["x-should-retry"]), (503, "false"))

    def test_the_time_limit_in_a_stream(self):
        with self.assertRaises(openai.APIError) as caught:
            for _ in self.ask("Long", max_tokens=900, n=64, temperature=1, stream=True, logit_bias={"2": -100, "0": -100}):
                pass
        self.assertEqual(caught.exception.code, "time_limit")


class Gone(Case):
    """Clients that go away."""

    def request(self, stream, text):
        body = json.dumps({"model": self.name, "messages": [{"role": "user", "content": text}], "stream": stream, "temperature": 0, "max_tokens": 950,
                           "n": 8, "logit_bias": {"2": -100, "0": -100}})
        s = socket.create_connection(("127.0.0.1", self.server.port))
        s.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return s

    def test_within_a_step(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                client = self.request(stream, f"Go away {stream}")
                self.eventually(lambda: self.server.metric("kvrt_sessions_generating") > 0, "it begins")
                before = self.server.metric("kvrt_steps_total")
                client.close()
                self.eventually(lambda: self.server.metric("kvrt_sessions_generating") == 0, "it goes on without a client")
                steps = self.server.metric("kvrt_steps_total")
                self.assertLess(steps - before, 200)  # of 950: those while we looked
                time.sleep(0.2)
                self.assertEqual(self.server.metric("kvrt_steps_total"), steps)
                # The session is whole: the same request finds the prompt, and gets an answer.
                answer = self.ask(f"Go away {stream}")
                self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_in_a_prompt(self):
        with_long_prompt = self.request(False, "prompt " * 130)
        with_long_prompt.close()
        self.eventually(lambda: self.server.metric("kvrt_sessions_generating") == 0, "a prompt is computed without a client")
        self.ask("prompt " * 130)

    def test_a_stream_that_nobody_reads(self):
        clients = [self.request(True, f"No reader {i}") for i in range(3)]
        self.ask("Another client's", max_tokens=30)  # is served meanwhile
        for client in clients:
            client.close()
        self.eventually(lambda: self.server.metric("kvrt_sessions_generating") == 0, "it goes on without a client")


class Crowd(unittest.TestCase):
    def crowd(self, stack, server):
        """Eight new connections that ask."""
        others = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60)) for _ in range(8)]
        for s in others:
            s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return others

    def test_a_request_that_has_come(self):
        # The connection is idle no more, whoever looks at it first.
        server = Server(PLAIN, "--connections", "1")
        self.addCleanup(server.kill)
        ours = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.addCleanup(ours.close)
        body = json.dumps({"model": PLAIN.stem, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
        ours.connect()
        for _ in range(6):
            time.sleep(0.06)  # it may be taken for idle
            with contextlib.ExitStack() as stack:
                server.process.send_signal(signal.SIGSTOP)  # all of it is there at once
                try:
                    ours.request("POST", "/v1/chat/completions", body)
                    others = self.crowd(stack, server)
                finally:
                    server.process.send_signal(signal.SIGCONT)
                self.assertEqual({s.recv(12) for s in others}, {b"HTTP/1.1 503"})
                response = ours.getresponse()
                self.assertEqual((response.status, "choices" in json.loads(response.read())), (200, True))

    def test_a_request_that_is_about_to_come(self):
        # A client that connects has a moment to say what it wants.
        server = Server(PLAIN, "--connections", "1")
        self.addCleanup(server.kill)

        def survives():
            ours = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            with contextlib.closing(ours), contextlib.ExitStack() as stack:
                ours.connect()
                time.sleep(0.01)
                for s in self.crowd(stack, server):
                    s.recv(12)
                try:
                    ours.request("GET", "/v1/models")
                    return ours.getresponse().status == 200
                except OSError:
                    return False

        self.assertTrue(any(survives() for _ in range(3)))  # the moment is short for a machine that has much to do

    def test_health_above_all_connections(self):
        server = Server(PLAIN, "--connections", "3")
        self.addCleanup(server.kill)
        held = [socket.create_connection(("127.0.0.1", server.port))]
        time.sleep(0.1)
        held += [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        time.sleep(0.1)
        begun = time.time()
        for _ in range(5):  # those who say nothing give way
            self.assertEqual(server.raw("GET", "/v1/models")[0], 200)
        self.assertEqual(held[0].recv(1), b"")  # the one that was silent for the longest time
        for s in held:
            s.close()
        time.sleep(0.1)
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
        for s in held:
            s.sendall(b"GET /v1/models HTT")
        time.sleep(0.1)
        for _ in range(3):
            self.assertEqual(server.raw("GET", "/health")[0], 200)
            self.assertEqual(server.raw("GET", "/metrics")[0], 200)
        status, _, data = server.raw("GET", "/v1/models")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (503, "overloaded"))
        self.assertLess(time.time() - begun, 30)  # they are not behind those who are silent for a minute
        for s in held:
            s.close()
        deadline = time.time() + 60
        while server.raw("GET", "/v1/models")[0] != 200:
            self.assertLess(time.time(), deadline)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
