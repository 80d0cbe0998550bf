"""/v1/kvrt/sessions: a list with titles, the messages of one, DELETE; answers that were cut and go on; what the file suggests for sampling."""
import json
import os
import pathlib
import subprocess
import unittest
import urllib.parse

import gguf
import openai

from support import Case, Forced, PLAIN, Server, message

KVRT = pathlib.Path(os.environ["KVRT_CLI"])
ANN, BOB = "ann-has-a-key-of-32-characters-..", "bob-has-another-key-of-some-length"
ENDLESS = {"logit_bias": {"2": -100, "0": -100}}


def listed(server, **headers):
    return json.loads(server.raw("GET", "/v1/kvrt/sessions", headers=headers)[2])["data"]


def path(name):
    return "/v1/kvrt/sessions/" + urllib.parse.quote(name, safe="")


def opened(server, name, **headers):
    status, _, data = server.raw("GET", path(name), headers=headers)
    return status, json.loads(data)


class Talks(Case):
    def setUp(self):
        super().setUp()
        for one in listed(self.server):
            self.server.raw("DELETE", path(one["name"]))

    def talk(self, *texts, conversation=""):
        said = []
        extra = {"extra_body": {"chat_template_kwargs": {"kvrt_conversation": conversation}}} if conversation else {}
        for text in texts:
            said.append({"role": "user", "content": text})
            said.append(message(self.ask(said, **extra)))
        return said

    def restart(self):
        self.server.kill()
        self.server.start()

    def test_titles_and_messages(self):
        said = self.talk("  Tell me\n\tof the harbour \x07", "And then?", conversation="c1")
        for restarted in (False, True):
            with self.subTest(restarted=restarted):
                one, = listed(self.server)
                self.assertEqual((one["title"], one["last"], one["conversation"], one["messages"]), ("Tell me of the harbour", "And then?", "c1", 4))
                status, session = opened(self.server, one["name"])
                self.assertEqual((status, session["name"], session["title"], session["conversation"]), (200, one["name"], one["title"], "c1"))
                self.assertEqual([(m["role"], m["content"]) for m in session["messages"]], [(m["role"], m["content"]) for m in said])
                self.restart()
        self.ask([*said, {"role": "user", "content": "More"}], extra_body={"chat_template_kwargs": {"kvrt_conversation": "c1"}})
        one, = listed(self.server)
        self.assertEqual((one["last"], one["conversation"], one["messages"]), ("More", "c1", 6))

    def test_a_title_is_short(self):
        for text, title in (("word " * 100, ("word " * 100)[:120].rstrip()), ("\u00e4" * 200, "\u00e4" * 60), (" \n ", ""), ("<b>&\u202e", "<b>&\u202e")):
            self.talk(text)
            one, = listed(self.server)
            self.assertEqual(one["title"], title)
            self.server.raw("DELETE", path(one["name"]))

    def test_another_conversation_with_the_same_words(self):
        self.talk("Hello", conversation="c1")
        self.talk("Hello", conversation="c2")
        self.talk("Hello")
        self.assertEqual(sorted(one["conversation"] for one in listed(self.server)), ["", "c1", "c2"])

    def test_delete(self):
        self.talk("one")
        self.talk("two")
        kept, gone = sorted(listed(self.server), key=lambda one: one["title"])
        status, _, data = self.server.raw("DELETE", path(gone["name"]))
        self.assertEqual((status, json.loads(data)), (200, {"name": gone["name"], "object": "kvrt.session", "deleted": True}))
        for restarted in (False, True):
            self.assertEqual([one["name"] for one in listed(self.server)], [kept["name"]])
            for method in ("GET", "DELETE"):
                status, _, data = self.server.raw(method, path(gone["name"]))
                self.assertEqual((status, json.loads(data)["error"]["code"]), (404, "conversation_not_found"))
            if not restarted:
                self.restart()

    def test_busy(self):
        chunks = self.ask("Go on for ever", max_tokens=900, n=32, temperature=1, stream=True, **ENDLESS)
        next(chunks)
        one, = listed(self.server)
        status, session = opened(self.server, one["name"])
        self.assertEqual((status, session["whole"], session["messages"][0]["content"]), (200, False, "Go on for ever"))
        status, _, data = self.server.raw("DELETE", path(one["name"]))
        self.assertEqual((status, json.loads(data)["error"]["code"]), (409, "conversation_busy"))
        chunks.close()
        self.eventually(lambda: self.server.raw("DELETE", path(one["name"]))[0] == 200, "it stays busy")
        self.assertEqual(listed(self.server), [])

    def test_methods(self):
        self.talk("one")
        one, = listed(self.server)
        status, headers, _ = self.server.raw("POST", path(one["name"]), "{}")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD, DELETE, OPTIONS"))
        self.assertEqual(self.server.raw("HEAD", path(one["name"]))[0], 200)
        _, headers, _ = self.server.raw("GET", "/v1/kvrt/sessions")
        self.assertEqual(self.server.raw("GET", "/v1/kvrt/sessions", headers={"If-None-Match": headers["ETag"]})[0], 304)

    def test_names_that_the_server_did_not_make(self):
        self.talk("one")
        one, = listed(self.server)
        self.server.stop()
        hostile = "a/b?c=d#e%20 \u202e<b>\"'"
        subprocess.run([KVRT, "store", "mv", self.dir / "store", one["name"], hostile], check=True)
        self.server.start()
        self.assertEqual([o["name"] for o in listed(self.server)], [hostile])
        self.assertEqual(opened(self.server, hostile)[1]["name"], hostile)
        self.assertEqual(self.server.raw("DELETE", path(hostile))[0], 200)
        self.assertEqual(listed(self.server), [])

    def test_deep_calls(self):
        deep = "{\"a\":" * 58 + "1" + "}" * 58
        call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": deep}}
        said = [{"role": "user", "content": "Deep"}, {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "x", "content": "1"}, {"role": "user", "content": "And?"}]
        self.ask(said)
        for restarted in (False, True):
            one, = listed(self.server)
            self.assertEqual((one["title"], one["last"], one["messages"]), ("Deep", "And?", 5))
            found, = opened(self.server, one["name"])[1]["messages"][1]["tool_calls"]
            self.assertEqual((found["id"], found["function"]["name"], json.loads(found["function"]["arguments"])), ("x", "f", json.loads(deep)))
            if not restarted:
                self.restart()

    def test_without_messages(self):
        self.client.completions.create(model=self.name, prompt="Once", max_tokens=4)
        one, = listed(self.server)
        self.assertEqual((one["title"], one["messages"], opened(self.server, one["name"])[1]["messages"]), ("", 0, []))


