"""A kernel that is broken by a build switch fails exactly its cells, as regressions: the CPU plugin built with -DACCEL_BREAK_KERNEL=rms_norm, every golden of the tree.

The cells that must fail are those whose model's program (accel run --dump-program) has an RMS norm.  Run by the long tier, as it builds the tool, the library and the
plugin once more, in broken/ of the build tree; ACCEL_BROKEN_BUILD: a tree that was built so already.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from test_cli import ACCEL, BUILD, ENVIRONMENT, ROOT, read_metadata
from verifying import MODELS

KERNEL, MARK = "rms_norm", "norm_kind=rms"
TARGETS = ("accel_tool", "accel-probe", "accel_plugin_cpu")
OFF = ("ACCEL_HIPCC", "ACCEL_NVCC", "ACCEL_GLSLC", "ACCEL_BUILD_TESTS", "ACCEL_BUILD_EXAMPLES", "ACCEL_BUILD_BENCHMARKS")


def build():
    """The broken tool."""
    tree = os.environ.get("ACCEL_BROKEN_BUILD")
    if not tree:
        tree = os.path.join(BUILD, "broken")
        environment = {**os.environ, "CCACHE_BASEDIR": ROOT, "CCACHE_NOHASHDIR": "1"}
        for command in (["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DACCEL_BREAK_KERNEL={KERNEL}", *(f"-D{o}=OFF" for o in OFF)],
                        ["cmake", "--build", tree, "--target", *TARGETS]):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
            if done.returncode:
                sys.exit(done.stdout)
    return os.path.join(tree, "bin", "accel"), tree


class BrokenKernel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broken, cls.tree = build()
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.db = os.path.join(work.name, "truth.sqlite")
        cls.environment = {k: v for k, v in ENVIRONMENT.items() if k != "ACCEL_PLUGIN_PATH"} | {"ACCEL_CACHE_DIR": work.name}

    def answer(self, tool, *arguments, codes=(0,)):
        done = subprocess.run([tool, *arguments, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        self.assertIn(done.returncode, codes, done.stderr)
        return done.stdout

    def verify(self, tool, code):
        return json.loads(self.answer(tool, "verify", "--all", MODELS, "--device", "cpu", "--precision", "fp32,int8", "--db", self.db, "--json", codes=(code,)))

    def test_a_broken_build_says_so(self):
        said = self.answer(self.broken, "version")
        self.assertRegex(said, rf"-broken-{KERNEL}\)\n$")
        self.assertNotIn("broken", self.answer(ACCEL, "version"))
        self.assertRegex(json.loads(self.answer(self.broken, "version", "--json"))["build"], rf"-broken-{KERNEL}$")
        done = subprocess.run(["cmake", "--install", self.tree, "--prefix", self.db + "-prefix"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("gives wrong numbers and is not installed", re.sub(r"\s+", " ", done.stdout))

    def test_exactly_its_cells_fail(self):
        good = self.verify(ACCEL, 0)
        self.assertEqual((good["cells"]["fail"], good["regressions"]), (0, []))
        broken = self.verify(self.broken, 6)
        self.assertEqual(broken["cells"]["run"], broken["cells"]["all"])
        runs, generates = {}, {}
        for row in good["results"]:
            model = os.path.join(MODELS, row["model"])
            key = row["model"], row["architecture"]
            if key not in runs:
                runs[key] = MARK in self.answer(ACCEL, "run", model, "--architecture", row["architecture"], "--device", "cpu", "--dump-program")
            generates[row["model"], row["golden"]] = read_metadata(os.path.join(model, row["golden"])).get("mode") == "generate"
        self.assertTrue(0 < sum(runs.values()) < len(runs))

        def name(row):
            return row["model"], row["golden"], row["architecture"], row["precision"]
        # Sequences pass at other precisions than fp32, however long the prefix that agrees.
        free = {name(row) for row in broken["results"] if row["precision"] != "fp32" and generates[row["model"], row["golden"]]}
        expected = {name(row) for row in good["results"] if runs[row["model"], row["architecture"]]}
        failed = {name(row) for row in broken["results"] if row["state"] == "fail"}
        self.assertEqual(failed - free, expected - free)
        self.assertLessEqual(failed, expected)
        self.assertGreater(len({p for *_, p in failed}), 1)
        self.assertEqual({name(row) for row in broken["regressions"]}, failed)
        self.assertEqual({row["passed_with"] for row in broken["regressions"]}, {good["build"]})
        self.assertEqual({name(row) for row in broken["results"] if row["state"] == "pass"}, {name(row) for row in good["results"]} - failed)
        print(f"{len(failed)} of {len(broken['results'])} cells fail, {len(expected - failed)} generations at int8 pass with other tokens", file=sys.stderr)
        # The good build once more: its verdicts are known, and nothing of them has changed.
        again = self.verify(ACCEL, 0)
        self.assertEqual((again["cells"]["run"], again["results"], again["regressions"]), (0, good["results"], []))


if __name__ == "__main__":
    unittest.main()
