/* bench_stats.h - did a figure change?  A rank test, an interval of the ratio, and what many tests
 * at once ask for. */
#ifndef ACCEL_BENCH_STATS_H
#define ACCEL_BENCH_STATS_H

#include <stdbool.h>
#include <stdint.h>

/* Of n values, which are sorted; NaN when n is 0. */
double bench_median(double *values, uint32_t n);

/* Mann-Whitney's U of a[n] beside b[m] (how many pairs have a above b, a tie being half of one) and
 * the two-sided probability of one as far from the middle when both are drawn from the same
 * distribution: exact where n and m are at most 20 and no two values are equal, else of the normal
 * distribution with corrections for ties and continuity.  NaN without memory, or when n or m is
 * 0. */
double bench_u_test(const double *a, uint32_t n, const double *b, uint32_t m, double *u);

/* How many times as large b is as a: the median of all ratios b / a (Hodges and Lehmann), and the
 * interval in which it lies with 95 %, from the distribution of U.  All values are positive. */
typedef struct bench_ratio {
  double ratio, low, high;
} bench_ratio;
/* false: no memory, a value that is not positive, or no values. */
bool bench_ratio_of(const double *a, uint32_t n, const double *b, uint32_t m, bench_ratio *out);

/* Benjamini and Hochberg: p[n] become the least share of false alarms at which each is one; false:
 * no memory. */
bool bench_adjust(double *p, uint32_t n);

#endif
