"""Streaming models in one process for SOAK_SECONDS (60): a llama at four precisions, a mixture of experts at two, and the llama over two parts of the processor,
all with less memory than their weights take.  Four threads generate, submit requests to the queue, keep sessions, cancel, trim and ask for counters, each on the
next model; now and then a model is closed and loaded anew.  Tokens are those of the model in memory; memory and open files stay where they were at half
time.

docs/log/2026-11-26.md has half an hour of it.  ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree."""
import collections
import os
import random
import sys
import tempfile
import threading
import time

from test_streaming import environment, write_llama
from test_streaming_experts import write_qwen

import accel  # found by test_streaming

SECONDS, ROOM, THREADS = float(os.environ.get("SOAK_SECONDS", "60")), 16 << 20, 4
PROMPTS = [[5, 6, 7], [100, 200, 300, 399, 350], [9], list(range(20, 60))]
MODELS = [("llama", "cpu", "fp32"), ("llama", "cpu", "bf16"), ("llama", "cpu", "int8"), ("llama", "cpu", "int4"), ("mixture", "cpu", "bf16"), ("mixture", "cpu", "int4"),
          ("llama", "cpu=0-1+cpu=2-3", "bf16")]


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files():
    return len(os.listdir("/proc/self/fd"))


class Streamed:
    """A model that is opened anew while nobody uses it."""

    def __init__(self, soak, name, device, precision):
        self.soak, self.how, self.model = soak, (name, device, precision), None
        with accel.Context(threads=2, no_cache=True) as context:
            whole = accel.Model(soak.directory[name], device="cpu", precision=precision, context=context)
            self.want = [g.ids for g in whole.generate(PROMPTS, max_new_tokens=6, do_sample=False, ignore_eos=True)]
        self.users, self.lock = 0, threading.Lock()
        self.open()

    def open(self):
        name, device, precision = self.how
        with environment(ACCEL_STREAM_WEIGHTS="1M"):
            self.model = accel.Model(self.soak.directory[name], device=device, precision=precision, context=self.soak.context)
        assert self.model.streaming, self.how

    def take(self):
        with self.lock:
            self.users += 1
            return self.model

    def give(self, anew):
        with self.lock:
            self.users -= 1
            if anew and not self.users:
                self.model.close()
                self.open()
                self.soak.count["loads"] += 1


class Soak:
    def __init__(self, work):
        self.directory = {name: os.path.join(work, name) for name in ("llama", "mixture", "cache")}
        for path in self.directory.values():
            os.mkdir(path)
        write_llama(self.directory["llama"])
        write_qwen(self.directory["mixture"])
        self.context = accel.Context(threads=2, cache_directory=self.directory["cache"])
        self.count, self.bad, self.begun = collections.Counter(), [], time.monotonic()
        self.models = [Streamed(self, *how) for how in MODELS]

    def same(self, what, streamed, got, want):
        self.count[what] += 1
        if got != want:
            self.bad.append(f"{what} of {streamed.how}: {got} and not {want}")

    def one(self, streamed, model, chance):
        what, k = chance.randrange(6), chance.randrange(len(PROMPTS))
        options = {"max_new_tokens": 6, "do_sample": False, "ignore_eos": True}
        if what == 0:
            self.same("calls", streamed, [g.ids for g in model.generate(PROMPTS, **options)], streamed.want)
        elif what == 1:
            self.same("requests", streamed, model.submit_generate(PROMPTS[k], **options).wait()[0].ids, streamed.want[k])
        elif what == 2:
            with model.session() as session:
                session.feed(PROMPTS[k])
                self.same("sessions", streamed, session.generate(**options).ids, streamed.want[k])
        elif what == 3:
            ticket = model.submit_generate(PROMPTS[k], **options)
            ticket.cancel()
            try:
                self.same("requests", streamed, ticket.wait()[0].ids, streamed.want[k])
            except accel.CancelledError:
                self.count["cancelled"] += 1
        elif what == 4:
            model.trim()
            self.count["trims"] += 1
        else:
            now = model.streaming
            self.count["counters"] += 1
            if not 0 <= now["wait_share"] <= 1 or now["bytes"] < now["load_bytes"]:
                self.bad.append(f"{streamed.how}: {now}")

    def work(self, seed):
        chance = random.Random(seed)
        while time.monotonic() < self.begun + SECONDS and not self.bad:
            streamed = chance.choice(self.models)
            model = streamed.take()
            try:
                self.one(streamed, model, chance)
            except Exception as e:  # whatever it is, the soak has failed
                self.bad.append(f"{streamed.how}: {type(e).__name__}: {e}")
            finally:
                streamed.give(chance.randrange(12) == 0)

    def tell(self):
        print(f"{time.monotonic() - self.begun:.0f} s: {resident() / 1e6:.1f} MB, {files()} files; " + ", ".join(f"{n} {what}" for what, n in sorted(self.count.items())), flush=True)

    def run(self):
        threads = [threading.Thread(target=self.work, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(SECONDS / 6)
            self.tell()
        before, open_before = resident(), files()
        while any(thread.is_alive() for thread in threads):
            time.sleep(max(1, min(SECONDS / 6, self.begun + SECONDS - time.monotonic())))
            self.tell()
        for thread in threads:
            thread.join()
        grown, more = resident() - before, files() - open_before
        print("\n".join(self.bad[:20] + [f"grew by {grown / 1e6:.1f} MB and {more} files since half time"]), flush=True)
        for streamed in self.models:
            streamed.model.close()
        self.context.close()
        return grown <= ROOM and more <= 2 * THREADS and not self.bad


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(0 if Soak(directory).run() else 1)
