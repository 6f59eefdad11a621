/* model_pool_stats.c - what a pool has done and what it holds, as numbers and as JSON. */
#include <string.h>

#include "core/text.h"
#include "dispatch/replicas.h"
#include "generate/batcher.h"
#include "tasks/model_pool_internal.h"

static double seconds(uint64_t ns) { return 1e-9 * (double)ns; }

/* What a name has of its own. */
static void add_name(const accel__pool_name *n, accel_pool_stats *out) {
  out->models++;
  out->references += n->references;
  out->waiting += n->waiting;
  out->pinned += n->pinned;
  out->hits += n->hits;
  out->timeouts += n->timeouts;
  out->wait_seconds += seconds(n->wait_ns);
}

/* What belongs to the endpoint that names share. */
static void add_model(const accel__pool_model *m, accel_pool_stats *out) {
  out->loaded += m->current != NULL;
  out->bytes += m->load_bytes + (m->current ? m->current->bytes : 0);
  out->planned_bytes += m->load_bytes + (m->current ? m->current->planned : 0);
  out->loads += m->loads;
  out->evictions += m->evictions;
  out->failures += m->failures;
  out->moves += m->moves;
  out->load_seconds += seconds(m->load_ns);
}

static accel_pool_stats of_name(const accel_pool *pool, const accel__pool_name *n) {
  accel_pool_stats out = {.size = sizeof out, .memory_limit = pool->memory_limit};
  add_name(n, &out);
  add_model(n->model, &out);
  out.peak_bytes = n->model->peak;
  return out;
}

static accel_pool_stats of_pool(const accel_pool *pool) {
  accel_pool_stats out = {
      .size = sizeof out, .memory_limit = pool->memory_limit, .peak_bytes = pool->peak};
  for (const accel__pool_name *n = pool->names; n; n = n->next) add_name(n, &out);
  for (const accel__pool_model *m = pool->models; m; m = m->next) add_model(m, &out);
  for (const accel__pool_endpoint *e = pool->leaving; e; e = e->next) {
    out.loaded += !e->closing;
    out.bytes += e->bytes;
    out.planned_bytes += e->planned;
  }
  return out;
}

accel_status accel__model_pool_stats(accel_pool *pool, const char *name, accel_pool_stats *out) {
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&pool->lock);
  const accel__pool_name *n = name ? accel__pool_find(pool, name) : NULL;
  if (!name)
    *out = of_pool(pool);
  else if (n)
    *out = of_name(pool, n);
  else
    status = ACCEL_ERROR_NOT_FOUND;
  pthread_mutex_unlock(&pool->lock);
  return status;
}

/* ---- JSON ---- */

static void put_text(accel__buffer *b, const char *key, const char *text) {
  accel__buffer_printf(b, "\"%s\":", key);
  if (text)
    accel__buffer_json_string(b, text, strlen(text));
  else
    accel__buffer_text(b, "null");
}

/* Members that pools and models have both. */
static void put_stats(accel__buffer *b, const accel_pool_stats *s) {
  const struct {
    const char *key;
    uint64_t value;
  } number[] = {{"references", s->references},
                {"waiting", s->waiting},
                {"bytes", s->bytes},
                {"peak_bytes", s->peak_bytes},
                {"planned_bytes", s->planned_bytes},
                {"loads", s->loads},
                {"hits", s->hits},
                {"evictions", s->evictions},
                {"failures", s->failures},
                {"timeouts", s->timeouts},
                {"moves", s->moves}};
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    accel__buffer_printf(b, "\"%s\":%llu,", number[i].key, (unsigned long long)number[i].value);
  accel__buffer_printf(b, "\"load_seconds\":%.6f,\"wait_seconds\":%.6f", s->load_seconds,
                       s->wait_seconds);
}

static uint32_t number_of(const accel_pool *pool, const accel__pool_model *model) {
  uint32_t i = 0;
  for (const accel__pool_model *m = pool->models; m != model; m = m->next) i++;
  return i;
}

