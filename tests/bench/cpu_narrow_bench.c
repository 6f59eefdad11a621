/* cpu_narrow_bench.c - the CPU plugin's linear kernels over bf16, fp16 and fp8 weights on one core,
 * beside the fp32 kernel on the same matrices, in interleaved rounds: GFLOP/s and their share of
 * the register-only FMA rate, bytes of weights a second and their share of what the core reads from
 * memory.
 *
 *   cpu_narrow_bench [--isa NAME] [--rounds N] [--layout bf16|fp16|e4m3|e5m2] [--shape M,N,K]
 *
 * Weights are walked through as a model does: as many copies as make 192 MiB, a different one each
 * call.  Medians over the rounds. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench_timer.h"
#include "fma_peak.h"
#include "cpu_pack.h"

enum { MAX_ROUNDS = 64, COPIES_BYTES = 192 << 20, READ_BYTES = 256 << 20 };
static const double SECONDS = 0.02; /* of one measurement */

/* ---- the two limits: register-only multiply-adds (GFLOP/s) and reading (GB/s) ---- */

/* Four streams of whole lines, asked for ahead as the kernels do. */
static double read_rate(const char *data) {
  typedef uint64_t v8 __attribute__((vector_size(64)));
  const size_t part = READ_BYTES / 4;
  v8 sum = {0};
  double start = now();
  for (size_t i = 0; i < part; i += 64)
    for (size_t s = 0; s < 4; s++) {
      __builtin_prefetch(data + s * part + i + 2048);
      sum += *(const v8 *)(data + s * part + i);
    }
  __asm__ volatile("" ::"r"((sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7]))
                   : "memory");
  double seconds = now() - start;
  return READ_BYTES / seconds * 1e-9;
}

/* ---- one shape ---- */

static const shape shapes[] = {
    {"one row", 1, 4096, 4096, 0},
    {"two rows", 2, 4096, 4096, 0},
    {"four rows", 4, 4096, 4096, 0},
    {"eight rows", 8, 4096, 4096, 0},
    {"one row, small", 1, 768, 768, 0},
    {"minilm b1 s16 ffn1", 16, 1536, 384, 0},
    {"minilm b1 s16 ffn2", 16, 384, 1536, 0},
    {"bert b1 s32 ffn1", 32, 3072, 768, 0},
    {"bert b1 s128 q", 128, 768, 768, 0},
    {"bert b1 s128 ffn1", 128, 3072, 768, 0},
    {"bert b1 s128 ffn2", 128, 768, 3072, 0},
    {"bert b8 s128 ffn1", 1024, 3072, 768, 0},
    {"minilm b32 s128 ffn2", 4096, 384, 1536, 0},
};

static const struct layout {
  const char *name;
  cpu_layout layout;
  accel_plugin_format format;
} layouts[] = {
    {"fp32", CPU_LAYOUT_F32, {.store = ACCEL_PLUGIN_F32, .scale = ACCEL_PLUGIN_NO_DTYPE}},
    {"bf16", CPU_LAYOUT_BF16, {.store = ACCEL_PLUGIN_BF16, .scale = ACCEL_PLUGIN_NO_DTYPE}},
    {"fp16", CPU_LAYOUT_F16, {.store = ACCEL_PLUGIN_F16, .scale = ACCEL_PLUGIN_NO_DTYPE}},
    {"e4m3",
     CPU_LAYOUT_E4M3,
     {ACCEL_PLUGIN_E4M3, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 1}},
    {"e5m2",
     CPU_LAYOUT_E5M2,
     {ACCEL_PLUGIN_E5M2, ACCEL_PLUGIN_F32, ACCEL_PLUGIN_NO_DTYPE, ACCEL_PLUGIN_NO_DTYPE, 0, 1}},
};
enum { FORMS = sizeof layouts / sizeof *layouts };

typedef struct weights {
  char *panels;
  int64_t count, panel_bytes, copies;
} weights;

/* The bits of the codes do not matter for speed as long as they are ordinary numbers. */
static bool make_weights(const shape *s, const struct layout *f, const cpu_kernels *k,
                         weights *out) {
  const int32_t cols = k->linear[f->layout].cols;
  cpu_panel panel = {
      .layout = f->layout, .kernels = k, .format = &f->format, .k = s->k, .cols = cols};
  const size_t unit = f->layout == CPU_LAYOUT_F32                                   ? 4
                      : f->layout == CPU_LAYOUT_BF16 || f->layout == CPU_LAYOUT_F16 ? 2
                                                                                    : 1;
  *out =
      (weights){.count = (s->n + cols - 1) / cols, .panel_bytes = (int64_t)cpu_panel_bytes(&panel)};
  const int64_t bytes = out->count * out->panel_bytes;
  out->copies = COPIES_BYTES / bytes + 1;
  out->panels = huge((size_t)(bytes * out->copies));
  unsigned char *row = malloc((size_t)(cols * s->k) * unit);
  float *scale = malloc((size_t)cols * sizeof *scale);
  if (!out->panels || !row || !scale) return false;
  /* the byte of the exponent */
  for (int64_t i = 0; i < cols * s->k * (int64_t)unit; i++)
    row[i] = (size_t)i % unit == unit - 1 ? (unsigned char)(0x30 + i % 8) : (unsigned char)i;
  for (int32_t i = 0; i < cols; i++) scale[i] = 0.01f;
  cpu_matrix m = {.format = &f->format,
                  .view = {.data = row, .scale = scale},
                  .f32 = (const float *)(void *)row,
                  .n = cols,
                  .k = s->k};
  cpu_column column[64];
  for (int32_t i = 0; i < cols; i++) column[i] = (cpu_column){&m, i};
  cpu_panel_pack(&panel, column, out->panels);
  for (int64_t i = 1; i < out->count * out->copies; i++)
    memcpy(out->panels + i * out->panel_bytes, out->panels, (size_t)out->panel_bytes);
  free(row);
  free(scale);
  return true;
}

