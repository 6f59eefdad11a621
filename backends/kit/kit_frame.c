/* kit_frame.c - frames: made, kept between runs, and prepared for a plan. */
#include "kit/kit_frame.h"

#include <stdlib.h>

#include "kit/kit_plan_cache.h"

/* ---- scratch ---- */

static void scratch_free(kit_memory *m, kit_frame *f) {
  if (m->backend->alloc) {
    if (f->buffer) m->backend->release(m->self, f->buffer);
  } else {
    free(f->buffer);
  }
  kit_memory_give(m, f->capacity);
  f->buffer = NULL;
  f->capacity = 0;
}

/* The plan stays the frame's only together with the launches prepared for it. */
static void forget_plan(kit_frame *f) {
  kit_plan_release(f->plan);
  f->plan = NULL;
}

int32_t kit_frame_scratch(kit_frame_pool *pool, kit_frame *f, uint64_t bytes,
                          const accel_plugin_host *host, accel_plugin_error *error) {
  kit_memory *m = pool->memory;
  if (bytes <= f->capacity) return ACCEL_PLUGIN_OK;
  scratch_free(m, f);
  if (!kit_memory_take(m, bytes))
    return kit_fail(
        error, m->backend->alloc ? ACCEL_PLUGIN_E_DEVICE_MEMORY : ACCEL_PLUGIN_E_HOST_MEMORY, -1,
        "%llu bytes of scratch beside %llu of weights and %llu of other runs and "
        "sessions pass the memory limit of %llu: use a smaller batch",
        (unsigned long long)bytes, (unsigned long long)m->weights,
        (unsigned long long)atomic_load(&m->taken), (unsigned long long)m->limit);
  int32_t rc = ACCEL_PLUGIN_OK;
  if (kit_fault(host, "allocation"))
    rc = kit_no_memory(error, bytes);
  else if (m->backend->alloc)
    rc = m->backend->alloc(m->self, bytes, &f->buffer, error);
  else if (!(f->buffer = kit_alloc_pages(bytes)))
    rc = kit_no_memory(error, bytes);
  if (rc)
    kit_memory_give(m, bytes);
  else
    f->capacity = bytes;
  return rc;
}

/* ---- frames ---- */

static void frame_free(kit_memory *m, kit_frame *f) {
  if (!f) return;
  scratch_free(m, f);
  forget_plan(f);
  free(f->in);
  free(f->out);
  free(f->wanted);
  free(f->symbol);
  free(f->dim);
  free(f->rows);
  free(f->start);
  free(f->tensor);
  free(f->launch);
  free(f->caller);
  free(f);
}

static kit_frame *frame_new(const kit_frame_pool *pool) {
  const accel_plugin_program *p = pool->program;
  kit_frame *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  uint32_t n_in = 0, n_out = 0; /* the most of any entry */
  for (uint32_t i = 0; i < p->n_entry; i++) {
    if (p->entry[i].n_in > n_in) n_in = p->entry[i].n_in;
    if (p->entry[i].n_out > n_out) n_out = p->entry[i].n_out;
  }
  f->in = calloc(n_in + 1, sizeof *f->in);
  f->out = calloc(n_out + 1, sizeof *f->out);
  f->wanted = calloc(n_out + 1, 1);
  f->symbol = calloc(p->n_symbol + 1, sizeof *f->symbol);
  f->dim = calloc(p->n_dim + 1, sizeof *f->dim);
  f->rows = calloc(p->n_space + 1, sizeof *f->rows);
  if (f->in && f->out && f->wanted && f->symbol && f->dim && f->rows) return f;
  frame_free(pool->memory, f);
  return NULL;
}

void kit_frame_pool_init(kit_frame_pool *pool, const accel_plugin_program *program,
                         kit_memory *memory, const kit_constants *constants) {
  *pool = (kit_frame_pool){.program = program, .memory = memory, .constants = constants};
  pthread_mutex_init(&pool->lock, NULL);
}

void kit_frame_pool_destroy(kit_frame_pool *pool) {
  kit_frame_pool_trim(pool);
  pthread_mutex_destroy(&pool->lock);
}

kit_frame *kit_frame_take(kit_frame_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  kit_frame **best = &pool->idle;
  for (kit_frame **i = &pool->idle; *i; i = &(*i)->next)
    if ((*i)->capacity > (*best)->capacity) best = i;
  kit_frame *f = *best;
  if (f) {
    *best = f->next;
    pool->n_idle--;
  }
  pthread_mutex_unlock(&pool->lock);
  return f ? f : frame_new(pool);
}

void kit_frame_give(kit_frame_pool *pool, kit_frame *f) {
  pthread_mutex_lock(&pool->lock);
  const bool keep = pool->n_idle < KIT_IDLE_FRAMES;
  if (keep) {
    f->next = pool->idle;
    pool->idle = f;
    pool->n_idle++;
  }
  pthread_mutex_unlock(&pool->lock);
  if (!keep) frame_free(pool->memory, f);
}

