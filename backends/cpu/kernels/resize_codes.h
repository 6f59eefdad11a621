/* resize_codes.h - a line of a resized image that stays codes (cpu_codes.c). */
#ifndef ACCEL_CPU_RESIZE_CODES_H
#define ACCEL_CPU_RESIZE_CODES_H

#include "kernels/kernels.h"

/* Channels last: between two lines of x, then between two pixels of what that gives; y[p][c] =
 * round(to + sum over i of factor[i] * (x[i] - from[i])), that sum resized along its pixels as in
 * cpu_resize. */
typedef struct cpu_resize_codes {
  const uint8_t *x[2]; /* [in][channels] */
  /* 0 to 1, and such that all numbers are within the codes 0..255; factor[1] 0: there is no x[1] */
  float factor[2], from[2], to; /* from, to: whole */
  int64_t in, out, channels, width;
  const int32_t *index; /* [out][width]; width is 1 or 2 */
  const float *weight;  /* of two they add up to 1 */
  int16_t *line;        /* [in][channels], workspace */
  uint8_t *y;           /* [out][channels] */
} cpu_resize_codes;
typedef void cpu_resize_codes_fn(const cpu_resize_codes *g);
cpu_resize_codes_fn accel_f32_resize_codes__avx512;
/* The one of these kernels; NULL: lines pass through fp32 (cpu_isa.c). */
cpu_resize_codes_fn *cpu_resize_codes_of(const cpu_kernels *kernels);

#endif
