/* kit_graph_attention.c - attention: heads, keys of the past and of this run, masks, biases.
 *
 * Scores are [items, heads, queries, keys]; with fewer key heads than query heads
 * [items, key heads, group, queries, keys], so that keys are not copied for each query head.
 */
#include <math.h>
#include <stdlib.h>

#include "kit/kit_lower.h"

enum { Q, K, V, BIAS, Q_POS, KV_POS, MASK, SINKS, REL_K, REL_Q };
enum { MOST_DISTANCE = 1 << 16 };

typedef struct attention {
  int64_t heads, kv_heads, group, dk, dv, left, right;
  int32_t q_space, kv_space, state; /* state: the root's index, -1 none */
  bool causal;
  lower_rows keys;
  int32_t q, q_position; /* scaled [items, (key) heads.., queries, dk]; [items or 1, queries] */
} attention;

static int32_t feed2(lower *l, kit_feed_kind kind, int32_t index, int64_t a, int64_t b) {
  return lower_feed(l, kind, index, ACCEL_PLUGIN_I32, 2, (const int64_t[]){a, b});
}

/* ---- states with the same history ---- */

static int32_t root_of(const accel_plugin_program *p, int32_t state) {
  return p->state[state].share >= 0 ? p->state[state].share : state;
}

/* Whether node `n` appends rows to state `root`. */
static bool appends(const accel_plugin_program *p, const accel_plugin_node *n, int32_t root) {
  return n->op == ACCEL_PLUGIN_OP_ATTENTION && n->state >= 0 && root_of(p, n->state) == root &&
         kit_operand(n, K) >= 0 && !kit_attr_i(n, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
}

static const accel_plugin_node *appender(const accel_plugin_program *p, const accel_plugin_entry *e,
                                         int32_t root) {
  for (uint32_t i = 0; i < e->n_node; i++)
    if (appends(p, &p->node[e->node[i]], root)) return &p->node[e->node[i]];
  return NULL;
}

/* The first state whose rows are appended by the same entries at the same positions: lengths and
 * positions of the past, and so masks, are the same for all such. */
static int32_t leader_of(const accel_plugin_program *p, int32_t root) {
  for (int32_t s = 0; s < root; s++) {
    bool same = p->state[s].share < 0 && p->state[s].kind == p->state[root].kind;
    for (uint32_t i = 0; same && i < p->n_entry; i++) {
      const accel_plugin_node *a = appender(p, &p->entry[i], s),
                              *b = appender(p, &p->entry[i], root);
      same = (!a && !b) || (a && b && kit_operand(a, KV_POS) == kit_operand(b, KV_POS) &&
                            kit_attr_i(a, ACCEL_PLUGIN_ATTR_KV_SPACE, -1) ==
                                kit_attr_i(b, ACCEL_PLUGIN_ATTR_KV_SPACE, -1) &&
                            kit_attr_i(a, ACCEL_PLUGIN_ATTR_Q_SPACE, -1) ==
                                kit_attr_i(b, ACCEL_PLUGIN_ATTR_Q_SPACE, -1));
    }
    if (same) return s;
  }
  return root;
}

/* ---- keys and queries ---- */

/* Rows [T, heads*dim] as [items, heads, rows, dim]. */
static int32_t by_heads(lower *l, int32_t x, int32_t space, int64_t heads, int64_t dim) {
  x = RESHAPE(l, lower_padded(l, x, space, heads * dim), 0, 0, heads, dim);
  return TRANSPOSE(l, x, 0, 2, 1, 3);
}

/* int32 positions [items, rows] of an operand; absent: the row's number, behind the past. */
static int32_t position_of(lower *l, const attention *a, uint32_t operand, uint32_t rows,
                           int32_t space) {
  const int32_t given = lower_in(l, operand);
  if (given >= 0) return lower_padded(l, given, space, 0);
  const int32_t row = lower_row(l, space, lower_tensor(l, rows));
  if (a->state < 0) return row;
  return ADD(l, feed2(l, KIT_FEED_PAST_LENGTH, leader_of(l->p, a->state), -1, 1), row);
}

/* Keys that this node brings along. */
static lower_rows new_rows(lower *l, const attention *a) {
  lower_rows rows = {.k = by_heads(l, lower_in(l, K), a->kv_space, a->kv_heads, a->dk),
                     .v = by_heads(l, lower_in(l, V), a->kv_space, a->kv_heads, a->dv),
                     .position = position_of(l, a, KV_POS, K, a->kv_space),
                     .valid = lower_valid(l, a->kv_space),
                     .space = a->kv_space};
  int32_t mask = lower_in(l, MASK);
  if (mask < 0) return rows;
  mask = lower_op2(l, KIT_GRAPH_NOT_EQUAL, lower_padded(l, mask, a->kv_space, 0), lower_i32(l, 0));
  rows.valid = rows.valid < 0 ? mask : lower_op2(l, KIT_GRAPH_AND, rows.valid, mask);
  return rows;
}

static lower_rows past_rows(lower *l, const attention *a) {
  const accel_plugin_state *s = &l->p->state[a->state];
  const int32_t leader = leader_of(l->p, a->state);
  const int64_t k[] = {-1, s->heads, -1, s->k_dim}, v[] = {-1, s->heads, -1, s->v_dim};
  return (lower_rows){
      .k = lower_feed(l, KIT_FEED_PAST_K, a->state, ACCEL_PLUGIN_F32, 4, k),
      .v = lower_feed(l, KIT_FEED_PAST_V, a->state, ACCEL_PLUGIN_F32, 4, v),
      .position = feed2(l, KIT_FEED_PAST_POSITION, leader, -1, -1),
      .valid = lower_op2(l, KIT_GRAPH_LESS, feed2(l, KIT_FEED_PAST_ROW, leader, 1, -1),
                         feed2(l, KIT_FEED_PAST_LENGTH, leader, -1, 1)),
      .space = -1};
}

/* bool [items, rows], also where all rows are real. */
static int32_t valid_of(lower *l, const lower_rows *rows) {
  if (rows->valid >= 0) return rows->valid;
  return lower_op2(l, KIT_GRAPH_EQUAL, rows->position, rows->position);
}

static lower_rows joined(lower *l, const lower_rows *a, const lower_rows *b) {
  return (lower_rows){
      .k = lower_concat(l, (const int32_t[]){a->k, b->k}, 2, 2),
      .v = lower_concat(l, (const int32_t[]){a->v, b->v}, 2, 2),
      .position = lower_concat(l, (const int32_t[]){a->position, b->position}, 2, 1),
      .valid = lower_concat(l, (const int32_t[]){valid_of(l, a), valid_of(l, b)}, 2, 1),
      .space = b->space};
}

/* The node's keys: of the past, those appended earlier in this run, its own. */
static void find_keys(lower *l, attention *a) {
  const bool given = lower_tensor(l, K) != NULL,
             append = given && !kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
  if (a->state < 0) {
    a->keys = new_rows(l, a);
    return;
  }
  lower_rows *earlier = &l->appended[a->state];
  if (append) {
    const accel_plugin_tensor *pos = lower_tensor(l, KV_POS);
    if (pos && pos->kind != ACCEL_PLUGIN_TENSOR_INPUT)
      lower_fail(l, "positions of its keys are computed");
    if (earlier->k >= 0) lower_fail(l, "its state is appended to twice in one run");
    *earlier = new_rows(l, a);
    lower_result(l, KIT_RESULT_ROWS_K, (int32_t)l->index, lower_in(l, K));
    lower_result(l, KIT_RESULT_ROWS_V, (int32_t)l->index, lower_in(l, V));
  }
  a->keys = past_rows(l, a);
  if (earlier->k >= 0) a->keys = joined(l, &a->keys, earlier);
}

/* Keys as scores need them: [items, key heads, 1, keys, dim] where heads are grouped. */
static int32_t ungrouped(lower *l, const attention *a, int32_t x) {
  return a->group > 1 ? UNSQUEEZE(l, x, 2) : x;
}

static void find_queries(lower *l, attention *a) {
  const double scale = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_SCALE, 1.0 / sqrt((double)a->dk));
  int32_t x = lower_in(l, Q);
  if (scale != 1.0) x = MUL(l, x, lower_f32(l, scale));
  x = lower_padded(l, x, a->q_space, a->heads * a->dk);
  if (a->group > 1)
    a->q = TRANSPOSE(l, RESHAPE(l, x, 0, 0, a->kv_heads, a->group, a->dk), 0, 2, 3, 1, 4);
  else
    a->q = TRANSPOSE(l, RESHAPE(l, x, 0, 0, a->heads, a->dk), 0, 2, 1, 3);
  a->q_position = position_of(l, a, Q_POS, Q, a->q_space);
}

