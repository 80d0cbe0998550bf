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
