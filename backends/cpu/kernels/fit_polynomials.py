#!/usr/bin/env python3
"""Finds the coefficients in math_body.h: weighted minimax polynomials by Lawson's iteration, checked in fp32 arithmetic.

pip requirements: numpy, scipy.  Prints C literals, lowest power first, and the largest weighted error of the fp64 fit.
"""
import numpy as np
from scipy.special import erfc, erfcx, log1p


def fit(f, weight, low, high, degree, points=4000, rounds=400):
    """Polynomial p of `degree` minimising max |weight (p - f)| on [low, high]."""
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.linspace(0, np.pi, points))
    y, w = f(x), weight(x)
    t = (2 * x - low - high) / (high - low)
    basis = np.polynomial.chebyshev.chebvander(t, degree) * w[:, None]
    lawson, best = np.ones(points) / points, None
    for _ in range(rounds):
        root = np.sqrt(lawson)
        c = np.linalg.lstsq(basis * root[:, None], y * w * root, rcond=None)[0]
        error = np.abs(basis @ c - y * w)
        if best is None or error.max() < best[0]:
            best = (error.max(), c)
        lawson = lawson * (error + 1e-300)
        lawson /= lawson.sum()
    shifted = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(best[1]))
    line = np.polynomial.Polynomial([-(low + high) / (high - low), 2 / (high - low)])
    return shifted(line).coef, best[0]


def show(name, result):
    coefficients, error = result
    print(f"{name}: error {error:.2e}")
    print("  " + ", ".join(f"{np.float32(c)!s}f" for c in coefficients))
    return np.float32(coefficients)


half = np.log(2) / 2
# exp(r) = 1 + r + r^2 P(r)
show("exp", fit(lambda r: np.where(np.abs(r) < 1e-4, 0.5 + r / 6 + r * r / 24, (np.expm1(r) - r) / np.where(r == 0, 1, r * r)),
                lambda r: r * r * np.exp(-r), -half, half, 4))
# log(1 + r) = r - r^2/2 + r^3 P(r), r from 1/sqrt 2 - 1 to sqrt 2 - 1
show("log", fit(lambda r: np.where(np.abs(r) < 1e-3, 1 / 3 - r / 4 + r * r / 5, (log1p(r) - r + r * r / 2) / np.where(r == 0, 1, r ** 3)),
                lambda r: np.abs(r) ** 3, np.sqrt(0.5) - 1, np.sqrt(2) - 1, 8))
# tanh(x) = x + x^3 P(x^2) on |x| <= 0.625
show("tanh", fit(lambda u: np.where(u < 1e-4, -1 / 3 + 2 * u / 15, (np.tanh(np.sqrt(u)) / np.sqrt(np.maximum(u, 1e-30)) - 1) / np.maximum(u, 1e-30)),
                 lambda u: u, 0, 0.625 ** 2, 4))
# 2^f = P(f) on |f| <= 1/2
two = show("exp2", fit(lambda f: 2.0 ** f, lambda f: 2.0 ** -f, -0.5, 0.5, 5))
# 2^f = 1 + f P(f) on |f| <= 1/2
show("exp2, exact at 0", fit(lambda f: np.where(np.abs(f) < 1e-6, np.log(2), np.expm1(np.log(2) * f) / np.where(f == 0, 1, f)),
                             lambda f: np.abs(f) * 2.0 ** -f, -0.5, 0.5, 4))
# erfc(z / sqrt 2) = 2^(-z P(z)) on [0, LAST]; the weight is what an error of P costs gelu(-z) = -z/2 erfc(z / sqrt 2)
LAST = 8


def tail(z):
    small = np.maximum(z, 1e-5)
    return (small * small / 2 - np.log(erfcx(small / np.sqrt(2)))) / small / np.log(2)


def horner(coefficients, x):
    h = np.zeros_like(x)
    for c in coefficients[::-1]:
        h = h * x + c
    return h


for degree in (6, 7, 8):
    p = show(f"erfc {degree}", fit(tail, lambda z: z * z / 2 * erfcx(z / np.sqrt(2)) * np.exp(-z * z / 2) + 1e-9, 0, LAST, degree))
    z = np.linspace(0, LAST, 200001).astype(np.float32)
    t = z * horner(p, z)
    n = np.round(t)
    gelu = -z / 2 * (horner(two, n - t) * np.float32(2.0) ** -n)
    true = -z.astype(np.float64) / 2 * erfcx(z.astype(np.float64) / np.sqrt(2)) * np.exp(-z.astype(np.float64) ** 2 / 2)
    print("  fp32: largest absolute error of gelu", np.abs(gelu - true).max(), "increasing", bool(np.all(np.diff(t) >= 0)), "end:", t[-1], "gelu", gelu[-1])

# 1/2 erfc(z / sqrt 2) = (u P(u))^4 with u = END - z on [0, END]; the weight is what an error of P costs gelu(-z)
END = 5.5


def root(u):
    return (0.5 * erfc((END - u) / np.sqrt(2))) ** 0.25


p = show("erfc, fourth root", fit(lambda u: root(u) / u, lambda u: (END - u) * 4 * root(u) ** 3 * u + 1e-9, 1e-3, END, 5, 600))
z = np.linspace(0, END, 200001).astype(np.float32)
u = np.float32(END) - z
print("  fp32: largest absolute error of gelu", np.abs(z * (u * horner(p, u)) ** 4 - z / 2 * erfc(z.astype(np.float64) / np.sqrt(2))).max())
# weights of attention on codes: 255 2^f = P(f) on |f| <= 1/2
show("exp2 of codes", fit(lambda f: 255 * 2.0 ** f, lambda f: 2.0 ** -f / 255, -0.5, 0.5, 3))

# sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2/2 + r^4 P(r^2) on |r| <= pi/4
u_max = (np.pi / 4) ** 2 * 1.01
show("sin", fit(lambda u: np.where(u < 1e-3, -1 / 6 + u / 120 - u * u / 5040, (np.sin(np.sqrt(u)) / np.sqrt(np.maximum(u, 1e-30)) - 1) / np.maximum(u, 1e-30)),
                lambda u: u, 0, u_max, 3))
show("cos", fit(lambda u: np.where(u < 1e-2, 1 / 24 - u / 720 + u * u / 40320, (np.cos(np.sqrt(u)) - 1 + u / 2) / np.maximum(u, 1e-30) ** 2),
                lambda u: u * u, 0, u_max, 3))
