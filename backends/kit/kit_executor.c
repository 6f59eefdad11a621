/* kit_executor.c - endpoints and runs: bind, plan (cached), fetch a scratch instance, walk the nodes,
 * hand the outputs over.
 *
 * An endpoint is immutable but for two things under its mutex: the plans of the last few shapes and
 * the free list of instances.  An instance is what one run needs to itself; as many exist as runs
 * ever overlapped, up to MAX_IDLE are kept.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/kit_internal.h"

enum { PLAN_CACHE = 8, MAX_IDLE = 8 };

typedef struct instance {
  struct instance *next;
  void *buffer; /* scratch, on the device or KIT_ALIGN aligned host memory */
  uint64_t capacity;
  accel_plugin_view *in, *out;
  uint8_t *wanted;
  int64_t *symbol, *dim;
  kit_rows *rows;
  int32_t *start; /* of all row spaces, one after the other */
  uint64_t n_start;
  kit_tensor *operand; /* of the node at hand */
  uint32_t n_operand;
} instance;

struct accel_plugin_endpoint {
  accel_plugin_program *program;
  const kit_backend *backend;
  void *self;
  uint32_t flags; /* of the precision */
  /* memory_limit of the options (0 none) and what the weights take of it */
  uint64_t limit, weights;
  _Atomic uint64_t taken; /* by scratch and KV pages */
  uint64_t *weight_bytes; /* [n_weight] of which `weights` is the sum */
  kit_endpoint_state state;
  kit_free_list spares; /* of pages in host memory */
  uint32_t max_in, max_out;
  pthread_mutex_t lock;
  kit_plan *cache[PLAN_CACHE];
  uint64_t tick;
  instance *idle;
  uint32_t n_idle;
};

/* A step of a profiled run on a device, told when the device has finished. */
typedef struct watched_step {
  accel_plugin_step step;
  int32_t node[KIT_MAX_FUSED + 1];
} watched_step;

/* One call of handler. */
typedef struct job {
  accel_plugin_endpoint *endpoint;
  const accel_plugin_entry *entry;
  accel_plugin_run run;
  const accel_plugin_host *host;
  instance *inst;
  kit_plan *plan;
  kit_run_state *state;
  void *device_run;      /* of backend->begin */
  double *node_us;       /* of kit_begin; NULL: not profiled, or not a device */
  watched_step *watched; /* [n_watched], room for the plan's steps; NULL as node_us */
  uint32_t n_watched;
  uint32_t n_in, n_out;
} job;

static const accel_plugin_view *view_at(const accel_plugin_view *v, uint32_t i) {
  return (const void *)((const char *)v + (size_t)i * v[0].size);
}

/* ---- scratch memory ---- */

static bool count_as_taken(const kit_endpoint_state *e, uint64_t bytes) {
  const uint64_t before = atomic_fetch_add(e->taken, bytes), room = e->limit - e->weights;
  if (!e->limit || (before <= room && bytes <= room - before)) return true;
  atomic_fetch_sub(e->taken, bytes);
  return false;
}

bool kit_memory_take(const kit_endpoint_state *e, uint64_t bytes) {
  if (count_as_taken(e, bytes)) return true;
  kit_memory_give(e, kit_free_list_drop(e->spares));
  return count_as_taken(e, bytes);
}

void kit_memory_give(const kit_endpoint_state *e, uint64_t bytes) {
  atomic_fetch_sub(e->taken, bytes);
}

static void scratch_free(const accel_plugin_endpoint *e, instance *inst) {
  if (e->backend->alloc) {
    if (inst->buffer) e->backend->release(e->self, inst->buffer);
  } else {
    free(inst->buffer);
  }
  kit_memory_give(&e->state, inst->capacity);
  inst->buffer = NULL;
  inst->capacity = 0;
}

static int32_t scratch_grow(const accel_plugin_endpoint *e, instance *inst, uint64_t bytes,
                            const accel_plugin_host *host, accel_plugin_error *error) {
  if (bytes <= inst->capacity) return ACCEL_PLUGIN_OK;
  scratch_free(e, inst);
  if (!kit_memory_take(&e->state, bytes))
    return kit_fail(
        error, e->backend->alloc ? ACCEL_PLUGIN_E_DEVICE_MEMORY : ACCEL_PLUGIN_E_HOST_MEMORY, -1,
        "%llu bytes of scratch beside %llu of weights and %llu of other runs and sessions pass the "
        "memory limit "
        "of %llu: use a smaller batch",
        (unsigned long long)bytes, (unsigned long long)e->weights,
        (unsigned long long)atomic_load(&e->taken), (unsigned long long)e->limit);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (kit_fault(host, "allocation"))
    rc = kit_no_memory(error, bytes);
  else if (e->backend->alloc)
    rc = e->backend->alloc(e->self, bytes, &inst->buffer, error);
  else if (!(inst->buffer = kit_alloc_pages(bytes)))
    rc = kit_no_memory(error, bytes);
  if (rc)
    kit_memory_give(&e->state, bytes);
  else
    inst->capacity = bytes;
  return rc;
}

