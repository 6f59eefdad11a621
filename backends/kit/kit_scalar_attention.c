/* kit_scalar_attention.c - attention and rope. */
#include <stdlib.h>
#include <string.h>

#include "formats/bf16.h"
#include "formats/fp16.h"
#include "kit/kit_scalar.h"

enum { Q, K, V, BIAS, Q_POS, KV_POS, MASK, SINKS, REL_K, REL_Q };

typedef struct attention {
  const kit_launch *l;
  int64_t heads, kv_heads, dk, dv, left, right;
  int32_t bias_kind, buckets, max_distance, span, rel_buckets;
  bool causal;
  double scale, softcap;
  int64_t period;
  kit_rows q, kv;
  const int64_t *probs; /* listed heads */
  uint32_t n_probs;
} attention;

/* The keys of one item: from operands, or from the pages of its state. */
typedef struct keys {
  int32_t n, start; /* start: first row in k, v, kv_pos and mask; -1 with a state */
  kit_state_view state;
} keys;

static void widen(uint8_t dtype, const void *from, int64_t n, float *to) {
  if (dtype == ACCEL_PLUGIN_F32) memcpy(to, from, (size_t)n * 4);
  for (int64_t i = 0; dtype == ACCEL_PLUGIN_F16 && i < n; i++)
    to[i] = accel_fp16_to_f32(((const uint16_t *)from)[i]);
  for (int64_t i = 0; dtype == ACCEL_PLUGIN_BF16 && i < n; i++)
    to[i] = accel_bf16_to_f32(((const uint16_t *)from)[i]);
  if (dtype != ACCEL_PLUGIN_I8) return;
  float scale;
  memcpy(&scale, (const char *)from + kit_kv_scale(n), sizeof scale);
  for (int64_t i = 0; i < n; i++) to[i] = scale * (float)((const int8_t *)from)[i];
}

/* Head `head` of key row j, D columns; buffer is used when they are not fp32 in memory. */
static const float *row_of(const attention *a, const keys *s, bool value, int32_t j, int64_t head,
                           float *buffer) {
  int64_t d = value ? a->dv : a->dk;
  if (s->start >= 0) {
    const kit_tensor *t = &a->l->in[value ? V : K];
    return kit_f32(t) + (s->start + j) * t->row_stride + head * d;
  }
  const void *row = value ? kit_state_v(&s->state, j, head) : kit_state_k(&s->state, j, head);
  if (s->state.dtype == ACCEL_PLUGIN_F32) return row;
  widen(s->state.dtype, row, d, buffer);
  return buffer;
}

static int32_t key_position(const attention *a, const keys *s, int32_t j) {
  if (s->start < 0) return s->state.position[j];
  return kit_has(&a->l->in[KV_POS]) ? kit_i32(&a->l->in[KV_POS])[s->start + j] : j;
}

/* mask speaks of the rows given in this run: the last ones when there is a past. */
static bool key_hidden(const attention *a, const keys *s, int32_t j, int32_t item) {
  if (!kit_has(&a->l->in[MASK])) return false;
  if (s->start < 0) {
    j -= s->state.past;
    return j >= 0 && !kit_i32(&a->l->in[MASK])[a->kv.start[item] + j];
  }
  return !kit_i32(&a->l->in[MASK])[s->start + j];
}

static bool visible(const attention *a, int64_t q_pos, int64_t k_pos) {
  int64_t ahead = k_pos - q_pos;
  return !(a->causal && ahead > 0) && !(a->left >= 0 && -ahead > a->left) &&
         !(a->right >= 0 && ahead > a->right);
}

/* bias[P, H, Sq, Sk], each dim may be 1. */
static double dense(const kit_tensor *b, int64_t p, int64_t h, int64_t i, int64_t j) {
  int64_t at = b->dim[0] > 1 ? p : 0;
  at = at * b->dim[1] + (b->dim[1] > 1 ? h : 0);
  at = at * b->dim[2] + (b->dim[2] > 1 ? i : 0);
  return kit_f32(b)[at * b->dim[3] + (b->dim[3] > 1 ? j : 0)];
}

/* A query row and a key row of one head. */
typedef struct pair {
  int32_t item, i, j; /* item of the row spaces; row of the query, of the key in it */
  int64_t h, q_pos, k_pos;
} pair;

