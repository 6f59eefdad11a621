/* parts_session.c - sessions over several parts: one session of each part's plugin that has state. */
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "dispatch/parts_internal.h"

static accel__parts_session *session_of(accel_plugin_session *session) {
  return (accel__parts_session *)session;
}

/* ---- life ---- */

void accel__parts_session_shut(accel__parts_session *s) {
  for (uint32_t k = 0; k < s->parts->n; k++) {
    if (s->of[k]) s->parts->part[k].placed.plugin->session_free(s->of[k]);
    s->of[k] = NULL;
  }
}

int32_t accel__parts_session_open(accel__parts_session *s, accel_plugin_error *error) {
  accel__parts *parts = s->parts;
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t k = 0; !rc && k < parts->n; k++) {
    const accel__placed_part *p = &parts->part[k];
    const accel_plugin *plugin = p->placed.plugin;
    if (!p->cut->program.n_state) continue;
    if (!p->placed.handle)
      rc = accel__parts_fail(error, ACCEL_PLUGIN_E_DEVICE_LOST, "the device was lost");
    else if (!plugin->session_new || !plugin->session_free || !plugin->session_control)
      rc = accel__parts_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, "its plugin has no sessions");
    else
      rc = plugin->session_new(p->placed.handle, &s->of[k], error);
    if (rc) accel__part_failed(parts, k, rc, error);
  }
  if (rc) accel__parts_session_shut(s);
  return rc;
}

int32_t accel__parts_session_new(accel_plugin_endpoint *handle, accel_plugin_session **out,
                                 accel_plugin_error *error) {
  accel__parts_session *s = calloc(1, sizeof *s);
  *out = NULL;
  if (!s) return accel__parts_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, "out of memory: no session");
  s->parts = accel__parts_of(handle);
  const int32_t rc = accel__parts_session_open(s, error);
  if (rc) {
    free(s);
    return rc;
  }
  pthread_mutex_lock(&s->parts->lock);
  s->next = s->parts->sessions;
  s->parts->sessions = s;
  pthread_mutex_unlock(&s->parts->lock);
  *out = (accel_plugin_session *)s;
  return ACCEL_PLUGIN_OK;
}

void accel__parts_session_free(accel_plugin_session *session) {
  accel__parts_session *s = session_of(session);
  if (!s) return;
  pthread_mutex_lock(&s->parts->lock);
  for (accel__parts_session **link = &s->parts->sessions; *link; link = &(*link)->next)
    if (*link == s) {
      *link = s->next;
      break;
    }
  pthread_mutex_unlock(&s->parts->lock);
  accel__parts_session_shut(s);
  free(s);
}

/* ---- verbs ---- */

/* One part's verb; nothing for a part without state. */
static int32_t one(accel__parts_session *s, uint32_t k, int32_t verb, int32_t sequence,
                   int64_t value, void *buffer, uint64_t *n, accel_plugin_error *error) {
  if (!s->of[k]) return ACCEL_PLUGIN_OK;
  const int32_t rc = s->parts->part[k].placed.plugin->session_control(s->of[k], verb, sequence,
                                                                      value, buffer, n, error);
  return rc ? accel__part_failed(s->parts, k, rc, error) : rc;
}

static int32_t reset(accel__parts_session *s, int32_t sequence, accel_plugin_error *error) {
  int32_t first = ACCEL_PLUGIN_OK;
  for (uint32_t k = 0; k < s->parts->n; k++) {
    const int32_t rc =
        one(s, k, ACCEL_PLUGIN_SESSION_RESET, sequence, 0, NULL, NULL, first ? NULL : error);
    if (!first) first = rc;
  }
  return first;
}

/* Parts whose states may refuse come first: then nothing has changed. */
static int32_t truncate_all(accel__parts_session *s, int32_t sequence, int64_t value,
                            accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (int rows = 0; rows < 2; rows++)
    for (uint32_t k = 0; !rc && k < s->parts->n; k++)
      if (s->parts->part[k].goes_back == (rows == 1))
        rc = one(s, k, ACCEL_PLUGIN_SESSION_TRUNCATE, sequence, value, NULL, NULL, error);
  return rc;
}

static int32_t copy_all(accel__parts_session *s, int32_t from, int64_t to,
                        accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  for (uint32_t k = 0; !rc && k < s->parts->n; k++)
    rc = one(s, k, ACCEL_PLUGIN_SESSION_COPY, from, to, NULL, NULL, error);
  if (rc && to != from && to >= INT32_MIN && to <= INT32_MAX) reset(s, (int32_t)to, NULL);
  return rc;
}

