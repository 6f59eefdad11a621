"""The cases of ops_cases.txt in PyTorch beside libaccel's CPU plugin, interleaved in one run with the same threads.

    python3 ops_peers.py BENCH PLUGIN.so [CASE-PREFIX...] [--threads N] [--rounds R] [--seconds S]

BENCH is the built cpu_ops_bench, which serves measurements on request.  Each round measures one library and then the other; printed are the medians of
the rounds and PyTorch's time over ours (above 1: ours is faster).  A case that PyTorch has no single call for is written with the calls one would use.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("bench")
parser.add_argument("plugin")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.1)
parser.add_argument("cases", nargs="*")
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(options.threads)
import torch  # noqa: E402  (after the number of threads is set)
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(options.threads)
CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops_cases.txt")
ACTS = {0: lambda x: x, 1: torch.relu, 2: F.gelu, 5: F.silu, 14: F.relu6}


def read_cases():
    for line in open(CASES):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        operands, attrs = [], {}
        for word in words[2:]:
            if "=" in word:
                key, value = word.split("=")
                attrs[key] = [float(v) if "." in v else int(v) for v in value.split(",")]
            else:
                kind, _, dims = word.partition(":")
                operands.append((kind, [int(d) for d in dims.split(",")] if dims else []))
        yield words[0], words[1], operands, attrs


def tensor(kind, dims):
    if kind == "-":
        return None
    if kind[0] == "i":
        return torch.randint(0, int(kind[1:]), dims)
    return torch.randn(dims) * (0.05 if kind in "wm" else 1.0)


def pairs(pads):
    """begins then ends, as F.pad wants them: last dim first."""
    n = len(pads) // 2
    return [p for i in reversed(range(n)) for p in (pads[i], pads[i + n])]


def conv(t, a):
    x, w, bias, residual = (t + [None] * 4)[:4]
    act = ACTS[a.get("act", [0])[0]]
    nd = w.dim() - 2
    stride, dilation, groups = a.get("stride", [1] * nd), a.get("dilation", [1] * nd), a.get("groups", [1])[0]
    pads = a.get("pads", [0] * 2 * nd)
    run = F.conv1d if nd == 1 else F.conv2d
    if "space" in a:  # rows of one sequence: channels last
        return lambda: act(run(F.pad(x.t()[None], pairs(pads)), w, bias, stride, 0, dilation, groups)).transpose(1, 2)[0].contiguous()
    assert pads[:nd] == pads[nd:]
    if residual is not None:
        return lambda: act(run(x, w, bias, stride, pads[:nd], dilation, groups) + residual)
    return lambda: act(run(x, w, bias, stride, pads[:nd], dilation, groups))


def conv_transpose(t, a):
    nd = t[1].dim() - 2
    run = F.conv_transpose1d if nd == 1 else F.conv_transpose2d
    return lambda: run(t[0], t[1], t[2], a.get("stride", 1), a.get("pads", [0] * nd)[:nd])


def pool(t, a):
    x, most = t[0], a["kind"][0] == 1
    if "adaptive" in a:
        return lambda: (F.adaptive_max_pool2d if most else F.adaptive_avg_pool2d)(x, a["adaptive"])
    pads = a.get("pads", [0] * 4)[:2]
    if most:
        return lambda: F.max_pool2d(x, a["kernel"], a["stride"], pads)
    return lambda: F.avg_pool2d(x, a["kernel"], a["stride"], pads, count_include_pad=False)


def resize(t, a):
    mode = {1: "nearest", 2: "bilinear", 3: "bicubic"}[a["kind"][0]]
    return lambda: F.interpolate(t[0], a["shape"], mode=mode, antialias=bool(a.get("antialias", [0])[0]))


def group_norm(t, a):
    act = ACTS[a.get("act", [0])[0]]
    return lambda: act(F.group_norm(t[0], a["groups"][0], t[1], t[2]))


def scan(t, a):
    """The recurrence step by step, as transformers' slow path does it on CPUs."""
    x, dt, rate, b, c, d, z, bias = t
    rate = -rate.abs() - 0.1

    def version1():
        delta = F.softplus(dt + bias)
        h, out = torch.zeros(x.shape[1], b.shape[1]), []
        decay = torch.exp(delta[:, :, None] * rate)
        move = (delta * x)[:, :, None] * b[:, None, :]
        for i in range(x.shape[0]):
            h = decay[i] * h + move[i]
            out.append(h @ c[i])
        return (torch.stack(out) + d * x) * F.silu(z)

    def version2():
        heads = rate.shape[0]
        xs = x.view(x.shape[0], heads, -1)
        delta = F.softplus(dt + bias)
        h, out = torch.zeros(heads, xs.shape[2], b.shape[1]), []
        decay = torch.exp(delta * rate)
        for i in range(x.shape[0]):
            h = decay[i][:, None, None] * h + (delta[i][:, None] * xs[i])[:, :, None] * b[i]
            out.append((h @ c[i] + d[:, None] * xs[i]).flatten())
        return torch.stack(out) * F.silu(z)

    return version1 if a["version"][0] == 1 else version2


