/* ops.h - kernels of convolutions, pooling, resizing, scans and moves (kernels.h has the rules that all kernels keep). */
#ifndef ACCEL_CPU_KERNELS_OPS_H
#define ACCEL_CPU_KERNELS_OPS_H

#include <stdint.h>

/* ---- conv ---- */

/* Geometry of two spatial dims, height first; one spatial dim is two with height 1. */
typedef struct cpu_plane {
  int64_t in[2], out[2], kernel[2], stride[2], begin[2], end[2], dilation[2];
} cpu_plane;

/* One group of one image: y[rows, pixels] = act(w[rows, k] column[k, pixels] + bias + residual), column[(c, ky, kx), (oy,
 * ox)] = x[c, oy * stride - begin + ky * dilation, ..] or 0 outside.  Every element is one chain of fused multiply-adds
 * over ascending k: what it is does not depend on the split. */
typedef struct cpu_conv_gemm {
  cpu_plane plane;
  int64_t rows, height; /* output channels, and those of one tile of w (at most tile_rows) */
  int64_t k;            /* input channels * kernel[0] * kernel[1] */
  const float *x;       /* [channels][in[0]][in[1]] */
  const float *w;       /* tiles [ceil(rows / height)][k][height], missing rows zero */
  float *y;             /* [rows][ldy] */
  int64_t ldy;
  const float *bias, *residual; /* [rows], and laid out like y; each may be NULL */
  int32_t act;
  float alpha;
} cpu_conv_gemm;
enum {
  CPU_CONV_STEP = 384,
  CPU_CONV_PIXELS = 256
}; /* the columns of this many k and pixels stay in the second-level cache */
enum { CPU_CONV_WORKSPACE = CPU_CONV_STEP * CPU_CONV_PIXELS }; /* floats */
/* Pixels [pixel, pixel_end) of tiles [tile, tile_end). */
typedef void cpu_conv_fn(const cpu_conv_gemm *g, int64_t pixel, int64_t pixel_end, int64_t tile, int64_t tile_end,
                         float *workspace);

/* One channel of one image with a kernel of its own; x[in], w[kernel], y and residual [out]. */
typedef struct cpu_depthwise {
  cpu_plane plane;
  const float *x, *w, *residual; /* residual may be NULL */
  float *y;
  float bias;
  int32_t act;
  float alpha;
} cpu_depthwise;
typedef void cpu_depthwise_fn(const cpu_depthwise *g, float *workspace);
/* Where the zero-bordered copy of x lies in the workspace: [rows][stride[1]][pitch] floats, columns sorted by their
 * remainder. */
