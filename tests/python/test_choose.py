"""What auto takes: rows of this machine and build, predictions that are apart, else the ladder; the accuracy bound; databases and files that are broken."""
import json
import os
import sqlite3
import threading
import unittest

from test_cli import model, run, write_safetensors
from verifying import BENT, VerifyCase
import test_bindings  # finds the library and the package, starts Python again under a sanitizer

import accel  # noqa: E402

BENCH = ("--device", "cpu", "--threads", "1", "--seq", "8", "--iters", "3", "--warmup", "1", "--quiet")


class Choose(VerifyCase):
    """A model with verdicts at fp32 and int8 and a run at each, whose numbers are then set: what is tested is the choice, not the machine."""

    def setUp(self):
        super().setUp()
        self.cache = self.path("cache")
        os.mkdir(self.cache)
        self.db = os.path.join(self.cache, "bench.sqlite")
        self.environment = {**self.environment, "ACCEL_CACHE_DIR": self.cache}
        self.model = os.path.join(self.goldens("golden.BertModel.right.safetensors"), "bert")

    def known(self, fp32=10, int8=5):
        """Verdicts and runs; the times in ms."""
        self.all(os.path.dirname(self.model), "--device", "cpu", "--precision", "fp32,int8")
        for precision in ("fp32", "int8"):
            self.measure(self.model, "--precision", precision)
        self.set_ms("fp32", fp32)
        self.set_ms("int8", int8)

    def measure(self, name, *more):
        done = run("bench", name, *BENCH, *more, "--db", self.db, environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def set_ms(self, precision, ms, spread=0.01):
        self.change(f"UPDATE run SET median_ms = {ms}, min_ms = {ms * (1 - spread)}, p90_ms = {ms * (1 + spread)} WHERE precision = '{precision}';"
                    f"UPDATE sample SET ms = {ms} WHERE run IN (SELECT id FROM run WHERE precision = '{precision}')")

    def copy_as_int8(self, n, times):
        """The first n runs at fp32, as if they had been at int8 and had taken so many times as long."""
        self.change("DELETE FROM step WHERE run IN (SELECT id FROM run WHERE precision = 'int8'); DELETE FROM run WHERE precision = 'int8'")
        file = sqlite3.connect(self.db)
        file.row_factory = sqlite3.Row
        for row in file.execute("SELECT * FROM run WHERE precision = 'fp32' ORDER BY id LIMIT ?", (n,)).fetchall():
            changed = dict(row) | {"id": None, "uid": f"int8 of {row['uid']}", "precision": "int8", "min_ms": times * row["min_ms"], "median_ms": times * row["median_ms"]}
            made = file.execute(f"INSERT INTO run VALUES ({', '.join('?' * len(changed))})", list(changed.values())).lastrowid
            for step in file.execute("SELECT * FROM step WHERE run = ?", (row["id"],)).fetchall():
                changed = dict(step) | {"run": made, "ms": times * step["ms"], "min_ms": times * step["min_ms"]}
                file.execute(f"INSERT INTO step VALUES ({', '.join('?' * len(changed))})", list(changed.values()))
        file.commit()
        file.close()

    def choose(self, *more, bound="0.9"):
        words = ("--device", "cpu", "--threads", "1") + (("--min-cosine", bound) if bound else ())
        done = run("choose", self.model, *words, *more, "--json", environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["schema"], "accel.choose/1")
        return result

    def candidate(self, result, precision):
        return next(c for c in result["candidates"] if c["precision"] == precision)

    def test_rows_decide(self):
        self.known(fp32=10, int8=5)
        result = self.choose()
        self.assertEqual((result["precision"], result["chosen_by"], result["metric"]), ("int8", "rows", "latency"))
        self.assertRegex(result["chosen_why"], "the best of [0-9]+ by latency as it was measured here: encode, batch 1, length 8")
        taken, passed = self.candidate(result, "int8"), self.candidate(result, "fp32")
        self.assertEqual((taken["source"], taken["value"], taken["reason"]), ("rows", 5, ""))
        self.assertTrue(taken["low"] <= 4.95 and taken["high"] >= 5.05 and 0.9 < taken["cosine"] <= 1, taken)
        self.assertEqual((passed["value"], passed["reason"]), (10, "not the best"))
        self.assertRegex(self.candidate(result, "int4")["reason"], "no verdict of this build.*accel verify --all")
        self.set_ms("int8", 20)
        self.assertEqual((self.choose()["precision"], self.choose()["chosen_by"]), ("fp32", "rows"))
        # every command that loads a model goes by it, and says so
        self.set_ms("int8", 5)
        inputs = self.path("in.safetensors")
        write_safetensors(inputs, {"input_ids": ("I64", [1, 2], (3).to_bytes(8, "little") * 2)})
        done = run("run", self.model, "--input", inputs, "--device", "cpu", "--threads", "1", "--precision", "auto", "--min-cosine", "0.9", "--verbose", environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"on cpu, int8.*; chosen by rows: the best of")
        self.assertRegex(done.stderr, r"cpu at fp32: 10 ms \(9.8 ms to 10.2 ms, rows\), cosine 1.0+; not the best")
        table = run("choose", self.model, "--device", "cpu", "--threads", "1", "--min-cosine", "0.9", environment=self.environment)
        self.assertRegex(table.stdout, r"cpu +int8 +5 ms +rows +4.9 ms to 5.1 ms +0.9\d+ +it is taken")
        # without a bound the ladder's precisions alone count; without auto nothing is chosen
        self.assertNotEqual(self.choose(bound=None)["precision"], "int8")
        self.assertNotIn("chosen_by", self.choose("--precision", "fp32"))

    @unittest.skipUnless(os.path.exists(BENT), "the stub of a card is not built")
    def test_devices(self):
        """A card that comes first on the ladder, and the CPU."""
        def auto(*more, **environment):
            words = ("choose", self.model, "--device", "auto", "--precision", "fp32", "--threads", "1", *more, "--json")
            done = run(*words, environment={**self.environment, **environment})
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            return result["device"], result["chosen_by"], result["chosen_why"]
        self.assertEqual(auto()[:2], ("rocm:0", "ladder"))
        self.measure(self.model, "--device", "cpu")
        device, by, why = auto()
        self.assertEqual((device, by), ("rocm:0", "ladder"))
        self.assertIn("rocm:0 at fp32, the ladder's first, has no figure of latency", why)
        self.measure(self.model, "--device", "rocm:0")
        for cpu, card, best in ((10, 5, "rocm:0"), (5, 10, "cpu"), (9.9, 10, "rocm:0")):
            for device, ms in (("cpu", cpu), ("rocm:0", card)):
                self.change(f"UPDATE run SET median_ms = {ms}, min_ms = {ms}, p90_ms = {ms} WHERE device = '{device}';"
                            f"UPDATE sample SET ms = {ms} WHERE run IN (SELECT id FROM run WHERE device = '{device}')")
            self.assertEqual(auto()[:2], (best, "rows"))
        # devices that are named are tried in their order
        self.change("UPDATE run SET median_ms = 90, min_ms = 90, p90_ms = 90 WHERE device = 'rocm:0'; UPDATE sample SET ms = 90 WHERE run IN (SELECT id FROM run WHERE device = 'rocm:0')")
        self.assertEqual(auto()[0], "cpu")
        self.assertEqual(auto("--device", "rocm:0,cpu")[0], "rocm:0")
        # what was measured best and fails now is passed over
        self.change("UPDATE sample SET ms = 1; UPDATE run SET median_ms = 1, min_ms = 1, p90_ms = 1; UPDATE run SET median_ms = 9, min_ms = 9, p90_ms = 9 WHERE device = 'cpu';"
                    "UPDATE sample SET ms = 9 WHERE run IN (SELECT id FROM run WHERE device = 'cpu')")
        self.assertEqual(auto()[:2], ("rocm:0", "rows"))
        self.assertEqual(auto(STUB_BENT="init")[0], "cpu")

    def test_within_the_noise(self):
        self.known(fp32=10, int8=9.9)
        result = self.choose()
        self.assertEqual((result["precision"], result["chosen_by"]), ("fp32", "rows"))
        self.assertEqual(self.candidate(result, "int8")["reason"], "as good as the one taken")

    def test_whose_rows(self):
        """Runs of another build, another machine, another driver or another number of threads do not count."""
        self.known()
        self.change("INSERT INTO build (version, build_id, compiler) SELECT version, 'another', compiler FROM build LIMIT 1;"
                    "INSERT INTO machine (hash, host, cpu) VALUES ('another', 'faraway', 'x')")
        for sql, note in (("UPDATE run SET build_ref = (SELECT id FROM build WHERE build_id = 'another')", "2 runs of it by other builds are not counted"),
                          ("UPDATE run SET machine_ref = (SELECT id FROM machine WHERE host = 'faraway')", "2 runs of it on other machines are not counted"),
                          ("UPDATE run SET driver = 'another'", None),
                          ("UPDATE run SET threads = 7", "has measured no run of it here")):
            file = sqlite3.connect(self.db)
            before = file.execute("SELECT id, build_ref, machine_ref, driver, threads FROM run").fetchall()
            file.close()
            self.change(sql)
            result = self.choose()
            self.assertEqual((result["precision"], result["chosen_by"]), ("fp32", "ladder"), sql)
            self.assertTrue(result["chosen_why"].startswith("no candidate has a figure of latency"), result["chosen_why"])
            self.assertIn(note or "", result["chosen_why"])
            for one in before:
                self.change("UPDATE run SET build_ref = {1}, machine_ref = {2}, driver = '{3}', threads = {4} WHERE id = {0}".format(*one))
        self.assertEqual(self.choose()["chosen_by"], "rows")
        self.change("UPDATE verify SET build = (SELECT id FROM build WHERE build_id = 'another')")
        self.assertEqual(self.choose()["precision"], "fp32")  # a verdict of another build holds no bound

    def test_the_bound(self):
        self.known()
        ((cosine,),) = self.query("SELECT cosine FROM verify WHERE precision = 'int8'")
        self.assertLess(cosine, 1)
        result = self.choose(bound=f"{(1 + cosine) / 2:.17g}")
        self.assertEqual(result["precision"], "fp32")
        self.assertRegex(self.candidate(result, "int8")["reason"], rf"its goldens give a cosine of {cosine:.6f} here, below")
        self.assertEqual(self.choose(bound=f"{cosine - 1e-6:.17g}")["precision"], "int8")
        # weights that changed behind the verdict are another model
        with open(os.path.join(self.model, "config.json"), "a") as f:
            f.write("\n")
        self.assertEqual(self.choose()["precision"], "fp32")
        with open(os.path.join(self.model, "config.json"), "r+") as f:
            text = f.read()
            f.seek(0)
            f.truncate()
            f.write(text[:-1])
        self.assertEqual(self.choose()["precision"], "int8")
        self.change("UPDATE verify SET state = 'fail' WHERE precision = 'int8'")
        result = self.choose(bound="0.1")
        self.assertEqual((result["precision"], self.candidate(result, "int8")["reason"]), ("fp32", "a golden fails here"))
        # a bound that nothing holds: the load fails, and says why
        self.change("UPDATE verify SET state = 'fail'")
        done = run("choose", self.model, "--device", "cpu", "--threads", "1", "--min-cosine", "0.9", environment=self.environment)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, "cpu at fp32: a golden fails here.*\n.*smaller min_cosine")

    def test_metrics(self):
        self.known(fp32=5, int8=10)
        self.change("UPDATE run SET peak_rss_bytes = CASE precision WHEN 'int8' THEN 20000000 ELSE 50000000 END")
        self.assertEqual(self.choose()["precision"], "fp32")
        result = self.choose("--metric", "memory")
        self.assertEqual((result["precision"], result["chosen_by"], result["metric"]), ("int8", "rows", "memory"))
        self.assertEqual(self.candidate(result, "int8")["value"], 20000000)
        # throughput is of the largest batch
        for precision in ("fp32", "int8"):
            self.measure(self.model, "--precision", precision, "--batch", "4")
        self.change("UPDATE run SET median_ms = 8, min_ms = 8, p90_ms = 8 WHERE batch = 4 AND precision = 'int8'; UPDATE sample SET ms = 8 WHERE run IN (SELECT id FROM run WHERE batch = 4 AND precision = 'int8');"
                    "UPDATE run SET median_ms = 16, min_ms = 16, p90_ms = 16 WHERE batch = 4 AND precision = 'fp32'; UPDATE sample SET ms = 16 WHERE run IN (SELECT id FROM run WHERE batch = 4 AND precision = 'fp32')")
        result = self.choose("--metric", "throughput")
        self.assertEqual((result["precision"], self.candidate(result, "int8")["value"]), ("int8", 500))
        self.assertIn("encode, batch 4, length 8", result["chosen_why"])
        self.assertEqual(self.choose()["precision"], "fp32")  # latency: of the smallest
        self.assertEqual(self.choose("--batch", "4")["precision"], "int8")
        # energy is chosen by where the kernel tells it
        self.change("UPDATE run SET energy_j = NULL")
        result = self.choose("--metric", "energy")
        self.assertEqual((result["precision"], result["chosen_by"]), ("fp32", "ladder"))
        self.assertRegex(result["chosen_why"], "no candidate has a figure of energy.*/sys/class/powercap")
        self.change("UPDATE run SET energy_j = CASE precision WHEN 'int8' THEN 1.5 ELSE 3 END")
        result = self.choose("--metric", "energy")
        self.assertEqual((result["precision"], result["chosen_by"], self.candidate(result, "int8")["value"]), ("int8", "rows", 1.5))

    def test_broken_databases(self):
        """No load fails for it, and the report says what is wrong."""
        def ladder(pattern):
            result = self.choose()
            self.assertEqual((result["precision"], result["chosen_by"]), ("fp32", "ladder"))
            self.assertRegex(result["chosen_why"], pattern)
        ladder("bench.sqlite: nothing was measured here: accel bench MODEL --store")
        self.known()
        file = sqlite3.connect(self.db, isolation_level=None)
        file.execute("PRAGMA journal_mode = DELETE")
        file.execute("BEGIN EXCLUSIVE")
        ladder("bench.sqlite: database is locked; another process")
        file.execute("ROLLBACK")
        file.execute("PRAGMA user_version = 3")
        file.close()
        ladder("another version of accel made it")
        with open(self.db, "r+b") as f:
            f.seek(100)
            f.write(b"\xff" * 3000)
        ladder(r"bench.sqlite: .*(malformed|not a database).*\.recover")
        with open(self.db, "wb") as f:
            f.write(b"not a database at all, and longer than the header of one" * 20)
        ladder("bench.sqlite: file is not a database")

    def test_wrong_words(self):
        self.bad(2, "--metric takes one of latency.throughput.memory.energy, not 'speed'", "embed", self.model, "x", "--metric", "speed")
        self.bad(2, "--min-cosine takes a number from 0 to 1, not '2'", "embed", self.model, "x", "--min-cosine", "2")
        self.bad(2, "encode, generate or transcribe", "choose", self.model, "--task", "translate")
        with self.assertRaises(accel.ArgumentError) as caught:
            accel.Model(self.model, device="cpu", metric="speed")
        self.assertIn("latency, throughput, memory and energy", caught.exception.remedy)
        with self.assertRaises(accel.ArgumentError) as caught:
            accel.Model(self.model, device="cpu", min_cosine=-0.5)
        self.assertIn("from 0 (no bound) to 1", caught.exception.remedy)

    def test_the_library(self):
        """Programs choose by what accel choose kept, or by the file that they are given."""
        self.known()
        found = self.path("found.json")
        done = run("choose", self.model, "--device", "cpu", "--threads", "1", "--min-cosine", "0.9", "--store", "--output", found, environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(found) as f:
            text = json.load(f)
        with accel.Context(threads=1, cache_directory=self.cache) as context:
            def load(**more):
                with accel.Model(self.model, device="cpu", precision="auto", min_cosine=0.9, context=context, **more) as loaded:
                    return loaded.placement
            kept, given = load(), load(candidates=text)
            for placement in (kept, given, load(candidates=found), load(metric="throughput")):
                self.assertEqual((placement.precision, placement.chosen_by), ("int8", "rows"))
            taken = next(c for c in kept.candidates if not c.reason)
            self.assertEqual((taken.device, taken.precision, taken.source, taken.value), ("cpu", "int8", "rows", 5))
            self.assertIsNone(next(c for c in kept.candidates if c.precision == "int4").value)
            self.assertEqual((load(candidates="").precision, load(candidates="").chosen_by), ("fp32", "ladder"))
            for change, why in (({"build": "another"}, "build is 'another'"), ({"model": "m"}, "model is 'm'"), ({"threads": 9}, "threads is 9, here there are 1"),
                                ({"schema": "x"}, "schema is 'x'"), ({"candidates": 3}, "candidates"), ({"candidates": []}, "no candidate has a figure")):
                placement = load(candidates={**text, **change})
                self.assertEqual((placement.precision, placement.chosen_by), ("fp32", "ladder"), change)
                self.assertIn(why, placement.chosen_why)
            for other in ({"device": "rocm:0"}, {"driver": "another"}, {"id": "another"}):
                placement = load(candidates={**text, "candidates": [{**c, **other} for c in text["candidates"]]})
                self.assertEqual((placement.precision, placement.chosen_by), ("fp32", "ladder"), other)
            self.assertIn("nosuch.json", load(candidates="nosuch.json").chosen_why)
            self.assertIn("line 1", load(candidates="{").chosen_why)
            # several threads load by one file
            got = []
            threads = [threading.Thread(target=lambda: got.append(load().precision)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(got, ["int8"] * 4)
            (kept_file,) = os.listdir(os.path.join(self.cache, "candidates"))
            with open(os.path.join(self.cache, "candidates", kept_file), "w") as f:
                f.write('{"schema": "accel.candidates/1", ')
            self.assertEqual(load().chosen_by, "ladder")
            os.remove(os.path.join(self.cache, "candidates", kept_file))
            self.assertIn("accel choose MODEL --store", load().chosen_why)

    def test_predictions(self):
        """Of a model that was never run, where the intervals are apart; too few runs tell nothing."""
        self.all(os.path.dirname(self.model), "--device", "cpu", "--precision", "fp32,int8")
        for name, lengths in (("base", (8, 14)), ("classify", (9, 16)), ("mask", (10, 18)), ("qa", (11, 20)), ("tokens", (12, 22))):
            for length in lengths:
                self.measure(model(name), "--precision", "fp32", "--seq", str(length), "--profile")
        self.copy_as_int8(8, times=1e-6)
        few = self.choose()
        self.assertEqual((few["precision"], few["chosen_by"]), ("fp32", "ladder"))
        self.assertIn("nothing but cpu at fp32 has a figure of latency", few["chosen_why"])
        self.assertEqual((self.candidate(few, "fp32")["source"], self.candidate(few, "int8")["source"]), ("prediction", ""))
        self.copy_as_int8(10, times=1)
        touching = self.choose()
        self.assertEqual((touching["precision"], touching["chosen_by"], self.candidate(touching, "int8")["source"]), ("fp32", "ladder", "prediction"))
        self.assertIn("the intervals of predictions of latency touch", touching["chosen_why"])
        self.copy_as_int8(10, times=1e-6)
        result = self.choose("--seq", "12")
        self.assertEqual((result["precision"], result["chosen_by"]), ("int8", "prediction"), result["candidates"])
        self.assertIn("by latency as it was predicted here: encode, batch 1, length 12", result["chosen_why"])
        # what was measured wins over what is foretold of it
        self.measure(self.model, "--precision", "int8")
        self.assertEqual(self.candidate(self.choose(), "int8")["source"], "rows")


if __name__ == "__main__":
    unittest.main()
