/* kit_graph_linear.c - weights, linear, matmul, moe. */
#include <string.h>

#include "formats/weight_matrix.h"
#include "kit/kit_lower.h"

/* ---- weights ---- */

static bool stored_in_graph(uint8_t store) {
  return store == ACCEL_PLUGIN_I8 || store == ACCEL_PLUGIN_U8 || store == ACCEL_PLUGIN_I4 ||
         store == ACCEL_PLUGIN_U4;
}

static bool float_type(uint8_t dtype) {
  return dtype == ACCEL_PLUGIN_F32 || dtype == ACCEL_PLUGIN_F16 || dtype == ACCEL_PLUGIN_BF16;
}

/* Whether a tensor is made of weights and constants alone, in at most `steps` nodes. */
static bool is_constant(const accel_plugin_program *p, int32_t id, int steps) {
  if (id < 0) return true;
  if (p->tensor[id].kind != ACCEL_PLUGIN_TENSOR_VALUE)
    return p->tensor[id].kind != ACCEL_PLUGIN_TENSOR_INPUT;
  for (uint32_t i = 0; steps > 0 && i < p->n_node; i++) {
    const accel_plugin_node *n = &p->node[i];
    bool made_here = false, constant = n->state < 0;
    for (uint32_t k = 0; k < n->n_out; k++) made_here |= n->out[k] == id;
    for (uint32_t k = 0; made_here && constant && k < n->n_in; k++)
      constant = is_constant(p, n->in[k], steps - 1);
    if (made_here) return constant;
  }
  return false;
}

/* Whether operand k of a node is one whose codes compilers keep: elsewhere they are not fused, and
 * OpenVINO fails over a product of constants with codes. */
static bool takes_codes(const accel_plugin_program *p, const accel_plugin_node *n, uint32_t k) {
  enum { STEPS = 6 }; /* a table, its norm, a reshape ... */
  switch (n->op) {
    case ACCEL_PLUGIN_OP_LINEAR:
      return (k == 1 || k == 4) && !is_constant(p, n->in[0], STEPS);
    case ACCEL_PLUGIN_OP_MOE:
      return k == 3 || k == 4;
    case ACCEL_PLUGIN_OP_CONV:
    case ACCEL_PLUGIN_OP_CONV_TRANSPOSE:
      return k == 1;
    default:
      return n->op == ACCEL_PLUGIN_OP_GATHER && k == 0;
  }
}

static bool only_taken_as_codes(const accel_plugin_program *p, uint32_t weight) {
  for (uint32_t i = 0; i < p->n_node; i++)
    for (uint32_t k = 0; k < p->node[i].n_in; k++) {
      const int32_t id = p->node[i].in[k];
      if (id >= 0 && p->tensor[id].kind == ACCEL_PLUGIN_TENSOR_WEIGHT &&
          p->tensor[id].weight == (int32_t)weight && !takes_codes(p, &p->node[i], k))
        return false;
    }
  return true;
}

bool kit_graph_format(const accel_plugin_program *p, uint32_t weight,
                      const accel_plugin_format *f) {
  int64_t n, k;
  kit_weight_matrix(&p->weight[weight], &n, &k);
  if (accel_format_plain(f)) return float_type(f->store);
  const int64_t group = f->group_k ? (int64_t)f->group_k : k;
  const bool four = f->store == ACCEL_PLUGIN_I4 || f->store == ACCEL_PLUGIN_U4;
  return stored_in_graph(f->store) && float_type(f->scale) && f->outer == ACCEL_PLUGIN_NO_DTYPE &&
         (f->zero == ACCEL_PLUGIN_NO_DTYPE || f->zero == ACCEL_PLUGIN_U8) && f->group_n == 1 &&
         k > 0 && k % group == 0 && !(four && k % 2) && only_taken_as_codes(p, weight);
}

/* A part of a weight, [n, groups, size], in its own type. */
static int32_t stored(lower *l, const void *data, uint8_t dtype, const int64_t dim[3]) {
  const uint64_t elements = (uint64_t)(dim[0] * dim[1] * dim[2]);
  const uint64_t bytes = dtype == ACCEL_PLUGIN_F32                                 ? elements * 4
                         : dtype == ACCEL_PLUGIN_F16 || dtype == ACCEL_PLUGIN_BF16 ? elements * 2
                         : dtype == ACCEL_PLUGIN_I4 || dtype == ACCEL_PLUGIN_U4    ? elements / 2
                                                                                   : elements;
  return lower_constant(l, dtype, 3, dim, data, bytes, true);
}

