/* attention_body.h - attention of one head of one sequence (kernels.h: cpu_attention), included by attention_<isa>.c.
 *
 * attention_head: keys and values are packed into panels, tile of keys after tile; a strip of query rows goes through
 * scores, softmax and the product with v while its scores stay in the first-level cache.  A block of rows carries largest
 * score, sum and values from tile to tile (the online softmax of FlashAttention, Dao et al. 2022).  Up to CPU_ATTENTION_KEYS
 * keys are one tile, packed once for all rows.  decode_head: few rows, keys and values are read once where they lie. What
 * lies outside a row's window is never computed when positions are row numbers.  The order of every sum depends on the
 * sequence alone, not on threads or batch.
 *
 * With ATTENTION_PER 2 (attention_bf16_<isa>.c) queries, keys, weights and values are multiplied as pairs of bf16. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"

#if !defined(ATTENTION_PER)
#define ATTENTION_PER           1
#define ATTENTION_HEAD          CPU_NAME(attention, head)
#define ATTENTION_PAIR_UP(a, b) attention_first(a, b)
V_INLINE vf attention_first(vf a, vf b) {
  (void)b;
  return a;
}
#endif

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
/* Elements of n factors. */
static int64_t depth_of(int64_t n) { return (n + ATTENTION_PER - 1) / ATTENTION_PER; }

/* ---- keys and values as fp32 ---- */

/* Elements i .. of a row of `kv` elements, `left` of them there. */
V_INLINE vf load_kv(const int kv, const void *row, int64_t i, int64_t left) {
  if (kv == ACCEL_PLUGIN_F32) return v_loadn((const float *)row + i, left);
  const void *p = (const char *)row + i * cpu_kv_bytes(kv);
  uint16_t part[V] = {0};
  if (left < V) p = memcpy(part, p, (size_t)(left * cpu_kv_bytes(kv)));
  if (kv == ACCEL_PLUGIN_I8) return v_load_s8(p);
  return kv == ACCEL_PLUGIN_F16 ? v_load_f16(p) : v_load_bf16(p);
}

/* What the elements of a row are to be multiplied with. */
V_INLINE float scale_of(const int kv, const void *row, int64_t at) {
  float scale = 1.0f;
  if (kv == ACCEL_PLUGIN_I8) memcpy(&scale, (const char *)row + at, sizeof scale);
  return scale;
}

/* Key rows j .. of the sequence, at most GEMM_COLS, become columns of a panel [depth of dk][GEMM_COLS]. */
V_INLINE void pack_keys(const int kv, const cpu_attention *a, int64_t j, float *panel) {
  for (int64_t c = 0; c < GEMM_COLS; c += V) {
    const void *row[V];
    vf x[V];
    for (int64_t i = 0; i < V; i++) row[i] = j + c + i < a->keys ? cpu_key_at(a, j + c + i) : NULL;
    for (int64_t d = 0; d < a->dk; d += V) {
      for (int64_t i = 0; i < V; i++) x[i] = row[i] ? load_kv(kv, row[i], d, a->dk - d) : v_zero();
      for (int64_t i = 0; kv == ACCEL_PLUGIN_I8 && i < V; i++)
        if (row[i]) x[i] = v_mul(x[i], v_set(scale_of(kv, row[i], a->k_scale)));
      v_transpose(x);
      for (int64_t i = 0; i < V && d + i < a->dk; i += ATTENTION_PER)
        v_store(panel + (d + i) / ATTENTION_PER * GEMM_COLS + c, ATTENTION_PAIR_UP(x[i], x[(i + 1) % V]));
    }
  }
}

/* Columns c .. of value row j, fewer than `to`; else zeros. */
V_INLINE vf value_at(const int kv, const cpu_attention *a, int64_t j, int64_t to, int64_t c) {
  if (j >= to || c >= a->dv) return v_zero();
  const char *row = cpu_value_at(a, j);
  const vf x = load_kv(kv, row, c, a->dv - c);
  return kv == ACCEL_PLUGIN_I8 ? v_mul(x, v_set(scale_of(kv, row, a->v_scale))) : x;
}

/* Value rows from .. to-1 as panels [depth of count][GEMM_COLS], `stride` floats from one to the next. */
V_INLINE void pack_values(const int kv, const cpu_attention *a, int64_t from, int64_t to, int64_t stride, float *panels) {
  for (int64_t j = from; j < to; j += ATTENTION_PER)
    for (int64_t c = 0; c < a->dv; c += GEMM_COLS) {
      float *at = panels + c / GEMM_COLS * stride + (j - from) / ATTENTION_PER * GEMM_COLS;
      MICRO_UNROLL for (int64_t i = 0; i < GEMM_COLS; i += V) {
        v_store(at + i, ATTENTION_PAIR_UP(value_at(kv, a, j, to, c + i), value_at(kv, a, j + 1, to, c + i)));
      }
    }
}

