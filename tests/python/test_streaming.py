"""Models larger than the memory they may use: their weights are read again in each run, and every number is the one of the model in memory.

ACCEL_STREAM_WEIGHTS streams fixtures that would fit; a checkpoint of 13 MB, written here, is larger than its limit.  test_goldens.py has every golden.
"""
import ast
import contextlib
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

from made_checkpoint import write_checkpoint
from sanitized import run_under_sanitizer
from test_goldens import FEWER

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

PROMPTS = [[5, 6, 7], [100, 200, 300, 400, 500], [9]]
SIZES = {"hidden_size": 256, "intermediate_size": 1000, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "num_hidden_layers": 4,
         "vocab_size": 5000, "dtype": "bfloat16", "max_position_embeddings": 512}


@contextlib.contextmanager
def environment(**values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def write_llama(directory, tied=False):
    """A llama of SIZES in bf16."""
    with open(os.path.join(MODELS, "llama", "config.json"), encoding="utf-8") as f:
        config = {**json.load(f), **SIZES, "tie_word_embeddings": tied}
    c, inner, kv = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["num_key_value_heads"] * SIZES["head_dim"]
    tensors = {"model.embed_tokens.weight": [SIZES["vocab_size"], c], "model.norm.weight": [c]}
    if not tied:
        tensors["lm_head.weight"] = [SIZES["vocab_size"], c]
    for i in range(SIZES["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensors.update({layer + "self_attn.q_proj.weight": [c, c], layer + "self_attn.k_proj.weight": [kv, c], layer + "self_attn.v_proj.weight": [kv, c],
                        layer + "self_attn.o_proj.weight": [c, c], layer + "mlp.gate_proj.weight": [inner, c], layer + "mlp.up_proj.weight": [inner, c],
                        layer + "mlp.down_proj.weight": [c, inner], layer + "input_layernorm.weight": [c], layer + "post_attention_layernorm.weight": [c]})
    return write_checkpoint(directory, config, tensors, random.Random(7))


def ids_of(model, prompts=PROMPTS, new=6):
    return [g.ids for g in model.generate(prompts, max_new_tokens=new, do_sample=False)]


class Limit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        cls.bytes = write_llama(cls.work.name)
        cls.ids = {}
        for precision in ("fp32", "fp16", "bf16"):
            with accel.Context(threads=2) as context:
                cls.ids[precision] = ids_of(accel.Model(cls.work.name, device="cpu", precision=precision, context=context))

    def limited(self, memory, precision="bf16", device="cpu", **options):
        context = accel.Context(threads=2, memory=memory, **options)
        self.addCleanup(context.close)
        return accel.Model(self.work.name, device=device, precision=precision, context=context)

    def whole(self):
        """The model in memory at bf16, one for all tests."""
        if not hasattr(Limit, "in_memory"):
            Limit.context = accel.Context(threads=2)
            self.addClassCleanup(Limit.context.close)
            Limit.in_memory = accel.Model(self.work.name, device="cpu", precision="bf16", context=Limit.context)
        return Limit.in_memory

    def test_the_same_tokens(self):
        for precision, ids in self.ids.items():
            with self.subTest(precision=precision):
                model = self.limited("8M", precision)
                before = model.streaming
                self.assertLess(before["resident"] + before["staging"], 8 << 20)
                self.assertGreater(before["read_per_run"], self.bytes // 4)
                self.assertEqual(ids_of(model), ids)
                read = model.streaming["bytes"] - before["bytes"]  # one step a token, and what is read ahead for the next
                self.assertGreaterEqual(read, 6 * before["read_per_run"] - before["staging"])
                self.assertLessEqual(read, 6 * before["read_per_run"] + before["staging"])
                self.assertIn("streamed: ", model.placement.reasons[-1])

    def test_fits_without_streaming(self):
        model = self.limited("1G")
        self.assertIsNone(model.streaming)
        self.assertEqual(ids_of(model), self.ids["bf16"])

    def test_more_memory_reads_less(self):
        read = [self.limited(memory).streaming["read_per_run"] for memory in ("7M", "9M", "12M")]
        self.assertEqual(read, sorted(set(read), reverse=True))

    def test_fit_tells_it(self):
        with accel.Context(memory="8M") as context:
            found = {f.precision: f for f in context.fit(self.work.name, "cpu", batch=1, seq=16)}
        self.assertTrue(found["bf16"].fits and found["bf16"].streams)
        self.assertLessEqual(found["bf16"].total, 8 << 20)
        self.assertGreater(found["bf16"].stream_read, 0)
        self.assertLess(found["bf16"].stream_least, 8 << 20)
        self.assertTrue(found["int8"].fits and not found["int8"].streams)  # of 6.5 MB
        with accel.Context() as context:
            self.assertFalse(context.fit(self.work.name, "cpu", "bf16")[0].streams)

    def test_a_refusal_names_a_limit_that_works(self):
        for precision in ("bf16", "fp32"):
            with self.subTest(precision=precision):
                with self.assertRaises(accel.DoesNotFitError) as caught:
                    self.limited("700K", precision)
                option = re.search(r"--memory (\d+M)", str(caught.exception))
                self.assertIsNotNone(option, str(caught.exception))
                model = self.limited(option.group(1), precision)
                self.assertIsNotNone(model.streaming)
                self.assertEqual(ids_of(model, PROMPTS[:1]), self.ids[precision][:1])

    def test_sizes(self):
        for wrong in ("much", "8X", "-1", ""):
            with self.assertRaisesRegex(ValueError, "memory"):
                accel.Context(memory=wrong)
        for right in ("8M", "8192K", 8 << 20, " 8m "):
            with accel.Context(memory=right) as context:
                self.assertIsNotNone(accel.Model(self.work.name, device="cpu", precision="bf16", context=context).streaming)

    def test_reading_fails_and_goes_on(self):
        """One read fails, somewhere: an error that names the file, and the right tokens afterwards.  Of several prompts the engine runs each alone then."""
        script = textwrap.dedent("""
            import sys
            sys.path.insert(0, sys.argv[1])
            import accel
            messages, ids = [], None
            context = accel.Context(threads=2, memory="4M")
            while ids is None and len(messages) < 3:
                try:
                    model = accel.Model(sys.argv[2], device="cpu", precision="bf16", context=context) if not messages or "model" not in dir() else model
                    ids = [g.ids for g in model.generate([[5, 6, 7]], max_new_tokens=6, do_sample=False)]
                except accel.AccelError as e:
                    messages.append(str(e))
            print(repr((messages, ids)))
            """)
        for point, message in (("read_error", "model.safetensors: cannot read"), ("read_short", "model.safetensors: ends at byte"),
                               ("segment_changed", "model.safetensors: bytes .* are not what they were")):
            # loading; the first step; later ones, when all segments have been read once
            for n in (3, 90, 300) if point != "segment_changed" else (400, 600):
                with self.subTest(point=point, n=n):
                    done = subprocess.run([sys.executable, "-c", script, os.path.join(ROOT, "src", "bindings", "python"), self.work.name], timeout=60,
                                          env=dict(os.environ, ACCEL_FAIL_AT=f"{point}:{n}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    messages, ids = ast.literal_eval(done.stdout)
                    self.assertEqual(ids, self.ids["bf16"][:1])
                    self.assertEqual(len(messages), 1)
                    self.assertRegex(messages[0], message)

    def test_statistics(self):
        told = []
        model = self.limited("8M", progress=lambda what, done, all_: told.append((what, done, all_)))
        loaded = model.streaming
        self.assertGreater(loaded["load_bytes"], loaded["resident"] // 4)
        self.assertEqual((loaded["bytes"], loaded["runs"], loaded["run_seconds"], loaded["bytes_per_second"], loaded["wait_share"]), (loaded["load_bytes"], 0, 0, 0, 0))
        self.assertGreater(loaded["load_seconds"], 0)
        self.assertTrue(any(what == "loading" and 0 < done < all_ for what, done, all_ in told), told)
        told.clear()
        ids_of(model)
        now = model.streaming
        self.assertEqual(now["runs"], 6)
        self.assertAlmostEqual(now["bytes_per_second"], (now["bytes"] - now["load_bytes"]) / now["run_seconds"], delta=1)
        self.assertTrue(0 <= now["wait_share"] <= 1)
        layers = [(done, all_) for what, done, all_ in told if what == "layers"]
        all_ = SIZES["num_hidden_layers"] + 2  # the embeddings and the head
        self.assertEqual(layers, 6 * [(i, all_) for i in range(1, all_ + 1)])

    def test_reading_alone(self):
        model = self.limited("8M")
        self.assertRaises(ValueError, model.stream_read)
        ids_of(model)
        for _ in range(2):
            count, seconds = model.stream_read()
            self.assertEqual(count, model.streaming["read_per_run"])
            self.assertGreater(seconds, 0)
        self.assertEqual(ids_of(model), self.ids["bf16"])
        self.assertRaises(ValueError, self.limited("1G").stream_read)

    def test_cancelled_within_a_segment(self):
        """Every read takes 50 ms more: a step takes seconds, and what is cancelled ends within a read that is under way and the next one."""
        script = textwrap.dedent("""
            import sys, threading, time
            sys.path.insert(0, sys.argv[1])
            import accel
            stop, asked = threading.Event(), []
            context = accel.Context(threads=2, memory="4M", cancel=stop.is_set)
            model = accel.Model(sys.argv[2], device="cpu", precision="bf16", context=context)
            def ask():
                asked.append(time.monotonic())
                stop.set()
            threading.Timer(0.3, ask).start()
            begin = time.monotonic()
            try:
                model.generate([[5, 6, 7]], max_new_tokens=50, do_sample=False)
            except accel.CancelledError:
                print(asked[0] - begin, time.monotonic() - asked[0])
            """)
        done = subprocess.run([sys.executable, "-c", script, os.path.join(ROOT, "src", "bindings", "python"), self.work.name], timeout=60,
                              env=dict(os.environ, ACCEL_FAIL_AT="read_slow"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        ran, ended = map(float, done.stdout.split())
        self.assertGreater(ran, 0.25)
        self.assertLess(ended, 0.25)  # two reads of 50 ms, and what else the machine does

    def test_hundreds_of_prompts(self):
        """More prompts than the limit has memory for: some wait, all give what each gives alone, and nothing is refused."""
        prompts = [[(7 * i + k) % SIZES["vocab_size"] for k in range(1 + i % 9)] for i in range(50 if FEWER else 150)]
        alone = [ids_of(self.whole(), [p], 3)[0] for p in prompts]
        for device in ("cpu", "cpu=0-1+cpu=2-3"):
            model = self.limited("4M", device=device)
            before = model.streaming["runs"]
            self.assertEqual([g.ids for g in model.generate(prompts, max_new_tokens=3, do_sample=False)], alone)
            steps = model.streaming["runs"] - before
            self.assertGreater(steps, 3)   # not all at once
            self.assertLess(steps, 3 * len(prompts) // 2)  # and not one by one

    def test_too_long_for_the_limit(self):
        """A sequence whose states pass the limit fails alone, and the remedy says how many tokens there may be: that works."""
        model = self.limited("4M")
        with self.assertRaises(accel.AccelError) as caught:
            model.generate([[5] * 400], max_new_tokens=100, do_sample=False)
        self.assertIn("KV cache is full", str(caught.exception))
        tokens = int(re.search(r"memory for (\d+) tokens", caught.exception.remedy).group(1))
        self.assertTrue(64 <= tokens < 500)
        self.assertEqual(len(ids_of(model, [[5] * (tokens - 8)], 8)[0]), 8)

    def test_options_run(self):
        """Each option that a refusal or `accel fit` lists runs.  Without a cache int8 is not streamed."""
        def runs(memory, precision, batch, seq):
            model = self.limited(memory, precision, no_cache=precision == "int8")
            return [len(ids) for ids in ids_of(model, [[5] * seq] * batch, 2)] == [2] * batch

        for memory, precision in (("1200K", "fp32"), ("5M", "int8"), ("7M", "int8")):
            with self.subTest(memory=memory, precision=precision):
                with self.assertRaises(accel.DoesNotFitError) as caught:
                    self.limited(memory, precision, no_cache=precision == "int8")
                limit, other = (re.search(p, str(caught.exception)) for p in (r"--memory (\d+M)", r"--precision (\w+) it fits"))
                self.assertTrue(runs(limit.group(1), precision, 1, 6))
                self.assertEqual(other is None, memory == "1200K")
                if other:
                    self.assertTrue(runs(memory, other.group(1), 1, 6))
        found = 0
        for memory, precision, batch, seq in (("5M", "int8", 1, 16), ("4M", "bf16", 1, 500), ("4M", "bf16", 2, 450), ("8M", "int8", 1, 480)):
            with accel.Context(threads=2, memory=memory, no_cache=precision == "int8") as context:
                advice = context.fit(self.work.name, "cpu", precision, batch=batch, seq=seq, new=2)[0].advice
            self.assertIn("--memory", advice)
            for pattern, run in ((r"--memory (\d+M)", lambda m: runs(m.group(1), precision, batch, seq)),
                                 (r"batch (\d+) of (\d+) tokens", lambda m: runs(memory, precision, int(m.group(1)), int(m.group(2))))):
                m = re.search(pattern, advice)
                with self.subTest(memory=memory, batch=batch, seq=seq, advice=advice):
                    found += bool(m)
                    self.assertTrue(not m or run(m))
        self.assertGreaterEqual(found, 7)

    @unittest.skipIf(FEWER, "a sanitizer's rates, which take it minutes to measure")
    def test_times_are_foretold(self):
        """Of what streams and of what fits; nothing where nothing was asked, or nothing can be known."""
        with tempfile.TemporaryDirectory() as cache, accel.Context(threads=2, memory="8M", cache_directory=cache) as context:
            self.assertEqual(context.fit(self.work.name, "cpu", "bf16")[0].seconds_per_token, 0)
            first = context.fit(self.work.name, "cpu", "bf16", batch=2, seq=16, new=8, times=True)[0]
            self.assertTrue(0 < first.compute_seconds < 1 and 0 < first.seconds_per_token <= first.seconds_to_first)
            self.assertGreaterEqual(first.seconds_per_token, first.stream_read / first.disk_bytes_per_second)
            again = context.fit(self.work.name, "cpu", "int8", seq=16, times=True)[0]
            self.assertEqual(again.disk_bytes_per_second, first.disk_bytes_per_second)  # remembered
            self.assertTrue(not again.streams and again.seconds_per_token > 0)
            bert = context.fit(os.path.join(MODELS, "bert"), "cpu", "fp32", times=True)[0]
            self.assertEqual((bert.fits, bert.seconds_per_token, bert.seconds_to_first), (True, 0, 0))
            random_weights = context.fit("Qwen/Qwen3-0.6B", "cpu", "bf16", times=True)[0]
            self.assertEqual((random_weights.disk_bytes_per_second, random_weights.seconds_to_first), (0, 0))
        with tempfile.TemporaryDirectory() as cache, accel.Context(threads=2, memory="4M", cache_directory=cache) as context:
            whole = context.fit(self.work.name, "cpu", "fp4", seq=16, times=True)[0]  # one factor for all of a weight: no rows, only segments of the cache
            self.assertTrue(whole.streams and whole.seconds_per_token >= whole.compute_seconds > 0, whole)

    def test_benchmark(self):
        db, out = os.path.join(self.work.name, "bench.sqlite"), os.path.join(self.work.name, "bench.json")
        command = [os.path.join(BUILD, "bin", "accel"), "bench", self.work.name, "--stream", "--device", "cpu", "--precision", "bf16", "--seq", "4", "--new", "5", "--iters", "3",
                   "--rounds", "2", "--threads", "2", "--quiet", "--db", db, "--json=" + out]
        subprocess.run([*command, "--memory", "8M"], check=True)
        with open(out, encoding="utf-8") as f:
            result = json.load(f)
        self.assertEqual((result["task"], result["memory_limit"], len(result["token_samples_ms"]), len(result["raw_samples_ms"])), ("stream", 8 << 20, 2 * 3 * 4, 6))
        self.assertLess(result["token_p50_ms"], result["token_p95_ms"] + 1e-9)
        self.assertTrue(0 < result["stream_wait_share"] < 1 and result["raw_gbytes_per_s"] > 0 and result["stream_read_bytes"] > 0)
        subprocess.run([*command, "--memory", "8M", "--compare", db], check=True)
        with open(out, encoding="utf-8") as f:
            changes = {c["what"]: c for c in json.load(f)["compare"]["changes"]}
        self.assertEqual(changes["token_p50_ms"]["before"], result["token_p50_ms"])
        self.assertEqual(changes["stream_read_bytes"]["times"], 1)
        other = subprocess.run([*command, "--memory", "9M", "--compare", db], stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("holds no run", other.stderr)
        whole = subprocess.run([*command, "--memory", "1G"], stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(whole.returncode, 0)
        self.assertIn("all weights are in memory", whole.stderr)

    def test_another_file(self):
        """The file is touched, cut, replaced: an error that names it, and no number."""
        path = os.path.join(self.work.name, "model.safetensors")
        with open(path, "rb") as f:
            whole = f.read()
        for change in ("touched", "cut"):
            with self.subTest(change=change):
                model = self.limited("8M")
                self.assertEqual(ids_of(model, new=2), [ids[:2] for ids in self.ids["bf16"]])
                with open(path, "r+b") as f:
                    if change == "touched":
                        f.write(whole[:8])
                    else:
                        f.truncate(len(whole) // 2)
                with self.assertRaisesRegex(accel.AccelError, "model.safetensors"):
                    ids_of(model)
                with open(path, "wb") as f:
                    f.write(whole)
        self.assertEqual(ids_of(self.limited("8M")), self.ids["bf16"])

    def test_cancelled_between_segments(self):
        asked, wanted = [0], [1 << 60]

        def cancel():
            asked[0] += 1
            return asked[0] >= wanted[0]

        model = self.limited("8M", cancel=cancel)
        self.assertEqual(ids_of(model), self.ids["bf16"])
        for more in (3, 20, 57):
            asked[0], wanted[0] = 0, more
            self.assertRaises(accel.CancelledError, ids_of, model)
            self.assertLess(asked[0], more + 5)
            asked[0], wanted[0] = 0, 1 << 60
            self.assertEqual(ids_of(model), self.ids["bf16"])

    def test_runs_take_turns(self):
        model, results = self.limited("8M"), {}

        def work(i):
            results[i] = [ids_of(model, [PROMPTS[i % 3]])[0] for _ in range(3)]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, {i: [self.ids["bf16"][i % 3]] * 3 for i in range(6)})

    def test_sessions(self):
        def story(model, path):
            told = []
            with model.session() as session:
                session.feed([5, 6, 7, 8])
                told.append(session.generate(max_new_tokens=4, do_sample=False).ids)
                with session.fork() as other:
                    other.truncate(3)
                    other.feed([77])
                    told.append(other.generate(max_new_tokens=3, do_sample=False).ids)
                told.append(session.generate(max_new_tokens=2, do_sample=False).ids)
                session.save(path)
            with model.session(path) as session:
                told.append(session.generate(max_new_tokens=3, do_sample=False).ids)
            return told

        with tempfile.TemporaryDirectory() as work, accel.Context(threads=2) as context:
            whole = accel.Model(self.work.name, device="cpu", precision="bf16", context=context)
            model, path = self.limited("8M"), os.path.join(work, "saved")
            self.assertEqual(story(model, path), story(whole, os.path.join(work, "other")))
            with whole.session(path) as session:  # what a streaming endpoint saved
                self.assertEqual(session.generate(max_new_tokens=3, do_sample=False).ids, story(whole, path)[-1])

    def test_a_tied_vocabulary_is_read_once(self):
        with tempfile.TemporaryDirectory() as work:
            tied = write_llama(work, tied=True)
            with accel.Context(memory="4M") as context:
                model = accel.Model(work, device="cpu", precision="bf16", context=context)
                self.assertLess(model.streaming["read_per_run"], tied)
                self.assertGreater(model.streaming["read_per_run"], tied - (4 << 20))
                ids = ids_of(model)
            with accel.Context() as context:
                self.assertEqual(ids, ids_of(accel.Model(work, device="cpu", precision="bf16", context=context)))


class Quantised(unittest.TestCase):
    """Weights in coded formats are quantised once, into the cache of packed weights, and streamed from it."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        write_llama(cls.work.name)
        cls.ids = {}
        for precision in ("int8", "int4", "uint4", "fp8", "fp4"):
            with accel.Context(threads=2, no_cache=True) as context:
                cls.ids[precision] = ids_of(accel.Model(cls.work.name, device="cpu", precision=precision, context=context))

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def limited(self, memory, precision="int8", **options):
        context = accel.Context(threads=2, memory=memory, **{"cache_directory": self.place, **options})
        self.addCleanup(context.close)
        return accel.Model(self.work.name, device="cpu", precision=precision, context=context)

    def entries(self):
        return sorted(glob.glob(os.path.join(self.place, "packed", "*")))

    def entry(self):
        path, = self.entries()
        self.assertTrue(path.endswith(".packed"), path)
        return path

    def command(self, precision, memory):
        ids = os.path.join(self.place, "ids.json")
        with open(ids, "w", encoding="utf-8") as f:
            json.dump(PROMPTS[:1], f)
        return [os.path.join(BUILD, "bin", "accel"), "generate", self.work.name, "--ids", ids, "--device", "cpu", "--precision", precision,
                "--max-new-tokens", "6", "--threads", "2", "--quiet", "--json", "--memory", memory, "--cache-dir", self.place]

    def in_a_process(self, memory="3M", precision="int4", **environment):
        """(exit code, message, ids or None) of the tool."""
        done = subprocess.run(self.command(precision, memory), env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60, check=False)
        return done.returncode, done.stderr, None if done.returncode else [json.loads(done.stdout)["results"][0]["ids"]]

    def test_the_same_tokens(self):
        for precision, ids in self.ids.items():
            with self.subTest(precision=precision):
                model = self.limited("3M", precision)
                before = model.streaming
                self.assertLess(before["resident"] + before["staging"], 3 << 20)
                self.assertGreater(before["read_per_run"], 1 << 20)
                self.assertEqual(ids_of(model), ids)
                read = model.streaming["bytes"] - before["bytes"]
                self.assertGreaterEqual(read, 6 * before["read_per_run"] - before["staging"])
                self.assertLessEqual(read, 6 * before["read_per_run"] + before["staging"])

    def test_little_stays_in_the_page_cache(self):
        for run in ("made", "read"):
            model = self.limited("3M")
            if not model.streaming["direct"]:
                self.skipTest("this file system has no O_DIRECT")
            self.assertEqual(ids_of(model), self.ids["int8"])
            for path in (self.entry(), os.path.join(self.work.name, "model.safetensors")):
                done = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", path], stdout=subprocess.PIPE, check=True)
                self.assertLess(int(done.stdout), 2 << 20, (run, path))  # header, rows of the table and what the system read around these

    def test_one_entry_for_all(self):
        """Whatever the limit, and in memory: one entry, which is not written again."""
        self.assertEqual(ids_of(self.limited("2M")), self.ids["int8"])
        path, size = self.entry(), os.path.getsize(self.entry())
        with open(path, "rb") as f:
            first = f.read()
        for memory in ("3M", "4M", "1G"):
            model = self.limited(memory)
            self.assertEqual(model.streaming is None, memory == "1G")
            self.assertEqual(ids_of(model), self.ids["int8"])
            self.assertEqual(self.entry(), path)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), first)
        self.assertGreater(size, 5 << 20)

    def test_a_refusal_names_a_limit_that_works(self):
        for precision in ("int8", "int4"):
            with self.assertRaises(accel.DoesNotFitError) as caught:
                self.limited("600K", precision)
            option = re.search(r"--memory (\d+M)", str(caught.exception))
            self.assertIsNotNone(option, str(caught.exception))
            model = self.limited(option.group(1), precision)
            self.assertIsNotNone(model.streaming)
            self.assertEqual(ids_of(model), self.ids[precision])

    def test_there_must_be_a_cache(self):
        file = os.path.join(self.place, "file")
        with open(file, "w", encoding="utf-8"):
            pass
        for options, why in (({"no_cache": True}, "switched off: do without --no-cache"), ({"cache_limit": 1 << 20}, "raise --cache-limit"),
                             ({"cache_directory": file}, "cannot be written: give --cache-dir")):
            with self.subTest(why=why):
                with self.assertRaisesRegex(accel.DoesNotFitError, "streamed from the cache of packed weights: .*" + why) as caught:
                    self.limited("3M", **options)
                option = re.search(r"with --memory (\d+M) they stay in memory", str(caught.exception))
                self.assertIsNone(self.limited(option.group(1), **options).streaming)
                with accel.Context(memory="3M", **{"cache_directory": self.place, **options}) as context:
                    found = context.fit(self.work.name, "cpu", "int8", batch=1, seq=16)[0]
                self.assertFalse(found.fits)
                self.assertFalse(found.streams)
                self.assertIn(why, found.advice)
        self.limited("3M")
        self.assertEqual(ids_of(self.limited("3M", cache_limit=1 << 20)), self.ids["int8"])  # it is there already

    def test_writers_are_killed_and_the_disk_is_full(self):
        chance = random.Random()
        for _ in range(8):
            with subprocess.Popen(self.command("int4", "3M"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                threading.Event().wait(chance.uniform(0, 0.12))
                process.kill()
        self.assertEqual(self.in_a_process()[2], self.ids["int4"][:1])
        os.remove(self.entry())
        for n in (1, 4, 30):
            code, message, _ = self.in_a_process(ACCEL_FAIL_AT=f"disk_full:{n}")
            self.assertNotEqual(code, 0)
            self.assertRegex(message, "weights to be streamed: .* is not kept in the cache .*No space left")
            self.assertEqual(self.entries(), [])
        self.assertEqual(self.in_a_process()[2], self.ids["int4"][:1])

    def test_damage_is_no_number(self):
        """Bytes of the entry change: an error that names it, or the right tokens; the next load makes what is damaged again."""
        self.limited("3M", "int4")
        path, chance = self.entry(), random.Random()
        for _ in range(6):
            with open(path, "r+b") as f:
                f.seek(chance.randrange(8192, os.path.getsize(path)))
                at = f.tell()
                value = f.read(1)[0]
                f.seek(at)
                f.write(bytes([value ^ 0x55]))
            tokens, errors = None, []
            while tokens is None and len(errors) < 3:
                code, message, tokens = self.in_a_process()
                if code:
                    errors.append(message)
                    self.assertRegex(message, r"\.packed: segment \d+ is damaged: load the model again")
            self.assertEqual(tokens, self.ids["int4"][:1])
            self.assertLessEqual(len(errors), 1)

    def test_reading_fails(self):
        self.limited("3M", "int4")
        for point in ("read_error:30", "read_short:60", "segment_changed:50"):
            code, message, _ = self.in_a_process(ACCEL_FAIL_AT=point)
            self.assertNotEqual(code, 0, point)
            self.assertRegex(message, r"\.packed: ", point)
            self.assertEqual(self.in_a_process()[2], self.ids["int4"][:1])

    def test_another_file(self):
        model = self.limited("3M")
        self.assertEqual(ids_of(model), self.ids["int8"])
        path = self.entry()
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) - 4096)
        with self.assertRaisesRegex(accel.AccelError, r"\.packed"):
            ids_of(model)
        self.assertEqual(ids_of(self.limited("3M")), self.ids["int8"])

    def test_it_is_not_pruned_while_it_is_read(self):
        model = self.limited("2M")
        done = subprocess.run([os.path.join(BUILD, "bin", "accel"), "cache", "prune", "--all", "--cache-dir", self.place], stdout=subprocess.PIPE, check=True)
        self.assertIn(b"removed 0", done.stdout)
        self.assertEqual(ids_of(self.limited("4M")), self.ids["int8"])  # a second one, which reads it, too
        self.assertEqual(ids_of(model), self.ids["int8"])

    def test_a_tied_vocabulary(self):
        """Rows of the table are quantised as they are gathered: the numbers of the panels."""
        with tempfile.TemporaryDirectory() as work:
            write_llama(work, tied=True)
            for precision in ("int8", "int4", "fp8"):
                with accel.Context(threads=2, no_cache=True) as context:
                    ids = ids_of(accel.Model(work, device="cpu", precision=precision, context=context))
                with accel.Context(threads=2, memory="2M", cache_directory=self.place) as context:
                    model = accel.Model(work, device="cpu", precision=precision, context=context)
                    self.assertGreater(model.streaming["read_per_run"], 2 << 20)
                    self.assertEqual(ids_of(model), ids, precision)


class Fixtures(unittest.TestCase):
    """Of each family: it is streamed at all, and what it generates."""

    def streamed(self, name, more="1", **options):
        with environment(ACCEL_STREAM_WEIGHTS=more):
            return accel.Model(os.path.join(MODELS, name), device="cpu", **options)

    def test_families(self):
        for name in ("albert", "bart", "bert", "bert_fp16", "bloom", "camembert", "clip", "deberta_v3", "distilbert", "falcon", "gemma2", "gpt_neox", "llama_sharded",
                     "m2m_100", "mamba", "modernbert", "mpnet", "mt5", "nomic_bert", "opt", "phi3", "qwen2", "qwen3_moe", "qwen3_next", "generate_t5"):
            with self.subTest(model=name):
                streaming = self.streamed(name).streaming
                self.assertIsNotNone(streaming)
                self.assertGreater(streaming["read_per_run"], 0)

    def test_generation(self):
        for name in ("generate_t5", "generate_t5_gated", "generate_bart", "generate_marian", "llama_tied", "qwen3_moe", "qwen3_next", "gpt2", "bloom", "mamba"):
            with self.subTest(model=name):
                whole, model = accel.Model(os.path.join(MODELS, name), device="cpu"), self.streamed(name)
                self.assertIsNone(whole.streaming)
                self.assertEqual(ids_of(model, [[5, 6, 7], [8, 9]]), ids_of(whole, [[5, 6, 7], [8, 9]]))

    def test_examples(self):
        """Those in C (where they are built) and Python, on a model that is made to stream."""
        model = os.path.join(ROOT, "tests", "fixtures", "pipelines", "text")
        program = os.path.join(BUILD, "examples", "example_c_stream")
        commands = [[sys.executable, os.path.join(ROOT, "examples", "python", "stream.py"), model, "64M", "Once upon a time", "4"]]
        commands += [[program, model, "64", "Once upon a time", "4"]] if os.path.exists(program) else []
        environ = dict(os.environ, ACCEL_STREAM_WEIGHTS="1", PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python"))
        for command in commands:
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stdout.decode(errors="replace")
            self.assertRegex(said, r"are read for each token\n")
            self.assertRegex(said, r"\d runs read [0-9.]+ MB: [0-9.]+ GB/s, \d+ % of the time waiting for the disk\n")

    def test_a_layer_used_by_all_stays(self):
        """ALBERT's one layer is used by all of its layers: it stays before the embeddings' linears do, which are used once."""
        least, more = self.streamed("albert").streaming, None
        for kilobytes in range(4, 400, 4):
            more = self.streamed("albert", f"{kilobytes}K").streaming
            if more["read_per_run"] <= least["read_per_run"] // 3:
                break
        self.assertLess(more["resident"] - least["resident"], least["read_per_run"] // 2)

    def test_encoders_are_read_once(self):
        """An encoder-decoder reads its encoder in `encode`, and not for each token."""
        model = self.streamed("generate_t5")
        each = model.streaming["read_per_run"]
        ids_of(model, [[5, 6, 7]], new=1)
        one = model.streaming["bytes"]
        ids_of(model, [[5, 6, 7]], new=1)
        two = model.streaming["bytes"]
        ids_of(model, [[5, 6, 7]], new=9)
        ten = model.streaming["bytes"]
        self.assertLess(abs((ten - two) - (two - one) - 8 * each), model.streaming["staging"])


if __name__ == "__main__":
    unittest.main()
