#!/usr/bin/env python3
"""Earlier calls through every template, with their arguments as an object and as JSON in a string, in several spellings: kvrt's text is Jinja2's
for the object, with integers of any length. Arguments that are no JSON object stand there as the string, or in an object, and no template
refuses them.

usage: template_calls.py TEMPLATE_DUMP
"""
import json
import pathlib
import subprocess
import sys

try:
    import jinja2
except ImportError:
    sys.exit(77)
from template_environment import Arguments, environment, functions, tojson, with_objects

NOW = 1753100000
HERE = pathlib.Path(__file__).parent / "templates"
AS_TEXT = {"deepseek_r1", "deepseek_v3", "functionary"}  # they add the arguments to a string: Python's text of a dict is not what they mean
OBJECTS = [{"city": "Zürich \"東京\" <b> & 'x' 👍", "days": -3}, {}, {"n": 123456789012345678901234567890, "m": -9223372036854775809, "k": 9223372036854775808, "f": 1.5, "e": 1e20},
           {"opts": {"unit": "12", "tags": ["a", 1, None, True], "n": {"x": 18446744073709551616}}}, {"lines": "a\n  b = \"c\"\n\t\\"}, {"ids": [10 ** 40, 0, -1], "big": "1" * 30}]
SPELLINGS = [lambda x: json.dumps(x), lambda x: tojson(x, separators=(",", ":")), lambda x: tojson(x, indent=2), lambda x: "\n " + tojson(x) + " "]
ODD = ['{"city": "Par', "city=Paris, days=2", '["a", 1]', "12", "null", '{"a": 1} x', "{'city': 'Paris'}", '{"a": NaN}', '  {"x": "\\', '"{}"', "{\n"]
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "c"}}, "required": []}}}

BIG = {"role": "user", "g": 10 ** 30, "h": 10 ** 30 + 1, "n": -(10 ** 25), "f": 1e30, "i": 2 ** 63, "k": 2 ** 63 - 1, "p": 2.0 ** 63, "z": 10 ** 400}
EXPRESSIONS = [
    "{{ m.g }} {{ m.n|tojson }} {{ m.h|string }} {{ m.g ~ 'x' }} {{ [m.g, -1] }} {{ {'a': m.n, m.g: 1} }} {{ m|tojson(indent=2) }}", "{{ m.g is integer }}{{ m.g is number }}{{ m.g is float }}{{ m.g is string }}{{ m.g is iterable }}{{ m.g is none }}",
    "{{ m.g == m.g }}{{ m.g == m.h }}{{ m.g != 1 }}{{ m.f == m.g }}{{ m.i == m.p }}{{ m.p == m.k }}{{ m.k == m.i }}{{ m.g == 'a' }}", "{{ m.g > 1 }}{{ m.n < m.g }}{{ m.g < m.h }}{{ m.g <= m.f }}{{ m.f > m.h }}{{ m.i > m.k }}{{ m.k < m.i }}{{ m.i >= m.p }}{{ m.n < 0.5 }}{{ m.z > m.f }}",
    "{{ [m.h, m.z, m.g, 3, m.n, m.f, m.i, m.k, -1.5]|sort }} {{ [m.h, m.g, m.n]|max }} {{ [m.g, m.n]|min }} {{ [m.g, m.g, m.h]|unique|list }}", "{{ m.g in [1, m.g] }}{{ {m.i: 'x'}[m.p] }}{{ {m.g: 'y'}[m.g] }}{{ 'a' if m.g }}{{ not m.n }}",
    "{{ m.g|abs }} {{ m.n|abs }} {{ m.g|int }} {{ m.n|float }} {{ m.h|round }}", "{{ '%d|%s|%35d|%.2f' % (m.g, m.n, m.n, m.g) }} {{ '{:,}|{:>40}|{:+d}'.format(m.n, m.g, m.h) }}", "{{ [m.g, m.n]|join(',') }}", "{{ m.z }}", "{{ m.z|float }}", "{{ m.g[0] }}", "{{ m.g.x }}", "{{ m.g|length }}",
]


