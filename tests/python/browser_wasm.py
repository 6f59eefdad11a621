"""The WebAssembly module in headless Chromium, in a page that is cross-origin isolated (threads) and in one that is not: goldens within their bounds,
MiniLM's vectors beside the native library's, pictures, tokens as they come, errors, files of all kinds, and the page of examples/browser; and on the
browser's WebGPU, of which Chromium has SwiftShader, which computes on the processor.  Builds the module first (scripts/wasm).  Exits 77 where emscripten,
or Debian's chromium and chromium-driver, are not installed.

ACCEL_BROWSER_SHOTS: a directory that gets the pictures.  ACCEL_BROWSER_RATES=1: also prints how fast MiniLM runs."""
import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import unittest

from browser_report import Browser
from serving import ACCEL, FIXTURES, ROOT

BUILT = os.path.join(ROOT, "build", "browser")
MINILM = os.path.expanduser("~/.cache/accel/models/sentence-transformers/all-MiniLM-L6-v2")
TEXTS = ["The weather is nice today", "", "x " * 300, "Grüße, 世界"]
# A class of each kind: encoder, vision, decoder, encoder-decoder, speech, states, experts; with the precisions they are run at.
GOLDENS = [("bert", "golden.BertModel.right.safetensors", "fp32"), ("bert", "golden.BertModel.right.safetensors", "int8"), ("bert_bf16", None, "bf16"),
           ("bert_wide", "golden.BertModel.right.safetensors", "int4"), ("bert_wide", "golden.BertModel.right.safetensors", "fp8"),
           ("bert_wide", "golden.BertModel.right.safetensors", "fp4"), ("bert_wide", "golden.BertModel.right.safetensors", "fp16"),
           ("vit", "golden.ViTForImageClassification.batch.safetensors", "fp32"), ("vit", "golden.ViTModel.wide.safetensors", "int8"), ("convnext", None, "fp32"),
           ("resnet", None, "int8"), ("llama", None, "fp32"), ("gpt2", None, "fp32"), ("mamba", None, "fp32"), ("qwen3_moe", None, "fp32"), ("whisper", None, "fp32"),
           ("t5", None, "fp32"), ("qwen3_next", None, "fp32"), ("segformer", None, "fp32")]

GPU_GOLDENS = [("bert", "golden.BertModel.right.safetensors", "fp32"), ("bert", "golden.BertModel.right.safetensors", "int8"),
               ("vit", "golden.ViTForImageClassification.batch.safetensors", "fp32"), ("vit", "golden.ViTModel.wide.safetensors", "int8"), ("llama", None, "fp32"),
               ("bert_wide", "golden.BertModel.right.safetensors", "int4"), ("resnet", None, "fp32"), ("t5", None, "fp16")]
SWIFTSHADER = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan")


class Handler(http.server.SimpleHTTPRequestHandler):
    """/isolated/... and /plain/... are the same files, the first with the two headers that shared memory wants."""
    def translate_path(self, path):
        kind, _, rest = path.lstrip("/").partition("/")
        rest = rest.split("?")[0]
        for folder in (BUILT, os.path.join(ROOT, "examples", "browser"), ROOT):
            found = os.path.join(folder, rest)
            if os.path.isfile(found):
                return found
        return os.path.join(MINILM, rest[len("minilm/"):]) if rest.startswith("minilm/") else os.path.join(ROOT, "none")

    def end_headers(self):
        if self.path.startswith("/isolated/"):
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *arguments):
        pass


Handler.extensions_map = {**Handler.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}


def files_below(directory):
    return sorted(os.path.relpath(os.path.join(d, f), directory) for d, _, names in os.walk(directory) for f in names)


PRELUDE = """
const finish = arguments[arguments.length - 1], given = arguments[0];
const load = async (base, names) => Object.fromEntries(await Promise.all(names.map(async (name) => [name, await fetch(base + name)])));
(async () => { const accel = await import('./accel.mjs'); %s })().then((value) => finish({value}), (error) => finish({error: String(error), status: error.status}));
"""


