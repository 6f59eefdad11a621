/* ort_forms.c - ops of a graph that are several nodes in ONNX, or one whose operands differ. */
#include <stdio.h>
#include <string.h>

#include "onnxruntime/ort_write.h"

static void finish(ort_writer *w, const char *type, int32_t out, const int32_t *in, uint32_t n) {
  ort_close(w, ort_open(w, type, out, in, n));
}

static int32_t cast(ort_writer *w, int32_t x, uint8_t dtype) {
  const int32_t out = ort_fresh(w);
  const size_t node = ort_open(w, "Cast", out, &x, 1);
  ort_attribute_int(w, "to", ort_type(dtype));
  ort_close(w, node);
  return out;
}

static void refuse(ort_writer *w, const char *what) {
  if (!*w->why) snprintf(w->why, sizeof w->why, "%s", what);
}

/* ---- elementwise ---- */

static void put_swish(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t x = n->in[0], inside = ort_op2(w, "Mul", x, n->in[1]),
                gate = ort_op1(w, "Sigmoid", inside);
  finish(w, "Mul", id, (const int32_t[]){x, gate}, 2);
}

/* ort_writer.apart: a + b as a - (-b), which is the same number and no sum. */
static void put_sum(ort_writer *w, int32_t id, const kit_graph_node *n) {
  finish(w, "Sub", id, (const int32_t[]){n->in[0], ort_op1(w, "Neg", n->in[1])}, 2);
}

/* ort_writer.apart: x * number as x / (1 / number). */
static void put_scaled(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const float other = 1 / ort_number(w, n->in[1]);
  finish(w, "Div", id, (const int32_t[]){n->in[0], ort_floats(w, &other, 0)}, 2);
}

/* ort_writer.apart: a number without its fraction, for one that was converted to an integer. */
static void put_whole(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t x = w->g->node[n->in[0]].in[0], whole = ort_op1(w, "Floor", ort_op1(w, "Abs", x));
  finish(w, "Mul", id, (const int32_t[]){ort_op1(w, "Sign", x), whole}, 2);
}

static void put_clamp(ort_writer *w, int32_t id, const kit_graph_node *n) {
  int32_t end[2];
  for (int i = 0; i < 2; i++) {
    const float value = (float)n->f[i];
    end[i] = ort_floats(w, &value, 0);
    if (n->dtype != ACCEL_PLUGIN_F32) end[i] = cast(w, end[i], n->dtype);
  }
  finish(w, "Clip", id, (const int32_t[]){n->in[0], end[0], end[1]}, 3);
}

static void put_not_equal(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t same = ort_op2(w, "Equal", n->in[0], n->in[1]);
  finish(w, "Not", id, &same, 1);
}

/* ---- products ---- */

static int32_t turned(ort_writer *w, int32_t x, bool turn) {
  const int8_t rank = w->rank[x];
  int64_t perm[ACCEL_PLUGIN_MAX_RANK];
  if (!turn) return x;
  if (rank < 2) {
    refuse(w, "a transposed product whose rank is not known");
    return x;
  }
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  const int32_t out = ort_fresh(w);
  const size_t node = ort_open(w, "Transpose", out, &x, 1);
  ort_attribute_ints(w, "perm", perm, (uint32_t)rank);
  ort_close(w, node);
  return out;
}

/* Matrices of two dims are a Gemm, whose kernels take weights as they lie. */
static void put_matmul(ort_writer *w, int32_t id, const kit_graph_node *n) {
  if (w->rank[n->in[0]] == 2 && w->rank[n->in[1]] == 2) {
    const size_t node = ort_open(w, "Gemm", id, n->in, 2);
    ort_attribute_int(w, "transA", n->i[0]);
    ort_attribute_int(w, "transB", n->i[1]);
    ort_close(w, node);
    return;
  }
  const int32_t a = turned(w, n->in[0], n->i[0]), b = turned(w, n->in[1], n->i[1]);
  finish(w, "MatMul", id, (const int32_t[]){a, b}, 2);
}

