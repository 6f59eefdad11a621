#!/usr/bin/env python3
"""A conversation: each line of input is a question, answers are printed as they come: chat.py MODEL [SYSTEM MESSAGE]"""
import sys

import accel


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with accel.Model(sys.argv[1], device="auto") as model, model.chat(system=sys.argv[2] if len(sys.argv) > 2 else None) as chat:
        for line in sys.stdin:
            if not line.strip():
                continue
            for token in chat.stream(line.rstrip("\n"), max_new_tokens=512):
                print(token.text, end="", flush=True)
            print()


if __name__ == "__main__":
    main()
