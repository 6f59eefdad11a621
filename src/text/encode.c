/* encode.c - one text or pair from bytes to an accel__encoding: the steps in order, truncation,
 * post-processor.  "The package" is Hugging Face's tokenizers, whose results are followed. */
#include <stdlib.h>
#include <string.h>

#include "text/character_tokenizer.h"

/* ---- text to tokens ---- */

/* One segment between added tokens, already in s->chars: normalized added tokens, pre-tokenizer,
 * model. */
static accel_status tokenize_segment(const accel__tokenizer *t, bool ignore_special,
                                     int32_t given_word, int32_t *word, accel__encode_scratch *s,
                                     accel__tokens *out) {
  s->splits.n = 0;
  ACCEL_TRY(accel__added_split(t, &t->normalized_trie, ignore_special, s->chars.at, s->chars.n, 0,
                               &s->splits));
  ACCEL_TRY(accel__pre_tokenize(t->pre_tokenizer, t->pre_tokenizers, s));
  for (size_t i = 0; i < s->splits.n; ++i) {
    const accel__split *split = &s->splits.at[i];
    const accel__char *chars = s->chars.at + split->first;
    int32_t number = given_word >= 0 ? given_word : (*word)++;
    if (t->characters.blanks && !i)
      ACCEL_TRY(accel__characters_push_blank(t, chars, false, number, out));
    if (split->id < 0)
      ACCEL_TRY(accel__word_tokenize(t, chars, split->n, number, s, out));
    else
      ACCEL_TRY(accel__tokens_push_added(t, out, split->id, chars, split->n, number, s));
    if (t->characters.blanks) ACCEL_TRY(accel__characters_push_blank(t, chars, true, number, out));
  }
  return ACCEL_OK;
}

/* Code points of a language code that chars[0..n) begin with, ">>fr<<"; 0 none. */
static size_t language_code(const accel__char *chars, size_t n) {
  if (n < 4 || chars[0].c != '>' || chars[1].c != '>') return 0;
  for (size_t i = 2; i + 1 < n; ++i)
    if (chars[i].c == '<' && chars[i + 1].c == '<') return i + 2;
  return 0;
}

static accel_status push_code(const accel__tokenizer *t, const accel__char *chars, size_t n,
                              int32_t word, accel__encode_scratch *s, accel__tokens *out) {
  size_t bytes;
  ACCEL_TRY(accel__chars_utf8(s, chars, n, &bytes));
  int32_t id = accel__vocab_id(&t->vocab, s->utf8, bytes);
  return accel__tokens_push(t, out, id < 0 ? t->model.unk : id, chars, n, word);
}

static accel_status tokenize_text(const accel__tokenizer *t, const char *text, size_t n,
                                  bool ignore_special, int32_t given_word, accel__encode_scratch *s,
                                  accel__tokens *out) {
  int32_t word = 0;
  ACCEL_TRY(accel__chars_decode(&s->raw, text, n));
  if (t->characters.class != ACCEL__CHARACTERS_NONE)
    ACCEL_TRY(accel__characters_prepare(t, s->phonemes, s));
  s->segments.n = 0;
  ACCEL_TRY(
      accel__added_split(t, &t->raw_trie, ignore_special, s->raw.at, s->raw.n, 0, &s->segments));
  for (size_t i = 0; i < s->segments.n; ++i) {
    const accel__split segment = s->segments.at[i];
    const accel__char *chars = s->raw.at + segment.first;
    if (segment.id >= 0) {
      int32_t number = given_word >= 0 ? given_word : word++;
      ACCEL_TRY(accel__tokens_push_added(t, out, segment.id, chars, segment.n, number, s));
      continue;
    }
    size_t code = t->codes ? language_code(chars, segment.n) : 0, left = segment.n - code;
    if (code) ACCEL_TRY(push_code(t, chars, code, given_word >= 0 ? given_word : word++, s, out));
    ACCEL_TRY(accel__grow(&s->chars.at, &s->chars.capacity, left, sizeof *chars));
    if (left) memcpy(s->chars.at, chars + code, left * sizeof *chars);
    s->chars.n = left;
    ACCEL_TRY(accel__normalize(t->normalizer, t->normalizers, s));
    ACCEL_TRY(tokenize_segment(t, ignore_special, given_word, &word, s, out));
  }
  return ACCEL_OK;
}

/* Byte offsets to code points.  Tokens come in reading order, so a cursor does; it starts over when
 * one does not. */
