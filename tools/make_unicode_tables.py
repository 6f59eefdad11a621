#!/usr/bin/env python3
"""Writes unicode_tables.c and unicode_forms.c: what Hugging Face's `tokenizers` package believes about every code point.

The package mixes several Unicode versions (its crates each carry their own), so no Unicode file on disk gives its answers.
This program asks the package itself, code point by code point, and checks what it assumes about the answers.

    pip install tokenizers==0.23.3
    python3 tools/make_unicode_tables.py src/text
"""
import base64
import json
import os
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, Tokenizer
from tokenizers import models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)

# Flags of unicode.h, in its order.
FLAGS = ["WHITE", "CONTROL", "PUNCT", "NONSPACING", "MARK", "NUMERIC", "WORD", "CJK", "LETTER", "NUMBER", "SPACE",
         "DECOMPOSES", "COMPOSES", "WORD_ONIG"]
BIT = {name: 1 << i for i, name in enumerate(FLAGS)}
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()  # unicode.h has the same order
OTHER, EXTEND, CONTROL, PREPEND, PICTOGRAPH, ZWJ = range(6)  # grapheme classes, unicode.h


def normalized_by(normalizer):
    return lambda text: normalizer.normalize_str(text)


def removed_by(pre_tokenizer):
    """True for the texts of one code point that the pre-tokenizer removes."""
    return lambda text: not pre_tokenizer.pre_tokenize_str(text)


def by_regex(pattern):
    return removed_by(pre_tokenizers.Split(Regex(pattern), "removed"))


NFC, NFD, NFKC, NFKD = (normalized_by(n()) for n in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD))


