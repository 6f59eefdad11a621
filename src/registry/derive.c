/* derive.c - an entry for a model directory that no file lists: its family by model_type, its
 * dimensions from its own configuration. */
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "registry/registry_internal.h"

/* The family that names this model_type; NULL: none. */
static const accel__json *family_of(const accel__registry *r, const char *model_type) {
  ACCEL_JSON_EACH(family, r->families) {
    ACCEL_JSON_EACH(type, accel__json_get(family, "model_types")) {
      if (strcmp(type->valuestring, model_type) == 0) return family;
    }
  }
  return NULL;
}

/* config.json, or model_index.json of a diffusers directory. */
static accel_status read_config(const char *directory, accel__json_file *config,
                                const char **type_field) {
  accel__arena arena = {0};
  const char *path = accel__path_join(&arena, directory, "config.json"),
             *index = accel__path_join(&arena, directory, "model_index.json");
  accel_status status = path && index ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
  *type_field = "model_type";
  if (status == ACCEL_OK && !accel__file_exists(path) && accel__file_exists(index)) {
    *type_field = "_class_name";
    path = index;
  }
  if (status == ACCEL_OK) status = accel__json_read(path, 16 << 20, config);
  accel__arena_free(&arena);
  return status;
}

/* The member at a dotted path, "text_config.hidden_size". */
static const accel__json *at_path(const accel__json *object, const char *path) {
  char key[80];
  while (object && *path) {
    size_t n = strcspn(path, ".");
    if (n >= sizeof key) return NULL;
    memcpy(key, path, n);
    key[n] = 0;
    object = accel__json_get(object, key);
    path += n + (path[n] == '.');
  }
  return object;
}

/* Sets `key` from the first of the family's fields for it that the config has as a positive
 * integer; else it stays the family's default. */
static accel_status take_dimension(const accel__json *family, const accel__json *config, cJSON *raw,
                                   const char *key) {
  const accel__json *offset = accel__json_get(accel__json_get(family, "position_offset"), key);
  ACCEL_JSON_EACH(field, accel__json_get(accel__json_get(family, "fields"), key)) {
    const accel__json *value = at_path(config, field->valuestring);
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 1 && value->valuedouble <= 1e12))
      continue;
    double number = value->valuedouble - (offset ? offset->valuedouble : 0);
    return accel__registry_put(raw, key, cJSON_CreateNumber(number >= 1 ? number : 1));
  }
  return ACCEL_OK;
}

static accel_status take_precision(const accel__json *config, cJSON *raw) {
  const accel__json *dtype = accel__json_get(config, "dtype")
                                 ? accel__json_get(config, "dtype")
                                 : accel__json_get(config, "torch_dtype");
  static const char *const known[] = {"float32", "float16", "bfloat16"};
  for (size_t i = 0; cJSON_IsString(dtype) && i < sizeof known / sizeof *known; i++) {
    if (strcmp(dtype->valuestring, known[i]) == 0)
      return accel__registry_put(raw, "model_precision", cJSON_CreateString(known[i]));
  }
  return ACCEL_OK;
}

static accel_status fill(const accel__json *family, const accel__json *config, const char *type,
                         const char *model, const char *directory, cJSON *raw) {
  char description[400];
  const accel__json *architectures = accel__json_get(config, "architectures"),
                    *first = architectures ? architectures->child : NULL;
  snprintf(description, sizeof description, "%.40s model in %.300s, described by its configuration",
           family->string, directory);
  ACCEL_TRY(accel__registry_put(raw, "id", cJSON_CreateString(model)));
  ACCEL_TRY(accel__registry_put(raw, "family", cJSON_CreateString(family->string)));
  ACCEL_TRY(accel__registry_put(raw, "model_type", cJSON_CreateString(type)));
  ACCEL_TRY(accel__registry_put(raw, "description", cJSON_CreateString(description)));
  ACCEL_TRY(accel__registry_put(raw, "derived", cJSON_CreateTrue()));
  if (cJSON_IsString(first))
    ACCEL_TRY(accel__registry_put(raw, "architecture", cJSON_CreateString(first->valuestring)));
  ACCEL_TRY(take_dimension(family, config, raw, "embedding_dim"));
  ACCEL_TRY(take_dimension(family, config, raw, "sequence_length"));
  ACCEL_TRY(take_precision(config, raw));
  return accel__registry_put(raw, "config", cJSON_Duplicate(config, true));
}

accel_status accel__registry_derive(const accel__registry *r, const char *model,
                                    const char *directory, cJSON **raw) {
  accel__json_file config = {0};
  const char *field, *type = NULL;
  *raw = NULL;
  accel_status status = read_config(directory, &config, &field);
  if (status == ACCEL_OK) status = accel__json_require(&config, config.root, field);
  if (status == ACCEL_OK) status = accel__json_string(&config, config.root, field, &type);
  const accel__json *family = status == ACCEL_OK ? family_of(r, type) : NULL;
  if (status == ACCEL_OK && !family) {
    status = accel__fail(ACCEL_ERROR_UNKNOWN_MODEL,
                         "%s: field '%s': no family of the registry has '%.100s'", config.name,
                         field, type);
    accel__remedy(status,
                  "`accel registry` lists the families; a registry file of your own can add one");
  }
  if (status == ACCEL_OK) {
    *raw = cJSON_CreateObject();
    status = *raw ? fill(family, config.root, type, model, directory, *raw)
                  : accel__no_memory(sizeof **raw);
  }
  if (status != ACCEL_OK) {
    cJSON_Delete(*raw);
    *raw = NULL;
  }
  accel__json_free(&config);
  return status;
}
