/* model_pool_load.c - loading a pool's models, and unloading others to make room for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "dispatch/context.h"
#include "hardware/hardware.h"
#include "processing/processor.h"
#include "tasks/model_pool_internal.h"
#include "tasks/open.h"

/* A load, as its admission sees it. */
typedef struct admitted_load {
  accel_pool *pool;
  accel__pool_name *name;
  const accel__pool_endpoint *keep; /* of the same model, which stays; NULL: none */
  uint64_t until;
  /* of the candidate that was let in last */
  const accel__device *device;
  uint64_t planned, resident, beside; /* bytes: peak; of it weights and the like, and of a run */
  uint64_t epoch, before;             /* when it was let in; memory in use then, 0: not known */
  /* of replicas, which are loaded one after the other: bytes of those that are there, as planned */
  uint64_t settled, settled_planned;
  uint64_t waited_ns;
} admitted_load;

/* ---- memory ---- */

static bool is_host(const accel__device *d) {
  return d->facts.type == ACCEL_PLUGIN_DEVICE_CPU || d->facts.type == ACCEL_PLUGIN_DEVICE_SOFTWARE;
}

/* Whether two devices, of which none is several, take from one memory. */
static bool same_memory(const accel__device *a, const accel__device *b) {
  return a == b || (a->card && a->card == b->card) || (is_host(a) && is_host(b));
}

static bool shares_memory(const accel__device *a, const accel__device *b) {
  const uint32_t n = a->parts ? a->parts->n : 1, k = b->parts ? b->parts->n : 1;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < k; j++)
      if (same_memory(a->parts ? a->parts->device[i] : a, b->parts ? b->parts->device[j] : b))
        return true;
  return false;
}

/* Memory in use: of this process, or of the device; 0: not known. */
static uint64_t used_memory(accel *ctx, const accel__device *device) {
  accel__hardware *hardware;
  accel_plugin_memory memory = {.size = sizeof memory};
  if (device->parts) return 0;
  if (is_host(device)) return accel__resident_bytes();
  if (accel__context_hardware(ctx, &hardware) != ACCEL_OK ||
      accel__device_memory(hardware, device, &memory) != ACCEL_OK) {
    accel__clear_error();
    return 0;
  }
  return memory.total > memory.free && memory.free ? memory.total - memory.free : 0;
}

/* Bytes that count now. */
static uint64_t pool_bytes(const accel_pool *pool) {
  uint64_t bytes = 0;
  for (const accel__pool_model *m = pool->models; m; m = m->next)
    bytes += m->load_bytes + (m->current ? m->current->bytes : 0);
  for (const accel__pool_endpoint *e = pool->leaving; e; e = e->next) bytes += e->bytes;
  return bytes;
}

static void note_peak(accel_pool *pool) {
  const uint64_t bytes = pool_bytes(pool);
  if (bytes > pool->peak) pool->peak = bytes;
}

/* ---- unloading ---- */

/* Runs what waits in its queues first. */
static void close_endpoint(accel__pool_endpoint *e) {
  accel_endpoint *ep = e->ep;
  for (accel__pool_queue *q = e->queues; q;) {
    accel__pool_queue *next = q->next;
    free(q);
    q = next;
  }
  if (ep) accel__close(&ep);
}

static void leave(accel_pool *pool, accel__pool_endpoint *e) {
  e->next = pool->leaving;
  pool->leaving = e;
}

void accel__pool_unload(accel_pool *pool, accel__pool_endpoint *e) {
  if (!e->replaced) leave(pool, e);
  e->closing = true;
  pthread_mutex_unlock(&pool->lock);
  close_endpoint(e);
  pthread_mutex_lock(&pool->lock);
  accel__pool_endpoint **link = &pool->leaving;
  while (*link != e) link = &(*link)->next;
  *link = e->next;
  free(e);
  pool->epoch++;
  pthread_cond_broadcast(&pool->changed);
}

