"""`accel predict`: planned steps are those that run, predictions come from profiled rows of the database alone, and none is stored."""
import json
import os
import sqlite3
import unittest

from test_cli import FIXTURES, Case, model, run
import test_bindings  # finds the library and the package, starts Python again under a sanitizer
from accel import _native, _types

MEASURED = [("base", 12, ()), ("classify", 20, ()), ("mask", 9, ()), ("base", 40, ()), ("text", 12, ("--task", "generate", "--new", "3"))]


def planned(name, **fields):
    """{node: (op, flop, bytes)} of accel_plan_steps."""
    import ctypes as C
    import accel
    found, keep = {}, {k: v.encode() for k, v in fields.items() if isinstance(v, str)}

    def step(_, pointer):
        s = pointer.contents
        found[s.index] = (s.op.decode().lower(), s.flop, s.bytes)
    with accel.Context() as context:
        params = _native.lib.accel_plan_params_default()
        for key, value in {**fields, **keep}.items():
            setattr(params, key, value)
        _native.check(_native.lib.accel_plan_steps(context.handle, model(name).encode(), C.byref(params), _types.ProfileFunction(step), None))
    return found


class Predict(Case):
    def setUp(self):
        super().setUp()
        self.db = self.path("p.sqlite")

    def measure(self, name, seq, more=(), precision="fp32"):
        done = run("bench", model(name), *(("--seq", str(seq)) if seq else ()), "--iters", "4", "--profile", "--precision", precision, "--db", self.db, "--quiet", *more)
        self.assertEqual(done.returncode, 0, done.stderr)

    def same_work(self, *plans_and_run):
        """The plans' steps are the run's, and flop and bytes of each op their mean."""
        *plans, run_id = plans_and_run
        ran = {node for node, in self.query(f"SELECT node FROM step WHERE run = {run_id}")}
        self.assertEqual([plan.keys() ^ ran for plan in plans], [set()] * len(plans))
        mean = {}
        for op, flop, size in (step for plan in plans for step in plan.values()):
            a, b = mean.get(op, (0, 0))
            mean[op] = a + flop / len(plans), b + size / len(plans)
        ran = {op: (flop, size) for op, flop, size in self.query(f"SELECT op, sum(flop), sum(bytes) FROM step WHERE run = {run_id} GROUP BY op")}
        self.assertEqual(mean.keys(), ran.keys())
        for op, (flop, size) in ran.items():
            self.assertAlmostEqual(mean[op][0], flop, msg=op)
            self.assertAlmostEqual(mean[op][1], size, msg=op)

    def query(self, sql):
        file = sqlite3.connect(self.db)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()

    def test_planned_steps_are_those_that_run(self):
        for name, output in (("base", "last_hidden_state"), ("classify", None)):
            for precision in ("fp32", "int8"):
                self.measure(name, 12, ("--batch", "3"), precision)
                ((output_run, run_id),) = self.query("SELECT output, id FROM run ORDER BY id DESC LIMIT 1")
                self.same_work(planned(name, output=output or output_run, batch=3, seq=12, precision=precision), run_id)
        # of pictures and sounds, too, whose linears are fused beside convolutions
        for name, length in (("vit", 0), ("resnet", 0), ("detr", 0), ("wav2vec2", 4000)):
            for precision in ("fp32", "int8"):
                self.measure(os.path.join(FIXTURES, "models", name), length, (), precision)
                ((output, lengths, run_id),) = self.query("SELECT output, lengths, id FROM run ORDER BY id DESC LIMIT 1")
                self.same_work(planned(os.path.join(FIXTURES, "models", name), output=output, batch=1, side=int(lengths), precision=precision), run_id)
        # steps of decoding: means over a past of 12, 13 tokens
        self.measure("text", 12, ("--task", "generate", "--new", "3"))
        ((run_id,),) = self.query("SELECT max(id) FROM run")
        self.same_work(*(planned("text", entry="decode", batch=1, seq=1, past=past) for past in (12, 13)), run_id)

    def test_predictions(self):
        for name, seq, more in MEASURED:
            self.measure(name, seq, more)
        before = self.query("SELECT count(*), max(id) FROM run"), self.query("SELECT count(*) FROM step"), self.query("SELECT count(*) FROM sample")
        words = ("--db", self.db, "--device", "cpu")
        result = self.good("predict", model("tokens"), "--seq", "30", "--batch", "2", *words)
        self.assertFalse(result["measured"])
        self.assertEqual((result["batch"], result["seq"]), (2, 30))
        (found,) = result["predictions"]
        self.assertEqual((found["precision"], found["learnt_from_runs"], found["learnt_from_models"], found["model_is_among_them"], found["why"]), ("fp32", 5, 4, False, ""))
        for figure, low, high in ((found["latency_ms"], 1e-3, 1e3), (found["memory_bytes"], 1 << 20, 1 << 32)):
            self.assertTrue(low < figure["low"] <= figure["predicted"] <= figure["high"] < high, figure)
            self.assertTrue(figure["bar_of_too_few"])
        # more work takes longer, and a generation has its parts
        (more,) = self.good("predict", model("tokens"), "--seq", "30", "--batch", "32", *words)["predictions"]
        self.assertGreater(more["latency_ms"]["predicted"], found["latency_ms"]["predicted"])
        (text,) = self.good("predict", model("text"), "--task", "generate", "--seq", "12", "--new", "5", *words)["predictions"]
        self.assertTrue(text["model_is_among_them"])
        self.assertAlmostEqual(text["latency_ms"]["predicted"], text["prefill_ms"]["predicted"] + 4 * text["token_ms"]["predicted"])
        table = run("predict", model("tokens"), *words)
        self.assertRegex(table.stdout, r"cpu +fp32 +latency +[\d.]+ ms +[\d.e+-]+ to [\d.e+-]+ ms \*")
        errors = json.loads(run("predict", "--json", *words).stdout)
        self.assertEqual(errors["schema"], "accel.predict_errors/1")
        (group,) = errors["groups"]
        self.assertEqual((group["models"], len(group["runs"])), (4, 5))
        for one in group["runs"]:
            self.assertGreater(one["measured_ms"], 0)
            self.assertGreater(one["predicted_ms"], 0)
        self.assertRegex(run("predict", *words).stdout, r"cpu +fp32 +4 +5 +[\d.]+ %")
        # predictions are never stored
        self.assertEqual((self.query("SELECT count(*), max(id) FROM run"), self.query("SELECT count(*) FROM step"), self.query("SELECT count(*) FROM sample")), before)

    def test_errors(self):
        measures = r"accel bench MODEL --profile --store"
        self.bad(1, measures, "predict", model("base"), environment={"ACCEL_CACHE_DIR": self.work})
        self.bad(1, "--db .*p.sqlite: No such file.*; accel bench MODEL --db FILE makes one", "predict", model("base"), "--db", self.db)
        self.measure("base", 8, ("--threads", "2"))
        self.bad(1, measures + " --device cpu --precision int8", "predict", model("base"), "--db", self.db, "--device", "cpu", "--precision", "int8")
        self.bad(1, "with 1 threads", "predict", "--db", self.db, "--threads", "1")
        self.bad(2, "--new goes with --task generate", "predict", model("base"), "--new", "3", "--db", self.db)
        self.bad(2, "--task: encode, generate or text-to-image", "predict", model("base"), "--task", "translate", "--db", self.db)
        # one model alone tells nothing of others: there is no interval
        (alone,) = self.good("predict", model("mask"), "--db", self.db)["predictions"]
        self.assertIsNone(alone["latency_ms"]["low"])
        # a model that does not decode
        (found,) = self.good("predict", model("base"), "--task", "generate", "--db", self.db)["predictions"]
        self.assertRegex(found["why"], "has no entry 'decode'")
        self.assertNotIn("latency_ms", found)


if __name__ == "__main__":
    unittest.main()
