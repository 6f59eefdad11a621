/* decode.c - ids back to text: the decoders of tokenizer.json, each turning a list of strings into
 * another. */
#include <stdlib.h>
#include <string.h>

#include "text/character_tokenizer.h"

typedef struct list {
  accel__buffer text; /* all strings, one after the other */
  size_t *end;        /* where each ends */
  size_t n, capacity;
} list;

static accel_status close_string(list *l) {
  if (l->n == l->capacity) ACCEL_TRY(accel__grow(&l->end, &l->capacity, l->n + 1, sizeof *l->end));
  l->end[l->n++] = l->text.n;
  return accel__buffer_status(&l->text);
}

static const char *string(const list *l, size_t i, size_t *n) {
  size_t begin = i ? l->end[i - 1] : 0;
  *n = l->end[i] - begin;
  return l->text.data ? l->text.data + begin : "";
}

static void clear(list *l) { l->text.n = l->n = 0; }

static void free_list(list *l) {
  accel__buffer_free(&l->text);
  free(l->end);
}

static bool begins(const char *text, size_t n, const char *with, size_t with_n) {
  return with_n <= n && memcmp(text, with, with_n) == 0;
}

/* text with every `from` replaced; an empty `from` changes nothing. */
static void replace_all(accel__buffer *out, const char *text, size_t n, const char *from,
                        const char *to) {
  size_t from_n = strlen(from), plain = 0;
  for (size_t i = 0; from_n && i + from_n <= n;) {
    if (text[i] != *from || memcmp(text + i, from, from_n) != 0) {
      i++;
      continue;
    }
    accel__buffer_bytes(out, text + plain, i - plain);
    accel__buffer_text(out, to);
    plain = i += from_n;
  }
  accel__buffer_bytes(out, text + plain, n - plain);
}

/* Undoes the spaces that tokenization puts before punctuation and contractions; `do_not` belongs to
 * the WordPiece decoder only. */
