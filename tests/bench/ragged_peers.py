"""A ragged batch beside padded and bucketed peers: 32 sequences, log-normal lengths, through the real MiniLM and BERT-base.

    python3 ragged_peers.py PEERS.PY --cache DIR prepare
    python3 ragged_peers.py PEERS.PY --cache DIR run --accel build/release/bin/accel --precisions fp32,int8 --out ragged.json

PEERS.PY is the side-by-side harness for encoders; this adds two workloads to it, minilm-ragged and bert-ragged.  Each peer runs in two ways:
  NAME-padded    the whole batch, padded to its longest sequence, with its attention mask or lengths (CTranslate2 removes the padding itself)
  NAME-bucketed  the batch sorted by length and cut into 2, 4 or 8 parts, each padded to its own longest, at the cuts that leave the least padding;
                 how many parts is the fastest of the three, tried when the peer is loaded
libaccel gets the same lengths in their first order, packed.  Outputs are compared with PyTorch fp32 where the mask is 1.  GFLOP/s of the harness's tables count
the padded batch's work.  Options of run: --workloads, --threads, --rounds, --seconds as the harness explains.
"""
import contextlib
import importlib.util
import json
import math
import os
import random
import sys
import tempfile
import time

import numpy as np

SEED, BATCH, MEAN, LONGEST, SIGMA = 20261121, 32, 40, 256, 0.8
BASES = ("torch", "onnxruntime", "openvino", "ctranslate2")
STYLES = {"padded": (1,), "bucketed": (2, 4, 8)}
WORKLOADS = {"minilm-ragged": "minilm", "bert-ragged": "bert"}


def draw_lengths():
    """A log-normal variable has the mean exp(mu + sigma^2 / 2)."""
    rng = random.Random(SEED)
    mu = math.log(MEAN) - SIGMA ** 2 / 2
    return [min(LONGEST, max(3, round(rng.lognormvariate(mu, SIGMA)))) for _ in range(BATCH)]


LENGTHS = draw_lengths()
WIDTH = max(LENGTHS)
MASK = (np.arange(WIDTH)[None, :] < np.array(LENGTHS)[:, None]).astype(np.int64)


def buckets(parts):
    """Rows of each part, the batch sorted by length and cut where the padded tokens are fewest."""
    order = sorted(range(BATCH), key=lambda i: LENGTHS[i])
    best = {(0, 0): (0, [])}  # (rows taken, parts made): padded tokens, cuts
    for made in range(1, parts + 1):
        for end in range(1, BATCH + 1):
            ways = [(best[start, made - 1][0] + (end - start) * LENGTHS[order[end - 1]], best[start, made - 1][1] + [end])
                    for start in range(end) if (start, made - 1) in best]
            if ways:
                best[end, made] = min(ways)
    cuts = [0] + best[BATCH, parts][1]
    return [order[a:b] for a, b in zip(cuts, cuts[1:])]


def part_inputs(inputs, rows):
    width = max(LENGTHS[i] for i in rows)
    return {name: np.ascontiguousarray(array[rows, :width]) for name, array in inputs.items()}


def load_harness(path):
    spec = importlib.util.spec_from_file_location("peers", path)
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    return peers


# ------------------------------------------------------------------- one peer: a function of (inputs of one shape) -> callable

def open_torch(peers, model, workload, precision, threads):
    import torch
    torch.set_num_threads(threads)
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    net = peers.load_torch(model, dtype=kind)
    if precision == "int8":
        from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic
        net = quantize_dynamic(net, {torch.nn.Linear: per_channel_dynamic_qconfig})

    def shape(inputs):
        tensors = {k: torch.from_numpy(v) for k, v in inputs.items()}

        def run():
            with torch.inference_mode():
                return net(**tensors)[0].float().numpy()
        return run
    return shape


