#!/usr/bin/env python3
"""Compares libaccel's tokenizers with transformers' on tokenizer_config.json files that are not in the tree: takes the tokenizers of tests/fixtures, changes up to
three fields at random, and has both read random strings and write them again.  (fuzz_tokenizers.py changes tokenizer.json.)

    python3 tests/goldens/random_tokenizers.py --accel build/release/bin/accel [--rounds N] [--seed S] [FIXTURE ...]

What transformers itself does not take is left out.  Prints what differed and what was refused, then the counts; the exit status is 1 where something differed.
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
import transformers

from fuzz_tokenizers import ours, text
from random_configs import mutated

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
# What no fixture says and a config may; the values that a field takes.
VALUES = {"add_bos_token": (True, False), "add_eos_token": (True, False), "add_prefix_space": (True, False), "do_lower_case": (True, False), "strip_accents": (True, False, None),
          "tokenize_chinese_chars": (True, False), "clean_up_tokenization_spaces": (True, False), "legacy": (True, False), "split_special_tokens": (True, False),
          "tokenizer_class": ("TokenizersBackend", "PreTrainedTokenizerFast"), "trim_offsets": (True, False), "padding_side": ("left", "right"),
          "errors": ("replace", "ignore"), "add_dummy_prefix": (True, False), "unk_token": ("<unk>", "[UNK]", "q"), "eos_token": ("</s>", "the", "<new>"),
          "bos_token": ("<s>", "a", "<other>"), "cls_token": ("[CLS]", "the"), "sep_token": ("[SEP]", "."), "mask_token": ("[MASK]", "<mask>", "cat"), "pad_token": ("[PAD]", "<pad>"),
          "extra_special_tokens": (["<x>", "the"], ["<y>"]), "model_max_length": (5, 1000), "normalize": (True, False), "phonemize": (False,), "add_blank": (True, False),
          "word_delimiter_token": ("|", "e"), "replace_word_delimiter_char": (" ", "_")}


def changed(key, value, rng):
    """Another value of a field, or None."""
    return rng.choice(VALUES[key]) if key in VALUES else None


def copy(folder, directory, config, whole):
    """The fixture's files with this configuration; without tokenizer.json where the vocabulary lies in other files, too."""
    others = [p for p in folder.iterdir() if p.name in ("vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model", "spm.model", "source.spm")]
    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".safetensors" and path.name != "tokenizer_config.json" and not (others and not whole and path.name == "tokenizer.json"):
            (directory / path.name).symlink_to(path)
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def compare(program, directory, strings):
    """(outcome, what is to be said of it)"""
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(directory)
        made = [theirs(s, truncation=False, return_offsets_mapping=theirs.is_fast) for s in strings]
        ids = [m.input_ids for m in made]
        offsets = [[list(pair) for pair in m["offset_mapping"]] for m in made] if theirs.is_fast else None
        texts = [theirs.decode(row, skip_special_tokens=True) for row in ids]
        if any(i is None for row in ids for i in row):
            return "left out", "no id"
    except BaseException as e:  # whatever transformers says of files that it cannot take
        if isinstance(e, KeyboardInterrupt):
            raise
        return "left out", str(e)[:200]
    got, error = ours(program, str(directory), "--input", strings, whole=True)
    if error:
        return "refused", error[:300]
    for s, want, row in zip(strings, ids, got["ids"]):
        if want != row:
            return "failed", f"{ascii(s)}\n    expected {want} {theirs.convert_ids_to_tokens(want)}\n    found    {row}"
    for s, want, row in zip(strings, offsets or [], got["offsets"]):
        if want != row:
            return "failed", f"offsets of {ascii(s)}\n    expected {want}\n    found    {row}"
    some = [row for row in ids if row]
    got, error = ours(program, str(directory), "--decode", some, whole=True)
    if error:
        return "refused", error[:300]
    for row, want, found in zip(some, [t for t, r in zip(texts, ids) if r], got["texts"]):
        if want != found:
            return "failed", f"decode {row}\n    expected {ascii(want)}\n    found    {ascii(found)}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fixtures", nargs="*")
    parser.add_argument("--accel", required=True)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    transformers.logging.set_verbosity(50)
    count, met = {"passed": 0, "failed": 0, "refused": 0, "left out": 0}, set()
    for path in sorted(FIXTURES.rglob("tokenizer_config.json")):
        folder = path.parent
        name, base = str(folder.relative_to(FIXTURES)), json.loads(path.read_text())
        files = [path.read_bytes()] + [p.read_bytes() for p in sorted(folder.iterdir()) if p.name in ("tokenizer.json", "vocab.txt", "vocab.json")]
        if (options.fixtures and name not in options.fixtures) or hash(tuple(files)) in met:
            continue
        met.add(hash(tuple(files)))
        for turn in range(options.rounds):
            rng = random.Random(f"{options.seed} {name} {turn}")
            config, notes = mutated({**{k: None for k in rng.sample(sorted(VALUES), 2)}, **base}, changed, rng.randint(0, 3), rng)
            config = {k: v for k, v in config.items() if v is not None or k in base}
            whole, strings = rng.random() < 0.7, [text(rng) for _ in range(12)]
            with tempfile.TemporaryDirectory() as directory:
                copy(folder, pathlib.Path(directory), config, whole)
                outcome, why = compare(options.accel, pathlib.Path(directory), strings)
            count[outcome] += 1
            if outcome in ("failed", "refused") or os.environ.get("SHOW_LEFT") and outcome != "passed":
                print(f"{outcome}: {name} {'' if whole else 'without tokenizer.json '}{' '.join(notes)}\n    {why}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
