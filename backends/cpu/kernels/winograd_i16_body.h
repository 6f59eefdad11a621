/* winograd_i16_body.h - 3x3 convolutions of codes by Winograd's F(4 x 4, 3x3) in integers (ops.h:
 * cpu_winograd_i16), included by winograd_i16_<isa>.c after dot_<isa>.h.
 *
 * A row of windows at a time, 2V channels side by side, becomes words,
 * points[point][window][channel]; then, for each panel, every point's words are multiplied with
 * their weights, sums[part][window][point][column], and windows are transformed back V columns at a
 * time.  A quarter of the direct way's multiplications, of words instead of bytes, which take twice
 * as long. */
#include <math.h>

#include "kernels/kernels.h"
#include "kernels/dot_body.h"
#include "kernels/winograd_words.h"

/* Times the gain of codes of eight bits: what codes of fewer leave free. */
#if !defined(WORDS_GAIN)
#define WORDS_GAIN 1
#endif

enum {
  POINTS = 36,
  SIDE = 6,
  WINDOW = 4,
  WORDS = 2 * V,
  ROUND = 4,
  HEAD = POINTS * GEMM_COLS * (int)sizeof(float)
};

/* ---- windows of x ---- */

/* What makes words of a row's lines: (256 code * factor / 2^16 + less) / 32, each rounded down. */
typedef struct scaling {
  vi factor[SIDE], less[SIDE];
} scaling;

/* The scale that all lines of a row of windows get, NaN where one of them has no number, for words
 * `gain` times as large as codes: what their transform has of the 16 bits, with zeros anywhere or
 * at 0. */
static float common_scale(const cpu_winograd_i16 *g, int64_t row, float *gain) {
  const float *scale = g->scale + row * WINDOW * g->line;
  float most = 0;
  *gain = WORDS_GAIN * (g->zero ? 1.25f : 1.875f);
  for (int l = 0; l < SIDE; l++) {
    if (!(scale[l * g->line] <= 3.4e38f)) return NAN;
    most = fmaxf(most, scale[l * g->line]);
  }
  return most;
}

static void scale_lines(const cpu_winograd_i16 *g, int64_t row, scaling *s) {
  float gain;
  const float common = common_scale(g, row, &gain);
  for (int l = 0; l < SIDE; l++) {
    const int64_t at = (row * WINDOW + l) * g->line;
    const int factor = common > 0 ? (int)lrintf(g->scale[at] / common * gain * 8192.0f) : 0,
              zero = common > 0 && g->zero ? (int)g->zero[at] : 0;
    s->factor[l] = i_words(factor);
    s->less[l] = i_words(16 - (zero * factor >> 8));
  }
}

/* x = B^T x */
V_INLINE void words_in(vi x[SIDE]) {
  const vi a = i_sub16(x[4], i_times4(x[2])), b = i_sub16(x[3], i_times4(x[1])),
           c = i_sub16(x[4], x[2]), d = i_sub16(x[3], x[1]), e = i_add16(d, d);
  x[0] = i_add16(i_times4(i_sub16(x[0], x[2])), c);
  x[5] = i_sub16(i_sub16(x[5], x[3]), i_add16(e, e));
  x[1] = i_add16(a, b);
  x[2] = i_sub16(a, b);
  x[3] = i_add16(c, e);
  x[4] = i_sub16(c, e);
}

/* Channels [c, c + WORDS) of a row of windows.  Neighbours share two columns. */
static void transform_words(const cpu_winograd_i16 *g, int64_t row, int64_t c, const scaling *s) {
  const int64_t step = cpu_winograd_i16_step(g->rows * g->wide, g->k), ldx = g->line * g->k;
  const uint8_t *x = g->x + row * WINDOW * ldx + c;
  int16_t *to = g->points + row * g->wide * g->k + c;
  vi column[SIDE][SIDE];
  for (int64_t w = 0; w < g->wide; w++, to += g->k) {
    const int first = w ? SIDE - WINDOW : 0;
    MICRO_UNROLL for (int i = 0; w && i < SIDE - WINDOW; i++) {
      MICRO_UNROLL for (int r = 0; r < SIDE; r++) column[i][r] = column[i + WINDOW][r];
    }
    for (int i = first; i < SIDE; i++) {
      vi *d = column[i];
      const uint8_t *from = x + (w * WINDOW + i) * g->k;
      MICRO_UNROLL for (int r = 0; r < SIDE; r++) {
        d[r] = i_part32(i_add16(i_upper(i_high_bytes(from + r * ldx), s->factor[r]), s->less[r]));
      }
      words_in(d);
    }
    for (int r = 0; r < SIDE; r++) {
      vi d[SIDE];
      MICRO_UNROLL for (int i = 0; i < SIDE; i++) d[i] = column[i][r];
      words_in(d);
      MICRO_UNROLL for (int i = 0; i < SIDE; i++) i_store(to + (r * SIDE + i) * step, d[i]);
    }
  }
}

