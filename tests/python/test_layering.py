"""Holds the house's rules on the sources: arrows between layers go down only, libraries neither print nor abort, the environment is read
in one place, files stay short.  Looks at the text only: needs no build."""
import os
import re
import unittest

ROOT = os.environ.get("ACCEL_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Top to bottom.  Layers of one line are neighbours and may not include each other.
LAYERS = [["cli"], ["bench", "serve", "browser"], ["tool"], ["api"], ["verify", "rag"], ["tasks", "speech"], ["generate"], ["processing"], ["dispatch"], ["hardware"], ["registry"],
          ["models"], ["modeling"], ["adapters"], ["program"],
          ["text", "vision", "audio", "diffusion"], ["weights"], ["core"], ["formats", "shared"]]
HEIGHT = {name: len(LAYERS) - i for i, names in enumerate(LAYERS) for name in names}
# The public headers.  accel.h includes the others of applications, which include each other downwards; plugin.h stands alone.
APPLICATION = ["accel/accel.h", "accel/data_parallel.h", "accel/pool.h", "accel/requests.h", "accel/rag.h", "accel/chat.h", "accel/tools.h", "accel/generate.h", "accel/image_generation.h", "accel/forecast.h", "accel/text_to_speech.h", "accel/media_tasks.h", "accel/text_tasks.h", "accel/inference.h",
               "accel/models.h", "accel/devices.h", "accel/base.h"]  # top to bottom
PUBLIC = {*APPLICATION, "accel/plugin.h", "accel/ops.def", "accel/comm.h"}
BACKEND_MAY = {"accel/plugin.h", "accel/ops.def", "accel/comm.h"}
OVER_GPU = {"hip", "opencl", "vulkan", "webgpu"}  # backends over the shared layer backends/gpu

# Files of more than 800 lines, with the reason.
LONG_FILES = {
    "include/accel/plugin.h": "the plugin interface is one header that stands alone, half of it comments",
    "src/hardware/selftest_ops_data.h": "generated cases of the self-test",
    "src/text/unicode_forms.c": "generated Unicode data",
    "src/text/unicode_tables.c": "generated Unicode data",
}
MAX_LINES = 800

# Programs, not libraries: they print and exit.
PROGRAMS = ("src/cli/", "src/bench/", "src/serve/", "src/tool/", "src/hardware/probe/")
BANNED = ["abort", "exit", "_exit", "_Exit", "quick_exit", "atexit", "assert", "printf", "fprintf", "vprintf", "vfprintf", "dprintf",
          "puts", "fputs", "putchar", "perror", "rand", "srand", "rand_r", "random", "srandom", "drand48", "system", "popen", "gets",
          "signal", "sigaction", "setlocale", "strtok", "sprintf", "vsprintf"]
# Reading the environment: config.c, by its table; the accel tool, which links the public interface only; plugins, which may not
# include src/core, read what is theirs alone.
ENVIRONMENT = {"src/core/config.c": None, "src/cli/": None, "src/bench/": None, "backends/cpu/": {"ACCEL_ISA"}, "backends/hip/": {"ACCEL_EMULATED_ORDER"},
               "backends/gpu/": {"ACCEL_GPU_VARIANTS"}, "backends/openvino/": {"ACCEL_OPENVINO_DIR", "VIRTUAL_ENV", "HOME"},
               "backends/onnxruntime/": {"ACCEL_ONNXRUNTIME_DIR", "VIRTUAL_ENV", "HOME"},
               "backends/webgpu/": {"ACCEL_WEBGPU_DIR", "ACCEL_WEBGPU_SHADERS", "VIRTUAL_ENV", "HOME"}, "src/serve/": {"LISTEN_FDS", "LISTEN_PID"}}
ENVIRONMENT_CALLS = ["getenv", "secure_getenv"]
NEVER = ["setenv", "putenv", "unsetenv", "clearenv"]

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_of(text):
    """The text without comments and with empty literals; lines keep their numbers."""
    def blank(match):
        token = match.group(0)
        return token[0] * 2 if token[0] in "\"'" else " " + "\n" * token.count("\n")
    return TOKEN.sub(blank, text)


def without_comments(text):
    return TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " " + "\n" * m.group(0).count("\n"), text)


