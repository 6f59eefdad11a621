/* conv_body.h - convolutions (ops.h), included by conv_<isa>.c.
 *
 * conv: for a block of k and pixels the columns are laid out in panels [pixels / COLS][k][COLS], then every tile of w passes
 * over them.  The tile is the one of micro_body.h with the roles of rows and columns swapped: rows are output channels. */
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

/* Columns of k [k, k_end) and `count` pixels, at most COLS. */
static void lay_panel(const cpu_conv_gemm *g, int64_t pixel, int64_t count, int64_t k, int64_t k_end, float *to) {
  const cpu_plane *p = &g->plane;
  segment s[GEMM_COLS];
  const int n = segments(p, pixel, count, s);
  const int64_t taps = p->kernel[0] * p->kernel[1];
  int64_t c = k / taps, ky = k % taps / p->kernel[1], kx = k % p->kernel[1];
  for (; k < k_end; k++, to += GEMM_COLS) {
    const float *plane = g->x + c * p->in[0] * p->in[1];
    for (int i = 0; i < n; i++) {
      int64_t y = s[i].y + ky * p->dilation[0];
      if (y >= 0 && y < p->in[0])
        copy_run(plane + y * p->in[1], p->in[1], s[i].x + kx * p->dilation[1], p->stride[1], s[i].n, 0.0f, to + s[i].lane);
      else
        for (int64_t j = 0; j < s[i].n; j += V) v_storen(to + s[i].lane + j, v_zero(), s[i].n - j);
    }
    for (int64_t j = count; j < GEMM_COLS; j++) to[j] = 0;
    if (++kx < p->kernel[1]) continue;
    kx = 0;
    if (++ky < p->kernel[0]) continue;
    ky = 0;
    c++;
  }
}

/* ---- tiles ---- */

/* t[rows][COLS] = a b; a[k][step], b[k][COLS] */
V_INLINE void conv_tile(const int rows, int64_t k_count, const float *a, int64_t step, const float *b, float *t) {
  vf sum[GEMM_ROWS][GEMM_VECS];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { sum[i][j] = v_zero(); }
  }
  for (int64_t k = 0; k < k_count; k++, a += step, b += GEMM_COLS) {
    vf y[GEMM_VECS];
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { y[j] = v_load(b + j * V); }
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      vf w = v_set(a[i]);
      MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { sum[i][j] = v_fma(w, y[j], sum[i][j]); }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < GEMM_VECS; j++) { v_store(t + i * GEMM_COLS + j * V, sum[i][j]); }
  }
}

typedef void (*conv_tile_fn)(int64_t k_count, const float *a, int64_t step, const float *b, float *t);
#define CONV_TILE(rows)                                                                                   \
  static void conv_tile_##rows(int64_t k_count, const float *a, int64_t step, const float *b, float *t) { \
    conv_tile(rows, k_count, a, step, b, t);                                                              \
  }
/* clang-format off */
CONV_TILE(1) CONV_TILE(2) CONV_TILE(3) CONV_TILE(4)
#if GEMM_ROWS >= 6
CONV_TILE(5) CONV_TILE(6)
#endif
#if GEMM_ROWS >= 14
CONV_TILE(7) CONV_TILE(8) CONV_TILE(9) CONV_TILE(10) CONV_TILE(11) CONV_TILE(12) CONV_TILE(13) CONV_TILE(14)
#endif

static const conv_tile_fn conv_tile_of[GEMM_ROWS + 1] = {
  NULL, conv_tile_1, conv_tile_2, conv_tile_3, conv_tile_4,
#if GEMM_ROWS >= 6
  conv_tile_5, conv_tile_6,
#endif
#if GEMM_ROWS >= 14
  conv_tile_7, conv_tile_8, conv_tile_9, conv_tile_10, conv_tile_11, conv_tile_12, conv_tile_13, conv_tile_14,
#endif
};
/* clang-format on */

