"""Tells what each part of a picture shows, and draws it.

    segment.py MODEL PICTURE [OUT.png]         MODEL: such as nvidia/segformer-b0-finetuned-ade-512-512
"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with accel.Model(sys.argv[1]) as model:
            (found,) = model.segment_images([sys.argv[2]])
            for s in found.segments:
                print(f"{s['area']:7.2%}  {s['label']}")
            if len(sys.argv) > 3:
                found.draw(sys.argv[3], sys.argv[2])
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
