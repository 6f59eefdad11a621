/* fold_body.h - reductions, softmax over columns, and the elementwise kernels of ops.h, included by
 * fold_<isa>.c. */
#include "kernels/kernels.h"
#include "kernels/math_body.h"

enum { FOLD_ROWS = 64 }; /* rows of one partial sum: keeps the error of long sums small */

/* 0, or NaN when x is: infinities are clamped first. */
V_INLINE vf nan_only(vf x) {
  return v_mul(v_zero(), v_max(v_set(-3.0e38f), v_min(v_set(3.0e38f), x)));
}

/* vecs vectors of columns, `left` of which are there, of rows k or, where there is one, index[k]. */
V_INLINE void sum_block(const int vecs, const float *x, const int32_t *index, int64_t n,
                        int64_t stride, const float *weight, vf scale, float *y, int64_t left) {
  vf total[4], part[4];
  for (int j = 0; j < vecs; j++) total[j] = v_zero();
  for (int64_t k = 0; k < n;) {
    const int64_t stop = k + FOLD_ROWS < n ? k + FOLD_ROWS : n;
    for (int j = 0; j < vecs; j++) part[j] = v_zero();
    for (; k < stop; k++) {
      const float *row = x + (index ? index[k] : k) * stride;
      vf w = v_set(weight ? weight[k] : 1.0f);
      for (int j = 0; j < vecs; j++)
        part[j] = v_fma(w, vecs > 1 ? v_load(row + j * V) : v_loadn(row, left), part[j]);
    }
    for (int j = 0; j < vecs; j++) total[j] = v_add(total[j], part[j]);
  }
  for (int j = 0; j < vecs; j++) v_storen(y + j * V, v_mul(total[j], scale), left - j * V);
}

/* Four vectors at a time: a line of memory is used whole, and its neighbours are on their way. */
static void sum_columns(const float *x, int64_t n, int64_t stride, const float *weight, vf scale,
                        float *y, int64_t cols) {
  int64_t c = 0;
  for (; c + 4 * V <= cols; c += 4 * V)
    sum_block(4, x + c, NULL, n, stride, weight, scale, y + c, cols - c);
  for (; c < cols; c += V) sum_block(1, x + c, NULL, n, stride, weight, scale, y + c, cols - c);
}

void CPU_NAME(fold, gathered)(const float *x, int64_t stride, const int32_t *index, int64_t n,
                              int64_t known, const float *weight, float *y, int64_t cols) {
  const int64_t line = 64 / (int64_t)sizeof *x;
  for (int64_t k = n; k < 2 * n && k < known; k++)
    for (int64_t c = 0; c < cols; c += line) v_prefetch(x + index[k] * stride + c);
  int64_t c = 0;
  for (; c + 4 * V <= cols; c += 4 * V)
    sum_block(4, x + c, index, n, stride, weight, v_set(1.0f), y + c, cols - c);
  for (; c + 2 * V <= cols; c += 2 * V)
    sum_block(2, x + c, index, n, stride, weight, v_set(1.0f), y + c, cols - c);
  for (; c < cols; c += V)
    sum_block(1, x + c, index, n, stride, weight, v_set(1.0f), y + c, cols - c);
}

static void most_columns(const float *x, int64_t n, int64_t stride, int smallest, float *y,
                         int64_t left) {
  vf sign = v_set(smallest ? -0.0f : 0.0f), most = v_set(-INFINITY), nan = v_zero();
  for (int64_t k = 0; k < n; k++) {
    vf v = v_loadn(x + k * stride, left);
    nan = v_add(nan, nan_only(v));
    most = v_max(v_flip(v, sign), most);
  }
  v_storen(y, v_add(v_flip(most, sign), nan), left);
}

/* First maximum of each column; a NaN is the largest. */
static void argmax_column(const float *x, int64_t n, int64_t stride, int32_t *y) {
  int32_t best = 0;
  for (int64_t k = 1; k < n; k++) {
    float v = x[k * stride], b = x[best * stride];
    if (b == b && (v > b || v != v)) best = (int32_t)k;
  }
  *y = best;
}

static float sum_of(const float *x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum;
}

