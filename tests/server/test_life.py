"""Conversations: found again by what was said, over kill -9 and restarts; sessions; prompt_cache_key; a clean end."""
import json
import signal
import threading
import unittest

import openai

from support import Case, PLAIN, Server, message

LONG = "Tell me of the harbour, its boats and their owners, the colours and the day on which each of them came. " * 2
ENDLESS = {"logit_bias": {"2": -100, "0": -100}}


def cached(answer):
    return answer.usage.prompt_tokens_details.cached_tokens


class Life(Case):
    first_prompt = 200  # tokens of a talk that begins with LONG, up to its first answer, whose own may be others once it comes back

    def talk(self, *texts, key=None):
        """The list of messages of a conversation in which these texts were said and answered."""
        said = []
        for text in texts:
            said.append({"role": "user", "content": text})
            options = {"prompt_cache_key": key} if key else {}
            said.append(message(self.ask(said, max_tokens=12, temperature=1, seed=9, **options)))
        return said

    def restart(self):
        self.server.kill()
        self.server.start()

    def sessions(self):
        return json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]

    def test_turns(self):
        said = self.talk(LONG + "1", "And then?")
        answer = self.ask(said + [{"role": "user", "content": "And?"}])
        self.assertGreaterEqual(cached(answer), self.first_prompt)

    def test_kill(self):
        said = self.talk(LONG + "2", "And then?") + [{"role": "user", "content": "And?"}]
        whole = self.ask(said, max_tokens=30)
        self.restart()
        again = self.ask(said, max_tokens=30)
        self.assertEqual(again.choices[0].message.content, whole.choices[0].message.content)
        self.assertGreaterEqual(cached(again), self.first_prompt)
        self.restart()
        more = self.ask(said + [message(whole), {"role": "user", "content": "More"}])
        self.assertGreaterEqual(cached(more), self.first_prompt)

    def test_no_room(self):
        server = Server(PLAIN, "--disk", "100K", store=self.dir / "full")
        self.addCleanup(server.kill)
        self.ask(LONG, client=server.client())
        code, err = server.stop()
        self.assertEqual(code, 0)
        self.assertRegex(err, r"conversation chat-\w+: \d+ of \d+ blocks of KV are not on disk")

    def test_kill_in_an_answer(self):
        said = self.talk(LONG + "3") + [{"role": "user", "content": "Go on for long"}]
        whole = self.ask(said, max_tokens=500, **ENDLESS).choices[0].message.content
        said[-1] = {"role": "user", "content": "Go on for long!"}
        chunks = self.ask(said, max_tokens=500, stream=True, **ENDLESS)
        next(chunks)
        self.server.kill()
        with self.assertRaises(openai.APIConnectionError):
            for _ in chunks:
                pass
        self.server.start()
        again = self.ask(said, max_tokens=500, **ENDLESS)
        self.assertGreater(cached(again), 100)
        said[-1] = {"role": "user", "content": "Go on for long"}
        self.assertEqual(self.ask(said, max_tokens=500, **ENDLESS).choices[0].message.content, whole)

    def test_kill_in_a_first_answer(self):
        # It is saved already, and not for ever.
        self.restart()
        before = len(self.sessions())
        chunks = self.ask("Go on for ever", max_tokens=900, stream=True, **ENDLESS)
        next(chunks)
        self.restart()
        chunks.close()
        saved = self.sessions()
        self.assertEqual(len(saved), before + 1)
        self.assertTrue(all(s["expires_unix_ms"] > s["saved_unix_ms"] for s in saved), saved)

    def test_what_is_refused_is_not_kept(self):
        self.restart()
        before = [s["name"] for s in self.sessions()]
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
        for text in ("Refused", "refused " * 80):  # and with so many tokens that an autosave is due
            for n in (1, 2):
                with self.assertRaises(openai.BadRequestError):
                    self.ask(text, response_format=form, n=n)
        self.server.stop()
        self.server.start()
        self.assertEqual([s["name"] for s in self.sessions()], before)

    def test_stop_saves(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            name = f"{LONG}4 {number}"
            chunks = self.ask(name, max_tokens=900, stream=True, n=8, temperature=1, **ENDLESS)
            next(chunks)
            code, err = self.server.stop(number)
            self.assertEqual((code, err), (0, "kvrt-server: stopping\n"))
            with self.assertRaises(openai.APIError) as caught:
                for _ in chunks:
                    pass
            self.assertEqual(caught.exception.code, "server_stopping")
            self.server.start()
            self.assertGreater(cached(self.ask(name)), 100)

    def test_other_words_at_the_end(self):
        # The last message is asked anew in other words, as an editor's retry does.
        said = self.talk(LONG + "5", "And then?")
        self.ask(said + [{"role": "user", "content": "This"}])
        answer = self.ask(said + [{"role": "user", "content": "No, that"}])
        self.assertGreater(cached(answer), 100)

    def test_one_request_twice_at_once(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.ask(LONG + "6", max_tokens=60).choices[0].message.content)) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(answers), len(set(answers))), (4, 1))

    def test_cache_key_after_dropped_messages(self):
        said = self.talk(LONG + "7", LONG + "8", LONG + "9", key="ann")
        self.restart()
        kept = said[:2] + said[4:] + [{"role": "user", "content": "And?"}]
        answer = self.ask(kept, prompt_cache_key="ann")
        self.assertGreater(cached(answer), 100)

    def test_sessions(self):
        self.ask(LONG + "10")
        before = {s["name"]: s for s in self.sessions()}
        self.assertIn("memory", {s["state"] for s in before.values()})
        self.restart()
        after = self.sessions()
        self.assertEqual({s["name"] for s in after}, set(before))
        self.assertEqual({s["state"] for s in after}, {"disk"})
        self.assertTrue(all(s["tokens"] > 0 and s["disk_bytes"] > 0 and s["expires_unix_ms"] > s["saved_unix_ms"] for s in after))
        chunks = self.ask(LONG + "11", max_tokens=900, stream=True, n=4, temperature=1, **ENDLESS)
        next(chunks)
        self.assertIn("computing", {s["state"] for s in self.sessions()})
        chunks.close()

    def test_a_conversation_is_saved_once(self):
        count = len(self.sessions())
        self.talk(LONG + "12", "a", "b", "c")
        self.eventually(lambda: len(self.sessions()) == count + 1, "a conversation of four turns is saved more than once")

    def test_tools_and_variables_are_not_mixed(self):
        one = self.ask(LONG + "13", max_tokens=20)
        other = self.ask(LONG + "13", max_tokens=20, extra_body={"chat_template_kwargs": {"x": 1}})
        self.assertEqual(one.choices[0].message.content, other.choices[0].message.content)


