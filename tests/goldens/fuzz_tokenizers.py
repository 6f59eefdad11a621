#!/usr/bin/env python3
"""Differential fuzzing of tokenizers: random pipelines and random strings, the `tokenizers` package beside `accel tokenize`.

    python3 tests/goldens/fuzz_tokenizers.py BUILD/bin/accel [SECONDS] [SEED]

A long-tier check, run by hand for SECONDS of processor time, the tool's included: each round takes one of the fixtures' vocabularies, puts random normalizers, pre-tokenizers, decoders and
added tokens around it, and compares ids, offsets and decoded texts of random strings.  What the package refuses is skipped; what we refuse by
name is counted.  A difference is printed with all that is needed to see it again, and ends the run with status 1.
"""
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

os.environ["RUST_BACKTRACE"] = "0"  # a panic is no more than a refusal here
from tokenizers import Tokenizer

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "tokenizers")
STRINGS = 60
WORDS = ("the quick fox's it's DON'T we'LL 123 45.6 1234567 hello world  \n \r\n\t ' '' `` -- $5.00 ## ##ing a [CLS] </s> <mask> <extra> "
         "Stra\u00dfe caf\u00e9 cafe\u0301 \u0130 \u041c\u043e\u0441\u043a\u0432\u0430 \u6771\u4eac\u90fd \ud55c\uad6d\uc5b4 \u0e20\u0e32\u0e29\u0e32 \u2581 "
         "\u2581\u2581 \u3000 \u200b \u200d \u0301 \U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u00bd \u00b2 \ufb01 \u017f \u212a \uff21 \u0660 \u1d165 "
         "_ a_b x=y; foo(bar) http://a.b/c?d=e").split(" ") + [" ", "  ", "\n", "\n\n", "\r\n", "\t"]
