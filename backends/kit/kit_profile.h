/* kit_profile.h - what a profiled run tells the host of each launch: nodes, times, cost. */
#ifndef ACCEL_KIT_PROFILE_H
#define ACCEL_KIT_PROFILE_H

#include "kit/kit_endpoint.h"

typedef struct kit_profiled_step {
  accel_plugin_step step;
  int32_t node[KIT_MAX_FUSED + 1];
} kit_profiled_step;

/* One run's profile.  A backend that computes in host memory is timed by the host's clock, and each
 * launch is told at once; what is queued for a device waits for the device's times. */
typedef struct kit_profile {
  const accel_plugin_endpoint *endpoint;
  const accel_plugin_host *host; /* NULL: nobody asks, and the functions below do nothing */
  uint32_t entry;
  double *node_us;         /* [n_node] of kit_begin, NaN until the device writes; NULL: no device */
  kit_profiled_step *step; /* [n_step], capacity the plan's steps; NULL as node_us */
  uint32_t n_step;
} kit_profile;

int32_t kit_profile_begin(kit_profile *p, const accel_plugin_endpoint *endpoint,
                          const accel_plugin_host *host, const kit_plan *plan,
                          accel_plugin_error *error);
/* A launch that began at begin_us (kit_now_us) has returned. */
void kit_profile_launch(kit_profile *p, const kit_launch *launch, double begin_us);
/* The device has finished and has written node_us. */
void kit_profile_device(const kit_profile *p);
void kit_profile_end(kit_profile *p);

#endif
