/* resolve.c - the full entry of a model: defaults, family and its own fields merged, matrices and
 * dependencies filled in from the hardware. */
#include <stdlib.h>
#include <string.h>

#include "registry/registry_internal.h"

/* The fields of a full entry, in the order they are shown; what else a family holds is for other
 * uses. */
static const char *const shown[] = {"id",
                                    "aliases",
                                    "description",
                                    "family",
                                    "model_type",
                                    "task",
                                    "architecture",
                                    "embedding_dim",
                                    "sequence_length",
                                    "model_precision",
                                    "default_batch_size",
                                    "parameters",
                                    "language_model",
                                    "bf16_preferred",
                                    "derived",
                                    "hardware_compatibility",
                                    "precision_compatibility",
                                    "dependencies",
                                    "keep_fp32",
                                    "options",
                                    "config"};

static bool is_true(const accel__json *object, const char *key) {
  return cJSON_IsTrue(accel__json_get(object, key));
}

static bool has_string(const accel__json *list, const char *text) {
  ACCEL_JSON_EACH(item, list) {
    if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) return true;
  }
  return false;
}

/* Copy of `value`, or an empty list. */
static cJSON *list_or_empty(const accel__json *value) {
  return value ? cJSON_Duplicate(value, true) : cJSON_CreateArray();
}

/* Adds a fresh object under `key`; NULL when memory is refused. */
static cJSON *put_object(cJSON *parent, const char *key) {
  cJSON *object = cJSON_CreateObject();
  return accel__registry_put(parent, key, object) == ACCEL_OK ? object : NULL;
}

/* {hardware: {precision: bool}} for every pair: the entry's word, else the hardware's default;
 * false on hardware that is not listed. */
static accel_status fill_precisions(const accel__registry *r, cJSON *json) {
  const accel__json *listed = accel__json_get(json, "hardware_compatibility");
  cJSON *own = cJSON_DetachItemFromObjectCaseSensitive(json, "precision_compatibility");
  cJSON *all = put_object(json, "precision_compatibility");
  accel_status status = all ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  bool language = is_true(json, "language_model");
  for (const accel__json *hardware = r->hardware->child; status == ACCEL_OK && hardware;
       hardware = hardware->next) {
    const accel__json *mine = accel__json_get(own, hardware->string);
    cJSON *row = put_object(all, hardware->string);
    status = row ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
    for (const accel__json *precision = r->precisions->child; status == ACCEL_OK && precision;
         precision = precision->next) {
      const accel__json *word = accel__json_get(mine, precision->string);
      bool yes = has_string(accel__json_get(hardware, "precisions"), precision->string) ||
                 (language && has_string(accel__json_get(hardware, "language_model_precisions"),
                                         precision->string));
      if (word) yes = cJSON_IsTrue(word);
      status = accel__registry_put(row, precision->string,
                                   cJSON_CreateBool(yes && is_true(listed, hardware->string)));
    }
  }
  cJSON_Delete(own);
  return status;
}

static accel_status fill_hardware(const accel__registry *r, cJSON *json) {
  const accel__json *own = accel__json_get(json, "hardware_compatibility");
  cJSON *all = cJSON_CreateObject();
  accel_status status = all ? ACCEL_OK : accel__no_memory(sizeof *all);
  for (const accel__json *hardware = r->hardware->child; status == ACCEL_OK && hardware;
       hardware = hardware->next)
    status = accel__registry_put(all, hardware->string,
                                 cJSON_CreateBool(is_true(own, hardware->string)));
  if (status == ACCEL_OK) return accel__registry_put(json, "hardware_compatibility", all);
  cJSON_Delete(all);
  return status;
}

/* For every name of `table`: the entry's own list, else the table's member `field`. */
static accel_status fill_lists(const accel__json *table, const char *field, const accel__json *own,
                               cJSON *out) {
  ACCEL_JSON_EACH(named, table) {
    const accel__json *list = accel__json_get(own, named->string);
    ACCEL_TRY(accel__registry_put(out, named->string,
                                  list_or_empty(list ? list : accel__json_get(named, field))));
  }
  return ACCEL_OK;
}

/* dependencies: {system, optional: {hardware}, precision: {precision}, hardware_precision:
 * {hardware: {precision}}}. */
