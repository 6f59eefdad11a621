"""Does what `accel tune` chooses hold on inputs that it was not given?  Models of real shapes with random weights (ViT-base,
Whisper-base, SmolLM2-135M), real pictures, speech and words: some for the search, others afterwards.

    tune_unseen.py FOLDER --sound SPEECH --pictures FOLDER_OF_PICTURES [--models vit,whisper,smollm] [--min-cosine 0.999,0.99] [--inputs 30] [--others 100]

FOLDER keeps the checkpoints (make_checkpoint of the build tree writes them) and the inputs.  SPEECH is a file that libsndfile reads; windows of it are taken at
random places, of random length and loudness, with noise.  Pictures are cut out at random, turned over and made lighter or darker.  Words are the documents of this
tree, each word's token being its rank.  Prints a row for each model and bound, and exits 1 where an input of the others is below the bound.
"""
import argparse
import collections
import ctypes
import glob
import json
import os
import random
import re
import struct
import subprocess
import sys
import time
import wave

import numpy as np

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
TOOL = os.path.join(BUILD, "bin", "accel")
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

SHAPES = {
    "vit": {"architectures": ["ViTModel"], "model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
            "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True},
    "whisper": {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 512, "encoder_layers": 6, "decoder_layers": 6,
                "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "num_mel_bins": 80,
                "max_source_positions": 1500, "max_target_positions": 448, "vocab_size": 51865, "activation_function": "gelu", "bos_token_id": 50257,
                "eos_token_id": 50257, "pad_token_id": 50257, "decoder_start_token_id": 50258},
    "smollm": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
               "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "hidden_act": "silu",
               "rope_theta": 100000.0, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0}}
PREPROCESSORS = {
    "vit": {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 448, "width": 448}, "resample": 2, "do_rescale": True,
            "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
    "whisper": {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "chunk_length": 30,
                "n_samples": 480000, "nb_max_frames": 3000, "padding_value": 0.0, "padding_side": "right", "return_attention_mask": False, "dither": 0.0}}
DTYPES = {"F32": np.float32, "I64": np.int64}


def make(folder, name):
    directory = os.path.join(folder, name)
    os.makedirs(directory, exist_ok=True)
    for file, content in (("config.json", SHAPES[name]), ("preprocessor_config.json", PREPROCESSORS.get(name))):
        if content:
            with open(os.path.join(directory, file), "w", encoding="utf-8") as f:
                json.dump(content, f)
    if not os.path.exists(os.path.join(directory, "model.safetensors")):
        subprocess.run([os.path.join(BUILD, "tests", "bench", "make_checkpoint"), directory], check=True, stdout=subprocess.DEVNULL)
    return directory


# ---- inputs ----

def read_tensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[slice(*v["data_offsets"])], DTYPES[v["dtype"]]).reshape(v["shape"]) for k, v in header.items() if k != "__metadata__"}


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, a in tensors.items():
        header[name] = {"dtype": "F32" if a.dtype == np.float32 else "I64", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(np.ascontiguousarray(a).tobytes() for a in tensors.values()))


