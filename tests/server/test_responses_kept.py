"""Responses that are kept: GET, DELETE, previous_response_id, restarts, keys, expiry."""
import json
import os
import subprocess
import unittest

import openai
from openai.types import responses as types

from responses import ANSWERS, WEATHER, Responses
from support import Case


class Kept(Responses):
    answers = ANSWERS + [
        ("Whole tokens", ["x", b"\xe4", b"\xb8", b"\xad", "y"]),
        ("Within a token", [b"zz\xe5", b"\xb8\xad"]),
        ("Half a call", ['<tool_call>\n{"name": "weather", "arguments": {"city": ', '"Rom"}}\n</tool_call>']),
    ]

    def names(self):
        return sorted(s["name"] for s in json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"])

    def conversations(self):
        return {name for name in self.names() if name.startswith("chat-")}

    def test_get(self):
        for r in (self.create("Reason and call", tools=[WEATHER], metadata={"a": "b"}, instructions="i"), self.events("Think")[1]):
            status, headers, data = self.server.raw("GET", "/v1/responses/" + r.id)
            self.assertEqual((status, headers["Content-Type"], self.strict(types.Response, data)), (200, "application/json", r))
            self.assertEqual(self.client.responses.retrieve(r.id).id, r.id)

    def test_delete(self):
        r = self.create()
        self.assertEqual(json.loads(self.server.raw("DELETE", "/v1/responses/" + r.id)[2]), {"id": r.id, "object": "response", "deleted": True})
        for method in ("GET", "DELETE"):
            status, _, data = self.server.raw(method, "/v1/responses/" + r.id)
            self.assertEqual((status, json.loads(data)["error"]["type"]), (404, "invalid_request_error"))
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(r.id)
        self.refused_by("previous_response_id", "previous_response_not_found", previous_response_id=r.id)

    def test_what_goes_with_it(self):
        # Its conversation, if nobody went on from there.
        before = self.names()
        self.client.responses.delete(self.create("Goes with it").id)
        self.assertEqual(self.names(), before)
        first = self.events("Goes with it")[1]
        second = self.create("Think", previous_response_id=first.id)
        conversation = self.conversations() - set(before)
        self.client.responses.delete(first.id)
        self.assertTrue(len(conversation) == 1 and conversation <= set(self.names()))
        third = self.create("Think", previous_response_id=second.id)
        for one in (second, third):
            self.client.responses.delete(one.id)
        self.assertEqual(self.names(), before)
        # Whoever sends all words goes on, too.
        first = self.create("Goes with it")
        self.ask([{"role": "user", "content": "Goes with it"}, {"role": "assistant", "content": first.output_text}, {"role": "user", "content": "More"}])
        conversation = self.conversations() - set(before)
        self.client.responses.delete(first.id)
        self.assertEqual(set(self.names()) - set(before), conversation)

    def test_not_stored(self):
        r = self.create(store=False)
        self.assertEqual(self.server.raw("GET", "/v1/responses/" + r.id)[0], 404)
        self.refused_by("previous_response_id", "previous_response_not_found", previous_response_id=r.id)

    def test_paths(self):
        self.assertEqual([self.server.raw(*ask)[0] for ask in (
            ("GET", "/v1/responses"), ("POST", "/v1/responses/resp_1"), ("GET", "/v1/responses/resp_1/input_items"), ("GET", "/v1/responses/x"),
            ("DELETE", "/v1/responses/../x"), ("OPTIONS", "/v1/responses/resp_1"))], [405, 405, 404, 404, 404, 204])

    def test_goes_on(self):
        first = self.create("weather", tools=[WEATHER], instructions="Old words.")
        result = [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": "18 C"}]
        second = self.create(result, tools=[WEATHER], instructions="Old words.", previous_response_id=first.id)
        self.assertEqual((second.output_text, second.previous_response_id), ("It is 18 C.", first.id))
        self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        third = self.create("Streamed", tools=[WEATHER], previous_response_id=second.id)
        whole = [{"role": "user", "content": "weather"}, *(i.model_dump(exclude_none=True) for i in first.output), *result,
                 *(i.model_dump(exclude_none=True) for i in second.output), {"role": "user", "content": "Streamed"}]
        # Instructions do not carry over: the prompt is that of all items without them.
        self.assertEqual(third.usage.input_tokens, self.create(whole, tools=[WEATHER], store=False).usage.input_tokens)

    def test_nothing_is_lost(self):
        # What goes on from a response leaves it as it is.
        first = self.create("Streamed", metadata={"a": "b"})
        for said in ("Think", "JSON", "Think", "weather"):
            self.create(said, previous_response_id=first.id)
            self.assertEqual(self.client.responses.retrieve(first.id).metadata, {"a": "b"})

    def test_branches(self):
        first = self.create("Streamed")
        one = self.create("Think", previous_response_id=first.id)
        two = self.create("JSON", previous_response_id=first.id)
        again = self.create("Think", previous_response_id=first.id)
        self.assertEqual((one.output_text, two.output_text, again.output_text), ("Thought.", '{"n": 7}', "Thought."))
        self.assertEqual(one.usage.input_tokens, again.usage.input_tokens)
        for r in (one, two, again):
            self.assertGreaterEqual(r.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        self.assertEqual(self.create("Think", previous_response_id=two.id).output_text, "Thought.")
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, "One two thr\u00e9e")

    def test_other_tools(self):
        first = self.create("Streamed", tools=[WEATHER])
        self.assertEqual(self.create("Think", previous_response_id=first.id).output_text, "Thought.")
        other = {**WEATHER, "name": "other"}
        self.assertEqual(self.create("Streamed", tools=[other], previous_response_id=first.id).output_text, "One two thr\u00e9e")

    def test_incomplete(self):
        first = self.create("Streamed", max_output_tokens=2)
        self.assertEqual(self.create("Think", previous_response_id=first.id).output_text, "Thought.")

    def test_cut(self):
        # What goes on from an answer that was cut goes on from what the client got: no half of a character, nor of a call.
        need = {"tools": [WEATHER], "tool_choice": "required"}
        for said, tokens, text, options in (("Whole tokens", 2, "x", {}), ("Whole tokens", 3, "x", {}), ("Within a token", 1, "zz", {}), ("Half a call", 1, "", need)):
            for create in (self.create, lambda *a, **o: self.events(*a, **o)[1]):
                with self.subTest(said=said, tokens=tokens, create=create):
                    first = create(said, max_output_tokens=tokens, **options)
                    self.assertEqual((first.status, first.output_text), ("incomplete", text))
                    second = self.create("Think", previous_response_id=first.id, **options | {"tool_choice": "auto"})
                    whole = [{"role": "user", "content": said}, {"role": "assistant", "content": text}, {"role": "user", "content": "Think"}]
                    again = self.create(whole, store=False, **options | {"tool_choice": "auto"})
                    self.assertEqual(second.usage.input_tokens, again.usage.input_tokens)
                    if said == "Whole tokens":
                        self.assertGreater(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)

    def test_system_messages_are_one(self):
        said = [{"role": "developer", "content": "One."}, {"role": "system", "content": "Two."}, {"role": "user", "content": "Streamed"}]
        r = self.create(said, instructions="Zero.")
        self.assertEqual(r.usage.input_tokens, self.create([said[2]], instructions="Zero.\n\nOne.\n\nTwo.").usage.input_tokens)
        nextone = self.create("Think", previous_response_id=r.id)  # of these the input's carry over
        whole = [*said[:2], said[2], {"role": "assistant", "content": r.output_text}, {"role": "user", "content": "Think"}]
        self.assertEqual(nextone.usage.input_tokens, self.create(whole, store=False).usage.input_tokens)


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


class Deep(Responses):
    """Arguments as deep as an answer may have them, which are deeper than a request may have JSON."""

    depths = (54, 55, 56, 57, 59, 60, 63)
    answers = [(f"Deep {d}", '<tool_call>\n{"name": "f", "arguments": ' + nested(d) + "}\n</tool_call>") for d in depths] + [("Result", "Well.")]
    a = {"$ref": "#/$defs/a"}
    tool = {"type": "function", "name": "f", "parameters": {
        "type": "object", "properties": {"a": a}, "$defs": {"a": {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"a": a}}]}}}}

    def test_chain(self):
        for depth in self.depths:
            for create in (self.create, lambda *a, **o: self.events(*a, **o)[1]):
                first = create(f"Deep {depth}", tools=[self.tool])
                self.assertEqual((first.status, [i.arguments for i in first.output]), ("completed", [nested(depth)]))
                self.assertEqual(self.client.responses.retrieve(first.id).output, first.output)
                result = [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": "Result"}]
                self.assertEqual(create(result, tools=[self.tool], previous_response_id=first.id).output_text, "Well.")
                whole = [{"role": "user", "content": f"Deep {depth}"}, first.output[0].model_dump(exclude_none=True), *result]
                self.assertEqual(create(whole, tools=[self.tool]).output_text, "Well.")
                self.client.responses.delete(first.id)

    def test_chat(self):
        tools = [{"type": "function", "function": {name: value for name, value in self.tool.items() if name != "type"}}]
        for depth in self.depths:
            answer = self.ask(f"Deep {depth}", tools=tools)
            call = answer.choices[0].message.tool_calls[0]
            self.assertEqual((call.function.arguments, answer.choices[0].finish_reason), (nested(depth), "tool_calls"))
            chunks = [c.choices[0] for c in self.ask(f"Deep {depth}", tools=tools, stream=True)]
            self.assertEqual([t.function.arguments for c in chunks for t in c.delta.tool_calls or []], [nested(depth)])
        for depth in (*self.depths, 64, 65, 100, 100_000):
            call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": nested(depth)}}
            said = [{"role": "user", "content": f"Deep {depth}"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "1", "content": "Result"}]
            if depth < 1000:
                self.assertEqual(self.ask(said, tools=tools).choices[0].message.content, "Well.")
            else:
                self.refused(openai.BadRequestError, "context_length_exceeded", text=said, tools=tools)


class DeepInMemory(Deep):
    stored = False


class SameWords(Case):
    """Other answers to the same words, of a model that draws them: with tokens that are not those of its text."""

    options = ("--history", "generated")

    def test_each_goes_on_from_its_own(self):
        # The conversation of these words is that of the last answer: the responses before have their own tokens all the same.
        firsts = [self.client.responses.create(model=self.name, input="Hello", max_output_tokens=60, extra_body={"seed": seed}) for seed in range(3)]
        self.assertEqual(len({r.output_text for r in firsts}), 3)
        for first in [*firsts, firsts[0]]:
            second = self.client.responses.create(model=self.name, input="More", max_output_tokens=4, previous_response_id=first.id)
            self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.total_tokens - 8)  # a save may leave out so many


    def test_the_conversation_is_that_of_the_last(self):
        one, two = (self.client.responses.create(model=self.name, input="Twice", max_output_tokens=60, extra_body={"seed": seed}) for seed in range(2))
        names = lambda: {s["name"] for s in json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]}
        before = names()
        self.client.responses.delete(one.id)
        self.assertEqual(before - names(), {one.id.replace("resp_", "resp-")})
        self.client.responses.delete(two.id)
        self.assertEqual(sorted(name[:5] for name in before - names()), ["chat-", "resp-", "resp-"])