def open_onnxruntime(peers, model, workload, precision, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(peers.converted(workload, precision + ".onnx")), options,
                                           providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def shape(inputs):
        feed = {name: inputs[name] for name in names}
        return lambda: session.run(None, feed)[0]
    return shape


def open_openvino(peers, model, workload, precision, threads):
    """One compiled model for each shape: static shapes are what it is fastest with."""
    import openvino
    core = openvino.Core()
    if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise peers.Unsupported("OpenVINO reports no BF16 on this CPU")
    path = peers.converted(workload, "int8.xml" if precision == "int8" else "fp32.onnx")

    def shape(inputs):
        net = core.read_model(str(path))
        feed = {name: inputs[name] for port in net.inputs for name in port.names if name in inputs}
        net.reshape({name: list(array.shape) for name, array in feed.items()})
        compiled = core.compile_model(net, "CPU", {
            "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32"})
        request = compiled.create_infer_request()

        def run():
            request.infer(feed, share_inputs=True)
            return request.get_output_tensor(0).data
        return run
    return shape


def open_ctranslate2(peers, model, workload, precision, threads):
    import ctranslate2
    kind = "float32" if precision == "fp32" else precision
    encoder = ctranslate2.Encoder(str(peers.CACHE / "converted" / f"{model}.ct2-{kind}"), device="cpu", compute_type=kind,
                                  inter_threads=1, intra_threads=threads)

    def shape(inputs):
        ids = ctranslate2.StorageView.from_array(inputs["input_ids"].astype(np.int32))
        lengths = ctranslate2.StorageView.from_array(inputs["attention_mask"].sum(1).astype(np.int32))
        return lambda: np.array(encoder.forward_batch(ids, lengths).last_hidden_state)
    return shape


def fastest(peers, call, seconds=0.7):
    with peers.bench_lock(os.environ["RAGGED_LOCK"]):
        call()
        times, begin = [], time.perf_counter()
        while len(times) < 2 or time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return min(times)


def make_peer(peers, base, style):
    def load(workload, precision, threads, inputs):
        shape = globals()["open_" + base](peers, WORKLOADS[workload], workload, precision, threads)

        def run_parts(parts):
            groups = buckets(parts)
            runs = [shape(part_inputs(inputs, rows)) for rows in groups]

            def run():
                outputs = [call() for call in runs]
                whole = np.zeros((BATCH, WIDTH, outputs[0].shape[2]), np.float32)
                for rows, y in zip(groups, outputs):
                    whole[rows, :y.shape[1]] = y
                return whole
            return run

        counts = STYLES[style]
        timed = {parts: fastest(peers, run_parts(parts)) for parts in counts} if len(counts) > 1 else {counts[0]: 0.0}
        load.parts = min(timed, key=timed.get)
        return run_parts(load.parts)
    load.parts = 0
    return load


# ------------------------------------------------------------------- into the harness

def make_dynamic_onnx(peers, original):
    def make_onnx(workload):
        """With any batch and length, for the parts."""
        import torch
        if workload not in WORKLOADS:
            return original(workload)
        path = peers.converted(workload, "fp32.onnx")
        if path.exists():
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        inputs = {k: torch.from_numpy(v) for k, v in peers.load_data(workload)[0].items()}

        class FirstOutput(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net = net

            def forward(self, input_ids, attention_mask):
                return self.net(input_ids=input_ids, attention_mask=attention_mask)[0]

        rows, width = torch.export.Dim("rows", min=1, max=1024), torch.export.Dim("width", min=2, max=512)
        net = FirstOutput(peers.load_torch(WORKLOADS[workload])).eval()
        torch.onnx.export(net, (inputs["input_ids"], inputs["attention_mask"]), str(path), dynamo=True, external_data=False, verbose=False,
                          input_names=["input_ids", "attention_mask"], output_names=["out"],
                          dynamic_shapes={"input_ids": {0: rows, 1: width}, "attention_mask": {0: rows, 1: width}})
        return None
    return make_onnx


def extend(peers, path):
    ones, agreement, run_json = np.ones, peers.agreement, peers.run_json
    peers.WORKLOADS.clear()
    peers.WORKLOADS.update({name: (model, BATCH, WIDTH) for name, model in WORKLOADS.items()})
    names = [f"{base}-{style}" for base in BASES for style in STYLES]
    peers.PEERS[:] = [(name, precision) for name in names for precision in ("fp32", "int8")]
    imports = dict(peers.IMPORTS)
    peers.IMPORTS.clear()
    loaders = {}
    for name in names:
        base, style = name.split("-")
        peers.IMPORTS[name] = imports[base]
        loaders[name] = make_peer(peers, base, style)
        setattr(peers, "peer_" + name.replace("-", "_"), loaders[name])

    class Numbers:
        """make_data asks for a mask of ones; this one ends where the sequences do."""

        def __getattr__(self, name):
            return (lambda shape, dtype=float: MASK if tuple(shape) == MASK.shape and dtype == np.int64 else ones(shape, dtype)) \
                if name == "ones" else getattr(np, name)

    def masked_agreement(output, reference):
        if output.shape[:2] == MASK.shape:
            output, reference = output * MASK[:, :, None], reference * MASK[:, :, None]
        parts = max((load.parts for load in loaders.values()), default=0)
        return {**agreement(output, reference), "parts": parts}

    def with_lengths(command, nice):
        """accel bench: the lengths instead of batch and width."""
        if "--batch" in command:
            at = command.index("--batch")
            command = command[:at] + ["--lengths", ",".join(map(str, LENGTHS))] + command[at + 4:]
        with lock(os.environ["RAGGED_LOCK"]):
            return run_json(command, nice)

    lock, worker_round, worker = peers.bench_lock, peers.Worker.round, "worker" in sys.argv

    def lock_and_round(self, seconds):
        with lock(os.environ["RAGGED_LOCK"]):
            worker_round(self, seconds)

    if not worker:  # peers take long to load: the lock is for what is timed, not for all of a workload
        os.environ["RAGGED_LOCK"] = sys.argv[sys.argv.index("--lock") + 1] if "--lock" in sys.argv else os.path.join(tempfile.gettempdir(), "bench.lock")
        peers.bench_lock = lambda _path: contextlib.nullcontext()
        peers.Worker.round = lock_and_round
    peers.np = Numbers()
    peers.agreement = masked_agreement
    peers.run_json = with_lengths
    peers.make_onnx = make_dynamic_onnx(peers, peers.make_onnx)
    peers.COLUMNS.insert(2, ("parts", "parts", "d"))
    peers.myself = lambda *words: [sys.executable, __file__, path, "--cache", str(peers.CACHE), *map(str, words)]


def summary(path):
    """Ratios of times: the best peer's over libaccel's."""
    rows = json.loads(open(path, encoding="utf-8").read())["rows"]
    print("\n| workload | threads | precision | libaccel ms | best padded | ms | times | best bucketed (parts) | ms | times |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for key in sorted({(r["workload"], r["threads"], r["precision"]) for r in rows}):
        same = [r for r in rows if (r["workload"], r["threads"], r["precision"]) == key]
        ours = [r for r in same if r["peer"] == "libaccel"]
        best = {style: min((r for r in same if r["peer"].endswith(style)), key=lambda r: r["latency_ms"], default=None) for style in STYLES}
        if not ours or None in best.values():
            continue
        ms = ours[0]["latency_ms"]
        cells = []
        for style, r in best.items():
            name = r["peer"].split("-")[0] + (f" ({r['parts']})" if style == "bucketed" else "")
            cells += [name, f"{r['latency_ms']:.1f}", f"{r['latency_ms'] / ms:.2f}"]
        print("| " + " | ".join([key[0], str(key[1]), key[2], f"{ms:.1f}", *cells]) + " |")


def main():
    harness = sys.argv.pop(1)
    peers = load_harness(harness)
    extend(peers, harness)
    if "worker" not in sys.argv:
        print(f"{BATCH} lengths, log-normal, mean {MEAN}, sigma {SIGMA}, at most {LONGEST}, seed {SEED}: {LENGTHS}\n"
              f"{sum(LENGTHS)} tokens, mean {sum(LENGTHS) / BATCH:.1f}, longest {WIDTH}; padded {BATCH * WIDTH}, in 2, 4, 8 parts "
              + ", ".join(str(sum(len(rows) * max(LENGTHS[i] for i in rows) for rows in buckets(k))) for k in STYLES["bucketed"]), flush=True)
    peers.main()
    if "run" in sys.argv:
        summary(sys.argv[sys.argv.index("--out") + 1] if "--out" in sys.argv else "peers.json")


if __name__ == "__main__":
    main()
