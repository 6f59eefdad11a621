/* compare.c - differences and bounds. */
#include "verify/compare.h"

#include <math.h>
#include <string.h>

void accel__compare(const float *got, const float *want, const uint8_t *mask, uint64_t n,
                    accel__difference *out) {
  double dot = 0, gg = 0, ww = 0;
  *out = (accel__difference){0};
  for (uint64_t i = 0; i < n; i++) { /* first the scale */
    if (mask && !mask[i]) continue;
    out->compared++;
    if (isfinite(want[i])) ww += (double)want[i] * want[i];
  }
  out->rms = out->compared ? sqrt(ww / (double)out->compared) : 0;
  for (uint64_t i = 0; i < n; i++) {
    if (mask && !mask[i]) continue;
    double g = got[i], w = want[i];
    if (isnan(g) || isnan(w)) {
      out->nan = true; /* any NaN fails */
    } else if (isinf(g) || isinf(w)) {
      out->infinity |= g != w;
    } else {
      double d = fabs(g - w);
      if (d > out->max_abs) out->max_abs = d;
      if (fabs(w) > 1e-3 * out->rms && d / fabs(w) > out->max_rel) out->max_rel = d / fabs(w);
      dot += g * w;
      gg += g * g;
    }
  }
  /* all zero on both sides agrees */
  out->cosine = gg > 0 && ww > 0 ? dot / (sqrt(gg) * sqrt(ww)) : gg == ww ? 1 : 0;
}

bool accel__within_bounds(const accel__difference *d, const char *precision, double *bound) {
  if (!strcmp(precision, "fp32")) {
    *bound = fmax(2e-4 * d->rms, 1e-6);
    return !d->nan && !d->infinity && d->max_abs <= *bound;
  }
  bool half = !strcmp(precision, "fp16") || !strcmp(precision, "bf16"),
       eight = strchr(precision, '8') != NULL;
  *bound = half ? 0.999 : eight ? 0.99 : 0.95;
  return !d->nan && !d->infinity && d->cosine >= *bound;
}