/* What is added to scale * q.k for a pair; q[dk] and k[dk] are its rows. */
static double bias_of(const attention *a, const pair *p, const float *q, const float *k) {
  const kit_tensor *b = &a->l->in[BIAS];
  switch (a->bias_kind) {
    case ACCEL_PLUGIN_BIAS_DENSE:
      return dense(b, p->item % a->period, p->h, p->i, p->j);
    case ACCEL_PLUGIN_BIAS_ALIBI:
      return (double)kit_f32(b)[p->h] * (double)(p->k_pos - p->q_pos);
    case ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL:
    case ACCEL_PLUGIN_BIAS_T5_UNIDIRECTIONAL:
      return kit_f32(
          b)[kit_t5_bucket(p->k_pos - p->q_pos, a->bias_kind == ACCEL_PLUGIN_BIAS_T5_BIDIRECTIONAL,
                           a->buckets, a->max_distance) *
                 a->heads +
             p->h];
    case ACCEL_PLUGIN_BIAS_DISENTANGLED: {
      int64_t at =
          (int64_t)kit_deberta_row(p->q_pos - p->k_pos, a->span, a->rel_buckets, a->max_distance) *
              a->heads * a->dk +
          p->h * a->dk;
      double sum = 0;
      if (kit_has(&a->l->in[REL_K])) sum += kit_dot(q, kit_f32(&a->l->in[REL_K]) + at, a->dk);
      if (kit_has(&a->l->in[REL_Q])) sum += kit_dot(k, kit_f32(&a->l->in[REL_Q]) + at, a->dk);
      return a->scale * sum;
    }
  }
  return 0;
}

/* Scores of one query row and head over all keys, -INFINITY where hidden; then the softmax.  All
 * zero when nothing is visible. */
static void weights_of(const attention *a, const keys *s, int32_t item, int64_t h, int32_t i,
                       double *w, float *buffer) {
  const kit_tensor *q = &a->l->in[Q];
  const float *qr = kit_f32(q) + (a->q.start[item] + i) * q->row_stride + h * a->dk;
  int64_t group = a->heads / a->kv_heads;
  int64_t q_pos = kit_has(&a->l->in[Q_POS]) ? kit_i32(&a->l->in[Q_POS])[a->q.start[item] + i]
                                            : (s->start < 0 ? s->state.past : 0) + (int64_t)i;
  double sink = kit_has(&a->l->in[SINKS]) ? kit_f32(&a->l->in[SINKS])[h] : -INFINITY, most = sink,
         sum = 0;
  for (int32_t j = 0; j < s->n; j++) {
    int64_t k_pos = key_position(a, s, j);
    w[j] = -INFINITY;
    if (!visible(a, q_pos, k_pos) || key_hidden(a, s, j, item)) continue;
    const float *kr = row_of(a, s, false, j, h / group, buffer);
    w[j] = a->scale * kit_dot(qr, kr, a->dk);
    if (a->softcap > 0) w[j] = a->softcap * tanh(w[j] / a->softcap);
    w[j] += bias_of(a, &(pair){item, i, j, h, q_pos, k_pos}, qr, kr);
    if (w[j] > most || w[j] != w[j]) most = w[j];
  }
  for (int32_t j = 0; j < s->n; j++) sum += w[j] = w[j] == -INFINITY ? 0.0 : exp(w[j] - most);
  if (sink > -INFINITY) sum += exp(sink - most);
  for (int32_t j = 0; j < s->n && sum != 0; j++) w[j] /= sum;
}

static void write_probs(const attention *a, int32_t row, int64_t h, const double *w, int32_t n) {
  const kit_tensor *out = &a->l->out[1]; /* [listed heads, Tq, S] */
  for (uint32_t k = 0; kit_has(out) && k < a->n_probs; k++) {
    if (a->probs[k] != h) continue;
    float *p = kit_f32(out) + ((int64_t)k * out->dim[1] + row) * out->dim[2];
    for (int64_t j = 0; j < out->dim[2]; j++) p[j] = j < n ? (float)w[j] : 0.0f;
  }
}

static void attend(const attention *a, const keys *s, int32_t item, double *w, double *sum,
                   float *buffer) {
  const kit_tensor *out = &a->l->out[0];
  int64_t group = a->heads / a->kv_heads;
  for (int32_t i = 0; i < a->q.start[item + 1] - a->q.start[item]; i++)
    for (int64_t h = 0; h < a->heads; h++) {
      float *y = kit_f32(out) + (a->q.start[item] + i) * kit_cols(out) + h * a->dv;
      weights_of(a, s, item, h, i, w, buffer);
      write_probs(a, a->q.start[item] + i, h, w, s->n);
      memset(sum, 0, (size_t)a->dv * sizeof *sum);
      for (int32_t j = 0; j < s->n; j++) {
        if (w[j] == 0) continue;
        const float *v = row_of(a, s, true, j, h / group, buffer);
        for (int64_t d = 0; d < a->dv; d++) sum[d] += w[j] * (double)v[d];
      }
      for (int64_t d = 0; d < a->dv; d++) y[d] = (float)sum[d];
    }
}

