#!/usr/bin/env python3
"""An axis of `kvrt eval --program`: the multi-turn cases of the Berkeley Function Calling Leaderboard, from PyPI's bfcl-eval (Apache-2.0).

  pip download --no-deps bfcl-eval && unzip -q bfcl_eval-*.whl -d bfcl       and mpmath, which one of the back ends needs
  kvrt eval -m model.gguf --candidates int8 --program "bfcl=python3 samples/bfcl_axis.py bfcl --cases 20"

A case is a conversation of several turns, each a request of a user. The model writes calls, the package's Python back ends run them, and their
results come back, until it writes none. The score is 1 if the back ends then are in the state that the case's own calls lead to. Cases whose calls
change nothing are left out: to do nothing would be right. Of what the model writes only calls of the back ends' public methods run, with literals
as arguments. The figures are not the leaderboard's: its prompts are others, and it looks at the state after each turn and at results as well.
"""
import argparse
import ast
import copy
import importlib
import json
import re
import sys
from pathlib import Path

PLACE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code."
BACK_ENDS = {"GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api", "TwitterAPI": "posting_api",
             "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control"}
INSTRUCTIONS = """You work with functions. Answer each request with calls, and with nothing else, in this form:
[first_function(argument="text", number=2), second_function(flag=True)]
You are then told their results, and may call again. When a request is done, say so without a call.
The functions:
"""
RESULT_LETTERS = 2000


class Refused(Exception):
    """What cannot run; the model reads why."""


def calls_of(text):
    """[(name, positional, named)] of the calls in an answer; [] if it has none."""
    found = []
    for tagged in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL):
        try:
            call = json.loads(tagged)
            found.append((str(call["name"]), [], dict(call.get("arguments") or {})))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    if found:
        return found
    code = re.sub(r"```\w*", "", text).strip()
    begin, end = code.find("["), code.rfind("]")
    for part in ([code[begin:end + 1]] if 0 <= begin < end else []) + [code]:
        try:
            tree = ast.parse(part, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
        if nodes and all(isinstance(n, ast.Call) and isinstance(n.func, (ast.Name, ast.Attribute)) for n in nodes):
            return [call_of(n) for n in nodes]
    return []


def call_of(node):
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    try:
        return name, [ast.literal_eval(a) for a in node.args], {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return name, None, {}


class World:
    """The back ends of a case, in the state that it begins with."""

    def __init__(self, case):
        self.instances = []
        for name in case["involved_classes"]:
            instance = getattr(importlib.import_module(PLACE + BACK_ENDS[name]), name)()
            if hasattr(instance, "_load_scenario"):
                instance._load_scenario(copy.deepcopy(case["initial_config"].get(name, {})), long_context="long_context" in case["id"])
            self.instances.append(instance)

    def run(self, call):
        """The call's result as text; of one that fails, why."""
        name, positional, named = call
        try:
            method = next((getattr(i, name) for i in self.instances if not name.startswith("_") and callable(getattr(type(i), name, None))), None)
            if method is None:
                raise Refused(f"there is no function {name}")
            if positional is None:
                raise Refused(f"{name}: arguments are literals")
            result = method(*copy.deepcopy(positional), **copy.deepcopy(named))
        except Exception as error:  # of back ends, too: their tests of arguments are few
            return f"Error: {error}"
        try:
            return result if isinstance(result, str) else json.dumps(result)
        except (TypeError, ValueError):
            return str(result)

    def state(self):
        return [{k: v for k, v in vars(i).items() if not k.startswith("_")} for i in self.instances]


def ends_like(world, other):
    try:
        return bool(world.state() == other.state())
    except RecursionError:
        return False


def after_truth(case, truth):
    world = World(case)
    for turn in truth:
        for text in turn:
            for call in calls_of(f"[{text}]"):
                world.run(call)
    return world


def described(docs, excluded):
    """A line for each function."""
    lines = []
    for doc in docs:
        if doc["name"] in excluded:
            continue
        properties, required = doc["parameters"]["properties"], doc["parameters"].get("required", [])
        arguments = ", ".join(f"{name}: {p['type']}{'' if name in required else ' (optional)'}" for name, p in properties.items())
        lines.append(f"{doc['name']}({arguments}): {doc['description'].split('Tool description: ')[-1]}")
        lines += [f"  {name}: {p['description']}" for name, p in properties.items() if p.get("description")]
    return "\n".join(lines)


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def tell(**what):
    """Writes a line to kvrt eval, and gives the line that it answers with."""
    print(json.dumps(what), flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit("kvrt eval is gone")
    return json.loads(line)


def score(case, truth, docs, args):
    world = World(case)
    functions = [doc for name in case["involved_classes"] for doc in docs[name]]
    held_back = {int(turn): set(names) for turn, names in case.get("missed_function", {}).items()}
    excluded = set(case.get("excluded_function", [])).union(*held_back.values())
    messages = [{"role": "system", "content": INSTRUCTIONS + described(functions, excluded)}]
    for turn, said in enumerate(case["question"]):
        if turn in held_back:
            added = described([f for f in functions if f["name"] in held_back[turn]], set())
            messages.append({"role": "user", "content": "There are more functions now:\n" + added})
        messages += said
        for _ in range(args.steps):
            if sum(len(m["content"]) for m in messages) > args.letters:
                return 0  # no more room: the case is not done
            answer = tell(messages=messages, tokens_max=args.answer)["answer"]
            messages.append({"role": "assistant", "content": answer})
            calls = calls_of(answer)
            if not calls:
                break
            results = "\n".join(world.run(call)[:RESULT_LETTERS] for call in calls)
            messages.append({"role": "user", "content": "Results:\n" + results})
    return int(ends_like(world, after_truth(case, truth)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the one that has bfcl_eval: an unpacked wheel, or a site-packages")
    parser.add_argument("--category", default="multi_turn_base", help="multi_turn_base, _miss_func, _miss_param, _long_context")
    parser.add_argument("--cases", type=int, default=20, help="so many, evenly from the whole category")
    parser.add_argument("--steps", type=int, default=6, help="answers to a request at most")
    parser.add_argument("--answer", type=int, default=128, help="tokens of an answer at most")
    parser.add_argument("--letters", type=int, default=24000, help="a conversation that is longer counts as failed")
    args = parser.parse_args()
    data = args.folder / "bfcl_eval" / "data"
    file = f"BFCL_v4_{args.category}.json"
    if not (data / file).is_file():
        sys.exit(f"{data / file} is not there: unpack PyPI's bfcl-eval into {args.folder}")
    sys.path.insert(0, str(args.folder))
    docs = {name: lines_of(data / "multi_turn_func_doc" / (module + ".json")) for name, module in BACK_ENDS.items()
            if (data / "multi_turn_func_doc" / (module + ".json")).is_file()}
    truths = {line["id"]: line["ground_truth"] for line in lines_of(data / "possible_answer" / file)}
    cases = [case for case in lines_of(data / file) if not ends_like(World(case), after_truth(case, truths[case["id"]]))]
    if not cases or args.cases < 1:
        sys.exit(f"{file} has {len(cases)} cases that change something, --cases is {args.cases}")
    for i in range(min(args.cases, len(cases))):
        case = cases[i * len(cases) // min(args.cases, len(cases))]
        tell(score=score(case, truths[case["id"]], docs, args))


if __name__ == "__main__":
    main()
