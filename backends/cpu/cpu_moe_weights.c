/* cpu_moe_weights.c - weights of experts: one tensor after the other, its experts in parallel where
 * they need no widening. */
#include "cpu_moe_weights.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_moe_stream.h"
#include "cpu_weights.h"

enum { W_UP = 3, W_DOWN = 4 };

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
  const bool gated = out->glu != ACCEL_PLUGIN_GLU_NONE;
  if (out->glu == ACCEL_PLUGIN_GLU_SEPARATE || u[0] != d[0] || u[1] != (gated ? 2 : 1) * d[2] ||
      u[2] != d[1])
    return false;
  out->up = (cpu_experts){.w = up, .n = d[2], .k = u[2]};
  out->down = (cpu_experts){.w = down, .n = d[1], .k = d[2]};
  return true;
}

bool cpu_moe_packs(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t operand) {
  cpu_moe unused;
  return (operand == W_UP || operand == W_DOWN) && describe_moe(p, n, &unused);
}

typedef struct packing {
  cpu_linear l; /* of one expert */
  cpu_panel shape;
  cpu_matrix m;
  int64_t row;      /* of m, where the expert begins */
  int64_t first, n; /* panels */
  char *to;         /* where the first goes */
  uint32_t tasks;
} packing;

static void pack_task(void *arg, uint32_t index, uint32_t worker) {
  const packing *p = arg;
  const cpu_column begin = {&p->m, -p->row}, origin[2] = {begin, begin};
  const int64_t first = cpu_share(p->n, index, p->tasks);
  (void)worker;
  cpu_pack_panels(&p->shape, &p->l, p->first + first, cpu_share(p->n, index + 1, p->tasks) - first,
                  origin, p->to + (uint64_t)first * p->l.panel_bytes);
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
static int32_t pack_ranges(packing *p, int64_t rows, const accel_plugin_host *host,
                           const cpu_ranges *ranges, accel_plugin_error *error) {
  const bool widens = p->l.layout == CPU_LAYOUT_F32;
  float *wide = widens ? malloc((size_t)(rows * p->l.k + 1) * sizeof *wide) : NULL;
  int32_t rc =
      widens && !wide ? kit_no_memory(error, (uint64_t)(rows * p->l.k) * 4) : ACCEL_PLUGIN_OK;
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

static bool is_gated(const cpu_experts *e) {
  return e->moe->glu != ACCEL_PLUGIN_GLU_NONE && e == &e->moe->up;
}

int64_t cpu_expert_rows(const cpu_experts *e) { return is_gated(e) ? 2 * e->n : e->n; }

cpu_linear cpu_expert_linear(const cpu_experts *e) {
  return (cpu_linear){.w = e->w,
                      .gate = -1,
                      .bias = -1,
                      .glu = is_gated(e) ? e->moe->glu : ACCEL_PLUGIN_GLU_NONE,
                      .n = e->n,
                      .k = e->k,
                      .layout = e->layout,
                      .format = e->format,
                      .panels = e->panels,
                      .panel_bytes = e->panel_bytes};
}

/* Packs from the rows of each range alone. */
static int32_t pack_rows(const cpu_load *load, const cpu_experts *e, const cpu_ranges *ranges,
                         accel_plugin_error *error) {
  const cpu_linear l = cpu_expert_linear(e);
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < ranges->n; i++) {
    rc = cpu_pack_rows(load, &l, ranges->at[i].unit * cpu_expert_rows(e), &ranges->at[i], error);
    if (!rc && ranges->packed) rc = ranges->packed(ranges->user, i, error);
  }
  return rc;
}

/* A cpu_block_pack_fn. */
static int32_t pack_experts(const cpu_load *load, void *of, const cpu_ranges *ranges,
                            accel_plugin_error *error) {
  const cpu_experts *e = of;
  const accel_plugin_host *host = load->host;
  if (load->row_dtype && load->row_dtype[e->w] != ACCEL_PLUGIN_NO_DTYPE)
    return pack_rows(load, e, ranges, error);
  packing p = {.l = cpu_expert_linear(e)};
  p.shape = cpu_linear_shape(load->kernels, &p.l);
  p.m = (cpu_matrix){.weight = &load->program->weight[e->w], .format = &e->format};
  kit_weight_matrix(p.m.weight, &p.m.n, &p.m.k);
  int32_t rc = kit_weight_borrow(host, (uint32_t)e->w, &p.m.view, error);
  if (rc) return rc;
  rc = pack_ranges(&p, cpu_expert_rows(e), host, ranges, error);
  host->weight_unmap(host->self, (uint32_t)e->w);
  return rc;
}

/* How one matrix of all experts is packed. */
static void settle(const cpu_load *load, const cpu_moe *moe, cpu_experts *e) {
  e->moe = moe;
  e->format = load->format[e->w];
  e->layout = cpu_layout_of(load->kernels, &e->format);
  const cpu_linear l = cpu_expert_linear(e);
  const cpu_panel shape = cpu_linear_shape(load->kernels, &l);
  const int64_t width = cpu_linear_width(&l, shape.cols);
  e->panels = (e->n + width - 1) / width;
  e->panel_bytes = cpu_panel_bytes(&shape);
}

/* Memory of one matrix of all experts, and the block that fills it.  Experts that are read when
 * they are routed have none; those in plain formats need nothing to be made before. */
static int32_t add_block(const cpu_load *load, cpu_experts *e, cpu_blocks *blocks,
                         accel_plugin_error *error) {
  const cpu_moe *moe = e->moe;
  const bool coded = cpu_is_coded(&e->format);
  const uint64_t bytes = (uint64_t)(moe->experts * e->panels) * e->panel_bytes;
  e->segment = cpu_blocks_kept(blocks);
  if (moe->streamed && !coded) return ACCEL_PLUGIN_OK;
  if (load->host && !moe->streamed) {
    e->packed = cpu_alloc_weights(load->host, bytes, error);
    if (!e->packed) return ACCEL_PLUGIN_E_HOST_MEMORY;
  }
  const int64_t facts[] = {'e', e->w, moe->glu, e->n, e->k, e->layout};
  const cpu_block block = {
      .memory = e->packed,
      .units = moe->experts,
      .panels = e->panels,
      .panel_bytes = e->panel_bytes,
      .pack = pack_experts,
      .of = e,
      .weight = (uint32_t)e->w,
      .identity = coded ? cpu_block_identity(facts, sizeof facts, &e->format) : 0};
  return cpu_blocks_add(blocks, &block) ? ACCEL_PLUGIN_OK : kit_no_memory(error, sizeof block);
}

static bool same_packing(const cpu_moe *a, const cpu_moe *b) {
  return a->up.w == b->up.w && a->down.w == b->down.w && a->glu == b->glu;
}

int32_t cpu_moes_plan(const cpu_load *load, cpu_moes *out, accel_plugin_error *error) {
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
    cpu_moe *moe = &out->at[out->n++];
    *moe = m;
    settle(load, moe, &moe->up);
    settle(load, moe, &moe->down);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t cpu_moes_open(const cpu_load *load, cpu_blocks *blocks, cpu_moes *moes,
                      accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < moes->n && !rc; i++) {
    rc = add_block(load, &moes->at[i].up, blocks, error);
    if (!rc) rc = add_block(load, &moes->at[i].down, blocks, error);
  }
  return rc;
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
