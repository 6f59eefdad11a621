/* conv_body.h - convolutions (ops.h), included by conv_<isa>.c.
 *
 * conv: for a block of k and pixels the columns are laid out in panels [pixels / COLS][k][COLS], then every tile of w passes
 * over them.  The tile is the one of micro_body.h with the roles of rows and columns swapped: rows are output channels. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/micro_body.h"
#include "kernels/plane_body.h"

/* ---- columns ---- */

/* Neighbouring pixels of one output row in one panel. */
typedef struct segment {
  int64_t lane, n, y, x; /* y, x: of the first pixel in the input, before the tap's offset */
} segment;

static int segments(const cpu_plane *p, int64_t pixel, int64_t count, segment *s) {
  int n = 0;
  for (int64_t lane = 0; lane < count; n++) {
    int64_t oy = (pixel + lane) / p->out[1], ox = (pixel + lane) % p->out[1];
    int64_t have = p->out[1] - ox < count - lane ? p->out[1] - ox : count - lane;
    s[n] = (segment){lane, have, oy * p->stride[0] - p->begin[0], ox * p->stride[1] - p->begin[1]};
    lane += have;
  }
  return n;
}

/* A pixel's column is that pixel of every channel. */
static bool is_plain(const cpu_plane *p) {
  return p->kernel[0] * p->kernel[1] * p->stride[0] * p->stride[1] == 1 && p->in[0] == p->out[0] && p->in[1] == p->out[1] &&
         !p->begin[0] && !p->begin[1];
}

/* Panels of such columns, whole ones: x[count][pixels] at stride ldx.  Few of the rows that follow are asked for early: each
 * lies in a page of its own. */
enum { PLAIN_AHEAD = 4 };
static void lay_plain(const float *x, int64_t ldx, int64_t count, int64_t pixels, float *to) {
  for (int64_t k = 0; k < count; k++, x += ldx)
    for (int64_t p = 0; p < pixels; p += GEMM_COLS) {
      float *panel = to + p * count + k * GEMM_COLS;
      for (int j = 0; j < GEMM_VECS; j++) {
        v_store(panel + j * V, v_load(x + p + j * V));
        v_prefetch(x + PLAIN_AHEAD * ldx + p + j * V);
      }
    }
}

/* Every k of one channel and the `count` pixels of one panel, whose `n` segments are s. */
static void lay_panel(const cpu_conv_gemm *g, const segment *s, int n, int64_t count, int64_t k, int64_t k_end, float *to) {
  const cpu_plane *p = &g->plane;
  const int64_t taps = p->kernel[0] * p->kernel[1], size = p->in[0] * p->in[1], c = k / taps;
  int64_t ky = k % taps / p->kernel[1], kx = k % p->kernel[1];
  for (; k < k_end; k++, to += GEMM_COLS) {
    for (int i = 0; i < n; i++) {
      const int64_t y = s[i].y + ky * p->dilation[0], x = s[i].x + kx * p->dilation[1];
      const float *row = g->x + c * size + y * p->in[1];
      v_prefetch(row + x + size); /* the channel that follows */
      v_prefetch(row + x + size + (s[i].n - 1) * p->stride[1]);
      if (y < 0 || y >= p->in[0])
        for (int64_t j = 0; j < s[i].n; j += V) v_storen(to + s[i].lane + j, v_zero(), s[i].n - j);
      else if (s[i].n < GEMM_COLS || p->stride[1] > 2 || x < 0 || x + (GEMM_COLS - 1) * p->stride[1] >= p->in[1])
        lay_run(row, p->in[1], x, p->stride[1], s[i].n, 0.0f, false, to + s[i].lane);
      else if (p->stride[1] == 1)
        for (int j = 0; j < GEMM_VECS; j++) v_store(to + j * V, v_load(row + x + j * V));
      else
        for (int j = 0; j < GEMM_VECS; j++) v_store(to + j * V, v_load_even(row + x + 2 * j * V, V));
    }
    for (int64_t j = count; j < GEMM_COLS; j++) to[j] = 0;
    if (++kx < p->kernel[1]) continue;
    kx = 0;
    ky++;
  }
}

/* ---- tiles ---- */

/* What a tile that has seen all of k gets before it is stored. */
typedef struct conv_end {
  const float *bias, *residual; /* [rows], [rows] at the stride of the result; either may be NULL */
  bool relu;
} conv_end;