/* ---- who may be let in ---- */

/* What stands in the way of a load. */
typedef struct obstacles {
  uint64_t taken;            /* bytes of all others of the pool */
  uint64_t fixed;            /* of these: pinned, or of the endpoint that is kept */
  uint64_t coming;           /* of these: of loads under way into the same memory */
  uint64_t here;             /* of these: of endpoints in the same memory that may go some time */
  bool busy;                 /* some that would make room are in use or on their way */
  accel__pool_model *victim; /* the one used longest ago that may go now; NULL: none */
} obstacles;

/* anywhere: what lies in other memory counts, too, for the pool's limit is what is short.  m: NULL of
 * an endpoint that is leaving. */
static void add_endpoint(const admitted_load *a, const accel__device *device, bool anywhere,
                         accel__pool_endpoint *e, accel__pool_model *m, obstacles *out) {
  const bool here = shares_memory(e->device, device);
  out->taken += e->bytes;
  if (e == a->keep || (m && m->n_pinned)) {
    out->fixed += e->bytes;
    return;
  }
  if (here) out->here += e->bytes;
  if (!here && !anywhere) return;
  if (!m || e->references)
    out->busy = true;
  else if (!out->victim || e->used < out->victim->current->used)
    out->victim = m;
}

/* The load under way that asks has no bytes of its own yet. */
static obstacles look(const admitted_load *a, const accel__device *device, uint64_t need) {
  const uint64_t limit = a->pool->memory_limit;
  const bool anywhere = limit && pool_bytes(a->pool) + need > limit;
  obstacles out = {0};
  for (accel__pool_model *m = a->pool->models; m; m = m->next) {
    if (m->current) add_endpoint(a, device, anywhere, m->current, m, &out);
    if (!m->load_bytes) continue;
    const bool here = shares_memory(m->load_device, device);
    out.taken += m->load_bytes;
    if (here) out.coming += m->load_bytes;
    out.busy |= here || anywhere;
  }
  for (accel__pool_endpoint *e = a->pool->leaving; e; e = e->next)
    add_endpoint(a, device, anywhere, e, NULL, &out);
  return out;
}

static accel_status never_fits(const admitted_load *a, const accel__device *device, uint64_t need,
                               const obstacles *o) {
  const double mb = 1.0 / (1 << 20);
  const uint64_t limit = a->pool->memory_limit;
  char beside[96] = "";
  if (o->fixed)
    snprintf(beside, sizeof beside, ", and %.1f MiB are of models that stay (pinned, or moving)",
             mb * (double)o->fixed);
  return accel__fail(ACCEL_ERROR_DOES_NOT_FIT,
                     "needs %.1f MiB on %s, but the pool may take %.1f MiB%s; give it a "
                     "memory_limit of at least %.0f MiB, or take a smaller precision",
                     mb * (double)need, device->info.name, mb * (double)limit, beside,
                     mb * (double)(need + o->fixed) + 0.5);
}

static accel_status timed_out(const accel__device *device, uint64_t need, const obstacles *o) {
  const double mb = 1.0 / (1 << 20);
  return accel__fail(ACCEL_ERROR_TIMEOUT,
                     "needs %.1f MiB on %s, and models that take %.1f MiB were in use for as long "
                     "as it could wait",
                     mb * (double)need, device->info.name, mb * (double)o->taken);
}

/* Whether the load can be let in as things are. */
static bool has_memory(const admitted_load *a, const accel__fit *fit, const obstacles *o) {
  const uint64_t limit = a->pool->memory_limit,
                 ready = fit->memory.budget ? fit->memory.budget : fit->memory.free;
  if (limit && o->taken + fit->peak > limit) return false;
  return fit->fits && (!ready || !o->coming || o->coming + fit->peak <= ready);
}

