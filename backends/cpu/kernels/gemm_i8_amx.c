/* gemm_i8_amx.c - linear over int8 weights for AMX: panels, rows of codes and the arithmetic around
 * the integer sums are those of gemm_i8_avx512vnni.c, and so are the results of a call, bit for bit.
 *
 * Convolutions of several taps come with parts of AMX_BYTES codes, whose lines share a scale
 * (cpu_conv.pixel), so that all their k stay in the registers. */
#include "kernels/dot_amx.h"

#define DOT_ACT   CPU_ACT_U8B
#define GEMM_ROWS AMX_TILE
#define GEMM_VECS 2
#include "kernels/gemm_i8_tile.h"

_Static_assert((int)GEMM_COLS == (int)AMX_TILE && (int)DOT_STEP == (int)AMX_PANEL, "one panel");

typedef vi tile_sums[AMX_TILE][GEMM_VECS];

/* Sums of k codes; what follows the last of them in a row is read, and multiplied by 0. */
V_INLINE void sum_block(const bool second, int64_t k, const uint8_t *x, int64_t ldx, const char *w,
                        const char *prefetch_at, int64_t prefetch_step, tile_sums sum) {
  amx_zero();
  for (; k >= AMX_BYTES; k -= AMX_BYTES, x += AMX_BYTES, w += AMX_STEP_BYTES) {
    for (int r = 0; r < AMX_BYTES / 4 / ROUND; r++, prefetch_at += prefetch_step)
      for (int64_t i = 0; i < prefetch_step || i < 128; i += 64) v_prefetch_far(prefetch_at + i);
    AMX_MULTIPLY(_tile_dpbusd, x, ldx, w, second);
  }
  if (k > 0) {
    char last[AMX_STEP_BYTES] __attribute__((aligned(64)));
    amx_fill_up(w, (k + 15) / 16 * 4, last);
    AMX_MULTIPLY(_tile_dpbusd, x, ldx, last, second);
  }
  amx_store(sum, second);
}

/* Block b of k columns of a panel, whose codes are at w, for a tile of an implicit GEMM; its first
 * and last ones begin and finish the tile's numbers. */
static void run_window_block(int64_t rows, const cpu_gemm *g, const place *p, const char *w,
                             int64_t b, int64_t k, bool last, int64_t col, epilogue_kind kind,
                             bool first_panel, float *tile) {
  const source from = source_of(g, p);
  const uint8_t *x = from.x + g->implicit_gemm->x_at[b];
  const char *scale = from.scale + g->implicit_gemm->scale_at[b] * (int64_t)sizeof(float),
             *codes = w + GEMM_COLS * cpu_i8_head(false, k);
  tile_sums sum;
  if (rows > AMX_ROWS)
    sum_block(true, k, x, from.ldx, codes, codes, 0, sum);
  else
    sum_block(false, k, x, from.ldx, codes, codes, 0, sum);
  finish_block(kind,
               &(block_at){g, (const float *)(const void *)w, scale, from.scale_row, from.zero,
                           p->row, col, b == 0, last, first_panel},
               rows, (const int32_t *)sum, tile);
}

/* As multiply() of gemm_i8_body.h, for a linear. */
static void run_tile(int64_t rows, const cpu_gemm *g, const place *p, const char *panel,
                     int64_t col, epilogue_kind kind, bool first_panel, float *tile,
                     const char *prefetch_at, int64_t prefetch_step) {
  const source from = source_of(g, p);
  const char *w = panel;
  tile_sums sum;
  (void)col, (void)kind, (void)first_panel;
  if (g->k <= 0) memset(tile, 0, (size_t)(rows * GEMM_COLS) * sizeof *tile);
  for (int64_t b = 0, left = g->k; left > 0; b++, left -= from.block) {
    const int64_t k = left < from.block ? left : from.block, steps = (k + 15) / 16 * 4;
    const uint8_t *x = from.x + b * from.block;
    const float *factors = (const float *)(const void *)w;
    const char *scale = from.scale + b * (int64_t)sizeof(float);
    w += GEMM_COLS * cpu_i8_head(false, k);
    if (rows > AMX_ROWS)
      sum_block(true, k, x, from.ldx, w, prefetch_at, prefetch_step, sum);
    else
      sum_block(false, k, x, from.ldx, w, prefetch_at, prefetch_step, sum);
    w += steps * DOT_STEP;
    prefetch_at += steps / ROUND * prefetch_step;
    add_block((int)rows, g->group != 0, sum, factors, scale, from.scale_row, from.zero, b == 0,
              tile);
    if (left == k && !g->group) multiply_tile((int)rows, factors, tile);
  }
}

static void set_height(int64_t *height, int64_t rows) {
  if (rows && rows != *height) amx_configure(rows);
  if (!rows && *height) _tile_release();
  *height = rows;
}
#include "kernels/gemm_i8_walk.h"

/* Tiles of an implicit GEMM that share one pass over a panel, block after block: a block of w stays
 * in the first-level cache for all of them, a whole panel would not. */
