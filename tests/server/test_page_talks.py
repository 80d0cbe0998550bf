"""The page's conversations in headless Chromium: the list, opening again, branches, forks, answers that go on, its layout; axe-core looks at it."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import unittest

from selenium.webdriver.common.keys import Keys

from browser import ENDLESS, PageCase, TalkCase

KVRT = pathlib.Path(os.environ["KVRT_CLI"])
LONG = "Tell me of the harbour, its boats and their owners. " * 3


class Talks(TalkCase):
    def test_open_again_after_a_restart(self):
        self.talk(LONG + "one", "And then?")
        said = self.texts()
        self.find("#new").click()
        self.assertEqual((self.texts(), self.focused()), ([], "question"))
        self.talk("Something else")
        self.listed("Something else", (LONG + "one")[:120].rstrip())
        self.server.kill()
        self.server.start()
        self.browser.refresh()
        self.wait(lambda: len(self.titles()) == 2, "the list comes again")
        self.open("Tell me")
        self.wait(lambda: self.texts() == said, "the conversation is not what it was")
        self.assertEqual(self.find("#found [aria-current] .title").text, (LONG + "one")[:120].rstrip())
        self.assertEqual(self.browser.title, LONG[:60].strip() + " \u2013 kvrt")
        self.audit("opened again")
        self.say("And now?", 12)
        self.answered(3)
        cached, prompt = self.cached()
        self.assertGreater(cached, 100)
        self.assertEqual([m["content"] for m in self.gate.asked[-1]["messages"]][:4], said)
        self.wait(lambda: len(self.entries()) == 2 and len(self.titles()) == 2, "it is the same conversation")

    def test_a_system_message_comes_back(self):
        self.find("#settings-open").click()
        self.audit("settings")
        self.shot("settings")
        self.find("#system").send_keys("Be brief.")
        self.find("#settings button.main").click()
        self.talk("one")
        self.find("#settings-open").click()
        self.find("#system").clear()
        self.find("#settings button.main").click()
        self.find("#new").click()
        self.talk("two")
        self.listed("two", "one")
        self.open("one")
        self.wait(lambda: len(self.texts()) == 2 and self.texts()[0] == "one", "it does not open")
        self.assertEqual(self.value("#system"), "Be brief.")
        self.find("#new").click()
        self.assertEqual(self.value("#system"), "")  # it is of that conversation, not the user's own

    def test_delete(self):
        for text in ("one", "two", "three"):
            self.find("#new").click()
            self.talk(text)
        self.listed("three", "two", "one")
        self.find("#search").send_keys("TWO")
        self.assertEqual(self.titles(), ["two"])
        self.find("#search").send_keys("x")
        self.assertEqual((self.titles(), self.find("#found-note").text), ([], "No conversation has these words."))
        self.script("const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input'))")
        gone = self.find("#found li:nth-child(2) .delete")
        gone.send_keys(Keys.ENTER)
        self.assertEqual((gone.text, gone.get_attribute("aria-label")), ("Delete?", "Delete for good: two"))
        self.type(Keys.TAB)
        self.assertEqual(gone.get_attribute("aria-label"), "Delete: two")  # a change of mind
        gone.send_keys(Keys.ENTER)
        gone.send_keys(Keys.ENTER)
        self.listed("three", "one")
        self.assertEqual(self.browser.switch_to.active_element.text.split("\n")[0], "one")
        self.assertEqual(sorted(e["title"] for e in self.entries()), ["one", "three"])
        current = self.find("#found li:nth-child(1) .delete")
        current.send_keys(Keys.ENTER)
        current.send_keys(Keys.ENTER)
        self.listed("one")
        self.assertEqual((self.texts(), self.focused()), ([], "question"))

    def test_edit_retry_and_branches(self):
        self.talk(LONG + "one", "Two", tokens=40)
        first = self.texts()
        self.press("Retry")
        self.answered(2)
        retried = self.texts()
        self.assertEqual((retried[:3], retried[3] == first[3]), (first[:3], False))
        self.assertEqual(self.variants(), ["", "", "", "\u20392 / 2\u203a"])
        self.press("Edit", "#talk li:nth-child(3)")
        self.audit("a question that is edited")
        field = self.browser.switch_to.active_element
        self.assertEqual(field.get_property("value"), "Two")
        field.clear()
        field.send_keys("Three", Keys.ENTER)
        self.answered(2)
        self.assertEqual((self.texts()[:3], self.variants()), ([*first[:2], "Three"], ["", "", "\u20392 / 2\u203a", ""]))
        self.assertEqual([m["content"] for m in self.gate.asked[-1]["messages"]], [*first[:2], "Three"])
        cached, prompt = self.cached()
        self.assertGreater(cached, prompt - 64)
        # The forest has three sessions that share their beginning; the list has one conversation.
        self.wait(lambda: len(self.all("#picture > svg > g")) == 3 and self.all("#picture text.c"), "three sessions are drawn")
        self.assertIn("\u00d73", {t.text for t in self.all("#picture text.c")})
        self.assertEqual(sorted(e["conversation"].split(".")[0] for e in self.entries()), [self.entries()[0]["conversation"].split(".")[0]] * 3)
        self.wait(lambda: "3 branches" in self.find("#found .open").text and len(self.titles()) == 1, "one conversation is listed")
        names = [t.get_property("textContent") for t in self.all("#picture text.n")]
        self.assertEqual(sorted(n[:2] for n in names), ["Te", "\u21b3 ", "\u21b3 "])
        self.shot("branches")
        self.audit("branches")
        # Back to the others, also after a reload.
        for reloaded in (False, True):
            self.press("The branch before", "#talk li:nth-child(3)")
            self.assertEqual(self.texts(), retried)
            self.press("The branch before", "#talk li:nth-child(4)")
            self.assertEqual(self.texts(), first)
            self.press("The next branch", "#talk li:nth-child(3)")
            self.assertEqual(self.texts()[2], "Three")
            if not reloaded:
                self.browser.refresh()
                self.wait(lambda: self.variants() == ["", "", "\u20392 / 2\u203a", ""], "the branches are read again")
        # By the picture's list to a branch.
        self.all("#rows button.name")[0].click()
        self.wait(lambda: self.texts()[0] == first[0] and len(self.texts()) == 4, "it opens")

    def test_fork(self):
        self.talk(LONG + "one", "Two", "Three", tokens=20)
        said = self.texts()
        self.press("Fork", "#talk li:nth-child(4)")
        self.assertEqual((self.texts(), self.focused()), (said[:4], "question"))
        self.say("Another way", 20)
        self.answered(3)
        cached, prompt = self.cached()
        self.assertGreater(cached, 140)
        self.wait(lambda: len(self.titles()) == 2, "a fork is a conversation of its own")
        self.assertEqual(len({e["conversation"].split(".")[0] for e in self.entries()}), 2)
        self.wait(lambda: {t.text for t in self.all("#picture text.c")} == {"\u00d72"}, "the forest has the fork")
        # Of a question: it comes to the field.
        self.press("Fork", "#talk li:nth-child(1)")
        self.assertEqual((self.texts(), self.find("#question").get_property("value")), ([], said[0]))

    def test_an_answer_that_was_cut_goes_on(self):
        self.gate.asked.clear()
        self.say(LONG, 15)
        self.answered()
        self.gate.pause = 0.05
        for how in ("length", "length again", "stop", "after a reload", "of the list"):
            part = self.texts()[1]
            if how == "after a reload":
                self.press("Continue")
                self.wait(lambda: len(self.texts()[1]) > len(part) + 5, "it does not go on")
                self.browser.refresh()
                self.ready()
                part = self.texts()[1]
            if how == "of the list":
                self.find("#new").click()
                self.wait(lambda: len(self.titles()) == 1, "it is listed")
                self.open("Tell me")
                self.wait(lambda: self.texts()[1:] == [part], "it does not open")
            self.longest(200 if how == "stop" else 15)
            self.press("Continue")
            if how == "stop":
                self.wait(lambda: len(self.texts()[1]) > len(part) + 5, "it does not go on")
                self.find("#question").send_keys(Keys.ESCAPE)
                self.wait(lambda: "Stopped" in self.note(), "it does not stop")
            else:
                self.answered()
            with self.subTest(how=how):
                self.assertTrue(self.texts()[1].startswith(part) and len(self.texts()[1]) > len(part), (part, self.texts()[1]))
                self.assertEqual(self.gate.asked[-1].get("continue_final_message"), True)
        # In one piece it says the same.
        asked, text = self.gate.asked[0], self.texts()[1]
        del asked["chat_template_kwargs"], asked["stream"], asked["stream_options"]
        status, whole = self.server.post({**asked, **ENDLESS, "max_tokens": 400})
        self.assertEqual((status, whole["choices"][0]["message"]["content"][:60]), (200, text[:60]))

    def test_what_branches_have_in_common(self):
        # The page sends no earlier reasoning back, so the server has none of it.
        script = """const done = arguments[0], said = (reasoning) => [{role: "user", content: "q"}, {role: "assistant", content: "a", reasoning}];
                    import("/branches.js").then(({ common }) => done([common(said("Hm."), said("")), common(said(""), said("").slice(0, 1))]))"""
        self.assertEqual(self.browser.execute_async_script(script), [2, 1])

    def test_another_client_has_begun_it(self):
        self.ask("Hello of another client", max_tokens=8, **ENDLESS)
        self.listed("Hello of another client")
        self.open("Hello")
        self.wait(lambda: len(self.texts()) == 2, "it does not open")
        self.say("More", 8)
        self.answered(2)
        self.wait(lambda: len(self.entries()) == 2, "the other client's stays as it is")
        self.assertEqual(sorted((e["messages"], e["conversation"] != "") for e in self.entries()), [(2, False), (4, True)])

    def test_a_name_given_by_hand(self):
        self.talk("one")
        name = self.entries()[0]["name"]
        self.server.stop()
        subprocess.run([KVRT, "store", "mv", self.dir / "store", name, "My notes/1.2"], check=True)
        self.server.start()
        self.browser.refresh()
        self.listed("My notes/1.2")
        self.wait(lambda: [t.text for t in self.all("#picture text.n")] == ["My notes/1.2"], "it is drawn by its name")
        self.open("My notes")
        self.wait(lambda: len(self.texts()) == 2, "it does not open")
        self.say("two", 8)
        self.answered(2)
        self.wait(lambda: len(self.entries()) == 2, "it stays as it is")
        self.assertIn(("My notes/1.2", 2), {(e["name"], e["messages"]) for e in self.entries()})
        self.find("#search").send_keys("notes")
        self.listed("My notes/1.2")

    def test_what_is_asked_for(self):
        self.say("one")
        self.answered()
        asked = self.gate.asked[-1]
        self.assertEqual((asked["temperature"], asked["min_p"]), (0.7, 0.05))
        self.script("document.getElementById('temperature').value = '0.25'")
        self.say("two")
        self.answered(2)
        self.assertEqual((self.gate.asked[-1]["temperature"], self.gate.asked[-1]["min_p"]), (0.25, 0.05))
        self.assertEqual(self.gate.asked[-1]["chat_template_kwargs"], asked["chat_template_kwargs"])

    def test_what_it_was_worth(self):
        for cached, told in ((384, "384 of 412 tokens were not computed again."), (0, "The 412 tokens of the prompt were computed; what comes next has them.")):
            usage = {"prompt_tokens": 412, "prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens": 1}
            events = [{"choices": [{"index": 0, "delta": {"content": "a"}}]}, {"choices": [], "usage": usage}]
            data = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
            self.gate.fakes = {"/v1/chat/completions": (200, "text/event-stream", data.encode())}
            self.say("one")
            self.answered()
            self.assertRegex(self.note(), rf"^{told} First token after \d+ ms\.$")
            self.find("#new").click()

    def test_the_first_questions(self):
        self.longest(8)
        starts = self.all("#starts button")
        self.assertEqual(len(starts), 3)
        text = starts[1].text
        starts[1].click()
        self.answered()
        self.assertEqual((self.texts()[0], self.find("#empty").is_displayed(), self.focused()), (text, False, "question"))

    def test_what_stays_in_sight(self):
        self.gate.pause = 0.05
        inside = """const r = arguments[0].getBoundingClientRect();
                    return r.width > 0 && r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth
                           && document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2) === arguments[0]"""
        self.say("word " * 60, 700)
        self.wait(lambda: len(self.texts()[1]) > 5, "the answer does not stream")
        sizes = [(360, 640), (768, 1000), (1280, 800), (1800, 1100)]
        for width, height in sizes:
            self.emulate(width, height)
            for part in ("list", "chat", "memory"):
                view = self.find(f"#views [data-view={part}]")
                if view.is_displayed():
                    view.click()
                with self.subTest(width=width, part=part):
                    self.assertTrue(self.script(inside, self.find("#stop")))
                    self.assertLessEqual(self.script("return document.documentElement.scrollHeight"), height)
            self.assertEqual(self.script("return getComputedStyle(document.getElementById('memory')).overflowY"), "auto")
            if self.find("#views [data-view=chat]").is_displayed():
                self.find("#views [data-view=chat]").click()
            end = "const s = document.getElementById('scroll'); return s.scrollTop + s.clientHeight >= s.scrollHeight - 24"
            self.wait(lambda: self.script(end), f"the end of the answer stays in sight at {width} points")
        # Who reads above is left there.
        self.emulate(1280, 400)
        self.wait(lambda: self.script("return document.getElementById('scroll').scrollTop") > 50, "there is something above")
        self.script("document.getElementById('scroll').scrollTop = 20")
        length = len(self.texts()[1])
        self.wait(lambda: len(self.texts()[1]) > length + 30, "the answer goes on")
        self.assertEqual(self.script("return document.getElementById('scroll').scrollTop"), 20)
        self.find("#stop").click()
        self.wait(lambda: "Stopped" in self.note(), "it does not stop")

    def test_it_fits(self):
        self.talk(LONG, "A-word-without-an-end-" * 20, tokens=30)
        self.wait(lambda: len(self.titles()) == 1, "it is listed")
        for name, media in (("light", {"prefers_color_scheme": "light"}), ("dark", {"prefers_color_scheme": "dark"})):
            for width, height in ((320, 640), (360, 740), (768, 1000), (1280, 900), (1800, 1100)):
                self.emulate(width, height, **media)
                for part in ("list", "memory", "chat"):
                    view = self.find(f"#views [data-view={part}]")
                    if not view.is_displayed() and part != "chat":
                        continue
                    if view.is_displayed():
                        view.click()
                    with self.subTest(width=width, part=part, scheme=name):
                        self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)
                        self.assertLessEqual(self.script("const s = document.getElementById('scroll'); return s.scrollWidth - s.clientWidth"), 0)
                        self.shot(f"{name}-{width}-{part}")
                        self.audit(f"{name}, {width}, {part}")

    def test_by_keyboard(self):
        for text in ("one", "two", "three"):
            self.find("#new").click()
            self.talk(text)
        self.listed("three", "two", "one")
        self.find("#search").click()
        self.type(Keys.TAB)
        focused = lambda: self.browser.switch_to.active_element.text.split("\n")[0]
        self.assertEqual(focused(), "three")  # the one that is shown
        seen = []
        for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.HOME, Keys.END, Keys.ARROW_UP):
            self.type(key)
            seen.append(focused())
        self.assertEqual(seen, ["two", "one", "one", "three", "one", "two"])
        self.type(Keys.ENTER)
        self.wait(lambda: self.texts()[:1] == ["two"], "it does not open")
        self.assertEqual(focused(), "two")
        self.type(Keys.TAB)
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("aria-label"), "Delete: two")
        self.type(Keys.ENTER)
        self.type(Keys.ENTER)
        self.listed("three", "one")
        self.assertEqual(self.focused(), "question")


class Thousand(PageCase):
    def test_1000_conversations(self):
        def begin(i):
            body = {"model": self.name, "max_tokens": 2, "chat_template_kwargs": {"kvrt_conversation": f"c{i}.a"},
                    "messages": [{"role": "user", "content": f"Question {i} of many"}]}
            return self.server.post(body)[0]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(set(pool.map(begin, range(1000))), {200})
        shown = "return document.querySelectorAll('#found li').length"
        for name in ("after a restart", "again", "once more"):
            if name == "after a restart":
                self.server.stop()
                self.server.start()
            self.browser.refresh()
            self.wait(lambda: self.script(shown) == 1000, "1,000 conversations", 30)
            took = self.script("return performance.getEntriesByName('list').at(-1).startTime")
            self.shot("1000-conversations")
            if took < 1000:  # else the machine was busy with something else
                break
        self.assertLess(took, 1000)
        search = """const s = document.getElementById('search'), begin = performance.now();
                    s.value = arguments[0];
                    s.dispatchEvent(new Event('input'));
                    document.body.offsetHeight;
                    return [performance.now() - begin, document.querySelectorAll('#found li').length]"""
        for text, count in (("question 77", 11), ("", 1000)):
            took, found = self.script(search, text)
            self.assertEqual(found, count)
            self.assertLess(took, 1000)


if __name__ == "__main__":
    unittest.main()
