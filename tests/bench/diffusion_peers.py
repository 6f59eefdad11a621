"""UNets and autoencoders of Stable Diffusion at their true shapes, beside PyTorch, OpenVINO and stable-diffusion.cpp in one run.

    python3 diffusion_peers.py prepare DIR [PART...]      random weights of each part's public shape, saved by diffusers, and converted for OpenVINO
    python3 diffusion_peers.py run DIR [PART...] [--precisions fp32,bf16,int8] [--threads 1,2] [--rounds R] [--peers libaccel,torch,openvino,sdcpp]

PART: unet (SD 1.5, latents of 64 x 64), vae (its autoencoder there and back, 512 x 512), unet-xl (SDXL, 64 x 64, whose weights are stored in bf16, for OpenVINO,
too).  Each peer is a process of its own that is loaded once; the rounds visit every peer, one further each time, for one run, after one uncounted run.  Printed
are medians, fastest runs, how far an output is from PyTorch's at fp32, peak memory of each process, and the best peer's time over ours (above 1: ours is faster).
int8 of OpenVINO is nncf's compress_weights, PyTorch has none for convolutions.  Needs torch, diffusers, openvino and nncf; libaccel by ACCEL_LIBRARY and the
package in PYTHONPATH.  stable-diffusion.cpp (sdcpp; sd-cli of PyPI's stable-diffusion-cpp-python, by SD_CLI) runs whole pipelines alone: a picture of one from
another one, without guidance, with the weights of parts `unet` and `vae` and a random text encoder; counted are its own times of a step, and of encoding and
decoding.  Its types are f32, bf16 and q8_0, kernels of convolutions are f16 in all of them.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import struct
import subprocess
import sys
import time

import numpy as np

PARTS = {
    "unet": ("UNet2DConditionModel", dict(sample_size=64, cross_attention_dim=768, attention_head_dim=8)),
    "unet-xl": ("UNet2DConditionModel", dict(
        sample_size=128, cross_attention_dim=2048, attention_head_dim=[5, 10, 20], block_out_channels=[320, 640, 1280], transformer_layers_per_block=[1, 2, 10],
        down_block_types=["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], up_block_types=["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816)),
    "vae": ("AutoencoderKL", dict(
        block_out_channels=[128, 256, 512, 512], layers_per_block=2, sample_size=512, down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4)),
}

BF16 = {"unet-xl"}  # stored so: 5 GB


def inputs_of(part):
    draw = np.random.default_rng(1)

    def normal(*shape):
        return draw.standard_normal(shape).astype(np.float32)
    if part == "vae":
        return {"sample": np.tanh(normal(1, 3, 512, 512))}
    text = 2048 if part == "unet-xl" else 768
    given = {"sample": normal(1, 4, 64, 64), "timestep": np.array([501.0], np.float32), "encoder_hidden_states": normal(1, 77, text)}
    if part == "unet-xl":
        given.update(text_embeds=normal(1, 1280), time_ids=np.array([[512, 512, 0, 0, 512, 512]], np.float32))
    return given


def torch_module(folder, part, dtype):
    """A module that takes the inputs in their order and gives one tensor."""
    import diffusers
    import torch
    net = getattr(diffusers, PARTS[part][0]).from_pretrained(folder / part, torch_dtype=dtype).eval()

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, sample, timestep=None, encoder_hidden_states=None, text_embeds=None, time_ids=None):
            if part == "vae":
                return self.net(sample, return_dict=False)[0]
            more = {"added_cond_kwargs": {"text_embeds": text_embeds, "time_ids": time_ids}} if part == "unet-xl" else {}
            return self.net(sample, timestep, encoder_hidden_states, return_dict=False, **more)[0]
    return Plain().eval()


def save_bf16(folder, part):
    """Random weights in bf16, tensor by tensor: the model is never in memory as a whole."""
    import diffusers
    import torch
    kind, config = PARTS[part]
    with torch.device("meta"):
        net = getattr(diffusers, kind)(**config)
    net.save_config(folder / part)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in net.state_dict().items():
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + 2 * t.numel()]}
        at += 2 * t.numel()
    text = json.dumps(header).encode()
    with open(folder / part / "diffusion_pytorch_model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, t in net.state_dict().items():
            if t.dim() > 1:  # as torch draws them: uniform, within one over the root of the inputs
                bound = (t[0].numel()) ** -0.5
                made = torch.empty(t.shape).uniform_(-bound, bound)
            else:
                made = torch.zeros(t.shape) if name.endswith("bias") else torch.ones(t.shape)
            f.write(made.to(torch.bfloat16).view(torch.int16).numpy().tobytes())


def prepare(folder, parts):
    import diffusers
    import openvino
    import torch
    from openvino.frontend.pytorch import patch_model
    torch.manual_seed(0)
    for part in parts:
        kind, config = PARTS[part]
        if not (folder / part / "config.json").exists():
            if part in BF16:
                save_bf16(folder, part)
            else:
                getattr(diffusers, kind)(**config).save_pretrained(folder / part)
        if (folder / f"{part}.xml").exists():
            continue
        example = tuple(torch.from_numpy(v) for v in inputs_of(part).values())
        module = torch_module(folder, part, torch.bfloat16 if part in BF16 else torch.float32)
        if part in BF16:  # as optimum-intel does: weights stay narrow, what is computed is fp32
            patch_model.__make_16bit_traceable(module)
        with torch.no_grad():
            net = openvino.convert_model(module, example_input=example, input=[list(v.shape) for v in example])
        openvino.save_model(net, folder / f"{part}.xml", compress_to_fp16=False)
        try:
            import nncf
            openvino.save_model(nncf.compress_weights(net), folder / f"{part}.int8.xml", compress_to_fp16=False)
        except ImportError:
            print("no nncf: no int8 of OpenVINO")


def prepare_pipeline(folder):
    """The directory that stable-diffusion.cpp reads: parts unet and vae, and a text encoder of SD 1.5's shape."""
    import safetensors.torch
    import transformers
    pipeline = folder / "pipeline"
    if (pipeline / "model_index.json").exists():
        return pipeline
    pipeline.mkdir(exist_ok=True)
    for part in ("unet", "vae"):
        (pipeline / part).symlink_to((folder / part).resolve())
    config = transformers.CLIPTextConfig(vocab_size=49408, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, hidden_act="quick_gelu")
    (pipeline / "text_encoder").mkdir(exist_ok=True)
    named = {k if k.startswith("text_model.") else f"text_model.{k}": v.contiguous() for k, v in transformers.CLIPTextModel(config).half().state_dict().items()}
    safetensors.torch.save_file(named, pipeline / "text_encoder" / "model.safetensors")
    (pipeline / "model_index.json").write_text(json.dumps({"_class_name": "StableDiffusionPipeline"}))
    return pipeline


