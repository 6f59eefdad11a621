/* serve_metrics.c - see serve_metrics.h. */
#include "serve/serve_metrics.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- counts ---- */

static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                0.5,   1,      2.5,   5,    10,    30,   60};
enum { N_BOUNDS = sizeof bounds / sizeof bounds[0] };

typedef struct histogram {
  uint64_t bucket[N_BOUNDS], n;
  double sum;
} histogram;

/* Histograms of a model, by their names in the page. */
typedef enum model_time { FIRST_TOKEN, PER_TOKEN, WAITED, RAN, N_TIMES } model_time;
static const char *const time_names[N_TIMES][2] = {
    {"accel_time_to_first_token_seconds", "Seconds from a request's head to its first token."},
    {"accel_time_per_output_token_seconds", "Mean seconds between the tokens of a request."},
    {"accel_queue_duration_seconds", "Seconds that requests waited for a thread."},
    {"accel_inference_duration_seconds", "Seconds from a request's begin to its end."}};

typedef struct model_counts {
  uint64_t running, ended, cancelled, prompt_tokens, generated_tokens;
  histogram time[N_TIMES];
} model_counts;

static const int statuses[] = {200, 204, 400, 401, 403, 404, 405, 411, 413, 415,
                               417, 429, 431, 499, 500, 501, 503, 504, 505};
enum { N_STATUSES = sizeof statuses / sizeof statuses[0] };

struct serve_metrics {
  pthread_mutex_t lock;
  const char *const *name;
  uint32_t n;
  model_counts *model;
  uint64_t (*answer)[N_STATUSES]; /* [routes + 1] */
  uint64_t refused;
  double started; /* seconds since 1970 */
};

serve_metrics *serve_metrics_new(const char *const *names, uint32_t n) {
  serve_metrics *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  pthread_mutex_init(&m->lock, NULL);
  m->name = names;
  m->n = n;
  m->started = (double)time(NULL);
  m->model = calloc(n + !n, sizeof *m->model);
  m->answer = calloc(serve_route_count + 1, sizeof *m->answer);
  if (m->model && m->answer) return m;
  serve_metrics_free(m);
  return NULL;
}

void serve_metrics_free(serve_metrics *metrics) {
  if (!metrics) return;
  pthread_mutex_destroy(&metrics->lock);
  free(metrics->model);
  free(metrics->answer);
  free(metrics);
}

static void observe(histogram *h, double value) {
  for (int i = 0; i < N_BOUNDS; ++i) h->bucket[i] += value <= bounds[i];
  h->sum += value;
  ++h->n;
}

void serve_metrics_begin(serve_metrics *metrics, uint32_t model) {
  pthread_mutex_lock(&metrics->lock);
  ++metrics->model[model].running;
  pthread_mutex_unlock(&metrics->lock);
}

void serve_metrics_end(serve_metrics *metrics, uint32_t model, double waited_s, double ran_s,
                       bool cancelled) {
  pthread_mutex_lock(&metrics->lock);
  model_counts *m = &metrics->model[model];
  --m->running;
  ++m->ended;
  m->cancelled += cancelled;
  observe(&m->time[WAITED], waited_s);
  observe(&m->time[RAN], ran_s);
  pthread_mutex_unlock(&metrics->lock);
}

void serve_metrics_count(serve_metrics *metrics, uint32_t model, const serve_counts *counts) {
  pthread_mutex_lock(&metrics->lock);
  model_counts *m = &metrics->model[model];
  m->prompt_tokens += counts->prompt_tokens;
  m->generated_tokens += counts->generated_tokens;
  if (counts->first_token_s > 0) observe(&m->time[FIRST_TOKEN], counts->first_token_s);
  if (counts->token_s > 0) observe(&m->time[PER_TOKEN], counts->token_s);
  pthread_mutex_unlock(&metrics->lock);
}

void serve_metrics_answer(serve_metrics *metrics, size_t route, int status) {
  int at = 0;
  while (at < N_STATUSES && statuses[at] != status) ++at;
  if (at == N_STATUSES) return;
  pthread_mutex_lock(&metrics->lock);
  ++metrics->answer[route][at];
  pthread_mutex_unlock(&metrics->lock);
}

void serve_metrics_refused(serve_metrics *metrics) {
  pthread_mutex_lock(&metrics->lock);
  ++metrics->refused;
  pthread_mutex_unlock(&metrics->lock);
}

/* ---- the page ---- */

