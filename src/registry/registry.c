/* registry.c - the table of models: made from the embedded data, extended by files and calls,
 * searched by name. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/registry.h"
#include "core/file.h"
#include "core/find_model.h"
#include "registry/registry_internal.h"

enum { MAX_NAME = 4200, MAX_FILE = 16 << 20 };

/* ---- JSON helpers ---- */

accel_status accel__registry_put(cJSON *object, const char *key, cJSON *child) {
  if (!child) return accel__no_memory(sizeof *child);
  cJSON_DeleteItemFromObjectCaseSensitive(object, key);
  if (cJSON_AddItemToObject(object, key, child)) return ACCEL_OK;
  cJSON_Delete(child);
  return accel__no_memory(sizeof *child);
}

accel_status accel__registry_merge(cJSON *base, const accel__json *over) {
  ACCEL_JSON_EACH(member, over) {
    cJSON *mine = cJSON_GetObjectItemCaseSensitive(base, member->string);
    if (cJSON_IsObject(mine) && cJSON_IsObject(member))
      ACCEL_TRY(accel__registry_merge(mine, member));
    else
      ACCEL_TRY(accel__registry_put(base, member->string, cJSON_Duplicate(member, true)));
  }
  return ACCEL_OK;
}

/* Makes sure that the array has capacity for element n. */
static accel_status grow(void *array, uint32_t n, uint32_t *capacity, size_t size) {
  if (n < *capacity) return ACCEL_OK;
  uint32_t wanted = *capacity ? *capacity * 2 : 256;
  void *bigger = realloc(*(void **)array, wanted * size);
  if (!bigger) return accel__no_memory(wanted * size);
  *(void **)array = bigger;
  *capacity = wanted;
  return ACCEL_OK;
}

accel_status accel__registry_keep(accel__registry *r, cJSON *json) {
  accel_status status = grow(&r->garbage, r->n_garbage, &r->garbage_capacity, sizeof *r->garbage);
  if (status == ACCEL_OK)
    r->garbage[r->n_garbage++] = json;
  else
    cJSON_Delete(json);
  return status;
}

/* ---- names ---- */

/* Lower case, without "@revision": what names are looked up by.  false: too long for any name. */
static bool fold_name(const char *name, char out[MAX_NAME]) {
  size_t n = strcspn(name, "@");
  if (n >= MAX_NAME) return false;
  for (size_t i = 0; i < n; i++) out[i] = (char)tolower((unsigned char)name[i]);
  out[n] = 0;
  return true;
}

int64_t accel__registry_find(const accel__registry *r, const char *name) {
  char folded[MAX_NAME];
  int64_t found;
  return fold_name(name, folded) && accel__map_get(&r->names, folded, strlen(folded), &found)
             ? found
             : -1;
}

static accel_status set_key(accel__registry *r, const char *key, uint32_t item) {
  const char *kept = accel__arena_string(&r->arena, key);
  return kept ? accel__map_set(&r->names, kept, strlen(kept), item) : ACCEL_ERROR_OUT_OF_MEMORY;
}

