/* gpu_op_linear.c - linear layers: kernels of tiles for many rows, linear_few for up to eight,
 * those of gpu_op_linear_q.c, or a CPU's own (gpu_cpu_kernels). A gated layer (GLU) computes both
 * products into the workspace and combines them. Nodes that read the same x as codes, halves or
 * packed are one launch. */
#include "gpu/gpu_op_linear.h"

#include "gpu/gpu_op_linear_q.h"

enum { FEW = 8, SEGMENTS = 8, TILE = 64 };
enum {
  BIAS = GPU_LINEAR_BIAS,
  RESIDUAL = GPU_LINEAR_RESIDUAL,
  TRANS = 4,
  UP_PLUS_ONE = 8
}; /* flags of the kernels */

/* The kernel for n columns of the product, with fp32 activations. */
static gpu_way way_of(const gpu_self *self, const gpu_product *p, int64_t n) {
  const gpu_store store = p->w.w.store;
  if (p->m <= FEW && !p->trans)
    return (gpu_way){gpu_kernel_of_store(GPU_K_linear_few_f32, store), 4, 8, true};
  if (gpu_takes_large(self, p, n, TILE))
    return (gpu_way){gpu_kernel_of_store(GPU_K_linear128_f32, store), GPU_LARGE_ROWS, TILE, false};
  return (gpu_way){gpu_kernel_of_store(GPU_K_linear_f32, store), TILE, TILE, false};
}

/* The columns [first, first + count) of the result, from those rows of w, which `part` binds. */
static int32_t multiply_part(gpu_run *run, const kit_launch *l, const gpu_product *p,
                             gpu_binding part, int64_t first, int64_t count,
                             accel_plugin_error *error) {
  const int64_t n = p->trans ? p->n : count;
  const gpu_way way = way_of(run->self, p, n);
  gpu_call c = gpu_call_new(run, l, way.kernel);
  gpu_tensor(&c, p->x);
  gpu_matrix_bind(&c, &p->w, part);
  gpu_tensor(&c, p->bias);
  gpu_tensor(&c, p->residual);
  gpu_bind(&c, p->y);
  const gpu_params_linear params = {
      .m = p->m,
      .n = n,
      .k = p->k,
      .x_stride = p->x->row_stride,
      .y_stride = p->y_stride,
      .y_first = p->trans ? 0 : first,
      .segment = gpu_ceil_div(gpu_ceil_div(p->k, SEGMENTS), 32) * 32,
      .flags = (kit_has(p->bias) ? BIAS : 0) | (kit_has(p->residual) ? RESIDUAL : 0) |
               (p->trans ? TRANS : 0),
      .act = p->act,
      .alpha = (double)p->alpha,
      GPU_WEIGHT_PARAMS(&p->w, first),
  };
  gpu_set_linear(&c, &params);
  return gpu_dispatch_way(&c, &way, p->m, n, error);
}

int32_t gpu_linear_multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                            accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  if (p->w.w.packed && !p->trans)
    return run->self->limits.cpu_kernels->packed_multiply(run, l, p, error);
  if (gpu_activations_q_variant(run->self->variants, &p->w.w, p->trans) && !p->w.plain.bytes)
    return gpu_linear_q_multiply(run, l, p, error);
  for (int64_t first = 0; !rc && first < p->w.w.n;) {
    gpu_binding part;
    const int64_t count = gpu_matrix_rows(run, &p->w, first, &part);
    if (p->trans && count < p->w.w.n)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_LIMIT,
                             "a weight stored [k, n] must fit one binding of %llu bytes",
                             (unsigned long long)run->self->limits.binding);
    rc = multiply_part(run, l, p, part, first, count, error);
    first += count;
  }
  return rc;
}

