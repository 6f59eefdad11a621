/* api_session.c - sessions: argument checks and the lock of each, then generate/. */
#include "generate/generate_session.h"

#include <string.h>

#include "api/api_check.h"

accel_status accel_session_open(accel_endpoint *endpoint, accel_session **out) {
  API_CALL(endpoint, out);
  return accel__session_make(endpoint, out);
}

void accel_session_close(accel_session **session) {
  if (!session || !*session) return;
  accel__session_end(*session);
  *session = NULL;
}

accel_status accel_session_feed(accel_session *session, const char *text, int add_special_tokens) {
  API_BEGIN();
  API_NEED(session);
  API_NEED(text);
  API_LOCKED(session, accel__session_feed_text(session, text, add_special_tokens != 0));
}

accel_status accel_session_feed_ids(accel_session *session, const int32_t *ids, uint32_t n) {
  API_BEGIN();
  API_NEED(session);
  if (n) API_NEED(ids);
  API_LOCKED(session, accel__session_feed(session, ids, n));
}

accel_status accel_session_generate(accel_session *session, const accel_generate_params *params,
                                    accel_generations **out) {
  API_CALL(session, out);
  API_GENERATE_PARAMS(mine, params);
  API_LOCKED(session, accel__session_generate(session, &mine, out));
}

uint32_t accel_session_length(const accel_session *session) {
  return session ? session->tokens.n : 0;
}
const int32_t *accel_session_ids(const accel_session *session) {
  return session ? session->tokens.ids : NULL;
}

accel_status accel_session_truncate(accel_session *session, uint32_t tokens) {
  API_BEGIN();
  API_NEED(session);
  API_LOCKED(session, accel__session_truncate(session, tokens));
}

accel_status accel_session_fork(accel_session *session, accel_session **out) {
  API_CALL(session, out);
  API_LOCKED(session, accel__session_fork(session, out));
}

accel_status accel_session_save(accel_session *session, const char *path) {
  API_BEGIN();
  API_NEED(session);
  API_NEED(path);
  API_LOCKED(session, accel__session_save(session, path));
}

accel_status accel_session_load(accel_endpoint *endpoint, const char *path, accel_session **out) {
  API_CALL(endpoint, out);
  API_NEED(path);
  return accel__session_load(endpoint, path, out);
}
