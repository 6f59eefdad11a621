/* locate.h - a model's name to its directory and its registry entry. */
#ifndef ACCEL_DISPATCH_LOCATE_H
#define ACCEL_DISPATCH_LOCATE_H

#include "dispatch/context.h"

/* model: a directory, an id, or an alias of the registry ("all-MiniLM-L6-v2"), with or without
 * "@rev".  *entry (may be NULL as an argument) is NULL for a model that the registry neither lists
 * nor can derive: no obstacle to running it. ACCEL_ERROR_NOT_FOUND: no local files; *directory is
 * NULL, *entry may still be there. */
accel_status accel__locate(accel *ctx, const char *model, accel__arena *arena, char **directory,
                           const accel__registry_model **entry);
/* *path: `model` itself where it is a file (a tokenizer.json, a template), else the model's
 * directory. */
accel_status accel__locate_file(accel *ctx, const char *model, accel__arena *arena,
                                const char **path);

#endif
