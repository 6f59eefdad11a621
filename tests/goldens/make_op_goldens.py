#!/usr/bin/env python3
"""Writes tests/fixtures/ops/<op>.safetensors: inputs and expected outputs of every op and attribute of ops.def.

The oracle is PyTorch in double precision (and the transformers classes where an op follows one); inputs are float32.  Run it with
  python3 tests/goldens/make_op_goldens.py        (pip: torch transformers safetensors numpy, see requirements.txt)
It refuses to finish when an op, attribute, activation, unary, binary or other kind of ops.def has no case.

One file per op.  Metadata "cases" is a JSON list; a case has
  name, op, attrs {key: integer | float | [integers] | {"dims": [integers]}}
  roles      one letter an operand: i input, w weight, c constant, - absent
  uses       accel_plugin_weight_use of each weight operand (0 elsewhere)
  spaces     [{"ragged": true} or {"rows": n, "items": b}], space: the row space of each operand or -1
  outputs    wanted results (0 or 1 for each)
  state      null or {kind, heads, k_dim, v_dim, window}; sequences: ids of each run
  runs       how many runs; tensors are named <case>/<run>/in<i>, /out<k>, /len<space>; weights and constants are those of run 0
"""
import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from op_goldens import (ACT, ALPHA, BETA, BINARY, CONV, EMBEDDING, KIND, LINEAR, MOE, OPS, PLAIN, ROOT, UNARY, Random, act_attrs, act_fn, add, cases, d,
                        dims, f32, tensors)
from op_goldens_attention import attention_cases, delta_cases, rope_cases, scan_cases

OUT = os.path.join(ROOT, "tests", "fixtures", "ops")


def unary_cases():
    for key, number in {**ACT, **UNARY}.items():
        r = Random("unary" + key)
        x = r.f(3, 37, scale=3)
        if key in ("log", "sqrt", "rsqrt"):
            x = x.abs() + 0.01
        large = torch.tensor([0.0, -0.0, 30.0, -30.0, 90.0, -90.0, 1e-8, -1e-8, 1e-30])
        attrs = {"kind": number}
        if key in ALPHA:
            attrs["alpha"] = f32(ALPHA[key])
        if key in BETA:
            attrs["beta"] = f32(BETA[key])
        fn = lambda v: act_fn(key, d(v), attrs.get("alpha", 0.0), attrs.get("beta", 0.0))
        add("UNARY", key, [x], [fn(x)], attrs)
        if key not in ("log", "sqrt", "rsqrt", "exp"):  # far out: where clumsy formulas overflow
            add("UNARY", key + "_large", [large], [fn(large)], attrs)


def binary_cases():
    fn = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "min": torch.minimum, "max": torch.maximum, "pow": torch.pow}
    for key, number in BINARY.items():
        if key == "where":
            continue
        r = Random("binary" + key)
        a, b = r.f(3, 5, 7), r.f(5, 1)
        a = a.abs() + 0.1 if key == "pow" else a
        add("BINARY", key, [a, b], [fn[key](d(a), d(b))], {"kind": number})
        add("BINARY", key + "_same", [a, c := r.f(3, 5, 7)], [fn[key](d(a), d(c))], {"kind": number})
    r = Random("where")
    c, a, b = r.i(0, 2, 3, 1, 7), r.f(3, 5, 7), r.f(7)
    add("BINARY", "where", [c, a, b], [torch.where(c != 0, a, b)], {"kind": BINARY["where"]})
    c, b = a.round(), r.f(1, 5, 1)
    add("BINARY", "where_f32", [c, a, b], [torch.where(c != 0, a, b)], {"kind": BINARY["where"]})
    x, y = r.i(-50, 50, 4, 6), r.i(1, 9, 6)
    for key in ("add", "sub", "mul", "min", "max"):
        add("BINARY", key + "_i32", [x, y], [fn[key](x, y)], {"kind": BINARY[key]})
    add("BINARY", "div_i32", [x, y], [torch.div(x, y, rounding_mode="floor")], {"kind": BINARY["div"]})


# ---- linear, matmul, moe ----

