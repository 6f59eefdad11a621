/* token_trie.c - building the trie from the sorted tokens. */
#include "text/grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

typedef struct item {
  uint64_t key; /* its first bytes as a number that sorts as they do */
  const char *text;
  uint32_t n;
  int32_t id;
  uint32_t group, chars;
} item;

static int by_bytes(const void *a, const void *b) {
  const item *x = a, *y = b;
  const bool plain = x->group < ACCEL__PLAIN_GROUPS;
  if (plain != (y->group < ACCEL__PLAIN_GROUPS)) return plain ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  const int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
  if (order) return order;
  return x->n != y->n ? (x->n < y->n ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static uint64_t first_bytes(const char *text, uint32_t n) {
  uint64_t key = 0;
  for (uint32_t i = 0; i < 8; i++) key = key << 8 | (i < n ? (uint8_t)text[i] : 0);
  return key;
}

static uint64_t kinds_of(const char *text, uint32_t n) {
  uint64_t kinds = 0;
  for (uint32_t i = 0; i < n; i++) kinds |= UINT64_C(1) << accel__character_kind((uint8_t)text[i]);
  return kinds;
}

static uint32_t classes_of(uint64_t kinds) {
  const uint32_t marks = 1u << (ACCEL__PLAIN_CLASSES - 1);
  return (uint32_t)(kinds & (marks - 1)) | (kinds >> ACCEL__KIND_MARKS ? marks : 0);
}

/* The set of classes of a plain token's characters, and how many these are; ACCEL__PLAIN_GROUPS: it
 * is not plain. */
static uint32_t group_of(const char *text, uint32_t n, uint32_t *chars) {
  *chars = 0;
  for (uint32_t i = 0; i < n; i++) *chars += ((uint8_t)text[i] & 0xC0) != 0x80;
  if (*chars > ACCEL__PLAIN_CHARS || !accel__utf8_valid(text, n)) return ACCEL__PLAIN_GROUPS;
  return classes_of(kinds_of(text, n));
}

static uint32_t common(const item *a, const item *b) {
  uint32_t n = 0;
  while (n < a->n && n < b->n && a->text[n] == b->text[n]) n++;
  return n;
}

/* Nodes of the items [from, to), behind those that are there. */
static void add_nodes(accel__token_trie *t, const item *items, uint32_t from, uint32_t to,
                      uint32_t *path) {
  uint32_t depth = 0;
  for (uint32_t i = from; i < to; i++) {
    const uint32_t same = i > from ? common(&items[i - 1], &items[i]) : 0;
    for (; depth > same; depth--) t->end[path[depth - 1]] = t->n;
    for (; depth < items[i].n; depth++) {
      t->byte[t->n] = (uint8_t)items[i].text[depth];
      t->depth[t->n] = (uint16_t)(depth + 1);
      t->token[t->n] = -1;
      path[depth] = t->n++;
    }
    t->same[items[i].id] = t->token[path[depth - 1]];
    t->token[path[depth - 1]] = items[i].id;
  }
  for (; depth > 0; depth--) t->end[path[depth - 1]] = t->n;
}

static bool begins_character(uint8_t b) { return (b & 0xC0) != 0x80; }

/* What comes before each node of plain tokens: kinds and number of characters. */
typedef struct preceding {
  uint64_t kinds;
  uint8_t chars;
} preceding;

static void find_before(const accel__token_trie *t, preceding *before) {
  preceding path[4 * ACCEL__PLAIN_CHARS + 1] = {{0, 0}}; /* with the byte of a depth */
  for (uint32_t i = 0; i < t->plain_end; i++) {
    const uint32_t depth = t->depth[i];
    before[i] = path[depth - 1];
    path[depth].kinds = before[i].kinds | UINT64_C(1) << accel__character_kind(t->byte[i]);
    path[depth].chars = (uint8_t)(before[i].chars + begins_character(t->byte[i]));
  }
}

static uint32_t kind_bucket(const accel__token_trie *t, const preceding *before, uint32_t node) {
  return accel__character_kind(t->byte[node]) * ACCEL__PLAIN_GROUPS +
         classes_of(before[node].kinds);
}

static void sort_by_kind(accel__token_trie *t, const preceding *before) {
  uint32_t *at = t->of_kind_at, total = 0;
  for (uint32_t i = 0; i < t->plain_end; i++)
    if (begins_character(t->byte[i])) at[kind_bucket(t, before, i) + 1]++;
  for (uint32_t k = 0; k <= ACCEL__KINDS * ACCEL__PLAIN_GROUPS; k++) at[k] = total += at[k];
  for (uint32_t i = t->plain_end; i-- > 0;) { /* ends become beginnings */
    if (!begins_character(t->byte[i])) continue;
    const uint32_t to = --at[kind_bucket(t, before, i) + 1];
    t->of_kind[to] = i;
    t->before[to] = before[i].kinds;
    t->chars[to] = before[i].chars;
  }
  for (uint32_t k = 0; k < ACCEL__KINDS * ACCEL__PLAIN_GROUPS; k++) at[k] = at[k + 1];
  at[ACCEL__KINDS * ACCEL__PLAIN_GROUPS] = total;
}

static accel_status list_kinds(accel__token_trie *t) {
  preceding *before = malloc((t->plain_end + 1u) * sizeof *before);
  uint32_t n = 1;
  for (uint32_t i = 0; i < t->plain_end; i++) n += begins_character(t->byte[i]);
  t->of_kind = malloc(n * sizeof *t->of_kind);
  t->before = malloc(n * sizeof *t->before);
  t->chars = malloc(n * sizeof *t->chars);
  const bool there = before && t->of_kind && t->before && t->chars;
  if (there) {
    find_before(t, before);
    sort_by_kind(t, before);
  }
  free(before);
  return there ? ACCEL_OK : accel__no_memory(n * (size_t)13);
}

/* items[n] of plain tokens, in any order: counted by group and characters, then placed. */
static void list_plain(accel__token_trie *t, const item *items, uint32_t n) {
  uint32_t count[ACCEL__PLAIN_GROUPS][ACCEL__PLAIN_CHARS + 1] = {{0}}, placed = 0;
  for (uint32_t i = 0; i < n; i++) count[items[i].group][items[i].chars]++;
  for (uint32_t group = 0; group < ACCEL__PLAIN_GROUPS; group++)
    for (uint32_t chars = 0; chars <= ACCEL__PLAIN_CHARS; chars++) {
      placed += count[group][chars];
      t->plain_upto[group][chars] = placed;
    }
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t group = items[i].group, chars = items[i].chars,
                   at = t->plain_upto[group][chars] - count[group][chars]--;
    t->plain[at] = items[i].id;
  }
}

/* `plain` has those with marks from here on. */
static uint32_t first_marked(const accel__token_trie *t) {
  return t->plain_upto[ACCEL__PLAIN_GROUPS / 2][0];
}

static accel_status list_marked(accel__token_trie *t, uint32_t n_plain) {
  const uint32_t first = first_marked(t), n = n_plain - first;
  t->marked = malloc((n + 1u) * sizeof *t->marked);
  if (!t->marked) return accel__no_memory(n * sizeof *t->marked);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t *offset = t->offset + t->plain[first + i];
    t->marked[i] = kinds_of(t->bytes + offset[0], offset[1] - offset[0]);
  }
  return ACCEL_OK;
}

