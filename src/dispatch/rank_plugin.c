/* rank_plugin.c - the plugin of an endpoint that ranks compute together: rank 0 tells the others what
 * it is asked for, and does it with its own share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/rank_order.h"
#include "hardware/handshake.h"

static accel__ranked *ranked_of(accel_plugin_endpoint *handle) { return (accel__ranked *)handle; }
static accel__ranked_session *session_of(accel_plugin_session *session) {
  return (accel__ranked_session *)session;
}
/* Rank 0, whose others have the endpoint, too, and are there. */
static bool leads(const accel__ranked *d) {
  return d->ranks->rank == 0 && d->open && !d->ranks->lost;
}

static int32_t say(accel_plugin_error *error, int32_t rc, const char *message) {
  if (!error) return rc;
  error->rc = rc;
  error->node = -1;
  if (message != error->message)
    accel__clean_copy(error->message, sizeof error->message, message, sizeof error->message);
  return rc;
}

/* Statuses and codes of plugins are the same numbers. */
static int32_t say_status(accel_plugin_error *error, accel_status status) {
  return say(error, (int32_t)status, accel__message());
}

/* What all ranks made of the order; *error says it. */
static int32_t settle(accel__ranked *d, int32_t rc, accel_plugin_error *error) {
  char text[512];
  const int32_t all =
      accel__ranks_agree(d->ranks, rc, error ? error->message : NULL, text, sizeof text);
  if (d->ranks->lost) return say_status(error, accel__ranks_lost(d->ranks));
  if (all == ACCEL_PLUGIN_OK || all == rc) return all;
  return say(error, all, text);
}

/* ---- runs ---- */

/* Elements of a dtype that runs take and give are four bytes. */
static uint64_t view_bytes(const accel_plugin_view *v) {
  uint64_t n = 4;
  for (uint32_t i = 0; i < v->rank; i++) n *= (uint64_t)v->dim[i];
  return n;
}

static void put_view(accel__order *o, const accel_plugin_view *v) {
  accel__order_number(o, v->host != NULL);
  accel__order_number(o, v->dtype);
  accel__order_number(o, v->rank);
  for (uint32_t i = 0; i < v->rank; i++) accel__order_number(o, v->dim[i]);
}

static accel_plugin_view take_view(accel__order *o, bool *there) {
  accel_plugin_view v = {.size = sizeof v};
  *there = accel__order_get(o) != 0;
  v.dtype = (uint8_t)accel__order_get(o);
  const int64_t rank = accel__order_get(o);
  o->broken |= rank < 0 || rank > ACCEL_PLUGIN_MAX_RANK;
  v.rank = o->broken ? 0 : (uint8_t)rank;
  for (uint32_t i = 0; i < v.rank; i++) v.dim[i] = accel__order_get(o);
  return v;
}

static accel_status tell_run(accel__ranked *d, const accel__ranked_session *s,
                             const accel_plugin_run *run, const accel_plugin_view *in,
                             uint32_t n_in, const accel_plugin_view *out, uint32_t n_out) {
  accel__order o = {.left = 0};
  accel__order_number(&o, ACCEL__ORDER_RUN);
  accel__order_number(&o, d->number);
  accel__order_number(&o, s ? s->number : -1);
  accel__order_number(&o, run->entry);
  accel__order_number(&o, run->n_sequence);
  accel__order_bytes(&o, run->sequence, run->n_sequence * sizeof *run->sequence);
  accel__order_number(&o, n_in);
  for (uint32_t i = 0; i < n_in; i++) {
    put_view(&o, &in[i]);
    accel__order_bytes(&o, in[i].host, view_bytes(&in[i]));
  }
  accel__order_number(&o, n_out);
  for (uint32_t i = 0; i < n_out; i++) put_view(&o, &out[i]);
  const accel_status status = accel__ranks_tell(d->ranks, &o);
  accel__buffer_free(&o.bytes);
  return status;
}

