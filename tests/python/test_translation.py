"""Translations, summaries and other texts of encoder-decoders, through the package and the tool: as transformers' pipelines give them
(tests/goldens/make_translation_goldens.py), languages, streaming, refusals.
"""
import json
import os
import subprocess
import sys
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
PIPELINES = os.path.join(ROOT, "tests", "fixtures", "pipelines")
DEVICE = os.environ.get("ACCEL_TEST_DEVICES", "reference").split()[0]
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))


def expected(name):
    with open(os.path.join(PIPELINES, name, "expected.json"), encoding="utf-8") as f:
        return json.load(f)


def tool(command, name, *arguments):
    done = subprocess.run([ACCEL, command, os.path.join(PIPELINES, name), "--device", DEVICE, "--quiet", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


class Package(unittest.TestCase):
    def test_pipelines(self):
        import accel
        for name in ("marian", "t5", "mbart", "bart"):
            with accel.Model(os.path.join(PIPELINES, name), device=DEVICE) as model:
                for case in expected(name):
                    with self.subTest(model=name, task=case["task"], options=case["options"]):
                        self.assertEqual(accel.pipeline(case["task"], model)(case["texts"], **case["options"]), case["results"])

    def test_model_from_a_directory(self):
        import accel
        case = expected("t5")[0]
        with accel.pipeline(case["task"], os.path.join(PIPELINES, "t5"), device=DEVICE, **case["options"]) as translate:
            self.assertEqual(translate(case["texts"]), case["results"])

    def test_errors(self):
        import accel
        with accel.Model(os.path.join(PIPELINES, "mbart"), device=DEVICE) as model:
            with self.assertRaises(accel.ArgumentError) as caught:
                model.translate("a", "en_XX", "de_DF")
            self.assertIn("ro_RO", str(caught.exception))
        with accel.Model(os.path.join(PIPELINES, "text"), device=DEVICE) as model:
            with self.assertRaises(accel.UnsupportedError):
                model.summarize("a")


class Tool(unittest.TestCase):
    def good(self, *arguments):
        code, out, errors = tool(*arguments)
        self.assertEqual(code, 0, errors)
        return out

    def test_languages(self):
        """Named as the model spells them, or in part."""
        case = expected("mbart")[0]
        texts = [r["translation_text"] for r in case["results"]]
        for source, target in (("en_XX", "de_DE"), ("en", "de")):
            report = json.loads(self.good("translate", "mbart", "--from", source, "--to", target, "--json", *case["texts"]))
            self.assertEqual(report["schema"], "accel.translate/1")
            self.assertEqual([r["text"] for r in report["results"]], texts)
        de, fr = expected("t5")[:2]
        self.assertEqual(self.good("translate", "t5", "--from", "en", "--to", "fr", "--max-new-tokens", "12", fr["texts"]), fr["results"][0]["translation_text"] + "\n")
        self.assertEqual(self.good("translate", "t5", "--to", "de", "--max-new-tokens", "12", de["texts"][0]), de["results"][0]["translation_text"] + "\n")
        code = expected("marian")[2]
        for arguments in (("--to", "fra", "Hello world"), (">>fra<< Hello world",)):  # streamed, and not
            for stream in (), ("--stream",):
                found = self.good("translate", "marian", "--beams", "1", "--max-new-tokens", "8", *arguments, *stream)
                self.assertEqual(found, code["results"][0]["translation_text"] + "\n")

    def test_beams_are_printed_at_the_end(self):
        case = expected("marian")[0]
        self.assertEqual(self.good("translate", "marian", "--stream", case["texts"]), case["results"][0]["translation_text"] + "\n")

    def test_summaries(self):
        case = expected("bart")[1]
        report = json.loads(self.good("summarize", "bart", "--json", *case["texts"]))
        self.assertEqual(report["schema"], "accel.summarize/1")
        self.assertEqual([r["text"] for r in report["results"]], [r["summary_text"] for r in case["results"]])

    def test_long_texts_are_cut(self):
        """BART's 32 positions: what follows them changes nothing."""
        long = "the quick brown fox jumps over the lazy dog " * 20
        self.assertEqual(self.good("summarize", "bart", long), self.good("summarize", "bart", long + "and more"))

    def test_inputs_alone_have_the_length_asked_for(self):
        found = json.loads(self.good("summarize", "t5", "the quick brown fox jumps over the lazy dog", "--max-length", "5", "--max-new-tokens", "12", "--json"))
        self.assertEqual(found["prompt_tokens"], 5)
        self.assertGreater(found["new_tokens"], 5)

    def test_refusals(self):
        for code, known, arguments in ((2, "it knows", ("translate", "mbart", "a", "--to", "xx_XX")), (2, "did you mean 'de_DE'", ("translate", "mbart", "a", "--to", "de_DF")),
                                       (2, "en_to_fr", ("translate", "t5", "a", "--from", "en", "--to", "it")), (2, "fra", ("translate", "marian", "a", "--to", "it")),
                                       (2, "does not say", ("translate", "bart", "a", "--to", "it")), (3, "encoder-decoder", ("translate", "text", "a"))):
            with self.subTest(arguments=arguments):
                got, out, errors = tool(*arguments)
                self.assertEqual((got, out), (code, ""), errors)
                self.assertIn(known, errors)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
