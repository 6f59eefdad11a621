"""`accel new`: what it writes builds against an installed libaccel, runs, agrees with goldens, skips with the reason; and what it refuses.

ACCEL_TEST_ALL_TEMPLATES=1 (the long tier): every class in every language, and every example.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_cli import ACCEL, BUILD, ENVIRONMENT, FIXTURES, PIPELINES, ROOT, Case, model, read_safetensors, run, write_safetensors

MODELS = os.path.join(FIXTURES, "models")
PICTURE = os.path.join(FIXTURES, "image", "pictures", "rgb.png")
SOUND = os.path.join(FIXTURES, "audio", "sounds", "s16.wav")
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
LANGS = ("c", "cpp", "py")
WORDS = ["bert", "t5", "llama", "clip", "vit", "clap", "whisper", "wav2vec2", "llava", "llava_next", "xclip", "qwen", "detr"]
# What each example is given on this machine, and how its output begins.
INPUTS = {"bert": (model("mask"), None, r"0\.\d{4}  "), "t5": (model("t5"), None, "text: "), "llama": (model("text"), None, "text: "),
          "clip": (os.path.join(FIXTURES, "media", "clip"), PICTURE, r"0\.\d{4}  (cat|dog|tree)"), "vit": (os.path.join(FIXTURES, "media", "vit"), PICTURE, r"0\.\d{4}  LABEL"),
          "clap": (os.path.join(MODELS, "clap"), os.path.join(MODELS, "clap", "golden.ClapModel.both.safetensors"), "logits_per_audio "),
          "whisper": (os.path.join(FIXTURES, "speech", "many"), SOUND, "said: "), "wav2vec2": (os.path.join(FIXTURES, "media", "wav2vec2"), SOUND, "said: "),
          "llava": (os.path.join(FIXTURES, "seeing", "llava"), PICTURE, "text: "), "llava_next": (os.path.join(FIXTURES, "seeing", "llava_next"), PICTURE, "text: "),
          "xclip": (os.path.join(MODELS, "xclip"), os.path.join(MODELS, "xclip", "golden.XCLIPModel.both.safetensors"), "logits_per_video "),
          "qwen": (model("text"), None, "text: "), "detr": (os.path.join(FIXTURES, "media", "detr"), PICTURE, r"\d+ objects")}


def is_sanitized():
    with open(LIBRARY, "rb") as f:
        return re.search(rb"lib[at]san\.so", f.read()) is not None


def new(*arguments, code=0):
    done = run("new", *arguments)
    if done.returncode != code:
        raise AssertionError(f"accel new {arguments} exits with {done.returncode}: {done.stdout}{done.stderr}")
    return done


@unittest.skipIf(is_sanitized(), "programs that load a sanitized library must be built with the sanitizer")
class Built(unittest.TestCase):
    """One project of all that is generated, built against an installed copy whose prefix has a space in it."""

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.prefix, cls.folder = os.path.join(cls.work, "in stalled"), os.path.join(cls.work, "generated")
        cls.all = os.environ.get("ACCEL_TEST_ALL_TEMPLATES") == "1"
        cls.words = WORDS if cls.all else ["bert", "t5", "clap"]
        cls.check("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.lib = next(path for path, _, files in os.walk(cls.prefix) if "libaccel.so.0" in files)
        plugins = os.path.join(cls.work, "plugins")
        os.mkdir(plugins)
        for name in ("cpu", "reference"):
            os.symlink(os.path.join(cls.lib, "accel", "0", f"libaccel_{name}.so"), os.path.join(plugins, f"libaccel_{name}.so"))
        cls.environment = {**ENVIRONMENT, "ACCEL_PLUGIN_PATH": plugins, "ACCEL_LIBRARY": os.path.join(cls.lib, "libaccel.so.0"), "PYTHONDONTWRITEBYTECODE": "1",
                           "PYTHONPATH": os.path.join(ROOT, "src", "bindings", "python"), "HF_HUB_CACHE": cls.work}
        if cls.all:  # every device that is here
            del cls.environment["ACCEL_PLUGIN_PATH"]
        cls.generate()
        cls.build = os.path.join(cls.folder, "build")
        cls.check("cmake", "-S", cls.folder, "-B", cls.build, "-DCMAKE_PREFIX_PATH=" + cls.prefix, f"-DPython3_EXECUTABLE={sys.executable}")
        cls.check("cmake", "--build", cls.build, "-j2")

    @classmethod
    def check(cls, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=getattr(cls, "environment", None))
        if done.returncode:
            raise AssertionError(f"{command}: {done.stdout}")
        return done.stdout

    @classmethod
    def generate(cls):
        tool = os.path.join(cls.prefix, "bin", "accel")  # the templates are in it
        to = ["-o", cls.folder, "--lang", "all"]
        if cls.all:
            cls.check(tool, "new", "test", "--key-models", "--missing", "--golden", MODELS, *to)
            cls.check(tool, "new", "example", "--key-models", "--golden", MODELS, *to)
        else:
            for family in cls.words:
                cls.check(tool, "new", "test", "--family", family, "--golden", os.path.join(MODELS, family), *to)
            cls.check(tool, "new", "example", "--batch", "bert,vit", *to)
            cls.check(tool, "new", "example", "--family", "clap", "--golden", os.path.join(MODELS, "clap"), *to)
        cls.check(tool, "new", "test", "--model", os.path.join(MODELS, "vit"), "--platform", "amd,nvidia", *to)
        # a name that has to be written with care
        cls.odd = os.path.join(cls.work, 'a "b" \\n c')
        shutil.copytree(os.path.join(MODELS, "bert"), cls.odd)
        cls.check(tool, "new", "test", "--model", cls.odd, "--platform", "cpu", *to)

    def run_one(self, name, *arguments, **environment):
        command = [sys.executable, os.path.join(self.folder, name)] if name.endswith(".py") else [os.path.join(self.build, name.replace(".", "_"))]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env={**self.environment, **environment})

    def test_all_pass_or_are_skipped(self):
        self.check("ctest", "--test-dir", self.build, "-j2", "--output-junit", "report.xml")
        with open(os.path.join(self.build, "report.xml"), encoding="utf-8") as f:
            states = dict(re.findall(r'<testcase name="(\w+)".*? status="(\w+)"', f.read()))
        want = {f"test_{word}_{lang}": "run" for word in [*self.words, "a__b___n_c_cpu"] for lang in LANGS}
        want.update({f"test_vit_amd_nvidia_{lang}": "notrun" for lang in LANGS})
        if any(done.returncode == 0 for done in [run("detect", "rocm"), run("detect", "cuda")]):
            want.update({f"test_vit_amd_nvidia_{lang}": "run" for lang in LANGS})
        self.assertEqual(states, want)

    def test_output_and_reasons(self):
        for lang in LANGS:
            done = self.run_one(f"test_bert.{lang}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            said = done.stdout + done.stderr
            self.assertRegex(said, r"webnn.*WebNN is an interface of web browsers")
            self.assertRegex(said, r"test_cpu .*ok" if lang == "py" else r"cpu \(cpu\): logits passed: largest difference")

    def test_wrong_numbers_fail(self):
        golden = os.path.join(MODELS, "bert", "golden.BertForMaskedLM.right.safetensors")
        tensors = read_safetensors(golden)
        dtype, shape, content = tensors["out.logits"]
        tensors["out.logits"] = (dtype, shape, content[4:] + content[:4])
        wrong = os.path.join(self.work, "wrong.safetensors")
        write_safetensors(wrong, tensors)
        for lang in LANGS:
            done = self.run_one(f"test_bert.{lang}", os.path.join(MODELS, "bert"), wrong) if lang != "py" else self.run_one("test_bert.py", GOLDEN=wrong)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("logits", done.stdout + done.stderr)

    def test_a_missing_model_fails(self):
        for lang in LANGS:
            done = self.run_one(f"test_bert.{lang}", "/nowhere") if lang != "py" else self.run_one("test_bert.py", MODEL="/nowhere")
            self.assertEqual(done.returncode, 1, lang)
            self.assertIn("/nowhere", done.stdout + done.stderr)

    def test_examples(self):
        for word in WORDS if self.all else ("bert", "vit", "clap"):
            name, given, pattern = INPUTS[word]
            said = set()
            for lang in LANGS:
                done = self.run_one(f"example_{word}.{lang}", name, *([given] if given else []))
                self.assertEqual(done.returncode, 0, f"{word}.{lang}: {done.stderr}")
                first, second = done.stdout.split("\n")[:2]
                self.assertIn(f"{name} on ", first)
                self.assertRegex(second, f"^{pattern}")
                said.add(second.replace(", ", ","))
            self.assertEqual(len(said), 1, word)

    def test_examples_without_their_model(self):
        for lang in LANGS:
            done = self.run_one(f"example_bert.{lang}")
            self.assertEqual(done.returncode, 1, lang)
            self.assertIn("hf download google-bert/bert-base-uncased", done.stderr)
            self.assertEqual(self.run_one(f"example_vit.{lang}").returncode, 2)  # it needs a picture


class Files(Case):
    def setUp(self):
        super().setUp()
        self.out = self.path("out")

    def files(self, *arguments):
        done = new(*arguments, "-o", self.out, "--json")
        report = json.loads(done.stdout)
        self.assertEqual(report["schema"], "accel.new/1")
        return {os.path.relpath(f["path"], self.out): f["state"] for f in report["files"]}

    def test_existing_files_are_kept(self):
        test = ["test", "--family", "bert", "--golden", os.path.join(MODELS, "bert")]
        self.assertEqual(self.files(*test), {"test_bert.c": "written", "CMakeLists.txt": "written"})
        self.assertEqual(self.files(*test), {"test_bert.c": "unchanged", "CMakeLists.txt": "unchanged"})
        path = os.path.join(self.out, "test_bert.c")
        with open(path, "w") as f:
            f.write("mine")
        done = run("new", *test, "-o", self.out, "--lang", "all")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "test_bert.c is there already and differs: --force overwrites it")
        self.assertEqual(sorted(os.listdir(self.out)), ["CMakeLists.txt", "test_bert.c"])  # nothing was written
        self.assertEqual(self.files(*test, "--missing", "--lang", "all"),
                         {"test_bert.c": "kept", "test_bert.cpp": "written", "test_bert.py": "written", "CMakeLists.txt": "kept"})
        with open(path) as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(self.files(*test, "--force")["test_bert.c"], "written")
        with open(path) as f:
            self.assertIn("Made by accel new test", f.read())

    def test_whom_it_writes_for(self):
        found = self.files("test", "--batch", "t5,clap,wav2vec2,Whisper", "--lang", "python", "--golden", MODELS)
        self.assertEqual(sorted(found), ["CMakeLists.txt", "test_clap.py", "test_t5.py", "test_wav2vec2.py", "test_whisper.py"])
        found = self.files("test", "--key-models", "--missing", "--lang", "python", "--golden", MODELS)
        self.assertEqual([name for name in found if name.endswith(".py")], [f"test_{word}.py" for word in WORDS])
        self.assertEqual([name for name, state in found.items() if state == "kept"],
                         ["test_t5.py", "test_clap.py", "test_whisper.py", "test_wav2vec2.py", "CMakeLists.txt"])
        self.assertEqual([name for name in self.files("test", "--batch", "qwen3,qwen3", "--lang", "python", "--golden", MODELS)], ["test_qwen3.py", "CMakeLists.txt"])
        with open(os.path.join(self.out, "test_qwen3.py"), encoding="utf-8") as f:
            self.assertIn("Qwen3", f.read())
        self.assertIn("test_gpt2.py", self.files("test", "--family", "gpt2", "--lang", "python", "--golden", os.path.join(MODELS, "gpt2")))  # by its model_type
        golden = os.path.join(MODELS, "bert", "golden.BertModel.left.safetensors")
        new("test", "--model", os.path.join(MODELS, "bert"), "--golden", golden, "--platform", "CPU", "--lang", "python", "-o", self.out)
        with open(os.path.join(self.out, "test_bert_cpu.py"), encoding="utf-8") as f:
            text = f.read()
        for part in (golden, 'architecture="BertModel"', 'PLATFORMS = ["cpu"]'):
            self.assertIn(part, text)
        with open(os.path.join(self.out, "test_t5.py"), encoding="utf-8") as f:
            self.assertIn('"cuda", "amd", "opencl", "vulkan"', f.read())

    def test_nothing_is_left_to_fill_in(self):
        self.files("test", "--key-models", "--lang", "all", "--golden", MODELS)
        self.files("example", "--key-models", "--lang", "all")
        for model_class in ("pipelines/sentence", "pipelines/classify", "pipelines/mask", "media/ast", "media/resnet", "pipelines/qa"):
            self.files("example", "--model", os.path.join(FIXTURES, model_class), "--lang", "all")
        for name in os.listdir(self.out):
            with open(os.path.join(self.out, name), encoding="utf-8") as f:
                text = f.read()
            self.assertNotRegex(text, r"@(if|end|[A-Z_]+@)")
            if name.endswith(".py"):
                compile(text, name, "exec")

    def test_refusals(self):
        to = ("-o", self.out)
        self.bad(2, "'tests' is none of test, example, model", "new", "tests")
        self.bad(2, "one of --model, --family, --batch and --key-models", "new", "test")
        self.bad(2, "one of --model, --family, --batch and --key-models", "new", "test", "--family", "bert", "--key-models")
        self.bad(2, "--force or --missing, not both", "new", "test", "--family", "bert", "--force", "--missing")
        self.bad(2, "unknown hardware 'toaster'", "new", "test", "--family", "bert", "--golden", MODELS + "/bert", "--platform", "cpu,toaster", *to)
        self.bad(2, "--lang takes one of c.cpp.python.all, not 'rust'", "new", "test", "--family", "bert", "--lang", "rust")
        self.bad(2, "--input goes with example", "new", "test", "--family", "bert", "--input", "x")
        self.bad(1, "family 'nofam': no golden of it below", "new", "test", "--family", "nofam", "--golden", MODELS + "/bert", *to)
        self.bad(1, "family 't5': no golden of it below", "new", "test", "--batch", "bert,t5", "--golden", MODELS + "/bert", *to)
        self.bad(1, r"no golden\*.safetensors: name one with --golden", "new", "test", "--model", model("sentence"), *to)
        self.bad(1, "nowhere.safetensors: No such file", "new", "test", "--model", MODELS + "/bert", "--golden", "nowhere.safetensors", *to)
        self.bad(1, "is not on this machine", "new", "test", "--model", "no/such", *to)
        self.bad(1, "file.*Not a directory", "new", "test", "--family", "bert", "--golden", MODELS + "/bert", "-o", self.path("file", "") + "/x")
        self.assertFalse(os.path.exists(self.out))

    def test_batch_is_shadowed_here_alone(self):
        """--batch names families; the common option of this name, and its twin in the environment, are others."""
        self.assertIn("--batch NAMES", run("help", "new").stdout)
        self.assertNotIn("--batch N\n", run("help", "new").stdout)
        done = run("new", "test", "--family", "bert", "--golden", MODELS + "/bert", "-o", self.out, environment={"ACCEL_BATCH": "8"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.bad(2, "--batch takes a whole number", "embed", "m", "x", "--batch", "t5,clap")


class Skeleton(Case):
    CONFIG = {"architectures": ["MegaNetModel"], "model_type": "mega-net", "hidden_size": 64, "num_hidden_layers": 2, "layer_norm_eps": 1e-12, "use_bias": True,
              "default": 3, "max_position_embeddings": 32, "rope_scaling": {"type": "x"}, "negative": -1, "odd name": 1, "pad_token_id": 0}

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("model"))
        self.path("model/config.json", json.dumps(self.CONFIG))
        self.tree = self.path("tree")

    def test_refusals(self):
        self.bad(2, "new model needs --model DIR", "new", "model", "--family", "bert")
        self.bad(2, "new model takes --model, --family", "new", "model", "--model", "x", "--lang", "c")
        self.bad(2, "BertModel is built already", "new", "model", "--model", os.path.join(MODELS, "bert"))
        self.bad(2, "the registry has no family 'nofam'", "new", "model", "--model", self.path("model"), "--family", "nofam")
        self.path("model/config.json", "{}")
        self.bad(1, "fields 'model_type' and 'architectures' say what to write", "new", "model", "--model", self.path("model"))
        self.path("model/config.json", '{"architectures": ["XModel"], "model_type": "x"}')
        self.bad(1, "no field that a skeleton could read", "new", "model", "--model", self.path("model"))

    def test_it_builds_and_refuses(self):
        done = new("model", "--model", self.path("model"), "--family", "bert", "-o", self.tree)
        self.assertRegex(done.stdout, r"next: echo 'ACCEL_MODEL\(mega_net, \"mega-net\"\)' >> src/models/models.def")
        source = os.path.join(self.tree, "src", "models", "mega_net.c")
        with open(os.path.join(self.tree, "registry", "models", "mega_net.json")) as f:
            (entry,) = json.load(f)["models"]
        self.assertEqual((entry["id"], entry["architecture"], entry["embedding_dim"], entry["sequence_length"]), ("examples/mega_net", "MegaNetModel", 64, 32))
        with open(source) as f:
            text = f.read()
        self.assertNotRegex(text, "@[A-Z]+@|odd name|pad_token_id|default;")
        if shutil.which("clang-format-14"):
            style = "--style=file:" + os.path.join(ROOT, ".clang-format")
            self.assertEqual(subprocess.run(["clang-format-14", style, source], capture_output=True, text=True, check=True).stdout, text)
        static = os.path.join(BUILD, "libaccel_static.a")
        if not os.path.exists(static) or is_sanitized():
            self.skipTest("needs the static library of a plain build")
        # the table of architectures with the line that comes next
        os.mkdir(self.path("models"))
        with open(os.path.join(ROOT, "src", "models", "models.def")) as f:
            self.path("models/models.def", f.read() + re.search("echo '(.*)'", done.stdout).group(1) + "\n")
        main = self.path("main.c", '#include "accel/accel.h"\n#include <stdio.h>\nint main(int n, char **v) {\n  accel *ctx;\n  accel_endpoint *e;\n'
                                   "  accel_init_params how = accel_init_params_default();\n  how.random_weights = n - 1;\n  if (accel_create(0, &ctx)) return 9;\n"
                                   '  int status = accel_init(ctx, v[1], &how, &e);\n  printf("%d %s\\n", status, accel_last_error());\n  accel_destroy(&ctx);\n  return 0;\n}\n')
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libcjson", "libjpeg", "libpng", "zlib"], capture_output=True, text=True, check=True).stdout.split()
        program = self.path("program")
        warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wvla", "-Werror"]
        made = subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", *warnings, "-I" + self.work, "-I" + os.path.join(ROOT, "src"),
                               "-I" + os.path.join(ROOT, "include"), main, os.path.join(ROOT, "src", "models", "model_build.c"), source, static, *flags,
                               "-lm", "-lpthread", "-ldl", "-o", program], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        said = subprocess.run([program, self.path("model")], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
        self.assertEqual(said, "-2 MegaNetModel: src/models/mega_net.c is a skeleton: its layers are not written yet\n")
        # a value of another type is refused by name before that
        self.path("model/config.json", json.dumps({**self.CONFIG, "hidden_size": "wide"}))
        said = subprocess.run([program, self.path("model")], capture_output=True, text=True, check=True, env=ENVIRONMENT).stdout
        self.assertRegex(said, "field 'hidden_size'")

    def test_the_registry_takes_its_entry(self):
        new("model", "--model", self.path("model"), "--family", "bert", "-o", self.tree)
        shown = run("registry", "examples/mega_net", "--json", "--registry", os.path.join(self.tree, "registry", "models", "mega_net.json"))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(json.loads(shown.stdout)["entry"]["architecture"], "MegaNetModel")

    def test_without_a_family_no_entry(self):
        new("model", "--model", self.path("model"), "-o", self.tree)
        self.assertEqual(os.listdir(self.tree), ["src"])
        with open(os.path.join(self.tree, "src", "models", "mega_net.c"), "a") as f:
            f.write("/* written on */\n")
        self.bad(1, "mega_net.c is there already and differs", "new", "model", "--model", self.path("model"), "-o", self.tree)


if __name__ == "__main__":
    unittest.main()
