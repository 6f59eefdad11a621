/* shape.c - shape inference of program nodes: helpers that all ops share, and every op that
 * shape_conv.c does not have.  program_internal.h says what accel__infer holds.  Dims of a failed
 * node are -1, and the program fails. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/program_internal.h"

/* ---- helpers ---- */

bool accel__wrong(accel__infer *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(c->why, sizeof c->why, format, args);
  va_end(args);
  return false;
}

const accel_plugin_tensor *accel__operand_at(const accel__infer *c, uint32_t i) {
  return i < c->n_in && c->in[i] >= 0 ? &c->p->tensor[c->in[i]] : NULL;
}

const accel_plugin_attr *accel__attr_at(const accel__infer *c, int key) {
  for (uint32_t i = 0; i < c->n_attr; i++) {
    if (c->attr[i].key == key) return &c->attr[i];
  }
  return NULL;
}

int64_t accel__attr_int(const accel__infer *c, int key, int64_t otherwise) {
  const accel_plugin_attr *a = accel__attr_at(c, key);
  return a != NULL ? a->i : otherwise;
}

double accel__attr_float(const accel__infer *c, int key, double otherwise) {
  const accel_plugin_attr *a = accel__attr_at(c, key);
  return a != NULL ? a->f : otherwise;
}

static const char *operand_name(const accel__infer *c, uint32_t i) {
  const accel__signature *s = c->signature;
  return s->operand[i < s->n_operands ? i : s->n_operands - 1].name;
}

bool accel__expect_rank(accel__infer *c, uint32_t i, uint32_t rank) {
  const accel_plugin_tensor *t = accel__operand_at(c, i);
  return t == NULL || t->rank == rank ||
         accel__wrong(c, "%s has rank %u, expected %u", operand_name(c, i), t->rank, rank);
}

bool accel__expect_dims(accel__infer *c, uint32_t i, uint32_t rank, const accel__dim *dims) {
  const accel_plugin_tensor *t = accel__operand_at(c, i);
  if (t == NULL) return true;
  bool same = t->rank == rank;
  for (uint32_t k = 0; same && k < rank; k++) same = accel__dims_equal(c->p, t->dim[k], dims[k]);
  if (same) return true;
  accel_plugin_tensor expected = {.rank = (uint8_t)rank};
  for (uint32_t k = 0; k < rank && k < ACCEL_PLUGIN_MAX_RANK; k++) expected.dim[k] = dims[k];
  accel__buffer text = {0};
  accel_plugin_program view;
  accel__program_peek(c->p, &view);
  accel__shape_text(&view, &expected, &text);
  accel__wrong(c, "%s should be %s", operand_name(c, i),
               text.data != NULL ? text.data : "of another shape");
  accel__buffer_free(&text);
  return false;
}

static bool expect_1(accel__infer *c, uint32_t i, accel__dim a) {
  return accel__expect_dims(c, i, 1, &a);
}
static bool expect_2(accel__infer *c, uint32_t i, accel__dim a, accel__dim b) {
  return accel__expect_dims(c, i, 2, (accel__dim[]){a, b});
}
static bool expect_like(accel__infer *c, uint32_t i, const accel_plugin_tensor *t) {
  return accel__expect_dims(c, i, t->rank, t->dim);
}

void accel__result(accel__infer *c, uint32_t k, int dtype, uint32_t rank, const int32_t *dims,
                   int32_t space) {
  accel_plugin_tensor *t = &c->out[k];
  memset(t, 0, sizeof *t);
  t->dtype = (uint8_t)dtype;
  t->rank = (uint8_t)rank;
  t->space = space;
  for (uint32_t i = 0; i < rank && i < ACCEL_PLUGIN_MAX_RANK; i++) t->dim[i] = dims[i];
}

static bool result_like(accel__infer *c, const accel_plugin_tensor *t) {
  accel__result(c, 0, t->dtype, t->rank, t->dim, t->space);
  return true;
}