class InMemory(Case):
    stored = False

    def test_without_a_store(self):
        said = [{"role": "user", "content": "one"}]
        said += [message(self.ask(said)), {"role": "user", "content": "two"}]
        one, = listed(self.server)
        self.assertEqual((one["title"], one["last"], one["messages"]), ("one", "one", 2))
        said.append(message(self.ask(said)))
        one, = listed(self.server)
        self.assertEqual((one["title"], one["last"], one["messages"]), ("one", "two", 4))
        self.assertEqual([m["content"] for m in opened(self.server, one["name"])[1]["messages"]], [m["content"] for m in said])
        self.assertEqual(self.server.raw("DELETE", path(one["name"]))[0], 200)
        self.assertEqual((listed(self.server), opened(self.server, one["name"])[0]), ([], 404))


class Keys(Case):
    environment = {"KVRT_API_KEY": ANN}
    keys = f"bob {BOB}\n"

    def test_a_key_is_a_domain(self):
        ann, bob = {"Authorization": f"Bearer {ANN}"}, {"Authorization": f"Bearer {BOB}"}
        self.ask("The secret of ann", client=self.server.client(ANN))
        one, = listed(self.server, **ann)
        for restarted in (False, True):
            self.assertEqual(listed(self.server, **bob), [])
            for method in ("GET", "DELETE"):
                status, _, data = self.server.raw(method, path(one["name"]), headers=bob)
                self.assertEqual((status, b"secret" in data), (404, False))
                self.assertEqual(self.server.raw(method, path(one["name"]))[0], 401)
            self.assertEqual(opened(self.server, one["name"], **ann)[1]["title"], "The secret of ann")
            if not restarted:
                self.server.kill()
                self.server.start()
        self.assertEqual(self.server.raw("DELETE", path(one["name"]), headers=ann)[0], 200)


