/* image_body.h - pooling, resizing, group norm and scans (ops.h), included by image_<isa>.c. */
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/math_body.h"
#include "kernels/plane_body.h"

/* ---- pool ---- */

static int holds_nan(const float *x, int64_t n) {
  vf bad = v_zero(), high = v_set(3.0e38f), low = v_set(-3.0e38f);
  for (int64_t i = 0; i < n; i += V)
    bad = v_add(bad, v_mul(v_zero(), v_max(low, v_min(high, v_loadn(x + i, n - i)))));
  return v_sum(bad) != 0.0f; /* zeros or NaN */
}

V_INLINE vf pool_step(const int max, const int nan, vf sum, vf v) {
  if (!max) return v_add(sum, v);
  vf most = v_max(v, sum);
  if (!nan) return most;
  vf bad = v_mul(v_zero(), v_max(v_set(-3.0e38f), v_min(v_set(3.0e38f), v)));
  vf worse = v_mul(v_zero(), v_max(v_set(-3.0e38f), v_min(v_set(3.0e38f), sum)));
  return v_add(most, v_add(bad, worse));
}

V_INLINE void pool_rows(const int max, const int nan, const cpu_pool *g,
                        const cpu_depthwise_plan *l, const float *x) {
  const kit_plane *p = &g->plane;
  const int64_t line = p->stride[1] * l->pitch, step = p->stride[0] * line;
  for (int64_t row = 0; row < p->out[0]; row++)
    for (int64_t col = 0; col < p->out[1]; col += 2 * V) {
      vf a = v_set(max ? -INFINITY : 0.0f), b = a;
      for (int64_t ky = 0; ky < p->kernel[0]; ky++)
        for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
          const float *from =
              x + row * step + ky * line + kx % p->stride[1] * l->pitch + kx / p->stride[1] + col;
          a = pool_step(max, nan, a, v_load(from));
          b = pool_step(max, nan, b, v_load(from + V));
        }
      const int64_t left = p->out[1] - col;
      float *y = g->y + row * p->out[1] + col;
      if (!max) {
        vf rows = v_set(g->row_count[row]);
        a = v_div(a, v_mul(rows, v_loadn(g->col_count + col, left)));
        if (left > V) b = v_div(b, v_mul(rows, v_loadn(g->col_count + col + V, left - V)));
      }
      v_storen(y, a, left);
      if (left > V) v_storen(y + V, b, left - V);
    }
}

void CPU_NAME(pool, plane)(const cpu_pool *g, float *workspace) {
  const kit_plane *p = &g->plane;
  const cpu_depthwise_plan l = cpu_depthwise_layout(p);
  lay_plane(p, g->x, &l, g->max ? -INFINITY : 0.0f, g->again, workspace);
  if (!g->max)
    pool_rows(0, 0, g, &l, workspace);
  else if (holds_nan(g->x, p->in[0] * p->in[1]))
    pool_rows(1, 1, g, &l, workspace);
  else
    pool_rows(1, 0, g, &l, workspace);
}

/* What a window covers of an image as codes. */
typedef struct covered {
  const uint8_t *at[CPU_POOL_TAPS];
  float scale[CPU_POOL_TAPS], zero[CPU_POOL_TAPS];
  float bad; /* NaN where a pixel is, which all of its channels are then; else 0 */
  int n;
} covered;

static void cover(const cpu_pool_pixels *g, int64_t oy, int64_t ox, covered *to) {
  const kit_plane *p = &g->plane;
  to->n = 0, to->bad = 0;
  for (int64_t ky = 0; ky < p->kernel[0]; ky++)
    for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
      const int64_t y = oy * p->stride[0] - p->begin[0] + ky * p->dilation[0],
                    x = ox * p->stride[1] - p->begin[1] + kx * p->dilation[1],
                    at = y * p->in[1] + x;
      if (y < 0 || y >= p->in[0] || x < 0 || x >= p->in[1]) continue;
      to->at[to->n] = g->codes + at * g->channels;
      to->scale[to->n] = g->scale[at];
      to->bad += 0 * g->scale[at];
      to->zero[to->n++] = g->zero ? g->zero[at] : 0;
    }
}