class Opened:
    """A browser with the page, and what tests say to it."""
    kind = "plain"
    arguments = ("--disable-gpu",)
    device = "cpu"

    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.browser = Browser(script=True, more=cls.arguments)
        cls.call("/timeouts", {"script": 300000})
        cls.browser.cdp("Emulation.setDeviceMetricsOverride", width=800, height=900, deviceScaleFactor=1, mobile=False)
        cls.call("/url", {"url": f"http://127.0.0.1:{cls.server.server_port}/{cls.kind}/tasks.html"})

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.shutdown()
        cls.server.server_close()

    @classmethod
    def call(cls, path, data):
        return cls.browser.call("POST", cls.browser.session + path, data)

    def answer(self, script, **given):
        """What the script returns; its failure as a dictionary with "error"."""
        found = self.call("/execute/async", {"script": PRELUDE % script, "args": [given]})
        return found["value"] if "value" in found else found

    def model(self, *parts):
        directory = os.path.join(FIXTURES, *parts)
        return {"base": "/".join(("tests/fixtures", *parts, "")), "names": files_below(directory)}

    def shot(self, name):
        folder = os.environ.get("ACCEL_BROWSER_SHOTS")
        if folder:
            with open(os.path.join(folder, f"{name}-{self.kind}.png"), "wb") as f:
                f.write(base64.b64decode(self.browser.cdp("Page.captureScreenshot", format="png")["data"]))

    def check_goldens(self, goldens):
        for name, golden, precision in goldens:
            with self.subTest(model=name, precision=precision):
                model = self.model("models", name)
                golden = golden or next(n for n in model["names"] if n.startswith("golden"))
                architecture = golden.split(".")[1]
                found = self.answer("return accel.verify(await load(given.base, given.names), given.golden, given.how)", **model, golden=golden,
                                    how={"precision": precision, "architecture": architecture, "device": self.device})
                self.assertTrue(found.get("pass"), found)

    def check_generation(self):
        with open(os.path.join(FIXTURES, "pipelines", "text", "expected.json"), encoding="utf-8") as f:
            expected = json.load(f)
        found = self.answer("""const run = await accel.pipeline('text-generation', await load(given.base, given.names), {device: given.device}), all = [];
            for (const options of given.options) {
              const streamed = given.prompts.map(() => ''), told = [];
              const answers = await run(given.prompts, {...options, onToken: ({prompt, text}) => { streamed[prompt] += text; told.push(performance.now()); }});
              all.push({texts: answers.map((a) => a.text), streamed, events: told.length, tokens: answers[0].new_tokens});
            }
            await run.dispose(); return all""", **self.model("pipelines", "text"), device=self.device, prompts=expected["prompts"],
                            options=[r["options"] for r in expected["results"][:3]])
        self.assertIsInstance(found, list, found)
        for mine, result in zip(found, expected["results"]):
            self.assertEqual(mine["texts"], result["texts"])
            self.assertEqual(mine["streamed"], result["texts"])
            self.assertEqual(mine["events"], mine["tokens"])

    def check_pictures(self):
        with open(os.path.join(FIXTURES, "media", "vit", "golden.json"), encoding="utf-8") as f:
            golden = json.load(f)["cases"][0]
        found = self.answer("""const run = await accel.pipeline('image-classification', await load(given.base, given.names), {device: given.device});
            const files = await load('tests/fixtures/', given.files), answers = await run(Object.values(files));
            const other = await run(await fetch('tests/fixtures/image/pictures/turned.webp'));
            await run.dispose(); return {answers, other}""", **self.model("media", "vit"), device=self.device, files=golden["files"])
        self.assertIn("answers", found, found)
        for mine, theirs in zip(found["answers"], golden["want"]):
            self.assertEqual([label["label"] for label in mine], [label["label"] for label in theirs[:5]])
            self.assertLess(max(abs(a["score"] - b["score"]) for a, b in zip(mine, theirs)), 1e-5)
        self.assertEqual(len(found["other"]), 5)  # decoded by the browser

    def check_embeddings(self, bound, batch):
        """MiniLM beside the native library's vectors, and its rate with so many texts in a call; how many threads it had."""
        if not os.path.isfile(os.path.join(MINILM, "model.safetensors")):
            self.skipTest("MiniLM is not there: scripts/fetch-minilm")
        names = [n for n in files_below(MINILM) if not n.endswith((".bin", ".onnx", ".h5"))]
        native = subprocess.run([ACCEL, "embed", "--json", "--device", "cpu", MINILM, *TEXTS], capture_output=True, text=True, check=True)
        wanted = json.loads(native.stdout)["embeddings"]
        found = self.answer("""const run = await accel.pipeline('feature-extraction', await load('minilm/', given.names), {device: given.device});
            const begin = performance.now(), first = await run(given.texts[0]), once = performance.now() - begin;
            const many = performance.now();
            for (let i = 0; i < given.rounds; i++) await run(Array(given.batch).fill(given.texts[0]));
            const rate = given.batch * given.rounds / ((performance.now() - many) / 1000), all = (await run(given.texts)).map((v) => [...v]);
            const threads = run.threads; await run.dispose();
            return {all, first: [...first], once, rate, threads}""", names=names, texts=TEXTS, device=self.device,
                            rounds=10 if self.device == "cpu" else 1, batch=batch)
        self.assertIn("all", found, found)
        for mine, theirs in zip(found["all"] + [found["first"]], wanted + [wanted[0]]):
            self.assertEqual(len(mine), 384)
            self.assertLess(max(abs(a - b) for a, b in zip(mine, theirs)), bound)
        if os.environ.get("ACCEL_BROWSER_RATES"):
            print(f"{self.kind} {self.device}: MiniLM, {found['threads']} threads: first text {found['once']:.0f} ms, {found['rate']:.2g} texts a second in {batch}s")
        return found["threads"]

    def check_page(self):
        """examples/browser: tokens reach the page; looked at by a person with ACCEL_BROWSER_SHOTS."""
        self.call("/url", {"url": f"http://127.0.0.1:{self.server.server_port}/{self.kind}/tasks.html"})
        self.answer("""const set = (id, files) => { const moved = new DataTransfer(); for (const f of files) moved.items.add(f); document.getElementById(id).files = moved.files; };
            const blobs = await Promise.all(Object.entries(await load(given.base, given.names)).map(async ([name, r]) => new File([await r.blob()], name)));
            set('model', blobs); document.getElementById('task').value = 'text-generation'; document.getElementById('text').value = 'Once upon a time';
            document.getElementById('device').value = given.device; document.querySelector('button').click(); return 1""",
                    **self.model("pipelines", "text"), device=self.device)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            status = self.answer("return document.getElementById('status').textContent")
            if " ms" in status or "rror" in status:
                break
            time.sleep(0.1)
        self.assertRegex(status, self.device + r".*fp32.*threads: \d+.*tokens a second, \d+ ms")
        self.assertGreater(len(self.answer("return document.getElementById('output').value")), len("Once upon a time"))
        self.shot(f"generation-{self.device}")


