"""The database of what was measured: its default place, older and broken files, export and import, other machines' rows, size."""
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import unittest

from test_cli import ACCEL, ENVIRONMENT, ROOT, Case, model, run

BENCH = ("bench", model("base"), "--device", "cpu", "--batch", "1", "--seq", "5", "--threads", "1", "--iters", "2", "--warmup", "1")


def schema(macro):
    """The statements of a macro of bench_schema.h."""
    with open(os.path.join(ROOT, "src", "bench", "bench_schema.h"), encoding="utf-8") as f:
        body = re.search(rf"#define {macro}\b(.*?[^\\])\n", f.read(), re.S).group(1)
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', re.sub(r"/\*.*?\*/", "", body)))


class Database(Case):
    def query(self, db, sql):
        file = sqlite3.connect(db)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()

    def change(self, db, sql):
        file = sqlite3.connect(db)
        file.executescript(sql)
        file.close()

    def test_default_place(self):
        cache = self.path("new/cache")
        self.good(*BENCH, "--store", environment={"ACCEL_CACHE_DIR": cache})
        db = os.path.join(cache, "bench.sqlite")
        self.assertEqual(self.query(db, "SELECT count(*) FROM run JOIN machine m ON m.id = machine_ref JOIN device d ON d.id = device_ref JOIN build b ON b.id = build_ref"), [(1,)])
        (cores, memory, kernel), = self.query(db, "SELECT cores, memory, kernel FROM machine")
        self.assertEqual((cores, memory, kernel), (os.sysconf("SC_NPROCESSORS_ONLN"), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), os.uname().release))
        self.assertEqual(self.query(db, "SELECT what, count(*) FROM sample GROUP BY what ORDER BY what"), [("first", 1), ("latency", 2), ("load", 1)])
        environment = {k: v for k, v in ENVIRONMENT.items() if not k.startswith("ACCEL_CACHE")}
        subprocess.run([ACCEL, *BENCH, "--store", "--quiet"], check=True, capture_output=True, env={**environment, "XDG_CACHE_HOME": self.path("xdg")})
        self.assertEqual(self.query(self.path("xdg/accel/bench.sqlite"), "SELECT count(*) FROM run"), [(1,)])
        bare = {k: v for k, v in environment.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        done = subprocess.run([ACCEL, *BENCH, "--store"], capture_output=True, text=True, env=bare)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "no place for the database: none of ACCEL_CACHE_DIR.*--db")

    def test_older_schemas(self):
        """Schemas 1, 2 and 3 as it was before it had machines: all rows stay, and are those of this machine where host and processor are."""
        fresh = self.path("fresh.sqlite")
        self.good(*BENCH, "--db", fresh)
        (host, cpu), = self.query(fresh, "SELECT host, cpu FROM machine")
        for version in (1, 2, 3):
            db = self.path(f"{version}.sqlite")
            self.change(db, "".join(schema(m) for m in ("BENCH_SCHEMA_1", "BENCH_SCHEMA_TO_2", "BENCH_SCHEMA_TO_3")[:version]))
            old = sqlite3.connect(db)
            columns = [c for _, c, *_ in old.execute("PRAGMA table_info(run)")]
            for n, where in ((1, host), (2, "elsewhere")):
                row = dict.fromkeys(columns, 1) | {"id": n, "time": "t", "measured": 1, "host": where, "cpu": cpu, "device": "cpu", "library": "0.0", "median_ms": 2.5}
                old.execute(f"INSERT INTO run VALUES ({','.join('?' * len(row))})", list(row.values()))
            old.execute(f"INSERT INTO {'sample' if version == 3 else 'latency'} VALUES (1, {repr('latency') + ',' if version == 3 else ''} 0, 0, 2.5)")
            old.commit()
            old.close()
            self.good(*BENCH, "--db", db)
            self.assertEqual(self.query(db, "SELECT id, median_ms FROM run WHERE id < 3"), [(1, 2.5), (2, 2.5)])
            self.assertEqual(self.query(db, "SELECT ms FROM latency WHERE run = 1"), [(2.5,)])
            machines = self.query(db, "SELECT m.host, count(*), m.hash LIKE 'host:%' FROM run r JOIN machine m ON m.id = r.machine_ref GROUP BY m.id ORDER BY 2")
            self.assertEqual(machines, [("elsewhere", 1, 1), (host, 2, 0)])
            self.assertEqual(self.query(db, "SELECT count(*), count(DISTINCT uid) FROM run WHERE device_ref AND build_ref"), [(3, 3)])

    def test_schema_3(self):
        """As it was with machines: samples, verdicts and references stay, and times from token to token can be added."""
        db = self.path("3.sqlite")
        self.change(db, "".join(schema(m) for m in ("BENCH_SCHEMA_1", "BENCH_SCHEMA_TO_2", "BENCH_SCHEMA_TO_3", "BENCH_SCHEMA_TABLES")))
        old = sqlite3.connect(db)
        old.execute("INSERT INTO machine (hash, host, cpu) VALUES ('h', 'elsewhere', 'c')")
        row = dict.fromkeys([c for _, c, *_ in old.execute("PRAGMA table_info(run)")], 1)
        old.execute(f"INSERT INTO run VALUES ({','.join('?' * len(row))})", list(row.values()))
        old.execute("INSERT INTO sample VALUES (1, 'decode', 0, 0, 2.5)")
        self.assertRaises(sqlite3.IntegrityError, old.execute, "INSERT INTO sample VALUES (1, 'token', 0, 0, 2.5)")
        old.commit()
        old.close()
        self.good(*BENCH, "--db", db)
        self.assertEqual(self.query(db, "SELECT r.id, m.host, s.what, s.ms, r.memory_limit FROM run r JOIN machine m ON m.id = r.machine_ref JOIN sample s ON s.run = r.id WHERE r.id = 1"),
                         [(1, "elsewhere", "decode", 2.5, None)])
        self.change(db, "INSERT INTO sample VALUES (1, 'token', 0, 0, 2.5), (1, 'raw', 0, 0, 1.5)")
        self.assertEqual(self.query(db, "SELECT count(*) FROM latency"), [(2,)])

    def test_broken_files(self):
        damaged = self.path("damaged.sqlite")
        self.good(*BENCH, "--db", damaged)
        with open(damaged, "r+b") as f:
            f.seek(100)
            f.write(b"\xff" * 3000)
        self.bad(1, r"damaged\.sqlite: .*(malformed|not a database).*\.recover", *BENCH, "--db", damaged)
        self.bad(1, r"none/such\.sqlite: unable to open.*--db FILE", *BENCH, "--db", self.path("none/such.sqlite"))

    def test_full_disk(self):
        """A file that may not grow: an error, and what was there before is whole."""
        db = self.path("full.sqlite")
        self.good(*BENCH, "--db", db)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        done = subprocess.run([ACCEL, *BENCH, "--iters", "5000", "--quiet", "--no-cache", "--db", db], capture_output=True, text=True, env=ENVIRONMENT, preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"full\.sqlite: .*disk.*what was stored before is intact")
        self.assertEqual(self.query(db, "PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(self.query(db, "SELECT count(*) FROM run"), [(1,)])
        self.good(*BENCH, "--db", db)

    def test_read_only_file(self):
        """Compared with, not written to."""
        db = self.path("fixed.sqlite")
        self.good(*BENCH, "--db", db)
        self.query(db, "PRAGMA journal_mode = DELETE")
        os.chmod(db, 0o444)
        os.chmod(self.work, 0o555)
        self.addCleanup(os.chmod, self.work, 0o755)
        other = {"user": 65534} if os.geteuid() == 0 else {}  # root may write everything
        done = {}
        for option in ("--db", "--compare"):
            try:
                done[option] = subprocess.run([ACCEL, *BENCH, "--no-cache", option, db], capture_output=True, text=True, env=ENVIRONMENT, **other)
            except PermissionError:
                self.skipTest("the build tree is root's alone")
        self.assertEqual(done["--db"].returncode, 1)
        self.assertRegex(done["--db"].stderr, r"fixed\.sqlite: .*readonly.*--db FILE")
        self.assertEqual(done["--compare"].returncode, 0, done["--compare"].stderr)

    def test_exchange(self):
        """What was exported is imported elsewhere to the last digit, once; another machine's rows are never compared with this one's."""
        here, there, rows = self.path("here.sqlite"), self.path("there.sqlite"), self.path("rows.jsonl")
        self.good(*BENCH, "--db", here, "--profile")
        self.good(*BENCH, "--db", here, "--seq", "6")
        self.assertEqual(run("bench", "--export", rows, "--db", here).returncode, 0)
        with open(rows, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["schema"] for line in lines], ["accel.row/1"] * 2)
        self.assertTrue(lines[0]["step"] and not lines[1]["step"])
        for _ in range(2):  # the second time nothing is new
            done = run("bench", "--import", rows, "--db", there)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0 runs and 0 verdicts imported, 2 were there already", done.stderr)
        for table in ("run", "sample", "step", "machine", "device", "build"):
            self.assertEqual(self.query(here, f"SELECT * FROM {table}"), self.query(there, f"SELECT * FROM {table}"), table)
        self.good(*BENCH, "--compare", there)

        elsewhere = self.path("elsewhere.sqlite")
        for line in lines:
            line["machine"] |= {"hash": "another", "host": "faraway"}
        other = self.path("other.jsonl", "\n\n".join(map(json.dumps, lines)))
        self.assertEqual(run("bench", "--import", other, "--db", elsewhere).returncode, 0)
        self.bad(1, r"1 that were measured elsewhere \(faraway\)", *BENCH, "--compare", elsewhere)
        self.good(*BENCH, "--db", elsewhere)
        self.assertEqual(self.good(*BENCH, "--compare", elsewhere)["compare"]["unlike"], "")
        self.assertEqual(self.query(elsewhere, "SELECT count(*) FROM machine m JOIN run ON machine_ref = m.id WHERE m.host = 'faraway'"), [(2,)])

    def test_wrong_lines(self):
        """Nothing of a file with a wrong line is taken, and the line is named."""
        db, rows = self.path("x.sqlite"), self.path("rows.jsonl")
        self.good(*BENCH, "--db", db)
        self.assertEqual(run("bench", "--export", rows, "--db", db).returncode, 0)
        with open(rows, encoding="utf-8") as f:
            line = json.loads(f.read())
        good = line | {"run": line["run"] | {"uid": "a"}}
        for wrong, message in (("{", "no JSON"), (json.dumps({"schema": "accel.bench/1"}), "no row of accel bench --export"),
                               (json.dumps(line | {"run": line["run"] | {"uid": "b", "measured": 0}}), "CHECK.*measured = 1"),
                               (json.dumps(line | {"run": line["run"] | {"uid": "b", "mood": 1}}), "run.mood is no column"),
                               (json.dumps({k: v for k, v in good.items() if k != "device"} | {"run": line["run"] | {"uid": "b"}}), '"device" is missing')):
            path = self.path("wrong.jsonl", json.dumps(good) + "\n" + wrong + "\n")
            self.bad(1, rf"wrong\.jsonl: line 2: .*{message}.*nothing was imported", "bench", "--import", path, "--db", db)
        self.assertEqual(self.query(db, "SELECT count(*) FROM run"), [(1,)])
        self.bad(2, "without MODEL", "bench", model("base"), "--import", rows)
        self.bad(2, "which MODEL", "bench")


if __name__ == "__main__":
    unittest.main()
