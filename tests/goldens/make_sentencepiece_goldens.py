#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizer_files/: directories without a tokenizer.json (SentencePiece models; vocab.json and merges.txt) and what
transformers' tokenizer classes make of them.

    pip install transformers==5.23.0 tokenizers==0.23.3 sentencepiece protobuf
    HF_HUB_OFFLINE=1 python3 tests/goldens/make_sentencepiece_goldens.py

The models are trained here on made-up words.  expected.json of each directory holds strings, their ids, and the ids' texts.
"""
import json
import os
import shutil

import sentencepiece
from transformers import AutoTokenizer

import make_tokenizer_goldens
from tokenizer_corpus import corpus

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "tokenizer_files")
SPECIALS = ["", " ", "Hello  world", "a </s> b", "<s>x", "  two  spaces\n\nnewline\ttab", "en_XX hi", "<extra_id_0> x", "<mask> y <mask>",
            "\u2581x \u2581\u2581", "Hello, y'all! ``quoted''", "\u00c0\u00c9\u00ee \ufb01 \u00bd", "<start_of_turn>user\nhi<end_of_turn>"]
BYTES = dict(model_type="bpe", byte_fallback=True, vocab_size=700)
SPM = {  # name: (file, configuration, how it is trained)
    "t5": ("spiece", {"tokenizer_class": "T5Tokenizer", "extra_ids": 5}, dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_name="nmt_nfkc")),
    "xlm_roberta": ("sentencepiece.bpe", {"tokenizer_class": "XLMRobertaTokenizer"}, {}),
    "llama": ("tokenizer", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}, BYTES),
    "llama_legacy": ("tokenizer", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True, "legacy": True}, BYTES),
    "albert": ("spiece", {"tokenizer_class": "AlbertTokenizer"}, dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"])),
    "mbart": ("sentencepiece.bpe", {"tokenizer_class": "MBartTokenizer", "src_lang": "de_DE"}, {}),
    "mbart50": ("sentencepiece.bpe", {"tokenizer_class": "MBart50Tokenizer", "src_lang": "en_XX"}, {}),
    "gemma": ("tokenizer", {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True}, dict(
        BYTES, pad_id=0, eos_id=1, bos_id=2, unk_id=3, eos_piece="<eos>", bos_piece="<bos>", user_defined_symbols=["<start_of_turn>", "<end_of_turn>", "\u2581\u2581"])),
    "camembert": ("sentencepiece.bpe", {"tokenizer_class": "CamembertTokenizer"}, {}),
    "deberta_v2": ("spm", {"tokenizer_class": "DebertaV2Tokenizer"}, dict(pad_id=0, unk_id=3, bos_id=1, eos_id=2, bos_piece="[CLS]", eos_piece="[SEP]",
                                                                          unk_piece="[UNK]", pad_piece="[PAD]", user_defined_symbols=["[MASK]"])),
    "unknown_class": ("tokenizer", {"tokenizer_class": "PreTrainedTokenizerFast"}, BYTES),
}
MERGES = {
    "gpt2": {"tokenizer_class": "GPT2Tokenizer"},
    "opt": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"},
    "roberta": {"tokenizer_class": "RobertaTokenizer"},
    "bart": {"tokenizer_class": "BartTokenizer", "add_prefix_space": True},
    "qwen2": {"tokenizer_class": "Qwen2Tokenizer"},
}


def folder(name, config):
    path = os.path.join(HERE, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
    return path


def expect(path, strings):
    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = [tokenizer(s)["input_ids"] for s in strings]
    with open(os.path.join(path, "expected.json"), "w") as f:
        json.dump({"strings": strings, "ids": ids, "texts": [tokenizer.decode(i, skip_special_tokens=True) for i in ids]}, f, separators=(",", ":"))


def main():
    strings = SPECIALS + [s.replace("\0", "")[:60] for s in corpus()[:40:2] + corpus()[1::700]]
    text = make_tokenizer_goldens.training_text()
    for name, (file, config, how) in SPM.items():
        path = folder(name, config)
        options = dict(dict(vocab_size=400, hard_vocab_limit=False, minloglevel=2, normalization_rule_name="identity"), **how)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_prefix=os.path.join(path, file), **options)
        os.remove(os.path.join(path, file + ".vocab"))
        expect(path, strings)
    with open(os.path.join(HERE, "..", "tokenizers", "bpe_roberta.json"), encoding="utf-8") as f:
        model = json.load(f)["model"]
    for name, config in MERGES.items():
        path = folder(name, config)
        with open(os.path.join(path, "vocab.json"), "w") as f:
            json.dump(model["vocab"], f, separators=(",", ":"))
        with open(os.path.join(path, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))
        expect(path, strings)


if __name__ == "__main__":
    main()
