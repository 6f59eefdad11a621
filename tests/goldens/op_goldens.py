"""What the op golden scripts share: the lists of ops.def, seeded random tensors, cases and activations (see make_op_goldens.py)."""
import os
import re
import zlib

import numpy as np
import torch
import torch.nn.functional as F

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DEF = open(os.path.join(ROOT, "include", "accel", "ops.def")).read()


def table(macro, fields):
    """Rows of one macro of ops.def as tuples of strings."""
    pattern = r"^" + macro + r"\(" + r",\s*".join([r'"?([^",]*)"?'] * fields)
    return re.findall(pattern, DEF, re.M)


OPS = {name: (int(number), operands.split(), attributes.split())
       for name, number, operands, _, attributes in
       re.findall(r'^ACCEL_OP\((\w+), (\d+), "([^"]*)", (\d),\s*"((?:[^"]|"\s*")*)"', DEF, re.M)}
OPS = {k: (n, o, " ".join(a).replace('"', " ").split()) for k, (n, o, a) in OPS.items()}
ACT = {key: int(number) for _, number, key in table("ACCEL_ACT", 3)}
UNARY = {key: int(number) for _, number, key in table("ACCEL_UNARY", 3)}
BINARY = {key: int(number) for _, number, key in table("ACCEL_BINARY", 3)}
KIND = {(group, key): int(number) for group, _, number, key in table("ACCEL_KIND", 4)}
LINEAR, HEAD, EMBEDDING, CONV, MOE, PLAIN = 1, 2, 3, 4, 5, 6

cases = []
tensors = {}


class Random:
    """Seeded by the case's name: adding a case changes no other."""

    def __init__(self, name):
        self.g = np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape, scale=1.0):
        return torch.from_numpy((self.g.standard_normal(shape) * scale).astype(np.float32))

    def i(self, low, high, *shape):
        return torch.from_numpy(self.g.integers(low, high, shape).astype(np.int32))


def store(key, value):
    a = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    a = a.astype(np.int32) if a.dtype.kind in "iub" else a.astype(np.float32)
    tensors[key] = np.ascontiguousarray(a)


def add(op, name, ins, outs, attrs=None, roles=None, uses=None, spaces=None, space=None, lengths=None, state=None, sequences=None):
    """ins, outs: tensors of one run, or lists of them for several runs (then lengths and sequences are lists too)."""
    several = isinstance(ins[0], list)
    runs_in, runs_out = (ins, outs) if several else ([ins], [outs])
    runs_len = (lengths if several else [lengths]) if lengths is not None else [{} for _ in runs_in]
    n = len(runs_in[0])
    roles = roles or "".join("-" if t is None else "i" for t in runs_in[0])
    full = f"{op.lower()}.{name}"
    assert not any(c["name"] == full for c in cases), full
    for run, (values, results, lens) in enumerate(zip(runs_in, runs_out, runs_len)):
        for i, value in enumerate(values):
            if value is not None and (run == 0 or roles[i] == "i"):
                store(f"{full}/{run}/in{i}", value)
        for k, value in enumerate(results):
            if value is not None:
                store(f"{full}/{run}/out{k}", value)
        for s, value in lens.items():
            store(f"{full}/{run}/len{s}", np.asarray(value, np.int32))
    cases.append(dict(name=full, op=op, attrs=attrs or {}, roles=roles, uses=uses or [PLAIN if r == "w" else 0 for r in roles],
                      spaces=spaces or [], space=space or [-1] * n, outputs=[int(t is not None) for t in runs_out[0]], state=state,
                      sequences=sequences or [], runs=len(runs_in)))


def d(t):
    return None if t is None else t.double() if t.is_floating_point() else t


def dims(*v):
    return {"dims": list(v)}


# ---- activations and unary functions ----

def act_fn(key, x, alpha=0.0, beta=0.0):
    return {
        "none": lambda: x, "relu": lambda: F.relu(x), "gelu": lambda: F.gelu(x), "gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "gelu_quick": lambda: x * torch.sigmoid(1.702 * x), "silu": lambda: F.silu(x), "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x), "relu2": lambda: F.relu(x) ** 2, "mish": lambda: F.mish(x),
        "leaky_relu": lambda: F.leaky_relu(x, alpha), "softplus": lambda: torch.logaddexp(x, torch.zeros_like(x)),
        "hardswish": lambda: F.hardswish(x), "elu": lambda: F.elu(x, alpha), "relu6": lambda: F.relu6(x),
        "swiglu_oai": lambda: x * torch.sigmoid(alpha * x), "exp": lambda: torch.exp(x), "log": lambda: torch.log(x), "neg": lambda: -x,
        "sqrt": lambda: torch.sqrt(x), "rsqrt": lambda: torch.rsqrt(x), "clamp": lambda: torch.clamp(x, alpha, beta),
        "sin": lambda: torch.sin(x), "cos": lambda: torch.cos(x), "affine": lambda: alpha * x + beta, "abs": lambda: torch.abs(x),
    }[key]()


ALPHA = {"leaky_relu": 0.25, "elu": 1.5, "swiglu_oai": 1.702, "clamp": -0.75, "affine": 1.75}
BETA = {"clamp": 0.5, "affine": -0.375}


def f32(x):
    return float(np.float32(x))


def act_attrs(key):
    attrs = {"act": ACT[key]}
    if key in ALPHA:
        attrs["act_alpha"] = f32(ALPHA[key])
    return attrs