/* ---- instances ---- */

static void instance_free(const accel_plugin_endpoint *e, instance *inst) {
  if (!inst) return;
  scratch_free(e, inst);
  free(inst->in);
  free(inst->out);
  free(inst->wanted);
  free(inst->symbol);
  free(inst->dim);
  free(inst->rows);
  free(inst->start);
  free(inst->operand);
  free(inst);
}

static instance *instance_new(const accel_plugin_endpoint *e) {
  instance *inst = calloc(1, sizeof *inst);
  if (!inst) return NULL;
  inst->in = calloc(e->max_in + 1, sizeof *inst->in);
  inst->out = calloc(e->max_out + 1, sizeof *inst->out);
  inst->wanted = calloc(e->max_out + 1, 1);
  inst->symbol = calloc(e->program->n_symbol + 1, sizeof *inst->symbol);
  inst->dim = calloc(e->program->n_dim + 1, sizeof *inst->dim);
  inst->rows = calloc(e->program->n_space + 1, sizeof *inst->rows);
  if (inst->in && inst->out && inst->wanted && inst->symbol && inst->dim && inst->rows) return inst;
  instance_free(e, inst);
  return NULL;
}

/* The idle instance with the most scratch, or a new one. */
static instance *instance_take(accel_plugin_endpoint *e) {
  pthread_mutex_lock(&e->lock);
  instance **best = &e->idle;
  for (instance **i = &e->idle; *i; i = &(*i)->next)
    if ((*i)->capacity > (*best)->capacity) best = i;
  instance *inst = *best;
  if (inst) {
    *best = inst->next;
    e->n_idle--;
  }
  pthread_mutex_unlock(&e->lock);
  return inst ? inst : instance_new(e);
}

static void instance_give(accel_plugin_endpoint *e, instance *inst) {
  pthread_mutex_lock(&e->lock);
  bool keep = e->n_idle < MAX_IDLE;
  if (keep) {
    inst->next = e->idle;
    e->idle = inst;
    e->n_idle++;
  }
  pthread_mutex_unlock(&e->lock);
  if (!keep) instance_free(e, inst);
}

/* ---- plans ---- */

static void plan_drop(kit_plan *plan) {
  if (plan && atomic_fetch_sub(&plan->users, 1) == 1) kit_plan_free(plan);
}

static bool plan_fits(const kit_plan *plan, const job *j, uint32_t workers) {
  const accel_plugin_program *p = j->endpoint->program;
  return plan && plan->entry == j->run.entry && plan->workers == workers &&
         !memcmp(plan->symbol, j->inst->symbol, p->n_symbol * sizeof *plan->symbol) &&
         !memcmp(plan->wanted, j->inst->wanted, j->entry->n_out);
}

static kit_plan *plan_find(job *j, uint32_t workers) {
  accel_plugin_endpoint *e = j->endpoint;
  kit_plan *found = NULL;
  pthread_mutex_lock(&e->lock);
  for (int i = 0; i < PLAN_CACHE && !found; i++)
    if (plan_fits(e->cache[i], j, workers)) found = e->cache[i];
  if (found) {
    found->used = ++e->tick;
    atomic_fetch_add(&found->users, 1);
  }
  pthread_mutex_unlock(&e->lock);
  return found;
}

/* Puts a plan in the place of the one unused for longest. */
static void plan_keep(accel_plugin_endpoint *e, kit_plan *plan) {
  pthread_mutex_lock(&e->lock);
  int oldest = 0;
  for (int i = 1; i < PLAN_CACHE && e->cache[oldest]; i++)
    if (!e->cache[i] || e->cache[i]->used < e->cache[oldest]->used) oldest = i;
  kit_plan *gone = e->cache[oldest];
  plan->used = ++e->tick;
  atomic_fetch_add(&plan->users, 1);
  e->cache[oldest] = plan;
  pthread_mutex_unlock(&e->lock);
  plan_drop(gone);
}