/* ---- masks ---- */

/* [items, queries, keys] as [items, 1, (1,) queries, keys] */
static int32_t over_heads(lower *l, const attention *a, int32_t x) {
  return a->group > 1 ? UNSQUEEZE(l, x, 1, 2) : UNSQUEEZE(l, x, 1);
}

/* Key position - query position, [items, queries, keys]. */
static int32_t ahead(lower *l, const attention *a) {
  return SUB(l, UNSQUEEZE(l, a->keys.position, 1), UNSQUEEZE(l, a->q_position, 2));
}

static int32_t both(lower *l, int32_t a, int32_t b) {
  return a < 0 ? b : lower_op2(l, KIT_GRAPH_AND, a, b);
}

/* bool [items, queries, keys]; -1: all are seen. */
static int32_t visible(lower *l, const attention *a) {
  int32_t seen = a->keys.valid < 0 ? -1 : UNSQUEEZE(l, a->keys.valid, 1);
  if (a->causal)
    seen = both(l, seen, lower_op2(l, KIT_GRAPH_LESS_EQUAL, ahead(l, a), lower_i32(l, 0)));
  if (a->left >= 0)
    seen = both(l, seen,
                lower_op2(l, KIT_GRAPH_LESS_EQUAL, lower_i32(l, (int32_t)-a->left), ahead(l, a)));
  if (a->right >= 0)
    seen = both(l, seen,
                lower_op2(l, KIT_GRAPH_LESS_EQUAL, ahead(l, a), lower_i32(l, (int32_t)a->right)));
  return seen;
}