/* The item's keys; with a state the given rows are appended first, unless it is static. */
static int32_t find_keys(const attention *a, int32_t item, keys *out, accel_plugin_error *error) {
  const kit_launch *l = a->l;
  int32_t start = a->kv.start ? a->kv.start[item] : 0,
          n = a->kv.start ? a->kv.start[item + 1] - start : 0;
  if (l->node->state < 0) {
    *out = (keys){.n = n, .start = start};
    return ACCEL_PLUGIN_OK;
  }
  *out = (keys){.start = -1};
  bool append = kit_has(&l->in[K]) && !kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_STATE_STATIC, 0);
  int32_t rc;
  if (append) {
    const int32_t *position = kit_has(&l->in[KV_POS]) ? kit_i32(&l->in[KV_POS]) + start : NULL;
    const kit_tensor *k = &l->in[K], *v = &l->in[V];
    rc = kit_state_append(l, (uint32_t)item, n, position, &out->state, error);
    if (!rc)
      kit_state_write(&out->state, out->state.length - n, n, kit_f32(k) + start * k->row_stride,
                      k->row_stride, kit_f32(v) + start * v->row_stride, v->row_stride);
  } else {
    rc = kit_state_read(l, (uint32_t)item, &out->state, error);
  }
  out->n = rc ? 0 : out->state.length;
  return rc;
}

static int32_t check_item(const attention *a, const keys *s, int32_t item,
                          accel_plugin_error *error) {
  const kit_tensor *b = &a->l->in[BIAS], *probs = &a->l->out[1];
  int32_t rows = a->q.start[item + 1] - a->q.start[item];
  if (a->bias_kind == ACCEL_PLUGIN_BIAS_DENSE &&
      ((b->dim[2] > 1 && rows > b->dim[2]) || (b->dim[3] > 1 && s->n > b->dim[3])))
    return kit_launch_fail(a->l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "dense bias of %lld x %lld is too small for %d x %d",
                           (long long)b->dim[2], (long long)b->dim[3], rows, s->n);
  if (kit_has(probs) && s->n > probs->dim[2])
    return kit_launch_fail(a->l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "probabilities of %d keys do not fit %lld columns", s->n,
                           (long long)probs->dim[2]);
  return ACCEL_PLUGIN_OK;
}

