/* wordpiece.c - WordPiece and WordLevel, and the choice of the model. */
#include <string.h>

#include "text/text_internal.h"

static accel_status push_unknown(const accel__tokenizer *t, accel__tokens *out,
                                 const accel__char *chars, size_t n, int32_t word) {
  if (t->model.unk < 0) {
    return accel__fail(ACCEL_ERROR_FORMAT,
                       "%s: field 'model.unk_token' is '%s', which the vocabulary lacks, and the "
                       "text holds an unknown word",
                       t->name, t->model.unk_token ? t->model.unk_token : "");
  }
  return accel__tokens_push(t, out, t->model.unk, chars, n, word);
}

/* The longest token (behind the prefix, when not at the word's start) that begins at char `from`:
 * its id and end, or -1. */
static int32_t longest_piece(const accel__tokenizer *t, const accel__encode_scratch *s, size_t from,
                             size_t n, size_t *end) {
  const accel__vocab_model *m = &t->model;
  const char *text = s->utf8 + s->bound[from];
  size_t prefix_n = from ? m->prefix_n : 0;
  uint64_t *hash = s->hash, h = from ? m->prefix_hash : ACCEL__HASH_SEED;
  size_t reach = 0, limit = t->vocab.longest > prefix_n ? t->vocab.longest - prefix_n : 0;
  /* hashes of every beginning, so that each is looked up at no further cost */
  while (from + reach < n) {
    size_t at = s->bound[from + reach], next = s->bound[from + reach + 1];
    if (next - s->bound[from] > limit) break;
    h = accel__hash_bytes(h, s->utf8 + at, next - at);
    hash[reach++] = h;
  }
  for (; reach > 0; --reach) {
    const accel__vocab_entry *e = accel__vocab_find(&t->vocab, hash[reach - 1], m->prefix, prefix_n,
                                                    text, s->bound[from + reach] - s->bound[from]);
    if (!e) continue;
    *end = from + reach;
    return e->id;
  }
  return -1;
}

static accel_status wordpiece(const accel__tokenizer *t, const accel__char *chars, size_t n,
                              int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  if (n > t->model.max_chars) return push_unknown(t, out, chars, n, word);
  size_t bytes, before = out->n;
  ACCEL_TRY(accel__chars_utf8(s, chars, n, &bytes));
  ACCEL_TRY(accel__grow(&s->hash, &s->hash_capacity, n, sizeof *s->hash));
  for (size_t from = 0, end = 0; from < n; from = end) {
    int32_t id = longest_piece(t, s, from, n, &end);
    if (id < 0) { /* one piece unknown: the whole word is */
      out->n = before;
      return push_unknown(t, out, chars, n, word);
    }
    ACCEL_TRY(accel__tokens_push(t, out, id, chars + from, end - from, word));
  }
  return ACCEL_OK;
}

static accel_status wordlevel(const accel__tokenizer *t, const accel__char *chars, size_t n,
                              int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  size_t bytes;
  ACCEL_TRY(accel__chars_utf8(s, chars, n, &bytes));
  int32_t id = accel__vocab_id(&t->vocab, s->utf8, bytes);
  return id < 0 ? push_unknown(t, out, chars, n, word)
                : accel__tokens_push(t, out, id, chars, n, word);
}

accel_status accel__vocab_model_tokenize(const accel__tokenizer *t, const accel__char *chars,
                                         size_t n, int32_t word, accel__encode_scratch *s,
                                         accel__tokens *out) {
  switch (t->model.kind) {
    case ACCEL__VOCAB_MODEL_WORDPIECE:
      return wordpiece(t, chars, n, word, s, out);
    case ACCEL__VOCAB_MODEL_WORDLEVEL:
      return wordlevel(t, chars, n, word, s, out);
    case ACCEL__VOCAB_MODEL_BPE:
      return accel__bpe_tokenize(t, chars, n, word, s, out);
    case ACCEL__VOCAB_MODEL_UNIGRAM:
      return accel__unigram_tokenize(t, chars, n, word, s, out);
    case ACCEL__VOCAB_MODEL_PAIRS:
      return accel__pairs_tokenize(t, chars, n, word, s, out);
  }
  return ACCEL_OK;
}
