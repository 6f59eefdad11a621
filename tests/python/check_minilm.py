"""The real all-MiniLM-L6-v2 against sentence-transformers on 1,000 varied sentences: token ids identical, cosine >= 0.99999.

Run by scripts/test-minilm (the model must be in the cache).  ACCEL_BUILD: the build tree, default build/release; arguments: devices, default cpu.
"""
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


def main():
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
    for device in sys.argv[1:] or ["cpu"]:
        found = accel("embed", MODEL, "--input", sentences, "--device", device)
        cosines = [cosine(g, w) for g, w in zip(found["embeddings"], wanted)]
        assert len(cosines) == len(wanted) == 1000 and found["device"] == device
        bad = [i for i, c in enumerate(cosines) if not c >= 0.99999]
        failures += len(bad)
        print(f"{device}: 1000 sentences, lowest cosine {min(cosines):.8f}, below 0.99999: {bad[:10]}")
    print(f"MiniLM: {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
