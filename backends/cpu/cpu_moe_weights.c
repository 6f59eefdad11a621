/* cpu_moe_weights.c - weights of experts: one tensor after the other, its experts in parallel where
 * they need no widening. */
#include "cpu_moe_weights.h"

#include <stdlib.h>
#include <string.h>

#include "cpu.h"

enum { W_UP = 3, W_DOWN = 4, BIAS_UP = 5 };

static int32_t weight_of(const accel_plugin_program *p, const accel_plugin_node *n,
                         uint32_t operand) {
  int32_t t = kit_operand(n, operand);
  return t >= 0 && p->tensor[t].kind == ACCEL_PLUGIN_TENSOR_WEIGHT &&
                 p->weight[p->tensor[t].weight].rank == 3
             ? p->tensor[t].weight
             : -1;
}

/* w_gate_up[E, I or 2I, H], w_down[E, H, I] */
static bool describe_moe(const accel_plugin_program *p, const accel_plugin_node *n, cpu_moe *out) {
  if (n->op != ACCEL_PLUGIN_OP_MOE) return false;
  int32_t up = weight_of(p, n, W_UP), down = weight_of(p, n, W_DOWN);
  if (up < 0 || down < 0) return false;
  const int64_t *u = p->weight[up].dim, *d = p->weight[down].dim;
  *out = (cpu_moe){.experts = u[0],
                   .glu = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE)};
  bool gated = out->glu != ACCEL_PLUGIN_GLU_NONE;
  if (out->glu == ACCEL_PLUGIN_GLU_SEPARATE || u[0] != d[0] || u[1] != (gated ? 2 : 1) * d[2] ||
      u[2] != d[1])
    return false;
  out->fused =
      gated && kit_attr_f(n, ACCEL_PLUGIN_ATTR_LIMIT, 0.0) <= 0 && kit_operand(n, BIAS_UP) < 0;
  out->up = (cpu_experts){.w = up, .n = out->fused ? d[2] : u[1], .k = u[2]};
  out->down = (cpu_experts){.w = down, .n = d[1], .k = d[2]};
  return true;
}

bool cpu_moe_packs(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t operand) {
  cpu_moe unused;
  return (operand == W_UP || operand == W_DOWN) && describe_moe(p, n, &unused);
}

typedef struct packing {
  const cpu_moe *moe;
  const cpu_experts *e;
  cpu_panel shape;
  cpu_matrix m;
  int64_t row;      /* of m, where the expert begins */
  int64_t first, n; /* panels */
  char *to;         /* where the first goes */
  bool gated;
  uint32_t tasks;
} packing;

/* Row of the expert's matrix that gives column `col` of the result: its up half, or its gate. */
static int64_t source_row(const packing *p, int64_t col, bool gate) {
  const int64_t n = p->e->n;
  if (!p->gated) return col;
  if (p->moe->glu == ACCEL_PLUGIN_GLU_INTERLEAVED) return 2 * col + !gate;
  return gate == (p->moe->glu == ACCEL_PLUGIN_GLU_GATE_FIRST) ? col : n + col;
}

static void pack_task(void *arg, uint32_t index, uint32_t worker) {
  const packing *p = arg;
  const int64_t width = p->gated ? p->shape.cols / 2 : p->shape.cols;
  cpu_column column[CPU_PANEL_COLS];
  (void)worker;
  for (int64_t i = p->first + cpu_share(p->n, index, p->tasks);
       i < p->first + cpu_share(p->n, index + 1, p->tasks); i++) {
    for (int32_t c = 0; c < p->shape.cols; c++) {
      const int64_t col = i * width + c % width;
      column[c] = col < p->e->n ? (cpu_column){&p->m, p->row + source_row(p, col, c >= width)}
                                : (cpu_column){0};
    }
    cpu_panel_pack(&p->shape, column, p->to + (uint64_t)(i - p->first) * p->e->panel_bytes);
  }
}

static void run(packing *p, const accel_plugin_host *host) {
  uint32_t workers = host->parallel && host->workers ? host->workers(host->self) : 1;
  p->tasks = workers > 1 && p->n >= workers ? workers : 1;
  if (p->tasks > 1)
    host->parallel(host->self, p->tasks, pack_task, p);
  else
    pack_task(p, 0, 0);
}

/* One expert after the other; fp32 panels are packed from a copy of the expert as fp32. */
static int32_t pack_ranges(packing *p, const accel_plugin_host *host, const cpu_ranges *ranges,
                           accel_plugin_error *error) {
  const int64_t rows = p->gated ? 2 * p->e->n : p->e->n;
  float *wide =
      p->e->layout == CPU_LAYOUT_F32 ? malloc((size_t)(rows * p->e->k + 1) * sizeof *wide) : NULL;
  int32_t rc = p->e->layout == CPU_LAYOUT_F32 && !wide
                   ? kit_no_memory(error, (uint64_t)(rows * p->e->k) * 4)
                   : ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < ranges->n; i++) {
    const cpu_range *range = &ranges->at[i];
    const int64_t expert = range->unit;
    p->row = wide ? 0 : expert * rows;
    p->first = range->first;
    p->n = range->n;
    p->to = range->to;
    p->m.f32 = wide;
    if (wide)
      rc = kit_weight_rows(p->m.weight, p->m.format, &p->m.view, expert * rows, rows, wide, error);
    if (!rc) run(p, host);
    if (!rc && ranges->packed) rc = ranges->packed(ranges->user, i, error);
  }
  free(wide);
  return rc;
}