static int32_t combine(gpu_run *run, const kit_launch *l, int64_t glu, gpu_binding h,
                       accel_plugin_error *error) {
  const kit_tensor *residual = &l->in[3], *out = &l->out[0];
  const int64_t n = kit_cols(out), m = kit_row_count(out);
  const int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const bool between = glu == ACCEL_PLUGIN_GLU_INTERLEAVED,
             apart = glu == ACCEL_PLUGIN_GLU_SEPARATE, last = glu == ACCEL_PLUGIN_GLU_GATE_LAST;
  gpu_call c = gpu_call_new(run, l, GPU_K_glu);
  gpu_bind(&c, h);
  gpu_tensor(&c, residual);
  gpu_tensor(&c, out);
  const gpu_params_glu params = {
      .items = m * n,
      .n = n,
      .h_stride = apart ? n : 2 * n,
      .step = between ? 2 : 1,
      /* SEPARATE: all of up, then all of gate */
      .gate_first = apart  ? m * n
                    : last ? n
                           : 0,
      .up_first = apart     ? 0
                  : last    ? 0
                  : between ? 1
                            : n,
      .flags = (kit_has(residual) ? RESIDUAL : 0) |
               (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI ? UP_PLUS_ONE : 0),
      .act = act,
      .alpha = (double)kit_act_alpha(l->node, act),
  };
  gpu_set_glu(&c, &params);
  return gpu_dispatch_items(&c, m * n, error);
}

/* Rows [first, first + count) of a tensor of rows. */
static kit_tensor rows_of(const kit_tensor *t, int64_t first, int64_t count) {
  kit_tensor part = *t;
  if (!kit_has(t)) return part;
  part.rank = 2;
  part.dim[0] = count;
  part.dim[1] = kit_cols(t);
  part.elements = count * part.dim[1];
  part.offset += (uint64_t)(first * t->row_stride) * 4;
  return part;
}

/* A product whose x or y is larger than a binding is computed a range of rows at a time. */
static int32_t multiply(gpu_run *run, const kit_launch *l, const gpu_product *p,
                        accel_plugin_error *error) {
  const int64_t widest = p->y_stride > p->x->row_stride ? p->y_stride : p->x->row_stride;
  const int64_t most = widest ? (int64_t)(run->self->limits.binding / 4) / widest : p->m;
  int32_t rc = ACCEL_PLUGIN_OK;
  /* a single row that is too large is refused by the dispatch */
  if (most >= p->m || most < 1) return gpu_linear_multiply(run, l, p, error);
  for (int64_t first = 0; !rc && first < p->m; first += most) {
    gpu_product part = *p;
    part.m = gpu_least(most, p->m - first);
    const kit_tensor x = rows_of(p->x, first, part.m),
                     residual = rows_of(p->residual, first, part.m);
    part.x = &x;
    part.residual = &residual;
    part.y =
        gpu_part(p->y, (uint64_t)(first * p->y_stride) * 4, (uint64_t)(part.m * p->y_stride) * 4);
    rc = gpu_linear_multiply(run, l, &part, error);
  }
  return rc;
}

/* ---- workspace: both products of a gated layer, then the activations ---- */

/* The nodes that run in a launch: the launch's own, then those fused with it. */
static const kit_launch *member(const kit_launch *l, uint32_t m) {
  return m ? &l->joined[m - 1] : l;
}

/* Of all nodes of the launch, which use it one after the other. */
static uint64_t halves_bytes(const kit_launch *l) {
  uint64_t most = 0;
  for (uint32_t m = 0; m <= l->n_fused; m++) {
    const kit_launch *n = member(l, m);
    const uint64_t bytes = (uint64_t)n->out[0].elements * 8;
    if (kit_attr_i(n->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE) !=
            ACCEL_PLUGIN_GLU_NONE &&
        bytes > most)
      most = bytes;
  }
  return (most + KIT_ALIGN - 1) / KIT_ALIGN * KIT_ALIGN;
}

/* Workspace of the activations for weight operand `w`.  An estimate is made before the device is
 * known (self NULL) and counts none. */
static uint64_t activations_q_bytes(const gpu_self *self, const kit_launch *l, int w) {
  if (!self || !kit_has(&l->in[w]) || l->in[w].weight < 0) return 0;
  const gpu_weight *weight = &self->weight[l->in[w].weight];
  const bool trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  const int64_t m = kit_row_count(&l->out[0]);
  return weight->packed && !trans ? self->limits.cpu_kernels->packed_workspace(self, weight, m)
                                  : gpu_activations_q_bytes(self, weight, trans, m);
}

