/* kit_graph_scan.c - the recurrence of state space layers, in closed form:
 *
 *   h_t = sum over s <= t of exp(A_t - A_s) dt_s b_s x_s,  A_t = sum over s <= t of dt_s a
 *
 * as a matrix [rows, rows] for each cell of the state.  A layer without decay is a running sum,
 * which models' heads use to count tokens. */
#include <math.h>

#include "kit/kit_lower.h"

enum { X, DT, A, B, C, D, Z, DT_BIAS };

static int64_t known_dim(const accel_plugin_program *p, int32_t tensor, uint32_t axis) {
  const accel_plugin_dim *d = &p->dim[p->tensor[tensor].dim[axis]];
  return d->op == ACCEL_PLUGIN_DIM_CONST ? d->c : -1;
}

const char *lower_scan_refusal(const accel_plugin_program *p, const accel_plugin_node *n) {
  const int32_t a = kit_operand(n, A);
  if (n->state >= 0) return "a recurrence with a state is not part of a static graph";
  if (kit_attr_i(n, ACCEL_PLUGIN_ATTR_VERSION, 1) != 1 || p->tensor[a].rank != 2)
    return "the recurrence of Mamba2 is not part of a static graph";
  const int64_t cells = known_dim(p, a, 0) * known_dim(p, a, 1);
  return cells > 0 && cells <= KIT_GRAPH_SCAN_CELLS
             ? NULL
             : "a recurrence of so many cells is not part of a static graph";
}

/* dt = clamp(softplus(dt + bias)), [items, rows, channels] */
static int32_t steps(lower *l, int32_t space, int64_t channels) {
  const double low = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_DT_MIN, -INFINITY),
               high = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_DT_MAX, INFINITY);
  const int32_t bias = lower_in(l, DT_BIAS);
  int32_t dt = lower_padded(l, lower_in(l, DT), space, channels);
  if (bias >= 0) dt = ADD(l, dt, bias);
  if (kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_DT_SOFTPLUS, 0)) dt = lower_op1(l, KIT_GRAPH_SOFTPLUS, dt);
  if (low > -INFINITY) dt = lower_op2(l, KIT_GRAPH_MAXIMUM, dt, lower_f32(l, low));
  return high < INFINITY ? lower_op2(l, KIT_GRAPH_MINIMUM, dt, lower_f32(l, high)) : dt;
}

void lower_SELECTIVE_SCAN(lower *l) {
  const accel_plugin_tensor *x_t = lower_tensor(l, X), *a_t = lower_tensor(l, A);
  const int32_t space = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SPACE, -1);
  const int64_t channels = lower_dim(l, x_t, 1), n = lower_dim(l, a_t, 1), cells = channels * n;
  const int32_t x = lower_padded(l, lower_in(l, X), space, channels),
                b = lower_padded(l, lower_in(l, B), space, n),
                c = lower_padded(l, lower_in(l, C), space, n), dt = steps(l, space, channels);
  /* bool [rows, rows]: row s is not behind row t */
  const int32_t row = lower_row(l, space, x_t),
                before = lower_op2(l, KIT_GRAPH_LESS_EQUAL, row, RESHAPE(l, row, -1, 1));
  const int32_t decay = RESHAPE(l, MUL(l, UNSQUEEZE(l, dt, 3), lower_in(l, A)), 0, 0, cells),
                sums = lower_matmul(l, lower_convert(l, before, ACCEL_PLUGIN_F32), decay, false),
                sum = TRANSPOSE(l, sums, 0, 2, 1); /* [items, cells, rows] */
  const int32_t rate = SUB(l, UNSQUEEZE(l, sum, 3), UNSQUEEZE(l, sum, 2)),
                seen = lower_op3(l, KIT_GRAPH_SELECT, before, rate, lower_f32(l, 0)),
                share = lower_op3(l, KIT_GRAPH_SELECT, before, lower_op1(l, KIT_GRAPH_EXP, seen),
                                  lower_f32(l, 0)); /* [items, cells, rows, rows] */
  const int32_t in = MUL(l, UNSQUEEZE(l, MUL(l, dt, x), 3), UNSQUEEZE(l, b, 2)),
                given = UNSQUEEZE(l, TRANSPOSE(l, RESHAPE(l, in, 0, 0, cells), 0, 2, 1), 3);
  const int32_t h = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, lower_matmul(l, share, given, false), 3,
                                 false); /* [items, cells, rows] */
  int32_t y = RESHAPE(l, TRANSPOSE(l, h, 0, 2, 1), 0, 0, channels, n);
  y = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, MUL(l, y, UNSQUEEZE(l, c, 2)), 3, false);
  y = lower_packed(l, y, space, channels);
  const int32_t d = lower_in(l, D), z = lower_in(l, Z);
  if (d >= 0) y = ADD(l, y, MUL(l, lower_in(l, X), d));
  if (z >= 0) y = MUL(l, y, lower_act(l, ACCEL_PLUGIN_ACT_SILU, 1.0, z));
  lower_out(l, 0, y);
}

void lower_GATED_DELTA_RULE(lower *l) {
  lower_fail(l, "the recurrence of a delta rule is not part of a static graph");
}
