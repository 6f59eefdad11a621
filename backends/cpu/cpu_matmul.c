/* cpu_matmul.c - products of two computed matrices: each task packs its columns of b and multiplies
 * all rows of a with them.  Of one row and gathered ones no b is made. */
#include "cpu_matmul.h"

#include <string.h>

#include "kit/kit_scalar.h"

typedef struct job {
  const cpu_self *s;
  const kit_tensor *a, *b, *out;
  int64_t m, n, k, panels;
  bool trans;
  float scale;
  float *workspace;
  int64_t workspace_floats;
  uint32_t groups; /* of panels */
} job;

static void pack_panel(const job *j, const float *b, int64_t panel, float *to) {
  const cpu_kernels *k = &j->s->kernels;
  for (int64_t c = 0; c < k->panel_cols; c += k->vector) {
    int64_t col = panel * k->panel_cols + c, have = j->n - col < 0           ? 0
                                                    : j->n - col < k->vector ? j->n - col
                                                                             : k->vector;
    if (j->trans) {
      k->pack(have ? b + col * j->k : b, j->k, have, j->k, to + c, k->panel_cols);
      continue;
    }
    for (int64_t r = 0; r < j->k; r++)
      for (int64_t i = 0; i < k->vector; i++)
        to[r * k->panel_cols + c + i] = i < have ? b[r * j->n + col + i] : 0.0f;
  }
}

/* One row of a: the rows of b by its weights, which packing would take longer than adding up. */
static bool sums_rows(const job *j) { return j->m == 1 && j->k > 0 && !j->trans; }

static void scale_rows(const job *j, float *y, int64_t cols) {
  for (int64_t r = 0; j->scale != 1.0f && r < j->m; r++)
    j->s->kernels.binary(ACCEL_PLUGIN_BINARY_MUL, y + r * j->n, 1, &j->scale, 0, y + r * j->n,
                         cols);
}

static void columns_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const cpu_kernels *k = &j->s->kernels;
  const int64_t first = cpu_share(j->panels, index % j->groups, j->groups),
                last = cpu_share(j->panels, index % j->groups + 1, j->groups);
  const int64_t matrix_index = index / j->groups, size = j->k * k->panel_cols;
  float *panels = j->workspace + (int64_t)worker * j->workspace_floats;
  const float *b = kit_matrix_at(j->b, j->out, matrix_index);
  float *y = kit_f32(j->out) + matrix_index * j->m * j->n + first * k->panel_cols;
  const int64_t cols =
      (last * k->panel_cols < j->n ? last * k->panel_cols : j->n) - first * k->panel_cols;
  if (first == last) return;
  if (sums_rows(j)) {
    k->fold(ACCEL_PLUGIN_REDUCE_SUM, b + first * k->panel_cols, j->k, j->n,
            kit_matrix_at(j->a, j->out, matrix_index), y, cols);
    scale_rows(j, y, cols);
    return;
  }
  for (int64_t p = first; p < last; p++) pack_panel(j, b, p, panels + (p - first) * size);
  cpu_gemm g = {.n = cols,
                .k = j->k,
                .x = kit_matrix_at(j->a, j->out, matrix_index),
                .ldx = j->k,
                .w = panels,
                .panel_bytes = size * (int64_t)sizeof(float),
                .y = y,
                .ldy = j->n};
  k->linear[CPU_LAYOUT_F32].run(&g, 0, j->m, 0, last - first);
  scale_rows(j, y, cols);
}

/* Panels of one whole matrix b, in floats. */
static int64_t packed_floats(const cpu_kernels *k, const kit_launch *l) {
  int64_t n = kit_cols(&l->out[0]), inner = kit_cols(&l->in[0]);
  return ((n + k->panel_cols - 1) / k->panel_cols * k->panel_cols * inner + 15) / 16 * 16;
}

uint64_t cpu_matmul_workspace(const cpu_self *self, const cpu_kernels *kernels,
                              const kit_launch *shapes, uint32_t workers) {
  (void)self;
  return (uint64_t)packed_floats(kernels, shapes) * sizeof(float) * (workers ? workers : 1);
}

