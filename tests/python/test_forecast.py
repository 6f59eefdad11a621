"""Forecasts of time series beside those of chronos-forecasting and transformers (tests/fixtures/models/*/forecasts.json), in Python and by the tool."""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
TOOL = os.path.join(BUILD, "bin", "accel")
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
OPTIONS = ("horizon", "quantiles", "samples", "seed", "temperature", "top_k", "top_p", "frequency")


def flat(values):
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [n for v in values for n in flat(v)]
    return [values]


def tool(*args, **how):
    return subprocess.run([TOOL, "forecast", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, **how)


class Answers(unittest.TestCase):
    def close(self, mine, reference, what):
        mine, reference = flat(mine), flat(reference)
        self.assertEqual(len(mine), len(reference), what)
        for a, b in zip(mine, reference):
            self.assertTrue(abs(a - b) <= 2e-4 * max(1.0, abs(b)), f"{what}: {a} where the reference has {b}")

    def test_reference(self):
        import accel
        files = sorted(glob.glob(os.path.join(MODELS, "*", "forecasts.json")))
        self.assertGreater(len(files), 7)
        for path in files:
            name = os.path.basename(os.path.dirname(path))
            model = accel.Model(os.path.dirname(path), device="cpu")
            with open(path) as file:
                cases = json.load(file)
            for i, case in enumerate(cases):
                with self.subTest(model=name, case=i):
                    found = model.forecast(case["series"], **{k: case[k] for k in OPTIONS if k in case})
                    self.close([f.mean for f in found], case["mean"], "mean")
                    if "answer" in case:
                        self.close([f.quantiles for f in found], case["answer"], "quantiles")
                    if "paths" in case:
                        self.close([f.samples for f in found], case["paths"], "samples")


class Pipeline(unittest.TestCase):
    def test_one_and_several(self):
        import accel
        pipe = accel.pipeline("time-series-forecasting", os.path.join(MODELS, "chronos_bolt"), device="cpu", horizon=3)
        one = pipe([1.0, 2.0, None, 4.0], quantiles=[0.1, 0.5])
        self.assertEqual(flat(one["mean"]), flat(one["quantiles"][0.5]))
        several = pipe([[1.0, 2.0, float("nan"), 4.0], [3.0, 3.5]])
        self.assertEqual(len(several), 2)
        self.assertEqual(sorted(several[0]["quantiles"]), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
        for a, b in zip(flat(several[0]["mean"]), flat(one["mean"])):
            self.assertAlmostEqual(a, b, places=4)

    def test_refusals(self):
        import accel
        bolt, times = (accel.Model(os.path.join(MODELS, name), device="cpu") for name in ("chronos_bolt", "timesfm"))
        patch = accel.Model(os.path.join(MODELS, "patchtst"), device="cpu")
        bert = accel.Model(os.path.join(MODELS, "bert"), device="cpu")
        for model, series, options, words in (
                (bert, [[1.0]], {}, "forecasts no time series"), (bolt, [], {}, "no series"), (bolt, [[1.0], []], {}, "series 1 has no values"),
                (bolt, [[1.0, math.inf]], {}, "value 1 is infinite"), (bolt, [[1.0]], {"quantiles": [1.5]}, "quantiles[0] is 1.5"),
                (times, [[1.0, math.nan]], {}, "value 1 is missing"), (times, [[1.0]], {"horizon": 8}, "at most 7 values"),
                (times, [[1.0]], {"quantiles": [0.11]}, "none of the model's"), (times, [[1.0]], {"frequency": 3}, "frequency is 3"),
                (patch, [[1.0] * 30], {}, "forecasts 3 together"), (patch, [[1.0] * 22] * 3, {}, "has 22 values"),
                (patch, [[1.0] * 30] * 3, {"quantiles": [0.5]}, "gives no quantiles")):
            with self.subTest(words=words), self.assertRaisesRegex(accel.AccelError, words.replace("[", r"\[").replace("]", r"\]")):
                model.forecast(series, **options)


class Tool(unittest.TestCase):
    model = os.path.join(MODELS, "chronos_bolt")

    def csv(self, text, *args):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(text)
            file.flush()
            return tool(self.model, "--input", file.name, "--device", "cpu", *args)

    def test_csv(self):
        import accel
        done = self.csv("month,sales,\"cost, net\"\r\n2024-01,1,10\r\n2024-02,,11\r\n2024-03,3,NA\r\n", "--horizon", "2", "--quantiles", "0.1,0.9", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([r["series"] for r in found["results"]], ["sales", "cost, net"])
        self.assertEqual(found["levels"], [0.1, 0.9])
        mine = accel.Model(self.model, device="cpu").forecast([[1, None, 3], [10, 11, None]], horizon=2, quantiles=[0.1, 0.9])
        for one, other in zip(found["results"], mine):
            for a, b in zip(flat(one["mean"]) + flat(one["quantiles"]), flat(other.mean) + flat(other.quantiles)):
                self.assertAlmostEqual(a, b, places=5)

    def test_no_header_and_operands(self):
        done = self.csv("1;4\n2;5\n3;6\n", "--horizon", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 3)
        done = tool(self.model, "1", "2", "3", "--device", "cpu", "--horizon", "1")
        self.assertEqual(done.stdout.splitlines()[1].split()[:2], ["1", "1"], done.stderr)

    def test_errors_by_line(self):
        for text, words in (("a,b\n1,2\n3\n", "line 3 has 1 cells, the first line 2"), ("a,b\n1,2\n3,x\n", "line 3, column 2 (b): 'x' is no number"),
                            ("a\n\"1\n", "line 2: a quote is not closed"), ("a,b\nx,y\n", "holds no series of numbers")):
            done = self.csv(text)
            self.assertEqual((done.returncode, words in done.stderr), (1, True), done.stderr)
        done = tool(self.model, "1", "two", "--device", "cpu")
        self.assertEqual((done.returncode, "value 2, 'two', is no number" in done.stderr), (2, True), done.stderr)

    def test_json(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"a": [1, null, 3], "b": [2, "x"]}')
            file.flush()
            done = tool(self.model, "--input", file.name, "--device", "cpu")
        self.assertIn("series b: entry 1 is no number", done.stderr)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
