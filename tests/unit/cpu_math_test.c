/* cpu_math_test.c - error bounds of the CPU plugin's vector functions, on dense samples, for every
 * instruction set of this machine. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static cpu_kernels kernels; /* of the ISA at hand */

enum { SAMPLES = 200003 };

/* Distance in units of the last place of the true value; denormals count in units of the
 * smallest. */
static double ulps(float got, double want) {
  if (got == want || (isnan(got) && isnan(want))) return 0;
  if (isnan(got) || isnan(want)) return INFINITY;
  if (isinf(got))
    return fabs(want) > FLT_MAX * (1 - 1e-7) && (got > 0) == (want > 0) ? 0 : INFINITY;
  int exponent;
  frexp(fabs(want) < FLT_MIN ? FLT_MIN : want, &exponent);
  return fabs(got - want) / ldexp(1.0, exponent - 24);
}

/* Evenly spaced samples of [low, high], and every float near 0, 1 and the ends. */
static void sample(float low, float high, float *x) {
  for (int i = 0; i < SAMPLES; i++) x[i] = (float)(low + (high - low) * (double)i / (SAMPLES - 1));
  float near[] = {0.0f, -0.0f, 1.0f, -1.0f, low, high};
  int at = 1;
  for (int k = 0; k < 6; k++)
    for (float v = near[k], i = 0; i < 40; i++, v = nextafterf(v, INFINITY), at += 7)
      if (v >= low && v <= high) x[at] = v;
}

typedef double (*truth)(double x, double alpha);
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double true_exp(double x, double a) { return (void)a, exp(x); }
static double true_log(double x, double a) { return (void)a, log(x); }
static double true_gelu(double x, double a) { return (void)a, x * 0.5 * erfc(-x / sqrt(2)); }
static double true_gelu_tanh(double x, double a) {
  return (void)a, x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
static double true_quick(double x, double a) { return (void)a, x * sigmoid(1.702 * x); }
static double true_silu(double x, double a) { return (void)a, x * sigmoid(x); }
static double true_tanh(double x, double a) { return (void)a, tanh(x); }
static double true_sigmoid(double x, double a) { return (void)a, sigmoid(x); }
static double true_mish(double x, double a) { return (void)a, x * tanh(log1p(exp(x))); }
static double true_softplus(double x, double a) {
  return (void)a, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double true_elu(double x, double a) { return x < 0 ? a * expm1(x) : x; }
static double true_relu(double x, double a) { return (void)a, x < 0 ? 0 : x; }
static double true_relu2(double x, double a) { return (void)a, x < 0 ? 0 : x * x; }
static double true_leaky(double x, double a) { return x < 0 ? a * x : x; }
static double true_hardswish(double x, double a) {
  return (void)a, x * fmin(fmax(x + 3, 0), 6) / 6;
}
static double true_relu6(double x, double a) { return (void)a, fmin(fmax(x, 0), 6); }
static double true_oai(double x, double a) { return x * sigmoid(a * x); }

/* Within `ulp` units, or within `absolute` times max(1, |x|). */
typedef struct bound {
  const char *name;
  int kind; /* activation, or unary kind from 20 */
  truth f;
  float low, high, alpha;
  double ulp, absolute;
} bound;

static const bound bounds[] = {
    {"exp", ACCEL_PLUGIN_UNARY_EXP, true_exp, -110, 95, 0, 2, 0},
    {"exp near 0", ACCEL_PLUGIN_UNARY_EXP, true_exp, -1, 1, 0, 2, 0},
    {"log", ACCEL_PLUGIN_UNARY_LOG, true_log, 0, 10, 0, 2, 0},
    {"log wide", ACCEL_PLUGIN_UNARY_LOG, true_log, 1e-38f, 3e38f, 0, 2, 0},
    {"gelu", ACCEL_PLUGIN_ACT_GELU, true_gelu, -12, 12, 0, 2, 1e-7},
    {"gelu wide", ACCEL_PLUGIN_ACT_GELU, true_gelu, -1e5f, 1e5f, 0, 2, 1e-7},
    {"gelu_tanh", ACCEL_PLUGIN_ACT_GELU_TANH, true_gelu_tanh, -12, 12, 0, 4, 1e-7},
    {"gelu_quick", ACCEL_PLUGIN_ACT_GELU_QUICK, true_quick, -60, 60, 0, 4, 1e-7},
    {"silu", ACCEL_PLUGIN_ACT_SILU, true_silu, -90, 90, 0, 4, 1e-7},
    {"tanh", ACCEL_PLUGIN_ACT_TANH, true_tanh, -10, 10, 0, 4, 0},
    {"sigmoid", ACCEL_PLUGIN_ACT_SIGMOID, true_sigmoid, -80, 80, 0, 4, 0},
    {"mish", ACCEL_PLUGIN_ACT_MISH, true_mish, -80, 80, 0, 6, 1e-7},
    {"softplus", ACCEL_PLUGIN_ACT_SOFTPLUS, true_softplus, -80, 80, 0, 4, 1e-7},
    {"elu", ACCEL_PLUGIN_ACT_ELU, true_elu, -20, 20, 1.5f, 2, 2e-7},
    {"relu", ACCEL_PLUGIN_ACT_RELU, true_relu, -5, 5, 0, 0, 0},
    {"relu2", ACCEL_PLUGIN_ACT_RELU2, true_relu2, -5, 5, 0, 1, 0},
    {"leaky_relu", ACCEL_PLUGIN_ACT_LEAKY_RELU, true_leaky, -5, 5, 0.25f, 1, 0},
    {"hardswish", ACCEL_PLUGIN_ACT_HARDSWISH, true_hardswish, -5, 5, 0, 3, 2e-7},
    {"relu6", ACCEL_PLUGIN_ACT_RELU6, true_relu6, -5, 10, 0, 0, 0},
    {"swiglu_oai", ACCEL_PLUGIN_ACT_SWIGLU_OAI, true_oai, -30, 30, 1.702f, 4, 1e-7},
};

static void apply(int kind, float alpha, const float *x, float *y, int64_t n) {
  if (kind < 20)
    kernels.activate(kind, alpha, x, y, n);
  else
    assert_int_equal(kernels.unary(kind, alpha, 0, x, y, n), 1);
}

static void test_bounds(void **state) {
  (void)state;
  float *x = malloc(SAMPLES * sizeof *x), *y = malloc(SAMPLES * sizeof *y);
  for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
    const bound *b = &bounds[k];
    sample(b->low, b->high, x);
    apply(b->kind, b->alpha, x, y, SAMPLES);
    double worst = 0;
    float where = 0;
    for (int i = 0; i < SAMPLES; i++) {
      double want = b->f(x[i], b->alpha), error = ulps(y[i], want);
      if (error > b->ulp && fabs(y[i] - want) <= b->absolute * fmax(1, fabs(x[i]))) error = 0;
      if (error > worst) {
        worst = error;
        where = x[i];
      }
    }
    if (worst > b->ulp)
      fail_msg("%s on %s: %g ulp at %.9g, allowed %g", b->name, cpu_isa_name(kernels.isa), worst,
               where, b->ulp);
  }
  free(x);
  free(y);
}

static void test_special_values(void **state) {
  (void)state;
  const float x[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MAX, -FLT_MAX, 1e-42f, -1e-42f};
  float y[9];
  for (int act = ACCEL_PLUGIN_ACT_NONE; act <= ACCEL_PLUGIN_ACT_SWIGLU_OAI; act++) {
    apply(act, 1.0f, x, y, 9);
    assert_true(isnan(y[0]));
    for (int i = 1; i < 9; i++)
      if (isnan(y[i]))
        fail_msg("activation %d on %s: NaN for %g", act, cpu_isa_name(kernels.isa), x[i]);
  }
  apply(ACCEL_PLUGIN_UNARY_EXP, 0, x, y, 9);
  assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1 && y[4] == 1 &&
              y[5] == INFINITY && y[6] == 0 && y[7] == 1);
  apply(ACCEL_PLUGIN_UNARY_LOG, 0, x, y, 9);
  assert_true(isnan(y[0]) && y[1] == INFINITY && isnan(y[2]) && y[3] == -INFINITY &&
              y[4] == -INFINITY && isnan(y[6]) && isnan(y[8]));
  assert_true(fabs(y[7] - log(1e-42f)) < 1e-4);
}

