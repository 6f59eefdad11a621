"""accel map: each task's rows against its sub-command, files of every kind, broken rows, and jobs that are killed, refused, shared and run out of disk.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

from test_cli import ACCEL, ENVIRONMENT, FIXTURES, PIPELINES, Case, model, read_safetensors, run

EMBEDDER = os.path.join(FIXTURES, "tasks", "st_mean")
RERANKER = os.path.join(FIXTURES, "tasks", "rerank_bert")
VIT = os.path.join(FIXTURES, "media", "vit")
PICTURES = [os.path.join(FIXTURES, "image", "pictures", name) for name in ("rgb.png", "turned_6.jpg")]
SOUNDS = [os.path.join(FIXTURES, "audio", "sounds", "s16.wav")] * 2
TEXTS = ["the old cat", "Ada lives in London.", "the quick brown fox jumps over the lazy dog", "a"]


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def tree(directory):
    """name -> bytes, but for locks."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if not name.startswith(".lock"):
            with open(os.path.join(directory, name), "rb") as f:
                found[name] = f.read()
    return found


class MapCase(Case):
    def map(self, task, directory, *arguments, output="out", **options):
        return run("map", "--task", task, "--model", directory, "--output", self.path(output), "--device", "cpu", "--quiet", *arguments, **options)

    def good_map(self, task, directory, *arguments, output="out", **options):
        done = self.map(task, directory, *arguments, output=output, **options)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def bad_map(self, code, pattern, task, directory, *arguments, output="out", **options):
        done = self.map(task, directory, *arguments, output=output, **options)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr, pattern)

    def results(self, output="out", shard=0):
        return [(r["row"], r["result"]) for r in lines(self.path(output) + f"/part-{shard:05}.jsonl")]

    def errors(self, output="out", shard=0):
        return [(e["row"], e["line"], e["error"]) for e in lines(self.path(output) + f"/part-{shard:05}.errors.jsonl")]

    def jsonl(self, rows, name="rows.jsonl"):
        return self.path(name, "".join(json.dumps(row) + "\n" for row in rows))


