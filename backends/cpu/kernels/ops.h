/* ops.h - kernels of convolutions, pooling, resizing, scans and moves (kernels.h has the rules that
 * all kernels keep). */
#ifndef ACCEL_CPU_KERNELS_OPS_H
#define ACCEL_CPU_KERNELS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kit/kit_scalar.h" /* kit_plane: geometry of two spatial dims, height first */
#include "kernels/winograd_layout.h"

/* ---- conv ---- */

/* One group of one image: y[rows, pixels] = act(w[rows, k] column[k, pixels] + bias + residual),
 * column[(c, ky, kx), (oy, ox)] = x[c, oy * stride - begin + ky * dilation, ..] or 0 outside.
 * Every element is one chain of fused multiply-adds over ascending k: what it is does not depend
 * on the split.  In pairs, w and the columns are rounded to bf16 and an element adds two k at a
 * time. */
typedef struct cpu_conv_gemm {
  kit_plane plane;
  int64_t rows, height; /* output channels, and those of one tile of w (at most tile_rows) */
  int64_t k;            /* input channels * kernel[0] * kernel[1] */
  int64_t tiles, n;     /* of w, and n; cpu_winograd_fn only */
  const float *x;       /* [channels][in[0]][in[1]] */
  /* tiles [ceil(rows / height)][k][height], missing rows zero; pairs: [(k + 1) / 2][height][2]
   * bf16, or for tile registers (cpu_kernels), where pairs are of the same tap of two channels,
   * [pairs / CPU_PAIRS_UNIT][CPU_PAIRS_ROWS][CPU_PAIRS_UNIT][2], zeros behind the last */
  const float *w;
  float *y; /* [rows][ldy] */
  int64_t ldy;
  const float *bias, *residual; /* [rows], and laid out like y; each may be NULL */
  int32_t act;
  float alpha;
} cpu_conv_gemm;
enum {
  CPU_CONV_STEP = 768, /* elements: pairs have twice as many k */
  CPU_CONV_PIXELS = 256,
  /* the columns of so many k and pixels stay in the second-level cache; of fewer k more pixels, but
   * not above MOST */
  CPU_CONV_MOST = 1024
};
enum { CPU_PAIRS_ROWS = 32, CPU_PAIRS_UNIT = 16 };
enum { CPU_CONV_WORKSPACE = CPU_CONV_STEP * CPU_CONV_PIXELS }; /* floats */
/* Pixels [pixel, pixel_end) of tiles [tile, tile_end). */
typedef void cpu_conv_fn(const cpu_conv_gemm *g, int64_t pixel, int64_t pixel_end, int64_t tile,
                         int64_t tile_end, float *workspace);
typedef cpu_conv_fn cpu_conv_pairs_fn;

/* The same for a 3x3 kernel, stride 1, dilation 1, by Winograd's F(n x n, 3x3), n 4 or 2: the plane
 * is cut into windows of n x n pixels, and where the direct way multiplies 9 times for a pixel this
 * one does (n + 2)^2 times for n^2.
 *   y = A^T (sum over channels of (G w G^T) * (B^T d B)) A     for each window, d its (n + 2)^2 pixels of x
 * with the matrices of the points 0, +-sqrt(1/2), +-sqrt(2) and infinity (n = 4), 0, +-1 and
 * infinity (n = 2).  k is the number of channels, w[(n + 2)^2][tiles][k][height] with `tiles` tiles
 * in all; the range counts windows, row by row, instead of pixels.  What a window is does not
 * depend on the split.  An infinity or NaN in x may reach all pixels of the windows that see it, as
 * NaN. */
typedef cpu_conv_fn cpu_winograd_fn;
/* n 2; in pairs of channels, rounded after the transforms */
typedef cpu_conv_fn cpu_winograd_pairs_fn;
/* The same over codes, channels last, in integers: F(4 x 4, 3x3) with the points 0, +-1, +-2 and
 * infinity.  The lines of a row of windows get one scale, for which their codes become words of up
 * to 9 bits; transformed they have 16, the weights 10 to 15 (a scale for each point of a column),
 * such that no sum of 32 bits overflows.  Only the weights and the lines' common scale are
 * rounded.  A row of windows depends on its own lines alone; it becomes NaN where one of their
 * scales is. */
