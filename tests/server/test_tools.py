"""Tools and reasoning, with OpenAI's client: a tiny model whose template shows tools as Qwen does."""
import json
import unittest

import openai

from support import Case, message

ADD = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"type": "boolean"}}, "required": ["a", "b"],
    "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}


class Tools(Case):
    template = "qwen2_5"

    def call(self, **options):
        options = {"tools": [ADD, NOW], "tool_choice": "required", "max_tokens": 300, "temperature": 1, "seed": 4, **options}
        return self.ask(**options)

    def check(self, call):
        arguments = json.loads(call.function.arguments)
        if call.function.name == "add":
            self.assertTrue(0 <= arguments["a"] <= 9 and isinstance(arguments["b"], bool) and len(arguments) == 2, arguments)
        else:
            self.assertEqual((call.function.name, arguments), ("now", {}))

    def test_required(self):
        for seed in range(4):
            answer = self.call(seed=seed, parallel_tool_calls=False).choices[0]
            self.assertEqual((answer.finish_reason, answer.message.content, len(answer.message.tool_calls)), ("tool_calls", None, 1))
            self.check(answer.message.tool_calls[0])
            self.assertTrue(answer.message.tool_calls[0].id)

    def test_named(self):
        for seed in range(3):
            answer = self.call(seed=seed, tool_choice={"type": "function", "function": {"name": "now"}}, parallel_tool_calls=False)
            self.assertEqual([c.function.name for c in answer.choices[0].message.tool_calls], ["now"])

    def test_streamed(self):
        calls, reasons = {}, []
        for chunk in self.call(stream=True):
            for c in chunk.choices:
                reasons += [c.finish_reason] if c.finish_reason else []
                for delta in c.delta.tool_calls or []:
                    self.assertEqual((delta.index, delta.type), (len(calls), "function"))
                    calls[delta.index] = delta
        whole = self.call().choices[0]
        self.assertEqual([(c.function.name, c.function.arguments) for c in calls.values()],
                         [(c.function.name, c.function.arguments) for c in whole.message.tool_calls])
        self.assertEqual(reasons, [whole.finish_reason])
        self.assertEqual(len({c.id for c in calls.values()}), len(calls))

    def test_stream_helper(self):
        with self.client.chat.completions.stream(model=self.name, messages=[{"role": "user", "content": "?"}], tools=[ADD], tool_choice="required",
                                                 parallel_tool_calls=False, max_tokens=300) as stream:
            answer = stream.get_final_completion().choices[0]
        self.check(answer.message.tool_calls[0])

    def test_none(self):
        answer = self.call(tool_choice="none", max_tokens=20).choices[0]
        self.assertIsNone(answer.message.tool_calls)
        self.assertEqual(answer.finish_reason, "length")

    def test_auto(self):
        answer = self.call(tool_choice="auto", max_tokens=20).choices[0]
        self.assertTrue(answer.message.content or answer.message.tool_calls)

    def test_results_come_in_any_order(self):
        # Qwen's template shows no ids: what tells results apart is their order.
        calls = [{"id": i, "type": "function", "function": {"name": "add", "arguments": json.dumps({"a": a, "b": True})}} for i, a in (("c1", 1), ("c2", 2))]

        def chat(*results):
            said = [{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": calls}]
            said += [{"role": "tool", "tool_call_id": i, "content": text} for i, text in results]
            answer = self.client.chat.completions.create(model=self.name, messages=said, tools=[ADD], tool_choice="none", temperature=0, max_tokens=8,
                                                         logprobs=True)
            return [t.logprob for t in answer.choices[0].logprobs.content]

        def items(*results):
            said = [{"role": "user", "content": "?"}]
            said += [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in calls]
            said += [{"type": "function_call_output", "call_id": i, "output": text} for i, text in results]
            answer = self.client.responses.create(model=self.name, input=said, tools=[{"type": "function", **ADD["function"]}], tool_choice="none",
                                                  temperature=0, max_output_tokens=16, include=["message.output_text.logprobs"])
            return [t.logprob for t in answer.output[0].content[0].logprobs]

        for ask in (chat, items):
            in_order = ask(("c1", "5"), ("c2", "7"))
            self.assertTrue(in_order)
            self.assertEqual(ask(("c2", "7"), ("c1", "5")), in_order)
            self.assertNotEqual(ask(("c1", "7"), ("c2", "5")), in_order)

    def test_the_result_of_a_call(self):
        asked = [{"role": "user", "content": "What is the time?"}]
        first = self.call(text=asked, tool_choice={"type": "function", "function": {"name": "now"}}, parallel_tool_calls=False)
        call = first.choices[0].message.tool_calls[0]
        said = asked + [message(first), {"role": "tool", "tool_call_id": call.id, "content": "noon"}]
        second = self.call(text=said, tool_choice="none", max_tokens=10)
        # All before the answer is there already, and of that what its words have as it was generated.
        self.assertGreaterEqual(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens)
        self.assertTrue(second.choices[0].message.content)

    def test_a_result_of_nothing(self):
        call = {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
        asked = [{"role": "user", "content": "Wait."}, {"role": "assistant", "content": None, "tool_calls": [call]}]
        answers = []
        for result in ({"content": None}, {"content": ""}, {}, {"content": []}):
            answer = self.call(text=asked + [{"role": "tool", "tool_call_id": "1", **result}], tool_choice="none", max_tokens=5, temperature=0)
            answers.append((answer.choices[0].message, answer.usage.prompt_tokens))
        self.assertEqual(answers, answers[:1] * 4)

    def test_a_call_in_other_words(self):
        # Frameworks write a call's arguments anew, and leave out what they do not know.
        asked = [{"role": "user", "content": "Add."}]
        first = self.call(text=asked, tool_choice={"type": "function", "function": {"name": "add"}}, parallel_tool_calls=False)
        call = first.choices[0].message.tool_calls[0]
        again = {"role": "assistant", "content": "", "tool_calls": [{"id": call.id, "type": "function", "function": {
            "name": "add", "arguments": json.dumps(json.loads(call.function.arguments), indent=1)}}]}
        second = self.call(text=asked + [again, {"role": "tool", "tool_call_id": call.id, "content": "7"}], tool_choice="none", max_tokens=10)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens)

    def test_arguments_of_any_kind(self):
        # Integers keep their digits, and what is no JSON object refuses no conversation.
        counts = set()
        for arguments in ("", '{"a": 1', "a=1", "[1]", '{"a": 1' + "0" * 40 + "}", '{"a": 18446744073709551616}', '{"a": 18446744073709551617}'):
            call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}
            said = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "7"}]
            counts.add(self.call(text=said, tool_choice="none", max_tokens=1).usage.prompt_tokens)
        self.assertEqual(len(counts), 5)  # of texts of five lengths

    def test_cut(self):
        # A call that max_tokens cuts is nothing that a client could run or show.
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            for tokens in (1, 3, 8, 15):
                answer = self.call(tool_choice=choice, max_tokens=tokens).choices[0]
                self.assertEqual((answer.finish_reason, answer.message.content, answer.message.tool_calls), ("length", None, None))
                deltas = [c for chunk in self.call(tool_choice=choice, max_tokens=tokens, stream=True) for c in chunk.choices]
                self.assertEqual([(c.delta.content, c.delta.tool_calls) for c in deltas], [(None, None)] * len(deltas))
                self.assertEqual([c.finish_reason for c in deltas if c.finish_reason], ["length"])
        stopped = self.call(stop=["name"]).choices[0]
        self.assertEqual((stopped.finish_reason, stopped.message.content), ("stop", None))
        # The next turn goes on from it.
        asked = [{"role": "user", "content": "Add."}]
        self.call(text=asked, max_tokens=8)
        self.assertTrue(self.call(text=asked).choices[0].message.tool_calls)

    def test_beside_a_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"n": {"enum": [10, 20]}}, "required": ["n"]}}}
        seen = set()
        for seed in range(1, 25):
            choice = self.call(tool_choice="auto", response_format=form, parallel_tool_calls=False, seed=seed).choices[0]
            if choice.finish_reason == "length":
                continue
            seen.add(choice.finish_reason)
            if choice.finish_reason == "tool_calls":
                self.assertTrue(choice.message.tool_calls and not choice.message.content)
            else:
                self.assertIn(json.loads(choice.message.content), ({"n": 10}, {"n": 20}))
        self.assertEqual(seen, {"tool_calls", "stop"})
        self.assertTrue(self.call(tool_choice="required", response_format=form).choices[0].message.tool_calls)

    def test_refused(self):
        def function(**more):
            return {"tools": [NOW, {"type": "function", "function": {"name": "x", **more}}], "tool_choice": "auto"}

        bad = {"type": "object", "properties": {"a": {"$dynamicRef": "#b"}}}
        named = {"tool_choice": {"type": "function", "function": {"name": "other"}}}
        for options, param in (
                ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"tools": [ADD, ADD]}, "tools[1].function.name"), ({"tools": []}, "tool_choice"),
                ({"tools": {}}, "tools"), ({"tools": ["x"]}, "tools[0]"), ({"tools": [{"type": "function"}]}, "tools[0].function"),
                (named, "tool_choice.function.name"), ({"tool_choice": "any"}, "tool_choice"), ({"tool_choice": {"type": "x"}}, "tool_choice.type"),
                (function(parameters=bad) | {"tool_choice": "required"}, "tools"), (function(description=5), "tools[1].function.description"),
                (function(strict="yes"), "tools[1].function.strict"),
                *((function(name=name), "tools[1].function.name") for name in ("", "a b", "a.b", "\u00e9", "a\n", "x" * 65, 5, None)),
                *((function(parameters=p), "tools[1].function.parameters" + where) for p, where in (
                    ("{}", ""), ([], ""), (True, ""), ({"type": "string"}, ".type"), ({"type": ["object"]}, ".type"), ({"type": "object", "properties": []}, ".properties"),
                    ({"type": "object", "properties": {"a": "string"}}, ".properties.a"), ({"type": "object", "required": "a"}, ".required"),
                    ({"type": "object", "required": [5]}, ".required[0]")))):
            with self.subTest(options=options):
                with self.assertRaises(openai.BadRequestError) as caught:
                    self.call(**options)
                self.assertEqual(caught.exception.param, param, caught.exception.message)

    def test_too_many(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.call(tools=[NOW] * 2049)
        self.assertEqual((caught.exception.param, "2049" in caught.exception.message), ("tools", True))

    def test_tools_that_are_right(self):
        for more in ({}, {"parameters": None}, {"parameters": {}}, {"parameters": {"type": "object"}}, {"name": "A-b_9" + "x" * 59, "strict": True},
                     {"description": None, "parameters": {"type": "object", "properties": {"a": True, "b": {"$dynamicRef": "#b"}}, "required": []}}):
            with self.subTest(more=more):
                self.call(tools=[{"type": "function", "function": {"name": "x", **more}}], tool_choice="auto", max_tokens=3)


class Reasoning(Case):
    """A model whose template opens reasoning. Its answer is bound to "ok", which comes behind."""

    template = "qwq"
    options_of = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "ok"}}},
                  "max_tokens": 100, "temperature": 1, "seed": 3, "extra_body": {"thinking_budget": 12}}

    def test_whole(self):
        answer = self.ask(**self.options_of)
        choice = answer.choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), ('"ok"', "stop"))
        self.assertTrue(choice.message.reasoning_content)
        self.assertGreaterEqual(answer.usage.completion_tokens_details.reasoning_tokens, 12)
        self.assertLess(answer.usage.completion_tokens_details.reasoning_tokens, answer.usage.completion_tokens)

    def test_streamed(self):
        whole, parts = self.ask(**self.options_of).choices[0].message, {"content": "", "reasoning_content": ""}
        for chunk in self.ask(stream=True, **self.options_of):
            for name in parts:
                parts[name] += getattr(chunk.choices[0].delta, name, None) or ""
        self.assertEqual((parts["content"], parts["reasoning_content"]), (whole.content, whole.reasoning_content))

    def test_sent_back_without_reasoning(self):
        asked = [{"role": "user", "content": "A question"}]
        first = self.ask(asked, **self.options_of)
        said = {"role": "assistant", "content": first.choices[0].message.content}
        again = self.ask(asked + [said, {"role": "user", "content": "And?"}], **self.options_of)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 20)