def sources():
    for top in ("src", "backends", "include"):
        for directory, folders, files in os.walk(os.path.join(ROOT, top)):
            folders[:] = sorted(f for f in folders if f not in ("bindings", "__pycache__"))
            for name in sorted(files):
                if name.endswith((".c", ".h", ".def", ".inc", ".hip", ".cl", ".comp", ".cpp")):
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, ROOT), f.read()


def include_problems(path, text, exists):
    """path is relative to ROOT; exists(path) answers for files of the tree."""
    parts = path.split("/")
    for line, name in quoted_includes(text):
        where = f"{path}:{line}: #include \"{name}\""
        if ".." in name.split("/"):
            yield f"{where} leaves its folder"
        elif "/" not in name or exists(os.path.dirname(path) + "/" + name):
            if not exists(os.path.dirname(path) + "/" + name):
                yield f"{where}: no such file beside it (include as \"layer/file.h\")"
        elif parts[0] == "include":
            own = path[len("include/"):]
            if own not in APPLICATION or name not in APPLICATION[APPLICATION.index(own) + 1:]:
                yield f"{where}: public headers include nothing but public headers below them"
        elif parts[0] == "backends":
            folder = name.split("/")[0]
            own = exists("/".join(parts[:2]) + "/" + name)
            shared = folder == "gpu" and parts[1] in OVER_GPU
            if name not in BACKEND_MAY and folder not in ("formats", "shared", "kit", parts[1]) and not own and not shared:
                yield f"{where}: a backend may include accel/plugin.h, formats/, shared/ and kit/ only"
        elif parts[0] == "src" and name not in PUBLIC:
            own, other = HEIGHT.get(parts[1]), HEIGHT.get(name.split("/")[0])
            if own is None:
                yield f"{path}: folder src/{parts[1]} is not in the list of layers"
            elif other is None:
                yield f"{where}: not a layer"
            elif other > own or (other == own and name.split("/")[0] != parts[1]):
                yield f"{where}: {parts[1]} is not above {name.split('/')[0]}"


def quoted_includes(text):
    for i, line in enumerate(without_comments(text).split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if match:
            yield i, match.group(1)


def calls(code, names):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(map(re.escape, names)) + r")\s*\(")
    for match in pattern.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, match.group(1)


def call_problems(path, text):
    code = code_of(text)
    for line, name in calls(code, NEVER):
        yield f"{path}:{line}: {name}: the environment is never changed"
    if not path.startswith(PROGRAMS):
        for line, name in calls(code, BANNED):
            yield f"{path}:{line}: {name}: libraries return an error instead"
    allowed = next((names for place, names in ENVIRONMENT.items() if path.startswith(place)), ())
    for line, name in calls(code, ENVIRONMENT_CALLS):
        variable = re.search(name + r'\s*\(\s*"(\w+)"', without_comments(text).split("\n")[line - 1])
        if allowed is not None and (not variable or variable.group(1) not in allowed):
            yield f"{path}:{line}: {name}: read the environment with accel__env"


def environment_table(text):
    return set(re.findall(r'^\s*\{"(\w+)",', text, re.M))


