/* cpu_decode_bench.c - attention of one query row over keys in the pages of sessions, as decoding
 * runs it: how fast keys and values stream.
 *
 *   cpu_decode_bench [--isa NAME] [--kv fp32|fp16|bf16|int8] [--threads N] [--heads KEY_HEADS]
 *   [--group QUERY_HEADS_EACH]
 *                    [--dim D] [--keys N] [--mib MIB] [--rounds N]
 *
 * As many layers' caches as make MIB mebibytes (400) are walked through, so that every byte comes
 * from memory; key heads over ranges of 1024 keys are shared out to the threads, as cpu_attention.c
 * cuts them.  Beside each figure: the read bandwidth of the same threads over the same pages,
 * measured in the same round, and the rate of the same kernel over one head's keys that stay in the
 * second-level cache, on all threads at once, as they may share a core: the limit of its
 * instructions.  The lower of the two is the bound.  Medians over the rounds. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_timer.h"
#include "crew.h"
#include "read_all.h"

enum { PAGE_SHIFT = 8, PAGE_ROWS = 1 << PAGE_SHIFT };
enum { MAX_ROUNDS = 32, RANGE = 2 * CPU_ATTENTION_KEYS, CACHED = 512 << 10 };

typedef struct setting {
  int32_t kv;
  int64_t heads, group, dim, keys, mib;
  int threads, rounds;
} setting;

typedef struct cache {
  int64_t layers, pages, page_bytes, row_bytes;
  void **page; /* [layers][pages]: keys [heads][PAGE_ROWS], then values alike */
} cache;

typedef struct work {
  const cpu_kernels *kernels;
  const setting *s;
  const cache *c;
  const float *q;
  float *parts; /* [ranges][heads * group][2 + dim] */
} work;

static int64_t ranges_of(const setting *s) { return (s->keys + RANGE - 1) / RANGE; }

static void run_unit(const work *k, int64_t layer, int64_t head, int64_t range) {
  const setting *s = k->s;
  const int64_t size = cpu_kv_bytes(s->kv), row = k->c->row_bytes, end = (range + 1) * RANGE;
  cpu_attention a = {.q = k->q + head * s->group * s->dim,
                     .page = k->c->page + layer * k->c->pages,
                     .page_shift = PAGE_SHIFT,
                     .k_offset = head * PAGE_ROWS * row,
                     .v_offset = (s->heads + head) * PAGE_ROWS * row,
                     .k_scale = row - 4,
                     .v_scale = row - 4,
                     .kv = s->kv,
                     .ldq = s->dim,
                     .ldk = row / size,
                     .ldv = row / size,
                     .first = range * RANGE,
                     .keys = end < s->keys ? end : s->keys,
                     .dk = s->dim,
                     .dv = s->dim,
                     .scale = 0.1f,
                     .left = -1,
                     .right = 0,
                     .shift = s->keys - 1};
  a.part = k->parts + (range * s->heads + head) * s->group * (2 + s->dim);
  (cpu_decodes_bf16(k->kernels, &a) ? k->kernels->decode_bf16 : k->kernels->decode)(&a, 0,
                                                                                    s->group);
}

static void attend(const void *arg, int thread, int threads) {
  const work *k = arg;
  const int64_t heads = k->s->heads, units = heads * ranges_of(k->s),
                first = units * thread / threads, last = units * (thread + 1) / threads;
  for (int64_t layer = 0; layer < k->c->layers; layer++)
    for (int64_t u = first; u < last; u++) run_unit(k, layer, u % heads, u / heads);
}

static void read_pages(const void *arg, int thread, int threads) {
  const work *k = arg;
  const int64_t pages = k->c->layers * k->c->pages;
  for (int64_t p = pages * thread / threads; p < pages * (thread + 1) / threads; p++)
    read_all(k->kernels->isa, k->c->page[p], k->c->page_bytes);
}

