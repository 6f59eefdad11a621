/* kit_graph_shape.c - reshape, transpose, slice, broadcast, concat, pad, rope. */
#include <math.h>
#include <stdlib.h>

#include "kit/kit_lower.h"

void lower_RESHAPE(lower *l) {
  const accel_plugin_tensor *out = &l->p->tensor[l->n->out[0]];
  lower_out(l, 0, lower_reshape_dims(l, lower_in(l, 0), out->dim, out->rank));
}

void lower_TRANSPOSE(lower *l) {
  const int64_t *perm;
  const uint32_t n = kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_PERM, &perm);
  lower_out(l, 0, lower_transpose(l, lower_in(l, 0), perm, n));
}

/* A slice's start or end, int64 [1]. */
static int32_t slice_at(lower *l, uint32_t key, int64_t absent) {
  const int64_t *v;
  if (!kit_attr_iv(l->n, key, &v)) return lower_i64s(l, &absent, 1);
  return lower_size(l, (int32_t)v[0]);
}

void lower_SLICE(lower *l) {
  const int64_t axis = kit_axis(l->n, 0, lower_tensor(l, 0)->rank),
                step = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_STEP, 1);
  lower_out(l, 0,
            lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_SLICE},
                       (const int32_t[]){lower_in(l, 0), slice_at(l, ACCEL_PLUGIN_ATTR_START, 0),
                                         slice_at(l, ACCEL_PLUGIN_ATTR_END, INT64_MAX),
                                         lower_i64s(l, &step, 1), lower_i64s(l, &axis, 1)},
                       5));
}

void lower_BROADCAST(lower *l) {
  const accel_plugin_tensor *out = &l->p->tensor[l->n->out[0]];
  int32_t size[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < out->rank; i++) size[i] = lower_size(l, out->dim[i]);
  lower_out(l, 0,
            lower_op2(l, KIT_GRAPH_BROADCAST, lower_in(l, 0), lower_concat(l, size, out->rank, 0)));
}

void lower_CONCAT(lower *l) {
  const int64_t axis = kit_axis(l->n, 0, l->p->tensor[l->n->out[0]].rank);
  int32_t *in = malloc((l->n->n_in + 1u) * sizeof *in);
  uint32_t n = 0;
  if (!in) {
    l->rc = kit_no_memory(l->error, l->n->n_in * sizeof *in);
    return;
  }
  for (uint32_t i = 0; i < l->n->n_in; i++)
    if (l->n->in[i] >= 0) in[n++] = lower_in(l, i);
  lower_out(l, 0, lower_concat(l, in, n, axis));
  free(in);
}

void lower_PAD(lower *l) {
  const accel_plugin_tensor *x = lower_tensor(l, 0);
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_PAD_CONSTANT);
  const double value = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_VALUE, 0.0);
  int64_t begin[ACCEL_PLUGIN_MAX_RANK], end[ACCEL_PLUGIN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    begin[i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, i, 0);
    end[i] = kit_listed(l->n, ACCEL_PLUGIN_ATTR_PADS, i + x->rank, 0);
  }
  const int32_t fill =
      x->dtype == ACCEL_PLUGIN_I32 ? lower_i32(l, (int32_t)value) : lower_f32(l, value);
  lower_out(l, 0,
            lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_PAD, .i = {kind}, .n_i = 1},
                       (const int32_t[]){lower_in(l, 0), lower_i64s(l, begin, x->rank),
                                         lower_i64s(l, end, x->rank), fill},
                       4));
}

/* ---- rope ---- */

/* Frequencies, [pairs] or [T, pairs]. */
static int32_t frequencies(lower *l, int64_t pairs) {
  const int32_t given = lower_in(l, 2);
  if (given >= 0) return given;
  const double theta = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_THETA, 10000.0);
  float *f = malloc(((size_t)pairs + 1) * sizeof *f);
  if (!f) return l->rc = kit_no_memory(l->error, (uint64_t)pairs * 4), 0;
  for (int64_t i = 0; i < pairs; i++) f[i] = (float)pow(theta, -(double)i / (double)pairs);
  const int32_t node =
      lower_constant(l, ACCEL_PLUGIN_F32, 1, &pairs, f, (uint64_t)pairs * 4, false);
  free(f);
  return node;
}

/* The row of positions [rows, T] that each frequency takes its own from, [pairs], to be freed; NULL:
 * no memory. */
