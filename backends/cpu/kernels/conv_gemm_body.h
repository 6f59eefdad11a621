/* conv_gemm_body.h - convolutions as products (ops.h: cpu_conv_gemm), included by conv_body.h, and
 * by conv_pairs_<isa>.c, where elements of w and of the columns are pairs of neighbouring k
 * (micro_body.h: MICRO_PER).
 *
 * For a block of k and pixels the columns are laid out in panels [pixels / COLS][k][COLS], then
 * every tile of w passes over them.  The tile is the one of micro_body.h with the roles of rows and
 * columns swapped: rows are output channels. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/micro_body.h"
#include "kernels/plane_body.h"

#if !defined(CONV_NAME)
#define CONV_NAME           CPU_NAME(conv, GEMM_TILE)
#define WINO_NAME           CPU_NAME(winograd, GEMM_TILE)
#define CONV_ADD(sum, a, b) *(sum) = v_fma(a, b, *(sum))
#define CONV_ACTIVATE       CPU_NAME(activate, row)
#endif
/* Elements that a tile takes at a time (1: as many as there are).  Above 1 an element is the same tap
 * of two neighbouring channels, and what reads them (conv_channels_body.h, MICRO_PER 1) takes an
 * image of such pairs: columns are filled up to a multiple with zeros, and so is w,
 * [k / UNIT][height][UNIT] then.  CONV_BEGIN(rows) comes before tiles of a height, CONV_END() behind
 * all. */
#if !defined(CONV_UNIT)
#define CONV_UNIT        1
#define CONV_BEGIN(rows) (void)0
#define CONV_END()       (void)0
#endif
static inline int64_t conv_depth(int64_t n) {
  return (micro_depth(n) + CONV_UNIT - 1) / CONV_UNIT * CONV_UNIT;
}
/* Numbers of elements of w; channels, and the taps that each of them has. */
static inline int64_t conv_channels(const cpu_conv_gemm *g) {
  const int64_t taps = g->plane.kernel[0] * g->plane.kernel[1];
  return CONV_UNIT > 1 ? (g->k / taps + 1) / 2 : g->k / taps;
}
static inline int64_t conv_elements(const cpu_conv_gemm *g) {
  return CONV_UNIT > 1 ? conv_channels(g) * g->plane.kernel[0] * g->plane.kernel[1] : g->k;
}

/* ---- columns ---- */

/* Neighbouring pixels of one output row in one panel. */
typedef struct segment {
  int64_t lane, n, y, x; /* y, x: of the first pixel in the input, before the tap's offset */
} segment;

static int segments(const kit_plane *p, int64_t pixel, int64_t count, segment *s) {
  int n = 0;
  for (int64_t lane = 0; lane < count; n++) {
    int64_t oy = (pixel + lane) / p->out[1], ox = (pixel + lane) % p->out[1];
    int64_t have = p->out[1] - ox < count - lane ? p->out[1] - ox : count - lane;
    s[n] = (segment){lane, have, oy * p->stride[0] - p->begin[0], ox * p->stride[1] - p->begin[1]};
    lane += have;
  }
  return n;
}

