/* bench_timer.h - for benchmark programs: time, medians, memory in huge pages, the shapes of
 * linears. */
#ifndef ACCEL_TESTS_BENCH_H
#define ACCEL_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* Seconds on the monotonic clock. */
static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int ascending(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}
/* Sorts x. */
static inline double median(double *x, size_t n) {
  qsort(x, n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Memory in whole pages of 2 MiB, huge ones where the system gives them; NULL when there is none.
 * free() it. */
static inline void *huge(size_t bytes) {
  const size_t unit = 2 << 20;
  bytes = (bytes + unit - 1) / unit * unit;
  void *p = aligned_alloc(unit, bytes);
#if defined(MADV_HUGEPAGE)
  if (p) (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return p;
}

/* A linear: y [m, n] = x [m, k] w^T, and what follows it. */
typedef struct shape {
  const char *name;
  int64_t m, n, k;
  int act; /* ACCEL_PLUGIN_ACT_... */
} shape;

/* "M,N,K", each at least 1. */
static inline bool shape_parse(const char *text, shape *out) {
  long long m, n, k;
  if (sscanf(text, "%lld,%lld,%lld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) return false;
  *out = (shape){"given", m, n, k, 0};
  return true;
}

/* Linears of BERT-base and MiniLM at the sizes of the peers' harness; includers have the op
 * numbers. */
#define BENCH_ENCODER_SHAPES                                                              \
  {"bert b1 s128 q", 128, 768, 768, 0},                                                   \
      {"bert b1 s128 ffn1", 128, 3072, 768, ACCEL_PLUGIN_ACT_GELU},                       \
      {"bert b1 s128 ffn2", 128, 768, 3072, 0}, {"bert b8 s128 q", 1024, 768, 768, 0},    \
      {"bert b8 s128 ffn1", 1024, 3072, 768, ACCEL_PLUGIN_ACT_GELU},                      \
      {"bert b8 s128 ffn2", 1024, 768, 3072, 0}, {"minilm b1 s16 q", 16, 384, 384, 0},    \
      {"minilm b1 s16 ffn1", 16, 1536, 384, ACCEL_PLUGIN_ACT_GELU},                       \
      {"minilm b1 s16 ffn2", 16, 384, 1536, 0}, {"minilm b32 s128 q", 4096, 384, 384, 0}, \
      {"minilm b32 s128 ffn1", 4096, 1536, 384, ACCEL_PLUGIN_ACT_GELU}, {                 \
    "minilm b32 s128 ffn2", 4096, 384, 1536, 0                                            \
  }

#endif
