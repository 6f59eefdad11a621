/* cpu_moe_hits.c - see cpu_moe_hits.h. */
#include "cpu_moe_hits.h"

#include <math.h>

enum { MOST_ROWS = 10000 };
static const double NO_MORE = 1e-6; /* of the chance that an expert is used again later than now */

/* Of n things of which each of k rows chooses so many, all sets alike: how many are chosen by any. */
typedef struct distinct {
  double mean, variance;
} distinct;

static distinct distinct_of(double n, double chosen, double k) {
  if (n < 1) return (distinct){0, 0};
  if (chosen >= n) return (distinct){k > 0 ? n : 0, 0};
  const double one = pow(1 - chosen / n, k); /* that one of them is not chosen; that two are not */
  const double two = n > 1 ? pow((n - chosen) * (n - chosen - 1) / (n * (n - 1)), k) : 0;
  const double variance = n * one + n * (n - 1) * two - n * n * one * one;
  return (distinct){n * (1 - one), variance > 0 ? variance : 0};
}

/* Other experts of the same layer between two uses that lie k rows apart: of the first row's others
 * any number come behind it, and the rows between choose of all others. */
static distinct beside(const cpu_moe_layer *l, double k) {
  const double others = l->experts - 1, later = (l->chosen - 1) / 2,
               spread = (l->chosen * l->chosen - 1) / 12;
  if (others < 1) return (distinct){0, 0};
  distinct d = distinct_of(others, l->chosen, k - 1);
  const double left = (others - later) / others, fresh = 1 - d.mean / others;
  d.mean = others - (others - d.mean) * left;
  d.variance = d.variance * left + spread * fresh * fresh;
  return d;
}

/* That fewer than `slots` come between. */
static double chance(double slots, double mean, double variance) {
  const double by = slots - 0.5 - mean;
  return variance < 1e-9 ? (by > 0 ? 1 : 0) : 0.5 * (1 + erf(by / sqrt(2 * variance)));
}

double cpu_moe_missed(const cpu_moe_layer *layer, uint32_t n, uint32_t slots) {
  double missed = 0;
  for (uint32_t i = 0; i < n; i++) missed += layer[i].bytes;
  for (uint32_t k = 1; k <= MOST_ROWS; k++) {
    distinct all = {0, 0};
    double later = 0;
    for (uint32_t i = 0; i < n; i++) {
      const distinct d = distinct_of(layer[i].experts, layer[i].chosen, k);
      all.mean += d.mean;
      all.variance += d.variance;
    }
    for (uint32_t i = 0; i < n; i++) {
      const cpu_moe_layer *l = &layer[i];
      const double share = l->chosen < l->experts ? l->chosen / l->experts : 1,
                   before = pow(1 - share, k - 1); /* it was not used sooner */
      const distinct own = distinct_of(l->experts, l->chosen, k), d = beside(l, k);
      missed -=
          l->bytes * share * before *
          chance(slots, all.mean - own.mean + d.mean, all.variance - own.variance + d.variance);
      later = fmax(later, before * (1 - share));
    }
    if (later < NO_MORE || all.mean > slots + 8 * sqrt(all.variance) + 8) break;
  }
  return missed > 0 ? missed : 0;
}
