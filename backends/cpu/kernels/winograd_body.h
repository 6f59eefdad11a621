/* winograd_body.h - 3x3 convolutions by Winograd's F(n x n, 3x3) (ops.h), included after
 * conv_gemm_body.h, whose tiles it multiplies with; in pairs n is 2.
 *
 * A block of windows at a time: each channel's rows are split by the remainder of the column modulo
 * n, so that the same pixel of neighbouring windows is neighbouring in memory; the windows are
 * transformed V at a time into panels, one set for each point; the points are multiplied one after
 * the other, so that one point's panels stay in the second-level cache while its weights pass; the
 * products are transformed back V windows at a time. */

#define WINO_MOST CPU_WINOGRAD_MOST
#define WINO_A    0.707106781f /* the points of n = 4: 0, +-A, +-B, infinity; A B = 1 */
#define WINO_B    1.414213562f

/* ---- transforms ---- */

/* x = B^T x */
V_INLINE void wino_in(const int n, vf x[WINO_MOST]) {
  if (n == 2) {
    const vf y = v_sub(x[0], x[2]), z = v_sub(x[1], x[3]), s = v_add(x[1], x[2]),
             d = v_sub(x[2], x[1]);
    x[0] = y;
    x[1] = s;
    x[2] = d;
    x[3] = z;
    return;
  }
  const vf half = v_set(0.5f), two = v_set(2.0f), both = v_set(2.5f), a = v_set(WINO_A),
           b = v_set(WINO_B);
  const vf e = v_fnma(two, x[2], x[4]), u = v_fnma(two, x[1], x[3]), f = v_fnma(half, x[2], x[4]),
           v = v_fnma(half, x[1], x[3]);
  x[0] = v_fnma(both, x[2], v_add(x[0], x[4]));
  x[5] = v_fnma(both, x[3], v_add(x[1], x[5]));
  x[1] = v_fma(a, u, e);
  x[2] = v_fnma(a, u, e);
  x[3] = v_fma(b, v, f);
  x[4] = v_fnma(b, v, f);
}

/* y = A^T m */
V_INLINE void wino_out(const int n, const vf m[WINO_MOST], vf y[4]) {
  const vf s = v_add(m[1], m[2]), d = v_sub(m[1], m[2]);
  if (n == 2) {
    y[0] = v_add(m[0], s);
    y[1] = v_sub(d, m[3]);
    return;
  }
  const vf t = v_add(m[3], m[4]), e = v_sub(m[3], m[4]);
  y[0] = v_add(v_add(m[0], s), t);
  y[1] = v_fma(v_set(WINO_B), e, v_mul(v_set(WINO_A), d));
  y[2] = v_fma(v_set(2.0f), t, v_mul(v_set(0.5f), s));
  y[3] = v_fma(v_set(2.0f * WINO_B), e, v_fma(v_set(0.5f * WINO_A), d, m[5]));
}

/* n V neighbours: x[i] becomes every n-th from the i-th on. */
V_INLINE void wino_split(const int n, vf x[4]) {
  const vf e = v_even(x[0], x[1]), o = v_odd(x[0], x[1]);
  if (n == 2) {
    x[0] = e;
    x[1] = o;
    return;
  }
  const vf f = v_even(x[2], x[3]), p = v_odd(x[2], x[3]);
  x[0] = v_even(e, f);
  x[1] = v_even(o, p);
  x[2] = v_odd(e, f);
  x[3] = v_odd(o, p);
}
/* And back. */
V_INLINE void wino_join(const int n, vf x[4]) {
  if (n == 2) {
    const vf low = v_zip_low(x[0], x[1]);
    x[1] = v_zip_high(x[0], x[1]);
    x[0] = low;
    return;
  }
  const vf e = v_zip_low(x[0], x[2]), f = v_zip_high(x[0], x[2]), o = v_zip_low(x[1], x[3]),
           p = v_zip_high(x[1], x[3]);
  x[0] = v_zip_low(e, o);
  x[1] = v_zip_high(e, o);
  x[2] = v_zip_low(f, p);
  x[3] = v_zip_high(f, p);
}

/* ---- windows of x ---- */

typedef struct wino {
  const cpu_conv_gemm *g;
  cpu_winograd_plan l;
  /* windows [first, first + count), in rows [row, row + rows) of windows */
  int64_t wide, first, count, row, rows;
  float *line, *split, *x, *y;
} wino;

