#!/usr/bin/env python3
"""Makes tests/fixtures/tokenizer_characters.json: what transformers' Wav2Vec2CTCTokenizer and VitsTokenizer make of vocabularies of characters.

    python3 tests/goldens/make_character_goldens.py          (packages: requirements.txt)

Each case has vocab.json, tokenizer_config.json, strings with their ids, lists of ids to decode with their texts, special tokens left out and kept.
"""
import json
import os
import pathlib
import random
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
STRINGS = ["TEA  at|e<s> x", "", " leading\nand trailing ", "stra\u00dfe caf\u00e9 \u021b <pad> </s>TO", "<new>  a THE b"]
LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", "E", "T", "A", "O", "N", "\u00c4", "'", "THE", "S"]
SMALL = ["k", "'", "z", "y", "u", "d", "h", "e", "s", "w", "\u2013", "3", "c", "p", "-", "1", "j", "m", "i", " ", "f", "l", "o", "b", "r", "a", "4", "t", "n", "\u0163", "\u00e9"]
CTC, VITS = {"tokenizer_class": "Wav2Vec2CTCTokenizer"}, {"tokenizer_class": "VitsTokenizer", "phonemize": False}
NEW = {"added_tokens_decoder": {"40": {"content": "<new>", "lstrip": False, "rstrip": True, "single_word": False, "normalized": True, "special": False}}}


def numbered(tokens):
    return {token: i for i, token in enumerate(tokens)}


CASES = [
    (numbered(LETTERS), CTC),
    (numbered(LETTERS), {**CTC, "do_lower_case": True}),
    (numbered(LETTERS), {**CTC, "replace_word_delimiter_char": "_", "split_special_tokens": True}),
    (numbered(LETTERS), {**CTC, "extra_special_tokens": ["<new>"], "clean_up_tokenization_spaces": True}),
    (numbered(LETTERS), {**CTC, **NEW}),
    ({"eng": numbered(LETTERS), "deu": numbered(LETTERS[:9])}, {**CTC, "target_lang": "deu"}),
    (numbered(SMALL), VITS),
    (numbered(SMALL), {**VITS, "pad_token": "k", "unk_token": "z"}),
    (numbered(SMALL), {**VITS, "add_blank": False, "language": "ron"}),
    (numbered(SMALL), {**VITS, "normalize": False, **NEW}),
    (numbered(["_", "<unk>", "a", "ab", "Ab", "t", " "]), {**VITS, "pad_token": "_"}),
]


def main():
    transformers.logging.set_verbosity(50)
    cases = []
    for vocab, config in CASES:
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "vocab.json").write_text(json.dumps(vocab))
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            (folder / "config.json").write_text(json.dumps({"model_type": "vits" if "Vits" in config["tokenizer_class"] else "wav2vec2"}))
            tok = transformers.AutoTokenizer.from_pretrained(folder)
            ids = [tok(s).input_ids for s in STRINGS]
            assert all(i is not None for row in ids for i in row), (config, ids)
            rng, known = random.Random(1), sorted(i for i in tok.get_vocab().values())
            decode = [row for row in ids if row] + [[i for i in rng.choices(known, k=9) for _ in range(rng.randint(1, 2))] for _ in range(3)]
            cases.append({"vocab": vocab, "config": config, "strings": STRINGS, "ids": ids, "decode": decode,
                          "texts": [tok.decode(row, skip_special_tokens=True) for row in decode], "whole": [tok.decode(row) for row in decode]})
    (FIXTURES / "tokenizer_characters.json").write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
