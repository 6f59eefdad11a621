/* dispatch_choose_test.c - which candidate auto takes: by rows, by predictions that are apart, else by
 * the ladder; and metrics by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dispatch/choose.h"

#define ROWS(v, l, h) \
  { ACCEL__FIGURE_ROWS, v, l, h }
#define PREDICTED(v, l, h) \
  { ACCEL__FIGURE_PREDICTION, v, l, h }
#define NOTHING \
  { ACCEL__FIGURE_NONE, 0, 0, 0 }

enum { MOST = 4 };
typedef struct question {
  accel__figure figure[MOST]; /* of candidates on the ladder */
  uint32_t n;
  bool more;
  uint32_t taken;
  accel__choosing how;
} question;

static void make(const question *q, accel__candidate item[MOST]) {
  for (uint32_t i = 0; i < q->n; i++)
    item[i] = (accel__candidate){.on_ladder = true, .figure = q->figure[i]};
}

static void test_choices(void **state) {
  (void)state;
  static const question questions[] = {
      /* nothing is known: the first */
      {{NOTHING, NOTHING}, 2, false, 0, ACCEL__CHOSEN_NO_FIGURES},
      /* rows that are apart */
      {{ROWS(9, 8, 10), ROWS(5, 4, 6), ROWS(7, 6.5, 7.5)}, 3, false, 1, ACCEL__CHOSEN_ROWS},
      {{ROWS(5, 4, 6), ROWS(9, 8, 10)}, 2, false, 0, ACCEL__CHOSEN_ROWS},
      /* rows decide by their values, unless they are 2 % apart or less */
      {{ROWS(9, 5, 10), ROWS(5, 4, 6)}, 2, false, 1, ACCEL__CHOSEN_ROWS},
      {{ROWS(10, 9.9, 10.1), ROWS(9.9, 9.8, 9.9)}, 2, false, 0, ACCEL__CHOSEN_ROWS},
      {{ROWS(10, 9.9, 10.1), ROWS(9.7, 9.6, 9.8)}, 2, false, 1, ACCEL__CHOSEN_ROWS},
      {{ROWS(9.9, 9.8, 9.9), ROWS(10, 9.9, 10.1)}, 2, true, 0, ACCEL__CHOSEN_ROWS},
      /* more is better */
      {{ROWS(9, 8, 10), ROWS(5, 4, 6), ROWS(20, 19, 21)}, 3, true, 2, ACCEL__CHOSEN_ROWS},
      /* who was not measured cannot be beaten */
      {{NOTHING, ROWS(5, 4, 6)}, 2, false, 0, ACCEL__CHOSEN_UNKNOWN},
      /* nor is somebody taken who was not */
      {{ROWS(9, 8, 10), NOTHING}, 2, false, 0, ACCEL__CHOSEN_ALONE},
      {{PREDICTED(9, 8, 10), NOTHING}, 2, false, 0, ACCEL__CHOSEN_ALONE},
      /* predictions that are apart, and that touch */
      {{PREDICTED(9, 7, 11), PREDICTED(3, 2, 4)}, 2, false, 1, ACCEL__CHOSEN_PREDICTION},
      {{PREDICTED(9, 4, 11), PREDICTED(3, 2, 4)}, 2, false, 0, ACCEL__CHOSEN_TOUCHING},
      {{PREDICTED(3, 2, 4), PREDICTED(9, 7, 11)}, 2, false, 0, ACCEL__CHOSEN_PREDICTION},
      {{PREDICTED(3, 2, 7), PREDICTED(9, 7, 11)}, 2, false, 0, ACCEL__CHOSEN_TOUCHING},
      /* a prediction beats rows where it is surely better, and else not */
      {{ROWS(9, 8, 10), ROWS(6, 5, 7), PREDICTED(3, 2, 4)}, 3, false, 2, ACCEL__CHOSEN_PREDICTION},
      {{ROWS(9, 8, 10), ROWS(6, 5, 7), PREDICTED(3, 1, 6)}, 3, false, 1, ACCEL__CHOSEN_ROWS},
      {{PREDICTED(9, 5, 13), ROWS(6, 5, 7)}, 2, false, 0, ACCEL__CHOSEN_TOUCHING},
      {{PREDICTED(9, 8, 13), ROWS(6, 5, 7)}, 2, false, 1, ACCEL__CHOSEN_PREDICTION}};
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    accel__candidate item[MOST];
    accel__choosing how;
    make(&questions[i], item);
    const uint32_t taken = accel__choose(item, questions[i].n, questions[i].more, &how);
    if (taken != questions[i].taken || how != questions[i].how)
      fail_msg("question %zu: %u by %d", i, taken, (int)how);
  }
}

