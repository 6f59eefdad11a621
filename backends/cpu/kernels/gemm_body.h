/* gemm_body.h - linear over packed panels (kernels.h: cpu_gemm), included by gemm_<isa>.c; elements of x and the panels
 * hold MICRO_PER k each, 32 bits in all. */
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/micro_body.h"
#include "kernels/tile_body.h"

#if !defined(GEMM_LINEAR)
#define GEMM_LINEAR CPU_NAME(linear, GEMM_TILE)
#endif

/* Few rows: several panels at once. */
/* clang-format off */
#if V_REGISTERS >= 32
#if MICRO_PER > 1 /* four streams are enough to ask for */
#define WIDE_ONE micro_1_4, 4
MICRO(1, 4)
#else
#define WIDE_ONE micro_1_8, 8
MICRO(1, 8)
#endif
MICRO(2, 4) MICRO(3, 4) MICRO(4, 2)
static const struct {
  micro_fn run;
  int panels;
} wide[] = {{NULL, 1}, {WIDE_ONE}, {micro_2_4, 4}, {micro_3_4, 4}, {micro_4_2, 2}};
#else
MICRO(1, 4) MICRO(2, 2) MICRO(3, 2)
static const struct {
  micro_fn run;
  int panels;
} wide[] = {{NULL, 1}, {micro_1_4, 4}, {micro_2_2, 2}, {micro_3_2, 2}, {micro_4_1, 1}};
#endif
/* clang-format on */
enum { WIDE_ROWS = 4, WIDE_PANELS = 8 };

/* ---- the walk ---- */

/* Register tiles that share one pass over the panels: their part of x and a panel stay in the second-level cache together.
 * 64 KiB of x was better than 128 KiB and more on an AVX-512 machine with 2 MiB (K 384: 10 %; K 768 and 3072: the same);
 * fewer than 56 rows fetch w too often. */
static int64_t block_tiles(int64_t depth, int64_t tiles) {
  int64_t wanted = 16384 / (depth ? depth : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

static void few_rows(const cpu_gemm *g, int64_t row, int64_t rows, int64_t panel, int64_t panel_end) {
  float tile[WIDE_ROWS * WIDE_PANELS * GEMM_COLS] __attribute__((aligned(64))),
      one[WIDE_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const float *x = g->x, *w = g->w;
  const int64_t size = g->panel_bytes / (int64_t)sizeof(float), depth = micro_depth(g->k), ldx = g->ldx / MICRO_PER;
  while (panel < panel_end) {
    int panels = panel_end - panel >= wide[rows].panels ? wide[rows].panels : 1;
    int64_t ldc = panels * GEMM_COLS;
    (panels > 1 ? wide[rows].run : micro_of_rows[rows])(depth, x + row * ldx, ldx, w + panel * size, size, tile, ldc,
                                                        w + (panel + panels) * size, 0);
    for (int p = 0; p < panels; p++, panel++) {
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < GEMM_COLS; j += V)
          v_store(one + i * GEMM_COLS + j, v_load(tile + i * ldc + p * GEMM_COLS + j));
      finish(g, one, row, rows, panel);
    }
  }
}

void GEMM_LINEAR(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const float *x = g->x, *w = g->w;
  const int64_t size = g->panel_bytes / (int64_t)sizeof(float), depth = micro_depth(g->k), ldx = g->ldx / MICRO_PER;
  if (row_end - row <= WIDE_ROWS) {
    if (row < row_end) few_rows(g, row, row_end - row, panel, panel_end);
    return;
  }
  while (row < row_end) {
    const int64_t tiles = block_tiles(depth, (row_end - row + GEMM_ROWS - 1) / GEMM_ROWS),
                  step = MICRO_STEPS * GEMM_COLS / tiles; /* of prefetching */
    int64_t stop = row;
    for (int64_t t = 0; t < tiles; t++) stop += micro_height(row_end - stop);
    for (int64_t p = panel; p < panel_end; p++)
      for (int64_t i = row, rows, t = 0; t < tiles; i += rows, t++) { /* each tile brings its part of the next panel */
        rows = micro_height(row_end - i);
        expect(g, i, rows, p);
        micro_of_rows[rows](depth, x + i * ldx, ldx, w + p * size, size, tile, GEMM_COLS,
                            w + (p + 1) * size + t * step * (depth / MICRO_STEPS), step);
        finish(g, tile, i, rows, p);
      }
    row = stop;
  }
}

#if MICRO_PER == 1
void CPU_NAME(activate, row)(int act, float alpha, const float *x, float *y, int64_t n) { activate(act, alpha, x, y, n); }

/* Rows of w become columns of a panel, V at a time; missing ones are zeros. */
void CPU_NAME(pack, column)(const float *w, int64_t ldw, int64_t rows, int64_t k, float *panel, int64_t ldp) {
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
