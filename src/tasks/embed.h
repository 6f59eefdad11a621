/* embed.h - accel_embed: texts to embeddings. Behind the public functions of the same names (the
 * public headers say what they do); arguments are already checked. */
#ifndef ACCEL_TASKS_EMBED_H
#define ACCEL_TASKS_EMBED_H

#include "processing/text_task.h"

/* Whether an endpoint of a class without pooling of its own, which need not be placed, gives the rows
 * of its last layer, from which embeddings are made. */
bool accel__embeds_rows(const accel_endpoint *ep);

/* Its first half; texts and params are not needed afterwards.  The result is an accel_embeddings. */
accel_status accel__embed_prepare(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                  const accel_embed_params *params, accel__text_task **out);
accel_status accel__embed(accel_endpoint *ep, const char *const *texts, uint32_t n,
                          const accel_embed_params *params, accel_embeddings **out);

#endif
