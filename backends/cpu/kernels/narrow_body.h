/* narrow_body.h - linear over panels of narrow floats (bf16, fp16, E4M3, E5M2), included by
 * narrow_<isa>.c after micro_body.h, tile_body.h and its own widen_pair(), which makes NARROW_STEPS
 * elements of a panel's column from two k.
 *
 * Weights are widened in registers when there are few rows, else a block of a panel at a time into
 * the first-level cache, where the fp32 register tile reads it.  Both add in the same order, so a
 * row's result does not depend on its batch: without scales one chain of fused multiply-adds over k
 * in ascending order, as in fp32; with scales blocks of at most CPU_NARROW_BLOCK k, each such a
 * chain, then total += scale * chain. */
#ifndef ACCEL_CPU_NARROW_BODY_H
#define ACCEL_CPU_NARROW_BODY_H

enum { NARROW_STEPS = 2 / MICRO_PER };
enum {
  NARROW_FEW = V_REGISTERS >= 32 ? 12 : 5, /* rows that are widened for in registers, at most */
  /* rows that widen for as many others, where there are no more */
  NARROW_HALF = V_REGISTERS >= 32 ? 8 : 4,
  NARROW_SHORT = 128, /* k widened at a time for those */
  NARROW_PANELS = 4,  /* side by side, at most */
  /* k widened at a time without scales, at most: fewer pieces begin a tile anew less often */
  NARROW_LENGTH = 1536,
  NARROW_ROWS = 140,  /* that share what was widened, at most */
  NARROW_X = 3 << 19, /* bytes of x that stay in the second-level cache while all panels pass */
  /* A panel is prefetched NARROW_FAR bytes before its use into the second-level cache, and
   * NARROW_NEAR bytes before into the first: that can wait for too few lines at once to read as
   * fast as memory does (Zen 4: 75 % of its rate without the first step, 95 % and more with it). */
  NARROW_FAR = 2048,
  NARROW_NEAR = 512
};

/* One panel: scales [blocks of the format][cols] (eight-bit layouts only), then codes by pairs of
 * k. */
typedef struct narrow {
  const uint8_t *codes;
  const float *scale;
  int64_t block; /* k of one chain */
} narrow;

V_INLINE bool narrow_scaled(const int layout) {
  return layout == CPU_LAYOUT_E4M3 || layout == CPU_LAYOUT_E5M2;
}

V_INLINE int narrow_pair_bytes(const int layout) {
  return (narrow_scaled(layout) ? 2 : 4) * GEMM_COLS;
}

V_INLINE narrow narrow_panel(const int layout, const cpu_gemm *g, int64_t panel) {
  const uint8_t *at = (const uint8_t *)g->w + panel * g->panel_bytes;
  if (!narrow_scaled(layout)) return (narrow){.codes = at, .block = g->k};
  return (narrow){.codes = at + (g->group ? (g->k + g->group - 1) / g->group : 1) * GEMM_COLS *
                                    (int64_t)sizeof(float),
                  .scale = (const float *)at,
                  .block = g->group && g->group < CPU_NARROW_BLOCK ? g->group : CPU_NARROW_BLOCK};
}

/* total[rows][cols] += scale * chain; without scales the chain went on from the total. */
V_INLINE void narrow_add(const int layout, const int rows, const float *scale, const vf *chain,
                         float *total) {
  MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
    vf s = narrow_scaled(layout) ? v_load(scale + j * V) : v_zero();
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      float *t = total + i * GEMM_COLS + j * V;
      const vf more = chain[i * GEMM_VECS + j];
      v_store(t, narrow_scaled(layout) ? v_fma(s, more, v_load(t)) : more);
    }
  }
}

/* Register tiles whose chains go on from what is in c. */
#define NARROW_ON(rows) MICRO_FN(narrow_on_##rows, rows, true)
/* clang-format off */
NARROW_ON(1) NARROW_ON(2) NARROW_ON(3) NARROW_ON(4)
#if GEMM_ROWS >= 6
NARROW_ON(5) NARROW_ON(6)
#endif
#if GEMM_ROWS >= 14
NARROW_ON(7) NARROW_ON(8) NARROW_ON(9) NARROW_ON(10) NARROW_ON(11) NARROW_ON(12) NARROW_ON(13) NARROW_ON(14)
#endif

