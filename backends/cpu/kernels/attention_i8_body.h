/* attention_i8_body.h - attention of one head of one sequence on 8-bit codes (kernels.h:
 * cpu_attention_i8_fn), included by attention_i8_<isa>.c after dot_<isa>.h.
 *
 * Products are sums of codes, exact in any order; everything between them is fp32.
 *   q   a scale for each row: code = round(q / scale) + 128
 *   k   less the middle of each channel's range, which changes a row's scores by the same number and so no weight; then a
 *       scale for each key
 *   weights   exponentials beside the row's largest, 0..255; divided by the sum of what they were before rounding
 *   v   less the middle of each channel's range, which is added to the result; a scale for each channel
 * What rounding takes from weights thus goes to the middle of v.  A scale is NaN where it stands
 * for an infinity or NaN; keys above 1e33 may give NaN, too.
 *
 * A panel of keys or values begins with scale[COLS] and offset[COLS] as fp32; codes are [rows /
 * 4][COLS][4].  Scores are scale * sum + offset, -infinity for keys that are not there or
 * hidden. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/dot_body.h"

enum { ROUND = 4, HEAD = 2 * GEMM_COLS * (int)sizeof(float), ZERO = 128 };
_Static_assert(GEMM_ROWS <= CPU_ATTENTION_I8_ROWS && CPU_ATTENTION_I8_COLS % GEMM_COLS == 0,
               "the plan holds for this tile");

/* has an inverse, and can be multiplied with another one */
static const float LEAST_SCALE = 1e-30f;

typedef struct head {
  const cpu_attention *a;
  int64_t keys, dk, dv; /* in whole panels, whole rounds, whole panels */
  char *k, *v;
  float *middle, *turned, *score;
  uint8_t *q, *code;
  bool plain; /* scores are products times a positive scale, which waits for the exponential */
} head;

/* ---- keys and values ---- */

/* Of V columns of x, `left` of them there: middle of the range, half its width, and NaN for those
 * with an infinity or NaN, else 0. */
V_INLINE void range_of(const float *x, int64_t ld, int64_t rows, int64_t left, vf *middle, vf *half,
                       vf *bad) {
  vf low = v_set(INFINITY), high = v_set(-INFINITY);
  *bad = v_zero();
  for (int64_t i = 0; i < rows; i++) {
    const vf y = v_loadn(x + i * ld, left);
    low = v_min(low, y);
    high = v_max(high, y);
    *bad = v_fma(y, v_zero(), *bad);
  }
  low = v_mul(v_set(0.5f), low);
  high = v_mul(v_set(0.5f), high);
  *middle = v_add(low, high);
  *half = v_sub(high, low);
}

/* V keys from j on, less the middles, as columns: turned[d][V]; their scales. */
V_INLINE vf turn(const head *h, int64_t j) {
  const cpu_attention *a = h->a;
  vf x[V], largest = v_zero(), bad = v_zero();
  for (int64_t d = 0; d < h->dk; d += V) {
    const float *from = (const float *)a->k + j * a->ldk + d;
    const vf middle = v_load(h->middle + d);
    for (int64_t i = 0; i < V; i++)
      x[i] = j + i < a->keys && d < a->dk ? v_sub(v_loadn(from + i * a->ldk, a->dk - d), middle)
                                          : v_zero();
    v_transpose(x);
    for (int64_t i = 0; i < V; i++) {
      v_store(h->turned + (d + i) * V, x[i]);
      largest = v_max(largest, v_abs(x[i]));
      bad = v_fma(x[i], v_zero(), bad);
    }
  }
  return v_add(v_max(v_set(LEAST_SCALE), v_mul(largest, v_set(1.0f / 127.0f))), bad);
}

/* Of V keys from j on, those that are not there or are hidden. */
static void hide(const cpu_attention *a, int64_t j, float *scale, float *offset) {
  for (int64_t i = 0; (a->mask || j + V > a->keys) && i < V; i++)
    if (j + i >= a->keys || (a->mask && !a->mask[j + i])) scale[i] = 0.0f, offset[i] = -INFINITY;
}

