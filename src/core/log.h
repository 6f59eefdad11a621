/* log.h - the library never prints: it calls the context's log callback, which is silent by
 * default. */
#ifndef ACCEL_CORE_LOG_H
#define ACCEL_CORE_LOG_H

#include "core/status.h"

typedef struct accel__log {
  accel_log_fn fn; /* NULL: silent */
  void *user;
  accel_log_level level; /* messages above it are not formatted */
} accel__log;

/* log may be NULL.  Callable from any thread; the callback is called from the thread that logs. */
void accel__logf(const accel__log *log, accel_log_level level, const char *format, ...)
    ACCEL_PRINTF(3, 4);

#endif
