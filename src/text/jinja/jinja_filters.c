/* jinja_filters.c - filters on single values; those on sequences are in jinja_lists.c. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"
#include "text/jinja/jinja_strings.h"
#include "text/unicode.h"

typedef accel__jinja_value value;
typedef const accel__jinja_args args_t;

static bool absent(args_t *a, int i) { return !a->given[i] || a->at[i].kind == ACCEL__J_NONE; }

static accel_status int_argument(accel__jinja *run, args_t *a, int i, int64_t standard,
                                 int64_t *out) {
  *out = standard;
  if (!a->given[i]) return ACCEL_OK;
  if (a->at[i].kind != ACCEL__J_INT && a->at[i].kind != ACCEL__J_BOOL)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "a filter wants an integer, not '%s'",
                             accel__jinja_type(&a->at[i]));
  *out = a->at[i].kind == ACCEL__J_INT ? a->at[i].number : a->at[i].truth;
  return ACCEL_OK;
}

/* ---- text ---- */

static accel_status with_case(accel__jinja *run, const value *self, char how, value *out) {
  value text;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  return accel__jinja_case(run, &text, how, out);
}
static accel_status f_upper(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, with_case(run, self, 'U', out);
}
static accel_status f_lower(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, with_case(run, self, 'L', out);
}
static accel_status f_capitalize(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, with_case(run, self, 'C', out);
}
static accel_status f_title(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, with_case(run, self, 'W', out);
}
static accel_status f_string(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, accel__jinja_str(run, self, out);
}

static accel_status f_trim(accel__jinja *run, const value *self, args_t *a, value *out) {
  ACCEL_TRY(accel__jinja_str(run, self, out));
  if (!absent(a, 0) && a->at[0].kind != ACCEL__J_STRING)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "trim wants a string");
  accel__jinja_strip(out, absent(a, 0) ? NULL : &a->at[0], true, true);
  return accel__jinja_charge(run, out->n);
}

static accel_status f_replace(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text, from, to;
  int64_t most = -1;
  if (!a->given[0] || !a->given[1])
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "replace wants two strings");
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  ACCEL_TRY(accel__jinja_str(run, &a->at[0], &from));
  ACCEL_TRY(accel__jinja_str(run, &a->at[1], &to));
  if (!absent(a, 2)) ACCEL_TRY(int_argument(run, a, 2, -1, &most));
  return accel__jinja_replace(run, &text, &from, &to, most, out);
}

static accel_status f_center(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text, space = {.kind = ACCEL__J_STRING, .n = 1, .text = " "};
  int64_t width;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  ACCEL_TRY(int_argument(run, a, 0, 80, &width));
  return accel__jinja_pad(run, &text, width, '^', &space, out);
}

static accel_status add_escaped(accel__jinja *run, const value *from, accel__buffer *b) {
  static const char marks[] = "&<>'\"";
  static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  value text;
  ACCEL_TRY(accel__jinja_str(run, from, &text));
  for (size_t i = 0; i < text.n; ++i) {
    const char *found = text.text[i] ? strchr(marks, text.text[i]) : NULL;
    if (found)
      accel__buffer_text(b, to[found - marks]);
    else
      accel__buffer_bytes(b, text.text + i, 1);
  }
  return ACCEL_OK;
}

/* Takes the buffer, or frees it. */
static accel_status taken(accel__jinja *run, accel_status status, accel__buffer *b, value *out) {
  if (status == ACCEL_OK) return accel__jinja_take(run, b, out);
  accel__buffer_free(b);
  return status;
}

static accel_status f_escape(accel__jinja *run, const value *self, args_t *a, value *out) {
  accel__buffer b = {0};
  (void)a;
  accel__buffer_text(&b, "");
  return taken(run, add_escaped(run, self, &b), &b, out);
}

/* key="value" of all values but none and undefined ones; a space before each, before the first one
 * if autospace. */
