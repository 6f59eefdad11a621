/* dot_body.h - what the linears over 8-bit and 4-bit codes have in common, included by
 * gemm_i8_body.h and gemm_i4_body.h after dot_<isa>.h.
 *
 * dot_<isa>.h adds to vec_<isa>.h a vector `vi` of V sums of 32 bits, or of 4V codes of 8 bits:
 *   i_zero, i_add, i_load   plain
 *   i_four(p)               four codes at p, repeated
 *   i_dot(&sum, x, w)       sum += four products of codes each, x unsigned (as wide as the kernel's cpu_act_format), w signed
 *   i_float(x)              sums to fp32
 * and, where words are multiplied, i_dot_words (two products of 16 bits each), which DOT_PRODUCT
 * then names instead of i_dot.  Where i_dot adds two products in 16 bits, it defines DOT_TIMES,
 * i_dot_words and
 *   i_word(p)                        the word at p, repeated
 *   i_dot_times(&sum, x, w, times)   sum += four products, times such words
 *
 * A panel begins with factor[COLS] and sum[COLS] as fp32:
 *   y = x_scale (factor sum_k(code_x code_w) - x_zero sum),   sum = sum_k w
 * when x has one scale a row; see gemm_i8_body.h for others.
 * Sums of codes are integers and exact in any order; those of groups are added in ascending order,
 * whatever the tile: a row's result does not depend on its batch. */
#ifndef ACCEL_CPU_DOT_BODY_H
#define ACCEL_CPU_DOT_BODY_H

#include "kernels/unroll.h"

#define GEMM_COLS (GEMM_VECS * V)
#if !defined(DOT_MOST_CHAINS)
#define DOT_MOST_CHAINS 4
#endif
/* Of loops over the rows of a tile: a tile's height is a constant, unless an ISA says otherwise. */
#if !defined(DOT_UNROLL)
#define DOT_UNROLL MICRO_UNROLL
#endif
/* Keeps the compiler from turning every row's address into a register of its own: there are too
 * few. */
#define DOT_KEEP(pointer) __asm__("" : "+r"(pointer))
#if !defined(DOT_PRODUCT)
#define DOT_PRODUCT i_dot
#endif
#if !defined(DOT_TIMES)
#define i_dot_times(sum, x, w, times) DOT_PRODUCT(sum, x, w)
#endif

enum {
  /* bytes of four k of a panel */
  DOT_STEP = GEMM_COLS * 4,
  /* sums an element is cut into, at most */
  DOT_CHAINS = DOT_MOST_CHAINS,
  /* a tile's fp32 sums beside those of its block */
  DOT_HOLDS = 2 * GEMM_ROWS * GEMM_VECS + GEMM_VECS + 2 <= V_REGISTERS
};

/* Few rows keep the multipliers busy with several sums for each element. */
V_INLINE int dot_chains(int rows) {
  const int sums = V_REGISTERS / 2 / (rows * GEMM_VECS);
  return sums >= 4 ? 4 : sums >= 2 ? 2 : 1;
}

typedef vi dot_sums[GEMM_ROWS][GEMM_VECS * DOT_CHAINS]; /* registers once unrolled */

/* Four k: x holds every fourth row, the others are at 1, 2 and 3 times ldx from it.  times: of each
 * row, or NULL. */
V_INLINE void dot_step(const int rows, const uint8_t *const *x, int64_t ldx, int64_t ldx3,
                       const char *w, const int u, const int chain, const vi *times,
                       vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  vi b[GEMM_VECS];
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { b[j] = i_load(w + u * DOT_STEP + j * 4 * V); }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    vi a = i_four(x[i / 4] + (i % 4 == 3 ? ldx3 : i % 4 * ldx) + 4 * u);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      vi *s = &sum[i][j * DOT_CHAINS + chain];
      if (times)
        i_dot_times(s, a, b[j], times[i]);
      else
        DOT_PRODUCT(s, a, b[j]);
    }
  }
  v_fence();
}

V_INLINE void dot_begin(const int rows, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS * DOT_CHAINS; j++) { sum[i][j] = i_zero(); }
  }
}

V_INLINE void dot_more(const int rows, const int chains, const int round, int64_t steps,
                       const uint8_t *from, int64_t ldx, const char *w, const char *prefetch_at,
                       int64_t prefetch_step, const vi *times, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  const uint8_t *x[4] = {from, rows > 4 ? from + 4 * ldx : from, rows > 8 ? from + 8 * ldx : from,
                         rows > 12 ? from + 12 * ldx : from};
  int64_t ldx3 = 3 * ldx;
  for (; steps > 0; steps -= round) {
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { DOT_KEEP(x[i]); }
    DOT_KEEP(ldx);
    DOT_KEEP(ldx3);
    if (prefetch_at) {
      v_prefetch_far(prefetch_at);
      if (round <= 4 || prefetch_step > 64) v_prefetch_far(prefetch_at + 64);
      if (prefetch_step > 128) {
        MICRO_UNROLL for (int i = 2; i < round * DOT_STEP / 64; i++) {
          v_prefetch_far(prefetch_at + 64 * i);
        }
      }
      prefetch_at += prefetch_step;
    }
    MICRO_UNROLL for (int u = 0; u < round; u++) {
      dot_step(rows, x, ldx, ldx3, w, u, u % chains, times, sum);
    }
    w += round * DOT_STEP;
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { x[i] += 4 * round; }
  }
}

V_INLINE void dot_end(const int rows, const int chains, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      MICRO_UNROLL for (int c = 1; c < chains; c++) {
        sum[i][j * DOT_CHAINS] = i_add(sum[i][j * DOT_CHAINS], sum[i][j * DOT_CHAINS + c]);
      }
    }
  }
}

/* Sums of rows [0, rows) of x with codes w [steps][COLS][4], steps a multiple of `round`, into
 * sum[i][j * DOT_CHAINS]. Meanwhile prefetches from prefetch_at on, prefetch_step bytes further in
 * each round; not when it is NULL. */
V_INLINE void dot_rows(const int rows, const int chains, const int round, int64_t steps,
                       const uint8_t *from, int64_t ldx, const char *w, const char *prefetch_at,
                       int64_t prefetch_step, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  dot_begin(rows, sum);
  dot_more(rows, chains, round, steps, from, ldx, w, prefetch_at, prefetch_step, NULL, sum);
  dot_end(rows, chains, sum);
}

/* One vector of results: total is the sum over k of codes times codes (and group scales). */
V_INLINE vf dot_value(const cpu_gemm *g, int64_t row, const float *panel, int j, vf total) {
  vf factor = v_load(panel + j * V), sum = v_load(panel + GEMM_COLS + j * V);
  return v_mul(v_set(g->x_scale[row]), v_fnma(v_set(g->x_zero[row]), sum, v_mul(factor, total)));
}

/* DOT_TILES makes DOT_TILE(rows), which defines the tile_fn tile_<rows>, of every height, and the
 * table tile_of. */
#if GEMM_ROWS == 4
#define DOT_HEIGHTS(F) F(1) F(2) F(3) F(4)
#elif GEMM_ROWS == 6
#define DOT_HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6)
#elif GEMM_ROWS == 8
#define DOT_HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8)
#else
#define DOT_HEIGHTS(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14)
#endif
#define DOT_ENTRY(rows) tile_##rows,
#define DOT_TILES       \
  DOT_HEIGHTS(DOT_TILE) \
  static tile_fn *const tile_of[GEMM_ROWS + 1] = {NULL, DOT_HEIGHTS(DOT_ENTRY)};

#endif