bool accel__axis(accel__infer *c, int64_t axis, uint32_t rank, uint32_t *out) {
  int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return accel__wrong(c, "axis %lld is outside rank %u", (long long)axis, rank);
  *out = (uint32_t)at;
  return true;
}

static accel__dim last_dim(const accel_plugin_tensor *t) {
  return t->rank > 0 ? t->dim[t->rank - 1] : -1;
}
static accel__dim times(accel__infer *c, accel__dim a, int64_t n) {
  return accel__dim_op(c->p, ACCEL_PLUGIN_DIM_MUL, a, accel__const_dim(c->p, n));
}

/* The value of a constant dim; a symbolic one is an error that names operand i. */
static bool constant_dim(accel__infer *c, uint32_t i, accel__dim dim, int64_t *out) {
  return accel__dim_value(c->p, dim, out) ||
         accel__wrong(c, "a dim of %s must be a constant", operand_name(c, i));
}

static bool expect_space(accel__infer *c, int key, int64_t space) {
  return (space >= 0 && space < (int64_t)c->p->n_space) ||
         accel__wrong(c, "%s: there is no row space %lld", accel__attr_name(key), (long long)space);
}

/* Rows of a space as one dim. */
static accel__dim space_rows(accel__infer *c, int64_t space) {
  const accel_plugin_space *s = &c->p->space[space];
  return s->lengths >= 0 ? s->rows : accel__dim_op(c->p, ACCEL_PLUGIN_DIM_MUL, s->rows, s->items);
}

/* ---- ops ---- */

bool accel__shape_LINEAR(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *w = accel__operand_at(c, 1);
  if (x->rank < 1 || !accel__expect_rank(c, 1, 2))
    return accel__wrong(c, "x needs at least one dim and w[N,K] two");
  bool trans = accel__attr_int(c, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  int64_t glu = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GLU, 0), stored;
  accel__dim n = w->dim[trans ? 1 : 0], k = w->dim[trans ? 0 : 1], rows = n;
  if (!accel__dims_equal(c->p, last_dim(x), k))
    return accel__wrong(c, "the last dim of x is not the K of w");
  if ((glu == ACCEL_PLUGIN_GLU_SEPARATE) != (accel__operand_at(c, 4) != NULL))
    return accel__wrong(c, "w_gate goes with glu=separate");
  if (accel__operand_at(c, 5) != NULL && glu != ACCEL_PLUGIN_GLU_SEPARATE)
    return accel__wrong(c, "bias_gate goes with glu=separate");
  if (glu > ACCEL_PLUGIN_GLU_SEPARATE) {
    if (!constant_dim(c, 1, n, &stored)) return false;
    if (stored % 2 != 0) return accel__wrong(c, "a gated w needs an even number of rows");
    n = accel__const_dim(c->p, stored / 2);
  }
  if (!expect_1(c, 2, rows) || !expect_like(c, 4, w) || !expect_1(c, 5, n)) return false;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  memcpy(dims, x->dim, sizeof dims);
  dims[x->rank - 1] = n;
  if (!accel__expect_dims(c, 3, x->rank, dims)) return false;
  accel__result(c, 0, ACCEL_PLUGIN_F32, x->rank, dims, x->rank > 1 ? x->space : -1);
  return true;
}

/* Broadcasts b's dims into dims[rank] (aligned at the end); false when they do not fit. */
static bool broadcast(accel__infer *c, int32_t *dims, uint32_t rank, const int32_t *b,
                      uint32_t b_rank) {
  for (uint32_t i = 0; i < b_rank; i++) {
    int32_t *d = &dims[rank - b_rank + i];
    int64_t one;
    if (accel__dim_value(c->p, b[i], &one) && one == 1) continue;
    if (accel__dim_value(c->p, *d, &one) && one == 1)
      *d = b[i];
    else if (!accel__dims_equal(c->p, *d, b[i]))
      return accel__wrong(c, "the operands' dims do not broadcast");
  }
  return true;
}

