"""Constrained output through the tool and the package: every text is what was asked for, alone, in company, sampled and by beams.  Texts for made
schemas are checked by jsonschema; ACCEL_TEST_ALL_SCHEMAS=1 makes it 200 schemas with 50 seeds each."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from generating import BUILD, DEVICE, MODEL, ROOT, ToolTest, tool
from made_schemas import made_schema
from sanitized import run_under_sanitizer

ALL = os.environ.get("ACCEL_TEST_ALL_SCHEMAS") == "1"
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))

VALIDATE = """
import datetime, json, sys
from jsonschema import Draft202012Validator, FormatChecker
formats = FormatChecker([f for f in ("date", "uuid", "email", "ipv4", "ipv6", "duration", "hostname", "uri") if f in FormatChecker.checkers])
formats.checks("time", ValueError)(lambda x: not isinstance(x, str) or datetime.time.fromisoformat(x) is not None)
formats.checks("date-time", ValueError)(lambda x: not isinstance(x, str) or datetime.datetime.fromisoformat(x) is not None)
for schema, text in json.load(sys.stdin):
    errors = list(Draft202012Validator(schema, format_checker=formats).iter_errors(json.loads(text)))
    if errors:
        print(errors[0].message, "|", list(errors[0].path), text, json.dumps(schema))
