/* resize_passes.h - the two passes of resize.c for weights of 16 bits, and the last step of pixels.c, by instructions that
 * not every processor has.
 *
 * A pass sums `count` weighted input pixels for each output pixel in 32 bits, adds half a unit, shifts `precision` bits out
 * and clips to 0 .. 255: integers, so results are those of the plain loops.
 */
#ifndef ACCEL_VISION_RESIZE_PASSES_H
#define ACCEL_VISION_RESIZE_PASSES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct accel__taps {
  int32_t groups, precision;
  const int32_t *first, *count; /* [out]: input pixels of each output pixel */
  const int16_t *weight;        /* [out][4 * groups], zeros behind the last tap */
} accel__taps;

/* Whether this processor has them. */
bool accel__resize_passes(void);
/* One output row from one input row of `width` RGB pixels; `next` is the row below, done as well when it is not NULL.
 * readable: bytes from the later row's first one to the end of its picture. */
void accel__resize_columns(const accel__taps *t, const uint8_t *row, const uint8_t *next, int64_t readable, int32_t width,
                           uint8_t *out, uint8_t *out_next);
/* Output row y from rows of `bytes` bytes. */
void accel__resize_rows(const accel__taps *t, const uint8_t *pixels, int64_t bytes, int32_t y, uint8_t *out);
/* to[c][x] = (byte - offset[c]) / scale[c], or byte * scale[c], for the first pixels of a row of n, as many as are done at a
 * time: answers how many. */
int64_t accel__spread_row(const uint8_t *row, int64_t n, const float offset[3], const float scale[3], bool divides,
                          float *const to[3]);

#endif
