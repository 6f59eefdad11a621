/* force_isa.h - a test once for each instruction set that the machine runs, forced by ACCEL_ISA. */
#ifndef ACCEL_TEST_FORCE_ISA_H
#define ACCEL_TEST_FORCE_ISA_H

#include <stdlib.h>

#include "core/isa.h"

/* Newest first; scalar is the last.  Fails when an instruction set cannot be forced by name. */
static inline void for_each_isa(void (*test)(accel__isa isa)) {
  accel__isa list[ACCEL__ISA_COUNT];
  const int n = accel__isa_list(list);
  const char *given = getenv("ACCEL_ISA");
  char *before = given ? strdup(given) : NULL;
  for (int i = 0; i < n; i++) {
    setenv("ACCEL_ISA", accel__isa_name(list[i]), 1);
    assert_int_equal(accel__isa_choose(), list[i]);
    test(list[i]);
  }
  if (before)
    setenv("ACCEL_ISA", before, 1);
  else
    unsetenv("ACCEL_ISA");
  free(before);
}

#endif
