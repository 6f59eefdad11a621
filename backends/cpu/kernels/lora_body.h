/* lora_body.h - a row through the matrices of an adapter (ops.h), included by lora_<isa>.c.  The
 * order of sums depends on the sizes only. */
#include "kernels/kernels.h"

enum {
  CHAINS = 4,        /* sums of one column, so that they need not wait for each other */
  LINE = 64,         /* bytes of a cache line */
  AHEAD = 32 * LINE, /* bytes between what is fetched of a and what is used */
  BLOCKS_AHEAD = 2   /* the same of b, in blocks of columns */
};

/* V values of a matrix from number `at` on, of which `left` are wanted. */
typedef vf load_fn(const void *m, int64_t at, int64_t left);

V_INLINE vf load_f32(const void *m, int64_t at, int64_t left) {
  const float *p = (const float *)m + at;
  return left >= V ? v_load(p) : v_loadn(p, left);
}

/* Adapters are in no cache, and short: the processor's own prefetching begins anew with each page of a,
 * and with each row of each block of b. */
V_INLINE void fetch_lines(const char *from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(from + i);
}

/* Behind the last value there is memory to read. */
V_INLINE vf load_f16(const void *m, int64_t at, int64_t left) {
  (void)left;
  return v_load_f16((const uint16_t *)m + at);
}

V_INLINE void shrink(load_fn load, int64_t size, const float *x, int64_t k, const void *a,
                     int64_t rank, float scale, float *t) {
  for (int64_t c = 0; c < rank; c += V) {
    const int64_t left = rank - c;
    vf sum[CHAINS];
    int64_t i = 0;
    for (int j = 0; j < CHAINS; j++) sum[j] = v_zero();
    for (; i + CHAINS <= k; i += CHAINS) {
      fetch_lines((const char *)a + i * rank * size + AHEAD, CHAINS * rank * size);
      for (int j = 0; j < CHAINS; j++)
        sum[j] = v_fma(v_set(x[i + j]), load(a, (i + j) * rank + c, left), sum[j]);
    }
    for (; i < k; i++) sum[0] = v_fma(v_set(x[i]), load(a, i * rank + c, left), sum[0]);
    const vf all = v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
    v_storen(t + c, v_mul(all, v_set(scale)), left);
  }
}

V_INLINE void expand(load_fn load, int64_t size, const float *t, int64_t rank, const void *b,
                     int64_t n, float *y) {
  int64_t c = 0;
  for (; c + CHAINS * V <= n; c += CHAINS * V) {
    vf sum[CHAINS];
    for (int j = 0; j < CHAINS; j++) sum[j] = v_load(y + c + j * V);
    for (int64_t r = 0; r < rank; r++) {
      fetch_lines((const char *)b + (r * n + c + BLOCKS_AHEAD * CHAINS * V) * size,
                  CHAINS * V * size);
      for (int j = 0; j < CHAINS; j++)
        sum[j] = v_fma(v_set(t[r]), load(b, r * n + c + j * V, V), sum[j]);
    }
    for (int j = 0; j < CHAINS; j++) v_store(y + c + j * V, sum[j]);
  }
  for (; c < n; c += V) {
    vf sum = v_loadn(y + c, n - c);
    for (int64_t r = 0; r < rank; r++) sum = v_fma(v_set(t[r]), load(b, r * n + c, n - c), sum);
    v_storen(y + c, sum, n - c);
  }
}

void CPU_NAME(lora_shrink, row)(const float *x, int64_t k, const float *a, int64_t rank,
                                float scale, float *t) {
  shrink(load_f32, sizeof(float), x, k, a, rank, scale, t);
}

void CPU_NAME(lora_expand, row)(const float *t, int64_t rank, const float *b, int64_t n, float *y) {
  expand(load_f32, sizeof(float), t, rank, b, n, y);
}

void CPU_NAME(lora_shrink, f16)(const float *x, int64_t k, const uint16_t *a, int64_t rank,
                                float scale, float *t) {
  shrink(load_f16, sizeof(uint16_t), x, k, a, rank, scale, t);
}

void CPU_NAME(lora_expand, f16)(const float *t, int64_t rank, const uint16_t *b, int64_t n,
                                float *y) {
  expand(load_f16, sizeof(uint16_t), t, rank, b, n, y);
}
