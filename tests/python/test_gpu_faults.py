"""What befalls the GPU plugins on other people's machines, and what is said of it: no loader, no driver, a driver that crashes or hangs, a device lost in the middle of a run or a
generation, two processes and two threads on one device, one description of an endpoint on each device in turn and on all at once.

What is injected below this level: tests/unit/*_api_test.c (each driver call), tests/gpu (each allocation; the HIP runtime's calls), tests/unit/hardware_*_test.c
(plugins of another ABI, wrong kernels), tests/python/test_device_caches.py (two processes).  ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree."""
import json
import os
import sys
import threading
import unittest

from sanitized import run_under_sanitizer
from test_cli import BUILD, Case, model, run

LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))), "src", "bindings", "python"))
import accel  # noqa: E402

DRIVER = os.path.join(BUILD, "tests", "stubs", "driver", "libdriver.so")
GPUS = ("opencl", "vulkan", "webgpu", "hip-emulated")
NO_WGPU = "wgpu_native"  # where the library is absent, which is then the reason
EMBED = ("embed", model("base"), "a sentence")


def there(device):
    return run("detect", device).returncode != 4


class Drivers(Case):
    """The loaders obey these variables: a machine of its own for each test."""

    def machine(self, icd=None):
        """Variables under which both loaders see this driver alone, or none."""
        vendors, manifest = os.path.join(self.work, "vendors"), self.path("icd.json", json.dumps(
            {"file_format_version": "1.0.0", "ICD": {"library_path": icd or "/nonexistent/driver.so", "api_version": "1.1.0"}}))
        os.makedirs(vendors, exist_ok=True)
        if icd:
            self.path(os.path.join("vendors", "stub.icd"), icd + "\n")
        return {"OCL_ICD_VENDORS": vendors + "/", "OPENCL_VENDOR_PATH": vendors, "VK_ICD_FILENAMES": manifest, "VK_DRIVER_FILES": manifest,
                "ACCEL_CACHE_DIR": os.path.join(self.work, "cache")}

    def check(self, variables, and_run=True, **patterns):
        """`accel detect` stands and says of each device why it does not serve; so does what needs it; the processor serves."""
        done = run("detect", "--json", environment=variables, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["devices"]
        for device, pattern in patterns.items():
            if not any(d["name"].split(":")[0] == device and d["compiled"] for d in rows):
                continue  # that plugin is not of this build
            row = next(d for d in rows if d["name"].split(":")[0] == device)
            with self.subTest(device=device):
                self.assertFalse(row["usable"])
                self.assertRegex(row["reason"], pattern)
                if not and_run:
                    continue
                self.bad(4, pattern, *EMBED, "--device", device, environment=variables)
                done = run(*EMBED, "--device", device + ",cpu", "--json", environment=variables)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["device"], "cpu")

    def test_no_driver(self):
        self.check(self.machine(), opencl="knows no driver|no platform|no device", vulkan="no Vulkan driver installed|no driver that fits", webgpu="finds no adapter|" + NO_WGPU)

    def test_a_driver_that_crashes(self):
        self.check(self.machine(DRIVER), opencl="crash|signal|segment", vulkan="crash|signal|segment", webgpu="crash|signal|segment|" + NO_WGPU)

    def test_a_driver_that_hangs(self):
        self.check({**self.machine(DRIVER), "STUB_DRIVER": "hang"}, and_run=False, opencl="not answer|hang|hung|time", vulkan="not answer|hang|hung|time", webgpu="not answer|hang|hung|time|" + NO_WGPU)

    def test_no_loader(self):
        """Files in the loaders' names that are no libraries, before the real ones."""
        for name in ("libOpenCL.so.1", "libvulkan.so.1"):
            self.path(name, "")
        self.check({"LD_LIBRARY_PATH": self.work}, opencl="libOpenCL.so.1", vulkan="libvulkan.so.1", webgpu="finds no adapter|" + NO_WGPU)


class Lost(Case):
    def test_a_run_fails_and_the_device_serves_again(self):
        for device in filter(there, GPUS):
            with self.subTest(device=device):
                self.bad(1, "lost", *EMBED, "--device", device, environment={"ACCEL_FAIL_AT": "device_lost:1"})
                self.good(*EMBED, "--device", device)

    def tokens(self, device):
        return self.good("generate", model("text"), "a b", "--device", device, "--max-new-tokens", "6")["results"][0]["ids"]

    def test_a_generation_is_replayed(self):
        """Lost at the third run of a greedy generation: the error says so, and the generation anew, there and elsewhere, gives the same tokens."""
        for device in filter(there, GPUS):
            with self.subTest(device=device):
                want = self.tokens("cpu")
                self.bad(1, "lost", "generate", model("text"), "a b", "--device", device, "--max-new-tokens", "6", environment={"ACCEL_FAIL_AT": "device_lost:3"})
                self.assertEqual(self.tokens(device), want)


def vectors(device, precision):
    with accel.AutoModel.from_pretrained(model("base"), device=device, precision=precision) as m:
        found = m.run(input_ids=[[1, 5, 9, 2, 7]], attention_mask=[[1] * 5])["last_hidden_state"]
        return list(m.placement.device.split(":"))[0], [float(x) for row in found[0] for x in row]


def agreement(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


class Switching(unittest.TestCase):
    """One description, each device: within the bounds of docs/verify.md of the processor's fp32."""
    LEAST = {"fp32": 0.999999, "fp16": 0.999, "int8": 0.99}

    @classmethod
    def setUpClass(cls):
        cls.devices = ["cpu", "reference", *filter(there, GPUS)]
        cls.want = vectors("cpu", "fp32")[1]

    def check(self, device, precision):
        where, found = vectors(device, precision)
        self.assertEqual(where, device)
        self.assertGreaterEqual(agreement(found, self.want), self.LEAST[precision], f"{device} {precision}")
        return found

    def test_in_turn(self):
        for precision in self.LEAST:
            first = {}
            for _ in range(2):
                for device in self.devices:
                    with self.subTest(device=device, precision=precision):
                        self.assertEqual(first.setdefault(device, self.check(device, precision)), self.check(device, precision))

    def test_all_at_once(self):
        """Every device twice, each in a thread of its own, three times."""
        bad = []

        def work(device, precision):
            try:
                for _ in range(3):
                    self.check(device, precision)
            except Exception as problem:  # of the thread
                bad.append(f"{device} {precision}: {problem!r}")

        threads = [threading.Thread(target=work, args=(device, precision)) for device in self.devices for precision in ("fp32", "int8")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(bad, [])


if __name__ == "__main__":
    unittest.main()
