/* kit_plan_cache.c - finding, keeping and releasing plans. */
#include "kit/kit_plan_cache.h"

#include <string.h>

void kit_plan_cache_init(kit_plan_cache *cache) {
  *cache = (kit_plan_cache){0};
  pthread_mutex_init(&cache->lock, NULL);
}

void kit_plan_cache_destroy(kit_plan_cache *cache) {
  for (int i = 0; i < KIT_PLAN_CACHE; i++) kit_plan_release(cache->plan[i]);
  pthread_mutex_destroy(&cache->lock);
}

void kit_plan_release(kit_plan *plan) {
  if (plan && atomic_fetch_sub(&plan->users, 1) == 1) kit_plan_free(plan);
}

bool kit_plan_fits(const kit_plan *plan, const kit_plan_request *r) {
  const accel_plugin_program *p = r->program;
  return plan->entry == r->entry && plan->workers == r->workers &&
         !memcmp(plan->symbol, r->symbol, p->n_symbol * sizeof *plan->symbol) &&
         !memcmp(plan->wanted, r->wanted, p->entry[r->entry].n_out);
}

void kit_plan_cache_touch(kit_plan_cache *cache, kit_plan *plan) {
  atomic_store(&plan->used, atomic_fetch_add(&cache->tick, 1) + 1);
}

static kit_plan *find(kit_plan_cache *cache, const kit_plan_request *r) {
  kit_plan *found = NULL;
  pthread_mutex_lock(&cache->lock);
  for (int i = 0; i < KIT_PLAN_CACHE && !found; i++)
    if (cache->plan[i] && kit_plan_fits(cache->plan[i], r)) found = cache->plan[i];
  if (found) {
    kit_plan_cache_touch(cache, found);
    atomic_fetch_add(&found->users, 1);
  }
  pthread_mutex_unlock(&cache->lock);
  return found;
}

static void keep(kit_plan_cache *cache, kit_plan *plan) {
  pthread_mutex_lock(&cache->lock);
  int oldest = 0;
  for (int i = 1; i < KIT_PLAN_CACHE && cache->plan[oldest]; i++)
    if (!cache->plan[i] ||
        atomic_load(&cache->plan[i]->used) < atomic_load(&cache->plan[oldest]->used))
      oldest = i;
  kit_plan *evicted = cache->plan[oldest];
  kit_plan_cache_touch(cache, plan);
  atomic_fetch_add(&plan->users, 1);
  cache->plan[oldest] = plan;
  pthread_mutex_unlock(&cache->lock);
  kit_plan_release(evicted);
}

int32_t kit_plan_cache_get(kit_plan_cache *cache, const kit_plan_request *r, kit_plan **out,
                           accel_plugin_error *error) {
  *out = find(cache, r);
  if (*out) return ACCEL_PLUGIN_OK;
  int32_t rc = kit_plan_new(r, out, error);
  if (!rc) keep(cache, *out);
  return rc;
}
