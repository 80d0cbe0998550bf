"""The page for hands, eyes and ears in headless Chromium: keys, touch, input methods, the focus, drafts, directions of text, paper, slow servers."""
import json
import time
import unittest

from selenium.webdriver.common.keys import Keys

from browser import TalkCase

ARABIC = "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645"
# Of the first text in an element: whether it begins at the left, and the direction that its element has.
SIDE = """const e = document.querySelector(arguments[0]), range = document.createRange();
          range.selectNodeContents(e);
          const [all, text] = [e.getBoundingClientRect(), range.getClientRects()[0]];
          return [text.left - all.left < all.right - text.right, getComputedStyle(e).direction]"""


class Hands(TalkCase):
    def touch(self, enabled=True):
        self.browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": enabled, "maxTouchPoints": 1})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.setTouchEmulationEnabled", {"enabled": False})
        self.browser.refresh()
        self.ready()
        self.assertEqual(self.script("return matchMedia('(pointer: coarse)').matches"), enabled)

    def seen(self, part):
        return self.script(f"return getComputedStyle(document.getElementById('{part}')).visibility") == "visible"

    def hold(self, text="one"):
        """An answer that comes slowly."""
        self.gate.pause = 0.05
        self.say(text, 400)
        self.wait(lambda: len(self.texts()[-1]) > 5, "the answer does not stream")

    # ---- keys ----

    def test_the_focus_when_the_button_sends(self):
        self.gate.pause = 0.05
        self.longest(400)
        self.find("#question").send_keys("one")
        self.find("#send").send_keys(Keys.ENTER)
        self.wait(lambda: len(self.answers()) == 1 and self.focused() == "stop", "the focus is lost")
        self.type(Keys.ESCAPE)
        self.wait(lambda: self.find("#send").is_displayed(), "Escape does not stop")
        self.assertEqual(self.focused(), "question")

    def test_escape(self):
        self.hold()
        self.find("#settings-open").click()
        self.type(Keys.ESCAPE)
        self.wait(lambda: not self.find("#settings").is_displayed(), "it does not close")
        self.assertFalse(self.find("#send").is_displayed())  # the answer goes on
        self.find("#scroll").click()
        self.type(Keys.ESCAPE)
        self.wait(lambda: "Stopped" in self.note(), "Escape does not stop", 5)

    def test_an_input_method(self):
        press = """const field = document.activeElement;
                   for (const how of [{ isComposing: true }, { keyCode: 229 }])
                     for (const key of ["Enter", "Escape"]) field.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...how }))"""
        self.find("#question").send_keys("one")
        self.script(press)
        self.assertEqual((self.texts(), self.value()), ([], "one"))
        self.type(Keys.ENTER)
        self.answered()
        self.press("Edit")
        self.script(press)
        self.assertTrue(self.find(".edit").is_displayed())
        self.assertEqual(len(self.gate.asked[-1]["messages"]), 1)

    # ---- touch ----

    def test_touch(self):
        self.emulate(360, 740)
        self.touch()
        self.longest(8)
        self.script("document.getElementById('starts').firstElementChild.click()")
        self.answered()
        self.assertNotEqual(self.focused(), "question")  # no keyboard over the answer
        self.press("Retry")
        self.answered()
        self.press("Continue")
        self.answered()
        self.assertNotEqual(self.focused(), "question")
        asked = len(self.gate.asked)
        self.find("#question").send_keys("one", Keys.ENTER, "two")
        self.assertEqual((self.value(), len(self.gate.asked)), ("one\ntwo", asked))
        self.assertEqual(self.script("return getComputedStyle(document.getElementById('question')).fontSize"), "16px")
        self.find("#views [data-view=memory]").click()
        self.find("#send").click()
        self.wait(lambda: self.seen("chat"), "the answer is not in sight")
        self.answered(2)
        self.assertIn("Enter begins", self.find("#question-note").get_property("textContent"))

    # ---- the focus ----

    def test_the_focus_where_a_conversation_opens(self):
        self.talk("one")
        self.find("#new").click()
        self.emulate(360, 740)
        self.find("#views [data-view=list]").click()
        self.open("one")
        self.wait(lambda: len(self.texts()) == 2 and self.seen("chat"), "it does not open")
        self.assertEqual(self.focused(), "scroll")

    def test_the_focus_in_a_row_that_changes(self):
        self.talk("one")
        name = self.entries()[0]["name"]
        for tokens in (40, 80):
            session = {"name": name, "state": "computing", "tokens": tokens, "computed": 32, "on_disk": 0, "blocks": ["a", "b", "c"][:tokens // 32 + 1]}
            data = {"object": "kvrt.graph", "block_tokens": 32, "sessions": [session], "more": 0, "unread": 0}
            self.gate.fakes = {"/v1/kvrt/graph": (200, "application/json", json.dumps(data).encode())}
            self.wait(lambda: str(tokens) in self.find("#rows").text, "it is not drawn")
            if tokens == 40:
                self.find("#rows button").send_keys("")
                self.script("document.querySelector('#rows button').focus()")
        self.assertEqual(self.script("return document.activeElement.className"), "name")

    def test_what_is_copied_is_said(self):
        self.talk("one")
        self.browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        self.press("Copy the answer")
        self.wait(lambda: self.find("#said").get_property("textContent") == "Copied", "it is not said")

    # ---- drafts ----

    def test_drafts(self):
        self.talk("one", "two")
        self.press("Edit", "#talk li:nth-child(3)")
        self.type(Keys.END, ", another")
        self.longest(0)
        self.type(Keys.ENTER)
        self.wait(lambda: self.find("#settings").is_displayed(), "the mistake in the field is not told")
        self.type(Keys.ESCAPE)
        self.longest(12)
        self.assertEqual(self.value(".edit textarea"), "two, another")
        self.say("three", 12)
        self.answered(3)
        self.assertEqual(self.value(".edit textarea"), "two, another")
        self.assertFalse(self.find("#talk li:nth-child(3) > .acts").is_displayed())
        self.find(".edit textarea").send_keys(Keys.ESCAPE)
        self.assertTrue(self.find("#talk li:nth-child(3) > .acts").is_displayed())
        self.find("#question").send_keys("a draft")
        self.press("Fork", "#talk li:nth-child(3)")
        self.assertEqual(self.value(), "two\na draft")

    # ---- directions ----

    def test_directions(self):
        self.stream(f"Hello\n\n{ARABIC}\n\n```\na = b;\n```\n\n- {ARABIC}\n- English\n- {ARABIC} `a.b(c)`\n\n| {ARABIC} | a |\n|-|-|\n| b | {ARABIC} |\n")
        self.say(ARABIC)
        self.answered()
        answer = "#talk li.assistant .text "
        self.assertEqual([self.script(SIDE, answer + part)[0] for part in ("p:nth-of-type(1)", "p:nth-of-type(2)")], [True, False])
        self.assertEqual(self.script(SIDE, answer + "pre"), [True, "ltr"])
        self.assertEqual([self.script(SIDE, answer + f"li:nth-child({i}) p") for i in (1, 2)], [[False, "rtl"]] * 2)
        self.assertEqual(self.script("return getComputedStyle(document.querySelector(arguments[0])).direction", answer + "li code"), "ltr")
        self.assertEqual([self.script(SIDE, answer + part)[0] for part in ("th", "th + th", "td", "td + td")], [False] * 4)
        first, second = (self.script("return document.querySelector(arguments[0]).getBoundingClientRect().left", answer + part) for part in ("th", "th + th"))
        self.assertGreater(first, second)
        self.shot("directions")
        self.find("#question").send_keys(ARABIC)
        self.assertEqual(self.script("return getComputedStyle(document.getElementById('question')).direction"), "rtl")

    def test_signs_that_join_letters(self):
        title = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb \u202eb"
        self.talk(title)
        self.listed(title.replace("\u202e", "\\u{202e}"))

    # ---- paper, colours of the user's own ----

    def test_paper(self):
        self.emulate(800, 600)
        self.stream("\n\n".join(f"Paragraph {i}" for i in range(60)))
        self.say("one")
        self.answered()
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.assertGreater(self.script("return document.documentElement.scrollHeight"), 1200)
        hidden = "header, #conversations, #memory, #ask, #talk .acts"
        self.assertEqual(self.script("return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length", hidden), 0)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_colours_of_the_users_own(self):
        self.talk("one")
        self.listed("one")
        self.emulate(800, 600, forced_colors="active")
        outline = "return getComputedStyle(document.querySelector(arguments[0])).outlineStyle"
        self.find("#question").click()
        for part in ("#views [aria-pressed=true]", "#found li", "#ask .field"):
            self.assertEqual(self.script(outline, part), "solid", part)
        self.shot("forced-colours")

    # ---- servers that are slow, or others ----

    def test_a_server_that_does_not_answer(self):
        self.gate.delays = {"/v1/kvrt/graph": 17}
        self.wait(lambda: "does not answer" in self.find("#server-note").text, "the page waits for ever", 25)
        self.gate.delays = {}
        self.wait(lambda: not self.find("#server-note").is_displayed(), "the page does not go on", 25)

    def test_hidden_memory_is_read_seldom(self):
        reads = {}
        for width in (1400, 800):
            self.find("#new").click()
            self.emulate(width, 800)
            self.hold()
            self.gate.read.clear()
            time.sleep(3)
            reads[width] = self.gate.read.count("/v1/kvrt/graph")
            self.find("#stop").click()
            self.wait(lambda: "Stopped" in self.note(), "it does not stop")
        self.assertGreater(reads[1400], 4)
        self.assertLessEqual(reads[800], 1)
        self.gate.read.clear()
        self.find("#views [data-view=memory]").click()
        self.wait(lambda: "/v1/kvrt/graph" in self.gate.read, "it is not read when it is shown", 2)

    def test_another_model(self):
        models = json.loads(self.server.raw("GET", "/v1/models")[2])
        models["data"][0]["id"] = "another"
        self.gate.fakes["/v1/models"] = (200, "application/json", json.dumps(models).encode())
        self.refuse(404, "model_not_found")
        self.say("one")
        self.wait(lambda: self.find("#model").text.startswith("another"), "the page asks the model before")
        models["data"][0]["id"] = "a third"
        self.gate.fakes = {"/v1/kvrt/graph": (502, "text/html", b"no"), "/v1/models": (200, "application/json", json.dumps(models).encode())}
        self.wait(lambda: self.find("#model").text.startswith("a third"), "the page asks the model before")


if __name__ == "__main__":
    unittest.main()
