/* jinja_ops.c - operators, attributes, items and slices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef accel__jinja_value value;

static accel_status no_operator(accel__jinja *run, char op, const value *a, const value *b) {
  const value *u = a->kind == ACCEL__J_UNDEFINED ? a : b;
  if (u->kind == ACCEL__J_UNDEFINED)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)u->n,
                             u->n ? u->text : "");
  const char *text = op == 'f' ? "//" : op == 'p' ? "**" : (char[]){op, 0};
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                           "unsupported operand types for %s: '%s' and '%s'", text,
                           accel__jinja_type(a), accel__jinja_type(b));
}

static accel_status too_large(accel__jinja *run) {
  return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                           "an integer of more than 64 bits is not implemented");
}

/* ---- numbers ---- */

static int64_t as_int(const value *v) { return v->kind == ACCEL__J_BOOL ? v->truth : v->number; }
static double as_double(const value *v) {
  return v->kind == ACCEL__J_FLOAT ? v->real : (double)as_int(v);
}

static accel_status int_power(accel__jinja *run, int64_t base, int64_t exponent, value *out) {
  if (exponent < 0) {
    *out = (value){.kind = ACCEL__J_FLOAT, .real = pow((double)base, (double)exponent)};
    return base == 0 ? accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                                         "0 cannot be raised to a negative power")
                     : ACCEL_OK;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return too_large(run);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return too_large(run);
  }
  *out = accel__jinja_int(result);
  return ACCEL_OK;
}

static accel_status int_division(accel__jinja *run, char op, int64_t a, int64_t b, value *out) {
  if (b == 0) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "division by zero");
  if (op == '/') {
    *out = (value){.kind = ACCEL__J_FLOAT, .real = (double)a / (double)b};
    return ACCEL_OK;
  }
  if (b == -1) { /* INT64_MIN / -1 overflows */
    if (a == INT64_MIN) return too_large(run);
    *out = accel__jinja_int(op == 'f' ? -a : 0);
    return ACCEL_OK;
  }
  int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) { /* Python rounds down */
    quotient--;
    rest += b;
  }
  *out = accel__jinja_int(op == 'f' ? quotient : rest);
  return ACCEL_OK;
}

static accel_status int_operation(accel__jinja *run, char op, int64_t a, int64_t b, value *out) {
  int64_t result = 0;
  switch (op) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) return too_large(run);
      break;
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) return too_large(run);
      break;
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) return too_large(run);
      break;
    case 'p':
      return int_power(run, a, b, out);
    default:
      return int_division(run, op, a, b, out);
  }
  *out = accel__jinja_int(result);
  return ACCEL_OK;
}

static accel_status float_operation(accel__jinja *run, char op, double a, double b, value *out) {
  double result = 0;
  if ((op == '/' || op == 'f' || op == '%') && b == 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "float division by zero");
  switch (op) {
    case '+':
      result = a + b;
      break;
    case '-':
      result = a - b;
      break;
    case '*':
      result = a * b;
      break;
    case '/':
      result = a / b;
      break;
    case 'p':
      result = pow(a, b);
      break;
    default: {
      double rest = fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      result = op == '%' ? (rest == 0 ? copysign(0, b) : rest) : floor((a - rest) / b + 0.5);
    }
  }
  *out = (value){.kind = ACCEL__J_FLOAT, .real = result};
  return ACCEL_OK;
}

/* ---- sequences ---- */

static accel_status join_lists(accel__jinja *run, const value *a, const value *b, value *out) {
  ACCEL_TRY(accel__jinja_list_new(run, (accel__jinja_kind)a->kind, a->list->n + b->list->n, out));
  for (size_t i = 0; i < a->list->n; ++i)
    ACCEL_TRY(accel__jinja_push(run, out->list, a->list->at[i]));
  for (size_t i = 0; i < b->list->n; ++i)
    ACCEL_TRY(accel__jinja_push(run, out->list, b->list->at[i]));
  return ACCEL_OK;
}

