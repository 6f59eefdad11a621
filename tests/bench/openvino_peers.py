"""The plugin openvino beside OpenVINO's own Python, on models that OpenVINO's converter makes of transformers' classes, in one run.

    python3 openvino_peers.py prepare DIR [MODEL...]    random weights of a true shape, saved by transformers, and converted by OpenVINO (int8: nncf)
    python3 openvino_peers.py run DIR [MODEL...] [--precisions fp32,int8] [--threads N] [--rounds R] [--accel PATH] [--defaults]

MODEL: bert (base, 128 tokens), vit (base, 224 x 224), whisper (base: its encoder, 30 s), llama (146 million weights: a prompt of 128 tokens, then a step at
a time).  The decoder is converted with its keys and values as states, as OpenVINO's tools for language models do.  OpenVINO computes with the plugin's settings
(fp32 told to be fp32, activations and states not quantised), or with its own (--defaults).  Rounds visit OpenVINO, then `accel bench --device openvino`, each
loaded anew; printed are medians of the rounds' medians, fastest runs, and OpenVINO's time over the plugin's (above 1: the plugin is faster).  Needs torch,
transformers, openvino and nncf, and ACCEL_OPENVINO_DIR for the plugin.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "card"))
import card_speech  # noqa: E402

PROMPT, STEPS, LAYERS = 128, 48, 10
# class, configuration of transformers (T), arguments of accel bench
MODELS = {
    "bert": ("BertModel", lambda T: T.BertConfig(), ["--seq", str(PROMPT)]),
    "vit": ("ViTModel", lambda T: T.ViTConfig(), []),
    "whisper": ("WhisperForConditionalGeneration", lambda T: T.WhisperConfig(
        vocab_size=51865, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048), ["--task", "transcribe", "--new", "2"]),
    "llama": ("LlamaForCausalLM", lambda T: T.LlamaConfig(
        vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=LAYERS, num_attention_heads=16, num_key_value_heads=4,
        eos_token_id=None), ["--task", "generate", "--seq", str(PROMPT), "--new", str(STEPS)]),
}


def inputs_of(model):
    draw = np.random.default_rng(1)
    if model == "bert":
        return [draw.integers(10, 30000, (1, PROMPT))]
    return [draw.standard_normal((1, 3, 224, 224) if model == "vit" else (1, 80, 3000), dtype=np.float32)]


# ---- models ----

def decoder(net):
    """ids [1, n], positions [1, n] and each layer's past to logits and each layer's whole past: all sizes come from the inputs."""
    import torch
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, ids, positions, past):
            cache = DynamicCache()
            for i in range(LAYERS):  # as they are: update() would begin with an empty tensor
                layer = DynamicLayer()
                layer.keys, layer.values, layer.dtype, layer.device, layer.is_initialized = past[2 * i], past[2 * i + 1], past[0].dtype, past[0].device, True
                cache.layers.append(layer)
            seen = torch.arange(past[0].shape[2] + ids.shape[1])
            mask = torch.where(seen[None, :] <= positions[0][:, None], 0.0, -3e38)[None, None]
            logits = self.net(input_ids=ids, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True).logits
            return [logits, *(t for layer in cache.layers for t in (layer.keys, layer.values))]
    return Decoder()


def reorder_past(model):
    """The past of each beam by a gather, without which OpenVINO does not fuse states with attention."""
    from openvino import opset13
    beams = opset13.parameter([-1], name="beam_idx", dtype=np.int32)
    beams.output(0).get_tensor().add_names({"beam_idx"})
    model.add_parameters([beams])
    for port in model.inputs[2:2 + 2 * LAYERS]:
        readers = port.get_target_inputs()
        gathered = opset13.gather(port, beams, opset13.constant(0, dtype=np.int64))
        for reader in readers:
            reader.replace_source_output(gathered.output(0))


def convert_decoder(net):
    import openvino
    import torch
    from openvino import opset13
    from openvino._offline_transformations import apply_make_stateful_transformation
    past = [torch.zeros(1, 4, 3, 64) for _ in range(2 * LAYERS)]
    model = openvino.convert_model(decoder(net), example_input={"ids": torch.ones(1, 2, dtype=torch.int64), "positions": torch.tensor([[3, 4]]), "past": past})
    for i, port in enumerate(model.inputs):
        node = port.get_node()
        node.set_partial_shape(openvino.PartialShape([1, -1] if i < 2 else [1, 4, -1, 64]))
        port.get_tensor().set_names({f"in{i}"})
    for i, port in enumerate(model.outputs):
        port.get_tensor().set_names({f"out{i}"})
    reorder_past(model)
    model.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(model, {f"in{i + 2}": f"out{i + 1}" for i in range(2 * LAYERS)})
    empty = opset13.constant(np.zeros((1, 4, 0, 64), np.float32))
    for op in model.get_ops():
        if op.get_type_name() == "ReadValue":
            op.set_arguments([empty])
    return model


def convert(model, net):
    import openvino
    import torch
    if model == "llama":
        return convert_decoder(net)

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net.model.encoder if model == "whisper" else net

        def forward(self, x):
            return self.net(x)[0]
    given = torch.from_numpy(inputs_of(model)[0])
    return openvino.convert_model(First(), example_input=given, input=list(given.shape))


def prepare(folder, models):
    import nncf
    import openvino
    import torch
    import transformers
    for model in models:
        torch.manual_seed(0)
        net = getattr(transformers, MODELS[model][0])(MODELS[model][1](transformers)).eval()
        net.save_pretrained(folder / model)
        if model == "whisper":
            card_speech.make(folder / model, net.config.to_dict())
        with torch.no_grad():
            made = convert(model, net)
        openvino.save_model(made, folder / f"{model}.fp32.xml", compress_to_fp16=False)
        openvino.save_model(nncf.compress_weights(made), folder / f"{model}.int8.xml", compress_to_fp16=False)


# ---- one round: {what: milliseconds of each run} ----

def timed(call, seconds=1.5):
    call(), call()
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def infer_decoder(request):
    """Times of a prompt, and of a step behind it."""
    def run(ids, first):
        request.infer([ids, np.arange(first, first + ids.shape[1])[None], np.zeros(1, np.int32)])
        return int(request.get_output_tensor(0).data[0, -1].argmax())

    def generate():
        start = time.perf_counter()
        token = run(np.full((1, PROMPT), 7), 0)
        prompt = time.perf_counter()
        for at in range(STEPS - 1):
            token = run(np.array([[token]]), PROMPT + at)
        found.append((1e3 * (prompt - start), 1e3 * (time.perf_counter() - prompt) / (STEPS - 1)))
        request.reset_state()
    found = []
    timed(generate)
    return {"prompt": [p for p, _ in found[2:]], "step": [s for _, s in found[2:]]}


def openvino_round(folder, model, precision, threads, defaults):
    import openvino
    settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads), "INFERENCE_PRECISION_HINT": "f32"}
    if not defaults:
        settings.update(EXECUTION_MODE_HINT="ACCURACY", DYNAMIC_QUANTIZATION_GROUP_SIZE="0", KV_CACHE_PRECISION="f32")
    request = openvino.Core().compile_model(str(folder / f"{model}.{precision}.xml"), "CPU", settings).create_infer_request()
    if model == "llama":
        return infer_decoder(request)
    given = inputs_of(model)
    return {"run": timed(lambda: request.infer(given, share_inputs=True))}


def accel_round(accel, folder, model, precision, threads):
    command = [accel, "bench", str(folder / model), "--device", "openvino", "--precision", precision, "--threads", str(threads), "--iters", "5", "--json", "-"]
    done = subprocess.run(command + MODELS[model][2], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout)
    if model == "llama":
        return {"prompt": report["prefill_samples_ms"], "step": [t / (STEPS - 1) for t in report["decode_samples_ms"]]}
    return {"run": report["prefill_samples_ms" if model == "whisper" else "latency_ms"]}


def measure(options, model, precision):
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        words = [sys.executable, __file__, "worker", str(options.folder), model, "--precisions", precision, "--threads", str(options.threads)]
        done = subprocess.run(words + ["--defaults"] * options.defaults, stdout=subprocess.PIPE, text=True, check=True)
        for kept, found in ((theirs, json.loads(done.stdout)), (ours, accel_round(options.accel, options.folder, model, precision, options.threads))):
            for what, times in found.items():
                kept.setdefault(what, []).append(times)
    for what in ours:
        a, b = (statistics.median(statistics.median(r) for r in kept[what]) for kept in (theirs, ours))
        c, d = (min(min(r) for r in kept[what]) for kept in (theirs, ours))
        print(f"| {model} | {what} | {precision} | {options.threads} | {a:.2f} | {c:.2f} | {b:.2f} | {d:.2f} | {a / b:.2f} ({c / d:.2f}) |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run", "worker"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--precisions", default="fp32,int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--accel", default=os.path.join(os.environ.get("ACCEL_BUILD", ROOT / "build" / "release"), "bin", "accel"))
    parser.add_argument("--defaults", action="store_true")
    options = parser.parse_args()
    if options.command == "prepare":
        options.folder.mkdir(parents=True, exist_ok=True)
        prepare(options.folder, options.models)
    elif options.command == "worker":
        print(json.dumps(openvino_round(options.folder, options.models[0], options.precisions, options.threads, options.defaults)))
    else:
        print("| model | what | precision | threads | OpenVINO ms | fastest | plugin ms | fastest | OpenVINO over the plugin |\n|---|---|---|---|---|---|---|---|---|", flush=True)
        for model in options.models:
            for precision in options.precisions.split(","):
                measure(options, model, precision)


if __name__ == "__main__":
    main()
