/* pool.h - sentence pooling on the host, for calls that ask for another pooling than the one built into the program. */
#ifndef ACCEL_TASKS_POOL_H
#define ACCEL_TASKS_POOL_H

#include "models/model.h"

/* out[dim] from rows[n, dim], n >= 1, leaving out the first `skip` rows (prompt tokens; skip < n).  sentence-transformers' Pooling. */
void accel__pool_rows(accel__pooling mode, const float *rows, uint32_t n, uint32_t skip, uint32_t dim, float *out);
void accel__normalize_row(float *row, uint32_t dim); /* to length 1; zero rows stay zero (torch: eps 1e-12) */

#endif
