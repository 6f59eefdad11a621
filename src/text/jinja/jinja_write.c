/* jinja_write.c - values as text: str() and repr() of Python, json.dumps, % and format. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"
#include "text/unicode.h"

typedef accel__jinja_value value;

/* ---- numbers ---- */

/* printf's digits with a '.' whatever the locale says. */
static void print_double(char *out, size_t n, const char *format, int precision, double real) {
  snprintf(out, n, format, precision, real); /* NOLINT: the formats are ours */
  char *point = strstr(out, localeconv()->decimal_point);
  if (point && *localeconv()->decimal_point) *point = '.';
}

/* The shortest digits that read back as the same number, in the form Python gives them. */
void accel__jinja_write_float(accel__buffer *b, double real) {
  char text[64];
  if (isnan(real) || isinf(real)) {
    accel__buffer_text(b, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
    return;
  }
  int digits = 1;
  for (; digits < 17; ++digits) {
    snprintf(text, sizeof text, "%.*e", digits - 1, real);
    if (strtod(text, NULL) == real) break; /* both in the same locale */
  }
  print_double(text, sizeof text, "%.*e", digits - 1, real);
  int exponent = atoi(strchr(text, 'e') + 1);
  if (real != 0 && (exponent < -4 || exponent >= 16)) {
    char *e = strchr(text, 'e');
    accel__buffer_bytes(b, text, (size_t)(e - text));
    accel__buffer_printf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    return;
  }
  int after = digits - 1 - exponent;
  print_double(text, sizeof text, "%.*f", after > 0 ? after : 0, real);
  accel__buffer_text(b, text);
  if (after <= 0) accel__buffer_text(b, ".0");
}

/* ---- str() and repr() ---- */

static bool prints(uint32_t c) { /* str.isprintable: repr shows it as it is */
  if (c < 0x20 || c == 0x7F) return false;
  if (c < 0x7F) return true;
  unsigned category = accel__unicode(c)->category;
  return category < ACCEL__CATEGORY_ZS;
}

static void repr_string(accel__buffer *b, const char *text, size_t n) {
  bool single = n && memchr(text, '\'', n), twice = n && memchr(text, '"', n);
  char quote = single && !twice ? '"' : '\'';
  accel__buffer_bytes(b, &quote, 1);
  for (size_t i = 0; i < n;) {
    uint32_t c;
    size_t length = accel__utf8_decode(text + i, n - i, &c);
    if (c == (uint8_t)quote || c == '\\')
      accel__buffer_printf(b, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
      accel__buffer_text(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else if (prints(c))
      accel__buffer_bytes(b, text + i, length);
    else
      accel__buffer_printf(b, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    i += length;
  }
  accel__buffer_bytes(b, &quote, 1);
}

static accel_status too_long(accel__jinja *run, const accel__buffer *b) {
  if (b->n > ACCEL__JINJA_OUTPUT)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "a text is longer than %d MiB",
                             ACCEL__JINJA_OUTPUT >> 20);
  return accel__jinja_charge(run, 64);
}

static accel_status repr_items(accel__jinja *run, accel__buffer *b, const accel__jinja_list *list,
                               int depth) {
  for (size_t i = 0; i < list->n; ++i) {
    if (i) accel__buffer_text(b, ", ");
    ACCEL_TRY(accel__jinja_repr(run, b, &list->at[i], depth + 1));
  }
  return ACCEL_OK;
}

static accel_status repr_list(accel__jinja *run, accel__buffer *b, const value *v, int depth) {
  bool is_tuple = v->kind == ACCEL__J_TUPLE;
  if (v->kind == ACCEL__J_VIEW) accel__buffer_printf(b, "%s(", v->list->name);
  accel__buffer_text(b, is_tuple ? "(" : "[");
  ACCEL_TRY(repr_items(run, b, v->list, depth));
  accel__buffer_text(b, is_tuple ? (v->list->n == 1 ? ",)" : ")") : "]");
  if (v->kind == ACCEL__J_VIEW) accel__buffer_text(b, ")");
  return ACCEL_OK;
}

static accel_status repr_dict(accel__jinja *run, accel__buffer *b, const accel__jinja_dict *dict,
                              int depth) {
  accel__buffer_text(b, "{");
  for (size_t i = 0; i < dict->n; ++i) {
    if (i) accel__buffer_text(b, ", ");
    ACCEL_TRY(accel__jinja_repr(run, b, &dict->key[i], depth + 1));
    accel__buffer_text(b, ": ");
    ACCEL_TRY(accel__jinja_repr(run, b, &dict->value[i], depth + 1));
  }
  accel__buffer_text(b, "}");
  return ACCEL_OK;
}

static void repr_range(accel__buffer *b, const accel__jinja_list *list) {
  int64_t first = list->n ? list->at[0].number : 0,
          step = list->n > 1 ? list->at[1].number - first : 1;
  accel__buffer_printf(b, "range(%lld, %lld", (long long)first,
                       (long long)(first + step * (int64_t)list->n));
  if (step != 1) accel__buffer_printf(b, ", %lld", (long long)step);
  accel__buffer_text(b, ")");
}

accel_status accel__jinja_repr(accel__jinja *run, accel__buffer *b, const value *v, int depth) {
  if (depth > ACCEL__JINJA_DEPTH / 2)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "a value is nested too deeply");
  ACCEL_TRY(too_long(run, b));
  switch (v->kind) {
    case ACCEL__J_UNDEFINED:
      accel__buffer_text(b, "Undefined");
      return ACCEL_OK;
    case ACCEL__J_STRING:
      ACCEL_TRY(accel__jinja_charge(run, v->n));
      repr_string(b, v->text, v->n);
      return ACCEL_OK;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
    case ACCEL__J_VIEW:
      return repr_list(run, b, v, depth);
    case ACCEL__J_DICT:
      return repr_dict(run, b, v->dict, depth);
    case ACCEL__J_RANGE:
      repr_range(b, v->list);
      return ACCEL_OK;
    case ACCEL__J_NONE:
      accel__buffer_text(b, "None");
      return ACCEL_OK;
    case ACCEL__J_BOOL:
      accel__buffer_text(b, v->truth ? "True" : "False");
      return ACCEL_OK;
    case ACCEL__J_INT:
      accel__buffer_printf(b, "%lld", (long long)v->number);
      return ACCEL_OK;
    case ACCEL__J_FLOAT:
      accel__jinja_write_float(b, v->real);
      return ACCEL_OK;
    case ACCEL__J_NAMESPACE:
      accel__buffer_text(b, "<Namespace ");
      ACCEL_TRY(repr_dict(run, b, v->dict, depth));
      accel__buffer_text(b, ">");
      return ACCEL_OK;
    default:
      accel__buffer_printf(b, "<%s object>", accel__jinja_type(v));
      return ACCEL_OK;
  }
}

accel_status accel__jinja_write(accel__jinja *run, accel__buffer *b, const value *v) {
  if (v->kind == ACCEL__J_UNDEFINED) return ACCEL_OK;
  if (v->kind != ACCEL__J_STRING) return accel__jinja_repr(run, b, v, 0);
  accel__buffer_bytes(b, v->text, v->n);
  ACCEL_TRY(accel__jinja_charge(run, v->n));
  return too_long(run, b);
}

accel_status accel__jinja_str(accel__jinja *run, const value *v, value *out) {
  accel__buffer b = {0};
  if (v->kind == ACCEL__J_STRING) return *out = *v, ACCEL_OK;
  accel__buffer_text(&b, "");
  accel_status status = accel__jinja_write(run, &b, v);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

/* ---- json.dumps ---- */

typedef struct dumper {
  accel__jinja *run;
  accel__buffer *b;
  bool ascii, sorted, indented;
  value indent, item, colon; /* texts */
} dumper;

static void json_string(const dumper *d, const char *text, size_t n) {
  accel__buffer *b = d->b;
  accel__buffer_text(b, "\"");
  for (size_t i = 0; i < n;) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    uint32_t c;
    size_t length = accel__utf8_decode(text + i, n - i, &c);
    const char *known = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (known)
      accel__buffer_printf(b, "\\%c", to[known - from]);
    else if (c < 0x20)
      accel__buffer_printf(b, "\\u%04x", c);
    else if (c < 0x80 || !d->ascii) /* 0x7F too */
      accel__buffer_bytes(b, text + i, length);
    else if (c < 0x10000)
      accel__buffer_printf(b, "\\u%04x", c);
    else
      accel__buffer_printf(b, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                           0xDC00 + ((c - 0x10000) & 0x3FF));
    i += length;
  }
  accel__buffer_text(b, "\"");
}

static void json_float(accel__buffer *b, double real) {
  if (isnan(real) || isinf(real))
    accel__buffer_text(b, isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
  else
    accel__jinja_write_float(b, real);
}

static void new_line(const dumper *d, int depth) {
  if (!d->indented) return;
  accel__buffer_text(d->b, "\n");
  for (int i = 0; i < depth; ++i) accel__buffer_bytes(d->b, d->indent.text, d->indent.n);
}

static accel_status dump(const dumper *d, const value *v, int depth);

static accel_status dump_list(const dumper *d, const accel__jinja_list *list, int depth) {
  accel__buffer_text(d->b, "[");
  for (size_t i = 0; i < list->n; ++i) {
    if (i) accel__buffer_bytes(d->b, d->item.text, d->item.n);
    new_line(d, depth + 1);
    ACCEL_TRY(dump(d, &list->at[i], depth + 1));
  }
  if (list->n) new_line(d, depth);
  accel__buffer_text(d->b, "]");
  return ACCEL_OK;
}

static accel_status dump_key(const dumper *d, const value *key) {
  accel__buffer text = {0};
  if (key->kind == ACCEL__J_STRING) return json_string(d, key->text, key->n), ACCEL_OK;
  if (key->kind != ACCEL__J_NONE && !accel__jinja_is_number(key))
    return accel__jinja_fail(d->run, ACCEL_ERROR_FORMAT,
                             "keys must be str, int, float, bool or None, not %s",
                             accel__jinja_type(key));
  dumper plain = *d;
  plain.b = &text;
  accel_status status = dump(&plain, key, 0);
  if (status == ACCEL_OK) json_string(d, text.data, text.n);
  accel__buffer_free(&text);
  return status;
}

/* The order of keys: that of insertion, or sorted. */
static accel_status key_order(const dumper *d, const accel__jinja_dict *dict, size_t **out) {
  ACCEL_TRY(accel__jinja_alloc(d->run, dict->n * sizeof **out, out));
  for (size_t i = 0; i < dict->n; ++i) {
    size_t k = i;
    for (; d->sorted && k > 0; --k) {
      int order;
      ACCEL_TRY(accel__jinja_order(d->run, &dict->key[(*out)[k - 1]], &dict->key[i], &order));
      if (order <= 0) break;
      (*out)[k] = (*out)[k - 1];
    }
    (*out)[k] = i;
  }
  return ACCEL_OK;
}

static accel_status dump_dict(const dumper *d, const accel__jinja_dict *dict, int depth) {
  size_t *order;
  ACCEL_TRY(key_order(d, dict, &order));
  accel__buffer_text(d->b, "{");
  for (size_t i = 0; i < dict->n; ++i) {
    if (i) accel__buffer_bytes(d->b, d->item.text, d->item.n);
    new_line(d, depth + 1);
    ACCEL_TRY(dump_key(d, &dict->key[order[i]]));
    accel__buffer_bytes(d->b, d->colon.text, d->colon.n);
    ACCEL_TRY(dump(d, &dict->value[order[i]], depth + 1));
  }
  if (dict->n) new_line(d, depth);
  accel__buffer_text(d->b, "}");
  return ACCEL_OK;
}

static accel_status dump(const dumper *d, const value *v, int depth) {
  if (depth > ACCEL__JINJA_DEPTH / 2)
    return accel__jinja_fail(d->run, ACCEL_ERROR_LIMIT, "a value is nested too deeply");
  ACCEL_TRY(too_long(d->run, d->b));
  switch (v->kind) {
    case ACCEL__J_NONE:
      accel__buffer_text(d->b, "null");
      return ACCEL_OK;
    case ACCEL__J_BOOL:
      accel__buffer_text(d->b, v->truth ? "true" : "false");
      return ACCEL_OK;
    case ACCEL__J_FLOAT:
      json_float(d->b, v->real);
      return ACCEL_OK;
    case ACCEL__J_INT:
      return accel__jinja_repr(d->run, d->b, v, depth);
    case ACCEL__J_STRING:
      ACCEL_TRY(accel__jinja_charge(d->run, v->n));
      json_string(d, v->text, v->n);
      return ACCEL_OK;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
      return dump_list(d, v->list, depth);
    case ACCEL__J_DICT:
      return dump_dict(d, v->dict, depth);
    default:
      return accel__jinja_fail(d->run, ACCEL_ERROR_FORMAT,
                               "Object of type %s is not JSON serializable", accel__jinja_type(v));
  }
}

static value text_value(const char *text) {
  return (value){.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(text), .text = text};
}

static accel_status tojson(accel__jinja *run, const value *self, const accel__jinja_args *a,
                           value *out) {
  accel__buffer b = {0};
  dumper d = {.run = run,
              .b = &b,
              .item = text_value(", "),
              .colon = text_value(": "),
              .indent = text_value("")};
  d.ascii = a->given[0] && accel__jinja_truth(&a->at[0]);
  if (a->given[1] && a->at[1].kind != ACCEL__J_NONE) { /* indent */
    d.indented = true;
    d.item = text_value(",");
    d.indent = a->at[1];
    if (d.indent.kind == ACCEL__J_INT) {
      value space = text_value(" ");
      ACCEL_TRY(accel__jinja_binary(run, '*', &space, &a->at[1], &d.indent));
    }
    if (d.indent.kind != ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "tojson: indent must be a number or a string");
  }
  if (a->given[2] && a->at[2].kind != ACCEL__J_NONE) { /* separators */
    if (!accel__jinja_is_list(&a->at[2]) || a->at[2].list->n != 2 ||
        a->at[2].list->at[0].kind != ACCEL__J_STRING ||
        a->at[2].list->at[1].kind != ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "tojson: separators must be two strings");
    d.item = a->at[2].list->at[0];
    d.colon = a->at[2].list->at[1];
  }
  d.sorted = a->given[3] && accel__jinja_truth(&a->at[3]);
  accel_status status = dump(&d, self, 0);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

const accel__jinja_builtin accel__jinja_tojson = {
    "tojson", "ensure_ascii indent separators sort_keys", tojson};

/* ---- format % values, and "{}".format ---- */

typedef struct spec {
  bool left, zero, plus, space, alternate, comma;
  char align, fill;
  int width, precision; /* precision -1: none */
  char type;
} spec;

static int take_number(const char **at, const char *end) {
  int n = 0;
  while (*at < end && **at >= '0' && **at <= '9') {
    n = n < 100000 ? n * 10 + (**at - '0') : n;
    ++*at;
  }
  return n;
}

static void pad(accel__buffer *b, const char *text, size_t n, const spec *s, bool number) {
  size_t length = accel__jinja_length(text, n),
         fill = s->width > 0 && (size_t)s->width > length ? (size_t)s->width - length : 0;
  char align = s->align  ? s->align
               : s->left ? '<'
               : number  ? '>'
                         : '<',
       c = s->fill ? s->fill : ' ';
  size_t before = align == '>' ? fill : align == '^' ? fill / 2 : 0;
  if (s->zero && number && !s->left && !s->align) { /* zeros go behind the sign */
    size_t sign = n && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
    accel__buffer_bytes(b, text, sign);
    for (size_t i = 0; i < fill; ++i) accel__buffer_text(b, "0");
    accel__buffer_bytes(b, text + sign, n - sign);
    return;
  }
  for (size_t i = 0; i < before; ++i) accel__buffer_bytes(b, &c, 1);
  accel__buffer_bytes(b, text, n);
  for (size_t i = before; i < fill; ++i) accel__buffer_bytes(b, &c, 1);
}

static accel_status bad_format(accel__jinja *run, const char *why) {
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "format: %s", why);
}

/* One number by a type of printf; commas only for %f and %d without precision games. */
static accel_status format_number(accel__jinja *run, accel__buffer *b, const value *v,
                                  const spec *s) {
  char text[512];
  const char *sign = s->plus ? "+" : s->space ? " " : "";
  bool real = s->type && strchr("eEfFgG%", s->type);
  if (!accel__jinja_is_number(v)) return bad_format(run, "a number is required");
  double d = v->kind == ACCEL__J_FLOAT ? v->real
             : v->kind == ACCEL__J_INT ? (double)v->number
                                       : v->truth;
  int64_t i = v->kind == ACCEL__J_FLOAT ? (int64_t)(d > -9e18 && d < 9e18 ? d : 0)
              : v->kind == ACCEL__J_INT ? v->number
                                        : v->truth;
  if (real) {
    char f[8] = {'%', '.', '*', s->type == '%' ? 'f' : s->type, 0};
    int precision = s->precision < 0 ? 6 : s->precision > 200 ? 200 : s->precision;
    text[0] = d >= 0 ? *sign : 0;
    print_double(text + (d >= 0 && *sign), sizeof text - 2, f, precision,
                 s->type == '%' ? 100 * d : d);
    if (s->type == '%') snprintf(text + strlen(text), 2, "%%");
  } else {
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *mark = i < 0 ? "-" : sign;
    const char *base = !s->alternate    ? ""
                       : s->type == 'x' ? "0x"
                       : s->type == 'X' ? "0X"
                       : s->type == 'o' ? "0o"
                                        : "";
    snprintf(text, sizeof text,
             s->type == 'x'   ? "%s%s%llx"
             : s->type == 'X' ? "%s%s%llX"
             : s->type == 'o' ? "%s%s%llo"
                              : "%s%s%llu",
             mark, base, (unsigned long long)size);
  }
  if (s->comma) {
    size_t n = strlen(text), begin = text[0] == '-' || text[0] == '+', end = begin;
    while (text[end] >= '0' && text[end] <= '9') end++;
    for (size_t k = end; k > begin + 3;) {
      k -= 3;
      if (n + 2 > sizeof text) break;
      memmove(text + k + 1, text + k, ++n - k);
      text[k] = ',';
    }
  }
  pad(b, text, strlen(text), s, true);
  return ACCEL_OK;
}

static accel_status format_text(accel__jinja *run, accel__buffer *b, const value *v, const spec *s,
                                bool repr) {
  accel__buffer one = {0};
  accel_status status =
      repr ? accel__jinja_repr(run, &one, v, 0) : accel__jinja_write(run, &one, v);
  size_t n = one.n;
  if (status == ACCEL_OK && s->precision >= 0) {
    size_t kept = 0;
    int count = 0;
    for (; kept < n && count <= s->precision; ++kept)
      count += ((uint8_t)one.data[kept] & 0xC0) != 0x80;
    if (count > s->precision) n = kept - 1;
  }
  if (status == ACCEL_OK)
    pad(b, one.data ? one.data : "", n, s, accel__jinja_is_number(v) && !repr && s->type == 0);
  accel__buffer_free(&one);
  return status;
}

/* The flags, width and precision behind a '%'. */
static spec percent_spec(const char **at, const char *end) {
  spec s = {.precision = -1, .align = 0};
  for (; *at < end && strchr("-+ 0#", **at); ++*at) {
    s.left = s.left || **at == '-';
    s.plus = s.plus || **at == '+';
    s.space = s.space || **at == ' ';
    s.zero = s.zero || **at == '0';
    s.alternate = s.alternate || **at == '#';
  }
  s.width = take_number(at, end);
  if (*at < end && **at == '.') {
    ++*at;
    s.precision = take_number(at, end);
  }
  s.type = *at < end ? *(*at)++ : 0;
  return s;
}

static accel_status percent_value(accel__jinja *run, const value *given, const char **at,
                                  const char *end, size_t *next, const value **out) {
  if (*at < end && **at == '(' && given->kind == ACCEL__J_DICT) {
    const char *close = memchr(*at, ')', (size_t)(end - *at));
    if (!close) return bad_format(run, "incomplete format key");
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)(close - *at - 1), .text = *at + 1};
    ACCEL_TRY(accel__jinja_dict_find(run, given->dict, &key, out));
    *at = close + 1;
    return *out ? ACCEL_OK : bad_format(run, "a key is missing");
  }
  if (given->kind != ACCEL__J_TUPLE) {
    *out = given;
    return (*next)++ == 0 ? ACCEL_OK : bad_format(run, "not enough arguments for format string");
  }
  if (*next >= given->list->n) return bad_format(run, "not enough arguments for format string");
  *out = &given->list->at[(*next)++];
  return ACCEL_OK;
}

static accel_status percent_into(accel__jinja *run, const value *format, const value *given,
                                 accel__buffer *b) {
  const char *at = format->text, *end = at + format->n;
  size_t next = 0;
  bool keyed = false;
  while (at < end) {
    const char *sign = memchr(at, '%', (size_t)(end - at));
    accel__buffer_bytes(b, at, (size_t)((sign ? sign : end) - at));
    if (!sign) break;
    at = sign + 1;
    if (at < end && *at == '%') {
      accel__buffer_text(b, "%");
      at++;
      continue;
    }
    const value *v = NULL;
    keyed = keyed || (at < end && *at == '(');
    ACCEL_TRY(percent_value(run, given, &at, end, &next, &v));
    spec s = percent_spec(&at, end);
    bool text = s.type == 's' || s.type == 'r' || s.type == 'a' ||
                (s.type == 'c' && v->kind == ACCEL__J_STRING);
    if (text) s.align = s.left ? '<' : '>';
    if (text)
      ACCEL_TRY(format_text(run, b, v, &s, s.type == 'r' || s.type == 'a'));
    else if (s.type && strchr("diuxXoeEfFgG", s.type))
      ACCEL_TRY(format_number(run, b, v, &s));
    else
      return bad_format(run, "this conversion is not implemented");
    ACCEL_TRY(too_long(run, b));
  }
  if (given->kind == ACCEL__J_TUPLE ? next < given->list->n
                                    : next == 0 && !keyed && given->kind != ACCEL__J_DICT)
    return bad_format(run, "not all arguments converted during string formatting");
  return ACCEL_OK;
}

accel_status accel__jinja_percent(accel__jinja *run, const value *format, const value *given,
                                  value *out) {
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  accel_status status = percent_into(run, format, given, &b);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static accel_status brace_spec(accel__jinja *run, const char *at, const char *end, spec *s) {
  *s = (spec){.precision = -1};
  if (end - at > 1 && strchr("<>^", at[1])) {
    s->fill = at[0];
    s->align = at[1];
    at += 2;
  } else if (at < end && strchr("<>^", *at)) {
    s->align = *at++;
  }
  if (at < end && strchr("+- ", *at)) {
    s->plus = *at == '+';
    s->space = *at++ == ' ';
  }
  if (at < end && *at == '#') s->alternate = true, at++;
  if (at < end && *at == '0') s->zero = true, at++;
  s->width = take_number(&at, end);
  if (at < end && *at == ',') s->comma = true, at++;
  if (at < end && *at == '.') {
    at++;
    s->precision = take_number(&at, end);
  }
  if (at < end) s->type = *at++;
  return at == end ? ACCEL_OK : bad_format(run, "this format is not implemented");
}

static accel_status brace_value(accel__jinja *run, const accel__jinja_args *a, const char *name,
                                size_t n, size_t *next, value *out) {
  size_t length = 0, index = 0;
  while (length < n && name[length] != '.' && name[length] != '[') length++;
  if (length < n) return bad_format(run, "attributes in {} are not implemented");
  if (n == 0) index = (*next)++;
  if (n > 0 && name[0] >= '0' && name[0] <= '9' && *next > 0)
    return bad_format(run, "{} and {0} are mixed");
  for (size_t i = 0; i < n; ++i) {
    if (name[i] < '0' || name[i] > '9') {
      for (size_t k = 0; k < a->keys; ++k) {
        if (strlen(a->key[k]) == n && memcmp(a->key[k], name, n) == 0)
          return *out = a->key_value[k], ACCEL_OK;
      }
      return bad_format(run, "a key is missing");
    }
    index = index < 100000 ? index * 10 + (size_t)(name[i] - '0') : index;
  }
  if (index >= a->rest_n) return bad_format(run, "an argument is missing");
  *out = a->rest[index];
  return ACCEL_OK;
}

static accel_status brace_into(accel__jinja *run, const value *format, const accel__jinja_args *a,
                               accel__buffer *b) {
  const char *at = format->text, *end = at + format->n;
  size_t next = 0;
  for (; at < end; ++at) {
    if ((*at == '{' || *at == '}') && at + 1 < end && at[1] == *at) {
      accel__buffer_bytes(b, at++, 1);
      continue;
    }
    if (*at == '}') return bad_format(run, "single '}' encountered");
    if (*at != '{') {
      accel__buffer_bytes(b, at, 1);
      continue;
    }
    const char *close = memchr(at, '}', (size_t)(end - at)), *colon, *name_end;
    if (!close) return bad_format(run, "single '{' encountered");
    colon = memchr(at, ':', (size_t)(close - at));
    name_end = colon ? colon : close;
    bool repr = name_end - at > 2 && name_end[-2] == '!' && name_end[-1] == 'r';
    value v;
    spec s;
    ACCEL_TRY(brace_value(run, a, at + 1, (size_t)(name_end - at) - 1 - (repr ? 2 : 0), &next, &v));
    ACCEL_TRY(brace_spec(run, colon ? colon + 1 : close, close, &s));
    bool general = s.type == 0 && v.kind == ACCEL__J_FLOAT && s.precision >= 0;
    if (general) s.type = 'g';
    if (s.type == 'd' || (s.type && strchr("xXoeEfFgG%", s.type)) ||
        (s.comma && v.kind == ACCEL__J_INT))
      ACCEL_TRY(format_number(run, b, &v, &s));
    else
      ACCEL_TRY(format_text(run, b, &v, &s, repr));
    ACCEL_TRY(too_long(run, b));
    at = close;
  }
  return ACCEL_OK;
}

static accel_status format_method(accel__jinja *run, const value *self, const accel__jinja_args *a,
                                  value *out) {
  accel__buffer b = {0};
  accel__buffer_text(&b, "");
  accel_status status = brace_into(run, self, a, &b);
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

const accel__jinja_builtin accel__jinja_format_method = {"format", "* **", format_method};