static const micro_fn narrow_on[GEMM_ROWS + 1] = {
  NULL, narrow_on_1, narrow_on_2, narrow_on_3, narrow_on_4,
#if GEMM_ROWS >= 6
  narrow_on_5, narrow_on_6,
#endif
#if GEMM_ROWS >= 14
  narrow_on_7, narrow_on_8, narrow_on_9, narrow_on_10, narrow_on_11, narrow_on_12, narrow_on_13, narrow_on_14,
#endif
};
/* clang-format on */

/* Scales of the panel `further` panels on, for the group that k is in. */
V_INLINE const float *narrow_scale(const cpu_gemm *g, const narrow *w, int64_t k, int64_t further) {
  return (const float *)((const char *)w->scale + further * g->panel_bytes) +
         (g->group ? k / g->group * GEMM_COLS : 0);
}

/* ---- weights widened in registers ---- */

/* Where one chain of sums reads: x and the codes of panels side by side from the same k on.  Of a
 * single panel: kept [count][cols] gets the widened weights; the chain goes on from `from`
 * [rows][cols], if not NULL. */
typedef struct narrow_chain {
  const float *x;
  const uint8_t *codes;
  int64_t ldx, panel_bytes, count;
  float *kept;
  const float *from;
} narrow_chain;
typedef vf narrow_sums[NARROW_PANELS][NARROW_FEW][GEMM_VECS];

/* Two k, or the first element of them when there is no second.  x holds every fourth row, the
 * others are at 1, 2 and 3 times `row` bytes from it. */
V_INLINE void narrow_step(const int layout, const int rows, const int panels, const int steps,
                          const char *const *x, int64_t row, int64_t row3, const uint8_t *const *at,
                          float *kept, vf (*sum)[NARROW_FEW][GEMM_VECS]) {
  MICRO_UNROLL for (int p = 0; p < panels; p++) {
    vf w[NARROW_STEPS][GEMM_VECS];
    widen_pair(layout, at[p], w);
    MICRO_UNROLL for (int u = 0; u < steps; u++) {
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {
        if (kept) v_store(kept + u * GEMM_COLS + j * V, w[u][j]);
      }
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        vf a = v_set(((const float *)(x[i / 4] + (i % 4 == 3 ? row3 : i % 4 * row)))[u]);
        MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { MICRO_ADD(&sum[p][i][j], a, w[u][j]); }
      }
    }
  }
}

V_INLINE void narrow_sum(const int layout, const int rows, const int panels, const bool keep,
                         const narrow_chain *c, vf (*sum)[NARROW_FEW][GEMM_VECS]) {
  const uint8_t *at[NARROW_PANELS];
  const char *x[(NARROW_FEW + 3) / 4];
  float *kept = keep ? c->kept : NULL;
  const int64_t row3 = 12 * c->ldx;
  int64_t row = 4 * c->ldx;
  MICRO_UNROLL for (int p = 0; p < panels; p++) { at[p] = c->codes + p * c->panel_bytes; }
  MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { x[i] = (const char *)c->x + 4 * i * row; }
  MICRO_UNROLL for (int p = 0; p < panels; p++) {
    MICRO_UNROLL for (int i = 0; i < rows * GEMM_VECS; i++) {
      sum[p][i / GEMM_VECS][i % GEMM_VECS] = c->from ? v_load(c->from + i * V) : v_zero();
    }
  }
  for (int64_t j = c->count / 2; j > 0; j--) {
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { MICRO_KEEP(x[i]); }
    MICRO_KEEP(row);
    MICRO_UNROLL for (int p = 0; p < panels; p++) {
      MICRO_UNROLL for (int i = 0; i < narrow_pair_bytes(layout); i += 64) {
        v_prefetch_far(at[p] + NARROW_FAR + i);
        v_prefetch(at[p] + NARROW_NEAR + i);
      }
    }
    narrow_step(layout, rows, panels, NARROW_STEPS, x, row, row3, at, keep ? kept : NULL, sum);
    MICRO_UNROLL for (int p = 0; p < panels; p++) { at[p] += narrow_pair_bytes(layout); }
    MICRO_UNROLL for (int i = 0; 4 * i < rows; i++) { x[i] += 4 * NARROW_STEPS; }
    if (keep) kept += NARROW_STEPS * GEMM_COLS;
  }
  if (c->count % 2) narrow_step(layout, rows, panels, 1, x, row, row3, at, keep ? kept : NULL, sum);
}

