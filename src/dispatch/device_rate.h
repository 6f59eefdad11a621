/* device_rate.h - how fast a device computes linear layers at a precision, measured by its plugin's
 * own kernels on a layer made for that: what a planner needs to foretell times. */
#ifndef ACCEL_DISPATCH_DEVICE_RATE_H
#define ACCEL_DISPATCH_DEVICE_RATE_H

#include "core/threads.h"
#include "hardware/hardware.h"

/* 0: not known. */
typedef struct accel__device_rate {
  double resident; /* bytes a second of weights in memory, as the device keeps them, by one row */
  double streamed; /* bytes a second of weights as they are stored, when reading takes no time */
  double row_seconds; /* of each further row, for each element of the weights */
} accel__device_rate;

/* Takes some tenths of a second, and 200 to 400 MB for that long.  row_dtype: in which the
 * checkpoint holds linear weights (accel_plugin_dtype); NO_DTYPE: there are no rows of them to read,
 * only segments of the cache.  staging: memory through which the weights of the model pass, for the
 * size of segments makes a difference; 0: nothing is streamed by the device's plugin.
 * host: lends parallel, workers and log. */
void accel__device_rate_measure(const accel__device *device, const char *precision,
                                uint8_t row_dtype, uint64_t staging, accel__pool *pool,
                                const accel_plugin_host *host, accel__device_rate *out);

#endif