class Page(Opened):
    def test_goldens(self):
        self.check_goldens(GOLDENS)

    def test_detect(self):
        found = self.answer("return accel.detect()")
        devices = {d["name"]: d for d in found["devices"]}
        self.assertTrue(devices["cpu"]["usable"])
        self.assertEqual(devices["cpu"]["arch"], "simd128")
        self.assertEqual([p["path"] for p in found["plugins"] if p.get("name") == "cpu"], ["built-in:cpu"])
        self.assertRegex(devices["webnn"]["reason"], "navigator.ml")
        self.assertRegex(devices["webgpu"]["reason"], "shares none" if self.kind == "plain" else "no WebGPU")
        found = self.answer("return accel.pipeline('feature-extraction', await load(given.base, given.names), {device: 'webgpu'})", **self.model("pipelines", "base"))
        self.assertRegex(found["error"], "Cross-Origin-Embedder-Policy" if self.kind == "plain" else "no WebGPU")

    def test_embeddings(self):
        self.assertEqual(self.check_embeddings(2e-6, 16) > 1, self.kind == "isolated" and os.cpu_count() > 1)

    def test_generation(self):
        self.check_generation()

    def test_pictures(self):
        self.check_pictures()

    def test_files(self):
        """The same model as Files of an input, as a Map, as bytes, and as a folder of the origin's private file system."""
        found = self.answer("""const responses = await load(given.base, given.names), blobs = new Map();
            for (const [name, response] of Object.entries(responses)) blobs.set(name, await response.blob());
            const files = [...blobs].filter(([name]) => !name.includes('/')).map(([name, blob]) => new File([blob], name));
            const bytes = Object.fromEntries(await Promise.all([...blobs].map(async ([name, blob]) => [name, await blob.arrayBuffer()])));
            const root = await navigator.storage.getDirectory(), folder = await root.getDirectoryHandle('model', {create: true});
            for (const [name, blob] of blobs) {
              const parts = name.split('/'), last = parts.pop();
              let at = folder;
              for (const part of parts) at = await at.getDirectoryHandle(part, {create: true});
              const out = await (await at.getFileHandle(last, {create: true})).createWritable();
              await out.write(blob); await out.close();
            }
            const vectors = [];
            for (const model of [blobs, bytes, folder, files]) {
              const run = await accel.pipeline('feature-extraction', model), found = await run('a text');
              vectors.push([...(found instanceof Float32Array ? found : found[0])]); await run.dispose();
            }
            return vectors""", **self.model("pipelines", "base"))
        self.assertIsInstance(found, list, found)
        self.assertTrue(all(v == found[0] and len(v) > 1 for v in found), found)

    def test_errors(self):
        model = self.model("pipelines", "base")
        for script, wanted in (("return accel.pipeline('poetry', {})", "task 'poetry' is not there"), ("return accel.pipeline('feature-extraction', {})", "no config.json"),
                               ("const f = await load(given.base, given.names); delete f['model.safetensors']; return accel.pipeline('feature-extraction', f)", "safetensors"),
                               ("return accel.pipeline('feature-extraction', {'config.json': await fetch('none.json')})", "HTTP 404"),
                               ("return accel.pipeline('feature-extraction', {'config.json': '{}'})", "safetensors"),
                               ("const run = await accel.pipeline('image-classification', await load(given.base, given.names));"
                                "return run(await fetch('tests/fixtures/image/pictures/rgb.png'))", "class|picture|image"),
                               ("const run = await accel.pipeline('image-classification', await load('tests/fixtures/media/vit/', ['config.json', 'model.safetensors', "
                                "'preprocessor_config.json'])); return run(new Blob(['no picture']))", "neither the library nor the browser"),
                               ("const run = await accel.pipeline('text-generation', await load('tests/fixtures/pipelines/text/', given.text)); return run('x', {poems: 1})", "poems")):
            with self.subTest(script=script):
                found = self.answer(script, **model, text=files_below(os.path.join(FIXTURES, "pipelines", "text")))
                self.assertRegex(str(found.get("error") if isinstance(found, dict) else found), wanted)
        after = self.answer("const run = await accel.pipeline('feature-extraction', await load(given.base, given.names)); return (await run('a text')).length", **model)
        self.assertGreater(after, 0)  # nothing of that has ended the module

    def test_cancel(self):
        found = self.answer("""const run = await accel.pipeline('text-generation', await load(given.base, given.names)), stop = new AbortController();
            return run(Array(300).fill('Once'), {max_new_tokens: 100, min_new_tokens: 100, onToken: () => stop.abort(), signal: stop.signal})""",
                            **self.model("pipelines", "text"))
        self.assertEqual(found.get("status") if isinstance(found, dict) else found, "unsupported" if self.kind == "plain" else "cancelled", found)

    def test_page(self):
        self.check_page()


