/* decode_body.h - attention of few query rows: keys and values are read once where they lie, chunk
 * after chunk, with an online softmax between; included after attention_body.h by
 * attention_<isa>.c.  With MICRO_PER 2 (attention_bf16_<isa>.c) they are bf16 and multiplied as
 * such. */
#include "kernels/decode_chunk.h"

#if !defined(DECODE_HEAD)
#define DECODE_HEAD CPU_NAME(decode, head)
#endif

/* s[r][j] = q[r] . k[j] for j < n, anything up to a whole vector.  prefetch: also the values
 * meanwhile. */
V_INLINE void dots(const int kv, const int rows, const cpu_attention *a, const float *q,
                   const chunk *at, bool prefetch, decode_scores *s) {
  const int64_t dk = a->dk, n = at->n;
  for (int64_t j = 0; j < n; j += V) {
    vf part[DECODE_FEW][V];
    for (int64_t c = 0; c < V; c++) {
      vf sum[DECODE_FEW], more[DECODE_FEW];
      MICRO_UNROLL for (int r = 0; r < rows; r++) part[r][c] = sum[r] = more[r] = v_zero();
      if (j + c >= n) continue;
      const char *row = at->k + (j + c) * at->k_row;
      int64_t d = 0;
      if (prefetch) {
        if (j + c + DECODE_AHEAD < n) prefetch_row(row + DECODE_AHEAD * at->k_row, at->k_bytes);
        prefetch_row_far(at->v + (j + c) * at->v_row, at->v_bytes);
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
        MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] =
            v_fma(v_loadn(q + r * a->ldq + d, dk - d), k, sum[r]);
      }
      MICRO_UNROLL for (int r = 0; r < rows; r++) {
        part[r][c] = v_add(sum[r], more[r]);
        if (kv == ACCEL_PLUGIN_I8)
          part[r][c] = v_mul(part[r][c], v_set(scale_of(kv, row, a->k_scale)));
      }
    }
    MICRO_UNROLL for (int r = 0; r < rows; r++) v_store(s[r] + j, v_sums(part[r]));
  }
}

/* The same for `rows` of 4 or 8 rows at once: V keys become columns, and q, turned [dk rounded up
 * to V][rows], is spread over them. */
V_INLINE void dots_turned(const int kv, const int rows, const cpu_attention *a, const float *turned,
                          const chunk *at, decode_scores *s) {
  const int64_t dk = a->dk, n = at->n, steps = (dk + V - 1) / V,
                k_share = (V * at->k_row / steps + 63) / 64 * 64,
                v_share = (V * at->v_row / steps + 63) / 64 * 64;
  for (int64_t j = 0; j < n; j += V) {
    const char *row[V], *next_keys = at->k + (j + V) * at->k_row, *value = at->v + j * at->v_row;
    vf sum[DECODE_ROWS], more[DECODE_ROWS], x[V];
    for (int64_t c = 0; c < V; c++) row[c] = at->k + (j + c < n ? j + c : n - 1) * at->k_row;
    MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r] = more[r] = v_zero();
    for (int64_t d = 0; d < dk; d += V, next_keys += k_share, value += v_share) {
      const float *q = turned + d * rows;
      if (j + V < n) prefetch_row(next_keys, k_share);
      prefetch_row_far(value, v_share);
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
    for (int64_t c = 0; kv == ACCEL_PLUGIN_I8 && c < V; c++)
      scale[c] = scale_of(kv, row[c], a->k_scale);
    MICRO_UNROLL for (int r = 0; r < rows; r++) {
      const vf all = rows < 8 ? v_add(sum[r], more[r]) : sum[r];
      v_store(s[r] + j, kv == ACCEL_PLUGIN_I8 ? v_mul(all, v_load(scale)) : all);
    }
  }
}

/* Scores of up to DECODE_ROWS rows; turned: [.. ][4 or 8], or NULL. */
V_INLINE void dots_of(const int kv, int64_t rows, const cpu_attention *a, const float *q,
                      const float *turned, const chunk *at, decode_scores *s) {
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
    for (int64_t r = 0; r < width; r++)
      turned[d * width + r] = d < a->dk && r < rows ? q[r * a->ldq + d] : 0.0f;
}