typedef struct cursor {
  const char *text;
  size_t n, byte, chars;
} cursor;

static uint32_t chars_before(cursor *c, uint32_t byte) {
  if (byte < c->byte) c->byte = c->chars = 0;
  while (c->byte < byte && c->byte < c->n) {
    uint32_t code_point;
    if ((uint8_t)c->text[c->byte] < 0x80)
      c->byte++;
    else
      c->byte += accel__text_decode(c->text + c->byte, c->n - c->byte, &code_point);
    c->chars++;
  }
  return (uint32_t)c->chars;
}

static uint32_t step(const char *text, size_t n, uint32_t at) {
  uint32_t code_point;
  return at + (uint32_t)accel__text_decode(text + at, n - at, &code_point);
}

/* Bytes of the first `lead` and the last `trail` code points of the token's span. */
static void measure_spaces(const char *text, size_t n, accel__token *token) {
  uint32_t at = token->start;
  for (uint32_t k = 0; k < token->lead && at < token->end; ++k) at = step(text, n, at);
  token->lead_bytes = at - token->start;
  at = token->start;
  for (uint32_t left = token->end_char - token->start_char; left > token->trail; --left)
    at = step(text, n, at);
  token->trail_bytes = token->end - at;
}

static void count_chars(const char *text, size_t n, accel__tokens *tokens, size_t from) {
  cursor start = {text, n, 0, 0}, end = {text, n, 0, 0};
  for (size_t i = from; i < tokens->n; ++i) {
    accel__token *token = &tokens->at[i];
    token->start_char = chars_before(&start, token->start);
    token->end_char = chars_before(&end, token->end);
    if (token->lead || token->trail) measure_spaces(text, n, token);
  }
}

static accel_status tokenize_one(const accel__tokenizer *t, const char *text, size_t n,
                                 bool ignore_special, int32_t word, accel__encode_scratch *s,
                                 accel__tokens *out) {
  size_t from = out->n;
  ACCEL_TRY(tokenize_text(t, text, n, ignore_special, word, s, out));
  count_chars(text, n, out, from);
  return ACCEL_OK;
}

static accel_status tokenize_sequence(const accel__tokenizer *t, const char *text, size_t n,
                                      const accel__encode_options *how, accel__encode_scratch *s,
                                      accel__tokens *out) {
  out->n = 0;
  if (n > ACCEL__TEXT_MAX)
    return accel__fail(ACCEL_ERROR_LIMIT,
                       "a text of %zu bytes is longer than the %d a tokenizer takes", n,
                       ACCEL__TEXT_MAX);
  const bool plain = how->ignore_special_in_text || t->split_special;
  if (!how->words) return tokenize_one(t, text, n, plain, -1, s, out);
  int32_t word = 0;
  for (size_t at = 0; at < n; ++word) {
    const char *end = memchr(text + at, 0, n - at);
    size_t length = end ? (size_t)(end - text) - at : n - at;
    ACCEL_TRY(tokenize_one(t, text + at, length, plain, word, s, out));
    at += length + 1;
  }
  return ACCEL_OK;
}

/* ---- truncation ---- */

/* Tokens [start, end) of one text.  The first part of a text is kept, the others overflow. */
typedef struct accel__part {
  size_t start, end;
} accel__part;
typedef struct parts {
  size_t first, n; /* in s->part */
} parts;

static accel_status push_part(accel__encode_scratch *s, parts *p, size_t start, size_t end) {
  size_t at = p->first + p->n;
  if (at >= s->part_capacity)
    ACCEL_TRY(accel__grow(&s->part, &s->part_capacity, at + 1, sizeof *s->part));
  s->part[at] = (accel__part){start, end};
  p->n++;
  return ACCEL_OK;
}

/* Cuts n tokens into parts of `keep`, neighbours sharing `stride`.  left: parts are counted from
 * the end of the text, so its front overflows; else from the front. */
static accel_status cut_parts(accel__encode_scratch *s, parts *p, size_t n, size_t keep,
                              size_t stride, bool left) {
  if (keep >= n) return push_part(s, p, 0, n);
  if (keep == 0) { /* nothing stays, and all of it overflows in one */
    ACCEL_TRY(push_part(s, p, 0, 0));
    return push_part(s, p, 0, n);
  }
  if (stride >= keep) {
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "stride is %zu, but only %zu tokens of the text fit beside the special "
                       "tokens: choose a smaller stride",
                       stride, keep);
  }
  for (size_t at = 0;; at += keep - stride) {
    size_t left_over = n - at, length = left_over < keep ? left_over : keep;
    ACCEL_TRY(left ? push_part(s, p, n - at - length, n - at) : push_part(s, p, at, at + length));
    if (length == left_over) return ACCEL_OK;
  }
}