def delta(t, a):
    """As transformers runs prompts without fla."""
    from transformers.models.qwen3_next import modeling_qwen3_next as theirs
    q, k, v, g, beta = t
    heads, rows = a["heads"][0], q.shape[0]
    shaped = [x.view(1, rows, n, -1) for x, n in ((q, heads), (k, heads), (v, g.shape[1]))]
    decay, rate = (-1.0 - 0.5 * g)[None], torch.sigmoid(beta)[None]
    return lambda: theirs.torch_chunk_gated_delta_rule(*shaped, g=decay, beta=rate, use_qk_l2norm_in_kernel=True)


def binary(t, a):
    kind = a["kind"][0]
    if kind == 8:
        mask = t[0].bool()
        return lambda: torch.where(mask, t[1], t[2])
    if kind == 7:
        t[0].abs_()
    return lambda: {1: torch.add, 3: torch.mul, 7: torch.pow}[kind](t[0], t[1])


def reduce(t, a):
    axis = a["axis"][0]
    return {2: lambda: t[0].mean(axis), 3: lambda: t[0].amax(axis), 5: lambda: t[0].argmax(axis)}[a["kind"][0]]


def moe(t, a):
    x, idx, wt, up, down = t
    inner = down.shape[2]

    def run():  # transformers' loop over the experts that are hit
        out = torch.zeros_like(x)
        for e in idx.unique().tolist():
            token, choice = torch.where(idx == e)
            h = F.linear(x[token], up[e])
            h = F.linear(F.silu(h[:, :inner]) * h[:, inner:], down[e])
            out.index_add_(0, token, h * wt[token, choice, None])
        return out
    return run


def scatter(t, a):
    index = t[1]
    return lambda: t[0].index_copy(0, index, t[2])


def pad(t, a):
    return lambda: F.pad(t[0], pairs(a["pads"]) if a["kind"][0] == 1 else pairs(a["pads"])[:4], mode="constant" if a["kind"][0] == 1 else "reflect")


def slices(t, a):
    index = [slice(None)] * t[0].dim()
    index[a["axis"][0]] = slice(a["start"][0], a["end"][0], a.get("step", [1])[0])
    return lambda: t[0][tuple(index)].contiguous()


OPS = {
    "CONV": conv, "CONV_TRANSPOSE": conv_transpose, "POOL": pool, "RESIZE": resize, "GROUP_NORM": group_norm, "SELECTIVE_SCAN": scan, "GATED_DELTA_RULE": delta,
    "TRANSPOSE": lambda t, a: lambda: t[0].permute(a["perm"]).contiguous(),
    "CONCAT": lambda t, a: lambda: torch.cat(t, a["axis"][0]),
    "SLICE": slices,
    "BROADCAST": lambda t, a: lambda: t[0].expand(a["shape"]).contiguous(),
    "PAD": pad, "BINARY": binary,
    "UNARY": lambda t, a: lambda: torch.sin(t[0]),
    "CAST": lambda t, a: lambda: t[0].to(torch.int32),
    "SOFTMAX": lambda t, a: lambda: torch.softmax(t[0], a["axis"][0]),
    "REDUCE": reduce,
    "TOPK": lambda t, a: lambda: torch.topk(t[0], a["k"][0]),
    "SCATTER_ROWS": scatter,
    "GATHER": lambda t, a: lambda: t[0].index_select(a["axis"][0], t[1]),
    "MOE": moe,
}


def measure(run, seconds):
    """Median milliseconds of a call."""
    times, start = [], time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e3


def main():
    ours = subprocess.Popen([options.bench, CASES, options.plugin, "--serve", "--threads", str(options.threads)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(f"torch {torch.__version__}, {options.threads} threads, medians of {options.rounds} rounds\n")
    print("| case | libaccel ms | PyTorch ms | PyTorch / libaccel |\n|---|---|---|---|")
    torch.manual_seed(1)
    with torch.inference_mode():
        for name, op, operands, attrs in read_cases():
            if options.cases and not any(name.startswith(c) for c in options.cases):
                continue
            run = OPS[op]([tensor(k, d) for k, d in operands], attrs)
            run()
            mine, theirs = [], []
            for _ in range(options.rounds):
                ours.stdin.write(f"{name} {options.seconds}\n")
                ours.stdin.flush()
                answer = ours.stdout.readline()
                if not answer:
                    sys.exit(f"{name}: cpu_ops_bench failed")
                mine.append(float(answer))
                theirs.append(measure(run, options.seconds))
            a, b = statistics.median(mine), statistics.median(theirs)
            print(f"| {name} | {a:.3f} | {b:.3f} | {b / a:.2f} |", flush=True)
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
