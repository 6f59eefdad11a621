"""Embedders, vision and sound models at their public shapes, beside ONNX Runtime and OpenVINO in one run.

    python3 encoder_peers.py prepare DIR [MODEL...]      random weights, saved by transformers; exported to ONNX; quantised to int8 as the peers do it
    python3 encoder_peers.py run DIR [MODEL...] [--precisions fp32,int8] [--threads 1,2] [--rounds R] [--seconds S] [--peers P,..] [--lock FILE] [--cpu-time]

MODELS has the shapes; where a public depth or vocabulary is cut, its "cut" says to what.  Every peer is a process of its own for a model, precision and number
of threads; all are loaded before anything is timed, all but one are stopped (SIGSTOP), and the rounds visit each, one further each time, for S seconds after an
uncounted run.  Printed are medians of the rounds' medians, fastest runs, the cosine to PyTorch's output at fp32, and the faster peer's time over libaccel's
(above 1: libaccel is faster; in brackets that of the fastest runs).  int8 of ONNX Runtime is quantize_dynamic of its matrix products, of OpenVINO nncf's
quantize, calibrated on the very input.  --lock: a file that is locked (flock) while times are taken.  --cpu-time: processor time of one thread in place of the
clock, for a machine with other work.  Needs torch, transformers, onnx, onnxscript, onnxruntime, openvino and nncf; libaccel by ACCEL_LIBRARY and the package in
PYTHONPATH.
"""
import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import numpy as np

WORDS = 30000  # of every vocabulary: a table of words is read, not computed with


def text(batch, length, words=WORDS):
    def make(draw):
        return {"input_ids": draw.integers(10, words, (batch, length)), "attention_mask": np.ones((batch, length), np.int64)}
    return make


def picture(height, width=None):
    return lambda draw: {"pixel_values": draw.standard_normal((1, 3, height, width or height), dtype=np.float32)}


def sound(samples, decoder=False):
    def make(draw):
        given = {"input_values": draw.standard_normal((1, samples), dtype=np.float32)}
        return {**given, "decoder_input_ids": np.ones((1, 1), np.int64)} if decoder else given
    return make


def page(length):
    def make(draw):
        corner, size = draw.integers(0, 500, (1, length, 2)), draw.integers(1, 500, (1, length, 2))
        return {**text(1, length)(draw), "bbox": np.concatenate([corner, corner + size], 2), **picture(224)(draw)}
    return make


def asked_picture(side, rows):
    def make(draw):
        ids = np.concatenate([np.full((1, rows), WORDS - 1), draw.integers(10, WORDS - 1, (1, 8))], 1)
        return {"input_ids": ids, **picture(side)(draw), "decoder_input_ids": np.full((1, 1), 2)}
    return make


