/* word_cache.c - a cache of the tokens of words: texts repeat their words, and looking one up is
 * much quicker than tokenizing it.
 *
 * Byte-level pre-tokenizers end by turning bytes into printable stand-ins; that step is done here,
 * because words found in the cache do not need it.  The cache belongs to an encoding, so threads
 * share none.
 */
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

enum {
  WORD_MAX = 64,         /* code points; longer words are rare, and not kept */
  SLOTS_FIRST = 1 << 10, /* doubled as words come, up to: */
  SLOTS_MAX = 1 << 17,
};

typedef struct cached_word {
  uint64_t hash;           /* 0: the slot is empty */
  uint32_t key, token;     /* where its code points and tokens begin in the cache's arrays */
  uint16_t key_n, token_n; /* how many of each */
} cached_word;

struct accel__word_cache {
  uint64_t tokenizer; /* the serial of the tokenizer whose words these are */
  cached_word *slot;  /* open addressing */
  size_t slots, n;    /* slots: power of two; n: words in them */
  uint32_t *key;
  size_t key_n, key_capacity;
  accel__word_token *token;
  size_t token_n, token_capacity;
};

void accel__word_cache_free(struct accel__word_cache *w) {
  if (!w) return;
  free(w->slot);
  free(w->key);
  free(w->token);
  free(w);
}

static void clear_cache(struct accel__word_cache *w) {
  if (w->slot) memset(w->slot, 0, w->slots * sizeof *w->slot);
  w->n = w->key_n = w->token_n = 0;
}

static accel_status reserve_slot(struct accel__word_cache *w) {
  if (4 * w->n < 3 * w->slots) return ACCEL_OK;
  if (w->slots == SLOTS_MAX) return clear_cache(w), ACCEL_OK;
  size_t slots = w->slots ? 4 * w->slots : SLOTS_FIRST;
  if (slots > SLOTS_MAX) slots = SLOTS_MAX;
  cached_word *slot = calloc(slots, sizeof *slot);
  if (!slot) return accel__no_memory(slots * sizeof *slot);
  for (size_t i = 0; i < w->slots; ++i) {
    size_t k = w->slot[i].hash & (slots - 1);
    while (w->slot[i].hash && slot[k].hash) k = (k + 1) & (slots - 1);
    if (w->slot[i].hash) slot[k] = w->slot[i];
  }
  free(w->slot);
  w->slot = slot;
  w->slots = slots;
  return ACCEL_OK;
}

static accel_status open_cache(const accel__tokenizer *t, accel__encode_scratch *s) {
  if (!s->word_cache) s->word_cache = calloc(1, sizeof *s->word_cache);
  if (!s->word_cache) return accel__no_memory(sizeof *s->word_cache);
  if (s->word_cache->tokenizer != t->serial) clear_cache(s->word_cache);
  s->word_cache->tokenizer = t->serial;
  return reserve_slot(s->word_cache);
}

static uint64_t hash_chars(const accel__char *chars, size_t n) {
  uint64_t h = ACCEL__HASH_SEED + n;
  for (size_t i = 0; i < n; ++i) h = (h ^ chars[i].c) * 0x9FB21C651E98DF25u;
  h ^= h >> 32;
  return h ? h : 1;
}

/* The slot of a word, or the empty one where it would be. */
static cached_word *find_slot(const struct accel__word_cache *w, uint64_t hash,
                              const accel__char *chars, size_t n) {
  for (size_t i = hash & (w->slots - 1);; i = (i + 1) & (w->slots - 1)) {
    cached_word *at = &w->slot[i];
    if (at->hash == 0) return at;
    if (at->hash != hash || at->key_n != n) continue;
    size_t k = 0;
    while (k < n && w->key[at->key + k] == chars[k].c) k++;
    if (k == n) return at;
  }
}

static accel_status push_cached(const struct accel__word_cache *w, const cached_word *at,
                                const accel__char *chars, int32_t number, accel__tokens *out) {
  if (at->token_n == 0) return ACCEL_OK;
  if (out->n + at->token_n > out->capacity)
    ACCEL_TRY(accel__grow(&out->at, &out->capacity, out->n + at->token_n, sizeof *out->at));
  const accel__word_token *token = &w->token[at->token];
  for (size_t i = 0; i < at->token_n; ++i) {
    out->at[out->n++] = (accel__token){.id = token[i].id,
                                       .start = chars[token[i].first].start,
                                       .end = chars[token[i].last].end,
                                       .word = number,
                                       .lead = token[i].lead,
                                       .trail = token[i].trail};
  }
  return ACCEL_OK;
}

