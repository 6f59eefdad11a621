/* scan.c - the large parts of a tokenizer.json (vocabulary, merges) read straight from the bytes.
 *
 * A tree of a 30,000-entry vocabulary costs more time than all the rest of loading, so
 * "model.vocab" and "model.merges" are cut out first, the small rest goes to the JSON reader, and
 * the two are read here, as strictly as JSON asks.
 */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_internal.h"

typedef struct reader {
  const char *at, *end;
  const char *name, *field; /* for messages */
  const char *begin;
  accel__buffer text; /* a string with escapes, decoded */
  const char *string; /* the last string read */
  size_t n;
} reader;

static accel_status broken(const reader *r, const char *expected) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is malformed %zu bytes in: expected %s",
                     r->name, r->field, (size_t)(r->at - r->begin), expected);
}

static void skip_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
    r->at++;
}

static bool take(reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

/* ---- finding the parts ---- */

/* Past the string that begins at r->at; false at the end of the file. */
static bool skip_string(reader *r) {
  for (r->at++; r->at < r->end; ++r->at) {
    if (*r->at == '\\')
      r->at++;
    else if (*r->at == '"')
      return r->at++, true;
    if (r->at >= r->end) break;
  }
  r->at = r->end;
  return false;
}

/* Past one value, by counting brackets; whether it is well formed shows when it is read. */
static bool skip_value(reader *r) {
  size_t depth = 0;
  skip_space(r);
  do {
    if (r->at == r->end) return false;
    char c = *r->at;
    if (c == '"') {
      if (!skip_string(r)) return false;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return false;
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    r->at++;
    if (depth == 0 && c != '}' && c != ']') { /* a number or word ends before the next separator */
      while (r->at < r->end && !strchr(",}] \t\r\n", *r->at)) r->at++;
    }
  } while (depth > 0);
  return true;
}

/* At a member's key: reads it (as written) and the colon. */
static bool member(reader *r) {
  skip_space(r);
  if (r->at == r->end || *r->at != '"') return false;
  r->string = r->at + 1;
  if (!skip_string(r)) return false;
  r->n = (size_t)(r->at - r->string) - 1;
  return take(r, ':');
}

static bool is_key(const reader *r, const char *key) {
  return r->n == strlen(key) && memcmp(r->string, key, r->n) == 0;
}

static void cut_out(reader *r, const char **from, accel__scan *out, const char **part, size_t *n,
                    const char *begin) {
  *part = begin;
  *n = (size_t)(r->at - begin);
  accel__buffer_bytes(&out->rest, *from, (size_t)(begin - *from));
  accel__buffer_text(&out->rest, "null");
  *from = r->at;
}

static bool scan_model(reader *r, const char **from, accel__scan *out) {
  if (!take(r, '{')) return skip_value(r);
  if (take(r, '}')) return true;
  do {
    if (!member(r)) return false;
    bool vocab = is_key(r, "vocab"), merges = is_key(r, "merges");
    skip_space(r);
    const char *begin = r->at;
    if (!skip_value(r)) return false;
    if (vocab && *begin != 'n') cut_out(r, from, out, &out->vocab, &out->vocab_n, begin);
    if (merges && *begin != 'n') cut_out(r, from, out, &out->merges, &out->merges_n, begin);
  } while (take(r, ','));
  return take(r, '}');
}

static bool scan_file(reader *r, const char **from, accel__scan *out) {
  if (!take(r, '{')) return false;
  do {
    if (!member(r)) return false;
    if (!(is_key(r, "model") ? scan_model(r, from, out) : skip_value(r))) return false;
  } while (take(r, ','));
  return take(r, '}');
}

accel_status accel__scan_tokenizer(const char *json, size_t n, const char *name, accel__scan *out) {
  reader r = {.at = json, .end = json + n, .name = name, .field = "model", .begin = json};
  const char *from = json;
  *out = (accel__scan){0};
  /* not JSON, or not an object: the JSON reader finds the words for it */
  if (!scan_file(&r, &from, out)) {
    accel__buffer_free(&out->rest);
    *out = (accel__scan){0};
    from = json;
  }
  accel__buffer_bytes(&out->rest, from, (size_t)(json + n - from));
  return accel__buffer_status(&out->rest);
}

/* ---- reading them ---- */

static bool hex4(const char *at, const char *end, uint32_t *out) {
  *out = 0;
  if (end - at < 4) return false;
  for (int i = 0; i < 4; ++i) {
    char c = at[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return false;
    *out = *out * 16 + (uint32_t)digit;
  }
  return true;
}

/* After \u: one code point, from two escapes when it lies beyond U+FFFF. */
static bool read_unicode(reader *r) {
  uint32_t c, low;
  if (!hex4(r->at, r->end, &c)) return false;
  r->at += 4;
  if (c >= 0xDC00 && c < 0xE000) return false;
  if (c >= 0xD800 && c < 0xDC00) {
    if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u' ||
        !hex4(r->at + 2, r->end, &low) || low < 0xDC00 || low >= 0xE000)
      return false;
    r->at += 6;
    c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
  }
  char bytes[4];
  accel__buffer_bytes(&r->text, bytes, accel__utf8_encode(c, bytes));
  return true;
}

static bool read_escape(reader *r) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at == r->end) return false;
  char c = *r->at++;
  if (c == 'u') return read_unicode(r);
  const char *found = memchr(from, c, 8);
  if (!found) return false;
  accel__buffer_bytes(&r->text, &to[found - from], 1);
  return true;
}

