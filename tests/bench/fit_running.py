"""`accel fit` beside the running process: resident memory of `accel bench --task generate`, read from /proc while it runs.

    python3 fit_running.py ACCEL MODEL... [--precisions int4,int8,bf16] [--lengths 128+32,512+32] [--sizes 512x512,2x256x384] [--threads N] [--off 2]

ACCEL is the built tool, MODEL a directory with weights and tokenizer, a length PROMPT+NEW tokens; of pipelines that make pictures, which `accel bench` runs for
two steps, a size [N pictures x]WIDTHxHEIGHT.  `measured` is the most that the process has between the
end of loading and its own end; `loading` the most that it ever had (VmHWM), beside fit's peak with what the process itself takes.  Exits 1 when a prediction
is more than --off percent off, or measured memory of a language model more than packed weights, KV cache and 64 MiB.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

MIB = 1 << 20


def status(pid):
    """VmRSS and VmHWM in bytes; {} once the process has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in f if line.startswith(("VmRSS", "VmHWM"))}
    except (OSError, ValueError):
        return {}


def is_pipeline(model):
    return os.path.exists(os.path.join(model, "model_index.json"))


def work(model, length):
    """Options for both commands, and for bench alone."""
    if is_pipeline(model):
        n, size = length.split("x", 1) if length.count("x") == 2 else ("1", length)
        return ["--size", size, "--n", n, "--steps", "2"], ["--iters", "1", "--warmup", "1"]
    seq, new = length.split("+")
    return ["--seq", seq, "--new", new], ["--task", "generate", "--iters", "3"]


def running(options, model, precision, length):
    """(most while running, most ever), bytes."""
    both, own = work(model, length)
    command = [options.accel, "bench", model, "--device", "cpu", "--precision", precision, *both, *own, "--threads", str(options.threads), "--json", "-"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ, ACCEL_NO_CACHE="1"))
    placed = threading.Event()

    def listen():
        for line in process.stderr:
            if " on cpu, " in line:  # where it runs: said when it is loaded
                placed.set()

    listener = threading.Thread(target=listen)
    listener.start()
    most = ever = 0
    while process.poll() is None:
        now = status(process.pid)
        if placed.is_set():
            most = max(most, now.get("VmRSS", 0))
        ever = max(ever, now.get("VmHWM", 0))
        time.sleep(0.01)
    listener.join()
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}")
    return most, ever


def predicted(options, model, precision, length):
    command = [options.accel, "fit", model, "--device", "cpu", "--precision", precision, "--threads", str(options.threads), *work(model, length)[0], "--json"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return dict(report["devices"][0], process_bytes=report["process_bytes"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("accel")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--precisions", default="int4,int8,bf16")
    parser.add_argument("--lengths", default="128+32")
    parser.add_argument("--sizes", default="512x512,2x256x384")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--off", type=float, default=2)
    options = parser.parse_args()
    failed = False
    print("| model | prompt, new | measured | predicted | off by | weights | KV cache | tokenizer | process | above weights and cache | loading | predicted |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for model in options.models:
        for precision in options.precisions.split(","):
            for length in (options.sizes if is_pipeline(model) else options.lengths).split(","):
                fit = predicted(options, model, precision, length)
                most, ever = running(options, model, precision, length)
                off, above = 100 * (fit["resident_bytes"] / most - 1), most - fit["weights_bytes"] - fit["state_bytes"]
                failed |= abs(off) > options.off or (above > 64 * MIB and not is_pipeline(model))
                cells = [most, fit["resident_bytes"], None, fit["weights_bytes"], fit["state_bytes"], fit["tokenizer_bytes"], fit["process_bytes"], above, ever,
                         fit["peak_load_bytes"] + fit["process_bytes"]]
                words = [f"{off:+.1f} %" if cell is None else f"{cell / MIB:.1f}" for cell in cells]
                print("|", " | ".join([f"{os.path.basename(os.path.normpath(model))} {precision}", length] + words), "|", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