V_INLINE void narrow_few(const int layout, const int rows, const int panels, const cpu_gemm *g,
                         int64_t row, int64_t panel) {
  float total[NARROW_PANELS][NARROW_FEW * GEMM_COLS] __attribute__((aligned(64)));
  const narrow w = narrow_panel(layout, g, panel);
  for (int p = 0; p < panels; p++)
    for (int64_t j = 0; j < rows * GEMM_COLS; j += V) v_store(total[p] + j, v_zero());
  for (int64_t k = 0; k < g->k; k += w.block) {
    const narrow_chain c = {.x = (const float *)g->x + (row * g->ldx + k) / MICRO_PER,
                            .codes = w.codes + k / 2 * narrow_pair_bytes(layout),
                            .ldx = g->ldx / MICRO_PER,
                            .panel_bytes = g->panel_bytes,
                            .count = g->k - k < w.block ? g->k - k : w.block};
    narrow_sums sum;
    narrow_sum(layout, rows, panels, false, &c, sum);
    MICRO_UNROLL for (int p = 0; p < panels; p++) {
      narrow_add(layout, rows, narrow_scaled(layout) ? narrow_scale(g, &w, k, p) : NULL, sum[p][0],
                 total[p]);
    }
  }
  for (int p = 0; p < panels; p++) finish(g, total[p], row, rows, panel + p);
}

V_INLINE void narrow_few_rows(const int layout, const int rows, const int panels, const cpu_gemm *g,
                              int64_t row, int64_t panel, int64_t panel_end) {
  for (; panels > 1 && panel + panels <= panel_end; panel += panels)
    narrow_few(layout, rows, panels, g, row, panel);
  for (; panel < panel_end; panel++) narrow_few(layout, rows, 1, g, row, panel);
}

/* ---- weights widened into the cache ---- */

/* Rows [row, stop) of one panel; total: scratch for them.  In each block of k, `most` long without
 * scales, the `first` of them widen for all. */
V_INLINE void narrow_panel_rows(const int layout, const int first, const int64_t most,
                                const cpu_gemm *g, int64_t row, int64_t stop, int64_t panel,
                                float *total) {
  float block[NARROW_LENGTH * GEMM_COLS] __attribute__((aligned(64))),
      tile[(NARROW_FEW > GEMM_ROWS ? NARROW_FEW : GEMM_ROWS) * GEMM_COLS]
      __attribute__((aligned(64)));
  const narrow w = narrow_panel(layout, g, panel);
  const int64_t pieces = g->k > most ? (g->k + most - 1) / most : 1,
                piece = (g->k + pieces - 1) / pieces, /* as equal as rounds of a tile allow */
      length =
          narrow_scaled(layout) ? w.block : (piece + MICRO_STEPS - 1) / MICRO_STEPS * MICRO_STEPS,
                tiles = (stop - row - first + GEMM_ROWS - 1) / GEMM_ROWS,
                step = (MICRO_STEPS / NARROW_STEPS * narrow_pair_bytes(layout) / 4 + tiles - 1) /
                       tiles, /* of prefetching, in floats */
      ldx = g->ldx / MICRO_PER;
  /* then tiles are done at once, in the same lines */
  const bool whole = !narrow_scaled(layout) && g->k > 0 && pieces == 1;
  for (int64_t j = 0; !whole && j < (stop - row) * GEMM_COLS; j += V) v_store(total + j, v_zero());
  if (!g->k) finish(g, total, row, stop - row, panel);
  for (int64_t k = 0; k < g->k; k += length) {
    const float *x = (const float *)g->x + row * ldx + k / MICRO_PER,
                *scale = narrow_scaled(layout) ? narrow_scale(g, &w, k, 0) : NULL;
    const narrow_chain c = {.x = x,
                            .codes = w.codes + k / 2 * narrow_pair_bytes(layout),
                            .ldx = ldx,
                            .count = g->k - k < length ? g->k - k : length,
                            .kept = block,
                            .from = narrow_scaled(layout) || !k ? NULL : total};
    const float *ahead =
        (const float *)(const void *)(c.codes + c.count / 2 * narrow_pair_bytes(layout));
    const int64_t depth = micro_depth(c.count);
    narrow_sums sum;
    const bool last = k + length >= g->k;
    if (last) prefetch_result(g, row, first, panel);
    narrow_sum(layout, first, 1, true, &c, sum);
    narrow_add(layout, first, scale, sum[0][0], whole ? tile : total);
    if (last) finish(g, whole ? tile : total, row, first, panel);
    for (int64_t i = first, rows; i < stop - row; i += rows) {
      rows = tile_height(stop - row - i, GEMM_ROWS);
      if (last) prefetch_result(g, row + i, rows, panel);
      if (narrow_scaled(layout)) {
        micro_of_rows[rows](depth, x + i * ldx, ldx, block, tile, GEMM_COLS, ahead, step);
        for (int64_t r = 0; r < rows; r++)
          narrow_add(layout, 1, scale, (const vf *)(tile + r * GEMM_COLS),
                     total + (i + r) * GEMM_COLS);
      } else {
        (k ? narrow_on : micro_of_rows)[rows](depth, x + i * ldx, ldx, block,
                                              whole ? tile : total + i * GEMM_COLS, GEMM_COLS,
                                              ahead, step);
      }
      if (last) finish(g, whole ? tile : total + i * GEMM_COLS, row + i, rows, panel);
      ahead += depth / MICRO_STEPS * step;
    }
  }
}

