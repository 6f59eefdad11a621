/* lora_body.h - rows through the matrices of an adapter (ops.h), included by lora_<isa>.c.  The
 * order of a row's sums depends on the sizes only, not on how many rows there are. */
#include "kernels/kernels.h"

enum {
  CHAINS = 4, /* sums of one column, so that they need not wait for each other */
  ROWS = V_REGISTERS >= 32 ? 4 : 2, /* that share what is read of a matrix */
  TILE = 8 / ROWS,                  /* vectors of columns of these rows */
  BLOCK = 4096,                     /* columns of y that stay in the first-level cache */
  LINE = 64,                        /* bytes of a cache line */
  AHEAD = 64 * LINE                 /* bytes between what is fetched and what is used */
};

/* V values of a matrix from number `at` on, of which `left` are wanted. */
typedef vf load_fn(const void *m, int64_t at, int64_t left);

V_INLINE vf load_f32(const void *m, int64_t at, int64_t left) {
  const float *p = (const float *)m + at;
  return left >= V ? v_load(p) : v_loadn(p, left);
}

/* Behind the last value there is memory to read. */
V_INLINE vf load_f16(const void *m, int64_t at, int64_t left) {
  (void)left;
  return v_load_f16((const uint16_t *)m + at);
}

/* Adapters are in no cache, and b lies behind a: they are read as one stream, and fetched into the
 * second-level cache, which has more lines under way than the first. */
V_INLINE void fetch_lines(const void *from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += LINE) v_prefetch_far((const char *)from + AHEAD + i);
}

V_INLINE void shrink_rows(int64_t rows, load_fn load, int64_t size, const float *x, int64_t k,
                          const void *a, int64_t rank, float scale, float *t) {
  for (int64_t c = 0; c < rank; c += V) {
    const int64_t left = rank - c;
    vf sum[ROWS][CHAINS];
    int64_t i = 0;
    for (int64_t r = 0; r < rows; r++)
      for (int j = 0; j < CHAINS; j++) sum[r][j] = v_zero();
    for (; i + CHAINS <= k; i += CHAINS) {
      fetch_lines((const char *)a + i * rank * size, CHAINS * rank * size);
      for (int j = 0; j < CHAINS; j++) {
        const vf column = load(a, (i + j) * rank + c, left);
        for (int64_t r = 0; r < rows; r++)
          sum[r][j] = v_fma(v_set(x[r * k + i + j]), column, sum[r][j]);
      }
    }
    for (; i < k; i++)
      for (int64_t r = 0; r < rows; r++)
        sum[r][0] = v_fma(v_set(x[r * k + i]), load(a, i * rank + c, left), sum[r][0]);
    for (int64_t r = 0; r < rows; r++) {
      const vf all = v_add(v_add(sum[r][0], sum[r][1]), v_add(sum[r][2], sum[r][3]));
      v_storen(t + r * rank + c, v_mul(all, v_set(scale)), left);
    }
  }
}

V_INLINE void shrink(load_fn load, int64_t size, const float *x, int64_t rows, int64_t k,
                     const void *a, int64_t rank, float scale, float *t) {
  for (; rows >= ROWS; rows -= ROWS, x += ROWS * k, t += ROWS * rank)
    shrink_rows(ROWS, load, size, x, k, a, rank, scale, t);
  for (; rows > 0; rows--, x += k, t += rank) shrink_rows(1, load, size, x, k, a, rank, scale, t);
}

/* ROWS rows: b is in a cache but for the first of them, and y passes through registers once. */
V_INLINE void expand_rows(load_fn load, const float *t, int64_t rank, const void *b, int64_t n,
                          float *y) {
  int64_t c = 0;
  for (; c + TILE * V <= n; c += TILE * V) {
    vf sum[ROWS][TILE];
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < TILE; j++) sum[i][j] = v_load(y + i * n + c + j * V);
    for (int64_t r = 0; r < rank; r++)
      for (int j = 0; j < TILE; j++) {
        const vf column = load(b, r * n + c + j * V, V);
        for (int i = 0; i < ROWS; i++) sum[i][j] = v_fma(v_set(t[i * rank + r]), column, sum[i][j]);
      }
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < TILE; j++) v_store(y + i * n + c + j * V, sum[i][j]);
  }
  for (; c < n; c += V)
    for (int i = 0; i < ROWS; i++) {
      vf sum = v_loadn(y + i * n + c, n - c);
      for (int64_t r = 0; r < rank; r++)
        sum = v_fma(v_set(t[i * rank + r]), load(b, r * n + c, n - c), sum);
      v_storen(y + i * n + c, sum, n - c);
    }
}

/* One row: b in the order in which it lies, for as many columns as y stays in a cache. */
V_INLINE void expand_row(load_fn load, int64_t size, const float *t, int64_t rank, const void *b,
                         int64_t n, float *y) {
  for (int64_t from = 0; from < n; from += BLOCK) {
    const int64_t end = n - from < BLOCK ? n : from + BLOCK;
    for (int64_t r = 0; r < rank; r++) {
      const vf term = v_set(t[r]);
      int64_t c = from;
      for (; c + TILE * V <= end; c += TILE * V) {
        fetch_lines((const char *)b + (r * n + c) * size, TILE * V * size);
        for (int j = 0; j < TILE; j++)
          v_store(y + c + j * V, v_fma(term, load(b, r * n + c + j * V, V), v_load(y + c + j * V)));
      }
      for (; c < end; c += V)
        v_storen(y + c, v_fma(term, load(b, r * n + c, end - c), v_loadn(y + c, end - c)), end - c);
    }
  }
}

V_INLINE void expand(load_fn load, int64_t size, const float *t, int64_t rows, int64_t rank,
                     const void *b, int64_t n, float *y) {
  for (; rows >= ROWS; rows -= ROWS, t += ROWS * rank, y += ROWS * n)
    expand_rows(load, t, rank, b, n, y);
  for (; rows > 0; rows--, t += rank, y += n) expand_row(load, size, t, rank, b, n, y);
}

void CPU_NAME(lora_shrink, row)(const float *x, int64_t rows, int64_t k, const float *a,
                                int64_t rank, float scale, float *t) {
  shrink(load_f32, sizeof(float), x, rows, k, a, rank, scale, t);
}

void CPU_NAME(lora_expand, row)(const float *t, int64_t rows, int64_t rank, const float *b,
                                int64_t n, float *y) {
  expand(load_f32, sizeof(float), t, rows, rank, b, n, y);
}

void CPU_NAME(lora_shrink, f16)(const float *x, int64_t rows, int64_t k, const uint16_t *a,
                                int64_t rank, float scale, float *t) {
  shrink(load_f16, sizeof(uint16_t), x, rows, k, a, rank, scale, t);
}

void CPU_NAME(lora_expand, f16)(const float *t, int64_t rows, int64_t rank, const uint16_t *b,
                                int64_t n, float *y) {
  expand(load_f16, sizeof(uint16_t), t, rows, rank, b, n, y);
}
