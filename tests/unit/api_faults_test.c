/* api_faults_test.c - opening and running a model with each allocation, each file read and the device refused in turn: an
 * error each time, no leak (run under ASan), and the next call works. */
#include <stdio.h>

#include "core/config.h"
#include "endpoint.h"

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

/* Passages 1, 2, 3 ... of a point until none is left (some failures are no failure of the call: a cache that could not be
 * kept, say). */
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
  unsigned failures = refuse_each("allocation", ACCEL_ERROR_OUT_OF_MEMORY, ACCEL_ERROR_OUT_OF_MEMORY);
  assert_true(failures > 20);
}

static void a_file_may_be_short(void **state) {
  (void)state;
  assert_true(refuse_each("short_file", ACCEL_ERROR_FORMAT, ACCEL_ERROR_FORMAT) > 1);
}

static void the_device_may_be_lost(void **state) {
  (void)state;
  assert_true(refuse_each("device_lost", ACCEL_ERROR_DEVICE_LOST, ACCEL_ERROR_DEVICE_UNAVAILABLE) >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(a_file_may_be_short),
      cmocka_unit_test(the_device_may_be_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
