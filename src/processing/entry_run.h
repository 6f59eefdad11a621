/* entry_run.h - runs of a model's entry by the names of its inputs and outputs. */
#ifndef ACCEL_PROCESSING_ENTRY_RUN_H
#define ACCEL_PROCESSING_ENTRY_RUN_H

#include "dispatch/endpoint.h"
#include "models/model_build.h"

/* Runs an entry whose inputs are in `batch`, for its outputs names[n], at most
 * ACCEL__ENTRY_OUTPUTS. */
enum { ACCEL__ENTRY_OUTPUTS = 8 };
accel_status accel__entry_run_all(accel_endpoint *ep, const char *entry, const char *const *names,
                                  uint32_t n, const accel__batch *batch, accel__result *found);
/* The same for one output. */
accel_status accel__entry_run(accel_endpoint *ep, const char *entry, const char *name,
                              const accel__batch *batch, accel__result *found);
/* An input of an entry, where the entry has it. */
void accel__entry_set(accel__batch *batch, const accel__model_entry *e, const char *name,
                      accel__item item);

#endif
