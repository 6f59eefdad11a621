/* token_mask.c - which tokens may follow: the trie walked once for each automaton state, and again
 * only behind the ends of rules.
 *
 * What may follow a place is, first, the tokens whose bytes its own rule reads; these are kept by
 * state, whatever the stack.  Where the rule ends inside of a token, the rest of it is read by who
 * called the rule: from the nodes behind, the walk goes on with the real stack.
 *
 * A state after which every character but those of some kinds (see token_trie.h) may come any number
 * of times, or a known number of times, as inside of a string or of a name, takes the tokens without
 * these kinds at once, and walks from where one of them comes first. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/matcher.h"

/* Of accel__plain_step.to and the like, beside states. */
#define NOT_KNOWN 0u
#define NOT_ALIKE UINT32_MAX
#define NOTHING   (UINT32_MAX - 1)

/* Kinds of which most tokens are: a-z, A-Z, all beyond ASCII. */
#define LETTERS (UINT64_C(3) | UINT64_C(1) << ACCEL__KIND_BEYOND)

static void set_bit(uint64_t *bits, uint32_t i) { bits[i / 64] |= UINT64_C(1) << (i % 64); }

/* ---- walking ---- */

/* The rule may have ended before `node`. */
static void add_ended_node(accel__matcher *m, uint32_t node) {
  if (m->status == ACCEL_OK)
    m->status =
        accel__matcher_grow(&m->ended, &m->ended_capacity, m->n_ended + 1, sizeof *m->ended);
  if (m->status == ACCEL_OK) m->ended[m->n_ended++] = node;
}

/* Of nodes [first, end), which lie `above` bytes deep, those that are read from the places
 * walk.at[0 .. start[0]): their tokens get bits.  Nodes that follow where the unknown stack was
 * reached are added to m->ended. */
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
    for (uint32_t next = i + 1; b->unknown && next < t->end[i]; next = t->end[next])
      add_ended_node(m, next);
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

/* Where the characters of each kind lead: to a state that calls nothing, nowhere, or NOT_ALIKE. */
static void find_kinds(const accel__automaton *a, uint32_t state, uint32_t to[ACCEL__KINDS]) {
  for (uint32_t k = 0; k < ACCEL__KINDS; k++) to[k] = NOT_KNOWN;
  for (uint32_t b = 0; b < 0x80; b++) {
    const uint32_t at = accel__automaton_step(a, state, (uint8_t)b),
                   next = at == ACCEL__NO_STATE ? NOTHING : at;
    uint32_t *kind = &to[accel__character_kind((uint8_t)b)];
    *kind = *kind == NOT_KNOWN || *kind == next ? next : NOT_ALIKE;
  }
  uint32_t beyond = step_sequence(a, state, 0);
  for (size_t k = 1; k < sizeof sequences / sizeof *sequences; k++)
    if (step_sequence(a, state, k) != beyond) beyond = NOT_ALIKE;
  to[ACCEL__KIND_BEYOND] = beyond;
  for (uint32_t k = 0; k < ACCEL__KINDS; k++)
    if (to[k] != NOTHING && to[k] != NOT_ALIKE && a->state[to[k]].n_calls) to[k] = NOT_ALIKE;
}

/* Where letters lead, and the kinds that lead elsewhere. */
static const accel__plain_step *plain_step(accel__grammar *g, uint32_t state) {
  static const uint32_t letters[] = {0, ACCEL__KIND_BEYOND, 1};
  accel__plain_step *s = &g->plain_step[state];
  uint32_t to[ACCEL__KINDS];
  if (s->to != NOT_KNOWN) return s;
  find_kinds(&g->automaton, state, to);
  s->to = NOTHING;
  for (size_t i = 0; i < 3 && s->to == NOTHING; i++)
    if (to[letters[i]] != NOT_ALIKE) s->to = to[letters[i]];
  for (uint32_t k = 0; k < ACCEL__KINDS; k++) s->except |= (uint64_t)(to[k] != s->to) << k;
  return s;
}