/* c[rows, panels * GEMM_COLS] = a b, b packed */
static void product(int64_t rows, int64_t k, const float *a, int64_t lda, const float *b, int64_t first, int64_t last,
                    float *c, int64_t ldc) {
  for (int64_t p = first; p < last; p++)
    for (int64_t i = 0, n; i < rows; i += n) {
      n = micro_height(rows - i);
      micro_of_rows[n](k, a + i * lda, lda, b + p * k * GEMM_COLS, 0, c + i * ldc + p * GEMM_COLS, ldc, b, 0);
    }
}

/* A strip of query rows, and the packed keys and values that it shares with others. */
typedef struct block {
  const cpu_attention *a;
  float *k, *v, *q, *score, *position, *key_side, *total; /* in the workspace; q: of pairs only */
  int64_t lds, strip;
  int64_t row, rows, low, high; /* query rows of the strip; keys that any of them sees */
  int64_t tile, tile_end;       /* keys at hand: everything in the workspace counts from `tile` */
  bool plain;
} block;

/* Whether scores are products times a positive scale, nothing else: the scale can then wait for the exponential. */
static bool is_plain(const cpu_attention *a) {
  return !(a->softcap > 0) && !a->bias && !a->relative && !a->distance && a->slope == 0.0f && !a->key_position &&
         !a->relative_row && !a->mask && a->scale > 0;
}

/* First and one past the last key that row i sees, as far as positions are row numbers. */
static void span_of(const cpu_attention *a, int64_t i, int64_t *low, int64_t *high) {
  const int64_t at = i * a->step + a->shift;
  *low = a->first;
  *high = a->keys;
  if (a->key_position) return;
  if (a->left >= 0 && at - a->left > *low) *low = at - a->left;
  if (a->right >= 0 && at + a->right + 1 < a->keys) *high = at + a->right + 1;
  if (*low > a->keys) *low = a->keys;
  if (*high < *low) *high = *low;
}

/* The part of row i's span in the tile, counted from its start. */
static void part_of(const block *b, int64_t i, int64_t *low, int64_t *high) {
  span_of(b->a, i, low, high);
  *low = *low < b->tile ? 0 : *low > b->tile_end ? b->tile_end - b->tile : *low - b->tile;
  *high = *high > b->tile_end ? b->tile_end - b->tile : *high < b->tile ? 0 : *high - b->tile;
  if (*high < *low) *high = *low;
}

/* ---- scores ---- */

/* relative terms of row i against key j are at [i - j + origin]; one tile holds all keys */
static void add_disentangled(const block *b, int64_t i, float *s, int64_t low, int64_t high) {
  const cpu_attention *a = b->a;
  const int32_t *index = a->relative_row + a->relative_origin + i;
  const int64_t first = a->relative_first;
  if (a->rel_k) {
    const float *side = b->score + b->rows * b->lds + (i - b->row) * a->relative_columns; /* q . rel_k[r] */
    for (int64_t j = low; j < high; j++) s[j] += a->scale * side[index[-j] - first];
  }
  if (a->rel_q)
    for (int64_t j = low; j < high; j++) s[j] += a->scale * b->key_side[j * a->relative_columns + index[-j] - first];
}

static int64_t query_at(const cpu_attention *a, int64_t i) {
  return a->query_position ? a->query_position[i] : i * a->step + a->shift;
}
static int64_t key_at(const cpu_attention *a, int64_t j) { return a->key_position ? a->key_position[j] : j; }
static float position_of(const void *a, int64_t j) {
  const cpu_attention *g = a;
  return j < g->keys ? (float)key_at(g, j) : 0.0f;
}

/* Everything that changes the scores s of row i against keys tile + low .. after the product; position[] holds the keys'. */
static void adjust(const cpu_attention *a, int64_t i, float *s, int64_t tile, int64_t low, int64_t high,
                   const float *position) {
  const vf scale = v_set(a->scale), hidden = v_set(-INFINITY), here = v_set((float)query_at(a, i));
  const float *dense = a->bias ? a->bias + i * a->bias_row + tile * a->bias_column : NULL;
  const float *relative = a->relative ? a->relative + a->relative_origin - i + tile : NULL;
  for (int64_t j = low / V * V; j < high; j += V) {
    vf x = v_mul(v_load(s + j), scale);
    if (a->softcap > 0) x = v_mul(v_set(a->softcap), v_tanh(v_div(x, v_set(a->softcap))));
    if (dense) x = v_add(x, a->bias_column ? v_loadn(dense + j, a->keys - tile - j) : v_set(*dense));
    if (relative) x = v_add(x, v_loadn(relative + j, a->keys - tile - j));
    if (position) {
      vf ahead = v_sub(v_load(position + j), here);
      if (a->slope != 0.0f) x = v_fma(v_set(a->slope), ahead, x);
      if (a->key_position && a->left >= 0) x = v_select(v_lt(ahead, v_set(-(float)a->left)), hidden, x);
      if (a->key_position && a->right >= 0) x = v_select(v_lt(v_set((float)a->right), ahead), hidden, x);
    }
    v_store(s + j, x);
  }
  for (int64_t j = low, at = query_at(a, i); a->distance && j < high; j++) {
    int64_t d = key_at(a, tile + j) - at;
    s[j] += a->distance[(d < -a->far ? -a->far : d > a->far ? a->far : d) + a->far];
  }
  for (int64_t j = low; a->mask && j < high; j++)
    if (tile + j >= a->mask_from && !a->mask[tile + j - a->mask_from]) s[j] = -INFINITY;
}

