/* cpu_encoder_bench.c - times the CPU plugin on whole BERT-shaped encoders with random weights,
 * without the rest of libaccel.
 *
 *   cpu_encoder_bench PLUGIN.so [--threads N] [--seconds S] [WORKLOAD...]
 *
 * Workloads: bert-b1-s32 bert-b1-s128 bert-b8-s128 minilm-b1-s5 minilm-b1-s16 minilm-b16-s5
 * minilm-b32-s128 ragged (32 sequences of 5 to 120 tokens).  Prints the median and the fastest run, GFLOP/s of the matrix
 * products, their share of what as many cores do in registers alone (fma_peak.h, measured before
 * and after each run; the median of these shares), and the time init took. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "core/threads.h"
#include "cpu_encoder.h"
#include "fma_peak.h"

enum { VOCAB = 30522 };

/* self of the host */
typedef struct model {
  cpu_encoder e;
  float *values; /* of every weight */
  accel__pool *pool;
} model;

/* ---- the host ---- */

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  (void)index;
  (void)error;
  *out = (accel_plugin_weight_view){.data = ((model *)self)->values};
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void run_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  accel__pool_run(((model *)self)->pool, n, fn, arg);
}
static uint32_t count_workers(void *self) { return accel__pool_size(((model *)self)->pool); }

/* ---- measuring ---- */

typedef struct workload {
  const char *name;
  int64_t hidden, inner, heads;
  int layers, batch, length; /* length 0: ragged */
} workload;

static const workload workloads[] = {
    {"bert-b1-s32", 768, 3072, 12, 12, 1, 32},      {"bert-b1-s128", 768, 3072, 12, 12, 1, 128},
    {"bert-b8-s128", 768, 3072, 12, 12, 8, 128},    {"minilm-b1-s5", 384, 1536, 12, 6, 1, 5},
    {"minilm-b1-s16", 384, 1536, 12, 6, 1, 16},     {"minilm-b16-s5", 384, 1536, 12, 6, 16, 5},
    {"minilm-b32-s128", 384, 1536, 12, 6, 32, 128}, {"ragged", 384, 1536, 12, 6, 32, 0},
};

/* Vectors that the plugin uses: what ACCEL_ISA names, else the widest. */
static int vector_bits(void) {
#if defined(__x86_64__)
  const char *isa = getenv("ACCEL_ISA");
  if (isa && !strcmp(isa, "scalar")) return 128;
  if (__builtin_cpu_supports("avx512bw") && !(isa && !strncmp(isa, "avx2", 4)) &&
      !(isa && !strcmp(isa, "avxvnni")))
    return 512;
  if (__builtin_cpu_supports("avx2")) return 256;
#endif
  return 128;
}

static void peak_task(void *arg, uint32_t index, uint32_t worker) {
  (void)worker;
  ((double *)arg)[index] = fma_peak(vector_bits());
}
/* GFLOP/s of all threads at once. */
static double peak(model *m, uint32_t threads) {
  double each[64], all = 0;
  if (threads > 64) threads = 64;
  accel__pool_run(m->pool, threads, peak_task, each);
  for (uint32_t i = 0; i < threads; i++) all += each[i];
  return all;
}

