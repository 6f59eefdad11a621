"""Cases of the rank test of accel bench --compare, for tests/unit/bench_stats_test.c: tests/fixtures/bench/rank_tests.json.

Needs scipy: mannwhitneyu (exact without ties up to 20 values a side, else asymptotic with continuity) and false_discovery_control.  Intervals of the ratio
are those of R's wilcox.test: from the distribution of U, here counted by its recursion."""
import functools
import json
import os
import random

import scipy
from scipy.stats import false_discovery_control, mannwhitneyu

PLACE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fixtures", "bench", "rank_tests.json")


@functools.lru_cache(None)
def orders(n, m, u):
    if u < 0:
        return 0
    if n == 0 or m == 0:
        return int(u == 0)
    return orders(n - 1, m, u - m) + orders(n, m - 1, u)


def interval(a, b):
    ratios = sorted(y / x for x in a for y in b)
    n, m = len(a), len(b)
    middle = (ratios[(n * m - 1) // 2] + ratios[n * m // 2]) / 2
    if n <= 20 and m <= 20:
        total, below, k = sum(orders(n, m, u) for u in range(n * m + 1)), 0, 0
        while (below + orders(n, m, k)) / total <= 0.025:
            below += orders(n, m, k)
            k += 1
    else:
        k = int(max(0, n * m / 2 - 1.959963984540054 * (n * m * (n + m + 1) / 12) ** 0.5))
    k = max(k, 1)
    return middle, ratios[k - 1], ratios[n * m - k]


def main():
    chance, cases = random.Random(7), []
    for n, m, shift, digits in ((1, 1, 0, 9), (3, 4, 0, 9), (5, 5, 0.1, 9), (5, 5, 5, 9), (8, 9, 0.05, 9), (20, 20, 0.02, 9), (20, 20, 0.3, 9), (20, 7, -0.1, 9), (6, 6, 0, 1),
                                (12, 15, 0.05, 1), (21, 20, 0.03, 9), (40, 35, 0.01, 9), (60, 60, 0.02, 2), (10, 10, 0, 0)):
        a = [round(10 + chance.random(), digits) for _ in range(n)]
        b = [round((10 + chance.random()) * (1 + shift), digits) for _ in range(m)]
        ties = len(set(a + b)) < n + m
        found = mannwhitneyu(a, b, alternative="two-sided", method="asymptotic" if ties or max(n, m) > 20 else "exact")
        p = found.pvalue if found.pvalue == found.pvalue else 1.0
        cases.append({"a": a, "b": b, "u": found.statistic, "p": p, "ratio": interval(a, b)})
    p = [chance.random() ** 3 for _ in range(30)]
    with open(PLACE, "w", encoding="utf-8") as f:
        json.dump({"scipy": scipy.__version__, "cases": cases, "p": p, "adjusted": list(false_discovery_control(p, method="bh"))}, f)
        f.write("\n")


if __name__ == "__main__":
    main()
