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

/* Sums of k codes; what follows the last of them in a row is read, and multiplied by 0.  Meanwhile
 * `step` bytes are prefetched with each AMX_BYTES of k. */
V_INLINE void sum_block(const bool second, int64_t k, const uint8_t *x, int64_t ldx, const char *w,
                        const char *prefetch_at, int64_t step, tile_sums sum) {
  amx_zero();
  for (; k >= AMX_BYTES; k -= AMX_BYTES, x += AMX_BYTES, w += AMX_STEP_BYTES, prefetch_at += step) {
    for (int64_t i = 0; i < step; i += 64) v_prefetch_far(prefetch_at + i);
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

static void set_height(int64_t *height, int64_t rows) {
  if (rows && rows != *height) amx_configure(rows);
  if (!rows && *height) _tile_release();
  *height = rows;
}

/* ---- linears ---- */

#define FINISH_SUMS(act)                                                        \
  case act:                                                                     \
    for (int64_t i = 0; i < rows; i++, tile += GEMM_COLS, scale += scale_row) { \
      const vf s = float_at(scale), z = float_at(scale + zero);                 \
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {                        \
        vf v = v_mul(factor[j], v_fnma(z, total[j], i_float(sum[i][j])));       \
        v = first ? v_mul(s, v) : v_fma(s, v, v_load(tile + j * V));            \
        v = v_act(act, v_add(v, bias[j]), alpha);                               \
        v_store(y + j * V, r ? v_add(v, v_load(r + j * V)) : v);                \
      }                                                                         \
      y += g->ldy;                                                              \
      if (r) r += g->ldr;                                                       \
    }                                                                           \
    return true;

/* add_block and finish in one pass, for the last block of a whole panel with the usual activations
 * and factors of its own.  Answers whether it was. */
static bool finish_sums(const cpu_gemm *g, const vi (*sum)[GEMM_VECS], const float *factors,
                        const char *scale, int64_t scale_row, int64_t zero, bool first,
                        const float *tile, int64_t row, int64_t rows, int64_t panel) {
  const int64_t col = panel * GEMM_COLS;
  if (g->glu || g->to || !g->group || g->n - col < GEMM_COLS) return false;
  const vf alpha = v_set(g->alpha);
  vf bias[GEMM_VECS], factor[GEMM_VECS], total[GEMM_VECS];
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
    bias[j] = g->bias ? v_load(g->bias + col + j * V) : v_zero();
    factor[j] = v_load(factors + j * V);
    total[j] = v_load(factors + GEMM_COLS + j * V);
  }
  float *y = g->y + row * g->ldy + col;
  const float *r = g->residual ? g->residual + row * g->ldr + col : NULL;
  switch (g->act) { USUAL_ACTS(FINISH_SUMS) }
  return false;
}

/* One tile, as multiply() of gemm_i8_body.h. */
static void run_tile(int64_t rows, const cpu_gemm *g, int64_t row, int64_t panel,
                     const char *prefetch_at, int64_t step, float *tile) {
  const source from = source_of(g, &(place){.row = row});
  const char *w = (const char *)g->w + panel * g->panel_bytes;
  tile_sums sum;
  if (g->k <= 0) memset(tile, 0, (size_t)(rows * GEMM_COLS) * sizeof *tile);
  for (int64_t b = 0, left = g->k; left > 0; b++, left -= from.block) {
    const int64_t k = left < from.block ? left : from.block;
    const uint8_t *x = from.x + b * from.block;
    const float *factors = (const float *)(const void *)w;
    const char *scale = from.scale + b * (int64_t)sizeof(float);
    w += GEMM_COLS * cpu_i8_head(false, k);
    if (rows > AMX_ROWS)
      sum_block(true, k, x, from.ldx, w, prefetch_at, step, sum);
    else
      sum_block(false, k, x, from.ldx, w, prefetch_at, step, sum);
    w += (k + 15) / 16 * 4 * DOT_STEP;
    prefetch_at += k / AMX_BYTES * step;
    if (left == k && finish_sums(g, sum, factors, scale, from.scale_row, from.zero, b == 0, tile,
                                 row, rows, panel))
      return;
    add_block((int)rows, g->group != 0, sum, factors, scale, from.scale_row, from.zero, b == 0,
              tile);
    if (left == k && !g->group) multiply_tile((int)rows, factors, tile);
  }
  finish(g, tile, row, rows, panel);
}

/* Bytes of panels that all rows of a call pass before the next ones: they stay in the second-level
 * cache meanwhile, and the rows of a tile in the first.  Panels that only FEW_ROWS rows read pass
 * through the cache once: they are prefetched FAR bytes ahead. */
enum { NEAR_BYTES = 128 << 10, FEW_ROWS = 4, FAR = 4096 };

/* Rows and panels of a linear.  Each tile brings its part of the panels that follow the near ones:
 * behind the last ones those that the next call reads, as likely as not. */
static void walk_linear(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                        int64_t panel_end) {
  const int64_t rows = row_end - row, tiles = (rows + AMX_TILE - 1) / AMX_TILE,
                bytes = g->panel_bytes,
                near = tiles > 1 && bytes < NEAR_BYTES ? NEAR_BYTES / (bytes + 1) : 1,
                step = (AMX_STEP_BYTES / (tiles ? tiles : 1) + 63) / 64 * 64;
  float tile[AMX_TILE * GEMM_COLS] __attribute__((aligned(64)));
  int64_t height = 0;
  for (int64_t stop; panel < panel_end; panel = stop) {
    stop = panel_end - panel < near ? panel_end : panel + near;
    const char *next = (const char *)g->w + (rows <= FEW_ROWS ? panel * bytes + FAR : stop * bytes);
    for (int64_t i = row, n; i < row_end; i += n) {
      n = row_end - i < AMX_TILE ? row_end - i : AMX_TILE;
      set_height(&height, n);
      for (int64_t p = panel; p < stop; p++, next += bytes / tiles)
        run_tile(n, g, i, p, next, step, tile);
    }
  }
  set_height(&height, 0);
}

/* ---- windows of an image ---- */

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

/* Lines of a call as tiles take them: `spans` runs of `rows` rows that are ldx bytes apart in x.  A
 * span is a line, or all of them, `pitch` rows from one to the next; the sums of those between are
 * of no use. */
typedef struct spans {
  int64_t spans, rows, pitch, tiles; /* tiles: of a panel */
} spans;

static int64_t registers_of(int64_t rows) { return (rows + AMX_ROWS - 1) / AMX_ROWS; }

static spans spans_of(const cpu_gemm *g, int64_t lines) {
  const cpu_implicit_gemm *w = g->implicit_gemm;
  const int64_t pitch = w->line_bytes % g->ldx ? 0 : w->line_bytes / g->ldx,
                all = (lines - 1) * pitch + w->line;
  spans s = {.spans = lines, .rows = w->line, .pitch = w->line};
  if (pitch >= w->line && registers_of(all) < lines * registers_of(w->line))
    s = (spans){.spans = 1, .rows = all, .pitch = pitch};
  s.tiles = s.spans * ((s.rows + AMX_TILE - 1) / AMX_TILE);
  return s;
}

/* Rows of a tile: from `at` on of the span that begins with a line of y. */
typedef struct parts_tile {
  int64_t line, at, rows;
} parts_tile;

/* Meanwhile `step` bytes are prefetched with each part. */
V_INLINE void sum_parts(const bool second, int64_t parts, const uint8_t *x, const int64_t *x_at,
                        int64_t ldx, const char *w, const char *prefetch_at, int64_t step,
                        tile_sums sum) {
  amx_zero();
  for (int64_t p = 0; p < parts; p++, w += AMX_STEP_BYTES, prefetch_at += step) {
    for (int64_t i = 0; i < step; i += 64) v_prefetch_far(prefetch_at + i);
    AMX_MULTIPLY(_tile_dpbusd, x + x_at[p], ldx, w, second);
  }
  amx_store(sum, second);
}

static void run_parts(const cpu_gemm *g, const spans *s, const parts_tile *t, int64_t panel,
                      bool first_panel, epilogue_kind kind, const char *prefetch_at) {
  const cpu_implicit_gemm *windows = g->implicit_gemm;
  const int64_t parts = g->k / AMX_BYTES, size = windows->line,
                step = (AMX_STEP_BYTES / s->tiles + 63) / 64 * 64,
                col = stores_directly(g, panel * GEMM_COLS) ? panel * GEMM_COLS : -1;
  const uint8_t *x = (const uint8_t *)g->x + t->line * windows->line_bytes + t->at * g->ldx;
  const char *w = (const char *)g->w + panel * g->panel_bytes,
             *codes = w + GEMM_COLS * cpu_i8_head(false, g->k);
  tile_sums sum;
  float tile[AMX_TILE * GEMM_COLS] __attribute__((aligned(64)));
  if (t->rows > AMX_ROWS)
    sum_parts(true, parts, x, windows->x_at, g->ldx, codes, prefetch_at, step, sum);
  else
    sum_parts(false, parts, x, windows->x_at, g->ldx, codes, prefetch_at, step, sum);
  int64_t line = t->line + t->at / s->pitch, at = t->at % s->pitch;
  for (int64_t i = 0, n; i < t->rows; i += n + s->pitch - size, at = 0, line++) {
    n = size - at < t->rows - i ? size - at : t->rows - i;
    if (n <= 0) continue; /* the tile begins between two lines */
    const place to = {line * size + at, line, at};
    const source from = source_of(g, &to);
    finish_block(kind,
                 &(block_at){g, (const float *)(const void *)w, from.scale, from.scale_row,
                             from.zero, to.row, col, true, true, first_panel},
                 n, (const int32_t *)(const void *)sum[i], tile);
    if (col < 0) finish_implicit(g, tile, to.row, n, panel, first_panel);
  }
}

/* Tiles below each other follow each other: they see much of the same lines of x.  Each brings its
 * part of the next panel. */
static void walk_parts(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                       int64_t panel_end) {
  const epilogue_kind kind = epilogue_of(g);
  const int64_t line = row / g->implicit_gemm->line,
                lines = row_end / g->implicit_gemm->line - line, bytes = g->panel_bytes;
  int64_t height = 0;
  if (lines < 1) return;
  const spans s = spans_of(g, lines);
  for (int64_t p = panel; p < panel_end; p++) {
    const char *next = (const char *)g->w + (p + 1) * bytes;
    for (int64_t at = 0, rows; at < s.rows; at += rows) {
      rows = s.rows - at < AMX_TILE ? s.rows - at : AMX_TILE;
      set_height(&height, rows);
      for (int64_t i = 0; i < s.spans; i++, next += bytes / s.tiles)
        run_parts(g, &s, &(parts_tile){line + i, at, rows}, p, p == panel, kind, next);
    }
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
  else if (g->implicit_gemm)
    accel_i8_linear_14x32__avx512vnni(g, row, row_end, panel, panel_end);
  else
    walk_linear(g, row, row_end, panel, panel_end);
}
