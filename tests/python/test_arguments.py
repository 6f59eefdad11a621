"""What the processors of transformers write for a class, and its forward takes, accel_run takes, too (tests/goldens/list_arguments.py lists it)."""
import json
import os
import sys
import unittest

from sanitized import run_under_sanitizer
from test_goldens import FEWER

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))


class Arguments(unittest.TestCase):
    def test_processors(self):
        import accel
        with open(os.path.join(FIXTURES, "arguments.json")) as file:
            classes = json.load(file)
        self.assertGreater(len(classes), 200)
        looked_at = set()
        for name, what in sorted(classes.items()):
            # heads of a model take the same: one of each that differs
            key = (what["model"].split("_")[0], tuple(what["made"]), tuple(what["other"]) if not FEWER else ())
            if key in looked_at or not what["made"]:
                continue
            looked_at.add(key)
            with self.subTest(architecture=name), accel.Model(os.path.join(FIXTURES, "models", what["model"]), device="cpu", architecture=name) as model:
                for argument in what["made"]:
                    if argument in model.input_names:
                        continue
                    with self.assertRaises(accel.AccelError) as refused:  # other inputs are missing
                        model(**{argument: [[1]], "no_such_input": [[1]]})
                    self.assertNotIn(f"takes no input '{argument}'", str(refused.exception))
                    self.assertIn("takes no input 'no_such_input'", str(refused.exception))


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
