"""Who may ask: addresses, API keys and their domains, Host and Origin. The program's own options."""
import json
import socket
import subprocess
import time
import unittest

import openai

from support import Case, PLAIN, SERVER, Server

ANN, BOB = "ann-has-a-key-of-32-characters-..", "bob-has-another-key-of-some-length"
TEXT = "A question that is long enough to have more than one block of tokens, which thirty-two of them make. "


class Keys(Case):
    environment = {"KVRT_API_KEY": "the-key-in-the-environment"}
    keys = f"# names and keys\nann {ANN}\n\nbob {BOB}\n"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ann, cls.bob = cls.server.client(ANN), cls.server.client(BOB)

    def test_no_key(self):
        for key in ("", "none", ANN[:-1], ANN + "x", ANN.upper()):
            with self.subTest(key=key), self.assertRaises(openai.AuthenticationError) as caught:
                self.ask(client=self.server.client(key or "x"))
            self.assertEqual(caught.exception.code, "invalid_api_key")
        for path in ("//v1/models", "/models", "/models/", "/v1//kvrt/sessions/", "/v1/kvrt//graph", "//metrics"):
            self.assertEqual(self.server.raw("GET", path)[0], 401, path)
        status, headers, data = self.server.raw("GET", "/v1/models")
        self.assertEqual((status, headers["WWW-Authenticate"], json.loads(data)["error"]["code"]), (401, "Bearer", "invalid_api_key"))
        self.assertEqual(self.server.raw("GET", "/metrics")[0], 401)
        self.assertEqual(self.server.raw("GET", "/health")[0], 200)

    def test_a_refused_request_with_a_body(self):
        status, answer = self.server.post({"model": self.name, "messages": [{"role": "user", "content": "x" * 100000}]})
        self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))

    def test_a_key_is_a_domain(self):
        first = self.ask(TEXT, client=self.ann, prompt_cache_key="k")
        self.assertGreater(self.ask(TEXT, client=self.ann, prompt_cache_key="k").usage.prompt_tokens_details.cached_tokens, 32)
        other = self.ask(TEXT, client=self.bob, prompt_cache_key="k")
        self.assertEqual(other.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(other.choices[0].message.content, first.choices[0].message.content)
        self.ask(TEXT, client=self.server.client("the-key-in-the-environment"))

    def test_lists_and_metrics(self):
        def get(path, key):
            return self.server.raw("GET", path, headers={"Authorization": f"Bearer {key}"})[2].decode()

        for i in range(3):
            self.ask(TEXT + str(i), client=self.ann)
        names = {s["name"] for s in json.loads(get("/v1/kvrt/sessions", ANN))["data"]}
        self.assertGreaterEqual(len(names), 3)
        before = get("/metrics", BOB)
        self.ask(TEXT + "4", client=self.ann)
        after = get("/metrics", BOB)
        self.assertEqual([line for line in before.splitlines() if "tokens" in line], [line for line in after.splitlines() if "tokens" in line])
        self.assertNotIn("kvrt_steps_total", after)
        self.assertIn("kvrt_server_prompt_tokens_total", after)


class Sites(Case):
    options = ("--host", "kvrt.lan", "--origin", "https://app.example")

    def status(self, **headers):
        return self.server.raw("GET", "/v1/models", headers=headers)[0]

    def test_host(self):
        for host, status in (("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("kvrt.lan:80", 200), ("evil.example", 403),
                             ("127.0.0.1.evil.example", 403), ("localhost.evil.example:8080", 403), ("LocalHost", 200), ("", 400)):
            with self.subTest(host=host):
                self.assertEqual(self.status(Host=host), status)

    def test_origin(self):
        own = f"http://127.0.0.1:{self.server.port}"
        for origin, status in ((own, 200), ("https://app.example", 200), ("https://evil.example", 403), ("null", 403), ("http://127.0.0.1:1", 403)):
            with self.subTest(origin=origin):
                self.assertEqual(self.status(Origin=origin), status)

    def test_cors(self):
        _, headers, _ = self.server.raw("GET", "/v1/models")
        self.assertFalse([h for h in headers if h.lower().startswith("access-control")])
        _, headers, _ = self.server.raw("GET", "/v1/models", headers={"Origin": "https://app.example"})
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://app.example")
        status, headers, _ = self.server.raw("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://app.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://app.example"))
        self.assertEqual(self.server.raw("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://evil.example"})[0], 403)