def linear_cases():
    use = [0, LINEAR, PLAIN, 0, LINEAR, PLAIN]
    for key in ACT:
        r = Random("linear" + key)
        x, w, b, res = r.f(5, 19), r.f(23, 19, scale=0.4), r.f(23), r.f(5, 23)
        a = act_attrs(key)
        y = act_fn(key, d(x) @ d(w).T + d(b), a.get("act_alpha", 0)) + d(res)
        add("LINEAR", "act_" + key, [x, w, b, res], [y], a, "iwwi", use[:4])
    r = Random("linear plain")
    for rows, k, n in ((1, 1, 1), (1, 96, 65), (7, 33, 128), (40, 64, 48), (2, 257, 3)):
        x, w = r.f(rows, k), r.f(n, k, scale=0.3)
        add("LINEAR", f"plain_{rows}_{k}_{n}", [x, w], [d(x) @ d(w).T], {}, "iw", use[:2])
    x, w, b = r.f(2, 3, 17), r.f(17, 29, scale=0.4), r.f(29)
    add("LINEAR", "trans_rank3", [x, w, b], [d(x) @ d(w) + d(b)], {"trans": 1}, "iww", use[:3])
    x, w, res = r.f(6, 20), r.f(20, 20, scale=0.4), r.f(6, 20)
    add("LINEAR", "residual", [x, w, None, res], [d(x) @ d(w).T + d(res)], {}, "iw-i", use[:4])
    for act in ("silu", "gelu", "swiglu_oai"):
        a = act_attrs(act)
        alpha = a.get("act_alpha", 0)
        one = 1.0 if act == "swiglu_oai" else 0.0
        x, up, gate, bu, bg, res = r.f(4, 21), r.f(13, 21, scale=0.4), r.f(13, 21, scale=0.4), r.f(13), r.f(13), r.f(4, 13)
        y = act_fn(act, d(x) @ d(gate).T + d(bg), alpha) * (d(x) @ d(up).T + d(bu) + one)
        add("LINEAR", f"glu_separate_{act}", [x, up, bu, res, gate, bg], [y + d(res)], {**a, "glu": KIND["GLU", "separate"]}, "iwwiww", use)
        both, bias = torch.cat([gate, up]), torch.cat([bg, bu])
        add("LINEAR", f"glu_gate_first_{act}", [x, both, bias], [y], {**a, "glu": KIND["GLU", "gate_first"]}, "iww", use[:3])
        both, bias = torch.cat([up, gate]), torch.cat([bu, bg])
        add("LINEAR", f"glu_gate_last_{act}", [x, both, bias], [y], {**a, "glu": KIND["GLU", "gate_last"]}, "iww", use[:3])
        both, bias = torch.stack([gate, up], 1).reshape(26, 21), torch.stack([bg, bu], 1).reshape(26)
        add("LINEAR", f"glu_interleaved_{act}", [x, both, bias, res], [y + d(res)], {**a, "glu": KIND["GLU", "interleaved"]}, "iwwi", use[:4])
    x, up = r.f(3, 8), r.f(5, 8)
    add("LINEAR", "glu_none_attr", [x, up], [d(x) @ d(up).T], {"glu": KIND["GLU", "none"]}, "iw", use[:2])


def matmul_cases():
    r = Random("matmul")
    a, b = r.f(5, 9), r.f(9, 4)
    add("MATMUL", "plain", [a, b], [d(a) @ d(b)])
    a, b = r.f(3, 5, 9), r.f(3, 4, 9)
    add("MATMUL", "trans_b_scale", [a, b], [0.125 * d(a) @ d(b).transpose(-1, -2)], {"trans_b": 1, "scale": 0.125})
    a, b = r.f(2, 1, 5, 9), r.f(3, 9, 4)
    add("MATMUL", "broadcast", [a, b], [d(a) @ d(b)])
    a, b = r.f(5, 9), r.f(2, 3, 9, 4)
    add("MATMUL", "broadcast_a", [a, b], [d(a) @ d(b)])
    a, w = r.f(70, 33), r.f(33, 65)
    add("MATMUL", "weight", [a, w], [d(a) @ d(w)], {}, "iw")