/* line[i][c] = pixel n c + i of the row with zeros around it, c <= wide. */
V_INLINE void split_row(const int n, const wino *j, const float *row) {
  const kit_plane *p = &j->g->plane;
  const int64_t next = p->in[0] * p->in[1];
  for (int64_t c = 0; c <= j->wide; c += V) {
    const int64_t at = n * c - p->begin[1];
    vf x[4];
    MICRO_UNROLL for (int i = 0; i < n; i++) {
      const int64_t from = at + i * V;
      v_prefetch(row + from + next); /* the same of the channel that follows */
      x[i] = from >= 0 && from + V <= p->in[1] ? v_load(row + from)
                                               : v_load_between(row + from, -from, p->in[1] - from);
    }
    wino_split(n, x);
    MICRO_UNROLL for (int i = 0; i < n; i++) { v_store(j->line + i * j->l.line + c, x[i]); }
  }
}

/* split[r][s][window] = pixel (r, s) of the windows of one channel for r < n; rows n and n + 1 are
 * 0 and 1 of the row of windows that follows. */
V_INLINE void split_channel(const int n, const wino *j, const float *x) {
  const kit_plane *p = &j->g->plane;
  for (int64_t r = 0; r < n; r++)
    for (int64_t w = 0; w < j->rows + (r < 2); w++) {
      const int64_t y = (j->row + w) * n + r - p->begin[0];
      const bool inside = y >= 0 && y < p->in[0];
      if (inside) split_row(n, j, x + y * p->in[1]);
      MICRO_UNROLL for (int s = 0; s < n + 2; s++) {
        const float *from = j->line + s % n * j->l.line + s / n;
        float *to = j->split + (r * (n + 2) + s) * j->l.length + w * j->wide;
        for (int64_t c = 0; c < j->wide; c += V)
          v_store(to + c, inside ? v_load(from + c) : v_zero());
      }
    }
}

/* To where pairs are, the second of two channels finds the first. */
V_INLINE void put_point(float *to, int64_t channel, int64_t channels, vf x) {
  if (MICRO_PER == 1 || (channel % 2 == 0 && channel + 1 < channels))
    v_store(to, x);
  else
    v_store(to, channel % 2 ? MICRO_PAIR_UP(v_load(to), x) : MICRO_PAIR_UP(x, v_zero()));
}

/* x[point][panel][channel][COLS] of one channel. */
V_INLINE void transform_channel(const int n, const wino *j, int64_t channel) {
  const float *from = j->split + (j->first - j->row * j->wide);
  const int64_t depth = micro_depth(j->g->k);
  for (int64_t c = 0; c < j->count; c += V) {
    float *to = j->x + (c / GEMM_COLS * depth + channel / MICRO_PER) * GEMM_COLS + c % GEMM_COLS;
    vf d[WINO_MOST][WINO_MOST];
    MICRO_UNROLL for (int s = 0; s < n + 2; s++) {
      vf x[WINO_MOST];
      MICRO_UNROLL for (int r = 0; r < n + 2; r++) {
        x[r] = v_load(from + (r % n * (n + 2) + s) * j->l.length + r / n * j->wide + c);
      }
      wino_in(n, x);
      MICRO_UNROLL for (int r = 0; r < n + 2; r++) { d[r][s] = x[r]; }
    }
    MICRO_UNROLL for (int r = 0; r < n + 2; r++) {
      wino_in(n, d[r]);
      MICRO_UNROLL for (int s = 0; s < n + 2; s++) {
        put_point(to + (r * (n + 2) + s) * j->l.x_step, channel, j->g->k, d[r][s]);
      }
    }
  }
}

/* ---- products ---- */

static void multiply(const wino *j, int64_t tile, int64_t tile_end) {
  const cpu_conv_gemm *g = j->g;
  const int64_t depth = micro_depth(g->k);
  for (int64_t point = 0; point < cpu_winograd_points(g->n); point++)
    for (int64_t i = tile; i < tile_end; i++) {
      const float *w = g->w + (point * g->tiles + i) * depth * g->height;
      float *y = j->y + point * j->l.y_step + (i - tile) * g->height * j->l.block;
      for (int64_t c = 0; c < j->count; c += GEMM_COLS)
        conv_tile_of[g->height][j->count - c > V](depth, w, g->height,
                                                  j->x + point * j->l.x_step + c * depth, GEMM_COLS,
                                                  NULL, 0, y + c, j->l.block, NULL);
    }
}

/* ---- windows of y ---- */

/* Pixels of output channel `row`: windows [window, window + count), count <= V, of which pixels[i]
 * holds the rows i one after the other. */
