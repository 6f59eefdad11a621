/* json.c - a strict JSON reader that builds cJSON nodes in one pass, and typed access to their
 * members. */
#include "core/json.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

enum { MAX_DEPTH = 256, MAX_NUMBER = 127 };
static const size_t DEFAULT_MAX_BYTES = (size_t)256 << 20;

/* ---- reading: recursive descent over text[0..n), text[n] == 0; strings are unescaped in place and
 * keep their place ---- */

typedef struct parser {
  char *text;
  size_t n, at;
  /* line from 1, offset of its first byte: newlines occur between tokens only */
  size_t line, line_start;
  int depth;
  const char *name;
  accel__arena *arena;
} parser;

static accel_status wrong(const parser *p, size_t at, const char *what) {
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: line %zu, column %zu: %s%s", p->name, p->line,
                     at - p->line_start + 1, what, at >= p->n ? ", but the text ends here" : "");
}

/* The next byte that is no white space; 0 at the end. */
static char next(parser *p) {
  for (;; p->at++) {
    char c = p->text[p->at];
    if (c == '\n')
      p->line++, p->line_start = p->at + 1;
    else if (c != ' ' && c != '\t' && c != '\r')
      return c;
  }
}

static int hex4(const char *s) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = s[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* \uXXXX, or two of them for one code point beyond U+FFFF, at p->at; adds the UTF-8 to *to. */
static accel_status unicode_escape(parser *p, char **to) {
  size_t start = p->at;
  int code = hex4(p->text + start + 2);
  if (code < 0) return wrong(p, start, "\\u without four hexadecimal digits");
  if (code == 0) return wrong(p, start, "\\u0000 in a string; it would cut the string short");
  p->at += 6;
  if (code >= 0xD800 && code < 0xE000) {
    const char *second = p->text + p->at;
    int low = second[0] == '\\' && second[1] == 'u' ? hex4(second + 2) : -1;
    if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000)
      return wrong(p, start, "half of a surrogate pair in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    p->at += 6;
  }
  *to += accel__utf8_encode((uint32_t)code, *to);
  return ACCEL_OK;
}

static accel_status escape(parser *p, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  char c = p->text[p->at + 1];
  if (c == 'u') return unicode_escape(p, to);
  const char *found = c ? strchr(from, c) : NULL;
  if (!found) return wrong(p, p->at, "unknown escape in a string");
  *(*to)++ = into[found - from];
  p->at += 2;
  return ACCEL_OK;
}

static bool plain(char c) {
  return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* A string whose opening quote is at p->at. */
static accel_status parse_string(parser *p, char **out) {
  char *to = *out = p->text + ++p->at;
  for (;;) {
    size_t run = p->at;
    while (plain(p->text[p->at])) p->at++;
    if (to != p->text + run) memmove(to, p->text + run, p->at - run);
    to += p->at - run;
    char c = p->text[p->at];
    if (c == '"') break;
    if (c == '\\') {
      ACCEL_TRY(escape(p, &to));
    } else if ((unsigned char)c < 0x20) {
      return wrong(
          p, p->at,
          p->at >= p->n ? "expected '\"'" : "control character in a string; it must be escaped");
    } else {
      uint32_t code_point;
      size_t length = accel__utf8_decode(p->text + p->at, p->n - p->at, &code_point);
      if (length == 1)
        return accel__fail(ACCEL_ERROR_FORMAT, "%s: invalid UTF-8 at byte %zu", p->name, p->at);
      memmove(to, p->text + p->at, length);
      to += length;
      p->at += length;
    }
  }
  p->at++;
  *to = 0; /* the closing quote or a byte before it */
  return ACCEL_OK;
}

/* Exact for up to 15 digits and small powers of ten, where one operation rounds once; strtod of the
 * C locale otherwise. */
static double to_double(const char *s, size_t n, uint64_t digits, int count, int exponent) {
  static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (count <= 15 && exponent >= -22 && exponent <= 22) {
    double value =
        exponent < 0 ? (double)digits / power[-exponent] : (double)digits * power[exponent];
    return *s == '-' ? -value : value;
  }
  char copy[MAX_NUMBER + 1];
  memcpy(copy, s, n);
  copy[n] = 0;
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  double value = c ? strtod_l(copy, NULL, c) : strtod(copy, NULL);
  if (c) freelocale(c);
  return value;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits at p->at into *digits and *count (leading zeros not counted); how many there were. */
static size_t take_digits(parser *p, uint64_t *digits, int *count) {
  size_t start = p->at;
  for (; is_digit(p->text[p->at]); p->at++) {
    int digit = p->text[p->at] - '0';
    if (*count < 19) *digits = *digits * 10 + (uint64_t)digit;
    if (*digits) ++*count;
  }
  return p->at - start;
}

static accel_status parse_number(parser *p, cJSON *node) {
  size_t start = p->at;
  const char *s = p->text + start;
  uint64_t digits = 0, power = 0;
  int count = 0, power_count = 0, exponent = 0;
  if (*s == '-') p->at++;
  bool zero = p->text[p->at] == '0';
  size_t whole = take_digits(p, &digits, &count);
  if (!whole) return wrong(p, p->at, "expected a digit");
  if (zero && whole > 1) return wrong(p, start, "a number must not begin with 0");
  if (p->text[p->at] == '.') {
    p->at++;
    size_t fraction = take_digits(p, &digits, &count);
    if (!fraction) return wrong(p, p->at, "expected a digit");
    exponent = -(int)(fraction < 1000 ? fraction : 1000);
  }
  if (p->text[p->at] == 'e' || p->text[p->at] == 'E') {
    char sign = p->text[++p->at];
    if (sign == '+' || sign == '-') p->at++;
    if (!take_digits(p, &power, &power_count)) return wrong(p, p->at, "expected a digit");
    int by = power < 10000 ? (int)power : 10000;
    exponent += sign == '-' ? -by : by;
  }
  if (p->at - start > MAX_NUMBER) return wrong(p, start, "number of more than 127 characters");
  double value = to_double(s, p->at - start, digits, count, exponent);
  node->type = cJSON_Number;
  node->valuestring = p->text + start;
  node->valuedouble = value;
  /* saturates, as cJSON's */
  node->valueint = value >= INT_MAX ? INT_MAX : value <= INT_MIN ? INT_MIN : (int)value;
  return ACCEL_OK;
}

/* true, false, null, and what Python writes for numbers that JSON does not have. */
static bool parse_word(parser *p, cJSON *node) {
  static const struct {
    const char *word;
    int type;
    double value;
  } words[] = {{"true", cJSON_True, 1},
               {"false", cJSON_False, 0},
               {"null", cJSON_NULL, 0},
               {"NaN", cJSON_Number, (double)NAN},
               {"Infinity", cJSON_Number, INFINITY},
               {"-Infinity", cJSON_Number, -INFINITY}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i].word);
    if (p->n - p->at < n || memcmp(p->text + p->at, words[i].word, n)) continue;
    node->type = words[i].type;
    node->valuedouble = words[i].value;
    node->valueint = words[i].value >= 1  ? (words[i].value > 1 ? INT_MAX : 1)
                     : words[i].value < 0 ? INT_MIN
                                          : 0;
    p->at += n;
    return true;
  }
  return false;
}

static accel_status parse_value(parser *p, cJSON *node);

/* Members of an object or items of an array, whose bracket is at p->at. */
static accel_status parse_children(parser *p, cJSON *parent) {
  bool object = p->text[p->at] == '{';
  char end = object ? '}' : ']';
  parent->type = object ? cJSON_Object : cJSON_Array;
  if (p->depth >= MAX_DEPTH) return wrong(p, p->at, "nested deeper than 256 levels");
  p->depth++;
  p->at++;
  if (next(p) == end) return p->at++, p->depth--, ACCEL_OK;
  for (;; p->at++) {
    cJSON *node = accel__arena_alloc(p->arena, sizeof *node), *first = parent->child;
    if (!node) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (!first)
      parent->child = node;
    else
      first->prev->next = node, node->prev = first->prev;
    parent->child->prev = node; /* as cJSON: the first knows the last */
    if (object) {
      if (next(p) != '"') return wrong(p, p->at, "expected a key in double quotes");
      ACCEL_TRY(parse_string(p, &node->string));
      if (next(p) != ':') return wrong(p, p->at, "expected ':'");
      p->at++;
    }
    ACCEL_TRY(parse_value(p, node));
    if (next(p) == end) break;
    if (p->text[p->at] != ',')
      return wrong(p, p->at, object ? "expected ',' or '}'" : "expected ',' or ']'");
  }
  p->at++;
  p->depth--;
  return ACCEL_OK;
}

static accel_status parse_value(parser *p, cJSON *node) {
  char c = next(p);
  if (c == '{' || c == '[') return parse_children(p, node);
  if (c == '"') return node->type = cJSON_String, parse_string(p, &node->valuestring);
  if (is_digit(c) || (c == '-' && p->text[p->at + 1] != 'I')) return parse_number(p, node);
  return parse_word(p, node) ? ACCEL_OK : wrong(p, p->at, "expected a value");
}

static accel_status parse_text(accel__json_file *file, size_t n) {
  parser p = {.text = file->text, .n = n, .line = 1, .name = file->name, .arena = &file->arena};
  if (accel__starts_with(p.text, "version https://git-lfs")) {
    accel__fail(ACCEL_ERROR_FORMAT, "%s: a Git LFS pointer, not the file itself", p.name);
    return accel__remedy(ACCEL_ERROR_FORMAT, "run 'git lfs pull' in the model's directory");
  }
  if (accel__starts_with(p.text, "\xEF\xBB\xBF")) p.at = p.line_start = 3;
  cJSON *root = accel__arena_alloc(p.arena, sizeof *root);
  if (!root) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(parse_value(&p, root));
  next(&p);
  if (p.at < n) return wrong(&p, p.at, "unexpected text behind the value");
  file->root = root;
  return ACCEL_OK;
}

/* Takes over text (malloc'd, text[n] == 0), also on failure. */
static accel_status parse_owned(char *text, size_t n, const char *name, accel__json_file *out) {
  accel__json_file file = {.text = text};
  file.name = accel__arena_string(&file.arena, name);
  accel_status status = file.name ? parse_text(&file, n) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status) accel__json_free(&file);
  *out = file;
  return status;
}