def moe_cases():
    r = Random("moe")
    t, h, inner, e, k = 7, 12, 10, 5, 3
    x, wt = r.f(t, h), r.f(t, k).abs()
    idx = torch.from_numpy(np.stack([r.g.permutation(e)[:k] for _ in range(t)]).astype(np.int32))
    gate, up, down = r.f(e, inner, h, scale=0.5), r.f(e, inner, h, scale=0.5), r.f(e, h, inner, scale=0.5)
    bg, bu, bd = r.f(e, inner), r.f(e, inner), r.f(e, h)

    def run(act, alpha, limit, bias, gated=True):
        y = torch.zeros(t, h, dtype=torch.float64)
        for i in range(t):
            for j in range(k):
                n = int(idx[i, j])
                u = d(up[n]) @ d(x[i]) + (d(bu[n]) if bias else 0)
                if gated:
                    g = d(gate[n]) @ d(x[i]) + (d(bg[n]) if bias else 0)
                    if limit:
                        g, u = g.clamp(max=limit), u.clamp(-limit, limit)
                    v = act_fn(act, g, alpha) * (u + 1 if act == "swiglu_oai" else u)
                else:
                    v = act_fn(act, u, alpha)
                y[i] += d(wt[i, j]) * (d(down[n]) @ v + (d(bd[n]) if bias else 0))
        return y

    use = [0, 0, 0, MOE, MOE, PLAIN, PLAIN]
    add("MOE", "mixtral", [x, idx, wt, torch.cat([gate, up], 1), down], [run("silu", 0, 0, False)],
        {"act": ACT["silu"], "glu": KIND["GLU", "gate_first"]}, "iiiww", use[:5])
    add("MOE", "gate_last_bias", [x, idx, wt, torch.cat([up, gate], 1), down, torch.cat([bu, bg], 1), bd], [run("gelu", 0, 0, True)],
        {"act": ACT["gelu"], "glu": KIND["GLU", "gate_last"]}, "iiiwwww", use)
    add("MOE", "plain", [x, idx, wt, up, down, bu, bd], [run("relu", 0, 0, True, gated=False)], {"act": ACT["relu"]}, "iiiwwww", use)
    # gpt-oss: the transformers class itself
    from transformers.models.gpt_oss.configuration_gpt_oss import GptOssConfig
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
    config = GptOssConfig(hidden_size=h, intermediate_size=inner, num_local_experts=e, num_experts_per_tok=k)
    experts = GptOssExperts(config).double().eval()
    wide, bias = torch.stack([gate, up], 2).reshape(e, 2 * inner, h), torch.stack([bg, bu], 2).reshape(e, 2 * inner)
    with torch.no_grad():
        experts.gate_up_proj.copy_(d(wide).transpose(1, 2))
        experts.gate_up_proj_bias.copy_(d(bias))
        experts.down_proj.copy_(d(down).transpose(1, 2))
        experts.down_proj_bias.copy_(d(bd))
        experts.alpha, experts.limit = f32(1.702), 0.75
        y = run("swiglu_oai", f32(1.702), 0.75, True)
        try:
            theirs = experts(d(x), router_indices=idx.long(), routing_weights=d(wt)).reshape(t, h)
        except Exception:  # other versions want weights of all experts
            full = torch.zeros(t, e, dtype=torch.float64).scatter_(1, idx.long(), d(wt))
            theirs = experts(d(x)[None], router_indices=idx.long(), routing_weights=full).reshape(t, h)
    assert (theirs - y).abs().max() < 1e-9, (theirs - y).abs().max()
    add("MOE", "gpt_oss", [x, idx, wt, wide, down, bias, bd], [theirs],
        {"act": ACT["swiglu_oai"], "act_alpha": f32(1.702), "glu": KIND["GLU", "interleaved"], "limit": 0.75}, "iiiwwww", use)


# ---- norms ----

def norm_cases():
    r = Random("norm")
    for rows, cols in ((5, 33), (1, 1), (3, 384), (2, 768)):
        x, g, b, res = r.f(rows, cols, scale=2), r.f(cols), r.f(cols), r.f(rows, cols)
        ln = lambda v: F.layer_norm(d(v), (cols,), d(g), d(b), 1e-5)
        kind = {"norm_kind": KIND["NORM", "layer"], "eps": 1e-5}
        add("NORM", f"layer_{cols}", [x, g, b], [ln(x)], kind, "iww")
        s = x + res
        add("NORM", f"layer_residual_{cols}", [x, g, b, res], [ln(s), s], kind, "iwwi")
        add("NORM", f"layer_residual_only_{cols}", [x, g, b, res], [ln(s)], kind, "iwwi")
        rms = lambda v: d(v) * torch.rsqrt(d(v).pow(2).mean(-1, keepdim=True) + 1e-6) * d(g)
        add("NORM", f"rms_{cols}", [x, g], [rms(x)], {"norm_kind": KIND["NORM", "rms"], "eps": 1e-6}, "iw")
    x, g = r.f(2, 3, 24), r.f(24)
    v = d(x) * torch.rsqrt(d(x).pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + d(g))
    add("NORM", "rms_gemma", [x, g], [v], {"norm_kind": KIND["NORM", "rms"], "eps": 1e-6, "gamma_offset": 1.0}, "iw")
    grouped = d(x).reshape(2, 3, 4, 6)
    v = (grouped * torch.rsqrt(grouped.pow(2).mean(-1, keepdim=True) + 1e-5)).reshape(2, 3, 24) * d(g)
    add("NORM", "rms_groups", [x, g], [v], {"norm_kind": KIND["NORM", "rms"], "eps": 1e-5, "groups": 4}, "iw")
    x = r.f(4, 17)
    x[2] = 0
    add("NORM", "l2", [x], [F.normalize(d(x), dim=-1, eps=1e-12)], {"norm_kind": KIND["NORM", "l2"], "eps": 1e-12}, "i")
    add("NORM", "layer_plain", [x], [F.layer_norm(d(x), (17,), eps=1e-3)], {"norm_kind": KIND["NORM", "layer"], "eps": 1e-3}, "i")
    x = r.f(3, 40) + 100
    add("NORM", "layer_large_mean", [x], [F.layer_norm(d(x), (40,), eps=1e-5)], {"norm_kind": KIND["NORM", "layer"], "eps": 1e-5}, "i")


