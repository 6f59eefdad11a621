/* jinja_tests.c - what stands behind "is", and the global functions. */
#include <string.h>

#include "text/jinja/jinja.h"
#include "text/jinja/jinja_strings.h"

typedef accel__jinja_value value;
typedef const accel__jinja_args args_t;

const accel__jinja_builtin *accel__jinja_find(const accel__jinja_builtin *table, const char *name,
                                              size_t n) {
  for (; table->name; ++table) {
    if (strncmp(table->name, name, n) == 0 && table->name[n] == 0) return table;
  }
  return NULL;
}

#define TEST(name, condition)                                                             \
  static accel_status name(accel__jinja *run, const value *self, args_t *a, value *out) { \
    (void)run, (void)a, (void)self;                                                       \
    *out = accel__jinja_bool(condition);                                                  \
    return ACCEL_OK;                                                                      \
  }
TEST(t_defined, self->kind != ACCEL__J_UNDEFINED)
TEST(t_undefined, self->kind == ACCEL__J_UNDEFINED)
TEST(t_none, self->kind == ACCEL__J_NONE)
TEST(t_boolean, self->kind == ACCEL__J_BOOL)
TEST(t_true, self->kind == ACCEL__J_BOOL && self->truth)
TEST(t_false, self->kind == ACCEL__J_BOOL && !self->truth)
TEST(t_integer, self->kind == ACCEL__J_INT)
TEST(t_float, self->kind == ACCEL__J_FLOAT)
TEST(t_number, accel__jinja_is_number(self))
TEST(t_string, self->kind == ACCEL__J_STRING)
TEST(t_mapping, self->kind == ACCEL__J_DICT)
TEST(t_callable, self->kind == ACCEL__J_MACRO || self->kind == ACCEL__J_BUILTIN ||
                     self->kind == ACCEL__J_METHOD || self->kind == ACCEL__J_LOOP ||
                     self->kind == ACCEL__J_JOINER || self->kind == ACCEL__J_UNDEFINED)
TEST(t_escaped, false)
/* has a length and items: an undefined value does, in jinja2 */
TEST(t_sequence, self->kind == ACCEL__J_UNDEFINED || self->kind == ACCEL__J_STRING ||
                     self->kind == ACCEL__J_LIST || self->kind == ACCEL__J_TUPLE ||
                     self->kind == ACCEL__J_RANGE || self->kind == ACCEL__J_DICT)
TEST(t_iterable, self->kind == ACCEL__J_UNDEFINED || self->kind == ACCEL__J_STRING ||
                     self->kind == ACCEL__J_DICT || accel__jinja_is_list(self) ||
                     self->kind == ACCEL__J_LOOP)
TEST(t_filter, self->kind == ACCEL__J_STRING && accel__jinja_filter(self->text, self->n))
TEST(t_test,
     self->kind == ACCEL__J_STRING && accel__jinja_find(accel__jinja_tests, self->text, self->n))
#undef TEST

static accel_status needs_argument(accel__jinja *run, args_t *a) {
  return a->given[0] ? ACCEL_OK
                     : accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "a test lacks its argument");
}

static accel_status divides(accel__jinja *run, const value *self, const value *by, bool *out) {
  value rest;
  ACCEL_TRY(accel__jinja_binary(run, '%', self, by, &rest));
  value zero = accel__jinja_int(0);
  return accel__jinja_equal(run, &rest, &zero, out);
}

static accel_status t_even(accel__jinja *run, const value *self, args_t *a, value *out) {
  value two = accel__jinja_int(2);
  (void)a;
  *out = accel__jinja_bool(false);
  return divides(run, self, &two, &out->truth);
}
static accel_status t_odd(accel__jinja *run, const value *self, args_t *a, value *out) {
  value two = accel__jinja_int(2), rest, one = accel__jinja_int(1);
  (void)a;
  *out = accel__jinja_bool(false);
  ACCEL_TRY(accel__jinja_binary(run, '%', self, &two, &rest));
  return accel__jinja_equal(run, &rest, &one, &out->truth);
}
static accel_status t_divisibleby(accel__jinja *run, const value *self, args_t *a, value *out) {
  ACCEL_TRY(needs_argument(run, a));
  *out = accel__jinja_bool(false);
  return divides(run, self, &a->at[0], &out->truth);
}

