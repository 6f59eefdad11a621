#!/usr/bin/env python3
"""Makes tests/fixtures/models/quantised: checkpoints written by the packing code of the tools themselves, at tiny sizes.

    pip download --no-deps --no-build-isolation auto-gptq==0.7.1 autoawq==0.2.9 gptqmodel==7.7.0 -d ARCHIVES
    pip install --no-deps compressed-tensors==0.20.0 bitsandbytes==0.50.2
    python3 tests/goldens/make_quantised_goldens.py ARCHIVES

auto-gptq, autoawq and gptqmodel do not install where there is no GPU, so their packing functions are taken out of the archives and called.
Scales are plain minima and maxima of the groups: what is tested is the layout, not the art of quantising.

units/<case>: config.json (its quantization_config), model.safetensors with one or two weights in codes, expected.safetensors with
what the package's own unpacking makes of them (fp32).  The weights that are dequantised to fp16 on load are rounded likewise.
<model>: a random BERT, DistilBERT or ModernBERT whose linear layers were packed, and goldens that transformers computes in fp32 from
the dequantised weights.  quantised.list names directory, golden, class, the precision the checkpoint has.
"""
import ast
import atexit
import importlib.util
import json
import math
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
import types
import zipfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import torch
import transformers as T
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_encoder_goldens as encoders

ROOT = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "models" / "quantised"
ARCHIVES = pathlib.Path(sys.argv[1])

# ---- the packages' own code ----


def unpacked(pattern, into):
    """Directory with the files of the archive."""
    path = next(ARCHIVES.glob(pattern))
    target = into / path.name.split("-")[0]
    (zipfile.ZipFile(path) if path.suffix == ".whl" else tarfile.open(path)).extractall(target)
    inner = list(target.iterdir())
    return target if path.suffix == ".whl" else inner[0]


def load_source(path, name, stubs=()):
    for stub, members in dict(stubs).items():
        sys.modules[stub] = types.ModuleType(stub)
        sys.modules[stub].__dict__.update(members)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_functions(path, names, scope):
    """Functions (methods too) of a source file, without importing what it imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            node.returns = None
            for a in node.args.args + node.args.kwonlyargs:
                a.annotation = None
            exec(compile(ast.Module([node], []), str(path), "exec"), scope)
    return types.SimpleNamespace(**{n: scope[n] for n in names})


class Limits:
    def threadpool_limits(self, _):
        import contextlib
        return contextlib.nullcontext()


WORK = pathlib.Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, WORK, True)
_gptqmodel = unpacked("gptqmodel-*", WORK)
_awq = unpacked("autoawq-*", WORK)
_auto = unpacked("auto_gptq-*", WORK)
auto_gptq = load_source(_auto / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py", "qlinear_cuda").QuantLinear
awq_packing = load_source(_awq / "awq/utils/packing_utils.py", "awq_packing")
awq_linear = load_source(_awq / "awq/modules/linear/gemm.py", "awq_gemm", {
    "awq": {}, "awq.utils": {}, "awq.modules": {}, "awq.utils.module": {"try_import": lambda name: (None, "")},
    "awq.utils.utils": {"get_best_device": lambda: "cpu"}, "awq.utils.packing_utils": awq_packing.__dict__}).WQLinear_GEMM
gptqmodel = load_functions(_gptqmodel / "gptqmodel/nn_modules/qlinear/__init__.py", ["pack_original"], {
    "t": torch, "nn": torch.nn, "np": np, "math": math, "THREADPOOLCTL": Limits(), "transformers": T, "_ConvNd": torch.nn.modules.conv._ConvNd})
_scope = {"torch": torch, "PLANAR_BITS": (5, 6, 7)}
dequant = load_functions(_gptqmodel / "gptqmodel/utils/model_dequant.py", [
    "unpack_cols", "unpack_rows", "pack_cols", "_pack_cols_3bit", "_unpack_cols_3bit", "_unpack_rows_3bit", "_require_int32_words_for_3bit",
    "_shift_gptq_qzeros", "_revert_gptq_v1_qzeros_correction"], _scope)


class Log:
    class info:
        once = staticmethod(lambda *a: None)


v2_to_v1 = load_functions(_gptqmodel / "gptqmodel/utils/model.py", ["convert_gptq_v2_to_v1_format_module"], {
    "torch": torch, "BaseQuantLinear": object, "log": Log, "_revert_gptq_v1_qzeros_correction": dequant._revert_gptq_v1_qzeros_correction})

import bitsandbytes as bnb
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as bnb_default
import compressed_tensors
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from compressed_tensors.quantization.utils.helpers import generate_gparam
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

# ---- quantisers: weight [N, K] fp32 -> ({suffix: tensor}, what it now is in fp32) ----


def group_limits(w, group, reduce_rows=False):
    """[N, groups, <= group] as minima and maxima; a last group may be short."""
    n, k = w.shape
    group = k if group in (-1, None) or group > k else group
    parts = [w[:, i:i + group] for i in range(0, k, group)]
    return torch.stack([p.min(1).values for p in parts], 1), torch.stack([p.max(1).values for p in parts], 1)


def minmax(w, bits, group, sym):
    """Scales fp16-exact [N, G] and zeros [N, G], as GPTQ and AWQ place them."""
    low, high = group_limits(w, group)
    low, high = low.clamp(max=0), high.clamp(min=0)
    if sym:
        high = torch.maximum(-low, high)
        low = -high
    top = 2**bits - 1
    scale = ((high - low) / top).clamp(min=1e-4).half().float()
    zero = torch.full_like(scale, (top + 1) // 2) if sym else (-low / scale).round().clamp(0, top)
    return scale, zero


class Packed(torch.nn.Module):
    """What gptqmodel's pack_original and its conversions expect of `self`."""

    def __init__(self, bits, g_idx):
        super().__init__()
        self.bits, self.maxq, self.planar, self.pack_dtype, self.pack_dtype_bits = bits, 2**bits - 1, False, torch.int32, 32
        self.pack_factor, self.pack_np_dtype, self.pack_np_math_dtype, self.g_idx_given = 32 // bits, np.int32, np.uint32, g_idx
        self.g_idx = None

    def qzero_format(self, format):
        pass


