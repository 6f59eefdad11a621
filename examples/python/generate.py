#!/usr/bin/env python3
"""Goes on with a text, printing it as it comes: generate.py MODEL [TEXT [TOKENS]]"""
import sys

import accel


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    text = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
    with accel.Model(sys.argv[1], device="auto") as model:
        print(text, end="")
        for token in model.stream(text, max_new_tokens=int(sys.argv[3]) if len(sys.argv) > 3 else 64, temperature=0.8, seed=1):
            print(token.text, end="", flush=True)
        print()


if __name__ == "__main__":
    main()