class Keys(Case):
    template = "qwen2_5"

    def test_a_key_with_other_tools(self):
        # The prompt, and the answer, are those of the same request without a key.
        tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
        call = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 60}
        for key, before, now in (("ann", {}, call), ("bob", call, {}), ("eve", call, {**call, "tools": [tool, {**tool, "function": {"name": "add"}}]})):
            with self.subTest(key=key):
                self.ask("One", prompt_cache_key=key, **before)
                plain, keyed = self.ask("Two", **now), self.ask("Two", prompt_cache_key=key, **now)
                self.assertEqual(keyed.usage.prompt_tokens, plain.usage.prompt_tokens)
                for found in (plain, keyed):
                    for c in found.choices[0].message.tool_calls or []:
                        c.id = ""
                self.assertEqual(keyed.choices[0].message, plain.choices[0].message)


class InMemory(Case):
    stored = False

    def test_turns(self):
        first = self.ask(LONG)
        said = [{"role": "user", "content": LONG}, message(first), {"role": "user", "content": "And?"}]
        answer = self.ask(said)
        self.assertGreater(cached(answer), answer.usage.prompt_tokens - 40)


class AnotherModel(unittest.TestCase):
    def test_a_store_of_another_model(self):
        import tempfile
        with tempfile.TemporaryDirectory() as store:
            said = [{"role": "user", "content": LONG}]
            for model in (PLAIN, PLAIN.with_name("llama_mha_f16.gguf")):
                server = Server(model, "--name", "same", store=store)
                try:
                    answer = server.client().chat.completions.create(model="same", messages=said, max_tokens=4)
                finally:
                    server.kill()
                self.assertEqual(cached(answer), 0)


if __name__ == "__main__":
    unittest.main()
