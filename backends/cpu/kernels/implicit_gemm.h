/* implicit_gemm.h - a convolution as a product of matrices, without laying out the matrix of
 * windows.
 *
 * Row r of x is the window of the image under pixel r of y: kernel rows by kernel columns by
 * channels (k values), taken from the image where it lies.  The image is codes,
 * [height][width][channels], and a row of x is k / block pieces of it, each `block` neighbouring
 * codes.  cpu_conv_i8.c fills this in and calls the linear kernel of the int8 layout
 * (conv_i8_body.h), whose panels are then cut into blocks of `block` k, too.  y = act(x w^T + bias
 * + residual). */
#ifndef ACCEL_CPU_IMPLICIT_GEMM_H
#define ACCEL_CPU_IMPLICIT_GEMM_H

#include <stdint.h>

typedef struct cpu_implicit_gemm {
  /* Rows of y that are pixels of one line; they are ldx bytes apart in x, and a line begins
   * line_bytes behind the one before.  Ranges of rows that a kernel is called for are whole
   * lines. */
  int64_t line, line_bytes;
  /* k that are neighbours in x and share one scale; the k of a call are a multiple of it.  Up to 63
   * bytes behind a block are read. */
  int64_t block;
  /* [k / block], or of blocks that consist of parts [k / part]: where a block or part begins, in
   * bytes from its row's beginning */
  const int64_t *x_at;
  /* x = (code - zero) * scale, for row 0 and block 0; zero NULL: 0 everywhere.  In floats from
   * there:
   * scale_row to the next row of a line, scale_line to the next line, scale_at[block] to a
   * block. */
  const float *scale, *zero;
  int64_t scale_row, scale_line;
  const int64_t *scale_at;                     /* [k / block] */
  const uint8_t *residual;                     /* codes [rows][ldr], or NULL */
  const float *residual_scale, *residual_zero; /* [rows]; residual_zero NULL: 0 */
  /* Memory that the next call will read and write, which the kernel prefetches while it stores rows
   * of y: x and residual lie so many bytes behind this call's, 0: not prefetched; y_prefetch is the
   * codes [rows][ldr] that the next call's y will become, or NULL. */
  int64_t x_prefetch, residual_prefetch;
  uint8_t *y_prefetch;
  /* Running maxima of y, for the coding of y that follows (cpu_pixels); NULL: not wanted.  For each
   * row a vector of floats: high, the largest of 0 and y in each lane; low, the largest of 0 and
   * -y.
   * They start from 0 with the first panel of a call.  Wanted only where no NaN can arise.  low
   * NULL:
   * act is a ReLU, which the kernel may then leave to the coding. */
  float *high, *low;
  /* Not 0: the only block consists of parts of `part` codes, a multiple of 8. */
  int64_t part;
} cpu_implicit_gemm;

#endif
