/* pool_bench.c - what the thread pool costs: one fork and join, a whole encoder's parallel calls,
 * two callers at once, idle.
 *
 *   pool_bench PLUGIN.so [--threads N] [--seconds S] [--mode latency|throughput]
 *
 * fork/join: a call over `threads` tasks of 0, 1, 2, 5 and 20 microseconds; the overhead is what it
 * takes beyond one task.  walk: runs of MiniLM-shaped encoders with random weights; parallel calls
 * of a run, and the caller's waiting for others after its own last task (join) and the delay until
 * the first other thread begins (start), as shares of the run. callers: two application threads
 * with an endpoint each, at once and one after the other, runs per second. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench_timer.h"
#include "core/threads.h"
#include "cpu_encoder.h"

enum { VOCAB = 30522, MOST_RUNS = 1 << 16, MOST_THREADS = 64 };

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}
/* ---- fork and join ---- */

static void busy(void *arg, uint32_t index, uint32_t worker) {
  double length = *(const double *)arg, start = length > 0 ? now() : 0;
  (void)index, (void)worker;
  while (length > 0 && now() - start < length) continue;
}

static void fork_join(accel__pool *pool, bool asleep) {
  static const double lengths[] = {0, 1e-6, 2e-6, 5e-6, 20e-6, 100e-6};
  uint32_t n = accel__pool_size(pool);
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    static double t[4000];
    int count = asleep ? 300 : 4000;
    double length = lengths[k];
    accel__pool_turn turn;
    if (!asleep) accel__pool_enter(pool, 0, &turn);
    for (int i = 0; i < count; i++) {
      if (asleep) usleep(500);
      double start = now();
      accel__pool_run(pool, n, busy, &length);
      t[i] = now() - start;
    }
    if (!asleep) accel__pool_leave(&turn);
    qsort(t, (size_t)count, sizeof *t, ascending);
    printf(
        "fork/join %-6s tasks of %5.0f us: median %7.2f us, tenth %7.2f us, a single task's time "
        "plus %6.2f us\n",
        asleep ? "asleep" : "awake", length * 1e6, t[count / 2] * 1e6, t[count / 10] * 1e6,
        (t[count / 2] - length) * 1e6);
  }
}

/* ---- an encoder on a pool ---- */

typedef struct model { /* self of the host */
  cpu_encoder e;
  float *values; /* of every weight */
  accel__pool *pool;
  accel_plugin_endpoint *endpoint;
  accel_plugin_host host;
  int32_t *ids, lengths[64], rows, batch;
  float *y;
  int64_t hidden;
  bool watched; /* the calls below are measured */
  uint64_t calls, indices;
  double join, begin;
} model;

static int32_t map(void *self, uint32_t index, accel_plugin_weight_view *out,
                   accel_plugin_error *error) {
  (void)index, (void)error;
  *out = (accel_plugin_weight_view){.data = ((model *)self)->values};
  return 0;
}
static void unmap(void *self, uint32_t index) { (void)self, (void)index; }

typedef struct watch {
  accel_plugin_task_fn fn;
  void *arg;
  double mine; /* end of the caller's last task */
  atomic_bool begun;
  double other; /* begin of the first task of another thread */
} watch;
static void watched_task(void *arg, uint32_t index, uint32_t worker) {
  watch *w = arg;
  if (worker && !atomic_exchange(&w->begun, true)) w->other = now();
  w->fn(w->arg, index, worker);
  if (!worker) w->mine = now();
}
static void run_parallel(void *self, uint32_t n, accel_plugin_task_fn fn, void *arg) {
  model *m = self;
  if (!m->watched) {
    accel__pool_run(m->pool, n, fn, arg);
    return;
  }
  watch w = {.fn = fn, .arg = arg};
  double start = now();
  accel__pool_run(m->pool, n, watched_task, &w);
  double end = now();
  m->calls++;
  m->indices += n;
  m->join += end - (w.mine > 0 ? w.mine : start);
  m->begin += (atomic_load(&w.begun) ? w.other : end) - start;
}
static uint32_t count_workers(void *self) { return accel__pool_width(((model *)self)->pool); }

