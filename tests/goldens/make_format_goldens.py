"""Makes tests/fixtures/weights/formats.safetensors: numbers and what PyTorch's and ml_dtypes' casts make of them in every format of src/formats, and
small matrices quantised by abs-max with PyTorch's own casts.

    pip install -r requirements.txt ml_dtypes
    python3 tests/goldens/make_format_goldens.py
"""
import pathlib

import ml_dtypes
import numpy
import torch
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "weights" / "formats.safetensors"
N = 6000


def numbers(rng):
    """Every size of float, numbers near the formats' ranges, and ties."""
    bits = rng.integers(0, 1 << 32, N // 3, dtype=numpy.uint32).view(numpy.float32)
    near = (rng.standard_normal(N // 3) * 2.0 ** rng.integers(-28, 18, N // 3)).astype(numpy.float32)
    ties = (rng.integers(-511, 512, N - 2 * (N // 3)) * 2.0 ** rng.integers(-20, 12, N - 2 * (N // 3))).astype(numpy.float32)
    x = numpy.concatenate([bits, near, ties])
    return x[~numpy.isnan(x)]


def main():
    rng = numpy.random.default_rng(5)
    x = numbers(rng)
    finite = x[numpy.isfinite(x)]
    t = torch.from_numpy(x)
    out = {"x": x, "fp16": t.half().view(torch.int16).numpy(), "bf16": t.bfloat16().view(torch.int16).numpy(),
           # ours saturate where PyTorch's e4m3 gives NaN: only what is inside the range is compared
           "e4m3": torch.from_numpy(numpy.clip(x, -448, 448)).to(torch.float8_e4m3fn).view(torch.uint8).numpy(),
           "e5m2": t.to(torch.float8_e5m2).view(torch.uint8).numpy(),
           "e2m1": numpy.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(numpy.uint8),
           # of powers of two only: ml_dtypes rounds others its own way
           "e8m0.x": (2.0 ** rng.integers(-127, 128, 200)).astype(numpy.float32)}
    out["e8m0"] = out["e8m0.x"].astype(ml_dtypes.float8_e8m0fnu).view(numpy.uint8)
    for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        out[f"{name}.values"] = torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy()
    w = torch.from_numpy((rng.standard_normal((9, 130)) * 0.05).astype(numpy.float32))
    peak = w.abs().amax(1, keepdim=True)
    out["w"] = w.numpy()
    out["w.i8"] = torch.clamp(torch.round(w / (peak / 127)), -127, 127).to(torch.int8).numpy()
    out["w.i8.scale"] = (peak / 127).numpy()
    out["w.e4m3"] = (w / (peak / 448)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    out["w.e4m3.scale"] = (peak / 448).numpy()
    assert finite.size > N * 0.9
    save_file({k: numpy.ascontiguousarray(v) for k, v in out.items()}, OUT)


if __name__ == "__main__":
    main()