static int32_t refused(const accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                       const accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error) {
  bool device = false;
  for (uint32_t i = 0; i < n_in; i++) device |= in[i].device != NULL;
  for (uint32_t i = 0; i < n_out; i++) device |= out[i].device != NULL;
  if (device)
    return say(error, ACCEL_PLUGIN_E_UNSUPPORTED,
               "device tensors are of one device: several ranks take host memory");
  if (run->adapter)
    return say(error, ACCEL_PLUGIN_E_UNSUPPORTED,
               "adapters that requests name are not shared among ranks");
  return ACCEL_PLUGIN_OK;
}

static int32_t ranked_handler(accel_plugin_endpoint *handle, accel_plugin_session *session,
                              accel_plugin_run *run, const accel_plugin_view *in, uint32_t n_in,
                              accel_plugin_view *out, uint32_t n_out, accel_plugin_error *error) {
  accel__ranked *d = ranked_of(handle);
  accel__ranked_session *s = session_of(session);
  int32_t rc = refused(run, in, n_in, out, n_out, error);
  if (rc) return rc;
  pthread_mutex_lock(&d->ranks->lock);
  accel_status status = tell_run(d, s, run, in, n_in, out, n_out);
  if (status == ACCEL_OK) {
    rc = d->plugin->handler(d->handle, s ? s->own : NULL, run, in, n_in, out, n_out, error);
    rc = settle(d, rc, error);
  } else {
    rc = say_status(error, status);
  }
  pthread_mutex_unlock(&d->ranks->lock);
  return rc;
}

/* ---- sessions ---- */

static int32_t new_session(accel__ranked *d, int64_t number, accel__ranked_session **out,
                           accel_plugin_error *error) {
  accel__ranked_session *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s) return say(error, ACCEL_PLUGIN_E_HOST_MEMORY, "out of memory: no session");
  const int32_t rc = d->plugin->session_new(d->handle, &s->own, error);
  if (rc) {
    free(s);
    return rc;
  }
  s->of = d;
  s->number = number;
  s->next = d->sessions;
  d->sessions = s;
  *out = s;
  return ACCEL_PLUGIN_OK;
}

static void free_session(accel__ranked_session *s) {
  for (accel__ranked_session **link = &s->of->sessions; *link; link = &(*link)->next)
    if (*link == s) {
      *link = s->next;
      break;
    }
  s->of->plugin->session_free(s->own);
  free(s);
}

/* An order of numbers alone. */
static accel_status tell(accel__ranked *d, const int64_t *number, uint32_t n) {
  accel__order o = {.left = 0};
  for (uint32_t i = 0; i < n; i++) accel__order_number(&o, number[i]);
  const accel_status status = accel__ranks_tell(d->ranks, &o);
  accel__buffer_free(&o.bytes);
  return status;
}

static int32_t ranked_session_new(accel_plugin_endpoint *handle, accel_plugin_session **out,
                                  accel_plugin_error *error) {
  accel__ranked *d = ranked_of(handle);
  accel__ranked_session *s = NULL;
  accel_plugin_error own = {.size = sizeof own, .node = -1};
  if (!error) error = &own;
  *out = NULL;
  pthread_mutex_lock(&d->ranks->lock);
  const int64_t number = d->ranks->next_session++;
  const accel_status status = tell(d, (int64_t[]){ACCEL__ORDER_SESSION_NEW, d->number, number}, 3);
  int32_t rc = status == ACCEL_OK ? settle(d, new_session(d, number, &s, error), error)
                                  : say_status(error, status);
  if (rc && s) free_session(s);
  if (!rc) *out = (accel_plugin_session *)s;
  pthread_mutex_unlock(&d->ranks->lock);
  return rc;
}

static void ranked_session_free(accel_plugin_session *session) {
  accel__ranked_session *s = session_of(session);
  if (!s) return;
  accel__ranked *d = s->of;
  pthread_mutex_lock(&d->ranks->lock);
  if (leads(d) && tell(d, (int64_t[]){ACCEL__ORDER_SESSION_FREE, d->number, s->number}, 3))
    accel__clear_error(); /* nobody is left to be told */
  free_session(s);
  pthread_mutex_unlock(&d->ranks->lock);
}

