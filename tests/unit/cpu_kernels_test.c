/* cpu_kernels_test.c - every kernel of cpu_kernels.def, on every instruction set of this machine,
 * against plain loops in double.
 *
 * Operands lie between unreadable pages (cpu_guard.h).  Attention: cpu_attention_test.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_guard.h"

/* ---- linear ---- */

static double activation(int act, double x, double alpha) {
  switch (act) {
    case ACCEL_PLUGIN_ACT_RELU:
      return x < 0 ? 0 : x;
    case ACCEL_PLUGIN_ACT_GELU:
      return x * 0.5 * erfc(-x / sqrt(2));
    case ACCEL_PLUGIN_ACT_SILU:
      return x / (1 + exp(-x));
    case ACCEL_PLUGIN_ACT_SWIGLU_OAI:
      return x / (1 + exp(-alpha * x));
  }
  return x;
}

typedef struct linear {
  int64_t m, n, k, ldx;
  float *x, *w, *gate, *bias, *bias_gate, *residual, *packed;
  int act;
  bool glu;
  float limit;
} linear;

static int64_t width(const linear *t) {
  return t->glu ? kernels.panel_cols / 2 : kernels.panel_cols;
}
static int64_t panels(const linear *t) { return (t->n + width(t) - 1) / width(t); }

static void pack(const linear *t, const float *w, int64_t at) {
  for (int64_t c = 0; c < panels(t) * width(t); c += kernels.vector) {
    int64_t have = t->n - c < 0 ? 0 : t->n - c < kernels.vector ? t->n - c : kernels.vector;
    kernels.pack(have ? w + c * t->k : w, t->k, have, t->k,
                 t->packed + c / width(t) * t->k * kernels.panel_cols + c % width(t) + at,
                 kernels.panel_cols);
  }
}

static linear make_linear(int64_t m, int64_t n, int64_t k, int act, bool glu, bool bias,
                          bool residual) {
  linear t = {.m = m, .n = n, .k = k, .ldx = k + (m % 2 ? 3 : 0), .act = act, .glu = glu};
  t.x = filled(m > 0 ? (m - 1) * t.ldx + k : 0); /* the last row has no gap after it */
  t.w = filled(n * k);
  if (glu) t.gate = filled(n * k);
  if (bias) t.bias = filled(n);
  if (bias && glu) t.bias_gate = filled(n);
  if (residual) t.residual = filled(m * n);
  t.packed = guard(panels(&t) * k * kernels.panel_cols);
  pack(&t, t.w, 0);
  if (glu) pack(&t, t.gate, width(&t));
  return t;
}

static cpu_gemm gemm_of(const linear *t, float *y) {
  return (cpu_gemm){.n = t->n,
                    .k = t->k,
                    .x = t->x,
                    .ldx = t->ldx,
                    .w = t->packed,
                    .panel_bytes = t->k * kernels.panel_cols * (int64_t)sizeof(float),
                    .y = y,
                    .ldy = t->n,
                    .bias = t->bias,
                    .bias_gate = t->bias_gate,
                    .residual = t->residual,
                    .ldr = t->n,
                    .act = t->act,
                    .glu = t->glu,
                    .alpha = 1.702f,
                    .limit = t->limit};
}

static double expected(const linear *t, int64_t i, int64_t j) {
  double up = t->bias ? t->bias[j] : 0, gate = t->bias_gate ? t->bias_gate[j] : 0, y;
  for (int64_t k = 0; k < t->k; k++) {
    up += (double)t->x[i * t->ldx + k] * t->w[j * t->k + k];
    if (t->glu) gate += (double)t->x[i * t->ldx + k] * t->gate[j * t->k + k];
  }
  if (t->limit > 0) {
    gate = fmin(gate, t->limit);
    up = fmax(fmin(up, t->limit), -t->limit);
  }
  y = t->glu ? activation(t->act, gate, 1.702f) * (up + (t->act == ACCEL_PLUGIN_ACT_SWIGLU_OAI))
             : activation(t->act, up, 1.702f);
  return y + (t->residual ? t->residual[i * t->n + j] : 0);
}

