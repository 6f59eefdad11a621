/* api_faults_test.c - opening and running a model with each allocation, each file read and the
 * device refused in turn: an error each time, no leak (run under ASan), and the next call works. */
#include <stdio.h>

#include "core/config.h"
#include "test_endpoint.h"

/* 0: everything went through; else the failure's code. */
static accel_status open_run_close(accel *ctx) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  accel_tensors *out;
  test_input in;
  how.device = "reference";
  accel_status status = accel_init(ctx, TINY_BERT, &how, &ep);
  if (status != ACCEL_OK) return assert_null(ep), status;
  fill_input(&in, 3, 2, 9, 3);
  status = accel_run(ep, &in.list, &out);
  accel_tensors_free(&out);
  accel_cleanup(&ep);
  return status;
}

/* Passages 1, 2, 3 ... of a point until none is left (some failures are no failure of the call: a
 * cache that could not be kept, say). */
static unsigned refuse_each(const char *point, accel_status expected_1, accel_status expected_2) {
  unsigned failures = 0, went_through = 0;
  accel *ctx = test_context();
  assert_ok(open_run_close(ctx)); /* what a context makes once is there */
  for (unsigned n = 1; went_through < 30; n++) {
    char spec[64];
    snprintf(spec, sizeof spec, "%s:%u", point, n);
    accel__fault_arm(spec);
    accel_status status = open_run_close(ctx);
    accel__fault_arm(NULL);
    went_through = status == ACCEL_OK ? went_through + 1 : 0;
    if (status == ACCEL_OK) continue;
    if (status != expected_1 && status != expected_2)
      fail_msg("%s: %s: %s", spec, accel_status_name(status), accel_last_error());
    assert_true(accel_last_error()[0] != 0);
    failures++;
  }
  assert_ok(open_run_close(ctx));
  accel_destroy(&ctx);
  return failures;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  unsigned failures =
      refuse_each("allocation", ACCEL_ERROR_OUT_OF_MEMORY, ACCEL_ERROR_OUT_OF_MEMORY);
  assert_true(failures > 20);
}

static void a_file_may_be_short(void **state) {
  (void)state;
  assert_true(refuse_each("short_file", ACCEL_ERROR_FORMAT, ACCEL_ERROR_FORMAT) > 1);
}

static void a_file_may_be_unreadable(void **state) {
  (void)state;
  /* its header, and where it is not mapped its tensors, one by one */
  assert_true(refuse_each("read_error", ACCEL_ERROR_IO, ACCEL_ERROR_IO) >= 1);
  assert_true(refuse_each("address_space,read_error", ACCEL_ERROR_IO, ACCEL_ERROR_IO) > 20);
  assert_true(refuse_each("address_space,read_short", ACCEL_ERROR_FORMAT, ACCEL_ERROR_FORMAT) > 20);
  assert_true(refuse_each("address_space,file_changed", ACCEL_ERROR_IO, ACCEL_ERROR_IO) > 20);
  assert_true(refuse_each("address_space,allocation", ACCEL_ERROR_OUT_OF_MEMORY,
                          ACCEL_ERROR_OUT_OF_MEMORY) > 20);
}

static void the_device_may_be_lost(void **state) {
  (void)state;
  assert_true(refuse_each("device_lost", ACCEL_ERROR_DEVICE_LOST, ACCEL_ERROR_DEVICE_UNAVAILABLE) >=
              1);
}

/* A result at `precision` that is not finite, on the CPU. */
static accel_status run_not_finite(const char *precision, const char *after, bool told) {
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  accel_tensors *out = NULL;
  test_input in;
  how.device = "cpu";
  how.precision = precision;
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  const uint32_t before = accel_placement(ep)->reasons->n;
  fill_input(&in, 3, 2, 9, 3);
  accel__fault_arm("nonfinite:1");
  accel_status status = accel_run(ep, &in.list, &out);
  accel__fault_arm(NULL);
  accel_tensors_free(&out);
  assert_string_equal(accel_placement(ep)->precision, after);
  assert_int_equal(accel_placement(ep)->reasons->n, before + told);
  assert_ok(accel_run(ep, &in.list, &out)); /* and goes on so */
  accel_tensors_free(&out);
  accel_cleanup(&ep);
  accel_destroy(&ctx);
  return status;
}

static void a_result_may_not_be_finite(void **state) {
  (void)state;
  /* named: an error */
  assert_int_equal(run_not_finite("bf16", "bf16", false), ACCEL_ERROR_NONFINITE);
  assert_int_equal(run_not_finite("fp32", "fp32", false), ACCEL_ERROR_NONFINITE);
  accel *ctx = test_context();
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = "cpu";
  how.precision = "auto";
  assert_ok(accel_init(ctx, TINY_BERT, &how, &ep));
  /* on processors with bf16 */
  const bool half = strcmp(accel_placement(ep)->precision, "fp32") != 0;
  accel_cleanup(&ep);
  accel_destroy(&ctx);
  assert_int_equal(run_not_finite("auto", "fp32", half), half ? ACCEL_OK : ACCEL_ERROR_NONFINITE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),  cmocka_unit_test(a_file_may_be_short),
      cmocka_unit_test(a_file_may_be_unreadable),   cmocka_unit_test(the_device_may_be_lost),
      cmocka_unit_test(a_result_may_not_be_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
