#!/usr/bin/env python3
"""An urgent prompt beside others in a model's queue, and one that is withdrawn: queued.py MODEL [TEXT], of a model that generates."""
import sys

import accel


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    text = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
    with accel.Model(sys.argv[1]) as model:
        tickets = [model.submit_generate(text, max_new_tokens=16, deadline=60, priority=int(i == 2)) for i in range(4)]
        tickets[3].cancel()
        for i, ticket in enumerate(tickets):
            try:
                print(f"{i}:{ticket.wait()[0].text}")
            except (accel.CancelledError, accel.AccelTimeoutError) as error:
                print(f"{i}: {error}")


if __name__ == "__main__":
    main()