/* The tokens of a set of classes without these kinds, of `chars` characters at most. */
static void set_group(const accel__token_trie *t, uint32_t group, uint64_t except, uint32_t chars,
                      uint64_t *bits) {
  const uint32_t from = t->plain_upto[group][0], to = t->plain_upto[group][chars],
                 marked = first_marked(t);
  for (uint32_t i = from; i < to; i++) {
    const uint64_t kept = i < marked || !(t->marked[i - marked] & except);
    bits[t->plain[i] / 64] |= kept << (t->plain[i] % 64);
  }
}

/* Bits where a set of them is copied in less time than they are set one by one. */
static accel_status add_groups(accel__token_trie *t) {
  for (uint32_t group = 1; group < ACCEL__PLAIN_GROUPS / 2; group++) {
    if (t->plain_upto[group][ACCEL__PLAIN_CHARS] - t->plain_upto[group][0] < t->words) continue;
    t->group[group] = calloc(t->words + 1, sizeof *t->group[group]);
    if (!t->group[group]) return accel__no_memory(t->words * sizeof *t->group[group]);
    set_group(t, group, 0, ACCEL__PLAIN_CHARS, t->group[group]);
  }
  return ACCEL_OK;
}

static uint32_t list_items(const accel__token_trie *t, item *items, size_t *total) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_tokens; i++) {
    const uint32_t bytes = t->offset[i + 1] - t->offset[i];
    const char *text = t->bytes + t->offset[i];
    if (!bytes || bytes > ACCEL__TOKEN_BYTES_MAX) continue;
    items[n] = (item){.key = first_bytes(text, bytes), .text = text, .n = bytes, .id = (int32_t)i};
    items[n].group = group_of(text, bytes, &items[n].chars);
    n++;
    *total += bytes;
  }
  return n;
}