def matched(pattern):
    """The code points that an Oniguruma class matches, all asked at once."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for run, _ in split.pre_tokenize_str("".join(map(chr, CODE_POINTS))) for c in run}


def categories():
    """General categories as Oniguruma has them; \\d follows from them."""
    of = {}
    for i, name in enumerate(CATEGORIES):
        for c in matched(r"\p{%s}+" % name):
            assert c not in of
            of[c] = i
    assert len(of) == len(CODE_POINTS)
    assert matched(r"\d+") == {c for c, i in of.items() if CATEGORIES[i] == "Nd"}
    return of


def combining_classes():
    """Canonical combining classes, found by what gets swapped with marks of known class."""
    def sorts_before(a, b):  # does NFD move b in front of a?
        return NFD("x" + a + b) == "x" + b + a and a != b

    def is_mark(t):  # has a class other than 0
        return NFD(t) == t and (sorts_before("\u0345", t) or sorts_before(t, "\u0334") or t in "\u0345\u0334")

    known = {}  # one mark of each class
    for c in CODE_POINTS:
        k = unicodedata.combining(chr(c))
        if k and k not in known and is_mark(chr(c)):
            known[k] = chr(c)
    classes = sorted(known)

    found = {}
    for c in CODE_POINTS:
        t = chr(c)
        if not is_mark(t):
            continue
        equal = [k for k in classes if not sorts_before(known[k], t) and not sorts_before(t, known[k])]
        assert len(equal) == 1, (hex(c), equal)
        found[c] = equal[0]
    return found


def precompiled(key, value):
    """A Precompiled normalizer with one key: a double-array trie made by hand, one block of 256 units per byte."""
    raw = key.encode()
    units = [0] * (256 * (len(raw) + 2))
    at = 0
    for i, byte in enumerate(raw):
        base = 256 * (i + 1)
        units[at] |= (at ^ base) << 10
        at = base ^ byte
        units[at] = byte
    base = 256 * (len(raw) + 1)
    units[at] |= (at ^ base) << 10 | 1 << 8  # has a leaf
    units[base] = 1 << 31  # the leaf: value 0, the start of the replacements
    trie = struct.pack("<%dI" % len(units), *units)
    charsmap = base64.b64encode(struct.pack("<I", len(trie)) + trie + value.encode() + b"\0").decode()
    tok = Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    state = json.loads(tok.to_str())
    state["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap}
    return normalized_by(Tokenizer.from_str(json.dumps(state)).normalizer)


def grapheme_classes():
    """As far as graphemes of fewer than 6 bytes show them, which is all that Precompiled looks at."""
    after_a, after_c = precompiled("a", "Y"), precompiled("\u00a9", "Y")
    found = {0x200D: ZWJ, 0x0D: CONTROL, 0x0A: CONTROL}
    for c in CODE_POINTS:
        t = chr(c)
        if c == 0 or c in found or c == ord("a") or c == 0xA9:
            continue
        if after_a("a" + t) == "Y":
            found[c] = EXTEND
        elif after_c("\u00a9\u200d" + t) == "Y\u200d" + t:
            found[c] = PICTOGRAPH
    found[0xA9] = PICTOGRAPH
    assert precompiled("\u00ae", "Y")("\u00ae\u200d\u00a9") == "Y\u200d\u00a9"
    # Controls and prepended marks show only as the first of a grapheme, so each needs its own trie; both are Cc, Cf, Zl, Zp, Cn
    # or marks and letters of a few scripts, so code points plainly of another kind are left out.
    for c in CODE_POINTS:
        t = chr(c)
        if c == 0 or c in found or c in HANGUL or 0x3400 <= c < 0xA000 or 0x20000 <= c < 0x40000 or 0xE0200 <= c:
            continue
        replaced = precompiled(t, "Y")
        if replaced(t + "\u0301") != "Y":
            found[c] = CONTROL if replaced(t + "\u0301") == "Y\u0301" and len((t + "\u0301").encode()) < 6 else OTHER
        elif len(t.encode()) < 5 and replaced(t + "b") == "Y":
            found[c] = PREPEND
    found[0] = CONTROL
    return {c: k for c, k in found.items() if k}


def decompositions(normalize):
    return {c: normalize(chr(c)) for c in CODE_POINTS if c not in HANGUL and normalize(chr(c)) != chr(c)}


def compositions(canonical):
    pairs = {}
    for c, parts in canonical.items():
        if len(parts) < 2 or NFC(parts) != chr(c):
            continue
        first = NFC(parts[:-1])
        assert len(first) == 1 and NFC(first + parts[-1]) == chr(c), hex(c)
        pairs[(ord(first), ord(parts[-1]))] = c
    return pairs


def lower_deltas():
    lower = normalized_by(normalizers.Lowercase())
    deltas = {}
    for c in CODE_POINTS:
        t = lower(chr(c))
        if c == 0x130:
            assert t == "i\u0307"  # the one that becomes two; unicode.c knows it
        else:
            assert len(t) == 1, hex(c)
            deltas[c] = ord(t) - c
    return deltas


def flags(canonical, compatible, pairs):
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean = normalized_by(normalizers.BertNormalizer(**{**bert, "clean_text": True}))
    chinese = normalized_by(normalizers.BertNormalizer(**{**bert, "handle_chinese_chars": True}))
    accents = normalized_by(normalizers.BertNormalizer(**{**bert, "strip_accents": True}))
    marks = normalized_by(normalizers.StripAccents())
    white = removed_by(pre_tokenizers.WhitespaceSplit())
    punctuation = removed_by(pre_tokenizers.Punctuation("removed"))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.Whitespace()
    letter, number, space = by_regex(r"\p{L}"), by_regex(r"\p{N}"), by_regex(r"\s")
    seconds, onig_words = {b for _, b in pairs}, matched(r"\w+")
    out = {}
    for c in CODE_POINTS:
        t = chr(c)
        is_white, is_control = white(t), clean(t) == ""
        assert clean(t) == ("" if is_control else " " if is_white else t), hex(c)
        assert removed_by(words)(t) == is_white, hex(c)  # the regex crate's \s
        value = [is_white, is_control, punctuation(t), c not in canonical and accents(t) == "", marks(t) == "",
                 len(digits.pre_tokenize_str("a" + t)) == 2, len(words.pre_tokenize_str("a" + t)) == 1 and not is_white,
                 chinese(t) != t, letter(t), number(t), space(t), c in canonical or c in compatible, c in seconds,
                 c in onig_words]
        assert value[7] in (False, chinese(t) == " " + t + " ")
        out[c] = sum(1 << i for i, v in enumerate(value) if v)
    return out


def rows(values, width=125):
    line, out = "", []
    for v in values:
        item = "%s," % v
        if len(line) + len(item) > width:
            out.append(line)
            line = ""
        line += item
    return "\n".join(out + [line])


HEAD = """/* %s - GENERATED by tools/make_unicode_tables.py from tokenizers %s; do not edit.
 *
 * %s  Longer than other files because it is data.  unicode.h explains the fields.
 */
