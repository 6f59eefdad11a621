/* api_context.c - creating and destroying contexts. */
#include "dispatch/context.h"

#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "core/file.h"
#include "core/block_cache.h"
#include "tasks/rank_models.h"

accel_params accel_params_default(void) {
  return (accel_params){.size = sizeof(accel_params), .log_level = ACCEL_LOG_WARNING};
}

/* The caller's strings may go away: keep copies. */
static accel_status keep_string(accel *ctx, const char **string) {
  if (!*string) return ACCEL_OK;
  *string = accel__arena_string(&ctx->arena, *string);
  return *string ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

/* Ranks of one machine share its processors. */
static uint32_t threads_of(const accel_params *params) {
  const bool share = params->world > 1 && (!params->transport || !*params->transport ||
                                           !strcmp(params->transport, "shm"));
  if (params->threads || !share) return params->threads;
  const uint32_t all = accel__default_threads(NULL);
  return all > params->world ? all / params->world : 1;
}

static accel_status open_context(accel *ctx) {
  ACCEL_TRY(keep_string(ctx, &ctx->params.plugin_path));
  ACCEL_TRY(keep_string(ctx, &ctx->params.registry_path));
  ACCEL_TRY(keep_string(ctx, &ctx->params.cache_directory));
  ACCEL_TRY(keep_string(ctx, &ctx->params.transport));
  ACCEL_TRY(keep_string(ctx, &ctx->params.job));
  ctx->log = (accel__log){
      .fn = ctx->params.log, .user = ctx->params.log_user, .level = ctx->params.log_level};
  ACCEL_TRY(accel__pool_create(threads_of(&ctx->params), &ctx->pool));
  accel__pool_set_width(ctx->pool, ctx->params.mode == ACCEL_MODE_THROUGHPUT ? 1 : 0);
  return accel__ranks_join(ctx, &ctx->params, &ctx->ranks);
}

accel_status accel_create(const accel_params *params, accel **out) {
  API_BEGIN();
  API_OUT(out);
  API_PARAMS(accel_params, mine, params);
  if ((uint32_t)mine.mode > ACCEL_MODE_THROUGHPUT)
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: params.mode is %d; it takes ACCEL_MODE_LATENCY and ACCEL_MODE_THROUGHPUT", __func__,
        (int)mine.mode);
  accel *ctx = calloc(1, sizeof *ctx);
  if (!ctx) return accel__no_memory(sizeof *ctx);
  pthread_mutex_init(&ctx->lock, NULL);
  pthread_mutex_init(&ctx->endpoints_lock, NULL);
  ctx->params = mine;
  accel_status status = open_context(ctx);
  if (status == ACCEL_OK)
    *out = ctx;
  else
    accel_destroy(&ctx);
  return status;
}

void accel_destroy(accel **ctx) {
  if (!ctx || !*ctx) return;
  accel *c = *ctx;
  while (c->endpoints) {
    accel_endpoint *ep = c->endpoints;
    accel_cleanup(&ep);
  }
  accel__ranks_leave(&c->ranks);
  accel__hardware_destroy(&c->hardware);
  accel__registry_free(&c->registry);
  accel__pool_destroy(&c->pool);
  accel__arena_free(&c->arena);
  pthread_mutex_destroy(&c->lock);
  pthread_mutex_destroy(&c->endpoints_lock);
  free(c);
  accel__block_cache_trim();
  *ctx = NULL;
}

accel_status accel_follow(accel *ctx) {
  API_BEGIN();
  API_NEED(ctx);
  return accel__ranks_follow(ctx);
}

uint32_t accel_thread_count(const accel *ctx) { return ctx ? accel__pool_size(ctx->pool) : 0; }

void accel_string_free(char **string) {
  if (!string) return;
  free(*string);
  *string = NULL;
}

const char *accel_last_error(void) { return accel__message(); }
const char *accel_last_remedy(void) { return accel__remedy_text(); }