class Restarted(Responses):
    def test_delete_after_a_kill(self):
        names = lambda: [s["name"] for s in json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]]
        before = names()
        first = self.create("Goes with it")
        self.server.kill()
        self.server.start()
        self.server.client().responses.delete(first.id)
        self.assertEqual(names(), before)

    def test_after_a_kill(self):
        first = self.create("Streamed", metadata={"a": "b"})
        second = self.create("Think", previous_response_id=first.id)
        self.server.kill()
        self.server.start()
        self.client = self.server.client()
        self.assertEqual(self.client.responses.retrieve(first.id).metadata, {"a": "b"})
        third = self.create("Streamed", previous_response_id=second.id)
        self.assertEqual(third.output_text, "One two thr\u00e9e")
        self.assertGreaterEqual(third.usage.input_tokens_details.cached_tokens, second.usage.input_tokens // 32 * 32)
        names = [s["name"] for s in json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]]
        self.assertIn(first.id.replace("resp_", "resp-"), names)


class InMemory(Kept):
    stored = False

    def test_all(self):
        first = self.create("Streamed", metadata={"a": "b"})
        self.assertEqual(self.client.responses.retrieve(first.id).metadata, {"a": "b"})
        for said, answer in (("Think", "Thought."), ("JSON", '{"n": 7}')):
            r = self.create(said, previous_response_id=first.id)
            self.assertEqual(r.output_text, answer)
            self.assertGreaterEqual(r.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)
        self.client.responses.delete(first.id)
        self.refused_by("previous_response_id", "previous_response_not_found", previous_response_id=first.id)