static accel_status add_name(accel__registry *r, const char *name, uint32_t item) {
  char folded[MAX_NAME];
  if (accel__registry_find(r, name) == item) return ACCEL_OK;
  if (!fold_name(name, folded))
    return accel__fail(ACCEL_ERROR_FORMAT, "model name '%.80s...' is too long", name);
  ACCEL_TRY(set_key(r, folded, item));
  ACCEL_TRY(grow(&r->known, r->n_known, &r->known_capacity, sizeof *r->known));
  r->known[r->n_known] = accel__arena_string(&r->arena, name);
  return r->known[r->n_known++] ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* ---- adding ---- */

static accel_status new_item(accel__registry *r, cJSON *raw, uint32_t *index) {
  accel_status status = grow(&r->item, r->n, &r->capacity, sizeof *r->item);
  if (status != ACCEL_OK) {
    cJSON_Delete(raw);
    return status;
  }
  *index = r->n++;
  r->item[*index] = (accel__registry_item){.raw = raw};
  return ACCEL_OK;
}

/* The old entry with `raw` on top; its id stays, as raw may have used an alias.  Takes raw over. */
static accel_status override_item(accel__registry *r, uint32_t index, cJSON *raw) {
  cJSON *old = r->item[index].raw, *merged = cJSON_Duplicate(old, true);
  accel_status status = merged ? ACCEL_OK : accel__no_memory(sizeof *old);
  cJSON_DeleteItemFromObjectCaseSensitive(raw, "id");
  if (status == ACCEL_OK) status = accel__registry_merge(merged, raw);
  cJSON_Delete(raw);
  if (status != ACCEL_OK) {
    cJSON_Delete(merged);
    return status;
  }
  r->item[index] = (accel__registry_item){.raw = merged};
  return accel__registry_keep(r, old);
}

accel_status accel__registry_override(accel__registry *r, const accel__registry_model *model,
                                      cJSON *over) {
  return override_item(r, model->item, over);
}

accel_status accel__registry_insert(accel__registry *r, cJSON *raw) {
  uint32_t index;
  int64_t known = accel__registry_find(r, accel__json_get(raw, "id")->valuestring);
  if (known >= 0)
    ACCEL_TRY(override_item(r, index = (uint32_t)known, raw));
  else
    ACCEL_TRY(new_item(r, raw, &index));
  raw = r->item[index].raw;
  ACCEL_TRY(add_name(r, accel__json_get(raw, "id")->valuestring, index));
  ACCEL_JSON_EACH(alias, accel__json_get(raw, "aliases"))
  ACCEL_TRY(add_name(r, alias->valuestring, index));
  return ACCEL_OK;
}

/* Names of the entries of one call, to find what is given twice among them. */
typedef struct batch {
  accel__map names; /* folded name -> number of the entry */
  accel__arena arena;
} batch;

static accel_status check_name(const accel__registry *r, batch *b, const char *name, int64_t owner,
                               int64_t place, const char *file) {
  char folded[MAX_NAME];
  int64_t other = accel__registry_find(r, name);
  if (other >= 0 && other != owner)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: name '%s' belongs to '%s' already", file, name,
                       accel__json_get(r->item[other].raw, "id")->valuestring);
  if (!fold_name(name, folded))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: name '%.80s...' is too long", file, name);
  if (accel__map_get(&b->names, folded, strlen(folded), &other) && other != place)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: name '%s' is given to two entries", file, name);
  const char *key = accel__arena_string(&b->arena, folded);
  return key ? accel__map_set(&b->names, key, strlen(key), place) : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* What a schema cannot say of an entry: its family is known, and its names belong to no other
 * entry, in the table or in this call. */
static accel_status check_entry(const accel__registry *r, batch *b, const accel__json *entry,
                                const char *family, int64_t place, const char *file) {
  const char *id = accel__json_get(entry, "id")->valuestring;
  int64_t owner = accel__registry_find(r, id);
  const accel__json *own = accel__json_get(entry, "family"),
                    *before = owner < 0 ? NULL : accel__json_get(r->item[owner].raw, "family");
  const char *name = own ? own->valuestring : family ? family : before ? before->valuestring : NULL;
  if (!name) return accel__fail(ACCEL_ERROR_FORMAT, "%s: entry '%s' lacks 'family'", file, id);
  if (!accel__json_get(r->families, name))
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: entry '%s': field 'family': '%s' is not known",
                       file, id, name);
  ACCEL_TRY(check_name(r, b, id, owner, place, file));
  ACCEL_JSON_EACH(alias, accel__json_get(entry, "aliases"))
  ACCEL_TRY(check_name(r, b, alias->valuestring, owner, place, file));
  return ACCEL_OK;
}

/* One entry, or the members of "models". */
static const accel__json *entries_of(const accel__json *root, bool *single) {
  const accel__json *models = accel__json_get(root, "models");
  *single = !models;
  return models ? models->child : root;
}

static accel_status check_entries(const accel__registry *r, const accel__json *root,
                                  const char *file) {
  bool single;
  batch b = {0};
  int64_t place = 0;
  accel_status status = ACCEL_OK;
  const accel__json *family = accel__json_get(root, "family");
  for (const accel__json *entry = entries_of(root, &single); entry && status == ACCEL_OK;
       entry = single ? NULL : entry->next)
    status =
        check_entry(r, &b, entry, single || !family ? NULL : family->valuestring, place++, file);
  accel__map_free(&b.names);
  accel__arena_free(&b.arena);
  return status;
}