/* All rows in one call; then single rows and ranges of panels, which must give the same bits. */
static void run_linear(const linear *t, bool in_place) {
  float *y = in_place ? copy_of(t->residual, t->m * t->n) : guard(t->m * t->n),
        *part = guard(t->m * t->n);
  cpu_gemm g = gemm_of(t, y);
  if (in_place) g.residual = y;
  kernels.linear[CPU_LAYOUT_F32].run(&g, 0, t->m, 0, panels(t));
  for (int64_t i = 0; i<t->m; i += t->m> 100 ? 31 : 1)
    for (int64_t j = 0; j<t->n; j += t->n> 300 ? 17 : 1)
      check("linear", y[i * t->n + j], expected(t, i, j),
            4e-6 * (8 + sqrt((double)t->k)) * (t->glu ? 8 : 1));
  g = gemm_of(t, part);
  for (int64_t i = 0; i < t->m; i++)
    for (int64_t p = 0; p < panels(t); p += 3)
      kernels.linear[CPU_LAYOUT_F32].run(&g, i, i + 1, p, p + 3 < panels(t) ? p + 3 : panels(t));
  assert_int_equal(memcmp(y, part, (size_t)(t->m * t->n) * 4), 0);
}

static void test_linear_sizes(void **state) {
  (void)state;
  for (int i = 0; i < 400; i++) {
    int act = (int[]){ACCEL_PLUGIN_ACT_NONE, ACCEL_PLUGIN_ACT_RELU, ACCEL_PLUGIN_ACT_GELU,
                      ACCEL_PLUGIN_ACT_SILU, ACCEL_PLUGIN_ACT_SWIGLU_OAI}[pick(0, 4)];
    bool residual = pick(0, 1);
    linear t = make_linear(pick(1, 70), pick(1, 70), pick(1, 70), act, pick(0, 3) == 0, pick(0, 1),
                           residual);
    if (t.glu && pick(0, 1)) t.limit = 1.5f;
    run_linear(&t, residual && pick(0, 1));
    release();
  }
}

/* Weighted rows that are added to others, several to the same in different calls. */
static void test_linear_added(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    linear t = make_linear(pick(1, 40), pick(1, 70), pick(1, 70), ACCEL_PLUGIN_ACT_NONE, false,
                           true, false);
    const int64_t rows = t.m + 5, half = t.m / 2;
    float *weight = filled(t.m), *before = filled(rows * t.n), *y = copy_of(before, rows * t.n);
    int32_t *to = guard(t.m);
    cpu_gemm g = gemm_of(&t, y);
    g.to = to;
    g.weight = weight;
    for (int64_t r = 0; r < t.m; r++) to[r] = (int32_t)(r < half ? r : t.m + 4 - (r - half));
    if (half) to[t.m - 1] = 0; /* of the first call's */
    kernels.linear[CPU_LAYOUT_F32].run(&g, 0, half, 0, panels(&t));
    kernels.linear[CPU_LAYOUT_F32].run(&g, half, t.m, 0, panels(&t));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < t.n; j++) {
        double sum = before[r * t.n + j];
        for (int64_t from = 0; from < t.m; from++)
          if (to[from] == r) sum += (double)weight[from] * expected(&t, from, j);
        check("added", y[r * t.n + j], sum, 4e-6 * (16 + sqrt((double)t.k)));
      }
    release();
  }
}

static void test_linear_shapes(void **state) {
  (void)state;
  const int shapes[][3] = {{128, 768, 768}, {16, 1536, 384}, {1, 3072, 768},
                           {33, 384, 1536}, {7, 2, 384},     {300, 97, 64}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    linear t = make_linear(shapes[i][0], shapes[i][1], shapes[i][2], ACCEL_PLUGIN_ACT_GELU, false,
                           true, true);
    run_linear(&t, false);
    release();
  }
}

