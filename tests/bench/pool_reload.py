"""What a model costs that a pool has unloaded: time of accel_pool_acquire() until it is there again, the unloading of another one included.

    ACCEL_LIBRARY=build/release/lib/libaccel.so.0 PYTHONPATH=src/bindings/python python3 pool_reload.py MODEL [--precisions fp32,int8] [--rounds 5]

Two names of copies of MODEL in a pool with memory for one are asked for in turn, on the CPU.  `cold`: neither packed weights nor the model's files are in
any cache; `packed anew`: the files are in the page cache; `from the cache`: packed weights are in the library's cache (of fp32 and fp16 there are none),
all files in the page cache.  The three are interleaved.  Told are the least and the median of the rounds, and the median of the processor's time
in all threads, which depends less on what else the machine does; milliseconds.
"""
import argparse
import os
import shutil
import statistics
import tempfile
import time

import accel


def forget(directory):
    """Drops the files' pages from memory."""
    for folder, _, files in os.walk(directory):
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Case:
    """A pool with memory for one of two copies.  Both have been loaded once."""

    def __init__(self, models, precision, **context):
        self.context = accel.Context(**context)
        self.models, self.precision, self.turn = models, precision, 0
        with accel.Pool(context=self.context) as pool:
            pool.add("a", models[0], device="cpu", precision=precision)
            pool.model("a").close()
            self.one = pool.stats("a")
        self.pool = accel.Pool(memory=self.one["planned_bytes"] + self.one["bytes"] // 2, context=self.context)
        for name, model in zip("ab", models):
            self.pool.add(name, model, device="cpu", precision=precision)
            self.pool.model(name).close()

    def load(self):
        name = "ab"[self.turn % 2]
        self.turn += 1
        begin, cpu = time.monotonic(), time.process_time()
        with self.pool.model(name):
            return time.monotonic() - begin, time.process_time() - cpu

    def close(self):
        assert self.pool.stats()["evictions"] == self.turn + 1, "not every call has reloaded"
        self.pool.close()
        self.context.close()


def told(rounds):
    wall, cpu = zip(*rounds)
    return " | ".join(f"{1000 * s:.0f}" for s in (min(wall), statistics.median(wall), statistics.median(cpu)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--precisions", default="fp32,fp16,int8,int4")
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    source = accel.find_model(a.model)
    with tempfile.TemporaryDirectory() as work:
        models = [os.path.join(work, name) for name in "ab"]
        for model in models:
            shutil.copytree(source, model)
        print("| precision | in the pool |" + "".join(f" {case}: least | median | CPU |" for case in ("cold", "packed anew", "from the cache")))
        print("|" + 11 * "---|")
        for precision in a.precisions.split(","):
            cases = [Case(models, precision, no_cache=True), Case(models, precision, no_cache=True),
                     Case(models, precision, cache_directory=os.path.join(work, "cache"))]
            rounds = [[], [], []]
            for _ in range(a.rounds):
                for i, case in enumerate(cases):
                    if not i:
                        forget(models[case.turn % 2])
                    rounds[i].append(case.load())
            one = cases[0].one["bytes"]
            for case in cases:
                case.close()
            print(f"| {precision} | {one / (1 << 20):.1f} MiB | " + " | ".join(told(r) for r in rounds) + " |", flush=True)


if __name__ == "__main__":
    main()
