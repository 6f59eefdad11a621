"""`accel fit` beside what a process that generates has in memory: weights, KV cache, scratch, results and the tokenizer, within 2 % and
4 MB (code that was read, ends of huge pages), at four precisions; and no more than the packed weights, the cache and 64 MB.

    ACCEL_BUILD=... python3 test_memory.py --measure CONFIG.json [SEQ [NEW [PRECISION ...]]]     prints both for a model of random weights
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
PRECISIONS = ("fp32", "bf16", "int8", "int4")

# About 20 million parameters; the vocabulary is most of a tied model.
SMALL = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=20000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6,
             num_attention_heads=6, num_key_value_heads=2, head_dim=64, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2)
MODELS = {"tied": dict(SMALL, tie_word_embeddings=True), "untied": dict(SMALL, tie_word_embeddings=False),
          "mamba": dict(architectures=["MambaForCausalLM"], model_type="mamba", vocab_size=20000, hidden_size=384, state_size=16, num_hidden_layers=8, conv_kernel=4)}


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def tokenizer(tokens):
    """A byte-level BPE of 256 bytes and merges of ever longer strings of them, as make_models writes it for real shapes."""
    alphabet = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)]] + [chr(256 + i) for i in range(68)]
    pieces, merges = list(alphabet), []
    for left in (a + b for a in [""] + alphabet for b in alphabet):
        for right in alphabet:
            if len(pieces) == tokens:
                break
            pieces.append(left + right)
            merges.append([left, right])
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges}}


def measure(directory, precision, seq, new):
    """Grown memory of this process, and the estimate's record."""
    import accel
    (record,) = accel.fit(directory, "cpu", precision, 1, seq, new)
    before = resident()
    with accel.Model(directory, device="cpu", precision=precision, random_weights=True) as model:
        ids = [3 + 7 * i % 900 for i in range(seq)]
        model.generate(ids, max_new_tokens=new, ignore_eos=True)
        grown = resident() - before
    return {"grown": grown, "tokenizer": record.tokenizer, "process": record.resident - record.total, "before": before, "total": record.total, "peak": record.peak, "weights": record.weights, "state": record.state, "scratch": record.scratch}


def in_a_process(config, precision, seq, new, tokens=0):
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "config.json"), "w") as f:
            json.dump(config, f)
        if tokens:
            with open(os.path.join(directory, "tokenizer.json"), "w") as f:
                json.dump(tokenizer(tokens), f)
        environment = dict(os.environ, ACCEL_NO_CACHE="1", ACCEL_THREADS="2")
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", directory, precision, str(seq), str(new)], stdout=subprocess.PIPE, env=environment, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{precision}: exit {done.returncode}")
    return json.loads(done.stdout)


class Memory(unittest.TestCase):
    def setUp(self):
        if sanitized():
            self.skipTest("sanitizers take memory of their own")

    def test_fit_is_true_of_generation(self):
        for name, precision in [("tied", p) for p in PRECISIONS] + [("untied", "int8"), ("mamba", "bf16")]:
            with self.subTest(model=name, precision=precision):
                found = in_a_process(MODELS[name], precision, 160, 8)
                self.assertLess(abs(found["grown"] - found["total"]), 0.02 * found["total"] + 4e6, found)
                self.assertLess(found["grown"], found["weights"] + found["state"] + (64 << 20), found)

    def test_fit_counts_the_tokenizer(self):
        found = in_a_process(MODELS["tied"], "int8", 160, 8, tokens=150000)
        self.assertGreater(found["tokenizer"], 150000 * 60, found)
        self.assertLess(found["tokenizer"], 150000 * 100, found)
        self.assertLess(abs(found["grown"] - found["total"]), 0.02 * found["total"] + 4e6, found)
        self.assertLess(abs(found["before"] - found["process"]), 4e6 + found["tokenizer"], found)  # the library may keep what it has read


def sanitized():
    with open(os.path.join(BUILD, "bin", "accel"), "rb") as f:
        program = f.read()
    return b"__asan_init" in program or b"__tsan_init" in program


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    elif sys.argv[1:2] == ["--measure"]:
        with open(sys.argv[2]) as f:
            shape = json.load(f)
        seq, new = (int(v) for v in (sys.argv[3:5] + ["128", "16"][len(sys.argv[3:5]):]))
        for precision in sys.argv[5:] or PRECISIONS:
            found = in_a_process(shape, precision, seq, new)
            parts = " ".join(f"{key} {value / 2 ** 20:.1f}" for key, value in found.items())
            print(f"{precision}: {100 * (found['total'] / found['grown'] - 1):+.1f} %  {parts} MiB")
    else:
        unittest.main()