static accel_status add_attributes(accel__jinja *run, const accel__jinja_dict *dict, bool space,
                                   accel__buffer *b) {
  for (size_t i = 0; i < dict->n; ++i) {
    const value *key = &dict->key[i];
    if (dict->value[i].kind == ACCEL__J_NONE || dict->value[i].kind == ACCEL__J_UNDEFINED) continue;
    if (key->kind != ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "xmlattr wants names, not '%s'",
                               accel__jinja_type(key));
    for (size_t k = 0; k < key->n; ++k)
      if (key->text[k] && strchr(" \t\n\r\f\v/>=", key->text[k]))
        return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                                 "xmlattr: a character in '%.*s' that no attribute's name has",
                                 (int)key->n, key->text);
    if (space) accel__buffer_text(b, " ");
    space = true;
    ACCEL_TRY(add_escaped(run, key, b));
    accel__buffer_text(b, "=\"");
    ACCEL_TRY(add_escaped(run, &dict->value[i], b));
    accel__buffer_text(b, "\"");
  }
  return ACCEL_OK;
}

static accel_status f_xmlattr(accel__jinja *run, const value *self, args_t *a, value *out) {
  accel__buffer b = {0};
  if (self->kind != ACCEL__J_DICT)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "xmlattr wants a dict, not '%s'",
                             accel__jinja_type(self));
  accel__buffer_text(&b, "");
  return taken(run,
               add_attributes(run, self->dict, !a->given[0] || accel__jinja_truth(&a->at[0]), &b),
               &b, out);
}

/* Lines behind the first (or all) get a prefix. */
static accel_status f_indent(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text, prefix = {.kind = ACCEL__J_STRING, .n = 1, .text = " "}, width = accel__jinja_int(4),
              lines;
  bool first = a->given[1] && accel__jinja_truth(&a->at[1]),
       blank = a->given[2] && accel__jinja_truth(&a->at[2]);
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  if (a->given[0] && a->at[0].kind == ACCEL__J_STRING) {
    prefix = a->at[0];
  } else {
    if (a->given[0]) width = a->at[0];
    ACCEL_TRY(accel__jinja_binary(run, '*', &prefix, &width, &prefix));
  }
  value feed = {.kind = ACCEL__J_STRING, .n = 1, .text = "\n"}, whole;
  /* as jinja2: the last line counts though it is empty */
  ACCEL_TRY(accel__jinja_binary(run, '+', &text, &feed, &whole));
  ACCEL_TRY(accel__jinja_splitlines(run, &whole, false, &lines));
  ACCEL_TRY(accel__jinja_charge(run, lines.list->n * prefix.n));
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < lines.list->n && b.n <= ACCEL__JINJA_OUTPUT; ++i) {
    const value *line = &lines.list->at[i];
    if (i) accel__buffer_text(&b, "\n");
    if (i ? blank || line->n : first) accel__buffer_bytes(&b, prefix.text, prefix.n);
    accel__buffer_bytes(&b, line->text, line->n);
  }
  return accel__jinja_take(run, &b, out);
}

static accel_status cut_to(accel__jinja *run, const value *text, int64_t n, value *out) {
  value bounds[3] = {accel__jinja_none(), accel__jinja_int(n), accel__jinja_none()};
  return accel__jinja_slice(run, text, bounds, out);
}

static accel_status f_truncate(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text, end = {.kind = ACCEL__J_STRING, .n = 3, .text = "..."}, kept;
  int64_t length, leeway;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  ACCEL_TRY(int_argument(run, a, 0, 255, &length));
  if (a->given[2]) ACCEL_TRY(accel__jinja_str(run, &a->at[2], &end));
  leeway = 5;
  if (!absent(a, 3)) ACCEL_TRY(int_argument(run, a, 3, 5, &leeway));
  int64_t end_n = (int64_t)accel__jinja_length(end.text, end.n);
  if (length < end_n || leeway < 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "truncate: expected length >= %lld",
                             (long long)end_n);
  if ((int64_t)accel__jinja_length(text.text, text.n) <= length + leeway)
    return *out = text, ACCEL_OK;
  ACCEL_TRY(cut_to(run, &text, length - end_n, &kept));
  if (!a->given[1] || !accel__jinja_truth(&a->at[1])) { /* whole words: up to the last space */
    const char *space = kept.n ? memrchr(kept.text, ' ', kept.n) : NULL;
    if (space) kept.n = (uint32_t)(space - kept.text);
  }
  return accel__jinja_binary(run, '+', &kept, &end, out);
}

static accel_status f_wordcount(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text;
  int64_t n = 0;
  bool inside = false;
  (void)a;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  for (size_t i = 0; i < text.n;) {
    uint32_t c;
    i += accel__utf8_decode(text.text + i, text.n - i, &c);
    unsigned k = accel__unicode(c)->category; /* \w of Python: letters, numbers, the underscore */
    bool word =
        k <= ACCEL__CATEGORY_LO || (k >= ACCEL__CATEGORY_ND && k <= ACCEL__CATEGORY_NO) || c == '_';
    n += word && !inside;
    inside = word;
  }
  *out = accel__jinja_int(n);
  return ACCEL_OK;
}