/* to[rows][ldt] = a b, added to from[rows][ldf] unless that is NULL; a[k] at stride `step` and b[k] at stride `next`, of
 * which `vecs` vectors count; then bias, residual and activation of `end` unless that is NULL. */
V_INLINE void conv_tile(const int rows, const int vecs, int64_t k_count, const float *a, int64_t step, const float *b,
                        int64_t next, const float *from, int64_t ldf, float *to, int64_t ldt, const conv_end *end) {
  vf sum[GEMM_ROWS][GEMM_VECS];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = from ? v_load(from + i * ldf + j * V) : v_zero(); }
  }
  if (end) { /* results and residuals are far apart and no cache holds them: they arrive while k passes */
    for (int i = 0; i < rows; i++) {
      v_prefetch(to + i * ldt);
      v_prefetch(to + i * ldt + vecs * V - 1);
    }
    for (int i = 0; i < rows && end->residual; i++) {
      v_prefetch(end->residual + i * ldt);
      v_prefetch(end->residual + i * ldt + vecs * V - 1);
    }
  }
  for (int64_t k = 0; k < k_count; k++, a += step, b += next) {
    vf y[GEMM_VECS];
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { y[j] = v_load(b + j * V); }
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      vf w = v_set(a[i]);
      MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_fma(w, y[j], sum[i][j]); }
    }
  }
  if (end && end->bias) {
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      vf v = v_set(end->bias[i]);
      MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_add(sum[i][j], v); }
    }
  }
  if (end && end->residual) {
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_add(sum[i][j], v_load(end->residual + i * ldt + j * V)); }
    }
  }
  if (end && end->relu) {
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_max(v_zero(), sum[i][j]); }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { v_store(to + i * ldt + j * V, sum[i][j]); }
  }
}

typedef void (*conv_tile_fn)(int64_t k_count, const float *a, int64_t step, const float *b, int64_t next, const float *from,
                             int64_t ldf, float *to, int64_t ldt, const conv_end *end);
#define CONV_TILE_OF(rows, vecs)                                                                                       \
  static void conv_tile_##rows##_##vecs(int64_t k_count, const float *a, int64_t step, const float *b, int64_t next,   \
                                        const float *from, int64_t ldf, float *to, int64_t ldt, const conv_end *end) { \
    conv_tile(rows, vecs, k_count, a, step, b, next, from, ldf, to, ldt, end);                                         \
  }
#define CONV_TILE(rows) CONV_TILE_OF(rows, 1) CONV_TILE_OF(rows, 2)
#define CONV_PAIR(rows) \
  { conv_tile_##rows##_1, conv_tile_##rows##_2 }
/* clang-format off */
CONV_TILE(1) CONV_TILE(2) CONV_TILE(3) CONV_TILE(4)
#if GEMM_ROWS >= 6
CONV_TILE(5) CONV_TILE(6)
#endif
#if GEMM_ROWS >= 14
CONV_TILE(7) CONV_TILE(8) CONV_TILE(9) CONV_TILE(10) CONV_TILE(11) CONV_TILE(12) CONV_TILE(13) CONV_TILE(14)
#endif

/* By rows, and vectors less 1. */
static const conv_tile_fn conv_tile_of[GEMM_ROWS + 1][GEMM_VECS] = {
  {NULL}, CONV_PAIR(1), CONV_PAIR(2), CONV_PAIR(3), CONV_PAIR(4),
#if GEMM_ROWS >= 6
  CONV_PAIR(5), CONV_PAIR(6),
#endif
#if GEMM_ROWS >= 14
  CONV_PAIR(7), CONV_PAIR(8), CONV_PAIR(9), CONV_PAIR(10), CONV_PAIR(11), CONV_PAIR(12), CONV_PAIR(13), CONV_PAIR(14),
#endif
};
/* clang-format on */

static bool in_registers(int32_t act) { return act == ACCEL_PLUGIN_ACT_NONE || act == ACCEL_PLUGIN_ACT_RELU; }

/* A tile over columns that are not whole vectors: over t, which y fills but for the missing columns. */
static void conv_part(const cpu_conv_gemm *g, const float *w, int64_t count, const float *columns, int64_t next,
                      int64_t rows, float *y, int64_t cols, bool first, const conv_end *end) {
  float t[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64))), r[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  conv_end last = {0};
  for (int64_t i = 0; i < rows && !first; i++)
    for (int64_t j = 0; j < GEMM_COLS; j += V)
      v_store(t + i * GEMM_COLS + j, j < cols ? v_loadn(y + i * g->ldy + j, cols - j) : v_zero());
  if (end) last = *end;
  if (end && end->residual) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < GEMM_COLS; j += V)
        v_store(r + i * GEMM_COLS + j, j < cols ? v_loadn(end->residual + i * g->ldy + j, cols - j) : v_zero());
    last.residual = r;
  }
  conv_tile_of[rows][cols > V](count, w, g->height, columns, next, first ? NULL : t, GEMM_COLS, t, GEMM_COLS,
                               end ? &last : NULL);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j += V) v_storen(y + i * g->ldy + j, v_load(t + i * GEMM_COLS + j), cols - j);
}