/* Nothing that the pool could unload would make room: the planner refuses it, with its figures. */
static bool is_planners(const accel__fit *fit, const obstacles *o) {
  const uint64_t ready = fit->memory.budget ? fit->memory.budget : fit->memory.free;
  return !fit->fits && (!o->here || (ready && fit->peak > ready + o->here)) && !o->coming;
}

static void let_in(admitted_load *a, const accel__device *device, const accel__fit *fit) {
  accel__pool_model *m = a->name->model;
  const accel_plugin_estimate *e = &fit->estimate;
  a->device = device;
  a->planned = fit->peak;
  a->beside = e->scratch + e->host_staging + fit->state + fit->staging;
  a->resident = fit->total > a->beside ? fit->total - a->beside : 0;
  a->before = used_memory(a->pool->ctx, device);
  a->epoch = ++a->pool->epoch;
  m->load_device = device;
  m->load_bytes = a->settled + fit->peak;
  note_peak(a->pool);
}

/* With the lock held. */
static accel_status decide(admitted_load *a, const accel__device *device, const accel__fit *fit,
                           bool *again) {
  const obstacles o = look(a, device, fit->peak);
  const uint64_t limit = a->pool->memory_limit;
  if (limit && fit->peak + o.fixed > limit) return never_fits(a, device, fit->peak, &o);
  if (is_planners(fit, &o) || has_memory(a, fit, &o) || (!o.victim && !o.busy))
    return let_in(a, device, fit), ACCEL_OK;
  *again = true;
  if (o.victim) {
    accel__pool_endpoint *e = o.victim->current;
    o.victim->current = NULL;
    o.victim->evictions++;
    accel__pool_unload(a->pool, e);
    return ACCEL_OK;
  }
  const accel_status status = accel__pool_wait(a->pool, a->name, a->until);
  return status == ACCEL_ERROR_TIMEOUT ? timed_out(device, fit->peak, &o) : status;
}

static accel_status ask(void *user, const accel__device *device, const accel__fit *fit,
                        bool *again) {
  admitted_load *a = user;
  pthread_mutex_lock(&a->pool->lock);
  const uint64_t begin = accel__now_ns();
  a->name->model->load_bytes = a->settled; /* without an earlier candidate, which has failed */
  const accel_status status = decide(a, device, fit, again);
  a->waited_ns += accel__now_ns() - begin;
  pthread_mutex_unlock(&a->pool->lock);
  return status;
}

/* ---- loading ---- */

/* What counts from now on: what the load has measurably taken, but no less than the planner knows of
 * weights and no more than it planned (the rest is somebody else's), what a run takes beside it, and
 * the tokenizer, which no plan of a load has.  Where others load or unload meanwhile, and where a
 * memory cannot be asked, the planner's figure stands.  With the lock held. */
static uint64_t measured(const admitted_load *a, const accel_endpoint *ep) {
  const accel__tokenizer *tokenizer = accel__processor_for(ep)->tokenizer;
  const uint64_t tables = tokenizer ? accel__tokenizer_bytes(tokenizer) : 0;
  uint64_t bytes = a->resident;
  if (a->before && a->epoch == a->pool->epoch) {
    const uint64_t now = used_memory(a->pool->ctx, a->device),
                   grown = now > a->before + tables ? now - a->before - tables : 0;
    if (grown > bytes) bytes = grown;
  }
  bytes += a->beside;
  return (bytes < a->planned ? bytes : a->planned) + tables;
}

/* One of several replicas is loaded. */
static void settle(void *user, const accel_endpoint *ep) {
  admitted_load *a = user;
  pthread_mutex_lock(&a->pool->lock);
  a->settled += measured(a, ep);
  a->settled_planned += a->planned;
  pthread_mutex_unlock(&a->pool->lock);
}

static void describe(const admitted_load *a, accel__pool_endpoint *e) {
  const accel_placement_report *placement = &e->ep->placement;
  e->device = e->ep->placed_on;
  snprintf(e->device_name, sizeof e->device_name, "%s", placement->device);
  snprintf(e->precision, sizeof e->precision, "%s", placement->precision);
  e->planned = a->settled ? a->settled_planned : a->planned;
  e->bytes = a->settled ? a->settled : measured(a, e->ep);
}

