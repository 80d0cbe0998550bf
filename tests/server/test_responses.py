"""/v1/responses: texts, calls and reasoning, streamed and not, and what is refused."""
import json
import unittest

import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from responses import WEATHER, Responses, said_by


class Text(Responses):
    def test_text(self):
        r = self.create("Streamed", temperature=0, metadata={"a": "b"}, max_output_tokens=50, prompt_cache_key="k", instructions="Be brief.")
        self.assertEqual((r.object, r.status, r.output_text, r.model), ("response", "completed", "One two thr\u00e9e", self.name))
        self.assertEqual((r.metadata, r.max_output_tokens, r.instructions, r.prompt_cache_key), ({"a": "b"}, 50, "Be brief.", "k"))
        self.assertEqual((r.usage.output_tokens, r.usage.total_tokens), (4, r.usage.input_tokens + 4))
        self.assertEqual((r.output[0].status, r.incomplete_details, r.error), ("completed", None, None))

    def test_the_client(self):
        parts = [{"type": "input_text", "text": "Stre"}, {"type": "input_text", "text": "amed"}]
        r = self.client.responses.create(model=self.name, input=[{"role": "user", "content": parts}])
        self.assertEqual(r.output_text, "One two thr\u00e9e")

    def test_streamed(self):
        events, r = self.events("Streamed")
        self.assertEqual([e.type for e in events[2:]], [
            "response.output_item.added", "response.content_part.added", *["response.output_text.delta"] * 3, "response.output_text.done",
            "response.content_part.done", "response.output_item.done", "response.completed"])
        self.assertEqual([e.delta for e in events if e.type == "response.output_text.delta"], ["One", " two", " thr\u00e9e"])
        self.assertEqual((events[2].item.content, events[2].item.status, events[0].response.output, events[0].response.status), ([], "in_progress", [], "in_progress"))
        self.assertEqual({e.response.id for e in (events[0], events[1], events[-1])}, {r.id})
        self.assertEqual(len({e.item_id for e in events if hasattr(e, "item_id")}), 1)
        self.assertEqual((events[-2].item, r.output_text, r.status), (r.output[0], "One two thr\u00e9e", "completed"))
        self.assertEqual(said_by(self.create("Streamed")), said_by(r))

    def test_the_streaming_client(self):
        # It builds the response from the events, and compares.
        with self.client.responses.stream(model=self.name, input="Streamed") as stream:
            snapshots = [e.snapshot for e in stream if e.type == "response.output_text.delta"]
            final = stream.get_final_response()
        self.assertEqual((snapshots, final.output_text), (["One", "One two", "One two thr\u00e9e"], "One two thr\u00e9e"))

    def test_incomplete(self):
        for r in (self.create("Streamed", max_output_tokens=2), self.events("Streamed", max_output_tokens=2)[1]):
            self.assertEqual((r.status, r.incomplete_details.reason, r.output_text, r.output[0].status),
                             ("incomplete", "max_output_tokens", "One two", "incomplete"))
        self.assertEqual(self.events("Streamed", max_output_tokens=2)[0][-1].type, "response.incomplete")

    def test_no_words(self):
        for r in (self.create("Nothing"), self.events("Nothing")[1]):
            self.assertEqual((r.status, said_by(r)), ("completed", [["message", ""]]))

    def test_format(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
        form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
        r = self.create("JSON", text={"format": form, "verbosity": "low"})
        self.assertEqual((r.output_text, r.text.format.name, r.text.verbosity), ('{"n": 7}', "n", "low"))
        self.assertEqual(self.create("JSON", text={"format": {"type": "json_object"}}).output_text, '{"n": 7}')
        self.assertEqual(set(json.loads(self.create("Streamed", text={"format": form}).output_text)), {"n"})  # the mask judges

        class N(pydantic.BaseModel):
            n: int

        self.assertEqual(self.client.responses.parse(model=self.name, input="JSON", text_format=N).output_parsed, N(n=7))

    def test_logprobs(self):
        options = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "temperature": 0}
        r = self.create("Streamed", **options)
        tokens = r.output[0].content[0].logprobs
        self.assertEqual(([t.token for t in tokens], [len(t.top_logprobs) for t in tokens]), (["One", " two", " thr\u00e9e"], [2] * 3))
        events, streamed = self.events("Streamed", **options)
        self.assertEqual(streamed.output[0].content[0].logprobs, tokens)
        self.assertEqual([t.token for e in events if e.type == "response.output_text.delta" for t in e.logprobs], [t.token for t in tokens])
        self.assertEqual(self.create("Streamed").output[0].content[0].logprobs, [])

    def test_sampling(self):
        r = self.create("Streamed", temperature=0.25, top_p=0.5, reasoning={"effort": "low", "summary": "auto"}, seed=4)
        self.assertEqual((r.temperature, r.top_p, r.reasoning.effort, r.reasoning.summary), (0.25, 0.5, "low", "auto"))
        r = self.create()
        self.assertEqual((r.temperature, r.top_p, r.tool_choice, r.parallel_tool_calls, r.tools, r.metadata), (1, 1, "auto", True, [], {}))

    def test_what_changes_nothing(self):
        self.assertEqual(self.create("Streamed", client_metadata={"a": {"b": 1}}, user="u", safety_identifier="s", service_tier="auto", truncation="disabled",
                                     background=False, conversation=None, prompt=None, max_tool_calls=3, prompt_cache_retention="24h", stream_options=None,
                                     include=["web_search_call.results"], store=None).output_text, "One two thr\u00e9e")

    def test_no_limit_and_no_result(self):
        sent = [{"role": "user", "content": "?"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]
        for output in ({"output": None}, {}, {"output": ""}):
            self.assertEqual(self.create([*sent, {"type": "function_call_output", "call_id": "c", **output}], max_output_tokens=-1).output_text, "ok")

    def test_refused(self):
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]
        many = {str(i): "" for i in range(17)}
        for options, param, code in (
                ({"conversation": "conv_1"}, "conversation", "unsupported_parameter"), ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
                ({"background": True}, "background", "unsupported_parameter"), ({"truncation": "auto"}, "truncation", "unsupported_value"),
                ({"said": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type", "unsupported_value"), ({"said": [{"id": "msg_1"}]}, "input[0].id", "unsupported_value"),
                ({"said": image}, "input[0].content[0].type", "unsupported_value"), ({"said": []}, "input", "invalid_value"), ({"said": 5}, "input", "invalid_value"),
                ({"said": [5]}, "input[0]", "invalid_value"), ({"said": [{"role": "user"}]}, "input[0].content", "missing_required_parameter"),
                ({"said": [{"role": "tool", "content": "x"}]}, "input[0].role", "invalid_value"), ({"said": [{"type": "web_search_call", "id": "x"}]}, "input[0].type", "unsupported_value"),
                ({"said": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id", "missing_required_parameter"),
                ({"said": [{"type": "function_call_output", "call_id": "c", "output": 5}]}, "input[0].output", "invalid_value"),
                ({"temperature": 3}, "temperature", "invalid_value"), ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
                ({"metadata": {"a": 5}}, "metadata.a", "invalid_value"), ({"metadata": many}, "metadata", "invalid_value"), ({"include": ["x"]}, "include[0]", "invalid_value"),
                ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "invalid_value"), ({"text": {"format": {"type": "x"}}}, "text.format.type", "invalid_value"),
                ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "missing_required_parameter"),
                ({"extra_body": {"messages": []}}, "messages", "unknown_parameter"), ({"extra_body": {"n": 2}}, "n", "unknown_parameter"),
                ({"extra_body": {"stop": "x"}}, "stop", "unknown_parameter"), ({"extra_body": {"text": {"x": 1}}}, "text.x", "unknown_parameter"),
                ({"instructions": 5}, "instructions", "invalid_value"), ({"store": "yes"}, "store", "invalid_value"),
                ({"previous_response_id": "resp_none"}, "previous_response_id", "previous_response_not_found"),
                ({"previous_response_id": "chat-1"}, "previous_response_id", "previous_response_not_found"), ({"model": "other"}, "model", "model_not_found")):
            with self.subTest(options=options):
                self.refused_by(param, code, **options)
        status, answer = self.server.post({"model": self.name}, "/v1/responses")
        self.assertEqual((status, answer["error"]["param"], answer["error"]["message"]), (400, "input", "input is missing"))
        self.assertIn("expected a message", self.refused_by("input", "missing_required_parameter", said=[{"type": "reasoning", "summary": []}]).message)

    def test_too_long(self):
        self.assertEqual(self.refused_by("input", "context_length_exceeded", said="long " * 2000).status_code, 400)


class Tools(Responses):
    def test_a_call(self):
        for r in (self.create("weather", tools=[WEATHER]), self.events("weather", tools=[WEATHER])[1]):
            self.assertEqual((r.status, said_by(r)), ("completed", [["function_call", "weather", '{"city":"Bonn"}']]))
            self.assertTrue(r.output[0].call_id.startswith("call_") and r.output[0].id.startswith("fc_"))
            self.assertEqual([t.model_dump(exclude_none=True) for t in r.tools], [WEATHER])

    def test_events_of_calls(self):
        events, r = self.events("weather in Bonn and Ulm", tools=[WEATHER])
        one = ["response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done"]
        self.assertEqual([e.type for e in events[2:]], [*one, *one, "response.completed"])
        self.assertEqual([e.output_index for e in events if hasattr(e, "output_index")], [0] * 4 + [1] * 4)
        self.assertEqual((events[2].item.arguments, events[3].delta, events[4].arguments), ("", '{"city":"Bonn"}', '{"city":"Bonn"}'))
        self.assertEqual([i.arguments for i in r.output], ['{"city":"Bonn"}', '{"city":"Ulm"}'])
        self.assertEqual(len({i.call_id for i in r.output}), 2)

    def test_parallel_tool_calls(self):
        for said in ("weather", "weather in Bonn and Ulm"):
            r = self.create(said, tools=[WEATHER], parallel_tool_calls=False, max_output_tokens=200)
            self.assertFalse(r.parallel_tool_calls)
            self.assertLessEqual(sum(i.type == "function_call" for i in r.output), 1)

    def test_text_before_a_call(self):
        for r in (self.create("Look first", tools=[WEATHER]), self.events("Look first", tools=[WEATHER])[1]):
            self.assertEqual([i.type for i in r.output], ["message", "function_call"])
            self.assertEqual((r.output_text.strip(), r.output[1].arguments), ("I look.", '{"city":"Kiel"}'))

    def test_choice(self):
        named = {"type": "function", "name": "weather"}
        for choice in ("required", named):
            r = self.create("Streamed", tools=[WEATHER], tool_choice=choice, max_output_tokens=2000)
            self.assertIn((r.status, {i.type for i in r.output} - {"reasoning"}), [("completed", {"function_call"}), ("incomplete", set())])
        self.assertEqual(self.create("weather", tools=[WEATHER], tool_choice=named).tool_choice.name, "weather")
        r = self.create("weather", tools=[WEATHER], tool_choice="none", max_output_tokens=20)
        self.assertEqual({i.type for i in r.output} - {"message"}, set())
        self.assertNotIn("<tool_call>", r.output_text)

    def test_beside_a_schema(self):
        form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}
        self.assertEqual(said_by(self.create("weather", tools=[WEATHER], text=form)), [["function_call", "weather", '{"city":"Bonn"}']])
        self.assertEqual(self.create("JSON", tools=[WEATHER], text=form).output_text, '{"n": 7}')

    def test_a_call_that_is_cut(self):
        options = {"tools": [WEATHER], "tool_choice": "required", "max_output_tokens": 3, "temperature": 0}
        for r in (self.create("Streamed", **options), self.events("Streamed", **options)[1]):
            self.assertEqual((r.status, r.output), ("incomplete", []))

    def test_what_does_not_fit_is_no_call(self):
        r = self.create("Bad call", tools=[WEATHER], max_output_tokens=200)
        self.assertNotIn("town", json.dumps(said_by(r)))

    def test_tools_of_other_types(self):
        others = [{"type": "web_search", "external_web_access": True}, {"type": "namespace", "name": "n", "description": "d", "tools": [WEATHER]},
                  {"type": "custom", "name": "patch"}]
        r = self.create("weather", tools=[others[0], WEATHER, *others[1:]])
        self.assertEqual(([t.type for t in r.tools], said_by(r)), (["function"], [["function_call", "weather", '{"city":"Bonn"}']]))
        self.assertEqual(self.create("Streamed", tools=others).tools, [])
        for choice in ({"type": "web_search"}, {"type": "custom", "name": "patch"}, {"type": "allowed_tools", "mode": "auto", "tools": []}):
            self.refused_by("tool_choice.type", "unsupported_value", tools=others, tool_choice=choice)
        self.refused_by("tool_choice", "invalid_value", tools=others, tool_choice="required")
        _, log = self.server.stop()
        self.server.start()
        for name in ("web_search", "namespace", "custom"):
            self.assertEqual(log.count(f'tools of the type "{name}" are left out'), 1, log)

    def test_refused(self):
        for tools, param in (([{"type": "function", "name": "a b"}], "tools[0].name"), ([WEATHER, WEATHER], "tools[1].name"), ({}, "tools"), ([5], "tools[0]"),
                             ([{"name": "x"}], "tools[0].type"), ([{"type": "function", "name": "x", "parameters": []}], "tools[0].parameters")):
            with self.subTest(tools=tools):
                self.refused_by(param, tools=tools)
        self.refused_by("tool_choice.name", tools=[WEATHER], tool_choice={"type": "function", "name": "other"})

    def turn(self, said, **options):
        """A call and its result, as a client that keeps all items sends them."""
        first = self.create(said, tools=[WEATHER], **options)
        sent = [{"role": "user", "content": said}, *(i.model_dump(exclude_none=True) for i in first.output)]
        sent += [{"type": "function_call_output", "call_id": i.call_id, "output": "18 C"} for i in first.output if i.type == "function_call"]
        return first, self.create(sent, tools=[WEATHER], **options)

    def test_results(self):
        for said in ("weather", "weather in Bonn and Ulm", "Look first"):
            for store in (True, False):
                first, second = self.turn(said, store=store)
                self.assertEqual(second.output_text, "It is 18 C.")
                # All but the results is there already, with the tokens of the answer.
                self.assertGreaterEqual(second.usage.input_tokens_details.cached_tokens, first.usage.input_tokens)

    def test_arguments_that_are_no_object(self):
        for arguments in ('{"city": "Bo', "[1]", ""):
            sent = [{"role": "user", "content": "?"}, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": arguments},
                    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "18 C"}]}]
            self.assertEqual(self.create(sent, tools=[WEATHER]).output_text, "It is 18 C.")


