/* cpu_ops_test.c - the kernels of folds, elementwise ops, resizing, norms, scans and delta
 * rules (ops.h) on every instruction set of this machine against plain loops in double. */
#include "cpu_ops_operands.h"

/* ---- folds ---- */

static double folded(int kind, const float *x, int64_t n, int64_t stride, const float *weight) {
  double sum = 0, all = 0, best = x[0];
  int64_t at = 0;
  for (int64_t k = 0; k < n; k++) {
    double v = x[k * stride], w = weight ? weight[k] : 1.0;
    sum += w * v;
    all += w;
    bool better = isnan(v) || (kind == ACCEL_PLUGIN_REDUCE_MIN ? v < best : v > best);
    if (!isnan(best) && better) best = v, at = k;
  }
  switch (kind) {
    case ACCEL_PLUGIN_REDUCE_SUM:
      return sum;
    case ACCEL_PLUGIN_REDUCE_MEAN:
      return sum / fmax(all, 1e-9);
    case ACCEL_PLUGIN_REDUCE_ARGMAX:
      return (double)at;
    case ACCEL_PLUGIN_REDUCE_FIRST:
      return x[0];
    case ACCEL_PLUGIN_REDUCE_LAST:
      return x[(n - 1) * stride];
  }
  return best;
}

static double read_result(int kind, const float *y) {
  int32_t whole;
  memcpy(&whole, y, sizeof whole);
  return kind == ACCEL_PLUGIN_REDUCE_ARGMAX ? (double)whole : (double)*y;
}

static void test_folds(void) {
  for (int round = 0; round < 84; round++) {
    int kind = 1 + round % 7;
    int64_t n = round % 5 ? pick(1, 40) : pick(1000, 3000), cols = pick(1, 50),
            stride = cols + pick(0, 2);
    float *x = filled((n - 1) * stride + cols), *y = guard(cols), *row = filled(n), *one = guard(1);
    float *weight = kind <= ACCEL_PLUGIN_REDUCE_MEAN && round % 2 ? filled(n) : NULL;
    for (int64_t i = 0; weight && i < n; i++) weight[i] = fabsf(weight[i]) + 0.1f;
    if (round % 3 == 0)
      x[pick(0, n - 1) * stride] = row[pick(0, n - 1)] = kind > 2 ? NAN : INFINITY;
    if (round % 4 == 0) row[pick(0, n - 1)] = -INFINITY;
    kernels.fold(kind, x, n, stride, weight, y, cols);
    for (int64_t c = 0; c < cols; c++)
      check("fold", (float)read_result(kind, y + c), folded(kind, x + c, n, stride, weight), 1e-4);
    kernels.fold_row(kind, row, n, weight, one);
    check("fold row", (float)read_result(kind, one), folded(kind, row, n, 1, weight), 1e-4);
    release();
  }
}

/* The bits of the same rows one behind the other. */
static void test_gathered(void) {
  for (int round = 0; round < 40; round++) {
    const int64_t n = round % 5 ? pick(1, 60) : pick(100, 200), cols = pick(1, 140),
                  stride = cols + pick(0, 3), rows = pick(1, 30), known = n + pick(0, n + 3);
    float *x = filled((rows - 1) * stride + cols), *weight = filled(n), *y = guard(cols),
          *taken = guard(n * cols), *want = guard(cols);
    int32_t *index = (int32_t *)(void *)guard(known);
    for (int64_t k = 0; k < known; k++) index[k] = (int32_t)pick(0, rows - 1);
    for (int64_t k = 0; k < n; k++)
      memcpy(taken + k * cols, x + index[k] * stride, (size_t)cols * sizeof *x);
    kernels.fold(ACCEL_PLUGIN_REDUCE_SUM, taken, n, cols, weight, want, cols);
    kernels.fold_gathered(x, stride, index, n, known, weight, y, cols);
    assert_memory_equal(y, want, (size_t)cols * sizeof *y);
    release();
  }
}

static void test_softmax(void) {
  for (int round = 0; round < 20; round++) {
    int64_t n = pick(1, 30), cols = pick(1, 40), stride = cols + pick(0, 2);
    float *x = filled((n - 1) * stride + cols), *y = guard((n - 1) * stride + cols);
    kernels.softmax_columns(x, y, n, stride, cols, round % 2);
    for (int64_t c = 0; c < cols; c++) {
      double sum = 0;
      for (int64_t k = 0; k < n; k++) sum += exp(x[k * stride + c]);
      for (int64_t k = 0; k < n; k++) {
        double want = exp(x[k * stride + c]) / sum;
        check("softmax", y[k * stride + c], round % 2 ? log(want) : want, 2e-6);
      }
    }
    release();
  }
}

