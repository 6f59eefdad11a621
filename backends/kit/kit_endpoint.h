/* kit_endpoint.h - what an endpoint of the kit consists of.
 *
 * After kit_init it is immutable but for the memory it counts, its plan cache, its idle frames and
 * its stream, each of which takes care of threads by itself.
 */
#ifndef ACCEL_KIT_ENDPOINT_H
#define ACCEL_KIT_ENDPOINT_H

#include "kit/kit_frame.h"
#include "kit/kit_memory.h"
#include "kit/kit_plan_cache.h"
#include "kit/kit_stream.h"

struct accel_plugin_endpoint {
  accel_plugin_program *program; /* its own copy */
  const kit_backend *backend;
  void *self;             /* of backend->open */
  uint32_t flags;         /* of the precision */
  uint64_t *weight_bytes; /* [n_weight] of which memory.weights is the sum */
  kit_memory memory;
  uint8_t kv_dtype;
  int32_t page_rows;   /* of a page of keys and values */
  uint64_t max_tokens; /* of a sequence; 0: no limit */
  uint32_t max_sequences;
  uint64_t identity; /* of program, build and precision: exported sequences are bound to it */
  kit_constants constants;
  kit_plan_cache plans;
  kit_frame_pool frames;
  kit_stream *stream;          /* the backend's; NULL: all weights are in memory */
  bool takes_turns;            /* kit_open's, or there is a stream */
  pthread_mutex_t stream_turn; /* of these: one run at a time, with its frame */
};

#endif