/* A string into r->string, r->n; valid until the next one. */
static accel_status read_string(reader *r) {
  if (!take(r, '"')) return broken(r, "a string");
  const char *begin = r->at;
  bool escaped = false, ascii = true;
  r->text.n = 0;
  while (r->at < r->end && *r->at != '"') {
    uint8_t c = (uint8_t)*r->at;
    if (c < 0x20) return broken(r, "no control character inside a string");
    ascii = ascii && c < 0x80;
    if (c != '\\') {
      r->at++;
      continue;
    }
    escaped = true;
    accel__buffer_bytes(&r->text, begin, (size_t)(r->at++ - begin));
    if (!read_escape(r)) return broken(r, "a valid escape");
    begin = r->at;
  }
  if (r->at == r->end) return broken(r, "the end of a string");
  size_t n = (size_t)(r->at++ - begin);
  if (escaped) accel__buffer_bytes(&r->text, begin, n);
  ACCEL_TRY(accel__buffer_status(&r->text));
  r->string = escaped ? r->text.data : begin;
  r->n = escaped ? r->text.n : n;
  if (escaped && r->n == 0) r->string = "";
  return ascii || accel__utf8_valid(r->string, r->n) ? ACCEL_OK : broken(r, "valid UTF-8");
}

static accel_status read_id(reader *r, int32_t *id) {
  skip_space(r);
  const char *begin = r->at;
  int32_t value = 0;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && value < ACCEL__TOKENS_MAX)
    value = value * 10 + (*r->at++ - '0');
  if (r->at == begin || value >= ACCEL__TOKENS_MAX) return broken(r, "an id from 0 to 4194303");
  *id = value;
  return ACCEL_OK;
}

static bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static accel_status read_score(reader *r, double *out) {
  char text[64];
  size_t n = 0;
  skip_space(r);
  while (r->at < r->end && n + 1 < sizeof text && is_number_char(*r->at)) text[n++] = *r->at++;
  text[n] = 0;
  char *point = strchr(text, '.'), *end; /* strtod obeys the application's locale */
  if (point) *point = *localeconv()->decimal_point;
  *out = strtod(text, &end);
  return n > 0 && *end == 0 ? ACCEL_OK : broken(r, "a number");
}