static int32_t ranked_session_control(accel_plugin_session *session, int32_t verb, int32_t sequence,
                                      int64_t value, void *buffer, uint64_t *n,
                                      accel_plugin_error *error) {
  accel__ranked_session *s = session_of(session);
  accel__ranked *d = s->of;
  accel_plugin_error own = {.size = sizeof own, .node = -1};
  if (!error) error = &own;
  if (verb == ACCEL_PLUGIN_SESSION_EXPORT || verb == ACCEL_PLUGIN_SESSION_IMPORT)
    return say(error, ACCEL_PLUGIN_E_UNSUPPORTED,
               "a sequence whose states lie on several ranks is neither written nor read");
  if (verb == ACCEL_PLUGIN_SESSION_LENGTH) /* the same on all ranks, and nothing changes */
    return d->plugin->session_control(s->own, verb, sequence, value, buffer, n, error);
  pthread_mutex_lock(&d->ranks->lock);
  const accel_status status = tell(
      d, (int64_t[]){ACCEL__ORDER_SESSION_CONTROL, d->number, s->number, verb, sequence, value}, 6);
  int32_t rc = say_status(error, status);
  if (status == ACCEL_OK) {
    rc = d->plugin->session_control(s->own, verb, sequence, value, buffer, n, error);
    rc = settle(d, rc, error);
  }
  pthread_mutex_unlock(&d->ranks->lock);
  return rc;
}

/* ---- life ---- */

static void forget(accel__ranked *d) {
  for (accel__ranked **link = &d->ranks->endpoints; *link; link = &(*link)->next)
    if (*link == d) {
      *link = d->next;
      return;
    }
}

static void ranked_cleanup(accel_plugin_endpoint *handle, const accel_plugin_host *host) {
  accel__ranked *d = ranked_of(handle);
  if (!d) return;
  pthread_mutex_lock(&d->ranks->lock);
  if (leads(d) && tell(d, (int64_t[]){ACCEL__ORDER_CLOSE, d->number}, 2)) accel__clear_error();
  while (d->sessions) free_session(d->sessions);
  forget(d);
  d->plugin->cleanup(d->handle, host);
  pthread_mutex_unlock(&d->ranks->lock);
  free(d);
}

/* Of this rank: the others are not asked. */
static int32_t ranked_trim(accel_plugin_endpoint *handle, uint64_t *released,
                           accel_plugin_error *error) {
  accel__ranked *d = ranked_of(handle);
  return d->plugin->trim(d->handle, released, error);
}

accel__ranked *accel__ranked_of(const accel_endpoint *ep) {
  return ep->ctx->ranks && ep->placed.handle ? ranked_of(ep->placed.handle) : NULL;
}

accel_status accel__ranks_wrap(accel_endpoint *ep) {
  accel__ranked *d = calloc(1, sizeof *d);
  if (!d) return accel__no_memory(sizeof *d);
  const accel_plugin *plugin = ep->placed.plugin;
  *d = (accel__ranked){.table = *plugin,
                       .ranks = ep->ctx->ranks,
                       .ep = ep,
                       .plugin = plugin,
                       .handle = ep->placed.handle,
                       .number = -1};
  d->table.size = sizeof d->table;
  d->table.handler = ranked_handler;
  d->table.cleanup = ranked_cleanup;
  d->table.trim = plugin->trim ? ranked_trim : NULL;
  if (plugin->session_new && plugin->session_free && plugin->session_control) {
    d->table.session_new = ranked_session_new;
    d->table.session_free = ranked_session_free;
    d->table.session_control = ranked_session_control;
  }
  pthread_mutex_lock(&d->ranks->lock);
  d->next = d->ranks->endpoints;
  d->ranks->endpoints = d;
  pthread_mutex_unlock(&d->ranks->lock);
  ep->placed.plugin = &d->table;
  ep->placed.handle = (accel_plugin_endpoint *)d;
  return ACCEL_OK;
}

/* ---- the other ranks ---- */

