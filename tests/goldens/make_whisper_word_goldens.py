#!/usr/bin/env python3
"""Makes tests/fixtures/speech/words and words_english: tiny random Whisper models, and when transformers says that each token and word of sounds begins.

    python3 tests/goldens/make_whisper_word_goldens.py        after make_speech_goldens.py, whose sounds it takes

  golden.WhisperForConditionalGeneration.<case>.safetensors   generate(return_token_timestamps=True): ids and times of tokens; in goldens_words.list
  golden.json                                                 the pipeline's answers with return_timestamps="word"
A case counts when a little noise on the encoder's result, and on the scores, changes neither a token nor a time: seeds of models are tried until all do.
The pipeline of transformers 5 does not tell its tokenizer the language that was heard or asked for; where words of one without spaces are wanted, it is told here.
"""
import json

import soundfile
import torch
import transformers as T
from safetensors.torch import save_file

import make_speech_goldens as S

NOISE = 3e-6


def noisy(model, seed):
    """Hooks that add noise: to scores as there, to what the encoder gives as much as arithmetic in another order may."""
    source = torch.Generator().manual_seed(seed)
    encoder = model.model.encoder.layer_norm.register_forward_hook(lambda m, i, o: o + NOISE * torch.randn(o.shape, generator=source))
    return [S.noisy(model, seed, 1e-4), encoder]


def told(model, inputs, args):
    """Ids, and times of tokens on the sound's own clock (the segments', as the pipeline takes them)."""
    args = {k: torch.tensor(v) if k == "prompt_ids" else v for k, v in args.items()}
    with torch.no_grad():
        out = model.generate(**inputs, **args, return_token_timestamps=True, return_segments=True)
    return out["sequences"], torch.stack([torch.cat([s["token_timestamps"] for s in row]) for row in out["segments"]])


def golden(directory, seconds, args, masked):
    """The first sound of this length that is clear."""
    model = T.WhisperForConditionalGeneration.from_pretrained(directory, attn_implementation="eager").eval()
    for seed in range(77, 377):
        inputs = S.features(directory, [S.sound(seconds, seed)], longest=seconds > 1)
        if not masked:
            inputs.pop("attention_mask")
        tensors = clear_golden(model, inputs, args)
        if tensors:
            return tensors
    raise SystemExit(f"{directory.name} {args}: no sound that is clear")


def clear_golden(model, inputs, args):
    ids, times = told(model, inputs, args)
    for seed in range(2):
        hooks = noisy(model, seed)
        again = told(model, inputs, args)
        [h.remove() for h in hooks]
        if ids.shape != again[0].shape or not torch.equal(ids, again[0]) or not torch.equal(times, again[1]):
            return None
    if len(set(times[0].tolist())) < 4 or len(set(ids[0].tolist())) < 5:
        return None
    return {**{f"in.{k}": v.contiguous() for k, v in inputs.items()}, "out.sequences": ids.contiguous(), "out.token_timestamps": times.contiguous()}


def pipeline_case(run, args, how, generate_kwargs, language):
    files, want = ["speech/short.wav", "speech/long.wav"], []
    for name in files:
        samples, _ = soundfile.read(S.FIXTURES / name, dtype="float32")
        kwargs = {"num_beams": 1, "max_new_tokens": 20, **generate_kwargs}
        run.tokenizer.language = language
        one = run(samples.copy(), generate_kwargs=dict(kwargs), return_timestamps="word", **how)
        for seed in range(2):
            hooks = noisy(run.model, seed)
            again = run(samples.copy(), generate_kwargs=dict(kwargs), return_timestamps="word", **how)
            [h.remove() for h in hooks]
            if again != one:
                return None
        if len(one["chunks"]) < 3:
            return None
        want.append({"text": one["text"], "chunks": [{"text": c["text"], "timestamp": list(c["timestamp"])} for c in one["chunks"]]})
    return {"args": ["--word-timestamps", "--max-new-tokens", str(kwargs["max_new_tokens"]), *args], "files": files, "want": want}


PLAIN = [([], {}, {}, None), (["--chunk-length", "1"], dict(chunk_length_s=1), {}, None), (["--beams", "2"], {}, dict(num_beams=2), None)]
CASES = [(["--language", "fr"], {}, dict(language="fr"), "french"), (["--language", "zh"], {}, dict(language="zh"), "chinese"),
         (["--language", "yue", "--chunk-length", "0.8", "--chunk-stride", "0.2,0.1"], dict(chunk_length_s=0.8, stride_length_s=(0.2, 0.1)), dict(language="yue"), "cantonese"),
         (["--language", "de", "--condition-on-previous", "yes"], {}, dict(language="de", condition_on_prev_tokens=True, max_new_tokens=14), "german")]
SPOKEN = [(["--language", "en", *args], how, {**kwargs, "language": "en"}, "english") for args, how, kwargs, _ in PLAIN]
STAMPS = {"return_timestamps": True, "max_new_tokens": 18}
GENERATE = [("words", 0.8, {"max_new_tokens": 16}, True), ("words_stamps", 0.9, STAMPS, True), ("words_unmasked", 0.9, STAMPS, False), ("words_beams", 0.7, {**STAMPS, "num_beams": 3}, True),
            ("words_long", 2.7, STAMPS, True), ("words_long_unmasked", 2.2, STAMPS, False)]


def pipeline_cases(name, first_seed, cases, **how):
    """The first model that is clear in all of them, with its golden.json."""
    for seed in range(first_seed, first_seed + 400):
        directory = S.make_model(name, seed, **how)
        run = T.pipeline("automatic-speech-recognition", model=str(directory), device="cpu", model_kwargs={"attn_implementation": "eager"})
        made = []
        for case in cases:
            made.append(pipeline_case(run, *case))
            if made[-1] is None:
                print(name, seed, case[0], "is not clear", flush=True)
                break
        else:
            (directory / "golden.json").write_text(json.dumps({"cases": made}, indent=1) + "\n")
            return directory
    raise SystemExit(f"{name}: no model that is clear in every case")


def generate_cases(directory, cases):
    lines = []
    for case, seconds, args, masked in cases:
        file = f"golden.{S.CLS}.{case}.safetensors"
        save_file(golden(directory, seconds, args, masked), directory / file, metadata={"mode": "generate", "args": json.dumps({**args, "return_token_timestamps": True})})
        lines.append(f"../speech/{directory.name} {file} {S.CLS}")
    return lines


def main():
    torch.set_num_threads(1)
    words = pipeline_cases("words", 111, SPOKEN + CASES, config=dict(decoder_layers=3, median_filter_width=7), alignment_heads=[[2, 1], [0, 3], [2, 0], [0, 3]])
    prompt = T.WhisperTokenizer.from_pretrained(words).get_prompt_ids("the thin ones").tolist()
    lines = generate_cases(words, [*GENERATE, ("words_prompt", 2.7, {**STAMPS, "max_new_tokens": 12, "condition_on_prev_tokens": True, "prompt_ids": prompt}, True)])
    english = pipeline_cases("words_english", 500, PLAIN, languages=[], config=dict(median_filter_width=5), alignment_heads=[[1, 2]])
    lines += generate_cases(english, GENERATE[:2])
    for directory in ("words", "words_english"):
        for path in (S.ROOT / directory).glob("*"):
            path.chmod(0o644)
    (S.FIXTURES / "models" / "goldens_words.list").write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
