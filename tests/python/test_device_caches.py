"""Two processes at once on one device, with one cache of compiled kernels between them: the same numbers whether the cache is empty, full or damaged.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree."""
import json
import os
import subprocess
import tempfile
import unittest

from test_cli import ACCEL, ENVIRONMENT, model, run

TEXTS = ["a sentence", "another one, somewhat longer than the first"]


def flat(nested):
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [nested]


def files_of(directory):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(directory) for name in names)


class Caches(unittest.TestCase):
    def embed_twice(self, device, cache):
        """The vectors that two processes give, started together."""
        environment = {**ENVIRONMENT, "ACCEL_CACHE_DIR": cache}
        command = [ACCEL, "embed", model("base"), *TEXTS, "--device", device, "--json"]
        both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        found = []
        for process in both:
            out, problem = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, problem)
            found.append(json.loads(out)["embeddings"])
        return found

    def check(self, device):
        if run("detect", device).returncode == 4:
            self.skipTest(f"no {device} device")
        with tempfile.TemporaryDirectory() as cache:
            first = self.embed_twice(device, cache)
            self.assertEqual(first[0], first[1])
            self.assertTrue(files_of(cache))
            self.assertFalse([f for f in files_of(cache) if ".tmp" in f], "what was written is renamed")
            self.assertEqual(self.embed_twice(device, cache), first)
            for i, path in enumerate(files_of(cache)):
                with open(path, "rb") as f:
                    content = f.read()
                with open(path, "wb") as f:  # cut short, changed in the middle, or empty
                    f.write((content[:len(content) // 2], content[:-9] + b"\xff" * min(9, len(content)), b"")[i % 3])
            self.assertEqual(self.embed_twice(device, cache), first)

    def test_kernels_that_fail_their_trial_are_left_out(self):
        if run("detect", "hip-emulated:32").returncode == 4:
            self.skipTest("no emulator")
        found = {}
        for fault in ("", "variant"):
            with tempfile.TemporaryDirectory() as cache:
                environment = {"ACCEL_CACHE_DIR": cache, "ACCEL_FAIL_AT": fault}
                done = run("embed", model("base"), *TEXTS, "--device", "hip-emulated:32", "--precision", "fp16", "--json", environment=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("kernels 'matrix_f16' are left out" in done.stderr, bool(fault), done.stderr)
                found[fault] = json.loads(done.stdout)["embeddings"]
        with_units, plain = flat(found[""]), flat(found["variant"])
        self.assertNotEqual(with_units, plain)
        self.assertAlmostEqual(sum(a * b for a, b in zip(with_units, plain)) / sum(a * a for a in plain), 1, delta=0.001)

    def test_kernels_that_are_slower_are_left_out(self):
        if run("detect", "hip-emulated:32").returncode == 4:
            self.skipTest("no emulator")
        found = {}
        for variants, fault in (("matrix_f16", ""), ("measure,matrix_f16", "slow_variant"), ("none", "")):
            with tempfile.TemporaryDirectory() as cache:
                for first in (True, False):  # measured, then read from the cache
                    environment = {"ACCEL_CACHE_DIR": cache, "ACCEL_GPU_VARIANTS": variants, "ACCEL_FAIL_AT": fault}
                    done = run("embed", model("base"), *TEXTS, "--device", "hip-emulated:32", "--precision", "fp16", "--json", "--verbose", environment=environment)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual("kernels 'matrix_f16' are slower than the plain ones" in done.stderr, bool(fault) and first, done.stderr)
                    self.assertNotIn("left out", done.stderr)
                    found.setdefault(variants, []).append(json.loads(done.stdout)["embeddings"])
        self.assertEqual(found["measure,matrix_f16"][0], found["none"][0])
        self.assertEqual(found["measure,matrix_f16"][1], found["none"][0])
        self.assertNotEqual(found["matrix_f16"][0], found["none"][0])

    def test_opencl(self):
        self.check("opencl")

    def test_vulkan(self):
        self.check("vulkan")


if __name__ == "__main__":
    unittest.main()
