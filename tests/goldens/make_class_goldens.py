#!/usr/bin/env python3
"""Makes tests/fixtures/tokenizer_classes.json: what transformers' AutoTokenizer makes of the tokenizer.json files of tests/fixtures/tokenizers under classes that
build them anew, and under those that do not.

    python3 tests/goldens/make_class_goldens.py          (packages: requirements.txt)

Each case has the name of the tokenizer.json, tokenizer_config.json, config.json, and for the strings ids, offsets and decoded texts.
"""
import json
import os
import pathlib
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
STRINGS = ["The quick  brown fox isn't here", " leading\nand trailing ", "caf\u00e9 Stra\u00dfe \u6771\u4eac 12.5", "a<mask> b</s>c [SEP] <s>x ", "``quoted'' \ufb01\u00bd", ""]
BERT = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
FLAGS = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}

ASK_FOR_BOXES = ("UdopTokenizer", "LayoutXLMTokenizer")  # their calls do; what they make of a text is read from the tokenizer within


def decoder(tokens):
    return {"added_tokens_decoder": {str(i): {"content": text, **FLAGS, **flags} for i, text, flags in tokens}}


CASES = [  # tokenizer.json, tokenizer_config.json, config.json
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizer", "legacy": False}, {"model_type": "llama"}),
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizerFast", "legacy": True}, {"model_type": "llama"}),
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, {"model_type": "llama"}),
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": True}, {"model_type": "llama"}),
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizer", "legacy": False}, {"model_type": "mistral"}),
    ("bpe_llama", {"tokenizer_class": "LlamaTokenizer"}, {"model_type": "phi3"}),
    ("bpe_llama", {"tokenizer_class": "CodeLlamaTokenizer"}, {"model_type": "llama"}),
    ("bpe_llama", {}, {"model_type": "gemma"}),
    ("bpe_llama", {"tokenizer_class": "NllbTokenizer", "src_lang": "the"}, {"model_type": "m2m_100"}),
    ("bpe_roberta", {"tokenizer_class": "LlamaTokenizer"}, {"model_type": "llama"}),
    ("bpe_roberta", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}, {"model_type": "roberta"}),
    ("bpe_roberta", {"tokenizer_class": "RobertaTokenizer", "trim_offsets": False}, {"model_type": "roberta"}),
    ("bpe_roberta", {"mask_token": {"__type": "AddedToken", "content": "<mask>", **FLAGS, "lstrip": True}}, {"model_type": "bart"}),
    ("bpe_roberta", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}, {"model_type": "gpt2"}),
    ("bpe_roberta", {"tokenizer_class": "GPTNeoXTokenizer"}, {"model_type": "gpt_neox"}),
    ("bpe_roberta", {"tokenizer_class": "CohereTokenizer"}, {"model_type": "cohere"}),
    ("bpe_roberta", {"tokenizer_class": "DebertaTokenizer", **BERT, "cls_token": "<s>", "sep_token": "</s>"}, {"model_type": "deberta"}),
    ("bpe_roberta", {"tokenizer_class": "PreTrainedTokenizerFast", **decoder([(0, "<s>", {"rstrip": True}), (2, "</s>", {"lstrip": True, "rstrip": True})])}, {"model_type": "gpt_neo"}),
    ("bpe_suffix", {"tokenizer_class": "CLIPTokenizer", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}, {"model_type": "clip"}),
    ("bpe_qwen3_5", {"tokenizer_class": "GPT2Tokenizer"}, {"model_type": "qwen2"}),
    ("bpe_qwen3_5", {"tokenizer_class": "Qwen2Tokenizer"}, {"model_type": "qwen3_5_text"}),
    ("unigram_xlmr", {"tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": False}, {"model_type": "xlm-roberta"}),
    ("unigram_xlmr", {"tokenizer_class": "T5Tokenizer", "extra_ids": 0}, {"model_type": "t5"}),
    ("unigram_xlmr", {"tokenizer_class": "MBartTokenizer", "src_lang": "the"}, {"model_type": "mbart"}),
    ("unigram_xlmr", {"tokenizer_class": "CamembertTokenizer"}, {"model_type": "camembert"}),
    ("unigram_xlmr", {"tokenizer_class": "PegasusTokenizer", "offset": 2, "mask_token": "<mask>"}, {"model_type": "pegasus"}),
    ("unigram_albert", {"tokenizer_class": "AlbertTokenizer", "do_lower_case": False, "keep_accents": True}, {"model_type": "albert"}),
    ("unigram_deberta", {"tokenizer_class": "DebertaV2Tokenizer", "split_by_punct": True, "do_lower_case": True}, {"model_type": "deberta-v2"}),
    ("wordpiece_cased", {"tokenizer_class": "BertTokenizer"}, {"model_type": "bert"}),
    ("wordpiece_cased", {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": True}, {"model_type": "modernbert"}),
    ("bpe_suffix", {"tokenizer_class": "HerbertTokenizer"}, {"model_type": "bert"}),
    ("bpe_roberta", {"tokenizer_class": "NougatTokenizer"}, {"model_type": "vision-encoder-decoder"}),
    ("unigram_xlmr", {"tokenizer_class": "BarthezTokenizer"}, {"model_type": "mbart"}),
    ("unigram_xlmr", {"tokenizer_class": "BarthezTokenizerFast", "add_prefix_space": False}, {"model_type": "barthez"}),
    ("unigram_albert", {"tokenizer_class": "BigBirdTokenizer"}, {"model_type": "big_bird"}),
    ("unigram_albert", {"tokenizer_class": "XLNetTokenizer", "sep_token": "[SEP]", "cls_token": "[CLS]", "do_lower_case": True}, {"model_type": "xlnet"}),
    ("wordpiece_mpnet", {"tokenizer_class": "MPNetTokenizer", "do_lower_case": False, "unk_token": "<unk>"}, {"model_type": "mpnet"}),
    ("bpe_roberta", {"tokenizer_class": "LukeTokenizer"}, {"model_type": "luke"}),
    ("bpe_roberta", {"tokenizer_class": "BlenderbotTokenizer"}, {"model_type": "blenderbot"}),
    ("unigram_xlmr", {"tokenizer_class": "XGLMTokenizer"}, {"model_type": "xglm"}),
    ("unigram_xlmr", {"tokenizer_class": "UdopTokenizer"}, {"model_type": "udop"}),
    ("unigram_albert", {"tokenizer_class": "RemBertTokenizer", "keep_accents": False, "unk_token": "<unk>"}, {"model_type": "rembert"}),
    ("unigram_xlmr", {"tokenizer_class": "LayoutXLMTokenizer"}, {"model_type": "layoutxlm"}),
    ("bpe_suffix", {"tokenizer_class": "OpenAIGPTTokenizer"}, {"model_type": "openai-gpt"}),
    ("wordpiece_cased", {"tokenizer_class": "SplinterTokenizer"}, {"model_type": "splinter"}),
    ("wordpiece_cased", {"tokenizer_class": "DPRContextEncoderTokenizerFast"}, {"model_type": "dpr"}),
    ("wordpiece_cased", {"tokenizer_class": "DPRContextEncoderTokenizer"}, {"model_type": "dpr"}),
    ("wordpiece_cased", {"tokenizer_class": "DPRQuestionEncoderTokenizerFast"}, {"model_type": "dpr"}),
    ("wordpiece_cased", {}, {"model_type": "dpr"}),
    ("bpe_llama", {"tokenizer_class": "SeamlessM4TTokenizer", "src_lang": "eng", "extra_special_tokens": ["__eng__", "__fra__"]}, {"model_type": "seamless_m4t"}),
    ("bpe_llama", {"tokenizer_class": "SeamlessM4TTokenizerFast", "src_lang": "__nowhere__"}, {"model_type": "seamless_m4t_v2"}),
]


def expect(tokenizer, config, model):
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        (folder / "tokenizer.json").symlink_to(FIXTURES / "tokenizers" / f"{tokenizer}.json")
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "config.json").write_text(json.dumps(model))
        tok = transformers.AutoTokenizer.from_pretrained(folder)
        if type(tok).__name__ in ASK_FOR_BOXES:
            made = [(m.ids, m.offsets) for m in map(tok.backend_tokenizer.encode, STRINGS)]
        else:
            made = [(m.input_ids, m["offset_mapping"]) for m in (tok(s, return_offsets_mapping=True) for s in STRINGS)]
    return {"tokenizer": tokenizer, "config": config, "model": model, "class": type(tok).__name__, "ids": [ids for ids, _ in made],
            "offsets": [[list(o) for o in offsets] for _, offsets in made], "texts": [tok.decode(ids, skip_special_tokens=True) for ids, _ in made]}


def main():
    transformers.logging.set_verbosity(50)
    cases = []
    for case in CASES:
        cases.append(expect(*case))
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (FIXTURES / "tokenizer_classes.json").write_text(f'{{"strings": {json.dumps(STRINGS, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
