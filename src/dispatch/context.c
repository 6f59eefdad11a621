/* context.c - the parts of a context that are made on first use, and the callbacks. */
#include "dispatch/context.h"

#include <string.h>

#include "core/file.h"
#include "core/size.h"

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
  const accel__cache *cache = accel__context_cache(ctx, true);
  pthread_mutex_lock(&ctx->lock);
  if (!ctx->hardware) {
    accel__hardware_params params = {.plugin_path = ctx->params.plugin_path,
                                     .allow_software = ctx->params.allow_software != 0,
                                     .log = &ctx->log,
                                     .pool = ctx->pool,
                                     .cache = cache};
    status = accel__hardware_create(&params, &ctx->hardware);
  }
  pthread_mutex_unlock(&ctx->lock);
  *out = ctx->hardware;
  return status;
}

/* Where packed weights are kept and how many; a limit that cannot be read is the default one, with
 * a line in the log. */
static void find_cache(accel *ctx) {
  const char *limit = accel__env("ACCEL_CACHE_LIMIT"), *given = ctx->params.cache_directory;
  char *root = NULL;
  ctx->cache = (accel__cache){.limit = ctx->params.cache_limit, .log = &ctx->log};
  if (!given && accel__cache_directory(&ctx->arena, &root) != ACCEL_OK) accel__clear_error();
  if (given || root)
    ctx->cache.directory = accel__path_join(&ctx->arena, given ? given : root, "packed");
  if (!ctx->cache.limit && limit && !accel__parse_bytes(limit, &ctx->cache.limit))
    accel__logf(&ctx->log, ACCEL_LOG_WARNING, "ACCEL_CACHE_LIMIT: '%s' is no size such as 20G",
                limit);
  ctx->cache_known = true;
}

const accel__cache *accel__context_cache(accel *ctx, bool usable) {
  const char *off = accel__env("ACCEL_NO_CACHE");
  pthread_mutex_lock(&ctx->lock);
  if (!ctx->cache_known) find_cache(ctx);
  pthread_mutex_unlock(&ctx->lock);
  if (usable && (!ctx->cache.directory || ctx->params.no_cache || (off && strcmp(off, "0"))))
    return NULL;
  return &ctx->cache;
}

accel_status accel__context_memory_limit(accel *ctx, uint64_t *bytes) {
  const char *limit = accel__env("ACCEL_MEM_LIMIT");
  *bytes = ctx->params.memory_limit;
  if (!*bytes && limit && !accel__parse_bytes(limit, bytes))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "ACCEL_MEM_LIMIT: '%s' is no size such as 4G", limit);
  return ACCEL_OK;
}

static _Thread_local const atomic_bool *thread_flag, *thread_flag_also;

void accel__thread_cancel(const atomic_bool *flag) { thread_flag = flag; }

const atomic_bool *accel__thread_cancelled_by(void) { return thread_flag; }

const atomic_bool *accel__thread_cancel_also(const atomic_bool *flag) {
  const atomic_bool *before = thread_flag_also;
  thread_flag_also = flag;
  return before;
}

static bool is_set(const atomic_bool *flag) {
  return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

bool accel__is_cancelled(const accel *ctx) {
  return is_set(thread_flag) || is_set(thread_flag_also) ||
         (ctx->params.cancel && ctx->params.cancel(ctx->params.cancel_user));
}

accel_status accel__check_cancelled(accel *ctx) {
  return accel__is_cancelled(ctx) ? accel__fail(ACCEL_ERROR_CANCELLED, "cancelled by the caller")
                                  : ACCEL_OK;
}

void accel__report_progress(accel *ctx, const char *what, uint64_t done, uint64_t all) {
  if (ctx->params.progress) ctx->params.progress(ctx->params.progress_user, what, done, all);
}
