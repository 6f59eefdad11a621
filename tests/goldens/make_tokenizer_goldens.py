#!/usr/bin/env python3
"""Trains the small tokenizers of tests/fixtures/tokenizers and writes what the `tokenizers` package makes of the corpus with each.

    pip install tokenizers==0.23.3 sentencepiece
    python3 tests/goldens/make_tokenizer_goldens.py train     writes NAME.json; training is not repeatable bit by bit
    python3 tests/goldens/make_tokenizer_goldens.py goldens   writes NAME.crc from the NAME.json that are there

NAME.crc holds one CRC-32 a string (little-endian): of its encoding, made as tokenizer_corpus.How says, and of its decoded text.
Encodings are written as 32-bit words: pieces; then for each piece its length, ids, type ids, special tokens mask, offsets in code
points (start, end), word ids (-1 none), sequence ids (-1 none).  An encoding that the package refuses is the one word 0xFFFFFFFF.
"""
import base64
import io
import json
import os
import struct
import sys
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_corpus import Random, How, corpus

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "tokenizers")
STRATEGIES = [None, "longest_first", "only_first", "only_second"]

SENTENCES = """
The quick brown fox jumps over the lazy dog, and nobody knows why it does so every single morning.
Embeddings are vectors; two sentences that mean the same should point in nearly the same direction.
I'm sure we'll see what they've done: it's 3.14 times better, isn't it? She said she'd come at 10:45.
A tokenizer cuts text into pieces, the pieces get numbers, and the model never sees a letter again.
Unaffable people rarely embrace unhappiness, playing and replaying the played plays of yesterday.
Der schnelle braune Fuchs springt \u00fcber den faulen Hund, und die Stra\u00dfe ist na\u00df vom Regen.
Les \u00e9l\u00e8ves fran\u00e7ais \u00e9taient d\u00e9j\u00e0 \u00e0 l'\u00e9cole, o\u00f9 l'on c\u00e9l\u00e8bre No\u00ebl et P\u00e2ques.
El ni\u00f1o comi\u00f3 pi\u00f1a ma\u00f1ana por la ma\u00f1ana; \u00bfqu\u00e9 m\u00e1s podr\u00eda querer? \u00a1Nada!
\u0411\u044b\u0441\u0442\u0440\u0430\u044f \u043b\u0438\u0441\u0430 \u043f\u0440\u044b\u0433\u0430\u0435\u0442 \u0447\u0435\u0440\u0435\u0437 \u043b\u0435\u043d\u0438\u0432\u0443\u044e \u0441\u043e\u0431\u0430\u043a\u0443, \u043c\u043e\u0441\u043a\u0432\u0430 \u0441\u043f\u0438\u0442.
\u6771\u4eac\u306e\u5929\u6c17\u306f\u4eca\u65e5\u3082\u3044\u3044\u3067\u3059\u3002\u660e\u65e5\u306f\u96e8\u304c\u964d\u308b\u3067\u3057\u3087\u3046\u3002
\u5feb\u901f\u7684\u68d5\u8272\u72d0\u72f8\u8df3\u8fc7\u4e86\u61d2\u72d7\uff0c\u5929\u6c14\u5f88\u597d\u3002
\ud55c\uad6d\uc5b4 \ubb38\uc7a5\ub3c4 \uc870\uae08 \uc788\uc5b4\uc57c \ud569\ub2c8\ub2e4. \uc624\ub298\uc740 \ub0a0\uc528\uac00 \uc88b\ub2e4.
\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e44\u0e21\u0e48\u0e21\u0e35\u0e0a\u0e48\u0e2d\u0e07\u0e27\u0e48\u0e32\u0e07\u0e23\u0e30\u0e2b\u0e27\u0e48\u0e32\u0e07\u0e04\u0e33
\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e \u092e\u0947\u0902 \u090f\u0915 \u0935\u093e\u0915\u094d\u092f \u0939\u0948\u0964
\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0647\u0630\u0627 \u0646\u0635 \u0642\u0635\u064a\u0631
Prices rose by $5.00 (about 12%), from 1,234 to 5,678 units; see http://example.org/a_b?c=d#e for more.
def tokenize(text): return [piece for piece in text.split() if piece]  # code has its own spaces
""".strip().split("\n")