static accel_status case_test(accel__jinja *run, const value *self, bool upper, value *out) {
  value text;
  ACCEL_TRY(accel__jinja_str(run, self, &text));
  *out = accel__jinja_bool(accel__jinja_is_case(&text, upper));
  return ACCEL_OK;
}
static accel_status t_lower(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, case_test(run, self, false, out);
}
static accel_status t_upper(accel__jinja *run, const value *self, args_t *a, value *out) {
  return (void)a, case_test(run, self, true, out);
}

/* Python's `is`: exact for the singletons and for what is shared; equal small numbers and strings
 * count as the same. */
static accel_status t_sameas(accel__jinja *run, const value *self, args_t *a, value *out) {
  ACCEL_TRY(needs_argument(run, a));
  const value *other = &a->at[0];
  *out = accel__jinja_bool(false);
  if (self->kind != other->kind) return ACCEL_OK;
  if (accel__jinja_is_list(self) || self->kind >= ACCEL__J_DICT)
    return out->truth = self->list == other->list, ACCEL_OK;
  return accel__jinja_equal(run, self, other, &out->truth);
}

static accel_status compared(accel__jinja *run, char op, const value *self, args_t *a, value *out) {
  ACCEL_TRY(needs_argument(run, a));
  *out = accel__jinja_bool(false);
  return accel__jinja_compare(run, op, self, &a->at[0], &out->truth);
}
#define COMPARISON(name, op)                                                              \
  static accel_status name(accel__jinja *run, const value *self, args_t *a, value *out) { \
    return compared(run, op, self, a, out);                                               \
  }
COMPARISON(t_eq, '=')
COMPARISON(t_ne, '!')
COMPARISON(t_gt, '>')
COMPARISON(t_ge, 'g')
COMPARISON(t_lt, '<')
COMPARISON(t_le, 'l')
COMPARISON(t_in, 'i')
#undef COMPARISON

const accel__jinja_builtin accel__jinja_tests[] = {
    {"defined", "", t_defined},
    {"undefined", "", t_undefined},
    {"none", "", t_none},
    {"boolean", "", t_boolean},
    {"true", "", t_true},
    {"false", "", t_false},
    {"integer", "", t_integer},
    {"float", "", t_float},
    {"number", "", t_number},
    {"string", "", t_string},
    {"mapping", "", t_mapping},
    {"sequence", "", t_sequence},
    {"iterable", "", t_iterable},
    {"callable", "", t_callable},
    {"escaped", "", t_escaped},
    {"filter", "", t_filter},
    {"test", "", t_test},
    {"even", "", t_even},
    {"odd", "", t_odd},
    {"lower", "", t_lower},
    {"upper", "", t_upper},
    {"divisibleby", "num", t_divisibleby},
    {"sameas", "other", t_sameas},
    {"in", "seq", t_in},
    {"eq", "other", t_eq},
    {"equalto", "other", t_eq},
    {"==", "other", t_eq},
    {"ne", "other", t_ne},
    {"!=", "other", t_ne},
    {"gt", "other", t_gt},
    {"greaterthan", "other", t_gt},
    {">", "other", t_gt},
    {"ge", "other", t_ge},
    {">=", "other", t_ge},
    {"lt", "other", t_lt},
    {"lessthan", "other", t_lt},
    {"<", "other", t_lt},
    {"le", "other", t_le},
    {"<=", "other", t_le},
    {NULL, NULL, NULL},
};

/* ---- global functions ---- */

static accel_status g_range(accel__jinja *run, const value *self, args_t *a, value *out) {
  int64_t bounds[3] = {0, 0, 1};
  (void)self;
  for (int i = 0; i < 3; ++i) {
    if (!a->given[i]) continue;
    if (a->at[i].kind != ACCEL__J_INT && a->at[i].kind != ACCEL__J_BOOL)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "'%s' object cannot be interpreted as an integer",
                               accel__jinja_type(&a->at[i]));
    bounds[i] = a->at[i].kind == ACCEL__J_INT ? a->at[i].number : a->at[i].truth;
  }
  if (!a->given[0])
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "range expected at least 1 argument");
  int64_t from = a->given[1] ? bounds[0] : 0, to = a->given[1] ? bounds[1] : bounds[0],
          step = bounds[2];
  if (step == 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "range() arg 3 must not be zero");
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_RANGE, 4, out));
  for (int64_t i = from; step > 0 ? i < to : i > to;) {
    if (out->list->n == ACCEL__JINJA_RANGE)
      return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "range() has more than %d items",
                               ACCEL__JINJA_RANGE);
    ACCEL_TRY(accel__jinja_push(run, out->list, accel__jinja_int(i)));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return ACCEL_OK;
}