/* Row i's scores made final, -INFINITY or zero where they are not seen; its part of the tile. */
static void finish_scores(const block *b, int64_t i, int64_t *low, int64_t *high) {
  const cpu_attention *a = b->a;
  float *s = b->score + (i - b->row) * b->lds;
  const int64_t all_low = b->low > b->tile ? b->low - b->tile : 0,
                all_high = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile;
  part_of(b, i, low, high);
  const int64_t from = *low / V * V, to = round_up(*high, V);
  if (!b->plain) {
    adjust(a, i, s, b->tile, *low, *high, a->key_position || a->slope != 0.0f ? b->position : NULL);
    if (a->relative_row) add_disentangled(b, i, s, *low, *high);
    if (a->relative_row && a->mask) /* hidden ones again */
      for (int64_t j = *low; j < *high; j++)
        if (j >= a->mask_from && !a->mask[j - a->mask_from]) s[j] = -INFINITY;
  }
  for (int64_t j = all_low; j < from; j++) s[j] = 0.0f;
  for (int64_t j = from; j < *low; j++) s[j] = -INFINITY;
  if (*high < to) v_storen(s + *high, v_set(-INFINITY), to - *high);
  for (int64_t j = to; j < all_high; j++) s[j] = 0.0f;
}

/* The largest of scores low .. high-1, whole vectors. */
static float largest_score(const float *s, int64_t low, int64_t high) {
  vf most = v_set(-INFINITY);
  for (int64_t j = low / V * V; j < high; j += V) most = v_max(v_load(s + j), most); /* never NaN */
  return v_largest(most);
}

/* ---- softmax ---- */

/* What a row has seen so far. */
typedef struct seen {
  float top, sum; /* largest score, sum of exponentials beside it */
} seen;

static seen nothing_seen(const cpu_attention *a, int64_t i) {
  if (!a->sinks || a->part || !(a->sinks[i * a->sink_step] > -INFINITY)) return (seen){-INFINITY, 0.0f};
  return (seen){a->sinks[i * a->sink_step], 1.0f};
}

/* Moves on to a largest score of at least `top`; answers the factor of what was summed up before. */
static float raise_to(seen *s, float top) {
  if (!(top > s->top)) return 1.0f;
  const float factor = s->top == -INFINITY ? 0.0f : expf(s->top - top);
  *s = (seen){top, s->sum * factor};
  return factor;
}

/* Scores s[low .. high) (whole vectors) times `factor` to exponentials beside `top`; answers their sum. */
V_INLINE float weigh(float *s, int64_t low, int64_t high, float factor, float top) {
  const float bits = 1.44269504f; /* log2 e */
  vf shift = v_set(top == -INFINITY ? 0.0f : -top * bits), scale = v_set(factor * bits), sum = v_zero();
  for (int64_t j = low / V * V; j < high; j += V) {
    vf e = v_exp2_negative(v_fma(v_load(s + j), scale, shift));
    v_store(s + j, e);
    sum = v_add(sum, e);
  }
  return v_sum(sum);
}

static float inverse_of(const seen *s) { return s->sum == 0.0f ? 0.0f : 1.0f / s->sum; } /* NaN where a score was */

static void write_probabilities(const block *b, int64_t i, float inverse) {
  const cpu_attention *a = b->a;
  const float *s = b->score + (i - b->row) * b->lds;
  float *to = a->probs + i * a->ldp;
  for (int64_t j = 0; j < a->probs_columns; j++) to[j] = j >= b->low && j < b->high && j < a->keys ? s[j] * inverse : 0.0f;
}

/* ---- values ---- */