/* What a sum is multiplied by. */
static float mean_scale(int32_t kind, const float *weight, int64_t n) {
  if (kind != ACCEL_PLUGIN_REDUCE_MEAN) return 1.0f;
  float all = weight ? sum_of(weight, n) : (float)n;
  return 1.0f / (all > 1e-9f ? all : 1e-9f);
}

void CPU_NAME(fold, column)(int32_t kind, const float *x, int64_t n, int64_t stride,
                            const float *weight, float *y, int64_t cols) {
  if (kind == ACCEL_PLUGIN_REDUCE_SUM || kind == ACCEL_PLUGIN_REDUCE_MEAN) {
    sum_columns(x, n, stride, weight, v_set(mean_scale(kind, weight, n)), y, cols);
    return;
  }
  for (int64_t c = 0; c < cols; c += V) {
    const int64_t left = cols - c;
    switch (kind) {
      case ACCEL_PLUGIN_REDUCE_MAX:
      case ACCEL_PLUGIN_REDUCE_MIN:
        most_columns(x + c, n, stride, kind == ACCEL_PLUGIN_REDUCE_MIN, y + c, left);
        break;
      case ACCEL_PLUGIN_REDUCE_ARGMAX:
        for (int64_t i = 0; i < left && i < V; i++)
          argmax_column(x + c + i, n, stride, (int32_t *)y + c + i);
        break;
      default:
        v_storen(y + c,
                 v_loadn(x + c + (kind == ACCEL_PLUGIN_REDUCE_LAST ? (n - 1) * stride : 0), left),
                 left);
    }
  }
}

/* Largest of n, NaN when there is one. */
static float most_of(const float *x, int64_t n, int smallest) {
  vf sign = v_set(smallest ? -0.0f : 0.0f), most = v_set(-INFINITY), nan = v_zero();
  int64_t i = 0;
  for (; i + V <= n; i += V) {
    vf v = v_load(x + i);
    nan = v_add(nan, nan_only(v));
    most = v_max(v_flip(v, sign), most);
  }
  float m = v_largest(most), bad = v_sum(nan);
  for (; i < n; i++) {
    float v = smallest ? -x[i] : x[i];
    bad += x[i] != x[i] ? x[i] : 0.0f;
    m = v > m ? v : m;
  }
  return (smallest ? -m : m) + bad;
}

static float sum_row(const float *x, int64_t n, const float *weight) {
  vf total = v_zero();
  for (int64_t i = 0; i < n;) {
    const int64_t stop = i + FOLD_ROWS * V < n ? i + FOLD_ROWS * V : n;
    vf part = v_zero();
    for (; i < stop; i += V) {
      vf v = v_loadn(x + i, n - i);
      part = weight ? v_fma(v, v_loadn(weight + i, n - i), part) : v_add(part, v);
    }
    total = v_add(total, part);
  }
  return v_sum(total);
}

/* Blocks are skipped by their largest. */
static int32_t argmax_row(const float *x, int64_t n) {
  const int64_t block = 64 * V;
  int64_t best = 0;
  float most = -INFINITY;
  for (int64_t i = 0; i < n; i += block) {
    float m = most_of(x + i, n - i < block ? n - i : block, 0);
    if (m <= most) continue;
    best = i;
    most = m;
    if (m != m) break;
  }
  for (int64_t i = best; i < n; i++)
    if (x[i] == most || (most != most && x[i] != x[i])) return (int32_t)i;
  return 0;
}

void CPU_NAME(fold, row)(int32_t kind, const float *x, int64_t n, const float *weight, float *y) {
  switch (kind) {
    case ACCEL_PLUGIN_REDUCE_SUM:
    case ACCEL_PLUGIN_REDUCE_MEAN:
      *y = sum_row(x, n, weight) * mean_scale(kind, weight, n);
      return;
    case ACCEL_PLUGIN_REDUCE_MAX:
    case ACCEL_PLUGIN_REDUCE_MIN:
      *y = most_of(x, n, kind == ACCEL_PLUGIN_REDUCE_MIN);
      return;
    case ACCEL_PLUGIN_REDUCE_ARGMAX:
      *(int32_t *)y = argmax_row(x, n);
      return;
    default:
      *y = kind == ACCEL_PLUGIN_REDUCE_LAST ? x[n - 1] : x[0];
  }
}

