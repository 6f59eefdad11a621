"""openai's client: chat, streaming, tools, parse(), completions, embeddings, models, errors."""
import tempfile
import unittest
from typing import Literal

from client_test import bits, fixture, model

import chat_model
import openai
import pydantic
from serving import Server

HELLO = [{"role": "user", "content": "Hello there"}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"unit": {"enum": ["C", "F"]}}, "required": ["unit"], "additionalProperties": False}, "strict": True}}]


class Unit(pydantic.BaseModel):
    unit: Literal["C", "F"]
    warm: bool


class Openai(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("chat=" + chat_model.make(cls.folder.name), "embedder=" + fixture("tasks/st_prompts"))
        cls.client = openai.OpenAI(api_key="none", base_url=cls.server.url + "/v1", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.stop()
        cls.folder.cleanup()

    def chat(self, **options):
        return self.client.chat.completions.create(**{"model": "chat", "messages": HELLO, "max_tokens": 16, "seed": 7, **options})

    def test_chat_and_stream(self):
        whole = self.chat(temperature=1)
        chunks = list(self.chat(temperature=1, stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage, whole.usage)
        self.assertEqual(len(self.chat(n=3, temperature=1).choices), 3)
        tokens = self.chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        self.assertTrue(all(len(t.top_logprobs) == 2 for t in tokens))

    def test_tools(self):
        call = self.chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=200).choices[0]
        self.assertEqual((call.finish_reason, call.message.tool_calls[0].function.name), ("tool_calls", "weather"))
        answer = [call.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.message.tool_calls[0].id, "content": "20"}]
        self.assertIsInstance(self.chat(messages=HELLO + answer, tools=TOOLS).choices[0].message.content, str)
        with self.client.chat.completions.stream(model="chat", messages=HELLO, tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=200,
                                                 seed=7) as stream:
            final = stream.get_final_completion().choices[0].message.tool_calls[0].function
        self.assertEqual((final.name, final.arguments), ("weather", call.message.tool_calls[0].function.arguments))

    def test_parse(self):
        parsed = self.client.chat.completions.parse(model="chat", messages=HELLO, response_format=Unit, max_tokens=60, seed=7).choices[0].message.parsed
        self.assertIn(parsed.unit, ("C", "F"))
        tool = openai.pydantic_function_tool(Unit, name="unit")
        parsed = self.client.chat.completions.parse(model="chat", messages=HELLO, tools=[tool], tool_choice="required", parallel_tool_calls=False,
                                                    max_tokens=200, seed=7)
        self.assertIsInstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, Unit)

    def test_completions(self):
        whole = self.client.completions.create(model="chat", prompt="Once", max_tokens=8, seed=7)
        parts = self.client.completions.create(model="chat", prompt="Once", max_tokens=8, seed=7, stream=True)
        self.assertEqual("".join(p.choices[0].text for p in parts), whole.choices[0].text)

    def test_embeddings(self):
        texts = ["the quick brown fox", "a lazy dog sleeps"]
        got = self.client.embeddings.create(model="embedder", input=texts)
        self.assertEqual(bits(d.embedding for d in got.data), bits(model("tasks/st_prompts").embed(texts)))

    def test_models_and_errors(self):
        self.assertEqual(sorted(m.id for m in self.client.models.list()), ["chat", "embedder"])
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat(temperature=2.5)
        self.assertEqual(refused.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.chat(model="nobody")


if __name__ == "__main__":
    unittest.main()
