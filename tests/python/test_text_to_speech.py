"""Speech from texts beside transformers' tokenizer and pipeline (tests/fixtures/models/vits*/spoken.json), in Python and by the tool."""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import wave

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
TOOL = os.path.join(BUILD, "bin", "accel")
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))


def flat(values):
    return values.tolist() if hasattr(values, "tolist") else list(values)


def tool(*args):
    return subprocess.run([TOOL, "text-to-speech", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


def changed(name, **settings):
    """A copy of a fixture's directory (links) with other fields of tokenizer_config.json."""
    place = tempfile.TemporaryDirectory()
    for file in os.listdir(os.path.join(MODELS, name)):
        os.symlink(os.path.join(MODELS, name, file), os.path.join(place.name, file))
    path = os.path.join(place.name, "tokenizer_config.json")
    with open(path) as file:
        config = {**json.load(file), **settings}
    os.unlink(path)
    with open(path, "w") as file:
        json.dump(config, file)
    return place


class Reference(unittest.TestCase):
    def test_spoken(self):
        import accel
        files = sorted(glob.glob(os.path.join(MODELS, "vits*", "spoken.json")))
        self.assertEqual(len(files), 3)
        for path in files:
            with open(path) as file:
                cases = json.load(file)["spoken"]
            pipe = accel.pipeline("text-to-speech", os.path.dirname(path), device="cpu")
            for case in cases:
                with self.subTest(path=path, case=case["text"]):
                    params = {name: case[name] for name in ("speaker_id", "speaking_rate") if name in case}
                    found = pipe(case["text"], forward_params=params, seed=case["seed"])
                    self.assertEqual((found["sampling_rate"], len(flat(found["audio"]))), (case["rate"], case["n"]))
                    for mine, reference in zip(flat(found["audio"])[::7], case["samples"]):
                        self.assertAlmostEqual(mine, reference, delta=2e-4)


class Speech(unittest.TestCase):
    def model(self, name="vits"):
        import accel
        return accel.Model(os.path.join(MODELS, name), device="cpu")

    def test_seeds_and_scales(self):
        model = self.model()
        one, again, other = (model.text_to_speech(["hello"], seed=seed)[0] for seed in (1, 1, 2))
        self.assertEqual(flat(one.samples), flat(again.samples))
        self.assertNotEqual(flat(one.samples), flat(other.samples))
        still = [flat(model.text_to_speech(["hello"], seed=seed, noise_scale=0, noise_scale_duration=0)[0].samples) for seed in (1, 2)]
        self.assertEqual(still[0], still[1])
        slow, fast = (len(flat(model.text_to_speech(["hello there"], speaking_rate=rate, noise_scale_duration=0)[0].samples)) for rate in (0.5, 2))
        self.assertGreater(slow, fast)

    def test_several_draw_one_after_the_other(self):
        model = self.model()
        both = model.text_to_speech(["hello", "hello"], seed=3)
        self.assertEqual(flat(both[0].samples), flat(model.text_to_speech(["hello"], seed=3)[0].samples))
        self.assertNotEqual(flat(both[0].samples), flat(both[1].samples))

    def test_refusals(self):
        import accel
        plain, many = self.model(), self.model("vits_speakers")
        bert = accel.Model(os.path.join(MODELS, "bert"), device="cpu")
        for model, texts, options, words in (
                (bert, ["a"], {}, "does not speak"), (plain, [], {}, "no texts"), (plain, ["a", "123"], {}, "text 1 has no character"),
                (plain, ["a"], {"speaker": 1}, "speaker 1: the model has 1"), (many, ["a"], {"speaker": 4}, "speaker 4: the model has 4"),
                (plain, ["a"], {"speaking_rate": 0}, "speaking_rate is 0"), (plain, ["a"], {"noise_scale": -1}, "noise_scale is -1"),
                (plain, ["a"], {"max_seconds": 0.001}, "more than 0.001")):
            with self.subTest(words=words), self.assertRaisesRegex(accel.AccelError, words):
                model.text_to_speech(texts, **options)

    def test_what_is_not_made_here(self):
        import accel
        with changed("vits", phonemize=True) as place:
            model = accel.Model(place, device="cpu")
            with self.assertRaisesRegex(accel.UnsupportedError, "phonemize"):
                model.text_to_speech(["hello"])
            self.assertGreater(len(flat(model.text_to_speech(["he  lo"], phonemes=1)[0].samples)), 0)
        with changed("vits", is_uroman=True) as place:
            model = accel.Model(place, device="cpu")
            with self.assertRaisesRegex(accel.UnsupportedError, "is_uroman"):
                model.text_to_speech(["été"])
            self.assertGreater(len(flat(model.text_to_speech(["hello"])[0].samples)), 0)

    def test_config_fields(self):
        import accel
        for field, value, words in (("duration_predictor_kernel_size", 4, "not odd"), ("depth_separable_channels", 4, "known: 2"), ("flow_size", 7, "is odd"),
                                    ("upsample_rates", [4], "upsample_kernel_sizes"), ("hidden_act", "sine", "hidden_act"), ("resblock_dilation_sizes", [[1]], "resblock_dilation_sizes")):
            with tempfile.TemporaryDirectory() as place:
                for file in ("model.safetensors", "vocab.json"):
                    os.symlink(os.path.join(MODELS, "vits", file), os.path.join(place, file))
                with open(os.path.join(MODELS, "vits", "config.json")) as file:
                    config = {**json.load(file), field: value}
                with open(os.path.join(place, "config.json"), "w") as file:
                    json.dump(config, file)
                with self.subTest(field=field), self.assertRaisesRegex(accel.AccelError, words):
                    accel.Model(place, device="cpu")


class Tool(unittest.TestCase):
    def test_wav(self):
        import accel
        directory = os.path.join(MODELS, "vits")
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "out.wav")
            done = tool(directory, "hello", "-o", path, "--seed", "4", "--device", "cpu")
            self.assertEqual((done.returncode, done.stdout.strip()), (0, path), done.stderr)
            with wave.open(path) as file:
                self.assertEqual((file.getnchannels(), file.getsampwidth(), file.getframerate()), (1, 2, 8000))
                got = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
            mine = flat(accel.Model(directory, device="cpu").text_to_speech(["hello"], seed=4)[0].samples)
            self.assertEqual(len(got), len(mine))
            self.assertLessEqual(max(abs(a - 32767 * b) for a, b in zip(got, mine)), 0.51)
            done = tool(directory, "hello", "a", "-o", path, "--json", "--device", "cpu")
            found = json.loads(done.stdout)
            self.assertEqual([os.path.basename(s["file"]) for s in found["sounds"]], ["out.1.wav", "out.2.wav"])
            self.assertTrue(all(os.path.getsize(s["file"]) == 44 + 2 * s["samples"] for s in found["sounds"]))

    def test_errors(self):
        done = tool(os.path.join(MODELS, "vits"), "hello")
        self.assertEqual((done.returncode, "-o FILE.wav" in done.stderr), (2, True), done.stderr)
        done = tool(os.path.join(MODELS, "vits"), "hello", "-o", "/nowhere/out.wav", "--device", "cpu")
        self.assertEqual((done.returncode, "/nowhere/out.wav" in done.stderr), (1, True), done.stderr)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
