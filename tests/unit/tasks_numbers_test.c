/* tasks_numbers_test.c - the arithmetic of the tasks: pooling and Dense on the host, scores,
 * differences and their bounds.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "verify/compare.h"
#include "tasks/pool_rows.h"
#include "processing/scores.h"

static void near(double got, double want) {
  if (fabs(got - want) > 1e-6 * fmax(1, fabs(want))) fail_msg("%.9g instead of %.9g", got, want);
}

/* ---- pooling ---- */

static const float rows[4][2] = {{1, -2}, {3, 5}, {-1, 4}, {2, 0}};

static void expect_pool(accel__pooling mode, uint32_t skip, double a, double b) {
  float out[2];
  accel__pool_rows(mode, rows[0], 4, skip, 2, out);
  near(out[0], a);
  near(out[1], b);
}

static void test_pooling(void **state) {
  (void)state;
  expect_pool(ACCEL__POOL_CLS, 0, 1, -2);
  expect_pool(ACCEL__POOL_MAX, 0, 3, 5);
  expect_pool(ACCEL__POOL_MEAN, 0, 1.25, 1.75);
  expect_pool(ACCEL__POOL_MEAN_SQRT_LEN, 0, 2.5, 3.5);
  expect_pool(ACCEL__POOL_WEIGHTED_MEAN, 0, (1 + 6 - 3 + 8) / 10.0, (-2 + 10 + 12) / 10.0);
  expect_pool(ACCEL__POOL_LAST, 0, 2, 0);
}

/* Rows of a prompt are left out; the weights of the others stay those of their places. */
static void test_pooling_skips(void **state) {
  (void)state;
  expect_pool(ACCEL__POOL_CLS, 2, -1, 4);
  expect_pool(ACCEL__POOL_MAX, 2, 2, 4);
  expect_pool(ACCEL__POOL_MEAN, 2, 0.5, 2);
  expect_pool(ACCEL__POOL_MEAN_SQRT_LEN, 2, 1 / sqrt(2), 4 / sqrt(2));
  expect_pool(ACCEL__POOL_WEIGHTED_MEAN, 2, (-3 + 8) / 7.0, 12 / 7.0);
  expect_pool(ACCEL__POOL_LAST, 3, 2, 0);
}

static void test_normalize(void **state) {
  (void)state;
  float row[] = {3, 0, -4}, zero[] = {0, 0};
  accel__normalize_row(row, 3);
  near(row[0], 0.6);
  near(row[2], -0.8);
  accel__normalize_row(zero, 2);
  near(zero[0], 0);
}

static void test_dense(void **state) {
  (void)state;
  const float weight[] = {1, 2, -1, 0.5f}, bias[] = {0.5f, -3}, x[] = {2, -1};
  const struct {
    int act;
    double a, b; /* of 0.5 and -5.5 */
  } known[] = {{ACCEL_PLUGIN_ACT_NONE, 0.5, -5.5},
               {ACCEL_PLUGIN_ACT_TANH, 0.46211716, -0.99996660},
               {ACCEL_PLUGIN_ACT_RELU, 0.5, 0},
               {ACCEL_PLUGIN_ACT_GELU, 0.34573123, -1.0443e-7},
               {ACCEL_PLUGIN_ACT_SIGMOID, 0.62245933, 0.0040701377},
               {ACCEL_PLUGIN_ACT_SILU, 0.31122967, -0.022385757}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    accel__dense layer = {.in = 2, .out = 2, .activation = known[i].act};
    float y[2];
    accel__dense_row(&layer, weight, bias, x, y);
    near(y[0], known[i].a);
    near(y[1], known[i].b);
  }
  accel__dense plain = {.in = 2, .out = 2, .activation = ACCEL_PLUGIN_ACT_NONE};
  float y[2], normed[2];
  accel__dense_row(&(accel__dense){.in = 2, .out = 2, .norms = true}, weight, bias, x, normed);
  /* (x - 0.5) / sqrt(1.5^2 + 1e-5) is +-1, nearly; times 1 and 2, plus 0.5 and -3 */
  near(normed[0], 1.5 - 0.5 * 1e-5 / 2.25);
  near(normed[1], -5 + 1e-5 / 2.25);
  accel__dense_row(&plain, weight, NULL, x, y);
  near(y[0], 0);
  near(y[1], -2.5);
}

/* ---- scores ---- */

