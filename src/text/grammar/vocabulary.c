/* vocabulary.c - what each token adds to a text, by the decoders of tokenizer.json; and the cache of
 * grammars. */
#include "text/grammar/vocabulary.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

/* ---- bytes of tokens ---- */

static accel_status refuse(const accel__tokenizer *t, const char *what) {
  return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED,
                                   "%s: a grammar cannot follow this tokenizer: %s", t->name, what),
                       "byte-level and SentencePiece vocabularies can be followed");
}

/* What a decoder does to the text as a whole: only a first space may go. */
static accel_status check_decoders(const accel__tokenizer *t, bool *strips_space) {
  *strips_space = false;
  if (!t->decoders) return refuse(t, "its tokens are joined by spaces");
  for (size_t i = 0; i < t->decoders; i++) {
    const accel__decoder *d = &t->decoder[i];
    switch (d->kind) {
      case ACCEL__DECODE_BYTE_LEVEL:
      case ACCEL__DECODE_FUSE:
      case ACCEL__DECODE_BYTE_FALLBACK:
        break;
      case ACCEL__DECODE_METASPACE:
        *strips_space |= d->prepend != ACCEL__PREPEND_NEVER;
        break;
      case ACCEL__DECODE_REPLACE:
        if (d->pattern.kind != ACCEL__PATTERN_STRING || d->pattern.n != 1)
          return refuse(t, "it replaces more than a character");
        break;
      case ACCEL__DECODE_STRIP:
        if (d->stop || d->start > 1 || d->c != ' ' || !i ||
            t->decoder[i - 1].kind != ACCEL__DECODE_FUSE)
          return refuse(t, "it strips more than a first space");
        *strips_space |= d->start == 1;
        break;
      default:
        return refuse(t, "its decoder changes tokens by what is around them");
    }
  }
  return ACCEL_OK;
}

/* text[n] with a character replaced by what the decoder says. */
static void replace(const accel__decoder *d, const char *text, size_t n, accel__buffer *out) {
  const bool space = d->kind == ACCEL__DECODE_METASPACE;
  const uint32_t from = space ? d->c : d->pattern.string[0];
  for (size_t i = 0; i < n;) {
    uint32_t c;
    const size_t length = accel__utf8_decode(text + i, n - i, &c);
    if (c == from)
      accel__buffer_text(out, space ? " " : d->other);
    else
      accel__buffer_bytes(out, text + i, length);
    i += length;
  }
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* "<0x41>" is a byte. */
static bool is_byte_token(const char *text, size_t n, char *byte) {
  if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return false;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  *byte = (char)(high * 16 + low);
  return high >= 0 && low >= 0;
}

/* The bytes of a byte-level token; a token with a character that stands for none is its own
 * text. */
static void spell_bytes(const char *text, size_t n, accel__buffer *out) {
  const size_t begin = out->n;
  for (size_t i = 0; i < n;) {
    uint32_t c;
    i += accel__utf8_decode(text + i, n - i, &c);
    const int byte = accel__char_to_byte(c);
    const char b = (char)byte;
    if (byte < 0) {
      out->n = begin;
      accel__buffer_bytes(out, text, n);
      return;
    }
    accel__buffer_bytes(out, &b, 1);
  }
}

/* Appends what token `id` adds to a text that it does not begin.  A special token is its own text
 * behind a byte that no text has, so that it comes where a grammar names it, and nowhere else. */
static void add_token(const accel__tokenizer *t, int32_t id, accel__buffer work[2],
                      accel__buffer *out) {
  size_t n;
  const char *text = accel__id_to_token(t, id, &n);
  bool is_byte = false;
  char byte;
  if (!text || id == t->model.unk) return;
  if (accel__id_is_special(t, id)) {
    accel__buffer_text(out, ACCEL__SPECIAL_TOKEN);
    accel__buffer_bytes(out, text, n);
    return;
  }
  for (size_t i = 0; i < t->decoders; i++) {
    const accel__decoder *d = &t->decoder[i];
    accel__buffer *to = &work[i % 2];
    to->n = 0;
    if (d->kind == ACCEL__DECODE_BYTE_LEVEL)
      spell_bytes(text, n, to);
    else if ((d->kind == ACCEL__DECODE_METASPACE || d->kind == ACCEL__DECODE_REPLACE) && !is_byte)
      replace(d, text, n, to);
    else if (d->kind == ACCEL__DECODE_BYTE_FALLBACK && is_byte_token(text, n, &byte))
      accel__buffer_bytes(to, &byte, 1), is_byte = true;
    else
      continue;
    text = to->data ? to->data : "";
    n = to->n;
  }
  /* the byte in front of special tokens is in no UTF-8: a token that has it never comes */
  if (!n || !memchr(text, *ACCEL__SPECIAL_TOKEN, n)) accel__buffer_bytes(out, text, n);
}

static accel_status make_trie(const accel__tokenizer *t, accel__token_trie **out) {
  const uint32_t n = t->info.max_id + 1;
  bool strips_space;
  ACCEL_TRY(check_decoders(t, &strips_space));
  uint32_t *offset = malloc((n + 1u) * sizeof *offset);
  accel__buffer bytes = {0}, work[2] = {{0}, {0}};
  accel_status status = offset ? ACCEL_OK : accel__no_memory((n + 1u) * sizeof *offset);
  for (uint32_t i = 0; offset && i < n; i++) {
    offset[i] = (uint32_t)bytes.n;
    add_token(t, (int32_t)i, work, &bytes);
    if (bytes.n > UINT32_MAX / 2) status = accel__no_memory(bytes.n);
  }
  if (offset) offset[n] = (uint32_t)bytes.n;
  if (status == ACCEL_OK) status = accel__buffer_status(&bytes);
  if (status == ACCEL_OK) status = accel__buffer_status(&work[0]);
  if (status == ACCEL_OK) status = accel__buffer_status(&work[1]);
  if (status == ACCEL_OK)
    status = accel__token_trie_make(bytes.data ? bytes.data : "", offset, n, strips_space, out);
  free(offset);
  accel__buffer_free(&bytes);
  accel__buffer_free(&work[0]);
  accel__buffer_free(&work[1]);
  return status;
}

/* ---- what a tokenizer keeps ---- */

typedef struct known {
  struct known *next; /* used longer ago */
  accel__grammar *grammar;
  accel_grammar_kind kind;
  size_t n;
  char text[];
} known;

struct accel__vocabulary {
  pthread_mutex_t lock;
  accel__token_trie *trie;
  known *newest;
};

accel_status accel__vocabulary_new(accel__vocabulary **out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return accel__no_memory(sizeof **out);
  pthread_mutex_init(&(*out)->lock, NULL);
  return ACCEL_OK;
}

static void free_known(known *k) {
  accel__grammar_release(&k->grammar);
  free(k);
}

void accel__vocabulary_free(accel__vocabulary *v) {
  if (!v) return;
  for (known *k = v->newest, *next; k; k = next) {
    next = k->next;
    free_known(k);
  }
  accel__token_trie_free(&v->trie);
  pthread_mutex_destroy(&v->lock);
  free(v);
}

size_t accel__vocabulary_bytes(accel__vocabulary *v) {
  pthread_mutex_lock(&v->lock);
  size_t bytes = v->trie ? accel__token_trie_bytes(v->trie) : 0;
  for (const known *k = v->newest; k; k = k->next) bytes += accel__grammar_bytes(k->grammar) + k->n;
  pthread_mutex_unlock(&v->lock);
  return bytes;
}

accel_status accel__vocabulary_trie(const accel__tokenizer *t, const accel__token_trie **out) {
  accel__vocabulary *v = t->vocabulary;
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&v->lock);
  if (!v->trie) status = make_trie(t, &v->trie);
  *out = v->trie;
  pthread_mutex_unlock(&v->lock);
  return status;
}

