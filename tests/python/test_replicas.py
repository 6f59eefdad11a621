"""--device all: the tool, the server and Python on several devices at once; the numbers are those of one device, and it is told who did what.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import re
import sys
import unittest

from sanitized import run_under_sanitizer
from serving import WITH_SERVER, Server
from test_cli import BUILD, FIXTURES, PIPELINES, ROOT, Case, run

LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

EMBEDDER = os.path.join(FIXTURES, "tasks", "st_mean")
WRITER = os.path.join(PIPELINES, "text")
BOTH = "all:cpu+reference"
WORDS = "the old cat sat on a mat Ada lives in London".split()
TEXTS = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 3 + i % 7)) for i in range(600)]


class Replicas(Case):
    def close(self, found, want):
        self.assertEqual(len(found), len(want))
        for a, b in zip(found, want):
            self.assertLess(max(abs(x - y) for x, y in zip(a, b)), 1e-4)

    def test_map(self):
        path = self.path("texts.txt", "".join(t + "\n" for t in TEXTS))
        found = {}
        for device in ("cpu", BOTH):
            out = self.path(device.replace(":", "_"))
            done = run("map", "--task", "embed", "--model", EMBEDDER, "--input", path, "--output", out, "--output-format", "jsonl", "--device", device, "--verbose", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out + "/part-00000.jsonl", encoding="utf-8") as f:
                found[device] = [json.loads(line) for line in f]
        self.assertEqual([r["row"] for r in found[BOTH]], list(range(len(TEXTS))))
        self.close([r["result"] for r in found[BOTH]], [r["result"] for r in found["cpu"]])
        report = json.loads(done.stdout)
        self.assertEqual((report["device"], [r["device"] for r in report["replicas"]]), (BOTH, ["cpu", "reference"]))
        self.assertEqual(sum(r["items"] for r in report["replicas"]), len(TEXTS))
        self.assertRegex(done.stderr, r"accel: cpu \(in\): \d+ items in \d+ runs, [0-9.]+ s; \d+ trials\n")

    def test_python(self):
        with accel.Model(EMBEDDER, device=BOTH) as model, accel.Model(EMBEDDER, device="cpu") as one:
            self.close(list(model.embed(TEXTS)), list(one.embed(TEXTS)))
            first, second = model.replicas
            self.assertEqual((first["device"], first["standing"], second["device"]), ("cpu", "in", "reference"))
            self.assertEqual(first["items"] + second["items"], len(TEXTS))
            self.assertEqual([(r["device"], r["runs"]) for r in one.replicas], [("cpu", 0)])
        with self.assertRaisesRegex(accel.AccelError, "all stands alone"):
            accel.Model(EMBEDDER, device="all,cpu")

    @unittest.skipUnless(WITH_SERVER, "built without libmicrohttpd")
    def test_server(self):
        server = Server(config={"models": [{"name": "e", "path": EMBEDDER, "device": BOTH}, {"name": "w", "path": WRITER, "device": BOTH}]})
        self.addCleanup(server.stop)
        found = server.post("/v1/embeddings", {"model": "e", "input": TEXTS[:40]}).json()["data"]
        with accel.Model(EMBEDDER, device="cpu") as one:
            self.close([d["embedding"] for d in found], list(one.embed(TEXTS[:40])))
        text = server.post("/v1/completions", {"model": "w", "prompt": "the old cat", "max_tokens": 5, "temperature": 0}).json()["choices"][0]["text"]
        with accel.Model(WRITER, device="cpu") as one:
            self.assertEqual(text, one.generate("the old cat", max_new_tokens=5, temperature=0)[0].text)
        metrics = server.get("/metrics").body.decode()
        items = {m: (d, int(n)) for m, d, n in re.findall(r'^accel_replica_items_total\{model="(\w)",device="(cpu)"\} (\d+)$', metrics, re.M)}
        self.assertEqual(items, {"e": ("cpu", 40), "w": ("cpu", 1)})
        self.assertIn('accel_replica_in{model="e",device="reference"} 0\n', metrics)


if __name__ == "__main__":
    unittest.main()
