#!/usr/bin/env python3
"""crowd.py SECONDS [CLIENTS]: clients talk at once, streamed and not, while the server is killed (SIGKILL) and started again. A client whose
request fails sends it again. No answer is another client's, and every conversation goes on: the server is killed when all have had an answer since it started.

An answer has to name its client and turn, by a schema. The first answer of each conversation is free, and greedy: its bits are those that the
server gave alone, before."""
import collections
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

import openai

from support import PLAIN, Server, message

TURNS = 5  # of a conversation
SECONDS, CLIENTS = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 32


class Client(threading.Thread):
    def __init__(self, number, server, alone, enough):
        super().__init__(daemon=True)
        self.number, self.server, self.alone, self.enough = number, server, alone, enough
        self.turns, self.retries, self.cached, self.prompt, self.fault = 0, 0, 0, 0, None
        self.last_answer = 0.0

    def opening(self, conversation):
        return f"I am client {self.number}, and this is conversation {conversation} of mine."

    def run(self):
        try:
            conversation = 0
            while not self.enough.is_set():
                self.talk(conversation % len(self.alone))
                conversation += 1
        except Exception as fault:  # the main thread tells it
            self.fault = fault

    def talk(self, conversation):
        said = [{"role": "user", "content": self.opening(conversation)}]
        for turn in range(TURNS):
            if turn == 0:
                text, answer = self.ask(said, {"max_tokens": 24, "temperature": 0})
                assert text == self.alone[conversation], f"client {self.number}, conversation {conversation}: {text!r}, alone {self.alone[conversation]!r}"
            else:
                wanted = {"client": self.number, "conversation": conversation, "turn": turn}
                schema = {"type": "object", "properties": {k: {"const": v} for k, v in wanted.items()} | {"note": {"type": "string", "maxLength": 8}},
                          "required": [*wanted, "note"], "additionalProperties": False}
                text, answer = self.ask(said, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
                                               "max_tokens": 200, "temperature": 1})
                got = json.loads(text)
                assert {k: got[k] for k in wanted} == wanted, f"client {self.number}: asked for {wanted}, got {got}"
            self.turns += 1
            self.last_answer = time.time()
            if self.enough.is_set():
                return
            said += [answer, {"role": "user", "content": f"Client {self.number} goes on, turn {turn + 1}."}]

    def ask(self, said, options):
        """The answer, streamed or not, however often the server goes away meanwhile."""
        deadline = time.time() + 60
        client = self.server.client()
        while True:
            try:
                stream = random.random() < 0.5
                answer = client.chat.completions.create(model=PLAIN.stem, messages=said, stream=stream,
                                                        **(options | ({"stream_options": {"include_usage": True}} if stream else {})))
                if not stream:
                    text, usage, whole = answer.choices[0].message.content, answer.usage, message(answer)
                else:
                    text, usage, reason = "", None, None
                    for chunk in answer:
                        usage = chunk.usage or usage
                        for c in chunk.choices:
                            text += c.delta.content or ""
                            reason = c.finish_reason or reason
                    assert reason and usage, "a stream that ended without a reason"
                    whole = {"role": "assistant", "content": text}
                if len(said) > 1:
                    self.cached += usage.prompt_tokens_details.cached_tokens
                    self.prompt += usage.prompt_tokens
                return text, whole
            except (openai.APIConnectionError, openai.InternalServerError):
                self.retries += 1
                assert time.time() < deadline, f"client {self.number}: no answer for 60 s"
                time.sleep(0.05)


def answered(clients):
    """Waits until each client has had an answer since now; one that has ended tells why itself."""
    now = time.time()
    while any(c.last_answer < now and c.is_alive() for c in clients):
        assert time.time() < now + 60, "a client had no answer for 60 s"
        time.sleep(0.05)


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(PLAIN, store=pathlib.Path(folder, "store"))
        quiet, alone = server.client(), collections.defaultdict(list)
        enough = threading.Event()
        clients = [Client(i, server, alone[i], enough) for i in range(CLIENTS)]
        for c in clients:
            for conversation in range(3):
                answer = quiet.chat.completions.create(model=PLAIN.stem, messages=[{"role": "user", "content": c.opening(conversation)}],
                                                       max_tokens=24, temperature=0)
                alone[c.number].append(answer.choices[0].message.content)
        assert len({text for texts in alone.values() for text in texts}) > CLIENTS, "the answers are too much alike"
        begun = time.time()
        for c in clients:
            c.start()
        kills = 0
        while kills == 0 or time.time() < begun + SECONDS:
            time.sleep(random.uniform(1, 3))
            answered(clients)
            server.kill()
            server.start()
            kills += 1
        answered(clients)
        enough.set()  # each ends with an answer, also after the last restart
        for c in clients:
            c.join(120)
            if c.fault or c.is_alive():
                server.kill()
                sys.exit(f"client {c.number}: {c.fault or 'it does not end'}")
        code, err = server.stop()
        said = [line for line in err.splitlines() if "blocks of KV are not on disk" not in line]
        assert (code, said) == (0, ["kvrt-server: stopping"]), err
        turns, cached, prompt = (sum(getattr(c, name) for c in clients) for name in ("turns", "cached", "prompt"))
        assert cached > prompt / 2, f"{cached} of {prompt} prompt tokens were kept"
        print(f"{CLIENTS} clients, {turns} turns in {time.time() - begun:.0f} s, {kills} kills, {sum(c.retries for c in clients)} requests sent again, "
              f"{cached / prompt:.0%} of later turns' prompts kept")


if __name__ == "__main__":
    main()
