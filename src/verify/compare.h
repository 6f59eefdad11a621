/* compare.h - how far a result is from its reference, and whether that is within the bounds
 * (docs/verify.md). */
#ifndef ACCEL_VERIFY_COMPARE_H
#define ACCEL_VERIFY_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

typedef struct accel__difference {
  uint64_t compared, mismatched;        /* elements; integer elements that differ */
  double max_abs, max_rel, cosine, rms; /* rms of the reference */
  /* a NaN where the reference has a number, or the other way round */
  bool nan;
  bool infinity; /* infinities that do not match */
} accel__difference;

/* got[n] against want[n]; elements with mask[i] == 0 are left out (mask NULL: none is).  max_rel is
 * over elements above 1e-3 rms. */
void accel__compare(const float *got, const float *want, const uint8_t *mask, uint64_t n,
                    accel__difference *out);

/* fp32: max_abs <= max(2e-4 rms, 1e-6).  Else cosine >= 0.999 (fp16, bf16), 0.99 (int8, fp8), 0.95
 * (four bits).  *bound gets the number. */
bool accel__within_bounds(const accel__difference *d, const char *precision, double *bound);

#endif
