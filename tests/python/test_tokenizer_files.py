"""Directories without a tokenizer.json: ids and texts as transformers has them (tests/goldens/make_sentencepiece_goldens.py)."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

ACCEL = os.path.join(os.environ["ACCEL_BUILD"], "bin", "accel")
FIXTURES = os.path.join(os.environ["ACCEL_SOURCE"], "tests", "fixtures", "tokenizer_files")


def tokenize(folder, option, data, *more):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(data, f)
        f.flush()
        done = subprocess.run([ACCEL, "tokenize", folder, option, f.name, "--json", *more], capture_output=True, text=True, timeout=60)
    return done


class Files(unittest.TestCase):
    def test_identity(self):
        names = sorted(os.listdir(FIXTURES))
        self.assertGreaterEqual(len(names), 21)
        for name in names:
            folder = os.path.join(FIXTURES, name)
            with open(os.path.join(folder, "expected.json")) as f:
                expected = json.load(f)
            with self.subTest(name):
                done = tokenize(folder, "--input", expected["strings"])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["ids"], expected["ids"])
                done = tokenize(folder, "--decode", expected["ids"])
                self.assertEqual(json.loads(done.stdout)["texts"], expected["texts"])

    def test_classes(self):
        """A tokenizer.json under classes that build it anew, and under those that do not (tests/goldens/make_class_goldens.py)."""
        with open(os.path.join(FIXTURES, "..", "tokenizer_classes.json"), encoding="utf-8") as f:
            goldens = json.load(f)
        for case in goldens["cases"]:
            with self.subTest(tokenizer=case["tokenizer"], config=case["config"], model=case["model"]), tempfile.TemporaryDirectory() as folder:
                os.symlink(os.path.join(FIXTURES, "..", "tokenizers", case["tokenizer"] + ".json"), os.path.join(folder, "tokenizer.json"))
                for name, value in (("tokenizer_config.json", case["config"]), ("config.json", case["model"])):
                    with open(os.path.join(folder, name), "w") as f:
                        json.dump(value, f)
                done = tokenize(folder, "--input", goldens["strings"], "--verbose")
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout)
                self.assertEqual(found["ids"], case["ids"])
                self.assertEqual(found["offsets"], case["offsets"])
                some = [(ids, text) for ids, text in zip(case["ids"], case["texts"]) if ids]
                done = tokenize(folder, "--decode", [ids for ids, _ in some])
                self.assertEqual(json.loads(done.stdout)["texts"], [text for _, text in some])

    def test_characters(self):
        """Vocabularies of CTC and VITS (tests/goldens/make_character_goldens.py)."""
        with open(os.path.join(FIXTURES, "..", "tokenizer_characters.json"), encoding="utf-8") as f:
            cases = json.load(f)
        for case in cases:
            with self.subTest(vocab=case["vocab"], config=case["config"]), tempfile.TemporaryDirectory() as folder:
                for name, value in (("vocab.json", case["vocab"]), ("tokenizer_config.json", case["config"])):
                    with open(os.path.join(folder, name), "w") as f:
                        json.dump(value, f)
                done = tokenize(folder, "--input", case["strings"])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["ids"], case["ids"])
                for key, more in (("texts", ()), ("whole", ("--keep-special",))):
                    done = tokenize(folder, "--decode", [ids for ids in case["decode"]], *more)
                    self.assertEqual(json.loads(done.stdout)["texts"], case[key])

    def test_no_characters(self):
        """What another program has to make first, and a class that has no such vocabulary."""
        for config, word in (({"tokenizer_class": "VitsTokenizer"}, "'phonemize' is true"), ({"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"}, "'do_phonemize' is true"),
                             ({"tokenizer_class": "VitsTokenizer", "phonemize": False, "is_uroman": True}, "'is_uroman' is true"),
                             ({"tokenizer_class": "GPT2Tokenizer"}, "put its merges.txt beside it"), ({"tokenizer_class": "Wav2Vec2CTCTokenizer", "target_lang": "xyz"}, "")):
            with self.subTest(config=config), tempfile.TemporaryDirectory() as folder:
                for name, value in (("vocab.json", {"eng": {"a": 0}} if not word else {"a": 0, "\u00e9": 1}), ("tokenizer_config.json", config)):
                    with open(os.path.join(folder, name), "w") as f:
                        json.dump(value, f)
                done = tokenize(folder, "--input", ["\u00e9"])
                self.assertEqual((done.returncode, done.stdout), (3 if word else 1, ""))
                self.assertIn(word or "target_lang 'xyz' is none of them", done.stderr)

    def test_damage(self):
        with open(os.path.join(FIXTURES, "xlm_roberta", "sentencepiece.bpe.model"), "rb") as f:
            model = f.read()
        for data in b"", b"\x0a", model[:len(model) // 2], model[:len(model) // 2 + 1], b"\xff" * 100, b"not a model at all":
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "tokenizer.model"), "wb") as f:
                    f.write(data)
                done = tokenize(folder, "--input", ["a"])
                self.assertEqual(done.returncode, 1)
                self.assertIn("tokenizer.model", done.stderr)

    def test_damaged_side_files(self):
        """added_tokens.json, special_tokens_map.json and config.json that are none."""
        for name, data, says in (("added_tokens.json", "[1]", "not a JSON object"), ("added_tokens.json", '{"<a>": "x"}', "'<a>' has no id"), ("added_tokens.json", '{"<a>": -1}', "'<a>' has no id"),
                                 ("added_tokens.json", '{"<a>": 1e12}', "'<a>' has no id"), ("special_tokens_map.json", "{", "special_tokens_map.json"), ("config.json", "{]", "config.json")):
            with self.subTest(name=name, data=data), tempfile.TemporaryDirectory() as folder:
                for file in ("vocab.json", "merges.txt"):
                    shutil.copy(os.path.join(FIXTURES, "gpt2", file), folder)
                with open(os.path.join(folder, name), "w") as f:
                    f.write(data)
                done = tokenize(folder, "--input", ["a"])
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)

    def test_damaged_tiktoken(self):
        for data, says in ((b"aGk= 0\nnonsense\n", "line 2"), (b"aGk= 0\naG8= 0\n", "rank 0 comes twice"), (b"aGk= 0\naG8= 99999999\n", "line 2"), (b"aGk= 0\n!!!! 1\n", "line 2"),
                           (b"aGk=", "tiktoken.model"), (b"QUFB" * 2000 + b" 0\n", "tiktoken.model")):
            with self.subTest(data=data[:20]), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "tiktoken.model"), "wb") as f:
                    f.write(data)
                done = tokenize(folder, "--input", ["a"])
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)

    def test_more_tokens_of_marian(self):
        """What tokenizer_config.json adds under the name of transformers 5, beside which the older name does not count: ids of transformers 5.23."""
        for extra, ids in ((["<x>", "the"], [2, 11, 228, 2, 23, 229, 0]), (["<x>"], [2, 11, 228, 2, 23, 2, 13, 199, 6, 0])):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(os.path.join(FIXTURES, "marian"), folder, dirs_exist_ok=True)
                path = os.path.join(folder, "tokenizer_config.json")
                with open(path) as f:
                    config = json.load(f)
                with open(path, "w") as f:
                    json.dump({**config, "extra_special_tokens": extra, "additional_special_tokens": ["<z>"]}, f)
                done = tokenize(folder, "--input", ["a<x>b the"])
                self.assertEqual(json.loads(done.stdout)["ids"], [ids])

    def test_damaged_marian(self):
        """Files missing, cut short, or of another kind; a vocabulary without what every tokenizer needs."""
        given = os.path.join(FIXTURES, "marian_separate")
        with open(os.path.join(given, "source.spm"), "rb") as f:
            spm = f.read()
        for name, data, says in (("source.spm", spm[:len(spm) // 2], "source.spm"), ("source.spm", spm.replace(b"\x0a", b"\xff"), "source.spm"), ("source.spm", b"", "source.spm"),
                                 ("vocab.json", None, "vocab.json"), ("vocab.json", b"[]", "not a JSON object"), ("vocab.json", b'{"</s>": 0}', "'<unk>'"),
                                 ("vocab.json", b'{"<unk>": 0, "</s>": 99999999}', "vocab.json"), ("vocab.json", b'{"<unk>": 0,', "vocab.json"),
                                 ("target_vocab.json", None, "target_vocab.json"), ("tokenizer_config.json", b'{"separate_vocabs": 3}', "separate_vocabs")):
            with self.subTest(name=name, data=data and data[:20]), tempfile.TemporaryDirectory() as folder:
                shutil.copytree(given, folder, dirs_exist_ok=True)
                os.remove(os.path.join(folder, name))
                if data is not None:
                    with open(os.path.join(folder, name), "wb") as f:
                        f.write(data)
                done = tokenize(folder, "--input", ["a"])
                self.assertEqual(done.returncode, 1)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
