#!/usr/bin/env python3
"""Translates texts: translate.py MODEL FROM TO TEXT...  (FROM and TO as the model spells its languages; - where it knows one pair only)"""
import sys

import accel


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    source, target = (None if name == "-" else name for name in sys.argv[2:4])
    with accel.pipeline("translation", sys.argv[1], device="auto", src_lang=source, tgt_lang=target) as translate:
        for result in translate(sys.argv[4:]):
            print(result["translation_text"])


if __name__ == "__main__":
    main()
