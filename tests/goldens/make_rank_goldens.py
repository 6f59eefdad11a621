#!/usr/bin/env python3
"""Makes the rerankers and the language-model embedders of tests/fixtures/tasks (see make_task_goldens.py, whose tokenizers and helpers they share):

    python3 tests/goldens/make_rank_goldens.py [name ...]

    rerank_*   sentence_transformers.CrossEncoder.rank for models with a head of one label; for language models what the Qwen3-Reranker card's code
               does (prompt, truncation, softmax over the logits of "no" and "yes" behind the last token), written here from what it says
    st_qwen3   SentenceTransformer.encode of a decoder: last token, the end-of-text token added by the tokenizer, instructions as prompts
    classify_* text-classification pipeline of decoders, with and without a pad token
"""
import json
import sys

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import make_task_goldens as tasks

QUERY = "Where does Ada Lovelace live?"
DOCUMENTS = tasks.TEXTS + ["Ada Lovelace lives in London.", "naïve Straße", "Paris is the capital of France, Berlin that of Germany."]
HEAD = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be '
        '"yes" or "no".<|im_end|>\n<|im_start|>user\n')
TAIL = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


def chat_bpe():
    """Byte-level BPE as Qwen has it: no token in front, end-of-text behind."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    corpus = tasks.TRAINING + ["yes"] * 30 + ["no"] * 30 + [HEAD, TAIL, INSTRUCTION, "<Instruct>: <Query>: <Document>: "]
    tok.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    tok.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A <|endoftext|> $B:1 <|endoftext|>:1",
                                                       special_tokens=[("<|endoftext|>", 0)])
    tok.decoder = decoders.ByteLevel()
    return tok


def without_end():
    tok = Tokenizer.from_file(str(tasks.trained("chat", chat_bpe)))
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


tasks.TOKENIZERS["chat"] = (chat_bpe, dict(tokenizer_class="PreTrainedTokenizerFast"))
tasks.TOKENIZERS["chat_plain"] = (without_end, dict(tokenizer_class="PreTrainedTokenizerFast"))
SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=24, bos_token_id=0, eos_token_id=2)


def write_decoder(name, tokenizer, cls, max_length=64, pad="<|endoftext|>", **config):
    """Like tasks.write_model, for decoders; `pad` None: no pad token anywhere."""
    directory = tasks.ROOT / name
    tasks.shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    tok = Tokenizer.from_file(str(tasks.trained(tokenizer, tasks.TOKENIZERS[tokenizer][0])))
    tok.save(str(directory / "tokenizer.json"), pretty=False)
    special = dict(eos_token="<|im_end|>") | ({"pad_token": pad} if pad else {})
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **special}, indent=1) + "\n")
    made = getattr(transformers, cls)
    config = {**SMALL, "vocab_size": tok.get_vocab_size() + 3, "max_position_embeddings": 512, **({"pad_token_id": 0} if pad else {}), **config}
    config.pop("head_dim", None) if not hasattr(made.config_class(), "head_dim") else None
    model = made(made.config_class(**config))
    tasks.randomise(model)
    for part in ("score", "lm_head"):
        if hasattr(model, part):
            with torch.no_grad():
                getattr(model, part).weight.mul_(3)
    model.eval().save_pretrained(directory)
    text = json.loads((directory / "config.json").read_text())
    text.pop("transformers_version", None)
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    (directory / "generation_config.json").unlink(missing_ok=True)
    return directory


# ---- rerankers ----

def rank_cases(model, name, more=()):
    cases = []
    for args, how in [([], {}), (["--top-k", "3"], {"top_k": 3}), (["--function", "none"], {"activation_fn": torch.nn.Identity()}), *more]:
        want = model.rank(QUERY, DOCUMENTS, **how)
        distinct = [w["score"] for w in want if w["corpus_id"] != 8]  # document 8 repeats document 0
        tasks.refuse_ties(name, distinct)
        cases.append({"args": [QUERY, *args], "input": DOCUMENTS, "want": [{"document": w["corpus_id"], "score": w["score"]} for w in want]})
    return cases


def cross_encoder(name, tokenizer="uncased", cls="BertForSequenceClassification", activation=None, saved=False, **config):
    from sentence_transformers import CrossEncoder
    directory = tasks.fresh(name, tokenizer, cls, max_length=32, num_labels=1, head_scale=1.0, **config)
    if activation:
        text = json.loads((directory / "config.json").read_text()) | activation
        (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    model = CrossEncoder(str(directory), device="cpu")
    if saved:  # as sentence-transformers itself writes it: with modules.json
        tasks.shutil.rmtree(directory)
        model.save_pretrained(str(directory), create_model_card=False)
        tasks.compact(directory)
        model = CrossEncoder(str(directory), device="cpu")
    tasks.write_golden(directory, "rerank", rank_cases(model, name))


def card_scores(directory, instruction=None, max_length=8192):
    tok = transformers.AutoTokenizer.from_pretrained(directory, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    head, tail = tok.encode(HEAD, add_special_tokens=False), tok.encode(TAIL, add_special_tokens=False)
    no, yes = tok.convert_tokens_to_ids("no"), tok.convert_tokens_to_ids("yes")
    scores = []
    for document in DOCUMENTS:
        text = f"<Instruct>: {instruction or INSTRUCTION}\n<Query>: {QUERY}\n<Document>: {document}"
        ids = head + tok(text, truncation="longest_first", max_length=max_length - len(head) - len(tail))["input_ids"] + tail
        with torch.no_grad():
            last = model(input_ids=torch.tensor([ids])).logits[0, -1]
        scores.append((torch.log_softmax(torch.stack([last[no], last[yes]]), 0)[1].exp().item(), (last[yes] - last[no]).item()))
    return scores


def language_model(name, cls="Qwen3ForCausalLM"):
    directory = write_decoder(name, "chat_plain", cls, max_length=512)
    cases = []
    for args, column, how in [([], 0, {}), (["--function", "none"], 1, {}), (["--instruction", "Find the city"], 0, {"instruction": "Find the city"}),
                              (["--max-length", "330"], 0, {"max_length": 330})]:
        scores = card_scores(directory, **({"max_length": 512} | how))
        order = sorted(range(len(scores)), key=lambda i: (-scores[i][column], i))
        tasks.refuse_ties(name, [scores[i][column] for i in order if i != 8])
        cases.append({"args": [QUERY, *args], "input": DOCUMENTS, "want": [{"document": i, "score": scores[i][column]} for i in order]})
    tasks.write_golden(directory, "rerank", cases)


# ---- embedders ----

def embedder(name, cls="Qwen3Model"):
    from sentence_transformers import SentenceTransformer
    directory = write_decoder(name, "chat", cls, max_length=128)
    prompts = {"prompts": {"query": f"Instruct: {INSTRUCTION}\nQuery:", "document": ""}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    tasks.write_modules(directory, "", [("Pooling", tasks.old_pooling("lasttoken", include_prompt=True)), ("Normalize", None)], None, prompts, False)
    model = SentenceTransformer(str(directory), device="cpu")
    some = tasks.TEXTS
    tasks.write_golden(directory, "embed", tasks.encode_cases(model, [
        ([], {}, some), (["--prompt-name", "query"], {"prompt_name": "query"}, some), (["--prompt-name", "document"], {"prompt_name": "document"}, some),
        (["--prompt", "Instruct: Find\nQuery:"], {"prompt": "Instruct: Find\nQuery:"}, some)]))


def fixtures():
    yield "rerank_bert", cross_encoder
    yield "rerank_roberta", lambda name: cross_encoder(name, "bpe", "RobertaForSequenceClassification", activation={"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})
    yield "rerank_saved", lambda name: cross_encoder(name, saved=True, activation={"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"}})
    yield "rerank_tanh", lambda name: cross_encoder(name, saved=True, activation={"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh", "version": "5.0.0"}})
    yield "rerank_qwen3", language_model
    yield "st_qwen3", embedder


def main(names):
    known = dict(fixtures())
    for name in names or known:
        known[name](name)
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
