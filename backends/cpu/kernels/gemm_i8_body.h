/* gemm_i8_body.h - linear over int8 weights (cpu_pack_i8.c), included by gemm_i8_<isa>.c.
 *
 * y[m, n] = act(x[m, k] w^T + bias) + residual, x as codes in DOT_ACT, the kernel's cpu_act_format,
 * which has blocks (cpu_act_blocked; cpu_act_format_beside says how long they are).  In a block b
 * of k sums of codes are integers; a tile of y is
 *   sum_b factor[b] x_scale[b] (sum_k(code_x code_w) - x_zero[b] sum[b]),   sum[b] = sum_k(code_w).
 * With cpu_gemm.implicit_gemm the rows of x are windows of an image: conv_i8_body.h. */
#include "kernels/gemm_i8_tile.h"

/* The tile stays where it is: compilers else keep a second copy of it on the stack. */
#define TILE_STAYS() __asm__ volatile("" ::: "memory")

#if defined(DOT_TIMES)
enum { PART = CPU_ACT_PART / 4, LEAST = 4 }; /* steps of a whole part, of a shorter one */

/* A part in one piece: what surrounds the steps takes as long as one of them.  step: its first
 * row's. */
V_INLINE void dot_part(const int rows, const int steps, const uint8_t *x, int64_t ldx,
                       const char *step, int64_t step_row, const char *w, const char *prefetch_at,
                       int64_t prefetch_bytes, vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  vi times[GEMM_ROWS];
  MICRO_UNROLL for (int i = 0; i < rows; i++) times[i] = i_word(step + i * step_row);
  dot_more(rows, dot_chains(rows), steps, steps, x, ldx, w, prefetch_at, prefetch_bytes, times,
           sum);
}

/* A block whose rows have steps: sums begin with what x's zeros take, and words of two products are
 * multiplied by their part's step where they are by one otherwise.  step: of the first row; less:
 * [pairs of parts][COLS][2] words, less the parts' sums of codes. */
V_INLINE void dot_steps(const int rows, int64_t block, int64_t k, const uint8_t *x, int64_t ldx,
                        const char *step, int64_t step_row, const char *less, const char *w,
                        const char *prefetch_at, int64_t prefetch_step,
                        vi (*sum)[GEMM_VECS * DOT_CHAINS]) {
  const char *zero = step + block / CPU_ACT_PART * 2;
  dot_begin(rows, sum);
  for (int64_t at = 0; at < k; at += 2 * CPU_ACT_PART, zero += 4, less += DOT_STEP)
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      const vi both = i_four(zero + i * step_row);
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++)
          i_dot_words(&sum[i][j * DOT_CHAINS], both, i_load(less + j * 4 * V));
    }
  for (; k > CPU_ACT_PART - 4 * LEAST; k -= CPU_ACT_PART, x += CPU_ACT_PART, step += 2) {
    dot_part(rows, PART, x, ldx, step, step_row, w, prefetch_at, PART / ROUND * prefetch_step, sum);
    w += PART * DOT_STEP;
    if (prefetch_at) prefetch_at += PART / ROUND * prefetch_step;
  }
  if (k > 0) dot_part(rows, LEAST, x, ldx, step, step_row, w, NULL, 0, sum);
  dot_end(rows, dot_chains(rows), sum);
}
#else
#define dot_steps(...) (void)0 /* their rows have none */
#endif

/* One tile, [rows][COLS].  col: its first column where the epilogue stores it directly, else -1. */
V_INLINE void multiply(const int rows, const cpu_gemm *g, const place *p, const char *panel,
                       int64_t col, epilogue_kind kind, bool first_panel, float *tile,
                       const char *prefetch_at, int64_t prefetch_step) {
  const source from = source_of(g, p);
  const cpu_implicit_gemm *windows = g->implicit_gemm;
  const char *w = panel;
  if (g->k <= 0) {
    DOT_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) { v_store(tile + i * V, v_zero()); }
  }
  for (int64_t b = 0, left = g->k; left > 0; b++, left -= from.block) {
    const int64_t k = left < from.block ? left : from.block, steps = (k + 15) / 16 * 4,
                  x_at = windows ? windows->part ? 0 : windows->x_at[b] : b * from.block,
                  scale_at = windows ? windows->scale_at[b] : b;
    const float *factors = (const float *)(const void *)w;
    const char *scale = from.scale + scale_at * (int64_t)sizeof(float);
    const bool parted = cpu_act_parted(DOT_ACT) && !windows;
    dot_sums sum;
    w += GEMM_COLS * cpu_i8_head(parted, k);
    if (windows && windows->part)
      dot_block_parts(rows, windows, k, from.x + x_at, from.ldx, w, sum);
    else if (parted)
      dot_steps(rows, from.block, k, from.x + x_at, from.ldx,
                from.scale + from.zero + b * (from.block / CPU_ACT_PART) * (int64_t)sizeof(float),
                from.scale_row, (const char *)(factors + GEMM_COLS), w, prefetch_at, prefetch_step,
                sum);
    else
      dot_rows(rows, dot_chains(rows), ROUND, steps, from.x + x_at, from.ldx, w, prefetch_at,
               prefetch_step, sum);
    w += steps * DOT_STEP;
    prefetch_at += steps / ROUND * prefetch_step;
    if (windows) {
      int32_t sums[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
      DOT_UNROLL for (int i = 0; i < rows; i++) {
        MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++)
            i_store(sums + i * GEMM_COLS + j * V, sum[i][j * DOT_CHAINS]);
      }
      finish_block(kind,
                   &(block_at){g, factors, scale, from.scale_row, from.zero, p->row, col, b == 0,
                               left == k, first_panel},
                   rows, sums, tile);
    } else {
      if (g->group)
        add_block(rows, true, sum, factors, scale, from.scale_row, from.zero, b == 0, tile);
      else
        add_block(rows, false, sum, factors, scale, from.scale_row, from.zero, b == 0, tile);
      if (left == k && !g->group) multiply_tile(rows, factors, tile);
    }
    TILE_STAYS();
  }
}