/* Whether every query sees a key whatever the input: its own row. */
static bool sees_itself(const lower *l, const attention *a) {
  if (lower_tensor(l, MASK) || kit_operand(l->n, Q_POS) != kit_operand(l->n, KV_POS)) return false;
  return lower_tensor(l, K) && a->q_space == a->kv_space &&
         !kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
}

/* ---- biases ---- */

/* [.., queries, keys, heads] as [.., heads, queries, keys], heads in groups. */
static int32_t heads_first(lower *l, const attention *a, int32_t x) {
  if (a->group == 1) return TRANSPOSE(l, x, 0, 3, 1, 2);
  return TRANSPOSE(l, RESHAPE(l, x, 0, 0, 0, a->kv_heads, a->group), 0, 3, 4, 1, 2);
}

/* A number for each head, [heads], as [heads, 1, 1]. */
static int32_t per_head(lower *l, const attention *a, int32_t x) {
  return a->group > 1 ? RESHAPE(l, x, a->kv_heads, a->group, 1, 1) : RESHAPE(l, x, a->heads, 1, 1);
}

/* table[distance + most] for distances [items, queries, keys], clamped. */
static int32_t looked_up(lower *l, int32_t distance, const int32_t *table, int64_t most) {
  const int64_t n = 2 * most + 1;
  const int32_t values = lower_constant(l, ACCEL_PLUGIN_I32, 1, &n, table, (uint64_t)n * 4, false);
  int32_t at = lower_op2(l, KIT_GRAPH_MAXIMUM, distance, lower_i32(l, (int32_t)-most));
  at = lower_op2(l, KIT_GRAPH_MINIMUM, at, lower_i32(l, (int32_t)most));
  return lower_axis2(l, KIT_GRAPH_GATHER, values, ADD(l, at, lower_i32(l, (int32_t)most)), 0);
}