typedef struct cpu_winograd_i16 {
  int64_t rows, wide; /* windows: rows of `wide` of them */
  /* channels of x, columns; k is a multiple of CPU_WINOGRAD_WORDS, n of a panel's columns */
  int64_t k, n;
  const uint8_t *x; /* [4 rows + 2][line][k], unsigned */
  int64_t line;     /* pixels of a line of x, 4 wide + 2 at least */
  /* of the lines, `line` floats further in the next: x = (code - zero) scale; zero NULL: 0 */
  const float *scale, *zero;
  const char *w; /* panels: factor[36][cols], codes [36][k / 2][cols][2] */
  int64_t panel_bytes;
  const float *bias;                           /* [n] or NULL */
  int64_t lines, pixels;                       /* of y: what windows reach beyond is left out */
  const uint8_t *residual;                     /* codes [lines][pixels][ldr] or NULL */
  const float *residual_scale, *residual_zero; /* [lines][pixels]; residual_zero NULL: 0 */
  int64_t ldr;
  float *y; /* [lines][pixels][ldy] = x * w + bias + residual, or a ReLU of that */
  int64_t ldy;
  bool relu;
  float *high, *low; /* as in cpu_implicit_gemm, of pixels */
  int16_t *points;   /* cpu_winograd_i16_points: workspace */
  int32_t *sums;     /* [winograd_words.h: parts][rows * wide][36][cols]: workspace */
} cpu_winograd_i16;
typedef void cpu_winograd_i16_fn(const cpu_winograd_i16 *g, int64_t panel, int64_t panel_end);
enum { CPU_WINOGRAD_WORDS = 32 };
/* From one point's words to the next's: powers of two would put all points into the same few sets
 * of a cache. */
static inline int64_t cpu_winograd_i16_step(int64_t windows, int64_t k) { return windows * k + 32; }
static inline int64_t cpu_winograd_i16_panel(int64_t k, int64_t cols) {
  return 36 * cols * (4 + 2 * k);
}

/* One channel of one image with a kernel of its own; x[in], w[kernel], y and residual [out]. */
typedef struct cpu_depthwise {
  kit_plane plane;
  const float *x, *w, *residual; /* residual may be NULL */
  float *y;
  float bias;
  int32_t act;
  float alpha;
  bool again; /* the call before had the same plane and workspace: what surrounds x is there */
} cpu_depthwise;
typedef void cpu_depthwise_fn(const cpu_depthwise *g, float *workspace);
/* Where the zero-bordered copy of x lies in the workspace: [rows][stride[1]][pitch] floats, columns
 * sorted by their remainder. */
