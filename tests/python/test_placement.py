"""One model over several devices: the numbers of one device, sessions, wrong spellings, and a device that is lost in mid-run.

Two parts on one processor give the bits of the whole on it: the same distances to the goldens.  Other devices are held to the goldens' bounds; those of GPUs
are skipped with their reason where they are not there."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

import test_goldens
from sanitized import run_under_sanitizer
from test_goldens_gpu import resolve, smallest

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(test_goldens.BUILD, "lib", "libaccel.so.0"))
run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
from test_streaming import environment, write_llama  # noqa: E402

import accel  # noqa: E402

MODELS = test_goldens.MODELS
FEWER = test_goldens.FEWER
LLAMA = os.path.join(MODELS, "llama")
GOLDEN = os.path.join(LLAMA, "golden.LlamaForCausalLM.right.safetensors")


def reports(lines, device, precision, **more):
    """Of the lines of goldens*.list whose models have enough layers for the device's parts: line, report."""
    text = [" ".join([os.path.join(MODELS, model), os.path.join(MODELS, model, golden), device, precision, *rest]) for model, golden, *rest in lines]
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write("\n".join(text) + "\n")
        file.flush()
        done = subprocess.run([test_goldens.ACCEL, "verify", "--list", file.name, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=500,
                              env=dict(os.environ, **more))
    found = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    assert len(found) == len(lines), done.stderr
    return [(line, report) for line, report in zip(lines, found) if " parts, but " not in report.get("error", "")]


def tool(*arguments, **more):
    done = subprocess.run([test_goldens.ACCEL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env=dict(os.environ, **more))
    return done.returncode, done.stdout, done.stderr


class Goldens(unittest.TestCase):
    """BERT and its kin, decoders with generation and beams, encoder-decoders, Whisper, pictures and sounds: all that the lists have."""

    def same(self, cut, whole):
        whole = {tuple(line): report for line, report in whole}
        for line, report in cut:
            with self.subTest(golden=line):
                self.assertTrue(report.get("pass"), report)
                self.assertEqual(report["outputs"], whole[tuple(line)]["outputs"])

    def test_two_parts_of_one_processor(self):
        lines = list({line[0]: line for line in test_goldens.goldens()}.values())  # one of each model
        for precision, some in (("fp32", lines), ("int8", smallest(lines, lambda line: line[-1]))):
            cut = reports(some, "cpu+cpu", precision)
            self.assertGreater(len(cut), len(some) // 3)
            self.same(cut, reports(some, "cpu", precision))

    def test_by_hand(self):
        """The embeddings alone with one layer, and the head with the last."""
        lines = [line for line in test_goldens.goldens() if line[0] in ("generate_t5", "whisper", "generate_bart", "gpt2")]
        cut = reports(lines, "cpu=0-0+cpu=1-1", "fp32") + reports(lines, "cpu=0+cpu=1-2+cpu=3", "fp32")
        cut = [(line, report) for line, report in cut if "layers, 0 to" not in report.get("error", "")]
        self.assertEqual({line[0] for line, _ in cut}, {"generate_t5", "whisper", "generate_bart", "gpt2"})
        self.same(cut, reports(lines, "cpu", "fp32"))

    def test_streamed_parts(self):
        lines = smallest(test_goldens.goldens(), lambda line: line[-1])
        self.same(reports(lines, "cpu+cpu", "fp32", ACCEL_STREAM_WEIGHTS="1"), reports(lines, "cpu", "fp32"))

    def test_other_devices(self):
        lines = smallest(test_goldens.goldens(), lambda line: line[-1])
        for line, report in reports(lines, "reference+cpu", "fp32"):
            with self.subTest(golden=line):
                self.assertTrue(report.get("pass"), report)

    def test_gpus(self):
        """Two and three devices; encoder-decoders have layers enough for three."""
        for names in ("cpu opencl", "vulkan cpu", "cpu opencl vulkan"):
            found = [resolve(name) for name in names.split()]
            if any(reason for _, reason in found):
                continue
            device = "+".join(name for name, _ in found)
            lines = smallest(test_goldens.goldens(), lambda line: line[-1])
            checked = reports(lines, device, "fp32")
            self.assertGreater(len(checked), 5)
            for line, report in checked:
                with self.subTest(device=device, golden=line):
                    self.assertTrue(report.get("pass"), report)


@contextlib.contextmanager
def model(path, device, **more):
    with environment(**more):
        context = accel.Context(threads=2)
        made = accel.Model(path, device=device, context=context)
    try:
        yield made
    finally:
        made.close()
        context.close()


def talk(made):
    """A session that goes on, back, forks and is read from a file; beams and prompts together."""
    with made.session() as first:
        first.feed([3, 5, 7, 11, 13])
        said = [first.generate(max_new_tokens=6).ids]
        with first.fork() as fork:
            first.truncate(4)
            said += [first.generate(max_new_tokens=5).ids, fork.generate(max_new_tokens=4).ids]
            with tempfile.NamedTemporaryFile() as file:
                fork.save(file.name)
                with accel.Session(made, path=file.name) as again:
                    said.append(again.generate(max_new_tokens=4).ids)
    said += [[g.ids for g in made.generate([[3, 4, 5], [9, 8]], max_new_tokens=6, **how)] for how in ({"num_beams": 3}, {})]
    return said


def in_process(path, device, **more):
    """talk() in a process of its own, which counts faults from its beginning; of an encoder-decoder, what it answers to token ids."""
    done = subprocess.run([sys.executable, __file__, "--talk", path, device], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          env=dict(os.environ, **more))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def say(path, device):
    with model(path, device) as made:
        said = [[g.ids for g in made.generate([[3, 4, 5, 1], [9, 8, 1]], max_new_tokens=6)]] if "t5" in path else talk(made)
        print(json.dumps({"said": said, "reasons": made.placement.reasons, "devices": [part.device for part in made.placement.parts]}))


class Sessions(unittest.TestCase):
    def test_as_one_device(self):
        for name in ("llama", "mamba", "qwen3_5"):
            path = os.path.join(MODELS, name)
            with model(path, "cpu") as whole, model(path, "cpu=0-0+cpu=1-1") as cut:
                self.assertEqual(talk(whole), talk(cut))

    def test_files_of_other_placements(self):
        with model(LLAMA, "cpu") as whole, model(LLAMA, "cpu+cpu") as cut, tempfile.NamedTemporaryFile() as file:
            for writer, reader in ((whole, cut), (cut, whole)):
                with writer.session() as s:
                    s.feed([3, 5, 7])
                    s.save(file.name)
                with self.assertRaisesRegex(accel.ArgumentError, "another device"):
                    accel.Session(reader, path=file.name)

    def test_a_device_is_lost(self):
        """Whenever it is lost, in whichever part: the rest of the chain goes on with the same tokens."""
        for name in ("llama", "mamba", "generate_t5"):
            path = os.path.join(MODELS, name)
            want = in_process(path, "reference")["said"]
            for at in (4, 7) if FEWER or name == "generate_t5" else (3, 8, 17, 30):
                with self.subTest(model=name, at=at):
                    found = in_process(path, "reference+reference,cpu", ACCEL_FAIL_AT=f"device_lost:{at}")
                    self.assertEqual(found["said"], want)
                    self.assertIn("reference was lost: layers", " ".join(found["reasons"]))
                    self.assertIn("cpu", found["devices"])

    def test_a_device_is_lost_and_none_is_left(self):
        code, _, errors = tool("verify", LLAMA, "--golden", GOLDEN, "--device", "reference+cpu", ACCEL_FAIL_AT="device_lost:4")
        self.assertNotEqual(code, 0)
        self.assertIn("layers 1 to 1 on cpu: the device was lost", errors)
        self.assertIn("name behind a comma what a lost part goes on with", errors)


class Reports(unittest.TestCase):
    def test_fit(self):
        code, out, errors = tool("fit", LLAMA, "--device", "cpu=0-0+reference=1-1", "--precision", "fp32", "--json")
        self.assertEqual(code, 0, errors)
        (record,) = json.loads(out)["devices"]
        self.assertEqual(record["device"], "cpu=0-0+reference=1-1")
        self.assertEqual([(p["device"], p["first_layer"], p["last_layer"], p["fits"]) for p in record["parts"]], [("cpu", 0, 0, True), ("reference", 1, 1, True)])
        self.assertEqual(record["weights_bytes"], sum(p["weights_bytes"] for p in record["parts"]))
        (found,) = accel.fit(LLAMA, device="cpu+reference", precision="fp32")
        self.assertEqual([p.device for p in found.parts], ["cpu", "reference"])

    def test_placement(self):
        with model(LLAMA, "cpu+reference") as cut:
            self.assertEqual(cut.placement.device, "cpu=0-0+reference=1-1")
            self.assertEqual([(p.device, p.first_layer, p.last_layer, p.first_stage, p.last_stage) for p in cut.placement.parts],
                             [("cpu", 0, 0, 0, 1), ("reference", 1, 1, 2, 3)])
        with model(LLAMA, "cpu") as whole:
            self.assertEqual(whole.placement.parts, ())
        code, _, errors = tool("verify", LLAMA, "--golden", GOLDEN, "--device", "cpu+reference", "--verbose")
        self.assertEqual(code, 0, errors)

    def test_chains(self):
        """A placement is a member of a chain: what cannot serve is passed over."""
        with model(LLAMA, "cpu+cuda:99,reference+cpu") as cut:
            self.assertEqual(cut.placement.device, "reference=0-0+cpu=1-1")
            self.assertIn("cuda", " ".join(cut.placement.reasons))

    def test_wrong_spellings(self):
        for device, says in (("cpu=0-1", "add a part with '+'"), ("cpu=0-0+cpu=1-9", "2 layers, 0 to 1; there is no such layer"),
                             ("cpu=0-0+cpu=0-1", "layer 0 is in the part before it, too; begin at 1"), ("cpu=0-0+cpu=2-3", "layers 1-1 are in no part"),
                             ("cpu=1-0+cpu=1", "wrong way round"), ("cpu+cpu+cpu", "3 parts, but"), ("cpu+", "part 2 names no device"),
                             ("cpu+foo", "device 'foo' is not known"), ("cpu+cuda:99", "cuda:99"), ("cpu=0+cpu", "either every part has a range")):
            with self.subTest(device=device):
                code, _, errors = tool("verify", LLAMA, "--golden", GOLDEN, "--device", device)
                self.assertIn(code, (2, 3, 4), errors)
                self.assertIn(says, errors)


class Memory(unittest.TestCase):
    def test_under_a_limit(self):
        """Two parts that together are larger than the limit stream beside each other; one that is told too little is named."""
        with tempfile.TemporaryDirectory() as directory:
            write_llama(directory)
            with model(directory, "cpu") as whole:
                want = [g.ids for g in whole.generate([[5, 6, 7]], max_new_tokens=4)]
            with environment(ACCEL_MEM_LIMIT="8M"), model(directory, "cpu=0-1+cpu=2-3") as cut:
                self.assertTrue(all(part.streams for part in cut.placement.parts), cut.placement)  # each has its share
                loaded = cut.streaming
                self.assertEqual([g.ids for g in cut.generate([[5, 6, 7]], max_new_tokens=4)], want)
                now = cut.streaming
                self.assertTrue(loaded["bytes"] == loaded["load_bytes"] == now["load_bytes"] and loaded["runs"] == 0, loaded)
                self.assertTrue(now["runs"] == 4 and now["bytes_per_second"] > 0, now)
                self.assertGreater(cut.stream_read()[0], 0)
            code, said, errors = tool("fit", directory, "--device", "cpu=0-1+cpu=2-3", "--precision", "fp32", "--memory", "8M")
            self.assertEqual(code, 0, errors)
            self.assertNotIn("a token not known", said)
            self.foretold(directory)
            code, out, errors = tool("fit", directory, "--device", "cpu+cpu", "--precision", "fp32", "--memory", "3M", "--json")
            self.assertEqual(code, 5, errors)
            limit = json.loads(out)["devices"][0]["advice"].split()[1]
            code, _, errors = tool("fit", directory, "--device", "cpu+cpu", "--precision", "fp32", "--memory", limit)
            self.assertEqual(code, 0, errors)
            code, _, errors = tool("fit", directory, "--device", "cpu=0-1+reference=2-3", "--precision", "fp32", "--memory", "3M")
            self.assertEqual(code, 5, errors)

    def foretold(self, directory):
        """Of parts: what each reads, and times that add up; sequences at once, of which none meets the limit when it runs."""
        with accel.Context(threads=2, memory="8M") as context:
            for _ in range(6):  # a busy machine may measure nothing
                fit = context.fit(directory, "cpu=0-1+cpu=2-3", "fp32", batch=64, seq=16, new=8, times=True)[0]
                if fit.seconds_to_first:
                    break
            self.assertTrue(fit.fits and fit.streams)
            self.assertGreaterEqual(fit.seconds_per_token * (1 + 1e-9), fit.stream_read / fit.disk_bytes_per_second)
            self.assertGreaterEqual(fit.seconds_per_token, fit.compute_seconds)
            self.assertGreater(fit.seconds_to_first, fit.seconds_per_token)
            self.assertTrue(1 < fit.at_once < 64, fit)
            with accel.Model(directory, device="cpu=0-1+cpu=2-3", precision="fp32", context=context) as cut:
                self.assertEqual(cut.streaming["read_per_run"], fit.stream_read)
                prompts = [[5 + i] * 16 for i in range(64)]
                self.assertEqual({len(g.ids) for g in cut.generate(prompts, max_new_tokens=8, ignore_eos=True)}, {8})


if __name__ == "__main__":
    sys.exit(say(*sys.argv[2:]) if sys.argv[1:2] == ["--talk"] else unittest.main())