accel_status accel__json_parse(const char *text, size_t n, const char *name,
                               accel__json_file *out) {
  *out = (accel__json_file){0};
  char *copy = n == SIZE_MAX || accel__fault("allocation") ? NULL : malloc(n + 1);
  if (!copy) return accel__no_memory(n);
  if (n) memcpy(copy, text, n);
  copy[n] = 0;
  return parse_owned(copy, n, name, out);
}

accel_status accel__json_read(const char *path, size_t max_bytes, accel__json_file *out) {
  char *text;
  size_t n;
  *out = (accel__json_file){0};
  ACCEL_TRY(accel__file_read(path, max_bytes ? max_bytes : DEFAULT_MAX_BYTES, &text, &n));
  return parse_owned(text, n, path, out);
}

accel_status accel__json_read_beside(const char *directory, const char *name, size_t max_bytes,
                                     accel__json_file *out) {
  accel__arena arena = {0};
  *out = (accel__json_file){0};
  if (!directory) return ACCEL_OK;
  const char *path = accel__path_join(&arena, directory, name);
  accel_status status = path ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  if (path && accel__file_exists(path)) status = accel__json_read(path, max_bytes, out);
  accel__arena_free(&arena);
  return status;
}

accel_status accel__json_read_processor(const char *directory, const char *part,
                                        accel__json_file *file, const accel__json **at) {
  accel__arena arena = {0};
  *at = NULL;
  ACCEL_TRY(accel__json_read_beside(directory, "processor_config.json", 0, file));
  *at = accel__json_get(file->root, part);
  if (*at) return ACCEL_OK;
  accel__json_free(file);
  const char *path = accel__path_join(&arena, directory, "preprocessor_config.json");
  accel_status status = path ? accel__json_read(path, 0, file) : ACCEL_ERROR_OUT_OF_MEMORY;
  *at = file->root;
  accel__arena_free(&arena);
  return status;
}

