/* kit_sequence.c - sequences of a session: found, made, dropped, cut, copied. */
#include "kit/kit_sequence.h"

#include <stdlib.h>

kit_sequence *kit_sequence_find(const accel_plugin_session *s, int32_t id) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->sequence[i]->id == id) return s->sequence[i];
  return NULL;
}

int32_t kit_sequence_new(accel_plugin_session *s, int32_t id, kit_sequence **out,
                         accel_plugin_error *error) {
  if (s->e->max_sequences && s->n >= s->e->max_sequences)
    return kit_fail(error, ACCEL_PLUGIN_E_LIMIT, -1, "the session holds %u sequences, its most",
                    s->n);
  if (s->n == s->capacity) {
    kit_sequence **list = realloc(s->sequence, (s->capacity * 2 + 8) * sizeof *list);
    if (!list) return kit_no_memory(error, (s->capacity * 2 + 8) * sizeof *list);
    s->sequence = list;
    s->capacity = s->capacity * 2 + 8;
  }
  kit_sequence *q = calloc(1, sizeof *q);
  if (q) q->slot = calloc(s->e->program->n_state + 1, sizeof *q->slot);
  if (!q || !q->slot) {
    free(q);
    return kit_no_memory(error, sizeof *q);
  }
  q->id = id;
  s->sequence[s->n++] = q;
  *out = q;
  return ACCEL_PLUGIN_OK;
}

void kit_sequence_drop(accel_plugin_session *s, kit_sequence *q) {
  if (!q) return;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->sequence[i] == q) s->sequence[i] = s->sequence[--s->n];
  for (uint32_t i = 0; i < s->e->program->n_state; i++) kit_slot_clear(s->e, &q->slot[i]);
  free(q->slot);
  free(q);
}

int32_t kit_sequence_length(const accel_plugin_endpoint *e, const kit_sequence *q) {
  int32_t own = 0, cross = 0;
  bool has_own = false;
  for (uint32_t i = 0; i < e->program->n_state; i++) {
    int32_t n = q->slot[i].length;
    if (e->program->state[i].kind == ACCEL_PLUGIN_STATE_CROSS_KV)
      cross = n > cross ? n : cross;
    else
      own = n > own ? n : own, has_own = true;
  }
  return has_own ? own : cross;
}

int32_t kit_sequence_truncate(accel_plugin_session *s, kit_sequence *q, int64_t keep,
                              accel_plugin_error *error) {
  accel_plugin_endpoint *e = s->e;
  if (keep < 0)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "truncate to %lld tokens", (long long)keep);
  for (uint32_t i = 0; i < e->program->n_state; i++)
    if (!kit_state_is_rows(&e->program->state[i]) && keep > 0 && keep < q->slot[i].length)
      return kit_fail(
          error, ACCEL_PLUGIN_E_UNSUPPORTED, -1,
          "state '%s' cannot go back to %lld tokens: keep a copy of the sequence instead",
          e->program->state[i].name, (long long)keep);
  for (uint32_t i = 0; i < e->program->n_state; i++) {
    kit_slot *t = &q->slot[i];
    if (e->program->state[i].kind == ACCEL_PLUGIN_STATE_CROSS_KV || keep >= t->length) continue;
    kit_slot_truncate(e, t, (int32_t)keep);
  }
  return ACCEL_PLUGIN_OK;
}

int32_t kit_sequence_copy(accel_plugin_session *s, const kit_sequence *from, int64_t to,
                          accel_plugin_error *error) {
  if (to < INT32_MIN || to > INT32_MAX)
    return kit_fail(error, ACCEL_PLUGIN_E_ARGUMENT, -1, "%lld is no sequence id", (long long)to);
  kit_sequence *old = kit_sequence_find(s, (int32_t)to), *q = NULL;
  if (old == from) return ACCEL_PLUGIN_OK;
  if (old) { /* build beside it, then swap the slots */
    kit_sequence beside = {.slot = calloc(s->e->program->n_state + 1, sizeof *beside.slot)};
    if (!beside.slot) return kit_no_memory(error, sizeof *beside.slot);
    int32_t rc = ACCEL_PLUGIN_OK;
    for (uint32_t i = 0; !rc && i < s->e->program->n_state; i++)
      rc = kit_slot_copy(s->e, &from->slot[i], &beside.slot[i], error);
    kit_slot *gone = rc ? beside.slot : old->slot;
    if (!rc) old->slot = beside.slot;
    for (uint32_t i = 0; i < s->e->program->n_state; i++) kit_slot_clear(s->e, &gone[i]);
    free(gone);
    return rc;
  }
  int32_t rc = kit_sequence_new(s, (int32_t)to, &q, error);
  for (uint32_t i = 0; !rc && i < s->e->program->n_state; i++)
    rc = kit_slot_copy(s->e, &from->slot[i], &q->slot[i], error);
  if (rc && q) kit_sequence_drop(s, q);
  return rc;
}