static void head(FILE *to, const char *name, const char *type, const char *help) {
  fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: '\', '"' and line ends are escaped. */
static void label(FILE *to, const char *name, const char *value) {
  fprintf(to, "%s=\"", name);
  for (; *value; ++value) {
    if (*value == '\n')
      fputs("\\n", to);
    else if (*value == '\\' || *value == '"')
      fprintf(to, "\\%c", *value);
    else
      fputc(*value, to);
  }
  fputc('"', to);
}

static void of_model(FILE *to, const char *name, const char *model, uint64_t value) {
  fprintf(to, "%s{", name);
  label(to, "model", model);
  fprintf(to, "} %" PRIu64 "\n", value);
}

static void write_counts(FILE *to, const serve_metrics *m, const char *name, const char *type,
                         const char *help, size_t offset) {
  head(to, name, type, help);
  for (uint32_t i = 0; i < m->n; ++i) {
    const char *base = (const char *)&m->model[i];
    uint64_t value;
    memcpy(&value, base + offset, sizeof value);
    of_model(to, name, m->name[i], value);
  }
}

/* Of the queue of each model: a member of accel_queue_stats, which is of 4 or 8 bytes. */
typedef struct queue_count {
  const char *name, *type, *help;
  size_t offset, bytes;
} queue_count;
#define QUEUE_COUNT(name, type, help, member) \
  { name, type, help, offsetof(accel_queue_stats, member), sizeof((accel_queue_stats){0}).member }
static const queue_count queue_counts[] = {
    QUEUE_COUNT("accel_requests_waiting", "gauge", "Requests in the model's queue that wait.",
                waiting),
    QUEUE_COUNT("accel_prefix_cache_tokens_total", "counter",
                "Tokens of prompts that were kept of earlier ones.", cached_tokens),
    QUEUE_COUNT("accel_prefix_cache_hits_total", "counter", "Prompts that shared some.",
                cache_hits),
    QUEUE_COUNT("accel_prefix_cache_bytes", "gauge", "Keys and values that are kept.", cache_bytes),
    QUEUE_COUNT("accel_draft_tokens_total", "counter", "Tokens that speculation guessed.",
                draft_tokens),
    QUEUE_COUNT("accel_accepted_tokens_total", "counter", "Of these, those that were right.",
                accepted_tokens)};

static void write_queue_count(FILE *to, const serve_metrics *m, const accel_queue_stats *queue,
                              const queue_count *c) {
  head(to, c->name, c->type, c->help);
  for (uint32_t i = 0; i < m->n; ++i) {
    const char *at = (const char *)&queue[i] + c->offset;
    uint32_t narrow = 0;
    uint64_t wide = 0;
    if (c->bytes == sizeof narrow)
      memcpy(&narrow, at, sizeof narrow);
    else
      memcpy(&wide, at, sizeof wide);
    if (queue[i].size) of_model(to, c->name, m->name[i], narrow + wide);
  }
}

static void write_histogram(FILE *to, const char *name, const char *model, const histogram *h) {
  for (int i = 0; i <= N_BOUNDS; ++i) {
    fprintf(to, "%s_bucket{", name);
    label(to, "model", model);
    if (i < N_BOUNDS)
      fprintf(to, ",le=\"%g\"} %" PRIu64 "\n", bounds[i], h->bucket[i]);
    else
      fprintf(to, ",le=\"+Inf\"} %" PRIu64 "\n", h->n);
  }
  fprintf(to, "%s_sum{", name);
  label(to, "model", model);
  fprintf(to, "} %.9g\n%s_count{", h->sum, name);
  label(to, "model", model);
  fprintf(to, "} %" PRIu64 "\n", h->n);
}

static void write_answers(FILE *to, const serve_metrics *m) {
  const char *name = "accel_http_responses_total";
  head(to, name, "counter", "Answers by route and status.");
  for (size_t r = 0; r <= serve_route_count; ++r) {
    for (int s = 0; s < N_STATUSES; ++s) {
      if (!m->answer[r][s]) continue;
      fprintf(to, "%s{method=\"%s\",", name, r < serve_route_count ? serve_routes[r].method : "");
      label(to, "route", r < serve_route_count ? serve_routes[r].path : "");
      fprintf(to, ",status=\"%d\"} %" PRIu64 "\n", statuses[s], m->answer[r][s]);
    }
  }
}

static void gauge(FILE *to, const char *name, const char *help, double value) {
  head(to, name, "gauge", help);
  fprintf(to, "%s %.15g\n", name, value);
}

static void counter(FILE *to, const char *name, const char *help, uint64_t value) {
  head(to, name, "counter", help);
  fprintf(to, "%s %" PRIu64 "\n", name, value);
}

static void write_pool(FILE *to, const accel_pool_stats *pool) {
  gauge(to, "accel_models_loaded", "Endpoints in memory.", pool->loaded);
  gauge(to, "accel_models_bytes", "What counts of the memory of all models.", (double)pool->bytes);
  gauge(to, "accel_models_limit_bytes", "Its limit; 0: none.", (double)pool->memory_limit);
  counter(to, "accel_model_loads_total", "Loads that succeeded.", pool->loads);
  counter(to, "accel_model_evictions_total", "Models unloaded to make room.", pool->evictions);
  counter(to, "accel_model_load_failures_total", "Loads that failed.", pool->failures);
}

/* A member of a replica of accel_pool_json(); whether it takes work: 1 or 0. */
static double replica_value(const cJSON *replica, const char *member) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(replica, member);
  return cJSON_IsString(value) ? !strcmp(value->valuestring, "in") : cJSON_GetNumberValue(value);
}

