"""Speculation: --draft, --lookup and the fields of a request. Answers are the same; `usage` and the metrics say what came of it."""
import pathlib
import shutil
import tempfile
import unittest

import openai

import forced
from support import PLAIN, Case, Server

AGAIN = "to be or not to be " * 8  # what lookup finds
BIAS = {"5": 100, "6": 100}  # answers of two tokens repeat
FORCED = {"draft_tokens_max": 6, "draft_tokens_min": 3}  # whatever it costs: pace is no matter of tests
PREDICTED = {"prediction": {"type": "content", "content": AGAIN}}


def said(answer):
    return [(c.message.content, c.finish_reason) for c in answer.choices], answer.usage.completion_tokens


def counted(usage):
    """Tokens that were proposed and right, and those that were wrong."""
    details = usage.completion_tokens_details
    return details.accepted_prediction_tokens, details.rejected_prediction_tokens


class Requests(Case):
    """Without options: a request alone asks for it."""

    template = "qwen2_5"

    def test_none(self):
        self.assertEqual(counted(self.ask().usage), (0, 0))

    def test_fields(self):
        for sampled in ({}, {"temperature": 1, "seed": 5}):
            want = said(self.ask(AGAIN, logit_bias=BIAS, max_tokens=40, **sampled))
            for extra in ({"lookup": True}, PREDICTED, {"prediction": {"type": "content", "content": [{"type": "text", "text": AGAIN}] * 2}}):
                answer = self.ask(AGAIN, logit_bias=BIAS, max_tokens=40, extra_body=extra | FORCED, **sampled)
                self.assertEqual(said(answer), want)
                self.assertGreater(sum(counted(answer.usage)), 0)
                self.assertLessEqual(counted(answer.usage)[0], answer.usage.completion_tokens)
            self.assertEqual(said(self.ask(AGAIN, logit_bias=BIAS, max_tokens=40, extra_body={"lookup": True}, **sampled)), want)

    def test_of_the_client(self):
        """OpenAI's client has the field `prediction` itself."""
        want = said(self.ask(AGAIN, logit_bias=BIAS, max_tokens=20))
        self.assertEqual(said(self.ask(AGAIN, logit_bias=BIAS, max_tokens=20, **PREDICTED)), want)

    def test_stream(self):
        want = self.ask(AGAIN, logit_bias=BIAS, max_tokens=24)
        stream = self.ask(AGAIN, logit_bias=BIAS, max_tokens=24, stream=True, stream_options={"include_usage": True}, extra_body={"lookup": True} | FORCED)
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), want.choices[0].message.content)
        usage = chunks[-1].usage
        self.assertEqual(usage.completion_tokens, want.usage.completion_tokens)
        self.assertGreater(sum(counted(usage)), 0)

    def test_other_endpoints(self):
        plain = self.client.completions.create(model=self.name, prompt=AGAIN, max_tokens=24, temperature=0, logit_bias=BIAS)
        text = self.client.completions.create(model=self.name, prompt=AGAIN, max_tokens=24, temperature=0, logit_bias=BIAS, extra_body={"lookup": True} | FORCED)
        self.assertEqual(text.choices[0].text, plain.choices[0].text)
        self.assertGreater(sum(counted(text.usage)), 0)
        options = {"model": self.name, "input": AGAIN, "max_output_tokens": 24, "temperature": 0, "extra_body": {"logit_bias": BIAS}}
        plain = self.client.responses.create(**options)
        options["extra_body"] = {"logit_bias": BIAS, "lookup": True} | FORCED
        drafted = self.server.metric("kvrt_server_drafted_tokens_total")
        response = self.client.responses.create(**options)
        self.assertEqual(response.output_text, plain.output_text)
        self.assertGreater(self.server.metric("kvrt_server_drafted_tokens_total"), drafted)

    def test_many(self):
        want = said(self.ask(AGAIN, logit_bias=BIAS, n=3, max_tokens=16, temperature=1, seed=2))
        self.assertEqual(said(self.ask(AGAIN, logit_bias=BIAS, n=3, max_tokens=16, temperature=1, seed=2, extra_body={"lookup": True} | FORCED)), want)

    def test_metrics(self):
        drafted, accepted = self.server.metric("kvrt_server_drafted_tokens_total"), self.server.metric("kvrt_server_accepted_tokens_total")
        right, wrong = counted(self.ask(AGAIN, logit_bias=BIAS, max_tokens=24, extra_body={"lookup": True} | FORCED).usage)
        self.eventually(lambda: self.server.metric("kvrt_server_drafted_tokens_total") == drafted + right + wrong, "drafted tokens")
        self.assertEqual(self.server.metric("kvrt_server_accepted_tokens_total"), accepted + right)

    def test_refused(self):
        for extra, param in (({"prediction": "text"}, "prediction"), ({"prediction": {}}, "prediction.type"),
                             ({"prediction": {"type": "file", "content": "a"}}, "prediction.type"), ({"prediction": {"type": "content"}}, "prediction.content"),
                             ({"prediction": {"type": "content", "content": 5}}, "prediction.content"),
                             ({"prediction": {"type": "content", "content": [{"type": "image_url"}]}}, "prediction.content[0].type"),
                             ({"prediction": {"type": "content", "content": [{"type": "text"}]}}, "prediction.content[0].text"),
                             ({"lookup": 1}, "lookup"), ({"draft": "a.gguf"}, "draft"), ({"draft": True}, "draft"), ({"draft_tokens_max": 0}, "draft_tokens_max"),
                             ({"draft_tokens_max": 33}, "draft_tokens_max"), ({"draft_tokens_min": 33}, "draft_tokens_min"),
                             ({"draft_tokens_min": 17}, "draft_tokens_min"),
                             ({"draft_tokens_max": 3, "draft_tokens_min": 4}, "draft_tokens_min")):
            self.assertEqual(self.refused(openai.BadRequestError, extra_body=extra).param, param, extra)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model=self.name, prompt="a", extra_body=PREDICTED)
        self.assertEqual(caught.exception.param, "prediction")


