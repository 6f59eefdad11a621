/* cli_key_models.h - classes of models and kinds of hardware that tables and templates go through. */
#ifndef ACCEL_CLI_KEY_MODELS_H
#define ACCEL_CLI_KEY_MODELS_H

#include <stdbool.h>

/* A row of key_models.def. */
typedef struct cli_key_model {
  const char *name, *word, *types, *id, *kind, *task;
} cli_key_model;
enum {
#define KEY_MODEL(...) +1
  CLI_KEY_MODELS = 0
#include "cli/key_models.def"
  ,
  CLI_HARDWARE_KINDS = 10
};
extern const cli_key_model cli_key_models[CLI_KEY_MODELS];
/* As accel/devices.h names them. */
extern const char *const cli_hardware_kinds[CLI_HARDWARE_KINDS];

/* A kind of example. */
typedef struct cli_example_kind {
  const char *name, *summary, *argument, *input;
} cli_example_kind;
/* By its name, which is one. */
const cli_example_kind *cli_example_kind_of(const char *name);
/* For models of a task; task NULL: unknown. */
const char *cli_task_kind(const char *task);

/* Is `type`, a model_type, one of `types` (between spaces)? */
bool cli_has_type(const char *types, const char *type);

#endif
