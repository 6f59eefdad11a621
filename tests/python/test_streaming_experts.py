"""Mixtures of experts larger than the memory they may use: experts are read when they are routed, kept by last use, and every number is the one of the
model in memory.

A token's experts follow from its embedding (made_mixture.py), so what an LRU cache of so many slots reads is replayed and compared exactly.
"""
import ast
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import unittest

from made_mixture import expected_hits, family, replay, steps_of, write_mixture
from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

SIZES = {"hidden_size": 128, "moe_intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 3,
         "vocab_size": 400, "num_local_experts": 16, "num_experts_per_tok": 3, "decoder_sparse_step": 1, "max_position_embeddings": 1024, "dtype": "bfloat16"}
EXPERTS = SIZES["num_hidden_layers"] * SIZES["num_local_experts"]
PROMPTS = [[5, 6, 7], [100, 200, 300, 399, 350], [9]]


def write_qwen(directory):
    return write_mixture(directory, {**family(MODELS, "qwen3_moe"), **SIZES}, SIZES["moe_intermediate_size"])


def told(model, prompts=PROMPTS, new=6):
    """Ids and log probabilities, which show a bit that is another."""
    return [(g.ids, g.logprobs) for g in model.generate(prompts, max_new_tokens=new, do_sample=False, ignore_eos=True, logprobs=0)]


