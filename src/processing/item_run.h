/* item_run.h - the items of a call that run one at a time, such as pictures and sounds: the replicas
 * of an endpoint share them. */
#ifndef ACCEL_PROCESSING_ITEM_RUN_H
#define ACCEL_PROCESSING_ITEM_RUN_H

#include "dispatch/endpoint.h"

/* n items, each of which is run by one device. */
typedef struct accel__item_run {
  uint32_t n;
  const char *what;                            /* as of accel__report_progress; NULL: none */
  uint64_t (*cost)(void *user, uint32_t item); /* how long one takes beside others; NULL: alike */
  /* Prepares an item and runs it on `ep`; from several threads at once.  What it found is `take`'s;
   * after a failure nothing is. */
  accel_status (*run)(void *user, accel_endpoint *ep, uint32_t item, void **found);
  /* Keeps what was found, and frees it, after a failure, too.  Once an item, one at a time, in the
   * order in which they are done. */
  accel_status (*take)(void *user, uint32_t item, void *found);
  void *user;
} accel__item_run;

/* The failure of an item is the call's. */
accel_status accel__run_items(accel_endpoint *ep, const accel__item_run *items);

#endif