static int32_t length(accel__parts_session *s, int32_t sequence, uint64_t *n,
                      accel_plugin_error *error) {
  *n = 0;
  for (uint32_t k = 0; k < s->parts->n; k++)
    if (s->of[k]) return one(s, k, ACCEL_PLUGIN_SESSION_LENGTH, sequence, 0, NULL, n, error);
  return ACCEL_PLUGIN_OK;
}

/* ---- bytes ---- */

/* What a sequence is written as: this, the size of each part's bytes, then those bytes. */
typedef struct file_head {
  char magic[8];
  uint32_t n, reserved; /* parts; 0 */
  uint32_t last_stage[ACCEL__MAX_PARTS];
  uint64_t plugin[ACCEL__MAX_PARTS]; /* hash of name and build of each part's */
} file_head;
static const char magic[8] = {'A', 'C', 'C', 'P', 'A', 'R', 'T', 'S'};

static file_head head_of(const accel__parts *parts) {
  file_head h = {.n = parts->n};
  memcpy(h.magic, magic, sizeof magic);
  for (uint32_t k = 0; k < parts->n; k++) {
    const accel_plugin *plugin = parts->part[k].placed.plugin;
    h.last_stage[k] = parts->part[k].cut->last_stage;
    h.plugin[k] = accel__hash(plugin->build_id, strlen(plugin->build_id),
                              accel__hash(plugin->name, strlen(plugin->name), 1));
  }
  return h;
}

static int32_t export_all(accel__parts_session *s, int32_t sequence, void *buffer, uint64_t *n,
                          accel_plugin_error *error) {
  uint64_t size[ACCEL__MAX_PARTS] = {0}, all = sizeof(file_head) + sizeof size;
  for (uint32_t k = 0; k < s->parts->n; k++) {
    const int32_t rc = one(s, k, ACCEL_PLUGIN_SESSION_EXPORT, sequence, 0, NULL, &size[k], error);
    if (rc) return rc;
    all += size[k];
  }
  if (buffer && *n < all)
    return accel__parts_fail(error, ACCEL_PLUGIN_E_ARGUMENT,
                             "session export needs %llu bytes, the buffer has %llu",
                             (unsigned long long)all, (unsigned long long)*n);
  *n = all;
  if (!buffer) return ACCEL_PLUGIN_OK;
  const file_head head = head_of(s->parts);
  uint8_t *at = buffer;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, size, sizeof size);
  at += sizeof head + sizeof size;
  for (uint32_t k = 0; k < s->parts->n; k++) {
    const int32_t rc = one(s, k, ACCEL_PLUGIN_SESSION_EXPORT, sequence, 0, at, &size[k], error);
    if (rc) return rc;
    at += size[k];
  }
  return ACCEL_PLUGIN_OK;
}

/* The sizes of the parts' bytes; false: these are not bytes of a session over these parts. */
static bool read_head(const accel__parts_session *s, const uint8_t *bytes, uint64_t n,
                      uint64_t *size) {
  const file_head wanted = head_of(s->parts);
  const uint64_t begin = sizeof wanted + ACCEL__MAX_PARTS * sizeof *size;
  if (!bytes || n < begin || memcmp(bytes, &wanted, sizeof wanted)) return false;
  memcpy(size, bytes + sizeof wanted, ACCEL__MAX_PARTS * sizeof *size);
  uint64_t left = n - begin;
  for (uint32_t k = 0; k < ACCEL__MAX_PARTS; k++) {
    if (size[k] > left || (size[k] && (k >= s->parts->n || !s->of[k]))) return false;
    left -= size[k];
  }
  return !left;
}

static int32_t import_all(accel__parts_session *s, int32_t sequence, void *buffer, uint64_t n,
                          accel_plugin_error *error) {
  uint64_t size[ACCEL__MAX_PARTS];
  int32_t rc = ACCEL_PLUGIN_OK;
  if (!read_head(s, buffer, n, size))
    return accel__parts_fail(error, ACCEL_PLUGIN_E_ARGUMENT,
                             "not the bytes of a session over these parts");
  uint8_t *at = (uint8_t *)buffer + sizeof(file_head) + sizeof size;
  for (uint32_t k = 0; !rc && k < s->parts->n; k++) {
    if (!s->of[k]) continue;
    rc = one(s, k, ACCEL_PLUGIN_SESSION_IMPORT, sequence, 0, at, &size[k], error);
    at += size[k];
  }
  if (rc) reset(s, sequence, NULL);
  return rc;
}

