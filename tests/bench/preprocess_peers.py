#!/usr/bin/env python3
"""preprocess_bench beside transformers' feature extractors and image processors: one thread, the same files, interleaved; medians and their ratio.

    python3 tests/bench/preprocess_peers.py build/release/tests/bench/preprocess_bench [--rounds N] [--seconds S] [NAME...]

The peer is the class that AutoImageProcessor gives (torchvision's where it is installed: printed), or the extractor.  "process" begins with decoded pixels or
samples in memory, "all" with the file (Pillow, soundfile).  The values of both sides are compared.  Needs numpy, torch, transformers, pillow, soundfile.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
import numpy as np  # noqa: E402  (after OMP_NUM_THREADS)
import soundfile  # noqa: E402
import torch  # noqa: E402
import transformers as T  # noqa: E402
from PIL import Image  # noqa: E402

SOUNDS = {"whisper 30 s": (T.WhisperFeatureExtractor, {}, 30, 16000), "wav2vec2 30 s": (T.Wav2Vec2FeatureExtractor, {}, 30, 16000),
          "wav2vec2 5 s": (T.Wav2Vec2FeatureExtractor, {}, 5, 16000), "clap 10 s": (T.ClapFeatureExtractor, {"truncation": "rand_trunc"}, 10, 48000),
          "ast 10 s": (T.ASTFeatureExtractor, {}, 10, 16000)}
PICTURES = {"vit": (T.ViTImageProcessor, {}), "clip": (T.CLIPImageProcessor, {}), "detr": (T.DetrImageProcessor, {}), "llava-next": (T.LlavaNextImageProcessor, {})}


def scene(width, height):
    """Something like a photograph: smooth colours with edges and a little noise."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    random = np.random.default_rng(5)
    planes = [127 + 60 * np.sin(x / (37 + 11 * c) + y / 53) + 50 * (((x // 80 + y // 60 + c) % 3) - 1) + random.normal(0, 6, x.shape) for c in range(3)]
    return Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8))


def median_ms(call, seconds):
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        out = call()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), out


def compare(options, name, directory, path, read, process):
    mine, peer, gap = [], [], None
    values = os.path.join(directory, "values.bin")
    given = read()
    for _ in range(options.rounds):
        out = subprocess.run([options.program, directory, path, str(options.seconds), values], check=True, capture_output=True, text=True).stdout
        mine.append(json.loads(out))
        process_ms, made = median_ms(lambda: process(given), options.seconds)
        peer.append((process_ms, median_ms(lambda: process(read()), options.seconds)[0]))
        want = next(v for k, v in made.items() if k in ("input_features", "input_values", "pixel_values")).numpy().ravel()
        got = np.fromfile(values, np.float32)
        gap = float(np.abs(got - want).max()) if got.size == want.size else float("nan")
    ours = [statistics.median(m[k] for m in mine) for k in ("process_ms", "all_ms")]
    theirs = [statistics.median(p[k] for p in peer) for k in (0, 1)]
    print(f"| {name} | {ours[0]:.2f} | {theirs[0]:.2f} | {theirs[0] / ours[0]:.1f} | {ours[1]:.2f} | {theirs[1]:.2f} | {theirs[1] / ours[1]:.1f} | {gap:.1e} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--jpeg", default="640x480", help="sides of the picture")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| | process: ours ms | transformers ms | times | all: ours ms | transformers ms | times | largest difference |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for name, (cls, how, seconds, rate) in SOUNDS.items():
            if options.names and name.split()[0] not in options.names:
                continue
            directory = os.path.join(work, name.replace(" ", "_"))
            extractor, path = cls(**how), os.path.join(work, f"{rate}_{seconds}.wav")
            extractor.save_pretrained(directory)
            soundfile.write(path, (0.1 * np.random.default_rng(1).standard_normal(seconds * rate)).astype(np.float32), rate, subtype="PCM_16")
            compare(options, name, directory, path, lambda: soundfile.read(path, dtype="float32")[0], lambda x: extractor(x, sampling_rate=rate, return_tensors="pt"))
        path = os.path.join(work, "scene.jpg")
        scene(*(int(n) for n in options.jpeg.split("x"))).save(path, quality=90)
        for name, (cls, how) in PICTURES.items():
            if options.names and name not in options.names:
                continue
            directory = os.path.join(work, name)
            cls(**how).save_pretrained(directory)
            processor = T.AutoImageProcessor.from_pretrained(directory)
            compare(options, f"{name} ({type(processor).__name__}, {type(processor).__bases__[0].__name__})", directory, path, lambda: Image.open(path).convert("RGB"),
                    lambda x: processor(images=x, return_tensors="pt"))


if __name__ == "__main__":
    main()