Packed.register_buffer = lambda self, name, value, persistent=True: self.__dict__.update({name: value})


def gptq(w, bits=4, group=128, sym=True, version=1, order=False, tool="gptqmodel", zero_zeros=False, scale_dtype=torch.float16):
    n, k = w.shape
    size = k if group == -1 else group
    g_idx = torch.arange(k, dtype=torch.int32) // size
    if order:
        g_idx = g_idx[torch.randperm(k)]
        perm = torch.argsort(g_idx, stable=True)
        scale, zero = minmax(w[:, perm], bits, group, sym)
    else:
        scale, zero = minmax(w, bits, group, sym)
    if zero_zeros:
        zero[::3] = 0
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = w.clone()
    if tool == "auto_gptq":
        q = auto_gptq(bits, group, k, n, False, weight_dtype=torch.float32)
        q.pack(linear, scale.clone(), zero.clone(), g_idx.clone())
        tensors = {"qweight": q.qweight, "qzeros": q.qzeros, "scales": q.scales.to(scale_dtype), "g_idx": q.g_idx}
        with torch.no_grad():
            q.bits_tensor = None
            full = q(torch.eye(k)).T.contiguous()
    else:
        q = Packed(bits, g_idx)
        gptqmodel.pack_original(q, linear, scale.clone(), zero.clone(), g_idx)
        zeros, codes = dequant.unpack_cols(q.qzeros, bits)[:, :n], dequant.unpack_rows(q.qweight, bits)[:k]
        full = ((codes - zeros[g_idx.long()]).float() * q.scales.float()[g_idx.long()]).T.contiguous()
        if version == 1:
            v2_to_v1.convert_gptq_v2_to_v1_format_module(q, types.SimpleNamespace(bits=bits, pack_dtype=torch.int32))
        tensors = {"qweight": q.qweight, "qzeros": q.qzeros, "scales": q.scales.to(scale_dtype), "g_idx": q.g_idx}
    if order:
        full = full.half().float()
    return {f".{key}": v for key, v in tensors.items()}, full


def gptq_config(bits=4, group=128, sym=True, version=1, order=False, **extra):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": sym, "desc_act": order,
            "checkpoint_format": "gptq" if version == 1 else "gptq_v2", "damp_percent": 0.01, "true_sequential": True, **extra}


