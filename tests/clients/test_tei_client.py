"""tei-client, a client of Text Embeddings Inference."""
import unittest

from client_test import bits, model, serve

from tei_client import HttpClient

TEXTS = ["the quick brown fox", "a lazy dog sleeps"]


class Tei(unittest.TestCase):
    def client(self, place):
        server = serve(model=place)
        self.addCleanup(server.stop)
        return HttpClient(server.url)

    def test_embeddings(self):
        client, own = self.client("tasks/st_prompts"), model("tasks/st_prompts")
        self.assertTrue(client.health())
        self.assertEqual(client.info().server_model_metadata.pooling, "mean")
        self.assertEqual(bits(client.embed(TEXTS)), bits(own.embed(TEXTS, normalize=True)))
        self.assertEqual(bits(client.embed(TEXTS, normalize=False, prompt_name="query")), bits(own.embed(TEXTS, normalize=False, prompt_name="query")))
        self.assertEqual([bits(rows) for rows in client.embed_all(TEXTS)], [bits(rows) for rows in own.embed(TEXTS, pooling="none", normalize=False)])
        ids = [result.get_ids() for result in client.tokenize(TEXTS, add_special_tokens=False)]
        self.assertEqual(client.decode(ids), TEXTS)

    def test_classes(self):
        found = self.client("tasks/classify_many").classify(TEXTS)
        want = model("tasks/classify_many").classify(TEXTS, top_k=0)
        self.assertEqual([[(x.label, x.score) for x in row.scores] for row in found], [[(x["label"], x["score"]) for x in row] for row in want])

    def test_ranks(self):
        found = self.client("tasks/rerank_bert").rerank("what does the dog do?", TEXTS)
        want = model("tasks/rerank_bert").rerank("what does the dog do?", TEXTS, function="sigmoid")
        self.assertEqual([(x.index, x.score) for x in found.ranks], [(x["corpus_id"], x["score"]) for x in want])


if __name__ == "__main__":
    unittest.main()
