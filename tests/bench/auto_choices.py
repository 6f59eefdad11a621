"""Does auto take the fastest, and does it keep the accuracy bound?  Measures models over devices and precisions of this machine into two databases, round by
round in turn; auto chooses by the first, and the second says what was fastest.  A choice is right when it was the fastest there, or when its interval
and the fastest's touch (of the medians of five rounds, each widened by 2 %, as in the database).  Then models that have goldens are verified and measured,
auto chooses under several bounds, and the goldens are run again where it chose: a cosine below the bound is a broken one.  Exits 1 below 95 % or with a
broken bound.

    auto_choices.py [--devices cpu,opencl:0] [--slow vulkan:0] [--precisions fp32,bf16] [--models NAMES] [--shapes BATCHxLENGTH,...] [--fixtures NAMES] [--cache DIR]
        --slow: devices that take seconds for a run, at fp32 and in the first case alone.  --cache: keep the databases there.  ACCEL_BUILD: the build tree
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
WORDS = ["sentence-transformers/all-MiniLM-L6-v2", "google/electra-small-discriminator", "BAAI/bge-small-en-v1.5", "google-t5/t5-small",
         "cross-encoder/ms-marco-MiniLM-L2-v2"]
BOUNDS = ("0.99999", "0.9999", "0.99")
ROUNDS = 5


class Tool:
    def __init__(self, cache):
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("ACCEL_")} | {"ACCEL_CACHE_DIR": cache, "ACCEL_ALLOW_SOFTWARE": "1"}

    def __call__(self, *arguments, codes=(0,)):
        """The parsed result; None: it exited with a code that is not among `codes`."""
        done = subprocess.run([ACCEL, *arguments, "--json", "--quiet"], capture_output=True, text=True, env=self.environment, timeout=600)
        if done.returncode not in codes:
            print(f"  left out: {' '.join(arguments)}: {done.stderr.strip().splitlines()[0] if done.stderr else done.returncode}", flush=True)
            return None
        return json.loads(done.stdout)


def interval(rounds):
    """Median and interval of the medians of rounds, as bench_candidates.c has them of so few."""
    middle = statistics.median(rounds)
    return middle, min(min(rounds), middle / 1.02), max(max(rounds), middle * 1.02)


def measure(tool, case, places, databases):
    """{place: [median of each round]} of each database.  A round of every place for one, then for the other, and so on: what else the machine does meets all
    of them alike."""
    found = [{} for _ in databases]
    for _ in range(ROUNDS):
        for database, to in zip(databases, found):
            for device, precision in places:
                n = "1" if device.startswith("vulkan") else "5"  # seconds a run, where it is a processor
                result = tool("bench", *case, "--device", device, "--precision", precision, "--iters", n, "--warmup", "1", "--db", database)
                if result:
                    to.setdefault((result["device"], result["precision"]), []).append(statistics.median(result["latency_ms"]))
    return found


def speeds(given, tool, cache):
    right = strict = cases = 0
    shapes = [shape.split("x") for shape in given.shapes.split(",")]
    for name in given.models.split(","):
        for batch, length in shapes:
            case = [name, "--random-weights", "--batch", batch, "--seq", length]
            devices = given.devices.split(",") + (given.slow.split(",") if given.slow and not cases else [])
            places = [(d, p) for d in devices for p in (given.precisions.split(",") if d in given.devices else ["fp32"])]
            _, again = measure(tool, case, places, [os.path.join(cache, name) for name in ("bench.sqlite", "again.sqlite")])
            truth = {place: interval(rounds) for place, rounds in again.items()}
            choice = tool("choose", *case, "--allow-software")
            if not choice or len(truth) < 2:
                continue
            taken = choice["device"], choice["precision"]
            best = min(truth, key=lambda place: truth[place][0])
            touches = taken in truth and truth[taken][1] <= truth[best][2]
            cases, strict, right = cases + 1, strict + (taken == best), right + touches
            print(f"{name} {batch}x{length}: {' at '.join(taken)} by {choice['chosen_by']}; fastest {' at '.join(best)}, "
                  f"{truth[best][0]:.2f} ms beside {truth.get(taken, (float('nan'),))[0]:.2f} ms{'' if touches else '  WRONG'}", flush=True)
    return cases, strict, right


def least_cosine(tool, directory, device, precision):
    """Of all goldens of a model, run anew; None: one fails."""
    least = 2.0
    for golden in glob.glob(os.path.join(directory, "golden*.safetensors")):
        architecture = os.path.basename(golden).split(".")[1]
        more = ["--architecture", architecture] if architecture[:1].isupper() else []
        result = tool("verify", directory, "--golden", golden, "--device", device, "--precision", precision, *more, codes=(0, 6))
        if not result or not result["pass"]:
            return None
        least = min([least] + [o["cosine"] for o in result["outputs"] if o.get("cosine") is not None])
    return least


def bounds(given, tool, cache):
    asked = broken = lower = 0
    database = os.path.join(cache, "bench.sqlite")
    for name in given.fixtures.split(","):
        directory = os.path.join(MODELS, name)
        tool("verify", "--all", directory, "--device", given.devices, "--precision", "fp32,bf16,int8,int4", "--db", database, codes=(0, 6))
        for device in given.devices.split(","):
            for precision in ("fp32", "bf16", "int8", "int4"):
                tool("bench", directory, "--device", device, "--precision", precision, "--rounds", str(ROUNDS), "--iters", "5", "--warmup", "1", "--db", database)
        cosines = {}
        for device in ["auto", *given.devices.split(",")]:
            for bound in BOUNDS:
                for metric in ("latency", "memory"):
                    choice = tool("choose", directory, "--allow-software", "--device", device, "--min-cosine", bound, "--metric", metric)
                    if not choice:
                        continue
                    asked += 1
                    taken = choice["device"], choice["precision"]
                    if taken[1] == "fp32":
                        continue
                    if taken not in cosines:
                        cosines[taken] = least_cosine(tool, directory, *taken)
                    holds = cosines[taken] is not None and cosines[taken] >= float(bound)
                    lower, broken = lower + 1, broken + (not holds)
                    print(f"{name} on {device}, {metric}, bound {bound}: {' at '.join(taken)} by {choice['chosen_by']}, cosine {cosines[taken]}{'' if holds else '  BROKEN'}", flush=True)
    return asked, lower, broken


def main():
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("--devices", default="cpu,opencl:0")
    arguments.add_argument("--slow", default="vulkan:0")
    arguments.add_argument("--precisions", default="fp32,bf16")
    arguments.add_argument("--models", default=",".join(WORDS))
    arguments.add_argument("--shapes", default="1x8,1x32,1x128,8x32")
    arguments.add_argument("--fixtures", default="bert,distilbert,vit,llama")
    arguments.add_argument("--cache")
    given = arguments.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        cache = given.cache or temporary
        os.makedirs(cache, exist_ok=True)
        tool = Tool(cache)
        cases, strict, right = speeds(given, tool, cache)
        asked, lower, broken = bounds(given, tool, cache)
    share = right / cases if cases else 0.0
    print(f"{right} of {cases} cases right ({share:.1%}; {strict} took the very fastest): {'met' if share >= 0.95 else 'MISSED'}, the goal is 95 %")
    print(f"{asked} choices under a bound, {lower} of them below fp32: {broken} broken; {time.monotonic() - begin:.0f} s")
    return share < 0.95 or broken > 0


if __name__ == "__main__":
    sys.exit(main())