def awq(w, group=128):
    n, k = w.shape
    size = k if group == -1 else group
    scale, zero = minmax(w, 4, size, False)
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = w.clone()
    q = awq_linear.from_linear(linear, 4, size, scales=scale.T.contiguous(), zeros=zero.T.contiguous())
    full = awq_packing.dequantize_gemm(q.qweight, q.qzeros, q.scales.float(), 4, size).T.contiguous()
    return {".qweight": q.qweight, ".qzeros": q.qzeros, ".scales": q.scales}, full


def awq_config(group=128):
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}


def scheme(format, bits, type, strategy, sym=True, group=None, block=None, activations=None, scale_dtype=None):
    args = QuantizationArgs(num_bits=bits, type=type, strategy=strategy, symmetric=sym, group_size=group, block_structure=block, scale_dtype=scale_dtype)
    return QuantizationScheme(targets=["Linear"], weights=args, format=format,
                              input_activations=QuantizationArgs(num_bits=activations, type=type, strategy="token", dynamic=True) if activations else None)


def compressed(w, s, dtype=torch.bfloat16):
    """Through the format's compressor; scales in `dtype`."""
    a, (n, k) = s.weights, w.shape
    w = w.to(dtype)
    state = {"weight": w}
    if a.strategy == "tensor":
        low, high = w.min().reshape(1), w.max().reshape(1)
    elif a.strategy == "block":
        bn, bk = a.block_structure
        tiles = [[w[i:i + bn, j:j + bk] for j in range(0, k, bk)] for i in range(0, n, bn)]
        low, high = (torch.stack([torch.stack([f(t) for t in row]) for row in tiles]) for f in (torch.min, torch.max))
    else:
        low, high = group_limits(w, a.group_size if a.strategy in ("group", "tensor_group") else None)
    if a.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(w.float().min(), w.float().max()).reshape(1).float()
        state["weight_scale"], zero = calculate_qparams(low.float(), high.float(), a, global_scale=state["weight_global_scale"])
        state["weight_scale"] = state["weight_scale"].to(torch.float8_e4m3fn).float()
    else:
        state["weight_scale"], zero = calculate_qparams(low, high, a)
    if a.symmetric is False:
        state["weight_zero_point"] = zero.to(torch.int8)
    compressor = BaseCompressor.get_value_from_registry(s.format)
    packed = compressor.compress(state, s)
    again = {key: v.float() if key == "weight_scale" and v.dtype in (torch.bfloat16, torch.float16) else v for key, v in packed.items()}
    if s.format in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
        full = fp4_full(compressor, again, s)
    else:
        full = compressor.decompress(again, s)["weight"].float()
    return {f".{key}": v.contiguous() for key, v in packed.items()}, full


def fp4_full(compressor, packed, s):
    """The compressor's own steps in fp32 (its bf16 would round)."""
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    m, n = packed["weight_packed"].shape
    values = unpack_fp4_from_uint8(packed["weight_packed"], m, n * 2).float()
    return dequantize(values, compressor._decompress_scale(packed["weight_scale"], torch.float32), args=s.weights,
                      global_scale=packed.get("weight_global_scale"), dtype=torch.float32)


def compressed_config(schemes, format=None, ignore=()):
    config = QuantizationConfig(config_groups={f"group_{i}": s for i, s in enumerate(schemes)}, format=format or schemes[0].format,
                                quantization_status="compressed", ignore=list(ignore)).model_dump()
    return json.loads(json.dumps(config, default=lambda o: getattr(o, "value", str(o))))


def block_fp8(w, block=(128, 128), scale_fmt="float", bytes=False):
    config = types.SimpleNamespace(weight_block_size=block, scale_fmt=scale_fmt)
    out = Fp8Quantize(types.SimpleNamespace(quantization_config=config)).convert({"x.weight": w})
    assert out["x.weight"].dtype == torch.float8_e4m3fn, "not divisible into blocks"
    full = Fp8Dequantize(None)._dequantize_one(out["x.weight"], out["x.weight_scale_inv"], torch.float32)
    scales = out["x.weight_scale_inv"]
    return {".weight": out["x.weight"], ".weight_scale_inv": scales.view(torch.uint8) if bytes else scales}, full


def fp8_config(block=(128, 128), scale_fmt=None):
    config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(block) if block else None}
    return {**config, "scale_fmt": scale_fmt} if scale_fmt else config


