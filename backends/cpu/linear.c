/* linear.c - linear over packed panels. */
#include "cpu.h"

typedef struct job {
  cpu_gemm g;
  cpu_gemm_fn *run;
  int64_t rows, panels;
  uint32_t row_blocks, panel_groups;
} job;

static void task(void *arg, uint32_t index, uint32_t worker) {
  const job *j = arg;
  uint32_t r = index / j->panel_groups, p = index % j->panel_groups;
  (void)worker;
  j->run(&j->g, cpu_share(j->rows, r, j->row_blocks), cpu_share(j->rows, r + 1, j->row_blocks),
         cpu_share(j->panels, p, j->panel_groups), cpu_share(j->panels, p + 1, j->panel_groups));
}

/* A grid of tasks: panels are cut so that every worker gets the same number, then rows, but not below a few register tiles.
 */
static void split(job *j, const kit_launch *l) {
  const double gflops = 50; /* of one core, at least: decides only what is too small to split */
  const uint32_t workers = cpu_workers(l);
  const int64_t tall = 4 * 14;                                                    /* rows a panel is worth fetching for */
  double cost = 2.0 * (double)j->rows * (double)j->g.n * (double)j->g.k / gflops; /* ns */
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

int32_t cpu_launch_linear(const cpu_self *s, const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *residual = &l->in[3], *out = &l->out[0];
  if (s->linear_of[l->index] < 0 && s->sgemm && cpu_blas_takes(l->node)) return cpu_launch_blas(s, l, error);
  if (s->linear_of[l->index] < 0) return kit_scalar(ACCEL_PLUGIN_OP_LINEAR)(l, error);
  const cpu_linear *w = &s->linear[s->linear_of[l->index]];
  const float *bias = kit_f32(&l->in[2]);
  job j = {.run = s->kernels.gemm, .rows = kit_row_count(out), .panels = w->panels};
  if (!out->elements) return ACCEL_PLUGIN_OK;
  j.g = (cpu_gemm){.n = w->n,
                   .k = w->k,
                   .x = kit_f32(x),
                   .ldx = x->row_stride,
                   .w = w->packed,
                   .y = kit_f32(out),
                   .ldy = w->n,
                   .bias = bias,
                   .residual = kit_f32(residual),
                   .ldr = w->n,
                   .glu = w->glu != ACCEL_PLUGIN_GLU_NONE};
  j.g.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  j.g.alpha = kit_act_alpha(l->node, j.g.act);
  switch (w->glu) {
    case ACCEL_PLUGIN_GLU_SEPARATE:
      j.g.bias_gate = kit_f32(&l->in[5]);
      break;
    case ACCEL_PLUGIN_GLU_GATE_FIRST:
      j.g.bias_gate = bias;
      j.g.bias = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_GATE_LAST:
      j.g.bias_gate = bias ? bias + w->n : NULL;
      break;
    case ACCEL_PLUGIN_GLU_INTERLEAVED:
      j.g.bias = w->bias_up;
      j.g.bias_gate = w->bias_gate;
      break;
  }
  split(&j, l);
  cpu_parallel(l, j.row_blocks * j.panel_groups, task, &j);
  return ACCEL_PLUGIN_OK;
}
