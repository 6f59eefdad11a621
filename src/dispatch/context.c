/* context.c - the parts of a context that are made on first use, and the callbacks. */
#include "dispatch/context.h"

accel_status accel__context_registry(accel *ctx, accel__registry **out) {
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&ctx->lock);
  if (!ctx->registry) status = accel__registry_create(ctx->params.registry_path, &ctx->registry);
  pthread_mutex_unlock(&ctx->lock);
  *out = ctx->registry;
  return status;
}

accel_status accel__context_hardware(accel *ctx, accel__hardware **out) {
  accel_status status = ACCEL_OK;
  pthread_mutex_lock(&ctx->lock);
  if (!ctx->hardware) {
    accel__hardware_params params = {.plugin_path = ctx->params.plugin_path,
                                     .allow_software = ctx->params.allow_software != 0,
                                     .log = &ctx->log,
                                     .pool = ctx->pool};
    status = accel__hardware_create(&params, &ctx->hardware);
  }
  pthread_mutex_unlock(&ctx->lock);
  *out = ctx->hardware;
  return status;
}

accel_status accel__check_cancelled(accel *ctx) {
  if (ctx->params.cancel && ctx->params.cancel(ctx->params.cancel_user))
    return accel__fail(ACCEL_ERROR_CANCELLED, "cancelled by the caller");
  return ACCEL_OK;
}

void accel__report_progress(accel *ctx, const char *what, uint64_t done, uint64_t all) {
  if (ctx->params.progress) ctx->params.progress(ctx->params.progress_user, what, done, all);
}
