#!/usr/bin/env python3
"""Named tensors in, named tensors out, as transformers' forward has them.   raw_tensors.py MODEL

Plain lists work as well as numpy arrays; results are numpy arrays where numpy is installed."""
import sys

import accel


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tokenizer = accel.AutoTokenizer.from_pretrained(sys.argv[1])
    model = accel.AutoModel.from_pretrained(sys.argv[1])
    batch = tokenizer(["Hello world is great", "Hello"], padding=True)
    for name, tensor in model(**batch).items():
        print(name, list(tensor.shape), tensor.dtype)


if __name__ == "__main__":
    main()