static accel_status f_urlencode(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text;
  accel__buffer b = {0};
  (void)a;
  if (self->kind == ACCEL__J_DICT || accel__jinja_is_list(self))
    return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                             "urlencode of a mapping is not implemented");
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < text.n; ++i) {
    uint8_t c = (uint8_t)text.text[i];
    bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                 (c && strchr("_.-~/", c));
    if (plain)
      accel__buffer_bytes(&b, &text.text[i], 1);
    else
      accel__buffer_printf(&b, "%%%02X", c);
  }
  return accel__jinja_take(run, &b, out);
}

/* Tags and comments go, white space becomes one blank. */
static accel_status f_striptags(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text;
  accel__buffer b = {0};
  (void)a;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  if (text.n && memchr(text.text, '&', text.n))
    return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                             "striptags of text with entities is not implemented");
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < text.n; ++i) {
    size_t left = text.n - i;
    const char *at = text.text + i, *end = NULL;
    if (left >= 4 && memcmp(at, "<!--", 4) == 0) {
      end = memmem(at, left, "-->", 3);
      if (end) end += 2;
    } else if (*at == '<') {
      end = memchr(at, '>', left);
    }
    if (end)
      i = (size_t)(end - text.text);
    else
      accel__buffer_bytes(&b, at, 1);
  }
  value plain;
  accel__buffer joined = {0};
  ACCEL_TRY(accel__jinja_take(run, &b, &plain));
  accel__buffer_text(&joined, "");
  accel__jinja_strip(&plain, NULL, true, true);
  for (size_t i = 0; i < plain.n;) {
    value rest = {.kind = ACCEL__J_STRING, .n = (uint32_t)(plain.n - i), .text = plain.text + i};
    accel__jinja_strip(&rest, NULL, true, false);
    if (rest.n < plain.n - i) {
      accel__buffer_text(&joined, " ");
      i = plain.n - rest.n;
      continue;
    }
    accel__buffer_bytes(&joined, plain.text + i, 1);
    i++;
  }
  return accel__jinja_take(run, &joined, out);
}

static accel_status f_filesizeformat(accel__jinja *run, const value *self, args_t *a, value *out) {
  static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                           *const binary[] = {"KiB", "MiB", "GiB", "TiB",
                                              "PiB", "EiB", "ZiB", "YiB"};
  bool two = a->given[0] && accel__jinja_truth(&a->at[0]);
  double base = two ? 1024 : 1000,
         bytes = self->kind == ACCEL__J_FLOAT ? self->real
                 : self->kind == ACCEL__J_INT ? (double)self->number
                                              : 0,
         unit = base;
  char text[64];
  if (self->kind != ACCEL__J_FLOAT && self->kind != ACCEL__J_INT)
    return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                             "filesizeformat of '%s' is not implemented", accel__jinja_type(self));
  if (bytes == 1) return accel__jinja_string(run, "1 Byte", 6, out);
  if (bytes < base) {
    snprintf(text, sizeof text, "%lld Bytes", (long long)bytes);
  } else {
    int i = 0;
    while (i < 7 && bytes >= unit * base) {
      unit *= base;
      i++;
    }
    snprintf(text, sizeof text, "%.1f %s", bytes / unit, two ? binary[i] : units[i]);
    char *point = strstr(text, localeconv()->decimal_point);
    if (point) *point = '.';
  }
  return accel__jinja_string(run, text, strlen(text), out);
}

/* ---- numbers ---- */

static double number_of(const value *v) {
  return v->kind == ACCEL__J_FLOAT ? v->real
         : v->kind == ACCEL__J_INT ? (double)v->number
                                   : v->truth;
}

/* The number a text says, white space around and underscores inside allowed. */
static bool parse_float(const value *text, double *out) {
  char digits[128];
  size_t n = 0;
  value v = *text;
  accel__jinja_strip(&v, NULL, true, true);
  for (size_t i = 0; i < v.n; ++i) {
    if (v.text[i] == '_') continue;
    if (n + 1 == sizeof digits || v.text[i] == 'x' || v.text[i] == 'X' || v.text[i] == '(')
      return false;
    digits[n++] = v.text[i] == '.' ? *localeconv()->decimal_point : v.text[i];
  }
  digits[n] = 0;
  char *end;
  *out = strtod(digits, &end);
  return n > 0 && *end == 0;
}

