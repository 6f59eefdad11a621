/* locate.c - names, aliases, directories. */
#include "dispatch/locate.h"

#include <string.h>

#include "core/file.h"
#include "core/find_model.h"

/* NULL where the registry has nothing to say; only memory is an error. */
static accel_status look_up(accel__registry *registry, const char *model,
                            const accel__registry_model **entry) {
  accel_status status = accel__registry_lookup(registry, model, entry);
  if (status == ACCEL_OK || status == ACCEL_ERROR_OUT_OF_MEMORY) return status;
  *entry = NULL;
  /* what else there is to say of a directory, its own config.json says better */
  accel__clear_error();
  return ACCEL_OK;
}

accel_status accel__locate(accel *ctx, const char *model, accel__arena *arena, char **directory,
                           const accel__registry_model **out) {
  accel__registry *registry;
  const accel__registry_model *entry = NULL;
  *directory = NULL;
  if (out) *out = NULL;
  ACCEL_TRY(accel__context_registry(ctx, &registry));
  ACCEL_TRY(look_up(registry, model, &entry));
  accel_status status = accel__find_model(model, arena, directory);
  if (status == ACCEL_ERROR_NOT_FOUND && entry && strcmp(entry->entry.model, model))
    status = accel__find_model(entry->entry.model, arena, directory);
  if (status == ACCEL_OK && !entry) ACCEL_TRY(look_up(registry, *directory, &entry));
  if (out) *out = entry;
  return status;
}

accel_status accel__locate_file(accel *ctx, const char *model, accel__arena *arena,
                                const char **path) {
  char *directory;
  *path = model;
  if (accel__file_exists(model) && !accel__is_directory(model)) return ACCEL_OK;
  accel_status status = accel__locate(ctx, model, arena, &directory, NULL);
  *path = directory;
  return status;
}