bool accel__shape_MATMUL(accel__infer *c) {
  const accel_plugin_tensor *a = accel__operand_at(c, 0), *b = accel__operand_at(c, 1);
  if (a->rank < 2 || b->rank < 2) return accel__wrong(c, "a and b need at least two dims");
  bool trans = accel__attr_int(c, ACCEL_PLUGIN_ATTR_TRANS_B, 0) != 0;
  accel__dim k = b->dim[b->rank - (trans ? 1 : 2)], n = b->dim[b->rank - (trans ? 2 : 1)];
  if (!accel__dims_equal(c->p, last_dim(a), k)) return accel__wrong(c, "a and b do not agree on K");
  const accel_plugin_tensor *wide = a->rank >= b->rank ? a : b, *narrow = wide == a ? b : a;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  memcpy(dims, wide->dim, sizeof dims);
  if (!broadcast(c, dims, wide->rank - 2, narrow->dim, narrow->rank - 2)) return false;
  dims[wide->rank - 2] = a->dim[a->rank - 2];
  dims[wide->rank - 1] = n;
  accel__result(c, 0, ACCEL_PLUGIN_F32, wide->rank, dims, wide->rank == 2 ? a->space : -1);
  return true;
}

/* Checks k or v: [rows of kv_space, kv_heads * D]; gives D. */
static bool key_value(accel__infer *c, uint32_t i, int64_t kv_heads, int64_t kv_space,
                      int64_t *width) {
  const accel_plugin_tensor *t = accel__operand_at(c, i);
  int64_t all;
  if (!accel__expect_rank(c, i, 2) || !constant_dim(c, i, last_dim(t), &all)) return false;
  if (all % kv_heads != 0)
    return accel__wrong(c, "%s's %lld columns do not fall into %lld heads", operand_name(c, i),
                        (long long)all, (long long)kv_heads);
  if (!accel__dims_equal(c->p, t->dim[0], space_rows(c, kv_space)))
    return accel__wrong(c, "dim 0 of %s is not the row count of kv_space", operand_name(c, i));
  *width = all / kv_heads;
  return true;
}

static bool attention_bias(accel__infer *c, int64_t heads, accel__dim columns) {
  const accel_plugin_tensor *bias = accel__operand_at(c, 3);
  int64_t kind = accel__attr_int(c, ACCEL_PLUGIN_ATTR_BIAS_KIND, 0);
  accel__dim h = accel__const_dim(c->p, heads);
  bool wants = kind != ACCEL_PLUGIN_BIAS_NONE && kind != ACCEL_PLUGIN_BIAS_DISENTANGLED;
  if (wants != (bias != NULL))
    return accel__wrong(c, "operand bias and bias_kind do not go together");
  bool relative = accel__operand_at(c, 8) != NULL || accel__operand_at(c, 9) != NULL;
  if (relative != (kind == ACCEL_PLUGIN_BIAS_DISENTANGLED))
    return accel__wrong(c, "rel_k and rel_q go with bias_kind=disentangled");
  switch (kind) {
    case ACCEL_PLUGIN_BIAS_DENSE:
      return accel__expect_rank(c, 3, 4);
    case ACCEL_PLUGIN_BIAS_ALIBI:
      return expect_1(c, 3, h);
    case ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL:
    case ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL: {
      int64_t buckets = accel__attr_int(c, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 0);
      if (buckets < 1 || accel__attr_int(c, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 0) < 1)
        return accel__wrong(c, "T5 bias needs num_buckets and max_distance");
      return expect_2(c, 3, accel__const_dim(c->p, buckets), h);
    }
    case ACCEL_PLUGIN_BIAS_DISENTANGLED: {
      int64_t span = accel__attr_int(c, ACCEL_PLUGIN_ATTR_REL_SPAN, 0);
      if (span < 1 || span > INT32_MAX) return accel__wrong(c, "disentangled bias needs rel_span");
      accel__dim rows = accel__const_dim(c->p, 2 * span);
      return expect_2(c, 8, rows, columns) && expect_2(c, 9, rows, columns);
    }
    default:
      return true;
  }
}

