"""Chat templates through the tool and the Python package: where templates are found, what they are given, what they may refuse."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from sanitized import run_under_sanitizer

BUILD, SOURCE = os.environ["ACCEL_BUILD"], os.environ["ACCEL_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "src", "bindings", "python"))
os.environ.setdefault("ACCEL_LIBRARY", os.path.join(BUILD, "lib", "libaccel.so.0"))
ACCEL = os.path.join(BUILD, "bin", "accel")
TOKENIZER = os.path.join(SOURCE, "tests", "fixtures", "tokenizers", "bpe_llama.json")
CHATML = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
MESSAGES = [{"role": "user", "content": "hi \u00e9"}]


class Template(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(TOKENIZER, os.path.join(self.folder, "tokenizer.json"))

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(data if isinstance(data, str) else json.dumps(data))
        return path

    def run_tool(self, *options, messages=MESSAGES, model=None):
        command = [ACCEL, "template", model or self.folder, "--messages", "-", *options]
        return subprocess.run(command, input=json.dumps(messages), capture_output=True, text=True, timeout=60)

    def text(self, *options, **how):
        done = self.run_tool(*options, "--json", **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["schema"], "accel.template/1")
        return answer["text"]

    def test_string_in_the_configuration(self):
        self.write("tokenizer_config.json", {"chat_template": CHATML, "eos_token": {"content": "</s>"}})
        self.assertEqual(self.text(), "<|user|>hi \u00e9</s><|assistant|>")
        self.assertEqual(self.text("--no-generation-prompt"), "<|user|>hi \u00e9</s>")
        self.assertEqual(self.text("--continue"), "<|user|>hi \u00e9")
        self.assertEqual(self.run_tool("--no-generation-prompt").stdout, "<|user|>hi \u00e9</s>")

    def test_names(self):
        self.write("tokenizer_config.json", {"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools[0].name }}"},
                                                               {"name": "rag", "template": "{{ documents|length }}{{ depth }}"}]})
        tools, documents = self.write("t.json", [{"name": "f"}]), self.write("d.json", [{"title": "a", "text": "b"}])
        self.assertEqual(self.text(), "plain")
        self.assertEqual(self.text("--tools", tools), "f")
        self.assertEqual(self.text("--template-name", "rag", "--documents", documents, "--variables", '{"depth": 3}'), "13")
        self.assertNotEqual(self.run_tool("--template-name", "nosuch").returncode, 0)

    def test_files_win(self):
        self.write("tokenizer_config.json", {"chat_template": "config"})
        self.write("chat_template.json", {"chat_template": "processor"})
        self.assertEqual(self.text(), "processor")
        path = self.write("chat_template.jinja", "file\n")
        self.write("additional_chat_templates/rag.jinja", "rag file")
        self.assertEqual(self.text(), "file")
        self.assertEqual(self.text("--template-name", "rag"), "rag file")
        self.assertEqual(self.text(model=path), "file")

    def test_refusals(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no chat template", done.stderr)
        self.write("chat_template.jinja", "{{ raise_exception('not so') }}")
        done = self.run_tool()
        self.assertEqual(done.returncode, 2)
        self.assertIn("chat_template.jinja: line 1: the template refuses these messages: not so", done.stderr)
        self.write("chat_template.jinja", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
        self.assertEqual(self.run_tool().returncode, 1)
        self.assertEqual(self.run_tool(messages={"role": "user"}).returncode, 2)

    def test_python(self):
        import accel
        self.write("tokenizer_config.json", {"chat_template": CHATML, "eos_token": "</s>"})
        tokenizer = accel.Tokenizer(self.folder)
        text = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
        self.assertEqual(text, "<|user|>hi \u00e9</s><|assistant|>")
        self.assertEqual(tokenizer.apply_chat_template(MESSAGES), tokenizer.encode("<|user|>hi \u00e9</s>", add_special_tokens=False))


if __name__ == "__main__":
    run_under_sanitizer(os.environ["ACCEL_LIBRARY"])
    unittest.main()
