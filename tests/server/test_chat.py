"""/v1/chat/completions with OpenAI's client: answers, streams, sampling, stop strings, log probabilities, formats, several choices."""
import codecs
import json
import shutil
import subprocess
import sys
import unittest

import openai

from support import Case, PLAIN, Server, message


class Chat(Case):
    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], [self.name])
        self.assertEqual(self.client.models.retrieve(self.name).owned_by, "kvrt")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("other")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_answer(self):
        answer = self.ask(max_tokens=8)
        choice = answer.choices[0]
        self.assertEqual((answer.object, answer.model, choice.index, choice.message.role), ("chat.completion", self.name, 0, "assistant"))
        self.assertEqual((choice.finish_reason, answer.usage.completion_tokens), ("length", 8))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 8)
        self.assertTrue(choice.message.content)
        self.assertIsNone(choice.message.tool_calls)

    def test_greedy_is_the_same_streamed_or_not(self):
        whole = self.ask(max_tokens=40).choices[0]
        chunks = list(self.ask(max_tokens=40, stream=True))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), whole.message.content)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], [whole.finish_reason])
        self.assertEqual(len({c.id for c in chunks}), 1)
        self.assertTrue(all(c.usage is None for c in chunks))

    def test_stream_usage(self):
        chunks = list(self.ask(max_tokens=5, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.completion_tokens, 5)
        self.assertTrue(all(c.usage is None for c in chunks[:-1]))

    def test_stream_ends_with_done(self):
        body = json.dumps({"model": self.name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "stream": True})
        status, headers, data = self.server.raw("POST", "/v1/chat/completions", body)
        events = data.decode().split("\n\n")
        self.assertEqual((status, headers["Content-Type"], events[-2:]), (200, "text/event-stream", ["data: [DONE]", ""]))
        self.assertTrue(all(json.loads(e[len("data: "):])["object"] == "chat.completion.chunk" for e in events[:-2]))

    def test_streamed_text_is_whole_characters(self):
        # The tiny model says many bytes that are no characters: each event is UTF-8 all the same.
        body = {"model": self.name, "messages": [{"role": "user", "content": "é中🙂"}], "max_tokens": 200, "stream": True, "seed": 5}
        _, _, data = self.server.raw("POST", "/v1/chat/completions", json.dumps(body))
        text = "".join(json.loads(e[6:])["choices"][0]["delta"].get("content", "") for e in data.decode("utf-8").split("\n\n")[:-2])
        self.assertEqual(text, self.ask("é中🙂", max_tokens=200, temperature=1, seed=5).choices[0].message.content)
        self.assertIn("\ufffd", text)

    def test_an_answer_that_is_cut_within_a_character(self):
        # It ends before the character. The answer is bound to a text, so all of it is known.
        text = json.dumps("\u00e9\u4e2d\U0001f642z", ensure_ascii=False)
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": json.loads(text)}}}
        whole = text.encode()
        cut = 0
        for tokens in range(1, len(whole) + 1):
            choice = self.ask(response_format=form, max_tokens=tokens, logprobs=True).choices[0]
            raw = b"".join(bytes(t.bytes) for t in choice.logprobs.content)
            self.assertTrue(whole.startswith(raw), raw)
            if raw == whole:
                break
            wanted = raw.decode(errors="ignore")
            cut += len(wanted.encode()) < len(raw)
            self.assertEqual((choice.message.content, choice.finish_reason), (wanted, "length"))
            self.assertEqual(self.ask(response_format=form, max_tokens=tokens).choices[0].message.content, wanted)
            chunks = list(self.ask(response_format=form, max_tokens=tokens, stream=True))
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), wanted)
        self.assertGreater(cut, 2)

    def test_bytes_before_a_stop(self):
        # Half a character before the text that stops, and before the limit; elsewhere it is what it is.
        even = {str(self.byte(b)): 100 for b in (0xE4, 0xF0, 0x9F, 0xC3, 0x42)}
        half = whole = 0
        for seed in range(40):
            options = {"logit_bias": even, "temperature": 1, "seed": seed, "logprobs": True, "max_tokens": 12}
            for stop in ({}, {"stop": "BB"}):
                choice = self.ask(**options, **stop).choices[0]
                raw = b"".join(bytes(t.bytes) for t in choice.logprobs.content)
                wanted = raw.split(b"BB")[0] if stop else raw
                text = codecs.getincrementaldecoder("utf-8")("replace").decode(wanted)
                self.assertEqual(choice.message.content, text, raw)
                half += text != wanted.decode(errors="replace")
                whole += text == wanted.decode(errors="replace")
        self.assertTrue(half > 5 and whole > 5, (half, whole))

    def test_seed(self):
        one, two, other = (self.ask(temperature=1, seed=seed, max_tokens=30).choices[0].message.content for seed in (7, 7, 8))
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)
        self.ask(temperature=1, seed=0)
        self.ask(temperature=1, seed=-(2**63))

    def test_top_p_of_0_is_greedy(self):
        self.assertEqual(self.ask(temperature=1, top_p=0, max_tokens=20).choices[0].message.content, self.ask(max_tokens=20).choices[0].message.content)

    def test_max_completion_tokens(self):
        self.assertEqual(self.ask(max_tokens=openai.omit, max_completion_tokens=3).usage.completion_tokens, 3)

    def test_penalties_and_bias(self):
        first = self.ask(max_tokens=1, logprobs=True).choices[0].logprobs.content[0]
        banned = {str(i): -100 for i in range(3, 259) if i % 2}
        self.ask(logit_bias=banned, frequency_penalty=2, presence_penalty=-2, max_tokens=20)
        self.assertTrue(first.token)
        only = self.ask(logit_bias={"10": 100}, max_tokens=3).choices[0].message.content
        self.assertEqual(len(set(only)), 1)

    def test_stop_over_several_tokens(self):
        text = self.ask(max_tokens=40).choices[0].message.content
        at = next(i for i in range(4, len(text)) if "\ufffd" not in text[i:i + 3])
        stop = text[at:at + 3]
        for options in ({"stop": stop}, {"stop": ["never to come", stop]}):
            answer = self.ask(max_tokens=40, **options)
            self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason), (text[:text.index(stop)], "stop"))
            chunks = list(self.ask(max_tokens=40, stream=True, **options))
            self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), text[:text.index(stop)])
            self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")

    def test_a_conversation_goes_on_after_a_stop_string(self):
        text = self.ask("Stop", max_tokens=40).choices[0].message.content
        answer = self.ask("Stop", max_tokens=40, stop=text[5:7])
        again = self.ask([{"role": "user", "content": "Stop"}, message(answer), {"role": "user", "content": "More"}])
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 32)

    def test_logprobs(self):
        answer = self.ask(max_tokens=12, logprobs=True, top_logprobs=3)
        tokens = answer.choices[0].logprobs.content
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(bytes(t.bytes) for t in tokens))
        self.assertEqual(text, answer.choices[0].message.content)
        for t in tokens:
            self.assertEqual(len(t.top_logprobs), 3)
            self.assertEqual((t.top_logprobs[0].bytes, t.top_logprobs[0].logprob), (t.bytes, t.logprob))  # greedy
            self.assertLessEqual(t.logprob, 0)
        self.assertIsNone(self.ask().choices[0].logprobs)

    def test_logprobs_streamed(self):
        whole = self.ask(max_tokens=12, logprobs=True, top_logprobs=2).choices[0].logprobs.content
        chunks = self.ask(max_tokens=12, logprobs=True, top_logprobs=2, stream=True)
        self.assertEqual([t for c in chunks for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])], whole)

    def test_logprobs_of_what_was_cut(self):
        # A stop text that is one token: no text comes of it.
        options = {"logit_bias": {"68": 100}, "max_tokens": 3, "logprobs": True, "top_logprobs": 1}
        token = self.ask(**options).choices[0].logprobs.content[0]
        cut = self.ask(stop=token.token, **options).choices[0]
        self.assertEqual((cut.message.content, cut.finish_reason, cut.logprobs and cut.logprobs.content), ("", "stop", [token]))
        chunks = self.ask(stop=token.token, stream=True, **options)
        self.assertEqual([t for c in chunks for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])], [token])

    def test_logprobs_have_no_end(self):
        # Text that might have begun a stop text comes behind the token that ends the turn.
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "ok"}}}
        choice = self.ask(response_format=form, stop='"no', max_tokens=20, logprobs=True).choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), ('"ok"', "stop"))
        self.assertEqual(b"".join(bytes(t.bytes) for t in choice.logprobs.content), b'"ok"')

    def test_choices_are_forks(self):
        answer = self.ask("A question of some length, for one prompt that three choices share", temperature=1, seed=3, n=3, max_tokens=20)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.assertEqual(len({c.message.content for c in answer.choices}), 3)
        self.assertEqual(answer.usage.completion_tokens, 60)
        alone = self.ask("A question of some length, for one prompt that three choices share", temperature=1, seed=3, max_tokens=20)
        self.assertEqual(alone.choices[0].message.content, answer.choices[0].message.content)
        self.assertEqual(alone.usage.prompt_tokens, answer.usage.prompt_tokens)  # once

    def test_choices_streamed(self):
        whole = self.ask(temperature=1, seed=3, n=3, max_tokens=20).choices
        texts, reasons = {}, {}
        for chunk in self.ask(temperature=1, seed=3, n=3, max_tokens=20, stream=True):
            for c in chunk.choices:
                texts[c.index] = texts.get(c.index, "") + (c.delta.content or "")
                reasons[c.index] = c.finish_reason
        self.assertEqual([texts[i] for i in range(3)], [c.message.content for c in whole])
        self.assertEqual(set(reasons.values()), {"length"})

    def test_roles_and_parts(self):
        parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
        same = [self.ask([{"role": role, "content": "Be brief."}, {"role": "user", "content": content}]).choices[0].message.content
                for role, content in (("system", "Hello"), ("developer", parts))]
        self.assertEqual(same[0], same[1])

    def test_json_object(self):
        answer = self.ask(response_format={"type": "json_object"}, max_tokens=300, temperature=1, seed=2)
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        self.assertTrue(answer.choices[0].message.content.startswith("{"))

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"harbour": {"enum": ["Kiel", "Bergen"]}, "boats": {"type": "integer", "minimum": 0, "maximum": 99}},
                  "required": ["harbour", "boats"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "port", "strict": True, "schema": schema}}
        for seed in range(5):
            for stream in (False, True):
                answer = self.ask(response_format=form, max_tokens=200, temperature=1, seed=seed, stream=stream)
                text = "".join(c.choices[0].delta.content or "" for c in answer) if stream else answer.choices[0].message.content
                value = json.loads(text)
                self.assertIn(value["harbour"], ("Kiel", "Bergen"))
                self.assertTrue(0 <= value["boats"] <= 99)
                self.assertEqual(set(value), {"harbour", "boats"})

    def test_parse(self):
        import pydantic

        class Port(pydantic.BaseModel):
            harbour: bool
            boats: int = pydantic.Field(ge=0, le=999)

        got = self.client.chat.completions.parse(model=self.name, messages=[{"role": "user", "content": "?"}], response_format=Port, max_tokens=100)
        self.assertIsInstance(got.choices[0].message.parsed, Port)

    def test_fields_that_change_nothing(self):
        self.ask(user="ann", metadata={"a": "b"}, service_tier="auto", store=False, safety_identifier="x", verbosity="low", modalities=["text"],
                 extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1})

    def test_null_is_absent(self):
        body = {"model": self.name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "stop": None, "tools": None, "n": None,
                "functions": None, "response_format": None, "stream_options": None}
        self.assertEqual(self.server.post(body)[0], 200)


