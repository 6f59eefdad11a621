"""How good is `accel predict`?  Profiles models into a database, those without files at their true shape with random weights, and predicts each from all
others.  Prints the median and the 90th percentile of the errors on each device, the share of runs within their error bars (of nine in ten), and what each op
adds to the errors; exits 1 where errors are beyond the goals: 12 % and 30 % on the CPU, 25 % and 50 % on OpenCL and Vulkan.

Predicted and measured are the least times of a case over all its runs by the newest build: other work on the machine is not what is foretold.  A case is
disturbed while all its runs so far had processors busy with something else (/proc/stat) for more than QUIET of the time; further passes measure those again.

    predict_errors.py DATABASE [--device NAMES] [--precision NAMES] [--passes N] [--wait S] [--iters N] [--seq N] [--models NAMES] [--known] [--worst N]
        --passes: at most so many runs of a case (2).  --wait: so many seconds at most for a quiet moment before each run (5)
        --known: measure nothing, the database has it all.  --worst: runs to show of each device.  ACCEL_BUILD: the build tree
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
GOALS = {"cpu": (0.12, 0.30), "opencl": (0.25, 0.50), "vulkan": (0.25, 0.50)}
QUIET, DISTURBED = 0.05, 1.1
ENCODERS = ["sentence-transformers/all-MiniLM-L6-v2", "google-bert/bert-base-uncased", "distilbert/distilbert-base-uncased", "google/electra-small-discriminator",
            "microsoft/mpnet-base", "BAAI/bge-small-en-v1.5", "google-t5/t5-small", "facebook/bart-base", "cross-encoder/nli-deberta-v3-base", "albert/albert-base-v2",
            "google/vit-base-patch16-224", "facebook/deit-tiny-distilled-patch16-224", "facebook/dinov2-small", "openai/clip-vit-base-patch32",
            "microsoft/xclip-base-patch32", "openai/whisper-tiny", "openai/whisper-base", "facebook/wav2vec2-base-960h", "laion/clap-htsat-unfused",
            "facebook/detr-resnet-50", "facebook/convnext-tiny-224", "microsoft/resnet-50", "microsoft/swin-tiny-patch4-window7-224", "hustvl/yolos-tiny",
            "google/siglip-base-patch16-224", "FacebookAI/roberta-base", "answerdotai/ModernBERT-base"]
DECODERS = ["HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen2-0.5B", "openai-community/gpt2", "EleutherAI/pythia-160m", "facebook/opt-125m", "HuggingFaceTB/SmolLM2-360M",
            "google/gemma-3-270m-it", "EleutherAI/pythia-70m"]
# What finishes on a graphics processor that the CPU plays (lavapipe: seconds a run), the texts at 32 tokens.
SMALL_TEXTS = ["sentence-transformers/all-MiniLM-L6-v2", "prajjwal1/bert-tiny", "google/electra-small-discriminator", "BAAI/bge-small-zh-v1.5", "google-t5/t5-small",
               "google/flan-t5-small", "google/mt5-small", "microsoft/deberta-v3-xsmall", "Helsinki-NLP/opus-mt-en-de", "cross-encoder/ms-marco-MiniLM-L2-v2",
               "EleutherAI/pythia-70m"]
SMALL_PICTURES = ["facebook/deit-tiny-distilled-patch16-224", "hustvl/yolos-tiny", "microsoft/resnet-18"]
DEFAULTS = {"cpu": (ENCODERS + DECODERS, 25, 0), "opencl": (ENCODERS + DECODERS, 8, 0), "vulkan": (SMALL_TEXTS + SMALL_PICTURES, 3, 32)}  # models, iters, seq


def busy():
    """Seconds that all processors together have worked, for this machine or another on the same processor."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_quiet(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = busy()
        time.sleep(0.5)
        if busy() - before <= 0.5 * QUIET * os.cpu_count():
            return


def measure(given, name, device, precision):
    """The share of the processors' time that others took meanwhile; None: the case cannot be measured."""
    _, iters, seq = DEFAULTS.get(device.split(":")[0], DEFAULTS["cpu"])
    iters, seq = given.iters or iters, given.seq or seq
    more = ["--task", "generate", "--seq", str(seq or 64), "--new", "16"] if name in DECODERS else ["--seq", str(seq)] if seq and name not in SMALL_PICTURES else []
    command = [ACCEL, "bench", name, "--device", device, "--precision", precision, "--iters", str(iters), "--profile", "--random-weights", "--db", given.database,
               "--quiet", *more]
    wait_for_quiet(given.wait)
    before, ours, begin = busy(), own(), time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        why = done.stderr.strip().split("\n")[0] if done.returncode else ""
    except subprocess.TimeoutExpired:
        why = "took more than 300 s"
    if why:
        print(f"  left out: {name} on {device} at {precision}: {why}", flush=True)
        return None
    return max(0, busy() - before - (own() - ours)) / (time.monotonic() - begin) / os.cpu_count()


