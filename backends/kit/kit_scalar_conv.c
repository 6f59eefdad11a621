/* kit_scalar_conv.c - conv, conv_transpose, pool.  One spatial dim is treated as two with H = 1. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_scalar.h"

kit_plane kit_plane_of(const kit_launch *l, const kit_tensor *w) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  uint32_t n = x->rank - 2u, skip = 2 - n;
  kit_plane p = {
      .in = {1, 1}, .out = {1, 1}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
  for (uint32_t i = 0; i < n; i++) {
    p.in[i + skip] = x->dim[2 + i];
    p.out[i + skip] = out->dim[2 + i];
    p.kernel[i + skip] =
        w ? w->dim[2 + i] : kit_listed(l->node, ACCEL_PLUGIN_ATTR_KERNEL, i, x->dim[2 + i]);
    p.stride[i + skip] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_STRIDE, i, 1);
    p.dilation[i + skip] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, i, 1);
    p.begin[i + skip] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, i, 0);
    p.end[i + skip] = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, i + n, 0);
  }
  return p;
}

/* ---- conv over planes ---- */

/* x[C/g,H,W] of one group, w[C/g,kh,kw] of one output channel, at (oy, ox). */
static double window(const kit_plane *p, const float *x, const float *w, int64_t channels,
                     int64_t oy, int64_t ox) {
  double sum = 0;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t ky = 0; ky < p->kernel[0]; ky++) {
      int64_t y = oy * p->stride[0] - p->begin[0] + ky * p->dilation[0];
      if (y < 0 || y >= p->in[0]) continue;
      for (int64_t kx = 0; kx < p->kernel[1]; kx++) {
        int64_t at = ox * p->stride[1] - p->begin[1] + kx * p->dilation[1];
        if (at >= 0 && at < p->in[1])
          sum += (double)x[(c * p->in[0] + y) * p->in[1] + at] *
                 (double)w[(c * p->kernel[0] + ky) * p->kernel[1] + kx];
      }
    }
  return sum;
}

static int32_t conv_planes(const kit_launch *l) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0];
  const float *bias = kit_f32(&l->in[2]), *residual = kit_f32(&l->in[3]);
  kit_plane p = kit_plane_of(l, w);
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  float alpha = kit_act_alpha(l->node, act);
  int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1), outputs = w->dim[0],
          channels = w->dim[1], per = outputs / groups;
  int64_t size_in = p.in[0] * p.in[1], size_w = channels * p.kernel[0] * p.kernel[1], k = 0;
  for (int64_t b = 0; b < x->dim[0]; b++)
    for (int64_t o = 0; o < outputs; o++) {
      const float *from = kit_f32(x) + (b * x->dim[1] + o / per * channels) * size_in;
      for (int64_t y = 0; y < p.out[0]; y++)
        for (int64_t i = 0; i < p.out[1]; i++, k++) {
          double sum = window(&p, from, kit_f32(w) + o * size_w, channels, y, i) +
                       (bias ? bias[o] : 0.0f) + (residual ? residual[k] : 0.0f);
          kit_f32(out)[k] = kit_act(act, (float)sum, alpha);
        }
    }
  return ACCEL_PLUGIN_OK;
}

/* ---- conv over the rows of sequences ---- */

typedef struct rows_conv {
  const kit_launch *l;
  int64_t channels, kernel, dilation, before, per; /* C, k, .., left context, outputs per group */
  /* rows [n, C] of the item; rows [before, C] ahead of them or NULL */
  const float *x, *carried;
  int64_t n, stride;
} rows_conv;

/* Channel c of row t, which may lie before or after the item. */
static double row_value(const rows_conv *r, int64_t t, int64_t c) {
  if (t < 0)
    return r->carried && t + r->before >= 0 ? r->carried[(t + r->before) * r->channels + c] : 0.0;
  return t < r->n ? r->x[t * r->stride + c] : 0.0;
}

static double row_window(const rows_conv *r, const float *w, int64_t group, int64_t width,
                         int64_t t) {
  double sum = 0;
  for (int64_t c = 0; c < width; c++)
    for (int64_t k = 0; k < r->kernel; k++)
      sum += row_value(r, t - r->before + k * r->dilation, group * width + c) *
             (double)w[c * r->kernel + k];
  return sum;
}

/* The last `before` rows of what was carried followed by the item's own. */
static void carry(const rows_conv *r, float *next) {
  for (int64_t i = 0; i < r->before; i++)
    for (int64_t c = 0; c < r->channels; c++)
      next[i * r->channels + c] = (float)row_value(r, r->n - r->before + i, c);
}