V_INLINE void narrow_two_tiles(const int layout, const cpu_gemm *g, int64_t row, int64_t row_end,
                               int64_t panel, int64_t panel_end) {
  float total[2 * NARROW_HALF * GEMM_COLS] __attribute__((aligned(64)));
  for (; panel < panel_end; panel++)
    narrow_panel_rows(layout, NARROW_HALF, NARROW_SHORT, g, row, row_end, panel, total);
}

V_INLINE void narrow_many_rows(const int layout, const cpu_gemm *g, int64_t row, int64_t row_end,
                               int64_t panel, int64_t panel_end) {
  float total[NARROW_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  int64_t most = NARROW_X / (4 * (g->k ? micro_depth(g->k) : 1));
  if (most > NARROW_ROWS) most = NARROW_ROWS;
  if (most < NARROW_ROWS / 4) most = NARROW_ROWS / 4;
  const int64_t chunks = (row_end - row + most - 1) / most;
  for (int64_t c = 0; c < chunks; c++) {
    int64_t first = row + (row_end - row) * c / chunks,
            stop = row + (row_end - row) * (c + 1) / chunks;
    for (int64_t p = panel; p < panel_end; p++)
      narrow_panel_rows(layout, NARROW_FEW, NARROW_LENGTH, g, first, stop, p, total);
  }
}

/* ---- the kernels ---- */

/* Of so many rows, how many panels side by side: enough chains to hide what a sum waits for. */
/* clang-format off */
#if V_REGISTERS >= 32
#define NARROW_HEIGHTS(X, layout) \
  X(layout, 1, 4) X(layout, 2, 4) X(layout, 3, 2) X(layout, 4, 2) X(layout, 5, 2) X(layout, 6, 1) X(layout, 7, 1) X(layout, 8, 1) \
  X(layout, 9, 1) X(layout, 10, 1) X(layout, 11, 1) X(layout, 12, 1)
#else
#define NARROW_HEIGHTS(X, layout) X(layout, 1, 4) X(layout, 2, 2) X(layout, 3, 1) X(layout, 4, 1) X(layout, 5, 1)
#endif
/* clang-format on */
#define NARROW_CASE(layout, rows, panels)                            \
  case rows:                                                         \
    narrow_few_rows(layout, rows, panels, g, row, panel, panel_end); \
    return;
#define NARROW(layout, name)                                                                     \
  static void name##_few(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,         \
                         int64_t panel_end) {                                                    \
    switch (row_end - row) { NARROW_HEIGHTS(NARROW_CASE, layout) }                               \
  }                                                                                              \
  void name(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) { \
    if (row_end - row <= NARROW_FEW)                                                             \
      name##_few(g, row, row_end, panel, panel_end);                                             \
    else if (row_end - row <= 2 * NARROW_HALF)                                                   \
      narrow_two_tiles(layout, g, row, row_end, panel, panel_end);                               \
    else                                                                                         \
      narrow_many_rows(layout, g, row, row_end, panel, panel_end);                               \
  }

#endif
