#!/usr/bin/env python3
"""samples/bfcl_axis.py on a small package of bfcl-eval's layout: an oracle scores 1, who does nothing 0, and only public methods run.

  eval_bfcl.py SCRIPT [KVRT TINY]     with KVRT: also as an axis of kvrt eval, of a tiny model, which does nothing right
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BACK_END = '''
class TicketAPI:
    def __init__(self):
        self.tickets, self._calls = {}, 0

    def _load_scenario(self, scenario, long_context=False):
        self.tickets = scenario["tickets"]

    def create_ticket(self, title, priority=1):
        self._calls += 1
        if not isinstance(title, str):
            raise ValueError("title is no text")
        self.tickets[str(len(self.tickets))] = {"title": title, "priority": priority}
        return {"id": len(self.tickets) - 1}

    def close_ticket(self, number):
        del self.tickets[str(number)]
        return "closed"
'''
DOC = [{"name": name, "description": f"This tool belongs to the tickets. Tool description: {name}.",
        "parameters": {"type": "dict", "properties": {key: {"type": kind, "description": key}}, "required": [key]}}
       for name, key, kind in (("create_ticket", "title", "string"), ("close_ticket", "number", "integer"))]


def case(i, turns, **more):
    return {"id": f"multi_turn_base_{i}", "question": [[{"role": "user", "content": text}] if text else [] for text in turns],
            "initial_config": {"TicketAPI": {"tickets": {"0": {"title": "old", "priority": 1}}}}, "involved_classes": ["TicketAPI"], **more}


CASES = [(case(0, ["Open a ticket 'a'.", "Close it."]), [["create_ticket(title='a')"], ["close_ticket(1)"]]),  # changes nothing in the end
         (case(1, ["Open a ticket 'b'.", "Close the old one."]), [["create_ticket(title='b', priority=2)"], ["close_ticket(number=0)"]]),
         (case(2, ["Open a ticket 'c'.", ""], missed_function={"1": ["create_ticket"]}), [[], ["create_ticket('c')"]])]


def make_package(folder):
    place = folder / "bfcl_eval" / "eval_checker" / "multi_turn_eval" / "func_source_code"
    data = folder / "bfcl_eval" / "data"
    for path in place, data / "possible_answer", data / "multi_turn_func_doc":
        path.mkdir(parents=True)
    (place / "ticket_api.py").write_text(BACK_END)
    lines = lambda objects: "".join(json.dumps(o) + "\n" for o in objects)
    (data / "multi_turn_func_doc" / "ticket_api.json").write_text(lines(DOC))
    (data / "BFCL_v4_multi_turn_base.json").write_text(lines(c for c, _ in CASES))
    (data / "possible_answer" / "BFCL_v4_multi_turn_base.json").write_text(lines({"id": c["id"], "ground_truth": t} for c, t in CASES))


def scores(script, folder, model, *options):
    """Those of a model: a function from messages to an answer. And the messages that it was given."""
    process = subprocess.Popen([sys.executable, script, str(folder), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out, seen = [], []
    for line in process.stdout:
        said = json.loads(line)
        if "score" in said:
            out.append(said["score"])
            answer = {}
        else:
            seen.append(said["messages"])
            answer = {"answer": model(said["messages"])}
        process.stdin.write(json.dumps(answer) + "\n")
        process.stdin.flush()
    assert process.wait() == 0
    return out, seen


def oracle(messages):
    """The calls of the newest request, once."""
    request = messages[-1]["content"]
    answers = {"Open a ticket 'b'.": "[create_ticket(title='b', priority=2)]", "Close the old one.": "```python\nclose_ticket(number=0)\n```"}
    if request.startswith("There are more functions now:"):
        return "Sure: [create_ticket('c')]"
    return answers.get(request, "Done.")


def checks(script, folder):
    assert scores(script, folder, oracle)[0] == [1, 1]  # the case whose calls change nothing is left out
    for nothing in "Done.", "", "[", "[1, 2]", "[create_ticket]", "x = create_ticket('b')":
        assert scores(script, folder, lambda messages, text=nothing: text)[0] == [0, 0], nothing
    assert scores(script, folder, oracle, "--cases", "1")[0] == [1]
    tagged = '<tool_call>\n{"name": "create_ticket", "arguments": {"title": "c"}}\n</tool_call>'
    assert scores(script, folder, lambda m: tagged if "now:" in m[-1]["content"] else "Done.")[0] == [0, 1]
    # A function that is held back is not told of before its turn; a model that calls for ever is stopped; results and errors come back.
    found, seen = scores(script, folder, lambda m: "[create_ticket(1), nothing(), close_ticket(7, 8, 9)]", "--steps", "3")
    assert found == [0, 0] and len(seen) == 2 * 2 * 3
    last = seen[2][-1]["content"]
    assert last.startswith("Results:\nError: title is no text\nError: there is no function nothing\nError: "), last
    held = [m[0]["content"] for m in seen if m[1]["content"] == "Open a ticket 'c'."]
    assert held and all("close_ticket(number: integer)" in text and "create_ticket" not in text for text in held), held
    assert scores(script, folder, oracle, "--letters", "10")[0] == [0, 0]
    assert subprocess.run([sys.executable, script, str(folder), "--category", "none"], capture_output=True).returncode == 1

    spec = importlib.util.spec_from_file_location("bfcl_axis", script)
    axis = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(axis)
    sys.path.insert(0, str(folder))
    world = axis.World(CASES[1][0])
    before = json.dumps(world.state())
    for text in ("[_load_scenario({'tickets': {}})]", "[__init__()]", "[create_ticket(title=open('x').read())]", "[exec('1')]", "[tickets()]",
                 "[close_ticket(number=__import__('os').getpid())]", "[create_ticket(*[1])]", "[create_ticket(**{'title': 'x'})]", "[_calls()]"):
        for call in axis.calls_of(text):
            assert world.run(call).startswith("Error: "), text
        assert json.dumps(world.state()) == before, text
    for text in "[" * 5000, "f(" * 3000 + ")" * 3000, "<tool_call>[1]</tool_call>", "<tool_call>{}</tool_call>", "\0", "[f(x=1e999), g(-2)]":
        axis.calls_of(text)


def as_axis(script, folder, kvrt, tiny):
    import struct
    model = bytearray(pathlib.Path(tiny, "llama_gqa_f32.gguf").read_bytes())
    key = b"llama.context_length" + struct.pack("<I", 4)
    struct.pack_into("<I", model, model.index(key) + len(key), 1 << 16)
    pathlib.Path("model.gguf").write_bytes(model)
    done = subprocess.run([kvrt, "eval", "-m", "model.gguf", "--no-weight-cache", "--tokens", "128", "--answer", "16", "--kv-bytes", "64M",
                           "--axes", "counting", "--candidates", "f16", "--json", "-o", "eval", "--program",
                           f"bfcl='{sys.executable}' '{script}' '{folder}' --answer 8 --steps 2"],
                          env={**os.environ, "XDG_CONFIG_HOME": "/nowhere", "KVRT_CACHE": ""}, capture_output=True, text=True, check=True)
    for configuration in json.loads(done.stdout.splitlines()[-1])["result"]["configurations"]:
        (axis,) = [a for a in configuration["axes"] if a["name"] == "bfcl"]
        assert (axis["score"]["n"], axis["score"]["mean"], axis["agreement"]["mean"]) == (2, 0, 1), axis


def main():
    script = str(pathlib.Path(sys.argv[1]).resolve())
    more = [str(pathlib.Path(p).resolve()) for p in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        folder = pathlib.Path(name, "package")
        make_package(folder)
        checks(script, folder)
        if more:
            as_axis(script, folder, *more)


if __name__ == "__main__":
    main()
