/* quantise_search.h - the scale of one group of numbers that leaves the least squared error
 * (private to src/weights).
 *
 * Candidates run side by side in the lanes of a vector and the elements one after another, so sums
 * have one order whatever the vectors' width.
 */
#ifndef ACCEL_WEIGHTS_QUANTISE_SEARCH_H
#define ACCEL_WEIGHTS_QUANTISE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

/* Codes q in [low, high] standing for q * scale. */
typedef struct accel__integer_fit {
  float scale;
  int32_t low, high;
} accel__integer_fit;

/* Largest magnitude, and whether all of x[n] is finite. */
float accel__peak(const float *x, int64_t n, bool *finite);
/* Four bits, -8..7; the scale may be negative.  `peak` is the largest magnitude of x[n], finite and
 * at least 2^-100. */
accel__integer_fit accel__fit_int4(const float *x, int64_t n, float peak);
/* Four bits with a zero of its own: low = -zero, high = 15 - zero, zero 0..15. */
accel__integer_fit accel__fit_uint4(const float *x, int64_t n, float peak);

enum { ACCEL__FLOAT4_CANDIDATES = 8 };
/* Which of `count` scales (positive) leaves E2M1 codes of x[n] the least squared error; the first
 * among equals. */
uint32_t accel__fit_e2m1(const float *x, int64_t n, const float *scales, uint32_t count);

/* codes[i] = round(x[i] * inverse) within [low, high], plus offset; to nearest even. */
void accel__codes_integer(const float *x, int64_t n, float inverse, int32_t low, int32_t high,
                          int32_t offset, uint8_t *codes);
/* codes[i] = E2M1 of x[i] * inverse. */
void accel__codes_e2m1(const float *x, int64_t n, float inverse, uint8_t *codes);

#endif
