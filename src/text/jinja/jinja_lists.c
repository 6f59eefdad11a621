/* jinja_lists.c - filters on sequences. */
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"
#include "text/jinja/jinja_strings.h"

typedef accel__jinja_value value;
typedef const accel__jinja_args args_t;
typedef accel__jinja_list list;

static accel_status undefined(const char *what, value *out) {
  *out = (value){.kind = ACCEL__J_UNDEFINED, .n = (uint32_t)strlen(what), .text = what};
  return ACCEL_OK;
}

static bool truth(args_t *a, int i) { return a->given[i] && accel__jinja_truth(&a->at[i]); }
static const value *some(args_t *a, int i) {
  return a->given[i] && a->at[i].kind != ACCEL__J_NONE ? &a->at[i] : NULL;
}

/* ---- one of many ---- */

static accel_status f_first(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  (void)a;
  if (self->kind == ACCEL__J_ITER) { /* takes one, leaves the rest */
    if (self->list->next == self->list->n)
      return undefined("No first item, sequence was empty.", out);
    return *out = self->list->at[self->list->next++], ACCEL_OK;
  }
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  if (items->n == 0) return undefined("No first item, sequence was empty.", out);
  return *out = items->at[0], ACCEL_OK;
}

static accel_status f_last(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  (void)a;
  if (self->kind == ACCEL__J_ITER)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "'generator' object is not reversible");
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  if (items->n == 0) return undefined("No last item, sequence was empty.", out);
  return *out = items->at[items->n - 1], ACCEL_OK;
}

static accel_status f_length(accel__jinja *run, const value *self, args_t *a, value *out) {
  size_t n = 0;
  (void)a;
  switch (self->kind) {
    case ACCEL__J_STRING:
      n = accel__jinja_length(self->text, self->n);
      break;
    case ACCEL__J_LIST:
    case ACCEL__J_TUPLE:
    case ACCEL__J_VIEW:
    case ACCEL__J_RANGE:
      n = self->list->n;
      break;
    case ACCEL__J_DICT:
      n = self->dict->n;
      break;
    case ACCEL__J_LOOP:
      n = self->loop->items->n;
      break;
    case ACCEL__J_UNDEFINED:
      break;
    default:
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "object of type '%s' has no len()",
                               accel__jinja_type(self));
  }
  *out = accel__jinja_int((int64_t)n);
  return accel__jinja_charge(run, self->kind == ACCEL__J_STRING ? self->n : 0);
}

/* ---- keys to sort and compare by ---- */

/* The value at `path` (or the item itself), strings in lower case unless case counts. */
static accel_status key_of(accel__jinja *run, const value *item, const value *path,
                           bool case_sensitive, value *out) {
  *out = *item;
  if (path) ACCEL_TRY(accel__jinja_path(run, item, path, out));
  return out->kind == ACCEL__J_STRING && !case_sensitive ? accel__jinja_case(run, out, 'L', out)
                                                         : ACCEL_OK;
}

/* For sort: "a,b" sorts by a, then b. */
static accel_status sort_key(accel__jinja *run, const value *item, const value *path,
                             bool case_sensitive, value *out) {
  if (!path || path->kind != ACCEL__J_STRING || !path->n || !memchr(path->text, ',', path->n))
    return key_of(run, item, path, case_sensitive, out);
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 2, out));
  for (size_t i = 0; i <= path->n;) {
    const char *comma = i < path->n ? memchr(path->text + i, ',', path->n - i) : NULL;
    size_t end = comma ? (size_t)(comma - path->text) : path->n;
    value part = {.kind = ACCEL__J_STRING, .n = (uint32_t)(end - i), .text = path->text + i}, key;
    ACCEL_TRY(key_of(run, item, &part, case_sensitive, &key));
    ACCEL_TRY(accel__jinja_push(run, out->list, key));
    i = end + 1;
  }
  return ACCEL_OK;
}

/* Stable merge sort of items by keys; `down` keeps equal ones in their order too, as Python's
 * reverse does. */
static accel_status merge_sort(accel__jinja *run, value *key, value *item, value *spare_key,
                               value *spare, size_t n, bool down) {
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t from = 0; from < n; from += 2 * width) {
      size_t middle = from + width < n ? from + width : n,
             end = from + 2 * width < n ? from + 2 * width : n;
      for (size_t i = from, j = middle, to = from; to < end; ++to) {
        int order = 0;
        if (i < middle && j < end) ACCEL_TRY(accel__jinja_order(run, &key[j], &key[i], &order));
        bool right = i == middle || (j < end && (down ? order == 1 : order == -1));
        size_t take = right ? j++ : i++;
        spare_key[to] = key[take];
        spare[to] = item[take];
      }
    }
    memcpy(key, spare_key, n * sizeof *key);
    memcpy(item, spare, n * sizeof *item);
  }
  return ACCEL_OK;
}

