/* matcher.c - places, stacks and sets of places: where a text stands, byte by byte. */
#include "text/grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { MOST_PLACES = 4096 /* at one time */, MOST_KEPT = 1 << 24 /* stacks, places of sets */ };

accel_status accel__matcher_grow(void *array, size_t *capacity, size_t need, size_t size) {
  void **at = array;
  if (need <= *capacity) return ACCEL_OK;
  const size_t more = need * 2 + 32;
  void *moved = realloc(*at, more * size);
  if (!moved) return accel__no_memory(more * size);
  *at = moved;
  *capacity = more;
  return ACCEL_OK;
}

static accel_status too_many(void) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_LIMIT, "the grammar can be read in more than %d ways at one place",
                  MOST_PLACES),
      "write it so that a text can be read in one way");
}

/* ---- numbers ---- */

static uint64_t hash_of(const void *bytes, size_t n) { return accel__hash(bytes, n, 7); }

static accel_status widen(accel__matcher *m, accel__numbers *t, bool of_sets) {
  const size_t capacity = t->capacity ? t->capacity * 2 : 256;
  uint32_t *slot = calloc(capacity, sizeof *slot);
  if (!slot) return accel__no_memory(capacity * sizeof *slot);
  for (size_t i = 0; i < t->capacity; i++) {
    if (!t->slot[i]) continue;
    const uint32_t number = t->slot[i] - 1;
    const accel__place_set *set = of_sets ? &m->set[number] : NULL;
    const uint64_t h = set ? hash_of(m->place + set->first, set->n * sizeof *m->place)
                           : hash_of(&m->node[number], sizeof *m->node);
    size_t at = h & (capacity - 1);
    while (slot[at]) at = (at + 1) & (capacity - 1);
    slot[at] = number + 1;
  }
  free(t->slot);
  t->slot = slot;
  t->capacity = capacity;
  return ACCEL_OK;
}

/* The stack with `state` on top of `below`. */
static uint32_t push(accel__matcher *m, uint32_t below, uint32_t state) {
  const accel__stack_node node = {below, state};
  if (m->status != ACCEL_OK) return 0;
  if (2 * m->nodes.n >= m->nodes.capacity) m->status = widen(m, &m->nodes, false);
  if (m->status != ACCEL_OK) return 0;
  size_t at = hash_of(&node, sizeof node) & (m->nodes.capacity - 1);
  for (; m->nodes.slot[at]; at = (at + 1) & (m->nodes.capacity - 1))
    if (!memcmp(&m->node[m->nodes.slot[at] - 1], &node, sizeof node)) return m->nodes.slot[at] - 1;
  m->status = m->n_nodes >= MOST_KEPT ? too_many()
                                      : accel__matcher_grow(&m->node, &m->nodes_capacity,
                                                            m->n_nodes + 1, sizeof *m->node);
  if (m->status != ACCEL_OK) return 0;
  m->node[m->n_nodes] = node;
  m->nodes.slot[at] = (uint32_t)++m->n_nodes;
  m->nodes.n++;
  return (uint32_t)m->n_nodes - 1;
}

/* ---- places ---- */

static void add_place(accel__matcher *m, accel__walk_buffer *b, size_t from, accel__place p) {
  for (size_t i = from; i < b->n; i++)
    if (b->at[i].stack == p.stack && b->at[i].state == p.state) return;
  if (b->n - from >= MOST_PLACES) m->status = too_many();
  if (m->status == ACCEL_OK && b->n == b->capacity)
    m->status = accel__matcher_grow(&b->at, &b->capacity, b->n + 1, sizeof *b->at);
  if (m->status == ACCEL_OK) b->at[b->n++] = p;
}

/* A place that something follows from; those that were there already are still in pending[]. */
static void add_pending(accel__matcher *m, size_t *n, accel__place p) {
  for (size_t i = 0; i < *n; i++)
    if (m->pending[i].stack == p.stack && m->pending[i].state == p.state) return;
  if (*n >= MOST_PLACES) m->status = too_many();
  if (m->status == ACCEL_OK)
    m->status = accel__matcher_grow(&m->pending, &m->pending_capacity, *n + 1, sizeof *m->pending);
  if (m->status == ACCEL_OK) m->pending[(*n)++] = p;
}