static int run(const accel_plugin *plugin, const workload *w, uint32_t threads, double seconds) {
  model *m = calloc(1, sizeof *m);
  accel_plugin_error error = {.size = sizeof error};
  cpu_encoder_build(&m->e, VOCAB, w->hidden, w->inner, w->heads, w->layers);
  m->values = malloc(m->e.largest * sizeof(float));
  for (uint64_t i = 0; i < m->e.largest; i++)
    m->values[i] = (float)(i * 2654435761u % 1000003) / 1000003.0f * 0.1f - 0.05f;
  if (accel__pool_create(threads, &m->pool)) return 1;
  accel_plugin_host host = {.size = sizeof host,
                            .abi = ACCEL_PLUGIN_ABI_NOW,
                            .self = m,
                            .weight_map = map,
                            .weight_unmap = unmap,
                            .parallel = run_parallel,
                            .workers = count_workers};
  accel_plugin_options options = {
      .size = sizeof options,
      .host = &host,
      .precision = {.size = sizeof options.precision, .name = "fp32", .format = m->e.format}};
  accel_plugin_endpoint *endpoint;
  double before = now();
  if (plugin->init(0, &m->e.p, &options, &endpoint, &error))
    return fprintf(stderr, "%s: %s\n", w->name, error.message), 1;
  double init = now() - before, flop = 0, t[4096], start;
  int32_t lengths[64], rows = 0;
  for (int i = 0; i < w->batch; i++) {
    double s = lengths[i] = w->length ? w->length : 5 + (i * 37 + 11) % 116;
    rows += lengths[i];
    flop += w->layers * (2 * s * (double)(4 * w->hidden * w->hidden + 2 * w->hidden * w->inner) +
                         4 * s * s * (double)w->hidden);
  }
  int32_t *ids = malloc((size_t)rows * sizeof *ids);
  float *y = malloc((size_t)(rows * w->hidden) * sizeof *y);
  for (int32_t i = 0; i < rows; i++) ids[i] = i * 7919 % VOCAB;
  accel_plugin_view in[2] = {
      {.size = sizeof *in, .dtype = ACCEL_PLUGIN_I32, .rank = 1, .host = ids, .dim = {rows}},
      {.size = sizeof *in,
       .dtype = ACCEL_PLUGIN_I32,
       .rank = 1,
       .host = lengths,
       .dim = {w->batch}}};
  accel_plugin_view out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 2,
                           .host = y,
                           .capacity = (uint64_t)(rows * w->hidden) * 4};
  accel_plugin_run r = {.size = sizeof r, .host = &host};
  int n = 0;
  static double share[4096];
  double top = peak(m, threads);
  for (start = now(); n < 4096 && (n < 4 || now() - start < seconds); n++) {
    before = now();
    if (plugin->handler(endpoint, NULL, &r, in, 2, &out, 1, &error))
      return fprintf(stderr, "%s: %s\n", w->name, error.message), 1;
    t[n] = now() - before;
    double after = peak(m, threads);
    share[n] = flop / t[n] * 1e-9 / ((top + after) / 2);
    top = after;
  }
  qsort(t + 1, (size_t)n - 1, sizeof *t, ascending); /* the first one warms up */
  qsort(share + 1, (size_t)n - 1, sizeof *share, ascending);
  double median = t[1 + (n - 1) / 2];
  printf(
      "%-16s %u threads  median %8.3f ms  min %8.3f ms  %6.1f GFLOP/s, %5.1f %% of %d-bit "
      "registers' %6.1f  init %6.1f ms  "
      "first %8.3f ms  y[0] %.6f\n",
      w->name, threads, median * 1e3, t[1] * 1e3, flop / median * 1e-9,
      100 * share[1 + (n - 1) / 2], vector_bits(), top, init * 1e3, t[0] * 1e3, (double)y[0]);
  fflush(stdout);
  plugin->cleanup(endpoint, &host);
  accel__pool_destroy(&m->pool);
  free(ids);
  free(y);
  free(m->values);
  free(m);
  return 0;
}

int main(int argc, char **argv) {
  uint32_t threads = 0;
  double seconds = 2;
  bool any = false;
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library)
    return fprintf(
               stderr,
               "usage: cpu_encoder_bench PLUGIN.so [--threads N] [--seconds S] [WORKLOAD...]\n%s\n",
               argc > 1 ? dlerror() : ""),
           2;
  accel_plugin_query_fn query;
  *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  const accel_plugin *plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s: not a plugin of this ABI\n", argv[1]), 1;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--threads") && i + 1 < argc)
      threads = (uint32_t)atoi(argv[++i]);
    else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
      seconds = atof(argv[++i]);
    else
      any = true;
  }
  int failures = 0;
  for (size_t k = 0; k < sizeof workloads / sizeof *workloads; k++) {
    bool wanted = !any;
    for (int i = 2; i < argc; i++) wanted |= !strcmp(argv[i], workloads[k].name);
    for (uint32_t t = threads ? threads : 1; wanted && t <= (threads ? threads : 2); t++)
      failures += run(plugin, &workloads[k], t, seconds);
  }
  return failures != 0;
}
