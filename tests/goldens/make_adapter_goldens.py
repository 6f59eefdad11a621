#!/usr/bin/env python3
"""Makes tests/fixtures/adapters: LoRA adapters that PEFT saved, for the tiny models of tests/fixtures/models, and what PEFT computes with them
(fp32, eager, CPU, the adapter beside the base and, but for Whisper, not merged).

    pip install peft==0.21.2 beside requirements.txt
    python3 tests/goldens/make_adapter_goldens.py [name ...]      only the named fixtures

One directory an adapter: adapter_config.json, adapter_model.safetensors as save_pretrained writes them, golden.safetensors with the inputs of one
golden of the base model.  goldens.list: model, adapters (DIRECTORY:SCALE, joined by commas), golden, class.  A line with several adapters is what
merging one after the other gives.
"""
import json
import os
import pathlib
import shutil
import sys
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import peft
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

MODELS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "models"
ROOT = MODELS.parent / "adapters"
KEPT = ("logits", "last_hidden_state", "pooler_output", "encoder_last_hidden_state")

# name: model, class, case of its golden (None: what it says, expected.json, in its place), fields of LoraConfig
ADAPTERS = {
    "llama_plain": ("llama", "LlamaForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "llama_all_linear": ("llama", "LlamaForCausalLM", "right", dict(r=3, lora_alpha=5, target_modules="all-linear", use_rslora=True,
                                                                   exclude_modules=["down_proj"])),
    "llama_patterns": ("llama", "LlamaForCausalLM", "left", dict(
        r=4, lora_alpha=6, target_modules=r".*\.mlp\.(gate|up|down)_proj", rank_pattern={"gate_proj": 2, "^model.layers.1.mlp.up_proj": 5},
        alpha_pattern={r"layers\.0\.mlp\.down_proj": 3, "mlp.gate_proj": 7})),
    "llama_layers": ("llama", "LlamaForCausalLM", "right", dict(r=2, lora_alpha=4, target_modules=["q_proj", "k_proj", "o_proj"], layers_to_transform=[1])),
    "llama_dora": ("llama", "LlamaForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["k_proj", "up_proj"], use_dora=True)),
    "llama_tables": ("llama", "LlamaForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "lm_head", "o_proj"])),
    "llama_saved": ("llama_tied", "LlamaForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])),
    "llama_scores": ("llama", "LlamaForSequenceClassification", "right", dict(r=4, lora_alpha=8, target_modules=["v_proj"], task_type="SEQ_CLS")),
    "phi3_fused": ("phi3", "Phi3ForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "gate_up_proj"])),
    "gpt_neox_fused": ("gpt_neox", "GPTNeoXForCausalLM", "right", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense_4h_to_h"])),
    "gpt2_conv1d": ("gpt2", "GPT2LMHeadModel", "right", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "gpt2_dora": ("gpt2", "GPT2LMHeadModel", "right", dict(r=3, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, use_dora=True)),
    "bert_bias": ("bert", "BertModel", "right", dict(r=4, lora_alpha=8, target_modules=["query", "value"], bias="all")),
    "bert_lora_bias": ("bert", "BertModel", "right", dict(r=4, lora_alpha=8, target_modules=["query", "dense"], lora_bias=True)),
    "bert_classes": ("bert", "BertForSequenceClassification", "right", dict(r=4, lora_alpha=8, target_modules=["key"], task_type="SEQ_CLS", bias="lora_only")),
    "bert_table_dora": ("bert", "BertModel", "right", dict(r=4, lora_alpha=8, target_modules=["word_embeddings", "key"], use_dora=True)),
    "t5_plain": ("t5", "T5ForConditionalGeneration", "right", dict(r=4, lora_alpha=8, target_modules=["q", "v", "wi", "wo"])),
    "text_attention": ("../pipelines/text", "LlamaForCausalLM", None, dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "text_all_linear": ("../pipelines/text", "LlamaForCausalLM", None, dict(r=2, lora_alpha=4, target_modules="all-linear")),
    "whisper_convolutions": ("whisper", "WhisperForConditionalGeneration", "plain", dict(r=4, lora_alpha=8, target_modules=["conv1", "conv2", "q_proj", "fc1"])),
}
# several at once: model, class, case, adapters with their scales
MERGED = {
    "llama_two": ("llama", "LlamaForCausalLM", "right", (("llama_plain", 0.5), ("llama_dora", 1.0), ("llama_all_linear", -1.25))),
    "gpt2_scaled": ("gpt2", "GPT2LMHeadModel", "right", (("gpt2_conv1d", 0.25),)),
}


def randomise(model, saved):
    """Every trained tensor gets values that show; B begins as zeros."""
    for name, p in sorted(model.named_parameters()):
        if not (p.requires_grad or "lora_" in name):
            continue
        torch.manual_seed(zlib.crc32((saved + name).encode()))
        with torch.no_grad():
            if "lora_magnitude_vector" in name:
                p.copy_(p * (0.7 + 0.6 * torch.rand_like(p)))
            elif "lora_B" in name and name.endswith("bias"):
                p.copy_(0.3 * torch.randn_like(p))
            elif "lora_" in name:
                p.copy_(torch.randn_like(p) * 0.25)
            else:
                p.copy_(p + 0.2 * torch.randn_like(p))


def base(model, cls):
    return getattr(transformers, cls).from_pretrained(MODELS / model, dtype=torch.float32, attn_implementation="eager").eval()


def says(model, adapted, path):
    """The likeliest continuation of a text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / model)
    prompt = "Once upon a time"
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    out = adapted.eval().generate(input_ids=ids, max_new_tokens=16, do_sample=False)
    path.write_text(json.dumps({"prompt": prompt, "ids": out[0, ids.shape[1]:].tolist()}) + "\n")


def golden(model, cls, case, adapted, path):
    """What `adapted` makes of the inputs of a golden of the base, which must not be what the base makes."""
    with safe_open(MODELS / model / f"golden.{cls}.{case}.safetensors", "pt") as f:
        metadata = f.metadata()
        tensors = {k: f.get_tensor(k) for k in f.keys()}
    inputs = {k[3:]: v for k, v in tensors.items() if k.startswith("in.")}
    with torch.no_grad():
        out = adapted.eval()(**inputs, **json.loads(metadata["args"]))
    kept = {k: v for k, v in tensors.items() if k.startswith(("in.", "mask."))}
    for name in KEPT:
        if f"out.{name}" not in tensors or out.get(name) is None:
            continue
        value = out[name].to(torch.float32).contiguous()
        if not torch.isfinite(value).all() or torch.allclose(value, tensors[f"out.{name}"], atol=1e-2):
            raise SystemExit(f"{path}: {name} shows nothing of the adapter")
        kept[f"out.{name}"] = value.clone()
    if not any(k.startswith("out.") for k in kept):
        raise SystemExit(f"{path}: no outputs")
    save_file({k: v for k, v in kept.items() if not k.startswith("mask.") or "out." + k[5:] in kept}, path, metadata=metadata)


def make_adapter(name):
    model, cls, case, fields = ADAPTERS[name]
    directory = ROOT / name
    shutil.rmtree(directory, ignore_errors=True)
    adapted = peft.get_peft_model(base(model, cls), peft.LoraConfig(lora_dropout=0.1, **fields))
    randomise(adapted, name)
    adapted.base_model.model.config._name_or_path = model
    adapted.peft_config["default"].base_model_name_or_path = model
    adapted.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    loaded = peft.PeftModel.from_pretrained(base(model, cls), directory)
    if name == "whisper_convolutions":  # the class reads the strides of its convolutions, which PEFT's wrappers have not
        loaded = loaded.merge_and_unload()
    if case is None:
        says(model, loaded, directory / "expected.json")
    else:
        golden(model, cls, case, loaded, directory / "golden.safetensors")


def scaled(model, directory, scale):
    adapted = peft.PeftModel.from_pretrained(model, directory)
    for module in adapted.modules():
        if hasattr(module, "scale_layer"):
            module.scale_layer(scale)
    return adapted


def make_merged(name):
    model, cls, case, adapters = MERGED[name]
    (ROOT / name).mkdir(parents=True, exist_ok=True)
    merged = base(model, cls)
    for other, scale in adapters:
        merged = scaled(merged, ROOT / other, scale).merge_and_unload()
    golden(model, cls, case, merged, ROOT / name / "golden.safetensors")


def main(wanted):
    for name in ADAPTERS:
        if not wanted or name in wanted:
            make_adapter(name)
    for name in MERGED:
        if not wanted or name in wanted:
            make_merged(name)
    lines = [f"{model} {name}:1 {name}/golden.safetensors {cls}" for name, (model, cls, case, _) in ADAPTERS.items() if case is not None]
    lines += [f"{model} {','.join(f'{a}:{s:g}' for a, s in adapters)} {name}/golden.safetensors {cls}" for name, (model, cls, _, adapters) in MERGED.items()]
    (ROOT / "goldens.list").write_text("\n".join(sorted(lines)) + "\n")


main(sys.argv[1:])
