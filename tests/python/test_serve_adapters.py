"""LoRA adapters of `accel serve`: "MODEL:ADAPTER" is a model whose requests run with the adapter, beside those of the base."""
import concurrent.futures
import json
import os
import sys
import unittest

from generating import BUILD, MODEL, ROOT
from sanitized import run_under_sanitizer
from serving import WITH_SERVER, Server

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

FIRST, SECOND = (os.path.join(ROOT, "tests", "fixtures", "adapters", name) for name in ("text_attention", "text_all_linear"))
NAMES = {"small": {}, "small:first": {"adapter": "first"}, "small:half": {"adapter": "first", "adapter_scale": 0.5}, "small:second": {"adapter": "second"}}


@unittest.skipUnless(WITH_SERVER, "built without libmicrohttpd")
class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        adapters = [{"name": "first", "path": FIRST}, {"name": "half", "path": FIRST, "scale": 0.5}, {"name": "second", "path": SECOND}]
        cls.server = Server(config={"models": [{"name": "small", "path": MODEL, "adapters": adapters}]})
        cls.model = accel.Model(MODEL, device="cpu", enable_adapters=True)
        cls.model.load_adapter(FIRST, "first")
        cls.model.load_adapter(SECOND, "second")

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.server.stop()

    def ask(self, path, **body):
        answer = self.server.request("POST", path, body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def same_for_all(self, ask, want):
        """Each name's answer is the library's with its adapter, at once and one by one; those of two adapters differ."""
        wanted = {name: want(**how) for name, how in NAMES.items()}
        self.assertGreater(len({json.dumps(w) for w in wanted.values()}), 2)
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            names = list(NAMES) * 3
            for name, got in zip(names, threads.map(ask, names)):
                self.assertEqual(got, wanted[name], name)
        return wanted

    def test_generation(self):
        with open(os.path.join(FIRST, "expected.json"), encoding="utf-8") as f:
            golden = json.load(f)
        prompt = golden["prompt"]
        self.assertEqual(self.model.generate(prompt, max_new_tokens=16, adapter="first")[0].ids, golden["ids"])  # PEFT's
        self.same_for_all(
            lambda name: self.ask("/v1/completions", model=name, prompt=prompt, max_tokens=16, temperature=0)["choices"][0]["text"],
            lambda **how: self.model.generate(prompt, max_new_tokens=16, temperature=0, **how)[0].text)
        self.same_for_all(
            lambda name: self.ask("/accel/run/text-generation", model=name, inputs=prompt, max_new_tokens=16, return_full_text=False)[0]["generated_text"],
            lambda **how: self.model.generate(prompt, max_new_tokens=16, **how)[0].text)

    def test_zero_characters(self):
        """U+0000 in what a model writes, which C has as C0 80, is JSON's in every answer."""
        want = self.model.generate("Once upon a time", max_new_tokens=30)[0].text
        self.assertIn("\0", want)
        got = self.ask("/accel/run/text-generation", model="small", inputs="Once upon a time", max_new_tokens=30, return_full_text=False)
        self.assertEqual(got[0]["generated_text"], want)

    def test_embeddings(self):
        texts = ["a text", "and another one"]

        def want(**how):
            return [[float(f"{x:.9g}") for x in v] for v in self.model.embed(texts, pooling="mean", **how)]

        self.same_for_all(lambda name: [d["embedding"] for d in self.ask("/v1/embeddings", model=name, input=texts, pooling="mean")["data"]], want)
        self.same_for_all(lambda name: self.ask("/embed", model=name, inputs=texts, pooling="mean", normalize=False),
                          lambda **how: [[float(f"{x:.9g}") for x in v] for v in self.model.embed(texts, pooling="mean", normalize=False, **how)])

    def test_models(self):
        listed = self.server.request("GET", "/v1/models").json()["data"]
        self.assertEqual([(m["id"], m.get("parent")) for m in listed],
                         [("small", None), ("small:first", "small"), ("small:half", "small"), ("small:second", "small")])
        self.assertEqual(self.server.request("GET", "/v1/models/small:half").json()["task"], "text-generation")
        answer = self.server.request("POST", "/v1/completions", {"model": "small:third", "prompt": "a"})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (404, "model_not_found"))

    def test_metrics(self):
        self.ask("/v1/completions", model="small:second", prompt="a", max_tokens=2)
        text = self.server.request("GET", "/metrics").body.decode()
        self.assertRegex(text, r'accel_requests_total\{model="small:second"\} [1-9]')
        self.assertIn('accel_prefix_cache_bytes{model="small"}', text)  # the queue is the base's
        self.assertNotIn('accel_prefix_cache_bytes{model="small:second"}', text)

    def test_routes_without(self):
        """What can not run with an adapter says so, and does not run the base."""
        for path in ("/accel/run/fill-mask", "/accel/run/token-classification", "/embed_sparse"):
            answer = self.server.request("POST", path, {"model": "small:first", "inputs": "a text"})
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "model"), answer.body)
            self.assertIn("runs without adapters", answer.json()["error"]["message"])


@unittest.skipUnless(WITH_SERVER, "built without libmicrohttpd")
class Refused(unittest.TestCase):
    def fails(self, says, adapters):
        with self.assertRaisesRegex(AssertionError, says):
            Server(config={"models": [{"name": "small", "path": MODEL, "adapters": adapters}]})

    def test_config(self):
        self.fails("a model's adapters takes an array of objects", adapters={"first": FIRST})
        self.fails("an adapter's path takes", adapters=[{"name": "first"}])
        self.fails("an adapter's name takes", adapters=[{"path": FIRST}])
        self.fails("there is no field rank", adapters=[{"name": "first", "path": FIRST, "rank": 4}])
        self.fails("scale takes a number", adapters=[{"name": "first", "path": FIRST, "scale": "half"}])
        self.fails("two adapters are called 'small:a'", adapters=[{"name": "a", "path": FIRST}, {"name": "a", "path": SECOND}])
        self.fails("small:a: .*nowhere", adapters=[{"name": "a", "path": "/nowhere"}])


if __name__ == "__main__":
    unittest.main()
