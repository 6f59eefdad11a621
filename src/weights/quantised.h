/* quantised.h - a weight in memory of ours, in one of the formats that cross the plugin interface
 * (accel_plugin_format; layout in formats/weight_matrix.h).
 */
#ifndef ACCEL_WEIGHTS_QUANTISED_H
#define ACCEL_WEIGHTS_QUANTISED_H

#include <stdint.h>

#include "core/status.h"
#include "formats/weight_matrix.h"

/* The matrix [n, k].  The parts lie in one block of its own pages, so that freeing it shrinks the
 * process; each begins on 64 bytes.  A part that the format lacks is NULL with 0 bytes; one that is
 * empty (n or k 0) is not NULL. */
typedef struct accel__quantised {
  accel_plugin_format format;
  int64_t n, k;
  void *data, *scale, *zero, *outer;
  accel_matrix_bytes bytes;
  void *block; /* {0} owns nothing */
  uint64_t block_bytes;
} accel__quantised;

/* Zeroed memory.  ACCEL_ERROR_UNSUPPORTED: a format that formats/weight_matrix.h does not know;
 * ACCEL_ERROR_FORMAT: sizes beyond 63 bits; ACCEL_ERROR_OUT_OF_MEMORY (fault point
 * "weight_buffer").  On failure *out is {0}. */
accel_status accel__quantised_new(const accel_plugin_format *format, int64_t n, int64_t k,
                                  accel__quantised *out);
void accel__quantised_free(accel__quantised *q); /* leaves {0} */
/* The same matrix, to read. */
static inline accel_matrix accel__quantised_matrix(const accel__quantised *q) {
  return (accel_matrix){q->format, q->n, q->k, q->data, q->scale, q->zero, q->outer};
}
/* Rows [first, first+count) as fp32 [count, k], all within n. */
void accel__dequantise_rows(const accel__quantised *q, int64_t first, int64_t count, float *out);

#endif
