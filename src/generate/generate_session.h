/* generate_session.h - a conversation with a model that the caller keeps: the tokens so far, and
 * how many of them the device has in its KV cache. */
#ifndef ACCEL_GENERATE_GENERATE_SESSION_H
#define ACCEL_GENERATE_GENERATE_SESSION_H

#include "generate/generation.h"

struct accel_session {
  accel__session *shared; /* with forks */
  accel__model_stepper stepper;
  int32_t sequence;
  /* ids[n], of which past_len are in the KV cache: always less than n, so that there is a token
   * whose scores give the next one */
  accel__hypothesis tokens;
  accel_plugin_adapter_use adapter; /* with which they were read, and are from now on */
  pthread_mutex_t lock;             /* one call at a time */
};

accel_status accel__session_make(accel_endpoint *ep, accel_session **out);
void accel__session_end(accel_session *s);
accel_status accel__session_feed(accel_session *s, const int32_t *ids, uint32_t n);
accel_status accel__session_feed_text(accel_session *s, const char *text, bool special);
accel_status accel__session_generate(accel_session *s, const accel_generate_params *params,
                                     accel_generations **out);
accel_status accel__session_truncate(accel_session *s, uint32_t tokens);
accel_status accel__session_fork(accel_session *s, accel_session **out);
accel_status accel__session_save(accel_session *s, const char *path);
accel_status accel__session_load(accel_endpoint *ep, const char *path, accel_session **out);

#endif