/* total[rows][columns] = total * factor + weights v of this tile; total NULL: y = weights v * factor. */
static void values(const block *b, float *total, int64_t columns, const float *factor) {
  const cpu_attention *a = b->a;
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const int64_t low = b->low > b->tile ? b->low - b->tile : 0,
                high = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile, stride = b->lds * GEMM_COLS;
#if ATTENTION_PER == 2
  for (int64_t i = 0; i < b->rows; i++) /* over themselves */
    v_narrow_row(b->score + i * b->lds + low, high - low, high - low, b->score + i * b->lds + low);
#endif
  for (int64_t d = 0; d < a->dv; d += GEMM_COLS)
    for (int64_t i = 0, n; i < b->rows; i += n) {
      n = micro_height(b->rows - i);
      micro_of_rows[n](depth_of(high - low), b->score + i * b->lds + low, b->lds,
                       b->v + d / GEMM_COLS * stride + low / ATTENTION_PER * GEMM_COLS, 0, tile, GEMM_COLS, b->v, 0);
      for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < GEMM_COLS && d + j < a->dv; j += V) {
          vf x = v_load(tile + r * GEMM_COLS + j), f = v_set(factor[r + i]);
          if (total)
            v_store(total + (i + r) * columns + d + j, v_fma(v_load(total + (i + r) * columns + d + j), f, x));
          else
            v_storen(a->y + (b->row + i + r) * a->ldy + d + j, v_mul(x, f), a->dv - d - j);
        }
    }
}

/* y, or the part, of a row whose values were summed up in `total`. */
static void hand_over(const cpu_attention *a, int64_t i, const seen *s, const float *total) {
  float *y = a->part ? a->part + i * (2 + a->dv) : a->y + i * a->ldy;
  vf f = v_set(a->part ? 1.0f : inverse_of(s));
  if (a->part) {
    *y++ = s->top;
    *y++ = s->sum;
  }
  for (int64_t d = 0; d < a->dv; d += V) v_storen(y + d, v_mul(v_loadn(total + d, a->dv - d), f), a->dv - d);
}

/* ---- blocks ---- */

#define FOR_KV(call)           \
  switch (a->kv) {             \
    case ACCEL_PLUGIN_F16:     \
      call(ACCEL_PLUGIN_F16);  \
      break;                   \
    case ACCEL_PLUGIN_BF16:    \
      call(ACCEL_PLUGIN_BF16); \
      break;                   \
    case ACCEL_PLUGIN_I8:      \
      call(ACCEL_PLUGIN_I8);   \
      break;                   \
    default:                   \
      call(ACCEL_PLUGIN_F32);  \
  }

/* Packs keys tile .. tile_end-1; of a long sequence only those from low to high. */
static void pack_tile(const block *b, int64_t low, int64_t high) {
  const cpu_attention *a = b->a;
  const int64_t from = low / GEMM_COLS * GEMM_COLS;
#define PACK(kv)                                                                                                \
  for (int64_t j = from; j < high; j += GEMM_COLS) pack_keys(kv, a, j, b->k + (j - b->tile) * depth_of(a->dk)); \
  pack_values(kv, a, from, high, b->lds *GEMM_COLS, b->v + (from - b->tile) / ATTENTION_PER * GEMM_COLS)
  FOR_KV(PACK)
#undef PACK
  for (int64_t j = 0; (a->key_position || a->slope != 0.0f) && j < b->lds; j++) b->position[j] = position_of(a, b->tile + j);
}

static void scores(const block *b) {
  const cpu_attention *a = b->a;
  const float *q = a->q + b->row * a->ldq;
  int64_t ldq = a->ldq;
  const int64_t low = b->low > b->tile ? b->low - b->tile : 0,
                high = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile;
#if ATTENTION_PER == 2
  ldq = cpu_attention_pairs(a->dk);
  for (int64_t i = 0; i < b->rows; i++) v_narrow_row(q + i * a->ldq, a->dk, a->dk, b->q + i * ldq);
  q = b->q;
#endif
  product(b->rows, depth_of(a->dk), q, ldq, b->k, low / GEMM_COLS, (high + GEMM_COLS - 1) / GEMM_COLS, b->score, b->lds);
  if (a->rel_k)
    product(b->rows, a->dk, q, a->ldq, a->rel_k, 0, a->relative_columns / GEMM_COLS, b->score + b->rows * b->lds,
            a->relative_columns);
}

/* Scores of all rows through the softmax; factor[] of what they had seen before.  Step by step for all of them: what a row
 * waits for comes while others are at it. */
static void softmax_strip(const block *b, seen *s, float *factor) {
  const float scale = b->plain ? b->a->scale : 1.0f;
  int64_t low[CPU_ATTENTION_STRIP], high[CPU_ATTENTION_STRIP];
  for (int64_t r = 0; r < b->rows; r++) finish_scores(b, b->row + r, &low[r], &high[r]);
  for (int64_t r = 0; r < b->rows; r++)
    factor[r] = raise_to(&s[r], largest_score(b->score + r * b->lds, low[r], high[r]) * scale);
  for (int64_t r = 0; r < b->rows; r++) s[r].sum += weigh(b->score + r * b->lds, low[r], high[r], scale, s[r].top);
}

