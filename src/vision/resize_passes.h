/* resize_passes.h - the two passes of resize.c for weights of 16 bits: kernels, where the
 * instruction set has them, and plain loops for what they leave.  Results are integers and the same
 * for every instruction set. */
#ifndef ACCEL_VISION_RESIZE_PASSES_H
#define ACCEL_VISION_RESIZE_PASSES_H

#include "vision/resize_kernels.h"

/* Rows of RGB pixels to other widths: `rows` of them, row r at from + r * stride; readable: bytes
 * from `from` to the end of the picture.  out [rows][width] pixels without gaps. */
void accel__resize_columns(const accel__resize_kernels *kernels, const accel__taps *t,
                           const uint8_t *from, size_t stride, int64_t readable, int32_t rows,
                           int32_t width, uint8_t *out);
/* Output row y from rows of `bytes` bytes, `from` being the first that it needs. */
void accel__resize_row(const accel__resize_kernels *kernels, const accel__taps *t,
                       const uint8_t *from, int64_t bytes, int32_t y, uint8_t *out);

#endif