typedef struct cpu_depthwise_plan {
  int64_t rows, pitch, all;
} cpu_depthwise_plan;
static inline cpu_depthwise_plan cpu_depthwise_layout(const kit_plane *p) {
  cpu_depthwise_plan l;
  l.rows = (p->out[0] - 1) * p->stride[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
  l.pitch = p->out[1] + (p->kernel[1] - 1) * p->dilation[1] / p->stride[1];
  /* whole vectors are read behind the last column, also of the last row */
  l.all = l.rows * p->stride[1] * l.pitch + 32;
  return l;
}

/* Channels last: y[r] = act(bias + sum_t w[t] * x[r + t * dilation] + residual[r]), all [cols]; x
 * are pointers to rows. */
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
typedef void cpu_transpose_fn(const float *x, int64_t ldx, float *y, int64_t ldy, int64_t rows,
                              int64_t cols);

/* Back to planes: y[c * ldy + p] = act(x[p * ldx + c] + residual[c * ldy + p]) for p < pixels, c <
 * channels; residual may be NULL. */
typedef struct cpu_planes {
  const float *x, *residual;
  float *y;
  int64_t ldx, ldy, pixels, channels;
  int32_t act;
  float alpha;
} cpu_planes;
typedef void cpu_to_planes_fn(const cpu_planes *g);

/* out[0], out[1]: the largest of 0 and -x[i], of 0 and x[i], i < n; NaN both when an element is not
 * finite. */
typedef void cpu_extent_fn(const float *x, int64_t n, float out[2]);
/* Codes of a plane, channels last: y[p * ldy + c] = round(x[c * ldx + p] * factor + zero), cut to
 * 0..most, its bits flipped by `flip` (0x80: less 128). */
typedef struct cpu_coding {
  float factor, zero; /* zero: whole */
  int32_t most;
  uint8_t flip;
} cpu_coding;
typedef void cpu_codes_fn(const cpu_coding *how, const float *x, int64_t ldx, int64_t pixels,
                          int64_t channels, uint8_t *y, int64_t ldy);

/* Codes of 0..255 with another scale and zero: y[p * ldy + c] = round((x[p * channels + c] - from) *
 * factor + to), cut to 0..255, `factor` at most 1; what fills up the pixels of y stays. */
typedef struct cpu_recode {
  const uint8_t *x;
  uint8_t *y;
  int64_t pixels, channels, ldy;
  float factor, from, to; /* from, to: whole */
} cpu_recode;
typedef void cpu_recode_fn(const cpu_recode *g);

/* Codes of pixels that lie channels last, x[pixels][channels] to y likewise: x ~ (y - zero[p]) *
 * scale[p], a scale for every `each` pixels (which divides their number), each range cut into
 * `most` equal steps and its codes flipped by `flip`.  Where an element is not finite the scale is
 * NaN. */
typedef struct cpu_pixels {
  const float *x;
  uint8_t *y;
  float *scale, *zero; /* [pixels] */
  int64_t pixels, channels, each;
  int32_t most; /* 255, 127 */
  uint8_t flip;
  bool positive; /* elements below 0 count as 0 */
  const float *high,
      *low; /* as in cpu_implicit_gemm, low only where not positive; NULL: not known yet */
} cpu_pixels;
typedef void cpu_codes_pixels_fn(const cpu_pixels *g);

/* ---- images ---- */

/* Windows of one channel of one image: the largest (a NaN wins), or the sum divided by row_count *
 * col_count. */
typedef struct cpu_pool {
  kit_plane plane;
  const float *x, *row_count, *col_count; /* [in], [out[0]], [out[1]] */
  float *y;
  int32_t max;
  bool again; /* as in cpu_depthwise */
} cpu_pool;
typedef void cpu_pool_fn(const cpu_pool *g, float *workspace); /* as large as for depthwise */

/* The largest of windows over an image as codes, channels last: y[line_end -
 * line][out[1]][channels].  Its kernel has CPU_POOL_TAPS elements at most. */
typedef struct cpu_pool_pixels {
  kit_plane plane;
  const uint8_t *codes;      /* [in][channels] */
  const float *scale, *zero; /* [in]; zero NULL: 0 all over */
  int64_t channels;
  bool sign; /* codes are signed */
  float *y;
  /* instead of codes, for one line of y: lines [in[1]][channels] of x, those that the kernel's rows
   * cover, NULL where there is none; or NULL.  An infinity makes NaN */
  const float *const *lines;
} cpu_pool_pixels;
enum { CPU_POOL_TAPS = 25 };
typedef void cpu_pool_pixels_fn(const cpu_pool_pixels *g, int64_t line, int64_t line_end);

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

/* A group of one image: y = act(norm(x) * gamma + beta), `channels` channels of `inner`
 * elements. */
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

/* ---- delta rule ---- */

enum { CPU_DELTA_ROWS = 16, CPU_DELTA_VECTORS = 4 }; /* of a chunk; of a block of columns */

/* Rows of one sequence (ops.def: gated_delta_rule) and one head of v. */
typedef struct cpu_delta {
  const float *q, *k, *v, *g, *beta; /* first row, first column (v: of those asked for) */
  float *y;
  int64_t ldq, ldk, ldv, ldg, ldbeta, ldy, rows, dk;
  int64_t lds;          /* columns of the head's state */
  float eps, scale;     /* eps 0: q and k are taken as they are */
  const float *current; /* [dk][lds], NULL: zeros */
  float *next;          /* the same after the rows, or NULL */
} cpu_delta;
/* Columns [0, cols) of v, y, current and next; workspace: cpu_delta_floats. */
typedef void cpu_delta_fn(const cpu_delta *g, int64_t cols, float *workspace);
static inline int64_t cpu_delta_floats(int64_t dk, int64_t cols, int64_t vector) {
  const int64_t c = CPU_DELTA_ROWS, block = CPU_DELTA_VECTORS * vector,
                wide = (cols + block - 1) / block * block;
  return 3 * c * (dk + vector) + 2 * c * (block + c + 1) + wide * (dk + 1);
}

/* The same with factors rounded to bf16, fp32 sums and state, of at least a row; workspace:
 * cpu_delta_bf16_floats. */
typedef cpu_delta_fn cpu_delta_bf16_fn;
enum { CPU_DELTA_LONG = 64 }; /* rows of its chunks */
static inline int64_t cpu_delta_rounded(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}
static inline int64_t cpu_delta_bf16_floats(int64_t dk, int64_t cols, int64_t vector) {
  const int64_t c = CPU_DELTA_LONG, block = CPU_DELTA_VECTORS * vector, pair = 2 * vector,
                deep = cpu_delta_rounded(dk, pair), wide = cpu_delta_rounded(cols, block);
  return 2 * c * deep + 3 * c * c + 3 * deep * wide / 2 + 3 * c * wide / 2 + 2 * pair * block +
         deep + 3 * c;
}

/* ---- adapters ---- */

/* t[rows][rank] = scale * x[rows][k] a[k][rank]; what a row gives does not depend on the others. */
typedef void cpu_lora_shrink_fn(const float *x, int64_t rows, int64_t k, const float *a,
                                int64_t rank, float scale, float *t);
/* y[rows][n] += t[rows][rank] b[rank][n], likewise. */
typedef void cpu_lora_expand_fn(const float *t, int64_t rows, int64_t rank, const float *b,
                                int64_t n, float *y);
/* The same of halves; 64 bytes behind a matrix may be read. */
typedef void cpu_lora_shrink_f16_fn(const float *x, int64_t rows, int64_t k, const uint16_t *a,
                                    int64_t rank, float scale, float *t);
typedef void cpu_lora_expand_f16_fn(const float *t, int64_t rows, int64_t rank, const uint16_t *b,
                                    int64_t n, float *y);

/* ---- folds and elementwise ---- */

/* y[c] = fold of x[k * stride + c] over k < n, n > 0, c < cols.  kind: accel_plugin_kind REDUCE_;
 * weight [n] or NULL, for SUM and MEAN; MEAN divides by the sum of weights.  ARGMAX writes int32.
 * A NaN wins MAX, MIN and ARGMAX.  Sums are taken in blocks of rows: what comes out depends on n,
 * not on cols. */
typedef void cpu_fold_fn(int32_t kind, const float *x, int64_t n, int64_t stride,
                         const float *weight, float *y, int64_t cols);
/* y[c] = sum of weight[k] * x[index[k] * stride + c] over k < n, n > 0, c < cols, to the bit what
 * fold gives of these rows one behind the other.  `known` elements of index may be read: the rows
 * behind the n are asked for early. */
typedef void cpu_fold_gathered_fn(const float *x, int64_t stride, const int32_t *index, int64_t n,
                                  int64_t known, const float *weight, float *y, int64_t cols);
/* fold over n neighbours: one result. */
typedef void cpu_fold_row_fn(int32_t kind, const float *x, int64_t n, const float *weight,
                             float *y);
/* Softmax over k < n of x[k * stride + c] for each c < cols; y is laid out like x and may be x. */
typedef void cpu_softmax_columns_fn(const float *x, float *y, int64_t n, int64_t stride,
                                    int64_t cols, int32_t logarithm);
/* y[i] = pow(a[i * a_step], b[i * b_step]) */
typedef void cpu_power_fn(const float *a, int32_t a_step, const float *b, int32_t b_step, float *y,
                          int64_t n);
/* y[i] = mask[i * mask_step] ? a[i * a_step] : b[i * b_step]; elements of 4 bytes, a mask of floats
 * when real. */
typedef void cpu_choose_fn(int32_t real, const void *mask, int32_t mask_step, const float *a,
                           int32_t a_step, const float *b, int32_t b_step, float *y, int64_t n);
/* y[i] = sin(x[i]), or cos; y may be x. */
typedef void cpu_wave_fn(int32_t cosine, const float *x, float *y, int64_t n);
/* Toward zero, saturating, NaN gives 0; and back. */
typedef void cpu_to_int_fn(const float *x, int32_t *y, int64_t n);
typedef void cpu_to_float_fn(const int32_t *x, float *y, int64_t n);

#endif