static accel_status insert_entries(accel__registry *r, const accel__json *root) {
  bool single;
  const accel__json *family = accel__json_get(root, "family");
  for (const accel__json *entry = entries_of(root, &single); entry;
       entry = single ? NULL : entry->next) {
    cJSON *raw = cJSON_Duplicate(entry, true);
    if (!raw) return accel__no_memory(sizeof *raw);
    if (!single && family && !accel__json_get(raw, "family")) {
      accel_status status = accel__registry_put(raw, "family", cJSON_Duplicate(family, true));
      if (status != ACCEL_OK) {
        cJSON_Delete(raw);
        return status;
      }
    }
    ACCEL_TRY(accel__registry_insert(r, raw));
  }
  return ACCEL_OK;
}

/* Families are replaced as a whole table, since entries that are being read may point into the old
 * one. */
static accel_status add_families(accel__registry *r, const accel__json *families) {
  cJSON *merged = cJSON_Duplicate(r->families, true);
  if (!merged) return accel__no_memory(sizeof *merged);
  accel_status status = accel__registry_merge(merged, families);
  if (status != ACCEL_OK) {
    cJSON_Delete(merged);
    return status;
  }
  ACCEL_TRY(accel__registry_keep(r, merged));
  r->families = merged;
  for (uint32_t i = 0; i < r->n; i++) r->item[i].model = NULL;
  return ACCEL_OK;
}

accel_status accel__registry_add(accel__registry *r, const char *json, size_t n, const char *name) {
  accel__json_file file = {0};
  accel_status status =
      n > MAX_FILE ? accel__fail(ACCEL_ERROR_FORMAT, "%s: larger than %d bytes", name, MAX_FILE)
                   : accel__json_parse(json, n, name, &file);
  if (status != ACCEL_OK) return status;
  const accel__json *families = accel__json_get(file.root, "families"),
                    *models = accel__json_get(file.root, "models");
  status = accel__schema_check(r->schema,
                               families ? "families_addition"
                               : models ? "models_file"
                                        : "model",
                               file.root, name);
  if (status == ACCEL_OK) {
    pthread_rwlock_wrlock(&r->lock);
    if (families)
      status = add_families(r, families);
    else
      status = check_entries(r, file.root, name);
    if (status == ACCEL_OK && !families) status = insert_entries(r, file.root);
    pthread_rwlock_unlock(&r->lock);
  }
  accel__json_free(&file);
  return status;
}

/* ---- life ---- */

static accel_status load_embedded(accel__registry *r) {
  ACCEL_TRY(accel__json_parse(accel__registry_data, accel__registry_data_bytes, "embedded registry",
                              &r->data));
  r->hardware = accel__json_get(r->data.root, "hardware");
  r->precisions = accel__json_get(r->data.root, "precisions");
  r->defaults = accel__json_get(r->data.root, "defaults");
  r->families = accel__json_get(r->data.root, "families");
  r->schema = accel__json_get(r->data.root, "schema");
  const accel__json *models = accel__json_get(r->data.root, "models");
  if (!r->hardware || !r->precisions || !r->defaults || !r->families || !r->schema || !models)
    return accel__fail(ACCEL_ERROR_INTERNAL, "the embedded registry is incomplete");
  return insert_entries(r, r->data.root);
}

static accel_status load_file(accel__registry *r, const char *path) {
  char *bytes;
  size_t n;
  ACCEL_TRY(accel__file_read(path, MAX_FILE, &bytes, &n));
  accel_status status = accel__registry_add(r, bytes, n, path);
  free(bytes);
  return status;
}

static accel_status load_path(accel__registry *r, const char *path) {
  accel__arena arena = {0};
  char **names;
  size_t n;
  if (!accel__is_directory(path)) return load_file(r, path);
  accel_status status = accel__list_directory(path, &arena, &names, &n);
  for (size_t i = 0; status == ACCEL_OK && i < n; i++) {
    const char *file =
        accel__ends_with(names[i], ".json") ? accel__path_join(&arena, path, names[i]) : NULL;
    if (file) status = load_file(r, file);
  }
  accel__arena_free(&arena);
  return status;
}