/* How many tokens of each text stay when both together may have `budget`. */
static void share_budget(size_t budget, size_t *a, size_t *b) {
  size_t shorter = *a < *b ? *a : *b, longer;
  longer = shorter > budget ? shorter : (shorter > budget - shorter ? shorter : budget - shorter);
  if (shorter + longer > budget) {
    shorter = budget / 2;
    longer = shorter + budget % 2;
  }
  bool swap = *a > *b;
  *a = swap ? longer : shorter;
  *b = swap ? shorter : longer;
}

static accel_status cut_only(size_t *n, size_t over) {
  if (*n <= over)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "the text that may be truncated has %zu tokens, but %zu are too many: raise max_length", *n,
        over);
  *n -= over;
  return ACCEL_OK;
}

static accel_status truncate(const accel__tokenizer *t, const accel__encode_options *how, bool pair,
                             accel__encode_scratch *s, parts out[2]) {
  size_t n[2] = {s->tokens[0].n, pair ? s->tokens[1].n : 0}, keep[2] = {n[0], n[1]};
  if (how->truncation != ACCEL__TRUNCATE_NONE) {
    uint32_t added = how->add_special_tokens ? accel__special_token_count(t, pair) : 0;
    if (how->max_length < added) {
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "max_length %u leaves no room for the %u special tokens", how->max_length,
                         added);
    }
    size_t budget = how->max_length - added;
    if (budget == 0)
      keep[0] = keep[1] = 0;
    else if (n[0] + n[1] <= budget) { /* nothing to do */
    } else if (how->truncation == ACCEL__TRUNCATE_ONLY_FIRST)
      ACCEL_TRY(cut_only(&keep[0], n[0] + n[1] - budget));
    else if (how->truncation == ACCEL__TRUNCATE_ONLY_SECOND)
      ACCEL_TRY(cut_only(&keep[1], n[0] + n[1] - budget));
    else if (pair)
      share_budget(budget, &keep[0], &keep[1]);
    else
      keep[0] = budget;
  }
  out[0] = (parts){0, 0};
  ACCEL_TRY(cut_parts(s, &out[0], n[0], keep[0], how->stride, how->truncate_left));
  out[1] = (parts){out[0].n, 0};
  return pair ? cut_parts(s, &out[1], n[1], keep[1], how->stride, how->truncate_left) : ACCEL_OK;
}

/* ---- post-processor ---- */

/* Moves both ends of a span inwards over `lead` and `trail`, never past each other. */
static accel__span trimmed(accel__span at, uint32_t lead, uint32_t trail) {
  at.start = at.end - at.start > lead ? at.start + lead : at.end;
  if (at.end >= trail) at.end = at.end - at.start > trail ? at.end - trail : at.start;
  return at;
}

static void trim_token(const accel__token *token, bool first, bool prefix_space, accel__span *bytes,
                       accel__span *chars) {
  /* that space was put there, not read */
  bool put = (first || chars->start == 0) && prefix_space && token->lead == 1;
  *bytes = trimmed(*bytes, put ? 0 : token->lead_bytes, token->trail_bytes);
  *chars = trimmed(*chars, put ? 0 : token->lead, token->trail);
}

static void write_token(const accel__tokenizer *t, const accel__token *token, bool first,
                        accel__encoding *out, size_t at) {
  out->ids[at] = token->id;
  out->special[at] = 0;
  out->word_ids[at] = token->word;
  out->bytes[at] = (accel__span){token->start, token->end};
  out->chars[at] = (accel__span){token->start_char, token->end_char};
  for (size_t i = 0; i < t->trims; ++i)
    trim_token(token, first, t->trim_prefix_space[i], &out->bytes[at], &out->chars[at]);
}

/* The package knows of each text only where it occurs last in the template. */
static int8_t sequence_id(const accel__template *template, size_t i) {
  for (size_t j = i + 1; j < template->n; ++j) {
    if (template->piece[j].sequence == template->piece[i].sequence) return -1;
  }
  return (int8_t) template->piece[i].sequence;
}

