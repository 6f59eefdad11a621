/* gpu_op_elementwise.c - unary, binary, cast. */
#include <stdio.h>
#include <string.h>

#include "gpu/gpu_layer.h"

enum { TO_INT = 100, TO_FLOAT = 101 }; /* kinds of unary_i32.k beside those of ops.def */

static bool unary_of_int(int64_t kind) {
  return kind == ACCEL_PLUGIN_UNARY_NEG || kind == ACCEL_PLUGIN_UNARY_ABS ||
         kind == ACCEL_PLUGIN_ACT_RELU || kind == ACCEL_PLUGIN_UNARY_CLAMP ||
         kind == ACCEL_PLUGIN_UNARY_AFFINE;
}

int32_t gpu_support_unary(const accel_plugin_program *program, const accel_plugin_node *node,
                          char *why, size_t n) {
  const int64_t kind = kit_attr_i(node, ACCEL_PLUGIN_ATTR_KIND, -1);
  switch (kind) {
#define ACCEL_ACT(NAME, number, key, text)   case number:
#define ACCEL_UNARY(NAME, number, key, text) case number:
#include "accel/ops.def"
    if (program->tensor[node->in[0]].dtype != ACCEL_PLUGIN_I32 || unary_of_int(kind))
      return ACCEL_PLUGIN_NATIVE;
    snprintf(why, n, "unary kind %lld does not take int32", (long long)kind);
    return ACCEL_PLUGIN_NO;
  }
  snprintf(why, n, "unary kind %lld is unknown", (long long)kind);
  return ACCEL_PLUGIN_NO;
}

static int32_t saturate(double v) {
  return v >= INT32_MAX ? INT32_MAX : v <= INT32_MIN ? INT32_MIN : (int32_t)v;
}

static int32_t dispatch_i32(gpu_run *run, const kit_launch *l, int32_t kind, double alpha,
                            double beta, accel_plugin_error *error) {
  gpu_call c = gpu_call_new(run, l, GPU_K_unary_i32);
  gpu_tensor(&c, &l->in[0]);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_unary_i32 params = {.n = l->in[0].elements,
                                       .kind = kind,
                                       .alpha = alpha,
                                       .beta = beta,
                                       .alpha_int = saturate(alpha),
                                       .beta_int = saturate(beta)};
  gpu_set_unary_i32(&c, &params);
  return gpu_dispatch_items(&c, l->in[0].elements, error);
}

GPU_OP(unary) {
  const kit_tensor *x = &l->in[0];
  const int32_t kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, -1);
  const double alpha = (double)kit_unary_alpha(l->node, kind),
               beta = (double)kit_unary_beta(l->node, kind);
  if (x->dtype == ACCEL_PLUGIN_I32) return dispatch_i32(run, l, kind, alpha, beta, error);
  gpu_call c = gpu_call_new(run, l, GPU_K_unary_f32);
  gpu_tensor(&c, x);
  gpu_tensor(&c, &l->out[0]);
  const gpu_params_unary_f32 params = {
      .n = x->elements, .kind = kind, .alpha = alpha, .beta = beta};
  gpu_set_unary_f32(&c, &params);
  return gpu_dispatch_items(&c, x->elements, error);
}

GPU_OP(cast) {
  const kit_tensor *x = &l->in[0], *y = &l->out[0];
  const gpu_binding from = gpu_at(run, x), to = gpu_at(run, y);
  if (x->dtype != y->dtype)
    return dispatch_i32(run, l, y->dtype == ACCEL_PLUGIN_I32 ? TO_INT : TO_FLOAT, 0.0, 0.0, error);
  if (from.buffer == to.buffer && from.offset == to.offset) return ACCEL_PLUGIN_OK;
  return gpu_copy(run, to, from, error);
}

/* ---- binary ---- */

enum { RANK = ACCEL_PLUGIN_MAX_RANK };

