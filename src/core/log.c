/* log.c - one formatted line to the context's callback. */
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

void accel__logf(const accel__log *log, accel_log_level level, const char *format, ...) {
  if (!log || !log->fn || level > log->level) return;
  char text[2048];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n < 0) return;
  if ((size_t)n >= sizeof text) memcpy(text + accel__utf8_cut(text, sizeof text - 4), "...", 4);
  log->fn(log->user, level, text);
}
