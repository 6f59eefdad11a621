/* token_mask.c - which tokens may follow: the trie walked once for each automaton state, and again
 * only behind the ends of rules.
 *
 * What may follow a place is, first, the tokens whose bytes its own rule reads; these are kept by
 * state, whatever the stack.  Where the rule ends inside of a token, the rest of it is read by who
 * called the rule: at these nodes the walk goes on with the real stack.
 *
 * A state after which every character of some classes (see token_trie.h) may come any number of
 * times, or a known number of times, as inside of a string, takes the tokens of these classes
 * without walking. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/matcher.h"

/* Of accel__grammar.class_next, beside states. */
#define NOT_KNOWN 0u
#define NOT_ALIKE UINT32_MAX
#define NOTHING   (UINT32_MAX - 1)

static void set_bit(uint64_t *bits, uint32_t i) { bits[i / 64] |= UINT64_C(1) << (i % 64); }

/* ---- walking ---- */

/* Of nodes [first, end), which lie `above` bytes deep, those that are read from the places
 * walk.at[0 .. start[0]): their tokens get bits.  Nodes where the unknown stack was reached and
 * more follows are added to m->ended. */
static void walk(accel__matcher *m, uint32_t first, uint32_t end, uint32_t above, uint64_t *bits) {
  const accel__automaton *a = &m->grammar->automaton;
  const accel__token_trie *t = m->trie;
  accel__walk_buffer *b = &m->walk;
  for (uint32_t i = first; i < end && m->status == ACCEL_OK;) {
    const uint32_t depth = t->depth[i] - above;
    const uint32_t from = depth > 1 ? m->start[depth - 2] : 0, to = m->start[depth - 1];
    b->n = to;
    b->ends = b->unknown = false;
    for (uint32_t k = from; k < to; k++) {
      const uint32_t state = accel__automaton_step(a, b->at[k].state, t->byte[i]);
      if (state != ACCEL__NO_STATE) accel__matcher_enter(m, b, to, b->at[k].stack, state);
    }
    m->start[depth] = (uint32_t)b->n;
    if (b->n == to && !b->ends && !b->unknown) {
      i = t->end[i];
      continue;
    }
    for (int32_t token = t->token[i]; token >= 0; token = t->same[token])
      set_bit(bits, (uint32_t)token);
    if (b->unknown && t->end[i] > i + 1 && m->status == ACCEL_OK)
      m->status =
          accel__matcher_grow(&m->ended, &m->ended_capacity, m->n_ended + 1, sizeof *m->ended);
    if (b->unknown && t->end[i] > i + 1 && m->status == ACCEL_OK) m->ended[m->n_ended++] = i;
    i = b->n == to ? t->end[i] : i + 1;
  }
}

/* ---- plain characters ---- */

/* Where all bytes from low to high lead: to one state, nowhere (NOTHING), or NOT_ALIKE. */
static uint32_t step_range(const accel__automaton *a, uint32_t state, uint8_t low, uint8_t high) {
  const accel__state *s = &a->state[state];
  for (uint32_t i = 0; i < s->n_edges; i++) {
    const accel__state_edge *e = &a->edge[s->edge + i];
    if (e->low <= low && e->high >= high) return e->to;
    if (e->low <= high && e->high >= low) return NOT_ALIKE;
  }
  return NOTHING;
}

