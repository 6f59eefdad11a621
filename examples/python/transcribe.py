"""Writes down what is said in a sound, with times.

    transcribe.py MODEL SOUND [LANGUAGE]       MODEL: such as openai/whisper-tiny
"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    options = {"language": sys.argv[3]} if len(sys.argv) > 3 else {}
    try:
        with accel.Model(sys.argv[1]) as model:
            (said,) = model.transcribe([sys.argv[2]], "auto", **options)
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    print(said["text"].strip())
    for chunk in said["chunks"]:
        start, end = (f"{t:7.2f}" if t is not None else "      ?" for t in chunk["timestamp"])
        print(start, "-", end, chunk["text"].strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
