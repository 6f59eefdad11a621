/* gpu_gemm_bench.c - linears of a plugin's device beside OpenBLAS on the host's cores, CLBlast on
 * the same OpenCL device and ggml's Vulkan backend, in interleaved rounds.
 *
 *   gpu_gemm_bench PLUGIN.so [--device I] [--m 1,8,128,512] [--shapes bert|llama|all] [--shape N,K]
 *   [--format NAME]
 *                  [--rounds N] [--gflop G] [--threads N] [--cpu-time] [--clblast] [--ggml LIBGGML-VULKAN.so]
 *
 * A run is one call of the plugin for a program of many linears, each with weights of its own
 * (copies of 48 MiB in all, fewer where G GFLOP are reached before), each adding to the result of
 * the one before; its time has the copies of x to the device and of the last result back in it.
 * OpenBLAS (fp32 whatever the format; sgemv for one row) and CLBlast walk through as many copies
 * without adding, ggml has the same products in one graph with the nearest of its types (int8 Q8_0,
 * int4 Q4_0). Prints medians over the rounds: GFLOP/s, and ratios of times taken in the same
 * round.  "error": the largest difference of 64 elements of the last result from the same sums in
 * double, as a share of their root mean square; each peer's beside its rate. */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "clblast_peer.h"
#include "cpu_encoder.h"
#include "ggml_peer.h"
#include "weight_formats.h"

enum { MAX_ROUNDS = 64, COPIES_BYTES = 48 << 20, MOST_LINEARS = 32, SAMPLES = 64 };

static bool compared(const char *format) {
  static const char *const names[] = {"fp32", "fp16", "int8", "int4"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], format)) return true;
  return false;
}

/* The clock, or the process's time on processors (--cpu-time): on a busy machine that tells what
 * one thread takes. */
