/* cpu_ops_operands.h - operands for the tests of ops.h's kernels: random numbers in memory that
 * ends where an unreadable page begins, so that a kernel that touches one element too many dies
 * there; and a loop over every instruction set of this machine. */
#ifndef ACCEL_TESTS_CPU_OPS_OPERANDS_H
#define ACCEL_TESTS_CPU_OPS_OPERANDS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/kernels.h"

static cpu_kernels kernels; /* of the ISA at hand */

/* ---- operands ---- */

static uint32_t seed;
static inline uint32_t next_random(void) { return seed = seed * 1664525u + 1013904223u; }
static inline float noise(void) { return (float)(next_random() >> 8) / 8388608.0f - 1.0f; }
static inline int64_t pick(int64_t low, int64_t high) {
  return low + (int64_t)(next_random() >> 8) % (high - low + 1);
}

typedef struct guarded {
  void *map;
  size_t size;
} guarded;
static guarded live[64];
static int n_live;

static inline float *guard(int64_t n) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)n * 4,
         body = (bytes + page - 1) / page * page;
  char *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(map != MAP_FAILED && n_live < 64);
  assert_int_equal(mprotect(map + body, page, PROT_NONE), 0);
  live[n_live++] = (guarded){map, body + page};
  return (float *)(void *)(map + body - bytes);
}
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
static inline void check(const char *what, float got, double want, double bound) {
  if (isnan(want) && isnan(got)) return;
  if (!(fabs(got - want) <= bound) && got != want)
    fail_msg("%s on %s: got %.9g, expected %.9g", what, cpu_isa_name(kernels.isa), got, want);
}

/* ---- every instruction set ---- */

static void on_every_isa(void (*run)(void)) {
  cpu_isa list[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  for (int i = 0; i < n; i++) {
    cpu_kernels_of(list[i], &kernels);
    seed = 20261121;
    run();
  }
}
#define TEST(name)                       \
  static void all_##name(void **state) { \
    (void)state;                         \
    on_every_isa(test_##name);           \
  }

#endif
