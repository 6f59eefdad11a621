/* kit_graph_elementwise.c - activations, unary, binary, cast, gather, scatter_rows, allreduce. */
#include <math.h>
#include <stdio.h>

#include "kit/kit_lower.h"

static int32_t clamp(lower *l, int32_t x, double low, double high) {
  if (low > -INFINITY && high < INFINITY)
    return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_CLAMP, .f = {low, high}}, &x, 1);
  const bool whole = lower_type(l, x) == ACCEL_PLUGIN_I32;
  if (low > -INFINITY)
    x = lower_op2(l, KIT_GRAPH_MAXIMUM, x, whole ? lower_i32(l, (int32_t)low) : lower_f32(l, low));
  if (high < INFINITY)
    x = lower_op2(l, KIT_GRAPH_MINIMUM, x,
                  whole ? lower_i32(l, (int32_t)high) : lower_f32(l, high));
  return x;
}

static int32_t swish(lower *l, int32_t x, double beta) {
  return lower_op2(l, KIT_GRAPH_SWISH, x, lower_f32(l, beta));
}

static int32_t gelu(lower *l, int32_t x, bool tanh_form) {
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_GELU, .i = {tanh_form}, .n_i = 1}, &x, 1);
}

int32_t lower_act(lower *l, int32_t kind, double alpha, int32_t x) {
  switch (kind) {
    case ACCEL_PLUGIN_ACT_NONE:
      return x;
    case ACCEL_PLUGIN_ACT_RELU:
      return lower_op1(l, KIT_GRAPH_RELU, x);
    case ACCEL_PLUGIN_ACT_GELU:
    case ACCEL_PLUGIN_ACT_GELU_TANH:
      return gelu(l, x, kind == ACCEL_PLUGIN_ACT_GELU_TANH);
    case ACCEL_PLUGIN_ACT_GELU_QUICK:
      return swish(l, x, 1.702);
    case ACCEL_PLUGIN_ACT_SILU:
      return swish(l, x, 1.0);
    case ACCEL_PLUGIN_ACT_SWIGLU_OAI:
      return swish(l, x, alpha);
    case ACCEL_PLUGIN_ACT_TANH:
      return lower_op1(l, KIT_GRAPH_TANH, x);
    case ACCEL_PLUGIN_ACT_SIGMOID:
      return lower_op1(l, KIT_GRAPH_SIGMOID, x);
    case ACCEL_PLUGIN_ACT_RELU2:
      x = lower_op1(l, KIT_GRAPH_RELU, x);
      return MUL(l, x, x);
    case ACCEL_PLUGIN_ACT_MISH:
      return lower_op1(l, KIT_GRAPH_MISH, x);
    case ACCEL_PLUGIN_ACT_LEAKY_RELU:
      return lower_op3(l, KIT_GRAPH_SELECT, lower_op2(l, KIT_GRAPH_LESS, x, lower_f32(l, 0)),
                       MUL(l, x, lower_f32(l, alpha)), x);
    case ACCEL_PLUGIN_ACT_SOFTPLUS:
      return lower_op1(l, KIT_GRAPH_SOFTPLUS, x);
    case ACCEL_PLUGIN_ACT_HARDSWISH:
      return lower_op1(l, KIT_GRAPH_HARD_SWISH, x);
    case ACCEL_PLUGIN_ACT_ELU:
      return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_ELU, .f = {alpha}}, &x, 1);
    case ACCEL_PLUGIN_ACT_RELU6:
      return clamp(l, x, 0, 6);
  }
  return lower_fail(l, "activation %d is unknown", kind);
}

static int32_t affine(lower *l, int32_t x, double alpha, double beta) {
  const bool whole = lower_type(l, x) == ACCEL_PLUGIN_I32;
  if (whole) x = lower_convert(l, x, ACCEL_PLUGIN_F32);
  if (alpha != 1.0) x = MUL(l, x, lower_f32(l, alpha));
  if (beta != 0.0) x = ADD(l, x, lower_f32(l, beta));
  return whole ? lower_convert(l, x, ACCEL_PLUGIN_I32) : x;
}

static const struct {
  int32_t kind;
  uint8_t op;
} plain[] = {{ACCEL_PLUGIN_UNARY_EXP, KIT_GRAPH_EXP},    {ACCEL_PLUGIN_UNARY_LOG, KIT_GRAPH_LOG},
             {ACCEL_PLUGIN_UNARY_NEG, KIT_GRAPH_NEGATE}, {ACCEL_PLUGIN_UNARY_SQRT, KIT_GRAPH_SQRT},
             {ACCEL_PLUGIN_UNARY_SIN, KIT_GRAPH_SIN},    {ACCEL_PLUGIN_UNARY_COS, KIT_GRAPH_COS},
             {ACCEL_PLUGIN_UNARY_ABS, KIT_GRAPH_ABS}};

void lower_UNARY(lower *l) {
  const int32_t kind = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, -1), x = lower_in(l, 0);
  const double alpha = (double)kit_unary_alpha(l->n, kind),
               beta = (double)kit_unary_beta(l->n, kind);
  int32_t y = -1;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (plain[i].kind == kind) y = lower_op1(l, (kit_graph_op)plain[i].op, x);
  if (kind == ACCEL_PLUGIN_UNARY_RSQRT)
    y = DIV(l, lower_f32(l, 1), lower_op1(l, KIT_GRAPH_SQRT, x));
  else if (kind == ACCEL_PLUGIN_UNARY_CLAMP)
    y = clamp(l, x, alpha, beta);
  else if (kind == ACCEL_PLUGIN_UNARY_AFFINE)
    y = affine(l, x, alpha, beta);
  else if (y < 0)
    y = lower_act(l, kind, alpha, x);
  lower_out(l, 0, y);
}