def training_text():
    """The sentences, and made-up words of a few syllables with a few of them frequent."""
    random = Random(42)
    syllables = "ta ri mo ne ku sha pre ing er est un re lo vi da ment tion gra pho bi".split()
    words = ["".join(syllables[random.below(len(syllables))] for _ in range(1 + random.below(4))) for _ in range(400)]
    lines = SENTENCES * 8
    for _ in range(400):
        lines.append(" ".join(words[min(random.below(400), random.below(400))] for _ in range(12)).capitalize() + ".")
    return lines


def added(*tokens):
    return [AddedToken(content, **flags) for content, flags in tokens]


EXTRA = added(("ADDED", dict(normalized=True)), ("[extra]", dict(normalized=False, single_word=True)), ("jumped", dict(single_word=True)),
              ("\u00bd", dict(lstrip=True, normalized=False)), ("45", dict(rstrip=True, normalized=False)), ("caf\u00e9 ", dict(normalized=True)),
              ("a", dict(single_word=True, lstrip=True, rstrip=True, normalized=False)))


def template(tok, cls, sep, pair_sep=None, second=1):
    ids = [(t, tok.token_to_id(t)) for t in sorted({cls, sep})]
    between = pair_sep or sep
    return processors.TemplateProcessing(single="%s $A %s" % (cls, sep), pair="%s $A %s $B:%d %s:%d" % (cls, between, second, sep, second),
                                         special_tokens=ids)


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# PRETOKENIZE_REGEX of transformers' tokenization_qwen3_5.py: Qwen2's with marks beside letters
QWEN3_5 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def wordpiece(normalizer, pre=None, specials=BERT, size=700, **model):
    tok = Tokenizer(models.WordPiece(unk_token=specials[1] if specials is BERT else "<unk>", **model))
    tok.normalizer, tok.pre_tokenizer = normalizer, pre or pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(training_text(), trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials, show_progress=False))
    tok.decoder = decoders.WordPiece()
    return tok


def wordpiece_uncased():
    tok = wordpiece(normalizers.BertNormalizer())
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    tok.add_tokens(EXTRA)
    tok.enable_padding(pad_id=0, pad_token="[PAD]", length=128)
    tok.enable_truncation(128)
    return tok


def wordpiece_cased():
    tok = wordpiece(normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False))
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def wordpiece_accents():
    tok = wordpiece(normalizers.BertNormalizer(clean_text=False, strip_accents=True, lowercase=False), size=1200)
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    tok.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return tok


def wordpiece_kept_accents():
    tok = wordpiece(normalizers.BertNormalizer(strip_accents=False, lowercase=True))
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    tok.add_special_tokens(added(("[extra]", dict(normalized=True, lstrip=True, rstrip=True)), ("hello", dict(normalized=False))))
    return tok


def wordpiece_mpnet():
    tok = wordpiece(normalizers.BertNormalizer(), specials=ROBERTA)
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tok.add_special_tokens(added(("<mask>", dict(lstrip=True))))
    return tok


def wordpiece_sequence():
    steps = [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(left=False), normalizers.Replace("ss", "\u00df")]
    tok = wordpiece(normalizers.Sequence(steps), pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)]),
                    max_input_chars_per_word=7)
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    return tok


def wordlevel(normalizer, pre, size=3000):
    tok = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tok.normalizer, tok.pre_tokenizer = normalizer, pre
    tok.train_from_iterator(training_text(), trainers.WordLevelTrainer(vocab_size=size, special_tokens=BERT, show_progress=False))
    return tok


def wordlevel_nfd():
    pre = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(), pre_tokenizers.Punctuation("contiguous")])
    return wordlevel(normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]), pre)


def wordlevel_nfc():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\s+"), "merged_with_previous"), pre_tokenizers.Punctuation("merged_with_next")])
    tok = wordlevel(normalizers.NFC(), pre)
    tok.post_processor = processors.TemplateProcessing(single="$A [SEP] $A", pair="[SEP] $B:2 [CLS]:3 $A", special_tokens=[("[SEP]", 3), ("[CLS]", 2)])
    return tok


