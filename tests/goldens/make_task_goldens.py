#!/usr/bin/env python3
"""Makes tests/fixtures/tasks: tiny random-weight models with small real tokenizers, and what the text pipelines make of them.

    python3 tests/goldens/make_task_goldens.py [name ...]      only the named fixtures

One directory per model: config.json, model.safetensors, tokenizer.json, tokenizer_config.json, for sentence-transformers its modules, and
golden.json: {"command": sub-command of the accel tool, "cases": [{"args": [...], "input": [...], "want": [...]}]}, `want` being what
Python's pipelines return for each input:

    embed       sentence_transformers.SentenceTransformer.encode, or transformers' feature-extraction pipeline
    classify, tokens, fill-mask      transformers' pipelines of those tasks
    qa          transformers 5 has no question-answering pipeline any more: written here from what the one of transformers 4.57 does, with the
                model and the tokenizer called directly

Both sides read the same files.  Rankings that hang on differences smaller than what two correct programs may differ by are refused.
Tokenizers are trained when missing, and kept, for training is not repeatable bit by bit; models are the same on every run.
"""
import json
import os
import pathlib
import shutil
import sys
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_encoder_goldens import randomise, seed

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "tasks"
KEPT = ROOT / "tokenizers"
T = transformers

TRAINING = """
Ada Lovelace lives in London and works for the Analytical Engine Company near the river Thames.
The quick brown fox jumps over the lazy dog, and nobody knows why it does so every single morning.
Embeddings are vectors; two sentences that mean the same should point in nearly the same direction.
I'm sure we'll see what they've done: it's 3.14 times better, isn't it? She said she'd come at 10:45.
Unaffable people rarely embrace unhappiness, playing and replaying the played plays of yesterday.
Paris is the capital of France, Berlin that of Germany, and Rome that of Italy; Madrid lies in Spain.
A very good film! I loved it. A terrible film, I hated every minute of it. It was neither good nor bad.
Der schnelle braune Fuchs springt über den faulen Hund, und die Straße ist naß vom Regen.
Les élèves français étaient déjà à l'école, où l'on célèbre Noël et Pâques.
""".strip().split("\n")

TEXTS = [
    "Ada Lovelace lives in London.",
    "",
    "a",
    "   spaced \t out\n text  ",
    "Les élèves ÉTAIENT à l'école; naïve Straße İstanbul ΟΔΟΣ",
    "emoji 😀👍🏽 and 東京 mixed in",
    "The quick brown fox jumps over the lazy dog, and nobody knows why it does so every single morning. " * 3,
    "it's 3.14 times better, isn't it? #tag_one @home (see: [SEP] and <mask>)",
]


# ---- tokenizers ----

def trained(name, make):
    path = KEPT / f"{name}.json"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        tok = make()
        tok.save(str(path), pretty=False)
    return path


def pair_template(tok, cls, sep, single, pair):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(t, tok.token_to_id(t)) for t in sorted({cls, sep})])


