/* decode_pairs_body.h - decoding by products of pairs of 16 bits, included by decode_body.h where
 * an instruction set has them: over keys and values of 8 bits, as integers, or, with MICRO_PER 2
 * (decode_bf16), over those of bf16, as such.
 *
 * 8 bits: a row of q, and the weights of a chunk's values times their scales, become codes of 15
 * bits and a sign with one step for all (the largest is 32767); products with 8-bit codes are
 * summed up exactly in 32 bits: 512 columns, or 64 keys, of 32767 * 127 stay below 2^31.  The
 * codes' rounding, 2^-16 of the largest, is far below that of the cache itself.  A chunk of such
 * keys and its values fit into the first-level cache, so they are asked there (measured: 8 % over
 * the second).
 *
 * bf16: q and the weights are rounded as attention_bf16 rounds them, for the same results but for
 * the order of sums. */
#include "kernels/decode_chunk.h"

#if MICRO_PER == 2
enum { PAIRS_KV = ACCEL_PLUGIN_BF16 };
typedef vf pair_sums;
V_INLINE pair_sums pairs_none(void) { return v_zero(); }
V_INLINE vi pairs_at(const char *row, int64_t d) { return v_i_load(row + 2 * d); }
V_INLINE pair_sums pairs_add(pair_sums sum, vi a, vi b) { return v_pairs_dot_bf16(sum, a, b); }
V_INLINE vf pairs_total(pair_sums sum) { return sum; }

/* n floats as bf16; answers what one of these is worth. */
static float code(const float *x, int64_t n, int16_t *out) {
  v_narrow_row(x, n, n, out);
  return 1.0f;
}
#else
enum { PAIRS_KV = ACCEL_PLUGIN_I8 };
typedef vi pair_sums;
V_INLINE pair_sums pairs_none(void) { return v_i_zero(); }
V_INLINE vi pairs_at(const char *row, int64_t d) { return v_pairs_of_s8((const int8_t *)row + d); }
V_INLINE pair_sums pairs_add(pair_sums sum, vi a, vi b) { return v_pairs_dot(sum, a, b); }
V_INLINE vf pairs_total(pair_sums sum) { return v_of_i(sum); }

/* n floats, V at a time, as codes; answers their step.  Whatever is not finite makes the step
 * so. */
static float code(const float *x, int64_t n, int16_t *out) {
  vf most = v_zero(), none = v_zero();
  for (int64_t i = 0; i < n; i += V) {
    most = v_max(v_abs(v_load(x + i)), most);
    none = v_fma(v_load(x + i), v_zero(), none); /* 0, or NaN */
  }
  const float top = v_largest(most), other = v_sum(none);
  const vf times = v_set(top > 0.0f ? 32767.0f / top : 0.0f);
  for (int64_t i = 0; i < n; i += V) v_store_s16(out + i, v_mul(v_load(x + i), times));
  return top / 32767.0f + other;
}
#endif

static void code_rows(const cpu_attention *a, const float *q, int64_t rows, int16_t *codes,
                      float *unit) {
  for (int64_t r = 0; r < rows; r++) unit[r] = code(q + r * a->ldq, a->dk, codes + r * a->dk);
}

/* s[r][j] = q[r] . k[j] for j < n, anything up to a whole vector.  prefetch: meanwhile the values,
 * and keys to come. */
V_INLINE void dots_pairs(const int rows, const cpu_attention *a, const int16_t *q,
                         const float *unit, const chunk *at, bool prefetch, decode_scores *s) {
  const int64_t dk = a->dk, n = at->n;
  for (int64_t j = 0; j < n; j += V) {
    vf part[DECODE_FEW][V];
    float scale[V] = {0};
    for (int64_t c = 0; c < V; c++) {
      pair_sums sum[DECODE_FEW];
      MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] = pairs_none();
      if (j + c < n) {
        const char *row = at->k + (j + c) * at->k_row;
        if (prefetch) prefetch_row(at->v + (j + c) * at->v_row, at->v_bytes);
        if (prefetch && at->far_k) prefetch_row_far(at->far_k + (j + c) * at->k_row, at->k_bytes);
        for (int64_t d = 0; d < dk; d += 2 * V) {
          const vi k = pairs_at(row, d);
          MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] =
              pairs_add(sum[r], v_i_load(q + r * dk + d), k);
        }
        scale[c] = scale_of(PAIRS_KV, row, a->k_scale);
      }
      MICRO_UNROLL for (int r = 0; r < rows; r++) part[r][c] = pairs_total(sum[r]);
    }
    MICRO_UNROLL for (int r = 0; r < rows; r++)
        v_store(s[r] + j, v_mul(v_sums(part[r]), v_mul(v_load(scale), v_set(unit[r]))));
  }
}

/* total[r][d .. d + 2V groups) = total * factor + sum of w[r][j] v[j], w as codes
 * [rows][DECODE_KEYS] with step unit[r]; meanwhile prefetches the keys at `next`, and the values
 * after these. */
