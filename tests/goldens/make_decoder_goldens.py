#!/usr/bin/env python3
"""Makes the language models of tests/fixtures/models: tiny random-weight decoders and encoder-decoders, and what transformers computes with them
(fp32, eager, CPU).

    python3 tests/goldens/make_decoder_goldens.py [name ...]      only the named fixtures

Written as make_encoder_goldens.py writes (its helpers are used), one directory per configuration; lines go to goldens.list beside those of the
encoders.  Cases: single (one sequence, no mask), right and left (padding), given (position_ids).  Outputs of sequence heads read the last token that
is no padding, so they are made with either padding.
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
    batch = 1 if case in ("single", "one") else 3
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    pad = text.pad_token_id or 0
    ids = torch.randint(3, config.vocab_size, (batch, length))
    inputs = {"input_ids": ids}
    if case in ("right", "left"):
        mask = torch.ones(batch, length, dtype=torch.long)
        for row, kept in enumerate((length, max(1, length // 2), max(1, length - 3))):
            padded = slice(kept, length) if case == "right" else slice(0, length - kept)
            mask[row, padded] = 0
            ids[row, padded] = pad
        inputs["attention_mask"] = mask
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
    if any(not torch.isfinite(v).all() for v in fields.values()):
        raise SystemExit(f"{directory.name} {cls} {case}: not finite")
    file = f"golden.{cls}.{case}.safetensors"
    tensors = {f"in.{k}": v for k, v in inputs.items()}
    tensors.update({k: v.to(torch.float32).contiguous() for k, v in fields.items()})
    save_file({k: v.clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": json.dumps(args)})
    return f"{directory.name} {file} {cls}"


def load(directory, cls, **extra):
    model, info = getattr(T, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **extra)
    if info["missing_keys"] or info.get("mismatched_keys"):
        raise SystemExit(f"{directory.name} {cls}: not in the checkpoint: {info['missing_keys']} {info.get('mismatched_keys')}")
    return model.eval()


def make(name, config, classes, length=11, cases=("single", "right", "left"), positions=None, after=None, **how):
    directory = ROOT / name
    common.write_model(directory, config, classes, **how)
    if after is not None:
        after(directory)
    lines = []
    for cls in classes:
        model = load(directory, cls)
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
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
}


def llama_fixtures():
    yield "llama", dict(config=llama(), classes=classes_of("Llama"), cases=("single", "right", "left", "given"))
    odd = llama(hidden_size=30, num_attention_heads=5, num_key_value_heads=1, head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                hidden_act="gelu", rms_norm_eps=1e-3, num_hidden_layers=1, eos_token_id=[2, 5])
    yield "llama_tied", dict(config=odd, classes=["LlamaForCausalLM"])
    yield "llama_sharded", dict(config=llama(num_key_value_heads=4), classes=["LlamaForCausalLM"], cases=("right",), dtype=torch.bfloat16, shards=3)
    for rope, how in ROPES.items():
        config = llama(num_hidden_layers=1, rope_parameters={"rope_theta": 500.0, **how})
        yield f"llama_rope_{rope}", dict(config=config, classes=["LlamaForCausalLM"], cases=("single",), length=40)
        if rope == "llama3":
            yield f"llama_rope_{rope}_old", dict(config=config, classes=["LlamaForCausalLM"], cases=("single",), length=40, config_edit=old_rope(500.0))


GROUPS = (llama_fixtures,)


def main(wanted):
    torch.set_num_threads(1)
    T.logging.disable_progress_bar()
    listing = ROOT / "goldens.list"
    lines = listing.read_text().splitlines()
    for group in GROUPS:
        for name, how in group():
            if wanted and name not in wanted:
                continue
            lines = [l for l in lines if l.split()[0] != name] + make(name, **how)
            print(name, file=sys.stderr)
    listing.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
