"""Many texts on an endpoint with a memory limit: so many run together as there is memory for, a pass over streamed weights serves all of them, and each text
gets the numbers that it gets alone from the model in memory.

The models are fixtures of tests/fixtures/tasks with larger layers and weights of tests/bench/make_checkpoint: a limit holds about half of them.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

from sanitized import run_under_sanitizer
from test_goldens import FEWER

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
TASKS = os.path.join(ROOT, "tests", "fixtures", "tasks")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

WORDS = "the model reads one text after another and weighs each word by what the others say of it".split()
TEXTS = [" ".join(WORDS[(i + k) % len(WORDS)] for k in range(1 + i % 7)) for i in range(64)]
SOME = TEXTS[:24] if FEWER else TEXTS
BERT = {"hidden_size": 128, "intermediate_size": 512, "num_attention_heads": 4, "num_hidden_layers": 8, "max_position_embeddings": 1024}
QWEN3 = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 8, "layer_types": 8 * ["full_attention"]}


def make(directory, fixture, sizes):
    shutil.copytree(os.path.join(TASKS, fixture), directory, ignore=shutil.ignore_patterns("*.safetensors", "golden.json"))
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as f:
        config = {**json.load(f), **sizes}
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    tokenizer = os.path.join(directory, "tokenizer_config.json")
    with open(tokenizer, encoding="utf-8") as f:
        config = {**json.load(f), "model_max_length": 1024}
    with open(tokenizer, "w", encoding="utf-8") as f:
        json.dump(config, f)
    for path in glob.glob(os.path.join(directory, "*_Pooling", "config.json")):
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"word_embedding_dimension": sizes["hidden_size"], "pooling_mode_mean_tokens": True}, f)
    subprocess.run([os.path.join(BUILD, "tests", "bench", "make_checkpoint"), directory], check=True)
    return os.path.getsize(os.path.join(directory, "model.safetensors"))


def vectors(model, texts, **options):
    found = model.embed(texts, **options)
    return [v.tolist() for v in found] if isinstance(found, list) else found.tolist()


def scores(model, texts):
    return [r["score"] for r in sorted(model.rerank("what of it", texts), key=lambda r: r["corpus_id"])]


class Corpus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        cls.embedder = os.path.join(cls.work.name, "embedder")
        cls.bytes = make(cls.embedder, "st_mean", BERT)
        cls.whole = accel.Context(threads=2)
        cls.addClassCleanup(cls.whole.close)

    def model(self, directory, memory=None, precision="bf16", batch_size=0, max_length=0, device="cpu", **options):
        context = self.whole
        if memory:
            context = accel.Context(threads=2, memory=memory, **options)
            self.addCleanup(context.close)
        return accel.Model(directory, device=device, precision=precision, batch_size=batch_size, max_length=max_length, context=context)

    def made(self, fixture, sizes):
        directory = os.path.join(self.work.name, fixture)
        if not os.path.exists(directory):
            make(directory, fixture, sizes)
        return directory

    def settled(self, model):
        """Statistics when nothing is read ahead any more."""
        now, before = model.streaming, None
        while now != before:
            time.sleep(0.02)
            now, before = model.streaming, now
        return now

    def one_pass_a_run(self, model, work, texts=TEXTS):
        """Each run of work(texts) reads what the one of work(one text) does, to the byte: the streamed weights.  How many runs."""
        def read(texts):
            before = self.settled(model)
            work(texts)
            after = self.settled(model)
            return after["runs"] - before["runs"], after["bytes"] - before["bytes"]

        work(texts[:1])  # from here on what is read ahead is that of the same run
        one, each = read(texts[:1])
        self.assertTrue(one and each % one == 0 and 0 < each // one <= model.streaming["read_per_run"], (one, each))
        runs, all_ = read(texts)
        self.assertEqual(all_, runs * each // one)
        return runs

    def test_embedding(self):
        for precision in ("bf16", "fp32", "int8"):
            with self.subTest(precision=precision):
                whole = self.model(self.embedder, precision=precision)
                alone = [vectors(whole, [t])[0] for t in TEXTS]
                model = self.model(self.embedder, "1300K" if precision == "int8" else "2M", precision, cache_directory=self.work.name)
                self.assertGreater(model.streaming["read_per_run"], 100 << 10)
                self.assertEqual(vectors(model, TEXTS), alone)
                runs = self.one_pass_a_run(model, model.embed)
                self.assertTrue(1 < runs < len(TEXTS) // 4, runs)

    def test_over_two_devices(self):
        """Each part has its own share of what the limit leaves."""
        whole = self.model(self.embedder)
        for memory in ("3M", "12M"):  # streamed, and in memory
            told = []
            model = self.model(self.embedder, memory, device="cpu=0-3+cpu=4-7", progress=lambda *args: told.append(args))
            self.assertEqual(vectors(model, TEXTS * 5), vectors(whole, TEXTS) * 5)
            self.assertEqual(model.streaming is None, memory == "12M")
            if model.streaming:
                self.assertLess(model.streaming["runs"], len(TEXTS))
                self.assertEqual([(d, a) for w, d, a in told if w == "layers"][:10], [(i, 10) for i in range(1, 11)])

    def test_rows_of_tokens(self):
        whole, model = self.model(self.embedder), self.model(self.embedder, "2M")
        self.assertEqual(vectors(model, TEXTS, pooling="none"), [vectors(whole, [t], pooling="none")[0] for t in TEXTS])

    def test_classifying_and_ranking(self):
        pairs = [None if i % 3 else t for i, t in enumerate(reversed(SOME))]
        for fixture, work in (("classify_many", lambda m, t, p: m.classify(t, p, top_k=3)),
                              ("rerank_bert", lambda m, t, _: scores(m, t))):
            with self.subTest(model=fixture):
                directory = self.made(fixture, BERT)
                whole, model = self.model(directory), self.model(directory, "2M")
                self.assertEqual(work(model, SOME, pairs), [work(whole, [t], [p])[0] for t, p in zip(SOME, pairs)])
                runs = self.one_pass_a_run(model, lambda texts: work(model, texts, pairs[:len(texts)]), SOME)
                self.assertTrue(1 < runs < len(SOME) // 3, runs)

    def test_a_language_model_ranks(self):
        """Documents are read in joint steps, as many as their states have memory for."""
        directory = self.made("rerank_qwen3", QWEN3)
        whole, model = self.model(directory), self.model(directory, "3500K")
        self.assertEqual(scores(model, SOME), [scores(whole, [t])[0] for t in SOME])
        runs = self.one_pass_a_run(model, lambda texts: scores(model, texts), SOME)
        self.assertTrue(2 < runs < 2 * len(SOME) // 3, runs)  # alone each takes two

    def test_more_memory_fewer_runs(self):
        def runs(memory, **options):
            model = self.model(self.embedder, memory, "fp32", **options)
            model.embed(TEXTS)
            return model.streaming["runs"]

        few = [runs(memory) for memory in ("2M", "3M", "5M")]
        self.assertEqual(few, sorted(set(few), reverse=True))
        self.assertEqual(runs("2M", batch_size=2), len(TEXTS) // 2)
        self.assertEqual(runs("2M", batch_size=len(TEXTS)), runs("2M"))  # no more than there is memory for

    def test_in_memory_under_a_limit(self):
        """All weights fit, and activations of all texts do not."""
        texts = TEXTS * 20
        self.assertEqual(vectors(self.model(self.embedder, "6M"), texts), vectors(self.model(self.embedder), TEXTS) * 20)

    def test_too_long_for_the_limit(self):
        model = self.model(self.embedder, "1M")
        with self.assertRaises(accel.AccelError) as caught:
            model.embed([" ".join(WORDS * 40)])
        tokens = int(re.search(r"memory for (\d+) tokens", caught.exception.remedy).group(1))
        self.assertTrue(32 < tokens < 256, tokens)
        self.assertEqual(len(self.model(self.embedder, "1M", max_length=tokens).embed([" ".join(WORDS * 40)])), 1)

    def test_several_calls_at_once(self):
        """Each plans with all that the limit leaves: they take turns."""
        alone, model, results = vectors(self.model(self.embedder), TEXTS), self.model(self.embedder, "2M"), {}

        def work(i):
            results[i] = vectors(model, TEXTS[i:])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, {i: alone[i:] for i in range(6)})

    def test_progress_and_cancel(self):
        told, cancels, stop = [], [True], threading.Event()

        def progress(what, done, all_):
            told.append((what, done, all_))
            if cancels and what == "layers" and sum(w == "embedding" for w, _, _ in told) == 2:
                stop.set()

        model = self.model(self.embedder, "2M", progress=progress, cancel=stop.is_set)
        self.assertRaises(accel.CancelledError, model.embed, TEXTS)
        done = [d for w, d, a in told if w == "embedding" and a == len(TEXTS)]
        self.assertEqual(len(done), 2)
        self.assertTrue(0 < done[0] < done[1] < len(TEXTS), done)
        stop.clear()
        cancels.clear()
        told.clear()
        self.assertEqual(vectors(model, TEXTS), vectors(self.model(self.embedder), TEXTS))
        self.assertEqual([d for w, d, _ in told if w == "embedding"][-1], len(TEXTS))

    def test_address_space(self):
        """Thousands of texts under prlimit: what the process had with the same under the limit, and 2 MiB.  Without a limit that is too little."""
        if os.environ.get("LD_PRELOAD"):
            self.skipTest("sanitizers map memory of their own")
        script = textwrap.dedent("""
            import resource, sys
            sys.path.insert(0, sys.argv[1])
            import accel
            space, texts = int(sys.argv[4]), (sys.argv[5].split("|") * 40)[:2000]
            if space:
                resource.setrlimit(resource.RLIMIT_AS, (space, space))
            with accel.Context(threads=2, memory=sys.argv[3] or None) as context:
                model = accel.Model(sys.argv[2], device="cpu", precision="bf16", context=context)
                model.embed(texts)
            print(next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmPeak")))
            """)

        def run(memory, space):
            command = [sys.executable, "-c", script, os.path.join(ROOT, "src", "bindings", "python"), self.embedder, memory, str(space), "|".join(TEXTS)]
            return subprocess.run(command, env=dict(os.environ, MALLOC_ARENA_MAX="1"), timeout=60, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        first = run("2M", 0)
        self.assertEqual(first.returncode, 0, first.stderr)
        space = int(first.stdout) + (2 << 20)
        for memory, fits in (("2M", True), ("", False)):
            done = run(memory, space)
            self.assertEqual(done.returncode == 0, fits, done.stderr)

    def test_fit_tells_it(self):
        with accel.Context(memory="2M") as context:
            found = context.fit(self.embedder, "cpu", "bf16", batch=64, seq=16)[0]
        self.assertTrue(found.fits and found.streams)
        self.assertTrue(1 < found.at_once < 64, found.at_once)
        self.assertLessEqual(found.total - found.tokenizer, 2 << 20)

    def test_command(self):
        path, out = os.path.join(self.work.name, "texts.txt"), os.path.join(self.work.name, "out.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(TEXTS))
        done = subprocess.run([os.path.join(BUILD, "bin", "accel"), "embed", self.embedder, "--input", path, "--device", "cpu", "--precision", "bf16", "--memory", "2M", "--verbose",
                               "--json=" + out], stderr=subprocess.PIPE, text=True, check=True)
        with open(out, encoding="utf-8") as f:
            found = json.load(f)
        self.assertEqual(len(found["embeddings"]), len(TEXTS))
        self.assertTrue(1 < found["streaming"]["runs"] < len(TEXTS) // 4)
        self.assertRegex(done.stderr, rf"streamed: {found['streaming']['runs']} runs read ")


if __name__ == "__main__":
    unittest.main()
