"""PyTorch's side of scripts/card.  Each line of stdin is a question, a list of words in JSON; its answers are lines of JSON, the last of them
{"answered": true}, or {"answered": false, "reason": ...}.  Medians; the card is waited for.

    ["copy", DEVICE]                                      a large copy, bytes read and written
    ["gemm", DEVICE, "M,M,...", "N,K", ...]               products of M rows by weights [N, K]; on NVIDIA's cards those of cuBLAS(Lt)
    ["model", DEVICE, ID, TASK, BATCH, SEQ, PRECISION]    a transformers model with random weights of the shape in the registry of libaccel
"""
import gc
import json
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("PyTorch is not installed", file=sys.stderr)
    sys.exit(3)

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def say(**fields):
    print(json.dumps(fields), flush=True)


def seconds(device, call, most=2.0):
    """The median of some runs behind two that do not count."""
    def once():
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin
    once(), once()
    found, end = [], time.perf_counter() + most
    while len(found) < 3 or (len(found) < 50 and time.perf_counter() < end):
        found.append(once())
    return statistics.median(found)


def copy(device):
    n = (1 << 30 if device == "cuda" else 1 << 26)
    a = torch.zeros(n, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    say(gbytes=2 * n / seconds(device, lambda: b.copy_(a)) / 1e9)


def gemm(device, rows, *shapes):
    """Many products in a row, as gpu_gemm_bench has them, so that launches overlap."""
    torch.backends.cuda.matmul.allow_tf32 = False
    if device == "cuda" and torch.version.cuda and hasattr(torch.backends.cuda, "preferred_blas_library"):
        torch.backends.cuda.preferred_blas_library("cublaslt")
    times = 32 if device == "cuda" else 2
    for name, dtype in DTYPES.items():
        for shape in shapes:
            n, k = map(int, shape.split(","))
            w = [torch.randn(n, k, device=device).to(dtype) for _ in range(times)]
            for m in map(int, rows.split(",")):
                x = torch.randn(m, k, device=device).to(dtype)
                t = seconds(device, lambda: [torch.nn.functional.linear(x, v) for v in w], 0.5)
                say(format=name, n=n, k=k, m=m, gflops=round(2e-9 * n * k * m * times / t, 1))
        if device == "cuda":
            a, b = (torch.randn(8192, 8192, device=device).to(dtype) for _ in range(2))
            say(format=name, n=8192, k=8192, m=8192, largest=True, gflops=round(2e-9 * 8192**3 / seconds(device, lambda: a @ b), 1))


def build(identifier, dtype, device):
    import transformers
    tool = os.environ.get("ACCEL_TOOL", os.path.join(ROOT, "build", "card", "bin", "accel"))
    entry = json.loads(subprocess.run([tool, "registry", identifier, "--json"], stdout=subprocess.PIPE, check=True).stdout)["entry"]
    config = transformers.AutoConfig.for_model(**entry["config"])
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(transformers, entry["architecture"])(config)
    return model.to(dtype).eval(), config


@torch.inference_mode()
def model(device, identifier, task, batch, seq, precision):
    batch, seq = int(batch), int(seq)
    net, config = build(identifier, DTYPES[precision], device)
    if task == "encode":
        x = {"input_ids": torch.randint(5, 1000, (batch, seq), device=device)} if seq else {"pixel_values": torch.randn(batch, 3, 224, 224, device=device, dtype=DTYPES[precision])}
        base = net.base_model
        say(median_ms=1e3 * seconds(device, lambda: base(**x)))
    elif task == "generate":
        ids, new = torch.randint(5, 1000, (batch, seq), device=device), 64
        prompt = seconds(device, lambda: net.generate(ids, max_new_tokens=1, min_new_tokens=1, do_sample=False))
        whole = seconds(device, lambda: net.generate(ids, max_new_tokens=new, min_new_tokens=new, do_sample=False), 8)
        say(prefill_tokens_per_s=batch * seq / prompt, decode_tokens_per_s=batch * (new - 1) / (whole - prompt))
    else:
        features, new = torch.randn(batch, config.num_mel_bins, 3000, device=device, dtype=DTYPES[precision]), 64
        encoder = seconds(device, lambda: net.model.encoder(features))
        hidden = net.model.encoder(features)
        whole = seconds(device, lambda: net.generate(encoder_outputs=hidden, max_new_tokens=new, min_new_tokens=new, do_sample=False), 8)
        say(encoder_ms=1e3 * encoder, decoder_ms_per_token=1e3 * whole / new)


def main():
    for line in sys.stdin:
        what, device, *rest = json.loads(line)
        try:
            if device == "cuda" and not torch.cuda.is_available():
                raise RuntimeError("torch sees no card")
            {"copy": copy, "gemm": gemm, "model": model}[what](device, *rest)
            say(answered=True)
        except Exception as error:  # pylint: disable=broad-exception-caught
            say(answered=False, reason=f"{type(error).__name__}: {error}"[-300:])
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