class Text(Case):
    """/v1/completions."""

    def complete(self, prompt, **options):
        return self.client.completions.create(model=self.name, prompt=prompt, **{"max_tokens": 8, "temperature": 0, **options})

    def test_text(self):
        answer = self.complete("The harbour")
        self.assertEqual((answer.object, answer.choices[0].finish_reason, answer.usage.completion_tokens), ("text_completion", "length", 8))
        self.assertEqual(self.complete("The harbour", max_tokens=openai.omit).usage.completion_tokens, 16)
        again = self.complete("The harbour")
        self.assertEqual(again.choices[0].text, answer.choices[0].text)

    def test_streamed(self):
        whole = self.complete("The harbour", max_tokens=30).choices[0].text
        chunks = list(self.complete("The harbour", max_tokens=30, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), whole)
        self.assertEqual(chunks[-1].usage.completion_tokens, 30)

    def test_prompts_and_choices(self):
        answer = self.complete(["One", "Two"], n=2, temperature=1, seed=1)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.usage.prompt_tokens, self.complete("One").usage.prompt_tokens + self.complete("Two").usage.prompt_tokens)
        self.assertEqual(self.complete("One", temperature=1, seed=1).choices[0].text, answer.choices[0].text)

    def test_tokens(self):
        self.assertTrue(self.complete([5, 6, 7]).choices[0].text)
        self.assertEqual(len(self.complete([[5, 6, 7], [8]]).choices), 2)
        with self.assertRaises(openai.BadRequestError):
            self.complete([5, 100000])

    def test_echo(self):
        plain = self.complete("The harbour").choices[0].text
        self.assertEqual(self.complete("The harbour", echo=True).choices[0].text, "The harbour" + plain)

    def test_logprobs(self):
        logprobs = self.complete("The harbour", logprobs=2).choices[0].logprobs
        self.assertEqual([len(logprobs.tokens), len(logprobs.token_logprobs), len(logprobs.top_logprobs), len(logprobs.text_offset)], [8] * 4)
        self.assertEqual(logprobs.text_offset[0], 0)
        # Tokens that are parts of a character look the same: one of them stands.
        body = {"model": self.name, "prompt": [[5, 6], [20, 30], [40, 41]], "max_tokens": 12, "logprobs": 20, "temperature": 0}
        status, answer = self.server.post(body, "/v1/completions")
        found = [top for choice in answer["choices"] for top in choice["logprobs"]["top_logprobs"]]
        ends = sum(choice["finish_reason"] == "stop" for choice in answer["choices"])  # each a token without a text
        self.assertEqual((status, len(found)), (200, answer["usage"]["completion_tokens"] - ends))
        self.assertTrue(any(len(top) < 20 and "\ufffd" in top for top in found), found)

    def test_logprobs_of_what_was_cut(self):
        options = {"logit_bias": {"68": 100}, "max_tokens": 2, "logprobs": 1}
        whole = self.complete("The harbour", **options).choices[0]
        cut = self.complete("The harbour", stop=whole.text[0], **options).choices[0]
        self.assertEqual((cut.text, cut.finish_reason), ("", "stop"))
        self.assertEqual((cut.logprobs.tokens, cut.logprobs.token_logprobs), (whole.logprobs.tokens[:1], whole.logprobs.token_logprobs[:1]))

    def test_echo_with_logprobs(self):
        prompt = "The harbour, at night"
        for options in ({}, {"n": 2, "temperature": 1, "seed": 7}):
            answer = self.complete(prompt, echo=True, logprobs=2, **options)
            for choice in answer.choices:
                found = choice.logprobs
                self.assertEqual("".join(found.tokens)[:len(prompt)], prompt)
                self.assertEqual(len(found.tokens), answer.usage.prompt_tokens + answer.usage.completion_tokens // len(answer.choices))
                self.assertEqual((found.token_logprobs[0], found.top_logprobs[0], found.text_offset[0]), (None, None, 0))
                self.assertTrue(all(value <= 0 for value in found.token_logprobs[1:]))
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)
        # A token has the same chance, in a prompt or generated.
        ids = [20, 30, 40]
        first = self.complete(ids, max_tokens=1, echo=True, logprobs=20).choices[0].logprobs
        plain = self.complete(ids, max_tokens=1, logprobs=20).choices[0].logprobs
        self.assertAlmostEqual(first.token_logprobs[-1], plain.token_logprobs[0], places=4)
        for cut in (1, 2):
            before = self.complete(ids[:cut], max_tokens=1, logprobs=20).choices[0].logprobs.top_logprobs[0]
            self.assertEqual(first.top_logprobs[cut].keys(), before.keys())
            for token, value in before.items():
                if token != "\ufffd":  # bytes that look the same
                    self.assertAlmostEqual(first.top_logprobs[cut][token], value, places=3)
        streamed = [c.choices[0].logprobs for c in self.complete(prompt, echo=True, logprobs=2, stream=True) if c.choices[0].logprobs]
        whole = self.complete(prompt, echo=True, logprobs=2).choices[0].logprobs
        self.assertEqual([t for part in streamed for t in part.token_logprobs], whole.token_logprobs)

    def test_echo_and_the_end(self):
        # Harnesses ask for one token, and leave its entry out: it is there also where that token is the end.
        options = {"max_tokens": 1, "echo": True, "logprobs": 1}
        goes_on, ends = self.complete([5, 6, 7], **options).choices[0], self.complete([5, 6, 7], logit_bias={"2": 100}, **options).choices[0]
        self.assertEqual((ends.finish_reason, ends.logprobs.tokens[-1]), ("stop", "<|im_end|>"))
        self.assertEqual(ends.logprobs.token_logprobs[:-1], goes_on.logprobs.token_logprobs[:-1])
        self.assertLess(ends.logprobs.token_logprobs[-1], 0)
        self.assertNotIn("<|im_end|>", ends.text)

    def test_echo_without_the_bos(self):
        model = self.dir / "bos.gguf"
        shutil.copy(PLAIN, model)
        command = [sys.executable, "-m", "gguf.scripts.gguf_set_metadata", "--force", str(model), "tokenizer.ggml.add_bos_token", "true"]
        subprocess.run(command, check=True, capture_output=True)
        server = Server(model)
        self.addCleanup(server.kill)
        answer = server.client().completions.create(model="bos", prompt="The harbour", max_tokens=2, temperature=0, echo=True, logprobs=0)
        found = answer.choices[0].logprobs
        self.assertEqual("".join(found.tokens)[:11], "The harbour")
        self.assertEqual(len(found.tokens) + 1, answer.usage.prompt_tokens + 2)
        self.assertTrue(all(value <= 0 for value in found.token_logprobs))

    def test_an_empty_prompt(self):
        # The model writes a text from its beginning on: behind its BOS.
        bos = self.complete([1], logprobs=1)
        for prompt in ("", ["", ""]):
            answer = self.complete(prompt, logprobs=1)
            self.assertEqual([c.text for c in answer.choices], [bos.choices[0].text] * len(answer.choices))
        echoed = self.complete("", echo=True, logprobs=1).choices[0]
        self.assertEqual((echoed.text, echoed.logprobs), (bos.choices[0].text, bos.choices[0].logprobs))

    def test_no_limit(self):
        for options in ({"max_tokens": -1}, {"max_tokens": -1, "stream": True}):
            answer = self.complete("word " * 150, logit_bias={"2": -100, "0": -100}, **options)
            reasons = [c.choices[0].finish_reason for c in answer] if options.get("stream") else [answer.choices[0].finish_reason]
            self.assertEqual(reasons[-1], "length")
        self.assertEqual(self.complete("word " * 150, logit_bias={"2": -100, "0": -100}, max_tokens=-1).usage.total_tokens, 1024)
        chat = self.ask("word " * 150, max_tokens=-1, logit_bias={"2": -100, "0": -100})
        self.assertEqual((chat.choices[0].finish_reason, chat.usage.total_tokens), ("length", 1024))

    def test_echo_alone(self):
        # Of no tokens: the prompt comes back, with its chances where these are asked for. So evaluations score a text.
        prompt = "The harbour, at night"
        scored = self.complete(prompt, max_tokens=1, echo=True, logprobs=2)
        for options, count in (({"logprobs": 2}, 1), ({}, 1), ({"n": 2}, 2), ({"logprobs": 2, "n": 3}, 3)):
            answer = self.complete(prompt, max_tokens=0, echo=True, **options)
            self.assertEqual([(c.text, c.finish_reason) for c in answer.choices], [(prompt, "length")] * count)
            self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens), (scored.usage.prompt_tokens, 0))
            for choice in answer.choices:
                if "logprobs" in options:
                    self.assertEqual(choice.logprobs.token_logprobs, scored.choices[0].logprobs.token_logprobs[:-1])
        chunks = list(self.complete(prompt, max_tokens=0, echo=True, stream=True))
        self.assertEqual(("".join(c.choices[0].text for c in chunks), chunks[-1].choices[0].finish_reason), (prompt, "length"))
        two = self.complete(["One", "Two"], max_tokens=0, echo=True)
        self.assertEqual([c.text for c in two.choices], ["One", "Two"])
        full = self.complete([5] * 1024, max_tokens=0, echo=True)
        self.assertEqual(full.usage.prompt_tokens, 1024)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(prompt, max_tokens=0)
        self.assertEqual(caught.exception.param, "max_tokens")

    def test_an_echo_of_bytes(self):
        # Tokens that are no text: the answer is UTF-8 all the same.
        self.assertEqual(self.complete([self.byte(0xFF), self.byte(0x41)], max_tokens=0, echo=True).choices[0].text, "\ufffdA")

    def test_cached(self):
        prompt = "A prompt that is long enough to have more than one block of tokens, of which thirty-two make one. " * 2
        self.complete(prompt)
        answer = self.complete(prompt + "More.")
        self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 32)


if __name__ == "__main__":
    unittest.main()