static void pack_keys(const head *h) {
  const cpu_attention *a = h->a;
  const vi ones = i_bytes(1);
  vf half, bad, middle;
  for (int64_t d = 0; d < h->dk; d += V) {
    middle = v_zero();
    if (d < a->dk)
      range_of((const float *)a->k + d, a->ldk, a->keys, a->dk - d, &middle, &half, &bad);
    /* the key that spoils it may be hidden */
    v_store(h->middle + d, v_select(v_lt(v_abs(middle), v_set(INFINITY)), middle, v_zero()));
  }
  for (int64_t j = 0; j < h->keys; j += V) {
    char *panel = h->k + j / GEMM_COLS * (HEAD + h->dk * GEMM_COLS),
         *code = panel + HEAD + j % GEMM_COLS * 4;
    float *scale = (float *)(void *)panel + j % GEMM_COLS, *offset = scale + GEMM_COLS;
    const vf step = turn(h, j), inverse = v_div(v_set(1.0f), step);
    vi sum = i_zero();
    for (int64_t d = 0; d < h->dk; d += 4) {
      const float *x = h->turned + d * V;
      const vi four =
          i_codes4(v_mul(v_load(x), inverse), v_mul(v_load(x + V), inverse),
                   v_mul(v_load(x + 2 * V), inverse), v_mul(v_load(x + 3 * V), inverse));
      i_store(code + d * GEMM_COLS, four);
      i_dot(&sum, ones, four);
    }
    v_store(scale, step);
    v_store(offset, v_mul(v_mul(v_set(-ZERO), step), i_float(sum)));
    hide(a, j, scale, offset);
  }
}

/* V channels from d on; a range that is next to nothing beside its middle gets a step that the
 * middle's rounding allows. */
V_INLINE void pack_channels(const head *h, int64_t d) {
  const cpu_attention *a = h->a;
  const float *v = (const float *)a->v + d;
  const int64_t left = a->dv - d;
  char *panel = h->v + d / GEMM_COLS * (HEAD + h->keys * GEMM_COLS),
       *code = panel + HEAD + d % GEMM_COLS * 4;
  float *scale = (float *)(void *)panel + d % GEMM_COLS, *offset = scale + GEMM_COLS;
  vf middle = v_zero(), half = v_zero(), bad = v_zero(), x[4];
  if (left > 0) range_of(v, a->ldv, a->keys, left, &middle, &half, &bad);
  const vf least = v_max(v_set(LEAST_SCALE), v_mul(v_abs(middle), v_set(1e-6f))),
           step = v_add(v_max(least, v_mul(half, v_set(1.0f / 127.0f))), bad),
           inverse = v_div(v_set(1.0f), step);
  for (int64_t j = 0; j < h->keys; j += 4) {
    for (int64_t i = 0; i < 4; i++)
      x[i] = j + i < a->keys && left > 0
                 ? v_mul(v_sub(v_loadn(v + (j + i) * a->ldv, left), middle), inverse)
                 : v_zero();
    i_store(code + j * GEMM_COLS, i_codes4(x[0], x[1], x[2], x[3]));
  }
  v_store(scale, step);
  v_store(offset, middle);
}

/* ---- products ---- */

/* A register tile of x[rows][ldx] with a panel of `steps` four rows.  factor NULL: y = scale * sum
 * + offset, whole panels; else y = factor[row] * (scale * sum) + offset, `cols` columns. */
V_INLINE void multiply(const int rows, int64_t steps, const uint8_t *x, int64_t ldx,
                       const char *panel, const float *factor, float *y, int64_t ldy,
                       int64_t cols) {
  const float *scale = (const float *)(const void *)panel, *offset = scale + GEMM_COLS;
  dot_sums sum;
  dot_rows(rows, dot_chains(rows), ROUND, steps, x, ldx, panel + HEAD, NULL, 0, sum);
  if (!factor) {
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
        v_store(y + i * ldy + j * V, v_fma(i_float(sum[i][j * DOT_CHAINS]), v_load(scale + j * V),
                                           v_load(offset + j * V)));
      }
    }
    return;
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      const vf value = v_mul(i_float(sum[i][j * DOT_CHAINS]), v_load(scale + j * V));
      if (cols > j * V)
        v_storen(y + i * ldy + j * V, v_fma(value, v_set(factor[i]), v_load(offset + j * V)),
                 cols - j * V);
    }
  }
}

