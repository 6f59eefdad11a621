/* cpu_integer_bench.c - linears over int8 and four-bit weights on one core, of many rows:
 * multiply-adds of codes a second, and their share of the rate of the same instructions on
 * registers alone, in interleaved rounds; the conversion of x apart.
 *
 *   cpu_integer_bench [--isa NAME] [--rounds N] [--shape M,N,K] [--format int8|int4|uint4|mx|nv]
 *
 * Weights are walked through as a model does: as many copies as make 48 MiB, a different one each
 * call.  Medians over the rounds. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench_timer.h"
#include "integer_weights.h"

enum { MAX_ROUNDS = 64, COPIES_BYTES = 48 << 20 };
static const double SECONDS = 0.05; /* of one measurement */

/* ---- products on registers alone, twelve chains: Gop/s, two operations a product ---- */

enum { PEAK_STEPS = 300000, CHAINS = 12 };
static volatile int sink;

#define EACH _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)
#define PEAK(name, features, vector, bytes, set, dot)                  \
  features static double name(void) {                                  \
    vector sum[CHAINS], a = set((char)sink), b = set(1), all = set(0); \
    EACH sum[i] = set((char)i);                                        \
    double start = now();                                              \
    for (int k = 0; k < PEAK_STEPS; k++) {                             \
      EACH dot(sum[i], a, b);                                          \
    }                                                                  \
    double seconds = now() - start;                                    \
    EACH dot(all, sum[i], b);                                          \
    int32_t out;                                                       \
    memcpy(&out, &all, sizeof out);                                    \
    sink += out & 1;                                                   \
    return 2.0 * PEAK_STEPS * CHAINS * (bytes) / seconds * 1e-9;       \
  }
#if defined(__x86_64__)
#define DOT512(sum, a, b) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#define DOT256(sum, a, b) \
  __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))
#define PAIRS256(sum, a, b)                                                               \
  __asm__ volatile(                                                                       \
      "vpmaddubsw %2, %1, %%ymm15; vpmaddwd %2, %%ymm15, %%ymm15; vpaddd %%ymm15, %0, %0" \
      : "+x"(sum)                                                                         \
      : "x"(a), "x"(b)                                                                    \
      : "xmm15")
#define PAIRS512(sum, a, b)                                                               \
  __asm__ volatile(                                                                       \
      "vpmaddubsw %2, %1, %%zmm15; vpmaddwd %2, %%zmm15, %%zmm15; vpaddd %%zmm15, %0, %0" \
      : "+v"(sum)                                                                         \
      : "v"(a), "v"(b)                                                                    \
      : "xmm15")
PEAK(peak_vnni512, __attribute__((target("avx512f,avx512bw"))), __m512i, 64, _mm512_set1_epi8,
     DOT512)
PEAK(peak_pairs512, __attribute__((target("avx512f,avx512bw"))), __m512i, 64, _mm512_set1_epi8,
     PAIRS512)
PEAK(peak_vnni256, __attribute__((target("avx2"))), __m256i, 32, _mm256_set1_epi8, DOT256)
PEAK(peak_pairs256, __attribute__((target("avx2"))), __m256i, 32, _mm256_set1_epi8, PAIRS256)
#endif

/* 0: not measured for this ISA. */
static double peak(cpu_isa isa) {
  switch ((int)isa) {
#if defined(__x86_64__)
    case CPU_ISA_AMX: /* of vectors: above 100 % is what tile registers gain */
    case CPU_ISA_AVX512BF16:
    case CPU_ISA_AVX512VNNI:
      return peak_vnni512();
    case CPU_ISA_AVX512:
      return peak_pairs512();
    case CPU_ISA_AVXVNNI:
      return peak_vnni256();
    case CPU_ISA_AVX2:
      return peak_pairs256();
#endif
  }
  return 0;
}

/* ---- one shape ---- */

static const shape shapes[] = {
    BENCH_ENCODER_SHAPES,
};

