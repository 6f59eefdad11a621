/* disk_speed.h - how fast the library's reader gets a model's own file from its disk. */
#ifndef ACCEL_DISPATCH_DISK_SPEED_H
#define ACCEL_DISPATCH_DISK_SPEED_H

#include "weights/cache.h"
#include "weights/weights.h"

/* 0: not known. */
typedef struct accel__disk {
  double bytes_per_second;
  double check_seconds; /* that a core is busy with the checks of a byte */
} accel__disk;

/* Of the checkpoint's largest file, read around the page cache for 0.2 s.  What was measured is
 * remembered for a day by the disk's device number, in the cache; cache NULL: nothing is
 * remembered.  Not known: it cannot be read, or is smaller than a MiB. */
accel__disk accel__disk_speed(const accel__checkpoint *c, const accel__cache *cache);

#endif
