/* resize_passes.h - the two passes of resize.c for weights of 16 bits, and the last step of
 * pixels.c, by instructions that not every processor has.
 *
 * A pass sums `count` weighted input pixels for each output pixel in 32 bits, adds half a unit,
 * shifts `precision` bits out and clips to 0 .. 255: integers, so results are those of the plain
 * loops.
 */
#ifndef ACCEL_VISION_RESIZE_PASSES_H
#define ACCEL_VISION_RESIZE_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct accel__taps {
  int32_t groups, precision;
  const int32_t *first, *count; /* [out]: input pixels of each output pixel */
  const int16_t *weight;        /* [out][4 * groups], zeros behind the last tap */
} accel__taps;

/* Whether this processor has them. */
bool accel__resize_passes(void);
/* Rows of RGB pixels to other widths: `rows` of them, row r at from + r * stride; readable: bytes
 * from `from` to the end of the picture.  out [rows][width] pixels without gaps. */
void accel__resize_columns(const accel__taps *t, const uint8_t *from, size_t stride,
                           int64_t readable, int32_t rows, int32_t width, uint8_t *out);
/* Output row y from rows of `bytes` bytes, `from` being the first that it needs. */
void accel__resize_row(const accel__taps *t, const uint8_t *from, int64_t bytes, int32_t y,
                       uint8_t *out);
/* How a byte of each colour becomes a value. */
typedef struct accel__scaling {
  bool divides;
  float offset[3], scale[3]; /* (byte - offset) / scale, or, unless it divides, byte * scale */
} accel__scaling;
/* Values of the first pixels of a row of n, as many as are done at a time: answers how many. */
int64_t accel__spread_row(const uint8_t *row, int64_t n, const accel__scaling *how,
                          float *const to[3]);

#endif
