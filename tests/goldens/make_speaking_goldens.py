#!/usr/bin/env python3
"""Makes the fixtures of models that speak: tiny random VITS models (tiny_models.py says how), goldens of mode "speech" listed in goldens_speaking.list, and
spoken.json: texts through transformers' tokenizer and pipeline.

    python3 tests/goldens/make_speaking_goldens.py [name prefix ...]      only the fixtures named so
"""
import json
import sys
import warnings

import tiny_models
import torch
import transformers as T
from safetensors.torch import save_file
from tiny_models import ROOT, seed

warnings.simplefilter("ignore")
LETTERS = ["<pad>", " ", "e", "a", "n", "t", "i", "o", "s", "h", "'", "-", "ß", "d", "l", "r", "u", "w", "é"]
SMALL = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=2, window_size=3, ffn_dim=17, flow_size=8, spectrogram_bins=5, upsample_initial_channel=16,
             upsample_rates=[4, 2], upsample_kernel_sizes=[8, 4], resblock_kernel_sizes=[3, 5], resblock_dilation_sizes=[[1, 3], [2]], duration_predictor_flow_bins=5,
             duration_predictor_num_flows=3, duration_predictor_filter_channels=9, prior_encoder_num_flows=2, prior_encoder_num_wavenet_layers=2,
             posterior_encoder_num_wavenet_layers=1, wavenet_kernel_size=3, wavenet_dilation_rate=2, depth_separable_num_layers=2, vocab_size=len(LETTERS),
             sampling_rate=8000)


def quieter(model):
    """Durations of a few frames, and samples that are not all at the ends of the scale."""
    for name, p in model.named_parameters():
        if name.endswith("log_scale"):
            p.copy_(0.2 * p)
        if name.endswith("conv_post.weight") and name.startswith("decoder"):
            p.copy_(0.3 * p)
        if name.endswith("duration_predictor.proj.weight"):
            p.copy_(0.3 * p)


def texts(name, lengths, width):
    seed(name)
    ids, mask = torch.randint(1, len(LETTERS), (len(lengths), width)), torch.zeros(len(lengths), width, dtype=torch.long)
    for row, n in enumerate(lengths):
        ids[row, n:] = 0
        mask[row, :n] = 1
    return {"input_ids": ids, "attention_mask": mask}


def speak(model, inputs, args):
    """The fields of forward, and what the duration predictor said."""
    said = {}
    hook = model.duration_predictor.register_forward_hook(lambda module, given, out: said.update(log_duration=out[:, 0]))
    torch.manual_seed(args.get("seed", 0))
    with torch.no_grad():
        out = model(**inputs, **{k: v for k, v in args.items() if k != "seed"})
    hook.remove()
    mask = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).to(torch.float32)
    rate = args.get("speaking_rate", model.speaking_rate)
    scaled = torch.exp(said["log_duration"]) * mask * (1.0 / rate)
    edge = (scaled - scaled.round()).abs()[mask > 0].min().item()
    if edge < 2e-3:
        raise SystemExit(f"a duration is {edge} from a whole number: take another seed")
    return {"waveform": out.waveform, "sequence_lengths": out.sequence_lengths, "spectrogram": out.spectrogram, "log_duration": said["log_duration"],
            "duration": torch.ceil(scaled)}


