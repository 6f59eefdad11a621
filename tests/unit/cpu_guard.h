/* cpu_guard.h - operands of kernel tests between unreadable pages: a kernel that touches one
 * element too many, or one before the first, dies with or without a sanitizer.  Included once by a
 * test program, after cmocka.h. */
#ifndef ACCEL_TESTS_CPU_GUARD_H
#define ACCEL_TESTS_CPU_GUARD_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/kernels.h"

/* Of the elements that are compared with a slow reference, every so many: a sanitizer looks at
 * accesses, for which running the kernel is enough, and slows the reference down tenfold, as an
 * emulated processor does. */
enum { CHECK_EVERY = ACCEL_SANITIZER || ACCEL_TEST_EMULATED ? 7 : 1 };

/* Random cases where there are n on a processor without either. */
static inline int rounds(int n) {
  const int part = ACCEL_TEST_EMULATED ? 6 : ACCEL_SANITIZER ? 3 : 1;
  return (n + part - 1) / part;
}

static cpu_kernels kernels; /* of the ISA at hand */
/* operands begin right behind an unreadable page; else they end right before one */
static bool guard_before;

static uint32_t seed;
static uint32_t next_random(void) { return seed = seed * 1664525u + 1013904223u; }
static float noise(void) { return (float)(next_random() >> 8) / 8388608.0f - 1.0f; }
static int pick(int low, int high) { return low + (int)(next_random() >> 8) % (high - low + 1); }

typedef struct guarded {
  void *map;
  size_t size;
} guarded;
static guarded live[64];
static int n_live;

static void *guard_bytes(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
  char *map = mmap(NULL, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(map != MAP_FAILED && n_live < 64);
  if (body) assert_int_equal(mprotect(map + page, body, PROT_READ | PROT_WRITE), 0);
  live[n_live++] = (guarded){map, body + 2 * page};
  return map + page + (guard_before ? 0 : body - bytes);
}
/* n elements of 4 bytes */
static inline void *guard(int64_t n) { return guard_bytes((size_t)n * 4); }
static inline void release(void) {
  while (n_live > 0) {
    n_live--;
    munmap(live[n_live].map, live[n_live].size);
  }
}
static inline float *filled(int64_t n) {
  float *x = guard(n);
  for (int64_t i = 0; i < n; i++) x[i] = noise();
  return x;
}
static inline float *copy_of(const float *x, int64_t n) {
  float *y = guard(n);
  memcpy(y, x, (size_t)n * 4);
  return y;
}

static inline void check(const char *what, float got, double want, double bound) {
  if (isnan(want) && isnan(got)) return;
  if (!(fabs(got - want) <= bound) && got != want)
    fail_msg("%s on %s: got %.9g, expected %.9g, bound %.3g", what, cpu_isa_name(kernels.isa), got,
             want, bound);
}

/* Runs the tests on every instruction set of this machine, with both kinds of guard; under
 * emulation plain C, which is the same everywhere, with one. */
#define CPU_GUARD_RUN(tests)                                                                     \
  do {                                                                                           \
    cpu_isa isa_list[CPU_ISA_COUNT];                                                             \
    int failures = 0;                                                                            \
    for (int i = 0, n = cpu_isa_list(isa_list); i < 2 * n; i++) {                                \
      if (ACCEL_TEST_EMULATED && i % 2 && isa_list[i / 2] == CPU_ISA_SCALAR) continue;           \
      seed = 12345;                                                                              \
      guard_before = i % 2;                                                                      \
      cpu_kernels_of(isa_list[i / 2], &kernels);                                                 \
      failures += cmocka_run_group_tests_name(cpu_isa_name(isa_list[i / 2]), tests, NULL, NULL); \
    }                                                                                            \
    return failures;                                                                             \
  } while (0)

#endif
