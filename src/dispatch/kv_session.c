/* kv_session.c - sessions: opening, sequence numbers, and the plugin's verbs with our statuses. */
#include "dispatch/kv_session.h"

#include <stdlib.h>

accel_status accel__session_open(accel_endpoint *ep, accel__session **out) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  *out = NULL;
  if (!ep->placed.plugin->session_new || !ep->placed.plugin->session_free ||
      !ep->placed.plugin->session_control)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: the plugin of %s has no sessions", ep->name,
                       ep->placement.device);
  accel__session *s = calloc(1, sizeof *s);
  if (!s) return accel__no_memory(sizeof *s);
  *s = (accel__session){.ep = ep, .users = 1};
  pthread_rwlock_wrlock(&ep->in_use);
  int32_t rc = ep->placed.plugin->session_new(ep->placed.handle, &s->handle, &error);
  s->n_replaced = ep->n_replaced;
  if (!rc) ep->sessions++;
  pthread_rwlock_unlock(&ep->in_use);
  if (rc) {
    free(s);
    return accel__fail((accel_status)rc, "%s on %s: no session: %s", ep->name, ep->placement.device,
                       error.message);
  }
  pthread_mutex_init(&s->lock, NULL);
  *out = s;
  return ACCEL_OK;
}

accel__session *accel__session_share(accel__session *s) {
  pthread_mutex_lock(&s->lock);
  s->users++;
  pthread_mutex_unlock(&s->lock);
  return s;
}

void accel__session_close(accel__session **session) {
  accel__session *s = *session;
  *session = NULL;
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  bool last = --s->users == 0;
  pthread_mutex_unlock(&s->lock);
  if (!last) return;
  pthread_rwlock_wrlock(&s->ep->in_use);
  s->ep->placed.plugin->session_free(s->handle);
  s->ep->sessions--;
  pthread_rwlock_unlock(&s->ep->in_use);
  pthread_mutex_destroy(&s->lock);
  free(s->free_number);
  free(s);
}

accel_status accel__session_run(accel__session *s, uint32_t entry, accel__batch *batch,
                                const uint32_t *outputs, uint32_t n_outputs,
                                accel__result *results) {
  batch->session = s->handle;
  pthread_mutex_lock(&s->lock);
  accel_status status = accel__endpoint_run(s->ep, entry, batch, outputs, n_outputs, results);
  pthread_mutex_unlock(&s->lock);
  return status;
}

/* ---- numbers ---- */

int32_t accel__session_number(accel__session *s) {
  pthread_mutex_lock(&s->lock);
  int32_t number = s->n_free ? s->free_number[--s->n_free] : s->next;
  if (number == s->next && s->next == INT32_MAX)
    number = -1;
  else if (number == s->next)
    s->next++;
  pthread_mutex_unlock(&s->lock);
  return number;
}

/* A number that cannot be noted for want of memory is not given again. */
static void note_free(accel__session *s, int32_t number) {
  if (s->n_free == s->capacity) {
    uint32_t capacity = s->capacity * 2 + 16;
    int32_t *list = realloc(s->free_number, capacity * sizeof *list);
    if (!list) return;
    s->free_number = list;
    s->capacity = capacity;
  }
  s->free_number[s->n_free++] = number;
}

/* ---- verbs ---- */

static accel_status control(accel__session *s, int32_t verb, int32_t sequence, int64_t value,
                            void *buffer, uint64_t *n) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  pthread_rwlock_rdlock(&s->ep->in_use);
  int32_t rc =
      s->ep->placed.plugin->session_control(s->handle, verb, sequence, value, buffer, n, &error);
  pthread_rwlock_unlock(&s->ep->in_use);
  return rc ? accel__fail((accel_status)rc, "%s on %s: session: %s", s->ep->name,
                          s->ep->placement.device, error.message)
            : ACCEL_OK;
}

accel_status accel__session_control(accel__session *s, int32_t verb, int32_t sequence,
                                    int64_t value) {
  pthread_mutex_lock(&s->lock);
  accel_status status = control(s, verb, sequence, value, NULL, NULL);
  pthread_mutex_unlock(&s->lock);
  return status;
}

accel_status accel__session_length(accel__session *s, int32_t sequence, uint64_t *n) {
  pthread_mutex_lock(&s->lock);
  accel_status status = control(s, ACCEL_PLUGIN_SESSION_LENGTH, sequence, 0, NULL, n);
  pthread_mutex_unlock(&s->lock);
  return status;
}

void accel__session_drop(accel__session *s, int32_t sequence) {
  pthread_mutex_lock(&s->lock);
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  pthread_rwlock_rdlock(&s->ep->in_use);
  s->ep->placed.plugin->session_control(s->handle, ACCEL_PLUGIN_SESSION_RESET, sequence, 0, NULL,
                                        NULL, &error);
  pthread_rwlock_unlock(&s->ep->in_use);
  note_free(s, sequence);
  pthread_mutex_unlock(&s->lock);
}

accel_status accel__session_bytes(accel__session *s, int32_t sequence, uint64_t *n) {
  *n = 0;
  pthread_mutex_lock(&s->lock);
  accel_status status = control(s, ACCEL_PLUGIN_SESSION_EXPORT, sequence, 0, NULL, n);
  pthread_mutex_unlock(&s->lock);
  return status;
}

accel_status accel__session_export(accel__session *s, int32_t sequence, void **bytes, uint64_t *n) {
  *bytes = NULL;
  *n = 0;
  pthread_mutex_lock(&s->lock);
  accel_status status = control(s, ACCEL_PLUGIN_SESSION_EXPORT, sequence, 0, NULL, n);
  if (status == ACCEL_OK && !(*bytes = malloc(*n ? *n : 1))) status = accel__no_memory(*n);
  if (status == ACCEL_OK) status = control(s, ACCEL_PLUGIN_SESSION_EXPORT, sequence, 0, *bytes, n);
  pthread_mutex_unlock(&s->lock);
  if (status == ACCEL_OK) return ACCEL_OK;
  free(*bytes);
  *bytes = NULL;
  return status;
}

accel_status accel__session_import(accel__session *s, int32_t sequence, const void *bytes,
                                   uint64_t n) {
  pthread_mutex_lock(&s->lock);
  accel_status status = control(s, ACCEL_PLUGIN_SESSION_IMPORT, sequence, 0, (void *)bytes, &n);
  pthread_mutex_unlock(&s->lock);
  return status;
}
