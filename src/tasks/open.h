/* open.h - from a model's name to a running endpoint: directory, config, modules, program, placement, tokenizer. */
#ifndef ACCEL_TASKS_OPEN_H
#define ACCEL_TASKS_OPEN_H

#include "dispatch/endpoint.h"

/* params are complete (accel_init_params_default first).  The endpoint joins its context's list. */
accel_status accel__open(accel *ctx, const char *model, const accel_init_params *params, accel_endpoint **out);
void accel__close(accel_endpoint **endpoint); /* runs what is queued, leaves the list, frees */

#endif
