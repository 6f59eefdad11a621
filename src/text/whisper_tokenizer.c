/* whisper_tokenizer.c - tokens and timestamps to chunks of text. */
#include "text/whisper_tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/whisper_languages.h"

/* generate() goes on 30 s later where a piece ends in a single timestamp: so much is taken for
 * granted here, too. */
enum { SEGMENT_TIMESTAMPS = 1500 };

typedef struct span {
  double start, end; /* seconds */
} span;

typedef struct list {
  int32_t *id;
  span *time; /* NULL: not known */
  uint32_t n;
} list;

/* The walk through all tokens. */
typedef struct walk {
  const accel__tokenizer *tokenizer;
  accel__arena *arena;
  bool stamps, words;
  double precision;
  int32_t begin;        /* the first timestamp token */
  uint32_t most;        /* tokens of all pieces */
  const char *language; /* last heard of; NULL none */
  list *before, now;    /* token lists that are to be joined, and the one that grows */
  uint32_t n_before;
  accel__whisper_chunk open, *chunk, *word;
  uint32_t n, n_words;
  double offset; /* seconds: where the piece begins */
  bool skip;
  /* of the piece */
  int32_t last; /* first timestamp of its right overlap; 0 none */
  double first; /* timestamps below it lie in its left overlap */
  double highest, before_highest, passed;
} walk;

static double hundredths(double x) {
  char text[64];
  snprintf(text, sizeof text, "%.2f", x);
  return strtod(text, NULL);
}

static accel_status list_new(accel__arena *arena, uint32_t n, bool times, list *out) {
  *out = (list){.id = accel__arena_array(arena, n, sizeof *out->id)};
  if (times) out->time = accel__arena_array(arena, n, sizeof *out->time);
  return out->id && (!times || out->time) ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static void list_add(list *to, list from, uint32_t n) {
  if (n == 0) return;
  memcpy(to->id + to->n, from.id, n * sizeof *to->id);
  if (to->time) memcpy(to->time + to->n, from.time, n * sizeof *to->time);
  to->n += n;
}

static list list_from(list from, uint32_t first) {
  return (list){from.id + first, from.time ? from.time + first : NULL, from.n - first};
}

/* ---- joining ---- */

/* The same token; where times are known, said on the right no earlier than on the left. */
static bool matches(list left, uint32_t i, list right, uint32_t k) {
  if (left.id[i] != right.id[k]) return false;
  if (!left.time) return true;
  const span a = left.time[i], b = right.time[k];
  return a.start < b.start || (a.start == b.start && a.end <= b.end);
}

/* Where right best repeats the end of left: places in both of what they share. */
static void overlap(list left, list right, uint32_t place[4]) {
  double best = 0;
  place[0] = place[1] = left.n;
  place[2] = place[3] = 0;
  for (uint32_t i = 1; i < left.n + right.n; i++) {
    const uint32_t left_from = left.n > i ? left.n - i : 0,
                   right_from = i > left.n ? i - left.n : 0;
    const uint32_t left_to = left.n + right.n - i < left.n ? left.n + right.n - i : left.n;
    const uint32_t right_to = i < right.n ? i : right.n;
    uint32_t same = 0;
    for (uint32_t k = 0; k < left_to - left_from; k++)
      same += matches(left, left_from + k, right, right_from + k);
    const double share = (double)same / i + i / 10000.0; /* long agreement counts a little more */
    if (same <= 1 || share <= best) continue;
    best = share;
    place[0] = left_from;
    place[1] = left_to;
    place[2] = right_from;
    place[3] = right_to;
  }
}

/* The lists joined: of what two share, the left half is the left one's. */
static accel_status join(walk *w, list *out) {
  list left = w->before[0];
  uint32_t all = 0;
  for (uint32_t i = 0; i < w->n_before; i++) all += w->before[i].n;
  ACCEL_TRY(list_new(w->arena, all, w->words, out));
  for (uint32_t i = 1; i <= w->n_before; i++) {
    uint32_t keep = left.n, from = 0, place[4];
    if (i < w->n_before) {
      overlap(left, w->before[i], place);
      keep = (place[0] + place[1]) / 2;
      from = (place[2] + place[3]) / 2;
    }
    list_add(out, left, keep);
    if (i < w->n_before) left = list_from(w->before[i], from);
  }
  return ACCEL_OK;
}

/* ---- chunks ---- */

accel_status accel__whisper_decode(const accel__tokenizer *tokenizer, const int32_t *ids,
                                   uint32_t n, bool special, accel__arena *arena,
                                   const char **out) {
  accel__buffer text = {0};
  accel_status status = accel__decode(tokenizer, ids, n, !special,
                                      accel__tokenizer_describe(tokenizer)->clean_up, &text);
  if (status == ACCEL_OK) status = accel__buffer_status(&text);
  if (status == ACCEL_OK && !(*out = accel__arena_copy(arena, text.data ? text.data : "", text.n)))
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  accel__buffer_free(&text);
  return status;
}

static void open_chunk(walk *w) {
  w->open = (accel__whisper_chunk){.text = "", .start = NAN, .end = NAN};
}

static void forget(walk *w) {
  w->n_before = 0;
  w->now.n = 0;
}

/* The tokens so far are to be joined with what comes. */
static accel_status put_aside(walk *w) {
  list *kept = &w->before[w->n_before++];
  ACCEL_TRY(list_new(w->arena, w->now.n, w->words, kept));
  list_add(kept, w->now, w->now.n);
  w->now.n = 0;
  return ACCEL_OK;
}

/* The words of the open chunk with their times become chunks of their own. */
static accel_status add_words(walk *w, list said) {
  accel__whisper_word *word = accel__arena_array(w->arena, said.n, sizeof *word);
  uint32_t n;
  if (!word) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__whisper_words(w->tokenizer, said.id, said.n,
                                 accel__whisper_has_spaces(w->language), w->arena, word, &n));
  for (uint32_t i = 0; i < n; i++)
    w->word[w->n_words++] = (accel__whisper_chunk){word[i].text, said.time[word[i].first].start,
                                                   said.time[word[i].end - 1].end};
  return ACCEL_OK;
}

