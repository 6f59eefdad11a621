/* kit_scalar_norm.c - norm, group_norm, softmax, reduce, topk. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_scalar.h"

static double mean(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

static double mean_square(const float *x, int64_t n, double around) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += ((double)x[i] - around) * ((double)x[i] - around);
  return sum / (double)n;
}

/* y[n] = norm(s[n]); y may be s. */
static void normalise(int64_t kind, double eps, const float *s, float *y, int64_t n) {
  double middle = kind == ACCEL_PLUGIN_NORM_LAYER ? mean(s, n) : 0.0,
         square = mean_square(s, n, middle), factor;
  if (kind == ACCEL_PLUGIN_NORM_L2)
    factor = 1.0 / fmax(sqrt(square * (double)n), eps);
  else
    factor = 1.0 / sqrt(square + eps);
  for (int64_t i = 0; i < n; i++) y[i] = (float)(((double)s[i] - middle) * factor);
}

int32_t kit_scalar_NORM(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *residual = &l->in[3];
  const float *gamma = kit_f32(&l->in[1]), *beta = kit_f32(&l->in[2]);
  int64_t rows = kit_row_count(x), cols = kit_cols(x),
          groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1),
          size = groups > 0 ? cols / groups : cols;
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_NORM_KIND, ACCEL_PLUGIN_NORM_LAYER);
  double eps =
      kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_EPS, kind == ACCEL_PLUGIN_NORM_L2 ? 1e-12 : 1e-5);
  float offset = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_GAMMA_OFFSET, 0.0);
  (void)error;
  for (int64_t r = 0; r < rows; r++) {
    const float *from = kit_f32(x) + r * x->row_stride,
                *add = kit_has(residual) ? kit_f32(residual) + r * residual->row_stride : NULL;
    float *y = kit_f32(&l->out[0]) + r * cols;
    /* the sum: both results may lie over the operands */
    float *s = kit_has(&l->out[1]) ? kit_f32(&l->out[1]) + r * cols : y;
    for (int64_t i = 0; i < cols; i++) s[i] = add ? from[i] + add[i] : from[i];
    for (int64_t g = 0; g + size <= cols && size; g += size)
      normalise(kind, eps, s + g, y + g, size);
    for (int64_t i = 0; i < cols; i++)
      y[i] = y[i] * (gamma ? gamma[i] + offset : 1.0f) + (beta ? beta[i] : 0.0f);
  }
  return ACCEL_PLUGIN_OK;
}

/* x[B,C,..]: a group is C/groups whole channels, contiguous. */
int32_t kit_scalar_GROUP_NORM(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  const float *gamma = kit_f32(&l->in[1]), *beta = kit_f32(&l->in[2]);
  int64_t channels = x->dim[1], groups = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1),
          inner = kit_split(x, 1).inner;
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  float alpha = kit_act_alpha(l->node, act);
  double eps = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_EPS, 1e-5);
  (void)error;
  int64_t per = channels / groups, size = per * inner;
  for (int64_t b = 0; size && b < x->dim[0] * groups; b++) {
    const float *from = kit_f32(x) + b * size;
    float *y = kit_f32(&l->out[0]) + b * size;
    normalise(ACCEL_PLUGIN_NORM_LAYER, eps, from, y, size);
    for (int64_t i = 0; i < size; i++) {
      int64_t c = b % groups * per + i / inner;
      y[i] = kit_act(act, y[i] * (gamma ? gamma[c] : 1.0f) + (beta ? beta[c] : 0.0f), alpha);
    }
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_SOFTMAX(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  kit_around a = kit_split(x, kit_axis(l->node, -1, x->rank));
  bool logarithm = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_LOG, 0) != 0;
  (void)error;
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t i = 0; i < a.inner; i++) {
      const float *from = kit_f32(x) + o * a.n * a.inner + i;
      float *y = kit_f32(&l->out[0]) + o * a.n * a.inner + i;
      double most = -INFINITY, sum = 0;
      for (int64_t k = 0; k < a.n; k++) most = from[k * a.inner] > most ? from[k * a.inner] : most;
      for (int64_t k = 0; k < a.n; k++) sum += exp((double)from[k * a.inner] - most);
      for (int64_t k = 0; k < a.n; k++) {
        double d = (double)from[k * a.inner] - most;
        y[k * a.inner] = (float)(logarithm ? d - log(sum) : exp(d) / sum);
      }
    }
  return ACCEL_PLUGIN_OK;
}

/* ---- reduce ---- */

typedef struct fold {
  int64_t kind;
  const float *weight; /* of element k, or NULL */
} fold;

static float fold_f32(const fold *f, const float *x, int64_t n, int64_t stride) {
  double sum = 0, weights = 0;
  float best = n ? x[0] : 0.0f;
  for (int64_t k = 0; k < n; k++) {
    float v = x[k * stride];
    double w = f->weight ? f->weight[k] : 1.0;
    sum += w * v;
    weights += w;
    bool better = v != v || (f->kind == ACCEL_PLUGIN_REDUCE_MAX ? v > best : v < best);
    if (best == best && better) best = v;
  }
  switch (f->kind) {
    case ACCEL_PLUGIN_REDUCE_SUM:
      return (float)sum;
    case ACCEL_PLUGIN_REDUCE_MEAN:
      return (float)(sum / fmax(weights, 1e-9));
    case ACCEL_PLUGIN_REDUCE_FIRST:
      return n ? x[0] : 0.0f;
    case ACCEL_PLUGIN_REDUCE_LAST:
      return n ? x[(n - 1) * stride] : 0.0f;
  }
  return best;
}