/* The strip from `row` on, strips being as equal as whole rows allow, and the keys that its rows see. */
static void strip_at(block *b, int64_t row, int64_t row_end) {
  int64_t unused, strips = (row_end - row + b->strip - 1) / b->strip;
  b->row = row;
  b->rows = (row_end - row + strips - 1) / strips;
  span_of(b->a, row, &b->low, &unused);
  span_of(b->a, row + b->rows - 1, &unused, &b->high);
  b->low = b->low / GEMM_COLS * GEMM_COLS;
}

/* All keys in one tile, packed already. */
static void run_strip(block *b) {
  const cpu_attention *a = b->a;
  float factor[CPU_ATTENTION_STRIP];
  seen s[CPU_ATTENTION_STRIP];
  scores(b);
  for (int64_t r = 0; r < b->rows; r++) s[r] = nothing_seen(a, b->row + r);
  softmax_strip(b, s, factor);
  for (int64_t r = 0; r < b->rows; r++) factor[r] = inverse_of(&s[r]);
  for (int64_t r = 0; a->probs && r < b->rows; r++) write_probabilities(b, b->row + r, factor[r]);
  values(b, NULL, 0, factor);
}

/* Rows [row, row_end) against one tile of keys after the other. */
static void run_block(block *b, int64_t row, int64_t row_end, int64_t columns) {
  const cpu_attention *a = b->a;
  float factor[CPU_ATTENTION_STRIP];
  seen s[CPU_ATTENTION_ROWS];
  int64_t low, high, unused;
  span_of(a, row, &low, &unused);
  span_of(a, row_end - 1, &unused, &high);
  for (int64_t r = row; r < row_end; r++) s[r - row] = nothing_seen(a, r);
  for (int64_t i = 0; i < (row_end - row) * columns; i += V) v_store(b->total + i, v_zero());
  for (b->tile = low / b->lds * b->lds; b->tile < high; b->tile += b->lds) {
    b->tile_end = b->tile + b->lds < a->keys ? b->tile + b->lds : a->keys;
    pack_tile(b, low > b->tile ? low : b->tile, high < b->tile_end ? high : b->tile_end);
    for (int64_t r = row; r < row_end; r += b->rows) {
      strip_at(b, r, row_end);
      if (b->low >= b->tile_end || b->high <= b->tile) continue;
      scores(b);
      softmax_strip(b, s + (r - row), factor);
      values(b, b->total + (r - row) * columns, columns, factor);
    }
  }
  for (int64_t r = row; r < row_end; r++) hand_over(a, r, &s[r - row], b->total + (r - row) * columns);
}

void ATTENTION_HEAD(const cpu_attention *a, int64_t row, int64_t row_end, float *workspace) {
  const bool whole = a->probs || a->relative_row;
  const cpu_attention_plan plan =
      cpu_attention_layout(a->keys, a->dk, a->dv, a->relative_columns, whole, GEMM_ROWS, GEMM_COLS);
  block b = {.a = a, .k = workspace, .lds = plan.keys, .strip = plan.strip, .plain = is_plain(a), .tile_end = a->keys};
  const bool tiles = a->part || plan.keys < a->keys;
  b.v = workspace + plan.v;
  b.position = workspace + plan.position;
  b.key_side = workspace + plan.key_side;
  b.score = workspace + plan.score;
  b.total = workspace + plan.total;
  b.q = workspace + plan.q;
  if (a->keys > 0 && !tiles) pack_tile(&b, 0, a->keys);
  if (a->keys > 0 && a->rel_q)
    product(a->keys, a->dk, a->k, a->ldk, a->rel_q, 0, a->relative_columns / GEMM_COLS, b.key_side, a->relative_columns);
  for (; tiles && row < row_end; row += plan.rows)
    run_block(&b, row, row_end - row < plan.rows ? row_end : row + plan.rows, plan.columns);
  for (; row < row_end; row += b.rows) {
    strip_at(&b, row, row_end);
    run_strip(&b);
  }
}

#if ATTENTION_PER == 1

/* ---- few rows ---- */

enum {
  DECODE_KEYS = 64,                              /* of a chunk, between two steps of the softmax; a page is some of them */
  DECODE_AHEAD = 12,                             /* keys that are asked into the first-level cache ahead */
  DECODE_ROWS = 8,                               /* rows that go past a chunk together, at most: heads of one query row */
  DECODE_FEW = 4,                                /* of these, for which a key is loaded at once */
  DECODE_TURNED = V == 16 ? 3 : DECODE_ROWS + 1, /* so many rows pay for turning keys into columns */
  DECODE_DIM = 512                               /* of keys that are turned, at most */
};
_Static_assert(CPU_PAGE_ROWS % DECODE_KEYS == 0, "a chunk lies in one page");
typedef float decode_scores[DECODE_KEYS] __attribute__((aligned(64)));

/* Some keys that lie in one piece, and their values.  Memory is kept busy all along: values are asked for while the keys go
 * by, the next chunk's keys while the values do. */
