"""`accel transcribe` with Whisper: the answers of transformers' pipeline for the same sounds (tests/fixtures/speech, made by
tests/goldens/make_speech_goldens.py and make_whisper_word_goldens.py), the forms of the output, and what must be refused.
"""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
import wave

from test_tasks import DEVICES, ROOT, accel

FIXTURES = os.path.join(ROOT, "tests", "fixtures")
SPEECH = os.path.join(FIXTURES, "speech")
MANY, ENGLISH, WORDS = (os.path.join(SPEECH, name) for name in ("many", "english", "words"))
SHORT, LONG = os.path.join(SPEECH, "short.wav"), os.path.join(SPEECH, "long.wav")
BUILD = os.environ.get("ACCEL_BUILD", os.path.join(ROOT, "build", "release"))
ACCEL = os.path.join(BUILD, "bin", "accel")


def transcribe(*args, **how):
    out, _ = accel("transcribe", *args, "--device", "cpu", "--quiet", "--json", **how)
    return json.loads(out)["results"]


class Speech(unittest.TestCase):
    def test_as_python_gives_it(self):
        for device in DEVICES:
            for name in ("many", "english", "words", "words_english"):
                with open(os.path.join(SPEECH, name, "golden.json"), encoding="utf-8") as f:
                    golden = json.load(f)
                for case in golden["cases"]:
                    with self.subTest(device=device, model=name, args=case["args"]):
                        files = [os.path.join(FIXTURES, f) for f in case["files"]]
                        out, _ = accel("transcribe", os.path.join(SPEECH, name), *files, "--device", device, "--json", "--quiet", *case["args"])
                        got = json.loads(out)["results"]
                        self.assertEqual([r["text"] for r in got], [r["text"] for r in case["want"]])
                        self.assertEqual([[(c["text"], c["timestamp"]) for c in r.get("chunks", [])] for r in got],
                                         [[(c["text"], c["timestamp"]) for c in r.get("chunks", [])] for r in case["want"]])

    def test_a_sound_does_not_depend_on_its_company(self):
        alone = [transcribe(MANY, s, "--timestamps", "segment")[0] for s in (SHORT, LONG)]
        self.assertEqual(transcribe(MANY, LONG, SHORT, LONG, "--timestamps", "segment"), [alone[1], alone[0], alone[1]])

    def test_subtitles(self):
        segments = transcribe(MANY, LONG, "--timestamps", "segment", "--max-new-tokens", "16")[0]["segments"]
        cues = [s for s in segments if s["text"].strip(" ")]
        self.assertGreater(len(cues), 2)
        srt, _ = accel("transcribe", MANY, LONG, "--format", "srt", "--max-new-tokens", "16", "--quiet", "--device", "cpu")
        vtt, _ = accel("transcribe", MANY, LONG, "--format", "vtt", "--max-new-tokens", "16", "--quiet", "--device", "cpu")
        self.assertEqual(srt.count(" --> "), len(cues))
        self.assertTrue(srt.startswith("1\n00:00:0"), srt)
        self.assertTrue(vtt.startswith("WEBVTT\n\n00:00:0"), vtt)
        first = srt.splitlines()[1]
        self.assertEqual(first, "00:00:%02d,%03d --> 00:00:%02d,%03d" % tuple(x for t in cues[0]["timestamp"] for x in divmod(round(t * 1000), 1000)))

    def test_stdin(self):
        with wave.open(SHORT) as w:
            rate, samples = w.getframerate(), w.readframes(w.getnframes())
        with open(SHORT, "rb") as f:
            data = f.read()
        want = transcribe(MANY, SHORT)
        for given, more in ((samples, ["--pcm", str(rate)]), (data, [])):
            done = subprocess.run([ACCEL, "transcribe", MANY, "-", "--json", "--quiet", "--device", "cpu", *more], input=given, stdout=subprocess.PIPE)
            self.assertEqual(json.loads(done.stdout)["results"], want)
        done = subprocess.run([ACCEL, "transcribe", MANY, "-", "--pcm", str(rate)], input=samples[:-1], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no 16-bit samples", done.stderr)

    def test_fallback(self):
        """Each rule alone sends a segment to the next temperature, and the last one is taken as it is."""
        plain = transcribe(MANY, SHORT)[0]["segments"][0]
        self.assertEqual(plain["temperature"], 0)
        for rule in (["--logprob-threshold", "0"], ["--compression-ratio-threshold", "0.01"]):
            got = transcribe(MANY, SHORT, "--temperatures", "0,0.3,0.7", *rule)[0]["segments"][0]
            self.assertEqual(got["temperature"], 0.7)
        kept = transcribe(MANY, SHORT, "--temperatures", "0,0.3", "--logprob-threshold", "-1000", "--compression-ratio-threshold", "1000")[0]["segments"][0]
        self.assertEqual((kept["temperature"], kept["ids"]), (0, plain["ids"]))
        self.assertLess(kept["avg_logprob"], 0)
        silent = transcribe(MANY, SHORT, "--logprob-threshold", "0", "--no-speech-threshold", "0")[0]
        self.assertEqual((silent["text"], silent["segments"]), ("", []))
        same = [transcribe(MANY, SHORT, "--temperatures", "0.9", "--seed", str(seed))[0]["ids"] for seed in (1, 1, 2)]
        self.assertEqual(same[0], same[1])
        self.assertNotEqual(same[0], same[2])

    def test_refused(self):
        for args, words in (
                ([MANY, SHORT, "--language", "klingon"], "language 'klingon' is not known"),
                ([MANY, SHORT, "--language", "it"], "lang_to_id has no language 'it'"),
                ([ENGLISH, SHORT, "--language", "fr"], "is_multilingual is false"),
                ([ENGLISH, SHORT, "--task", "translate"], "is_multilingual is false"),
                ([MANY, SHORT, "--task", "encode"], "transcribe or translate"),
                ([MANY, SHORT, "--timestamps", "char"], "no timestamps of characters"),
                ([MANY, SHORT, "--timestamps", "segment", "--word-timestamps"], "beside --timestamps segment"),
                ([MANY, SHORT, "--no-speech-threshold", "0.5"], "needs logprob_threshold"),
                ([MANY, SHORT, "--prompt-all", "--prompt", "a"], "needs conditioning"),
                ([MANY, SHORT, "--prompt", "<|en|>"], "special token <|en|>"),
                ([MANY, SHORT, "--prompt", "word " * 40], "tokens"),
                ([MANY, SHORT, "--max-new-tokens", "44"], "has room for 44"),
                ([MANY, SHORT, "--temperatures", "0,x"], "is no list"),
                ([MANY, LONG, "--chunk-length", "1", "--chunk-stride", "0.6,0.5"], "no room beside strides"),
                ([MANY, SHORT, LONG, "--format", "srt"], "is for one sound"),
                ([MANY, SHORT, "--pcm", "16000"], "--pcm is for samples from stdin"),
                ([MANY, os.path.join(FIXTURES, "audio", "sounds", "empty.wav")], "has no samples"),
                ([os.path.join(FIXTURES, "media", "wav2vec2"), SHORT, "--language", "en"], "is for models that generate"),
                ([os.path.join(FIXTURES, "media", "wav2vec2"), SHORT, "--timestamps", "segment"], "is for models that generate")):
            with self.subTest(args=args[1:]):
                done = subprocess.run([ACCEL, "transcribe", *args, "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)

    def test_words(self):
        """Words of the segments together are those of the transcript; subtitles have them, too."""
        found = transcribe(WORDS, LONG, "--word-timestamps", "--max-new-tokens", "20")[0]
        self.assertEqual("".join(c["text"] for c in found["chunks"]), found["text"])
        for s in found["segments"]:
            self.assertEqual("".join(w["text"] for w in s["words"]), s["text"])
        times = [t for c in found["chunks"] for t in c["timestamp"]]
        self.assertTrue(all(0 <= t <= found["seconds"] + 0.02 for t in times), times)
        how = ["transcribe", WORDS, LONG, "--word-timestamps", "--max-new-tokens", "20", "--quiet", "--device", "cpu"]
        srt, vtt, txt = (accel(*how, "--format", f)[0] for f in ("srt", "vtt", "txt"))
        inside, _ = accel("transcribe", MANY, *how[2:], "--format", "vtt")
        self.assertEqual(srt.count(" --> "), len(found["chunks"]))
        self.assertEqual(vtt.count(" --> "), len(found["segments"]))
        self.assertRegex(inside, r"<00:00:0\d\.\d{3}>")
        self.assertGreater(txt.count("\n"), len(found["chunks"]))

    def test_words_need_alignment_heads(self):
        for heads, words in ((None, "has no list alignment_heads"), ([[0, 9]], "expected pairs [layer, head]"), ([[7, 0]], "3 layers"), ([], "has no list")):
            with self.subTest(heads=heads), tempfile.TemporaryDirectory() as work:
                directory = os.path.join(work, "model")
                shutil.copytree(WORDS, directory)
                path = os.path.join(directory, "generation_config.json")
                with open(path, encoding="utf-8") as f:
                    config = json.load(f)
                config["alignment_heads"] = heads
                if heads is None:
                    del config["alignment_heads"]
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(config, f)
                self.assertEqual(transcribe(directory, SHORT)[0]["text"], transcribe(WORDS, SHORT)[0]["text"])
                done = subprocess.run([ACCEL, "transcribe", directory, SHORT, "--word-timestamps", "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 3)
                self.assertIn("generation_config.json", done.stderr)
                self.assertIn(words, done.stderr)

    def test_samples_that_are_no_numbers(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "nan.wav")
            data = struct.pack("<8f", 0, 0, float("nan"), 0, 0, 0, 0, 0)
            with open(path, "wb") as f:
                f.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 3, 1, 16000, 64000, 4, 32) + b"data" + struct.pack("<I", len(data)) + data)
            done = subprocess.run([ACCEL, "transcribe", MANY, path, "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("NaN", done.stderr)

    def test_a_changed_golden_fails(self):
        """Tokens that transformers did not give: exit 6."""
        name = "golden.WhisperForConditionalGeneration.stamps.safetensors"
        with open(os.path.join(MANY, name), "rb") as f:
            data = bytearray(f.read())
        (n,) = struct.unpack("<Q", data[:8])
        begin = json.loads(data[8:8 + n])["out.sequences"]["data_offsets"][0]
        data[8 + n + begin + 8 * 3] ^= 1
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, name)
            with open(path, "wb") as f:
                f.write(data)
            done = subprocess.run([ACCEL, "verify", MANY, "--golden", path, "--device", "cpu", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 6)


class Moonshine(unittest.TestCase):
    model = os.path.join(FIXTURES, "models", "moonshine")

    def test_as_python_gives_it(self):
        """Among them sounds whose length alone ends the text."""
        with open(os.path.join(self.model, "heard.json"), encoding="utf-8") as f:
            cases = json.load(f)
        with wave.open(LONG) as f:
            frames, rate = f.readframes(f.getnframes()), f.getframerate()
        self.assertEqual(len(cases), 4)
        with tempfile.TemporaryDirectory() as place:
            for case in cases:
                with self.subTest(case=case), wave.open(os.path.join(place, "part.wav"), "wb") as f:
                    f.setnchannels(1), f.setsampwidth(2), f.setframerate(rate)
                    f.writeframes(frames[:2 * case["samples"]])
                    f.close()
                    more = ["--max-new-tokens", str(case["max_new_tokens"])] if case["max_new_tokens"] else []
                    got = transcribe(self.model, os.path.join(place, "part.wav"), *more)
                    self.assertEqual([r["text"] for r in got], [case["text"]])

    def test_several_are_each_alone(self):
        both = transcribe(self.model, SHORT, LONG, SHORT)
        self.assertEqual([r["text"] for r in both], [transcribe(self.model, sound)[0]["text"] for sound in (SHORT, LONG, SHORT)])

    def test_refused(self):
        for option, word in ((["--timestamps", "word"], "timestamps"), (["--language", "fr"], "language"), (["--chunk-length", "5"], "windows"), (["--prompt", "x"], "prompt")):
            _, said = accel("transcribe", self.model, SHORT, "--device", "cpu", *option, expected=2)
            self.assertIn(word, said)


if __name__ == "__main__":
    unittest.main()
