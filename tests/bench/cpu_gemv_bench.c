/* cpu_gemv_bench.c - linears of one to sixteen rows, as decoding runs them: how fast coded weights
 * stream, beside what limits them.
 *
 *   cpu_gemv_bench [--isa NAME] [--format NAME] [--threads 1|2|..] [--rows M] [--shape N,K] [--mib
 *   MIB] [--rounds N]
 *
 * Distinct matrices of MIB mebibytes (600) are walked through, so that every byte comes from
 * memory.  Beside each figure: the read bandwidth of the same threads over the same bytes (a loop
 * of vector loads, measured in the same round), and the rate of the same kernel on one panel that
 * stays in the first-level cache, which is the limit of its instructions on a core.  The lower of
 * the two is the bound.  Threads take equal ranges of panels, as cpu_linear.c cuts them.  Medians
 * over the rounds. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "crew.h"
#include "integer_weights.h"
#include "read_all.h"

enum { MAX_ROUNDS = 32, MAX_ROWS = 16 };

/* ---- the work of one thread ---- */

typedef struct work {
  const cpu_kernels *kernels;
  const integer_weights *w;
  cpu_gemm g; /* with x and y */
  int64_t rows;
} work;

static void multiply(const void *arg, int thread, int threads) {
  const work *k = arg;
  const integer_weights *w = k->w;
  const int64_t first = w->panels * thread / threads, last = w->panels * (thread + 1) / threads;
  for (int64_t c = 0; c < w->copies; c++) {
    cpu_gemm g = k->g;
    g.w = integer_gemm(w, c).w;
    k->kernels->linear[w->shape.layout].run(&g, 0, k->rows, first, last);
  }
}

static void read_weights(const void *arg, int thread, int threads) {
  const work *k = arg;
  const int64_t all = k->w->copies * k->w->panels * k->w->panel_bytes,
                begin = all * thread / threads / 64 * 64,
                end = all * (thread + 1) / threads / 64 * 64;
  read_all(k->kernels->isa, k->w->packed + begin, end - begin);
}

/* Bytes a second of the kernel over panels that fit the first-level cache with what it asks for
 * ahead of them: 20 KiB, on one core. */
enum { CACHED = 20 << 10 };
static double cached_rate(const work *model) {
  const integer_weights *w = model->w;
  cpu_gemm g = model->g;
  int64_t n = 0, panels = CACHED / w->panel_bytes;
  if (panels < 1) { /* a shorter k: the same instructions */
    panels = 1;
    g.k = g.k * CACHED / w->panel_bytes / 256 * 256;
  }
  const double bytes = (double)w->panel_bytes * (double)panels * (double)g.k / (double)w->shape.k;
  double start = now();
  for (; now() - start < 0.02; n += 8)
    for (int i = 0; i < 8; i++)
      model->kernels->linear[w->shape.layout].run(&g, 0, model->rows, 0, panels);
  return (double)n * bytes / (now() - start);
}

static bool bench(const cpu_kernels *kernels, const integer_format *format, int threads,
                  int64_t rows, int64_t n, int64_t k, int64_t mib, int rounds) {
  integer_weights w;
  if (!integer_weights_make(&w, kernels, format, n, k, mib << 20))
    return fprintf(stderr, "out of memory\n"), false;
  const int64_t ld = cpu_act_row(w.x, k);
  float *x = malloc((size_t)(rows * k) * 4), *y = malloc((size_t)(rows * n) * 4), scale[MAX_ROWS],
        zero[MAX_ROWS];
  uint8_t *codes = aligned_alloc(64, (size_t)(rows * ld));
  if (!x || !y || !codes) return fprintf(stderr, "out of memory\n"), false;
  for (int64_t i = 0; i < rows * k; i++) x[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  cpu_convert_rows(kernels->convert[w.x], w.x, x, k, rows, k, codes, scale, zero);
  work model = {.kernels = kernels, .w = &w, .g = integer_gemm(&w, 0), .rows = rows};
  model.g.x = codes;
  model.g.ldx = ld;
  model.g.x_scale = scale;
  model.g.x_zero = zero;
  model.g.y = y;
  double rate[MAX_ROUNDS], reading[MAX_ROUNDS], cached[MAX_ROUNDS];
  const double bytes = (double)w.copies * (double)w.panels * (double)w.panel_bytes;
  for (int r = 0; r < rounds; r++) {
    reading[r] = bytes / crew_run(read_weights, &model, threads) * 1e-9;
    rate[r] = bytes / crew_run(multiply, &model, threads) * 1e-9;
    cached[r] = cached_rate(&model) * 1e-9;
  }
  double a = median(rate, (size_t)rounds), b = median(reading, (size_t)rounds),
         c = median(cached, (size_t)rounds) * threads, bound = b < c ? b : c;
  printf(
      "%-10s %-6s %d thread%s %lld row%s %5lld x %5lld %5.2f bits: %6.2f GB/s, %5.1f %% of %6.2f "
      "(reading %6.2f, "
      "instructions %6.2f)"
      "  %6.3f ms per 10^8 weights\n",
      cpu_isa_name(kernels->isa), format->name, threads, threads > 1 ? "s," : ", ", (long long)rows,
      rows > 1 ? "s," : ", ", (long long)n, (long long)k,
      8.0 * (double)w.panels * (double)w.panel_bytes / ((double)n * (double)k), a, 100 * a / bound,
      bound, b, c,
      1e3 * (double)w.panels * (double)w.panel_bytes / ((double)n * (double)k) * 0.1 / a);
  fflush(stdout);
  integer_weights_free(&w);
  free(x);
  free(y);
  free(codes);
  return true;
}

int main(int argc, char **argv) {
  int rounds = 5, threads = 1;
  long long rows = 1, n = 4096, k = 4096, mib = 600;
  const char *isa = NULL, *format = NULL;
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(argv[i], "--isa"))
      isa = value, i++;
    else if (!strcmp(argv[i], "--format"))
      format = value, i++;
    else if (!strcmp(argv[i], "--rounds"))
      rounds = atoi(value), i++;
    else if (!strcmp(argv[i], "--threads"))
      threads = atoi(value), i++;
    else if (!strcmp(argv[i], "--rows"))
      rows = atoll(value), i++;
    else if (!strcmp(argv[i], "--mib"))
      mib = atoll(value), i++;
    else if (!strcmp(argv[i], "--shape") && sscanf(value, "%lld,%lld", &n, &k) == 2)
      i++;
    else
      return fprintf(stderr,
                     "usage: cpu_gemv_bench [--isa NAME] [--format NAME] [--threads N] [--rows "
                     "1-16] [--shape N,K] [--mib "
                     "MIB] [--rounds N]\n"),
             2;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS || threads < 1 || threads > CREW_MOST || rows < 1 ||
      rows > MAX_ROWS || n < 1 || k < 256 || mib < 1)
    return fprintf(stderr, "a value is out of range\n"), 2;
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, count = cpu_isa_list(list); i < count; i++) {
    cpu_kernels kernels;
    if (isa && strcmp(isa, cpu_isa_name(list[i]))) continue;
    cpu_kernels_of(list[i], &kernels);
    for (size_t f = 0; f < INTEGER_FORMATS; f++)
      if ((!format || !strcmp(format, integer_formats[f].name)) &&
          !bench(&kernels, &integer_formats[f], threads, rows, n, k, mib, rounds))
        return 1;
  }
  return 0;
}
