/* kit_plan_cache.h - the plans of the last few shapes of an endpoint, shared by its runs. */
#ifndef ACCEL_KIT_PLAN_CACHE_H
#define ACCEL_KIT_PLAN_CACHE_H

#include <pthread.h>

#include "kit/kit_internal.h"

enum { KIT_PLAN_CACHE = 8 };

typedef struct kit_plan_cache {
  pthread_mutex_t lock; /* of plan[]; the ticks are atomic */
  kit_plan *plan[KIT_PLAN_CACHE];
  _Atomic uint64_t tick;
} kit_plan_cache;

void kit_plan_cache_init(kit_plan_cache *cache);
void kit_plan_cache_destroy(kit_plan_cache *cache);
/* Whether `plan` is what the request asks for. */
bool kit_plan_fits(const kit_plan *plan, const kit_plan_request *request);
/* The plan for the request, from the cache or made anew and kept there in place of the one that was
 * unused for longest.  The caller holds a reference: kit_plan_release. */
int32_t kit_plan_cache_get(kit_plan_cache *cache, const kit_plan_request *request, kit_plan **out,
                           accel_plugin_error *error);
/* Notes a use of a plan that the caller still has from an earlier call. */
void kit_plan_cache_touch(kit_plan_cache *cache, kit_plan *plan);
void kit_plan_release(kit_plan *plan); /* NULL: nothing */

#endif