static accel_status close_chunk(walk *w) {
  list joined;
  ACCEL_TRY(join(w, &joined));
  ACCEL_TRY(
      accel__whisper_decode(w->tokenizer, joined.id, joined.n, true, w->arena, &w->open.text));
  if (w->words) ACCEL_TRY(add_words(w, joined));
  w->chunk[w->n++] = w->open;
  forget(w);
  open_chunk(w);
  return ACCEL_OK;
}

/* ---- tokens ---- */

/* Only languages matter. */
static accel_status hear_special(walk *w, int32_t id) {
  size_t n = 0;
  const char *token = accel__id_to_token(w->tokenizer, id, &n);
  const char *language = token && n > 4 ? accel__language_name(token + 2, n - 4) : NULL;
  if (!language) return ACCEL_OK;
  if (w->language && language != w->language && !w->stamps) {
    ACCEL_TRY(put_aside(w));
    ACCEL_TRY(close_chunk(w));
  }
  w->language = language;
  return ACCEL_OK;
}

/* Times go back where a new segment begins; how far the ones before it reached is guessed from how
 * they ended. */
static void pass_segments(walk *w, const accel__whisper_piece *p, uint32_t i, double time) {
  if (time < w->highest) {
    const bool single = i >= 2 && !(p->ids[i - 1] >= w->begin && p->ids[i - 2] >= w->begin);
    if (!single) w->highest = w->before_highest;
    w->passed += single ? w->precision * SEGMENT_TIMESTAMPS : w->before_highest;
  }
  w->before_highest = w->highest;
  w->highest = time;
}

static accel_status hear_stamp(walk *w, const accel__whisper_piece *p, uint32_t i) {
  const int32_t id = p->ids[i];
  const double own = (id - w->begin) * w->precision;
  pass_segments(w, p, i, own);
  const double time = hundredths(own + w->offset + w->passed);
  if (w->last && id >= w->last) {
    /* in the right overlap: the next piece tells; stamps come in pairs, so the next one is left
     * out, too */
    w->skip = true;
  } else if (w->skip || (w->n_before && id < w->first)) {
    w->skip = false;
  } else if (isnan(w->open.start)) {
    w->open.start = time;
  } else if (time != w->open.start) { /* the same again is no end */
    w->open.end = time;
    ACCEL_TRY(put_aside(w));
    return close_chunk(w);
  }
  return ACCEL_OK;
}

/* Where the overlaps of a window begin and end, in timestamps. */
static void begin_window(walk *w, const accel__whisper_piece *p) {
  w->offset -= p->left;
  if (p->left > 0) w->first = p->left / w->precision + w->begin;
  for (uint32_t i = p->n; p->right > 0 && i > 0; i--) {
    if (p->ids[i - 1] < w->begin) continue;
    if (w->last && (p->ids[i - 1] - w->begin) * w->precision < p->length - p->right) break;
    w->last = p->ids[i - 1];
  }
}

