#!/usr/bin/env python3
"""Makes tests/fixtures/models: tiny random-weight encoders and what transformers computes with them (fp32, eager, CPU).

    python3 tests/goldens/make_encoder_goldens.py [name ...]      only the named fixtures

One directory per configuration: config.json, model.safetensors holding the base model and the heads of every class tried (so that they
share one file), and golden.<Class>.<case>.safetensors with in.<forward argument>, out.<output field>, metadata mode and args, as
`accel verify` reads them.  goldens.list names all of them: directory, golden, class.  transformers itself loads each directory to make its
goldens, so both sides read the same files.  The same seeds give the same files.

Padding: token-level outputs are made with right and with left padding.  Pooled outputs are not kept for left padding: the classes then read
the first row, a padding token, which is never computed here.
"""
import json
import os
import pathlib
import shutil
import sys
import zlib

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "models"
POOLED = {"pooler_output", "seq_relationship_logits", "sop_logits"}
HEADS = ["MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"]


def seed(text):
    torch.manual_seed(zlib.crc32(text.encode()))


def randomise(model):
    """Weights large enough that every term shows in the result."""
    for name, p in sorted(model.named_parameters()):
        seed(name)
        with torch.no_grad():
            if p.dim() >= 2:
                p.copy_(torch.randn_like(p) * (0.35 if "embed" in name else 1.0 / p.shape[-1] ** 0.5))
            elif name.lower().endswith("norm.weight") or "layernorm" in name.lower() and name.endswith("weight"):
                p.copy_(1.0 + 0.2 * torch.randn_like(p))
            else:
                p.copy_(0.1 * torch.randn_like(p))


def union_of_heads(config, classes):
    """State of all classes under head-class names; tied copies left out."""
    merged = {}
    for name in classes:
        model = getattr(transformers, name)(config)
        randomise(model)
        model.tie_weights()
        bare = not name.endswith("Model") or name.endswith(("LMHeadModel", "MTModel")) or name.startswith(("T5", "MT5"))  # T5 has no prefix at all
        prefix = "" if bare else model.base_model_prefix + "."
        tied = set(getattr(model, "all_tied_weights_keys", {}) or {})
        for key, value in model.state_dict().items():
            if key in tied:
                continue
            if prefix + key in merged and merged[prefix + key].shape != value.shape:
                raise SystemExit(f"{name}: {key} has two shapes")
            merged.setdefault(prefix + key, value.clone().contiguous())
    return merged