static int32_t is_not_zero(lower *l, int32_t x) {
  const bool whole = lower_type(l, x) == ACCEL_PLUGIN_I32;
  return lower_op2(l, KIT_GRAPH_NOT_EQUAL, x, whole ? lower_i32(l, 0) : lower_f32(l, 0));
}

/* Integers: rounded down, and by zero 0.  Compilers round either way, so what is left over decides:
 * it has the sign of the divisor. */
static int32_t divide_whole(lower *l, int32_t a, int32_t b) {
  const int32_t zero = lower_i32(l, 0), some = is_not_zero(l, b),
                by = lower_op3(l, KIT_GRAPH_SELECT, some, b, lower_i32(l, 1)), q = DIV(l, a, by),
                rest = SUB(l, a, MUL(l, q, by));
  const int32_t other_sign =
      lower_op2(l, KIT_GRAPH_NOT_EQUAL, lower_op2(l, KIT_GRAPH_LESS, rest, zero),
                lower_op2(l, KIT_GRAPH_LESS, by, zero));
  const int32_t above = lower_op2(l, KIT_GRAPH_AND, is_not_zero(l, rest), other_sign);
  const int32_t down = lower_op3(l, KIT_GRAPH_SELECT, above, SUB(l, q, lower_i32(l, 1)), q);
  return lower_op3(l, KIT_GRAPH_SELECT, some, down, zero);
}

void lower_BINARY(lower *l) {
  static const uint8_t op[] = {[ACCEL_PLUGIN_BINARY_ADD] = KIT_GRAPH_ADD,
                               [ACCEL_PLUGIN_BINARY_SUB] = KIT_GRAPH_SUBTRACT,
                               [ACCEL_PLUGIN_BINARY_MUL] = KIT_GRAPH_MULTIPLY,
                               [ACCEL_PLUGIN_BINARY_DIV] = KIT_GRAPH_DIVIDE,
                               [ACCEL_PLUGIN_BINARY_MIN] = KIT_GRAPH_MINIMUM,
                               [ACCEL_PLUGIN_BINARY_MAX] = KIT_GRAPH_MAXIMUM,
                               [ACCEL_PLUGIN_BINARY_POW] = KIT_GRAPH_POWER};
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, 0);
  const int32_t a = lower_in(l, 0), b = lower_in(l, 1);
  if (l->rc) return;
  if (kind == ACCEL_PLUGIN_BINARY_WHERE)
    lower_out(l, 0, lower_op3(l, KIT_GRAPH_SELECT, is_not_zero(l, a), b, lower_in(l, 2)));
  else if (kind == ACCEL_PLUGIN_BINARY_DIV && lower_type(l, a) == ACCEL_PLUGIN_I32)
    lower_out(l, 0, divide_whole(l, a, b));
  else
    lower_out(l, 0, lower_op2(l, (kit_graph_op)op[kind], a, b));
}

void lower_CAST(lower *l) {
  const accel_plugin_tensor *y = &l->p->tensor[l->n->out[0]];
  lower_out(l, 0, lower_convert(l, lower_in(l, 0), y->dtype));
}

void lower_GATHER(lower *l) {
  const accel_plugin_tensor *table = lower_tensor(l, 0);
  const int64_t axis = kit_axis(l->n, 0, table->rank);
  const double scale = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  const int64_t limit = lower_dim(l, table, (uint32_t)axis);
  int32_t y = -1;
  if (axis == 0 && table->kind == ACCEL_PLUGIN_TENSOR_WEIGHT)
    y = lower_weight_rows(l, (uint32_t)table->weight, lower_in(l, 1));
  if (y >= 0)
    y = lower_reshape_dims(l, y, lower_out_tensor(l, 0)->dim, lower_out_tensor(l, 0)->rank);
  else
    y = lower_axis2(l, KIT_GRAPH_GATHER, lower_in(l, 0), lower_in(l, 1), axis);
  if (limit >= 0) lower_check(l, 1, limit);
  if (scale != 1.0 && table->dtype == ACCEL_PLUGIN_F32) y = MUL(l, y, lower_f32(l, scale));
  lower_out(l, 0, y);
}

void lower_SCATTER_ROWS(lower *l) {
  const accel_plugin_tensor *dst = lower_tensor(l, 0);
  const int64_t cols = lower_dim(l, dst, dst->rank - 1u), rows = lower_dim(l, dst, 0);
  int32_t idx = lower_in(l, 1), y;
  if (cols < 0) {
    lower_fail(l, "its columns are not known");
    return;
  }
  if (rows >= 0 && dst->rank == 2) lower_check(l, 1, rows);
  const int32_t flat = RESHAPE(l, lower_in(l, 0), -1, cols),
                src = RESHAPE(l, lower_in(l, 2), -1, cols);
  if (kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SCATTER_MODE, 0) == 1) {
    const int32_t zeros = lower_op2(l, KIT_GRAPH_BROADCAST, lower_i32(l, 0), /* [1, C] */
                                    lower_i64s(l, (const int64_t[]){1, cols}, 2));
    idx = ADD(l, RESHAPE(l, idx, -1, 1), zeros);
    y = lower_op3(l, KIT_GRAPH_SCATTER_ADD, flat, idx, src);
  } else {
    y = lower_op3(l, KIT_GRAPH_SCATTER_ROWS, flat, RESHAPE(l, idx, -1), src);
  }
  lower_out(l, 0, dst->rank == 2 ? y : lower_reshape_dims(l, y, dst->dim, dst->rank));
}

void lower_ALLREDUCE(lower *l) { lower_out(l, 0, lower_in(l, 0)); } /* one rank */
void lower_LOW_RANK(lower *l) { lower_fail(l, "adapters are not part of a static graph"); }
