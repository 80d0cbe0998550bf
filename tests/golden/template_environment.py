"""Jinja2 as transformers' apply_chat_template sets it up, and what it is given for the arguments of calls."""
import copy
import datetime
import json

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %} marks the text of the assistant; it renders its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(now).strftime(form)
    return env


class Arguments(dict):
    """The arguments of a call for templates that add them to a string: as a text they are their JSON."""

    def __str__(self): return tojson(self)
    def __add__(self, other): return str(self) + other if isinstance(other, str) else NotImplemented
    def __radd__(self, other): return other + str(self) if isinstance(other, str) else NotImplemented


def functions(messages):
    """The calls in messages, where they have arguments."""
    for message in messages if isinstance(messages, list) else []:
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        for call in calls if isinstance(calls, list) else []:
            function = call.get("function", call) if isinstance(call, dict) else None
            if isinstance(function, dict) and "arguments" in function: yield function


def with_objects(messages):
    """The messages with objects for arguments that are JSON in a string."""
    messages = copy.deepcopy(messages)
    for function in functions(messages):
        arguments = function["arguments"]
        if arguments is None or (isinstance(arguments, str) and not arguments.strip()): arguments = {}
        if isinstance(arguments, str):
            try:
                parsed = json.loads(arguments, parse_constant=lambda name: 1 / 0)
                arguments = parsed if isinstance(parsed, dict) else arguments
            except (ValueError, ZeroDivisionError):
                pass
        function["arguments"] = Arguments(arguments) if isinstance(arguments, dict) else arguments
    return messages
