/* kit_scalar_linear.c - linear, matmul, moe. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_scalar.h"

/* x[K] times row n of w[N,K], or column n of w[K,N] with trans. */
static double product(const float *x, const float *w, int64_t n, int64_t all, int64_t k,
                      bool trans) {
  if (!trans) return kit_dot(x, w + n * k, k);
  double sum = 0;
  for (int64_t i = 0; i < k; i++) sum += (double)x[i] * (double)w[i * all + n];
  return sum;
}

/* act(gate) * up; gpt-oss adds 1 to up. */
static float gated(int32_t act, float alpha, double gate, double up) {
  if (act == ACCEL_PLUGIN_ACT_SWIGLU_OAI) up += 1.0;
  return (float)((double)kit_act(act, (float)gate, alpha) * up);
}

/* Rows of w that hold gate and up of column n: GATE_FIRST, GATE_LAST, INTERLEAVED over N
 * outputs. */
static int64_t gate_row(int64_t glu, int64_t n, int64_t outputs) {
  return glu == ACCEL_PLUGIN_GLU_GATE_FIRST  ? n
         : glu == ACCEL_PLUGIN_GLU_GATE_LAST ? n + outputs
                                             : 2 * n;
}
static int64_t up_row(int64_t glu, int64_t n, int64_t outputs) {
  return glu == ACCEL_PLUGIN_GLU_GATE_FIRST  ? n + outputs
         : glu == ACCEL_PLUGIN_GLU_GATE_LAST ? n
                                             : 2 * n + 1;
}

int32_t kit_scalar_LINEAR(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *w = &l->in[1], *out = &l->out[0];
  const float *bias = kit_f32(&l->in[2]), *residual = kit_f32(&l->in[3]),
              *w_gate = kit_f32(&l->in[4]), *bias_gate = kit_f32(&l->in[5]);
  int64_t glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE),
          rows = kit_row_count(x), k = kit_cols(x), n = kit_cols(out);
  bool trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS, 0) != 0;
  int32_t act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  float alpha = kit_act_alpha(l->node, act);
  int64_t stored = w->dim[trans ? 1 : 0];
  (void)error;
  for (int64_t r = 0; r < rows; r++) { /* y[r,N] */
    const float *xr = kit_f32(x) + r * x->row_stride;
    float *y = kit_f32(out) + r * n;
    for (int64_t i = 0; i < n; i++) {
      float value;
      if (glu == ACCEL_PLUGIN_GLU_NONE) {
        value = kit_act(
            act, (float)(product(xr, kit_f32(w), i, stored, k, trans) + (bias ? bias[i] : 0.0f)),
            alpha);
      } else if (glu == ACCEL_PLUGIN_GLU_SEPARATE) {
        double up = product(xr, kit_f32(w), i, stored, k, trans) + (bias ? bias[i] : 0.0f);
        double gate = product(xr, w_gate, i, stored, k, trans) + (bias_gate ? bias_gate[i] : 0.0f);
        value = gated(act, alpha, gate, up);
      } else {
        int64_t g = gate_row(glu, i, n), u = up_row(glu, i, n);
        double gate = product(xr, kit_f32(w), g, stored, k, trans) + (bias ? bias[g] : 0.0f);
        double up = product(xr, kit_f32(w), u, stored, k, trans) + (bias ? bias[u] : 0.0f);
        value = gated(act, alpha, gate, up);
      }
      y[i] = residual ? value + residual[r * n + i] : value;
    }
  }
  return ACCEL_PLUGIN_OK;
}

int64_t kit_matrix_offset(const kit_tensor *t, const kit_tensor *out, int64_t index) {
  int64_t offset = 0, step = t->dim[t->rank - 2] * t->dim[t->rank - 1];
  for (int i = 3; i <= out->rank; i++) {
    int64_t at = index % out->dim[out->rank - i];
    index /= out->dim[out->rank - i];
    if (i > t->rank) continue;
    if (t->dim[t->rank - i] > 1) offset += at * step;
    step *= t->dim[t->rank - i];
  }
  return offset;
}

const float *kit_matrix_at(const kit_tensor *t, const kit_tensor *out, int64_t index) {
  return kit_f32(t) + kit_matrix_offset(t, out, index);
}

