/* jinja_value.c - Python's values as far as templates see them: making, comparing, looking up. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

typedef accel__jinja_value value;

accel_status accel__jinja_fail(accel__jinja *run, accel_status code, const char *format, ...) {
  char text[400];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  text[accel__utf8_cut(text, strlen(text))] = 0;
  return accel__fail(code, "%s: line %u: %s", run->name, run->line, text);
}

accel_status accel__jinja_charge(accel__jinja *run, size_t work) {
  run->steps += work / 64;
  if (run->steps <= ACCEL__JINJA_STEPS && run->arena.bytes <= ACCEL__JINJA_MEMORY) return ACCEL_OK;
  return accel__jinja_fail(run, ACCEL_ERROR_LIMIT,
                           "the template takes more than %d steps or %d MiB: does it loop?",
                           ACCEL__JINJA_STEPS, ACCEL__JINJA_MEMORY >> 20);
}

accel_status accel__jinja_alloc(accel__jinja *run, size_t n, void *pointer_to_pointer) {
  if (n > ACCEL__JINJA_MEMORY) n = ACCEL__JINJA_MEMORY; /* refused below, after the fact */
  ACCEL_TRY(accel__jinja_charge(run, n));
  void *got = accel__arena_alloc(&run->arena, n);
  if (!got) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(pointer_to_pointer, &got, sizeof got);
  return accel__jinja_charge(run, 0);
}

/* ---- making ---- */

accel_status accel__jinja_string(accel__jinja *run, const char *text, size_t n, value *out) {
  char *to;
  if (n > ACCEL__JINJA_OUTPUT)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "a string is longer than %d MiB",
                             ACCEL__JINJA_OUTPUT >> 20);
  ACCEL_TRY(accel__jinja_alloc(run, n + 1, &to));
  if (n) memcpy(to, text, n);
  to[n] = 0;
  *out = (value){.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = to};
  return ACCEL_OK;
}

accel_status accel__jinja_take(accel__jinja *run, accel__buffer *text, value *out) {
  accel_status status = accel__buffer_status(text);
  if (status == ACCEL_OK) status = accel__jinja_string(run, text->data, text->n, out);
  accel__buffer_free(text);
  return status;
}

accel_status accel__jinja_list_new(accel__jinja *run, accel__jinja_kind kind, size_t capacity,
                                   value *out) {
  accel__jinja_list *list;
  ACCEL_TRY(accel__jinja_alloc(run, sizeof *list, &list));
  if (capacity > ACCEL__JINJA_MEMORY / sizeof *list->at)
    capacity = ACCEL__JINJA_MEMORY / sizeof *list->at;
  ACCEL_TRY(accel__jinja_alloc(run, capacity * sizeof *list->at, &list->at));
  list->capacity = capacity;
  *out = (value){.kind = (uint8_t)kind, .list = list};
  return ACCEL_OK;
}

accel_status accel__jinja_push(accel__jinja *run, accel__jinja_list *list, value item) {
  if (list->n == list->capacity) {
    size_t more = list->capacity ? 2 * list->capacity : 4;
    value *grown;
    ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *grown, &grown));
    if (list->n) memcpy(grown, list->at, list->n * sizeof *grown);
    list->at = grown;
    list->capacity = more;
  }
  list->at[list->n++] = item;
  return ACCEL_OK;
}

accel_status accel__jinja_dict_new(accel__jinja *run, size_t capacity, value *out) {
  accel__jinja_dict *dict;
  ACCEL_TRY(accel__jinja_alloc(run, sizeof *dict, &dict));
  ACCEL_TRY(accel__jinja_alloc(run, capacity * sizeof *dict->key, &dict->key));
  ACCEL_TRY(accel__jinja_alloc(run, capacity * sizeof *dict->value, &dict->value));
  dict->capacity = capacity;
  *out = (value){.kind = ACCEL__J_DICT, .dict = dict};
  return ACCEL_OK;
}

