/* gemm_i8_walk.h - rows and panels of a call, tile after tile; included behind run_tile, which
 * computes one, and set_height, which is told the height of each before it, and 0 at the end. */

/* Register tiles that share one pass over the panels: 64 KiB of x, but not fewer than 56 rows,
 * which would fetch w too often. */
static int64_t block_tiles(const cpu_gemm *g, int64_t tiles) {
  int64_t wanted = 65536 / (g->k ? g->k : 1) / GEMM_ROWS,
          blocks = tiles / (wanted < 56 / GEMM_ROWS ? 56 / GEMM_ROWS : wanted);
  return blocks > 1 ? (tiles + blocks - 1) / blocks : tiles;
}

/* Height of the tile there: those of an implicit GEMM keep to a line. */
static inline int64_t height_at(const cpu_gemm *g, const place *p, int64_t row_end) {
  const int64_t left = row_end - p->row,
                line = g->implicit_gemm ? g->implicit_gemm->line - p->at : left;
  return dot_height(line < left ? line : left);
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
  int64_t height = 0;
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
        set_height(&height, rows);
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
  set_height(&height, 0);
}