def wordpiece(lower):
    def make():
        tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tok.normalizer = normalizers.BertNormalizer(lowercase=lower)
        tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tok.train_from_iterator(TRAINING, trainers.WordPieceTrainer(vocab_size=260, special_tokens=special, show_progress=False))
        tok.post_processor = pair_template(tok, "[CLS]", "[SEP]", "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
        tok.decoder = decoders.WordPiece()
        return tok
    return make


def wordpiece_mpnet():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
    tok.train_from_iterator(TRAINING, trainers.WordPieceTrainer(vocab_size=260, special_tokens=special, show_progress=False))
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tok.decoder = decoders.WordPiece()
    return tok


def byte_bpe():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tok.train_from_iterator(TRAINING, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False,
                                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    return tok


def unigram():
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tok.train_from_iterator(TRAINING, trainers.UnigramTrainer(vocab_size=240, special_tokens=special, unk_token="<unk>", show_progress=False))
    tok.post_processor = pair_template(tok, "<s>", "</s>", "<s> $A </s>", "<s> $A </s> </s> $B:0 </s>")
    tok.decoder = decoders.Metaspace()
    return tok


TOKENIZERS = {
    "uncased": (wordpiece(True), dict(tokenizer_class="BertTokenizer", do_lower_case=True)),
    "cased": (wordpiece(False), dict(tokenizer_class="BertTokenizer", do_lower_case=False)),
    "mpnet": (wordpiece_mpnet, dict(tokenizer_class="MPNetTokenizer", do_lower_case=True)),
    "bpe": (byte_bpe, dict(tokenizer_class="RobertaTokenizer")),
    "unigram": (unigram, dict(tokenizer_class="XLMRobertaTokenizer")),
}
BERT_SPECIAL = dict(unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]")
ROBERTA_SPECIAL = dict(unk_token="<unk>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", mask_token="<mask>", bos_token="<s>", eos_token="</s>")


def compact(directory):
    """Saved JSON is indented: a third of that is enough."""
    for path in directory.glob("tokenizer.json"):
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")) + "\n")


def write_tokenizer(directory, name, max_length, **more):
    make, config = TOKENIZERS[name]
    path = trained(name, make)
    shutil.copy(path, directory / "tokenizer.json")
    special = BERT_SPECIAL if name in ("uncased", "cased") else {**ROBERTA_SPECIAL, "unk_token": "[UNK]"} if name == "mpnet" else ROBERTA_SPECIAL
    config = {**config, **special, "model_max_length": max_length, **more}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    # transformers 5 rebuilds the tokenizers it has classes for: keep what it really uses, as it would save it
    T.AutoTokenizer.from_pretrained(directory).save_pretrained(directory)
    compact(directory)
    return len(json.loads(path.read_text())["model"]["vocab"]) if name not in ("uncased", "cased") else Tokenizer.from_file(str(path)).get_vocab_size()


# ---- models ----

SMALL = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=72)


def write_model(directory, tokenizer, cls, max_length=64, head_scale=6.0, salt="", tokenizer_config=None, **config):
    """A model of class `cls` over the named tokenizer; its heads are scaled so that labels and answers differ."""
    directory.mkdir(parents=True, exist_ok=True)
    vocab = write_tokenizer(directory, tokenizer, max_length, **(tokenizer_config or {}))
    special = dict(pad_token_id=0) if tokenizer in ("uncased", "cased") else dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
    if cls.startswith("MPNet"):
        special.pop("type_vocab_size")
    made = getattr(T, cls)(getattr(T, cls).config_class(**{**SMALL, **special, "vocab_size": vocab, **config}))
    randomise(made)
    for name, p in sorted(made.named_parameters()):
        if name.split(".")[0] in ("classifier", "qa_outputs", "lm_head", "cls", "predictions") and p.dim() >= 2 and p.shape[0] != vocab:
            seed(name + salt)
            with torch.no_grad():
                p.copy_(torch.randn_like(p) * head_scale / p.shape[-1] ** 0.5)
    made.eval()
    made.save_pretrained(directory)
    text = json.loads((directory / "config.json").read_text())
    for key in ("_name_or_path", "transformers_version"):
        text.pop(key, None)
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    for extra in ("generation_config.json",):
        (directory / extra).unlink(missing_ok=True)


# ---- goldens ----

def rounded(x):
    """Eight digits: floats as float32 prints them, a fifth of the file size."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [rounded(v) for v in x]
    if isinstance(x, (np.ndarray, torch.Tensor)):
        return rounded(x.tolist())
    if isinstance(x, (float, np.floating)):
        return float(f"{float(x):.8g}")
    return int(x) if isinstance(x, np.integer) else x


def refuse_ties(name, ranked):
    """ranked: scores, best first.  Neighbours must differ by more than rounding may change."""
    for a, b in zip(ranked, ranked[1:]):
        if a - b < 2e-5 * max(abs(a), 1e-4):
            raise SystemExit(f"{name}: scores {a} and {b} are too close to be ranked")


def write_golden(directory, command, cases):
    lines = [json.dumps(rounded(c), ensure_ascii=False) for c in cases]
    (directory / "golden.json").write_text('{"command": "%s", "cases": [\n%s\n]}\n' % (command, ",\n".join(lines)))


# ---- sentence embeddings ----

OLD_POOLING = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens",
               "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens", "weightedmean": "pooling_mode_weightedmean_tokens",
               "lasttoken": "pooling_mode_lasttoken"}


def old_pooling(*modes, **more):
    return {"word_embedding_dimension": SMALL["hidden_size"], **{key: mode in modes for mode, key in OLD_POOLING.items()}, **more}


def new_pooling(mode, **more):
    return {"embedding_dimension": SMALL["hidden_size"], "pooling_mode": mode, **more}


def dense(i, o, act="Tanh", bias=True):
    return {"in_features": i, "out_features": o, "bias": bias, "activation_function": f"torch.nn.modules.{'linear' if act == 'Identity' else 'activation'}.{act}"}


def write_modules(directory, transformer, modules, sentence_bert, prompts, new_types):
    """modules.json and the directories it names; modules: (kind, config) after the Transformer."""
    def entry(i, kind, path):
        package = ("sentence_transformers.base.modules" if kind in ("Transformer", "Dense", "Normalize") else "sentence_transformers.sentence_transformer.modules")
        package = f"{package}.{kind.lower()}" if new_types else "sentence_transformers.models"
        return {"idx": i, "name": str(i), "path": path, "type": f"{package}.{kind}"}
    listed = [entry(0, "Transformer", transformer)]
    for i, (kind, config) in enumerate(modules, 1):
        path = f"{i}_{kind}"
        listed.append(entry(i, kind, path))
        if config is None:
            continue
        (directory / path).mkdir(exist_ok=True)
        (directory / path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        if kind == "Dense":
            seed(f"{directory.name} dense {i}")
            o, n = config["out_features"], config["in_features"]
            tensors = {"linear.weight": torch.randn(o, n) / n ** 0.5}
            if config["bias"]:
                tensors["linear.bias"] = 0.3 * torch.randn(o)
            save_file(tensors, directory / path / "model.safetensors", metadata={"format": "pt"})
        if kind == "LayerNorm":
            seed(f"{directory.name} norm {i}")
            n = config["dimension"]
            save_file({"norm.weight": 1 + 0.3 * torch.randn(n), "norm.bias": 0.3 * torch.randn(n)}, directory / path / "model.safetensors", metadata={"format": "pt"})
    (directory / "modules.json").write_text(json.dumps(listed, indent=1) + "\n")
    if sentence_bert is not None:
        (directory / transformer / "sentence_bert_config.json").write_text(json.dumps(sentence_bert) + "\n")
    if prompts is not None:
        (directory / "config_sentence_transformers.json").write_text(json.dumps(prompts, indent=1) + "\n")


def encode_cases(model, cases):
    made = []
    for args, how, texts in cases:
        want = [model.encode(t, convert_to_numpy=True, **how) for t in texts]
        together = model.encode(texts, convert_to_numpy=True, **how)
        if np.abs(np.stack(want) - together).max() > 1e-5:
            raise SystemExit("sentence-transformers itself depends on the batch")
        made.append({"args": args, "input": texts, "want": want})
    return made


def sentence(name, modules, cls="BertModel", tokenizer="uncased", transformer="", sentence_bert=None, prompts=None, cases=None, new_types=False, saved=False,
             max_length=64, **config):
    from sentence_transformers import SentenceTransformer
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    write_model(directory / transformer, tokenizer, cls, max_length, **config)
    write_modules(directory, transformer, modules, sentence_bert, prompts, new_types)
    model = SentenceTransformer(str(directory), device="cpu")
    if saved:  # as sentence-transformers itself writes it, without the model card
        shutil.rmtree(directory)
        model.save(str(directory), create_model_card=False)
        compact(directory)
        model = SentenceTransformer(str(directory), device="cpu")
    write_golden(directory, "embed", encode_cases(model, cases or [([], {}, TEXTS)]))


def sentence_fixtures():
    some = TEXTS[:5]
    for mode in OLD_POOLING:
        short = {"mean_sqrt_len_tokens": "sqrt", "weightedmean": "weighted", "lasttoken": "last"}.get(mode, mode)
        yield f"st_{short}", lambda name, mode=mode: sentence(name, [("Pooling", old_pooling(mode))])
    yield "st_joined_old", lambda name: sentence(name, [("Pooling", old_pooling("max", "cls", "weightedmean")), ("Normalize", None)], cases=[
        ([], {}, some), (["--normalize", "yes"], {"normalize_embeddings": True}, some)])
    yield "st_joined_new", lambda name: sentence(name, [("Pooling", new_pooling(["mean", "lasttoken", "mean_sqrt_len_tokens"]))], new_types=True)
    yield "st_saved", lambda name: sentence(name, [("Pooling", new_pooling("mean")), ("Dense", dense(16, 12, "Identity")), ("Normalize", None)],
                                            new_types=True, saved=True, prompts={"prompts": {"query": "", "document": ""}}, sentence_bert={"max_seq_length": 20})
    yield "st_dense", lambda name: sentence(name, [("Pooling", old_pooling("mean")), ("Dense", dense(16, 20)), ("Dense", dense(20, 9, "Identity", False)),
                                                   ("Normalize", None)])
    norm = [("Pooling", new_pooling("mean", include_prompt=False)), ("LayerNorm", {"dimension": 16}), ("Dense", dense(16, 11)), ("LayerNorm", {"dimension": 11}), ("Normalize", None)]
    yield "st_norm", lambda name: sentence(name, norm, prompts={"prompts": {"query": "find: "}}, cases=[
        ([], {}, some), (["--prompt-name", "query"], {"prompt_name": "query"}, some)])
    prompts = {"__version__": {"sentence_transformers": "3.0.0"}, "prompts": {"query": "find: ", "topic": "Group the text: ", "none": None},
               "default_prompt_name": "topic", "similarity_fn_name": "cosine"}
    prompted = [([], {}, some), (["--prompt-name", "query"], {"prompt_name": "query"}, some), (["--prompt", "why "], {"prompt": "why "}, some),
                (["--prompt-name", "document"], {"prompt_name": "document"}, some), (["--prompt-name", "none"], {"prompt_name": "none"}, some),
                (["--prompt", ""], {"prompt": ""}, some), (["--normalize", "yes"], {"normalize_embeddings": True}, some)]
    yield "st_prompts", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], prompts=prompts, cases=prompted)
    for mode in ("mean", "cls", "max", "weightedmean", "lasttoken", "mean_sqrt_len_tokens"):
        if mode in ("cls", "weightedmean"):
            yield f"st_no_prompt_{mode}", lambda name, mode=mode: sentence(name, [("Pooling", new_pooling(mode, include_prompt=False))], prompts=prompts, cases=prompted)
    yield "st_no_prompt_dense", lambda name: sentence(name, [("Pooling", new_pooling(["mean", "max", "mean_sqrt_len_tokens", "lasttoken"], include_prompt=False)),
                                                             ("Dense", dense(64, 10)), ("Dense", dense(10, 7, "GELU")), ("Normalize", None)],
                                                      prompts=prompts, cases=prompted[:4] + prompted[5:6])
    cut = {"prompts": {"query": "find: "}, "truncate_dim": 5}
    yield "st_truncated", lambda name: sentence(name, [("Pooling", new_pooling(["mean", "max"], include_prompt=False)), ("Dense", dense(32, 12)), ("Normalize", None)], prompts=cut, cases=[
        ([], {}, some), (["--normalize", "yes"], {"normalize_embeddings": True}, some), (["--prompt-name", "query"], {"prompt_name": "query"}, some),
        (["--prompt-name", "query", "--normalize", "yes"], {"prompt_name": "query", "normalize_embeddings": True}, some)])
    yield "st_truncated_plain", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], prompts={**cut, "truncate_dim": 100}, cases=[
        ([], {}, some), (["--normalize", "yes"], {"normalize_embeddings": True}, some)])
    yield "st_max_length", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], sentence_bert={"max_seq_length": 9, "do_lower_case": False})
    yield "st_lower", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], tokenizer="cased", sentence_bert={"max_seq_length": 40, "do_lower_case": True})
    yield "st_subfolder", lambda name: sentence(name, [("Pooling", old_pooling("mean")), ("Normalize", None)], transformer="0_Transformer",
                                                sentence_bert={"max_seq_length": 30, "do_lower_case": False})
    yield "st_roberta", lambda name: sentence(name, [("Pooling", old_pooling("weightedmean"))], cls="RobertaModel", tokenizer="bpe")
    yield "st_unigram", lambda name: sentence(name, [("Pooling", old_pooling("cls")), ("Normalize", None)], cls="XLMRobertaModel", tokenizer="unigram")
    yield "st_mpnet", lambda name: sentence(name, [("Pooling", old_pooling("mean")), ("Normalize", None)], cls="MPNetModel", tokenizer="mpnet")
    yield "st_distilbert", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], cls="DistilBertModel", hidden_dim=24)
    # as google/embeddinggemma-300m has it: attention both ways, some of it in a window, two layers behind the mean, prompts by task
    gemma = [("Pooling", old_pooling("mean", include_prompt=True)), ("Dense", dense(16, 24, "Identity", False)), ("Dense", dense(24, 16, "Identity", False)), ("Normalize", None)]
    tasks = {"prompts": {"query": "task: search result | query: ", "document": "title: none | text: ", "Retrieval": "find: "}, "default_prompt_name": None}
    yield "st_gemma", lambda name: sentence(name, gemma, cls="Gemma3TextModel", tokenizer="unigram", prompts=tasks, num_key_value_heads=1, head_dim=10, query_pre_attn_scalar=10,
                                            use_bidirectional_attention=True, sliding_window=8, layer_types=["sliding_attention", "full_attention"], cases=[
                                                ([], {}, some), (["--prompt-name", "query"], {"prompt_name": "query"}, some), (["--prompt-name", "document"], {"prompt_name": "document"}, some)])
    # what a sequence's embeddings are scaled by is its own, whatever it runs beside
    yield "st_esm", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], cls="EsmModel", tokenizer="unigram", token_dropout=True, mask_token_id=5,
                                          position_embedding_type="rotary")
    yield "st_of_mlm", lambda name: sentence(name, [("Pooling", old_pooling("mean"))], cls="BertForMaskedLM")


# ---- the pipelines ----

def pipeline(task, directory, **how):
    return T.pipeline(task, str(directory), device="cpu", dtype=torch.float32, **how)


def fresh(name, *args, **kw):
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    write_model(directory, *args, **kw)
    return directory


def features(name, tokenizer, cls):
    directory = fresh(name, tokenizer, cls)
    texts = [t for i, t in enumerate(TEXTS) if i != 6]
    extract = pipeline("feature-extraction", directory)
    write_golden(directory, "embed", [{"args": [], "input": texts, "want": [extract(t)[0] for t in texts]}])


PAIRS = [{"text": "Paris is the capital of France.", "text_pair": "Berlin that of Germany"}, {"text": "", "text_pair": "A terrible film"},
         {"text": "naïve Straße", "text_pair": "😀 東京"}, {"text": "a", "text_pair": ""}]


def classify(name, tokenizer="uncased", cls="BertForSequenceClassification", functions=("sigmoid", "none", "softmax"), **config):
    directory = fresh(name, tokenizer, cls, max_length=48, **config)
    label = pipeline("text-classification", directory)
    n = config.get("num_labels") or len(config["id2label"])
    cases = []
    for args, how in [([], {"top_k": 1}), (["--top-k", "0"], {"top_k": None}), (["--top-k", "2"], {"top_k": 2})] + [
            (["--top-k", "0", "--function", f], {"top_k": None, "function_to_apply": f}) for f in functions]:
        if n == 1 and how["top_k"] == 2:
            continue
        for texts in (TEXTS, PAIRS) if how["top_k"] is None else (TEXTS,):
            want = [label(t, truncation=True, **how) for t in texts]
            for scores in want:
                refuse_ties(name, [s["score"] for s in scores])
            cases.append({"args": args, "input": texts, "want": want})
    write_golden(directory, "classify", cases)


def classify_fixtures():
    yield "classify_one", lambda name: classify(name, num_labels=1)
    yield "classify_many", lambda name: classify(name, id2label={0: "joy", 1: "anger", 2: "fear", 3: "awe"}, label2id={"joy": 0, "anger": 1, "fear": 2, "awe": 3})
    yield "classify_regression", lambda name: classify(name, num_labels=3, problem_type="regression", functions=("sigmoid",))
    yield "classify_multi", lambda name: classify(name, num_labels=3, problem_type="multi_label_classification", functions=("softmax",))
    yield "classify_roberta", lambda name: classify(name, "bpe", "RobertaForSequenceClassification", num_labels=3, functions=("sigmoid",))


NER = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "ORG"]
NER_TEXTS = TEXTS[:6] + TEXTS[7:] + ["Unaffable Ada replayed 3.14 films, isn't it? 東京 Zürich-Straße; Lovelace's unhappiness.", "##ing [UNK] word [PAD] x"]
LONG = " ".join(TRAINING[:4])


def tag(name, tokenizer, cls, **config):
    labels = dict(enumerate(NER))
    directory = fresh(name, tokenizer, cls, max_length=48, id2label=labels, label2id={v: k for k, v in labels.items()}, **config)
    cases = []
    for how in ("none", "simple", "first", "average", "max"):
        args = ["--aggregation", how] if how != "none" else []
        for ignored, ignore_args in ((None, []), ([], ["--ignore-labels", ""]), (["O", "PER", "B-LOC"], ["--ignore-labels", "O,PER,B-LOC"])):
            run = pipeline("token-classification", directory, aggregation_strategy=how, **({} if ignored is None else {"ignore_labels": ignored}))
            texts = NER_TEXTS if ignored is None or ignored == [] else NER_TEXTS[:2]
            want = [run(t) for t in texts]
            cases.append({"args": args + ignore_args, "input": texts, "want": want})
        if how in ("simple", "max"):
            run = pipeline("token-classification", directory, aggregation_strategy=how, stride=7)
            texts = [LONG, TEXTS[0], LONG + " " + TEXTS[5]]
            cases.append({"args": args + ["--stride", "7"], "input": texts, "want": [run(t) for t in texts]})
    write_golden(directory, "tokens", cases)


def tag_fixtures():
    yield "tokens_wordpiece", lambda name: tag(name, "cased", "BertForTokenClassification")
    yield "tokens_uncased", lambda name: tag(name, "uncased", "BertForTokenClassification", salt="2")
    yield "tokens_bpe", lambda name: tag(name, "bpe", "RobertaForTokenClassification", salt="b")
    yield "tokens_unigram", lambda name: tag(name, "unigram", "XLMRobertaForTokenClassification", salt="u")


def fill(name, tokenizer, cls, targets, **config):
    directory = fresh(name, tokenizer, cls, max_length=48, **config)
    run = pipeline("fill-mask", directory)
    mask = run.tokenizer.mask_token
    texts = [f"Paris is the {mask} of France.", mask, f"emoji 😀 {mask} é", f"isn't it {mask}?", f"the {mask} fox, {mask} lazy dog"]
    cases = []
    for args, how in [([], {}), (["--top-k", "3"], {"top_k": 3}), (["--targets", ",".join(targets)], {"targets": targets}),
                      (["--targets", ",".join(targets), "--top-k", "2"], {"targets": targets, "top_k": 2})]:
        want = []
        for i, text in enumerate(texts):
            rows = run(text, **how)
            for row in rows if isinstance(rows[0], list) else [rows]:
                refuse_ties(name, [f["score"] for f in row])
                want.append({"text": i, "fills": row})
        cases.append({"args": args, "input": texts, "want": want})
    write_golden(directory, "fill-mask", cases)


def fill_fixtures():
    yield "fill_wordpiece", lambda name: fill(name, "uncased", "BertForMaskedLM", ["the", "##s", "capital", "fox", "zzz", "a"])
    yield "fill_bpe", lambda name: fill(name, "bpe", "RobertaForMaskedLM", ["Ġthe", "the", "fox", "é", "zz"])
    yield "fill_unigram", lambda name: fill(name, "unigram", "XLMRobertaForMaskedLM", ["▁the", "the", "s", "東"])


# ---- question answering ----

def qa_windows(tokenizer, question, context, stride, size):
    size = min(size, tokenizer.model_max_length)
    stride = min(size // 2, 128) if stride is None else stride
    return tokenizer(question, context, truncation="only_second", max_length=size, stride=stride, return_overflowing_tokens=True,
                     return_offsets_mapping=True, return_token_type_ids=True)


def softmax_outside(logits, allowed):
    x = np.where(allowed, logits, np.float32(-10000)).astype(np.float32)
    x = np.exp(x - x.max())
    return x / x.sum()


def answer_question(model, tokenizer, question, context, top_k=1, stride=None, longest=15, impossible=False, align=True, size=384):
    """The spans of the context with the greatest start x end probability, as the question-answering pipeline of transformers 4.57 reports them: the
    probabilities are taken over the context and the [CLS] tokens of a window, the first token's are then zeroed; of each window the best
    top_k * 2 + 10 spans (top_k when they are not widened to words) are turned into text, and equal texts in any letter case add their scores."""
    found, none = [], 1000000.0
    encoded = qa_windows(tokenizer, question, context, stride, size)
    for w in range(len(encoded["input_ids"])):
        parts = encoded.sequence_ids(w)
        ids = encoded["input_ids"][w]
        allowed = np.array([part == 1 or token == tokenizer.cls_token_id for part, token in zip(parts, ids)])
        inputs = {"input_ids": torch.tensor([ids])}
        if "token_type_ids" in tokenizer.model_input_names:
            inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"][w]])
        with torch.no_grad():
            out = model(**inputs)
        start, end = softmax_outside(out.start_logits[0].numpy(), allowed), softmax_outside(out.end_logits[0].numpy(), allowed)
        if impossible:
            none = min(none, float(start[0] * end[0]))
        spans = [(float(start[s] * end[e]), s, e) for s in range(len(ids)) for e in range(s, min(len(ids), s + longest)) if parts[s] == 1 and parts[e] == 1]
        spans.sort(key=lambda x: -x[0])
        spans = spans[: top_k * 2 + 10 if align else top_k]
        for score, s, e in spans:
            first, last = encoded["offset_mapping"][w][s][0], encoded["offset_mapping"][w][e][1]
            if align:
                words = encoded.word_ids(w)
                same = lambda t: [encoded["offset_mapping"][w][i] for i in range(len(ids)) if parts[i] == 1 and words[i] == words[t]]
                first, last = same(s)[0][0], same(e)[-1][1]
            text = context[first:last]
            for one in found:
                if one["answer"].lower() == text.lower():
                    one["score"] += score
                    break
            else:
                found.append({"score": score, "start": first, "end": last, "answer": text})
    if impossible:
        found.append({"score": none, "start": 0, "end": 0, "answer": ""})
    found.sort(key=lambda x: -x["score"])
    refuse_ties("qa answers", [a["score"] for a in found[: top_k + 1]])
    return found[:top_k]


QUESTIONS = [
    {"question": "Where does Ada live?", "context": TRAINING[0]},
    {"question": "Where does Ada live?", "context": LONG},
    {"question": "Qui était à l'école?", "context": TRAINING[8] + " 😀 東京 " + TRAINING[7]},
    {"question": "?", "context": "The fox. THE FOX, the fox; The Fox jumps over the fox and the FOX"},
    {"question": "why", "context": "a"},
]


def qa(name, tokenizer, cls, **config):
    directory = fresh(name, tokenizer, cls, max_length=40, head_scale=3.0, **config)
    tok = T.AutoTokenizer.from_pretrained(directory)
    model = getattr(T, cls).from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)
    model.eval()
    cases = []
    for args, how in [([], {}), (["--top-k", "3"], dict(top_k=3)), (["--doc-stride", "6"], dict(stride=6)), (["--max-answer-length", "3", "--top-k", "2"], dict(longest=3, top_k=2)),
                      (["--max-length", "32", "--doc-stride", "5", "--top-k", "2"], dict(size=32, stride=5, top_k=2)), (["--impossible"], dict(impossible=True)), (["--impossible", "--top-k", "4"], dict(impossible=True, top_k=4)),
                      (["--align", "no", "--top-k", "3"], dict(align=False, top_k=3))]:
        cases.append({"args": args, "input": QUESTIONS, "want": [answer_question(model, tok, **q, **how) for q in QUESTIONS]})
    write_golden(directory, "qa", cases)


def qa_fixtures():
    yield "qa_wordpiece", lambda name: qa(name, "uncased", "BertForQuestionAnswering")
    yield "qa_bpe", lambda name: qa(name, "bpe", "RobertaForQuestionAnswering")
    yield "qa_unigram", lambda name: qa(name, "unigram", "XLMRobertaForQuestionAnswering")


def fixtures():
    yield from sentence_fixtures()
    yield "features_bert", lambda name: features(name, "uncased", "BertModel")
    yield "features_of_mlm", lambda name: features(name, "bpe", "RobertaForMaskedLM")
    yield from classify_fixtures()
    yield from tag_fixtures()
    yield from qa_fixtures()
    yield from fill_fixtures()


def main(names):
    known = dict(fixtures())
    for name in names or known:
        known[name](name)
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