/* rope with one pair turns (1, 0) into (cos, sin). */
static void test_angles(void **state) {
  (void)state;
  enum { N = 40000 };
  float *x = malloc(2 * N * sizeof *x), *y = malloc(2 * N * sizeof *y), table[2];
  int32_t *position = malloc(N * sizeof *position);
  for (int step = 0; step < 3; step++) {
    /* the last leaves the polynomial's range */
    const float frequency = step == 0 ? 1.0f : step == 1 ? 0.0123f : 37.5f;
    for (int i = 0; i < N; i++) {
      position[i] = i - N / 4;
      x[2 * i] = 1;
      x[2 * i + 1] = 0;
    }
    cpu_rope g = {.x = x,
                  .frequency = &frequency,
                  .y = y,
                  .position = position,
                  .ldx = 2,
                  .ldy = 2,
                  .cols = 2,
                  .head = 2,
                  .pairs = 1,
                  .mscale = 1};
    kernels.rope(&g, 0, N, table);
    for (int i = 0; i < N; i++) {
      float angle = (float)position[i] * frequency;
      if (fabs(y[2 * i] - cos(angle)) > 2e-7 || fabs(y[2 * i + 1] - sin(angle)) > 2e-7)
        fail_msg("%s: angle %.9g gives (%.9g, %.9g)", cpu_isa_name(kernels.isa), angle, y[2 * i],
                 y[2 * i + 1]);
    }
  }
  free(x);
  free(y);
  free(position);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_special_values),
                                     cmocka_unit_test(test_angles)};
  cpu_isa list[CPU_ISA_COUNT];
  int failures = 0;
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    cpu_kernels_of(list[i], &kernels);
    failures += cmocka_run_group_tests_name(cpu_isa_name(list[i]), tests, NULL, NULL);
  }
  return failures;
}
