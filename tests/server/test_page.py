"""The page in headless Chromium: by keyboard, over reloads, with hostile texts, with 1,000 sessions; axe-core looks at it."""
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import ENDLESS, PageCase

KVRT = pathlib.Path(os.environ["KVRT_CLI"])
HOSTILE = ("<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'><svg onload=window.hacked=3>"
           "<a href=\"javascript:window.hacked=4\">click</a>[click](javascript:window.hacked=5) \u202e&lt;b&gt;</textarea>")
ANN, BOB = "ann-has-a-key-of-32-characters-..", "bob-has-another-key-of-some-length"


class Chat(PageCase):
    def test_by_keyboard(self):
        self.ready()
        self.find("body").send_keys(Keys.TAB)
        self.assertEqual(self.browser.switch_to.active_element.text, "Skip to the question")
        self.type(Keys.ENTER)
        self.type(Keys.TAB)
        self.wait(lambda: self.focused() in ("question", "send"), "the link leads to the question")
        self.find("#question").click()
        self.longest(20)
        self.type("one")
        self.type(Keys.SHIFT, Keys.ENTER)
        self.type("two", Keys.ENTER)
        self.answered()
        self.assertEqual((self.texts()[0], self.focused()), ("one\ntwo", "question"))
        self.assertEqual(self.gate.asked[-1]["messages"], [{"role": "user", "content": "one\ntwo"}])
        self.wait(lambda: len(self.all("#found li")) == 1, "the conversation is listed")
        self.assertEqual(self.tab(5), ["send", "picture", "list", "one two", "body"])
        self.find("#question").click()
        self.assertEqual(self.tab(8, back=True), ["Fork", "Retry", "Copy the answer", "Continue", "Fork", "Edit", "scroll", "Delete: one two"])
        self.find("#question").send_keys("  ", Keys.ENTER)
        self.assertEqual(len(self.all("#talk li")), 2)

    def tab(self, times, back=False):
        """What is focused after each Tab."""
        order = []
        for _ in range(times):
            keys = ActionChains(self.browser)
            (keys.key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT) if back else keys.send_keys(Keys.TAB)).perform()
            active = self.browser.switch_to.active_element
            name = active.get_attribute("id") or active.get_attribute("aria-label") or active.text.split("\n")[0]
            order.append("body" if active.tag_name == "body" else name)
        return order

    def cached_of(self, note):
        """Of "96 of 111 tokens were not computed again": 96 and 111."""
        return [int(word) for word in note.split() if word.isdigit()][:2]

    def test_turns_come_from_memory(self):
        self.say("Tell me of the harbour, its boats and their owners. " * 3)
        self.answered()
        self.gate.pause = 0.02
        self.say("And then?")
        self.answered(2)
        self.assertRegex(self.note(), r"\d+ of \d+ tokens were not computed again\. First token after \d.* m?s, [\d.,]+ tokens a second\.$")
        cached, prompt = self.cached_of(self.note())
        self.assertGreater(cached, 100)
        self.assertEqual([m["role"] for m in self.gate.asked[-1]["messages"]], ["user", "assistant", "user"])
        self.assertEqual(self.gate.asked[-1]["messages"][1]["content"], self.texts()[1])
        self.assertIn("Answer: " + self.texts()[3], self.find("#said").get_property("textContent"))
        self.find("#new").click()
        self.assertEqual((self.all("#talk li"), self.focused()), ([], "question"))

    def test_stop(self):
        self.gate.pause = 0.05
        self.say("Go on for long", 400)
        self.wait(lambda: len(self.texts()[1]) > 10, "the answer does not stream")
        self.audit("in an answer")
        live = self.find("#said").get_property("textContent")
        self.assertEqual(live, "The answer comes.")  # and not each token
        self.find("#stop").send_keys(Keys.ENTER)
        self.wait(lambda: "Stopped" in self.note(), "it does not stop")
        self.assertEqual(self.focused(), "question")
        self.assertLess(len(self.texts()[1]), 400)
        self.assertFalse(self.find("#stop").is_enabled())
        self.gate.pause = 0
        self.say("Something else", 10)
        self.answered()

    def test_reload_in_an_answer(self):
        self.gate.pause = 0.05
        self.say("Tell me of the harbour, its boats and their owners. " * 3, 60)
        self.wait(lambda: len(self.texts()[1]) > 20, "the answer does not stream")
        self.browser.refresh()
        part = self.texts()[1]
        self.assertGreater(len(part), 10)
        self.assertIn("loaded again", self.note())
        self.shot("reload")
        self.audit("after a reload")
        self.ready()
        self.gate.pause = 0
        seed = self.gate.asked[-1]["seed"]
        self.find("#talk .again").click()
        self.answered()
        whole = self.texts()[1]
        self.assertTrue(whole.startswith(part) and len(whole) > len(part), (part, whole))
        self.assertEqual((self.gate.asked[-1]["seed"], self.gate.asked[-1]["continue_final_message"]), (seed, True))
        cached, prompt = self.cached_of(self.note())
        self.assertGreater(cached, prompt - 40)
        self.assertGreater(cached, 100)
        self.browser.refresh()
        self.assertEqual(self.texts()[1], whole)

    def test_errors(self):
        self.gate.extra = {}
        self.ready()
        self.script("document.getElementById('question').value = 'word '.repeat(3000)")
        self.find("#question").send_keys(Keys.ENTER)
        self.wait(lambda: "context" in self.find("#failure").text, "the error is not shown")
        self.assertEqual((self.all("#talk li"), self.find("#question").get_property("value")), ([], "word " * 3000))
        self.audit("an error")
        self.script("document.getElementById('question').value = ''")
        self.say("Hello", 0)
        self.assertEqual(self.all("#talk li"), [])  # the browser tells of the mistake in the field
        self.assertTrue(self.find("#settings").get_attribute("open"))

    def test_the_server_goes_and_comes_back(self):
        self.gate.pause = 0.05
        self.say("Tell me of the harbour, its boats and their owners. " * 3, 400)
        self.wait(lambda: len(self.texts()[1]) > 10, "the answer does not stream")
        self.server.kill()
        self.gate.fakes = {"/v1/kvrt/graph": (502, "text/html", b"<b>no</b>")}
        self.wait(lambda: "502" in self.find("#server-note").text, "the page does not tell that the server has gone", 20)
        self.server.start()
        self.gate.fakes, self.gate.pause = {}, 0
        self.wait(lambda: not self.find("#server-note").is_displayed(), "the page does not find the server again", 20)
        part = self.texts()[1]
        self.longest(len(part) + 40)
        self.find("#talk .again").click()  # again by its seed, where so few tokens were not saved
        self.answered()
        self.assertTrue(self.texts()[1].startswith(part) and len(self.texts()[1]) > len(part), (part, self.texts()[1]))


