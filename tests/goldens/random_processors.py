#!/usr/bin/env python3
"""Compares libaccel's tensors of pictures and sounds with transformers' on processors that are not in the tree: takes those of
tests/fixtures/image/processors and tests/fixtures/audio/features, changes up to three fields at random, and gives both a made picture of random sides and
channels, or made sounds of random lengths.

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
import wave

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

WORDS = {"truncation": ("fusion", "rand_trunc"), "padding": ("repeatpad", "repeat", "pad"), "padding_side": ("right", "left")}


def changed(key, value, rng):
    """Another value of a field, or None."""
    if any(part in key for part in LEFT):
        return None
    if isinstance(value, bool):
        return not value
    if key == "resample":
        return rng.randrange(6)
    if key in WORDS:
        return rng.choice(WORDS[key])
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
            if name in ("pixel_values", "input_features", "input_values", "attention_mask", "is_longer"):
                yield f"no {name}"
        elif got[name].shape != value.shape:
            yield f"{name} {list(got[name].shape)} for {list(value.shape)}"
        else:
            off = (got[name].double() - value.double()).abs()
            if off.numel() and not off.max() <= (1e-4 if name == "input_features" else 2e-5) * max(1.0, float(value.double().abs().max())):
                yield f"{name} off by {float(off.max()):.4g} in {float((off > 1e-5).double().mean()):.4f} of its elements"


def sounds(config, rng):
    """Sounds of 16 bits, one to three; of 10 ms to 2.5 seconds.  CLAP has one, no longer than what it takes, for it draws crops, and which of several is marked."""
    made, rate, clap = [], config["sampling_rate"], "max_length_s" in config
    for _ in range(1 if clap else rng.choice((1, 1, 2, 3))):
        n = max(1, int(rate * min(rng.choice((rng.uniform(0.01, 0.4), rng.uniform(0.4, 2.5))), config["max_length_s"] if clap else 3)))
        t = np.arange(n) / rate
        x = rng.uniform(0.02, 0.6) * np.sin(2 * np.pi * (150 + 900 * t) * t) + 0.03 * np.random.RandomState(rng.randrange(1 << 30)).randn(n)
        made.append((x.clip(-0.99, 0.99) * 32767).astype("<i2"))
    return made


def write_sound(path, samples, rate):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return str(path)


def seen(directory, image):
    """What transformers makes of a picture, and what libaccel is to be given."""
    shutil.copy(FIXTURES / "media" / "vit" / "config.json", directory)
    path = directory / "picture.png"
    image.save(path)
    processor = transformers.AutoImageProcessor.from_pretrained(directory)
    return processor(images=[load_image(str(path))], return_tensors="pt"), ["--image", str(path)]


def heard(directory, made):
    """The same of sounds."""
    extractor = transformers.AutoFeatureExtractor.from_pretrained(directory)
    given = []
    for i, samples in enumerate(made):
        given += ["--audio", write_sound(directory / f"{i}.wav", samples, extractor.sampling_rate)]
    np.random.seed(0)
    how = {"padding": True} if type(extractor).__name__ == "Wav2Vec2FeatureExtractor" else {"return_attention_mask": extractor.return_attention_mask}
    samples = [x.astype(np.float32) / 32768 for x in made]
    return extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt", **how), given


def compare(accel, directory, config, thing):
    """(outcome, what is to be said of it)"""
    (directory / "preprocessor_config.json").write_text(json.dumps(config))
    try:
        expected, given = heard(directory, thing) if isinstance(thing, list) else seen(directory, thing)
    except Exception:  # whatever transformers says of a config that it cannot take
        return "left out", ""
    done = subprocess.run([accel, "preprocess", str(directory), *given, "-o", str(directory / "out.safetensors"), "-q"], capture_output=True, text=True)
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
    for folder in sorted([*(FIXTURES / "image" / "processors").iterdir(), *(FIXTURES / "audio" / "features").iterdir()]):
        if options.processors and folder.name not in options.processors:
            continue
        base = json.loads((folder / "preprocessor_config.json").read_text())
        for turn in range(options.rounds):
            rng = random.Random(f"{options.seed} {folder.name} {turn}")
            config, notes = mutated(base, changed, rng.randint(0, 3), rng)
            thing = sounds(config, rng) if "sampling_rate" in config else picture(rng)
            with tempfile.TemporaryDirectory() as directory:
                outcome, why = compare(options.accel, pathlib.Path(directory), config, thing)
            count[outcome] += 1
            if outcome in ("failed", "refused"):
                shown = [len(x) for x in thing] if isinstance(thing, list) else f"{thing.width}x{thing.height} {thing.mode}"
                print(f"{outcome}: {folder.name} {shown} {' '.join(notes)}\n    {why}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
