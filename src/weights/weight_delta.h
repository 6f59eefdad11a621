/* weight_delta.h - what adapters make of tensors of a checkpoint: another tensor in the place of
 * one, products of low rank that are added (LoRA), those of two such products element by element
 * (LoHa), Kronecker products (LoKr), and rows of a new length (DoRA).
 *
 * Tensors are named as the checkpoint has them.  A tensor counts as the matrix [rows, columns] that
 * lies in the file: dim 0, and the product of the others.
 */
#ifndef ACCEL_WEIGHTS_WEIGHT_DELTA_H
#define ACCEL_WEIGHTS_WEIGHT_DELTA_H

#include "weights/weights.h"

/* In front of the names of an adapter's tensors, where a checkpoint has taken them over
 * (accel__checkpoint_join). */
#define ACCEL__ADAPTER_PREFIX "adapter:"

/* W becomes W + left right, W + (left right) * (left2 right2) element by element, or W + the Kronecker
 * product of left and right; with a magnitude each row (by_column: each column) of that is then
 * brought to the length magnitude has for it. */
typedef struct accel__weight_delta {
  int64_t rows, columns;
  uint32_t rank;
  const float *left;   /* [rows, rank], the scale is in it */
  const float *right;  /* [rank, columns] */
  uint32_t rank2;      /* 0: there is no second product */
  const float *left2;  /* [rows, rank2] */
  const float *right2; /* [rank2, columns] */
  /* of a Kronecker product, else 0: right is [block_rows, block_columns], and left, which has the
   * scale, [rows / block_rows, columns / block_columns] */
  int64_t block_rows, block_columns;
  const float *magnitude; /* [rows], by_column [columns]; NULL: none */
  bool by_column;
  /* of accel__weight_deltas_add and _apply alone */
  float *factor; /* as magnitude: what rows or columns are multiplied by; valid once has_factor */
  bool has_factor;
  struct accel__weight_delta *next; /* applied behind this one */
} accel__weight_delta;

/* Changes of the tensors of one checkpoint.  Filled by one thread, then usable from any. */
typedef struct accel__weight_deltas accel__weight_deltas;
/* NULL: no memory. */
accel__weight_deltas *accel__weight_deltas_new(void);
void accel__weight_deltas_free(accel__weight_deltas **deltas); /* NULL-safe */

/* The tensor `other` of the checkpoint stands in the place of `tensor`, which need not be there. */
accel_status accel__weight_deltas_replace(accel__weight_deltas *d, const char *tensor,
                                          const char *other);
/* Behind what is added to it already.  Copies *delta, but not what it points to. */
accel_status accel__weight_deltas_add(accel__weight_deltas *d, const char *tensor,
                                      const accel__weight_delta *delta);

/* The name under which the checkpoint holds what `tensor` is now; d may be NULL. */
const char *accel__weight_deltas_stored(const accel__weight_deltas *d, const char *tensor);
/* Does another tensor stand in its place?  d may be NULL. */
bool accel__weight_deltas_replaced(const accel__weight_deltas *d, const char *tensor);
/* The first of what is added to `tensor`; NULL: nothing.  d may be NULL. */
accel__weight_delta *accel__weight_deltas_of(const accel__weight_deltas *d, const char *tensor);
/* values[count] are elements [first, first+count) of the stored tensor, of which all of `delta` and
 * those behind it are applied.  Thread-safe; the first call for a tensor with magnitudes reads the
 * whole tensor of c.  ACCEL_ERROR_FORMAT: a row of length 0 has a magnitude. */
accel_status accel__weight_deltas_apply(accel__weight_deltas *d, const accel__checkpoint *c,
                                        const accel__tensor_info *stored,
                                        accel__weight_delta *delta, uint64_t first, uint64_t count,
                                        float *values);

#endif
