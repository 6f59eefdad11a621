#!/usr/bin/env python3
"""Compares libaccel's tensors of pictures with transformers' on processors that are not in the tree: takes those of tests/fixtures/image/processors,
changes up to three fields at random, and gives both a made picture of random sides and channels.

    python3 tests/goldens/random_processors.py --accel build/release/bin/accel [--rounds N] [--seed S] [PROCESSOR ...]

What transformers itself does not take is left out.  Prints what differed and what was refused, then the counts; the exit status is 1 where something differed.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.image_utils import load_image

from random_configs import mutated

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
LEFT = ("_type", "transformers_version", "data_format", "return_tensors", "num_channels", "annotation", "id2label", "device", "processor_class")


def changed(key, value, rng):
    """Another value of a field, or None."""
    if any(part in key for part in LEFT):
        return None
    if isinstance(value, bool):
        return not value
    if key == "resample":
        return rng.randrange(6)
    if isinstance(value, int):
        return max(1, rng.choice((value + 1, value - 1, value * 2, value // 2, value + 3)))
    if isinstance(value, float):
        return round(value * rng.choice((0.5, 0.9, 1.3)), 8)
    if isinstance(value, list) and value and isinstance(value[0], float):
        return [round(x * rng.choice((0.7, 1.2)), 6) for x in value]
    if isinstance(value, list) and value and isinstance(value[0], list):
        return rng.sample(value, max(1, len(value) - 1))
    return None


def picture(rng):
    most = rng.choice((90, 400))
    width, height, channels = rng.randint(1, most), rng.randint(1, most), rng.choice((1, 3, 3, 4))
    noise = np.random.RandomState(rng.randrange(1 << 30)).randn(height, width, channels)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([127 + 90 * np.sin(x / (3 + c)) * np.cos(y / (4 + c)) for c in range(channels)], 2)
    pixels = (waves + 25 * noise).clip(0, 255).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)


def differences(expected, got):
    for name, value in expected.items():
        value = value if torch.is_tensor(value) else torch.as_tensor(np.array(value))
        if name not in got:
            if name == "pixel_values":
                yield "no pixel_values"
        elif got[name].shape != value.shape:
            yield f"{name} {list(got[name].shape)} for {list(value.shape)}"
        else:
            off = (got[name].double() - value.double()).abs()
            if off.numel() and off.max() > 2e-5 * max(1.0, float(value.double().abs().max())):
                yield f"{name} off by {float(off.max()):.4g} in {float((off > 1e-5).double().mean()):.4f} of its elements"


def compare(accel, directory, config, image):
    """(outcome, what is to be said of it)"""
    (directory / "preprocessor_config.json").write_text(json.dumps(config))
    shutil.copy(FIXTURES / "media" / "vit" / "config.json", directory)
    image.save(directory / "picture.png")
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(directory)
        expected = dict(processor(images=[load_image(str(directory / "picture.png"))], return_tensors="pt").items())
    except Exception:  # whatever transformers says of a config that it cannot take
        return "left out", ""
    done = subprocess.run([accel, "preprocess", str(directory), "--image", str(directory / "picture.png"), "-o", str(directory / "out.safetensors"), "-q"],
                          capture_output=True, text=True)
    if done.returncode:
        return "refused", done.stderr.strip()[:300]
    found = list(differences(expected, load_file(directory / "out.safetensors")))
    return ("failed", "; ".join(found)) if found else ("passed", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("processors", nargs="*")
    parser.add_argument("--accel", required=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    count = {"passed": 0, "failed": 0, "refused": 0, "left out": 0}
    for folder in sorted((FIXTURES / "image" / "processors").iterdir()):
        if options.processors and folder.name not in options.processors:
            continue
        base = json.loads((folder / "preprocessor_config.json").read_text())
        for turn in range(options.rounds):
            rng = random.Random(f"{options.seed} {folder.name} {turn}")
            config, notes = mutated(base, changed, rng.randint(0, 3), rng)
            image = picture(rng)
            with tempfile.TemporaryDirectory() as directory:
                outcome, why = compare(options.accel, pathlib.Path(directory), config, image)
            count[outcome] += 1
            if outcome in ("failed", "refused"):
                print(f"{outcome}: {folder.name} {image.width}x{image.height} {image.mode} {' '.join(notes)}\n    {why}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
