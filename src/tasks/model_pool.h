/* model_pool.h - models under one memory budget: behind the public functions of pool.h, which says
 * what they do; arguments are already checked. */
#ifndef ACCEL_TASKS_MODEL_POOL_H
#define ACCEL_TASKS_MODEL_POOL_H

#include "dispatch/endpoint.h"

accel_status accel__model_pool_open(accel *ctx, const accel_pool_params *params, accel_pool **out);
void accel__model_pool_close(accel_pool *pool);
/* params are complete (accel_init_params_default first). */
accel_status accel__model_pool_add(accel_pool *pool, const char *name, const char *model,
                                   const accel_init_params *params, uint32_t flags);
accel_status accel__model_pool_acquire(accel_pool *pool, const char *name, int64_t timeout_ms,
                                       accel_pool_ref **out);
void accel__model_pool_release(accel_pool_ref *ref);
accel_endpoint *accel__model_pool_ref_endpoint(const accel_pool_ref *ref);
accel_queue *accel__model_pool_ref_queue(const accel_pool_ref *ref);
accel_status accel__model_pool_pin(accel_pool *pool, const char *name, bool pinned);
accel_status accel__model_pool_move(accel_pool *pool, const char *name, const char *device);
/* name NULL: of the pool.  Fills all of *out. */
accel_status accel__model_pool_stats(accel_pool *pool, const char *name, accel_pool_stats *out);
/* All 0 but `size` while the model is not loaded. */
accel_status accel__model_pool_queue_stats(accel_pool *pool, const char *name,
                                           accel_queue_stats *out);
accel_status accel__model_pool_json(accel_pool *pool, char **json);

#endif
