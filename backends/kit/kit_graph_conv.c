/* kit_graph_conv.c - conv, conv_transpose, pool, resize. */
#include <stdlib.h>

#include "kit/kit_lower.h"

/* Attributes stride, begin, end, dilation of n dims behind groups and n. */
static kit_graph_node window(const lower *l, kit_graph_op op, int64_t groups, int64_t n) {
  kit_graph_node node = {.op = (uint8_t)op, .i = {groups, n}, .n_i = (uint8_t)(2 + 4 * n)};
  for (int64_t i = 0; i < n; i++) {
    const uint32_t k = (uint32_t)i;
    node.i[2 + i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_STRIDE, k, 1);
    node.i[2 + n + i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, k, 0);
    node.i[2 + 2 * n + i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, k + (uint32_t)n, 0);
    node.i[2 + 3 * n + i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_DILATION, k, 1);
  }
  return node;
}

/* The kernel, as [G, first/G, ...] where there are groups. */
static int32_t kernel(lower *l, int64_t groups) {
  const accel_plugin_tensor *t = lower_tensor(l, 1);
  int64_t pattern[ACCEL_PLUGIN_MAX_RANK] = {groups};
  if (groups == 1) return lower_in(l, 1);
  for (uint32_t i = 0; i < t->rank; i++) pattern[1 + i] = lower_dim(l, t, i);
  pattern[1] /= groups;
  return lower_reshape(l, lower_in(l, 1), pattern, t->rank + 1u);
}

static int32_t with_bias(lower *l, int32_t y, int64_t n) {
  const int64_t pattern[] = {-1, 1, 1};
  const int32_t bias = lower_in(l, 2);
  return bias < 0 ? y : ADD(l, y, lower_reshape(l, bias, pattern, (uint32_t)n + 1));
}

static void finish(lower *l, int32_t y) {
  const int32_t act = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  lower_out(l, 0, lower_act(l, act, (double)kit_act_alpha(l->n, act), y));
}

/* x[T, C] over the rows of each sequence: padded, zeros (or what is carried) in front and behind. */
static void conv_rows(lower *l, int64_t groups) {
  const accel_plugin_tensor *t = lower_tensor(l, 0), *w = lower_tensor(l, 1);
  const int32_t space = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SPACE, -1);
  const int64_t cols = lower_dim(l, t, 1), taps = lower_dim(l, w, 2),
                dilation = kit_listed(l->n, ACCEL_PLUGIN_ATTR_DILATION, 0, 1),
                before = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, 0,
                                    l->n->state >= 0 ? (taps - 1) * dilation : 0);
  const int32_t valid = lower_valid(l, space), rows = lower_in(l, 0);
  int32_t x = lower_padded(l, rows, space, cols);
  if (valid >= 0) x = MUL(l, x, UNSQUEEZE(l, lower_convert(l, valid, ACCEL_PLUGIN_F32), 2));
  kit_graph_node node = {.op = KIT_GRAPH_CONVOLUTION,
                         .i = {groups, 1, 1, before, (taps - 1) * dilation - before, dilation},
                         .n_i = 6};
  if (l->n->state >= 0 && before > 0) {
    const int64_t dim[] = {-1, before, cols};
    const int32_t both[] = {
        lower_feed(l, KIT_FEED_CARRIED, (int32_t)l->index, ACCEL_PLUGIN_F32, 3, dim), x};
    x = lower_concat(l, both, 2, 1);
    node.i[3] = 0;
  }
  if (l->n->state >= 0) lower_result(l, KIT_RESULT_ROWS_X, (int32_t)l->index, rows);
  int32_t y =
      lower_node(l, &node, (const int32_t[]){TRANSPOSE(l, x, 0, 2, 1), kernel(l, groups)}, 2);
  y = TRANSPOSE(l, with_bias(l, y, 1), 0, 2, 1);
  y = lower_packed(l, y, space, lower_dim(l, &l->p->tensor[l->n->out[0]], 1));
  const int32_t residual = lower_in(l, 3);
  finish(l, residual < 0 ? y : ADD(l, y, residual));
}

void lower_CONV(lower *l) {
  const int64_t groups = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                n = lower_tensor(l, 0)->rank - 2;
  if (l->n->state >= 0 || kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0) {
    conv_rows(l, groups);
    return;
  }
  const kit_graph_node node = window(l, KIT_GRAPH_CONVOLUTION, groups, n);
  const int32_t residual = lower_in(l, 3);
  int32_t y = lower_node(l, &node, (const int32_t[]){lower_in(l, 0), kernel(l, groups)}, 2);
  y = with_bias(l, y, n);
  finish(l, residual < 0 ? y : ADD(l, y, residual));
}

void lower_CONV_TRANSPOSE(lower *l) {
  const int64_t groups = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GROUPS, 1),
                n = lower_tensor(l, 0)->rank - 2;
  kit_graph_node node = window(l, KIT_GRAPH_CONVOLUTION_TRANSPOSED, groups, n);
  for (int64_t i = 0; i < n; i++)
    node.i[node.n_i++] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_OUT_PADS, (uint32_t)i, 0);
  const int32_t y = lower_node(l, &node, (const int32_t[]){lower_in(l, 0), kernel(l, groups)}, 2);
  finish(l, with_bias(l, y, n));
}