def fixtures():
    both, one = texts("both", (13, 6), 13), {"input_ids": texts("one", (9,), 9)["input_ids"]}
    short = {"input_ids": texts("short", (3,), 3)["input_ids"]}  # fewer tokens than the window, fewer than 16 drawn numbers
    yield "vits", T.VitsConfig(**SMALL), {}, [("batch", both, {"seed": 5}), ("one", one, {"seed": 6, "speaking_rate": 1.7}), ("short", short, {"seed": 8})]
    many = {**SMALL, "num_speakers": 4, "speaker_embedding_size": 6, "noise_scale": 0.3, "noise_scale_duration": 0.5, "speaking_rate": 0.8, "hidden_act": "gelu",
            "ffn_kernel_size": 4, "layer_norm_eps": 1e-4}
    yield "vits_speakers", T.VitsConfig(**many), {}, [("second", both, {"seed": 2, "speaker_id": 2}), ("nobody", one, {"seed": 3})]
    plain = {**SMALL, "use_stochastic_duration_prediction": False, "use_bias": False, "num_speakers": 3, "speaker_embedding_size": 5, "ffn_kernel_size": 1,
             "upsample_rates": [3, 2, 2], "upsample_kernel_sizes": [6, 5, 2], "leaky_relu_slope": 0.2, "wavenet_dilation_rate": 1, "window_size": 1}
    yield "vits_deterministic", T.VitsConfig(**plain), dict(dtype=torch.float16), [("speaker", both, {"seed": 4, "speaker_id": 1}), ("nobody", one, {"seed": 1})]
    yield "vits_new_names", T.VitsConfig(**SMALL), dict(hub=False), [("one", one, {"seed": 6})]


# ---- texts ----

SETTINGS = {
    "vits": {"add_blank": True, "normalize": True, "phonemize": False, "is_uroman": False, "language": "eng", "pad_token": "<pad>", "unk_token": "<unk>"},
    "vits_speakers": {"add_blank": True, "normalize": True, "phonemize": False, "language": "ron", "pad_token": "n", "unk_token": "<unk>"},
    "vits_deterministic": {"add_blank": False, "normalize": False, "phonemize": False, "unk_token": "-", "pad_token": "<pad>"},
}
SAID = ["Hello, the TIN is-Not here!", "  annie's nose ", "ÉTÉ ẞ ß", "nn", "a", "the <pad> and <unk>tin"]
SPOKEN = {"vits": [{"text": SAID[0], "seed": 3}, {"text": SAID[5], "seed": 0, "speaking_rate": 1.5}], "vits_speakers": [{"text": SAID[1], "seed": 11, "speaker_id": 1}]}


def write_texts(name):
    directory = ROOT / name
    (directory / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(LETTERS)}, ensure_ascii=False) + "\n")
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "VitsTokenizer", **SETTINGS[name]}, indent=1) + "\n")
    tokenizer = T.AutoTokenizer.from_pretrained(directory)
    found = {"ids": [[text, tokenizer(text).input_ids] for text in SAID], "spoken": []}
    for case in SPOKEN.get(name, ()):
        pipe = T.pipeline("text-to-speech", model=T.VitsModel.from_pretrained(directory, attn_implementation="eager"), tokenizer=tokenizer)
        torch.manual_seed(case["seed"])
        out = pipe(case["text"], forward_params={k: v for k, v in case.items() if k not in ("text", "seed")})
        found["spoken"].append({**case, "rate": out["sampling_rate"], "n": int(out["audio"].shape[-1]), "samples": [round(float(x), 6) for x in out["audio"].reshape(-1)[::7]]})
    (directory / "spoken.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")


def main():
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    path, wanted = ROOT / "goldens_speaking.list", sys.argv[1:]
    lines = [l for l in (path.read_text().splitlines() if path.exists() and wanted else []) if not any(l.split()[0].startswith(w) for w in wanted)]
    for name, config, how, cases in fixtures():
        if wanted and not any(name.startswith(w) for w in wanted):
            continue
        tiny_models.write_model(ROOT / name, config, ["VitsModel"], prefixed=False, adjust=quieter, **how)
        model = T.VitsModel.from_pretrained(ROOT / name, dtype=torch.float32, attn_implementation="eager").eval()
        for title, inputs, args in cases:
            fields = speak(model, inputs, args)
            print(name, title, fields["sequence_lengths"].tolist(), float(fields["waveform"].std()), file=sys.stderr)
            tensors = {**{f"in.{k}": v for k, v in inputs.items()}, **{f"out.{k}": v.contiguous().clone() for k, v in fields.items()}}
            file = f"golden.VitsModel.{title}.safetensors"
            save_file(tensors, ROOT / name / file, metadata={"mode": "speech", "args": json.dumps(args)})
            lines.append(f"{name} {file} VitsModel")
        if name in SETTINGS:
            write_texts(name)
    path.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
