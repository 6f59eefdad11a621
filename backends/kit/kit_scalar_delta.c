/* kit_scalar_delta.c - gated_delta_rule: the recurrence of Gated DeltaNet, one row after the other.
 *
 *   S = exp(g) S;  S = S + k (beta (v - S^T k))^T;  y = scale S^T q
 *
 * with a state S [Dk, Dv] for each head of v (Yang et al. 2024, arXiv 2412.06464;
 * torch_recurrent_gated_delta_rule of transformers' modeling_qwen3_next.py).
 */
#include <stdlib.h>

#include "kit/kit_scalar.h"

enum { Q, K, V, G, BETA };

int32_t kit_delta_of(const kit_launch *l, kit_delta *out, accel_plugin_error *error) {
  const int64_t k_cols = kit_cols(&l->in[Q]), v_cols = kit_cols(&l->in[V]);
  kit_delta d = {.heads = kit_attr_i(l->node, ACCEL_PLUGIN_ATTR_HEADS, 0),
                 .v_heads = kit_cols(&l->in[G])};
  *out = d;
  if (d.heads < 1 || d.v_heads < 1 || d.v_heads % d.heads || k_cols % d.heads ||
      v_cols % d.v_heads || k_cols < 1)
    return kit_launch_fail(
        l, error, ACCEL_PLUGIN_E_ARGUMENT, "%lld heads of %lld columns and %lld of %lld do not fit",
        (long long)d.heads, (long long)k_cols, (long long)d.v_heads, (long long)v_cols);
  d.k_dim = k_cols / d.heads;
  d.v_dim = v_cols / d.v_heads;
  d.eps = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_EPS, 0.0);
  d.scale = kit_attr_f(l->node, ACCEL_PLUGIN_ATTR_SCALE, 1.0 / sqrt((double)d.k_dim));
  *out = d;
  return ACCEL_PLUGIN_OK;
}

typedef struct delta {
  const kit_launch *l;
  kit_delta of;
  double *q, *k; /* [k_dim] of the row and head at hand */
} delta;

static const float *row_of(const delta *d, int operand, int64_t row) {
  const kit_tensor *t = &d->l->in[operand];
  return kit_f32(t) + row * t->row_stride;
}

/* to[k_dim] = factor * from / sqrt(|from|^2 + eps) */
static void take(const kit_delta *d, const float *from, double factor, double *to) {
  double length = d->eps;
  for (int64_t i = 0; i < d->k_dim; i++) length += (double)from[i] * (double)from[i];
  if (d->eps > 0) factor /= sqrt(length);
  for (int64_t i = 0; i < d->k_dim; i++) to[i] = factor * (double)from[i];
}

/* One row of one head of v: s[k_dim, v_dim] moves on, y[v_dim] is written. */
static void step(const delta *d, int64_t row, int64_t head, double *s, float *y) {
  const kit_delta *of = &d->of;
  const int64_t shared = head / (of->v_heads / of->heads) * of->k_dim, n = of->v_dim;
  const float *v = row_of(d, V, row) + head * n;
  const double keep = exp((double)row_of(d, G, row)[head]),
               beta = (double)row_of(d, BETA, row)[head];
  take(of, row_of(d, Q, row) + shared, of->scale, d->q);
  take(of, row_of(d, K, row) + shared, 1.0, d->k);
  for (int64_t c = 0; c < n; c++) {
    double known = 0.0, sum = 0.0;
    for (int64_t i = 0; i < of->k_dim; i++) known += (s[i * n + c] *= keep) * d->k[i];
    const double change = beta * ((double)v[c] - known);
    for (int64_t i = 0; i < of->k_dim; i++) sum += (s[i * n + c] += d->k[i] * change) * d->q[i];
    y[c] = (float)sum;
  }
}

static int32_t run_item(const delta *d, int32_t item, int32_t from, int32_t to, double *s,
                        accel_plugin_error *error) {
  kit_state_view state = {0};
  const kit_delta *of = &d->of;
  const uint64_t cells = kit_delta_cells(of);
  if (d->l->node->state >= 0) {
    int32_t rc = kit_state_step(d->l, (uint32_t)item, to - from, cells, &state, error);
    if (rc) return rc;
  }
  const float *current = state.current;
  float *next = state.next, *y = kit_f32(&d->l->out[0]);
  for (uint64_t i = 0; i < cells; i++) s[i] = current ? (double)current[i] : 0.0;
  for (int32_t row = from; row < to; row++)
    for (int64_t head = 0; head < of->v_heads; head++)
      step(d, row, head, s + head * of->k_dim * of->v_dim,
           y + (row * of->v_heads + head) * of->v_dim);
  for (uint64_t i = 0; next && i < cells; i++) next[i] = (float)s[i];
  return ACCEL_PLUGIN_OK;
}

int32_t kit_scalar_GATED_DELTA_RULE(const kit_launch *l, accel_plugin_error *error) {
  delta d = {.l = l};
  int32_t whole[2], rc = kit_delta_of(l, &d.of, error);
  if (rc) return rc;
  const size_t cells = (size_t)kit_delta_cells(&d.of), all = cells + 2 * (size_t)d.of.k_dim;
  double *s = malloc(all * sizeof *s);
  if (!s) return kit_no_memory(error, all * sizeof *s);
  d.q = s + cells;
  d.k = d.q + d.of.k_dim;
  kit_rows rows = kit_rows_of(l, ACCEL_PLUGIN_ATTR_SPACE, l->in[Q].dim[0], whole);
  for (int32_t item = 0; !rc && item < rows.items; item++)
    rc = run_item(&d, item, rows.start[item], rows.start[item + 1], s, error);
  free(s);
  return rc;
}
