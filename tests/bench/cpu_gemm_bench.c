/* cpu_gemm_bench.c - the CPU plugin's linear kernels on one core: GFLOP/s, their share of the
 * register-only FMA rate of the same instruction set, and OpenBLAS on the same matrices, in
 * interleaved rounds.
 *
 *   cpu_gemm_bench [--isa avx512|avx2|scalar] [--rounds N] [--shape M,N,K]
 *
 * Weights are walked through as a model does: as many copies as make 48 MiB, a different one each
 * call.  Medians over the rounds. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_timer.h"
#include "fma_peak.h"
#include "kernels/kernels.h"

enum { MAX_ROUNDS = 64, COPIES_BYTES = 48 << 20 };
static const double SECONDS = 0.05; /* of one measurement */

/* ---- OpenBLAS, when it is installed ---- */

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
static sgemm_fn *open_blas(void) {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  sgemm_fn *f = NULL;
  if (library) *(void **)&f = dlsym(library, "cblas_sgemm");
  return f;
}

/* ---- one shape ---- */

static const shape shapes[] = {
    BENCH_ENCODER_SHAPES,
    {"one row", 1, 768, 768, 0},
    {"four rows", 4, 768, 768, 0},
    {"seven rows", 7, 768, 768, 0},
};

static float *numbers(int64_t n) {
  float *p = huge((size_t)n * sizeof(float));
  for (int64_t i = 0; p && i < n; i++) p[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  return p;
}

static bool run(const shape *s, const cpu_kernels *k, sgemm_fn *blas, int rounds) {
  const int64_t panels = (s->n + k->panel_cols - 1) / k->panel_cols,
                size = panels * k->panel_cols * s->k;
  const int64_t copies = COPIES_BYTES / (size * (int64_t)sizeof(float)) + 1;
  const int64_t ldx = cpu_act_row(CPU_ACT_F32, s->k); /* as cpu_linear.c has it */
  float *x = numbers(s->m * ldx), *w = numbers(s->n * s->k * copies),
        *packed = numbers(size * copies), *y = numbers(s->m * s->n),
        *bias = calloc((size_t)s->n, sizeof *bias);
  if (!x || !w || !packed || !y || !bias) return fprintf(stderr, "out of memory\n"), false;
  for (int64_t c = 0; c < copies; c++)
    for (int64_t n = 0; n < panels * k->panel_cols; n += k->vector) {
      int64_t have = s->n - n < 0 ? 0 : s->n - n < k->vector ? s->n - n : k->vector;
      k->pack(w + (c * s->n + (have ? n : 0)) * s->k, s->k, have, s->k,
              packed + c * size + n / k->panel_cols * k->panel_cols * s->k + n % k->panel_cols,
              k->panel_cols);
    }
  double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], top[MAX_ROUNDS], share[MAX_ROUNDS],
      flop = 2e-9 * (double)s->m * (double)s->n * (double)s->k;
  for (int r = 0; r < rounds; r++) {
    int64_t n = 0;
    double start = now();
    top[r] = fma_peak(32 * (int)k->vector);
    for (start = now(); now() - start < SECONDS; n++) {
      cpu_gemm g = {.n = s->n,
                    .k = s->k,
                    .x = x,
                    .ldx = ldx,
                    .w = packed + n % copies * size,
                    .panel_bytes = s->k * k->panel_cols * (int64_t)sizeof(float),
                    .y = y,
                    .ldy = s->n,
                    .bias = bias,
                    .act = s->act};
      k->linear[CPU_LAYOUT_F32].run(&g, 0, s->m, 0, panels);
    }
    ours[r] = (double)n * flop / (now() - start);
    /* before and after: the clock changes with what other cores do */
    top[r] = (top[r] + fma_peak(32 * (int)k->vector)) / 2;
    share[r] = ours[r] / top[r];
    n = 0;
    for (start = now(); blas && now() - start < SECONDS; n++)
      blas(101, 111, 112, (int)s->m, (int)s->n, (int)s->k, 1.0f, x, (int)ldx,
           w + n % copies * s->n * s->k, (int)s->k, 0.0f, y, (int)s->n);
    theirs[r] = blas ? (double)n * flop / (now() - start) : 0;
  }
  double a = median(ours, (size_t)rounds), b = median(theirs, (size_t)rounds),
         p = median(top, (size_t)rounds);
  printf("%-7s %-22s %5lld x %5lld x %5lld  %7.1f GFLOP/s  %5.1f %% of %6.1f", cpu_isa_name(k->isa),
         s->name, (long long)s->m, (long long)s->n, (long long)s->k, a,
         100 * median(share, (size_t)rounds), p);
  if (blas) printf("   OpenBLAS %7.1f (no bias, no activation), x %.2f", b, a / b);
  printf("\n");
  fflush(stdout);
  free(x);
  free(w);
  free(packed);
  free(y);
  free(bias);
  return true;
}

int main(int argc, char **argv) {
  int rounds = 9;
  const char *only = NULL;
  shape given = {.name = "given"};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--isa") && i + 1 < argc)
      only = argv[++i];
    else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
      rounds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--shape") && i + 1 < argc && shape_parse(argv[++i], &given))
      continue;
    else
      return fprintf(stderr, "usage: cpu_gemm_bench [--isa NAME] [--rounds N] [--shape M,N,K]\n"),
             2;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 9;
  sgemm_fn *blas = open_blas();
  if (!blas) printf("no libopenblas.so.0 here: not compared\n");
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    cpu_kernels k;
    if (only && strcmp(only, cpu_isa_name(list[i]))) continue;
    cpu_kernels_of(list[i], &k);
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
      if (!given.m && !run(&shapes[j], &k, blas, rounds)) return 1;
    if (given.m && !run(&given, &k, blas, rounds)) return 1;
  }
  return 0;
}