enum { WINDOW_TILES = 4 };

typedef struct window_tiles {
  int64_t n, rows[WINDOW_TILES];
  place at[WINDOW_TILES];
  float tile[WINDOW_TILES][AMX_TILE * GEMM_COLS] __attribute__((aligned(64)));
} window_tiles;

static void run_window_panel(const cpu_gemm *g, window_tiles *t, int64_t panel, bool first_panel,
                             epilogue_kind kind, int64_t *height) {
  const int64_t block = g->implicit_gemm->block,
                col = stores_directly(g, panel * GEMM_COLS) ? panel * GEMM_COLS : -1;
  const char *w = (const char *)g->w + panel * g->panel_bytes;
  for (int64_t b = 0, left = g->k; left > 0; b++, left -= block) {
    const int64_t k = left < block ? left : block;
    for (int64_t i = 0; i < t->n; i++) {
      set_height(height, t->rows[i]);
      run_window_block(t->rows[i], g, &t->at[i], w, b, k, left == k, col, kind, first_panel,
                       t->tile[i]);
    }
    w += GEMM_COLS * cpu_i8_head(false, k) + (k + 15) / 16 * 4 * DOT_STEP;
  }
  for (int64_t i = 0; col < 0 && i < t->n; i++)
    finish_implicit(g, t->tile[i], t->at[i].row, t->rows[i], panel, first_panel);
}

static void walk_windows(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                         int64_t panel_end) {
  const epilogue_kind kind = epilogue_of(g);
  window_tiles t;
  int64_t height = 0;
  for (place at = place_of(g, row); at.row < row_end;) {
    for (t.n = 0; t.n < WINDOW_TILES && at.row < row_end; t.n++) {
      t.at[t.n] = at;
      t.rows[t.n] = height_at(g, &at, row_end);
      step_rows(g, &at, t.rows[t.n]);
    }
    for (int64_t p = panel; p < panel_end; p++)
      run_window_panel(g, &t, p, p == panel, kind, &height);
  }
  set_height(&height, 0);
}

/* ---- windows whose k are parts of AMX_BYTES codes: all of them stay in the registers ---- */

V_INLINE void sum_parts(const bool second, int64_t parts, const uint8_t *x, const int64_t *x_at,
                        int64_t ldx, const char *w, tile_sums sum) {
  amx_zero();
  for (int64_t p = 0; p < parts; p++, w += AMX_STEP_BYTES)
    AMX_MULTIPLY(_tile_dpbusd, x + x_at[p], ldx, w, second);
  amx_store(sum, second);
}

static void run_parts(int64_t rows, const cpu_gemm *g, const place *p, int64_t panel,
                      bool first_panel, epilogue_kind kind) {
  const source from = source_of(g, p);
  const int64_t parts = g->k / AMX_BYTES,
                col = stores_directly(g, panel * GEMM_COLS) ? panel * GEMM_COLS : -1;
  const char *w = (const char *)g->w + panel * g->panel_bytes,
             *codes = w + GEMM_COLS * cpu_i8_head(false, g->k);
  tile_sums sum;
  float tile[AMX_TILE * GEMM_COLS] __attribute__((aligned(64)));
  if (rows > AMX_ROWS)
    sum_parts(true, parts, from.x, g->implicit_gemm->x_at, from.ldx, codes, sum);
  else
    sum_parts(false, parts, from.x, g->implicit_gemm->x_at, from.ldx, codes, sum);
  finish_block(kind,
               &(block_at){g, (const float *)(const void *)w, from.scale, from.scale_row, from.zero,
                           p->row, col, true, true, first_panel},
               rows, (const int32_t *)sum, tile);
  if (col < 0) finish_implicit(g, tile, p->row, rows, panel, first_panel);
}

static void walk_parts(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                       int64_t panel_end) {
  const epilogue_kind kind = epilogue_of(g);
  int64_t height = 0;
  for (int64_t p = panel; p < panel_end; p++)
    for (place at = place_of(g, row); at.row < row_end;) {
      const int64_t rows = height_at(g, &at, row_end);
      set_height(&height, rows);
      run_parts(rows, g, &at, p, p == panel, kind);
      step_rows(g, &at, rows);
    }
  set_height(&height, 0);
}

/* Windows that consist of parts of a few codes are left to vectors. */
void accel_i8_linear_32x32__amx(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                                int64_t panel_end) {
  if (g->implicit_gemm && g->implicit_gemm->part == AMX_BYTES && g->k > 0)
    walk_parts(g, row, row_end, panel, panel_end);
  else if (g->implicit_gemm && g->implicit_gemm->part)
    accel_i8_linear_14x32__avx512vnni(g, row, row_end, panel, panel_end);
  else if (g->implicit_gemm && g->k > 0)
    walk_windows(g, row, row_end, panel, panel_end);
  else
    walk(g, row, row_end, panel, panel_end);
}
