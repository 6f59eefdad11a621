"""LoRA adapters through the tool, the package and the examples: fixtures/adapters/text_* with the tokens that PEFT generates, merged at load and
beside the model, several in one batch.
"""
import json
import os
import subprocess
import sys
import unittest

from generating import BUILD, MODEL, ROOT, ToolTest, tool
from sanitized import run_under_sanitizer

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))

ADAPTERS = [os.path.join(ROOT, "tests", "fixtures", "adapters", name) for name in ("text_attention", "text_all_linear")]
CLASSIFY = os.path.join(ROOT, "tests", "fixtures", "pipelines", "classify")


def expected(adapter):
    with open(os.path.join(adapter, "expected.json"), encoding="utf-8") as f:
        return json.load(f)


class Tool(ToolTest):
    def ids(self, prompt, *options):
        return json.loads(self.good(prompt, "--max-new-tokens", "16", "--json", *options))["results"][0]["ids"]

    def test_merged(self):
        for adapter in ADAPTERS:
            want = expected(adapter)
            self.assertEqual(self.ids(want["prompt"], "--adapter", adapter), want["ids"])
            self.assertEqual(self.ids(want["prompt"], "--adapter", adapter + ":1.0"), want["ids"])

    def test_scale_and_several(self):
        base = self.ids("Once upon a time")
        self.assertEqual(self.ids("Once upon a time", "--adapter", ADAPTERS[0] + ":0"), base)
        self.assertEqual(self.ids("Once upon a time", "--adapter", ADAPTERS[0], "--adapter", ADAPTERS[0] + ":-1"), base)
        self.assertNotEqual(self.ids("Once upon a time", "--adapter", ADAPTERS[0], "--adapter", ADAPTERS[1]), base)

    def test_refused(self):
        code, _, errors = tool("a", "--adapter", "/nowhere")
        self.assertEqual(code, 1, errors)
        self.assertIn("no such directory", errors)
        code, _, errors = tool("a", "--adapter", ADAPTERS[0], "--random-weights")
        self.assertEqual(code, 2, errors)
        self.assertIn("random weights", errors)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import accel
        cls.accel = accel

    def test_merged(self):
        for adapter in ADAPTERS:
            want = expected(adapter)
            for given in (adapter, [adapter], [(adapter, 1.0)]):
                with self.accel.Model(MODEL, device="cpu", adapters=given) as model:
                    self.assertEqual(model.generate(want["prompt"], max_new_tokens=16)[0].ids, want["ids"])
                    self.assertEqual(model.placement.weights, f"local, adapter {adapter}:1")

    def test_beside(self):
        wants = [expected(a) for a in ADAPTERS]
        with self.accel.Model(MODEL, device="cpu", enable_adapters=True) as model:
            base = model.generate(wants[0]["prompt"], max_new_tokens=16)[0].ids
            first, second = model.load_adapter(ADAPTERS[0]), model.load_adapter(ADAPTERS[1], "other")
            self.assertEqual((first.name, second.name), ("text_attention", "other"))
            for adapter in ("text_attention", first):
                self.assertEqual(model.generate(wants[0]["prompt"], adapter=adapter, max_new_tokens=16)[0].ids, wants[0]["ids"])
            tickets = [model.submit_generate(wants[0]["prompt"], adapter=a, max_new_tokens=16) for a in (first, "other", None)]
            self.assertEqual([t.wait()[0].ids for t in tickets], [wants[0]["ids"], wants[1]["ids"], base])
            self.assertEqual(model.generate(wants[0]["prompt"], adapter="other", adapter_scale=0, max_new_tokens=16)[0].ids, base)
            with self.assertRaisesRegex(ValueError, "no adapter is called 'missing'; there are other, text_attention"):
                model.generate("a", adapter="missing")
            with self.assertRaisesRegex(ValueError, "already"):
                model.load_adapter(ADAPTERS[0])
            model.delete_adapter("other")
            with self.assertRaises(ValueError):
                model.generate("a", adapter=second)
            with model.session() as session, self.assertRaises(TypeError):
                session.feed("a")
                session.generate(adapter="text_attention")

    def test_not_enabled(self):
        with self.accel.Model(MODEL, device="cpu") as model:
            with self.assertRaisesRegex(self.accel.UnsupportedError, "no adapters"):
                model.load_adapter(ADAPTERS[0])

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "lib", "accel", "0", "libaccel_hip-emulated.so")), "the emulated HIP plugin is not built")
    def test_other_plugins(self):
        """They run what is merged, and refuse the rest by the op's name."""
        want = expected(ADAPTERS[0])
        with self.accel.Model(MODEL, device="hip-emulated", adapters=ADAPTERS[0]) as model:
            self.assertEqual(model.generate(want["prompt"], max_new_tokens=4)[0].ids, want["ids"][:4])
        with self.assertRaisesRegex(self.accel.AccelError, "(?i)low_rank"):
            self.accel.Model(MODEL, device="hip-emulated", enable_adapters=True)

    def test_tasks(self):
        with self.accel.Model(CLASSIFY, device="cpu", enable_adapters=True) as model:
            with self.assertRaises(self.accel.FormatError):
                model.load_adapter(ADAPTERS[0])
            self.assertEqual(model.classify(["a cat"], adapter=None), model.classify(["a cat"]))
            with self.assertRaisesRegex(ValueError, "there are none"):
                model.classify(["a cat"], adapter="x")
            with self.assertRaisesRegex(ValueError, "there are none"):
                model.embed(["a cat"], adapter="x")

    def test_pipeline(self):
        want = expected(ADAPTERS[0])
        found = self.accel.pipeline("text-generation", MODEL, device="cpu", adapters=ADAPTERS[0])
        plain = self.accel.pipeline("text-generation", MODEL, device="cpu")
        self.assertNotEqual(found(want["prompt"], max_new_tokens=16), plain(want["prompt"], max_new_tokens=16))

    def test_examples(self):
        commands = [[sys.executable, os.path.join(ROOT, "examples", "python", "adapters.py")]]
        if os.path.exists(os.path.join(BUILD, "examples", "example_c_adapters")):
            commands.append([os.path.join(BUILD, "examples", "example_c_adapters")])
        outputs = []
        for command in commands:
            done = subprocess.run([*command, MODEL, "Once upon a time", *ADAPTERS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                  env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python")))
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append(done.stdout.replace(b"\xc0\x80", b"\0").rstrip(b"\n"))  # as C writes U+0000
            for who in (b"base: ", *(a.encode() + b": " for a in ADAPTERS)):
                self.assertIn(who, done.stdout)
        self.assertEqual(len(set(outputs)), 1)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
