"""`accel fit --memory` beside the running process: seconds a token and peak memory of `accel generate`, foretold and measured.

    python3 plan_running.py ACCEL MODEL [--precisions bf16,fp16,fp32,int8] [--limits 80M,150M,250M] [--tokens 12] [--rounds 3]

ACCEL is the built tool, MODEL a directory with weights; --device also takes a placement (cpu+cpu).  Each round asks `accel fit`, with a cache of its own so that
the disk is measured then and there, generates, with weights that an untimed run before has quantised into the cache, and asks again: a round in which the two answers differ by more than 15 %, since disk or processors did something else meanwhile, does not count
(at most four times as many are tried).  Medians of the rounds.  A precision that needs more than a limit is left out there, and said so.  Exits 1 when a
time is more than 25 % off, or a peak more than 5 %.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MIB = 1 << 20
PROMPT = [5, 6, 7, 100, 2000, 15000]


def asked(options, work, precision, limit):
    """The record of `accel fit`; None: it does not fit."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(["nice", "-n", options.nice, options.accel, "fit", options.model, "--device", options.device, "--precision", precision, "--memory", limit, "--seq", str(len(PROMPT)),
                               "--new", str(options.tokens), "--json=" + work + "/fit.json"], env=dict(os.environ, ACCEL_CACHE_DIR=cache), stderr=subprocess.PIPE)
    if done.returncode == 5:
        return None
    if done.returncode:
        sys.exit(done.stderr.decode())
    with open(work + "/fit.json", encoding="utf-8") as f:
        return json.load(f)["devices"][0]


def ran(options, work, precision, limit):
    """Seconds a token behind the first; to the first token with the load (0: that is not told); peak bytes."""
    command = ["/usr/bin/time", "-f", "%M", "-o", work + "/peak", "nice", "-n", options.nice, options.accel, "generate", options.model, "--ids", work + "/ids.json", "--device", options.device,
               "--precision", precision, "--memory", limit, "--max-new-tokens", str(options.tokens), "--cache-dir", work + "/cache", "--quiet", "--json=" + work + "/run.json"]
    subprocess.run(command, check=True)
    with open(work + "/run.json", encoding="utf-8") as f:
        run = json.load(f)
    with open(work + "/peak", encoding="utf-8") as f:
        peak = 1024 * int(f.read())
    each = run["decode_ms"] / 1e3 / (run["new_tokens"] - 1)
    streaming = run.get("streaming")
    return each, run["prefill_ms"] / 1e3 + streaming["load_seconds"] if streaming else 0, peak


def compare(options, work, precision, limit):
    """A row of the table, and whether it holds; None: it does not fit."""
    rounds = []
    tried, before = 0, asked(options, work, precision, limit)
    if before:
        ran(options, work, precision, limit)  # quantised weights are streamed from the cache, which has them from here on
    while before and len(rounds) < options.rounds and tried < 4 * options.rounds:
        run, after = ran(options, work, precision, limit), asked(options, work, precision, limit)
        told = [fit["seconds_per_token"] or 0 for fit in (before, after)]
        if max(told) <= 1.15 * min(told):
            rounds.append((before, run))
        tried, before = tried + 1, after
    if not rounds:
        return None if before is None else ([precision, limit, f"none of {tried} rounds was steady"] + [""] * 8, False)
    each, told = (statistics.median(v) for v in ([r[1][0] for r in rounds], [r[0]["seconds_per_token"] or 0 for r in rounds]))
    off = 100 * statistics.median((r[0]["seconds_per_token"] or 0) / r[1][0] - 1 for r in rounds)
    first, told_first = (statistics.median(v) for v in ([r[1][1] for r in rounds], [r[0]["seconds_to_first_token"] or 0 for r in rounds]))
    peak, told_peak = (statistics.median(v) for v in ([r[1][2] for r in rounds], [r[0]["predicted_peak_bytes"] for r in rounds]))
    off_peak = 100 * (told_peak / peak - 1)
    fit = rounds[-1][0]
    how = f"{fit['stream_read_bytes_per_run'] / 1e6:.0f} MB read a token" if fit.get("streams") else "in memory"
    how += f"; {len(rounds)} of {tried}"
    row = [precision, limit, how, f"{told:.4f}", f"{each:.4f}", f"{off:+.0f} %", f"{told_first:.2f}", f"{first:.2f}" if first else "", f"{told_peak / MIB:.1f}", f"{peak / MIB:.1f}",
           f"{off_peak:+.1f} %"]
    return row, abs(off) <= 25 and abs(off_peak) <= 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("accel")
    parser.add_argument("model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precisions", default="bf16,fp16,fp32,int8")
    parser.add_argument("--limits", default="80M,150M,250M")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nice", default="0", help="of both, where other work is on the machine: -15")
    options = parser.parse_args()
    good = True
    print("| precision | `--memory` | weights; rounds | s a token, foretold | measured | off by | s to the first, foretold | measured | peak MiB, foretold | measured | off by |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        with open(work + "/ids.json", "w", encoding="utf-8") as f:
            json.dump([PROMPT], f)
        for precision in options.precisions.split(","):
            for limit in options.limits.split(","):
                found = compare(options, work, precision, limit)
                if found is None:
                    print(f"| {precision} | {limit} | does not fit |" + " |" * 8, flush=True)
                    continue
                good &= found[1]
                print("|", " | ".join(found[0]), "|" if found[1] else "| <-", flush=True)
    sys.exit(not good)


if __name__ == "__main__":
    main()
