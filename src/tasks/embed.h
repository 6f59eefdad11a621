/* embed.h - accel_embed: texts to embeddings. Behind the public functions of the same names (the
 * public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_EMBED_H
#define ACCEL_TASKS_EMBED_H

#include "dispatch/endpoint.h"

accel_status accel__embed(accel_endpoint *ep, const char *const *texts, uint32_t n,
                          const accel_embed_params *params, accel_embeddings **out);

#endif