/* Second output [listed heads, Tq, S]: S is the `rows` of kv_space, a bound on one item's keys. */
static bool attention_probs(accel__infer *c, int64_t heads, accel__dim tq, int64_t kv_space) {
  if (c->n_out < 2) return true;
  const accel_plugin_attr *probs = accel__attr_at(c, ACCEL_PLUGIN_ATTR_PROBS);
  if (probs == NULL || probs->n == 0)
    return accel__wrong(c, "the second output needs heads listed in probs");
  for (uint32_t i = 0; i < probs->n; i++) {
    if (probs->v[i] < 0 || probs->v[i] >= heads)
      return accel__wrong(c, "probs: there is no head %lld", (long long)probs->v[i]);
  }
  accel__result(c, 1, ACCEL_PLUGIN_F32, 3,
                (int32_t[]){accel__const_dim(c->p, probs->n), tq, c->p->space[kv_space].rows}, -1);
  return true;
}

bool accel__shape_ATTENTION(accel__infer *c) {
  const accel_plugin_tensor *q = accel__operand_at(c, 0), *k = accel__operand_at(c, 1),
                            *v = accel__operand_at(c, 2);
  int64_t heads = accel__attr_int(c, ACCEL_PLUGIN_ATTR_HEADS, 0),
          kv_heads = accel__attr_int(c, ACCEL_PLUGIN_ATTR_KV_HEADS, heads);
  int64_t q_space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_Q_SPACE, -1),
          kv_space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_KV_SPACE, q_space);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    return accel__wrong(c, "kv_heads %lld must divide heads %lld", (long long)kv_heads,
                        (long long)heads);
  if (!expect_space(c, ACCEL_PLUGIN_ATTR_Q_SPACE, q_space) ||
      !expect_space(c, ACCEL_PLUGIN_ATTR_KV_SPACE, kv_space))
    return false;
  if (c->state < 0 && (q == NULL || k == NULL || v == NULL))
    return accel__wrong(c, "q, k and v may only be absent with a state");
  if ((k == NULL) != (v == NULL) || (q == NULL && k == NULL))
    return accel__wrong(c, "k and v must be given together, and q or k must be given");
  const accel_plugin_state *state = c->state >= 0 ? &c->p->state[c->state] : NULL;
  int64_t dk = state != NULL ? state->k_dim : 0, dv = state != NULL ? state->v_dim : 0, columns;
  if (k != NULL &&
      (!key_value(c, 1, kv_heads, kv_space, &dk) || !key_value(c, 2, kv_heads, kv_space, &dv)))
    return false;
  if (state != NULL && (dk != state->k_dim || dv != state->v_dim || kv_heads != state->heads))
    return accel__wrong(c, "k and v do not fit state '%s'", state->name);
  if (!expect_1(c, 4, space_rows(c, q_space)) || !expect_1(c, 5, space_rows(c, kv_space)) ||
      !expect_1(c, 6, space_rows(c, kv_space)) || !expect_1(c, 7, accel__const_dim(c->p, heads))) {
    return false;
  }
  accel__dim width = accel__const_dim(c->p, heads * dv);
  if (q == NULL) { /* append only: an empty result of the right width */
    accel__result(c, 0, ACCEL_PLUGIN_F32, 2, (int32_t[]){space_rows(c, q_space), width},
                  (int32_t)q_space);
    return true;
  }
  if (!accel__expect_rank(c, 0, 2) || !constant_dim(c, 0, last_dim(q), &columns)) return false;
  if (columns != heads * dk)
    return accel__wrong(c, "q's %lld columns are not %lld heads of %lld", (long long)columns,
                        (long long)heads, (long long)dk);
  if (!accel__dims_equal(c->p, q->dim[0], space_rows(c, q_space)))
    return accel__wrong(c, "dim 0 of q is not the row count of q_space");
  if (!attention_bias(c, heads, last_dim(q)) || !attention_probs(c, heads, q->dim[0], kv_space))
    return false;
  accel__result(c, 0, ACCEL_PLUGIN_F32, 2, (int32_t[]){q->dim[0], width}, (int32_t)q_space);
  return true;
}

