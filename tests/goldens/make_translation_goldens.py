#!/usr/bin/env python3
"""Makes what translating and summing up is tested with.

    pip install transformers==5.23.0 torch sentencepiece
    HF_HUB_OFFLINE=1 python3 tests/goldens/make_translation_goldens.py tokenizers    Marian's directories in tests/fixtures/tokenizer_files
    pip install transformers==4.57.6          the last one with the pipelines
    HF_HUB_OFFLINE=1 python3 tests/goldens/make_translation_goldens.py pipelines     tests/fixtures/pipelines/{marian,t5,mbart,bart}

The SentencePiece models are trained here on made-up words, the models have random weights.  expected.json of a pipeline's directory holds calls of
transformers' pipeline ("task", "options", "texts") and what it answered ("results").
"""
import json
import os
import pathlib
import shutil
import sys

import sentencepiece
import torch
import transformers as T

import make_encoder_goldens as common
import make_sentencepiece_goldens as spm
import make_tokenizer_goldens

PIPELINES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "pipelines"
MARIAN = [">>fra<< Hello", ">>xyz<<Hello world", "a >>fra<< b", "Hello </s> >>deu<<x", ">>open", ">><<", "e\u0301 \ufb01 \u00bd \u2122 \u1e9b\u0323", "\u3000wide\u00a0 space\t\n",
          "\u2581x \u2581\u2581", "<unk> and <pad>", "\u65e5\u672c\u8a9e \U0001F98A\U0001F98A", "\u0041\u030a\u0327", "quick brown fox" * 9]
TEXTS = ["Hello world", "the quick brown fox jumps over the lazy dog", "Zw\u00f6lf Boxk\u00e4mpfer jagen"]


def train(path, text, size, **how):
    path.write_bytes(make_tokenizer_goldens.sentencepiece_model(text, vocab_size=size, **{"normalization_rule_name": "nmt_nfkc", **how}))


def pieces(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def marian_files(path, separate, codes=("fra", "deu"), size=220, identity=False, **config):
    """source.spm, target.spm and vocabularies; some pieces of the source have no id."""
    text = make_tokenizer_goldens.training_text()
    train(path / "source.spm", text, size, **({"normalization_rule_name": "identity"} if separate or identity else {}))
    train(path / "target.spm", [" ".join(w[::-1] for w in line.split()) for line in text], size, normalization_rule_name="identity")
    source, target = ([p for p in pieces(path / f"{side}.spm") if p not in ("<unk>", "<s>", "</s>")] for side in ("source", "target"))
    known = [p for k, p in enumerate(source) if k % 17 != 11]
    both = list(dict.fromkeys(["</s>", "<unk>", *known, *([] if separate else target), *(f">>{c}<<" for c in codes), "<pad>"]))
    vocabularies = {"vocab.json": both}
    if separate:
        vocabularies["target_vocab.json"] = ["</s>", "<unk>", *target, "<pad>"]
    for name, words in vocabularies.items():
        (path / name).write_text(json.dumps({w: i for i, w in enumerate(words)}, ensure_ascii=False, indent=2))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, **config}))
    return len(both)


def tokenizers():
    strings = spm.SPECIALS + MARIAN + [s.replace("\0", "")[:60] for s in spm.corpus()[:40:2] + spm.corpus()[1::700]]
    for name, separate in (("marian", False), ("marian_separate", True)):
        path = pathlib.Path(spm.folder(name, {}))
        marian_files(path, separate)
        spm.expect(str(path), strings)


# ---- pipelines ----

def write(path, config, cls, generation, seed="translation"):
    torch.manual_seed(0)
    model = getattr(T, cls)(config)
    common.randomise(model)
    with torch.no_grad():  # ends that come
        model.get_output_embeddings().weight[config.eos_token_id] *= 3
    model.generation_config = generation
    model.save_pretrained(path)


