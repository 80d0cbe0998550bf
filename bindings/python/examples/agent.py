#!/usr/bin/env python3
"""An agent that works at a task with tools, and may be killed at any time: kill -9 in the middle of an answer too. The same command goes on.

    agent.py MODEL.gguf FOLDER "TASK" [TOKENS-PER-ANSWER]

FOLDER/memory is its memory, FOLDER/notes what it writes, FOLDER/answer.txt its last answer. What is done next follows from the conversation alone,
which is saved as it grows: an answer that was cut goes on where it was, and a call whose result is saved is not run again. A call whose result was
not saved yet is: so a tool here does the same when it is run twice.
"""
import json
import os
import pathlib
import re
import sys
from typing import Any, Callable, Dict, List

import kvrt

NAME = "agent"
TURNS = 12  # answers at most
FORMAT = "Answer with <tool_call>{\"name\": \"write_note\", \"arguments\": {\"name\": \"plan\", \"text\": \"...\"}}</tool_call> to use a tool."
Tools = Dict[str, Callable[..., str]]


def write_whole(path: pathlib.Path, text: str) -> None:
    """The file is there with all of its text, or as it was before."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def tools_of(folder: pathlib.Path) -> Tools:
    def write_note(name: str, text: str) -> str:
        write_whole(folder / f"{name}.txt", text)
        return f"{len(text)} characters"

    def read_note(name: str) -> str:
        note = folder / f"{name}.txt"
        return note.read_text(encoding="utf-8") if note.exists() else "it is empty"

    return {"write_note": write_note, "read_note": read_note}


def described(function: str, about: str, **parameters: Any) -> Dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": list(parameters), "additionalProperties": False}
    return {"type": "function", "function": {"name": function, "description": about, "parameters": schema}}


WHICH = {"enum": ["plan", "facts", "open questions"]}
TOOLS = [described("write_note", "Replaces a note", name=WHICH, text={"type": "string", "maxLength": 80}),
         described("read_note", "Reads a note", name=WHICH)]


def calls_of(answer: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The calls of an answer: from its fields, or from its text where the model's template has no calls."""
    if answer.get("tool_calls"):
        return [call.get("function", call) for call in answer["tool_calls"]]
    return [json.loads(text) for text in re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", str(answer.get("content", "")), re.S)]


def run_tool(tools: Tools, call: Dict[str, Any]) -> str:
    arguments = call["arguments"]
    try:
        return tools[call["name"]](**(json.loads(arguments) if isinstance(arguments, str) else arguments))
    except Exception as error:  # the model reads what was wrong
        return f"{type(error).__name__}: {error}"


def answer(chat: kvrt.Session, tokens: int, first: bool) -> None:
    """Computes the answer that is due, or what is missing of one that was cut. The first has to be a call."""
    last = chat.message(chat.info().messages - 1)
    if last.generated:
        generation = chat.generate(max_tokens=tokens - (last.end - last.begin), continue_grammar=True)
    else:
        choice = kvrt.ToolChoice.REQUIRED if first else kvrt.ToolChoice.AUTO
        generation = chat.generate(max_tokens=tokens, tool_choice=choice, parallel_calls_max=1, reply=kvrt.Reply.HERMES)
    with generation:
        for event in generation:
            print(event.text if event.type in (kvrt.EventType.TOKEN, kvrt.EventType.DONE) else "", end="", flush=True)
    print()


def work(chat: kvrt.Session, tools: Tools, tokens: int) -> str:
    """Goes on until an answer calls no tool, and gives its text."""
    while True:
        messages = chat.messages()
        last = messages[-1]
        answers = [n for n, message in enumerate(messages) if message.content["role"] == "assistant"]
        cut = last.generated and last.end - last.begin < tokens and not last.ended
        calls = calls_of(messages[answers[-1]].content) if answers else []
        results = len(messages) - 1 - answers[-1] if answers else 0
        if cut or not answers or calls and results == len(calls):
            if not cut and len(answers) == TURNS:
                return ""
            answer(chat, tokens, first=not answers)
        elif results < len(calls):
            result = run_tool(tools, calls[results])
            print(f"[{calls[results]['name']}: {result}]")
            chat.append_message(result, role="tool")
        else:
            return str(last.content.get("content", ""))
        chat.checkpoint(NAME)


def main(model_path: str, folder: pathlib.Path, task: str, tokens: int) -> None:
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    with kvrt.Runtime() as runtime, runtime.open_model(model_path) as model, runtime.open_store(folder / "memory") as store:
        autosave = kvrt.Autosave(tokens=16, name=NAME)
        with model.resume_or_open(store, NAME, tools=TOOLS, autosave=autosave) as chat:
            if chat.info().messages < 2:  # in one call: a save between two would have no task
                chat.set_messages([{"role": "system", "content": f"You work with tools. {FORMAT}"}, {"role": "user", "content": task}])
                chat.checkpoint(NAME)
            else:
                print(f"[goes on after {chat.info().tokens} tokens]", file=sys.stderr)
            write_whole(folder / "answer.txt", work(chat, tools_of(folder / "notes"), tokens))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) == 5 else 256)
