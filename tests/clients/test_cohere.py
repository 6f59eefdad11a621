"""cohere's clients, first and second form: rerank and embed."""
import unittest

from client_test import bits, model, serve

import cohere

TEXTS = ["the quick brown fox", "a lazy dog sleeps", "numbers 1 2 3"]
QUERY = "what does the dog do?"


class Cohere(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(embedder="tasks/st_prompts", ranker="tasks/rerank_bert")
        cls.first = cohere.Client(api_key="none", base_url=cls.server.url)
        cls.second = cohere.ClientV2(api_key="none", base_url=cls.server.url)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_rerank(self):
        want = [(x["corpus_id"], x["score"]) for x in model("tasks/rerank_bert").rerank(QUERY, TEXTS, function="sigmoid")]
        for client in (self.first, self.second):
            got = client.rerank(model="ranker", query=QUERY, documents=TEXTS, top_n=2)
            self.assertEqual([(x.index, x.relevance_score) for x in got.results], want[:2])
        documents = self.first.rerank(model="ranker", query=QUERY, documents=TEXTS, return_documents=True).results
        self.assertEqual([x.document.text for x in documents], [TEXTS[i] for i, _ in want])
        self.assertEqual(self.second.rerank(model="ranker", query=QUERY, documents=TEXTS).meta.api_version.version, "2")

    def test_embed(self):
        want = bits(model("tasks/st_prompts").embed(TEXTS, prompt_name="query"))
        got = self.second.embed(model="embedder", texts=TEXTS, input_type="search_query", embedding_types=["float"])
        self.assertEqual(bits(got.embeddings.float_), want)
        self.assertEqual(bits(self.first.embed(model="embedder", texts=TEXTS, input_type="search_query").embeddings), want)

    def test_what_is_refused(self):
        with self.assertRaises(cohere.BadRequestError) as refused:
            self.second.rerank(model="ranker", query=QUERY, documents=[])
        self.assertIn("documents", str(refused.exception.body))
        with self.assertRaises(cohere.NotFoundError):
            self.second.rerank(model="nobody", query=QUERY, documents=TEXTS)


if __name__ == "__main__":
    unittest.main()
