"""`accel verify` on checkpoints that are quantised already (tests/fixtures/models/quantised/quantised.list), on each device of
ACCEL_TEST_DEVICES (default: cpu and reference): in their own precision within its bound, and dequantised to fp32 within fp32's, since the
goldens come from the dequantised weights; and what is refused, by name.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
MODELS = os.path.join(ROOT, "tests", "fixtures", "models", "quantised")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "cpu reference").split()


def models():
    with open(os.path.join(MODELS, "quantised.list")) as f:
        return [line.split() for line in f if line.strip()]


def verify(model, golden, device, architecture, *more, environment=()):
    directory = os.path.join(MODELS, model)
    command = [ACCEL, "verify", directory, "--golden", os.path.join(MODELS, golden), "--device", device, "--architecture", architecture, "--json", *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env=dict(os.environ, **dict(environment)))
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}, done.stderr


class Quantised(unittest.TestCase):
    def check(self, precision, name, **wanted):
        self.assertGreater(len(models()), 50)
        for device in DEVICES:
            for model, golden, architecture, own in models():
                with self.subTest(device=device, model=model, golden=golden, precision=precision or own):
                    more = ["--precision", precision] if precision else []
                    code, report, errors = verify(model, os.path.join(model, golden), device, architecture, *more)
                    self.assertEqual(code, 0, errors + json.dumps(report))
                    self.assertTrue(report["pass"])
                    self.assertEqual(report["device"], device)
                    self.assertEqual(report["precision"], precision or own)

    def test_in_their_own_precision(self):
        self.check(None, "own")

    def test_dequantised_to_fp32(self):
        self.check("fp32", "fp32")

    def test_the_reference_dequantises_exactly(self):
        """In their own precision, too, the reference computes in fp32 from what the codes mean."""
        if "reference" not in DEVICES:
            self.skipTest("the reference is not among ACCEL_TEST_DEVICES")
        for model, golden, architecture, own in models():
            with self.subTest(model=model, golden=golden):
                _, report, errors = verify(model, os.path.join(model, golden), "reference", architecture)
                self.assertGreater(len(report["outputs"]), 0, errors)
                for output in report["outputs"]:
                    self.assertGreaterEqual(output["cosine"], 0.9999999)
                    self.assertLess(output["max_abs"], 1e-4)

    def test_other_precisions_quantise_anew(self):
        for precision in ("bf16", "int8", "int4"):
            for model, golden, architecture, own in models():
                if model not in ("gptq_g32", "ct_fp8_block", "ct_nvfp4_modernbert", "bnb_nf4"):
                    continue
                with self.subTest(model=model, precision=precision):
                    code, report, errors = verify(model, os.path.join(model, golden), DEVICES[-1], architecture, "--precision", precision)
                    self.assertEqual(code, 0, errors + json.dumps(report))
                    self.assertEqual(report["precision"], precision)


class Refused(unittest.TestCase):
    """A method or value that is not read: exit 3, the field by name, a remedy."""

    def edit(self, model, change):
        work = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, work)
        copy = os.path.join(work, "model")
        shutil.copytree(os.path.join(MODELS, model), copy)
        path = os.path.join(copy, "config.json")
        with open(path) as f:
            config = json.load(f)
        change(config)
        with open(path, "w") as f:
            json.dump(config, f)
        line = next(line for line in models() if line[0] == model)
        return verify(copy, os.path.join(model, line[1]), DEVICES[-1], line[2])

    def test_unknown_method(self):
        code, _, errors = self.edit("gptq_g32", lambda c: c["quantization_config"].update(quant_method="aqlm"))
        self.assertEqual(code, 3, errors)
        self.assertIn("quantization_config.quant_method", errors)
        self.assertIn("aqlm", errors)

    def test_no_configuration(self):
        code, _, errors = self.edit("gptq_g32", lambda c: c.pop("quantization_config"))
        self.assertEqual(code, 3, errors)
        self.assertIn("quantization_config", errors)
        self.assertIn(".qweight", errors)

    def test_unknown_value(self):
        code, _, errors = self.edit("awq_g32", lambda c: c["quantization_config"].update(version="gemv"))
        self.assertEqual(code, 3, errors)
        self.assertIn("version", errors)

    def test_wrong_group_size(self):
        code, _, errors = self.edit("awq_g32", lambda c: c["quantization_config"].update(group_size=64))
        self.assertNotEqual(code, 0)
        self.assertIn(".scales", errors)


class IntegerConvolutions(unittest.TestCase):
    """The true shapes of the registry, with random weights, beside the reference plugin at fp32: channels that fill whole blocks of codes
    and residuals between layers, which the small goldens do not have."""

    def test_registry_shapes(self):
        for isa in ("avx512vnni", "avx2", "scalar"):
            for model in ("microsoft/resnet-18", "microsoft/resnet-50"):
                with self.subTest(isa=isa, model=model):
                    done = subprocess.run([ACCEL, "test", model, "--hardware", "cpu", "--precisions", "int8", "--json"], stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, timeout=300, env={**os.environ, "ACCEL_ISA": isa})
                    report = json.loads(done.stdout)
                    if isa != "scalar" and report["results"]["cpu_test"] == "Hardware not available":
                        continue  # another kind of processor
                    self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
                    self.assertGreater(report["records"][0]["cosine"], 0.9999)


if __name__ == "__main__":
    unittest.main()