# ---- one peer: a function that runs once ----

def open_torch(folder, part, precision, threads):
    import torch
    torch.set_num_threads(threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    net = torch_module(folder, part, dtype)
    given = [torch.from_numpy(v).to(dtype) for v in inputs_of(part).values()]

    def run():
        with torch.inference_mode():
            return net(*given).float().numpy()
    return run


def open_openvino(folder, part, precision, threads):
    import openvino
    core = openvino.Core()
    net = core.read_model(folder / (f"{part}.int8.xml" if precision == "int8" else f"{part}.xml"))
    compiled = core.compile_model(net, "CPU", {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
                                               "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32"})
    request, given = compiled.create_infer_request(), list(inputs_of(part).values())

    def run():
        request.infer(given, share_inputs=True)
        return request.get_output_tensor(0).data
    return run


def open_libaccel(folder, part, precision, threads):
    import accel
    model = accel.Model(str(folder / part), device="cpu", precision=precision, context=accel.Context(threads=threads))
    given = inputs_of(part)
    return lambda: model.run(**given)["sample"]


def open_sdcpp(folder, part, precision, threads):
    """Gives seconds, not an output."""
    kind = {"fp32": "f32", "bf16": "bf16", "int8": "q8_0"}[precision]
    pipeline, picture, steps = prepare_pipeline(folder), folder / "from.png", 2
    if not picture.exists():
        from PIL import Image
        Image.fromarray(np.random.default_rng(1).integers(0, 256, (512, 512, 3), np.uint8)).save(picture)
    words = [os.environ["SD_CLI"], "-m", str(pipeline), "-p", "a cat", "--type", kind, "-t", str(threads), "-W", "512", "-H", "512", "--steps", str(steps), "--cfg-scale", "1",
             "--strength", "1", "--init-img", str(picture), "-o", str(folder / "to.png"), "-v"]

    def run():
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-2000:])
        taken = {what: [float(x) for x in re.findall(pattern + r"[^\n]*?taking ([0-9.]+) ?s", done.stdout)]
                 for what, pattern in (("unet", "sampling completed"), ("encode", "encode_first_stage completed"), ("decode", "decode_first_stage completed"))}
        print(f"sdcpp {kind} {threads} threads: {json.dumps(taken)}", file=sys.stderr, flush=True)  # of the parts that are not asked for, too
        return sum(taken["unet"]) / steps if part == "unet" else sum(taken["encode"]) + sum(taken["decode"])
    return run


