/* rate_run.h - programs of the core's own on a plugin, timed: for device_rate.c and work_rate.c. */
#ifndef ACCEL_DISPATCH_RATE_RUN_H
#define ACCEL_DISPATCH_RATE_RUN_H

#include "core/arena.h"
#include "hardware/hardware.h"

typedef struct accel__rate_run {
  const accel__device *device;
  const accel_plugin_program *program;
  const accel_plugin_host *host;
  accel_plugin_options options;
  accel_plugin_endpoint *endpoint; /* NULL: not open */
} accel__rate_run;

/* Options for the program at a precision, which keep to `arena`; false: the device has none. */
bool accel__rate_prepare(accel__rate_run *r, const char *precision, accel__arena *arena);
bool accel__rate_open(accel__rate_run *r);
void accel__rate_close(accel__rate_run *r);
/* Seconds of a run of one operand and one result, the mean of some that take `least_ns` together, for
 * what else the machine does slows a model down, too; 0: it fails. */
double accel__rate_time(const accel__rate_run *r, uint32_t entry, const accel_plugin_view *in,
                        const accel_plugin_view *out, uint64_t least_ns);

#endif
