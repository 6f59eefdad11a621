/* linear.c - linear over packed panels: rows of x are converted to what the kernel reads, then the product is cut into
 * tasks. */
#include "cpu.h"

typedef struct job {
  cpu_gemm g[KIT_JOINED + 1]; /* of all nodes of the launch: they read the same x */
  int64_t panels_before[KIT_JOINED + 2];
  uint32_t n_gemm;
  cpu_linear_fn *run;
  cpu_convert_fn *convert; /* NULL: x is read as it is */
  const float *from;       /* x before conversion */
  int64_t from_ld;
  uint64_t x_bytes; /* of an element after it */
  uint32_t convert_tasks;
  int64_t rows, panels, n, k; /* panels and columns of all */
  uint32_t row_blocks, panel_groups;
} job;

static void task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  uint32_t r = index / j->panel_groups, p = index % j->panel_groups;
  const int64_t row = cpu_share(j->rows, r, j->row_blocks), row_end = cpu_share(j->rows, r + 1, j->row_blocks);
  (void)worker;
  for (uint32_t m = 0; m < j->n_gemm; m++) {
    const int64_t before = j->panels_before[m], all = j->panels_before[m + 1] - before;
    int64_t first = cpu_share(j->panels, p, j->panel_groups) - before,
            end = cpu_share(j->panels, p + 1, j->panel_groups) - before;
    if (first < 0) first = 0;
    if (end > all) end = all;
    if (first < end) j->run(&j->g[m], row, row_end, first, end);
  }
}

/* A grid of tasks: panels are cut so that every worker gets the same number, then rows, but not below a few register tiles.
 */
static void split(job *j, int64_t tile_rows, const kit_launch *l) {
  const double gflops = 50; /* of one core, at least: decides only what is too small to split */
  const uint32_t workers = cpu_workers(l);
  const int64_t tall = 4 * tile_rows;                                         /* rows a panel is worth fetching for */
  double cost = 2.0 * (double)j->rows * (double)j->n * (double)j->k / gflops; /* ns */
  j->row_blocks = j->panel_groups = 1;
  if (cpu_tasks(l, j->rows * j->panels, cost / (double)(j->rows * j->panels)) < 2) return;
  uint32_t wanted =
      (cost > 1e6 * workers ? 4 : 1) * workers; /* several each: a worker that is held up leaves its share to others */
  int64_t groups = j->panels < workers ? j->panels : workers, blocks = (wanted + groups - 1) / groups;
  if (blocks > j->rows / tall) blocks = j->rows / tall;
  if (blocks < 1) blocks = 1;
  groups = (wanted + blocks - 1) / blocks;
  if (groups > j->panels) { /* a narrow result: rows after all */
    groups = j->panels;
    blocks = (wanted + groups - 1) / groups;
    if (blocks > j->rows) blocks = j->rows;
  }
  j->row_blocks = (uint32_t)blocks;
  j->panel_groups = (uint32_t)groups;
}

/* ---- x ---- */

static const cpu_linear_kernel *kernel_of(const cpu_self *s, const cpu_linear *w) { return &s->kernels.linear[w->form]; }

/* Converted rows, then a scale and a zero for each that has none in it. */
uint64_t cpu_linear_workspace(const cpu_self *s, const kit_launch *l) {
  if (!s || s->linear_of[l->index] < 0) return 0;
  const cpu_linear *w = &s->linear[s->linear_of[l->index]];
  cpu_x x = kernel_of(s, w)->x;
  uint64_t rows = (uint64_t)kit_row_count(&l->out[0]);
  return x == CPU_X_F32 ? 0 : rows * ((uint64_t)(cpu_x_row(x, w->k) * cpu_x_bytes(x)) + 2 * sizeof(float));
}

static void convert_task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  const cpu_gemm *g = j->g;
  int64_t row = cpu_share(j->rows, index, j->convert_tasks), end = cpu_share(j->rows, index + 1, j->convert_tasks);
  (void)worker;
  j->convert(j->from + row * j->from_ld, j->from_ld, end - row, j->k, (char *)g->x + (uint64_t)(row * g->ldx) * j->x_bytes,
             g->ldx, g->x_scale ? (float *)g->x_scale + row : NULL, g->x_zero ? (float *)g->x_zero + row : NULL);
}

