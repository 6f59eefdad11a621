/* bench_stats_test.c - the rank test, the interval of a ratio and the correction for many tests,
 * beside scipy's numbers (tests/goldens/make_rank_goldens.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/bench_stats.h"

enum { MOST = 64 };

static cJSON *goldens(void) {
  static char text[65536];
  FILE *f = fopen(ACCEL_FIXTURES "/bench/rank_tests.json", "rb");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  cJSON *root = cJSON_Parse(text);
  assert_non_null(root);
  return root;
}

static uint32_t read_list(const cJSON *object, const char *name, double values[MOST]) {
  uint32_t n = 0;
  const cJSON *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(object, name)) {
    assert_true(n < MOST);
    values[n++] = item->valuedouble;
  }
  assert_true(n > 0);
  return n;
}

static void near(double found, double expected) {
  if (!(fabs(found - expected) <= 1e-6 * fmax(1e-3, fabs(expected))))
    fail_msg("%.17g instead of %.17g", found, expected);
}

static void rank_tests(void **state) {
  (void)state;
  cJSON *root = goldens();
  const cJSON *one;
  cJSON_ArrayForEach(one, cJSON_GetObjectItem(root, "cases")) {
    double a[MOST], b[MOST], expected[MOST], u;
    bench_ratio ratio;
    const uint32_t n = read_list(one, "a", a), m = read_list(one, "b", b);
    near(bench_u_test(a, n, b, m, &u), cJSON_GetObjectItem(one, "p")->valuedouble);
    near(u, cJSON_GetObjectItem(one, "u")->valuedouble);
    assert_true(bench_ratio_of(a, n, b, m, &ratio));
    assert_int_equal(read_list(one, "ratio", expected), 3);
    near(ratio.ratio, expected[0]);
    near(ratio.low, expected[1]);
    near(ratio.high, expected[2]);
  }
  cJSON_Delete(root);
}

static void many_tests(void **state) {
  (void)state;
  cJSON *root = goldens();
  double p[MOST], expected[MOST];
  const uint32_t n = read_list(root, "p", p);
  assert_int_equal(read_list(root, "adjusted", expected), n);
  assert_true(bench_adjust(p, n));
  for (uint32_t i = 0; i < n; ++i) near(p[i], expected[i]);
  assert_true(bench_adjust(p, 0));
  cJSON_Delete(root);
}

static void edges(void **state) {
  (void)state;
  double u, values[] = {3, 1, 2, 10};
  bench_ratio ratio;
  assert_true(isnan(bench_u_test(values, 0, values, 3, &u)));
  assert_true(isnan(bench_median(values, 0)));
  near(bench_median(values, 3), 2);
  near(bench_median(values, 4), 2.5);
  values[1] = 0;
  assert_false(bench_ratio_of(values, 4, values, 4, &ratio));
  assert_false(bench_ratio_of(values, 0, values, 4, &ratio));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rank_tests), cmocka_unit_test(many_tests),
                                     cmocka_unit_test(edges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