/* ---- elementwise ---- */

static void test_elementwise(void) {
  const float odd[] = {0.0f,           -0.0f,         NAN,    INFINITY,
                       -INFINITY,      1e9f,          -3e5f,  2147483648.0f,
                       -2147483904.0f, 2147483520.0f, 1e-40f, -0.9f};
  for (int64_t n = 0; n < 40; n++) {
    float *x = filled(n), *a = filled(n), *b = filled(n), *y = guard(n), two = 2.0f, third = 3.0f;
    int32_t *whole = (int32_t *)(void *)guard(n);
    for (int64_t i = 0; i < n; i++) x[i] = i % 3 ? x[i] * 100 : odd[pick(0, 11)];
    for (int cosine = 0; cosine < 2; cosine++) {
      kernels.wave(cosine, x, y, n);
      for (int64_t i = 0; i < n; i++) check("wave", y[i], cosine ? cos(x[i]) : sin(x[i]), 3e-7);
    }
    kernels.to_int(x, whole, n);
    for (int64_t i = 0; i < n; i++) {
      double want = isnan(x[i]) ? 0 : fmax(fmin(trunc(x[i]), 2147483647.0), -2147483648.0);
      assert_true((double)whole[i] == want);
    }
    kernels.to_float(whole, y, n);
    for (int64_t i = 0; i < n; i++) assert_true(y[i] == (float)whole[i]);
    for (int64_t i = 0; i < n; i++) a[i] = fabsf(a[i]) + 0.01f;
    kernels.power(a, 1, b, 1, y, n);
    for (int64_t i = 0; i < n; i++) check("power", y[i], pow(a[i], b[i]), 1e-4);
    kernels.power(x, 1, &two, 0, y, n);
    for (int64_t i = 0; i < n; i++) check("square", y[i], (double)(x[i] * x[i]), 0);
    kernels.power(b, 1, &third, 0, y, n);
    for (int64_t i = 0; i < n; i++) check("cube", y[i], pow(b[i], 3), 1e-6);
    for (int steps = 0; steps < 8; steps++) {
      kernels.choose(1, x, 1, a, steps & 1, b, steps >> 1 & 1, y, n);
      for (int64_t i = 0; i < n; i++)
        assert_true(y[i] == (x[i] != 0 ? a[steps & 1 ? i : 0] : b[steps >> 1 & 1 ? i : 0]));
    }
    release();
  }
}

/* ---- images ---- */

static void test_resize(void) {
  for (int round = 0; round < 30; round++) {
    cpu_resize g;
    for (int i = 0; i < 2; i++) {
      g.in[i] = pick(1, 30);
      g.out[i] = pick(1, 30);
      g.width[i] = pick(1, 5);
      float *weight = filled(g.out[i] * g.width[i]);
      int32_t *index = (int32_t *)(void *)guard(g.out[i] * g.width[i]);
      for (int64_t k = 0; k < g.out[i] * g.width[i]; k++) index[k] = (int32_t)pick(0, g.in[i] - 1);
      g.index[i] = index;
      g.weight[i] = weight;
    }
    g.x = filled(cpu_area(g.in));
    g.y = guard(cpu_area(g.out));
    kernels.resize(&g, guard(cpu_resize_floats(g.in, g.out)));
    for (int64_t i = 0; i < cpu_area(g.out); i++) {
      double sum = 0;
      for (int64_t a = 0; a < g.width[0]; a++)
        for (int64_t b = 0; b < g.width[1]; b++) {
          int64_t r = i / g.out[1] * g.width[0] + a, c = i % g.out[1] * g.width[1] + b;
          sum += (double)g.weight[0][r] * g.weight[1][c] *
                 g.x[g.index[0][r] * g.in[1] + g.index[1][c]];
        }
      check("resize", g.y[i], sum, 1e-5);
    }
    release();
  }
}