/* The lead bytes of UTF-8 and what the second byte may be; `more` others are 80 to BF. */
static const struct {
  uint8_t lead, last, low, high, more;
} sequences[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                 {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                 {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

/* Where the characters of sequence `k` lead; on their way they must not end a rule. */
static uint32_t step_sequence(const accel__automaton *a, uint32_t state, size_t k) {
  uint32_t at = step_range(a, state, sequences[k].lead, sequences[k].last);
  if (at == NOTHING || at == NOT_ALIKE) return at;
  if (a->state[at].plain) at = step_range(a, at, sequences[k].low, sequences[k].high);
  for (int i = 0; i < sequences[k].more; i++) {
    if (at == NOTHING || at == NOT_ALIKE || !a->state[at].plain) return NOT_ALIKE;
    at = step_range(a, at, 0x80, 0xBF);
  }
  return at == NOTHING ? NOT_ALIKE : at;
}

/* Nothing follows from being there but bytes, and the end of the text. */
static bool reads_on(const accel__state *s) { return s->plain || (s->last && !s->n_calls); }

/* Where all characters of a class lead: to one state from which nothing else follows, nowhere, or
 * NOT_ALIKE. */
static uint32_t find_class_next(const accel__automaton *a, uint32_t state, uint32_t class) {
  static const uint8_t ranges[][2] = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {' ', ' '}},
                       marks[][2] = {{'!', '!'}, {'#', '/'}, {':', '@'},
                                     {'[', '['}, {']', '`'}, {'{', '~'}};
  uint32_t to;
  if (class < 4) {
    to = step_range(a, state, ranges[class][0], ranges[class][1]);
  } else if (class == 5) {
    to = step_range(a, state, marks[0][0], marks[0][1]);
    for (size_t k = 1; k < sizeof marks / sizeof *marks; k++)
      if (step_range(a, state, marks[k][0], marks[k][1]) != to) return NOT_ALIKE;
  } else {
    to = step_sequence(a, state, 0);
    for (size_t k = 1; k < sizeof sequences / sizeof *sequences; k++)
      if (step_sequence(a, state, k) != to) return NOT_ALIKE;
  }
  return to == NOTHING || to == NOT_ALIKE || reads_on(&a->state[to]) ? to : NOT_ALIKE;
}

static uint32_t class_next(accel__grammar *g, uint32_t state, uint32_t class) {
  uint32_t *known = &g->class_next[state * (size_t)ACCEL__PLAIN_CLASSES + class];
  if (*known == NOT_KNOWN) *known = find_class_next(&g->automaton, state, class);
  return *known;
}

/* The classes of characters that lead to one state. */
static uint32_t alike(accel__grammar *g, uint32_t state) {
  uint32_t classes = 0, next = NOTHING;
  for (uint32_t c = 0; c < ACCEL__PLAIN_CLASSES; c++) {
    const uint32_t to = class_next(g, state, c);
    if (to == NOTHING || to == NOT_ALIKE || (classes && to != next)) continue;
    next = to;
    classes |= 1u << c;
  }
  return classes;
}

/* Where all characters of `classes` lead; NOTHING, or NOT_ALIKE. */
static uint32_t classes_next(accel__grammar *g, uint32_t state, uint32_t classes) {
  uint32_t next = NOT_ALIKE;
  bool first = true;
  for (uint32_t c = 0; c < ACCEL__PLAIN_CLASSES; c++) {
    if (!(classes >> c & 1)) continue;
    const uint32_t to = class_next(g, state, c);
    if (!first && to != next) return NOT_ALIKE;
    next = to;
    first = false;
  }
  return next;
}

/* How many characters of *classes may follow, all of them alike; 0: a walk has to tell. */
static uint32_t plain_run(accel__grammar *g, uint32_t state, uint32_t *classes) {
  *classes = alike(g, state);
  if (!*classes) return 0;
  for (uint32_t n = 0; n < ACCEL__PLAIN_CHARS; n++) {
    const uint32_t next = classes_next(g, state, *classes);
    if (next == NOT_ALIKE) return 0;
    if (next == NOTHING) return n;
    if (next == state) return ACCEL__PLAIN_CHARS;
    state = next;
  }
  return ACCEL__PLAIN_CHARS;
}

/* ---- masks of states ---- */

static void unlink_mask(accel__grammar *g, accel__state_mask *e) {
  *(e->newer ? &e->newer->older : &g->newest) = e->older;
  *(e->older ? &e->older->newer : &g->oldest) = e->newer;
  e->newer = e->older = NULL;
}

static void link_newest(accel__grammar *g, accel__state_mask *e) {
  e->older = g->newest;
  *(g->newest ? &g->newest->newer : &g->oldest) = e;
  g->newest = e;
}

static void drop_mask(accel__grammar *g, accel__state_mask *e) {
  if (!e) return;
  free(e->bits);
  free(e->ids);
  free(e->ended);
  if (g->mask && g->mask[e->state] == e) {
    unlink_mask(g, e);
    g->mask[e->state] = NULL;
    g->mask_bytes -= e->bytes;
  }
  free(e);
}

void accel__masks_free(accel__grammar *g) {
  while (g->oldest) drop_mask(g, g->oldest);
  free(g->mask);
  free(g->class_next);
  g->mask = NULL;
  g->class_next = NULL;
}

/* Keeps the tokens of bits[words] as a list where they are few. */
static accel_status store(const accel__matcher *m, const uint64_t *bits, accel__state_mask *e) {
  const size_t words = m->trie->words;
  size_t n = 0;
  for (size_t w = 0; w < words; w++) n += (size_t)__builtin_popcountll(bits[w]);
  const bool few = n * sizeof *e->ids < words * sizeof *bits / 2;
  const size_t bytes = few ? (n + 1) * sizeof *e->ids : words * sizeof *bits,
               ended = (m->n_ended + 1) * sizeof *e->ended;
  void *tokens = malloc(bytes);
  e->ended = malloc(ended);
  *(few ? (void **)&e->ids : (void **)&e->bits) = tokens;
  if (!tokens || !e->ended) return accel__no_memory(bytes);
  if (m->n_ended) memcpy(e->ended, m->ended, m->n_ended * sizeof *e->ended);
  e->n_ended = (uint32_t)m->n_ended;
  e->bytes = sizeof *e + bytes + ended;
  if (!few) memcpy(e->bits, bits, bytes);
  for (size_t w = 0; few && w < words; w++)
    for (uint64_t left = bits[w]; left; left &= left - 1)
      e->ids[e->n_ids++] = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(left));
  return ACCEL_OK;
}

/* Walks the trie for `state`; `bits` is memory for a set of tokens. */
static accel_status make_mask(accel__matcher *m, uint32_t state, uint64_t *bits,
                              accel__state_mask **out) {
  accel__grammar *g = m->grammar;
  const accel__token_trie *t = m->trie;
  uint32_t classes;
  const uint32_t run = plain_run(g, state, &classes);
  accel__state_mask *e = calloc(1, sizeof *e);
  if (!e) return accel__no_memory(sizeof *e);
  memset(bits, 0, t->words * sizeof *bits);
  e->state = state;
  m->n_ended = 0;
  m->status = accel__matcher_grow(&m->walk.at, &m->walk.capacity, 1, sizeof *m->walk.at);
  if (m->status == ACCEL_OK) {
    m->walk.at[0] = (accel__place){ACCEL__STACK_UNKNOWN, state};
    m->start[0] = 1;
    if (run) accel__token_trie_plain(t, classes, run, bits);
    for (uint32_t group = 1; group <= ACCEL__PLAIN_GROUPS; group++)
      if (!run || group == ACCEL__PLAIN_GROUPS || (group & ~classes))
        walk(m, t->group[group], t->group[group + 1], 0, bits);
  }
  if (m->status == ACCEL_OK) m->status = store(m, bits, e);
  if (m->status == ACCEL_OK)
    *out = e;
  else
    drop_mask(g, e);
  return m->status;
}

/* The mask of a state, made when it is not there; the oldest go when all take too much. */
static accel_status mask_of(accel__matcher *m, uint32_t state, uint64_t *bits,
                            accel__state_mask **out) {
  accel__grammar *g = m->grammar;
  const size_t n = g->automaton.n_states;
  if (!g->mask) g->mask = calloc(n, sizeof(accel__state_mask *));
  if (!g->class_next) g->class_next = calloc(n * ACCEL__PLAIN_CLASSES, sizeof *g->class_next);
  if (!g->mask || !g->class_next) return accel__no_memory(n * sizeof *g->mask);
  accel__state_mask *e = g->mask[state];
  if (e) {
    unlink_mask(g, e);
  } else {
    ACCEL_TRY(make_mask(m, state, bits, &e));
    g->mask[state] = e;
    g->mask_bytes += e->bytes;
  }
  link_newest(g, e);
  while (g->mask_bytes > ACCEL__MASK_BYTES_MAX && g->oldest != e) drop_mask(g, g->oldest);
  *out = e;
  return ACCEL_OK;
}

/* ---- masks of places ---- */

/* The tokens in which the rule of `place` ends: the rest is read by who called it. */
static void add_ended(accel__matcher *m, uint32_t stack, const accel__state_mask *e,
                      uint64_t *bits) {
  const accel__token_trie *t = m->trie;
  const accel__stack_node caller = m->node[stack];
  bool first[256] = {false};
  m->walk.n = 0;
  accel__matcher_enter(m, &m->walk, 0, caller.below, caller.state);
  m->start[0] = (uint32_t)m->walk.n;
  for (uint32_t k = 0; k < m->start[0]; k++) {
    const accel__state *s = &m->grammar->automaton.state[m->walk.at[k].state];
    for (uint32_t i = 0; i < s->n_edges; i++) {
      const accel__state_edge *edge = &m->grammar->automaton.edge[s->edge + i];
      memset(first + edge->low, true, (size_t)edge->high - edge->low + 1);
    }
  }
  for (uint32_t k = 0; k < e->n_ended; k++) {
    const uint32_t node = e->ended[k];
    for (uint32_t i = node + 1; i < t->end[node]; i = t->end[i])
      if (first[t->byte[i]]) walk(m, i, t->end[i], t->depth[node], bits);
  }
}

static accel_status add_place_tokens(accel__matcher *m, accel__place p, uint64_t *bits,
                                     uint64_t *work) {
  accel__state_mask *e = NULL;
  ACCEL_TRY(mask_of(m, p.state, work, &e));
  for (size_t w = 0; e->bits && w < m->trie->words; w++) bits[w] |= e->bits[w];
  for (uint32_t i = 0; !e->bits && i < e->n_ids; i++) set_bit(bits, e->ids[i]);
  if (p.stack != ACCEL__STACK_BOTTOM && e->n_ended) add_ended(m, p.stack, e, bits);
  return m->status;
}

/* The beginning of a text that loses its first space: tokens with one are read without it. */
static accel_status add_first_tokens(accel__matcher *m, const accel__place_set *set,
                                     uint64_t *bits) {
  const accel__token_trie *t = m->trie;
  ACCEL_TRY(accel__matcher_grow(&m->walk.at, &m->walk.capacity, set->n + 1u, sizeof *m->walk.at));
  if (set->n) memcpy(m->walk.at, m->place + set->first, set->n * sizeof *m->walk.at);
  m->start[0] = set->n;
  for (uint32_t i = 0; i < t->n; i = t->end[i]) {
    const bool space = t->byte[i] == ' ';
    walk(m, space ? i + 1 : i, t->end[i], space ? 1 : 0, bits);
  }
  return m->status;
}

accel_status accel__matcher_mask(accel__matcher *m, uint32_t state, const uint64_t **allowed,
                                 bool *may_end) {
  const size_t words = m->trie->words;
  if (state >= m->n_sets) return accel__fail(ACCEL_ERROR_ARGUMENT, "no text of the grammar");
  const accel__place_set set = m->set[state];
  *may_end = set.ends;
  for (int i = 0; i < ACCEL__MASKS_KEPT; i++)
    if (m->kept[i].is_set && m->kept[i].state == state) {
      *allowed = m->kept[i].bits;
      return ACCEL_OK;
    }
  accel__kept_mask *k = &m->kept[m->next_kept++ % ACCEL__MASKS_KEPT],
                   *work = &m->kept[m->next_kept % ACCEL__MASKS_KEPT];
  k->is_set = work->is_set = false;
  memset(k->bits, 0, words * sizeof *k->bits);
  m->status = ACCEL_OK;
  if (state == ACCEL__MATCH_START && m->trie->strips_space) {
    ACCEL_TRY(add_first_tokens(m, &set, k->bits));
  } else {
    accel_status status = ACCEL_OK;
    pthread_mutex_lock(&m->grammar->lock);
    for (uint32_t i = 0; i < set.n && status == ACCEL_OK; i++)
      status = add_place_tokens(m, m->place[set.first + i], k->bits, work->bits);
    pthread_mutex_unlock(&m->grammar->lock);
    ACCEL_TRY(status);
  }
  *k = (accel__kept_mask){state, true, k->bits};
  *allowed = k->bits;
  return ACCEL_OK;
}