/* One tile over one panel: y holds what earlier k gave. */
static void conv_panel(const cpu_conv_gemm *g, const float *w, int64_t count, const float *columns, int64_t next,
                       int64_t row, int64_t rows, int64_t pixel, int64_t cols, bool first, bool last) {
  float *y = g->y + row * g->ldy + pixel;
  const conv_end end = {.bias = g->bias ? g->bias + row : NULL,
                        .residual = g->residual ? g->residual + row * g->ldy + pixel : NULL,
                        .relu = g->act == ACCEL_PLUGIN_ACT_RELU};
  if (cols % V == 0)
    conv_tile_of[rows][cols > V](count, w, g->height, columns, next, first ? NULL : y, g->ldy, y, g->ldy,
                                 last ? &end : NULL);
  else
    conv_part(g, w, count, columns, next, rows, y, cols, first, last ? &end : NULL);
  for (int64_t i = 0; i < rows && last && !in_registers(g->act); i++)
    CPU_NAME(activate, row)(g->act, g->alpha, y + i * g->ldy, y + i * g->ldy, cols);
}

/* Long kernels over one row, whose taps see the same pixels shifted: those are read where they are, from rows with zeros
 * around them.  The pitch of those rows, or 0 where columns are laid out instead. */
enum { SLIDING_TAPS = 16 };
static int64_t sliding_pitch(const cpu_conv_gemm *g) {
  const cpu_plane *p = &g->plane;
  const int64_t pitch = CPU_CONV_PIXELS + (p->kernel[1] - 1) * p->dilation[1] + GEMM_COLS;
  const bool row = p->in[0] == 1 && p->out[0] == 1 && p->kernel[0] == 1 && !p->begin[0] && p->stride[1] == 1;
  return row && p->kernel[1] >= SLIDING_TAPS && g->k / p->kernel[1] * pitch <= CPU_CONV_WORKSPACE ? pitch : 0;
}

/* Pixels [pixel, stop), at most CPU_CONV_PIXELS, channel by channel. */
static void slide(const cpu_conv_gemm *g, int64_t pixel, int64_t stop, int64_t tile, int64_t tile_end, int64_t pitch,
                  float *rows_of_x) {
  const cpu_plane *p = &g->plane;
  const int64_t taps = p->kernel[1], channels = g->k / taps;
  for (int64_t c = 0; c < channels; c++)
    lay_run(g->x + c * p->in[1], p->in[1], pixel - p->begin[1], 1, pitch, 0.0f, false, rows_of_x + c * pitch);
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = tile; i < tile_end; i++) {
      const int64_t row = i * g->height, rows = g->rows - row < g->height ? g->rows - row : g->height;
      for (int64_t at = pixel; at < stop; at += GEMM_COLS)
        conv_panel(g, g->w + (i * g->k + c * taps) * g->height, taps, rows_of_x + c * pitch + at - pixel, p->dilation[1],
                   row, rows, at, stop - at < GEMM_COLS ? stop - at : GEMM_COLS, c == 0, c == channels - 1);
    }
}

/* Columns of k [k, k_end) and pixels [pixel, stop), at most CPU_CONV_MOST: panels one after the other.  Channel by channel,
 * since every channel's pixels lie together. */