static int32_t plan_get(job *j, accel_plugin_error *error) {
  accel_plugin_endpoint *e = j->endpoint;
  uint32_t workers = j->host && j->host->workers ? j->host->workers(j->host->self) : 1;
  j->plan = plan_find(j, workers);
  if (j->plan) return ACCEL_PLUGIN_OK;
  kit_plan_request r = {.program = e->program,
                        .backend = e->backend,
                        .self = e->self,
                        .entry = j->run.entry,
                        .workers = workers,
                        .symbol = j->inst->symbol,
                        .dim = j->inst->dim,
                        .wanted = j->inst->wanted};
  int32_t rc = kit_plan_new(&r, &j->plan, error);
  if (!rc) plan_keep(e, j->plan);
  return rc;
}

/* ---- the parts of a run ---- */

static bool view_empty(const accel_plugin_view *v) {
  for (uint32_t r = 0; r < v->rank && r < ACCEL_PLUGIN_MAX_RANK; r++)
    if (!v->dim[r]) return true;
  return false;
}

static int32_t take_views(job *j, const accel_plugin_view *in, const accel_plugin_view *out,
                          accel_plugin_error *error) {
  instance *inst = j->inst;
  if (j->n_in != j->entry->n_in || j->n_out != j->entry->n_out)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "entry '%s' takes %u inputs and %u outputs, got %u and %u", j->entry->name,
                    j->entry->n_in, j->entry->n_out, j->n_in, j->n_out);
  if ((j->n_in && in[0].size < sizeof *in) || (j->n_out && out[0].size < sizeof *out))
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "views are shorter than this plugin's");
  for (uint32_t i = 0; i < j->n_in; i++) {
    kit_read_struct(&inst->in[i], sizeof *inst->in, view_at(in, i), in[0].size);
    if (!inst->in[i].host && !inst->in[i].device && !view_empty(&inst->in[i]))
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "input '%s' has no data",
                      kit_tensor_name(j->endpoint->program, j->entry->in[i]));
  }
  for (uint32_t i = 0; i < j->n_out; i++) {
    kit_read_struct(&inst->out[i], sizeof *inst->out, view_at(out, i), out[0].size);
    inst->wanted[i] = inst->out[i].host || inst->out[i].device;
  }
  return ACCEL_PLUGIN_OK;
}

/* Writes the wanted outputs' shapes back, then complains about the first that is too small. */
static int32_t give_shapes(job *j, accel_plugin_view *out, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < j->n_out; i++) {
    if (!j->inst->wanted[i]) continue;
    const kit_tensor *t = &j->plan->tensor[j->entry->out[i]];
    accel_plugin_view *view = (accel_plugin_view *)view_at(out, i);
    if (view->dtype != t->dtype && !rc)
      rc = kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "output '%s': dtype %u, expected %u",
                    kit_tensor_name(j->endpoint->program, t->id), view->dtype, t->dtype);
    view->rank = t->rank;
    memcpy(view->dim, t->dim, sizeof view->dim);
    if (!rc && view->capacity < (uint64_t)t->elements * 4)
      rc = kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1,
                    "output '%s' needs %llu bytes, its buffer has %llu",
                    kit_tensor_name(j->endpoint->program, t->id),
                    (unsigned long long)t->elements * 4, (unsigned long long)view->capacity);
  }
  return rc;
}

static void *view_data(const accel_plugin_view *v) {
  return v->host ? v->host : (char *)v->device + v->offset;
}

/* The lengths of a ragged space in host memory; *copy is to be freed. */
static int32_t lengths_of(job *j, uint32_t space, const int32_t **lengths, int32_t **copy,
                          accel_plugin_error *error) {
  const accel_plugin_space *s = &j->endpoint->program->space[space];
  *lengths = *copy = NULL;
  if (s->lengths < 0) return ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < j->n_in; i++) {
    if (j->entry->in[i] != s->lengths) continue;
    const accel_plugin_view *v = &j->inst->in[i];
    if (v->host || !j->endpoint->backend->alloc) {
      static const int32_t none = 0; /* no items: any address will do */
      *lengths = v->dim[0] ? view_data(v) : &none;
      return ACCEL_PLUGIN_OK;
    }
    *copy = malloc((size_t)v->dim[0] * 4 + 4);
    if (!*copy) return kit_no_memory(error, (uint64_t)v->dim[0] * 4);
    *lengths = *copy;
    return j->endpoint->backend->download(j->endpoint->self, *copy, v->device, v->offset,
                                          (uint64_t)v->dim[0] * 4, error);
  }
  return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                  "entry '%s' uses row space '%s' but has no input '%s'", j->entry->name, s->name,
                  kit_tensor_name(j->endpoint->program, s->lengths));
}

