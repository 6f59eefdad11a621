"""The page of `accel report` in headless Chromium by the W3C protocol of chromedriver: 390 pixels dark and 1280 light, script off: no horizontal scroll, the
page's own colours, tables that scroll in their own boxes, a PDF.  Exits 77 where Debian's chromium and chromium-driver are not installed.

ACCEL_BROWSER_SHOTS: a directory that gets the pictures."""
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from test_report import Fixture

SCREENS = [(390, 800, "dark", "rgb(22, 22, 21)"), (1280, 900, "light", "rgb(251, 251, 249)"), (390, 800, "light", "rgb(251, 251, 249)"), (1280, 900, "dark", "rgb(22, 22, 21)")]
LOOK = """const page = document.documentElement, box = document.querySelector('section#families .box');
return {scroll: page.scrollWidth, inner: innerWidth, height: page.scrollHeight, colour: getComputedStyle(document.body).backgroundColor,
        cards: [...document.querySelectorAll('.card')].filter(c => c.getBoundingClientRect().right > innerWidth).length,
        text: Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)),
        noscript: document.querySelectorAll('script').length, boxes: document.querySelectorAll('.box').length}"""


class Browser:
    def __init__(self, script=False, more=("--disable-gpu",)):
        """more: arguments of the browser."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                self.call("GET", "/status")
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        options = {"args": ["--headless=new", "--no-sandbox", "--hide-scrollbars", *more],
                   "prefs": {"profile.managed_default_content_settings.javascript": 1 if script else 2}}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, method, path, data=None):
        body = json.dumps(data or {}).encode() if method == "POST" else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)["value"]

    def cdp(self, command, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, path, width, height, scheme):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("POST", self.session + "/url", {"url": "file://" + path})
        return self.call("POST", self.session + "/execute/sync", {"script": LOOK, "args": []})

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()


class Pages(Fixture):
    def test_screens(self):
        self.fill()
        page, shots = self.path("page.html", self.report()), os.environ.get("ACCEL_BROWSER_SHOTS")
        browser = Browser()
        self.addCleanup(browser.close)
        for width, height, scheme, colour in SCREENS:
            seen = browser.look(page, width, height, scheme)
            self.assertEqual((seen["scroll"], seen["inner"], seen["colour"], seen["cards"], seen["noscript"]), (width, width, colour, 0, 0), (width, scheme))
            self.assertGreater(seen["text"], 9, "labels of charts can be read")
            if shots:
                clip = {"x": 0, "y": 0, "width": width, "height": min(seen["height"], 6000), "scale": 1}
                png = browser.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
                with open(os.path.join(shots, f"report-{width}-{scheme}.png"), "wb") as f:
                    f.write(base64.b64decode(png))
        pdf = base64.b64decode(browser.cdp("Page.printToPDF", printBackground=True)["data"])
        self.assertTrue(pdf.startswith(b"%PDF") and len(pdf) > 10000)


if __name__ == "__main__":
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("skipped: chromium and chromium-driver are not installed")
        sys.exit(77)
    unittest.main()