accel_status accel__json_usual_class(const char *directory, const char *const (*usual)[2], size_t n,
                                     const char **class_name) {
  accel__json_file file;
  const char *type = NULL;
  *class_name = NULL;
  accel_status status = accel__json_read_beside(directory, "config.json", 0, &file);
  if (status == ACCEL_OK) status = accel__json_string(&file, file.root, "model_type", &type);
  if (status == ACCEL_OK && type) *class_name = accel__second_of(usual, n, type);
  accel__json_free(&file);
  return status;
}

void accel__json_free(accel__json_file *file) {
  accel__arena_free(&file->arena);
  free(file->text);
  *file = (accel__json_file){0};
}

/* ---- typed members ---- */

const accel__json *accel__json_get(const accel__json *object, const char *key) {
  const accel__json *found = NULL;
  if (!object || !cJSON_IsObject(object)) return NULL;
  ACCEL_JSON_EACH(member, object) {
    if (!strcmp(member->string, key)) found = member;
  }
  return found && !cJSON_IsNull(found) ? found : NULL;
}

bool accel__json_is_null_or_absent(const accel__json *object, const char *key) {
  return !accel__json_get(object, key);
}

/* "FILE: field 'KEY' is VALUE, expected WHAT" */
static accel_status unexpected(const accel__json_file *file, const accel__json *value,
                               const char *key, const char *what) {
  const char *name = file && file->name ? file->name : "JSON";
  switch (value->type & 0xFF) {
    case cJSON_String: {
      size_t n = strlen(value->valuestring);
      bool cut = n > 60;
      if (cut) n = accel__utf8_cut(value->valuestring, 60);
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is \"%.*s%s\", expected %s", name, key,
                         (int)n, value->valuestring, cut ? "..." : "", what);
    }
    case cJSON_Number:
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is %.15g, expected %s", name, key,
                         value->valuedouble, what);
    default: {
      const char *is = cJSON_IsArray(value)    ? "an array"
                       : cJSON_IsObject(value) ? "an object"
                       : cJSON_IsTrue(value)   ? "true"
                                               : "false";
      return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is %s, expected %s", name, key, is,
                         what);
    }
  }
}

