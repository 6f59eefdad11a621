#!/usr/bin/env python3
"""Compares what libaccel's pipelines answer with transformers' on options and inputs that are not in the tree: takes the models of tests/fixtures with their
tokenizers and processors, draws options of the task and texts, pictures or sounds at random.

    python3 tests/goldens/random_pipelines.py [--rounds N] [--seed S] [TASK ...]

What transformers does not take is left out.  Prints what differed and what was refused, then the counts; the exit status is 1 where something differed.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")
import numpy as np
import torch
import transformers

from fuzz_tokenizers import WORDS
from random_processors import FIXTURES, picture, write_sound, sounds

os.environ.setdefault("ACCEL_LIBRARY", str(FIXTURES.parents[1] / "build" / "release" / "lib" / "libaccel.so.0"))
sys.path.insert(0, str(FIXTURES.parents[1] / "src" / "bindings" / "python"))
import accel  # noqa: E402

PLAIN = ("Ada lives in London.", "the old cat sat on the mat", "Trains run to Paris, and the bank is un-happy!", "dogs walking & jumping; na\u00efve caf\u00e9", "")
MODELS = {
    "text-classification": ["pipelines/classify", "pipelines/multilabel", "pipelines/score", "tasks/classify_many", "tasks/classify_multi", "tasks/classify_one",
                            "tasks/classify_regression", "tasks/classify_roberta"],
    "token-classification": ["pipelines/tokens", "tasks/tokens_bpe", "tasks/tokens_uncased", "tasks/tokens_unigram", "tasks/tokens_wordpiece"],
    "fill-mask": ["pipelines/mask", "tasks/fill_bpe", "tasks/fill_unigram", "tasks/fill_wordpiece"],
    "feature-extraction": ["pipelines/base", "tasks/features_bert"],
    "text-generation": ["pipelines/text"],
    "image-classification": ["media/vit", "media/resnet"],
    "object-detection": ["media/detr", "media/yolos", "media/rt_detr", "media/table_transformer"],
    "zero-shot-image-classification": ["media/clip", "media/siglip"],
    "image-segmentation": ["seeing/segformer", "seeing/detr_panoptic"],
    "depth-estimation": ["seeing/depth_anything", "seeing/dpt"],
    "audio-classification": ["media/ast", "media/hubert"],
    "automatic-speech-recognition": ["media/wav2vec2", "speech/many", "speech/english", "speech/old"],
    "zero-shot-classification": ["pipelines/nli", "pipelines/classify"],
    "document-question-answering": ["seeing/layoutlmv3_qa", "seeing/donut"],
    "text-to-audio": ["models/vits", "models/vits_speakers"],
    "image-feature-extraction": ["features/dinov2", "media/vit", "media/resnet"],
    "time-series-forecasting": ["models/chronos", "models/chronos_plain", "models/chronos_bolt", "models/chronos_bolt_plain", "models/timesfm", "models/timesfm_positions",
                                "models/patchtst", "models/patchtst_channels", "models/patchtst_flat", "models/patchtst_max"],
}


class Forecaster:
    """What stands for a pipeline of transformers', which has none of time series: transformers' models and chronos-forecasting's pipelines, asked as
    tests/goldens/make_forecast_goldens.py asks them."""

    def __init__(self, directory):
        self.config = json.loads((pathlib.Path(directory) / "config.json").read_text())
        self.cls = self.config["architectures"][0]
        options = {"attn_implementation": "eager"} if self.cls.startswith("TimesFm") else {}
        if self.cls.startswith(("TimesFm", "PatchTST")):
            self.model = getattr(transformers, self.cls).from_pretrained(directory, **options).eval()
            return
        from chronos import ChronosBoltPipeline, ChronosPipeline
        self.model = (ChronosBoltPipeline if "Bolt" in self.cls else ChronosPipeline).from_pretrained(directory)

    def __call__(self, given, horizon, quantiles=None, frequency=0, seed=None, **draws):
        rows = [torch.tensor([float("nan") if v is None else v for v in s]) for s in (given if isinstance(given[0], list) else [given])]
        named = lambda mean, found: {"mean": np.asarray(mean), **({"quantiles": {q: np.asarray(found[:, k]) for k, q in enumerate(quantiles)}} if found is not None else {})}  # noqa: E731
        if self.cls.startswith("PatchTST"):
            n, channels = self.config["context_length"], self.config["num_input_channels"]
            x = torch.stack([s[-n:] for s in rows]).view(-1, channels, n).transpose(1, 2)
            out = self.model(past_values=x.nan_to_num(0.0), past_observed_mask=(~x.isnan()).float()).prediction_outputs
            found = [named(m[:horizon], None) for m in out.transpose(1, 2).reshape(len(rows), -1)]
        elif self.cls.startswith("TimesFm"):
            out, levels = self.model(past_values=rows, freq=[frequency] * len(rows)), list(self.config["quantiles"])
            found = [named(m[:horizon], f[:horizon, [levels.index(q) + 1 for q in quantiles]]) for m, f in zip(out.mean_predictions, out.full_predictions)]
        else:
            levels, samples = {"quantile_levels": quantiles}, draws.pop("samples", None)
            if samples is not None:
                draws["num_samples"] = samples
            paths = None
            if seed is not None:
                torch.manual_seed(seed)
                paths = self.model.predict(rows, prediction_length=horizon, **draws)
                torch.manual_seed(seed)
            q, mean = self.model.predict_quantiles(rows, prediction_length=horizon, **levels, **draws)
            found = [{**named(m, f), **({"samples": np.asarray(paths[i])} if paths is not None else {})} for i, (m, f) in enumerate(zip(mean, q))]
        return found if isinstance(given[0], list) else found[0]


def text(rng):
    parts = [rng.choice(PLAIN) if rng.random() < 0.6 else " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9))) for _ in range(rng.randint(1, 3))]
    return rng.choice((" ", "  ", ". ", "\n")).join(parts)


def texts(rng):
    return text(rng) if rng.random() < 0.6 else [text(rng) for _ in range(rng.randint(1, 4))]


def some(rng, **choices):
    """A few of these options, each one of its values."""
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}


def cut(rng, **more):
    """Arguments of a tokenizer: most texts are cut somewhere."""
    return {"truncation": True, **some(rng, max_length=(5, 8, 12, 20), padding=(True, "longest", "max_length"), **more)}


def classify(pipe, work, rng):
    given = texts(rng)
    if rng.random() < 0.3:
        given = [{"text": text(rng), "text_pair": text(rng)} for _ in range(rng.randint(1, 3))]
    return given, {**cut(rng, truncation=("longest_first", "only_first", True)), **some(rng, top_k=(None, 1, 2, 3, 9), function_to_apply=("sigmoid", "softmax", "none"))}


def entail(pipe, work, rng):
    labels = rng.sample(("cat", "london", "the bank", "un-happy", "caf\u00e9", "train to paris and back", "x"), rng.randint(1, 6))
    return texts(rng), {"candidate_labels": rng.choice((labels, ", ".join(labels))),
                        **some(rng, hypothesis_template=("it is of the {}", "{}", "This text, which is about {}, is short."), multi_label=(True, False))}


def extract(pipe, work, rng):
    kwargs = cut(rng)
    kwargs.pop("padding", None)
    return texts(rng), {"tokenize_kwargs": kwargs} if rng.random() < 0.5 else {"truncation": True}


def label_tokens(pipe, work, rng):
    options = some(rng, aggregation_strategy=("none", "simple", "first", "average", "max"), ignore_labels=([], ["O"], list(pipe.model.config.id2label.values())[:2]))
    if rng.random() < 0.4 and options.get("aggregation_strategy", "none") != "none":
        options["stride"] = rng.randint(1, 8)
        return " ".join(text(rng) for _ in range(6)), options
    return texts(rng), options


def fill(pipe, work, rng):
    mask = pipe.tokenizer.mask_token
    made = [rng.choice(("", text(rng) + " ")) + mask + rng.choice((" ", ".", "", " " + text(rng), f" and {mask}")) for _ in range(rng.choice((1, 1, 3)))]
    options = {**some(rng, top_k=(1, 2, 5, 9)), "tokenizer_kwargs": cut(rng)}
    if rng.random() < 0.3:
        options["targets"] = rng.sample(sorted(pipe.tokenizer.get_vocab()), rng.randint(1, 4))
    return made[0] if len(made) == 1 and rng.random() < 0.5 else made, options


def generate(pipe, work, rng):
    return texts(rng), {"max_new_tokens": rng.randint(1, 12), "do_sample": False, **some(rng, return_full_text=(True, False), num_beams=(1, 2, 3))}


def pictures(work, rng):
    paths = []
    for i in range(rng.choice((1, 1, 2))):
        paths.append(str(work / f"{rng.randrange(1 << 30)}.png"))
        picture(rng).save(paths[-1])
    return paths[0] if len(paths) == 1 and rng.random() < 0.7 else paths


def look(pipe, work, rng):
    return pictures(work, rng), some(rng, top_k=(1, 2, 9), function_to_apply=("sigmoid", "softmax", "none"))


def detect(pipe, work, rng):
    return pictures(work, rng), some(rng, threshold=(0.0, 0.2, 0.35, 0.5, 0.9))


def choose(pipe, work, rng):
    labels = rng.sample(("cat", "dog", "a red house", "tree", "caf\u00e9", "x"), rng.randint(1, 5))
    return pictures(work, rng), {"candidate_labels": labels, **some(rng, hypothesis_template=("a photo of {}", "{}", "This is a photo of {}."))}


def segment(pipe, work, rng):
    return pictures(work, rng), some(rng, threshold=(0.1, 0.3, 0.7), mask_threshold=(0.3, 0.6), overlap_mask_area_threshold=(0.2, 0.7))


def measure(pipe, work, rng):
    return pictures(work, rng), {}


def hear(pipe, work, rng):
    made = [write_sound(work / f"{rng.randrange(1 << 30)}.wav", x, 16000) for x in sounds({"sampling_rate": 16000}, rng) if len(x) > 800]
    return (made[0] if len(made) == 1 else made), some(rng, top_k=(1, 2, 9), function_to_apply=("sigmoid", "softmax", "none"))


def listen(pipe, work, rng):
    """Whisper's options."""
    given, _ = hear(pipe, work, rng)
    how = {"num_beams": rng.choice((1, 1, 2, 3)), **some(rng, max_new_tokens=(5, 9, 16), condition_on_prev_tokens=(True, False), logprob_threshold=(-8.0, -4.0, -1.0),
               compression_ratio_threshold=(0.7, 0.9, 1.4), temperature=((0.0,), (0.0, 0.0)), no_repeat_ngram_size=(2, 3), repetition_penalty=(0.8, 1.3))}
    if "logprob_threshold" in how:
        how.update(some(rng, no_speech_threshold=(0.001, 0.005, 0.3)))
    if pipe.model.generation_config.is_multilingual:
        how.update(some(rng, language=("fr", "english", "<|de|>", "yue"), task=("transcribe", "translate")))
    return given, {"return_timestamps": rng.choice((True, True, False, None)), "generate_kwargs": how}


