#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizer_files/: directories without a tokenizer.json (SentencePiece models; vocab.json and merges.txt), or with one that
tokenizer_config.json adds to, and what transformers' tokenizer classes make of them.

    pip install transformers==5.23.0 tokenizers==0.23.3 sentencepiece protobuf
    HF_HUB_OFFLINE=1 python3 tests/goldens/make_sentencepiece_goldens.py [name ...]      only the named directories

The models are trained here on made-up words.  expected.json of each directory holds strings, their ids, and the ids' texts.
"""
import base64
import importlib.machinery
import json
import os
import shutil
import sys
import types

import sentencepiece
import transformers
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
    "m2m_100": ("sentencepiece.bpe", {"tokenizer_class": "M2M100Tokenizer", "src_lang": "fr"}, dict(
        vocab_size=300)),
    "m2m_100_bpe": ("sentencepiece.bpe", {"tokenizer_class": "M2M100Tokenizer", "src_lang": "de"}, dict(
        vocab_size=300, model_type="bpe")),
    "unknown_class": ("tokenizer", {"tokenizer_class": "PreTrainedTokenizerFast"}, BYTES),
}
MERGES = {
    "gpt2": {"tokenizer_class": "GPT2Tokenizer"},
    "opt": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"},
    "roberta": {"tokenizer_class": "RobertaTokenizer"},
    "bart": {"tokenizer_class": "BartTokenizer", "add_prefix_space": True},
    "qwen2": {"tokenizer_class": "Qwen2Tokenizer"},
}

TEXTS = {  # vocab.txt: configuration, lines in front of the vocabulary's
    "bert_old": (None, []),
    "mpnet": ({"do_lower_case": False, "clean_up_tokenization_spaces": True}, ["<s>", "<pad>", "</s>", "<mask>"]),
}
MERGES.update({"roberta_old": None, "gpt2_old": {"add_bos_token": True, "clean_up_tokenization_spaces": True}, "qwen2_old": {"add_prefix_space": True}})
BESIDE = {  # files of before tokenizer.json: what they say goes into the settings
    "roberta_old": {"config.json": {"model_type": "roberta"}, "added_tokens.json": {"<b>": 901, "<a>": 900},
                    "special_tokens_map.json": {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False},
                                                "additional_special_tokens": ["<c>"]}},
    "gpt2_old": {"config.json": {"model_type": "gpt2"}, "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "[PAD]"}, "added_tokens.json": {"[PAD]": 900, "<a>": 901}},
    "qwen2_old": {"config.json": {"model_type": "qwen3"}, "special_tokens_map.json": {"eos_token": {"content": "<|im_end|>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False},
                                                                                     "additional_special_tokens": ["<|im_start|>"]}},
    "bert_old": {"config.json": {"model_type": "distilbert"}, "added_tokens.json": {"<B>": 701, "<a>": 700}, "special_tokens_map.json": {"additional_special_tokens": ["<c>"]}},
    "mpnet": {"config.json": {"model_type": "mpnet"}, "special_tokens_map.json": {"additional_special_tokens": ["<a>"]}},
}
OLD = ["x <a> y<b>z <c> <B> [PAD]", "it 's a test . yes , do n't", "<|im_start|>user\nhi <|im_end|> \n", "a <mask> b<mask>c"]


TIKTOKEN = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>", "extra_special_tokens": ["<|more|>"]}


def read_tiktoken(path):
    """What the package of that name reads from such a file."""
    with open(path, "rb") as f:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in f.read().splitlines() if line)}


def stub_tiktoken():
    module, load = types.ModuleType("tiktoken"), types.ModuleType("tiktoken.load")
    module.load, load.load_tiktoken_bpe = load, read_tiktoken
    module.__spec__ = importlib.machinery.ModuleSpec("tiktoken", None)
    sys.modules.update({"tiktoken": module, "tiktoken.load": load})


def make_tiktoken(model, strings):
    """tiktoken.model: the byte-level tokens of a tokenizer.json as bytes, numbered anew; special tokens behind them, with a gap."""
    byte_of = {c: b for b, c in transformers.convert_slow_tokenizer.bytes_to_unicode().items()}
    plain = [t for t in sorted(model["vocab"], key=model["vocab"].get) if all(c in byte_of for c in t)]
    extra = {len(plain): "<|begin|>", len(plain) + 1: "<|end|>", len(plain) + 4: "<|tool|>"}
    config = dict(TIKTOKEN, added_tokens_decoder={str(i): {"content": t, "special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False} for i, t in extra.items()})
    path = folder("tiktoken", config)
    with open(os.path.join(path, "tiktoken.model"), "w") as f:
        for rank, token in enumerate(plain):
            f.write(base64.b64encode(bytes(byte_of[c] for c in token)).decode() + " %d\n" % rank)
    expect(path, strings + ["<|begin|>hello<|tool|> x<|more|><|reserved_token_%d|>" % (len(plain) + 2)])


def folder(name, config):
    path = os.path.join(HERE, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for file, content in dict(BESIDE.get(name, {}), **({} if config is None else {"tokenizer_config.json": config})).items():
        with open(os.path.join(path, file), "w") as f:
            json.dump(content, f)
    return path


def expect(path, strings):
    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = [tokenizer(s)["input_ids"] for s in strings]
    with open(os.path.join(path, "expected.json"), "w") as f:
        json.dump({"strings": strings, "ids": ids, "texts": [tokenizer.decode(i, skip_special_tokens=True) for i in ids]}, f, separators=(",", ":"))


def number(path):
    """vocab.json of M2M100: its own first tokens, then the model's pieces, of which a few are left out."""
    model = sentencepiece.SentencePieceProcessor(os.path.join(path, "sentencepiece.bpe.model"))
    tokens = ["<s>", "<pad>", "</s>", "<unk>"] + [model.id_to_piece(i) for i in range(3, model.get_piece_size()) if i % 40]
    with open(os.path.join(path, "vocab.json"), "w") as f:
        json.dump({t: i for i, t in enumerate(tokens)}, f, separators=(",", ":"))


