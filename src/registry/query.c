/* query.c - questions to the registry: compatibility, dependencies, lists, whole entries, custom
 * profiles. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "registry/registry_internal.h"

/* ---- lists of strings: one block, freed with free ---- */

static accel_status strings_block(const char *const *item, uint32_t n, accel_strings **out) {
  size_t bytes = sizeof **out + n * sizeof(char *), at = bytes;
  for (uint32_t i = 0; i < n; i++) bytes += strlen(item[i]) + 1;
  accel_strings *list = malloc(bytes);
  if (!list) return accel__no_memory(bytes);
  const char **place = (const char **)(list + 1);
  for (uint32_t i = 0; i < n; i++) {
    size_t length = strlen(item[i]) + 1;
    place[i] = memcpy((char *)list + at, item[i], length);
    at += length;
  }
  *list = (accel_strings){.n = n, .item = place};
  *out = list;
  return ACCEL_OK;
}

static accel_status unknown_name(const char *what, const char *name, const char *const *known,
                                 uint32_t n) {
  accel__buffer list = {0};
  for (uint32_t i = 0; i < n; i++) accel__buffer_printf(&list, "%s%s", i ? ", " : "", known[i]);
  accel__fail(ACCEL_ERROR_ARGUMENT, "unknown %s '%.100s'", what, name ? name : "");
  accel__remedy(ACCEL_ERROR_ARGUMENT, "known: %s", list.data ? list.data : "");
  accel__buffer_free(&list);
  return ACCEL_ERROR_ARGUMENT;
}

static accel_status hardware_index(const char *name, int *out) {
  *out = accel__registry_hardware_index(name);
  return *out >= 0 ? ACCEL_OK
                   : unknown_name("hardware", name, accel__hardware_names, accel__hardware_count);
}

static accel_status precision_index(const char *name, int *out) {
  *out = accel__registry_precision_index(name);
  return *out >= 0
             ? ACCEL_OK
             : unknown_name("precision", name, accel__precision_names, accel__precision_count);
}

/* ---- compatibility ---- */

accel_status accel__registry_hardware_supported(accel__registry *r, const char *model,
                                                const char *hardware, int *supported) {
  const accel__registry_model *m;
  int h;
  *supported = 0;
  ACCEL_TRY(accel__registry_lookup(r, model, &m));
  ACCEL_TRY(hardware_index(hardware, &h));
  *supported = m->hardware >> h & 1;
  return ACCEL_OK;
}

accel_status accel__registry_precision_supported(accel__registry *r, const char *model,
                                                 const char *hardware, const char *precision,
                                                 int *supported) {
  const accel__registry_model *m;
  int h, p;
  *supported = 0;
  ACCEL_TRY(accel__registry_lookup(r, model, &m));
  ACCEL_TRY(hardware_index(hardware, &h));
  ACCEL_TRY(precision_index(precision, &p));
  *supported = m->precision[h] >> p & 1;
  return ACCEL_OK;
}

bool accel__registry_lists(const accel__registry_model *m, const char *hardware,
                           const char *precision) {
  int h = accel__registry_hardware_index(hardware), p = accel__registry_precision_index(precision);
  return h >= 0 && p >= 0 && (m->precision[h] >> p & 1);
}

const accel__json *accel__registry_option(const accel__registry_model *m, const char *hardware,
                                          const char *key) {
  const char *name = accel__registry_hardware_name(hardware);
  return name ? accel__json_get(accel__json_get(m->options, name), key) : NULL;
}

/* ---- dependencies ---- */

typedef struct gathered {
  const char *item[256];
  uint32_t n;
} gathered;

static void gather_one(gathered *g, const char *text) {
  for (uint32_t i = 0; i < g->n; i++) {
    if (strcmp(g->item[i], text) == 0) return;
  }
  if (g->n < sizeof g->item / sizeof *g->item) g->item[g->n++] = text;
}

static void gather(gathered *g, const accel__json *list) {
  ACCEL_JSON_EACH(item, list) gather_one(g, item->valuestring);
}

/* "unsupported: WHAT, use X instead", X being the first of `instead` that is listed. */
static const char *unsupported(accel__arena *arena, const char *what, const char *instead) {
  if (!instead) return accel__arena_printf(arena, "unsupported: %s", what);
  return accel__arena_printf(arena, "unsupported: %s, use %s instead", what, instead);
}

static const char *other_hardware(const accel__registry *r, const accel__registry_model *m,
                                  const char *hardware) {
  ACCEL_JSON_EACH(item, accel__json_get(accel__json_get(r->hardware, hardware), "instead")) {
    int h = accel__registry_hardware_index(item->valuestring);
    if (h >= 0 && (m->hardware >> h & 1)) return item->valuestring;
  }
  return NULL;
}

