"""`accel doctor`: what it finds on good and bad machines and models, its exit codes, and that every command it can name exists."""
import glob
import grp
import json
import os
import re
import shutil
import sqlite3
import subprocess
import unittest

from test_cli import ACCEL, BUILD, ENVIRONMENT, FIXTURES, ROOT, Case, model, run
from test_detect import AmdTree

MODELS = os.path.join(FIXTURES, "models")
BERT = os.path.join(MODELS, "bert")
STUBS = os.path.join(BUILD, "tests", "stubs", "plugins")
PLUGINS = os.path.dirname(glob.glob(os.path.join(BUILD, "lib", "accel", "*", "libaccel_cpu.so"))[0])
CHECKS = ["processor", "threads", "memory", "plugins", "permissions", "devices", "environment", "cache", "database", "model", "dependencies", "supports", "fit"]
# Debian has it in its component non-free, which is not looked at here.
NON_FREE = {"nvidia-driver"}
# Where the programs of remedies come from; the shell has the others itself.
PACKAGES = {"sudo": "sudo", "modprobe": "kmod", "usermod": "passwd", "ldd": "libc-bin", "mv": "coreutils", "cat": "coreutils", "ls": "coreutils", "df": "coreutils",
            "chown": "coreutils", "taskset": "util-linux", "ps": "procps", "cmake": "cmake", "apt-get": "apt"}
SHELL = {"unset", "export"}
HUB = {"hf"}  # of PyPI's huggingface_hub, which this machine may not have


def data(macro, text):
    """The rows of a macro in doctor.def, as lists of their fields."""
    rows = re.findall(rf"^{macro}\((.*)\)$", text, re.M)
    return [[f.strip().strip('"').replace('\\"', '"') for f in re.findall(r'"(?:\\.|[^"\\])*"|[^\s,"][^,"]*', row)] for row in rows]


