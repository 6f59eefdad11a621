/* jinja_lex.c - a template's text to tokens, as jinja2's lexer cuts it with trim_blocks and
 * lstrip_blocks.
 *
 * Text between tags loses: all white space before a tag that begins with '-' and behind one that
 * ends with '-'; blanks between the start of a line and {% or {# (unless '+' follows); one line
 * feed behind %} and #} (unless '+' precedes).
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef struct lexer {
  accel__arena *arena;
  const char *name;
  const char *text; /* NUL-terminated, line ends are \n */
  size_t n, at;
  uint32_t line;
  bool line_start; /* what came before ended with a line feed */
  accel__jinja_token *token;
  size_t count, capacity;
  char open[ACCEL__JINJA_NESTING]; /* brackets not yet closed */
  int depth;
} lexer;

static accel_status wrong(const lexer *l, const char *what) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %u: %s", l->name, l->line, what);
}

static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (uint8_t)c >= 0x80;
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char at(const lexer *l, size_t k) { return l->at + k < l->n ? l->text[l->at + k] : 0; }
static bool here(const lexer *l, const char *text) {
  size_t n = strlen(text);
  return l->n - l->at >= n && memcmp(l->text + l->at, text, n) == 0;
}

static accel_status push(lexer *l, accel__jinja_token token) {
  if (l->count == l->capacity) {
    size_t more = l->capacity ? 2 * l->capacity : 256;
    accel__jinja_token *grown = accel__arena_array(l->arena, more, sizeof *grown);
    if (!grown) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (l->count) memcpy(grown, l->token, l->count * sizeof *grown);
    l->token = grown;
    l->capacity = more;
  }
  token.line = l->line;
  l->token[l->count++] = token;
  return ACCEL_OK;
}

static void advance(lexer *l, size_t n) {
  for (size_t end = l->at + n; l->at < end; ++l->at) l->line += l->text[l->at] == '\n';
}

static void skip_space(lexer *l) {
  while (l->at < l->n && is_space(l->text[l->at])) advance(l, 1);
}

/* ---- text between tags ---- */

/* The text [from, end) before a tag whose sign is '-', '+' or 0. */
static accel_status push_text(lexer *l, size_t from, size_t end, char sign, bool strips_line) {
  const char *text = l->text + from;
  size_t n = end - from;
  if (sign == '-') {
    while (n > 0 && is_space(text[n - 1])) n--;
  } else if (sign != '+' && strips_line) {
    size_t line = n;
    while (line > 0 && text[line - 1] != '\n' && is_space(text[line - 1])) line--;
    if ((line > 0 && text[line - 1] == '\n') || (line == 0 && l->line_start)) n = line;
  }
  if (n == 0) return ACCEL_OK;
  return push(l, (accel__jinja_token){.kind = ACCEL__J_TOKEN_DATA, .text = text, .n = (uint32_t)n});
}

/* At the end of a tag ("%}" with its sign): moves behind it and what it swallows. */
static void end_tag(lexer *l, bool trims) {
  char sign = l->text[l->at];
  bool minus = sign == '-', plus = sign == '+';
  l->at += minus || plus ? 3 : 2;
  l->line_start = false;
  size_t before = l->at;
  if (minus)
    skip_space(l);
  else if (!plus && trims && at(l, 0) == '\n')
    advance(l, 1);
  l->line_start = l->at > before && l->text[l->at - 1] == '\n';
}

static bool at_end_tag(const lexer *l, char kind) {
  size_t k = at(l, 0) == '-' || (at(l, 0) == '+' && kind != '}');
  return at(l, k) == kind && at(l, k + 1) == '}';
}

static accel_status skip_comment(lexer *l) {
  while (l->at < l->n && !at_end_tag(l, '#')) advance(l, 1);
  if (l->at >= l->n) return wrong(l, "a comment is not closed");
  end_tag(l, true);
  return ACCEL_OK;
}