/* choice[i]: which part (0: the kept one) the i-th text of the template takes. */
static void write_piece(const accel__tokenizer *t, const accel__template *template,
                        const accel__encode_options *how, const accel__encode_scratch *s,
                        const parts p[2], const uint32_t *choice, accel__encoding *out, size_t at) {
  size_t sequence = 0;
  for (size_t i = 0; i < template->n; ++i) {
    const accel__template_piece *piece = &template->piece[i];
    bool special = piece->sequence < 0;
    if (special && !how->add_special_tokens) continue;
    uint32_t chosen = special ? 0 : choice[sequence++];
    const accel__part *part = special ? NULL : &s->part[p[piece->sequence].first + chosen];
    size_t n = special ? piece->n : part->end - part->start;
    int32_t type = piece->type_id;
    int8_t number = special ? -1 : sequence_id(template, i);
    /* Without a post-processor the package loses track of the texts in overflowing pieces of a
     * pair; so do we. */
    if (t->bare && template == &t->pair && (choice[0] || choice[1]))
      number = choice[0] || piece->sequence == 0 ? 0 : -1;
    /* In overflowing parts the package uses the number of the text as type id, whatever the
     * template says; with RobertaProcessing it is 0. */
    if (!special && chosen > 0) type = t->roberta && how->add_special_tokens ? 0 : piece->sequence;
    for (size_t j = 0; j < n; ++j, ++at) {
      if (special) {
        out->ids[at] = piece->ids[j];
        out->special[at] = 1;
        out->word_ids[at] = -1;
        out->bytes[at] = out->chars[at] = (accel__span){0, 0};
      } else {
        write_token(t, &s->tokens[piece->sequence].at[part->start + j], j == 0, out, at);
      }
      out->type_ids[at] = type;
      out->sequence_ids[at] = number;
    }
  }
}

static size_t piece_length(const accel__template *template, bool specials,
                           const accel__encode_scratch *s, const parts p[2],
                           const uint32_t *choice) {
  size_t n = 0, sequence = 0;
  for (size_t i = 0; i < template->n; ++i) {
    const accel__template_piece *piece = &template->piece[i];
    if (piece->sequence < 0) {
      n += specials ? piece->n : 0;
    } else {
      const accel__part *part = &s->part[p[piece->sequence].first + choice[sequence++]];
      n += part->end - part->start;
    }
  }
  return n;
}

/* Which parts meet in which piece.  Piece 0 has all first parts; the order of the others is that of
 * merging one sequence after the other: every overflowing piece so far with all parts of the next,
 * then piece 0 with the next's overflowing parts. */
static accel_status combine(const accel__template *template, const parts p[2],
                            accel__encode_scratch *s, size_t *pieces, size_t *width) {
  size_t n = 1, w = 0, total = 1;
  for (size_t i = 0; i < template->n; ++i) w += template->piece[i].sequence >= 0;
  for (size_t i = 0; i < template->n; ++i) {
    if (template->piece[i].sequence < 0) continue;
    total *= p[template->piece[i].sequence].n;
    if (total > ACCEL__TOKENS_MAX)
      return accel__fail(ACCEL_ERROR_LIMIT,
                         "truncation leaves more than %d overflowing pieces: raise max_length",
                         ACCEL__TOKENS_MAX);
  }
  /* The new list is written behind the old one and moved down. */
  ACCEL_TRY(accel__grow(&s->combination, &s->combination_capacity, 2 * total * (w ? w : 1),
                        sizeof *s->combination));
  uint32_t *list = s->combination, *next = list + total * w;
  memset(list, 0, w * sizeof *list);
  for (size_t i = 0, column = 0; i < template->n; ++i) {
    if (template->piece[i].sequence < 0) continue;
    size_t q = p[template->piece[i].sequence].n, m = 1;
    memcpy(next, list, w * sizeof *list);
    for (size_t from = 1; from <= n; ++from) {
      /* piece 0 comes last, without its own first part */
      const uint32_t *row = list + (from < n ? from : 0) * w;
      for (size_t k = from < n ? 0 : 1; k < q; ++k, ++m) {
        memcpy(next + m * w, row, w * sizeof *row);
        next[m * w + column] = (uint32_t)k;
      }
    }
    n = m;
    memcpy(list, next, n * w * sizeof *list);
    column++;
  }
  *pieces = n;
  *width = w;
  return ACCEL_OK;
}

