/* serve_models.c - see serve_models.h. */
#include "serve/serve_models.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "serve/serve_log.h"

typedef struct entry {
  serve_model model;   /* of an adapter its base's, but for name and adapter; of a model that may be
                      * unloaded name and task alone */
  accel_pool_ref *ref; /* of a model with adapters, which lie in its endpoint; else NULL */
  const char *also;    /* the last part of its path, where the name is a path; NULL: none */
  const serve_model_config *config;
  const serve_adapter_config *adapter_config; /* NULL: not an adapter */
  const struct entry *base;                   /* the same */
  accel_adapter *adapter;
  char *owned[2]; /* what names and the task lie in */
  int64_t loaded_at;
} entry;

struct serve_models {
  accel_pool *pool;
  entry *entry; /* [n] a model, then its adapters */
  const char **name;
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
static accel_status name_model(entry *e) {
  const serve_model_config *c = e->config;
  e->model.name = c->name;
  if (c->name) return ACCEL_OK;
  const char *base = base_name(c->path, &e->owned[0]);
  if (!base) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool file = c->path[0] == '/' || c->path[0] == '.';
  e->model.name = file ? base : c->path;
  e->also = file ? c->path : base;
  return ACCEL_OK;
}

/* "MODEL:ADAPTER" by each name of the model. */
static accel_status name_adapter(entry *e) {
  const char *name[2] = {e->base->model.name, e->base->also};
  for (int i = 0; i < 2 && name[i]; ++i) {
    const size_t size = strlen(name[i]) + strlen(e->adapter_config->name) + 2;
    e->owned[i] = malloc(size);
    if (!e->owned[i]) return ACCEL_ERROR_OUT_OF_MEMORY;
    snprintf(e->owned[i], size, "%s:%s", name[i], e->adapter_config->name);
  }
  e->model.name = e->owned[0];
  e->also = e->owned[1];
  return ACCEL_OK;
}

/* One more entry, which stays where it is. */
static accel_status add_entry(serve_models *models, entry new) {
  entry *e = &models->entry[models->n];
  *e = new;
  e->model.task = "";
  const accel_status status = e->base ? name_adapter(e) : name_model(e);
  models->name[models->n++] = e->model.name;
  return status;
}

static accel_status add_model(serve_models *models, const serve_model_config *config) {
  const entry *base = &models->entry[models->n];
  accel_status status = add_entry(models, (entry){.config = config});
  for (uint32_t i = 0; !status && i < config->n_adapter; ++i)
    status = add_entry(
        models, (entry){.config = config, .adapter_config = &config->adapter[i], .base = base});
  return status;
}

static bool called(const entry *e, const char *name) {
  return !strcmp(e->model.name, name) || (e->also && !strcmp(e->also, name));
}

static accel_status check_names(const serve_models *models) {
  for (uint32_t i = 0; i < models->n; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (strcmp(models->entry[k].model.name, models->entry[i].model.name)) continue;
      serve_log(ACCEL_LOG_ERROR, "two %s are called '%s': %s",
                models->entry[i].base ? "adapters" : "models", models->entry[i].model.name,
                models->entry[i].base ? "its \"name\" in the file of --config is another's"
                                      : "--model NAME=PATH names one");
      return ACCEL_ERROR_ARGUMENT;
    }
  }
  return ACCEL_OK;
}

static accel_status open_pool(accel *ctx, const serve_config *config, serve_models *m) {
  accel_pool_params how = accel_pool_params_default();
  how.memory_limit = config->pool_memory;
  how.max_wait_ms = 1000 * config->pool_wait;
  const accel_status status = accel_pool_open(ctx, &how, &m->pool);
  if (status) serve_log(ACCEL_LOG_ERROR, "%s", accel_last_error());
  return status;
}

accel_status serve_models_new(accel *ctx, const serve_config *config, serve_models **out) {
  serve_models *m = calloc(1, sizeof *m);
  if (!m) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = ACCEL_OK;
  m->queue_capacity = 4 * config->max_requests;
  size_t n = config->n_model;
  for (uint32_t i = 0; i < config->n_model; ++i) n += config->model[i].n_adapter;
  m->entry = calloc(n, sizeof *m->entry);
  m->name = calloc(n, sizeof *m->name);
  if (!m->entry || !m->name) status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; !status && i < config->n_model; ++i)
    status = add_model(m, &config->model[i]);
  if (!status) status = check_names(m);
  if (!status) status = open_pool(ctx, config, m);
  if (status) {
    serve_models_free(m);
    return status;
  }
  *out = m;
  return ACCEL_OK;
}

void serve_models_free(serve_models *models) {
  if (!models) return;
  for (uint32_t i = models->n; i-- > 0;) { /* adapters before their models */
    entry *e = &models->entry[i];
    accel_adapter_free(&e->adapter);
    accel_pool_release(&e->ref);
    free(e->owned[0]);
    free(e->owned[1]);
  }
  accel_pool_close(&models->pool);
  free(models->entry);
  free(models->name);
  free(models);
}

/* ---- loading ---- */

/* Cross-encoders are classifiers with one label by their class; clients ask them for ranks. */
static const char *task_of(const accel_processor *p) {
  if (!p->task) return "";
  return !strcmp(p->task, "text-classification") && p->labels->n == 1 ? "text-ranking" : p->task;
}

static accel_status log_failure(const entry *e, accel_status status) {
  serve_log(ACCEL_LOG_ERROR, "%s: %s", e->model.name, accel_last_error());
  if (*accel_last_remedy()) serve_log(ACCEL_LOG_ERROR, "%s", accel_last_remedy());
  return status;
}