/* Channels [c, c + V); a NaN wins. */
V_INLINE vf largest_of(const bool sign, const bool zeros, const covered *w, int64_t c) {
  vf most = v_set(-INFINITY);
  for (int i = 0; i < w->n; i++) {
    vf code = sign ? v_load_s8((const int8_t *)w->at[i] + c) : v_load_u8(w->at[i] + c);
    if (zeros) code = v_sub(code, v_set(w->zero[i]));
    most = v_max(most, v_mul(code, v_set(w->scale[i])));
  }
  return v_add(most, v_set(w->bad));
}

V_INLINE void pool_window(const bool sign, const bool zeros, const covered *w, int64_t channels,
                          float *y) {
  int64_t c = 0;
  for (; c + V <= channels; c += V) v_store(y + c, largest_of(sign, zeros, w, c));
  if (c >= channels) return;
  covered rest = *w;
  uint8_t code[CPU_POOL_TAPS][V] = {{0}};
  for (int i = 0; i < w->n; i++) {
    memcpy(code[i], w->at[i] + c, (size_t)(channels - c));
    rest.at[i] = code[i];
  }
  v_storen(y + c, largest_of(sign, zeros, &rest, 0), channels - c);
}

/* Channels [c, c + 4V), `left` of which there are, of columns [first, end) of a window over
 * lines. */
V_INLINE void pool_four(const bool whole, const cpu_pool_pixels *g, int64_t first, int64_t end,
                        int64_t c, int64_t left, float *y) {
  const kit_plane *p = &g->plane;
  vf most[4], bad[4];
  for (int i = 0; i < 4; i++) most[i] = v_set(-INFINITY), bad[i] = v_zero();
  for (int64_t ky = 0; ky < p->kernel[0]; ky++) {
    if (!g->lines[ky]) continue;
    for (int64_t x = first; x < end; x += p->dilation[1]) {
      const float *from = g->lines[ky] + x * g->channels + c;
      for (int i = 0; i < 4; i++) {
        if (!whole && left <= i * V) break;
        const vf v = whole ? v_load(from + i * V) : v_loadn(from + i * V, left - i * V);
        most[i] = v_max(most[i], v), bad[i] = v_fma(v, v_zero(), bad[i]);
      }
    }
  }
  for (int i = 0; i < 4; i++)
    if (whole)
      v_store(y + c + i * V, v_add(most[i], bad[i]));
    else if (left > i * V)
      v_storen(y + c + i * V, v_add(most[i], bad[i]), left - i * V);
}

static void pool_lines(const cpu_pool_pixels *g) {
  const kit_plane *p = &g->plane;
  float *y = g->y;
  for (int64_t ox = 0; ox < p->out[1]; ox++, y += g->channels) {
    int64_t first = ox * p->stride[1] - p->begin[1],
            end = first + (p->kernel[1] - 1) * p->dilation[1] + 1, c = 0;
    while (first < 0) first += p->dilation[1];
    if (end > p->in[1]) end = p->in[1];
    for (; c + 4 * V <= g->channels; c += 4 * V) pool_four(true, g, first, end, c, 4 * V, y);
    for (; c < g->channels; c += 4 * V) pool_four(false, g, first, end, c, g->channels - c, y);
  }
}

void CPU_NAME(pool, pixels)(const cpu_pool_pixels *g, int64_t line, int64_t line_end) {
  if (g->lines) {
    pool_lines(g);
    return;
  }
  covered w;
  float *y = g->y;
  for (int64_t oy = line; oy < line_end; oy++)
    for (int64_t ox = 0; ox < g->plane.out[1]; ox++, y += g->channels) {
      cover(g, oy, ox, &w);
      if (g->sign)
        pool_window(true, true, &w, g->channels, y);
      else if (g->zero)
        pool_window(false, true, &w, g->channels, y);
      else
        pool_window(false, false, &w, g->channels, y);
    }
}

/* ---- resize ---- */

