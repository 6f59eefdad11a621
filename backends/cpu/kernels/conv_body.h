/* conv_body.h - convolutions, Winograd, depthwise and transposed ones (ops.h), included by
 * conv_<isa>.c. */
#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/conv_gemm_body.h"
#include "kernels/math_body.h"
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
V_INLINE const float *depthwise_column(const kit_plane *p, const cpu_depthwise_plan *l,
                                       const float *x, int64_t kx) {
  const int64_t at = kx * p->dilation[1];
  return p->stride[1] == 1 ? x + at : x + at % p->stride[1] * l->pitch + at / p->stride[1];
}

/* y[rows][vecs * V] from (row, col) on. */
V_INLINE void depthwise_block(const int rows, const int vecs, const cpu_depthwise *g,
                              const cpu_depthwise_plan *l, const float *x, int64_t row,
                              int64_t col) {
  const kit_plane *p = &g->plane;
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
        MICRO_UNROLL for (int j = 0; j < vecs; j++) {
          sum[i][j] = v_fma(w, v_load(from + i * step + j * V), sum[i][j]);
        }
      }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      depthwise_store(g, row + i, col + j * V, sum[i][j]);
    }
  }
}

/* The same of one vector for a kernel whose lines follow each other (stride and dilation 1
 * downwards) and whose height is known: x is read once for all rows of y that it reaches. */
V_INLINE void depthwise_lines(const int rows, const int height, const cpu_depthwise *g,
                              const cpu_depthwise_plan *l, const float *x, int64_t row,
                              int64_t col) {
  const kit_plane *p = &g->plane;
  const int64_t line = p->stride[1] * l->pitch;
  vf sum[8], w[7];
  MICRO_UNROLL for (int i = 0; i < rows; i++) { sum[i] = v_set(g->bias); }
  for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
    const float *from = depthwise_column(p, l, x, kx) + row * line + col;
    MICRO_UNROLL for (int ky = 0; ky < height; ky++) {
      w[ky] = v_set(g->w[ky * p->kernel[1] + kx]);
    }
    MICRO_UNROLL for (int r = 0; r < rows + height - 1; r++) {
      vf v = v_load(from + r * line);
      MICRO_UNROLL for (int i = 0; i < rows; i++) {
        if (r >= i && r < i + height) sum[i] = v_fma(w[r - i], v, sum[i]);
      }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) { depthwise_store(g, row + i, col, sum[i]); }
}

typedef void (*depthwise_fn)(const cpu_depthwise *g, const cpu_depthwise_plan *l, const float *x,
                             int64_t row, int64_t col);
#define DEPTHWISE(kind, rows, n)                                                                   \
  static void depthwise_##kind##_##n##_##rows(const cpu_depthwise *g, const cpu_depthwise_plan *l, \
                                              const float *x, int64_t row, int64_t col) {          \
    depthwise_##kind(rows, n, g, l, x, row, col);                                                  \
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
static const depthwise_fn *depthwise_choice(const kit_plane *p, int64_t *most, int64_t *step) {
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
  const kit_plane *p = &g->plane;
  const cpu_depthwise_plan l = cpu_depthwise_layout(p);
  int64_t most, step;
  const depthwise_fn *run = depthwise_choice(p, &most, &step);
  lay_plane(p, g->x, &l, 0.0f, g->again, workspace);
  for (int64_t row = 0, rows; row < p->out[0]; row += rows) {
    rows = tile_height(p->out[0] - row, most);
    for (int64_t col = 0; col < p->out[1]; col += step) run[rows](g, &l, workspace, row, col);
  }
  if (g->act != ACCEL_PLUGIN_ACT_NONE)
    CPU_NAME(activate, row)(g->act, g->alpha, g->y, g->y, p->out[0] * p->out[1]);
}

/* ---- depthwise over rows ---- */

/* Columns of `rows` rows from `row` on, `vecs` vectors from c: two are a cache line, whose rows may
 * all lie in one set of the first level, so that it is read once.  whole: `left` is not looked at. */
V_INLINE void taps_strip(const int rows, const int vecs, const int act, const int whole,
                         const cpu_tap *g, int64_t row, int64_t c, int64_t left) {
  const vf alpha = v_set(g->alpha);
  vf sum[4][2];
  MICRO_UNROLL for (int j = 0; j < vecs; j++) {
    const vf b = g->bias ? v_load_left(whole, g->bias + c + j * V, left) : v_zero();
    MICRO_UNROLL for (int i = 0; i < rows; i++) { sum[i][j] = b; }
  }
  for (int64_t t = 0; t < g->taps; t++) {
    const float *const *x = g->x + row + t * g->dilation;
    vf w[2];
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      w[j] = v_load_left(whole, g->w + t * g->cols + c + j * V, left);
    }
    MICRO_UNROLL for (int i = 0; i < rows; i++) {
      MICRO_UNROLL for (int j = 0; j < vecs; j++) {
        sum[i][j] = v_fma(w[j], v_load_left(whole, x[i] + c + j * V, left), sum[i][j]);
      }
    }
  }
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      const int64_t at = (row + i) * g->cols + c + j * V;
      vf y = sum[i][j];
      if (g->residual) y = v_add(y, v_load_left(whole, g->residual + at, left));
      y = v_act(act, y, alpha);
      v_store_left(whole, g->y + at, y, left);
    }
  }
}

