#!/usr/bin/env python3
"""Compares libaccel with transformers on configs that are not in the tree: takes the tiny models of tests/fixtures/models, changes one to three
fields of a config at random, lets transformers make and run such a model (random weights, fp32, eager), and `accel verify` compare.

    python3 tests/goldens/random_configs.py --accel build/release/bin/accel [--rounds N] [--seed S] [--fields N] [--generate] [--precision P] [--keep DIR] [FIXTURE ...]

With --generate the classes that generate do so, greedily, over the keys and values or states that are kept between their steps.
With --precision libaccel computes at that precision, and docs/verify.md's bounds for it hold against transformers' fp32.

Changes that transformers itself does not take are left out.  Prints each golden that failed and each config that was refused, with the changes that
led there, then the counts; a refusal is right where the message names a field that libaccel says it does not have, and is for a reader to judge.
The exit status is 1 where numbers differ.
"""
import argparse
import copy
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers.activations import ACT2FN

import tiny_models

ROOT = tiny_models.ROOT
LISTS = ("goldens.list", "goldens_vision.list", "goldens_audio.list", "goldens_seq2seq.list", "goldens_documents.list", "goldens_seeing.list",
         "goldens_forecast.list", "goldens_speech.list")
# What says nothing about the numbers, or cannot change without the inputs.
LEFT = ("dropout", "drop_", "_drop", "layerdrop", "initializer", "init_std", "token_id", "token_index", "vocab_size", "use_cache", "output_", "return_dict",
        "_name_or_path", "transformers_version", "dtype", "model_type", "architectures", "problem_type", "id2label", "label2id", "loss", "_cost", "jitter",
        "chunk_size_feed", "image_size", "num_channels", "num_mel", "aux", "pretraining_tp", "mask_time", "mask_feature", "is_encoder_decoder", "_id", "_seed",
        "apply_spec", "backbone_kwargs", "cross_attention_hidden_size", "add_cross", "is_decoder", "num_labels", "use_timm", "use_pretrained", "_reduction",
        "zero_infinity", "spec_", "begin_suppress", "suppress_tokens", "max_length", "patch_size", "num_assistant", "use_mamba_kernels", "use_mambapy",
        "rescale_prenorm", "label2id", "is_folding_model")
NEW = 17  # tokens that --generate adds
OPTIONAL = {"head_dim": (4, 8, 10), "sliding_window": (2, 5, 9), "attention_window": (3,), "num_key_value_heads": (1, 2), "attn_logit_softcapping": (3.0, 20.0),
            "final_logit_softcapping": (2.0,), "clip_qkv": (0.7,), "logit_scale": (0.3,), "classifier_dropout": (), "qk_rope_head_dim": (4,)}
SIZES = ("intermediate", "inner", "ffn", "d_ff", "projection_dim", "_dim")


def leaves(value, path=()):
    """(path, value) of each field, those within nested configs, too."""
    for key, item in value.items():
        if isinstance(item, dict):
            yield from leaves(item, path + (key,))
        else:
            yield path + (key,), item


