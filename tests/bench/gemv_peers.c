/* gemv_peers.c - products of one row with weights streamed from memory, beside ggml's on the same
 * shapes in the same run.
 *
 *   gemv_peers [--ggml LIBGGML-CPU.SO] [--threads 1,2] [--rounds N] [--shape N,K] [--format NAME]
 *
 * The shapes are those of a 1.1B LLaMA.  Every format's matrices are distinct copies of MEGABYTES
 * in all, read once a round, one product after the other, x converted for each as a model does.
 * Prints, as medians over interleaved rounds: bytes of weights a second, their share of what plain
 * loops read on as many threads at that time, the same with weights that stay in L2 (what the
 * kernel's instructions allow: one thread), weights a second, and how that compares with ggml's
 * type.  "repacked": ggml's weights in the interleaved layout that it makes of some types when a
 * model is loaded. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "core/threads.h"
#include "ggml_peer.h"
#include "cpu_pack.h"
#include "weight_formats.h"

enum { MEGABYTES = 640, MAX_ROUNDS = 32, MAX_THREADS = 64, L2_BYTES = 512 << 10 };

/* Of x[i], or of x[i] / by[i]: shares of what was measured next to it stand a machine that others
 * use, too. */
static double median_of(const double *x, const double *by, int n) {
  double sorted[MAX_ROUNDS];
  for (int i = 0; i < n; i++) sorted[i] = by ? x[i] / by[i] : x[i];
  return median(sorted, (size_t)n);
}
static void *memory(size_t bytes) {
  void *p = huge(bytes);
  if (p) return p;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

/* ---- reading alone ---- */

typedef struct reading {
  const char *data;
  size_t bytes;
  uint32_t tasks;
  bool ahead;
} reading;
static void read_task(void *arg, uint32_t index, uint32_t worker) {
  typedef uint64_t v8 __attribute__((vector_size(64)));
  const reading *r = arg;
  (void)worker;
  const size_t part = r->bytes / r->tasks / 4 / 64 * 64;
  const char *data = r->data + index * part * 4;
  v8 sum = {0};
  for (size_t i = 0; i < part; i += 64)
    for (size_t s = 0; s < 4; s++) {
      if (r->ahead) __builtin_prefetch(data + s * part + i + 2048);
      sum += *(const v8 *)(const void *)(data + s * part + i);
    }
  __asm__ volatile("" ::"r"(sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7])
                   : "memory");
}
/* GB/s; the better of two loops. */
static double read_rate(accel__pool *pool, const char *data, size_t bytes) {
  double best = 0;
  for (int ahead = 0; ahead < 2; ahead++) {
    reading r = {data, bytes, accel__pool_size(pool) * 4, ahead != 0};
    double start = now();
    accel__pool_run(pool, r.tasks, read_task, &r);
    double rate = (double)bytes / (now() - start) * 1e-9;
    if (rate > best) best = rate;
  }
  return best;
}

/* ---- ours ---- */

/* Element i of a stream of ordinary numbers of that type: what they are does not matter for speed,
 * as long as none is subnormal, infinite or NaN. */
static void fill(uint8_t dtype, uint8_t *to, uint64_t bytes) {
  const uint64_t unit = dtype == ACCEL_PLUGIN_F32                                 ? 4
                        : dtype == ACCEL_PLUGIN_F16 || dtype == ACCEL_PLUGIN_BF16 ? 2
                                                                                  : 1;
  const bool coded = dtype == ACCEL_PLUGIN_I8 || dtype == ACCEL_PLUGIN_I4 ||
                     dtype == ACCEL_PLUGIN_U4 || dtype == ACCEL_PLUGIN_E2M1;
  for (uint64_t i = 0; i < bytes; i++) {
    uint8_t noise = (uint8_t)(i * 2654435761u >> 13);
    to[i] = coded                        ? noise
            : dtype == ACCEL_PLUGIN_E8M0 ? 120
            : i % unit == unit - 1       ? (uint8_t)(0x30 + noise % 8)
                                         : noise;
  }
}

typedef struct weights {
  const struct weight_format *f;
  const cpu_linear_kernel *kernel;
  cpu_act_format x; /* what it reads */
  cpu_convert_fn *convert;
  int64_t n, k, panels, panel_bytes, copies;
  char *packed; /* [copies][panels][panel_bytes] */
} weights;

