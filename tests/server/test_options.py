"""The program's options: what is refused, and what a restart or a second server on the same store changes."""
import os
import shutil
import subprocess
import tempfile
import unittest

from support import PLAIN, SERVER, Server, message


class Options(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="kvrt-server-")
        self.addCleanup(shutil.rmtree, self.dir)

    def run_with(self, *options, model=PLAIN, **environment):
        command = [str(SERVER), *([str(model)] if model else []), *map(str, options)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})

    def refused(self, *options, words=(), **more):
        done = self.run_with(*options, **more)
        self.assertEqual((done.returncode, done.stdout), (1, ""), options)
        self.assertTrue(done.stderr.startswith("kvrt-server: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in (*options[:1], *words):
            self.assertIn(str(word), done.stderr)

    def test_help(self):
        done = self.run_with("--help", model=None)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(max(map(len, done.stdout.splitlines())), 120)
        # Every option that it names is one, and every one but a flag has a value.
        names = {word for line in done.stdout.splitlines() for word in line.split() if line.startswith("  --") and word.startswith("--")}
        self.assertGreater(len(names), 15)
        for name in names - {"--lookup"}:
            self.refused(name, words=["value"])
            self.refused(name, "", words=["empty"])

    def test_values(self):
        for name, *values in (("--port", "65536", "-1", "x", "80.5", "99999999999999999999"), ("--threads", "0", "257"), ("--answers", "0", "65537"),
                              ("--connections", "0", "16385"), ("--body", "1023", "65M", "1X"), ("--time-limit", "0", "86401"), ("--read-time", "0", "3601"),
                              ("--keep", "36501"), ("--kv-bytes", "0", "16E", "99999999999T"), ("--disk", "0"), ("--device", "tpu"), ("--history", "none")):
            for value in values:
                self.refused(name, value, words=[value, "expected"])
        for value in ("a b", "name:80", "http://x", "a/b", "é"):
            self.refused("--host", value, words=["expected a name"])
        for value in ("x", "http://", "http://x/", "ftp://x", "http://a b", "null"):
            self.refused("--origin", value, words=["expected http://HOST:PORT"])
        for value in ("a\nb", "x" * 257):
            self.refused("--name", value, words=["expected up to 256 bytes"])
        self.refused("--bogus", "1", words=["unknown option"])
        self.refused("--pages", self.dir + "/none", words=["no folder"])
        for name in ("v1", "health", "metrics", "tokenize", "tokenizer_info", "detokenize"):
            os.makedirs(f"{self.dir}/{name} of pages/{name}")
            self.refused("--pages", f"{self.dir}/{name} of pages", words=[f"has a file {name}", "path of the API"])
        self.assertIn("none: cannot be read", self.run_with("--keys", self.dir + "/none").stderr)
        self.refused("--address", "not an address", KVRT_API_KEY="k" * 20)
        self.refused("--address", "0.0.0.0", words=["API keys"])
        self.refused(words=["which model"], model=None)
        self.refused("other.gguf", words=["one model"])
        self.assertIn("none.gguf", self.run_with(model=self.dir + "/none.gguf").stderr)

    def test_created_stays(self):
        model = self.dir + "/model.gguf"
        shutil.copy(PLAIN, model)
        os.utime(model, (1_600_000_000, 1_600_000_000))
        server = Server(model, "--name", "A name", "--host", "MyHost")
        self.addCleanup(lambda: server.kill())
        found = [m.model_dump() for m in server.client().models.list()]
        self.assertEqual((found[0]["id"], found[0]["created"]), ("A name", 1_600_000_000))
        self.assertEqual(server.raw("GET", "/v1/models", headers={"Host": "myhost:80"})[0], 200)
        self.assertEqual(server.raw("GET", "/v1/models/A%20name")[0], 200)
        server.stop()
        server.start()
        self.assertEqual([m.model_dump() for m in server.client().models.list()], found)

    def test_two_servers_on_one_store(self):
        # A conversation goes from one to the other; no turn is lost, and none computed twice.
        first, second = (Server(PLAIN, "--history", "generated", store=self.dir + "/store") for _ in range(2))
        self.addCleanup(lambda: (first.kill(), second.kill()))
        said, before = [], 0
        for turn in range(6):
            said.append({"role": "user", "content": f"Turn {turn} of a conversation between two servers"})
            client = (first, second)[turn % 2].client()
            answer = client.chat.completions.create(model=PLAIN.stem, messages=said, max_tokens=12, temperature=0)
            self.assertGreaterEqual(answer.usage.prompt_tokens_details.cached_tokens, before // 32 * 32)
            before = answer.usage.total_tokens - 1
            said.append(message(answer))
        self.assertEqual(first.stop()[0], 0)
        third = Server(PLAIN, "--history", "generated", store=self.dir + "/store")
        self.addCleanup(lambda: third.kill())
        said.append({"role": "user", "content": "And on."})
        answer = third.client().chat.completions.create(model=PLAIN.stem, messages=said, max_tokens=2)
        self.assertGreaterEqual(answer.usage.prompt_tokens_details.cached_tokens, before // 32 * 32)
        self.assertEqual((second.stop()[0], third.stop()[0]), (0, 0))


if __name__ == "__main__":
    unittest.main()