def known_packages(names):
    """Those that the lists of packages have; empty where there are no lists."""
    if not shutil.which("apt-cache"):
        return set()
    shown = subprocess.run(["apt-cache", "--no-all-versions", "show", *names], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^Package: (\S+)$", shown, re.M))


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class Doctor(Case):
    """A machine of two plugins, with a cache of its own."""

    def setUp(self):
        super().setUp()
        plugins = self.path("plugins")
        os.mkdir(plugins)
        for name in ("cpu", "reference"):
            os.symlink(os.path.join(PLUGINS, f"libaccel_{name}.so"), os.path.join(plugins, f"libaccel_{name}.so"))
        self.environment = {"ACCEL_CACHE_DIR": self.path("cache"), "ACCEL_DETECT_ROOT": self.path("root"), "HF_HUB_CACHE": self.path("hub"), "XDG_CACHE_HOME": self.work}

    def ask(self, *arguments, code=0, plugins=None, **environment):
        """The lines of a run: [(check, state, what, why, command)], in their order."""
        where = ["--plugin-path", plugins or self.path("plugins")]
        done = run("doctor", *arguments, *where, "--json", environment={**self.environment, **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["schema"], report["exit_code"]), ("accel.doctor/1", code))
        lines = report["lines"]
        for state in ("ok", "warn", "fail"):
            self.assertEqual(report[state], sum(line["state"] == state for line in lines))
        self.assertEqual(code != 0, report["fail"] > 0)
        order = [CHECKS.index(line["check"]) for line in lines]
        self.assertEqual(order, sorted(order))
        for line in lines:
            self.assertEqual(list(line), ["check", "state", "what", "why", "command"])
            self.assertTrue(line["why"], line)
        self.report = report
        return lines

    def one(self, lines, what, state):
        """The only line about `what` in this state."""
        found = [line for line in lines if line["what"] == what and line["state"] == state]
        self.assertEqual(len(found), 1, lines)
        return found[0]

    def copy(self, name, to="model"):
        target = self.path(to)
        shutil.copytree(os.path.join(MODELS, name), target, ignore=lambda _, names: [n for n in names if n.startswith("golden")])
        return target


class Machine(Doctor):
    def test_a_good_machine(self):
        lines = self.ask()
        self.assertEqual([c for c in CHECKS if any(line["check"] == c for line in lines)], CHECKS[:9])
        self.assertEqual((self.report["model"], self.report["device"], self.report["wanted_device"]), (None, "cpu", "auto"))
        self.assertRegex(self.one(lines, "plugins", "ok")["why"], "cpu, reference load")
        self.assertRegex(self.one(lines, "permissions", "ok")["why"], "no device files")
        self.assertRegex(self.one(lines, "database", "ok")["why"], "not there yet")
        self.assertRegex(self.one(lines, "ACCEL_DETECT_ROOT", "warn")["command"], "^unset ACCEL_DETECT_ROOT$")

    def test_text_is_a_line_each(self):
        done = run("doctor", model("sentence"), "--device", "cpu", "--plugin-path", self.path("plugins"), environment=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        *lines, empty, last = done.stdout.rstrip("\n").split("\n")
        self.assertEqual(empty, "")
        self.assertRegex(last, r"^\d+ ok, \d+ to look at, 0 in the way$")
        for line in lines:
            self.assertRegex(line, r"^(ok  |warn)  \S+ +\S")
        self.assertIn("  -> unset ACCEL_DETECT_ROOT", done.stdout)

    def test_verbose_has_the_hardware_that_is_not_here(self):
        self.assertFalse([line for line in self.ask() if line["what"] == "webnn"])
        self.assertRegex(self.one(self.ask("--verbose"), "webnn", "ok")["why"], "not on this machine: WebNN is")

    def test_no_plugin(self):
        for folder in (self.path("empty"), "/nowhere"):
            if folder != "/nowhere":
                os.mkdir(folder)
            lines = self.ask(code=4, plugins=folder)
            self.assertEqual(self.one(lines, "plugins", "fail")["command"], "cmake --install build/release")
            self.assertRegex(self.one(lines, "auto", "fail")["why"], "cannot serve")
        self.assertRegex(self.one(lines, "plugins", "warn")["why"], "/nowhere: there is no such directory")
        done = run("doctor", "--json", environment={**self.environment, "ACCEL_PLUGIN_PATH": "/nowhere"})
        self.assertEqual(self.one(json.loads(done.stdout)["lines"], "plugins", "fail")["command"], "unset ACCEL_PLUGIN_PATH")

    def test_broken_plugins(self):
        for name in ("abi", "symbol", "crash"):
            shutil.copy(os.path.join(STUBS, f"libaccel_{name}.so"), self.path("plugins"))
        broken = self.path("plugins/libaccel_text.so", "no library")
        found = {os.path.basename(line["command"].split()[1]): line for line in self.ask() if line["what"] == "plugin"}
        self.assertEqual(set(found), {f"libaccel_{n}.so" for n in ("abi", "symbol", "crash", "text")})
        self.assertEqual(found["libaccel_text.so"]["command"], f"ldd {broken}")
        self.assertRegex(found["libaccel_abi.so"]["command"], r"^mv (\S+) \1\.aside$")
        self.assertRegex(found["libaccel_crash.so"]["why"], r"\(crashed\)$")
        done = subprocess.run(found["libaccel_abi.so"]["command"], shell=True, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("libaccel_abi", json.dumps(self.ask()))

    def test_devices_that_are_not_here(self):
        line = self.one(self.ask("--device", "rocm:0", code=4), "rocm:0", "fail")
        self.assertRegex(line["why"], "no AMD GPU found")
        line = self.one(self.ask("--device", "nvidia", code=4), "nvidia", "fail")
        self.assertRegex(line["why"], "nvidia")
        self.assertEqual(line["command"], "sudo apt-get install nvidia-driver")
        self.assertRegex(self.one(self.ask("--device", "toaster", code=2), "toaster", "fail")["why"], "is not known")
        self.assertEqual(self.one(self.ask("--device", "rocm,cpu"), "rocm,cpu", "ok")["why"], "is cpu")
        self.bad(2, "unknown precision 'fp9'", "doctor", "--precision", "fp9")

    def test_threads(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one processor")
        self.assertEqual(self.one(self.ask(ACCEL_THREADS="1"), "threads", "warn")["command"], "unset ACCEL_THREADS")
        done = subprocess.run([ACCEL, "doctor", "--json", "--plugin-path", self.path("plugins")], env={**ENVIRONMENT, **self.environment}, capture_output=True, text=True,
                              check=True, preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))
        line = self.one(json.loads(done.stdout)["lines"], "affinity", "warn")
        self.assertRegex(line["why"], "may use 1 of")
        self.assertRegex(line["command"], r"^taskset -pc 0-\d+ \$\$$")

    def test_environment(self):
        lines = self.ask(ACCEL_DEVISE="cpu", ACCEL_ZZZZZZ="1", ACCEL_TOP_K="3", ACCEL_FAIL_AT="nothing", HIP_VISIBLE_DEVICES="")
        self.assertEqual(self.one(lines, "ACCEL_DEVISE", "warn")["command"], 'export ACCEL_DEVICE="$ACCEL_DEVISE"; unset ACCEL_DEVISE')
        self.assertEqual(self.one(lines, "ACCEL_ZZZZZZ", "warn")["command"], "unset ACCEL_ZZZZZZ")
        self.assertRegex(self.one(lines, "ACCEL_FAIL_AT", "warn")["why"], "for tests")
        self.assertEqual(self.one(lines, "HIP_VISIBLE_DEVICES", "warn")["command"], "unset HIP_VISIBLE_DEVICES")
        self.assertFalse([line for line in lines if line["what"] == "ACCEL_TOP_K"])


class Places(Doctor):
    def test_cache(self):
        folder = self.path("cache")
        os.makedirs(os.path.join(folder, "packed"))
        self.assertRegex(self.one(self.ask(), "cache", "ok")["why"], "0 entries")
        with open(os.path.join(folder, "packed", "x.packed"), "w") as f:
            f.write("damaged")
        line = self.one(self.ask(), "cache", "warn")
        self.assertEqual((line["command"], line["why"]), ("accel cache prune", "1 entry is damaged or not complete"))
        self.assertEqual(run("cache", "prune", environment=self.environment).returncode, 0)
        self.assertRegex(self.one(self.ask(), "cache", "ok")["why"], "0 entries")

    def test_a_cache_that_is_a_file(self):
        file = self.path("file", "")
        lines = self.ask(ACCEL_CACHE_DIR=file)
        for what in ("cache", "database"):
            line = self.one(lines, what, "warn")
            self.assertRegex(line["why"], "Not a directory")
            self.assertEqual(line["command"], "export ACCEL_CACHE_DIR=/var/tmp/accel-cache")

    def test_an_unwritable_cache(self):
        folder = self.path("it's mine")
        os.mkdir(folder)
        os.chmod(folder, 0o555)
        os.chmod(self.work, 0o755)
        user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        if user and subprocess.run(["test", "-x", ACCEL, "-a", "-r", PLUGINS], check=False, **user).returncode:
            self.skipTest("another user may not read the build")
        done = subprocess.run([ACCEL, "doctor", "--json", "--plugin-path", self.path("plugins"), "--cache-dir", folder], env={**ENVIRONMENT, **self.environment},
                              capture_output=True, text=True, check=False, **user)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = self.one(json.loads(done.stdout)["lines"], "cache", "warn")
        self.assertRegex(line["why"], "Permission denied")
        self.assertEqual(line["command"], "sudo chown -R $USER '" + folder.replace("'", "'\\''") + "'")

    def test_database(self):
        file = self.path("results.sqlite", "something else")
        line = self.one(self.ask("--db", file, code=1), "database", "fail")
        self.assertEqual(line["command"], f"mv {file} {file}.aside")
        # what keeps a model from running counts before it
        self.ask("--db", file, "--device", "rocm:0", code=4)
        os.remove(file)
        db = sqlite3.connect(file)
        db.executescript("PRAGMA user_version = 99; CREATE TABLE run (x)")
        db.close()
        self.assertRegex(self.one(self.ask("--db", file, code=1), "database", "fail")["why"], "newer accel")
        os.remove(file)
        stored = run("bench", BERT, "--iters", "1", "--warmup", "1", "--seq", "8", "--device", "cpu", "--db", file, environment=self.environment)
        self.assertEqual(stored.returncode, 0, stored.stderr)
        self.assertRegex(self.one(self.ask("--db", file), "database", "ok")["why"], "1 runs, 0 verdicts, schema 4")


class Model(Doctor):
    def test_good(self):
        lines = self.ask(model("sentence"), "--device", "cpu", "--precision", "int8")
        self.assertEqual([line["check"] for line in lines[-4:]], CHECKS[-4:])
        self.assertEqual({line["state"] for line in lines[-4:]}, {"ok"})
        self.assertEqual((self.report["device"], self.report["precision"]), ("cpu", "int8"))
        self.assertEqual(self.one(lines, "supports", "ok")["why"], "cpu: native at int8")
        self.assertRegex(self.one(lines, "fit", "ok")["why"], "cpu at int8 takes .* of ")
        whole = self.ask(model("sentence"))
        self.assertRegex(self.one(whole, "supports", "ok")["why"], "^cpu: native: fp32 ")  # the reference plugin is by name alone

    def test_without_its_tokenizer(self):
        line = self.one(self.ask(BERT), "tokenizer", "warn")
        self.assertRegex(line["why"], "token ids alone")
        line = self.one(self.ask(os.path.join(MODELS, "vit")), "processor", "warn")
        self.assertRegex(line["why"], "preprocessor_config.json: No such file")

    def test_a_missing_shard(self):
        directory = self.copy("llama_sharded")
        os.remove(os.path.join(directory, "model-00002-of-00003.safetensors"))
        lines = self.ask(directory, code=3)
        line = self.one(lines, "model", "fail")
        self.assertRegex(line["why"], "shard 'model-00002-of-00003.safetensors' is not in")
        self.assertEqual(line["command"], f"ls -l {directory}")
        self.assertTrue(self.one(lines, "fit", "ok"))  # by its shape

    def test_no_weights(self):
        directory = self.copy("bert")
        os.remove(os.path.join(directory, "model.safetensors"))
        self.assertRegex(self.one(self.ask(directory, code=3), "model", "fail")["why"], "fetch the weights")

    def test_weights_of_another_model(self):
        directory = self.copy("bert")
        shutil.copy(os.path.join(MODELS, "bert_wide", "model.safetensors"), directory)
        self.assertRegex(self.one(self.ask(directory, code=3), "model", "fail")["why"], "does not hold this model")

    def test_no_configuration(self):
        directory = self.copy("bert")
        config = os.path.join(directory, "config.json")
        with open(config, "w") as f:
            f.write("{")
        lines = self.ask(directory, code=3)
        self.assertRegex(self.one(lines, "model", "fail")["why"], "config.json: line 1, column 2")
        self.assertEqual(lines[-1]["check"], "model")  # there is nothing else to ask
        os.remove(config)
        self.ask(directory, code=3)

    def test_an_architecture_that_is_not_known(self):
        directory = self.path("model")
        os.mkdir(directory)
        self.path("model/config.json", '{"architectures": ["MegaNetModel"], "model_type": "mega-net", "hidden_size": 4}')
        line = self.one(self.ask(directory, code=3), "model", "fail")
        self.assertEqual(line["command"], f"accel new model --model {directory}")
        done = subprocess.run([ACCEL, *line["command"].split()[1:], "-o", self.work], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_models_that_are_not_here(self):
        lines = self.ask("bert-base-uncased", code=3)
        self.assertEqual(self.one(lines, "model", "fail")["command"], "hf download google-bert/bert-base-uncased")
        self.assertTrue(self.one(lines, "fit", "ok"))
        lines = self.ask("bert-base-uncased", "--memory", "200M", code=3)
        self.assertRegex(self.one(lines, "fit", "ok")["why"], "cpu at fp32 streams its weights through .* of 200.0 MiB; it fits at fp32 fp16 bf16")
        self.assertEqual(self.one(self.ask("no/such", code=3), "model", "fail")["command"], "hf download no/such")
        self.assertEqual(self.one(self.ask("no/such@v1", code=3), "model", "fail")["command"], "hf download no/such --revision v1")
        self.assertEqual(self.one(self.ask("nosuch", code=3), "model", "fail")["command"], "accel registry --search nosuch")

    def test_memory(self):
        lines = self.ask(BERT, "--memory", "1K", code=5)
        self.assertEqual(self.one(lines, "fit", "fail")["command"], f"accel fit {BERT}")
        self.assertRegex(self.one(lines, "memory", "ok")["why"], "models may use 1.0 KiB")
        self.ask(BERT, "--memory", "1K", "--device", "cpu", "--precision", "int8", code=5)
        line = self.one(self.ask(BERT, ACCEL_MEM_LIMIT="100M"), "fit", "ok")
        self.assertRegex(line["why"], "of 100.0 MiB; it fits at fp32")

    def test_a_smaller_precision(self):
        """What does not fit at fp32 but does at another is told with the command that asks for it."""
        fits = {r["precision"]: r["peak_load_bytes"] for r in json.loads(run("fit", os.path.join(MODELS, "resnet"), "--device", "cpu", "--json").stdout)["devices"] if r["fits"]}
        least = min(fits, key=fits.get)
        if fits[least] >= fits["fp32"]:
            self.skipTest("no precision takes less")
        lines = self.ask(os.path.join(MODELS, "resnet"), "--memory", str((fits[least] + fits["fp32"]) // 2))
        line = self.one(lines, "fit", "warn")
        self.assertRegex(line["command"], r"^accel doctor \S+ --precision \w+$")


class Amd(AmdTree):
    """A card of AMD in a tree of its own."""

    def lines(self, **options):
        done = subprocess.run([ACCEL, "doctor", "--json"], env={**ENVIRONMENT, **self.variables, "ACCEL_PLUGIN_PATH": PLUGINS}, capture_output=True, text=True, check=False, **options)
        return [line for line in json.loads(done.stdout)["lines"] if line["what"] == "permissions"], done

    def test_no_device_files(self):
        (line,), _ = self.lines()
        self.assertEqual((line["state"], line["command"]), ("warn", "sudo modprobe amdgpu"))
        self.assertRegex(line["why"], "/dev/kfd is not there; .*--device /dev/kfd")

    def test_groups(self):
        self.write("dev/kfd", "")
        self.write("dev/dri/renderD129", "")
        self.assertRegex(self.lines()[0][0]["why"], "may be opened")
        for name in ("kfd", "dri/renderD129"):
            os.chmod(os.path.join(self.folder.name, "dev", name), 0o660)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else None
        os.chmod(self.folder.name, 0o755)
        if not user or subprocess.run(["test", "-x", ACCEL], check=False, **user).returncode:
            self.skipTest("needs to become another user, who may read the build")
        found, _ = self.lines(**user)
        group = grp.getgrgid(os.stat(os.path.join(self.folder.name, "dev/kfd")).st_gid).gr_name
        self.assertEqual(sorted(line["why"].split(":")[0] for line in found), ["/dev/dri/renderD129", "/dev/kfd"])
        for line in found:
            self.assertEqual((line["state"], line["command"]), ("warn", f"sudo usermod -aG {group} $USER"))


class Remedies(unittest.TestCase):
    """Every command in the data exists, and every row is of use."""

    @classmethod
    def setUpClass(cls):
        cls.text = read(os.path.join(ROOT, "src", "cli", "doctor.def"))
        cls.remedies = dict(data("REMEDY", cls.text))

    def commands(self):
        """The single commands of all remedies, as lists of words, without sudo."""
        for name, line in self.remedies.items():
            for part in re.split(r"&&|;", line):
                words = part.split()
                yield name, words[1:] if words[0] == "sudo" else words

    def test_the_data_is_read(self):
        self.assertGreater(len(self.remedies), 20)
        self.assertEqual([row[1] for row in data("CHECK", self.text)], CHECKS)

    def test_packages(self):
        wanted = set(PACKAGES.values())
        for _, words in self.commands():
            if words[:2] == ["apt-get", "install"]:
                wanted.update(words[2:])
        known = known_packages(["libc6", *sorted(wanted)])
        if "libc6" not in known:
            self.skipTest("no apt-cache, or without lists of packages")
        self.assertEqual(wanted - NON_FREE - known, set())

    def test_programs(self):
        for name, words in self.commands():
            self.assertIn(words[0], SHELL | HUB | {"accel"} | set(PACKAGES), name)
            if words[0] in PACKAGES and not shutil.which(words[0]):
                self.assertNotIn(PACKAGES[words[0]], ("coreutils", "libc-bin"))  # each system has these

    def test_sub_commands(self):
        for name, words in self.commands():
            if words[0] != "accel":
                continue
            shown = run("help", words[1])
            self.assertEqual(shown.returncode, 0, name)
            for option in (w for w in words if w.startswith("--")):
                self.assertRegex(shown.stdout, rf"{option}\b", name)

    def test_presets(self):
        presets = json.loads(read(os.path.join(ROOT, "CMakePresets.json")))
        self.assertIn("release", [p["name"] for p in presets["configurePresets"]])
        self.assertIn("release", [p["name"] for p in presets["buildPresets"]])

    def test_each_is_used(self):
        sources = self.text + "".join(read(path) for path in glob.glob(os.path.join(ROOT, "src", "cli", "c*_doctor*.c")))
        for name in self.remedies:
            self.assertTrue(re.search(rf"\bREMEDY_{name}\b", sources) or re.search(rf"^(NEEDS|PLUGIN)\(.*\b{name}\b.*\)$", self.text, re.M), f"{name} is named nowhere")

    def test_tables_name_what_exists(self):
        report = json.loads(run("detect", "--json").stdout)
        sources = {s["source"] for s in report["vendors"] + report["amd_details"]["sources"]}
        for hardware, source, *_ in data("NEEDS", self.text):
            self.assertIn(hardware, {d["hardware"] for d in report["devices"]})
            self.assertIn(source, sources)
        for name, _ in data("VARIABLE", self.text):
            self.assertIn(name, report["settings"])
        tasks = set(re.findall(r'"([a-z0-9-]+)"\}', read(os.path.join(ROOT, "src", "models", "model_build.c"))))
        for name, *_ in data("TASK", self.text):
            self.assertIn(name, tasks)
        verdicts = read(os.path.join(ROOT, "src", "hardware", "handshake.c"))
        for verdict, _ in data("PLUGIN", self.text):
            self.assertIn(f'"{verdict}"', verdicts)


if __name__ == "__main__":
    unittest.main()
