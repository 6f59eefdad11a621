/* serve_log.h - the one place at which the server writes: lines on stderr.  What requests say
 * (prompts, texts, names of files) is never logged. */
#ifndef ACCEL_SERVE_LOG_H
#define ACCEL_SERVE_LOG_H

#include "accel/accel.h"

/* Lines up to this level are written; ACCEL_LOG_WARNING until it is called. */
void serve_log_set_level(accel_log_level level);
/* One line, "accel serve: ...", whatever the text holds.  Any thread. */
void serve_log(accel_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line that is written at every level: what a person who starts a server looks for. */
void serve_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* accel_params.log */
void serve_log_library(void *user, accel_log_level level, const char *message);

#endif
