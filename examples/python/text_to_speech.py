"""Speaks a text into a WAV file.

    text_to_speech.py MODEL TEXT FILE.wav [SEED]        MODEL: such as facebook/mms-tts-eng
"""
import array
import sys
import wave

import accel


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with accel.Model(sys.argv[1]) as model:
            (sound,) = model.text_to_speech([sys.argv[2]], seed=int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    with wave.open(sys.argv[3], "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.sampling_rate)
        file.writeframes(array.array("h", (round(32767 * float(x)) for x in sound.samples)).tobytes())
    print(f"{len(sound.samples) / sound.sampling_rate:.2f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
