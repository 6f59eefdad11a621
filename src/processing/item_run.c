/* item_run.c - see item_run.h. */
#include "processing/item_run.h"

#include "dispatch/replicas.h"

typedef struct items_call {
  accel_endpoint *ep;
  const accel__item_run *items;
  pthread_mutex_t take; /* one item at a time is handed over */
  atomic_bool final;    /* a hand-over has failed, half-way perhaps */
} items_call;

static accel_status run_range(void *user, accel_endpoint *ep, uint32_t first, uint32_t n) {
  items_call *c = user;
  for (uint32_t i = first; i < first + n; i++) {
    void *found = NULL;
    ACCEL_TRY(c->items->run(c->items->user, ep, i, &found));
    pthread_mutex_lock(&c->take);
    const accel_status status = c->items->take(c->items->user, i, found);
    pthread_mutex_unlock(&c->take);
    if (status == ACCEL_OK) continue;
    atomic_store(&c->final, true);
    return status;
  }
  return ACCEL_OK;
}

static uint64_t cost_of(void *user, uint32_t item) {
  const items_call *c = user;
  return c->items->cost ? c->items->cost(c->items->user, item) : 1;
}

static void tell_done(void *user, uint32_t done) {
  const items_call *c = user;
  if (c->items->what) accel__report_progress(c->ep->ctx, c->items->what, done, c->items->n);
}

accel_status accel__run_items(accel_endpoint *ep, const accel__item_run *items) {
  items_call c = {.ep = ep, .items = items};
  pthread_mutex_init(&c.take, NULL);
  const accel_status status = accel__share_work(ep, &(accel__work){.kind = ACCEL__WORK_ITEMS,
                                                                   .n = items->n,
                                                                   .cost = cost_of,
                                                                   .most_items = 1,
                                                                   .run = run_range,
                                                                   .tell = tell_done,
                                                                   .final = &c.final,
                                                                   .user = &c});
  pthread_mutex_destroy(&c.take);
  return status;
}