/* It was said from where the token before it began to where it begins itself, as the pipeline has
 * it. */
static void hear_text(walk *w, const accel__whisper_piece *p, uint32_t i) {
  if (w->words)
    w->now.time[w->now.n] =
        (span){hundredths((i ? (double)p->times[i - 1] : p->before) + w->offset),
               hundredths((double)p->times[i] + w->offset)};
  w->now.id[w->now.n++] = p->ids[i];
}

static accel_status hear_piece(walk *w, const accel__whisper_piece *p) {
  bool any = false;
  if (p->language) w->language = accel__language_name(p->language, strlen(p->language));
  w->last = 0;
  w->first = w->begin;
  w->highest = w->before_highest = w->passed = 0;
  w->now.n = 0;
  if (p->window) begin_window(w, p);
  for (uint32_t i = 0; i < p->n; i++) {
    if (accel__id_is_special(w->tokenizer, p->ids[i]))
      ACCEL_TRY(hear_special(w, p->ids[i]));
    else if (p->ids[i] >= w->begin)
      ACCEL_TRY(hear_stamp(w, p, i));
    else
      hear_text(w, p, i);
  }
  if (p->window) w->offset += p->length - p->right;
  for (uint32_t i = 0; i < w->n_before; i++) any |= w->before[i].n > 0;
  if (w->now.n) return put_aside(w);
  if (any) return ACCEL_OK;
  open_chunk(w);
  forget(w);
  return ACCEL_OK;
}

static accel_status whole_text(walk *w, accel__whisper_text *out) {
  accel__buffer text = {0};
  for (uint32_t i = 0; i < w->n; i++) accel__buffer_text(&text, w->chunk[i].text);
  accel_status status = accel__buffer_status(&text);
  if (status == ACCEL_OK &&
      !(out->text = accel__arena_copy(w->arena, text.data ? text.data : "", text.n)))
    status = ACCEL_ERROR_OUT_OF_MEMORY;
  accel__buffer_free(&text);
  out->chunk = w->words ? w->word : w->chunk;
  out->n = w->words ? w->n_words : w->n;
  return status;
}

static const char no_timestamps[] = "<|notimestamps|>";

accel_status accel__whisper_text_of(const accel__tokenizer *tokenizer,
                                    const accel__whisper_piece *pieces, uint32_t n, bool stamps,
                                    double precision, accel__arena *arena,
                                    accel__whisper_text *out) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < n; i++) most += pieces[i].n;
  walk w = {.tokenizer = tokenizer,
            .arena = arena,
            .stamps = stamps,
            .precision = precision,
            .begin = accel__token_to_id(tokenizer, no_timestamps, sizeof no_timestamps - 1) + 1,
            .before = accel__arena_array(arena, (size_t)n + 2, sizeof *w.before),
            .words = n && pieces[0].times,
            .chunk = accel__arena_array(arena, (size_t)most + 2, sizeof *w.chunk)};
  ACCEL_TRY(list_new(arena, most, w.words, &w.now));
  if (w.words) w.word = accel__arena_array(arena, most, sizeof *w.word);
  if (!w.before || !w.chunk || (w.words && !w.word)) return ACCEL_ERROR_OUT_OF_MEMORY;
  if (w.begin == 0) w.begin = INT32_MAX; /* a tokenizer without timestamps */
  open_chunk(&w);
  for (uint32_t i = 0; i < n; i++) ACCEL_TRY(hear_piece(&w, &pieces[i]));
  if (w.n_before) ACCEL_TRY(close_chunk(&w));
  return whole_text(&w, out);
}

accel_status accel__whisper_spell(const accel__tokenizer *tokenizer, const int32_t *ids, uint32_t n,
                                  accel__arena *arena, const char **out) {
  const int32_t begin = accel__token_to_id(tokenizer, no_timestamps, sizeof no_timestamps - 1) + 1;
  int32_t *kept = accel__arena_array(arena, n, sizeof *kept);
  uint32_t k = 0;
  if (!kept) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n; i++)
    if (!begin || ids[i] < begin) kept[k++] = ids[i];
  return accel__whisper_decode(tokenizer, kept, k, false, arena, out);
}
