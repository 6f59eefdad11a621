/* pipeline_index.c - model_index.json of diffusers. */
#include "processing/pipeline_index.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

enum { MAX_INDEX = 1 << 20, MAX_CONFIG = 16 << 20 };

/* The parts that a program is built from; others (tokenizer, feature_extractor) are read by whoever
 * needs them. */
static const struct part {
  const char *name, *file;
  bool weights;
} parts[] = {
    {"text_encoder", "config.json", true},   {"text_encoder_2", "config.json", true},
    {"text_encoder_3", "config.json", true}, {"unet", "config.json", true},
    {"transformer", "config.json", true},    {"vae", "config.json", true},
    {"safety_checker", "config.json", true}, {"scheduler", "scheduler_config.json", false}};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* Asks without memory of its own: that it is short must not make a pipeline another model. */
static bool has_file(const char *directory, const char *name) {
  char path[PATH_MAX];
  const int n = snprintf(path, sizeof path, "%s/%s", directory, name);
  return n > 0 && (size_t)n < sizeof path && accel__file_exists(path);
}

bool accel__is_pipeline(const char *directory) {
  return has_file(directory, "model_index.json") &&
         (!has_file(directory, "config.json") || has_file(directory, "scheduler_config.json"));
}

/* Is the part listed with a library and a class, ["diffusers", "AutoencoderKL"]?  [null, null]: the
 * pipeline goes without. */
static bool has_part(const accel__json_file *index, const char *name) {
  const accel__json *entry = accel__json_get(index->root, name);
  return cJSON_IsArray(entry) && cJSON_GetArraySize(entry) == 2 && cJSON_IsString(entry->child) &&
         cJSON_IsString(entry->child->next);
}

/* The folder of a part; where there is none the directory itself, in which older pipelines of one
 * model have all their files.  NULL: no memory. */
static const char *folder_of(const char *directory, const char *name, accel__arena *arena) {
  const char *folder = accel__path_join(arena, directory, name),
             *own = accel__path_join(arena, directory, "scheduler_config.json");
  if (!folder || !own) return NULL;
  return !accel__file_exists(folder) && accel__file_exists(own) ? directory : folder;
}

/* Where a part is: the user's decoder stands in the place of "vae". */
static const char *place_of(const char *directory, const accel__pipeline_choice *choice,
                            const char *name, accel__arena *arena) {
  return choice->decoder && !strcmp(name, "vae") ? choice->decoder
                                                 : folder_of(directory, name, arena);
}

/* Appends "name": and the file's text.  It has been read as JSON before, so that what is wrong in
 * it is told with its own name. */
static accel_status append_part(const char *folder, const struct part *part, accel__arena *arena,
                                accel__buffer *text) {
  accel__json_file own = {0};
  char *bytes;
  size_t n;
  const char *path = folder ? accel__path_join(arena, folder, part->file) : NULL;
  if (!path) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__file_read(path, MAX_CONFIG, &bytes, &n));
  const accel_status status = accel__json_parse(bytes, n, path, &own);
  accel__json_free(&own);
  if (status != ACCEL_OK) {
    free(bytes);
    return status;
  }
  accel__buffer_printf(text, ", \"%s\": ", part->name);
  accel__buffer_bytes(text, bytes, n);
  free(bytes);
  return accel__buffer_status(text);
}

static bool left_out(const accel__pipeline_choice *choice, const char *name) {
  return choice->without_safety && !strcmp(name, "safety_checker");
}

/* Many delete the checker's folder, and leave it in the index. */
static accel_status explain(accel_status status, const char *name) {
  if (status != ACCEL_ERROR_NOT_FOUND || strcmp(name, "safety_checker")) return status;
  return accel__remedy(status,
                       "fetch the pipeline's safety checker, or leave it out: --no-safety, in "
                       "Python safety_checker=None");
}

static accel_status compose(const char *directory, const accel__pipeline_choice *choice,
                            const accel__json_file *index, accel__arena *arena,
                            accel__buffer *text) {
  const char *name = NULL;
  ACCEL_TRY(accel__json_require(index, index->root, "_class_name"));
  ACCEL_TRY(accel__json_string(index, index->root, "_class_name", &name));
  if (choice->decoder && !has_part(index, "vae"))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: a %s has no autoencoder that another could replace", index->name, name);
  accel__buffer_text(text, "{\"_class_name\": ");
  accel__buffer_json_string(text, name, strlen(name));
  ACCEL_JSON_EACH(item, index->root) { /* settings of the pipeline itself */
    if (!cJSON_IsBool(item) || !item->string || item->string[0] == '_') continue;
    accel__buffer_text(text, ", ");
    accel__buffer_json_string(text, item->string, strlen(item->string));
    accel__buffer_text(text, cJSON_IsTrue(item) ? ": true" : ": false");
  }
  for (size_t i = 0; i < N_PARTS; i++)
    if (has_part(index, parts[i].name) && !left_out(choice, parts[i].name)) {
      const char *folder = place_of(directory, choice, parts[i].name, arena);
      ACCEL_TRY(explain(append_part(folder, &parts[i], arena, text), parts[i].name));
    }
  accel__buffer_text(text, "}");
  return accel__buffer_status(text);
}

accel_status accel__pipeline_config(const char *directory, const accel__pipeline_choice *choice,
                                    accel__json_file *out) {
  accel__json_file index = {0};
  accel__arena arena = {0};
  accel__buffer text = {0};
  *out = (accel__json_file){0};
  const char *path = accel__path_join(&arena, directory, "model_index.json");
  accel_status status =
      path ? accel__json_read(path, MAX_INDEX, &index) : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = compose(directory, choice, &index, &arena, &text);
  if (status == ACCEL_OK) status = accel__json_parse(text.data, text.n, path, out);
  accel__buffer_free(&text);
  accel__json_free(&index);
  accel__arena_free(&arena);
  return status;
}

/* *any becomes true where the part has files of the variant. */
static accel_status join_part(accel__checkpoint *c, const char *folder, const char *name,
                              const char *variant, accel__arena *arena, bool *any) {
  accel__checkpoint *part;
  bool found;
  const char *prefix = accel__arena_printf(arena, "%s.", name);
  if (!folder || !prefix) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__checkpoint_open_variant(folder, variant, &found, &part));
  *any |= found;
  return accel__checkpoint_join(c, &part, prefix);
}

accel_status accel__pipeline_checkpoint(const char *directory, const accel__pipeline_choice *choice,
                                        const accel__json_file *config, accel__checkpoint **out) {
  accel__arena arena = {0};
  bool any = false;
  accel_status status = accel__checkpoint_empty(directory, out);
  for (size_t i = 0; i < N_PARTS && status == ACCEL_OK; i++)
    if (parts[i].weights && accel__json_get(config->root, parts[i].name))
      status = explain(join_part(*out, place_of(directory, choice, parts[i].name, &arena),
                                 parts[i].name, choice->variant, &arena, &any),
                       parts[i].name);
  if (status == ACCEL_OK && choice->variant && !any)
    status = accel__no_variant(directory, choice->variant);
  accel__arena_free(&arena);
  if (status != ACCEL_OK && *out) accel__checkpoint_close(out);
  return status;
}