class Tasks(MapCase):
    """The result of a row is what the sub-command gives for it alone or beside the others."""

    def same(self, task, directory, rows, command, *options, command_options=()):
        self.good_map(task, directory, "--input", self.jsonl(rows), "--shard-rows", "100", *options)
        found = self.results()
        self.assertEqual([row for row, _ in found], list(range(len(rows))))
        expected = self.good(*command, "--device", "cpu", "--quiet", *options, *command_options)
        return [result for _, result in found], expected

    def test_texts(self):
        for task, name, texts, options in (("classify", model("classify"), TEXTS, ("--top-k", "2")), ("tokens", model("tokens"), TEXTS, ("--aggregation", "simple"))):
            with self.subTest(task):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                found, expected = self.same(task, name, [{"text": t} for t in texts], [task, name, *texts], *options)
                self.assertEqual(found, expected["results"])

    def test_pairs(self):
        rows = [{"text": "a cat", "text_pair": "a dog"}, {"text": "a cat"}, "Ada", {"text": "x", "text_pair": None}]
        self.good_map("classify", model("classify"), "--input", self.jsonl(rows))
        array = self.path("rows.json", json.dumps(rows))
        expected = self.good("classify", model("classify"), "--input", array, "--device", "cpu", "--quiet")["results"]
        self.assertEqual([r for _, r in self.results()], expected)

    def test_embed(self):
        path = self.path("t.txt", "\n".join(TEXTS) + "\n")
        expected = self.good("embed", EMBEDDER, *TEXTS, "--device", "cpu", "--quiet")["embeddings"]
        self.good_map("embed", EMBEDDER, "--input", path, "--output-format", "jsonl")
        self.assertEqual([r for _, r in self.results()], expected)
        self.good_map("embed", EMBEDDER, path, output="tensors")  # operands are files of rows, too
        tensors = read_safetensors(self.path("tensors") + "/part-00000.safetensors")
        dtype, shape, data = tensors["embeddings"]
        self.assertEqual((dtype, shape), ("F32", [4, len(expected[0])]))
        self.assertEqual(data, b"".join(struct.pack(f"<{len(v)}f", *v) for v in expected))
        self.assertEqual(tensors["rows"][2], struct.pack("<4q", 0, 1, 2, 3))

    def test_embed_per_token(self):
        self.good_map("embed", EMBEDDER, "--input", self.jsonl(TEXTS), "--pooling", "none", "--shard-rows", "3")
        expected = self.good("embed", EMBEDDER, *TEXTS, "--pooling", "none", "--device", "cpu", "--quiet")["embeddings"]
        first, second = (read_safetensors(self.path("out") + f"/part-0000{i}.safetensors") for i in (0, 1))
        self.assertEqual(first["row_start"][2], struct.pack("<3q", 0, len(expected[0]), len(expected[0]) + len(expected[1])))
        self.assertEqual(second["rows"][2], struct.pack("<q", 3))
        self.assertEqual(second["embeddings"][1][0], len(expected[3]))

    def test_questions_and_masks(self):
        rows = [{"question": "Where does Ada live?", "context": "Ada lives in London."}, {"question": "Who?", "context": "The fox jumps."}]
        self.good_map("qa", model("qa"), "--input", self.jsonl(rows), "--top-k", "2")
        expected = self.good("qa", model("qa"), "--input", self.path("rows.json", json.dumps(rows)), "--top-k", "2", "--device", "cpu", "--quiet")["results"]
        self.assertEqual([r for _, r in self.results()], expected)
        texts = ["the [MASK] sat on the mat", "no mask here", "[MASK] and [MASK]"]
        self.good_map("fill-mask", model("mask"), "--input", self.jsonl(texts), "--top-k", "2", output="masks")
        expected = self.good("fill-mask", model("mask"), texts[0], texts[2], "--top-k", "2", "--device", "cpu", "--quiet")["results"]
        fills = [r["fills"] for r in expected]
        self.assertEqual(self.results("masks"), [(0, fills[:1]), (2, fills[1:])])
        ((row, line, why),) = self.errors("masks")
        self.assertEqual((row, line), (1, 2))
        self.assertIn("mask", why)

    def test_rerank(self):
        documents = ["Ada lives in London.", "The fox jumps.", "a cat"]
        rows = [{"query": "Where does Ada live?", "document": d} for d in documents] + [{"query": "who jumps", "document": documents[1]}]
        self.good_map("rerank", RERANKER, "--input", self.jsonl(rows))
        for query, first, n in ((rows[0]["query"], 0, 3), (rows[3]["query"], 3, 1)):
            ranked = self.good("rerank", RERANKER, query, *(r["document"] for r in rows[first:first + n]), "--device", "cpu", "--quiet")["results"]
            scores = [r["score"] for r in sorted(ranked, key=lambda r: r["document"])]
            self.assertEqual([r for _, r in self.results()][first:first + n], scores)

    def test_generation(self):
        for task, name, options in (("generate", "text", ("--max-new-tokens", "5")), ("generate", "text", ("--max-new-tokens", "4", "--temperature", "0.8", "--seed", "3")),
                                    ("translate", "t5", ("--from", "en", "--to", "de", "--max-new-tokens", "5")), ("summarize", "bart", ("--max-new-tokens", "5"))):
            with self.subTest(task):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                found, expected = self.same(task, model(name), TEXTS[:3], [task, model(name), *TEXTS[:3]], *options)
                self.assertEqual([[(g["text"], g["finish"]) for g in row] for row in found], [[(g["text"], g["finish"])] for g in expected["results"]])

    def test_zero_shot(self):
        nli = model("nli")
        found, expected = self.same("zero-shot", nli, TEXTS[:3], ["zero-shot", nli, *TEXTS[:3]], "--labels", "cat,london,bank", "--multi-label")
        self.assertEqual(found, expected["results"])
        self.assertEqual({label["label"] for row in found for label in row}, {"cat", "london", "bank"})

    def test_files(self):
        for task, directory, column, files, command, options in (
                ("classify-images", VIT, "image", PICTURES, ["classify", VIT, "--image", PICTURES[0], "--image", PICTURES[1]], ("--top-k", "2")),
                ("audio-classify", os.path.join(FIXTURES, "media", "ast"), "audio", SOUNDS, ["audio-classify", os.path.join(FIXTURES, "media", "ast"), *SOUNDS], ()),
                ("detect-objects", os.path.join(FIXTURES, "media", "detr"), "image", PICTURES, ["detect-objects", os.path.join(FIXTURES, "media", "detr"), *PICTURES], ("--threshold", "0.3")),
                ("segment", os.path.join(FIXTURES, "seeing", "segformer"), "image", PICTURES, ["segment", os.path.join(FIXTURES, "seeing", "segformer"), *PICTURES], ()),
                ("image-features", os.path.join(FIXTURES, "features", "dinov2"), "image", PICTURES, ["image-features", os.path.join(FIXTURES, "features", "dinov2"), *PICTURES], ("--pool",)),
                ("zero-shot-image", os.path.join(FIXTURES, "media", "clip"), "image", PICTURES, ["zero-shot-image", os.path.join(FIXTURES, "media", "clip"), *PICTURES], ("--labels", "cat,dog")),
                ("zero-shot-audio", os.path.join(FIXTURES, "media", "clap"), "audio", SOUNDS, ["zero-shot-audio", os.path.join(FIXTURES, "media", "clap"), *SOUNDS], ("--labels", "cat,dog")),
                ("transcribe", os.path.join(FIXTURES, "media", "wav2vec2"), "audio", SOUNDS, ["transcribe", os.path.join(FIXTURES, "media", "wav2vec2"), *SOUNDS], ("--timestamps", "word"))):
            with self.subTest(task):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                found, expected = self.same(task, directory, [{column: f} for f in files], command, *options)
                self.assertEqual(found, expected["results"])

    def test_documents(self):
        layout, donut = (os.path.join(FIXTURES, "seeing", name) for name in ("layoutlmv3_qa", "donut"))
        words = [["Total:", [20, 40, 90, 75]], ["31.50", [110, 40, 180, 75]]]
        rows = [{"question": "What is the total?", "word_boxes": words}, {"question": "Who?"}, {"question": "Who?", "word_boxes": "[[\"a\", [1, 2, 3]]]"},
                {"question": "Who?", "word_boxes": words[:1] + [["b", [1, 2, 3]]]}, {"question": "Who?", "word_boxes": words, "image": None}]
        self.good_map("document-qa", layout, "--input", self.jsonl(rows), "--top-k", "2")
        boxes = self.path("words.json", json.dumps(words))
        expected = [self.good("document-qa", layout, r["question"], "--word-boxes", boxes, "--top-k", "2", "--device", "cpu", "--quiet")["results"][0] for r in (rows[0], rows[4])]
        self.assertEqual(self.results(), list(zip((0, 4), expected)))
        self.assertEqual([e[:2] for e in self.errors()], [(1, 2), (2, 3), (3, 4)])
        for (_, _, why), said in zip(self.errors(), ("no OCR engine", "field 'word_boxes' is no list", "word_boxes: entry 1 must be")):
            self.assertIn(said, why)
        table = 'asked,words\n"What is the total?","' + json.dumps(words).replace('"', '""') + '"\nWho?,[1\n'
        self.good_map("document-qa", layout, "--input", self.path("t.csv", table), "--top-k", "2", "--column", "asked", "--column", "image", "--column", "words", output="csv")
        self.assertEqual(self.results("csv"), [(0, expected[0])])
        self.assertIn("word_boxes: no valid JSON", self.errors("csv")[0][2])
        self.good_map("document-qa", donut, "--input", self.jsonl([{"question": "What is red?", "image": PICTURES[0]}]), "--max-new-tokens", "4", output="pages")
        expected = self.good("document-qa", donut, "What is red?", "--image", PICTURES[0], "--max-new-tokens", "4", "--device", "cpu", "--quiet")["results"]
        self.assertEqual([r for _, r in self.results("pages")], expected)

    def test_pictures_to_texts(self):
        blip, llava = (os.path.join(FIXTURES, "seeing", name) for name in ("blip_caption", "llava"))
        self.good_map("caption", blip, "--input", self.path("p.txt", "\n".join(PICTURES)), "--max-new-tokens", "4")
        expected = self.good("caption", blip, *PICTURES, "--max-new-tokens", "4", "--device", "cpu", "--quiet")["results"]
        self.assertEqual([r[0]["text"] for _, r in self.results()], [g["text"] for g in expected])
        question = "what is this ?"
        self.good_map("vqa", llava, "--input", self.jsonl([{"image": PICTURES[0], "question": question}]), "--max-new-tokens", "4", output="answers")
        expected = self.good("vqa", llava, "--image", PICTURES[0], question, "--max-new-tokens", "4", "--device", "cpu", "--quiet")["results"]
        self.assertEqual(self.results("answers")[0][1][0]["text"], expected[0]["text"])


