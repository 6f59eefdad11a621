/* model_pool.c - a pool's names, and handing out their models. */
#include "tasks/model_pool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/monotonic.h"
#include "core/file.h"
#include "core/text.h"
#include "dispatch/locate.h"
#include "tasks/embed.h"
#include "tasks/model_pool_internal.h"
#include "tasks/open.h"

/* ---- the pool ---- */

accel_status accel__model_pool_open(accel *ctx, const accel_pool_params *params, accel_pool **out) {
  accel_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return accel__no_memory(sizeof *pool);
  pool->ctx = ctx;
  pool->memory_limit = params->memory_limit;
  pool->max_wait_ms = params->max_wait_ms;
  pthread_mutex_init(&pool->lock, NULL);
  accel__cond_init(&pool->changed);
  *out = pool;
  return ACCEL_OK;
}

void accel__model_pool_close(accel_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  for (accel__pool_model *m = pool->models; m; m = m->next) {
    accel__pool_endpoint *e = m->current;
    m->current = NULL;
    if (e) accel__pool_unload(pool, e);
    free(m->device);
  }
  pthread_mutex_unlock(&pool->lock);
  pthread_cond_destroy(&pool->changed);
  pthread_mutex_destroy(&pool->lock);
  accel__arena_free(&pool->arena);
  free(pool);
}

accel__pool_name *accel__pool_find(accel_pool *pool, const char *name) {
  enum { SHOWN = 64 };
  const char *known[SHOWN];
  size_t n = 0;
  for (accel__pool_name *at = pool->names; at; at = at->next) {
    if (!strcmp(at->name, name)) return at;
    if (n < SHOWN) known[n++] = at->name;
  }
  const char *near = accel__nearest(name, known, n);
  accel__fail(ACCEL_ERROR_NOT_FOUND, "the pool has no model '%s'%s%s%s", name,
              near ? "; the nearest is '" : "", near ? near : "", near ? "'" : "");
  accel__remedy(ACCEL_ERROR_NOT_FOUND, "add it with accel_pool_add()");
  return NULL;
}

/* Until the pool changes or `end` has passed, which is the answer. */
static bool passed(accel_pool *pool, uint64_t end) {
  const struct timespec at = {.tv_sec = (time_t)(end / 1000000000),
                              .tv_nsec = (long)(end % 1000000000)};
  if (end != ACCEL__POOL_FOR_EVER)
    return pthread_cond_timedwait(&pool->changed, &pool->lock, &at) == ETIMEDOUT;
  pthread_cond_wait(&pool->changed, &pool->lock);
  return false;
}

accel_status accel__pool_wait(accel_pool *pool, accel__pool_name *name, uint64_t until) {
  enum { SLICE = 20000000 }; /* ns between two looks at whether to stop */
  const uint64_t begin = accel__now_ns();
  accel_status status = ACCEL_OK;
  for (uint64_t now = begin;; now = accel__now_ns()) {
    status = accel__check_cancelled(pool->ctx);
    if (status == ACCEL_OK && now >= until)
      status = accel__fail(ACCEL_ERROR_TIMEOUT, "%s: no time is left", name->name);
    const bool looks = pool->ctx->params.cancel && now + SLICE < until;
    if (status != ACCEL_OK || !passed(pool, looks ? now + SLICE : until)) break;
  }
  name->wait_ns += accel__now_ns() - begin;
  return status;
}

/* ---- adding ---- */

_Static_assert(sizeof(accel_init_params) - offsetof(accel_init_params, variant) <
                   sizeof(char *) + _Alignof(accel_init_params), /* what is behind it is padding */
               "a new parameter is copied in keep_params and compared in same_endpoint");