int32_t accel__parts_session_control(accel_plugin_session *session, int32_t verb, int32_t sequence,
                                     int64_t value, void *buffer, uint64_t *n,
                                     accel_plugin_error *error) {
  accel__parts_session *s = session_of(session);
  uint64_t none = 0;
  switch (verb) {
    case ACCEL_PLUGIN_SESSION_RESET:
      return reset(s, sequence, error);
    case ACCEL_PLUGIN_SESSION_TRUNCATE:
      return truncate_all(s, sequence, value, error);
    case ACCEL_PLUGIN_SESSION_COPY:
      return copy_all(s, sequence, value, error);
    case ACCEL_PLUGIN_SESSION_LENGTH:
      return length(s, sequence, n ? n : &none, error);
    case ACCEL_PLUGIN_SESSION_EXPORT:
      return export_all(s, sequence, buffer, n ? n : &none, error);
    case ACCEL_PLUGIN_SESSION_IMPORT:
      return import_all(s, sequence, buffer, n ? *n : 0, error);
    default:
      return accel__parts_fail(error, ACCEL_PLUGIN_E_UNSUPPORTED, "session verb %d is unknown",
                               verb);
  }
}

/* ---- taking a failed run back ---- */

/* A copy of sequence `id` beside those that the library numbers, which are not negative. */
static int32_t backup_of(int32_t id) { return -1 - id; }

/* States that cannot go back are copied before the run, but for those of the last part, which takes
 * its own failed run back. */
static bool is_copied(const accel__parts_session *s, uint32_t k) {
  const accel__parts *parts = s->parts;
  return s->of[k] && !parts->part[k].goes_back && (k + 1 < parts->n || parts->ep->check_finite);
}

int32_t accel__parts_undo_begin(accel__parts_undo *u, accel__parts_session *s,
                                const accel_plugin_run *run, accel_plugin_error *error) {
  int32_t rc = ACCEL_PLUGIN_OK;
  *u = (accel__parts_undo){.session = s, .sequence = run->sequence, .n = run->n_sequence};
  if (!s || !u->n) return ACCEL_PLUGIN_OK;
  u->length = calloc(u->n, sizeof *u->length + sizeof *u->fresh);
  if (!u->length)
    return accel__parts_fail(error, ACCEL_PLUGIN_E_HOST_MEMORY, "out of memory: %u sequences",
                             u->n);
  u->fresh = (bool *)(u->length + u->n);
  for (uint32_t i = 0; !rc && i < u->n; i++) {
    uint64_t bytes = 0;
    rc = length(s, u->sequence[i], &u->length[i], error);
    if (!rc && !u->length[i]) /* empty, or not there: only the latter cannot be exported */
      u->fresh[i] = export_all(s, u->sequence[i], NULL, &bytes, NULL) == ACCEL_PLUGIN_E_ARGUMENT;
    for (uint32_t k = 0; !rc && !u->fresh[i] && k < s->parts->n; k++)
      if (is_copied(s, k))
        rc = one(s, k, ACCEL_PLUGIN_SESSION_COPY, u->sequence[i], backup_of(u->sequence[i]), NULL,
                 NULL, error);
  }
  if (rc) accel__parts_undo_end(u, 0, true);
  return rc;
}

static void take_back(accel__parts_undo *u, uint32_t i, uint32_t k) {
  accel__parts_session *s = u->session;
  const int32_t id = u->sequence[i];
  if (u->fresh[i])
    one(s, k, ACCEL_PLUGIN_SESSION_RESET, id, 0, NULL, NULL, NULL);
  else if (is_copied(s, k))
    one(s, k, ACCEL_PLUGIN_SESSION_COPY, backup_of(id), id, NULL, NULL, NULL);
  else
    one(s, k, ACCEL_PLUGIN_SESSION_TRUNCATE, id, (int64_t)u->length[i], NULL, NULL, NULL);
}

void accel__parts_undo_end(accel__parts_undo *u, uint32_t done, bool failed) {
  for (uint32_t i = 0; u->length && i < u->n; i++)
    for (uint32_t k = 0; k < u->session->parts->n; k++) {
      if (failed && k < done) take_back(u, i, k);
      if (is_copied(u->session, k))
        one(u->session, k, ACCEL_PLUGIN_SESSION_RESET, backup_of(u->sequence[i]), 0, NULL, NULL,
            NULL);
    }
  free(u->length);
  u->length = NULL;
}
