"""kvrt eval --data beside the server: the same items and texts, scored as lm-eval scores them, with the chances that an echo has."""
import json
import math
import unittest

import harness
from support import PLAIN, TINY, Case, Server


class Reference:
    """lm-eval's arithmetic, over the server: tokens of /tokenize without a BOS, and the chances of an echo. Prompts begin with the model's BOS."""

    def __init__(self, server):
        self.server, self.bos = server, harness.bos_of(server)
        info = json.loads(server.raw("GET", "/tokenizer_info")[2])
        self.prefix = self.tokens(info.get("bos_token") or info["eos_token"])[:1]

    def tokens(self, text):
        return self.server.post({"prompt": text, "add_special_tokens": False}, path="/tokenize")[1]["tokens"]

    def score(self, context, tokens):
        """The log of the probability of tokens after a context."""
        body = {"model": self.server.name, "prompt": [context + tokens], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
        status, answer = self.server.post(body, "/v1/completions")
        assert status == 200, answer
        return sum(answer["choices"][0]["logprobs"]["token_logprobs"][len(context):-1])

    def choices(self, items):
        right = {"acc": 0, "acc_norm": 0, "acc_bytes": 0, "probability": 0}
        for item in items:
            prompt = item.get("prompt", item.get("query"))
            bare = prompt.rstrip()
            between = prompt[len(bare):] + item.get("delimiter", " ")
            bare = self.bos + bare
            context = self.tokens(bare) or self.prefix
            scores = [self.score(context, self.tokens(bare + between + choice)[len(self.tokens(bare)):]) for choice in item["choices"]]
            for name, length in (("acc", lambda c: 1), ("acc_norm", len), ("acc_bytes", lambda c: len(c.encode()))):
                by_length = [score / length(choice) for score, choice in zip(scores, item["choices"])]
                right[name] += by_length.index(max(by_length)) == item["answer"]
            right["probability"] += 1 / sum(math.exp(score - scores[item["answer"]]) for score in scores)
        return {name: value / len(items) for name, value in right.items()}

    def text(self, text):
        """Each token is scored once, in windows of harness.TOKENS."""
        tokens, most, total, done = self.tokens(text), harness.TOKENS, 0, 0
        while done < len(tokens):
            end = min(done + most - 1, len(tokens))
            context = (self.prefix + tokens)[max(0, end - most + 1):done + 1]
            total -= self.score(context, tokens[done:end])
            done = end
        size = len(text.encode())
        return {"bits_per_byte": total / size / math.log(2), "byte_perplexity": math.exp(total / size),
                "word_perplexity": math.exp(total / harness.words_in(text))}


class Eval(Case):
    @classmethod
    def make_model(cls):
        return harness.with_room(PLAIN, cls.dir / "model.gguf")

    def same(self, model):
        server = Server(model)
        self.addCleanup(server.kill)
        server.name = model.stem
        figures = harness.evaluate(model, self.data, self.dir / model.stem)["f16"]
        reference = Reference(server)
        for name, value in reference.choices(harness.items()).items():
            self.assertAlmostEqual(figures[name], value, places=9, msg=f"{model.stem}: {name}")
        for name, text in harness.texts().items():
            for figure, value in reference.text(text).items():
                self.assertLess(abs(figures[name][figure] / value - 1), 1e-8, f"{model.stem}: {name}: {figure}")
        server.stop()

    def setUp(self):
        super().setUp()
        self.data = self.dir / "data"
        if not self.data.exists():
            harness.write(self.data)

    def test_plain(self):
        self.same(self.make_model())

    def test_windows_and_states(self):
        for name in ("row_gemma3", "row_lfm2", "row_qwen3next"):
            self.same(harness.with_room(TINY / f"{name}.gguf", self.dir / f"{name}.gguf"))

    def test_a_prompt_after_a_bos(self):
        self.same(harness.with_room(PLAIN, self.dir / "bos.gguf", add_bos_token="true"))


if __name__ == "__main__":
    unittest.main()