/* Rows like a layer's, stored by the kernel that stores them. */
static bool fill(const cpu_kernels *kernels, const setting *s, cache *c) {
  float *x = malloc((size_t)s->dim * sizeof *x);
  c->row_bytes = s->dim * cpu_kv_bytes(s->kv) + (s->kv == ACCEL_PLUGIN_I8 ? 4 : 0);
  c->page_bytes = (2 * s->heads * PAGE_ROWS * c->row_bytes + 63) / 64 * 64;
  c->pages = (s->keys + PAGE_ROWS - 1) / PAGE_ROWS;
  c->layers = (s->mib << 20) / (c->pages * c->page_bytes) + 1;
  c->page = calloc((size_t)(c->layers * c->pages), sizeof *c->page);
  if (!x || !c->page) return false;
  for (int64_t i = 0; i < s->dim; i++) x[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  for (int64_t p = 0; p < c->layers * c->pages; p++) {
    if (!(c->page[p] = aligned_alloc(64, (size_t)c->page_bytes))) return false;
    for (int64_t r = 0; r < 2 * s->heads * PAGE_ROWS; r++)
      kernels->store(s->kv, x, s->dim, (char *)c->page[p] + r * c->row_bytes);
  }
  free(x);
  return true;
}

static void drop(cache *c) {
  for (int64_t p = 0; c->page && p < c->layers * c->pages; p++) free(c->page[p]);
  free(c->page);
}

/* Each thread by itself over a range of one head's keys of its own, `times` times. */
typedef struct cached_work {
  const work *each; /* [threads] */
  int64_t times;
} cached_work;

static void attend_cached(const void *arg, int thread, int threads) {
  const cached_work *k = arg;
  (void)threads;
  for (int64_t n = 0; n < k->times; n++) attend(&k->each[thread], 0, 1);
}

/* Bytes a second of the kernel over keys that stay in the caches, CACHED bytes at most, of all
 * threads together; 0 when out of memory. */
static double cached_rate(const work *model) {
  setting s = *model->s;
  cache c[CREW_MOST] = {{0}};
  work each[CREW_MOST];
  const int64_t row = model->c->row_bytes, fit = CACHED / (2 * row);
  const size_t part = (size_t)(s.group * (2 + s.dim));
  float *parts = calloc((size_t)s.threads * part, sizeof *parts);
  bool made = parts != NULL;
  s.heads = 1;
  s.keys = s.keys < RANGE ? s.keys : RANGE;
  if (s.keys > fit) s.keys = fit > 64 ? fit / 64 * 64 : 64;
  s.mib = 0; /* one layer */
  for (int t = 0; t < s.threads; t++) {
    made = made && fill(model->kernels, &s, &c[t]);
    each[t] = (work){.kernels = model->kernels,
                     .s = &s,
                     .c = &c[t],
                     .q = model->q,
                     .parts = parts + (size_t)t * part};
  }
  cached_work run = {each, 4};
  if (made) crew_run(attend_cached, &run, s.threads); /* into the cache */
  double seconds = 0;
  for (run.times = 16; made && (seconds = crew_run(attend_cached, &run, s.threads)) < 0.02;)
    run.times *= 2;
  for (int t = 0; t < s.threads; t++) drop(&c[t]);
  free(parts);
  return made ? (double)(run.times * s.threads) * 2.0 * (double)(s.keys * row) / seconds : 0;
}

static bool bench(const cpu_kernels *kernels, const setting *s) {
  cache c;
  const size_t rows = (size_t)(s->heads * s->group);
  float *q = calloc(rows * (size_t)s->dim, sizeof *q),
        *parts = malloc((size_t)ranges_of(s) * rows * (size_t)(2 + s->dim) * sizeof *parts);
  if (!q || !parts || !fill(kernels, s, &c)) return fprintf(stderr, "out of memory\n"), false;
  for (size_t i = 0; i < rows * (size_t)s->dim; i++)
    q[i] = (float)(i * 2654435761u % 65521) / 65521.0f - 0.5f;
  const work model = {.kernels = kernels, .s = s, .c = &c, .q = q, .parts = parts};
  const double bytes = (double)(c.layers * s->keys) * 2.0 * (double)(s->heads * c.row_bytes),
               all = (double)(c.layers * c.pages) * (double)c.page_bytes;
  double rate[MAX_ROUNDS], reading[MAX_ROUNDS], share[MAX_ROUNDS], cached[MAX_ROUNDS];
  for (int r = 0; r < s->rounds; r++) {
    reading[r] = all / crew_run(read_pages, &model, s->threads) * 1e-9;
    rate[r] = bytes / crew_run(attend, &model, s->threads) * 1e-9;
    share[r] = rate[r] / reading[r];
    cached[r] = cached_rate(&model) * 1e-9;
  }
  const size_t rounds = (size_t)s->rounds;
  const double a = median(rate, rounds), b = median(reading, rounds), most = median(cached, rounds),
               bound = b < most ? b : most;
  printf(
      "%-8s %d threads, %lld x %lld heads of %lld, %lld keys, rows of %lld bytes: %6.2f GB/s, "
      "%5.1f %% of %6.2f (reading "
      "%6.2f, %5.1f %% of it; instructions %6.2f)\n",
      cpu_isa_name(kernels->isa), s->threads, (long long)s->heads, (long long)s->group,
      (long long)s->dim, (long long)s->keys, (long long)c.row_bytes, a, 100 * a / bound, bound, b,
      100 * median(share, rounds), most);
  fflush(stdout);
  drop(&c);
  free(q);
  free(parts);
  return true;
}

static int32_t kv_of(const char *name) {
  static const char *const names[] = {"fp32", "fp16", "bf16", "int8"};
  static const int32_t dtypes[] = {ACCEL_PLUGIN_F32, ACCEL_PLUGIN_F16, ACCEL_PLUGIN_BF16,
                                   ACCEL_PLUGIN_I8};
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, names[i])) return dtypes[i];
  return -1;
}

