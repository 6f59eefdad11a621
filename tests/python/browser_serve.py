"""The page of `accel serve` in headless Chromium: chat with streaming, embeddings, a transcript, the status, on a phone and a desk, dark and light, and
nothing in the console.  Exits 77 where Debian's chromium and chromium-driver are not installed.

ACCEL_BROWSER_SHOTS: a directory that gets the pictures."""
import base64
import os
import shutil
import sys
import tempfile
import time
import unittest

import serving
from browser_report import Browser

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
SCREENS = [(390, 800, "dark", "rgb(20, 24, 30)"), (1280, 900, "light", "rgb(245, 246, 248)")]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        chat = os.path.join(cls.folder.name, "chat")
        shutil.copytree(serving.TEXT, chat)
        with open(os.path.join(chat, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        cls.server = serving.Server(serving.SENTENCE, chat, os.path.join(serving.FIXTURES, "speech", "many"))
        cls.routes = cls.server.get("/openapi.json").json()["paths"]
        cls.browser = Browser(script=True)
        cls.call("/url", {"url": f"http://127.0.0.1:{cls.server.port}/"})
        cls.until("return document.getElementById('model').options.length == 3")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    @classmethod
    def call(cls, path, data):
        return cls.browser.call("POST", cls.browser.session + path, data)

    @classmethod
    def run_script(cls, script, *arguments):
        return cls.call("/execute/sync", {"script": script, "args": list(arguments)})

    @classmethod
    def until(cls, script, seconds=30):
        end = time.monotonic() + seconds
        while not cls.run_script(script):
            assert time.monotonic() < end, cls.run_script("return document.body.innerText")
            time.sleep(0.05)

    def open(self, tab, model=None):
        self.run_script("document.querySelector(`[data-tab=${arguments[0]}]`).click()", tab)
        if model:
            self.assertEqual(self.run_script("return document.getElementById('model').value"), model)

    def submit(self, field, text, form):
        self.run_script("document.getElementById(arguments[0]).value = arguments[1]; document.getElementById(arguments[2]).requestSubmit()", field, text, form)

    def needs(self, route):
        if route not in self.routes:
            self.skipTest(f"there is no {route} yet")

    def no_problem(self):
        self.assertEqual(self.run_script("return document.getElementById('problem').textContent"), "")
        self.assertEqual([e["message"] for e in self.call("/se/log", {"type": "browser"})], [])

    def test_chat(self):
        self.needs("/v1/chat/completions")
        self.open("chat", "chat")
        self.submit("say", "Once upon a time", "chat-form")
        self.until("return document.getElementById('stop').hidden && document.querySelectorAll('.message').length == 2")
        said = self.run_script("return [...document.querySelectorAll('.message')].map(m => m.textContent)")
        self.assertEqual(said[0], "Once upon a time")
        self.assertGreater(len(said[1]), 5)
        self.no_problem()

    def test_embed(self):
        self.needs("/v1/embeddings")
        self.open("embed", "sentence")
        self.submit("texts", "a cat\na kitten\n", "embed-form")
        self.until("return document.querySelectorAll('#cosines td').length == 4")
        cosines = self.run_script("return [...document.querySelectorAll('#cosines td')].map(c => c.textContent)")
        self.assertEqual((cosines[0], cosines[3], cosines[1]), ("1.0000", "1.0000", cosines[2]))
        self.no_problem()

    def test_transcribe(self):
        self.needs("/v1/audio/transcriptions")
        self.open("transcribe", "many")
        element = list(self.call("/element", {"using": "css selector", "value": "#sound"}).values())[0]
        self.call(f"/element/{element}/value", {"text": os.path.join(serving.FIXTURES, "audio", "sounds", "s16.wav")})
        self.run_script("document.getElementById('transcribe-form').requestSubmit()")
        self.until("return document.getElementById('transcript').textContent.length > 5")
        self.no_problem()

    def test_status(self):
        self.open("status")
        self.until("return document.querySelectorAll('#figures dt').length > 20")
        self.no_problem()

    def test_screens(self):
        shots = os.environ.get("ACCEL_BROWSER_SHOTS")
        for tab in ("chat", "embed", "transcribe", "status"):
            self.open(tab)
            for width, height, scheme, colour in SCREENS:
                self.browser.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
                self.browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                seen = self.run_script("return [document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]")
                self.assertEqual(seen, [width, colour], (tab, width))
                if shots:
                    with open(os.path.join(shots, f"serve-{tab}-{width}-{scheme}.png"), "wb") as f:
                        f.write(base64.b64decode(self.browser.cdp("Page.captureScreenshot", format="png")["data"]))


if __name__ == "__main__":
    if not (shutil.which("chromium") and shutil.which("chromedriver")) or not serving.WITH_SERVER:
        print("skipped: chromium and chromium-driver are not installed, or there is no libmicrohttpd")
        sys.exit(77)
    unittest.main()