typedef struct chunk {
  int64_t from, n;
  const char *k, *v, *next;  /* next: NULL when no keys follow */
  const char *far_k, *far_v; /* keys after the next ones, values after these; or NULL */
  int64_t k_row, v_row;      /* bytes from one to the next */
  int64_t k_bytes, v_bytes;  /* bytes that are read of each */
} chunk;

static chunk chunk_at(const cpu_attention *a, int64_t from, int64_t high) {
  const int64_t size = cpu_kv_bytes(a->kv), whole = DECODE_KEYS - from % DECODE_KEYS;
  chunk c = {.from = from, .n = high - from < whole ? high - from : whole};
  c.k = cpu_key_at(a, from);
  c.v = cpu_value_at(a, from);
  c.next = from + c.n < high ? cpu_key_at(a, from + c.n) : NULL;
  c.far_k = from + c.n + DECODE_KEYS < high ? cpu_key_at(a, from + c.n + DECODE_KEYS) : NULL;
  c.far_v = c.next ? cpu_value_at(a, from + c.n) : NULL;
  c.k_row = a->ldk * size;
  c.v_row = a->ldv * size;
  c.k_bytes = a->kv == ACCEL_PLUGIN_I8 ? a->k_scale + 4 : a->dk * size;
  c.v_bytes = a->kv == ACCEL_PLUGIN_I8 ? a->v_scale + 4 : a->dv * size;
  return c;
}

/* The lines that begin in a row: of rows one behind the other each line is asked for once. */
V_INLINE const char *first_line(const char *row) { return row + (-(uintptr_t)row & 63); }
V_INLINE void ask_for(const char *row, int64_t bytes) {
  for (const char *line = first_line(row); line < row + bytes; line += 64) v_prefetch(line);
}
V_INLINE void ask_far(const char *row, int64_t bytes) {
  for (const char *line = first_line(row); line < row + bytes; line += 64) v_prefetch_far(line);
}

/* s[r][j] = q[r] . k[j] for j < n, anything up to a whole vector.  asks: for the values meanwhile. */
V_INLINE void dots(const int kv, const int rows, const cpu_attention *a, const float *q, const chunk *at, bool asks,
                   decode_scores *s) {
  const int64_t dk = a->dk, n = at->n;
  for (int64_t j = 0; j < n; j += V) {
    vf part[DECODE_FEW][V];
    for (int64_t c = 0; c < V; c++) {
      vf sum[DECODE_FEW], more[DECODE_FEW];
      MICRO_UNROLL for (int r = 0; r < rows; r++) part[r][c] = sum[r] = more[r] = v_zero();
      if (j + c >= n) continue;
      const char *row = at->k + (j + c) * at->k_row;
      int64_t d = 0;
      if (asks) {
        if (j + c + DECODE_AHEAD < n) ask_for(row + DECODE_AHEAD * at->k_row, at->k_bytes);
        ask_far(at->v + (j + c) * at->v_row, at->v_bytes);
      }
      for (; d + 2 * V <= dk; d += 2 * V) {
        const vf k = load_kv(kv, row, d, V), next = load_kv(kv, row, d + V, V);
        MICRO_UNROLL for (int r = 0; r < rows; r++) {
          sum[r] = v_fma(v_load(q + r * a->ldq + d), k, sum[r]);
          more[r] = v_fma(v_load(q + r * a->ldq + d + V), next, more[r]);
        }
      }
      for (; d < dk; d += V) {
        const vf k = load_kv(kv, row, d, dk - d);
        MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] = v_fma(v_loadn(q + r * a->ldq + d, dk - d), k, sum[r]);
      }
      MICRO_UNROLL for (int r = 0; r < rows; r++) {
        part[r][c] = v_add(sum[r], more[r]);
        if (kv == ACCEL_PLUGIN_I8) part[r][c] = v_mul(part[r][c], v_set(scale_of(kv, row, a->k_scale)));
      }
    }
    MICRO_UNROLL for (int r = 0; r < rows; r++) v_store(s[r] + j, v_sums(part[r]));
  }
}

/* The same for `rows` of 4 or 8 rows at once: V keys become columns, and q, turned [dk rounded up to V][rows], is spread
 * over them. */