/* Every k of one channel and the `count` pixels of one panel, whose `n` segments are s. */
static void lay_panel(const cpu_conv_gemm *g, const segment *s, int n, int64_t count, int64_t k,
                      int64_t k_end, float *to) {
  const kit_plane *p = &g->plane;
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
      else if (s[i].n < GEMM_COLS || p->stride[1] > 2 || x < 0 ||
               x + (GEMM_COLS - 1) * p->stride[1] >= p->in[1])
        lay_run(row, p->in[1], x, p->stride[1], s[i].n, 0.0f, false, to + s[i].lane);
      else if (p->stride[1] == 1)
        for (int j = 0; j < GEMM_VECS; j++) v_store(to + j * V, v_load(row + x + j * V));
      else
        for (int j = 0; j < GEMM_VECS; j++)
          v_store(to + j * V, v_load_even(row + x + 2 * j * V, V));
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

#if CONV_UNIT == 1
/* to[rows][ldt] = a b, added to from[rows][ldf] unless that is NULL; a[k] at stride `step` and b[k]
 * at stride `next`, of which `vecs` vectors count; then bias, residual and activation of `end`
 * unless that is NULL. */
V_INLINE void conv_tile(const int rows, const int vecs, int64_t k_count, const float *a,
                        int64_t step, const float *b, int64_t next, const float *from, int64_t ldf,
                        float *to, int64_t ldt, const conv_end *end) {
  vf sum[GEMM_ROWS][GEMM_VECS];
  MICRO_UNROLL for (int i = 0; i < rows; i++) {
    MICRO_UNROLL for (int j = 0; j < vecs; j++) {
      sum[i][j] = from ? v_load(from + i * ldf + j * V) : v_zero();
    }
  }
  /* results and residuals are far apart and no cache holds them: they arrive while k passes */
  if (end) {
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
      MICRO_UNROLL for (int j = 0; j < vecs; j++) { CONV_ADD(&sum[i][j], w, y[j]); }
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
      MICRO_UNROLL for (int j = 0; j < vecs; j++) {
        sum[i][j] = v_add(sum[i][j], v_load(end->residual + i * ldt + j * V));
      }
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

typedef void (*conv_tile_fn)(int64_t k_count, const float *a, int64_t step, const float *b,
                             int64_t next, const float *from, int64_t ldf, float *to, int64_t ldt,
                             const conv_end *end);
#define CONV_TILE_OF(rows, vecs)                                                     \
  static void conv_tile_##rows##_##vecs(                                             \
      int64_t k_count, const float *a, int64_t step, const float *b, int64_t next,   \
      const float *from, int64_t ldf, float *to, int64_t ldt, const conv_end *end) { \
    conv_tile(rows, vecs, k_count, a, step, b, next, from, ldf, to, ldt, end);       \
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

V_INLINE void conv_run_tile(int64_t rows, bool wide, int64_t k_count, const float *a, int64_t step,
                            const float *b, int64_t next, const float *from, int64_t ldf, float *to,
                            int64_t ldt, const conv_end *end) {
  conv_tile_of[rows][wide](k_count, a, step, b, next, from, ldf, to, ldt, end);
}
#else
/* The same of any height up to GEMM_ROWS, one vector or all of them. */
static void conv_run_tile(int64_t rows, bool wide, int64_t k_count, const float *a, int64_t step,
                          const float *b, int64_t next, const float *from, int64_t ldf, float *to,
                          int64_t ldt, const conv_end *end);
#endif

static bool in_registers(int32_t act) {
  return act == ACCEL_PLUGIN_ACT_NONE || act == ACCEL_PLUGIN_ACT_RELU;
}

/* A tile over columns that are not whole vectors: over t, which y fills but for the missing
 * columns. */
static void conv_part(const cpu_conv_gemm *g, const float *w, int64_t count, const float *columns,
                      int64_t next, int64_t rows, float *y, int64_t cols, bool first,
                      const conv_end *end) {
  float t[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64))),
      r[GEMM_ROWS * GEMM_COLS] __attribute__((aligned(64)));
  conv_end last = {0};
  for (int64_t i = 0; i < rows && !first; i++)
    for (int64_t j = 0; j < GEMM_COLS; j += V)
      v_store(t + i * GEMM_COLS + j, j < cols ? v_loadn(y + i * g->ldy + j, cols - j) : v_zero());
  if (end) last = *end;
  if (end && end->residual) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < GEMM_COLS; j += V)
        v_store(r + i * GEMM_COLS + j,
                j < cols ? v_loadn(end->residual + i * g->ldy + j, cols - j) : v_zero());
    last.residual = r;
  }
  conv_run_tile(rows, cols > V, count, w, g->height, columns, next, first ? NULL : t, GEMM_COLS, t,
                GEMM_COLS, end ? &last : NULL);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j += V)
      v_storen(y + i * g->ldy + j, v_load(t + i * GEMM_COLS + j), cols - j);
}

/* One tile over one panel: y holds what earlier k gave. */
static void conv_panel(const cpu_conv_gemm *g, const float *w, int64_t count, const float *columns,
                       int64_t next, int64_t row, int64_t rows, int64_t pixel, int64_t cols,
                       bool first, bool last) {
  float *y = g->y + row * g->ldy + pixel;
  const conv_end end = {.bias = g->bias ? g->bias + row : NULL,
                        .residual = g->residual ? g->residual + row * g->ldy + pixel : NULL,
                        .relu = g->act == ACCEL_PLUGIN_ACT_RELU};
  if (cols % V == 0)
    conv_run_tile(rows, cols > V, count, w, g->height, columns, next, first ? NULL : y, g->ldy, y,
                  g->ldy, last ? &end : NULL);
  else
    conv_part(g, w, count, columns, next, rows, y, cols, first, last ? &end : NULL);
  for (int64_t i = 0; i < rows && last && !in_registers(g->act); i++)
    CONV_ACTIVATE(g->act, g->alpha, y + i * g->ldy, y + i * g->ldy, cols);
}

/* Long kernels over one row, whose taps see the same pixels shifted: those are read where they are,
 * from rows with zeros around them.  The pitch of those rows, or 0 where columns are laid out
 * instead. */
