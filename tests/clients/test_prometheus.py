"""/metrics as prometheus-client reads it."""
import json
import unittest
import urllib.request

from client_test import serve

from prometheus_client.parser import text_string_to_metric_families


class Metrics(unittest.TestCase):
    def test_every_line_is_read(self):
        server = serve(embedder="tasks/st_prompts")
        self.addCleanup(server.stop)

        def families():
            with urllib.request.urlopen(server.url + "/metrics", timeout=30) as answer:
                return list(text_string_to_metric_families(answer.read().decode()))

        def prompt_tokens():
            return sum(s.value for f in families() for s in f.samples if s.name == "accel_prompt_tokens_total")
        before = prompt_tokens()
        call = urllib.request.Request(server.url + "/embed", json.dumps({"inputs": ["a text", "another"]}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(call, timeout=30) as answer:
            tokens = int(answer.headers["x-compute-tokens"])
        self.assertEqual(prompt_tokens() - before, tokens)
        found = families()
        self.assertTrue(all(f.type != "unknown" and f.documentation for f in found))
        self.assertEqual(len({f.name for f in found}), len(found))


if __name__ == "__main__":
    unittest.main()
