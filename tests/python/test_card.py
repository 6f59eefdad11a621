"""scripts/card on software devices: its files say what ran, and are whole whenever it is killed."""
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
CARD = [sys.executable, os.path.join(ROOT, "scripts", "card"), "--rehearse", "--build", BUILD]


def facts(folder):
    with open(os.path.join(folder, "card.jsonl"), encoding="utf-8") as f:
        text = f.read()
    return text, [json.loads(line) for line in text.splitlines()]


class Card(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name
        self.out = os.path.join(work.name, "out")

    def start(self, *options):
        return subprocess.Popen([*CARD, "--out", self.out, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_goldens_of_one_device(self):
        process = self.start("--only", "goldens", "--devices", "reference", "--minutes", "20")  # on a busy machine a third of 5 is not enough
        said, _ = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, said)
        _, found = facts(self.out)
        self.assertEqual((found[0]["schema"], found[0]["rehearsal"], found[-1]["step"]), ("accel.card/1", True, "end"))
        tested = [f for f in found if f["step"] == "goldens"]
        self.assertGreater(len(tested), 400)
        self.assertEqual({f["precision"] for f in tested}, {"fp32", "fp16", "bf16", "int8"})
        self.assertEqual({f["result"] for f in tested}, {"pass"}, [f for f in tested if f["result"] != "pass"][:3])
        with open(os.path.join(self.out, "card.md"), encoding="utf-8") as f:
            summary = f.read()
        each = len(tested) // 4
        self.assertIn(f"| reference | goldens | {each} of {each} |", summary)
        self.assertIn("rehearsed on software devices", summary)

    def test_the_time_is_kept(self):
        begin = time.monotonic()
        process = self.start("--only", "goldens,narrow", "--devices", "reference", "--minutes", "0.02")
        said, _ = process.communicate(timeout=120)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(process.returncode, 0, said)
        self.assertTrue({"not run", "cut off"} & {f.get("result") for f in facts(self.out)[1]})

    def test_killed_at_any_moment(self):
        chance = random.Random(3)
        for _ in range(4):
            process = self.start("--only", "goldens", "--devices", "reference", "--minutes", "5")
            time.sleep(chance.uniform(0.3, 2.5))
            process.kill()
            process.communicate()
            if os.path.exists(os.path.join(self.out, "card.jsonl")):
                text, found = facts(self.out)
                self.assertTrue(text == "" or text.endswith("\n"))
                self.assertTrue(all("step" in f for f in found))
                if found:
                    self.assertEqual(found[0]["step"], "day")
            summary = os.path.join(self.out, "card.md")
            if os.path.exists(summary):
                with open(summary, encoding="utf-8") as f:
                    self.assertTrue(f.read().startswith("# A day with a card"))

    def test_a_machine_without_git(self):
        done = subprocess.run([*CARD, "--out", self.out, "--only", "detect", "--devices", "reference", "--minutes", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, env={**os.environ, "PATH": "/nonexistent"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertTrue(facts(self.out)[1][0]["commit"])

    def test_packed(self):
        """One file has what git knows as it lies there, what it would take and the libraries, and no more."""
        tree = os.path.join(self.work, "tree")
        for name, text in (("scripts/card", None), ("tests/card", None), (".gitignore", "/.card/\n/built/\n"), ("kept.c", "1\n"), ("gone.c", "2\n"), ("built/x", "3\n"),
                           (".card/debs/a_1_all.deb", "4\n"), (".card/results/card.md", "5\n")):
            path = os.path.join(tree, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if text is None:
                os.symlink(os.path.join(ROOT, name), path) if os.path.isdir(os.path.join(ROOT, name)) else shutil.copy(os.path.join(ROOT, name), path)
            else:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
        git = ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
            subprocess.run([*git, *command], check=True)
        os.remove(os.path.join(tree, "gone.c"))
        for name in ("kept.c", "new.c"):
            with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
                f.write("6\n")
        packed = os.path.join(self.work, "card.txz")
        subprocess.run([sys.executable, os.path.join(tree, "scripts", "card"), "--pack", packed], check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(packed) as tar:
            text = {name: tar.extractfile(name).read() for name in tar.getnames() if tar.getmember(name).isfile()}
        self.assertEqual(set(text), {f"card/{name}" for name in (".card/commit", ".card/debs/a_1_all.deb", ".gitignore", "kept.c", "new.c", "scripts/card")})
        self.assertEqual((text["card/kept.c"], text["card/new.c"]), (b"6\n", b"6\n"))
        self.assertRegex(text["card/.card/commit"], rb"^[0-9a-f]+-dirty\n$")

    def test_arguments(self):
        for options, word in ((["--only", "paint"], "conformance"), (["--minutes", "0"], "above 0")):
            process = self.start(*options)
            said, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 2)
            self.assertIn(word, said)


if __name__ == "__main__":
    unittest.main()