def mxfp4_experts(w):
    """[E, N, K] packed by compressed-tensors' code in gpt-oss's layout; expected [E*N, K] by transformers'."""
    e, n, k = w.shape
    s = scheme("mxfp4-pack-quantized", 4, "float", "group", group=32)
    parts = [compressed(m, s)[0] for m in w]
    blocks = torch.stack([p[".weight_packed"] for p in parts]).reshape(e, n, k // 32, 16)
    scales = torch.stack([p[".weight_scale"] for p in parts])
    full = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2).reshape(e * n, k).contiguous()
    return {"_blocks": blocks, "_scales": scales}, full


def bnb_int8(w):
    codes, stats, _ = bnb.functional.int8_vectorwise_quant(w.half())
    full = torch.ops.bitsandbytes.int8_vectorwise_dequant(codes, stats).float()
    return {".weight": codes, ".SCB": stats, ".weight_format": torch.tensor(0, dtype=torch.uint8)}, full


def bnb_four(w, kind="nf4", dtype=torch.bfloat16, nested=False, storage=torch.uint8, block=64):
    packed, state = bnb.functional.quantize_4bit(w.to(dtype), blocksize=block, compress_statistics=nested, quant_type=kind, quant_storage=storage)
    # its PyTorch kernel: the C++ one for CPUs (0.50.2) takes wrong scales for rows that are no multiple of the block
    absmax = bnb.functional.dequantize_blockwise(state.absmax, state.state2) + state.offset if nested else state.absmax
    code = bnb.functional.get_4bit_type(kind, device="cpu")
    full = bnb_default.__wrapped__(packed.view(torch.uint8).reshape(-1), absmax, code, block, w.shape, dtype).float()
    assert (full - w).abs().mean() < 0.2 * w.abs().mean()
    return {".weight": packed, **{f".weight.{key}": v for key, v in state.as_dict(packed=True).items()}}, full


def bnb_config(**kw):
    config = json.loads(T.BitsAndBytesConfig(**kw).to_json_string())
    return {**config, "quant_method": "bitsandbytes"}


# ---- units ----


def weight(name, n, k, spread=0.05):
    encoders.seed(name)
    return torch.randn(n, k) * spread


def write(directory, config, tensors, expected=None):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, directory / "model.safetensors", metadata={"format": "pt"})
    if expected is not None:
        save_file(expected, directory / "expected.safetensors")


def unit(case, config, quantise, n, k, suffix=".weight", **how):
    tensors, full = quantise(weight(case, n, k), **how)
    write(ROOT / "units" / case, {"quantization_config": config}, {"x" + key: v for key, v in tensors.items()}, {"x" + suffix: full.contiguous()})