def speak(pipe, work, rng):
    speakers = getattr(pipe.model.config, "num_speakers", 1)
    params = some(rng, **({"speaker_id": tuple(range(speakers))} if speakers > 1 else {}))
    return rng.choice(("hello there", "a cat, a dog", "the train is late")), {"forward_params": params, "seed": rng.randrange(1 << 20)}


def read_page(pipe, work, rng):
    page = {"image": str(work / "page.png"), "question": rng.choice(("What is the total?", "Who lives in London?", "cat"))}
    picture(rng).convert("RGB").save(page["image"])
    if pipe.model.config.model_type == "vision-encoder-decoder":
        return page, {}
    page["word_boxes"] = [(rng.choice(WORDS), [rng.randint(0, 400), rng.randint(0, 400), rng.randint(400, 1000), rng.randint(400, 1000)]) for _ in range(rng.randint(1, 90))]
    return page, some(rng, top_k=(1, 2, 5), max_answer_len=(1, 3, 40), doc_stride=(2, 6), max_seq_len=(20, 33), handle_impossible_answer=(True, False))


def features(pipe, work, rng):
    trained = pipe.model.config.model_type != "vit"  # whose checkpoint here has no pooler: transformers makes up a random one
    return pictures(work, rng), some(rng, pool=(trained, False))


