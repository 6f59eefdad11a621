/* rows_body.h - norm, softmax, rope and elementwise kernels (kernels.h), included by
 * rows_<isa>.c. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"

/* Sum of f(x) over n elements of x, in lanes and then across them: the order depends on n only. */
#define ROW_SUM(total, n, term)              \
  do {                                       \
    vf lanes = v_zero(), more = v_zero();    \
    int64_t at = 0;                          \
    for (; at + 2 * V <= (n); at += 2 * V) { \
      int64_t i = at, left = V;              \
      lanes = v_add(lanes, term);            \
      i += V;                                \
      more = v_add(more, term);              \
    }                                        \
    for (; at < (n); at += V) {              \
      int64_t i = at, left = (n)-at;         \
      lanes = v_add(lanes, term);            \
    }                                        \
    (total) = v_sum(v_add(lanes, more));     \
  } while (0)

/* ---- norm ---- */

/* (x - mean), zero in the lanes beyond the row. */
V_INLINE vf centred(const float *s, int64_t left, vf mean) {
  if (left >= V) return v_sub(v_load(s), mean);
  float part[V] = {0};
  v_store(part, v_sub(v_loadn(s, left), mean));
  return v_loadn(part, left);
}

static void norm_group(const cpu_norm *g, const float *s, float *y, const float *gamma,
                       const float *beta) {
  const int64_t n = g->size;
  float mean = 0, square, factor;
  if (g->kind == ACCEL_PLUGIN_NORM_LAYER) {
    ROW_SUM(mean, n, v_loadn(s + i, left));
    mean /= (float)n;
  }
  vf m = v_set(mean);
#define CENTRED centred(s + i, left, m)
  ROW_SUM(square, n, v_mul(CENTRED, CENTRED));
  if (g->kind == ACCEL_PLUGIN_NORM_L2) {
    float length = sqrtf(square);
    factor = 1.0f / (length < g->eps ? g->eps : length);
  } else {
    factor = 1.0f / sqrtf(square / (float)n + g->eps);
  }
  vf f = v_set(factor), offset = v_set(g->gamma_offset);
  for (int64_t i = 0; i < n; i += V) {
    vf v = v_mul(v_sub(v_loadn(s + i, n - i), m), f);
    if (gamma) v = v_mul(v, v_add(v_loadn(gamma + i, n - i), offset));
    if (beta) v = v_add(v, v_loadn(beta + i, n - i));
    v_storen(y + i, v, n - i);
  }
}

void CPU_NAME(norm, row)(const cpu_norm *g, int64_t row, int64_t row_end) {
  const int64_t cols = g->size * g->groups;
  for (; row < row_end; row++) {
    float *y = g->y + row * g->ldy;
    const float *s = g->x + row * g->ldx;
    if (g->residual || g->sum) {
      float *sum = g->sum ? g->sum + row * g->ldy : y;
      const float *r = g->residual ? g->residual + row * g->ldr : NULL;
      for (int64_t i = 0; i < cols; i += V) {
        vf v = v_loadn(s + i, cols - i);
        v_storen(sum + i, r ? v_add(v, v_loadn(r + i, cols - i)) : v, cols - i);
      }
      s = sum;
    }
    for (int64_t at = 0; at < cols; at += g->size)
      norm_group(g, s + at, y + at, g->gamma ? g->gamma + at : NULL, g->beta ? g->beta + at : NULL);
  }
}

/* ---- softmax ---- */

void CPU_NAME(softmax, row)(const float *x, float *y, int64_t n, int32_t logarithm) {
  vf most = v_set(-INFINITY);
  int64_t i = 0;
  for (; i + V <= n; i += V) most = v_max(v_load(x + i), most); /* never NaN */
  float m = v_largest(most), sum = 0;
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  vf shift = v_set(m), lanes = v_zero();
  for (i = 0; i + V <= n; i += V) {
    vf e = v_exp_negative(v_sub(v_load(x + i), shift));
    lanes = v_add(lanes, e);
    if (!logarithm) v_store(y + i, e);
  }
  if (i < n) {
    float part[V] = {0};
    v_store(part, v_exp_negative(v_sub(v_loadn(x + i, n - i), shift)));
    vf e = v_loadn(part, n - i);
    lanes = v_add(lanes, e);
    if (!logarithm) v_storen(y + i, e, n - i);
  }
  sum = v_sum(lanes);
  vf scale = v_set(logarithm ? logf(sum) : 1.0f / sum);
  for (i = 0; i < n; i += V) {
    vf v = logarithm ? v_sub(v_sub(v_loadn(x + i, n - i), shift), scale)
                     : v_mul(v_loadn(y + i, n - i), scale);
    v_storen(y + i, v, n - i);
  }
}

