"""huggingface_hub's InferenceClient: chats, whole and streamed.  Without a model it sends the name "dummy"."""
import tempfile
import unittest

from client_test import Server

import chat_model
from huggingface_hub import InferenceClient

HELLO = [{"role": "user", "content": "Hello there"}]


class Chat(unittest.TestCase):
    def test_chats(self):
        with tempfile.TemporaryDirectory() as folder:
            server = Server("chat=" + chat_model.make(folder))
            self.addCleanup(server.stop)
            client = InferenceClient(base_url=server.url, api_key="none")
            whole = client.chat_completion(HELLO, model="chat", max_tokens=8, temperature=0)
            self.assertEqual(client.chat.completions.create(model="chat", messages=HELLO, max_tokens=8, temperature=0).choices[0].message.content,
                             whole.choices[0].message.content)
            events = list(client.chat_completion(HELLO, model="chat", max_tokens=8, temperature=0, stream=True))
            self.assertEqual("".join(e.choices[0].delta.content or "" for e in events if e.choices), whole.choices[0].message.content)
            self.assertEqual(whole.usage.completion_tokens, 8)


if __name__ == "__main__":
    unittest.main()