def units():
    for bits in (2, 3, 4, 8):
        unit(f"gptq_auto_{bits}", gptq_config(bits, 32, False), gptq, 64, 96, bits=bits, group=32, sym=False, tool="auto_gptq")
        unit(f"gptq_v1_{bits}", gptq_config(bits, 64), gptq, 32, 160, bits=bits, group=64)
        unit(f"gptq_v2_{bits}", gptq_config(bits, -1, False, 2), gptq, 32, 64, bits=bits, group=-1, sym=False, version=2)
    unit("gptq_odd", gptq_config(4, 32, False, 2), gptq, 20, 52, group=32, sym=False, version=2)
    unit("gptq_borrow", gptq_config(4, 32, False), gptq, 64, 64, group=32, sym=False, zero_zeros=True)
    unit("gptq_order", gptq_config(4, 32, True, 1, True), gptq, 32, 96, group=32, order=True)
    unit("gptq_order_8", gptq_config(8, 32, False, 2, True), gptq, 32, 96, bits=8, group=32, sym=False, version=2, order=True)
    # the flag lies: zeros of 8 as they are in a file that says version 1, and the reverse
    unit("gptq_lies_v1", gptq_config(4, 32, True, 1), gptq, 32, 64, group=32, version=2)
    unit("gptq_lies_v2", gptq_config(4, 32, True, 2), gptq, 32, 64, group=32, version=1)
    unit("gptq_dynamic", gptq_config(8, 32, True, 1, dynamic={"+:x": {"bits": 4}}), gptq, 32, 64, group=32)
    unit("gptq_f32_scales", gptq_config(4, 32, True, 1), gptq, 32, 64, group=32, tool="auto_gptq", scale_dtype=torch.float32)
    for group in (32, 64, -1):
        unit(f"awq_{group if group > 0 else 'row'}", awq_config(group), awq, 64, 192, group=group)
    for bits in (1, 2, 3, 4, 5, 6, 7, 8):
        if bits > 1:  # -1 and 0 alone: its scales make everything 0
            s = scheme("pack-quantized", bits, "int", "group", group=32)
            unit(f"packed_{bits}", compressed_config([s]), compressed, 21, 96, s=s)
        s = scheme("pack-quantized", bits, "int", "channel", sym=False)
        unit(f"packed_asym_{bits}", compressed_config([s]), compressed, 21, 75, s=s, dtype=torch.float16)
    s = scheme("pack-quantized", 4, "int", "group", sym=False, group=64)
    unit("packed_asym_group", compressed_config([s]), compressed, 19, 128, s=s, dtype=torch.float32)
    s = scheme("pack-quantized", 4, "int", "tensor")
    unit("packed_tensor", compressed_config([s]), compressed, 9, 40, s=s)
    for strategy, extra in (("tensor", {}), ("channel", {}), ("group", {"group": 24})):
        for sym in (True, False):
            s = scheme("int-quantized", 8, "int", strategy, sym=sym, activations=8, **extra)
            unit(f"int8_{strategy}{'' if sym else '_asym'}", compressed_config([s]), compressed, 17, 72, s=s, dtype=torch.float32 if sym else torch.float16)
    for strategy, extra in (("tensor", {}), ("channel", {}), ("group", {"group": 24}), ("block", {"block": [16, 32]})):
        s = scheme("float-quantized", 8, "float", strategy, **extra)
        unit(f"float8_{strategy}", compressed_config([s]), compressed, 24 if strategy == "block" else 17, 72, s=s)
    s = scheme("nvfp4-pack-quantized", 4, "float", "tensor_group", group=16)
    unit("nvfp4", compressed_config([s]), compressed, 11, 48, s=s)
    s = scheme("mxfp4-pack-quantized", 4, "float", "group", group=32)
    unit("mxfp4", compressed_config([s]), compressed, 11, 96, s=s)
    s = scheme("mxfp8-quantized", 8, "float", "group", group=32, scale_dtype=torch.uint8)
    unit("mxfp8_compressed", compressed_config([s]), compressed, 11, 96, s=s)
    unit("mxfp8", {"quant_method": "mxfp8", "scale_fmt": "ue8m0", "weight_block_size": [1, 32]}, block_fp8, 24, 96, block=(1, 32), scale_fmt="ue8m0", bytes=True)
    unit("fp8_block", fp8_config((16, 32)), block_fp8, 48, 96, block=(16, 32))
    unit("fp8_block_e8m0", fp8_config((16, 32), "ue8m0"), block_fp8, 48, 96, block=(16, 32), scale_fmt="ue8m0")
    unit("fp8_tensor", fp8_config(None), block_fp8, 10, 30, block=None)
    unit("mxfp4_experts", {"quant_method": "mxfp4"}, lambda w: mxfp4_experts(w.reshape(3, 6, 64)), 18, 64, suffix="")
    unit("bnb_int8", bnb_config(load_in_8bit=True), bnb_int8, 23, 50)
    for kind in ("nf4", "fp4"):
        for nested in (False, True):
            name = f"bnb_{kind}{'_nested' if nested else ''}"
            unit(name, bnb_config(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested), bnb_four, 21, 56, kind=kind, nested=nested)
    unit("bnb_nf4_f16", bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4"), bnb_four, 40, 100, dtype=torch.float16, nested=True, block=32)
    unit("bnb_nf4_f32", bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4"), bnb_four, 9, 31, dtype=torch.float32)
    unit("bnb_nf4_stored_bf16", bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_quant_storage="bfloat16"), bnb_four, 20, 64,
         storage=torch.bfloat16)


# ---- models ----


def linears(model):
    return [name for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)]


