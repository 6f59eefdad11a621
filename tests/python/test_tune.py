"""`accel tune`: what it chooses holds on inputs that it has not seen; profiles as files, as texts and from Python; what is refused; the cache.

The models are fixtures of a ViT, a Whisper and a llama with random weights, and a sentence model; check_minilm.py has the real MiniLM.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
TOOL = os.path.join(BUILD, "bin", "accel")
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

WORDS = "a the cat dog sat on under mat hello there one two three red blue sky runs slowly".split()


def model(name):
    return os.path.join(FIXTURES, "models", name)


def run(*arguments):
    done = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, values)}, dtype F32 or I64."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'q'}", *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def vit_input(chance):
    return {"pixel_values": ("F32", [1, 3, 20, 20], [chance.gauss(0, 1) for _ in range(1200)])}


def whisper_input(chance):
    ids = [3] + [chance.randrange(4, 50) for _ in range(chance.randrange(2, 8))]
    return {"input_features": ("F32", [1, 10, 34], [chance.gauss(0, 1) for _ in range(340)]), "decoder_input_ids": ("I64", [1, len(ids)], ids)}


def llama_input(chance):
    ids = [chance.randrange(1, 67) for _ in range(chance.randrange(3, 20))]
    return {"input_ids": ("I64", [1, len(ids)], ids)}


def nested(shape, values):
    for size in reversed(shape[1:]):
        values = [values[i:i + size] for i in range(0, len(values), size)]
    return values


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, (list, tuple)) else [value]


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def rows(tensor):
    value = tensor.tolist()
    return [r for item in value for r in item] if len(tensor.shape) == 3 else [flat(item) for item in value]


class InAFolder(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def path(self, name, text=None):
        path = os.path.join(self.work, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        return path

    def profile(self, name="bert", precision="int8", **changes):
        with accel.Model(model(name), device="cpu", precision=precision) as m:
            profile = m.precision_profile()
        profile.update(changes)
        return profile


class Tune(InAFolder):
    def unseen(self, name, make, n=40):
        """The least cosine of new inputs under the profile that was written."""
        chance, least = random.Random(2), 1.0
        with accel.Model(model(name), device="cpu", precision="fp32") as exact, \
                accel.Model(model(name), device="cpu", precision_profile=self.path("profile.json")) as tuned:
            for _ in range(n):
                inputs = {k: nested(shape, values) for k, (_, shape, values) in make(chance).items()}
                a, b = exact(**inputs), tuned(**inputs)
                for key in a:
                    least = min([least] + [cosine(x, y) for x, y in zip(rows(a[key]), rows(b[key]))])
        return least

    def test_the_bound_holds_on_inputs_that_were_not_seen(self):
        for name, make, bound in (("vit", vit_input, 0.998), ("whisper", whisper_input, 0.997), ("llama", llama_input, 0.99)):
            chance, files = random.Random(1), []
            for i in range(30):
                files += ["--input", self.path(f"{name}{i}.safetensors")]
                write_safetensors(files[-1], make(chance))
            with self.subTest(model=name):
                code, out, errors = run("tune", model(name), *files, "--device", "cpu", "--min-cosine", str(bound), "--rounds", "1", "--json", "--quiet",
                                        "--precisions", "bf16,int8", "--metric", "memory", "-o", self.path("profile.json"))
                self.assertEqual(code, 0, errors)
                report = json.loads(out)
                self.assertEqual((report["schema"], report["inputs"], report["held_out"]), ("accel.tune/1", 20, 10))
                chosen = [t for t in report["tried"] if t["verdict"] == "chosen"]
                # of weights as small as these int8 is less than bf16 where the processor's kernels want few numbers beside the codes: not with AVX2 alone
                within = [t for t in report["tried"] if t["precision"] != "fp32" and t["cosine"] >= bound]
                self.assertEqual({t["precision"] for t in within}, {"bf16", "int8"})
                self.assertEqual([t["precision"] for t in chosen], [min(within, key=lambda t: t["weights_bytes"])["precision"]])
                self.assertGreaterEqual(min(chosen[0][k] for k in ("cosine", "expected_cosine", "held_out_cosine")), bound)
                with open(self.path("profile.json"), encoding="utf-8") as f:
                    self.assertEqual(json.load(f), report["profile"])
                self.assertGreaterEqual(self.unseen(name, make), bound)

    def test_kinds_are_mixed_where_no_precision_of_its_own_does(self):
        """int8 is too far, so kinds are raised to fp32 where int8 is as fast, which noise may hide in a model as small as this."""
        texts = self.path("texts.json", json.dumps([" ".join(random.Random(i).choices(WORDS, k=8)) for i in range(30)]))
        for _ in range(20):
            _, out, errors = run("tune", os.path.join(FIXTURES, "tasks", "st_mean"), "--input", texts, "--device", "cpu", "--precisions", "int8",
                                 "--min-cosine", "0.99999", "--rounds", "1", "--json", "--quiet")
            report = json.loads(out)
            self.assertEqual([t["precision"] for t in report["tried"][:2]], ["fp32", "int8"], errors)
            self.assertIn(report["tried"][1]["verdict"], ("below", "too near"))
            if len(report["tried"]) > 2:
                break
        self.assertGreaterEqual(len(report["tried"]), 6)
        for tried in report["tried"][2:]:
            self.assertEqual(tried["precision"], "int8")
            self.assertRegex(tried["kinds"], r"^\w+=fp32")
            self.assertGreaterEqual(tried["weights_bytes"], report["tried"][1]["weights_bytes"])  # equal: of 16 columns with AVX2 alone

    def test_nothing_but_fp32(self):
        chance, files = random.Random(3), []
        for i in range(6):
            files += ["--input", self.path(f"{i}.safetensors")]
            write_safetensors(files[-1], llama_input(chance))
        code, _, errors = run("tune", model("llama"), *files, "--device", "cpu", "--precisions", "int8", "--rounds", "1", "--min-cosine", "1",
                              "-o", self.path("profile.json"))
        self.assertEqual(code, 6, errors)
        self.assertIn("nothing but fp32", errors)
        with open(self.path("profile.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["precision"], "fp32")

    def test_inputs_of_every_kind(self):
        texts = ["--input", self.path("t.txt", "hello there\nthe cat sat\none two\n"), "--input", self.path("u.json", '["a dog", "red sky"]')]
        picture, sound = os.path.join(FIXTURES, "image", "pictures", "rgb.png"), os.path.join(FIXTURES, "speech", "short.wav")
        for folder, inputs, n in (("pipelines/text", texts, 5), ("pipelines/t5", texts, 5), ("tasks/classify_one", texts, 5), ("media/vit", ["--input", picture] * 3, 3),
                                  ("speech/english", ["--input", sound] * 3, 3), ("media/wav2vec2", ["--input", sound] * 3, 3)):
            with self.subTest(model=folder):
                code, out, errors = run("tune", os.path.join(FIXTURES, folder), *inputs, "--device", "cpu", "--precisions", "fp16", "--rounds", "1",
                                        "--min-cosine", "0.9", "--new", "4", "--json", "--quiet")
                self.assertIn(code, (0, 6), errors)
                report = json.loads(out)
                self.assertEqual((report["inputs"] + report["held_out"], report["held_out"]), (n, n // 3))
                self.assertEqual([(t["precision"], t["cosine"] == 1) for t in report["tried"][:2]], [("fp32", True), ("fp16", False)])
                self.assertGreater(report["tried"][1]["cosine"], 0.99)

    def test_few_inputs_are_said(self):
        code, _, errors = run("tune", os.path.join(FIXTURES, "pipelines", "text"), "--input", self.path("t.txt", "hello\nthere\n"), "--device", "cpu",
                              "--precisions", "bf16", "--rounds", "1", "--min-cosine", "0.9")
        self.assertIn(code, (0, 6))
        self.assertIn("too few to hold one out", errors)

    def test_usage(self):
        for arguments, said in ((["--input", "x"], "No such file"), ([], "no inputs"), (["--precision", "int8", "--input", "x"], "--precisions"),
                                (["--precisions", "int7", "--input", self.path("t.txt", "a\nb\nc\n")], "int7"), (["--min-cosine", "2", "--input", "x"], "min-cosine")):
            with self.subTest(arguments=arguments):
                code, _, errors = run("tune", os.path.join(FIXTURES, "pipelines", "text"), *arguments)
                self.assertNotEqual(code, 0)
                self.assertIn(said, errors)


class Profile(InAFolder):
    def output(self, **options):
        with accel.Model(model("bert_wide"), device="cpu", **options) as m:
            return flat(m(input_ids=[[1, 5, 9, 7, 3]])["last_hidden_state"].tolist()), m.placement

    def test_a_profile_of_one_precision_is_that_precision(self):
        for precision in ("fp32", "bf16", "int8", "int4"):
            plain, _ = self.output(precision=precision)
            by_profile, placement = self.output(precision_profile=self.profile("bert_wide", precision))
            self.assertEqual(plain, by_profile)
            self.assertEqual((placement.precision, placement.precision_kinds, placement.precision_profile), (precision, "", "precision_profile"))

    def test_kinds_change_the_numbers_and_the_report(self):
        plain, before = self.output(precision="int8")
        mixed, placement = self.output(precision_profile=self.profile("bert_wide", kinds={"attention": "fp32", "linear": "fp32"}))
        exact, _ = self.output(precision="fp32")
        self.assertNotEqual(plain, mixed)
        self.assertGreater(cosine(mixed, exact), cosine(plain, exact))
        self.assertEqual(placement.precision_kinds, "attention=fp32,linear=fp32")
        self.assertIn("attention=fp32", placement.label)
        self.assertGreater(placement.weight_bytes, before.weight_bytes)

    def test_the_tool_says_what_it_applied(self):
        path = self.path("p.json", json.dumps(self.profile("bert", kinds={"attention": "fp32"})))
        write_safetensors(self.path("in.safetensors"), {"input_ids": ("I64", [1, 3], [1, 2, 3])})
        code, out, errors = run("run", model("bert"), "--input", self.path("in.safetensors"), "--precision-profile", path, "--json")
        self.assertEqual(code, 0, errors)
        report = json.loads(out)
        self.assertEqual((report["precision"], report["precision_kinds"], report["precision_profile"]), ("int8", "attention=fp32", path))
        self.assertIn(f"int8, attention=fp32 by {path}", errors)

    def test_the_cache_never_gives_another_mixture(self):
        mixtures = [self.profile("bert_wide", kinds=kinds) for kinds in ({}, {"attention": "fp32"}, {"linear": "int4"}, {"attention": "int4"})]
        with accel.Context(no_cache=True) as context:
            fresh = [self.output(precision_profile=p, context=context)[0] for p in mixtures]
        for _ in range(2):  # written, then read
            with accel.Context(cache_directory=self.path("cache")) as context:
                self.assertEqual(fresh, [self.output(precision_profile=p, context=context)[0] for p in mixtures])

    def test_refused(self):
        good = self.profile("bert")
        other = dict(good, model=dict(good["model"], weights="0" * 16))
        cases = (({"precision_profile": other}, "another checkpoint"), ({"precision_profile": good, "precision": "int8"}, "give one"),
                 ({"precision_profile": dict(good, device="vulkan")}, "is for vulkan"), ({"precision_profile": self.path("none.json")}, "none.json"),
                 ({"precision_profile": self.path("bad.json", "{")}, "bad.json"), ({"precision_profile": dict(good, kinds={"layer": "fp32"})}, "kinds.layer"))
        for options, said in cases:
            with self.subTest(said=said), self.assertRaisesRegex(accel.AccelError, said):
                accel.Model(model("bert"), device="cpu", **options)
        with self.assertRaisesRegex(accel.AccelError, "BertModel, but"):
            accel.Model(model("gpt2"), device="cpu", precision_profile=good)

    def test_commands_of_one_precision_refuse_it(self):
        path = self.path("p.json", json.dumps(self.profile("bert")))
        for arguments in (["fit", model("bert")], ["bench", model("bert")], ["test", model("bert")], ["verify", "--all", self.work]):
            code, _, errors = run(*arguments, "--precision-profile", path)
            self.assertEqual(code, 2)
            self.assertIn("without --precision-profile", errors)


if __name__ == "__main__":
    unittest.main()