static reader part(const char *at, size_t n, const char *name, const char *field) {
  return (reader){.at = at, .end = at + n, .name = name, .field = field, .begin = at};
}

static accel_status close_part(reader *r, char bracket) {
  if (!take(r, bracket)) return broken(r, bracket == '}' ? "',' or '}'" : "',' or ']'");
  skip_space(r);
  return r->at == r->end ? ACCEL_OK : broken(r, "nothing more");
}

static accel_status read_vocab_object(reader *r, accel__vocab *out) {
  if (!take(r, '{')) return broken(r, "an object of tokens and ids");
  if (take(r, '}')) return ACCEL_OK;
  do {
    int32_t id = 0;
    ACCEL_TRY(read_string(r));
    if (!take(r, ':')) return broken(r, "':'");
    ACCEL_TRY(read_id(r, &id));
    ACCEL_TRY(accel__vocab_add(out, r->string, r->n, id));
    if (out->n > ACCEL__TOKENS_MAX) return broken(r, "at most 4194304 tokens");
  } while (take(r, ','));
  return close_part(r, '}');
}

accel_status accel__scan_vocab_object(const accel__scan *scan, const char *name,
                                      accel__vocab *out) {
  reader r = part(scan->vocab, scan->vocab_n, name, "model.vocab");
  ACCEL_TRY(accel__vocab_reserve(out, scan->vocab_n / 20)); /* bytes a token takes, about */
  accel_status status = read_vocab_object(&r, out);
  accel__buffer_free(&r.text);
  return status;
}

static accel_status read_vocab_array(reader *r, accel__vocab *out, double **scores) {
  size_t capacity = 0;
  if (!take(r, '[')) return broken(r, "an array of tokens and scores");
  if (take(r, ']')) return ACCEL_OK;
  int32_t id = 0;
  do {
    double score = 0;
    if (!take(r, '[')) return broken(r, "[token, score]");
    ACCEL_TRY(read_string(r));
    ACCEL_TRY(accel__vocab_add(out, r->string, r->n, id));
    if (!take(r, ',')) return broken(r, "[token, score]");
    ACCEL_TRY(read_score(r, &score));
    if (!take(r, ']')) return broken(r, "[token, score]");
    ACCEL_TRY(accel__grow(scores, &capacity, (size_t)id + 1, sizeof **scores));
    (*scores)[id++] = score;
    if (id >= ACCEL__TOKENS_MAX) return broken(r, "at most 4194304 tokens");
  } while (take(r, ','));
  return close_part(r, ']');
}

accel_status accel__scan_vocab_array(const accel__scan *scan, const char *name, accel__vocab *out,
                                     double **scores) {
  reader r = part(scan->vocab, scan->vocab_n, name, "model.vocab");
  ACCEL_TRY(accel__vocab_reserve(out, scan->vocab_n / 36));
  accel_status status = read_vocab_array(&r, out, scores);
  accel__buffer_free(&r.text);
  return status;
}

/* "left right", or ["left", "right"]; *pair holds left, NUL, right.  *skip: a version line. */
static accel_status read_merge(reader *r, accel__buffer *pair, size_t *left_n, bool *skip) {
  pair->n = 0;
  *skip = false;
  if (take(r, '[')) {
    ACCEL_TRY(read_string(r));
    *left_n = r->n;
    accel__buffer_bytes(pair, r->string, r->n);
    accel__buffer_bytes(pair, "", 1);
    if (!take(r, ',')) return broken(r, "two tokens");
    ACCEL_TRY(read_string(r));
    accel__buffer_bytes(pair, r->string, r->n);
    return take(r, ']') ? accel__buffer_status(pair) : broken(r, "two tokens");
  }
  ACCEL_TRY(read_string(r));
  *skip = r->n >= 8 && memcmp(r->string, "#version", 8) == 0;
  const char *space = r->n ? memchr(r->string, ' ', r->n) : NULL;
  if (*skip) return ACCEL_OK;
  if (!space || memchr(space + 1, ' ', r->n - (size_t)(space + 1 - r->string)))
    return broken(r, "two tokens with one space between them");
  *left_n = (size_t)(space - r->string);
  accel__buffer_bytes(pair, r->string, *left_n);
  accel__buffer_bytes(pair, "", 1);
  accel__buffer_bytes(pair, space + 1, r->n - *left_n - 1);
  return accel__buffer_status(pair);
}

