"""A chat with a model whose answers are forced: text, reasoning and calls are what it says, as far as masks allow it."""
import json
import unittest

import forced
from support import Forced, message

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}}


class Chat(Forced):
    answers = [
        ("18 C", "It is 18 C."),
        ("in Bonn and Ulm", [forced.call("weather", city="Bonn") + "\n", forced.call("weather", city="Ulm")]),
        ("in Bonn", forced.call("weather", city="Bonn")),
        ("Look first", ["I look.\n", forced.call("weather", city="Kiel")]),
        ("Think", "<think>\nWell, well.\n</think>\n\nThought."),
        ("Reason and call", ["<think>\nA tool.\n</think>\n\n", forced.call("weather", city="K\u00f6ln")]),
        ("Wrong", forced.call("weather", town="Bonn")),
    ]

    def test_text(self):
        answer = self.ask("Hello", temperature=1)
        self.assertEqual((answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.completion_tokens), ("ok", "stop", 2))

    def test_reasoning(self):
        answer = self.ask("Think").choices[0].message
        self.assertEqual((answer.reasoning_content, answer.content), ("Well, well.", "Thought."))

    def test_calls(self):
        for said, cities in (("in Bonn", ["Bonn"]), ("in Bonn and Ulm", ["Bonn", "Ulm"]), ("Look first", ["Kiel"]), ("Reason and call", ["K\u00f6ln"])):
            first = self.ask(said, tools=[TOOL])
            answer = first.choices[0]
            calls = answer.message.tool_calls
            self.assertEqual(([json.loads(c.function.arguments) for c in calls], answer.finish_reason), ([{"city": c} for c in cities], "tool_calls"))
            results = [{"role": "tool", "tool_call_id": c.id, "content": "18 C"} for c in calls]
            second = self.ask([{"role": "user", "content": said}, message(first), *results], tools=[TOOL])
            self.assertEqual(second.choices[0].message.content, "It is 18 C.")
            self.assertGreaterEqual(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens)

    def test_masks_judge(self):
        self.assertIsNone(self.ask("in Bonn", tools=[TOOL], tool_choice="none").choices[0].message.tool_calls)
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "no"}}}
        self.assertEqual(self.ask("in Bonn", response_format=form, max_tokens=20).choices[0].message.content, '"no"')
        wrong = self.ask("Wrong", tools=[TOOL], max_tokens=60).choices[0].message
        self.assertNotIn("town", str(wrong))


if __name__ == "__main__":
    unittest.main()
