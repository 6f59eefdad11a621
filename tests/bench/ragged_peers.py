"""A ragged batch against padded peers: 32 sentences of 5 to 120 tokens through the real MiniLM, and BERT-base, at fp32.

    python3 ragged_peers.py PEERS.PY --cache DIR prepare --workloads minilm-ragged,bert-ragged
    python3 ragged_peers.py PEERS.PY --cache DIR run --accel build/release/bin/accel --workloads minilm-ragged --precisions fp32 --compile ""

PEERS.PY is the side-by-side harness for encoders; this adds two workloads to it.  Peers get the batch padded to its longest sequence with its attention
mask, as they take it; libaccel gets the same lengths, packed.  Outputs are compared where the mask is 1.
"""
import importlib.util
import random
import sys

import numpy as np

LENGTHS = [random.Random(20261121 + i).randint(5, 120) for i in range(32)]


def load_harness(path):
    spec = importlib.util.spec_from_file_location("peers", path)
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    return peers


def extend(peers, path):
    width = max(LENGTHS)
    for model in ("minilm", "bert"):
        peers.WORKLOADS[f"{model}-ragged"] = (model, len(LENGTHS), width)
    mask = (np.arange(width)[None, :] < np.array(LENGTHS)[:, None]).astype(np.int64)
    ones, agreement, run_json = np.ones, peers.agreement, peers.run_json

    def data_mask(shape, dtype=float):
        """make_data asks for a mask of ones; this workload's has holes at the end of rows."""
        return mask if tuple(shape) == mask.shape and dtype == np.int64 else ones(shape, dtype)

    class Numbers:
        def __getattr__(self, name):
            return data_mask if name == "ones" else getattr(np, name)

    def masked_agreement(output, reference):
        if output.shape[:2] == mask.shape:
            output, reference = output * mask[:, :, None], reference * mask[:, :, None]
        return agreement(output, reference)

    def with_lengths(command, nice):
        """accel bench of these workloads: the lengths instead of batch and width."""
        if "--batch" in command and command[command.index("--seq") + 1] == str(width):
            at = command.index("--batch")
            command = command[:at] + ["--lengths", ",".join(map(str, LENGTHS))] + command[at + 4:]
        return run_json(command, nice)

    peers.np = Numbers()
    peers.agreement = masked_agreement
    peers.run_json = with_lengths
    peers.myself = lambda *words: [sys.executable, __file__, path, "--cache", str(peers.CACHE), *map(str, words)]


if __name__ == "__main__":
    harness = sys.argv.pop(1)
    module = load_harness(harness)
    extend(module, harness)
    module.main()
