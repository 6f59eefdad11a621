"""Speculation through the tool and the package: every text is the one that comes without, greedy and drawn, with grammars, stop strings, listeners,
several sequences, encoder-decoders, sessions and the queue, by lookup and by an assistant."""
import json
import os
import sys
import unittest

from generating import BUILD, DEVICE, MODEL, ROOT, ToolTest, tool
from sanitized import run_under_sanitizer

os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
PIPELINES = os.path.join(ROOT, "tests", "fixtures", "pipelines")
TEXT = "the cat sat on the mat and the cat sat on the"


class Tool(ToolTest):
    def test_the_same_text(self):
        common = (TEXT, "--max-new-tokens", "40")
        for options in ((), ("--temperature", "0.7", "--seed", "3")):
            plain = self.good(*common, *options)
            self.assertEqual(self.good(*common, *options, "--speculate", "lookup"), plain)
            self.assertEqual(self.good(*common, *options, "--speculate", MODEL, "--draft-tokens", "4"), plain)
        one = json.loads(self.good(*common, "--speculate", MODEL, "--json"))["results"][0]
        self.assertEqual(one["draft_tokens"], one["accepted_tokens"])  # the model guesses what it is going to say

    def test_refusals(self):
        for code, text, arguments in ((3, "beam search", ("--speculate", "lookup", "--beams", "2")), (2, "draft-tokens", ("--draft-tokens", "99")),
                                      (3, "encoder", ("--speculate", os.path.join(PIPELINES, "t5")))):
            with self.subTest(arguments=arguments):
                got, out, errors = tool("a", *arguments)
                self.assertEqual((got, out), (code, ""), errors)
                self.assertIn(text, errors)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import accel
        cls.accel = accel
        cls.model = accel.Model(MODEL, device=DEVICE, queue_capacity=64)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def each(self, **options):
        """(plain options, options with speculation)"""
        plain = dict(options, max_new_tokens=32)
        return [(plain, dict(plain, prompt_lookup_num_tokens=10)), (plain, dict(plain, assistant_model=self.model, num_assistant_tokens=5))]

    def test_the_same_generations(self):
        for options in ({"logprobs": 2}, {"temperature": 0.8, "num_return_sequences": 3, "seed": 4}, {"regex": "(abc ){9}"}, {"stop": ["e", "zz"]},
                        {"repetition_penalty": 1.2}, {"json_schema": {"type": "array", "items": {"enum": ["aa", "ab"]}, "minItems": 5}, "temperature": 1.0}):
            for plain, guessed in self.each(**options):
                a, b = self.model.generate(TEXT, **plain), self.model.generate(TEXT, **guessed)
                self.assertEqual([(g.ids, g.text, g.finish, g.logprobs, g.top_logprobs) for g in a],
                                 [(g.ids, g.text, g.finish, g.logprobs, g.top_logprobs) for g in b], options)

    def test_listeners_and_sessions(self):
        for plain, guessed in self.each():
            heard = [[(t.id, t.text, t.finish) for t in self.model.stream(TEXT, **options)] for options in (plain, guessed)]
            self.assertEqual(heard[0], heard[1])
            left = [self.model.generate(TEXT, on_token=lambda t: t.text.strip() != "", **options)[0] for options in (plain, guessed)]
            self.assertEqual((left[0].ids, left[0].finish), (left[1].ids, left[1].finish))
            with self.model.session() as a, self.model.session() as b:
                for session, options in ((a, plain), (b, guessed)):
                    session.feed(TEXT)
                    session.generate(**dict(options, max_new_tokens=12))
                    session.feed(" and the cat")
                    session.generate(**dict(options, max_new_tokens=12))
                self.assertEqual(a.ids, b.ids)

    def test_the_queue(self):
        pairs = [pair for seed in range(4) for pair in self.each(temperature=0.6, seed=seed)]
        tickets = [self.model.submit_generate(TEXT, **guessed) for _, guessed in pairs]
        for (plain, _), ticket in zip(pairs, tickets):
            self.assertEqual(ticket.wait()[0].ids, self.model.generate(TEXT, **plain)[0].ids)
        stats = self.model.queue_stats
        self.assertGreaterEqual(stats["draft_tokens"], stats["accepted_tokens"])

    def test_encoder_decoders(self):
        """They look up what the encoder has read, too."""
        for name in ("bart", "t5"):
            with self.accel.Model(os.path.join(PIPELINES, name), device=DEVICE) as model:
                plain = model.text2text([TEXT], num_beams=1, max_new_tokens=24)[0]
                guessed = model.text2text([TEXT], num_beams=1, max_new_tokens=24, prompt_lookup_num_tokens=8)[0]
                self.assertEqual((plain.ids, plain.finish), (guessed.ids, guessed.finish))

    def test_kept_prompts(self):
        """The queue reads of a prompt what an earlier one has not."""
        ids = [3 + i * i % 290 for i in range(120)]
        with self.accel.Model(MODEL, device=DEVICE, prefix_cache_bytes=0) as without:
            self.assertEqual(without.queue_stats["no_cache"], "prefix_cache_bytes is 0")
            first = self.model.submit_generate(ids, max_new_tokens=4).wait()[0]
            self.assertEqual(first.cached_tokens, 0)  # too short to be shared
        self.assertIsNone(self.model.queue_stats["no_cache"])


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
