/* cpu_matmul.c - products of two computed matrices: each task packs its columns of b and multiplies
 * all rows of a with them. */
#include "cpu_matmul.h"

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
