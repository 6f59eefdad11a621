"""Models that tell about pictures against what transformers gave for the same files (tests/fixtures/seeing, made by tests/goldens/make_seeing_goldens.py), through
the accel tool and the Python package, on each device given in ACCEL_TEST_DEVICES; and what is drawn.
"""
import json
import os
import struct
import sys
import tempfile
import threading
import unittest
import zlib

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
# Their prompts and pictures do not depend on the device, and goldens run them on all.
NEWER = ("qwen3_vl", "gemma3", "paligemma", "idefics3", "internvl")


def path(name):
    return os.path.join(FIXTURES, name)


def golden(name):
    with open(os.path.join(SEEING, name, "golden.json"), encoding="utf-8") as f:
        return json.load(f)


def read_safetensors(file):
    """{name: (shape, bytes)}"""
    with open(file, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    return {k: (v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items() if k != "__metadata__"}


def read_png(file):
    """(width, height, rows of bytes) of an 8-bit RGB or grey PNG, with nothing but the standard library."""
    with open(file, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", file
    at, packed, head = 8, b"", None
    while at < len(data):
        (n,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + n]
        head = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += 12 + n
    width, height, depth, colour = head[:4]
    assert depth == 8 and colour in (0, 2), head
    step = 3 if colour == 2 else 1
    raw, stride, rows, before = zlib.decompress(packed), step * width, [], bytearray(step * width)
    for y in range(height):
        method, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = (line[i - step] if i >= step else 0), before[i], (before[i - step] if i >= step else 0)
            p = a + b - c
            nearest = min((abs(p - v), k, v) for k, v in enumerate((a, b, c)))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[method]) & 255
        rows.append(bytes(line))
        before = line
    return width, height, rows


class Segments(unittest.TestCase):
    def test_as_transformers_gives_them(self):
        want, maps = golden("segformer"), read_safetensors(os.path.join(SEEING, "segformer", "maps.safetensors"))
        for device in DEVICES:
            with accel.Model(os.path.join(SEEING, "segformer"), device=device) as model:
                for file, found, expected in zip(want["files"], model.segment_images([path(f) for f in want["files"]]), want["want"]):
                    (height, width), ids = maps[file]
                    self.assertEqual([found.height, found.width], [height, width])
                    got = [i for row in found.map.tolist() for i in row]
                    # rounding may move a pixel where two classes are equal
                    self.assertLessEqual(sum(a != b for a, b in zip(got, ids)), len(ids) // 2000, file)
                    self.assertEqual([s["label"] for s in found.segments], [w["label"] for w in expected])
                    for s, w in zip(found.segments, expected):
                        self.assertLessEqual(abs(s["pixels"] - w["pixels"]), len(ids) // 2000)
                        self.assertEqual(s["pixels"], got.count(s["id"]))
                        self.assertAlmostEqual(s["area"], s["pixels"] / len(ids))

    def test_objects(self):
        """DETR's panoptic, instance and semantic segments: labels, scores, order and masks of transformers' pipeline."""
        name = os.path.join(SEEING, "detr_panoptic")
        golden_of, maps = golden("detr_panoptic"), read_safetensors(os.path.join(name, "maps.safetensors"))
        for device in DEVICES:
            run = accel.pipeline("image-segmentation", name, device=device)
            for k, case in enumerate(golden_of["cases"]):
                for file, expected in zip(golden_of["files"], case["want"]):
                    found = run(path(file), **case["options"])
                    (height, width), ids = maps[f"{k}.{file}"]
                    self.assertEqual([s["label"] for s in found], [w["label"] for w in expected])
                    for i, (s, w) in enumerate(zip(found, expected)):
                        mask = [pixel for row in s["mask"].tolist() for pixel in row] if hasattr(s["mask"], "tolist") else s["mask"].tobytes()
                        self.assertEqual(len(mask), height * width)
                        self.assertLessEqual(sum((a != 0) != (b == i + 1) for a, b in zip(mask, ids)), len(ids) // 1000, file)
                        if w["score"] is None:
                            self.assertIsNone(s["score"])
                        else:
                            self.assertAlmostEqual(s["score"], w["score"], delta=2e-5)
        with accel.Model(name, device="cpu") as model:
            picture = path(golden_of["files"][0])
            (found,) = model.segment_images([picture], threshold=1)
            self.assertEqual((found.segments, set(i for row in found.map.tolist() for i in row)), ([], {-1}))
            with self.assertRaises(accel.ArgumentError):
                model.segment_images([picture], threshold=2)
            with self.assertRaises(accel.ArgumentError):
                model.segment_images([picture], subtask="parts")

    def test_objects_by_tool(self):
        model, picture = os.path.join(SEEING, "detr_panoptic"), path("image/pictures/rgb.png")
        with tempfile.TemporaryDirectory() as work:
            drawn, colours = os.path.join(work, "drawn.png"), os.path.join(work, "colours.png")
            out, _ = tool("segment", model, picture, "--subtask", "instance", "--threshold", "0.3", "--draw", drawn, "--output", colours, "--json", "--quiet")
            (found,) = json.loads(out)["results"]
            self.assertEqual([s["id"] for s in found], list(range(1, len(found) + 1)))
            width, height, rows = read_png(colours)
            pixels = [row[3 * x:3 * x + 3] for row in rows for x in range(width)]
            self.assertEqual(sorted(pixels.count(c) for c in set(pixels) if c != b"\0\0\0"), sorted(s["pixels"] for s in found))
            tool("segment", model, picture, "--threshold", "1", "--draw", drawn, "--quiet")  # nothing is found: the picture as it was
            tool("detect-objects", os.path.join(FIXTURES, "media", "detr"), picture, "--threshold", "1", "--draw", colours, "--quiet")
            self.assertEqual(read_png(drawn), read_png(colours))
        _, err = tool("segment", os.path.join(SEEING, "segformer"), picture, "--subtask", "instance", expected=3)
        self.assertIn("tells no objects apart", err)

    def test_pipeline(self):
        run = accel.pipeline("image-segmentation", os.path.join(SEEING, "segformer"), device="cpu")
        want = golden("segformer")
        found = run(path(want["files"][0]))
        self.assertEqual([(s["label"], s["score"]) for s in found], [(w["label"], None) for w in want["want"][0]])
        self.assertEqual(len(run([path(f) for f in want["files"][:2]])), 2)
        with self.assertRaises(ValueError):
            run(path(want["files"][0]), subtask="everything")
        with self.assertRaises(accel.UnsupportedError):
            run(path(want["files"][0]), subtask="panoptic")

    def test_tool(self):
        want = golden("segformer")
        with tempfile.TemporaryDirectory() as work:
            colours, drawn = os.path.join(work, "c.png"), os.path.join(work, "d.png")
            out, _ = tool("segment", os.path.join(SEEING, "segformer"), *[path(f) for f in want["files"]], "--output", colours, "--draw", drawn, "--json", "--quiet")
            results = json.loads(out)["results"]
            self.assertEqual([[(s["label"], s["score"]) for s in r] for r in results], [[(w["label"], None) for w in r] for r in want["want"]])
            for i, r in enumerate(results):
                width, height, rows = read_png(os.path.join(work, f"c.{i + 1}.png"))
                pixels = [row[3 * x:3 * x + 3] for row in rows for x in range(width)]
                self.assertEqual(sorted(pixels.count(c) for c in set(pixels)), sorted(s["pixels"] for s in r))
                self.assertEqual(read_png(os.path.join(work, f"d.{i + 1}.png"))[:2], (width, height))


class Depths(unittest.TestCase):
    def test_equal_transformers(self):
        for name in ("depth_anything", "dpt"):
            want = golden(name)
            maps = read_safetensors(os.path.join(SEEING, name, "maps.safetensors"))
            for device in DEVICES:
                with accel.Model(os.path.join(SEEING, name), device=device) as model:
                    found = model.estimate_depth([path(f) for f in want["files"]])
                for f, one, expected in zip(want["files"], found, want["want"]):
                    with self.subTest(device=device, model=name, file=f):
                        ((height, width), values), (_, grey) = maps[f"depth.{f}"], maps[f"grey.{f}"]
                        values = memoryview(values).cast("f")
                        bound = 1e-4 * (expected["max"] - expected["min"])
                        self.assertEqual((one.height, one.width), (height, width))
                        got = [v for row in one.predicted_depth.tolist() for v in row]
                        self.assertLessEqual(max(abs(a - b) for a, b in zip(got, values)), bound)
                        self.assertAlmostEqual(one.least, expected["min"], delta=bound)
                        self.assertAlmostEqual(one.most, expected["max"], delta=bound)
                        self.assertLessEqual(max(abs(a - b) for a, b in zip(one.grey(), grey)), 1)

    def test_pipeline_and_tool(self):
        want = golden("dpt")
        run = accel.pipeline("depth-estimation", os.path.join(SEEING, "dpt"), device="cpu")
        one = run(path(want["files"][0]))
        self.assertEqual(sorted(one), ["depth", "predicted_depth"])
        self.assertEqual(len(run([path(f) for f in want["files"][:2]])), 2)
        with tempfile.TemporaryDirectory() as work:
            out = os.path.join(work, "d.png")
            text, _ = tool("depth-estimation", os.path.join(SEEING, "dpt"), *[path(f) for f in want["files"][:2]], "-o", out, "--json", "--quiet")
            results = json.loads(text)["results"]
            for i, (r, w) in enumerate(zip(results, want["want"])):
                self.assertAlmostEqual(r["max"], w["max"], delta=1e-3)
                width, height, rows = read_png(os.path.join(work, f"d.{i + 1}.png"))
                self.assertEqual((width, height), (r["width"], r["height"]))
                self.assertEqual((min(min(row) for row in rows), max(max(row) for row in rows)), (0, 255))
            tool("depth-estimation", os.path.join(SEEING, "dpt"), path(want["files"][0]), "-o", out, "--bits", "16", "--quiet")
            with open(out, "rb") as f:
                self.assertEqual(f.read(26)[24:], bytes((16, 0)))  # bits, grey
            with accel.Model(os.path.join(SEEING, "dpt"), device="cpu") as model:
                (found,) = model.estimate_depth([path(want["files"][0])])
                found.draw(out)
                with self.assertRaises(accel.ArgumentError):
                    found.draw(out, bits=4)
            width, _, rows = read_png(out)
            self.assertEqual(b"".join(rows), found.grey())
        _, err = tool("depth-estimation", os.path.join(SEEING, "segformer"), path(want["files"][0]), expected=3)
        self.assertIn("depth-estimation", err)


class Drawing(unittest.TestCase):
    def test_frames(self):
        model, picture = os.path.join(FIXTURES, "media", "detr"), path("image/pictures/rgb.png")
        with tempfile.TemporaryDirectory() as work:
            drawn, plain = os.path.join(work, "drawn.png"), os.path.join(work, "plain.png")
            out, _ = tool("detect-objects", model, picture, "--threshold", "0.25", "--draw", drawn, "--json", "--quiet")
            objects = json.loads(out)["results"][0]
            self.assertTrue(objects)
            tool("detect-objects", model, picture, "--threshold", "1", "--draw", plain, "--quiet")
            (width, height, rows), (_, _, before) = read_png(drawn), read_png(plain)
            last = objects[-1]["box"]  # nothing is drawn over the lower left corner of the last frame but itself
            x, y = max(0, last["xmin"]), min(height - 1, last["ymax"])
            if y == last["ymax"] and x == last["xmin"]:
                self.assertNotEqual(rows[y][3 * x:3 * x + 3], before[y][3 * x:3 * x + 3])
            changed = sum(a != b for a, b in zip(b"".join(rows), b"".join(before)))
            self.assertTrue(0 < changed)
            accel.draw_objects(picture, objects, os.path.join(work, "python.png"))
            self.assertEqual(read_png(os.path.join(work, "python.png"))[:2], (width, height))

    def test_what_cannot_be(self):
        model, picture = os.path.join(FIXTURES, "media", "detr"), path("image/pictures/rgb.png")
        for expected, words, args in ((1, "nowhere", ("detect-objects", model, picture, "--draw", "/nowhere/out.png")),
                                      (3, "object-detection", ("segment", model, picture)),
                                      (1, "nowhere.png", ("segment", os.path.join(SEEING, "segformer"), path("image/nowhere.png"))),
                                      (1, "cut.jpg", ("segment", os.path.join(SEEING, "segformer"), path("image/bad/cut.jpg")))):
            _, err = tool(*args, expected=expected)
            self.assertIn(words, err)
        with accel.Model(os.path.join(SEEING, "segformer"), device="cpu") as model:
            (found,) = model.segment_images([picture])
            with self.assertRaises(accel.ArgumentError):  # another picture than the one segmented
                found.draw(os.devnull, path("image/pictures/turned_6.jpg"))


class Texts(unittest.TestCase):
    """Captions, answers and conversations: what transformers' generate gives after the same processors, word for word."""

    def run_cases(self, name, cases, command):
        new = "32" if name.startswith("qwen") else "12"
        for device in DEVICES if name not in NEWER else DEVICES[:1]:
            for case in cases:
                with self.subTest(device=device, model=name, text=case["text"], files=case["files"]):
                    out, _ = tool(*command(os.path.join(SEEING, name), case), "--max-new-tokens", new, "--device", device, "--json", "--quiet")
                    (got,) = json.loads(out)["results"]
                    self.assertEqual(got["ids"], case["ids"])
                    self.assertEqual(got["text"], case["want"])
                    if "vqa" not in name:
                        self.assertEqual(got["prompt_tokens"], case["prompt_tokens"])

    def test_captions(self):
        self.run_cases("blip_caption", [c for c in golden("blip_caption")["cases"] if c["text"] is None],
                       lambda model, case: ("caption", model, path(case["files"][0])))
        for case in golden("blip_caption")["cases"]:
            if case["text"]:
                out, _ = tool("caption", os.path.join(SEEING, "blip_caption"), path(case["files"][0]), "--prompt", case["text"], "--max-new-tokens", "12", "--json", "--quiet")
                self.assertEqual(json.loads(out)["results"][0]["text"], case["want"])

    def test_writing(self):
        """Pictures of writing, and captions by GPT-2: VisionEncoderDecoderModel has no prompt."""
        for name in ("trocr", "trocr_deit", "vit_gpt2", "vit_gpt2_same"):
            self.run_cases(name, golden(name)["cases"], lambda model, case: ("caption", model, path(case["files"][0])))
        _, err = tool("caption", os.path.join(SEEING, "trocr"), path("image/pictures/rgb.png"), "--prompt", "the", expected=2)
        self.assertIn("a picture alone", err)

    def test_answers(self):
        for name in ("blip_vqa", "llava", "llava_next", "qwen2_vl", "qwen2_5_vl", *NEWER):
            self.run_cases(name, golden(name)["cases"], lambda model, case: ("vqa", model, case["text"], *[a for f in case["files"] for a in ("--image", path(f))]))

    def test_prompts_with_image_tokens(self):
        for name in ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl", *NEWER):
            self.assertTrue(golden(name)["plain"])
            self.run_cases(name, golden(name)["plain"], lambda model, case: ("generate", model, case["text"], *[a for f in case["files"] for a in ("--image", path(f))]))

    def test_pipelines(self):
        blip, vqa, llava = (os.path.join(SEEING, n) for n in ("blip_caption", "blip_vqa", "llava"))
        cases = [c for c in golden("blip_caption")["cases"] if c["text"] is None]
        caption = accel.pipeline("image-to-text", blip, device="cpu", max_new_tokens=12)
        self.assertEqual(caption([path(c["files"][0]) for c in cases]), [[{"generated_text": c["want"]}] for c in cases])
        asked = golden("blip_vqa")["cases"]
        ask = accel.pipeline("visual-question-answering", vqa, device="cpu", max_new_tokens=12)
        self.assertEqual(ask([{"image": path(c["files"][0]), "question": c["text"]} for c in asked]), [[{"answer": c["want"]}] for c in asked])
        self.assertEqual(ask(path(asked[0]["files"][0]), asked[0]["text"]), [{"answer": asked[0]["want"]}])
        talk = accel.pipeline("image-text-to-text", llava, device="cpu", max_new_tokens=12)
        plain, question = golden("llava")["plain"][0], golden("llava")["cases"][0]
        self.assertEqual(talk(images=[path(f) for f in plain["files"]], text=plain["text"], return_full_text=False),
                         [{"input_text": plain["text"], "generated_text": plain["want"]}])
        chat = [{"role": "user", "content": [{"type": "image", "path": path(question["files"][0])}, {"type": "text", "text": question["text"]}]}]
        self.assertEqual(talk(chat), [{"input_text": chat, "generated_text": chat + [{"role": "assistant", "content": question["want"]}]}])
        with open(path(question["files"][0]), "rb") as f:
            chat[0]["content"][0] = {"type": "image", "image": f.read()}
        self.assertEqual(talk(text=chat, return_full_text=False)[0]["generated_text"], question["want"])

    def test_company_does_not_matter(self):
        """Prompts with one, two and no pictures in one call: each as if alone."""
        for name, image in (("llava_next", "<image>"), ("qwen2_vl", "<|vision_start|><|image_pad|><|vision_end|>")):
            with accel.Model(os.path.join(SEEING, name), device="cpu") as model:
                a, b = (path(f"image/pictures/{n}") for n in ("rgb.png", "turned_6.jpg"))
                prompts = [(f"{image} the cat", [a]), (f"a {image} and {image} :", [a, b]), ("the sea is", [])]
                together = [g.ids for g in model.generate_images(prompts, max_new_tokens=8)]
                self.assertEqual(together, [model.generate_images([p], max_new_tokens=8)[0].ids for p in prompts])

    def test_what_cannot_be(self):
        llava, blip, vqa, qwen = (os.path.join(SEEING, n) for n in ("llava", "blip_caption", "blip_vqa", "qwen2_vl"))
        picture = path("image/pictures/rgb.png")
        text_model = os.path.join(FIXTURES, "pipelines", "text")
        for expected, words, args in ((2, "0 image tokens", ("generate", llava, "the cat", "--image", picture)),
                                      (2, "2 image tokens", ("generate", llava, "<image> <image> the cat", "--image", picture)),
                                      (2, "1 image tokens", ("generate", llava, "<image> the cat", "--image", picture, "--image", picture)),
                                      (2, "0 image tokens", ("generate", qwen, "the cat", "--image", picture)),
                                      (2, "2 image tokens", ("generate", qwen, "<|image_pad|> <|image_pad|> the cat", "--image", picture)),
                                      (2, "single frames", ("generate", qwen, "<|image_pad|> and <|video_pad|> :", "--image", picture)),
                                      (2, "--image", ("vqa", llava, "what is this ?")),
                                      (2, "takes one", ("vqa", vqa, "what ?", "--image", picture, "--image", picture)),
                                      (2, "no question", ("caption", vqa, picture)),
                                      (3, "does not look at pictures", ("caption", text_model, picture)),
                                      (2, "one text", ("generate", llava, "a", "b", "--image", picture)),
                                      (1, "cut.jpg", ("caption", blip, path("image/bad/cut.jpg")))):
            _, err = tool(*args, expected=expected)
            self.assertIn(words, err)

    def test_patches_must_be_the_models(self):
        """preprocessor_config.json without a field, and with a merge_size that the model has not."""
        for change, words, expected in ((lambda p: p.pop("size") and p.update(size={"shortest_edge": 256}), "size has no longest_edge", 1),
                                        (lambda p: p.update(merge_size=1), "vision_config.spatial_merge_size", 2),
                                        (lambda p: p.update(patch_size=3), "pixel_values", 2)):
            with tempfile.TemporaryDirectory() as work:
                for name in os.listdir(os.path.join(SEEING, "qwen2_vl")):
                    if name != "processor_config.json":
                        os.symlink(os.path.join(SEEING, "qwen2_vl", name), os.path.join(work, name))
                with open(os.path.join(SEEING, "qwen2_vl", "processor_config.json"), encoding="utf-8") as f:
                    config = json.load(f)
                change(config["image_processor"])
                with open(os.path.join(work, "processor_config.json"), "w", encoding="utf-8") as f:
                    json.dump(config, f)
                _, err = tool("vqa", work, "what is this ?", "--image", path("image/pictures/rgb.png"), expected=expected)
                self.assertIn(words, err)

    def test_processor_and_model_must_agree(self):
        with tempfile.TemporaryDirectory() as work:
            for name in os.listdir(os.path.join(SEEING, "llava")):
                if name != "processor_config.json":
                    os.symlink(os.path.join(SEEING, "llava", name), os.path.join(work, name))
            with open(os.path.join(SEEING, "llava", "processor_config.json"), encoding="utf-8") as f:
                config = json.load(f)
            config["num_additional_image_tokens"] = 0
            with open(os.path.join(work, "processor_config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            _, err = tool("vqa", work, "what is this ?", "--image", path("image/pictures/rgb.png"), expected=1)
            self.assertIn("num_additional_image_tokens", err)


def by_task(prompt, answer):
    """What generate_regions gave, in the form of post_process_generation."""
    regions, of = answer["regions"], lambda key: [r[key] for r in answer["regions"] if key in r]
    words = lambda key: [r["label"] for r in regions if key in r]
    if prompt.startswith(("<CAPTION>", "<REGION_TO_OCR>", "what")):
        return answer["text"]
    if prompt.startswith("<OCR"):
        return {"quad_boxes": of("quad"), "labels": words("quad")}
    if prompt.startswith(("<REFERRING", "<REGION_TO_SEG")):
        return {"polygons": of("polygons"), "labels": words("polygons")}
    if prompt.startswith("<OPEN"):
        return {"bboxes": of("box"), "bboxes_labels": words("box"), "polygons": of("polygons"), "polygons_labels": words("polygons")}
    return {"bboxes": of("box"), "labels": words("box")}


class Regions(unittest.TestCase):
    """Florence-2: words and places, as transformers' processor asks and reads."""
    model = os.path.join(SEEING, "florence2")

    def test_equal_transformers(self):
        cases = golden("florence2")["cases"]
        self.assertGreater(len(cases), 7)
        with accel.Model(self.model, device="cpu") as model:
            self.assertTrue(model.names_regions)
            said = model.generate_images([(c["prompt"], [path(c["file"])]) for c in cases], max_new_tokens=32)
            found = model.generate_regions([(c["prompt"], [path(c["file"])]) for c in cases], max_new_tokens=32)
            objects = model.detect_objects([path(cases[0]["file"])])[0]
        self.assertEqual([g.ids for g in said], [c["ids"] for c in cases])
        for c, a in zip(cases, found):
            self.assertEqual(by_task(c["prompt"], a), c["want"], c["prompt"])
        self.assertTrue(all(o["score"] != o["score"] for o in objects))  # NaN
        with accel.Model(os.path.join(SEEING, "blip_caption"), device="cpu") as blip:
            self.assertFalse(blip.names_regions)
            with self.assertRaisesRegex(accel.UnsupportedError, "names no places"):
                blip.generate_regions([(None, [path(cases[0]["file"])])])

    def test_tool_and_pipeline(self):
        case = next(c for c in golden("florence2")["cases"] if c["prompt"].startswith("<CAPTION_TO"))
        args = ("caption", self.model, path(case["file"]), "--prompt", case["prompt"], "--max-new-tokens", "32")
        answer = json.loads(tool(*args, "--json")[0])["results"][0]
        self.assertEqual(by_task(case["prompt"], answer), case["want"])
        pipe = accel.pipeline("image-to-text", self.model, device="cpu", max_new_tokens=32)
        self.assertEqual(pipe(path(case["file"]), case["prompt"]), [{"generated_text": answer["text"], "regions": answer["regions"]}])
        box = case["want"]["bboxes"][0]
        self.assertIn(case["want"]["labels"][0] + "\t" + ",".join(map(str, box)), tool(*args)[0])
        _, err = tool(*args[:4], "<OD> cat", expected=2)
        self.assertIn("<OD> stands alone", err)


class Queue(unittest.TestCase):
    """Prompts with pictures are requests like others: they run beside each other and beside texts, and give what they give alone."""
    PICTURES = [path("image/pictures/colour_420.jpg"), path("image/pictures/grey.jpg")]

    def test_together_as_alone(self):
        for name, kind, texts in (("llava", "question", ["what", "a cat", "two"]), ("qwen2_vl", "question", ["what", "a cat", "two"]),
                                  ("blip_caption", "text", ["a cat", None, "the"])):
            with self.subTest(name=name), accel.Model(os.path.join(SEEING, name), device=DEVICES[0]) as model:
                asked = [(text, [self.PICTURES[i % 2]]) for i, text in enumerate(texts)]
                options = [{}, {"temperature": 1.0, "seed": 3}, {"num_beams": 2}]
                alone = [model.generate_images([a], kind=kind, max_new_tokens=6, **o)[0] for a, o in zip(asked, options)]
                tickets = [model.submit_generate(text, images=files, kind=kind, max_new_tokens=6, **o) for (text, files), o in zip(asked, options)]
                beside = model.submit_generate("a cat", max_new_tokens=6) if kind == "question" else None
                self.assertEqual([(g.text, g.ids) for g in (t.wait()[0] for t in tickets)], [(g.text, g.ids) for g in alone])
                if beside:
                    self.assertEqual(beside.wait()[0].ids, model.generate("a cat", max_new_tokens=6)[0].ids)

    def test_steps_are_shared_and_a_request_ends_when_it_is_cancelled(self):
        with accel.Model(os.path.join(SEEING, "llava"), device=DEVICES[0]) as model:
            heard, begun, asked = [], threading.Event(), threading.Event()
            options = {"images": self.PICTURES[:1], "kind": "question", "ignore_eos": True}
            endless = model.submit_generate("what", lambda t: begun.set(), max_new_tokens=2 ** 31 - 1, **options)  # what the context leaves
            self.assertTrue(begun.wait(60))

            def hear(i):
                asked.wait(60)  # a loaded machine might be done with one request before it asks for the next
                heard.append(i)
            short = [model.submit_generate("what", lambda t, i=i: hear(i), max_new_tokens=20, **options) for i in range(2)]
            asked.set()
            for ticket in short:
                self.assertEqual(len(ticket.wait()[0].ids), 20)
            self.assertNotEqual(heard, sorted(heard))  # token after token, not one request after the other
            endless.cancel()
            with self.assertRaises(accel.CancelledError):
                endless.wait()

    def test_refusals(self):
        with accel.Model(os.path.join(SEEING, "llava"), device=DEVICES[0]) as model:
            for options, says in ((dict(kind="text"), "1 pictures"), (dict(kind="messages"), "messages"), (dict(kind="question", max_new_tokens=10 ** 6), "context")):
                with self.subTest(options=options), self.assertRaisesRegex(accel.AccelError, says):
                    model.submit_generate("what", images=self.PICTURES[:1], **options)
        with accel.Model(path("pipelines/text"), device=DEVICES[0]) as model:
            with self.assertRaisesRegex(accel.AccelError, "does not look at pictures"):
                model.submit_generate("what", images=self.PICTURES[:1])


if __name__ == "__main__":
    unittest.main()
