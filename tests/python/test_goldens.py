"""`accel verify` on the golden of every model and head (tests/fixtures/models/goldens*.list) at every precision, on each device given in ACCEL_TEST_DEVICES
(default: cpu and reference, as far as they are built).  With ACCEL_TEST_FEWER=1 (sanitized builds outside of the long tier) it is the first golden of each
model, at fp32 and int8 (some at others, streamed), on the reference plugin at fp32 alone; that one never runs but four precisions, one of each kind of number.
"""
import functools
import glob
import json
import os
import struct
import subprocess
import tempfile
import unittest

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
MODELS = os.path.join(ROOT, "tests", "fixtures", "models")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "cpu reference").split()
FEWER = os.environ.get("ACCEL_TEST_FEWER", "0") != "0"
KINDS = "fp32 bf16 int8 int4".split()
PRECISIONS = KINDS[::2] if FEWER else "fp32 fp16 bf16 int8 fp8 int4 uint4 fp4".split()


def goldens():
    lines = []
    for path in sorted(glob.glob(os.path.join(MODELS, "goldens*.list"))):
        with open(path) as f:
            lines += [line.split() for line in f if line.strip() and not line.startswith("#")]
    return list({line[0]: line for line in reversed(lines)}.values()) if FEWER else lines


def verify(model, golden, device, architecture):
    command = [ACCEL, "verify", os.path.join(MODELS, model), "--golden", os.path.join(MODELS, model, golden), "--device", device, "--json"]
    if architecture:
        command += ["--architecture", architecture]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    report = json.loads(done.stdout) if done.stdout.strip() else {}
    return done.returncode, report, done.stderr


def verify_all(device, precision, some=None, timeout=300, **environment):
    """The reports of all goldens, or of some, in one process."""
    lines = [" ".join([os.path.join(MODELS, model), os.path.join(MODELS, model, golden), device, precision, *rest]) for model, golden, *rest in some or goldens()]
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run([ACCEL, "verify", "--list", file.name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout,
                              env=dict(os.environ, **environment))
    # the simulator of Qualcomm's NPU writes lines of its own
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    # 3, 6: not every golden passed; others are a sanitizer's, or the failure of one golden: its report says which
    assert done.returncode in (0, 3, 6), [done.returncode, done.stderr, *(report for report in reports if not report.get("pass"))]
    assert len(reports) == len(lines), f"{len(reports)} reports for {len(lines)} goldens; {done.stderr}; {[line for line in done.stdout.splitlines() if line[:1] != '{']}"
    return reports


@functools.lru_cache(maxsize=None)
def reports(device, precision):
    """Of all goldens, from mapped checkpoints and the cache of packed weights: what two tests look at is computed once."""
    return verify_all(device, precision)


class Goldens(unittest.TestCase):
    def test_every_golden_at_every_precision(self):
        self.assertGreater(len(goldens()), 100)
        for device in DEVICES:
            for precision in PRECISIONS if device != "reference" else KINDS[:1] if FEWER else KINDS:
                for (model, golden, *_), report in zip(goldens(), reports(device, precision)):
                    with self.subTest(device=device, precision=precision, model=model, golden=golden):
                        self.assertEqual((report.get("device"), report.get("precision")), (device, precision), report)
                        self.assertTrue(report["pass"], report)

    def test_streamed_as_in_memory(self):
        """Weights that are read again in each run, all of them or most, give the same numbers: the same distances to the goldens.  Each golden at one of
        five precisions."""
        for at, (precision, more) in enumerate((("bf16", "1"), ("fp32", "8K"), ("fp16", "8K"), ("int8", "1"), ("int4", "8K"))):
            some = goldens()[at::5]
            streamed = verify_all("cpu", precision, some, ACCEL_STREAM_WEIGHTS=more)
            mapped = reports("cpu", precision)[at::5] if precision in PRECISIONS else verify_all("cpu", precision, some)
            for (model, golden, *_), one, other in zip(some, mapped, streamed):
                with self.subTest(precision=precision, model=model, golden=golden):
                    self.assertEqual(one["outputs"], other["outputs"])

    def test_a_process_of_its_own(self):
        """Every eighth model alone, as `accel verify MODEL --golden FILE`: exit code 0.  (What leaks in any of them fails the lists above.)"""
        first = {model: (golden, rest) for model, golden, *rest in reversed(goldens())}
        for device in DEVICES:
            for model, (golden, rest) in list(first.items())[::8]:
                with self.subTest(device=device, model=model, golden=golden):
                    code, report, errors = verify(model, golden, device, rest[0] if rest else None)
                    self.assertEqual(code, 0, errors + json.dumps(report))
                    self.assertTrue(report["pass"])
                    self.assertEqual(report["device"], device)

    def test_a_wrong_golden_fails(self):
        """One value of the expected output changed: exit 6 and pass false."""
        model, golden, *rest = goldens()[0]
        with open(os.path.join(MODELS, model, golden), "rb") as f:
            data = bytearray(f.read())
        (n,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + n])
        begin = next(v["data_offsets"][0] for k, v in header.items() if k.startswith("out."))
        (value,) = struct.unpack_from("<f", data, 8 + n + begin)
        struct.pack_into("<f", data, 8 + n + begin, value + 1)
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "wrong.safetensors")
            with open(path, "wb") as f:
                f.write(data)
            code, report, _ = verify(model, path, DEVICES[0], rest[0] if rest else None)
            self.assertEqual(code, 6)
            self.assertFalse(report["pass"])


if __name__ == "__main__":
    unittest.main()