uint64_t kit_frame_pool_trim(kit_frame_pool *pool) {
  uint64_t bytes = 0;
  pthread_mutex_lock(&pool->lock);
  kit_frame *list = pool->idle;
  pool->idle = NULL;
  pool->n_idle = 0;
  pthread_mutex_unlock(&pool->lock);
  for (kit_frame *next; list; list = next) {
    next = list->next;
    bytes += list->capacity;
    frame_free(pool->memory, list);
  }
  return bytes;
}

/* ---- addresses ---- */

void kit_frame_locate(const kit_frame_pool *pool, const kit_frame *f, kit_tensor *t) {
  const kit_backend *backend = pool->memory->backend;
  const kit_location *at = &f->plan->location[t->id];
  const accel_plugin_entry *e = &pool->program->entry[f->plan->entry];
  uint64_t offset = at->offset;
  char *base = NULL;
  switch (at->storage) {
    case KIT_STORAGE_SCRATCH:
      base = f->buffer;
      break;
    case KIT_STORAGE_INPUT:
      base = kit_view_data(&f->in[at->index]);
      break;
    case KIT_STORAGE_OUTPUT:
      base = kit_view_data(&f->out[at->index]);
      break;
    case KIT_STORAGE_CONST:
      base =
          backend->alloc ? pool->constants->buffer : (char *)pool->program->tensor[at->index].data;
      if (backend->alloc) offset += pool->constants->offset[at->index];
      break;
    case KIT_STORAGE_WEIGHT:
      base = backend->weight ? backend->weight(pool->memory->self, at->index) : NULL;
      break;
  }
  if (backend->alloc) {
    t->buffer = base;
    t->offset = offset;
    /* inputs that the caller gave in host memory can be read there as well */
    for (uint32_t i = 0; i < e->n_in; i++)
      if (e->in[i] == t->id) t->data = f->in[i].host;
  } else {
    t->data = base ? base + offset : NULL;
  }
}

void kit_frame_locate_caller(const kit_frame_pool *pool, kit_frame *f) {
  for (uint32_t i = 0; i < f->n_caller; i++) kit_frame_locate(pool, f, &f->tensor[f->caller[i]]);
}

/* Whether the tensor's address is the caller's, and so another in every run. */
static bool is_caller(const kit_frame_pool *pool, const kit_frame *f, const kit_tensor *t) {
  const uint8_t storage = f->plan->location[t->id].storage;
  return storage == KIT_STORAGE_INPUT || storage == KIT_STORAGE_OUTPUT ||
         pool->program->tensor[t->id].kind == ACCEL_PLUGIN_TENSOR_INPUT;
}

/* ---- preparing ---- */

static int32_t reserve(kit_frame *f, uint64_t tensors, uint64_t launches,
                       accel_plugin_error *error) {
  if (tensors > f->n_tensor) {
    free(f->tensor);
    free(f->caller);
    f->tensor = malloc(tensors * sizeof *f->tensor);
    f->caller = malloc(tensors * sizeof *f->caller);
    f->n_tensor = f->tensor && f->caller ? tensors : 0;
    if (!f->n_tensor) return kit_no_memory(error, tensors * sizeof *f->tensor);
  }
  if (launches > f->n_launch) {
    free(f->launch);
    f->launch = malloc(launches * sizeof *f->launch);
    f->n_launch = f->launch ? launches : 0;
    if (!f->launch) return kit_no_memory(error, launches * sizeof *f->launch);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_frame_prepare(kit_frame_pool *pool, kit_frame *f, kit_plan *plan,
                          const accel_plugin_host *host, accel_plugin_error *error) {
  const accel_plugin_program *p = pool->program;
  const bool device = pool->memory->backend->alloc != NULL;
  uint64_t tensors = 0;
  f->n_caller = 0;
  forget_plan(f);
  f->plan = plan;
  if (pool->memory->backend->run) return ACCEL_PLUGIN_OK; /* launches nothing, needs no scratch */
  int32_t rc = kit_frame_scratch(pool, f, plan->scratch, host, error);
  for (uint32_t k = 0; k < plan->n_step; k++) tensors += plan->step[k].n_in + plan->step[k].n_out;
  if (!rc) rc = reserve(f, tensors, plan->n_step, error);
  if (rc) {
    forget_plan(f);
    return rc;
  }
  kit_tensor *t = f->tensor;
  for (uint32_t k = 0; k < plan->n_step; k += 1 + plan->step[k].n_fused) {
    const kit_step *s = &plan->step[k];
    const uint32_t n = kit_step_tensors(p, plan, s, t);
    for (uint32_t i = 0; i < n; i++) {
      if (t[i].id < 0) continue;
      if (is_caller(pool, f, &t[i]))
        f->caller[f->n_caller++] = (uint32_t)(&t[i] - f->tensor);
      else
        kit_frame_locate(pool, f, &t[i]);
    }
    kit_launch like = {
        .program = p, .dim = plan->dim, .rows = f->rows, .workspace_bytes = s->workspace_bytes};
    if (s->workspace_bytes) {
      like.workspace_buffer = f->buffer;
      like.workspace_offset = s->workspace;
      if (!device) like.workspace = (char *)f->buffer + s->workspace;
    }
    kit_step_launches(p, s, t, &like, &f->launch[k]);
    t += n;
  }
  return ACCEL_PLUGIN_OK;
}
