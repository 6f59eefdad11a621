#!/usr/bin/env python3
"""tokenizer_bench beside the `tokenizers` package: one thread, the same texts, interleaved; medians and their ratio.

    TOKENIZERS_PARALLELISM=false python3 tests/bench/tokenizer_peers.py build/release/tests/bench/tokenizer_bench TEXTS.json TOKENIZER.json...

encode is called text by text, encode_batch with all texts at once; the faster of the two is the peer.  The ids of both sides must agree.
"""
import json
import os
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402  (reads the variable)

ROUNDS = 3


def checksum(encodings):
    total = 0
    for e in encodings:
        for i in e.ids:
            total = (total * 31 + i) & 0xFFFFFFFFFFFFFFFF
    return total


def timed(call):
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def main():
    program, texts_path, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(texts_path, encoding="utf-8") as f:
        texts = json.load(f)
    size = sum(len(t.encode()) for t in texts)
    for path in paths:
        tok = Tokenizer.from_file(path)
        tok.no_truncation()
        tok.no_padding()
        ours, one, batch = [], [], []
        same = None
        for _ in range(ROUNDS):
            found = json.loads(subprocess.run([program, path, texts_path, "0.5"], check=True, capture_output=True).stdout)
            ours.append(found["mb_per_s"])
            seconds, result = timed(lambda: [tok.encode(t) for t in texts])
            one.append(size / seconds / 1e6)
            same = checksum(result) == found["checksum"]
            batch.append(size / timed(lambda: tok.encode_batch(texts))[0] / 1e6)
        mine, peer = statistics.median(ours), max(statistics.median(one), statistics.median(batch))
        print("%-24s ours %7.2f MB/s  encode %6.2f  encode_batch %6.2f  ratio %5.1f  ids %s" % (
            os.path.basename(path), mine, statistics.median(one), statistics.median(batch), mine / peer, "equal" if same else "DIFFER"), flush=True)


if __name__ == "__main__":
    main()
