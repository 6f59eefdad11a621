/* conv_channels_body.h - columns of a convolution whose elements are pairs of channels, included by
 * conv_gemm_body.h.  The part of two channels that a block of pixels sees becomes pairs once, and
 * every tap copies from them. */

/* Channels 2 pair and 2 pair + 1; the second NULL where there is none. */
static void pair_of(const cpu_conv_gemm *g, int64_t pair, const float **a, const float **b) {
  const int64_t size = g->plane.in[0] * g->plane.in[1],
                channels = g->k / (g->plane.kernel[0] * g->plane.kernel[1]);
  *a = g->x + 2 * pair * size;
  *b = 2 * pair + 1 < channels ? *a + size : NULL;
}

static void pair_up(const float *a, const float *b, int64_t n, float *to) {
  for (int64_t i = 0; i < n; i += V)
    v_storen(to + i, v_pair_up(v_loadn(a + i, n - i), b ? v_loadn(b + i, n - i) : v_zero()), n - i);
}

/* A row of pairs with zeros around it. */
static void lay_row(const cpu_conv_gemm *g, int64_t pair, int64_t pixel, int64_t pitch, float *to) {
  enum { CHUNK = 8 * V };
  float x[CHUNK], y[CHUNK];
  const float *a, *b;
  const int64_t at = pixel - g->plane.begin[1], width = g->plane.in[1];
  pair_of(g, pair, &a, &b);
  for (int64_t i = 0, n; i < pitch; i += n) {
    n = pitch - i < CHUNK ? pitch - i : CHUNK;
    lay_run(a, width, at + i, 1, n, 0.0f, false, x);
    if (b) lay_run(b, width, at + i, 1, n, 0.0f, false, y);
    pair_up(x, b ? y : NULL, n, to + i);
  }
}

enum {
  PAIRS_MOST = 8192
}; /* words of pairs that are made at a time: they stay in the first-level cache */

/* What the pixels of segments s see of a channel: floats [first, first + count) of it. */
static void window_of(const kit_plane *p, const segment *s, int n, int64_t *first, int64_t *count) {
  int64_t low[2] = {p->in[0], p->in[1]}, high[2] = {0, 0};
  for (int i = 0; i < n; i++) {
    const int64_t from[2] = {s[i].y, s[i].x}, lanes[2] = {1, s[i].n};
    for (int d = 0; d < 2; d++) {
      const int64_t end = from[d] + (lanes[d] - 1) * p->stride[d] +
                          (p->kernel[d] - 1) * p->dilation[d] + 1,
                    begin = from[d] < 0 ? 0 : from[d], stop = end < p->in[d] ? end : p->in[d];
      if (begin < low[d]) low[d] = begin;
      if (stop > high[d]) high[d] = stop;
    }
  }
  *first = low[0] * p->in[1] + low[1];
  *count = high[0] > low[0] && high[1] > low[1] ? (high[0] - 1) * p->in[1] + high[1] - *first : 0;
}

/* A block of pixels: panels, and the segments of each. */
typedef struct pixel_block {
  segment s[CPU_CONV_MOST];
  int first[CPU_CONV_MOST / GEMM_COLS + 2], panels;
  int64_t pixels;
} pixel_block;

/* Taps [t, t_end) of the channels that g.x holds, one after the other from `to` on in each panel. */
static void lay_taps(const cpu_conv_gemm *g, const pixel_block *b, int64_t t, int64_t t_end,
                     int64_t depth, float *to) {
  for (int i = 0; i < b->panels; i++) {
    const int64_t left = b->pixels - i * GEMM_COLS;
    lay_panel(g, b->s + b->first[i], b->first[i + 1] - b->first[i],
              left < GEMM_COLS ? left : GEMM_COLS, t, t_end, to + i * depth * GEMM_COLS);
  }
}

/* The same where the pixels see too much: each channel's columns, then their pairs. */
static void lay_far_taps(const cpu_conv_gemm *g, const pixel_block *b, int64_t pair, int64_t t,
                         int64_t t_end, int64_t depth, float *to) {
  enum { TAPS = 32 };
  float x[TAPS * GEMM_COLS], y[TAPS * GEMM_COLS];
  const int64_t taps = g->plane.kernel[0] * g->plane.kernel[1], k = 2 * pair * taps;
  for (int64_t n; t < t_end; t += n, to += n * GEMM_COLS) {
    n = t_end - t < TAPS ? t_end - t : TAPS;
    for (int i = 0; i < b->panels; i++) {
      const int64_t left = b->pixels - i * GEMM_COLS, count = left < GEMM_COLS ? left : GEMM_COLS;
      const segment *s = b->s + b->first[i];
      const int segments = b->first[i + 1] - b->first[i];
      lay_panel(g, s, segments, count, k + t, k + t + n, x);
      const bool both = k + taps < g->k;
      if (both) lay_panel(g, s, segments, count, k + taps + t, k + taps + t + n, y);
      pair_up(x, both ? y : NULL, n * GEMM_COLS, to + i * depth * GEMM_COLS);
    }
  }
}

/* Columns of elements [k, k_end) and pixels [pixel, stop), at most CPU_CONV_MOST: panels one after
 * the other. */
static void lay_columns(const cpu_conv_gemm *g, int64_t pixel, int64_t stop, int64_t k,
                        int64_t k_end, float *to) {
  float words[PAIRS_MOST + 2 * V]; /* a step of two reads beyond what it takes */
  pixel_block b = {.pixels = stop - pixel};
  const int64_t taps = g->plane.kernel[0] * g->plane.kernel[1], depth = conv_depth(k_end - k);
  cpu_conv_gemm view = *g;
  int64_t from, count;
  for (int64_t p = pixel; p < stop; p += GEMM_COLS, b.panels++) {
    b.first[b.panels + 1] =
        b.first[b.panels] + segments(&g->plane, p, stop - p < GEMM_COLS ? stop - p : GEMM_COLS,
                                     b.s + b.first[b.panels]);
    memset(to + (b.panels * depth + k_end - k) * GEMM_COLS, 0,
           (size_t)((depth - (k_end - k)) * GEMM_COLS) * sizeof *to);
  }
  window_of(&g->plane, b.s, b.first[b.panels], &from, &count);
  view.x = words - from;
  for (int64_t at = k, end; at < k_end; at = end) {
    const int64_t pair = at / taps, t = at % taps;
    float *panel = to + (at - k) * GEMM_COLS;
    end = (pair + 1) * taps < k_end ? (pair + 1) * taps : k_end;
    if (count > PAIRS_MOST) {
      lay_far_taps(g, &b, pair, t, t + end - at, depth, panel);
      continue;
    }
    const float *x, *y;
    pair_of(g, pair, &x, &y);
    pair_up(x + from, y ? y + from : NULL, count, words);
    lay_taps(&view, &b, t, t + end - at, depth, panel);
  }
}