class Forest(PageCase):
    options = ("--kv-bytes", "64M")

    def setUp(self):
        self.server.kill()
        shutil.rmtree(self.dir / "store")
        self.server.start()
        super().setUp()

    def rows(self):
        return self.script("return [...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent))")

    def test_the_picture(self):
        system = {"role": "system", "content": "A system message that is said in each conversation, long enough for some blocks. " * 2}
        for text in ("one", "two", "three"):
            self.ask([system, {"role": "user", "content": text}], max_tokens=60, **ENDLESS)
        self.wait(lambda: len(self.rows()) == 3, "three sessions in the list")
        self.wait(lambda: self.all("#picture text.c"), "a shared run")
        self.assertEqual({t.text for t in self.all("#picture text.c")}, {"×3"})
        self.assertEqual(len(self.all("#picture .way")), 2)
        self.assertTrue(all("with 2 others" in r[1] for r in self.rows()))
        self.wait(lambda: sorted(r[0] for r in self.rows()) == ["one", "three", "two"], "their first words")
        self.assertEqual(sorted(t.text for t in self.all("#picture text.n")), ["one", "three", "two"])
        label = self.find("#picture svg").get_attribute("aria-label")
        self.assertIn("3 sessions", label)
        self.server.kill()
        self.server.start()
        self.wait(lambda: {r[2] for r in self.rows()} == {"on disk"}, "all are on disk")
        self.assertTrue(self.all("#picture rect.all.disk") and self.all("#picture rect.own.disk"))
        self.say("Hello", 30)
        self.answered()
        self.wait(lambda: {r[2] for r in self.rows()} == {"on disk", "in memory"}, "one is in memory")

    def test_the_states_of_blocks(self):
        # As the server has them for a moment only: see test_graph.py.
        def session(name, state, tokens, computed, on_disk, blocks):
            return {"name": name, "state": state, "tokens": tokens, "computed": computed, "on_disk": on_disk, "blocks": blocks.split()}

        sessions = [session("asks", "computing", 150, 70, 64, "a b c d e"), session("rests", "disk", 130, 0, 96, "a b x y z"),
                    session("is open", "memory", 81, 80, 64, "a b v"), session("apart", "disk", 40, 0, 39, "o p")]
        data = {"object": "kvrt.graph", "block_tokens": 32, "sessions": sessions, "more": 7, "unread": 1}
        self.gate.fakes = {"/v1/kvrt/graph": (200, "application/json", json.dumps(data).encode())}
        self.wait(lambda: len(self.rows()) == 4, "four sessions")
        rects = self.script("return [...document.querySelectorAll('#picture > svg > g')].map("
                            "g => [g.querySelector('.n').textContent, ...[...g.querySelectorAll('rect')].map(r => r.getAttribute('class'))])")
        self.assertEqual(rects, [["asks", "all memory", "all memory", "own computing", "own computing", "own computing"],
                                 ["is open", "own memory"], ["rests", "own disk", "gone", "gone"], ["apart", "own disk", "own disk"]])
        titles = self.script("return [...document.querySelectorAll('#picture g g title')].map(t => t.textContent)")
        self.assertIn("tokens 0 to 64: 2 blocks in 3 sessions, in memory", titles)
        self.assertIn("tokens 64 to 150: 3 blocks in 1 session, being computed", titles)
        self.assertIn(["asks", "64 tokens with 2 others", "computing", "150", "70", "64"], self.rows())
        self.assertIn("7 older sessions not shown. 1 session still being read.", self.find("#sum").text)
        self.shot("states")
        self.audit("all states")
        animation = "return getComputedStyle(document.querySelector('#legend .computing')).animationName"
        self.assertEqual(self.script(animation), "march")
        self.emulate(prefers_reduced_motion="reduce")
        self.assertEqual(self.script(animation), "none")

    def test_hostile_texts(self):
        self.ask("Hello")
        name = json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"][0]["name"]
        self.server.stop()
        hostile = HOSTILE[:250]
        subprocess.run([KVRT, "store", "mv", self.dir / "store", name, hostile], check=True)
        self.server.start()
        shown = hostile.replace("\u202e", "\\u{202e}")
        names = lambda: self.script("return [...document.querySelectorAll('#rows th')].map(e => e.title)")
        self.wait(lambda: shown in names(), "the session is not listed by its name")
        call = {"index": 0, "id": "x", "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
        deltas = [{"reasoning_content": HOSTILE}, {"content": HOSTILE}, {"tool_calls": [call]}]
        events = [{"choices": [{"index": 0, "delta": d}]} for d in deltas] + [{"error": {"message": HOSTILE}}]
        data = "".join(f"data: {json.dumps(e)}\n\n" for e in events).encode()
        self.gate.fakes = {"/v1/chat/completions": (200, "text/event-stream", data)}
        self.say(HOSTILE)
        self.wait(lambda: self.note() != "" and "…" not in self.note(), "the answer's error is not shown")
        self.assertEqual(self.texts(), [HOSTILE, HOSTILE])
        shown_texts = lambda: self.script("return [...document.querySelectorAll('#talk > li > .text')].map(e => e.textContent)")
        self.assertEqual(shown_texts(), [HOSTILE, HOSTILE])
        self.assertEqual(self.all("#talk .note")[-1].get_property("textContent"), HOSTILE)
        self.assertIn(HOSTILE, self.find("#talk .call").get_property("textContent"))
        self.find("#talk summary").click()
        self.assertEqual(self.find("#talk details .text").get_property("textContent"), HOSTILE)
        self.shot("hostile")
        self.browser.refresh()
        self.wait(lambda: self.texts() == [HOSTILE, HOSTILE], "the conversation is kept")
        self.wait(lambda: shown in names(), "the list comes again")
        self.assertIsNone(self.script("return window.hacked"))
        inside = "return document.querySelectorAll('#talk a, #talk img, #memory a, #memory img, body script, #picture svg svg, iframe').length"
        self.assertEqual(self.script(inside), 0)
        # Whatever tried it would be refused: markup from text, and scripts in the page.
        self.assertIn("TrustedHTML", self.script("try { document.body.innerHTML = '<b>' } catch (e) { return e.message }"))
        self.script("const s = document.createElement('script'); s.append('window.hacked = 6'); document.head.append(s)")
        self.assertIsNone(self.script("return window.hacked"))
        self.assertTrue(any("Content Security Policy" in e["message"] or "TrustedHTML" in e["message"] for e in self.browser.get_log("browser")))


class Keyed(PageCase):
    environment = {"KVRT_API_KEY": ANN}
    keys = f"bob {BOB}\n"

    def test_keys(self):
        self.wait(lambda: self.focused() == "key", "the page asks for a key")
        self.shot("key")
        self.audit("asking for a key")
        self.type("no-such-key-on-this-server", Keys.ENTER)
        self.wait(lambda: "does not know" in self.find("#key-note").text, "a wrong key is told")
        self.find("#key").clear()
        self.find("#key").send_keys(ANN, Keys.ENTER)
        self.say("The secret of ann")
        self.answered()
        self.wait(lambda: len(self.all("#rows tr")) == 1 and len(self.all("#found li")) == 1, "ann's session")
        name = self.find("#rows th").get_attribute("title")
        kept = self.script("return [Object.keys(sessionStorage), Object.keys(localStorage), document.cookie, location.href]")
        self.assertEqual((sorted(kept[0]), kept[1:]), (["kvrt.conversation", "kvrt.key"], [[], "", self.gate.url]))
        self.browser.refresh()
        self.wait(lambda: len(self.all("#rows tr")) == 1 and len(self.all("#talk li")) == 2, "a reload keeps key and conversation")
        # Another key, in the midst of an answer.
        self.gate.pause = 0.05
        self.say("Go on for long", 300)
        self.wait(lambda: len(self.texts()) == 4 and len(self.texts()[3]) > 5, "the answer does not stream")
        self.find("#key-forget").click()
        self.wait(lambda: self.focused() == "key", "the page asks for a key")
        self.nothing_of(name)
        self.find("#key").send_keys(BOB, Keys.ENTER)
        self.gate.pause = 0
        self.say("bob's", 10)
        self.answered()
        self.wait(lambda: len(self.all("#rows tr")) == 1, "bob's session")
        self.nothing_of(name)
        self.assertEqual(len(self.gate.asked[-1]["messages"]), 1)
        self.wait(lambda: [e.text for e in self.all("#found .title")] == ["bob's"], "bob's list")

    def nothing_of(self, name):
        for text in (name, "secret of ann"):
            self.assertNotIn(text, self.script("return document.documentElement.outerHTML"))
            self.assertNotIn(text, self.script("return JSON.stringify(sessionStorage)"))


class Thousand(PageCase):
    def test_1000_sessions(self):
        first = ["Once upon a time there was a harbour. ", "In the year of the great storm nobody slept. ", "Dear reader, "]
        for i in range(0, 1040, 40):
            prompts = [first[n % 3] * 2 + "And so on. " * (n % 7) + f"{n} " * (n % 5 + 1) for n in range(i, i + 40)]
            self.client.completions.create(model=self.name, prompt=prompts, max_tokens=4, extra_body=ENDLESS)
        count = "return document.querySelectorAll('#rows tr').length"
        self.wait(lambda: self.script(count) == 1000, "1,000 sessions", 60)
        self.wait(lambda: "40 older sessions not shown" in self.find("#sum").text, "the rest is counted")
        self.wait(lambda: "being read" not in self.find("#sum").text, "all are read")
        self.assertEqual(self.script("return document.querySelectorAll('#picture > svg > g').length"), 1000)
        self.emulate(1400, 2000)
        self.shot("1000")
        # It stays quick: an answer streams, and drawing what has changed is not felt.
        self.say("Hello", 40)
        self.answered()
        took = self.script("""
            const graph = await import("/graph.js");
            const data = await (await fetch("/v1/kvrt/graph")).json();
            const begin = performance.now();
            graph.draw(data);
            return performance.now() - begin;""")
        self.assertLess(took, 500)
        self.emulate(320, 900)
        self.find("#views [data-view=memory]").click()
        self.wait(lambda: self.script("return document.documentElement.scrollWidth") <= 320, "it fits 320 points")
        self.shot("1000-320")


if __name__ == "__main__":
    unittest.main()