def write_model(directory, config, classes, dtype=None, rename=None, drop=(), shards=0, config_edit=None, saved=False):
    """saved: the first class alone, by the names that save_pretrained writes, which are those of the hub."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    tensors = union_of_heads(config, classes)
    tensors = {k: v for k, v in tensors.items() if not any(d in k for d in drop)}
    if dtype is not None:
        tensors = {k: v.to(dtype) for k, v in tensors.items()}
    if rename is not None:
        tensors = {rename(k): v for k, v in tensors.items()}
    text = json.loads(config.to_json_string())
    text["architectures"] = [classes[0]]
    text["dtype"] = {None: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}[dtype]
    for key in ("_name_or_path", "transformers_version"):
        text.pop(key, None)
    if config_edit is not None:
        config_edit(text)
    if saved:
        model = getattr(transformers, classes[0])(config)
        randomise(model)
        model.tie_weights()
        model.save_pretrained(directory)
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    if saved:
        return
    if shards == 0:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return
    names, index = sorted(tensors), {}
    for i in range(shards):
        part = {k: tensors[k] for k in names[i::shards]}
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file(part, directory / file, metadata={"format": "pt"})
        index.update({k: file for k in part})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}, indent=1) + "\n")


def make_inputs(config, case, length, types, positions):
    """The forward arguments of one case."""
    seed(case)
    batch = 1 if case == "single" else 3
    pad = config.pad_token_id or 0
    ids = torch.randint(2, config.vocab_size, (batch, length))
    inputs = {"input_ids": ids}
    if case in ("right", "left"):
        mask = torch.ones(batch, length, dtype=torch.long)
        for row, kept in enumerate((length, max(1, length // 2), max(1, length - 3))):
            padded = slice(kept, length) if case == "right" else slice(0, length - kept)
            mask[row, padded] = 0
            ids[row, padded] = pad
        inputs["attention_mask"] = mask
    if case in ("right", "given") and types > 0:
        inputs["token_type_ids"] = torch.randint(0, types, (batch, length))
    if case == "given" and positions > 0:
        inputs["position_ids"] = torch.stack([torch.randperm(positions)[:length] for _ in range(batch)])
    return inputs


def run(model, inputs, hidden):
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=hidden)
    fields = {}
    for key, value in out.items():
        if key == "hidden_states":
            for i, v in enumerate(value):
                fields[f"out.hidden_states.{i}"] = v
        elif torch.is_tensor(value):
            fields[f"out.{key}"] = value
    return fields


def make(name, config, classes, length=9, cases=("single", "right", "left", "given"), types=None, positions=None, load_config=None, edit=None, **how):
    directory = ROOT / name
    write_model(directory, config, classes, **how)
    types = getattr(config, "type_vocab_size", 0) if types is None else types
    positions = config.max_position_embeddings if positions is None else positions
    lines = []
    for cls in classes:
        extra = {} if load_config is None else {"config": load_config}
        model, info = getattr(transformers, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True,
                                                                 **extra)
        missing = [k for k in info["missing_keys"] if not any(d in k for d in how.get("drop", ()))]
        if missing or info.get("mismatched_keys"):
            raise SystemExit(f"{name} {cls}: not in the checkpoint: {missing}")
        model.eval()
        for case in cases if cls == classes[0] else ("right",):
            hidden = cls == classes[0] and case == "right"
            inputs = make_inputs(config, case, length, types, positions)
            if edit is not None:
                inputs = edit(config, inputs)
            fields = run(model, inputs, hidden)
            if case == "left":
                fields = {k: v for k, v in fields.items() if k[4:] not in POOLED}
            if any("pooler" in d for d in how.get("drop", ())):
                fields.pop("out.pooler_output", None)
            if any(not torch.isfinite(v).all() for v in fields.values()):
                raise SystemExit(f"{name} {cls} {case}: not finite")
            file = f"golden.{cls}.{case}.safetensors"
            tensors = {f"in.{k}": v for k, v in inputs.items()}
            tensors.update({k: v.to(torch.float32).contiguous() for k, v in fields.items()})
            args = {"output_hidden_states": True} if hidden else {}
            save_file({k: v.clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": json.dumps(args)})
            lines.append(f"{name} {file} {cls}")
    return lines


def classes_of(stem, heads=HEADS, more=()):
    return [f"{stem}Model"] + [f"{stem}For{h}" for h in list(heads) + list(more)]


# ---- the fixtures ----

T = transformers
SMALL = dict(vocab_size=61, hidden_size=30, num_hidden_layers=2, num_attention_heads=3, intermediate_size=41, max_position_embeddings=24)


def bert(**kw):
    return T.BertConfig(**{**SMALL, **kw})


def old_names(key):
    """As the first TensorFlow conversions spelled them."""
    return key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def bert_fixtures():
    yield "bert", dict(config=bert(), classes=classes_of("Bert", more=["PreTraining", "NextSentencePrediction"]))
    labels = {i: n for i, n in enumerate(["none", "joy", "anger", "fear", "awe"])}
    other = bert(hidden_size=28, num_attention_heads=7, num_hidden_layers=1, type_vocab_size=3, layer_norm_eps=1e-3, hidden_act="gelu_new", pad_token_id=5,
                 tie_word_embeddings=False, id2label=labels, label2id={v: k for k, v in labels.items()}, problem_type="multi_label_classification")
    yield "bert_labels", dict(config=other, classes=["BertForSequenceClassification", "BertForTokenClassification", "BertForMaskedLM"], cases=("single", "right"))
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        yield f"bert_{name}", dict(config=bert(num_hidden_layers=1), classes=["BertModel", "BertForMaskedLM"], cases=("right",), dtype=dtype)
    yield "bert_sharded", dict(config=bert(num_hidden_layers=1), classes=["BertModel", "BertForTokenClassification"], cases=("right",), shards=3)
    yield "bert_old_names", dict(config=bert(num_hidden_layers=1), classes=["BertForMaskedLM", "BertForPreTraining"], cases=("right", "left"), rename=old_names)
    yield "bert_no_pooler", dict(config=bert(num_hidden_layers=1), classes=["BertModel"], cases=("right",), drop=("pooler",),
                                 rename=lambda k: k.removeprefix("bert."))
    # rows of 256 elements and more: what the 4-bit precisions really quantise
    wide = bert(hidden_size=264, num_attention_heads=4, intermediate_size=331, num_hidden_layers=1)
    yield "bert_wide", dict(config=wide, classes=["BertModel"], cases=("single", "right"), dtype=torch.bfloat16)
    acts = ["gelu_10", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "hardswish", "leaky_relu", "linear", "mish",
            "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "sqrtsoftplus", "swish", "tanh"]
    for act in acts:
        tiny = bert(vocab_size=11, hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=13, max_position_embeddings=8, hidden_act=act)
        yield f"bert_act_{act}", dict(config=tiny, classes=["BertModel"], cases=("single",), length=5)


def roberta_fixtures():
    for stem, name, types in (("Roberta", "roberta", 1), ("XLMRoberta", "xlm_roberta", 1), ("Camembert", "camembert", 2)):
        config = getattr(T, f"{stem}Config")(**{**SMALL, "type_vocab_size": types, "layer_norm_eps": 1e-5, "num_hidden_layers": 2 if stem == "Roberta" else 1})
        yield name, dict(config=config, classes=classes_of(stem))
    yield "roberta_pad", dict(config=T.RobertaConfig(**{**SMALL, "pad_token_id": 3, "num_hidden_layers": 1, "hidden_act": "relu"}), classes=["RobertaModel"])


def distilbert_fixtures():
    config = T.DistilBertConfig(vocab_size=61, dim=30, n_layers=2, n_heads=3, hidden_dim=41, max_position_embeddings=24)
    yield "distilbert", dict(config=config, classes=classes_of("DistilBert"), types=0)
    sinus = T.DistilBertConfig(vocab_size=61, dim=20, n_layers=1, n_heads=5, hidden_dim=23, max_position_embeddings=24, sinusoidal_pos_embds=True,
                               activation="relu", tie_word_embeddings=False)
    yield "distilbert_untied", dict(config=sinus, classes=["DistilBertModel", "DistilBertForMaskedLM"], types=0, cases=("right",))


def mpnet_fixtures():
    yield "mpnet", dict(config=T.MPNetConfig(**SMALL), classes=classes_of("MPNet"), types=0)
    long = T.MPNetConfig(**{**SMALL, "num_hidden_layers": 1, "max_position_embeddings": 200, "hidden_size": 16, "num_attention_heads": 4,
                            "relative_attention_num_buckets": 40})
    yield "mpnet_long", dict(config=long, classes=["MPNetModel"], types=0, cases=("right",), length=150)


def albert_fixtures():
    config = T.AlbertConfig(**{**SMALL, "embedding_size": 14, "num_hidden_layers": 3})
    yield "albert", dict(config=config, classes=classes_of("Albert", more=["PreTraining"]))
    groups = T.AlbertConfig(**{**SMALL, "embedding_size": 30, "num_hidden_layers": 5, "num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu"})
    yield "albert_groups", dict(config=groups, classes=["AlbertModel", "AlbertForMaskedLM"], cases=("right",))


def electra_fixtures():
    yield "electra", dict(config=T.ElectraConfig(**{**SMALL, "embedding_size": 14}), classes=classes_of("Electra", more=["PreTraining"]))
    same = T.ElectraConfig(**{**SMALL, "embedding_size": 30, "num_hidden_layers": 1, "hidden_act": "gelu_new", "type_vocab_size": 1})
    yield "electra_same", dict(config=same, classes=["ElectraForPreTraining", "ElectraForMaskedLM"], cases=("right", "left"))


def deberta(**kw):
    return T.DebertaV2Config(**{**SMALL, "type_vocab_size": 0, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, **kw})


def deberta_fixtures():
    yield "deberta_v2", dict(config=deberta(), classes=classes_of("DebertaV2"))
    v3 = deberta(position_buckets=6, share_att_key=True, norm_rel_ebd="layer_norm", max_position_embeddings=40, conv_kernel_size=3, conv_act="gelu",
                 conv_groups=2, pooler_hidden_act="tanh", legacy=False)
    yield "deberta_v3", dict(config=v3, classes=["DebertaV2Model", "DebertaV2ForSequenceClassification", "DebertaV2ForMaskedLM"], length=30)
    c2p = deberta(pos_att_type="c2p", num_hidden_layers=1, max_relative_positions=5, position_biased_input=True, type_vocab_size=2, embedding_size=18)
    yield "deberta_c2p", dict(config=c2p, classes=["DebertaV2Model", "DebertaV2ForMaskedLM"])
    p2c = deberta(pos_att_type=["p2c"], num_hidden_layers=1, position_buckets=4, max_relative_positions=16, conv_kernel_size=5)
    yield "deberta_p2c", dict(config=p2c, classes=["DebertaV2Model"], length=20)
    plain = deberta(relative_attention=False, num_hidden_layers=1, position_biased_input=True)
    yield "deberta_absolute", dict(config=plain, classes=["DebertaV2Model"])


MODERN = dict(vocab_size=61, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=19, max_position_embeddings=64, pad_token_id=0,
              bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=6)


def old_modernbert(text):
    for key in ("rope_parameters", "layer_types"):
        text.pop(key, None)
    text.update(global_attn_every_n_layers=2, global_rope_theta=5000.0, local_rope_theta=300.0)


def modern(**kw):
    return T.ModernBertConfig(**{**MODERN, **kw})


def modernbert_fixtures():
    yield "modernbert", dict(config=modern(), classes=classes_of("ModernBert"), types=0, length=14)
    every = modern(norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, decoder_bias=False, classifier_pooling="mean",
                   classifier_activation="relu", hidden_activation="silu", tie_word_embeddings=False, num_hidden_layers=2,
                   layer_types=["sliding_attention", "full_attention"], norm_eps=1e-4)
    yield "modernbert_biases", dict(config=every, classes=["ModernBertForSequenceClassification", "ModernBertForMaskedLM"], types=0, length=14,
                                    cases=("single", "right", "left"))
    yield "modernbert_wide", dict(config=modern(hidden_size=272, num_attention_heads=4, intermediate_size=259, num_hidden_layers=1), classes=["ModernBertModel"], types=0,
                                  length=14, cases=("right",), dtype=torch.bfloat16)
    yield "modernbert_old_config", dict(config=modern(), classes=["ModernBertModel"], types=0, length=14, cases=("right",), config_edit=old_modernbert)
    yield "modernbert_gelu_10", dict(config=modern(hidden_activation="gelu_10", num_hidden_layers=1), classes=["ModernBertModel"], types=0, cases=("right",))


ROPES = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "yarn_mscale": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.7, "mscale_all_dim": 0.4, "beta_fast": 8.0,
                    "beta_slow": 2.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
}


def nomic(**kw):
    base = {**SMALL, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}, "max_position_embeddings": 64}
    return T.NomicBertConfig(**{**base, **kw})


def remote_nomic_names(key):
    """nomic-ai's tensor names; q, k, v are joined afterwards."""
    for a, b in (("nomic_bert.", ""), ("layers.", "encoder.layers."), ("embeddings.LayerNorm", "emb_ln"), ("self_attn.o_proj", "attn.out_proj"),
                 ("mlp.up_proj", "mlp.fc11"), ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2"), ("post_attention_layernorm", "norm1"),
                 ("post_mlp_layernorm", "norm2")):
        key = key.replace(a, b)
    return key