static const char *other_precision(const accel__registry *r, const accel__registry_model *m, int h,
                                   const char *precision) {
  ACCEL_JSON_EACH(item, accel__json_get(accel__json_get(r->precisions, precision), "instead")) {
    int p = accel__registry_precision_index(item->valuestring);
    if (p >= 0 && (m->precision[h] >> p & 1)) return item->valuestring;
  }
  return NULL;
}

static accel_status gather_hardware(const accel__registry *r, const accel__registry_model *m, int h,
                                    accel__arena *arena, gathered *g) {
  const char *name = accel__hardware_names[h], *line;
  if (m->hardware >> h & 1) {
    gather(g, accel__json_get(accel__json_get(accel__json_get(m->json, "dependencies"), "optional"),
                              name));
    return ACCEL_OK;
  }
  line = unsupported(arena, name, other_hardware(r, m, name));
  if (line) gather_one(g, line);
  return line ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status gather_precision(const accel__registry *r, const accel__registry_model *m,
                                     int h, int p, accel__arena *arena, gathered *g) {
  const accel__json *all = accel__json_get(m->json, "dependencies");
  const char *name = accel__precision_names[p];
  if (h < 0 || (m->precision[h] >> p & 1)) {
    gather(g, accel__json_get(accel__json_get(all, "precision"), name));
    if (h >= 0)
      gather(g, accel__json_get(accel__json_get(accel__json_get(all, "hardware_precision"),
                                                accel__hardware_names[h]),
                                name));
    return ACCEL_OK;
  }
  if (!(m->hardware >> h & 1)) return ACCEL_OK; /* said already, of the hardware */
  const char *what = accel__arena_printf(arena, "%s on %s", name, accel__hardware_names[h]);
  const char *line = what ? unsupported(arena, what, other_precision(r, m, h, name)) : NULL;
  if (line) gather_one(g, line);
  return line ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__registry_dependencies(accel__registry *r, const char *model,
                                          const char *hardware, const char *precision,
                                          accel_strings **out) {
  const accel__registry_model *m;
  accel__arena arena = {0};
  gathered g = {.n = 0};
  int h = -1, p = -1;
  *out = NULL;
  ACCEL_TRY(accel__registry_lookup(r, model, &m));
  if (hardware) ACCEL_TRY(hardware_index(hardware, &h));
  if (precision) ACCEL_TRY(precision_index(precision, &p));
  gather(&g, accel__json_get(accel__json_get(m->json, "dependencies"), "system"));
  accel_status status = h >= 0 ? gather_hardware(r, m, h, &arena, &g) : ACCEL_OK;
  if (status == ACCEL_OK && p >= 0) status = gather_precision(r, m, h, p, &arena, &g);
  if (status == ACCEL_OK) status = strings_block(g.item, g.n, out);
  accel__arena_free(&arena);
  return status;
}

/* ---- lists and entries ---- */

typedef struct wanted {
  const char *family, *text;
  int hardware, precision; /* -1: any */
} wanted;

static bool contains(const char *text, const char *part) {
  size_t n = strlen(part);
  for (; *text; text++) {
    if (strncasecmp(text, part, n) == 0) return true;
  }
  return n == 0;
}

static bool matches(const accel__registry_model *m, const wanted *w) {
  if (w->family && !accel__equal_ignoring_case(w->family, m->entry.family)) return false;
  if (w->text && !contains(m->entry.model, w->text) && !contains(m->entry.description, w->text))
    return false;
  if (w->hardware >= 0 && !(m->hardware >> w->hardware & 1)) return false;
  if (w->precision < 0) return true;
  for (uint32_t h = 0; h < accel__hardware_count; h++) {
    if ((w->hardware < 0 || w->hardware == (int)h) && (m->precision[h] >> w->precision & 1))
      return true;
  }
  return false;
}

static accel_status read_filter(const accel_registry_filter *filter, wanted *out) {
  *out = (wanted){.hardware = -1, .precision = -1};
  if (!filter) return ACCEL_OK;
  out->family = filter->family;
  out->text = filter->text;
  if (filter->hardware) ACCEL_TRY(hardware_index(filter->hardware, &out->hardware));
  if (filter->precision) ACCEL_TRY(precision_index(filter->precision, &out->precision));
  return ACCEL_OK;
}

static int by_name(const void *left, const void *right) {
  return strcasecmp(*(const char *const *)left, *(const char *const *)right);
}

/* Names of the listed models that match, sorted; malloc'd.  Under the write lock, since entries are
 * completed here. */
static accel_status collect(accel__registry *r, const wanted *w, const char ***out, uint32_t *n) {
  const char **name = malloc((r->n ? r->n : 1) * sizeof *name);
  if (!name) return accel__no_memory(r->n * sizeof *name);
  *n = 0;
  for (uint32_t i = 0; i < r->n; i++) {
    const accel__registry_model *m;
    accel_status status = accel__registry_resolve(r, i, &m);
    if (status != ACCEL_OK) {
      free(name);
      return status;
    }
    if (!m->derived && matches(m, w)) name[(*n)++] = m->entry.model;
  }
  qsort(name, *n, sizeof *name, by_name);
  *out = name;
  return ACCEL_OK;
}

accel_status accel__registry_list(accel__registry *r, const accel_registry_filter *filter,
                                  accel_strings **out) {
  wanted w;
  const char **name;
  uint32_t n;
  *out = NULL;
  ACCEL_TRY(read_filter(filter, &w));
  pthread_rwlock_wrlock(&r->lock);
  accel_status status = collect(r, &w, &name, &n);
  pthread_rwlock_unlock(&r->lock);
  if (status != ACCEL_OK) return status;
  status = strings_block(name, n, out);
  free(name);
  return status;
}

static accel_status print_json(const accel__json *json, accel__buffer *b) {
  char *text = cJSON_PrintUnformatted(json);
  if (!text) return accel__no_memory(1);
  accel__buffer_text(b, text);
  cJSON_free(text);
  return ACCEL_OK;
}

static accel_status print_member(accel__buffer *b, const char *key, const accel__json *json) {
  accel__buffer_printf(b, ",\"%s\":", key);
  return print_json(json, b);
}

static accel_status print_all(accel__registry *r, accel__buffer *b) {
  const wanted any = {.hardware = -1, .precision = -1};
  const char **name;
  uint32_t n;
  accel__buffer_text(b, "{\"schema\":\"accel.registry/1\"");
  ACCEL_TRY(print_member(b, "hardware", r->hardware));
  ACCEL_TRY(print_member(b, "precisions", r->precisions));
  ACCEL_TRY(print_member(b, "families", r->families));
  ACCEL_TRY(collect(r, &any, &name, &n));
  accel__buffer_text(b, ",\"models\":[");
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    if (i) accel__buffer_text(b, ",");
    status = print_json(r->item[accel__registry_find(r, name[i])].model->json, b);
  }
  free(name);
  accel__buffer_text(b, "]}");
  return status;
}

accel_status accel__registry_json(accel__registry *r, const char *model, char **out) {
  accel__buffer b = {0};
  const accel__registry_model *m;
  accel_status status;
  *out = NULL;
  if (model) {
    ACCEL_TRY(accel__registry_lookup(r, model, &m));
    status = print_json(m->json, &b);
  } else {
    pthread_rwlock_wrlock(&r->lock);
    status = print_all(r, &b);
    pthread_rwlock_unlock(&r->lock);
  }
  if (status == ACCEL_OK) status = accel__buffer_status(&b);
  if (status != ACCEL_OK) accel__buffer_free(&b);
  *out = b.data;
  return status;
}

/* ---- custom profiles ---- */

/* The new row of the matrix: with merge, on top of the old one. */
static accel_status read_profile(const char *const *precisions, const int *supported, uint32_t n,
                                 bool merge, uint32_t before, uint32_t *out) {
  *out = merge ? before : 0;
  for (uint32_t i = 0; i < n; i++) {
    int p;
    ACCEL_TRY(precision_index(precisions[i], &p));
    *out = supported[i] ? *out | 1u << p : *out & ~(1u << p);
  }
  return ACCEL_OK;
}

/* {"hardware_compatibility":{h:bool},"precision_compatibility":{h:{...}}}, to be laid over an
 * entry; NULL: no memory. */
static cJSON *profile_json(int h, uint32_t row) {
  const char *name = accel__hardware_names[h];
  cJSON *over = cJSON_CreateObject();
  cJSON *hardware = cJSON_AddObjectToObject(over, "hardware_compatibility"),
        *matrix = cJSON_AddObjectToObject(over, "precision_compatibility");
  cJSON *line = cJSON_AddObjectToObject(matrix, name);
  bool whole = hardware && line && cJSON_AddBoolToObject(hardware, name, row != 0);
  for (uint32_t p = 0; whole && p < accel__precision_count; p++)
    whole = cJSON_AddBoolToObject(line, accel__precision_names[p], row >> p & 1);
  if (whole) return over;
  cJSON_Delete(over);
  return NULL;
}

accel_status accel__registry_set_profile(accel__registry *r, const char *model,
                                         const char *hardware, const char *const *precisions,
                                         const int *supported, uint32_t n, bool merge) {
  const accel__registry_model *m;
  uint32_t row = 0;
  int h;
  ACCEL_TRY(accel__registry_lookup(r, model, &m));
  ACCEL_TRY(hardware_index(hardware, &h));
  pthread_rwlock_wrlock(&r->lock);
  /* as it is now: another thread may have changed it */
  accel_status status = accel__registry_resolve(r, m->item, &m);
  if (status == ACCEL_OK)
    status = read_profile(precisions, supported, n, merge, m->precision[h], &row);
  if (status == ACCEL_OK) {
    cJSON *over = profile_json(h, row);
    status = over ? accel__registry_override(r, m, over) : accel__no_memory(sizeof *over);
  }
  pthread_rwlock_unlock(&r->lock);
  return status;
}