def preprocess(directory, option, files):
    """The one tensor that a model of pictures or sounds reads, an item a file."""
    path = os.path.join(directory, "made.safetensors")
    subprocess.run([TOOL, "preprocess", directory, *(w for f in files for w in (option, f)), "--output", path, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    (tensor,) = (a for a in read_tensors(path).values() if a.ndim > 2)
    os.unlink(path)
    return tensor


def pictures(directory, given, chance, count):
    files = sorted(f for pattern in ("*.png", "*.jpg") for f in glob.glob(os.path.join(given.pictures, pattern)))
    whole = preprocess(directory, "--image", files)
    made = []
    for _ in range(count):
        picture, size = whole[chance.randrange(len(whole))], chance.choice((224, 280, 336, 448))
        y, x = (chance.randrange(448 - size + 1) for _ in "yx")
        at = (np.arange(224) * size) // 224
        part = picture[:, y + at][:, :, x + at]
        part = part[:, :, ::-1] if chance.random() < 0.5 else part
        made.append({"pixel_values": np.clip(part * chance.uniform(0.4, 1.3) + chance.uniform(-0.3, 0.3), -1, 1)[None].astype(np.float32)})
    return made


def read_sound(path):
    """Samples of the first channel at 16 kHz, by libsndfile; files of other rates that 16 kHz divides are thinned out."""
    class Info(ctypes.Structure):
        _fields_ = [("frames", ctypes.c_int64), *((n, ctypes.c_int) for n in ("rate", "channels", "format", "sections", "seekable"))]
    library, info = ctypes.CDLL("libsndfile.so.1"), Info()
    library.sf_open.restype, library.sf_readf_float.restype = ctypes.c_void_p, ctypes.c_int64
    library.sf_readf_float.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    file = library.sf_open(path.encode(), 0x10, ctypes.byref(info))
    if not file:
        sys.exit(f"{path}: libsndfile cannot read it")
    samples = np.empty((info.frames, info.channels), np.float32)
    library.sf_readf_float(file, samples.ctypes.data, info.frames)
    return samples[::max(1, info.rate // 16000), 0]


def sounds(directory, given, chance, count):
    samples, files = read_sound(given.sound), []
    words = tokens(chance, count, 4, 24)
    for i in range(count):
        n = int(16000 * chance.uniform(1.5, 9))
        begin = chance.randrange(len(samples) - n)
        noise = np.random.default_rng(chance.getrandbits(32)).normal(0, 10 ** chance.uniform(-4, -1.5), n)
        part = np.clip(samples[begin:begin + n] * chance.uniform(0.2, 1.5) + noise, -1, 1)
        files.append(os.path.join(directory, f"{i}.wav"))
        with wave.open(files[-1], "wb") as f:
            f.setnchannels(1), f.setsampwidth(2), f.setframerate(16000)
            f.writeframes((part * 32767).astype("<i2").tobytes())
    features = preprocess(directory, "--audio", files)
    for file in files:
        os.unlink(file)
    return [{"input_features": f[None].astype(np.float32), "decoder_input_ids": np.array([[50258, *w]], np.int64)} for f, w in zip(features, words)]


def tokens(chance, count, least, most):
    """Passages of the documents as ranks of words."""
    text = ""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as f:
            text += f.read()
    words = re.findall(r"\w+|[^\w\s]", text)
    rank = {word: i for i, (word, _) in enumerate(collections.Counter(words).most_common())}
    begins = [(chance.randrange(len(words) - most), chance.randint(least, most)) for _ in range(count)]
    return [[10 + 7 * rank[w] for w in words[begin:begin + n]] for begin, n in begins]


def passages(_, given, chance, count):
    return [{"input_ids": np.array([words], np.int64)} for words in tokens(chance, count, 4, 64)]


INPUTS = {"vit": pictures, "whisper": sounds, "smollm": passages}


# ---- what comes out ----

def least_cosine(a, b):
    """Row by row where an output has rows, as accel tune compares."""
    least = 1.0
    for key in a:
        x, y = (np.asarray(v, np.float64) for v in (a[key], b[key]))
        x, y = (v.reshape(-1, v.shape[-1]) if v.ndim == 3 else v.reshape(v.shape[0], -1) for v in (x, y))
        least = min(least, float(((x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))).min()))
    return least


def tune(directory, given, bound, inputs):
    files = []
    for i, tensors in enumerate(inputs):
        files += ["--input", os.path.join(directory, f"{i}.safetensors")]
        write_tensors(files[-1], tensors)
    profile = os.path.join(directory, f"profile-{bound}.json")
    done = subprocess.run([TOOL, "tune", directory, *files, "--device", given.device, "--min-cosine", bound, "--rounds", "1", "--precisions", given.precisions,
                           "--metric", "memory", "--no-cache", "--json", "--quiet", "-o", profile], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 6):
        sys.exit(f"accel tune exits with {done.returncode}")
    (chosen,) = (t for t in json.loads(done.stdout)["tried"] if t["verdict"] == "chosen")
    return profile, chosen


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("folder")
    for name, value in (("sound", None), ("pictures", None), ("models", "vit,whisper,smollm"), ("min-cosine", "0.999,0.99"), ("precisions", "bf16,int8"), ("device", "cpu")):
        arguments.add_argument("--" + name, default=value)
    arguments.add_argument("--inputs", type=int, default=30)
    arguments.add_argument("--others", type=int, default=100)
    given, failed = arguments.parse_args(), False
    for name in given.models.split(","):
        directory, begin = make(given.folder, name), time.time()
        everything = INPUTS[name](directory, given, random.Random(1), given.inputs + given.others)
        inputs, others = everything[:given.inputs], everything[given.inputs:]
        with accel.Model(directory, device="cpu", precision="fp32") as exact:
            wanted = [{k: np.array(v) for k, v in exact(**i).items()} for i in others]
        for bound in given.min_cosine.split(","):
            profile, chosen = tune(directory, given, bound, inputs)
            with accel.Model(directory, device=given.device, precision_profile=profile) as tuned:
                found = [least_cosine(w, tuned(**i)) for w, i in zip(wanted, others)]
            below = sum(c < float(bound) for c in found)
            failed |= below > 0
            print(f"{name}, {bound}: {chosen['precision']} {chosen['kinds']}, {chosen['weights_bytes'] / 2**20:.1f} MiB; least of {len(inputs) - len(inputs) // 3} "
                  f"{chosen['cosine']:.6f}, of {len(inputs) // 3} {chosen['held_out_cosine']:.6f}, expected {chosen['expected_cosine']:.6f}; least of {len(others)} others "
                  f"{min(found):.6f}, {below} below; {time.time() - begin:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