enum { SLIDING_TAPS = 16 };
static int64_t sliding_pitch(const cpu_conv_gemm *g) {
  const kit_plane *p = &g->plane;
  const int64_t pitch = CPU_CONV_PIXELS + (p->kernel[1] - 1) * p->dilation[1] + GEMM_COLS;
  const bool row =
      p->in[0] == 1 && p->out[0] == 1 && p->kernel[0] == 1 && !p->begin[0] && p->stride[1] == 1;
  return row && p->kernel[1] >= SLIDING_TAPS && p->kernel[1] % (MICRO_PER * CONV_UNIT) == 0 &&
                 conv_channels(g) * pitch <= CPU_CONV_WORKSPACE
             ? pitch
             : 0;
}

#if CONV_UNIT == 1
/* A pixel's column is that pixel of every channel. */
static bool is_plain(const kit_plane *p) {
  return p->kernel[0] * p->kernel[1] * p->stride[0] * p->stride[1] == 1 && p->in[0] == p->out[0] &&
         p->in[1] == p->out[1] && !p->begin[0] && !p->begin[1];
}

/* Panels of such columns, whole ones: x[count][pixels] at stride ldx.  Few of the rows that follow
 * are asked for early: each lies in a page of its own. */
enum { PLAIN_AHEAD = 4 };
static void lay_plain(const float *x, int64_t ldx, int64_t count, int64_t pixels, float *to) {
  const int64_t depth = micro_depth(count);
  for (int64_t k = 0; k < depth; k++, x += MICRO_PER * ldx) {
    const bool alone = MICRO_PER * k + 1 == count; /* the last of an odd number of k */
    for (int64_t p = 0; p < pixels; p += GEMM_COLS) {
      float *panel = to + p * depth + k * GEMM_COLS;
      for (int j = 0; j < GEMM_VECS; j++) {
        const float *from = x + p + j * V;
        v_store(panel + j * V, MICRO_PAIR_UP(v_load(from), alone ? v_zero() : v_load(from + ldx)));
        for (int i = 0; i < MICRO_PER; i++) v_prefetch(from + (PLAIN_AHEAD + i) * ldx);
      }
    }
  }
}

/* A row with zeros around it; of pairs (taps are even in number then) each pixel with the one under
 * the next tap. */
static void lay_row(const cpu_conv_gemm *g, int64_t channel, int64_t pixel, int64_t pitch,
                    float *to) {
  const kit_plane *p = &g->plane;
  lay_run(g->x + channel * p->in[1], p->in[1], pixel - p->begin[1], 1, pitch, 0.0f, false, to);
  const int64_t pairs = MICRO_PER > 1 ? pitch - p->dilation[1] : 0;
  for (int64_t i = 0; i < pairs; i += V)
    v_storen(to + i,
             MICRO_PAIR_UP(v_loadn(to + i, pairs - i), v_loadn(to + i + p->dilation[1], pairs - i)),
             pairs - i);
}

/* k that are laid out in one go for a panel: those of a channel, or, where they become pairs, of
 * several. */
enum { CONV_CHUNK = 128 };

/* k [k, k_end) for one panel: as they are, or in pairs by way of `wide`. */
static void lay_chunk(const cpu_conv_gemm *g, const segment *s, int n, int64_t count, int64_t k,
                      int64_t k_end, float *to) {
  const int64_t taps = g->plane.kernel[0] * g->plane.kernel[1];
  float wide[MICRO_PER > 1 ? CONV_CHUNK * GEMM_COLS : 1] __attribute__((aligned(64))),
      *laid = MICRO_PER > 1 ? wide : to;
  for (int64_t at = k, end; at < k_end; at = end) { /* channel by channel */
    end = at / taps * taps + taps < k_end ? at / taps * taps + taps : k_end;
    lay_panel(g, s, n, count, at, end, laid + (at - k) * GEMM_COLS);
  }
  for (int64_t at = k; MICRO_PER > 1 && at < k_end;
       at += MICRO_PER, laid += MICRO_PER * GEMM_COLS, to += GEMM_COLS)
    for (int j = 0; j < GEMM_COLS; j += V)
      v_store(to + j, MICRO_PAIR_UP(v_load(laid + j),
                                    at + 1 < k_end ? v_load(laid + GEMM_COLS + j) : v_zero()));
}

/* Columns of k [k, k_end) and pixels [pixel, stop), at most CPU_CONV_MOST: panels one after the
 * other.  Channel by channel, since every channel's pixels lie together. */