/* Bytes of a word as their stand-ins, in s->other; s->origin says whose byte each is. */
static accel_status bytes_of_word(const accel__char *chars, size_t n, accel__encode_scratch *s) {
  accel__chars *to = &s->other;
  to->n = 0;
  ACCEL_TRY(accel__grow(&to->at, &to->capacity, 4 * n, sizeof *to->at));
  ACCEL_TRY(accel__grow(&s->origin, &s->origin_capacity, 4 * n, sizeof *s->origin));
  for (size_t i = 0; i < n; ++i) {
    char bytes[4];
    size_t count = accel__utf8_encode(chars[i].c, bytes);
    for (size_t k = 0; k < count; ++k) {
      s->origin[to->n] = (uint32_t)i;
      to->at[to->n++] =
          (accel__char){accel__byte_to_char((uint8_t)bytes[k]), chars[i].start, chars[i].end};
    }
  }
  return ACCEL_OK;
}

static accel_status store_word(accel__encode_scratch *s, cached_word *at, uint64_t hash,
                               const accel__char *chars, size_t n, const accel__char *base,
                               const accel__token *tokens, size_t count) {
  struct accel__word_cache *w = s->word_cache;
  ACCEL_TRY(accel__grow(&w->key, &w->key_capacity, w->key_n + n, sizeof *w->key));
  ACCEL_TRY(accel__grow(&w->token, &w->token_capacity, w->token_n + count, sizeof *w->token));
  *at = (cached_word){hash, (uint32_t)w->key_n, (uint32_t)w->token_n, (uint16_t)n, (uint16_t)count};
  for (size_t i = 0; i < n; ++i) w->key[w->key_n++] = chars[i].c;
  for (size_t i = 0; i < count; ++i) {
    size_t first = (size_t)(tokens[i].first - base), last = first + tokens[i].chars - 1;
    bool bytes = base != chars;
    w->token[w->token_n++] =
        (accel__word_token){.id = tokens[i].id,
                            .first = (uint16_t)(bytes ? s->origin[first] : first),
                            .last = (uint16_t)(bytes ? s->origin[last] : last),
                            .lead = tokens[i].lead,
                            .trail = tokens[i].trail};
  }
  w->n++;
  return ACCEL_OK;
}

static accel_status tokenize_word(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                  int32_t number, accel__encode_scratch *s, accel__tokens *out) {
  bool kept = n <= WORD_MAX;
  uint64_t hash = 0;
  cached_word *at = NULL;
  const accel__char *base = chars;
  size_t before = out->n, base_n = n;
  if (kept) {
    ACCEL_TRY(open_cache(t, s));
    hash = hash_chars(chars, n);
    at = find_slot(s->word_cache, hash, chars, n);
    if (at->hash) return push_cached(s->word_cache, at, chars, number, out);
  }
  if (t->bytes_last) {
    ACCEL_TRY(bytes_of_word(chars, n, s));
    base = s->other.at;
    base_n = s->other.n;
  }
  ACCEL_TRY(accel__vocab_model_tokenize(t, base, base_n, number, s, out));
  const accel__token *made = out->at ? out->at + before : NULL;
  return kept ? store_word(s, at, hash, chars, n, base, made, out->n - before) : ACCEL_OK;
}

/* Models of SentencePiece's kind see a whole text as one word.  Where no merge reaches over the
 * beginning of a U+2581 run, the parts before and behind it merge as if they were alone. */
accel_status accel__word_tokenize(const accel__tokenizer *t, const accel__char *chars, size_t n,
                                  int32_t number, accel__encode_scratch *s, accel__tokens *out) {
  size_t from = 0;
  for (size_t i = 1; t->model.cuts_at_space && i < n; ++i) {
    if (chars[i].c != ACCEL__SPACE_MARK || chars[i - 1].c == ACCEL__SPACE_MARK) continue;
    ACCEL_TRY(tokenize_word(t, chars + from, i - from, number, s, out));
    from = i;
  }
  return tokenize_word(t, chars + from, n - from, number, s, out);
}
