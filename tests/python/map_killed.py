"""accel map over many short texts, killed again and again with SIGKILL: the results must be, byte for byte, those of a job that nobody stopped.

  map_killed.py [--model M] [--rows N] [--kills K] [--device D] [--precision P] [--shard-rows S] [--threads T] [--words W]
                [--work DIRECTORY]

Prints the rows a second of the whole job, and what the kills cost.  The kills come at shards that a fixed seed draws.  Exit 77: the model is not on this
machine.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from test_cli import ACCEL, ENVIRONMENT

WORDS = ("the a of model device data parallel fast slow queue server request token batch river mountain city people time work light dark blue green music "
         "paper ship train road house tree stone water fire earth wind").split()


def write_texts(path, rows, words):
    draw = random.Random(29)
    with open(path, "w", encoding="utf-8") as f:
        for i in range(rows):
            f.write(" ".join(draw.choices(WORDS, k=draw.randint(min(2, words), words))) + f" {i}\n")


def digests(directory):
    """name -> SHA-256, but for locks and what killed processes had begun."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if not name.startswith(".lock") and not name.endswith(".tmp"):
            with open(os.path.join(directory, name), "rb") as f:
                found[name] = hashlib.file_digest(f, "sha256").hexdigest()
    return found


def command(options, texts, output):
    return [ACCEL, "map", "--task", "embed", "--model", options.model, "--input", texts, "--output", output, "--device", options.device,
            "--precision", options.precision, "--shard-rows", str(options.shard_rows), "--quiet", *(["--threads", str(options.threads)] if options.threads else [])]


def parts(directory):
    return sum(name.startswith("part-") and not name.endswith(".tmp") for name in os.listdir(directory)) if os.path.isdir(directory) else 0


def run_killed(options, texts, output, seconds):
    """Runs until it is killed, `kills` times, at shards that are drawn and some way into the next one, then to its end."""
    shards = -(-options.rows // options.shard_rows)
    draw = random.Random(options.rows)
    for i, shard in enumerate(sorted(draw.sample(range(shards - 1), options.kills))):
        process = subprocess.Popen(command(options, texts, output), env=ENVIRONMENT)
        while parts(output) < shard and process.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, seconds / shards))
        process.kill()
        if process.wait() != -signal.SIGKILL:
            sys.exit(f"the job ended ({process.returncode}) before kill {i + 1}")
        print(f"kill {i + 1}: {parts(output)} of {shards} shards are there", flush=True)
    subprocess.run(command(options, texts, output), env=ENVIRONMENT, check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--shard-rows", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--words", type=int, default=12, help="of a text at most, beside its number")
    parser.add_argument("--work", help="a directory for the files, which is kept; default: a temporary one")
    options = parser.parse_args()
    if options.kills >= -(-options.rows // options.shard_rows):
        parser.error("more kills than shards: give it more rows or smaller shards")
    if subprocess.run([ACCEL, "embed", options.model, "a text", "--device", "cpu", "--quiet"], env=ENVIRONMENT, capture_output=True).returncode:
        print(f"{options.model} is not here")
        sys.exit(77)
    work = options.work or tempfile.mkdtemp()
    texts, whole, torn = (os.path.join(work, name) for name in ("texts.txt", "whole", "torn"))
    os.makedirs(work, exist_ok=True)
    try:
        for directory in (whole, torn):
            shutil.rmtree(directory, ignore_errors=True)
        write_texts(texts, options.rows, options.words)
        begin = time.monotonic()
        subprocess.run(command(options, texts, whole), env=ENVIRONMENT, check=True)
        seconds = time.monotonic() - begin
        print(f"{options.rows} rows in {seconds:.1f} s, {options.rows / seconds:.1f} a second", flush=True)
        begin = time.monotonic()
        run_killed(options, texts, torn, seconds)
        print(f"with {options.kills} kills in {time.monotonic() - begin:.1f} s", flush=True)
        one, other = digests(whole), digests(torn)
        if one != other:
            sys.exit("other files: " + ", ".join(sorted(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))[:10]))
        print(f"{len(one)} files, byte for byte the same")
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