static void lay_columns(const cpu_conv_gemm *g, int64_t pixel, int64_t stop, int64_t k,
                        int64_t k_end, float *to) {
  segment s[CPU_CONV_MOST];
  int first[CPU_CONV_MOST / GEMM_COLS + 2] = {0}, panels = 0;
  const int64_t depth = micro_depth(k_end - k), size = g->plane.in[0] * g->plane.in[1],
                taps = g->plane.kernel[0] * g->plane.kernel[1],
                chunk = MICRO_PER == 1                  ? taps
                        : MICRO_PER * taps < CONV_CHUNK ? MICRO_PER * taps
                                                        : CONV_CHUNK;
  if (is_plain(&g->plane)) {
    const int64_t whole = (stop - pixel) / GEMM_COLS * GEMM_COLS;
    lay_plain(g->x + k * size + pixel, size, k_end - k, whole, to);
    pixel += whole;
    to += whole * depth;
  }
  for (int64_t p = pixel; p < stop; p += GEMM_COLS, panels++)
    first[panels + 1] =
        first[panels] +
        segments(&g->plane, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS, s + first[panels]);
  for (int64_t at = k, end; at < k_end && panels; at = end) {
    end = (at / chunk + 1) * chunk < k_end ? (at / chunk + 1) * chunk : k_end;
    for (int i = 0; i < panels; i++) {
      const int64_t left = stop - pixel - i * GEMM_COLS;
      lay_chunk(g, s + first[i], first[i + 1] - first[i], left < GEMM_COLS ? left : GEMM_COLS, at,
                end, to + (i * depth + (at - k) / MICRO_PER) * GEMM_COLS);
    }
  }
}
#else
#include "kernels/conv_channels_body.h"
#endif

/* Pixels [pixel, stop), at most CPU_CONV_PIXELS, channel by channel. */
static void slide(const cpu_conv_gemm *g, int64_t pixel, int64_t stop, int64_t tile,
                  int64_t tile_end, int64_t pitch, float *rows_of_x) {
  const kit_plane *p = &g->plane;
  const int64_t taps = p->kernel[1], channels = conv_channels(g),
                depth = conv_depth(conv_elements(g)), count = taps / MICRO_PER;
  for (int64_t c = 0; c < channels; c++) lay_row(g, c, pixel, pitch, rows_of_x + c * pitch);
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = tile; i < tile_end; i++) {
      const int64_t row = i * g->height,
                    rows = g->rows - row < g->height ? g->rows - row : g->height;
      CONV_BEGIN(rows);
      for (int64_t at = pixel; at < stop; at += GEMM_COLS)
        conv_panel(g, g->w + (i * depth + c * count) * g->height, count,
                   rows_of_x + c * pitch + at - pixel, MICRO_PER * p->dilation[1], row, rows, at,
                   stop - at < GEMM_COLS ? stop - at : GEMM_COLS, c == 0, c == channels - 1);
    }
}

/* Pixels that are laid out together, `left` of which there are: as many as the workspace holds, in
 * equal parts. */
static int64_t block_pixels(int64_t left, int64_t count) {
  int64_t most = CPU_CONV_WORKSPACE / (count > 0 ? count : 1) / GEMM_COLS * GEMM_COLS;
  if (most > CPU_CONV_MOST) most = CPU_CONV_MOST;
  const int64_t blocks = (left + most - 1) / most;
  return blocks ? ((left + blocks - 1) / blocks + GEMM_COLS - 1) / GEMM_COLS * GEMM_COLS : most;
}

void CONV_NAME(const cpu_conv_gemm *g, int64_t pixel, int64_t pixel_end, int64_t tile,
               int64_t tile_end, float *workspace) {
  const int64_t all = conv_elements(g), depth = conv_depth(all), units = depth / CONV_UNIT,
                steps = depth > 0 ? (depth + CPU_CONV_STEP - 1) / CPU_CONV_STEP : 1,
                pitch = sliding_pitch(g),
                block = pitch ? CPU_CONV_PIXELS
                              : block_pixels(pixel_end - pixel,
                                             (units + steps - 1) / steps * CONV_UNIT);
  for (int64_t stop; pixel < pixel_end; pixel = stop) {
    stop = pixel + block < pixel_end ? pixel + block : pixel_end;
    if (pitch) {
      slide(g, pixel, stop, tile, tile_end, pitch, workspace);
      continue;
    }
    for (int64_t s = 0; s < steps; s++) { /* equal blocks of k */
      const int64_t at = units * s / steps * CONV_UNIT,
                    count = units * (s + 1) / steps * CONV_UNIT - at,
                    k_end = MICRO_PER * (at + count) < all ? MICRO_PER * (at + count) : all;
      lay_columns(g, pixel, stop, MICRO_PER * at, k_end, workspace);
      for (int64_t i = tile; i < tile_end; i++) {
        const int64_t row = i * g->height,
                      rows = g->rows - row < g->height ? g->rows - row : g->height;
        CONV_BEGIN(rows);
        for (int64_t p = pixel; p < stop; p += GEMM_COLS)
          conv_panel(g, g->w + (i * depth + at) * g->height, count, workspace + (p - pixel) * count,
                     GEMM_COLS, row, rows, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS, s == 0,
                     s == steps - 1);
      }
    }
  }
  CONV_END();
}
