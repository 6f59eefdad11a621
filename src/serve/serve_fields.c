/* serve_fields.c - members of a request by name, type and range. */
#include "serve/serve_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/serve_media.h"

enum { INNER = 2 }; /* how deep objects lie in the body whose members count as its own */

/* ---- begin and end ---- */

void fields_of_object(serve_fields *f, serve_request *request, const cJSON *object) {
  *f = (serve_fields){.request = request, .object = object, .failed = !object};
}

void fields_of_json(serve_fields *f, serve_request *request) {
  fields_of_object(f, request, serve_json(request));
}

/* "name[]" is always a list, other names are when they come twice. */
static bool add_part(cJSON *object, const serve_part *part) {
  const size_t n = strlen(part->name);
  const bool list = n > 2 && !strcmp(part->name + n - 2, "[]");
  cJSON *value = cJSON_CreateString(part->data),
        *there = cJSON_GetObjectItemCaseSensitive(object, part->name);
  if (!value) return false;
  if (cJSON_IsArray(there)) return cJSON_AddItemToArray(there, value);
  if (!list && !there) return cJSON_AddItemToObject(object, part->name, value);
  cJSON *array = there ? cJSON_CreateArray() : cJSON_AddArrayToObject(object, part->name);
  if (there) { /* becomes the first of a list in its own place */
    cJSON *first = cJSON_Duplicate(there, true);
    if (!array || !first || !cJSON_AddItemToArray(array, first) ||
        !cJSON_ReplaceItemInObjectCaseSensitive(object, part->name, array)) {
      cJSON_Delete(value);
      return false;
    }
  }
  return array && cJSON_AddItemToArray(array, value);
}

void fields_of_form(serve_fields *f, serve_request *request) {
  uint32_t n = 0;
  const serve_part *part = serve_form(request, &n);
  *f = (serve_fields){.request = request, .form = true, .failed = !part};
  if (!part) return;
  f->made = cJSON_CreateObject();
  bool whole = f->made != NULL;
  for (uint32_t i = 0; whole && i < n; ++i)
    whole = part[i].file_name || add_part(f->made, &part[i]);
  f->object = f->made;
  if (whole) return;
  f->failed = true;
  serve_fail(request, 500, NULL, NULL, "out of memory");
}

static bool was_asked(const serve_fields *f, const char *name) {
  for (uint32_t i = 0; i < f->n_asked; ++i)
    if (!strcmp(f->asked[i], name)) return true;
  return false;
}

/* Objects inside of the body whose members count as its own. */
static bool is_inner(const cJSON *item) {
  static const char *const names[] = {"parameters", "generate_parameters", "generation_parameters",
                                      "generate_kwargs"};
  for (size_t i = 0; cJSON_IsObject(item) && item->string && i < sizeof names / sizeof *names; ++i)
    if (!strcmp(names[i], item->string)) return true;
  return false;
}

/* The body's own member, else that of an inner object, at most two deep. */
static const cJSON *find_member(const cJSON *object, const char *name, int depth) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name), *inner;
  if (item || !depth) return item;
  cJSON_ArrayForEach(inner, object) {
    if (!item && is_inner(inner)) item = find_member(inner, name, depth - 1);
  }
  return item;
}

/* Names as a header can have them. */
static void list_ignored(const serve_fields *f, const cJSON *object, int depth, char *list,
                         size_t size) {
  const cJSON *item;
  cJSON_ArrayForEach(item, object) {
    const size_t used = strlen(list);
    if (!item->string || cJSON_IsNull(item) || was_asked(f, item->string)) continue;
    if (depth && is_inner(item)) {
      list_ignored(f, item, depth - 1, list, size);
      continue;
    }
    if (used + strlen(item->string) + 3 > size) return;
    char *to = list + used;
    if (used) *to++ = ',', *to++ = ' ';
    for (const char *s = item->string; *s; ++s)
      *to++ = *s > ' ' && *s < 127 && *s != ',' ? *s : '?';
    *to = 0;
  }
}

bool fields_end(serve_fields *f) {
  char list[512] = "";
  if (f->failed) return false;
  list_ignored(f, f->object, f->flat ? 0 : INNER, list, sizeof list);
  if (*list) serve_add_header(f->request, "x-accel-ignored", list);
  return true;
}

void fields_free(serve_fields *f) {
  cJSON_Delete(f->made);
  for (uint32_t i = 0; i < f->n_owned; ++i) free(f->owned[i]);
  free(f->owned);
  f->made = NULL;
  f->owned = NULL;
  f->n_owned = 0;
}

void *fields_memory(serve_fields *f, size_t bytes) {
  void **more = f->failed ? NULL : realloc(f->owned, (f->n_owned + 1) * sizeof *more);
  if (more) f->owned = more;
  void *memory = more ? malloc(bytes + 1) : NULL;
  if (memory) return f->owned[f->n_owned++] = memory;
  if (!f->failed) serve_fail(f->request, 500, NULL, NULL, "out of memory");
  f->failed = true;
  return NULL;
}

void field_wrong(serve_fields *f, const char *name, const char *format, ...) {
  char text[512];
  va_list list;
  if (f->failed) return;
  f->failed = true;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  serve_fail(f->request, 400, name, NULL, "`%s`: %s", name, text);
}

/* ---- single members ---- */