static int32_t t5_bias(lower *l, const attention *a, bool both_ways) {
  const int32_t buckets = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32),
                most = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  const int64_t reach = most > buckets ? most : buckets; /* no bucket changes beyond */
  if (reach > MOST_DISTANCE) return lower_fail(l, "a distance of %lld", (long long)reach);
  int32_t *table = malloc((size_t)(2 * reach + 1) * sizeof *table);
  if (!table) return l->rc = kit_no_memory(l->error, (uint64_t)reach * 8), 0;
  for (int64_t i = -reach; i <= reach; i++)
    table[i + reach] = kit_t5_bucket(i, both_ways, buckets, most);
  const int32_t bucket = looked_up(l, ahead(l, a), table, reach);
  free(table);
  return heads_first(l, a, lower_axis2(l, KIT_GRAPH_GATHER, lower_in(l, BIAS), bucket, 0));
}

/* Rows of rel_k and rel_q for each pair, [items, 1, queries, keys]. */
static int32_t deberta_rows(lower *l, const attention *a, int32_t span) {
  const int32_t buckets = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0),
                most = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  int64_t reach = span;
  while (reach < MOST_DISTANCE && (kit_deberta_row(reach, span, buckets, most) != 2 * span - 1 ||
                                   kit_deberta_row(-reach, span, buckets, most)))
    reach *= 2;
  int32_t *table = malloc((size_t)(2 * reach + 1) * sizeof *table);
  if (!table) return l->rc = kit_no_memory(l->error, (uint64_t)reach * 8), 0;
  for (int64_t i = -reach; i <= reach; i++) /* of query - key */
    table[reach - i] = kit_deberta_row(i, span, buckets, most);
  const int32_t rows = looked_up(l, ahead(l, a), table, reach);
  free(table);
  return UNSQUEEZE(l, rows, 1);
}

static int32_t disentangled(lower *l, const attention *a) {
  const int32_t span = (int32_t)kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_REL_SPAN, 0),
                zero = lower_i32(l, 0);
  const double scale = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_SCALE, 1.0 / sqrt((double)a->dk));
  const int32_t rel_k = lower_in(l, REL_K), rel_q = lower_in(l, REL_Q);
  const int64_t one = 1, heads[] = {a->heads, 1, 1};
  if (a->group > 1) return lower_fail(l, "disentangled scores with grouped key heads");
  /* the same for all items and heads */
  const int32_t items =
      a->q_space >= 0 ? lower_size(l, l->p->space[a->q_space].items) : lower_i64s(l, &one, 1);
  const int32_t shape[] = {items, lower_i64s(l, heads, 3)};
  const int32_t row = ADD(l, deberta_rows(l, a, span),
                          lower_op2(l, KIT_GRAPH_BROADCAST, zero, lower_concat(l, shape, 2, 0)));
  int32_t sum = -1;
  if (rel_k >= 0) {
    const int32_t r = TRANSPOSE(l, RESHAPE(l, rel_k, -1, a->heads, a->dk), 1, 0, 2);
    sum = lower_axis2(l, KIT_GRAPH_GATHER_ELEMENTS, lower_matmul(l, a->q, r, true), row, 3);
  }
  if (rel_q >= 0) {
    const int32_t r = TRANSPOSE(l, RESHAPE(l, rel_q, -1, a->heads, a->dk), 1, 0, 2);
    const int32_t k = MUL(l, a->keys.k, lower_f32(l, scale));
    int32_t y = lower_axis2(l, KIT_GRAPH_GATHER_ELEMENTS, lower_matmul(l, k, r, true),
                            TRANSPOSE(l, row, 0, 1, 3, 2), 3);
    y = TRANSPOSE(l, y, 0, 1, 3, 2);
    sum = sum < 0 ? y : ADD(l, sum, y);
  }
  return sum;
}