static bool parse_int(const value *text, int base, int64_t *out) {
  char digits[80];
  size_t n = 0;
  value v = *text;
  accel__jinja_strip(&v, NULL, true, true);
  for (size_t i = 0; i < v.n; ++i) {
    if (v.text[i] == '_') continue;
    if (n + 1 == sizeof digits) return false;
    digits[n++] = v.text[i];
  }
  digits[n] = 0;
  char *at = digits, *end;
  bool minus = *at == '-';
  if (*at == '-' || *at == '+') at++;
  if (at[0] == '0' && at[1] &&
      ((base == 16 && strchr("xX", at[1])) || (base == 8 && strchr("oO", at[1])) ||
       (base == 2 && strchr("bB", at[1]))))
    at += 2;
  if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')))
    return false;
  errno = 0;
  long long got = strtoll(at, &end, base);
  if (*end || errno) return false;
  *out = minus ? -got : got;
  return true;
}

static accel_status f_int(accel__jinja *run, const value *self, args_t *a, value *out) {
  int64_t number, base;
  double real = NAN;
  *out = a->given[0] ? a->at[0] : accel__jinja_int(0);
  ACCEL_TRY(int_argument(run, a, 1, 10, &base));
  if (base < 2 || base > 36) return ACCEL_OK;
  if (self->kind == ACCEL__J_UNDEFINED)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)self->n,
                             self->n ? self->text : "");
  if (self->kind == ACCEL__J_INT) return *out = *self, ACCEL_OK;
  if (self->kind == ACCEL__J_STRING && parse_int(self, (int)base, &number))
    return *out = accel__jinja_int(number), ACCEL_OK;
  if (accel__jinja_is_number(self)) real = number_of(self);
  if (self->kind == ACCEL__J_STRING && !parse_float(self, &real)) real = NAN;
  if (real > -9.2e18 && real < 9.2e18) *out = accel__jinja_int((int64_t)real);
  return ACCEL_OK;
}

static accel_status f_float(accel__jinja *run, const value *self, args_t *a, value *out) {
  double real;
  *out = a->given[0] ? a->at[0] : (value){.kind = ACCEL__J_FLOAT, .real = 0};
  if (self->kind == ACCEL__J_UNDEFINED)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)self->n,
                             self->n ? self->text : "");
  if (accel__jinja_is_number(self))
    real = number_of(self);
  else if (self->kind != ACCEL__J_STRING || !parse_float(self, &real))
    return ACCEL_OK;
  *out = (value){.kind = ACCEL__J_FLOAT, .real = real};
  return ACCEL_OK;
}

static accel_status f_abs(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  if (!accel__jinja_is_number(self))
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "bad operand type for abs(): '%s'",
                             accel__jinja_type(self));
  if (self->kind == ACCEL__J_FLOAT)
    return *out = (value){.kind = ACCEL__J_FLOAT, .real = fabs(self->real)}, ACCEL_OK;
  int64_t n = self->kind == ACCEL__J_INT ? self->number : self->truth;
  *out = accel__jinja_int(n < 0 && n != INT64_MIN ? -n : n);
  return ACCEL_OK;
}

/* Rounds as Python does: the decimal text of the number, halves to even. */
static accel_status f_round(accel__jinja *run, const value *self, args_t *a, value *out) {
  int64_t precision;
  if (!accel__jinja_is_number(self))
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "round wants a number, not '%s'",
                             accel__jinja_type(self));
  ACCEL_TRY(int_argument(run, a, 0, 0, &precision));
  const value *how = a->given[1] ? &a->at[1] : NULL;
  bool common = !how || accel__jinja_is(how, "common"), up = how && accel__jinja_is(how, "ceil");
  if (!common && !up && !accel__jinja_is(how, "floor"))
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "method must be common, ceil or floor");
  double real = number_of(self);
  if (precision < -300 || precision > 300) return *out = *self, ACCEL_OK;
  if (common && self->kind != ACCEL__J_FLOAT && precision >= 0)
    return *out = *self,
           out->kind == ACCEL__J_BOOL ? (*out = accel__jinja_int(self->truth), ACCEL_OK) : ACCEL_OK;
  if (!common) {
    double scale = pow(10, (double)precision);
    real = (up ? ceil(real * scale) : floor(real * scale)) / scale;
  } else if (precision >= 0) {
    char text[700];
    snprintf(text, sizeof text, "%.*f", (int)precision, real);
    real = strtod(text, NULL);
  } else {
    double scale = pow(10, (double)-precision);
    real = nearbyint(real / scale) * scale;
    if (self->kind != ACCEL__J_FLOAT) return *out = accel__jinja_int((int64_t)real), ACCEL_OK;
  }
  *out = (value){.kind = ACCEL__J_FLOAT, .real = real};
  return ACCEL_OK;
}