int32_t kit_scalar_MATMUL(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *a = &l->in[0], *b = &l->in[1], *out = &l->out[0];
  int64_t m = out->dim[out->rank - 2], n = kit_cols(out), k = kit_cols(a), size = m * n,
          count = size > 0 ? out->elements / size : 0;
  bool trans = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_TRANS_B, 0) != 0;
  double scale = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0);
  (void)error;
  for (int64_t c = 0; c < count; c++) {
    const float *ma = kit_matrix_at(a, out, c), *mb = kit_matrix_at(b, out, c);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        kit_f32(out)[(c * m + i) * n + j] =
            (float)(scale * product(ma + i * k, mb, j, n, k, !trans));
  }
  return ACCEL_PLUGIN_OK;
}

typedef struct expert {
  const float *w_up, *w_down, *b_up, *b_down;
  int64_t hidden, inner, wide, glu; /* H, I, rows of w_up */
  int32_t act;
  float alpha, limit;
} expert;

/* inner[I] = act(gate) * up, or act(up) without a gate. */
static void expert_inner(const expert *e, const float *x, float *inner) {
  for (int64_t i = 0; i < e->inner; i++) {
    if (e->glu == ACCEL_PLUGIN_GLU_NONE) {
      inner[i] = kit_act(
          e->act,
          (float)(kit_dot(x, e->w_up + i * e->hidden, e->hidden) + (e->b_up ? e->b_up[i] : 0.0f)),
          e->alpha);
      continue;
    }
    int64_t g = gate_row(e->glu, i, e->inner), u = up_row(e->glu, i, e->inner);
    double gate = kit_dot(x, e->w_up + g * e->hidden, e->hidden) + (e->b_up ? e->b_up[g] : 0.0f);
    double up = kit_dot(x, e->w_up + u * e->hidden, e->hidden) + (e->b_up ? e->b_up[u] : 0.0f);
    if (e->limit > 0) {
      gate = fmin(gate, e->limit);
      up = fmax(fmin(up, e->limit), -e->limit);
    }
    inner[i] = gated(e->act, e->alpha, gate, up);
  }
}

int32_t kit_scalar_MOE(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[0], *idx = &l->in[1], *wt = &l->in[2], *up = &l->in[3],
                   *down = &l->in[4];
  expert e = {.hidden = kit_cols(x), .inner = down->dim[2], .wide = up->dim[1]};
  e.glu = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GLU, ACCEL_PLUGIN_GLU_NONE);
  e.act = (int32_t)kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_ACT, ACCEL_PLUGIN_ACT_NONE);
  e.alpha = kit_act_alpha(l->node, e.act);
  e.limit = (float)kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_LIMIT, 0.0);
  int64_t k = kit_cols(idx), rows = x->dim[0];
  float *inner = malloc(((size_t)e.inner + 1) * sizeof *inner);
  double *sum = malloc(((size_t)e.hidden + 1) * sizeof *sum);
  int32_t rc = inner && sum ? ACCEL_PLUGIN_OK : kit_no_memory(error, (uint64_t)e.inner * 4);
  for (int64_t t = 0; !rc && t < rows; t++) {
    const float *xr = kit_f32(x) + t * x->row_stride;
    memset(sum, 0, (size_t)e.hidden * sizeof *sum);
    for (int64_t j = 0; !rc && j < k; j++) {
      int64_t who = kit_i32(idx)[t * k + j];
      if (who < 0 || who >= up->dim[0]) {
        rc = kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT, "expert %lld is outside 0..%lld",
                             (long long)who, (long long)up->dim[0] - 1);
        break;
      }
      e.w_up = kit_f32(up) + who * e.wide * e.hidden;
      e.w_down = kit_f32(down) + who * e.hidden * e.inner;
      e.b_up = kit_has(&l->in[5]) ? kit_f32(&l->in[5]) + who * e.wide : NULL;
      e.b_down = kit_has(&l->in[6]) ? kit_f32(&l->in[6]) + who * e.hidden : NULL;
      expert_inner(&e, xr, inner);
      for (int64_t i = 0; i < e.hidden; i++)
        sum[i] +=
            (double)kit_f32(wt)[t * k + j] *
            (kit_dot(inner, e.w_down + i * e.inner, e.inner) + (e.b_down ? e.b_down[i] : 0.0f));
    }
    for (int64_t i = 0; !rc && i < e.hidden; i++)
      kit_f32(&l->out[0])[t * e.hidden + i] = (float)sum[i];
  }
  free(inner);
  free(sum);
  return rc;
}