const cJSON *field_item(serve_fields *f, const char *name) {
  if (f->failed) return NULL;
  if (!was_asked(f, name) && f->n_asked < SERVE_FIELDS) f->asked[f->n_asked++] = name;
  const cJSON *item = find_member(f->object, name, f->flat ? 0 : INNER);
  return cJSON_IsNull(item) ? NULL : item;
}

const char *field_text(serve_fields *f, const char *name, const char *otherwise) {
  const cJSON *item = field_item(f, name);
  if (!item) return otherwise;
  if (cJSON_IsString(item)) return item->valuestring;
  field_wrong(f, name, "must be a string");
  return otherwise;
}

const char *field_choice(serve_fields *f, const char *name, const char *words,
                         const char *otherwise) {
  const char *text = field_text(f, name, NULL);
  const size_t n = text ? strlen(text) : 0;
  if (!text) return otherwise;
  for (const char *word = words; word; word = strchr(word, '|')) {
    if (*word == '|') ++word;
    if (n && !strncmp(word, text, n) && (word[n] == '|' || !word[n])) return text;
  }
  field_wrong(f, name, "is none of %s", words);
  return otherwise;
}

bool field_flag(serve_fields *f, const char *name, bool otherwise) {
  const cJSON *item = field_item(f, name);
  if (!item) return otherwise;
  if (cJSON_IsBool(item)) return cJSON_IsTrue(item);
  const char *text = f->form ? cJSON_GetStringValue(item) : NULL;
  if (text && (!strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "1"))) return true;
  if (text && (!strcmp(text, "false") || !strcmp(text, "False") || !strcmp(text, "0")))
    return false;
  field_wrong(f, name, "must be true or false");
  return otherwise;
}

double field_number(serve_fields *f, const char *name, double least, double most,
                    double otherwise) {
  const cJSON *item = field_item(f, name);
  if (!item) return otherwise;
  double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
  if (f->form && cJSON_IsString(item)) {
    char *end;
    value = strtod(item->valuestring, &end);
    if (!*item->valuestring || *end) value = (double)NAN;
  }
  if (value >= least && value <= most) return value;
  field_wrong(f, name, "must be a number between %.15g and %.15g", least, most);
  return otherwise;
}

int64_t field_integer(serve_fields *f, const char *name, int64_t least, int64_t most,
                      int64_t otherwise) {
  const double value =
      field_number(f, name, (double)least, (double)most, (double)NAN); /* exact below 2^53 */
  if (isnan(value)) return otherwise;
  if (value == nearbyint(value)) return (int64_t)value;
  field_wrong(f, name, "must be a whole number");
  return otherwise;
}

/* ---- lists of texts ---- */

const char *const *item_texts(serve_fields *f, const char *name, const cJSON *item, uint32_t *n,
                              bool *single) {
  const bool one = cJSON_IsString(item);
  const int count = one ? 1 : cJSON_GetArraySize(item);
  const cJSON *text;
  uint32_t i = 0;
  *n = 0;
  *single = one;
  if (f->failed) return NULL;
  if (!one && !cJSON_IsArray(item)) {
    field_wrong(f, name, "must be a string or a list of strings");
    return NULL;
  }
  if (count > SERVE_MAX_TEXTS) {
    field_wrong(f, name, "has %d texts; a request takes %d", count, SERVE_MAX_TEXTS);
    return NULL;
  }
  const char **list = fields_memory(f, ((size_t)count + 1) * sizeof *list);
  if (!list) return NULL;
  if (one) list[i++] = item->valuestring;
  if (!one) {
    cJSON_ArrayForEach(text, item) {
      if (!cJSON_IsString(text)) {
        field_wrong(f, name, "element %u is no string", i);
        return NULL;
      }
      list[i++] = text->valuestring;
    }
  }
  *n = i;
  return list;
}

const char *const *field_texts(serve_fields *f, const char *name, uint32_t *n, bool *single) {
  const cJSON *item = field_item(f, name);
  *n = 0;
  *single = false;
  return item ? item_texts(f, name, item, n, single) : NULL;
}

/* ---- media ---- */

bool field_media_bytes(serve_fields *f, const char *name, const char *data, size_t n,
                       serve_media_kind kind, accel_media *out) {
  *out = (accel_media){.name = name, .data = data, .n = n};
  if (!n) field_wrong(f, name, "is empty");
  if (kind == SERVE_PICTURE) f->pixels += serve_pixels((const uint8_t *)data, n);
  if (f->pixels > SERVE_MAX_PIXELS)
    field_wrong(f, name, "%llu pixels; a request may have %llu", (unsigned long long)f->pixels,
                (unsigned long long)SERVE_MAX_PIXELS);
  return !f->failed;
}

bool field_media(serve_fields *f, const char *name, const char *given, serve_media_kind kind,
                 accel_media *out) {
  const char *encoded = serve_data_uri(given);
  const bool uri = !strncasecmp(given, "data:", 5);
  if (!uri && strstr(given, "://")) {
    field_wrong(f, name, "URLs are not fetched; send the bytes as data:TYPE;base64,...");
    return false;
  }
  if (uri && !encoded) {
    field_wrong(f, name, "of data: URIs only data:TYPE;base64,... is read");
    return false;
  }
  if (uri) given = encoded;
  char *bytes = fields_memory(f, strlen(given) / 4 * 3 + 3);
  if (!bytes) return false;
  const size_t n = serve_base64(given, true, bytes);
  if (n != SIZE_MAX) return field_media_bytes(f, name, bytes, n, kind, out);
  field_wrong(f, name, "is no base64");
  return false;
}