#include "text/unicode.h"

"""


def write(path, sentence, tables):
    with open(path, "w") as f:
        f.write(HEAD % (os.path.basename(path), tokenizers.__version__, sentence) + "\n".join(tables))


def main():
    canonical, compatible = decompositions(NFD), decompositions(NFKD)
    pairs = compositions(canonical)
    ccc, lower, grapheme = combining_classes(), lower_deltas(), grapheme_classes()
    flag, category = flags(canonical, compatible, pairs), categories()

    records, record_of = [], {}
    index = []
    for c in range(0x110000):
        key = (flag.get(c, 0), ccc.get(c, 0), grapheme.get(c, 0), category.get(c, CATEGORIES.index("Cs")), lower.get(c, 0))
        if key not in record_of:
            record_of[key] = len(records)
            records.append(key)
        index.append(record_of[key])
    blocks, block_of, stage1 = [], {}, []
    for i in range(0, 0x110000, 128):
        block = tuple(index[i:i + 128])
        if block not in block_of:
            block_of[block] = len(blocks)
            blocks.append(block)
        stage1.append(block_of[block])
    assert len(records) <= 65536 and len(blocks) <= 65536

    pool, place = [0], {}  # decompositions: length, then code points; equal ones are stored once

    def pooled(text):
        if text is None:
            return 0
        if text not in place:
            place[text] = len(pool)
            pool.extend([len(text)] + [ord(x) for x in text])
        return place[text]

    keys = sorted(set(canonical) | set(compatible))
    entries = [(c, pooled(canonical.get(c)), pooled(compatible.get(c))) for c in keys]
    assert len(pool) < 65536
    directory = sys.argv[1]
    write(os.path.join(directory, "unicode_tables.c"), "What the `tokenizers` package believes about each code point.", [
        "const accel__unicode_record accel__unicode_records[%d] = {\n%s\n};\n" % (len(records), rows("{%d,%d,%d,%d,%d}" % r for r in records)),
        "const uint16_t accel__unicode_blocks[%d] = {\n%s\n};\n" % (len(stage1), rows(stage1)),
        "const uint16_t accel__unicode_index[%d] = {\n%s\n};\n" % (128 * len(blocks), rows(i for b in blocks for i in b))])
    write(os.path.join(directory, "unicode_forms.c"), "Decompositions and compositions.", [
        "const size_t accel__unicode_decomposition_count = %d;\nconst accel__unicode_decomposition "
        "accel__unicode_decompositions[%d] = {\n%s\n};\n" % (len(entries), len(entries), rows("{%d,%d,%d}" % e for e in entries)),
        "const uint32_t accel__unicode_decomposed[%d] = {\n%s\n};\n" % (len(pool), rows(pool)),
        "const size_t accel__unicode_composition_count = %d;\nconst accel__unicode_composition "
        "accel__unicode_compositions[%d] = {\n%s\n};\n"
        % (len(pairs), len(pairs), rows("{%d,%d,%d}" % (a, b, pairs[a, b]) for a, b in sorted(pairs)))])
    print("%d records, %d blocks, %d decompositions, %d compositions" % (len(records), len(blocks), len(entries), len(pairs)))


if __name__ == "__main__":
    main()
