/* order_test.c - the order of the emulator's streams: a kernel or a copy beside a copy that writes
 * the same bytes is an error unless an event, or a thread that waited, is between them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hip/hip_emulated_order.h"

static emulated_sequence *kernels, *copies;
static emulated_place *copied, *used;
static char why[240];

static int set_up(void **state) {
  (void)state;
  kernels = emulated_sequence_new();
  copies = emulated_sequence_new();
  copied = emulated_place_new();
  used = emulated_place_new();
  return !kernels || !copies || !copied || !used;
}

static int take_down(void **state) {
  (void)state;
  emulated_sequence_free(kernels);
  emulated_sequence_free(copies);
  emulated_place_free(copied);
  emulated_place_free(used);
  return 0;
}

static int touch(emulated_sequence *s, emulated_touch how, uint64_t address, uint64_t bytes) {
  *why = 0;
  emulated_sequence_next(s);
  return emulated_sequence_touch(s, how, address, bytes, "it", why, sizeof why);
}

static void a_kernel_waits_for_the_copy(void **state) {
  (void)state;
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 100), 0);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 900, 100), 0); /* up to its first byte */
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1099, 100), -1);
  assert_non_null(strstr(why, "an event is missing"));
  emulated_sequence_record(copies, copied);
  emulated_sequence_after(kernels, copied);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1099, 100), 0);
}

static void a_copy_waits_for_the_kernel(void **state) {
  (void)state;
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1000, 100), 0);
  assert_int_equal(touch(copies, EMULATED_COPY_FROM, 1000, 100), 0);
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 4), -1);
  emulated_sequence_record(kernels, used);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1000, 100), 0); /* behind the event */
  emulated_sequence_after(copies, used);
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 4), -1);
  emulated_sequence_record(kernels, used);
  emulated_sequence_after(copies, used);
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 4), 0);
}

static void a_thread_that_waits_orders_all(void **state) {
  (void)state;
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 100), 0);
  emulated_sequence_through(copies);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1000, 100), 0);
}

/* A copy that a kernel waited for, which another copy waited for. */
static void order_is_passed_on(void **state) {
  (void)state;
  emulated_sequence *third = emulated_sequence_new();
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 100), 0);
  emulated_sequence_record(copies, copied);
  emulated_sequence_after(kernels, copied);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1000, 100), 0);
  assert_int_equal(touch(third, EMULATED_COPY_TO, 1000, 100), -1);
  emulated_sequence_record(kernels, used);
  emulated_sequence_after(third, used);
  assert_int_equal(touch(third, EMULATED_COPY_TO, 1000, 100), 0);
  emulated_sequence_free(third);
}

/* An event that nobody recorded holds nobody up, as a driver has it. */
static void an_event_before_its_record(void **state) {
  (void)state;
  assert_int_equal(touch(copies, EMULATED_COPY_TO, 1000, 100), 0);
  emulated_sequence_after(kernels, copied);
  emulated_sequence_record(copies, copied);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 1000, 100), -1);
}

/* What a copy reads, the host may write when a thread has waited for it. */
static void the_host_waits_for_the_copy(void **state) {
  (void)state;
  assert_int_equal(touch(copies, EMULATED_COPY_FROM, 1000, 100), 0);
  emulated_sequence_record(copies, copied);
  assert_int_equal(emulated_host_writes(900, 100, why, sizeof why), 0); /* up to its first byte */
  assert_int_equal(emulated_host_writes(1099, 100, why, sizeof why), -1);
  assert_non_null(strstr(why, "nobody has waited for it"));
  assert_false(emulated_place_is_through(copied));
  emulated_place_through(copied);
  assert_true(emulated_place_is_through(copied));
  assert_int_equal(emulated_host_writes(1099, 100, why, sizeof why), 0);
  assert_int_equal(touch(copies, EMULATED_COPY_FROM, 1000, 100), 0); /* behind the event */
  assert_int_equal(emulated_host_writes(1099, 100, why, sizeof why), -1);
  assert_int_equal(touch(kernels, EMULATED_KERNEL, 5000, 100), 0);
  emulated_sequence_through(kernels); /* of another stream */
  assert_int_equal(emulated_host_writes(1000, 1, why, sizeof why), -1);
  emulated_sequence_through(copies);
  assert_int_equal(emulated_host_writes(1000, 1, why, sizeof why), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)
  const struct CMUnitTest tests[] = {
      TEST(a_kernel_waits_for_the_copy),    TEST(a_copy_waits_for_the_kernel),
      TEST(a_thread_that_waits_orders_all), TEST(order_is_passed_on),
      TEST(an_event_before_its_record),     TEST(the_host_waits_for_the_copy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
