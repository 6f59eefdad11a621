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
  uint32_t chars; /* of a plain token; 0: it is not plain */
} item;

static int by_bytes(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (!x->chars != !y->chars) return x->chars ? -1 : 1;
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

/* Characters of a plain token; 0: it is none. */
static uint32_t plain_chars(const char *text, uint32_t n) {
  uint32_t chars = 0;
  if (!accel__utf8_valid(text, n)) return 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t b = (uint8_t)text[i];
    if (b < 0x20 || b == '"' || b == '\\' || b == 0x7F) return 0;
    chars += (b & 0xC0) != 0x80;
  }
  return chars <= ACCEL__PLAIN_CHARS ? chars : 0;
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

static void set_plain(accel__token_trie *t, const item *items, uint32_t n) {
  for (uint32_t i = 0; i < n && items[i].chars; i++)
    for (uint32_t k = items[i].chars; k <= ACCEL__PLAIN_CHARS; k++)
      t->plain[k * t->words + (uint32_t)items[i].id / 64] |= UINT64_C(1) << (items[i].id % 64);
}

static uint32_t list_items(const accel__token_trie *t, item *items, size_t *total) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_tokens; i++) {
    const uint32_t bytes = t->offset[i + 1] - t->offset[i];
    const char *text = t->bytes + t->offset[i];
    if (!bytes || bytes > ACCEL__TOKEN_BYTES_MAX) continue;
    items[n++] =
        (item){first_bytes(text, bytes), text, bytes, (int32_t)i, plain_chars(text, bytes)};
    *total += bytes;
  }
  return n;
}

static accel_status build(accel__token_trie *t, item *items) {
  size_t total = 0;
  uint32_t path[ACCEL__TOKEN_BYTES_MAX], plain = 0;
  const uint32_t n = list_items(t, items, &total);
  qsort(items, n, sizeof *items, by_bytes);
  while (plain < n && items[plain].chars) plain++;
  for (uint32_t i = 0; i < n; i++) t->deepest = items[i].n > t->deepest ? items[i].n : t->deepest;
  t->byte = malloc(total + 1);
  t->depth = malloc((total + 1) * sizeof *t->depth);
  t->end = malloc((total + 1) * sizeof *t->end);
  t->token = malloc((total + 1) * sizeof *t->token);
  if (!t->byte || !t->depth || !t->end || !t->token) return accel__no_memory(total * 11);
  add_nodes(t, items, 0, plain, path);
  t->n_plain = t->n;
  add_nodes(t, items, plain, n, path);
  set_plain(t, items, n);
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
    t->plain = calloc((ACCEL__PLAIN_CHARS + 1) * words + 1, sizeof *t->plain);
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
  free(t);
  *trie = NULL;
}

size_t accel__token_trie_bytes(const accel__token_trie *t) {
  return t->n * (size_t)11 + t->n_tokens * (size_t)8 + t->offset[t->n_tokens] +
         (ACCEL__PLAIN_CHARS + 1) * t->words * sizeof *t->plain;
}
