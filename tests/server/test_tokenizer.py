"""/tokenizer_info, /tokenize and /detokenize, which evaluation harnesses ask for: the tokens are those of `kvrt tokenize`."""
import json
import os
import subprocess
import unittest

from support import PLAIN, Case, Server

CLI = os.environ["KVRT_CLI"]
TEXTS = ["", "The hen.", "a  b\n", "Über 😀 <|im_end|>\n"]


def cli_tokens(text):
    done = subprocess.run([CLI, "tokenize", "-m", PLAIN, "--special", "--json", "-p", text], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["tokens"]


class Tokenizer(Case):
    def test_info(self):
        status, headers, data = self.server.raw("GET", "/tokenizer_info")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        info = json.loads(data)
        self.assertEqual(info["eos_token"], "<|im_end|>")
        self.assertIn("{%", info["chat_template"])
        self.assertEqual(info["model_max_length"], 1024)

    def test_there_and_back(self):
        for text in TEXTS:
            status, answer = self.server.post({"prompt": text, "add_special_tokens": False}, path="/tokenize")
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["tokens"], cli_tokens(text), text)
            self.assertEqual((answer["count"], answer["max_model_len"]), (len(answer["tokens"]), 1024))
            status, answer = self.server.post({"tokens": answer["tokens"]}, path="/detokenize")
            self.assertEqual((status, answer), (200, {"prompt": text}))

    def test_refused(self):
        for path, body, param in (("/tokenize", {}, "prompt"), ("/tokenize", {"prompt": 5}, "prompt"), ("/tokenize", {"prompt": "a", "text": "b"}, "text"),
                                  ("/tokenize", {"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"), ("/detokenize", {}, "the body.tokens"),
                                  ("/detokenize", {"tokens": "a"}, "the body.tokens"), ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
                                  ("/detokenize", {"tokens": [10**6]}, "tokens[0]"), ("/detokenize", {"tokens": [1.5]}, "tokens[0]")):
            status, answer = self.server.post(body, path=path)
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertEqual(self.server.post(b"{", path="/tokenize")[0], 400)
        self.assertEqual(self.server.raw("GET", "/tokenize")[0], 405)
        self.assertEqual(self.server.raw("POST", "/tokenizer_info", "{}")[0], 405)

    def test_keys(self):
        server = Server(PLAIN, KVRT_API_KEY="k" * 20)
        self.addCleanup(server.stop)
        for method, path, body in (("GET", "/tokenizer_info", None), ("POST", "/tokenize", '{"prompt": "a"}'), ("POST", "/detokenize", '{"tokens": []}')):
            self.assertEqual(server.raw(method, path, body)[0], 401, path)
            self.assertEqual(server.raw(method, path, body, {"Authorization": f"Bearer {'k' * 20}"})[0], 200, path)


if __name__ == "__main__":
    unittest.main()