/* y = sum of weight[i] * row index[i] */
static void resize_rows(const float *x, int64_t cols, const int32_t *index, const float *weight,
                        int64_t width, float *y) {
  for (int64_t c = 0; c < cols; c += V) {
    const int64_t left = cols - c;
    vf sum = v_mul(v_set(weight[0]), v_loadn(x + index[0] * cols + c, left));
    for (int64_t i = 1; i < width; i++)
      sum = v_fma(v_set(weight[i]), v_loadn(x + index[i] * cols + c, left), sum);
    v_storen(y + c, sum, left);
  }
}

static void resize_columns(const float *x, int64_t cols, const int32_t *index, const float *weight,
                           int64_t width, float *y) {
  if (width == 1) {
    for (int64_t c = 0; c < cols; c++) y[c] = weight[c] * x[index[c]];
  } else if (width == 2) {
    for (int64_t c = 0; c < cols; c++)
      y[c] = weight[2 * c] * x[index[2 * c]] + weight[2 * c + 1] * x[index[2 * c + 1]];
  } else {
    for (int64_t c = 0; c < cols; c++, index += width, weight += width) {
      float sum = weight[0] * x[index[0]];
      for (int64_t i = 1; i < width; i++) sum += weight[i] * x[index[i]];
      y[c] = sum;
    }
  }
}

/* Along the columns while there are fewer rows. */
void CPU_NAME(resize, plane)(const cpu_resize *g, float *workspace) {
  const int64_t rows = g->in[0] <= g->out[0] ? g->in[0] : g->out[0];
  if (g->in[0] <= g->out[0]) {
    for (int64_t r = 0; r < rows; r++)
      resize_columns(g->x + r * g->in[1], g->out[1], g->index[1], g->weight[1], g->width[1],
                     workspace + r * g->out[1]);
    for (int64_t r = 0; r < g->out[0]; r++)
      resize_rows(workspace, g->out[1], g->index[0] + r * g->width[0],
                  g->weight[0] + r * g->width[0], g->width[0], g->y + r * g->out[1]);
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    resize_rows(g->x, g->in[1], g->index[0] + r * g->width[0], g->weight[0] + r * g->width[0],
                g->width[0], workspace + r * g->in[1]);
  for (int64_t r = 0; r < rows; r++)
    resize_columns(workspace + r * g->in[1], g->out[1], g->index[1], g->weight[1], g->width[1],
                   g->y + r * g->out[1]);
}

/* ---- group norm ---- */

enum { GROUP_BLOCK = 64 }; /* vectors of one partial sum */

/* Sum of (x - mean), or of its square. */
static float centred_sum(const float *x, int64_t n, float mean, int square) {
  vf m = v_set(mean), total = v_zero();
  int64_t i = 0;
  while (i + V <= n) {
    vf part = v_zero();
    for (int k = 0; k < GROUP_BLOCK && i + V <= n; k++, i += V) {
      vf d = v_sub(v_load(x + i), m);
      part = square ? v_fma(d, d, part) : v_add(part, d);
    }
    total = v_add(total, part);
  }
  float sum = v_sum(total);
  for (; i < n; i++) sum += square ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
  return sum;
}

/* Mean and variance, block by block (Chan, Golub, LeVeque 1979): each is in the first-level cache for
 * its second pass, while a group may be larger than any cache. */
static void moments_of(const float *x, int64_t n, float *mean, float *variance) {
  enum { BLOCK = GROUP_BLOCK * V };
  double middle = 0, squares = 0;
  for (int64_t at = 0, count; at < n; at += count) {
    count = n - at < BLOCK ? n - at : BLOCK;
    const float here = centred_sum(x + at, count, 0.0f, 0) / (float)count;
    const double apart = (double)here - middle, share = (double)count / (double)(at + count);
    middle += apart * share;
    squares += (double)centred_sum(x + at, count, here, 1) + apart * apart * share * (double)at;
  }
  *mean = (float)middle;
  *variance = (float)(squares / (double)n);
}

void CPU_NAME(group_norm, group)(const cpu_group *g) {
  const int64_t block = 2048;
  float mean, variance;
  moments_of(g->x, g->channels * g->inner, &mean, &variance);
  const float factor = 1.0f / sqrtf(variance + g->eps);
  for (int64_t c = 0; c < g->channels; c++) {
    vf m = v_set(mean), scale = v_set(g->gamma ? factor * g->gamma[c] : factor),
       shift = v_set(g->beta ? g->beta[c] : 0.0f);
    /* small enough to stay at hand for the activation */
    for (int64_t at = 0; at < g->inner; at += block) {
      const float *x = g->x + c * g->inner + at;
      float *y = g->y + c * g->inner + at;
      const int64_t cols = g->inner - at < block ? g->inner - at : block;
      for (int64_t i = 0; i < cols; i += V)
        v_storen(y + i, v_fma(v_sub(v_loadn(x + i, cols - i), m), scale, shift), cols - i);
      if (g->act != ACCEL_PLUGIN_ACT_NONE) CPU_NAME(activate, row)(g->act, g->alpha, y, y, cols);
    }
  }
}

/* ---- scan ---- */

/* m[k][V] = from[c][k] for c < cols, zeros behind them. */
static void scan_lay(const float *from, int64_t cols, int64_t n, float *m) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t c = 0; c < V; c++) m[k * V + c] = from && c < cols ? from[c * n + k] : 0.0f;
}