bool accel__shape_ROPE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *pos = accel__operand_at(c, 1);
  int64_t head = accel__attr_int(c, ACCEL_PLUGIN_ATTR_HEAD_DIM, 0),
          rot = accel__attr_int(c, ACCEL_PLUGIN_ATTR_ROT_DIMS, head), all;
  if (!accel__expect_rank(c, 0, 2) || !constant_dim(c, 0, last_dim(x), &all)) return false;
  if (head < 1 || all % head != 0)
    return accel__wrong(c, "head_dim %lld does not divide x's %lld columns", (long long)head,
                        (long long)all);
  if (rot < 2 || rot % 2 != 0 || rot > head)
    return accel__wrong(c, "rot_dims %lld must be even and at most head_dim %lld", (long long)rot,
                        (long long)head);
  bool three = pos->rank == 2;
  if (three ? !expect_2(c, 1, accel__const_dim(c->p, 3), x->dim[0]) : !expect_1(c, 1, x->dim[0]))
    return false;
  const accel_plugin_attr *sections = accel__attr_at(c, ACCEL_PLUGIN_ATTR_SECTIONS);
  if (three && sections == NULL) return accel__wrong(c, "three position rows need sections");
  if (accel__operand_at(c, 2) == NULL && accel__attr_at(c, ACCEL_PLUGIN_ATTR_THETA) == NULL)
    return accel__wrong(c, "inv_freq or theta is needed");
  const accel_plugin_tensor *freq = accel__operand_at(c, 2);
  accel__dim pairs = accel__const_dim(c->p, rot / 2);
  if (freq != NULL && freq->rank == 2 ? !expect_2(c, 2, x->dim[0], pairs) : !expect_1(c, 2, pairs))
    return false;
  return result_like(c, x);
}

bool accel__shape_NORM(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  if (x->rank < 1) return accel__wrong(c, "x needs a dim to normalise over");
  int64_t groups = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GROUPS, 1), columns;
  if (groups < 1) return accel__wrong(c, "groups must be positive");
  if (groups > 1 && (!constant_dim(c, 0, last_dim(x), &columns) || columns % groups != 0))
    return accel__wrong(c, "groups must divide x's last dim");
  if (!expect_1(c, 1, last_dim(x)) || !expect_1(c, 2, last_dim(x)) || !expect_like(c, 3, x))
    return false;
  if (c->n_out > 1) accel__result(c, 1, x->dtype, x->rank, x->dim, x->space);
  return result_like(c, x);
}

bool accel__shape_GATHER(accel__infer *c) {
  const accel_plugin_tensor *table = accel__operand_at(c, 0), *idx = accel__operand_at(c, 1);
  uint32_t axis = 0;
  if (!accel__axis(c, accel__attr_int(c, ACCEL_PLUGIN_ATTR_AXIS, 0), table->rank, &axis))
    return false;
  uint32_t rank = table->rank - 1u + idx->rank;
  if (rank > ACCEL_PLUGIN_MAX_RANK) return accel__wrong(c, "the result would have rank %u", rank);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t i = 0; i < axis; i++) dims[n++] = table->dim[i];
  for (uint32_t i = 0; i < idx->rank; i++) dims[n++] = idx->dim[i];
  for (uint32_t i = axis + 1; i < table->rank; i++) dims[n++] = table->dim[i];
  accel__result(c, 0, table->dtype, rank, dims,
                axis == 0 && idx->rank > 0 ? idx->space
                : axis > 0                 ? table->space
                                           : -1);
  return true;
}

bool accel__shape_SCATTER_ROWS(accel__infer *c) {
  const accel_plugin_tensor *dst = accel__operand_at(c, 0), *idx = accel__operand_at(c, 1);
  if (!accel__expect_rank(c, 0, 2) || !accel__expect_rank(c, 1, 1)) return false;
  return expect_2(c, 2, idx->dim[0], dst->dim[1]) && result_like(c, dst);
}