static accel_status build(accel__token_trie *t, item *items) {
  size_t total = 0;
  uint32_t path[ACCEL__TOKEN_BYTES_MAX], plain = 0;
  const uint32_t n = list_items(t, items, &total);
  qsort(items, n, sizeof *items, by_bytes);
  for (uint32_t i = 0; i < n; i++) {
    t->deepest = items[i].n > t->deepest ? items[i].n : t->deepest;
    plain += items[i].group < ACCEL__PLAIN_GROUPS;
  }
  t->byte = malloc(total + 1);
  t->depth = malloc((total + 1) * sizeof *t->depth);
  t->end = malloc((total + 1) * sizeof *t->end);
  t->token = malloc((total + 1) * sizeof *t->token);
  if (!t->byte || !t->depth || !t->end || !t->token) return accel__no_memory(total * 11);
  add_nodes(t, items, 0, plain, path);
  t->plain_end = t->n;
  add_nodes(t, items, plain, n, path);
  ACCEL_TRY(list_kinds(t));
  list_plain(t, items, plain);
  ACCEL_TRY(list_marked(t, plain));
  ACCEL_TRY(add_groups(t));
  void *byte = realloc(t->byte, t->n + 1u), *depth = realloc(t->depth, (t->n + 1u) * 2u),
       *end = realloc(t->end, (t->n + 1u) * 4u), *token = realloc(t->token, (t->n + 1u) * 4u);
  if (byte) t->byte = byte;
  if (depth) t->depth = depth;
  if (end) t->end = end;
  if (token) t->token = token;
  return ACCEL_OK;
}

accel_status accel__token_trie_make(const char *bytes, const uint32_t *offset, uint32_t n_tokens,
                                    bool strips_space, accel__token_trie **out) {
  accel__token_trie *t = calloc(1, sizeof *t);
  item *items = malloc((n_tokens + 1u) * sizeof *items);
  const size_t words = (n_tokens + 63u) / 64u, text = offset[n_tokens];
  accel_status status = ACCEL_OK;
  *out = NULL;
  if (t) {
    t->n_tokens = n_tokens;
    t->words = words;
    t->strips_space = strips_space;
    t->offset = malloc((n_tokens + 1u) * sizeof *t->offset);
    t->bytes = malloc(text + 1);
    t->same = malloc((n_tokens + 1u) * sizeof *t->same);
    t->plain = malloc((n_tokens + 1u) * sizeof *t->plain);
    pthread_mutex_init(&t->lock, NULL);
  }
  if (!t || !items || !t->offset || !t->bytes || !t->same || !t->plain) {
    status = accel__no_memory((n_tokens + 1u) * sizeof *items);
  } else {
    memcpy(t->offset, offset, (n_tokens + 1u) * sizeof *offset);
    memcpy(t->bytes, bytes, text);
    for (uint32_t i = 0; i < n_tokens; i++) t->same[i] = -1;
    status = build(t, items);
  }
  free(items);
  if (status == ACCEL_OK)
    *out = t;
  else
    accel__token_trie_free(&t);
  return status;
}