static void test_linear_special(void **state) {
  (void)state;
  linear t = make_linear(9, 40, 13, ACCEL_PLUGIN_ACT_NONE, false, true,
                         false); /* NaN and infinity stay in their rows and columns */
  t.x[2 * t.ldx + 5] = NAN;
  t.w[7 * t.k + 3] = INFINITY;
  t.x[4 * t.ldx] = 1e-42f;
  pack(&t, t.w, 0);
  run_linear(&t, false);
  float *y = guard(9 * 40);
  cpu_gemm g = gemm_of(&t, y);
  kernels.linear[CPU_LAYOUT_F32].run(&g, 0, 9, 0, panels(&t));
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 40; j++) assert_int_equal(isnan(y[i * 40 + j]) != 0, i == 2);
  release();
  /* no columns of x: the bias alone */
  t = make_linear(3, 5, 0, ACCEL_PLUGIN_ACT_NONE, false, true, false);
  run_linear(&t, false);
  kernels.linear[CPU_LAYOUT_F32].run(&g, 0, 0, 0, 1); /* no rows: nothing is touched */
  release();
}

/* ---- rows ---- */

static void run_norm(int64_t rows, int64_t size, int64_t groups, int kind, int options) {
  int64_t cols = size * groups;
  bool residual = options & 1, sum = options & 2, affine = options & 4, over = options & 8;
  float *x = filled(rows * cols), *r = residual ? filled(rows * cols) : NULL,
        *gamma = affine ? filled(cols) : NULL, *beta = affine ? filled(cols) : NULL;
  float *y = over ? copy_of(x, rows * cols) : guard(rows * cols),
        *total = sum ? guard(rows * cols) : NULL;
  cpu_norm g = {.x = over ? y : x,
                .residual = r,
                .gamma = gamma,
                .beta = beta,
                .y = y,
                .sum = total,
                .ldx = cols,
                .ldr = cols,
                .ldy = cols,
                .size = size,
                .groups = groups,
                .kind = kind,
                .eps = 1e-5f,
                .gamma_offset = affine ? 1 : 0};
  kernels.norm(&g, 0, rows);
  for (int64_t at = 0; at < rows * cols; at += size) {
    double mean = 0, square = 0;
    for (int64_t i = at; i < at + size; i++) mean += (float)(x[i] + (r ? r[i] : 0)) / (double)size;
    if (kind != ACCEL_PLUGIN_NORM_LAYER) mean = 0;
    for (int64_t i = at; i < at + size; i++)
      square += pow((float)(x[i] + (r ? r[i] : 0)) - mean, 2);
    double factor = kind == ACCEL_PLUGIN_NORM_L2 ? 1 / fmax(sqrt(square), 1e-5)
                                                 : 1 / sqrt(square / (double)size + 1e-5);
    for (int64_t i = at; i < at + size; i++) {
      double s = (float)(x[i] + (r ? r[i] : 0)), want = (s - mean) * factor;
      if (affine) want = want * (gamma[i % cols] + 1.0) + beta[i % cols];
      check("norm", y[i], want, 2e-5 * (1 + fabs(want)));
      if (sum) check("sum", total[i], s, 0);
    }
  }
  release();
}

static void test_norm(void **state) {
  (void)state;
  for (int i = 0; i < 600; i++)
    run_norm(pick(1, 4), pick(2, 70), pick(1, 3),
             pick(ACCEL_PLUGIN_NORM_LAYER, ACCEL_PLUGIN_NORM_L2), pick(0, 15));
  run_norm(3, 768, 1, ACCEL_PLUGIN_NORM_LAYER, 7);
  run_norm(3, 1, 1, ACCEL_PLUGIN_NORM_RMS, 7);
  float x[3] = {1, NAN, 3}, y[3];
  cpu_norm g = {.x = x,
                .y = y,
                .ldx = 3,
                .ldy = 3,
                .size = 3,
                .groups = 1,
                .kind = ACCEL_PLUGIN_NORM_LAYER,
                .eps = 1e-5f};
  kernels.norm(&g, 0, 1);
  assert_true(isnan(y[0]));
}