static bool weights_make(weights *w, const cpu_kernels *kernels, const struct weight_format *f,
                         int64_t n, int64_t k) {
  accel_matrix_bytes bytes = {0};
  cpu_panel panel = {.layout = cpu_layout_of(kernels, &f->format),
                     .kernels = kernels,
                     .format = &f->format,
                     .k = k};
  panel.cols = kernels->linear[panel.layout].cols;
  *w = (weights){.f = f,
                 .kernel = &kernels->linear[panel.layout],
                 .n = n,
                 .k = k,
                 .panels = (n + panel.cols - 1) / panel.cols};
  w->x = cpu_act_format_beside(w->kernel->x, k, f->format.group_k);
  w->convert = kernels->convert[w->x];
  w->panel_bytes = (int64_t)cpu_panel_bytes(&panel);
  const int64_t one = w->panels * w->panel_bytes;
  w->copies = ((int64_t)MEGABYTES << 20) / one + 1;
  if (!w->kernel->run || !accel_matrix_sizes(&f->format, n, k, &bytes)) return false;
  w->packed = memory((size_t)(one * w->copies));
  uint8_t *data = malloc(bytes.data), *scale = malloc(bytes.scale + 1),
          *zero = malloc(bytes.zero + 1);
  const float outer = 1.0f;
  fill(f->format.store, data, bytes.data);
  fill(f->format.scale, scale, bytes.scale);
  memset(zero, 7, bytes.zero + 1);
  cpu_matrix source = {
      .format = &f->format,
      .view = {data, bytes.scale ? scale : NULL, bytes.zero ? zero : NULL, &outer},
      .f32 = f->format.store == ACCEL_PLUGIN_F32 ? (const float *)(const void *)data : NULL,
      .n = n,
      .k = k};
  for (int64_t p = 0; p < w->panels; p++) {
    cpu_column column[64] = {{0}};
    for (int64_t c = 0; c < panel.cols && p * panel.cols + c < n; c++)
      column[c] = (cpu_column){&source, p * panel.cols + c};
    cpu_panel_pack(&panel, column, w->packed + p * w->panel_bytes);
  }
  for (int64_t c = 1; c < w->copies; c++) memcpy(w->packed + c * one, w->packed, (size_t)one);
  free(data);
  free(scale);
  free(zero);
  return true;
}

typedef struct product {
  const weights *w;
  cpu_gemm g;
  uint32_t tasks;
} product;
static void product_task(void *arg, uint32_t index, uint32_t worker) {
  const product *p = arg;
  (void)worker;
  p->w->kernel->run(&p->g, 0, 1, p->w->panels * index / p->tasks,
                    p->w->panels * (index + 1) / p->tasks);
}

/* One pass over all copies: seconds a product.  y is summed up so that a NaN is seen. */
static double weights_time(const weights *w, accel__pool *pool, const float *x, void *room,
                           float *y) {
  accel__pool_turn turn;
  float scale, zero;
  product p = {.w = w, .tasks = accel__pool_size(pool)};
  if (p.tasks > 1 && w->n * w->k > 1 << 25) p.tasks *= 4; /* as cpu_linear.c cuts them */
  accel__pool_enter(pool, 0, &turn);
  double start = now();
  for (int64_t c = 0; c < w->copies; c++) {
    if (w->convert) cpu_convert_rows(w->convert, w->x, x, w->k, 1, w->k, room, &scale, &zero);
    p.g = (cpu_gemm){.n = w->n,
                     .k = w->k,
                     .x = w->convert ? room : x,
                     .ldx = w->k,
                     .x_scale = &scale,
                     .x_zero = &zero,
                     .w = w->packed + c * w->panels * w->panel_bytes,
                     .panel_bytes = w->panel_bytes,
                     .group = w->f->format.group_k,
                     .store = w->f->format.store,
                     .scale = w->f->format.scale,
                     .y = y,
                     .ldy = w->n};
    accel__pool_run(pool, p.tasks, product_task, &p);
  }
  double seconds = (now() - start) / (double)w->copies;
  accel__pool_leave(&turn);
  for (int64_t i = 0; i < w->n; i++)
    if (!isfinite(y[i])) {
      fprintf(stderr, "%s: y[%lld] is %f\n", w->f->name, (long long)i, (double)y[i]);
      exit(1);
    }
  return seconds;
}