void accel__token_trie_free(accel__token_trie **trie) {
  accel__token_trie *t = *trie;
  if (!t) return;
  free(t->byte);
  free(t->depth);
  free(t->end);
  free(t->token);
  free(t->same);
  free(t->offset);
  free(t->bytes);
  free(t->plain);
  free(t->marked);
  for (uint32_t i = 0; i < ACCEL__PLAIN_GROUPS / 2; i++) free(t->group[i]);
  free(t->before);
  free(t->chars);
  free(t->of_kind);
  for (uint32_t i = 0; i < ACCEL__PLAIN_SETS; i++) free(t->set[i].bits);
  pthread_mutex_destroy(&t->lock);
  free(t);
  *trie = NULL;
}

static void set_plain(const accel__token_trie *t, uint64_t except, uint32_t chars, uint64_t *bits) {
  memset(bits, 0, t->words * sizeof *bits);
  for (uint32_t group = 1; group < ACCEL__PLAIN_GROUPS; group++) {
    const bool whole = chars == ACCEL__PLAIN_CHARS && group < ACCEL__PLAIN_GROUPS / 2;
    const uint64_t *all = whole ? t->group[group] : NULL;
    if (accel__plain_kinds(group) & except) continue;
    for (size_t w = 0; all && w < t->words; w++) bits[w] |= all[w];
    if (!all) set_group(t, group, except, chars, bits);
  }
}

/* Of a set of tokens of up to `most` characters. */
static void clear_longer(const accel__token_trie *t, uint32_t chars, uint32_t most,
                         uint64_t *bits) {
  for (uint32_t group = 1; group < ACCEL__PLAIN_GROUPS; group++)
    for (uint32_t i = t->plain_upto[group][chars]; i < t->plain_upto[group][most]; i++)
      bits[t->plain[i] / 64] &= ~(UINT64_C(1) << (t->plain[i] % 64));
}

/* The set without these kinds that has the fewest tokens of more characters; NULL: there is none. */
static accel__plain_set *find_set(accel__token_trie *t, uint64_t except, uint32_t chars) {
  accel__plain_set *found = NULL;
  for (uint32_t i = 0; i < ACCEL__PLAIN_SETS; i++) {
    accel__plain_set *s = &t->set[i];
    if (s->bits && s->except == except && s->chars >= chars && (!found || s->chars < found->chars))
      found = s;
  }
  return found;
}

/* In the place of the one that was made first; NULL: no memory. */
static accel__plain_set *add_set(accel__token_trie *t, uint64_t except, uint32_t chars,
                                 const accel__plain_set *larger) {
  accel__plain_set *set = &t->set[t->n_sets++ % ACCEL__PLAIN_SETS];
  if (set == larger) set = &t->set[t->n_sets++ % ACCEL__PLAIN_SETS];
  if (!set->bits) set->bits = malloc((t->words + 1) * sizeof *set->bits);
  if (!set->bits) return NULL;
  set->except = except;
  set->chars = chars;
  if (larger) {
    memcpy(set->bits, larger->bits, t->words * sizeof *set->bits);
    clear_longer(t, chars, larger->chars, set->bits);
  } else {
    set_plain(t, except, chars, set->bits);
  }
  return set;
}

void accel__token_trie_plain(const accel__token_trie *trie, uint64_t except, uint32_t chars,
                             uint64_t *bits) {
  accel__token_trie *t = (accel__token_trie *)trie; /* only `set` changes */
  pthread_mutex_lock(&t->lock);
  const accel__plain_set *set = find_set(t, except, chars);
  if (!set) set = add_set(t, except, ACCEL__PLAIN_CHARS, NULL);
  if (set && set->chars > chars) set = add_set(t, except, chars, set);
  if (set)
    memcpy(bits, set->bits, t->words * sizeof *bits);
  else
    set_plain(t, except, chars, bits);
  pthread_mutex_unlock(&t->lock);
}

size_t accel__token_trie_bytes(const accel__token_trie *t) {
  return sizeof *t + t->n * (size_t)11 +
         t->of_kind_at[ACCEL__KINDS * ACCEL__PLAIN_GROUPS] * (size_t)13 + t->n_tokens * (size_t)20 +
         t->offset[t->n_tokens] + ACCEL__PLAIN_SETS * t->words * sizeof(uint64_t);
}
