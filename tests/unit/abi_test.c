/* abi_test.c - pins the plugin interface: a moved field, a changed number or a status that drifted
 * from the plugin's codes fails here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "accel/accel.h"
#include "accel/plugin.h"

/* The table is for 64-bit pointers; other machines are held by their compilers' own rules alone. */
static void offsets_are_pinned(void **state) {
  (void)state;
#if UINTPTR_MAX == UINT64_MAX
#define PIN(type, field, offset, bytes)            \
  assert_int_equal(offsetof(type, field), offset); \
  assert_int_equal(sizeof(((type *)0)->field), bytes);
#define PIN_SIZE(type, bytes) assert_int_equal(sizeof(type), bytes);
#include "abi_offsets.def"
#else
  skip();
#endif
}

/* Every growing struct begins with its size, so that both sides can tell what the other knew. */
static void structs_begin_with_their_size(void **state) {
  (void)state;
  assert_int_equal(offsetof(accel_plugin, size), 0);
  assert_int_equal(offsetof(accel_plugin_host, size), 0);
  assert_int_equal(offsetof(accel_plugin_program, size), 0);
  assert_int_equal(offsetof(accel_plugin_options, size), 0);
  assert_int_equal(offsetof(accel_plugin_run, size), 0);
  assert_int_equal(offsetof(accel_plugin_view, size), 0);
  assert_int_equal(offsetof(accel_plugin_error, size), 0);
  assert_int_equal(offsetof(accel_plugin_device, size), 0);
}

static void numbers_are_pinned(void **state) {
  (void)state;
  /* the directory plugins are installed in */
  assert_int_equal(ACCEL_PLUGIN_ABI_MAJOR, ACCEL_TEST_ABI_MAJOR);
  assert_int_equal(ACCEL_PLUGIN_OP_LINEAR, 1);
  assert_int_equal(ACCEL_PLUGIN_OP_ALLREDUCE, 27);
  assert_int_equal(ACCEL_PLUGIN_OP_LOW_RANK, 28);
  int ops = 0, highest = 0;
#define ACCEL_OP(name, number, operands, outputs, attributes, text) \
  ops++, highest = (number) > highest ? (number) : highest;
#include "accel/ops.def"
  assert_int_equal(ops, ACCEL_PLUGIN_OP_COUNT);
  assert_int_equal(highest, ACCEL_PLUGIN_OP_COUNT);
}

static void statuses_match_the_plugin_codes(void **state) {
  (void)state;
  assert_int_equal(ACCEL_OK, ACCEL_PLUGIN_OK);
  assert_int_equal(ACCEL_ERROR_ARGUMENT, ACCEL_PLUGIN_E_ARGUMENT);
  assert_int_equal(ACCEL_ERROR_UNSUPPORTED, ACCEL_PLUGIN_E_UNSUPPORTED);
  assert_int_equal(ACCEL_ERROR_OUT_OF_MEMORY, ACCEL_PLUGIN_E_HOST_MEMORY);
  assert_int_equal(ACCEL_ERROR_DEVICE_MEMORY, ACCEL_PLUGIN_E_DEVICE_MEMORY);
  assert_int_equal(ACCEL_ERROR_DEVICE_LOST, ACCEL_PLUGIN_E_DEVICE_LOST);
  assert_int_equal(ACCEL_ERROR_LIMIT, ACCEL_PLUGIN_E_LIMIT);
  assert_int_equal(ACCEL_ERROR_NONFINITE, ACCEL_PLUGIN_E_NONFINITE);
  assert_int_equal(ACCEL_ERROR_IO, ACCEL_PLUGIN_E_IO);
  assert_int_equal(ACCEL_ERROR_CANCELLED, ACCEL_PLUGIN_E_CANCELLED);
  assert_int_equal(ACCEL_ERROR_ABI, ACCEL_PLUGIN_E_ABI);
  assert_int_equal(ACCEL_ERROR_DRIVER, ACCEL_PLUGIN_E_DRIVER);
  assert_int_equal(ACCEL_F32, ACCEL_PLUGIN_F32);
  assert_int_equal(ACCEL_I64, ACCEL_PLUGIN_I64);
  assert_int_equal(ACCEL_F64, ACCEL_PLUGIN_F64);
  assert_int_equal(ACCEL_BOOL, ACCEL_PLUGIN_BOOL);
  assert_int_equal(ACCEL_MAX_RANK, ACCEL_PLUGIN_MAX_RANK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(offsets_are_pinned),
      cmocka_unit_test(structs_begin_with_their_size),
      cmocka_unit_test(numbers_are_pinned),
      cmocka_unit_test(statuses_match_the_plugin_codes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