static accel_status sorted(accel__jinja *run, const list *items, const value *path,
                           bool case_sensitive, bool down, value *out) {
  value *memory;
  size_t n = items->n;
  ACCEL_TRY(accel__jinja_alloc(run, 3 * n * sizeof *memory, &memory));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, n, out));
  for (size_t i = 0; i < n; ++i) {
    ACCEL_TRY(sort_key(run, &items->at[i], path, case_sensitive, &memory[i]));
    ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
  }
  return merge_sort(run, memory, out->list->at, memory + n, memory + 2 * n, n, down);
}

static accel_status f_sort(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  return sorted(run, items, some(a, 2), truth(a, 1), truth(a, 0), out);
}

static accel_status f_dictsort(accel__jinja *run, const value *self, args_t *a, value *out) {
  value pairs, path = accel__jinja_int(a->given[1] && accel__jinja_is(&a->at[1], "value"));
  if (self->kind != ACCEL__J_DICT)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "dictsort wants a mapping");
  ACCEL_TRY(accel__jinja_dict_items(run, self->dict, &pairs));
  return sorted(run, pairs.list, &path, truth(a, 0), truth(a, 2), out);
}

static accel_status extreme(accel__jinja *run, const value *self, args_t *a, int wanted,
                            value *out) {
  const list *items;
  value best;
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  if (items->n == 0) return undefined("No aggregated item, sequence was empty.", out);
  *out = items->at[0];
  ACCEL_TRY(key_of(run, out, some(a, 1), truth(a, 0), &best));
  for (size_t i = 1; i < items->n; ++i) {
    value key;
    int order;
    ACCEL_TRY(key_of(run, &items->at[i], some(a, 1), truth(a, 0), &key));
    ACCEL_TRY(accel__jinja_order(run, &key, &best, &order));
    if (order != wanted) continue;
    best = key;
    *out = items->at[i];
  }
  return ACCEL_OK;
}
static accel_status f_min(accel__jinja *run, const value *self, args_t *a, value *out) {
  return extreme(run, self, a, -1, out);
}
static accel_status f_max(accel__jinja *run, const value *self, args_t *a, value *out) {
  return extreme(run, self, a, 1, out);
}

static accel_status f_unique(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  value seen, nothing = accel__jinja_none();
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  ACCEL_TRY(accel__jinja_dict_new(run, 4, &seen));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_ITER, 4, out));
  for (size_t i = 0; i < items->n; ++i) {
    value key;
    const value *found;
    ACCEL_TRY(key_of(run, &items->at[i], some(a, 1), truth(a, 0), &key));
    ACCEL_TRY(accel__jinja_dict_find(run, seen.dict, &key, &found));
    if (found) continue;
    ACCEL_TRY(accel__jinja_dict_set(run, seen.dict, key, nothing));
    ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
  }
  return ACCEL_OK;
}

/* [(grouper, [items])], sorted by grouper */
static accel_status f_groupby(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  value order, last = {0};
  list *group = NULL;
  if (!a->given[0]) return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "groupby wants an attribute");
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  ACCEL_TRY(sorted(run, items, &a->at[0], truth(a, 2), false, &order));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, out));
  for (size_t i = 0; i < order.list->n; ++i) {
    value key, exact, members, pair;
    bool same = false;
    ACCEL_TRY(key_of(run, &order.list->at[i], &a->at[0], truth(a, 2), &key));
    if (key.kind == ACCEL__J_UNDEFINED && a->given[1]) key = a->at[1];
    if (group) ACCEL_TRY(accel__jinja_equal(run, &last, &key, &same));
    if (!same) {
      ACCEL_TRY(key_of(run, &order.list->at[i], &a->at[0], true, &exact));
      if (exact.kind == ACCEL__J_UNDEFINED && a->given[1]) exact = a->at[1];
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, 4, &members));
      ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_TUPLE, 2, &pair));
      ACCEL_TRY(accel__jinja_push(run, pair.list, exact));
      ACCEL_TRY(accel__jinja_push(run, pair.list, members));
      pair.list->name = ACCEL__J_GROUP;
      ACCEL_TRY(accel__jinja_push(run, out->list, pair));
      group = members.list;
      last = key;
    }
    ACCEL_TRY(accel__jinja_push(run, group, order.list->at[i]));
  }
  return ACCEL_OK;
}

/* ---- whole sequences ---- */

static accel_status f_list(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  (void)a;
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, items->n, out));
  for (size_t i = 0; i < items->n; ++i) ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
  return ACCEL_OK;
}