V_INLINE void put_windows(const int n, const wino *j, int64_t row, int64_t window, int64_t count,
                          const float (*pixels)[5 * V]) {
  const cpu_conv_gemm *g = j->g;
  const kit_plane *p = &g->plane;
  const vf b = v_set(g->bias ? g->bias[row] : 0.0f);
  const bool relu = g->act == ACCEL_PLUGIN_ACT_RELU;
  int64_t y = window / j->wide * n, x = window % j->wide * n;
  for (int64_t lane = 0, cols; lane < count; lane += (cols + n - 1) / n, x = 0, y += n) {
    cols = (count - lane) * n < p->out[1] - x ? (count - lane) * n : p->out[1] - x;
    for (int64_t i = 0; i < n && y + i < p->out[0]; i++) {
      const int64_t at = row * g->ldy + (y + i) * p->out[1] + x;
      for (int64_t c = 0; c < cols; c += V) {
        v_prefetch(g->y + at + g->ldy + c); /* the channel that follows */
        if (g->residual) v_prefetch(g->residual + at + g->ldy + c);
        vf v = v_add(v_load(pixels[i] + lane * n + c), b);
        if (g->residual) v = v_add(v, v_loadn(g->residual + at + c, cols - c));
        if (relu) v = v_max(v_zero(), v);
        v_storen(g->y + at + c, v, cols - c);
      }
      if (!in_registers(g->act)) CONV_ACTIVATE(g->act, g->alpha, g->y + at, g->y + at, cols);
    }
  }
}

/* Output channel `row`, which is `index` of those in y. */
V_INLINE void transform_row(const int n, const wino *j, int64_t row, int64_t index) {
  float pixels[4][5 * V] __attribute__((aligned(64)));
  for (int64_t c = 0; c < j->count; c += V) {
    const float *from = j->y + index * j->l.block + c;
    vf z[4][WINO_MOST];
    MICRO_UNROLL for (int s = 0; s < n + 2; s++) {
      vf m[WINO_MOST], y[4];
      MICRO_UNROLL for (int r = 0; r < n + 2; r++) {
        m[r] = v_load(from + (r * (n + 2) + s) * j->l.y_step);
      }
      wino_out(n, m, y);
      MICRO_UNROLL for (int r = 0; r < n; r++) { z[r][s] = y[r]; }
    }
    MICRO_UNROLL for (int r = 0; r < n; r++) {
      vf y[4];
      wino_out(n, z[r], y);
      wino_join(n, y);
      MICRO_UNROLL for (int s = 0; s < n; s++) { v_store(pixels[r] + s * V, y[s]); }
      v_store(pixels[r] + n * V, v_zero());
    }
    put_windows(n, j, row, j->first + c, j->count - c < V ? j->count - c : V,
                (const float(*)[5 * V]) pixels);
  }
}

V_INLINE void winograd(const int n, const cpu_conv_gemm *g, int64_t window, int64_t window_end,
                       int64_t tile, int64_t tile_end, float *workspace) {
  wino j = {.g = g,
            .l = cpu_winograd_layout(&g->plane, n, g->rows, g->k),
            .wide = cpu_winograd_wide(&g->plane, n)};
  const int64_t size = g->plane.in[0] * g->plane.in[1],
                end = tile_end * g->height < g->rows ? tile_end * g->height : g->rows;
  j.line = workspace;
  j.split = workspace + j.l.split;
  j.x = workspace + j.l.x;
  j.y = workspace + j.l.y;
  /* lanes behind the last window: numbers, whatever was here */
  for (int64_t i = 0; i < j.l.x; i++) workspace[i] = 0;
  for (j.first = window; j.first < window_end; j.first += j.count) {
    j.count = window_end - j.first < j.l.block ? window_end - j.first : j.l.block;
    j.row = j.first / j.wide;
    j.rows = (j.first + j.count - 1) / j.wide + 1 - j.row;
    for (int64_t c = 0; c < g->k; c++) {
      split_channel(n, &j, g->x + c * size);
      transform_channel(n, &j, c);
    }
    multiply(&j, tile, tile_end);
    for (int64_t row = tile * g->height; row < end; row++)
      transform_row(n, &j, row, row - tile * g->height);
  }
}

void WINO_NAME(const cpu_conv_gemm *g, int64_t window, int64_t window_end, int64_t tile,
               int64_t tile_end, float *workspace) {
  if (MICRO_PER == 1 && g->n == 4)
    winograd(4, g, window, window_end, tile, tile_end, workspace);
  else
    winograd(2, g, window, window_end, tile, tile_end, workspace);
}
