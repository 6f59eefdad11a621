/* prefix_cache.c - the list of kept prompts: the longest common beginning, the one used longest
 * ago. */
#include "generate/prefix_cache.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = ACCEL__PIECE_TOKENS, MOST_PROMPTS = 256 };

/* Tokens that both begin with, at most `most`. */
static uint32_t common(const accel__prefix *p, accel__ids prompt, uint32_t most) {
  uint32_t n = 0;
  if (most > p->n) most = p->n;
  while (n < most && p->ids[n] == prompt.id[n]) n++;
  return n;
}

static void forget(accel__prefix_cache *c, uint32_t at) {
  accel__prefix *p = &c->kept[at];
  c->bytes -= p->bytes;
  c->model->drop(c->model->self, p->sequence);
  free(p->ids);
  *p = c->kept[--c->n];
}

static uint32_t oldest(const accel__prefix_cache *c) {
  uint32_t at = 0;
  for (uint32_t i = 1; i < c->n; i++)
    if (c->kept[i].used < c->kept[at].used) at = i;
  return at;
}

bool accel__prefix_cache_shrink(accel__prefix_cache *c, uint64_t bytes) {
  const uint32_t before = c->n;
  while (c->n && c->bytes > bytes) forget(c, oldest(c));
  return c->n < before;
}

void accel__prefix_cache_free(accel__prefix_cache *c) {
  while (c->n) forget(c, c->n - 1);
  free(c->kept);
  c->kept = NULL;
  c->capacity = 0;
}

accel_status accel__prefix_cache_share(accel__prefix_cache *c, accel__ids prompt, int32_t to,
                                       uint32_t *past_len, uint32_t *total_len) {
  const uint32_t most = prompt.n > PIECE ? prompt.n - PIECE : 0;
  accel__prefix *best = NULL;
  uint32_t n = PIECE - 1; /* fewer are not worth it */
  *past_len = 0;
  for (uint32_t i = 0; i < c->n; i++) {
    const uint32_t here = common(&c->kept[i], prompt, most);
    if (here > n) best = &c->kept[i], n = here;
  }
  if (!best) return ACCEL_OK;
  best->used = ++c->uses;
  if (c->model->copy(c->model->self, best->sequence, to) != ACCEL_OK) {
    accel__clear_error(); /* then it is read */
    return ACCEL_OK;
  }
  if (n < best->n) ACCEL_TRY(c->model->truncate(c->model->self, to, n));
  *past_len = n;
  *total_len = best->total_len;
  return ACCEL_OK;
}

static accel_status copy_new(const accel__stepper *model, int32_t from, int32_t *sequence) {
  *sequence = model->number(model->self);
  if (*sequence < 0) return accel__no_memory(0);
  const accel_status status = model->copy(model->self, from, *sequence);
  if (status != ACCEL_OK) model->drop(model->self, *sequence);
  return status;
}

static bool reserve(accel__prefix_cache *c) {
  if (c->n < c->capacity) return true;
  const uint32_t capacity = c->capacity * 2 + 8;
  accel__prefix *kept = realloc(c->kept, capacity * sizeof *kept);
  if (!kept) return false;
  c->kept = kept;
  c->capacity = capacity;
  return true;
}

/* Whether one that is kept begins with all of these; it counts as used. */
static bool has(accel__prefix_cache *c, accel__ids prompt) {
  for (uint32_t i = 0; i < c->n; i++)
    if (common(&c->kept[i], prompt, prompt.n) == prompt.n) return c->kept[i].used = ++c->uses, true;
  return false;
}

static uint64_t bytes_of(const accel__stepper *model, int32_t sequence, uint32_t n) {
  const accel__run_limits *l = &model->limits;
  const uint64_t bytes = model->bytes ? model->bytes(model->self, sequence) : 0,
                 counted = l->state_bytes ? accel__run_limits_need(l, n, 1) : 0;
  return bytes > counted ? bytes : counted;
}

void accel__prefix_cache_keep(accel__prefix_cache *c, accel__ids prompt, int32_t sequence,
                              uint32_t total_len, uint64_t available) {
  const uint64_t most = c->most < available ? c->most : available;
  if (prompt.n < 2 * PIECE || has(c, prompt) || !reserve(c)) return;
  accel__prefix p = {.n = prompt.n, .total_len = total_len, .used = ++c->uses};
  p.ids = malloc(p.n * sizeof *p.ids);
  if (!p.ids || copy_new(c->model, sequence, &p.sequence) != ACCEL_OK) {
    accel__clear_error(); /* then it is not kept */
    free(p.ids);
    return;
  }
  memcpy(p.ids, prompt.id, p.n * sizeof *p.ids);
  p.bytes = bytes_of(c->model, p.sequence, p.n);
  for (uint32_t i = c->n; i-- > 0;) /* what is part of it */
    if (common(&c->kept[i], prompt, prompt.n) == c->kept[i].n) forget(c, i);
  c->kept[c->n++] = p;
  c->bytes += p.bytes;
  if (c->n > MOST_PROMPTS) forget(c, oldest(c));
  accel__prefix_cache_shrink(c, most);
}