/* ---- norms ---- */

static int32_t mean_of_last(ort_writer *w, int32_t x) {
  const int64_t last = -1;
  return ort_op2(w, "ReduceMean", x, ort_int64s(w, &last, 1));
}

/* With a scale: LayerNormalization.  Without: as it is defined, for it would want a vector of ones
 * whose size is not known. */
static void put_norm(ort_writer *w, int32_t id, int32_t norm) {
  const kit_graph_node *n = &w->g->node[norm];
  const float eps = (float)n->f[0];
  if (w->scale[norm] >= 0) {
    const int32_t in[] = {n->in[0], w->scale[norm], w->shift[norm]};
    const size_t node = ort_open(w, "LayerNormalization", id, in, w->shift[norm] >= 0 ? 3 : 2);
    ort_attribute_int(w, "axis", -1);
    ort_attribute_float(w, "epsilon", eps);
    ort_close(w, node);
    return;
  }
  const int32_t from_mean = ort_op2(w, "Sub", n->in[0], mean_of_last(w, n->in[0])),
                variance = mean_of_last(w, ort_op2(w, "Mul", from_mean, from_mean)),
                more = ort_op2(w, "Add", variance, ort_floats(w, &eps, 0)),
                root = ort_op1(w, "Sqrt", more);
  finish(w, "Div", id, (const int32_t[]){from_mean, root}, 2);
}

static void put_layer_norm(ort_writer *w, int32_t id, const kit_graph_node *n) {
  (void)n;
  if (w->scale[id] < 0) put_norm(w, id, id); /* else where its scale is applied */
}

/* ---- choosing ---- */

static void put_topk(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t indices = (int32_t)w->g->n_node + id; /* what SECOND reads */
  int64_t length = 0;
  const int64_t *k = ort_known(w, n->in[1], &length);
  if (!k) {
    refuse(w, "a number of the largest that is not known");
    return;
  }
  const int32_t count = ort_int64s(w, k, 1), largest = n->i[1] ? id : ort_fresh(w),
                at = n->i[1] ? indices : ort_fresh(w);
  size_t node = ort_open(w, "TopK", largest, (const int32_t[]){n->in[0], count}, 2);
  ort_output(w, at);
  ort_attribute_int(w, "axis", n->i[0]);
  ort_close(w, node);
  if (n->i[1]) return;
  node = ort_open(w, "TopK", indices, (const int32_t[]){at, count}, 2); /* by index */
  ort_output(w, ort_fresh(w));
  ort_attribute_int(w, "axis", n->i[0]);
  ort_attribute_int(w, "largest", 0);
  ort_close(w, node);
  node = ort_open(w, "GatherElements", id, (const int32_t[]){n->in[0], indices}, 2);
  ort_attribute_int(w, "axis", n->i[0]);
  ort_close(w, node);
}

static void put_second(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t indices = (int32_t)w->g->n_node + n->in[0];
  const size_t node = ort_open(w, "Cast", id, &indices, 1);
  ort_attribute_int(w, "to", ort_type(ACCEL_PLUGIN_I32));
  ort_close(w, node);
}

static void put_scatter_rows(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int64_t one = 1;
  const int32_t rows =
      cast(w, ort_op2(w, "Unsqueeze", n->in[1], ort_int64s(w, &one, 1)), ACCEL_PLUGIN_I64);
  finish(w, "ScatterND", id, (const int32_t[]){n->in[0], rows, n->in[2]}, 3);
}

/* ---- shapes ---- */

static void put_transpose(ort_writer *w, int32_t id, const kit_graph_node *n) {
  int64_t rank = 0;
  const int64_t *perm = ort_known(w, n->in[1], &rank);
  if (!perm) {
    refuse(w, "a transposition that is not known");
    return;
  }
  const size_t node = ort_open(w, "Transpose", id, n->in, 1);
  ort_attribute_ints(w, "perm", perm, (uint32_t)rank);
  ort_close(w, node);
}