/* Copies a string of the parameters to the pool's arena. */
static accel_status keep(accel_pool *pool, const char **string) {
  if (!*string) return ACCEL_OK;
  *string = accel__arena_string(&pool->arena, *string);
  return *string ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status keep_adapters(accel_pool *pool, accel_init_params *p) {
  if (!p->n_adapters) return ACCEL_OK;
  accel_adapter_spec *mine = accel__arena_array(&pool->arena, p->n_adapters, sizeof *mine);
  if (!mine) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(mine, p->adapters, p->n_adapters * sizeof *mine);
  p->adapters = mine;
  for (uint32_t i = 0; i < p->n_adapters; i++) ACCEL_TRY(keep(pool, &mine[i].path));
  return ACCEL_OK;
}

static accel_status keep_params(accel_pool *pool, accel_init_params *p) {
  ACCEL_TRY(keep(pool, &p->precision));
  ACCEL_TRY(keep(pool, &p->task));
  ACCEL_TRY(keep(pool, &p->architecture));
  ACCEL_TRY(keep(pool, &p->kv_cache));
  ACCEL_TRY(keep(pool, &p->precision_profile));
  ACCEL_TRY(keep(pool, &p->metric));
  ACCEL_TRY(keep(pool, &p->candidates));
  ACCEL_TRY(keep(pool, &p->decoder));
  ACCEL_TRY(keep(pool, &p->variant));
  return keep_adapters(pool, p);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_adapters(const accel_init_params *p, const accel_init_params *q) {
  if (p->n_adapters != q->n_adapters || p->enable_adapters != q->enable_adapters) return false;
  for (uint32_t i = 0; i < p->n_adapters; i++)
    if (!same_text(p->adapters[i].path, q->adapters[i].path) ||
        p->adapters[i].scale != q->adapters[i].scale)
      return false;
  return true;
}

/* One endpoint serves both but for task and queue: what it is made from, where it is, and how it
 * cuts texts. */
static bool same_endpoint(const accel__pool_model *a, const accel__pool_model *b) {
  const accel_init_params *p = &a->params, *q = &b->params;
  const bool files = a->directory && b->directory
                         ? !strcmp(a->directory, b->directory)
                         : !a->directory && !b->directory && !strcmp(a->model, b->model);
  return files && same_text(a->device, b->device) && same_text(p->precision, q->precision) &&
         same_text(p->architecture, q->architecture) && same_text(p->kv_cache, q->kv_cache) &&
         same_text(p->precision_profile, q->precision_profile) && same_text(p->metric, q->metric) &&
         same_text(p->decoder, q->decoder) && same_text(p->candidates, q->candidates) &&
         same_text(p->variant, q->variant) &&
         p->without_safety_checker == q->without_safety_checker &&
         p->candidates_fn == q->candidates_fn && p->candidates_user == q->candidates_user &&
         p->min_cosine == q->min_cosine && p->batch_size == q->batch_size &&
         p->max_length == q->max_length && p->random_weights == q->random_weights &&
         p->seed == q->seed && p->prefix_cache_bytes == q->prefix_cache_bytes &&
         same_adapters(p, q);
}

/* `there` serves what is wanted, or will do so as wanted's class. */
static bool serves(const accel__pool_model *there, const accel__pool_model *wanted) {
  if (there->class == wanted->class) return true;
  if (there->class == ACCEL__POOL_OWN) return wanted->own_embeds;
  return there->own_embeds && wanted->class == ACCEL__POOL_OWN && !there->current && !there->load;
}

/* Whether the model's own class embeds as its base class does.  Reads config.json and the headers of
 * the checkpoint; a model that cannot be read says so when it is loaded. */
static accel_status own_class_embeds(accel *ctx, const accel__pool_model *m, bool *embeds) {
  const accel__registry_model *entry;
  accel_endpoint *own;
  accel_init_params params = m->params;
  params.task = NULL;
  const accel_status status = accel__open_dry(ctx, m->model, &params, &entry, &own);
  if (status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  accel__clear_error();
  *embeds = status == ACCEL_OK && accel__embeds_rows(own);
  accel__endpoint_free(own);
  return ACCEL_OK;
}

/* What the parameters stand for.  *m lives in the arena, the strings of its parameters do not. */
static accel_status describe(accel_pool *pool, const char *model, const accel_init_params *params,
                             accel__arena *arena, accel__pool_model *m) {
  char *directory, resolved[PATH_MAX];
  *m = (accel__pool_model){.model = model, .params = *params};
  m->device = (char *)(uintptr_t)params->device; /* copied when the model is kept */
  m->params.device = NULL;
  m->params.queue_capacity = 0;
  if (params->task && !(m->params.task = accel__registry_task_name(params->task)))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "unknown task '%s'; such as feature-extraction",
                       params->task);
  accel_status status = accel__locate(pool->ctx, model, arena, &directory, NULL);
  if (status == ACCEL_ERROR_NOT_FOUND && params->random_weights) {
    accel__clear_error();
    directory = NULL;
    status = ACCEL_OK;
  }
  ACCEL_TRY(status);
  if (directory)
    m->directory = accel__arena_string(arena, realpath(directory, resolved) ? resolved : directory);
  if (directory && !m->directory) return ACCEL_ERROR_OUT_OF_MEMORY;
  const char *modules = directory ? accel__path_join(arena, directory, "modules.json") : NULL;
  if (directory && !modules) return ACCEL_ERROR_OUT_OF_MEMORY;
  const bool features = m->params.task && !strcmp(m->params.task, "feature-extraction");
  m->class = modules && (features || !m->params.task) && accel__file_exists(modules)
                 ? ACCEL__POOL_SENTENCE
             : features && !params->architecture ? ACCEL__POOL_BASE
                                                 : ACCEL__POOL_OWN;
  return m->class == ACCEL__POOL_BASE ? own_class_embeds(pool->ctx, m, &m->own_embeds) : ACCEL_OK;
}

/* The model of the pool that serves `wanted`, made where there is none. */
static accel_status model_for(accel_pool *pool, const accel__pool_model *wanted,
                              accel__pool_model **out) {
  accel__pool_model **link = &pool->models;
  for (; *link; link = &(*link)->next)
    if (same_endpoint(*link, wanted) && serves(*link, wanted)) break;
  if (*link) {
    *out = *link;
    if ((*link)->class == wanted->class || wanted->class != ACCEL__POOL_OWN) return ACCEL_OK;
    (*link)->class = ACCEL__POOL_OWN; /* not loaded yet: it becomes what serves both */
    (*link)->params.task = wanted->params.task;
    return keep(pool, &(*link)->params.task);
  }
  accel__pool_model *m = accel__arena_alloc(&pool->arena, sizeof *m);
  if (!m) return ACCEL_ERROR_OUT_OF_MEMORY;
  *m = *wanted;
  ACCEL_TRY(keep(pool, &m->model));
  ACCEL_TRY(keep(pool, &m->directory));
  ACCEL_TRY(keep_params(pool, &m->params));
  if (wanted->device && !(m->device = strdup(wanted->device))) return accel__no_memory(1);
  *out = *link = m;
  return ACCEL_OK;
}

/* With the lock held. */
static accel_status add(accel_pool *pool, const char *name, const accel__pool_model *wanted,
                        uint32_t queue_capacity, bool pinned) {
  accel__pool_name **link = &pool->names;
  for (; *link; link = &(*link)->next)
    if (!strcmp((*link)->name, name))
      return accel__remedy(
          accel__fail(ACCEL_ERROR_ARGUMENT, "the pool has a model '%s' already", name),
          "give each its own name");
  accel__pool_name *n = accel__arena_alloc(&pool->arena, sizeof *n);
  if (!n) return ACCEL_ERROR_OUT_OF_MEMORY;
  *n = (accel__pool_name){.name = name, .queue_capacity = queue_capacity, .pinned = pinned};
  ACCEL_TRY(keep(pool, &n->name));
  ACCEL_TRY(model_for(pool, wanted, &n->model));
  n->model->n_pinned += pinned;
  *link = n;
  return ACCEL_OK;
}

accel_status accel__model_pool_add(accel_pool *pool, const char *name, const char *model,
                                   const accel_init_params *params, uint32_t flags) {
  accel__arena arena = {0};
  accel__pool_model wanted;
  accel_pool_ref *ref;
  accel_status status = describe(pool, model, params, &arena, &wanted);
  if (status == ACCEL_OK) {
    pthread_mutex_lock(&pool->lock);
    status = add(pool, name, &wanted, params->queue_capacity, (flags & ACCEL_POOL_PINNED) != 0);
    pthread_mutex_unlock(&pool->lock);
  }
  accel__arena_free(&arena);
  if (status != ACCEL_OK || !(flags & ACCEL_POOL_PRELOAD)) return status;
  ACCEL_TRY(accel__model_pool_acquire(pool, name, -1, &ref));
  accel__model_pool_release(ref);
  return ACCEL_OK;
}

accel_status accel__model_pool_pin(accel_pool *pool, const char *name, bool pinned) {
  pthread_mutex_lock(&pool->lock);
  accel__pool_name *n = accel__pool_find(pool, name);
  if (n && n->pinned != pinned) {
    n->pinned = pinned;
    n->model->n_pinned += pinned ? 1 : -1u;
    pthread_cond_broadcast(&pool->changed);
  }
  pthread_mutex_unlock(&pool->lock);
  return n ? ACCEL_OK : ACCEL_ERROR_NOT_FOUND;
}

/* ---- handing out ---- */

static uint64_t until_of(const accel_pool *pool, int64_t timeout_ms) {
  if (timeout_ms < 0 && pool->max_wait_ms) timeout_ms = pool->max_wait_ms;
  return timeout_ms < 0 || timeout_ms > INT64_MAX / 2000000
             ? ACCEL__POOL_FOR_EVER
             : accel__now_ns() + UINT64_C(1000000) * (uint64_t)timeout_ms;
}

/* Another's load, to its end; its failure is this thread's, too, but that its time was up. */
static accel_status wait_for_load(accel_pool *pool, accel__pool_name *name, uint64_t until) {
  accel__pool_load *load = name->model->load;
  accel_status status = ACCEL_OK;
  load->users++;
  while (!load->done && status == ACCEL_OK) status = accel__pool_wait(pool, name, until);
  if (load->done && load->failure.status != ACCEL_ERROR_TIMEOUT)
    status = accel__failure_raise(&load->failure);
  if (!--load->users) free(load);
  if (status != ACCEL_ERROR_TIMEOUT) return status;
  return accel__fail(status, "%s: another thread was still loading it when the time was up",
                     name->name);
}

/* With the lock held: waits and loads until the model is there. */
static accel_status have_loaded(accel_pool *pool, accel__pool_name *name, uint64_t until) {
  accel__pool_model *m = name->model;
  accel_status status = ACCEL_OK;
  if (m->current) name->hits++;
  name->waiting++;
  while (!m->current && status == ACCEL_OK)
    status =
        m->load ? wait_for_load(pool, name, until) : accel__pool_load_now(pool, name, NULL, until);
  name->waiting--;
  name->timeouts += status == ACCEL_ERROR_TIMEOUT;
  return status;
}

accel_status accel__model_pool_acquire(accel_pool *pool, const char *name, int64_t timeout_ms,
                                       accel_pool_ref **out) {
  const uint64_t until = until_of(pool, timeout_ms);
  accel_pool_ref *ref = calloc(1, sizeof *ref);
  if (!ref) return accel__no_memory(sizeof *ref);
  pthread_mutex_lock(&pool->lock);
  accel__pool_name *n = accel__pool_find(pool, name);
  accel_status status = n ? have_loaded(pool, n, until) : ACCEL_ERROR_NOT_FOUND;
  if (status == ACCEL_OK) {
    accel__pool_endpoint *e = n->model->current;
    *ref = (accel_pool_ref){.pool = pool, .name = n, .endpoint = e};
    status = accel__pool_queue_for(e, n, &ref->queue);
    if (status == ACCEL_OK) {
      e->references++;
      e->used = ++pool->clock;
      n->references++;
      *out = ref;
    }
  }
  pthread_mutex_unlock(&pool->lock);
  if (status != ACCEL_OK) free(ref);
  return status;
}

void accel__model_pool_release(accel_pool_ref *ref) {
  accel_pool *pool = ref->pool;
  accel__pool_endpoint *e = ref->endpoint;
  pthread_mutex_lock(&pool->lock);
  ref->name->references--;
  e->used = ++pool->clock;
  if (!--e->references) {
    if (e->replaced) accel__pool_unload(pool, e);
    pthread_cond_broadcast(&pool->changed);
  }
  pthread_mutex_unlock(&pool->lock);
  free(ref);
}

accel_endpoint *accel__model_pool_ref_endpoint(const accel_pool_ref *ref) {
  return ref->endpoint->ep;
}
accel_queue *accel__model_pool_ref_queue(const accel_pool_ref *ref) { return ref->queue; }

/* ---- moving ---- */

/* The name means a device that could serve. */
static accel_status check_device(accel *ctx, const char *device) {
  accel__hardware *hardware;
  accel__choice choice = {0};
  ACCEL_TRY(accel__context_hardware(ctx, &hardware));
  const accel_status status = accel__hardware_choose(hardware, device, &choice);
  accel__choice_free(&choice);
  return status;
}

/* With the lock held. */
static accel_status move(accel_pool *pool, accel__pool_name *n, const char *device,
                         char **own_device) {
  accel__pool_model *m = n->model;
  const uint64_t until = until_of(pool, -1);
  accel_status status = ACCEL_OK;
  n->waiting++;
  while (m->load && status == ACCEL_OK) status = accel__pool_wait(pool, n, until);
  const bool loaded = m->current != NULL;
  if (status == ACCEL_OK && loaded && !same_text(m->device, device))
    status = accel__pool_load_now(pool, n, device, until);
  n->waiting--;
  if (status != ACCEL_OK || same_text(m->device, device)) return status;
  char *before = m->device;
  m->device = *own_device;
  *own_device = before;
  m->moves += loaded;
  return ACCEL_OK;
}

accel_status accel__model_pool_move(accel_pool *pool, const char *name, const char *device) {
  ACCEL_TRY(check_device(pool->ctx, device));
  char *own_device = strdup(device);
  if (!own_device) return accel__no_memory(strlen(device) + 1);
  pthread_mutex_lock(&pool->lock);
  accel__pool_name *n = accel__pool_find(pool, name);
  const accel_status status = n ? move(pool, n, device, &own_device) : ACCEL_ERROR_NOT_FOUND;
  pthread_mutex_unlock(&pool->lock);
  free(own_device);
  return status;
}
