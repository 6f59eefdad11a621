/* copy_speed.c - see copy_speed.h. */
#include "dispatch/copy_speed.h"

#include <stdlib.h>
#include <string.h>

#include "core/threads.h"

enum { BYTES = 16 << 20, TIMES = 5 };

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Seconds of the median copy; 0: one failed. */
static double median(const accel__device *device, void *buffer, const void *from) {
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  double seconds[TIMES];
  for (int i = -1; i < TIMES; i++) { /* the first makes what the others find */
    const uint64_t begin = accel__now_ns();
    if (device->plugin->buffer_copy(device->index, buffer, 0, from, 0, BYTES, 1, &error)) return 0;
    if (i >= 0) seconds[i] = 1e-9 * (double)(accel__now_ns() - begin);
  }
  qsort(seconds, TIMES, sizeof *seconds, by_size);
  return seconds[TIMES / 2];
}

double accel__copy_speed(const accel__device *device) {
  const accel_plugin *plugin = device->plugin;
  accel_plugin_error error = {.size = sizeof error, .node = -1};
  void *buffer = NULL, *from;
  if (!plugin || !plugin->buffer_alloc) return 0;
  if (plugin->buffer_alloc(device->index, BYTES, &buffer, &error)) return 0;
  from = malloc(BYTES);
  if (from) memset(from, 1, BYTES);
  const double seconds = from ? median(device, buffer, from) : 0;
  free(from);
  plugin->buffer_free(device->index, buffer);
  return seconds > 0 ? BYTES / seconds : 0;
}
