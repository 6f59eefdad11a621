"""The real all-MiniLM-L6-v2 against sentence-transformers on 1,000 varied sentences: token ids identical, cosine >= 0.99999.

Run by scripts/test-minilm (the model must be in the cache).  ACCEL_BUILD: the build tree, default build/release.
  check_minilm.py [--precision P]... [DEVICE]...     default fp32 on cpu
Other precisions than fp32 are held to a mean cosine: LEAST.
"""
import argparse
import array
import json
import math
import os
import struct
import subprocess
import sys
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ACCEL = os.path.join(os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release")), "bin", "accel")
FIXTURE = os.path.join(ROOT, "tests", "fixtures", "minilm")
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
MAX_LENGTH, SEP = 256, 102
LEAST = {"fp16": 0.9999, "bf16": 0.9999, "int8": 0.999, "fp8": 0.999, "int4": 0.95, "uint4": 0.95, "fp4": 0.93}


def read_golden():
    with open(os.path.join(FIXTURE, "golden.safetensors"), "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()

    def tensor(name, code):
        begin, end = header[name]["data_offsets"]
        size = struct.calcsize(code)
        return struct.unpack(f"<{(end - begin) // size}{code}", data[begin:end])

    rows, dim = header["embeddings"]["shape"]
    flat = tensor("embeddings", "e")
    return [flat[i * dim:(i + 1) * dim] for i in range(rows)], tensor("id_checksums", "q")


def accel(*arguments):
    return json.loads(subprocess.run([ACCEL, *arguments, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def compare(device, precision, sentences, wanted):
    """Whether the embeddings are as near as the precision must be; prints how near they are."""
    found = accel("embed", MODEL, "--input", sentences, "--device", device, "--precision", precision)
    cosines = [cosine(g, w) for g, w in zip(found["embeddings"], wanted)]
    assert len(cosines) == len(wanted) == 1000 and found["device"] == device and found["precision"] == precision
    mean = sum(cosines) / len(cosines)
    print(f"{device} {precision}: 1000 sentences, mean cosine {mean:.6f}, lowest {min(cosines):.8f}")
    return min(cosines) >= 0.99999 if precision == "fp32" else mean >= LEAST[precision]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", action="append")
    parser.add_argument("device", nargs="*")
    options = parser.parse_args()
    sentences = os.path.join(FIXTURE, "sentences.json")
    wanted, sums = read_golden()
    failures = 0
    ids = accel("tokenize", MODEL, "--input", sentences)["ids"]
    for i, (got, want) in enumerate(zip(ids, sums)):
        got = got if len(got) <= MAX_LENGTH else got[:MAX_LENGTH - 1] + [SEP]
        if zlib.crc32(array.array("i", got).tobytes()) != want:
            failures += 1
            print(f"sentence {i}: token ids differ")
    assert len(ids) == len(sums)
    for device in options.device or ["cpu"]:
        for precision in options.precision or ["fp32"]:
            failures += not compare(device, precision, sentences, wanted)
    print(f"MiniLM: {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
