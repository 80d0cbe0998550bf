"""The same request has the same answer, whether the server remembers the conversation or not; and what --history generated keeps instead."""
import json
import unittest

from support import Case, TINY, message
from test_tools import ADD, NOW

KEYS = [f"a-key-of-its-own-for-number-{i:03}" for i in range(120)]
ANN = "ann-remembers-all-that-was-said."


def told(answer):
    """What a client sees of an answer, and what it paid for."""
    choices = []
    for c in answer.choices:
        calls = [(t.function.name, t.function.arguments) for t in c.message.tool_calls or []]
        choices.append((c.message.content, getattr(c.message, "reasoning_content", None), calls, c.finish_reason))
    return choices, answer.usage.prompt_tokens, answer.usage.completion_tokens


class Talk(Case):
    """Ann has one key, and is remembered. Each request is asked once more with a key that nobody used: nothing is known there."""

    template = "qwen2_5"
    keys = "".join(f"k{i} {key}\n" for i, key in enumerate([ANN, *KEYS]))
    fresh = 0

    def both(self, said, **options):
        """Ann's answer, which is that of the one whom nobody knows."""
        answer = self.ask(said, client=self.server.client(ANN), **options)
        cls = type(self)
        cls.fresh += 1
        other = self.ask(said, client=self.server.client(KEYS[cls.fresh]), **options)
        if options.get("n", 1) == 1:  # else one of them may have what another one computed
            self.assertEqual(other.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(told(answer), told(other))
        return answer

    def talk(self, turns, back=message, **options):
        """Sends each answer back as `back` writes it. Tokens of each prompt, and those that were not computed again."""
        said, counts = [], []
        for turn in range(turns):
            said.append({"role": "user", "content": f"Turn {turn} of {self.id()}"})
            more = options | {"seed": turn + 1}
            answer = self.both(said, **more)
            counts.append((answer.usage.prompt_tokens, answer.usage.prompt_tokens_details.cached_tokens))
            said.append(back(answer))
            for call in said[-1].get("tool_calls") or []:
                said.append({"role": "tool", "tool_call_id": call["id"], "content": f"Result {turn}"})
        return counts


class Remembered(Talk):
    def test_text(self):
        # What a tiny model says at random has other tokens than its text has: much is computed again, and never the prompt before it.
        counts = self.talk(6, temperature=1, max_tokens=30)
        for (before, _), (_, cached) in zip(counts, counts[1:]):
            self.assertGreaterEqual(cached, before // 32 * 32)

    def test_greedy(self):
        self.talk(4, max_tokens=40)

    def test_cut_by_a_stop(self):
        self.talk(4, temperature=1, max_tokens=40, stop=["e", "a"])

    def test_with_characters(self):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "\u00e9\u4e2d\U0001f642" * 4}}}
        for tokens in (7, 8, 9, 40):
            self.talk(3, response_format=form, max_tokens=tokens)

    def test_calls(self):
        for choice, turns in (("required", 1), ({"type": "function", "function": {"name": "now"}}, 3)):
            self.talk(turns, tools=[ADD, NOW], tool_choice=choice, temperature=1, max_tokens=200, parallel_tool_calls=False)

    def test_calls_in_other_words(self):
        def back(answer):
            if not answer.choices[0].message.tool_calls:
                return message(answer)
            calls = [{"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": json.dumps(json.loads(c.function.arguments), indent=2)}}
                     for c in answer.choices[0].message.tool_calls]
            return {"role": "assistant", "content": "", "tool_calls": calls}

        self.talk(2, back, tools=[ADD, NOW], tool_choice="required", temperature=1, max_tokens=150, parallel_tool_calls=False)

    def test_choices(self):
        self.talk(3, temperature=1, max_tokens=20, n=3)

    def test_an_answer_at_the_end(self):
        # An assistant's message at the end gets a new answer, also where it is the one that was cut.
        said = [{"role": "user", "content": "An end"}]
        first = self.both(said, max_tokens=7)
        self.both(said + [message(first)], max_tokens=7)
        self.both(said + [{"role": "assistant", "content": first.choices[0].message.content[:3]}], max_tokens=7)

    def test_other_words(self):
        said = [{"role": "user", "content": "One " * 20}]
        first = self.both(said, temperature=1, seed=2, max_tokens=30)
        text = first.choices[0].message.content
        for content in (text + "!", text[:-3], text.replace(text[5], "x"), ""):
            self.both(said + [{"role": "assistant", "content": content}, {"role": "user", "content": "Two"}])
        self.both([{"role": "system", "content": "Another."}] + said)

    def test_the_same_request_again(self):
        said = [{"role": "user", "content": "Again and again"}]
        first = self.both(said, max_tokens=40)
        for _ in range(3):
            self.assertEqual(told(self.both(said, max_tokens=40)), told(first))

    def test_after_a_restart(self):
        said = [{"role": "user", "content": "A talk that is long enough for a block of thirty-two tokens " * 2}]
        said += [message(self.both(said, temperature=1, seed=5, max_tokens=30)), {"role": "user", "content": "And?"}]
        before = self.both(said)
        self.server.kill()
        self.server.start()
        self.assertEqual(told(self.both(said)), told(before))

    def test_keys_of_the_cache(self):
        said = []
        for turn in range(4):
            said.append({"role": "user", "content": f"Turn {turn} of a talk whose beginning is dropped " * 2})
            said.append(message(self.both(said, temperature=1, seed=3, max_tokens=20, prompt_cache_key="k")))
            said = said[-4:]