def model(name, config, classes, pick, quantise, quantization, precision, dtype=torch.float16, shards=0, head=None):
    """pick(linear's name, of the classes[0] model): is it packed?  quantise: weight -> (tensors, full)."""
    directory = ROOT / name
    encoders.write_model(directory, config, classes, dtype=dtype, shards=0)
    state = load_file(directory / "model.safetensors")
    plain, packed = dict(state), dict(state)
    # heads have names of their own; base modules carry the prefix when the file has one
    names = {k.removesuffix(".weight") for k in state if k.endswith(".weight") and state[k].dim() == 2 and "embedding" not in k}
    for stem in sorted(n for n in names if pick(n)):
        encoders.seed(name + stem)
        tensors, full = quantise(state[stem + ".weight"].float())
        del packed[stem + ".weight"]
        packed.update({stem + key: v for key, v in tensors.items()})
        plain[stem + ".weight"] = full
    assert len(packed) > len(state), name
    text = json.loads((directory / "config.json").read_text())
    with tempfile.TemporaryDirectory() as reference:
        reference = pathlib.Path(reference)
        (reference / "config.json").write_text(json.dumps({**text, "dtype": "float32"}))
        save_file({k: v.float().contiguous() for k, v in plain.items()}, reference / "model.safetensors", metadata={"format": "pt"})
        lines = goldens(name, directory, reference, config, classes, precision)
    text["quantization_config"] = quantization
    (directory / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    packed = {k: v.contiguous().clone() for k, v in packed.items()}
    if not shards:
        save_file(packed, directory / "model.safetensors", metadata={"format": "pt"})
        return lines
    (directory / "model.safetensors").unlink()
    keys, index = sorted(packed), {}
    for i in range(shards): # a weight's codes and scales fall into different files
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {k: packed[k] for k in keys[i::shards]}
        save_file(part, directory / file, metadata={"format": "pt"})
        index.update({k: file for k in part})
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}, indent=1) + "\n")
    return lines