static int32_t fold_i32(const fold *f, const int32_t *x, int64_t n, int64_t stride) {
  int64_t sum = 0;
  int32_t best = n ? x[0] : 0;
  for (int64_t k = 0; k < n; k++) {
    int32_t v = x[k * stride];
    sum += v;
    if (f->kind == ACCEL_PLUGIN_REDUCE_MAX ? v > best : v < best) best = v;
  }
  switch (f->kind) {
    case ACCEL_PLUGIN_REDUCE_SUM:
      return (int32_t)(uint32_t)sum;
    case ACCEL_PLUGIN_REDUCE_MEAN:
      return n ? (int32_t)(sum / n) : 0;
    case ACCEL_PLUGIN_REDUCE_FIRST:
      return n ? x[0] : 0;
    case ACCEL_PLUGIN_REDUCE_LAST:
      return n ? x[(n - 1) * stride] : 0;
  }
  return best;
}

/* First maximum; a NaN counts as the largest. */
static int32_t argmax(const kit_tensor *t, int64_t first, int64_t n, int64_t stride) {
  int32_t best = 0;
  for (int64_t k = 1; k < n; k++) {
    if (t->dtype == ACCEL_PLUGIN_I32) {
      if (kit_i32(t)[first + k * stride] > kit_i32(t)[first + best * stride]) best = (int32_t)k;
    } else {
      float v = kit_f32(t)[first + k * stride], b = kit_f32(t)[first + best * stride];
      if (b == b && (v > b || v != v)) best = (int32_t)k;
    }
  }
  return best;
}

static void reduce_run(const kit_launch *l, const fold *f, int64_t from, int64_t n, int64_t stride,
                       int64_t to) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (f->kind == ACCEL_PLUGIN_REDUCE_ARGMAX)
    kit_i32(out)[to] = argmax(x, from, n, stride);
  else if (x->dtype == ACCEL_PLUGIN_I32)
    kit_i32(out)[to] = fold_i32(f, kit_i32(x) + from, n, stride);
  else
    kit_f32(out)[to] = fold_f32(f, kit_f32(x) + from, n, stride);
}

int32_t kit_scalar_REDUCE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0];
  fold f = {.kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, ACCEL_PLUGIN_REDUCE_SUM)};
  const float *weight = kit_has(&l->in[1]) ? kit_f32(&l->in[1]) : NULL;
  (void)error;
  if (kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SPACE, -1) >= 0) { /* x[T,..] -> [B,..] */
    kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], NULL);
    int64_t cols = x->dim[0] ? x->elements / x->dim[0] : kit_split(x, 0).inner;
    for (int32_t b = 0; b < rows.items; b++) {
      f.weight = weight ? weight + rows.start[b] : NULL;
      for (int64_t i = 0; i < cols; i++)
        reduce_run(l, &f, rows.start[b] * cols + i, rows.start[b + 1] - rows.start[b], cols,
                   b * cols + i);
    }
    return ACCEL_PLUGIN_OK;
  }
  kit_around a = kit_split(x, kit_axis(l->node, -1, x->rank));
  f.weight = weight;
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t i = 0; i < a.inner; i++)
      reduce_run(l, &f, o * a.n * a.inner + i, a.n, a.inner, o * a.inner + i);
  return ACCEL_PLUGIN_OK;
}

/* ---- topk ---- */

/* Value of element k as a number that sorts: NaN above all. */
static double rank_value(const kit_tensor *t, int64_t i) {
  if (t->dtype == ACCEL_PLUGIN_I32) return kit_i32(t)[i];
  float v = kit_f32(t)[i];
  return v == v ? v : INFINITY;
}

/* The k largest by selection: taken[] marks those already chosen.  Ties go to the lower index. */
int32_t kit_scalar_TOPK(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *values = &l->out[0], *indices = &l->out[1];
  int64_t n = kit_cols(x), k = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_K, 1), rows = kit_row_count(x);
  bool sorted = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SORTED, 1) != 0;
  if (k < 1 || k > n)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "k %lld of %lld elements",
                           (long long)k, (long long)n);
  int64_t *chosen = malloc((size_t)k * sizeof *chosen);
  uint8_t *taken = malloc((size_t)n);
  int32_t rc = chosen && taken ? ACCEL_PLUGIN_OK : kit_no_memory(error, (uint64_t)n);
  for (int64_t r = 0; !rc && r < rows; r++) {
    memset(taken, 0, (size_t)n);
    for (int64_t j = 0; j < k; j++) {
      int64_t best = -1;
      for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || rank_value(x, r * n + i) > rank_value(x, r * n + best)))
          best = i;
      taken[best] = 1;
      chosen[j] = best;
    }
    for (int64_t i = 0, j = 0; !sorted && i < n; i++)
      if (taken[i]) chosen[j++] = i;
    for (int64_t j = 0; j < k; j++) {
      if (kit_has(values))
        memcpy((char *)values->data + (r * k + j) * 4,
               (const char *)x->data + (r * n + chosen[j]) * 4, 4);
      if (kit_has(indices)) kit_i32(indices)[r * k + j] = (int32_t)chosen[j];
    }
  }
  free(chosen);
  free(taken);
  return rc;
}
