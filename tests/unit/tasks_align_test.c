/* tasks_align_test.c - times of tokens: the median filter and the way through a matrix, against
 * cases worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "speech/whisper_align.h"

/* ---- the median filter ---- */

static void expect_median(const float *x, int64_t n, int64_t width, const float *want) {
  float work[9], got[8];
  accel__median_filter(x, n, width, work, got);
  for (int64_t i = 0; i < n; i++)
    if (got[i] != want[i])
      fail_msg("place %d: %g instead of %g", (int)i, (double)got[i], (double)want[i]);
}

static void test_median(void **state) {
  (void)state;
  /* ends are mirrored: 1 5 1 and 2 3 2 */
  expect_median((float[]){5, 1, 4, 2, 3}, 5, 3, (float[]){1, 4, 2, 3, 2});
  expect_median((float[]){5, 1, 4, 2, 3}, 5, 1, (float[]){5, 1, 4, 2, 3});
  expect_median((float[]){5, 1, 4, 2, 3, 0}, 6, 5, (float[]){4, 2, 3, 2, 3, 2});
  expect_median((float[]){7, 8}, 2, 5, (float[]){7, 8}); /* too few to be mirrored */
  expect_median((float[]){NAN, 1, 2}, 3, 3, (float[]){1, 2, 1});
}

/* ---- the way ---- */

static void expect_way(const double *cost, int64_t rows, int64_t columns, const int32_t *want) {
  int32_t got[8];
  memset(got, 77, sizeof got);
  assert_int_equal(accel__time_warp(cost, rows, columns, got), ACCEL_OK);
  for (int64_t i = 0; i < rows; i++)
    if (got[i] != want[i]) fail_msg("row %d begins at %d instead of %d", (int)i, got[i], want[i]);
}

static void test_way(void **state) {
  (void)state;
  expect_way((double[]){-2, -2, 1, 1, 1, -2}, 2, 3, (int32_t[]){0, 2});
  expect_way((double[]){-1, 1, 1, 1, /**/ 1, -1, -1, 1, /**/ 1, 1, 1, -1}, 3, 4,
             (int32_t[]){0, 1, 3});
  /* not back for what was passed by */
  expect_way((double[]){-1, -1, -1, -9, /**/ 0, -8, 0, 0}, 2, 4, (int32_t[]){0, 3});
  expect_way((double[]){3, 1, 2}, 1, 3, (int32_t[]){0});
  expect_way((double[]){3, 1, 2}, 3, 1, (int32_t[]){0, 0, 0});
}

static void test_odd_ways(void **state) {
  (void)state;
  /* of equal ways the one along the row */
  expect_way((double[]){0, 0, 0, 0}, 2, 2, (int32_t[]){0, 0});
  expect_way((double[]){-1, -1, 0, 0, 0, -1}, 2, 3, (int32_t[]){0, 1});
  expect_way((double[]){0}, 2, 0, (int32_t[]){-1, -1});
  expect_way((double[]){NAN, NAN, NAN, NAN}, 2, 2, (int32_t[]){-1, -1});
  expect_way((double[]){NAN, NAN}, 1, 2, (int32_t[]){0});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_median), cmocka_unit_test(test_way),
                                     cmocka_unit_test(test_odd_ways)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