static int32_t *section_rows(lower *l, int64_t pairs) {
  const int64_t *section, rows = lower_dim(l, lower_tensor(l, 1), 0);
  const uint32_t n = kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_SECTIONS, &section);
  int32_t *row = malloc(((size_t)pairs + 1) * sizeof *row);
  if (!row) {
    if (!l->rc) l->rc = kit_no_memory(l->error, (uint64_t)pairs * 4);
    return NULL;
  }
  int64_t at = 0, end = n ? section[0] : 0;
  for (int64_t i = 0; i < pairs; i++) {
    while (at + 1 < (int64_t)n && i >= end) end += section[++at];
    row[i] = (int32_t)(rows > 0 ? at % rows : at);
  }
  return row;
}

/* Positions [T, 1], or [T, pairs] where frequencies take them from different rows. */
static int32_t positions(lower *l, int64_t pairs) {
  const int32_t pos = lower_convert(l, lower_in(l, 1), ACCEL_PLUGIN_F32);
  if (lower_tensor(l, 1)->rank < 2) return RESHAPE(l, pos, -1, 1);
  int32_t *row = section_rows(l, pairs);
  if (!row) return 0;
  const int32_t which =
      lower_constant(l, ACCEL_PLUGIN_I32, 1, &pairs, row, (uint64_t)pairs * 4, false);
  free(row);
  return TRANSPOSE(l, lower_axis2(l, KIT_GRAPH_GATHER, pos, which, 0), 1, 0);
}

/* ---- rope by tables ----
 *
 * An NPU has positions, and their products with frequencies, in halves: whole up to 2,048, and
 * angles wrong by 2^-12 of themselves.  There a position is an int32 high * BLOCK + low, and its
 * cosine and sine come from those of the two, which are tables. */

enum { BLOCK = 512, HALF_WHOLE = 2048 };

typedef struct turn {
  int32_t c, s; /* cosine and sine */
} turn;

/* [BLOCK, pairs]: scale times the cosines, or sines, of 0, step, 2 step .. times the frequencies. */
static int32_t wave_table(lower *l, const float *frequency, int64_t pairs, int64_t step,
                          double scale, double (*wave)(double)) {
  const int64_t dim[] = {BLOCK, pairs}, n = BLOCK * pairs;
  float *v = malloc((size_t)n * sizeof *v + 1);
  if (!v) {
    if (!l->rc) l->rc = kit_no_memory(l->error, (uint64_t)n * sizeof *v);
    return 0;
  }
  for (int64_t i = 0; i < BLOCK; i++)
    for (int64_t k = 0; k < pairs; k++)
      v[i * pairs + k] = (float)(scale * wave((double)(i * step) * frequency[k]));
  const int32_t node =
      lower_constant(l, ACCEL_PLUGIN_F32, 2, dim, v, (uint64_t)n * sizeof *v, false);
  free(v);
  return node;
}

/* x [rows, T, pairs] of all rows of positions as [T, pairs]: each frequency's of its own row. */
static int32_t by_section(lower *l, int32_t x, int64_t pairs) {
  const int64_t dim[] = {lower_dim(l, lower_tensor(l, 1), 0), 1, pairs}, n = dim[0] * pairs;
  int32_t *row = section_rows(l, pairs);
  float *own = calloc((size_t)n + 1, sizeof *own);
  if (row && own) {
    for (int64_t i = 0; i < pairs; i++) own[row[i] * pairs + i] = 1;
    x = MUL(l, x, lower_constant(l, ACCEL_PLUGIN_F32, 3, dim, own, (uint64_t)n * 4, false));
    x = lower_reduce(l, KIT_GRAPH_REDUCE_SUM, x, 0, false);
  } else if (!l->rc) {
    l->rc = kit_no_memory(l->error, (uint64_t)n * 4);
  }
  free(row);
  free(own);
  return x;
}

/* Cosines and sines of 0, BLOCK, 2 BLOCK .., then scale times those of 0, 1, 2 .. */
static const int32_t *wave_tables(lower *l, int32_t frequency, int64_t pairs, double scale) {
  for (uint32_t i = 0; i < l->n_waves && i < LOWER_WAVES; i++)
    if (l->waves[i].frequency == frequency && l->waves[i].scale == scale) return l->waves[i].table;
  lower_waves *w = &l->waves[l->n_waves++ % LOWER_WAVES];
  const float *f = l->g->node[frequency].data;
  *w = (lower_waves){.frequency = frequency, .scale = scale};
  for (int i = 0; i < 4; i++)
    w->table[i] =
        wave_table(l, f, pairs, i < 2 ? BLOCK : 1, i < 2 ? 1.0 : scale, i % 2 ? sin : cos);
  return w->table;
}

