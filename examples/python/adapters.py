#!/usr/bin/env python3
"""What a model says with LoRA adapters beside it, and without: adapters.py MODEL TEXT ADAPTER [ADAPTER ...]"""
import sys

import accel


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    model, text, adapters = sys.argv[1], sys.argv[2], sys.argv[3:]
    try:
        with accel.Model(model, device="cpu", enable_adapters=True) as m:
            loaded = [None, *(m.load_adapter(path, path) for path in adapters)]
            tickets = [m.submit_generate(text, adapter=one, max_new_tokens=30) for one in loaded]  # all in one batch
            for one, ticket in zip(loaded, tickets):
                print(f"{one.path if one else 'base'}: {ticket.wait()[0].text}")
    except accel.AccelError as error:
        print(error.message, error.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
