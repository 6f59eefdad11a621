/* step_plan.h - the steps that a run would have: the plugin's own planner, run dry. */
#ifndef ACCEL_DISPATCH_STEP_PLAN_H
#define ACCEL_DISPATCH_STEP_PLAN_H

#include "dispatch/fit.h"

typedef struct accel__planned_run {
  const char *entry;           /* of the model */
  const char *output;          /* NULL: those that need no asking for */
  accel__fit_work work;        /* batch, tokens, side */
  uint64_t past, fixed;        /* tokens of each sequence in the KV cache; in static states */
  const accel__fit_call *call; /* in place of `work`: the shapes of its inputs; NULL: none */
} accel__planned_run;

/* Hands fn the steps on one device.  ep: a model that need not be placed.  ACCEL_ERROR_ARGUMENT: no
 * such entry or output; ACCEL_ERROR_UNSUPPORTED: the plugin plans no steps. */
accel_status accel__plan_steps(accel_endpoint *ep, const accel__device *device,
                               const accel_plugin_precision *precision,
                               const accel__planned_run *run, accel_profile_fn fn, void *user);

#endif
