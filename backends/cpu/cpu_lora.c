/* cpu_lora.c - the op LOW_RANK: rows of items that have an adapter go through its two matrices, and
 * what comes out of one does not depend on the other rows of the run. */
#include "cpu_lora.h"

#include <string.h>

/* Nanoseconds of one multiplication and addition, and of a byte of the matrices: those of many
 * adapters are in no cache of one core. */
static const double NS_PRODUCT = 0.06, NS_BYTE = 0.1;

enum {
  TERMS = 1024,   /* numbers between the two matrices, on the stack */
  MOST_RANK = 256 /* so that there are some rows of them */
};

typedef struct lora_job {
  const cpu_kernels *kernels;
  const kit_launch *launch;
  const float *x;
  int64_t k;
  int64_t rows; /* of items with an adapter, those of each node of the launch */
  uint32_t tasks;
} lora_job;

/* Node m of a launch. */
static const kit_launch *node_at(const kit_launch *l, uint32_t m) {
  return m ? &l->joined[m - 1] : l;
}

/* Rows [row, row + rows) of an item that has an adapter for the node. */
static void add_rows(const lora_job *j, const kit_launch *l, uint32_t item, int64_t row,
                     int64_t rows) {
  const accel_plugin_low_rank *m = kit_adapter_of(l, item);
  const accel_plugin_low_rank_f16 *half = kit_adapter_f16_of(l, item);
  const float scale = l->adapter[item].scale, *x = j->x + row * j->k;
  const int64_t n = kit_cols(&l->out[0]);
  float *y = kit_f32(&l->out[0]) + row * n, t[TERMS];
  if (half) {
    j->kernels->lora_shrink_f16(x, rows, j->k, half->a, m->rank, scale * half->factor, t);
    j->kernels->lora_expand_f16(t, rows, m->rank, half->b, n, y);
  } else {
    j->kernels->lora_shrink(x, rows, j->k, m->a, m->rank, scale, t);
    j->kernels->lora_expand(t, rows, m->rank, m->b, n, y);
  }
}

/* The same of a rank for which there is no room. */
static void add_wide_rows(const lora_job *j, const kit_launch *l, uint32_t item, int64_t row,
                          int64_t rows) {
  const accel_plugin_low_rank *m = kit_adapter_of(l, item);
  const int64_t n = kit_cols(&l->out[0]), end = row + rows;
  for (; row < end; row++)
    for (uint32_t r = 0; r < m->rank; r++) { /* of a column alone there is no kernel */
      const float *x = j->x + row * j->k;
      float sum = 0;
      for (int64_t i = 0; i < j->k; i++) sum += x[i] * m->a[i * m->rank + r];
      j->kernels->accumulate(l->adapter[item].scale * sum, m->b + r * n,
                             kit_f32(&l->out[0]) + row * n, n);
    }
}

static void add_item(const lora_job *j, const kit_launch *l, uint32_t item, int64_t row,
                     int64_t end) {
  const int64_t rank = kit_adapter_of(l, item)->rank, most = TERMS / rank;
  if (rank > MOST_RANK) {
    add_wide_rows(j, l, item, row, end - row);
    return;
  }
  for (; row < end; row += most) add_rows(j, l, item, row, row + most < end ? most : end - row);
}

/* Rows [from, to) of those with an adapter, counted item by item, and those of an item node by
 * node: matrices are read once for all rows of an item, and in the order in which they lie. */
static void lora_task(void *arg, uint32_t task, uint32_t worker) {
  const lora_job *j = arg;
  const kit_launch *l = j->launch;
  const int64_t from = cpu_share(j->rows, task, j->tasks),
                to = cpu_share(j->rows, task + 1, j->tasks);
  int64_t at = 0;
  (void)worker;
  for (uint32_t item = 0; item < l->n_adapter && at < to; item++)
    for (uint32_t m = 0; m <= l->n_fused && at < to; m++) {
      int64_t first, end;
      if (!kit_adapter_of(node_at(l, m), item)) continue;
      kit_adapter_rows(l, item, &first, &end);
      const int64_t row = from > at ? first + from - at : first,
                    stop = to - at < end - first ? first + to - at : end;
      if (row < stop) add_item(j, node_at(l, m), item, row, stop);
      at += end - first;
    }
}

/* Counts the rows of a node that have something to add, and tells what that takes, in ns. */
static double count_rows(lora_job *j, const kit_launch *l) {
  double ns = 0;
  for (uint32_t item = 0; item < l->n_adapter; item++) {
    const accel_plugin_low_rank *m = kit_adapter_of(l, item);
    int64_t first, end;
    if (!m) continue;
    kit_adapter_rows(l, item, &first, &end);
    j->rows += end - first;
    const size_t size = kit_adapter_f16_of(l, item) ? sizeof(uint16_t) : sizeof(float);
    ns += (double)m->rank * (double)(j->k + kit_cols(&l->out[0])) *
          (NS_PRODUCT * (double)(end - first) + NS_BYTE * (double)size);
  }
  return ns;
}

bool cpu_lora_fuse_parallel(const cpu_self *s, const accel_plugin_program *p,
                            const accel_plugin_node *first, const accel_plugin_node *other) {
  (void)s, (void)p;
  return kit_attr_i(first, ACCEL_PLUGIN_ATTR_SPACE, -1) ==
         kit_attr_i(other, ACCEL_PLUGIN_ATTR_SPACE, -1);
}

int32_t cpu_launch_lora(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[1];
  lora_job j = {.kernels = &s->kernels, .launch = l, .x = kit_f32(x), .k = kit_cols(x)};
  double ns = 0;
  for (uint32_t m = 0; m <= l->n_fused; m++) {
    const kit_launch *node = node_at(l, m);
    const kit_tensor *y = &node->in[0], *out = &node->out[0];
    const int32_t rc = kit_adapter_check(node, error);
    if (rc) return rc;
    if (out->data != y->data) memcpy(out->data, y->data, (size_t)y->elements * sizeof(float));
    ns += count_rows(&j, node);
  }
  if (!j.rows) return ACCEL_PLUGIN_OK;
  j.tasks = cpu_tasks(l, j.rows, ns / (double)j.rows);
  cpu_parallel(l, j.tasks, lora_task, &j);
  return ACCEL_PLUGIN_OK;
}