def remote_nomic_config(text):
    c = dict(text)
    text.clear()
    text.update(architectures=["NomicBertModel"], model_type="nomic_bert", n_embd=c["hidden_size"], n_head=c["num_attention_heads"],
                n_layer=c["num_hidden_layers"], n_inner=c["intermediate_size"], n_positions=c["max_position_embeddings"], vocab_size=c["vocab_size"],
                type_vocab_size=c["type_vocab_size"], layer_norm_epsilon=1e-12, activation_function="swiglu", qkv_proj_bias=False, mlp_fc1_bias=False,
                mlp_fc2_bias=False, rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_emb_scale_base=None,
                rotary_scaling_factor=None, prenorm=False, causal=False, parallel_block=False, use_rms_norm=False, scale_attn_weights=True,
                pad_vocab_size_multiple=1, max_trained_positions=64, pad_token_id=0)


def join_qkv(directory):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for layer in sorted({k.split(".")[2] for k in tensors if k.startswith("encoder.layers.")}):
        stem = f"encoder.layers.{layer}."
        parts = [tensors.pop(f"{stem}self_attn.{n}_proj.weight") for n in "qkv"]
        tensors[f"{stem}attn.Wqkv.weight"] = torch.cat(parts).contiguous()
    save_file(tensors, path, metadata={"format": "pt"})