static accel_status fill_dependencies(const accel__registry *r, cJSON *json) {
  cJSON *own = cJSON_DetachItemFromObjectCaseSensitive(json, "dependencies");
  cJSON *all = put_object(json, "dependencies"), *part;
  accel_status status =
      all ? accel__registry_put(all, "system", list_or_empty(accel__json_get(own, "system")))
          : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) {
    part = put_object(all, "optional");
    status = part ? fill_lists(r->hardware, "dependencies", accel__json_get(own, "optional"), part)
                  : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  if (status == ACCEL_OK) {
    part = put_object(all, "precision");
    status =
        part ? fill_lists(r->precisions, "dependencies", accel__json_get(own, "precision"), part)
             : ACCEL_ERROR_OUT_OF_MEMORY;
  }
  part = status == ACCEL_OK ? put_object(all, "hardware_precision") : NULL;
  if (status == ACCEL_OK && !part) status = ACCEL_ERROR_OUT_OF_MEMORY;
  for (const accel__json *hardware = r->hardware->child; status == ACCEL_OK && hardware;
       hardware = hardware->next) {
    const accel__json *lists = accel__json_get(hardware, "precision_dependencies");
    status = accel__registry_put(part, hardware->string,
                                 lists ? cJSON_Duplicate(lists, true) : cJSON_CreateObject());
    const accel__json *mine =
        accel__json_get(accel__json_get(own, "hardware_precision"), hardware->string);
    if (status == ACCEL_OK && mine)
      status =
          accel__registry_merge(cJSON_GetObjectItemCaseSensitive(part, hardware->string), mine);
  }
  cJSON_Delete(own);
  return status;
}

/* A config stands only where the entry itself gives dimensions; it is completed to what a model
 * directory would hold.  One from a directory is left as it is. */
static accel_status fill_config(const accel__json *raw, cJSON *json) {
  if (!accel__json_get(raw, "config")) {
    cJSON_DeleteItemFromObjectCaseSensitive(json, "config");
    return ACCEL_OK;
  }
  if (is_true(raw, "derived"))
    return accel__registry_put(json, "config",
                               cJSON_Duplicate(accel__json_get(raw, "config"), true));
  cJSON *config = cJSON_GetObjectItemCaseSensitive(json, "config");
  const accel__json *type = accel__json_get(json, "model_type"),
                    *architecture = accel__json_get(json, "architecture");
  if (type && !accel__json_get(config, "model_type"))
    ACCEL_TRY(accel__registry_put(config, "model_type", cJSON_Duplicate(type, true)));
  if (!architecture || accel__json_get(config, "architectures")) return ACCEL_OK;
  cJSON *list = cJSON_CreateArray(), *name = cJSON_Duplicate(architecture, true);
  if (!list || !name || !cJSON_AddItemToArray(list, name)) {
    cJSON_Delete(list);
    cJSON_Delete(name);
    return accel__no_memory(sizeof *list);
  }
  return accel__registry_put(config, "architectures", list);
}

/* Everything merged into `json`, then the shown fields moved to `out`. */
static accel_status build(const accel__registry *r, const accel__json *raw, cJSON *json,
                          cJSON *out) {
  const accel__json *family =
                        accel__json_get(r->families, accel__json_get(raw, "family")->valuestring),
                    *types = accel__json_get(family, "model_types");
  ACCEL_TRY(accel__registry_merge(json, r->defaults));
  if (types && types->child)
    ACCEL_TRY(accel__registry_put(json, "model_type", cJSON_Duplicate(types->child, true)));
  ACCEL_TRY(accel__registry_merge(json, family));
  ACCEL_TRY(accel__registry_merge(json, raw));
  ACCEL_TRY(fill_hardware(r, json));
  ACCEL_TRY(fill_precisions(r, json));
  ACCEL_TRY(fill_dependencies(r, json));
  ACCEL_TRY(fill_config(raw, json));
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
    cJSON *field = cJSON_DetachItemFromObjectCaseSensitive(json, shown[i]);
    if (field) ACCEL_TRY(accel__registry_put(out, shown[i], field));
  }
  if (!accel__json_get(out, "aliases"))
    ACCEL_TRY(accel__registry_put(out, "aliases", cJSON_CreateArray()));
  if (!accel__json_get(out, "options"))
    ACCEL_TRY(accel__registry_put(out, "options", cJSON_CreateObject()));
  return ACCEL_OK;
}