/* x for all nodes of the launch at once. */
static void convert(job *j, cpu_x x, const kit_launch *l) {
  const double bytes_per_ns = 8;
  const int64_t ldx = cpu_x_row(x, j->k);
  j->x_bytes = (uint64_t)cpu_x_bytes(x);
  const float *scale = (const float *)((const char *)l->workspace + (uint64_t)(j->rows * ldx) * j->x_bytes);
  for (uint32_t m = 0; m < j->n_gemm; m++) {
    j->g[m].x = l->workspace;
    j->g[m].ldx = ldx;
    j->g[m].x_scale = cpu_x_blocked(x) ? NULL : scale;
    j->g[m].x_zero = cpu_x_blocked(x) ? NULL : scale + j->rows;
  }
  j->convert_tasks = cpu_tasks(l, j->rows, (double)j->k * sizeof(float) / bytes_per_ns);
  cpu_parallel(l, j->convert_tasks, convert_task, j);
}

/* ---- the launch ---- */

bool cpu_linear_joins(const cpu_self *s, const accel_plugin_program *p, const accel_plugin_node *first,
                      const accel_plugin_node *other) {
  const int32_t a = s->linear_of[first - p->node], b = s->linear_of[other - p->node];
  return a >= 0 && b >= 0 && s->linear[a].form == s->linear[b].form && s->linear[a].k == s->linear[b].k;
}

static cpu_gemm gemm_of(const cpu_linear *w, const kit_launch *l) {
  const kit_tensor *x = &l->in[0];
  const float *bias = kit_f32(&l->in[2]);
  cpu_gemm g = {.n = w->n,
                .k = w->k,
                .x = kit_f32(x),
                .ldx = x->row_stride,
                .w = w->packed,
                .panel_bytes = (int64_t)w->panel_bytes,
                .group = w->format.group_k,
                .store = w->format.store,
                .scale = w->format.scale,
                .y = kit_f32(&l->out[0]),
                .ldy = w->n,
                .bias = bias,
                .residual = kit_f32(&l->in[3]),
                .ldr = w->n,
                .glu = w->glu != ACCEL_PLUGIN_GLU_NONE};
  g.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  g.alpha = kit_act_alpha(l->node, g.act);
  switch (w->glu) {
    case ACCEL_PLUGIN_GLU_SEPARATE:
      g.bias_gate = kit_f32(&l->in[5]);
      break;
    case ACCEL_PLUGIN_GLU_GATE_FIRST:
      g.bias_gate = bias;
      g.bias = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_GATE_LAST:
      g.bias_gate = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_INTERLEAVED:
      g.bias = w->bias_up;
      g.bias_gate = w->bias_gate;
      break;
  }
  return g;
}

int32_t cpu_launch_linear(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  if (s->linear_of[l->index] < 0 && s->sgemm && cpu_blas_takes(l->node)) return cpu_launch_blas(s, l, error);
  if (s->linear_of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_LINEAR)(l, error);
  const cpu_linear *first = &s->linear[s->linear_of[l->index]];
  const cpu_linear_kernel *kernel = kernel_of(s, first);
  job j = {.run = kernel->run,
           .convert = s->kernels.convert[kernel->x],
           .n_gemm = 1 + l->n_joined,
           .rows = kit_row_count(&l->out[0]),
           .k = first->k};
  if (!l->out[0].elements) return ACCEL_PLUGIN_OK;
  for (uint32_t m = 0; m < j.n_gemm; m++) {
    const kit_launch *one = m ? &l->joined[m - 1] : l;
    const cpu_linear *w = &s->linear[s->linear_of[one->index]];
    j.g[m] = gemm_of(w, one);
    j.n += w->n;
    j.panels_before[m] = j.panels;
    j.panels += w->panels;
    j.panels_before[m + 1] = j.panels;
  }
  j.from = j.g[0].x;
  j.from_ld = j.g[0].ldx;
  if (j.convert) convert(&j, kernel->x, l);
  split(&j, kernel->rows, l);
  cpu_parallel(l, j.row_blocks * j.panel_groups, task, &j);
  return ACCEL_PLUGIN_OK;
}
