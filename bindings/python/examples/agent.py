#!/usr/bin/env python3
"""An agent that works at a task with tools, and may be killed at any time: kill -9 in the middle of an answer too. The same command goes on.

    agent.py MODEL.gguf FOLDER "TASK" [TOKENS-PER-ANSWER]

FOLDER/memory is its memory, FOLDER/notes what it writes, FOLDER/answer.txt its last answer. What is done next follows from the conversation alone,
which is saved as it grows: an answer that was cut goes on where it was, and a call whose result is saved is not run again. A call whose result was
not saved yet is: so a tool here does the same when it is run twice. Where no answer comes it says why, writes no answer.txt, and exits with 1.
"""
import json
import os
import pathlib
import re
import sys
from typing import Any, Callable, Dict, List, Union

import kvrt

NAME = "agent"
TURNS = 12  # answers at most
FORMAT = "Answer with <tool_call>{\"name\": \"write_note\", \"arguments\": {\"name\": \"plan\", \"text\": \"...\"}}</tool_call> to use a tool."
Tools = Dict[str, Callable[..., str]]
Call = Union[str, Dict[str, Any]]  # text: as the model wrote it, which nobody has read yet


class Stopped(Exception):
    """There is no answer; the text says why."""


def write_whole(path: pathlib.Path, text: str) -> None:
    """The file is there with all of its text, or as it was before."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def tools_of(folder: pathlib.Path) -> Tools:
    def note(name: str) -> pathlib.Path:
        if name not in WHICH["enum"]:  # not every model is held to the schema, and "../x" is a name, too
            raise ValueError(f"{name!r} is none of {WHICH['enum']}")
        return folder / f"{name}.txt"

    def write_note(name: str, text: str) -> str:
        write_whole(note(name), text)
        return f"{len(text)} characters"

    def read_note(name: str) -> str:
        return note(name).read_text(encoding="utf-8") if note(name).exists() else "it is empty"

    return {"write_note": write_note, "read_note": read_note}


def described(function: str, about: str, **parameters: Any) -> Dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": list(parameters), "additionalProperties": False}
    return {"type": "function", "function": {"name": function, "description": about, "parameters": schema}}


WHICH = {"enum": ["plan", "facts", "open questions"]}
TOOLS = [described("write_note", "Replaces a note", name=WHICH, text={"type": "string", "maxLength": 80}),
         described("read_note", "Reads a note", name=WHICH)]


def said(message: Dict[str, Any]) -> str:
    """The text of a message, without the reasoning that some templates leave in it."""
    return str(message.get("content") or "").rpartition("</think>")[2]


def calls_of(answer: Dict[str, Any]) -> List[Call]:
    """The calls of an answer: from its fields, or from its text where the model's template has no calls."""
    if answer.get("tool_calls"):
        return [{"id": call.get("id"), **call.get("function", call)} for call in answer["tool_calls"]]
    return [*re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", said(answer), re.S)]


def run_tool(tools: Tools, call: Call) -> Dict[str, Any]:
    """Runs a call, and gives the message of its result. The model reads what was wrong with it."""
    name, message = "?", {"role": "tool"}
    try:
        read: Dict[str, Any] = json.loads(call) if isinstance(call, str) else call
        if read.get("id"):  # some templates refuse a result without it
            message["tool_call_id"] = read["id"]
        name, arguments = read["name"], read["arguments"]
        message["content"] = tools[name](**(json.loads(arguments) if isinstance(arguments, str) else arguments))
    except Exception as error:
        message["content"] = f"{type(error).__name__}: {error}"
    print(f"[{name}: {message['content']}]")
    return message


def way_of_calls(model: kvrt.Model) -> kvrt.Reply:
    """AUTO: the chat template shows how the model calls tools. Else that of HERMES, of which FORMAT has to tell the model."""
    with model.open_session(tools=TOOLS) as session:
        session.set_messages([{"role": "user", "content": "Hello"}])
        try:
            session.generate(tool_choice=kvrt.ToolChoice.REQUIRED, reply=kvrt.Reply.AUTO).close()  # closed before it computes anything
        except kvrt.Unsupported:
            return kvrt.Reply.HERMES
        return kvrt.Reply.AUTO


def answer(chat: kvrt.Session, reply: kvrt.Reply, tokens: int, first: bool) -> None:
    """Computes the answer that is due, or what is missing of one that was cut. The first has to be a call."""
    last = chat.message(chat.info().messages - 1)
    if last.generated:
        generation = chat.generate(max_tokens=tokens - (last.end - last.begin), continue_grammar=True, reply=reply)
    else:
        choice = kvrt.ToolChoice.REQUIRED if first else kvrt.ToolChoice.AUTO
        generation = chat.generate(max_tokens=tokens, tool_choice=choice, parallel_calls_max=1, reasoning_tokens_max=max(1, tokens // 2), reply=reply)
    with generation:
        for event in generation:
            print(event.text if event.type in (kvrt.EventType.TOKEN, kvrt.EventType.DONE) else "", end="", flush=True)
    print()
    if generation.report.reason is kvrt.Reason.CONTEXT_FULL:  # to go on would give no token, and that for ever
        raise Stopped("the context is full, and the answer has no end")


def work(chat: kvrt.Session, reply: kvrt.Reply, tools: Tools, tokens: int) -> str:
    """Goes on until an answer that the model has ended calls no tool, and gives its text."""
    while True:
        messages = chat.messages()
        last = messages[-1]
        answers = [n for n, message in enumerate(messages) if message.content["role"] == "assistant"]
        cut = last.generated and not last.ended
        calls = calls_of(messages[answers[-1]].content) if answers else []
        results = len(messages) - 1 - answers[-1] if answers else 0
        if cut or not answers or calls and results == len(calls):
            if cut and last.end - last.begin >= tokens:
                raise Stopped(f"the answer has no end within {tokens} tokens; with more it goes on")
            if not cut and len(answers) >= TURNS:
                raise Stopped(f"{TURNS} answers, and all of them call tools")
            answer(chat, reply, tokens, first=not answers)
        elif results < len(calls):
            chat.append_message(run_tool(tools, calls[results]))
        else:
            return said(last.content)
        chat.checkpoint(NAME)


def main(model_path: str, folder: pathlib.Path, task: str, tokens: int) -> None:
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    with kvrt.Runtime() as runtime, runtime.open_model(model_path) as model, runtime.open_store(folder / "memory") as store:
        reply = way_of_calls(model)
        asked = task if reply is kvrt.Reply.AUTO else f"{FORMAT}\n\n{task}"  # by the user: some templates have no system message
        with model.resume_or_open(store, NAME, tools=TOOLS, autosave=kvrt.Autosave(tokens=16, name=NAME)) as chat:
            if chat.info().messages == 0:
                chat.append_message(asked)
                chat.checkpoint(NAME)
            elif chat.message(0).content["content"] != asked:
                raise Stopped(f"{folder} is at another task: {chat.message(0).content['content']}")
            else:
                print(f"[goes on after {chat.info().tokens} tokens]", file=sys.stderr)
            write_whole(folder / "answer.txt", work(chat, reply, tools_of(folder / "notes"), tokens))


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    try:
        main(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) == 5 else 256)
    except (Stopped, kvrt.Error) as error:
        sys.exit(f"agent: {error}")