/* room: for x as the kernel reads it; converting it counts. */
static double time_of(const shape *s, const struct layout *f, const cpu_kernels *k,
                      const weights *w, const float *x, void *room, float *y) {
  const cpu_linear_kernel *kernel = &k->linear[f->layout];
  int64_t n = 0;
  double start = now();
  for (; now() - start < SECONDS; n++) {
    cpu_gemm g = {.n = s->n,
                  .k = s->k,
                  .x = x,
                  .ldx = s->k,
                  .w = w->panels + n % w->copies * w->count * w->panel_bytes,
                  .panel_bytes = w->panel_bytes,
                  .store = f->format.store,
                  .y = y,
                  .ldy = s->n};
    if (kernel->x != CPU_ACT_F32) {
      cpu_convert_rows(k->convert[kernel->x], kernel->x, x, s->k, s->m, s->k, room, NULL, NULL);
      g.x = room;
      g.ldx = cpu_act_row(kernel->x, s->k);
    }
    kernel->run(&g, 0, s->m, 0, w->count);
  }
  return (now() - start) / (double)n;
}

static bool run(const shape *s, const cpu_kernels *k, const char *only, const char *data,
                int rounds) {
  weights w[FORMS] = {{0}};
  float *x = huge((size_t)(s->m * s->k) * 4), *y = huge((size_t)(s->m * s->n) * 4);
  void *room = huge((size_t)(s->m * cpu_act_row(CPU_ACT_BF16, s->k) * cpu_act_bytes(CPU_ACT_BF16)));
  static double seconds[FORMS][MAX_ROUNDS], top[MAX_ROUNDS], read[MAX_ROUNDS];
  if (!x || !y || !room) return fprintf(stderr, "out of memory\n"), false;
  for (int64_t i = 0; i < s->m * s->k; i++)
    x[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  memset(y, 0, (size_t)(s->m * s->n) * 4);
  for (int f = 0; f < FORMS; f++)
    if ((!f || !only || !strcmp(only, layouts[f].name)) && k->linear[layouts[f].layout].run &&
        !make_weights(s, &layouts[f], k, &w[f]))
      return fprintf(stderr, "out of memory\n"), false;
  for (int r = 0; r < rounds; r++) {
    top[r] = fma_peak(32 * (int)k->vector);
    read[r] = read_rate(data);
    for (int f = 0; f < FORMS; f++)
      if (w[f].panels) seconds[f][r] = time_of(s, &layouts[f], k, &w[f], x, room, y);
  }
  double ratio[FORMS];
  for (int f = 0; f < FORMS; f++) {
    double quotient[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) quotient[r] = w[f].panels ? seconds[0][r] / seconds[f][r] : 0;
    ratio[f] = median(quotient, (size_t)rounds);
  }
  double p = median(top, (size_t)rounds), b = median(read, (size_t)rounds);
  for (int f = 0; f < FORMS; f++) {
    if (!w[f].panels) continue;
    double t = median(seconds[f], (size_t)rounds),
           rate = 2e-9 * (double)s->m * (double)s->n * (double)s->k / t,
           bytes = (double)(w[f].count * w[f].panel_bytes) / t * 1e-9;
    printf(
        "%-8s %-20s %4lld x %5lld x %5lld  %-5s %7.1f GFLOP/s, %5.1f %% of %6.1f; %5.1f GB/s, "
        "%5.1f %% of %5.1f; x %.2f of "
        "fp32\n",
        cpu_isa_name(k->isa), s->name, (long long)s->m, (long long)s->n, (long long)s->k,
        layouts[f].name, rate, 100 * rate / p, p, bytes, 100 * bytes / b, b, ratio[f]);
    free(w[f].panels);
  }
  fflush(stdout);
  free(x);
  free(room);
  free(y);
  return true;
}

int main(int argc, char **argv) {
  int rounds = 9;
  const char *isa = NULL, *layout = NULL;
  shape given = {.name = "given"};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--isa") && i + 1 < argc)
      isa = argv[++i];
    else if (!strcmp(argv[i], "--layout") && i + 1 < argc)
      layout = argv[++i];
    else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
      rounds = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--shape") && i + 1 < argc && shape_parse(argv[++i], &given))
      continue;
    else
      return fprintf(stderr,
                     "usage: cpu_narrow_bench [--isa NAME] [--rounds N] [--layout NAME] [--shape "
                     "M,N,K]\n"),
             2;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 9;
  char *data = huge(READ_BYTES + 4096);
  if (!data) return 1;
  memset(data, 1, READ_BYTES + 4096);
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, n = cpu_isa_list(list); i < n; i++) {
    cpu_kernels k;
    if (isa ? strcmp(isa, cpu_isa_name(list[i])) != 0
            : list[i] != CPU_ISA_AVX2 && list[i] != CPU_ISA_AVX512 &&
                  list[i] != CPU_ISA_AVX512BF16 && list[i] != CPU_ISA_AMX)
      continue;
    cpu_kernels_of(list[i], &k);
    for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++)
      if (!given.m && !run(&shapes[j], &k, layout, data, rounds)) return 1;
    if (given.m && !run(&given, &k, layout, data, rounds)) return 1;
  }
  free(data);
  return 0;
}