static model *model_new(const accel_plugin *plugin, accel__pool *pool, int32_t batch,
                        int32_t length) {
  model *m = calloc(1, sizeof *m);
  accel_plugin_error error = {.size = sizeof error};
  cpu_encoder_build(&m->e, VOCAB, 384, 1536, 12, 6);
  m->hidden = 384;
  m->pool = pool;
  m->values = malloc(m->e.largest * sizeof(float));
  for (uint64_t i = 0; i < m->e.largest; i++)
    m->values[i] = (float)(i * 2654435761u % 1000003) / 1000003.0f * 0.1f - 0.05f;
  m->host = (accel_plugin_host){.size = sizeof m->host,
                                .abi = ACCEL_PLUGIN_ABI_NOW,
                                .self = m,
                                .weight_map = map,
                                .weight_unmap = unmap,
                                .parallel = run_parallel,
                                .workers = count_workers};
  accel_plugin_options options = {
      .size = sizeof options,
      .host = &m->host,
      .precision = {.size = sizeof options.precision, .name = "fp32", .format = m->e.format}};
  if (plugin->init(0, &m->e.p, &options, &m->endpoint, &error)) {
    fprintf(stderr, "init: %s\n", error.message);
    exit(1);
  }
  m->batch = batch;
  for (int i = 0; i < batch; i++) m->rows += m->lengths[i] = length;
  m->ids = malloc((size_t)m->rows * sizeof *m->ids);
  m->y = malloc((size_t)(m->rows * m->hidden) * sizeof *m->y);
  for (int32_t i = 0; i < m->rows; i++) m->ids[i] = i * 7919 % VOCAB;
  return m;
}

static void model_free(const accel_plugin *plugin, model *m) {
  plugin->cleanup(m->endpoint, &m->host);
  free(m->ids);
  free(m->y);
  free(m->values);
  free(m);
}

static double model_run(const accel_plugin *plugin, model *m) {
  accel_plugin_error error = {.size = sizeof error};
  accel_plugin_view in[2] = {
      {.size = sizeof *in, .dtype = ACCEL_PLUGIN_I32, .rank = 1, .host = m->ids, .dim = {m->rows}},
      {.size = sizeof *in,
       .dtype = ACCEL_PLUGIN_I32,
       .rank = 1,
       .host = m->lengths,
       .dim = {m->batch}}};
  accel_plugin_view out = {.size = sizeof out,
                           .dtype = ACCEL_PLUGIN_F32,
                           .rank = 2,
                           .host = m->y,
                           .capacity = (uint64_t)(m->rows * m->hidden) * 4};
  accel_plugin_run r = {.size = sizeof r, .host = &m->host};
  accel__pool_turn turn;
  double start = now();
  accel__pool_enter(m->pool, 0, &turn);
  if (plugin->handler(m->endpoint, NULL, &r, in, 2, &out, 1, &error)) {
    fprintf(stderr, "run: %s\n", error.message);
    exit(1);
  }
  accel__pool_leave(&turn);
  return now() - start;
}

static void walk(const accel_plugin *plugin, accel__pool *pool, int32_t batch, int32_t length,
                 double seconds) {
  static double t[MOST_RUNS];
  model *m = model_new(plugin, pool, batch, length);
  int n = 0;
  for (double start = now(); n < 3 || (n < MOST_RUNS && now() - start < seconds); n++)
    t[n] = model_run(plugin, m);
  qsort(t, (size_t)n, sizeof *t, ascending);
  m->watched = true;
  double all = 0;
  int seen = 0;
  for (double start = now(); seen < 3 || now() - start < seconds; seen++)
    all += model_run(plugin, m);
  printf(
      "walk b%d s%d: median %.3f ms, min %.3f ms; %.0f parallel calls, %.0f tasks a run; join %.1f "
      "us (%.1f %%), start %.1f "
      "us (%.1f %%) a run\n",
      batch, length, t[n / 2] * 1e3, t[0] * 1e3, (double)m->calls / seen, (double)m->indices / seen,
      m->join / seen * 1e6, 100 * m->join / all, m->begin / seen * 1e6, 100 * m->begin / all);
  model_free(plugin, m);
}

/* ---- callers ---- */

typedef struct caller {
  const accel_plugin *plugin;
  model *m;
  double until;
  uint64_t runs;
  double t[MOST_RUNS];
  pthread_t thread;
} caller;
static void *call(void *arg) {
  caller *c = arg;
  for (c->runs = 0; now() < c->until; c->runs++) {
    double t = model_run(c->plugin, c->m);
    if (c->runs < MOST_RUNS) c->t[c->runs] = t;
  }
  qsort(c->t, c->runs, sizeof *c->t, ascending);
  return NULL;
}

