"""`accel generate` on the model of fixtures/pipelines/text: what tests of several files have in common."""
import os
import subprocess
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
DEVICE = os.environ.get("ACCEL_TEST_DEVICES", "reference").split()[0]
MODEL = os.path.join(ROOT, "tests", "fixtures", "pipelines", "text")


def tool(*arguments):
    done = subprocess.run([ACCEL, "generate", MODEL, "--device", DEVICE, "--quiet", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


class ToolTest(unittest.TestCase):
    def good(self, *arguments):
        code, out, errors = tool(*arguments)
        self.assertEqual(code, 0, errors)
        return out