def nomic_fixtures():
    yield "nomic_bert", dict(config=nomic(), classes=classes_of("NomicBert", heads=["MaskedLM", "SequenceClassification", "TokenClassification"]), length=12)
    wide = nomic(head_dim=8, num_hidden_layers=1, hidden_act="gelu")
    yield "nomic_head_dim", dict(config=wide, classes=["NomicBertModel"], cases=("right",))
    yield "nomic_remote", dict(config=nomic(), classes=["NomicBertModel"], length=12, rename=remote_nomic_names, config_edit=remote_nomic_config,
                               load_config=nomic(), after=join_qkv)
    for name, rope in ROPES.items():
        config = nomic(num_hidden_layers=1, rope_parameters={"rope_theta": 1000.0, **rope})
        yield f"nomic_rope_{name}", dict(config=config, classes=["NomicBertModel"], cases=("right",), length=40)


def old_rotary_names(key):
    """As ESM-2's checkpoints were saved at first: frequencies in each layer."""
    return key.replace("rotary_embeddings.inv_freq", "encoder.layer.0.attention.self.rotary_embeddings.inv_freq")


def esm(**kw):
    base = {**SMALL, "vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1, "position_embedding_type": "rotary", "token_dropout": True,
            "emb_layer_norm_before": False, "layer_norm_eps": 1e-5}
    return T.EsmConfig(**{**base, **kw})


