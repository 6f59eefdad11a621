/* bench_peak.c - the machine's limits: the rate of fused multiply-adds that touch no memory, and of
 * reads that no cache serves. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "bench/bench.h"

enum { MAX_THREADS = 256, ROUNDS = 5 };
static const double round_seconds = 0.03;
/* in all: more than any last-level cache has to itself */
static const size_t read_bytes = (size_t)384 << 20;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- multiply-adds: `loops` times 12 independent vectors; returns operations of one loop.  The
 * values stay finite. ---- */

enum { CHAINS = 12 };
typedef double (*fma_loop)(uint64_t loops, float *sink);

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double fma_avx512(uint64_t loops, float *sink) {
  __m512 a[CHAINS], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; ++i) a[i] = _mm512_set1_ps((float)i);
  for (uint64_t n = 0; n < loops; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) a[i] = _mm512_fmadd_ps(a[i], x, y);
  }
  for (int i = 0; i < CHAINS; ++i) *sink += _mm512_reduce_add_ps(a[i]);
  return 2.0 * 16 * CHAINS;
}
__attribute__((target("avx2,fma"))) static double fma_avx2(uint64_t loops, float *sink) {
  __m256 a[CHAINS], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(1.0f);
  for (int i = 0; i < CHAINS; ++i) a[i] = _mm256_set1_ps((float)i);
  for (uint64_t n = 0; n < loops; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) a[i] = _mm256_fmadd_ps(a[i], x, y);
  }
  float out[8];
  for (int i = 0; i < CHAINS; ++i) {
    _mm256_storeu_ps(out, a[i]);
    *sink += out[0] + out[7];
  }
  return 2.0 * 8 * CHAINS;
}
#elif defined(__aarch64__)
static double fma_neon(uint64_t loops, float *sink) {
  float32x4_t a[CHAINS], x = vdupq_n_f32(0.5f), y = vdupq_n_f32(1.0f);
  for (int i = 0; i < CHAINS; ++i) a[i] = vdupq_n_f32((float)i);
  for (uint64_t n = 0; n < loops; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; ++i) a[i] = vfmaq_f32(y, a[i], x);
  }
  for (int i = 0; i < CHAINS; ++i) *sink += vaddvq_f32(a[i]);
  return 2.0 * 4 * CHAINS;
}
#endif

/* Without vectors the compiler's own: a multiplication and an addition. */
static double fma_plain(uint64_t loops, float *sink) {
  float a[CHAINS];
  for (int i = 0; i < CHAINS; ++i) a[i] = (float)i;
  for (uint64_t n = 0; n < loops; ++n)
    for (int i = 0; i < CHAINS; ++i) a[i] = a[i] * 0.5f + 1.0f;
  for (int i = 0; i < CHAINS; ++i) *sink += a[i];
  return 2.0 * CHAINS;
}

/* The widest that this processor has, or that ACCEL_ISA leaves. */
static fma_loop choose(void) {
  const char *isa = getenv("ACCEL_ISA");
  bool plain = isa && strcmp(isa, "scalar") == 0;
  if (plain) return fma_plain;
#if defined(__x86_64__)
  bool narrow = isa && strncmp(isa, "avx2", 4) == 0;
  if (!narrow && __builtin_cpu_supports("avx512f")) return fma_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_avx2;
#elif defined(__aarch64__)
  return fma_neon;
#endif
  return fma_plain;
}

/* ---- threads that begin together ---- */

typedef struct gang {
  atomic_uint ready, go; /* threads that wait; 1: begin, 2: do not */
  void (*work)(struct gang *gang, uint32_t index);
  uint32_t threads;
  double seconds[MAX_THREADS];
  fma_loop loop;
  uint64_t loops;
  double each;          /* operations of one loop */
  const uint64_t *data; /* read_bytes */
  volatile float sink;
} gang;

typedef struct member {
  gang *gang;
  uint32_t index;
} member;

static void *serve(void *arg) {
  member *m = arg;
  unsigned go;
  atomic_fetch_add(&m->gang->ready, 1);
  while (!(go = atomic_load(&m->gang->go))) sched_yield();
  if (go == 2) return NULL;
  double begin = now();
  m->gang->work(m->gang, m->index);
  m->gang->seconds[m->index] = now() - begin;
  return NULL;
}

/* Runs work on all threads at once; the time of the slowest, 0 when a thread could not be
 * started. */
static double together(gang *g) {
  pthread_t thread[MAX_THREADS];
  member m[MAX_THREADS];
  uint32_t started = 1;
  atomic_store(&g->ready, 0);
  atomic_store(&g->go, 0);
  m[0] = (member){g, 0};
  for (; started < g->threads; ++started) {
    m[started] = (member){g, started};
    if (pthread_create(&thread[started], NULL, serve, &m[started])) break;
  }
  bool all = started == g->threads;
  while (all && atomic_load(&g->ready) + 1 < g->threads) sched_yield();
  atomic_store(&g->go, all ? 1 : 2);
  double slowest = 0.0;
  if (all) {
    serve(&m[0]);
    slowest = g->seconds[0];
  }
  for (uint32_t i = 1; i < started; ++i) {
    pthread_join(thread[i], NULL);
    if (all && g->seconds[i] > slowest) slowest = g->seconds[i];
  }
  return slowest;
}

static void multiply(gang *g, uint32_t index) {
  float sink = 0.0f;
  double each = g->loop(g->loops, &sink);
  if (index == 0) g->each = each;
  if (isnan(sink)) g->sink = sink; /* never: keeps the loop alive */
}

double bench_peak_gflops(uint32_t threads) {
  gang *g = calloc(1, sizeof *g);
  double best = 0.0;
  if (!g) return 0.0;
  g->work = multiply;
  g->loop = choose();
  g->threads = 1;
  for (g->loops = 1000; together(g) < round_seconds && g->loops < UINT64_C(1) << 40; g->loops *= 2)
    continue;
  g->threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
  for (int i = 0; i < ROUNDS; ++i) {
    double seconds = together(g),
           rate = seconds > 0.0 ? g->each * (double)g->loops * g->threads / seconds : 0.0;
    if (rate > best) best = rate;
  }
  free(g);
  return 1e-9 * best;
}

static void read_share(gang *g, uint32_t index) {
  size_t words = read_bytes / sizeof *g->data / g->threads;
  const uint64_t *from = g->data + words * index;
  uint64_t sum[8] = {0};
  for (size_t i = 0; i + 8 <= words; i += 8)
    for (int k = 0; k < 8; ++k) sum[k] += from[i + k];
  for (int k = 1; k < 8; ++k) sum[0] ^= sum[k];
  if (sum[0] == 1) g->sink = 1.0f; /* keeps the loop alive */
}

double bench_peak_gbytes_per_s(uint32_t threads) {
  gang *g = calloc(1, sizeof *g);
  void *data = mmap(NULL, read_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  double best = 0.0;
  if (g && data != MAP_FAILED) {
#if defined(MADV_HUGEPAGE)
    (void)madvise(data, read_bytes, MADV_HUGEPAGE); /* advice only */
#endif
    /* pages of their own: reads of the one zero page would be too fast */
    memset(data, 2, read_bytes);
    g->data = data;
    g->work = read_share;
    g->threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    for (int i = 0; i < ROUNDS; ++i) {
      double seconds = together(g), rate = seconds > 0.0 ? (double)read_bytes / seconds : 0.0;
      if (rate > best) best = rate;
    }
  }
  if (data != MAP_FAILED) munmap(data, read_bytes);
  free(g);
  return 1e-9 * best;
}
