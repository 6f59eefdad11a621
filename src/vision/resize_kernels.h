/* resize_kernels.h - the loops of resize.c and the last step of pixels.c for processors with wide
 * vectors, once for each instruction set.
 *
 * resize_body.h has the code; resize_avx2.c and resize_avx512.c compile it.  There are none for
 * scalar code: the plain loops of resize_passes.c and resize.c give the same bytes.  A kernel does
 * as much of a row as it can and answers how much; the plain loops do the rest.  Kernels keep no
 * state: any thread may call them.
 */
#ifndef ACCEL_VISION_RESIZE_KERNELS_H
#define ACCEL_VISION_RESIZE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/isa.h"

/* The weights of one pass in 16 bits.  Output pixel i is the sum over k < count[i] of
 * weight[i * 4 * groups + k] times input pixel first[i] + k, in 32 bits, plus half a unit, shifted
 * right by `precision` bits and clipped to 0 .. 255. */
typedef struct accel__taps {
  int32_t groups, precision;
  const int32_t *first, *count; /* [out] */
  const int16_t *weight;        /* [out][4 * groups], zeros behind the last tap */
} accel__taps;

/* How a byte of each colour becomes a value: (byte - offset) / scale, or, unless it divides,
 * byte * scale. */
typedef struct accel__scaling {
  bool divides;
  float offset[3], scale[3];
} accel__scaling;

typedef struct accel__resize_kernels {
  int32_t rows; /* of the picture that `columns` works on at a time */
  /* `rows` rows of RGB pixels, `stride` bytes apart, to another width: out [rows][width] pixels.
   * Reads up to 16 bytes from the first tap on, and writes up to 16 bytes for four pixels, inside
   * `out`.  Only output pixels below `end` are made; answers how many were. */
  int32_t (*columns)(const accel__taps *t, const uint8_t *row, size_t stride, int32_t end,
                     int32_t width, uint8_t *out);
  /* Output row y from rows of `bytes` bytes without gaps, `from` being the first that it needs.
   * Answers how many bytes were made. */
  int64_t (*row)(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y, uint8_t *out);
  /* Values of the pixels of a row of n into three planes.  Answers how many pixels were made. */
  int64_t (*scale)(const uint8_t *row, int64_t n, const accel__scaling *how, float *const to[3]);
  const struct accel__resize_kernels *narrower; /* for rows that are left over, or NULL */
} accel__resize_kernels;

/* NULL for scalar code.  Only for an instruction set that accel__isa_list gives. */
const accel__resize_kernels *accel__resize_kernels_of(accel__isa isa);

extern const accel__resize_kernels accel__resize_kernels_avx2;   /* x86-64 alone */
extern const accel__resize_kernels accel__resize_kernels_avx512; /* x86-64 alone */

#endif