def worker(folder, part, peer, precision, threads):
    run = globals()["open_" + peer](folder, part, precision, threads)
    tells = peer == "sdcpp"
    if not tells:
        np.save(folder / f"{part}.{peer}.{precision}.npy", np.asarray(run()))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        given = run()
        seconds = given if tells else time.perf_counter() - begin
        whose = resource.RUSAGE_CHILDREN if tells else resource.RUSAGE_SELF
        print(json.dumps([seconds, resource.getrusage(whose).ru_maxrss / 1024]), flush=True)


def far(output, reference):
    return float(np.linalg.norm(output - reference) / np.linalg.norm(reference))


def run(folder, options):
    print("| part | threads | precision | peer | median s | fastest | off | peak MiB | peer over libaccel |\n|---|---|---|---|---|---|---|---|---|")
    for part in options.parts:
        for threads in map(int, options.threads.split(",")):
            for precision in options.precisions.split(","):
                measure(folder, part, precision, threads, options)


def measure(folder, part, precision, threads, options):
    peers = {}
    for peer in options.peers.split(","):
        if peer == "torch" and precision == "int8" or peer == "openvino" and precision == "int8" and not (folder / f"{part}.int8.xml").exists():
            continue
        words = [sys.executable, __file__, "worker", str(folder), part, "--peers", peer, "--precisions", precision, "--threads", str(threads)]
        peers[peer] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
        if peers[peer].stdout.readline().strip() != "ready":
            raise SystemExit(f"{peer} did not load {part} at {precision}")
    times, peak = {peer: [] for peer in peers}, {}
    order = list(peers)
    for turn in range(options.rounds):
        for peer in order[turn % len(order):] + order[:turn % len(order)]:
            peers[peer].stdin.write("\n")
            peers[peer].stdin.flush()
            took, peak[peer] = json.loads(peers[peer].stdout.readline())
            times[peer].append(took)
    for process in peers.values():
        process.communicate()
    reference = folder / f"{part}.torch.fp32.npy"
    for peer in order:
        given = folder / f"{part}.{peer}.{precision}.npy"
        off = far(np.load(given), np.load(reference)) if reference.exists() and peer != "sdcpp" else float("nan")
        ratio = statistics.median(times[peer]) / statistics.median(times["libaccel"]) if "libaccel" in times else float("nan")
        print(f"| {part} | {threads} | {precision} | {peer} | {statistics.median(times[peer]):.3f} | {min(times[peer]):.3f} | {off:.1e} | {peak[peer]:.0f} | {ratio:.2f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run", "worker"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--precisions", default="fp32,bf16,int8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--peers", default="libaccel,torch,openvino")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.command == "prepare":
        prepare(options.folder, options.parts)
    elif options.command == "run":
        run(options.folder, options)
    else:
        worker(options.folder, options.parts[0], options.peers, options.precisions, int(options.threads))


if __name__ == "__main__":
    main()