static int32_t conv_rows(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0];
  const float *bias = kit_f32(&l->in[2]), *residual = kit_f32(&l->in[3]);
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE),
          whole[2];
  float alpha = kit_act_alpha(l->node, act);
  int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1), outputs = w->dim[0],
          width = w->dim[1];
  rows_conv r = {.l = l,
                 .channels = kit_cols(x),
                 .kernel = w->dim[2],
                 .dilation = kit_listed(l->node, ACCEL_PLUGIN_ATTR_DILATION, 0, 1),
                 .stride = x->row_stride};
  r.before = kit_listed(l->node, ACCEL_PLUGIN_ATTR_PADS, 0,
                        l->node->state >= 0 ? (r.kernel - 1) * r.dilation : 0);
  r.per = outputs / groups;
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole);
  for (int32_t item = 0; item < rows.items; item++) {
    kit_state_view state = {0};
    r.n = rows.start[item + 1] - rows.start[item];
    if (l->node->state >= 0) {
      int32_t rc = kit_state_step(l, (uint32_t)item, (int32_t)r.n,
                                  (uint64_t)(r.before * r.channels), &state, error);
      if (rc) return rc;
    }
    r.x = kit_f32(x) + rows.start[item] * x->row_stride;
    r.carried = state.current;
    for (int64_t t = 0; t < r.n; t++)
      for (int64_t o = 0; o < outputs; o++) {
        int64_t at = (rows.start[item] + t) * outputs + o;
        double sum = row_window(&r, kit_f32(w) + o * width * r.kernel, o / r.per, width, t) +
                     (bias ? bias[o] : 0.0f) + (residual ? residual[at] : 0.0f);
        kit_f32(out)[at] = kit_act(act, (float)sum, alpha);
      }
    if (state.next) carry(&r, state.next);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_CONV(const kit_launch *l, accel_plugin_error *error) {
  bool rows = l->node->state >= 0 || kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0;
  return rows ? conv_rows(l, error) : conv_planes(l);
}

/* ---- conv_transpose ---- */

/* Input index that reaches output o through kernel tap k, or -1. */
static int64_t source(const kit_plane *p, int axis, int64_t o, int64_t k) {
  int64_t at = o + p->begin[axis] - k * p->dilation[axis];
  return at >= 0 && at % p->stride[axis] == 0 && at / p->stride[axis] < p->in[axis]
             ? at / p->stride[axis]
             : -1;
}

int32_t kit_scalar_CONV_TRANSPOSE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0]; /* w[C,O/g,kh,kw] */
  const float *bias = kit_f32(&l->in[2]);
  kit_plane p = kit_plane_of(l, w);
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  float alpha = kit_act_alpha(l->node, act);
  int64_t groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1), per_in = x->dim[1] / groups,
          per_out = w->dim[1], outputs = per_out * groups, k = 0;
  (void)error;
  for (int64_t b = 0; b < x->dim[0]; b++)
    for (int64_t o = 0; o < outputs; o++)
      for (int64_t y = 0; y < p.out[0]; y++)
        for (int64_t i = 0; i < p.out[1]; i++, k++) {
          double sum = bias ? bias[o] : 0.0f;
          for (int64_t c = o / per_out * per_in; c < (o / per_out + 1) * per_in; c++)
            for (int64_t ky = 0; ky < p.kernel[0]; ky++)
              for (int64_t kx = 0; kx < p.kernel[1]; kx++) {
                int64_t sy = source(&p, 0, y, ky), sx = source(&p, 1, i, kx);
                if (sy < 0 || sx < 0) continue;
                sum += (double)kit_f32(x)[((b * x->dim[1] + c) * p.in[0] + sy) * p.in[1] + sx] *
                       (double)kit_f32(
                           w)[((c * per_out + o % per_out) * p.kernel[0] + ky) * p.kernel[1] + kx];
              }
          kit_f32(out)[k] = kit_act(act, (float)sum, alpha);
        }
  return ACCEL_PLUGIN_OK;
}

/* ---- pool ---- */

/* Window of output o along an axis: [from, to) in the input, and its length with padding. */
static void pool_range(const kit_plane *p, int axis, bool adaptive, int64_t o, int64_t *from,
                       int64_t *to, int64_t *padded) {
  int64_t n = p->in[axis];
  if (adaptive) { /* torch: floor(o n / out) .. ceil((o + 1) n / out) */
    *from = o * n / p->out[axis];
    *to = ((o + 1) * n + p->out[axis] - 1) / p->out[axis];
    *padded = *to - *from;
    return;
  }
  int64_t start = o * p->stride[axis] - p->begin[axis], end = start + p->kernel[axis];
  if (end > n + p->end[axis]) end = n + p->end[axis];
  *padded = end - start;
  *from = start < 0 ? 0 : start;
  *to = end > n ? n : end;
}

int32_t kit_scalar_POOL(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  const int64_t *sizes;
  kit_plane p = kit_plane_of(l, NULL);
  bool adaptive = kit_attr_iv(l->node, ACCEL_PLUGIN_ATTR_ADAPTIVE, &sizes) > 0,
       max = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, 1) == ACCEL_PLUGIN_POOL_MAX;
  bool count_pads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_COUNT_INCLUDE_PAD, 0) != 0;
  (void)error;
  int64_t k = 0;
  for (int64_t c = 0; c < x->dim[0] * x->dim[1]; c++)
    for (int64_t oy = 0; oy < p.out[0]; oy++)
      for (int64_t ox = 0; ox < p.out[1]; ox++, k++) {
        int64_t y0, y1, x0, x1, ny, nx;
        pool_range(&p, 0, adaptive && x->rank == 4, oy, &y0, &y1, &ny);
        pool_range(&p, 1, adaptive, ox, &x0, &x1, &nx);
        double sum = 0;
        float most = -INFINITY;
        for (int64_t y = y0; y < y1; y++)
          for (int64_t i = x0; i < x1; i++) {
            float v = kit_f32(x)[(c * p.in[0] + y) * p.in[1] + i];
            sum += v;
            if (v > most || v != v) most = v;
          }
        int64_t count = count_pads ? ny * nx : (y1 - y0) * (x1 - x0);
        kit_f32(out)[k] = max ? most : count > 0 ? (float)(sum / (double)count) : 0.0f;
      }
  return ACCEL_PLUGIN_OK;
}