def conversations(arguments):
    """One call, and two with the next arguments."""
    for count in (1, 2):
        calls = [{"id": f"abcdefgh{i}", "type": "function", "function": {"name": "get_weather", "arguments": arguments[i]}} for i in range(count)]
        results = [{"role": "tool", "content": "20", "tool_call_id": f"abcdefgh{i}", "name": "get_weather"} for i in range(count)]
        yield [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": calls}, *results, {"role": "assistant", "content": "So."}, {"role": "user", "content": "R"}]
    yield [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefgh0", "name": "get_weather", "arguments": arguments[0]}]}, {"role": "tool", "content": "20", "tool_call_id": "abcdefgh0"}]


def rendered(template, messages):
    try:
        return template.render(messages=messages, tools=[TOOL], documents=None, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    except Exception:
        return None


def wrapped(messages):
    messages = with_objects(messages)
    for function in functions(messages):
        if isinstance(function["arguments"], str): function["arguments"] = Arguments(arguments=function["arguments"])
    return messages


def shows(text, odd):
    """Each string is in the text, as it is or as in JSON."""
    return text is not None and all(string.strip() in text or tojson(string.strip())[1:-1] in text for string in odd)


def main():
    program, env = sys.argv[1], environment(NOW)
    jobs, wanted = [], []
    show, need_objects = set(), set()

    def ask(path, messages, expected, what):
        jobs.append({"template": path.read_text(), "messages": json.dumps(messages), "tools": [TOOL], "prompt": True, "now": NOW})
        wanted.append((path.stem, expected, what))

    for path in sorted(HERE.glob("*.jinja")):
        template = env.from_string(path.read_text())
        for i, given in enumerate(OBJECTS):
            pair = [given, OBJECTS[(i + 1) % len(OBJECTS)]]
            for objects, *spelled in zip(conversations(pair), *(conversations([form(x) for x in pair]) for form in SPELLINGS)):
                expected = rendered(template, with_objects(objects) if path.stem in AS_TEXT else objects)
                if given and len(objects) == 5 and expected != rendered(template, next(conversations([{}, {}]))): show.add(path.stem)
                for messages in (objects, *spelled): ask(path, messages, expected, messages[1]["tool_calls"])
        for i, odd in enumerate(ODD):
            for messages in conversations([odd, {"a": 1} if i % 2 else ODD[(i + 1) % len(ODD)]]):
                strings = [f["arguments"] for f in functions(with_objects(messages)) if isinstance(f["arguments"], str)]
                as_string, as_object = rendered(template, with_objects(messages)), rendered(template, wrapped(messages))
                use_object = as_string is None or (not shows(as_string, strings) and shows(as_object, strings))
                if use_object and as_object: need_objects.add(path.stem)
                ask(path, messages, as_object if use_object else as_string, messages[1]["tool_calls"])
    for source in EXPRESSIONS:
        jobs.append({"template": "{% set m = messages[0] %}" + source, "messages": json.dumps([BIG]), "tools": [TOOL]})
        wanted.append((source, rendered(env.from_string(jobs[-1]["template"]), [BIG]), "big integers"))
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    answers = [json.loads(line) for line in subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()]
    wrong, refused = 0, 0
    for (name, expected, what), answer in zip(wanted, answers, strict=True):
        refused += expected is None
        if answer.get("text") == expected: continue
        wrong += 1
        if wrong <= 20: print(f"{name}: {json.dumps(what)}\n  jinja2 {expected!r}\n  kvrt   {answer.get('text')!r} {answer.get('message', '')}")
    print(f"jinja2 {jinja2.__version__}: {len(jobs)} renderings, {refused} that a template refuses, of {len(show)} templates that show calls; {len(need_objects)} take objects alone; {wrong} wrong")
    if len(show) < 45 or len(need_objects) < 10: sys.exit(f"expected 45 and 10: {sorted(show)}, {sorted(need_objects)}")
    sys.exit(wrong > 0)


main()