static void test_softmax(void **state) {
  (void)state;
  for (int n = 1; n <= 70; n++)
    for (int logarithm = 0; logarithm < 2; logarithm++) {
      float *x = filled(n), *y = guard(n);
      double most = -INFINITY, sum = 0;
      for (int i = 0; i < n; i++) most = fmax(most, x[i] *= 20);
      for (int i = 0; i < n; i++) sum += exp(x[i] - most);
      kernels.softmax(x, y, n, logarithm);
      for (int i = 0; i < n; i++)
        check("softmax", y[i], logarithm ? x[i] - most - log(sum) : exp(x[i] - most) / sum,
              logarithm ? 1e-5 : 1e-6);
      kernels.softmax(x, x, n, logarithm); /* over its operand */
      assert_int_equal(memcmp(x, y, (size_t)n * 4), 0);
      release();
    }
  float x[3] = {0, -INFINITY, -200}, y[3];
  kernels.softmax(x, y, 3, 0);
  assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0);
}

static double binary(int kind, double a, double b) {
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
      return isnan(a) || a < b ? a : b;
  }
  return isnan(a) || a > b ? a : b;
}

static void test_elementwise(void **state) {
  (void)state;
  for (int n = 1; n <= 70; n++) {
    for (int kind = ACCEL_PLUGIN_BINARY_ADD; kind <= ACCEL_PLUGIN_BINARY_MAX; kind++)
      for (int steps = 0; steps < 4; steps++) {
        float *a = filled(steps & 1 ? n : 1), *b = filled(steps & 2 ? n : 1), *y = guard(n);
        if (pick(0, 1)) a[0] = NAN;
        if (pick(0, 3) == 0) b[0] = NAN;
        assert_int_equal(kernels.binary(kind, a, steps & 1, b, (steps & 2) / 2, y, n), 1);
        for (int i = 0; i < n; i++) {
          double want = binary(kind, steps & 1 ? a[i] : *a, steps & 2 ? b[i] : *b);
          check("binary", y[i], want, 1e-6 * fabs(want));
        }
        release();
      }
    float *x = filled(n), *y = filled(n), *z = copy_of(y, n);
    kernels.accumulate(0.3f, x, y, n);
    for (int i = 0; i < n; i++) check("accumulate", y[i], z[i] + 0.3f * (double)x[i], 1e-6);
    for (int kind = ACCEL_PLUGIN_UNARY_EXP; kind <= ACCEL_PLUGIN_UNARY_ABS; kind++) {
      /* the launch takes the scalar one */
      if (!kernels.unary(kind, -0.5f, 0.5f, x, y, n)) continue;
      for (int i = 0; i < n; i++) {
        double v = x[i], want = kind == ACCEL_PLUGIN_UNARY_EXP      ? exp(v)
                                : kind == ACCEL_PLUGIN_UNARY_LOG    ? log(v)
                                : kind == ACCEL_PLUGIN_UNARY_NEG    ? -v
                                : kind == ACCEL_PLUGIN_UNARY_SQRT   ? sqrt(v)
                                : kind == ACCEL_PLUGIN_UNARY_RSQRT  ? 1 / sqrt(v)
                                : kind == ACCEL_PLUGIN_UNARY_ABS    ? fabs(v)
                                : kind == ACCEL_PLUGIN_UNARY_AFFINE ? -0.5 * v + 0.5
                                                                    : fmin(fmax(v, -0.5), 0.5);
        check("unary", y[i], want, 1e-6 * fmax(1, fabs(want)));
      }
    }
    for (int act = ACCEL_PLUGIN_ACT_NONE; act <= ACCEL_PLUGIN_ACT_SWIGLU_OAI; act++)
      kernels.activate(act, 1, x, y, n); /* bounds: cpu_math_test */
    release();
  }
  assert_int_equal(kernels.unary(ACCEL_PLUGIN_UNARY_SIN, 0, 0, NULL, NULL, 0), 0);
  assert_int_equal(
      kernels.binary(ACCEL_PLUGIN_BINARY_POW, (float[]){1}, 0, (float[]){1}, 0, (float[]){0}, 1),
      0);
}