static void lay_columns(const cpu_conv_gemm *g, int64_t pixel, int64_t stop, int64_t k, int64_t k_end, float *to) {
  segment s[CPU_CONV_MOST];
  int first[CPU_CONV_MOST / GEMM_COLS + 2] = {0}, panels = 0;
  const int64_t count = k_end - k, size = g->plane.in[0] * g->plane.in[1], taps = g->plane.kernel[0] * g->plane.kernel[1];
  if (is_plain(&g->plane)) {
    const int64_t whole = (stop - pixel) / GEMM_COLS * GEMM_COLS;
    lay_plain(g->x + k * size + pixel, size, count, whole, to);
    pixel += whole;
    to += whole * count;
  }
  for (int64_t p = pixel; p < stop; p += GEMM_COLS, panels++)
    first[panels + 1] =
        first[panels] + segments(&g->plane, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS, s + first[panels]);
  for (int64_t at = k, end; at < k_end && panels; at = end) {
    end = at / taps * taps + taps < k_end ? at / taps * taps + taps : k_end;
    for (int i = 0; i < panels; i++) {
      const int64_t left = stop - pixel - i * GEMM_COLS;
      lay_panel(g, s + first[i], first[i + 1] - first[i], left < GEMM_COLS ? left : GEMM_COLS, at, end,
                to + i * count * GEMM_COLS + (at - k) * GEMM_COLS);
    }
  }
}

/* Pixels that are laid out together, `left` of which there are: as many as the workspace holds, in equal parts. */
static int64_t block_pixels(int64_t left, int64_t count) {
  int64_t most = CPU_CONV_WORKSPACE / (count > 0 ? count : 1) / GEMM_COLS * GEMM_COLS;
  if (most > CPU_CONV_MOST) most = CPU_CONV_MOST;
  const int64_t blocks = (left + most - 1) / most;
  return blocks ? ((left + blocks - 1) / blocks + GEMM_COLS - 1) / GEMM_COLS * GEMM_COLS : most;
}

void CPU_NAME(conv, GEMM_TILE)(const cpu_conv_gemm *g, int64_t pixel, int64_t pixel_end, int64_t tile, int64_t tile_end,
                               float *workspace) {
  const int64_t steps = g->k > 0 ? (g->k + CPU_CONV_STEP - 1) / CPU_CONV_STEP : 1, pitch = sliding_pitch(g);
  const int64_t block = pitch ? CPU_CONV_PIXELS : block_pixels(pixel_end - pixel, (g->k + steps - 1) / steps);
  for (int64_t stop; pixel < pixel_end; pixel = stop) {
    stop = pixel + block < pixel_end ? pixel + block : pixel_end;
    if (pitch) {
      slide(g, pixel, stop, tile, tile_end, pitch, workspace);
      continue;
    }
    for (int64_t s = 0; s < steps; s++) { /* equal blocks of k */
      const int64_t k = g->k * s / steps, count = g->k * (s + 1) / steps - k;
      lay_columns(g, pixel, stop, k, k + count, workspace);
      for (int64_t i = tile; i < tile_end; i++) {
        const int64_t row = i * g->height, rows = g->rows - row < g->height ? g->rows - row : g->height;
        for (int64_t p = pixel; p < stop; p += GEMM_COLS)
          conv_panel(g, g->w + (i * g->k + k) * g->height, count, workspace + (p - pixel) * count, GEMM_COLS, row, rows, p,
                     stop - p < GEMM_COLS ? stop - p : GEMM_COLS, s == 0, s == steps - 1);
      }
    }
  }
}

#include "kernels/winograd_body.h"

/* ---- depthwise ---- */

/* sum to y from (row, col) on, columns behind the last one masked. */
V_INLINE void depthwise_store(const cpu_depthwise *g, int64_t row, int64_t col, vf sum) {
  const int64_t to = row * g->plane.out[1] + col, left = g->plane.out[1] - col;
  if (left <= 0) return;
  if (g->residual) sum = v_add(sum, v_loadn(g->residual + to, left));
  v_storen(g->y + to, sum, left);
}

/* Where column kx of the kernel meets the laid-out x of column 0. */
V_INLINE const float *depthwise_column(const cpu_plane *p, const cpu_depthwise_plan *l, const float *x, int64_t kx) {
  const int64_t at = kx * p->dilation[1];
  return p->stride[1] == 1 ? x + at : x + at % p->stride[1] * l->pitch + at / p->stride[1];
}

/* y[rows][vecs * V] from (row, col) on. */
V_INLINE void depthwise_block(const int rows, const int vecs, const cpu_depthwise *g, const cpu_depthwise_plan *l,
                              const float *x, int64_t row, int64_t col) {
  const cpu_plane *p = &g->plane;
  const int64_t line = p->stride[1] * l->pitch, step = p->stride[0] * line;
  vf sum[4][2];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_set(g->bias); }
  }
  for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
    const float *from = depthwise_column(p, l, x, kx) + row * step + col;
    for (int64_t ky = 0; ky < p->kernel[0]; ky++, from += p->dilation[0] * line) {
      vf w = v_set(g->w[ky * p->kernel[1] + kx]);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_fma(w, v_load(from + i * step + j * V), sum[i][j]); }
      }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { depthwise_store(g, row + i, col + j * V, sum[i][j]); }
  }
}