/* ---- products ---- */

/* sums[rows][36][COLS] = x[rows][k] w, rows of x ldx words apart. */
typedef void tile_fn(int64_t k, const int16_t *x, int64_t ldx, const char *w, const char *ahead,
                     int64_t prefetch_step, int32_t *sums);
#define DOT_TILE(rows)                                                                           \
  static void tile_##rows(int64_t k, const int16_t *x, int64_t ldx, const char *w,               \
                          const char *ahead, int64_t prefetch_step, int32_t *sums) {             \
    dot_sums sum;                                                                                \
    dot_rows(rows, dot_chains(rows), ROUND, k / 2, (const uint8_t *)x, ldx * (int64_t)sizeof *x, \
             w, ahead, prefetch_step, sum);                                                      \
    MICRO_UNROLL for (int i = 0; i < rows; i++) {                                                \
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) {                                         \
        i_store(sums + i * POINTS * GEMM_COLS + j * V, sum[i][j * DOT_CHAINS]);                  \
      }                                                                                          \
    }                                                                                            \
  }
DOT_TILES

/* k channels of a point: x of all windows, sums of all of them.  Each tile brings its share of the
 * weights that lie behind these. */
static const char *multiply_part(const cpu_winograd_i16 *g, int64_t k, const int16_t *x,
                                 const char *w, int32_t *sums) {
  const int64_t windows = g->rows * g->wide, tiles = (windows + GEMM_ROWS - 1) / GEMM_ROWS,
                prefetch_step = ROUND * DOT_STEP / tiles;
  const char *next = w + k * GEMM_COLS * (int64_t)sizeof(int16_t), *ahead = next;
  for (int64_t at = 0, rows; at < windows; at += rows, ahead += k / 2 / ROUND * prefetch_step) {
    rows = tile_height(windows - at, GEMM_ROWS);
    tile_of[rows](k, x + at * g->k, g->k, w, ahead, prefetch_step, sums + at * POINTS * GEMM_COLS);
  }
  return next;
}

static void multiply_points(const cpu_winograd_i16 *g, const char *panel) {
  const int64_t windows = g->rows * g->wide, part = cpu_winograd_i16_part(g->k);
  const char *w = panel + HEAD;
  for (int p = 0; p < POINTS; p++) {
    const int16_t *x = g->points + p * cpu_winograd_i16_step(windows, g->k);
    int32_t *sums = g->sums + p * GEMM_COLS;
    for (int64_t c = 0; c < g->k; c += part, sums += windows * POINTS * GEMM_COLS)
      w = multiply_part(g, g->k - c < part ? g->k - c : part, x + c, w, sums);
  }
}

/* ---- windows of y ---- */

/* y = A^T m */
V_INLINE void sums_out(const vf m[SIDE], vf y[WINDOW]) {
  const vf s = v_add(m[1], m[2]), d = v_sub(m[1], m[2]), t = v_add(m[3], m[4]),
           e = v_sub(m[3], m[4]);
  y[0] = v_add(v_add(m[0], s), t);
  y[1] = v_fma(v_set(2.0f), e, d);
  y[2] = v_fma(v_set(4.0f), t, s);
  y[3] = v_add(v_fma(v_set(8.0f), e, d), m[5]);
}

