"""The text tasks of the accel tool against what Python's pipelines gave for the same files (tests/fixtures/tasks, made by
tests/goldens/make_task_goldens.py): labels, ids, words and offsets exactly, scores and vectors within 1e-5, on each device given in
ACCEL_TEST_DEVICES (default: cpu reference) and whatever the batch size.
"""
import json
import os
import subprocess
import tempfile
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
TASKS = os.path.join(ROOT, "tests", "fixtures", "tasks")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "cpu reference").split()
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
        for batch in ("1", "2", "8"):
            self.check(DEVICES[0], "--batch", batch, subset=some)


if __name__ == "__main__":
    unittest.main()