static void put_slice(ort_writer *w, int32_t id, const kit_graph_node *n) {
  enum { START = 1, STOP, STEP, AXES };
  finish(w, "Slice", id,
         (const int32_t[]){n->in[0], n->in[START], n->in[STOP], n->in[AXES], n->in[STEP]}, 5);
}

static void put_pad(ort_writer *w, int32_t id, const kit_graph_node *n) {
  static const char *const modes[] = {[ACCEL_PLUGIN_PAD_CONSTANT] = "constant",
                                      [ACCEL_PLUGIN_PAD_REFLECT] = "reflect",
                                      [ACCEL_PLUGIN_PAD_EDGE] = "edge"};
  const int32_t ends = ort_fresh(w);
  size_t node = ort_open(w, "Concat", ends, (const int32_t[]){n->in[1], n->in[2]}, 2);
  ort_attribute_int(w, "axis", 0);
  ort_close(w, node);
  node = ort_open(w, "Pad", id, (const int32_t[]){n->in[0], ends, n->in[3]}, 3);
  ort_attribute_word(w, "mode", modes[n->i[0]], strlen(modes[n->i[0]]));
  ort_close(w, node);
}

/* ---- windows ---- */

/* The kernel of a convolution with groups, [G,a,b,..] here, as [G a,b,..]. */
static int32_t ungrouped(ort_writer *w, int32_t kernel, int64_t groups) {
  const kit_graph_node *n = &w->g->node[kernel];
  int64_t rank = 0, merged[ACCEL_PLUGIN_MAX_RANK];
  if (groups == 1) return kernel;
  const int64_t *shape = n->op == KIT_GRAPH_RESHAPE ? ort_known(w, n->in[1], &rank) : NULL;
  if (!shape || rank < 3) {
    refuse(w, "a convolution with groups whose kernel is not known");
    return kernel;
  }
  merged[0] = shape[0] * shape[1];
  for (int64_t i = 2; i < rank; i++) merged[i - 1] = shape[i];
  return ort_op2(w, "Reshape", kernel, ort_int64s(w, merged, rank - 1));
}

/* ort_writer.apart: in four dims, the last of which is what is left. */
static void put_tangent(ort_writer *w, int32_t id, const kit_graph_node *n) {
  static const int64_t four[] = {0, 0, 0, -1}; /* 0: as it is */
  const int32_t x = ort_op2(w, "Reshape", n->in[0], ort_int64s(w, four, 4)),
                back[] = {ort_op1(w, "Tanh", x), ort_op1(w, "Shape", n->in[0])};
  finish(w, "Reshape", id, back, 2);
}

/* ort_writer.apart: sine or cosine of an angle within half a turn of 0.  Whole turns are taken off in
 * three parts (Cody and Waite): the first two are so short that halves have their products with up
 * to 227 turns exactly. */
static void put_wave(ort_writer *w, int32_t id, const kit_graph_node *n) {
  static const float part[] = {6.0f, 0.28125f, 0.0019353071795864769f}; /* 2 pi */
  const float turn = 0.15915494309189534f, half = 0.5f;
  int32_t x = n->in[0], turns = ort_op2(w, "Mul", x, ort_floats(w, &turn, 0));
  turns = ort_op1(w, "Floor", ort_op2(w, "Add", turns, ort_floats(w, &half, 0)));
  for (int i = 0; i < 3; i++)
    x = ort_op2(w, "Sub", x, ort_op2(w, "Mul", turns, ort_floats(w, &part[i], 0)));
  finish(w, n->op == KIT_GRAPH_SIN ? "Sin" : "Cos", id, &x, 1);
}

