"""The page's branches in headless Chromium: each has a mark of its own, whatever was stopped, refused or said in another tab, and no word is lost."""
import time
import unittest
import urllib.parse

from selenium.webdriver.common.keys import Keys

from browser import ENDLESS, TalkCase

FILL = """let size = 1 << 22;
          for (let i = 0; size >= 256;) {
            try { sessionStorage.setItem("fill" + i, "x".repeat(size)); ++i; } catch { size >>= 1; }
          }"""


class Branches(TalkCase):
    def said(self, mark, *contents):
        """A session of this mark, which another tab made: questions and answers, the last answer as the model gives it."""
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
        self.ask(messages, extra_body={"chat_template_kwargs": {"kvrt_conversation": mark}, **ENDLESS})

    def marks(self):
        return sorted(e["conversation"] for e in self.entries())

    def path_of(self, title):
        return "/v1/kvrt/sessions/" + urllib.parse.quote(next(e["name"] for e in self.entries() if e["title"] == title), safe="")

    def choose(self, system):
        self.find("#settings-open").click()
        self.find("#system").clear()
        self.find("#system").send_keys(system)
        self.find("#settings button.main").click()

    # ---- a mark is one branch's ----

    def test_a_question_that_was_stopped(self):
        self.talk("one")
        self.gate.pause = 4
        self.say("Two, mistaken", 12)
        self.wait(lambda: any(e["last"] == "Two, mistaken" for e in self.entries()), "the server does not have it")
        self.find("#question").send_keys(Keys.ESCAPE)
        self.wait(lambda: self.value() == "Two, mistaken", "it does not come back")
        self.assertEqual(len(self.texts()), 2)
        self.gate.pause = 0
        self.find("#question").clear()
        self.say("Two, corrected", 12)
        self.answered(2)
        marks = self.marks()
        self.assertEqual((len(set(marks)), len({m.split(".")[0] for m in marks})), (2, 1), marks)
        for reloaded in (False, True):
            self.wait(lambda: self.variants()[2] == "\u20392 / 2\u203a", "the branch of the first question is not reached")
            self.press("The branch before")
            self.assertEqual(self.texts()[2], "Two, mistaken")
            self.press("The next branch")
            self.assertEqual(self.texts()[2], "Two, corrected")
            if not reloaded:
                self.browser.refresh()

    def test_a_question_that_was_refused_makes_none(self):
        self.talk("one")
        self.refuse(400, "context_length_exceeded")
        self.say("Two, too long")
        self.wait(lambda: "refused" in self.find("#failure").text, "the error is not shown")
        self.gate.fakes = {}
        self.find("#question").clear()
        self.say("Two", 12)
        self.answered(2)
        self.assertEqual((len(self.marks()), self.variants()), (1, [""] * 4))

    def test_another_tab_went_on(self):
        self.talk("one")
        mark = self.marks()[0]
        self.said(mark, *self.texts(), "Two of another tab")
        self.wait(lambda: "Two of another tab" in self.find("#found .open").text, "the list does not tell")
        self.say("Two of this tab", 12)
        self.answered(2)
        self.assertEqual((len(set(self.marks())), mark in self.marks()), (2, True))
        self.browser.refresh()
        self.wait(lambda: self.variants()[2:3] == ["\u20392 / 2\u203a"], "the other tab's words are not reached")

    def test_two_tabs_at_once(self):
        self.said("g.a", "one", "first", "left", "answered", "left again")
        self.said("g.a", "one", "first", "right", "answered", "right again")
        self.assertEqual(self.marks(), ["g.a", "g.a"])
        self.listed("one")
        self.open("one")
        self.wait(lambda: len(self.variants()) == 6 and self.variants()[2][1:6] in ("1 / 2", "2 / 2"), "the other branch is not reached")
        seen = {self.texts()[2]}
        self.press("The branch before" if self.variants()[2][1] == "2" else "The next branch")
        seen.add(self.texts()[2])
        self.assertEqual(seen, {"left", "right"})

    def test_another_system_message(self):
        self.talk("one")
        self.choose("Be brief.")
        self.say("two", 12)
        self.answered(2)
        self.assertEqual((len(set(self.marks())), self.gate.asked[-1]["messages"][0]), (2, {"role": "system", "content": "Be brief."}))
        self.choose("Be long.")
        self.press("Continue")  # with the system message that its beginning had
        self.answered(2)
        self.assertEqual((self.gate.asked[-1]["messages"][0]["content"], self.gate.asked[-1]["continue_final_message"]), ("Be brief.", True))

    # ---- no word is lost ----

    def test_what_the_server_has_not_kept(self):
        self.said("g.a", "one")
        self.listed("one")
        self.open("one")
        self.wait(lambda: len(self.texts()) == 2, "it does not open")
        said = self.texts()
        path = self.path_of("one")
        self.gate.fakes = {path: (500, "application/json", b'{"error": {"message": "It cannot be read."}}')}
        self.press("Continue")
        self.wait(lambda: "cannot be read" in self.note(), "the error is not shown")
        self.gate.fakes = {}
        self.press("Fork", "#talk li.assistant")
        self.press("Continue")
        self.wait(lambda: "has not kept this answer" in self.note(), "it does not tell")
        self.assertEqual(self.texts(), said)
        self.press("Retry")
        self.answered()
        self.assertEqual(self.texts()[0], "one")

    def test_another_clients_answer_is_not_continued(self):
        self.ask("Hello of another client", max_tokens=8, **ENDLESS)
        self.listed("Hello of another client")
        self.open("Hello")
        self.wait(lambda: "was cut" in self.note(), "it does not open")
        self.assertFalse(self.find("#talk .again").is_displayed())  # the server would go on with it under its own mark alone
        said = self.texts()
        self.press("Retry")
        self.answered()
        self.assertEqual(sorted(e["conversation"] == "" for e in self.entries()), [False, True])
        for _ in range(2):
            time.sleep(1.5)  # the list comes again
            self.press("The branch before")
            self.assertEqual(self.texts(), said)
            time.sleep(1.5)
            self.press("The next branch")
            self.assertNotEqual(self.texts(), said)

    def test_a_question_without_an_answer(self):
        self.talk("one")
        self.gate.pause = 4
        self.say("Two", 12)
        self.wait(lambda: any(e["last"] == "Two" for e in self.entries()), "the server does not have it")
        self.browser.refresh()
        self.wait(lambda: (self.value(), len(self.texts())) == ("Two", 2), "it does not come back")

    def test_the_conversation_that_is_shown_is_chosen(self):
        self.gate.pause = 0.05
        self.say("one", 400)
        self.wait(lambda: len(self.texts()[1]) > 5 and self.titles() == ["one"], "the answer does not stream")
        self.open("one")
        length = len(self.texts()[1])
        self.wait(lambda: len(self.texts()[1]) > length + 10, "the answer does not go on")
        self.find("#stop").click()
        self.wait(lambda: "Stopped" in self.note(), "it does not stop")

    def test_retry_and_edit_that_are_refused(self):
        self.talk("one", "two")
        said = self.texts()
        self.refuse()
        self.press("Retry")
        self.wait(lambda: "refused" in self.find("#failure").text, "the error is not shown")
        self.assertEqual((self.texts(), self.value(), self.variants()), (said, "", [""] * 4))
        self.press("Edit")
        self.type(Keys.END, " and three", Keys.ENTER)
        self.wait(lambda: self.value() == "two and three", "the new text is not kept")
        self.assertEqual((self.texts(), self.variants()), (said, [""] * 4))
        self.gate.fakes = {}
        self.find("#question").clear()
        self.say("three", 12)
        self.answered(3)
        self.assertEqual((self.texts()[:4], len(self.marks())), (said, 1))

    def test_a_question_while_another_conversation_is_opened(self):
        for text in ("one", "two"):
            self.find("#new").click()
            self.talk(text)
        self.listed("two", "one")
        self.gate.delays = {self.path_of("one"): 2}
        self.open("one")
        self.wait(lambda: self.find("#opening").is_displayed(), "it does not tell what it does")
        self.say("more", 12)
        self.answered(2)
        self.assertFalse(self.find("#opening").is_displayed())
        time.sleep(2.5)
        self.assertEqual((self.texts()[0], self.texts()[2]), ("two", "more"))
        self.open("one")
        self.wait(lambda: self.texts()[0] == "one" and not self.find("#opening").is_displayed(), "it does not open")

    def test_no_room_to_keep_it(self):
        self.talk("one")
        self.script(FILL)
        self.say("A long question. " * 20, 12)
        self.answered(2)
        self.assertIn("no room", self.find("#failure").text)
        said = self.texts()
        self.browser.refresh()
        self.wait(lambda: self.texts() == said, "it is not opened from the server")

    # ---- where one reads ----

    def test_a_branch_comes_where_the_other_was(self):
        long = "A line of words, which takes its room in the talk. "
        self.emulate(1400, 420)
        for mark, third in (("g.a", "left"), ("g.b", "right")):
            self.said(mark, "one", long, third, *[long] * 8)
        self.listed("one")
        self.open("one")
        self.wait(lambda: len(self.variants()) == 12 and self.variants()[2] != "", "the branches are not read")
        for label, other in (("The branch before", "left"), ("The next branch", "right")):
            button = self.find(f"#talk li:nth-child(3) [aria-label='{label}']")
            self.script("arguments[0].scrollIntoView({ block: 'center' })", button)
            before = self.script("return arguments[0].getBoundingClientRect().top", button)
            button.click()
            self.assertEqual(self.texts()[2], other)
            after = self.script("return document.querySelector('#talk li:nth-child(3) .variants').getBoundingClientRect().top")
            self.assertLess(abs(after - before), 8)
            # Whatever draws it anew, a button that leads nowhere is none.
            ends = "return [...document.querySelectorAll('#talk li:nth-child(3) .variants button')].map(b => b.disabled)"
            seen = self.script(ends)
            self.script("const chat = await import('/chat.js'), { modelNow } = await import('/settings.js'); chat.setModel(modelNow(), {})")
            self.assertEqual((self.script(ends), sorted(seen)), (seen, [False, True]))

    def test_who_reads_near_the_end(self):
        self.emulate(1280, 400)
        self.gate.pause = 0.05
        self.say("word " * 200, 700)
        top = "return document.getElementById('scroll').scrollTop"
        self.wait(lambda: len(self.texts()[1]) > 100 and self.script(top) > 50, "the answer does not stream")
        before = self.script("const s = document.getElementById('scroll'); s.scrollTop -= 12; return s.scrollTop")
        length = len(self.texts()[1])
        self.wait(lambda: len(self.texts()[1]) > length + 60, "the answer goes on")
        self.assertEqual(self.script(top), before)
        self.script("const s = document.getElementById('scroll'); s.scrollTop = s.scrollHeight")
        length = len(self.texts()[1])
        self.wait(lambda: len(self.texts()[1]) > length + 200, "the answer goes on")
        end = "const s = document.getElementById('scroll'); return s.scrollTop + s.clientHeight >= s.scrollHeight - 24"
        self.wait(lambda: self.script(end), "it follows again")
        self.find("#stop").click()
        self.wait(lambda: "Stopped" in self.note(), "it does not stop")


if __name__ == "__main__":
    unittest.main()