class Plain(Page, unittest.TestCase):
    kind = "plain"


class Isolated(Page, unittest.TestCase):
    kind = "isolated"


class WebGpu(Opened, unittest.TestCase):
    kind = "isolated"
    arguments = SWIFTSHADER
    device = "webgpu"

    def test_detect(self):
        found = self.answer("return accel.detect()")
        row = next(d for d in found["devices"] if d["name"] == "webgpu:0")
        self.assertTrue(row["usable"], row)

    def test_goldens(self):
        self.check_goldens(GPU_GOLDENS)

    def test_embeddings(self):
        self.check_embeddings(2e-5, 4)

    def test_generation(self):
        self.check_generation()

    def test_pictures(self):
        self.check_pictures()

    def test_page(self):
        self.check_page()

    def test_errors(self):
        found = self.answer("return accel.pipeline('feature-extraction', await load(given.base, given.names), {device: 'webgpu:7'})", **self.model("pipelines", "base"))
        self.assertRegex(found["error"], "webgpu:7")
        after = self.answer("const run = await accel.pipeline('feature-extraction', await load(given.base, given.names), {device: 'webgpu:7,webgpu'}); "
                            "return run.placement", **self.model("pipelines", "base"))
        self.assertRegex(str(after), "webgpu:0")


if __name__ == "__main__":
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("skipped: chromium and chromium-driver are not installed")
        sys.exit(77)
    if not os.environ.get("ACCEL_BROWSER_BUILT"):
        code = subprocess.run([os.path.join(ROOT, "scripts", "wasm")]).returncode
        if code:
            sys.exit(code)
    unittest.main()
