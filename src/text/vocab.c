/* vocab.c - tokens and ids: open addressing over one block of bytes, made for lookups of every
 * prefix of a word. */
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

const accel__vocab_entry *accel__vocab_find(const accel__vocab *v, uint64_t hash,
                                            const char *prefix, size_t prefix_n, const char *text,
                                            size_t n) {
  if (v->slots == 0) return NULL;
  uint64_t h = accel__hash_end(hash);
  uint32_t tag = (uint32_t)(h >> 32);
  for (size_t i = h & (v->slots - 1); v->slot[i]; i = (i + 1) & (v->slots - 1)) {
    if (v->tag[i] != tag) continue;
    const accel__vocab_entry *e = &v->entry[v->slot[i] - 1];
    const char *at = accel__vocab_text(v, e);
    if (e->n != prefix_n + n || (prefix_n && memcmp(at, prefix, prefix_n) != 0)) continue;
    if (n == 0 || memcmp(at + prefix_n, text, n) == 0) return e;
  }
  return NULL;
}

static void insert(accel__vocab *v, size_t entry) {
  const accel__vocab_entry *e = &v->entry[entry];
  uint64_t h = accel__hash_end(accel__hash_bytes(ACCEL__HASH_SEED, accel__vocab_text(v, e), e->n));
  size_t i = h & (v->slots - 1);
  while (v->slot[i]) i = (i + 1) & (v->slots - 1);
  v->slot[i] = (uint32_t)entry + 1;
  v->tag[i] = (uint32_t)(h >> 32);
}

static accel_status widen(accel__vocab *v, size_t slots) {
  uint32_t *slot = calloc(slots, sizeof *slot), *tag = malloc(slots * sizeof *tag);
  if (!slot || !tag) {
    free(slot);
    free(tag);
    return accel__no_memory(slots * sizeof *slot);
  }
  free(v->slot);
  free(v->tag);
  v->slot = slot;
  v->tag = tag;
  v->slots = slots;
  for (size_t i = 0; i < v->n; ++i) insert(v, i);
  return ACCEL_OK;
}

accel_status accel__vocab_reserve(accel__vocab *v, size_t n) {
  size_t slots = 4096;
  while (slots < 2 * n && n <= ACCEL__TOKENS_MAX) slots *= 2;
  return slots > v->slots ? widen(v, slots) : ACCEL_OK;
}

accel_status accel__vocab_add(accel__vocab *v, const char *token, size_t n, int32_t id) {
  if (2 * v->n >= v->slots) ACCEL_TRY(widen(v, v->slots ? v->slots * 2 : 4096));
  const accel__vocab_entry *known =
      accel__vocab_find(v, accel__hash_bytes(ACCEL__HASH_SEED, token, n), "", 0, token, n);
  if (known) {
    v->entry[known - v->entry].id = id;
    return ACCEL_OK;
  }
  if (v->n == v->capacity)
    ACCEL_TRY(accel__grow(&v->entry, &v->capacity, v->n + 1, sizeof *v->entry));
  v->entry[v->n] = (accel__vocab_entry){v->bytes.n, (uint32_t)n, id};
  accel__buffer_bytes(&v->bytes, token, n);
  accel__buffer_bytes(&v->bytes, "", 1);
  ACCEL_TRY(accel__buffer_status(&v->bytes));
  insert(v, v->n++);
  if (n > v->longest) v->longest = n;
  return ACCEL_OK;
}

/* What growing has reserved goes back. */
static void shrink(accel__vocab *v) {
  accel__vocab_entry *entry = v->n ? realloc(v->entry, v->n * sizeof *entry) : NULL;
  char *bytes = v->n ? realloc(v->bytes.data, v->bytes.n + 1) : NULL;
  if (entry) v->entry = entry, v->capacity = v->n;
  if (bytes) v->bytes.data = bytes, v->bytes.capacity = v->bytes.n + 1;
}

accel_status accel__vocab_finish(accel__vocab *v) {
  shrink(v);
  v->ids = 0;
  for (size_t i = 0; i < v->n; ++i) {
    if ((size_t)v->entry[i].id >= v->ids) v->ids = (size_t)v->entry[i].id + 1;
  }
  free(v->by_id);
  v->by_id = calloc(v->ids ? v->ids : 1, sizeof *v->by_id);
  if (!v->by_id) return accel__no_memory(v->ids * sizeof *v->by_id);
  for (size_t i = 0; i < v->n; ++i) v->by_id[v->entry[i].id] = (uint32_t)i + 1;
  return ACCEL_OK;
}

size_t accel__vocab_bytes(const accel__vocab *v) {
  return v->bytes.capacity + v->capacity * sizeof *v->entry +
         v->slots * (sizeof *v->slot + sizeof *v->tag) + v->ids * sizeof *v->by_id;
}

int32_t accel__vocab_id(const accel__vocab *v, const char *token, size_t n) {
  const accel__vocab_entry *e =
      accel__vocab_find(v, accel__hash_bytes(ACCEL__HASH_SEED, token, n), "", 0, token, n);
  return e ? e->id : -1;
}

const accel__vocab_entry *accel__vocab_token(const accel__vocab *v, int32_t id) {
  if (id < 0 || (size_t)id >= v->ids || !v->by_id[id]) return NULL;
  return &v->entry[v->by_id[id] - 1];
}

void accel__vocab_free(accel__vocab *v) {
  accel__buffer_free(&v->bytes);
  free(v->entry);
  free(v->slot);
  free(v->tag);
  free(v->by_id);
  *v = (accel__vocab){0};
}
