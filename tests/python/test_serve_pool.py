"""Models of `accel serve` that share a limit of memory: loaded when they are asked for, unloaded for others, with the answers that they give without one."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import tempfile
import unittest

from serving import SENTENCE, TEXT, WITH_SERVER, Server

LOAD = "700K"  # one of the generators, whose planned load takes 682 KiB, and not two
MODELS = [{"name": "wide", "path": TEXT}, {"name": "narrow", "path": TEXT, "precision": "int8"}, {"name": "sentences", "path": SENTENCE}]


def metric(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.get("/metrics").body.decode(), re.M).group(1))


def ask(server, name, **more):
    if name == "sentences":
        return server.post("/v1/embeddings", {"model": name, "input": ["a text"]})
    return server.post("/v1/completions", {"model": name, "prompt": "Once upon", "max_tokens": 8, "temperature": 0, **more})


def content(answer):
    found = answer.json()
    return [d["embedding"] for d in found["data"]] if "data" in found else found["choices"][0]["text"]


@unittest.skipUnless(WITH_SERVER, "built without libmicrohttpd")
class Pool(unittest.TestCase):
    def start(self, environment=None, **config):
        server = Server(config={"models": MODELS, **config}, environment=environment)
        self.addCleanup(server.stop)
        return server

    def test_models_share_memory(self):
        """Three models where one fits, from eight threads at once: all answers are those of a server that keeps all."""
        kept = self.start()
        want = {m["name"]: content(ask(kept, m["name"])) for m in MODELS}
        self.assertNotEqual(want["wide"], "")
        self.assertEqual((metric(kept, "accel_models_loaded"), metric(kept, "accel_model_evictions_total"), metric(kept, "accel_models_limit_bytes")), (3, 0, 0))
        server = self.start(pool_memory=LOAD)
        names = [m["name"] for m in MODELS] * 8
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            for name, answer in zip(names, threads.map(lambda name: ask(server, name), names)):
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual(content(answer), want[name], name)
        self.assertGreater(metric(server, "accel_model_evictions_total"), 2)
        self.assertGreater(metric(server, "accel_model_loads_total"), 3)
        self.assertEqual(metric(server, "accel_models_limit_bytes"), 700 << 10)
        # tables of tokenizers, 32 KiB, come on top of what is planned, which is what counts at most where measuring is disturbed
        self.assertLessEqual(metric(server, "accel_models_bytes"), 732 << 10)
        listed = {m["id"]: m["task"] for m in server.get("/v1/models").json()["data"]}
        self.assertEqual(listed, {"wide": "text-generation", "narrow": "text-generation", "sentences": "feature-extraction"})

    def test_what_is_in_use_stays(self):
        """A request whose model has no room waits, then is told to come again; the one that runs is not harmed."""
        server = self.start(models=MODELS[:2], pool_memory=LOAD, pool_wait=1, environment={"ACCEL_STREAM_WEIGHTS": "1", "ACCEL_FAIL_AT": "read_slow"})
        body = json.dumps({"model": "wide", "prompt": "Once upon", "max_tokens": 40, "ignore_eos": True, "stream": True})
        holder = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self.addCleanup(holder.close)
        holder.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        held = holder.getresponse()
        self.assertTrue(held.readline().startswith(b"data: "))  # it runs
        answer = ask(server, "narrow", max_tokens=1)
        self.assertTrue(held.read().rstrip().endswith(b"[DONE]"))
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "5"), answer)
        self.assertEqual(answer.json()["error"]["code"], "no_memory")
        self.assertEqual(ask(server, "narrow", max_tokens=1).status, 200)

    def test_a_model_that_cannot_be_loaded_again(self):
        """Its files went away or broke after the start: that is the server's fault, whose log alone says where they lie; the other model goes on."""
        def broken(place):
            with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as f:
                f.write("{")

        for spoil in (shutil.rmtree, broken):
            with self.subTest(spoil.__name__), tempfile.TemporaryDirectory() as folder:
                place = os.path.join(folder, "moved")
                shutil.copytree(TEXT, place)
                server = self.start(models=[{"name": "gone", "path": place}, MODELS[1]], pool_memory=LOAD)
                spoil(place)
                answer = ask(server, "gone")
                self.assertEqual(answer.status, 500, answer)
                self.assertNotIn(place, answer.body.decode())
                server.wait_for(re.escape(place), 10)
                self.assertEqual(ask(server, "narrow").status, 200)

    def test_pinned(self):
        """A pinned model is not unloaded; a model that has no room beside it is refused at the start, with the figures."""
        models = [dict(MODELS[0], pinned=True), *MODELS[1:]]
        with self.assertRaisesRegex(AssertionError, "narrow: .*MiB"):
            Server(config={"models": models, "pool_memory": "900K"})

    def test_two_tasks_of_one_model(self):
        """Text and vectors of the same files: one model in memory, the vectors those of the base class."""
        both = [{"name": "chat", "path": TEXT}, {"name": "vectors", "path": TEXT, "task": "feature-extraction"}]
        server = self.start(models=both)
        self.assertEqual(metric(server, "accel_models_loaded"), 1)
        alone = self.start(models=both[1:])
        body = {"model": "vectors", "input": ["a text"], "pooling": "mean"}
        self.assertEqual(content(server.post("/v1/embeddings", body)), content(alone.post("/v1/embeddings", body)))
        self.assertEqual(server.post("/v1/completions", {"model": "chat", "prompt": "a", "max_tokens": 2}).status, 200)


if __name__ == "__main__":
    unittest.main()
