"""accel detect and accel-probe as a user meets them: the report's form, broken plugins, an AMD machine built in a temporary folder."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
PROBE = os.path.join(BUILD, "libexec", "accel", "accel-probe")
STUBS = os.path.join(BUILD, "tests", "stubs")
VENDORS = ["hip", "hsa", "cuda", "opencl", "vulkan", "openvino", "qualcomm", "webgpu"]
DICTIONARY = ["cpu", "cuda", "cuda_version", "cuda_devices", "mps", "openvino", "qualcomm", "amd", "amd_version", "amd_devices"]
HARDWARE = {"cpu", "cuda", "amd", "opencl", "vulkan", "openvino", "apple", "qualcomm", "webgpu", "webnn"}


def run(program, *arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("STUB_", "HIP_", "ROCR_", "CUDA_", "HSA_", "GPU_"))}
    for name in ("ACCEL_PLUGIN_PATH", "ACCEL_PROBE", "ACCEL_DETECT_ROOT", "ACCEL_ALLOW_SOFTWARE"):
        environment.pop(name, None)
    environment.update(variables)
    return subprocess.run([program, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)


def detect(**variables):
    result = run(ACCEL, "detect", "--json", **variables)
    if result.returncode != 0:
        raise AssertionError(f"accel detect --json exits with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def device(report, name):
    return next(d for d in report["devices"] if d["name"] == name)


class Probe(unittest.TestCase):
    def test_usage(self):
        for arguments in ([], ["vendor"], ["vendor", "nobody"], ["plugin"], ["test", "x", "0"]):
            result = run(PROBE, *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(result.stdout, "")
            self.assertIn("usage:", result.stderr)

    def test_every_vendor_answers_json(self):
        for vendor in VENDORS:
            result = run(PROBE, "vendor", vendor)
            self.assertEqual(result.returncode, 0, vendor)
            answer = json.loads(result.stdout[result.stdout.index("{"):])
            self.assertEqual(answer["vendor"], vendor)
            self.assertTrue(answer["library"] or answer["error"], answer)
            self.assertIsInstance(answer["devices"], list)

    def test_a_missing_plugin_is_a_verdict(self):
        result = run(PROBE, "plugin", "/nonexistent/libaccel_x.so")
        self.assertEqual(result.returncode, 0)
        answer = json.loads(result.stdout[result.stdout.index("{"):])
        self.assertIn("No such file", answer["why"])


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = detect()

    def test_form(self):
        keys = list(self.report)
        self.assertEqual(self.report["schema"], "accel.detect/1")
        self.assertEqual([k for k in keys if k in DICTIONARY], DICTIONARY)
        self.assertLess(keys.index("amd_devices"), keys.index("devices"))
        self.assertIs(self.report["cpu"], True)
        for count in ("cuda_devices", "amd_devices", "opencl_devices", "vulkan_devices"):
            self.assertIsInstance(self.report[count], int)

    def test_every_kind_of_hardware_has_a_row(self):
        self.assertLessEqual(HARDWARE, {d["hardware"] for d in self.report["devices"]})

    def test_the_processor_serves(self):
        cpu = device(self.report, "cpu")
        self.assertEqual([cpu[f] for f in ("compiled", "loaded", "found", "tested", "usable")], [True] * 5, cpu["reason"])
        self.assertEqual(cpu["self_test"]["fp32"], "pass")
        self.assertEqual(cpu["reason"], "")

    def test_what_does_not_serve_says_why(self):
        for d in self.report["devices"]:
            if not d["usable"]:
                self.assertTrue(d["reason"], d["name"])
                self.assertIn(False, [d[f] for f in ("compiled", "loaded", "found", "tested")], d["name"])

    def test_text(self):
        result = run(ACCEL, "detect")
        self.assertEqual(result.returncode, 0)
        for name in ("cpu", "cuda", "webnn"):
            self.assertIn(name, result.stdout)
        self.assertEqual(result.stderr, "")


class SelfTest(unittest.TestCase):
    def test_expected_numbers_are_the_scripts(self):
        script = os.path.join(ROOT, "tests", "goldens", "hardware_selftest.py")
        made = subprocess.run([sys.executable, script], check=True, stdout=subprocess.PIPE, text=True).stdout
        with open(os.path.join(ROOT, "src", "hardware", "selftest_numbers.h")) as f:
            self.assertEqual(f.read(), made)


class BrokenPlugins(unittest.TestCase):
    def test_detect_stands(self):
        report = detect(ACCEL_PLUGIN_PATH=os.path.join(STUBS, "plugins"))
        verdicts = {os.path.basename(p["path"]): p["verdict"] for p in report["plugins"]}
        for name, verdict in {"good": "good", "abi": "abi", "short": "table", "symbol": "no-symbol", "crash": "crashed", "hang": "hung",
                              "mix": "sanitizer", "slot": "table", "garbage": "devices"}.items():
            self.assertEqual(verdicts[f"libaccel_{name}.so"], verdict)
        self.assertTrue(device(report, "good")["usable"])
        self.assertIn("wrong numbers", device(report, "liar")["reason"])

    def test_without_the_helper_nothing_is_opened(self):
        report = detect(ACCEL_PLUGIN_PATH=os.path.join(STUBS, "gpus"), ACCEL_PROBE="/nonexistent/accel-probe")
        verdicts = {os.path.basename(p["path"]): p["verdict"] for p in report["plugins"]}
        self.assertEqual(verdicts["libaccel_rocm.so"], "no-helper")
        self.assertEqual(verdicts["libaccel_cpu.so"], "good")


class OpenVino(unittest.TestCase):
    """Its plugin beside a library that is absent, too old, or fails at one call after the other."""

    def absent(self, folder, **variables):
        row = device(detect(ACCEL_OPENVINO_DIR=folder, **variables), "openvino")
        self.assertEqual((row["usable"], row["compiled"]), (False, True), row)
        return row

    def test_no_library(self):
        row = self.absent("/nonexistent")
        self.assertIn("/nonexistent/libopenvino_c.so", row["reason"])
        self.assertIn("pip install openvino", row["remedy"])

    def test_an_old_library(self):
        row = self.absent(os.path.join(STUBS, "openvino-old"))
        self.assertIn("OpenVINO 2024 or later", row["reason"])

    def test_a_library_that_fails(self):
        for mode, words in (("core", "does not start"), ("read", "does not read a small model"), ("list", "does not list its devices"),
                            ("none", "has no device on this machine"), ("crash", "[Cc]rash|ended the probe")):  # the latter under a sanitizer
            with self.subTest(mode):
                row = self.absent(os.path.join(STUBS, "openvino"), STUB_OPENVINO=mode)
                self.assertRegex(row["reason"], words)
                self.assertTrue(row["remedy"])
                self.assertEqual("OCL_ICD_VENDORS" in row["remedy"], mode == "crash", row)

    def test_a_device_that_cannot_compile_is_listed_and_fails_its_test(self):
        report = detect(ACCEL_OPENVINO_DIR=os.path.join(STUBS, "openvino"), STUB_OPENVINO="device")
        row = device(report, "openvino:0")
        self.assertEqual([row[f] for f in ("compiled", "loaded", "found", "tested")], [True, True, True, False], row)
        self.assertIn("the stub compiles nothing", row["reason"])


@unittest.skipUnless(glob.glob(os.path.join(BUILD, "lib", "accel", "*", "libaccel_webgpu.so")), "built without GLSL's compiler")
class WebGpu(unittest.TestCase):
    """Its plugin beside a library that is absent, of another version, incomplete, or fails."""

    def absent(self, folder, **variables):
        row = device(detect(ACCEL_WEBGPU_DIR=folder, **variables), "webgpu")
        self.assertEqual((row["usable"], row["compiled"]), (False, True), row)
        self.assertTrue(row["remedy"], row)
        return row

    def test_no_library(self):
        row = self.absent("/nonexistent")
        self.assertIn("/nonexistent/libwgpu_native.so", row["reason"])
        self.assertIn("pip install wgpu==0.32.0", row["remedy"])

    def test_a_library_that_does_not_fit(self):
        for folder, mode, words in (("webgpu", "old", "is wgpu-native 27.0.4.0, whose structures"), ("webgpu-dawn", "", "Dawn is not supported"),
                                    ("webgpu-short", "", "has no wgpu"), ("webgpu", "none", "finds no adapter"),
                                    ("webgpu", "crash", "[Cc]rash|ended the probe")):  # the latter under a sanitizer
            with self.subTest(folder=folder, mode=mode):
                row = self.absent(os.path.join(STUBS, folder), STUB_WEBGPU=mode)
                self.assertRegex(row["reason"], words)
                if mode == "old" or folder == "webgpu-dawn":
                    self.assertIn("pip install wgpu==0.32.0", row["remedy"])


class OnnxRuntime(unittest.TestCase):
    """Its plugin beside a library that is absent, too old, or fails at one call after the other, and with Qualcomm's provider."""

    def plugin(self, folder, **variables):
        """(report, what its file said)"""
        report = detect(ACCEL_ONNXRUNTIME_DIR=folder, **variables)
        return report, next(p for p in report["plugins"] if p["path"].endswith("libaccel_onnxruntime.so"))

    def test_no_library(self):
        report, plugin = self.plugin("/nonexistent")
        self.assertEqual(plugin["verdict"], "devices")
        self.assertIn("/nonexistent/libonnxruntime.so", plugin["reason"])
        self.assertIn("pip install onnxruntime", plugin["reason"])
        row = device(report, "qualcomm")
        self.assertEqual([row[f] for f in ("compiled", "loaded", "found", "tested", "usable")], [True, False, False, None, False], row)
        self.assertIn("no libonnxruntime_providers_qnn.so", row["reason"])
        self.assertIn("pip install onnxruntime onnxruntime-qnn", row["remedy"])

    def test_a_library_that_fails(self):
        for mode, words in (("old", "1.22 or later is wanted"), ("env", "does not start"), ("crash", "[Cc]rash|ended the probe")):
            with self.subTest(mode):
                report, plugin = self.plugin(os.path.join(STUBS, "onnxruntime-qnn"), STUB_ONNXRUNTIME=mode)
                self.assertRegex(plugin["reason"], words)
                row = device(report, "qualcomm")
                self.assertEqual((row["found"], row["usable"]), (True, False), row)
                self.assertRegex(row["reason"], words)
                self.assertTrue(row["remedy"])

    def test_a_device_that_runs_nothing_is_listed_and_fails_its_test(self):
        report, _ = self.plugin(os.path.join(STUBS, "onnxruntime"))
        row = device(report, "onnxruntime")
        self.assertEqual([row[f] for f in ("compiled", "loaded", "found", "tested")], [True, True, True, False], row)
        self.assertIn("the stub runs nothing", row["reason"])
        self.assertIn("pip install onnxruntime onnxruntime-qnn", device(report, "qualcomm")["remedy"])

    def test_a_provider_that_does_not_load(self):
        report, _ = self.plugin(os.path.join(STUBS, "onnxruntime-qnn"), STUB_ONNXRUNTIME="register")
        row = device(report, "qualcomm:0")
        self.assertEqual((row["hardware"], row["usable"]), ("qualcomm", False), row)
        self.assertIn("the stub runs nothing", row["reason"])
        self.assertIn("pip install -U onnxruntime-qnn", row["reason"])

    def test_a_provider_without_a_device(self):
        report, _ = self.plugin(os.path.join(STUBS, "onnxruntime-qnn"))
        row = device(report, "qualcomm")
        self.assertEqual((row["found"], row["usable"]), (True, False), row)
        self.assertIn("lists no device of it", row["reason"])


