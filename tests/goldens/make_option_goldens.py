#!/usr/bin/env python3
"""Makes goldens of generation options on which random_generation.py found libaccel wrong: golden.<Class>.<case>.safetensors beside the models of tests/fixtures, and
models/goldens_options.list, which names them.

    python3 tests/goldens/make_option_goldens.py [case ...]

Each case draws inputs until it shows what it is about: the same options on rows without padding, or without what is said twice, give other tokens.
"""
import random
import sys

import torch
import transformers

from random_generation import Model, ROOT

ATTEMPTS = 400


def padded(model, rng, lengths, most, left=False):
    """Prompts of these lengths: decoders padded at the left, encoders at the right unless `left`."""
    ids, mask = torch.zeros((len(lengths), max(lengths)), dtype=torch.long), torch.zeros((len(lengths), max(lengths)), dtype=torch.long)
    for row, n in enumerate(lengths):
        place = slice(0, n) if model.encoder and not left else slice(max(lengths) - n, max(lengths))
        ids[row, place], mask[row, place] = torch.tensor([rng.randrange(3, most) for _ in range(n)]), 1
    return {"input_ids": ids, "attention_mask": mask}


def shows_padding(model, inputs, how, out):
    """Do rows alone say something else?"""
    start = 1 if model.encoder else inputs["input_ids"].shape[1]
    for row, mask in enumerate(inputs["attention_mask"].bool()):
        alone = model.generate({k: v[row:row + 1, mask] for k, v in inputs.items()}, how, {})
        said = alone[0, 1 if model.encoder else int(mask.sum()):]
        if not torch.equal(said, out[row, start:start + len(said)]):
            return True
    return False


def pad_counts(model, rng):
    """N-grams and biases see the padding in front of a prompt, the repetition penalty does not."""
    how = {"max_new_tokens": 12, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "sequence_bias": [[[0], 2.0], [[0, 0], 2.5]]}
    return padded(model, rng, (8, 3, 5), 60), how, shows_padding


def encoder_pad_counts(model, rng):
    """So do the encoder's options, of padding behind a text."""
    return padded(model, rng, (7, 3), 33), {"max_new_tokens": 10, "num_beams": 1, "encoder_repetition_penalty": 3.0, "encoder_no_repeat_ngram_size": 1}, shows_padding


def encoder_pad_left(model, rng):
    """Padding in front of a text moves its places in encoders of BART's kind."""
    return padded(model, rng, (9, 4, 6), 33, left=True), {"max_new_tokens": 14, "num_beams": rng.choice((1, 3))}, shows_padding


def bias_twice(model, rng):
    """Of two biases of the same tokens the last one counts."""
    how = {"max_new_tokens": 8, "sequence_bias": [[[20], 9.0], [[30], 1.5], [[20], -3.0]]}
    first = dict(how, sequence_bias=how["sequence_bias"][:2])
    return padded(model, rng, (6,), 60), how, lambda m, i, h, out: not torch.equal(m.generate(i, first, {}), out)


def wide_encoder(model, rng):
    """An encoder's vocabulary may be larger than the decoder's."""
    most = model.model.config.vocab_size
    return padded(model, rng, (6, 4), most), {"max_new_tokens": 8}, lambda m, i, h, out: bool((i["input_ids"] >= m.model.config.decoder_vocab_size).any())


def few_rows(model, rng):
    """Short prompts with a picture, whose rows see one another, then beyond the window; the picture's token may not come again."""
    picture = model.model.config.image_token_index
    ids = torch.tensor([[1, rng.randrange(5, 60), *[picture] * 4, *[rng.randrange(5, 60) for _ in range(6)]] for _ in range(3)])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": (ids == picture).long(), "pixel_values": model.given[0]["pixel_values"][:3]}
    untyped = {k: v for k, v in inputs.items() if k != "token_type_ids"}

    def shows(m, _, h, out):
        return bool((m.generate(untyped, h, {}) != out).any(1).all())
    return inputs, {"max_new_tokens": 12, "suppress_tokens": [picture]}, shows


CASES = [("gpt2", "GPT2LMHeadModel", pad_counts), ("generate_bart", "BartForConditionalGeneration", encoder_pad_counts), ("llama", "LlamaForCausalLM", bias_twice),
         ("generate_bart", "BartForConditionalGeneration", encoder_pad_left), ("generate_marian", "MarianMTModel", encoder_pad_left), ("generate_marian_apart", "MarianMTModel", wide_encoder), ("../seeing/gemma3", "Gemma3ForConditionalGeneration", few_rows)]


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    lines = []
    for fixture, cls, case in CASES:
        file = f"golden.{cls}.{case.__name__}.safetensors"
        lines.append(f"{fixture} {file} {cls}")
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        model = Model(fixture, cls, [f"golden.{cls}.greedy.safetensors"])
        for attempt in range(ATTEMPTS):
            inputs, how, shows = case(model, random.Random(f"{fixture} {attempt}"))
            out = model.generate(inputs, how, {})
            if shows(model, inputs, how, out) and not model.unclear(inputs, how, {}, out):
                break
        else:
            raise SystemExit(f"{fixture}: no inputs show {case.__name__}")
        model.save(ROOT / fixture / file, inputs, how, out)
    (ROOT / "goldens_options.list").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