accel_status accel__registry_create(const char *path, accel__registry **out) {
  *out = NULL;
  accel__registry *r = calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  pthread_rwlock_init(&r->lock, NULL);
  accel_status status = load_embedded(r);
  if (status == ACCEL_OK && path) status = load_path(r, path);
  if (status != ACCEL_OK) accel__registry_free(&r);
  *out = r;
  return status;
}

void accel__registry_free(accel__registry **registry) {
  accel__registry *r = *registry;
  *registry = NULL;
  if (!r) return;
  for (uint32_t i = 0; i < r->n; i++) cJSON_Delete(r->item[i].raw);
  for (uint32_t i = 0; i < r->n_garbage; i++) cJSON_Delete(r->garbage[i]);
  free(r->item);
  free(r->garbage);
  free(r->known);
  accel__map_free(&r->names);
  accel__json_free(&r->data);
  accel__arena_free(&r->arena);
  pthread_rwlock_destroy(&r->lock);
  free(r);
}

/* ---- looking up ---- */

static accel_status unknown(accel__registry *r, const char *model) {
  char nearest[300] = "";
  pthread_rwlock_rdlock(&r->lock);
  const char *found = accel__nearest(model, r->known, r->n_known);
  if (found) snprintf(nearest, sizeof nearest, "%s", found);
  pthread_rwlock_unlock(&r->lock);
  accel__fail(ACCEL_ERROR_UNKNOWN_MODEL,
              "model '%.200s' is not in the registry, and no model directory of that name is on "
              "this machine",
              model);
  if (!found)
    return accel__remedy(ACCEL_ERROR_UNKNOWN_MODEL,
                         "`accel registry` lists the known ones; a model directory works, too");
  return accel__remedy(ACCEL_ERROR_UNKNOWN_MODEL, "did you mean '%s'?", nearest);
}

/* The item of a directory: its own key, since paths keep their letter case. */
static int64_t find_directory(accel__registry *r, const char *directory, char key[MAX_NAME]) {
  int64_t found;
  int n = snprintf(key, MAX_NAME, "dir:%s", directory);
  if (n < 0 || n >= MAX_NAME) return -1;
  return accel__map_get(&r->names, key, (size_t)n, &found) ? found : -1;
}

/* Under the write lock: the item of a directory, derived from its config when it is new. */
static accel_status item_of_directory(accel__registry *r, const char *model, const char *directory,
                                      uint32_t *index) {
  char key[MAX_NAME];
  cJSON *raw;
  int64_t found = find_directory(r, directory, key);
  if (found < 0) {
    ACCEL_TRY(accel__registry_derive(r, model, directory, &raw));
    ACCEL_TRY(new_item(r, raw, index));
    return set_key(r, key, *index);
  }
  *index = (uint32_t)found;
  return ACCEL_OK;
}

static accel_status lookup_directory(accel__registry *r, const char *model,
                                     const accel__registry_model **out) {
  accel__arena arena = {0};
  char *directory;
  uint32_t index;
  accel_status status = accel__find_model(model, &arena, &directory);
  if (status == ACCEL_ERROR_NOT_FOUND) {
    status = unknown(r, model);
  } else if (status == ACCEL_OK) {
    pthread_rwlock_wrlock(&r->lock);
    status = item_of_directory(r, model, directory, &index);
    if (status == ACCEL_OK) status = accel__registry_resolve(r, index, out);
    pthread_rwlock_unlock(&r->lock);
  }
  accel__arena_free(&arena);
  return status;
}

accel_status accel__registry_lookup(accel__registry *r, const char *model,
                                    const accel__registry_model **out) {
  *out = NULL;
  if (!model || !*model) return accel__fail(ACCEL_ERROR_ARGUMENT, "no model named");
  pthread_rwlock_rdlock(&r->lock);
  int64_t found = accel__registry_find(r, model);
  if (found >= 0) *out = r->item[found].model;
  pthread_rwlock_unlock(&r->lock);
  if (*out) return ACCEL_OK;
  if (found < 0) return lookup_directory(r, model, out);
  pthread_rwlock_wrlock(&r->lock);
  accel_status status = accel__registry_resolve(r, (uint32_t)found, out);
  pthread_rwlock_unlock(&r->lock);
  return status;
}
