"""`accel verify` on the goldens (tests/fixtures/models/goldens*.list) on the devices in ACCEL_TEST_GPU_DEVICES (default: opencl).

All of them at fp32, and one golden of each model class, of its smallest model, at fp16 and int8; with ACCEL_TEST_GPU_ALL=1 all of them at these, too (the long tier).
With ACCEL_TEST_GPU_CLASSES=K/N one golden of each model class, of its smallest model, for the Kth of N shares of the classes: all of the share at fp32, a sixth of
it at fp16 and another at int8.  Vulkan and hip-emulated take a half each outside of the long tier, and there waves of 64 (hip-emulated:64) 1/1.
A device that is not there is skipped with its reason."""
import json
import os
import subprocess
import unittest

import test_goldens

DEVICES = os.environ.get("ACCEL_TEST_GPU_DEVICES", "opencl").split()
ALL = os.environ.get("ACCEL_TEST_GPU_ALL", "0") != "0"
CLASSES = [int(word) for word in os.environ.get("ACCEL_TEST_GPU_CLASSES", "").split("/") if word]


def resolve(device):
    """(the name of the device that is meant, None), or (None, why it cannot be used)."""
    done = subprocess.run([test_goldens.ACCEL, "detect", device, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    return (json.loads(done.stdout)["device"], None) if done.returncode == 0 else (None, done.stderr)


def size(line):
    """Bytes of a model's weights."""
    folder = os.path.join(test_goldens.MODELS, line[0])
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.startswith("model") and name.endswith(".safetensors"))


def smallest(lines, key):
    """Of the lines that agree in `key` the first of the smallest model, smallest models first."""
    return sorted({key(line): line for line in sorted(reversed(lines), key=size, reverse=True)}.values(), key=size)


# A variable that names a library: with it, its devices are to be there.
REQUIRED = {"openvino": "ACCEL_OPENVINO_DIR", "onnxruntime": "ACCEL_ONNXRUNTIME_DIR", "qualcomm": "ACCEL_ONNXRUNTIME_DIR", "webgpu": "ACCEL_WEBGPU_DIR",
            "opencl": "OCL_ICD_VENDORS"}
# Qualcomm's NPU has no fp32; a session takes its simulator seconds to make, so of these classes only.
NPU_CLASSES = {"BertModel", "CLIPModel", "CLIPTextModel", "CLIPTextModelWithProjection", "CLIPVisionModel", "CLIPVisionModelWithProjection", "DINOv3ViTModel",
               "DistilBertModel", "EuroBertModel", "MobileBertModel", "ModernBertModel", "NomicBertModel", "ViTModel", "VitsModel", "WhisperForAudioClassification",
               "XCLIPModel", "XCLIPTextModel", "XCLIPVisionModel", "GPT2Model", "Gemma2Model", "ClapAudioModelWithProjection", "RTDetrV2ForObjectDetection",
               "Wav2Vec2ForAudioFrameClassification", "WavLMForCTC", "DonutSwinForImageClassification"}
NPU_MODELS = {"../speech/english", "llama_far", "qwen3_vl_base", "wav2vec2_deep", "wav2vec2_long", "wav2vec2_long_speaker", "rt_detr_heads", "unet_sdxl", "clap_fusion"}  # Whisper that generates; far positions; shares of positions; lengths of masked sounds; many rows; angles; a padded tensor doubled
# What a device says no to, by the start of the model's folder, and how.
REFUSED = dict.fromkeys(("openvino", "onnxruntime"), {start: "not part of a static graph" for start in ("mamba", "qwen3_next", "qwen3_5")})


class GpuGoldens(unittest.TestCase):
    def check(self, device, precision, goldens):
        refused = REFUSED.get(device.split(":")[0], {})
        # without our cache: to hand out a binary PoCL, which has one of its own, compiles each kernel a second time, for work-groups of any size
        reports = test_goldens.verify_all(device, precision, goldens, timeout=3600 if ALL else 1500, ACCEL_NO_CACHE=str(int("opencl" in device)))
        for (model, golden, *_), report in zip(goldens, reports):
            with self.subTest(device=device, precision=precision, model=model, golden=golden):
                reason = next((reason for start, reason in refused.items() if os.path.basename(model).startswith(start)), None)
                if reason:
                    self.assertIn(reason, report.get("error", ""), report)
                    continue
                self.assertTrue(report.get("pass"), report)
                self.assertEqual(report["device"], device)

    def test_goldens(self):
        goldens = test_goldens.goldens()
        for wanted in DEVICES:
            device, reason = resolve(wanted)
            if reason and os.environ.get(REQUIRED.get(wanted, "")):
                self.fail(reason)
            if reason:
                self.skipTest(reason)
            if wanted == "qualcomm":
                some = [line for line in goldens if line[0] in NPU_MODELS or len(line) > 2 and line[2] in NPU_CLASSES]
                for precision in ("fp16", "int8"):
                    self.check(device, precision, some)
                continue
            if CLASSES:
                share, shares = CLASSES
                goldens = smallest(goldens, lambda line: line[2] if len(line) > 2 else line[0])[share - 1 :: shares]
            self.check(device, "fp32", goldens)
            first = smallest(goldens, lambda line: line[2] if len(line) > 2 else line[0])
            for part, precision in enumerate(("fp16", "int8")):
                self.check(device, precision, goldens if ALL else first[part::6] if CLASSES else first)


if __name__ == "__main__":
    unittest.main()