/* sum of c[k] h[k] while h = decay h + b[k] move */
V_INLINE vf scan_states(const int rates, const cpu_scan *g, const float *b, const float *c,
                        const float *a, float *h, vf dt, vf move) {
  vf sum[2] = {v_zero(), v_zero()}, decay = rates ? v_zero() : v_exp(v_mul(dt, v_set(*g->a)));
  int64_t k = 0;
  for (; k + 2 <= g->n; k += 2)
    for (int i = 0; i < 2; i++) {
      vf keep = rates ? v_exp(v_mul(dt, v_load(a + (k + i) * V))) : decay;
      vf s = v_fma(keep, v_load(h + (k + i) * V), v_mul(move, v_set(b[k + i])));
      v_store(h + (k + i) * V, s);
      sum[i] = v_fma(s, v_set(c[k + i]), sum[i]);
    }
  for (; k < g->n; k++) {
    vf keep = rates ? v_exp(v_mul(dt, v_load(a + k * V))) : decay;
    vf s = v_fma(keep, v_load(h + k * V), v_mul(move, v_set(b[k])));
    v_store(h + k * V, s);
    sum[0] = v_fma(s, v_set(c[k]), sum[0]);
  }
  return v_add(sum[0], sum[1]);
}

void CPU_NAME(scan, column)(const cpu_scan *g, int64_t cols, float *workspace) {
  float *h = workspace, *a = workspace + g->n * V;
  vf bias = v_zero(), skip = v_zero();
  scan_lay(g->current, cols, g->n, h);
  if (g->rates) scan_lay(g->a, cols, g->n, a);
  if (g->dt_bias) bias = g->rates ? v_loadn(g->dt_bias, cols) : v_set(*g->dt_bias);
  if (g->d) skip = g->rates ? v_loadn(g->d, cols) : v_set(*g->d);
  for (int64_t r = 0; r < g->rows; r++) {
    const float *t = g->dt + r * g->ldt, *b = g->b + r * g->ldb, *c = g->c + r * g->ldc;
    vf x = v_loadn(g->x + r * g->ldx, cols),
       dt = v_add(g->rates ? v_loadn(t, cols) : v_set(*t), bias);
    if (g->softplus) dt = v_softplus(dt);
    dt = v_min(v_set(g->high), v_max(v_set(g->low), dt));
    vf move = v_mul(dt, x);
    vf y = g->rates ? scan_states(1, g, b, c, a, h, dt, move)
                    : scan_states(0, g, b, c, a, h, dt, move);
    if (g->d) y = v_fma(skip, x, y);
    if (g->z) y = v_mul(y, v_swish(v_loadn(g->z + r * g->ldz, cols), v_set(1.0f)));
    v_storen(g->y + r * g->ldy, y, cols);
  }
  for (int64_t i = 0; g->next && i < cols; i++)
    for (int64_t k = 0; k < g->n; k++) g->next[i * g->n + k] = h[k * V + i];
}