static void test_group_norm(void) {
  for (int round = 0; round < 20; round++) {
    cpu_group g = {
        .channels = pick(1, 6), .inner = round % 4 ? pick(1, 40) : pick(2000, 5000), .eps = 1e-5f};
    const int64_t n = g.channels * g.inner;
    float *x = filled(n);
    for (int64_t i = 0; i < n; i++) x[i] += 3.0f; /* a mean far from 0 */
    g.x = x;
    g.y = guard(n);
    g.gamma = round % 2 ? filled(g.channels) : NULL;
    g.beta = round % 3 ? filled(g.channels) : NULL;
    g.act = round % 2 ? ACCEL_PLUGIN_ACT_RELU : ACCEL_PLUGIN_ACT_NONE;
    kernels.group_norm(&g);
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) {
      double y = (x[i] - mean) / sqrt(square + 1e-5) * (g.gamma ? g.gamma[i / g.inner] : 1.0) +
                 (g.beta ? g.beta[i / g.inner] : 0.0);
      check("group norm", g.y[i], round % 2 && y < 0 ? 0 : y, n == 1 ? 1e-3 : 2e-4);
    }
    release();
  }
}

/* ---- scan ---- */

static void test_scan(void) {
  for (int round = 0; round < 30; round++) {
    const int64_t rows = pick(0, 9), n = pick(1, 20), cols = pick(1, kernels.vector);
    const bool rates = round % 2;
    const int64_t heads = rates ? cols : 1;
    cpu_scan g = {.ldx = cols,
                  .ldt = heads,
                  .ldb = n,
                  .ldc = n,
                  .ldz = cols,
                  .ldy = cols,
                  .rows = rows,
                  .n = n,
                  .rates = rates};
    float *a = filled(rates ? cols * n : 1), *current = round % 3 ? filled(cols * n) : NULL,
          *h = filled(cols * n);
    for (int64_t i = 0; i < (rates ? cols * n : 1); i++) a[i] = -fabsf(a[i]) - 0.1f;
    g.x = filled(rows * cols);
    g.dt = filled(rows * heads);
    g.a = a;
    g.b = filled(rows * n);
    g.c = filled(rows * n);
    g.d = round % 5 ? filled(heads) : NULL;
    g.z = round % 4 ? filled(rows * cols) : NULL;
    g.dt_bias = round % 7 ? filled(heads) : NULL;
    g.softplus = round % 3 != 1;
    g.low = -INFINITY;
    g.high = 1.5f;
    g.y = guard(rows * cols);
    g.current = current;
    g.next = guard(cols * n);
    kernels.scan(&g, cols, guard(2 * n * kernels.vector));
    for (int64_t i = 0; i < cols * n; i++) h[i] = current ? current[i] : 0.0f;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) {
        int64_t own = rates ? c : 0;
        double dt = g.dt[r * heads + own] + (g.dt_bias ? g.dt_bias[own] : 0.0),
               x = g.x[r * cols + c];
        if (g.softplus) dt = log1p(exp(dt));
        if (dt > 1.5) dt = 1.5;
        double sum = g.d ? g.d[own] * x : 0.0;
        for (int64_t k = 0; k < n; k++) {
          h[c * n + k] =
              (float)(exp(dt * a[rates ? c * n + k : 0]) * h[c * n + k] + dt * g.b[r * n + k] * x);
          sum += g.c[r * n + k] * h[c * n + k];
        }
        if (g.z) sum *= g.z[r * cols + c] / (1 + exp(-g.z[r * cols + c]));
        check("scan", g.y[r * cols + c], sum, 2e-5 * (1 + fabs(sum)));
      }
    for (int64_t i = 0; i < cols * n; i++)
      check("scan state", g.next[i], h[i], 1e-5 * (1 + fabs((double)h[i])));
    release();
  }
}

/* ---- delta rule ---- */

/* One row of a head in double: s[dk][dv] moves on, y[dv] is the result. */
static void delta_row(const cpu_delta *g, int64_t r, int64_t dv, double *s, double *y) {
  const float *q = g->q + r * g->ldq, *k = g->k + r * g->ldk;
  const double keep = exp((double)g->g[r * g->ldg]);
  double kk = g->eps, qq = g->eps;
  for (int64_t i = 0; i < g->dk; i++) kk += (double)k[i] * k[i], qq += (double)q[i] * q[i];
  const double by_k = g->eps > 0 ? 1 / sqrt(kk) : 1,
               by_q = g->eps > 0 ? g->scale / sqrt(qq) : g->scale;
  for (int64_t c = 0; c < dv; c++) {
    double known = 0;
    for (int64_t i = 0; i < g->dk; i++) known += (s[i * dv + c] *= keep) * k[i] * by_k;
    const double change = g->beta[r * g->ldbeta] * (g->v[r * g->ldv + c] - known);
    y[c] = 0;
    for (int64_t i = 0; i < g->dk; i++)
      y[c] += (s[i * dv + c] += k[i] * by_k * change) * q[i] * by_q;
  }
}