/* dict(pairs or mapping, a=1); namespace() takes the same. */
static accel_status g_dict(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)self;
  ACCEL_TRY(accel__jinja_dict_new(run, 4, out));
  if (a->given[0] && a->at[0].kind == ACCEL__J_DICT) {
    const accel__jinja_dict *from = a->at[0].dict;
    for (size_t i = 0; i < from->n; ++i)
      ACCEL_TRY(accel__jinja_dict_set(run, out->dict, from->key[i], from->value[i]));
  } else if (a->given[0]) {
    const accel__jinja_list *items, *pair;
    ACCEL_TRY(accel__jinja_items(run, &a->at[0], &items));
    for (size_t i = 0; i < items->n; ++i) {
      ACCEL_TRY(accel__jinja_items(run, &items->at[i], &pair));
      if (pair->n != 2) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "dict() wants pairs");
      ACCEL_TRY(accel__jinja_dict_set(run, out->dict, pair->at[0], pair->at[1]));
    }
  }
  for (size_t i = 0; i < a->keys; ++i) {
    value key = {.kind = ACCEL__J_STRING, .n = (uint32_t)strlen(a->key[i]), .text = a->key[i]};
    ACCEL_TRY(accel__jinja_dict_set(run, out->dict, key, a->key_value[i]));
  }
  return ACCEL_OK;
}

static accel_status g_namespace(accel__jinja *run, const value *self, args_t *a, value *out) {
  ACCEL_TRY(g_dict(run, self, a, out));
  for (size_t i = 0; i < out->dict->n; ++i) {
    const value *key = &out->dict->key[i];
    if (key->kind == ACCEL__J_STRING && key->n && key->text[0] == '_')
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT,
                               "a namespace cannot hold underscore-prefixed attributes");
  }
  out->kind = ACCEL__J_NAMESPACE;
  return ACCEL_OK;
}

static accel_status g_raise(accel__jinja *run, const value *self, args_t *a, value *out) {
  value text;
  (void)self, (void)out;
  if (!a->given[0])
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "raise_exception() lacks its message");
  ACCEL_TRY(accel__jinja_str(run, &a->at[0], &text));
  return accel__jinja_fail(run, ACCEL_ERROR_ARGUMENT, "the template refuses these messages: %.*s",
                           (int)(text.n < 300 ? text.n : 300), text.text);
}

static accel_status g_strftime(accel__jinja *run, const value *self, args_t *a, value *out) {
  char text[1024], format[512];
  (void)self;
  if (!a->given[0] || a->at[0].kind != ACCEL__J_STRING)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "strftime_now() wants a format");
  if (a->at[0].n >= sizeof format)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "strftime_now(): the format is too long");
  memcpy(format, a->at[0].text, a->at[0].n);
  format[a->at[0].n] = 0;
  /* NOLINT: the template's format */
  size_t n = *format ? strftime(text, sizeof text, format, &run->now) : 0;
  return accel__jinja_string(run, text, n, out);
}

static accel_status g_cycler(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)self;
  if (a->rest_n == 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "at least one item has to be provided");
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_CYCLER, a->rest_n, out));
  for (size_t i = 0; i < a->rest_n; ++i) ACCEL_TRY(accel__jinja_push(run, out->list, a->rest[i]));
  return ACCEL_OK;
}

/* The first call gives nothing, the others the separator. */
static accel_status g_joiner(accel__jinja *run, const value *self, args_t *a, value *out) {
  value by;
  (void)self;
  ACCEL_TRY(accel__jinja_string(run, ", ", 2, &by));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_JOINER, 1, out));
  return accel__jinja_push(run, out->list, a->given[0] ? a->at[0] : by);
}

const accel__jinja_builtin accel__jinja_globals[] = {
    {"range", "start stop step", g_range},
    {"dict", "from **", g_dict},
    {"namespace", "from **", g_namespace},
    {"raise_exception", "message", g_raise},
    {"strftime_now", "format", g_strftime},
    {"cycler", "*", g_cycler},
    {"joiner", "sep", g_joiner},
    {NULL, NULL, NULL},
};
