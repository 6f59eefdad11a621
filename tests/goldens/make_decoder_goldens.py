#!/usr/bin/env python3
"""Makes the language models of tests/fixtures/models: tiny random-weight decoders and encoder-decoders, and what transformers computes with them
(fp32, eager, CPU).

    python3 tests/goldens/make_decoder_goldens.py [name ...]      only the named fixtures

Written as make_encoder_goldens.py writes (its helpers are used), one directory per configuration; lines go to goldens.list beside those of the
encoders.  Cases: single (one sequence, no mask), right and left (padding), given (position_ids), types (right, with token_type_ids).  Outputs of
sequence heads read the last token that is no padding, so they are made with either padding.
"""
import json
import sys

import torch
import transformers
from safetensors.torch import save_file

import make_encoder_goldens as common

T = transformers
ROOT = common.ROOT
BASE = dict(vocab_size=67, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=37,
            max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
HEADS = ["CausalLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"]


def make_inputs(config, case, length, positions):
    common.seed(case)
    batch = 1 if case in ("single", "short") else 3
    length = length if case != "short" else min(length, 9)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    pad = text.pad_token_id or 0
    ids = torch.randint(3, text.vocab_size, (batch, length))
    inputs = {"input_ids": ids}
    if case in ("right", "left", "types"):
        mask = torch.ones(batch, length, dtype=torch.long)
        for row, kept in enumerate((length, max(1, length // 2), max(1, length - 3))):
            padded = slice(0, length - kept) if case == "left" else slice(kept, length)
            mask[row, padded] = 0
            ids[row, padded] = pad
        inputs["attention_mask"] = mask
    if case == "ends":  # right padding, and what ends a row is the padding token, too, though the mask keeps it
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[1, length - 3:] = 0
        ids[0, -2:] = ids[1, length - 4:] = pad
        inputs["attention_mask"] = mask
    if case == "types":  # words of the vocabulary that GPT-2 and its kin add
        inputs["token_type_ids"] = torch.randint(0, text.vocab_size, (batch, length))
    if case == "given":
        inputs["position_ids"] = torch.stack([torch.randperm(positions)[:length] for _ in range(batch)])
    return inputs


def run(model, inputs, hidden):
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=hidden)
    fields = {}
    for key, value in out.items():
        if key.endswith("hidden_states") and isinstance(value, tuple):
            fields.update({f"out.{key}.{i}": v for i, v in enumerate(value)})
        elif torch.is_tensor(value):
            fields[f"out.{key}"] = value
    return fields


def write_golden(directory, cls, case, inputs, fields, args):
    if any(not torch.isfinite(v.float()).all() for v in fields.values()):
        raise SystemExit(f"{directory.name} {cls} {case}: not finite")
    file = f"golden.{cls}.{case}.safetensors"
    tensors = {f"in.{k}": v for k, v in inputs.items()}
    tensors.update({k: v.contiguous() if k.startswith("mask.") else v.to(torch.float32).contiguous() for k, v in fields.items()})
    save_file({k: v.clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": json.dumps(args)})
    return f"{directory.name} {file} {cls}"


def load(directory, cls, attention="eager", **extra):
    model, info = getattr(T, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation=attention, experts_implementation="eager", output_loading_info=True, **extra)
    missing = [k for k in info["missing_keys"] if "embed_positions" not in k]  # Pegasus computes them
    if missing or info.get("mismatched_keys"):
        raise SystemExit(f"{directory.name} {cls}: not in the checkpoint: {info['missing_keys']} {info.get('mismatched_keys')}")
    return model.eval()


def make(name, config, classes, also=(), length=11, cases=("single", "right", "left"), positions=None, after=None, attention="eager", **how):
    """also: classes that read the same files by another config class."""
    directory = ROOT / name
    common.write_model(directory, config, classes, **how)
    if after is not None:
        after(directory)
    lines = []
    for cls in [*classes, *also]:
        model = load(directory, cls, attention)
        head = cls.endswith("SequenceClassification")
        for case in cases if cls == classes[0] else ("right", "left") if head else ("right",):
            hidden = cls == classes[0] and case == "right"
            inputs = make_inputs(config, case, length, positions or 40)
            fields = run(model, inputs, hidden)
            lines.append(write_golden(directory, cls, case, inputs, fields, {"output_hidden_states": True} if hidden else {}))
    return lines


def classes_of(stem, heads=HEADS):
    return [f"{stem}ForCausalLM", f"{stem}Model"] + [f"{stem}For{h}" for h in heads if h != "CausalLM"]


def old_rope(theta):
    """rope_parameters as configs spelled them before transformers 5."""
    def edit(text):
        rope = text.pop("rope_parameters")
        text["rope_theta"] = rope.pop("rope_theta", theta)
        rope["type"] = rope.pop("rope_type")
        if rope["type"] != "default":
            text["rope_scaling"] = rope
    return edit


# ---- the fixtures ----

def llama(**kw):
    return T.LlamaConfig(**{**BASE, **kw})


ROPES = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 16, "short_factor": [1.0, 1.1, 1.5], "long_factor": [1.3, 2.0, 4.5]},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
}


def llama_fixtures():
    yield "llama", dict(config=llama(), classes=classes_of("Llama"), cases=("single", "right", "left", "given"))
    odd = llama(hidden_size=30, num_attention_heads=5, num_key_value_heads=1, head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                hidden_act="gelu", rms_norm_eps=1e-3, num_hidden_layers=1, eos_token_id=[2, 5])
    yield "llama_tied", dict(config=odd, classes=["LlamaForCausalLM"])
    # positions that halves do not hold, near ones among them
    yield "llama_far", dict(config=llama(num_hidden_layers=1, max_position_embeddings=16384), classes=["LlamaModel"], cases=("given",), positions=16384)
    yield "llama_sharded", dict(config=llama(num_key_value_heads=4), classes=["LlamaForCausalLM"], cases=("right",), dtype=torch.bfloat16, shards=3)
    for rope, how in ROPES.items():
        config = llama(num_hidden_layers=1, rope_parameters={"rope_theta": 500.0, **how})
        if rope == "dynamic":
            config.max_position_embeddings = 30  # shorter than the calls
        single = dict(classes=["LlamaForCausalLM"], cases=("single",), length=40)
        if rope in ("dynamic", "longrope"):  # short calls, long ones, and padding that makes them long
            yield f"llama_rope_{rope}", dict(config=config, classes=["LlamaForCausalLM"], cases=("single", "short", "right"), length=40)
        else:
            yield f"llama_rope_{rope}", dict(config=config, **single)
        if rope in ("llama3", "longrope"):
            yield f"llama_rope_{rope}_old", dict(config=config, config_edit=old_rope(500.0), **single)


def pad_fixtures():
    """By which token sequences are classified: padding on either side, padding tokens that the mask keeps, no padding token at all."""
    small = dict(hidden_size=16, num_hidden_layers=1, num_labels=3)
    yield "llama_pads", dict(config=llama(**small), classes=["LlamaForSequenceClassification"], cases=("single", "right", "left", "ends"))
    for stem, make_config in (("Llama", T.LlamaConfig), ("Gemma2", T.Gemma2Config)):  # the latter's class has a default
        config = make_config(**{**BASE, **small, "head_dim": 4, "pad_token_id": None})
        yield f"{stem.lower()}_no_pad", dict(config=config, classes=[f"{stem}ForSequenceClassification"], cases=("single",))
    gpt = T.GPT2Config(vocab_size=67, n_embd=16, n_layer=1, n_head=2, n_positions=40, num_labels=3, bos_token_id=1, eos_token_id=2)
    yield "gpt2_no_pad", dict(config=gpt, classes=["GPT2ForSequenceClassification"], cases=("single",))


def mistral_fixtures():
    sliding = T.MistralConfig(**{**BASE, "sliding_window": 5})
    yield "mistral", dict(config=sliding, classes=classes_of("Mistral"), length=14)
    full = T.MistralConfig(**{**BASE, "sliding_window": None, "head_dim": 10, "num_hidden_layers": 1, "hidden_act": "relu", "tie_word_embeddings": True})
    yield "mistral_full", dict(config=full, classes=["MistralForCausalLM"], cases=("right",), dtype=torch.bfloat16)


def qwen_fixtures():
    for stem, name in (("Qwen2", "qwen2"), ("Qwen3", "qwen3")):
        make_config = getattr(T, stem + "Config")
        kw = {"head_dim": 8} if stem == "Qwen3" else {}
        yield name, dict(config=make_config(**{**BASE, **kw, "hidden_size": 32}), classes=classes_of(stem))
        sliding = {**BASE, **kw, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1, "tie_word_embeddings": True, "num_key_value_heads": 4}
        if stem == "Qwen3":
            sliding["attention_bias"] = True
        yield f"{name}_sliding", dict(config=make_config(**sliding), classes=[f"{stem}ForCausalLM"], length=14, shards=2)


GEMMA = {**BASE, "head_dim": 8, "query_pre_attn_scalar": 11, "sliding_window": 5, "num_hidden_layers": 3, "eos_token_id": 1, "bos_token_id": 2}


def gemma3_old(text):
    rope = text.pop("rope_parameters")
    text.pop("layer_types")
    text.update(rope_theta=rope["full_attention"]["rope_theta"], rope_local_base_freq=rope["sliding_attention"]["rope_theta"], sliding_window_pattern=2,
                rope_scaling={"rope_type": "linear", "factor": 8.0})


def gemma_fixtures():
    first = {k: v for k, v in GEMMA.items() if k not in ("query_pre_attn_scalar", "sliding_window")}
    yield "gemma", dict(config=T.GemmaConfig(**{**first, "num_key_value_heads": 1}), classes=classes_of("Gemma", HEADS[:3]), length=14)
    small = {**GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}
    yield "gemma2", dict(config=T.Gemma2Config(**small), classes=classes_of("Gemma2", HEADS[:3]), length=14)
    plain = {**GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True, "tie_word_embeddings": False,
             "layer_types": ["full_attention", "sliding_attention"], "num_hidden_layers": 2}
    yield "gemma2_plain", dict(config=T.Gemma2Config(**plain), classes=["Gemma2ForCausalLM"], cases=("left",), length=14)
    classes = ["Gemma3ForCausalLM", "Gemma3TextModel", "Gemma3TextForSequenceClassification"]
    yield "gemma3", dict(config=T.Gemma3TextConfig(**GEMMA), classes=classes, length=14)
    ropes = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 30000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}
    old = T.Gemma3TextConfig(**{**GEMMA, "rope_parameters": ropes, "final_logit_softcapping": 3.0, "tie_word_embeddings": False,
                                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})
    yield "gemma3_old", dict(config=old, classes=["Gemma3ForCausalLM"], cases=("right",), length=20, config_edit=gemma3_old)
    both = T.Gemma3TextConfig(**{**GEMMA, "use_bidirectional_attention": True, "sliding_window": 6})
    yield "gemma3_both_ways", dict(config=both, classes=["Gemma3TextModel"], length=14)


def phi3_fixtures():
    yield "phi3", dict(config=T.Phi3Config(**{**BASE, "sliding_window": 6}), classes=classes_of("Phi3", HEADS[:3]), length=14)
    rope = {"rope_type": "longrope", "short_factor": [1.0, 1.2], "long_factor": [1.5, 3.0], "rope_theta": 500.0, "partial_rotary_factor": 0.5}
    long = T.Phi3Config(**{**BASE, "hidden_size": 32, "num_hidden_layers": 1, "original_max_position_embeddings": 16, "rope_parameters": rope,
                           "tie_word_embeddings": True, "hidden_act": "gelu_10"})
    yield "phi3_long", dict(config=long, classes=["Phi3ForCausalLM"], cases=("single", "short"), length=30)
    yield "phi3_long_old", dict(config=long, classes=["Phi3ForCausalLM"], cases=("single",), length=30, config_edit=old_rope(500.0))


def split_experts(gate, up, down, block="mlp"):
    """Each expert's matrices by themselves, as published checkpoints have them; transformers joins them when it loads."""
    def after(directory):
        path = directory / "model.safetensors"
        tensors = {k.replace(".mlp.gate.", f".{block}.gate."): v for k, v in common.load_file(path).items()}
        for key in [k for k in tensors if k.endswith("experts.gate_up_proj")]:
            stem = key.removesuffix("gate_up_proj")
            both, out = tensors.pop(key), tensors.pop(stem + "down_proj")
            for i in range(both.shape[0]):
                parts = zip((gate, up, down), (*both[i].chunk(2), out[i]))
                tensors.update({f"{stem.replace('.mlp.', f'.{block}.')}{i}.{name}.weight": v.clone().contiguous() for name, v in parts})
        save_file(tensors, path, metadata={"format": "pt"})
    return after


def moe_fixtures():
    yield "mixtral", dict(config=T.MixtralConfig(**{**BASE, "num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": None}), classes=["MixtralForCausalLM", "MixtralModel"])
    qwen = {**BASE, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 11}
    two = T.Qwen2MoeConfig(**{**qwen, "shared_expert_intermediate_size": 13, "num_hidden_layers": 3, "mlp_only_layers": [1]})
    yield "qwen2_moe", dict(config=two, classes=["Qwen2MoeForCausalLM", "Qwen2MoeForSequenceClassification"])
    three = T.Qwen3MoeConfig(**{**qwen, "head_dim": 8, "norm_topk_prob": True, "decoder_sparse_step": 2})
    yield "qwen3_moe", dict(config=three, classes=["Qwen3MoeForCausalLM", "Qwen3MoeModel"], after=split_experts("gate_proj", "up_proj", "down_proj"))
    old = T.MixtralConfig(**{**BASE, "num_local_experts": 4, "num_hidden_layers": 1, "sliding_window": 6})
    yield "mixtral_w123", dict(config=old, classes=["MixtralForCausalLM"], cases=("right",), after=split_experts("w1", "w3", "w2", "block_sparse_moe"))


def gpt_fixtures():
    small = dict(vocab_size=67, n_embd=24, n_layer=2, n_head=3, n_positions=40, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    classes = ["GPT2LMHeadModel", "GPT2Model"] + [f"GPT2For{h}" for h in HEADS[1:]]
    yield "gpt2", dict(config=T.GPT2Config(**small), classes=classes, cases=("single", "right", "left", "given", "types"))
    odd = T.GPT2Config(**{**small, "n_layer": 3, "n_inner": 31, "activation_function": "relu", "scale_attn_by_inverse_layer_idx": True,
                          "tie_word_embeddings": False, "layer_norm_epsilon": 1e-3})
    yield "gpt2_odd", dict(config=odd, classes=["GPT2LMHeadModel"], cases=("right",), dtype=torch.float16,
                           rename=lambda k: k.removeprefix("transformer."))
    neox = {k: v for k, v in BASE.items() if k != "num_key_value_heads"}
    heads = ["GPTNeoXForCausalLM", "GPTNeoXModel"] + [f"GPTNeoXFor{h}" for h in HEADS[1:]]
    rope = {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}
    yield "gpt_neox", dict(config=T.GPTNeoXConfig(**{**neox, "hidden_size": 32, "rope_parameters": rope}), classes=heads)

    def neox_old(text):
        text.pop("rope_parameters")
        text.update(rotary_pct=0.5, rotary_emb_base=500)

    other = T.GPTNeoXConfig(**{**neox, "hidden_size": 32, "rope_parameters": rope, "use_parallel_residual": False, "attention_bias": False,
                               "num_hidden_layers": 1, "hidden_act": "gelu_fast"})
    yield "gpt_neox_old", dict(config=other, classes=["GPTNeoXForCausalLM"], cases=("right",), config_edit=neox_old,
                               rename=lambda k: k.replace("lm_head", "embed_out"))
    opt = dict(vocab_size=67, hidden_size=24, num_hidden_layers=2, ffn_dim=37, num_attention_heads=3, max_position_embeddings=40, word_embed_proj_dim=24,
               bos_token_id=1, eos_token_id=2, pad_token_id=0)
    yield "opt", dict(config=T.OPTConfig(**opt), classes=["OPTForCausalLM", "OPTModel", "OPTForSequenceClassification", "OPTForQuestionAnswering"],
                      cases=("single", "right", "left", "given"))
    after = T.OPTConfig(**{**opt, "do_layer_norm_before": False, "word_embed_proj_dim": 14, "enable_bias": False, "num_hidden_layers": 1})
    yield "opt_post_norm", dict(config=after, classes=["OPTForCausalLM", "OPTForSequenceClassification"], cases=("right",))
    plain = T.OPTConfig(**{**opt, "layer_norm_elementwise_affine": False, "num_hidden_layers": 1, "activation_function": "gelu"})
    yield "opt_plain_norm", dict(config=plain, classes=["OPTForCausalLM"], cases=("left",))
    bloom = dict(vocab_size=67, hidden_size=24, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    yield "bloom", dict(config=T.BloomConfig(**bloom), classes=classes_of("Bloom"))
    yield "bloom_heads", dict(config=T.BloomConfig(**{**bloom, "n_head": 6, "apply_residual_connection_post_layernorm": True, "n_layer": 1,
                                                      "tie_word_embeddings": False}), classes=["BloomForCausalLM"], cases=("right",))
    falcon = dict(vocab_size=67, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    yield "falcon", dict(config=T.FalconConfig(**falcon), classes=classes_of("Falcon"))
    yield "falcon_new", dict(config=T.FalconConfig(**{**falcon, "new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 41}),
                             classes=["FalconForCausalLM"], cases=("right",))
    yield "falcon_one_norm", dict(config=T.FalconConfig(**{**falcon, "new_decoder_architecture": True, "num_kv_heads": 4, "num_ln_in_parallel_attn": 1,
                                                           "num_hidden_layers": 1, "bias": True}), classes=["FalconForCausalLM"], cases=("left",))
    yield "falcon_sequential", dict(config=T.FalconConfig(**{**falcon, "multi_query": False, "parallel_attn": False, "num_hidden_layers": 1, "bias": True}),
                                    classes=["FalconForCausalLM"], cases=("right",))
    # eager adds ALiBi twice in transformers 5.23; sdpa, the default, once
    yield "falcon_alibi", dict(config=T.FalconConfig(**{**falcon, "alibi": True, "multi_query": False, "parallel_attn": False}), classes=["FalconForCausalLM"],
                               cases=("single", "right"), attention="sdpa")


# Decoders that differ from LLaMA or GPT-2 by a few switches, one fixture for each way to turn them.  Heads are the same code for all: each kind of head is here
# for some families, all of them for SmolLM3.
FORWARD = ("right", "left")


def olmo_fixtures():
    no_eps = {**BASE, "num_key_value_heads": 4}
    yield "olmo", dict(config=T.OlmoConfig(**no_eps, clip_qkv=0.4), classes=["OlmoForCausalLM"], cases=FORWARD)
    two = {**BASE, "rms_norm_eps": 1e-3, "attention_bias": True, "tie_word_embeddings": True}
    yield "olmo2", dict(config=T.Olmo2Config(**two), classes=classes_of("Olmo2", HEADS[:2]), cases=FORWARD)
    three = {**BASE, "num_hidden_layers": 4, "sliding_window": 5, "head_dim": 8, "rope_parameters": {
        # transformers reads truncate beside the layer types, so that this one says nothing
        "full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 1.2, "rope_theta": 700.0, "truncate": False},
        "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}}
    yield "olmo3", dict(config=T.Olmo3Config(**three), classes=["Olmo3ForCausalLM"], cases=FORWARD, length=14)

    def old(text):  # rope_theta and rope_scaling of full layers; transformers 5.23 turns sliding ones by the default theta
        rope = text.pop("rope_parameters")["full_attention"]
        text.update(rope_theta=rope.pop("rope_theta"), rope_scaling=rope)
        text.pop("layer_types")

    yield "olmo3_old", dict(config=T.Olmo3Config(**{**three, "sliding_window": 4}), classes=["Olmo3ForCausalLM"], cases=("right",), length=14, config_edit=old)


def granite_fixtures():
    factors = dict(embedding_multiplier=5.0, logits_scaling=3.0, residual_multiplier=0.4, attention_multiplier=0.3)
    yield "granite", dict(config=T.GraniteConfig(**BASE, **factors, tie_word_embeddings=True), classes=["GraniteForCausalLM"], cases=FORWARD)
    plain = T.GraniteConfig(**BASE, attention_bias=True, mlp_bias=True)  # all factors are 1
    yield "granite_plain", dict(config=plain, classes=["GraniteForCausalLM"], cases=("right",))


def smollm3_fixtures():
    yield "smollm3", dict(config=T.SmolLM3Config(**BASE, no_rope_layer_interval=2), classes=classes_of("SmolLM3"), cases=FORWARD)
    odd = T.SmolLM3Config(**{**BASE, "num_hidden_layers": 3}, no_rope_layers=[0, 1, 0], use_sliding_window=True, sliding_window=4, attention_bias=True,
                          mlp_bias=True, tie_word_embeddings=False)
    yield "smollm3_sliding", dict(config=odd, classes=["SmolLM3ForCausalLM"], cases=("left",), length=14)


def cohere_fixtures():
    yield "cohere", dict(config=T.CohereConfig(**BASE, logit_scale=0.7, layer_norm_eps=1e-3), classes=classes_of("Cohere", HEADS[:1]), cases=FORWARD)
    plus = T.CohereConfig(**BASE, use_qk_norm=True, attention_bias=True, tie_word_embeddings=False)
    yield "cohere_plus", dict(config=plus, classes=["CohereForCausalLM"], cases=("right",))
    two = {**BASE, "num_hidden_layers": 4, "sliding_window": 5, "logit_scale": 0.7}
    yield "cohere2", dict(config=T.Cohere2Config(**two), classes=["Cohere2ForCausalLM"], cases=FORWARD, length=14)

    def old(text):
        text.pop("layer_types")
        text["sliding_window_pattern"] = 2

    yield "cohere2_old", dict(config=T.Cohere2Config(**{**two, "num_hidden_layers": 3, "attention_bias": True}), classes=["Cohere2ForCausalLM"], cases=("right",),
                              length=14, config_edit=old)


def glm_fixtures():
    small = {**BASE, "head_dim": 8, "num_key_value_heads": 1}
    yield "glm", dict(config=T.GlmConfig(**small), classes=["GlmForCausalLM", "GlmForSequenceClassification"], cases=FORWARD)
    yield "glm4", dict(config=T.Glm4Config(**{**small, "rms_norm_eps": 1e-5}), classes=["Glm4ForCausalLM", "Glm4ForTokenClassification"], cases=FORWARD)
    odd = T.Glm4Config(**{**small, "num_hidden_layers": 1, "attention_bias": False, "partial_rotary_factor": 1.0, "tie_word_embeddings": True})
    yield "glm4_whole", dict(config=odd, classes=["Glm4ForCausalLM"], cases=("right",))


def ministral_fixtures():
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    mixed = T.MinistralConfig(**{**BASE, "num_hidden_layers": 3, "head_dim": 8, "sliding_window": 5, "layer_types": types})
    yield "ministral", dict(config=mixed, classes=["MinistralForCausalLM", "MinistralForQuestionAnswering"], cases=FORWARD, length=14)
    rope = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 16.0, "original_max_position_embeddings": 5, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
    three = T.Ministral3Config(**{**BASE, "head_dim": 8, "rope_parameters": rope})
    yield "ministral3", dict(config=three, classes=["Ministral3ForCausalLM", "Ministral3ForQuestionAnswering"], cases=FORWARD + ("given",), length=17)

    # Mistral 3 without its pictures; names as published, and as transformers 5 writes them
    seen = dict(model_type="pixtral", hidden_size=8, intermediate_size=9, num_hidden_layers=1, num_attention_heads=2, head_dim=4, image_size=8, patch_size=4)
    for name, text in (("mistral3", {"model_type": "mistral", **BASE, "head_dim": 8, "sliding_window": None, "tie_word_embeddings": False}),
                       ("mistral3_new_names", {"model_type": "ministral3", **BASE, "head_dim": 8, "rope_parameters": rope})):
        def published(key):
            return key.replace("model.language_model.", "language_model.model.").replace("lm_head.", "language_model.lm_head.")

        config = T.Mistral3Config(text_config=text, vision_config=seen, image_token_index=66, tie_word_embeddings=name != "mistral3")
        yield name, dict(config=config, classes=["Mistral3ForConditionalGeneration"], cases=FORWARD if name == "mistral3" else ("right",), length=14,
                         rename=published if name == "mistral3" else None)

    def silent(text):
        text.pop("rope_parameters")

    short = T.Ministral3Config(**{**BASE, "head_dim": 8, "num_hidden_layers": 1, "sliding_window": 6, "tie_word_embeddings": True})
    yield "ministral3_silent", dict(config=short, classes=["Ministral3ForCausalLM"], cases=("right",), length=14, config_edit=silent)


def internlm3_fixtures():
    """transformers has the config and runs it as LLaMA; the class has its published name here."""
    def make_internlm3(name, config, **how):
        lines = make(name, config, ["LlamaForCausalLM"], **how)
        path = ROOT / name / "config.json"
        text = json.loads(path.read_text())
        text["architectures"] = ["InternLM3ForCausalLM"]
        text["qkv_bias"], text["bias"] = text.pop("attention_bias"), text.pop("mlp_bias")
        path.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
        for path in (ROOT / name).glob("golden.Llama*"):
            path.rename(path.with_name(path.name.replace("Llama", "InternLM3")))
        return [line.replace("LlamaFor", "InternLM3For") for line in lines]

    config = T.InternLM3Config(**{**BASE, "head_dim": 8, "attention_bias": True, "mlp_bias": True})
    yield "internlm3", dict(config=config, cases=FORWARD, make=make_internlm3)


def stablelm_fixtures():
    yield "stablelm", dict(config=T.StableLmConfig(**{**BASE, "hidden_size": 32, "partial_rotary_factor": 0.25}, use_qkv_bias=True),
                           classes=["StableLmForCausalLM", "StableLmForTokenClassification"], cases=FORWARD)
    both = T.StableLmConfig(**{**BASE, "hidden_size": 32, "partial_rotary_factor": 0.5}, qk_layernorm=True, use_parallel_residual=True, layer_norm_eps=1e-3,
                            tie_word_embeddings=True)
    yield "stablelm_parallel", dict(config=both, classes=["StableLmForCausalLM"], cases=("right",))


def starcoder2_fixtures():
    yield "starcoder2", dict(config=T.Starcoder2Config(**BASE, sliding_window=5), classes=["Starcoder2ForCausalLM", "Starcoder2ForTokenClassification"], cases=FORWARD, length=14)
    odd = T.Starcoder2Config(**BASE, use_bias=False, tie_word_embeddings=False, norm_epsilon=1e-3)
    yield "starcoder2_plain", dict(config=odd, classes=["Starcoder2ForCausalLM"], cases=("right",))


def phi_fixtures():
    yield "phi", dict(config=T.PhiConfig(**{**BASE, "hidden_size": 32}), classes=["PhiForCausalLM", "PhiForSequenceClassification"], cases=FORWARD)
    odd = T.PhiConfig(**{**BASE, "hidden_size": 32, "partial_rotary_factor": 0.25, "num_key_value_heads": None}, qk_layernorm=True, layer_norm_eps=1e-3)
    yield "phi_norms", dict(config=odd, classes=["PhiForCausalLM"], cases=("right",))


def old_gpt_fixtures():
    small = dict(vocab_size=67, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    gptj = T.GPTJConfig(**small, n_embd=32, n_layer=2, n_head=4, n_positions=40, rotary_dim=4)
    yield "gptj", dict(config=gptj, classes=["GPTJForCausalLM", "GPTJForQuestionAnswering"], cases=FORWARD + ("types",))
    odd = T.GPTJConfig(**small, n_embd=24, n_layer=1, n_head=3, n_positions=40, rotary_dim=8, n_inner=31, activation_function="relu", tie_word_embeddings=True)
    yield "gptj_tied", dict(config=odd, classes=["GPTJForCausalLM"], cases=("right",))
    neo = T.GPTNeoConfig(**small, hidden_size=24, num_layers=3, num_heads=3, max_position_embeddings=64, window_size=5,
                         attention_types=[[["global", "local"], 1], [["local"], 1]])
    yield "gpt_neo", dict(config=neo, classes=classes_of("GPTNeo"), cases=FORWARD + ("types",), length=14)
    odd = T.GPTNeoConfig(**small, hidden_size=24, num_layers=2, num_heads=4, max_position_embeddings=40, window_size=3, attention_types=[[["local"], 2]],
                         intermediate_size=31, tie_word_embeddings=False, activation_function="gelu")
    yield "gpt_neo_local", dict(config=odd, classes=["GPTNeoForCausalLM"], cases=("right",))
    mpt = T.MptConfig(**small, d_model=24, n_heads=6, n_layers=2, max_seq_len=64)
    yield "mpt", dict(config=mpt, classes=["MptForCausalLM", "MptForTokenClassification", "MptForQuestionAnswering"], cases=FORWARD)
    odd = T.MptConfig(**small, d_model=24, n_heads=4, n_layers=1, max_seq_len=64, layer_norm_epsilon=1e-3, tie_word_embeddings=False,
                      attn_config={"clip_qkv": 0.4, "softmax_scale": 0.3})
    yield "mpt_clip", dict(config=odd, classes=["MptForCausalLM"], cases=("right",))


def granite_moe_fixtures():
    small = {**BASE, "num_local_experts": 5, "num_experts_per_tok": 2, "embedding_multiplier": 3.0, "logits_scaling": 2.0, "residual_multiplier": 0.6,
             "attention_multiplier": 0.3, "intermediate_size": 11}

    def published(key):
        for new, old in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"), ("router.weight", "router.layer.weight")):
            key = key.replace("block_sparse_moe." + new, "block_sparse_moe." + old)
        return key

    yield "granitemoe", dict(config=T.GraniteMoeConfig(**small), classes=["GraniteMoeForCausalLM"], cases=FORWARD, rename=published)
    shared = T.GraniteMoeSharedConfig(**small, shared_intermediate_size=13, attention_bias=True, tie_word_embeddings=True)
    yield "granitemoeshared", dict(config=shared, classes=["GraniteMoeSharedForCausalLM"], cases=("right",))


E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def mxfp4(w):
    """[E, N, K] as gpt-oss has its experts: blocks U8 [E, N, K/32, 16], low nibble first, scales E8M0 U8 [E, N, K/32]; and what they mean."""
    groups = w.float().unflatten(-1, (-1, 32))
    power = torch.floor(torch.log2(groups.abs().amax(-1, keepdim=True))) - 2
    codes = (groups / 2 ** power).unsqueeze(-1).sub(E2M1).abs().argmin(-1)
    full = (E2M1[codes] * 2 ** power).flatten(-2)
    return (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8), (power.squeeze(-1) + 127).to(torch.uint8), full


def make_mxfp4(name, config, classes, **how):
    """Goldens from the numbers, then the codes in their place."""
    codes = {}

    def round_experts(directory):
        path = directory / "model.safetensors"
        tensors = common.load_file(path)
        for key in [k for k in tensors if k.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            codes[key + "_blocks"], codes[key + "_scales"], full = mxfp4(tensors[key].transpose(1, 2))
            tensors[key] = full.transpose(1, 2).to(tensors[key].dtype).contiguous()
        save_file(tensors, path, metadata={"format": "pt"})

    lines = make(name, config, classes, after=round_experts, **how)
    path = ROOT / name / "model.safetensors"
    tensors = {k: v for k, v in common.load_file(path).items() if k + "_blocks" not in codes}
    save_file({**tensors, **{k: v.contiguous() for k, v in codes.items()}}, path, metadata={"format": "pt"})
    path = ROOT / name / "config.json"
    text = json.loads(path.read_text())
    text["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                       "model.embed_tokens", "lm_head"]}
    path.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    return lines


def gpt_oss_fixtures():
    rope = {"rope_type": "yarn", "rope_theta": 900.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 16}
    small = {**BASE, "head_dim": 8, "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 11, "sliding_window": 5, "rope_parameters": rope}
    yield "gpt_oss", dict(config=T.GptOssConfig(**small), classes=["GptOssForCausalLM", "GptOssForSequenceClassification"], cases=FORWARD, length=14, dtype=torch.bfloat16)

    def silent(text):
        text.pop("rope_parameters")
        text.pop("layer_types")

    odd = {**small, "attention_bias": False, "tie_word_embeddings": True, "swiglu_limit": 0.5, "swiglu_alpha": 1.1, "rope_parameters": None}
    yield "gpt_oss_silent", dict(config=T.GptOssConfig(**odd), classes=["GptOssForCausalLM"], cases=("right",), length=14, config_edit=silent)
    codes = {**small, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_local_experts": 4}
    yield "gpt_oss_mxfp4", dict(config=T.GptOssConfig(**codes), classes=["GptOssForCausalLM"], cases=FORWARD, length=14, dtype=torch.bfloat16, make=make_mxfp4)


def seq2seq_inputs(config, case, length, positions):
    """Both sides; the decoder's is shorter.  shifted: no decoder ids, and an eos token in every row for the classifiers."""
    inputs = make_inputs(config, "right" if case == "shifted" else case, length, positions)
    if case == "shifted":
        for row, kept in enumerate(inputs["attention_mask"].sum(1)):
            inputs["input_ids"][row, kept - 1] = config.eos_token_id
        return inputs
    rows = inputs["input_ids"].shape[0]
    inputs["decoder_input_ids"] = torch.randint(3, getattr(config, "decoder_vocab_size", config.vocab_size), (rows, length - 4))
    inputs["decoder_input_ids"][:, 0] = config.decoder_start_token_id
    if case == "right":  # and padding on the decoder's side
        inputs["decoder_attention_mask"] = torch.ones(rows, length - 4, dtype=torch.long)
        inputs["decoder_attention_mask"][1, -2:] = 0
    return inputs


def seq2seq_masks(inputs, fields):
    """mask.<field> for outputs of the decoder's side where it is padded."""
    mask = inputs.get("decoder_attention_mask")
    if mask is None:
        return {}
    return {f"mask.{k[4:]}": mask for k, v in fields.items() if v.dim() > 1 and v.shape[1] == mask.shape[1]}


def make_seq2seq(name, config, classes, length=11, cases=("single", "right", "left"), after=None, **how):
    directory = ROOT / name
    common.write_model(directory, config, classes, **how)
    if after is not None:
        after(directory)
    lines = []
    for cls in classes:
        model = load(directory, cls)
        shifts = cls.endswith(("SequenceClassification", "QuestionAnswering"))
        one_side = cls.endswith(("EncoderModel", "TokenClassification"))
        for case in cases if cls == classes[0] else ("shifted",) if shifts else ("right",):
            inputs = (make_inputs if one_side else seq2seq_inputs)(config, case, length, 40)
            hidden = cls == classes[0] and case == "right"
            fields = run(model, inputs, hidden)
            masks = seq2seq_masks(inputs, fields)
            lines.append(write_golden(directory, cls, case, inputs, {**fields, **masks}, {"output_hidden_states": True} if hidden else {}))
    return lines


def t5_fixtures():
    small = dict(vocab_size=43, d_model=20, d_kv=6, d_ff=29, num_layers=2, num_decoder_layers=3, num_heads=3, relative_attention_num_buckets=8,
                 relative_attention_max_distance=10, decoder_start_token_id=0)
    classes = ["T5ForConditionalGeneration", "T5Model", "T5EncoderModel", "T5ForSequenceClassification", "T5ForTokenClassification", "T5ForQuestionAnswering"]
    yield "t5", dict(config=T.T5Config(**small), classes=classes, length=14, make=make_seq2seq)
    gated = T.T5Config(**{**small, "feed_forward_proj": "gated-gelu", "num_decoder_layers": 1, "tie_word_embeddings": False})

    def own_head(directory):
        path = directory / "model.safetensors"
        tensors = common.load_file(path)
        common.seed("own head")
        tensors["lm_head.weight"] = torch.randn(43, 20)
        save_file(tensors, path, metadata={"format": "pt"})

    def untied(text):
        text["tie_word_embeddings"] = False

    yield "t5_gated", dict(config=gated, classes=["T5ForConditionalGeneration"], cases=("right",), dtype=torch.bfloat16, config_edit=untied,
                           after=own_head, make=make_seq2seq)
    mt5 = T.MT5Config(**{**small, "num_layers": 1, "num_decoder_layers": None, "feed_forward_proj": "gated-silu"})
    yield "mt5", dict(config=mt5, classes=["MT5ForConditionalGeneration", "MT5EncoderModel"], cases=("right",), make=make_seq2seq)


def bart_fixtures():
    small = dict(vocab_size=43, d_model=18, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=25, decoder_ffn_dim=23, encoder_attention_heads=3,
                 decoder_attention_heads=2, max_position_embeddings=30, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
    heads = ["ForConditionalGeneration", "Model", "ForSequenceClassification", "ForQuestionAnswering"]

    def logits_bias(directory):
        path = directory / "model.safetensors"
        tensors = common.load_file(path)
        common.seed("final_logits_bias")
        tensors["final_logits_bias"] = torch.randn(1, 43)
        save_file(tensors, path, metadata={"format": "pt"})

    yield "bart", dict(config=T.BartConfig(**small), classes=["Bart" + h for h in heads], after=logits_bias, make=make_seq2seq)
    yield "mbart", dict(config=T.MBartConfig(**{**small, "scale_embedding": True, "num_labels": 2}), classes=["MBart" + h for h in heads], cases=("right", "left"),
                        make=make_seq2seq)
    marian = {**small, "pad_token_id": 42, "decoder_start_token_id": 42, "eos_token_id": 0, "scale_embedding": True, "activation_function": "swish"}
    yield "marian", dict(config=T.MarianConfig(**marian), classes=["MarianMTModel", "MarianModel"], cases=("right",), make=make_seq2seq)
    apart = T.MarianConfig(**{**marian, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 39, "decoder_start_token_id": 38, "pad_token_id": 38, "encoder_layers": 1,
                              "decoder_layers": 1})
    yield "marian_apart", dict(config=apart, classes=["MarianMTModel"], cases=("single",), make=make_seq2seq)
    many = T.M2M100Config(**{**small, "d_model": 21, "decoder_attention_heads": 3, "activation_function": "relu"})
    yield "m2m_100", dict(config=many, classes=["M2M100ForConditionalGeneration", "M2M100Model"], cases=("right", "left"), make=make_seq2seq)
    apart = T.M2M100Config(**{**small, "tie_word_embeddings": False, "max_position_embeddings": 40, "encoder_layers": 1, "decoder_layers": 1})  # three tables and a head of its own
    yield "m2m_100_untied", dict(config=apart, classes=["M2M100ForConditionalGeneration"], cases=("right",), make=make_seq2seq)
    pegasus = {**small, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1, "activation_function": "relu"}
    yield "pegasus", dict(config=T.PegasusConfig(**pegasus), classes=["PegasusForConditionalGeneration", "PegasusModel"], cases=("right",), make=make_seq2seq,
                          drop=("embed_positions",))


def mamba_fixtures():
    small = dict(vocab_size=43, hidden_size=20, state_size=5, num_hidden_layers=2, conv_kernel=4, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    yield "mamba", dict(config=T.MambaConfig(**small), classes=["MambaForCausalLM", "MambaModel"])
    odd = T.MambaConfig(**{**small, "conv_kernel": 3, "expand": 3, "time_step_rank": 5, "use_bias": True, "use_conv_bias": False, "num_hidden_layers": 1,
                           "tie_word_embeddings": False})
    yield "mamba_odd", dict(config=odd, classes=["MambaForCausalLM"], cases=("right",), dtype=torch.bfloat16)
    gelu = T.MambaConfig(**{**small, "hidden_act": "gelu", "num_hidden_layers": 1})  # of the convolution; the gate is silu all the same
    yield "mamba_gelu", dict(config=gelu, classes=["MambaForCausalLM"], cases=("right",))
    two = T.Mamba2Config(**{**small, "num_heads": 4, "head_dim": 10, "n_groups": 2, "chunk_size": 4})
    yield "mamba2", dict(config=two, classes=["Mamba2ForCausalLM", "Mamba2Model"])
    limited = T.Mamba2Config(**{**small, "num_heads": 5, "head_dim": 8, "n_groups": 1, "time_step_limit": (0.2, 0.9), "use_bias": True, "num_hidden_layers": 1,
                                "tie_word_embeddings": True})
    yield "mamba2_limits", dict(config=limited, classes=["Mamba2ForCausalLM"], cases=("single",))


def delta_fixtures():
    """Gated DeltaNet: states that fade slowly, and texts longer than the chunks of the rule (64 in transformers).  The eps of norms is large, as what
    the rule gives may be next to nothing, which its norm magnifies, and roundings with it."""
    def fades(*more):
        def after(directory):
            path = directory / "model.safetensors"
            tensors = common.load_file(path)
            for key, value in tensors.items():
                common.seed(key)
                if key.endswith("A_log"):
                    tensors[key] = torch.log(0.01 + 1.5 * torch.rand(value.shape)).to(value.dtype)
                elif key.endswith("norm.weight") and not key.endswith("linear_attn.norm.weight"):
                    tensors[key] = value - 1.0  # these are added to 1
            save_file(tensors, path, metadata={"format": "pt"})
            for step in more:
                step(directory)
        return after

    delta = {**BASE, "num_hidden_layers": 4, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6,
             "linear_value_head_dim": 5, "rms_norm_eps": 1e-2}
    moe = {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 11, "shared_expert_intermediate_size": 13}
    split = split_experts("gate_proj", "up_proj", "down_proj")
    yield "qwen3_next", dict(config=T.Qwen3NextConfig(**delta, **moe, decoder_sparse_step=2), classes=classes_of("Qwen3Next", HEADS[:3]), length=13, after=fades(split))
    types = ["full_attention", "linear_attention", "linear_attention"]
    odd = T.Qwen3NextConfig(**{**delta, **moe, "num_hidden_layers": 3, "layer_types": types, "linear_num_key_heads": 3, "linear_num_value_heads": 3,
                               "linear_key_head_dim": 9, "linear_value_head_dim": 7, "linear_conv_kernel_dim": 3, "mlp_only_layers": [1], "norm_topk_prob": False,
                               "attention_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu", "rms_norm_eps": 5e-3, "max_position_embeddings": 200,
                               "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}})
    yield "qwen3_next_odd", dict(config=odd, classes=["Qwen3NextForCausalLM", "Qwen3NextForQuestionAnswering"], cases=("single",), length=141, dtype=torch.bfloat16, after=fades())
    wide = T.Qwen3NextConfig(**{**delta, **moe, "num_hidden_layers": 2, "full_attention_interval": 2, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
                                "linear_key_head_dim": 35, "linear_value_head_dim": 18, "max_position_embeddings": 200})  # keys as wide as kernels of tiles want
    yield "qwen3_next_wide", dict(config=wide, classes=["Qwen3NextForCausalLM"], cases=("single", "left"), length=141, dtype=torch.bfloat16, after=fades())
    text = T.Qwen3_5TextConfig(**{**delta, "full_attention_interval": 2, "num_hidden_layers": 3, "max_position_embeddings": 100})
    yield "qwen3_5_text", dict(config=text, classes=["Qwen3_5ForCausalLM", "Qwen3_5TextForSequenceClassification"], cases=("single", "left"), length=75, after=fades())
    seen = dict(depth=1, hidden_size=8, intermediate_size=9, num_heads=2, patch_size=2, out_hidden_size=24, num_position_embeddings=4)
    ids = dict(image_token_id=63, video_token_id=64, vision_start_token_id=65, vision_end_token_id=66)
    whole = T.Qwen3_5Config(text_config={**delta, "num_hidden_layers": 2, "full_attention_interval": 2, "tie_word_embeddings": True}, vision_config=seen, num_labels=3, tie_word_embeddings=True, **ids)
    heads = ["ForConditionalGeneration", "Model", "ForSequenceClassification", "ForTokenClassification"]
    yield "qwen3_5", dict(config=whole, classes=["Qwen3_5" + h for h in heads], also=["Qwen3_5ForCausalLM"], length=19, after=fades())
    experts = T.Qwen3_5MoeConfig(text_config={**delta, **moe, "num_hidden_layers": 2, "full_attention_interval": 2}, vision_config=seen, **ids)
    yield "qwen3_5_moe", dict(config=experts, classes=["Qwen3_5MoeForConditionalGeneration"], also=["Qwen3_5MoeForCausalLM"], cases=FORWARD, length=17, after=fades())


GROUPS = (llama_fixtures, pad_fixtures, mistral_fixtures, qwen_fixtures, gemma_fixtures, phi3_fixtures, moe_fixtures, gpt_fixtures,
          granite_moe_fixtures, gpt_oss_fixtures, olmo_fixtures, granite_fixtures, smollm3_fixtures, cohere_fixtures, glm_fixtures, ministral_fixtures, internlm3_fixtures, stablelm_fixtures,
          starcoder2_fixtures, phi_fixtures, old_gpt_fixtures, t5_fixtures, bart_fixtures, mamba_fixtures, delta_fixtures)


def main(wanted):
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    listing = ROOT / "goldens.list"
    lines = listing.read_text().splitlines()
    for group in GROUPS:
        for name, how in group():
            if wanted and name not in wanted:
                continue
            lines = [l for l in lines if l.split()[0] != name] + how.pop("make", make)(name, **how)
            listing.write_text("\n".join(sorted(lines)) + "\n")
            print(name, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