/* The one that is asked for becomes the newest; NULL: it is not there. */
static accel__grammar *find(accel__vocabulary *v, accel_grammar_kind kind, const char *text,
                            size_t n) {
  for (known **link = &v->newest; *link; link = &(*link)->next) {
    known *k = *link;
    if (k->kind != kind || k->n != n || (n && memcmp(k->text, text, n) != 0)) continue;
    *link = k->next;
    k->next = v->newest;
    v->newest = k;
    return accel__grammar_share(k->grammar);
  }
  return NULL;
}

/* Those used longest ago go when all take too much; requests that run keep theirs. */
static void drop_old(accel__vocabulary *v) {
  size_t bytes = 0;
  for (known **link = &v->newest; *link;) {
    known *k = *link;
    bytes += accel__grammar_bytes(k->grammar) + k->n;
    if (bytes <= ACCEL__GRAMMAR_CACHE_BYTES || k == v->newest) {
      link = &k->next;
      continue;
    }
    *link = k->next;
    free_known(k);
  }
}

accel_status accel__vocabulary_grammar(const accel__tokenizer *t, accel_grammar_kind kind,
                                       const char *text, size_t n, accel__grammar **out) {
  accel__vocabulary *v = t->vocabulary;
  pthread_mutex_lock(&v->lock);
  *out = find(v, kind, text, n);
  pthread_mutex_unlock(&v->lock);
  if (*out) return ACCEL_OK;
  ACCEL_TRY(accel__grammar_compile(kind, text, n, out));
  known *k = malloc(sizeof *k + n);
  if (!k) return ACCEL_OK; /* not kept */
  *k = (known){.grammar = accel__grammar_share(*out), .kind = kind, .n = n};
  if (n) memcpy(k->text, text, n);
  pthread_mutex_lock(&v->lock);
  k->next = v->newest;
  v->newest = k;
  drop_old(v);
  pthread_mutex_unlock(&v->lock);
  return ACCEL_OK;
}