V_INLINE void mix_pairs(const int rows, const int groups, const int16_t *w, const float *unit,
                        const chunk *at, const char *next, int64_t d, const float *factor,
                        float *const *total) {
  pair_sums low[DECODE_ROWS][4], high[DECODE_ROWS][4];
  MICRO_UNROLL for (int r = 0; r < rows; r++) {
    MICRO_UNROLL for (int g = 0; g < groups; g++) low[r][g] = high[r][g] = pairs_none();
  }
  for (int64_t j = 0; j < at->n; j += 2) {
    /* of weight 0 */
    const char *row = at->v + j * at->v_row, *other = j + 1 < at->n ? row + at->v_row : row;
    vi pair[DECODE_ROWS];
    if (next) prefetch_row(next + j * at->k_row, at->k_bytes);
    if (next && j + 1 < at->n) prefetch_row(next + (j + 1) * at->k_row, at->k_bytes);
    if (next && at->far_v) prefetch_row_far(at->far_v + j * at->v_row, at->v_row + at->v_bytes);
    MICRO_UNROLL for (int r = 0; r < rows; r++) {
      int32_t both;
      memcpy(&both, w + r * DECODE_KEYS + j, sizeof both);
      pair[r] = v_i_set(both);
    }
    MICRO_UNROLL for (int g = 0; g < groups; g++) {
      const vi x = pairs_at(row, d + g * 2 * V), y = pairs_at(other, d + g * 2 * V);
      const vi x_y = v_zip_pairs_low(x, y), more = v_zip_pairs_high(x, y);
      MICRO_UNROLL for (int r = 0; r < rows; r++) {
        low[r][g] = pairs_add(low[r][g], x_y, pair[r]);
        high[r][g] = pairs_add(high[r][g], more, pair[r]);
      }
    }
  }
  MICRO_UNROLL for (int r = 0; r < rows; r++) {
    MICRO_UNROLL for (int g = 0; g < groups; g++) {
      vf first, second;
      float *out = total[r] + d + g * 2 * V;
      v_unzip_pairs(pairs_total(low[r][g]), pairs_total(high[r][g]), &first, &second);
      v_store(out, v_fma(first, v_set(unit[r]), v_mul(v_load(out), v_set(factor[r]))));
      v_store(out + V, v_fma(second, v_set(unit[r]), v_mul(v_load(out + V), v_set(factor[r]))));
    }
  }
}

/* All columns, as many at once as there are registers for half of. */
V_INLINE void mix_pairs_all(const int rows, const cpu_attention *a, const int16_t *w,
                            const float *unit, const chunk *at, const char *next,
                            const float *factor, float *const *total) {
  const int most = V_REGISTERS / 4 / rows;
  for (int64_t d = 0, left; (left = a->dv - d) > 0; next = NULL) {
    if (most >= 4 && left >= 8 * V) {
      mix_pairs(rows, 4, w, unit, at, next, d, factor, total);
      d += 8 * V;
    } else if (most >= 2 && left >= 4 * V) {
      mix_pairs(rows, 2, w, unit, at, next, d, factor, total);
      d += 4 * V;
    } else {
      mix_pairs(rows, 1, w, unit, at, next, d, factor, total);
      d += 2 * V;
    }
  }
}

/* Of up to DECODE_ROWS rows, four, two or one at a time. */
V_INLINE void dots_pairs_of(int64_t rows, const cpu_attention *a, const int16_t *q,
                            const float *unit, const chunk *at, decode_scores *s) {
  for (int64_t i = 0, step; i < rows; i += step) {
    const int16_t *from = q + i * a->dk;
    step = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
    if (step == 4)
      dots_pairs(4, a, from, unit + i, at, i == 0, s + i);
    else if (step == 2)
      dots_pairs(2, a, from, unit + i, at, i == 0, s + i);
    else
      dots_pairs(1, a, from, unit + i, at, i == 0, s + i);
  }
}

V_INLINE void mix_pairs_of(int64_t rows, const cpu_attention *a, const decode_scores *s,
                           const chunk *at, const float *factor, float *const *total) {
  int16_t w[DECODE_ROWS * DECODE_KEYS] __attribute__((aligned(64)));
  decode_scores scale = {0}, weight;
  float unit[DECODE_ROWS];
  for (int64_t j = 0; j < at->n; j++)
    scale[j] = scale_of(PAIRS_KV, at->v + j * at->v_row, a->v_scale);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < at->n; j += V)
      v_store(weight + j, v_mul(v_load(s[r] + j), v_load(scale + j)));
    unit[r] = code(weight, round_up(at->n, V), w + r * DECODE_KEYS);
  }
  for (int64_t i = 0, step; i < rows; i += step) {
    const char *next = i ? NULL : at->next;
    const int16_t *from = w + i * DECODE_KEYS;
    step = rows - i >= 4 ? 4 : rows - i >= 2 ? 2 : 1;
    if (step == 4)
      mix_pairs_all(4, a, from, unit + i, at, next, factor + i, total + i);
    else if (step == 2)
      mix_pairs_all(2, a, from, unit + i, at, next, factor + i, total + i);
    else
      mix_pairs_all(1, a, from, unit + i, at, next, factor + i, total + i);
  }
}