static int32_t make_rows(job *j, accel_plugin_error *error) {
  const accel_plugin_program *p = j->endpoint->program;
  instance *inst = j->inst;
  uint64_t need = 0;
  for (uint32_t i = 0; i < p->n_space; i++) {
    int64_t items = inst->dim[p->space[i].items];
    if (j->plan->space[i] && items > 0 && items < INT32_MAX) need += (uint64_t)items;
  }
  need += p->n_space;
  if (need > inst->n_start) {
    int32_t *start = realloc(inst->start, need * sizeof *start);
    if (!start) return kit_no_memory(error, need * sizeof *start);
    inst->start = start;
    inst->n_start = need;
  }
  int32_t *start = inst->start;
  for (uint32_t i = 0; i < p->n_space; i++) {
    inst->rows[i] = (kit_rows){0};
    if (!j->plan->space[i]) continue;
    const int32_t *lengths;
    int32_t *copy;
    int32_t rc = lengths_of(j, i, &lengths, &copy, error);
    if (!rc) rc = kit_space_rows(p, i, inst->dim, lengths, start, &inst->rows[i], error);
    free(copy);
    if (rc) return rc;
    start += inst->rows[i].items + 1;
  }
  return ACCEL_PLUGIN_OK;
}

/* Device memory: inputs given in host memory, and constants, into scratch. */
static int32_t upload(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  const accel_plugin_program *p = e->program;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < p->n_tensor; i++) {
    const kit_location *place = &j->plan->place[i];
    if (p->tensor[i].kind == ACCEL_PLUGIN_TENSOR_CONST && place->home == KIT_HOME_SCRATCH)
      rc = e->backend->upload(e->self, j->inst->buffer, place->offset, p->tensor[i].data,
                              place->bytes, error);
  }
  for (uint32_t i = 0; !rc && i < j->n_in; i++) {
    const accel_plugin_view *v = &j->inst->in[i];
    const kit_location *place = &j->plan->place[j->entry->in[i]];
    if (place->home != KIT_HOME_SCRATCH || !place->bytes) continue;
    if (v->host) {
      rc =
          e->backend->upload(e->self, j->inst->buffer, place->offset, v->host, place->bytes, error);
      continue;
    }
    void *bounce = malloc(place->bytes);
    if (!bounce) return kit_no_memory(error, place->bytes);
    rc = e->backend->download(e->self, bounce, v->device, v->offset, place->bytes, error);
    if (!rc)
      rc = e->backend->upload(e->self, j->inst->buffer, place->offset, bounce, place->bytes, error);
    free(bounce);
  }
  return rc;
}

/* Gives a tensor its address. */
static void locate(const job *j, kit_tensor *t) {
  const accel_plugin_endpoint *e = j->endpoint;
  const kit_location *place = &j->plan->place[t->id];
  char *base = NULL;
  switch (place->home) {
    case KIT_HOME_SCRATCH:
      base = j->inst->buffer;
      break;
    case KIT_HOME_INPUT:
      base = view_data(&j->inst->in[place->index]);
      break;
    case KIT_HOME_OUTPUT:
      base = view_data(&j->inst->out[place->index]);
      break;
    case KIT_HOME_CONST:
      base = (char *)e->program->tensor[t->id].data;
      break;
    case KIT_HOME_WEIGHT:
      base = e->backend->weight ? e->backend->weight(e->self, place->index) : NULL;
      break;
  }
  if (e->backend->alloc) {
    t->buffer = base;
    t->offset = place->offset;
    /* inputs that the caller gave in host memory can be read there as well */
    for (uint32_t i = 0; i < j->n_in; i++)
      if (j->entry->in[i] == t->id) t->data = j->inst->in[i].host;
  } else if (base) {
    t->data = base + place->offset;
  }
}

static int32_t room_for(instance *inst, uint32_t n, accel_plugin_error *error) {
  if (n <= inst->n_operand) return ACCEL_PLUGIN_OK;
  kit_tensor *operand = realloc(inst->operand, n * sizeof *operand);
  if (!operand) return kit_no_memory(error, n * sizeof *operand);
  inst->operand = operand;
  inst->n_operand = n;
  return ACCEL_PLUGIN_OK;
}

double kit_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* The host tells of its own work at once; what it queued for a device waits for the device's
 * times. */