void accel__matcher_enter(accel__matcher *m, accel__walk_buffer *b, size_t from, uint32_t stack,
                          uint32_t state) {
  const accel__automaton *a = &m->grammar->automaton;
  size_t n = 0;
  if (a->state[state].plain) {
    add_place(m, b, from, (accel__place){stack, state});
    return;
  }
  add_pending(m, &n, (accel__place){stack, state});
  for (size_t i = 0; i < n && m->status == ACCEL_OK; i++) {
    const accel__place p = m->pending[i];
    const accel__state *s = &a->state[p.state];
    if (s->n_edges) add_place(m, b, from, p);
    for (uint32_t k = 0; k < s->n_calls && m->status == ACCEL_OK; k++) {
      const accel__state_call c = a->call[s->call + k];
      const accel__state *to = &a->state[c.to];
      /* nothing but the end comes behind the call: whoever called this rule is next */
      const bool last = to->ends && !to->n_edges && !to->n_calls;
      add_pending(m, &n, (accel__place){last ? p.stack : push(m, p.stack, c.to), c.start});
    }
    if (!s->ends) continue;
    if (p.stack == ACCEL__STACK_BOTTOM || s->last)
      b->ends = true;
    else if (p.stack == ACCEL__STACK_UNKNOWN)
      b->unknown = true;
    else
      add_pending(m, &n, (accel__place){m->node[p.stack].below, m->node[p.stack].state});
  }
}

static int by_place(const void *a, const void *b) {
  const accel__place *x = a, *y = b;
  if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
  return x->state < y->state ? -1 : x->state > y->state;
}

/* ---- sets ---- */

static accel_status add_set(accel__matcher *m, const accel__walk_buffer *b) {
  if (m->n_places + b->n >= MOST_KEPT) return too_many();
  ACCEL_TRY(accel__matcher_grow(&m->place, &m->places_capacity, m->n_places + b->n + 1,
                                sizeof *m->place));
  ACCEL_TRY(accel__matcher_grow(&m->set, &m->sets_capacity, m->n_sets + 1, sizeof *m->set));
  m->set[m->n_sets++] = (accel__place_set){(uint32_t)m->n_places, (uint32_t)b->n, b->ends};
  if (b->n) memcpy(m->place + m->n_places, b->at, b->n * sizeof *b->at);
  m->n_places += b->n;
  return ACCEL_OK;
}

/* The number of the set in `b`, which gets sorted. */
static accel_status number_of(accel__matcher *m, accel__walk_buffer *b, uint32_t *out) {
  if (b->n) qsort(b->at, b->n, sizeof *b->at, by_place);
  if (2 * m->sets.n >= m->sets.capacity) ACCEL_TRY(widen(m, &m->sets, true));
  size_t at = hash_of(b->at, b->n * sizeof *b->at) & (m->sets.capacity - 1);
  for (; m->sets.slot[at]; at = (at + 1) & (m->sets.capacity - 1)) {
    const accel__place_set *set = &m->set[ *out = m->sets.slot[at] - 1];
    if (set->n == b->n && set->ends == b->ends &&
        (!b->n || !memcmp(m->place + set->first, b->at, b->n * sizeof *b->at)))
      return ACCEL_OK;
  }
  ACCEL_TRY(add_set(m, b));
  m->sets.slot[at] = (uint32_t)m->n_sets;
  m->sets.n++;
  *out = (uint32_t)m->n_sets - 1;
  return ACCEL_OK;
}

accel_status accel__matcher_advance_bytes(accel__matcher *m, uint32_t state, const char *bytes,
                                          size_t n, uint32_t *next, bool *may_end) {
  const accel__automaton *a = &m->grammar->automaton;
  accel__walk_buffer *in = &m->walk, *out = &m->other;
  if (state == ACCEL__MATCH_FAILED || state >= m->n_sets) {
    *next = ACCEL__MATCH_FAILED;
    return ACCEL_OK;
  }
  const accel__place_set set = m->set[state];
  m->status = accel__matcher_grow(&in->at, &in->capacity, set.n + 1u, sizeof *in->at);
  if (m->status != ACCEL_OK) return m->status;
  if (set.n) memcpy(in->at, m->place + set.first, set.n * sizeof *in->at);
  in->n = set.n;
  in->ends = set.ends;
  for (size_t i = 0; i < n; i++) {
    out->n = 0;
    out->ends = out->unknown = false;
    for (size_t k = 0; k < in->n && m->status == ACCEL_OK; k++) {
      const uint32_t to = accel__automaton_step(a, in->at[k].state, (uint8_t)bytes[i]);
      if (to != ACCEL__NO_STATE) accel__matcher_enter(m, out, 0, in->at[k].stack, to);
    }
    accel__walk_buffer *kept = in;
    in = out;
    out = kept;
  }
  if (m->status != ACCEL_OK) return m->status;
  if (may_end) *may_end = in->ends;
  *next = ACCEL__MATCH_FAILED;
  if (!in->n && !in->ends) return ACCEL_OK;
  if (!n) {
    *next = state;
    return ACCEL_OK;
  }
  return number_of(m, in, next);
}

