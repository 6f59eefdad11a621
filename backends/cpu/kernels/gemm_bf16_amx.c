/* gemm_bf16_amx.c - linear over bf16 weights and rows of bf16 for AMX: panels and rows are those of
 * gemm_bf16_avx512bf16.c, and so is the order of sums for each element, whatever rows there are
 * beside its own.  Denormals are read as zeros; sums are fp32, rounded to nearest. */
#include "kernels/amx.h"
#include "kernels/vec_avx512.h"

#define GEMM_COLS AMX_TILE
#define V_GELU    v_gelu_brief
#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/tile_body.h"

enum { STEP = AMX_BYTES / 2, FEW_ROWS = 4, FAR = 4096 };

/* One panel as the products of a call read it. */
typedef struct panel_view {
  const char *w, *last; /* last: a step that is filled up with zeros, or NULL */
  int64_t steps;        /* whole ones */
} panel_view;

static panel_view view_of(const cpu_gemm *g, int64_t panel, char *last) {
  const int64_t steps = g->k / STEP, pairs = (g->k % STEP + 1) / 2;
  panel_view v = {.w = (const char *)g->w + panel * g->panel_bytes, .steps = steps};
  if (!pairs) return v;
  amx_fill_up(v.w + steps * AMX_STEP_BYTES, pairs, last);
  v.last = last;
  return v;
}

/* One tile, [rows][COLS]; meanwhile prefetches b `ahead` bytes in front. */
V_INLINE void multiply(const bool second, const panel_view *v, const char *x, int64_t ldx,
                       int64_t ahead, float *tile) {
  const char *w = v->w;
  amx_zero();
  for (int64_t s = 0; s < v->steps; s++, x += AMX_BYTES, w += AMX_STEP_BYTES) {
    if (ahead)
      for (int i = 0; i < AMX_STEP_BYTES; i += 64)
        v_prefetch_far((const float *)(const void *)(w + ahead + i));
    amx_prefetch(x + AMX_BYTES, ldx, second);
    amx_prefetch(w + AMX_STEP_BYTES, AMX_BYTES, true);
    AMX_MULTIPLY(_tile_dpbf16ps, x, ldx, w, second);
  }
  if (v->last) AMX_MULTIPLY(_tile_dpbf16ps, x, ldx, v->last, second);
  amx_store(tile, second);
}

/* Tiles that share one pass over the panels: 256 KiB of x, which stay in the second-level cache. */
static int64_t block_rows(const cpu_gemm *g) {
  const int64_t rows = (256 << 10) / (2 * (g->k ? g->k : 1)) / AMX_TILE * AMX_TILE;
  return rows < 2 * AMX_TILE ? 2 * AMX_TILE : rows;
}

void accel_bf16_linear_32x32__amx(const cpu_gemm *g, int64_t row, int64_t row_end, int64_t panel,
                                  int64_t panel_end) {
  float tile[AMX_TILE * AMX_TILE] __attribute__((aligned(64)));
  char last[AMX_STEP_BYTES] __attribute__((aligned(64)));
  const int64_t ldx = g->ldx * 2, block = block_rows(g),
                ahead = row_end - row <= FEW_ROWS ? FAR : 0;
  int64_t configured = 0;
  for (int64_t stop; row < row_end; row = stop) {
    stop = row_end - row < block ? row_end : row + block;
    for (int64_t p = panel; p < panel_end; p++) {
      const panel_view v = view_of(g, p, last);
      for (int64_t i = row, rows; i < stop; i += rows) {
        const char *x = (const char *)g->x + i * ldx;
        rows = stop - i < AMX_TILE ? stop - i : AMX_TILE;
        if (rows != configured) amx_configure(configured = rows);
        prefetch_result(g, i, rows, p);
        if (rows > AMX_ROWS)
          multiply(true, &v, x, ldx, ahead, tile);
        else
          multiply(false, &v, x, ldx, ahead, tile);
        finish(g, tile, i, rows, p);
      }
    }
  }
  if (configured) _tile_release();
}