static void tell_profile(job *j, const kit_launch *launch, double begin_us) {
  watched_step own, *w = j->watched ? &j->watched[j->n_watched++] : &own;
  *w = (watched_step){.step = {.size = sizeof w->step,
                               .entry = j->run.entry,
                               .begin_us = begin_us,
                               .end_us = kit_now_us()}};
  w->step.node = w->node;
  for (uint32_t m = 0; m <= launch->n_fused; m++) {
    double flop = 0, bytes = 0;
    kit_cost(launch + m, j->endpoint->weight_bytes, &flop, &bytes);
    w->node[w->step.n_node++] = (int32_t)launch[m].index;
    w->step.flop += flop;
    w->step.bytes += bytes;
    const double limit = j->endpoint->backend->limit_us
                             ? j->endpoint->backend->limit_us(j->endpoint->self, launch + m)
                             : 0;
    /* of all, or unknown */
    w->step.limit_us = limit > 0 && (m == 0 || w->step.limit_us > 0) ? w->step.limit_us + limit : 0;
  }
  if (w == &own) j->host->profile(j->host->self, &w->step);
}

static int32_t watch(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  if (!e->backend->finish || !j->host || !j->host->profile) return ACCEL_PLUGIN_OK;
  j->node_us = malloc((e->program->n_node + 1) * sizeof *j->node_us);
  j->watched = malloc((j->plan->n_step + 1) * sizeof *j->watched);
  if (!j->node_us || !j->watched) return kit_no_memory(error, j->plan->n_step * sizeof *j->watched);
  for (uint32_t i = 0; i < e->program->n_node; i++) j->node_us[i] = (double)NAN;
  return ACCEL_PLUGIN_OK;
}

/* Steps one after the other on the device's clock; those it does not tell keep the host's times. */
static void tell_watched(const job *j) {
  double at_us = 0;
  for (uint32_t i = 0; i < j->n_watched; i++) {
    watched_step *w = &j->watched[i];
    double us = 0;
    for (uint32_t m = 0; m < w->step.n_node; m++)
      if (!isnan(j->node_us[w->node[m]]))
        w->step.clock = ACCEL_PLUGIN_CLOCK_DEVICE, us += j->node_us[w->node[m]];
    if (w->step.clock == ACCEL_PLUGIN_CLOCK_DEVICE) {
      w->step.begin_us = at_us;
      w->step.end_us = at_us += us;
    }
    j->host->profile(j->host->self, &w->step);
  }
}

static int32_t run_step(job *j, const kit_step *s, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  kit_tensor *t = j->inst->operand;
  uint32_t n = kit_step_tensors(e->program, j->plan, s, t);
  for (uint32_t i = 0; i < n; i++)
    if (t[i].id >= 0) locate(j, &t[i]);
  kit_launch like = {.program = e->program,
                     .dim = j->plan->dim,
                     .rows = j->inst->rows,
                     .state = j->state,
                     .workspace_bytes = s->workspace_bytes,
                     .host = j->host,
                     .run = j->device_run},
             launch[KIT_MAX_FUSED + 1];
  if (s->workspace_bytes) {
    like.workspace_buffer = j->inst->buffer;
    like.workspace_offset = s->workspace;
    if (!e->backend->alloc) like.workspace = (char *)j->inst->buffer + s->workspace;
  }
  kit_step_launches(e->program, s, t, &like, launch);
  if (error) error->rc = 0;
  bool watched = j->host && j->host->profile;
  double begin_us = watched ? kit_now_us() : 0.0;
  int32_t rc = e->backend->launch(e->self, launch, error);
  if (!rc && watched) tell_profile(j, launch, begin_us);
  if (rc && error && !error->rc) kit_launch_fail(launch, error, rc, "failed with code %d", rc);
  return rc;
}

static void tell_progress(const job *j, uint32_t done) {
  if (j->host && j->host->progress)
    j->host->progress(j->host->self, done, j->endpoint->program->n_stage);
}

static int32_t walk(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  uint32_t stage = 0;
  if (kit_fault(j->host, "device_lost"))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1, "the device was lost (fault injected)");
  for (uint32_t k = 0; k < j->plan->n_step; k += 1 + j->plan->step[k].n_fused) {
    const kit_step *s = &j->plan->step[k];
    if (j->host && j->host->cancelled && j->host->cancelled(j->host->self))
      return kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, (int32_t)s->node, "cancelled");
    if (e->program->node[s->node].stage > stage)
      tell_progress(j, stage = e->program->node[s->node].stage);
    int32_t rc = run_step(j, s, error);
    if (rc) return rc;
  }
  tell_progress(j, e->program->n_stage);
  return ACCEL_PLUGIN_OK;
}