class Reasoning(Responses):
    def test_items(self):
        r = self.create("Think")
        self.assertEqual(said_by(r), [["reasoning", "Well, well."], ["message", "Thought."]])
        self.assertEqual(r.usage.output_tokens_details.reasoning_tokens, 2)
        self.assertIsNone(r.output[0].encrypted_content)

    def test_events(self):
        events, r = self.events("Think")
        self.assertEqual([e.type for e in events[2:8]], ["response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
                                                         "response.reasoning_text.delta", "response.reasoning_text.done", "response.content_part.done"])
        self.assertEqual("".join(e.delta for e in events if e.type == "response.reasoning_text.delta"), "Well, well.")
        self.assertEqual([i.type for i in r.output], ["reasoning", "message"])

    def test_before_a_call(self):
        r = self.create("Reason and call", tools=[WEATHER])
        self.assertEqual(said_by(r), [["reasoning", "A tool."], ["function_call", "weather", '{"city":"K\u00f6ln"}']])

    def test_sent_back(self):
        # As items with their text, or by a client that keeps the sealed form alone: the model reads the same prompt.
        lengths = set()
        for sealed in (False, True):
            first = self.create("Reason and call", tools=[WEATHER], store=False, include=["reasoning.encrypted_content"] if sealed else [], prompt_cache_key=str(sealed))
            items = [i.model_dump(exclude_none=True) for i in first.output]
            if sealed:
                del items[0]["content"]
            sent = [{"role": "user", "content": "Reason and call"}, *items, {"type": "function_call_output", "call_id": first.output[1].call_id, "output": "18 C"}]
            # Nobody said this before, so it is rendered from what is sent.
            sent[0]["content"] += "!"
            lengths.add(self.create(sent, tools=[WEATHER], store=False).usage.input_tokens)
            foreign = [sent[0], {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}, *sent[2:]]
            shorter = self.create(foreign, tools=[WEATHER], store=False).usage.input_tokens
        self.assertEqual(len(lengths), 1)
        self.assertLess(shorter, lengths.pop())