/* Bytes a second of one thread over as many panels as stay in L2, GB/s. */
static double weights_cached(const weights *w, const float *x, void *room, float *y) {
  float scale = 1, zero = 0;
  int64_t panels = L2_BYTES / w->panel_bytes, n = 0;
  if (panels > w->panels) panels = w->panels;
  if (panels < 1) panels = 1;
  if (w->convert) cpu_convert_rows(w->convert, w->x, x, w->k, 1, w->k, room, &scale, &zero);
  cpu_gemm g = {.n = w->n,
                .k = w->k,
                .x = w->convert ? room : x,
                .ldx = w->k,
                .x_scale = &scale,
                .x_zero = &zero,
                .w = w->packed,
                .panel_bytes = w->panel_bytes,
                .group = w->f->format.group_k,
                .store = w->f->format.store,
                .scale = w->f->format.scale,
                .y = y,
                .ldy = w->n};
  w->kernel->run(&g, 0, 1, 0, panels);
  double start = now();
  for (; now() - start < 0.01; n++) w->kernel->run(&g, 0, 1, 0, panels);
  return (double)(n * panels * w->panel_bytes) / (now() - start) * 1e-9;
}

/* ---- ggml ---- */

#define CPU_FUNCTIONS(X)                                               \
  X(void *, ggml_backend_cpu_init, (void))                             \
  X(void, ggml_backend_cpu_set_n_threads, (void *, int))               \
  X(void *, ggml_backend_cpu_buffer_type, (void))                      \
  X(void *, ggml_backend_cpu_reg, (void))                              \
  X(void *, ggml_backend_reg_dev_get, (void *, size_t))                \
  X(void *, ggml_backend_reg_get_proc_address, (void *, const char *)) \
  X(const char *, ggml_backend_buft_name, (void *))
CPU_FUNCTIONS(GGML_POINTER)

static bool ggml_cpu_open(const char *path) {
  void *library = ggml_open(path);
  if (!library) return false;
  CPU_FUNCTIONS(GGML_LOAD)
  return true;
}

/* The buffer type in which this type's weights are interleaved at load; NULL: none on this
 * machine. */
static void *repacking(void) {
  void *reg = ggml_backend_cpu_reg();
  void **(*extra)(void *);
  *(void **)&extra = ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
  for (void **type = extra ? extra(ggml_backend_reg_dev_get(reg, 0)) : NULL; type && *type; type++)
    if (strstr(ggml_backend_buft_name(*type), "REPACK")) return *type;
  return NULL;
}

/* source [n][k]; weights live in a buffer of type `kind`. */
static bool peer_make(ggml_peer *p, int type, void *kind, const float *source, const float *x,
                      int64_t n, int64_t k) {
  return ggml_peer_make(p, ggml_backend_cpu_init(), ggml_backend_cpu_buffer_type(), kind, type,
                        source, x, (shape){.m = 1, .n = n, .k = k}, 0, (uint64_t)MEGABYTES << 20);
}

static double peer_time(ggml_peer *p, uint32_t threads) {
  ggml_backend_cpu_set_n_threads(p->backend, (int)threads);
  return ggml_peer_time(p, now);
}

/* Cosine of the last product to the true one. */
static double peer_agrees(ggml_peer *p, const float *source, const float *x, int64_t n, int64_t k) {
  float *y = malloc((size_t)n * 4);
  double aa = 0, bb = 0, ab = 0;
  ggml_backend_tensor_get(p->last, y, 0, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) sum += (double)source[i * k + j] * (double)x[j];
    aa += sum * sum, bb += (double)y[i] * (double)y[i], ab += sum * (double)y[i];
  }
  free(y);
  return ab / sqrt(aa * bb);
}

/* ---- one shape and format ---- */