V_INLINE void dots_turned(const int kv, const int rows, const cpu_attention *a, const float *turned, const chunk *at,
                          decode_scores *s) {
  const int64_t dk = a->dk, n = at->n, steps = (dk + V - 1) / V, k_share = (V * at->k_row / steps + 63) / 64 * 64,
                v_share = (V * at->v_row / steps + 63) / 64 * 64;
  for (int64_t j = 0; j < n; j += V) {
    const char *row[V], *ahead = at->k + (j + V) * at->k_row, *value = at->v + j * at->v_row;
    vf sum[DECODE_ROWS], more[DECODE_ROWS], x[V];
    for (int64_t c = 0; c < V; c++) row[c] = at->k + (j + c < n ? j + c : n - 1) * at->k_row;
    MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] = more[r] = v_zero();
    for (int64_t d = 0; d < dk; d += V, ahead += k_share, value += v_share) {
      const float *q = turned + d * rows;
      if (j + V < n) ask_for(ahead, k_share);
      ask_far(value, v_share);
      MICRO_UNROLL for (int c = 0; c < V; c++) x[c] = load_kv(kv, row[c], d, dk - d);
      v_transpose(x);
      MICRO_UNROLL for (int i = 0; i < V; i++) {
        MICRO_UNROLL for (int r = 0; r < rows; r++) {
          if (rows < 8 && i % 2)
            more[r] = v_fma(v_set(q[i * rows + r]), x[i], more[r]);
          else
            sum[r] = v_fma(v_set(q[i * rows + r]), x[i], sum[r]);
        }
      }
    }
    float scale[V];
    for (int64_t c = 0; kv == ACCEL_PLUGIN_I8 && c < V; c++) scale[c] = scale_of(kv, row[c], a->k_scale);
    MICRO_UNROLL for (int r = 0; r < rows; r++) {
      const vf all = rows < 8 ? v_add(sum[r], more[r]) : sum[r];
      v_store(s[r] + j, kv == ACCEL_PLUGIN_I8 ? v_mul(all, v_load(scale)) : all);
    }
  }
}

/* Scores of up to DECODE_ROWS rows; turned: [.. ][4 or 8], or NULL. */
V_INLINE void dots_of(const int kv, int64_t rows, const cpu_attention *a, const float *q, const float *turned,
                      const chunk *at, decode_scores *s) {
  if (turned && rows > 4) {
    dots_turned(kv, 8, a, turned, at, s);
  } else if (turned) {
    dots_turned(kv, 4, a, turned, at, s);
  } else {
    for (int64_t i = 0, step; i < rows; i += step) {
      step = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
      const float *from = q + i * a->ldq;
      if (step == 4)
        dots(kv, 4, a, from, at, i == 0, s + i);
      else if (step == 2)
        dots(kv, 2, a, from, at, i == 0, s + i);
      else
        dots(kv, 1, a, from, at, i == 0, s + i);
    }
  }
}

/* q[rows][dk] as [dk rounded up to V][4 or 8], zeros where there is none. */
static void turn(const cpu_attention *a, const float *q, int64_t rows, float *turned) {
  const int64_t width = rows > 4 ? 8 : 4;
  for (int64_t d = 0; d < round_up(a->dk, V); d++)
    for (int64_t r = 0; r < width; r++) turned[d * width + r] = d < a->dk && r < rows ? q[r * a->ldq + d] : 0.0f;
}

/* total[r][d .. d + vectors V) = total * factor + sum of s[r][j] v[j]; meanwhile asks for the keys at `next`. */
V_INLINE void mix_columns(const int kv, const int rows, const int vectors, const cpu_attention *a, const decode_scores *s,
                          const chunk *at, const char *next, int64_t d, const float *factor, float *const *total) {
  vf sum[DECODE_FEW][8];
  const int64_t left = a->dv - d;
  const char *row = at->v;
  MICRO_UNROLL for (int r = 0; r < rows; r++) {
    MICRO_UNROLL for (int i = 0; i < vectors; i++) sum[r][i] =
        v_mul(v_loadn(total[r] + d + i * V, left - i * V), v_set(factor[r]));
  }
  for (int64_t j = 0; j < at->n; j++, row += at->v_row) {
    const float scale = scale_of(kv, row, a->v_scale);
    vf w[DECODE_FEW];
    if (next) ask_far(next + j * at->k_row, at->k_bytes);
    MICRO_UNROLL for (int r = 0; r < rows; r++) w[r] = v_set(s[r][j] * scale);
    MICRO_UNROLL for (int i = 0; i < vectors; i++) {
      const vf v = load_kv(kv, row, d + i * V, left - i * V);
      MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = v_fma(w[r], v, sum[r][i]);
    }
  }
  MICRO_UNROLL for (int r = 0; r < rows; r++) {
    MICRO_UNROLL for (int i = 0; i < vectors; i++) v_storen(total[r] + d + i * V, sum[r][i], left - i * V);
  }
}

/* total[r] = total[r] * factor + sum of s[r][j] v[j], as many columns at once as there are registers for half of. */
V_INLINE void mix(const int kv, const int rows, const cpu_attention *a, const decode_scores *s, const chunk *at,
                  const char *next, const float *factor, float *const *total) {
  const int most = V_REGISTERS / 2 / rows;
  for (int64_t d = 0, left; (left = a->dv - d) > 0; next = NULL) {
    if (most >= 8 && left >= 8 * V) {
      mix_columns(kv, rows, 8, a, s, at, next, d, factor, total);
      d += 8 * V;
    } else if (most >= 4 && left >= 4 * V) {
      mix_columns(kv, rows, 4, a, s, at, next, d, factor, total);
      d += 4 * V;
    } else if (left >= 2 * V) {
      mix_columns(kv, rows, 2, a, s, at, next, d, factor, total);
      d += 2 * V;
    } else {
      mix_columns(kv, rows, 1, a, s, at, next, d, factor, total);
      d += V;
    }
  }
}

