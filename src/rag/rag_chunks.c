/* rag_chunks.c - sections to tokens, and tokens to passages that end at boundaries of the text. */
#include "rag/rag_chunks.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT_BYTES = 128, PIECE_BYTES = 32768, MAX_LEVEL = 6 };

/* How good a place is to cut the text. */
enum { NOWHERE, WORD, LINE, PARAGRAPH };

/* A place where the text may be cut: where a token begins, or, inside of what tokens do not divide,
 * every UNIT_BYTES. */
typedef struct unit {
  uint32_t start;
  uint32_t strength;
  uint32_t tokens; /* of the section, in front of it */
} unit;

typedef struct chunker {
  const accel__document *d;
  const accel__chunking *how;
  accel__chunks *out;
  unit *units; /* [n + 1] of a section; the last one is its end */
  uint32_t n, capacity;
  uint32_t tokens; /* of the section so far */
  accel__encoding enc;
  const accel__document_line *heading[MAX_LEVEL + 1]; /* by level; NULL: none */
} chunker;

void accel__chunks_free(accel__chunks *chunks) {
  free(chunks->item);
  accel__arena_free(&chunks->arena);
  *chunks = (accel__chunks){0};
}

accel_status accel__count_tokens(const accel__tokenizer *tokenizer, const char *text, size_t n,
                                 uint32_t *count) {
  accel__encoding enc = {0};
  const accel__encode_options how = {0};
  const accel_status status = accel__encode(tokenizer, text, n, NULL, 0, &how, &enc);
  *count = status == ACCEL_OK ? (uint32_t)enc.n : 0;
  accel__encoding_free(&enc);
  return status;
}

/* ---- units ---- */

static bool ends_sentence(const char *text, uint32_t first, uint32_t at) {
  static const char *const wide[] = {"。", "！", "？"};
  if (at > first && strchr(".!?:;", text[at - 1])) return true;
  for (size_t i = 0; at >= first + 3 && i < sizeof wide / sizeof *wide; i++)
    if (!memcmp(text + at - 3, wide[i], 3)) return true;
  return false;
}

/* Of a cut at `at`, by the white space in front of it; `first` is where the section begins. */
static uint32_t strength_of(const char *text, uint32_t first, uint32_t at) {
  uint32_t before = at, lines = 0;
  while (before > first && accel__is_space(text[before - 1])) lines += text[--before] == '\n';
  if (lines) return lines > 1 ? PARAGRAPH : LINE;
  if (before < at) return ends_sentence(text, first, before) ? LINE : WORD;
  const bool sentence = (unsigned char)text[at] >= 0x80 && ends_sentence(text, first, before) &&
                        (unsigned char)text[at - 1] >= 0x80;
  return sentence ? LINE : NOWHERE;
}