/* Outputs that were not written where the caller wants them. */
static int32_t hand_over(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < j->n_out; i++) {
    kit_tensor t = j->plan->tensor[j->entry->out[i]];
    const accel_plugin_view *v = &j->inst->out[i];
    if (!j->inst->wanted[i] || !t.elements) continue;
    const kit_location *place = &j->plan->place[t.id];
    locate(j, &t);
    if (place->home == KIT_HOME_OUTPUT && place->index == i) continue;
    if (!e->backend->alloc) {
      if (!t.data)
        return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "output '%s' is a packed weight",
                        kit_tensor_name(e->program, t.id));
      memcpy(view_data(v), t.data, (size_t)t.elements * 4);
    } else if (v->host) {
      rc = e->backend->download(e->self, v->host, t.buffer, t.offset, (uint64_t)t.elements * 4,
                                error);
    } else {
      void *bounce = malloc((size_t)t.elements * 4);
      if (!bounce) return kit_no_memory(error, (uint64_t)t.elements * 4);
      rc = e->backend->download(e->self, bounce, t.buffer, t.offset, (uint64_t)t.elements * 4,
                                error);
      if (!rc)
        rc = e->backend->upload(e->self, v->device, v->offset, bounce, (uint64_t)t.elements * 4,
                                error);
      free(bounce);
    }
  }
  return rc;
}

/* NaN and infinity have all exponent bits set.  Outputs left in device memory are not looked at. */
static int32_t check_finite(const job *j, accel_plugin_error *error) {
  if (kit_fault(j->host, "nonfinite"))
    return kit_fail(error, ACCEL_PLUGIN_E_NONFINITE, -1, "a result is not finite (fault injected)");
  for (uint32_t i = 0; i < j->n_out; i++) {
    const kit_tensor *t = &j->plan->tensor[j->entry->out[i]];
    if (!j->inst->wanted[i] || t->dtype != ACCEL_PLUGIN_F32 ||
        (j->endpoint->backend->alloc && !j->inst->out[i].host))
      continue;
    const uint32_t *bits = view_data(&j->inst->out[i]);
    uint32_t worst = 0;
    for (int64_t k = 0; k < t->elements; k++) {
      uint32_t exponent = bits[k] & 0x7f800000u;
      worst = exponent > worst ? exponent : worst;
    }
    if (worst == 0x7f800000u)
      return kit_fail(error, ACCEL_PLUGIN_E_NONFINITE, -1, "output '%s' holds NaN or infinity",
                      kit_tensor_name(j->endpoint->program, t->id));
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t begin_state(job *j, accel_plugin_session *session, accel_plugin_error *error) {
  const accel_plugin_program *p = j->endpoint->program;
  if (!session) {
    for (uint32_t k = 0; k < j->plan->n_step; k++)
      if (p->node[j->plan->step[k].node].state >= 0)
        return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, (int32_t)j->plan->step[k].node,
                        "entry '%s' needs a session", j->entry->name);
    return ACCEL_PLUGIN_OK;
  }
  if (!kit_session_of(session, j->endpoint))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the session belongs to another endpoint");
  return kit_session_begin(session, j->run.sequence, j->run.n_sequence, j->host, &j->state, error);
}

/* The launches, between begin and finish of a backend that has them. */
static int32_t run_steps(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = watch(j, error);
  const kit_begin begin = {.program = e->program,
                           .entry = j->run.entry,
                           .rows = j->inst->rows,
                           .host = j->host,
                           .node_us = j->node_us};
  if (!rc && e->backend->begin) rc = e->backend->begin(e->self, &begin, &j->device_run, error);
  if (rc) return rc;
  if (e->backend->alloc) rc = upload(j, error);
  if (!rc) rc = walk(j, error);
  if (!e->backend->finish) return rc;
  int32_t end =
      e->backend->finish(e->self, j->device_run, !rc, &j->run.device_ms, rc ? NULL : error);
  if (!rc && !end && j->watched) tell_watched(j);
  return rc ? rc : end;
}

static int32_t compute(job *j, accel_plugin_session *session, accel_plugin_error *error) {
  accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = scratch_grow(e, j->inst, j->plan->scratch, j->host, error);
  if (!rc) rc = room_for(j->inst, j->plan->widest, error);
  if (!rc) rc = make_rows(j, error);
  if (!rc) rc = begin_state(j, session, error);
  if (!rc) rc = run_steps(j, error);
  if (!rc) rc = hand_over(j, error);
  if (!rc && e->flags & ACCEL_PLUGIN_CHECK_FINITE) rc = check_finite(j, error);
  kit_session_end(j->state, rc == ACCEL_PLUGIN_OK);
  free(j->node_us);
  free(j->watched);
  return rc;
}

int32_t kit_handler(accel_plugin_endpoint *e, accel_plugin_session *session, accel_plugin_run *run,
                    const accel_plugin_view *in, uint32_t n_in, accel_plugin_view *out,
                    uint32_t n_out, accel_plugin_error *error) {
  if (!e || !run || (n_in && !in) || (n_out && !out))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "handler: a pointer is NULL");
  job j = {.endpoint = e, .n_in = n_in, .n_out = n_out};
  kit_read_struct(&j.run, sizeof j.run, run, run->size);
  j.host = j.run.host;
  if (j.run.entry >= e->program->n_entry)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no entry %u: the program has %u",
                    j.run.entry, e->program->n_entry);
  j.entry = &e->program->entry[j.run.entry];
  j.inst = instance_take(e);
  if (!j.inst) return kit_no_memory(error, sizeof *j.inst);
  int32_t rc = take_views(&j, in, out, error);
  if (!rc) rc = kit_bind(e->program, j.entry, j.inst->in, n_in, j.inst->symbol, j.inst->dim, error);
  if (!rc) rc = plan_get(&j, error);
  if (!rc) rc = give_shapes(&j, out, error);
  if (!rc) rc = compute(&j, session, error);
  plan_drop(j.plan);
  instance_give(e, j.inst);
  if (run->size >= offsetof(accel_plugin_run, device_ms) + sizeof run->device_ms)
    run->device_ms = j.run.device_ms;
  return rc;
}

