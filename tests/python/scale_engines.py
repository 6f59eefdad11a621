"""accel.map over tables of pyarrow, and examples/scale: the vectors of Ray, Dask and Spark are those of one process, broken rows have their reason.
One worker of Ray is killed on the way.  Run by scripts/test-scale, in a venv that has these packages.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
MODEL = os.path.join(ROOT, "tests", "fixtures", "tasks", "st_mean")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
BINDINGS = os.path.join(ROOT, "src", "bindings", "python")
sys.path.insert(0, BINDINGS)
os.environ["PYTHONPATH"] = BINDINGS
import accel  # noqa: E402

WORDS = "the old cat sat on a mat Ada lives in London".split()
ROWS = [{"id": i, "text": " ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 3 + i % 7))} for i in range(300)]
ROWS[7]["text"] = None


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.expected = [(m.result, m.error) for m in accel.map("embed", MODEL, ROWS, load={"device": "cpu"})]

    def test_arrow(self):
        import pyarrow as pa
        import pyarrow.parquet as pq
        table = pa.Table.from_pylist(ROWS)
        found = accel.map("embed", MODEL, table, load={"device": "cpu"})
        self.assertEqual(found.column_names, ["id", "text", "result", "error"])
        self.assertEqual(list(zip(found["result"].to_pylist(), found["error"].to_pylist())), self.expected)
        with tempfile.TemporaryDirectory() as work, accel.Mapper("embed", MODEL, load={"device": "cpu"}) as mapper:
            pq.write_table(table, work + "/in.parquet", row_group_size=64)
            with pq.ParquetFile(work + "/in.parquet") as source:
                batches = [mapper(batch) for batch in source.iter_batches(100)]
            self.assertEqual([r for b in batches for r in b["result"].to_pylist()], [r for r, _ in self.expected])
            with self.assertRaisesRegex(KeyError, "no column 'text'"):
                mapper(pa.table({"body": ["a"]}))

    def test_pandas(self):
        import pandas as pd
        with accel.Mapper("embed", MODEL, load={"device": "cpu"}) as mapper:
            found = mapper(pd.DataFrame(ROWS))
        self.assertEqual(list(zip(found["result"], found["error"])), self.expected)

    def example(self, name):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "texts.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(row) + "\n" for row in ROWS)
            done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "scale", name), MODEL, path], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual([row["id"] for row in found], list(range(len(ROWS))))
        self.assertEqual([(row["result"], row["error"]) for row in found], self.expected)

    def test_ray(self):
        self.example("with_ray.py")

    def test_ray_serve(self):
        self.example("with_ray_serve.py")

    def test_ray_serve_refuses(self):
        import accel.ray_serve
        with self.assertRaisesRegex(ValueError, "unknown task 'embde'; one of embed"):
            accel.ray_serve.deployment("embde", MODEL)

    def test_dask(self):
        self.example("with_dask.py")

    def test_spark(self):
        self.example("with_spark.py")

    def test_ray_worker_killed(self):
        """An actor that kills its own process once; the rows are those of a run without that."""
        script = textwrap.dedent("""
            import json, os, signal, sys
            import ray
            import accel.ray
            class Dying(accel.ray.Actor):
                def __call__(self, batch):
                    mark = sys.argv[2]
                    if 130 in batch["id"] and not os.path.exists(mark):
                        open(mark, "w").close()
                        os.kill(os.getpid(), signal.SIGKILL)
                    return super().__call__(batch)
            rows = json.load(sys.stdin)
            ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
            ray.data.DataContext.get_current().enable_progress_bars = False
            found = ray.data.from_items(rows).map_batches(Dying, fn_constructor_args=("embed", sys.argv[1]), concurrency=2, num_cpus=1, batch_size=32)
            print(json.dumps(sorted((int(r["id"]), None if r["result"] is None else [float(x) for x in r["result"]]) for r in found.take_all())))
            """)
        with tempfile.TemporaryDirectory() as work:
            mark = os.path.join(work, "died")
            script = script.replace("sys.argv[2]", repr(mark))
            done = subprocess.run([sys.executable, "-c", script, MODEL], input=json.dumps(ROWS), capture_output=True, text=True, timeout=600)
            self.assertTrue(os.path.exists(mark), done.stderr[-3000:])
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[[")))
        self.assertEqual(found, [[row["id"], vector] for row, (vector, _) in zip(ROWS, self.expected)])


if __name__ == "__main__":
    unittest.main()
