#!/usr/bin/env python3
"""Makes tests/fixtures/speech: tiny random Whisper models with tokenizers of the true structure, and what transformers makes of sounds with them.

    python3 tests/goldens/make_speech_goldens.py        needs soundfile beside requirements.txt

The models hear a second at a time (chunk_length 1, timestamps up to <|1.00|>), so that sounds of a few seconds are long ones.  Each directory has
  golden.WhisperForConditionalGeneration.<case>.safetensors   generate() on features, mode "generate" of `accel verify`; all in goldens_speech.list
  golden.json                                                 the pipeline's answers for sounds, as in tests/fixtures/media
Each case is computed three times with a little noise on the scores; where that changes a token the case is not taken.
"""
import json
import os
import pathlib
import shutil
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import numpy as np
import soundfile
import torch
import transformers as T
from safetensors.torch import save_file
from tokenizers import AddedToken

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
ROOT = FIXTURES / "speech"
RATE, NOISE = 16000, 1e-3
CLS = "WhisperForConditionalGeneration"
LANGUAGES = ["en", "fr", "de", "zh", "yue"]
MERGES = [("\u0120", "t"), ("h", "e"), ("\u0120", "a"), ("\u0120t", "he"), ("i", "n"), ("o", "u"), ("\u0120", "s"), ("e", "r")]


# ---- models ----