uint64_t gpu_workspace_linear(const gpu_self *self, const kit_launch *l) {
  uint64_t most = 0;
  for (uint32_t m = 0; m <= l->n_fused; m++)
    for (int w = 1; w <= 4; w += 3) {
      const uint64_t bytes = activations_q_bytes(self, member(l, m), w);
      if (bytes > most) most = bytes;
    }
  return halves_bytes(l) + most;
}

/* ---- the op ---- */

/* A number for how a node's activations are written into the workspace; 0: they are not. */
static uint32_t activations_of(const gpu_self *self, const accel_plugin_program *p,
                               const accel_plugin_node *n) {
  const accel_plugin_tensor *w = &p->tensor[n->in[1]];
  if (w->kind != ACCEL_PLUGIN_TENSOR_WEIGHT || kit_attr_i(n, ACCEL_PLUGIN_ATTR_TRANS, 0)) return 0;
  const gpu_weight *weight = &self->weight[w->weight];
  if (weight->packed) return GPU_STORES + 1;
  return gpu_activations_q_variant(self->variants, weight, false) ? (uint32_t)weight->store + 1 : 0;
}

/* Q, K and V, or gate and up, read activations that were quantised or packed once. */
bool gpu_fuse_linear(const gpu_self *self, const accel_plugin_program *program,
                     const accel_plugin_node *first, const accel_plugin_node *other) {
  const uint32_t how = activations_of(self, program, first);
  return how && how == activations_of(self, program, other);
}

/* One node of the launch; `at`: where the activations begin in its workspace. */
static int32_t linear(gpu_run *run, const kit_launch *l, uint64_t at, gpu_quantized *quantized,
                      accel_plugin_error *error) {
  static const kit_tensor absent = {.id = -1};
  const kit_tensor *out = &l->out[0];
  const int64_t glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
                n = kit_cols(out);
  const uint64_t half = (uint64_t)out->elements * 4;
  gpu_product p = {
      .x = &l->in[0],
      .w = gpu_matrix_of(run, &l->in[1]),
      .bias = &l->in[2],
      .residual = &l->in[3],
      .y = gpu_at(run, out),
      .m = kit_row_count(out),
      .n = n,
      .k = kit_cols(&l->in[0]),
      .y_stride = n,
      .act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE),
      .trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0};
  p.alpha = kit_act_alpha(l->node, p.act);
  p.quantized = quantized;
  if (l->workspace_bytes > at) p.activations_q = gpu_workspace_at(l, at, l->workspace_bytes - at);
  if (glu == ACCEL_PLUGIN_GLU_NONE) return multiply(run, l, &p, error);
  const gpu_binding h = gpu_workspace_at(l, 0, 2 * half);
  const bool apart = glu == ACCEL_PLUGIN_GLU_SEPARATE;
  p.residual = &absent;
  p.act = ACCEL_PLUGIN_ACT_NONE;
  p.y = apart ? gpu_part(h, 0, half) : h;
  p.n = p.y_stride = apart ? n : 2 * n;
  int32_t rc = multiply(run, l, &p, error);
  if (!rc && apart) {
    p.w = gpu_matrix_of(run, &l->in[4]);
    p.bias = &l->in[5];
    p.y = gpu_part(h, half, half);
    rc = multiply(run, l, &p, error);
  }
  return rc ? rc : combine(run, l, glu, h, error);
}

GPU_OP(linear) {
  const uint64_t at = halves_bytes(l);
  gpu_quantized quantized = {0};
  int32_t rc = linear(run, l, at, &quantized, error);
  for (uint32_t m = 0; !rc && m < l->n_fused; m++) {
    rc = gpu_mark(run, l->joined[m].index, error);
    if (!rc) rc = linear(run, &l->joined[m], at, &quantized, error);
  }
  return rc;
}