static int32_t prepare(attention *a, const kit_launch *l, int32_t whole[4],
                       accel_plugin_error *error) {
  const accel_plugin_node *n = l->node;
  *a = (attention){.l = l};
  a->heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_HEADS, 1);
  a->kv_heads = kit_attr_i(n, ACCEL_PLUGIN_ATTR_KV_HEADS, a->heads);
  a->left = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_LEFT, -1);
  a->right = kit_attr_i(n, ACCEL_PLUGIN_ATTR_WINDOW_RIGHT, -1);
  a->causal = kit_attr_i(n, ACCEL_PLUGIN_ATTR_CAUSAL, 0) != 0;
  a->softcap = kit_attr_f(n, ACCEL_PLUGIN_ATTR_SOFTCAP, 0.0);
  a->bias_kind = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_KIND, ACCEL_PLUGIN_BIAS_NONE);
  a->buckets = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_NUM_BUCKETS, 32);
  a->max_distance = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_MAX_DISTANCE, 128);
  a->span = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_SPAN, 0);
  a->rel_buckets = (int32_t)kit_attr_i(n, ACCEL_PLUGIN_ATTR_REL_BUCKETS, 0);
  a->period = kit_has(&l->in[BIAS]) && a->bias_kind == ACCEL_PLUGIN_BIAS_DENSE
                  ? kit_attr_i(n, ACCEL_PLUGIN_ATTR_BIAS_PERIOD, l->in[BIAS].dim[0])
                  : 1;
  a->n_probs = kit_attr_iv(n, ACCEL_PLUGIN_ATTR_PROBS, &a->probs);
  const kit_tensor *k = &l->in[K], *v = &l->in[V], *q = &l->in[Q];
  const accel_plugin_state *state = n->state >= 0 ? &l->program->state[n->state] : NULL;
  if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || a->period < 1 ||
      (!kit_has(k) && !state))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld heads over %lld key heads, or no keys", (long long)a->heads,
                           (long long)a->kv_heads);
  a->dk = kit_has(k) ? kit_cols(k) / a->kv_heads : state->k_dim;
  a->dv = kit_has(v) ? kit_cols(v) / a->kv_heads : state->v_dim;
  a->scale = kit_attr_f(n, ACCEL_PLUGIN_ATTR_SCALE, a->dk ? 1.0 / sqrt((double)a->dk) : 1.0);
  a->q = kit_rows_of(l, ACCEL_PLUGIN_ATTR_Q_SPACE, kit_has(q) ? q->dim[0] : 0, whole);
  if (kit_has(k)) a->kv = kit_rows_of(l, ACCEL_PLUGIN_ATTR_KV_SPACE, k->dim[0], whole + 2);
  if (kit_has(k) && kit_has(q) && a->kv.items != a->q.items)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "%d items of queries, %d of keys",
                           a->q.items, a->kv.items);
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_ATTENTION(const kit_launch *l, accel_plugin_error *error) {
  attention a;
  int32_t whole[4];
  int32_t rc = prepare(&a, l, whole, error);
  int32_t items = kit_has(&l->in[K]) ? a.kv.items : a.q.items;
  for (int32_t item = 0; !rc && item < items; item++) {
    keys s;
    rc = find_keys(&a, item, &s, error);
    if (rc || !kit_has(&l->in[Q])) continue;
    rc = check_item(&a, &s, item, error);
    if (rc) break;
    double *w = malloc(((size_t)s.n + (size_t)a.dv + 1) * sizeof *w);
    float *buffer = malloc(((size_t)(a.dk > a.dv ? a.dk : a.dv) + 1) * sizeof *buffer);
    if (!w || !buffer)
      rc = kit_no_memory(error, (uint64_t)s.n * sizeof *w);
    else
      attend(&a, &s, item, w, w + s.n, buffer);
    free(w);
    free(buffer);
  }
  if (!rc && !kit_has(&l->in[Q]) && kit_has(&l->out[0]))
    memset(l->out[0].data, 0, (size_t)l->out[0].elements * 4); /* append only */
  return rc;
}

/* ---- rope ---- */

/* Angle of frequency i at row t, rounded to float where transformers rounds.  M-RoPE takes the
 * position from the row of `pos` whose section i falls in. */
static double angle(const kit_launch *l, int64_t t, int64_t i, int64_t pairs) {
  const kit_tensor *pos = &l->in[1], *inv = &l->in[2];
  float frequency = kit_has(inv) ? kit_f32(inv)[(inv->rank == 2 ? t * inv->row_stride : 0) + i]
                                 : (float)pow(kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_THETA, 10000.0),
                                              -(double)i / (double)pairs);
  int64_t row = 0;
  if (pos->rank == 2) {
    const int64_t *section;
    uint32_t n = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_SECTIONS, &section);
    int64_t end = 0;
    while (row + 1 < (int64_t)n && i >= (end += section[row])) row++;
    row %= pos->dim[0];
  }
  int64_t at = row * pos->dim[pos->rank - 1] + t;
  return (pos->dtype == ACCEL_PLUGIN_I32 ? (float)kit_i32(pos)[at] : kit_f32(pos)[at]) * frequency;
}

int32_t kit_scalar_ROPE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  int64_t rows = kit_row_count(x), cols = kit_cols(x),
          head = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEAD_DIM, cols);
  int64_t rot = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROT_DIMS, head), pairs = rot / 2;
  bool half = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ROPE_STYLE, ACCEL_PLUGIN_ROPE_HALF) ==
              ACCEL_PLUGIN_ROPE_HALF;
  double mscale = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_MSCALE, 1.0);
  (void)error;
  for (int64_t t = 0; t < rows; t++) {
    const float *from = kit_f32(x) + t * x->row_stride;
    float *to = kit_f32(&l->out[0]) + t * cols;
    for (int64_t h = 0; h < cols; h += head) {
      for (int64_t i = 0; i < pairs; i++) {
        int64_t a = h + (half ? i : 2 * i), b = h + (half ? i + pairs : 2 * i + 1);
        double w = angle(l, t, i, pairs), c = mscale * cos(w), s = mscale * sin(w), xa = from[a],
               xb = from[b];
        to[a] = (float)(xa * c - xb * s);
        to[b] = (float)(xb * c + xa * s);
      }
      for (int64_t i = rot; i < head; i++) to[h + i] = from[h + i];
    }
  }
  return ACCEL_PLUGIN_OK;
}