class Layering(unittest.TestCase):
    def setUp(self):
        self.files = dict(sources())
        self.assertGreater(len(self.files), 10, "sources not found below " + ROOT)

    def none_of(self, problems):
        problems = list(problems)
        if problems:
            self.fail("\n" + "\n".join(problems))

    def exists(self, path):
        return os.path.normpath(path) in self.files or os.path.exists(os.path.join(ROOT, path))

    def test_includes_go_down_only(self):
        self.none_of(p for path, text in self.files.items() for p in include_problems(path, text, self.exists))

    def test_libraries_neither_print_nor_abort(self):
        self.none_of(p for path, text in self.files.items() for p in call_problems(path, text))

    def test_variables_are_in_the_table(self):
        table = environment_table(self.files["src/core/config.c"])
        self.assertIn("ACCEL_DEVICE", table)
        self.none_of(f"{path}: {name} is not in accel__config_table (src/core/config.c)" for path, text in self.files.items()
                     for name in re.findall(r'(?:accel__env|accel__env_raw|getenv)\(\s*"(\w+)"', text) if name not in table)

    def test_files_stay_short(self):
        for path, text in self.files.items():
            lines = text.count("\n")
            with self.subTest(path):
                if lines > MAX_LINES:
                    self.assertIn(path, LONG_FILES, f"{lines} lines: split it, or give a reason in LONG_FILES")
        for path, reason in LONG_FILES.items():
            self.assertTrue(reason)
            self.assertGreater(self.files.get(path, "").count("\n"), MAX_LINES, f"{path} needs no entry in LONG_FILES any more")

    def test_files_open_with_what_they_are(self):
        self.none_of(f"{path}: the first line is no comment that says what the file is" for path, text in self.files.items()
                     if not text.startswith(("/*", "//", "#version")))


class TheChecksThemselves(unittest.TestCase):
    """Each rule finds its breach in a made-up file and leaves good ones alone."""

    def includes(self, path, *names):
        text = "/* x */\n" + "".join(f'#include "{n}"\n' for n in names)
        return list(include_problems(path, text, lambda p: p in ("src/text/text_internal.h", "src/tasks/sub/x.h", "backends/cpu/kernels/k.h")))

    def test_includes(self):
        good = [("src/api/a.c", "core/json.h", "tasks/t.h", "accel/accel.h", "api/x.h"), ("src/text/t.c", "text_internal.h", "weights/w.h"),
                ("src/text/t.c", "text/tokenizer.h"), ("backends/cpu/c.c", "kit/kit.h", "formats/f.h", "accel/plugin.h", "cpu/x.h"),
                ("src/core/c.c", "core/status.h", "formats/f.h"), ("backends/cpu/kernels/a.c", "kernels/k.h"), ("src/tasks/t.c", "sub/x.h")]
        bad = [("src/core/a.c", "weights/w.h"), ("src/text/a.c", "vision/v.h"), ("src/models/a.c", "dispatch/d.h"),
               ("backends/cpu/a.c", "core/status.h"), ("backends/cpu/a.c", "accel/accel.h"), ("backends/hip/a.c", "cpu/x.h"),
               ("src/text/a.c", "../core/status.h"), ("src/text/a.c", "nothing.h"), ("src/unknown/a.c", "core/status.h"),
               ("include/accel/accel.h", "core/status.h"), ("include/accel/base.h", "accel/chat.h"),
               ("include/accel/plugin.h", "accel/base.h"), ("src/text/a.c", "unknown/x.h")]
        for path, *names in good:
            self.assertEqual(self.includes(path, *names), [])
        for path, *names in bad:
            self.assertEqual(len(self.includes(path, *names)), 1, (path, names))

    def test_calls(self):
        good = ['x = snprintf(a, n, "printf(");', "/* exit(1) */", "accel__arena_printf(a);", "p->exit(1);", "static_assert(1, \"\");",
                "// abort()", "my_assert(x);", "s.abort();", "c = '\"'; /* assert(0) */", "free_random(x);"]
        bad = ["abort();", "exit(1);", "if (x) printf(\"%d\", 1);", "assert(x);", "fprintf (stderr, \"\");", "rand();", "getenv(\"X\");",
               "setenv(\"X\", \"\", 1);", "c = '\"'; exit(1); c = '\"';"]
        for line in good:
            self.assertEqual(list(call_problems("src/core/a.c", line)), [], line)
        for line in bad:
            self.assertEqual(len(list(call_problems("src/core/a.c", line))), 1, line)
        self.assertEqual(list(call_problems("src/cli/a.c", "exit(1); printf(\"\");")), [])
        self.assertEqual(list(call_problems("backends/cpu/a.c", 'getenv("ACCEL_ISA");')), [])
        self.assertEqual(len(list(call_problems("backends/cpu/a.c", 'getenv("HOME");'))), 1)
        self.assertEqual(list(call_problems("src/core/config.c", "getenv(name);")), [])


if __name__ == "__main__":
    unittest.main()
