"""openai's client: transcriptions and translations in all forms, streamed ones too."""
import os
import unittest

from client_test import FIXTURES, SOUND, model, serve

import openai

LONG = os.path.join(FIXTURES, "speech", "long.wav")


class Audio(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(hearing="speech/many", words="speech/words")
        cls.client = openai.OpenAI(api_key="none", base_url=cls.server.url + "/v1", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def hear(self, sound, name="hearing", **options):
        with open(sound, "rb") as f:
            return self.client.audio.transcriptions.create(model=name, file=f, **options)

    def test_forms(self):
        own = model("speech/many").transcribe([LONG], timestamps="segment")[0]
        plain = model("speech/many").transcribe([LONG])[0]["text"].lstrip(" ")
        self.assertEqual(self.hear(LONG).text, plain)
        self.assertEqual(self.hear(LONG, response_format="text"), plain + "\n")
        verbose = self.hear(LONG, response_format="verbose_json")
        self.assertEqual([(s.text, s.start, s.end, s.tokens) for s in verbose.segments], [(s["text"], s["start"], s["end"], s["ids"]) for s in own["segments"]])
        self.assertEqual(verbose.duration, own["seconds"])
        self.assertIn(" --> ", self.hear(LONG, response_format="srt"))
        self.assertTrue(self.hear(LONG, response_format="vtt").startswith("WEBVTT"))

    def test_words(self):
        got = self.hear(SOUND, "words", response_format="verbose_json", timestamp_granularities=["word"])
        want = model("speech/words").transcribe([SOUND], timestamps="word")[0]["chunks"]
        self.assertEqual([(w.word, w.start) for w in got.words], [(w["text"].lstrip(" "), w["timestamp"][0]) for w in want])

    def test_stream(self):
        events = list(self.hear(LONG, stream=True))
        self.assertEqual(events[-1].type, "transcript.text.done")
        self.assertEqual("".join(e.delta for e in events[:-1]), events[-1].text)
        self.assertEqual(events[-1].text, self.hear(LONG).text)
        self.assertGreater(len(events), 2)

    def test_options(self):
        own = model("speech/many")
        self.assertEqual(self.hear(SOUND, language="fr", prompt="names", temperature=0).text, own.transcribe([SOUND], language="fr", prompt="names")[0]["text"].lstrip(" "))
        with open(SOUND, "rb") as f:
            got = self.client.audio.translations.create(model="hearing", file=f)
        self.assertEqual(got.text, own.transcribe([SOUND], task="translate")[0]["text"].lstrip(" "))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.hear(SOUND, language="zz")
        self.assertIn("zz", refused.exception.message)
        with self.assertRaises(openai.NotFoundError):
            self.hear(SOUND, "nobody")


if __name__ == "__main__":
    unittest.main()
