"""/v1/kvrt/graph: which sessions share which blocks. The page's files and what they are served with."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import unittest

from support import Case, PLAIN, SOURCE, Server

KVRT = pathlib.Path(os.environ["KVRT_CLI"])
FILES = sorted((SOURCE / "samples" / "server" / "page").iterdir())
ANN, BOB = "ann-has-a-key-of-32-characters-..", "bob-has-another-key-of-some-length"
SYSTEM = {"role": "system", "content": "A system message that is long enough for several blocks of tokens, and is said in each conversation. " * 2}
ENDLESS = {"logit_bias": {"2": -100, "0": -100}}


def get(server, query="", **headers):
    status, answered, data = server.raw("GET", "/v1/kvrt/graph" + query, headers=headers)
    return status, answered, json.loads(data) if data else None


def sessions(server, query="", **headers):
    return {s["name"]: s for s in get(server, query, **headers)[2]["sessions"]}


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a["blocks"], b["blocks"])) if x != y), min(len(a["blocks"]), len(b["blocks"])))


class Graph(Case):
    def setUp(self):
        super().setUp()
        self.server.kill()
        shutil.rmtree(self.dir / "store")
        self.server.start()

    def say(self, *texts, **options):
        for text in texts:
            self.ask([SYSTEM, {"role": "user", "content": text}], **{"max_tokens": 40, **ENDLESS, **options})
        self.eventually(lambda: all(s["on_disk"] > 0 for s in sessions(self.server).values()), "an answer is not saved")

    def test_no_session(self):
        status, _, data = get(self.server)
        pool = data.pop("pool")
        self.assertEqual((status, data), (200, {"object": "kvrt.graph", "block_tokens": 32, "sessions": [], "more": 0, "unread": 0}))
        self.assertEqual(pool["units"], pool["free"])

    def test_open_and_saved_sessions_have_the_same_keys(self):
        self.say("one", "two")
        before = sessions(self.server)
        one, two = before.values()
        self.assertEqual({s["state"] for s in before.values()}, {"memory"})
        self.assertGreater(common(one, two), 3)
        self.assertLess(common(one, two), len(one["blocks"]))
        for s in before.values():
            self.assertEqual(len(s["blocks"]), -(-s["tokens"] // 32))
            self.assertEqual(s["computed"], s["tokens"] - 1)
            self.assertGreaterEqual(s["on_disk"], s["tokens"] - 17)
        self.server.kill()
        self.server.start()
        after = sessions(self.server)
        for name, s in before.items():
            self.assertEqual(after[name], {**s, "state": "disk", "computed": 0})
        self.say("one")  # resumed, in memory again: what it has in common with the one on disk is as before
        again = sessions(self.server)
        self.assertEqual({s["state"] for s in again.values()}, {"memory", "disk"})
        self.assertEqual(common(*again.values()), common(one, two))

    def test_the_same_chunks_as_the_store(self):
        self.say("one", "two", "three")
        chains = sessions(self.server)
        self.server.stop()
        shown = {n: json.loads(subprocess.run([KVRT, "store", "show", self.dir / "store", n, "--json"], check=True, capture_output=True).stdout)
                 for n in chains}
        keys = {n: {"blocks": [c["key"] for c in s["chunks"] if c["end"] % 32 == 0]} for n, s in shown.items()}
        for a in chains:
            for b in chains:
                if a != b:
                    self.assertEqual(common(chains[a], chains[b]), common(keys[a], keys[b]))
        self.server.start()

    def test_computing(self):
        seen = []
        done = threading.Event()

        def answer():
            self.ask("Go on", max_tokens=900, n=8, temperature=1, **ENDLESS)
            done.set()

        thread = threading.Thread(target=answer)
        thread.start()
        while not done.is_set():
            seen += sessions(self.server).values()
        thread.join()
        self.assertIn("computing", {s["state"] for s in seen})
        self.assertGreater(len({s["tokens"] for s in seen}), 2)
        for s in seen:
            self.assertLessEqual(max(s["computed"], s["on_disk"]), s["tokens"])

    def test_nothing_new_is_304(self):
        self.say("one")
        status, headers, _ = get(self.server)
        self.assertEqual((status, headers["Cache-Control"], headers["X-Content-Type-Options"]), (200, "no-store", "nosniff"))
        status, _, data = get(self.server, **{"If-None-Match": headers["ETag"]})
        self.assertEqual((status, data), (304, None))
        self.say("two")
        self.assertEqual(get(self.server, **{"If-None-Match": headers["ETag"]})[0], 200)

    def test_limit(self):
        self.say("one")
        time.sleep(0.01)
        self.say("two")
        newest = max(json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"], key=lambda s: s["saved_unix_ms"])["name"]
        _, _, data = get(self.server, "?limit=1")
        self.assertEqual(([s["name"] for s in data["sessions"]], data["more"]), ([newest], 1))
        for limit in ("0", "-1", "10000", "x", "", "1e3", "<script>"):
            with self.subTest(limit=limit):
                status, _, data = get(self.server, "?limit=" + limit)
                self.assertEqual((status, data["error"]["param"]), (400, "limit"))

    def test_a_name_that_the_server_did_not_make(self):
        self.say("one")
        name = next(iter(sessions(self.server)))
        self.server.stop()
        hostile = "</script><img src=x onerror=\"x\">'\\\u202e\x07"
        subprocess.run([KVRT, "store", "mv", self.dir / "store", name, hostile], check=True)
        self.server.start()
        self.assertEqual(list(sessions(self.server)), [hostile])

    def test_another_model_shares_nothing(self):
        self.say("one", "two")
        self.server.stop()
        other = Server(PLAIN.with_name("llama_mha_f16.gguf"), "--name", "other", store=self.dir / "store")
        try:
            said = [SYSTEM, {"role": "user", "content": "one"}]
            for text in ("one", "two"):
                said[1]["content"] = text
                other.client().chat.completions.create(model="other", messages=said, max_tokens=8)
            self.eventually(lambda: len(sessions(other)) == 4, "four sessions")
            mine, theirs = [[s for s in sessions(other).values() if s["state"] == state] for state in ("memory", "disk")]
            self.assertEqual((len(mine), len(theirs)), (2, 2))
            self.assertGreater(min(common(*mine), common(*theirs)), 3)
            self.assertEqual(common(mine[0], theirs[0]), 0)
        finally:
            other.kill()
            self.server.start()

    def test_damage(self):
        self.say("one")
        self.server.stop()
        for segment in (self.dir / "store").rglob("*"):
            if segment.is_file() and segment.stat().st_size > 0 and "catalog" not in segment.name and segment.suffix not in ("", ".lock"):
                segment.write_bytes(b"\0" * segment.stat().st_size)
        self.server.start()
        self.assertEqual(get(self.server)[0], 200)


class Keys(Case):
    environment = {"KVRT_API_KEY": ANN}
    keys = f"bob {BOB}\n"

    def test_a_key_is_a_domain(self):
        ann, bob = {"Authorization": f"Bearer {ANN}"}, {"Authorization": f"Bearer {BOB}"}
        before = get(self.server, **bob)[1]["ETag"]
        self.ask([SYSTEM], client=self.server.client(ANN))
        self.assertEqual(len(sessions(self.server, **ann)), 1)
        status, headers, data = get(self.server, **bob)
        self.assertEqual((status, headers["ETag"], data["sessions"]), (200, before, []))
        self.assertNotIn("pool", data)  # its counts are of all domains
        status, headers, _ = get(self.server)
        self.assertEqual((status, "ETag" in headers), (401, False))
        self.assertEqual(get(self.server, **{"If-None-Match": before})[0], 401)

    def test_the_page_needs_no_key(self):
        self.assertEqual(self.server.raw("GET", "/")[0], 200)


class Files(Case):
    def test_headers(self):
        kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
        for file in FILES:
            path = "/" if file.name == "index.html" else "/" + file.name
            with self.subTest(path=path):
                status, headers, data = self.server.raw("GET", path)
                self.assertEqual((status, data), (200, file.read_bytes()))
                self.assertTrue(headers["Content-Type"].startswith(kinds[file.suffix]))
                policy = dict(p.split(" ", 1) for p in headers["Content-Security-Policy"].split("; "))
                self.assertEqual([policy[n] for n in ("default-src", "base-uri", "form-action", "frame-ancestors")], ["'none'"] * 4)
                self.assertEqual([policy[n] for n in ("script-src", "style-src", "connect-src", "img-src")], ["'self'"] * 4)
                self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"]), ("nosniff", "no-referrer"))
                self.assertEqual(self.server.raw("GET", path, headers={"If-None-Match": headers["ETag"]})[0], 304)
                self.assertEqual(self.server.raw("HEAD", path)[0], 200)
                self.assertEqual(self.server.raw("POST", path, "x")[0], 405)
        self.assertEqual(self.server.raw("GET", "/index.html")[0], 404)

    def test_nothing_comes_from_elsewhere(self):
        for file in FILES:
            text = file.read_text()
            urls = set(re.findall(r"https?://[^\"' )]*", text)) - {"http://www.w3.org/2000/svg"}
            self.assertEqual(urls, set(), file.name)
            for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage", ".cookie"):
                self.assertNotIn(unsafe, text, file.name)
        html = (SOURCE / "samples" / "server" / "page" / "index.html").read_text()
        self.assertEqual(re.findall(r"<script[^>]*>", html), ['<script type="module" src="/page.js">'])
        self.assertIsNone(re.search(r"\son\w+=|style=|javascript:", html))

    def test_pages_come_before_it(self):
        (self.dir / "own").mkdir()
        (self.dir / "own" / "index.html").write_text("mine")
        server = Server(PLAIN, "--pages", self.dir / "own")
        self.addCleanup(server.kill)
        self.assertEqual(server.raw("GET", "/")[2], b"mine")

    def test_pages_below_names_of_the_api(self):
        # A path is the API's if it is one of its paths; what else a folder has is the folder's.
        own = self.dir / "below"
        files = [f"{folder}/{name}" for folder in ("models", "responses", "completions", "embeddings", "chat/completions")
                 for name in ("a.txt", "index.html", "deep/a.txt", PLAIN.stem + ".txt")]
        for file in files:
            (own / file).parent.mkdir(parents=True, exist_ok=True)
            (own / file).write_text(file)
        server = Server(PLAIN, "--pages", own)
        self.addCleanup(server.kill)
        for file in files:
            self.assertEqual(server.raw("GET", "/" + file)[::2], (200, file.encode()))
        for path in ("/models", "/models/", "//models", "/v1/models", "/models/" + PLAIN.stem):
            self.assertIn(PLAIN.stem, json.loads(server.raw("GET", path)[2]).get("id", PLAIN.stem), path)
        status, answer = server.post({"model": PLAIN.stem, "prompt": "a", "max_tokens": 1}, "/completions")
        self.assertEqual((status, answer["object"]), (200, "text_completion"))


if __name__ == "__main__":
    unittest.main()