PATTERNS = [{"String": " "}, {"String": "e"}, {"String": "\u2581"}, {"Regex": r"\s+"}, {"Regex": r"\d"}, {"Regex": r"\p{L}+|\p{N}"}, {"Regex": r"[^\s\w]+"},
            {"Regex": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"},
            {"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"},
            {"Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"},
            {"Regex": r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"},
            {"Regex": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"}, {"Regex": r"\p{N}{1,3}"}, {"Regex": r"(?=(\d{3})+(?!\d))"}]


def replacement(r):
    return {"type": "Replace", "pattern": r.choice(PATTERNS[:7]), "content": r.choice(["", " ", "x", "\u2581", "ab"])}


def normalizer(r):
    kinds = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"]
    return r.choice([lambda: {"type": r.choice(kinds)}, lambda: replacement(r), lambda: {"type": "Prepend", "prepend": r.choice(["\u2581", "x "])},
                     lambda: {"type": "Strip", "strip_left": r.random() < .5, "strip_right": r.random() < .5},
                     lambda: {"type": "BertNormalizer", "clean_text": r.random() < .5, "handle_chinese_chars": r.random() < .5,
                              "strip_accents": r.choice([None, True, False]), "lowercase": r.random() < .5}])()


def pre_tokenizer(r):
    behavior = r.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    return r.choice([lambda: {"type": "BertPreTokenizer"}, lambda: {"type": "Whitespace"}, lambda: {"type": "WhitespaceSplit"},
                     lambda: {"type": "Punctuation", "behavior": behavior}, lambda: {"type": "Digits", "individual_digits": r.random() < .5},
                     lambda: {"type": "CharDelimiterSplit", "delimiter": r.choice("e \u2581")},
                     lambda: {"type": "Split", "pattern": r.choice(PATTERNS), "behavior": behavior, "invert": r.random() < .3},
                     lambda: {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": r.choice(["always", "first", "never"]), "split": r.random() < .7},
                     lambda: {"type": "ByteLevel", "add_prefix_space": r.random() < .5, "trim_offsets": True, "use_regex": r.random() < .6},
                     lambda: {"type": "FixedLength", "length": r.randint(1, 6)}, lambda: {"type": "UnicodeScripts"}])()


def decoder(r):
    return r.choice([lambda: {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, lambda: {"type": "WordPiece", "prefix": "##", "cleanup": r.random() < .5},
                     lambda: {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": r.choice(["always", "first", "never"]), "split": True},
                     lambda: {"type": "BPEDecoder", "suffix": "</w>"}, lambda: {"type": "Fuse"}, lambda: {"type": "ByteFallback"},
                     lambda: {"type": "Strip", "content": " ", "start": r.randint(0, 2), "stop": r.randint(0, 1)},
                     lambda: {"type": "Replace", "pattern": {"String": r.choice(["\u2581", "a", "##"])}, "content": r.choice([" ", ""])},
                     lambda: {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}])()


def sequence(r, make, key, most):
    steps = [make(r) for _ in range(r.randint(0, most))]
    return None if not steps else steps[0] if len(steps) == 1 else {"type": "Sequence", key: steps}


def post_processor(state, r):
    """One that names tokens the file has; BertProcessing and RobertaProcessing take two of them."""
    known = sorted({t["content"]: t["id"] for t in state["added_tokens"]}.items())
    byte_level = {"type": "ByteLevel", "add_prefix_space": r.random() < .5, "trim_offsets": r.random() < .5, "use_regex": r.random() < .5}
    if not known:
        return r.choice([None, byte_level])
    a, b = r.choice(known), r.choice(known)

    def template():
        def piece():
            return {"SpecialToken": {"id": r.choice((a, b))[0], "type_id": r.randint(0, 2)}}

        def around(names):
            out = [piece() for _ in range(r.randint(0, 2))]
            for name in names:
                out += [{"Sequence": {"id": name, "type_id": r.randint(0, 1)}}] + [piece() for _ in range(r.randint(0, 2))]
            return out
        return {"type": "TemplateProcessing", "single": around("A"), "pair": around("AB"),
                "special_tokens": {n: {"id": n, "ids": [i, a[1]][:r.randint(1, 2)], "tokens": [n, a[0]][:1]} for n, i in dict((a, b)).items()}}
    one = [lambda: None, lambda: byte_level, template, lambda: {"type": "BertProcessing", "sep": list(a), "cls": list(b)},
           lambda: {"type": "RobertaProcessing", "sep": list(a), "cls": list(b), "trim_offsets": r.random() < .5, "add_prefix_space": r.random() < .5}]
    if r.random() < .3:
        steps = [byte_level] * r.randint(0, 2) + [r.choice(one[1:])()]  # several that add tokens are refused by name
        return {"type": "Sequence", "processors": steps}
    return r.choice(one)()


def mutate_model(model, r):
    """The fields of the model, and a vocabulary that lacks some of its tokens (ids stay where they are)."""
    if model["type"] == "BPE":
        for key in "fuse_unk", "byte_fallback", "ignore_merges":
            if r.random() < .3:
                model[key] = not model.get(key)
        if r.random() < .2:
            model["merges"] = [m for m in model["merges"] if r.random() < .8]
        if r.random() < .1:
            r.shuffle(model["merges"])
    elif model["type"] == "WordPiece":
        if r.random() < .3:
            model["max_input_chars_per_word"] = r.randint(0, 12)
        if r.random() < .2:
            model["continuing_subword_prefix"] = r.choice(["", "#", "e", "\u2581"])
    elif model["type"] == "Unigram":
        if r.random() < .3:
            model["byte_fallback"] = not model.get("byte_fallback")
        if r.random() < .3:
            model["vocab"] = [[piece, -20 * r.random()] for piece, _ in model["vocab"]]
    if model["type"] in ("WordPiece", "WordLevel") and r.random() < .3:
        model["vocab"] = {k: v for k, v in model["vocab"].items() if k == model["unk_token"] or r.random() < .8}


def mutate(state, r):
    if r.random() < .8:
        state["normalizer"] = sequence(r, normalizer, "normalizers", 3)
    if r.random() < .8:
        state["pre_tokenizer"] = sequence(r, pre_tokenizer, "pretokenizers", 3)
    if r.random() < .5:
        state["decoder"] = sequence(r, decoder, "decoders", 2)
    model = state["model"]
    if r.random() < .5:
        mutate_model(model, r)
    if r.random() < .5:
        top = max([t["id"] for t in state["added_tokens"]] + [len(model["vocab"]) - 1])
        for i in range(r.randint(1, 6)):
            state["added_tokens"].append({"id": top + 1 + i, "content": r.choice(WORDS[:20]).strip() + r.choice(["", "q", " ", "<x>"]) or "z%d" % i,
                                          "single_word": r.random() < .3, "lstrip": r.random() < .3, "rstrip": r.random() < .3,
                                          "normalized": r.random() < .5, "special": r.random() < .5})
    if r.random() < .5:
        state["post_processor"] = post_processor(state, r)
    return state


def text(r):
    out = []
    for _ in range(r.randint(0, 24)):
        k = r.random()
        out.append(r.choice(WORDS) if k < .7 else " " if k < .85 else chr(r.choice([r.randrange(1, 0x250), r.randrange(0x300, 0x370), r.randrange(0x250, 0xD800), r.randrange(0xE000, 0x110000)])))
        if r.random() < .3:
            out.append(" ")
    return "".join(out)


def ours(program, folder, flag, data, whole=False):
    """What the tool says of texts or ids; whole: of the directory and not of its tokenizer.json alone."""
    path, tokenizer = os.path.join(folder, "in.json"), folder if whole else os.path.join(folder, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f)
    done = subprocess.run([program, "tokenize", tokenizer, flag, path, "--json", "--verbose"], capture_output=True, text=True)
    return (json.loads(done.stdout), None) if done.returncode == 0 else (None, done.stderr.strip() or f"ended with {done.returncode}")


def expected(call):
    try:
        return call()
    except BaseException as e:  # a panic of the Rust code
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def one_round(program, folder, seed, counts):
    r = random.Random(seed)
    with open(r.choice(sorted(glob.glob(os.path.join(FIXTURES, "*.json")))), encoding="utf-8") as f:
        state = mutate(json.load(f), r)
    state["truncation"] = state["padding"] = None
    try:
        tok = Tokenizer.from_str(json.dumps(state))
    except BaseException:
        counts["refused by the package"] += 1
        return True
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(state, f)
    normal = (lambda t: tok.normalizer.normalize_str(t)) if state.get("normalizer") else (lambda t: t)
    forms = [normal(t["content"]) for t in state["added_tokens"] if t["normalized"]]
    if len(set(forms)) < len(forms) or "" in forms:  # the package then takes either, by chance; or never ends, and takes all memory there is
        return True
    strings = [text(r) for _ in range(STRINGS)]
    found = [expected(lambda s=s: tok.encode(s)) for s in strings]
    want = [None if e is None else e.ids for e in found]
    kept = [i for i, ids in enumerate(want) if ids is not None]
    if not kept:  # a word level without its unk_token
        return True
    got, error = ours(program, folder, "--input", [strings[i] for i in kept])
    if error:
        counts["refused by us"] += 1
        if "not implemented" not in error and "which the vocabulary lacks" not in error and "unk_id" not in error:
            print("seed", seed, "error:", error)
            return False
        return True
    for i, ids in zip(kept, got["ids"]):
        if ids != want[i]:
            print("seed", seed, "string", ascii(strings[i]), "\nexpected", want[i], "\nfound   ", ids)
            print({k: state[k] for k in ("normalizer", "pre_tokenizer", "added_tokens")})
            return False
    for i, offsets in zip(kept, got["offsets"]):
        if offsets != [list(o) for o in found[i].offsets]:
            print("seed", seed, "offsets of", ascii(strings[i]), found[i].tokens, "\nexpected", [list(o) for o in found[i].offsets], "\nfound   ", offsets)
            print({k: state[k] for k in ("normalizer", "pre_tokenizer", "post_processor", "added_tokens")})
            return False
    lists = [want[i] for i in kept if want[i]]
    texts = [expected(lambda ids=ids: tok.decode(ids, skip_special_tokens=True)) for ids in lists]
    got, error = ours(program, folder, "--decode", lists)
    for ids, a, b in zip(lists, texts, got["texts"] if got else []):
        if a is not None and a != b.replace("\ufffd\ufffd", "\ufffd\ufffd"):
            print("seed", seed, "decode", ids, "\nexpected", ascii(a), "\nfound   ", ascii(b), "\n", state["decoder"])
            return False
    counts["compared"] += 1
    return error is None


def main():
    program, seconds, seed = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    counts = {"compared": 0, "refused by us": 0, "refused by the package": 0}
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # panics print
    good = True
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        try:
            while sum(os.times()[:4]) < seconds and good:
                good = one_round(program, folder, seed, counts)
                seed += 1
        except KeyboardInterrupt:  # or terminated: what was done counts
            pass
    print("next seed", seed, counts, "%.0f s of processor time" % sum(os.times()[:4]))
    sys.exit(not good)


if __name__ == "__main__":
    main()