class Ended(Responses):
    """An answer that the server ends, of a model that would go on for minutes."""

    context = 200_000

    def test_failed(self):
        stream = self.client.responses.create(model=self.name, input="Long", stream=True, extra_body={"logit_bias": {"70": 100}})
        while next(stream).type != "response.output_text.delta":
            pass
        self.server.stop()
        last = list(stream)[-1]
        self.assertEqual((last.type, last.response.status, last.response.error.code), ("response.failed", "failed", "server_error"))
        self.assertIn("stopping", last.response.error.message)
        self.assertEqual(last.response.output[0].status, "incomplete")
        self.strict(type(last), last.to_json())


class LangChain(Responses):
    """A framework that asks by this endpoint."""

    def test_tools(self):
        model = ChatOpenAI(model=self.name, base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0, use_responses_api=True)
        bound = model.bind_tools([WEATHER])
        for previous in (False, True):
            said = [HumanMessage("weather")]
            answer = bound.invoke(said)
            self.assertEqual([c["args"] for c in answer.tool_calls], [{"city": "Bonn"}])
            result = ToolMessage("18 C", tool_call_id=answer.tool_calls[0]["id"])
            last = bound.invoke([result], previous_response_id=answer.response_metadata["id"]) if previous else bound.invoke([*said, answer, result])
            self.assertEqual(last.text, "It is 18 C.")
        self.assertEqual("".join(c.text for c in model.stream("Streamed")), "One two thr\u00e9e")


if __name__ == "__main__":
    unittest.main()