static accel_status f_items(accel__jinja *run, const value *self, args_t *a, value *out) {
  (void)a;
  if (self->kind == ACCEL__J_UNDEFINED) return accel__jinja_list_new(run, ACCEL__J_ITER, 0, out);
  if (self->kind != ACCEL__J_DICT)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "Can only get item pairs from a mapping.");
  ACCEL_TRY(accel__jinja_dict_items(run, self->dict, out));
  out->kind = ACCEL__J_ITER;
  return ACCEL_OK;
}

static accel_status f_reverse(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  (void)a;
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  if (self->kind == ACCEL__J_STRING) {
    accel__buffer b = {0};
    accel__buffer_text(&b, "");
    for (size_t i = items->n; i-- > 0;) accel__buffer_bytes(&b, items->at[i].text, items->at[i].n);
    return accel__jinja_take(run, &b, out);
  }
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_ITER, items->n, out));
  for (size_t i = items->n; i-- > 0;) ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
  return ACCEL_OK;
}

static accel_status f_join(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  accel__buffer b = {0};
  value by = {.kind = ACCEL__J_STRING, .text = ""};
  accel_status status = ACCEL_OK;
  if (a->given[0]) ACCEL_TRY(accel__jinja_str(run, &a->at[0], &by));
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  accel__buffer_text(&b, "");
  for (size_t i = 0; i < items->n && status == ACCEL_OK; ++i) {
    value item = items->at[i];
    if (some(a, 1)) status = accel__jinja_path(run, &items->at[i], &a->at[1], &item);
    if (i) accel__buffer_bytes(&b, by.text, by.n);
    if (status == ACCEL_OK) status = accel__jinja_write(run, &b, &item);
  }
  if (status == ACCEL_OK) return accel__jinja_take(run, &b, out);
  accel__buffer_free(&b);
  return status;
}

static accel_status f_sum(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  *out = a->given[1] ? a->at[1] : accel__jinja_int(0);
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  for (size_t i = 0; i < items->n; ++i) {
    value item = items->at[i], before = *out;
    if (some(a, 0)) ACCEL_TRY(accel__jinja_path(run, &items->at[i], &a->at[0], &item));
    if (item.kind == ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "sum() can't sum strings");
    ACCEL_TRY(accel__jinja_binary(run, '+', &before, &item, out));
  }
  return ACCEL_OK;
}

/* Lists of `n` items, or (slices) n lists; the last ones filled up. */
static accel_status in_parts(accel__jinja *run, const value *self, args_t *a, bool slices,
                             value *out) {
  const list *items;
  if (!a->given[0] || a->at[0].kind != ACCEL__J_INT || a->at[0].number < 1 ||
      a->at[0].number > ACCEL__JINJA_RANGE)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "batch and slice want a number from 1 to %d",
                             ACCEL__JINJA_RANGE);
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  size_t n = (size_t)a->at[0].number, parts = slices ? n : (items->n + n - 1) / n, at = 0;
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_ITER, parts, out));
  for (size_t p = 0; p < parts; ++p) {
    value part;
    size_t full = slices ? items->n / n + (items->n % n > 0) : n;
    size_t count = slices              ? items->n / n + (p < items->n % n)
                   : items->n - at < n ? items->n - at
                                       : n;
    bool fill = some(a, 1) && (slices ? p >= items->n % n : count < full);
    ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_LIST, count + 1, &part));
    for (size_t k = 0; k < count; ++k)
      ACCEL_TRY(accel__jinja_push(run, part.list, items->at[at++]));
    for (size_t k = 0; fill && k < (slices ? 1 : full - count); ++k)
      ACCEL_TRY(accel__jinja_push(run, part.list, a->at[1]));
    ACCEL_TRY(accel__jinja_push(run, out->list, part));
  }
  return ACCEL_OK;
}
static accel_status f_batch(accel__jinja *run, const value *self, args_t *a, value *out) {
  return in_parts(run, self, a, false, out);
}
static accel_status f_slice(accel__jinja *run, const value *self, args_t *a, value *out) {
  return in_parts(run, self, a, true, out);
}

/* ---- map, select ---- */

