#!/usr/bin/env python3
"""Does a model work here at fp32 and bf16?   precision_tests.py MODEL"""
import sys

import accel


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    report = accel.run_precision_tests(sys.argv[1], hardware=["cpu", "amd"], precisions=["fp32", "bf16"])
    for key, value in report.items():
        print(f"{key:16} {value}")
    for r in report.records:
        print(f"{r.platform}: largest error {r.max_abs:.2e}, cosine {r.cosine:.6f}, {r.ms:.2f} ms, weights {r.weights}")


if __name__ == "__main__":
    main()
