/* cpu_rows_bench.c - every kernel of cpu_kernels.def but the linear ones (cpu_gemm_bench), on one
 * core: nanoseconds per element on each instruction set of this machine, and how many times faster
 * than the plain C kernel.  Interleaved rounds, medians.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "kernels/kernels.h"

enum { COLS = 768, ROWS = 64, N = COLS * ROWS, ROUNDS = 9, DIM = 64, KEYS = 128 };
static const double SECONDS = 0.02;

static float *x, *y, *gamma_beta, *workspace;
static int32_t position[ROWS];

static void norm(const cpu_kernels *k, int kind) {
  cpu_norm g = {.x = x,
                .gamma = gamma_beta,
                .beta = gamma_beta + COLS,
                .y = y,
                .ldx = COLS,
                .ldy = COLS,
                .size = COLS,
                .groups = 1,
                .kind = kind,
                .eps = 1e-5f};
  k->norm(&g, 0, ROWS);
}
static void softmax(const cpu_kernels *k, int logarithm) {
  for (int r = 0; r < ROWS; r++) k->softmax(x + r * COLS, y + r * COLS, COLS, logarithm);
}
static void activate(const cpu_kernels *k, int act) { k->activate(act, 1.0f, x, y, N); }
static void unary(const cpu_kernels *k, int kind) { k->unary(kind, 0.5f, 1.0f, x, y, N); }
static void binary(const cpu_kernels *k, int kind) {
  k->binary(kind, x, 1, gamma_beta, 1, y, 2 * COLS);
}
static void accumulate(const cpu_kernels *k, int unused) {
  (void)unused;
  for (int r = 0; r < ROWS; r++) k->accumulate(0.5f, x + r * COLS, y, COLS);
}
static void rope(const cpu_kernels *k, int interleaved) {
  cpu_rope g = {.x = x,
                .frequency = gamma_beta,
                .y = y,
                .position = position,
                .ldx = COLS,
                .ldy = COLS,
                .cols = COLS,
                .head = DIM,
                .pairs = DIM / 2,
                .interleaved = interleaved,
                .mscale = 1};
  k->rope(&g, 0, ROWS, workspace);
}
static void pack(const cpu_kernels *k, int unused) {
  (void)unused;
  for (int64_t r = 0; r + k->vector <= ROWS; r += k->vector)
    k->pack(x + r * COLS, COLS, k->vector, COLS, y + r * COLS, k->vector);
}
static void attention(const cpu_kernels *k, int causal) { /* a head of 64 over 128 rows */
  cpu_attention a = {.q = x,
                     .k = x + KEYS * DIM,
                     .v = x + 2 * KEYS * DIM,
                     .y = y,
                     .ldq = DIM,
                     .ldk = DIM,
                     .ldv = DIM,
                     .ldy = DIM,
                     .keys = KEYS,
                     .dk = DIM,
                     .dv = DIM,
                     .scale = 0.125f,
                     .left = -1,
                     .right = causal ? 0 : -1};
  k->attention(&a, 0, KEYS, workspace);
}

static const struct {
  const char *name;
  void (*run)(const cpu_kernels *k, int argument);
  int argument;
  double elements;
} cases[] = {
    {"norm layer", norm, ACCEL_PLUGIN_NORM_LAYER, N},
    {"norm rms", norm, ACCEL_PLUGIN_NORM_RMS, N},
    {"softmax", softmax, 0, N},
    {"log softmax", softmax, 1, N},
    {"relu", activate, ACCEL_PLUGIN_ACT_RELU, N},
    {"gelu", activate, ACCEL_PLUGIN_ACT_GELU, N},
    {"gelu_tanh", activate, ACCEL_PLUGIN_ACT_GELU_TANH, N},
    {"silu", activate, ACCEL_PLUGIN_ACT_SILU, N},
    {"tanh", activate, ACCEL_PLUGIN_ACT_TANH, N},
    {"mish", activate, ACCEL_PLUGIN_ACT_MISH, N},
    {"softplus", activate, ACCEL_PLUGIN_ACT_SOFTPLUS, N},
    {"exp", unary, ACCEL_PLUGIN_UNARY_EXP, N},
    {"log", unary, ACCEL_PLUGIN_UNARY_LOG, N},
    {"rsqrt", unary, ACCEL_PLUGIN_UNARY_RSQRT, N},
    {"add", binary, ACCEL_PLUGIN_BINARY_ADD, 2 * COLS},
    {"max", binary, ACCEL_PLUGIN_BINARY_MAX, 2 * COLS},
    {"accumulate", accumulate, 0, N},
    {"rope half", rope, 0, N},
    {"rope interleaved", rope, 1, N},
    {"pack", pack, 0, N},
    {"attention 128x64", attention, 0, 4.0 * KEYS *KEYS *DIM},
    {"attention causal", attention, 1, 4.0 * KEYS *KEYS *DIM},
};

static double measure(const cpu_kernels *k, size_t c) {
  int64_t n = 0;
  double start = now(), stop = start;
  for (; stop - start < SECONDS; n++, stop = now()) cases[c].run(k, cases[c].argument);
  return (stop - start) / (double)n / cases[c].elements * 1e9;
}

int main(void) {
  cpu_isa list[CPU_ISA_COUNT];
  cpu_kernels kernels[CPU_ISA_COUNT];
  int n = cpu_isa_list(list);
  x = aligned_alloc(64, N * sizeof *x);
  y = aligned_alloc(64, N * sizeof *y);
  gamma_beta = aligned_alloc(64, 2 * COLS * sizeof *x);
  workspace = aligned_alloc(64, 1 << 20);
  if (!x || !y || !gamma_beta || !workspace) return 1;
  for (int i = 0; i < N; i++) x[i] = (float)(i * 2654435761u % 65521) / 65521.0f * 4 - 2;
  for (int i = 0; i < 2 * COLS; i++) gamma_beta[i] = (float)(i % 17) / 17.0f;
  for (int i = 0; i < ROWS; i++) position[i] = i * 5;
  for (int i = 0; i < n; i++) cpu_kernels_of(list[i], &kernels[i]);
  printf("ns per element (attention: per floating-point operation)\n");
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    double t[CPU_ISA_COUNT][ROUNDS];
    for (int r = 0; r < ROUNDS; r++)
      for (int i = 0; i < n; i++) t[i][r] = measure(&kernels[i], c);
    for (int i = 0; i < n; i++) qsort(t[i], ROUNDS, sizeof **t, ascending);
    printf("%-18s", cases[c].name);
    for (int i = 0; i < n; i++)
      printf("  %-6s %7.3f x %5.1f", cpu_isa_name(list[i]), t[i][ROUNDS / 2],
             t[n - 1][ROUNDS / 2] / t[i][ROUNDS / 2]);
    printf("\n");
    fflush(stdout);
  }
  free(x);
  free(y);
  free(gamma_beta);
  free(workspace);
  return 0;
}