/* The new endpoint takes the place of the one that is there. */
static void make_current(accel_pool *pool, accel__pool_model *m, accel__pool_endpoint *e) {
  accel__pool_endpoint *old = m->current;
  m->current = e;
  m->loads++;
  e->used = ++pool->clock;
  m->load_bytes = 0;
  const uint64_t bytes = e->bytes + (old ? old->bytes : 0);
  if (bytes > m->peak) m->peak = bytes;
  if (!old) return;
  old->replaced = true;
  leave(pool, old);
  note_peak(pool);
  if (!old->references) accel__pool_unload(pool, old);
}

/* The model opened, without the lock. */
static accel_status open_model(admitted_load *a, const char *device, accel__pool_endpoint *e,
                               accel__pool_queue *queue) {
  const accel__pool_model *m = a->name->model;
  const accel__admission admission = {.ask = ask, .replica = settle, .user = a};
  accel_init_params params = m->params;
  params.device = device ? device : m->device;
  params.queue_capacity = a->name->queue_capacity;
  const accel_status status =
      accel__open_admitted(a->pool->ctx, m->model, &params, &admission, &e->ep);
  if (status == ACCEL_OK) *queue = (accel__pool_queue){.name = a->name, .queue = e->ep->queue};
  if (status == ACCEL_ERROR_TIMEOUT)
    accel__remedy(status,
                  "release references sooner, wait longer, or give the pool a larger "
                  "memory_limit");
  return status;
}

accel_status accel__pool_load_now(accel_pool *pool, accel__pool_name *name, const char *device,
                                  uint64_t until) {
  accel__pool_model *m = name->model;
  admitted_load a = {.pool = pool, .name = name, .keep = m->current, .until = until};
  accel__pool_load *load = calloc(1, sizeof *load);
  accel__pool_endpoint *e = calloc(1, sizeof *e);
  accel__pool_queue *queue = calloc(1, sizeof *queue);
  if (!load || !e || !queue) {
    free(load);
    free(e);
    free(queue);
    return accel__no_memory(sizeof *load + sizeof *e + sizeof *queue);
  }
  load->users = 1;
  m->load = load;
  pthread_mutex_unlock(&pool->lock);
  const uint64_t begin = accel__now_ns();
  const accel_status status = open_model(&a, device, e, queue);
  const uint64_t ns = accel__now_ns() - begin;
  pthread_mutex_lock(&pool->lock);
  m->load = NULL;
  load->done = true;
  if (status == ACCEL_OK) {
    e->queues = queue;
    describe(&a, e);
    m->load_ns += ns > a.waited_ns ? ns - a.waited_ns : 0;
    make_current(pool, m, e);
  } else {
    accel__failure_keep(&load->failure, status);
    m->failures++;
    m->load_bytes = 0;
    free(e);
    free(queue);
  }
  pool->epoch++;
  pthread_cond_broadcast(&pool->changed);
  if (!--load->users) free(load);
  return status;
}

accel_status accel__pool_queue_for(accel__pool_endpoint *e, const accel__pool_name *name,
                                   accel_queue **out) {
  accel__pool_queue *q = e->queues;
  while (q && q->name != name) q = q->next;
  if (!q) {
    if (!(q = calloc(1, sizeof *q))) return accel__no_memory(sizeof *q);
    *q = (accel__pool_queue){.name = name, .next = e->queues};
    const accel_status status = accel__queue_add(
        e->ep, name->queue_capacity ? name->queue_capacity : ACCEL__QUEUE_CAPACITY, &q->queue);
    if (status != ACCEL_OK) return free(q), status;
    e->queues = q;
  }
  *out = q->queue;
  return ACCEL_OK;
}
