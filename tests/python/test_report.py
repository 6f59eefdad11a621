"""`accel report`: every format beside what SQL says, other machines' rows, escaping, empty and damaged databases, and clean HTML."""
import csv
import html.parser
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from test_cli import Case, model, run
from test_database import schema

BENCH = ("bench", model("base"), "--device", "cpu", "--batch", "1", "--seq", "5", "--threads", "1", "--iters", "2", "--warmup", "1")
WILD = "<script>alert('x')</script>&\"\x01\u00e9|,\n"
SECTIONS = ["changes", "families", "hardware", "curves", "memory", "roofline", "history", "matrix"]
VOID = {"meta", "path", "rect", "circle"}


class Page(html.parser.HTMLParser):
    """Tables of a page, a list of rows by section; all tags; ends of tags are checked."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.tags, self.open, self.section, self.classes = {}, [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "section":
            self.section = attributes["id"]
        if tag == "tr":
            self.tables.setdefault(self.section, []).append([])
        if tag in ("td", "th"):
            self.tables[self.section][-1].append("")
        self.classes.append(attributes.get("class", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[self.section][-1][-1] += text


def number(text):
    return None if text in ("-", "") else float(text.replace(",", "").split()[0])


def shown(value):
    """As report_number writes it, read again."""
    if value is None:
        return None
    size = abs(value)
    return float(f"{value:.{0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3 if size >= 0.1 else 5}f}")


class Fixture(Case):
    """A database with one run that was measured here, and copies of it with other numbers.  Those are no measurements."""

    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.first = os.path.join(work.name, "first.sqlite")
        done = run(*BENCH, "--db", cls.first, "--profile", "--quiet")
        assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        self.db = shutil.copy(self.first, self.path("r.sqlite"))
        self.n = 0

    def sql(self, text, *values):
        file = sqlite3.connect(self.db)
        try:
            found = file.execute(text, values).fetchall()
            file.commit()
            return found
        finally:
            file.close()

    def add(self, rounds=(), **columns):
        """A copy of the first run; rounds: a latency each."""
        file = sqlite3.connect(self.db)
        names = [c for _, c, *_ in file.execute("PRAGMA table_info(run)")]
        self.n += 1
        row = dict(zip(names, file.execute("SELECT * FROM run WHERE id = 1").fetchone())) | {"id": None, "uid": f"u{self.n}"} | columns
        run_id = file.execute(f"INSERT INTO run ({','.join(row)}) VALUES ({','.join('?' * len(row))})", list(row.values())).lastrowid
        file.executemany("INSERT INTO sample VALUES (?, 'latency', ?, 0, ?)", [(run_id, i, ms) for i, ms in enumerate(rounds)])
        file.commit()
        file.close()
        return run_id

    def other(self, table, **columns):
        """A copy of the first row of machine, device or build."""
        file = sqlite3.connect(self.db)
        names = [c for _, c, *_ in file.execute(f"PRAGMA table_info({table})")]
        row = dict(zip(names, file.execute(f"SELECT * FROM {table} WHERE id = 1").fetchone())) | {"id": None} | columns
        found = file.execute(f"INSERT INTO {table} ({','.join(row)}) VALUES ({','.join('?' * len(row))})", list(row.values())).lastrowid
        file.commit()
        file.close()
        return found

    def fill(self):
        """Two devices, batches, lengths, builds that differ, another machine, verdicts, and a model of a wild name."""
        for precision, ms in (("int8", 1.25), ("bf16", 2.5)):
            self.add(precision=precision, median_ms=ms, items_per_s=1e3 / ms, prefill_tokens_per_s=5e3 / ms)
        for batch in (2, 4, 8):
            self.add(batch=batch, lengths=",".join(["5"] * batch), tokens=5 * batch, median_ms=0.5 * batch + 1, items_per_s=batch * 1e3 / (0.5 * batch + 1))
        for length in (16, 64, 256):
            self.add(lengths=str(length), tokens=length, median_ms=0.1 * length, items_per_s=1e4 / length)
        gpu = self.other("device", name="opencl:0", driver="pocl", uid="x", hardware="opencl", type="software")
        self.add(device="opencl:0", device_ref=gpu, median_ms=7.5, items_per_s=1e3 / 7.5, prefill_tokens_per_s=5e3 / 7.5)
        faraway = self.other("machine", hash="another", host="faraway", cpu="Other CPU")
        self.add(machine_ref=faraway, device_ref=self.other("device", machine=faraway), median_ms=0.75, items_per_s=1e3 / 0.75, prefill_tokens_per_s=5e3 / 0.75)
        old, new = self.other("build", build_id="older"), self.other("build", build_id="newer")
        for build, name, ms in ((old, "older", 10), (new, "newer", 12)):
            self.add([ms + 0.01 * i + 0.001 * (name == "newer") for i in range(9)], model="org/steady", build_ref=build, build=name, median_ms=ms)
            self.add([10 + 0.01 * i + 0.001 * (name == "newer") for i in range(9)], model="org/same", build_ref=build, build=name, median_ms=10)
            self.add([10, 11], model="org/few", build_ref=build, build=name, median_ms=10)
        self.add(model=WILD, weights=WILD, new_tokens=7, task="generate", decode_tokens_per_s=123456.75)
        for state, build in (("pass", old), ("fail", new)):
            self.sql("INSERT INTO verify (uid, time, build, device, model, model_type, model_hash, architecture, golden, golden_hash, precision, state, reason, output, max_abs, cosine, bound,"
                     " wall_ms) VALUES (?, '2026-01-01T00:00:00Z', ?, 1, 'bert', 'bert', 'h', 'BertModel', ?, 'g', 'fp32', ?, ?, 'o', 1e-6, 1.0, 1e-4, 1.0)", state, build, "g<i>", state, "<b>&")

    def report(self, *arguments, code=0):
        done = run("report", *arguments, "--db", self.db)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout


class Report(Fixture):
    def rows(self):
        """Every run as SQL has it, by id."""
        file = sqlite3.connect(self.db)
        file.row_factory = sqlite3.Row
        found = {row["id"]: dict(row) for row in file.execute("SELECT r.*, m.host AS machine_host, d.hardware FROM run r JOIN machine m ON m.id = machine_ref JOIN device d ON d.id = device_ref")}
        file.close()
        return found

    def test_numbers_are_sqls(self):
        self.fill()
        sql = self.rows()
        figures = ["median_ms", "min_ms", "p90_ms", "load_ms", "items_per_s", "prefill_tokens_per_s", "decode_tokens_per_s", "peak_rss_bytes", "peak_gflops", "batch", "threads", "tokens",
                   "energy_j", "p99_ms"]
        found = json.loads(self.report("--format", "json"))
        self.assertEqual(len(found["runs"]), len(sql))
        for row in found["runs"]:
            for name in figures:
                self.assertEqual(row[name], sql[row["id"]][name], name)
            self.assertEqual(row["model"], sql[row["id"]]["model"])
            self.assertEqual(row["where"], "faraway" if sql[row["id"]]["machine_host"] == "faraway" else "")
            self.assertEqual(row["first_ms"], self.sql("SELECT avg(ms) FROM sample WHERE run = ? AND what = 'first'", row["id"])[0][0])
        lines = list(csv.DictReader(io.StringIO(self.report("--format", "csv"), newline="")))
        self.assertEqual({int(r["id"]) for r in lines}, set(sql))
        for row in lines:
            for name in figures:
                self.assertEqual(float(row[name]) if row[name] else None, sql[int(row["id"])][name], name)
            self.assertEqual(row["model"], sql[int(row["id"])]["model"])
        page = Page(self.report())
        self.assertEqual(list(page.tables), SECTIONS)
        newest = {}
        for row in sql.values():
            newest[tuple(row[k] for k in ("model", "task", "device", "precision", "lengths", "new_tokens", "machine_host"))] = row
        head, *cells = page.tables["families"]
        self.assertEqual(len(cells), len(newest))
        sides = {"median ms": "median_ms", "90 % ms": "p90_ms", "items/s": "items_per_s", "new tokens/s": "decode_tokens_per_s", "energy J": "energy_j"}
        for title, column in sides.items():
            self.assertEqual(sorted((number(c[head.index(title)]) for c in cells), key=str), sorted((shown(r[column]) for r in newest.values()), key=str), title)
        self.assertEqual(sum("measured elsewhere (faraway)" in c[head.index("device")] for c in cells), 1)
        head, *cells = page.tables["memory"]
        self.assertEqual({number(c[head.index("peak memory MiB")]) for c in cells}, {shown(r["peak_rss_bytes"] / 2**20) for r in newest.values()})
        head, *cells = page.tables["roofline"]
        ops = self.sql("SELECT op, sum(ms), sum(flop) / sum(ms) * 1e-6 FROM step GROUP BY op ORDER BY 2 DESC")
        self.assertEqual([(c[head.index("op")], number(c[head.index("ms")]), number(c[head.index("GFLOP/s")])) for c in cells], [(op, shown(ms), shown(rate)) for op, ms, rate in ops])
        markdown = self.report("--format", "md")
        for name in ("older", "newer", "measured elsewhere (faraway)", "## Roofline"):
            self.assertIn(name, markdown)
        self.assertIn("&lt;script>alert('x')&lt;/script>&\" \u00e9\\|,", markdown)
        self.assertNotIn("<script", markdown)
        self.assertNotIn("\x01", self.report("families") + markdown)

    def test_changes(self):
        self.fill()
        found = json.loads(self.report("--format", "json"))
        self.assertEqual({c["model"]: c["verdict"] for c in found["changes"]}, {"org/steady": "slower", "org/same": "same within noise", "org/few": "too few rounds"})
        (slower,) = [c for c in found["changes"] if c["verdict"] == "slower"]
        self.assertEqual([slower[k] for k in ("build_before", "build_after", "rounds_before", "rounds_after", "ms_before")], ["older", "newer", 9, 9, 10.04])
        self.assertTrue(slower["ratio_low"] <= slower["ratio"] <= slower["ratio_high"] and abs(slower["ratio"] - 1.2) < 0.01)
        self.assertLess(slower["p"], 1e-4)
        self.assertEqual([(g["golden"], g["passed"], g["build"]) for g in found["regressions"]], [("g<i>", "older", "newer")])
        rows = Page(self.report()).tables["changes"]
        self.assertEqual([r[0] for r in rows], ["verdict", "fail", "slower", "verdict", "fail", "slower", "same within noise", "too few rounds"])

    def test_filters_and_views(self):
        self.fill()
        runs = lambda *a: json.loads(self.report("--format", "json", *a))["runs"]
        self.assertEqual({r["device"] for r in runs("--hardware", "opencl")}, {"opencl:0"})
        self.assertEqual(len(runs("--hardware", "all")), len(self.rows()))
        self.assertEqual({r["model"] for r in runs("--family", "embedding")}, {model("base")})
        self.assertEqual({r["model"] for r in runs("--model", "pipelines/base")}, {model("base")})
        self.assertEqual({r["model"] for r in runs("--model", "steady")}, {"org/steady"})
        text = self.report("hardware", "--model", "pipelines/base", "--metric", "latency")
        self.assertRegex(text, r"model +case +precision +unit +cpu +cpu; measured elsewhere \(faraway\) +opencl:0, software")
        self.assertRegex(text, r"batch 1 of 5 tokens, 1 thread +fp32 +ms +[0-9.]+( \*)? +0.750( \*)? +7.500\n")
        self.assertEqual(list(Page(self.report("curves", "--format", "html")).tables), ["curves"])
        self.assertIn("No run passes", self.report("--model", "none"))
        self.bad(2, "'weather' is no part of a report", "report", "weather", "--db", self.db)
        self.bad(2, "html, md, json, csv or txt, not srt", "report", "--format", "srt", "--db", self.db)
        self.bad(2, "txt, srt, vtt or json, not md", "transcribe", model("base"), "x.wav", "--format", "md")
        out = self.path("out.csv")
        self.assertEqual(self.report("-o", out), "")
        with open(out, newline="") as f:
            self.assertEqual(len(list(csv.reader(f))), 1 + len(self.rows()))

    def test_pages_are_clean(self):
        """Names are text, no script, no address of another file; checked by tidy and html5lib where they are installed."""
        self.fill()
        text = self.report()
        self.assertLess(len(text), 2 << 20)
        page = Page(text)
        self.assertFalse({"script", "link", "img", "b>"} & set(page.tags))
        self.assertNotIn("http", text)
        self.assertIn("&lt;script&gt;", text)
        self.assertNotIn("\x01", text)
        self.assertGreater(page.tags.count("svg"), 8)
        path = self.path("page.html", text)
        empty = self.path("empty.html", run("report", environment={"ACCEL_CACHE_DIR": self.path("none")}).stdout)
        tools = 0
        for name in (path, empty):
            if shutil.which("tidy"):
                done = subprocess.run(["tidy", "-e", "-q", name], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                tools += 1
            strict = "import html5lib, sys; html5lib.HTMLParser(strict=True).parse(open(sys.argv[1], encoding='utf-8'))"
            python = next((p for p in ("python3", "/usr/bin/python3") if subprocess.run([p, "-c", "import html5lib"], capture_output=True).returncode == 0), None)
            if python:
                done = subprocess.run([python, "-c", strict, name], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                tools += 1
        if not tools:
            self.skipTest("neither tidy nor html5lib is installed; all else passed")

    def test_nothing_measured(self):
        environment = {"ACCEL_CACHE_DIR": self.path("none")}
        page = run("report", environment=environment)
        self.assertEqual(page.returncode, 0, page.stderr)
        self.assertIn("Nothing was measured yet.", page.stdout)
        self.assertIn("<code>accel bench MODEL --store</code>", page.stdout)
        self.assertFalse(os.path.exists(self.path("none/bench.sqlite")))
        self.assertEqual(self.good("report", environment=environment)["runs"], [])
        self.assertEqual(len(run("report", "--format", "csv", environment=environment).stdout.splitlines()), 1)
        self.assertIn("accel verify --all", run("report", "--format", "md", environment=environment).stdout)
        self.bad(1, "no.sqlite: No such file", "report", "--db", self.path("no.sqlite"))

    def test_older_database(self):
        """One without scenarios is brought forward, and read a second time for the matrix meanwhile."""
        db = self.path("old.sqlite")
        file = sqlite3.connect(db)
        file.executescript("".join(schema(f"BENCH_SCHEMA_{m}") for m in ("1", "TO_2", "TO_3", "TABLES")))
        file.execute("INSERT INTO machine (id, hash, host, cpu) VALUES (1, 'x', 'faraway', 'c')")
        file.execute("INSERT INTO device (id, machine, name, driver, uid, hardware) VALUES (1, 1, 'cpu', 'd', 'u', 'cpu')")
        file.execute("INSERT INTO build (id, version, build_id, compiler) VALUES (1, '0', 'b', 'c')")
        file.execute("INSERT INTO verify (uid, time, build, device, model, model_type, model_hash, architecture, golden, golden_hash, precision, state, reason, output, wall_ms)"
                     " VALUES ('u', '2026-01-01T00:00:00Z', 1, 1, 'bert', 'bert', 'h', 'BertModel', 'g', 'g', 'fp32', 'pass', '', 'o', 1)")
        file.commit()
        file.close()
        self.assertRegex(" ".join(Page(run("report", "--db", db, timeout=9).stdout).tables["matrix"][1]), "BERT pass .*verified elsewhere: faraway")

    def test_broken_databases(self):
        with open(self.db, "r+b") as f:
            f.seek(100)
            f.write(b"\xff" * 3000)
        self.bad(1, r"r\.sqlite: .*(malformed|not a database).*\.recover", "report", "--db", self.db)
        self.bad(1, r"text\.sqlite: .*not a database", "report", "--db", self.path("text.sqlite", "no database at all" * 100))
        self.bad(1, r"/none/out.html: No such file", "report", "-o", "/none/out.html", environment={"ACCEL_CACHE_DIR": self.path("none")})


class Compare(Fixture):
    """`accel bench --compare A.sqlite B.sqlite`."""

    def sides(self, before, after, **columns):
        """Two copies of the database, each with a run of the case org/m: its rounds' latencies."""
        for name, rounds in (("b.sqlite", after), ("a.sqlite", before)):
            shutil.copy(self.first, self.path("r.sqlite"))
            self.add(rounds, model="org/m", median_ms=sorted(rounds)[len(rounds) // 2], **columns)
            shutil.move(self.db, self.path(name))
        return self.path("a.sqlite"), self.path("b.sqlite")

    def compare(self, a, b, code=0):
        done = run("bench", "--compare", a, b, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["schema"], found["before"], found["after"]), ("accel.compare/1", a, b))
        return {c["model"]: c for c in found["changes"]}

    def test_verdicts(self):
        even = [10 + 0.01 * i for i in range(10)]
        for after, verdict, code in (([1.1 * x for x in even], "slower", 6), ([x / 1.1 for x in even], "faster", 0), ([x + 0.005 for x in even], "same within noise", 0),
                                     ([1.01 * x for x in even], "same within noise", 0),  # sure, and too small
                                     ([15, 9, 10, 10.2, 12, 11], "same within noise", 0), ([20, 21, 22, 23], "too few rounds", 0)):
            found = self.compare(*self.sides(even, after), code)
            self.assertEqual(found["org/m"]["verdict"], verdict, after)
            self.assertEqual(found[model("base")]["verdict"], "too few rounds")
        done = run("bench", "--compare", *self.sides(even, [2 * x for x in even]))
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stdout, r"verdict .*\nslower +org/m .* 10\.04 ms +20\.09 ms +2\.000 \(1\.99")
        self.assertIn("1 slower, 0 faster, 0 the same within noise, 1 with too few rounds", done.stderr)

    def test_many_cases_are_corrected_for(self):
        """p = 0.008 once is a change; the same among forty figures is not."""
        a, b = [10, 10.1, 10.2, 10.3, 10.4], [11, 11.1, 11.2, 11.3, 11.4]
        self.assertEqual(self.compare(*self.sides(a, b), 6)["org/m"]["verdict"], "slower")
        paths = self.sides(a, b)
        for path in paths:
            self.db = path
            for i in range(40):
                self.add(a, model=f"org/{i}")
        found = self.compare(*paths)["org/m"]
        self.assertEqual(found["verdict"], "same within noise")
        self.assertTrue(found["p"] < 0.01 < 0.05 < found["false_alarms"])

    def test_refusals(self):
        a, b = self.sides([1] * 5, [1] * 5)
        self.db = b
        self.sql("UPDATE machine SET hash = 'another', host = 'faraway', cpu = 'Other CPU'")
        self.bad(2, r"a.sqlite was measured on .*b.sqlite on faraway \(Other CPU, machine another\): runs of two machines are not compared", "bench", "--compare", a, b)
        self.sql("DELETE FROM run")
        self.bad(1, "b.sqlite: holds no run", "bench", "--compare", a, b)
        self.bad(1, "none.sqlite: unable to open", "bench", "--compare", self.path("none.sqlite"), a)
        c = shutil.copy(a, self.path("c.sqlite"))
        self.db = c
        self.sql("UPDATE run SET precision = 'int8'")
        self.bad(1, "hold no run of the same case", "bench", "--compare", a, c)


if __name__ == "__main__":
    unittest.main()