/* Adds a finished tile to what y holds of earlier k; after the last k come bias, residual and activation. */
static void conv_finish(const cpu_conv_gemm *g, float *t, int64_t row, int64_t rows, int64_t pixel, int64_t cols, int first,
                        int last) {
  for (int64_t i = 0; i < rows; i++) {
    const int64_t at = (row + i) * g->ldy + pixel;
    vf b = v_set(last && g->bias ? g->bias[row + i] : 0.0f);
    for (int64_t j = 0; j < cols; j += V) {
      vf v = v_load(t + i * GEMM_COLS + j);
      if (!first) v = v_add(v, v_loadn(g->y + at + j, cols - j));
      if (last) v = v_add(v, b);
      if (last && g->residual) v = v_add(v, v_loadn(g->residual + at + j, cols - j));
      v_store(t + i * GEMM_COLS + j, v);
    }
  }
  if (last && g->act != ACCEL_PLUGIN_ACT_NONE) CPU_NAME(activate, row)(g->act, g->alpha, t, t, rows * GEMM_COLS);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j += V)
      v_storen(g->y + (row + i) * g->ldy + pixel + j, v_load(t + i * GEMM_COLS + j), cols - j);
}

void CPU_NAME(conv, GEMM_TILE)(const cpu_conv_gemm *g, int64_t pixel, int64_t pixel_end, int64_t tile, int64_t tile_end,
                               float *workspace) {
  float t[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  const int64_t steps = (g->k + CPU_CONV_STEP - 1) / CPU_CONV_STEP;
  for (int64_t stop; pixel < pixel_end; pixel = stop) {
    stop = pixel + CPU_CONV_PIXELS < pixel_end ? pixel + CPU_CONV_PIXELS : pixel_end;
    for (int64_t s = 0; s < steps; s++) { /* equal blocks of k */
      const int64_t k = g->k * s / steps, count = g->k * (s + 1) / steps - k;
      for (int64_t p = pixel; p < stop; p += GEMM_COLS)
        lay_panel(g, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS, k, k + count, workspace + (p - pixel) * count);
      for (int64_t i = tile; i < tile_end; i++) {
        const int64_t row = i * g->height, rows = g->rows - row < g->height ? g->rows - row : g->height;
        for (int64_t p = pixel; p < stop; p += GEMM_COLS) {
          conv_tile_of[rows](count, g->w + (i * g->k + k) * g->height, g->height, workspace + (p - pixel) * count, t);
          conv_finish(g, t, row, rows, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS, s == 0, s == steps - 1);
        }
      }
    }
  }
}

/* ---- depthwise ---- */

/* y[rows][vecs * V] from (row, col) on, the last columns masked. */
V_INLINE void depthwise_block(const int rows, const int vecs, const cpu_depthwise *g, const cpu_depthwise_plan *l,
                              const float *x, int64_t row, int64_t col) {
  const cpu_plane *p = &g->plane;
  const int64_t line = p->stride[1] * l->pitch, step = p->stride[0] * line;
  vf sum[8][2];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_set(g->bias); }
  }
  for (int64_t ky = 0; ky < p->kernel[0]; ky++)
    for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
      const int64_t at = kx * p->dilation[1];
      const float *from =
          x + row * step + ky * p->dilation[0] * line + at % p->stride[1] * l->pitch + at / p->stride[1] + col;
      vf w = v_set(g->w[ky * p->kernel[1] + kx]);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        MICRO_UNROLL for (int j = 0; j < vecs; j++) { sum[i][j] = v_fma(w, v_load(from + i * step + j * V), sum[i][j]); }
      }
    }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      const int64_t to = (row + i) * p->out[1] + col + j * V, left = p->out[1] - col - j * V;
      if (left > 0) {
        if (g->residual) sum[i][j] = v_add(sum[i][j], v_loadn(g->residual + to, left));
        v_storen(g->y + to, sum[i][j], left);
      }
    }
  }
}

void CPU_NAME(depthwise, plane)(const cpu_depthwise *g, float *workspace) {
  const cpu_plane *p = &g->plane;
  const cpu_depthwise_plan l = cpu_depthwise_layout(p);
  lay_plane(p, g->x, &l, 0.0f, workspace);
  int64_t row = 0;
  if (p->out[1] > V)
    for (; row + 4 <= p->out[0]; row += 4)
      for (int64_t col = 0; col < p->out[1]; col += 2 * V) depthwise_block(4, 2, g, &l, workspace, row, col);
  else
    for (; row + 8 <= p->out[0]; row += 8) depthwise_block(8, 1, g, &l, workspace, row, 0);
  for (; row < p->out[0]; row++)
    for (int64_t col = 0; col < p->out[1]; col += 2 * V) depthwise_block(1, 2, g, &l, workspace, row, col);
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
