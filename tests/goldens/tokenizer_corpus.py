"""The 10,000 strings on which tokenizers are compared; tests/unit/text_corpus_test.c makes the same ones in C.

Together they hold every code point (surrogates excluded) among spaces, words, combining marks and other code points that join with
their neighbours.  Even strings hold runs of neighbouring code points, odd ones scattered ones.
"""
STRINGS = 10000
PER_STRING = 112
BLOCKS = 9930  # strings that hold code points; the last ones hold words only
CODE_POINTS = 0x110000 - 0x800
ODD_BLOCKS = 4965
SCATTER = 400009  # coprime to ODD_BLOCKS * PER_STRING
WORDS = ("the quick brown fox's jumped over hello world isn't don't I'm we'll 123 45.6 e-mail naive unaffable embedding [CLS] [MASK] "
         "</s> <s> <mask> ,. ... '' `` -- $5.00 ## ##ing a Stra\u00dfe caf\u00e9 na\u00efve \u0130stanbul "
         "\u041c\u043e\u0441\u043a\u0432\u0430 \u6771\u4eac \ud55c\uad6d\uc5b4 \u0e20\u0e32\u0e29\u0e32 ADDED added [extra] "
         "under_score x\u00b2 \ufb01sh \u00bd").split(" ")
JOINERS = [0x20, 0x09, 0x0A, 0x0D, 0x3000, 0xA0, 0x200B, 0x200D, 0x1100, 0x1161, 0x11A8, 0xAC00, 0x4E00, 0x915, 0x94D, 0x130, 0x2581, 0x120,
           0xFE0F, 0xA9, 0x345, 0x1D165]
MASK = (1 << 64) - 1


class Random:
    """splitmix64"""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) % n


def code_point(block, i):
    if block >= BLOCKS:
        return None
    if block % 2:
        at = ((block // 2 * PER_STRING + i) * SCATTER) % (ODD_BLOCKS * PER_STRING)
        block, i = at // PER_STRING * 2 + 1, at % PER_STRING
    c = block * PER_STRING + i
    if c >= CODE_POINTS:
        return None
    return c if c < 0xD800 else c + 0x800


def string(block):
    random = Random(1000003 * block + 17)
    out = []
    for i in range(PER_STRING):
        c = code_point(block, i)
        if c is None:
            continue
        k = random.below(20)
        if k < 5:
            out.append(" ")
        elif k < 7:
            out.append(WORDS[random.below(len(WORDS))] + " ")
        elif k == 7:
            out.append(chr(0x300 + random.below(0x70)))
        elif k == 8:
            out.append(chr(JOINERS[random.below(len(JOINERS))]))
        out.append(chr(c))
    if random.below(3) == 0:
        for _ in range(random.below(30)):
            out.append(WORDS[random.below(len(WORDS))])
            out.append(("", " ", "  ", "\n")[random.below(4)])
    return "".join(out)


def corpus():
    return [string(i) for i in range(STRINGS)]


class How:
    """How string i is encoded: alone or with another, cut or whole, with special tokens or without."""

    def __init__(self, i):
        self.pair = (7 * i + 3) % STRINGS if i % 5 == 1 else None
        self.special = i % 11 != 4
        self.skip_special = i % 2 == 0  # in decoding
        self.truncation = 1 + i // 7 % 3 if i % 7 == 3 else 0  # longest_first, only_first, only_second
        self.max_length, self.stride, self.left = 24 + i % 13, i % 6, i // 21 % 2 == 1


if __name__ == "__main__":
    strings = corpus()
    assert len({c for s in strings for c in s}) == CODE_POINTS
    print(sum(len(s.encode()) for s in strings), "bytes")