/* Runs per second of callers at once (several threads), or alternating on one thread. */
static void callers(const accel_plugin *plugin, accel__pool *pool, uint32_t n, int32_t batch,
                    int32_t length, double seconds) {
  caller *c = calloc(n, sizeof *c);
  for (uint32_t i = 0; i < n; i++) {
    c[i].plugin = plugin;
    c[i].m = model_new(plugin, pool, batch, length);
    model_run(plugin, c[i].m);
  }
  double rate[2] = {0}, median = 0, worst = 0;
  for (int round = 0; round < 6; round++) { /* one after the other and at once, interleaved */
    uint64_t done = 0;
    double start = now();
    if (round % 2 == 0) {
      for (; now() - start < seconds; done++) model_run(plugin, c[done % n].m);
    } else {
      for (uint32_t i = 0; i < n; i++) {
        c[i].until = start + seconds;
        pthread_create(&c[i].thread, NULL, call, &c[i]);
      }
      for (uint32_t i = 0; i < n; i++) {
        pthread_join(c[i].thread, NULL);
        done += c[i].runs;
        if (c[i].runs)
          median += c[i].t[c[i].runs / 2] / n / 3,
              worst = c[i].t[c[i].runs - 1] > worst ? c[i].t[c[i].runs - 1] : worst;
      }
    }
    double r = (double)done / (now() - start);
    if (r > rate[round % 2]) rate[round % 2] = r;
  }
  printf(
      "%u callers b%d s%d: %.1f runs/s one after the other, %.1f at once (x %.2f); at once median "
      "%.3f ms, worst %.3f ms\n",
      n, batch, length, rate[0], rate[1], rate[1] / rate[0], median * 1e3, worst * 1e3);
  for (uint32_t i = 0; i < n; i++) model_free(plugin, c[i].m);
  free(c);
}

/* Small requests while large batches run on another thread. */
static void mixed(const accel_plugin *plugin, accel__pool *pool, double seconds) {
  caller *c = calloc(2, sizeof *c);
  for (uint32_t i = 0; i < 2; i++) {
    c[i].plugin = plugin;
    c[i].m = i ? model_new(plugin, pool, 32, 128) : model_new(plugin, pool, 1, 16);
    model_run(plugin, c[i].m);
    c[i].until = now() + 2 * seconds + 1;
  }
  for (uint32_t i = 0; i < 2; i++) pthread_create(&c[i].thread, NULL, call, &c[i]);
  for (uint32_t i = 0; i < 2; i++) pthread_join(c[i].thread, NULL);
  printf(
      "b1 s16 beside b32 s128: b1 median %.3f ms, 99 %% %.3f ms, worst %.3f ms; b32 median %.1f "
      "ms\n",
      c[0].t[c[0].runs / 2] * 1e3, c[0].t[c[0].runs * 99 / 100] * 1e3, c[0].t[c[0].runs - 1] * 1e3,
      c[1].t[c[1].runs / 2] * 1e3);
  for (uint32_t i = 0; i < 2; i++) model_free(plugin, c[i].m);
  free(c);
}

int main(int argc, char **argv) {
  uint32_t threads = 2;
  double seconds = 1;
  bool throughput = false;
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library)
    return fprintf(stderr, "usage: pool_bench PLUGIN.so [--threads N] [--seconds S]\n%s\n",
                   argc > 1 ? dlerror() : ""),
           2;
  accel_plugin_query_fn query;
  *(void **)&query = dlsym(library, ACCEL_PLUGIN_QUERY_SYMBOL);
  const accel_plugin *plugin = query ? query(NULL, ACCEL_PLUGIN_ABI_NOW) : NULL;
  if (!plugin) return fprintf(stderr, "%s: not a plugin of this ABI\n", argv[1]), 1;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--threads")) threads = (uint32_t)atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--mode")) throughput = !strcmp(argv[i + 1], "throughput");
    if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
  }
  accel__pool *pool;
  if (accel__pool_create(threads, &pool)) return fprintf(stderr, "%s\n", accel__message()), 1;
  accel__pool_set_width(pool, throughput);
  printf("%u threads, %s\n", accel__pool_size(pool), throughput ? "throughput" : "latency");
  fork_join(pool, false);
  fork_join(pool, true);
  double cpu = cpu_seconds();
  usleep(500000);
  printf("idle: %.3f %% of one processor\n", (cpu_seconds() - cpu) / 0.5 * 100);
  walk(plugin, pool, 1, 16, seconds);
  walk(plugin, pool, 32, 128, seconds);
  callers(plugin, pool, 2, 1, 16, seconds);
  callers(plugin, pool, 4, 1, 16, seconds);
  callers(plugin, pool, 2, 32, 128, seconds);
  mixed(plugin, pool, seconds);
  accel__pool_destroy(&pool);
  return 0;
}