static void test_scores(void **state) {
  (void)state;
  float x[] = {1000, 1001, 999}, flat[] = {-5, -5};
  accel__softmax(x, 3, x);
  near(x[0], 0.24472847);
  near(x[1], 0.66524096);
  near(x[2], 0.09003057);
  accel__softmax(flat, 2, flat);
  near(flat[0], 0.5);
  near(accel__sigmoid(0), 0.5);
  near(accel__sigmoid(-200), 0);
  near(accel__sigmoid(200), 1);
  const float ties[] = {1, 7, 7, 2};
  assert_int_equal(accel__argmax(ties, 4), 1);
  assert_int_equal(accel__argmax(ties, 1), 0);
}

/* ---- differences ---- */

static accel__difference compare(const float *got, const float *want, const uint8_t *mask,
                                 uint64_t n) {
  accel__difference d;
  accel__compare(got, want, mask, n, &d);
  return d;
}

static bool within(const accel__difference *d, const char *precision, double expected_bound) {
  double bound;
  bool yes = accel__within_bounds(d, precision, &bound);
  near(bound, expected_bound);
  return yes;
}

static void test_compare(void **state) {
  (void)state;
  const float want[] = {3, -4, 0, 0}, got[] = {3.25f, -4, 0, 100};
  const uint8_t mask[] = {1, 1, 1, 0};
  accel__difference d = compare(got, want, mask, 4);
  assert_int_equal(d.compared, 3);
  near(d.max_abs, 0.25);
  near(d.max_rel, 0.25 / 3);
  near(d.rms, 5 / sqrt(3));
  near(d.cosine, (9.75 + 16) / (5 * sqrt(3.25 * 3.25 + 16)));
  assert_false(d.nan || d.infinity);
  assert_false(within(&d, "fp32", 2e-4 * 5 / sqrt(3)));
  assert_true(within(&d, "fp16", 0.999));
  assert_true(within(&d, "bf16", 0.999));
  assert_true(within(&d, "int8", 0.99));
  assert_true(within(&d, "fp8", 0.99));
  assert_true(within(&d, "int4", 0.95));
  assert_true(within(&d, "fp4", 0.95));
}

static void test_bounds(void **state) {
  (void)state;
  const float want[] = {1, 1}, close[] = {1.00019f, 1}, far[] = {1.00021f, 1}, turned[] = {1, 0.9f};
  accel__difference d = compare(close, want, NULL, 2);
  assert_true(within(&d, "fp32", 2e-4));
  d = compare(far, want, NULL, 2);
  assert_false(within(&d, "fp32", 2e-4));
  d = compare(turned, want, NULL, 2); /* cosine 0.99862 */
  assert_false(within(&d, "fp16", 0.999));
  assert_true(within(&d, "int8", 0.99));
  const float tiny[] = {1e-9f, 0}, nearly[] = {1.5e-9f, 9e-7f};
  d = compare(nearly, tiny, NULL, 2);
  assert_true(within(&d, "fp32", 1e-6));
}

static void test_special_values(void **state) {
  (void)state;
  const float inf[] = {INFINITY, -INFINITY, 1}, other[] = {INFINITY, INFINITY, 1},
              nan[] = {NAN, 1, 1}, zero[] = {0, 0, 0}, one[] = {0, 0, 1};
  accel__difference d = compare(inf, inf, NULL, 3);
  assert_false(d.nan || d.infinity);
  assert_true(within(&d, "fp32", fmax(2e-4 * d.rms, 1e-6)));
  d = compare(other, inf, NULL, 3);
  assert_true(d.infinity);
  assert_false(within(&d, "fp32", fmax(2e-4 * d.rms, 1e-6)));
  assert_false(within(&d, "int4", 0.95));
  d = compare(nan, nan, NULL, 3); /* any NaN fails, a matching one too */
  assert_true(d.nan);
  assert_false(within(&d, "fp16", 0.999));
  d = compare(zero, zero, NULL, 3);
  near(d.cosine, 1);
  assert_true(within(&d, "fp16", 0.999));
  d = compare(one, zero, NULL, 3);
  near(d.cosine, 0);
  assert_false(within(&d, "int4", 0.95));
  d = compare(one, zero, (const uint8_t[]){0, 0, 0}, 3);
  assert_int_equal(d.compared, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pooling),   cmocka_unit_test(test_pooling_skips),
      cmocka_unit_test(test_normalize), cmocka_unit_test(test_dense),
      cmocka_unit_test(test_scores),    cmocka_unit_test(test_compare),
      cmocka_unit_test(test_bounds),    cmocka_unit_test(test_special_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
