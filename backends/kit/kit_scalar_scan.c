/* kit_scalar_scan.c - selective_scan: the recurrence of Mamba (version 1) and Mamba2 (version 2),
 * one row after the other.
 *
 *   dt = clamp(softplus(dt + dt_bias));  h = exp(dt a) h + dt b x;  y = (c . h + d x) silu(z)
 *
 * Version 1 is version 2 with one column per head and a rate per state element: H = D, P = 1,
 * a[D,N].
 */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_scalar.h"

enum { X, DT, A, B, C, D, Z, DT_BIAS };

typedef struct scan {
  const kit_launch *l;
  int64_t heads, p, n, groups, cols; /* H, P, N, G, H*P */
  bool rates;                        /* a[H,N] instead of a[H] */
  bool softplus;
  double low, high;
} scan;

static double step_of(const scan *s, int64_t row, int64_t head) {
  const kit_tensor *bias = &s->l->in[DT_BIAS];
  double dt = (double)kit_f32(&s->l->in[DT])[row * s->l->in[DT].row_stride + head] +
              (kit_has(bias) ? (double)kit_f32(bias)[head] : 0.0);
  if (s->softplus) dt = kit_unary(ACCEL_PLUGIN_ACT_SOFTPLUS, (float)dt, 0, 0);
  return fmin(fmax(dt, s->low), s->high);
}

/* One row: h[H,P,N] moves on, y[H*P] is written. */
static void scan_row(const scan *s, int64_t row, double *h) {
  const kit_launch *l = s->l;
  const float *x = kit_f32(&l->in[X]) + row * l->in[X].row_stride,
              *b = kit_f32(&l->in[B]) + row * l->in[B].row_stride;
  const float *c = kit_f32(&l->in[C]) + row * l->in[C].row_stride, *a = kit_f32(&l->in[A]);
  const float *d = kit_f32(&l->in[D]),
              *z = kit_has(&l->in[Z]) ? kit_f32(&l->in[Z]) + row * l->in[Z].row_stride : NULL;
  float *y = kit_f32(&l->out[0]) + row * s->cols;
  for (int64_t head = 0; head < s->heads; head++) {
    double dt = step_of(s, row, head);
    int64_t group = head / (s->heads / s->groups) * s->n;
    for (int64_t i = 0; i < s->p; i++) {
      int64_t at = head * s->p + i;
      double xi = x[at], sum = d ? d[head] * xi : 0.0;
      for (int64_t k = 0; k < s->n; k++) {
        double *cell = &h[at * s->n + k];
        *cell = exp(dt * (double)(s->rates ? a[head * s->n + k] : a[head])) * *cell +
                dt * (double)b[group + k] * xi;
        sum += (double)c[group + k] * *cell;
      }
      y[at] = (float)(z ? sum * (double)kit_unary(ACCEL_PLUGIN_ACT_SILU, z[at], 0, 0) : sum);
    }
  }
}

static int32_t scan_item(const scan *s, int32_t item, int32_t from, int32_t to, double *h,
                         accel_plugin_error *error) {
  kit_state_view state = {0};
  int64_t cells = s->cols * s->n;
  if (s->l->node->state >= 0) {
    int32_t rc = kit_state_step(s->l, (uint32_t)item, to - from, (uint64_t)cells, &state, error);
    if (rc) return rc;
  }
  const float *current = state.current;
  float *next = state.next;
  for (int64_t i = 0; i < cells; i++) h[i] = current ? current[i] : 0.0;
  for (int32_t row = from; row < to; row++) scan_row(s, row, h);
  for (int64_t i = 0; next && i < cells; i++) next[i] = (float)h[i];
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_SELECTIVE_SCAN(const kit_launch *l, accel_plugin_error *error) {
  const kit_tensor *x = &l->in[X], *a = &l->in[A], *b = &l->in[B];
  scan s = {.l = l,
            .heads = a->dim[0],
            .cols = kit_cols(x),
            .rates = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_VERSION, 1) == 1};
  s.groups = s.rates ? 1 : kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_GROUPS, 1);
  s.softplus = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_DT_SOFTPLUS, 0) != 0;
  s.low = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MIN, -INFINITY);
  s.high = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_DT_MAX, INFINITY);
  if (s.heads < 1 || s.groups < 1 || s.cols % s.heads || s.heads % s.groups ||
      kit_cols(b) % s.groups)
    return kit_launch_fail(l, error, ACCEL_PLUGIN_E_ARGUMENT,
                           "%lld columns, %lld heads and %lld groups do not fit", (long long)s.cols,
                           (long long)s.heads, (long long)s.groups);
  s.p = s.cols / s.heads;
  s.n = kit_cols(b) / s.groups;
  int32_t whole[2], rc = ACCEL_PLUGIN_OK;
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, x->dim[0], whole);
  double *h = malloc(((size_t)(s.cols * s.n) + 1) * sizeof *h);
  if (!h) return kit_no_memory(error, (uint64_t)(s.cols * s.n) * sizeof *h);
  for (int32_t item = 0; !rc && item < rows.items; item++)
    rc = scan_item(&s, item, rows.start[item], rows.start[item + 1], h, error);
  free(h);
  return rc;
}