def wave(rng, n, missing):
    """Some of the values are missing where that may be, and some series are flat or begin with nothing."""
    scale, start = 10 ** rng.uniform(-3, 4), rng.uniform(-5, 5)
    if rng.random() < 0.1:
        values = [start * scale] * n
    else:
        values = [scale * (start + rng.uniform(-0.1, 0.1) * i + np.sin(rng.uniform(0.3, 0.7) * i) + rng.gauss(0, 0.2)) for i in range(n)]
    values = [float(np.float32(v)) for v in values]
    front = rng.randint(0, n // 2) if missing and rng.random() < 0.2 else 0
    return [None if i < front or (missing and i < n - 1 and rng.random() < 0.15) else v for i, v in enumerate(values)]


def forecast(pipe, work, rng):
    config, several = pipe.config, rng.choice((1, 2, 3))
    if pipe.cls.startswith("PatchTST"):
        n = config["context_length"]
        return [wave(rng, n + rng.randint(0, 9), True) for _ in range(config["num_input_channels"] * several)], {"horizon": rng.randint(1, config["prediction_length"])}
    if pipe.cls.startswith("TimesFm"):
        levels = list(config["quantiles"])
        how = {"horizon": rng.randint(1, config["horizon_length"]), "quantiles": sorted(rng.sample(levels, rng.randint(1, len(levels)))), "frequency": rng.randrange(config["freq_size"])}
        return [wave(rng, rng.randint(1, 60), False) for _ in range(several)], how
    given = [wave(rng, rng.randint(1, 60), True) for _ in range(several)]
    how = {"horizon": rng.randint(1, 14), "quantiles": sorted({round(rng.uniform(0.02, 0.98), 2) for _ in range(rng.randint(1, 4))})}
    if "Bolt" not in pipe.cls:
        how.update(some(rng, samples=(1, 3, 9), temperature=(0.5, 1.0, 1.7), top_k=(0, 3, 12), top_p=(0.4, 0.9, 1.0)), seed=rng.randrange(1 << 20))
    return (given[0] if several == 1 and rng.random() < 0.5 else given), how


def transcribe(pipe, work, rng):
    if pipe.model.config.model_type == "whisper":
        return listen(pipe, work, rng)
    given, _ = hear(pipe, work, rng)
    options = some(rng, return_timestamps=("word", "char"))
    if rng.random() < 0.5:
        options["chunk_length_s"] = rng.choice((0.5, 0.8, 1.3))
        options.update(some(rng, stride_length_s=(0.1, [0.1, 0.2])))
    return given, options


DRAWN = {"text-classification": classify, "token-classification": label_tokens, "fill-mask": fill, "feature-extraction": extract,
         "text-generation": generate, "image-classification": look, "object-detection": detect, "zero-shot-image-classification": choose, "image-segmentation": segment,
         "depth-estimation": measure, "audio-classification": hear, "automatic-speech-recognition": transcribe, "zero-shot-classification": entail, "document-question-answering": read_page, "text-to-audio": speak,
         "image-feature-extraction": features, "time-series-forecasting": forecast}


def difference(want, got, at=""):
    """Where two answers differ, or None; numbers within 1e-3 of what is asked for, boxes by one pixel."""
    if isinstance(want, dict) and isinstance(got, dict):
        if set(want) != set(got):
            return f"{at}: {sorted(got)} for {sorted(want)}"
        return next((d for k in want if (d := difference(want[k], got[k], f"{at}.{k}"))), None)
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(want) != len(got):
            return f"{at}: {len(got)} for {len(want)}"
        return next((d for i, (a, b) in enumerate(zip(want, got)) if (d := difference(a, b, f"{at}[{i}]"))), None)
    if hasattr(got, "shape") or hasattr(want, "getbands"):
        a, b = np.asarray(want, np.float64), np.asarray(got, np.float64)
        if a.shape != b.shape:
            return f"{at}: {b.shape} for {a.shape}"
        near = np.abs(a - b) <= (1.01 if hasattr(want, "getbands") else 1e-3 * max(1.0, np.abs(a).max(initial=0)))
        return None if near.mean() > 0.999 else f"{at}: {(~near).mean():.4f} of the elements differ"
    if isinstance(want, (float, np.floating)) and isinstance(got, (float, np.floating)):
        return None if abs(want - got) <= 1e-3 * max(1.0, abs(want)) else f"{at}: {got} for {want}"
    if isinstance(want, int) and isinstance(got, int) and "box" in at:
        return None if abs(want - got) <= 1 else f"{at}: {got} for {want}"
    return None if want == got else f"{at}: {got!r} for {want!r}"


def compare(theirs, ours, given, options):
    try:
        with torch.inference_mode():
            asked = dict(options)
            if "seed" in asked and not isinstance(theirs, Forecaster):
                torch.manual_seed(asked.pop("seed"))
            want = theirs(given, **asked)
    except BaseException as e:  # whatever transformers does not take; tokenizers' panics are no Exception
        if isinstance(e, KeyboardInterrupt):
            raise
        return "left out", str(e)[:200]
    try:
        got = ours(given, **options)
    except Exception as e:
        return "refused", f"{type(e).__name__}: {e}"[:300]
    found = difference(want, got)
    return ("failed", found) if found else ("passed", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    count = {"passed": 0, "failed": 0, "refused": 0, "left out": 0}
    for task, names in MODELS.items():
        if given.tasks and task not in given.tasks:
            continue
        for name in names:
            if task == "time-series-forecasting":
                theirs = Forecaster(FIXTURES / name)
            else:
                theirs = transformers.pipeline(task, str(FIXTURES / name), device="cpu", dtype="float32")
            ours = accel.pipeline(task, str(FIXTURES / name), device="cpu")
            for turn in range(given.rounds):
                rng = random.Random(f"{given.seed} {task} {name} {turn}")
                with tempfile.TemporaryDirectory() as work:
                    inputs, options = DRAWN[task](theirs, pathlib.Path(work), rng)
                    outcome, why = compare(theirs, ours, inputs, options)
                count[outcome] += 1
                if outcome in ("failed", "refused") or os.environ.get("SHOW_LEFT") and outcome != "passed":
                    print(f"{outcome}: {task} {name} {ascii(inputs)[:300]} {json.dumps(options)}\n    {ascii(why)}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
