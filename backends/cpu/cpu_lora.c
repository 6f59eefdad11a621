/* cpu_lora.c - the op LOW_RANK: rows of items that have an adapter go through its two matrices, row
 * by row, so that what comes out does not depend on the other rows of the run. */
#include "cpu_lora.h"

#include <string.h>

/* Nanoseconds of one multiplication and addition, and of a byte of the matrices: those of many
 * adapters are in no cache of one core. */
static const double NS_PRODUCT = 0.06, NS_BYTE = 0.1;

enum { TERMS = 256 /* columns of a that go through the stack at once */ };

typedef struct lora_job {
  const cpu_kernels *kernels;
  const kit_launch *launch;
  const float *x;
  float *y;
  int64_t k, n, rows; /* rows of items with an adapter */
  uint32_t tasks;
} lora_job;

static void add_row(const lora_job *j, const accel_plugin_low_rank *m,
                    const accel_plugin_low_rank_f16 *half, float scale, int64_t row) {
  const float *x = j->x + row * j->k;
  float *y = j->y + row * j->n, t[TERMS];
  if (half && m->rank <= TERMS) {
    j->kernels->lora_shrink_f16(x, j->k, half->a, m->rank, scale * half->factor, t);
    j->kernels->lora_expand_f16(t, m->rank, half->b, j->n, y);
    return;
  }
  if (m->rank <= TERMS) {
    j->kernels->lora_shrink(x, j->k, m->a, m->rank, scale, t);
    j->kernels->lora_expand(t, m->rank, m->b, j->n, y);
    return;
  }
  for (uint32_t r = 0; r < m->rank; r++) { /* of a column alone there is no kernel */
    float sum = 0;
    for (int64_t i = 0; i < j->k; i++) sum += x[i] * m->a[i * m->rank + r];
    j->kernels->accumulate(scale * sum, m->b + r * j->n, y, j->n);
  }
}

/* Rows [from, to) of those of items with an adapter. */
static void lora_task(void *arg, uint32_t task, uint32_t worker) {
  const lora_job *j = arg;
  const int64_t from = cpu_share(j->rows, task, j->tasks),
                to = cpu_share(j->rows, task + 1, j->tasks);
  int64_t at = 0;
  (void)worker;
  for (uint32_t item = 0; item < j->launch->n_adapter && at < to; item++) {
    const accel_plugin_low_rank *m = kit_adapter_of(j->launch, item);
    const accel_plugin_low_rank_f16 *half = kit_adapter_f16_of(j->launch, item);
    int64_t first, end;
    if (!m) continue;
    kit_adapter_rows(j->launch, item, &first, &end);
    for (int64_t row = first; row < end && at < to; row++, at++)
      if (at >= from) add_row(j, m, half, j->launch->adapter[item].scale, row);
  }
}

int32_t cpu_launch_lora(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *y = &l->in[0], *x = &l->in[1], *out = &l->out[0];
  lora_job j = {.kernels = &s->kernels,
                .launch = l,
                .x = kit_f32(x),
                .y = kit_f32(out),
                .k = kit_cols(x),
                .n = kit_cols(out)};
  double ns = 0;
  const int32_t rc = kit_adapter_check(l, error);
  if (rc) return rc;
  if (out->data != y->data) memcpy(out->data, y->data, (size_t)y->elements * sizeof(float));
  for (uint32_t item = 0; item < l->n_adapter; item++) {
    const accel_plugin_low_rank *m = kit_adapter_of(l, item);
    int64_t first, end;
    if (!m) continue;
    kit_adapter_rows(l, item, &first, &end);
    j.rows += end - first;
    const size_t size = kit_adapter_f16_of(l, item) ? sizeof(uint16_t) : sizeof(float);
    ns += (double)m->rank * (double)(j.k + j.n) *
          (NS_PRODUCT * (double)(end - first) + NS_BYTE * (double)size);
  }
  if (!j.rows) return ACCEL_PLUGIN_OK;
  j.tasks = cpu_tasks(l, j.rows, ns / (double)j.rows);
  cpu_parallel(l, j.tasks, lora_task, &j);
  return ACCEL_PLUGIN_OK;
}
