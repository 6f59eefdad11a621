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
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
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

/* The set of classes of a plain token's characters, and how many these are; ACCEL__PLAIN_GROUPS: it
 * is not plain. */
static uint32_t group_of(const char *text, uint32_t n, uint32_t *chars) {
  uint32_t classes = 0;
  *chars = 0;
  if (!accel__utf8_valid(text, n)) return ACCEL__PLAIN_GROUPS;
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t b = (uint8_t)text[i];
    *chars += (b & 0xC0) != 0x80;
    if (b >= 'a' && b <= 'z')
      classes |= 1;
    else if (b >= 'A' && b <= 'Z')
      classes |= 2;
    else if (b >= '0' && b <= '9')
      classes |= 4;
    else if (b == ' ')
      classes |= 8;
    else if (b >= 0x80)
      classes |= 16;
    else if (b > ' ' && b < 0x7F && b != '"' && b != '\\')
      classes |= 32;
    else
      return ACCEL__PLAIN_GROUPS;
  }
  return *chars <= ACCEL__PLAIN_CHARS ? classes : ACCEL__PLAIN_GROUPS;
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

/* items[n] are sorted by their groups. */
static void list_plain(accel__token_trie *t, const item *items, uint32_t n) {
  uint32_t at = 0, placed = 0;
  for (uint32_t group = 0; group < ACCEL__PLAIN_GROUPS; group++) {
    uint32_t end = at;
    while (end < n && items[end].group == group) end++;
    for (uint32_t chars = 0; chars <= ACCEL__PLAIN_CHARS; chars++) {
      for (uint32_t i = at; i < end; i++)
        if (items[i].chars == chars) t->plain[placed++] = items[i].id;
      t->plain_upto[group][chars] = placed;
    }
    at = end;
  }
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
  uint32_t path[ACCEL__TOKEN_BYTES_MAX], at = 0;
  const uint32_t n = list_items(t, items, &total);
  qsort(items, n, sizeof *items, by_bytes);
  for (uint32_t i = 0; i < n; i++) t->deepest = items[i].n > t->deepest ? items[i].n : t->deepest;
  t->byte = malloc(total + 1);
  t->depth = malloc((total + 1) * sizeof *t->depth);
  t->end = malloc((total + 1) * sizeof *t->end);
  t->token = malloc((total + 1) * sizeof *t->token);
  if (!t->byte || !t->depth || !t->end || !t->token) return accel__no_memory(total * 11);
  for (uint32_t group = 0; group <= ACCEL__PLAIN_GROUPS; group++) {
    uint32_t end = at;
    while (end < n && items[end].group == group) end++;
    t->group[group] = t->n;
    add_nodes(t, items, at, end, path);
    at = end;
  }
  t->group[ACCEL__PLAIN_GROUPS + 1] = t->n;
  list_plain(t, items, n);
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
  for (uint32_t i = 0; i < ACCEL__PLAIN_SETS; i++) free(t->set[i].bits);
  pthread_mutex_destroy(&t->lock);
  free(t);
  *trie = NULL;
}

static void set_plain(const accel__token_trie *t, uint32_t classes, uint32_t chars,
                      uint64_t *bits) {
  memset(bits, 0, t->words * sizeof *bits);
  for (uint32_t group = 1; group < ACCEL__PLAIN_GROUPS; group++) {
    if (group & ~classes) continue;
    for (uint32_t i = t->plain_upto[group][0]; i < t->plain_upto[group][chars]; i++)
      bits[t->plain[i] / 64] |= UINT64_C(1) << (t->plain[i] % 64);
  }
}

static void clear_longer(const accel__token_trie *t, uint32_t classes, uint32_t chars,
                         uint64_t *bits) {
  for (uint32_t group = 1; group < ACCEL__PLAIN_GROUPS; group++) {
    if (group & ~classes) continue;
    for (uint32_t i = t->plain_upto[group][chars]; i < t->plain_upto[group][ACCEL__PLAIN_CHARS];
         i++)
      bits[t->plain[i] / 64] &= ~(UINT64_C(1) << (t->plain[i] % 64));
  }
}

static accel__plain_set *find_set(accel__token_trie *t, uint32_t classes, uint32_t chars) {
  for (uint32_t i = 0; i < ACCEL__PLAIN_SETS; i++)
    if (t->set[i].bits && t->set[i].classes == classes && t->set[i].chars == chars)
      return &t->set[i];
  return NULL;
}

/* In the place of the one that was made first; NULL: no memory.  `whole`: the set of all tokens of
 * the classes, of which few are longer. */
static accel__plain_set *add_set(accel__token_trie *t, uint32_t classes, uint32_t chars,
                                 const accel__plain_set *whole) {
  accel__plain_set *set = &t->set[t->n_sets++ % ACCEL__PLAIN_SETS];
  if (set == whole) set = &t->set[t->n_sets++ % ACCEL__PLAIN_SETS];
  if (!set->bits) set->bits = malloc((t->words + 1) * sizeof *set->bits);
  if (!set->bits) return NULL;
  set->classes = classes;
  set->chars = chars;
  if (whole) {
    memcpy(set->bits, whole->bits, t->words * sizeof *set->bits);
    clear_longer(t, classes, chars, set->bits);
  } else {
    set_plain(t, classes, chars, set->bits);
  }
  return set;
}

void accel__token_trie_plain(const accel__token_trie *trie, uint32_t classes, uint32_t chars,
                             uint64_t *bits) {
  accel__token_trie *t = (accel__token_trie *)trie; /* only `set` changes */
  pthread_mutex_lock(&t->lock);
  const accel__plain_set *set = find_set(t, classes, chars), *whole = NULL;
  if (!set && chars >= 4 && chars < ACCEL__PLAIN_CHARS) {
    whole = find_set(t, classes, ACCEL__PLAIN_CHARS);
    if (!whole) whole = add_set(t, classes, ACCEL__PLAIN_CHARS, NULL);
  }
  if (!set) set = add_set(t, classes, chars, whole);
  if (set)
    memcpy(bits, set->bits, t->words * sizeof *bits);
  else
    set_plain(t, classes, chars, bits);
  pthread_mutex_unlock(&t->lock);
}

size_t accel__token_trie_bytes(const accel__token_trie *t) {
  return sizeof *t + t->n * (size_t)11 + t->n_tokens * (size_t)12 + t->offset[t->n_tokens] +
         ACCEL__PLAIN_SETS * t->words * sizeof(uint64_t);
}
