/* kit_scalar_resize.c - resize.  Every mode is separable: an output index reads a few input indices
 * with weights, along each dim alone.  Source positions are computed in float, as torch does. */
#include <stdlib.h>

#include "kit/kit_scalar.h"

typedef struct mode {
  int64_t kind;
  bool align, smooth; /* align_corners, antialias */
} mode;

/* Keys' cubic with parameter a. */
static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static float scale_of(const mode *m, int64_t in, int64_t out) {
  if (m->align && m->kind != ACCEL_PLUGIN_RESIZE_NEAREST)
    return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0.0f;
  return (float)in / (float)out;
}

static void taps_plain(const mode *m, int64_t in, int64_t o, float scale, int64_t *index,
                       double *weight) {
  if (m->kind == ACCEL_PLUGIN_RESIZE_NEAREST) {
    index[0] = inside((int64_t)floorf((float)o * scale), in);
    weight[0] = 1;
    return;
  }
  float at = m->align ? scale * (float)o : scale * ((float)o + 0.5f) - 0.5f;
  if (m->kind == ACCEL_PLUGIN_RESIZE_LINEAR) {
    if (at < 0) at = 0;
    index[0] = inside((int64_t)at, in);
    index[1] = inside(index[0] + 1, in);
    weight[1] = at - (float)index[0];
    weight[0] = 1 - weight[1];
    return;
  }
  int64_t first = (int64_t)floorf(at);
  for (int i = 0; i < 4; i++) {
    index[i] = inside(first - 1 + i, in);
    weight[i] = cubic((double)at - (double)(first - 1 + i), -0.75);
  }
}

/* torch's antialiased filters (after Pillow): the filter is widened by the scale when shrinking. */
static void taps_smooth(const mode *m, int64_t in, int64_t o, float scale, int64_t *index,
                        double *weight, int64_t width) {
  double reach = m->kind == ACCEL_PLUGIN_RESIZE_LINEAR ? 1 : 2, wide = scale >= 1 ? scale : 1,
         center = (double)scale * ((double)o + 0.5), sum = 0;
  int64_t first = (int64_t)(center - reach * wide + 0.5),
          end = (int64_t)(center + reach * wide + 0.5);
  first = first < 0 ? 0 : first;
  end = end > in ? in : end;
  for (int64_t i = 0; i < width; i++) {
    double x = ((double)(first + i) - center + 0.5) / wide;
    index[i] = inside(first + i, in);
    weight[i] = first + i >= end                        ? 0
                : m->kind == ACCEL_PLUGIN_RESIZE_LINEAR ? fmax(0, 1 - fabs(x))
                                                        : cubic(x, -0.5);
    sum += weight[i];
  }
  for (int64_t i = 0; i < width && sum != 0; i++) weight[i] /= sum;
}

static int32_t taps_new(const mode *m, int64_t in, int64_t out, kit_taps *t,
                        accel_plugin_error *error) {
  float scale = scale_of(m, in, out);
  double reach = m->kind == ACCEL_PLUGIN_RESIZE_LINEAR ? 1 : 2;
  t->width = m->kind == ACCEL_PLUGIN_RESIZE_NEAREST  ? 1
             : m->smooth                             ? (int64_t)ceil(2 * reach * fmax(scale, 1)) + 2
             : m->kind == ACCEL_PLUGIN_RESIZE_LINEAR ? 2
                                                     : 4;
  t->index = calloc((size_t)(out * t->width) + 1, sizeof *t->index);
  t->weight = calloc((size_t)(out * t->width) + 1, sizeof *t->weight);
  if (!t->index || !t->weight) return kit_no_memory(error, (uint64_t)(out * t->width) * 16);
  for (int64_t o = 0; o < out; o++) {
    if (m->smooth && m->kind != ACCEL_PLUGIN_RESIZE_NEAREST)
      taps_smooth(m, in, o, scale, t->index + o * t->width, t->weight + o * t->width, t->width);
    else
      taps_plain(m, in, o, scale, t->index + o * t->width, t->weight + o * t->width);
  }
  return ACCEL_PLUGIN_OK;
}

static double sample(const float *x, int64_t width, const kit_taps *ty, int64_t oy,
                     const kit_taps *tx, int64_t ox) {
  double sum = 0;
  for (int64_t i = 0; i < ty->width; i++) {
    double line = 0;
    const float *row = x + ty->index[oy * ty->width + i] * width;
    for (int64_t j = 0; j < tx->width; j++)
      line += tx->weight[ox * tx->width + j] * (double)row[tx->index[ox * tx->width + j]];
    sum += ty->weight[oy * ty->width + i] * line;
  }
  return sum;
}

int32_t kit_taps_new(const kit_launch *l, kit_taps taps[2], accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  mode m = {.kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_RESIZE_NEAREST),
            .align = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ALIGN_CORNERS, 0) != 0,
            .smooth = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ANTIALIAS, 0) != 0};
  mode flat = {.kind = ACCEL_PLUGIN_RESIZE_NEAREST}; /* the missing dim of [B,C,L] */
  taps[0] = taps[1] = (kit_taps){0};
  bool two = x->rank == 4;
  int32_t rc =
      taps_new(two ? &m : &flat, two ? x->dim[2] : 1, two ? out->dim[2] : 1, &taps[0], error);
  return rc ? rc : taps_new(&m, kit_cols(x), kit_cols(out), &taps[1], error);
}

void kit_taps_free(kit_taps taps[2]) {
  for (int i = 0; i < 2; i++) {
    free(taps[i].index);
    free(taps[i].weight);
  }
}

int32_t kit_scalar_RESIZE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  int64_t h = x->rank == 4 ? x->dim[2] : 1, w = kit_cols(x), oh = x->rank == 4 ? out->dim[2] : 1,
          ow = kit_cols(out), k = 0;
  kit_taps taps[2] = {0};
  if (!out->elements) return ACCEL_PLUGIN_OK;
  if (!x->elements)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "there is nothing to resize");
  int32_t rc = kit_taps_new(l, taps, error);
  for (int64_t c = 0; !rc && c < x->dim[0] * x->dim[1]; c++)
    for (int64_t y = 0; y < oh; y++)
      for (int64_t i = 0; i < ow; i++)
        kit_f32(out)[k++] = (float)sample(kit_f32(x) + c * h * w, w, &taps[0], y, &taps[1], i);
  kit_taps_free(taps);
  return rc;
}
