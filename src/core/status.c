/* status.c - the thread's message and remedy: fixed buffers, so that failing needs no memory. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static _Thread_local char message[ACCEL__MESSAGE_BYTES], remedy[ACCEL__REMEDY_BYTES];

/* Formats into text[capacity]; what does not fit ends in "..." behind a whole code point.  Control
 * bytes, which could come from a file and steer a terminal, become '?'. */
static void put(char *text, size_t capacity, const char *format, va_list args) {
  int wanted = vsnprintf(text, capacity, format, args);
  if (wanted < 0) wanted = snprintf(text, capacity, "(message could not be formatted: %s)", format);
  if ((size_t)wanted >= capacity) memcpy(text + accel__utf8_cut(text, capacity - 4), "...", 4);
  for (char *c = text; *c; c++) {
    if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f) *c = '?';
  }
}

accel_status accel__fail(accel_status code, const char *format, ...) {
  char text[ACCEL__MESSAGE_BYTES]; /* arguments may point into `message` */
  va_list args;
  va_start(args, format);
  put(text, sizeof text, format, args);
  va_end(args);
  memcpy(message, text, strlen(text) + 1);
  remedy[0] = 0;
  return code;
}

accel_status accel__wrap(accel_status code, const char *format, ...) {
  char link[ACCEL__MESSAGE_BYTES], inner[ACCEL__MESSAGE_BYTES], kept[ACCEL__REMEDY_BYTES];
  va_list args;
  va_start(args, format);
  put(link, sizeof link, format, args);
  va_end(args);
  memcpy(inner, message, sizeof inner);
  memcpy(kept, remedy, sizeof kept);
  accel__fail(code, "%s: %s", link, inner[0] ? inner : accel_status_text(code));
  memcpy(remedy, kept, sizeof kept);
  return code;
}

accel_status accel__remedy(accel_status code, const char *format, ...) {
  char text[ACCEL__REMEDY_BYTES];
  va_list args;
  va_start(args, format);
  put(text, sizeof text, format, args);
  va_end(args);
  memcpy(remedy, text, strlen(text) + 1);
  return code;
}

accel_status accel__no_memory(size_t bytes) {
  return accel__fail(ACCEL_ERROR_OUT_OF_MEMORY, "out of memory: the system refused %zu bytes",
                     bytes);
}

void accel__failure_keep(accel__failure *failure, accel_status status) {
  failure->status = status;
  memcpy(failure->message, message, sizeof message);
  memcpy(failure->remedy, remedy, sizeof remedy);
}

accel_status accel__failure_raise(const accel__failure *failure) {
  if (failure->status == ACCEL_OK) return ACCEL_OK;
  memcpy(message, failure->message, sizeof message);
  memcpy(remedy, failure->remedy, sizeof remedy);
  return failure->status;
}

void accel__clear_error(void) { message[0] = remedy[0] = 0; }
const char *accel__message(void) { return message; }
const char *accel__remedy_text(void) { return remedy; }

/* ---- the list of accel.h ---- */

const char *accel_status_name(accel_status status) {
  switch (status) {
#define NAME(name, number, exit_code, text) \
  case ACCEL_##name:                        \
    return #name;
    ACCEL_STATUS_LIST(NAME)
#undef NAME
  }
  return "UNKNOWN";
}

const char *accel_status_text(accel_status status) {
  switch (status) {
#define TEXT(name, number, exit_code, text) \
  case ACCEL_##name:                        \
    return text;
    ACCEL_STATUS_LIST(TEXT)
#undef TEXT
  }
  return "unknown status";
}

int accel_status_exit_code(accel_status status) {
  switch (status) {
#define EXIT_CODE(name, number, exit_code, text) \
  case ACCEL_##name:                             \
    return exit_code;
    ACCEL_STATUS_LIST(EXIT_CODE)
#undef EXIT_CODE
  }
  return 1;
}
