/* gemm_body.h - linear over packed panels (kernels.h: cpu_gemm), included by gemm_<isa>.c; elements
 * of x and the panels hold MICRO_PER k each, 32 bits in all. */
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

#if !defined(GEMM_LINEAR)
#define GEMM_LINEAR CPU_NAME(linear, GEMM_TILE)
#endif

/* ---- the walk ---- */

/* Few rows are as fast as their weights arrive: one panel after the other, a single stream that the
 * processor fetches ahead by itself, without prefetching the next panel.  Panels side by side, for
 * more chains, are faster in caches only. */
enum { FEW_ROWS = 4 };

/* Register tiles that share one pass over the panels: their part of x and a panel stay in the
 * second-level cache together. 64 KiB of x was better than 128 KiB and more on an AVX-512 machine
 * with 2 MiB (K 384: 10 %; K 768 and 3072: the same); fewer than 56 rows fetch w too often. */
static int64_t block_tiles(int64_t depth, int64_t tiles) {
  int64_t wanted = 16384 / (depth ? depth : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

void GEMM_LINEAR(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                 int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const float *x = g->x, *w = g->w;
  const int64_t size = g->panel_bytes / (int64_t)sizeof(float), depth = micro_depth(g->k),
                ldx = g->ldx / MICRO_PER;
  while (row < row_end) {
    const int64_t tiles = block_tiles(depth, (row_end - row + GEMM_ROWS - 1) / GEMM_ROWS),
                  /* of prefetching */
        step = row_end - row > FEW_ROWS ? MICRO_STEPS * GEMM_COLS / tiles : 0;
    int64_t stop = row;
    for (int64_t t = 0; t < tiles; t++) stop += tile_height(row_end - stop, GEMM_ROWS);
    /* each tile brings its part of the next panel */
    for (int64_t p = panel; p < panel_end; p++)
      for (int64_t i = row, rows, t = 0; t < tiles; i += rows, t++) {
        rows = tile_height(row_end - i, GEMM_ROWS);
        prefetch_result(g, i, rows, p);
        micro_of_rows[rows](depth, x + i * ldx, ldx, w + p * size, tile, GEMM_COLS,
                            w + (p + 1) * size + t * step * (depth / MICRO_STEPS), step);
        finish(g, tile, i, rows, p);
      }
    row = stop;
  }
}

#if MICRO_PER == 1
void CPU_NAME(activate, row)(int act, float alpha, const float *x, float *y, int64_t n) {
  activate(act, alpha, x, y, n);
}

/* Rows of w become columns of a panel, V at a time; missing ones are zeros. */
void CPU_NAME(pack, column)(const float *w, int64_t ldw, int64_t rows, int64_t k, float *panel,
                            int64_t ldp) {
  vf x[V];
  int64_t j = 0;
  for (; j + V <= k; j += V) {
    for (int64_t i = 0; i < V; i++) x[i] = i < rows ? v_load(w + i * ldw + j) : v_zero();
    v_transpose(x);
    for (int64_t i = 0; i < V; i++) v_store(panel + (j + i) * ldp, x[i]);
  }
  for (; j < k; j++)
    for (int64_t i = 0; i < V; i++) panel[j * ldp + i] = i < rows ? w[i * ldw + j] : 0.0f;
}
#endif