"""


def validator():
    """A Python that has jsonschema; None: there is none."""
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import jsonschema"], capture_output=True).returncode == 0:
            return python
    return None


class Tool(ToolTest):
    def test_every_kind(self):
        schema = '{"type": "object", "properties": {"n": {"type": "integer", "minimum": 7, "maximum": 7}}, "required": ["n"]}'
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("schema.json", schema), ("sum.gbnf", 'root ::= num "+" num\nnum ::= [0-9]{2}\n')):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                    f.write(text)
            self.assertEqual(self.good("a", "--json-schema", os.path.join(folder, "schema.json")), '{"n":7}\n')
            self.assertRegex(self.good("a", "--grammar", os.path.join(folder, "sum.gbnf")), r"^\d\d\+\d\d\n$")
        self.assertEqual(self.good("a", "--json-schema", schema), '{"n":7}\n')
        self.assertRegex(self.good("a", "--regex", "[a-c]{3}"), "^[a-c]{3}\n$")
        self.assertIn(self.good("a", "--choices", "yes,no, maybe"), ("yes\n", "no\n", " maybe\n"))
        self.assertIn(self.good("a", "--choices", '["x,y", "z"]'), ("x,y\n", "z\n"))
        result = json.loads(self.good("a", "--any-json", "--temperature", "1", "--seed", "3", "--max-new-tokens", "80", "--json"))["results"][0]
        if result["finish"] == "eos":
            json.loads(result["text"])

    def test_a_cut_text_is_told_by_its_finish(self):
        for tokens, finish in (("2", "length"), ("20", "eos")):
            result = json.loads(self.good("a", "--regex", "x{9}", "--max-new-tokens", tokens, "--json"))["results"][0]
            self.assertEqual(result["finish"], finish)
            self.assertEqual("xxxxxxxxx".startswith(result["text"]), True)

    def test_beams(self):
        results = json.loads(self.good("a", "--choices", "red,green,blue", "--beams", "4", "--sequences", "3", "--json"))["results"]
        self.assertEqual(sorted(r["text"] for r in results), ["blue", "green", "red"])
        self.assertEqual([r["finish"] for r in results], ["eos"] * 3)

    def test_refusals(self):
        for code, text, arguments in (
                (3, "#/not: keyword 'not'", ("--json-schema", '{"not": {}}')), (2, "regular expression: byte 1", ("--regex", "(a")),
                (2, "one of them", ("--regex", "a", "--choices", "b")), (3, "ends the sequence", ("--regex", "a", "--generation-config", '{"eos_token_id": []}')),
                (2, "exclude all", ("--regex", "a", "--min-new-tokens", "5"))):
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

    def test_requests_have_grammars_of_their_own(self):
        """In the queue they run together; each gives what it gives alone, and those without a grammar are not touched."""
        options = [{"choices": ["one", "two"]}, {}, {"regex": "[0-9]{4}"}, {"json_schema": {"type": "boolean"}}, {"grammar": 'root ::= "g" [ab]+ "h"'},
                   {"regex": "[a-z]+!", "temperature": 1.0, "seed": 5}, {"any_json": True, "num_beams": 2}]
        options = [dict(o, max_new_tokens=24) for o in options]
        tickets = [self.model.submit_generate("the cat", **o) for o in options]
        together = [t.wait()[0] for t in tickets]
        alone = [self.model.generate("the cat", **o)[0] for o in options]
        self.assertEqual([g.ids for g in together], [g.ids for g in alone])
        self.assertIn(together[0].text, ("one", "two"))
        self.assertRegex(together[2].text, r"^\d{4}$")
        self.assertIn(together[3].text, ("true", "false"))
        self.assertRegex(together[5].text, "^[a-z]+!?$")

    def test_streams_and_sessions(self):
        text = "".join(t.text for t in self.model.stream("a cat", regex="[a-z]{4}-[0-9]{2}"))
        self.assertRegex(text, r"^[a-z]{4}-\d{2}$")
        with self.model.session() as session:
            session.feed("a cat")
            for _ in range(2):  # each call begins anew
                self.assertIn(session.generate(choices=["p", "qq"]).text, ("p", "qq"))

    def test_encoder_decoders(self):
        """The forced first token (a language, `<s>`) is no part of the text; a forced last one would end it too early."""
        for name in ("bart", "mbart", "t5"):
            with self.accel.Model(os.path.join(ROOT, "tests", "fixtures", "pipelines", name), device=DEVICE) as model:
                for beams in (1, 3):
                    made = model.text2text(["a cat"], regex="[ab]{3}c|ccc", num_beams=beams, max_new_tokens=12)[0]
                    self.assertRegex(made.text, "^([ab]{3}c|ccc)$")
                    self.assertEqual(made.finish, "eos")
                    cut = model.text2text(["a cat"], regex="[ab]{30}", num_beams=beams, max_new_tokens=6)[0]
                    self.assertEqual(cut.finish, "length")
        with self.accel.Model(os.path.join(ROOT, "tests", "fixtures", "pipelines", "marian"), device=DEVICE) as model:
            with self.assertRaisesRegex(self.accel.AccelError, "cannot follow this tokenizer"):
                model.text2text(["a cat"], regex="a")

    def test_errors(self):
        for options, text in (({"json_schema": {"items": {"not": {}}}}, "#/items/not"), ({"grammar": "root ::= root"}, "never ends"),
                              ({"choices": []}, "choices")):
            with self.assertRaisesRegex(self.accel.AccelError, re.escape(text)):
                self.model.generate("a", **options)
        with self.assertRaises(ValueError):
            self.model.generate("a", regex="a", choices=["b"])

    def test_schemas(self):
        """Whole texts are valid, and most texts are whole."""
        python = validator()
        texts, cut = [], 0
        for number in range(200 if ALL else 10):
            schema = made_schema(number)
            tickets = [self.model.submit_generate("a", json_schema=schema, temperature=1.0, top_k=0, seed=seed + 1, max_new_tokens=120)
                       for seed in range(50 if ALL else 3)]
            for ticket in tickets:
                made = ticket.wait()[0]
                if made.finish == "eos":
                    json.loads(made.text)
                    texts.append((schema, made.text))
                else:
                    self.assertEqual(made.finish, "length")
                    cut += 1
        self.assertGreater(len(texts), 4 * cut)
        if python is None:
            self.skipTest("jsonschema is not installed; all texts are JSON")
        done = subprocess.run([python, "-W", "ignore", "-c", VALIDATE], input=json.dumps(texts), capture_output=True, text=True, timeout=500)
        if done.returncode or done.stdout:
            self.fail((done.stdout + done.stderr)[:3000])
        if ALL:
            print(f"{len(texts)} whole texts, all valid; {cut} cut by max_new_tokens")


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