static accel_status join_strings(accel__jinja *run, const value *a, const value *b, value *out) {
  char *to;
  size_t n = (size_t)a->n + b->n;
  if (n > ACCEL__JINJA_OUTPUT) return accel__jinja_string(run, NULL, n, out); /* refuses */
  ACCEL_TRY(accel__jinja_alloc(run, n + 1, &to));
  memcpy(to, a->text, a->n);
  memcpy(to + a->n, b->text, b->n);
  *out = (value){.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = to};
  return ACCEL_OK;
}

static accel_status repeat(accel__jinja *run, const value *what, int64_t times, value *out) {
  size_t n = what->kind == ACCEL__J_STRING ? what->n : what->list->n;
  if (times < 0 || n == 0) times = 0;
  if (n && (uint64_t)times > ACCEL__JINJA_OUTPUT / n)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "a repeated value is larger than %d MiB",
                             ACCEL__JINJA_OUTPUT >> 20);
  if (what->kind == ACCEL__J_STRING) {
    char *to;
    ACCEL_TRY(accel__jinja_alloc(run, n * (size_t)times + 1, &to));
    for (int64_t i = 0; i < times; ++i) memcpy(to + (size_t)i * n, what->text, n);
    *out = (value){.kind = ACCEL__J_STRING, .n = (uint32_t)(n * (size_t)times), .text = to};
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__jinja_list_new(run, (accel__jinja_kind)what->kind, n * (size_t)times, out));
  for (size_t i = 0; i < n * (size_t)times; ++i)
    ACCEL_TRY(accel__jinja_push(run, out->list, what->list->at[i % n]));
  return ACCEL_OK;
}

static bool is_sequence(const value *v) {
  return v->kind == ACCEL__J_STRING || v->kind == ACCEL__J_LIST || v->kind == ACCEL__J_TUPLE;
}
static bool is_int(const value *v) { return v->kind == ACCEL__J_INT || v->kind == ACCEL__J_BOOL; }

accel_status accel__jinja_binary(accel__jinja *run, char op, const value *a, const value *b,
                                 value *out) {
  if (accel__jinja_is_number(a) && accel__jinja_is_number(b)) {
    if (is_int(a) && is_int(b)) return int_operation(run, op, as_int(a), as_int(b), out);
    return float_operation(run, op, as_double(a), as_double(b), out);
  }
  if (op == '+' && a->kind == b->kind) {
    if (a->kind == ACCEL__J_STRING) return join_strings(run, a, b, out);
    if (a->kind == ACCEL__J_LIST || a->kind == ACCEL__J_TUPLE) return join_lists(run, a, b, out);
  }
  if (op == '*' && is_sequence(a) && is_int(b)) return repeat(run, a, as_int(b), out);
  if (op == '*' && is_int(a) && is_sequence(b)) return repeat(run, b, as_int(a), out);
  if (op == '%' && a->kind == ACCEL__J_STRING) return accel__jinja_percent(run, a, b, out);
  return no_operator(run, op, a, b);
}

/* ---- comparing ---- */

static accel_status in_list(accel__jinja *run, const accel__jinja_list *list, size_t from,
                            const value *item, size_t *at) {
  for (*at = from; *at < list->n; ++*at) {
    bool same;
    ACCEL_TRY(accel__jinja_equal(run, &list->at[*at], item, &same));
    if (same) return ACCEL_OK;
  }
  return ACCEL_OK;
}

accel_status accel__jinja_contains(accel__jinja *run, const value *in, const value *item,
                                   bool *out) {
  const value *found;
  size_t at;
  *out = false;
  switch (in->kind) {
    case ACCEL__J_UNDEFINED:
      return ACCEL_OK;
    case ACCEL__J_STRING:
      if (item->kind != ACCEL__J_STRING)
        return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                                 "'in <string>' requires string as left operand, not %s",
                                 accel__jinja_type(item));
      *out = item->n == 0 || (in->n && memmem(in->text, in->n, item->text, item->n));
      return accel__jinja_charge(run, in->n);
    case ACCEL__J_DICT:
      ACCEL_TRY(accel__jinja_dict_find(run, in->dict, item, &found));
      *out = found != NULL;
      return ACCEL_OK;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
    case ACCEL__J_VIEW:
    case ACCEL__J_RANGE:
      ACCEL_TRY(in_list(run, in->list, 0, item, &at));
      *out = at < in->list->n;
      return ACCEL_OK;
    case ACCEL__J_ITER: /* reads up to what it finds */
      ACCEL_TRY(in_list(run, in->list, in->list->next, item, &at));
      *out = at < in->list->n;
      in->list->next = *out ? at + 1 : in->list->n;
      return ACCEL_OK;
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "argument of type '%s' is not iterable",
                               accel__jinja_type(in));
  }
}

