"""Documents against what transformers' pipeline gave for the same pages (tests/fixtures/seeing, made by tests/goldens/make_document_goldens.py), through the accel tool
and the Python package.
"""
import json
import os
import sys
import tempfile
import unittest

from test_tasks import BUILD, DEVICES, ROOT, accel as tool

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
from sanitized import run_under_sanitizer  # noqa: E402
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures")
SEEING = os.path.join(FIXTURES, "seeing")
DONUT, LAYOUT = os.path.join(SEEING, "donut"), os.path.join(SEEING, "layoutlmv3_qa")


def path(name):
    return os.path.join(FIXTURES, name)


def golden(name):
    with open(os.path.join(SEEING, name, "golden.json"), encoding="utf-8") as f:
        return json.load(f)


class Documents(unittest.TestCase):
    def same(self, got, want):
        self.assertEqual([{k: v for k, v in a.items() if k != "score"} for a in got], [{k: v for k, v in a.items() if k != "score"} for a in want])
        for a, b in zip(got, want):
            if "score" in b:
                self.assertAlmostEqual(a["score"], b["score"], delta=2e-5 * b["score"] + 1e-9)

    def test_words(self):
        for device in DEVICES:
            with accel.Model(LAYOUT, device=device) as model:
                ask = accel.pipeline("document-question-answering", model)
                for case in golden("layoutlmv3_qa")["cases"]:
                    with self.subTest(device=device, question=case["question"]):
                        self.same(ask(question=case["question"], word_boxes=case["word_boxes"], **case["how"]), case["want"])
                for case in golden("layoutlmv3_qa")["looks"]:
                    (got,) = model.answer_documents([{"question": case["question"], "word_boxes": case["word_boxes"], "image": path(case["file"])}], look=True)
                    self.same(got, case["want"])

    def test_pipelines_of_directories(self):
        word = [("Total:", (20, 40, 90, 75))]
        with accel.pipeline("document-question-answering", LAYOUT, device="cpu") as ask:
            self.assertEqual(ask(question="What is it?", word_boxes=word)[0]["answer"], "Total:")
        with accel.pipeline("document-question-answering", os.path.join(SEEING, "donut"), device="cpu") as ask:
            case = golden("donut")["cases"][0]
            self.assertEqual(ask(path(case["file"]), case["question"]), case["want"])

    def test_pages(self):
        for name in ("donut", "donut_projected"):
            cases, read = golden(name)["cases"], golden(name)["read"]
            for device in DEVICES[:1] if name == "donut_projected" else DEVICES:
                with accel.Model(os.path.join(SEEING, name), device=device) as model:
                    ask = accel.pipeline("document-question-answering", model)
                    self.assertEqual(ask([{"image": path(c["file"]), "question": c["question"]} for c in cases]), [c["want"] for c in cases])
                    self.assertEqual(ask(path(cases[0]["file"]), cases[0]["question"]), cases[0]["want"])
                    for case in read:
                        (said,) = model.generate_images([(None, [path(case["file"])])], kind="text", max_new_tokens=20, keep_special_tokens=True)
                        self.assertEqual("<s_cord>" + said.text.replace("</s>", "").strip(), case["text"].replace("<s_cord> ", "<s_cord>"))
                        self.assertEqual(model.document_json(case["text"]), case["want"])

    def test_json(self):
        with accel.Model(DONUT, device="cpu") as model:
            for case in golden("donut")["json"]:
                with self.subTest(text=case["text"]):
                    got = model.document_json(case["text"])
                    self.assertEqual(got, case["want"])
                    self.assertEqual(json.dumps(got), json.dumps(case["want"]))  # the order of members, too

    def test_tool(self):
        case, page = golden("layoutlmv3_qa")["cases"][1], golden("donut")["cases"][0]
        with tempfile.TemporaryDirectory() as folder:
            words = os.path.join(folder, "words.json")
            with open(words, "w", encoding="utf-8") as f:
                json.dump(case["word_boxes"], f)
            out, _ = tool("document-qa", LAYOUT, case["question"], "--word-boxes", words, "--top-k", "4", "--device", "cpu", "--json", "--quiet")
            self.same(json.loads(out)["results"][0], case["want"])
            with open(words, "w", encoding="utf-8") as f:
                f.write('[["Total", [1, 2, 3]]]')
            _, err = tool("document-qa", LAYOUT, "what?", "--word-boxes", words, expected=1)
            self.assertIn("entry 0", err)
        out, _ = tool("document-qa", DONUT, page["question"], "--image", path(page["file"]), "--device", "cpu", "--json", "--quiet")
        self.assertEqual(json.loads(out)["results"][0], page["want"])

    def test_refused(self):
        with accel.Model(LAYOUT, device="cpu") as model:
            with self.assertRaisesRegex(accel.ArgumentError, "no OCR engine"):
                model.answer_documents([{"question": "what?", "image": path("image/pictures/rgb.png")}])
            with self.assertRaisesRegex(accel.ArgumentError, "word 0 holds 1001"):
                model.answer_documents([{"question": "what?", "word_boxes": [("a", (1, 2, 1001, 4))]}])
            with self.assertRaisesRegex(accel.ArgumentError, "no picture to look at"):
                model.answer_documents([{"question": "what?", "word_boxes": [("a", (1, 2, 3, 4))]}], look=True)
        with accel.Model(DONUT, device="cpu") as model:
            with self.assertRaisesRegex(accel.ArgumentError, "no picture"):
                model.answer_documents([{"question": "what?"}])


if __name__ == "__main__":
    unittest.main()