/* The name's queue; NULL: nobody has used it since the model was loaded, or it is not. */
static accel_queue *queue_of(const accel__pool_name *n) {
  const accel__pool_endpoint *e = n->model->current;
  for (const accel__pool_queue *q = e ? e->queues : NULL; q; q = q->next)
    if (q->name == n) return q->queue;
  return NULL;
}

static uint32_t queued(const accel__pool_name *n) {
  accel_queue *queue = queue_of(n);
  return queue ? accel__queue_waiting(queue) : 0;
}

accel_status accel__model_pool_queue_stats(accel_pool *pool, const char *name,
                                           accel_queue_stats *out) {
  *out = (accel_queue_stats){.size = sizeof *out};
  pthread_mutex_lock(&pool->lock);
  const accel__pool_name *n = accel__pool_find(pool, name);
  accel_queue *queue = n ? queue_of(n) : NULL;
  if (queue) *out = accel__queue_statistics(queue);
  pthread_mutex_unlock(&pool->lock);
  return n ? ACCEL_OK : ACCEL_ERROR_NOT_FOUND;
}

/* The devices of a model on several, and what each has done. */
static void put_replicas(accel__buffer *b, accel_endpoint *ep) {
  static const char *const standing[] = {"lost", "out", "in"};
  accel__buffer_text(b, "\"replicas\":[");
  for (uint32_t i = 0; i < accel__replicas_count(ep); i++) {
    const accel_replica_stats s = accel__replica_statistics(ep, i);
    accel__buffer_text(b, i ? ",{" : "{");
    put_text(b, "device", s.device);
    accel__buffer_text(b, ",");
    put_text(b, "standing", standing[s.standing + 1]);
    accel__buffer_printf(b, ",\"runs\":%llu,\"items\":%llu,\"units\":%llu,\"seconds\":%.6f}",
                         (unsigned long long)s.runs, (unsigned long long)s.items,
                         (unsigned long long)s.units, s.seconds);
  }
  accel__buffer_text(b, "],");
}

/* "endpoint": the same number is the same endpoint. */
static void put_name(accel__buffer *b, const accel_pool *pool, const accel__pool_name *n) {
  const accel__pool_model *m = n->model;
  const accel_pool_stats stats = of_name(pool, n);
  accel__buffer_text(b, "{");
  put_text(b, "name", n->name);
  accel__buffer_text(b, ",");
  put_text(b, "model", m->model);
  accel__buffer_printf(b, ",\"endpoint\":%u,\"loaded\":%s,\"loading\":%s,\"pinned\":%s,",
                       number_of(pool, m), m->current ? "true" : "false",
                       m->load ? "true" : "false", n->pinned ? "true" : "false");
  put_text(b, "device", m->current ? m->current->device_name : NULL);
  accel__buffer_text(b, ",");
  put_text(b, "precision", m->current ? m->current->precision : NULL);
  accel__buffer_text(b, ",");
  if (m->current && accel__replicas_count(m->current->ep) > 1) put_replicas(b, m->current->ep);
  put_text(b, "wanted_device", m->device ? m->device : "cpu");
  accel__buffer_printf(b, ",\"queued\":%u,", queued(n));
  put_stats(b, &stats);
  accel__buffer_text(b, "}");
}

accel_status accel__model_pool_json(accel_pool *pool, char **json) {
  accel__buffer b = {0};
  pthread_mutex_lock(&pool->lock);
  const accel_pool_stats all = of_pool(pool);
  accel__buffer_printf(&b,
                       "{\"schema\":\"accel.pool/1\",\"memory_limit\":%llu,\"loaded\":%u,"
                       "\"pinned\":%u,",
                       (unsigned long long)all.memory_limit, all.loaded, all.pinned);
  put_stats(&b, &all);
  accel__buffer_text(&b, ",\"models\":[");
  for (const accel__pool_name *n = pool->names; n; n = n->next) {
    if (n != pool->names) accel__buffer_text(&b, ",");
    put_name(&b, pool, n);
  }
  accel__buffer_text(&b, "]}\n");
  pthread_mutex_unlock(&pool->lock);
  const accel_status status = accel__buffer_status(&b);
  if (status == ACCEL_OK)
    *json = b.data;
  else
    accel__buffer_free(&b);
  return status;
}