/* ---- from JSON to the struct ---- */

static const char *text(const accel__json *json, const char *key) {
  const accel__json *value = accel__json_get(json, key);
  return cJSON_IsString(value) ? value->valuestring : "";
}

static int64_t number(const accel__json *json, const char *key) {
  const accel__json *value = accel__json_get(json, key);
  return cJSON_IsNumber(value) ? (int64_t)value->valuedouble : 0;
}

/* Strings of a list, pointing into the JSON. */
static accel_status take_list(accel__arena *arena, const accel__json *list, const char *const **out,
                              uint32_t *n) {
  uint32_t count = (uint32_t)cJSON_GetArraySize(list), i = 0;
  const char **item = accel__arena_array(arena, count, sizeof *item);
  if (!item) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_JSON_EACH(member, list) item[i++] = member->valuestring;
  *out = item;
  *n = count;
  return ACCEL_OK;
}

static accel_status take_matrix(accel__arena *arena, accel__registry_model *m,
                                accel_strings *hardware) {
  const accel__json *listed = accel__json_get(m->json, "hardware_compatibility"),
                    *matrix = accel__json_get(m->json, "precision_compatibility");
  const char **name = accel__arena_array(arena, accel__hardware_count, sizeof *name);
  if (!name) return ACCEL_ERROR_OUT_OF_MEMORY;
  hardware->item = name;
  for (uint32_t h = 0; h < accel__hardware_count; h++) {
    if (is_true(listed, accel__hardware_names[h])) {
      m->hardware |= 1u << h;
      name[hardware->n++] = accel__hardware_names[h];
    }
    for (uint32_t p = 0; p < accel__precision_count; p++) {
      if (is_true(accel__json_get(matrix, accel__hardware_names[h]), accel__precision_names[p]))
        m->precision[h] |= 1u << p;
    }
  }
  return ACCEL_OK;
}

static accel_status describe(accel__arena *arena, const accel__json *json,
                             accel__registry_model *m) {
  accel_strings *aliases = accel__arena_alloc(arena, sizeof *aliases),
                *hardware = accel__arena_alloc(arena, sizeof *hardware);
  if (!aliases || !hardware) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(take_list(arena, accel__json_get(json, "aliases"), &aliases->item, &aliases->n));
  ACCEL_TRY(take_list(arena, accel__json_get(json, "keep_fp32"), &m->keep_fp32, &m->n_keep_fp32));
  m->json = json;
  ACCEL_TRY(take_matrix(arena, m, hardware));
  m->entry = (accel_registry_entry){.model = text(json, "id"),
                                    .description = text(json, "description"),
                                    .family = text(json, "family"),
                                    .architecture = text(json, "architecture"),
                                    .embedding_dim = number(json, "embedding_dim"),
                                    .sequence_length = number(json, "sequence_length"),
                                    .model_precision = text(json, "model_precision"),
                                    .default_batch_size = number(json, "default_batch_size"),
                                    .aliases = aliases,
                                    .hardware = hardware};
  m->task = text(json, "task");
  m->model_type = text(json, "model_type");
  m->language_model = is_true(json, "language_model");
  m->bf16_preferred = is_true(json, "bf16_preferred");
  m->derived = is_true(json, "derived");
  m->config = accel__json_get(json, "config");
  m->options = accel__json_get(json, "options");
  return ACCEL_OK;
}

accel_status accel__registry_resolve(accel__registry *r, uint32_t item,
                                     const accel__registry_model **out) {
  accel__registry_item *i = &r->item[item];
  *out = i->model;
  if (i->model) return ACCEL_OK;
  cJSON *json = cJSON_CreateObject(), *full = cJSON_CreateObject();
  accel_status status =
      json && full ? build(r, i->raw, json, full) : accel__no_memory(sizeof *json);
  cJSON_Delete(json);
  if (status != ACCEL_OK) {
    cJSON_Delete(full);
    return status;
  }
  ACCEL_TRY(accel__registry_keep(r, full));
  accel__registry_model *m = accel__arena_alloc(&r->arena, sizeof *m);
  if (!m) return ACCEL_ERROR_OUT_OF_MEMORY;
  m->item = item;
  ACCEL_TRY(describe(&r->arena, full, m));
  *out = i->model = m;
  return ACCEL_OK;
}