bool accel__shape_BINARY(accel__infer *c) {
  const accel_plugin_tensor *t[3] = {accel__operand_at(c, 0), accel__operand_at(c, 1),
                                     accel__operand_at(c, 2)};
  bool where = accel__attr_int(c, ACCEL_PLUGIN_ATTR_KIND, 0) == ACCEL_PLUGIN_BINARY_WHERE;
  if (where != (t[2] != NULL)) return accel__wrong(c, "operand c goes with kind=where");
  if (!where && t[0]->dtype != t[1]->dtype) return accel__wrong(c, "a and b have different dtypes");
  if (where && t[1]->dtype != t[2]->dtype) return accel__wrong(c, "b and c have different dtypes");
  const accel_plugin_tensor *wide = t[0];
  for (uint32_t i = 1; i < 3; i++) {
    if (t[i] != NULL && t[i]->rank > wide->rank) wide = t[i];
  }
  int32_t dims[ACCEL_PLUGIN_MAX_RANK], space = -1;
  memcpy(dims, wide->dim, sizeof dims);
  for (uint32_t i = 0; i < 3; i++) {
    if (t[i] != NULL && !broadcast(c, dims, wide->rank, t[i]->dim, t[i]->rank)) return false;
  }
  for (uint32_t i = 0; i < 3; i++) { /* the space of those that give dim 0 */
    if (t[i] == NULL || t[i]->space < 0 || t[i]->rank != wide->rank || t[i]->dim[0] != dims[0])
      continue;
    if (space >= 0 && space != t[i]->space)
      return accel__wrong(c, "the operands belong to different row spaces");
    space = t[i]->space;
  }
  accel__result(c, 0, t[1]->dtype, wide->rank, dims, space);
  return true;
}

bool accel__shape_UNARY(accel__infer *c) { return result_like(c, accel__operand_at(c, 0)); }

bool accel__shape_CAST(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  accel__result(c, 0, (int)accel__attr_int(c, ACCEL_PLUGIN_ATTR_DTYPE, ACCEL_PLUGIN_F32), x->rank,
                x->dim, x->space);
  return true;
}

bool accel__shape_SOFTMAX(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  uint32_t axis;
  return accel__axis(c, accel__attr_int(c, ACCEL_PLUGIN_ATTR_AXIS, -1), x->rank, &axis) &&
         result_like(c, x);
}

bool accel__shape_REDUCE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *weights = accel__operand_at(c, 1);
  int64_t space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_SPACE, -1),
          kind = accel__attr_int(c, ACCEL_PLUGIN_ATTR_KIND, 0);
  uint32_t axis = 0, rank = 0;
  if (!accel__axis(c, space >= 0 ? 0 : accel__attr_int(c, ACCEL_PLUGIN_ATTR_AXIS, -1), x->rank,
                   &axis))
    return false;
  if (weights != NULL && kind != ACCEL_PLUGIN_REDUCE_SUM && kind != ACCEL_PLUGIN_REDUCE_MEAN)
    return accel__wrong(c, "weights go with sum and mean");
  if (!expect_1(c, 1, x->dim[axis])) return false;
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  int dtype = kind == ACCEL_PLUGIN_REDUCE_ARGMAX ? ACCEL_PLUGIN_I32 : x->dtype;
  if (space >= 0) {
    if (!expect_space(c, ACCEL_PLUGIN_ATTR_SPACE, space)) return false;
    if (!accel__dims_equal(c->p, x->dim[0], space_rows(c, space)))
      return accel__wrong(c, "dim 0 of x is not the row count of space '%s'",
                          c->p->space[space].name);
    memcpy(dims, x->dim, sizeof dims);
    dims[0] = c->p->space[space].items;
    accel__result(c, 0, dtype, x->rank, dims, -1);
    return true;
  }
  bool keep = accel__attr_int(c, ACCEL_PLUGIN_ATTR_KEEP, 0) != 0;
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i != axis)
      dims[rank++] = x->dim[i];
    else if (keep)
      dims[rank++] = accel__const_dim(c->p, 1);
  }
  accel__result(c, 0, dtype, rank, dims, axis > 0 ? x->space : -1);
  return true;
}