void CPU_NAME(softmax, column)(const float *x, float *y, int64_t n, int64_t stride, int64_t cols,
                               int32_t logarithm) {
  for (int64_t c = 0; c < cols; c += V) {
    const int64_t left = cols - c;
    vf most = v_set(-INFINITY), sum = v_zero();
    /* never NaN */
    for (int64_t k = 0; k < n; k++) most = v_max(v_loadn(x + k * stride + c, left), most);
    for (int64_t k = 0; k < n; k++) {
      vf d = v_sub(v_loadn(x + k * stride + c, left), most), e = v_exp_negative(d);
      sum = v_add(sum, e);
      v_storen(y + k * stride + c, logarithm ? d : e, left);
    }
    vf scale = logarithm ? v_log(sum) : v_div(v_set(1.0f), sum);
    for (int64_t k = 0; k < n; k++) {
      vf v = v_loadn(y + k * stride + c, left);
      v_storen(y + k * stride + c, logarithm ? v_sub(v, scale) : v_mul(v, scale), left);
    }
  }
}

/* Small whole exponents as products, as torch has them. */
void CPU_NAME(power, row)(const float *a, int32_t a_step, const float *b, int32_t b_step, float *y,
                          int64_t n) {
  const float e = n && !b_step ? *b : 0.0f;
  if (a_step && (e == 2.0f || e == 3.0f)) {
    for (int64_t i = 0; i < n; i += V) {
      vf x = v_loadn(a + i, n - i), s = v_mul(x, x);
      v_storen(y + i, e == 2.0f ? s : v_mul(s, x), n - i);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) y[i] = powf(a[i * a_step], b[i * b_step]);
}

void CPU_NAME(choose, row)(int32_t real, const void *mask, int32_t mask_step, const float *a,
                           int32_t a_step, const float *b, int32_t b_step, float *y, int64_t n) {
  const int32_t *m = mask, *p = (const int32_t *)a, *q = (const int32_t *)b;
  const int32_t sign = real ? 0x7fffffff : -1; /* -0.0 is zero */
  int32_t *to = (int32_t *)y;
  if (a_step && !b_step) {
    const int32_t other = n ? *q : 0;
    for (int64_t i = 0; i < n; i++) to[i] = m[i * mask_step] & sign ? p[i] : other;
  } else if (!a_step && b_step) {
    const int32_t other = n ? *p : 0;
    for (int64_t i = 0; i < n; i++) to[i] = m[i * mask_step] & sign ? other : q[i];
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = m[i * mask_step] & sign ? p[i * a_step] : q[i * b_step];
  }
}

V_INLINE vf wave(int32_t cosine, vf x) {
  vf s, c;
  v_sincos(x, &s, &c);
  return cosine ? c : s;
}

/* What an angle's result is depends on that angle alone: large ones are libm's. */
void CPU_NAME(wave, row)(int32_t cosine, const float *x, float *y, int64_t n) {
  for (int64_t i = 0, stop; i < n; i = stop) {
    stop = n - i > 16 * V ? i + 16 * V : n;
    vf most = v_zero();
    /* never NaN */
    for (int64_t k = i; k < stop; k += V) most = v_max(v_abs(v_loadn(x + k, stop - k)), most);
    const bool large = v_largest(most) > V_ANGLE_LIMIT;
    for (int64_t k = i; k < stop; k += V) {
      float t[V];
      for (int64_t j = 0; large && j < V && k + j < stop; j++)
        t[j] = cosine ? cosf(x[k + j]) : sinf(x[k + j]);
      vf v = v_loadn(x + k, stop - k), w = wave(cosine, v);
      if (large) w = v_select(v_lt(v_set(V_ANGLE_LIMIT), v_abs(v)), v_loadn(t, stop - k), w);
      v_storen(y + k, w, stop - k);
    }
  }
}

void CPU_NAME(cast, int)(const float *x, int32_t *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i] == x[i] ? x[i] : 0.0f, low = v < -2147483648.0f ? -2147483648.0f : v;
    int32_t whole = (int32_t)(low < 2147483520.0f ? low : 2147483520.0f);
    y[i] = v >= 2147483648.0f ? INT32_MAX : whole;
  }
}
void CPU_NAME(cast, float)(const int32_t *x, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
}