int32_t cpu_launch_matmul(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *out = &l->out[0];
  job j = {.s = s,
           .a = &l->in[0],
           .b = &l->in[1],
           .out = out,
           .workspace = l->workspace,
           .workspace_floats = packed_floats(&s->kernels, l)};
  if (!out->elements || out->rank < 2 || j.a->rank < 2 || j.b->rank < 2)
    return kit_scalar(ACCEL_PLUGIN_OP_MATMUL)(l, error);
  j.m = out->dim[out->rank - 2];
  j.n = kit_cols(out);
  j.k = kit_cols(j.a);
  j.panels = (j.n + s->kernels.panel_cols - 1) / s->kernels.panel_cols;
  j.trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS_B, 0) != 0;
  j.scale = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  int64_t count = out->elements / (j.m * j.n);
  /* ns of one matrix: packing and multiplying */
  double cost = (double)j.n * (double)j.k * (0.3 + 0.04 * (double)j.m);
  uint32_t tasks = cpu_tasks(l, count * j.panels, cost / (double)j.panels);
  j.groups = (uint32_t)((tasks + count - 1) / count);
  if ((int64_t)j.groups > j.panels) j.groups = (uint32_t)j.panels;
  cpu_parallel(l, (uint32_t)count * j.groups, columns_task, &j);
  return ACCEL_PLUGIN_OK;
}

/* ---- products of one row with gathered ones ---- */

static bool is_one(const accel_plugin_program *p, const accel_plugin_tensor *t, uint32_t from_end) {
  const accel_plugin_dim *d = &p->dim[t->dim[t->rank - from_end]];
  return d->op == ACCEL_PLUGIN_DIM_CONST && d->c == 1;
}

bool cpu_gather_fuse_chain(const cpu_self *s, const accel_plugin_program *p,
                           const accel_plugin_node *first, const accel_plugin_node *next) {
  const accel_plugin_tensor *table = &p->tensor[first->in[0]], *a = &p->tensor[next->in[0]];
  (void)s;
  if (next->op != ACCEL_PLUGIN_OP_MATMUL || next->in[1] < 0) return false;
  const accel_plugin_tensor *b = &p->tensor[next->in[1]], *y = &p->tensor[next->out[0]];
  return table->kind == ACCEL_PLUGIN_TENSOR_VALUE && table->dtype == ACCEL_PLUGIN_F32 &&
         table->rank == 2 && a->rank >= 2 && b->rank >= 2 && y->rank >= 2 && is_one(p, a, 2) &&
         b->dim[b->rank - 1] == table->dim[1] &&
         kit_attr_i(first, ACCEL_PLUGIN_ATTR_AXIS, 0) == 0 &&
         kit_attr_f(first, ACCEL_PLUGIN_ATTR_SCALE, 1.0) == 1.0 &&
         !kit_attr_i(next, ACCEL_PLUGIN_ATTR_TRANS_B, 0);
}

typedef struct gathered {
  const cpu_kernels *kernels;
  const kit_tensor *table, *index, *a, *b, *out;
  int64_t count; /* products */
  float scale;
  uint32_t tasks;
} gathered;

static void gathered_task(void *arg, uint32_t i, uint32_t worker) {
  const gathered *j = arg;
  const int64_t n = kit_cols(j->out), k = kit_cols(j->a);
  (void)worker;
  for (int64_t r = cpu_share(j->count, i, j->tasks); r < cpu_share(j->count, i + 1, j->tasks);
       r++) {
    const int64_t at = kit_matrix_offset(j->b, j->out, r) / n;
    float *y = kit_f32(j->out) + r * n;
    j->kernels->fold_gathered(kit_f32(j->table), n, kit_i32(j->index) + at, k,
                              j->index->elements - at, kit_matrix_at(j->a, j->out, r), y, n);
    if (j->scale != 1.0f) j->kernels->binary(ACCEL_PLUGIN_BINARY_MUL, y, 1, &j->scale, 0, y, n);
  }
}

int32_t cpu_launch_gathered_matmul(const cpu_self *s, const kit_launch *l) {
  static const double NS_ELEMENT = 0.2;
  const kit_launch *next = &l->joined[0];
  gathered j = {.kernels = &s->kernels,
                .table = &l->in[0],
                .index = &l->in[1],
                .a = &next->in[0],
                .b = &next->in[1],
                .out = &next->out[0],
                .scale = (float)kit_attr_f(next->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0)};
  const int64_t n = kit_cols(j.out), k = kit_cols(j.a);
  if (!j.out->elements) return ACCEL_PLUGIN_OK;
  if (k == 0) memset(j.out->data, 0, (size_t)j.out->elements * sizeof(float));
  j.count = k ? j.out->elements / n : 0;
  j.tasks = cpu_tasks(l, j.count, NS_ELEMENT * (double)n * (double)k);
  cpu_parallel(l, j.tasks, gathered_task, &j);
  return ACCEL_PLUGIN_OK;
}
