/* kit_graph_norm.c - norm, group_norm, softmax, reduce, topk. */
#include <float.h>

#include "kit/kit_lower.h"

/* ---- norms ---- */

static int32_t normalised(lower *l, int64_t kind, double eps, int32_t x) {
  const int64_t last = -1;
  if (kind == ACCEL_PLUGIN_NORM_LAYER)
    return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_LAYER_NORM, .f = {eps}}, &x, 1);
  const int32_t square = lower_op2(l, KIT_GRAPH_POWER, x, lower_f32(l, 2));
  if (kind == ACCEL_PLUGIN_NORM_RMS) {
    const int32_t mean = lower_reduce(l, KIT_GRAPH_REDUCE_MEAN, square, last, true),
                  root = lower_op1(l, KIT_GRAPH_SQRT, ADD(l, mean, lower_f32(l, eps)));
    return MUL(l, x, DIV(l, lower_f32(l, 1), root));
  }
  const int32_t root =
      lower_op1(l, KIT_GRAPH_SQRT, lower_reduce(l, KIT_GRAPH_REDUCE_SUM, square, last, true));
  return DIV(l, x, lower_op2(l, KIT_GRAPH_MAXIMUM, root, lower_f32(l, eps)));
}

void lower_NORM(lower *l) {
  const accel_plugin_tensor *t = lower_tensor(l, 0);
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_NORM_KIND, ACCEL_PLUGIN_NORM_LAYER),
                groups = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                cols = lower_dim(l, t, t->rank - 1u);
  const double eps = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_EPS,
                                kind == ACCEL_PLUGIN_NORM_L2 ? 1e-12 : 1e-5),
               offset = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_GAMMA_OFFSET, 0.0);
  const int32_t residual = lower_in(l, 3), gamma = lower_in(l, 1), beta = lower_in(l, 2);
  int32_t x = lower_in(l, 0), y;
  if (residual >= 0) x = ADD(l, x, residual);
  lower_out(l, 1, x);
  if (groups > 1) {
    y = normalised(l, kind, eps, RESHAPE(l, x, -1, groups, cols / groups));
    y = lower_reshape_dims(l, y, t->dim, t->rank);
  } else {
    y = normalised(l, kind, eps, x);
  }
  if (gamma >= 0) y = MUL(l, y, offset != 0.0 ? ADD(l, gamma, lower_f32(l, offset)) : gamma);
  if (beta >= 0) y = ADD(l, y, beta);
  lower_out(l, 0, y);
}

void lower_GROUP_NORM(lower *l) {
  const accel_plugin_tensor *t = lower_tensor(l, 0);
  const int64_t groups = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                channels = lower_dim(l, t, 1);
  const int32_t act = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const int64_t pattern[] = {channels, 1, 1, 1, 1};
  const int32_t gamma = lower_in(l, 1), beta = lower_in(l, 2);
  int32_t y = normalised(l, ACCEL_PLUGIN_NORM_LAYER, kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_EPS, 1e-5),
                         RESHAPE(l, lower_in(l, 0), 0, groups, -1));
  y = lower_reshape_dims(l, y, t->dim, t->rank);
  if (gamma >= 0) y = MUL(l, y, lower_reshape(l, gamma, pattern, t->rank - 1u));
  if (beta >= 0) y = ADD(l, y, lower_reshape(l, beta, pattern, t->rank - 1u));
  lower_out(l, 0, lower_act(l, act, (double)kit_act_alpha(l->n, act), y));
}

void lower_SOFTMAX(lower *l) {
  const int64_t axis = kit_axis(l->n, -1, lower_tensor(l, 0)->rank);
  const bool logarithm = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_LOG, 0) != 0;
  lower_out(
      l, 0,
      lower_axis1(l, logarithm ? KIT_GRAPH_LOG_SOFTMAX : KIT_GRAPH_SOFTMAX, lower_in(l, 0), axis));
}

/* ---- reduce ---- */

static int32_t topk(lower *l, int32_t x, int64_t k, int64_t axis, bool sorted) {
  const int32_t count = lower_constant(l, ACCEL_PLUGIN_I64, 0, NULL, &k, sizeof k, false);
  return lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_TOPK, .i = {axis, sorted}, .n_i = 2},
                    (const int32_t[]){x, count}, 2);
}

static int32_t argmax(lower *l, int32_t x, int64_t axis) {
  return lower_op1(l, KIT_GRAPH_SECOND, topk(l, x, 1, axis, true));
}

/* sum(w x), for a mean over the sum of w, at least 1e-9. */
static int32_t weighted(lower *l, int32_t x, int32_t w, int64_t axis, bool mean) {
  const int32_t sum = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, MUL(l, x, w), axis, false);
  if (!mean) return sum;
  const int32_t all = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, w, axis, false);
  return DIV(l, sum, lower_op2(l, KIT_GRAPH_MAXIMUM, all, lower_f32(l, 1e-9)));
}

