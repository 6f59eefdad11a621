/* disk_speed.h - how fast the library's reader gets a model's own file from its disk. */
#ifndef ACCEL_DISPATCH_DISK_SPEED_H
#define ACCEL_DISPATCH_DISK_SPEED_H

#include "weights/cache.h"
#include "weights/weights.h"

/* Bytes a second of the checkpoint's largest file, read around the page cache for 0.2 s.  What was
 * measured is remembered for a day by the disk's device number, in the cache; cache NULL: nothing
 * is remembered.  0: not known (it cannot be read, or is smaller than a MiB). */
double accel__disk_speed(const accel__checkpoint *c, const accel__cache *cache);

#endif