accel_status accel__jinja_compare(accel__jinja *run, char op, const value *a, const value *b,
                                  bool *out) {
  int order = 0;
  if (op == '=' || op == '!') {
    ACCEL_TRY(accel__jinja_equal(run, a, b, out));
    *out = *out == (op == '=');
    return ACCEL_OK;
  }
  if (op == 'i' || op == 'n') {
    ACCEL_TRY(accel__jinja_contains(run, b, a, out));
    *out = *out == (op == 'i');
    return ACCEL_OK;
  }
  ACCEL_TRY(accel__jinja_order(run, a, b, &order));
  *out = order != 2 && (op == '<'   ? order < 0
                        : op == '>' ? order > 0
                        : op == 'l' ? order <= 0
                                    : order >= 0);
  return ACCEL_OK;
}

/* ---- attributes and items ---- */

static accel_status undefined(accel__jinja *run, const char *name, size_t n, value *out) {
  ACCEL_TRY(accel__jinja_string(run, name, n, out));
  out->kind = ACCEL__J_UNDEFINED;
  return ACCEL_OK;
}

static accel_status method(accel__jinja *run, const value *self, const accel__jinja_builtin *what,
                           value *out) {
  accel__jinja_method *m;
  ACCEL_TRY(accel__jinja_alloc(run, sizeof *m, &m));
  *m = (accel__jinja_method){*self, what};
  *out = (value){.kind = ACCEL__J_METHOD, .method = m};
  return ACCEL_OK;
}

static bool same(const char *name, size_t n, const char *text) {
  return strlen(text) == n && memcmp(name, text, n) == 0;
}

static accel_status loop_attr(accel__jinja *run, const accel__jinja_loop *loop, const char *name,
                              size_t n, value *out) {
  int64_t i = (int64_t)loop->index, length = (int64_t)loop->items->n;
  const struct {
    const char *name;
    value v;
  } known[] = {{"index", accel__jinja_int(i + 1)},
               {"index0", accel__jinja_int(i)},
               {"revindex", accel__jinja_int(length - i)},
               {"revindex0", accel__jinja_int(length - i - 1)},
               {"first", accel__jinja_bool(i == 0)},
               {"last", accel__jinja_bool(i + 1 >= length)},
               {"length", accel__jinja_int(length)},
               {"depth", accel__jinja_int((int64_t)loop->depth + 1)},
               {"depth0", accel__jinja_int((int64_t)loop->depth)}};
  for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
    if (same(name, n, known[k].name)) return *out = known[k].v, ACCEL_OK;
  }
  if (same(name, n, "previtem") && i > 0) return *out = loop->items->at[i - 1], ACCEL_OK;
  if (same(name, n, "nextitem") && i + 1 < length) return *out = loop->items->at[i + 1], ACCEL_OK;
  return undefined(run, name, n, out);
}

static const accel__jinja_builtin *methods_of(const value *v) {
  switch (v->kind) {
    case ACCEL__J_STRING:
      return accel__jinja_string_methods;
    case ACCEL__J_DICT:
      return accel__jinja_dict_methods;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
      return accel__jinja_list_methods;
    case ACCEL__J_LOOP:
      return accel__jinja_loop_methods;
    case ACCEL__J_CYCLER:
      return accel__jinja_cycler_methods;
    default:
      return NULL;
  }
}

