/* kit_profile.c - profiles of runs, by the host's clock or the device's. */
#include "kit/kit_profile.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double kit_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

int32_t kit_profile_begin(kit_profile *p, const accel_plugin_endpoint *e,
                          const accel_plugin_host *host, const kit_plan *plan,
                          accel_plugin_error *error) {
  *p = (kit_profile){.endpoint = e, .host = host && host->profile ? host : NULL};
  p->entry = plan->entry;
  if (!e->backend->finish || !p->host) return ACCEL_PLUGIN_OK;
  p->node_us = malloc((e->program->n_node + 1) * sizeof *p->node_us);
  p->step = malloc((plan->n_step + 1) * sizeof *p->step);
  if (!p->node_us || !p->step) {
    kit_profile_end(p);
    return kit_no_memory(error, plan->n_step * sizeof *p->step);
  }
  for (uint32_t i = 0; i < e->program->n_node; i++) p->node_us[i] = (double)NAN;
  return ACCEL_PLUGIN_OK;
}

void kit_profile_end(kit_profile *p) {
  free(p->node_us);
  free(p->step);
  *p = (kit_profile){0};
}

void kit_profile_launch(kit_profile *p, const kit_launch *launch, double begin_us) {
  kit_profiled_step own, *w = p->step ? &p->step[p->n_step++] : &own;
  const accel_plugin_endpoint *e = p->endpoint;
  if (!p->host) return;
  *w = (kit_profiled_step){
      .step = {
          .size = sizeof w->step, .entry = p->entry, .begin_us = begin_us, .end_us = kit_now_us()}};
  w->step.node = w->node;
  for (uint32_t m = 0; m <= launch->n_fused; m++) {
    kit_cost(launch + m, e->weight_bytes, &w->step);
    w->node[w->step.n_node++] = (int32_t)launch[m].index;
    const double limit = e->backend->limit_us ? e->backend->limit_us(e->self, launch + m) : 0;
    /* of all nodes of the launch, or unknown */
    w->step.limit_us = limit > 0 && (m == 0 || w->step.limit_us > 0) ? w->step.limit_us + limit : 0;
  }
  if (w == &own) p->host->profile(p->host->self, &w->step);
}

/* Steps follow each other on the device's clock; those it has no time for keep the host's. */
void kit_profile_device(const kit_profile *p) {
  double at_us = 0;
  for (uint32_t i = 0; i < p->n_step; i++) {
    kit_profiled_step *w = &p->step[i];
    double us = 0;
    for (uint32_t m = 0; m < w->step.n_node; m++)
      if (!isnan(p->node_us[w->node[m]]))
        w->step.clock = ACCEL_PLUGIN_CLOCK_DEVICE, us += p->node_us[w->node[m]];
    if (w->step.clock == ACCEL_PLUGIN_CLOCK_DEVICE) {
      w->step.begin_us = at_us;
      w->step.end_us = at_us += us;
    }
    p->host->profile(p->host->self, &w->step);
  }
}