/* Row i's scores of keys j .. j + n-1 to exponentials; answers the factor of what was summed up before. */
static float weigh_decoded(const cpu_attention *a, int64_t i, float *s, int64_t j, int64_t n, const float *position,
                           seen *so_far) {
  const bool plain = is_plain(a);
  if (!plain) adjust(a, i, s, j, 0, n, position);
  for (int64_t c = n; c < round_up(n, V); c++) s[c] = -INFINITY;
  vf most = v_set(-INFINITY);
  for (int64_t c = 0; c < n; c += V) most = v_max(v_load(s + c), most);
  const float scale = plain ? a->scale : 1.0f, factor = raise_to(so_far, v_largest(most) * scale);
  so_far->sum += weigh(s, 0, n, scale, so_far->top);
  return factor;
}

V_INLINE void mix_of(const int kv, int64_t rows, const cpu_attention *a, const decode_scores *s, const chunk *at,
                     const float *factor, float *const *total) {
  for (int64_t i = 0, step; i < rows; i += step) {
    const char *next = i ? NULL : at->next;
    step = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
    if (step == 4)
      mix(kv, 4, a, s + i, at, next, factor + i, total + i);
    else if (step == 2)
      mix(kv, 2, a, s + i, at, next, factor + i, total + i);
    else
      mix(kv, 1, a, s + i, at, next, factor + i, total + i);
  }
}

#ifdef V_PAIRS
#include "kernels/attention_pairs_body.h"
#endif

/* Rows i .. i + rows-1, which see the same keys. */
V_INLINE void decode(const int kv, int64_t rows, const cpu_attention *a, int64_t i) {
  decode_scores s[DECODE_ROWS], position;
  float *total[DECODE_ROWS], factor[DECODE_ROWS], turned[DECODE_DIM * DECODE_ROWS] __attribute__((aligned(64)));
  seen so_far[DECODE_ROWS];
  const float *q = a->q + i * a->ldq;
  const bool placed = a->key_position || a->slope != 0.0f, turns = rows >= DECODE_TURNED && a->dk <= DECODE_DIM;
  int64_t low, high;
  span_of(a, i, &low, &high);
#ifdef V_PAIRS
  const bool pairs = kv == ACCEL_PLUGIN_I8 && takes_pairs(a);
  int16_t codes[DECODE_ROWS * DECODE_DIM] __attribute__((aligned(64)));
  float unit[DECODE_ROWS];
  if (pairs) code_rows(a, q, rows, codes, unit);
#else
  const bool pairs = false;
#endif
  if (turns && !pairs) turn(a, q, rows, turned);
  for (int64_t r = 0; r < rows; r++) {
    total[r] = a->part ? a->part + (i + r) * (2 + a->dv) + 2 : a->y + (i + r) * a->ldy;
    so_far[r] = nothing_seen(a, i + r);
    memset(total[r], 0, (size_t)a->dv * sizeof *total[r]);
  }
  chunk at;
  for (int64_t j = low; j < high; j += at.n) {
    at = chunk_at(a, j, high);
#ifdef V_PAIRS
    if (pairs) dots_pairs_of(rows, a, codes, unit, &at, s);
#endif
    if (!pairs) dots_of(kv, rows, a, q, turns ? turned : NULL, &at, s);
    for (int64_t c = 0; placed && c < round_up(at.n, V); c++) position[c] = position_of(a, j + c);
    for (int64_t r = 0; r < rows; r++)
      factor[r] = weigh_decoded(a, i + r, s[r], j, at.n, placed ? position : NULL, &so_far[r]);
#ifdef V_PAIRS
    if (pairs) mix_pairs_of(rows, a, (const decode_scores *)s, &at, factor, total);
#endif
    if (!pairs) mix_of(kv, rows, a, (const decode_scores *)s, &at, factor, total);
  }
  for (int64_t r = 0; r < rows; r++) {
    if (!a->part) hand_over(a, i + r, &so_far[r], total[r]);
    if (!a->part) continue;
    total[r][-2] = so_far[r].top;
    total[r][-1] = so_far[r].sum;
  }
}

void CPU_NAME(decode, head)(const cpu_attention *a, int64_t row, int64_t row_end) {
  const int64_t most = a->step ? 1 : DECODE_ROWS; /* heads of one query row go together */
#define DECODE(kv) decode(kv, row_end - row < most ? row_end - row : most, a, row)
  for (; row < row_end; row += most) FOR_KV(DECODE)
#undef DECODE
}
#endif
