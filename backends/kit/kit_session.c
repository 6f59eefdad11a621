/* kit_session.c - sessions: opened, closed, begun and ended by runs, and the verbs of
 * session_control.
 *
 * A failed run leaves lengths and vectors as they were; bytes beyond a length mean nothing.
 */
#include "kit/kit_session.h"

#include <stdlib.h>

#include "kit/kit_sequence_file.h"

int32_t kit_session_new(accel_plugin_endpoint *endpoint, accel_plugin_session **out,
                        accel_plugin_error *error) {
  accel_plugin_session *s = calloc(1, sizeof *s);
  *out = s;
  if (!s) return kit_no_memory(error, sizeof *s);
  s->e = endpoint;
  atomic_flag_clear(&s->busy);
  return ACCEL_PLUGIN_OK;
}

void kit_session_free(accel_plugin_session *s) {
  if (!s) return;
  while (s->n) kit_sequence_drop(s, s->sequence[s->n - 1]);
  free(s->sequence);
  free(s->run.item);
  free(s);
}

bool kit_session_of(const accel_plugin_session *session, const accel_plugin_endpoint *endpoint) {
  return session->e == endpoint;
}

/* ---- runs ---- */

static int32_t check_ids(const int32_t *id, uint32_t n, accel_plugin_error *error) {
  if (!n || !id)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "a session was given but no sequence ids");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (id[i] == id[k])
        return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "sequence %d appears twice in one run",
                        id[i]);
  return ACCEL_PLUGIN_OK;
}

/* The session is busy with this call. */
static int32_t find_sequences(accel_plugin_session *s, const int32_t *id, uint32_t n,
                              accel_plugin_error *error) {
  kit_run_state *r = &s->run;
  if (n > r->capacity) {
    kit_sequence **item = realloc(r->item, n * sizeof *item);
    if (!item) return kit_no_memory(error, n * sizeof *item);
    r->item = item;
    r->capacity = n;
  }
  for (uint32_t i = 0; i < n; i++) {
    r->item[i] = kit_sequence_find(s, id[i]);
    if (!r->item[i]) {
      int32_t rc = kit_sequence_new(s, id[i], &r->item[i], error);
      if (rc) return rc;
      r->item[i]->fresh = true;
    }
    r->n = i + 1;
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_session_begin(accel_plugin_session *s, const int32_t *id, uint32_t n,
                          const accel_plugin_host *host, kit_run_state **out,
                          accel_plugin_error *error) {
  int32_t rc = check_ids(id, n, error);
  if (rc) return rc;
  if (atomic_flag_test_and_set(&s->busy))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the session is in use by another call");
  s->run.session = s;
  s->run.host = host;
  s->run.n = 0;
  rc = find_sequences(s, id, n, error);
  if (rc)
    kit_session_end(&s->run, false);
  else
    *out = &s->run;
  return rc;
}

void kit_session_end(kit_run_state *r, bool commit) {
  if (!r) return;
  accel_plugin_session *s = r->session;
  for (uint32_t i = 0; i < r->n; i++) {
    for (uint32_t k = 0; k < s->e->program->n_state; k++)
      kit_slot_settle(&r->item[i]->slot[k], commit);
    if (!commit && r->item[i]->fresh)
      kit_sequence_drop(s, r->item[i]);
    else
      r->item[i]->fresh = false;
  }
  atomic_flag_clear(&s->busy);
}

/* ---- control ---- */

static int32_t control(accel_plugin_session *s, int32_t verb, int32_t id, int64_t value,
                       void *buffer, uint64_t *n, accel_plugin_error *error) {
  kit_sequence *q = kit_sequence_find(s, id);
  switch (verb) {
    case ACCEL_PLUGIN_SESSION_RESET:
      kit_sequence_drop(s, q);
      return ACCEL_PLUGIN_OK;
    case ACCEL_PLUGIN_SESSION_LENGTH:
      if (!n) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "session length: n is NULL");
      *n = q ? (uint64_t)kit_sequence_length(s->e, q) : 0;
      return ACCEL_PLUGIN_OK;
    case ACCEL_PLUGIN_SESSION_IMPORT:
      return kit_sequence_import(s, id, buffer, n ? *n : 0, error);
    case ACCEL_PLUGIN_SESSION_TRUNCATE:
    case ACCEL_PLUGIN_SESSION_COPY:
    case ACCEL_PLUGIN_SESSION_EXPORT:
      break;
    default:
      return kit_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
                      "session verb %d is unknown to this plugin", verb);
  }
  if (!q)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "sequence %d is not in the session", id);
  if (verb == ACCEL_PLUGIN_SESSION_TRUNCATE) return kit_sequence_truncate(s, q, value, error);
  if (verb == ACCEL_PLUGIN_SESSION_COPY) return kit_sequence_copy(s, q, value, error);
  if (!n) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "session export: n is NULL");
  return kit_sequence_export(s, q, buffer, n, error);
}

int32_t kit_session_control(accel_plugin_session *s, int32_t verb, int32_t sequence_id,
                            int64_t value, void *buffer, uint64_t *n, accel_plugin_error *error) {
  if (!s) return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "no session");
  if (atomic_flag_test_and_set(&s->busy))
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "the session is in use by another call");
  int32_t rc = control(s, verb, sequence_id, value, buffer, n, error);
  atomic_flag_clear(&s->busy);
  return rc;
}