def changed(key, value, rng):
    """Another value of a field, or None."""
    if any(part in key for part in LEFT):
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return round(value * rng.choice((0.5, 0.8, 1.5, 2.0)), 12) if value else rng.choice((0.25, 0.7))
    if isinstance(value, int):
        if "layers" in key or key in ("n_layer", "num_blocks"):
            return rng.choice((1, 2, 3, 4))
        if "head" in key and "dim" not in key:
            return rng.choice((1, 2, 3, 4, 6, 8))
        if any(part in key for part in SIZES):
            return rng.choice((value + 1, value + 8, 2 * value, max(1, value // 2), 7, 33))
        return rng.choice((value + 1, 2 * value, max(0, value - 1), max(1, value // 2)))
    if isinstance(value, str):
        return rng.choice(sorted(set(ACT2FN.keys()) - {"laplace", "prelu", "xielu"})) if value in ACT2FN else None
    if value is None:
        choices = OPTIONAL.get(key, ())
        return rng.choice(choices) if choices else None
    if isinstance(value, list) and value:
        other = list(value)
        if all(type(v) is int for v in value) and rng.random() < 0.5:
            at = rng.randrange(len(value))
            other[at] = max(0, other[at] + rng.choice((-1, 1, 2)))
        else:
            rng.shuffle(other)
        return other if other != value else None
    return None


def mutated(config, change, fields, rng):
    """A copy of the config in which so many fields, drawn at random, are what change(key, value, rng) makes of them (None: such a field stays); and notes of what
    was changed."""
    config, notes = copy.deepcopy(config), []
    paths = [(path, value) for path, value in leaves(config) if change(path[-1], value, random.Random(0)) is not None]
    for path, value in rng.sample(paths, min(fields, len(paths))):
        new = change(path[-1], value, rng)
        if new is None or new == value:
            continue
        at = config
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = new
        notes.append(f"{'.'.join(path)}={json.dumps(new)}")
    return config, notes


def read_golden(path):
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        tensors = {k: file.get_tensor(k) for k in file.keys()}
    return metadata, tensors


class Case:
    def __init__(self, fixture, golden, cls):
        self.fixture, self.golden, self.cls = fixture, golden, cls
        self.metadata, self.tensors = read_golden(ROOT / fixture / golden)
        self.config = json.loads((ROOT / fixture / "config.json").read_text())

    def write(self, directory, config, whole, generate):
        """The model and its golden; raises what transformers raises.  whole: a config with every field, else as save_pretrained leaves defaults out."""
        made = transformers.AutoConfig.for_model(config["model_type"]).__class__.from_dict(config)
        model = getattr(transformers, self.cls)(made).eval()
        tiny_models.randomise(model)
        model.save_pretrained(directory)
        text = json.loads(made.to_json_string()) if whole else json.loads((directory / "config.json").read_text())
        text["architectures"] = [self.cls]
        (directory / "config.json").write_text(json.dumps(text, indent=1))
        attention = "sdpa" if made.get_text_config().model_type == "falcon" else "eager"  # eager adds ALiBi twice in transformers 5.23
        model = getattr(transformers, self.cls).from_pretrained(directory, dtype=torch.float32, attn_implementation=attention, experts_implementation="eager").eval()
        inputs = {k[3:]: v for k, v in self.tensors.items() if k.startswith("in.") and not (generate and k.startswith("in.decoder_"))}
        args = {"max_new_tokens": NEW} if generate else json.loads(self.metadata.get("args", "{}"))
        with torch.no_grad():
            out = {"sequences": model.generate(**inputs, **args)} if generate else model(**inputs, **args)
        into = {}
        tiny_models.flatten("", dict(out.items()), into)
        wanted = {"out.sequences"} if generate else {k.split(".hidden_states")[0] for k in self.tensors if k.startswith("out.")}
        fields = {k: v for k, v in into.items() if k.split(".hidden_states")[0] in wanted}
        if not fields or any(not torch.isfinite(v).all() for v in fields.values()):
            raise ValueError("not finite")
        tensors = {f"in.{k}": v for k, v in inputs.items()}
        if not generate:
            tensors.update({k: v for k, v in self.tensors.items() if k.startswith("mask.")})
        tensors.update({k: (v.float() if v.is_floating_point() else v).contiguous().clone() for k, v in fields.items()})
        save_file(tensors, directory / "golden.safetensors", metadata={"mode": "generate" if generate else "forward", "args": json.dumps(args)})

    def generates(self):
        """Does the class generate from these inputs?  Prompts of decoders are padded at the left."""
        if not self.cls.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "MTModel")) or "in.position_ids" in self.tensors:
            return False
        mask = self.tensors.get("in.attention_mask")
        return "in.input_ids" in self.tensors and (self.config.get("is_encoder_decoder", False) or mask is None or bool(mask[:, -1].all()))


def cases(wanted):
    for name in LISTS:
        for line in (ROOT / name).read_text().splitlines():
            fixture, golden, cls = line.split()
            if (not wanted or fixture in wanted) and "/" not in fixture and hasattr(transformers, cls):
                case = Case(fixture, golden, cls)
                if case.metadata.get("mode", "forward") == "forward":
                    yield case


def verify(accel, made, precision="fp32"):
    """Runs the goldens; yields (directory, result), result None where the process died on it."""
    made = list(made)
    while made:
        lines = "".join(f"{d}\t{d}/golden.safetensors\t-\t{precision}\n" for d in made)
        done = subprocess.run([accel, "verify", "--list", "-", "--json"], input=lines, capture_output=True, text=True)
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        for directory, result in zip(made, results):
            yield directory, result
        made = made[len(results):]
        if made:
            yield made[0], {"pass": False, "error": f"the process ended: {done.returncode} {done.stderr[-300:]}"}
            made = made[1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fixtures", nargs="*")
    parser.add_argument("--accel", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--fields", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--generate", action="store_true")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--keep")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    count = {"passed": 0, "failed": 0, "refused": 0, "left out": 0}
    by_class = {}
    for case in cases(set(options.fixtures)):
        if options.generate and not case.generates():
            continue
        by_class.setdefault((case.fixture, case.cls), []).append(case)
    for (fixture, cls), group in by_class.items():
        with tempfile.TemporaryDirectory() as work:
            notes = {}
            for turn in range(options.rounds):
                rng = random.Random(f"{options.seed} {fixture} {cls} {turn}")
                case = rng.choice(group)
                directory = pathlib.Path(work) / f"{fixture}.{cls}.{options.seed}.{turn}"
                directory.mkdir()
                config, changes = mutated(case.config, changed, rng.randint(1, options.fields), rng)
                try:
                    case.write(directory, config, rng.random() < 0.5, options.generate)
                    notes[directory] = f"{fixture} {case.golden} {' '.join(changes)}"
                except Exception as e:  # whatever transformers says of a config that it cannot run
                    count["left out"] += 1
                    if os.environ.get("SHOW_LEFT"):
                        print("left out:", fixture, changes, str(e)[:200])
            for directory, result in verify(options.accel, notes, options.precision):
                if result["pass"]:
                    count["passed"] += 1
                    continue
                kind = "failed" if "outputs" in result and result["outputs"] else "refused"
                count[kind] += 1
                why = result.get("error") or [(o["name"], o["max_abs"], o["cosine"], o["bound"], o.get("note")) for o in result["outputs"] if not o["pass"]]
                print(f"{kind}: {notes[directory]}\n    {str(why)[:600]}", flush=True)
                if options.keep:
                    shutil.copytree(directory, pathlib.Path(options.keep) / directory.name, dirs_exist_ok=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
