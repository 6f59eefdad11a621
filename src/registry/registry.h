/* registry.h - what is known of models: their dimensions, which hardware and precisions they are
 * listed for, and what that needs.
 *
 * The data is registry/ of the source tree (hardware.json, families.json, models/ *.json), checked
 * against registry/schema.json and embedded at build time; a file or directory of the user and
 * calls of the API add entries or override them.  docs/registry.md is the manual of the format.
 * "Listed" is a statement of the registry; what a plugin is capable of and what was verified here
 * are facts of other layers.
 *
 * Threads: every function may be called from any thread at any time, additions included.  Entries
 * are immutable and live until accel__registry_free, also when they have been overridden meanwhile.
 *
 * Model names: an id or an alias of an entry (letter case does not matter, as on the Hub), with or
 * without "@revision"; or a directory with a config.json, whose entry is derived from its
 * model_type's family and its dimensions. Unknown model, here and below: ACCEL_ERROR_UNKNOWN_MODEL;
 * the remedy names the nearest known one.
 */
#ifndef ACCEL_REGISTRY_REGISTRY_H
#define ACCEL_REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "core/status.h"

/* ---- names: fixed tables, generated from registry/hardware.json and families.json ---- */

enum { ACCEL__HARDWARE_MAX = 16, ACCEL__PRECISION_MAX = 16 };
/* Canonical names in the order of the files: "cpu", "cuda", "amd" ... ; "fp32", "fp16" ... */
extern const char *const accel__hardware_names[];
extern const uint32_t accel__hardware_count;
extern const char *const accel__precision_names[];
extern const uint32_t accel__precision_count;
/* Canonical name by any alias and letter case ("ROCm", "hip" -> "amd"; "float32" -> "fp32";
 * "sentiment-analysis" -> "text-classification"); NULL: unknown.  A device number is no part of a
 * hardware name: "rocm:0" is unknown. */
const char *accel__registry_hardware_name(const char *alias);
const char *accel__registry_precision_name(const char *alias);
const char *accel__registry_task_name(const char *alias);
/* Their places in the tables above; -1: unknown. */
int accel__registry_hardware_index(const char *alias);
int accel__registry_precision_index(const char *alias);

/* ---- entries ---- */

/* One model, with everything its family and the hardware defaults add.  Immutable. */
typedef struct accel__registry_model {
  accel_registry_entry entry; /* the public part */
  const char *task;           /* transformers pipeline name, "feature-extraction" */
  const char *model_type;     /* of config.json: "bert" */
  bool language_model;        /* lists the four-bit precisions and fp8 by default */
  /* fp16 overflows (T5 class): `auto` takes bf16 where it has the choice */
  bool bf16_preferred;
  bool derived;      /* from a directory's config.json: not in the registry */
  uint32_t hardware; /* bit i: accel__hardware_names[i] is listed */
  /* [hardware] bit i: accel__precision_names[i] is listed */
  uint32_t precision[ACCEL__HARDWARE_MAX];
  const char *const *keep_fp32; /* patterns of weights' names: accel__precision_for */
  uint32_t n_keep_fp32;
  /* a config.json at the true shape, for models without local weights; NULL: none */
  const accel__json *config;
  const accel__json *options; /* {hardware: {...}}; never NULL */
  const accel__json *json;    /* the whole entry, as accel__registry_json prints it */
  uint32_t item;              /* its place in the registry's table, for the registry itself */
} accel__registry_model;

typedef struct accel__registry accel__registry;

/* The embedded data and, when path is given, the user's: a JSON file, or a directory whose *.json
 * are read in the order of their names. ACCEL_ERROR_NOT_FOUND, _FORMAT naming file and field. */
accel_status accel__registry_create(const char *path, accel__registry **out);
void accel__registry_free(accel__registry **registry); /* NULL-safe */
/* JSON text of one entry, or {"family":...,"models":[...]}, or {"families":{...}}; checked against
 * the schema first, then all or nothing. name: for messages.  An entry of a known id overrides it
 * field by field: what it does not say stays as it was. */
accel_status accel__registry_add(accel__registry *registry, const char *json, size_t n,
                                 const char *name);

/* *out belongs to the registry.  A directory's entry is derived when it is first looked up, and
 * kept. */
accel_status accel__registry_lookup(accel__registry *registry, const char *model,
                                    const accel__registry_model **out);
/* The whole entry as JSON, malloc'd; model NULL:
 * {"schema":"accel.registry/1","hardware":...,"families":...,"models":[...]}.
 */
accel_status accel__registry_json(accel__registry *registry, const char *model, char **out);
/* Canonical ids in alphabetical order.  filter NULL or fields NULL: any.  hardware and precision
 * together: that precision on that hardware. *out is ONE malloc'd block (free with free). */
accel_status accel__registry_list(accel__registry *registry, const accel_registry_filter *filter,
                                  accel_strings **out);

/* ---- questions ---- */

/* Unknown model: *supported = 0 and ACCEL_ERROR_UNKNOWN_MODEL.  Unknown hardware or precision:
 * ACCEL_ERROR_ARGUMENT naming the known ones. */
accel_status accel__registry_hardware_supported(accel__registry *registry, const char *model,
                                                const char *hardware, int *supported);
/* Both: the hardware is listed, and the precision on it. */
accel_status accel__registry_precision_supported(accel__registry *registry, const char *model,
                                                 const char *hardware, const char *precision,
                                                 int *supported);
/* Packages that a model needs: its own, then the hardware's, then the precision's, each once;
 * hardware, precision may be NULL.  What is not listed adds a line "unsupported: fp16 on cpu, use
 * fp32 instead".  *out is ONE malloc'd block; on failure NULL. */
accel_status accel__registry_dependencies(accel__registry *registry, const char *model,
                                          const char *hardware, const char *precision,
                                          accel_strings **out);
/* A custom profile: merge = false: what is not named is false; true: what is not named stays.  The
 * hardware becomes listed when a precision is, and unlisted when none is. */
accel_status accel__registry_set_profile(accel__registry *registry, const char *model,
                                         const char *hardware, const char *const *precisions,
                                         const int *supported, uint32_t n, bool merge);
/* Of an entry in hand; false for unknown names. */
bool accel__registry_lists(const accel__registry_model *model, const char *hardware,
                           const char *precision);
/* An option of an entry for a hardware ("max_batch_size"); NULL: none. */
const accel__json *accel__registry_option(const accel__registry_model *model, const char *hardware,
                                          const char *key);

#endif
