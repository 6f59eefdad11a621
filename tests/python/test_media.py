"""Pictures and sounds through the accel tool against what transformers' pipelines gave for the same files (tests/fixtures/media, made by
tests/goldens/make_media_goldens.py): labels and boxes exactly, scores within 1e-4, on each device given in ACCEL_TEST_DEVICES.
"""
import json
import os
import shutil
import struct
import tempfile
import unittest

from test_tasks import DEVICES, ROOT, accel

FIXTURES = os.path.join(ROOT, "tests", "fixtures")
MEDIA = os.path.join(FIXTURES, "media")


def path(name):
    return os.path.join(FIXTURES, name)


def arguments(command, files):
    """classify takes pictures by option, the others as operands."""
    return [a for f in files for a in ("--image", path(f))] if command == "classify" else [path(f) for f in files]


def read_tensors(file):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    with open(file, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    fields = json.loads(data[8:8 + n])
    fields.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in fields.items()}


def write_tensors(file, tensors):
    fields, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        fields[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(fields).encode()
    with open(file, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


class Prepared(unittest.TestCase):
    """What `accel preprocess` writes is what `accel run` takes, arguments that the class takes and never reads included."""

    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.addCleanup(self.work.cleanup)
        self.made = os.path.join(self.work.name, "made.safetensors")
        self.out = os.path.join(self.work.name, "out.safetensors")

    def model(self, name, processor, **more):
        """A model of tests/fixtures/models with a preprocessor_config.json."""
        to = os.path.join(self.work.name, name)
        os.makedirs(to)
        for file in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(FIXTURES, "models", name, file), to)
        with open(os.path.join(FIXTURES, "audio", "features", processor, "preprocessor_config.json"), encoding="utf-8") as f:
            fields = json.load(f)
        with open(os.path.join(to, "preprocessor_config.json"), "w", encoding="utf-8") as f:
            json.dump({**fields, **more}, f)
        return to

    def prepare(self, model, *files):
        accel("preprocess", model, *files, "--output", self.made, "--quiet")
        return read_tensors(self.made)

    def run_model(self, model, tensors, *more):
        write_tensors(self.made, tensors)
        accel("run", model, "--input", self.made, "--output", self.out, "--device", "cpu", "--quiet", *more)
        return read_tensors(self.out)

    def test_pictures(self):
        for model in ("detr", "resnet", "vit", "yolos"):
            with self.subTest(model=model):
                made = self.prepare(os.path.join(MEDIA, model), "--image", path("image/pictures/rgb.png"))
                self.assertEqual("pixel_mask" in made, model in ("detr", "yolos"))
                self.assertIn("logits", self.run_model(os.path.join(MEDIA, model), made))

    def test_clap(self):
        files = ("--audio", path("audio/sounds/s16.wav"), "--audio", path("audio/sounds/twelve_bits.wav"))
        ids = ("I64", [2, 3], struct.pack("<6q", 5, 6, 7, 8, 9, 10))
        for name, processor in (("clap", "clap_pad"), ("clap_fusion", "clap_fusion")):
            with self.subTest(model=name):
                model = self.model(name, processor, feature_size=16)
                made = {**self.prepare(model, *files), "input_ids": ids}
                self.assertEqual(made["is_longer"][:2], ("BOOL", [2, 1]))
                out = self.run_model(model, made)
                self.assertIn("logits_per_audio", out)
                flags = bytes(1 - flag for flag in made["is_longer"][2])
                other = self.run_model(model, {**made, "is_longer": ("BOOL", [2, 1], flags)})
                self.assertEqual(out["audio_embeds"] != other["audio_embeds"], name == "clap_fusion")
                made.pop("input_ids")
                self.assertIn("audio_embeds", self.run_model(model, made, "--architecture", "ClapAudioModelWithProjection"))

    def test_whisper(self):
        rows, said = 1, ("I64", [1, 3], struct.pack("<3q", 3, 7, 11))
        shape = dict(feature_size=10, hop_length=470, return_attention_mask=True)  # 34 frames of a second
        model = self.model("whisper", "whisper_128_mask", **shape)
        made = {**self.prepare(model, "--audio", path("audio/sounds/s16.wav")), "decoder_input_ids": said}
        self.assertEqual(made["attention_mask"][1], [rows, 34])
        out = self.run_model(model, made)
        self.assertEqual(out["logits"][1], [rows, 3, 53])
        made.pop("attention_mask")
        self.assertEqual(self.run_model(model, made), out)

    def test_whisper_of_labels(self):
        model = os.path.join(FIXTURES, "models", "whisper_classes")
        golden = read_tensors(os.path.join(model, "golden.WhisperForAudioClassification.unread.safetensors"))
        given = {name[3:]: t for name, t in golden.items() if name.startswith("in.")}
        self.assertEqual(sorted(given), ["attention_mask", "decoder_input_ids", "input_features"])
        out = self.run_model(model, given)
        self.assertEqual(out["logits"], self.run_model(model, {"input_features": given["input_features"]})["logits"])
        _, err = accel("run", model, "--input", self.write({**given, "prompt_ids": given["decoder_input_ids"]}), expected=2)
        self.assertIn("takes no input 'prompt_ids'", err)

    def write(self, tensors):
        write_tensors(self.made, tensors)
        return self.made


class Pipelines(unittest.TestCase):
    def check(self, got, want):
        self.assertEqual(len(got), len(want))
        if want and isinstance(want[0], dict):  # transcripts
            self.assertEqual([r["text"] for r in got], [r["text"] for r in want])
            for g, w in zip(got, want):
                self.assertEqual([c["text"] for c in g.get("chunks", [])], [c["text"] for c in w.get("chunks", [])])
                for a, b in zip(g.get("chunks", []), w.get("chunks", [])):
                    self.assertAlmostEqual(a["timestamp"][0], b["timestamp"][0], places=9)
                    self.assertAlmostEqual(a["timestamp"][1], b["timestamp"][1], places=9)
            return
        for g, w in zip(got, want):
            self.assertEqual([r["label"] for r in g], [r["label"] for r in w])
            self.assertEqual([r.get("box") for r in g], [r.get("box") for r in w])
            for a, b in zip(g, w):
                self.assertAlmostEqual(a["score"], b["score"], delta=1e-4 * max(1e-2, abs(b["score"])) + 1e-6)

    def test_as_python_gives_them(self):
        models = sorted(os.listdir(MEDIA))
        self.assertGreaterEqual(len(models), 8)
        for device in DEVICES:
            for model in models:
                with open(os.path.join(MEDIA, model, "golden.json"), encoding="utf-8") as f:
                    golden = json.load(f)
                for case in golden["cases"]:
                    with self.subTest(device=device, model=model, args=case["args"]):
                        out, _ = accel(golden["command"], os.path.join(MEDIA, model), *arguments(golden["command"], case["files"]), "--device", device,
                                       "--json", "--quiet", *case["args"])
                        self.check(json.loads(out)["results"], case["want"])

    def test_preprocess(self):
        with tempfile.TemporaryDirectory() as work:
            made = os.path.join(work, "made.safetensors")
            model = os.path.join(MEDIA, "detr")
            out, _ = accel("preprocess", model, "--image", path("image/pictures/rgb.png"), "--image", path("image/pictures/turned_6.jpg"), "--output", made, "--json")
            shapes = {t["name"]: t["shape"] for t in json.loads(out)["tensors"]}
            self.assertEqual(shapes, {"pixel_values": [2, 3, 64, 64], "pixel_mask": [2, 64, 64]})
            out, _ = accel("run", model, "--input", made, "--output", os.path.join(work, "out.safetensors"), "--quiet")
            self.assertTrue(os.path.getsize(os.path.join(work, "out.safetensors")) > 100)

    def test_a_file_that_names_no_class(self):
        """Old files of the hub: transformers goes by the model's type."""
        for model in ("vit", "detr", "clip", "wav2vec2", "hubert", "ast"):
            with tempfile.TemporaryDirectory() as work, self.subTest(model=model):
                bare = os.path.join(work, model)
                shutil.copytree(os.path.join(MEDIA, model), bare)
                with open(os.path.join(bare, "preprocessor_config.json"), encoding="utf-8") as f:
                    fields = json.load(f)
                for key in ("image_processor_type", "feature_extractor_type", "processor_class"):
                    fields.pop(key, None)
                with open(os.path.join(bare, "preprocessor_config.json"), "w", encoding="utf-8") as f:
                    json.dump(fields, f)
                given = ("--audio", path("audio/sounds/s16.wav")) if model in ("wav2vec2", "hubert", "ast") else ("--image", path("image/pictures/rgb.png"))
                made = []
                for directory in (os.path.join(MEDIA, model), bare):
                    accel("preprocess", directory, *given, "--output", os.path.join(work, "t.safetensors"), "--quiet")
                    with open(os.path.join(work, "t.safetensors"), "rb") as f:
                        made.append(f.read())
                self.assertEqual(made[0], made[1])

    def test_a_clear_colour_becomes_white(self):
        """do_convert_rgb: of palette_clear.png one entry is transparent, of grey_clear.png a grey."""
        fields = {"image_processor_type": "CLIPImageProcessor", "do_resize": False, "do_center_crop": False, "do_rescale": False, "do_normalize": False}
        for picture in ("palette_clear.png", "grey_clear.png", "palette.png"):
            seen = []
            for convert in ({}, {"do_convert_rgb": False}):
                with tempfile.TemporaryDirectory() as work:
                    with open(os.path.join(work, "preprocessor_config.json"), "w", encoding="utf-8") as f:
                        json.dump({**fields, **convert}, f)
                    made = os.path.join(work, "made.safetensors")
                    accel("preprocess", work, "--image", path("image/pictures/" + picture), "--output", made, "--quiet")
                    with open(made, "rb") as f:
                        data = f.read()
                (n,) = struct.unpack("<Q", data[:8])
                where = json.loads(data[8:8 + n])["pixel_values"]
                values = struct.unpack(f"<{(len(data) - 8 - n) // 4}f", data[8 + n:])
                plane = where["shape"][2] * where["shape"][3]
                seen.append([tuple(values[c * plane + i] for c in range(3)) for i in range(plane)])
            changed = {plain for white, plain in zip(*seen) if white != plain}
            self.assertEqual(len(changed), 0 if picture == "palette.png" else 1, picture)
            for white, plain in zip(*seen):
                self.assertEqual(white, (255.0, 255.0, 255.0) if plain in changed else plain)

    def test_one_tile(self):
        """LLaVA-Next with one resolution of one tile: of a square picture the tile is the whole picture once more."""
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "preprocessor_config.json"), "w", encoding="utf-8") as f:
                json.dump({"image_processor_type": "LlavaNextImageProcessor", "size": {"shortest_edge": 20}, "crop_size": {"height": 20, "width": 20},
                           "image_grid_pinpoints": [[20, 20]]}, f)
            made = os.path.join(work, "made.safetensors")
            accel("preprocess", work, "--image", path("image/pictures/one_pixel.png"), "--output", made, "--quiet")
            with open(made, "rb") as f:
                data = f.read()
            (n,) = struct.unpack("<Q", data[:8])
            where = json.loads(data[8:8 + n])["pixel_values"]
            self.assertEqual(where["shape"], [1, 2, 3, 20, 20])
            begin, end = (8 + n + at for at in where["data_offsets"])
            half = (end - begin) // 2
            self.assertEqual(data[begin:begin + half], data[begin + half:end])

    def test_image_features(self):
        directory = path("features/dinov2")
        with open(os.path.join(directory, "features.json"), encoding="utf-8") as f:
            golden = json.load(f)
        files = [path(f) for f in golden["files"]]
        with tempfile.TemporaryDirectory() as work:
            out = os.path.join(work, "features.safetensors")
            for more, wanted, name in ((("--pool",), golden["pooled"], "pooler_output"), ((), golden["want"], "last_hidden_state")):
                printed, _ = accel("image-features", directory, *files, *more, "--output", out, "--json", "--device", "cpu", "--quiet")
                found, made = json.loads(printed)["results"], read_tensors(out)
                for i, (want, got) in enumerate(zip(wanted, found, strict=True)):
                    dtype, shape, data = made[f"{name}.{i + 1}"]
                    rows, numbers = (want, got) if more else (want[0], got[0])
                    self.assertEqual((dtype, shape), ("F32", [len(want), len(want[0])] + ([] if more else [len(want[0][0])])))
                    flat = [x for row in numbers for x in row]
                    self.assertEqual(struct.pack(f"<{len(flat)}f", *flat), bytes(data))
                    for a, b in zip(flat, [x for row in rows for x in row], strict=True):
                        self.assertAlmostEqual(a, b, delta=2e-5 * max(1.0, abs(b)))
            printed, _ = accel("image-features", directory, files[0], "--device", "cpu", "--quiet")
            self.assertIn("1 x 17 x 16", printed)

    def test_what_cannot_be(self):
        vit, ast = os.path.join(MEDIA, "vit"), os.path.join(MEDIA, "ast")
        for expected, words, args in ((1, "nowhere.png", ("classify", vit, "--image", path("image/nowhere.png"))),
                                      (1, "cut.jpg", ("classify", vit, "--image", path("image/bad/cut.jpg"))),
                                      (3, "image-classification", ("detect-objects", vit, path("image/pictures/rgb.png"))),
                                      (3, "no JPEG, PNG or WebP", ("classify", vit, "--image", path("audio/sounds/s16.wav"))),
                                      (2, "one kind", ("classify", vit, "text", "--image", path("image/pictures/rgb.png"))),
                                      (2, "--labels", ("zero-shot-audio", os.path.join(MEDIA, "clap"), path("audio/sounds/s16.wav"))),
                                      (2, "--labels", ("zero-shot-image", os.path.join(MEDIA, "clip"), path("image/pictures/rgb.png"))),
                                      (2, "--image", ("preprocess", vit)),
                                      (2, "400 are needed", ("audio-classify", ast, path("audio/sounds/silence.wav"))),
                                      (1, "feature_extractor_type", ("preprocess", vit, "--audio", path("audio/sounds/s16.wav"))),
                                      (3, "takes no pictures", ("image-features", path("tasks/features_bert"), path("image/pictures/rgb.png"))),
                                      (3, "no pooler_output", ("image-features", vit, path("image/pictures/rgb.png"), "--pool")),
                                      (2, "threshold", ("detect-objects", os.path.join(MEDIA, "detr"), path("image/pictures/rgb.png"), "--threshold", "2"))):
            _, err = accel(*args, expected=expected)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