class GoesOn(Case):
    """An answer that is cut and goes on says what the whole one says."""

    LONG = "Tell me of the harbour, its boats and their owners, the colours and the day on which each of them came. " * 2

    def whole(self, said, **options):
        return self.ask(said, **{"max_tokens": 40, "temperature": 1, "seed": 7, **ENDLESS, **options})

    def go_on(self, said, **options):
        return self.whole(said, extra_body={"continue_final_message": True}, **options)

    def test_after_a_limit(self):
        said = [{"role": "user", "content": self.LONG}]
        text = self.whole(said).choices[0].message.content
        for restarted in (False, True):
            with self.subTest(restarted=restarted):
                part = self.whole(said, max_tokens=15)
                self.assertEqual(part.choices[0].finish_reason, "length")
                if restarted:
                    self.server.kill()
                    self.server.start()
                cut = [*said, {"role": "assistant", "content": part.choices[0].message.content}]
                more = self.go_on(cut, max_tokens=25)
                self.assertEqual(cut[1]["content"] + more.choices[0].message.content, text)
                cached, prompt = more.usage.prompt_tokens_details.cached_tokens, more.usage.prompt_tokens
                self.assertGreaterEqual(cached, prompt - 2)
        # And the talk goes on after it.
        whole = [*said, {"role": "assistant", "content": text}, {"role": "user", "content": "And?"}]
        self.assertGreater(self.ask(whole).usage.prompt_tokens_details.cached_tokens, 150)

    def test_after_a_stop_of_the_client(self):
        said = [{"role": "user", "content": self.LONG + "stop"}]
        chunks = self.whole(said, max_tokens=900, stream=True)
        next(chunks)
        chunks.close()
        name = lambda: next((one["name"] for one in listed(self.server) if one["last"].startswith("Tell") and one["messages"] == 2), None)
        self.eventually(lambda: name(), "it is not there")
        session = opened(self.server, name())[1]
        self.eventually(lambda: all(one["state"] != "computing" for one in listed(self.server)), "it goes on")
        session = opened(self.server, name())[1]
        self.assertFalse(session["whole"])
        cut = session["messages"]
        more = self.go_on(cut, max_tokens=30).choices[0].message.content
        text = cut[1]["content"] + more
        self.assertEqual(self.whole(said, max_tokens=300).choices[0].message.content[:len(text)], text)

    def test_refused(self):
        said = [{"role": "user", "content": "Refuse"}]
        part = self.whole(said, max_tokens=10).choices[0].message.content
        cut = [*said, {"role": "assistant", "content": part}]
        go_on = {"continue_final_message": True}
        wrong = [
            ("unsupported_value", said, {}),
            ("unsupported_value", cut[1:], {}),
            ("unsupported_value", cut, {"n": 2}),
            ("unsupported_value", cut, {"response_format": {"type": "json_object"}}),
            ("answer_not_found", [*said, {"role": "assistant", "content": part + "."}], {}),
            ("answer_not_found", [{"role": "user", "content": "Nobody said it"}, cut[1]], {}),
        ]
        for code, messages, options in wrong:
            with self.subTest(code=code, options=options):
                self.assertIsInstance(self.refused(openai.BadRequestError, code, text=messages, extra_body=go_on, **options), openai.BadRequestError)
        self.assertEqual(self.ask(cut, extra_body={"continue_final_message": False}).choices[0].finish_reason, "length")


class Whole(Forced):
    answers = [("Think", ["<think>\nWell, well.\n</think>\n\n", "Thought."])]

    def test_whole(self):
        self.ask("Hello")
        one = next(one for one in listed(self.server) if one["title"] == "Hello")
        for restarted in (False, True):
            self.assertTrue(opened(self.server, one["name"])[1]["whole"])
            if not restarted:
                self.server.kill()
                self.server.start()
        self.refused(openai.BadRequestError, "answer_not_found", extra_body={"continue_final_message": True},
                     text=[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "ok"}])

    def test_in_reasoning(self):
        self.ask("Think", max_tokens=1)
        one = next(one for one in listed(self.server) if one["title"] == "Think")
        session = opened(self.server, one["name"])[1]
        self.assertFalse(session["whole"])
        answer = session["messages"][1]
        self.assertEqual(answer["reasoning_content"].strip(), "Well, well.")
        more = self.ask(session["messages"], extra_body={"continue_final_message": True}).choices[0].message
        self.assertEqual(more.content, "Thought.")


class Suggested(Case):
    def suggested(self, **fields):
        model = PLAIN
        if fields:
            model = self.dir / "suggests.gguf"
            reader = gguf.GGUFReader(PLAIN)
            writer = gguf.GGUFWriter(str(model), "llama")
            for field in reader.fields.values():
                if field.name in (gguf.Keys.General.ARCHITECTURE,) or field.name.startswith("GGUF."):
                    continue
                kind = field.types[0]
                sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
            for name, value in fields.items():
                if isinstance(value, float):
                    writer.add_float32("general.sampling." + name, value)
                else:
                    writer.add_int32("general.sampling." + name, value)
            for tensor in reader.tensors:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
        server = Server(model)
        self.addCleanup(server.kill)
        return json.loads(server.raw("GET", "/v1/models")[2])["data"][0]["suggested_sampling"]

    def test_as_the_program_has_them(self):
        self.assertEqual(self.suggested(), {"temperature": 0.7, "min_p": 0.05})
        self.assertEqual(self.suggested(temp=0.5, top_k=20, top_p=0.75), {"temperature": 0.5, "top_k": 20, "top_p": 0.75})
        self.assertEqual(self.suggested(top_k=64, min_p=-1.0), {"top_k": 64, "temperature": 1})


if __name__ == "__main__":
    unittest.main()
