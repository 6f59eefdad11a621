"""Files of a model that shrink while it is loaded, after that or while it runs: an error that names the file, or the right numbers, and never a signal.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree."""
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from test_cli import ACCEL, BUILD, ENVIRONMENT, FIXTURES, Case, model, run
from test_streaming import write_llama

ROOT = os.path.dirname(os.path.dirname(FIXTURES))
CHANGED = "model.safetensors.*the file was changed"
# arguments: device, precision, the model's directory
BEGIN = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import accel
device, precision, path = sys.argv[2:]
weights = os.path.join(path, "model.safetensors")
def load(progress=None):
    context = accel.Context(threads=2, no_cache=True, progress=progress)
    return accel.Model(path, device=device, precision=precision, context=context)
def ids(model, new=3):
    return model.generate([[5, 6, 7, 4000]], max_new_tokens=new, do_sample=False)[0].ids
def tell(work):
    try:
        print(work())
    except accel.AccelError as error:
        print(type(error).__name__, " ".join(str(error).splitlines()))
"""
AFTER = """
model = load()
before = ids(model)
for left in (10 << 20, 4096, 0):
    os.truncate(weights, left)
    tell(lambda: ids(model) == before)
"""
WHILE_IT_RUNS = """
model = load()
before = ids(model, 24)
def cut():
    time.sleep(0.005)
    os.truncate(weights, 0)
other = threading.Thread(target=cut)
other.start()
tell(lambda: ids(model, 24) == before)
other.join()
"""
# the files are open, and mapped where that is possible, and nothing has been loaded
WHILE_IT_LOADS = """
before = ids(load())
whole = os.path.getsize(weights)
other = threading.Thread(target=os.truncate, args=(weights, 4096))
def progress(what, done, all_):
    if what == "loading" and not done and not other.ident:
        other.start()
        time.sleep(0.1)
        print("held back" if os.path.getsize(weights) == whole else "cut")
def loaded():
    global model
    model = load(progress)
    return "loaded"
model = None
tell(loaded)
other.join()
if model:
    tell(lambda: ids(model) == before)
"""
MAPS = """
model = load()
ids(model)
print([line for line in open("/proc/self/maps") if path in line])
"""


def gives_leases(directory):
    path = os.path.join(directory, "lease")
    with open(path, "w"):
        pass
    with open(path) as f:
        try:
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            return True
        except OSError:
            return False


class Shrinking(Case):
    def llama(self):
        path = self.path("llama")
        if not hasattr(Shrinking, "written"):
            Shrinking.written = tempfile.TemporaryDirectory()
            self.addClassCleanup(Shrinking.written.cleanup)
            write_llama(Shrinking.written.name)
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(Shrinking.written.name, path)
        return path

    def python(self, script, device, precision, **environment):
        done = subprocess.run([sys.executable, "-c", BEGIN + script, os.path.join(ROOT, "src", "bindings", "python"), device, precision, self.llama()],
                              env=dict(ENVIRONMENT, ACCEL_LIBRARY=os.path.join(BUILD, "lib", "libaccel.so.0"), **environment), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def cases(self, gpus=False):
        """A GPU in software takes seconds for each process: where it matters most."""
        gpu = gpus and next((d for d in ("vulkan", "hip-emulated") if run("detect", d).returncode != 4), None)
        return (("cpu", "bf16"), ("cpu", "int8"), *(((gpu, "bf16"),) if gpu else ()))

    def test_after_the_load(self):
        """The rest of a file is cut off behind a model that fits: embedding tables are read from it by rows, all else is in memory."""
        for case in self.cases():
            with self.subTest(case=case):
                answers = self.python(AFTER, *case)
                self.assertEqual(len(answers), 3, answers)
                for answer in answers:
                    self.assertRegex(answer, "^True$|" + CHANGED)

    def test_while_it_runs(self):
        for case in self.cases():
            with self.subTest(case=case):
                answers = self.python(WHILE_IT_RUNS, *case)
                self.assertRegex("\n".join(answers), "^True$|" + CHANGED)

    def test_who_cuts_waits(self):
        """Files are mapped under a lease: who cuts one meanwhile is held back to the end of the load.  What was read by then has the right numbers."""
        if not gives_leases(self.path("")):
            self.skipTest("no leases in the file system of temporary files")
        for case in self.cases(gpus=True):
            with self.subTest(case=case):
                answers = self.python(WHILE_IT_LOADS, *case)
                self.assertEqual(answers[:2], ["held back", "loaded"])
                self.assertRegex(answers[2], "^True$|" + CHANGED)

    def test_without_a_lease(self):
        """The file is read, and found to be another."""
        for case in self.cases():
            with self.subTest(case=case):
                answers = self.python(WHILE_IT_LOADS, *case, ACCEL_FAIL_AT="lease_refused:2")
                self.assertEqual((answers[0], len(answers)), ("cut", 2), answers)
                self.assertRegex(answers[1], CHANGED)

    def test_nothing_stays_mapped(self):
        """What the kernel maps of a model that is loaded."""
        for case in self.cases():
            with self.subTest(case=case):
                self.assertEqual(self.python(MAPS, *case), ["[]"])

    def test_slow_reads(self):
        """At moments of a load without a lease whose reads take 50 ms more each."""
        for moment in (0.1, 0.6):
            path = self.llama()
            ids = self.path("ids.json", json.dumps([5, 6, 7, 4000]))
            with subprocess.Popen([ACCEL, "generate", path, "--ids", ids, "--device", "cpu", "--precision", "bf16", "--no-cache", "--max-new-tokens", "2", "--json"],
                                  env=dict(ENVIRONMENT, ACCEL_FAIL_AT="read_slow,lease_refused"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                time.sleep(moment)
                for name in ("model.safetensors", "config.json"):
                    os.truncate(os.path.join(path, name), 1000)
                output, errors = process.communicate(timeout=120)
            with self.subTest(moment=moment):
                self.assertGreaterEqual(process.returncode, 0, errors)
                if process.returncode:
                    self.assertRegex(errors, r"model\.safetensors|config\.json")
                else:
                    self.assertEqual(len(json.loads(output)["results"]), 1)

    def test_other_files(self):
        """Vocabularies, pictures and sounds are read, too: none stays mapped."""
        path, copy = model("text"), self.path("text")
        shutil.copytree(path, copy)
        for name in sorted(os.listdir(copy)):
            target = os.path.join(copy, name)
            if not os.path.isfile(target):
                continue
            with open(target, "rb") as f:
                whole = f.read()
            for left in (len(whole) // 2, 0):
                os.truncate(target, left)
                done = run("generate", copy, "a b c", "--device", "cpu", "--max-new-tokens", "1", "--no-cache")
                self.assertIn(done.returncode, (0, 1, 2, 3, 4), (name, left, done.stderr))
            with open(target, "wb") as f:
                f.write(whole)


if __name__ == "__main__":
    unittest.main()