static bool cpu_time;
static double seconds(void) {
  struct timespec t;
  if (!cpu_time) return now();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(size_t bytes) {
  void *p = huge(bytes);
  if (p) return p;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static float random_unit(uint64_t *seed) { /* in [-0.5, 0.5) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(*seed >> 40) / 16777216.0f - 0.5f;
}

/* ---- what is multiplied ---- */

typedef struct problem {
  shape s;
  int64_t linears;
  accel_plugin_weight_view view; /* the weights in their format */
  float *x, *w;                  /* [m][k]; [n][k]: the weights as numbers */
  int64_t at[SAMPLES];           /* elements of the result that are looked at */
  double want[SAMPLES], rms;
} problem;

/* Numbers in [-0.5, 0.5) or codes at random, scales one small number. */
static void problem_weights(problem *p, const accel_plugin_format *f, uint64_t *seed) {
  accel_matrix_bytes bytes;
  (void)accel_matrix_sizes(f, p->s.n, p->s.k, &bytes);
  uint8_t *data = memory(bytes.data);
  float *scale = memory(bytes.scale + 4);
  const uint16_t half = accel_f32_to_fp16(0.03125f);
  for (int64_t i = 0; i < p->s.n * p->s.k && f->store <= ACCEL_PLUGIN_F16; i++) {
    const float v = random_unit(seed);
    const uint16_t h = accel_f32_to_fp16(v);
    if (f->store == ACCEL_PLUGIN_F32)
      memcpy(data + 4 * i, &v, 4);
    else
      memcpy(data + 2 * i, &h, 2);
  }
  for (uint64_t i = 0; i < bytes.data && f->store > ACCEL_PLUGIN_F16; i++)
    data[i] = (uint8_t)(random_unit(seed) * 256.0f);
  for (uint64_t i = 0; f->scale == ACCEL_PLUGIN_F32 && i < bytes.scale / 4; i++)
    scale[i] = 0.00390625f;
  for (uint64_t i = 0; f->scale == ACCEL_PLUGIN_F16 && i < bytes.scale / 2; i++)
    memcpy((char *)scale + 2 * i, &half, 2);
  p->view = (accel_plugin_weight_view){.data = data, .scale = bytes.scale ? scale : NULL};
  const accel_matrix matrix = {
      .format = *f, .n = p->s.n, .k = p->s.k, .data = data, .scale = p->view.scale};
  accel_matrix_rows(&matrix, 0, p->s.n, p->w);
}

static problem problem_make(shape s, const accel_plugin_format *f, double gflop) {
  const double flop = 2e-9 * (double)s.m * (double)s.n * (double)s.k;
  problem p = {.s = s, .linears = COPIES_BYTES / (s.n * s.k * 4) + 1};
  uint64_t seed = 1;
  if (p.linears > MOST_LINEARS) p.linears = MOST_LINEARS;
  while (p.linears > 1 && (double)p.linears * flop > gflop) p.linears--;
  p.x = memory((size_t)(s.m * s.k) * 4);
  p.w = memory((size_t)(s.n * s.k) * 4);
  for (int64_t i = 0; i < s.m * s.k; i++) p.x[i] = random_unit(&seed);
  problem_weights(&p, f, &seed);
  for (int i = 0; i < SAMPLES; i++) {
    const int64_t row = i % 2 ? s.m - 1 - i / 2 % s.m : i / 2 % s.m,
                  column = i < 2 ? (s.n - 1) * i
                                 : (int64_t)((random_unit(&seed) + 0.5f) * (float)s.n) % s.n;
    p.at[i] = row * s.n + column;
    for (int64_t j = 0; j < s.k; j++)
      p.want[i] += (double)p.x[row * s.k + j] * (double)p.w[column * s.k + j];
    p.rms += p.want[i] * p.want[i] / SAMPLES;
  }
  p.rms = sqrt(p.rms);
  return p;
}

static void problem_free(problem *p) {
  free(p->x);
  free(p->w);
  free((void *)(uintptr_t)p->view.data);
  free((void *)(uintptr_t)p->view.scale);
}

/* y is `times` times the product. */
static double problem_error(const problem *p, const float *y, double times) {
  double worst = 0;
  for (int i = 0; i < SAMPLES; i++) {
    const double d = fabs((double)y[p->at[i]] / times - p->want[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst / p->rms;
}

/* ---- ours ---- */

typedef struct ours {
  const accel_plugin *plugin;
  cpu_encoder e;
  accel_plugin_host host;
  accel_plugin_endpoint *endpoint;
  const problem *p;
  float *y;
} ours;

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  (void)index, (void)error;
  *out = ((ours *)self)->p->view;
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }
static void complain(void *self, int level, const char *message) {
  (void)self;
  if (level <= 1) fprintf(stderr, "%s\n", message);
}

static void ours_program(cpu_encoder *e, const problem *p, const accel_plugin_format *f) {
  cpu_encoder_begin(e);
  e->p.n_space = 0;
  const int32_t x = cpu_encoder_tensor(e, ACCEL_PLUGIN_TENSOR_INPUT, ACCEL_PLUGIN_F32, 1,
                                       cpu_encoder_constant(e, p->s.k), -1);
  int32_t y = -1;
  for (int64_t i = 0; i < p->linears; i++) {
    const int32_t w = cpu_encoder_weight(e, p->s.n, p->s.k, ACCEL_PLUGIN_USE_LINEAR);
    e->format[e->p.n_weight - 1] = *f;
    y = cpu_encoder_node(e, ACCEL_PLUGIN_OP_LINEAR, x, w, -1, y, p->s.n, 0, 0);
    e->tensor[y].space = -1;
  }
  e->inputs[0] = x;
  e->outputs[0] = y;
  e->entry = (accel_plugin_entry){.name = "linears",
                                  .node = e->order,
                                  .n_node = e->p.n_node,
                                  .in = e->inputs,
                                  .out = e->outputs,
                                  .n_in = 1,
                                  .n_out = 1};
}

static ours *ours_make(const accel_plugin *plugin, uint32_t device, const problem *p,
                       const struct weight_format *f) {
  ours *o = calloc(1, sizeof *o);
  accel_plugin_error error = {.size = sizeof error};
  o->plugin = plugin;
  o->p = p;
  o->y = memory((size_t)(p->s.m * p->s.n) * 4);
  ours_program(&o->e, p, &f->format);
  o->host = (accel_plugin_host){.size = sizeof o->host,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .self = o,
                                .log = complain,
                                .weight_map = map,
                                .weight_unmap = unmap};
  accel_plugin_options options = {.size = sizeof options, .host = &o->host};
  options.precision =
      (accel_plugin_precision){.size = sizeof options.precision, .format = o->e.format};
  snprintf(options.precision.name, sizeof options.precision.name, "%s", f->name);
  if (plugin->init(device, &o->e.p, &options, &o->endpoint, &error)) {
    fprintf(stderr, "init: %s\n", error.message);
    exit(1);
  }
  return o;
}

static void ours_free(ours *o) {
  o->plugin->cleanup(o->endpoint, &o->host);
  free(o->y);
  free(o);
}

/* Seconds a product. */
static double ours_time(ours *o) {
  const shape *s = &o->p->s;
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_view in = {.size = sizeof in,
                          .dtype = ACCEL_PLUGIN_F32,
                          .rank = 2,
                          .host = o->p->x,
                          .dim = {s->m, s->k}},
                    out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 2,
                           .host = o->y,
                           .capacity = (uint64_t)(s->m * s->n) * 4};
  accel_plugin_run r = {.size = sizeof r, .host = &o->host};
  const double start = seconds();
  if (o->plugin->handler(o->endpoint, NULL, &r, &in, 1, &out, 1, &error)) {
    fprintf(stderr, "run: %s\n", error.message);
    exit(1);
  }
  return (seconds() - start) / (double)o->p->linears;
}

/* ---- OpenBLAS ---- */

static void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                     float, float *, int);
static void (*sgemv)(int, int, int, int, float, const float *, int, const float *, int, float,
                     float *, int);

/* Its core for AVX-512 where the processor has that: releases older than a processor take the
 * plainest one. */
static bool blas_open(const char *threads) {
  setenv("OPENBLAS_NUM_THREADS", threads, 1);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  *(void **)&sgemm = dlsym(library, "cblas_sgemm");
  *(void **)&sgemv = dlsym(library, "cblas_sgemv");
  return sgemm && sgemv;
}

static double blas_time(const problem *p, const float *copies, float *y) {
  const int m = (int)p->s.m, n = (int)p->s.n, k = (int)p->s.k;
  const double start = seconds();
  for (int64_t c = 0; c < p->linears; c++) {
    const float *w = copies + c * p->s.n * p->s.k;
    if (m == 1)
      sgemv(101, 111, n, k, 1.0f, w, k, p->x, 1, 0.0f, y, 1);
    else
      sgemm(101, 111, 112, m, n, k, 1.0f, p->x, k, w, k, 0.0f, y, n);
  }
  return (seconds() - start) / (double)p->linears;
}

/* OpenBLAS's threads go on looking for work for 2^26 cycles before they sleep, on processors that
 * the next side needs. */
static void rest(void) { nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL); }

/* ---- one line of the table ---- */

enum { OURS, BLAS, CLBLAST, GGML, SIDES };
static const char *const side_names[] = {"", "OpenBLAS", "CLBlast", "ggml"};
#define VULKAN_FUNCTIONS(X)                 \
  X(void *, ggml_backend_vk_init, (size_t)) \
  X(void *, ggml_backend_vk_buffer_type, (size_t))
VULKAN_FUNCTIONS(GGML_POINTER)
static bool ggml_vulkan_open(const char *path) {
  void *library = ggml_open(path);
  if (!library) return false;
  VULKAN_FUNCTIONS(GGML_LOAD)
  return true;
}

typedef struct settings {
  const accel_plugin *plugin;
  uint32_t device;
  int rounds;
  double gflop;
  bool has[SIDES];
} settings;

static void report(const settings *o, const problem *p, const char *format,
                   double t[SIDES][MAX_ROUNDS], const double error[SIDES]) {
  const double flop = 2e-9 * (double)p->s.m * (double)p->s.n * (double)p->s.k;
  printf("| %lld x %lld | %s | %lld |", (long long)p->s.n, (long long)p->s.k, format,
         (long long)p->s.m);
  for (int side = 0; side < SIDES; side++) {
    double rate[MAX_ROUNDS], ratio[MAX_ROUNDS];
    if (!o->has[side]) continue;
    for (int r = 0; r < o->rounds; r++)
      rate[r] = flop / t[side][r], ratio[r] = t[side][r] / t[OURS][r];
    printf(" %.3g", median(rate, (size_t)o->rounds));
    if (side == OURS)
      printf(" | %.0e |", error[side]);
    else
      printf(" (%.0e) | %.2f |", error[side], median(ratio, (size_t)o->rounds));
  }
  printf("\n");
  fflush(stdout);
}

static void compare(const settings *o, shape s, const struct weight_format *f) {
  static double t[SIDES][MAX_ROUNDS];
  double error[SIDES] = {0};
  problem p = problem_make(s, &f->format, o->gflop);
  const size_t size = (size_t)(s.n * s.k);
  float *y = memory((size_t)(s.m * s.n) * 4),
        *copies = o->has[BLAS] ? memory(size * 4 * (size_t)p.linears) : NULL;
  ours *mine = ours_make(o->plugin, o->device, &p, f);
  clblast_peer other = {0};
  ggml_peer ggml = {0};
  for (int64_t c = 0; copies && c < p.linears; c++)
    memcpy(copies + (size_t)c * size, p.w, size * 4);
  if ((o->has[CLBLAST] && !clblast_peer_make(&other, p.w, p.x, s, p.linears)) ||
      (o->has[GGML] &&
       !ggml_peer_make(&ggml, ggml_backend_vk_init(0), ggml_backend_vk_buffer_type(0),
                       ggml_backend_vk_buffer_type(0), ggml_type_of(f->peer), p.w, p.x, s,
                       p.linears, 0))) {
    fprintf(stderr, "a peer has no memory\n");
    exit(1);
  }
  for (int r = -1; r < o->rounds; r++) { /* the first warms up */
    const int at = r < 0 ? 0 : r;
    if (o->has[BLAS] && !cpu_time) rest();
    t[OURS][at] = ours_time(mine);
    if (o->has[BLAS]) t[BLAS][at] = blas_time(&p, copies, y);
    if (o->has[BLAS] && r < 0) error[BLAS] = problem_error(&p, y, 1);
    if (o->has[CLBLAST]) t[CLBLAST][at] = clblast_peer_time(&other, seconds);
    if (o->has[GGML]) t[GGML][at] = ggml_peer_time(&ggml, seconds);
  }
  error[OURS] = problem_error(&p, mine->y, (double)p.linears);
  if (o->has[CLBLAST]) {
    clblast_peer_read(&other, y);
    error[CLBLAST] = problem_error(&p, y, 1);
    clblast_peer_free(&other);
  }
  if (o->has[GGML]) {
    ggml_backend_tensor_get(ggml.last, y, 0, (size_t)(s.m * s.n) * 4);
    error[GGML] = problem_error(&p, y, 1);
    ggml_peer_free(&ggml);
  }
  report(o, &p, f->name, t, error);
  ours_free(mine);
  problem_free(&p);
  free(copies);
  free(y);
}

static const accel_plugin *plugin_open(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  accel_plugin_query_fn query = NULL;
  if (library) *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  const accel_plugin *plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) fprintf(stderr, "%s\n", library ? "not a plugin of this ABI" : dlerror());
  return plugin;
}

static const shape shapes[] = {
    {"bert", 0, 768, 768, 0},    {"bert", 0, 3072, 768, 0},    {"bert", 0, 768, 3072, 0},
    {"llama", 0, 2048, 2048, 0}, {"llama", 0, 256, 2048, 0},   {"llama", 0, 5632, 2048, 0},
    {"llama", 0, 2048, 5632, 0}, {"llama", 1, 32000, 2048, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char usage[] =
    "usage: gpu_gemm_bench PLUGIN.so [--device I] [--m 1,8,128,512] [--shapes bert|llama|all] "
    "[--shape N,K] [--format "
    "NAME]\n"
    "                      [--rounds N] [--gflop G] [--threads N] [--cpu-time] [--clblast] [--ggml "
    "LIBGGML-VULKAN.so]\n";

int main(int argc, char **argv) {
  settings o = {.rounds = 7, .gflop = 8, .has = {[OURS] = true}};
  const char *rows = "1,8,128,512", *which = "all", *format = NULL, *threads = "2", *ggml = NULL;
  long long n = 0, k = 0;
  if (argc < 2) return fputs(usage, stderr), 2;
  for (int i = 2; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--clblast") || !strcmp(argv[i], "--cpu-time")) {
      *(argv[i][3] == 'l' ? &o.has[CLBLAST] : &cpu_time) = true;
      continue;
    }
    if (value && !strcmp(argv[i], "--device"))
      o.device = (uint32_t)atoi(value);
    else if (value && !strcmp(argv[i], "--m"))
      rows = value;
    else if (value && !strcmp(argv[i], "--shapes"))
      which = value;
    else if (value && !strcmp(argv[i], "--format"))
      format = value;
    else if (value && !strcmp(argv[i], "--rounds"))
      o.rounds = atoi(value);
    else if (value && !strcmp(argv[i], "--gflop"))
      o.gflop = atof(value);
    else if (value && !strcmp(argv[i], "--threads"))
      threads = value;
    else if (value && !strcmp(argv[i], "--ggml"))
      ggml = value;
    else if (!value || strcmp(argv[i], "--shape") || sscanf(value, "%lld,%lld", &n, &k) != 2 ||
             n < 1 || k < 1)
      return fputs(usage, stderr), 2;
    i++;
  }
  if (o.rounds < 1 || o.rounds > MAX_ROUNDS) o.rounds = 7;
  if (!(o.plugin = plugin_open(argv[1]))) return 1;
  o.has[BLAS] = blas_open(threads);
  if (o.has[CLBLAST] && !clblast_open())
    return fprintf(stderr, "no libclblast.so.1 and OpenCL device for it\n"), 1;
  o.has[GGML] = ggml != NULL;
  if (ggml && !ggml_vulkan_open(ggml)) return 1;
  printf("| N x K | weights | M | %s GFLOP/s | error |", o.plugin->name);
  for (int side = BLAS; side < SIDES; side++)
    if (o.has[side]) printf(" %s (error) | times its |", side_names[side]);
  printf("\n|---|---|---|---|---|");
  for (int side = BLAS; side < SIDES; side++)
    if (o.has[side]) printf("---|---|");
  printf("\n");
  for (int i = 0; i < (n ? 1 : SHAPES); i++)
    for (int f = 0; f < WEIGHT_FORMATS; f++)
      for (const char *m = rows; *m; m += strspn(m, "0123456789"), m += *m == ',') {
        shape s = n ? (shape){"all", 0, n, k, 0} : shapes[i];
        if ((strcmp(which, "all") && strcmp(which, s.name)) ||
            (format && strcmp(format, weight_formats[f].name)))
          continue;
        if (!compared(weight_formats[f].name)) continue;
        if (s.m && s.m != atoll(m)) continue;
        s.m = atoll(m);
        if (s.m < 1) return fputs(usage, stderr), 2;
        compare(&o, s, &weight_formats[f]);
      }
  return 0;
}
