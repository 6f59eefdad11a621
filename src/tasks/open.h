/* open.h - from a model's name to a running endpoint: directory, config, modules, program,
 * placement, tokenizer. */
#ifndef ACCEL_TASKS_OPEN_H
#define ACCEL_TASKS_OPEN_H

#include "dispatch/endpoint.h"

/* params are complete (accel_init_params_default first).  The endpoint joins its context's list. */
accel_status accel__open(accel *ctx, const char *model, const accel_init_params *params,
                         accel_endpoint **out);
/* Only what needs no device: model, program, checkpoint, tokenizer.  Not in the context's list:
 * freed with accel__endpoint_free. */
accel_status accel__open_dry(accel *ctx, const char *model, const accel_init_params *params,
                             const accel__registry_model **entry, accel_endpoint **out);
void accel__close(accel_endpoint **endpoint); /* runs what is queued, leaves the list, frees */

/* config.json of the transformer's directory; transformer NULL (no local files): the registry's
 * config at the model's true shape. */
accel_status accel__read_model_config(const char *model, const char *transformer,
                                      const accel__registry_model *entry, accel__arena *arena,
                                      accel__json_file *out);

#endif
