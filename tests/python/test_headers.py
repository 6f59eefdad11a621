"""The public headers: each compiles alone as C11 and as C++, everything public is documented (doxygen without a warning), and the
comments are at least half of the lines.  Needs no build."""
import glob
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.environ.get("ACCEL_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = sorted(glob.glob(os.path.join(ROOT, "include", "accel", "*.h")))


def comment_share():
    loader = importlib.machinery.SourceFileLoader("comment_share", os.path.join(ROOT, "scripts", "comment-share"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("comment_share", loader))
    loader.exec_module(module)
    return module


class Headers(unittest.TestCase):
    def compiles_alone(self, compiler, language, standard):
        if not shutil.which(compiler):
            self.skipTest(f"no compiler '{compiler}'")
        self.assertGreater(len(HEADERS), 5)
        for path in HEADERS:
            # included, not compiled as a main file; twice, so that its guard is tried, too
            source = f"#include <accel/{os.path.basename(path)}>\n" * 2
            done = subprocess.run([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                                   "-I" + os.path.join(ROOT, "include"), "-"], input=source, text=True, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 0, f"{path}:\n{done.stderr}")

    def test_each_compiles_alone_as_c(self):
        self.compiles_alone(os.environ.get("CC", "cc"), "c", "c11")

    def test_each_compiles_alone_as_cpp(self):
        self.compiles_alone(os.environ.get("CXX", "c++"), "c++", "c++17")

    def test_accel_h_includes_all_of_applications(self):
        with open(os.path.join(ROOT, "include", "accel", "accel.h"), encoding="utf-8") as f:
            text = f.read()
        for path in HEADERS:
            name = os.path.basename(path)
            if name not in ("accel.h", "plugin.h", "comm.h"):
                self.assertIn(f'#include "accel/{name}"', text)

    def test_everything_public_is_documented(self):
        if not shutil.which("doxygen"):
            self.skipTest("doxygen is not installed")
        with open(os.path.join(ROOT, "docs", "Doxyfile"), encoding="utf-8") as f:
            settings = f.read()
        with tempfile.TemporaryDirectory() as work:
            settings += f"\nOUTPUT_DIRECTORY = {work}\n"
            done = subprocess.run(["doxygen", "-"], cwd=ROOT, input=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue(os.path.exists(os.path.join(work, "html", "index.html")))
            undocumented = settings + f"\nINPUT = {work}/bad.h\n"
            with open(os.path.join(work, "bad.h"), "w", encoding="utf-8") as f:
                f.write("/** @file bad.h x */\nint forgotten(void);\n")
            done = subprocess.run(["doxygen", "-"], cwd=ROOT, input=undocumented, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertNotEqual(done.returncode, 0, "the check finds nothing")
            self.assertIn("forgotten", done.stdout)

    def test_half_of_the_lines_are_comments(self):
        for path in HEADERS:
            _, commented, lines = comment_share().count(path)
            self.assertGreater(commented / lines, 0.5, path)


if __name__ == "__main__":
    unittest.main()
