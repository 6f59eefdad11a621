"""The cache of packed weights as loads use it: killed writers, a full disk, a limit, damage.  Units of it: tests/unit/weights_store_test.c, models_packed_test.c."""
import glob
import json
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

from test_streaming import BUILD, write_llama

ACCEL = os.path.join(BUILD, "bin", "accel")


class Cache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.work.cleanup)
        cls.model = os.path.join(cls.work.name, "model")
        os.mkdir(cls.model)
        write_llama(cls.model)
        cls.ids_file = os.path.join(cls.work.name, "ids.json")
        with open(cls.ids_file, "w", encoding="utf-8") as f:
            json.dump([[5, 6, 7, 100, 2000]], f)
        cls.expected = {p: cls.ids("--no-cache", precision=p) for p in ("int4", "int8")}

    @classmethod
    def command(cls, *arguments, precision):
        return [ACCEL, "generate", cls.model, "--ids", cls.ids_file, "--device", "cpu", "--precision", precision, "--max-new-tokens", "8", "--threads", "2",
                "--quiet", "--json", *arguments]

    @classmethod
    def ids(cls, *arguments, precision="int4", **environment):
        done = subprocess.run(cls.command(*arguments, precision=precision), env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)["results"][0]["ids"]

    def place(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        return work.name

    def files(self, place):
        return sorted(os.path.splitext(f)[1] for f in glob.glob(os.path.join(place, "packed", "*")))

    def test_killed_writers(self):
        chance, place = random.Random(), self.place()
        for _ in range(12):
            with subprocess.Popen(self.command("--cache-dir", place, precision="int4"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0, 0.12))
                process.send_signal(signal.SIGKILL)
        for _ in range(2):
            self.assertEqual(self.ids("--cache-dir", place), self.expected["int4"])
            self.assertEqual(self.files(place), [".packed"])

    def test_a_full_disk(self):
        place = self.place()
        for n in (1, 3, 9):
            self.assertEqual(self.ids("--cache-dir", place, ACCEL_FAIL_AT=f"disk_full:{n}"), self.expected["int4"])
            self.assertEqual(self.files(place), [])

    def test_a_limit(self):
        place = self.place()
        self.assertEqual(self.ids("--cache-dir", place, "--cache-limit", "1M"), self.expected["int4"])
        self.assertEqual(self.files(place), [])
        for precision in ("int4", "int8", "int4"):  # one of them has room
            self.assertEqual(self.ids("--cache-dir", place, "--cache-limit", "8M", precision=precision), self.expected[precision])
            self.assertEqual(self.files(place), [".packed"])

    def test_damage(self):
        place = self.place()
        self.ids("--cache-dir", place)
        path, = glob.glob(os.path.join(place, "packed", "*.packed"))
        size = os.path.getsize(path)
        chance = random.Random()
        for _ in range(6):
            with open(path, "r+b") as f:
                for _ in range(20):
                    f.seek(chance.randrange(size))
                    f.write(bytes([chance.randrange(256)]))
            self.assertEqual(self.ids("--cache-dir", place), self.expected["int4"])
        os.truncate(path, size // 2)
        self.assertEqual(self.ids("--cache-dir", place), self.expected["int4"])
        self.assertEqual(os.path.getsize(path), size)

    def test_it_cannot_be_written(self):
        place = self.place()
        blocked = os.path.join(place, "file")
        with open(blocked, "w", encoding="utf-8"):
            pass
        self.assertEqual(self.ids("--cache-dir", blocked), self.expected["int4"])


if __name__ == "__main__":
    unittest.main()