def wordlevel_nfkd():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.CharDelimiterSplit("e"),
                                   pre_tokenizers.Split(Regex(r"\p{N}+"), "removed", invert=True), pre_tokenizers.FixedLength(3)])
    return wordlevel(normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD(), normalizers.Prepend("\u2581x")]), pre)


def byte_level(normalizer, specials, **pre):
    tok = Tokenizer(models.BPE())
    tok.normalizer, tok.pre_tokenizer, tok.decoder = normalizer, pre_tokenizers.ByteLevel(**pre), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator(training_text(), trainer)
    return tok


def bpe_roberta():
    tok = byte_level(None, ROBERTA, add_prefix_space=False)
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tok.add_special_tokens(added(("<mask>", dict(lstrip=True, normalized=True))))
    return tok


def bpe_modernbert():
    tok = byte_level(normalizers.NFC(), BERT, add_prefix_space=False)
    tok.add_tokens(added(*[(" " * n, dict(normalized=True)) for n in range(2, 6)], ("|||IP|||", {})))
    tok.add_special_tokens(added(("[MASK]", dict(lstrip=True))))
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    return tok


def bpe_prefix_space():
    tok = byte_level(None, ROBERTA, add_prefix_space=True, trim_offsets=True)
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True, add_prefix_space=True), template(tok, "<s>", "</s>", second=0)])
    tok.add_tokens(EXTRA)
    return tok


def split_byte_level(pattern):
    tok = byte_level(normalizers.NFC(), ["<|endoftext|>"], add_prefix_space=False, use_regex=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), tok.pre_tokenizer])
    return tok


def bpe_qwen3_5():
    return split_byte_level(QWEN3_5)


def bpe_split():
    tok = split_byte_level(O200K)
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    state = json.loads(tok.to_str())
    state["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(state))


def bpe_suffix():
    tok = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.BPEDecoder()
    tok.train_from_iterator(training_text(), trainers.BpeTrainer(vocab_size=800, special_tokens=ROBERTA, end_of_word_suffix="</w>", show_progress=False))
    return tok


def bpe_prefix():
    tok = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=False))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    tok.decoder = decoders.WordPiece()
    tok.train_from_iterator(training_text(), trainers.BpeTrainer(vocab_size=800, special_tokens=ROBERTA, continuing_subword_prefix="##", show_progress=False))
    return tok


def bpe_llama():
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    specials = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    tok.train_from_iterator((w for line in training_text() for w in line.split()), trainers.BpeTrainer(vocab_size=900, special_tokens=specials, show_progress=False))
    state = json.loads(tok.to_str())  # bytes are ordinary tokens of the model
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    tok = Tokenizer.from_str(json.dumps(state))
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tok


def sentencepiece_model(text, **options):
    """The bytes of a model trained on lines of text; it names no path of the machine, as one written by the trainer would."""
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, hard_vocab_limit=False, minloglevel=2, **options)
    return model.getvalue()


def charsmap(rule):
    """SentencePiece's own character map of that name, from a throw-away model."""
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(sentencepiece_model(training_text(), vocab_size=300, normalization_rule_name=rule))
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def unigram(normalizer, pre, specials, unk, rule=None, size=900, byte_fallback=False):
    """`normalizer` is JSON; {"type": "Precompiled"} in it gets the map `rule`."""
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre
    tok.normalizer = normalizers.NFKC()
    tok.train_from_iterator(training_text(), trainers.UnigramTrainer(vocab_size=size, special_tokens=specials, unk_token=unk, show_progress=False))
    state = json.loads(tok.to_str())
    for step in normalizer.get("normalizers", [normalizer]):
        if step["type"] == "Precompiled":
            step["precompiled_charsmap"] = charsmap(rule)
    state["normalizer"] = normalizer
    if byte_fallback:
        state["model"]["byte_fallback"] = True
        state["model"]["vocab"] += [["<0x%02X>" % b, -12.5] for b in range(256)]
    tok = Tokenizer.from_str(json.dumps(state))
    tok.decoder = decoders.Metaspace()
    return tok


