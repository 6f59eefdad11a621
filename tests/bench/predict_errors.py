"""How good is `accel predict`?  Profiles models into a database, those without files at their true shape with random weights, and predicts each from all
others.  Prints the median and the 90th percentile of the errors on each device, and exits 1 where they are beyond the goals: 12 % and 30 % on the CPU, 25 %
and 50 % on OpenCL and Vulkan.  Predicted and measured are the least times of a run: other work on the machine is not what is foretold.

    predict_errors.py DATABASE [--device NAMES] [--precision NAMES] [--iters N] [--models NAMES] [--known]
        --known: measure nothing, the database has it all.  ACCEL_BUILD: the build tree
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
GOALS = {"cpu": (0.12, 0.30), "opencl": (0.25, 0.50), "vulkan": (0.25, 0.50)}
ENCODERS = ["sentence-transformers/all-MiniLM-L6-v2", "google-bert/bert-base-uncased", "distilbert/distilbert-base-uncased", "google/electra-small-discriminator",
            "microsoft/mpnet-base", "BAAI/bge-small-en-v1.5", "google-t5/t5-small", "facebook/bart-base", "cross-encoder/nli-deberta-v3-base", "albert/albert-base-v2",
            "google/vit-base-patch16-224", "facebook/deit-tiny-distilled-patch16-224", "facebook/dinov2-small", "openai/clip-vit-base-patch32",
            "microsoft/xclip-base-patch32", "openai/whisper-tiny", "openai/whisper-base", "facebook/wav2vec2-base-960h", "laion/clap-htsat-unfused",
            "facebook/detr-resnet-50", "facebook/convnext-tiny-224", "microsoft/resnet-50", "microsoft/swin-tiny-patch4-window7-224", "hustvl/yolos-tiny",
            "google/siglip-base-patch16-224", "FacebookAI/roberta-base", "answerdotai/ModernBERT-base"]
DECODERS = ["HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen2-0.5B", "openai-community/gpt2", "EleutherAI/pythia-160m", "facebook/opt-125m", "HuggingFaceTB/SmolLM2-360M",
            "google/gemma-3-270m-it", "EleutherAI/pythia-70m"]


def measure(given, name, device, precision):
    more = ["--task", "generate", "--seq", "64", "--new", "16"] if name in DECODERS else []
    command = [ACCEL, "bench", name, "--device", device, "--precision", precision, "--iters", str(given.iters), "--profile", "--random-weights", "--db", given.database, "--quiet", *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        why = done.stderr.strip().split("\n")[0] if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = "took more than 300 s"
    if why:
        print(f"  left out: {name} on {device} at {precision}: {why}", flush=True)


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("database")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", default="fp32,int8")
    arguments.add_argument("--iters", type=int, default=25)
    arguments.add_argument("--models", default=",".join(ENCODERS + DECODERS))
    arguments.add_argument("--known", action="store_true")
    given = arguments.parse_args()
    for device in given.device.split(",") if not given.known else []:
        for precision in given.precision.split(","):
            for name in given.models.split(","):
                measure(given, name, device, precision)
    done = subprocess.run([ACCEL, "predict", "--db", given.database, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    missed = False
    print(f"{'device':10} {'precision':9} {'models':>6} {'runs':>5} {'median':>8} {'90 %':>8}   goals")
    for group in json.loads(done.stdout)["groups"]:
        goal = GOALS.get(group["device"].split(":")[0])
        errors = group["median_error"], group["p90_error"]
        if None in errors:
            continue
        met = not goal or all(e <= g for e, g in zip(errors, goal))
        missed |= not met
        print(f"{group['device']:10} {group['precision']:9} {group['models']:6} {len(group['runs']):5} {errors[0]:8.1%} {errors[1]:8.1%}   "
              + (f"{goal[0]:.0%}, {goal[1]:.0%}: {'met' if met else 'MISSED'}" if goal else "none"))
        for one in sorted(group["runs"], key=lambda r: -abs(r["predicted_ms"] / r["measured_ms"] - 1))[:5]:
            print(f"    {one['model']} ({one['task']}): {one['measured_ms']:.2f} ms, predicted {one['predicted_ms']:.2f} ms")
    return missed


if __name__ == "__main__":
    sys.exit(main())
