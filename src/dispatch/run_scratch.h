/* run_scratch.h - memory of a run that the next one uses again: no malloc a token.
 *
 * An endpoint keeps one at most; a run takes it, or makes its own when another run has it.  Safe
 * from any thread.
 */
#ifndef ACCEL_DISPATCH_RUN_SCRATCH_H
#define ACCEL_DISPATCH_RUN_SCRATCH_H

#include "dispatch/endpoint.h"

typedef struct accel__run_scratch {
  int64_t *dim, *symbol; /* [n_dim], [n_symbol] of the program; one block */
  int32_t *row;          /* inputs made by default, one after the other */
  uint64_t n_row, capacity;
} accel__run_scratch;

accel__run_scratch *accel__run_scratch_take(accel_endpoint *ep); /* NULL: no memory */
void accel__run_scratch_give(accel_endpoint *ep, accel__run_scratch *scratch);
/* Room for `n` more integers in all, before the first accel__run_scratch_rows. */
bool accel__run_scratch_reserve(accel__run_scratch *scratch, uint64_t n);
int32_t *accel__run_scratch_rows(accel__run_scratch *scratch, uint64_t n); /* of those reserved */
void accel__run_scratch_free(accel_endpoint *ep);                          /* no run is under way */

#endif