/* bias[P, H, queries, keys], cut to what the items have. */
static int32_t dense_bias(lower *l, const attention *a) {
  const accel_plugin_tensor *t = lower_tensor(l, BIAS);
  const int64_t period = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_BIAS_PERIOD, lower_dim(l, t, 0)),
                zero = 0, one = 1;
  int32_t b = lower_in(l, BIAS);
  for (uint32_t axis = 2; axis < 4; axis++) {
    const int32_t space = axis == 2 ? a->q_space : a->kv_space;
    const int64_t at = axis;
    if (space < 0 || lower_dim(l, t, axis) == 1 || !lower_ragged(l, space)) continue;
    b = lower_node(l, &(kit_graph_node){.op = KIT_GRAPH_SLICE},
                   (const int32_t[]){b, lower_i64s(l, &zero, 1), lower_longest(l, space),
                                     lower_i64s(l, &one, 1), lower_i64s(l, &at, 1)},
                   5);
  }
  if (lower_dim(l, t, 0) != 1 && period != 1) {
    /* as many as the bias has items, which may be open */
    const int32_t after = period > 0 ? lower_i32(l, (int32_t)period)
                                     : lower_convert(l, lower_size(l, t->dim[0]), ACCEL_PLUGIN_I32);
    const int32_t item = lower_item(l, a->q_space), times = DIV(l, item, after);
    b = lower_axis2(l, KIT_GRAPH_GATHER, b, SUB(l, item, MUL(l, times, after)), 0);
  } else if (lower_dim(l, t, 0) != 1) {
    b = lower_slice(l, b, 0, 0, 1);
  }
  if (a->group == 1) return b;
  if (lower_dim(l, t, 1) == 1) return UNSQUEEZE(l, b, 1);
  return heads_first(l, a, TRANSPOSE(l, b, 0, 2, 3, 1));
}