static float random_unit(uint64_t *seed) { /* in [-0.5, 0.5) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(*seed >> 40) / 16777216.0f - 0.5f;
}

static void compare(const cpu_kernels *kernels, accel__pool *const *pools, int n_pools,
                    const struct weight_format *f, int64_t n, int64_t k, int rounds,
                    bool with_ggml) {
  static double read[MAX_ROUNDS], ours[MAX_ROUNDS], cached[MAX_ROUNDS], theirs[2][MAX_ROUNDS];
  weights w;
  ggml_peer peers[2] = {{0}};
  bool has[2] = {false};
  const char *const names[] = {"", " repacked"};
  float *x = malloc((size_t)k * 4), *y = malloc((size_t)(n + 64) * 4),
        *source = malloc((size_t)(n * k) * 4);
  void *room = aligned_alloc(64, (size_t)(k + 2 * CPU_ACT_STEP) * 4 / 64 * 64);
  uint64_t seed = 1;
  for (int64_t i = 0; i < k; i++) x[i] = random_unit(&seed);
  for (int64_t i = 0; i < n * k; i++) source[i] = random_unit(&seed);
  if (!weights_make(&w, kernels, f, n, k)) {
    printf("%-8s no kernel\n", f->name);
    n_pools = 0;
  }
  if (with_ggml && n_pools) {
    const int type = ggml_type_of(f->peer);
    has[0] = peer_make(&peers[0], type, ggml_backend_cpu_buffer_type(), source, x, n, k);
    void *kind = repacking();
    /* of these types it has the layout for Q4_0 alone; others abort */
    if (kind && !strcmp(f->peer, "Q4_0"))
      has[1] = peer_make(&peers[1], type, kind, source, x, n, k);
  }
  for (int q = 0; q < n_pools; q++) {
    const uint32_t threads = accel__pool_size(pools[q]);
    for (int r = -1; r < rounds; r++) { /* the first warms up */
      int at = r < 0 ? 0 : r;
      read[at] = read_rate(pools[q], w.packed, (size_t)(w.copies * w.panels * w.panel_bytes));
      ours[at] = weights_time(&w, pools[q], x, room, y);
      cached[at] = weights_cached(&w, x, room, y);
      for (int i = 0; i < 2; i++)
        if (has[i]) theirs[i][at] = peer_time(&peers[i], threads);
    }
    const double bytes = (double)(w.panels * w.panel_bytes),
                 seconds = median_of(ours, NULL, rounds);
    double rate[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) rate[r] = bytes / ours[r] * 1e-9;
    printf(
        "%5lld x %-5lld %u thread%s %-8s %6.2f GB/s, %5.1f %% of %6.2f read; in L2 %6.2f GB/s a "
        "thread; %7.2f Gweights/s",
        (long long)n, (long long)k, threads, threads > 1 ? "s" : " ", f->name,
        median_of(rate, NULL, rounds), 100 * median_of(rate, read, rounds),
        median_of(read, NULL, rounds), median_of(cached, NULL, rounds),
        (double)(n * k) / seconds * 1e-9);
    for (int i = 0; i < 2; i++) {
      if (!has[i]) continue;
      double t = median_of(theirs[i], NULL, rounds);
      printf("; x %.2f of %s%s (%.2f GB/s, cosine %.5f)", median_of(theirs[i], ours, rounds),
             f->peer, names[i], peers[i].bytes / t * 1e-9, peer_agrees(&peers[i], source, x, n, k));
    }
    printf("\n");
    fflush(stdout);
  }
  for (int i = 0; i < 2; i++)
    if (with_ggml) ggml_peer_free(&peers[i]);
  free(w.packed);
  free(x);
  free(y);
  free(source);
  free(room);
}

int main(int argc, char **argv) {
  static const int64_t shapes[][2] = {{2048, 2048}, {5632, 2048}, {2048, 5632}, {32000, 2048}};
  const char *ggml = NULL, *threads = "1,2", *format = NULL;
  int rounds = 5, n_pools = 0;
  long long n = 0, k = 0;
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (more && !strcmp(argv[i], "--ggml"))
      ggml = argv[++i];
    else if (more && !strcmp(argv[i], "--threads"))
      threads = argv[++i];
    else if (more && !strcmp(argv[i], "--format"))
      format = argv[++i];
    else if (more && !strcmp(argv[i], "--rounds"))
      rounds = atoi(argv[++i]);
    else if (!more || strcmp(argv[i], "--shape") || sscanf(argv[++i], "%lld,%lld", &n, &k) != 2 ||
             n < 1 || k < 1)
      return fprintf(stderr,
                     "usage: gemv_peers [--ggml LIBGGML-CPU.SO] [--threads 1,2] [--rounds N] "
                     "[--shape N,K] [--format NAME]\n"),
             2;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 5;
  if (ggml && !ggml_cpu_open(ggml)) return 1;
  accel__pool *pools[MAX_THREADS];
  for (const char *p = threads; *p && n_pools < MAX_THREADS;
       p += strspn(p, "0123456789"), p += *p == ',')
    if (accel__pool_create((uint32_t)atoi(p), &pools[n_pools++]))
      return fprintf(stderr, "%s\n", accel__message()), 1;
  cpu_kernels kernels;
  cpu_kernels_of(cpu_isa_choose(NULL, 0), &kernels);
  for (size_t s = 0; s < (n ? 1 : sizeof shapes / sizeof *shapes); s++)
    for (int f = 0; f < WEIGHT_FORMATS; f++)
      if (!format || !strcmp(format, weight_formats[f].name))
        compare(&kernels, pools, n_pools, &weight_formats[f], n ? n : shapes[s][0],
                n ? k : shapes[s][1], rounds, ggml != NULL);
  while (n_pools) accel__pool_destroy(&pools[--n_pools]);
  return 0;
}
