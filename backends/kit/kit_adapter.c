/* kit_adapter.c - what the adapters of a run's items add to products of linears (LOW_RANK), and the
 * op in plain C. */
#include <stddef.h>
#include <string.h>

#include "kit/kit_scalar.h"

void kit_adapter_rows(const kit_launch *l, uint32_t item, int64_t *first, int64_t *end) {
  const int64_t space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1);
  /* rows between dim 0 and the columns belong to the row of dim 0 */
  const int64_t inner = l->in[1].dim[0] ? kit_row_count(&l->in[1]) / l->in[1].dim[0] : 0;
  *first = inner * (space >= 0 ? l->rows[space].start[item] : (int64_t)item);
  *end = inner * (space >= 0 ? l->rows[space].start[item + 1] : (int64_t)item + 1);
}

const accel_plugin_low_rank *kit_adapter_of(const kit_launch *l, uint32_t item) {
  const accel_plugin_adapter *a = l->adapter[item].adapter;
  const int64_t slot = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SLOT, -1);
  if (!a || slot < 0 || slot >= (int64_t)a->n_slot) return NULL;
  return a->slot[slot].rank ? &a->slot[slot] : NULL;
}

const accel_plugin_low_rank_f16 *kit_adapter_f16_of(const kit_launch *l, uint32_t item) {
  const accel_plugin_adapter *a = l->adapter[item].adapter;
  const accel_plugin_low_rank *m = kit_adapter_of(l, item);
  if (!m || a->size < offsetof(accel_plugin_adapter, slot_f16) + sizeof a->slot_f16) return NULL;
  return a->slot_f16 ? &a->slot_f16[m - a->slot] : NULL;
}

int32_t kit_adapter_check(const kit_launch *l, accel_plugin_error *error) {
  const int64_t space = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1),
                items = space >= 0 ? l->rows[space].items : l->in[1].dim[0];
  if (!l->adapter || items == (int64_t)l->n_adapter) return ACCEL_PLUGIN_OK;
  return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED,
                         "its rows are those of %lld items, and the run has adapters for %u",
                         (long long)items, l->n_adapter);
}

/* y[N] += scale (x[K] a) b, sums as double */
static void add_row(const accel_plugin_low_rank *m, double scale, const float *x, int64_t k,
                    float *y, int64_t n) {
  for (uint32_t j = 0; j < m->rank; j++) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++) sum += (double)x[i] * (double)m->a[i * m->rank + j];
    sum *= scale;
    for (int64_t i = 0; i < n; i++)
      y[i] = (float)((double)y[i] + sum * (double)m->b[(int64_t)j * n + i]);
  }
}

int32_t kit_scalar_LOW_RANK(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *y = &l->in[0], *x = &l->in[1], *out = &l->out[0];
  const int32_t rc = kit_adapter_check(l, error);
  if (rc) return rc;
  if (out->data != y->data) memcpy(out->data, y->data, (size_t)y->elements * sizeof(float));
  for (uint32_t item = 0; item < l->n_adapter; item++) {
    const accel_plugin_low_rank *m = kit_adapter_of(l, item);
    int64_t row, end;
    kit_adapter_rows(l, item, &row, &end);
    for (; m && row < end; row++)
      add_row(m, l->adapter[item].scale, kit_f32(x) + row * x->row_stride, kit_cols(x),
              kit_f32(out) + row * kit_cols(out), kit_cols(out));
  }
  return ACCEL_PLUGIN_OK;
}