class WithoutTools(Case):
    def test_a_template_that_shows_no_tools(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(tools=[ADD])
        self.assertEqual((caught.exception.param, caught.exception.code), ("tools", "unsupported_value"))

    def test_tools_that_may_not_be_called(self):
        # They change nothing: the model is told of none, and calls none.
        plain = self.ask("Hello")
        for more in ({}, {"parallel_tool_calls": False}):
            answer = self.ask("Hello", tools=[ADD], tool_choice="none", **more)
            self.assertEqual((answer.choices[0].message, answer.usage.prompt_tokens), (plain.choices[0].message, plain.usage.prompt_tokens))


class NoMark(Case):
    """Calls that no mark tells from an answer that fits a schema."""

    template = "llama3_1"

    def test_the_field_with_the_schema(self):
        function = {"name": "f", "parameters": {"type": "object", "properties": {}}}
        chat = {"messages": [{"role": "user", "content": "?"}], "tools": [{"type": "function", "function": function}], "response_format": {"type": "json_object"}}
        response = {"input": "?", "tools": [{"type": "function", **function}], "text": {"format": {"type": "json_object"}}}
        for body, path, param in ((chat, "chat/completions", "response_format"), (response, "responses", "text.format")):
            status, answer = self.server.post({"model": self.name, **body}, "/v1/" + path)
            self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, param, "unsupported_value"), answer)


if __name__ == "__main__":
    unittest.main()