int32_t kit_trim(accel_plugin_endpoint *e, uint64_t *released, accel_plugin_error *error) {
  (void)error;
  pthread_mutex_lock(&e->lock);
  instance *list = e->idle;
  e->idle = NULL;
  e->n_idle = 0;
  pthread_mutex_unlock(&e->lock);
  uint64_t bytes = kit_free_list_drop(&e->spares);
  atomic_fetch_sub(&e->taken, bytes);
  for (instance *next; list; list = next) {
    next = list->next;
    bytes += list->capacity;
    instance_free(e, list);
  }
  if (released) *released = bytes;
  return ACCEL_PLUGIN_OK;
}

/* ---- endpoints ---- */

const kit_endpoint_state *kit_endpoint_state_of(const accel_plugin_endpoint *endpoint) {
  return &endpoint->state;
}
void *kit_endpoint_self(const accel_plugin_endpoint *endpoint) { return endpoint->self; }
const accel_plugin_program *kit_endpoint_program(const accel_plugin_endpoint *endpoint) {
  return endpoint->program;
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) { /* FNV-1a */
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  return h;
}

static void fill_state(accel_plugin_endpoint *e, const accel_plugin_options *o, uint8_t kv_dtype) {
  uint64_t h = hash_bytes(0xcbf29ce484222325u, &e->program->hash, sizeof e->program->hash);
  h = hash_bytes(h, o->precision.name, sizeof o->precision.name);
  h = hash_bytes(h, e->backend->name, strlen(e->backend->name));
  h = hash_bytes(h, &kv_dtype, 1);
  e->state = (kit_endpoint_state){.program = e->program,
                                  .backend = e->backend,
                                  .self = e->self,
                                  .kv_dtype = kv_dtype,
                                  .max_tokens = o->max_tokens,
                                  .max_sequences = o->max_sequences,
                                  .identity = h,
                                  .limit = e->limit,
                                  .weights = e->weights,
                                  .taken = &e->taken,
                                  .spares = &e->spares};
}

/* What supports would answer, as an error. */
static int32_t refuse(const kit_backend *backend, const accel_plugin_program *p,
                      const accel_plugin_precision *precision, accel_plugin_error *error) {
  if (p->n_weight && !precision->format)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "precision '%.16s' has no format table",
                    precision->name);
  for (uint32_t i = 0; i < p->n_entry; i++) {
    accel_plugin_verdict v = {.size = sizeof v};
    kit_entry_verdict(backend, p, precision, i, &v);
    if (v.answer == ACCEL_PLUGIN_NO)
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, v.node, "entry '%s': %s", p->entry[i].name,
                      v.why);
    if (v.answer == ACCEL_PLUGIN_EMULATED && !(precision->flags & ACCEL_PLUGIN_ALLOW_EMULATED))
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, v.node,
                      "entry '%s' would be emulated at %.16s, which was not allowed: %s",
                      p->entry[i].name, precision->name, v.why);
  }
  return ACCEL_PLUGIN_OK;
}

const char *kit_extra(const char *extra, const char *key, size_t *n) {
  size_t length = strlen(key);
  for (const char *at = extra; at && *at;) {
    const char *end = strchrnul(at, ';');
    if ((size_t)(end - at) > length && !memcmp(at, key, length) && at[length] == '=') {
      *n = (size_t)(end - at) - length - 1;
      return at + length + 1;
    }
    at = *end ? end + 1 : end;
  }
  return NULL;
}

