/* kit_scalar_elementwise.c - binary, unary, cast, gather, scatter_rows, allreduce. */
#include <string.h>

#include "kit/kit_scalar.h"

/* Element of `t` that result element `index` reads: dims aligned at the end, dims of 1 repeat. */
static int64_t broadcast_index(const kit_tensor *t, const kit_tensor *out, int64_t index) {
  int64_t at = 0, step = 1;
  for (int i = 1; i <= out->rank; i++) {
    int64_t d = out->dim[out->rank - i], k = index % d;
    index /= d;
    if (i > t->rank) break;
    if (t->dim[t->rank - i] > 1) at += k * step;
    step *= t->dim[t->rank - i];
  }
  return at;
}

static float apply_f32(int64_t kind, float a, float b) {
  switch (kind) {
    case ACCEL_PLUGIN_BINARY_ADD:
      return a + b;
    case ACCEL_PLUGIN_BINARY_SUB:
      return a - b;
    case ACCEL_PLUGIN_BINARY_MUL:
      return a * b;
    case ACCEL_PLUGIN_BINARY_DIV:
      return a / b;
    case ACCEL_PLUGIN_BINARY_MIN:
      return a != a || a < b ? a : b; /* NaN wins, as in torch */
    case ACCEL_PLUGIN_BINARY_MAX:
      return a != a || a > b ? a : b;
  }
  return (float)pow(a, b);
}

/* Wraps like two's complement; division rounds down as torch's // does, and by zero gives 0. */
static int32_t apply_i32(int64_t kind, int32_t a, int32_t b) {
  uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
  switch (kind) {
    case ACCEL_PLUGIN_BINARY_ADD:
      return (int32_t)(ua + ub);
    case ACCEL_PLUGIN_BINARY_SUB:
      return (int32_t)(ua - ub);
    case ACCEL_PLUGIN_BINARY_MUL:
      return (int32_t)(ua * ub);
    case ACCEL_PLUGIN_BINARY_DIV:
      return b == 0 ? 0 : b == -1 ? (int32_t)(0u - ua) : a / b - (a % b != 0 && (a < 0) != (b < 0));
    case ACCEL_PLUGIN_BINARY_MIN:
      return a < b ? a : b;
    case ACCEL_PLUGIN_BINARY_MAX:
      return a > b ? a : b;
  }
  uint32_t power = 1;
  for (int32_t e = b < 0 ? 0 : b; e; e >>= 1, ua *= ua) /* negative exponents give 1 */
    if (e & 1) power *= ua;
  return (int32_t)power;
}

int32_t kit_scalar_BINARY(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *a = &l->in[0], *b = &l->in[1], *c = &l->in[2], *out = &l->out[0];
  int64_t kind = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, 0);
  if (kind < ACCEL_PLUGIN_BINARY_ADD || kind > ACCEL_PLUGIN_BINARY_WHERE)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED, "kind %lld is unknown",
                           (long long)kind);
  for (int64_t i = 0; i < out->elements; i++) {
    int64_t ia = broadcast_index(a, out, i), ib = broadcast_index(b, out, i);
    if (kind == ACCEL_PLUGIN_BINARY_WHERE) {
      bool yes = a->dtype == ACCEL_PLUGIN_I32 ? kit_i32(a)[ia] != 0 : kit_f32(a)[ia] != 0;
      memcpy(kit_i32(out) + i, yes ? kit_i32(b) + ib : kit_i32(c) + broadcast_index(c, out, i), 4);
    } else if (out->dtype == ACCEL_PLUGIN_I32) {
      kit_i32(out)[i] = apply_i32(kind, kit_i32(a)[ia], kit_i32(b)[ib]);
    } else {
      kit_f32(out)[i] = apply_f32(kind, kit_f32(a)[ia], kit_f32(b)[ib]);
    }
  }
  return ACCEL_PLUGIN_OK;
}

static bool unary_known(int64_t kind) {
  switch (kind) {
#define ACCEL_ACT(NAME, number, key, text)   case number:
#define ACCEL_UNARY(NAME, number, key, text) case number:
#include "accel/ops.def"
    return true;
  }
  return false;
}

static int32_t unary_i32(int64_t kind, int32_t x, double alpha, double beta) {
  if (kind == ACCEL_PLUGIN_UNARY_NEG) return (int32_t)(0u - (uint32_t)x);
  if (kind == ACCEL_PLUGIN_UNARY_ABS) return x < 0 ? (int32_t)(0u - (uint32_t)x) : x;
  if (kind == ACCEL_PLUGIN_ACT_RELU) return x < 0 ? 0 : x;
  if (kind == ACCEL_PLUGIN_UNARY_CLAMP)
    return x < alpha ? (int32_t)alpha : x > beta ? (int32_t)beta : x;
  return (int32_t)fmax(fmin(alpha * x + beta, INT32_MAX), INT32_MIN); /* affine */
}

