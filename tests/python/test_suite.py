"""`accel bench --suite`: scenarios, resuming, minutes, key models, and what a suite file may not hold."""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from test_cli import ACCEL, ENVIRONMENT, Case, model, run
from test_report import shown

SCENARIOS = ["single-stream", {"scenario": "offline", "batch": 4}, {"scenario": "server", "load": 0.25, "p99_ms": 1000, "iters": 50},
             {"scenario": "batch-sweep", "batches": [1, 2]}, {"scenario": "length-sweep", "lengths": [4, 8, 4000]}, "cold-start", "warm-start", "memory"]


class Suite(Case):
    def setUp(self):
        super().setUp()
        self.db = self.path("s.sqlite")

    def suite(self, **fields):
        return self.path("suite.json", json.dumps({"schema": "accel.suite/1", "models": [model("base")], "length": 5, "rounds": 2, "iters": 3, "scenarios": SCENARIOS} | fields))

    def run_suite(self, *arguments, code=0, suite=None, **options):
        done = run("bench", "--suite", suite or self.path("suite.json"), "--db", self.db, "--json", *arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["schema"], "accel.suite_result/1")
        return result["cells"]

    def query(self, sql):
        file = sqlite3.connect(self.db)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()

    def test_scenarios(self):
        self.suite(models=[model("base"), {"model": model("text"), "task": "generate", "new_tokens": 3}])
        cells = self.run_suite("--device", "cpu,nothing:7", "--precision", "fp32,int8")
        self.assertEqual(len(cells), 2 * 2 * 2 * 11)
        for cell in cells:
            cannot = cell["device"] == "nothing:7" or cell["length"] == 4000
            self.assertEqual((cell["state"], cell["runs"]), ("cannot", 0) if cannot else ("run", 1), cell)
        rows = self.query("SELECT scenario, task, batch, rounds, iters, p99_ms, p99_bound_ms, offered_per_s, items_per_s, peak_rss_bytes, energy_j, cell FROM run WHERE precision = 'fp32'")
        self.assertEqual(len(rows), 20)
        self.assertEqual(len({r[-1] for r in rows}), 20)
        told = os.access("/sys/class/powercap/intel-rapl:0/energy_uj", os.R_OK)
        for scenario, task, batch, rounds, iters, p99, bound, offered, items, memory, energy, _ in rows:
            server = scenario == "server"
            self.assertEqual((rounds, iters), (2, 50 if server else 3), scenario)
            self.assertEqual((p99 is not None, bound, offered is not None), (server, 1000 if server else None, server), scenario)
            self.assertEqual(energy is not None, told)
            self.assertGreater(memory, 1 << 20)
            if server:
                self.assertTrue(0 < items < 3 * offered, (items, offered))
            elif scenario == "offline":
                self.assertEqual(batch, 4)
        # three more runs with their steps, which are no samples, where nothing waits for other requests or a load
        profiled = dict(self.query("SELECT scenario, count(DISTINCT r.id) || ' of ' || max(calls) FROM run r JOIN step s ON s.run = r.id WHERE precision = 'fp32' AND task = 'encode' GROUP BY 1"))
        self.assertEqual(profiled, {"single-stream": "1 of 3", "offline": "1 of 3", "batch-sweep": "2 of 3", "length-sweep": "2 of 3"})
        (group,) = [g for g in json.loads(run("predict", "--json", "--db", self.db).stdout)["groups"] if g["precision"] == "fp32"]
        self.assertEqual((group["models"], len(group["runs"])), (2, 12))
        page = run("report", "starts", "--db", self.db, "--format", "md").stdout
        self.assertEqual(sorted(float(x) for x in re.findall(r"pipelines/base \| cpu, fp32 \| (?:cold|warm)-start \| ([0-9.]+) \|", page)),
                         sorted(shown(x[0]) for x in self.query("SELECT load_ms FROM run WHERE scenario LIKE '%-start' AND precision = 'fp32' AND task = 'encode'")))
        kinds = dict(self.query("SELECT r.task || s.what, count(*) FROM run r JOIN sample s ON s.run = r.id WHERE scenario = 'single-stream' AND precision = 'fp32' GROUP BY 1"))
        self.assertEqual(kinds, {"encodelatency": 6, "encodeload": 2, "encodefirst": 2, "generatelatency": 6, "generateload": 2, "generatefirst": 2, "generateprefill": 6, "generatedecode": 6,
                                 "generatetoken": 12})

    def test_resumes(self):
        """Killed at any time, what was stored stays; the next call runs the rest, and one after that nothing."""
        self.suite(scenarios=[{"scenario": "batch-sweep", "batches": list(range(1, 9))}], iters=200)
        for _ in range(3):
            child = subprocess.Popen([ACCEL, "bench", "--suite", self.path("suite.json"), "--db", self.db, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            before = time.monotonic()
            while not (os.path.exists(self.db) and self.stored()) and time.monotonic() - before < 30:
                time.sleep(0.002)
            child.send_signal(signal.SIGKILL)
            child.wait()
        time.sleep(0.1)  # a child of it ends with it
        had = self.stored()
        self.assertTrue(had)
        cells = self.run_suite()
        self.assertEqual(sum(c["state"] == "known" for c in cells), had)
        self.assertEqual([c["runs"] for c in cells], [1] * 8)
        self.assertEqual(self.query("SELECT count(*), count(DISTINCT cell) FROM run"), [(8, 8)])
        self.assertEqual({c["state"] for c in self.run_suite()}, {"known"})
        self.assertEqual({c["state"] for c in self.run_suite("--threads", "1")}, {"run"})  # other cells
        file = sqlite3.connect(self.db)
        file.execute("UPDATE build SET build_id = 'earlier'")
        file.commit()
        file.close()
        self.assertEqual({c["state"] for c in self.run_suite()}, {"run"})  # another build's

    def stored(self):
        try:
            return self.query("SELECT count(*) FROM run")[0][0]
        except sqlite3.OperationalError:
            return 0

    def test_minutes(self):
        """Time goes to what is least known: of two cells the one with fewer than three rounds."""
        self.suite(scenarios=["single-stream", {"scenario": "offline", "batch": 2, "rounds": 1}], rounds=3, iters=2)
        cells = {c["scenario"]: c for c in self.run_suite("--minutes", "0.05")}
        self.assertGreaterEqual(cells["offline"]["rounds"], 3)
        self.assertTrue(all(c["error"] is not None for c in cells.values()))
        self.assertGreater(sum(c["runs"] for c in cells.values()), 3)

    def test_key_models(self):
        here = self.path("models")
        shutil.copytree(model("base"), os.path.join(here, "bert-base-uncased"))
        shutil.copytree(model("base"), os.path.join(here, "sentence-transformers", "all-MiniLM-L6-v2"))
        done = run("bench", "--suite", "key-models", here, "--db", self.db, "--json", "--cell-timeout", "30")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("openai/whisper-tiny: not here; left out", done.stderr)
        found = {c["model"] for c in json.loads(done.stdout)["cells"]}
        self.assertEqual(found, {os.path.join(here, n) for n in ("bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2")})
        empty = {"ACCEL_CACHE_DIR": self.path("none"), "HF_HOME": self.path("none"), "XDG_CACHE_HOME": self.path("none")}
        self.bad(1, "none of its models is here.*--random-weights", "bench", "--suite", "key-models", "--db", self.db, "--quiet", environment=empty)
        self.suite(models=[{"model": "cross-encoder/ms-marco-MiniLM-L2-v2", "random_weights": True}], scenarios=["memory"])
        (cell,) = self.run_suite()
        self.assertEqual(self.query("SELECT weights FROM run WHERE scenario = 'memory' ORDER BY id DESC LIMIT 1"), [("random, seed 0",)])

    def test_cells_without_end(self):
        """A cell that passes its limit is ended, and fails alone."""
        self.suite(models=[model("base"), {"model": "cross-encoder/ms-marco-MiniLM-L2-v2", "random_weights": True, "length": 512}], scenarios=["single-stream"], iters=1_000_000)
        done = run("bench", "--suite", self.path("suite.json"), "--db", self.db, "--json", "--cell-timeout", "0.3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual({cell["state"] for cell in json.loads(done.stdout)["cells"]}, {"failed"})
        self.assertEqual(done.stderr.count("failed: no end after 0.3 seconds"), 2, done.stderr)

    def test_inputs_of_a_registry_entry(self):
        """Random weights need no files, but inputs of the entry's shape: X-CLIP has eight frames."""
        done = run("bench", "microsoft/xclip-base-patch32", "--random-weights", "--iters", "1", "--warmup", "1", "--device", "cpu", "--db", self.db, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.query("SELECT output, lengths FROM run"), [("video_embeds", "224")])

    def test_wrong_suites(self):
        for fields, message in (({"schema": "accel.suite/2"}, 'schema: must be "accel.suite/1"'), ({"mood": 1}, "mood: is no field of a suite"), ({"scenarios": []}, "models, scenarios: must be lists"),
                                ({"scenarios": ["fast"]}, "scenarios: each is single-stream"), ({"rounds": 0}, "rounds: must be a whole number"), ({"devices": [1]}, "devices: must be a list of names"),
                                ({"models": [{"task": "encode"}]}, 'models: each is a name, or an object with a "model"'), ({"models": [{"model": "x", "task": "dance"}]}, "task: encode, generate"),
                                ({"scenarios": [{"scenario": "server", "load": -1}]}, "load: must be a number above 0"),
                                ({"scenarios": [{"scenario": "batch-sweep", "batches": [0]}]}, "batches: must be a list of whole numbers")):
            self.bad(1, rf"suite\.json: {message}", "bench", "--suite", self.suite(**fields), "--db", self.db, "--quiet")
        self.bad(1, "text.json: no JSON", "bench", "--suite", self.path("text.json", "{"), "--db", self.db)
        self.bad(2, "a directory goes with --suite key-models", "bench", "--suite", self.suite(), self.work, "--db", self.db)
        self.bad(2, "the suite says the rest", "bench", "--suite", self.suite(), "--task", "encode", "--db", self.db)


if __name__ == "__main__":
    unittest.main()