class Inputs(MapCase):
    def texts(self, output="out"):
        """The texts that were read: a tokenizer of characters would be needed to get them back, so their vectors are compared."""
        return [v for _, v in self.results(output)]

    def vectors(self, *texts):
        return self.good("embed", EMBEDDER, *texts, "--device", "cpu", "--quiet")["embeddings"]

    def embed(self, path, *options, output="out"):
        self.good_map("embed", EMBEDDER, "--input", path, "--output-format", "jsonl", *options, output=output)

    def test_csv(self):
        content = b'\xef\xbb\xbfid,text\r\n1,"a ""cat"", a dog"\r\n\r\n2,"the old\r\ncat"\r\n3,5" wide\r\n4,""\r\n'
        self.embed(self.path("t.csv", content))
        self.assertEqual(self.texts(), self.vectors('a "cat", a dog', "the old\r\ncat", '5" wide', ""))
        self.embed(self.path("t.tsv", b'text\tid\na, b\t1\nlast\t2'), output="tsv")
        self.assertEqual(self.texts("tsv"), self.vectors("a, b", "last"))
        self.embed(self.path("named", b"id,body\n1,a cat\n"), "--input-format", "csv", "--column", "body", output="named_out")
        self.assertEqual(self.texts("named_out"), self.vectors("a cat"))

    def test_csv_headings(self):
        self.bad_map(1, r"the heading has 'text' twice", "embed", EMBEDDER, "--input", self.path("t.csv", "text,id,text\na,1,b\n"))
        self.bad_map(1, r"no column 'text'; it has 'id', 'body'; say which with --column", "embed", EMBEDDER, "--input", self.path("u.csv", "id,body\n1,a\n"))
        self.bad_map(1, r"no column 'document'", "rerank", RERANKER, "--input", self.path("v.csv", "query,text\n1,a\n"))

    def test_broken_csv(self):
        self.embed(self.path("t.csv", 'id,text\n1,a cat\n2\n3,a,b\n4,a\0b\n5,the old cat\n6,"never closed\n7,x\n'))
        self.assertEqual([row for row, _ in self.results()], [0, 4])
        self.assertEqual(self.texts(), self.vectors("a cat", "the old cat"))
        self.assertEqual(self.errors(), [(1, 3, "1 fields, the heading has 2"), (2, 4, "3 fields, the heading has 2"), (3, 5, "byte 3 is NUL; this is no text"),
                                         (5, 7, "a quote is never closed")])

    def test_broken_json(self):
        rows = ['{"text": "a cat"}', "", "{", '{"body": "x"}', '{"text": 3}', '{"text": "a", "text": "b"}', "[1]", '"plain"', '{"text": "nul\\u0000 here"}', '{"text": "x"} y']
        self.embed(self.path("t.jsonl", "\r\n".join(rows)))
        self.assertEqual([row for row, _ in self.results()], [0, 6, 7])
        found = self.errors()
        self.assertEqual([(row, line) for row, line, _ in found], [(1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (8, 10)])
        for (_, _, why), pattern in zip(found, ("no valid JSON", "'text' is missing", "is no string", "there twice", "neither an object", "no valid JSON")):
            self.assertRegex(why, pattern)

    def test_text(self):
        self.embed(self.path("t.txt", b"\xef\xbb\xbfa cat\r\n\r\nthe old cat"))
        self.assertEqual(self.texts(), self.vectors("a cat", "", "the old cat"))
        self.bad_map(1, "is UTF-16; make it UTF-8", "embed", EMBEDDER, "--input", self.path("u.txt", "a".encode("utf-16")))
        self.bad_map(2, "a line of text is one field, --task rerank takes 'query' and 'document'", "rerank", RERANKER, "--input", self.path("v.txt", "a\n"))
        self.bad_map(1, "no regular file", "embed", EMBEDDER, "--input", "/dev/null")

    def test_huge_line(self):
        with open(self.path("t.txt"), "wb") as f:
            f.write(b"a cat\n" + b"x" * ((64 << 20) + 1) + b"\nthe old cat\n")
        self.embed(self.path("t.txt"))
        self.assertEqual(self.texts(), self.vectors("a cat", "the old cat"))
        self.assertEqual(self.errors(), [(1, 2, "longer than 64 MiB, which is the most of a row")])

    def test_empty_and_several_files(self):
        empty, one, two = self.path("empty.jsonl", ""), self.path("one.csv", "text\na cat\nx\n"), self.path("two.txt", "the old cat\n")
        self.good_map("embed", EMBEDDER, "--input", empty, output="none")
        with open(self.path("none") + "/manifest.json", encoding="utf-8") as f:
            manifest = json.load(f)
        self.assertEqual((manifest["rows"], manifest["parts"], manifest["finished"]), (0, [], True))
        self.embed(one, "--input", empty, two, "--shard-rows", "2")
        self.assertEqual([row for row, _ in self.results()] + [row for row, _ in self.results(shard=1)], [0, 1, 2])
        self.assertEqual([v for shard in (0, 1) for _, v in self.results(shard=shard)], self.vectors("a cat", "x", "the old cat"))
        self.embed(self.path("heading.csv", "text\n"), output="heading")
        self.bad_map(1, "No such file", "embed", EMBEDDER, "--input", self.path("absent"))

    def test_a_shard_without_good_rows(self):
        self.good_map("embed", EMBEDDER, "--input", self.path("t.jsonl", '"a cat"\n{\n'), "--shard-rows", "1")
        self.assertEqual(read_safetensors(self.path("out") + "/part-00001.safetensors")["rows"][1], [0])

    def test_usage(self):
        rows = self.path("t.txt", "a\n")
        self.bad_map(2, "unknown task 'tokenz'; did you mean 'tokens'", "tokenz", EMBEDDER, rows)
        self.bad_map(2, "--top-k is not an option of --task embed", "embed", EMBEDDER, rows, "--top-k", "3")
        self.bad_map(2, "--shard takes I/N", "embed", EMBEDDER, rows, "--shard", "3/3")
        self.bad_map(2, "safetensors is for --task embed", "classify", model("classify"), rows, "--output-format", "safetensors")
        self.bad_map(2, "--column is there 2 times; a row of --task embed has 1 field", "embed", EMBEDDER, rows, "--column", "a", "--column", "b")
        self.bad(2, "which task.*embed, classify", "map", "--model", "m", rows)
        self.bad(2, "which model", "map", "--task", "embed", rows)
        self.bad(2, "where to", "map", "--task", "embed", "--model", "m", rows)
        self.bad(2, "no rows", "map", "--task", "embed", "--model", "m", "--output", self.path("o"))


class Failing(MapCase):
    def test_rows_that_fail(self):
        absent, text = self.path("absent.png"), self.path("text.png", "no picture")
        names = [PICTURES[0], absent, PICTURES[1], PICTURES[0], text]
        self.good_map("classify-images", VIT, self.path("p.txt", "\n".join(names)))
        self.assertEqual([row for row, _ in self.results()], [0, 2, 3])
        found = self.errors()
        self.assertEqual([(row, line) for row, line, _ in found], [(1, 2), (4, 5)])
        self.assertIn("absent.png", found[0][2])

    def test_prompts_that_fail(self):
        self.good_map("generate", model("text"), self.jsonl(["a cat", "x " * 5000, "the fox"]), "--max-new-tokens", "3")
        self.assertEqual([row for row, _ in self.results()], [0, 2])
        self.assertEqual([row for row, _, _ in self.errors()], [1])

    def test_all_fail(self):
        rows = self.jsonl([{"query": "a", "document": "b"}] * 3)
        self.bad_map(2, r"all of the first 3 rows failed, the first \(.*rows.jsonl, line 1\) by this: ", "rerank", model("tokens"), "--input", rows)
        self.assertEqual([n for n in os.listdir(self.path("out")) if n.startswith("part")], [])


class Jobs(MapCase):
    def rows(self, n, name="rows.txt"):
        draw = random.Random(5)
        return self.path(name, "".join(" ".join(draw.choices("the old cat sat on a mat Ada lives in London".split(), k=draw.randint(1, 12))) + "\n" for _ in range(n)))

    def start(self, *arguments, **options):
        command = [ACCEL, "map", "--task", "embed", "--model", EMBEDDER, "--device", "cpu", "--quiet", "--threads", "1", "--shard-rows", "40", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **{"env": ENVIRONMENT, **options})

    def finish(self, *arguments, **options):
        process = self.start(*arguments, **options)
        _, errors = process.communicate(timeout=120)
        return process.returncode, errors

    def wait_for(self, path):
        for _ in range(2000):
            if os.path.exists(path):
                return
            time.sleep(0.002)
        self.fail(path + " did not appear")

    def test_killed(self):
        for options in (("--output-format", "jsonl"), ()):
            rows, whole, torn = self.rows(2000), self.path("whole"), self.path("torn")
            for directory in (whole, torn):
                shutil.rmtree(directory, ignore_errors=True)
            begin = time.monotonic()
            self.assertEqual(self.finish("--output", whole, rows, *options), (0, ""))
            seconds = time.monotonic() - begin  # on a fast machine a tenth
            draw, killed, parts = random.Random(7), 0, set()
            for _ in range(20):
                process = self.start("--output", torn, rows, *options)
                try:
                    process.communicate(timeout=seconds * draw.uniform(0.1, 0.6))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    killed += process.returncode == -signal.SIGKILL
                if os.path.isdir(torn):
                    parts.add(len([n for n in os.listdir(torn) if n.startswith("part-") and not n.endswith(".tmp")]))
            self.assertGreater(killed, 0)
            self.assertEqual(self.finish("--output", torn, rows, *options), (0, ""))
            found = {name: data for name, data in tree(torn).items() if not name.endswith(".tmp")}
            self.assertEqual(found, tree(whole))
            self.assertEqual(len(found), 51)

    def test_resumed_where_it_was(self):
        rows, out = self.rows(400), self.path("out")
        process = self.start("--output", out, rows)
        self.wait_for(out + "/part-00000.safetensors")
        process.kill()
        process.communicate()
        before = os.stat(out + "/part-00000.safetensors")
        self.assertEqual(self.finish("--output", out, rows)[0], 0)
        after = os.stat(out + "/part-00000.safetensors")
        self.assertEqual((before.st_ino, before.st_mtime_ns), (after.st_ino, after.st_mtime_ns))
        done = run("map", "--task", "embed", "--model", EMBEDDER, "--device", "cpu", "--threads", "1", "--shard-rows", "40", "--output", out, rows)
        self.assertRegex(done.stderr, "400 were there")

    def test_another_model_of_the_same_name(self):
        rows, out, cache = self.rows(80), self.path("out"), self.path("cache")
        copy = os.path.join(cache, "models", "org", "name")
        shutil.copytree(EMBEDDER, copy)
        environment = dict(ENVIRONMENT, ACCEL_CACHE_DIR=cache)
        self.assertEqual(self.finish("--output", out, "--model", "org/name", rows, env=environment), (0, ""))
        with open(copy + "/config.json", "a", encoding="utf-8") as f:
            f.write(" ")
        self.assertRegex(self.finish("--output", out, "--model", "org/name", rows, env=environment)[1], "another model_files")

    def test_other_jobs_are_refused(self):
        rows, out = self.rows(80), self.path("out")
        copy = self.path("model")
        shutil.copytree(EMBEDDER, copy)
        self.assertEqual(self.finish("--output", out, "--model", copy, rows), (0, ""))
        for pattern, arguments in ((r"another --prompt: none, now it is \"x\"", ("--prompt", "x")), ("another results", ("--output-format", "jsonl")), ("another shard_rows: 40, now it is 41", ("--shard-rows", "41")),
                                   ("another processes", ("--shard", "0/2")), ("another placement: .*fp32.*now it is .*bf16", ("--precision", "bf16")), ("another model", ("--model", EMBEDDER)), ("another columns", ("--column", "y"))):
            code, errors = self.finish("--output", out, "--model", copy, rows, *arguments)
            self.assertEqual(code, 2, errors)
            self.assertRegex(errors, pattern + ".*another --output")
        with open(rows, "a", encoding="utf-8") as f:
            f.write("more\n")
        self.assertRegex(self.finish("--output", out, "--model", copy, rows)[1], "another input")
        self.rows(80)
        with open(copy + "/config.json", "a", encoding="utf-8") as f:
            f.write(" ")
        self.assertRegex(self.finish("--output", out, "--model", copy, rows)[1], "another model_files")
        os.unlink(out + "/manifest.json")
        self.assertRegex(self.finish("--output", out, "--model", copy, rows)[1], "part-00000.safetensors is there, but no manifest.json")
        os.mkdir(self.path("other"))
        self.path("other/manifest.json", "{}")
        self.assertRegex(self.finish("--output", self.path("other"), rows)[1], "no manifest of accel map")

    def test_input_that_changes_meanwhile(self):
        rows, out = self.rows(4000), self.path("out")
        process = self.start("--output", out, rows)
        self.wait_for(out + "/part-00000.safetensors")
        with open(rows, "a", encoding="utf-8") as f:
            f.write("more\n")
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors, "was written while it was read")

    def test_disk_full(self):
        rows, out, whole = self.rows(200), self.path("out"), self.path("whole")
        options = ("--output-format", "jsonl", "--pooling", "none")

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        code, errors = self.finish("--output", out, rows, *options, preexec_fn=small_files, restore_signals=False)
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"part-00000.jsonl.0.tmp: cannot write: File too large; make room and run the same command again")
        self.assertEqual(sorted(tree(out)), ["manifest.json"])
        self.assertEqual((self.finish("--output", out, rows, *options), self.finish("--output", whole, rows, *options)), ((0, ""), (0, "")))
        self.assertEqual(tree(out), tree(whole))
        done = run("map", "--task", "embed", "--model", EMBEDDER, "--device", "cpu", "--output", self.path("tensors"), rows, environment={"ACCEL_FAIL_AT": "disk_full"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "No space left")

    def test_shared(self):
        rows, whole, shared = self.rows(300), self.path("whole"), self.path("shared")
        self.assertEqual(self.finish("--output", whole, rows), (0, ""))
        processes = [self.start("--output", shared, rows, "--shard", f"{i}/3") for i in range(3)]
        for process in processes:
            _, errors = process.communicate(timeout=120)
            self.assertEqual((process.returncode, errors), (0, ""))
        found, expected = tree(shared), tree(whole)
        with open(shared + "/manifest.json", encoding="utf-8") as f:
            manifest = json.load(f)
        self.assertEqual((manifest["finished"], len(manifest["parts"])), (True, 8))
        self.assertEqual({n: d for n, d in found.items() if n != "manifest.json"}, {n: d for n, d in expected.items() if n != "manifest.json"})

    def test_two_at_once(self):
        rows, out = self.rows(6000), self.path("out")
        process = self.start("--output", out, rows)
        self.wait_for(out + "/part-00000.safetensors")
        code, errors = self.finish("--output", out, rows)
        process.kill()
        process.communicate()
        self.assertEqual(code, 2)
        self.assertRegex(errors, "another process works on this job")

    def test_interrupted(self):
        rows, out = self.rows(6000), self.path("out")
        process = self.start("--output", out, rows)
        self.wait_for(out + "/part-00000.safetensors")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual([n for n in os.listdir(out) if n.endswith(".tmp")], [])

    def test_progress_and_json(self):
        result = self.good("map", "--task", "embed", "--model", EMBEDDER, "--device", "cpu", "--output", self.path("out"), self.path("t.jsonl", '"a cat"\n{\n'))
        self.assertEqual((result["rows"], result["failed"], result["new_rows"], result["device"]), (2, 1, 2, "cpu"))


if __name__ == "__main__":
    unittest.main()