/* What getattr of Python finds; *found tells whether anything. */
static accel_status python_attr(accel__jinja *run, const value *of, const char *name, size_t n,
                                value *out, bool *found) {
  const accel__jinja_builtin *table = methods_of(of),
                             *what = table ? accel__jinja_find(table, name, n) : NULL;
  const value *item = NULL;
  *found = true;
  /* no fn: would change it */
  if (what) return what->fn ? method(run, of, what, out) : undefined(run, name, n, out);
  if (of->kind == ACCEL__J_LOOP) return loop_attr(run, of->loop, name, n, out);
  if (of->kind == ACCEL__J_NAMESPACE) {
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = name};
    ACCEL_TRY(accel__jinja_dict_find(run, of->dict, &key, &item));
    if (item) return *out = *item, ACCEL_OK;
  }
  if (of->kind == ACCEL__J_MACRO && same(name, n, "name"))
    return accel__jinja_string(run, of->macro->node->name, strlen(of->macro->node->name), out);
  if (of->kind == ACCEL__J_TUPLE && of->list->name && same(name, n, "grouper"))
    return *out = of->list->at[0], ACCEL_OK;
  if (of->kind == ACCEL__J_TUPLE && of->list->name && same(name, n, "list"))
    return *out = of->list->at[1], ACCEL_OK;
  if (of->kind == ACCEL__J_CYCLER && same(name, n, "current") && of->list->n)
    return *out = of->list->at[of->list->next % of->list->n], ACCEL_OK;
  *found = false;
  return ACCEL_OK;
}

static accel_status is_undefined(accel__jinja *run, const value *v) {
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)v->n,
                           v->n ? v->text : "");
}

accel_status accel__jinja_attr(accel__jinja *run, const value *of, const char *name, size_t n,
                               value *out) {
  bool found;
  const value *item = NULL;
  if (of->kind == ACCEL__J_UNDEFINED) return is_undefined(run, of);
  ACCEL_TRY(python_attr(run, of, name, n, out, &found));
  if (found) return ACCEL_OK;
  if (of->kind == ACCEL__J_DICT) {
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = name};
    ACCEL_TRY(accel__jinja_dict_find(run, of->dict, &key, &item));
  }
  if (item) return *out = *item, ACCEL_OK;
  return undefined(run, name, n, out);
}

/* Where code point `index` begins; text[n] when there is none. */
static size_t byte_of(const char *text, size_t n, size_t index) {
  size_t i = 0;
  while (i < n && index > 0) {
    i++;
    while (i < n && ((uint8_t)text[i] & 0xC0) == 0x80) i++;
    index--;
  }
  return i;
}

/* The item of a sequence; *found false when the index is outside. */
static accel_status sequence_item(accel__jinja *run, const value *of, int64_t index, value *out,
                                  bool *found) {
  bool string = of->kind == ACCEL__J_STRING;
  int64_t n = (int64_t)(string ? accel__jinja_length(of->text, of->n) : of->list->n);
  if (index < 0) index += n;
  *found = index >= 0 && index < n;
  if (!*found) return ACCEL_OK;
  if (!string) return *out = of->list->at[index], ACCEL_OK;
  size_t at = byte_of(of->text, of->n, (size_t)index);
  uint32_t c;
  size_t length = accel__utf8_decode(of->text + at, of->n - at, &c);
  *out = (value){.kind = ACCEL__J_STRING, .n = (uint32_t)length, .text = of->text + at};
  return accel__jinja_charge(run, of->n);
}

accel_status accel__jinja_item(accel__jinja *run, const value *of, const value *key, value *out) {
  bool found = false;
  const value *item = NULL;
  if (of->kind == ACCEL__J_UNDEFINED) return is_undefined(run, of);
  if (of->kind == ACCEL__J_DICT && key->kind != ACCEL__J_LIST && key->kind != ACCEL__J_DICT) {
    ACCEL_TRY(accel__jinja_dict_find(run, of->dict, key, &item));
    if (item) return *out = *item, ACCEL_OK;
  }
  if ((is_sequence(of) || of->kind == ACCEL__J_RANGE) && is_int(key))
    ACCEL_TRY(sequence_item(run, of, as_int(key), out, &found));
  if (!found && key->kind == ACCEL__J_STRING)
    ACCEL_TRY(python_attr(run, of, key->text, key->n, out, &found));
  if (found) return ACCEL_OK;
  value name;
  ACCEL_TRY(accel__jinja_str(run, key, &name));
  return undefined(run, name.text, name.n, out);
}