typedef void tile_fn(const cpu_gemm *g, const place *p, const char *panel, int64_t col,
                     epilogue_kind kind, bool first_panel, float *tile, const char *prefetch_at,
                     int64_t prefetch_step);
#define DOT_TILE(rows)                                                                       \
  static void tile_##rows(const cpu_gemm *g, const place *p, const char *panel, int64_t col, \
                          epilogue_kind kind, bool first_panel, float *tile,                 \
                          const char *prefetch_at, int64_t step) {                           \
    multiply(rows, g, p, panel, col, kind, first_panel, tile, prefetch_at, step);            \
  }
DOT_TILES

V_INLINE void run_tile(int64_t rows, const cpu_gemm *g, const place *p, const char *panel,
                       int64_t col, epilogue_kind kind, bool first_panel, float *tile,
                       const char *prefetch_at, int64_t step) {
  tile_of[rows](g, p, panel, col, kind, first_panel, tile, prefetch_at, step);
}

/* ---- rows and panels of a call, tile after tile ---- */

/* Register tiles that share one pass over the panels: 64 KiB of x, but not fewer than 56 rows,
 * which would fetch w too often. */
static int64_t block_tiles(const cpu_gemm *g, int64_t tiles) {
  int64_t wanted = 65536 / (g->k ? g->k : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

static int64_t tiles_in(const cpu_gemm *g, place p, int64_t row_end) {
  int64_t tiles = 0;
  for (; p.row < row_end; tiles++) step_rows(g, &p, height_at(g, &p, row_end));
  return tiles;
}

/* Panels that only FEW_ROWS rows read pass through the cache once: they are prefetched FAR bytes
 * ahead. */
enum { FEW_ROWS = 4, FAR = 4096 };

static void walk(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                 int64_t panel_end) {
  float tile[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const char *w = g->w;
  const bool few = row_end - row <= FEW_ROWS;
  const epilogue_kind kind = epilogue_of(g);
  place from = place_of(g, row);
  while (from.row < row_end) {
    const int64_t tiles = block_tiles(g, tiles_in(g, from, row_end)),
                  step = ROUND * DOT_STEP / tiles;
    place stop = from;
    for (int64_t p = panel; p < panel_end; p++) {
      const int64_t col = stores_directly(g, p * GEMM_COLS) ? p * GEMM_COLS : -1;
      stop = from;
      for (int64_t t = 0; t < tiles; t++) { /* each tile brings its part of the next panel */
        const char *prefetch_at = few ? w + p * g->panel_bytes + FAR
                                      : w + (p + 1) * g->panel_bytes + t * step * (g->k / 16);
        const int64_t rows = height_at(g, &stop, row_end);
        if (col < 0 && !few) prefetch_result(g, stop.row, rows, p);
        run_tile(rows, g, &stop, w + p * g->panel_bytes, col, kind, p == panel, tile, prefetch_at,
                 step);
        if (col < 0 && g->implicit_gemm)
          finish_implicit(g, tile, stop.row, rows, p, p == panel);
        else if (col < 0)
          finish(g, tile, stop.row, rows, p);
        step_rows(g, &stop, rows);
      }
    }
    if (panel >= panel_end) break;
    from = stop;
  }
}

void DOT_NAME(i8, linear, GEMM_TILE)(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                                     int64_t panel_end) {
  walk(g, row, row_end, panel, panel_end);
}
