/* lora_body.h - a row through the matrices of an adapter (ops.h), included by lora_<isa>.c.  The
 * order of sums depends on the sizes only. */
#include "kernels/kernels.h"

enum { CHAINS = 4 /* sums of one column, so that they need not wait for each other */ };

void CPU_NAME(lora_shrink, row)(const float *x, int64_t k, const float *a, int64_t rank,
                                float scale, float *t) {
  for (int64_t c = 0; c < rank; c += V) {
    const int64_t left = rank - c;
    vf sum[CHAINS];
    int64_t i = 0;
    for (int j = 0; j < CHAINS; j++) sum[j] = v_zero();
    for (; i + CHAINS <= k; i += CHAINS)
      for (int j = 0; j < CHAINS; j++)
        sum[j] = v_fma(v_set(x[i + j]), v_loadn(a + (i + j) * rank + c, left), sum[j]);
    for (; i < k; i++) sum[0] = v_fma(v_set(x[i]), v_loadn(a + i * rank + c, left), sum[0]);
    const vf all = v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
    v_storen(t + c, v_mul(all, v_set(scale)), left);
  }
}

void CPU_NAME(lora_expand, row)(const float *t, int64_t rank, const float *b, int64_t n, float *y) {
  int64_t c = 0;
  for (; c + CHAINS * V <= n; c += CHAINS * V) {
    vf sum[CHAINS];
    for (int j = 0; j < CHAINS; j++) sum[j] = v_load(y + c + j * V);
    for (int64_t r = 0; r < rank; r++)
      for (int j = 0; j < CHAINS; j++)
        sum[j] = v_fma(v_set(t[r]), v_load(b + r * n + c + j * V), sum[j]);
    for (int j = 0; j < CHAINS; j++) v_store(y + c + j * V, sum[j]);
  }
  for (; c < n; c += V) {
    vf sum = v_loadn(y + c, n - c);
    for (int64_t r = 0; r < rank; r++) sum = v_fma(v_set(t[r]), v_loadn(b + r * n + c, n - c), sum);
    v_storen(y + c, sum, n - c);
  }
}
