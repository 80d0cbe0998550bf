"""Many clients, slow ones, hostile schemas, and the memory that requests leave behind."""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import time
import unittest

from support import Case

# Freed memory that ASan keeps is no growth.
QUIET = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


class Limits(Case):
    template = "qwen2_5"
    options = ("--answers", "256", "--connections", "256", "--read-time", "2")
    environment = QUIET

    def body(self, text, **more):
        return {"model": self.name, "messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 1, **more}

    def test_200_at_once(self):
        def one(i):
            status, _, data = self.server.raw("POST", "/v1/chat/completions", json.dumps(self.body(f"Number {i}", stream=i % 2 == 0)))
            return status, data.endswith(b"data: [DONE]\n\n") if i % 2 == 0 else len(json.loads(data)["choices"]) == 1

        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            self.assertEqual(set(pool.map(one, range(200))), {(200, True)})

    def test_slow_clients_at_the_limit(self):
        held = [socket.create_connection(("127.0.0.1", self.server.port), timeout=60) for _ in range(258)]
        for s in held:
            s.sendall(b"GET /v1/models HTT")
        self.assertEqual(self.server.raw("GET", "/health")[0], 200)
        self.eventually(lambda: self.server.raw("GET", "/v1/models")[0] == 200, "slow clients keep their places")
        for s in held[:10]:
            self.assertIn(b"HTTP/1.1 408 ", s.recv(100))
        for s in held:
            s.close()

    def test_schemas(self):
        deep = tail = {"type": "string"}
        for _ in range(40):
            deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
        for _ in range(100):
            tail = {"anyOf": [tail]}
        nodes = {f"d{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "ab"}, "required": ["a", "b"]} for i in range(30)}
        for schema, code in (
                (deep, "invalid_json"), (tail, "invalid_json"), ({"$ref": "#"}, "invalid_json_schema"), ({"enum": ["x" * 20 + str(i) for i in range(50000)]}, "limit_exceeded"),
                ({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(3000)}}, "limit_exceeded"),
                ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "invalid_json_schema"),
                ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}}, "unsupported_value"),
                ({"type": "string", "pattern": "^(a{1,1000}){1,1000}$"}, "limit_exceeded"), ({"type": "string", "pattern": "[a-"}, "invalid_json_schema"),
                ({"type": "string", "pattern": "(" * 500 + ")" * 500}, "limit_exceeded"), ({"type": "string", "minLength": 10**9}, "limit_exceeded"),
                ({"allOf": [{"anyOf": [{"properties": {f"a{i}_{j}": {}}} for j in range(4)]} for i in range(12)]}, "limit_exceeded"),
                ({"type": "string", "pattern": "^(a+)+$"}, None), ({"type": "string", "pattern": "^(a|a)*b(.*a){25}$"}, None),
                ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}}}, None),
                ({"$ref": "#/$defs/d0", "$defs": nodes | {"d30": {}}}, None), ({"type": "array", "items": {"type": "integer"}, "minItems": 2000}, None)):
            with self.subTest(schema=str(schema)[:80]):
                begun = time.time()
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                status, answer = self.server.post(self.body("Schema", response_format=form))
                self.assertEqual((status, answer.get("error", {}).get("code")), (400 if code else 200, code), str(answer)[:300])
                # As the arguments of a tool that may be called: an answer, or a refusal, and soon.
                tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": schema}}}}
                self.assertIn(self.server.post(self.body("Schema", tools=[tool]))[0], (200, 400))
                self.assertLess(time.time() - begun, 30)

    def test_long_quotes(self):
        # A client that reads an error gets no megabyte of its own words.
        long = "\u00e9" * 8_000
        for body in ({"model": long, "messages": [{"role": "user", "content": "a"}]}, {long: 1}, {"messages": [{"role": "user", "content": [{"type": long}]}]}):
            status, answer = self.server.post({"model": self.name, **body})
            self.assertIn(status, (400, 404))
            self.assertLess(len(json.dumps(answer, ensure_ascii=False).encode()), 5000)
            self.assertTrue(answer["error"]["message"].endswith("\u00e9..."))

    def test_more_than_a_template_writes(self):
        # Which is 4 MiB of text, of 16 MiB of values. The tokens of the texts are counted all the same: as those of a prompt.
        for count in (1_100_000, 2_600_000):
            text = "long " * count
            words = self.server.post({"model": self.name, "prompt": text}, "/v1/completions")[1]["error"]["message"]
            found = int(re.search(r"your prompt resulted in (\d+) tokens", words).group(1))
            chat = {"messages": [{"role": "system", "content": text[:len(text) // 2]}, {"role": "user", "content": text[len(text) // 2:]}]}
            for body, path, param in ((chat, "chat/completions", "messages"), (chat | {"stream": True}, "chat/completions", "messages"),
                                      ({"input": text}, "responses", "input")):
                status, answer = self.server.post({"model": self.name, **body}, "/v1/" + path)
                self.assertEqual((status, answer["error"]["code"], answer["error"]["param"]), (400, "context_length_exceeded", param), answer)
                self.assertEqual(answer["error"]["message"],
                                 f"This model's maximum context length is 1024 tokens. However, your messages resulted in more than {found} tokens.")

    def resident(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) / 1024

    def test_memory_stays(self):
        def ask(i):
            form = ({"response_format": {"type": "json_object"}}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, {"n": 3, "stream": True})[i % 3]
            self.assertEqual(self.server.raw("POST", "/v1/chat/completions", json.dumps(self.body(f"Memory {i}", max_tokens=2, **form)))[0], 200)
            self.assertEqual(self.server.post('{"model": "' + "x" * 10000)[0], 400)

        for i in range(260):  # as many as stay open
            ask(i)
        before = self.resident()
        for i in range(260, 500):
            ask(i)
        self.assertLess(self.resident() - before, 16)


if __name__ == "__main__":
    unittest.main()
