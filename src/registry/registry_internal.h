/* registry_internal.h - what the files of src/registry share. */
#ifndef ACCEL_REGISTRY_INTERNAL_H
#define ACCEL_REGISTRY_INTERNAL_H

#include <pthread.h>

#include "core/arena.h"
#include "core/text.h"
#include "registry/registry.h"
#include "registry/schema.h"

/* ---- generated at build time by tools/embed_registry.c ---- */
typedef struct accel__registry_alias {
  const char *alias; /* lower case */
  int32_t index;     /* into the table of names */
} accel__registry_alias;
/* {"hardware","precisions","tasks","defaults","families": objects; "models": list of entries;
 * "schema": object} */
extern const char accel__registry_data[];
extern const size_t accel__registry_data_bytes;
extern const char *const accel__task_names[];
extern const uint32_t accel__task_count;
extern const accel__registry_alias accel__hardware_aliases[], accel__precision_aliases[],
    accel__task_aliases[];
extern const uint32_t accel__hardware_alias_count, accel__precision_alias_count,
    accel__task_alias_count;

/* One model of the table.  raw: what the files and calls say of it; model: that with family and
 * hardware defaults, made when first asked for. */
typedef struct accel__registry_item {
  cJSON *raw;
  accel__registry_model *model; /* arena memory; its JSON is in the garbage list */
} accel__registry_item;

struct accel__registry {
  pthread_rwlock_t lock; /* of everything below */
  accel__arena arena;
  accel__json_file data; /* the embedded JSON */
  const accel__json *hardware, *precisions, *defaults, *families,
      *schema; /* families: of the data, or the newest merge in the garbage */
  accel__registry_item *item;
  uint32_t n, capacity;
  accel__map names;   /* ids, aliases and directories in lower case -> item */
  const char **known; /* ids and aliases as written, for "did you mean" */
  uint32_t n_known, known_capacity;
  cJSON **garbage; /* JSON that may still be looked at: kept until the registry is freed */
  uint32_t n_garbage, garbage_capacity;
};

/* Copies every member of `over` into `base`: objects merge member by member, everything else
 * replaces. ACCEL_ERROR_OUT_OF_MEMORY. */
accel_status accel__registry_merge(cJSON *base, const accel__json *over);
/* Puts `child` under `key` of `object`, replacing; frees `child` when that fails or `child` is
 * NULL. */
accel_status accel__registry_put(cJSON *object, const char *key, cJSON *child);
/* Keeps JSON alive until the registry is freed; frees it and fails when memory is refused. */
accel_status accel__registry_keep(accel__registry *r, cJSON *json);

/* The item of a name, or -1.  Under the lock. */
int64_t accel__registry_find(const accel__registry *r, const char *name);
/* Adds or overrides one entry; takes raw over.  Under the write lock. */
accel_status accel__registry_insert(accel__registry *r, cJSON *raw);
/* Lays `over` on the entry behind a model that was looked up; takes `over` over.  Under the write
 * lock. */
accel_status accel__registry_override(accel__registry *r, const accel__registry_model *model,
                                      cJSON *over);
/* The full entry of an item.  Under the write lock. */
accel_status accel__registry_resolve(accel__registry *r, uint32_t item,
                                     const accel__registry_model **out);
/* A raw entry from a model directory's config.json (or diffusers' model_index.json), named
 * `model`.  Under the lock. */
accel_status accel__registry_derive(const accel__registry *r, const char *model,
                                    const char *directory, cJSON **raw);

#endif