/* ---- elementwise ---- */

#define UNARY_LOOP(expression)           \
  for (int64_t i = 0; i < n; i += V) {   \
    vf x = v_loadn(from + i, n - i);     \
    v_storen(to + i, expression, n - i); \
  }                                      \
  return 1

int32_t CPU_NAME(unary, row)(int32_t kind, float alpha, float beta, const float *from, float *to,
                             int64_t n) {
  vf a = v_set(alpha), b = v_set(beta);
  switch (kind) {
    case ACCEL_PLUGIN_UNARY_EXP:
      UNARY_LOOP(v_exp(x));
    case ACCEL_PLUGIN_UNARY_LOG:
      UNARY_LOOP(v_log(x));
    case ACCEL_PLUGIN_UNARY_NEG:
      UNARY_LOOP(v_flip(x, v_set(-0.0f)));
    case ACCEL_PLUGIN_UNARY_SQRT:
      UNARY_LOOP(v_sqrt(x));
    case ACCEL_PLUGIN_UNARY_RSQRT:
      UNARY_LOOP(v_div(v_set(1.0f), v_sqrt(x)));
    case ACCEL_PLUGIN_UNARY_CLAMP:
      UNARY_LOOP(v_min(b, v_max(a, x)));
    case ACCEL_PLUGIN_UNARY_AFFINE:
      UNARY_LOOP(v_add(v_mul(a, x), b));
    case ACCEL_PLUGIN_UNARY_ABS:
      UNARY_LOOP(v_abs(x));
  }
  return 0;
}

#define BINARY_LOOP(expression)                        \
  for (int64_t i = 0; i < n; i += V) {                 \
    vf x = a_step ? v_loadn(a + i, n - i) : v_set(*a); \
    vf z = b_step ? v_loadn(b + i, n - i) : v_set(*b); \
    v_storen(y + i, expression, n - i);                \
  }                                                    \
  return 1

/* NaN wins in min and max, as in torch: v_min(p, q) answers q when one is NaN, so x goes second and
 * z is looked at. */
V_INLINE vf nan_of(vf z, vf y) {
  return v_select(v_lt(v_set(-INFINITY), z), y, v_select(v_lt(z, v_set(INFINITY)), y, z));
}

int32_t CPU_NAME(binary, row)(int32_t kind, const float *a, int32_t a_step, const float *b,
                              int32_t b_step, float *y, int64_t n) {
  if (n < 1) return 1;
  switch (kind) {
    case ACCEL_PLUGIN_BINARY_ADD:
      BINARY_LOOP(v_add(x, z));
    case ACCEL_PLUGIN_BINARY_SUB:
      BINARY_LOOP(v_sub(x, z));
    case ACCEL_PLUGIN_BINARY_MUL:
      BINARY_LOOP(v_mul(x, z));
    case ACCEL_PLUGIN_BINARY_DIV:
      BINARY_LOOP(v_div(x, z));
    case ACCEL_PLUGIN_BINARY_MIN:
      BINARY_LOOP(nan_of(z, v_min(z, x)));
    case ACCEL_PLUGIN_BINARY_MAX:
      BINARY_LOOP(nan_of(z, v_max(z, x)));
  }
  return 0;
}

void CPU_NAME(widen, row)(int32_t store, const void *x, float *y, int64_t n) {
  uint16_t half[V] = {0};
  for (int64_t i = 0; i < n; i += V) {
    if (n - i >= V)
      memcpy(half, (const char *)x + 2 * i, sizeof half);
    else
      memcpy(half, (const char *)x + 2 * i, (size_t)(n - i) * 2);
    v_storen(y + i, store == ACCEL_PLUGIN_F16 ? v_load_f16(half) : v_load_bf16(half), n - i);
  }
}

/* ---- rows of keys and values ---- */

/* One vector, `left` elements of it, to y. */
V_INLINE void store_part(const int store, vf x, void *y, int64_t left) {
  const size_t size = store == ACCEL_PLUGIN_I8 ? 1 : 2;
  uint16_t part[V];
  void *to = left >= V ? y : part;
  if (store == ACCEL_PLUGIN_I8)
    v_store_s8(to, x);
  else if (store == ACCEL_PLUGIN_F16)
    v_store_f16(to, x);
  else
    v_store_bf16(to, x);
  if (left < V) memcpy(y, part, (size_t)left * size);
}