static int32_t follow_run(accel__ranked *d, accel__ranked_session *s, accel__order *o,
                          accel_plugin_error *error) {
  const accel_plugin_program *p = accel__program_view(d->ep->model->program);
  accel_plugin_run run = {.size = sizeof run, .host = &d->ep->host};
  accel_plugin_view *in = NULL, *out = NULL;
  int32_t rc = ACCEL_PLUGIN_E_HOST_MEMORY;
  bool there;
  run.entry = (uint32_t)accel__order_get(o);
  run.n_sequence = (uint32_t)accel__order_get(o);
  run.sequence = accel__order_take(o, run.n_sequence * sizeof *run.sequence);
  if (!s) run.sequence = NULL;
  const uint32_t n_in = (uint32_t)accel__order_get(o);
  if (o->broken || run.entry >= p->n_entry || n_in != p->entry[run.entry].n_in)
    return say(error, ACCEL_PLUGIN_E_ABI, "rank 0 says what this build does not know");
  in = calloc(n_in + 1u, sizeof *in);
  out = calloc(p->entry[run.entry].n_out + 1u, sizeof *out);
  for (uint32_t i = 0; in && i < n_in && !o->broken; i++) {
    in[i] = take_view(o, &there);
    in[i].capacity = view_bytes(&in[i]);
    in[i].host = (void *)(uintptr_t)accel__order_take(o, in[i].capacity);
  }
  const uint32_t n_out = (uint32_t)accel__order_get(o);
  bool ready = in && out && !o->broken && n_out == p->entry[run.entry].n_out;
  for (uint32_t i = 0; ready && i < n_out; i++) {
    out[i] = take_view(o, &there);
    out[i].capacity = there ? view_bytes(&out[i]) : 0;
    out[i].host = there ? malloc(out[i].capacity + 1) : NULL;
    ready = !o->broken && (!there || out[i].host);
  }
  if (ready) {
    accel__pool_turn turn;
    accel__pool_enter(d->ep->ctx->pool, 0, &turn);
    rc = d->plugin->handler(d->handle, s ? s->own : NULL, &run, in, n_in, out, n_out, error);
    accel__pool_leave(&turn);
  } else {
    say(error, rc, "out of memory for the values of a run");
  }
  for (uint32_t i = 0; out && i < p->entry[run.entry].n_out; i++) free(out[i].host);
  free(in);
  free(out);
  return rc;
}

/* An order about an endpoint. */
static int32_t follow_endpoint(accel__ranked *d, int64_t verb, accel__order *o,
                               accel_plugin_error *error) {
  accel__ranked_session *s = d->sessions;
  const int64_t number = accel__order_get(o);
  while (s && s->number != number) s = s->next;
  if (verb == ACCEL__ORDER_RUN && (s || number < 0)) return follow_run(d, s, o, error);
  if (verb == ACCEL__ORDER_SESSION_NEW) return new_session(d, number, &s, error);
  if (!s) return say(error, ACCEL_PLUGIN_E_ABI, "rank 0 names a session that is not here");
  const int32_t control = (int32_t)accel__order_get(o), sequence = (int32_t)accel__order_get(o);
  const int64_t value = accel__order_get(o);
  return d->plugin->session_control(s->own, control, sequence, value, NULL, NULL, error);
}

/* A session that another rank has not made is not kept here. */
static void drop_session(accel__ranked *d, int64_t number) {
  accel__ranked_session *s = d->sessions;
  while (s && s->number != number) s = s->next;
  if (s) free_session(s);
}

accel_status accel__ranked_follow(accel__ranked *d, int64_t verb, accel__order *o) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  accel__order peek = *o;
  const int64_t number = accel__order_get(&peek);
  if (verb == ACCEL__ORDER_SESSION_FREE) {
    drop_session(d, number);
    return ACCEL_OK;
  }
  const int32_t rc = settle(d, follow_endpoint(d, verb, o, &error), &error);
  if (rc && verb == ACCEL__ORDER_SESSION_NEW) drop_session(d, number);
  return d->ranks->lost ? accel__ranks_lost(d->ranks) : ACCEL_OK;
}
