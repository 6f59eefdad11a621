"""Tensor parallelism: ranks give what one process gives, on every device here, by the tool, by Python and by mpirun; and what is refused, and a rank that is
killed.

ACCEL_BUILD: the build tree; ACCEL_SOURCE: the source tree.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from sanitized import environment_for
from test_cli import ACCEL, BUILD, ENVIRONMENT, FIXTURES, ROOT, run

MODELS = os.path.join(FIXTURES, "models")
DEVICES = os.environ.get("ACCEL_TEST_DEVICES", "reference").split()
PROMPTS = "[[5, 6, 7, 8, 9], [7, 3]]"


def model(name):
    return os.path.join(MODELS, name)


def generate(directory, *options, prompts=PROMPTS, **how):
    return run("generate", directory, "--ids", "/dev/stdin", "--max-new-tokens", "12", "--device", "cpu", "--threads", "1", "--quiet", "--json", *options,
               stdin=prompts, **how)


def ids(done):
    return [r["ids"] for r in json.loads(done.stdout)["results"]]


class Ranks(unittest.TestCase):
    def same_ids(self, name, world, *options):
        alone = generate(model(name))
        ranks = generate(model(name), "--tensor-parallel", str(world), *options)
        self.assertEqual((alone.returncode, ranks.returncode), (0, 0), alone.stderr + ranks.stderr)
        self.assertEqual(ids(alone), ids(ranks), name)

    def test_ids(self):
        for name, world in (("llama", 2), ("qwen3", 2), ("mixtral", 2), ("cohere", 2), ("gpt2", 3)):
            with self.subTest(name):
                self.same_ids(name, world)

    def verify(self, name, golden, world, device="cpu", precision="fp32"):
        done = run("verify", model(name), "--golden", os.path.join(model(name), f"golden.{golden}.safetensors"), "--device", device, "--precision", precision,
                   "--architecture", golden.split(".")[0], "--tensor-parallel", str(world), "--quiet")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_goldens(self):
        for name, golden, world in (("bert", "BertModel.right", 3), ("bert", "BertForMaskedLM.right", 3), ("olmo2", "Olmo2ForCausalLM.right", 2),
                                    ("t5", "T5ForConditionalGeneration.right", 3)):
            with self.subTest(name):
                self.verify(name, golden, world)

    def test_devices(self):
        for device in DEVICES:
            with self.subTest(device):
                self.verify("llama", "LlamaForCausalLM.greedy", 2, device)

    def test_refused(self):
        done = generate(model("llama"), "--tensor-parallel", "3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"field 'num_attention_heads': 3 ranks do not divide the 4 heads")
        self.assertIn("1, 2, 4", done.stderr)
        done = generate(model("llama"), "--tensor-parallel", "1")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_python(self):
        """Rank 1 is a process that only follows."""
        follow = "import sys, accel\nwith accel.Context(threads=1, rank=1, world=2, job=sys.argv[1]) as context:\n    context.follow()\n"
        lead = ("import sys, accel\nwith accel.Context(threads=1, world=2, job=sys.argv[1]) as context:\n"
                "    with accel.Model(sys.argv[2], context=context) as model:\n"
                "        print(model.generate([[5, 6, 7, 8, 9]], max_new_tokens=12)[0].ids)\n")
        library = os.path.join(BUILD, "lib", "libaccel.so.0")
        environment = dict(ENVIRONMENT, PYTHONPATH=os.path.join(ROOT, "src", "bindings", "python"), ACCEL_LIBRARY=library, **environment_for(library))
        job = f"python-{os.getpid()}"
        other = subprocess.Popen([sys.executable, "-c", follow, job], env=environment)
        done = subprocess.run([sys.executable, "-c", lead, job, model("llama")], env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, other.wait(20)), (0, 0), done.stderr)
        self.assertEqual(json.loads(done.stdout), ids(generate(model("llama")))[0])

    def test_example(self):
        example, directory = os.path.join(BUILD, "examples", "example_c_tensor_parallel"), os.path.join(FIXTURES, "pipelines", "text")
        if not os.path.exists(example):
            self.skipTest("the examples are not built")
        alone = run("generate", directory, "Once upon a time", "--max-new-tokens", "16", "--device", "cpu", "--quiet")
        done = subprocess.run([example, directory, "2"], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(alone.stdout.strip(), done.stdout)

    def test_mpi(self):
        """Each MPI whose transport was built and whose launcher is here."""
        for mpi, options in (("openmpi", ["--allow-run-as-root", "--oversubscribe"]), ("mpich", [])):
            launcher = shutil.which(f"mpirun.{mpi}")
            if not launcher or not os.path.exists(os.path.join(BUILD, "lib", "accel", "0", f"libaccel_comm_{mpi}.so")):
                continue
            with self.subTest(mpi):
                done = subprocess.run([launcher, *options, "-n", "2", ACCEL, "verify", model("llama"), "--golden",
                                       os.path.join(model("llama"), "golden.LlamaForCausalLM.greedy.safetensors"), "--device", "cpu", "--threads", "1",
                                       "--quiet", "--tensor-parallel"], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_vocabulary(self):
        """Tables of many tokens lie on the ranks in parts, tied to the head or not."""
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 9001, "hidden_size": 32, "intermediate_size": 64,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "eos_token_id": None}
        prompts = "[[0, 1, 2, 4499, 4500, 4501, 9000], [8999, 2250, 6750]]"
        for tied, world in ((True, 2), (False, 4)):
            with self.subTest(tied=tied), tempfile.TemporaryDirectory() as directory:
                with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
                    json.dump({**config, "tie_word_embeddings": tied}, f)
                alone = generate(directory, "--random-weights", prompts=prompts)
                ranks = generate(directory, "--random-weights", "--tensor-parallel", str(world), prompts=prompts)
                self.assertEqual((alone.returncode, ranks.returncode), (0, 0), alone.stderr + ranks.stderr)
                self.assertEqual(ids(alone), ids(ranks))

    def between_devices(self, *options, **environment):
        """Two ranks on the emulator, whose memory a stub of NCCL sums."""
        stubs, plugins = os.path.join(BUILD, "tests", "stubs"), os.path.join(BUILD, "lib", "accel", "0")
        golden = os.path.join(model("llama"), "golden.LlamaForCausalLM.greedy.safetensors")
        return run("verify", model("llama"), "--golden", golden, "--device", "hip-emulated", "--precision", "fp32", "--tensor-parallel", "2",
                   *options, environment={"ACCEL_PLUGIN_PATH": f"{plugins}:{stubs}/comm", "LD_LIBRARY_PATH": f"{stubs}/nccl", **environment})

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "lib", "accel", "0", "libaccel_hip-emulated.so")), "the emulator is not built")
    def test_devices_sum(self):
        done = self.between_devices("--transport", "shm+emulated")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.between_devices("--transport", "emulated", STUB_NCCL="refuse")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"sums go through host memory: making a communicator \(NCCL 21400\): invalid usage; Duplicate GPU detected")
        done = self.between_devices("--transport", "shm+emulated", STUB_NCCL="die:1:3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("another rank of the group is gone", done.stderr)
        for transport, code, message in (("shm+shm", 2, "the second is between processes"), ("nccl+emulated", 2, "the first is itself carried over another"),
                                         ("none", 1, "there is no transport 'none'")):
            done = self.between_devices("--transport", transport)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(message, done.stderr)

    def test_killed(self):
        """One rank is killed while all generate: the tool ends within two seconds, and says why."""
        config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 500, "hidden_size": 128, "intermediate_size": 384,
                  "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 1000000, "eos_token_id": None}
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
                json.dump(config, f)
            process = subprocess.Popen([ACCEL, "generate", directory, "--random-weights", "--ids", "/dev/stdin", "--max-new-tokens", "500000", "--device", "cpu",
                                        "--threads", "1", "--tensor-parallel", "2"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, env=ENVIRONMENT, text=True)
            process.stdin.write("[[5, 6, 7]]")
            process.stdin.close()
            self.assertIn("on cpu", process.stderr.readline())  # it is loaded
            time.sleep(0.5)
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
                child = int(f.read().split()[0])
            os.kill(child, signal.SIGKILL)
            begin = time.monotonic()
            errors = process.stderr.read()
            process.stderr.close()
            process.wait(20)
            took = time.monotonic() - begin
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("another rank of the group is gone", errors)
        self.assertLess(took, 2)


if __name__ == "__main__":
    unittest.main()
