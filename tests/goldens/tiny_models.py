"""What the scripts of image and sound goldens share: tiny random models, saved as a hub checkpoint is, and what transformers computes with them
(fp32, eager, CPU), as `accel verify` reads it.

A fixture is a directory under tests/fixtures/models: config.json, model.safetensors with the tensors of every class tried, and
golden.<Class>.<case>.safetensors.  transformers itself loads each directory to make its goldens, so both sides read the same files.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import zlib

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "models"
DTYPES = {None: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def seed(text):
    torch.manual_seed(zlib.crc32(text.encode()))


def randomise(model):
    """Weights large enough that every term shows in the result; variances positive."""
    tensors = list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]
    for name, p in sorted(tensors, key=lambda t: t[0]):
        seed(name)
        with torch.no_grad():
            if name.endswith("running_var"):
                p.copy_(0.5 + torch.rand_like(p))
            elif "logit_scale" in name or name.endswith("original0") or name.endswith("weight_g"):
                p.copy_(p.abs() * (0.8 + 0.4 * torch.rand_like(p)) + 0.3)
            elif p.dim() == 1 and name.endswith("weight"):
                p.copy_(1.0 + 0.2 * torch.randn_like(p))
            elif p.dim() >= 2:
                fan = p[0].numel() if p.shape[0] > 1 else p.shape[-1]
                table = any(w in name for w in ("embed", "token", "position", "bias_table", "queries"))
                p.copy_(torch.randn_like(p) * (0.35 if table and p.dim() < 4 else 1.0 / fan ** 0.5))
            elif "inv_freq" not in name and p.dim() > 0:
                p.copy_(0.1 * torch.randn_like(p))


def saved(model, hub):
    """Its tensors as save_pretrained writes them (the names of the hub), or under the names of the code."""
    if not hub:
        return {k: v.clone().contiguous() for k, v in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as work:
        model.save_pretrained(work)
        return load_file(os.path.join(work, "model.safetensors"))


def write_model(directory, config, classes, dtype=None, hub=True, prefixed=True, rename=None, drop=(), config_edit=None, prepare=None, adjust=None):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    merged = {}
    for name in classes:
        model = getattr(transformers, name)(config)
        if prepare is not None:
            prepare(model)
        randomise(model)
        if adjust is not None:
            with torch.no_grad():
                adjust(model)
        prefix = model.base_model_prefix + "." if name.endswith("Model") and prefixed and model.base_model_prefix else ""
        for key, value in saved(model, hub).items():
            merged.setdefault(prefix + key, value)
    merged = {(rename(k) if rename else k): v for k, v in merged.items() if not any(d in k for d in drop)}
    if dtype is not None:
        merged = {k: v.to(dtype) if v.is_floating_point() else v for k, v in merged.items()}
    text = json.loads(config.to_json_string())
    text["architectures"] = [classes[0]]
    text["dtype"] = DTYPES[dtype]
    for key in ("_name_or_path", "transformers_version"):
        text.pop(key, None)
    if config_edit is not None:
        config_edit(text)
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    save_file(merged, directory / "model.safetensors", metadata={"format": "pt"})


def flatten(name, value, into):
    """Tuples become field.N, nested outputs field.field."""
    if torch.is_tensor(value):
        into[f"out.{name}"] = value.detach()
    elif isinstance(value, dict):
        for k, v in value.items():
            flatten(f"{name}.{k}" if name else k, v, into)
    elif isinstance(value, (tuple, list)):
        for i, v in enumerate(value):
            flatten(f"{name}.{i}", v, into)


def make(name, config, cases, load_config=None, allow_missing=(), stored_as=None, **how):
    """cases: list of dicts (cls, case, inputs, args or what generate takes, mask, keep, skip); inputs become in.*, masks mask.*.  stored_as(name) renames the tensors of
    the finished fixture: spellings that transformers itself reads only with packages that are not here."""
    directory = ROOT / name
    classes = list(dict.fromkeys(c["cls"] for c in cases))
    write_model(directory, config, classes, **how)
    lines, models = [], {}
    for case in cases:
        cls = case["cls"]
        if cls not in models:
            extra = {} if load_config is None else {"config": load_config}
            model, info = getattr(transformers, cls).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, **extra)
            missing = [k for k in info["missing_keys"] if not any(d in k for d in allow_missing)]
            if missing or info.get("mismatched_keys"):
                raise SystemExit(f"{name} {cls}: not in the checkpoint: {missing} {info.get('mismatched_keys')}")
            models[cls] = model.eval()
        args = case.get("args", {})
        generates = case.get("generate")
        with torch.no_grad():
            out = {"sequences": models[cls].generate(**case["inputs"], **generates)} if generates else models[cls](**case["inputs"], **args)
        fields = {}
        flatten("", dict(out.items()), fields)
        for skip in ("out.past_key_values", "out.loss", "out.attentions", *("out." + s for s in case.get("skip", ()))):
            fields = {k: v for k, v in fields.items() if not k.startswith(skip)}
        if "keep" in case:
            fields = {k: v for k, v in fields.items() if k[4:] in case["keep"]}
        if not fields or any(not torch.isfinite(v).all() for v in fields.values()):
            raise SystemExit(f"{name} {cls} {case['case']}: empty or not finite")
        tensors = {f"in.{k}": v for k, v in case["inputs"].items()}
        tensors.update({k: (v.to(torch.float32) if v.is_floating_point() else v).contiguous() for k, v in fields.items()})
        tensors.update({f"mask.{k}": v for k, v in case.get("mask", {}).items()})
        file = f"golden.{cls}.{case['case']}.safetensors"
        save_file({k: v.clone() for k, v in tensors.items()}, directory / file,
                  metadata={"mode": "generate" if generates else "forward", "args": json.dumps(generates or args)})
        lines.append(f"{name} {file} {cls}")
    if stored_as is not None:
        path = directory / "model.safetensors"
        save_file({stored_as(k): v for k, v in load_file(path).items()}, path, metadata={"format": "pt"})
    print(name, file=sys.stderr)
    return lines


def run(groups, listing, wanted):
    """Makes the fixtures of all groups, or those whose name begins with one of `wanted`; the rest of the list stays."""
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    path = ROOT / listing
    old = path.read_text().splitlines() if path.exists() and wanted else []
    lines = [l for l in old if not any(l.split()[0].startswith(w) for w in wanted)]
    for group in groups:
        for name, how in group():
            if not wanted or any(name.startswith(w) for w in wanted):
                lines += make(name, **how)
                path.write_text("\n".join(sorted(lines)) + "\n")
