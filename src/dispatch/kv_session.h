/* kv_session.h - a plugin's session and the numbers of its sequences.
 *
 * A session takes one call at a time: every function here waits for its turn.  It stays with the
 * plugin's endpoint it was opened on, which keeps "auto" from changing the precision as long as it
 * lives.
 */
#ifndef ACCEL_DISPATCH_KV_SESSION_H
#define ACCEL_DISPATCH_KV_SESSION_H

#include "dispatch/endpoint.h"

typedef struct accel__session {
  accel_endpoint *ep;
  accel_plugin_session *handle;
  pthread_mutex_t lock;
  uint32_t n_replaced;  /* of the endpoint, when the session was opened */
  uint32_t users;       /* accel__session_share adds one */
  int32_t next;         /* first number never given */
  int32_t *free_number; /* [n_free] given back */
  uint32_t n_free, capacity;
} accel__session;

/* ACCEL_ERROR_UNSUPPORTED when the device's plugin has no sessions. */
accel_status accel__session_open(accel_endpoint *ep, accel__session **out);
accel__session *accel__session_share(accel__session *s);
void accel__session_close(accel__session **session); /* the last user closes it; NULL-safe */

/* Runs an entry of the model over sequences of the session: batch->session is set here. */
accel_status accel__session_run(accel__session *s, uint32_t entry, accel__batch *batch,
                                const uint32_t *outputs, uint32_t n_outputs,
                                accel__result *results);

/* a sequence number that is not in use; -1: no memory */
int32_t accel__session_number(accel__session *s);
/* Forgets the sequence; its number may be given again. */
void accel__session_drop(accel__session *s, int32_t sequence);
/* The verbs of plugin.h that need no buffer (TRUNCATE, COPY). */
accel_status accel__session_control(accel__session *s, int32_t verb, int32_t sequence,
                                    int64_t value);
/* *n becomes the tokens that the plugin has of the sequence. */
accel_status accel__session_length(accel__session *s, int32_t sequence, uint64_t *n);
/* *n becomes the bytes that the sequence takes, as accel__session_export gives them. */
accel_status accel__session_bytes(accel__session *s, int32_t sequence, uint64_t *n);
/* The bytes of a sequence, malloc'd; and back.  ACCEL_ERROR_ARGUMENT for those of another model,
 * build or precision. */
accel_status accel__session_export(accel__session *s, int32_t sequence, void **bytes, uint64_t *n);
accel_status accel__session_import(accel__session *s, int32_t sequence, const void *bytes,
                                   uint64_t n);

#endif