static void store_codes(const float *x, int64_t n, int8_t *y) {
  vf most = v_zero(), sum = v_zero();
  for (int64_t i = 0; i < n; i += V) {
    vf v = v_loadn(x + i, n - i);
    most = v_max(v_abs(v), most);
    sum = v_fma(v, v_zero(), sum); /* NaN when an element is not finite */
  }
  const bool finite = v_sum(sum) == 0.0f;
  const float top = finite ? v_largest(most) : NAN, inverse = top > 1e-30f ? 127.0f / top : 0.0f,
              scale = top / 127.0f;
  for (int64_t i = 0; i < n; i += V)
    store_part(ACCEL_PLUGIN_I8, finite ? v_mul(v_loadn(x + i, n - i), v_set(inverse)) : v_zero(),
               y + i, n - i);
  memcpy(y + (n + 3) / 4 * 4, &scale, sizeof scale);
}

void CPU_NAME(store, row)(int32_t store, const float *x, int64_t n, void *y) {
  uint16_t *half = y;
  switch (store) {
    case ACCEL_PLUGIN_I8:
      store_codes(x, n, y);
      break;
    case ACCEL_PLUGIN_F16:
      for (int64_t i = 0; i < n; i += V)
        store_part(ACCEL_PLUGIN_F16, v_loadn(x + i, n - i), half + i, n - i);
      break;
    case ACCEL_PLUGIN_BF16:
      for (int64_t i = 0; i < n; i += V)
        store_part(ACCEL_PLUGIN_BF16, v_loadn(x + i, n - i), half + i, n - i);
      break;
    default:
      memcpy(y, x, (size_t)n * sizeof *x);
  }
}

void CPU_NAME(accumulate, row)(float weight, const float *x, float *y, int64_t n) {
  vf w = v_set(weight);
  for (int64_t i = 0; i < n; i += V)
    v_storen(y + i, v_fma(w, v_loadn(x + i, n - i), v_loadn(y + i, n - i)), n - i);
}

/* ---- rope ---- */

void CPU_NAME(rope, row)(const cpu_rope *g, int64_t row, int64_t row_end, float *table) {
  const int64_t pairs = g->pairs, rot = 2 * pairs;
  float *sine = table, *cosine = table + pairs;
  vf scale = v_set(g->mscale);
  for (; row < row_end; row++) {
    const float position = g->position ? (float)g->position[row] : 0.0f,
                *frequency = g->frequency + row * g->step;
    for (int64_t i = 0; i < pairs; i += V) {
      vf s, c;
      v_sincos(v_mul(v_set(position), v_loadn(frequency + i, pairs - i)), &s, &c);
      v_storen(sine + i, v_mul(s, scale), pairs - i);
      v_storen(cosine + i, v_mul(c, scale), pairs - i);
    }
    for (int64_t i = 0; i < pairs; i++) {
      float angle = position * frequency[i];
      if (fabsf(angle) <= V_ANGLE_LIMIT) continue;
      sine[i] = sinf(angle) * g->mscale;
      cosine[i] = cosf(angle) * g->mscale;
    }
    for (int64_t h = 0; h < g->cols; h += g->head) {
      const float *x = g->x + row * g->ldx + h;
      float *y = g->y + row * g->ldy + h;
      if (g->interleaved) {
        for (int64_t i = 0; i < pairs; i++) {
          float a = x[2 * i], b = x[2 * i + 1];
          y[2 * i] = a * cosine[i] - b * sine[i];
          y[2 * i + 1] = b * cosine[i] + a * sine[i];
        }
      } else {
        for (int64_t i = 0; i < pairs; i += V) {
          int64_t left = pairs - i;
          vf a = v_loadn(x + i, left), b = v_loadn(x + pairs + i, left),
             s = v_loadn(sine + i, left), c = v_loadn(cosine + i, left);
          v_storen(y + i, v_sub(v_mul(a, c), v_mul(b, s)), left);
          v_storen(y + pairs + i, v_add(v_mul(b, c), v_mul(a, s)), left);
        }
      }
      for (int64_t i = rot; i < g->head; i++) y[i] = x[i];
    }
  }
}