typedef void tile_fn(int64_t steps, const uint8_t *x, int64_t ldx, const char *panel,
                     const float *factor, float *y, int64_t ldy, int64_t cols);
#define DOT_TILE(rows)                                                                     \
  static void tile_##rows(int64_t steps, const uint8_t *x, int64_t ldx, const char *panel, \
                          const float *factor, float *y, int64_t ldy, int64_t cols) {      \
    multiply(rows, steps, x, ldx, panel, factor, y, ldy, cols);                            \
  }
DOT_TILES

/* ---- rows ---- */

/* Codes of a row of q; answers what its sums are to be multiplied with. */
static float pack_query(const head *h, int64_t i, uint8_t *code) {
  const cpu_attention *a = h->a;
  const float *q = a->q + i * a->ldq;
  vf largest = v_zero(), bad = v_zero();
  for (int64_t d = 0; d < a->dk; d += V) {
    const vf x = v_loadn(q + d, a->dk - d);
    largest = v_max(largest, v_abs(x));
    bad = v_fma(x, v_zero(), bad);
  }
  const float step = fmaxf(LEAST_SCALE, v_largest(largest) / 127.0f);
  const vf inverse = v_set(1.0f / step), zero = v_set(ZERO);
  for (int64_t d = 0; d < h->dk; d += V)
    v_codes(code + d, v_fma(d < a->dk ? v_loadn(q + d, a->dk - d) : v_zero(), inverse, zero));
  return a->scale * (step + v_sum(bad));
}

/* Scores of row i times `factor`, with what is added to them. */
static void add_bias(const head *h, int64_t i, float factor, float *s) {
  const cpu_attention *a = h->a;
  const float *dense = a->bias ? a->bias + i * a->bias_row : NULL,
              *relative = a->relative ? a->relative + a->relative_origin - i : NULL;
  for (int64_t j = 0; j < a->keys; j += V) {
    vf x = v_mul(v_load(s + j), v_set(factor));
    if (dense) x = v_add(x, a->bias_column ? v_loadn(dense + j, a->keys - j) : v_set(*dense));
    if (relative) x = v_add(x, v_loadn(relative + j, a->keys - j));
    v_store(s + j, x);
  }
}

static float largest_score(const float *s, int64_t n) {
  vf most[2] = {v_set(-INFINITY), v_set(-INFINITY)};
  for (int64_t j = 0; j < n; j += 2 * V)
    for (int i = 0; i < 2; i++) most[i] = v_max(v_load(s + j + i * V), most[i]); /* never NaN */
  return v_largest(v_max(most[0], most[1]));
}

/* 255 2^x for x <= 0, to 8e-5 of it; what is below 2^-126 is that. */
V_INLINE vf weight_of(vf x) {
  const vf magic = v_set(V_MAGIC), y = v_max(v_set(-126.0f), x), m = v_add(y, magic),
           f = v_sub(y, v_sub(m, magic));
  vf p = v_set(14.068776f);
  p = v_fma(p, f, v_set(61.865837f));
  p = v_fma(p, f, v_set(176.78156f));
  p = v_fma(p, f, v_set(254.98166f));
  return v_mul(p, v_power(m));
}

/* Scores s[n] times `factor` to weights beside `top`; answers the sum of these before they were
 * rounded. */