bool accel__shape_TOPK(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0);
  int64_t k = accel__attr_int(c, ACCEL_PLUGIN_ATTR_K, 0), n;
  if (x->rank < 1 || k < 1 || (accel__dim_value(c->p, last_dim(x), &n) && k > n))
    return accel__wrong(c, "k %lld is outside x's last dim", (long long)k);
  int32_t dims[ACCEL_PLUGIN_MAX_RANK];
  memcpy(dims, x->dim, sizeof dims);
  dims[x->rank - 1] = accel__const_dim(c->p, k);
  int32_t space = x->rank > 1 ? x->space : -1;
  accel__result(c, 0, x->dtype, x->rank, dims, space);
  if (c->n_out > 1) accel__result(c, 1, ACCEL_PLUGIN_I32, x->rank, dims, space);
  return true;
}

bool accel__shape_MOE(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *idx = accel__operand_at(c, 1),
                            *up = accel__operand_at(c, 3), *down = accel__operand_at(c, 4);
  if (!accel__expect_rank(c, 0, 2) || !accel__expect_rank(c, 1, 2) ||
      !accel__expect_rank(c, 3, 3) || !accel__expect_rank(c, 4, 3))
    return false;
  bool gated = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GLU, 0) != ACCEL_PLUGIN_GLU_NONE;
  if (accel__attr_int(c, ACCEL_PLUGIN_ATTR_GLU, 0) == ACCEL_PLUGIN_GLU_SEPARATE)
    return accel__wrong(c, "moe does not take glu=separate: w_gate_up holds gate and up together");
  accel__dim experts = up->dim[0], inner = down->dim[2];
  if (!accel__dims_equal(c->p, idx->dim[0], x->dim[0]) || !expect_2(c, 2, idx->dim[0], idx->dim[1]))
    return accel__wrong(c, "idx and wt should be [T,k]");
  accel__dim wide[3] = {experts, gated ? times(c, inner, 2) : inner, x->dim[1]},
             narrow[3] = {experts, x->dim[1], inner};
  if (!accel__expect_dims(c, 3, 3, wide) || !accel__expect_dims(c, 4, 3, narrow)) return false;
  return expect_2(c, 5, experts, wide[1]) && expect_2(c, 6, experts, x->dim[1]) &&
         result_like(c, x);
}

bool accel__shape_SELECTIVE_SCAN(accel__infer *c) {
  const accel_plugin_tensor *x = accel__operand_at(c, 0), *dt = accel__operand_at(c, 1),
                            *a = accel__operand_at(c, 2), *b = accel__operand_at(c, 3);
  int64_t version = accel__attr_int(c, ACCEL_PLUGIN_ATTR_VERSION, 1),
          space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_SPACE, -1);
  int64_t columns, heads, groups = accel__attr_int(c, ACCEL_PLUGIN_ATTR_GROUPS, 1), n;
  if (version != 1 && version != 2)
    return accel__wrong(c, "version %lld is unknown", (long long)version);
  if (!accel__expect_rank(c, 0, 2) || !accel__expect_rank(c, 1, 2) || !accel__expect_rank(c, 3, 2))
    return false;
  if (!expect_space(c, ACCEL_PLUGIN_ATTR_SPACE, space)) return false;
  accel__dim rows = x->dim[0], d = x->dim[1], h = dt->dim[1];
  if (!accel__dims_equal(c->p, rows, space_rows(c, space)))
    return accel__wrong(c, "dim 0 of x is not the row count of its space");
  if (version == 1) {
    if (!expect_2(c, 1, rows, d) || !accel__expect_rank(c, 2, 2) || !expect_2(c, 2, d, a->dim[1]) ||
        !expect_2(c, 3, rows, a->dim[1]))
      return false;
    h = d;
  } else {
    if (!constant_dim(c, 0, d, &columns) || !constant_dim(c, 1, h, &heads) ||
        !constant_dim(c, 3, b->dim[1], &n))
      return false;
    if (heads < 1 || columns % heads != 0 || groups < 1 || heads % groups != 0 || n % groups != 0)
      return accel__wrong(c, "heads and groups do not divide the columns");
    if (!expect_2(c, 1, rows, h) || !expect_1(c, 2, h) || !expect_2(c, 3, rows, b->dim[1]))
      return false;
  }
  if (!expect_2(c, 4, rows, b->dim[1]) || !expect_1(c, 5, h) || !expect_2(c, 6, rows, d) ||
      !expect_1(c, 7, h))
    return false;
  return result_like(c, x);
}