/* Of each model that several devices share: what each of them has done. */
static void write_replicas(FILE *to, const char *pool_json) {
  static const char *const count[][4] = {
      {"accel_replica_in", "gauge", "standing", "1: the device takes work of the model."},
      {"accel_replica_items_total", "counter", "items", "Texts, prompts and tensors it has run."},
      {"accel_replica_units_total", "counter", "units", "Tokens of them."},
      {"accel_replica_run_seconds_total", "counter", "seconds", "Seconds of its runs."}};
  cJSON *root = cJSON_Parse(pool_json ? pool_json : "{}");
  const cJSON *model, *replica;
  for (size_t c = 0; c < sizeof count / sizeof *count; ++c) {
    bool any = false;
    cJSON_ArrayForEach(model, cJSON_GetObjectItemCaseSensitive(root, "models")) {
      cJSON_ArrayForEach(replica, cJSON_GetObjectItemCaseSensitive(model, "replicas")) {
        if (!any) head(to, count[c][0], count[c][1], count[c][3]);
        any = true;
        fprintf(to, "%s{", count[c][0]);
        label(to, "model", cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(model, "name")));
        fputc(',', to);
        label(to, "device",
              cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(replica, "device")));
        fprintf(to, "} %.15g\n", replica_value(replica, count[c][2]));
      }
    }
  }
  cJSON_Delete(root);
}

static uint64_t entries_of(const char *directory) {
  uint64_t n = 0;
  DIR *open = opendir(directory);
  if (!open) return 0;
  for (const struct dirent *d; (d = readdir(open)) != NULL;) n += d->d_name[0] != '.';
  closedir(open);
  return n;
}

static void write_process(FILE *to, const serve_metrics *m) {
  uint64_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file) {
    if (fscanf(file, "%*u %" SCNu64, &pages) != 1) pages = 0;
    fclose(file);
  }
  gauge(to, "process_resident_memory_bytes", "Memory of the process.",
        (double)pages * (double)sysconf(_SC_PAGESIZE));
  gauge(to, "process_open_fds", "Open file descriptors.", (double)entries_of("/proc/self/fd"));
  gauge(to, "process_threads", "Threads of the process.", (double)entries_of("/proc/self/task"));
  gauge(to, "process_start_time_seconds", "Begin of the process, since 1970.", m->started);
}

static void write_models(FILE *to, const serve_metrics *m, const serve_gauges *now) {
#define COUNTS(name, type, help, member) \
  write_counts(to, m, name, type, help, offsetof(model_counts, member))
  COUNTS("accel_requests_running", "gauge", "Requests that a handler works on.", running);
  for (size_t i = 0; i < sizeof queue_counts / sizeof queue_counts[0]; ++i)
    write_queue_count(to, m, now->queue, &queue_counts[i]);
  COUNTS("accel_requests_total", "counter", "Requests that have ended.", ended);
  COUNTS("accel_requests_cancelled_total", "counter",
         "Of these, those whose client left or whose time was over.", cancelled);
  COUNTS("accel_prompt_tokens_total", "counter", "Tokens read.", prompt_tokens);
  COUNTS("accel_generation_tokens_total", "counter", "Tokens generated.", generated_tokens);
#undef COUNTS
  for (int t = 0; t < N_TIMES; ++t) {
    head(to, time_names[t][0], "histogram", time_names[t][1]);
    for (uint32_t i = 0; i < m->n; ++i)
      write_histogram(to, time_names[t][0], m->name[i], &m->model[i].time[t]);
  }
}

char *serve_metrics_text(serve_metrics *metrics, const serve_gauges *now, size_t *n) {
  char *text = NULL;
  FILE *to = open_memstream(&text, n);
  if (!to) return NULL;
  pthread_mutex_lock(&metrics->lock);
  write_models(to, metrics, now);
  write_answers(to, metrics);
  counter(to, "accel_http_connections_refused_total", "Connections that a limit closed or refused.",
          metrics->refused);
  pthread_mutex_unlock(&metrics->lock);
  write_pool(to, &now->pool);
  write_replicas(to, now->pool_json);
  gauge(to, "accel_http_connections", "Open connections.", now->connections);
  gauge(to, "accel_http_requests_running", "Requests that have a thread.", now->running);
  gauge(to, "accel_http_requests_waiting", "Requests that wait for a thread.", now->waiting);
  gauge(to, "accel_ready", "1: all models are loaded.", now->ready);
  write_process(to, metrics);
  const bool good = !ferror(to);
  if (!fclose(to) && good) return text;
  free(text);
  return NULL;
}
