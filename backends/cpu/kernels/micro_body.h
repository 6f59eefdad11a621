/* micro_body.h - the register tile of all matrix products: c[rows, COLS] = a[rows, k] b[k, COLS],
 * included after vec_<isa>.h.
 *
 * MICRO_ADD(sum, a, b) is one multiply-add: of floats, unless the including file says otherwise.
 * An element may hold MICRO_PER neighbouring k, which MICRO_PAIR_UP(a, b) makes of two vectors of
 * floats (pairs_<isa>.h); k below counts elements.
 *
 * An includer defines GEMM_ROWS (height of the tile), GEMM_VECS (its width in vectors; COLS floats)
 * and, where the names of functions carry the tile, GEMM_TILE.  Every element is one chain of fused
 * multiply-adds over k in ascending order, whatever the shape of the tile: a row's result does not
 * depend on its batch. */
#ifndef ACCEL_CPU_MICRO_BODY_H
#define ACCEL_CPU_MICRO_BODY_H

#include <stdbool.h>

#include "kernels/unroll.h"

#if !defined(MICRO_ADD)
#define MICRO_ADD(sum, a, b) v_accumulate(sum, a, b)
#endif
#if !defined(MICRO_PER)
#define MICRO_PER           1
#define MICRO_PAIR_UP(a, b) v_former(a, b)
V_INLINE vf v_former(vf a, vf b) {
  (void)b;
  return a;
}
#endif
#define GEMM_COLS (GEMM_VECS * V)
/* Keeps the compiler from turning every row's address into a register of its own: there are too
 * few. */
#define MICRO_KEEP(pointer) __asm__("" : "+r"(pointer))
/* Of k in one round of the loop: what is not a multiply-add takes their ports. */
enum { MICRO_STEPS = V_REGISTERS >= 32 ? 4 : 8 };
enum { MICRO_NEAR = 512 }; /* floats of b that are prefetched into the first-level cache */
/* Where a step reads one line of b and registers are few, each prefetches its line: eight in a row
 * hold up the loads of the round's first step (1 to 5 % on Zen 3). */
enum { MICRO_SPREAD = V_REGISTERS < 32 && GEMM_COLS == 16 };

/* Elements of n numbers. */
static inline int64_t micro_depth(int64_t n) { return (n + MICRO_PER - 1) / MICRO_PER; }

typedef vf micro_sums[GEMM_ROWS][GEMM_VECS]; /* registers once unrolled */

/* One k: x holds every fourth row at this k, the others are at 1, 2 and 3 times `row` bytes from
 * it. */
V_INLINE void micro_step(const int rows, const char *const *x, int64_t row, int64_t row3,
                         const float *b, const int u, vf (*sum)[GEMM_VECS]) {
  vf y[GEMM_VECS];
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { y[j] = v_load(b + u * GEMM_COLS + j * V); }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    vf w = v_set(((const float *)(x[i / 4] + (i % 4 == 3 ? row3 : i % 4 * row)))[u]);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { MICRO_ADD(&sum[i][j], w, y[j]); }
  }
  v_fence();
}

/* a: rows at stride lda.  b: row k at b + k * GEMM_COLS.  c: rows at stride ldc; `on`: the chains
 * of sums go on from what is in c. Meanwhile prefetches from prefetch_at on, prefetch_step floats
 * further in each round: what the next call will read as b. */
V_INLINE void micro(const int rows, const bool on, int64_t k_count, const float *a, int64_t lda,
                    const float *b, float *c, int64_t ldc, const float *prefetch_at,
                    int64_t prefetch_step) {
  micro_sums sum;
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      sum[i][j] = on ? v_load(c + i * ldc + j * V) : v_zero();
    }
  }
  const char *x[4];
  for (int i = 0; i < 4; i++) x[i] = (const char *)(4 * i < rows ? a + 4 * i * lda : a);
  int64_t row = 4 * lda, row3 = 3 * row, rounds = k_count / MICRO_STEPS;
  for (; rounds > 0; rounds--) {
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { MICRO_KEEP(x[i]); }
    MICRO_KEEP(row);
    MICRO_KEEP(row3);
    v_prefetch_far(prefetch_at);
    v_prefetch_far(prefetch_at + 16);
    if (prefetch_step > 32) {
      MICRO_UNROLL for (int i = 2; i < 4; i++) { v_prefetch_far(prefetch_at + 16 * i); }
    }
    if (prefetch_step > 64) {
      MICRO_UNROLL for (int i = 4; i < MICRO_STEPS * GEMM_COLS / 16; i++) {
        v_prefetch_far(prefetch_at + 16 * i);
      }
    }
    prefetch_at += prefetch_step;
    MICRO_UNROLL for (int i = 0; !MICRO_SPREAD && i < MICRO_STEPS * GEMM_COLS; i += 16) {
      v_prefetch(b + MICRO_NEAR + i);
    }
    MICRO_UNROLL for (int u = 0; u < MICRO_STEPS; u++) {
      if (MICRO_SPREAD) v_prefetch(b + MICRO_NEAR + u * GEMM_COLS);
      micro_step(rows, x, row, row3, b, u, sum);
    }
    b += MICRO_STEPS * GEMM_COLS;
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { x[i] += 4 * MICRO_STEPS; }
  }
  for (int64_t k = k_count % MICRO_STEPS; k > 0; k--) {
    micro_step(rows, x, row, row3, b, 0, sum);
    b += GEMM_COLS;
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { x[i] += 4; }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { v_store(c + i * ldc + j * V, sum[i][j]); }
  }
}

typedef void (*micro_fn)(int64_t k_count, const float *a, int64_t lda, const float *b, float *c,
                         int64_t ldc, const float *prefetch_at, int64_t prefetch_step);

#define MICRO_FN(name, rows, on)                                                           \
  static void name(int64_t k_count, const float *a, int64_t lda, const float *b, float *c, \
                   int64_t ldc, const float *prefetch_at, int64_t prefetch_step) {         \
    micro(rows, on, k_count, a, lda, b, c, ldc, prefetch_at, prefetch_step);               \
  }
#define MICRO(rows) MICRO_FN(micro_##rows, rows, false)
/* clang-format off */
MICRO(1) MICRO(2) MICRO(3) MICRO(4)
#if GEMM_ROWS >= 6
MICRO(5) MICRO(6)
#endif
#if GEMM_ROWS >= 14
MICRO(7) MICRO(8) MICRO(9) MICRO(10) MICRO(11) MICRO(12) MICRO(13) MICRO(14)
#endif

static const micro_fn micro_of_rows[GEMM_ROWS + 1] = {
  NULL, micro_1, micro_2, micro_3, micro_4,
#if GEMM_ROWS >= 6
  micro_5, micro_6,
#endif
#if GEMM_ROWS >= 14
  micro_7, micro_8, micro_9, micro_10, micro_11, micro_12, micro_13, micro_14,
#endif
};
/* clang-format on */

#endif
