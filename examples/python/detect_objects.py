"""Finds the objects in a picture, and draws them.

    detect_objects.py MODEL PICTURE [OUT.png]  MODEL: a DETR or YOLOS, such as facebook/detr-resnet-50
"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with accel.Model(sys.argv[1]) as model:
            (found,) = model.detect_objects([sys.argv[2]])
            for o in found:
                print(f"{o['score']:.4f}  {o['label']}  {o['box']}")
            if len(sys.argv) > 3:
                accel.draw_objects(sys.argv[2], found, sys.argv[3])
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
