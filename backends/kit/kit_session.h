/* kit_session.h - what a run does with its session. */
#ifndef ACCEL_KIT_SESSION_H
#define ACCEL_KIT_SESSION_H

#include "kit/kit.h"

/* Starts a run on `session`: sequences that are not there are made, and the session is busy until
 * kit_session_end, which follows every success exactly once. */
int32_t kit_session_begin(accel_plugin_session *session, const int32_t *sequence, uint32_t n,
                          const accel_plugin_host *host, kit_run_state **out,
                          accel_plugin_error *error);
void kit_session_end(kit_run_state *state, bool commit); /* NULL: nothing */
bool kit_session_of(const accel_plugin_session *session, const accel_plugin_endpoint *endpoint);

#endif
