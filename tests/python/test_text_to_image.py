"""Pictures from texts: from prompt and seed alone, the pixels that diffusers' pipelines gave (tests/fixtures/diffusion, made by tests/goldens/make_diffusion_goldens.py),
through the accel tool and the Python package, on each device given in ACCEL_TEST_DEVICES."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from test_goldens import FEWER
from test_tasks import ACCEL, BUILD, DEVICES, ROOT

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
from sanitized import run_under_sanitizer  # noqa: E402
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402
from test_seeing import read_png  # noqa: E402

FIXTURES = os.path.join(ROOT, "tests", "fixtures")
PIPELINES = os.path.join(FIXTURES, "diffusion", "pipelines")
UNCONDITIONAL = ("ddpm", "ddim_flat")
# their random weights make more of a last digit; Flux's is one of torch's exp, the rescaled guidance's gives 2 of 1,536 on the CPU and 4 on Vulkan
ROUGH = ("flux/golden.picture", "flux/golden.mask", "sd3/golden.skip", "euler/golden.rescale")
OPTIONS = {"num_inference_steps": "--steps", "seed": "--seed", "guidance_scale": "--guidance", "guidance_rescale": "--guidance-rescale", "num_images_per_prompt": "--n",
           "negative_prompt": "--negative", "clip_skip": "--clip-skip", "scheduler": "--scheduler", "eta": "--eta", "strength": "--strength", "image": "--init",
           "mask_image": "--mask", "decoder": "--decoder", "max_sequence_length": "--max-sequence-length"}


def tool(*words):
    return subprocess.run([ACCEL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def read_golden(file):
    """Arguments, shape and bytes of the pixels."""
    with open(file, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    pixels = header["pixels"]
    begin, end = pixels["data_offsets"]
    args = json.loads(header["__metadata__"]["args"])
    for name in ("image", "mask_image", "decoder"):
        if name in args:
            args[name] = os.path.join(FIXTURES, args[name])
    if "loras" in args:
        args["loras"] = [(os.path.join(FIXTURES, "diffusion", "lora", name + ".safetensors"), scale) for name, scale in zip(args["loras"], args.pop("scales"))]
    return args, pixels["shape"], data[8 + n + begin:8 + n + end]


def raw(images):
    """Bytes of arrays [height, width, 3]."""
    return bytes(value for image in images for row in image.tolist() for pixel in row for value in pixel)


class TextToImage(unittest.TestCase):
    def assert_pixels(self, got, want, shape, what):
        """At most 1 of 255 off, and that in one of a thousand; rounding moves two or three of a small picture."""
        self.assertEqual(len(got), len(want), f"{what}: not {shape}")
        off = [abs(a - b) for a, b in zip(got, want)]
        self.assertLessEqual(max(off), 1, what)
        self.assertLessEqual(sum(o > 0 for o in off), max(3, len(off) // (200 if any(name in what for name in ROUGH) else 1000)), what)

    def test_python_gives_the_pixels_of_diffusers(self):
        files = sorted(glob.glob(os.path.join(PIPELINES, "*", "golden.*.safetensors")))
        self.assertGreaterEqual(len(files), 67)
        for device in DEVICES[:1] if FEWER else DEVICES:
            for directory in sorted({os.path.dirname(f) for f in files}):
                task = "unconditional-image-generation" if os.path.basename(directory) in UNCONDITIONAL else "text-to-image"
                with accel.pipeline(task, directory, device=device) as own:
                    for file in (f for f in files if os.path.dirname(f) == directory):
                        args, shape, want = read_golden(file)
                        parts = {"decoder": args.pop("decoder", None), "adapters": args.pop("loras", None)}
                        paint = own if parts == {"decoder": None, "adapters": None} else accel.pipeline(task, directory, device=device, **parts)
                        if "num_images_per_prompt" in args and task != "text-to-image":
                            args["batch_size"] = args.pop("num_images_per_prompt")
                        generator = args.pop("seeds", None) or args.pop("seed")
                        flagged = args.pop("nsfw_content_detected", None)
                        made = paint(**args, generator=generator, output_type="np")
                        self.assert_pixels(raw(made.images), want, shape, f"{device} {file}")
                        self.assertEqual(made.nsfw_content_detected, flagged, file)

    def test_the_tool_writes_the_same_pictures(self):
        for file in sorted(f for name in ("euler", "inpaint", *UNCONDITIONAL) for f in glob.glob(os.path.join(PIPELINES, name, "golden.*.safetensors"))) + [
                os.path.join(PIPELINES, "sd3", "golden.plain.safetensors")]:
            args, shape, want = read_golden(file)
            if "seeds" in args:
                continue
            with tempfile.TemporaryDirectory() as work:
                words = [w for name, option in OPTIONS.items() if name in args for w in (option, str(args[name]))]
                if "width" in args:
                    words += ["--size", f"{args['width']}x{args['height']}"]
                words += ["--tile"] if args.get("vae_tiling") else []
                words += [w for path, scale in args.get("loras", []) for w in ("--lora", f"{path}:{scale}")]
                out = os.path.join(work, "out.png")
                run = tool("text-to-image", os.path.dirname(file), *args.get("prompt", []), "-o", out, "-d", "cpu", "-q", *words)
                self.assertEqual(run.returncode, 0, run.stderr)
                names = run.stdout.split()
                self.assertEqual(names, [out] if shape[0] == 1 else [os.path.join(work, f"out.{i + 1}.png") for i in range(shape[0])])
                pictures = [read_png(name) for name in names]
                self.assertEqual({(w, h) for w, h, _ in pictures}, {(shape[2], shape[1])})
                self.assert_pixels(b"".join(b"".join(bytes(r) for r in rows) for _, _, rows in pictures), want, shape, file)

    def test_the_safety_checker(self):
        directory = os.path.join(PIPELINES, "safety")
        how = {"num_inference_steps": 2, "num_images_per_prompt": 2, "generator": 3, "output_type": "np"}
        with accel.pipeline("text-to-image", directory, device="cpu", safety_checker=None) as paint:
            made = paint(["a cat", "the dog"], **how)
            self.assertIsNone(made.nsfw_content_detected)
            self.assertTrue(all(any(raw([i])) for i in made.images))
            for image in paint.model.text_to_image(["ein Kätzchen"], 3, steps=1, negative_prompt="blau").images:
                self.assertNotIn("Safety", image.parameters)
        with tempfile.TemporaryDirectory() as work:
            out = os.path.join(work, "out.png")
            words = ("text-to-image", directory, "a cat", "the dog", "-o", out, "-d", "cpu", "--steps", "2", "--n", "2", "--seed", "3")
            run = tool(*words, "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual([i["nsfw_content_detected"] for i in json.loads(run.stdout)["images"]], [True, False, False, True])
            self.assertIn("flagged 2 of 4", run.stderr)
            self.assertFalse(any(any(row) for row in read_png(os.path.join(work, "out.1.png"))[2]))
            with open(os.path.join(work, "out.2.png"), "rb") as f:
                text = f.read()
            self.assertIn(b"tEXtparameters\0a cat\nSteps: 2, Sampler: EulerDiscreteScheduler, CFG scale: 7.5, Seed: 3, Size: 16x16, Model: safety, Batch size: 4", text)
            self.assertIn(b"Batch pos: 1, Safety checker: passed", text)
            run = tool(*words[:2], "ein Kätzchen", *words[4:8], "--steps", "1", "--no-safety", "--negative", "blau", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("nsfw", run.stdout)
            with open(out, "rb") as f:
                self.assertIn("iTXtparameters\0\0\0\0\0ein Kätzchen\nNegative prompt: blau\nSteps: 1".encode(), f.read())

    def test_safety_checkers_that_are_not_whole_are_explained(self):
        def config(directory, part, file, **fields):
            path = os.path.join(directory, part, file)
            with open(path, encoding="utf-8") as f:
                content = json.load(f)
            with open(path, "w", encoding="utf-8") as f:
                json.dump({**content, **fields}, f)

        for edit, message in ((lambda d: shutil.rmtree(os.path.join(d, "safety_checker")), "--no-safety"), (lambda d: shutil.rmtree(os.path.join(d, "feature_extractor")), "feature_extractor"),
                              (lambda d: os.remove(os.path.join(d, "safety_checker", "model.safetensors")), "--no-safety"),
                              (lambda d: config(d, "safety_checker", "config.json", architectures=["OtherChecker"]), "OtherChecker"),
                              (lambda d: config(d, "safety_checker", "config.json", projection_dim=7), "visual_projection"),
                              (lambda d: config(d, "feature_extractor", "preprocessor_config.json", crop_size=10), "crop_size")):
            with tempfile.TemporaryDirectory() as work:
                run = self.edited(work, edit, "safety")
                self.assertIn(run.returncode, (1, 2, 3), (message, run.stdout, run.stderr))
                self.assertIn(message, run.stderr)

    def test_company_changes_no_picture(self):
        with accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu") as paint:
            how = {"num_inference_steps": 3, "output_type": "np"}
            both = paint(["a cat", "the dog"], generator=[5, 6], **how).images
            alone = [paint(prompt, generator=seed, **how).images[0] for prompt, seed in (("a cat", 5), ("the dog", 6))]
            self.assertEqual(raw(both), raw(alone))

    def test_steps_are_told_and_can_end_the_call(self):
        with accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu") as paint:
            told = []

            def on_step(step, steps, latents):
                told.append((step, steps, len(latents)))
                return step == 3

            with self.assertRaises(accel.CancelledError):
                paint("a cat", num_inference_steps=6, generator=1, on_step=on_step)
            self.assertEqual(told, [(1, 6, 256), (2, 6, 256), (3, 6, 256)])
            with self.assertRaisesRegex(ZeroDivisionError, "division"):
                paint("a cat", num_inference_steps=2, on_step=lambda *_: 1 // 0)
            self.assertEqual(len(paint("a cat", num_inference_steps=2).images), 1)

    @unittest.skipIf(FEWER, "a sanitizer's rates, which take it minutes to measure")
    def test_times_are_foretold(self):
        call = ["fit", os.path.join(PIPELINES, "euler"), "--device", "cpu", "--precision", "fp32", "--size", "96x64", "--n", "2", "--steps", "3", "--memory", "8G"]
        larger = json.loads(tool(*call, "--json", "-").stdout)["devices"][0]
        self.assertTrue(all(0 < r["seconds"] < 60 for r in larger["runs"]), larger["runs"])
        self.assertAlmostEqual(larger["seconds_per_call"], sum(r["times"] * r["seconds"] for r in larger["runs"]), places=9)
        done = tool(*call)
        self.assertRegex(done.stdout, r"cpu at fp32: the pictures [0-9.e-]+ s: 1 x text [0-9.e-]+ s, 1 x text .* 3 x forward [0-9.e-]+ s, 2 x decode_latents")

    def test_a_call_is_planned_and_timed_run_by_run(self):
        """accel fit lists the runs of a call, as often as accel bench then sees steps of each part; predict follows from what bench stored."""
        directory, size = os.path.join(PIPELINES, "euler"), ["--size", "24x16", "--n", "2", "--steps", "3"]
        done = tool("fit", directory, "--device", "cpu", "--precision", "fp32", *size, "--json", "-")
        fit = json.loads(done.stdout)
        self.assertEqual((fit["batch"], fit["seq"], fit["height"], fit["steps"]), (2, 24, 16, 3))
        runs = fit["devices"][0]["runs"]
        self.assertEqual([(r["entry"], r["times"]) for r in runs], [("text", 1), ("text", 1), ("forward", 3), ("decode_latents", 2)])
        self.assertEqual(fit["devices"][0]["scratch_bytes"], max(r["scratch_bytes"] for r in runs))
        self.assertNotIn("seconds", runs[0])
        with tempfile.TemporaryDirectory() as work:
            db = ["--db", os.path.join(work, "runs.sqlite")]
            done = tool("bench", directory, "--device", "cpu", *size, "--iters", "2", "--warmup", "1", "--profile", *db, "--json", "-")
            bench = json.loads(done.stdout)
            self.assertEqual((bench["task"], bench["output"]), ("text-to-image", "pictures 24x16, 3 steps"))
            self.assertGreater(bench["max_ms"], min(bench["step_samples_ms"]) + min(bench["decode_samples_ms"]))
            calls = {step["name"]: step["calls"] for step in bench["profile"]["steps"]}
            self.assertEqual({v for k, v in calls.items() if k.startswith("unet.")}, {3})
            self.assertEqual({v for k, v in calls.items() if k.startswith("vae.")}, {2})
            done = tool("predict", directory, "--device", "cpu", *size, *db, "--json", "-")
            told = json.loads(done.stdout)["predictions"][0]
            parts = told["texts_ms"] + 3 * told["step_ms"]["predicted"] + told["decode_ms"]
            self.assertAlmostEqual(told["latency_ms"]["predicted"], parts, delta=1e-6 * parts)
        for part, unit in (("unet", "latents"), ("vae", "pictures"), ("text_encoder", "tokens")):
            done = tool("bench", os.path.join(directory, part), "--device", "cpu", "--iters", "1", "--warmup", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(unit, done.stdout)
        self.assertIn("pipelines", tool("fit", os.path.join(directory, "unet"), "--size", "8x8").stderr)
        self.assertIn("multiples of 8", tool("fit", directory, "--size", "20x16").stderr)

    def test_wrong_arguments_are_named(self):
        where = os.path.join(PIPELINES, "euler")
        for words, code, message in ((["a", "-o", "x.png", "--size", "20x16"], 2, "20 pixels"), (["a", "-o", "x.png", "--size", "16"], 2, "WIDTHxHEIGHT"),
                                     (["a", "-o", "x.png", "--scheduler", "foo"], 3, "foo"), (["a", "-o", "x.png", "--steps", "1001"], 2, "1001 steps"),
                                     (["a", "-o", "x.png", "--clip-skip", "4"], 2, "clip_skip"), (["a"], 2, "-o FILE.png"),
                                     (["a", "-o", os.path.join(where, "none", "x.png"), "--steps", "1"], 1, "x.png")):
            run = tool("text-to-image", where, *words, "-d", "cpu", "-q")
            self.assertEqual(run.returncode, code, (words, run.stderr))
            self.assertIn(message, run.stderr)
        for name, words, code, message in (("sd3", ["--size", "18x16"], 2, "18 pixels"), ("sd3", ["--size", "64x16"], 2, "at most 48"), ("sd3", ["--clip-skip", "3"], 2, "clip_skip"),
                                           ("sd3", ["--init", os.path.join(FIXTURES, "image", "pictures", "rgb.png"), "--scheduler", "unipc"], 3, "begin with a picture"),
                                           ("sd3", ["--skip-layers", "1,2"], 2, "0 to 1"), ("sd3", ["--skip-layers", "1,,2"], 2, "with commas"), ("flux", ["--skip-layers", "1"], 3, "of SD 3"),
                                           ("sd3", ["--true-cfg-scale", "2"], 3, "of Flux"), ("sd3_sees_mask", [], 2, "'in_channels' is 33"),
                                           ("flux", ["--size", "18x16", "--init", os.path.join(FIXTURES, "image", "pictures", "rgb.png")], 2, "18 pixels"),
                                           ("flux", ["--scheduler", "euler"], 3, "use_flow_sigmas"), ("euler", ["--scheduler", "flow-match-euler"], 3, "predict flow"),
                                           ("flux", ["--max-sequence-length", "513"], 2, "max-sequence-length")):
            run = tool("text-to-image", os.path.join(PIPELINES, name), "a", "-o", "x.png", "--steps", "1", *words, "-d", "cpu", "-q")
            self.assertEqual(run.returncode, code, (name, words, run.stderr))
            self.assertIn(message, run.stderr)
        pixels = os.path.join(FIXTURES, "image", "pictures", "rgb.png")
        for name, words, code, message in (
                ("euler", ["a", "--mask", pixels], 2, "--init"), ("euler", [], 2, "no prompts"), ("euler", ["a", "--steps", "0"], 2, "--steps"),
                ("euler", ["a", "--init", pixels, "--mask", "none.png"], 1, "none.png"), ("euler", ["a", "--size", "16392x16"], 2, "16392 pixels"),
                ("euler", ["a", "--init", pixels, "--mask", pixels, "--size", "17x16"], 2, "17 pixels"), ("inpaint", ["a"], 2, "'in_channels' is 9"),
                ("inpaint", ["a", "--init", pixels], 2, "--mask"), ("ddpm", ["a"], 2, "takes no prompts"), ("ddpm", ["--init", pixels], 2, "takes no image"),
                ("ddpm", ["--guidance", "2"], 2, "guidance_scale"), ("ddpm", ["--size", "16x16"], 2, "12 x 8 pixels"), ("ddpm", [], 2, "1000 steps"),
                ("euler", ["a", "--tile", "--decoder", os.path.join(FIXTURES, "models", "vae_tiny")], 3, "tiles")):
            run = tool("text-to-image", os.path.join(PIPELINES, name), *words, "-o", "x.png", "-d", "cpu", "-q")
            self.assertEqual(run.returncode, code, (name, words, run.stderr))
            self.assertIn(message, run.stderr)
        minilm = os.path.join(ROOT, "tests", "fixtures", "models", "bert")
        run = tool("text-to-image", minilm, "a", "-o", "x.png", "-d", "cpu", "-q")
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("text-to-image", run.stderr)

    def edited(self, work, edit, name="euler"):
        """A copy of a pipeline's directory after edit(directory)."""
        directory = os.path.join(work, "pipeline")
        shutil.copytree(os.path.join(PIPELINES, name), directory)
        edit(directory)
        return tool("text-to-image", directory, "a", "-o", os.path.join(work, "x.png"), "--steps", "1", "-d", "cpu", "-q")

    def test_broken_directories_are_explained(self):
        def rewrite(name, **fields):
            def edit(directory):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as f:
                    content = json.load(f)
                with open(path, "w", encoding="utf-8") as f:
                    json.dump({**content, **fields}, f)
            return edit

        def cut(directory):
            with open(os.path.join(directory, "vae", "config.json"), "w", encoding="utf-8") as f:
                f.write('{"in_channels": ')

        def spoil(directory):
            path = os.path.join(directory, "unet", "diffusion_pytorch_model.safetensors")
            with open(path, "rb") as f:
                data = bytearray(f.read())
            begin = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["conv_out.bias"]["data_offsets"][0] + 8 + struct.unpack("<Q", data[:8])[0]
            data[begin:begin + 4] = struct.pack("<f", float("nan"))
            with open(path, "wb") as f:
                f.write(data)

        cases = ((spoil, "finite"), (lambda d: shutil.rmtree(os.path.join(d, "unet")), "unet"), (cut, os.path.join("vae", "config.json")),
                 (lambda d: os.remove(os.path.join(d, "vae", "diffusion_pytorch_model.safetensors")), "vae"),
                 (rewrite("model_index.json", _class_name="StableDiffusion9Pipeline"), "StableDiffusion9Pipeline"),
                 (rewrite("unet/config.json", down_block_types=["CrossAttnDownBlock2D", "FancyBlock"]), "FancyBlock"),
                 (rewrite("unet/config.json", addition_embed_type="image"), "addition_embed_type"),
                 (rewrite("unet/config.json", block_out_channels=[8, 24]), "unet."), (rewrite("unet/config.json", in_channels=5), "unet.conv_in.weight"),
                 (rewrite("vae/config.json", latent_channels=3), "vae."), (rewrite("model_index.json", unet=[None, None]), "unet"),
                 (rewrite("scheduler/scheduler_config.json", beta_schedule="odd"), "beta_schedule"),
                 (rewrite("scheduler/scheduler_config.json", flavour="sweet"), "flavour"))
        cases = [("euler", *c) for c in cases] + [
            ("sd3", rewrite("transformer/config.json", qk_norm="l2"), "qk_norm"), ("sd3", rewrite("transformer/config.json", pos_embed_max_size=None), "pos_embed_max_size"),
            ("sd3", rewrite("transformer/config.json", caption_projection_dim=14), "caption_projection_dim"), ("sd3", rewrite("transformer/config.json", num_layers=3), "transformer."),
            ("sd3", rewrite("transformer/config.json", joint_attention_dim=24), "context_embedder"), ("sd3", rewrite("vae/config.json", latent_channels=8), "vae.decoder.conv_in"),
            ("sd3", lambda d: shutil.rmtree(os.path.join(d, "text_encoder_3")), "text_encoder_3"), ("flux", rewrite("transformer/config.json", axes_dims_rope=[2, 2, 6]), "axes_dims_rope"),
            ("flux", rewrite("transformer/config.json", guidance_embeds=False, in_channels=18), "x_embedder"), ("flux", rewrite("scheduler/scheduler_config.json", time_shift_type="odd"), "time_shift_type"),
            ("euler", rewrite("scheduler/scheduler_config.json", _class_name="FlowMatchEulerDiscreteScheduler"), "predict flow")]
        for name, edit, message in cases:
            with tempfile.TemporaryDirectory() as work:
                run = self.edited(work, edit, name)
                self.assertIn(run.returncode, (1, 3), (message, run.stdout, run.stderr))
                self.assertIn(message, run.stderr)
                self.assertFalse(os.path.exists(os.path.join(work, "x.png")))

    def test_a_pipeline_of_its_own_with_a_tiny_autoencoder(self):
        """Gives what --decoder gives; older configs do not say how many pixels a latent has."""
        tiny = os.path.join(FIXTURES, "models", "vae_tiny")

        def replace(directory):
            shutil.rmtree(os.path.join(directory, "vae"))
            os.mkdir(os.path.join(directory, "vae"))
            shutil.copy(os.path.join(tiny, "diffusion_pytorch_model.safetensors"), os.path.join(directory, "vae"))
            with open(os.path.join(tiny, "config.json"), encoding="utf-8") as f:
                config = json.load(f)
            config.pop("block_out_channels", None)
            with open(os.path.join(directory, "vae", "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)

        with tempfile.TemporaryDirectory() as work:
            run = self.edited(work, replace)
            self.assertEqual(run.returncode, 0, run.stderr)
            other = os.path.join(work, "other.png")
            run = tool("text-to-image", os.path.join(PIPELINES, "euler"), "a", "-o", other, "--steps", "1", "-d", "cpu", "-q", "--decoder", tiny)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(read_png(os.path.join(work, "x.png")), read_png(other))
        for model, decoder, code, message in ((os.path.join(PIPELINES, "ddpm"), tiny, 2, "no autoencoder"), (tiny, tiny, 2, "model_index.json"),
                                              (os.path.join(PIPELINES, "euler"), "none", 1, "none"), (os.path.join(PIPELINES, "euler"), os.path.join(FIXTURES, "models", "bert"), 1, "vae."),
                                              (os.path.join(PIPELINES, "euler"), tiny + "_more", 3, "upsampling_scaling_factor")):
            run = tool("text-to-image", model, "a", "-o", "x.png", "-d", "cpu", "-q", "--decoder", decoder)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertIn(message, run.stderr)

    def test_loras_that_do_not_match_are_refused_by_name(self):
        with open(os.path.join(FIXTURES, "diffusion", "lora", "plain.safetensors"), "rb") as f:
            data = f.read()
        n = struct.unpack("<Q", data[:8])[0]
        header, tail = json.loads(data[8:8 + n]), data[8 + n:]
        one = "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q"

        def renamed(old, new):
            return {key.replace(old, new): value for key, value in header.items()}

        for changed, code, message in ((renamed("down_blocks.0", "down_blocks.7"), 1, "down_blocks.7"), (renamed("unet.", "vae."), 1, "'vae."), (renamed("to_q.lora_B", "to_q.dora_scale"), 1, "dora_scale"),
                                       (renamed(one + ".lora_B", one + "_other.lora_B"), 1, "two matrices"),
                                       ({**header, one + ".lora_A.weight": {**header[one + ".lora_A.weight"], "shape": [4, 4]}}, 1, one),
                                       ({**header, "__metadata__": {"lora_adapter_metadata": json.dumps({"unet.alpha_pattern": {"to_q": 3}})}}, 3, "unet.alpha_pattern"),
                                       ({**header, "__metadata__": {"lora_adapter_metadata": "{"}}, 1, "lora.safetensors"), ({"__metadata__": {}}, 1, "no tensors")):
            with tempfile.TemporaryDirectory() as work:
                path, text = os.path.join(work, "lora.safetensors"), json.dumps(changed).encode()
                with open(path, "wb") as f:
                    f.write(struct.pack("<Q", len(text)) + text + (tail if len(changed) > 1 else b""))
                run = tool("text-to-image", os.path.join(PIPELINES, "euler"), "a", "-o", os.path.join(work, "x.png"), "--steps", "1", "-d", "cpu", "-q", "--lora", path)
                self.assertEqual(run.returncode, code, (message, run.stderr))
                self.assertIn(message, run.stderr)
        with tempfile.NamedTemporaryFile(suffix=".ckpt") as pickle:
            run = tool("text-to-image", os.path.join(PIPELINES, "euler"), "a", "-o", "x.png", "-d", "cpu", "-q", "--lora", pickle.name)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("no safetensors one", run.stderr)
        run = tool("text-to-image", os.path.join(PIPELINES, "euler"), "a", "-o", "x.png", "-d", "cpu", "-q", "--lora", "none.safetensors:0.5")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("none.safetensors", run.stderr)

    def lora(self, work, name, change):
        """A copy of a LoRA file, its header after change(header), which may return bytes to append to the tensors."""
        with open(os.path.join(FIXTURES, "diffusion", "lora", name + ".safetensors"), "rb") as f:
            data = f.read()
        n = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + n])
        more = change(header) or b""
        text = json.dumps(header).encode()
        path = os.path.join(work, "lora.safetensors")
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data[8 + n:] + more)
        return path

    def test_magnitudes_in_the_names_of_lycoris(self):
        def renamed(header):
            for key in [k for k in header if k.endswith(".lora_magnitude_vector")]:
                entry = header.pop(key)
                shape = [n for n in entry["shape"] if n > 1]
                header[key.replace("lora_magnitude_vector", "dora_scale")] = {**entry, "shape": shape + [1] * max(1, len(entry["shape"]) - 1)}

        def for_inputs(header):
            renamed(header)
            key = next(k for k in header if k.endswith("ff.net.0.proj.dora_scale"))
            header[key]["shape"] = header[key]["shape"][::-1]

        args, shape, want = read_golden(os.path.join(PIPELINES, "euler", "golden.lora_dora.safetensors"))
        with tempfile.TemporaryDirectory() as work:
            path = self.lora(work, "dora", renamed)
            with accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu", adapters=[path]) as paint:
                made = paint(args["prompt"], num_inference_steps=args["num_inference_steps"], generator=args["seed"], output_type="np").images
            self.assert_pixels(raw(made), want, shape, path)
            with self.assertRaisesRegex(accel.AccelError, "dora_scale, which programs take at a scale of 1"):
                accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu", adapters=[(path, 0.5)])
            with self.assertRaisesRegex(accel.AccelError, "ff.net.0.proj' has a dora_scale for its inputs"):
                accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu", adapters=[self.lora(work, "dora", for_inputs)])

    def test_locon_loha_and_lokr_that_are_not_whole_are_refused(self):
        modules = ("lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q", "lora_unet_down_blocks_0_resnets_0_conv1")

        def of(header, name):
            return next(module for module in modules if f"{module}.{name}" in header)

        def dropped(name):
            return lambda header: header.update({f"{of(header, name)}_other.{name}": header.pop(f"{of(header, name)}.{name}")})

        def moved(name, other):
            return lambda header: header.update({f"{of(header, name)}.{other}": header.pop(f"{of(header, name)}.{name}")})

        def shaped(name, shape):
            return lambda header: header[f"{of(header, name)}.{name}"].update(shape=shape)

        for file, change, message in (("locon", dropped("lora_down.weight"), "no lora_down or lora_up"), ("locon", shaped("lora_mid.weight", [2, 1, 3, 6]), "a kernel that does not fit"),
                                      ("locon", moved("alpha", "dora_scale"), "magnitudes beside lora_mid"), ("loha", dropped("hada_w1_a"), "only part of hada_w1"), ("loha", dropped("hada_w2_b"), "only part of hada_w2"), ("loha", moved("hada_w1_a", "hada_t1"), "only part of hada_w1"),
                                      ("loha", moved("hada_w1_a", "lokr_w1"), "side by side"), ("loha", shaped("hada_w1_a", [2, 8]), "hada_w1_a"), ("loha", moved("alpha", "dora_scale"), "magnitudes beside"),
                                      ("lokr", dropped("lokr_w2_b"), "no lokr_w2"), ("lokr", dropped("lokr_w1"), "no lokr_w1"), ("lokr_whole", dropped("lokr_w1"), "no lokr_w1"),
                                      ("lokr_whole", shaped("lokr_w1", [4]), "does not divide"), ("lokr_whole", shaped("lokr_w1", [1, 4]), modules[0])):
            with tempfile.TemporaryDirectory() as work:
                path = self.lora(work, file, change)
                with self.assertRaises(accel.AccelError) as caught:
                    accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu", adapters=[path])
                self.assertIn(message, str(caught.exception), (file, message))
                self.assertIn("lora.safetensors", str(caught.exception))

    def test_half_precision_weights_under_their_own_name(self):
        def rename(directory):
            for part in ("unet", "vae"):
                old = os.path.join(directory, part, "diffusion_pytorch_model.safetensors")
                shutil.copy(old, os.path.join(directory, part, "diffusion_pytorch_model.non_ema.safetensors"))
                os.rename(old, os.path.join(directory, part, "diffusion_pytorch_model.fp16.safetensors"))
        with tempfile.TemporaryDirectory() as work:
            run = self.edited(work, rename)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_variant(self):
        """--variant reads the files of that name, of parts that have them; the plain ones are broken here."""
        def keep(directory):
            for part in ("unet", "vae"):
                plain = os.path.join(directory, part, "diffusion_pytorch_model.safetensors")
                os.rename(plain, plain.replace(".safetensors", ".fp16.safetensors"))
                with open(plain, "wb") as file:
                    file.write(b"no tensors")
        with tempfile.TemporaryDirectory() as work:
            run = self.edited(work, keep)
            self.assertNotEqual(run.returncode, 0)
            where, picture = os.path.join(work, "pipeline"), os.path.join(work, "variant.png")
            run = tool("text-to-image", where, "a", "-o", picture, "--steps", "1", "-d", "cpu", "-q", "--variant", "fp16")
            self.assertEqual(run.returncode, 0, run.stderr)
            pipe = accel.pipeline("text-to-image", where, device="cpu", variant="fp16")
            self.assertEqual(len(pipe("a", num_inference_steps=1).images), 1)
            run = tool("text-to-image", where, "a", "-o", picture, "--steps", "1", "-d", "cpu", "-q", "--variant", "bf16")
            self.assertNotEqual(run.returncode, 0)
            with self.assertRaises(accel.AccelError) as caught:
                accel.pipeline("text-to-image", os.path.join(PIPELINES, "euler"), device="cpu", variant="bf16")
            self.assertIn("no weights of the variant 'bf16'", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