/* ort_writer.apart: rows of a table that is widened before; the CONVERT behind finds them fp32. */
static void put_gather(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const int32_t in[] = {cast(w, n->in[0], ACCEL_PLUGIN_F32), n->in[1]};
  const size_t node = ort_open(w, "Gather", id, in, 2);
  ort_attribute_int(w, "axis", n->i[0]);
  ort_close(w, node);
}

/* strides, pads (begins, then ends) and more, of n dims, from v[]. */
static void put_window(ort_writer *w, const int64_t *v, uint32_t n) {
  ort_attribute_ints(w, "strides", v, n);
  ort_attribute_ints(w, "pads", v + n, 2 * n);
}

static void put_convolution(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const bool back = n->op == KIT_GRAPH_CONVOLUTION_TRANSPOSED;
  const uint32_t dims = (uint32_t)n->i[1];
  const int64_t *v = n->i + 2;
  const int32_t in[] = {n->in[0], ungrouped(w, n->in[1], n->i[0])};
  const size_t node = ort_open(w, back ? "ConvTranspose" : "Conv", id, in, 2);
  put_window(w, v, dims);
  ort_attribute_ints(w, "dilations", v + 3 * dims, dims);
  if (back) ort_attribute_ints(w, "output_padding", v + 4 * dims, dims);
  ort_attribute_int(w, "group", n->i[0]);
  ort_close(w, node);
}

static void put_pool(ort_writer *w, int32_t id, const kit_graph_node *n) {
  const bool max = n->op == KIT_GRAPH_MAX_POOL;
  const uint32_t dims = (uint32_t)n->i[0];
  const size_t node = ort_open(w, max ? "MaxPool" : "AveragePool", id, n->in, 1);
  ort_attribute_ints(w, "kernel_shape", n->i + 1, dims);
  put_window(w, n->i + 1 + dims, dims);
  if (!max) ort_attribute_int(w, "count_include_pad", !n->i[1 + 4 * dims]);
  ort_close(w, node);
}

void ort_form(ort_writer *w, int32_t id) {
  static void (*const forms[KIT_GRAPH_OPS])(ort_writer *, int32_t, const kit_graph_node *) = {
      [KIT_GRAPH_ADD] = put_sum,
      [KIT_GRAPH_CONVERT] = put_whole,
      [KIT_GRAPH_MULTIPLY] = put_scaled,
      [KIT_GRAPH_GATHER] = put_gather,
      [KIT_GRAPH_TANH] = put_tangent,
      [KIT_GRAPH_SIN] = put_wave,
      [KIT_GRAPH_COS] = put_wave,
      [KIT_GRAPH_SWISH] = put_swish,
      [KIT_GRAPH_CLAMP] = put_clamp,
      [KIT_GRAPH_NOT_EQUAL] = put_not_equal,
      [KIT_GRAPH_MATMUL] = put_matmul,
      [KIT_GRAPH_LAYER_NORM] = put_layer_norm,
      [KIT_GRAPH_TOPK] = put_topk,
      [KIT_GRAPH_SECOND] = put_second,
      [KIT_GRAPH_SCATTER_ROWS] = put_scatter_rows,
      [KIT_GRAPH_TRANSPOSE] = put_transpose,
      [KIT_GRAPH_SLICE] = put_slice,
      [KIT_GRAPH_PAD] = put_pad,
      [KIT_GRAPH_CONVOLUTION] = put_convolution,
      [KIT_GRAPH_CONVOLUTION_TRANSPOSED] = put_convolution,
      [KIT_GRAPH_MAX_POOL] = put_pool,
      [KIT_GRAPH_AVERAGE_POOL] = put_pool,
  };
  const kit_graph_node *n = &w->g->node[id];
  if (w->normed[id] >= 0) {
    put_norm(w, id, w->normed[id]);
  } else if (forms[n->op]) {
    forms[n->op](w, id, n);
  } else {
    refuse(w, "an op that it does not know");
  }
}
