"""The ctypes package `accel` against the built library: struct layouts, pipelines as transformers answers, raw tensors, registry, errors.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.  numpy is used when it is there.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from sanitized import run_under_sanitizer

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
PACKAGE = os.path.join(ROOT, "src", "bindings", "python")
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
PIPELINES = os.path.join(FIXTURES, "pipelines")
HEADERS = os.path.join(ROOT, "include", "accel")

run_under_sanitizer(LIBRARY)  # also a test that imports this one
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, PACKAGE)
import accel  # noqa: E402
from accel import _native, _types  # noqa: E402


def header():
    """All public headers of applications as one text, without comments."""
    texts = []
    for name in sorted(os.listdir(HEADERS)):
        if name.endswith(".h") and name not in ("plugin.h", "comm.h"):
            with open(os.path.join(HEADERS, name), encoding="utf-8") as f:
                texts.append(re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S))
    return "\n".join(texts)


def structs():
    import ctypes
    return [v for k, v in vars(_types).items() if k.startswith("accel_") and isinstance(v, type) and issubclass(v, ctypes.Structure)]


class Layout(unittest.TestCase):
    def test_structs_are_laid_out_as_in_c(self):
        lines = ["#include <accel/accel.h>", "#include <stdio.h>", "int main(void) {"]
        for kind in structs():
            name = kind.__name__
            lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
            for field in kind._fields_:
                member = f"(({name} *)0)->{field[0]}"
                lines.append(f'  printf("{name}.{field[0]} %zu %zu\\n", offsetof({name}, {field[0]}), sizeof({member}));')
        lines += ["  return 0;", "}"]
        with tempfile.TemporaryDirectory() as work:
            source, program = os.path.join(work, "layout.c"), os.path.join(work, "layout")
            with open(source, "w") as f:
                f.write("\n".join(lines))
            subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I" + os.path.join(ROOT, "include"), source, "-o", program], check=True)
            answer = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = dict(line.split(" ", 1) for line in answer.splitlines())
        import ctypes
        self.assertGreater(len(structs()), 25)
        for kind in structs():
            self.assertEqual(found[kind.__name__], str(ctypes.sizeof(kind)), kind.__name__)
            for field in kind._fields_:
                at = getattr(kind, field[0])
                self.assertEqual(found[f"{kind.__name__}.{field[0]}"], f"{at.offset} {at.size}", f"{kind.__name__}.{field[0]}")

    def test_every_field_of_the_header_is_there(self):
        """A field added to the header must be added here: the C sizes would differ, but a short list of fields with padding might not."""
        known = {kind.__name__: [f[0] for f in kind._fields_] for kind in structs()}
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header(), flags=re.S):
            fields = [re.sub(r"\[.*?\]", "", part).split("*")[-1].split()[-1] for line in body.split(";") for part in line.split(",") if part.strip()]
            if name != "accel_registry_entry":  # read as JSON
                self.assertEqual(known.get(name), fields, name)

    def test_every_function_of_the_header_is_declared(self):
        names = set(re.findall(r"ACCEL_API [\w *]*?(accel_\w+)\(", header()))
        self.assertGreater(len(names), 150)
        declared = {row[0] for row in _native._TABLE}
        unused = {"accel_registry_lookup", "accel_handler_of", "accel_embed"}  # their work is done by calls that copy
        self.assertEqual(declared - names, set())
        self.assertEqual(names - declared, unused)


def near(test, got, want, path="output"):
    """The same nesting, keys, texts and integers; numbers to 1e-4."""
    if hasattr(got, "tolist"):
        got = got.tolist()
    if isinstance(want, dict):
        test.assertIsInstance(got, dict, path)
        test.assertEqual(set(got), set(want), path)
        for key in want:
            near(test, got[key], want[key], f"{path}.{key}")
    elif isinstance(want, list):
        test.assertTrue(isinstance(got, (list, tuple)) or hasattr(got, "__len__"), path)
        test.assertEqual(len(got), len(want), path)
        for i, item in enumerate(want):
            near(test, got[i], item, f"{path}[{i}]")
    elif isinstance(want, float):
        test.assertLessEqual(abs(got - want), 1e-4 * max(1.0, abs(want)), f"{path}: {got} instead of {want}")
    else:
        test.assertEqual(got, want, path)


class Pipelines(unittest.TestCase):
    def test_as_transformers_answers(self):
        with open(os.path.join(PIPELINES, "goldens.json"), encoding="utf-8") as f:
            goldens = json.load(f)
        self.assertGreater(len(goldens), 20)
        for i, g in enumerate(goldens):
            task = "feature-extraction" if g["task"] == "sentence" else g["task"]
            with self.subTest(number=i, task=task, model=g["model"], options=g["options"], call=g["call"]):
                with accel.pipeline(task, os.path.join(PIPELINES, g["model"]), device="cpu", **g["options"]) as pipe:
                    self.assertEqual((pipe.placement.device, pipe.placement.precision), ("cpu", "fp32"))
                    near(self, pipe(g["inputs"], **g["call"]), g["output"])

    def test_texts_that_are_not_cut(self):
        for task, name in (("text-classification", "classify"), ("feature-extraction", "base")):
            with accel.pipeline(task, os.path.join(PIPELINES, name), device="cpu") as pipe:
                self.assertEqual(len(pipe("the cat", truncation=False)), len(pipe("the cat")))
                with self.assertRaisesRegex(accel.AccelError, "text 0 has 102 tokens, the model takes 48, and truncation is off"):
                    pipe("the cat " * 50, truncation=False)
                with self.assertRaisesRegex(accel.ArgumentError, "unknown truncation 'first'.*only_first"):
                    pipe("the cat", truncation="first")
        with accel.pipeline("text-classification", os.path.join(PIPELINES, "classify"), device="cpu") as pipe:
            with self.assertRaisesRegex(TypeError, "'stride' is not supported; known: truncation"):
                pipe("the cat", stride=3)

    def test_question_answering_shapes(self):
        with accel.pipeline("question-answering", os.path.join(PIPELINES, "qa"), device="cpu") as pipe:
            context = "Ada lives in London. The cat sat on the mat."
            one = pipe(question="Where does Ada live?", context=context)
            self.assertEqual(set(one), {"score", "start", "end", "answer"})
            self.assertEqual(one["answer"], context[one["start"]:one["end"]])
            several = pipe({"question": "Where does Ada live?", "context": context}, top_k=3)
            self.assertIsInstance(several, list)
            self.assertEqual(several[0], one)
            self.assertEqual(sorted((a["score"] for a in several), reverse=True), [a["score"] for a in several])
            both = pipe(question=["Where does Ada live?", "Where is the cat?"], context=context)
            self.assertEqual(len(both), 2)
            self.assertEqual(both[0], one)

    def test_one_sentence_is_one_vector(self):
        with accel.pipeline("feature-extraction", os.path.join(PIPELINES, "sentence"), device="cpu") as pipe:
            self.assertEqual(tuple(pipe("a cat").shape), (24,))
            self.assertEqual(tuple(pipe(["a cat", "a dog"]).shape), (2, 24))

    def test_a_shared_model(self):
        with accel.Model(os.path.join(PIPELINES, "classify"), device="cpu") as model:
            pipe = accel.pipeline("text-classification", model)
            self.assertEqual(model.labels, ["negative", "neutral", "positive"])
            self.assertIn(pipe("a cat")[0]["label"], model.labels)

    def test_unknown_task(self):
        with self.assertRaisesRegex(ValueError, "unknown task 'paint'.*fill-mask"):
            accel.pipeline("paint", "x")


class Tensors(unittest.TestCase):
    def setUp(self):
        self.model = accel.AutoModel.from_pretrained(os.path.join(PIPELINES, "base"), device="cpu")
        self.addCleanup(self.model.close)

    def test_lists_in_tensors_out(self):
        found = self.model.run(input_ids=[[2, 10, 11, 3], [2, 10, 3, 0]], attention_mask=[[1, 1, 1, 1], [1, 1, 1, 0]])
        self.assertEqual(list(found), ["last_hidden_state", "pooler_output"])
        self.assertEqual(tuple(found.last_hidden_state.shape), (2, 4, 24))
        self.assertEqual(tuple(found[1].shape), (2, 24))
        padded = found.last_hidden_state.tolist()[1][3]
        self.assertEqual(padded, [0.0] * 24)

    def test_padding_changes_nothing(self):
        both = self.model.run(input_ids=[[2, 10, 11, 3], [2, 10, 3, 0]], attention_mask=[[1, 1, 1, 1], [1, 1, 1, 0]]).last_hidden_state.tolist()
        alone = self.model.run(input_ids=[[2, 10, 3]]).last_hidden_state.tolist()
        near(self, both[1][:3], alone[0])

    def test_buffers_and_numpy(self):
        import array
        want = self.model.run(input_ids=[[2, 10, 3]]).last_hidden_state.tolist()
        flat = memoryview(array.array("q", [2, 10, 3])).cast("B").cast("q", shape=[1, 3])
        self.assertEqual(self.model.run(input_ids=flat).last_hidden_state.tolist(), want)
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy: the buffer protocol was tested")
        for kind in (numpy.int64, numpy.int32):
            ids = numpy.array([[2, 9, 10, 9, 3]], kind)[:, ::2].copy()
            strided = numpy.array([[2, 9, 10, 9, 3]], kind)[:, ::2]
            self.assertEqual(self.model.run(input_ids=strided).last_hidden_state.tolist(), self.model.run(input_ids=ids).last_hidden_state.tolist())

    def test_named_outputs(self):
        self.assertEqual(list(self.model.run(outputs=["pooler_output"], input_ids=[[2, 10, 3]])), ["pooler_output"])
        self.assertIn("input_ids", self.model.input_names)
        self.assertIn("last_hidden_state", self.model.output_names)

    def test_queue(self):
        want = self.model.run(input_ids=[[2, 10, 3]]).last_hidden_state.tolist()
        tickets = [self.model.submit(input_ids=[[2, 10, 3]]) for _ in range(3)]
        for ticket in tickets:
            self.assertEqual(ticket.wait(60).last_hidden_state.tolist(), want)
        with self.assertRaises(ValueError):
            tickets[0].wait()

    def test_queue_of_texts(self):
        """What is submitted gives what the calls of the same names give."""
        texts = ["the quick brown fox", "a dog", "cats and dogs again"]
        with accel.Model(os.path.join(PIPELINES, "sentence"), device="cpu") as model:
            tickets = [model.submit_embed(texts[:n], priority=n) for n in range(4)]
            for n, ticket in enumerate(tickets):
                got, want = ticket.wait(60), model.embed(texts[:n])
                self.assertEqual([list(row) for row in got], [list(row) for row in want])
            with self.assertRaises(accel.ArgumentError):
                model.submit_embed(texts, pooling="median")
        with accel.Model(os.path.join(PIPELINES, "classify"), device="cpu") as model:
            self.assertEqual(model.submit_classify(texts, top_k=0).wait(60), model.classify(texts, top_k=0))
        with accel.Model(os.path.join(PIPELINES, "score"), device="cpu") as model:
            ticket = model.submit_rerank("fox", texts, return_documents=True, deadline=60)
            self.assertEqual(ticket.wait(60), model.rerank("fox", texts, return_documents=True))
            ticket.cancel()

    def test_threads(self):
        want, wrong = self.model.run(input_ids=[[2, 10, 11, 3]]).last_hidden_state.tolist(), []

        def work():
            for _ in range(10):
                if self.model.run(input_ids=[[2, 10, 11, 3]]).last_hidden_state.tolist() != want:
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_bad_tensors(self):
        with self.assertRaisesRegex(ValueError, "same length"):
            self.model.run(input_ids=[[1, 2], [3]])
        with self.assertRaises(accel.ArgumentError) as caught:
            self.model.run(input_ids=[[2, 100000, 3]])
        self.assertEqual(caught.exception.status, "ERROR_ARGUMENT")
        self.assertIn("input_ids", str(caught.exception))
        with self.assertRaises(accel.ArgumentError):
            self.model.run(pixel_values=[[1.0]])

    def test_closed(self):
        self.model.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            self.model.run(input_ids=[[1]])

    def test_program(self):
        self.assertIn("program BertModel", self.model.dump_program())
        self.assertIn("digraph", self.model.dump_program("dot"))

    def test_self_test(self):
        report = self.model.self_test()
        self.assertTrue(report.records and all(r.passed for r in report.records), report)


class Tokenizers(unittest.TestCase):
    def test_there_and_back(self):
        tokenizer = accel.AutoTokenizer.from_pretrained(os.path.join(PIPELINES, "base"))
        ids = tokenizer.encode("the cat sat")
        self.assertEqual(tokenizer.tokenize("the cat sat"), ["the", "cat", "sat"])
        self.assertEqual(tokenizer.encode("the cat sat", add_special_tokens=False), ids[1:-1])
        self.assertEqual(tokenizer.decode(ids, skip_special_tokens=True), "the cat sat")
        batch = tokenizer(["the cat sat", "the"], padding=True, return_offsets_mapping=True)
        self.assertEqual(batch["attention_mask"], [[1] * 5, [1, 1, 1, 0, 0]])
        self.assertEqual(batch["offset_mapping"][0], [(0, 0), (0, 3), (4, 7), (8, 11), (0, 0)])
        with self.assertRaises(UnicodeEncodeError):
            tokenizer.encode("\ud800")


    def test_nul(self):
        """U+0000 is a character like any other; what the `tokenizers` package answers."""
        text = "a\0b the\0"
        for name, ids, offsets, decoded in (
                ("bpe_roberta", [0, 69, 193, 70, 329, 193, 2], [(0, 0), (0, 1), (1, 2), (2, 3), (4, 7), (7, 8), (0, 0)], text),
                ("unigram_xlmr", [0, 5, 24, 3, 99, 36, 3, 2], [(0, 0), (0, 1), (0, 1), (1, 2), (2, 3), (4, 7), (7, 8), (0, 0)], "ab the"),
                ("wordpiece_accents", [2, 1, 1, 3], [(0, 0), (0, 3), (4, 8), (0, 0)], "")):
            tokenizer = accel.Tokenizer(os.path.join(FIXTURES, "tokenizers", name + ".json"))
            found = tokenizer(text, return_offsets_mapping=True)
            self.assertEqual((found["input_ids"], found["offset_mapping"]), (ids, offsets), name)
            self.assertEqual(tokenizer.decode(ids, skip_special_tokens=True), decoded)


class Registry(unittest.TestCase):
    def test_the_listed_bert(self):
        entry = accel.MODEL_REGISTRY["bert-base-uncased"]
        self.assertEqual((entry["embedding_dim"], entry["sequence_length"], entry["model_precision"], entry["default_batch_size"]), (768, 512, "float32", 1))
        self.assertIn("google-bert/bert-base-uncased", accel.MODEL_REGISTRY)
        self.assertNotIn("no/such-model", accel.MODEL_REGISTRY)
        self.assertEqual(len(accel.MODEL_REGISTRY), len(list(accel.MODEL_REGISTRY)))
        self.assertGreater(len(accel.MODEL_REGISTRY), 40)
        with self.assertRaises(TypeError):
            del accel.MODEL_REGISTRY["bert-base-uncased"]

    def test_precisions_and_dependencies(self):
        self.assertTrue(accel.is_precision_supported("bert-base-uncased", "ROCm", "float16"))
        self.assertFalse(accel.is_precision_supported("bert-base-uncased", "apple", "int8"))
        self.assertFalse(accel.is_precision_supported("no/such-model", "cpu", "fp32"))
        self.assertTrue(accel.is_hardware_supported("bert-base-uncased", "cuda"))
        self.assertFalse(accel.is_hardware_supported("bert-base-uncased", "qualcomm"))
        with self.assertRaises(accel.ArgumentError):
            accel.is_precision_supported("bert-base-uncased", "abacus", "fp32")
        base, amd = accel.get_dependencies("bert-base-uncased"), accel.get_dependencies("bert-base-uncased", "amd", "fp16")
        self.assertEqual(amd[:len(base)], base)
        self.assertGreater(len(amd), len(base))
        self.assertEqual(accel.get_dependencies("no/such-model"), [])

    def test_architectures(self):
        self.assertIn("ModernBertModel", accel.architectures())

    def test_additions(self):
        entry = dict(accel.MODEL_REGISTRY["bert-base-uncased"], aliases=["bert-of-mine"], description="mine")
        accel.MODEL_REGISTRY["me/bert"] = entry
        self.assertEqual(accel.MODEL_REGISTRY["bert-of-mine"]["description"], "mine")
        with self.assertRaises(accel.AccelError):
            accel.MODEL_REGISTRY["me/other"] = {"family": "abacus"}

    def test_profiles(self):
        with accel.Context() as context:
            context.set_precision_profile("bert-base-uncased", "cpu", {"int4": True}, merge=True)
            self.assertTrue(context.is_precision_supported("bert-base-uncased", "cpu", "int4"))
            self.assertTrue(context.is_precision_supported("bert-base-uncased", "cpu", "fp32"))
            context.set_precision_profile("bert-base-uncased", "cpu", {"fp32": True})
            self.assertFalse(context.is_precision_supported("bert-base-uncased", "cpu", "int8"))
        self.assertFalse(accel.is_precision_supported("bert-base-uncased", "cpu", "int4"))  # another context


class Hardware(unittest.TestCase):
    def test_capabilities(self):
        facts = accel.detect_hardware()
        for key in ("cpu", "cuda", "cuda_version", "cuda_devices", "mps", "openvino", "qualcomm", "amd", "amd_version", "amd_devices"):
            self.assertIn(key, facts)
        self.assertTrue(facts["cpu"])
        self.assertEqual(facts["schema"], "accel.detect/1")

    def test_devices(self):
        found = {d.name: d for d in accel.devices()}
        self.assertTrue(found["cpu"].usable)
        for device in found.values():
            self.assertEqual(device.usable, device.reason == "", device)
            self.assertIsInstance(device.is_amd, bool)

    def test_precision_tests(self):
        report = accel.run_precision_tests(os.path.join(PIPELINES, "base"), ["cpu", "qualcomm"], ["fp32"])
        self.assertEqual(report["cpu_test"], "Success")
        self.assertEqual(report["cpu_fp32_test"], "Success")
        self.assertIn(report["qualcomm_test"], ("Hardware not available", "Precision not supported"))
        self.assertEqual([(r.platform, r.weights, r.passed) for r in report.records], [("cpu (FP32)", "local", True)])


class Errors(unittest.TestCase):
    def test_missing_model(self):
        with self.assertRaises(accel.NotFoundError) as caught:
            accel.Model("no/such-model")
        self.assertIn("no/such-model", caught.exception.remedy)

    def test_missing_device(self):
        with self.assertRaises(accel.DeviceUnavailableError) as caught:
            accel.Model(os.path.join(PIPELINES, "base"), device="webnn")
        self.assertEqual(caught.exception.code, -23)

    def test_unknown_device(self):
        with self.assertRaises(accel.ArgumentError):
            accel.Model(os.path.join(PIPELINES, "base"), device="abacus")

    def test_cancel(self):
        with accel.Context(cancel=lambda: True) as context:
            with self.assertRaises(accel.CancelledError):
                accel.Model(os.path.join(PIPELINES, "base"), device="cpu", context=context).run(input_ids=[[2, 10, 3]])

    def test_progress_and_log(self):
        seen = []
        with accel.Context(progress=lambda what, done, all_: seen.append((what, done, all_))) as context:
            with accel.Model(os.path.join(PIPELINES, "sentence"), device="cpu", context=context) as model:
                model.embed(["a cat", "a dog"] * 40)
        self.assertTrue(seen)
        for what, done, all_ in seen:
            self.assertTrue(what and done <= all_)

    def test_closing_the_context_closes_models(self):
        context = accel.Context()
        model = accel.Model(os.path.join(PIPELINES, "base"), device="cpu", context=context)
        context.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            model.run(input_ids=[[2, 3]])


BASE = os.path.join(PIPELINES, "base")


class Memory(unittest.TestCase):
    def test_check_model(self):
        with accel.Context() as context, tempfile.TemporaryDirectory() as work:
            context.check_model(BASE)
            directory = os.path.join(work, "base")
            shutil.copytree(BASE, directory)
            context.check_model(directory)
            os.remove(os.path.join(directory, "model.safetensors"))
            self.assertRaisesRegex(accel.NotFoundError, "no model.safetensors", context.check_model, directory)
            shutil.copy(os.path.join(PIPELINES, "t5", "model.safetensors"), directory)
            self.assertRaisesRegex(accel.FormatError, "does not hold this model: .* is missing", context.check_model, directory)
            os.remove(os.path.join(directory, "config.json"))
            self.assertRaises(accel.AccelError, context.check_model, directory)

    def test_fit(self):
        found = accel.fit(BASE, device="reference", batch=2, seq=8)
        self.assertEqual({f.device for f in found}, {"reference"})
        self.assertEqual(len(found), 8)
        fp32 = next(f for f in found if f.precision == "fp32")
        self.assertTrue(fp32.fits)
        self.assertGreater(fp32.peak, fp32.weights - fp32.weights_in_file)
        self.assertRaises(accel.ArgumentError, accel.fit, BASE, precision="fp7")
        with accel.Context(memory_limit=40 << 10) as context:
            self.assertFalse(context.fit(BASE, "reference", "fp32")[0].fits)
            self.assertRaises(accel.DoesNotFitError, accel.Model, BASE, device="reference", context=context)

    def test_cache(self):
        with tempfile.TemporaryDirectory() as work, accel.Context(cache_directory=work) as context:
            self.assertEqual(context.cache(), [])
            os.makedirs(os.path.join(work, "packed"))
            with open(os.path.join(work, "packed", "x.packed"), "w") as f:
                f.write("damaged")
            self.assertEqual([(e.file, e.bytes, e.label) for e in context.cache()], [("x.packed", 7, "")])
            self.assertEqual(context.cache_prune(1 << 30), 7)
            self.assertEqual(context.cache(), [])

    def test_profile(self):
        watched = accel.Model(BASE, device="reference")
        steps = watched.profile(input_ids=[[5, 6, 7]], attention_mask=[[1, 1, 1]])
        self.assertIn("attention", {s["op"] for s in steps})
        self.assertTrue(all(s["us"] >= 0 and s["bytes"] > 0 for s in steps))
        self.assertEqual(len(watched.profile(input_ids=[[5, 6, 7]], attention_mask=[[1, 1, 1]])), len(steps))


class Verify(unittest.TestCase):
    def test_a_golden(self):
        model = os.path.join(FIXTURES, "models", "bert")
        report = accel.verify(model, os.path.join(model, "golden.BertModel.right.safetensors"), device="cpu")
        self.assertTrue(report.passed)
        self.assertEqual(report.architecture, "BertModel")
        self.assertTrue(all(o["pass"] for o in report.outputs))


class Loading(unittest.TestCase):
    def test_named_library_is_demanded(self):
        environment = dict(os.environ, ACCEL_LIBRARY="/no/such/libaccel.so.0", PYTHONPATH=PACKAGE)
        done = subprocess.run([sys.executable, "-c", "import accel"], env=environment, stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ACCEL_LIBRARY", done.stderr)

    def test_pkg_config(self):
        """An installed prefix is found through its accel.pc."""
        import shutil
        if not shutil.which("pkg-config"):
            self.skipTest("no pkg-config")
        with tempfile.TemporaryDirectory() as work:
            with open(os.path.join(work, "accel.pc"), "w") as f:
                f.write(f"libdir={os.path.join(BUILD, 'lib')}\nName: accel\nDescription: x\nVersion: 0.1.0\n")
            environment = {k: v for k, v in os.environ.items() if k != "ACCEL_LIBRARY"}
            environment.update(PKG_CONFIG_PATH=work, PYTHONPATH=PACKAGE)
            code = "import accel; from accel import _native; print(_native.lib._name)"
            done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(done.stdout.strip(), LIBRARY)

    def test_pip_installs_it(self):
        """As pip does it: pyproject.toml, a pure wheel, no compiler."""
        import importlib.util
        import shutil
        if not importlib.util.find_spec("setuptools") or not importlib.util.find_spec("pip"):
            self.skipTest("no pip and setuptools here")
        with tempfile.TemporaryDirectory() as work:
            source, target = os.path.join(work, "source"), os.path.join(work, "target")
            shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
            done = subprocess.run(pip + ["--target", target, source], capture_output=True, text=True, env=dict(os.environ, CC="/no/compiler"))
            if "invalid command 'bdist_wheel'" in done.stderr:
                self.skipTest("this setuptools cannot make wheels")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(os.path.join(target, "accel", "py.typed")))
            code = "import accel; print(accel.__file__)"
            done = subprocess.run([sys.executable, "-c", code], cwd=work, env=dict(os.environ, PYTHONPATH=target), stdout=subprocess.PIPE, text=True, check=True)
            self.assertTrue(done.stdout.startswith(target), done.stdout)

    def test_silent(self):
        """Nothing on stdout or stderr from importing, running and leaving with open models."""
        code = f"import accel; m = accel.AutoModel.from_pretrained({os.path.join(PIPELINES, 'base')!r}); m.run(input_ids=[[2, 3]])"
        done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=PACKAGE), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class Media(unittest.TestCase):
    """Pipelines over pictures and sounds, from paths and from bytes, against tests/fixtures/media."""

    def check(self, got, want):
        self.assertEqual([[(r["label"], r.get("box")) for r in g] for g in got], [[(r["label"], r.get("box")) for r in w] for w in want])
        for g, w in zip(got, want):
            for a, b in zip(g, w):
                self.assertAlmostEqual(a["score"], b["score"], delta=1e-4)

    def test_pipelines(self):
        tasks = {"classify": "image-classification", "detect-objects": "object-detection", "audio-classify": "audio-classification",
                 "zero-shot-image": "zero-shot-image-classification", "zero-shot-audio": "zero-shot-audio-classification"}
        options = {"--threshold": "threshold", "--labels": "candidate_labels"}
        for model in ("vit", "detr", "clip", "ast", "clap"):
            directory = os.path.join(FIXTURES, "media", model)
            with open(os.path.join(directory, "golden.json"), encoding="utf-8") as f:
                golden = json.load(f)
            case = golden["cases"][0]
            given = {options[k]: float(v) if k == "--threshold" else v for k, v in zip(case["args"][::2], case["args"][1::2])}
            files = [os.path.join(FIXTURES, f) for f in case["files"]]
            run = accel.pipeline(tasks[golden["command"]], directory, device="cpu", **given)
            self.check(run(files), case["want"])
            with open(files[0], "rb") as f:
                self.check([run(f.read())], case["want"][:1])

    def test_features(self):
        def flat(values):
            return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]

        def shape(values):
            return (len(values), *shape(values[0])) if isinstance(values, list) else ()
        for place in ("features/dinov2", "media/vit", "media/resnet"):
            directory = os.path.join(FIXTURES, place)
            with open(os.path.join(directory, "features.json"), encoding="utf-8") as f:
                golden = json.load(f)
            files = [os.path.join(FIXTURES, f) for f in golden["files"]]
            run = accel.pipeline("image-feature-extraction", directory, device="cpu")
            found = [(golden["want"], run(files)), (golden["want"][:1], [run(files[0])])]
            if "pooled" in golden:
                found.append((golden["pooled"], run(files, pool=True)))
            else:
                with self.assertRaisesRegex(accel.AccelError, "no pooler_output"):
                    run(files, pool=True)
            for want, got in found:
                got = [g if isinstance(g, list) else g.tolist() for g in got]
                self.assertEqual([shape(g) for g in got], [shape(w) for w in want])
                for a, b in zip(flat(got), flat(want), strict=True):
                    self.assertAlmostEqual(a, b, delta=2e-5 * max(1.0, abs(b)))
        with accel.Model(os.path.join(FIXTURES, "media", "vit"), device="cpu") as classes:
            with self.assertRaisesRegex(accel.AccelError, "no last_hidden_state"):
                classes.image_features(files)
        with accel.Model(os.path.join(FIXTURES, "tasks", "features_bert"), device="cpu") as texts:
            with self.assertRaisesRegex(accel.AccelError, "takes no pictures"):
                texts.image_features(files)

    def test_transcribe(self):
        directory = os.path.join(FIXTURES, "media", "wav2vec2")
        with open(os.path.join(directory, "golden.json"), encoding="utf-8") as f:
            case = json.load(f)["cases"][2]
        speak = accel.pipeline("automatic-speech-recognition", directory, device="cpu", return_timestamps="word")
        found = speak([os.path.join(FIXTURES, f) for f in case["files"]])
        self.assertEqual([r["text"] for r in found], [w["text"] for w in case["want"]])
        self.assertEqual([[c["text"] for c in r["chunks"]] for r in found], [[c["text"] for c in w["chunks"]] for w in case["want"]])

    def test_segments_as_they_come(self):
        speech = os.path.join(FIXTURES, "speech")
        sounds, told = [os.path.join(speech, name) for name in ("long.wav", "short.wav")], [[], []]
        with accel.Model(os.path.join(speech, "many"), device="cpu") as model:
            found = model.transcribe(sounds, on_segment=lambda sound, segment: told[sound].append(segment))
            self.assertGreater(len(told[0]), 1)
            for mine, result in zip(told, found):
                self.assertEqual([s.pop("index") for s in mine], list(range(len(mine))))
                self.assertEqual(mine, result["segments"])
                self.assertEqual("".join(s["text"] for s in mine), result["text"])
            with self.assertRaises(accel.CancelledError):
                model.transcribe(sounds, on_segment=lambda *_: True)
            with self.assertRaises(ZeroDivisionError):
                model.transcribe(sounds, on_segment=lambda *_: 1 / 0)
            with self.assertRaises(accel.AccelError):
                model.transcribe(sounds, max_seconds=3)

    def test_preprocess(self):
        detr, picture = os.path.join(FIXTURES, "media", "detr"), os.path.join(FIXTURES, "image", "pictures", "rgb.png")
        self.assertEqual(list(accel.preprocess(detr, images=[picture])["pixel_values"].shape), [1, 3, 40, 64])
        with self.assertRaises(accel.FormatError):
            accel.preprocess(detr, images=[b"\x89PNG\r\n\x1a\nbut no picture"])


class Devices(unittest.TestCase):
    def test_the_cpu_in_hand(self):
        device = accel.get_device("cpu")
        self.assertIs(accel.get_device("cpu"), device)
        self.assertEqual((device.name, accel.get_device_type("cpu")), ("cpu", "cpu"))
        self.assertIn("memory total", device.describe())
        self.assertTrue(accel.is_half_precision_available("cpu"))
        self.assertGreater(accel.memory_summary("cpu").total, 0)
        self.assertEqual(accel.runtime_version("cpu"), ("", ""))
        with self.assertRaises(accel.ArgumentError):
            accel.runtime_version("abacus")

    def test_what_is_not_there_says_why(self):
        for name, found in (("rocm", accel.is_rocm_available()), ("cuda", accel.is_cuda_available())):
            if not found:
                with self.assertRaises(accel.DeviceUnavailableError) as caught:
                    accel.get_device(name)
                self.assertGreater(len(caught.exception.message), 20)
        self.assertTrue(accel.rocm_version() is None or accel.rocm_version())

    def test_tensors_there_and_back(self):
        kept = accel.to_device([[1.0, 2.0], [3.0, 4.0]], "cpu")
        self.assertEqual(kept.shape, (2, 2))
        near(self, kept.to_host(), [[1.0, 2.0], [3.0, 4.0]])
        before = accel.memory_summary("cpu")
        self.assertGreaterEqual(before.tensor_bytes, 16)
        stream = accel.get_device_stream("cpu")
        later = stream.to_device(bytearray(range(7)))
        stream.synchronize()
        self.assertEqual(later.cpu().tolist(), list(range(7)))
        kept.close()
        later.close()
        with self.assertRaises(ValueError):
            kept.to_host()
        self.assertEqual(accel.memory_summary("cpu").tensors, before.tensors - 1)

    def test_scratch_comes_back(self):
        with accel.Model(os.path.join(PIPELINES, "base"), device="cpu") as model:
            model(input_ids=[[2, 5, 6, 3]])
            self.assertGreater(accel.empty_cache("cpu"), 0)
            self.assertEqual(accel.empty_cache("cpu"), 0)
            accel.synchronize("cpu")


if __name__ == "__main__":
    unittest.main()
