"""Routes of `accel serve` beside OpenAI's texts: TEI, rerankers, tokens, sounds, every task.  One server with tiny models; what it answers is what
the library gives by its Python package, vectors and scores bit by bit.
"""
import base64
import concurrent.futures
import json
import math
import os
import random
import re
import struct
import sys
import tempfile
import time
import unittest
import wave

from sanitized import run_under_sanitizer
from serving import WITH_SERVER, Server

ROOT = os.environ.get("ACCEL_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
LIBRARY = os.path.join(BUILD, "lib", "libaccel.so.0")
FIXTURES = os.path.join(ROOT, "tests", "fixtures")
if __name__ == "__main__":
    run_under_sanitizer(LIBRARY)
os.environ["ACCEL_LIBRARY"] = LIBRARY
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "src", "bindings", "python"))
import accel  # noqa: E402

PATHS = {name: os.path.join(FIXTURES, place) for name, place in {
    "embedder": "tasks/st_prompts", "bare": "tasks/features_bert", "classes": "tasks/classify_many", "ranker": "tasks/rerank_bert",
    "asked": "tasks/rerank_qwen3", "tokens": "tasks/tokens_wordpiece", "answers": "tasks/qa_wordpiece", "masks": "tasks/fill_wordpiece",
    "writer": "pipelines/text", "nli": "pipelines/nli", "t5": "pipelines/t5", "hearing": "speech/many", "words": "speech/words", "letters": "media/wav2vec2",
    "sounds": "media/ast", "labels": "media/vit", "boxes": "media/detr", "free": "media/clip", "noises": "media/clap", "segments": "seeing/segformer", "depths": "seeing/depth_anything", "features": "features/dinov2",
    "voice": "models/vits_speakers", "captions": "seeing/blip_caption", "questions": "seeing/blip_vqa", "regions": "seeing/florence2",
    "pages": "seeing/donut", "forms": "seeing/layoutlmv3_qa"}.items()}
TEXTS = ["the quick brown fox", "a lazy dog sleeps", "numbers 1 2 3"]
PICTURE = os.path.join(FIXTURES, "image", "pictures", "colour_420.jpg")
SHORT, LONG = (os.path.join(FIXTURES, "speech", name) for name in ("short.wav", "long.wav"))


def setUpModule():
    if not WITH_SERVER:
        raise unittest.SkipTest("built without libmicrohttpd")
    global server
    server = Server(*(f"{name}={path}" for name, path in PATHS.items()))


def tearDownModule():
    assert server.stop() == 0, server.log()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def uri(path, kind):
    return f"data:{kind};base64," + base64.b64encode(read(path)).decode()


def bits(vectors):
    return [[struct.pack("<f", x) for x in row] for row in vectors]


