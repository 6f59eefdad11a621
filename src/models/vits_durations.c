/* vits_durations.c - how long the tokens of a text last (VITS): the deterministic predictor, or flows
 * that turn drawn numbers into durations, run backwards (section 2.2.2 and appendix A of the paper;
 * splines after Durkan et al. 2019, arXiv 1906.04032). */
#include <math.h>
#include <stdio.h>

#include "models/vits.h"

static const double LEAST = 1e-3; /* width, height and slope of a piece of a spline */

/* Convolutions over each channel, then across channels, each behind the last with a dilation that
 * grows; `condition` [B,C,S] is added first, -1: none. */
static accel__tensor separable(accel__build *b, const accel__vits *m, accel__tensor x,
                               accel__tensor condition, accel__tensor mask, const char *name) {
  static const accel__activation gelu = {.act = ACCEL_PLUGIN_ACT_GELU};
  const accel__conv1 point = {.out = m->hidden, .kernel = 1, .bias = true};
  accel__conv1 deep = {
      .out = m->hidden, .kernel = m->duration_kernel, .groups = m->hidden, .bias = true};
  deep.dilation = 1;
  if (condition >= 0) x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, condition);
  for (int64_t i = 0; i < m->separable_layers; i++, deep.dilation *= m->duration_kernel) {
    char norm[96];
    deep.before = deep.after = (m->duration_kernel - 1) * deep.dilation / 2;
    accel__tensor y = accel__conv1d(b, accel__vits_masked(b, x, mask), &deep,
                                    "%s.convs_dilated.%lld", name, (long long)i);
    snprintf(norm, sizeof norm, "%s.norms_1.%lld", name, (long long)i);
    y = accel__activate(b, accel__vits_norm(b, y, ACCEL__TORCH_NORM_EPS, norm), &gelu);
    y = accel__conv1d(b, y, &point, "%s.convs_pointwise.%lld", name, (long long)i);
    snprintf(norm, sizeof norm, "%s.norms_2.%lld", name, (long long)i);
    y = accel__activate(b, accel__vits_norm(b, y, ACCEL__TORCH_NORM_EPS, norm), &gelu);
    x = accel__binary(b->p, ACCEL_PLUGIN_BINARY_ADD, x, y);
  }
  return accel__vits_masked(b, x, mask);
}

/* ---- splines ---- */

/* The pieces of a spline along one axis, [R,n] each: where they begin, and how long they are. */
typedef struct pieces {
  accel__tensor begin, end, size;
} pieces;

/* 1 where x >= 0, else 0. */
static accel__tensor not_below(accel__build *b, accel__tensor x) {
  return accel__clamp(b, accel__affine(b, x, 1e30, 1.0), 0.0, 1.0);
}

static accel__tensor binary(accel__build *b, accel_plugin_binary kind, accel__tensor x,
                            accel__tensor y) {
  return accel__binary(b->p, kind, x, y);
}

/* A column of one number beside x [R,..]. */
static accel__tensor column(accel__build *b, accel__tensor x, double value) {
  return accel__affine(b, accel__slice(b->p, x, 1, 0, 1), 0.0, value);
}

/* Softmaxed sizes, none below LEAST, that fill -tail .. tail. */
static pieces pieces_of(accel__build *b, const accel__vits *m, accel__tensor x) {
  accel__attr axis = ACCEL_I(AXIS, 1);
  const double n = (double)m->bins;
  x = accel__affine(b, x, 1.0 / sqrt((double)m->hidden), 0.0);
  x = accel__node(b->p, ACCEL_PLUGIN_OP_SOFTMAX, &x, 1, &axis, 1, NULL, 1);
  x = accel__cumsum(b, accel__affine(b, x, 1.0 - LEAST * n, LEAST));
  accel__tensor inner = accel__affine(b, accel__slice(b->p, x, 1, 0, m->bins - 1), 2.0 * m->tail,
                                      -m->tail),
                low = column(b, x, -m->tail), high = column(b, x, m->tail);
  pieces p = {.begin = accel__concat(b, 1, 2, (accel__tensor[]){low, inner}),
              .end = accel__concat(b, 1, 2, (accel__tensor[]){inner, high})};
  p.size = binary(b, ACCEL_PLUGIN_BINARY_SUB, p.end, p.begin);
  return p;
}

/* The column of x [R,n] that `which` [R,n] has a 1 in: [R,1]. */
static accel__tensor pick(accel__build *b, accel__tensor which, accel__tensor x) {
  accel__attr sum[] = {ACCEL_I(KIND, ACCEL_PLUGIN_REDUCE_SUM), ACCEL_I(AXIS, 1), ACCEL_I(KEEP, 1)};
  x = binary(b, ACCEL_PLUGIN_BINARY_MUL, which, x);
  return accel__node(b->p, ACCEL_PLUGIN_OP_REDUCE, &x, 1, sum, 3, NULL, 1);
}