static accel_status reserve(accel__encoding *out, size_t tokens, size_t pieces) {
  size_t c[7];
  for (int i = 0; i < 7; ++i) c[i] = out->capacity;
  ACCEL_TRY(accel__grow(&out->start, &out->piece_capacity, pieces + 1, sizeof *out->start));
  if (tokens <= out->capacity && out->ids) return ACCEL_OK;
  if (tokens == 0) tokens = 1;
  ACCEL_TRY(accel__grow(&out->ids, &c[0], tokens, sizeof *out->ids));
  ACCEL_TRY(accel__grow(&out->type_ids, &c[1], tokens, sizeof *out->type_ids));
  ACCEL_TRY(accel__grow(&out->special, &c[2], tokens, sizeof *out->special));
  ACCEL_TRY(accel__grow(&out->bytes, &c[3], tokens, sizeof *out->bytes));
  ACCEL_TRY(accel__grow(&out->chars, &c[4], tokens, sizeof *out->chars));
  ACCEL_TRY(accel__grow(&out->word_ids, &c[5], tokens, sizeof *out->word_ids));
  ACCEL_TRY(accel__grow(&out->sequence_ids, &c[6], tokens, sizeof *out->sequence_ids));
  out->capacity = c[0];
  return ACCEL_OK;
}

static accel_status post_process(const accel__tokenizer *t, const accel__encode_options *how,
                                 bool pair, const parts p[2], accel__encoding *out) {
  accel__encode_scratch *s = out->scratch;
  const accel__template *template = pair ? &t->pair : &t->single;
  size_t pieces = 0, width = 0, total = 0;
  ACCEL_TRY(combine(template, p, s, &pieces, &width));
  for (size_t i = 0; i < pieces; ++i) {
    total += piece_length(template, how->add_special_tokens, s, p, s->combination + i * width);
    if (total > INT32_MAX)
      return accel__fail(ACCEL_ERROR_LIMIT,
                         "the overflowing pieces hold more than %d tokens: raise max_length",
                         INT32_MAX);
  }
  ACCEL_TRY(reserve(out, total, pieces));
  out->start[0] = 0;
  for (size_t i = 0; i < pieces; ++i) {
    const uint32_t *choice = s->combination + i * width;
    write_piece(t, template, how, s, p, choice, out, out->start[i]);
    out->start[i + 1] =
        out->start[i] + piece_length(template, how->add_special_tokens, s, p, choice);
  }
  out->pieces = pieces;
  out->n = out->start[1];
  return ACCEL_OK;
}

uint32_t accel__special_token_count(const accel__tokenizer *t, bool pair) {
  return pair ? t->pair.added : t->single.added;
}

accel_status accel__encode(const accel__tokenizer *t, const char *text, size_t n, const char *pair,
                           size_t pair_n, const accel__encode_options *options,
                           accel__encoding *out) {
  accel__encode_options how =
      options ? *options : (accel__encode_options){.add_special_tokens = true};
  out->n = out->pieces = 0;
  if (!out->scratch) out->scratch = calloc(1, sizeof *out->scratch);
  if (!out->scratch) return accel__no_memory(sizeof *out->scratch);
  out->scratch->phonemes = how.phonemes;
  ACCEL_TRY(tokenize_sequence(t, text, n, &how, out->scratch, &out->scratch->tokens[0]));
  if (pair)
    ACCEL_TRY(tokenize_sequence(t, pair, pair_n, &how, out->scratch, &out->scratch->tokens[1]));
  parts p[2];
  ACCEL_TRY(truncate(t, &how, pair != NULL, out->scratch, p));
  return post_process(t, &how, pair != NULL, p, out);
}

void accel__encoding_free(accel__encoding *e) {
  if (!e) return;
  accel__encode_scratch *s = e->scratch;
  if (s) {
    void *owned[] = {s->raw.at,
                     s->chars.at,
                     s->other.at,
                     s->segments.at,
                     s->splits.at,
                     s->other_splits.at,
                     s->tokens[0].at,
                     s->tokens[1].at,
                     s->match,
                     s->change,
                     s->utf8,
                     s->bound,
                     s->hash,
                     s->symbol,
                     s->candidate,
                     s->regex.at,
                     s->best,
                     s->piece,
                     s->joint,
                     s->part,
                     s->combination,
                     s->origin,
                     s};
    accel__word_cache_free(s->word_cache);
    for (size_t i = 0; i < sizeof owned / sizeof *owned; ++i) free(owned[i]);
  }
  void *owned[] = {e->start, e->ids,   e->type_ids, e->special,
                   e->bytes, e->chars, e->word_ids, e->sequence_ids};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; ++i) free(owned[i]);
  *e = (accel__encoding){0};
}
