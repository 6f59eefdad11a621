"""`accel verify` on the goldens (tests/fixtures/models/goldens*.list) on the devices in ACCEL_TEST_GPU_DEVICES (default: opencl).

All of them at fp32, and the first golden of every model at fp16 and int8, smallest models first; with ACCEL_TEST_GPU_ALL=1 all of them at these, too (the long tier).
A device that is not there is skipped with its reason."""
import json
import os
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


def size(line):
    """Bytes of a model's weights."""
    folder = os.path.join(test_goldens.MODELS, line[0])
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("model") and name.endswith(".safetensors"))


class GpuGoldens(unittest.TestCase):
    def check(self, device, precision, goldens):
        reports = test_goldens.verify_all(device, precision, goldens, timeout=3600 if ALL else 1500)
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
            self.check(device, "fp32", goldens)
            first = sorted({line[0]: line for line in reversed(goldens)}.values(), key=size)
            for precision in ("fp16", "int8"):
                self.check(device, precision, goldens if ALL else first)


if __name__ == "__main__":
    unittest.main()
