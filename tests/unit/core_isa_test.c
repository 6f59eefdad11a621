/* core_isa_test.c - the instruction set that ACCEL_ISA names, or the newest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/isa.h"

static accel__isa with(const char *word) {
  setenv("ACCEL_ISA", word, 1);
  return accel__isa_choose();
}

static void words_are_the_plugins(void **state) {
  (void)state;
  accel__isa list[ACCEL__ISA_COUNT];
  const int n = accel__isa_list(list);
  assert_in_range(n, 1, ACCEL__ISA_COUNT);
  assert_int_equal(list[n - 1], ACCEL__ISA_SCALAR);
  for (int i = 0; i < n; i++) {
    assert_int_equal(with(accel__isa_name(list[i])), list[i]);
    if (i) assert_true(list[i] < list[i - 1]);
    if (list[i] == ACCEL__ISA_AVX2) assert_int_equal(with("avxvnni"), list[i]);
    if (list[i] == ACCEL__ISA_AVX512) assert_int_equal(with("avx512vnni"), list[i]);
    if (list[i] == ACCEL__ISA_AVX512) assert_int_equal(with("avx512bf16"), list[i]);
  }
  assert_int_equal(with("openblas"), ACCEL__ISA_SCALAR);
  assert_int_equal(with("scalar"), ACCEL__ISA_SCALAR);
  assert_int_equal(with("mmx"), list[0]); /* unknown: as if it were not set */
  assert_int_equal(with(""), list[0]);
  unsetenv("ACCEL_ISA");
  assert_int_equal(accel__isa_choose(), list[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_the_plugins)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
