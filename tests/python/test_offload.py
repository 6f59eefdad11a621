"""Weights that lie in host memory and are copied to a GPU in each run: the numbers are those of the model in device memory, bit by bit; what is copied is what was planned; a copy that
no event orders is found by the emulator; memory that cannot be pinned and copies that fail are said.  Likewise what host memory has no room for, and what is read from files.

ACCEL_STREAM_WEIGHTS plays a device whose memory has so many bytes more than the least, ACCEL_HOST_MEM_LIMIT a host.  OpenCL is a CPU's here, whose own kernels compute in host memory: ACCEL_GPU_VARIANTS=card
takes a card's, but attention's tiles, which PoCL compiles for minutes.  ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree."""
import functools
import json
import os
import re
import unittest

from sanitized import run_under_sanitizer
from test_cli import BUILD, FIXTURES, Case, model, run
from test_streaming import write_llama

LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
CARD = {"cuda": {}, "rocm": {}, "hip-emulated": {}, "vulkan": {}, "opencl": {"ACCEL_GPU_VARIANTS": "card,attention_rows"}}
# an encoder, a decoder with sessions, an encoder-decoder with cross attention, a mixture, whose experts stay
GOLDENS = {"bert": "BertModel.right", "llama": "LlamaForCausalLM.batch", "t5": "T5Model.right", "mixtral": "MixtralForCausalLM.greedy"}


@functools.lru_cache(None)
def there(device):
    return run("detect", device).returncode != 4


