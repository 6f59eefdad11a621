/* batcher.h - generations of an endpoint's queue: any number of requests at once, joined and left
 * at token boundaries. */
#ifndef ACCEL_GENERATE_BATCHER_H
#define ACCEL_GENERATE_BATCHER_H

#include "dispatch/queue.h"
#include "generate/generation.h"

/* A prompt: one with pictures, else a text, else ids[n]. */
typedef struct accel__generate_prompt {
  const accel_image_prompt *pictured;
  const char *text;
  const int32_t *ids;
  uint32_t n;
} accel__generate_prompt;

/* Copies what is given. */
accel_status accel__submit_generate(accel_queue *queue, const accel__generate_prompt *prompt,
                                    const accel_generate_params *params,
                                    const accel__submit_options *options, accel_ticket **out);
accel_status accel__wait_generations(accel_ticket **ticket, int64_t timeout_ms,
                                     accel_generations **out);
/* Why prompts of the queue share nothing, a constant text; NULL: they do. */
const char *accel__no_prefix_cache(const accel_endpoint *ep);
/* What accel_queue_statistics() tells. */
accel_queue_stats accel__queue_statistics(accel_queue *queue);
bool accel__is_generation(const accel_ticket *ticket);

#endif
