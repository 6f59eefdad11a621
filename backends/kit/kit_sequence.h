/* kit_sequence.h - sessions as their own files see them: sequences by id, each with one slot per
 * state of the program. */
#ifndef ACCEL_KIT_SEQUENCE_H
#define ACCEL_KIT_SEQUENCE_H

#include "kit/kit_pages.h"

typedef struct kit_sequence {
  int32_t id;
  bool fresh;     /* made by the run under way: a failure drops it */
  kit_slot *slot; /* [n_state] */
} kit_sequence;

/* A session's part in the run under way; its memory is used again by the next run. */
struct kit_run_state {
  accel_plugin_session *session;
  const accel_plugin_host *host;
  kit_sequence **item; /* [n] by item of the run */
  uint32_t n, capacity;
};

struct accel_plugin_session {
  accel_plugin_endpoint *e;
  atomic_flag busy; /* a call is under way: a second one is refused */
  kit_sequence **sequence;
  uint32_t n, capacity;
  kit_run_state run;
};

kit_sequence *kit_sequence_find(const accel_plugin_session *s,
                                int32_t id); /* NULL: there is none */
/* E_LIMIT when the session holds as many as it may. */
int32_t kit_sequence_new(accel_plugin_session *s, int32_t id, kit_sequence **out,
                         accel_plugin_error *error);
void kit_sequence_drop(accel_plugin_session *s, kit_sequence *q); /* NULL: nothing */
/* Tokens held: the longest of the sequence's own states; cross attention counts only where there is
 * nothing else. */
int32_t kit_sequence_length(const accel_plugin_endpoint *e, const kit_sequence *q);
/* Keeps the first `keep` tokens.  E_UNSUPPORTED where a state is a vector and cannot go back. */
int32_t kit_sequence_truncate(accel_plugin_session *s, kit_sequence *q, int64_t keep,
                              accel_plugin_error *error);
/* Makes sequence `to` a copy; on failure it is what it was. */
int32_t kit_sequence_copy(accel_plugin_session *s, const kit_sequence *from, int64_t to,
                          accel_plugin_error *error);

#endif
