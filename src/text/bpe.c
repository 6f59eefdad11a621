/* bpe.c - byte pair encoding: the code points of a word become symbols, and the pair of lowest rank
 * is merged until none is left (Sennrich et al. 2016; order of merges and treatment of unknown
 * symbols as in the `tokenizers` package). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

struct accel__symbol {
  uint32_t id;
  int32_t prev, next; /* -1 none */
  uint32_t n;         /* bytes of the word; 0: merged into its left neighbour */
};
struct accel__candidate {
  uint32_t rank, id;
  uint32_t at;
};

static size_t merge_slot(const accel__vocab_model *m, uint32_t left, uint32_t right) {
  uint64_t h = accel__hash_end(((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u);
  size_t i = (size_t)((h >> 32) * m->merges >> 32); /* the upper half, as a fraction of the table */
  while (m->merge[i].rank != UINT32_MAX && (m->merge[i].left != left || m->merge[i].right != right))
    i = i + 1 < m->merges ? i + 1 : 0;
  return i;
}

accel_status accel__merge_reserve(accel__vocab_model *m, size_t n) {
  const size_t slots = 2 * n + 1;
  m->merge = malloc(slots * sizeof *m->merge);
  if (!m->merge) return accel__no_memory(slots * sizeof *m->merge);
  memset(m->merge, 0xFF, slots * sizeof *m->merge);
  m->merges = slots;
  return ACCEL_OK;
}

void accel__merge_set(accel__vocab_model *m, uint32_t left, uint32_t right, uint32_t rank,
                      uint32_t id) {
  m->merge[merge_slot(m, left, right)] = (accel__merge){left, right, rank, id};
}

const accel__merge *accel__merge_get(const accel__vocab_model *m, uint32_t left, uint32_t right) {
  if (m->merges == 0) return NULL;
  const accel__merge *found = &m->merge[merge_slot(m, left, right)];
  return found->rank == UINT32_MAX ? NULL : found;
}

/* ---- the queue: a binary heap, lowest rank first, then leftmost ---- */

static bool before(const struct accel__candidate *a, const struct accel__candidate *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static accel_status heap_push(accel__encode_scratch *s, size_t *n, struct accel__candidate new) {
  if (*n == s->candidate_capacity)
    ACCEL_TRY(accel__grow(&s->candidate, &s->candidate_capacity, *n + 1, sizeof *s->candidate));
  size_t i = (*n)++;
  for (; i > 0 && before(&new, &s->candidate[(i - 1) / 2]); i = (i - 1) / 2)
    s->candidate[i] = s->candidate[(i - 1) / 2];
  s->candidate[i] = new;
  return ACCEL_OK;
}

static struct accel__candidate heap_pop(accel__encode_scratch *s, size_t *n) {
  struct accel__candidate top = s->candidate[0], last = s->candidate[--*n];
  size_t i = 0;
  for (size_t child = 1; child < *n; child = 2 * i + 1) {
    if (child + 1 < *n && before(&s->candidate[child + 1], &s->candidate[child])) child++;
    if (!before(&s->candidate[child], &last)) break;
    s->candidate[i] = s->candidate[child];
    i = child;
  }
  s->candidate[i] = last;
  return top;
}

static accel_status push_pair(const accel__vocab_model *m, accel__encode_scratch *s, size_t *heap,
                              int32_t left, int32_t right) {
  if (left < 0 || right < 0) return ACCEL_OK;
  const accel__merge *merge = accel__merge_get(m, s->symbol[left].id, s->symbol[right].id);
  return merge
             ? heap_push(s, heap, (struct accel__candidate){merge->rank, merge->id, (uint32_t)left})
             : ACCEL_OK;
}

static accel_status merge_all(const accel__vocab_model *m, accel__encode_scratch *s, size_t n) {
  size_t heap = 0;
  for (size_t i = 0; i + 1 < n; ++i) ACCEL_TRY(push_pair(m, s, &heap, (int32_t)i, (int32_t)i + 1));
  while (heap > 0) {
    struct accel__candidate top = heap_pop(s, &heap);
    struct accel__symbol *left = &s->symbol[top.at];
    if (left->n == 0 || left->next < 0) continue;
    struct accel__symbol *right = &s->symbol[left->next];
    const accel__merge *merge = accel__merge_get(m, left->id, right->id);
    if (!merge || merge->id != top.id) continue; /* one of the two has changed since */
    left->id = top.id;
    left->n += right->n;
    right->n = 0;
    left->next = right->next;
    if (left->next >= 0) s->symbol[left->next].prev = (int32_t)top.at;
    ACCEL_TRY(push_pair(m, s, &heap, left->prev, (int32_t)top.at));
    ACCEL_TRY(push_pair(m, s, &heap, (int32_t)top.at, left->next));
  }
  return ACCEL_OK;
}

/* ---- symbols of a word ---- */

static accel_status push_symbol(accel__encode_scratch *s, size_t *n, uint32_t id, uint32_t bytes) {
  if (*n == s->symbol_capacity)
    ACCEL_TRY(accel__grow(&s->symbol, &s->symbol_capacity, *n + 1, sizeof *s->symbol));
  if (*n) s->symbol[*n - 1].next = (int32_t)*n;
  s->symbol[*n] = (struct accel__symbol){id, (int32_t)*n - 1, -1, bytes};
  ++*n;
  return ACCEL_OK;
}

/* Id of char i with the prefix inside a word and the suffix at its end. */
static int32_t symbol_id(const accel__tokenizer *t, const accel__encode_scratch *s, size_t i,
                         size_t n) {
  const accel__vocab_model *m = &t->model;
  char joined[4 + 64];
  const char *text = s->utf8 + s->bound[i];
  size_t length = s->bound[i + 1] - s->bound[i];
  bool inside = i > 0 && m->prefix_n;
  if (i + 1 == n && m->suffix_n) {
    memcpy(joined, text, length);
    memcpy(joined + length, m->suffix, m->suffix_n);
    text = joined;
    length += m->suffix_n;
  }
  uint64_t h = accel__hash_bytes(inside ? m->prefix_hash : ACCEL__HASH_SEED, text, length);
  const accel__vocab_entry *e =
      accel__vocab_find(&t->vocab, h, m->prefix, inside ? m->prefix_n : 0, text, length);
  return e ? e->id : -1;
}

static bool all_bytes_known(const accel__vocab_model *m, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (m->byte_id[(uint8_t)bytes[i]] < 0) return false;
  }
  return true;
}

/* An unknown symbol waits, because with fuse_unk the next ones join it. */
typedef struct unknown {
  bool waiting;
  uint32_t n;
} unknown;

static accel_status push_unknown(const accel__tokenizer *t, accel__encode_scratch *s, size_t *n,
                                 unknown *u) {
  if (!u->waiting) return ACCEL_OK;
  u->waiting = false;
  return push_symbol(s, n, (uint32_t)t->model.unk, u->n);
}

static accel_status unknown_symbol(const accel__tokenizer *t, accel__encode_scratch *s, size_t *n,
                                   uint32_t bytes, unknown *u) {
  const accel__vocab_model *m = &t->model;
  if (!m->unk_token) return ACCEL_OK; /* left out */
  if (m->unk < 0) {
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'model.unk_token' is '%s', which the vocabulary lacks, and the "
                       "text holds an unknown character",
                       t->name, m->unk_token);
  }
  if (!m->fuse_unk) ACCEL_TRY(push_unknown(t, s, n, u));
  u->n = u->waiting ? u->n + bytes : bytes;
  u->waiting = true;
  return ACCEL_OK;
}

/* Byte fallback spells the prefix and suffix too, as the package does; no real model has them
 * together. */
static accel_status push_bytes(const accel__tokenizer *t, accel__encode_scratch *s, size_t *symbols,
                               size_t i, size_t n, bool *done) {
  const accel__vocab_model *m = &t->model;
  const char *text = s->utf8 + s->bound[i];
  size_t length = s->bound[i + 1] - s->bound[i];
  const char *part[3] = {i > 0 ? m->prefix : "", text, i + 1 == n ? m->suffix : ""};
  size_t part_n[3] = {i > 0 ? m->prefix_n : 0, length, i + 1 == n ? m->suffix_n : 0};
  *done = m->byte_fallback;
  for (int p = 0; p < 3; ++p) *done = *done && all_bytes_known(m, part[p], part_n[p]);
  for (int p = 0; *done && p < 3; ++p) {
    for (size_t j = 0; j < part_n[p]; ++j)
      ACCEL_TRY(push_symbol(s, symbols, (uint32_t)m->byte_id[(uint8_t)part[p][j]], 1));
  }
  return ACCEL_OK;
}

static accel_status make_symbols(const accel__tokenizer *t, accel__encode_scratch *s, size_t n,
                                 size_t *symbols) {
  unknown u = {false, 0};
  for (size_t i = 0; i < n; ++i) {
    uint32_t bytes = s->bound[i + 1] - s->bound[i];
    int32_t id = symbol_id(t, s, i, n);
    bool done = false;
    if (id >= 0) {
      ACCEL_TRY(push_unknown(t, s, symbols, &u));
      ACCEL_TRY(push_symbol(s, symbols, (uint32_t)id, bytes));
      continue;
    }
    ACCEL_TRY(push_bytes(t, s, symbols, i, n, &done));
    if (!done) ACCEL_TRY(unknown_symbol(t, s, symbols, bytes, &u));
  }
  return push_unknown(t, s, symbols, &u);
}

/* Symbols say how many bytes they cover; a byte belongs to the char around it. */
static accel_status emit(const accel__tokenizer *t, const accel__char *chars, size_t n,
                         int32_t word, accel__encode_scratch *s, size_t symbols,
                         accel__tokens *out) {
  size_t at = 0, first = 0;
  for (size_t i = 0; i < symbols; ++i) {
    if (s->symbol[i].n == 0) continue;
    size_t end = at + s->symbol[i].n;
    while (first + 1 < n && s->bound[first + 1] <= at) first++;
    size_t last = first;
    while (last + 1 < n && s->bound[last + 1] < end) last++;
    ACCEL_TRY(accel__tokens_push(t, out, (int32_t)s->symbol[i].id, chars + first, last + 1 - first,
                                 word));
    at = end;
  }
  return ACCEL_OK;
}

accel_status accel__bpe_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                 int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  size_t bytes, symbols = 0;
  ACCEL_TRY(accel__chars_utf8(s, chars, n, &bytes));
  if (t->model.ignore_merges) {
    int32_t id = accel__vocab_id(&t->vocab, s->utf8, bytes);
    if (id >= 0) return accel__tokens_push(t, out, id, chars, n, word);
  }
  ACCEL_TRY(make_symbols(t, s, n, &symbols));
  ACCEL_TRY(merge_all(&t->model, s, symbols));
  return emit(t, chars, n, word, s, symbols, out);
}