class Keys(Responses):
    keys = "one 0123456789abcdef\ntwo 0123456789abcdeF\n"

    def test_responses_are_the_keys(self):
        mine, other = self.server.client("0123456789abcdef"), self.server.client("0123456789abcdeF")
        r = mine.responses.create(model=self.name, input="Streamed")
        self.assertEqual(mine.responses.retrieve(r.id).output_text, r.output_text)
        for ask in (other.responses.retrieve, other.responses.delete):
            with self.assertRaises(openai.NotFoundError):
                ask(r.id)
        mine.responses.delete(r.id)


class KeysInMemory(Responses):
    stored = False
    keys = Keys.keys

    def test_none_pushes_out_anothers(self):
        mine, other = self.server.client("0123456789abcdef"), self.server.client("0123456789abcdeF")
        r = mine.responses.create(model=self.name, input="Streamed")
        first = other.responses.create(model=self.name, input="Streamed")
        for i in range(150):  # two sessions each: 256 of a key stay
            other.responses.create(model=self.name, input=f"Number {i}")
        self.assertEqual(mine.responses.create(model=self.name, input="Think", previous_response_id=r.id).output_text, "Thought.")
        with self.assertRaises(openai.NotFoundError):
            other.responses.retrieve(first.id)


class Expired(Responses):
    def test_expired(self):
        r = self.create("Streamed")
        command = [os.environ["KVRT_CLI"], "store", "ttl", str(self.dir / "store"), r.id.replace("resp_", "resp-"), "1"]
        subprocess.run(command, check=True, capture_output=True)
        self.eventually(lambda: self.server.raw("GET", "/v1/responses/" + r.id)[0] == 404, "it expires")
        self.refused_by("previous_response_id", "previous_response_not_found", previous_response_id=r.id)


if __name__ == "__main__":
    unittest.main()