static float weigh(const float *s, int64_t n, float factor, float top, uint8_t *code) {
  const float most = top * (factor * LOG2_E);
  /* NaN when it is too large */
  const vf scale = v_set(factor * LOG2_E), shift = v_set(most * 0.0f - most);
  vf sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t j = 0;
  for (; j + 4 * V <= n; j += 4 * V) {
    vf w[4];
    MICRO_UNROLL for (int i = 0; i < 4; i++) {
      w[i] = weight_of(v_fma(v_load(s + j + i * V), scale, shift));
      sum[i] = v_add(sum[i], w[i]);
    }
    v_codes4(255, code + j, w[0], w[1], w[2], w[3]);
  }
  for (; j < n; j += V) {
    const vf w = weight_of(v_fma(v_load(s + j), scale, shift));
    sum[0] = v_add(sum[0], w);
    v_codes(code + j, w);
  }
  return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

/* Asks for rows from .. to-1 of what lies `cols` columns further: the next head, most likely. */
V_INLINE void ask_next(const float *x, int64_t ld, int64_t from, int64_t to, int64_t cols) {
  for (int64_t i = from; i < to; i++)
    for (int64_t j = 0; j < cols; j += 64 / (int64_t)sizeof(float))
      v_prefetch_far(x + i * ld + cols + j);
}

/* y of rows i .. i + rows-1. */
static void run_strip(const head *h, int64_t i, int64_t rows) {
  const cpu_attention *a = h->a;
  float factor[GEMM_ROWS], top[GEMM_ROWS];
  for (int64_t r = 0; r < rows; r++) factor[r] = pack_query(h, i + r, h->q + r * h->dk);
  for (int64_t j = 0; j < h->keys; j += GEMM_COLS)
    tile_of[rows](h->dk / 4, h->q, h->dk, h->k + j / GEMM_COLS * (HEAD + h->dk * GEMM_COLS), NULL,
                  h->score + j, h->keys, GEMM_COLS);
  for (int64_t r = 0; !h->plain && r < rows; r++) {
    add_bias(h, i + r, factor[r], h->score + r * h->keys);
    factor[r] = 1.0f;
  }
  for (int64_t r = 0; r < rows; r++) top[r] = largest_score(h->score + r * h->keys, h->keys);
  for (int64_t r = 0; r < rows; r++) {
    const float sum = weigh(h->score + r * h->keys, h->keys, factor[r],
                            top[r] == -INFINITY ? 0.0f : top[r], h->code + r * h->keys);
    factor[r] = 1.0f / sum;
  }
  for (int64_t d = 0; d < a->dv; d += GEMM_COLS)
    tile_of[rows](h->keys / 4, h->code, h->keys,
                  h->v + d / GEMM_COLS * (HEAD + h->keys * GEMM_COLS), factor,
                  a->y + i * a->ldy + d, a->ldy, a->dv - d);
  for (int64_t r = 0; r < rows; r++) /* nothing was seen; NaN stays */
    if (top[r] == -INFINITY && factor[r] > 0)
      memset(a->y + (i + r) * a->ldy, 0, (size_t)a->dv * sizeof(float));
}

void DOT_NAME(f32, attention_i8, head)(const cpu_attention *a, int64_t row, int64_t row_end,
                                       float *workspace) {
  const cpu_attention_i8_plan p = cpu_attention_i8_layout(a->keys, a->dk, a->dv);
  char *scratch = (char *)workspace;
  const head h = {.a = a,
                  .keys = p.keys,
                  .dk = p.dk,
                  .dv = p.dv,
                  .k = scratch,
                  .v = scratch + p.v,
                  .middle = (float *)(void *)(scratch + p.middle),
                  .turned = (float *)(void *)(scratch + p.turned),
                  .score = (float *)(void *)(scratch + p.score),
                  .q = (uint8_t *)scratch + p.q,
                  .code = (uint8_t *)scratch + p.code,
                  .plain = !a->bias && !a->relative};
  if (row >= row_end) return;
  pack_keys(&h);
  for (int64_t d = 0; d < p.dv; d += V) pack_channels(&h, d);
  for (int64_t rows, first = row, done = 0, part; row < row_end; row += rows, done = part) {
    rows = tile_height(row_end - row, GEMM_ROWS);
    part = a->keys * (row + rows - first) / (row_end - first);
    ask_next(a->q, a->ldq, row, row + rows, a->dk);
    ask_next(a->k, a->ldk, done, part, a->dk);
    ask_next(a->v, a->ldv, done, part, a->dv);
    run_strip(&h, row, rows);
  }
}