/* The same as fp32. */
static int32_t part(lower *l, const void *data, uint8_t dtype, const int64_t dim[3]) {
  return lower_convert(l, stored(l, data, dtype, dim), ACCEL_PLUGIN_F32);
}

/* Of such a part the rows listed, [.., groups, size]. */
static int32_t rows_of(lower *l, const void *data, uint8_t dtype, const int64_t dim[3],
                       int32_t rows) {
  return lower_axis2(l, KIT_GRAPH_GATHER, stored(l, data, dtype, dim), rows, 0);
}

static int32_t coded(lower *l, const accel_plugin_weight *w, const accel_plugin_format *f,
                     const accel_plugin_weight_view *v) {
  int64_t n, k;
  kit_weight_matrix(w, &n, &k);
  const int64_t size = f->group_k ? (int64_t)f->group_k : k, groups = k / size;
  int32_t x = part(l, v->data, f->store, (const int64_t[]){n, groups, size});
  if (f->zero != ACCEL_PLUGIN_NO_DTYPE)
    x = SUB(l, x, part(l, v->zero, f->zero, (const int64_t[]){n, groups, 1}));
  x = MUL(l, x, part(l, v->scale, f->scale, (const int64_t[]){n, groups, 1}));
  return lower_reshape(l, x, w->dim, w->rank);
}

int32_t lower_weight(lower *l, uint32_t index) {
  if (l->weight_value[index] >= 0) return l->weight_value[index];
  const accel_plugin_weight *w = &l->p->weight[index];
  const accel_plugin_format *f = &l->r->format[index];
  const accel_plugin_weight_view *v = &l->r->view[index];
  const uint64_t elements = (uint64_t)kit_weight_elements(w);
  int32_t x;
  if (l->r->wide[index])
    x = lower_constant(l, ACCEL_PLUGIN_F32, (uint8_t)w->rank, w->dim, l->r->wide[index],
                       elements * 4, true);
  else if (accel_format_plain(f))
    x = lower_convert(l,
                      lower_constant(l, f->store, (uint8_t)w->rank, w->dim, v->data,
                                     elements * (f->store == ACCEL_PLUGIN_F32 ? 4 : 2), true),
                      ACCEL_PLUGIN_F32);
  else
    x = coded(l, w, f, v);
  return l->weight_value[index] = x;
}

int32_t lower_weight_rows(lower *l, uint32_t index, int32_t rows) {
  const accel_plugin_weight *w = &l->p->weight[index];
  const accel_plugin_format *f = &l->r->format[index];
  const accel_plugin_weight_view *v = &l->r->view[index];
  if (l->r->wide[index] || accel_format_plain(f) || w->rank != 2) return -1;
  if (f->store != ACCEL_PLUGIN_I8 && f->store != ACCEL_PLUGIN_U8) return -1;
  const int64_t size = f->group_k ? (int64_t)f->group_k : w->dim[1], groups = w->dim[1] / size;
  const int64_t codes[] = {w->dim[0], groups, size}, one[] = {w->dim[0], groups, 1};
  int32_t x = lower_convert(l, rows_of(l, v->data, f->store, codes, rows), ACCEL_PLUGIN_F32);
  if (f->zero != ACCEL_PLUGIN_NO_DTYPE)
    x = SUB(l, x, lower_convert(l, rows_of(l, v->zero, f->zero, one, rows), ACCEL_PLUGIN_F32));
  return MUL(l, x, lower_convert(l, rows_of(l, v->scale, f->scale, one, rows), ACCEL_PLUGIN_F32));
}

/* ---- linear ---- */

static int32_t limited(lower *l, int32_t x, double limit, bool both) {
  if (limit <= 0) return x;
  x = lower_op2(l, KIT_GRAPH_MINIMUM, x, lower_f32(l, limit));
  return both ? lower_op2(l, KIT_GRAPH_MAXIMUM, x, lower_f32(l, -limit)) : x;
}

static int32_t gated(lower *l, int32_t act, double alpha, int32_t gate, int32_t up) {
  if (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI) up = ADD(l, up, lower_f32(l, 1));
  return MUL(l, lower_act(l, act, alpha, gate), up);
}