/* Where in its piece the spline takes the value that lies `above` its begin: the root of a
 * quadratic. */
static accel__tensor root(accel__build *b, accel__tensor above, accel__tensor height,
                          accel__tensor delta, accel__tensor d0, accel__tensor d1) {
  accel__tensor bend = binary(b, ACCEL_PLUGIN_BINARY_ADD, d0, d1);
  bend = binary(b, ACCEL_PLUGIN_BINARY_SUB, bend, accel__affine(b, delta, 2.0, 0.0));
  bend = binary(b, ACCEL_PLUGIN_BINARY_MUL, above, bend);
  accel__tensor a = binary(b, ACCEL_PLUGIN_BINARY_SUB, delta, d0);
  a = binary(b, ACCEL_PLUGIN_BINARY_MUL, height, a);
  a = binary(b, ACCEL_PLUGIN_BINARY_ADD, a, bend);
  accel__tensor by = binary(b, ACCEL_PLUGIN_BINARY_MUL, height, d0);
  by = binary(b, ACCEL_PLUGIN_BINARY_SUB, by, bend);
  accel__tensor c = accel__affine(b, binary(b, ACCEL_PLUGIN_BINARY_MUL, delta, above), -1.0, 0.0);
  accel__tensor under = binary(b, ACCEL_PLUGIN_BINARY_MUL, by, by);
  under = binary(b, ACCEL_PLUGIN_BINARY_SUB, under,
                 accel__affine(b, binary(b, ACCEL_PLUGIN_BINARY_MUL, a, c), 4.0, 0.0));
  under = accel__unary(b->p, ACCEL_PLUGIN_UNARY_SQRT, accel__clamp(b, under, 0.0, 1e30));
  by = accel__affine(b, binary(b, ACCEL_PLUGIN_BINARY_ADD, by, under), -1.0, 0.0);
  return binary(b, ACCEL_PLUGIN_BINARY_DIV, accel__affine(b, c, 2.0, 0.0), by);
}

/* x [R,1] backwards through the splines of shape [R,3 bins - 1]; what lies outside -tail .. tail
 * stays. */
static accel__tensor unspline(accel__build *b, const accel__vits *m, accel__tensor x,
                              accel__tensor shape) {
  accel__program *p = b->p;
  const int64_t n = m->bins;
  const pieces across = pieces_of(b, m, accel__slice(p, shape, 1, 0, n)),
               up = pieces_of(b, m, accel__slice(p, shape, 1, n, 2 * n));
  accel__tensor slope =
      accel__unary(p, ACCEL_PLUGIN_ACT_SOFTPLUS, accel__slice(p, shape, 1, 2 * n, 3 * n - 1));
  slope = accel__affine(b, slope, 1.0, LEAST);
  accel__tensor one = column(b, shape, 1.0), zero = column(b, shape, 0.0);
  accel__tensor d0 = accel__concat(b, 1, 2, (accel__tensor[]){one, slope}),
                d1 = accel__concat(b, 1, 2, (accel__tensor[]){slope, one});
  accel__tensor in = accel__clamp(b, x, -m->tail, m->tail);
  accel__tensor from = not_below(b, binary(b, ACCEL_PLUGIN_BINARY_SUB, in, up.begin));
  accel__tensor next = accel__slice(p, from, 1, 1, n);
  next = accel__concat(b, 1, 2, (accel__tensor[]){next, zero});
  accel__tensor which = binary(b, ACCEL_PLUGIN_BINARY_SUB, from, next);
  accel__tensor delta = binary(b, ACCEL_PLUGIN_BINARY_DIV, up.size, across.size);
  accel__tensor y = binary(b, ACCEL_PLUGIN_BINARY_SUB, in, pick(b, which, up.begin));
  y = root(b, y, pick(b, which, up.size), pick(b, which, delta), pick(b, which, d0),
           pick(b, which, d1));
  y = binary(b, ACCEL_PLUGIN_BINARY_MUL, y, pick(b, which, across.size));
  y = binary(b, ACCEL_PLUGIN_BINARY_ADD, y, pick(b, which, across.begin));
  accel__tensor inside =
      accel__affine(b, accel__unary(p, ACCEL_PLUGIN_UNARY_ABS, x), -1.0, m->tail);
  accel__attr where = ACCEL_I(KIND, ACCEL_PLUGIN_BINARY_WHERE);
  return accel__node(p, ACCEL_PLUGIN_OP_BINARY, (accel__tensor[]){not_below(b, inside), y, x}, 3,
                     &where, 1, NULL, 1);
}

/* ---- the stochastic predictor ---- */