def measure_all(given):
    waiting = []
    for device in given.device.split(","):
        models = given.models.split(",") if given.models else DEFAULTS.get(device.split(":")[0], DEFAULTS["cpu"])[0]
        waiting += [(name, device, precision) for precision in given.precision.split(",") for name in models]
    for number in range(given.passes):
        disturbed = []
        for case in waiting:
            others = measure(given, *case)
            if others is not None and others > QUIET:
                disturbed.append(case)
        print(f"pass {number + 1}: {len(disturbed)} of {len(waiting)} cases were disturbed", flush=True)
        waiting = disturbed


def tell_undisturbed(runs):
    """Of the runs that took as long as their steps, which are short, and so find a quiet moment where whole runs do not."""
    kept = [r for r in runs if r["measured_ms"] <= DISTURBED * sum(op["measured_ms"] for op in r["ops"])]
    errors = sorted(abs(r["predicted_ms"] / r["measured_ms"] - 1) for r in kept)
    if errors:
        print(f"    {len(kept)} of {len(runs)} took at most {DISTURBED} times their steps' least times; of these the median is {statistics.median(errors):.1%}, "
              f"90 % are below {errors[int(0.9 * (len(errors) - 1) + 0.5)]:.1%}")


def tell_ops(runs):
    """What the errors of each op add to those of the runs."""
    shares, errors = {}, {}
    for run in runs:
        steps = sum(op["measured_ms"] for op in run["ops"])
        for op in run["ops"]:
            shares[op["op"]] = shares.get(op["op"], 0) + op["measured_ms"] / steps / len(runs)
            errors.setdefault(op["op"], []).append(abs(op["predicted_ms"] - op["measured_ms"]) / steps)
    for op in sorted(shares, key=shares.get, reverse=True):
        if shares[op] > 0.01:
            list_ = sorted(errors[op])
            print(f"    {op:14} {shares[op]:6.1%} of the time; off by {list_[len(list_) // 2]:5.1%} of a run's (median of {len(list_)}), at most {list_[-1]:5.1%}")


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("database")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", default="fp32,int8")
    arguments.add_argument("--iters", type=int, default=0)
    arguments.add_argument("--seq", type=int, default=0)
    arguments.add_argument("--models", default="")
    arguments.add_argument("--passes", type=int, default=2)
    arguments.add_argument("--wait", type=float, default=5)
    arguments.add_argument("--worst", type=int, default=5)
    arguments.add_argument("--known", action="store_true")
    given = arguments.parse_args()
    if not given.known:
        measure_all(given)
    done = subprocess.run([ACCEL, "predict", "--db", given.database, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    missed = False
    print(f"{'device':10} {'precision':9} {'models':>6} {'runs':>5} {'median':>8} {'90 %':>8} {'in bars':>8}   goals")
    for group in json.loads(done.stdout)["groups"]:
        goal = GOALS.get(group["device"].split(":")[0])
        errors = group["median_error"], group["p90_error"]
        if None in errors:
            continue
        met = not goal or all(e <= g for e, g in zip(errors, goal))
        missed |= not met
        print(f"{group['device']:10} {group['precision']:9} {group['models']:6} {len(group['runs']):5} {errors[0]:8.1%} {errors[1]:8.1%} {group['covered'] or 0:8.0%}   "
              + (f"{goal[0]:.0%}, {goal[1]:.0%}: {'met' if met else 'MISSED'}" if goal else "none"))
        for one in sorted(group["runs"], key=lambda r: -abs(r["predicted_ms"] / r["measured_ms"] - 1))[:given.worst]:
            print(f"    {one['model']} ({one['task']}): {one['measured_ms']:.2f} ms, predicted {one['predicted_ms']:.2f} ms")
        tell_undisturbed(group["runs"])
        tell_ops(group["runs"])
    return missed


if __name__ == "__main__":
    sys.exit(main())
