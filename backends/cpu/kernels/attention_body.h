/* attention_body.h - attention of one head of one sequence (kernels.h: cpu_attention), included by
 * attention_<isa>.c.
 *
 * attention_head: keys and values are packed into panels, tile of keys after tile; a strip of query
 * rows goes through scores, softmax and the product with v while its scores stay in the first-level
 * cache.  A block of rows carries largest score, sum and values from tile to tile (the online
 * softmax of FlashAttention, Dao et al. 2022).  Up to CPU_ATTENTION_KEYS keys are one tile, packed
 * once for all rows.  What lies outside a row's window is never computed when positions are row
 * numbers.  The order of every sum depends on the sequence alone, not on threads or batch.  Few
 * rows: decode_body.h.
 *
 * With MICRO_PER 2 (attention_bf16_<isa>.c) queries, keys, weights and values are multiplied as
 * pairs of bf16. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"

#if !defined(ATTENTION_HEAD)
#define ATTENTION_HEAD CPU_NAME(attention, head)
#endif
/* Exponentials; in both passes the same, since it depends on a strip which one a row takes. */
#if MICRO_PER == 2
#define ATTENTION_EXP2(x) v_exp2_weight(x)
#else
#define ATTENTION_EXP2(x) v_exp2_negative(x)
#endif

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* ---- products ----
 * An ISA with tile registers (attention_bf16_amx.c) defines ATTENTION_UNIT, the elements of k that
 * it multiplies at a time, to which both factors are filled up with zeros; ATTENTION_PANELS, the
 * panels that it multiplies at a time; attention_multiply; ATTENTION_BEGIN(rows, dk), which comes
 * before products of so many rows, and ATTENTION_END(), behind all; ATTENTION_KEPT, up to which
 * depth attention_multiply_kept keeps queries in registers, and ATTENTION_KEYS(dk), the depth of
 * panels of keys. */
#if !defined(ATTENTION_UNIT)
#define ATTENTION_UNIT            1
#define ATTENTION_PANELS          1
#define ATTENTION_BEGIN(rows, dk) (void)0
#define ATTENTION_END()           (void)0
/* c[rows, columns] = a[rows, depth] b, panels `stride` floats apart; columns of whole panels may be
 * written. */
static inline void attention_multiply(int64_t rows, int64_t depth, const float *a, int64_t lda,
                                      const float *b, int64_t stride, int64_t columns, float *c,
                                      int64_t ldc) {
  (void)stride, (void)columns; /* one panel */
  micro_of_rows[rows](depth, a, lda, b, c, ldc, b, 0);
}
#endif
static inline int64_t attention_depth(int64_t n) {
  return round_up(micro_depth(n), ATTENTION_UNIT);
}
#if !defined(ATTENTION_KEYS)
#define ATTENTION_KEYS(dk) attention_depth(dk)
#endif

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

/* Key rows j .. of the sequence, at most GEMM_COLS, become columns of a panel [depth of
 * dk][GEMM_COLS]. */
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
      for (int64_t i = 0; i < V && d + i < a->dk; i += MICRO_PER)
        v_store(panel + (d + i) / MICRO_PER * GEMM_COLS + c, MICRO_PAIR_UP(x[i], x[(i + 1) % V]));
    }
    for (int64_t d = micro_depth(a->dk); d < ATTENTION_KEYS(a->dk); d++)
      v_store(panel + d * GEMM_COLS + c, v_zero());
  }
}

/* Columns c .. of value row j, fewer than `to`; else zeros. */
V_INLINE vf value_at(const int kv, const cpu_attention *a, int64_t j, int64_t to, int64_t c) {
  if (j >= to || c >= a->dv) return v_zero();
  const char *row = cpu_value_at(a, j);
  const vf x = load_kv(kv, row, c, a->dv - c);
  return kv == ACCEL_PLUGIN_I8 ? v_mul(x, v_set(scale_of(kv, row, a->v_scale))) : x;
}

/* Value rows from .. to-1 as panels [depth of count][GEMM_COLS], `stride` floats from one to the
 * next. */