static accel_status outside(const accel__json_file *file, const accel__json *value, const char *key,
                            int64_t min, int64_t max) {
  char what[96];
  if (min == INT64_MIN && max == INT64_MAX)
    snprintf(what, sizeof what, "an integer below 2^53");
  else if (max == INT64_MAX)
    snprintf(what, sizeof what, "an integer of at least %" PRId64, min);
  else if (min == INT64_MIN)
    snprintf(what, sizeof what, "an integer of at most %" PRId64, max);
  else
    snprintf(what, sizeof what, "an integer from %" PRId64 " to %" PRId64, min, max);
  return unexpected(file, value, key, what);
}

accel_status accel__json_int(const accel__json_file *file, const accel__json *object,
                             const char *key, int64_t min, int64_t max, int64_t *out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  double v = value->valuedouble;
  bool exact = cJSON_IsNumber(value) && v > -0x1p53 && v < 0x1p53 && v == (double)(int64_t)v;
  if (!exact || (int64_t)v < min || (int64_t)v > max) return outside(file, value, key, min, max);
  *out = (int64_t)v;
  return ACCEL_OK;
}

accel_status accel__json_number(const accel__json_file *file, const accel__json *object,
                                const char *key, double *out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  if (!cJSON_IsNumber(value)) return unexpected(file, value, key, "a number");
  *out = value->valuedouble;
  return ACCEL_OK;
}

accel_status accel__json_bool(const accel__json_file *file, const accel__json *object,
                              const char *key, bool *out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  if (!cJSON_IsBool(value)) return unexpected(file, value, key, "true or false");
  *out = cJSON_IsTrue(value);
  return ACCEL_OK;
}

accel_status accel__json_string(const accel__json_file *file, const accel__json *object,
                                const char *key, const char **out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  if (!cJSON_IsString(value)) return unexpected(file, value, key, "a string");
  *out = value->valuestring;
  return ACCEL_OK;
}

accel_status accel__json_object(const accel__json_file *file, const accel__json *object,
                                const char *key, const accel__json **out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  if (!cJSON_IsObject(value)) return unexpected(file, value, key, "an object");
  *out = value;
  return ACCEL_OK;
}

accel_status accel__json_array(const accel__json_file *file, const accel__json *object,
                               const char *key, const accel__json **out) {
  const accel__json *value = accel__json_get(object, key);
  if (!value) return ACCEL_OK;
  if (!cJSON_IsArray(value)) return unexpected(file, value, key, "an array");
  *out = value;
  return ACCEL_OK;
}

accel_status accel__json_require(const accel__json_file *file, const accel__json *object,
                                 const char *key) {
  if (accel__json_get(object, key)) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_FORMAT, "%s: field '%s' is missing",
                     file && file->name ? file->name : "JSON", key);
}