V_INLINE void taps_columns(const int rows, const int act, const cpu_tap *g, int64_t row,
                           int64_t col, int64_t col_end) {
  int64_t c = col;
  for (; c + 2 * V <= col_end; c += 2 * V) taps_strip(rows, 2, act, 1, g, row, c, 0);
  for (; c + V <= col_end; c += V) taps_strip(rows, 1, act, 1, g, row, c, 0);
  if (c < col_end) taps_strip(rows, 1, act, 0, g, row, c, col_end - c);
}

/* SiLU, which Mamba and Gated DeltaNet have here, is applied in registers; other activations follow
 * while their columns are in the first level of cache. */
V_INLINE void taps_block(const int rows, const cpu_tap *g, int64_t row) {
  enum { COLUMNS = 32 * V };
  if (g->act == ACCEL_PLUGIN_ACT_SILU) {
    taps_columns(rows, ACCEL_PLUGIN_ACT_SILU, g, row, 0, g->cols);
    return;
  }
  for (int64_t c = 0; c < g->cols; c += COLUMNS) {
    const int64_t end = c + COLUMNS < g->cols ? c + COLUMNS : g->cols;
    taps_columns(rows, ACCEL_PLUGIN_ACT_NONE, g, row, c, end);
    for (int i = 0; g->act != ACCEL_PLUGIN_ACT_NONE && i < rows; i++) {
      float *y = g->y + (row + i) * g->cols;
      CPU_NAME(activate, row)(g->act, g->alpha, y + c, y + c, end - c);
    }
  }
}

void CPU_NAME(taps, row)(const cpu_tap *g, int64_t rows) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) taps_block(4, g, row);
  for (; row < rows; row++) taps_block(1, g, row);
}

/* ---- transpose ---- */

static void transpose_edge(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows,
                           int64_t cols) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      ((int32_t *)y)[r * ldy + c] = ((const int32_t *)x)[c * ldx + r];
}

void CPU_NAME(transpose, plane)(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows,
                                int64_t cols) {
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

/* V channels are turned into a buffer, then written channel by channel: planes that are a multiple
 * of 4096 bytes apart meet in one set of the first-level cache, which does not hold lines of V of
 * them. */
void CPU_NAME(planes, row)(const cpu_planes *g) {
  float run[V * RUN] __attribute__((aligned(64)));
  for (int64_t c = 0; c < g->channels; c += V)
    for (int64_t p = 0; p < g->pixels; p += RUN) {
      const int64_t rows = g->channels - c < V ? g->channels - c : V,
                    n = g->pixels - p < RUN ? g->pixels - p : RUN;
      for (int64_t q = 0; q < n; q += V) {
        vf t[V];
        for (int64_t i = 0; i < V; i++)
          t[i] = q + i < n ? v_loadn(g->x + (p + q + i) * g->ldx + c, rows) : v_zero();
        v_transpose(t);
        for (int64_t i = 0; i < V; i++) v_store(run + i * RUN + q, t[i]);
      }
      for (int64_t i = 0; i < rows; i++) {
        const int64_t at = (c + i) * g->ldy + p;
        float *from = run + i * RUN;
        for (int64_t q = 0; g->residual && q < n; q += V)
          v_store(from + q, v_add(v_load(from + q), v_loadn(g->residual + at + q, n - q)));
        if (g->act != ACCEL_PLUGIN_ACT_NONE)
          CPU_NAME(activate, row)(g->act, g->alpha, from, from, n);
        for (int64_t q = 0; q < n; q += V) v_storen(g->y + at + q, v_load(from + q), n - q);
      }
    }
}