/* map(attribute=path, default=x), or map('filter', ...) */
static accel_status f_map(accel__jinja *run, const value *self, args_t *a, value *out) {
  const list *items;
  const value *path = NULL, *standard = NULL;
  const accel__jinja_builtin *filter = NULL;
  accel__jinja_args args;
  for (size_t i = 0; i < a->keys && a->rest_n == 0; ++i) {
    if (strcmp(a->key[i], "attribute") == 0)
      path = &a->key_value[i];
    else if (strcmp(a->key[i], "default") == 0)
      standard = &a->key_value[i];
    else
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "Unexpected keyword argument '%s'",
                               a->key[i]);
  }
  if (!path) {
    if (a->rest_n == 0 || a->rest[0].kind != ACCEL__J_STRING)
      return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "map requires a filter argument");
    filter = accel__jinja_filter(a->rest[0].text, a->rest[0].n);
    if (!filter)
      return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED,
                               "no filter named '%.*s' is implemented", (int)a->rest[0].n,
                               a->rest[0].text);
    ACCEL_TRY(accel__jinja_bind_args(run, filter, a->rest + 1, a->rest_n - 1, a->key, a->key_value,
                                     a->keys, &args));
  }
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_ITER, items->n, out));
  for (size_t i = 0; i < items->n; ++i) {
    value item;
    ACCEL_TRY(path ? accel__jinja_path(run, &items->at[i], path, &item)
                   : filter->fn(run, &items->at[i], &args, &item));
    if (path && standard && item.kind == ACCEL__J_UNDEFINED) item = *standard;
    ACCEL_TRY(accel__jinja_push(run, out->list, item));
    run->steps++;
  }
  return ACCEL_OK;
}

/* Items (or their attribute) for which a test holds, or which are true when none is named. */
static accel_status select_items(accel__jinja *run, const value *self, args_t *a, bool by_attr,
                                 bool keep, value *out) {
  const list *items;
  const accel__jinja_builtin *test = NULL;
  accel__jinja_args args;
  size_t first = by_attr;
  if (by_attr && a->rest_n == 0)
    return accel__jinja_fail(run, ACCEL_ERROR_FORMAT, "Missing parameter for attribute name");
  if (a->rest_n > first) {
    const value *name = &a->rest[first];
    test = name->kind == ACCEL__J_STRING
               ? accel__jinja_find(accel__jinja_tests, name->text, name->n)
               : NULL;
    if (!test)
      return accel__jinja_fail(run, ACCEL_ERROR_UNSUPPORTED, "no test named '%.*s' is implemented",
                               name->kind == ACCEL__J_STRING ? (int)name->n : 0,
                               name->kind == ACCEL__J_STRING ? name->text : "");
    ACCEL_TRY(accel__jinja_bind_args(run, test, name + 1, a->rest_n - first - 1, a->key,
                                     a->key_value, a->keys, &args));
  }
  ACCEL_TRY(accel__jinja_items(run, self, &items));
  ACCEL_TRY(accel__jinja_list_new(run, ACCEL__J_ITER, 4, out));
  for (size_t i = 0; i < items->n; ++i) {
    value what = items->at[i], holds;
    if (by_attr) ACCEL_TRY(accel__jinja_path(run, &items->at[i], &a->rest[0], &what));
    holds = what;
    if (test) ACCEL_TRY(test->fn(run, &what, &args, &holds));
    if (accel__jinja_truth(&holds) == keep)
      ACCEL_TRY(accel__jinja_push(run, out->list, items->at[i]));
    run->steps++;
  }
  return ACCEL_OK;
}
static accel_status f_select(accel__jinja *run, const value *self, args_t *a, value *out) {
  return select_items(run, self, a, false, true, out);
}
static accel_status f_reject(accel__jinja *run, const value *self, args_t *a, value *out) {
  return select_items(run, self, a, false, false, out);
}
static accel_status f_selectattr(accel__jinja *run, const value *self, args_t *a, value *out) {
  return select_items(run, self, a, true, true, out);
}
static accel_status f_rejectattr(accel__jinja *run, const value *self, args_t *a, value *out) {
  return select_items(run, self, a, true, false, out);
}

const accel__jinja_builtin accel__jinja_list_filters[] = {
    {"batch", "linecount fill_with", f_batch},
    {"count", "", f_length},
    {"dictsort", "case_sensitive by reverse", f_dictsort},
    {"first", "", f_first},
    {"groupby", "attribute default case_sensitive", f_groupby},
    {"items", "", f_items},
    {"join", "d attribute", f_join},
    {"last", "", f_last},
    {"length", "", f_length},
    {"list", "", f_list},
    {"map", "* **", f_map},
    {"max", "case_sensitive attribute", f_max},
    {"min", "case_sensitive attribute", f_min},
    {"reject", "* **", f_reject},
    {"rejectattr", "* **", f_rejectattr},
    {"reverse", "", f_reverse},
    {"select", "* **", f_select},
    {"selectattr", "* **", f_selectattr},
    {"slice", "slices fill_with", f_slice},
    {"sort", "reverse case_sensitive attribute", f_sort},
    {"sum", "attribute start", f_sum},
    {"unique", "case_sensitive attribute", f_unique},
    {NULL, NULL, NULL},
};