def expect(path, calls):
    out = []
    for task, options, texts in calls:
        call = T.pipeline(task, model=str(path), dtype=torch.float32, **({"framework": "pt"} if hasattr(T, "is_tf_available") else {}))
        out.append({"task": task, "options": options, "texts": texts, "results": call(texts, **options)})
        print(path.name, task, options, out[-1]["results"], file=sys.stderr)
    (path / "expected.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


def folder(name):
    path = PIPELINES / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


SMALL = dict(d_model=18, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=25, decoder_ffn_dim=23, encoder_attention_heads=3, decoder_attention_heads=2,
             max_position_embeddings=64)


def marian():
    path = folder("marian")
    n = marian_files(path, False, size=230, identity=True, source_lang="en", target_lang="mul", model_max_length=20)
    config = T.MarianConfig(**SMALL, vocab_size=n, pad_token_id=n - 1, decoder_start_token_id=n - 1, eos_token_id=0, bos_token_id=None, scale_embedding=True)
    write(path, config, "MarianMTModel", T.GenerationConfig(pad_token_id=n - 1, decoder_start_token_id=n - 1, eos_token_id=0, bad_words_ids=[[n - 1]],
                                                            forced_eos_token_id=0, max_length=32))
    expect(path, [("translation", {}, TEXTS[0]), ("translation", {}, TEXTS), ("translation", {"num_beams": 1, "max_new_tokens": 8}, [">>fra<< " + TEXTS[0], TEXTS[1]]),
                  ("translation_en_to_de", {}, TEXTS[:1]), ("translation", {"num_return_sequences": 2, "max_new_tokens": 9}, TEXTS[:2]),
                  ("text2text-generation", {"truncation": True}, [" ".join(TEXTS * 3)])])


def t5():
    path = folder("t5")
    train(path / "spiece.spm", make_tokenizer_goldens.training_text(), 230, normalization_rule_name="identity", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    tokenizer = T.T5TokenizerFast(str(path / "spiece.spm"), extra_ids=2)
    os.remove(path / "spiece.spm")
    tokenizer.save_pretrained(path)
    settings = path / "tokenizer_config.json"  # the class that takes tokenizer.json as it is, which transformers 4 made
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}, indent=2) + "\n")
    for name in ("spiece.model", "spiece.spm"):
        (path / name).unlink(missing_ok=True)
    tasks = {"summarization": dict(early_stopping=True, length_penalty=2.0, max_length=40, min_length=10, no_repeat_ngram_size=3, num_beams=4, prefix="summarize: "),
             "translation_en_to_de": dict(early_stopping=True, max_length=30, num_beams=4, prefix="translate English to German: "),
             "translation_en_to_fr": dict(early_stopping=True, max_length=30, num_beams=3, prefix="translate English to French: ")}
    config = T.T5Config(vocab_size=len(tokenizer), d_model=20, d_kv=6, d_ff=29, num_layers=1, num_decoder_layers=1, num_heads=3, relative_attention_num_buckets=8,
                        relative_attention_max_distance=20, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, task_specific_params=tasks)
    write(path, config, "T5ForConditionalGeneration", T.GenerationConfig(decoder_start_token_id=0, pad_token_id=0, eos_token_id=1))
    short = {"max_new_tokens": 12}
    expect(path, [("translation_en_to_de", short, TEXTS), ("translation_en_to_fr", short, TEXTS[1]), ("summarization", {"max_new_tokens": 25}, TEXTS[1:]),
                  ("text2text-generation", short, TEXTS), ("translation", short, TEXTS[:1])])


def mbart():
    path = folder("mbart")
    train(path / "sentencepiece.bpe.model", make_tokenizer_goldens.training_text(), 230, normalization_rule_name="identity")
    tokenizer = T.MBartTokenizerFast(str(path / "sentencepiece.bpe.model"), src_lang="en_XX", tgt_lang=None)
    tokenizer.save_pretrained(path)
    (path / "sentencepiece.bpe.model").unlink(missing_ok=True)
    config = T.MBartConfig(**SMALL, vocab_size=len(tokenizer), scale_embedding=True)
    write(path, config, "MBartForConditionalGeneration", T.GenerationConfig(pad_token_id=1, eos_token_id=2, bos_token_id=0, decoder_start_token_id=2, forced_eos_token_id=2,
                                                                           max_length=24))
    expect(path, [("translation", {"src_lang": "en_XX", "tgt_lang": "de_DE"}, TEXTS), ("translation", {"src_lang": "fr_XX", "tgt_lang": "ro_RO", "num_beams": 1}, TEXTS[0]),
                  ("text2text-generation", {}, TEXTS[1])])


def bart():
    path = folder("bart")
    from tokenizers import ByteLevelBPETokenizer
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(make_tokenizer_goldens.training_text(), vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    bpe.save_model(str(path))
    T.BartTokenizerFast(str(path / "vocab.json"), str(path / "merges.txt")).save_pretrained(path)
    for name in ("vocab.json", "merges.txt"):
        (path / name).unlink()
    config = T.BartConfig(**{**SMALL, "max_position_embeddings": 32}, vocab_size=300, prefix=" ", task_specific_params={
        "summarization": dict(early_stopping=True, length_penalty=2.0, max_length=18, min_length=6, no_repeat_ngram_size=3, num_beams=3)})
    write(path, config, "BartForConditionalGeneration", T.GenerationConfig(pad_token_id=1, eos_token_id=2, bos_token_id=0, decoder_start_token_id=2, forced_bos_token_id=0,
                                                                          forced_eos_token_id=2, max_length=26))
    expect(path, [("summarization", {}, TEXTS[0]), ("summarization", {}, TEXTS[::2]), ("text2text-generation", {"num_beams": 2}, TEXTS[0])])


if __name__ == "__main__":
    T.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for part in sys.argv[1:] or ("tokenizers",):
        for step in (tokenizers,) if part == "tokenizers" else (marian, t5, mbart, bart) if part == "pipelines" else (globals()[part],):
            step()