class Drafted(Case):
    """With a draft model, which is the model itself."""

    template = "qwen2_5"

    @classmethod
    def make_model(cls):
        model = super().make_model()
        draft = cls.dir / "draft.gguf"
        shutil.copy(model, draft)
        cls.options = ["--draft", draft, "--lookup"]
        return model

    def test_same_answer(self):
        for sampled in ({}, {"temperature": 1, "seed": 5}):
            want = self.ask("Hello", max_tokens=30, extra_body={"draft": False, "lookup": False}, **sampled)
            self.assertEqual(counted(want.usage), (0, 0))
            for extra in ({}, FORCED, FORCED | {"lookup": False}, {"draft": True}):
                answer = self.ask("Hello", max_tokens=30, extra_body=extra, **sampled)
                self.assertEqual(said(answer), said(want))
            answer = self.ask("Hello", max_tokens=30, extra_body=FORCED | {"lookup": False}, **sampled)
            self.assertGreater(counted(answer.usage)[0] if not sampled else sum(counted(answer.usage)), 0)

    def test_restart(self):
        messages = [{"role": "user", "content": "Hello"}]
        first = self.ask(messages, max_tokens=20, extra_body=FORCED)
        self.server.kill()
        self.server.start()
        messages += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "More"}]
        again = self.ask(messages, max_tokens=20, extra_body=FORCED)
        self.assertEqual(said(again), said(self.ask(messages, max_tokens=20, extra_body={"draft": False, "lookup": False})))


class Refused(unittest.TestCase):
    def test_drafts(self):
        folder = tempfile.mkdtemp(prefix="kvrt-server-")
        self.addCleanup(shutil.rmtree, folder)
        forced.write(pathlib.Path(folder, "other.gguf"), [])  # it has another vocabulary
        for name in ("other.gguf", "none.gguf"):
            with self.assertRaisesRegex(AssertionError, f"kvrt-server: --draft .*{name}: "):
                Server(PLAIN, "--draft", f"{folder}/{name}").kill()


if __name__ == "__main__":
    unittest.main()
