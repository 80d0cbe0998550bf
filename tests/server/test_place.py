"""A store that is removed or replaced while the server runs: it says so, opens the one that is there, and loses no turn without a word."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import openai

from support import PLAIN, Server, message

LONG = "Tell me of the harbour, its boats and their owners, the colours and the day on which each of them came. " * 2


class Place(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kvrt-server-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.store = self.dir / "store"
        self.server = Server(PLAIN, store=self.store)
        self.addCleanup(lambda: self.server.kill())

    def health(self):
        status, _, data = self.server.raw("GET", "/health")
        self.assertEqual(status, 200)
        return json.loads(data)

    def say(self, said, text):
        """One turn more."""
        said.append({"role": "user", "content": text})
        answer = self.server.client().chat.completions.create(model=PLAIN.stem, messages=said, max_tokens=8, temperature=0)
        said.append(message(answer))
        return answer

    def saved(self, folder=None):
        """The sessions that another program finds there: the tokens of each."""
        command = [os.environ["KVRT_CLI"], "store", "ls", str(folder or self.store), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {row["name"]: row["tokens"] for row in map(json.loads, done.stdout.splitlines())}

    def eventually(self, true, what):
        for _ in range(600):
            if true():
                return
            self.health()
            time.sleep(0.05)
        self.fail(what)

    def another(self, name="another"):
        """A store of another server, with a conversation of its own."""
        server = Server(PLAIN, store=self.dir / name)
        server.client().chat.completions.create(model=PLAIN.stem, messages=[{"role": "user", "content": LONG + name}], max_tokens=4)
        self.assertEqual(server.stop()[0], 0)
        return self.dir / name

    def test_removed(self):
        said = []
        self.say(said, LONG)
        self.assertEqual((self.health()["status"], self.health()["store"]), ("ok", "open"))
        shutil.rmtree(self.store)
        found = self.health()
        self.assertEqual((found["status"], found["store"]), ("degraded", "lost"))
        self.assertIn("removed or replaced", found["message"])
        # It goes on without, makes none, and says what is not saved.
        answer = self.say(said, "And then?")
        self.assertGreater(answer.usage.prompt_tokens_details.cached_tokens, 150)
        self.say([], "Another conversation, which begins without a store")
        self.assertFalse(self.store.exists())
        _, err = self.server.stop()
        self.assertIn("was removed or replaced: conversations are in memory alone", err)
        self.assertEqual(err.count("is not saved: "), 2, err)

    def test_replaced(self):
        first, second, third = [], [], []
        self.say(first, LONG + "1")
        self.say(second, LONG + "2")
        other = self.another()
        before = self.saved(other)
        shutil.move(self.store, self.dir / "old")
        old = self.saved(self.dir / "old")
        self.assertEqual(self.health()["store"], "lost")
        self.say(first, "While there is none")
        self.say(third, LONG + "3")
        shutil.move(other, self.store)
        self.eventually(lambda: self.health()["store"] == "open", "the store that is there is not opened")
        # All that is in memory is saved there, without a request.
        self.eventually(lambda: len(self.saved()) == len(before) + 3, f"{self.saved()}")
        self.assertTrue(set(before) < set(self.saved()))
        self.assertEqual(self.saved(self.dir / "old"), old)  # what was moved stays as it was
        self.say(second, "And then?")
        self.server.kill()
        self.server.start()
        for said in (first, second, third):
            self.assertGreater(self.say(said, "Do you remember?").usage.prompt_tokens_details.cached_tokens, 0)

    def test_replaced_at_once(self):
        # Nobody saw that it was gone; and a conversation that is being answered then is saved where there is a store at its end.
        said = []
        self.say(said, LONG)
        other = self.another()
        client = self.server.client()
        said.append({"role": "user", "content": "Go on for long"})
        stream = client.chat.completions.create(model=PLAIN.stem, messages=said, max_tokens=300, temperature=0, stream=True, logit_bias={"2": -100, "0": -100})
        text = [next(stream).choices[0].delta.content or ""]
        shutil.rmtree(self.store)
        shutil.move(other, self.store)
        text += [c.choices[0].delta.content or "" for c in stream]
        said.append({"role": "assistant", "content": "".join(text)})
        self.eventually(lambda: len(self.saved()) == 2, f"{self.saved()}")
        self.server.kill()
        self.server.start()
        self.assertGreaterEqual(max(self.saved().values()), 500)
        self.say(said, "And then?")

    def test_a_response_while_it_is_replaced(self):
        other = self.another()
        options = {"model": PLAIN.stem, "max_output_tokens": 200, "temperature": 0, "stream": True, "extra_body": {"logit_bias": {"2": -100, "0": -100}}}
        for attempt in range(10):
            stream = self.server.client().responses.create(input=f"{attempt} {LONG}", **options)
            name = next(stream).response.id.replace("resp_", "resp-")
            self.server.process.send_signal(signal.SIGSTOP)
            try:
                replaces = name not in self.saved()  # else its answer was faster than this test
                if replaces:
                    shutil.rmtree(self.store)
                    shutil.move(other, self.store)
            finally:
                self.server.process.send_signal(signal.SIGCONT)
            *_, end = stream
            if replaces:
                break
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.client().responses.retrieve(end.response.id).output_text, end.response.output_text)

    def test_put_back(self):
        said = []
        self.say(said, LONG)
        shutil.move(self.store, self.dir / "old")
        self.assertEqual(self.health()["store"], "lost")
        self.say(said, "While it is away")
        shutil.move(self.dir / "old", self.store)
        self.eventually(lambda: self.health()["store"] == "open", "it is not opened again")
        self.say(said, "And then?")
        self.server.kill()
        self.server.start()
        self.assertGreater(self.say(said, "Do you remember?").usage.prompt_tokens_details.cached_tokens, 200)

    def test_responses(self):
        # What the store keeps is not gone for good while the store is away.
        client = self.server.client()

        def create(said, **options):
            return client.responses.create(model=PLAIN.stem, input=said, max_output_tokens=8, temperature=0, **options)

        first = create(LONG)
        shutil.move(self.store, self.dir / "old")
        for ask in (lambda: client.responses.retrieve(first.id), lambda: client.responses.delete(first.id), lambda: create("More", previous_response_id=first.id)):
            with self.assertRaises(openai.InternalServerError) as caught:
                ask()
            self.assertEqual((caught.exception.status_code, caught.exception.code), (503, "store_lost"))
        second = create("While it is away")
        third = create("And now?", previous_response_id=second.id)
        self.assertEqual([client.responses.retrieve(r.id).output_text for r in (second, third)], [r.output_text for r in (second, third)])
        shutil.move(self.dir / "old", self.store)
        self.eventually(lambda: self.health()["store"] == "open", "it is not opened again")
        self.assertEqual(client.responses.retrieve(first.id).output_text, first.output_text)
        self.assertGreater(create("More", previous_response_id=first.id).usage.input_tokens_details.cached_tokens, 100)
        create("More", previous_response_id=third.id)
        for r in (first, second, third):
            client.responses.delete(r.id)
            with self.assertRaises(openai.NotFoundError):
                client.responses.retrieve(r.id)

    def test_delete_while_away(self):
        # The store that comes back would still have it, so it is not said to be deleted.
        self.say([], LONG)
        (name,) = self.saved()
        path = f"/v1/kvrt/sessions/{name}"
        shutil.move(self.store, self.dir / "old")
        status, _, body = self.server.raw("DELETE", path)
        self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "store_lost"))
        shutil.move(self.dir / "old", self.store)
        self.eventually(lambda: self.health()["store"] == "open", "it is not opened again")
        self.assertEqual(self.server.raw("DELETE", path)[0], 200)
        self.assertEqual(self.saved(), {})

    def test_what_is_no_store(self):
        shutil.rmtree(self.store)
        self.store.mkdir(mode=0o700)
        self.assertEqual(self.health()["store"], "lost")
        (self.store / "catalog.db").write_bytes(b"no database" * 1000)
        self.assertEqual(self.health()["store"], "lost")
        self.say([], "And it answers")
        self.assertIn("is not opened: ", self.server.stop()[1])

    def test_without_a_store(self):
        server = Server(PLAIN)
        self.addCleanup(server.kill)
        self.assertEqual(json.loads(server.raw("GET", "/health")[2]), {"status": "ok", "store": "none"})

    def test_at_the_end(self):
        # The one that came last gets the conversations before the server ends.
        self.say([], LONG)
        other = self.another()
        shutil.rmtree(self.store)
        shutil.move(other, self.store)
        self.server.stop()
        self.assertEqual(len(self.saved()), 2)


if __name__ == "__main__":
    unittest.main()
