/* kit_run.c - one run of an entry: bind, find the plan, prepare a frame, walk the launches, hand
 * the outputs over. */
#include <stdlib.h>
#include <string.h>

#include "kit/kit_endpoint.h"
#include "kit/kit_graph.h"
#include "kit/kit_profile.h"
#include "kit/kit_session.h"

/* One call of kit_handler. */
typedef struct job {
  accel_plugin_endpoint *endpoint;
  const accel_plugin_entry *entry;
  accel_plugin_run run;
  const accel_plugin_host *host;
  kit_frame *frame;
  kit_plan *plan; /* the frame's, or one that the frame is still to be prepared for */
  kit_run_state *state;
  void *device_run; /* of backend->begin */
  kit_profile profile;
  uint32_t n_in, n_out;
} job;

/* ---- the caller's views ---- */

static const accel_plugin_view *view_at(const accel_plugin_view *v, uint32_t i) {
  return (const void *)((const char *)v + (size_t)i * v[0].size);
}

static bool view_empty(const accel_plugin_view *v) {
  for (uint32_t r = 0; r < v->rank && r < ACCEL_PLUGIN_MAX_RANK; r++)
    if (!v->dim[r]) return true;
  return false;
}

static int32_t take_views(job *j, const accel_plugin_view *in, const accel_plugin_view *out,
                          accel_plugin_error *error) {
  kit_frame *frame = j->frame;
  if (j->n_in != j->entry->n_in || j->n_out != j->entry->n_out)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1,
                    "entry '%s' takes %u inputs and %u outputs, got %u and %u", j->entry->name,
                    j->entry->n_in, j->entry->n_out, j->n_in, j->n_out);
  if ((j->n_in && in[0].size < sizeof *in) || (j->n_out && out[0].size < sizeof *out))
    return kit_fail(error, ACCEL_PLUGIN_E_ABI, -1, "views are shorter than this plugin's");
  for (uint32_t i = 0; i < j->n_in; i++) {
    kit_read_struct(&frame->in[i], sizeof *frame->in, view_at(in, i), in[0].size);
    if (!frame->in[i].host && !frame->in[i].device && !view_empty(&frame->in[i]))
      return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "input '%s' has no data",
                      kit_tensor_name(j->endpoint->program, j->entry->in[i]));
  }
  for (uint32_t i = 0; i < j->n_out; i++) {
    kit_read_struct(&frame->out[i], sizeof *frame->out, view_at(out, i), out[0].size);
    frame->wanted[i] = frame->out[i].host || frame->out[i].device;
  }
  return ACCEL_PLUGIN_OK;
}