typedef struct plain_run {
  uint64_t except;                        /* all but these kinds */
  bool may_end;                           /* before the last of them */
  uint32_t n;                             /* so many characters may follow; 0: a walk has to tell */
  uint32_t state[ACCEL__PLAIN_CHARS + 1]; /* where so many lead */
} plain_run;

/* The rule may end in the state, and whoever called it read on. */
static bool may_end(const accel__automaton *a, uint32_t state) {
  return a->state[state].ends && !a->state[state].last;
}

static void find_run(accel__grammar *g, uint32_t state, plain_run *run) {
  run->except = 0;
  run->may_end = false;
  for (run->n = 0; run->n < ACCEL__PLAIN_CHARS; run->n++) {
    const accel__plain_step *s = plain_step(g, state);
    run->state[run->n] = state;
    run->except |= s->except;
    if (s->to == NOTHING || !(LETTERS & ~run->except)) break;
    state = s->to;
    run->may_end |= may_end(&g->automaton, state);
  }
  run->state[run->n] = state;
  /* where the rule may have ended before the last of them, its caller may read more of them */
  if (!(LETTERS & ~run->except) || (run->may_end && run->n < ACCEL__PLAIN_CHARS)) run->n = 0;
}

/* Of a kind that is one byte, or a few alike, whether it leads anywhere from the states of a run. */
static bool leads(const accel__automaton *a, const plain_run *run, uint32_t kind) {
  static const uint8_t bytes[ACCEL__KINDS - ACCEL__KIND_MARKS] =
      "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\t\n\r";
  const uint8_t b = kind < ACCEL__KIND_MARKS ? 0 : bytes[kind - ACCEL__KIND_MARKS];
  for (uint32_t i = 0; b && i <= run->n; i++)
    if ((!i || run->state[i] != run->state[i - 1]) &&
        accel__automaton_step(a, run->state[i], b) != ACCEL__NO_STATE)
      return true;
  return !b; /* of many bytes: not looked at */
}

/* The nodes at which characters of one kind begin, behind those of some classes. */
static void walk_bucket(accel__matcher *m, const plain_run *run, uint32_t bucket, uint64_t *bits) {
  const accel__automaton *a = &m->grammar->automaton;
  const accel__token_trie *t = m->trie;
  for (uint32_t i = t->of_kind_at[bucket]; i < t->of_kind_at[bucket + 1]; i++) {
    const uint32_t node = t->of_kind[i], chars = t->chars[i];
    if ((t->before[i] & run->except) || chars > run->n) continue;
    const uint32_t state = m->walk.at[0].state = run->state[chars];
    if (accel__automaton_step(a, state, t->byte[node]) != ACCEL__NO_STATE)
      walk(m, node, t->end[node], t->depth[node] - 1u, bits);
    if (chars && may_end(a, state)) add_ended_node(m, node);
  }
}