# name: class, configuration of transformers (T), inputs, what is cut
MODELS = {
    "embeddinggemma": ("Gemma3TextModel", lambda T: T.Gemma3TextConfig(
        vocab_size=WORDS, hidden_size=768, intermediate_size=1152, num_hidden_layers=12, num_attention_heads=3, num_key_value_heads=1, head_dim=256,
        max_position_embeddings=2048, query_pre_attn_scalar=256, sliding_window=512, use_bidirectional_attention=True), text(1, 128), "12 of 24 layers"),
    "jina-embeddings-v3": ("JinaEmbeddingsV3Model", lambda T: T.JinaEmbeddingsV3Config(vocab_size=WORDS, num_hidden_layers=6), text(1, 128), "6 of 24 layers"),
    "gte-multilingual": ("GteModel", lambda T: T.GteConfig(vocab_size=WORDS, num_hidden_layers=4), text(1, 128), "4 of 12 layers"),
    "eurobert": ("EuroBertModel", lambda T: T.EuroBertConfig(vocab_size=WORDS, num_hidden_layers=4, pad_token_id=1, bos_token_id=2, eos_token_id=3, mask_token_id=4),
                 text(1, 128), "4 of 12 layers"),
    "mobilebert": ("MobileBertModel", lambda T: T.MobileBertConfig(num_hidden_layers=6), text(1, 128), "6 of 24 layers"),
    "esm2": ("EsmModel", lambda T: T.EsmConfig(
        vocab_size=33, mask_token_id=32, pad_token_id=1, hidden_size=640, num_hidden_layers=5, num_attention_heads=20, intermediate_size=2560,
        position_embedding_type="rotary", token_dropout=True, emb_layer_norm_before=False, layer_norm_eps=1e-5), text(1, 256, 24), "150M's width, 5 of 30 layers"),
    "depth-anything": ("DepthAnythingForDepthEstimation", lambda T: T.DepthAnythingConfig(backbone_config=T.Dinov2Config(
        hidden_size=384, num_hidden_layers=4, num_attention_heads=6, image_size=518, out_indices=[1, 2, 3, 4], reshape_hidden_states=False)), picture(252), "4 of 12 layers"),
    "dpt": ("DPTForDepthEstimation", lambda T: T.DPTConfig(num_hidden_layers=4, backbone_out_indices=[0, 1, 2, 3]), picture(384), "base width, 4 layers"),
    "dinov3": ("DINOv3ViTModel", lambda T: T.DINOv3ViTConfig(num_hidden_layers=6, num_register_tokens=4), picture(224), "6 of 12 layers"),
    "table-transformer": ("TableTransformerForObjectDetection", lambda T: T.TableTransformerConfig(
        backbone_config=T.ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", out_features=["stage4"]), encoder_layers=3, decoder_layers=3), picture(480, 640), "R18, 3 and 3 layers"),
    "rt-detr": ("RTDetrForObjectDetection", lambda T: T.RTDetrConfig(
        backbone_config=T.RTDetrResNetConfig(out_features=["stage2", "stage3", "stage4"], hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"),
        encoder_in_channels=[128, 256, 512], decoder_layers=3, hidden_expansion=0.5), picture(480), "R18"),
    "layoutlmv3": ("LayoutLMv3Model", lambda T: T.LayoutLMv3Config(vocab_size=WORDS, num_hidden_layers=4), page(128), "4 of 12 layers"),
    "donut-encoder": ("DonutSwinModel", lambda T: T.DonutSwinConfig(image_size=[320, 480], embed_dim=128, depths=[2, 2, 2, 2], num_heads=[4, 8, 16, 32],
                                                                    window_size=10), picture(320, 480), "2 of 14 layers of stage 3"),
    "trocr-encoder": ("ViTModel", lambda T: T.ViTConfig(image_size=384, num_hidden_layers=3, qkv_bias=False), picture(384), "3 of 12 layers"),
    "florence2": ("Florence2Model", lambda T: T.Florence2Config(
        text_config=dict(vocab_size=WORDS, d_model=768, encoder_layers=2, decoder_layers=1, encoder_attention_heads=12, decoder_attention_heads=12,
                         encoder_ffn_dim=3072, decoder_ffn_dim=3072, max_position_embeddings=1024),
        vision_config=dict(projection_dim=768, depths=[1, 1, 2, 1]), image_token_id=WORDS - 1), asked_picture(384, 145), "DaViT 1, 1, 2, 1; BART 2 and 1 layers"),
    "wavlm": ("WavLMModel", lambda T: T.WavLMConfig(num_hidden_layers=4), sound(48000), "4 of 12 layers"),
    "moonshine": ("MoonshineModel", lambda T: T.MoonshineConfig(hidden_size=416, intermediate_size=1664, encoder_num_hidden_layers=4, decoder_num_hidden_layers=1,
                                                                rope_parameters=dict(rope_theta=1e4, partial_rotary_factor=0.62, rope_type="default")),
                  sound(80000, True), "4 and 1 of 8 layers"),
    "siglip-vision": ("SiglipVisionModel", lambda T: T.SiglipVisionConfig(num_hidden_layers=4), picture(224), "4 of 12 layers"),
}


def inputs_of(model):
    return MODELS[model][2](np.random.default_rng(1))


def load_torch(folder, model, **options):
    import transformers
    return getattr(transformers, MODELS[model][0]).from_pretrained(folder / model, **options).eval()


# ---- models, exports, int8 of the peers ----

def export(folder, model):
    """With the default attention, or the plain one where that is not exported; without transformers' checks of the inputs, for which ONNX has no operators."""
    os.environ["TRANSFORMERS_DISABLE_TORCH_CHECK"] = "1"
    import torch
    tensors = {k: torch.from_numpy(v) for k, v in inputs_of(model).items()}
    once = {"use_cache": False} if "decoder_input_ids" in tensors else {}

    class First(torch.nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, *given):
            return self.net(**dict(zip(tensors, given)), **once)[0]

    for options in ({}, {"attn_implementation": "eager"}):
        try:
            torch.onnx.export(First(load_torch(folder, model, **options)).eval(), tuple(tensors.values()), str(folder / f"{model}.fp32.onnx"), dynamo=True,
                              external_data=False, verbose=False, input_names=list(tensors), output_names=["out"])
            return
        except Exception:
            if options:
                raise


def quantise_onnx(folder, model):
    """Weights of 7 bits where there is no VNNI, without which sums of 8-bit products overflow 16 bits."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process
    folded = folder / f"{model}.folded.onnx"
    quant_pre_process(str(folder / f"{model}.fp32.onnx"), str(folded), skip_symbolic_shape=True, skip_onnx_shape=True)
    net = onnx.load(folded)
    net.graph.ClearField("value_info")
    quantize_dynamic(net, str(folder / f"{model}.int8.onnx"), per_channel=True, weight_type=QuantType.QInt8,
                     reduce_range="vnni" not in pathlib.Path("/proc/cpuinfo").read_text(), op_types_to_quantize=["MatMul", "Gemm"])
    folded.unlink()


def quantise_openvino(folder, model):
    import nncf
    import openvino
    kind = None if "detr" in model or model == "table-transformer" else nncf.ModelType.TRANSFORMER
    net = openvino.Core().read_model(folder / f"{model}.fp32.onnx")
    names = {name for port in net.inputs for name in port.names}
    given = {k: v for k, v in inputs_of(model).items() if k in names}
    net = nncf.quantize(net, nncf.Dataset([given]), model_type=kind, subset_size=1,
                        advanced_parameters=nncf.AdvancedQuantizationParameters(disable_bias_correction=True))
    openvino.save_model(net, folder / f"{model}.int8.xml", compress_to_fp16=False)


def settle(net, model):
    """Batch norms get the means and variances of the input: over random weights maps fade to numbers below 2^-126 else, which take x86 a hundred times as long."""
    import torch

    def of_input(norm, given):
        norm.running_mean.copy_(given[0].mean((0, 2, 3)))
        norm.running_var.copy_(given[0].var((0, 2, 3)))

    norms = [m.register_forward_pre_hook(of_input) for m in net.modules() if getattr(m, "running_var", None) is not None and m.running_var.dim() == 1]
    with torch.inference_mode():
        if norms:
            net(**{k: torch.from_numpy(v) for k, v in inputs_of(model).items()})
    for norm in norms:
        norm.remove()


def save(folder, model):
    import torch
    import transformers
    torch.manual_seed(0)
    net = getattr(transformers, MODELS[model][0])(MODELS[model][1](transformers)).eval()
    settle(net, model)
    net.save_pretrained(folder / model)
    with torch.inference_mode():
        out = load_torch(folder, model)(**{k: torch.from_numpy(v) for k, v in inputs_of(model).items()})
    (folder / f"{model}.output").write_text(next(iter(out)))
    np.save(folder / f"{model}.npy", out[0].numpy())


def prepare(folder, models):
    steps = ((save, "npy"), (export, "fp32.onnx"), (quantise_onnx, "int8.onnx"), (quantise_openvino, "int8.xml"))
    for model in models:
        for step, end in steps:
            if (folder / f"{model}.{end}").exists():
                continue
            try:
                step(folder, model)
            except Exception as error:  # one peer's converter that fails does not stop the others
                print(f"{model}: {step.__name__}: {type(error).__name__}: {str(error)[:300]}", flush=True)


# ---- one peer: a function that runs once ----

def open_onnxruntime(folder, model, precision, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(folder / f"{model}.{precision}.onnx"), options, providers=["CPUExecutionProvider"])
    given = inputs_of(model)
    feed = {i.name: given[i.name] for i in session.get_inputs()}
    return lambda: session.run(None, feed)[0]


def open_openvino(folder, model, precision, threads):
    import openvino
    compiled = openvino.Core().compile_model(str(folder / f"{model}.{'int8.xml' if precision == 'int8' else 'fp32.onnx'}"), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads), "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32"})
    request, given = compiled.create_infer_request(), inputs_of(model)
    feed = {name: given[name] for port in compiled.inputs for name in port.names if name in given}

    def run():
        request.infer(feed, share_inputs=True)
        return request.get_output_tensor(0).data
    return run


def open_libaccel(folder, model, precision, threads):
    import accel
    net, given = accel.Model(str(folder / model), device="cpu", precision=precision, context=accel.Context(threads=threads)), inputs_of(model)
    output = (folder / f"{model}.output").read_text()  # the one that the peers' graphs have

    def run():
        return net.run(outputs=[output], **given)[output]
    return run


def agreement(output, reference):
    a, b = np.asarray(output, np.float64).ravel(), np.asarray(reference, np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b))) if a.shape == b.shape else float("nan")


def worker(folder, model, peer, precision, threads, cpu_time):
    run = globals()["open_" + peer](folder, model, precision, threads)
    clock = time.process_time if cpu_time else time.perf_counter
    print(agreement(run(), np.load(folder / f"{model}.npy")), flush=True)
    for line in sys.stdin:
        run()
        times, begin = [], time.perf_counter()
        while not times or time.perf_counter() - begin < float(line):
            start = clock()
            run()
            times.append(clock() - start)
        print(json.dumps([statistics.median(times), min(times)]), flush=True)


# ---- the run ----

class Peer:
    def __init__(self, options, model, peer, precision, threads):
        words = [sys.executable, __file__, "worker", str(options.folder), model, "--peers", peer, "--precisions", precision, "--threads", str(threads)]
        self.name, self.rounds = peer, []
        self.process = subprocess.Popen(words + ["--cpu-time"] * options.cpu_time, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        line = self.process.stdout.readline()
        self.error = None if line else self.process.communicate()[1].strip().split("\n")[-1][:200]
        self.cosine = float(line or "nan")
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        if self.error is None:
            self.process.send_signal(number)

    def round(self, seconds):
        self.signal(signal.SIGCONT)
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.rounds.append(json.loads(self.process.stdout.readline()))
        self.signal(signal.SIGSTOP)

    def figures(self):
        return statistics.median(r[0] for r in self.rounds), min(r[1] for r in self.rounds)

    def close(self):
        self.signal(signal.SIGCONT)
        self.process.communicate()


@contextlib.contextmanager
def locked(path):
    with open(path or os.devnull, "w") as file:
        if path:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measure(cell, options):
    name, peers = cell
    good = [p for p in peers if p.error is None]
    for turn in range(options.rounds):
        for k in range(len(good)):
            good[(turn + k) % len(good)].round(options.seconds)
    figures = {p.name: p.figures() for p in good}
    for p in peers:
        if p.error is not None:
            print(f"| {name} | {p.name} | {p.error} | | | |", flush=True)
            continue
        middle, least = figures[p.name]
        others = [v for n, v in figures.items() if n != "libaccel"]
        ratio = f"{min(v[0] for v in others) / middle:.2f} ({min(v[1] for v in others) / least:.2f})" if p.name == "libaccel" and others else ""
        print(f"| {name} | {p.name} | {1e3 * middle:.2f} | {1e3 * least:.2f} | {p.cosine:.5f} | {ratio} |", flush=True)


def run(options):
    cells = [(f"{model} | {precision} | {threads}", [Peer(options, model, peer, precision, threads) for peer in options.peers.split(",")])
             for model in options.models for precision in options.precisions.split(",") for threads in map(int, options.threads.split(","))]
    print("| model | precision | threads | peer | median ms | least ms | cosine | faster peer over libaccel |\n|---|---|---|---|---|---|---|---|", flush=True)
    with locked(options.lock):
        for cell in cells:
            measure(cell, options)
    for _, peers in cells:
        for peer in peers:
            peer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run", "worker"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--precisions", default="fp32,int8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default="libaccel,onnxruntime,openvino")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--lock")
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.command == "prepare":
        prepare(options.folder, options.models)
    elif options.command == "run":
        run(options)
    else:
        worker(options.folder, options.models[0], options.peers, options.precisions, int(options.threads), options.cpu_time)


if __name__ == "__main__":
    main()