typedef struct cpu_depthwise_plan {
  int64_t rows, pitch, all;
} cpu_depthwise_plan;
static inline cpu_depthwise_plan cpu_depthwise_layout(const cpu_plane *p) {
  cpu_depthwise_plan l;
  l.rows = (p->out[0] - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
  l.pitch = p->out[1] + (p->kernel[1] - 1) * p->dilation[1] / p->stride[1] +
            32; /* whole vectors are read behind the last column */
  l.all = l.rows * p->stride[1] * l.pitch;
  return l;
}

/* Channels last: y[r] = act(bias + sum_t w[t] * x[r + t * dilation] + residual[r]), all [cols]; x are pointers to rows. */
typedef struct cpu_tap {
  const float *const *x; /* [rows + (taps - 1) * dilation] */
  const float *w, *bias; /* [taps][cols], [cols] or NULL */
  const float *residual; /* [rows][cols] or NULL */
  float *y;              /* [rows][cols] */
  int64_t cols, taps, dilation;
  int32_t act;
  float alpha;
} cpu_tap;
typedef void cpu_taps_fn(const cpu_tap *g, int64_t rows);

/* y[r * ldy + c] = x[c * ldx + r] for r < rows, c < cols: 4-byte elements of any kind. */
typedef void cpu_transpose_fn(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows, int64_t cols);

/* Back to planes: y[c * ldy + p] = act(x[p * ldx + c] + residual[c * ldy + p]) for p < pixels, c < channels; residual may be
 * NULL. */
typedef struct cpu_planes {
  const float *x, *residual;
  float *y;
  int64_t ldx, ldy, pixels, channels;
  int32_t act;
  float alpha;
} cpu_planes;
typedef void cpu_to_planes_fn(const cpu_planes *g);

/* out[0], out[1]: the largest of 0 and -x[i], of 0 and x[i], i < n; NaN both when an element is not finite. */
typedef void cpu_extent_fn(const float *x, int64_t n, float out[2]);
/* Codes of a plane, channels last: y[p * ldy + c] = round(x[c * ldx + p] * factor + zero), cut to 0..most, its bits flipped
 * by `flip` (0x80: less 128). */
typedef struct cpu_coding {
  float factor, zero; /* zero: whole */
  int32_t most;
  uint8_t flip;
} cpu_coding;
typedef void cpu_codes_fn(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels, int64_t channels, uint8_t *y,
                          int64_t ldy);

/* ---- images ---- */

/* Windows of one channel of one image: the largest (a NaN wins), or the sum divided by row_count * col_count. */
typedef struct cpu_pool {
  cpu_plane plane;
  const float *x, *row_count, *col_count; /* [in], [out[0]], [out[1]] */
  float *y;
  int32_t max;
} cpu_pool;
typedef void cpu_pool_fn(const cpu_pool *g, float *workspace); /* as large as for depthwise */

/* One channel of one image; every output index reads `width` inputs of its dim. */
typedef struct cpu_resize {
  const float *x; /* [in[0]][in[1]] */
  float *y;       /* [out[0]][out[1]] */
  int64_t in[2], out[2], width[2];
  const int32_t *index[2]; /* [out][width] */
  const float *weight[2];
} cpu_resize;
typedef void cpu_resize_fn(const cpu_resize *g, float *workspace); /* cpu_resize_floats */
static inline int64_t cpu_resize_floats(const int64_t in[2], const int64_t out[2]) {
  return in[0] <= out[0] ? in[0] * out[1] : out[0] * in[1];
}

/* A group of one image: y = act(norm(x) * gamma + beta), `channels` channels of `inner` elements. */
typedef struct cpu_group {
  const float *x, *gamma, *beta; /* [channels][inner], [channels]; gamma and beta may be NULL */
  float *y;
  int64_t channels, inner;
  float eps, alpha;
  int32_t act;
} cpu_group;
typedef void cpu_group_norm_fn(const cpu_group *g);

/* ---- scan ---- */

/* Rows of one sequence (ops.def: selective_scan), columns of one head or, with rates, any. */
typedef struct cpu_scan {
  const float *x, *dt, *a, *b, *c, *d, *z, *dt_bias; /* first row; d, z, dt_bias may be NULL */
  float *y;
  int64_t ldx, ldt, ldb, ldc, ldz, ldy, rows, n;
  int32_t rates; /* version 1: dt[col], a[col][n], d[col]; else one of each for all columns */
  int32_t softplus;
  float low, high;      /* of dt */
  const float *current; /* [cols][n], NULL: zeros */
  float *next;          /* the same after the rows, or NULL */
} cpu_scan;
/* Columns [0, cols), cols <= vector; workspace: 2 * n * vector floats. */
typedef void cpu_scan_fn(const cpu_scan *g, int64_t cols, float *workspace);

/* ---- folds and elementwise ---- */

/* y[c] = fold of x[k * stride + c] over k < n, n > 0, c < cols.  kind: accel_plugin_kind REDUCE_; weight [n] or NULL, for
 * SUM and MEAN; MEAN divides by the sum of weights.  ARGMAX writes int32.  A NaN wins MAX, MIN and ARGMAX.  Sums are taken
 * in blocks of rows: what comes out depends on n, not on cols. */
typedef void cpu_fold_fn(int32_t kind, const float *x, int64_t n, int64_t stride, const float *weight, float *y,
                         int64_t cols);
/* The same over n neighbours: one result. */
typedef void cpu_fold_row_fn(int32_t kind, const float *x, int64_t n, const float *weight, float *y);
/* Softmax over k < n of x[k * stride + c] for each c < cols; y is laid out like x and may be x. */
typedef void cpu_softmax_columns_fn(const float *x, float *y, int64_t n, int64_t stride, int64_t cols, int32_t logarithm);
/* y[i] = pow(a[i * a_step], b[i * b_step]) */
typedef void cpu_power_fn(const float *a, int32_t a_step, const float *b, int32_t b_step, float *y, int64_t n);
/* y[i] = mask[i * mask_step] ? a[i * a_step] : b[i * b_step]; elements of 4 bytes, a mask of floats when real. */
typedef void cpu_choose_fn(int32_t real, const void *mask, int32_t mask_step, const float *a, int32_t a_step, const float *b,
                           int32_t b_step, float *y, int64_t n);
/* y[i] = sin(x[i]), or cos; y may be x. */
typedef void cpu_wave_fn(int32_t cosine, const float *x, float *y, int64_t n);
/* Toward zero, saturating, NaN gives 0; and back. */
typedef void cpu_to_int_fn(const float *x, int32_t *y, int64_t n);
typedef void cpu_to_float_fn(const int32_t *x, float *y, int64_t n);

#endif
