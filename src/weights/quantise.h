/* quantise.h - fp32 rows into the formats that cross the plugin interface, in chunks, on a pool.
 *
 * Plain formats (F32, F16, BF16) are conversions, to nearest even.  The others, per group of a row:
 *   I8, E4M3, E5M2   abs-max: the largest magnitude becomes 127, 448, 57344; so is every format of formats.def that has no
 *                    search of its own below
 *   I4               16 candidate scales, the whole range -8..7 used with either sign of the scale (so scales may be
 *                    negative); each is refitted by least squares to the codes it gives, the least squared error wins
 *   U4               the same for the integer zero that spans the group, and its two neighbours; 0 is always in range
 *   E2M1 under E8M0  the better of the two powers of two that put the largest magnitude between 2 and 8 (codes end at 6)
 *   E2M1 under E4M3  the best of five neighbouring scales; outer puts the largest scale of the tensor at 448
 * Formats whose scales span several rows (group_n other than 1), and outer, take a first pass over
 * the values for the largest magnitudes; their scales are abs-max and their zeros 8.
 *
 * Groups of zeros get scale 1.  Magnitudes below 2^-100 count as zeros.  A result depends on the
 * values alone: not on the threads, nor on the instruction set (build without contraction of
 * products and sums).
 */
#ifndef ACCEL_WEIGHTS_QUANTISE_H
#define ACCEL_WEIGHTS_QUANTISE_H

#include "core/threads.h"
#include "weights/quantised.h"

/* Where the rows of a matrix [n, k] come from.  read and forget are called from several threads at
 * once. */
typedef struct accel__values {
  /* rows as fp32 [count, k] */
  accel_status (*read)(const void *user, int64_t first, int64_t count, float *out);
  /* these rows were read; NULL: nothing to do */
  void (*forget)(const void *user, int64_t first, int64_t count);
  /* of what holds the row, for messages */
  const char *(*name)(const void *user, int64_t row);
  const void *user;
} accel__values;

/* Can accel__quantise write it?  (accel_format_known is wider: codes with zeros that only imports
 * have.) */
bool accel__quantise_known(const accel_plugin_format *format);
/* Fills all parts of q.  pool may be NULL.  NaN, infinity, or a magnitude that the type of the
 * scales cannot carry, in a format that is not plain: ACCEL_ERROR_FORMAT naming the tensor and the
 * first such row. */
accel_status accel__quantise(const accel__values *values, accel__pool *pool, accel__quantised *q);

#endif