static int32_t along_axis(lower *l, int64_t kind, int32_t x, int64_t axis) {
  const accel_plugin_tensor *t = lower_tensor(l, 0);
  const int32_t w = lower_in(l, 1);
  int64_t pattern[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++) pattern[i] = (int64_t)i == axis ? -1 : 1;
  if (w >= 0 && (kind == ACCEL_PLUGIN_REDUCE_MEAN || kind == ACCEL_PLUGIN_REDUCE_SUM))
    return weighted(l, x, lower_reshape(l, w, pattern, t->rank), axis,
                    kind == ACCEL_PLUGIN_REDUCE_MEAN);
  switch (kind) {
    case ACCEL_PLUGIN_REDUCE_SUM:
      return lower_reduce(l, KIT_GRAPH_REDUCE_SUM, x, axis, false);
    case ACCEL_PLUGIN_REDUCE_MEAN:
      return lower_reduce(l, KIT_GRAPH_REDUCE_MEAN, x, axis, false);
    case ACCEL_PLUGIN_REDUCE_MAX:
      return lower_reduce(l, KIT_GRAPH_REDUCE_MAX, x, axis, false);
    case ACCEL_PLUGIN_REDUCE_MIN:
      return lower_reduce(l, KIT_GRAPH_REDUCE_MIN, x, axis, false);
    case ACCEL_PLUGIN_REDUCE_ARGMAX:
      return argmax(l, x, axis);
    case ACCEL_PLUGIN_REDUCE_FIRST:
      return lower_slice(l, x, axis, 0, 1);
    default:
      return lower_slice(l, x, axis, -1, INT64_MAX);
  }
}

static int32_t number(lower *l, int32_t like, double value) {
  const bool whole = lower_type(l, like) == ACCEL_PLUGIN_I32;
  if (!whole) return lower_f32(l, value);
  return lower_i32(l, value > 1e30 ? INT32_MAX : value < -1e30 ? INT32_MIN : (int32_t)value);
}

/* x[items, longest, C] of a space to [items, C]; an item without rows gives 0. */
static int32_t over_rows(lower *l, int64_t kind, int32_t x, int32_t space) {
  const int32_t valid = lower_valid(l, space), given = lower_in(l, 1), zero = number(l, x, 0);
  const bool mean = kind == ACCEL_PLUGIN_REDUCE_MEAN;
  if (valid < 0) { /* fixed: every row is real */
    if (given < 0 || (!mean && kind != ACCEL_PLUGIN_REDUCE_SUM)) return along_axis(l, kind, x, 1);
    return weighted(l, x, UNSQUEEZE(l, lower_padded(l, given, space, 0), 2), 1, mean);
  }
  const int32_t length =
      lower_feed(l, KIT_FEED_LENGTH, space, ACCEL_PLUGIN_I32, 2, (const int64_t[]){-1, 1});
  if (mean || kind == ACCEL_PLUGIN_REDUCE_SUM) {
    int32_t w = UNSQUEEZE(l, lower_convert(l, valid, lower_type(l, x)), 2);
    if (given >= 0) w = MUL(l, w, UNSQUEEZE(l, lower_padded(l, given, space, 0), 2));
    return weighted(l, x, w, 1, mean);
  }
  if (kind == ACCEL_PLUGIN_REDUCE_LAST) {
    const int32_t at =
        lower_op2(l, KIT_GRAPH_EQUAL, lower_row(l, space, NULL), /* [items, longest] */
                  SUB(l, length, lower_i32(l, 1)));
    x = lower_op3(l, KIT_GRAPH_SELECT, UNSQUEEZE(l, at, 2), x, zero);
    return lower_reduce(l, KIT_GRAPH_REDUCE_SUM, x, 1, false);
  }
  if (kind == ACCEL_PLUGIN_REDUCE_FIRST) {
    x = along_axis(l, kind, x, 1); /* [items, 1, C] */
    x = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, x, 1, false);
  } else {
    const double least = kind == ACCEL_PLUGIN_REDUCE_MIN ? FLT_MAX : -FLT_MAX;
    x = lower_op3(l, KIT_GRAPH_SELECT, UNSQUEEZE(l, valid, 2), x, number(l, x, least));
    x = along_axis(l, kind, x, 1);
    if (kind == ACCEL_PLUGIN_REDUCE_ARGMAX) x = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, x, 1, false);
  }
  return lower_op3(l, KIT_GRAPH_SELECT, lower_op2(l, KIT_GRAPH_LESS, lower_i32(l, 0), length), x,
                   number(l, x, 0));
}

void lower_REDUCE(lower *l) {
  const accel_plugin_tensor *t = lower_tensor(l, 0), *out = &l->p->tensor[l->n->out[0]];
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_REDUCE_SUM);
  const int32_t space = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SPACE, -1);
  int32_t x = lower_in(l, 0), y;
  if (space < 0) {
    y = along_axis(l, kind, x, kit_axis(l->n, -1, t->rank));
    lower_out(l, 0,
              out->rank ? lower_reshape_dims(l, y, out->dim, out->rank)
                        : lower_op2(l, KIT_GRAPH_RESHAPE, y, lower_i64s(l, NULL, 0)));
    return;
  }
  int64_t cols = 1;
  for (uint32_t i = 1; i < t->rank; i++) cols *= lower_dim(l, t, i);
  if (t->rank != 2) x = RESHAPE(l, x, -1, cols);
  y = over_rows(l, kind, lower_padded(l, x, space, cols), space);
  lower_out(l, 0, lower_reshape_dims(l, y, out->dim, out->rank));
}

void lower_TOPK(lower *l) {
  const int64_t k = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_K, 1);
  const bool sorted = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SORTED, 1) != 0;
  const int32_t y = topk(l, lower_in(l, 0), k, (int64_t)lower_tensor(l, 0)->rank - 1, sorted);
  lower_out(l, 0, y);
  lower_out(l, 1, lower_op1(l, KIT_GRAPH_SECOND, y));
}
