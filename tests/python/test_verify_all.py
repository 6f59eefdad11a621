"""`accel verify --all`: the plan, resuming, crashing and hanging drivers (tests/stubs/bent_stub.c), regressions.

ACCEL_TEST_ALL_KILLED=1 (the long tier, for the class Killed): every sixteenth golden of the tree on every device that is here.
"""
import glob
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time

from test_cli import ACCEL, ENVIRONMENT, run, unittest
from verifying import BERT, MODELS, VerifyCase

ALL_KILLED = os.environ.get("ACCEL_TEST_ALL_KILLED") == "1"


def children(pid):
    """Process ids; none of a process that has ended."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def newest(case):
    """What the newest verdict of each cell says, times left out."""
    if not os.path.exists(case.db) or not case.query("SELECT 1 FROM sqlite_schema WHERE name = 'verify'"):
        return []
    return case.query("""SELECT v.model, v.golden, v.golden_hash, v.architecture, v.precision, d.name, v.state, v.reason, v.output, v.max_abs, v.cosine, v.bound, v.cpu_max_abs, v.cpu_cosine
        FROM verify v JOIN device d ON d.id = v.device WHERE v.id IN (SELECT max(id) FROM verify GROUP BY device, golden_hash, model_hash, architecture, precision)
        ORDER BY 1, 2, 3, 4, 5, 6""")


class Killed(VerifyCase):
    """Plans and their workers end by SIGKILL at random moments; the same command goes on, and ends with what an uninterrupted one gives."""

    def a_sample(self):
        """A directory with a list of every sixteenth golden of the tree."""
        goldens, directory = [], self.path("sample")
        os.mkdir(directory)
        for path in sorted(glob.glob(os.path.join(MODELS, "goldens*.list"))):
            with open(path, encoding="utf-8") as f:
                goldens += [line.split() for line in f if line.strip() and line[0] != "#"]
        with open(os.path.join(directory, "some.list"), "w", encoding="utf-8") as f:
            for model, *rest in goldens[::16]:
                print(os.path.relpath(os.path.join(MODELS, model), directory), *rest, file=f)
        return directory

    def kill_one(self, arguments, chance, cells, seconds):
        """Runs the command until `cells` more verdicts are there and up to `seconds` have passed; kills a worker, which does not end the plan, and soon the plan.
        Answers how many of the two were killed."""
        before = len(newest(self))
        process = subprocess.Popen([ACCEL, "verify", "--all", *arguments, "--db", self.db, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**ENVIRONMENT, **self.environment})
        self.wait_for(process, "SELECT count(DISTINCT device || golden_hash || model_hash || architecture || precision) FROM verify", before + cells)
        time.sleep(chance.uniform(0, seconds))
        workers, killed = children(process.pid), 0
        if workers:
            try:
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:  # it has ended meanwhile
                pass
        time.sleep(chance.uniform(0, 4 * seconds))
        process.kill()
        return killed + (process.wait() == -signal.SIGKILL)

    def test_the_matrix_is_that_of_an_uninterrupted_run(self):
        if ALL_KILLED:
            del self.environment["ACCEL_PLUGIN_PATH"]  # every device that is here
            arguments, most = (self.a_sample(), "--precision", "fp32,int8"), 75
        else:
            arguments, most = (self.goldens(*BERT), "--device", "cpu,reference", "--precision", "fp32,fp16,int8,int4"), 2
        begin = time.monotonic()
        report = self.all(*arguments)
        each = (time.monotonic() - begin) / report["cells"]["all"]
        whole = newest(self)
        self.assertEqual(len(whole), report["cells"]["all"])
        self.assertGreaterEqual(len(whole), 16)
        chance, kills, plans = random.Random(7), 0, 1
        self.db = self.path("killed0.sqlite")
        while kills < 10:
            kills += self.kill_one(arguments, chance, chance.randint(0, most), 2 * each)
            if len(newest(self)) == len(whole):  # nothing is left to kill
                self.compare(arguments, whole)
                self.db = self.path(f"killed{plans}.sqlite")
                plans += 1
        self.compare(arguments, whole)
        print(f"{kills} processes killed, {plans} plans of {len(whole)} cells", file=sys.stderr)

    def compare(self, arguments, whole):
        self.assertEqual(self.all(*arguments)["cells"]["all"], len(whole))
        self.assertEqual(newest(self), whole)
        self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(self.all(*arguments)["cells"]["run"], 0)
        self.assertFalse(os.path.exists(self.db + "-verify"))

    def test_a_worker_that_is_killed_again_fails_its_cell(self):
        """As the kernel does where memory is short."""
        arguments = (self.goldens(BERT[0]), "--device", "rocm:0", "--precision", "int8", "--db", self.db, "--json", "--quiet")
        process = subprocess.Popen([ACCEL, "verify", "--all", *arguments], stdout=subprocess.PIPE, text=True, env={**ENVIRONMENT, **self.environment, "STUB_HANG": "int8"})
        self.wait_for(process, "SELECT count(*) FROM verify_run", 1)
        killed = set()
        while len(killed) < 2 and process.poll() is None:
            for pid in set(children(process.pid)) - killed:
                time.sleep(0.1)  # until it has its cell
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        report = json.loads(process.communicate()[0])
        self.assertEqual([(r["state"], r["reason"]) for r in report["results"]], [("fail", "signal 9")])
        self.assertEqual((process.returncode, len(killed)), (6, 2))


class Files(VerifyCase):
    """Databases that cannot be written to: nothing is lost but the verdict in flight."""

    def test_full_disk(self):
        arguments = (self.goldens(*BERT), "--device", "cpu,reference", "--precision", "fp32,fp16,int8,int4", "--threads", "1")
        self.all(*arguments)
        whole = newest(self)
        for kib in (180, 260, 340):
            self.db = self.path(f"full{kib}.sqlite")

            def limit():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10))
            done = subprocess.run([ACCEL, "verify", "--all", *arguments, "--db", self.db], capture_output=True, text=True, env={**ENVIRONMENT, **self.environment}, preexec_fn=limit)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"full\d+\.sqlite: .*disk.*what was stored before is intact")
            told, kept = [int(n) for n in re.findall(r"(\d+) of 16 cells\n", done.stderr)], newest(self)
            self.assertEqual(self.query("PRAGMA integrity_check"), [("ok",)])
            self.assertGreaterEqual(len(kept), max(told, default=0))
            self.assertLess(len(kept), 16)
            self.assertLessEqual(set(kept), set(whole))
            again = self.all(*arguments)
            self.assertEqual((again["cells"]["all"], newest(self)), (16, whole))
        self.assertGreater(max(told), 2)

    def content(self):
        with open(self.db, "rb") as f:
            return f.read()

    def test_damaged_file(self):
        """It is left as it is: what can be rescued of it can still be."""
        directory = self.goldens(BERT[0])
        self.all(directory, "--device", "reference", "--precision", "fp32")
        with open(self.db, "r+b") as f:
            f.seek(100)
            f.write(b"\xff" * 3000)
        before = self.content()
        done = run("verify", "--all", directory, "--device", "reference", "--precision", "fp32", "--db", self.db, environment=self.environment)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"truth\.sqlite: .*malformed.*damaged or something else.*\.recover")
        self.assertEqual(self.content(), before)

    def test_read_only_file(self):
        """Read by `accel matrix`; no verdict goes there, and none that was there is lost."""
        self.db = self.path("a ?#%41 file.sqlite")
        directory = self.goldens(BERT[0])
        self.all(directory, "--device", "cpu", "--precision", "fp32")
        before = self.content()  # in the mode of WAL, for which SQLite would make files beside it
        os.chmod(self.db, 0o444)
        os.chmod(self.work, 0o555)
        self.addCleanup(os.chmod, self.work, 0o755)
        other = {"user": 65534} if os.geteuid() == 0 else {}  # root may write everything
        environment = {**ENVIRONMENT, **self.environment, "ACCEL_CACHE_DIR": self.path("none")}
        told = {}
        for command in (["verify", "--all", directory, "--device", "cpu", "--precision", "int8", "--db", self.db], ["matrix", "--view", "classes", "--db", self.db]):
            try:
                told[command[0]] = subprocess.run([ACCEL, *command], capture_output=True, text=True, env=environment, **other)
            except PermissionError:
                self.skipTest("the build tree is root's alone")
        self.assertEqual(told["verify"].returncode, 1, told["verify"].stderr)
        self.assertRegex(told["verify"].stderr, r"file\.sqlite.*(Permission denied|readonly).*--db FILE")
        self.assertEqual(told["matrix"].returncode, 0, told["matrix"].stderr)
        self.assertRegex(told["matrix"].stdout, r"BERT .*pass")
        self.assertEqual(self.content(), before)


class VerifyAll(VerifyCase):
    def test_plan(self):
        directory = self.goldens(*BERT)
        report = self.all(directory, "--device", "cpu,reference", "--precision", "fp32,int8")
        self.assertEqual(report["cells"], {"all": 8, "run": 8, "pass": 8, "fail": 0, "unsupported": 0})
        self.assertEqual([d["name"] for d in report["devices"]], ["cpu", "reference"])
        self.assertEqual({(r["model"], r["model_type"], r["golden"], r["device"], r["precision"], r["state"]) for r in report["results"]},
                         {("bert", "bert", g, d, p, "pass") for g in BERT for d in ("cpu", "reference") for p in ("fp32", "int8")})
        for row in report["results"]:
            alone = self.good("verify", os.path.join(directory, "bert"), "--golden", os.path.join(directory, "bert", row["golden"]), "--device", row["device"],
                              "--precision", row["precision"], "--architecture", row["architecture"])
            (output,) = (o for o in alone["outputs"] if o["name"] == row["output"])
            self.assertEqual([row[k] for k in ("max_abs", "cosine", "bound")], [output[k] for k in ("max_abs", "cosine", "bound")])
            if (row["device"], row["precision"]) == ("cpu", "fp32"):
                self.assertNotIn("cpu_max_abs", row)
            else:
                self.assertLess(row["cpu_max_abs"], 1e-4 if row["precision"] == "fp32" else 1)
                self.assertGreater(row["cpu_cosine"], 0.99)
        again = self.all(directory, "--device", "cpu,reference", "--precision", "fp32,int8")
        self.assertEqual((again["cells"]["run"], again["results"]), (0, report["results"]))
        wider = self.all(directory, "--device", "cpu,reference", "--precision", "fp32,fp16")
        # the CPU's fp32 outputs are computed again for the four new cells to be beside them
        self.assertEqual((wider["cells"]["all"], wider["cells"]["run"]), (8, 6))
        self.assertTrue(all("cpu_cosine" in r for r in wider["results"] if (r["device"], r["precision"]) != ("cpu", "fp32")))
        self.assertEqual(self.query("SELECT state, cells FROM verify_run"), [("done", 8), ("done", 6)])
        self.assertFalse(os.path.exists(self.db + "-verify"))
        table = run("verify", "--all", directory, "--device", "cpu", "--precision", "fp32", "--db", self.db, environment=self.environment)
        self.assertRegex(table.stdout, r"cpu +fp32 +2 +0 +0")
        self.assertIn("2 cells, of which 2 are known", table.stderr)

    def test_changed_files_are_other_cells(self):
        directory = self.goldens(BERT[0])
        path = os.path.join(directory, "bert", BERT[0])
        self.assertEqual(self.all(directory, "--device", "cpu", "--precision", "fp32")["cells"]["run"], 1)
        with open(path, "r+b") as f:  # the last number of the last tensor
            f.seek(-4, os.SEEK_END)
            f.write(b"\0\0\xc8\x42")
        self.assertEqual(self.all(directory, "--device", "cpu", "--precision", "fp32", code=6)["cells"], {"all": 1, "run": 1, "pass": 0, "fail": 1, "unsupported": 0})
        with open(os.path.join(directory, "bert", "config.json"), "a") as f:
            f.write("\n")
        self.assertEqual(self.all(directory, "--device", "cpu", "--precision", "fp32", code=6)["cells"]["run"], 1)

    def test_lists(self):
        """Lists say which goldens count, as which class and, of quantised checkpoints, at which precision."""
        directory = self.goldens(*BERT)
        self.goldens("golden.BertModel.safetensors", model="quantised/gptq_g32")
        with open(os.path.join(directory, "some.list"), "w") as f:
            f.write(f"# a comment\n\nbert {BERT[0]} BertModel\nbert {BERT[0]}  BertModel\nquantised/gptq_g32 golden.BertModel.safetensors BertModel uint4\n")
        with open(os.path.join(directory, "packages.list"), "w") as f:
            f.write("some words\n")
        report = self.all(directory, "--device", "cpu", "--precision", "fp32,fp16,uint4")
        self.assertEqual({(r["model"], r["golden"], r["precision"]) for r in report["results"]},
                         {("bert", BERT[0], p) for p in ("fp32", "fp16", "uint4")} | {("quantised/gptq_g32", "golden.BertModel.safetensors", p) for p in ("fp32", "uint4")})
        self.assertEqual(report["cells"]["pass"], 5)
        with open(os.path.join(directory, "some.list"), "a") as f:
            f.write("bert nothing.safetensors\n")
        self.bad(1, "some.list: line 6: expected MODEL GOLDEN", "verify", "--all", directory)
        with open(os.path.join(directory, "some.list"), "w") as f:
            f.write("bert golden.gone.safetensors\n")
        self.bad(1, "golden.gone.safetensors: No such file", "verify", "--all", directory)

    def test_lists_of_the_tree(self):
        """Every golden of the tree's lists, and no other, is in the plan."""
        wanted = set()
        for path in glob.glob(os.path.join(MODELS, "**", "*.list"), recursive=True):
            with open(path) as f:
                wanted |= {tuple(line.split()[:2]) if path.count("quantised") == 0 else ("quantised/" + line.split()[0], line.split()[1]) for line in f if line.strip() and line[0] != "#"}
        process = subprocess.Popen([ACCEL, "verify", "--all", MODELS, "--device", "reference", "--precision", "fp32", "--db", self.db], stderr=subprocess.PIPE, text=True,
                                   stdout=subprocess.DEVNULL, env={**ENVIRONMENT, **self.environment})
        line = process.stderr.readline()
        process.kill()
        process.communicate()
        self.assertEqual(int(re.search(r"(\d+) goldens, 1 devices", line).group(1)), len(wanted))

    def test_timeout(self):
        directory = self.goldens(BERT[0])
        arguments = ("verify", "--all", directory, "--device", "rocm:0", "--precision", "int8", "--db", self.db)
        done = run(*arguments, "--timeout", "1", environment={**self.environment, "STUB_HANG": "int8"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("the same command goes on", done.stderr)
        self.assertEqual(self.query("SELECT count(*) FROM verify"), [(0,)])
        self.assertEqual(run(*arguments, environment=self.environment).returncode, 0)

    def test_crash(self):
        """A driver that crashes fails its cells alone."""
        directory = self.goldens(*BERT)
        report = self.all(directory, "--device", "cpu,rocm:0", "--precision", "fp16,fp32", code=6, STUB_CRASH="fp16")
        self.assertEqual({(r["device"], r["precision"], r["state"], r["reason"]) for r in report["results"]},
                         {("cpu", "fp16", "pass", ""), ("cpu", "fp32", "pass", ""), ("rocm:0", "fp16", "fail", "signal 11"), ("rocm:0", "fp32", "pass", "")})
        self.assertEqual(len(report["results"]), 8)
        self.assertEqual(report["regressions"], [])

    def test_hang(self):
        """A driver that hangs is ended, and fails its cell alone; meanwhile the database is locked against a second plan."""
        directory = self.goldens(BERT[0])
        arguments = ("verify", "--all", directory, "--device", "rocm:0", "--precision", "int8,fp32", "--db", self.db, "--quiet")
        process = subprocess.Popen([ACCEL, *arguments], stdout=subprocess.DEVNULL, env={**ENVIRONMENT, **self.environment, "STUB_HANG": "int8"})
        self.wait_for(process, "SELECT count(*) FROM verify_run", 1)
        done = run(*arguments, environment=self.environment)
        self.assertEqual((done.returncode, process.poll()), (1, None), done.stderr)
        self.assertIn(f"another accel verify --all (process {process.pid})", done.stderr)
        process.kill()
        process.wait()
        report = self.all(directory, "--device", "rocm:0", "--precision", "int8,fp32", "--cell-timeout", "3", code=6, STUB_HANG="int8")
        self.assertEqual([(r["precision"], r["state"], r["reason"]) for r in report["results"]], [("int8", "fail", "no answer within 3 s"), ("fp32", "pass", "")])

    def test_regressions(self):
        directory = self.goldens(*BERT)
        arguments = (directory, "--device", "cpu,rocm:0", "--precision", "fp32")
        self.all(*arguments)
        self.change("UPDATE build SET build_id = 'earlier'")
        report = self.all(*arguments, code=6, STUB_BENT="forward")
        self.assertEqual([(r["device"], r["state"]) for r in report["results"]], [("cpu", "pass"), ("rocm:0", "fail")] * 2)
        self.assertEqual([(r["device"], r["precision"], r["golden"], r["passed_with"]) for r in report["regressions"]], [("rocm:0", "fp32", g, "earlier") for g in sorted(BERT)])
        self.assertRegex(report["regressions"][0]["reason"], "max abs .*, at most")
        told = run("verify", "--all", *arguments, "--db", self.db, environment=self.environment)
        self.assertEqual(told.returncode, 6)
        self.assertEqual(told.stdout.count("REGRESSION  bert golden.BertModel.right.safetensors, rocm:0, fp32: passed with build earlier"), 1)
        self.assertIn("2 cells fail, 2 of them passed with an earlier build", told.stderr)

    def test_wrong_calls(self):
        directory = self.goldens(BERT[0])
        self.bad(2, "without --golden and --list", "verify", "--all", directory, "--golden", "x")
        self.bad(2, "--evidence goes with --all", "verify", directory, "--evidence", "x")
        self.bad(2, "fp32,fp16.*not 'int3'", "verify", "--all", directory, "--precision", "fp32,int3")
        self.bad(1, "No such file", "verify", "--all", self.path("nowhere"))
        self.bad(1, "no golden", "verify", "--all", self.path("plugins"))
        self.bad(4, "--device npu:7: there is no such device", "verify", "--all", directory, "--device", "npu:7", environment=self.environment)


if __name__ == "__main__":
    unittest.main()
