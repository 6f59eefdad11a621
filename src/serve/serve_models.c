/* serve_models.c - see serve_models.h. */
#include "serve/serve_models.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/serve_log.h"

typedef struct entry {
  serve_model model;
  const char *also; /* the last part of its path, where the name is a path; NULL: none */
  const serve_model_config *config;
  int64_t loaded_at;
} entry;

struct serve_models {
  accel *ctx;
  entry *entry; /* [n] */
  const char **name;
  char **owned; /* [n] copies of paths whose end a name is */
  uint32_t n;
  uint32_t queue_capacity;
  _Atomic bool ready; /* entries do not change any more */
};

/* ---- names ---- */

/* The last part of a path, without '/' at its end, in *copy, which is malloc'd; NULL: no memory. */
static const char *base_name(const char *path, char **copy) {
  *copy = strdup(path);
  if (!*copy) return NULL;
  size_t n = strlen(*copy);
  while (n > 1 && (*copy)[n - 1] == '/') (*copy)[--n] = 0;
  const char *slash = strrchr(*copy, '/');
  return slash && slash[1] ? slash + 1 : *copy;
}

/* A path of the file system is not shown to clients: its last part is. */
static accel_status name_entry(entry *e, char **owned) {
  const serve_model_config *c = e->config;
  e->model.task = "";
  e->model.name = c->name;
  if (c->name) return ACCEL_OK;
  const char *base = base_name(c->path, owned);
  if (!base) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool file = c->path[0] == '/' || c->path[0] == '.';
  e->model.name = file ? base : c->path;
  e->also = file ? c->path : base;
  return ACCEL_OK;
}

static bool called(const entry *e, const char *name) {
  return !strcmp(e->model.name, name) || (e->also && !strcmp(e->also, name));
}

static accel_status check_names(const serve_models *models) {
  for (uint32_t i = 0; i < models->n; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (strcmp(models->entry[k].model.name, models->entry[i].model.name)) continue;
      serve_log(ACCEL_LOG_ERROR, "two models are called '%s': --model NAME=PATH names one",
                models->entry[i].model.name);
      return ACCEL_ERROR_ARGUMENT;
    }
  }
  return ACCEL_OK;
}

accel_status serve_models_new(accel *ctx, const serve_config *config, serve_models **out) {
  serve_models *m = calloc(1, sizeof *m);
  if (!m) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = ACCEL_OK;
  m->ctx = ctx;
  m->queue_capacity = 4 * config->max_requests;
  m->entry = calloc(config->n_model, sizeof *m->entry);
  m->name = calloc(config->n_model, sizeof *m->name);
  m->owned = calloc(config->n_model, sizeof *m->owned);
  if (!m->entry || !m->name || !m->owned) status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (; !status && m->n < config->n_model; ++m->n) {
    m->entry[m->n].config = &config->model[m->n];
    status = name_entry(&m->entry[m->n], &m->owned[m->n]);
    m->name[m->n] = m->entry[m->n].model.name;
  }
  if (!status) status = check_names(m);
  if (status) {
    serve_models_free(m);
    return status;
  }
  *out = m;
  return ACCEL_OK;
}

void serve_models_free(serve_models *models) {
  if (!models) return;
  for (uint32_t i = 0; i < models->n; ++i) {
    accel_cleanup(&models->entry[i].model.endpoint);
    free(models->owned[i]);
  }
  free(models->entry);
  free(models->name);
  free(models->owned);
  free(models);
}

/* ---- loading ---- */

/* Cross-encoders are classifiers with one label by their class; clients ask them for ranks. */
static const char *task_of(const accel_processor *p) {
  if (!p->task) return "";
  return !strcmp(p->task, "text-classification") && p->labels->n == 1 ? "text-ranking" : p->task;
}

static accel_status load(const serve_models *models, entry *e) {
  accel_init_params how = e->config->how;
  if (!how.queue_capacity) how.queue_capacity = models->queue_capacity;
  accel_status status = accel_init(models->ctx, e->config->path, &how, &e->model.endpoint);
  if (status) {
    serve_log(ACCEL_LOG_ERROR, "%s: %s", e->model.name, accel_last_error());
    if (*accel_last_remedy()) serve_log(ACCEL_LOG_ERROR, "%s", accel_last_remedy());
    return status;
  }
  const accel_processor *processor = accel_processor_of(e->model.endpoint);
  const accel_placement_report *placement = accel_placement(e->model.endpoint);
  e->model.task = task_of(processor);
  e->model.queue = accel_queue_of(e->model.endpoint);
  e->model.path = e->config->path;
  e->model.device = placement->device;
  e->model.precision = placement->precision;
  e->loaded_at = (int64_t)time(NULL);
  serve_say("model %s (%s) on %s, %s", e->model.name, e->model.task, placement->device,
            placement->precision);
  return ACCEL_OK;
}

accel_status serve_models_load(serve_models *models) {
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; !status && i < models->n; ++i) status = load(models, &models->entry[i]);
  if (!status) atomic_store(&models->ready, true);
  return status;
}

bool serve_models_ready(const serve_models *models) { return atomic_load(&models->ready); }

/* ---- what is there ---- */

uint32_t serve_models_count(const serve_models *models) { return models->n; }

const char *const *serve_models_names(const serve_models *models) { return models->name; }

uint32_t serve_models_queued(const serve_models *models, uint32_t model) {
  return serve_models_ready(models) ? accel_queue_waiting(models->entry[model].model.queue) : 0;
}

const char *serve_models_task(const serve_models *models, uint32_t model) {
  return serve_models_ready(models) ? models->entry[model].model.task : "";
}

int64_t serve_models_loaded_at(const serve_models *models, uint32_t model) {
  return serve_models_ready(models) ? models->entry[model].loaded_at : 0;
}

int64_t serve_models_find(const serve_models *models, const char *name) {
  for (uint32_t i = 0; i < models->n; ++i)
    if (!strcmp(models->entry[i].model.name, name)) return i;
  for (uint32_t i = 0; i < models->n; ++i)
    if (called(&models->entry[i], name)) return i;
  return -1;
}

static bool serves(const entry *e, const char *const *tasks) {
  if (!tasks) return true;
  for (; *tasks; ++tasks)
    if (!strcmp(e->model.task, *tasks)) return true;
  return false;
}

accel_status serve_models_take(serve_models *models, const char *name, const char *const *tasks,
                               const serve_model **out, uint32_t *number) {
  const bool any = !name || !*name;
  int64_t at = any ? 0 : serve_models_find(models, name);
  if (at < 0) return ACCEL_ERROR_NOT_FOUND;
  if (!serve_models_ready(models)) return ACCEL_ERROR_DOES_NOT_FIT;
  while (any && at < models->n && !serves(&models->entry[at], tasks)) ++at;
  if (at >= models->n || !serves(&models->entry[at], tasks)) return ACCEL_ERROR_UNSUPPORTED;
  *out = &models->entry[at].model;
  *number = (uint32_t)at;
  return ACCEL_OK;
}

void serve_models_give_back(serve_models *models, const serve_model *taken) {
  (void)models; /* all stay loaded */
  (void)taken;
}