def group_norm_cases():
    r = Random("group_norm")
    for name, shape, groups, act in (("image", (3, 12, 5, 7), 4, "silu"), ("sound", (1, 6, 31), 6, "gelu"), ("one", (2, 8, 3, 3), 1, "none"), ("flat", (3, 10), 5, "none")):
        x, g, b = r.f(*shape), r.f(shape[1]), r.f(shape[1])
        y = act_fn(act, F.group_norm(d(x), groups, d(g), d(b), 1e-6))
        add("GROUP_NORM", name, [x, g, b], [y], {"groups": groups, "eps": 1e-6, "act": ACT[act]}, "iww")
    x = r.f(2, 4, 9)
    add("GROUP_NORM", "plain", [x], [F.group_norm(d(x), 2, eps=1e-5)], {"groups": 2, "eps": 1e-5}, "i")


# ---- convolutions, pooling, resizing ----

def conv_cases():
    r = Random("conv")
    use = [0, CONV, PLAIN, 0]

    def pads2(p):
        return list(p) + list(p)

    for name, shape, out, kernel, stride, pad, dilation, groups in (
            ("patch", (3, 3, 16, 24), 10, (8, 8), (8, 8), (0, 0), (1, 1), 1), ("same", (2, 5, 7, 9), 6, (3, 3), (1, 1), (1, 1), (1, 1), 1),
            ("strided", (1, 4, 11, 8), 8, (3, 5), (2, 3), (1, 2), (1, 1), 2), ("dilated", (1, 6, 12, 13), 4, (3, 2), (1, 2), (2, 1), (2, 3), 2),
            ("depthwise", (3, 7, 6, 5), 7, (3, 3), (1, 1), (1, 1), (1, 1), 7), ("one", (2, 9, 4, 4), 5, (1, 1), (1, 1), (0, 0), (1, 1), 1)):
        x, w, b = r.f(*shape), r.f(out, shape[1] // groups, *kernel, scale=0.4), r.f(out)
        y = F.conv2d(d(x), d(w), d(b), stride, pad, dilation, groups)
        add("CONV", "image_" + name, [x, w, b], [y], {"stride": stride, "pads": pads2(pad), "dilation": dilation, "groups": groups}, "iww", use[:3])
    for name, shape, out, kernel, stride, pad, dilation, groups in (("whisper", (1, 8, 50), 12, 3, 2, 1, 1, 1), ("wav", (3, 1, 97), 6, 10, 5, 0, 1, 1), ("groups", (1, 12, 20), 12, 5, 1, 2, 1, 4),
                                                                    ("dilated", (2, 4, 30), 6, 3, 1, 4, 4, 2)):
        x, w, b = r.f(*shape), r.f(out, shape[1] // groups, kernel, scale=0.4), r.f(out)
        y = F.conv1d(d(x), d(w), d(b), stride, pad, dilation, groups)
        add("CONV", "sound_" + name, [x, w, b], [y], {"stride": [stride], "pads": [pad, pad], "dilation": [dilation], "groups": groups}, "iww", use[:3])
    for key in ACT:
        x, w, b, res = r.f(1, 3, 5, 6), r.f(4, 3, 3, 3, scale=0.4), r.f(4), r.f(1, 4, 5, 6)
        a = act_attrs(key)
        y = act_fn(key, F.conv2d(d(x), d(w), d(b), 1, 1) + d(res), a.get("act_alpha", 0))
        add("CONV", "act_" + key, [x, w, b, res], [y], {"stride": [1, 1], "pads": [1, 1, 1, 1], **a}, "iwwi", use)
    x, w = r.f(2, 3, 8), r.f(4, 3, 4, scale=0.4)
    add("CONV", "uneven_pads", [x, w], [F.conv1d(F.pad(d(x), (3, 0)), d(w))], {"pads": [3, 0]}, "iw", use[:2])

    # over the rows of sequences
    c, k, lens = 6, 4, [5, 1, 8]
    x, w, b = r.f(14, c), r.f(c, 1, k), r.f(c)

    def causal(rows, w_, b_, left, right, groups=1, dilation=1):
        return F.conv1d(F.pad(d(rows).T[None], (left, right)), d(w_), None if b_ is None else d(b_), groups=groups, dilation=dilation)[0].T

    y = torch.cat([act_fn("silu", causal(v, w, b, 3, 0, c)) for v in x.split(lens)])
    add("CONV", "rows_causal", [x, w, b], [y], {"pads": [3, 0], "groups": c, "act": ACT["silu"], "space": 0}, "iww", use[:3], spaces=[{"ragged": True}], space=[0, -1, -1], lengths={0: lens})
    w2, b2 = r.f(8, 3, 3, scale=0.4), r.f(8)
    y = torch.cat([causal(v, w2, b2, 2, 2, 2, 2) for v in x.split(lens)])
    add("CONV", "rows_same_dilated", [x, w2, b2], [y], {"pads": [2, 2], "dilation": [2], "groups": 2, "space": 0}, "iww", use[:3], spaces=[{"ragged": True}], space=[0, -1, -1], lengths={0: lens})
    xa, xb = r.f(9, c), r.f(4, c)
    ya, yb = causal(xa, w, b, 3, 0, c), causal(xb, w, b, 3, 0, c)
    add("CONV", "rows_state", [[torch.cat([xa[:2], xb[:3]]), w, b], [torch.cat([xa[2:3], xb[3:]]), w, b], [xa[3:], w, b]], [[torch.cat([ya[:2], yb[:3]])], [torch.cat([ya[2:3], yb[3:]])], [ya[3:]]],
        {"pads": [3, 0], "groups": c, "space": 0}, "iww", use[:3], spaces=[{"ragged": True}], space=[0, -1, -1], lengths=[{0: [2, 3]}, {0: [1, 1]}, {0: [6]}],
        state={"kind": 3, "heads": c, "k_dim": 1, "v_dim": 1, "window": 3}, sequences=[[4, 2], [4, 2], [4]])
    add("CONV", "rows_state_static", [[xb, w, b], [xb, w, b]], [[yb], [yb]], {"pads": [3, 0], "groups": c, "space": 0, "state_static": 1}, "iww", use[:3], spaces=[{"ragged": True}],
        space=[0, -1, -1], lengths=[{0: [4]}, {0: [4]}], state={"kind": 3, "heads": c, "k_dim": 1, "v_dim": 1, "window": 3}, sequences=[[0], [0]])


def conv_transpose_cases():
    r = Random("conv_transpose")
    use = [0, CONV, PLAIN]
    x, w, b = r.f(2, 6, 5, 4), r.f(6, 3, 3, 2, scale=0.4), r.f(6)
    y = F.conv_transpose2d(d(x), d(w), d(b), (2, 3), (1, 0), (1, 2), 2, (2, 1))
    add("CONV_TRANSPOSE", "image", [x, w, b], [y], {"stride": [2, 3], "pads": [1, 0, 1, 0], "out_pads": [1, 2], "groups": 2, "dilation": [2, 1]}, "iww", use)
    x, w = r.f(1, 4, 9), r.f(4, 5, 4, scale=0.4)
    add("CONV_TRANSPOSE", "sound", [x, w], [act_fn("leaky_relu", F.conv_transpose1d(d(x), d(w), None, 2, 1), 0.01)], {"stride": [2], "pads": [1, 1], "act": ACT["leaky_relu"]}, "iw", use[:2])
    x, w, b = r.f(3, 2, 3, 3), r.f(2, 4, 2, 2, scale=0.4), r.f(4)
    add("CONV_TRANSPOSE", "upsample", [x, w, b], [act_fn("silu", F.conv_transpose2d(d(x), d(w), d(b), 2))], {"stride": [2, 2], "act": ACT["silu"]}, "iww", use)


def pool_cases():
    r = Random("pool")
    x = r.f(2, 3, 11, 9)
    mx, avg = KIND["POOL", "max"], KIND["POOL", "avg"]
    add("POOL", "max", [x], [F.max_pool2d(x, 3, 2, 1)], {"kind": mx, "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1]})
    add("POOL", "max_ceil", [x], [F.max_pool2d(x, (2, 3), (3, 2), 0, ceil_mode=True)], {"kind": mx, "kernel": [2, 3], "stride": [3, 2], "ceil": 1})
    add("POOL", "avg", [x], [F.avg_pool2d(d(x), 3, 2, 1, count_include_pad=True)], {"kind": avg, "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1})
    add("POOL", "avg_valid", [x], [F.avg_pool2d(d(x), 3, 2, 1, count_include_pad=False)], {"kind": avg, "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 0})
    add("POOL", "avg_ceil", [x], [F.avg_pool2d(d(x), (4, 2), (3, 2), (1, 1), ceil_mode=True, count_include_pad=True)],
        {"kind": avg, "kernel": [4, 2], "stride": [3, 2], "pads": [1, 1, 1, 1], "ceil": 1, "count_include_pad": 1})
    add("POOL", "adaptive", [x], [F.adaptive_avg_pool2d(d(x), (4, 7))], {"kind": avg, "adaptive": [4, 7]})
    add("POOL", "adaptive_max", [x], [F.adaptive_max_pool2d(x, (4, 2))], {"kind": mx, "adaptive": [4, 2]})
    add("POOL", "global", [x], [F.adaptive_avg_pool2d(d(x), 1)], {"kind": avg})
    s = r.f(3, 4, 13)
    add("POOL", "sound", [s], [F.max_pool1d(s, 4, 3, 2)], {"kind": mx, "kernel": [4], "stride": [3], "pads": [2, 2]})
    add("POOL", "sound_avg", [s], [F.avg_pool1d(d(s), 2, 2)], {"kind": avg, "kernel": [2], "stride": [2]})
    add("POOL", "sound_adaptive", [s], [F.adaptive_avg_pool1d(d(s), 5)], {"kind": avg, "adaptive": [5]})


def resize_cases():
    r = Random("resize")
    x, s = r.f(2, 3, 7, 10), r.f(1, 4, 11)
    names = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
    for key, mode in names.items():
        for h, w in ((14, 20), (5, 17), (3, 4), (7, 10), (1, 1)):
            kind = {"kind": KIND["RESIZE", key], "shape": dims(h, w)}
            if key == "nearest":
                add("RESIZE", f"nearest_{h}_{w}", [x], [F.interpolate(x, (h, w), mode=mode)], kind)
                continue
            for align in (0, 1):
                y = F.interpolate(d(x), (h, w), mode=mode, align_corners=bool(align))
                add("RESIZE", f"{key}_{h}_{w}_align{align}", [x], [y], {**kind, "align_corners": align})
            y = F.interpolate(d(x), (h, w), mode=mode, align_corners=False, antialias=True)
            add("RESIZE", f"{key}_{h}_{w}_antialias", [x], [y], {**kind, "antialias": 1})
    add("RESIZE", "sound_nearest", [s], [F.interpolate(s, 23, mode="nearest")], {"kind": KIND["RESIZE", "nearest"], "shape": dims(23)})
    for align in (0, 1):
        add("RESIZE", f"sound_linear_align{align}", [s], [F.interpolate(d(s), 6, mode="linear", align_corners=bool(align))],
            {"kind": KIND["RESIZE", "linear"], "shape": dims(6), "align_corners": align})


# ---- gather, scatter, cast, softmax, reduce, topk ----

def table_cases():
    r = Random("gather")
    t, i = r.f(20, 13), r.i(0, 20, 3, 5)
    add("GATHER", "rows", [t, i], [t[i.long()]], {"axis": 0}, "wi", [EMBEDDING, 0])
    add("GATHER", "scale", [t, i], [d(t)[i.long()] * 3.5], {"axis": 0, "scale": 3.5}, "wi", [EMBEDDING, 0])
    x, j = r.f(3, 7, 4), r.i(0, 7, 6)
    add("GATHER", "axis1", [x, j], [x[:, j.long()]], {"axis": 1})
    add("GATHER", "axis_last", [x, k := r.i(0, 4, 2)], [x[:, :, k.long()]], {"axis": -1})
    e = r.i(0, 99, 9)
    add("GATHER", "i32", [e, m := r.i(0, 9, 4)], [e[m.long()]], {"axis": 0})
    dst, idx, src = r.f(9, 5), torch.tensor([3, 0, 8], dtype=torch.int32), r.f(3, 5)
    y = dst.clone()
    y[idx.long()] = src
    add("SCATTER_ROWS", "set", [dst, idx, src], [y], {"scatter_mode": 0})
    idx = torch.tensor([3, 0, 3, 8], dtype=torch.int32)
    src = r.f(4, 5)
    add("SCATTER_ROWS", "add", [dst, idx, src], [d(dst).index_add(0, idx.long(), d(src))], {"scatter_mode": 1})
    y = dst.clone()
    for n in range(4):
        y[idx[n].long()] = src[n]
    add("SCATTER_ROWS", "set_twice", [dst, idx, src], [y], {"scatter_mode": 0})
    x = torch.tensor([[0.0, -0.0, 1.5, -1.5, 2.99, -2.99, 1e6, -7.0]])
    add("CAST", "f32_i32", [x], [x.int()], {"dtype": 3})
    add("CAST", "i32_f32", [v := r.i(-1000, 1000, 3, 5)], [v.float()], {"dtype": 0})
    add("CAST", "same", [x], [x], {"dtype": 0})


def softmax_cases():
    r = Random("softmax")
    x = r.f(3, 11, 5, scale=4)
    for axis in (-1, 1, 0):
        add("SOFTMAX", f"axis{axis}", [x], [torch.softmax(d(x), axis)], {"axis": axis})
        add("SOFTMAX", f"log_axis{axis}", [x], [torch.log_softmax(d(x), axis)], {"axis": axis, "log": 1})
    big = r.f(2, 30) * 100
    big[0, 3] = -math.inf
    add("SOFTMAX", "large", [big], [torch.softmax(d(big), -1)], {"axis": -1})
    add("SOFTMAX", "one", [o := r.f(4, 1)], [torch.ones_like(o)], {"axis": -1})


def reduce_cases():
    r = Random("reduce")
    kind = {key: KIND["REDUCE", key] for group, key in KIND if group == "REDUCE"}
    x = r.f(3, 7, 5)
    fn = {"sum": lambda v, a: d(v).sum(a), "mean": lambda v, a: d(v).mean(a), "max": lambda v, a: v.amax(a), "min": lambda v, a: v.amin(a),
          "argmax": lambda v, a: v.argmax(a), "first": lambda v, a: v.select(a, 0), "last": lambda v, a: v.select(a, v.shape[a] - 1)}
    lens = [4, 1, 6]
    rows = r.f(11, 9)
    for key, number in kind.items():
        for axis in (0, 1, -1):
            add("REDUCE", f"{key}_axis{axis}", [x], [fn[key](x, axis)], {"kind": number, "axis": axis})
        add("REDUCE", f"{key}_keep", [x], [fn[key](x, 1).unsqueeze(1)], {"kind": number, "axis": 1, "keep": 1})
        y = torch.stack([fn[key](v, 0) for v in rows.split(lens)])
        add("REDUCE", f"{key}_space", [rows], [y], {"kind": number, "space": 0}, spaces=[{"ragged": True}], space=[0], lengths={0: lens})
        grid = r.f(12, 5)
        y = torch.stack([fn[key](v, 0) for v in grid.split(4)])
        add("REDUCE", f"{key}_fixed", [grid], [y], {"kind": number, "space": 0}, spaces=[{"rows": 4, "items": 3}], space=[0])
    w = torch.tensor([1.0, 0, 1, 1, 0, 0.5, 0.25, 0, 0, 3, 1])
    parts = list(zip(rows.split(lens), w.split(lens)))
    add("REDUCE", "sum_weights_space", [rows, w], [torch.stack([(d(v) * d(u)[:, None]).sum(0) for v, u in parts])], {"kind": kind["sum"], "space": 0},
        spaces=[{"ragged": True}], space=[0, 0], lengths={0: lens})
    add("REDUCE", "mean_weights_space", [rows, w], [torch.stack([(d(v) * d(u)[:, None]).sum(0) / d(u).sum().clamp(min=1e-9) for v, u in parts])], {"kind": kind["mean"], "space": 0},
        spaces=[{"ragged": True}], space=[0, 0], lengths={0: lens})
    u = r.f(7).abs()
    add("REDUCE", "mean_weights_axis", [x, u], [(d(x) * d(u)[None, :, None]).sum(1) / d(u).sum()], {"kind": kind["mean"], "axis": 1})
    add("REDUCE", "mean_empty_item", [rows[:5]], [torch.stack([d(rows[:2]).mean(0), torch.zeros(9), d(rows[2:5]).mean(0)])], {"kind": kind["mean"], "space": 0},
        spaces=[{"ragged": True}], space=[0], lengths={0: [2, 0, 3]})
    n = r.i(-20, 20, 4, 6)
    add("REDUCE", "max_i32", [n], [n.amax(1)], {"kind": kind["max"], "axis": 1})
    add("REDUCE", "sum_i32", [n], [n.sum(0)], {"kind": kind["sum"], "axis": 0})
    add("REDUCE", "argmax_ties", [t := torch.tensor([[1.0, 3, 3, 2], [0, 0, 0, 0]])], [torch.tensor([1, 0])], {"kind": kind["argmax"], "axis": -1})


def topk_cases():
    r = Random("topk")
    x = r.f(5, 17)
    for k in (1, 4, 17):
        v, i = x.topk(k)
        add("TOPK", f"k{k}", [x], [v, i.int()], {"k": k, "sorted": 1})
    i = x.topk(6).indices.sort(-1).values
    add("TOPK", "unsorted", [x], [x.gather(1, i), i.int()], {"k": 6, "sorted": 0})
    t = torch.tensor([[1.0, 2, 2, 0, 2], [0, 0, 0, 0, 0]])
    add("TOPK", "ties", [t], [torch.tensor([[2.0, 2, 2], [0, 0, 0]]), torch.tensor([[1, 2, 4], [0, 1, 2]])], {"k": 3, "sorted": 1})


# ---- views ----

def view_cases():
    r = Random("views")
    x = r.f(3, 4, 5, 2)
    add("RESHAPE", "plain", [x], [x.reshape(6, 20)], {"shape": dims(6, 20)})
    add("RESHAPE", "flat", [x], [x.reshape(-1)], {"shape": dims(120)})
    for perm in ([0, 2, 1, 3], [3, 2, 1, 0], [1, 0, 3, 2], [0, 1, 2, 3]):
        add("TRANSPOSE", "".join(map(str, perm)), [x], [x.permute(perm)], {"perm": perm})
    m = r.f(37, 19)
    add("TRANSPOSE", "matrix", [m], [m.T], {"perm": [1, 0]})
    six = r.f(2, 2, 3, 2, 3, 2)
    add("TRANSPOSE", "windows", [six], [six.permute(0, 1, 3, 2, 4, 5)], {"perm": [0, 1, 3, 2, 4, 5]})
    for name, axis, start, end, step in (("first", 0, 1, 3, 1), ("middle", 1, 0, 2, 1), ("last", -1, 1, 2, 1), ("step", 2, 0, 5, 2), ("negative", 2, -3, -1, 1), ("step_offset", 1, 1, 4, 3)):
        key = axis % 4
        y = x[tuple(slice(None) if i != key else slice(start, end, step) for i in range(4))]
        attrs = {"axis": axis, "start": dims(start), "end": dims(end)}
        if step != 1:
            attrs["step"] = step
        add("SLICE", name, [x], [y], attrs)
    b = r.f(1, 4, 1)
    add("BROADCAST", "plain", [b], [b.expand(3, 4, 5)], {"shape": dims(3, 4, 5)})
    add("BROADCAST", "rank", [v := r.f(6)], [v.expand(2, 3, 6)], {"shape": dims(2, 3, 6)})
    parts = [r.f(2, n, 3) for n in (1, 4, 2)]
    add("CONCAT", "middle", parts, [torch.cat(parts, 1)], {"axis": 1})
    parts = [r.f(2, 3, n) for n in (5, 1)]
    add("CONCAT", "last", parts, [torch.cat(parts, -1)], {"axis": -1})
    parts = [r.i(0, 9, n) for n in range(1, 15)]
    add("CONCAT", "many_i32", parts, [torch.cat(parts)], {"axis": 0})
    y = r.f(2, 3, 5, 6)
    pads = [0, 1, 2, 0, 0, 0, 1, 3]
    add("PAD", "constant", [y], [F.pad(y, (0, 3, 2, 1, 1, 0), value=-1.5)], {"pads": pads, "kind": KIND["PAD", "constant"], "value": -1.5})
    add("PAD", "zero", [y], [F.pad(y, (1, 0))], {"pads": [0, 0, 0, 1, 0, 0, 0, 0], "kind": KIND["PAD", "constant"]})
    add("PAD", "reflect", [y], [F.pad(y, (2, 3, 1, 4), mode="reflect")], {"pads": [0, 0, 1, 2, 0, 0, 4, 3], "kind": KIND["PAD", "reflect"]})
    add("PAD", "edge", [y], [F.pad(y, (2, 1, 0, 3), mode="replicate")], {"pads": [0, 0, 0, 2, 0, 0, 3, 1], "kind": KIND["PAD", "edge"]})
    add("ALLREDUCE", "alone", [y], [y])
    rows = r.f(6, 5)  # no run of these has adapters: what they add is tests/unit/adapters_request_test.c's
    add("LOW_RANK", "no_adapter", [rows, r.f(6, 7)], [rows], {"slot": 0})
    add("LOW_RANK", "no_adapter_space", [rows, r.f(6, 7)], [rows], {"slot": 3, "space": 0}, spaces=[{"ragged": True}], space=[0, 0], lengths={0: [2, 0, 4]})


# ---- coverage and files ----

def check_coverage():
    missing = []
    for op, (_, operands, attributes) in OPS.items():
        mine = [c for c in cases if c["op"] == op]
        if not mine:
            missing.append(op)
        for a in attributes:
            if not any(a in c["attrs"] for c in mine):
                missing.append(f"{op}.{a}")
        for i, name in enumerate(operands):
            if not name.endswith("*") and not any(i < len(c["roles"]) and c["roles"][i] != "-" for c in mine):
                missing.append(f"{op} operand {name}")

    def seen(ops, key):
        return {c["attrs"][key] for c in cases if c["op"] in ops and key in c["attrs"]}

    for key, number in ACT.items():
        for op in ("LINEAR", "CONV"):
            if number not in seen([op], "act"):
                missing.append(f"{op} act {key}")
    for key, number in {**ACT, **UNARY}.items():
        if number not in seen(["UNARY"], "kind"):
            missing.append(f"unary {key}")
    for key, number in BINARY.items():
        if number not in seen(["BINARY"], "kind"):
            missing.append(f"binary {key}")
    where = {"GLU": (["LINEAR", "MOE"], "glu"), "BIAS": (["ATTENTION"], "bias_kind"), "ROPE": (["ROPE"], "rope_style"), "NORM": (["NORM"], "norm_kind"),
             "REDUCE": (["REDUCE"], "kind"), "POOL": (["POOL"], "kind"), "RESIZE": (["RESIZE"], "kind"), "PAD": (["PAD"], "kind")}
    for (group, key), number in KIND.items():
        if number not in seen(*where[group]) and key != "none":
            missing.append(f"{group} {key}")
    assert not missing, missing


def main():
    for make in (unary_cases, binary_cases, linear_cases, matmul_cases, moe_cases, attention_cases, rope_cases, norm_cases, group_norm_cases, conv_cases,
                 conv_transpose_cases, pool_cases, resize_cases, table_cases, softmax_cases, reduce_cases, topk_cases, scan_cases, delta_cases, view_cases):
        make()
    check_coverage()
    os.makedirs(OUT, exist_ok=True)
    total = 0
    for op in OPS:
        mine = [c for c in cases if c["op"] == op]
        names = {c["name"] for c in mine}
        path = os.path.join(OUT, op.lower() + ".safetensors")
        save_file({k: v for k, v in tensors.items() if k.split("/")[0] in names}, path, metadata={"cases": json.dumps(mine, separators=(",", ":"))})
        total += os.path.getsize(path)
    print(f"{len(cases)} cases of {len(OPS)} ops, {total / 1e6:.2f} MB")
    assert total < 3e6


if __name__ == "__main__":
    with torch.no_grad():
        main()