int32_t kit_scalar_UNARY(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  int32_t kind = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_KIND, -1);
  float alpha = kit_unary_alpha(l->node, kind), beta = kit_unary_beta(l->node, kind);
  if (!unary_known(kind))
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED, "kind %d is unknown", kind);
  if (x->dtype == ACCEL_PLUGIN_I32) {
    bool integral = kind == ACCEL_PLUGIN_UNARY_NEG || kind == ACCEL_PLUGIN_UNARY_ABS ||
                    kind == ACCEL_PLUGIN_ACT_RELU || kind == ACCEL_PLUGIN_UNARY_CLAMP ||
                    kind == ACCEL_PLUGIN_UNARY_AFFINE;
    if (!integral)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_UNSUPPORTED, "kind %d does not take int32",
                             kind);
    for (int64_t i = 0; i < x->elements; i++)
      kit_i32(out)[i] = unary_i32(kind, kit_i32(x)[i], alpha, beta);
    return ACCEL_PLUGIN_OK;
  }
  for (int64_t i = 0; i < x->elements; i++)
    kit_f32(out)[i] = kit_unary(kind, kit_f32(x)[i], alpha, beta);
  return ACCEL_PLUGIN_OK;
}

/* Toward zero; out of range saturates, NaN gives 0. */
static int32_t to_i32(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : (int32_t)x;
}

int32_t kit_scalar_CAST(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  (void)error;
  if (x->dtype == out->dtype) {
    memmove(out->data, x->data, (size_t)x->elements * 4);
    return ACCEL_PLUGIN_OK;
  }
  for (int64_t i = 0; i < x->elements; i++) {
    if (out->dtype == ACCEL_PLUGIN_I32)
      kit_i32(out)[i] = to_i32(kit_f32(x)[i]);
    else
      kit_f32(out)[i] = (float)kit_i32(x)[i];
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_GATHER(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *table = &l->in[0], *idx = &l->in[1], *out = &l->out[0];
  kit_around a = kit_split(table, kit_axis(l->node, 0, table->rank));
  float scale = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  for (int64_t o = 0; o < a.outer; o++)
    for (int64_t k = 0; k < idx->elements; k++) {
      int64_t at = kit_i32(idx)[k];
      if (at < 0 || at >= a.n)
        return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                               "index %lld at position %lld is outside 0..%lld", (long long)at,
                               (long long)k, (long long)a.n - 1);
      float *y = kit_f32(out) + (o * idx->elements + k) * a.inner;
      memcpy(y, kit_f32(table) + (o * a.n + at) * a.inner, (size_t)a.inner * 4);
      for (int64_t i = 0; scale != 1.0f && out->dtype == ACCEL_PLUGIN_F32 && i < a.inner; i++)
        y[i] *= scale;
    }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_SCATTER_ROWS(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *dst = &l->in[0], *idx = &l->in[1], *src = &l->in[2], *out = &l->out[0];
  int64_t cols = kit_cols(dst), rows = kit_row_count(dst);
  bool add = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_SCATTER_MODE, 0) == 1;
  if (out->data != dst->data) memcpy(out->data, dst->data, (size_t)dst->elements * 4);
  for (int64_t k = 0; k < idx->elements; k++) {
    int64_t at = kit_i32(idx)[k];
    if (at < 0 || at >= rows)
      return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                             "row %lld at position %lld is outside 0..%lld", (long long)at,
                             (long long)k, (long long)rows - 1);
    for (int64_t i = 0; i < cols; i++) {
      if (out->dtype == ACCEL_PLUGIN_I32)
        kit_i32(out)[at * cols + i] = (int32_t)((uint32_t)kit_i32(src)[k * cols + i] +
                                                (add ? (uint32_t)kit_i32(out)[at * cols + i] : 0u));
      else
        kit_f32(out)[at * cols + i] =
            kit_f32(src)[k * cols + i] + (add ? kit_f32(out)[at * cols + i] : 0.0f);
    }
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_ALLREDUCE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *out = &l->out[0];
  if (out->data != x->data) memcpy(out->data, x->data, (size_t)x->elements * 4);
  if (!l->host || !l->host->allreduce) return ACCEL_PLUGIN_OK; /* world is 1 */
  int32_t rc = l->host->allreduce(l->host->self, out->data, (size_t)out->elements, out->dtype);
  return rc ? kit_launch_fail(l, error, rc, "allreduce failed with code %d", rc) : ACCEL_PLUGIN_OK;
}