static bool hashable(const value *v) {
  if (v->kind != ACCEL__J_TUPLE) return v->kind != ACCEL__J_LIST && v->kind != ACCEL__J_DICT;
  for (size_t i = 0; i < v->list->n; ++i) {
    if (v->list->at[i].kind == ACCEL__J_LIST || v->list->at[i].kind == ACCEL__J_DICT) return false;
  }
  return true;
}

accel_status accel__jinja_dict_find(accel__jinja *run, const accel__jinja_dict *dict,
                                    const value *key, const value **out) {
  *out = NULL;
  ACCEL_TRY(accel__jinja_charge(run, 8 * dict->n));
  if (!hashable(key))
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "unhashable type: '%s'",
                             accel__jinja_type(key));
  for (size_t i = 0; i < dict->n; ++i) {
    const value *at = &dict->key[i];
    bool same;
    if (at->kind == ACCEL__J_STRING && key->kind == ACCEL__J_STRING) {
      same = at->n == key->n && memcmp(at->text, key->text, at->n) == 0;
    } else {
      ACCEL_TRY(accel__jinja_equal(run, at, key, &same));
    }
    if (same) return *out = &dict->value[i], ACCEL_OK;
  }
  return ACCEL_OK;
}

accel_status accel__jinja_dict_set(accel__jinja *run, accel__jinja_dict *dict, value key,
                                   value item) {
  const value *found;
  ACCEL_TRY(accel__jinja_dict_find(run, dict, &key, &found));
  if (found) return dict->value[found - dict->value] = item, ACCEL_OK;
  if (dict->n == dict->capacity) {
    size_t more = dict->capacity ? 2 * dict->capacity : 4;
    value *keys, *values;
    ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *keys, &keys));
    ACCEL_TRY(accel__jinja_alloc(run, more * sizeof *values, &values));
    if (dict->n) memcpy(keys, dict->key, dict->n * sizeof *keys);
    if (dict->n) memcpy(values, dict->value, dict->n * sizeof *values);
    dict->key = keys;
    dict->value = values;
    dict->capacity = more;
  }
  dict->key[dict->n] = key;
  dict->value[dict->n++] = item;
  return ACCEL_OK;
}

/* ---- from JSON ---- */

/* An integer when it is written as one. */
static accel_status json_number(accel__jinja *run, const accel__json *node, value *out) {
  const char *text = node->valuestring; /* as written */
  size_t n = 0;
  bool integer = text != NULL;
  *out = (value){.kind = ACCEL__J_FLOAT, .real = node->valuedouble};
  for (; integer && strchr("+-0123456789.eE", text[n]) && text[n]; ++n)
    integer = text[n] == '-' || (text[n] >= '0' && text[n] <= '9');
  if (!integer) return ACCEL_OK;
  if (n > 19 || node->valuedouble >= 9.2233720368547748e18 ||
      node->valuedouble <= -9.2233720368547748e18)
    return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                             "an integer of more than 64 bits is not implemented");
  *out = accel__jinja_int(strtoll(text, NULL, 10));
  return ACCEL_OK;
}

static accel_status json_array(accel__jinja *run, const accel__json *node, value *out) {
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  ACCEL_JSON_EACH(item, node) {
    value v;
    ACCEL_TRY(accel__jinja_from_json(run, item, &v));
    ACCEL_TRY(accel__jinja_push(run, out->list, v));
  }
  return ACCEL_OK;
}

static accel_status json_object(accel__jinja *run, const accel__json *node, value *out) {
  ACCEL_TRY(accel__jinja_dict_new(run, 4, out));
  ACCEL_JSON_EACH(item, node) {
    value key = {.kind = ACCEL__J_STRING,
                 .n = (uint32_t)strlen(item->string),
                 .text = item->string},
          v;
    ACCEL_TRY(accel__jinja_from_json(run, item, &v));
    ACCEL_TRY(accel__jinja_dict_set(run, out->dict, key, v));
  }
  return ACCEL_OK;
}