static accel_status no_token(const reader *r, const char *token) {
  return accel__fail(ACCEL_ERROR_FORMAT,
                     "%s: field 'model.merges' names '%s', which 'model.vocab' lacks", r->name,
                     token);
}

/* The id of left + right, the right one without the prefix that pieces inside words carry. */
static accel_status add_merge(const reader *r, accel__tokenizer *t, const accel__buffer *pair,
                              size_t left_n, uint32_t rank, accel__buffer *joined) {
  const char *left = pair->data, *right = pair->data + left_n + 1;
  size_t right_n = pair->n - left_n - 1, prefix_n = t->model.prefix_n;
  int32_t a = accel__vocab_id(&t->vocab, left, left_n),
          b = accel__vocab_id(&t->vocab, right, right_n);
  if (a < 0) return no_token(r, left);
  if (b < 0 || right_n < prefix_n) return no_token(r, right);
  joined->n = 0;
  accel__buffer_bytes(joined, left, left_n);
  accel__buffer_bytes(joined, right + prefix_n, right_n - prefix_n);
  ACCEL_TRY(accel__buffer_status(joined));
  int32_t id = joined->n ? accel__vocab_id(&t->vocab, joined->data, joined->n) : -1;
  if (id < 0) return no_token(r, joined->n ? joined->data : "");
  static const char mark[] = "\xE2\x96\x81"; /* U+2581 */
  bool begins = right_n >= 3 && memcmp(right, mark, 3) == 0,
       after = left_n >= 3 && memcmp(left + left_n - 3, mark, 3) == 0;
  t->model.crosses = t->model.crosses || (begins && !after);
  accel__merge_set(&t->model, (uint32_t)a, (uint32_t)b, rank, (uint32_t)id);
  return ACCEL_OK;
}

static accel_status read_merges(reader *r, accel__tokenizer *t, accel__buffer *pair,
                                accel__buffer *joined) {
  if (!take(r, '[')) return broken(r, "an array of merges");
  if (take(r, ']')) return ACCEL_OK;
  skip_space(r);
  /* one of them a merge, and few inside tokens */
  const char sign = r->at < r->end && *r->at == '[' ? '[' : ',';
  size_t n = 1;
  for (const char *at = r->at; (at = memchr(at, sign, (size_t)(r->end - at))) != NULL; ++at) n++;
  if (n > ACCEL__TOKENS_MAX) return broken(r, "at most 4194304 merges");
  ACCEL_TRY(accel__merge_reserve(&t->model, n));
  uint32_t rank = 0;
  do {
    size_t left_n = 0;
    bool skip;
    ACCEL_TRY(read_merge(r, pair, &left_n, &skip));
    /* more merges than were counted: some are pairs, some strings */
    if (rank == n) return broken(r, "merges that are all pairs or all strings");
    if (!skip) ACCEL_TRY(add_merge(r, t, pair, left_n, rank++, joined));
  } while (take(r, ','));
  return close_part(r, ']');
}

accel_status accel__scan_merges(const accel__scan *scan, const char *name, accel__tokenizer *t) {
  reader r = part(scan->merges, scan->merges_n, name, "model.merges");
  accel__buffer pair = {0}, joined = {0};
  accel_status status = read_merges(&r, t, &pair, &joined);
  accel__buffer_free(&r.text);
  accel__buffer_free(&pair);
  accel__buffer_free(&joined);
  return status;
}
