"""Memory stays where it is over hundreds of loads and runs on a device: SOAK_SECONDS (60) on each device named on the command line.

Run by the long tier.  ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.  A device that is not there is left out, with its reason."""
import os
import sys
import time

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
os.environ["ACCEL_LIBRARY"] = os.path.join(BUILD, "lib", "libaccel.so.0")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

MODELS = [os.path.join(ROOT, "tests", "fixtures", "pipelines", "base")]
SECONDS, LEAST, ROOM = float(os.environ.get("SOAK_SECONDS", "60")), 20, 16 << 20


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(device):
    """Loads, runs of several shapes, closes; the first tenth warms up, the rest may not grow."""
    end, loads, before = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < end or loads < LEAST:
        for path in MODELS:
            model = accel.AutoModel.from_pretrained(path, device=device, precision=("fp32", "fp16", "int8")[loads % 3])
            try:
                for n in (3, 17, 5):
                    model.run(input_ids=[[1 + i % 50 for i in range(n)]], attention_mask=[[1] * n])
            finally:
                model.close()
            loads += 1
        if time.monotonic() < end - 0.9 * SECONDS or loads < LEAST // 2:
            before = resident()
    grown = resident() - before
    print(f"{device}: {loads} loads, {3 * loads} runs, {before / 1e6:.1f} MB grew by {grown / 1e6:.1f} MB", flush=True)
    return grown <= ROOM


if __name__ == "__main__":
    good, ran = True, 0
    for name in sys.argv[1:]:
        try:
            accel.get_device(name)
        except accel.AccelError as reason:
            print(f"{name}: left out: {reason}")
            continue
        ran += 1
        good = soak(name) and good
    sys.exit(0 if good and ran else 1 if ran else 77)
