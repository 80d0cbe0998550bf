#!/usr/bin/env python3
"""A chat room on asyncio: every line "NAME: TEXT" of standard input goes to NAME's own conversation. All answers are computed together, none
blocks the event loop, and each conversation goes on in the next run.

    chat_asyncio.py MODEL.gguf STORE-DIRECTORY [TOKENS-PER-ANSWER]
"""
import asyncio
import sys

import kvrt


class Room:
    def __init__(self, model: kvrt.Model, store: kvrt.Store, max_tokens: int) -> None:
        self.model, self.store, self.max_tokens = model, store, max_tokens
        self.sessions: "dict[str, kvrt.Session]" = {}
        self.turns: "dict[str, asyncio.Lock]" = {}

    def session(self, name: str) -> kvrt.Session:
        if name not in self.sessions:
            try:
                self.sessions[name] = self.model.resume(self.store, name)
                print(f"[{name} goes on: {self.sessions[name].info().tokens} tokens]", file=sys.stderr)
            except kvrt.NotFound:
                self.sessions[name] = self.model.open_session(store=self.store)
        return self.sessions[name]

    async def answer(self, name: str, text: str) -> None:
        async with self.turns.setdefault(name, asyncio.Lock()):  # one turn at a time in a conversation
            session = self.session(name)
            session.append_message(text)
            generation = session.agenerate(max_tokens=self.max_tokens, temperature=0.7, top_p=0.9, seed=1)
            answer = [event.text async for event in generation]
            print(f"{name}: {''.join(answer)}", flush=True)
            report = generation.report
            print(f"[{name}: {report.prompt_tokens} prompt tokens, {report.prefilled} computed, first after {report.ttft_ms:.0f} ms]", file=sys.stderr)

    def close(self) -> None:
        for name, session in self.sessions.items():
            session.suspend(name)
            session.close()


async def main(model_path: str, directory: str, max_tokens: int) -> None:
    with kvrt.Runtime() as runtime, runtime.open_model(model_path) as model, runtime.open_store(directory) as store:
        room = Room(model, store, max_tokens)
        answers = []
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, colon, text = line.strip().partition(":")
            if colon and name and text.strip():
                answers.append(asyncio.create_task(room.answer(name.strip(), text.strip())))
        await asyncio.gather(*answers)
        room.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 48))