/* What is not on the ladder needs a figure; what is closed is never taken. */
static void test_off_the_ladder(void **state) {
  (void)state;
  accel__candidate item[3] = {{.on_ladder = true, .figure = ROWS(9, 8, 10)},
                              {.figure = ROWS(5, 4, 6)},
                              {.figure = NOTHING}};
  accel__choosing how;
  assert_int_equal(accel__choose(item, 3, false, &how), 1);
  assert_int_equal(how, ACCEL__CHOSEN_ROWS);
  item[1].closed = true;
  assert_int_equal(accel__choose(item, 3, false, &how), 0);
  item[0].closed = true;
  assert_int_equal(accel__choose(item, 3, false, &how), UINT32_MAX);
  assert_int_equal(how, ACCEL__CHOSEN_NONE);
  item[1].closed = false; /* the ladder's did not fit: what holds the bound is left */
  assert_int_equal(accel__choose(item, 3, false, &how), 1);
  assert_int_equal(how, ACCEL__CHOSEN_ROWS);
  assert_int_equal(accel__choose(item, 0, false, &how), UINT32_MAX);
}

static void test_order_of_devices(void **state) {
  (void)state;
  static accel__device a_device, b_device;
  accel__device *a = &a_device, *b = &b_device;
  accel__candidate item[4] = {{.device = a, .on_ladder = true, .figure = ROWS(9, 8, 10)},
                              {.device = a, .on_ladder = true, .figure = ROWS(7, 6, 7)},
                              {.device = b, .on_ladder = true, .figure = ROWS(2, 1, 3)},
                              {.device = b, .on_ladder = true, .figure = ROWS(1, 0.5, 0.9)}};
  accel__candidates all = {.n = 4, .item = item, .of = "", .why = ""};
  /* devices that were named are tried in their order, each at its best precision */
  accel__candidate *c = accel__candidates_next(&all);
  assert_ptr_equal(c, &item[1]);
  accel__candidates_close(&all, c, false, "full");
  assert_ptr_equal(accel__candidates_next(&all), &item[0]);
  accel__candidates_close(&all, &item[0], true, "broken");
  assert_ptr_equal(accel__candidates_next(&all), &item[3]);
  assert_string_equal(item[1].reason, "full");
  /* auto looks at all of them */
  item[0].closed = item[1].closed = false;
  all.any_device = true;
  assert_ptr_equal(accel__candidates_next(&all), &item[3]);
  accel__candidates_close(&all, &item[3], true, "gone");
  assert_ptr_equal(accel__candidates_next(&all), &item[1]);
}

static void test_metrics(void **state) {
  (void)state;
  accel__metric metric = ACCEL__METRIC_ENERGY;
  assert_int_equal(accel__metric_of(NULL, &metric), ACCEL_OK);
  assert_int_equal(metric, ACCEL__METRIC_LATENCY);
  assert_int_equal(accel__metric_of("memory", &metric), ACCEL_OK);
  assert_int_equal(metric, ACCEL__METRIC_MEMORY);
  assert_int_equal(accel__metric_of("latencies", &metric), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__message(), "'latencies'"));
  assert_non_null(strstr(accel__remedy_text(), "'latency'"));
  assert_int_equal(accel__metric_of("speed", &metric), ACCEL_ERROR_ARGUMENT);
  assert_non_null(strstr(accel__remedy_text(), "latency, throughput, memory and energy"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choices), cmocka_unit_test(test_off_the_ladder),
      cmocka_unit_test(test_order_of_devices), cmocka_unit_test(test_metrics)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