class Reasoning(Talk):
    """A template that opens reasoning, and shows none of earlier turns."""

    template = "qwq"

    def test_reasoning(self):
        form = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "ok"}}}, "extra_body": {"thinking_budget": 12}}
        for back in (message, lambda answer: {"role": "assistant", "content": answer.choices[0].message.content}):
            self.talk(4, back, temperature=1, max_tokens=100, **form)


class Windows(Talk):
    """Layers with windows: what is kept goes on from a boundary."""

    template = "qwen2_5"
    base = TINY / "row_gemma3.gguf"

    def test_text(self):
        for turns, options in ((4, {"temperature": 1}), (3, {"temperature": 1, "stop": ["e"]}), (3, {"n": 2})):
            self.talk(turns, max_tokens=30, **options)

    def test_calls(self):
        self.talk(2, tools=[NOW], tool_choice="required", temperature=1, max_tokens=100, parallel_tool_calls=False)


class Recurrent(Windows):
    base = TINY / "row_lfm2.gguf"


class Generated(Case):
    """--history generated: an answer that comes back has the tokens that it had, and the reasoning that does not come back."""

    template = "qwq"
    options = ("--history", "generated")

    def test_all_is_kept(self):
        for back in (message, lambda answer: {"role": "assistant", "content": answer.choices[0].message.content}):
            said, had = [], 0
            for turn in range(4):
                said.append({"role": "user", "content": f"Turn {turn} of a talk {back}"})
                answer = self.ask(said, temperature=1, seed=turn + 1, max_tokens=30)
                self.assertGreaterEqual(answer.usage.prompt_tokens_details.cached_tokens, had - 1)
                had = answer.usage.total_tokens if not getattr(answer.choices[0].message, "reasoning_content", None) else 0
                said.append(back(answer))


class GeneratedText(Case):
    """The same where there is no reasoning."""

    options = ("--history", "generated")

    def test_over_a_restart(self):
        said = []
        for turn in range(3):
            said.append({"role": "user", "content": f"Turn {turn} of a talk of some length, in which the server is killed"})
            answer = self.ask(said, temperature=1, seed=turn + 1, max_tokens=30)
            said.append(message(answer))
            self.server.kill()
            self.server.start()
        more = self.ask(said + [{"role": "user", "content": "And?"}])
        self.assertGreaterEqual(more.usage.prompt_tokens_details.cached_tokens, answer.usage.total_tokens - 9)

    def test_a_cut_answer_goes_on(self):
        # What the client did not get of a character is no part of the conversation.
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "\u4e2d" * 30}}}
        asked = [{"role": "user", "content": "Cut"}]
        for tokens in (50, 51, 52):
            first = self.ask(asked, response_format=form, max_tokens=tokens)
            again = self.ask(asked + [message(first), {"role": "user", "content": f"More than {tokens}"}])
            self.assertGreaterEqual(again.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens + tokens - 3)


if __name__ == "__main__":
    unittest.main()
