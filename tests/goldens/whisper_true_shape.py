#!/usr/bin/env python3
"""Runs `accel transcribe` on a real sound with random weights at the true shapes of whisper-tiny and whisper-base, against transformers.

    python3 tests/goldens/whisper_true_shape.py ACCEL SOUND VOCABULARY [DEVICE]

ACCEL is the tool, SOUND a file of speech, VOCABULARY Whisper's multilingual.tiktoken.  Sound, features, language detection, 32 greedy tokens and their text
must be the same; models are made anew in a temporary directory, with seeds tried until no two best tokens of a step are within 1e-3.
"""
import base64
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")
import soundfile
import torch
import transformers as T
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.models.whisper.tokenization_whisper import LANGUAGES

SHAPES = {"whisper-tiny": (384, 4, 6), "whisper-base": (512, 6, 8)}
TOKENS, MARGIN = 32, 1e-3


class Converter(TikTokenConverter):
    def load_tiktoken_bpe(self, path):
        with open(path, encoding="ascii") as file:
            return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}


def make_tokenizer(vocabulary):
    codes = list(LANGUAGES)[:99]
    specials = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{c}|>" for c in codes), "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>",
                "<|nospeech|>", "<|notimestamps|>"]
    made = Converter(vocab_file=vocabulary, extra_special_tokens=specials).converted()
    tokenizer = T.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<|endoftext|>", eos_token="<|endoftext|>", unk_token="<|endoftext|>")
    tokenizer.add_tokens([T.AddedToken(f"<|{i * 0.02:.2f}|>", special=False, normalized=False) for i in range(1501)])
    return tokenizer, codes


def make_model(directory, shape, tokenizer, codes, seed):
    width, layers, heads = shape
    ids = tokenizer.convert_tokens_to_ids
    config = T.WhisperConfig(vocab_size=len(tokenizer), d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads,
                             decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width)
    assert len(tokenizer) == 51865 and ids("<|startoftranscript|>") == 50258 and ids("<|notimestamps|>") == 50363
    torch.manual_seed(seed)
    model = T.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() > 1 and "embed_positions" not in key:
                p.copy_(torch.randn_like(p) * ((0.4 if "embed" in key else 1.8) / p[0].numel() ** 0.5))
            elif "decoder.embed_positions" in key:
                p.copy_(0.5 * torch.randn_like(p))
    g = model.generation_config
    for key, value in dict(_from_model_config=False, is_multilingual=True, lang_to_id={f"<|{c}|>": ids(f"<|{c}|>") for c in codes}, max_length=448,
                           task_to_id={"transcribe": 50359, "translate": 50358}, no_timestamps_token_id=50363, prev_sot_token_id=50361,
                           begin_suppress_tokens=[220, 50257], max_initial_timestamp_index=50, return_timestamps=False,
                           suppress_tokens=[50258, 50358, 50359, 50360, 50361, 50362]).items():
        setattr(g, key, value)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    T.WhisperFeatureExtractor().save_pretrained(directory)
    return model


def resample(samples, rate, target):
    """torchaudio.functional.resample with its defaults: a Hann-windowed sinc of 6 zero crossings, cut off at 0.99 of the lower Nyquist frequency."""
    common = math.gcd(rate, target)
    rate, target = rate // common, target // common
    if rate == target:
        return samples
    cut = 0.99 * min(rate, target)
    width = math.ceil(6 * rate / cut)
    at = torch.arange(-width, width + rate, dtype=torch.float64)[None] / rate + torch.arange(0, -target, -1, dtype=torch.float64)[:, None] / target
    at = (at * cut).clamp(-6, 6)
    kernel = torch.where(at == 0, 1.0, torch.sin(math.pi * at) / (math.pi * at)) * torch.cos(at * math.pi / 12) ** 2 * cut / rate
    x = torch.nn.functional.pad(torch.from_numpy(samples).double()[None], (width, width + rate))
    out = torch.nn.functional.conv1d(x[:, None], kernel[:, None], stride=rate).transpose(1, 2).reshape(-1)
    return out[:math.ceil(target * len(samples) / rate)].float().numpy()


def margin(result, length):
    return min((s[0].float().topk(2).values.diff().abs().item() for s in result.scores[:length]), default=0)


def check(name, tool, sound, vocabulary, device):
    tokenizer, codes = make_tokenizer(vocabulary)
    samples, rate = soundfile.read(sound, dtype="float32")
    samples = samples.mean(1) if samples.ndim > 1 else samples
    extractor = T.WhisperFeatureExtractor()
    samples = resample(samples, rate, extractor.sampling_rate)
    features = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt").input_features
    for seed in range(20):
        with tempfile.TemporaryDirectory() as work:
            model = make_model(work, SHAPES[name], tokenizer, codes, seed)
            with torch.no_grad():
                out = model.generate(features, max_new_tokens=TOKENS, task="transcribe", num_beams=1, do_sample=False, return_dict_in_generate=True, output_scores=True)
            least = margin(out, TOKENS)
            kinds = len(set(out.sequences[0].tolist()))
            if least < MARGIN or kinds < 9:
                print(f"{name}, seed {seed}: a margin of {least:.1e}, {kinds} kinds of tokens: another seed", file=sys.stderr)
                continue
            begin = 4
            want = [t for t in out.sequences[0, begin:].tolist() if t != 50257]
            language = tokenizer.convert_ids_to_tokens(out.sequences[0, 1].item())[2:-2]
            done = subprocess.run([tool, "transcribe", work, sound, "--task", "transcribe", "--max-new-tokens", str(TOKENS), "--device", device, "--json", "--quiet"],
                                  stdout=subprocess.PIPE, text=True, check=True)
            got = json.loads(done.stdout)["results"][0]
            same = got["ids"] == want and got["language"] == language and got["text"] == tokenizer.decode(want)
            print(f"{name}: {'the same' if same else 'DIFFERENT'}: {len(want)} tokens, {len(set(want))} kinds, language {language}, least margin {least:.1e}, seed {seed}")
            if not same:
                print(want, got["ids"], got["language"], sep="\n")
            return same
    print(f"{name}: no seed with clear margins")
    return False


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    torch.set_num_threads(2)
    device = sys.argv[4] if len(sys.argv) == 5 else "cpu"
    sys.exit(0 if all([check(name, sys.argv[1], sys.argv[2], sys.argv[3], device) for name in SHAPES]) else 1)


if __name__ == "__main__":
    main()
