/* bench_stats.c - see bench_stats.h. */
#include "bench/bench_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT = 20 };

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *values, uint32_t n) {
  if (!n) return (double)NAN;
  qsort(values, n, sizeof *values, by_size);
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* ---- the distribution of U ---- */

/* share[u] of all orders of n and m values have that U, u up to n * m: the coefficients of
 * prod (1 - q^(m + i)) / (1 - q^i), i = 1 .. n. */
static double *distribution(uint32_t n, uint32_t m) {
  const uint32_t most = n * m;
  double sum = 0, *share = calloc(most + (size_t)1, sizeof *share);
  if (!share) return NULL;
  share[0] = 1;
  for (uint32_t i = 1; i <= n; ++i) {
    for (uint32_t u = most; u >= m + i; --u) share[u] -= share[u - m - i];
    for (uint32_t u = i; u <= most; ++u) share[u] += share[u - i];
  }
  for (uint32_t u = 0; u <= most; ++u) sum += share[u];
  for (uint32_t u = 0; u <= most; ++u) share[u] /= sum;
  return share;
}

typedef struct ranked {
  double value;
  bool of_a;
} ranked;

static int by_value(const void *a, const void *b) {
  const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
  return (x > y) - (x < y);
}

/* U, and the sum of t^3 - t over groups of t equal values. */
static bool count_pairs(const double *a, uint32_t n, const double *b, uint32_t m, double *u,
                        double *ties) {
  ranked *all = malloc(((size_t)n + m) * sizeof *all);
  if (!all) return false;
  for (uint32_t i = 0; i < n; ++i) all[i] = (ranked){a[i], true};
  for (uint32_t i = 0; i < m; ++i) all[n + i] = (ranked){b[i], false};
  qsort(all, (size_t)n + m, sizeof *all, by_value);
  *u = -0.5 * n * (n + 1.0);
  *ties = 0;
  for (uint32_t i = 0, end; i < n + m; i = end) {
    uint32_t of_a = 0;
    for (end = i; end < n + m && all[end].value == all[i].value; ++end) of_a += all[end].of_a;
    const double t = end - i;
    *u += of_a * 0.5 * (i + 1.0 + end); /* the mean of their ranks */
    *ties += t * t * t - t;
  }
  free(all);
  return true;
}

double bench_u_test(const double *a, uint32_t n, const double *b, uint32_t m, double *u) {
  double ties, p = 0;
  *u = (double)NAN;
  if (!n || !m || !count_pairs(a, n, b, m, u, &ties)) return (double)NAN;
  const double pairs = (double)n * m, all = (double)n + m, far = fmax(*u, pairs - *u);
  if (n <= EXACT && m <= EXACT && ties == 0) {
    double *share = distribution(n, m);
    if (!share) return (double)NAN;
    for (uint32_t i = (uint32_t)far; i <= n * m; ++i) p += share[i];
    free(share);
  } else {
    const double variance = pairs / 12 * (all + 1 - ties / (all * (all - 1)));
    if (variance <= 0) return 1;
    p = 0.5 * erfc((far - 0.5 * pairs - 0.5) / sqrt(2 * variance));
  }
  return fmin(1, 2 * p);
}

/* ---- ratios ---- */

/* The number, from 1, of the ratio that bounds the interval from below. */
static uint32_t bounding(uint32_t n, uint32_t m) {
  static const double tail = 0.025, z = 1.959963984540054;
  uint32_t k = 0;
  if (n <= EXACT && m <= EXACT) {
    double below = 0, *share = distribution(n, m);
    while (share && below + share[k] <= tail) below += share[k++];
    free(share);
  } else {
    const double pairs = (double)n * m;
    k = (uint32_t)fmax(0, 0.5 * pairs - z * sqrt(pairs * ((double)n + m + 1) / 12));
  }
  return k ? k : 1;
}

bool bench_ratio_of(const double *a, uint32_t n, const double *b, uint32_t m, bench_ratio *out) {
  const size_t pairs = (size_t)n * m;
  double *all = pairs ? malloc(pairs * sizeof *all) : NULL;
  bool good = all != NULL;
  for (uint32_t i = 0; good && i < n; ++i)
    for (uint32_t j = 0; good && j < m; ++j) {
      good = a[i] > 0 && b[j] > 0;
      all[(size_t)i * m + j] = b[j] / a[i];
    }
  if (good) {
    out->ratio = bench_median(all, (uint32_t)pairs);
    const uint32_t k = bounding(n, m);
    out->low = all[k - 1];
    out->high = all[pairs - k];
  }
  free(all);
  return good;
}

/* ---- many tests ---- */

static int by_pointed(const void *a, const void *b) {
  return by_size(*(double *const *)a, *(double *const *)b);
}

bool bench_adjust(double *p, uint32_t n) {
  double **order = malloc((n + (size_t)1) * sizeof *order), least = 1;
  if (!order) return false;
  for (uint32_t i = 0; i < n; ++i) order[i] = &p[i];
  if (n) qsort((void *)order, n, sizeof *order, by_pointed);
  for (uint32_t i = n; i-- > 0;) {
    least = fmin(least, *order[i] * n / (i + 1.0));
    *order[i] = least;
  }
  free((void *)order);
  return true;
}
