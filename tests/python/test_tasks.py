"""The text tasks of the accel tool against what Python's pipelines gave for the same files (tests/fixtures/tasks, made by
tests/goldens/make_task_goldens.py): labels, ids, words and offsets exactly, scores and vectors within 1e-5, on each device given in
ACCEL_TEST_DEVICES (default: cpu reference) and whatever the batch size.
"""
import json
import os
import subprocess
import tempfile
import unittest

from test_goldens import FEWER

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
TASKS = os.path.join(ROOT, "tests", "fixtures", "tasks")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "cpu" if FEWER else "cpu reference").split()
RESULT = {"embed": "embeddings"}
NOT_COMPARED = {"id"}  # classify also gives the label's number, which the pipeline does not


def names():
    return sorted(n for n in os.listdir(TASKS) if os.path.exists(os.path.join(TASKS, n, "golden.json")))


def golden(name):
    with open(os.path.join(TASKS, name, "golden.json"), encoding="utf-8") as f:
        return json.load(f)


def accel(*arguments, expected=0):
    done = subprocess.run([ACCEL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != expected:
        raise AssertionError(f"accel {' '.join(arguments)}: exit {done.returncode}, expected {expected}: {done.stderr}")
    return done.stdout, done.stderr


def run_task(command, model, inputs, arguments):
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "input.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(inputs, f)
        out, _ = accel(command, model, "--input", path, "--json", "--quiet", *arguments)
    return json.loads(out)[RESULT.get(command, "results")]


def difference(got, want, where=""):
    """Where two results differ, in words; None when they do not."""
    if isinstance(want, float) or (isinstance(want, int) and isinstance(got, float)):
        if not isinstance(got, (int, float)) or abs(got - want) > 1e-5 * abs(want) + 1e-6:
            return f"{where}: {got} instead of {want}"
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{where}: {len(got) if isinstance(got, list) else got} entries instead of {len(want)}: {str(got)[:600]} instead of {str(want)[:600]}"
        for i, (g, w) in enumerate(zip(got, want)):
            found = difference(g, w, f"{where}[{i}]")
            if found:
                return found
    elif isinstance(want, dict):
        if set(got) - NOT_COMPARED != set(want):
            return f"{where}: fields {sorted(got)} instead of {sorted(want)}"
        for key in want:
            found = difference(got[key], want[key], f"{where}.{key}")
            if found:
                return found
    elif got != want:
        return f"{where}: {got!r} instead of {want!r}"
    return None


class Goldens(unittest.TestCase):
    def check(self, device, *arguments, subset=None):
        for name in subset or names():
            expected = golden(name)
            for i, case in enumerate(expected["cases"]):
                with self.subTest(device=device, name=name, case=i, args=case["args"], arguments=arguments):
                    got = run_task(expected["command"], os.path.join(TASKS, name), case["input"], ["--device", device, *case["args"], *arguments])
                    found = difference(got, case["want"])
                    if found:
                        self.fail(found)

    def test_as_python_gives_them(self):
        self.assertGreaterEqual(len(names()), 35)
        for device in DEVICES:
            self.check(device)

    def test_whatever_the_batch_size(self):
        some = [n for n in names() if n in ("st_prompts", "st_no_prompt_dense", "features_bert", "classify_roberta", "tokens_wordpiece", "qa_bpe", "fill_bpe")]
        self.assertEqual(len(some), 7)
        for batch in ("2",) if FEWER else ("1", "2", "8"):
            self.check(DEVICES[0], "--batch", batch, subset=some)


TINY = {"models": [{"id": "tests/tiny-bert", "family": "bert", "description": "a BERT small enough for tests", "task": "fill-mask",
                    "architecture": "BertForMaskedLM", "embedding_dim": 24, "sequence_length": 32, "model_precision": "float32", "default_batch_size": 3,
                    "config": {"model_type": "bert", "vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
                               "intermediate_size": 40, "max_position_embeddings": 32}}]}
HARDWARE = ["cpu", "cuda", "amd", "openvino", "apple"]
PRECISIONS = ["fp32", "fp16", "bf16", "int8", "int4"]


class PrecisionTests(unittest.TestCase):
    """accel test: which keys there are, which values, and what a record says."""

    def run_tests(self, model, *arguments, expected=(0, 6)):
        with tempfile.TemporaryDirectory() as work:
            registry = os.path.join(work, "tiny.json")
            with open(registry, "w", encoding="utf-8") as f:
                json.dump(TINY, f)
            done = subprocess.run([ACCEL, "test", model, "--registry", registry, "--json", "--quiet", *arguments], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertIn(done.returncode, expected, done.stderr)
        return (json.loads(done.stdout) if done.stdout.strip() else None), done

    def test_every_combination_has_its_key(self):
        report, done = self.run_tests("tests/tiny-bert")
        keys = [key for h in HARDWARE for key in [f"{h}_test"] + [f"{h}_{p}_test" for p in PRECISIONS]]
        self.assertEqual(list(report["results"]), keys)
        for key, value in report["results"].items():
            self.assertTrue(value in ("Hardware not available", "Precision not supported", "Success") or value.startswith("Error: "), f"{key}: {value}")
        self.assertEqual(done.returncode, 6 if any(v.startswith("Error") for v in report["results"].values()) else 0)
        for h in HARDWARE:
            values = {report["results"][f"{h}_{p}_test"] for p in PRECISIONS}
            self.assertEqual("Hardware not available" in values, values == {"Hardware not available"}, h)
            self.assertEqual(report["results"][f"{h}_test"] == "Success", "Success" in values, h)

    def test_the_cpu_runs(self):
        report, _ = self.run_tests("tests/tiny-bert", "--hardware", "CPU", "--precisions", "float32,int4", expected=(0,))
        self.assertEqual(report["results"], {"cpu_test": "Success", "cpu_fp32_test": "Success", "cpu_int4_test": "Precision not supported"})
        (record,) = report["records"]
        self.assertEqual([record[k] for k in ("platform", "hardware", "precision", "device", "implementation_type", "passed")],
                         ["cpu (FP32)", "cpu", "fp32", "cpu", "CPU", True])
        self.assertRegex(record["weights"], r"^random, seed \d+, true shape$")
        self.assertTrue(record["output"].startswith("logits [2,9,61] "), record["output"])
        self.assertLess(record["max_abs"], 1e-5)
        self.assertGreater(record["cosine"], 0.999999)
        self.assertGreater(record["ms"], 0)

    def test_local_weights(self):
        report, _ = self.run_tests(os.path.join(TASKS, "classify_many"), "--hardware", "cpu", "--precisions", "fp32", expected=(0,))
        self.assertEqual(report["records"][0]["weights"], "local")

    def test_an_error_is_told(self):
        """A checkpoint whose tensors are not those of its config: the combination fails, the others are still tried."""
        with tempfile.TemporaryDirectory() as work:
            for name in os.listdir(os.path.join(TASKS, "classify_many")):
                with open(os.path.join(TASKS, "classify_many", name), "rb") as source, open(os.path.join(work, name), "wb") as to:
                    to.write(source.read())
            with open(os.path.join(work, "config.json"), encoding="utf-8") as f:
                config = json.load(f)
            config["intermediate_size"] += 1
            with open(os.path.join(work, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            report, _ = self.run_tests(work, "--hardware", "cpu", "--precisions", "fp32,int4", expected=(6,))
        self.assertTrue(report["results"]["cpu_fp32_test"].startswith("Error: "), report["results"])
        self.assertEqual(report["results"]["cpu_test"], report["results"]["cpu_fp32_test"])
        self.assertEqual(report["results"]["cpu_int4_test"], "Precision not supported")
        self.assertEqual(report["records"], [])

    def test_unknown_names(self):
        for arguments, code in ((["no/such"], 3), (["tests/tiny-bert", "--hardware", "abacus"], 2), (["tests/tiny-bert", "--precisions", "fp99"], 2)):
            _, done = self.run_tests(*arguments, expected=(code,))
            self.assertIn("unknown" if code == 2 else "not in the registry", done.stderr)


class Refusals(unittest.TestCase):
    """What the tasks say to inputs they cannot serve."""

    def refused(self, code, part, command, model, *arguments):
        _, errors = accel(command, os.path.join(TASKS, model), *arguments, "--device", "reference", "--quiet", expected=code)
        self.assertIn(part, errors)

    def test_wrong_head(self):
        self.refused(3, "text-classification", "qa", "classify_many", "who?", "me")
        self.refused(3, "fill-mask", "classify", "fill_bpe", "text")

    def test_the_task_chooses_the_class(self):
        """A sentence-transformers directory whose checkpoint has a head for masks does both."""
        (filled,) = run_task("fill-mask", os.path.join(TASKS, "st_of_mlm"), ["the [MASK] fox"], ["--device", "reference"])
        self.assertEqual(len(filled["fills"]), 5)

    def test_arguments(self):
        self.refused(2, "no mask token", "fill-mask", "fill_bpe", "nothing to fill")
        self.refused(2, "context 0 is empty", "qa", "qa_bpe", "who?", "")
        self.refused(2, "question 0 is empty", "qa", "qa_bpe", "", "me")
        self.refused(2, "stride needs", "tokens", "tokens_bpe", "text", "--stride", "3")
        self.refused(2, "no prompt named 'other'; known: query topic none", "embed", "st_prompts", "text", "--prompt-name", "other")
        self.refused(3, "Dense", "embed", "st_dense", "text", "--pooling", "max")

    def test_other_pooling(self):
        """A pooling that is asked for is what the model of that pooling gives."""
        for other, name in (("max", "st_max"), ("cls", "st_cls"), ("mean_sqrt_len_tokens", "st_sqrt"), ("weightedmean", "st_weighted"), ("lasttoken", "st_last")):
            case = golden(name)["cases"][0]
            got = run_task("embed", os.path.join(TASKS, "st_mean"), case["input"], ["--device", DEVICES[0], "--pooling", other])
            self.assertIsNone(difference(got, case["want"]), name)
        case = golden("st_subfolder")["cases"][0]
        plain = run_task("embed", os.path.join(TASKS, "st_subfolder"), case["input"], ["--device", DEVICES[0], "--normalize", "no"])
        for row, want in zip(plain, case["want"]):
            length = sum(x * x for x in row) ** 0.5
            self.assertGreater(abs(length - 1), 0.01)
            self.assertIsNone(difference([x / length for x in row], want))


if __name__ == "__main__":
    unittest.main()
