/* lora.h - an adapter beside a model: its matrices for the linear layers of a program, as runs lend
 * them to plugins (accel_plugin_run.adapter).
 */
#ifndef ACCEL_ADAPTERS_LORA_H
#define ACCEL_ADAPTERS_LORA_H

#include "program/program.h"

typedef struct accel__lora {
  accel_plugin_adapter view;   /* slots are the program's weights */
  accel_plugin_adapter narrow; /* the same with halves, for weights at 16 bits or fewer */
  void *block[2];              /* memory of the matrices: of `view`, of halves */
  accel__arena arena;
  const char *path; /* directory */
} accel__lora;      /* immutable: usable from any thread */

/* Reads an adapter for a program of accel__program_low_rank; `halves`: with `narrow`, else that is as
 * `view`.  checkpoint and import as the program
 * was built with; checkpoint NULL: random weights.  ACCEL_ERROR_UNSUPPORTED: the program has no
 * low-rank steps, or the adapter changes more than linear layers (which a merge does); else as
 * accel__adapters_open and accel__adapters_bind. */
accel_status accel__lora_open(const char *path, const accel__program *program,
                              const accel__checkpoint *checkpoint, const accel__import *import,
                              bool halves, accel__lora **out);
void accel__lora_close(accel__lora **lora); /* NULL-safe */

#endif
