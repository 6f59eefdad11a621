#!/usr/bin/env python3
"""Makes tests/fixtures/audio: sounds in many encodings, and what soundfile, torchaudio and transformers make of them.

    python3 tests/goldens/make_audio_goldens.py        needs soundfile and torchaudio beside requirements.txt

sounds/*            files to be read; sounds.safetensors holds their samples, channels averaged, under the file's name, and as
                    rate.NAME their sampling rate
bad/*               files that must be refused
resample.safetensors    in.FROM, and out.FROM.TO as torchaudio.functional.resample gives it
features/NAME/      preprocessor_config.json and golden.safetensors: in.N sounds, out.* as the feature extractor returns it
"""
import json
import pathlib
import shutil
import struct
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import soundfile
import torch
import torchaudio.functional
import transformers
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "audio"


def tone(seconds, rate, seed=0):
    """A sweep with some noise, a pause in the middle: [frames] float32."""
    n = int(seconds * rate)
    t = np.arange(n) / rate
    random = np.random.RandomState(seed)
    x = 0.5 * np.sin(2 * np.pi * (200 + 1500 * t) * t) + 0.05 * random.randn(n)
    x[n // 3: n // 3 + n // 8] = 0.0
    return x.astype(np.float32)


# ---- files ----

def chunk(name, body):
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)