bool accel__shape_GATED_DELTA_RULE(accel__infer *c) {
  const accel_plugin_tensor *q = accel__operand_at(c, 0), *v = accel__operand_at(c, 2),
                            *g = accel__operand_at(c, 3);
  const int64_t heads = accel__attr_int(c, ACCEL_PLUGIN_ATTR_HEADS, 0),
                space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_SPACE, -1);
  int64_t k_cols, v_cols, v_heads;
  for (uint32_t i = 0; i < 5; i++)
    if (!accel__expect_rank(c, i, 2)) return false;
  if (!expect_space(c, ACCEL_PLUGIN_ATTR_SPACE, space)) return false;
  const accel__dim rows = q->dim[0];
  if (!accel__dims_equal(c->p, rows, space_rows(c, space)))
    return accel__wrong(c, "dim 0 of q is not the row count of its space");
  if (!constant_dim(c, 0, q->dim[1], &k_cols) || !constant_dim(c, 2, v->dim[1], &v_cols) ||
      !constant_dim(c, 3, g->dim[1], &v_heads))
    return false;
  if (heads < 1 || k_cols < 1 || v_cols < 1 || v_heads < 1 || k_cols % heads != 0 ||
      v_heads % heads != 0 || v_cols % v_heads != 0)
    return accel__wrong(c,
                        "%lld heads do not divide q's %lld columns and g's %lld, or g's v's %lld",
                        (long long)heads, (long long)k_cols, (long long)v_heads, (long long)v_cols);
  if (!expect_2(c, 1, rows, q->dim[1]) || !expect_2(c, 2, rows, v->dim[1]) ||
      !expect_2(c, 3, rows, g->dim[1]) || !expect_2(c, 4, rows, g->dim[1]))
    return false;
  accel__result(c, 0, v->dtype, 2, v->dim, v->space);
  return true;
}

bool accel__shape_LOW_RANK(accel__infer *c) {
  const accel_plugin_tensor *y = accel__operand_at(c, 0), *x = accel__operand_at(c, 1);
  const int64_t space = accel__attr_int(c, ACCEL_PLUGIN_ATTR_SPACE, -1);
  if (accel__attr_int(c, ACCEL_PLUGIN_ATTR_SLOT, -1) < 0)
    return accel__wrong(c, "slot is missing or negative");
  if (x->rank != y->rank || x->rank < 2)
    return accel__wrong(c, "y and x need the same number of dims, two at least");
  for (uint32_t d = 0; d + 1 < x->rank; d++)
    if (!accel__dims_equal(c->p, x->dim[d], y->dim[d]))
      return accel__wrong(c, "y and x have other rows");
  if (space < 0) return result_like(c, y);
  if (!expect_space(c, ACCEL_PLUGIN_ATTR_SPACE, space)) return false;
  if (!accel__dims_equal(c->p, x->dim[0], space_rows(c, space)))
    return accel__wrong(c, "dim 0 of x is not the row count of its space");
  return result_like(c, y);
}

bool accel__shape_ALLREDUCE(accel__infer *c) { return result_like(c, accel__operand_at(c, 0)); }
