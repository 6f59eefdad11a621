/* api_memory.c - what fits where, and the cache of packed weights. */
#include <stdlib.h>
#include <string.h>

#include "api/api_check.h"
#include "processing/result.h"
#include "verify/fit_report.h"

accel_fit_params accel_fit_params_default(void) {
  return (accel_fit_params){.size = sizeof(accel_fit_params)};
}

accel_status accel_fit(accel *ctx, const char *model, const accel_fit_params *params,
                       accel_fit_report **out) {
  API_CALL(ctx, out);
  API_NEED(model);
  API_PARAMS(accel_fit_params, mine, params);
  return accel__fit_report(ctx, model, &mine, out);
}

API_FREE_RESULT(accel_fit_report_free, accel_fit_report)

/* ---- cache ---- */

static accel_status list_cache(const accel__cache *cache, accel_cache_list *list) {
  accel__arena *arena = accel__task_arena(list);
  accel__cache_entry *found;
  uint32_t n;
  ACCEL_TRY(accel__cache_list(cache, arena, &found, &n));
  accel_cache_entry *entry = accel__arena_array(arena, n, sizeof *entry);
  list->directory = accel__arena_string(arena, cache->directory ? cache->directory : "");
  if (!entry || !list->directory) return ACCEL_ERROR_OUT_OF_MEMORY;
  list->limit = accel__cache_limit(cache);
  list->n = n;
  list->entry = entry;
  for (uint32_t i = 0; i < n; i++) {
    entry[i] = (accel_cache_entry){.file = found[i].file,
                                   .label = found[i].label,
                                   .bytes = found[i].bytes,
                                   .used = found[i].used};
    list->bytes += found[i].bytes;
  }
  return ACCEL_OK;
}

accel_status accel_cache_ls(accel *ctx, accel_cache_list **out) {
  API_CALL(ctx, out);
  accel_cache_list *list = accel__task_result(sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = list_cache(accel__context_cache(ctx, false), list);
  if (status == ACCEL_OK)
    *out = list;
  else
    accel__task_free(list);
  return status;
}

API_FREE_RESULT(accel_cache_list_free, accel_cache_list)

accel_status accel_cache_prune(accel *ctx, uint64_t keep, uint32_t *removed, uint64_t *bytes) {
  API_BEGIN();
  if (removed) *removed = 0;
  if (bytes) *bytes = 0;
  API_NEED(ctx);
  return accel__cache_prune(accel__context_cache(ctx, false), keep, removed, bytes);
}