accel_status accel__jinja_from_json(accel__jinja *run, const accel__json *node, value *out) {
  if (cJSON_IsArray(node)) return json_array(run, node, out);
  if (cJSON_IsObject(node)) return json_object(run, node, out);
  if (cJSON_IsNumber(node)) return json_number(run, node, out);
  if (cJSON_IsString(node))
    *out = (value){.kind = ACCEL__J_STRING,
                   .n = (uint32_t)strlen(node->valuestring),
                   .text = node->valuestring};
  else
    *out = cJSON_IsBool(node) ? accel__jinja_bool(cJSON_IsTrue(node)) : accel__jinja_none();
  return ACCEL_OK;
}

/* ---- comparing ---- */

const char *accel__jinja_type(const value *v) {
  static const char *const names[] = {
      "Undefined", "NoneType",  "bool",        "int",       "float", "str",       "list",
      "tuple",     "dict_keys", "range",       "generator", "dict",  "Namespace", "Macro",
      "function",  "method",    "LoopContext", "Cycler",    "Joiner"};
  return v->kind == ACCEL__J_VIEW ? v->list->name : names[v->kind];
}

bool accel__jinja_truth(const value *v) {
  switch (v->kind) {
    case ACCEL__J_UNDEFINED:
    case ACCEL__J_NONE:
      return false;
    case ACCEL__J_BOOL:
      return v->truth;
    case ACCEL__J_INT:
      return v->number != 0;
    case ACCEL__J_FLOAT:
      return v->real != 0;
    case ACCEL__J_STRING:
      return v->n > 0;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
    case ACCEL__J_VIEW:
    case ACCEL__J_RANGE:
      return v->list->n > 0;
    case ACCEL__J_DICT:
      return v->dict->n > 0;
    case ACCEL__J_LOOP:
      return v->loop->items->n > 0;
    default:
      return true;
  }
}

static int order_numbers(const value *a, const value *b) { /* 2: one is NaN */
  if (a->kind != ACCEL__J_FLOAT && b->kind != ACCEL__J_FLOAT) {
    int64_t x = a->kind == ACCEL__J_BOOL ? a->truth : a->number,
            y = b->kind == ACCEL__J_BOOL ? b->truth : b->number;
    return (x > y) - (x < y);
  }
  double x = a->kind == ACCEL__J_FLOAT ? a->real
                                       : (double)(a->kind == ACCEL__J_BOOL ? a->truth : a->number);
  double y = b->kind == ACCEL__J_FLOAT ? b->real
                                       : (double)(b->kind == ACCEL__J_BOOL ? b->truth : b->number);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static accel_status nest(accel__jinja *run) {
  run->steps++;
  if (++run->depth > ACCEL__JINJA_DEPTH)
    return accel__jinja_fail(run, ACCEL_ERROR_LIMIT, "values or calls are nested more than %d deep",
                             ACCEL__JINJA_DEPTH);
  return accel__jinja_charge(run, 0);
}

static accel_status equal_lists(accel__jinja *run, const accel__jinja_list *a,
                                const accel__jinja_list *b, bool *out) {
  *out = a->n == b->n;
  for (size_t i = 0; *out && i < a->n; ++i)
    ACCEL_TRY(accel__jinja_equal(run, &a->at[i], &b->at[i], out));
  return ACCEL_OK;
}

static accel_status equal_dicts(accel__jinja *run, const accel__jinja_dict *a,
                                const accel__jinja_dict *b, bool *out) {
  *out = a->n == b->n;
  for (size_t i = 0; *out && i < a->n; ++i) {
    const value *found;
    ACCEL_TRY(accel__jinja_dict_find(run, b, &a->key[i], &found));
    *out = found != NULL;
    if (found) ACCEL_TRY(accel__jinja_equal(run, &a->value[i], found, out));
  }
  return ACCEL_OK;
}

accel_status accel__jinja_equal(accel__jinja *run, const value *a, const value *b, bool *out) {
  ACCEL_TRY(nest(run));
  if (accel__jinja_is_number(a) && accel__jinja_is_number(b))
    *out = order_numbers(a, b) == 0;
  else if (a->kind != b->kind)
    *out = false;
  else if (a->kind == ACCEL__J_UNDEFINED || a->kind == ACCEL__J_NONE)
    *out = true;
  else if (a->kind == ACCEL__J_STRING)
    *out = a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
  else if (a->kind == ACCEL__J_DICT)
    ACCEL_TRY(equal_dicts(run, a->dict, b->dict, out));
  else if (accel__jinja_is_list(a) && a->kind != ACCEL__J_ITER)
    ACCEL_TRY(equal_lists(run, a->list, b->list, out));
  else
    *out = a->list == b->list;
  run->depth--;
  return accel__jinja_charge(run, a->kind == ACCEL__J_STRING ? a->n : 0);
}

static accel_status order_lists(accel__jinja *run, const accel__jinja_list *a,
                                const accel__jinja_list *b, int *out) {
  size_t n = a->n < b->n ? a->n : b->n;
  for (size_t i = 0; i < n; ++i) {
    bool same;
    ACCEL_TRY(accel__jinja_equal(run, &a->at[i], &b->at[i], &same));
    if (!same) return accel__jinja_order(run, &a->at[i], &b->at[i], out);
  }
  *out = (a->n > b->n) - (a->n < b->n);
  return ACCEL_OK;
}

/* -1, 0, 1, or 2 when no order holds (NaN) */
accel_status accel__jinja_order(accel__jinja *run, const value *a, const value *b, int *out) {
  ACCEL_TRY(nest(run));
  run->depth--;
  if (accel__jinja_is_number(a) && accel__jinja_is_number(b))
    return *out = order_numbers(a, b), ACCEL_OK;
  /* UTF-8 sorts as its code points do */
  if (a->kind == ACCEL__J_STRING && b->kind == ACCEL__J_STRING) {
    int order = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
    *out = order ? (order > 0) - (order < 0) : (a->n > b->n) - (a->n < b->n);
    return accel__jinja_charge(run, a->n);
  }
  if (a->kind == b->kind && (a->kind == ACCEL__J_LIST || a->kind == ACCEL__J_TUPLE)) {
    run->depth++;
    ACCEL_TRY(order_lists(run, a->list, b->list, out));
    run->depth--;
    return ACCEL_OK;
  }
  if (a->kind == ACCEL__J_UNDEFINED || b->kind == ACCEL__J_UNDEFINED) {
    const value *u = a->kind == ACCEL__J_UNDEFINED ? a : b;
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%.*s' is undefined", (int)u->n,
                             u->n ? u->text : "");
  }
  return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%s' and '%s' have no order",
                           accel__jinja_type(a), accel__jinja_type(b));
}

