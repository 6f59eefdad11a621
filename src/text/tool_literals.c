/* tool_literals.c - values of calls that are written in a language's own syntax, as JSON: strings in
 * one of several quotes, lists, objects whose keys may be bare, numbers, and words. */
#include <string.h>

#include "text/tool_calls.h"

enum { DEPTH = 64 };

/* The quote that text[at..n) begins with; NULL: none.  *escapes: a backslash hides the next byte. */
static const char *quote_at(const char *text, size_t n, size_t at, const char *quote,
                            bool *escapes) {
  const size_t m = strlen(quote);
  *escapes = text[at] == '"' || text[at] == '\'';
  if (*escapes) return text[at] == '"' ? "\"" : "'";
  return n - at >= m && !memcmp(text + at, quote, m) ? quote : NULL;
}

/* The end of the string that begins at *at, behind its quote; *inner_end: of its inside.  false: it
 * is not all there. */
static bool skip_string(const char *text, size_t n, const char *quote, bool escapes, size_t *at,
                        size_t *inner_end) {
  const size_t m = strlen(quote);
  for (size_t i = *at + m; i + m <= n; i++) {
    if (escapes && text[i] == '\\') {
      i++;
    } else if (!memcmp(text + i, quote, m)) {
      *inner_end = i;
      *at = i + m;
      return true;
    }
  }
  return false;
}

accel__scan accel__literal_end(const char *text, size_t n, size_t at, const char *quote,
                               size_t *end) {
  uint32_t depth = 0;
  while (at < n) {
    bool escapes;
    size_t inner;
    const char c = text[at], *opened = quote_at(text, n, at, quote, &escapes);
    if (opened) {
      if (!skip_string(text, n, opened, escapes, &at, &inner)) return ACCEL__SCAN_MORE;
      continue;
    }
    if (*quote == c && n - at < strlen(quote)) return ACCEL__SCAN_MORE;
    if (!depth && (c == ',' || c == ')' || c == '}' || c == ']')) {
      *end = at;
      return ACCEL__SCAN_YES;
    }
    if (c == '(' || c == '[' || c == '{') depth++;
    if (depth > DEPTH) return ACCEL__SCAN_NO;
    if (c == ')' || c == ']' || c == '}') depth--;
    at++;
  }
  return ACCEL__SCAN_MORE;
}

/* ---- to JSON ---- */

typedef struct reader {
  const char *text;
  size_t n, at;
  const char *quote;
  accel__buffer *out;
} reader;

static bool read_value(reader *r, uint32_t depth);

static void skip(reader *r) { r->at = accel__skip_blanks(r->text, r->n, r->at); }

static bool take(reader *r, char c) {
  skip(r);
  if (r->at == r->n || r->text[r->at] != c) return false;
  r->at++;
  return true;
}

/* The inside of a string between quotes of one byte, escapes as JSON and Python share them. */
static void write_escaped(const reader *r, size_t from, size_t to) {
  accel__buffer plain = {0};
  for (size_t i = from; i < to; i++) {
    const char c = r->text[i], next = i + 1 < to ? r->text[i + 1] : 0;
    const char *known = c == '\\' && next ? strchr("n\nt\tr\r", next) : NULL;
    if (c != '\\') {
      accel__buffer_bytes(&plain, &c, 1);
    } else if (known && *known != '\n' && *known != '\t' && *known != '\r') {
      accel__buffer_bytes(&plain, known + 1, 1), i++;
    } else if (next == '\\' || next == '\'' || next == '"' || next == '/') {
      accel__buffer_bytes(&plain, &next, 1), i++;
    } else {
      accel__buffer_bytes(&plain, &c, 1);
    }
  }
  accel__buffer_json_string(r->out, plain.data ? plain.data : "", plain.n);
  r->out->failed |= plain.failed;
  accel__buffer_free(&plain);
}

/* JSON's own strings as they are, so that no escape is lost. */
static bool is_json_string(const char *text, size_t n) {
  accel__json_file file = {0};
  const bool is = accel__json_parse(text, n, "string", &file) == ACCEL_OK;
  if (!is) accel__clear_error();
  accel__json_free(&file);
  return is;
}

static bool read_string(reader *r) {
  bool escapes;
  const size_t from = r->at;
  const char *quote = from < r->n ? quote_at(r->text, r->n, from, r->quote, &escapes) : NULL;
  size_t end;
  if (!quote || !skip_string(r->text, r->n, quote, escapes, &r->at, &end)) return false;
  const size_t inside = from + strlen(quote);
  if (*quote == '"' && is_json_string(r->text + from, r->at - from))
    accel__buffer_bytes(r->out, r->text + from, r->at - from);
  else if (escapes)
    write_escaped(r, inside, end);
  else
    accel__buffer_json_string(r->out, r->text + inside, end - inside);
  return true;
}

/* A number, true, false and null, Python's True, False and None; `key`: any other word, as a
 * string. */
static bool read_word(reader *r, bool key) {
  static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
  const char *text = r->text + r->at;
  const size_t n = strcspn(text, " \t\r\n,:(){}[]\"'");
  const size_t m = n < r->n - r->at ? n : r->n - r->at;
  accel__json_file file = {0};
  if (!m) return false;
  r->at += m;
  for (size_t i = 0; i < 3 && !key; i++)
    if (strlen(words[i][0]) == m && !memcmp(text, words[i][0], m))
      return accel__buffer_text(r->out, words[i][1]), true;
  if (key) return accel__buffer_json_string(r->out, text, m), true;
  if (accel__json_parse(text, m, "value", &file) != ACCEL_OK) return accel__clear_error(), false;
  accel__json_free(&file);
  accel__buffer_bytes(r->out, text, m);
  return true;
}

/* Values between brackets, of objects with keys; a comma may be last. */
static bool read_list(reader *r, char close, uint32_t depth) {
  const bool object = close == '}';
  accel__buffer_text(r->out, object ? "{" : "[");
  for (bool first = true; !take(r, close); first = false) {
    if (!first && !take(r, ',')) return false;
    skip(r);
    if (!first && take(r, close)) break;
    if (!first) accel__buffer_text(r->out, ", ");
    if (object) {
      skip(r);
      if (!read_string(r) && !read_word(r, true)) return false;
      if (!take(r, ':')) return false;
      accel__buffer_text(r->out, ": ");
    }
    if (!read_value(r, depth + 1)) return false;
  }
  accel__buffer_text(r->out, object ? "}" : "]");
  return true;
}

static bool read_value(reader *r, uint32_t depth) {
  skip(r);
  if (r->at == r->n || depth > DEPTH) return false;
  const char c = r->text[r->at];
  if (c == '{' || c == '[' || c == '(') {
    r->at++;
    return read_list(r, c == '{' ? '}' : c == '[' ? ']' : ')', depth);
  }
  return read_string(r) || read_word(r, false);
}

bool accel__literal_json(const char *text, size_t n, const char *quote, accel__buffer *out) {
  const size_t before = out->n;
  reader r = {.text = text, .n = n, .quote = quote, .out = out};
  const bool is = read_value(&r, 0);
  skip(&r);
  if (is && r.at == n) return true;
  out->n = before;
  return false;
}
