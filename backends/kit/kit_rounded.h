/* kit_rounded.h - a run with its rows rounded up to one of a few numbers, for compilers of graphs
 * whose sizes are all known: texts of 100 and of 120 tokens share a graph.
 *
 * Rows of ragged spaces and the longest item become the next power of two, from 256 on the next
 * multiple of 256.  The rows that are added belong to no item: nothing that is gathered reads them,
 * and what the graph makes of them is cut off. */
#ifndef ACCEL_KIT_ROUNDED_H
#define ACCEL_KIT_ROUNDED_H

#include "kit/kit_graph.h"

typedef struct kit_rounded {
  kit_graph_run run; /* the run, with other symbols, dims, rows and inputs; results are not in it */
  int64_t *symbol, *dim;
  kit_rows *rows;
  accel_plugin_view *in;
  void **owned; /* [n_in] memory of inputs with more rows */
  uint32_t n_in;
} kit_rounded;

/* Where a shape of the entry is no plain number of rows (a sum of them), the run is as it was.
 * `run` stays the caller's.  Free it after failures, too. */
int32_t kit_round(const kit_graph_run *run, kit_rounded *out, accel_plugin_error *error);
void kit_rounded_free(kit_rounded *r);
/* The shape of output `index` of the entry, [rank]. */
void kit_rounded_shape(const kit_rounded *r, uint32_t index, int64_t *dim);
/* Copies what two arrays have in common, from their first elements on; n: bytes of an element. */
void kit_copy_common(const void *from, const int64_t *from_dim, void *to, const int64_t *to_dim,
                     uint32_t rank, uint64_t n);

#endif
