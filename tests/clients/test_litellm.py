"""litellm: chat, streaming, tools, embeddings."""
import json
import os
import tempfile
import unittest

from client_test import bits, fixture, model

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download
import chat_model  # noqa: E402
import litellm  # noqa: E402
from serving import Server  # noqa: E402

HELLO = [{"role": "user", "content": "Hello there"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"]}}}]


class Litellm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("chat=" + chat_model.make(cls.folder.name), "embedder=" + fixture("tasks/st_prompts"))
        cls.where = {"api_base": cls.server.url + "/v1", "api_key": "none"}

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def chat(self, **options):
        return litellm.completion(**{"model": "openai/chat", "messages": HELLO, "max_tokens": 200, "seed": 7, **self.where, **options})

    def test_chat_and_stream(self):
        whole = self.chat(max_tokens=12, temperature=1).choices[0].message.content
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in self.chat(max_tokens=12, temperature=1, stream=True)), whole)

    def test_tools(self):
        call = self.chat(tools=TOOLS, tool_choice="required").choices[0].message.tool_calls[0].function
        self.assertEqual((call.name, set(json.loads(call.arguments))), ("weather", {"unit"}))

    def test_embeddings(self):
        texts = ["the quick brown fox", "a lazy dog sleeps"]
        got = litellm.embedding(model="openai/embedder", input=texts, encoding_format="float", **self.where)
        self.assertEqual(bits(d["embedding"] for d in got.data), bits(model("tasks/st_prompts").embed(texts)))


if __name__ == "__main__":
    unittest.main()