/* ---- items ---- */

size_t accel__jinja_length(const char *text, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) count += ((uint8_t)text[i] & 0xC0) != 0x80;
  return count;
}

static accel_status characters(accel__jinja *run, const value *v, accel__jinja_list *out) {
  for (size_t i = 0; i < v->n;) {
    uint32_t c;
    size_t n = accel__utf8_decode(v->text + i, v->n - i, &c);
    ACCEL_TRY(accel__jinja_push(
        run, out, (value){.kind = ACCEL__J_STRING, .n = (uint32_t)n, .text = v->text + i}));
    i += n;
  }
  return ACCEL_OK;
}

accel_status accel__jinja_items(accel__jinja *run, const value *v, const accel__jinja_list **out) {
  value made;
  switch (v->kind) {
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
    case ACCEL__J_VIEW:
    case ACCEL__J_RANGE:
      *out = v->list;
      return accel__jinja_charge(run, v->list->n);
    case ACCEL__J_ITER:
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 0, &made));
      *made.list =
          (accel__jinja_list){.at = v->list->at + v->list->next, .n = v->list->n - v->list->next};
      made.list->capacity = made.list->n;
      v->list->next = v->list->n;
      break;
    case ACCEL__J_STRING:
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, v->n, &made));
      ACCEL_TRY(characters(run, v, made.list));
      break;
    case ACCEL__J_DICT:
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 0, &made));
      *made.list = (accel__jinja_list){.at = v->dict->key, .n = v->dict->n, .capacity = v->dict->n};
      break;
    case ACCEL__J_UNDEFINED:
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 0, &made));
      break;
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'%s' object is not iterable",
                               accel__jinja_type(v));
  }
  *out = made.list;
  return accel__jinja_charge(run, made.list->n);
}