class Mixture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work, cls.cache = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        cls.addClassCleanup(cls.cache.cleanup)
        cls.routed, cls.stored = write_qwen(cls.work.name)
        cls.whole = {}

    def in_memory(self, precision):
        if precision not in self.whole:
            with accel.Context(threads=2, no_cache=True) as context:
                model = accel.Model(self.work.name, device="cpu", precision=precision, context=context)
                self.assertIsNone(model.streaming)
                self.whole[precision] = told(model)
        return self.whole[precision]

    def streamed(self, more, precision="bf16", **options):
        context = accel.Context(threads=2, cache_directory=self.cache.name, **options)
        self.addCleanup(context.close)
        os.environ["ACCEL_STREAM_WEIGHTS"] = more
        try:
            return accel.Model(self.work.name, device="cpu", precision=precision, context=context)
        finally:
            del os.environ["ACCEL_STREAM_WEIGHTS"]

    def slots(self, model, precision):
        return model.streaming["expert_memory"] // self.streamed("1", precision).streaming["expert_memory"]

    def test_reads_what_an_lru_cache_reads(self):
        for precision in ("fp32", "fp16", "bf16", "int8", "int4", "fp8"):
            want, seen = self.in_memory(precision), set()
            for more in ("1", "1M", "1500K", "2500K", "20M"):
                with self.subTest(precision=precision, more=more):
                    model = self.streamed(more, precision)
                    slots = self.slots(model, precision)
                    seen.add(slots)
                    self.assertEqual(told(model), want)
                    found, read = replay(self.routed, slots, steps_of(PROMPTS, [ids for ids, _ in want]))
                    now = model.streaming
                    self.assertEqual((now["expert_hits"], now["expert_misses"]), (found, read))
                    stored = now["expert_bytes"] // read
                    self.assertEqual(now["expert_bytes"], read * stored)
                    self.assertLessEqual(now["expert_bytes"], now["bytes"] - now["load_bytes"])
                    if precision in ("fp32", "fp16", "bf16"):
                        self.assertEqual(stored, self.stored)  # as in the file
            self.assertIn(1, seen)
            self.assertIn(EXPERTS, seen)
            self.assertGreater(len(seen), 3)

    def test_a_long_prompt(self):
        """Of more rows than the workspace has memory for: experts are read once a pass, and once in all where there is memory for all results."""
        prompt = [[(7 * i + i * i // 5) % SIZES["vocab_size"] for i in range(360)]]
        with accel.Context(threads=2) as context:
            want = told(accel.Model(self.work.name, device="cpu", precision="fp32", context=context), prompt, 2)
        for more, rows in (("1", 1024 // SIZES["num_experts_per_tok"]), ("8M", 360)):
            with self.subTest(more=more):
                model = self.streamed(more, "fp32")
                slots = self.slots(model, "fp32")
                self.assertLess(slots, EXPERTS)
                self.assertEqual(told(model, prompt, 2), want)
                found, read = replay(self.routed, slots, steps_of(prompt, [ids for ids, _ in want]), rows)
                self.assertEqual((model.streaming["expert_hits"], model.streaming["expert_misses"]), (found, read))

    def test_expected_reads(self):
        """`read_per_run`: a token's linears, and its experts as far as an LRU cache does not hold them when all are chosen alike."""
        least, all_ = self.streamed("1").streaming, self.streamed("20M").streaming
        token = SIZES["num_hidden_layers"] * SIZES["num_experts_per_tok"] * self.stored
        self.assertEqual(all_["read_per_run"], 0)
        self.assertEqual(all_["expert_memory"], EXPERTS * least["expert_memory"])
        for more in ("1M", "1500K", "2M"):
            model = self.streamed(more)
            slots = self.slots(model, "bf16")
            self.assertAlmostEqual(model.streaming["read_per_run"] / token, 1 - expected_hits(SIZES, slots), delta=0.03, msg=slots)
        linears = least["read_per_run"] - token  # one slot finds nothing
        attention, router = 2 * 128 * 128 + 2 * 64 * 128, 16 * 128
        self.assertAlmostEqual(linears, 2 * (SIZES["vocab_size"] * 128 + SIZES["num_hidden_layers"] * (attention + router)), delta=1)

    def test_hits_are_as_expected(self):
        """Of random tokens."""
        model = self.streamed("1800K")
        slots = self.slots(model, "bf16")
        self.assertTrue(EXPERTS // 6 < slots < EXPERTS)
        chance = random.Random(5)
        with model.session() as session:
            session.feed([1])
            for _ in range(40):
                session.feed([chance.randrange(SIZES["vocab_size"])])
            before = model.streaming
            for _ in range(200):
                session.feed([chance.randrange(SIZES["vocab_size"])])
        now = model.streaming
        hits, misses = (now[name] - before[name] for name in ("expert_hits", "expert_misses"))
        self.assertAlmostEqual(hits / (hits + misses), expected_hits(SIZES, slots), delta=0.05)

    def test_under_a_limit(self):
        with accel.Context(threads=2, memory="3M") as context:
            model = accel.Model(self.work.name, device="cpu", precision="bf16", context=context)
            self.assertGreater(model.streaming["expert_memory"], 0)
            self.assertLess(model.streaming["resident"] + model.streaming["staging"], 3 << 20)
            self.assertEqual(told(model), self.in_memory("bf16"))
            for _ in range(6):  # a busy machine may measure nothing
                fit = context.fit(self.work.name, "cpu", "bf16", seq=16, new=8, times=True)[0]
                if fit.seconds_per_token:
                    break
            self.assertTrue(fit.streams)
            self.assertEqual(fit.stream_read, model.streaming["read_per_run"])
            self.assertGreaterEqual(fit.seconds_per_token, fit.stream_read / fit.disk_bytes_per_second)
        with accel.Context(threads=2, memory="300K") as context:
            with self.assertRaises(accel.DoesNotFitError) as caught:
                accel.Model(self.work.name, device="cpu", precision="bf16", context=context)
        limit = str(caught.exception).split("--memory ")[1].split()[0].rstrip(",;:.")
        with accel.Context(threads=2, memory=limit) as context:
            self.assertEqual(told(accel.Model(self.work.name, device="cpu", precision="bf16", context=context), PROMPTS[:1]), self.in_memory("bf16")[:1])

    def test_what_was_read_is_read_again(self):
        model = self.streamed("1")
        told(model, PROMPTS[:1], 3)
        before = model.streaming["bytes"]
        told(model, PROMPTS[:1], 1)
        self.assertTrue(before < model.streaming["bytes"])
        count, seconds = model.stream_read()
        self.assertGreater(count, self.stored)
        self.assertGreater(seconds, 0)

    def test_reading_fails_and_goes_on(self):
        """One read fails, wherever: an error that names the file, and the right tokens afterwards."""
        script = textwrap.dedent("""
            import sys
            sys.path.insert(0, sys.argv[1])
            import accel
            messages, ids, model = [], None, None
            context = accel.Context(threads=2, cache_directory=sys.argv[4])
            while ids is None and len(messages) < 3:
                try:
                    model = model or accel.Model(sys.argv[2], device="cpu", precision=sys.argv[3], context=context)
                    ids = [g.ids for g in model.generate([[5, 6, 7]], max_new_tokens=6, do_sample=False, ignore_eos=True)]
                except accel.AccelError as e:
                    messages.append(str(e))
            print(repr((messages, ids)))
            """)
        for precision, n in (("bf16", 100), ("bf16", 171), ("int8", 60)):
            want = [ids for ids, _ in self.in_memory(precision)[:1]]
            self.streamed("1", precision)  # int8: the entry is there
            for point, message in (("read_error", "cannot read"), ("read_short", "ends at byte")):
                with self.subTest(point=point, precision=precision, n=n):
                    done = subprocess.run([sys.executable, "-c", script, os.path.join(ROOT, "src", "bindings", "python"), self.work.name, precision,
                                           self.cache.name], timeout=60, env=dict(os.environ, ACCEL_FAIL_AT=f"{point}:{n}", ACCEL_STREAM_WEIGHTS="1"),
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    messages, ids = ast.literal_eval(done.stdout)
                    self.assertEqual(ids, want)
                    self.assertEqual(len(messages), 1)
                    self.assertRegex(messages[0], message)

    def test_cancelled(self):
        asked, wanted = [0], [1 << 60]

        def cancel():
            asked[0] += 1
            return asked[0] >= wanted[0]

        model, want = self.streamed("1", cancel=cancel), self.in_memory("bf16")
        for more in (3, 20, 57, 111):
            asked[0], wanted[0] = 0, more
            self.assertRaises(accel.CancelledError, told, model)
            asked[0], wanted[0] = 0, 1 << 60
            self.assertEqual(told(model), want)


class Fixtures(unittest.TestCase):
    def test_the_same_tokens(self):
        for name in ("mixtral", "mixtral_w123", "qwen2_moe", "qwen3_moe"):
            for precision in ("fp32", "bf16", "int8", "int4", "fp4"):
                with self.subTest(model=name, precision=precision), tempfile.TemporaryDirectory() as cache:
                    with accel.Context(threads=2, no_cache=True) as context:
                        want = told(accel.Model(os.path.join(MODELS, name), device="cpu", precision=precision, context=context), [[5, 6, 7], [8, 9]])
                    for more in ("1", "8K", "1M"):
                        os.environ["ACCEL_STREAM_WEIGHTS"] = more
                        try:
                            with accel.Context(threads=2, cache_directory=cache) as context:
                                model = accel.Model(os.path.join(MODELS, name), device="cpu", precision=precision, context=context)
                                self.assertEqual(told(model, [[5, 6, 7], [8, 9]]), want)
                                self.assertGreater(model.streaming["expert_misses"], 0)
                        finally:
                            del os.environ["ACCEL_STREAM_WEIGHTS"]


if __name__ == "__main__":
    unittest.main()
