"""Which of some labels fits a picture best.

    zero_shot_image.py MODEL PICTURE LABEL...  MODEL: a CLIP or SigLIP, such as openai/clip-vit-base-patch32
"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with accel.Model(sys.argv[1]) as model:
            (found,) = model.zero_shot_image([sys.argv[2]], sys.argv[3:])
            for s in found:
                print(f"{s['score']:.4f}  {s['label']}")
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
