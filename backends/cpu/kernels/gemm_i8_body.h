/* gemm_i8_body.h - linear over int8 weights (pack_i8.c), included by gemm_i8_<isa>.c.  DOT_X is the kernel's cpu_x, which is
 * blocked (cpu_x_blocked). */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/dot_body.h"

enum { ROUND = 4, HEAD = 2 * GEMM_COLS * (int)sizeof(float) }; /* steps of one round; bytes before a block's codes */

/* The tile stays where it is: compilers else keep a second copy of it on the stack. */
#define TILE_STAYS() __asm__ volatile("" ::: "memory")

/* One block of a tile: t += x_scale (factor sum_k(code_x code_w) - x_zero sum); sum[i] of row i. */
V_INLINE void add_block(const int rows, const vi (*sum)[GEMM_VECS * DOT_CHAINS], const float *factors, const float *scale,
                        int64_t ldx, int64_t blocks, float *tile) {
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    const float *at = (const float *)(const void *)((const char *)scale + i * ldx);
    const vf s = v_set(at[0]), z = v_set(at[blocks]);
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
      float *t = tile + i * GEMM_COLS + j * V;
      const vf dot = v_mul(v_load(factors + j * V), i_float(sum[i][j * DOT_CHAINS])),
               value = v_fnma(z, v_load(factors + GEMM_COLS + j * V), dot);
      v_store(t, v_fma(s, value, v_load(t)));
    }
  }
}

/* One tile, [rows][COLS].  In a block b of k, code sums are integers; the tile is
 *   sum_b x_scale[b] (factor[b] sum_k(code_x code_w) - x_zero[b] sum[b]),   sum[b] = factor[b] sum_k(code_w). */
V_INLINE void multiply(const int rows, const cpu_gemm *g, int64_t row, const char *panel, float *tile, const char *ahead,
                       int64_t ahead_step) {
  const int64_t block = cpu_x_block(DOT_X), blocks = cpu_x_blocks(DOT_X, g->k), ldx = g->ldx,
                codes = (g->k + CPU_X_STEP - 1) / CPU_X_STEP * CPU_X_STEP;
  const uint8_t *x = (const uint8_t *)g->x + row * ldx;
  const float *scale = (const float *)(const void *)(x + codes);
  const char *w = panel;
  MICRO_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) { v_store(tile + i * V, v_zero()); }
  TILE_STAYS();
  for (int64_t b = 0, left = g->k; b < blocks; b++, x += block, left -= block) {
    const int64_t k = left < block ? left : block, steps = (k + 15) / 16 * 4;
    const float *factors = (const float *)(const void *)w;
    dot_sums sum;
    w += HEAD;
    dot_rows(rows, dot_chains(rows), ROUND, steps, x, ldx, w, ahead, ahead_step, sum);
    w += steps * DOT_STEP;
    ahead += steps / ROUND * ahead_step;
    add_block(rows, sum, factors, scale + b, ldx, blocks, tile);
    TILE_STAYS();
  }
}

typedef void tile_fn(const cpu_gemm *g, int64_t row, const char *panel, float *tile, const char *ahead, int64_t ahead_step);
#define DOT_TILE(rows)                                                                                       \
  static void tile_##rows(const cpu_gemm *g, int64_t row, const char *panel, float *tile, const char *ahead, \
                          int64_t step) {                                                                    \
    multiply(rows, g, row, panel, tile, ahead, step);                                                        \
  }
DOT_TILES

/* Register tiles that share one pass over the panels: 64 KiB of x, but not fewer than 56 rows, which would fetch w too
 * often. */
static int64_t block_tiles(const cpu_gemm *g, int64_t tiles) {
  int64_t wanted = 65536 / (g->k ? g->k : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

enum { FEW_ROWS = 4, FAR = 4096 }; /* what is read once is asked for so many bytes before */

void DOT_NAME(i8, linear, GEMM_TILE)(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const char *w = g->w;
  const bool few = row_end - row <= FEW_ROWS;
  while (row < row_end) {
    const int64_t tiles = block_tiles(g, (row_end - row + GEMM_ROWS - 1) / GEMM_ROWS), step = ROUND * DOT_STEP / tiles;
    int64_t stop = row;
    for (int64_t t = 0; t < tiles; t++) stop += dot_height(row_end - stop);
    for (int64_t p = panel; p < panel_end; p++)
      for (int64_t i = row, rows, t = 0; t < tiles; i += rows, t++) { /* each tile brings its part of the next panel */
        const char *ahead = few ? w + p * g->panel_bytes + FAR : w + (p + 1) * g->panel_bytes + t * step * (g->k / 16);
        rows = dot_height(row_end - i);
        tile_of[rows](g, i, w + p * g->panel_bytes, tile, ahead, step);
        finish(g, tile, i, rows, p);
      }
    row = stop;
  }
}