class Requests(Case):
    def answer(self, text):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(text.encode())
            data = b""
            while piece := s.recv(65536):
                data += piece
        return data.decode()

    def test_one_length(self):
        body = json.dumps({"model": self.name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1})
        for lengths in (f"Content-Length: {len(body)}\r\nContent-Length: 5", f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked"):
            got = self.answer(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n{body}")
            self.assertTrue(got.startswith("HTTP/1.1 400 "), got)
            self.assertEqual(got.count("HTTP/1.1"), 1, got)  # what follows is no second request

    def test_ranges_are_ignored(self):
        whole = self.server.raw("GET", "/v1/models")
        part = self.server.raw("GET", "/v1/models", headers={"Range": "bytes=" + ",".join(["0-"] * 500)})
        self.assertEqual((part[0], part[2]), (200, whole[2]))

    def test_a_burst_of_connections(self):
        begun = time.monotonic()
        sockets = [socket.create_connection(("127.0.0.1", self.server.port), timeout=20) for _ in range(150)]
        took = time.monotonic() - begun
        for s in sockets:
            s.close()
        self.assertLess(took, 5)  # a second for every six of them, where few may wait

    def test_bearer_in_any_case(self):
        server = Server(PLAIN, KVRT_API_KEY=ANN)
        self.addCleanup(server.kill)
        self.assertEqual(server.raw("GET", "/v1/models", headers={"Authorization": f"bearer {ANN}"})[0], 200)


class Program(unittest.TestCase):
    def run_server(self, *options, **environment):
        return subprocess.run([SERVER, *map(str, options)], capture_output=True, text=True, timeout=60, env=environment or None)

    def test_help(self):
        done = self.run_server("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--address", done.stdout)

    def test_an_address_that_others_reach(self):
        for address in ("0.0.0.0", "::", "192.168.1.1"):
            done = self.run_server(PLAIN, "--address", address)
            self.assertEqual(done.returncode, 1)
            self.assertIn("API key", done.stderr)
        server = Server(PLAIN, "--address", "0.0.0.0", KVRT_API_KEY=ANN)
        self.addCleanup(server.kill)
        self.assertEqual(server.raw("GET", "/v1/models")[0], 401)
        self.assertEqual([m.id for m in server.client(ANN).models.list()], [PLAIN.stem])

    def test_mistakes(self):
        for options, text in (((), "which model"), ((PLAIN, "--prot", "1"), "--prot"), ((PLAIN, "--port", "x"), "--port"), ((PLAIN, "--port"), "--port"),
                              ((PLAIN, "--port", "70000"), "70000"), ((PLAIN, PLAIN), "one model"), (("nowhere.gguf",), "nowhere.gguf"),
                              ((PLAIN, "--keys", "nowhere"), "nowhere"), ((PLAIN, "--device", "tpu"), "tpu"), ((PLAIN, "--kv-bytes", "5X"), "5X"),
                              ((PLAIN, "--store", "/nowhere/store"), "/nowhere"), ((PLAIN, "--pages", "nowhere"), "nowhere")):
            with self.subTest(options=options):
                done = self.run_server(*options)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(text, done.stderr)

    def test_an_empty_key(self):
        self.assertIn("KVRT_API_KEY is set and empty", self.run_server(PLAIN, KVRT_API_KEY="").stderr)

    def test_a_short_key(self):
        self.assertIn("16 to 256", self.run_server(PLAIN, KVRT_API_KEY="short").stderr)

    def test_an_address_in_use(self):
        server = Server(PLAIN)
        self.addCleanup(server.kill)
        done = self.run_server(PLAIN, "--port", server.port)
        self.assertEqual(done.returncode, 1)
        self.assertIn("in use", done.stderr)


if __name__ == "__main__":
    unittest.main()
