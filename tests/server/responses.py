"""The base of the tests of /v1/responses: events and responses by the types of OpenAI's client, strictly; the model's answers are forced."""
import json
import typing

import openai
import pydantic
from openai.types import responses as types

import forced
from support import Forced

EVENTS = {typing.get_args(t.model_fields["type"].annotation)[0]: t for t in typing.get_args(typing.get_args(types.ResponseStreamEvent)[0])}
WEATHER = {"type": "function", "name": "weather", "description": "The weather", "strict": False, "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}}
ANSWERS = [
    ("18 C", "It is 18 C."),
    ("weather in Bonn and Ulm", [forced.call("weather", city="Bonn") + "\n", forced.call("weather", city="Ulm")]),
    ("weather", forced.call("weather", city="Bonn")),
    ("Look first", ["I look.\n", forced.call("weather", city="Kiel")]),
    ("Think", ["<think>\nWell", ", well.\n</think>\n\n", "Thou", "ght."]),
    ("Reason and call", ["<think>\nA tool.\n</think>\n\n", forced.call("weather", city="Köln")]),
    ("Streamed", ["One", " two", " thr\u00e9e"]),
    ("JSON", '{"n": 7}'),
    ("Nothing", ""),
    ("Bad call", forced.call("weather", town="Bonn")),
]


def extras(value, path=""):
    """Members that the client's types do not know."""
    if isinstance(value, pydantic.BaseModel):
        yield from (f"{path}.{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from extras(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, (list, dict)):
        for name, one in enumerate(value) if isinstance(value, list) else value.items():
            yield from extras(one, f"{path}.{name}")


class Responses(Forced):
    answers = ANSWERS

    def strict(self, kind, text):
        value = pydantic.TypeAdapter(kind).validate_json(text, strict=True)
        self.assertEqual(list(extras(value)), [])
        return value

    def create(self, said="Hello", **options):
        """A response, checked."""
        status, _, data = self.server.raw("POST", "/v1/responses", json.dumps({"model": self.name, "input": said, **options}))
        self.assertEqual(status, 200, data)
        return self.strict(types.Response, data)

    def events(self, said="Hello", **options):
        """The events of a streamed response, checked, and the response at its end."""
        status, headers, data = self.server.raw("POST", "/v1/responses", json.dumps({"model": self.name, "input": said, "stream": True, **options}))
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"), data)
        out = []
        for i, one in enumerate(data.decode().removesuffix("\n\n").split("\n\n")):
            name, text = one.split("\n")
            kind = json.loads(text.removeprefix("data: "))["type"]
            self.assertEqual(name, "event: " + kind)
            out.append(self.strict(EVENTS[kind], text.removeprefix("data: ")))
            self.assertEqual(out[-1].sequence_number, i)
        self.assertEqual([e.type for e in out[:2]], ["response.created", "response.in_progress"])
        return out, out[-1].response

    def refused_by(self, param, code=None, said="Hello", **options):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.responses.create(**{"model": self.name, "input": said, **options})
        error = caught.exception
        self.assertEqual((error.param, error.code), (param, code or error.code), error)
        return error


def said_by(response):
    """What its items say, without ids."""
    say = {"message": lambda i: [p.text for p in i.content], "reasoning": lambda i: [p.text for p in i.content],
           "function_call": lambda i: [i.name, i.arguments]}
    return [[i.type, *say[i.type](i)] for i in response.output]