accel_status accel__matcher_advance(accel__matcher *m, uint32_t state, int32_t token,
                                    uint32_t *next) {
  const accel__token_trie *t = m->trie;
  *next = ACCEL__MATCH_FAILED;
  if (token < 0 || (uint32_t)token >= t->n_tokens) return ACCEL_OK;
  const char *bytes = t->bytes + t->offset[token];
  size_t n = t->offset[token + 1] - t->offset[token];
  if (state == ACCEL__MATCH_START && t->strips_space && n && *bytes == ' ') bytes++, n--;
  return n ? accel__matcher_advance_bytes(m, state, bytes, n, next, NULL) : ACCEL_OK;
}

/* ---- life ---- */

/* The first set is not among those that are found again: a text's beginning is a place of its
 * own. */
static accel_status begin(accel__matcher *m) {
  ACCEL_TRY(accel__matcher_grow(&m->node, &m->nodes_capacity, 2, sizeof *m->node));
  m->node[0] = m->node[1] = (accel__stack_node){0, ACCEL__NO_STATE};
  m->n_nodes = 2;
  accel__matcher_enter(m, &m->walk, 0, ACCEL__STACK_BOTTOM, m->grammar->automaton.start);
  ACCEL_TRY(m->status);
  return add_set(m, &m->walk);
}

static accel_status bind(accel__grammar *g, const accel__token_trie *trie) {
  pthread_mutex_lock(&g->lock);
  if (!g->trie) g->trie = trie;
  const bool same = g->trie == trie;
  pthread_mutex_unlock(&g->lock);
  return same ? ACCEL_OK
              : accel__fail(ACCEL_ERROR_ARGUMENT, "the grammar serves another vocabulary already");
}

accel_status accel__matcher_open(accel__grammar *grammar, const accel__token_trie *trie,
                                 accel__matcher **out) {
  accel__matcher *m = calloc(1, sizeof *m);
  accel_status status = ACCEL_OK;
  *out = NULL;
  if (!m) return accel__no_memory(sizeof *m);
  ACCEL_GOTO(bind(grammar, trie));
  m->trie = trie;
  m->grammar = accel__grammar_share(grammar);
  m->start = malloc((trie->deepest + 2u) * sizeof *m->start);
  for (int i = 0; i < ACCEL__MASKS_KEPT; i++)
    m->kept[i].bits = malloc((trie->words + 1) * sizeof(uint64_t));
  for (int i = 0; i < ACCEL__MASKS_KEPT; i++)
    if (!m->kept[i].bits) ACCEL_GOTO(accel__no_memory(trie->words * sizeof(uint64_t)));
  if (!m->start) ACCEL_GOTO(accel__no_memory((trie->deepest + 2u) * sizeof *m->start));
  status = begin(m);
done:
  if (status == ACCEL_OK)
    *out = m;
  else
    accel__matcher_close(&m);
  return status;
}

size_t accel__matcher_words(const accel__matcher *m) { return m->trie->words; }

void accel__matcher_close(accel__matcher **matcher) {
  accel__matcher *m = *matcher;
  if (!m) return;
  for (int i = 0; i < ACCEL__MASKS_KEPT; i++) free(m->kept[i].bits);
  free(m->node);
  free(m->nodes.slot);
  free(m->set);
  free(m->sets.slot);
  free(m->place);
  free(m->walk.at);
  free(m->other.at);
  free(m->pending);
  free(m->start);
  free(m->ended);
  accel__grammar_release(&m->grammar);
  free(m);
  *matcher = NULL;
}