/* Of the plain tokens with one of the kinds run->except: from its first one on. */
static void walk_excepted(accel__matcher *m, const plain_run *run, uint64_t *bits) {
  const accel__automaton *a = &m->grammar->automaton;
  for (uint32_t kind = 0; kind < ACCEL__KINDS; kind++) {
    if (!(run->except >> kind & 1) || (!run->may_end && !leads(a, run, kind))) continue;
    for (uint32_t classes = 0; classes < ACCEL__PLAIN_GROUPS; classes++)
      if (!(accel__plain_kinds(classes) & run->except))
        walk_bucket(m, run, kind * ACCEL__PLAIN_GROUPS + classes, bits);
  }
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
  free(g->plain_step);
  g->mask = NULL;
  g->plain_step = NULL;
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

/* Walks the trie for `state`; `bits` is memory for a set of tokens.  `whole`: for every caller. */
static accel_status make_mask(accel__matcher *m, uint32_t state, bool whole, uint64_t *bits,
                              accel__state_mask **out) {
  accel__grammar *g = m->grammar;
  const accel__token_trie *t = m->trie;
  plain_run run;
  accel__state_mask *e = calloc(1, sizeof *e);
  if (!e) return accel__no_memory(sizeof *e);
  memset(bits, 0, t->words * sizeof *bits);
  e->state = state;
  m->n_ended = 0;
  find_run(g, state, &run);
  if (whole && run.may_end) run.n = 0;
  e->except = run.n && run.may_end ? run.except : 0;
  m->status = accel__matcher_grow(&m->walk.at, &m->walk.capacity, 1, sizeof *m->walk.at);
  if (m->status == ACCEL_OK) {
    m->walk.at[0] = (accel__place){ACCEL__STACK_UNKNOWN, state};
    m->start[0] = 1;
    if (run.n) accel__token_trie_plain(t, run.except, run.n, bits);
    if (run.n) walk_excepted(m, &run, bits);
    m->walk.at[0].state = state;
    walk(m, run.n ? t->plain_end : 0, t->n, 0, bits);
  }
  if (m->status == ACCEL_OK) m->status = store(m, bits, e);
  if (m->status == ACCEL_OK)
    *out = e;
  else
    drop_mask(g, e);
  return m->status;
}

/* The mask of a state, made when it is not there; the oldest go when all take too much. */
static accel_status mask_of(accel__matcher *m, uint32_t state, bool whole, uint64_t *bits,
                            accel__state_mask **out) {
  accel__grammar *g = m->grammar;
  const size_t n = g->automaton.n_states;
  if (!g->mask) g->mask = calloc(n, sizeof(accel__state_mask *));
  if (!g->plain_step) g->plain_step = calloc(n, sizeof *g->plain_step);
  if (!g->mask || !g->plain_step) return accel__no_memory(n * sizeof *g->mask);
  if (whole && g->mask[state] && g->mask[state]->except) drop_mask(g, g->mask[state]);
  accel__state_mask *e = g->mask[state];
  if (e) {
    unlink_mask(g, e);
  } else {
    ACCEL_TRY(make_mask(m, state, whole, bits, &e));
    g->mask[state] = e;
    g->mask_bytes += e->bytes;
  }
  link_newest(g, e);
  while (g->mask_bytes > ACCEL__MASK_BYTES_MAX && g->oldest != e) drop_mask(g, g->oldest);
  *out = e;
  return ACCEL_OK;
}

/* ---- masks of places ---- */

/* Makes walk.at[0 .. start[0]) the places of who called a rule, and marks the bytes they read. */
static void enter_caller(accel__matcher *m, uint32_t stack, bool first[256]) {
  const accel__stack_node caller = m->node[stack];
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
}

static bool reads_others(const bool first[256], uint64_t kinds) {
  for (uint32_t b = 0; b < 256; b++)
    if (first[b] && !(kinds >> accel__character_kind((uint8_t)b) & 1)) return true;
  return false;
}

/* The tokens of a place; those in which its rule ends are read on by who called it. */
static accel_status add_place_tokens(accel__matcher *m, accel__place p, uint64_t *bits,
                                     uint64_t *work) {
  const accel__token_trie *t = m->trie;
  accel__state_mask *e = NULL;
  bool first[256] = {false};
  ACCEL_TRY(mask_of(m, p.state, false, work, &e));
  const bool called = p.stack != ACCEL__STACK_BOTTOM && (e->n_ended || e->except);
  if (called) enter_caller(m, p.stack, first);
  if (called && e->except && reads_others(first, e->except)) {
    ACCEL_TRY(mask_of(m, p.state, true, work, &e));
    enter_caller(m, p.stack, first);
  }
  for (size_t w = 0; e->bits && w < t->words; w++) bits[w] |= e->bits[w];
  for (uint32_t i = 0; !e->bits && i < e->n_ids; i++) set_bit(bits, e->ids[i]);
  for (uint32_t k = 0; called && k < e->n_ended; k++) {
    const uint32_t node = e->ended[k];
    if (first[t->byte[node]]) walk(m, node, t->end[node], t->depth[node] - 1u, bits);
  }
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
