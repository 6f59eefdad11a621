#!/usr/bin/env python3
"""Makes tests/fixtures/pipelines: tiny models with tokenizers, and what transformers' pipelines and sentence-transformers answer for them.

    python3 make_pipeline_goldens.py          (packages: requirements.txt)

goldens.json is a list of {"task", "model", "options" (of the pipeline), "call" (of the call), "inputs", "output"}; models are random and small, their
weights large enough that labels differ between texts.  The question-answering pipeline is gone from transformers 5; its numbers are tested elsewhere."""
import copy
import json
import shutil
from pathlib import Path

import tokenizers
import torch
import transformers

ROOT = Path(__file__).resolve().parents[1] / "fixtures" / "pipelines"
WORDS = ("the a cat dog sat on mat house ada lives in london paris works for bank river old new train clock is was and of to it runs red blue moon "
         "un play walk jump read happy").split()
SUFFIXES = "##s ##ed ##ing ##er ##ly ##ness".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
TEXTS = ["Ada lives in London.", "the old cat sat on the mat", "", "Trains run to Paris, and the bank is un-happy!", "dogs walking & jumping; naïve café 日本"]
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def make_tokenizer():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(LETTERS) + ["##" + c for c in LETTERS] + WORDS + SUFFIXES
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece({p: i for i, p in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]"))
    model.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    model.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    ids = [("[CLS]", model.token_to_id("[CLS]")), ("[SEP]", model.token_to_id("[SEP]"))]
    model.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)
    model.decoder = tokenizers.decoders.WordPiece()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                                mask_token="[MASK]", model_max_length=48,
                                                model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def make_model(name, kind, tokenizer, seed, **options):
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
                                     max_position_embeddings=48, initializer_range=0.4, **options)
    directory = ROOT / name
    getattr(transformers, kind)(config).eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def plain(value):
    """Nested results with Python's own numbers."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def ask(task, name, inputs, options=None, call=None):
    pipe = transformers.pipeline(task, str(ROOT / name), device="cpu", dtype="float32", **(options or {}))
    with torch.inference_mode():
        output = pipe(inputs, **copy.deepcopy(call or {}))  # the pipeline writes into its arguments
    return {"task": task, "model": name, "options": options or {}, "call": call or {}, "inputs": inputs, "output": plain(output)}


def sentence_model(tokenizer):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer
    base = make_model("base", "BertModel", tokenizer, 7)
    words = Transformer(str(base), max_seq_length=20)
    model = SentenceTransformer(modules=[words, Pooling(words.get_word_embedding_dimension(), "mean"), Normalize()], device="cpu")
    model.save(str(ROOT / "sentence"), create_model_card=False)
    return {"task": "sentence", "model": "sentence", "options": {}, "call": {}, "inputs": TEXTS, "output": model.encode(TEXTS).tolist()}


def make_nli(tokenizer):
    names = {0: "contradiction", 1: "neutral", 2: "entailment"}
    make_model("nli", "BertForSequenceClassification", tokenizer, 8, id2label=names, label2id={v: k for k, v in names.items()})


def ask_zero_shot():
    labels = ["london", "cat", "bank", "un-happy"]
    return [ask("zero-shot-classification", "nli", inputs, call={"candidate_labels": wanted, **call})
            for inputs, wanted, call in ((TEXTS[0], labels, {}), (TEXTS[:2], "cat, dog,london", {}), (TEXTS[3], labels, {"multi_label": True}),
                                         (TEXTS[0], ["cat"], {"hypothesis_template": "it is of the {}"}), (" ".join(TEXTS * 3), labels, {}),
                                         (" ".join(TEXTS * 3), ["the old cat sat on the mat and the dog of ada works", "bank"], {"multi_label": True}))]


def ask_cut():
    """Texts that are cut where the arguments of the tokenizer say."""
    long, pair = " ".join(TEXTS * 3), {"text": " ".join(TEXTS[:2]), "text_pair": TEXTS[3]}
    every = {"top_k": None, "function_to_apply": "none"}
    goldens = [ask("text-classification", "classify", inputs, call={**every, **call})
               for inputs, call in ((long, {"truncation": True}), (TEXTS, {"truncation": True, "max_length": 7}), (long, {"max_length": 9}),
                                    (pair, {"truncation": "only_first", "max_length": 22}), (pair, {"truncation": "only_second", "max_length": 20}),
                                    (pair, {"truncation": "longest_first", "max_length": 14}), (TEXTS[0], {"truncation": False, "max_length": 4}),
                                    (TEXTS[0], {"padding": "max_length", "max_length": 6}), (TEXTS[0], {"padding": True, "truncation": True, "max_length": 6}))]
    goldens.append(ask("text-classification", "classify", TEXTS[0], options={"truncation": True, "top_k": None}))
    goldens += [ask("feature-extraction", "base", TEXTS[0], call=call) for call in ({"truncation": True, "tokenize_kwargs": {"max_length": 5}},
                                                                                   {"tokenize_kwargs": {"truncation": "only_first", "max_length": 4}})]
    goldens += [ask("fill-mask", "mask", "the [MASK] sat on the mat " + tail, call={"top_k": 2, "tokenizer_kwargs": given})
                for tail, given in ((long, {"truncation": True}), ("of ada", {"truncation": True, "max_length": 6}), ("", {"padding": "max_length", "max_length": 4}))]
    return goldens


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    tokenizer = make_tokenizer()
    three, names = {0: "negative", 1: "neutral", 2: "positive"}, dict(enumerate(LABELS))
    make_model("classify", "BertForSequenceClassification", tokenizer, 1, id2label=three, label2id={v: k for k, v in three.items()})
    make_model("multilabel", "BertForSequenceClassification", tokenizer, 2, num_labels=4, problem_type="multi_label_classification")
    make_model("score", "BertForSequenceClassification", tokenizer, 3, num_labels=1)
    make_nli(tokenizer)
    make_model("tokens", "BertForTokenClassification", tokenizer, 4, id2label=names, label2id={v: k for k, v in names.items()})
    make_model("mask", "BertForMaskedLM", tokenizer, 5)
    make_model("qa", "BertForQuestionAnswering", tokenizer, 6)
    goldens = [sentence_model(tokenizer)]
    goldens.append(ask("feature-extraction", "base", TEXTS[0]))
    goldens.append(ask("feature-extraction", "base", TEXTS[:2]))
    pair = {"text": TEXTS[0], "text_pair": TEXTS[1]}
    for inputs, call in ((TEXTS[0], {}), (TEXTS, {}), (TEXTS[0], {"top_k": 2}), (TEXTS, {"top_k": None}), (TEXTS[:1], {"top_k": 1}),
                         (TEXTS[0], {"function_to_apply": "sigmoid"}), (TEXTS[0], {"function_to_apply": "none", "top_k": None}), (pair, {}), ([pair, pair], {})):
        goldens.append(ask("text-classification", "classify", inputs, call=call))
    goldens.append(ask("text-classification", "classify", TEXTS[0], options={"top_k": None}))
    goldens.append(ask("sentiment-analysis", "multilabel", TEXTS, call={"top_k": None}))
    goldens.append(ask("text-classification", "score", TEXTS))
    goldens += ask_zero_shot() + ask_cut()
    for strategy in ("none", "simple", "first", "average", "max"):
        goldens.append(ask("token-classification", "tokens", TEXTS, options={"aggregation_strategy": strategy}))
    goldens.append(ask("ner", "tokens", TEXTS[0]))
    goldens.append(ask("token-classification", "tokens", TEXTS[3], options={"ignore_labels": ["B-PER", "O"]}))
    gap = "the [MASK] sat on the mat"
    for inputs, call in ((gap, {}), ([gap], {}), ([gap, "ada [MASK] in london."], {"top_k": 2}), ("[MASK] cat [MASK]", {"top_k": 3}),
                         (gap, {"targets": ["cat", "dog"]})):
        goldens.append(ask("fill-mask", "mask", inputs, call=call))
    (ROOT / "goldens.json").write_text(json.dumps(goldens, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