/* Writes the wanted outputs' shapes back, then complains about the first that is too small. */
static int32_t give_shapes(job *j, accel_plugin_view *out, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < j->n_out; i++) {
    if (!j->frame->wanted[i]) continue;
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

/* ---- row spaces ---- */

/* The lengths of a ragged space in host memory; *copy is to be freed. */
static int32_t lengths_of(job *j, uint32_t space, const int32_t **lengths, int32_t **copy,
                          accel_plugin_error *error) {
  const accel_plugin_space *s = &j->endpoint->program->space[space];
  *lengths = *copy = NULL;
  if (s->lengths < 0) return ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; i < j->n_in; i++) {
    if (j->entry->in[i] != s->lengths) continue;
    const accel_plugin_view *v = &j->frame->in[i];
    if (v->host || !j->endpoint->backend->alloc) {
      static const int32_t none = 0; /* no items: any address will do */
      *lengths = v->dim[0] ? kit_view_data(v) : &none;
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
  kit_frame *frame = j->frame;
  uint64_t need = 0;
  for (uint32_t i = 0; i < p->n_space; i++) {
    int64_t items = frame->dim[p->space[i].items];
    if (j->plan->space[i] && items > 0 && items < INT32_MAX) need += (uint64_t)items;
  }
  need += p->n_space;
  if (need > frame->n_start) {
    int32_t *start = realloc(frame->start, need * sizeof *start);
    if (!start) return kit_no_memory(error, need * sizeof *start);
    frame->start = start;
    frame->n_start = need;
  }
  int32_t *start = frame->start;
  for (uint32_t i = 0; i < p->n_space; i++) {
    frame->rows[i] = (kit_rows){0};
    if (!j->plan->space[i]) continue;
    const int32_t *lengths;
    int32_t *copy;
    int32_t rc = lengths_of(j, i, &lengths, &copy, error);
    if (!rc) rc = kit_space_rows(p, i, frame->dim, lengths, start, &frame->rows[i], error);
    free(copy);
    if (rc) return rc;
    start += frame->rows[i].items + 1;
  }
  return ACCEL_PLUGIN_OK;
}

/* ---- inputs and outputs on a device ---- */

/* Inputs given in host memory, into scratch. */
static int32_t upload(job *j, accel_plugin_error *error) {
  const kit_memory *m = &j->endpoint->memory;
  void *scratch = j->frame->buffer;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < j->n_in; i++) {
    const accel_plugin_view *v = &j->frame->in[i];
    const kit_location *at = &j->plan->location[j->entry->in[i]];
    if (at->storage != KIT_STORAGE_SCRATCH || !at->bytes) continue;
    rc = v->host ? kit_memory_write(m, scratch, at->offset, v->host, at->bytes, error)
                 : kit_memory_copy(m, scratch, at->offset, v->device, v->offset, at->bytes, error);
  }
  return rc;
}

/* Outputs that were not written where the caller wants them. */
static int32_t hand_over(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t i = 0; !rc && i < j->n_out; i++) {
    kit_tensor t = j->plan->tensor[j->entry->out[i]];
    const accel_plugin_view *v = &j->frame->out[i];
    if (!j->frame->wanted[i] || !t.elements) continue;
    const kit_location *at = &j->plan->location[t.id];
    const uint64_t bytes = (uint64_t)t.elements * 4;
    if (at->storage == KIT_STORAGE_OUTPUT && at->index == i) continue;
    kit_frame_locate(&e->frames, j->frame, &t);
    if (!e->backend->alloc) {
      if (!t.data)
        return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1, "output '%s' is a packed weight",
                        kit_tensor_name(e->program, t.id));
      memcpy(kit_view_data(v), t.data, (size_t)bytes);
    } else if (v->host) {
      rc = kit_memory_read(&e->memory, v->host, t.buffer, t.offset, bytes, error);
    } else {
      rc = kit_memory_copy(&e->memory, v->device, v->offset, t.buffer, t.offset, bytes, error);
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
    if (!j->frame->wanted[i] || t->dtype != ACCEL_PLUGIN_F32 ||
        (j->endpoint->backend->alloc && !j->frame->out[i].host))
      continue;
    const uint32_t *bits = kit_view_data(&j->frame->out[i]);
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

/* ---- the walk ---- */

static int32_t run_launch(job *j, kit_launch *launch, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  for (uint32_t m = 0; m <= launch->n_fused; m++) {
    launch[m].state = j->state;
    launch[m].host = j->host;
    launch[m].run = j->device_run;
    launch[m].adapter = j->run.adapter;
    launch[m].n_adapter = j->run.n_adapter;
  }
  if (error) error->rc = 0;
  const bool profiled = j->profile.host != NULL;
  const double begin_us = profiled ? kit_now_us() : 0.0;
  int32_t rc = e->backend->launch(e->self, launch, error);
  if (!rc && profiled) kit_profile_launch(&j->profile, launch, begin_us);
  if (rc && error && !error->rc) kit_launch_fail(launch, error, rc, "failed with code %d", rc);
  return rc;
}

static void tell_progress(const job *j, uint32_t done) {
  if (j->host && j->host->progress)
    j->host->progress(j->host->self, done, j->endpoint->program->n_stage);
}

/* The entry as one graph. */
static int32_t run_graph(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  const kit_graph_run run = {.program = e->program,
                             .entry = j->run.entry,
                             .symbol = j->frame->symbol,
                             .dim = j->frame->dim,
                             .wanted = j->frame->wanted,
                             .rows = j->frame->rows,
                             .in = j->frame->in,
                             .out = j->frame->out,
                             .tensor = j->plan->tensor,
                             .state = j->state,
                             .host = j->host};
  if (j->host && j->host->cancelled && j->host->cancelled(j->host->self))
    return kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, -1, "cancelled");
  return e->backend->run(e->self, &run, error);
}

static int32_t walk(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  uint32_t stage = 0;
  if (kit_fault(j->host, "device_lost"))
    return kit_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, -1, "the device was lost (fault injected)");
  if (e->backend->run) return run_graph(j, error);
  for (uint32_t k = 0; k < j->plan->n_step; k += 1 + j->plan->step[k].n_fused) {
    const kit_step *s = &j->plan->step[k];
    if (j->host && j->host->cancelled && j->host->cancelled(j->host->self))
      return kit_fail(error, ACCEL_PLUGIN_E_CANCELLED, (int32_t)s->node, "cancelled");
    if (e->program->node[s->node].stage > stage)
      tell_progress(j, stage = e->program->node[s->node].stage);
    int32_t rc = run_launch(j, &j->frame->launch[k], error);
    if (rc) return rc;
  }
  tell_progress(j, e->program->n_stage);
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

/* backend->begin, with the order of the launches where it asks for that. */
static int32_t begin_run(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  kit_begin begin = {.program = e->program,
                     .entry = j->run.entry,
                     .rows = j->frame->rows,
                     .host = j->host,
                     .node_us = j->profile.node_us};
  if (!e->backend->begin) return ACCEL_PLUGIN_OK;
  if (e->stream || !e->takes_turns)
    return e->backend->begin(e->self, &begin, &j->device_run, error);
  uint32_t *node = malloc((j->plan->n_step + 1) * sizeof *node);
  if (!node) return kit_no_memory(error, j->plan->n_step * sizeof *node);
  for (uint32_t k = 0; k < j->plan->n_step; k++) node[k] = j->plan->step[k].node;
  begin.node = node;
  begin.n_node = j->plan->n_step;
  const int32_t rc = e->backend->begin(e->self, &begin, &j->device_run, error);
  free(node);
  return rc;
}

/* The launches, between begin and finish of a backend that has them. */
static int32_t run_steps(job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = kit_profile_begin(&j->profile, e, j->host, j->plan, error);
  if (!rc) rc = begin_run(j, error);
  if (rc) return rc;
  if (e->backend->alloc) rc = upload(j, error);
  if (!rc) rc = walk(j, error);
  if (!e->backend->finish) return rc;
  int32_t end =
      e->backend->finish(e->self, j->device_run, !rc, &j->run.device_ms, rc ? NULL : error);
  if (!rc && !end) kit_profile_device(&j->profile);
  return rc ? rc : end;
}

/* Tells the stream the order in which the launches take their segments. */
static int32_t begin_stream(const job *j, accel_plugin_error *error) {
  const accel_plugin_endpoint *e = j->endpoint;
  uint32_t n = 0, first, count;
  for (uint32_t k = 0; k < j->plan->n_step; k++) {
    e->backend->stream_segments(e->self, j->plan->step[k].node, &first, &count);
    n += count;
  }
  uint32_t *order = malloc((n + 1) * sizeof *order);
  if (!order) return kit_no_memory(error, n * sizeof *order);
  n = 0;
  for (uint32_t k = 0; k < j->plan->n_step; k++) {
    e->backend->stream_segments(e->self, j->plan->step[k].node, &first, &count);
    for (uint32_t i = 0; i < count; i++) order[n++] = first + i;
  }
  int32_t rc = kit_stream_begin(e->stream, j->run.entry, order, n, error);
  free(order);
  return rc;
}

static int32_t run_streaming(job *j, accel_plugin_error *error) {
  int32_t rc = begin_stream(j, error);
  if (!rc) rc = run_steps(j, error);
  kit_stream_end(j->endpoint->stream, !rc);
  return rc;
}

static int32_t compute(job *j, accel_plugin_session *session, accel_plugin_error *error) {
  accel_plugin_endpoint *e = j->endpoint;
  int32_t rc = make_rows(j, error);
  if (!rc) kit_frame_locate_caller(&e->frames, j->frame);
  if (!rc) rc = begin_state(j, session, error);
  if (!rc) rc = e->stream ? run_streaming(j, error) : run_steps(j, error);
  if (!rc && !e->backend->run) rc = hand_over(j, error);
  if (!rc && e->flags & ACCEL_PLUGIN_CHECK_FINITE) rc = check_finite(j, error);
  kit_session_end(j->state, rc == ACCEL_PLUGIN_OK);
  kit_profile_end(&j->profile);
  return rc;
}

/* ---- plan and frame ---- */

/* Shapes as in the frame's last run keep what is prepared there; others take their plan from the
 * cache.  The outputs' shapes are written before memory is asked for. */
static int32_t prepare(job *j, accel_plugin_view *out, accel_plugin_error *error) {
  accel_plugin_endpoint *e = j->endpoint;
  const kit_plan_request request = {
      .program = e->program,
      .backend = e->backend,
      .self = e->self,
      .entry = j->run.entry,
      .workers = j->host && j->host->workers ? j->host->workers(j->host->self) : 1,
      .symbol = j->frame->symbol,
      .dim = j->frame->dim,
      .wanted = j->frame->wanted};
  if (j->frame->plan && kit_plan_fits(j->frame->plan, &request)) {
    j->plan = j->frame->plan;
    kit_plan_cache_touch(&e->plans, j->plan);
    return give_shapes(j, out, error);
  }
  int32_t rc = kit_plan_cache_get(&e->plans, &request, &j->plan, error);
  if (rc) return rc;
  rc = give_shapes(j, out, error);
  if (!rc) return kit_frame_prepare(&e->frames, j->frame, j->plan, j->host, error);
  kit_plan_release(j->plan);
  return rc;
}

static int32_t run_in_frame(job *j, accel_plugin_session *session, const accel_plugin_view *in,
                            accel_plugin_view *out, accel_plugin_error *error) {
  accel_plugin_endpoint *e = j->endpoint;
  j->frame = kit_frame_take(&e->frames);
  if (!j->frame) return kit_no_memory(error, sizeof *j->frame);
  int32_t rc = take_views(j, in, out, error);
  if (!rc)
    rc = kit_bind(e->program, j->entry, j->frame->in, j->n_in, j->frame->symbol, j->frame->dim,
                  error);
  if (!rc) rc = prepare(j, out, error);
  if (!rc) rc = compute(j, session, error);
  kit_frame_give(&e->frames, j->frame);
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
  /* runs over one stream take turns, scratch and all: so it may have all that the limit leaves */
  if (e->takes_turns) pthread_mutex_lock(&e->stream_turn);
  int32_t rc = run_in_frame(&j, session, in, out, error);
  if (e->takes_turns) pthread_mutex_unlock(&e->stream_turn);
  if (run->size >= offsetof(accel_plugin_run, device_ms) + sizeof run->device_ms)
    run->device_ms = j.run.device_ms;
  return rc;
}
