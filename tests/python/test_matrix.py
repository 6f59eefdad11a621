"""`accel matrix`: what was verified, here and elsewhere, by models, classes and tasks, in each format; and ratings of profiled runs."""
import html.parser
import json
import os
import re
import subprocess

from test_cli import ACCEL, ENVIRONMENT, model, run, unittest
from verifying import BERT, VerifyCase

KINDS = ["cpu", "cuda", "amd", "opencl", "vulkan", "openvino", "apple", "qualcomm", "webgpu", "webnn"]
CLASSES = ["BERT", "T5", "LLaMA", "CLIP", "ViT", "CLAP", "Whisper", "Wav2Vec2", "LLaVA", "LLaVA-Next", "XCLIP", "Qwen2/3", "DETR"]


class Page(html.parser.HTMLParser):
    """The rows of a page's table, and all its tags."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.classes, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.classes.append(dict(attributes).get("class", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += text


class Matrix(VerifyCase):
    def matrix(self, *arguments, **environment):
        return self.good("matrix", *arguments, "--db", self.db, environment={**self.environment, **environment})

    def text(self, *arguments):
        done = run("matrix", *arguments, "--db", self.db, environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def verified(self, directory):
        (entry,) = self.matrix(os.path.join(directory, "bert"))["models"]
        return entry["verified"]

    def test_states(self):
        directory = self.goldens(*BERT)
        report = self.all(directory, "--device", "cpu,rocm:0", "--precision", "fp32,int8")
        found = self.verified(directory)
        self.assertEqual(list(found), ["cpu", "rocm:0"])
        for device in found:
            rows = {p: [r for r in report["results"] if (r["device"], r["precision"]) == (device, p)] for p in ("fp32", "int8")}
            exact = found[device]["fp32"]
            self.assertEqual((exact["state"], exact["goldens"], exact["passed"]), ("pass", 2, 2))
            self.assertEqual(exact["error"], max(r["max_abs"] for r in rows["fp32"]))
            self.assertAlmostEqual(found[device]["int8"]["cosine"], min(r["cosine"] for r in rows["int8"]), 12)
            self.assertEqual((exact["device"], exact["driver"], exact["time"]), (device, rows["fp32"][0]["driver"], max(r["time"] for r in rows["fp32"])))
            self.assertEqual(found[device]["fp4"], {"state": "untested"})
        self.assertEqual(set(self.matrix()["models"][-1]), {"model", "verified"})  # "bert", which the registry does not know
        self.change("UPDATE build SET build_id = 'earlier'")
        self.all(directory, "--device", "cpu,rocm:0", "--precision", "fp32", code=6, STUB_BENT="forward")
        found = self.verified(directory)
        self.assertEqual({d: {p: c["state"] for p, c in cells.items() if c["state"] != "untested"} for d, cells in found.items()},
                         {"cpu": {"fp32": "pass", "int8": "stale"}, "rocm:0": {"fp32": "fail", "int8": "stale"}})
        bert = {r["name"]: r["cells"] for r in self.matrix("--view", "classes")["rows"]}["BERT"]["cpu"]
        self.assertEqual([bert[k] for k in ("state", "goldens", "stale", "precisions")], ["pass", 2, 2, ["fp32"]])
        self.assertRegex(self.text("--view", "classes"), "BERT, cpu: pass.* fp32; 2 more are stale; cpu")
        table = self.text(os.path.join(directory, "bert"))
        self.assertRegex(table, r"verified here +cpu \(libaccel [0-9.]+, 20\d\d-\d\d-\d\d\) +pass\(\d\.\de-\d\d\) +untested +untested +stale\(earlier\)")
        self.assertRegex(table, r"verified here +rocm:0 \(stub 1.0, .*fail\(2 of 2\) ")
        self.assertRegex(table, r"bert, rocm:0, fp32: fail\(2 of 2: golden\.Bert.*max abs")
        self.change("UPDATE verify SET state = 'unsupported', reason = 'a reason' WHERE precision = 'int8'; UPDATE verify SET build = (SELECT max(id) FROM build)")
        self.assertEqual(self.verified(directory)["cpu"]["int8"]["state"], "unsupported")
        self.assertIn("| unsupported(a reason) |", self.text(os.path.join(directory, "bert"), "--markdown"))

    def test_elsewhere(self):
        directory, evidence = self.goldens(*BERT), self.path("evidence.json")
        self.all(directory, "--device", "rocm:0", "--precision", "fp32", "--evidence", evidence)
        with open(evidence, encoding="utf-8") as f:
            told = json.load(f)
        self.assertEqual(told["schema"], "accel.evidence/1")
        self.assertEqual([(d["name"], d["driver"], d["id"]) for d in told["devices"]], [("rocm:0", "stub 1.0", "0000:0d:00.0")])
        self.assertTrue(all(re.fullmatch("[0-9a-f]{16}", r["golden_hash"]) and r["build"] == told["build"] for r in told["results"]))
        for row in told["results"]:
            row["where"] = "far-away"
        with open(evidence, "w", encoding="utf-8") as f:
            json.dump(told, f)
        self.db = self.path("empty.sqlite")
        self.all(directory, "--device", "cpu", "--precision", "fp32")
        (entry,) = self.matrix(os.path.join(directory, "bert"), "--with", evidence)["models"]
        self.assertEqual((list(entry["verified"]), list(entry["verified_elsewhere"])), (["cpu"], ["rocm:0 at far-away"]))
        cell = entry["verified_elsewhere"]["rocm:0 at far-away"]["fp32"]
        self.assertEqual((cell["state"], cell["where"], cell["build"], cell["passed"]), ("pass", "far-away", told["build"], 2))
        self.assertRegex(self.text(os.path.join(directory, "bert"), "--with", evidence), r"verified elsewhere +rocm:0 at far-away \(stub 1.0, .*, build .*pass")
        rows = {r["name"]: r["cells"] for r in self.matrix("--view", "classes", "--with", evidence)["rows"]}
        self.assertEqual((rows["BERT"]["amd"]["where"], rows["BERT"]["cpu"].get("where")), ("far-away", None))
        self.assertEqual({r["name"]: r["cells"] for r in self.matrix("--view", "classes")["rows"]}["BERT"]["amd"], {"state": "untested"})
        for wrong in ("{}", "no JSON", '{"schema": "accel.evidence/1", "results": [{"model": "x"}]}'):
            self.bad(1, "no evidence file.*--evidence", "matrix", "--db", self.db, "--with", self.path("wrong.json", wrong), environment=self.environment)

    def test_views(self):
        directory = self.goldens(*BERT)
        self.all(directory, "--device", "cpu,rocm:0", "--precision", "fp32,int8", code=6, STUB_CRASH="int8")
        classes, tasks = (self.matrix("--view", view) for view in ("classes", "tasks"))
        self.assertEqual((classes["columns"], [r["name"] for r in classes["rows"]]), (KINDS, CLASSES))
        bert = classes["rows"][0]["cells"]
        self.assertEqual((bert["cpu"]["state"], bert["cpu"]["goldens"], bert["cpu"]["precisions"]), ("pass", 4, ["fp32", "int8"]))
        self.assertEqual((bert["cpu"]["devices"], bert["amd"]["devices"]), ([f"cpu, {bert['cpu']['driver']}"], ["rocm:0, stub 1.0"]))
        self.assertEqual((bert["amd"]["state"], bert["amd"]["failed"], bert["amd"]["precisions"]), ("fail", 2, ["fp32"]))
        self.assertRegex(bert["amd"]["reason"], "golden.*: signal 11")
        self.assertEqual((bert["cuda"], bert["openvino"]["state"]), ({"state": "unsupported", "reason": "this build has no plugin for it"}, "unsupported"))
        self.assertTrue(all(c["state"] in ("untested", "unsupported") for r in classes["rows"][1:] for c in r["cells"].values()))
        rows = {r["name"]: r["cells"] for r in tasks["rows"]}
        self.assertEqual(list(rows), sorted(rows))
        self.assertGreaterEqual(set(rows), {"automatic-speech-recognition", "fill-mask", "image-segmentation", "text-generation", "zero-shot-image-classification"})
        self.assertEqual({name: (c["cpu"]["goldens"], c["cpu"]["state"]) for name, c in rows.items() if c["cpu"]["state"] != "untested"},
                         {"feature-extraction": (2, "pass"), "fill-mask": (2, "pass")})
        self.assertRegex(self.text("--view", "classes"), r"BERT +pass\(\d\.\de-\d\d\) +unsupported +fail\(2 of 4\)")
        self.assertRegex(self.text("--view", "classes"), r"\nwebnn: WebNN is an interface of web browsers")
        self.bad(2, "without MODEL", "matrix", "bert", "--view", "tasks")
        self.bad(2, "one of --json", "matrix", "--markdown", "--html")

    def test_pages(self):
        """The page and the Markdown table hold the same cells; the page needs nothing else."""
        directory = self.goldens(*BERT)
        self.all(directory, "--device", "cpu", "--precision", "fp32")
        self.change("UPDATE device SET driver = 'a <b> & \"c\" driver'; UPDATE verify SET time = '2026-01-02T03:04:05Z'")
        page = Page(self.text("--view", "classes", "--html"))
        self.assertEqual(page.open, [])
        self.assertFalse({"script", "link", "img", "iframe"} & set(page.tags))
        text = self.text("--view", "classes", "--html")
        self.assertNotRegex(text, r"https?:|url\(|@import")
        self.assertIn("@media (prefers-color-scheme: dark)", text)
        lines = [[c.strip().replace("\\|", "|").replace("&lt;", "<") for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in self.text("--view", "classes", "--markdown").splitlines()]
        self.assertEqual(page.rows, [lines[0], *lines[2:]])
        self.assertRegex(page.rows[1][1], r'^pass\(\d\.\de-\d\d\) fp32; cpu, a <b> & "c" driver, 2026-01-02$')
        self.assertEqual([c.split(" ")[0] for c in page.classes[11:14]], ["", "pass", "unsupported"])
        models = Page(self.text(os.path.join(directory, "bert"), "--html"))
        self.assertTrue(any(row[1] == "verified here" and row[3].startswith("pass(") for row in models.rows))

    def test_no_place(self):
        """Without a database, and without a place for one, nothing was verified; nothing is made."""
        bare = {k: v for k, v in ENVIRONMENT.items() if k not in ("HOME", "XDG_CACHE_HOME", "ACCEL_CACHE_DIR")} | self.environment
        for more in ({}, {"ACCEL_CACHE_DIR": self.path("nowhere")}):
            done = subprocess.run([ACCEL, "matrix", model("base"), "--json"], capture_output=True, text=True, env=bare | more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("verified", json.loads(done.stdout)["models"][0])
        self.assertFalse(os.path.exists(self.path("nowhere/bench.sqlite")))

    def test_ratings(self):
        """Only of steps whose least time is known; software has none."""
        base = model("base")
        self.bad(1, "No such file", "matrix", base, "--db", self.db)
        self.good("bench", base, "--device", "cpu", "--seq", "8", "--iters", "2", "--warmup", "1", "--db", self.db)
        self.assertNotIn("ratings", self.matrix(base)["models"][0])
        self.good("bench", base, "--device", "cpu", "--seq", "8", "--iters", "2", "--warmup", "1", "--profile", "--db", self.db)
        ((share, known),) = self.query("SELECT sum(bound_ms) / sum(ms), count(*) FROM step WHERE bound_ms IS NOT NULL")
        self.assertGreater(known, 5)
        rated = self.matrix(base)["models"][0]["ratings"]
        self.assertEqual(rated["cpu"]["fp32"]["rating"], "poor" if share < .1 else "fair" if share < .3 else "good" if share < .6 else "excellent")
        self.assertAlmostEqual(rated["cpu"]["fp32"]["share"], share, 12)
        for bound, rating in ((.09, "poor"), (.11, "fair"), (.31, "good"), (.61, "excellent")):
            self.change(f"UPDATE step SET bound_ms = {bound}, ms = 1.0 WHERE bound_ms IS NOT NULL")
            self.assertEqual(self.matrix(base)["models"][0]["ratings"]["cpu"]["fp32"]["rating"], rating)
        self.assertRegex(self.text(base), r"of the bound +cpu +excellent \(61 %\)")
        bert = {r["name"]: r["cells"] for r in self.matrix("--view", "classes")["rows"]}["BERT"]["cpu"]
        self.assertEqual((bert["state"], bert["rating"]), ("untested", "excellent"))
        self.change("UPDATE device SET type = 'software'")
        self.assertEqual(self.matrix(base)["models"][0]["ratings"]["cpu"]["fp32"], {"rating": "software"})


if __name__ == "__main__":
    unittest.main()