/* y[.., 2n] of both halves to [.., n]; interleaved columns are taken with a stride. */
int32_t lower_glu(lower *l, int64_t glu, int32_t act, double alpha, int32_t y, int64_t n,
                  uint32_t rank, double limit) {
  const int64_t axis = rank - 1;
  int32_t half[2];
  for (int64_t i = 0; i < 2; i++) {
    if (glu != ACCEL_PLUGIN_GLU_INTERLEAVED) {
      half[i] = lower_slice(l, y, axis, i * n, (i + 1) * n);
      continue;
    }
    const int64_t end = 2 * n, two = 2;
    half[i] = lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_SLICE},
                         (const int32_t[]){y, lower_i64s(l, &i, 1), lower_i64s(l, &end, 1),
                                           lower_i64s(l, &two, 1), lower_i64s(l, &axis, 1)},
                         5);
  }
  const bool last = glu == ACCEL_PLUGIN_GLU_GATE_LAST;
  return gated(l, act, alpha, limited(l, half[last], limit, false),
               limited(l, half[!last], limit, true));
}

static int32_t product(lower *l, uint32_t w, uint32_t bias) {
  const bool trans = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  const int32_t y = lower_matmul(l, lower_in(l, 0), lower_in(l, w), !trans), b = lower_in(l, bias);
  return b < 0 ? y : ADD(l, y, b);
}

void lower_LINEAR(lower *l) {
  const int64_t glu = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE);
  const int32_t act = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const double alpha = (double)kit_act_alpha(l->n, act);
  const accel_plugin_tensor *out = &l->p->tensor[l->n->out[0]];
  int32_t y = product(l, 1, 2);
  if (glu == ACCEL_PLUGIN_GLU_NONE)
    y = lower_act(l, act, alpha, y);
  else if (glu == ACCEL_PLUGIN_GLU_SEPARATE)
    y = gated(l, act, alpha, product(l, 4, 5), y);
  else
    y = lower_glu(l, glu, act, alpha, y, lower_dim(l, out, out->rank - 1u), out->rank, 0);
  const int32_t residual = lower_in(l, 3);
  lower_out(l, 0, residual < 0 ? y : ADD(l, y, residual));
}

void lower_MATMUL(lower *l) {
  const double scale = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  const bool trans = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_TRANS_B, 0) != 0;
  int32_t y = lower_matmul(l, lower_in(l, 0), lower_in(l, 1), trans);
  if (scale != 1.0) y = MUL(l, y, lower_f32(l, scale));
  lower_out(l, 0, y);
}

/* Every expert over every row, weighed by what routed there: right, and worth it while experts are
 * few. */
void lower_MOE(lower *l) {
  const accel_plugin_tensor *down_t = lower_tensor(l, 4), *idx_t = lower_tensor(l, 1);
  const int64_t experts = lower_dim(l, down_t, 0), inner = lower_dim(l, down_t, 2),
                k = lower_dim(l, idx_t, idx_t->rank - 1u);
  const int64_t glu = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE);
  const int32_t act = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  const double alpha = (double)kit_act_alpha(l->n, act),
               limit = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_LIMIT, 0.0);
  if (experts < 1 || experts > 1024) {
    lower_fail(l, "%lld experts", (long long)experts);
    return;
  }
  const int32_t all = lower_counted(l, experts, 3, (const int64_t[]){experts, 1, 1});
  const int32_t here =
      lower_convert(l, lower_op2(l, KIT_GRAPH_EQUAL, RESHAPE(l, lower_in(l, 1), 1, -1, k), all),
                    ACCEL_PLUGIN_F32);
  const int32_t share = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, /* [E, T, 1] */
                                     MUL(l, here, RESHAPE(l, lower_in(l, 2), 1, -1, k)), 2, true);
  /* the rows once for each expert: compilers want as many matrices on both sides */
  const int32_t zeros = lower_op2(l, KIT_GRAPH_BROADCAST, lower_f32(l, 0),
                                  lower_i64s(l, (const int64_t[]){experts, 1, 1}, 3));
  const int32_t x = ADD(l, UNSQUEEZE(l, lower_in(l, 0), 0), zeros);
  int32_t y = lower_matmul(l, x, lower_in(l, 3), true), bias = lower_in(l, 5);
  if (bias >= 0) y = ADD(l, y, UNSQUEEZE(l, bias, 1));
  y = glu == ACCEL_PLUGIN_GLU_NONE ? lower_act(l, act, alpha, y)
                                   : lower_glu(l, glu, act, alpha, y, inner, 3, limit);
  y = lower_matmul(l, y, lower_in(l, 4), true);
  bias = lower_in(l, 6);
  if (bias >= 0) y = ADD(l, y, UNSQUEEZE(l, bias, 1));
  lower_out(l, 0, lower_reduce(l, KIT_GRAPH_REDUCE_SUM, MUL(l, y, share), 0, false));
}
