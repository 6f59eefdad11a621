/* api_pool.c - several models under one memory budget. */
#include <string.h>

#include "api/api_check.h"
#include "tasks/model_pool.h"

accel_pool_params accel_pool_params_default(void) {
  return (accel_pool_params){.size = sizeof(accel_pool_params)};
}

accel_status accel_pool_open(accel *ctx, const accel_pool_params *params, accel_pool **out) {
  API_CALL(ctx, out);
  API_PARAMS(accel_pool_params, mine, params);
  return accel__model_pool_open(ctx, &mine, out);
}

void accel_pool_close(accel_pool **pool) {
  if (!pool || !*pool) return;
  accel__model_pool_close(*pool);
  *pool = NULL;
}

accel_status accel_pool_add(accel_pool *pool, const char *name, const char *model,
                            const accel_init_params *params, uint32_t flags) {
  API_BEGIN();
  API_NEED(pool);
  API_NEED(name);
  API_NEED(model);
  API_PARAMS(accel_init_params, mine, params);
  if (!*name) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: 'name' is empty", __func__);
  if (flags & ~(uint32_t)(ACCEL_POOL_PINNED | ACCEL_POOL_PRELOAD))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: flags are %#x; known: accel_pool_flags", __func__,
                       flags);
  return accel__model_pool_add(pool, name, model, &mine, flags);
}

accel_status accel_pool_acquire(accel_pool *pool, const char *name, int64_t timeout_ms,
                                accel_pool_ref **out) {
  API_CALL(pool, out);
  API_NEED(name);
  return accel__model_pool_acquire(pool, name, timeout_ms, out);
}

accel_endpoint *accel_pool_ref_endpoint(const accel_pool_ref *ref) {
  return ref ? accel__model_pool_ref_endpoint(ref) : NULL;
}

accel_queue *accel_pool_ref_queue(const accel_pool_ref *ref) {
  return ref ? accel__model_pool_ref_queue(ref) : NULL;
}

void accel_pool_release(accel_pool_ref **ref) {
  if (!ref || !*ref) return;
  accel__model_pool_release(*ref);
  *ref = NULL;
}

accel_status accel_pool_pin(accel_pool *pool, const char *name, int pinned) {
  API_BEGIN();
  API_NEED(pool);
  API_NEED(name);
  return accel__model_pool_pin(pool, name, pinned != 0);
}

accel_status accel_pool_move(accel_pool *pool, const char *name, const char *device) {
  API_BEGIN();
  API_NEED(pool);
  API_NEED(name);
  API_NEED(device);
  return accel__model_pool_move(pool, name, device);
}

accel_status accel_pool_stats_of(accel_pool *pool, const char *name, accel_pool_stats *out) {
  accel_pool_stats now;
  API_BEGIN();
  API_NEED(pool);
  API_NEED(out);
  ACCEL_TRY(accel__model_pool_stats(pool, name, &now));
  API_FILL(out, now);
}

accel_status accel_pool_queue_statistics(accel_pool *pool, const char *name,
                                         accel_queue_stats *out) {
  accel_queue_stats now;
  API_BEGIN();
  API_NEED(pool);
  API_NEED(name);
  API_NEED(out);
  ACCEL_TRY(accel__model_pool_queue_stats(pool, name, &now));
  API_FILL(out, now);
}

accel_status accel_pool_json(accel_pool *pool, char **json) {
  API_CALL(pool, json);
  return accel__model_pool_json(pool, json);
}