def goldens(name, directory, reference, config, classes, precision):
    lines = []
    for cls in classes:
        loaded, info = getattr(T, cls).from_pretrained(reference, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        if info["missing_keys"] or info.get("mismatched_keys"):
            raise SystemExit(f"{name} {cls}: {info}")
        loaded.eval()
        inputs = encoders.make_inputs(config, "right", 9, getattr(config, "type_vocab_size", 0) if config.model_type == "bert" else 0, 0)
        fields = encoders.run(loaded, inputs, False)
        file = f"golden.{cls}.safetensors"
        tensors = {**{f"in.{k}": v for k, v in inputs.items()}, **{k: v.float().contiguous() for k, v in fields.items()}}
        save_file({k: v.clone() for k, v in tensors.items()}, directory / file, metadata={"mode": "forward", "args": "{}"})
        lines.append(f"{name} {file} {cls} {precision}")
    return lines


def bert(**kw):
    return T.BertConfig(**{**dict(vocab_size=61, hidden_size=96, num_hidden_layers=1, num_attention_heads=3, intermediate_size=160,
                                  max_position_embeddings=24), **kw})


def modern(**kw):
    return T.ModernBertConfig(**{**dict(vocab_size=61, hidden_size=96, num_hidden_layers=2, num_attention_heads=3, intermediate_size=64,
                                        max_position_embeddings=24, global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=1,
                                        eos_token_id=2, cls_token_id=1, sep_token_id=2), **kw})


def distilbert(**kw):
    return T.DistilBertConfig(**{**dict(vocab_size=64, dim=96, n_layers=1, n_heads=4, hidden_dim=128, max_position_embeddings=24), **kw})


def every(name):
    return True


def layers(name):
    return ".layer." in name or ".layers." in name


BERT = ["BertModel", "BertForMaskedLM"]
MODERN = ["ModernBertModel", "ModernBertForMaskedLM"]
DISTIL = ["DistilBertModel", "DistilBertForMaskedLM"]


def bind(function, **kw):
    return lambda w: function(w, **kw)


def models():
    yield model("gptq_g32", bert(), BERT, layers, bind(gptq, group=32, tool="auto_gptq"), gptq_config(4, 32), "uint4")
    yield model("gptq_g64_asym_v2", bert(), BERT, layers, bind(gptq, group=64, sym=False, version=2), gptq_config(4, 64, False, 2), "uint4", shards=3)
    yield model("gptq_g128", bert(num_hidden_layers=2), BERT, lambda n: layers(n) and ".0.attention" not in n, bind(gptq, group=128, sym=False),
                gptq_config(4, 128, False, modules_in_block_to_quantize=[["attention.output.dense"]]), "uint4")
    yield model("gptq_row", bert(), BERT, layers, bind(gptq, group=-1), gptq_config(4, -1), "uint4")
    yield model("gptq_order", bert(), BERT, layers, bind(gptq, group=32, order=True), gptq_config(4, 32, True, 1, True), "fp16")
    yield model("gptq_8bit", bert(), BERT, layers, bind(gptq, bits=8, group=32), gptq_config(8, 32), "int8")
    yield model("gptq_3bit", bert(), BERT, layers, bind(gptq, bits=3, group=32, sym=False), gptq_config(3, 32, False), "uint4")
    yield model("gptq_modernbert", modern(), MODERN, layers, bind(gptq, group=32, sym=False), gptq_config(4, 32, False), "uint4")
    yield model("gptq_head", distilbert(tie_word_embeddings=False), DISTIL, every, bind(gptq, group=64), gptq_config(4, 64, lm_head=True), "uint4")
    yield model("awq_g32", bert(), BERT, layers, bind(awq, group=32), awq_config(32), "uint4")
    yield model("awq_modernbert", modern(), MODERN, layers, bind(awq, group=32), awq_config(32), "uint4", shards=2)
    yield model("awq_row", distilbert(), DISTIL, layers, bind(awq, group=-1), awq_config(-1), "uint4")

    def ct(name, s, precision, config=None, classes=BERT, pick=layers, dtype=torch.bfloat16, **kw):
        ignore = ["lm_head", "re:.*pooler.*"]
        return model(name, config or bert(), classes, pick, bind(compressed, s=s, dtype=dtype), compressed_config([s], ignore=ignore), precision, dtype=dtype, **kw)

    yield ct("ct_w4a16", scheme("pack-quantized", 4, "int", "group", group=32), "int4")
    yield ct("ct_w4a16_asym", scheme("pack-quantized", 4, "int", "channel", sym=False), "uint4", shards=2)
    yield ct("ct_w8a16", scheme("pack-quantized", 8, "int", "channel"), "int8")
    yield ct("ct_w8a8", scheme("int-quantized", 8, "int", "channel", activations=8), "int8", pick=every)
    yield ct("ct_w8a8_tensor", scheme("int-quantized", 8, "int", "tensor", activations=8), "int8", modern(), MODERN)
    yield ct("ct_w4_modernbert", scheme("pack-quantized", 4, "int", "group", group=32), "int4", modern(), MODERN)
    yield ct("ct_fp8", scheme("float-quantized", 8, "float", "channel"), "fp8")
    yield ct("ct_fp8_tensor", scheme("float-quantized", 8, "float", "tensor"), "fp8", distilbert(), DISTIL)
    yield ct("ct_fp8_block", scheme("float-quantized", 8, "float", "block", block=[64, 32]), "fp8", modern(), MODERN)
    yield ct("ct_nvfp4", scheme("nvfp4-pack-quantized", 4, "float", "tensor_group", group=16), "fp4")
    yield ct("ct_nvfp4_modernbert", scheme("nvfp4-pack-quantized", 4, "float", "tensor_group", group=16), "fp4", modern(), MODERN)
    yield ct("ct_mxfp4", scheme("mxfp4-pack-quantized", 4, "float", "group", group=32), "fp4")
    wide = dict(hidden_size=128, num_attention_heads=4)
    yield model("fp8_bert", bert(**wide, intermediate_size=256), BERT, layers, block_fp8, fp8_config(), "fp8", dtype=torch.bfloat16)
    yield model("fp8_modernbert", modern(**wide, intermediate_size=64, num_hidden_layers=1), MODERN, lambda n: layers(n) and "Wo" not in n,
                bind(block_fp8, scale_fmt="ue8m0"), fp8_config(scale_fmt="ue8m0"), "fp8", dtype=torch.bfloat16)
    yield model("bnb_int8", bert(), BERT, layers, bnb_int8, bnb_config(load_in_8bit=True), "int8")
    yield model("bnb_nf4", bert(), BERT, layers, bind(bnb_four, nested=True),
                bnb_config(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True), "bf16", dtype=torch.bfloat16)
    yield model("bnb_fp4_modernbert", modern(), MODERN, layers, bind(bnb_four, kind="fp4", dtype=torch.float16),
                bnb_config(load_in_4bit=True), "fp16")


def main():
    torch.set_num_threads(1)
    units()
    lines = [line for made in models() for line in made]
    (ROOT / "quantised.list").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