static void run_rope(int64_t rows, int64_t heads, int64_t pairs, int64_t rest, bool interleaved,
                     bool over, bool own) {
  int64_t head = 2 * pairs + rest, cols = heads * head;
  float *x = filled(rows * cols), *y = over ? copy_of(x, rows * cols) : guard(rows * cols),
        *frequency = filled(own ? rows * pairs : pairs), *table = guard(2 * pairs);
  int32_t *position = guard(rows);
  for (int64_t i = 0; i < rows; i++) position[i] = pick(0, 4000);
  cpu_rope g = {.x = over ? y : x,
                .frequency = frequency,
                .step = own ? pairs : 0,
                .y = y,
                .position = position,
                .ldx = cols,
                .ldy = cols,
                .cols = cols,
                .head = head,
                .pairs = pairs,
                .interleaved = interleaved,
                .mscale = 1.25f};
  kernels.rope(&g, 0, rows, table);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      int64_t at = c % head, pair = interleaved ? at / 2 : at % pairs;
      bool second = interleaved ? at % 2 : at >= pairs;
      double want = x[r * cols + c];
      if (at < 2 * pairs) {
        int64_t other = c + (interleaved ? (second ? -1 : 1) : (second ? -pairs : pairs));
        double angle = (float)position[r] * frequency[r * g.step + pair], s = 1.25 * sin(angle),
               k = 1.25 * cos(angle);
        want = want * k + x[r * cols + other] * (second ? s : -s);
      }
      check("rope", y[r * cols + c], want, 2e-6);
    }
  release();
}

static void test_rope(void **state) {
  (void)state;
  for (int i = 0; i < 300; i++)
    run_rope(pick(1, 5), pick(1, 3), pick(1, 40), pick(0, 5), pick(0, 1), pick(0, 1), pick(0, 1));
}

/* ---- the table ---- */

static void test_table(void **state) {
  (void)state;
  cpu_isa list[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  assert_true(n >= 1 && list[n - 1] == CPU_ISA_SCALAR);
  for (int i = 1; i < n; i++) assert_true(list[i] < list[i - 1]);
  char why[160];
  setenv("ACCEL_ISA", cpu_isa_name(kernels.isa), 1);
  assert_int_equal(cpu_isa_choose(why, sizeof why), kernels.isa);
  assert_string_equal(why, "");
  setenv("ACCEL_ISA", "mmx", 1);
  cpu_isa_choose(why, sizeof why);
  assert_non_null(strstr(why, "mmx"));
  unsetenv("ACCEL_ISA");
  /* the newest, or the next where the newest gains nothing (AVX-512 BF16 of Intel's) */
  const cpu_isa usual = cpu_isa_choose(why, sizeof why);
  assert_true(usual == list[0] || (list[0] == CPU_ISA_AVX512BF16 && usual == list[1]));
  assert_true(kernels.linear[CPU_LAYOUT_F32].run && kernels.pack && kernels.attention &&
              kernels.decode && kernels.norm && kernels.softmax && kernels.activate &&
              kernels.unary && kernels.binary && kernels.accumulate && kernels.rope);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),          cmocka_unit_test(test_linear_sizes),
      cmocka_unit_test(test_linear_added),   cmocka_unit_test(test_linear_shapes),
      cmocka_unit_test(test_linear_special), cmocka_unit_test(test_norm),
      cmocka_unit_test(test_softmax),        cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_rope),
  };
  CPU_GUARD_RUN(tests);
}
