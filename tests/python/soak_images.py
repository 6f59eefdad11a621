"""Pipelines that make pictures, in one process for SOAK_SECONDS (60): Stable Diffusion, SDXL, SD 3, Flux, LCM and DDPM at three precisions.  Four threads make
pictures of two sizes, with other schedulers, of a picture, in tiles, cancel at a step, and let models go and load them anew.  Pictures are those of the first
call with the same arguments; memory and open files stay where they were at half time.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree; ACCEL_TEST_DEVICES: devices in place of the CPU, separated by commas."""
import collections
import os
import random
import sys
import threading
import time

from test_tasks import BUILD, ROOT

os.environ["ACCEL_LIBRARY"] = os.path.join(BUILD, "lib", "libaccel.so.0")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

SECONDS, ROOM, THREADS, SCHEDULERS = float(os.environ.get("SOAK_SECONDS", "60")), 16 << 20, 4, (None, "ddim", "dpm++", "euler-ancestral", "heun")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "cpu").split(",")
PIPELINES = os.path.join(ROOT, "tests", "fixtures", "diffusion", "pipelines")
PICTURE = os.path.join(ROOT, "tests", "fixtures", "image", "pictures", "rgb.png")
MODELS = [("euler", "fp32"), ("euler", "int8"), ("xl", "bf16"), ("sd3", "fp32"), ("flux", "fp32"), ("lcm", "fp32"), ("ddpm", "fp32")]


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files():
    return len(os.listdir("/proc/self/fd"))


class Painter:
    """A pipeline that is opened anew while nobody uses it."""

    def __init__(self, soak, device, name, precision):
        self.soak, self.how, self.noise = soak, (device, name, precision), name == "ddpm"
        self.users, self.lock, self.first = 0, threading.Lock(), {}
        self.open()

    def open(self):
        device, name, precision = self.how
        task = "unconditional-image-generation" if self.noise else "text-to-image"
        self.paint = accel.pipeline(task, os.path.join(PIPELINES, name), device=device, precision=precision, context=self.soak.context)

    def arguments(self, chance):
        if self.noise:
            return {"steps": chance.randint(1, 4), "generator": chance.randrange(3)}
        what = {"steps": chance.randint(2, 4), "generator": chance.randrange(3), "images_per_prompt": chance.randint(1, 2)}
        unet = self.how[1] in ("euler", "xl", "lcm")
        if unet and chance.randrange(3) == 0:
            what["scheduler"] = chance.choice(SCHEDULERS)
        if self.how[1] in ("euler", "xl") and chance.randrange(3) == 0:
            what.update(image=PICTURE, strength=0.6)
        elif chance.randrange(2):
            what.update(width=32, height=48)
            what["vae_tiling"] = int(unet and chance.randrange(2))
        return what

    def call(self, on_step=None, **arguments):
        made = self.paint.model.text_to_image([] if self.noise else ["a cat"], on_step=on_step, **arguments)
        return b"".join(image.rgb for image in made.images)

    def leave(self, anew):
        with self.lock:
            self.users -= 1
            if anew and not self.users:
                self.paint.close()
                self.open()
                self.soak.count["loads"] += 1


class Soak:
    def __init__(self):
        self.context = accel.Context(threads=2, no_cache=True)
        self.count, self.bad, self.begun = collections.Counter(), [], time.monotonic()
        self.painters = [Painter(self, device, *how) for device in DEVICES for how in MODELS]

    def one(self, painter, chance):
        arguments = painter.arguments(chance)
        key = repr(sorted(arguments.items()))
        if chance.randrange(5) == 0:
            at = chance.randint(1, arguments["steps"])
            try:
                painter.call(on_step=lambda step, steps, latents: step >= at, **arguments)
                self.count["finished"] += 1
            except accel.CancelledError:
                self.count["cancelled"] += 1
            return
        got = painter.call(**arguments)
        self.count["calls"] += 1
        with painter.lock:
            if painter.first.setdefault(key, hash(got)) != hash(got):
                self.bad.append(f"{painter.how}: another picture for {key}")

    def work(self, seed):
        chance = random.Random(seed)
        while time.monotonic() < self.begun + SECONDS and not self.bad:
            painter = chance.choice(self.painters)
            with painter.lock:
                painter.users += 1
            try:
                self.one(painter, chance)
            except Exception as e:  # whatever it is, the soak has failed
                self.bad.append(f"{painter.how}: {type(e).__name__}: {e}")
            finally:
                painter.leave(chance.randrange(12) == 0)

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
        for painter in self.painters:
            painter.paint.close()
        self.context.close()
        return grown <= ROOM and more <= 2 * THREADS and not self.bad


if __name__ == "__main__":
    sys.exit(0 if Soak().run() else 1)