/* total[r][d .. d + vectors V) = total * factor + sum of s[r][j] v[j]; meanwhile prefetches the
 * keys at `next`. */
V_INLINE void mix_columns(const int kv, const int rows, const int vectors, const cpu_attention *a,
                          const decode_scores *s, const chunk *at, const char *next, int64_t d,
                          const float *factor, float *const *total) {
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
    if (next) prefetch_row_far(next + j * at->k_row, at->k_bytes);
    MICRO_UNROLL for (int r = 0; r < rows; r++) w[r] = v_set(s[r][j] * scale);
    MICRO_UNROLL for (int i = 0; i < vectors; i++) {
      const vf v = load_kv(kv, row, d + i * V, left - i * V);
      MICRO_UNROLL for (int r = 0; r < rows; r++) sum[r][i] = v_fma(w[r], v, sum[r][i]);
    }
  }
  MICRO_UNROLL for (int r = 0; r < rows; r++) {
    MICRO_UNROLL for (int i = 0; i < vectors; i++)
        v_storen(total[r] + d + i * V, sum[r][i], left - i * V);
  }
}

/* total[r] = total[r] * factor + sum of s[r][j] v[j], as many columns at once as there are
 * registers for half of. */
V_INLINE void mix(const int kv, const int rows, const cpu_attention *a, const decode_scores *s,
                  const chunk *at, const char *next, const float *factor, float *const *total) {
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

/* Row i's scores of keys j .. j + n-1 to exponentials; answers the factor of what was summed up
 * before. */
static float weigh_decoded(const cpu_attention *a, int64_t i, float *s, int64_t j, int64_t n,
                           const float *position, seen *so_far) {
  const bool late = scales_late(a);
  if (!is_plain(a)) adjust(a, i, s, j, 0, n, late ? 1.0f : a->scale, position);
  for (int64_t c = n; c < round_up(n, V); c++) s[c] = -INFINITY;
  vf most = v_set(-INFINITY);
  for (int64_t c = 0; c < n; c += V) most = v_max(v_load(s + c), most);
  const float scale = late ? a->scale : 1.0f, factor = raise_to(so_far, v_largest(most) * scale);
  so_far->sum += weigh(s, 0, n, scale, so_far->top);
  return factor;
}

V_INLINE void mix_of(const int kv, int64_t rows, const cpu_attention *a, const decode_scores *s,
                     const chunk *at, const float *factor, float *const *total) {
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
#include "kernels/decode_pairs_body.h"
#endif

/* Rows i .. i + rows-1, which see the same keys. */
V_INLINE void decode(const int kv, int64_t rows, const cpu_attention *a, int64_t i) {
  decode_scores s[DECODE_ROWS], position;
  float *total[DECODE_ROWS], factor[DECODE_ROWS],
      turned[DECODE_DIM * DECODE_ROWS] __attribute__((aligned(64)));
  seen so_far[DECODE_ROWS];
  const float *q = a->q + i * a->ldq;
  const bool placed = a->key_position || a->slope != 0.0f,
             turns = rows >= DECODE_TURNED && a->dk <= DECODE_DIM;
  int64_t low, high;
  span_of(a, i, &low, &high);
#ifdef V_PAIRS
  const bool pairs = kv == PAIRS_KV && (MICRO_PER == 2 || cpu_takes_pairs(a, V));
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

void DECODE_HEAD(const cpu_attention *a, int64_t row, int64_t row_end) {
  const int64_t most = a->step ? 1 : DECODE_ROWS; /* heads of one query row go together */
#define DECODE(kv) decode(kv, row_end - row < most ? row_end - row : most, a, row)
#if MICRO_PER == 2
  for (; row < row_end; row += most) DECODE(ACCEL_PLUGIN_BF16);
#else
  for (; row < row_end; row += most) FOR_KV(DECODE)
#endif
#undef DECODE
}
