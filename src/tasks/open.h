/* open.h - from a model's name to a running endpoint: directory, config, modules, program,
 * placement, tokenizer. */
#ifndef ACCEL_TASKS_OPEN_H
#define ACCEL_TASKS_OPEN_H

#include "processing/pipeline_index.h"
#include "dispatch/endpoint.h"

/* params are complete (accel_init_params_default first).  The endpoint joins its context's list. */
accel_status accel__open(accel *ctx, const char *model, const accel_init_params *params,
                         accel_endpoint **out);
/* The same; `admission`, which may be NULL, is asked before each load of a candidate. */
accel_status accel__open_admitted(accel *ctx, const char *model, const accel_init_params *params,
                                  const accel__admission *admission, accel_endpoint **out);
/* The same for a device string of which accel__wants_all is true; called by the two above. */
accel_status accel__open_replicas(accel *ctx, const char *model, const accel_init_params *params,
                                  const accel__admission *admission, accel_endpoint **out);
/* The first in its context's list: an endpoint that others belong to is closed before them. */
void accel__endpoint_to_front(accel_endpoint *ep);
/* Model, program, tokenizer and the checkpoint's headers (none with random_weights), but no device.
 * Not in the context's list: freed with accel__endpoint_free.  *entry: the registry's; NULL: the
 * model is not listed. */
accel_status accel__open_dry(accel *ctx, const char *model, const accel_init_params *params,
                             const accel__registry_model **entry, accel_endpoint **out);
/* Opens as accel__open_dry, and holds every weight of the program against the checkpoint: names,
 * shapes, types.  Nothing is kept. */
accel_status accel__check_model(accel *ctx, const char *model, const accel_init_params *params);
/* Takes the endpoint out of the list, runs what is queued, frees it and sets *endpoint to NULL; it
 * must not be NULL. */
void accel__close(accel_endpoint **endpoint);

/* Reads config.json of the directory `transformer`; NULL (no local files): the config of `entry` is
 * taken.  choice: as in accel__pipeline_config.  *out is freed with accel__json_free; `arena` gets
 * its name alone.  ACCEL_ERROR_NOT_FOUND: neither is there. */
accel_status accel__read_model_config(const char *model, const char *transformer,
                                      const accel__pipeline_choice *choice,
                                      const accel__registry_model *entry, accel__arena *arena,
                                      accel__json_file *out);
/* Weights that stay wide at precisions of fewer bits, as accel__precision_for takes them: those that
 * the registry's entry (NULL: there is none) lists, and those of the model's class; in ep's arena. */
accel_status accel__kept_weights(accel_endpoint *ep, const accel__registry_model *entry,
                                 const char *const **patterns, uint32_t *n_patterns);

#endif