# Over a tokenizer.json: special tokens that only tokenizer_config.json names; fields of which BertTokenizer makes its normalizer.
BESIDES_JSON = {
    "named_tokens": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "the", "pad_token": {"content": "<new>", "lstrip": True, "__type": "AddedToken"},
                     "image_token": "cat", "extra_special_tokens": ["<x>", "a"]},
    "bert_settings": {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "tokenize_chinese_chars": False},
    "bert_accents": {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": True},
}


def main(wanted):
    strings = SPECIALS + [s.replace("\0", "")[:60] for s in corpus()[:40:2] + corpus()[1::700]]
    if not wanted or "esm" in wanted:
        make_esm(strings)
    if wanted == ["esm"]:
        return
    for name, config in BESIDES_JSON.items():
        if not wanted or name in wanted:
            path = folder(name, config)
            shutil.copy(os.path.join(HERE, "..", "tokenizers", "wordpiece_cased.json"), os.path.join(path, "tokenizer.json"))
            expect(path, strings + ["the cat<new> a <new> <x>the A CAT", "Stra\u00dfe CAF\u00c9 \u6771\u4eac\u90fd [MASK]"])
    text = make_tokenizer_goldens.training_text()
    for name, (file, config, how) in SPM.items():
        if wanted and name not in wanted:
            continue
        path = folder(name, config)
        with open(os.path.join(path, file + ".model"), "wb") as f:
            f.write(make_tokenizer_goldens.sentencepiece_model(text, **{"vocab_size": 400, "normalization_rule_name": "identity", **how}))
        if name.startswith("m2m_100"):
            number(path)
            codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
            with open(os.path.join(path, "tokenizer_config.json"), "w") as f:  # all of them, as published directories have it
                json.dump(dict(config, additional_special_tokens=[f"__{c}__" for c in codes]), f)
        expect(path, strings + (["__en__ hello", "a __de__b __fr__"] if name.startswith("m2m_100") else []))
    with open(os.path.join(HERE, "..", "tokenizers", "bpe_roberta.json"), encoding="utf-8") as f:
        model = json.load(f)["model"]
    if not wanted or "tiktoken" in wanted:
        stub_tiktoken()
        make_tiktoken(model, strings)
    for name, config in MERGES.items():
        if wanted and name not in wanted:
            continue
        path = folder(name, config)
        with open(os.path.join(path, "vocab.json"), "w") as f:
            json.dump(model["vocab"], f, separators=(",", ":"))
        with open(os.path.join(path, "merges.txt"), "w", encoding="utf-8") as f:
            f.write("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))
        expect(path, strings + (OLD if name in BESIDE else []))
    with open(os.path.join(HERE, "..", "tokenizers", "vocab_txt", "vocab.txt"), encoding="utf-8") as f:
        vocab = f.read()
    for name, (config, first) in TEXTS.items():
        if wanted and name not in wanted:
            continue
        path = folder(name, config)
        with open(os.path.join(path, "vocab.txt"), "w", encoding="utf-8") as f:
            f.write("".join(t + "\n" for t in first) + vocab)
        expect(path, strings + OLD)


def make_esm(strings):
    """The vocabulary of ESM-2: amino acids, special tokens among the others."""
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>"] + list("LAGVSERTIDPKQNFYMHWCXBUZO.-") + ["<null_1>", "<mask>"]
    path = folder("esm", {"tokenizer_class": "EsmTokenizer", "model_max_length": 1024, "cls_token": "<cls>", "eos_token": "<eos>", "pad_token": "<pad>",
                          "unk_token": "<unk>", "mask_token": "<mask>"})
    with open(os.path.join(path, "vocab.txt"), "w") as f:
        f.write("\n".join(tokens))
    expect(path, ["MKTAYIAKQR", "MKT<mask>YIA<null_1>K", "mkt AY ia", "", " M  K\nT ", "<cls>MK<eos>", "MK-T.A", "MKJTé", "<unk> abc M"] + strings)


if __name__ == "__main__":
    main(sys.argv[1:])