/* Of `parts` parts, which lie `step` apart; one: there are no others. */
V_INLINE void transform_sums(const bool one, int64_t parts, const int32_t *sums, int64_t step,
                             const float *factor, vf y[WINDOW][WINDOW]) {
  vf z[WINDOW][SIDE];
  MICRO_UNROLL for (int s = 0; s < SIDE; s++) {
    vf m[SIDE], column[WINDOW];
    MICRO_UNROLL for (int r = 0; r < SIDE; r++) {
      const int at = (r * SIDE + s) * GEMM_COLS;
      vf sum = i_float(i_load(sums + at));
      for (int64_t i = 1; !one && i < parts; i++)
        sum = v_add(sum, i_float(i_load(sums + i * step + at)));
      m[r] = v_mul(v_load(factor + at), sum);
    }
    sums_out(m, column);
    MICRO_UNROLL for (int r = 0; r < WINDOW; r++) z[r][s] = column[r];
  }
  MICRO_UNROLL for (int r = 0; r < WINDOW; r++) sums_out(z[r], y[r]);
}

/* Columns [col, col + V) of a window whose first pixel is (line, pixel); begins: the first columns
 * of a call. */
V_INLINE void put_window(const bool adds, const cpu_winograd_i16 *g, vf scale,
                         const vf y[WINDOW][WINDOW], int64_t line, int64_t pixel, int64_t col,
                         bool begins) {
  const vf bias = g->bias ? v_load(g->bias + col) : v_zero(),
           least = v_set(g->relu ? 0.0f : -INFINITY);
  MICRO_UNROLL for (int r = 0; r < WINDOW; r++) {
    if (line + r >= g->lines) return;
    MICRO_UNROLL for (int i = 0; i < WINDOW; i++) {
      if (pixel + i >= g->pixels) break;
      const int64_t at = (line + r) * g->pixels + pixel + i;
      vf v = v_fma(scale, y[r][i], bias);
      if (adds) {
        const vf zero = v_set(g->residual_zero ? g->residual_zero[at] : 0.0f);
        v = v_fma(v_set(g->residual_scale[at]),
                  v_sub(v_load_u8(g->residual + at * g->ldr + col), zero), v);
      }
      v = v_max(least, v); /* a NaN stays */
      v_store(g->y + at * g->ldy + col, v);
      if (!g->high) continue;
      v_store(g->high + at * V, v_max(begins ? v_zero() : v_load(g->high + at * V), v));
      if (g->low)
        v_store(g->low + at * V,
                v_max(begins ? v_zero() : v_load(g->low + at * V), v_sub(v_zero(), v)));
    }
  }
}

static void put_panel(const cpu_winograd_i16 *g, int64_t panel, bool begins) {
  const float *factor = (const float *)(const void *)(g->w + panel * g->panel_bytes);
  const int64_t parts = cpu_winograd_i16_parts(g->k), step = g->rows * g->wide * POINTS * GEMM_COLS;
  const int32_t *sums = g->sums;
  for (int64_t row = 0; row < g->rows; row++) {
    float gain;
    const float common = common_scale(g, row, &gain);
    const vf scale = v_set(common / gain);
    for (int64_t w = 0; w < g->wide; w++, sums += POINTS * GEMM_COLS)
      for (int j = 0; j < GEMM_VECS; j++) {
        vf y[WINDOW][WINDOW];
        if (parts == 1)
          transform_sums(true, 1, sums + j * V, step, factor + j * V, y);
        else
          transform_sums(false, parts, sums + j * V, step, factor + j * V, y);
        if (g->residual)
          put_window(true, g, scale, y, row * WINDOW, w * WINDOW, panel * GEMM_COLS + j * V,
                     begins && !j);
        else
          put_window(false, g, scale, y, row * WINDOW, w * WINDOW, panel * GEMM_COLS + j * V,
                     begins && !j);
      }
  }
}

void DOT_NAME(f32, winograd_i16, GEMM_TILE)(const cpu_winograd_i16 *g, int64_t panel,
                                            int64_t panel_end) {
  for (int64_t row = 0; row < g->rows; row++) {
    scaling s;
    scale_lines(g, row, &s);
    for (int64_t c = 0; c < g->k; c += WORDS) transform_words(g, row, c, &s);
  }
  for (int64_t p = panel; p < panel_end; p++) {
    multiply_points(g, g->w + p * g->panel_bytes);
    put_panel(g, p, p == panel);
  }
}
