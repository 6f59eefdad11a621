"""Mixed models on several devices in one process for SOAK_SECONDS (60): goldens of a dozen classes loaded, run, compared and closed at fp32, fp16 and int8 in turn on
each device named on the command line, and beside them one model for each device that stays open.  Every result is within its bound, the open models
give the same numbers from first to last, and memory stays where it was after the first round.

Run by the long tier; docs/log/2026-11-22.md has half an hour of it.  ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.  A device that is not there is
left out, with its reason."""
import collections
import json
import os
import sys
import time

import test_goldens

os.environ["ACCEL_LIBRARY"] = os.path.join(test_goldens.BUILD, "lib", "libaccel.so.0")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(test_goldens.ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

STAYS = os.path.join(test_goldens.ROOT, "tests", "fixtures", "pipelines", "base")
MODELS = "bert llama vit mamba mixtral wav2vec2 t5 clip resnet gemma3 whisper detr generate_t5".split()
PRECISIONS = "fp32 fp16 int8".split()
SECONDS, ROOM = float(os.environ.get("SOAK_SECONDS", "60")), 16 << 20
ROWS = (3, 17, 5)


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def first_goldens():
    """[(directory, golden)] of the class that config.json names."""
    found = {}
    for model, golden, *rest in test_goldens.goldens():
        with open(os.path.join(test_goldens.MODELS, model, "config.json"), encoding="utf-8") as f:
            named = json.load(f)["architectures"][0]
        if model in MODELS and (not rest or rest[0] == named):
            found.setdefault(model, (os.path.join(test_goldens.MODELS, model), os.path.join(test_goldens.MODELS, model, golden)))
    missing = set(MODELS) - set(found)
    assert not missing, missing
    return [found[model] for model in MODELS]


def vectors(model):
    found = [model.run(input_ids=[[1 + i % 50 for i in range(n)]], attention_mask=[[1] * n])["last_hidden_state"] for n in ROWS]
    return [part.tolist() if hasattr(part, "tolist") else part for part in found]


class Soak:
    def __init__(self, devices):
        self.devices, self.begun, self.marks = devices, time.monotonic(), [SECONDS * part for part in (1 / 6, 1 / 2, 1)]
        self.loads, self.runs, self.bad = collections.Counter(), collections.Counter(), []
        self.open = {d: accel.AutoModel.from_pretrained(STAYS, device=d) for d in devices}
        self.first = {d: vectors(model) for d, model in self.open.items()}

    def left(self):
        return self.begun + SECONDS - time.monotonic()

    def tell(self, what):
        print(f"{what} after {time.monotonic() - self.begun:.0f} s: {resident() / 1e6:.1f} MB; loads and runs: "
              + ", ".join(f"{d} {self.loads[d]} and {self.runs[d]}" for d in self.devices), flush=True)

    def one(self, device, directory, golden, precision):
        report = accel.verify(directory, golden, device, precision)
        self.loads[device] += 1
        self.runs[device] += 1 + len(ROWS)
        if not report.passed:
            self.bad.append(f"{device} {precision} {golden}: {report.outputs}")
        if vectors(self.open[device]) != self.first[device]:
            self.bad.append(f"{device}: the open model's numbers changed after {golden} at {precision}")

    def round(self, goldens, until_end):
        for precision in PRECISIONS:
            for directory, golden in goldens:
                for device in self.devices:
                    if until_end and self.left() <= 0:
                        return
                    self.one(device, directory, golden, precision)
                    if self.marks and time.monotonic() - self.begun >= self.marks[0]:
                        self.marks.pop(0)
                        self.tell("memory")

    def run(self):
        goldens = first_goldens()
        self.tell("memory")
        self.round(goldens, False)
        before = resident()
        self.tell("memory at the end of the first round")
        while self.left() > 0 and not self.bad:
            self.round(goldens, True)
        for model in self.open.values():
            model.close()
        grown = resident() - before
        self.tell("memory at the end")
        print("\n".join(self.bad[:20] + [f"grew by {grown / 1e6:.1f} MB since the first round"]), flush=True)
        return grown <= ROOM and not self.bad


def devices(names):
    there = []
    for name in names:
        try:
            accel.get_device(name)
            there.append(name)
        except accel.AccelError as reason:
            print(f"{name}: left out: {reason}")
    return there


if __name__ == "__main__":
    found = devices(sys.argv[1:])
    sys.exit(77 if not found else 0 if Soak(found).run() else 1)