class Offload(Case):
    def card(self):
        """A device with memory of its own."""
        device = next(filter(there, ("vulkan", "hip-emulated")), None)
        if not device:
            self.skipTest("neither lavapipe nor the emulator is here")
        return device

    def a_llama(self, device):
        """A model of 14 MB: its directory, the arguments that generate with it, and what they give while all of it is in the device's memory."""
        path = self.path("llama")
        os.mkdir(path)
        write_llama(path)
        command = ("generate", path, "--ids", self.path("ids.json", "[5, 6, 7]"), "--device", device, "--precision", "bf16", "--max-new-tokens", "3", "--json")
        whole = self.good(*command)
        self.assertNotIn("streaming", whole)
        return path, command, whole

    def distances(self, name, device, precision, **environment):
        """All outputs of a golden, as distances from what it holds."""
        directory = os.path.join(FIXTURES, "models", name)
        done = run("verify", directory, "--golden", os.path.join(directory, f"golden.{GOLDENS[name]}.safetensors"), "--architecture", GOLDENS[name].split(".")[0],
                   "--device", device, "--precision", precision, "--json", environment={**CARD.get(device, {}), **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["outputs"]

    def test_the_same_bits(self):
        for device in filter(there, CARD):
            for name in GOLDENS if device == "hip-emulated" else ("bert", "llama"):
                for precision, more in (("fp32", "1"), ("int8", "20K")):
                    with self.subTest(device=device, model=name, precision=precision, more=more):
                        whole = self.distances(name, device, precision)
                        self.assertEqual(self.distances(name, device, precision, ACCEL_STREAM_WEIGHTS=more), whole)

    def test_parts_of_a_placement(self):
        """A part on a GPU copies, beside one on the processor that reads from files, with the bits of parts in memory."""
        for device in filter(there, CARD):
            for placement in (f"{device}=0-0+cpu=1-1", f"cpu=0-0+{device}=1-1"):
                with self.subTest(placement=placement):
                    whole = self.distances("llama", placement, "fp32", **CARD[device])
                    self.assertEqual(self.distances("llama", placement, "fp32", ACCEL_STREAM_WEIGHTS="1", **CARD[device]), whole)

    def test_a_part_under_a_limit(self):
        placement = f"{self.card()}=0-2+cpu=3-3"
        path, command, whole = self.a_llama(placement)
        limit = self.good("fit", path, "--device", placement, "--precision", "bf16", "--json")["devices"][0]["parts"][0]["total_bytes"] - (1 << 20)
        found = self.good(*command, "--memory", f"{limit >> 10}K")
        self.assertEqual(found["results"], whole["results"])
        s, parts = found["streaming"], found["parts"]
        self.assertTrue(parts[0]["streams"] and s["host_bytes"] > 0 and s["read_bytes"] == 3 * s["read_bytes_per_run"], found)
        fit = self.good("fit", path, "--device", placement, "--precision", "bf16", "--memory", f"{limit >> 10}K", "--json")["devices"][0]
        self.assertEqual((fit["stream_host_bytes"], fit["stream_read_bytes_per_run"]), (s["host_bytes"], s["read_bytes_per_run"]))
        self.assertEqual(self.good(*command[:-1], "--json", "--device", placement + ",cpu", "--memory", f"{limit >> 10}K")["device"], "cpu")

    def generate(self, device, *arguments, **environment):
        done = run("generate", model("text"), "a b c", "--device", device, "--max-new-tokens", "4", "--json", *arguments,
                   environment={**CARD.get(device, {}), **environment})
        return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr

    def test_what_is_copied(self):
        """Each run copies what was planned; more memory copies less."""
        for device in filter(there, CARD):
            with self.subTest(device=device):
                _, whole, errors = self.generate(device)
                self.assertIsNotNone(whole, errors)
                self.assertNotIn("streaming", whole)
                copied = []
                for more in ("1", "10K"):
                    _, found, errors = self.generate(device, ACCEL_STREAM_WEIGHTS=more)
                    self.assertIsNotNone(found, errors)
                    self.assertEqual(found["results"][0]["ids"], whole["results"][0]["ids"])
                    s = found["streaming"]
                    self.assertGreater(s["host_bytes"], 0)
                    self.assertEqual(s["read_bytes"], s["runs"] * s["read_bytes_per_run"])
                    self.assertGreater(s["read_bytes_per_run"], 0)
                    copied.append(s["read_bytes"])
                self.assertLess(copied[1], copied[0])

    def test_a_wait_that_is_missing(self):
        """Every wait of a run is needed: the emulator finds each one that is left out, and nothing but them."""
        if not there("hip-emulated"):
            self.skipTest("no emulator in this build")
        left_out = 0
        for n in range(1, 200):
            code, found, errors = self.generate("hip-emulated", ACCEL_STREAM_WEIGHTS="1", ACCEL_EMULATED_ORDER=f"drop_wait:{n}")
            if code == 0:
                break
            self.assertIn("an event is missing", errors)
            left_out += 1
            if left_out == 10:
                break
        self.assertEqual(left_out, 10)
        code, _, errors = self.generate("hip-emulated=0-0+cpu=1-1", ACCEL_STREAM_WEIGHTS="1", ACCEL_EMULATED_ORDER="drop_wait:1")
        self.assertNotEqual(code, 0)
        self.assertIn("an event is missing", errors)

    def test_memory_that_cannot_be_pinned(self):
        for device in filter(there, CARD):
            with self.subTest(device=device):
                _, whole, errors = self.generate(device)
                code, found, errors = self.generate(device, "--verbose", ACCEL_STREAM_WEIGHTS="1", ACCEL_FAIL_AT="pinned")
                self.assertEqual(code, 0, errors)
                self.assertEqual(found["results"][0]["ids"], whole["results"][0]["ids"])
                self.assertRegex(errors, "could not be pinned.*slower")

    def test_a_copy_that_fails(self):
        for device in filter(there, CARD):
            with self.subTest(device=device):
                code, _, errors = self.generate(device, ACCEL_STREAM_WEIGHTS="1", ACCEL_FAIL_AT="copy:5")
                self.assertNotEqual(code, 0)
                self.assertIn("copying weights to the device failed", errors)

    def test_from_the_disk(self):
        """Weights for which neither memory has room: read in each run, with the bits of the model in memory; coded ones from the cache, where a second load finds them."""
        for device in filter(there, CARD):
            emulated = device == "hip-emulated"
            for name in GOLDENS if emulated else ("llama",):
                plain = ("fp32", "1") if name != "llama" else ("bf16", "20K")
                for precision, host in (plain, ("int8", "1")) + ((("fp32", "1"), ("int4", "1")) if emulated and name == "llama" else ()):
                    with self.subTest(device=device, model=name, precision=precision, host=host):
                        whole = self.distances(name, device, precision)
                        cache = self.path("cache-" + device)
                        for _ in range(2 if precision == "int8" else 1):
                            self.assertEqual(self.distances(name, device, precision, ACCEL_STREAM_WEIGHTS="1", ACCEL_HOST_MEM_LIMIT=host, ACCEL_CACHE_DIR=cache), whole)

    def test_what_is_read(self):
        """Each run reads what was planned, and what is read ahead behind the last one."""
        for device in filter(there, CARD):
            for precision in ("bf16", "int8"):
                with self.subTest(device=device, precision=precision):
                    cache = self.path("cache-" + device)
                    _, whole, errors = self.generate(device, "--precision", precision)
                    self.assertIsNotNone(whole, errors)
                    for host in ("1", "2K") if device == "hip-emulated" else ("2K",):
                        code, found, errors = self.generate(device, "--precision", precision, "--cache-dir", cache, ACCEL_STREAM_WEIGHTS="1", ACCEL_HOST_MEM_LIMIT=host)
                        self.assertEqual(code, 0, errors)
                        self.assertEqual(found["results"][0]["ids"], whole["results"][0]["ids"])
                        s = found["streaming"]
                        self.assertGreater(s["disk_bytes_per_run"], 0)
                        self.assertGreaterEqual(s["read_bytes"], s["runs"] * s["read_bytes_per_run"])
                        self.assertLess(s["read_bytes"], (s["runs"] + 1) * s["read_bytes_per_run"] + 1)

    def test_a_wait_of_the_host_that_is_missing(self):
        """Pinned memory is filled again when the copy out of it has ended: the emulator finds each wait that is left out."""
        if not there("hip-emulated"):
            self.skipTest("no emulator in this build")
        for n in (1, 2, 7):
            code, _, errors = self.generate("hip-emulated", ACCEL_STREAM_WEIGHTS="1", ACCEL_HOST_MEM_LIMIT="1", ACCEL_EMULATED_ORDER=f"drop_host_wait:{n}")
            self.assertNotEqual(code, 0)
            self.assertIn("nobody has waited for it", errors)

    def test_faults_of_the_disk(self):
        """An error, or right numbers: what is read ahead behind the last run is not missed, and how many reads a load has is the device's."""
        device = self.card()
        _, whole, _ = self.generate(device, "--precision", "bf16")
        for fault, words in (("read_error", "cannot read"), ("file_changed", "the file was changed"), ("segment_changed", "not what they were")):
            failed = 0
            for n in (5,) if fault == "segment_changed" else (30, 52, 64, 82):
                with self.subTest(fault=fault, n=n):
                    code, found, errors = self.generate(device, "--precision", "bf16", ACCEL_STREAM_WEIGHTS="1", ACCEL_HOST_MEM_LIMIT="1", ACCEL_FAIL_AT=f"{fault}:{n}")
                    failed += code != 0
                    if code:
                        self.assertRegex(errors, words)
                    else:
                        self.assertEqual(found["results"][0]["ids"], whole["results"][0]["ids"])
            self.assertGreater(failed, 0, fault)
        code, _, errors = self.generate(device, "--precision", "int8", "--no-cache", ACCEL_STREAM_WEIGHTS="1", ACCEL_HOST_MEM_LIMIT="1")
        self.assertEqual(code, 5, errors)
        self.assertIn("quantised weights are streamed from the cache of packed weights", errors)

    def test_a_limit_of_host_memory(self):
        """The same model with too little host memory: `accel fit` tells what is read from files, and the load reads that."""
        device = self.card()
        path, command, whole = self.a_llama(device)
        least = re.search(r"with --memory (\d+M) it runs", run(*command, "--memory", "1M").stderr).group(1)
        small = run(*command, "--memory", least, environment={"ACCEL_HOST_MEM_LIMIT": "100K"})
        self.assertEqual(small.returncode, 5, small.stderr)
        self.assertRegex(small.stderr, r"take [0-9.]+ MiB of host memory, or [0-9.]+ MiB at least, and 0.[01] MiB are there")
        limit = {"ACCEL_HOST_MEM_LIMIT": "6M"}
        done = run(*command, "--memory", least, environment=limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["results"], whole["results"])
        fit = json.loads(run("fit", path, "--device", device, "--precision", "bf16", "--memory", least, "--json", environment=limit).stdout)["devices"][0]
        self.assertGreater(fit["stream_disk_bytes_per_run"], 0)
        self.assertLessEqual(fit["stream_host_bytes"], 6 << 20)
        self.assertEqual(found["streaming"]["disk_bytes_per_run"], fit["stream_disk_bytes_per_run"])

    def test_a_limit(self):
        """Under a limit `accel fit` says what stays and what is copied, the load keeps to it, and what is refused names a limit that works."""
        device = self.card()
        path, command, whole = self.a_llama(device)
        refused = run(*command, "--memory", "1M")
        self.assertEqual(refused.returncode, 5, refused.stderr)
        least = re.search(r"with --memory (\d+M) it runs, its weights being copied from host memory", refused.stderr)
        self.assertIsNotNone(least, refused.stderr)
        copied = []
        for limit in (least.group(1), f"{int(least.group(1)[:-1]) + 3}M"):
            with self.subTest(limit=limit):
                found = self.good(*command, "--memory", limit)
                s = found["streaming"]
                self.assertEqual(found["results"], whole["results"])
                self.assertLessEqual(s["resident_bytes"] + s["staging_bytes"], int(limit[:-1]) << 20)
                self.assertEqual(s["read_bytes"], 3 * s["read_bytes_per_run"])
                copied.append(s["read_bytes"])
                fit = self.good("fit", path, "--device", device, "--precision", "bf16", "--memory", limit, "--json")["devices"][0]
                self.assertTrue(fit["streams"])
                self.assertGreater(fit["stream_host_bytes"], 0)
                self.assertLessEqual(fit["total_bytes"], int(limit[:-1]) << 20)
        self.assertLess(copied[1], copied[0])

    def test_too_little_host_memory(self):
        """A machine that says that 100 kB are left."""
        root = self.path("root")
        os.makedirs(os.path.join(root, "proc"))
        with open(os.path.join(root, "proc", "meminfo"), "w", encoding="ascii") as f:
            f.write("MemTotal: 100 kB\nMemAvailable: 100 kB\n")
        device = self.card()
        code, _, errors = self.generate(device, ACCEL_STREAM_WEIGHTS="1", ACCEL_DETECT_ROOT=root)
        self.assertEqual(code, 5, errors)
        self.assertRegex(errors, "take [0-9.]+ MiB of host memory, or [0-9.]+ MiB at least, and 0.[01] MiB are there")

    def test_a_choice_goes_on(self):
        """A chain, and a precision that is to be chosen, pass over what would copy."""
        device = self.card()
        code, found, errors = self.generate(device + ",cpu", ACCEL_STREAM_WEIGHTS="1")
        self.assertEqual((code, found and found["device"]), (0, "cpu"), errors)
        code, _, errors = self.generate(device, "--precision", "auto", ACCEL_STREAM_WEIGHTS="1")
        self.assertEqual(code, 5, errors)
        self.assertIn("name the device alone, and the precision", errors)

    def test_a_processor_behind_opencl(self):
        """Its weights are in host memory anyway: nothing is streamed, whatever is asked."""
        if not there("opencl"):
            self.skipTest("no OpenCL here")
        done = run("generate", model("text"), "a b c", "--device", "opencl", "--max-new-tokens", "2", "--json", environment={"ACCEL_STREAM_WEIGHTS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("streaming", json.loads(done.stdout))


if __name__ == "__main__":
    unittest.main()
