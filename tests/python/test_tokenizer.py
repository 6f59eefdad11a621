"""accel tokenize against known ids and, where the `tokenizers` package is installed, against the package itself.

Identity on the whole corpus is held by tests/unit/text_corpus_test.c; here the same strings go through the command line, and the
goldens of that test are checked to be what the installed package says.
"""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("ACCEL_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(SOURCE, "build"))
TOOL = os.path.join(BUILD, "bin", "accel")
FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "tokenizers")
sys.path.insert(0, os.path.join(SOURCE, "tests", "goldens"))

from tokenizer_corpus import STRINGS, corpus  # noqa: E402

try:
    import tokenizers
except ImportError:
    tokenizers = None

SENTENCE = "Hello Caf\u00e9, \u6771\u4eac [MASK] na\u00efve!"
SENTENCE_IDS = [2, 38, 589, 321, 33, 192, 247, 185, 12, 169, 160, 4, 583, 211, 212, 185, 5, 3]  # transformers 5.23


def accel(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=300)


def accel_json(what, *arguments):
    """Runs accel tokenize with `what` as its JSON input file; the result as a dictionary."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(what, f)
        f.flush()
        result = accel("tokenize", *[f.name if a is None else a for a in arguments], "--json")
    if result.returncode != 0:
        raise AssertionError("exit code %d: %s" % (result.returncode, result.stderr))
    return json.loads(result.stdout)


class CommandLine(unittest.TestCase):
    def test_known_ids(self):
        result = accel_json([SENTENCE, ""], os.path.join(FIXTURES, "vocab_txt"), "--input", None)
        self.assertEqual(result["schema"], "accel.tokenize/1")
        self.assertEqual(result["ids"], [SENTENCE_IDS, [2, 3]])

    def test_decode(self):
        result = accel_json([SENTENCE_IDS, []], os.path.join(FIXTURES, "vocab_txt"), "--decode", None)
        self.assertEqual(result["texts"], ["hello cafe, \u6771 \u4eac naive!", ""])

    def test_refusals(self):
        missing = accel("tokenize", os.path.join(FIXTURES, "no-such-file"), "text")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("no-such-file", missing.stderr)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w") as f:
                json.dump({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "pre_tokenizer": {"type": "Mystery"}}, f)
            refused = accel("tokenize", folder, "text")
            self.assertEqual(refused.returncode, 3)
            self.assertIn("'Mystery'", refused.stderr)


@unittest.skipIf(tokenizers is None, "the tokenizers package is not installed")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.strings = corpus()
        cls.paths = sorted(glob.glob(os.path.join(FIXTURES, "*.json")))

    def test_ids_and_offsets(self):
        self.assertGreaterEqual(len(self.paths), 18)
        strings = [s for s in self.strings[::20] if "\0" not in s]
        for path in self.paths:
            with self.subTest(os.path.basename(path)):
                result = accel_json(strings, path, "--input", None, "--verbose")
                tok = tokenizers.Tokenizer.from_file(path)
                tok.no_padding()
                tok.no_truncation()
                for text, ids, offsets in zip(strings, result["ids"], result["offsets"], strict=True):
                    encoding = tok.encode(text)
                    self.assertEqual(encoding.ids, ids, repr(text))
                    self.assertEqual([list(o) for o in encoding.offsets], offsets, repr(text))

    def test_decoded_text(self):
        for path in self.paths:
            with self.subTest(os.path.basename(path)):
                tok = tokenizers.Tokenizer.from_file(path)
                tok.no_padding()
                ids = [tok.encode(s, add_special_tokens=False).ids for s in self.strings[7::50]]
                ids = [i for i in ids if i]
                texts = accel_json(ids, path, "--decode", None)["texts"]
                self.assertEqual(texts, [tok.decode(i) for i in ids])

    def test_goldens_are_current(self):
        from make_tokenizer_goldens import checksum
        for path in self.paths:
            with self.subTest(os.path.basename(path)):
                with open(path[:-5] + ".crc", "rb") as f:
                    golden = struct.unpack("<%dI" % STRINGS, f.read())
                tok = tokenizers.Tokenizer.from_file(path)
                tok.no_padding()
                for i in range(0, STRINGS, 97):
                    if i % 7 != 3:  # truncated ones make the package's Rust code print
                        self.assertEqual(checksum(tok, self.strings, i), golden[i], i)


if __name__ == "__main__":
    unittest.main()
