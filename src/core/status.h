/* status.h - how every function of libaccel fails: a code from the one list in accel.h, and a
 * message of the thread.
 *
 *   return accel__fail(ACCEL_ERROR_FORMAT, "%s: field 'hidden_size' is %s, expected a positive integer", file, what);
 *   ACCEL_TRY(accel__file_map(path, &map));                      passes a failure on unchanged
 *   ACCEL_TRY_AS(load(x), "loading the tokenizer of %s", dir);   adds a link to the cause chain
 *
 * The message reads from the outermost link to the innermost: "loading the tokenizer of DIR:
 * tokenizer.json: ...".
 */
#ifndef ACCEL_CORE_STATUS_H
#define ACCEL_CORE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "accel/accel.h"

#if defined(__GNUC__)
#define ACCEL_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define ACCEL_PRINTF(format_index, first)
#endif

/* Sets this thread's message (dropping an older one) and returns `code`. */
accel_status accel__fail(accel_status code, const char *format, ...) ACCEL_PRINTF(2, 3);
/* Puts a link in front of this thread's message and returns `code`. */
accel_status accel__wrap(accel_status code, const char *format, ...) ACCEL_PRINTF(2, 3);
/* Sets what the user can do about the failure; kept apart from the message.  Returns `code`. */
accel_status accel__remedy(accel_status code, const char *format, ...) ACCEL_PRINTF(2, 3);
/* ACCEL_ERROR_OUT_OF_MEMORY with the number of bytes that were refused; needs no memory itself. */
accel_status accel__no_memory(size_t bytes);
/* Forgets the thread's message and remedy (at the start of a public call). */
void accel__clear_error(void);
/* This thread's message and remedy; "" when there is none.  Valid until the thread's next
 * failure. */
const char *accel__message(void);
const char *accel__remedy_text(void);

#define ACCEL_TRY(call)                      \
  do {                                       \
    accel_status status_ = (call);           \
    if (status_ != ACCEL_OK) return status_; \
  } while (0)
#define ACCEL_TRY_AS(call, ...)                                        \
  do {                                                                 \
    accel_status status_ = (call);                                     \
    if (status_ != ACCEL_OK) return accel__wrap(status_, __VA_ARGS__); \
  } while (0)
/* A failure carried from the thread it happened on to the one that reports it. */
enum { ACCEL__MESSAGE_BYTES = 1024, ACCEL__REMEDY_BYTES = 512 };
typedef struct accel__failure {
  accel_status status; /* ACCEL_OK: none */
  char message[ACCEL__MESSAGE_BYTES], remedy[ACCEL__REMEDY_BYTES];
} accel__failure; /* {0} is none */
/* Keeps this thread's message and remedy with `status`. */
void accel__failure_keep(accel__failure *failure, accel_status status);
/* Makes them this thread's; returns the status. */
accel_status accel__failure_raise(const accel__failure *failure);

/* Whether a failed run that several requests share is the fault of none of them, and of no use to
 * try again for each. */
static inline bool accel__ends_all(accel_status status) {
  return status == ACCEL_ERROR_CANCELLED || status == ACCEL_ERROR_DEVICE_LOST;
}

/* For functions with one exit: `status` and the label `done` must exist. */
#define ACCEL_GOTO(call)               \
  do {                                 \
    status = (call);                   \
    if (status != ACCEL_OK) goto done; \
  } while (0)

#endif
