"""HTTP as RFC 9110 and 9112 have it, by sockets: HTTP/1.0, framing, limits, methods, targets. Each error is one of the API."""
import json
import socket
import time
import unittest

from support import Case, PLAIN, Server


def exchange(server, data, half_close=False):
    """Sends bytes, and reads until the server closes: the heads and bodies of its answers as they came."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(data)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        got = b""
        while more := s.recv(65536):
            got += more
    return got


class Http(Case):
    options = ("--body", "64K", "--read-time", "1", "--host", "MyHost")

    def body(self, **more):
        return json.dumps({"model": self.name, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 6, "temperature": 0, **more})

    def head(self, *fields, line="POST /v1/chat/completions HTTP/1.1", host="localhost"):
        return "\r\n".join([line, f"Host: {host}", *fields, "", ""]).encode()

    def one(self, data, **options):
        """Status, fields and body of a single answer, after which the connection ends."""
        head, _, body = exchange(self.server, data, **options).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        return int(lines[0].split()[1]), fields, body

    def error(self, data, status, code, *words, **options):
        got, fields, body = self.one(data, **options)
        error = json.loads(body)["error"]
        self.assertEqual((got, error["code"], fields["content-type"]), (status, code, "application/json"), error)
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(fields["connection"], "close")
        for word in words:
            self.assertIn(word, error["message"])
        return fields

    def test_http_1_0(self):
        for stream in (False, True):
            body = self.body(stream=stream)
            head = f"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
            status, fields, answer = self.one((head + body).encode())
            self.assertEqual((status, fields["connection"]), (200, "close"))
            self.assertNotIn("transfer-encoding", fields)
            if stream:
                events = answer.decode().strip().split("\n\n")
                self.assertEqual(events[-1], "data: [DONE]")
                for event in events[:-1]:
                    self.assertEqual(json.loads(event.removeprefix("data: "))["object"], "chat.completion.chunk")
            else:
                self.assertEqual(json.loads(answer)["object"], "chat.completion")
        for path in ("/v1/models", "/", "/health", "/metrics"):
            status, fields, answer = self.one(f"GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
            self.assertEqual((status, len(answer), fields["connection"]), (200, int(fields["content-length"]), "close"))

    def test_http_1_1_is_in_chunks(self):
        body = self.body(stream=True)
        status, fields, answer = self.one(self.head(f"Content-Length: {len(body)}", "Connection: Close") + body.encode())
        self.assertEqual((status, fields["transfer-encoding"], answer[-5:]), (200, "chunked", b"0\r\n\r\n"))

    def test_versions(self):
        self.error(b"GET /health HTTP/2.0\r\n\r\n", 505, "http_version_not_supported", "HTTP/2.0")
        self.error(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "http_version_not_supported")
        self.error(b"GET /health\r\n\r\n", 400, "bad_request", "expected METHOD TARGET HTTP/1.1", "GET /health")
        self.error(b"\x16\x03\x01\x02\x00\x01\xff\n\n", 400, "bad_request")
        self.error(self.head("Connection: close", line="GET /health HTTP/1.1").replace(b"Host: localhost\r\n", b""), 400, "bad_request", "Host", "found 0")

    def test_methods(self):
        for method, path, allowed in (("GET", "/v1/chat/completions", "POST, OPTIONS"), ("HEAD", "/v1/completions", "POST, OPTIONS"),
                                      ("POST", "/v1/models", "GET, HEAD, OPTIONS"), ("DELETE", "/v1/models/x", "GET, HEAD, OPTIONS"),
                                      ("PUT", "/health", "GET, HEAD, OPTIONS"), ("PATCH", "/", "GET, HEAD, OPTIONS"), ("TRACE", "/metrics", "GET, HEAD, OPTIONS")):
            with self.subTest(method=method, path=path):
                status, headers, data = self.server.raw(method, path)
                self.assertEqual((status, headers["Allow"]), (405, allowed))
                if method != "HEAD":
                    error = json.loads(data)["error"]
                    self.assertEqual(error["code"], "method_not_allowed")
                    self.assertIn(f"{path}: expected {allowed}, found {method}", error["message"])
        for method in ("POST", "DELETE"):
            status, answer = self.server.post("{}", "/v1/none") if method == "POST" else (404, json.loads(self.server.raw(method, "/v1/none")[2]))
            self.assertEqual((status, answer["error"]["code"]), (404, "unknown_url"))
            self.assertIn(f"there is no {method} /v1/none: ", answer["error"]["message"])
        self.error(self.head(line="BREW /pot HTTP/1.1"), 501, "unknown_method", "BREW")
        self.assertEqual(self.server.raw("HEAD", "/v1/models")[0], 200)
        self.assertEqual(self.server.raw("OPTIONS", "*")[0], 204)

    def test_targets(self):
        for target, host in (("http://localhost/v1/models", "evil.example"), ("HTTP://127.0.0.1:80/v1/models", "x"), ("http://myhost:9/v1/models", "x")):
            status, _, body = self.one(self.head("Connection: close", line=f"GET {target} HTTP/1.1", host=host))
            self.assertEqual((status, json.loads(body)["data"][0]["id"]), (200, self.name))
        status, _, body = self.one(self.head("Connection: close", line="GET http://localhost HTTP/1.1"))
        self.assertEqual((status, body[:15].lower()), (200, b"<!doctype html>"))
        status, _, body = self.one(self.head("Connection: close", line="GET http://evil.example/v1/models HTTP/1.1"))
        self.assertEqual((status, json.loads(body)["error"]["code"]), (403, "host_not_allowed"))
        for target in ("https://localhost/", "health", "localhost:80", "http:///x", "http://a@localhost/", "/a b", "/\x01", "*"):
            with self.subTest(target=target):
                self.error(self.head(line=f"GET {target} HTTP/1.1"), 400, "bad_request")
        # What a path says in percents is UTF-8 in no answer.
        status, _, body = self.one(self.head("Connection: close", line="GET /%ff%00 HTTP/1.1"))
        self.assertEqual((status, json.loads(body)["error"]["message"].split(":")[0]), (404, "there is no GET /%ff%00"))

    def test_paths_in_other_spellings(self):
        # Clients put the base URL and a path together in several ways.
        for path in ("/v1/models", "//v1/models", "/v1//models", "/v1/models/", "/models", "/models/", "//models", "/v1/models//?x=//y/"):
            with self.subTest(path=path):
                status, _, data = self.server.raw("GET", path)
                self.assertEqual((status, json.loads(data)["data"][0]["id"]), (200, self.name))
        for path in (f"/models/{self.name}", f"/v1//models/{self.name}/", "/health/", "//metrics", "/v1/kvrt//sessions/"):
            self.assertEqual(self.server.raw("GET", path)[0], 200, path)
        for path in ("/chat/completions", "//chat/completions", "/v1//chat/completions/", "/v1/chat//completions"):
            status, answer = self.server.post(self.body(), path)
            self.assertEqual((status, answer["object"]), (200, "chat.completion"), path)
        status, answer = self.server.post({"model": self.name, "prompt": "a", "max_tokens": 1}, "/completions/")
        self.assertEqual((status, answer["object"]), (200, "text_completion"))
        for path in ("/v1/embeddings", "/embeddings/"):
            status, answer = self.server.post({"model": self.name, "input": "a"}, path)
            self.assertEqual((status, answer["error"]["code"]), (404, "unknown_url"))
            self.assertIn("gives no embeddings", answer["error"]["message"])
        for path in ("/v2/models", "/api/chat/completions", "/modelsx", "/v1/v1/models", "/models/other", "/responses/x", "/responses/resp_1/x"):
            status, _, data = self.server.raw("GET", path)
            self.assertEqual((status, json.loads(data)["error"]["code"]), (404, "unknown_url"), path)
        for path, code in (("/v1/models/other", "model_not_found"), ("/responses/resp_1", "response_not_found")):
            status, _, data = self.server.raw("GET", path)
            self.assertEqual((status, json.loads(data)["error"]["code"]), (404, code), path)

    def test_long(self):
        self.error(self.head(line=f"GET /{'a' * 8000} HTTP/1.1"), 414, "target_too_long", "8001", "8000")
        self.assertEqual(self.one(self.head("Connection: close", line=f"GET /v1/models/{'a' * 7980} HTTP/1.1"))[0], 404)
        self.error(f"GET /{'a' * 70000} HTTP/1.1\r\n\r\n".encode(), 414, "target_too_long", "65536")
        self.error(self.head("X: " + "a" * 9000), 431, "header_too_large", '\\"x\\"'.upper().replace("\\", ""), "9003", "8000")
        self.error(self.head(*[f"X-{i}: {'a' * 1000}" for i in range(80)]), 431, "header_too_large", "65536")

    def test_fields(self):
        for field in ("No colon", "A : b", ": b", " folded", "A: b\x00", "A: b\x7f", "Ä: b"):
            with self.subTest(field=field):
                self.error(self.head("X: y", field), 400, "bad_request")
        # Values may be any bytes; an error that names one is JSON still.
        status, _, body = self.one(b"GET /health HTTP/1.1\r\nHost: \xff\xfe\r\nConnection: close\r\n\r\n")
        self.assertEqual((status, json.loads(body)["error"]["code"]), (403, "host_not_allowed"))
        # A line may end with LF alone.
        self.assertEqual(self.one(b"\r\nGET /health HTTP/1.1\nHost: localhost\nConnection: close\n\n")[0], 200)

    def test_lengths(self):
        for length, word in (("-1", "-1"), ("+5", "+5"), ("5 5", "5 5"), ("abc", "abc"), ("0x10", "0x10"), ("", '""')):
            with self.subTest(length=length):
                self.error(self.head(f"Content-Length: {length}"), 400, "bad_request", "expected a number of bytes", word)
        self.error(self.head("Content-Length: 5", "Content-Length: 5"), 400, "bad_request", "found 2")
        self.error(self.head("Content-Length: 5", "Transfer-Encoding: chunked"), 400, "bad_request", "one of them")
        self.error(self.head("Transfer-Encoding: gzip, chunked"), 501, "unsupported_transfer_encoding", "gzip")
        self.error(self.head("Transfer-Encoding: chunked", line="POST /v1/completions HTTP/1.0"), 400, "bad_request")
        self.error(self.head("Connection: close"), 411, "length_required", "Content-Length")
        for length in (65537, 10**18, 10**30):
            self.error(self.head(f"Content-Length: {length}"), 413, "request_too_large", "65536")

    def test_types(self):
        for field, found in (("Content-Encoding: gzip", "gzip"), ("Content-Encoding: br", "br"), ("Content-Type: multipart/form-data; boundary=x", "multipart")):
            self.error(self.head("Content-Length: 2", field) + b"{}", 415, "unsupported_media_type", found)
        self.error(self.head("Content-Length: 2", "Content-Encoding: identity", "Connection: close") + b"{}", 400, "missing_required_parameter")

    def chunks(self, *chunks, end=b"0\r\n\r\n"):
        return self.head("Transfer-Encoding: Chunked", "Connection: close") + b"".join(chunks) + end

    def test_chunks(self):
        body = self.body().encode()
        one = [b"%x\r\n%c\r\n" % (1, c) for c in body]
        for data in (self.chunks(*one), self.chunks(b"%X;name=\"a b\"\r\n%s\r\n" % (len(body), body)), self.chunks(*one, end=b"000\r\nX-Sum: 5\r\nY: z\r\n\r\n")):
            status, _, answer = self.one(data)
            self.assertEqual((status, json.loads(answer)["usage"]["completion_tokens"]), (200, 6))
        for chunk in (b"x\r\n", b"-1\r\n{", b"\r\n", b"0x5\r\nabcde\r\n", b"5 5\r\nabcde\r\n"):
            with self.subTest(chunk=chunk):
                self.error(self.chunks(chunk), 400, "bad_request", "hex digits")
        self.error(self.chunks(b"2\r\n{}}\r\n"), 400, "bad_request", "more bytes")
        self.error(self.chunks(b"a" * 9000), 400, "bad_request", "too long")
        self.error(self.chunks(b"ffffffffffffffffff\r\n"), 413, "request_too_large", "more than 65536")
        self.error(self.chunks(*[b"1000\r\n" + b" " * 4096 + b"\r\n"] * 17), 413, "request_too_large", "more than 65536")
        self.error(self.chunks(end=b"0\r\n" + b"X: y\r\n" * 20000 + b"\r\n"), 431, "header_too_large", "trailer")

    def test_slow(self):
        for data in (b"GET /he", self.head("Content-Length: 9") + b"{", self.head("Transfer-Encoding: chunked") + b"5\r\n{"):
            with self.subTest(data=data):
                self.error(data, 408, "request_timeout", "1000 ms")
                self.error(data, 400, "bad_request", "ended", half_close=True)

    def test_a_byte_at_a_time(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            begun = time.time()
            try:
                while time.time() - begun < 30:
                    s.sendall(b"a")
                    time.sleep(0.05)
            except OSError:
                pass
            self.assertLess(time.time() - begun, 10)

    def test_continue(self):
        body = self.body().encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            s.sendall(self.head(f"Content-Length: {len(body)}", "Expect: 100-Continue", "Connection: close"))
            self.assertEqual(s.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(body)
            self.assertEqual(s.recv(12), b"HTTP/1.1 200")
        self.error(self.head("Content-Length: 99999", "Expect: 100-continue"), 413, "request_too_large")
        self.error(self.head("Content-Length: 9", "Expect: more"), 417, "expectation_failed", "more")

    def test_one_connection(self):
        # A body that nobody reads is no request; what came whole, in one go, is answered in order.
        body = self.body().encode()
        ask = self.head(f"Content-Length: {len(body)}") + body
        got = exchange(self.server, ask + ask + self.head("Connection: close", line="GET /health HTTP/1.1"))
        self.assertEqual(got.count(b"HTTP/1.1 200"), 3)
        smuggled = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        got = exchange(self.server, self.head(f"Content-Length: {len(smuggled)}", line="GET /v1/models HTTP/1.1") + smuggled)
        self.assertEqual((got.count(b"HTTP/1.1 "), got.count(b"Connection: close")), (1, 1))

    def test_half_close(self):
        # It looks like a client that has gone: README.md says so.
        body = self.body(max_tokens=900, logit_bias={"2": -100, "0": -100}).encode()
        self.error(self.head(f"Content-Length: {len(body)}", "Connection: close") + body, 503, "client_gone", "keep it open", half_close=True)
        self.assertEqual(self.one(self.head(line="GET /health HTTP/1.1"), half_close=True)[0], 200)


if __name__ == "__main__":
    unittest.main()
