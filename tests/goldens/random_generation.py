#!/usr/bin/env python3
"""Compares libaccel's generation with transformers' on options that are not in the tree: takes the models of tests/fixtures that generate, draws prompts and up to five
fields of GenerationConfig at random, some of them as arguments, the others in generation_config.json, and has `accel verify` compare what was generated.

    python3 tests/goldens/random_generation.py --accel build/release/bin/accel [--rounds N] [--seed S] [--options N] [--keep DIR] [FIXTURE ...]

Nothing is sampled.  What transformers does not take is left out, and so is a case whose tokens are others with a little noise on the scores.  Prints what differed and
what was refused, then the counts; the exit status is 1 where something differed.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import warnings

import torch
import transformers
from safetensors.torch import save_file

import tiny_models
from make_generate_goldens import ATTENTION, EXPERTS, LEFT_OUT
from random_configs import read_golden, verify

ROOT = tiny_models.ROOT
ALONE = ("llama_rope_dynamic", "llama_rope_longrope", "phi3_long")  # rotations that follow the longest row of a batch
NOISE = 1e-4


def words(seen, rng, most=3):
    """Lists of token ids that the model is likely to come across."""
    return [[rng.choice(seen) for _ in range(rng.choice((1, 1, 2, most)))] for _ in range(rng.randint(1, 4))]


def draw(name, seen, rng):
    """A value of a field."""
    some = lambda least, most: sorted({rng.choice(seen) for _ in range(rng.randint(least, most))})  # noqa: E731
    return {
        "max_new_tokens": lambda: rng.randint(1, 24), "max_length": lambda: rng.randint(3, 30), "min_length": lambda: rng.randint(0, 20),
        "min_new_tokens": lambda: rng.randint(0, 14), "num_beams": lambda: rng.choice((1, 2, 3, 5)), "early_stopping": lambda: rng.choice((True, False, "never")),
        "length_penalty": lambda: rng.choice((-1.0, 0.0, 0.5, 1.0, 2.0)), "repetition_penalty": lambda: rng.choice((0.7, 1.1, 1.8)),
        "encoder_repetition_penalty": lambda: rng.choice((0.6, 1.5)), "no_repeat_ngram_size": lambda: rng.randint(1, 4),
        "encoder_no_repeat_ngram_size": lambda: rng.randint(1, 3), "sequence_bias": lambda: [[w, rng.choice((-8.0, -0.7, 1.5, 6.0))] for w in words(seen, rng)],
        "bad_words_ids": lambda: words(seen, rng), "forced_bos_token_id": lambda: rng.choice(seen), "forced_eos_token_id": lambda: rng.choice((rng.choice(seen), some(1, 3))),
        "suppress_tokens": lambda: some(1, 6), "begin_suppress_tokens": lambda: some(1, 4), "remove_invalid_values": lambda: True, "renormalize_logits": lambda: True,
        "exponential_decay_length_penalty": lambda: [rng.randint(0, 8), rng.choice((1.02, 1.3, 2.0))], "eos_token_id": lambda: rng.choice((rng.choice(seen), some(1, 4))),
        "pad_token_id": lambda: rng.choice((0, 1, rng.choice(seen))), "num_return_sequences": lambda: rng.randint(1, 3), "use_cache": lambda: False,
        "decoder_start_token_id": lambda: rng.choice(seen), "bos_token_id": lambda: rng.choice(seen),
        "do_sample": lambda: False, "temperature": lambda: 0.7, "top_k": lambda: 10, "top_p": lambda: 0.9, "prompt_lookup_num_tokens": lambda: rng.randint(1, 5),
        "max_time": lambda: 100.0, "token_healing": lambda: False,
    }[name]()


COMMON = ("max_new_tokens", "min_length", "min_new_tokens", "num_beams", "repetition_penalty", "no_repeat_ngram_size", "sequence_bias", "bad_words_ids", "suppress_tokens",
          "begin_suppress_tokens", "eos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty", "pad_token_id", "max_length")
RARE = ("early_stopping", "length_penalty", "encoder_repetition_penalty", "encoder_no_repeat_ngram_size", "forced_bos_token_id", "remove_invalid_values",
        "renormalize_logits", "num_return_sequences", "use_cache", "decoder_start_token_id", "bos_token_id",
        "do_sample", "temperature", "top_k", "top_p", "prompt_lookup_num_tokens", "max_time", "token_healing")


def options(seen, most, rng):
    names = set(rng.sample(COMMON, rng.randint(1, most))) | set(rng.sample(RARE, rng.choice((0, 0, 1, 2))))
    if rng.random() < 0.25:
        names |= {"num_beams", rng.choice(("early_stopping", "length_penalty", "num_return_sequences"))}
    drawn = {name: draw(name, seen, rng) for name in sorted(names)}
    if drawn.get("num_beams", 1) > 1 and isinstance(drawn.get("forced_eos_token_id"), list):  # equal scores: torch.topk takes any
        drawn["forced_eos_token_id"] = drawn["forced_eos_token_id"][0]
    return drawn


class Model:
    """A fixture's model, its goldens' inputs, and the tokens that it says."""

    def __init__(self, fixture, cls, goldens):
        self.fixture, self.cls, self.goldens = fixture, cls, goldens
        name = pathlib.Path(fixture).name
        self.model = getattr(transformers, cls).from_pretrained(ROOT / fixture, dtype=torch.float32, attn_implementation=ATTENTION.get(name, "eager"),
                                                                **EXPERTS.get(cls, {})).eval()
        self.encoder = self.model.config.is_encoder_decoder
        given = [{k[3:]: v for k, v in read_golden(ROOT / fixture / g)[1].items() if k.startswith("in.")} for g in goldens]
        self.texts = not any("pixel_values" in g or "input_features" in g for g in given)
        self.given, self.configured = given, self.model.generation_config.to_diff_dict()
        self.seen = self.say(self.given[0])

    def say(self, inputs):
        ids = self.generate(inputs, {"max_new_tokens": 12}, {}).flatten().tolist()
        return [i for i in ids if 0 <= i < self.model.config.get_text_config().vocab_size]

    def inputs(self, rng):
        if not self.texts:
            return rng.choice(self.given)
        lengths = [rng.randint(1, 9) for _ in range(1 if pathlib.Path(self.fixture).name.startswith(ALONE) else rng.choice((1, 1, 2, 3)))]
        ids = torch.zeros((len(lengths), max(lengths)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        right = self.encoder and rng.random() < 0.5
        for row, n in enumerate(lengths):
            place = slice(0, n) if right else slice(max(lengths) - n, max(lengths))
            ids[row, place] = torch.tensor([rng.choice(self.seen) if rng.random() < 0.5 else rng.randrange(3, 60) for _ in range(n)])
            mask[row, place] = 1
        ids %= self.model.config.get_text_config().vocab_size
        return {"input_ids": ids, "attention_mask": mask}

    def generate(self, inputs, how, file):
        self.model.generation_config = transformers.GenerationConfig(**{**self.configured, **file})
        with torch.no_grad():
            return self.model.generate(**inputs, **how)

    def unclear(self, inputs, how, file, sequences):
        """Are the tokens others with a little noise on the scores?"""
        generator = torch.Generator().manual_seed(1)
        head = next(m.get_output_embeddings() for m in self.model.modules() if getattr(m, "get_output_embeddings", lambda: None)() is not None)
        noise = head.register_forward_hook(lambda m, i, o: o + NOISE * torch.randn(o.shape, generator=generator))
        try:
            return any(not torch.equal(self.generate(inputs, how, file), sequences) for _ in range(3))
        finally:
            noise.remove()

    def write(self, directory, inputs, how, file):
        """The golden, in a directory of its own with the configuration; raises what transformers raises."""
        sequences = self.generate(inputs, how, file)
        for path in (ROOT / self.fixture).iterdir():
            if path.name != "generation_config.json" and not path.name.startswith("golden"):
                (directory / path.name).symlink_to(path)
        config = {**self.configured, **file}
        (directory / "generation_config.json").write_text(json.dumps(config))
        self.save(directory / "golden.safetensors", inputs, how, sequences)
        return sequences

    @staticmethod
    def save(path, inputs, how, sequences):
        save_file({f"in.{k}": v.contiguous() for k, v in inputs.items()} | {"out.sequences": sequences.contiguous()}, path,
                  metadata={"mode": "generate", "args": json.dumps(how)})


def models(wanted):
    found = {}
    for name in ("goldens_generate.list", "goldens_seq2seq.list", "goldens_seeing.list"):
        for line in (ROOT / name).read_text().splitlines():
            fixture, golden, cls = line.split()
            name = pathlib.Path(fixture).name
            if (not wanted or name in wanted) and name not in LEFT_OUT and hasattr(transformers, cls) and read_golden(ROOT / fixture / golden)[0].get("mode") == "generate":
                found.setdefault((fixture, cls), []).append(golden)
    for (fixture, cls), goldens in found.items():
        yield Model(fixture, cls, goldens)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fixtures", nargs="*")
    parser.add_argument("--accel", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--options", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    count = {"passed": 0, "failed": 0, "refused": 0, "unclear": 0, "left out": 0}
    for model in models(set(given.fixtures)):
        with tempfile.TemporaryDirectory() as work:
            made = {}
            for turn in range(given.rounds):
                rng = random.Random(f"{given.seed} {model.fixture} {model.cls} {turn}")
                directory = pathlib.Path(work) / f"{pathlib.Path(model.fixture).name}.{given.seed}.{turn}"
                directory.mkdir()
                inputs, how, file = model.inputs(rng), {"do_sample": False}, {}
                longrope = pathlib.Path(model.fixture).name.startswith(ALONE)  # what is read again without a cache, or in pieces, rotates otherwise in transformers
                for name, value in options(model.seen, given.options, rng).items():
                    if longrope and name in ("use_cache", "prompt_lookup_num_tokens"):
                        continue
                    (how if rng.random() < 0.5 or model.cls.startswith("Blip") else file)[name] = value  # BLIP's text decoder reads no generation_config.json
                if "max_new_tokens" not in {**how, **file} and "max_length" not in {**how, **file}:
                    how["max_new_tokens"] = 16
                try:
                    made[directory] = inputs, how, file, model.write(directory, inputs, how, file)
                except Exception as e:  # whatever transformers says of options that it does not take
                    count["left out"] += 1
                    if os.environ.get("SHOW_LEFT"):
                        print("left out:", how, file, str(e)[:200])
            for directory, result in verify(given.accel, made):
                inputs, how, file, sequences = made[directory]
                kind = "passed" if result["pass"] else "failed" if result.get("outputs") else "refused"
                if kind == "failed" and model.unclear(inputs, how, file, sequences):
                    kind = "unclear"
                count[kind] += 1
                if kind in ("failed", "refused"):
                    why = result.get("error") or [(o["name"], o.get("note")) for o in result["outputs"] if not o["pass"]]
                    print(f"{kind}: {directory.name} {json.dumps(how)} file {json.dumps(file)}\n    {str(why)[:400]}", flush=True)
                    if given.keep:
                        shutil.rmtree(pathlib.Path(given.keep) / directory.name, ignore_errors=True)
                        shutil.copytree(directory, pathlib.Path(given.keep) / directory.name, symlinks=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
