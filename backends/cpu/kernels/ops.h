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
 * ox)] = x[c, oy * stride - begin + ky * dilation, ..] or 0 outside.  Every element is a sum over blocks of CPU_CONV_STEP k,
 * each one chain of fused multiply-adds: what it is does not depend on the split. */
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

#endif