ESM_HEADS = HEADS[:3]


def masked(config, inputs):
    """Some tokens are the mask, in one row none; none that is padding."""
    inputs["input_ids"][0, 2] = inputs["input_ids"][0, 4] = config.mask_token_id
    inputs["input_ids"][-1, 4] = config.mask_token_id
    return inputs


def esm_fixtures():
    yield "esm", dict(config=esm(), classes=classes_of("Esm", ESM_HEADS), types=0, edit=masked)
    first = esm(position_embedding_type="absolute", token_dropout=True, emb_layer_norm_before=True, num_hidden_layers=1, layer_norm_eps=1e-3)
    yield "esm_absolute", dict(config=first, classes=classes_of("Esm", ESM_HEADS[:1]), types=0, edit=masked)
    plain = esm(token_dropout=False, num_hidden_layers=1, rope_theta=500.0, tie_word_embeddings=False)
    yield "esm_plain", dict(config=plain, classes=classes_of("Esm", ESM_HEADS[:1]), types=0, edit=masked, cases=("right",), rename=old_rotary_names)


def eurobert(**kw):
    base = {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 3, "num_key_value_heads": 1, "rms_norm_eps": 1e-4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0}}
    return T.EuroBertConfig(**{**base, **kw})


def eurobert_fixtures():
    yield "eurobert", dict(config=eurobert(), classes=classes_of("EuroBert", ESM_HEADS), types=0)
    every = eurobert(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, hidden_act="gelu", num_key_value_heads=None, head_dim=12,
                     classifier_pooling="mean", num_hidden_layers=1)
    yield "eurobert_biases", dict(config=every, classes=classes_of("EuroBert", ESM_HEADS[:2]), types=0, cases=("right",))
    first = eurobert(classifier_pooling="bos", num_hidden_layers=1)
    yield "eurobert_first", dict(config=first, classes=["EuroBertForSequenceClassification"], types=0, cases=("single", "right"))