/* Is this "{% word %}"?  *length gets how far its word goes. */
static bool is_tag(const lexer *l, const char *word, size_t *length) {
  size_t k = 2, n = strlen(word);
  if (!here(l, "{%")) return false;
  if (at(l, k) == '-' || at(l, k) == '+') k++;
  while (is_space(at(l, k))) k++;
  if (l->n - l->at < k + n || memcmp(l->text + l->at + k, word, n) != 0) return false;
  k += n;
  while (is_space(at(l, k))) k++;
  *length = k;
  size_t sign = at(l, k) == '-' || (at(l, k) == '+' && word[0] == 'e');
  return at(l, k + sign) == '%' && at(l, k + sign + 1) == '}';
}

static accel_status raw_block(lexer *l, size_t length) {
  advance(l, length);
  end_tag(l, false);
  size_t from = l->at;
  for (; l->at < l->n; advance(l, 1)) {
    if (!is_tag(l, "endraw", &length)) continue;
    char sign = at(l, 2);
    ACCEL_TRY(push_text(l, from, l->at, sign, true));
    advance(l, length);
    end_tag(l, true);
    return ACCEL_OK;
  }
  return wrong(l, "a raw block is not closed");
}

/* ---- inside tags ---- */

static int hex_digit(char c) {
  return is_digit(c)            ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static accel_status hex_escape(const lexer *l, const char *from, const char *end, int digits,
                               uint32_t *out) {
  *out = 0;
  for (int i = 0; i < digits; ++i) {
    int digit = from + i < end ? hex_digit(from[i]) : -1;
    if (digit < 0) return wrong(l, "a truncated escape in a string");
    *out = *out << 4 | (uint32_t)digit;
  }
  return *out < 0x110000 ? ACCEL_OK : wrong(l, "an escape beyond Unicode in a string");
}

/* Python's unicode-escape; an unknown escape keeps its backslash. */
static accel_status unescape(const lexer *l, const char *from, const char *end, char *to,
                             size_t *n) {
  static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
  char *begin = to;
  while (from < end) {
    if (*from != '\\' || from + 1 == end) {
      *to++ = *from++;
      continue;
    }
    char c = from[1];
    const char *known = memchr(names, c, sizeof names - 1);
    uint32_t code = 0;
    from += 2;
    if (known) {
      *to++ = values[known - names];
    } else if (c == '\n') { /* a line goes on */
    } else if (c >= '0' && c <= '7') {
      code = (uint32_t)(c - '0');
      for (int i = 0; i < 2 && from < end && *from >= '0' && *from <= '7'; ++i)
        code = code * 8 + (uint32_t)(*from++ - '0');
      to += accel__utf8_encode(code, to);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      ACCEL_TRY(hex_escape(l, from, end, digits, &code));
      from += digits;
      if (code >= 0xD800 && code < 0xE000) return wrong(l, "half a surrogate pair in a string");
      to += accel__utf8_encode(code, to);
    } else if (c == 'N') {
      return wrong(l, "\\N{...} in a string is not implemented");
    } else {
      *to++ = '\\';
      *to++ = c;
    }
  }
  *n = (size_t)(to - begin);
  return ACCEL_OK;
}

static accel_status string_token(lexer *l) {
  char quote = at(l, 0);
  size_t end = l->at + 1;
  while (end < l->n && l->text[end] != quote) end += l->text[end] == '\\' ? 2 : 1;
  if (end >= l->n) return wrong(l, "a string is not closed");
  const char *from = l->text + l->at + 1;
  size_t length = end - l->at - 1, n = 0;
  /* an octal escape of two bytes may give two */
  char *to = accel__arena_alloc(l->arena, 2 * length + 1);
  if (!to) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(unescape(l, from, from + length, to, &n));
  ACCEL_TRY(
      push(l, (accel__jinja_token){.kind = ACCEL__J_TOKEN_STRING, .text = to, .n = (uint32_t)n}));
  advance(l, length + 2);
  return ACCEL_OK;
}

/* Digits of a base with single underscores between them; appends them to out[*n], returns bytes
 * read. */
static size_t digits_at(const lexer *l, size_t k, int base, char *out, size_t *n, size_t most) {
  size_t from = k;
  for (;;) {
    size_t step = at(l, k) == '_' && k > from;
    int digit = hex_digit(at(l, k + step));
    if (digit < 0 || digit >= base) return k - from;
    if (*n + 1 < most) out[(*n)++] = at(l, k + step);
    k += step + 1;
  }
}

/* Where a float of digits, fraction and exponent ends; 0 when what is here is none. */
static size_t float_length(const lexer *l, char *out, size_t *n, size_t most) {
  *n = 0;
  size_t k = digits_at(l, 0, 10, out, n, most), fraction = 0, part;
  if (k == 0 || (l->at > 0 && l->text[l->at - 1] == '.')) return 0;
  if (at(l, k) == '.' && is_digit(at(l, k + 1))) {
    if (*n + 1 < most) out[(*n)++] = '.';
    fraction = 1 + digits_at(l, k + 1, 10, out, n, most);
    k += fraction;
  }
  if (at(l, k) == 'e' || at(l, k) == 'E') {
    size_t sign = at(l, k + 1) == '+' || at(l, k + 1) == '-', kept = *n;
    if (*n + 2 < most) out[(*n)++] = 'e';
    if (sign && *n + 1 < most) out[(*n)++] = at(l, k + 1);
    part = digits_at(l, k + 1 + sign, 10, out, n, most);
    if (part) return k + 1 + sign + part;
    *n = kept;
  }
  return fraction ? k : 0;
}

static accel_status number_token(lexer *l) {
  char digits[400];
  size_t n = 0, length = float_length(l, digits, &n, sizeof digits);
  if (length) {
    digits[n] = 0;
    char *point = strchr(digits, '.');
    if (point) *point = *localeconv()->decimal_point;
    ACCEL_TRY(
        push(l, (accel__jinja_token){.kind = ACCEL__J_TOKEN_FLOAT, .real = strtod(digits, NULL)}));
    l->at += length;
    return ACCEL_OK;
  }
  char mark = at(l, 0) == '0' ? at(l, 1) : 0;
  int base = mark == 'x' || mark == 'X'   ? 16
             : mark == 'o' || mark == 'O' ? 8
             : mark == 'b' || mark == 'B' ? 2
                                          : 10;
  n = 0;
  length = digits_at(l, base == 10 ? 0 : 2, base, digits, &n, sizeof digits);
  digits[n] = 0;
  errno = 0;
  long long value = strtoll(digits, NULL, base);
  if (length == 0) return wrong(l, "a number has no digits");
  if (errno || n + 1 >= sizeof digits)
    return wrong(l, "an integer of more than 64 bits is not implemented");
  ACCEL_TRY(push(l, (accel__jinja_token){.kind = ACCEL__J_TOKEN_INT, .number = value}));
  l->at += length + (base == 10 ? 0 : 2);
  return ACCEL_OK;
}

static accel_status bracket(lexer *l, char c) {
  if (c == '(' || c == '[' || c == '{') {
    if (l->depth == ACCEL__JINJA_NESTING) return wrong(l, "brackets are nested too deeply");
    l->open[l->depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (c == ')' || c == ']' || c == '}') {
    if (l->depth == 0 || l->open[--l->depth] != c)
      return wrong(l, "a bracket is closed that was not opened");
  }
  return ACCEL_OK;
}

static accel_status operator_token(lexer *l) {
  static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                          "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                          ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) {
    if (!here(l, operators[i])) continue;
    ACCEL_TRY(bracket(l, operators[i][0]));
    size_t n = strlen(operators[i]);
    ACCEL_TRY(
        push(l, (accel__jinja_token){
                    .kind = ACCEL__J_TOKEN_OPERATOR, .text = operators[i], .n = (uint32_t)n}));
    l->at += n;
    return ACCEL_OK;
  }
  char what[64];
  snprintf(what, sizeof what, "unexpected character '%c'", at(l, 0) >= ' ' ? at(l, 0) : '?');
  return wrong(l, what);
}

static accel_status name_token(lexer *l) {
  size_t n = 0;
  while (is_word(at(l, n))) n++;
  ACCEL_TRY(push(l, (accel__jinja_token){
                        .kind = ACCEL__J_TOKEN_NAME, .text = l->text + l->at, .n = (uint32_t)n}));
  l->at += n;
  return ACCEL_OK;
}

/* From behind "{%" or "{{" to behind its end. */
static accel_status tag(lexer *l, char kind) {
  l->depth = 0;
  while (l->at < l->n) {
    char c = at(l, 0);
    if (l->depth == 0 && at_end_tag(l, kind == '%' ? '%' : '}')) {
      ACCEL_TRY(push(l, (accel__jinja_token){.kind = kind == '%' ? ACCEL__J_TOKEN_BLOCK_END
                                                                 : ACCEL__J_TOKEN_PRINT_END}));
      end_tag(l, kind == '%');
      return ACCEL_OK;
    }
    if (is_space(c))
      skip_space(l);
    else if (is_digit(c))
      ACCEL_TRY(number_token(l));
    else if (is_word(c))
      ACCEL_TRY(name_token(l));
    else if (c == '\'' || c == '"')
      ACCEL_TRY(string_token(l));
    else
      ACCEL_TRY(operator_token(l));
  }
  return wrong(l, kind == '%' ? "a block's '%}' is missing" : "a print's '}}' is missing");
}

static accel_status one_tag(lexer *l, size_t from) {
  size_t length;
  char kind = l->text[l->at + 1], sign = at(l, 2);
  bool raw = is_tag(l, "raw", &length);
  ACCEL_TRY(push_text(l, from, l->at, sign, kind != '{'));
  if (raw) return raw_block(l, length);
  if (kind != '#')
    ACCEL_TRY(push(l, (accel__jinja_token){.kind = kind == '%' ? ACCEL__J_TOKEN_BLOCK
                                                               : ACCEL__J_TOKEN_PRINT}));
  l->at += sign == '-' || sign == '+' ? 3 : 2;
  return kind == '#' ? skip_comment(l) : tag(l, kind);
}

static bool begins_tag(const char *at) {
  return at[0] == '{' && (at[1] == '%' || at[1] == '{' || at[1] == '#');
}

static accel_status lex_all(lexer *l) {
  for (size_t from = l->at; l->at < l->n; from = l->at) {
    while (l->at < l->n && !begins_tag(l->text + l->at)) advance(l, 1);
    if (l->at < l->n)
      ACCEL_TRY(one_tag(l, from));
    else
      ACCEL_TRY(push_text(l, from, l->n, '+', false));
  }
  return push(l, (accel__jinja_token){.kind = ACCEL__J_TOKEN_END});
}

/* Line ends become \n, and one at the very end is dropped. */
static char *normal_lines(accel__arena *arena, const char *text, size_t n, size_t *out_n) {
  char *to = accel__arena_alloc(arena, n + 4);
  size_t k = 0;
  if (!to) return NULL;
  for (size_t i = 0; i < n; ++i) {
    if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') continue;
    to[k++] = text[i];
    if (text[i] == '\r') to[k - 1] = '\n';
  }
  if (k > 0 && to[k - 1] == '\n') k--;
  memset(to + k, 0, n + 4 - k);
  *out_n = k;
  return to;
}

accel_status accel__jinja_lex(accel__arena *arena, const char *text, size_t n, const char *name,
                              accel__jinja_token **out, size_t *count) {
  lexer l = {.arena = arena, .name = name, .line = 1, .line_start = true};
  if (n > ACCEL__JINJA_SOURCE)
    return accel__fail(ACCEL_ERROR_LIMIT,
                       "%s: a template of %zu bytes is larger than the %d allowed", name, n,
                       ACCEL__JINJA_SOURCE);
  if (!accel__utf8_valid(text, n))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: the template is not UTF-8", name);
  l.text = normal_lines(arena, text, n, &l.n);
  if (!l.text) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(lex_all(&l));
  *out = l.token;
  *count = l.count;
  return ACCEL_OK;
}
