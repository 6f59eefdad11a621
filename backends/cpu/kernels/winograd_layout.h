/* winograd_layout.h - Winograd's convolution F(n x n, 3x3): how many windows and points there are,
 * the transform of the weights, and where the kernel keeps what it computes in its workspace.
 *
 * ops.h (cpu_winograd_fn) says what is computed.  cpu_conv_weights.c transforms weights at init,
 * cpu_conv.c asks for the workspace, winograd_body.h uses it. */
#ifndef ACCEL_CPU_WINOGRAD_LAYOUT_H
#define ACCEL_CPU_WINOGRAD_LAYOUT_H

#include "kit/kit_scalar.h"

static inline int64_t cpu_area(const int64_t d[2]) { return d[0] * d[1]; }

/* A block of windows is worked on together: it has about this many floats of x and y, and at least
 * this many windows. */
enum { CPU_WINOGRAD_FLOATS = 1 << 19, CPU_WINOGRAD_LEAST = 64 };
enum { CPU_WINOGRAD_MOST = 6 }; /* n + 2 */
static inline int64_t cpu_winograd_points(int64_t n) { return (n + 2) * (n + 2); }
static inline int64_t cpu_winograd_wide(const kit_plane *p, int64_t n) {
  return (p->out[1] + n - 1) / n;
}
static inline int64_t cpu_winograd_tiles(const kit_plane *p, int64_t n) {
  return (p->out[0] + n - 1) / n * cpu_winograd_wide(p, n);
}
/* g w g^T of one kernel of nine, g[size][3]: the points, `step` apart. */
static inline void cpu_winograd_transform(const double (*g)[3], int64_t size, const float *w,
                                          float *out, int64_t step) {
  for (int64_t r = 0; r < size; r++) {
    double row[3];
    for (int x = 0; x < 3; x++)
      row[x] = g[r][0] * (double)w[x] + g[r][1] * (double)w[3 + x] + g[r][2] * (double)w[6 + x];
    for (int64_t s = 0; s < size; s++)
      out[(r * size + s) * step] = (float)(g[s][0] * row[0] + g[s][1] * row[1] + g[s][2] * row[2]);
  }
}
/* G w G^T of F(n x n, 3x3). */
static inline void cpu_winograd_weights(int64_t n, const float *w, float *out, int64_t step) {
  const double a = 0.70710678118654752, b = 1.41421356237309505;
  const double four[6][3] = {{1, 0, 0},
                             {-2 / 3.0, -2 * a / 3, -1 / 3.0},
                             {-2 / 3.0, 2 * a / 3, -1 / 3.0},
                             {1 / 6.0, b / 6, 1 / 3.0},
                             {1 / 6.0, -b / 6, 1 / 3.0},
                             {0, 0, 1}};
  const double two[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  cpu_winograd_transform(n == 4 ? four : two, n + 2, w, out, step);
}
/* Where things lie in the workspace, in floats. */
typedef struct cpu_winograd_plan {
  int64_t block; /* windows that are worked on together: whole panels */
  /* from one point to the next: [block / cols][k][cols] before the product, [rows][block] after */
  int64_t x_step, y_step;
  int64_t line, length; /* of a row of `line` (which is first) and of one of `split` */
  int64_t split, x, y, all;
} cpu_winograd_plan;
static inline cpu_winograd_plan cpu_winograd_layout(const kit_plane *p, int64_t n, int64_t rows,
                                                    int64_t k) {
  cpu_winograd_plan l;
  const int64_t wide = cpu_winograd_wide(p, n), windows = (cpu_winograd_tiles(p, n) + 31) / 32 * 32;
  l.block = CPU_WINOGRAD_FLOATS / cpu_winograd_points(n) / (rows + k + 1) / 32 * 32;
  if (l.block < CPU_WINOGRAD_LEAST) l.block = CPU_WINOGRAD_LEAST;
  if (l.block > 256) l.block = 256;
  if (l.block > windows) l.block = windows;
  /* powers of two would put all points into the same few sets of a cache */
  l.x_step = l.block * k + 48;
  l.y_step = l.block * (rows + 16) + 48;
  l.line = wide + 80; /* whole vectors are written and read behind the last window */
  l.length = l.block + 3 * wide + 80;
  l.split = n * l.line;
  l.x = (l.split + n * (n + 2) * l.length + 15) / 16 * 16;
  l.y = l.x + cpu_winograd_points(n) * l.x_step;
  l.all = l.y + cpu_winograd_points(n) * l.y_step;
  return l;
}

#endif
