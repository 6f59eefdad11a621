"""Asks a model about a picture, or has it described.

    ask.py MODEL PICTURE [QUESTION]            MODEL: a BLIP, LLaVA, LLaVA-Next or Qwen2-VL
"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    model, picture, question = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None
    try:
        with accel.Model(model) as m:
            for g in m.generate_images([(question, [picture])], kind="question", max_new_tokens=30):
                print(g.text)
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