def byte_alphabet():
    """The 256 characters that stand for bytes in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(rest))]


def make_tokenizer(languages):
    vocab = {c: i for i, c in enumerate(byte_alphabet())}
    for a, b in MERGES:
        vocab[a + b] = len(vocab)
    specials = ["<|startoftranscript|>", *(f"<|{code}|>" for code in languages), "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
                "<|notimestamps|>"]
    tokenizer = T.WhisperTokenizer(vocab=vocab, merges=MERGES, additional_special_tokens=specials)
    tokenizer.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>", special=False, normalized=False) for i in range(51)])
    return tokenizer


def make_model(name, seed, languages=LANGUAGES, config=None, **generation):
    """A random model whose tokens vary; what generation_config.json says goes into `generation`, fields of its own of config.json into `config`."""
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    tokenizer = make_tokenizer(languages)
    ids = tokenizer.convert_tokens_to_ids
    end, start, none = ids("<|endoftext|>"), ids("<|startoftranscript|>"), ids("<|notimestamps|>")
    config = T.WhisperConfig(**{**dict(vocab_size=len(tokenizer), num_mel_bins=20, d_model=24, max_source_positions=50, max_target_positions=44, encoder_layers=2, decoder_layers=2,
                                       encoder_attention_heads=3, decoder_attention_heads=4, encoder_ffn_dim=31, decoder_ffn_dim=29, pad_token_id=end, bos_token_id=end,
                                       eos_token_id=end, decoder_start_token_id=start, begin_suppress_tokens=None, suppress_tokens=None, median_filter_width=3,
                                       tie_word_embeddings=False), **(config or {})})
    torch.manual_seed(seed)
    model = T.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "encoder.embed_positions" in key:
                continue
            if p.dim() > 1:
                p.copy_(torch.randn_like(p) * (1.0 if "embed" in key else 2.0 / p[0].numel() ** 0.5))
            elif not key.endswith("weight"):
                p.copy_(0.2 * torch.randn_like(p))
        model.model.decoder.layer_norm.weight.mul_(0.7)
    more = dict(no_timestamps_token_id=none, max_length=44, prev_sot_token_id=ids("<|startofprev|>"), begin_suppress_tokens=[ids("\u0120"), end],
                suppress_tokens=[1, 2, 7, ids("<|startoflm|>"), ids("<|startofprev|>"), ids("<|nospeech|>")], alignment_heads=[[0, 1], [1, 2], [1, 3]],
                max_initial_timestamp_index=20, return_timestamps=False)
    if languages:
        more.update(is_multilingual=True, lang_to_id={f"<|{code}|>": ids(f"<|{code}|>") for code in languages},
                    task_to_id={"transcribe": ids("<|transcribe|>"), "translate": ids("<|translate|>")})
    else:
        more.update(is_multilingual=False)
    more.update({k: (v(ids) if callable(v) else v) for k, v in generation.items()})
    for key, value in more.items():
        setattr(model.generation_config, key, value)
        if value is None:
            delattr(model.generation_config, key)
    model.generation_config._from_model_config = False
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    T.WhisperFeatureExtractor(feature_size=20, chunk_length=1).save_pretrained(directory)
    return directory


def sound(seconds, seed):
    """Tones that come and go, with noise."""
    random = np.random.default_rng(seed)
    t = np.arange(int(RATE * seconds)) / RATE
    x = 0.02 * random.standard_normal(t.size)
    at = 0.0
    while at < seconds:
        length, pitch = random.uniform(0.05, 0.3), random.uniform(120, 3000)
        part = (t >= at) & (t < at + length)
        x[part] += random.uniform(0.1, 0.6) * np.sin(2 * np.pi * pitch * t[part])
        at += length + random.uniform(0, 0.15)
    return np.clip(x, -1, 1).astype(np.float32)


# ---- generate() ----

def noisy(model, seed, noise=NOISE):
    source = torch.Generator().manual_seed(seed)
    return model.get_output_embeddings().register_forward_hook(lambda m, i, o: o + noise * torch.randn(o.shape, generator=source))


def generate(model, inputs, args):
    """Sequences that a little noise does not change; None where it does."""
    args = {k: torch.tensor(v) if k == "prompt_ids" else tuple(v) if isinstance(v, list) else v for k, v in args.items()}
    with torch.no_grad():
        out = model.generate(**inputs, **args)
        for seed in range(2):
            hook = noisy(model, seed)
            again = model.generate(**inputs, **args)
            hook.remove()
            if not torch.equal(again, out):
                return None
    return out


def features(directory, sounds, longest=False):
    extractor = T.WhisperFeatureExtractor.from_pretrained(directory)
    how = dict(truncation=False, padding="longest") if longest else {}
    made = extractor(sounds, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True, **how)
    return {"input_features": made["input_features"], "attention_mask": made["attention_mask"].to(torch.int64)}


def golden(directory, case, lengths, args, wanted=lambda out: True, longest=False, rows=False):
    """The first sounds of these lengths whose result is clear and wanted."""
    model = T.WhisperForConditionalGeneration.from_pretrained(directory, attn_implementation="eager").eval()
    for attempt in range(300):
        inputs = features(directory, [sound(s, 1000 * attempt + i) for i, s in enumerate(lengths)], longest)
        if len(lengths) == 1:
            inputs.pop("attention_mask")
        if rows:  # what each sound gives alone: a batch pads prompts, and its company then counts
            alone = [generate(model, {"input_features": inputs["input_features"][i:i + 1, :, :int(inputs["attention_mask"][i].sum())]}, args) for i in range(len(lengths))]
            if any(a is None for a in alone):
                continue
            width = max(a.shape[1] for a in alone)
            out = torch.cat([torch.nn.functional.pad(a, (0, width - a.shape[1]), value=model.generation_config.pad_token_id) for a in alone])
        else:
            out = generate(model, inputs, args)
        if out is not None and wanted(out):
            break
    else:
        raise SystemExit(f"{directory.name} {case}: no sound whose tokens are clear")
    file = f"golden.{CLS}.{case}.safetensors"
    save_file({**{f"in.{k}": v.contiguous() for k, v in inputs.items()}, "out.sequences": out.contiguous()}, directory / file,
              metadata={"mode": "generate", "args": json.dumps(args)})
    print(directory.name, case, out.tolist())
    return f"../speech/{directory.name} {file} {CLS}"


# ---- the pipeline ----

CASES = [([], {}, {}, False), (["--timestamps", "segment"], dict(return_timestamps=True), {}, True), (["--language", "de", "--task", "translate"], {}, dict(language="de", task="translate"), False),
         (["--chunk-length", "1", "--timestamps", "segment"], dict(return_timestamps=True, chunk_length_s=1), {}, True),
         (["--chunk-length", "0.8", "--chunk-stride", "0.2,0.1"], dict(chunk_length_s=0.8, stride_length_s=(0.2, 0.1)), {}, False),
         (["--beams", "2", "--max-new-tokens", "9"], {}, dict(num_beams=2, max_new_tokens=9), False),
         (["--timestamps", "segment", "--condition-on-previous", "yes"], dict(return_timestamps=True), dict(condition_on_prev_tokens=True), True)]


def pipeline(directory, cases):
    run = T.pipeline("automatic-speech-recognition", model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})
    made = []
    for args, how, generate_kwargs, longer in cases:
        files = ["speech/short.wav", "speech/long.wav"][:1 + longer]
        want = []
        for name in files:
            samples, _ = soundfile.read(FIXTURES / name, dtype="float32")
            kwargs = {"num_beams": 1, "max_new_tokens": 20, **generate_kwargs}
            one = run(samples.copy(), generate_kwargs=kwargs, **how)
            hook = noisy(run.model, 0, NOISE / 10)
            assert run(samples.copy(), generate_kwargs=kwargs, **how) == one, (directory.name, args, name, "is not clear")
            hook.remove()
            want.append({"text": one["text"], **({"chunks": [{"text": c["text"], "timestamp": list(c["timestamp"])} for c in one["chunks"]]} if "chunks" in one else {})})
        limit = [] if "--max-new-tokens" in args else ["--max-new-tokens", "20"]
        made.append({"args": args + limit, "files": files, "want": want})
    (directory / "golden.json").write_text(json.dumps({"cases": made}, indent=1) + "\n")


def clear_sounds(directories):
    """short.wav and long.wav, for which every case of every model is clear."""
    for attempt in range(100):
        for name, seconds in (("short", 0.9), ("long", 3.3)):
            soundfile.write(ROOT / f"{name}.wav", sound(seconds, 7 + 2 * attempt + (name == "long")), RATE, subtype="PCM_16")
        try:
            for directory, cases in directories:
                pipeline(directory, cases)
            return
        except AssertionError as problem:
            print(problem)
    raise SystemExit("no sounds that are clear in every case")


def main():
    torch.set_num_threads(1)
    ROOT.mkdir(parents=True, exist_ok=True)
    lines = []
    many, english = make_model("many", 1), make_model("english", 4, languages=[])
    old = make_model("old", 5, lang_to_id=None, task_to_id=None, forced_decoder_ids=lambda ids: [[1, ids("<|de|>")], [2, ids("<|transcribe|>")], [3, ids("<|notimestamps|>")]])
    tokenizer = T.WhisperTokenizer.from_pretrained(many)
    stamp = tokenizer.convert_tokens_to_ids("<|notimestamps|>") + 1
    varied = lambda out: all(len(set(r)) > 5 for r in out.tolist())
    stamped = lambda out: varied(out) and (out >= stamp).sum() >= 4
    prompt = tokenizer.get_prompt_ids("the thin ones").tolist()
    stamps, few = {"return_timestamps": True}, {"return_timestamps": True, "max_new_tokens": 14}

    def add(*args, **more):
        lines.append(golden(*args, **more))
    add(many, "short", [0.8], {}, varied)
    add(many, "batch", [0.8, 1.0, 0.3], {"max_new_tokens": 14}, varied)
    add(many, "stamps", [0.9], stamps, stamped)
    add(many, "french", [0.7], {"language": "fr", "task": "translate", "max_new_tokens": 9}, varied)
    add(many, "cantonese", [0.7], {"language": "Cantonese", "return_timestamps": True, "max_new_tokens": 20}, stamped)
    add(many, "prompt", [0.6], {"prompt_ids": prompt, "max_new_tokens": 12}, varied)
    add(many, "beams", [0.6], {"num_beams": 3, "max_new_tokens": 10}, varied)
    add(many, "long", [2.7], {**stamps, "max_new_tokens": 18}, stamped, longest=True)
    add(many, "long_batch", [2.7, 1.6], few, stamped, longest=True, rows=True)
    add(many, "conditioned", [2.7], {**few, "condition_on_prev_tokens": True, "prompt_ids": prompt}, stamped, longest=True)
    add(many, "prompt_all", [2.2], {**few, "max_new_tokens": 9, "condition_on_prev_tokens": True, "prompt_ids": prompt, "prompt_condition_type": "all-segments"}, stamped, longest=True)
    add(many, "fallback", [2.7], {**few, "temperature": [0.0, 0.0], "compression_ratio_threshold": 0.9, "logprob_threshold": -1.5}, stamped, longest=True)
    add(many, "silence", [3.4], {**few, "logprob_threshold": 0.0, "no_speech_threshold": 0.0054, "temperature": [0.0]}, lambda out: out.shape[1] > 6, longest=True)
    add(english, "short", [0.8], {"max_new_tokens": 15}, varied)
    add(english, "long", [2.4], few, stamped, longest=True)
    add(old, "short", [0.8], {"max_new_tokens": 12}, varied)
    add(old, "stamps", [0.8], few, stamped)
    clear_sounds([(many, CASES), (english, [c for c in CASES if "--task" not in c[0]])])
    for path in ROOT.glob("*/*"):
        path.chmod(0o644)
    (FIXTURES / "models" / "goldens_speech.list").write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