V_INLINE void pack_values(const int kv, const cpu_attention *a, int64_t from, int64_t to,
                          int64_t stride, float *panels) {
  const int64_t end = from + MICRO_PER * attention_depth(to - from);
  for (int64_t j = from; j < end; j += MICRO_PER)
    for (int64_t c = 0; c < a->dv; c += GEMM_COLS) {
      float *at = panels + c / GEMM_COLS * stride + (j - from) / MICRO_PER * GEMM_COLS;
      MICRO_UNROLL for (int64_t i = 0; i < GEMM_COLS; i += V) {
        v_store(at + i,
                MICRO_PAIR_UP(value_at(kv, a, j, to, c + i), value_at(kv, a, j + 1, to, c + i)));
      }
    }
}

/* c[rows, panels * GEMM_COLS] = a b, b packed */
static void product(int64_t rows, int64_t k, const float *a, int64_t lda, const float *b,
                    int64_t first, int64_t last, float *c, int64_t ldc) {
  const int64_t stride = k * GEMM_COLS;
  for (int64_t p = first, panels; p < last; p += panels) {
    panels = last - p < ATTENTION_PANELS ? last - p : ATTENTION_PANELS;
    for (int64_t i = 0, n; i < rows; i += n) {
      n = tile_height(rows - i, GEMM_ROWS);
      attention_multiply(n, k, a + i * lda, lda, b + p * stride, stride, panels * GEMM_COLS,
                         c + i * ldc + p * GEMM_COLS, ldc);
    }
  }
}

/* A strip of query rows, and the packed keys and values that it shares with others. */
typedef struct block {
  const cpu_attention *a;
  float *k, *v, *q, *score, *position, *key_side, *total; /* in the workspace; q: see queries() */
  int64_t lds, keys, strip;     /* floats from a row of scores to the next, keys of a tile */
  int64_t row, rows, low, high; /* query rows of the strip; keys that any of them sees */
  int64_t tile, tile_end;       /* keys at hand: k, v, position and scores count from `tile` */
  bool plain;                   /* is_plain() */
  float scale, late;            /* of products at once, and in the exponential; one of them is 1 */
} block;

/* Whether scores are products times a positive scale, or hidden: the scale can then wait for the
 * exponential, and does so for both, so that a row gets the same bits by row numbers and by
 * positions. */
static bool scales_late(const cpu_attention *a) {
  return !(a->softcap > 0) && !a->bias && !a->relative && !a->distance && a->slope == 0.0f &&
         !a->relative_row && a->scale > 0;
}

/* Whether scores are products times a positive scale, nothing else. */
static bool is_plain(const cpu_attention *a) {
  return scales_late(a) && !a->key_position && !a->mask;
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
    /* q . rel_k[r] */
    const float *side = b->score + b->rows * b->lds + (i - b->row) * a->relative_columns;
    for (int64_t j = low; j < high; j++) s[j] += a->scale * side[index[-j] - first];
  }
  if (a->rel_q)
    for (int64_t j = low; j < high; j++)
      s[j] += a->scale * b->key_side[j * a->relative_columns + index[-j] - first];
}

static int64_t query_at(const cpu_attention *a, int64_t i) {
  return a->query_position ? a->query_position[i] : i * a->step + a->shift;
}
static int64_t key_at(const cpu_attention *a, int64_t j) {
  return a->key_position ? a->key_position[j] : j;
}
static float position_of(const void *a, int64_t j) {
  const cpu_attention *g = a;
  return j < g->keys ? (float)key_at(g, j) : 0.0f;
}

/* Everything that changes the scores s of row i against keys tile + low .. after the product, which
 * is multiplied by `by`; position[] holds the keys'. */
