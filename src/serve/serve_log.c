/* serve_log.c - see serve_log.h. */
#include "serve/serve_log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic int most = ACCEL_LOG_WARNING;

void serve_log_set_level(accel_log_level level) { atomic_store(&most, (int)level); }

/* Control characters would begin other lines, or move a terminal's cursor. */
static void write_line(const char *format, va_list arguments) {
  char line[2048];
  vsnprintf(line, sizeof line, format, arguments);
  for (char *at = line; *at; ++at)
    if ((unsigned char)*at < ' ' || *at == 0x7F) *at = ' ';
  fprintf(stderr, "accel serve: %s\n", line);
}

void serve_log(accel_log_level level, const char *format, ...) {
  if ((int)level > atomic_load(&most)) return;
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void serve_say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void serve_log_library(void *user, accel_log_level level, const char *message) {
  (void)user;
  serve_log(level, "%s", message);
}