def form(fields, files):
    """A body of multipart/form-data."""
    edge, out = "edge-of-a-part", []
    for name, value in fields:
        out.append(f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    for name, file_name, data in files:
        out.append(f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{file_name}"\r\nContent-Type: audio/wav\r\n\r\n'.encode() + data + b"\r\n")
    return b"".join(out) + f"--{edge}--\r\n".encode(), f"multipart/form-data; boundary={edge}"


def posts():
    """The paths of the routes that are tested here, and of /accel/run/ one for each task."""
    with open(os.path.join(ROOT, "src", "serve", "routes.def"), encoding="utf-8") as f:
        groups = re.split(r"/\* (routes_\w+)\.c \*/", f.read())
    mine = {"routes_audio", "routes_classify", "routes_embed", "routes_rerank", "routes_run", "routes_sparse", "routes_speech", "routes_tokens"}
    for name, lines in zip(groups[1::2], groups[2::2]):
        if name in mine:
            yield from re.findall(r'ROUTE\("POST", "([^"*]+)"', lines)
    with open(os.path.join(ROOT, "src", "serve", "routes_run.c"), encoding="utf-8") as f:
        yield from ("/accel/run/" + task for task in re.findall(r'^ *\{+"([a-z0-9-]+)", ', f.read(), re.M))


class Routes(unittest.TestCase):
    models = {}

    @classmethod
    def model(cls, name):
        if name not in cls.models:
            cls.models[name] = accel.Model(PATHS[name], device="cpu")
        return cls.models[name]

    def post(self, path, body, status=200):
        got = server.post(path, body)
        self.assertEqual(got.status, status, got)
        return got.json()

    def refused(self, path, body, word, status=400):
        error = self.post(path, body, status)["error"]
        self.assertIn(word, error["message"])
        return error


class Vectors(Routes):
    def test_embed_is_the_librarys_bit_by_bit(self):
        want = bits(self.model("embedder").embed(TEXTS, normalize=True))
        for path in ("/embed", "/v1/embed", "/accel/run/feature-extraction"):
            self.assertEqual(bits(self.post(path, {"inputs": TEXTS, "model": "embedder"})), want)
        self.assertEqual(bits(self.post("/embed", {"inputs": TEXTS[0]})), want[:1])
        self.assertEqual(bits(self.post("/", {"inputs": TEXTS})), want)
        plain = bits(self.model("embedder").embed(TEXTS, normalize=False, prompt_name="query"))
        self.assertEqual(bits(self.post("/embed", {"inputs": TEXTS, "normalize": False, "prompt_name": "query"})), plain)
        self.assertNotEqual(plain, want)

    def test_headers(self):
        headers = server.post("/embed", {"inputs": TEXTS, "colour": 1}).headers
        self.assertEqual(headers["x-compute-type"], "cpu")
        self.assertEqual(headers["x-compute-characters"], str(sum(map(len, TEXTS))))
        self.assertGreater(int(headers["x-compute-tokens"]), 5)
        self.assertEqual(headers["x-accel-ignored"], "colour")

    def test_fewer_dimensions(self):
        whole = list(self.model("embedder").embed(TEXTS[:1], normalize=True)[0])
        got = self.post("/embed", {"inputs": TEXTS[0], "dimensions": 4})[0]
        length = sum(float(x) ** 2 for x in whole[:4]) ** 0.5
        self.assertEqual(len(got), 4)
        for a, b in zip(got, whole):
            self.assertAlmostEqual(a, float(b) / length, 6)
        self.refused("/embed", {"inputs": TEXTS[0], "dimensions": 100000}, "dimensions")

    def test_all_tokens(self):
        want = self.model("bare").embed(TEXTS, pooling="none", normalize=False)
        got = self.post("/embed_all", {"inputs": TEXTS, "model": "bare"})
        self.assertEqual([bits(rows) for rows in got], [bits(rows) for rows in want])
        self.refused("/embed_all", {"inputs": ["word " * 400] * 2000, "truncate": True, "model": "bare"}, "tokens")
        self.refused("/embed", {"inputs": TEXTS, "model": "bare"}, "pooling")
        mean = self.model("bare").embed(TEXTS, pooling="mean", normalize=True)
        self.assertEqual(bits(self.post("/embed", {"inputs": TEXTS, "model": "bare", "pooling": "mean"})), bits(mean))

    def test_texts_that_are_too_long(self):
        long = "word " * 400
        error = self.refused("/embed", {"inputs": [TEXTS[0], long]}, "truncate", 413)
        self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", "inputs"))
        want = bits(self.model("embedder").embed([long], normalize=True))
        self.assertEqual(bits(self.post("/embed", {"inputs": long, "truncate": True})), want)
        self.refused("/embed", {"inputs": long, "truncate": True, "truncation_direction": "Left"}, "truncation_direction")
        self.post("/embed", {"inputs": TEXTS[0], "truncate": True, "truncation_direction": "Left"})
        self.refused("/predict", {"inputs": long}, "truncate", 413)
        self.refused("/rerank", {"query": "a", "texts": [long]}, "truncate", 413)
        self.post("/v1/rerank", {"query": "a", "documents": [long]})

    def test_similarity(self):
        vectors = [[float(x) for x in row] for row in self.model("embedder").embed(TEXTS)]

        def cosine(a, b):
            return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
        for path in ("/similarity", "/v1/similarity", "/accel/run/sentence-similarity", "/"):
            got = self.post(path, {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}})
            for a, b in zip(got, (cosine(vectors[0], v) for v in vectors[1:])):
                self.assertAlmostEqual(a, b, 12)
        self.refused("/similarity", {"inputs": TEXTS}, "source_sentence")

    def test_cohere(self):
        want = bits(self.model("embedder").embed(TEXTS))
        body = {"texts": TEXTS, "input_type": "classification", "embedding_types": ["float"], "model": "embedder"}
        second = self.post("/v2/embed", body)
        self.assertEqual(bits(second["embeddings"]["float"]), want)
        self.assertEqual(second["texts"], TEXTS)
        first = self.post("/v1/embed", {"texts": TEXTS, "model": "embedder"})
        self.assertEqual(bits(first["embeddings"]), want)
        asked = self.post("/v1/embed", {"texts": TEXTS, "input_type": "search_query"})
        self.assertEqual(bits(asked["embeddings"]), bits(self.model("embedder").embed(TEXTS, prompt_name="query")))
        self.refused("/v2/embed", {**body, "embedding_types": ["int8"]}, "embedding_types")

    def test_sparse(self):
        tokenizer, model = accel.Tokenizer(PATHS["masks"]), self.model("masks")
        for text in ("the quick fox", "word " * 400):
            ids = tokenizer([text])["input_ids"][0]
            ids = [int(i) for i in ids]
            most = model.max_length
            ids = ids if len(ids) <= most else ids[:most - 1] + ids[-1:]
            rows = [[float(x) for x in row] for row in model(input_ids=[ids]).logits[0]]
            largest = [max(0.0, *column) for column in zip(*rows)]
            want = [(i, struct.unpack("<f", struct.pack("<f", math.log1p(x)))[0]) for i, x in enumerate(largest) if x > 0]
            got = self.post("/embed_sparse", {"inputs": [text], "truncate": True})[0]
            self.assertEqual([x["index"] for x in got], [i for i, _ in want])
            for a, (_, b) in zip(got, want):
                self.assertAlmostEqual(a["value"], b, 6)
        self.refused("/embed_sparse", {"inputs": "word " * 400}, "truncate", 413)
        self.refused("/embed_sparse", {"inputs": "a", "model": "embedder"}, "masked")

    def test_what_is_refused(self):
        for body, word in (({}, "inputs"), ({"inputs": 5}, "inputs"), ({"inputs": []}, "inputs"), ({"inputs": ["a", 1]}, "element 1"),
                           ({"inputs": "a", "normalize": "yes"}, "normalize"), ({"inputs": "a", "dimensions": -1}, "dimensions"),
                           ({"inputs": "a", "prompt_name": "nobody"}, "nobody"), ({"inputs": "a", "truncation_direction": "Up"}, "truncation_direction"),
                           ({"inputs": ["a"] * 5000}, "4096"), ({"inputs": "a", "model": 3}, "model"),
                           ({"inputs": "a", "encoding_format": "base64"}, "encoding_format")):
            self.refused("/embed", body, word)
        self.post("/embed", {"inputs": "a", "model": "nobody"}, 404)


class Scores(Routes):
    def test_predict(self):
        found = self.model("classes").classify(TEXTS, top_k=0)
        want = [[{"label": x["label"], "score": x["score"]} for x in row] for row in found]
        self.assertEqual(self.post("/predict", {"inputs": TEXTS[0]}), want[0])
        self.assertEqual(self.post("/v1/predict", {"inputs": [[t] for t in TEXTS]}), want)
        self.assertEqual(self.post("/accel/run/text-classification", {"inputs": TEXTS}), want)
        self.assertEqual(self.post("/", {"inputs": TEXTS[0], "model": "classes"}), want[:1])
        pair = self.model("classes").classify(TEXTS[:1], TEXTS[1:2], top_k=0)[0]
        self.assertEqual([x["score"] for x in self.post("/predict", {"inputs": TEXTS[:2]})], [x["score"] for x in pair])
        raw = self.model("classes").classify(TEXTS[:1], top_k=0, function="none")[0]
        self.assertEqual([x["score"] for x in self.post("/predict", {"inputs": TEXTS[0], "raw_scores": True})], [x["score"] for x in raw])
        self.refused("/predict", {"inputs": [["a", "b", "c"]]}, "element 0")

    def test_classify(self):
        found = self.model("classes").classify(TEXTS, top_k=0)
        for path in ("/classify", "/v1/classify"):
            got = self.post(path, {"input": TEXTS, "model": "classes"})
            self.assertEqual([row["label"] for row in got["data"]], [row[0]["label"] for row in found])
            self.assertEqual([sorted(row["probs"]) for row in got["data"]], [sorted(x["score"] for x in row) for row in found])
            self.assertGreater(got["usage"]["prompt_tokens"], 5)

    def test_rerank(self):
        query = "what does the dog do?"
        for name in ("ranker", "asked"):
            want = [(x["corpus_id"], x["score"]) for x in self.model(name).rerank(query, TEXTS, function="sigmoid")]
            tei = self.post("/rerank", {"query": query, "texts": TEXTS, "model": name, "return_text": True})
            self.assertEqual([(x["index"], x["score"]) for x in tei], want)
            self.assertEqual([x["text"] for x in tei], [TEXTS[i] for i, _ in want])
            for path in ("/v1/rerank", "/rerank", "/v2/rerank"):
                got = self.post(path, {"query": query, "documents": TEXTS, "model": name, "top_n": 2})
                self.assertEqual([(x["index"], x["relevance_score"]) for x in got["results"]], want[:2])
        jina = self.post("/v1/rerank", {"query": query, "documents": [{"text": t} for t in TEXTS]})
        self.assertEqual(jina["results"][0]["document"]["text"], TEXTS[jina["results"][0]["index"]])
        self.assertGreater(jina["usage"]["total_tokens"], 10)
        second = self.post("/v2/rerank", {"query": query, "documents": TEXTS})
        self.assertNotIn("document", second["results"][0])
        self.assertEqual(second["meta"]["api_version"]["version"], "2")
        raw = self.model("ranker").rerank(query, TEXTS, function="none")
        self.assertEqual([x["score"] for x in self.post("/rerank", {"query": query, "texts": TEXTS, "raw_scores": True})], [x["score"] for x in raw])
        for body, word in (({"documents": TEXTS}, "query"), ({"query": "a", "documents": []}, "documents"), ({"query": "a", "documents": [3]}, "element 0"),
                           ({"query": "a", "documents": TEXTS, "top_n": 0}, "top_n"), ({"query": "a", "documents": TEXTS, "rank_fields": ["title"]}, "rank_fields")):
            self.refused("/v1/rerank", body, word)

    def test_info(self):
        got = server.get("/info?model=classes").json()
        self.assertEqual((got["model_id"], got["model_dtype"]), ("classes", "float32"))
        self.assertIn("0", got["model_type"]["classifier"]["id2label"])
        self.assertIn("reranker", server.get("/v1/info?model=ranker").json()["model_type"])
        self.assertIn("embedding", server.get("/info").json()["model_type"])


class Tokens(Routes):
    def test_there_and_back(self):
        tokenizer = accel.Tokenizer(PATHS["embedder"])
        want = [list(row) for row in tokenizer(TEXTS)["input_ids"]]
        got = self.post("/tokenize", {"inputs": TEXTS})
        self.assertEqual([[t["id"] for t in row] for row in got], want)
        for row, text in zip(got, TEXTS):
            self.assertTrue(row[0]["special"] and row[0]["start"] is None)
            self.assertTrue(all(text[t["start"]:t["stop"]] == t["text"] for t in row if not t["special"]))
        bare = self.post("/tokenize", {"inputs": TEXTS[0], "add_special_tokens": False})
        self.assertEqual([t["id"] for t in bare[0]], want[0][1:-1])
        vllm = self.post("/v1/tokenize", {"prompt": TEXTS[0], "return_token_strs": True})
        self.assertEqual((vllm["tokens"], vllm["count"], len(vllm["token_strs"])), (want[0], len(want[0]), len(want[0])))
        llama = self.post("/tokenize", {"content": TEXTS[0], "add_special": True})
        self.assertEqual(llama["tokens"], want[0])
        pieces = self.post("/tokenize", {"content": TEXTS[0], "with_pieces": True})["tokens"]
        self.assertEqual([p["id"] for p in pieces], want[0][1:-1])
        text = tokenizer.decode(want[0][1:-1])
        self.assertEqual(self.post("/decode", {"ids": want[0]}), [text])
        self.assertEqual(self.post("/decode", {"ids": want}), [tokenizer.decode(row, skip_special_tokens=True) for row in want])
        both = self.post("/detokenize", {"tokens": want[0][1:-1]})
        self.assertEqual((both["prompt"], both["content"]), (text, text))
        for path, body, word in (("/tokenize", {}, "prompt"), ("/tokenize", {"messages": []}, "messages"), ("/decode", {"ids": ["a"]}, "element 0"),
                                 ("/decode", {"ids": [[1], [1e12]]}, "element 0"), ("/detokenize", {"tokens": 4}, "tokens")):
            self.refused(path, body, word)


class Sounds(Routes):
    def hear(self, path, fields, sound=SHORT, status=200):
        body, kind = form(fields, [("file", "sound.wav", read(sound))])
        got = server.post(path, body, headers={"Content-Type": kind})
        self.assertEqual(got.status, status, got)
        return got.body.decode()

    def test_forms(self):
        model = self.model("hearing")
        plain = model.transcribe([LONG])[0]["text"].lstrip(" ")
        stamped = model.transcribe([LONG], timestamps="segment")[0]
        for path in ("/v1/audio/transcriptions", "/audio/transcriptions"):
            answer = json.loads(self.hear(path, [("model", "hearing")], LONG))
            self.assertEqual((answer["text"], answer["usage"]["type"]), (plain, "duration"))
        self.assertEqual(self.hear(path, [("model", "hearing"), ("response_format", "text")], LONG), plain + "\n")
        verbose = json.loads(self.hear(path, [("model", "hearing"), ("response_format", "verbose_json")], LONG))
        self.assertEqual([(s["text"], s["start"], s["end"], s["tokens"]) for s in verbose["segments"]],
                         [(s["text"], s["start"], s["end"], s["ids"]) for s in stamped["segments"]])
        self.assertEqual((verbose["language"], verbose["duration"]), (stamped["language"], stamped["seconds"]))
        self.assertTrue(all(s["avg_logprob"] <= 0 <= s["no_speech_prob"] <= 1 < 1e9 for s in verbose["segments"]))
        srt = self.hear(path, [("model", "hearing"), ("response_format", "srt")], LONG)
        self.assertEqual(srt.count(" --> "), sum(bool(s["text"].strip(" ")) for s in stamped["segments"]))
        self.assertTrue(self.hear(path, [("model", "hearing"), ("response_format", "vtt")], LONG).startswith("WEBVTT\n\n00:00:"))

    def test_words(self):
        want = self.model("words").transcribe([SHORT], timestamps="word")[0]["chunks"]
        got = json.loads(self.hear("/v1/audio/transcriptions", [("model", "words"), ("response_format", "verbose_json"),
                                                                ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")]))
        self.assertEqual([(w["word"], w["start"]) for w in got["words"]], [(w["text"].lstrip(" "), w["timestamp"][0]) for w in want])
        self.assertTrue(got["segments"])
        letters = json.loads(self.hear("/v1/audio/transcriptions", [("model", "letters"), ("response_format", "verbose_json")]))
        self.assertEqual(letters["text"], self.model("letters").transcribe([SHORT])[0]["text"].lstrip(" "))
        self.assertIn("words", letters)

    def test_options(self):
        model, path = self.model("hearing"), "/v1/audio/transcriptions"
        french = model.transcribe([SHORT], language="fr", prompt="names")[0]["text"].lstrip(" ")
        self.assertEqual(json.loads(self.hear(path, [("model", "hearing"), ("language", "fr"), ("prompt", "names")]))["text"], french)
        english = model.transcribe([SHORT], task="translate")[0]["text"].lstrip(" ")
        self.assertEqual(json.loads(self.hear("/v1/audio/translations", [("model", "hearing")]))["text"], english)
        for fields, word in (([("language", "zz")], "zz"), ([("response_format", "xml")], "response_format"), ([("temperature", "hot")], "temperature"),
                             ([("temperature", "3")], "temperature"), ([("timestamp_granularities[]", "word")], "verbose_json"),
                             ([("stream", "true"), ("response_format", "srt")], "stream"), ([("include[]", "logprobs")], "include")):
            self.assertIn(word, json.loads(self.hear(path, [("model", "hearing"), *fields], status=400))["error"]["message"])
        body, kind = form([("model", "hearing")], [])
        self.assertEqual(server.post(path, body, headers={"Content-Type": kind}).status, 400)
        body, kind = form([("model", "hearing")], [("file", "a.wav", b"no sound at all")])
        self.assertEqual(server.post(path, body, headers={"Content-Type": kind}).status, 400)

    def test_a_sound_of_hours_is_refused(self):
        path = os.path.join(server.folder.name, "hours.wav")
        with wave.open(path, "wb") as w:
            w.setnchannels(1), w.setsampwidth(1), w.setframerate(1000)
            w.writeframes(b"\x80" * (7201 * 1000))
        error = json.loads(self.hear("/v1/audio/transcriptions", [("model", "hearing")], path, 400))["error"]
        self.assertIn("7200", error["message"])

    def test_stream(self):
        """The deltas together are the text, and they come segment by segment."""
        for sound, least in ((LONG, 2), (SHORT, 1)):
            plain = json.loads(self.hear("/v1/audio/transcriptions", [("model", "hearing")], sound))["text"]
            events = [json.loads(line[6:]) for line in self.hear("/v1/audio/transcriptions", [("model", "hearing"), ("stream", "true")], sound).splitlines() if line]
            self.assertEqual([e["type"] for e in events], ["transcript.text.delta"] * (len(events) - 1) + ["transcript.text.done"])
            self.assertEqual("".join(e["delta"] for e in events[:-1]), plain)
            self.assertEqual(events[-1]["text"], plain)
            self.assertGreater(len(events), least)


    def test_a_client_that_leaves(self):
        """Minutes of noise are not heard to their end for nobody."""
        path = os.path.join(server.folder.name, "noise.wav")
        with wave.open(path, "wb") as w:
            w.setnchannels(1), w.setsampwidth(1), w.setframerate(8000)
            w.writeframes(random.Random(1).randbytes(300 * 8000))

        def cancelled():
            return sum(int(n) for n in re.findall(r'route="/v1/audio/transcriptions",status="499"} (\d+)', server.get("/metrics").body.decode()))
        before = cancelled()
        body, kind = form([("model", "hearing")], [("file", "noise.wav", read(path))])
        with server.connect() as s:
            s.sendall(f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            end = time.monotonic() + 120
            while not server.figure("accel_http_requests_running") and time.monotonic() < end:
                time.sleep(0.01)
        while cancelled() == before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(cancelled(), before + 1)


class Speech(Routes):
    def test_wav_and_pcm(self):
        model = self.model("voice")
        sound = model.text_to_speech(["annie"], seed=5, speaker=2, speaking_rate=1.25)[0]
        wish = {"model": "voice", "input": "annie", "voice": "2", "speed": 1.25, "seed": 5}
        for path in ("/v1/audio/speech", "/audio/speech"):
            got = server.post(path, wish)
            self.assertEqual((got.status, got.headers["content-type"]), (200, "audio/wav"), got)
            samples = struct.unpack(f"<{len(got.body) // 2 - 22}h", got.body[44:])
            self.assertEqual(len(samples), len(sound.samples))
            self.assertLessEqual(max(abs(a - 32767 * float(b)) for a, b in zip(samples, sound.samples)), 0.51)
        raw = server.post(path, {**wish, "response_format": "pcm"})
        self.assertEqual((raw.status, raw.body, raw.headers["x-sampling-rate"]), (200, got.body[44:], "8000"))
        nobody = server.post(path, {"input": "annie", "voice": "default"})  # the first model that speaks
        self.assertEqual(nobody.status, 200)

    def test_refusals(self):
        path, wish = "/v1/audio/speech", {"model": "voice", "input": "annie"}
        for more, word in (({"response_format": "mp3"}, "mp3"), ({"voice": "alloy"}, "alloy"), ({"voice": "9"}, "speaker 9"), ({"speed": 9}, "speed"),
                           ({"input": "123"}, "no character"), ({"input": None}, "input"), ({"instructions": "whisper"}, "instructions"),
                           ({"stream_format": "sse"}, "stream_format")):
            self.refused(path, {**wish, **more}, word)


class Tasks(Routes):
    def run_task(self, task, model, inputs, **parameters):
        return self.post(f"/accel/run/{task}", {"model": model, "inputs": inputs, "parameters": parameters})

    def test_texts(self):
        def pipe(task, name):
            return accel.pipeline(task, self.model(name))
        text = "the fox met Anna in Berlin"
        for strategy in ("none", "simple"):
            self.assertEqual(self.run_task("token-classification", "tokens", text, aggregation_strategy=strategy),
                             pipe("token-classification", "tokens")(text, aggregation_strategy=strategy))
        ask = {"question": "who met Anna?", "context": text}
        self.assertEqual(self.run_task("question-answering", "answers", ask), pipe("question-answering", "answers")(ask))
        self.assertEqual(self.run_task("question-answering", "answers", ask, top_k=2), pipe("question-answering", "answers")(ask, top_k=2))
        masked = "the [MASK] fox"
        self.assertEqual(self.run_task("fill-mask", "masks", masked, top_k=3), pipe("fill-mask", "masks")(masked, top_k=3))
        how = {"candidate_labels": "cat, bank,london", "hypothesis_template": "it is of the {}", "multi_label": True}
        for asked in (text, [text, masked]):
            want = pipe("zero-shot-classification", "nli")(asked, **how)
            want = [[dict(zip(("label", "score"), pair)) for pair in zip(w["labels"], w["scores"])] for w in (want if isinstance(want, list) else [want])]
            self.assertEqual(self.run_task("zero-shot-classification", "nli", asked, **how), want if isinstance(asked, list) else want[0])
        self.assertEqual(self.run_task("text2text-generation", "t5", "the fox", max_new_tokens=8),
                         pipe("text2text-generation", "t5")("the fox", max_new_tokens=8))
        self.assertEqual(self.run_task("text-generation", "writer", "the fox", max_new_tokens=8), pipe("text-generation", "writer")("the fox", max_new_tokens=8))
        self.assertEqual(self.run_task("text-generation", "writer", ["the fox", "a dog"], max_new_tokens=4, return_full_text=False),
                         pipe("text-generation", "writer")(["the fox", "a dog"], max_new_tokens=4, return_full_text=False))

    def test_pictures(self):
        data, raw = uri(PICTURE, "image/jpeg"), read(PICTURE)
        want = self.model("labels").classify_images([PICTURE], top_k=3)[0]
        for given in (data, data.split(",")[1]):
            got = self.run_task("image-classification", "labels", given, top_k=3)
            self.assertEqual([(x["label"], x["score"]) for x in got], [(x["label"], x["score"]) for x in want])
        for headers in ({"Content-Type": "image/jpeg"}, {}):
            self.assertEqual(server.post("/accel/run/image-classification", raw, headers=headers).json()[0]["score"], want[0]["score"])
        self.assertEqual(self.run_task("object-detection", "boxes", [data], threshold=0.0), self.model("boxes").detect_objects([PICTURE], 0.0))
        free = self.run_task("zero-shot-image-classification", "free", data, candidate_labels="cat, dog")
        self.assertEqual([(x["label"], x["score"]) for x in free],
                         [(x["label"], x["score"]) for x in self.model("free").zero_shot_image([PICTURE], ["cat", "dog"])[0]])
        said = self.run_task("image-to-text", "captions", data, max_new_tokens=6)
        self.assertEqual(said[0]["generated_text"], self.model("captions").generate_images([(None, [PICTURE])], max_new_tokens=6)[0].text)
        asked = self.run_task("visual-question-answering", "questions", {"image": data, "question": "what is it?"}, max_new_tokens=6)
        self.assertEqual(asked[0]["answer"], self.model("questions").generate_images([("what is it?", [PICTURE])], kind="question", max_new_tokens=6)[0].text)

    def test_regions(self):
        data = uri(PICTURE, "image/jpeg")
        want = self.model("regions").generate_regions([("<OD>", [PICTURE])], max_new_tokens=32)[0]
        self.assertTrue(want["regions"])
        self.assertEqual(self.run_task("image-to-text", "regions", data, prompt="<OD>", max_new_tokens=32), [{"generated_text": want["text"], "regions": want["regions"]}])
        found = self.run_task("object-detection", "regions", data)
        self.assertEqual([(o["label"], o["box"], o["score"]) for o in found], [(o["label"], o["box"], None) for o in self.model("regions").detect_objects([PICTURE])[0]])

    def test_segments(self):
        got = self.run_task("image-segmentation", "segments", uri(PICTURE, "image/jpeg"))
        want = self.model("segments").segment_images([PICTURE])[0]
        self.assertEqual([s["label"] for s in got], [s["label"] for s in want.segments])
        for segment in got:
            mask = base64.b64decode(segment["mask"])
            self.assertEqual((mask[:8], mask[24:26]), (b"\x89PNG\r\n\x1a\n", b"\x08\x00"))
            self.assertEqual(struct.unpack(">II", mask[16:24]), (want.width, want.height))

    def test_depth(self):
        got = self.run_task("depth-estimation", "depths", uri(PICTURE, "image/jpeg"))
        (want,) = self.model("depths").estimate_depth([PICTURE])
        self.assertEqual((got["min"], got["max"]), (want.least, want.most))
        grey = base64.b64decode(got["depth"])
        self.assertEqual((grey[:8], struct.unpack(">IIBB", grey[16:26])), (b"\x89PNG\r\n\x1a\n", (want.width, want.height, 8, 0)))
        self.assertEqual(len(self.run_task("depth-estimation", "depths", [uri(PICTURE, "image/jpeg")] * 2)), 2)

    def test_image_features(self):
        for pool in (False, True):
            got = self.run_task("image-feature-extraction", "features", [uri(PICTURE, "image/jpeg")], pool=pool)
            (want,) = self.model("features").image_features([PICTURE], pool)
            self.assertEqual(bits(got[0] if pool else got[0][0]), bits((want if pool else want[0]).tolist()))
        self.assertEqual(self.run_task("image-feature-extraction", "features", uri(PICTURE, "image/jpeg"), pool=True), got[0])
        self.refused("/accel/run/image-feature-extraction", {"model": "labels", "inputs": uri(PICTURE, "image/jpeg")}, "no last_hidden_state", 400)

    def test_documents(self):
        words = [["Total:", [20, 40, 90, 75]], ["31.50", [110, 40, 180, 75]]]
        asked = {"question": "What is the total?", "word_boxes": words}
        got = self.run_task("document-question-answering", "forms", asked, top_k=2)
        self.assertEqual(got, self.model("forms").answer_documents([asked], top_k=2)[0])
        (answer,) = self.run_task("document-question-answering", "pages", {"question": "Who?", "image": uri(PICTURE, "image/jpeg")})
        self.assertEqual([answer], self.model("pages").answer_documents([{"question": "Who?", "image": PICTURE}])[0])
        for bad in ({"question": "Who?", "word_boxes": [["a", [1, 2, 3]]]}, {"word_boxes": words}, {"question": "Who?"}):
            self.assertEqual(server.post("/accel/run/document-question-answering", {"model": "forms", "inputs": bad}).status, 400)

    def test_sounds(self):
        got = server.post("/accel/run/automatic-speech-recognition", read(SHORT), headers={"Content-Type": "audio/wav"}).json()
        self.assertEqual(got["text"], self.model("hearing").transcribe([SHORT])[0]["text"])
        got = self.run_task("automatic-speech-recognition", "hearing", uri(SHORT, "audio/wav"), return_timestamps=True)
        self.assertEqual([tuple(c["timestamp"]) for c in got["chunks"]], [c["timestamp"] for c in self.model("hearing").transcribe([SHORT], "auto")[0]["chunks"]])
        heard = self.run_task("audio-classification", "sounds", [uri(SHORT, "audio/wav")], top_k=2)
        self.assertEqual([x["score"] for x in heard[0]], [x["score"] for x in self.model("sounds").classify_sounds([SHORT], top_k=2)[0]])
        chosen = self.run_task("zero-shot-audio-classification", "noises", uri(SHORT, "audio/wav"), candidate_labels=["cat", "dog"], hypothesis_template="a {}")
        self.assertEqual([(x["label"], x["score"]) for x in chosen],
                         [(x["label"], x["score"]) for x in self.model("noises").zero_shot_audio([SHORT], ["cat", "dog"], "a {}")[0]])

    def test_what_is_refused(self):
        run = "/accel/run/image-classification"
        for given, word in (("http://127.0.0.1/a.png", "URLs"), ("file:///etc/passwd", "URLs"), ("data:image/png,abc", "base64"), ("%%%", "base64"),
                            ("/etc/passwd!", "base64"), ("", "empty"), (base64.b64encode(b"no picture").decode(), "picture")):
            self.refused(run, {"inputs": given}, word)
        wide = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 100000, 100000) + b"\x08\x02\0\0\0" + b"\0" * 40
        self.refused(run, {"inputs": base64.b64encode(wide).decode()}, "pixels")
        half = base64.b64encode(wide[:16] + struct.pack(">II", 6000, 5000) + wide[24:]).decode()
        self.refused(run, {"inputs": [half, half]}, "pixels")
        self.refused(run, {"inputs": ["AAAA"] * 65}, "64")
        self.refused("/accel/run/audio-classification", {"inputs": ["AAAA"] * 9}, "8")
        error = self.refused(run, {"inputs": "AAAA", "model": "embedder"}, "embedder")
        self.assertNotIn(ROOT, error["message"], "paths are not for clients")
        self.post("/accel/run/nothing", {"inputs": "a"}, 404)
        self.refused("/accel/run/fill-mask", {"inputs": "no mask", "model": "masks"}, "mask")


class Keys(Routes):
    def test_every_route_asks_for_the_key(self):
        """Of the server's own address, too, whose page needs none."""
        with tempfile.TemporaryDirectory() as folder:
            path, key = os.path.join(folder, "keys"), "a-key-of-the-tests-0123456789"
            with open(path, "w", encoding="ascii") as f:
                f.write(key + "\n")
            mine = Server("embedder=" + PATHS["embedder"], options=["--api-key-file", path])
            self.addCleanup(mine.stop)
            for route in sorted(set(posts())) + ["/"]:
                self.assertEqual(mine.post(route, {"inputs": "a"}).status, 401, route)
                self.assertNotEqual(mine.post(route, {"inputs": "a"}, headers={"Authorization": "Bearer " + key}).status, 401, route)


class Together(Routes):
    def test_company_changes_no_answer(self):
        """Requests of all kinds at once give what each gives alone, byte by byte."""
        data, sound = uri(PICTURE, "image/jpeg"), form([("model", "hearing")], [("file", "a.wav", read(SHORT))])
        calls = [("/embed", {"inputs": TEXTS}), ("/embed", {"inputs": TEXTS[1]}), ("/embed_all", {"inputs": TEXTS}), ("/predict", {"inputs": [[t] for t in TEXTS]}),
                 ("/rerank", {"query": "a dog", "texts": TEXTS}), ("/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS}}),
                 ("/tokenize", {"inputs": TEXTS}), ("/embed_sparse", {"inputs": TEXTS[0]}),
                 ("/accel/run/text-generation", {"inputs": "the fox", "max_new_tokens": 12}), ("/accel/run/fill-mask", {"inputs": "the [MASK] fox"}),
                 ("/accel/run/image-classification", {"inputs": data}), ("/accel/run/object-detection", {"inputs": data, "threshold": 0.1}),
                 ("/accel/run/image-to-text", {"inputs": data, "max_new_tokens": 6}), ("/accel/run/translation", {"inputs": TEXTS, "max_new_tokens": 6}),
                 ("/v1/audio/transcriptions", sound)]

        def ask(call):
            path, body = call
            got = server.post(path, body[0], headers={"Content-Type": body[1]}) if isinstance(body, tuple) else server.post(path, body)
            self.assertEqual(got.status, 200, (path, got))
            return got.body
        alone = [ask(call) for call in calls]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual(list(pool.map(ask, calls * 6)), alone * 6)


class Hostile(Routes):
    """Whatever members hold, the answer is one of 200 and 4xx, and the server goes on."""
    VALUES = [None, True, -1, 0, 1e300, 2 ** 53, "", "a", "\u00e9\u4e2d", "http://x/y.png", "data:image/png;base64,", "data:;base64,AAAA", [], [[]], [None],
              ["a", 1], [["a"], "b"], [[["a"]]], {}, {"text": 1}, {"image": "AAAA", "question": "a", "text": "a", "context": "b"}, {"source_sentence": 1},
              {"source_sentence": "a", "sentences": []}, {"source_sentence": "a", "sentences": [1]}, [{}], [{"question": "a"}], [{"text": "a", "text_pair": 5}]]

    def test_members_of_all_kinds(self):
        bodies = [{}, {"inputs": "a"}] + [{name: value} for name in ("inputs", "texts", "documents", "tokens", "ids", "prompt", "content", "input") for value in self.VALUES]
        bodies += [{"inputs": "a", "query": "q", "texts": ["a"], "documents": ["a"], "input": "a", name: value}
                   for name in ("model", "truncate", "top_k", "top_n", "parameters", "dimensions", "candidate_labels", "stop", "max_new_tokens", "return_timestamps",
                                "rank_fields", "embedding_types", "targets") for value in self.VALUES[:6] + self.VALUES[12:15]]
        seen = set()
        for i, path in enumerate(sorted(set(posts()))):
            for body in bodies[i % 7::7]:  # each body at a seventh of the routes
                got = server.post(path, {"max_new_tokens": 2, **body} if "run" in path else body)
                self.assertTrue(got.status == 200 or 400 <= got.status < 500, (path, body, got))
                seen.add(got.status)
        self.assertEqual(server.get("/health").status, 200)
        self.assertTrue({200, 400} <= seen)


if __name__ == "__main__":
    unittest.main()