static accel_status push(chunker *c, uint32_t first, uint32_t at) {
  if (c->n == c->capacity) {
    const uint32_t capacity = c->capacity ? 2 * c->capacity : 512;
    unit *more = realloc(c->units, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    c->units = more;
    c->capacity = capacity;
  }
  c->units[c->n++] = (unit){at, strength_of(c->d->text.data, first, at), c->tokens};
  return ACCEL_OK;
}

/* A unit at `at`, behind others as far apart as units may be, each of which counts as a token. */
static accel_status push_up_to(chunker *c, uint32_t first, uint32_t at) {
  const char *text = c->d->text.data;
  while (c->n && at - c->units[c->n - 1].start > UNIT_BYTES) {
    uint32_t between = c->units[c->n - 1].start + UNIT_BYTES;
    while (((unsigned char)text[between] & 0xC0) == 0x80) between--;
    ACCEL_TRY(push(c, first, between));
    c->tokens++;
  }
  return c->n && at <= c->units[c->n - 1].start ? ACCEL_OK : push(c, first, at);
}

/* Where a piece of [at, end) that is tokenized by itself ends: behind a line, else a space. */
static uint32_t piece_end(const char *text, uint32_t at, uint32_t end) {
  if (end - at <= PIECE_BYTES) return end;
  const uint32_t most = at + PIECE_BYTES;
  for (int lines = 1; lines >= 0; lines--)
    for (uint32_t i = most; i > at + PIECE_BYTES / 2; i--)
      if (lines ? text[i - 1] == '\n' : accel__is_space(text[i - 1])) return i;
  uint32_t cut = most;
  while (((unsigned char)text[cut] & 0xC0) == 0x80) cut--;
  return cut;
}

/* The units of bytes [first, end). */
static accel_status section_units(chunker *c, uint32_t first, uint32_t end) {
  const char *text = c->d->text.data;
  const accel__encode_options how = {.ignore_special_in_text = true};
  c->n = c->tokens = 0;
  for (uint32_t at = first, stop; at < end; at = stop) {
    stop = piece_end(text, at, end);
    ACCEL_TRY(accel__encode(c->how->tokenizer, text + at, stop - at, NULL, 0, &how, &c->enc));
    for (size_t t = 0; t < c->enc.n; t++) {
      uint32_t start = at + c->enc.bytes[t].start;
      while (start < stop && accel__is_space(text[start])) start++;
      if (start < stop && ((unsigned char)text[start] & 0xC0) != 0x80)
        ACCEL_TRY(push_up_to(c, first, c->n ? start : first));
      c->tokens++;
    }
  }
  if (!c->n) ACCEL_TRY(push(c, first, first));
  ACCEL_TRY(push_up_to(c, first, end));
  c->n--;
  return ACCEL_OK;
}

/* ---- passages ---- */

/* The headings above, innermost last; outer ones are left out where they are too long together. */
static char *heading_path(chunker *c) {
  accel__buffer b = {0};
  size_t bytes = 0;
  uint32_t level = MAX_LEVEL + 1;
  while (level > 1) {
    const accel__document_line *h = c->heading[level - 1];
    if (h && bytes && bytes + (h->end - h->start) > ACCEL__HEADING_BYTES) break;
    if (h) bytes += h->end - h->start + 3;
    level--;
  }
  for (; level <= MAX_LEVEL; level++) {
    const accel__document_line *h = c->heading[level];
    if (!h) continue;
    if (b.n) accel__buffer_text(&b, " > ");
    accel__buffer_bytes(&b, c->d->text.data + h->start, h->end - h->start);
  }
  char *path = b.failed ? NULL : accel__arena_copy(&c->out->arena, b.n ? b.data : "", b.n);
  accel__buffer_free(&b);
  return path;
}

/* The line of the document that byte `at` is in. */
static uint32_t line_of(const accel__document *d, uint32_t at) {
  uint32_t low = 0, high = d->n;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (d->line[middle].start <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* A passage of bytes [start, end); white space at its ends is left out, but for what indents its
 * first line. */
static accel_status add(chunker *c, uint32_t start, uint32_t end, char *heading, bool with) {
  const char *text = c->d->text.data;
  accel__chunks *out = c->out;
  while (end > start && accel__is_space(text[end - 1])) end--;
  while (start < end && accel__is_space(text[start])) start++;
  if (end == start) return ACCEL_OK;
  uint32_t indented = start;
  while (indented && (text[indented - 1] == ' ' || text[indented - 1] == '\t')) indented--;
  if (start - indented < UNIT_BYTES && (!indented || text[indented - 1] == '\n')) start = indented;
  if (out->n == out->capacity) {
    const uint32_t capacity = out->capacity ? 2 * out->capacity : 16;
    accel__chunk *more = realloc(out->item, capacity * sizeof *more);
    if (!more) return accel__no_memory(capacity * sizeof *more);
    out->item = more;
    out->capacity = capacity;
  }
  out->item[out->n++] = (accel__chunk){.start = start,
                                       .end = end,
                                       .first_line = c->d->line[line_of(c->d, start)].first,
                                       .last_line = c->d->line[line_of(c->d, end - 1)].last,
                                       .heading = heading,
                                       .with_heading = with};
  return ACCEL_OK;
}

/* The unit that a passage of at most `tokens` from unit i on ends before. */
static uint32_t passage_end(const chunker *c, uint32_t i, uint32_t tokens) {
  uint32_t most = i + 1;
  while (most < c->n && c->units[most + 1].tokens - c->units[i].tokens <= tokens) most++;
  if (most == c->n) return most;
  uint32_t best = most;
  for (uint32_t j = most; c->units[j].tokens - c->units[i].tokens > tokens / 2 && j > i; j--)
    if (c->units[j].strength > c->units[best].strength) best = j;
  return best;
}

/* The unit that the next one begins with. */
static uint32_t next_begin(const chunker *c, uint32_t i, uint32_t end, uint32_t overlap) {
  uint32_t from = end;
  while (from > i + 1 && c->units[end].tokens - c->units[from - 1].tokens <= overlap) from--;
  for (uint32_t wanted = LINE; wanted >= WORD; wanted--)
    for (uint32_t j = from; j < end; j++)
      if (c->units[j].strength >= wanted) return j;
  return from;
}

static accel_status cut_section(chunker *c, uint32_t first, uint32_t end) {
  char *heading = heading_path(c);
  uint32_t n_heading = 0, tokens = c->how->tokens - c->how->taken;
  if (!heading) return accel__no_memory(ACCEL__HEADING_BYTES);
  ACCEL_TRY(accel__count_tokens(c->how->tokenizer, heading, strlen(heading), &n_heading));
  const bool with = n_heading && n_heading + 1 <= tokens / 3;
  if (with) tokens -= n_heading + 1;
  ACCEL_TRY(section_units(c, first, end));
  for (uint32_t i = 0, stop = 0; stop < c->n; i = next_begin(c, i, stop, c->how->overlap)) {
    stop = passage_end(c, i, tokens);
    if (c->units[stop].tokens == c->units[i].tokens) continue; /* nothing that a model reads */
    ACCEL_TRY(add(c, c->units[i].start, c->units[stop].start, heading, with));
  }
  return ACCEL_OK;
}

/* Whether lines [from, to) hold more than white space. */
static bool has_text(const accel__document *d, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    for (uint32_t at = d->line[i].start; at < d->line[i].end; at++)
      if (!accel__is_space(d->text.data[at])) return true;
  return false;
}

/* The section of lines [from, to), of which the first is its heading, if it has one.  A heading
 * without text, and without deeper ones behind it, is a passage itself. */
static accel_status take_section(chunker *c, uint32_t from, uint32_t to) {
  const accel__document *d = c->d;
  const uint32_t level = d->line[from].heading, body = from + (level > 0);
  if (has_text(d, body, to)) {
    if (level) c->heading[level] = &d->line[from];
    return cut_section(c, d->line[body].start, d->line[to - 1].end);
  }
  const bool parent = to < d->n && d->line[to].heading > level;
  if (level && !parent) ACCEL_TRY(cut_section(c, d->line[from].start, d->line[from].end));
  if (level) c->heading[level] = &d->line[from];
  return ACCEL_OK;
}

accel_status accel__chunks_make(const accel__document *d, const accel__chunking *how,
                                accel__chunks *out) {
  chunker c = {.d = d, .how = how, .out = out};
  accel_status status = ACCEL_OK;
  *out = (accel__chunks){0};
  for (uint32_t from = 0, to; from < d->n && status == ACCEL_OK; from = to) {
    for (to = from + 1; to < d->n && !d->line[to].heading;) to++;
    for (uint32_t level = d->line[from].heading; level && level <= MAX_LEVEL; level++)
      c.heading[level] = NULL;
    status = take_section(&c, from, to);
  }
  free(c.units);
  accel__encoding_free(&c.enc);
  if (status != ACCEL_OK) accel__chunks_free(out);
  return status;
}
