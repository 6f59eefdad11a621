/* copy_speed.h - how fast a device gets bytes from host memory. */
#ifndef ACCEL_DISPATCH_COPY_SPEED_H
#define ACCEL_DISPATCH_COPY_SPEED_H

#include "hardware/hardware.h"

/* Bytes a second of the plugin's own copies of 16 MiB from ordinary memory, the median of five;
 * from pinned memory, where weights lie, they are as fast or faster.  0: not known.  Takes some
 * milliseconds, and twice 16 MiB for that long. */
double accel__copy_speed(const accel__device *device);

#endif