def unigram_xlmr():
    pre = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok = unigram({"type": "Precompiled"}, pre, ROBERTA, "<unk>", "nmt_nfkc")
    tok.add_special_tokens(added(("<mask>", dict(lstrip=True))))
    tok.post_processor = template(tok, "<s>", "</s>", "</s> </s>", second=0)
    return tok


def unigram_albert():
    steps = [{"type": "Replace", "pattern": {"String": "``"}, "content": "\""}, {"type": "Replace", "pattern": {"String": "''"}, "content": "\""},
             {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Precompiled"},
             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    specials = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    tok = unigram({"type": "Sequence", "normalizers": steps}, pre_tokenizers.Metaspace(), specials, "<unk>", "nmt_nfkc_cf")
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    return tok


def unigram_deberta():
    steps = [{"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "}, {"type": "NFC"},
             {"type": "Strip", "strip_left": False, "strip_right": True}]
    tok = unigram({"type": "Sequence", "normalizers": steps}, pre_tokenizers.Sequence([pre_tokenizers.Metaspace(prepend_scheme="first")]),
                  BERT, "[UNK]", byte_fallback=True)
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    tok.post_processor = template(tok, "[CLS]", "[SEP]")
    tok.add_tokens(EXTRA)
    return tok


FIXTURES = [wordpiece_uncased, wordpiece_cased, wordpiece_accents, wordpiece_kept_accents, wordpiece_mpnet, wordpiece_sequence, wordlevel_nfd,
            wordlevel_nfc, wordlevel_nfkd, bpe_roberta, bpe_modernbert, bpe_prefix_space, bpe_qwen3_5, bpe_split, bpe_suffix, bpe_prefix, bpe_llama, unigram_xlmr,
            unigram_albert, unigram_deberta]


def words(encoding):
    """The encoding as the list of 32-bit words that is hashed."""
    pieces = [encoding] + encoding.overflowing
    out = [len(pieces)]
    for p in pieces:
        out.append(len(p.ids))
        out += p.ids + p.type_ids + p.special_tokens_mask + [x for o in p.offsets for x in o]
        out += [0xFFFFFFFF if w is None else w for w in p.word_ids] + [0xFFFFFFFF if s is None else s for s in p.sequence_ids]
    return out


def encode(tok, strings, i):
    """String i as How(i) says: an Encoding, or None when the package refuses."""
    how = How(i)
    tok.no_truncation()
    try:
        if how.truncation:
            tok.enable_truncation(how.max_length, stride=how.stride, strategy=STRATEGIES[how.truncation],
                                  direction="left" if how.left else "right")
        return tok.encode(strings[i], None if how.pair is None else strings[how.pair], add_special_tokens=how.special)
    except BaseException as e:  # a panic of the Rust code derives from BaseException
        if isinstance(e, (KeyboardInterrupt, TypeError, AttributeError)):
            raise
        return None


def checksum(tok, strings, i):
    encoding = encode(tok, strings, i)
    if encoding is None:
        return zlib.crc32(struct.pack("<I", 0xFFFFFFFF))
    data = words(encoding)
    text = tok.decode(encoding.ids, skip_special_tokens=How(i).skip_special) if encoding.ids else ""
    return zlib.crc32(text.encode(), zlib.crc32(struct.pack("<%dI" % len(data), *data)))


def checksums(tok, strings):
    tok.no_padding()
    silent = os.dup(2)  # panics print
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        return [checksum(tok, strings, i) for i in range(len(strings))]
    finally:
        os.dup2(silent, 2)
        os.close(null)
        os.close(silent)


def main():
    os.makedirs(HERE, exist_ok=True)
    wanted = sys.argv[2:]
    strings = corpus()
    for make in FIXTURES:
        path = os.path.join(HERE, make.__name__ + ".json")
        if wanted and make.__name__ not in wanted:
            continue
        if sys.argv[1] == "train":
            state = json.loads(make().to_str())
            with open(path, "w") as f:
                json.dump(state, f, ensure_ascii=False, separators=(",", ":"))
        else:
            sums = checksums(Tokenizer.from_file(path), strings)
            with open(path[:-5] + ".crc", "wb") as f:
                f.write(struct.pack("<%dI" % len(sums), *sums))
            print(make.__name__, len(set(sums)), "different of", len(sums))


if __name__ == "__main__":
    main()