static bool is_gated(const cpu_experts *e) { return e->moe->fused && e == &e->moe->up; }

static cpu_panel shape_of(const cpu_experts *e, const cpu_kernels *kernels) {
  return (cpu_panel){.layout = e->layout,
                     .kernels = kernels,
                     .format = &e->format,
                     .k = e->k,
                     .cols = kernels->linear[e->layout].cols};
}

/* A cpu_block_pack_fn. */
static int32_t pack_experts(const cpu_load *load, void *of, const cpu_ranges *ranges,
                            accel_plugin_error *error) {
  const cpu_experts *e = of;
  const accel_plugin_host *host = load->host;
  packing p = {.moe = e->moe, .e = e, .gated = is_gated(e), .shape = shape_of(e, load->kernels)};
  p.m = (cpu_matrix){.weight = &load->program->weight[e->w], .format = &e->format};
  kit_weight_matrix(p.m.weight, &p.m.n, &p.m.k);
  int32_t rc = host->weight_map(host->self, (uint32_t)e->w, &p.m.view, error);
  if (rc) return rc;
  rc = pack_ranges(&p, host, ranges, error);
  host->weight_unmap(host->self, (uint32_t)e->w);
  return rc;
}

/* Memory of one matrix of all experts, and the block that fills it. */
static int32_t add_block(const cpu_load *load, const cpu_moe *moe, cpu_experts *e,
                         cpu_blocks *blocks, accel_plugin_error *error) {
  e->moe = moe;
  e->format = load->format[e->w];
  e->layout = cpu_layout_of(load->kernels, &e->format);
  const cpu_panel shape = shape_of(e, load->kernels);
  const int64_t width = is_gated(e) ? shape.cols / 2 : shape.cols;
  e->panels = (e->n + width - 1) / width;
  e->panel_bytes = cpu_panel_bytes(&shape);
  const uint64_t bytes = (uint64_t)(moe->experts * e->panels) * e->panel_bytes;
  if (load->host) e->packed = cpu_alloc_weights(load->host, bytes, error);
  if (load->host && !e->packed) return ACCEL_PLUGIN_E_HOST_MEMORY;
  const int64_t facts[] = {'e', e->w, moe->glu, moe->fused, e->n, e->k, e->layout};
  const cpu_block block = {.memory = e->packed,
                           .units = moe->experts,
                           .panels = e->panels,
                           .panel_bytes = e->panel_bytes,
                           .pack = pack_experts,
                           .of = e,
                           .weight = (uint32_t)e->w,
                           .identity = cpu_is_coded(&e->format)
                                           ? cpu_block_identity(facts, sizeof facts, &e->format)
                                           : 0};
  return cpu_blocks_add(blocks, &block) ? ACCEL_PLUGIN_OK : kit_no_memory(error, sizeof block);
}

static bool same_packing(const cpu_moe *a, const cpu_moe *b) {
  return a->up.w == b->up.w && a->down.w == b->down.w && a->glu == b->glu && a->fused == b->fused;
}

int32_t cpu_moes_open(const cpu_load *load, cpu_blocks *blocks, cpu_moes *out,
                      accel_plugin_error *error) {
  const accel_plugin_program *program = load->program;
  out->at = calloc(program->n_node + 1, sizeof *out->at);
  out->of = malloc((program->n_node + 1) * sizeof *out->of);
  if (!out->at || !out->of) return kit_no_memory(error, program->n_node * sizeof *out->at);
  for (uint32_t i = 0; i < program->n_node; i++) {
    cpu_moe m;
    uint32_t at = 0;
    out->of[i] = -1;
    if (!describe_moe(program, &program->node[i], &m)) continue;
    while (at < out->n && !same_packing(&out->at[at], &m)) at++;
    out->of[i] = (int32_t)at;
    if (at < out->n) continue;
    out->at[out->n++] = m;
    cpu_moe *moe = &out->at[at];
    int32_t rc = add_block(load, moe, &moe->up, blocks, error);
    if (!rc) rc = add_block(load, moe, &moe->down, blocks, error);
    if (rc) return rc;
  }
  return ACCEL_PLUGIN_OK;
}

void cpu_moes_free(cpu_moes *m) {
  for (uint32_t i = 0; i < m->n; i++) {
    free(m->at[i].up.packed);
    free(m->at[i].down.packed);
  }
  free(m->at);
  free(m->of);
  memset(m, 0, sizeof *m);
}