/* The same of one vector for a kernel whose lines follow each other (stride and dilation 1 downwards) and whose height is
 * known: x is read once for all rows of y that it reaches. */
V_INLINE void depthwise_lines(const int rows, const int height, const cpu_depthwise *g, const cpu_depthwise_plan *l,
                              const float *x, int64_t row, int64_t col) {
  const cpu_plane *p = &g->plane;
  const int64_t line = p->stride[1] * l->pitch;
  vf sum[8], w[7];
  MICRO_UNROLL for (int i = 0; i < rows; i++) { sum[i] = v_set(g->bias); }
  for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
    const float *from = depthwise_column(p, l, x, kx) + row * line + col;
    MICRO_UNROLL for (int ky = 0; ky < height; ky++) { w[ky] = v_set(g->w[ky * p->kernel[1] + kx]); }
    MICRO_UNROLL for (int r = 0; r < rows + height - 1; r++) {
      vf v = v_load(from + r * line);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        if (r >= i && r < i + height) sum[i] = v_fma(w[r - i], v, sum[i]);
      }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) { depthwise_store(g, row + i, col, sum[i]); }
}

typedef void (*depthwise_fn)(const cpu_depthwise *g, const cpu_depthwise_plan *l, const float *x, int64_t row, int64_t col);
#define DEPTHWISE(kind, rows, n)                                                                                   \
  static void depthwise_##kind##_##n##_##rows(const cpu_depthwise *g, const cpu_depthwise_plan *l, const float *x, \
                                              int64_t row, int64_t col) {                                          \
    depthwise_##kind(rows, n, g, l, x, row, col);                                                                  \
  }
/* clang-format off */
DEPTHWISE(block, 1, 1) DEPTHWISE(block, 2, 1) DEPTHWISE(block, 3, 1) DEPTHWISE(block, 4, 1)
DEPTHWISE(block, 1, 2) DEPTHWISE(block, 2, 2) DEPTHWISE(block, 3, 2) DEPTHWISE(block, 4, 2)
#define DEPTHWISE_LINES(height)                                                                                              \
  DEPTHWISE(lines, 1, height) DEPTHWISE(lines, 2, height) DEPTHWISE(lines, 3, height) DEPTHWISE(lines, 4, height)            \
  DEPTHWISE(lines, 5, height) DEPTHWISE(lines, 6, height) DEPTHWISE(lines, 7, height) DEPTHWISE(lines, 8, height)            \
  static const depthwise_fn lines_##height[] = {NULL, depthwise_lines_##height##_1, depthwise_lines_##height##_2,            \
                                                depthwise_lines_##height##_3, depthwise_lines_##height##_4,                  \
                                                depthwise_lines_##height##_5, depthwise_lines_##height##_6,                  \
                                                depthwise_lines_##height##_7, depthwise_lines_##height##_8};
DEPTHWISE_LINES(3) DEPTHWISE_LINES(5) DEPTHWISE_LINES(7)
static const depthwise_fn blocks_1[] = {NULL, depthwise_block_1_1, depthwise_block_1_2, depthwise_block_1_3, depthwise_block_1_4};
static const depthwise_fn blocks_2[] = {NULL, depthwise_block_2_1, depthwise_block_2_2, depthwise_block_2_3, depthwise_block_2_4};
/* clang-format on */

/* The functions for 1, 2 .. *most rows of y and the columns that each of them makes. */
static const depthwise_fn *depthwise_choice(const cpu_plane *p, int64_t *most, int64_t *step) {
  *most = 8;
  *step = V;
  if (p->stride[0] == 1 && p->dilation[0] == 1) {
    if (p->kernel[0] == 3) return lines_3;
    if (p->kernel[0] == 5) return lines_5;
    if (p->kernel[0] == 7) return lines_7;
  }
  *most = 4;
  if (p->out[1] <= V) return blocks_1;
  *step = 2 * V;
  return blocks_2;
}

