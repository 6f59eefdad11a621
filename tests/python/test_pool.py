"""`accel.Pool`: several models under one memory budget, from Python; the examples; a second name of a model costs next to nothing.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
PACKAGE = os.path.join(ROOT, "src", "bindings", "python")
PIPELINES = os.path.join(ROOT, "tests", "fixtures", "pipelines")
SANITIZED = os.path.basename(BUILD) in ("asan", "tsan")

if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, PACKAGE)
import accel  # noqa: E402

TEXTS = ["a cat", "the quick brown fox"]
SENTENCE, CLASSIFY, TEXT = (os.path.join(PIPELINES, name) for name in ("sentence", "classify", "text"))

# Memory of a process (what is its own and shared by it, in kB) before the first name, with it, and with a second of another task and queue.
SECOND_NAME = """
import sys, accel
def pss():
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
def use(name):
    with pool.model(name) as model:
        for _ in range(3):
            model.submit_embed(["some words of a text"] * 8).wait()
pool = accel.Pool()
how = dict(device="cpu", random_weights=True)
pool.add("own", sys.argv[1], **how)
pool.add("vectors", sys.argv[1], task="feature-extraction", queue_capacity=4, **how)
"""


def plain(vectors):
    return vectors.tolist() if hasattr(vectors, "tolist") else [list(v) for v in vectors]


class Pool(unittest.TestCase):
    def setUp(self):
        self.pool = accel.Pool()
        self.addCleanup(self.pool.close)

    def test_models_are_loaded_when_asked_for(self):
        self.pool.add("sentences", SENTENCE, device="cpu")
        self.pool.add("classes", CLASSIFY, device="cpu", pinned=True, preload=True)
        self.assertEqual((self.pool.stats("sentences")["loaded"], self.pool.stats("classes")["loaded"]), (0, 1))
        with accel.Model(SENTENCE, device="cpu") as alone, self.pool.model("sentences", timeout=60) as model:
            want = plain(alone.embed(TEXTS))
            self.assertEqual(plain(model.embed(TEXTS)), want)
            self.assertEqual(plain(model.submit_embed(TEXTS).wait()), want)
            self.assertEqual(self.pool.queue_stats("sentences"), model.queue_stats)
            self.assertEqual(self.pool.stats("sentences")["references"], 1)
        self.assertEqual(self.pool.stats("sentences")["references"], 0)
        with self.assertRaisesRegex(ValueError, "closed"):
            model.embed(TEXTS)
        stats = self.pool.stats()
        self.assertEqual((stats["models"], stats["loads"], stats["pinned"], stats["evictions"]), (2, 2, 1, 0))
        self.assertGreater(stats["bytes"], 0)
        described = self.pool.describe()
        self.assertEqual(described["schema"], "accel.pool/1")
        self.assertEqual([(m["name"], m["loaded"], m["device"]) for m in described["models"]],
                         [("sentences", True, "cpu"), ("classes", True, "cpu")])

    def test_errors(self):
        self.pool.add("sentences", SENTENCE, device="cpu")
        with self.assertRaisesRegex(accel.NotFoundError, "sentences"):
            self.pool.model("sentence")
        with self.assertRaises(accel.ArgumentError):
            self.pool.add("sentences", CLASSIFY)
        with accel.Pool(memory="64K") as small:
            small.add("sentences", SENTENCE, device="cpu")
            with self.assertRaisesRegex(accel.DoesNotFitError, "the pool may take 0.1 MiB"):
                small.model("sentences")
        with self.assertRaisesRegex(ValueError, "closed"):
            small.stats()

    def test_a_closed_pool_takes_its_models_back(self):
        with accel.Pool() as pool:
            pool.add("sentences", SENTENCE, device="cpu")
            model = pool.model("sentences")
        with self.assertRaisesRegex(ValueError, "closed"):
            model.embed(TEXTS)

    def test_generation_and_embedding_beside_each_other(self):
        self.pool.add("writer", TEXT, device="cpu")
        self.pool.add("vectors", TEXT, device="cpu", task="feature-extraction")
        with self.pool.model("writer") as writer, self.pool.model("vectors") as vectors, \
                accel.Model(TEXT, device="cpu", task="feature-extraction") as alone:
            self.assertEqual(writer.handle.value, vectors.handle.value)
            self.assertNotEqual(writer.queue.value, vectors.queue.value)
            story = writer.submit_generate("Once upon a time", max_new_tokens=16)
            self.assertEqual(plain(vectors.submit_embed(TEXTS, pooling="mean").wait()), plain(alone.embed(TEXTS, pooling="mean")))
            self.assertEqual(len(story.wait()[0].ids), 16)

    def test_moving_under_load(self):
        """Models are asked for and used by threads while they move there and back: nothing is lost, every vector is one of the two devices'."""
        want = []
        for device in ("cpu", "reference"):
            with accel.Model(SENTENCE, device=device) as model:
                want.append(plain(model.embed(TEXTS)))
        self.pool.add("sentences", SENTENCE, device="cpu")
        failures, done = [], []

        def ask():
            for _ in range(15):
                try:
                    with self.pool.model("sentences", timeout=60) as model:
                        tickets = [model.submit_embed(TEXTS) for _ in range(3)]
                        for ticket in tickets:
                            done.append(plain(ticket.wait(60)) in want)
                except Exception as error:  # told by the thread that waits
                    failures.append(error)
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(6):
            self.pool.move("sentences", ("reference", "cpu")[i % 2])
        for thread in threads:
            thread.join()
        self.assertEqual((failures, done), ([], [True] * 135))
        self.assertEqual(self.pool.stats()["loaded"], 1)
        self.assertEqual(self.pool.stats()["references"], 0)

    @unittest.skipIf(SANITIZED or not os.path.exists("/proc/self/smaps_rollup"), "memory of a plain process is measured")
    def test_a_second_name_adds_less_than_5_percent(self):
        config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 130, "hidden_size": 768, "num_hidden_layers": 6,
                  "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 48}
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            for name in ("tokenizer.json", "tokenizer_config.json"):
                os.symlink(os.path.join(CLASSIFY, name), os.path.join(work, name))
            program = SECOND_NAME + "sizes = [pss()]\nfor name in ('own', 'vectors'):\n    use(name)\n    sizes.append(pss())\nprint(*sizes)\n"
            done = subprocess.run([sys.executable, "-c", program, work], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                                  env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual(done.returncode, 0, done.stderr)
        before, one, two = map(int, done.stdout.split())
        self.assertGreater(one - before, 100 << 10, "the model is not there")
        self.assertLess(two - one, 0.05 * (one - before))

    def test_examples(self):
        commands = [[sys.executable, os.path.join(ROOT, "examples", "python", "pool.py")]]
        if os.path.exists(os.path.join(BUILD, "examples", "example_c_pool")):
            commands.append([os.path.join(BUILD, "examples", "example_c_pool")])
        for command in commands:
            with self.subTest(command=command[0]):
                done = subprocess.run(command + ["64", SENTENCE, os.path.join(PIPELINES, "base")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      timeout=60, env=dict(os.environ, PYTHONPATH=PACKAGE))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count(SENTENCE), 2)
                self.assertIn("2 of 2 loaded", done.stdout)
                self.assertIn("2 loads", done.stdout)


if __name__ == "__main__":
    unittest.main()
