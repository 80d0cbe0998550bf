#!/usr/bin/env python3
"""Holds kvrt's template interpreter against Jinja2 in the environment of transformers: both render the same text, or both
refuse. kvrt may say UNSUPPORTED where the construct is one of KNOWN; everything else is a fault.

usage: template_equivalence.py TEMPLATE_DUMP families|expressions|FOLDER [COUNT [SEED]] [-v]

FOLDER: of templates that others wrote, *.jinja, such as models/templates of llama.cpp; COUNT renderings of each, and those of every conversation.
"""
import collections
import functools
import json
import pathlib
import re
import subprocess
import sys
import warnings

try:
    import jinja2
except ImportError:
    sys.exit(77)
from template_environment import environment, with_objects
from template_expressions import VARIABLES, expressions
from template_shapes import shapes

NOW = 1753100000  # 2025-07-21
# The constructs that kvrt does not support, by the name that it gives.
KNOWN = [re.compile(p) for p in (
    r"an integer beyond 64 bits", r"a number beyond 64 bits", r"a complex number", r"an even power of a negative number", r"printing a generator, view or range", r"printing a \w+", r"attribute \"\w+\" of a function", r"printing what is in this \w+",
    r"str\.is\w+ of text that is not ASCII", r"wordcount of text that is not ASCII", r"a slice of a \w+", r"a key of type tuple", r"unique of (tuples|ranges)", r"ordering (nan|views)", r"operator - of a view", r"operator \S+ of escaped text", r"(filter|test|str) \"\w+\" of escaped text", r"\w+ of escaped text", r"formatting escaped text", r"looking for a list or dict in a view",
    r"test \"sameas\" of \w+", r"index with a start", r"(list|tuple)\.\w+", r"a format specifier without a type for a float", r"grouped digits filled with zeros", r"the format type %?\w", r"padding infinity or nan with zeros", r"round with this precision", r"round of a number of this size", r"tojson with sort_keys of these keys",
    r"attribute \"\w+\" of a function", r"(float|int) of digits with _", r"int with a base", r"filesizeformat of infinity or nan", r"%r of \w+", r"!r of \w+", r"function \"(cycler|joiner|lipsum)\"", r"statement \"(include|import|from|extends|block)\"",
)]


@functools.lru_cache(maxsize=256)
def compiled(env, source):
    return env.from_string(source)


def expected(env, job):
    """Jinja2's text, or None where it raises."""
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    try:
        template = compiled(env, job["template"])
        return template.render(**{"messages": with_objects(job.get("messages", [])), "tools": job.get("tools"), "documents": job.get("documents"), "add_generation_prompt": job.get("prompt", False), **tokens, **job.get("variables", {})})
    except Exception as e:  # of every kind: that it raises is all that is compared
        job["raised"] = f"{type(e).__name__}: {e}"
        return None


def family_jobs():
    here = pathlib.Path(__file__).parent / "templates"
    conversations = json.loads((here / "conversations.json").read_text())
    templates = sorted(here.glob("*.jinja"))
    if len(templates) < 60 or len(conversations) < 8:
        sys.exit(f"{len(templates)} templates and {len(conversations)} conversations: expected 60 and 8")
    for path in templates:
        for name, conversation in conversations.items():
            for prompt in (False, True):
                yield {"name": f"{path.name} with {name}", "template": path.read_bytes().decode(), "prompt": prompt, "now": NOW, **conversation}
    for line in (here / "statements.txt").read_text().splitlines():  # scopes, macros, loops and syntax errors, one template a line
        yield {"name": line, "template": line, "now": NOW, "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}


def expression_jobs(count, seed):
    for source in expressions(seed, count):
        yield {"name": source, "template": source, "variables": VARIABLES}


def folder_jobs(folder, count, seed):
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        for messages, tools, variables, prompt in shapes(count, seed):
            variables = dict(variables)
            documents = variables.pop("documents", None)
            yield {"name": f"{path.name} with {json.dumps(messages)[:300]}, tools {json.dumps(tools)[:60]}, {variables}", "template": path.read_bytes().decode(), "prompt": prompt,
                   "now": NOW, "messages": messages, "tools": tools, "documents": documents, "variables": variables}


def main():
    warnings.simplefilter("ignore")
    verbose, args = "-v" in sys.argv, [a for a in sys.argv[1:] if a != "-v"]
    dump, what, count, seed = args[0], args[1], int((args + [""] * 2)[2] or 50000), int((args + [""] * 2)[3] or 20250721)
    jobs = list(family_jobs() if what == "families" else expression_jobs(count, seed) if what == "expressions" else folder_jobs(what, count, seed))
    lines = "".join(json.dumps({k: v for k, v in job.items() if k != "name"}) + "\n" for job in jobs)
    child = subprocess.run([dump], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in child.stdout.split(b"\n") if line]
    assert len(answers) == len(jobs)
    env, faults, seen, rendered = environment(NOW), 0, collections.Counter(), set()
    for job, answer in zip(jobs, answers):
        text = expected(env, job)
        if answer.get("code") == "UNSUPPORTED":
            construct = re.sub(r"^template line \d+, column \d+: (.*) is not supported$", r"\1", answer["message"], flags=re.S)
            seen["unsupported: " + construct] += 1
            ok = any(p.fullmatch(construct) for p in KNOWN)
        elif "needs more than the heap limit" in answer.get("message", "") and "123456789" in job["template"]:  # so many times
            ok = True
        elif text is None:
            seen["both raise"] += "text" not in answer
            ok = answer.get("code") in ("INVALID", "LIMIT") and "template line " in answer["message"]
        else:
            seen["equal"] += 1
            rendered.add(job["template"])
            ok = answer.get("text") == text
        if not ok:
            faults += 1
            if faults <= 40:
                print(f"{job['name']}\n   jinja2: {text!r} {job.get('raised', '')}\n   kvrt:   {answer.get('text')!r} {answer.get('code', '')} {answer.get('message', '')}")
    unsupported = sum(n for key, n in seen.items() if key.startswith("unsupported"))
    print(f"jinja2 {jinja2.__version__}: {len(jobs)} renderings, {seen['equal']} equal, {seen['both raise']} refused by both, {unsupported} unsupported by name, {faults} faults")
    for key, n in seen.most_common(100 if verbose else 0):
        print(f"  {n:6} {key}")
    idle = {job["name"] for job in jobs if ".jinja with " in job["name"] and job["template"] not in rendered}
    if idle:
        sys.exit(f"never rendered: {sorted(idle)}")
    if unsupported * 20 > len(jobs):
        sys.exit("more than one in twenty is not supported")
    sys.exit(faults > 0)


main()
