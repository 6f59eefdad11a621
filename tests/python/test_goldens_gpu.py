"""`accel verify` on the goldens (tests/fixtures/models/goldens*.list) on the devices in ACCEL_TEST_GPU_DEVICES (default: opencl).

opencl runs all of them at fp32, and the first golden of every model at fp16 and int8.  Software drivers that take a second for a model (vulkan, hip-emulated)
run at fp32 the first golden of every model type, and its first generation; with ACCEL_TEST_GPU_ALL=1 what opencl does.  A device that is not there is
skipped with its reason."""
import json
import os
import struct
import subprocess
import unittest

import test_goldens

DEVICES = os.environ.get("ACCEL_TEST_GPU_DEVICES", "opencl").split()
ALL = os.environ.get("ACCEL_TEST_GPU_ALL", "0") != "0"


def why_not(device):
    """Why a device cannot be used; None when it can."""
    done = subprocess.run([test_goldens.ACCEL, "detect", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300)
    found = [d for d in json.loads(done.stdout)["devices"] if d["name"].split(":")[0] == device]
    if any(d["usable"] for d in found):
        return None
    return f"{device}: " + (found[0]["reason"] if found else "no such device here")


def kind_of(model, golden):
    """(model type, mode of the golden)"""
    try:
        with open(os.path.join(test_goldens.MODELS, model, "config.json"), encoding="utf-8") as f:
            kind = json.load(f)["model_type"]
    except FileNotFoundError:
        kind = model
    with open(os.path.join(test_goldens.MODELS, model, golden), "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        return kind, json.loads(f.read(n)).get("__metadata__", {}).get("mode", "forward")


def first_of_each(lines, key):
    found = {}
    for line in lines:
        found.setdefault(key(line), line)
    return list(found.values())


class GpuGoldens(unittest.TestCase):
    def check(self, device, precision, goldens):
        reports = test_goldens.verify_all(device, precision, goldens, timeout=3600 if ALL else 900)
        for (model, golden, *_), report in zip(goldens, reports):
            with self.subTest(device=device, precision=precision, model=model, golden=golden):
                self.assertTrue(report.get("pass"), report)
                self.assertEqual(report["device"].split(":")[0], device)

    def test_goldens(self):
        goldens = test_goldens.goldens()
        for device in DEVICES:
            reason = why_not(device)
            if reason:
                self.skipTest(reason)
            if device != "opencl" and not ALL:
                self.check(device, "fp32", first_of_each(goldens, lambda line: kind_of(*line[:2])))
                continue
            self.check(device, "fp32", goldens)
            for precision in ("fp16", "int8"):
                self.check(device, precision, first_of_each(goldens, lambda line: line[0]))


if __name__ == "__main__":
    unittest.main()