/* ---- any value ---- */

static accel_status f_default(accel__jinja *run, const value *self, args_t *a, value *out) {
  bool falsy = a->given[1] && accel__jinja_truth(&a->at[1]);
  if (self->kind != ACCEL__J_UNDEFINED && !(falsy && !accel__jinja_truth(self)))
    return *out = *self, ACCEL_OK;
  if (!a->given[0]) return accel__jinja_string(run, "", 0, out);
  *out = a->at[0];
  return ACCEL_OK;
}

static accel_status f_attr(accel__jinja *run, const value *self, args_t *a, value *out) {
  if (!a->given[0] || a->at[0].kind != ACCEL__J_STRING)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "attr wants a name");
  /* items are no attributes */
  if (self->kind == ACCEL__J_DICT &&
      !accel__jinja_find(accel__jinja_dict_methods, a->at[0].text, a->at[0].n)) {
    ACCEL_TRY(accel__jinja_string(run, a->at[0].text, a->at[0].n, out));
    out->kind = ACCEL__J_UNDEFINED;
    return ACCEL_OK;
  }
  return accel__jinja_attr(run, self, a->at[0].text, a->at[0].n, out);
}

static accel_status f_format(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text, given;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  if (a->keys) {
    ACCEL_TRY(accel__jinja_dict_new(run, a->keys, &given));
    for (size_t i = 0; i < a->keys; ++i) {
      value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(a->key[i]), .text = a->key[i]};
      ACCEL_TRY(accel__jinja_dict_set(run, given.dict, key, a->key_value[i]));
    }
  } else {
    ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, a->rest_n, &given));
    for (size_t i = 0; i < a->rest_n; ++i)
      ACCEL_TRY(accel__jinja_push(run, given.list, a->rest[i]));
  }
  return accel__jinja_percent(run, &text, &given, out);
}

/* safe: nothing is escaped here */
static accel_status f_same(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)run, (void)a;
  return *out = *self, ACCEL_OK;
}

static accel_status f_tojson(accel__jinja *run, const value *self, args_t *a, value *out) {
  return accel__jinja_tojson.fn(run, self, a, out);
}

const accel__jinja_builtin accel__jinja_filters[] = {
    {"abs", "", f_abs},
    {"attr", "name", f_attr},
    {"capitalize", "", f_capitalize},
    {"center", "width", f_center},
    {"d", "default_value boolean", f_default},
    {"default", "default_value boolean", f_default},
    {"e", "", f_escape},
    {"escape", "", f_escape},
    {"filesizeformat", "binary", f_filesizeformat},
    {"float", "default", f_float},
    {"forceescape", "", f_escape},
    {"format", "* **", f_format},
    {"indent", "width first blank", f_indent},
    {"int", "default base", f_int},
    {"lower", "", f_lower},
    {"replace", "old new count", f_replace},
    {"round", "precision method", f_round},
    {"safe", "", f_same},
    {"string", "", f_string},
    {"striptags", "", f_striptags},
    {"title", "", f_title},
    {"tojson", "ensure_ascii indent separators sort_keys", f_tojson},
    {"trim", "chars", f_trim},
    {"truncate", "length killwords end leeway", f_truncate},
    {"upper", "", f_upper},
    {"urlencode", "", f_urlencode},
    {"wordcount", "", f_wordcount},
    {"xmlattr", "autospace", f_xmlattr},
    {NULL, NULL, NULL},
};

const accel__jinja_builtin *accel__jinja_filter(const char *name, size_t n) {
  const accel__jinja_builtin *found = accel__jinja_find(accel__jinja_filters, name, n);
  return found ? found : accel__jinja_find(accel__jinja_list_filters, name, n);
}