static void clean_up(accel__buffer *out, size_t begin, bool do_not, accel__buffer *work) {
  static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                         {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                         {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    if (out->n == begin || !memchr(out->data + begin, ' ', out->n - begin)) return;
    if (!do_not && pairs[i][0][1] == 'd') continue;
    work->n = 0;
    replace_all(work, out->data + begin, out->n - begin, pairs[i][0], pairs[i][1]);
    out->n = begin;
    if (work->n) accel__buffer_bytes(out, work->data, work->n);
  }
}

/* ---- the decoders ---- */

static accel_status wordpiece(const accel__decoder *d, const list *in, list *out,
                              accel__buffer *work) {
  size_t prefix_n = strlen(d->text), n;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    bool inside = i > 0 && begins(text, n, d->text, prefix_n);
    size_t begin = out->text.n;
    if (i > 0 && !inside) accel__buffer_bytes(&out->text, " ", 1);
    accel__buffer_bytes(&out->text, text + (inside ? prefix_n : 0), n - (inside ? prefix_n : 0));
    if (d->clean_up) clean_up(&out->text, begin, true, work);
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static accel_status metaspace(const accel__decoder *d, const list *in, list *out) {
  size_t n;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    for (size_t j = 0; j < n;) {
      uint32_t c;
      size_t length = accel__utf8_decode(text + j, n - j, &c);
      if (c != d->c)
        accel__buffer_bytes(&out->text, text + j, length);
      else if (i > 0 || d->prepend == ACCEL__PREPEND_NEVER)
        accel__buffer_bytes(&out->text, " ", 1);
      j += length;
    }
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

/* Bytes that may be no UTF-8, with U+FFFD for each longest piece that could have begun a character
 * (as Rust and WHATWG do).
 */
static void push_lossy(accel__buffer *out, const uint8_t *at, size_t n) {
  for (size_t i = 0; i < n;) {
    uint32_t c;
    size_t length = accel__utf8_decode((const char *)at + i, n - i, &c);
    if (length > 1 || at[i] < 0x80) {
      accel__buffer_bytes(out, at + i, length);
      i += length;
      continue;
    }
    uint8_t lead = at[i++],
            low = lead == 0xE0   ? 0xA0
                  : lead == 0xF0 ? 0x90
                                 : 0x80,
            high = lead == 0xED   ? 0x9F
                   : lead == 0xF4 ? 0x8F
                                  : 0xBF;
    int more = lead >= 0xC2 && lead <= 0xDF   ? 1
               : lead >= 0xE0 && lead <= 0xEF ? 2
               : lead >= 0xF0 && lead <= 0xF4 ? 3
                                              : 0;
    for (; more > 0 && i < n && at[i] >= low && at[i] <= high; --more, ++i) low = 0x80, high = 0xBF;
    accel__buffer_text(out, "\xEF\xBF\xBD");
  }
}

/* The bytes a token's printable stand-ins mean, or the token itself when one of them is none. */
static void push_token_bytes(accel__buffer *out, const char *text, size_t n) {
  size_t begin = out->n;
  for (size_t j = 0; j < n;) {
    uint32_t c;
    j += accel__utf8_decode(text + j, n - j, &c);
    int byte = accel__char_to_byte(c);
    if (byte < 0) {
      out->n = begin;
      accel__buffer_bytes(out, text, n);
      return;
    }
    char b = (char)byte;
    accel__buffer_bytes(out, &b, 1);
  }
}

static accel_status byte_level(const list *in, list *out, accel__buffer *work) {
  size_t n;
  work->n = 0;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    push_token_bytes(work, text, n);
  }
  ACCEL_TRY(accel__buffer_status(work));
  if (work->n) push_lossy(&out->text, (const uint8_t *)work->data, work->n);
  return close_string(out);
}

static accel_status bpe(const accel__decoder *d, const list *in, list *out) {
  size_t n;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    replace_all(&out->text, text, n, d->text, i + 1 == in->n ? "" : " ");
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static accel_status ctc(const accel__decoder *d, const list *in, list *out, accel__buffer *work) {
  size_t n, before_n = 0;
  const char *before = NULL;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    bool again = before && n == before_n && memcmp(text, before, n) == 0;
    before = text;
    before_n = n;
    if (again) continue;
    size_t begin = out->text.n;
    replace_all(&out->text, text, n, d->text, "");
    if (d->clean_up) {
      clean_up(&out->text, begin, true, work);
      work->n = 0;
      if (out->text.n > begin)
        replace_all(work, out->text.data + begin, out->text.n - begin, d->other, " ");
      out->text.n = begin;
      if (work->n) accel__buffer_bytes(&out->text, work->data, work->n);
    }
    if (out->text.n > begin) ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static accel_status replace(const accel__decoder *d, const list *in, list *out,
                            accel__encode_scratch *s) {
  size_t n;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    ACCEL_TRY(accel__chars_decode(&s->chars, text, n));
    ACCEL_TRY(accel__pattern_find(&d->pattern, s->chars.at, s->chars.n, s));
    for (size_t m = 0, at = 0; m < s->match_n; at += s->match[m++].n) {
      const accel__char *from = s->chars.at + at;
      if (s->match[m].match)
        accel__buffer_text(&out->text, d->other);
      else
        accel__buffer_bytes(&out->text, text + from[0].start,
                            from[s->match[m].n - 1].end - from[0].start);
    }
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static accel_status strip(const accel__decoder *d, const list *in, list *out) {
  char mark[4];
  size_t n, mark_n = accel__utf8_encode(d->c, mark);
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    size_t begin = 0, end = n;
    for (size_t k = 0; k < d->start && begins(text + begin, end - begin, mark, mark_n); ++k)
      begin += mark_n;
    for (size_t k = 0;
         k < d->stop && end - begin >= mark_n && memcmp(text + end - mark_n, mark, mark_n) == 0;
         ++k)
      end -= mark_n;
    accel__buffer_bytes(&out->text, text + begin, end - begin);
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static int hex(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* "<0x41>" to 0x41; -1 for other tokens. */
static int spelled_byte(const char *text, size_t n) {
  if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  /* Rust's number parser takes a plus sign */
  int high = text[3] == '+' ? 0 : hex(text[3]), low = hex(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static accel_status flush_bytes(list *out, accel__buffer *bytes) {
  if (bytes->n == 0) return ACCEL_OK;
  size_t n = bytes->n;
  bytes->n = 0;
  if (accel__utf8_valid(bytes->data, n)) {
    accel__buffer_bytes(&out->text, bytes->data, n);
    return close_string(out);
  }
  for (size_t i = 0; i < n; ++i) {
    accel__buffer_text(&out->text, "\xEF\xBF\xBD");
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

static accel_status byte_fallback(const list *in, list *out, accel__buffer *work) {
  size_t n;
  work->n = 0;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    int byte = spelled_byte(text, n);
    if (byte >= 0) {
      char b = (char)byte;
      accel__buffer_bytes(work, &b, 1);
      ACCEL_TRY(accel__buffer_status(work));
      continue;
    }
    ACCEL_TRY(flush_bytes(out, work));
    accel__buffer_bytes(&out->text, text, n);
    ACCEL_TRY(close_string(out));
  }
  return flush_bytes(out, work);
}

static accel_status fuse(const list *in, list *out) {
  if (in->text.n) accel__buffer_bytes(&out->text, in->text.data, in->text.n);
  return close_string(out);
}

static bool is_special_text(const accel__tokenizer *t, const char *text, size_t n) {
  int32_t same = accel__vocab_id(&t->added_vocab, text, n);
  return same >= 0 && t->added[t->added_by_id[same] - 1].skipped;
}

static void push_stripped(accel__buffer *out, const char *text, size_t n) {
  size_t first = 0, end = 0;
  for (size_t i = 0; i < n;) {
    uint32_t c;
    i += accel__utf8_decode(text + i, n - i, &c);
    if (!accel__is_white(c)) end = i;
    if (!end) first = i;
  }
  if (end) accel__buffer_bytes(out, text + first, end - first);
}

/* As Marian's and M2M100's tokenizers have it: pieces joined, spaces for their marks, none at
 * either end; special tokens stand between what SentencePiece decodes, each with d->text behind
 * it. */
static accel_status sentencepiece(const accel__tokenizer *t, const accel__decoder *d,
                                  const list *in, list *out, accel__buffer *work) {
  static const char mark[] = "\xE2\x96\x81";
  size_t n, begin = 0; /* of the part since the last special token */
  work->n = 0;
  for (size_t i = 0; i < in->n; ++i) {
    const char *text = string(in, i, &n);
    if (is_special_text(t, text, n)) {
      accel__buffer_bytes(work, text, n);
      accel__buffer_text(work, d->text);
      begin = work->n;
      continue;
    }
    bool skip = work->n == begin && begins(text, n, mark, 3);
    replace_all(work, text + (skip ? 3 : 0), n - (skip ? 3 : 0), mark, " ");
  }
  ACCEL_TRY(accel__buffer_status(work));
  if (work->n) push_stripped(&out->text, work->data, work->n);
  return close_string(out);
}

static accel_status decode_step(const accel__tokenizer *t, const accel__decoder *d, const list *in,
                                list *out, accel__buffer *work, accel__encode_scratch *s) {
  switch (d->kind) {
    case ACCEL__DECODE_WORDPIECE:
      return wordpiece(d, in, out, work);
    case ACCEL__DECODE_BYTE_LEVEL:
      return byte_level(in, out, work);
    case ACCEL__DECODE_METASPACE:
      return metaspace(d, in, out);
    case ACCEL__DECODE_BPE:
      return bpe(d, in, out);
    case ACCEL__DECODE_CTC:
      return ctc(d, in, out, work);
    case ACCEL__DECODE_REPLACE:
      return replace(d, in, out, s);
    case ACCEL__DECODE_FUSE:
      return fuse(in, out);
    case ACCEL__DECODE_STRIP:
      return strip(d, in, out);
    case ACCEL__DECODE_BYTE_FALLBACK:
      return byte_fallback(in, out, work);
    case ACCEL__DECODE_SENTENCEPIECE:
      return sentencepiece(t, d, in, out, work);
  }
  return ACCEL_OK;
}

/* Is there a special token of this text?  (The package asks by text, not by id.) */
static bool is_special(const accel__tokenizer *t, int32_t id, const char *text, size_t n) {
  return (size_t)id < t->added_ids && t->added_by_id[id] && is_special_text(t, text, n);
}

static accel_status tokens_of(const accel__tokenizer *t, const int32_t *ids, size_t n,
                              bool skip_special, list *out) {
  for (size_t i = 0; i < n; ++i) {
    size_t length;
    const char *text = accel__id_to_token(t, ids[i], &length);
    if (!text || (skip_special && is_special(t, ids[i], text, length))) continue;
    if (t->decoders == 0 && out->n > 0) accel__buffer_bytes(&out->text, " ", 1);
    accel__buffer_bytes(&out->text, text, length);
    ACCEL_TRY(close_string(out));
  }
  return ACCEL_OK;
}

/* Runs the decoders over the tokens in `in`, which it frees. */
static accel_status decode_list(const accel__tokenizer *t, list *in, bool clean,
                                accel__buffer *out) {
  list result = {0};
  accel__buffer work = {0};
  accel__encoding memory = {.scratch = calloc(1, sizeof *memory.scratch)};
  accel_status status = memory.scratch ? ACCEL_OK : accel__no_memory(sizeof *memory.scratch);
  for (size_t i = 0; status == ACCEL_OK && i < t->decoders; ++i) {
    clear(&result);
    status = decode_step(t, &t->decoder[i], in, &result, &work, memory.scratch);
    list kept = *in;
    *in = result;
    result = kept;
  }
  size_t begin = out->n;
  if (status == ACCEL_OK && in->text.n) accel__buffer_bytes(out, in->text.data, in->text.n);
  if (status == ACCEL_OK && clean) clean_up(out, begin, false, &work);
  if (status == ACCEL_OK) status = accel__buffer_status(&work);
  if (status == ACCEL_OK) status = accel__buffer_status(out);
  free_list(in);
  free_list(&result);
  accel__buffer_free(&work);
  accel__encoding_free(&memory);
  return status;
}

accel_status accel__decode(const accel__tokenizer *t, const int32_t *ids, size_t n,
                           bool skip_special, bool clean, accel__buffer *out) {
  list in = {0};
  if (t->characters.class != ACCEL__CHARACTERS_NONE) {
    accel__buffer work = {0};
    const size_t begin = out->n;
    ACCEL_TRY(accel__characters_decode(t, ids, n, skip_special, out));
    if (clean) clean_up(out, begin, false, &work);
    accel__buffer_free(&work);
    return accel__buffer_status(out);
  }
  accel_status status = tokens_of(t, ids, n, skip_special, &in);
  if (status == ACCEL_OK) return decode_list(t, &in, clean, out);
  free_list(&in);
  return status;
}

accel_status accel__decode_tokens(const accel__tokenizer *t, const char *const *tokens, size_t n,
                                  accel__buffer *out) {
  list in = {0};
  accel_status status = ACCEL_OK;
  for (size_t i = 0; i < n && status == ACCEL_OK; ++i) {
    if (t->decoders == 0 && i > 0) accel__buffer_bytes(&in.text, " ", 1);
    accel__buffer_text(&in.text, tokens[i]);
    status = close_string(&in);
  }
  if (status == ACCEL_OK) return decode_list(t, &in, false, out);
  free_list(&in);
  return status;
}