void CPU_NAME(depthwise, plane)(const cpu_depthwise *g, float *workspace) {
  const cpu_plane *p = &g->plane;
  const cpu_depthwise_plan l = cpu_depthwise_layout(p);
  int64_t most, step;
  const depthwise_fn *run = depthwise_choice(p, &most, &step);
  lay_plane(p, g->x, &l, 0.0f, g->again, workspace);
  for (int64_t row = 0, rows; row < p->out[0]; row += rows) { /* blocks as equal in height as whole rows allow */
    const int64_t left = p->out[0] - row, blocks = (left + most - 1) / most;
    rows = (left + blocks - 1) / blocks;
    for (int64_t col = 0; col < p->out[1]; col += step) run[rows](g, &l, workspace, row, col);
  }
  if (g->act != ACCEL_PLUGIN_ACT_NONE) CPU_NAME(activate, row)(g->act, g->alpha, g->y, g->y, p->out[0] * p->out[1]);
}

/* ---- depthwise over rows ---- */

V_INLINE void taps_block(const int rows, const cpu_tap *g, int64_t row) {
  for (int64_t c = 0; c < g->cols; c += V) {
    const int64_t left = g->cols - c;
    vf sum[4], b = g->bias ? v_loadn(g->bias + c, left) : v_zero();
    MICRO_UNROLL for (int i = 0; i < rows; i++) { sum[i] = b; }
    for (int64_t t = 0; t < g->taps; t++) {
      vf w = v_loadn(g->w + t * g->cols + c, left);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        sum[i] = v_fma(w, v_loadn(g->x[row + i + t * g->dilation] + c, left), sum[i]);
      }
    }
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      if (g->residual) sum[i] = v_add(sum[i], v_loadn(g->residual + (row + i) * g->cols + c, left));
      v_storen(g->y + (row + i) * g->cols + c, sum[i], left);
    }
  }
  if (g->act != ACCEL_PLUGIN_ACT_NONE)
    CPU_NAME(activate, row)(g->act, g->alpha, g->y + row * g->cols, g->y + row * g->cols, rows * g->cols);
}

void CPU_NAME(taps, row)(const cpu_tap *g, int64_t rows) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) taps_block(4, g, row);
  for (; row < rows; row++) taps_block(1, g, row);
}

/* ---- transpose ---- */

static void transpose_edge(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) ((int32_t *)y)[r * ldy + c] = ((const int32_t *)x)[c * ldx + r];
}

void CPU_NAME(transpose, plane)(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows, int64_t cols) {
  int64_t c = 0;
  for (; c + V <= cols; c += V) {
    int64_t r = 0;
    for (; r + V <= rows; r += V) {
      vf t[V];
      for (int i = 0; i < V; i++) t[i] = v_load(x + (c + i) * ldx + r);
      v_transpose(t);
      for (int i = 0; i < V; i++) v_store(y + (r + i) * ldy + c, t[i]);
    }
    transpose_edge(x + c * ldx + r, ldx, y + r * ldy + c, ldy, rows - r, V);
  }
  transpose_edge(x + c * ldx, ldx, y + c, ldy, rows, cols - c);
}

enum { RUN = 448 }; /* pixels that are turned at once; a multiple of V */

/* V channels are turned into a buffer, then written channel by channel: planes that are a multiple of 4096 bytes apart meet
 * in one set of the first-level cache, which does not hold lines of V of them. */
void CPU_NAME(planes, row)(const cpu_planes *g) {
  float run[V * RUN] __attribute__((aligned(64)));
  for (int64_t c = 0; c < g->channels; c += V)
    for (int64_t p = 0; p < g->pixels; p += RUN) {
      const int64_t rows = g->channels - c < V ? g->channels - c : V, n = g->pixels - p < RUN ? g->pixels - p : RUN;
      for (int64_t q = 0; q < n; q += V) {
        vf t[V];
        for (int64_t i = 0; i < V; i++) t[i] = q + i < n ? v_loadn(g->x + (p + q + i) * g->ldx + c, rows) : v_zero();
        v_transpose(t);
        for (int64_t i = 0; i < V; i++) v_store(run + i * RUN + q, t[i]);
      }
      for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (c + i) * g->ldy + p;
        float *from = run + i * RUN;
        for (int64_t q = 0; g->residual && q < n; q += V)
          v_store(from + q, v_add(v_load(from + q), v_loadn(g->residual + at + q, n - q)));
        if (g->act != ACCEL_PLUGIN_ACT_NONE) CPU_NAME(activate, row)(g->act, g->alpha, from, from, n);
        for (int64_t q = 0; q < n; q += V) v_storen(g->y + at + q, v_load(from + q), n - q);
      }
    }
}
