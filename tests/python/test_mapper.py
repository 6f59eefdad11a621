"""accel.map() and accel.Mapper: rows, batches, and rows that fail.  pyarrow, pandas, Ray, Dask and Spark: scripts/test-scale.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import os
import sys
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

TEXTS = ["the old cat", "Ada lives in London.", "the quick brown fox", "a"]
PICTURE = os.path.join(FIXTURES, "image", "pictures", "rgb.png")
CPU = {"device": "cpu"}


def fixture(*names):
    return os.path.join(FIXTURES, *names)


class Rows(unittest.TestCase):
    def mapped(self, task, model, rows, *arguments, **options):
        return list(accel.map(task, model, rows, *arguments, load=CPU, **options))

    def test_embed(self):
        with accel.Model(fixture("tasks", "st_mean"), **CPU) as model:
            expected = [list(v) if isinstance(v, list) else v.tolist() for v in model.embed(TEXTS)]
            found = list(accel.map("embed", model, TEXTS, window=3))
            self.assertEqual([(m.row, m.error) for m in found], [(t, None) for t in TEXTS])
            self.assertEqual([m.result for m in found], expected)
            self.assertEqual(len(model.embed(["it is still open"])), 1)

    def test_is_lazy(self):
        read = []

        def rows():
            for text in TEXTS:
                read.append(text)
                yield text
        found = accel.map("embed", fixture("tasks", "st_mean"), rows(), window=2, load=CPU)
        next(found)
        self.assertEqual(len(read), 2)
        found.close()

    def test_classify_pairs(self):
        rows = [{"body": "a cat", "other": "a dog"}, {"body": "a cat"}]
        found = self.mapped("classify", fixture("pipelines", "classify"), rows, ("body", "other"), top_k=2)
        with accel.Model(fixture("pipelines", "classify"), **CPU) as model:
            self.assertEqual([m.result for m in found], list(model.classify(["a cat"] * 2, ["a dog", None], top_k=2)))

    def test_other_tasks(self):
        with accel.Model(fixture("pipelines", "qa"), **CPU) as model:
            rows = [{"question": "Where does Ada live?", "context": "Ada lives in London."}]
            self.assertEqual(list(accel.map("qa", model, rows))[0].result, model.answer([rows[0]["question"]], [rows[0]["context"]])[0])
        with accel.Model(fixture("tasks", "rerank_bert"), **CPU) as model:
            rows = [{"query": "who", "document": "Ada"}, {"query": "who", "document": "the fox"}, {"query": "what", "document": "the fox"}]
            ranked = {r["corpus_id"]: r["score"] for r in model.rerank("who", ["Ada", "the fox"])}
            self.assertEqual([m.result for m in accel.map("rerank", model, rows)], [ranked[0], ranked[1], model.rerank("what", ["the fox"])[0]["score"]])
        with accel.Model(fixture("pipelines", "text"), **CPU) as model:
            self.assertEqual([m.result for m in accel.map("generate", model, TEXTS[:2], max_new_tokens=4)], [g.text for g in model.generate(TEXTS[:2], max_new_tokens=4)])
        with accel.Model(fixture("pipelines", "mask"), **CPU) as model:
            found = list(accel.map("fill-mask", model, ["the [MASK] sat", "none", 3, {"body": "x"}]))
            self.assertEqual(found[0].result, model.fill_mask(["the [MASK] sat"])[0])
            self.assertIsNone(found[1].result)
            self.assertRegex(found[1].error, "mask")
            self.assertEqual([m.error for m in found[2:]], ["field 'text' is no text", "field 'text' is missing"])

    def test_pictures(self):
        with open(PICTURE, "rb") as f:
            rows = [{"image": PICTURE}, {"image": "/absent.png"}, {"image": f.read()}]
        found = self.mapped("classify-images", fixture("media", "vit"), rows, top_k=2)
        self.assertEqual(found[0].result, found[2].result)
        self.assertRegex(found[1].error, "absent.png")
        caption = self.mapped("caption", fixture("seeing", "blip_caption"), [PICTURE], max_new_tokens=4)
        answer = self.mapped("vqa", fixture("seeing", "blip_vqa"), [{"image": PICTURE, "question": "what is it?"}], max_new_tokens=4)
        self.assertEqual([type(m.result) for m in caption + answer], [str, str])

    def test_documents(self):
        words = [("Total:", (20, 40, 90, 75)), ("31.50", (110, 40, 180, 75))]
        rows = [{"question": "What is the total?", "word_boxes": words}, {"question": "Who?"}, {"word_boxes": words}]
        with accel.Model(fixture("seeing", "layoutlmv3_qa"), **CPU) as model:
            found = list(accel.map("document-qa", model, rows, top_k=2))
            self.assertEqual(found[0].result, model.answer_documents(rows[:1], top_k=2)[0])
        self.assertRegex(found[1].error, "no OCR engine")
        self.assertEqual(found[2].error, "field 'question' is missing")

    def test_arguments(self):
        with self.assertRaisesRegex(ValueError, "unknown task 'sing'; one of embed"):
            accel.map("sing", "m", [])
        with self.assertRaisesRegex(ValueError, "a row of embed has 1 fields, not 2"):
            accel.Mapper("embed", "m", ["a", "b"])
        with self.assertRaisesRegex(TypeError, "nor a DataFrame: list"), accel.Mapper("embed", fixture("tasks", "st_mean"), load=CPU) as mapper:
            mapper(["a"])


class Batches(unittest.TestCase):
    def test_dict(self):
        with accel.Mapper("embed", fixture("tasks", "st_mean"), "body", result="vector", error="why", load=CPU) as mapper:
            batch = mapper({"id": [1, 2, 3], "body": ["a cat", None, "the old cat"]})
            self.assertEqual(sorted(batch), ["body", "id", "vector", "why"])
            self.assertEqual(list(batch["why"]), [None, "field 'body' is missing", None])
            self.assertEqual([batch["vector"][0], batch["vector"][2]], [m.result for m in mapper.rows(["a cat", "the old cat"])])
            self.assertIsNone(batch["vector"][1])
            with self.assertRaisesRegex(KeyError, "no column 'body'; say which with column="):
                mapper({"text": ["a cat"]})


if __name__ == "__main__":
    unittest.main()