accel_status accel__jinja_path(accel__jinja *run, const value *of, const value *path, value *out) {
  *out = *of;
  if (path->kind != ACCEL__J_STRING) return accel__jinja_item(run, of, path, out);
  for (size_t i = 0; i <= path->n;) {
    const char *dot = i < path->n ? memchr(path->text + i, '.', path->n - i) : NULL;
    size_t end = dot ? (size_t)(dot - path->text) : path->n;
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)(end - i), .text = path->text + i};
    bool digits = end > i && end - i < 18;
    int64_t number = 0;
    for (size_t k = i; digits && k < end; ++k) {
      digits = path->text[k] >= '0' && path->text[k] <= '9';
      number = number * 10 + (path->text[k] - '0');
    }
    value from = *out;
    if (digits) key = accel__jinja_int(number);
    ACCEL_TRY(accel__jinja_item(run, &from, &key, out));
    i = end + 1;
  }
  return ACCEL_OK;
}

/* ---- slices ---- */

static accel_status bound(accel__jinja *run, const value *v, int64_t absent, int64_t n, int64_t low,
                          int64_t high, int64_t *out) {
  *out = absent;
  if (v->kind == ACCEL__J_NONE) return ACCEL_OK;
  if (!is_int(v))
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "slice indices must be integers or none");
  int64_t at = as_int(v);
  if (at < 0) at += n;
  *out = at < low ? low : at > high ? high : at;
  return ACCEL_OK;
}

static accel_status string_slice(accel__jinja *run, const value *of, int64_t from, int64_t to,
                                 int64_t step, value *out) {
  if (step == 1) { /* shares the text */
    size_t begin = byte_of(of->text, of->n, (size_t)from);
    size_t length = to > from ? byte_of(of->text + begin, of->n - begin, (size_t)(to - from)) : 0;
    *out = (value){.kind = ACCEL__J_STRING, .n = (uint32_t)length, .text = of->text + begin};
    return accel__jinja_charge(run, of->n);
  }
  const accel__jinja_list *chars;
  accel__buffer b = {0};
  ACCEL_TRY(accel__jinja_items(run, of, &chars));
  accel__buffer_text(&b, "");
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
    accel__buffer_bytes(&b, chars->at[i].text, chars->at[i].n);
  return accel__jinja_take(run, &b, out);
}

accel_status accel__jinja_slice(accel__jinja *run, const value *of, const value bounds[3],
                                value *out) {
  bool string = of->kind == ACCEL__J_STRING;
  if (of->kind == ACCEL__J_UNDEFINED) return is_undefined(run, of);
  if (!string && of->kind != ACCEL__J_LIST && of->kind != ACCEL__J_TUPLE &&
      of->kind != ACCEL__J_RANGE)
    return undefined(run, "slice", 5, out);
  int64_t n = (int64_t)(string ? accel__jinja_length(of->text, of->n) : of->list->n), from, to,
          step = 1;
  if (bounds[2].kind != ACCEL__J_NONE) {
    if (!is_int(&bounds[2]))
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "slice indices must be integers or none");
    step = as_int(&bounds[2]);
    if (step == 0)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "a slice's step cannot be zero");
    if (step > n + 1) step = n + 1; /* no overflow below */
    if (step < -n - 1) step = -n - 1;
  }
  bool down = step < 0;
  ACCEL_TRY(bound(run, &bounds[0], down ? n - 1 : 0, n, down ? -1 : 0, down ? n - 1 : n, &from));
  ACCEL_TRY(bound(run, &bounds[1], down ? -1 : n, n, down ? -1 : 0, down ? n - 1 : n, &to));
  if (string) return string_slice(run, of, from, to, step, out);
  ACCEL_TRY(accel__jinja_list_new(run, (accel__jinja_kind)of->kind, 4, out));
  for (int64_t i = from; down ? i > to : i < to; i += step)
    ACCEL_TRY(accel__jinja_push(run, out->list, of->list->at[i]));
  return ACCEL_OK;
}