enum { DELTA_K = 70, DELTA_V = 150 };

/* Columns from `first` on, as a task of the launch has them, by `run` within `bound`. */
static void check_delta(cpu_delta_fn *run, double bound, cpu_delta *g, int64_t first, int64_t dv,
                        const float *v, float *y, const float *state, float *next) {
  static double s[DELTA_K * DELTA_V], sum[DELTA_V];
  for (int64_t i = 0; i < g->dk * dv; i++) s[i] = state ? state[i] : 0.0f;
  for (int64_t i = 0; i < g->dk * dv; i++) next[i] = 7.0f;
  g->v = v + first;
  g->y = y + first;
  g->current = state ? state + first : NULL;
  if (g->next) g->next = next + first;
  run(g, dv - first,
      guard(run == kernels.delta ? cpu_delta_floats(g->dk, dv - first, kernels.vector)
                                 : cpu_delta_bf16_floats(g->dk, dv - first, kernels.vector)));
  g->v = v;
  for (int64_t r = 0; r < g->rows; r++) {
    delta_row(g, r, dv, s, sum);
    for (int64_t c = first; c < dv; c++)
      check("delta", y[r * dv + c], sum[c], bound * (1 + fabs(sum[c])));
  }
  for (int64_t i = 0; i < g->dk * dv; i++) { /* the columns before are another task's */
    const bool written = g->next && i % dv >= first;
    check("delta state", next[i], written ? s[i] : 7.0, bound * (1 + fabs(s[i])));
  }
}

static void test_delta_of(cpu_delta_fn *run, double bound, int64_t least, int64_t most) {
  for (int round = 0; round < 40; round++) {
    const int64_t dk = pick(1, DELTA_K), block = CPU_DELTA_VECTORS * kernels.vector,
                  dv = round % 4 ? pick(1, DELTA_V) : block, apart = round % 2,
                  rows = round % 3 ? pick(least, least + 3) : pick(10, most);
    cpu_delta g = {.ldq = dk + apart,
                   .ldk = dk + 2 * apart,
                   .ldv = dv,
                   .ldg = 1 + apart,
                   .ldbeta = 1,
                   .ldy = dv,
                   .rows = rows,
                   .dk = dk,
                   .lds = dv,
                   .eps = round % 7 ? 1e-6f : 0.0f,
                   .scale = 0.3f};
    float *fade = filled(rows * g.ldg), *beta = filled(rows), *k = filled(rows * g.ldk),
          *state = round % 3 == 1 ? NULL : filled(dk * dv), *next = guard(dk * dv);
    for (int64_t i = 0; i < rows * g.ldg; i++) fade[i] = -fabsf(fade[i]);
    for (int64_t i = 0; i < rows; i++) beta[i] = fabsf(beta[i]);
    for (int64_t i = 0; i < rows * g.ldk; i++) k[i] *= g.eps > 0 ? 1.0f : 0.2f;
    g.q = filled(rows * g.ldq);
    g.k = k;
    g.g = fade;
    g.beta = beta;
    g.next = round % 4 == 3 ? NULL : next;
    g.v = filled(rows * dv);
    check_delta(run, bound, &g, dv > 4 && round % 5 == 0 ? dv / 2 : 0, dv, g.v, guard(rows * dv),
                state, next);
    release();
  }
}

static void test_delta(void) {
  test_delta_of(kernels.delta, 1e-5, 0, 50);
  if (kernels.delta_bf16) test_delta_of(kernels.delta_bf16, 2e-2, 1, 200);
}

/* ---- every instruction set ---- */

TEST(folds)
TEST(gathered)
TEST(softmax)
TEST(elementwise)
TEST(resize)
TEST(group_norm)
TEST(scan)
TEST(delta)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_folds),   cmocka_unit_test(all_gathered),
      cmocka_unit_test(all_softmax), cmocka_unit_test(all_elementwise),
      cmocka_unit_test(all_resize),  cmocka_unit_test(all_group_norm),
      cmocka_unit_test(all_scan),    cmocka_unit_test(all_delta),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
