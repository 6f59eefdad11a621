"""The accel tool: options and their twins, inputs, outputs, exit codes, and every sub-command on small models.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import re
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time
import unittest
from xml.etree import ElementTree

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
PIPELINES = os.path.join(FIXTURES, "pipelines")
BERT = os.path.join(FIXTURES, "models", "bert")
GOLDEN = os.path.join(BERT, "golden.BertModel.right.safetensors")
COMMANDS = ["detect", "registry", "deps", "matrix", "report", "test", "embed", "similarity", "classify", "tokens", "qa", "fill-mask", "translate", "summarize", "run", "verify", "bench",
            "fit", "cache", "map", "tokenize", "help", "version"]
# The tests' own settings must not reach the tool as twins of its options.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ACCEL_") or k in ("ACCEL_CACHE_DIR", "ACCEL_ISA")}


def model(name):
    return os.path.join(PIPELINES, name)


def run(*arguments, stdin=None, environment=None, timeout=120):
    return subprocess.run([ACCEL, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout, env={**ENVIRONMENT, **(environment or {})})


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in header.items() if k != "__metadata__"}


def read_metadata(path):
    """name -> text, of a safetensors file."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(n)).get("__metadata__", {})


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Case(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def path(self, name, content=None):
        path = os.path.join(self.work, name)
        if content is not None:
            with open(path, "wb" if isinstance(content, bytes) else "w") as f:
                f.write(content)
        return path

    def good(self, *arguments, **options):
        """Runs with --json; the parsed result."""
        done = run(*arguments, "--json", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["schema"], f"accel.{arguments[0]}/1")
        return result

    def bad(self, code, pattern, *arguments, **options):
        """Fails with this exit code and message; nothing on stdout."""
        done = run(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertRegex(done.stderr, pattern)


class CommandLine(Case):
    def test_usage_errors(self):
        self.bad(2, "which sub-command")
        self.bad(2, "unknown sub-command 'embd'; did you mean 'embed'", "embd")
        self.bad(2, r"unknown sub-command 'xyzzy'\n", "xyzzy")
        self.bad(2, "options come after", "--device", "cpu", "embed")
        self.bad(2, "unknown option '--devcie'; did you mean --device", "embed", "m", "x", "--devcie", "cpu")
        self.bad(2, "unknown option '-z'", "embed", "m", "x", "-z")
        self.bad(2, "--golden is not an option of 'accel embed'", "embed", "m", "x", "--golden", "f")
        self.bad(2, "--device needs a value", "embed", "m", "x", "--device")
        self.bad(2, "--quiet takes no value", "embed", "m", "x", "--quiet=1")
        self.bad(2, "--threads takes a whole number from 0 to 4096, not 'two'", "embed", "m", "x", "--threads", "two")
        self.bad(2, "not '-1'", "embed", "m", "x", "--threads=-1")
        self.bad(2, "not '99999999999999999999'", "embed", "m", "x", "--batch", "99999999999999999999")
        self.bad(2, "--pooling takes one of mean.cls", "embed", "m", "x", "--pooling", "sum")
        self.bad(2, "--dump-program takes one of", "run", "m", "--dump-program=pdf")
        self.bad(2, "something is missing: accel embed MODEL", "embed")
        self.bad(2, "'c' is one too many", "registry", "a", "c")
        self.bad(2, "try: accel help bench", "bench")
        self.bad(2, "--mem-limit takes a size such as", "fit", "m", "--mem-limit", "much")
        self.bad(2, "'list' is neither ls nor prune", "cache", "list")
        self.bad(2, "go with prune", "cache", "ls", "--all")
        self.bad(2, "not both", "cache", "prune", "--all", "--max", "1G")

    def test_every_command_has_help(self):
        overview = run("help").stdout
        for name in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {name} ")
            text = run("help", name)
            self.assertEqual((text.returncode, text.stderr), (0, ""))
            self.assertEqual(text.stdout, run(name, "--help").stdout)
            for flag in ("--device", "--precision", "--threads", "--batch", "--json", "--quiet", "--verbose"):
                self.assertIn(flag, text.stdout)
        self.assertEqual(run("--help").stdout, overview)
        self.bad(2, "did you mean 'verify'", "help", "verfy")

    def test_manual_and_completion(self):
        manual, completion = run("help", "--man"), run("help", "--completion")
        self.assertEqual((manual.returncode, completion.returncode), (0, 0))
        self.assertTrue(manual.stdout.startswith(".TH ACCEL 1"))
        for name in COMMANDS:
            self.assertIn(f".SS accel {name} ", manual.stdout)
            self.assertIn(f"    {name}) options=", completion.stdout)
        with open(os.path.join(ROOT, "src", "cli", "options.def")) as f:
            options = set(re.findall(r"(?m)^OPTION\(\w+, \"([\w-]+)\"", f.read()))
        self.assertGreater(len(options), 50)
        for name in options:
            self.assertIn("\\-\\-" + name.replace("-", "\\-"), manual.stdout)
            self.assertIn("--" + name, completion.stdout)
        script = completion.stdout + "COMP_WORDS=(accel embed --pooling me); COMP_CWORD=3; _accel; echo \"${COMPREPLY[@]}\"\n"
        script += "COMP_WORDS=(accel simil); COMP_CWORD=1; _accel; echo \"${COMPREPLY[@]}\"\n"
        try:
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        except FileNotFoundError:
            self.skipTest("no bash")
        self.assertEqual(done.stdout, "mean mean_sqrt_len_tokens\nsimilarity\n", done.stderr)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^accel \d+\.\d+\.\d+ \(build \S+\)\n$")
        told = self.good("version")
        self.assertRegex(told["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn(f"(build {told['build']})", run("--version").stdout)

    def test_twins(self):
        embed = ("embed", model("sentence"), "a cat")
        told = self.good(*embed, environment={"ACCEL_DEVICE": "reference"})
        self.assertEqual(told["device"], "reference")
        told = self.good(*embed, "--device", "cpu", environment={"ACCEL_DEVICE": "reference"})
        self.assertEqual(told["device"], "cpu")
        self.assertEqual(self.good(*embed, environment={"ACCEL_DEVICE": ""})["wanted_device"], "auto")
        self.bad(2, "ACCEL_THREADS takes a whole number", *embed, environment={"ACCEL_THREADS": "many"})
        self.bad(2, "ACCEL_QUIET must be 1 or 0", *embed, environment={"ACCEL_QUIET": "maybe"})
        quiet = run(*embed, "--device", "cpu", environment={"ACCEL_QUIET": "1"})
        self.assertEqual(quiet.stderr, "")
        self.assertIn('"schema"', run(*embed, environment={"ACCEL_JSON": "1"}).stdout)
        self.assertNotIn('"schema"', run(*embed, environment={"ACCEL_JSON": "0"}).stdout)
        plain = self.good("embed", model("base"), "a cat", environment={"ACCEL_MAX_LENGTH": "3"})
        self.assertEqual((plain["tokens"], plain["truncated"]), (3, 1))

    def test_streams(self):
        loud = run("embed", model("sentence"), "a cat", "--device", "cpu")
        self.assertRegex(loud.stderr, r"^accel: \S+sentence on cpu, fp32")
        self.assertNotIn("accel:", loud.stdout)
        self.assertEqual(run("embed", model("sentence"), "a cat", "--device", "cpu", "-q").stderr, "")
        path = self.path("out.json")
        done = run("embed", model("sentence"), "a cat", f"--json={path}")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        with open(path) as f:
            self.assertEqual(json.load(f)["schema"], "accel.embed/1")
        self.bad(1, "/no/such/dir/x", "embed", model("sentence"), "a cat", "--json=/no/such/dir/x")
        self.assertEqual(run("version", "--json", "-").returncode, 0)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([ACCEL, "help"], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)

    def test_exit_codes(self):
        self.bad(1, "no/such-model", "embed", "no/such-model", "x")
        self.bad(4, "webnn", "embed", model("sentence"), "x", "--device", "webnn")
        self.bad(2, "abacus", "embed", model("sentence"), "x", "--device", "abacus")
        strange = self.path("strange")
        os.mkdir(strange)
        self.path("strange/config.json", json.dumps({"architectures": ["AbacusModel"], "model_type": "abacus"}))
        write_safetensors(self.path("strange/model.safetensors"), {"w": ("F32", [1], bytes(4))})
        self.bad(3, "abacus|AbacusModel", "embed", strange, "x")
        self.path("strange/config.json", "{")
        self.bad(1, "config.json", "embed", strange, "x")

    def test_precisions(self):
        for precision in "fp32 fp16 bf16 int8 int4 uint4 fp8 fp4".split():
            told = self.good("embed", model("sentence"), "x", "--precision", precision, "--device", "cpu")
            self.assertEqual(told["precision"], precision)

    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([ACCEL, "bench", model("base"), "--device", "reference", "--iters", "1000000", "--batch", "64", "--seq", "40"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            process.stderr.readline()  # the line that tells where it runs: the model is loaded
            time.sleep(0.3)
            begin = time.monotonic()
            process.send_signal(number)
            out, errors = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertEqual((process.returncode, out), (1, ""), errors)
            self.assertRegex(errors, "cancel|stop")

    def test_timeout(self):
        begin = time.monotonic()
        self.bad(1, "cancel|stop|time", "bench", model("base"), "--device", "reference", "--iters", "1000000", "--batch", "64", "--seq", "40", "--timeout", "1")
        self.assertLess(time.monotonic() - begin, 30)


class Inputs(Case):
    def texts(self, *arguments, **options):
        return self.good("tokenize", model("base"), *arguments, **options)["ids"]

    def test_ways(self):
        want = self.texts("the cat", "", "a dog")
        self.assertEqual(len(want), 3)
        self.assertEqual(self.texts("--input", self.path("t.json", json.dumps(["the cat", "", "a dog"]))), want)
        self.assertEqual(self.texts("--input", self.path("o.json", json.dumps({"texts": ["the cat", "", "a dog"]}))), want)
        self.assertEqual(self.texts("--input", self.path("t.txt", "the cat\n\na dog\n")), want)
        self.assertEqual(self.texts("--input", self.path("w.txt", "\ufeffthe cat\r\n\r\na dog")), want)
        self.assertEqual(self.texts("--input", "-", stdin="the cat\n\na dog\n"), want)
        done = run("tokenize", "--json", model("base"), "--", "the cat", "", "a dog", "--json")
        self.assertEqual(len(json.loads(done.stdout)["ids"]), 4)
        many = ["the cat %d" % i for i in range(3000)]
        self.assertEqual(len(self.texts("--input", self.path("many.json", json.dumps(many)))), 3000)

    def test_nul(self):
        """U+0000 in JSON is a character like any other."""
        roberta = os.path.join(FIXTURES, "tokenizers", "bpe_roberta.json")
        found = self.good("tokenize", roberta, "--input", self.path("z.json", '["a\\u0000b the\\u0000", "x\\\\u0000"]'))["ids"]
        self.assertEqual(found[0], [0, 69, 193, 70, 329, 193, 2])
        self.assertNotIn(193, found[1])
        self.assertEqual(self.good("tokenize", roberta, "--decode", self.path("i.json", json.dumps(found)))["texts"], ["a\0b the\0", "x\\u0000"])

    def test_passed_over(self):
        """What auto passed over is one short line of names; --verbose has the reasons."""
        empty = {"ACCEL_DETECT_ROOT": self.path("nothing")}
        short = run("embed", model("base"), "--device", "rocm,cuda,cpu", "x", environment=empty)
        self.assertEqual(short.returncode, 0, short.stderr)
        self.assertRegex(short.stderr, r"\Aaccel: \S+ on cpu, fp32[^;]*; passed over: rocm, cuda \(--verbose says why\)\n\Z")
        self.assertLess(len(short.stderr), 200 + len(model("base")))
        whole = run("embed", model("base"), "--device", "rocm,cuda,cpu", "--verbose", "x", environment=empty).stderr
        self.assertRegex(whole, r"; passed over:\n  rocm: [^\n]{10,}\n(  rocm: [^\n]+\n)*  cuda: [^\n]{10,}\n")

    def test_refused(self):
        tokenize = ("tokenize", model("base"))
        self.bad(2, "no texts", *tokenize)
        self.bad(2, "not both", *tokenize, "x", "--input", "f.txt")
        self.bad(2, "holds no texts", *tokenize, "--input", self.path("e.json", "[]"))
        self.bad(2, "holds no texts", *tokenize, "--input", self.path("e.txt", ""))
        self.bad(1, "no-such-file.txt: No such file", *tokenize, "--input", self.path("no-such-file.txt"))
        self.bad(1, "is a directory", *tokenize, "--input", self.work)
        self.bad(1, r"bad.json: not valid JSON at line 2, column \d+", *tokenize, "--input", self.path("bad.json", '["a",\n "b" "c"]'))
        self.bad(1, "not valid JSON", *tokenize, "--input", self.path("cut.json", '["a'))
        self.bad(1, "not valid JSON", *tokenize, "--input", self.path("deep.json", "[" * 100000))
        self.bad(1, "expected an array of strings", *tokenize, "--input", self.path("n.json", "7"))
        self.bad(1, "entry 1 is no string", *tokenize, "--input", self.path("m.json", '["a", 7]'))
        self.bad(1, "entry 0: field 'text' is missing", *tokenize, "--input", self.path("f.json", '[{"txt": "a"}]'))
        self.assertEqual(self.texts("--input", self.path("b.json", '["a\\\\u0000b"]')), self.texts("a\\u0000b"))
        self.bad(1, "byte 1 is NUL", *tokenize, "--input", self.path("z.txt", b"a\0b\n"))
        if os.geteuid():
            secret = self.path("secret.txt", "a")
            os.chmod(secret, 0)
            self.bad(1, "Permission denied", *tokenize, "--input", secret)


class Tasks(Case):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(PIPELINES, "goldens.json"), encoding="utf-8") as f:
            cls.goldens = json.load(f)

    def golden(self, task, **match):
        return next(g for g in self.goldens if g["task"] == task and all(g[k] == v for k, v in match.items()))

    def near(self, got, want):
        self.assertEqual(len(got), len(want))
        for g, w in zip(got, want):
            self.assertLessEqual(abs(g - w), 1e-5)

    def test_embed(self):
        g = self.golden("sentence")
        found = self.good("embed", model("sentence"), "--input", self.path("t.json", json.dumps(g["inputs"])), "--device", "cpu")
        self.assertEqual((found["dim"], found["device"], found["precision"], found["implementation_type"], found["per_token"]),
                         (24, "cpu", "fp32", "CPU", False))
        for got, want in zip(found["embeddings"], g["output"]):
            self.near(got, want)
        table = run("embed", model("sentence"), "the cat", "a dog", "--similarity")
        self.assertIn("... 24 values]", table.stdout)
        self.assertRegex(table.stdout, r"1\s+1\.0000\s+\S+\s+the cat")

    def test_embed_per_token(self):
        found = self.good("embed", model("base"), "the cat", "a")
        self.assertTrue(found["per_token"])
        self.assertEqual([len(rows) for rows in found["embeddings"]], [4, 3])
        pooled = self.good("embed", model("base"), "the cat", "--pooling", "mean", "--normalize", "no")["embeddings"][0]
        self.near(pooled, [sum(c) / 4 for c in zip(*found["embeddings"][0])])
        self.bad(2, "choose a --pooling", "embed", model("base"), "a", "b", "--similarity")

    def test_embed_output(self):
        path = self.path("out.safetensors")
        found = self.good("embed", model("sentence"), "the cat", "a dog", "--output", path)
        dtype, shape, data = read_safetensors(path)["embeddings"]
        self.assertEqual((dtype, shape), ("F32", [2, 24]))
        flat = [v for row in found["embeddings"] for v in row]
        self.assertEqual(struct.pack("<48f", *flat), data)  # no digit lost on the way through JSON

    def test_zero_shot(self):
        goldens = [g for g in self.goldens if g["task"] == "zero-shot-classification"]
        self.assertGreater(len(goldens), 5)
        for g in goldens:
            with self.subTest(**g["call"], inputs=g["inputs"]):
                labels, texts = g["call"]["candidate_labels"], g["inputs"] if isinstance(g["inputs"], list) else [g["inputs"]]
                options = [o for key, flag in (("hypothesis_template", "--hypothesis"),) if key in g["call"] for o in (flag, g["call"][key])]
                options += ["--multi-label"] * bool(g["call"].get("multi_label"))
                names = labels.replace(" ", "") if isinstance(labels, str) else ",".join(labels)
                found = self.good("zero-shot", model("nli"), "--input", self.path("z.json", json.dumps(texts)), "--labels", names, *options)["results"]
                wanted = g["output"] if isinstance(g["output"], list) else [g["output"]]
                self.assertEqual([[x["label"] for x in row] for row in found], [w["labels"] for w in wanted])
                for row, w in zip(found, wanted):
                    self.near([x["score"] for x in row], w["scores"])
                    self.assertEqual([names.split(",")[x["id"]] for x in row], w["labels"])
        self.bad(2, "give --labels", "zero-shot", model("nli"), "a")
        self.bad(2, "has no {} for the label", "zero-shot", model("nli"), "a", "--labels", "b", "--hypothesis", "all of it")
        self.bad(1, "leaves no room for a text", "zero-shot", model("nli"), "a " * 60, "--labels", "b " * 60)

    def test_truncation(self):
        g = next(g for g in self.goldens if g["call"].get("truncation") == "only_second")
        found = self.good("classify", model("classify"), "--input", self.path("p.json", json.dumps([g["inputs"]])), "--top-k", "0", "--function", "none",
                          "--truncation", "only_second", "--max-length", str(g["call"]["max_length"]))["results"][0]
        self.assertEqual([x["label"] for x in found], [x["label"] for x in g["output"]])
        self.near([x["score"] for x in found], [x["score"] for x in g["output"]])
        for command, name in (("classify", "classify"), ("embed", "base"), ("fill-mask", "mask")):
            self.bad(1, "truncation is off", command, model(name), "[MASK] cat " * 30, "--truncation", "do_not_truncate")

    def test_similarity(self):
        found = self.good("similarity", model("sentence"), "the cat", "a dog", "the cat")
        matrix = found["similarity"]
        self.assertEqual(found["texts"], ["the cat", "a dog", "the cat"])
        self.assertAlmostEqual(matrix[0][2], 1, 6)
        self.assertEqual(matrix[0][1], matrix[1][0])
        self.bad(2, "two or more", "similarity", model("sentence"), "alone")
        self.assertRegex(run("similarity", model("base"), "a", "b").stderr, "mean of the tokens")

    def test_classify(self):
        g = self.golden("text-classification", call={"top_k": None}, model="classify")
        found = self.good("classify", model("classify"), "--input", self.path("t.json", json.dumps(g["inputs"])), "--top-k", "0")["results"]
        for got, want in zip(found, g["output"]):
            self.assertEqual([s["label"] for s in got], [s["label"] for s in want])
            self.near([s["score"] for s in got], [s["score"] for s in want])
        pair = self.golden("text-classification", inputs={"text": "Ada lives in London.", "text_pair": "the old cat sat on the mat"})
        entry = self.path("p.json", json.dumps([pair["inputs"]]))
        for arguments in (("--input", entry), (pair["inputs"]["text"], "--pair", pair["inputs"]["text_pair"])):
            (one,) = self.good("classify", model("classify"), *arguments)["results"]
            self.assertEqual(one[0]["label"], pair["output"]["label"])
            self.near([one[0]["score"]], [pair["output"]["score"]])
        self.assertIn(pair["output"]["label"], run("classify", model("classify"), "--input", entry).stdout)

    def test_tokens(self):
        g = self.golden("token-classification", options={"aggregation_strategy": "first"})
        found = self.good("tokens", model("tokens"), "--input", self.path("t.json", json.dumps(g["inputs"])), "--aggregation", "first")["results"]
        for got, want in zip(found, g["output"]):
            self.assertEqual([{k: v for k, v in e.items() if k != "score"} for e in got], [{k: v for k, v in e.items() if k != "score"} for e in want])
        g = self.golden("ner")
        (got,) = self.good("tokens", model("tokens"), g["inputs"])["results"]
        self.assertEqual([set(e) for e in got], [{"entity", "score", "index", "word", "start", "end"}] * len(g["output"]))
        self.assertGreater(len(self.good("tokens", model("tokens"), g["inputs"], "--ignore-labels", "none")["results"][0]), len(got) - 1)
        self.assertIn(got[0]["word"], run("tokens", model("tokens"), g["inputs"]).stdout)

    def test_qa(self):
        question, context = "Where does Ada live?", "Ada lives in London. The cat sat on the mat."
        (rows,) = self.good("qa", model("qa"), question, context, "--top-k", "2")["results"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertEqual(row["answer"], context[row["start"]:row["end"]])
        file = self.path("c.txt", context)
        self.assertEqual(self.good("qa", model("qa"), question, "--context-file", file, "--top-k", "2")["results"], [rows])
        entry = self.path("q.json", json.dumps([{"question": question, "context": context}]))
        self.assertEqual(self.good("qa", model("qa"), "--input", entry, "--top-k", "2")["results"], [rows])
        self.bad(2, "context", "qa", model("qa"), question)
        self.bad(1, "field 'context' is missing", "qa", model("qa"), "--input", self.path("q2.json", '[{"question": "x"}]'))
        self.bad(2, "no question", "qa", model("qa"))

    def test_fill_mask(self):
        g = self.golden("fill-mask", inputs="[MASK] cat [MASK]")
        found = self.good("fill-mask", model("mask"), g["inputs"], "--top-k", "3")["results"]
        self.assertEqual([f["text"] for f in found], [0, 0])
        for got, want in zip(found, g["output"]):
            self.assertEqual([(f["token"], f["token_str"], f["sequence"]) for f in got["fills"]], [(f["token"], f["token_str"], f["sequence"]) for f in want])
        (one,) = self.good("fill-mask", model("mask"), "the [MASK] sat", "--targets", "cat,dog")["results"]
        self.assertEqual({f["token_str"] for f in one["fills"]}, {"cat", "dog"})
        self.bad(2, "mask", "fill-mask", model("mask"), "no gap here")

    def test_wrong_head(self):
        self.bad(3, "classif", "classify", model("base"), "x")

    def test_tokenize(self):
        found = self.good("tokenize", model("base"), "the cat sat", "naïve")
        self.assertEqual(len(found["ids"]), 2)
        self.assertEqual(set(found), {"schema", "ids"})
        bare = self.good("tokenize", model("base"), "the cat sat", "--no-special")["ids"]
        self.assertEqual(bare[0], found["ids"][0][1:-1])
        loud = self.good("tokenize", model("base"), "the cat sat", "--verbose")
        self.assertEqual(loud["tokens"], [["[CLS]", "the", "cat", "sat", "[SEP]"]])
        self.assertEqual(loud["offsets"], [[[0, 0], [0, 3], [4, 7], [8, 11], [0, 0]]])
        ids = self.path("ids.json", json.dumps(found["ids"]))
        self.assertEqual(self.good("tokenize", model("base"), "--decode", ids)["texts"], ["the cat sat", "naive"])
        self.assertEqual(self.good("tokenize", os.path.join(model("base"), "tokenizer.json"), "--decode", ids, "--keep-special")["texts"][0],
                         "[CLS] the cat sat [SEP]")
        self.assertEqual(self.good("tokenize", model("base"), "--decode", self.path("one.json", json.dumps(found)))["texts"], ["the cat sat", "naive"])
        self.assertEqual(self.good("tokenize", model("base"), "--decode", self.path("flat.json", json.dumps(bare[0])))["texts"], ["the cat sat"])
        self.bad(1, "no token id", "tokenize", model("base"), "--decode", self.path("x.json", "[1, 2.5]"))
        self.bad(2, "takes no texts", "tokenize", model("base"), "x", "--decode", ids)


class Inside(Case):
    def tensors(self):
        path = self.path("in.safetensors")
        write_safetensors(path, {"input_ids": ("I64", [2, 3], struct.pack("<6q", 2, 10, 3, 2, 3, 0)),
                                 "attention_mask": ("I64", [2, 3], struct.pack("<6q", 1, 1, 1, 1, 1, 0))})
        return path

    def test_run(self):
        out = self.path("out.safetensors")
        found = self.good("run", model("base"), "--input", self.tensors(), "--output", out)
        self.assertEqual([(o["name"], o["dtype"], o["shape"]) for o in found["outputs"]],
                         [("last_hidden_state", "float32", [2, 3, 24]), ("pooler_output", "float32", [2, 24])])
        written = read_safetensors(out)
        inline = self.good("run", model("base"), "--input", self.tensors(), "--outputs", "pooler_output")["outputs"]
        self.assertEqual([o["name"] for o in inline], ["pooler_output"])
        self.assertEqual(struct.pack("<48f", *inline[0]["data"]), written["pooler_output"][2])
        self.assertEqual(written["last_hidden_state"][2][-96:], bytes(96))  # the padded row
        self.assertRegex(run("run", model("base"), "--input", self.tensors()).stdout, r"pooler_output\s+float32\s+\[2, 24\]")
        self.bad(2, "no tensors", "run", model("base"))
        self.bad(1, "nothing.safetensors", "run", model("base"), "--input", self.path("nothing.safetensors"))
        self.bad(1, "short.safetensors", "run", model("base"), "--input", self.path("short.safetensors", b"\x08\0\0"))
        self.bad(2, "no_such_output", "run", model("base"), "--input", self.tensors(), "--outputs", "no_such_output")
        self.bad(1, "/no/such/dir", "run", model("base"), "--input", self.tensors(), "--output", "/no/such/dir/out.safetensors")

    def test_dump_program(self):
        self.assertTrue(run("run", model("base"), "--dump-program").stdout.startswith("program BertModel"))
        self.assertIn("digraph", run("run", model("base"), "--dump-program", "dot").stdout)
        self.assertIn("digraph", run("run", "--dump-program=dot", model("base")).stdout)

    def test_matrices_are_no_norms(self):
        """The registry keeps *norm* in fp32: vectors.  A convolution under weight_norm went by such a name once."""
        for name in ("wav2vec2", "wav2vec2_new_names", "hubert_batch_norm", "swin", "detr"):
            program = run("run", os.path.join(FIXTURES, "models", name), "--dump-program").stdout
            matrices = re.findall(r"(?m)^weight (\S+) f32\[\d+,\S+\]", program)
            self.assertTrue(matrices)
            self.assertEqual([matrix for matrix in matrices if "norm" in matrix.lower()], [], name)

    def test_verify(self):
        found = self.good("verify", BERT, "--golden", GOLDEN, "--device", "cpu")
        self.assertTrue(found["pass"])
        self.assertEqual((found["architecture"], found["device"], found["precision"]), ("BertModel", "cpu", "fp32"))
        for output in found["outputs"]:
            self.assertTrue({"name", "max_abs", "max_rel", "cosine", "pass"} <= set(output))
        tensors = read_safetensors(GOLDEN)
        name = "out.last_hidden_state"
        dtype, shape, data = tensors[name]
        wrong = {**tensors, name: (dtype, shape, struct.pack("<f", struct.unpack("<f", data[:4])[0] + 1) + data[4:])}
        write_safetensors(self.path("wrong.safetensors"), wrong, {"mode": "forward"})
        done = run("verify", BERT, "--golden", self.path("wrong.safetensors"), "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["pass"]), (6, False))
        self.assertEqual(run("verify", BERT, "--golden", self.path("wrong.safetensors")).returncode, 6)
        write_safetensors(self.path("field.safetensors"), {**tensors, "out.no_such_field": tensors[name]}, {"mode": "forward"})
        self.bad(2, "no_such_field", "verify", BERT, "--golden", self.path("field.safetensors"), "--json")
        self.bad(2, "--golden FILE.safetensors is missing", "verify", BERT)
        self.bad(1, "absent.safetensors", "verify", BERT, "--golden", self.path("absent.safetensors"))

    def test_verify_list(self):
        tensors = read_safetensors(GOLDEN)
        name = "out.pooler_output"
        dtype, shape, data = tensors[name]
        write_safetensors(self.path("wrong.safetensors"), {**tensors, name: (dtype, shape, bytes(len(data) - 4) + struct.pack("<f", 9))}, {"mode": "forward"})
        masked = os.path.join(BERT, "golden.BertForMaskedLM.right.safetensors")
        lines = [f"{BERT} {GOLDEN}", "# a remark", "", f"{BERT}\t{GOLDEN}\treference\tfp32", f"{BERT} {masked} cpu - BertForMaskedLM"]
        done = run("verify", "--list", self.path("good.list", "\n".join(lines)), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(r["schema"], r["pass"], r["golden"]) for r in reports],
                         [("accel.verify/1", True, GOLDEN), ("accel.verify/1", True, GOLDEN), ("accel.verify/1", True, masked)])
        self.assertEqual([(r["device"], r["architecture"]) for r in reports[1:]], [("reference", "BertModel"), ("cpu", "BertForMaskedLM")])
        lines += [f"{self.path('absent')} {GOLDEN}", f"{BERT} {self.path('wrong.safetensors')}"]
        done = run("verify", "--list", "-", "--json", stdin="\n".join(lines))
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, [r["pass"] for r in reports]), (6, [True, True, True, False, False]))
        self.assertIn("absent", reports[3]["error"])
        self.assertIn("3 of 5 passed", done.stderr)
        done = run("verify", BERT, "--list", self.path("short.list", GOLDEN + "\n"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.bad(2, "names no golden file", "verify", "--list", self.path("empty.list", "\n# nothing\n"))
        self.bad(2, "line 1: expected MODEL GOLDEN", "verify", "--list", self.path("bad.list", "only-one-word\n"))
        self.bad(2, "not both", "verify", "--list", "x", "--golden", "y")

    def test_bench(self):
        db = self.path("results.sqlite")
        found = self.good("bench", model("base"), "--task", "encode", "--device", "cpu", "--precision", "fp32", "--batch", "3", "--seq", "7", "--threads", "1",
                          "--iters", "4", "--rounds", "2", "--db", db)
        for key in ("load_ms", "latency_ms", "items_per_s", "prefill_tokens_per_s", "peak_rss_bytes", "device_peak_bytes", "device", "driver", "precision", "threads"):
            self.assertIn(key, found)
        self.assertEqual((found["batch"], found["lengths"], found["tokens"], found["threads"], found["output"]), (3, [7, 7, 7], 21, 1, "last_hidden_state"))
        self.assertEqual(len(found["latency_ms"]), 8)
        self.assertTrue(all(ms > 0 for ms in found["latency_ms"]) and found["load_ms"] > 0 and found["peak_rss_bytes"] > 1 << 20)
        self.assertAlmostEqual(found["items_per_s"], 3000 / found["median_ms"], 6)
        ragged = self.good("bench", model("base"), "--lengths", "5,12,9", "--iters", "1", "--db", db)
        self.assertEqual((ragged["lengths"], ragged["tokens"]), ([5, 12, 9], 26))
        drawn = [self.good("bench", model("base"), "--ragged", "3", "--batch", "6", "--seq", "30", "--iters", "1")["lengths"] for _ in range(2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertTrue(len(set(drawn[0])) > 1 and all(5 <= n <= 30 for n in drawn[0]))
        whisper = os.path.join(ROOT, "tests", "fixtures", "speech", "many")
        page = self.good("bench", os.path.join(ROOT, "tests", "fixtures", "models", "layoutlmv3"), "--batch", "2", "--seq", "9", "--iters", "1")  # words; the page's side is the config's
        self.assertEqual(page["lengths"], [9, 9])
        heard = self.good("bench", whisper, "--task", "transcribe", "--seq", "9000", "--new", "7", "--iters", "2", "--profile")
        self.assertEqual((heard["task"], heard["lengths"], heard["new_tokens"], heard["prefill_tokens_per_s"]), ("transcribe", [9000], 7, None))
        self.assertTrue(heard["encoder_ms"] > 0 and heard["decoder_ms_per_token"] > 0 and heard["load_ms"] > 0)
        self.assertTrue(heard["profile"]["decoding"] and all(s["calls"] == 1 for s in heard["profile"]["steps"]), heard["profile"]["steps"])
        self.bad(2, "one sound", "bench", whisper, "--task", "transcribe", "--batch", "2")
        self.bad(2, "480000", "bench", whisper, "--task", "transcribe", "--seq", "480001")
        self.bad(2, "--new goes with", "bench", model("base"), "--new", "3")
        self.assertEqual(self.good("bench", model("mask"), "--iters", "1")["output"], "hidden_states.2")
        self.assertEqual(self.good("bench", model("mask"), "--iters", "1", "--outputs", "logits")["output"], "logits")
        self.bad(2, "no_such", "bench", model("mask"), "--iters", "1", "--outputs", "no_such")
        with sqlite3.connect(db) as file:
            self.assertEqual(file.execute("PRAGMA user_version").fetchone(), (4,))
            self.assertEqual(file.execute("PRAGMA journal_mode").fetchone(), ("wal",))
            rows = file.execute("SELECT measured, batch, lengths, threads, median_ms FROM run ORDER BY id").fetchall()
            self.assertEqual([r[:3] for r in rows], [(1, 3, "7,7,7"), (1, 3, "5,12,9")])
            self.assertEqual(rows[0][4], found["median_ms"])
            self.assertEqual(file.execute("SELECT count(*) FROM latency WHERE run = 1").fetchone(), (8,))
            for wrong in ("NULL", "0"):
                with self.assertRaises(sqlite3.IntegrityError):
                    file.execute(f"UPDATE run SET measured = {wrong}")
            build, device_id, output = file.execute("SELECT build, device_id, output FROM run WHERE id = 1").fetchone()
            self.assertTrue(build)
            self.assertEqual((build, device_id, output), (found["build"], found["device_id"], "last_hidden_state"))
            self.assertEqual(device_id, "cpu")
            kinds = file.execute("SELECT what, count(*) FROM sample WHERE run = 1 GROUP BY what").fetchall()
            self.assertEqual(dict(kinds), {"latency": 8, "first": 2, "load": 2})
            firsts = [ms for ms, in file.execute("SELECT ms FROM sample WHERE run = 1 AND what = 'first' ORDER BY round")]
            for ours, shown in zip(firsts, found["rounds"], strict=True):  # JSON may lack the last digit
                self.assertAlmostEqual(ours / shown["first_ms"], 1, 12)
        file.close()
        self.bad(1, "not a database|not an SQLite", "bench", model("base"), "--iters", "1", "--db", self.path("text.sqlite", "hello " * 200))
        self.bad(2, "--lengths", "bench", model("base"), "--lengths", "5,x")
        self.bad(2, "not both", "bench", model("base"), "--lengths", "5", "--ragged", "1")
        self.assertIn("tokens", run("bench", model("base"), "--iters", "1").stdout)

    def test_bench_samples_of_a_generation(self):
        """Prefill and decode of every run are kept, and a comparison with the database has them and their noise."""
        db, words = self.path("generate.sqlite"), ("bench", os.path.join(FIXTURES, "models", "llama"), "--task", "generate", "--device", "cpu", "--new", "4", "--seq", "6", "--iters", "5", "--rounds", "2")
        found = self.good(*words, "--db", db)
        with sqlite3.connect(db) as file:
            kept = {what: [ms for ms, in file.execute("SELECT ms FROM sample WHERE what = ? ORDER BY round, iter", (what,))] for what in ("prefill", "decode")}
            rates = file.execute("SELECT new_tokens, decode_tokens_per_s, decoder_ms_per_token, prefill_tokens_per_s FROM run").fetchone()
        file.close()
        def same(ours, theirs):  # JSON may lack the last digit
            self.assertEqual(len(ours), len(theirs))
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(a / b, 1, 12)
        same(kept["prefill"], found["prefill_samples_ms"])
        same(kept["decode"], found["decode_samples_ms"])
        self.assertEqual(len(kept["decode"]), 10)
        same(rates, (4, found["decode_tokens_per_s"], found["decoder_ms_per_token"], found["prefill_tokens_per_s"]))
        again = self.good(*words, "--compare", db, "--db", db)
        changes = {c["what"]: c for c in again["compare"]["changes"]}
        self.assertEqual(again["compare"]["unlike"], "")
        for what in ("median_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "load_ms"):
            same([changes[what]["before"]], [found[what]])
        self.assertAlmostEqual(changes["first_ms"]["before"], sum(r["first_ms"] for r in found["rounds"]) / 2)
        self.assertGreater(changes["decode_tokens_per_s"]["noise"], 0)
        self.bad(1, r"holds no run of .* on cpu at fp32 with these", *words[:-2], "--rounds", "1", "--batch", "2", "--compare", db)
        newer = self.path("newer.sqlite")
        with sqlite3.connect(newer) as file:
            file.execute("PRAGMA user_version = 99")
        file.close()
        self.bad(1, "made by a newer accel", *words, "--db", newer)

    def old_database(self, name, version):
        """An empty database of an earlier schema, as bench_schema.h has it."""
        with open(os.path.join(ROOT, "src", "bench", "bench_schema.h"), encoding="utf-8") as f:
            text = f.read()
        def statements(macro):
            body = re.search(rf"#define {macro}\b(.*?[^\\])\n", text, re.S).group(1)
            return "".join(re.findall(r'"([^"]*)"', re.sub(r"/\*.*?\*/", "", body)))
        db = self.path(name)
        with sqlite3.connect(db) as file:
            file.executescript(statements("BENCH_SCHEMA_1") + (statements("BENCH_SCHEMA_TO_2") if version > 1 else ""))
            file.execute("INSERT INTO run (time, measured, library, host, cpu, model, weights, task, device, implementation_type, driver, precision, listed, threads, batch, "
                         "lengths, tokens, iters, rounds, load_ms, median_ms, min_ms, p90_ms, items_per_s, prefill_tokens_per_s, peak_rss_bytes) VALUES "
                         "('t', 1, 'l', 'h', 'c', 'm', 'w', 'encode', 'cpu', 'CPU', 'd', 'fp32', 1, 1, 1, '5', 5, 2, 1, 1, 2, 3, 4, 5, 6, 7)")
            file.executemany("INSERT INTO latency VALUES (1, 0, ?, ?)", [(0, 1.5), (1, 2.5)])
            if version > 1:
                file.execute("INSERT INTO step VALUES (1, 0, 'n', 'linear', 0, 1, 1, 1, 1, 1)")
        file.close()
        return db

    def test_bench_old_file(self):
        """Databases of the first two schemas get what the later ones added, and keep all they have."""
        for version in (1, 2):
            db = self.old_database(f"old{version}.sqlite", version)
            self.good("bench", model("base"), "--iters", "1", "--db", db)
            with sqlite3.connect(db) as file:
                self.assertEqual(file.execute("PRAGMA user_version").fetchone(), (4,))
                self.assertEqual(file.execute("SELECT id, model, peak_rss_bytes, peak_gflops, device_id, build, decode_tokens_per_s FROM run WHERE id = 1").fetchall(),
                                 [(1, "m", 7, None, "", "", None)])
                self.assertEqual(file.execute("SELECT round, iter, ms FROM latency WHERE run = 1").fetchall(), [(0, 0, 1.5), (0, 1, 2.5)])
                self.assertEqual(file.execute("SELECT count(*) FROM step WHERE run = 1").fetchone(), (version - 1,))
                self.assertEqual(file.execute("SELECT count(*), sum(measured) FROM run").fetchone(), (2, 2))
            file.close()
        db = self.old_database("estimate.sqlite", 2)
        with sqlite3.connect(db) as file:
            file.execute("UPDATE run SET measured = 0")  # the old schemas took it
        file.close()
        self.bad(1, r"estimate\.sqlite: 1 rows .* measured = 0.*DELETE FROM run", "bench", model("base"), "--iters", "1", "--db", db)
        with sqlite3.connect(db) as file:
            self.assertEqual(file.execute("PRAGMA user_version").fetchone(), (2,))  # untouched
        file.close()

    def test_bench_profile(self):
        db, svg = self.path("steps.sqlite"), self.path("profile.svg")
        found = self.good("bench", model("base"), "--device", "reference", "--batch", "2", "--seq", "8", "--iters", "3", "--db", db, "--profile-svg", svg)
        profile = found["profile"]
        self.assertEqual((profile["runs"], profile["clock"]), (3, "host"))
        self.assertLess(profile["steps_ms"], profile["run_ms"])
        self.assertAlmostEqual(profile["steps_ms"], sum(step["ms"] for step in profile["steps"]))
        for groups in ("by_op", "by_layer"):
            for key in ("ms", "flop", "bytes", "calls"):
                self.assertAlmostEqual(sum(g[key] for g in profile[groups]), sum(s[key] for s in profile["steps"]), msg=groups + key)
        self.assertEqual([s["node"] for s in profile["steps"]], sorted(s["node"] for s in profile["steps"]))
        self.assertTrue(all(s["ms"] >= s["min_ms"] > 0 and s["bytes"] > 0 for s in profile["steps"]))
        with open(os.path.join(model("base"), "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        width, inner, layers, tokens = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"], 16
        products = 2 * tokens * layers * (4 * width * width + 2 * width * inner)
        linear = next(g for g in profile["by_op"] if g["op"] == "linear")
        self.assertTrue(products < linear["flop"] < 1.1 * products, (products, linear["flop"]))
        pairs = layers * 2 * 8 * 8 * config["num_attention_heads"]
        attention = next(g for g in profile["by_op"] if g["op"] == "attention")
        self.assertEqual(attention["flop"], pairs * (4 * width / config["num_attention_heads"] + 4))
        with sqlite3.connect(db) as file:
            steps = file.execute("SELECT node, op, ms FROM step ORDER BY node").fetchall()
            self.assertEqual(steps, [(s["node"], s["op"], s["ms"]) for s in profile["steps"]])
        file.close()
        picture = ElementTree.parse(svg).getroot()
        names = "{http://www.w3.org/2000/svg}"
        titles = [t.text for t in picture.iter(names + "title")]
        for step in profile["steps"]:
            self.assertTrue(any(t.startswith(step["name"]) for t in titles), step["name"])
        self.assertGreaterEqual(len(list(picture.iter(names + "rect"))), len(profile["steps"]))
        table = run("bench", model("base"), "--device", "reference", "--iters", "1", "--profile").stdout
        for word in ("GFLOP/s", "attention", "longest steps", "outside the steps"):
            self.assertIn(word, table)
        self.assertNotIn("profile", self.good("bench", model("base"), "--iters", "1"))
        self.bad(1, "cannot be written", "bench", model("base"), "--iters", "1", "--profile-svg", self.path("none/such.svg"))

    def test_bench_bounds(self):
        """Decoding's linears and attention stand beside what memory and instructions allow; prompts do not, nor other devices."""
        llama = os.path.join(FIXTURES, "models", "llama")
        for precision in ("fp32", "int8"):
            profile = self.good("bench", llama, "--task", "generate", "--device", "cpu", "--precision", precision, "--seq", "8", "--new", "4", "--iters", "1", "--profile")["profile"]
            steps = {op: [s for s in profile["steps"] if s["op"] == op] for op in ("linear", "attention")}
            for op, found in steps.items():
                self.assertTrue(found and all(s["bound_ms"] > 0 and s["share_of_bound"] > 0 for s in found), (precision, op))
                group = next(g for g in profile["by_op"] if g["op"] == op)
                self.assertAlmostEqual(group["bound_ms"], sum(s["bound_ms"] for s in found))
                self.assertTrue(all(s["bound_ms"] >= 0.999e-6 * s["bytes"] / profile["peak_gbytes_per_s"] for s in found))
            self.assertIsNone(next(g for g in profile["by_op"] if g["op"] == "norm")["bound_ms"])
        profile = self.good("bench", llama, "--task", "generate", "--device", "reference", "--seq", "8", "--new", "2", "--iters", "1", "--profile")["profile"]
        self.assertTrue(all(s["bound_ms"] is None for s in profile["steps"]))

    def test_bench_profile_on_a_device(self):
        for device in ("opencl", "vulkan"):
            with self.subTest(device=device):
                if run("detect", device).returncode == 4:
                    self.skipTest(f"no {device} device")
                profile = self.good("bench", model("base"), "--device", device, "--batch", "2", "--seq", "8", "--iters", "2", "--profile", timeout=300)["profile"]
                self.assertEqual(profile["clock"], "device")
                self.assertTrue(0 < profile["steps_ms"] < profile["run_ms"], profile)
                for op in ("linear", "attention", "norm"):
                    self.assertGreater(next(g for g in profile["by_op"] if g["op"] == op)["ms"], 0)

    def test_bench_peaks(self):
        profile = self.good("bench", model("base"), "--device", "cpu", "--iters", "1", "--threads", "1", "--profile", timeout=300)["profile"]
        self.assertGreater(profile["peak_gflops"], 0.1)
        self.assertGreater(profile["peak_gbytes_per_s"], 0.1)

    def test_bench_compare(self):
        old = self.path("old.json")
        words = ("bench", model("base"), "--device", "reference", "--iters", "5", "--batch", "2", "--seq", "8")
        self.assertEqual(run(*words, "--json=" + old).returncode, 0)
        found = self.good(*words, "--compare", old)["compare"]
        self.assertEqual((found["with"], found["unlike"]), (old, ""))
        changes = {c["what"]: c for c in found["changes"]}
        self.assertIn(changes["median_ms"]["verdict"], ("better", "worse", "the same within noise"))
        self.assertAlmostEqual(changes["median_ms"]["times"], changes["median_ms"]["before"] / changes["median_ms"]["after"])
        self.assertGreater(changes["median_ms"]["noise"], 0)
        with open(old, encoding="utf-8") as f:
            slow = json.load(f)
        slow.update(median_ms=1e6, latency_ms=[1e6, 1.001e6, 0.999e6, 1.0005e6], threads=99)
        with open(old, "w", encoding="utf-8") as f:
            json.dump(slow, f)
        found = self.good(*words, "--compare", old)["compare"]
        self.assertIn("threads 99", found["unlike"])
        self.assertEqual(next(c["verdict"] for c in found["changes"] if c["what"] == "median_ms"), "better")
        table = run(*words, "--compare", old, "--markdown").stdout
        self.assertRegex(table, r"\| median_ms \| 1e\+06 \|")
        self.bad(1, "not accel.bench/1", *words, "--compare", self.path("other.json", '{"schema": "accel.fit/1"}'))
        self.bad(1, "no JSON", *words, "--compare", self.path("text.json", "hello"))
        self.bad(1, "none.json", *words, "--compare", self.path("none.json"))

    def test_fit(self):
        found = self.good("fit", model("base"), "--device", "reference", "--precision", "fp32", "--batch", "4", "--seq", "16")
        (record,) = found["devices"]
        self.assertEqual((found["batch"], found["seq"], record["device"], record["precision"], record["fits"]), (4, 16, "reference", "fp32", True))
        self.assertGreaterEqual(record["weights_bytes"], 4 * found["parameters"])
        self.assertLessEqual(record["total_bytes"], record["peak_load_bytes"])
        larger = self.good("fit", model("base"), "--device", "reference", "--precision", "fp32", "--batch", "8", "--seq", "16")["devices"][0]
        self.assertGreater(larger["scratch_bytes"], record["scratch_bytes"])
        self.assertEqual(larger["weights_bytes"], record["weights_bytes"])
        everything = self.good("fit", model("base"))["devices"]
        self.assertEqual(len(everything), 8 * len({r["device"] for r in everything}))
        self.assertIn("reference", {r["device"] for r in everything})
        # without --device the table has the devices that count; emulated ones are a line, their rows come with --verbose and JSON
        short, whole = run("fit", model("base")), run("fit", model("base"), "--verbose")
        first = [line.split()[0] for line in short.stdout.splitlines()[3:] if re.match(r"\S+ +\S*(fp|bf|int|uint)\d", line)]
        self.assertIn("cpu", first)
        self.assertNotIn("reference", first)
        self.assertRegex(short.stdout, r"\nalso there, emulated in software: .*reference.* \(--verbose shows them, too\)\n$")
        rows = [line.split()[0] for line in whole.stdout.splitlines()[3:] if line]
        self.assertEqual(len(rows), len(everything))
        self.assertEqual(rows[:len(first)], first)  # what counts comes first
        self.assertIn("weights", short.stdout)
        registry = self.good("fit", "google-bert/bert-base-uncased", "--device", "reference", "--precision", "fp32")
        self.assertGreater(registry["parameters"], 100e6)  # no files are needed

    def test_fit_is_true(self):
        """The estimate beside a process that ran it: within a tenth and 8 MB."""
        with open(ACCEL, "rb") as f:
            program = f.read()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("sanitizers take memory of their own")
        name, work = "sentence-transformers/all-MiniLM-L6-v2", ("--device", "cpu", "--precision", "fp32", "--batch", "8", "--seq", "64")
        (record,) = self.good("fit", name, *work)["devices"]
        weights = () if record["weights_in_file_bytes"] else ("--random-weights",)
        measured = self.good("bench", name, *work, *weights, "--iters", "1", "--no-cache", "--threads", "1", timeout=300)["peak_rss_bytes"]
        self.assertLess(abs(measured - record["peak_load_bytes"]), 0.1 * measured + 8e6, record)

    def test_does_not_fit(self):
        words = (model("base"), "--device", "reference", "--precision", "fp32", "--mem-limit", "40K")
        done = run("fit", *words, "--json")
        self.assertEqual(done.returncode, 5, done.stderr)
        (record,) = json.loads(done.stdout)["devices"]
        self.assertEqual((record["fits"], record["available_bytes"]), (False, 40 << 10))
        self.assertTrue(record["advice"])
        self.bad(5, r"(?s)needs 0\.\d MiB on reference at fp32 .*accel fit", "embed", *words, "x")  # asked before every load
        done = run("fit", model("base"), "--device", "reference", "--precision", "fp32", "--batch", "1000", "--seq", "40", "--mem-limit", "20M")
        self.assertEqual(done.returncode, 5)
        self.assertRegex(done.stdout, r"batch \d+ of 40 tokens fits")
        self.bad(2, "ACCEL_MEM_LIMIT|--mem-limit", "embed", model("base"), "x", environment={"ACCEL_MEM_LIMIT": "lots"})

    def test_fit_in_a_container(self):
        """A memory cgroup's limit is what fit promises and what loads are held to (a fake tree of /proc and /sys)."""
        for name, text in {"proc/meminfo": "MemTotal: 1073741824 kB\nMemAvailable: 1073741824 kB\n", "proc/self/cgroup": "0::/box\n",
                           "sys/fs/cgroup/box/memory.max": "262144\n", "sys/fs/cgroup/box/memory.current": "131072\n"}.items():
            os.makedirs(os.path.dirname(self.path("root/" + name)), exist_ok=True)
            self.path("root/" + name, text)
        container = {"ACCEL_DETECT_ROOT": self.path("root")}
        done = run("fit", model("base"), "--device", "cpu", "--precision", "fp32", "--json", environment=container)
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        (record,) = json.loads(done.stdout)["devices"]
        self.assertEqual((record["fits"], record["available_bytes"], record["memory_bytes"]), (False, 131072, 262144))
        self.bad(5, "needs 0.2 MiB .*, but 0.1 MiB are there", "embed", model("base"), "--device", "cpu", "x", environment=container)

    def test_fit_under_an_address_space_limit(self):
        """A checkpoint larger than `ulimit -v`: fit needs its headers alone; a load reads it tensor by tensor, to the same numbers."""
        with open(ACCEL, "rb") as f:
            program = f.read()
        if b"__asan_init" in program or b"__tsan_init" in program:
            self.skipTest("sanitizers take address space of their own")
        large = self.path("large")
        os.makedirs(large)
        for name in os.listdir(model("base")):
            if not name.endswith(".safetensors"):
                with open(os.path.join(model("base"), name), "rb") as f:
                    self.path(os.path.join("large", name), f.read())
        tensors = read_safetensors(os.path.join(model("base"), "model.safetensors"))
        header, size = {}, 0
        for name, (dtype, shape, content) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [size, size + len(content)]}
            size += len(content)
        more = 8 << 30  # a tensor that the model has no use for, in a hole of the file
        header["unused"] = {"dtype": "U8", "shape": [more], "data_offsets": [size, size + more]}
        text = json.dumps(header).encode()
        weights = self.path("large/model.safetensors", struct.pack("<Q", len(text)) + text + b"".join(c for _, _, c in tensors.values()))
        os.truncate(weights, 8 + len(text) + size + more)

        def limited(*arguments):
            command = "ulimit -v 4000000; exec \"$@\""
            return subprocess.run(["bash", "-c", command, "-", ACCEL, *arguments], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
        done = limited("fit", large, "--device", "cpu", "--precision", "fp32", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["devices"][0]["fits"])
        self.assertRegex(limited("fit", large, "--device", "cpu").stdout, r"cpu +fp32 ")
        for precision in ("fp32", "bf16", "int8", "int4"):
            arguments = ("embed", large, "--device", "cpu", "--precision", precision, "--no-cache", "x")
            done, free = limited(*arguments), run(*arguments)
            self.assertEqual((done.returncode, free.returncode), (0, 0), done.stderr + free.stderr)
            self.assertEqual(done.stdout, free.stdout, precision)

    def test_cache(self):
        place = ("--cache-dir", self.path("cache"))
        self.assertEqual(self.good("cache", "ls", *place)["entries"], [])
        os.makedirs(self.path("cache/packed"))
        names = ["0" * 32 + ".packed", "1" * 32 + ".packed"]
        for name in names:
            self.path("cache/packed/" + name, "damaged")
        listed = self.good("cache", "ls", *place)
        self.assertEqual(sorted(e["file"] for e in listed["entries"]), names)
        self.assertEqual(listed["bytes"], 14)
        self.assertIn("not complete", run("cache", "ls", *place).stdout)
        self.assertIn("removed 2 entries, 14 B", run("cache", "prune", *place).stdout)
        self.assertEqual(self.good("cache", "prune", "--all", *place)["removed"], 0)
        self.assertEqual(self.good("cache", "ls", *place)["entries"], [])

    def test_peers_form(self):
        """The very words that outside harnesses use."""
        done = run("bench", model("base"), "--task", "encode", "--device", "cpu", "--precision", "fp32", "--batch", "1", "--seq", "16", "--threads", "1",
                   "--json", "-", "--iters", "3")
        self.assertEqual(len(json.loads(done.stdout)["latency_ms"]), 3)

    def test_test(self):
        found = self.good("test", model("base"), "--hardware", "cpu,qualcomm", "--precisions", "fp32")
        self.assertEqual(found["results"]["cpu_fp32_test"], "Success")
        self.assertEqual(set(found["results"]), {"cpu_test", "cpu_fp32_test", "qualcomm_test", "qualcomm_fp32_test"})
        (record,) = found["records"]
        self.assertEqual((record["platform"], record["passed"], record["weights"]), ("cpu (FP32)", True, "local"))
        self.assertIn("cpu (FP32)", run("test", model("base"), "--hardware", "cpu", "--precisions", "fp32").stdout)


class Knowledge(Case):
    def test_detect(self):
        found = self.good("detect")
        for key in ("cpu", "cuda", "cuda_version", "cuda_devices", "mps", "openvino", "qualcomm", "amd", "amd_version", "amd_devices", "devices", "plugins"):
            self.assertIn(key, found)
        table = run("detect")
        self.assertEqual(table.returncode, 0)
        for name in ("cpu", "cuda", "rocm", "opencl", "vulkan", "openvino", "apple", "qualcomm", "webgpu", "webnn"):
            self.assertRegex(table.stdout, rf"(?m)^{name}(:\d+)?\s+(yes|no)\b")
        self.assertIn("why not, and what to do", table.stdout)
        loud = run("detect", "--verbose").stdout
        self.assertIn("libaccel_cpu.so", loud)
        self.assertIn("HIP_VISIBLE_DEVICES", loud)

    def test_detect_one(self):
        found = json.loads(run("detect", "cpu", "--json").stdout)
        self.assertEqual((found["schema"], found["device"], found["type"], found["fp16"]), ("accel.device/1", "cpu", "cpu", True))
        self.assertGreater(found["memory_total"], 0)
        self.assertIn("memory total", run("detect", "cpu").stdout)
        self.assertEqual(json.loads(run("detect", "reference", "--json").stdout)["runtime_version"], "") # a plugin that is no hardware of the registry
        absent = run("detect", "webnn")
        self.assertEqual((absent.returncode, absent.stdout), (4, ""))
        self.assertIn("webnn", absent.stderr)

    def test_registry(self):
        models = self.good("registry")["models"]
        self.assertGreater(len(models), 40)
        amd = self.good("registry", "--hardware", "amd", "--precision", "fp16", "--family", "bert")["models"]
        self.assertTrue(amd and set(amd) < set(models))
        self.assertTrue(self.good("registry", "--search", "MiniLM")["models"])
        entry = self.good("registry", "bert-base-uncased")["entry"]
        self.assertEqual((entry["id"], entry["embedding_dim"]), ("google-bert/bert-base-uncased", 768))
        self.assertIn("google-bert/bert-base-uncased", run("registry", "bert-base-uncased").stdout)
        self.bad(3, "no/such-model", "registry", "no/such-model")
        classes = self.good("registry", "--architectures")["architectures"]
        self.assertIn("BertForMaskedLM", classes)
        self.assertEqual(run("registry", "--architectures").stdout.split(), classes)
        self.bad(2, "abacus", "registry", "--hardware", "abacus")

    def test_deps(self):
        base = self.good("deps", "bert-base-uncased")["dependencies"]
        amd = self.good("deps", "bert-base-uncased", "--hardware", "rocm", "--precision", "fp16")["dependencies"]
        self.assertEqual(amd[:len(base)], base)
        self.assertGreater(len(amd), len(base))
        self.assertEqual(run("deps", "bert-base-uncased").stdout.splitlines(), base)
        self.bad(3, "no/such-model", "deps", "no/such-model")

    def test_matrix(self):
        (entry,) = self.good("matrix", model("base"))["models"]
        self.assertEqual(entry["capable"]["cpu"]["fp32"]["answer"], "native")
        table = run("matrix", model("base")).stdout
        self.assertRegex(table, r"listed +cpu +yes")
        self.assertRegex(table, r"capable here +cpu +native")

    def test_own_registry(self):
        entry = dict(self.good("registry", "bert-base-uncased")["entry"], id="me/mine", aliases=["mine"], description="mine")
        path = self.path("mine.json", json.dumps({"models": [entry]}))
        self.assertEqual(self.good("registry", "me/mine", "--registry", path)["entry"]["description"], "mine")
        self.bad(1, "broken.json", "registry", "me/mine", "--registry", self.path("broken.json", "{"))


if __name__ == "__main__":
    unittest.main()
