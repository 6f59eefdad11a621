#!/usr/bin/env python3
"""Makes src/hardware/selftest_numbers.h: what the device self-test must compute, in double precision with the standard library alone.

    python3 tests/goldens/hardware_selftest.py > src/hardware/selftest_numbers.h

The program: h = layer_norm(x) * gamma + beta;  g = gelu(h w1^T + b1);  y = g w2^T + b2 + x;  p = softmax(y).
Every value is a small dyadic fraction, exact in fp16 and bf16; those of w1 and w2 are exact in every weight format.  Keep the formulas the same as in src/hardware/selftest.c.
"""
import math

T, C, F = 3, 20, 36
EPS = 1e-5


def values(n, a, b, modulus, scale, offset=0.0):
    return [offset + ((i * a + b) % modulus - modulus // 2) / scale for i in range(n)]


CODES = [-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6]  # exact in E2M1, and so in every other format


def codes(n, a, b):
    return [CODES[(i * a + b) % len(CODES)] / 32 for i in range(n)]


def rows(flat, width):
    return [flat[i:i + width] for i in range(0, len(flat), width)]


def linear(x, w, bias):
    return [[sum(a * b for a, b in zip(row, out)) + c for out, c in zip(w, bias)] for row in x]


def main():
    x = rows(values(T * C, 29, 7, 32, 8.0), C)
    gamma = values(C, 5, 3, 8, 16.0, 1.0)
    beta = values(C, 3, 1, 8, 16.0)
    w1 = rows(codes(F * C, 37, 11), C)
    b1 = values(F, 7, 2, 16, 32.0)
    w2 = rows(codes(C * F, 41, 5), F)
    b2 = values(C, 11, 9, 16, 32.0)

    h = []
    for row in x:
        mean = sum(row) / C
        variance = sum((v - mean) ** 2 for v in row) / C
        h.append([(v - mean) / math.sqrt(variance + EPS) * g + b for v, g, b in zip(row, gamma, beta)])
    g = [[v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in linear(h, w1, b1)]
    y = [[v + r for v, r in zip(out, row)] for out, row in zip(linear(g, w2, b2), x)]
    p = []
    for row in y:
        e = [math.exp(v - max(row)) for v in row]
        p.append([v / sum(e) for v in e])

    print("/* selftest_numbers.h - what the self-test's program gives, in double precision.  Made by tests/goldens/hardware_selftest.py. */")
    for name, table in (("y", y), ("p", p)):
        print("static const double selftest_%s[SELFTEST_T * SELFTEST_C] = {" % name)
        flat = [v for row in table for v in row]
        for i in range(0, len(flat), 5):
            print("    " + ", ".join("%.12g" % v for v in flat[i:i + 5]) + ",")
        print("};")


if __name__ == "__main__":
    main()
