#!/usr/bin/env python3
"""A chat room on asyncio: every line "NAME: TEXT" of standard input goes to NAME's own conversation. All answers are computed together, none
blocks the event loop, and each conversation goes on in the next run, whatever ended this one.

    chat_asyncio.py MODEL.gguf STORE-DIRECTORY [TOKENS-PER-ANSWER]
"""
import asyncio
import sys
import threading
from typing import Optional

import kvrt


class Room:
    def __init__(self, model: kvrt.Model, store: kvrt.Store, max_tokens: int) -> None:
        self.model, self.store, self.max_tokens = model, store, max_tokens
        self.sessions: "dict[str, kvrt.Session]" = {}
        self.turns: "dict[str, asyncio.Lock]" = {}

    async def session(self, name: str) -> kvrt.Session:
        """NAME's session, which saves each of its turns. To open one reads files: a thread does that."""
        if name not in self.sessions:
            session = await asyncio.to_thread(self.model.resume_or_open, self.store, name, autosave=kvrt.Autosave(turn=True))
            self.sessions[name] = session
            if session.resumed:
                print(f"[{name} goes on: {session.info().tokens} tokens]", file=sys.stderr)
        return self.sessions[name]

    async def answer(self, name: str, text: str) -> None:
        async with self.turns.setdefault(name, asyncio.Lock()):  # one turn at a time in a conversation
            try:
                await self.turn(name, text)
            except kvrt.Error as error:  # this turn's alone: the others go on
                print(f"[{name}: {error}]", file=sys.stderr)

    async def turn(self, name: str, text: str) -> None:
        session = await self.session(name)
        session.append_message(text)
        generation = session.agenerate(max_tokens=self.max_tokens, temperature=0.7, top_p=0.9, seed=1)
        answer = [event.text async for event in generation]
        print(f"{name}: {''.join(answer)}", flush=True)
        report = generation.report
        print(f"[{name}: {report.prompt_tokens} prompt tokens, {report.prefilled} computed, first after {report.ttft_ms:.0f} ms, {report.reason.name}]",
              file=sys.stderr)

    def close(self) -> None:
        for name, session in self.sessions.items():
            try:
                session.suspend(name)  # close saves, too, but does not say why it could not
            except kvrt.Error as error:
                print(f"[{name} is not saved: {error}]", file=sys.stderr)
            finally:
                session.close()


def read_lines(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[Optional[str]]") -> None:
    """Puts the lines of standard input into the queue, and None at its end. Not by sys.stdin: Python cannot end while a thread waits in that."""
    try:
        with open(0, "rb", buffering=0, closefd=False) as file:
            for line in file:
                loop.call_soon_threadsafe(lines.put_nowait, line.decode("utf-8", "replace"))
    finally:
        loop.call_soon_threadsafe(lines.put_nowait, None)


async def main(model_path: str, directory: str, max_tokens: int) -> None:
    with kvrt.Runtime() as runtime, runtime.open_model(model_path) as model, runtime.open_store(directory) as store:
        room = Room(model, store, max_tokens)
        lines: "asyncio.Queue[Optional[str]]" = asyncio.Queue()
        # A daemon: Ctrl-C waits for it no more than for the next line.
        threading.Thread(target=read_lines, args=(asyncio.get_running_loop(), lines), daemon=True).start()
        answers = []
        try:
            while (line := await lines.get()) is not None:
                name, colon, text = line.strip().partition(":")
                if colon and name and text.strip():
                    answers.append(asyncio.create_task(room.answer(name.strip(), text.strip())))
            await asyncio.gather(*answers)
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
            room.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 48))
    except KeyboardInterrupt:
        sys.exit(130)
