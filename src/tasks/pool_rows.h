/* pool_rows.h - the head of a sentence embedding on the host, for calls that ask for what the one built
 * into the program does not do. */
#ifndef ACCEL_TASKS_POOL_ROWS_H
#define ACCEL_TASKS_POOL_ROWS_H

#include "modeling/model.h"

/* out[dim] from rows[n, dim], n >= 1, leaving out the first `skip` rows (prompt tokens; skip < n).
 * sentence-transformers' Pooling. */
void accel__pool_rows(accel__pooling mode, const float *rows, uint32_t n, uint32_t skip,
                      uint32_t dim, float *out);
/* act(x) of an accel_plugin_act that accel__torch_activation knows. */
double accel__activated(int activation, double x);
/* sentence-transformers' Dense, y[out] = activation(weight[out, in] x[in] + bias[out]), bias may be
 * NULL; or its LayerNorm.
 */
void accel__dense_row(const accel__dense *layer, const float *weight, const float *bias,
                      const float *x, float *y);
/* to length 1; zero rows stay zero (torch: eps 1e-12) */
void accel__normalize_row(float *row, uint32_t dim);

#endif
