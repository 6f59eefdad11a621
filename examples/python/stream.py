#!/usr/bin/env python3
"""A model larger than the memory it may use: stream.py MODEL MEMORY [TEXT [TOKENS]], MEMORY such as 4G."""
import sys
import time

import accel


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    text = sys.argv[3] if len(sys.argv) > 3 else "Once upon a time"
    tokens = int(sys.argv[4]) if len(sys.argv) > 4 else 16
    with accel.Context(memory=sys.argv[2]) as context:
        plan = context.fit(sys.argv[1], device="cpu", precision="bf16", times=True)[0]
        if plan.streams:
            print(f"{plan.stream_resident / 1e6:.1f} MB stay in memory, {plan.stream_read / 1e6:.1f} MB are read for each token")
        elif not plan.fits:
            sys.exit(plan.advice)
        if plan.seconds_per_token:
            print(f"a token should take {plan.seconds_per_token:.3f} s, the first one {plan.seconds_to_first:.3f} s")
        model = accel.Model(sys.argv[1], device="cpu", precision="bf16", context=context)
        begin, n = time.monotonic(), 0
        for token in model.stream(text, max_new_tokens=tokens):
            print(token.text, end="", flush=True)
            n += 1
        print(f"\n{n} tokens in {time.monotonic() - begin:.3f} s")
        if model.streaming:
            s = model.streaming
            print(f"{s['runs']} runs read {(s['bytes'] - s['load_bytes']) / 1e6:.1f} MB: {s['bytes_per_second'] / 1e9:.2f} GB/s, "
                  f"{100 * s['wait_share']:.0f} % of the time waiting for the disk")


if __name__ == "__main__":
    main()
