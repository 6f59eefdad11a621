/* tool_scan.c - looking for what descriptions of tool calls have in texts that may go on. */
#include <string.h>

#include "text/tool_calls.h"

size_t accel__skip_blanks(const char *text, size_t n, size_t at) {
  while (at < n && accel__is_blank(text[at])) at++;
  return at;
}

accel__scan accel__scan_literal(const char *text, size_t n, const char *literal, size_t *at) {
  size_t i = *at;
  for (; *literal; literal++) {
    if (accel__is_blank(*literal)) {
      i = accel__skip_blanks(text, n, i);
      continue;
    }
    if (i == n) return ACCEL__SCAN_MORE;
    if (text[i++] != *literal) return ACCEL__SCAN_NO;
  }
  *at = i;
  return ACCEL__SCAN_YES;
}

accel__scan accel__scan_find(const char *text, size_t n, size_t at, const char *literal,
                             size_t *where, size_t *end) {
  while (accel__is_blank(*literal)) literal++;
  for (; at < n; at++) {
    size_t behind = at;
    const accel__scan found = accel__scan_literal(text, n, literal, &behind);
    if (found == ACCEL__SCAN_NO) continue;
    *where = at;
    *end = behind;
    return found;
  }
  *where = *end = n;
  return ACCEL__SCAN_NO;
}

/* ---- JSON values ---- */

static bool opens(accel__value_scan *s, char c) {
  if (s->depth == ACCEL__VALUE_DEPTH) return false;
  s->close[s->depth++] = c == '{' ? '}' : ']';
  return true;
}

static bool is_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

/* Takes a byte outside of strings; *over: the value has ended before it. */
static bool take(accel__value_scan *s, char c, bool *over) {
  if (s->scalar && !is_scalar(c) && !s->depth) return *over = true;
  if (c == '{' || c == '[') return opens(s, c);
  if (c == '"') return s->in_string = true;
  if (c == '}' || c == ']') return s->depth && s->close[--s->depth] == c;
  if (is_scalar(c)) {
    s->scalar = true;
    return true;
  }
  return accel__is_blank(c) || (s->depth && (c == ',' || c == ':'));
}

accel__scan accel__scan_value(accel__value_scan *s, const char *text, size_t n, size_t *used) {
  for (size_t i = 0; i < n; i++) {
    bool over = false;
    *used = i;
    if (s->in_string) {
      s->in_string = s->escaped || text[i] != '"';
      s->escaped = !s->escaped && text[i] == '\\';
      over = !s->in_string && !s->depth;
      if (over) *used = i + 1;
    } else if (!take(s, text[i], &over)) {
      return ACCEL__SCAN_NO;
    } else if (!over && (text[i] == '}' || text[i] == ']') && !s->depth) {
      over = true;
      *used = i + 1;
    }
    if (over) return ACCEL__SCAN_YES;
  }
  *used = n;
  return ACCEL__SCAN_MORE;
}

/* text[*at..] is a string; *from, *length: its inside. */
static accel__scan scan_string(const char *text, size_t n, size_t *at, size_t *from,
                               size_t *length) {
  accel__value_scan s = {.depth = 0};
  size_t used = 0;
  if (*at == n) return ACCEL__SCAN_MORE;
  if (text[*at] != '"') return ACCEL__SCAN_NO;
  const accel__scan found = accel__scan_value(&s, text + *at, n - *at, &used);
  if (found != ACCEL__SCAN_YES) return found;
  *from = *at + 1;
  *length = used - 2;
  *at += used;
  return found;
}

static bool is_key(const char *text, size_t n, const char *key) {
  return strlen(key) == n && !memcmp(text, key, n);
}

/* The value of one member; *begins: the arguments begin here, and the name is known. */
static accel__scan scan_member(const char *text, size_t n, size_t *at, const char *key,
                               size_t key_n, accel__call_head *out, bool *begins) {
  accel__value_scan s = {.depth = 0};
  size_t used = 0, from, length;
  if (is_key(key, key_n, "name") || is_key(key, key_n, "tool_name")) {
    const accel__scan found = scan_string(text, n, at, &from, &length);
    if (found != ACCEL__SCAN_YES) return found;
    out->name = text + from;
    out->name_n = length;
    return found;
  }
  const bool arguments = is_key(key, key_n, "arguments") || is_key(key, key_n, "parameters");
  if (*at == n) return ACCEL__SCAN_MORE;
  if (arguments && text[*at] != '{' && text[*at] != '"') return ACCEL__SCAN_NO;
  if (arguments) out->arguments = *at;
  if (arguments && out->name && text[*at] == '{') {
    *begins = true;
    return ACCEL__SCAN_YES;
  }
  const accel__scan found = accel__scan_value(&s, text + *at, n - *at, &used);
  if (found == ACCEL__SCAN_YES) *at += used;
  if (found == ACCEL__SCAN_YES && arguments) out->end = *at;
  return found;
}

accel__scan accel__scan_call(const char *text, size_t n, size_t at, accel__call_head *out) {
  *out = (accel__call_head){.name = NULL};
  at = accel__skip_blanks(text, n, at);
  if (at == n) return ACCEL__SCAN_MORE;
  if (text[at++] != '{') return ACCEL__SCAN_NO;
  for (;;) {
    size_t key, key_n;
    bool begins = false;
    at = accel__skip_blanks(text, n, at);
    accel__scan found = scan_string(text, n, &at, &key, &key_n);
    if (found != ACCEL__SCAN_YES) return found;
    at = accel__skip_blanks(text, n, at);
    if ((found = accel__scan_literal(text, n, ": ", &at)) != ACCEL__SCAN_YES) return found;
    found = scan_member(text, n, &at, text + key, key_n, out, &begins);
    if (found != ACCEL__SCAN_YES || begins) return found;
    at = accel__skip_blanks(text, n, at);
    if (at == n) return ACCEL__SCAN_MORE;
    if (text[at] != ',' && text[at] != '}') return ACCEL__SCAN_NO;
    if (text[at++] == ',') continue;
    out->whole = true;
    out->object_end = at;
    return out->name ? ACCEL__SCAN_YES : ACCEL__SCAN_NO;
  }
}
