/* registry_fuzz.c - arbitrary JSON added to the registry: refused with a message and nothing
 * changed, or every entry answers questions. */
#include <stdlib.h>
#include <string.h>

#include "registry/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(accel__registry *r, const char *model) {
  accel_strings *list;
  char *json;
  int yes;
  const char *const names[] = {"int4"};
  if (accel__registry_precision_supported(r, model, "amd", "fp16", &yes) != ACCEL_OK) abort();
  if (accel__registry_dependencies(r, model, "cpu", "int8", &list) != ACCEL_OK) abort();
  free(list);
  if (accel__registry_json(r, model, &json) != ACCEL_OK) abort();
  free(json);
  if (accel__registry_set_profile(r, model, "cpu", names, (const int[]){1}, 1, true) != ACCEL_OK)
    abort();
  if (accel__registry_precision_supported(r, model, "cpu", "int4", &yes) != ACCEL_OK || !yes)
    abort();
}

/* The ids of the text: of the entry it is, or of "models". */
static void ask_each(accel__registry *r, const char *text, size_t n) {
  accel__json_file file;
  if (accel__json_parse(text, n, "fuzz", &file) != ACCEL_OK) abort();
  const accel__json *models = accel__json_get(file.root, "models"),
                    *id = accel__json_get(file.root, "id");
  if (!models && id) ask(r, id->valuestring);
  ACCEL_JSON_EACH(entry, models) ask(r, accel__json_get(entry, "id")->valuestring);
  accel__json_free(&file);
}

/* One registry serves until something was added to it: a refusal leaves it as it was. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static accel__registry *r;
  if (!r && accel__registry_create(NULL, &r) != ACCEL_OK) abort();
  if (accel__registry_add(r, (const char *)data, size, "fuzz") != ACCEL_OK) {
    if (!*accel__message()) abort();
    return 0;
  }
  ask_each(r, (const char *)data, size);
  ask(r, "bert-base-uncased"); /* whatever was added, the rest answers */
  accel__registry_free(&r);
  return 0;
}