/* What the endpoint of `ref` is, for the model of `e`. */
static serve_model describe(const entry *e, const accel_pool_ref *ref) {
  accel_endpoint *endpoint = accel_pool_ref_endpoint(ref);
  const accel_placement_report *placement = accel_placement(endpoint);
  serve_model model = e->model;
  model.endpoint = endpoint;
  model.queue = accel_pool_ref_queue(ref);
  model.path = e->config->path;
  model.device = placement->device;
  model.precision = placement->precision;
  return model;
}

/* Without a limit of memory all stay loaded; with one, those that are to. */
static uint32_t pool_flags(const serve_models *models, const entry *e) {
  accel_pool_stats now = {.size = sizeof now};
  accel_pool_stats_of(models->pool, NULL, &now);
  return !now.memory_limit || e->config->pinned || e->config->n_adapter ? ACCEL_POOL_PINNED : 0;
}

static accel_status load_model(const serve_models *models, entry *e) {
  accel_init_params how = e->config->how;
  accel_pool_ref *ref = NULL;
  if (!how.queue_capacity) how.queue_capacity = models->queue_capacity;
  accel_status status =
      accel_pool_add(models->pool, e->model.name, e->config->path, &how, pool_flags(models, e));
  if (!status) status = accel_pool_acquire(models->pool, e->model.name, -1, &ref);
  if (status) return log_failure(e, status);
  const serve_model now = describe(e, ref);
  e->owned[1] = strdup(task_of(accel_processor_of(now.endpoint)));
  e->model.task = e->owned[1];
  e->loaded_at = (int64_t)time(NULL);
  serve_say("model %s (%s) on %s, %s", now.name, e->model.task ? e->model.task : "", now.device,
            now.precision);
  if (!e->config->n_adapter)
    accel_pool_release(&ref);
  else
    e->ref = ref;
  return e->model.task ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status load_adapter(entry *e) {
  const char *name = e->model.name;
  const accel_status status = accel_adapter_load(accel_pool_ref_endpoint(e->base->ref),
                                                 e->adapter_config->path, &e->adapter);
  if (status) return log_failure(e, status);
  e->model = describe(e->base, e->base->ref);
  e->model.name = name;
  e->model.adapter = e->adapter;
  e->model.adapter_scale = e->adapter_config->scale;
  e->loaded_at = (int64_t)time(NULL);
  serve_say("adapter %s", name);
  return ACCEL_OK;
}

accel_status serve_models_load(serve_models *models) {
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; !status && i < models->n; ++i)
    status = models->entry[i].base ? load_adapter(&models->entry[i])
                                   : load_model(models, &models->entry[i]);
  if (!status) atomic_store(&models->ready, true);
  return status;
}

bool serve_models_ready(const serve_models *models) { return atomic_load(&models->ready); }

/* ---- what is there ---- */

uint32_t serve_models_count(const serve_models *models) { return models->n; }

const char *const *serve_models_names(const serve_models *models) { return models->name; }

accel_pool_stats serve_models_pool(const serve_models *models) {
  accel_pool_stats stats = {.size = sizeof stats};
  accel_pool_stats_of(models->pool, NULL, &stats);
  return stats;
}

char *serve_models_json(const serve_models *models) {
  char *json = NULL;
  return accel_pool_json(models->pool, &json) == ACCEL_OK ? json : NULL;
}

accel_queue_stats serve_models_queue(const serve_models *models, uint32_t model) {
  const entry *e = &models->entry[model];
  accel_queue_stats stats = {.size = e->base ? 0 : sizeof stats};
  if (!e->base && serve_models_ready(models))
    accel_pool_queue_statistics(models->pool, e->model.name, &stats);
  return stats;
}

const char *serve_models_parent(const serve_models *models, uint32_t model) {
  const entry *base = models->entry[model].base;
  return base ? base->model.name : NULL;
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

/* The number of the model `name`, or where there is no name, of the first for `tasks`. */
static accel_status find(const serve_models *models, const char *name, const char *const *tasks,
                         uint32_t *number) {
  const bool any = !name || !*name;
  int64_t at = any ? 0 : serve_models_find(models, name);
  if (at < 0) return ACCEL_ERROR_NOT_FOUND;
  if (!serve_models_ready(models)) return ACCEL_ERROR_DOES_NOT_FIT;
  while (any && at < models->n && !serves(&models->entry[at], tasks)) ++at;
  if (at >= models->n || !serves(&models->entry[at], tasks)) return ACCEL_ERROR_UNSUPPORTED;
  *number = (uint32_t)at;
  return ACCEL_OK;
}

/* A model that was loaded once and fails now has other files than then, which is nothing that the
 * client could do better; but for these. */
static bool not_the_files(accel_status status) {
  return status == ACCEL_ERROR_TIMEOUT || status == ACCEL_ERROR_CANCELLED ||
         status == ACCEL_ERROR_DOES_NOT_FIT || status == ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status serve_models_take(serve_models *models, const char *name, const char *const *tasks,
                               serve_taken *out) {
  accel_status status = find(models, name, tasks, &out->number);
  if (status) return status;
  const entry *e = &models->entry[out->number];
  out->model = e->model;
  out->model.path = e->config->path; /* a failure to load it again may name it */
  out->ref = NULL;
  if (e->base) return ACCEL_OK;
  status = accel_pool_acquire(models->pool, e->model.name, -1, &out->ref);
  if (!status) out->model = describe(e, out->ref);
  return status == ACCEL_OK || not_the_files(status) ? status : ACCEL_ERROR_IO;
}

void serve_models_give_back(serve_taken *taken) { accel_pool_release(&taken->ref); }