int main(int argc, char **argv) {
  setting s = {.kv = ACCEL_PLUGIN_F16,
               .heads = 8,
               .group = 2,
               .dim = 128,
               .keys = 4096,
               .mib = 400,
               .threads = 1,
               .rounds = 5};
  const char *isa = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    static const char *const names[] = {"--heads", "--group", "--dim", "--keys", "--mib"};
    int64_t *const numbers[] = {&s.heads, &s.group, &s.dim, &s.keys, &s.mib};
    for (int k = 0; k < 5; k++)
      if (!strcmp(argv[i], names[k])) *numbers[k] = atoll(argv[i + 1]);
    if (!strcmp(argv[i], "--isa")) isa = argv[i + 1];
    if (!strcmp(argv[i], "--kv")) s.kv = kv_of(argv[i + 1]);
    if (!strcmp(argv[i], "--threads")) s.threads = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--rounds")) s.rounds = atoi(argv[i + 1]);
  }
  if (argc % 2 == 0 || s.kv < 0 || s.heads < 1 || s.group < 1 || s.dim < 1 || s.dim % 4 ||
      s.keys < 1 || s.mib < 1 || s.threads < 1 || s.threads > CREW_MOST || s.rounds < 1 ||
      s.rounds > MAX_ROUNDS) {
    fprintf(stderr, "cpu_decode_bench: see the first lines of its source\n");
    return 2;
  }
  cpu_isa list[CPU_ISA_COUNT];
  for (int i = 0, count = cpu_isa_list(list); i < count; i++) {
    cpu_kernels kernels;
    if (isa ? strcmp(isa, cpu_isa_name(list[i])) : i > 0) continue;
    cpu_kernels_of(list[i], &kernels);
    if (!bench(&kernels, &s)) return 1;
  }
  return 0;
}
