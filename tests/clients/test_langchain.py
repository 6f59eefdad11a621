"""langchain-openai: chat, streaming, bound tools, structured output, embeddings."""
import tempfile
import unittest
from typing import Literal

from client_test import bits, fixture, model

import chat_model
import pydantic
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from serving import Server


class Unit(pydantic.BaseModel):
    """The unit of a temperature."""
    unit: Literal["C", "F"]


class Langchain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("chat=" + chat_model.make(cls.folder.name), "embedder=" + fixture("tasks/st_prompts"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def chat(self, **options):
        return ChatOpenAI(model="chat", base_url=self.server.url + "/v1", api_key="none", max_retries=0, seed=7, **{"max_tokens": 200, **options})

    def test_chat_and_stream(self):
        chat = self.chat(max_tokens=12, temperature=1)
        self.assertEqual("".join(c.content for c in chat.stream("Hello there")), chat.invoke("Hello there").content)

    def test_tools(self):
        chat = self.chat().bind_tools([Unit], tool_choice="any", parallel_tool_calls=False)
        answer = chat.invoke("Hello there")
        self.assertEqual(answer.tool_calls[0]["name"], "Unit")
        self.assertIn(answer.tool_calls[0]["args"]["unit"], ("C", "F"))
        again = self.chat(max_tokens=5).invoke([("user", "Hello there"), answer, ToolMessage("20", tool_call_id=answer.tool_calls[0]["id"])])
        self.assertIsInstance(again.content, str)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            self.assertIsInstance(self.chat().with_structured_output(Unit, method=method).invoke("Hello there"), Unit, method)

    def test_embeddings(self):
        texts = ["the quick brown fox", "a lazy dog sleeps"]
        # without it texts are cut into tokens of another vocabulary
        embedder = OpenAIEmbeddings(model="embedder", base_url=self.server.url + "/v1", api_key="none", check_embedding_ctx_length=False)
        self.assertEqual(bits(embedder.embed_documents(texts)), bits(model("tasks/st_prompts").embed(texts)))


if __name__ == "__main__":
    unittest.main()