/* An operand's strides along the dims of the result, the last dim first; 0 where it is
 * broadcast. */
static void strides(const kit_tensor *t, const kit_tensor *out, int64_t step[RANK]) {
  int64_t n = 1;
  for (int i = 1; i <= out->rank; i++) {
    const int64_t d = i <= t->rank ? t->dim[t->rank - i] : 1;
    step[i - 1] = d > 1 ? n : 0;
    n *= d;
  }
}

/* Element i of the result takes element (i / div) % mod of an operand. That covers every operand
 * whose dims of more than 1 are neighbours; pattern_of is false for others. */
typedef struct pattern {
  int64_t div, mod;
} pattern;
static bool pattern_of(const kit_tensor *t, const kit_tensor *out, pattern *p) {
  int64_t step[RANK];
  bool inside = false, after = false;
  *p = (pattern){1, 1};
  strides(t, out, step);
  for (int i = 0; i < out->rank; i++) {
    const int64_t d = out->dim[out->rank - 1 - i];
    if (d == 1) continue;
    if (step[i] && after) return false;
    if (step[i]) {
      inside = true;
      p->mod *= d;
    } else if (inside) {
      after = true;
    } else {
      p->div *= d;
    }
  }
  return true;
}

static int32_t general(gpu_call *c, const kit_tensor *const t[3], const kit_tensor *out,
                       accel_plugin_error *error) {
  int32_t shape[RANK + 1][4] = {{0}};
  int64_t step[RANK];
  gpu_binding at;
  for (int i = 0; i < out->rank; i++) shape[i][0] = (int32_t)out->dim[out->rank - 1 - i];
  for (int k = 0; k < 3; k++) {
    strides(t[k], out, step);
    for (int i = 0; i < out->rank; i++) shape[i][k + 1] = (int32_t)step[i];
  }
  const int32_t rc = gpu_constant(c->run, shape, sizeof shape, &at, error);
  gpu_bind(c, at);
  return rc;
}

GPU_OP(binary) {
  const kit_tensor *out = &l->out[0];
  const int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, 0);
  const bool where = kind == ACCEL_PLUGIN_BINARY_WHERE;
  const kit_tensor *const t[3] = {&l->in[0], &l->in[1], where ? &l->in[2] : &l->in[1]};
  pattern p[3];
  int32_t rc = ACCEL_PLUGIN_OK;
  if (kind < ACCEL_PLUGIN_BINARY_ADD || kind > ACCEL_PLUGIN_BINARY_WHERE)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED, "kind %lld is unknown",
                           (long long)kind);
  const bool simple =
      pattern_of(t[0], out, &p[0]) && pattern_of(t[1], out, &p[1]) && pattern_of(t[2], out, &p[2]);
  gpu_call c = gpu_call_new(run, l, simple ? GPU_K_binary : GPU_K_binary_general);
  for (int i = 0; i < 3; i++) gpu_tensor(&c, t[i]);
  if (!simple) rc = general(&c, t, out, error);
  if (rc) return rc;
  gpu_tensor(&c, out);
  const int64_t flags =
      (out->dtype == ACCEL_PLUGIN_I32 ? 1 : 0) | (t[0]->dtype == ACCEL_PLUGIN_I32 ? 2 : 0);
  if (simple) {
    const gpu_params_binary params = {.n = out->elements,
                                      .kind = kind,
                                      .flags = flags,
                                      .a_div = p[0].div,
                                      .a_mod = p[0].mod,
                                      .b_div = p[1].div,
                                      .b_mod = p[1].mod,
                                      .c_div = p[2].div,
                                      .c_mod = p[2].mod};
    gpu_set_binary(&c, &params);
  } else {
    const gpu_params_binary_general params = {
        .n = out->elements, .kind = kind, .flags = flags, .rank = out->rank};
    gpu_set_binary_general(&c, &params);
  }
  return gpu_dispatch_items(&c, out->elements, error);
}