def wav(tag, bits, channels, rate, data, extensible=False, container=None):
    align = (container or (bits + 7) // 8) * channels
    body = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * align, align, 8 * (align // channels) if extensible else bits)
    if extensible:
        body += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", tag) + bytes.fromhex("000000001000800000aa00389b71")
    inner = b"WAVE" + chunk(b"fmt ", body) + chunk(b"LIST", b"INFOodd") + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


def sounds():
    folder = ROOT / "sounds"
    folder.mkdir(parents=True)
    stereo = np.stack([tone(0.05, 44100), tone(0.05, 44100, 1)], 1)
    kinds = {"u8": ("PCM_U8", 8000), "s16": ("PCM_16", 16000), "s24": ("PCM_24", 22050), "s32": ("PCM_32", 11025), "f32": ("FLOAT", 16000),
             "f64": ("DOUBLE", 16000), "a_law": ("ALAW", 8000), "mu_law": ("ULAW", 8000)}
    for name, (subtype, rate) in kinds.items():
        soundfile.write(folder / f"{name}.wav", tone(0.05, rate), rate, subtype, format="WAV")
    soundfile.write(folder / "stereo_s16.wav", stereo, 44100, "PCM_16")
    soundfile.write(folder / "extensible_s24.wav", stereo, 44100, "PCM_24", format="WAVEX")
    soundfile.write(folder / "rf64.wav", stereo, 44100, "PCM_16", format="RF64")
    soundfile.write(folder / "five_channels.wav", np.stack([tone(0.02, 16000, s) for s in range(5)], 1), 16000, "PCM_16")
    soundfile.write(folder / "one_sample.wav", np.float32([0.25]), 16000, "PCM_16")
    soundfile.write(folder / "silence.wav", np.zeros(100, np.float32), 16000, "PCM_16")
    soundfile.write(folder / "empty.wav", np.zeros(0, np.float32), 16000, "PCM_16")
    soundfile.write(folder / "lossless.flac", stereo, 44100, "PCM_16")
    soundfile.write(folder / "other.aiff", tone(0.05, 16000), 16000, "PCM_16")
    soundfile.write(folder / "vorbis.ogg", tone(0.2, 16000), 16000, format="OGG", subtype="VORBIS")
    data = (tone(0.02, 16000) * 32767).astype("<i2").tobytes()
    piped = wav(1, 16, 1, 16000, data).replace(b"data" + struct.pack("<I", len(data)), b"data\xff\xff\xff\xff")
    (folder / "piped.wav").write_bytes(piped)
    (folder / "twelve_bits.wav").write_bytes(wav(1, 12, 1, 16000, data))
    tensors = {}
    for path in sorted(folder.iterdir()):
        x, rate = soundfile.read(path, dtype="float32", always_2d=True)
        tensors[path.name] = x.astype(np.float64).mean(1).astype(np.float32)
        tensors["rate." + path.name] = np.int64([rate])
    save_file(tensors, ROOT / "sounds.safetensors")


def bad():
    folder = ROOT / "bad"
    folder.mkdir(parents=True)
    data = (tone(0.02, 16000) * 32767).astype("<i2").tobytes()
    good = wav(1, 16, 1, 16000, data)
    files = {
        "empty": b"", "cut_in_the_header": good[:20], "cut_in_the_data": good[:-100], "no_data": good[:36 + 16],
        "no_fmt": b"RIFF" + struct.pack("<I", 20) + b"WAVE" + chunk(b"data", b"\0" * 8), "no_channels": wav(1, 16, 0, 16000, data, container=2),
        "no_rate": wav(1, 16, 1, 0, data), "odd_align": wav(1, 16, 2, 16000, data).replace(struct.pack("<HH", 4, 16), struct.pack("<HH", 3, 16)),
        "float16": wav(3, 16, 1, 16000, data), "adpcm": wav(2, 4, 1, 16000, data), "nan": wav(3, 32, 1, 16000, np.float32([0, np.nan]).tobytes()),
        "infinite": wav(3, 64, 1, 16000, np.float64([np.inf]).tobytes()), "text": b"this is no sound at all, but some text", "chunk_beyond_the_end":
        b"RIFF" + struct.pack("<I", 20) + b"WAVE" + b"LIST" + struct.pack("<I", 1000) + b"abc",
        "chunk_without_a_name": b"RIFF" + struct.pack("<I", 20) + b"WAVE" + b"d\x8a\ntat"[:4] + struct.pack("<I", 1000) + b"abc",
    }
    for name, content in files.items():
        (folder / f"{name}.wav").write_bytes(content)


def resample():
    tensors = {}
    for source, target in [(44100, 16000), (8000, 16000), (48000, 16000), (16000, 48000), (22050, 16000), (44100, 48000), (16001, 16000), (3, 7)]:
        x = tone(400 / source if source > 100 else 100, source)
        tensors[f"in.{source}"] = x
        tensors[f"out.{source}.{target}"] = torchaudio.functional.resample(torch.from_numpy(x).double(), source, target).float().numpy()
    save_file(tensors, ROOT / "resample.safetensors")


# ---- features ----

def features(name, extractor, seconds, **call):
    folder = ROOT / "features" / name
    extractor.save_pretrained(folder)
    rate = extractor.sampling_rate
    inputs = [tone(s, rate, i) for i, s in enumerate(seconds)]
    np.random.seed(0)
    out = extractor(inputs, sampling_rate=rate, return_tensors="np", **call)
    tensors = {f"in.{i}": x for i, x in enumerate(inputs)}
    for key, value in out.items():
        tensors["out." + key] = np.ascontiguousarray(value.astype(np.float32 if value.dtype.kind == "f" else np.int64))
    save_file(tensors, folder / "golden.safetensors")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    sounds()
    bad()
    resample()
    t = transformers
    features("whisper_1s", t.WhisperFeatureExtractor(chunk_length=1), [0.6, 1.3])
    features("whisper_128_mask", t.WhisperFeatureExtractor(feature_size=128, chunk_length=1, return_attention_mask=True), [0.35], return_attention_mask=True)
    features("whisper_longest", t.WhisperFeatureExtractor(chunk_length=1, return_attention_mask=True), [0.3071, 0.5], padding="longest", truncation=False,
             return_attention_mask=True)
    features("whisper_odd", t.WhisperFeatureExtractor(feature_size=40, chunk_length=1, n_fft=350, hop_length=111, padding_value=0.01), [0.4])
    features("wav2vec2", t.Wav2Vec2FeatureExtractor(do_normalize=True), [0.05, 0.03, 0.051], padding=True)
    features("wav2vec2_mask", t.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True, padding_value=-1.0), [0.05, 0.03], padding=True)
    features("whisper_left", t.WhisperFeatureExtractor(feature_size=40, chunk_length=1, n_fft=401, padding_side="left", return_attention_mask=True), [0.45, 0.3],
             return_attention_mask=True)
    features("wav2vec2_left", t.Wav2Vec2FeatureExtractor(padding_side="left", padding_value=0.5, return_attention_mask=True), [0.02, 0.015], padding=True)
    features("wav2vec2_plain", t.Wav2Vec2FeatureExtractor(do_normalize=False), [0.04])
    features("ast", t.ASTFeatureExtractor(max_length=40, num_mel_bins=64), [0.3, 0.7])
    features("ast_plain", t.ASTFeatureExtractor(max_length=30, num_mel_bins=128, do_normalize=False), [0.2])
    small = dict(sampling_rate=16000, hop_length=160, max_length_s=1, fft_window_size=512, frequency_max=8000)
    features("clap_repeatpad", t.ClapFeatureExtractor(**small), [0.3])
    features("clap_repeat", t.ClapFeatureExtractor(padding="repeat", truncation="rand_trunc", **small), [0.3, 0.45])
    features("clap_pad", t.ClapFeatureExtractor(padding="pad", truncation="rand_trunc", **small), [0.3])
    # just above the limit: every third has one place to begin, so no number is drawn
    features("clap_fusion", t.ClapFeatureExtractor(**small), [1.0 + 2 * 160 / 16000])


if __name__ == "__main__":
    main()