/* What is added to the scores; -1: nothing. */
static int32_t bias_of(lower *l, const attention *a) {
  const int64_t kind = kit_attr_i(l->n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  switch (kind) {
    case ACCEL_PLUGIN_BIAS_DENSE:
      return dense_bias(l, a);
    case ACCEL_PLUGIN_BIAS_ALIBI:
      return MUL(l, over_heads(l, a, lower_convert(l, ahead(l, a), ACCEL_PLUGIN_F32)),
                 per_head(l, a, lower_in(l, BIAS)));
    case ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL:
    case ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL:
      return t5_bias(l, a, kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL);
    case ACCEL_PLUGIN_BIAS_DISENTANGLED:
      return disentangled(l, a);
    default:
      return -1;
  }
}

/* ---- the node ---- */

/* softmax over the keys; a sink takes its share and is no key. */
static int32_t shares(lower *l, const attention *a, int32_t scores) {
  const int32_t sinks = lower_in(l, SINKS);
  if (sinks < 0) return lower_axis1(l, KIT_GRAPH_SOFTMAX, scores, -1);
  const int32_t sink = per_head(l, a, sinks);
  const int32_t most = lower_op2(l, KIT_GRAPH_MAXIMUM,
                                 lower_reduce(l, KIT_GRAPH_REDUCE_MAX, scores, -1, true), sink);
  const int32_t e = lower_op1(l, KIT_GRAPH_EXP, SUB(l, scores, most)),
                own = lower_op1(l, KIT_GRAPH_EXP, SUB(l, sink, most));
  return DIV(l, e, ADD(l, lower_reduce(l, KIT_GRAPH_REDUCE_SUM, e, -1, true), own));
}

static int32_t probabilities(lower *l, const attention *a) {
  const double cap = kit_attr_f(l->n, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0);
  int32_t s = lower_matmul(l, a->q, ungrouped(l, a, a->keys.k), true);
  if (cap > 0) {
    s = lower_op1(l, KIT_GRAPH_TANH, DIV(l, s, lower_f32(l, cap)));
    s = MUL(l, s, lower_f32(l, cap));
  }
  const int32_t bias = bias_of(l, a), seen = visible(l, a);
  if (bias >= 0) s = ADD(l, s, bias);
  if (seen < 0) return shares(l, a, s);
  const int32_t hide = lower_op3(l, KIT_GRAPH_SELECT, over_heads(l, a, seen), lower_f32(l, 0),
                                 lower_f32(l, l->r->hidden));
  s = shares(l, a, ADD(l, s, hide));
  if (sees_itself(l, a)) return s;
  return MUL(l, s, over_heads(l, a, lower_convert(l, seen, ACCEL_PLUGIN_F32)));
}

/* Rows that this run has appended to the state, [items, 1]. */
static int32_t appended_rows(lower *l, const attention *a) {
  const lower_rows *rows = &l->appended[a->state];
  if (rows->k < 0) return lower_i32(l, 0);
  return lower_ragged(l, rows->space)
             ? feed2(l, KIT_FEED_LENGTH, rows->space, -1, 1)
             : lower_convert(l, lower_longest(l, rows->space), ACCEL_PLUGIN_I32);
}

/* p[items, heads, queries, keys] with an item's keys behind each other, in as many columns as the
 * second output has: those of this run lie behind the longest past. */
static int32_t closed_up(lower *l, const attention *a, int32_t p) {
  const accel_plugin_tensor *out = lower_out_tensor(l, 1);
  const int32_t leader = leader_of(l->p, a->state);
  const int32_t column = feed2(l, KIT_FEED_ROW, KIT_FEED_DIM - out->dim[2], 1, -1),
                past = feed2(l, KIT_FEED_PAST_LENGTH, leader, -1, 1),
                longest = lower_convert(l, lower_past(l, leader), ACCEL_PLUGIN_I32),
                added = appended_rows(l, a);
  const int32_t real = lower_op2(l, KIT_GRAPH_LESS, column, ADD(l, past, added)),
                from = lower_op3(l, KIT_GRAPH_SELECT, lower_op2(l, KIT_GRAPH_LESS, column, past),
                                 column, ADD(l, SUB(l, column, past), longest)),
                inside = lower_op3(l, KIT_GRAPH_SELECT, real, from, lower_i32(l, 0));
  const int32_t zeros = lower_convert(l, MUL(l, lower_slice(l, p, 3, 0, 1), lower_f32(l, 0)),
                                      ACCEL_PLUGIN_I32); /* [items, heads, queries, 1] */
  const int32_t y =
      lower_axis2(l, KIT_GRAPH_GATHER_ELEMENTS, p, ADD(l, UNSQUEEZE(l, inside, 1, 2), zeros), 3);
  return MUL(l, y, UNSQUEEZE(l, lower_convert(l, real, ACCEL_PLUGIN_F32), 1, 2));
}

/* p with zeros behind the longest item's keys, up to the columns of the second output. */
static int32_t extended(lower *l, const attention *a, int32_t p) {
  const int64_t zeros[] = {0, 0, 0, 0};
  if (a->kv_space < 0) return p;
  const int32_t columns = lower_size(l, lower_out_tensor(l, 1)->dim[2]);
  const int32_t ends[] = {lower_i64s(l, zeros, 3), SUB(l, columns, lower_longest(l, a->kv_space))};
  return lower_node(
      l, &(kit_graph_node){.op = KIT_GRAPH_PAD, .i = {ACCEL_PLUGIN_PAD_CONSTANT}, .n_i = 1},
      (const int32_t[]){p, lower_i64s(l, zeros, 4), lower_concat(l, ends, 2, 0), lower_f32(l, 0)},
      4);
}

/* The second output: listed heads of p, [listed, T, S], zeros behind an item's keys. */
static int32_t listed(lower *l, const attention *a, int32_t p) {
  const int64_t *head;
  const uint32_t n = kit_attr_iv(l->n, ACCEL_PLUGIN_ATTR_PROBS, &head);
  int32_t which[256];
  if (n > 256) return lower_fail(l, "probabilities of %u heads", n);
  for (uint32_t i = 0; i < n; i++) which[i] = (int32_t)head[i];
  if (a->group > 1)
    p = TRANSPOSE(l, RESHAPE(l, TRANSPOSE(l, p, 0, 3, 4, 1, 2), 0, 0, 0, a->heads), 0, 3, 1, 2);
  p = lower_axis2(
      l, KIT_GRAPH_GATHER, p,
      lower_constant(l, ACCEL_PLUGIN_I32, 1, (const int64_t[]){n}, which, (uint64_t)n * 4, false),
      1);
  p = a->state >= 0 ? closed_up(l, a, p) : extended(l, a, p);
  const int64_t rows[] = {n, -1};
  const int32_t shape[] = {lower_i64s(l, rows, 2), lower_size(l, lower_out_tensor(l, 1)->dim[2])};
  p = lower_op2(l, KIT_GRAPH_RESHAPE, TRANSPOSE(l, p, 1, 0, 2, 3), lower_concat(l, shape, 2, 0));
  if (!lower_ragged(l, a->q_space)) return p;
  return lower_axis2(
      l, KIT_GRAPH_GATHER, p,
      lower_feed(l, KIT_FEED_UNPAD, a->q_space, ACCEL_PLUGIN_I32, 1, (const int64_t[]){-1}), 1);
}

static bool read_attributes(lower *l, attention *a) {
  const accel_plugin_tensor *k = lower_tensor(l, K), *v = lower_tensor(l, V);
  const accel_plugin_node *n = l->n;
  a->state = n->state >= 0 ? root_of(l->p, n->state) : -1;
  a->heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1);
  a->kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, a->heads);
  a->left = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1);
  a->right = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1);
  a->causal = kit_attr_i(n, ACCEL_PLUGIN_ATTR_CAUSAL, 0) != 0;
  a->q_space = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_Q_SPACE, -1);
  a->kv_space = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_SPACE, a->q_space);
  if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || (!k && a->state < 0)) {
    lower_fail(l, "%lld heads over %lld key heads, or no keys", (long long)a->heads,
               (long long)a->kv_heads);
    return false;
  }
  a->group = a->heads / a->kv_heads;
  a->dk = k ? lower_dim(l, k, 1) / a->kv_heads : l->p->state[a->state].k_dim;
  a->dv = v ? lower_dim(l, v, 1) / a->kv_heads : l->p->state[a->state].v_dim;
  return true;
}

void lower_ATTENTION(lower *l) {
  attention a = {0};
  if (!read_attributes(l, &a)) return;
  find_keys(l, &a);
  if (!lower_tensor(l, Q)) return; /* append only */
  find_queries(l, &a);
  const int32_t p = probabilities(l, &a);
  int32_t y = lower_matmul(l, p, ungrouped(l, &a, a.keys.v), false);
  y = a.group > 1 ? TRANSPOSE(l, y, 0, 3, 1, 2, 4) : TRANSPOSE(l, y, 0, 2, 1, 3);
  y = RESHAPE(l, y, 0, 0, a.heads * a.dv);
  lower_out(l, 0, lower_packed(l, y, a.q_space, a.heads * a.dv));
  if (lower_out_tensor(l, 1)) lower_out(l, 1, listed(l, &a, p));
}
