/* work_rate.h - how fast a device computes large steps at a precision, measured by its plugin's own
 * kernels on ops made for that: what tells how long a picture takes. */
#ifndef ACCEL_DISPATCH_WORK_RATE_H
#define ACCEL_DISPATCH_WORK_RATE_H

#include "core/threads.h"
#include "hardware/hardware.h"

/* Kinds of steps: products of three kinds by their flop and bytes, all others by their bytes. */
typedef enum accel__work_kind {
  ACCEL__WORK_CONV,
  ACCEL__WORK_LINEAR,
  ACCEL__WORK_ATTENTION,
  ACCEL__WORK_OTHER,
  ACCEL__WORK_KINDS
} accel__work_kind;

/* Flop a second, of OTHER bytes a second, as accel_profile_step counts them; 0: not known. */
typedef struct accel__work_rate {
  double per_second[ACCEL__WORK_KINDS];
} accel__work_rate;

/* Takes up to a second, and some 100 MB for that long.  host: lends parallel, workers and log. */
void accel__work_rate_measure(const accel__device *device, const char *precision, accel__pool *pool,
                              const accel_plugin_host *host, accel__work_rate *out);
/* Seconds of a step; 0: the rate of its kind is not known. */
double accel__work_seconds(const accel__work_rate *rate, const accel_profile_step *step);

#endif
