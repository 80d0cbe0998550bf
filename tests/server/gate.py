"""A server between a browser and kvrt-server: it passes all on, slows streams down, and gives answers of its own."""
import contextlib
import http.client
import http.server
import json
import threading
import time


class Gate:
    def __init__(self, server):
        self.server = server
        self.pause = 0.0  # seconds between two events of a stream
        self.extra = {}  # fields of every question
        self.fakes = {}  # by path: (status, type, bytes)
        self.delays = {}  # by path: seconds before its answer
        self.asked = []  # the questions as they came
        self.read = []  # the paths that were read
        gate = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                gate.serve(self, None)

            do_DELETE = do_GET

            def do_POST(self):
                gate.serve(self, self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a browser that goes away
                pass

        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}/"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()

    def serve(self, handler, body):
        path = handler.path.partition("?")[0]
        if handler.command == "GET":
            self.read.append(path)
        time.sleep(self.delays.get(path, 0))
        if body is not None:
            self.asked.append(json.loads(body))
            body = json.dumps({**self.asked[-1], **self.extra}).encode()
        if path in self.fakes:
            status, kind, data = self.fakes[path]
            return self.answer(handler, status, [("Content-Type", kind), ("Content-Length", str(len(data)))], [data])
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("content-length", "accept-encoding")}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        with contextlib.closing(connection):
            try:
                connection.request(handler.command, handler.path, body, headers)
                response = connection.getresponse()
            except OSError:
                handler.close_connection = True  # no server, no answer
                return
            kept = [(name, value) for name, value in response.getheaders() if name not in ("Transfer-Encoding", "Keep-Alive", "Connection")]
            if response.headers.get("Transfer-Encoding") == "chunked":
                self.stream(handler, response, kept)
            else:
                self.answer(handler, response.status, kept, [response.read()])

    def stream(self, handler, response, headers):
        handler.close_connection = True
        parts = (self.slowly(line) for line in response)
        self.answer(handler, response.status, [*headers, ("Connection", "close")], parts)

    def slowly(self, line):
        if line.startswith(b"data"):
            time.sleep(self.pause)
        return line

    def answer(self, handler, status, headers, parts):
        handler.send_response_only(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.end_headers()
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()