static bool listed(const char *const *keys, const char *key, size_t n) {
  for (; keys && *keys; keys++)
    if (strlen(*keys) == n && !memcmp(*keys, key, n)) return true;
  return false;
}

/* Options that this backend would silently ignore are refused. */
static int32_t check_options(const kit_backend *backend, const accel_plugin_options *o,
                             accel_plugin_error *error) {
  if (o->world > 1 && !(o->host && o->host->allreduce))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "world is %u but the host has no allreduce",
                    o->world);
  for (const char *at = o->extra; at && *at;) {
    const char *end = strchrnul(at, ';');
    size_t n = strcspn(at, "=;");
    if (n && !listed(backend->extra, at, n))
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "option '%.*s' is unknown to the %s backend", (int)n, at, backend->name);
    at = *end ? end + 1 : end;
  }
  return ACCEL_PLUGIN_OK;
}

static int32_t check_limit(accel_plugin_endpoint *e, const accel_plugin_options *o,
                           accel_plugin_error *error) {
  e->weight_bytes = calloc(e->program->n_weight + 1, sizeof *e->weight_bytes);
  if (!e->weight_bytes) return kit_no_memory(error, e->program->n_weight * sizeof *e->weight_bytes);
  for (uint32_t i = 0; i < e->program->n_weight; i++) {
    const accel_plugin_format *f = &o->precision.format[i];
    e->weight_bytes[i] = e->backend->weight_bytes ? e->backend->weight_bytes(e->program, i, f)
                                                  : kit_format_bytes(&e->program->weight[i], f);
    e->weights += e->weight_bytes[i];
  }
  e->limit = o->memory_limit;
  if (!e->limit || e->weights <= e->limit) return ACCEL_PLUGIN_OK;
  return kit_fail(error,
                  e->backend->alloc ? ACCEL_PLUGIN_E_DEVICE_MEMORY : ACCEL_PLUGIN_E_HOST_MEMORY, -1,
                  "%llu bytes of weights pass the memory limit of %llu",
                  (unsigned long long)e->weights, (unsigned long long)e->limit);
}

int32_t kit_init(const kit_backend *backend, uint32_t device, const accel_plugin_program *program,
                 const accel_plugin_options *options, accel_plugin_endpoint **out,
                 accel_plugin_error *error) {
  *out = NULL;
  if (!options) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "init: no options");
  accel_plugin_options o;
  kit_read_struct(&o, sizeof o, options, options->size);
  if (kit_fault(o.host, "allocation")) return kit_no_memory(error, sizeof(accel_plugin_endpoint));
  accel_plugin_endpoint *e = calloc(1, sizeof *e);
  if (!e) return kit_no_memory(error, sizeof *e);
  e->backend = backend;
  e->flags = o.precision.flags;
  pthread_mutex_init(&e->lock, NULL);
  pthread_mutex_init(&e->spares.lock, NULL);
  int32_t rc = kit_program_copy(program, &e->program, error);
  if (!rc) rc = refuse(backend, e->program, &o.precision, error);
  if (!rc) rc = check_options(backend, &o, error);
  if (!rc) rc = check_limit(e, &o, error);
  if (!rc) {
    kit_open open = {
        .device = device, .program = e->program, .options = &o, .kv_dtype = ACCEL_PLUGIN_F32};
    if (backend->open) rc = backend->open(&open, &e->self, error);
    if (!rc && o.precision.kv == ACCEL_PLUGIN_I8 && open.kv_dtype != ACCEL_PLUGIN_I8 &&
        e->program->n_state)
      rc = kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "the %s backend keeps no int8 KV cache",
                    backend->name);
    fill_state(e, &o, open.kv_dtype);
  }
  if (rc) {
    kit_cleanup(e, o.host);
    return rc;
  }
  for (uint32_t i = 0; i < e->program->n_entry; i++) {
    if (e->program->entry[i].n_in > e->max_in) e->max_in = e->program->entry[i].n_in;
    if (e->program->entry[i].n_out > e->max_out) e->max_out = e->program->entry[i].n_out;
  }
  *out = e;
  return ACCEL_PLUGIN_OK;
}

void kit_cleanup(accel_plugin_endpoint *e, const accel_plugin_host *host) {
  (void)host;
  if (!e) return;
  kit_trim(e, NULL, NULL);
  for (int i = 0; i < PLAN_CACHE; i++) plan_drop(e->cache[i]);
  if (e->self && e->backend->close) e->backend->close(e->self);
  pthread_mutex_destroy(&e->lock);
  pthread_mutex_destroy(&e->spares.lock);
  kit_program_free(e->program);
  free(e->weight_bytes);
  free(e);
}