/* The second of two channels backwards through flow i, whose shape the first one gives. */
static accel__tensor flow(accel__build *b, const accel__vits *m, accel__tensor first,
                          accel__tensor second, accel__tensor x, accel__tensor mask, int64_t i) {
  accel__program *p = b->p;
  char name[64];
  const int64_t columns = 3 * m->bins - 1;
  const accel__conv1 pre = {.out = m->hidden, .kernel = 1, .bias = true},
                     project = {.out = columns, .kernel = 1, .bias = true};
  accel__tensor h =
      accel__conv1d(b, first, &pre, "duration_predictor.flows.%lld.conv_pre", (long long)i);
  snprintf(name, sizeof name, "duration_predictor.flows.%lld.conv_dds", (long long)i);
  h = separable(b, m, h, x, mask, name);
  h = accel__conv1d(b, h, &project, "duration_predictor.flows.%lld.conv_proj", (long long)i);
  h = accel__vits_masked(b, h, mask);
  if (h < 0) return -1;
  accel__dim S = accel__tensor_dim(p, h, 2), one = accel__const_dim(p, 1),
             R = accel__times(b, b->B, S);
  h = accel__reshape(p, accel__transpose(b, h, 3, (int64_t[]){0, 2, 1}), 2,
                     (accel__dim[]){R, accel__const_dim(p, columns)});
  accel__tensor y = unspline(b, m, accel__reshape(p, second, 2, (accel__dim[]){R, one}), h);
  y = accel__reshape(p, y, 3, (accel__dim[]){b->B, one, S});
  return accel__vits_masked(b, y, mask);
}

/* Flow 0 backwards, of the first channel: (x - translate) / e^log_scale. */
static accel__tensor unscale(accel__build *b, accel__tensor x, accel__tensor mask) {
  accel__program *p = b->p;
  const int64_t dims[2] = {2, 1};
  accel__tensor by =
      accel__slice(p, accel__table(b, 2, dims, "duration_predictor.flows.0.log_scale"), 0, 0, 1);
  by = accel__unary(p, ACCEL_PLUGIN_UNARY_EXP, accel__affine(b, by, -1.0, 0.0));
  x = binary(
      b, ACCEL_PLUGIN_BINARY_SUB, x,
      accel__slice(p, accel__table(b, 2, dims, "duration_predictor.flows.0.translate"), 0, 0, 1));
  return accel__vits_masked(b, binary(b, ACCEL_PLUGIN_BINARY_MUL, x, by), mask);
}

static accel__tensor drawn(accel__build *b, const accel__vits *m, accel__tensor x,
                           accel__tensor mask, accel__tensor noise) {
  const accel__conv1 conv = {.out = m->hidden, .kernel = 1, .bias = true};
  x = accel__conv1d(b, x, &conv, "duration_predictor.conv_pre");
  accel__tensor speaker = accel__vits_speaker(b, m, m->hidden, false, "duration_predictor.cond");
  if (speaker >= 0) x = binary(b, ACCEL_PLUGIN_BINARY_ADD, x, speaker);
  x = separable(b, m, x, -1, mask, "duration_predictor.conv_dds");
  x = accel__vits_masked(b, accel__conv1d(b, x, &conv, "duration_predictor.conv_proj"), mask);
  accel__tensor first = accel__slice(b->p, noise, 1, 0, 1),
                second = accel__slice(b->p, noise, 1, 1, 2), turned;
  /* the reference leaves flow 1 out; the channels change places in front of each */
  for (int64_t i = m->duration_flows; i >= 2; i--) {
    turned = flow(b, m, second, first, x, mask, i);
    first = accel__vits_masked(b, second, mask);
    second = turned;
  }
  return unscale(b, second, mask);
}

/* ---- the deterministic one ---- */

accel__tensor accel__vits_durations(accel__build *b, const accel__vits *m, accel__tensor x,
                                    accel__tensor mask, accel__tensor noise) {
  static const accel__activation relu = {.act = ACCEL_PLUGIN_ACT_RELU};
  if (m->stochastic) return drawn(b, m, x, mask, noise);
  const accel__conv1 conv = {.out = m->duration_filters,
                             .kernel = m->duration_kernel,
                             .before = m->duration_kernel / 2,
                             .after = m->duration_kernel / 2,
                             .bias = true,
                             .act = &relu},
                     project = {.out = 1, .kernel = 1, .bias = true};
  accel__tensor speaker = accel__vits_speaker(b, m, m->hidden, false, "duration_predictor.cond");
  if (speaker >= 0) x = binary(b, ACCEL_PLUGIN_BINARY_ADD, x, speaker);
  for (int i = 1; i <= 2; i++) {
    char norm[48];
    x = accel__conv1d(b, accel__vits_masked(b, x, mask), &conv, "duration_predictor.conv_%d", i);
    snprintf(norm, sizeof norm, "duration_predictor.norm_%d", i);
    x = accel__vits_norm(b, x, m->eps, norm);
  }
  x = accel__conv1d(b, accel__vits_masked(b, x, mask), &project, "duration_predictor.proj");
  return accel__vits_masked(b, x, mask);
}