static turn turn_by_tables(lower *l, int32_t frequency, int64_t pairs, double scale) {
  const int32_t *table = wave_tables(l, frequency, pairs, scale);
  const int32_t at = lower_in(l, 1), block = lower_i32(l, BLOCK), high = DIV(l, at, block),
                low = SUB(l, at, MUL(l, high, block));
  int32_t part[4];
  for (int i = 0; i < 4; i++)
    part[i] = lower_axis2(l, KIT_GRAPH_GATHER, table[i], i < 2 ? high : low, 0);
  turn t = {.c = SUB(l, MUL(l, part[0], part[2]), MUL(l, part[1], part[3])),
            .s = ADD(l, MUL(l, part[1], part[2]), MUL(l, part[0], part[3]))};
  if (lower_tensor(l, 1)->rank < 2) return t;
  return (turn){.c = by_section(l, t.c, pairs), .s = by_section(l, t.s, pairs)};
}

/* Cosines and sines times `scale`, [T, pairs]. */
static turn turn_of(lower *l, int64_t pairs, double scale) {
  const int32_t f = frequencies(l, pairs);
  const kit_graph_node *known = l->rc ? NULL : &l->g->node[f];
  const bool constant = known && known->op == KIT_GRAPH_CONSTANT && known->rank == 1 &&
                        known->dtype == ACCEL_PLUGIN_F32;
  if (l->r->run && lower_tensor(l, 1)->dtype == ACCEL_PLUGIN_I32 &&
      lower_check(l, 1, constant ? BLOCK * BLOCK : HALF_WHOLE + 1) && constant)
    return turn_by_tables(l, f, pairs, scale);
  const int32_t angle = MUL(l, positions(l, pairs), f);
  turn t = {lower_op1(l, KIT_GRAPH_COS, angle), lower_op1(l, KIT_GRAPH_SIN, angle)};
  if (scale != 1.0) t.c = MUL(l, t.c, lower_f32(l, scale)), t.s = MUL(l, t.s, lower_f32(l, scale));
  return t;
}

void lower_ROPE(lower *l) {
  const accel_plugin_tensor *x_tensor = lower_tensor(l, 0);
  const int64_t cols = lower_dim(l, x_tensor, x_tensor->rank - 1u),
                head = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_HEAD_DIM, cols),
                rot = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ROT_DIMS, head), pairs = rot / 2;
  const bool half = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_ROPE_STYLE, ACCEL_PLUGIN_ROPE_HALF) ==
                    ACCEL_PLUGIN_ROPE_HALF;
  const turn t = turn_of(l, pairs, kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_MSCALE, 1.0));
  int32_t c = t.c, s = t.s;
  int32_t x = RESHAPE(l, lower_in(l, 0), -1, cols / head, head), part[3], n = 0, a, b;
  if (half) {
    a = lower_slice(l, x, 2, 0, pairs);
    b = lower_slice(l, x, 2, pairs, rot);
    c = UNSQUEEZE(l, c, 1), s = UNSQUEEZE(l, s, 1);
  } else {
    const int32_t turned = rot < head ? lower_slice(l, x, 2, 0, rot) : x;
    const int32_t pair = RESHAPE(l, turned, 0, 0, pairs, 2);
    a = lower_slice(l, pair, 3, 0, 1);
    b = lower_slice(l, pair, 3, 1, 2);
    c = UNSQUEEZE(l, c, 1, 3), s = UNSQUEEZE(l, s, 1, 3);
  }
  part[n++] = SUB(l, MUL(l, a, c), MUL(l, b, s));
  part[n++] = ADD(l, MUL(l, b, c), MUL(l, a, s));
  if (!half) {
    part[0] = RESHAPE(l, lower_concat(l, part, 2, 3), 0, 0, rot);
    n = 1;
  }
  if (rot < head) part[n++] = lower_slice(l, x, 2, rot, head);
  lower_out(
      l, 0,
      lower_reshape_dims(l, lower_concat(l, part, (uint32_t)n, 2), x_tensor->dim, x_tensor->rank));
}