/* ---- separable maps: y = x mapped along one dim by a matrix [out, in] ---- */

static int32_t mapped(lower *l, int32_t x, uint32_t rank, uint32_t axis, const float *m,
                      int64_t out, int64_t in) {
  const int32_t matrix = lower_constant(l, ACCEL_PLUGIN_F32, 2, (const int64_t[]){out, in}, m,
                                        (uint64_t)(out * in) * 4, false);
  if (axis == rank - 1) return lower_matmul(l, x, matrix, true);
  return lower_matmul(l, matrix, x, false); /* [out, in] x [.., in, W] */
}

static int32_t averages(lower *l, int32_t x, uint32_t rank, uint32_t axis, int64_t in,
                        int64_t out) {
  float *m = calloc((size_t)(in * out) + 1, sizeof *m);
  if (!m) return l->rc = kit_no_memory(l->error, (uint64_t)(in * out) * 4), 0;
  for (int64_t o = 0; o < out; o++) {
    const int64_t from = o * in / out, to = ((o + 1) * in + out - 1) / out;
    for (int64_t i = from; i < to; i++) m[o * in + i] = 1.0f / (float)(to - from);
  }
  x = mapped(l, x, rank, axis, m, out, in);
  free(m);
  return x;
}

/* ---- pool ---- */

static void plain_pool(lower *l, const kit_launch *launch, bool max) {
  const uint32_t n = launch->in[0].rank - 2u, skip = 2 - n;
  const kit_plane p = kit_plane_of(launch, NULL);
  const bool count_pads = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_COUNT_INCLUDE_PAD, 0) != 0;
  kit_graph_node node = {.op = max ? KIT_GRAPH_MAX_POOL : KIT_GRAPH_AVERAGE_POOL,
                         .i = {n},
                         .n_i = (uint8_t)(2 + 4 * n)};
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t a = i + skip;
    /* padding behind that gives the program's size: more than asked for where sizes round up */
    const int64_t last = (p.out[a] - 1) * p.stride[a] + p.kernel[a] - p.in[a] - p.begin[a];
    if (last > p.end[a] && count_pads && !max) {
      lower_fail(l, "an average that counts padding, with a size that is rounded up");
      return;
    }
    node.i[1 + i] = p.kernel[a];
    node.i[1 + n + i] = p.stride[a];
    node.i[1 + 2 * n + i] = p.begin[a];
    node.i[1 + 3 * n + i] = last > p.end[a] ? last : p.end[a];
  }
  node.i[1 + 4 * n] = !count_pads;
  lower_out(l, 0, lower_node(l, &node, (const int32_t[]){lower_in(l, 0)}, 1));
}

void lower_POOL(lower *l) {
  kit_tensor in[KIT_OPERANDS], out[KIT_RESULTS];
  kit_launch launch;
  const int64_t *sizes;
  const bool max = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, 1) == ACCEL_PLUGIN_POOL_MAX;
  if (!lower_launch(l, in, out, &launch)) return;
  if (!kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_ADAPTIVE, &sizes)) {
    plain_pool(l, &launch, max);
    return;
  }
  int32_t x = lower_in(l, 0);
  for (uint32_t axis = 2; axis < in[0].rank; axis++)
    x = averages(l, x, in[0].rank, axis, in[0].dim[axis], out[0].dim[axis]);
  lower_out(l, 0, x);
}

/* ---- resize ---- */

static int32_t resized(lower *l, int32_t x, uint32_t rank, uint32_t axis, const kit_taps *t,
                       int64_t in, int64_t out) {
  const bool nearest = t->width == 1;
  float *m = calloc((size_t)(in * out) + 1, sizeof *m);
  int32_t *from = calloc((size_t)out + 1, sizeof *from);
  if (!m || !from) {
    l->rc = kit_no_memory(l->error, (uint64_t)(in * out) * 4);
  } else if (nearest) {
    for (int64_t o = 0; o < out; o++) from[o] = (int32_t)t->index[o];
    const int32_t idx =
        lower_constant(l, ACCEL_PLUGIN_I32, 1, &out, from, (uint64_t)out * 4, false);
    x = lower_axis2(l, KIT_GRAPH_GATHER, x, idx, axis);
  } else {
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = 0; i < t->width; i++)
        m[o * in + t->index[o * t->width + i]] += (float)t->weight[o * t->width + i];
    x = mapped(l, x, rank, axis, m, out, in);
  }
  free(m);
  free(from);
  return x;
}

void lower_RESIZE(lower *l) {
  kit_tensor in[KIT_OPERANDS], out[KIT_RESULTS];
  kit_taps taps[2] = {0};
  kit_launch launch;
  if (!lower_launch(l, in, out, &launch)) return;
  l->rc = kit_taps_new(&launch, taps, l->error);
  int32_t x = l->rc ? 0 : lower_in(l, 0);
  const uint32_t rank = in[0].rank;
  for (uint32_t axis = 2; !l->rc && axis < rank; axis++)
    x = resized(l, x, rank, axis, &taps[rank == 4 ? axis - 2 : 1], in[0].dim[axis],
                out[0].dim[axis]);
  kit_taps_free(taps);
  lower_out(l, 0, x);
}