def mobilebert(**kw):
    base = {**SMALL, "hidden_size": 28, "embedding_size": 10, "intra_bottleneck_size": 12, "num_feedforward_networks": 3}
    return T.MobileBertConfig(**{**base, **kw})


def mobilebert_fixtures():
    yield "mobilebert", dict(config=mobilebert(), classes=classes_of("MobileBert", more=["PreTraining", "NextSentencePrediction"]))
    norms = mobilebert(normalization_type="layer_norm", use_bottleneck_attention=True, num_feedforward_networks=1, classifier_activation=False,
                       layer_norm_eps=1e-3, num_hidden_layers=1, tie_word_embeddings=False, hidden_act="gelu")
    yield "mobilebert_norms", dict(config=norms, classes=classes_of("MobileBert", HEADS[:2]), cases=("right", "left"))
    wide = mobilebert(use_bottleneck=False, trigram_input=False, embedding_size=28, num_attention_heads=4, num_hidden_layers=1)
    yield "mobilebert_wide", dict(config=wide, classes=classes_of("MobileBert", HEADS[:1]), cases=("right",))


def jina(**kw):
    return T.JinaEmbeddingsV3Config(**{**SMALL, "type_vocab_size": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}, **kw})


def gte(**kw):
    return T.GteConfig(**{**SMALL, "type_vocab_size": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 160000.0}, **kw})


def rotary_fixtures():
    yield "jina_embeddings_v3", dict(config=jina(), classes=classes_of("JinaEmbeddingsV3"))
    other = jina(type_vocab_size=3, hidden_act="relu", layer_norm_eps=1e-3, num_hidden_layers=1, tie_word_embeddings=False,
                 rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0})
    yield "jina_linear", dict(config=other, classes=classes_of("JinaEmbeddingsV3", HEADS[:1]), cases=("right", "left"))
    yield "jina_saved", dict(config=jina(num_hidden_layers=1), classes=["JinaEmbeddingsV3ForMaskedLM"], cases=("right",), saved=True)
    yield "gte", dict(config=gte(), classes=classes_of("Gte", HEADS[:3]))
    yield "gte_saved", dict(config=gte(num_hidden_layers=1), classes=["GteForMaskedLM"], cases=("right",), saved=True)
    bare = gte(type_vocab_size=0, hidden_act="silu", num_hidden_layers=1, pad_token_id=0, rope_parameters={"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0})
    yield "gte_no_types", dict(config=bare, classes=classes_of("Gte", HEADS[:1]), cases=("right",))


def main(wanted):
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    ROOT.mkdir(parents=True, exist_ok=True)
    listing = ROOT / "goldens.list"
    lines = [] if not wanted else [l for l in listing.read_text().splitlines() if l.split()[0] not in wanted]
    for group in (bert_fixtures, roberta_fixtures, distilbert_fixtures, mpnet_fixtures, albert_fixtures, electra_fixtures, deberta_fixtures,
                  modernbert_fixtures, nomic_fixtures, esm_fixtures, eurobert_fixtures, mobilebert_fixtures, rotary_fixtures):
        for name, how in group():
            if wanted and name not in wanted:
                continue
            lines += make_with_after(name, **how)
            print(name, file=sys.stderr)
    listing.write_text("\n".join(sorted(lines)) + "\n")


def make_with_after(name, after=None, **how):
    if after is None:
        return make(name, **how)
    global write_model
    plain = write_model

    def write_then(directory, *args, **kw):
        plain(directory, *args, **kw)
        after(directory)

    write_model = write_then
    try:
        return make(name, **how)
    finally:
        write_model = plain


if __name__ == "__main__":
    main(sys.argv[1:])