static void adjust(const cpu_attention *a, int64_t i, float *s, int64_t tile, int64_t low,
                   int64_t high, float by, const float *position) {
  const vf scale = v_set(by), hidden = v_set(-INFINITY), here = v_set((float)query_at(a, i)),
           slope = v_set(a->slope);
  const bool alibi = position && !a->key_position && !(a->softcap > 0) && !a->bias && !a->relative;
  const float *dense = a->bias ? a->bias + i * a->bias_row + tile * a->bias_column : NULL;
  const float *relative = a->relative ? a->relative + a->relative_origin - i + tile : NULL;
  for (int64_t j = low / V * V; alibi && j < high; j += V)
    v_store(s + j, v_fma(slope, v_sub(v_load(position + j), here), v_mul(v_load(s + j), scale)));
  for (int64_t j = low / V * V; !alibi && j < high; j += V) {
    vf x = v_mul(v_load(s + j), scale);
    if (a->softcap > 0) x = v_mul(v_set(a->softcap), v_tanh(v_div(x, v_set(a->softcap))));
    if (dense)
      x = v_add(x, a->bias_column ? v_loadn(dense + j, a->keys - tile - j) : v_set(*dense));
    if (relative) x = v_add(x, v_loadn(relative + j, a->keys - tile - j));
    if (position) {
      vf ahead = v_sub(v_load(position + j), here);
      if (a->slope != 0.0f) x = v_fma(slope, ahead, x);
      if (a->key_position && a->left >= 0)
        x = v_select(v_lt(ahead, v_set(-(float)a->left)), hidden, x);
      if (a->key_position && a->right >= 0)
        x = v_select(v_lt(v_set((float)a->right), ahead), hidden, x);
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
    adjust(a, i, s, b->tile, *low, *high, b->scale,
           a->key_position || a->slope != 0.0f ? b->position : NULL);
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
  float top, sum; /* largest score, or a little above, and sum of exponentials beside it */
} seen;

static seen nothing_seen(const cpu_attention *a, int64_t i) {
  if (!a->sinks || a->part || !(a->sinks[i * a->sink_step] > -INFINITY))
    return (seen){-INFINITY, 0.0f};
  return (seen){a->sinks[i * a->sink_step], 1.0f};
}

/* Moves on to a largest score of at least `top`; answers the factor of what was summed up before.
 * Where weights are rounded they stand beside a power of two: rounding then gives the same whatever
 * was the largest score so far. */
static float raise_to(seen *s, float top) {
  if (!(top > s->top)) return 1.0f;
#if MICRO_PER == 2
  top = ceilf(top * LOG2_E) / LOG2_E;
#endif
  const float factor = s->top == -INFINITY ? 0.0f : expf(s->top - top);
  *s = (seen){top, s->sum * factor};
  return factor;
}

/* Scores s[low .. high) (whole vectors) times `factor` to exponentials beside `top`; answers their
 * sum. */
V_INLINE float weigh(float *s, int64_t low, int64_t high, float factor, float top) {
  vf shift = v_set(top == -INFINITY ? 0.0f : -top * LOG2_E), scale = v_set(factor * LOG2_E),
     sum = v_zero();
  for (int64_t j = low / V * V; j < high; j += V) {
    vf e = ATTENTION_EXP2(v_fma(v_load(s + j), scale, shift));
    v_store(s + j, e);
    sum = v_add(sum, e);
  }
  return v_sum(sum);
}

#if MICRO_PER == 2
/* The same of all of s[low .. high), exponentials as bf16 over the scores as v_narrow_row has them. */
V_INLINE float weigh_narrow(float *s, int64_t low, int64_t high, int64_t padded, float factor,
                            float top) {
  vf shift = v_set(top == -INFINITY ? 0.0f : -top * LOG2_E), scale = v_set(factor * LOG2_E),
     sum = v_zero();
  const int64_t end = round_up(high, V);
  float *to = s + low;
  int64_t j = low;
  for (; j < end; j += 2 * V, to += V) {
    vf a = ATTENTION_EXP2(v_fma(v_load(s + j), scale, shift)), b = v_zero();
    sum = v_add(sum, a);
    if (j + V < end) {
      b = ATTENTION_EXP2(v_fma(v_load(s + j + V), scale, shift));
      sum = v_add(sum, b);
    }
    v_store(to, v_narrow(a, b));
  }
  for (; j < low + padded; j += 2 * V, to += V) v_store(to, v_zero());
  return v_sum(sum);
}
#endif

/* NaN where a score was */
static float inverse_of(const seen *s) { return s->sum == 0.0f ? 0.0f : 1.0f / s->sum; }

static void write_probabilities(const block *b, int64_t i, float inverse) {
  const cpu_attention *a = b->a;
  const float *s = b->score + (i - b->row) * b->lds;
  float *to = a->probs + i * a->ldp;
  for (int64_t j = 0; j < a->probs_columns; j++)
    to[j] = j >= b->low && j < b->high && j < a->keys ? s[j] * inverse : 0.0f;
}

/* ---- values ---- */

/* total[rows][columns] = total * factor + weights v of this tile; total NULL: y = weights v *
 * factor.  narrow: the weights are bf16 already. */
static void values(const block *b, float *total, int64_t columns, const float *factor,
                   bool narrow) {
  const cpu_attention *a = b->a;
  enum { WIDTH = ATTENTION_PANELS * GEMM_COLS };
  float tile[GEMM_ROWS * WIDTH] __attribute__((aligned(64)));
  const int64_t low = b->low > b->tile ? b->low - b->tile : 0,
                high = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile,
                depth = attention_depth(high - low), stride = b->keys / MICRO_PER * GEMM_COLS;
#if MICRO_PER == 2
  for (int64_t i = 0; !narrow && i < b->rows; i++) /* over themselves */
    v_narrow_row(b->score + i * b->lds + low, high - low, MICRO_PER * depth,
                 b->score + i * b->lds + low);
#else
  (void)narrow;
#endif
  for (int64_t d = 0; d < a->dv; d += WIDTH)
    for (int64_t i = 0, n; i < b->rows; i += n) {
      n = tile_height(b->rows - i, GEMM_ROWS);
      attention_multiply(n, depth, b->score + i * b->lds + low, b->lds,
                         b->v + d / GEMM_COLS * stride + low / MICRO_PER * GEMM_COLS, stride,
                         a->dv - d < WIDTH ? a->dv - d : WIDTH, tile, WIDTH);
      for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < WIDTH && d + j < a->dv; j += V) {
          vf x = v_load(tile + r * WIDTH + j), f = v_set(factor[r + i]);
          if (total)
            v_store(total + (i + r) * columns + d + j,
                    v_fma(v_load(total + (i + r) * columns + d + j), f, x));
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
  for (int64_t d = 0; d < a->dv; d += V)
    v_storen(y + d, v_mul(v_loadn(total + d, a->dv - d), f), a->dv - d);
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
#define PACK(kv)                                                       \
  for (int64_t j = from; j < high; j += GEMM_COLS)                     \
    pack_keys(kv, a, j, b->k + (j - b->tile) * ATTENTION_KEYS(a->dk)); \
  pack_values(kv, a, from, high, b->keys / MICRO_PER * GEMM_COLS,      \
              b->v + (from - b->tile) / MICRO_PER * GEMM_COLS)
  FOR_KV(PACK)
#undef PACK
  for (int64_t j = 0; (a->key_position || a->slope != 0.0f) && j < b->keys; j++)
    b->position[j] = position_of(a, b->tile + j);
}

/* The strip's rows of q as they are multiplied, *ldq apart: as pairs, further apart, or where they
 * are. */
static const float *queries(const block *b, int64_t *ldq) {
  const cpu_attention *a = b->a;
  ATTENTION_BEGIN(b->rows, a->dk);
  const float *q = a->q + b->row * a->ldq;
#if MICRO_PER == 2
  *ldq = round_up(attention_depth(a->dk), V / 2);
  for (int64_t i = 0; i < b->rows; i++)
    v_narrow_row(q + i * a->ldq, a->dk, MICRO_PER * attention_depth(a->dk), b->q + i * *ldq);
#else
  *ldq = a->ldq;
  if (b->rows <= CPU_WAYS || !cpu_aliases_l1(a->ldq * (int64_t)sizeof *q)) return q;
  *ldq = cpu_act_row(CPU_ACT_F32, a->dk);
  for (int64_t i = 0; i < b->rows; i++)
    memcpy(b->q + i * *ldq, q + i * a->ldq, (size_t)a->dk * sizeof *q);
#endif
  return b->q;
}

/* q: queries(b, &ldq) */
static void scores(const block *b, const float *q, int64_t ldq) {
  const cpu_attention *a = b->a;
  const int64_t low = b->low > b->tile ? b->low - b->tile : 0,
                high = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile;
  const int64_t first = low / GEMM_COLS, last = (high + GEMM_COLS - 1) / GEMM_COLS,
                depth = attention_depth(a->dk);
#if defined(ATTENTION_KEPT)
  if (depth <= ATTENTION_KEPT) {
    const int64_t stride = ATTENTION_KEYS(a->dk) * GEMM_COLS;
    attention_multiply_kept(depth, q, ldq, b->k + first * stride, stride, last - first,
                            b->score + first * GEMM_COLS, b->lds);
    return;
  }
#endif
  product(b->rows, depth, q, ldq, b->k, first, last, b->score, b->lds);
  if (a->rel_k)
    product(b->rows, a->dk, q, ldq, a->rel_k, 0, a->relative_columns / GEMM_COLS,
            b->score + b->rows * b->lds, a->relative_columns);
}

/* Scores of all rows through the softmax; factor[] of what they had seen before.  Step by step for
 * all of them: what a row waits for comes while others are at it.  true: the weights are bf16, which
 * they become where all rows see all of the strip's keys and nobody asks for them. */
static bool softmax_strip(const block *b, seen *s, float *factor) {
  const float scale = b->late;
  int64_t low[CPU_ATTENTION_STRIP], high[CPU_ATTENTION_STRIP];
  for (int64_t r = 0; r < b->rows; r++) finish_scores(b, b->row + r, &low[r], &high[r]);
  for (int64_t r = 0; r < b->rows; r++)
    factor[r] = raise_to(&s[r], largest_score(b->score + r * b->lds, low[r], high[r]) * scale);
#if MICRO_PER == 2
  const int64_t from = b->low > b->tile ? b->low - b->tile : 0,
                to = (b->high < b->tile_end ? b->high : b->tile_end) - b->tile;
  bool all = !b->a->probs;
  for (int64_t r = 0; r < b->rows; r++) all &= low[r] == from && high[r] == to;
  for (int64_t r = 0; all && r < b->rows; r++)
    s[r].sum += weigh_narrow(b->score + r * b->lds, from, to,
                             MICRO_PER * attention_depth(to - from), scale, s[r].top);
  if (all) return true;
#endif
  for (int64_t r = 0; r < b->rows; r++)
    s[r].sum += weigh(b->score + r * b->lds, low[r], high[r], scale, s[r].top);
  return false;
}

/* The strip from `row` on, strips being as equal as whole rows allow, and the keys that its rows
 * see. */
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
  int64_t ldq;
  const float *q = queries(b, &ldq);
  scores(b, q, ldq);
  for (int64_t r = 0; r < b->rows; r++) s[r] = nothing_seen(a, b->row + r);
  const bool narrow = softmax_strip(b, s, factor);
  for (int64_t r = 0; r < b->rows; r++) factor[r] = inverse_of(&s[r]);
  for (int64_t r = 0; a->probs && r < b->rows; r++) write_probabilities(b, b->row + r, factor[r]);
  values(b, NULL, 0, factor, narrow);
}

/* The tile of keys from `tile` on, number `index` of those that are packed. */
static void tile_at(block *b, const cpu_attention_plan *plan, float *workspace, int64_t tile,
                    int64_t index) {
  const int64_t end = tile + b->keys;
  b->tile = tile;
  b->tile_end = end < b->a->keys ? end : b->a->keys;
  b->k = workspace + index * plan->k_tile;
  b->v = workspace + plan->v + index * plan->v_tile;
  b->position = workspace + plan->position + index * plan->keys;
}

/* Packs the tiles from `from` on, of keys [low, high). */
static void pack_tiles(block *b, const cpu_attention_plan *plan, float *workspace, int64_t from,
                       int64_t low, int64_t high) {
  for (int64_t tile = from, i = 0; tile < high; tile += b->keys, i++) {
    tile_at(b, plan, workspace, tile, i);
    pack_tile(b, low > tile ? low : tile, high < b->tile_end ? high : b->tile_end);
  }
}

/* The strip's rows against the packed tiles, keys [from, to). */
static void run_tiles(block *b, const cpu_attention_plan *plan, float *workspace, int64_t from,
                      int64_t to, seen *s, float *total) {
  float factor[CPU_ATTENTION_STRIP];
  int64_t ldq;
  const float *q = queries(b, &ldq);
  for (int64_t tile = from, i = 0; tile < to; tile += b->keys, i++) {
    tile_at(b, plan, workspace, tile, i);
    if (b->low >= b->tile_end || b->high <= b->tile) continue;
    scores(b, q, ldq);
    const bool narrow = softmax_strip(b, s, factor);
    values(b, total, plan->columns, factor, narrow);
  }
}

/* Rows [row, row_end): as many as there is room for sums of, against as many tiles as there is room
 * for, then the next tiles. */
static void run_block(block *b, const cpu_attention_plan *plan, float *workspace, int64_t row,
                      int64_t row_end) {
  const cpu_attention *a = b->a;
  const int64_t columns = plan->columns, each = plan->tiles * b->keys;
  seen s[CPU_ATTENTION_ROWS];
  int64_t low, high, unused;
  span_of(a, row, &low, &unused);
  span_of(a, row_end - 1, &unused, &high);
  for (int64_t r = row; r < row_end; r++) s[r - row] = nothing_seen(a, r);
  for (int64_t i = 0; i < (row_end - row) * columns; i += V) v_store(b->total + i, v_zero());
  for (int64_t from = low / b->keys * b->keys; from < high; from += each) {
    const int64_t to = from + each < high ? from + each : high;
    pack_tiles(b, plan, workspace, from, low > from ? low : from, to);
    for (int64_t r = row; r < row_end; r += b->rows) {
      strip_at(b, r, row_end);
      run_tiles(b, plan, workspace, from, to, s + (r - row), b->total + (r - row) * columns);
    }
  }
  for (int64_t r = row; r < row_end; r++)
    hand_over(a, r, &s[r - row], b->total + (r - row) * columns);
}

/* Rows [row, row_end), where all tiles that they see are packed together. */
static void run_packed(block *b, const cpu_attention_plan *plan, float *workspace, int64_t row,
                       int64_t row_end) {
  const cpu_attention *a = b->a;
  const int64_t columns = plan->columns;
  seen s[CPU_ATTENTION_STRIP];
  int64_t low, high, unused;
  span_of(a, row, &low, &unused);
  span_of(a, row_end - 1, &unused, &high);
  const int64_t from = low / b->keys * b->keys;
  pack_tiles(b, plan, workspace, from, low, high);
  for (int64_t r = row; r < row_end; r += b->rows) {
    strip_at(b, r, row_end);
    for (int64_t i = 0; i < b->rows; i++) s[i] = nothing_seen(a, r + i);
    for (int64_t i = 0; i < b->rows * columns; i += V) v_store(b->total + i, v_zero());
    run_tiles(b, plan, workspace, from, high, s, b->total);
    for (int64_t i = 0; i < b->rows; i++) hand_over(a, r + i, &s[i], b->total + i * columns);
  }
}

void ATTENTION_HEAD(const cpu_attention *a, int64_t row, int64_t row_end, float *workspace) {
  const bool whole = a->probs || a->relative_row;
  const cpu_attention_form form = ATTENTION_UNIT == 1 ? CPU_ATTENTION_PLAIN
                                  : a->page           ? CPU_ATTENTION_REGISTERS_PAGES
                                                      : CPU_ATTENTION_REGISTERS;
  const cpu_attention_plan plan = cpu_attention_layout(a->keys, a->dk, a->dv, a->relative_columns,
                                                       whole, form, GEMM_ROWS, GEMM_COLS);
  const bool late = scales_late(a);
  block b = {.a = a,
             .lds = plan.lds,
             .keys = plan.keys,
             .strip = plan.strip,
             .plain = is_plain(a),
             .scale = late ? 1.0f : a->scale,
             .late = late ? a->scale : 1.0f};
  const bool tiles = a->part || plan.keys < a->keys;
  tile_at(&b, &plan, workspace, 0, 0);
  b.key_side = workspace + plan.key_side;
  b.score = workspace + plan.score;
  b.total = workspace + plan.total;
  b.q = workspace + plan.q;
  if (a->keys > 0 && !tiles) pack_tile(&b, 0, a->keys);
  if (a->keys > 0 && a->rel_q)
    product(a->keys, a->dk, a->k, a->ldk, a->rel_q, 0, a->relative_columns / GEMM_COLS, b.key_side,
            a->relative_columns);
  if (tiles && plan.tiles * plan.keys >= a->keys) {
    run_packed(&b, &plan, workspace, row, row_end);
    row = row_end;
  }
  for (; tiles && row < row_end; row += plan.rows)
    run_block(&b, &plan, workspace, row, row_end - row < plan.rows ? row_end : row + plan.rows);
  for (; row < row_end; row += b.rows) {
    strip_at(&b, row, row_end);
    run_strip(&b);
  }
  ATTENTION_END();
}
