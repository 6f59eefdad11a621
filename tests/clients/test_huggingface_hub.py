"""huggingface_hub's InferenceClient: at the server's own address, which is served by its first model as an Inference Endpoint is, and at
/accel/run/{task}."""
import unittest

from client_test import PICTURE, SOUND, bits, model, serve

from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

MODELS = {"embedder": "tasks/st_prompts", "classes": "tasks/classify_many", "tokens": "tasks/tokens_wordpiece", "answers": "tasks/qa_wordpiece",
          "masks": "tasks/fill_wordpiece", "hearing": "speech/many", "labels": "media/vit", "boxes": "media/detr", "segments": "seeing/segformer",
          "captions": "seeing/blip_caption", "questions": "seeing/blip_vqa", "free": "media/clip", "sounds": "media/ast", "t5": "pipelines/t5"}
TEXTS = ["the quick brown fox", "a lazy dog sleeps"]


class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve(**MODELS)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def task(self, name):
        return InferenceClient(f"{self.server.url}/accel/run/{name}")

    def test_the_servers_own_address(self):
        client, own = InferenceClient(self.server.url), model("tasks/st_prompts")
        self.assertEqual(bits(client.feature_extraction(TEXTS)), bits(own.embed(TEXTS, normalize=True)))
        self.assertEqual(bits(client.feature_extraction(TEXTS[0], prompt_name="query", normalize=False)),
                         bits(own.embed(TEXTS[:1], prompt_name="query", normalize=False)))
        self.assertEqual(len(client.sentence_similarity(TEXTS[0], TEXTS)), 2)
        self.assertAlmostEqual(client.sentence_similarity(TEXTS[0], TEXTS)[0], 1, 6)
        with self.assertRaises(HfHubHTTPError) as refused:
            client.feature_extraction("word " * 400)
        self.assertEqual(refused.exception.response.status_code, 413)

    def test_texts(self):
        found = self.task("text-classification").text_classification(TEXTS[0])
        self.assertEqual([(x.label, x.score) for x in found], [(x["label"], x["score"]) for x in model("tasks/classify_many").classify(TEXTS[:1], top_k=0)[0]])
        self.assertEqual(len(self.task("text-classification").text_classification(TEXTS[0], top_k=1)), 1)
        text = "the fox met Anna in Berlin"
        entities = self.task("token-classification").token_classification(text, aggregation_strategy="simple")
        self.assertEqual([(x.word, x.score) for x in entities],
                         [(x["word"], x["score"]) for x in model("tasks/tokens_wordpiece").token_labels([text], aggregation="simple")[0]])
        answer = self.task("question-answering").question_answering(question="who met Anna?", context=text)
        self.assertEqual(answer.answer, model("tasks/qa_wordpiece").answer(["who met Anna?"], [text])[0][0]["answer"])
        fills = self.task("fill-mask").fill_mask("the [MASK] fox", top_k=3)
        self.assertEqual([x.token_str for x in fills], [x["token_str"] for x in model("tasks/fill_wordpiece").fill_mask(["the [MASK] fox"], top_k=3)[0][0]])
        said = self.task("summarization").summarization(TEXTS[0], generate_parameters={"max_new_tokens": 6})
        self.assertEqual(said.summary_text, model("pipelines/t5").summarize(TEXTS[:1], max_new_tokens=6)[0].text)

    def test_pictures(self):
        want = [(x["label"], x["score"]) for x in model("media/vit").classify_images([PICTURE])[0]]
        for top_k in (None, 2):
            found = self.task("image-classification").image_classification(PICTURE, top_k=top_k)
            self.assertEqual([(x.label, x.score) for x in found], want[:top_k])
        boxes = self.task("object-detection").object_detection(PICTURE, threshold=0.01)
        self.assertEqual([x.score for x in boxes], [x["score"] for x in model("media/detr").detect_objects([PICTURE], 0.01)[0]])
        segments = self.task("image-segmentation").image_segmentation(PICTURE)
        self.assertTrue(segments)
        self.assertTrue(all(x.mask.mode == "L" for x in segments))
        self.assertEqual(self.task("image-to-text").image_to_text(PICTURE).generated_text,
                         model("seeing/blip_caption").generate_images([(None, [PICTURE])])[0].text)
        self.assertEqual(self.task("visual-question-answering").visual_question_answering(PICTURE, "what is it?")[0].answer,
                         model("seeing/blip_vqa").generate_images([("what is it?", [PICTURE])], kind="question")[0].text)
        labels = self.task("zero-shot-image-classification").zero_shot_image_classification(PICTURE, candidate_labels=["cat", "dog"])
        self.assertEqual(sorted(x.label for x in labels), ["cat", "dog"])

    def test_sounds(self):
        self.assertEqual(self.task("automatic-speech-recognition").automatic_speech_recognition(SOUND).text, model("speech/many").transcribe([SOUND])[0]["text"])
        found = self.task("audio-classification").audio_classification(SOUND)
        self.assertEqual([x.score for x in found], [x["score"] for x in model("media/ast").classify_sounds([SOUND])[0]])


if __name__ == "__main__":
    unittest.main()