static bool run(const shape *s, const cpu_kernels *kernels, const integer_format *format,
                int rounds) {
  integer_weights w;
  if (!integer_weights_make(&w, kernels, format, s->n, s->k, COPIES_BYTES))
    return fprintf(stderr, "out of memory\n"), false;
  const cpu_linear_kernel *kernel = &kernels->linear[w.shape.layout];
  const int64_t ld = cpu_act_row(w.x, s->k);
  float *x = malloc((size_t)(s->m * s->k) * 4),
        *y = aligned_alloc(64, (size_t)(s->m * s->n + 15) / 16 * 64), /* as models' tensors are */
            *bias = calloc((size_t)s->n, 4), *scale = malloc((size_t)s->m * 8);
  uint8_t *codes = aligned_alloc(64, (size_t)(s->m * ld));
  if (!x || !y || !bias || !scale || !codes) return fprintf(stderr, "out of memory\n"), false;
  for (int64_t i = 0; i < s->m * s->k; i++)
    x[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  double rate[MAX_ROUNDS], top[MAX_ROUNDS], converting[MAX_ROUNDS];
  for (int r = 0; r < rounds; r++) {
    int64_t n = 0;
    double start;
    top[r] = peak(kernels->isa);
    for (start = now(); now() - start < SECONDS / 5; n++)
      cpu_convert_rows(kernels->convert[w.x], w.x, x, s->k, s->m, s->k, codes, scale, scale + s->m);
    converting[r] = (now() - start) / (double)n;
    n = 0;
    for (start = now(); now() - start < SECONDS; n++) {
      cpu_gemm g = integer_gemm(&w, n);
      g.x = codes;
      g.ldx = ld;
      g.x_scale = scale;
      g.x_zero = scale + s->m;
      g.y = y;
      g.bias = bias;
      g.act = s->act;
      kernel->run(&g, 0, s->m, 0, w.panels);
    }
    rate[r] = (double)n * 2e-9 * (double)s->m * (double)s->n * (double)s->k / (now() - start);
  }
  double a = median(rate, (size_t)rounds), p = median(top, (size_t)rounds),
         c = median(converting, (size_t)rounds);
  printf("%-10s %-6s %-21s %5lld x %5lld x %5lld %7.1f Gop/s", cpu_isa_name(kernels->isa),
         format->name, s->name, (long long)s->m, (long long)s->n, (long long)s->k, a);
  if (p > 0) printf("  %5.1f %% of %6.1f", 100 * a / p, p);
  printf("   converting x %7.2f us, %4.1f %% of it\n", 1e6 * c,
         100 * c * a * 1e9 / (2.0 * (double)s->m * (double)s->n * (double)s->k));
  fflush(stdout);
  integer_weights_free(&w);
  free(x);
  free(y);
  free(bias);
  free(scale);
  free(codes);
  return true;
}

int main(int argc, char **argv) {
  int rounds = 5;
  const char *isa = NULL, *format = NULL;
  shape given = {.name = "given"};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--isa") && i + 1 < argc)
      isa = argv[++i];
    else if (!strcmp(argv[i], "--format") && i + 1 < argc)
      format = argv[++i];
    else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
      rounds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--shape") && i + 1 < argc && shape_parse(argv[++i], &given))
      continue;
    else
      return fprintf(stderr,
                     "usage: cpu_integer_bench [--isa NAME] [--rounds N] [--shape M,N,K] [--format "
                     "NAME]\n"),
             2;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 5;
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    cpu_kernels kernels;
    if (isa && strcmp(isa, cpu_isa_name(list[i]))) continue;
    cpu_kernels_of(list[i], &kernels);
    for (size_t f = 0; f < INTEGER_FORMATS; f++) {
      if (format && strcmp(format, integer_formats[f].name)) continue;
      for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
        if (!given.m && !run(&shapes[j], &kernels, &integer_formats[f], rounds)) return 1;
      if (given.m && !run(&given, &kernels, &integer_formats[f], rounds)) return 1;
    }
  }
  return 0;
}