class EveryLibrary(unittest.TestCase):
    """All vendors' libraries at once absent, broken or there, as stubs: detect says why each one does not serve and what to do, and matrix lists what is left."""
    ROWS = {"cuda", "amd", "opencl", "vulkan", "openvino", "qualcomm", "webgpu"}
    LOADERS = ["libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libhsa-runtime64.so.1", "libOpenCL.so.1", "libvulkan.so.1"]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)
        return f.name

    def check(self, patterns, usable=(), **variables):
        """patterns: words of each row's reason.  usable: hardware that may serve, too, where its driver is installed."""
        variables["ACCEL_CACHE_DIR"] = os.path.join(self.folder, "cache")
        report = detect(**variables)
        rows = {d["hardware"]: d for d in report["devices"]}
        self.assertTrue(rows["cpu"]["usable"])
        for hardware, words in patterns.items():
            row = rows[hardware]
            with self.subTest(hardware=hardware):
                if not row["compiled"]:
                    continue  # that plugin is not of this build
                self.assertFalse(row["usable"], row)
                self.assertRegex(row["reason"], words)
                self.assertTrue(row["remedy"], row)
        done = run(ACCEL, "matrix", "bert-base-uncased", "--json", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        capable = {name.split(":")[0] for name in json.loads(done.stdout)["models"][0]["capable"]}
        self.assertIn("cpu", capable)
        self.assertLessEqual(capable, {"cpu", "reference", "hip-emulated", *usable})
        self.assertLessEqual({d["plugin"] for d in report["devices"] if d["usable"]}, {"cpu", "reference", "hip-emulated", *usable})

    def test_absent(self):
        for name in self.LOADERS:
            self.path(name, "")  # no library, before a real one
        patterns = {"cuda": "no NVIDIA GPU driver here.*libcuda.so.1", "amd": "HIP: .*libamdhip64", "opencl": "no OpenCL loader here.*libOpenCL.so.1",
                    "vulkan": "no Vulkan loader here.*libvulkan.so.1", "openvino": "no OpenVINO here.*libopenvino_c.so", "qualcomm": "libonnxruntime_providers_qnn.so beside",
                    "webgpu": "no wgpu-native here.*libwgpu_native.so"}
        self.assertEqual(set(patterns), self.ROWS)
        self.check(patterns, LD_LIBRARY_PATH=self.folder, ACCEL_OPENVINO_DIR="/nonexistent", ACCEL_ONNXRUNTIME_DIR="/nonexistent", ACCEL_WEBGPU_DIR="/nonexistent")

    def test_broken(self):
        driver = os.path.join(STUBS, "driver", "libdriver.so")
        manifest = self.path("icd.json", json.dumps({"file_format_version": "1.0.0", "ICD": {"library_path": driver, "api_version": "1.1.0"}}))
        self.path("stub.icd", driver + "\n")
        ended = "([Cc]rashed in|ended) the probe"  # the latter under a sanitizer
        patterns = dict.fromkeys(self.ROWS, ended)
        patterns.update(cuda="NVIDIA GPU driver fails here: " + ended, opencl=f"OpenCL loader fails here: {ended}|libOpenCL.so.1: cannot open",
                        vulkan=f"Vulkan loader fails here: {ended}|libvulkan.so.1: cannot open")
        self.check(patterns, LD_LIBRARY_PATH=os.path.join(STUBS, "vendor"), STUB_CUDA="crash", STUB_HIP="crash", STUB_HSA="crash",
                   OCL_ICD_VENDORS=self.folder + "/", OPENCL_VENDOR_PATH=self.folder, VK_ICD_FILENAMES=manifest, VK_DRIVER_FILES=manifest,
                   ACCEL_OPENVINO_DIR=os.path.join(STUBS, "openvino"), STUB_OPENVINO="crash", ACCEL_ONNXRUNTIME_DIR=os.path.join(STUBS, "onnxruntime-qnn"),
                   STUB_ONNXRUNTIME="crash", ACCEL_WEBGPU_DIR=os.path.join(STUBS, "webgpu"), STUB_WEBGPU="crash")

    def test_there(self):
        """The vendors' libraries list devices, which compute nothing; OpenCL and Vulkan are what this machine has."""
        patterns = {"cuda": "NVIDIA H200 cannot be used", "amd": r"AMD Radeon RX 6800 \(seen by hip\) cannot be used", "openvino": "the stub compiles nothing",
                    "qualcomm": "lists no device of it", "onnxruntime": "the stub runs nothing", "webgpu": "lists no device"}
        self.check(patterns, usable=("opencl", "vulkan"), LD_LIBRARY_PATH=os.path.join(STUBS, "vendor"), STUB_CUDA="NVIDIA H200",
                   STUB_HIP="AMD Radeon RX 6800@0000:0A:00.0@16368", ACCEL_OPENVINO_DIR=os.path.join(STUBS, "openvino"), STUB_OPENVINO="device",
                   ACCEL_ONNXRUNTIME_DIR=os.path.join(STUBS, "onnxruntime-qnn"), ACCEL_WEBGPU_DIR=os.path.join(STUBS, "webgpu"))


class AmdTree(unittest.TestCase):
    """A machine with one AMD card as the kernel shows it, and no device files."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        node = "sys/class/kfd/kfd/topology/nodes"
        self.write(f"{node}/0/properties", "cpu_cores_count 8\nsimd_count 0\n")
        self.write(f"{node}/1/properties", "cpu_cores_count 0\nsimd_count 160\nsimd_per_cu 2\ngfx_target_version 100300\nlocation_id 768\n"
                                           "domain 0\nwave_front_size 32\nunique_id 42\n")
        self.write(f"{node}/1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 17163091968\n")
        card = "sys/class/drm/card0/device"
        for name, text in {"vendor": "0x1002", "uevent": "PCI_SLOT_NAME=0000:03:00.0", "mem_info_vram_total": "17163091968",
                           "mem_info_vram_used": "0", "mem_info_gtt_total": "8000000000", "mem_info_gtt_used": "0",
                           "product_name": "AMD Radeon RX 6800 XT"}.items():
            self.write(f"{card}/{name}", text + "\n")
        self.variables = {"ACCEL_DETECT_ROOT": self.folder.name, "PATH": STUBS + "/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": STUBS + "/vendor"}

    def write(self, path, text):
        full = os.path.join(self.folder.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)


class AmdMachine(AmdTree):
    def test_a_card_without_driver_files(self):
        report = detect(**self.variables)
        self.assertIs(report["amd"], True)
        self.assertEqual(report["amd_devices"], 1)
        details = report["amd_details"]
        self.assertEqual(details["believed"], "sysfs")
        card = details["devices"][0]
        self.assertEqual((card["name"], card["arch"], card["units"]), ("AMD Radeon RX 6800 XT", "gfx1030", 80))
        row = next(d for d in report["devices"] if d["hardware"] == "amd")
        self.assertFalse(row["usable"])
        self.assertIn("/dev/kfd: No such file or directory", row["reason"])
        self.assertIn("--device /dev/kfd", row["remedy"])

    def test_variables_are_shown(self):
        report = detect(**self.variables, HSA_OVERRIDE_GFX_VERSION="", HIP_VISIBLE_DEVICES="0")
        shown = {v["name"]: v for v in report["environment"]}
        self.assertEqual(shown["HSA_OVERRIDE_GFX_VERSION"]["value"], "")
        self.assertTrue(shown["HSA_OVERRIDE_GFX_VERSION"]["warning"])
        self.assertEqual(shown["HIP_VISIBLE_DEVICES"]["value"], "0")
        self.assertIsNone(shown["ROCR_VISIBLE_DEVICES"]["value"])
        hidden = detect(**self.variables, ROCR_VISIBLE_DEVICES="-1")
        self.assertIs(hidden["amd"], False)

    def test_cuda_is_no_amd(self):
        report = detect(**self.variables, STUB_CUDA="AMD Radeon RX 6800 XT")
        self.assertIs(report["cuda"], False)
        self.assertEqual((report["cuda_devices"], report["amd_devices"]), (0, 1))


if __name__ == "__main__":
    unittest.main()
