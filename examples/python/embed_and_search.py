#!/usr/bin/env python3
"""Which of these sentences is nearest in meaning to a question?   embed_and_search.py MODEL [QUESTION]"""
import sys

import accel

SENTENCES = [
    "The cat sleeps on the warm windowsill.",
    "Trains to the coast leave every hour.",
    "Stir the soup until it begins to boil.",
    "The telescope saw a galaxy twelve billion light years away.",
    "She repaired the old clock in an afternoon.",
]


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b))
    return dot / (sum(float(x) ** 2 for x in a) * sum(float(x) ** 2 for x in b)) ** 0.5


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    question = sys.argv[2] if len(sys.argv) > 2 else "When can I travel to the sea?"
    embed = accel.pipeline("feature-extraction", sys.argv[1], device="auto")
    asked, known = embed(question), embed(SENTENCES)
    print(f"on {embed.placement.device}, {embed.placement.precision}\n{question}")
    for score, sentence in sorted(((cosine(asked, v), s) for v, s in zip(known, SENTENCES)), reverse=True):
        print(f"  {score:.4f}  {sentence}")


if __name__ == "__main__":
    main()
