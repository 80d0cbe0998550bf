"""The base of the page's tests: headless Chromium and a gate before the server. Screenshots are kept in the folder KVRT_SHOTS."""
import json
import os
import pathlib
import urllib.parse

from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from gate import Gate
from support import Case

SHOTS = pathlib.Path(os.environ["KVRT_SHOTS"])
SHOTS.mkdir(parents=True, exist_ok=True)
ENDLESS = {"logit_bias": {"2": -100, "0": -100}}


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = os.environ["KVRT_CHROMIUM"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(os.environ["KVRT_CHROMEDRIVER"]))


class PageCase(Case):
    """A browser and a gate before the server, for all tests of a class. Each test has a tab of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gate = Gate(cls.server)
        cls.addClassCleanup(cls.gate.close)
        cls.browser = open_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        super().setUp()
        self.gate.pause, self.gate.extra, self.gate.fakes, self.gate.delays = 0, dict(ENDLESS), {}, {}
        first = self.browser.current_window_handle
        self.browser.switch_to.new_window("tab")
        for handle in set(self.browser.window_handles) - {self.browser.current_window_handle}:
            self.browser.switch_to.window(handle)
            self.browser.close()
        self.browser.switch_to.window(next(iter(self.browser.window_handles)))
        self.assertNotEqual(first, self.browser.current_window_handle)
        self.emulate()
        self.browser.get(self.gate.url)

    def tearDown(self):
        # Chromium tells what the page's policy refused, and what of a script failed.
        bad = [e["message"] for e in self.browser.get_log("browser") if "Failed to load resource" not in e["message"]]
        self.assertEqual(bad, [])

    def emulate(self, width=1400, height=1000, **media):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def wait(self, true, what, seconds=20):
        try:
            WebDriverWait(self.browser, seconds, 0.05, ignored_exceptions=(WebDriverException, IndexError)).until(lambda _: true(), what)
        except TimeoutException:
            self.shot("failed-" + self.id().rpartition(".")[2])
            raise

    def shot(self, name):
        self.assertTrue(self.browser.save_screenshot(str(SHOTS / (name + ".png"))))

    def audit(self, where):
        found = Axe().run(self.browser)
        bad = [(v["id"], [n["html"][:120] + " " + str(n.get("any", [{}])[0].get("message", "")) for n in v["nodes"]]) for v in found["violations"]]
        self.assertEqual(bad, [], where)

    def type(self, *keys):
        self.browser.switch_to.active_element.send_keys(*keys)

    def focused(self):
        return self.browser.switch_to.active_element.get_attribute("id")

    def ready(self):
        self.wait(lambda: self.find("#send").is_enabled(), "the page does not know the model")

    def longest(self, tokens):
        self.script("document.getElementById('longest').value = arguments[0]", tokens)

    def say(self, text, tokens=30):
        self.ready()
        self.longest(tokens)
        self.find("#question").send_keys(text, Keys.ENTER)

    def note(self):
        return self.all("#talk .note")[-1].text

    def press(self, text, within="#talk"):
        """The last button of this text, or this label."""
        found = [b for b in self.all(f"{within} button") if text in (b.text, b.get_attribute("aria-label")) and b.is_displayed()]
        found[-1].click()

    def answers(self):
        return self.all("#talk li.assistant")

    def answered(self, count=None):
        """The last answer is whole; there are `count` of them."""
        self.wait(lambda: (self.answers()[-1].get_attribute("data-state"), count or len(self.answers())) == ("done", len(self.answers())), "there is no answer")

    def value(self, selector="#question"):
        return self.find(selector).get_property("value")

    def stream(self, text, size=1000):
        """What is asked next has this answer, in pieces."""
        parts = [{"content": text[i:i + size]} for i in range(0, len(text), size)]
        events = [{"choices": [{"index": 0, "delta": d}]} for d in parts] + [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        data = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
        self.gate.fakes["/v1/chat/completions"] = (200, "text/event-stream", data.encode())

    def refuse(self, status=500, code="internal_error"):
        """What is asked next is refused."""
        data = json.dumps({"error": {"message": "It was refused.", "code": code}})
        self.gate.fakes["/v1/chat/completions"] = (status, "application/json", data.encode())

    def texts(self):
        """What is said, as it came: Markdown, before it became elements."""
        return self.script("return [...document.querySelectorAll('#talk > li > .text')].map(e => e.source)")


class TalkCase(PageCase):
    """Each test begins without a conversation."""

    def setUp(self):
        for one in json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]:
            self.server.raw("DELETE", "/v1/kvrt/sessions/" + urllib.parse.quote(one["name"], safe=""))
        super().setUp()
        self.ready()

    def titles(self):
        return [e.get_property("textContent") for e in self.all("#found .title")]

    def listed(self, *titles):
        self.wait(lambda: self.titles() == list(titles), f"the list is not {titles}")

    def entries(self):
        return json.loads(self.server.raw("GET", "/v1/kvrt/sessions")[2])["data"]

    def open(self, title):
        [b for b in self.all("#found .open") if b.text.startswith(title)][0].click()

    def talk(self, *texts, tokens=12):
        for i, text in enumerate(texts):
            self.say(text, tokens)
            self.answered(i + 1)

    def variants(self):
        return self.script("return [...document.querySelectorAll('#talk .variants')].map(e => e.textContent)")

    def cached(self):
        cached, prompt = [int(word.replace(",", "")) for word in self.note().split() if word.replace(",", "").isdigit()][:2]
        return cached, prompt
