"""Text generation through the tool and the package: texts as transformers' pipeline gives them (fixtures/pipelines/text/expected.json), streaming, stop
strings, errors and exit codes.
"""
import json
import os
import sys
import tempfile
import unittest

from generating import BUILD, DEVICE, MODEL, ROOT, ToolTest, tool
from sanitized import run_under_sanitizer

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))


def expected():
    with open(os.path.join(MODEL, "expected.json"), encoding="utf-8") as f:
        return json.load(f)


class Tool(ToolTest):
    def test_texts_are_those_of_the_pipeline(self):
        want = expected()
        for result in want["results"]:
            with self.subTest(options=result["options"]):
                report = json.loads(self.good(*want["prompts"], "--generation-config", json.dumps(result["options"]), "--json"))
                self.assertEqual(report["schema"], "accel.generate/1")
                self.assertEqual([r["text"] for r in report["results"]], result["texts"])
                self.assertEqual(sum(len(r["ids"]) for r in report["results"]), report["new_tokens"])

    def test_one_text_is_printed_as_it_is(self):
        want = expected()
        for how in ((), ("--stream",)):
            self.assertEqual(self.good(want["prompts"][0], *how), want["results"][0]["texts"][0] + "\n")

    def test_chance_has_a_seed(self):
        first, again, other = (self.good("a", "--temperature", "2", "--seed", seed, "--max-new-tokens", "20") for seed in ("1", "1", "2"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertEqual(self.good("a", "--temperature", "0"), self.good("a"))

    def test_stop_strings(self):
        whole = expected()["results"][0]["texts"][0]
        cut = json.loads(self.good(expected()["prompts"][0], "--stop", '["nowhere", "<"]', "--json"))["results"][0]
        self.assertEqual(cut["finish"], "stop")
        self.assertEqual(cut["text"], whole[:whole.index("<")])

    def test_ids_and_logprobs(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([[0, 40, 41], [0]], file)
            file.flush()
            found = json.loads(self.good("--ids", file.name, "--logprobs", "3", "--max-new-tokens", "5", "--json"))["results"]
        self.assertEqual([r["prompt_tokens"] for r in found], [3, 1])
        for result in found:
            self.assertEqual(len(result["logprobs"]), len(result["ids"]))
            for top in result["top_logprobs"]:
                self.assertEqual([t["logprob"] for t in top], sorted((t["logprob"] for t in top), reverse=True))

    def test_a_prompt_that_is_too_long_fails_alone(self):
        prompts = [expected()["prompts"][0], "abc " * 400, "the cat"]
        alone = [json.loads(self.good(prompts[i], "--max-new-tokens", "6", "--json"))["results"][0]["ids"] for i in (0, 2)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(prompts, file)
            file.flush()
            code, out, errors = tool("--input", file.name, "--max-new-tokens", "6", "--json")
            self.assertEqual(code, 1, errors)
            self.assertIn("[2]", errors)
            self.assertIn("passes the context of 128", errors)
            results = json.loads(out)["results"]
            self.assertEqual([results[0]["ids"], results[2]["ids"]], alone)
            self.assertEqual((results[1]["prompt"], results[1]["ids"], results[1]["finish"]), (1, [], "error"))
            self.assertIn("passes the context of 128", results[1]["error"])
            self.assertNotIn("error", results[0])
            code, out, errors = tool("--input", file.name, "--max-new-tokens", "6")
            self.assertEqual(code, 1, errors)
            self.assertTrue(out.startswith("[1.1] ") and "[3.1] " in out and "[2.1]" not in out, out)
        code, out, errors = tool(prompts[1], prompts[1])
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(errors.count("passes the context of 128"), 2)

    def test_narrow_caches_give_nearly_the_same(self):
        """The first token sees no cache but the prompt's; its log probability moves by little, and by something in 8 bits."""
        first = {}
        for kv in ("fp32", "int8"):
            found = json.loads(self.good("a cat and a dog", "--kv-cache", kv, "--logprobs", "0", "--max-new-tokens", "8", "--json"))["results"][0]
            self.assertEqual(len(found["ids"]), len(found["logprobs"]))
            first[kv] = found["logprobs"][0]
        self.assertNotEqual(first["fp32"], first["int8"])
        self.assertAlmostEqual(first["fp32"], first["int8"], delta=0.05)

    def test_refusals(self):
        for code, arguments in ((2, ("a", "--temperature", "hot")), (2, ()), (2, ("a", "--stream", "--json")), (1, ("a", "--max-new-tokens", "5000")),
                                (3, ("a", "--generation-config", '{"guidance_scale": 3}')), (2, ("a", "--generation-config", '{"nonsense": 3}')),
                                (2, ("a", "--beams", "2", "--sequences", "3")), (2, ("a", "--kv-cache", "int3"))):
            with self.subTest(arguments=arguments):
                got, out, errors = tool(*arguments)
                self.assertEqual((got, out), (code, ""), errors)
                self.assertTrue(errors)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import accel
        cls.accel = accel
        cls.model = accel.Model(MODEL, device=DEVICE)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_pipeline(self):
        want = expected()
        generate = self.accel.pipeline("text-generation", self.model)
        for result in want["results"]:
            texts = [row[0]["generated_text"] for row in generate(want["prompts"], return_full_text=False, **result["options"])]
            self.assertEqual(texts, result["texts"])
        self.assertEqual(generate(want["prompts"][0])[0]["generated_text"], want["prompts"][0] + want["results"][0]["texts"][0])

    def test_stream(self):
        tokens = list(self.model.stream(expected()["prompts"][1]))
        self.assertEqual("".join(t.text for t in tokens), expected()["results"][0]["texts"][1])
        self.assertEqual([t.finish for t in tokens[:-1]], [None] * (len(tokens) - 1))
        self.assertEqual(tokens[-1].finish, "length")
        for k, _ in enumerate(self.model.stream("a", ignore_eos=True, max_new_tokens=100)):
            if k == 3:
                break  # ends the generation

    def test_stream_of_beams(self):
        want = next(r for r in expected()["results"] if r["options"].get("num_beams"))
        tokens = list(self.model.stream(expected()["prompts"][1], **want["options"]))
        self.assertEqual("".join(t.text for t in tokens), want["texts"][1])
        self.assertEqual([t.finish for t in tokens], [None] * (len(tokens) - 1) + ["length"])

    def test_listener_that_raises(self):
        def on_token(token):
            raise KeyError(token.id)
        with self.assertRaises(KeyError):
            self.model.generate("a", on_token=on_token)

    def test_session(self):
        whole = self.model.generate([0, 40, 41, 42], max_new_tokens=12)[0].ids
        with self.model.session() as s, tempfile.TemporaryDirectory() as work:
            s.feed([0, 40])
            s.feed([41, 42])
            first = s.generate(max_new_tokens=5)
            path = os.path.join(work, "session")
            s.save(path)
            with s.fork() as fork, self.model.session(path) as loaded:
                for other in (fork, loaded):
                    self.assertEqual(first.ids + other.generate(max_new_tokens=7).ids, whole)
                    self.assertEqual(other.ids, [0, 40, 41, 42] + whole)
            s.truncate(4)
            self.assertEqual(s.generate(max_new_tokens=12).ids, whole)

    def test_errors(self):
        with self.assertRaises(self.accel.UnsupportedError):
            self.model.generate("a", guidance_scale=2.0)
        with self.assertRaises(self.accel.ArgumentError):
            self.model.generate([0, 5000])
        with self.assertRaises(self.accel.AccelError):
            self.model.generate("a", max_new_tokens=1000)
        with self.assertRaises(self.accel.AccelError):
            self.model.generate([[0, 40], [0] * 500], max_new_tokens=4)
        good, bad, wrong = self.model.generate([[0, 40], [0] * 500, [0, 5000]], max_new_tokens=4, continue_on_error=True)
        self.assertEqual(good.ids, self.model.generate([[0, 40]], max_new_tokens=4)[0].ids)
        self.assertIsNone(good.error)
        self.assertEqual([(r.prompt, r.finish, r.ids) for r in (bad, wrong)], [(1, "error", []), (2, "error", [])])
        self.assertIn("passes the context", bad.error)
        self.assertIn("5000", wrong.error)


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
