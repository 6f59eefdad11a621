/* api_check.h - argument checks of the public functions, made once, here: below this layer arguments
 * are what they should be. */
#ifndef ACCEL_API_CHECK_H
#define ACCEL_API_CHECK_H

#include <pthread.h>

#include "processing/result.h"
#include "core/status.h"

/* First line of a public call: forgets the thread's last error and refuses a NULL that may not be
 * one. */
#define API_BEGIN() accel__clear_error()
#define API_NEED(pointer)                                                               \
  do {                                                                                  \
    if (!(pointer))                                                                     \
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '" #pointer "' is NULL", __func__); \
  } while (0)
/* Outputs are NULL until the call has succeeded. */
#define API_OUT(pointer) \
  do {                   \
    API_NEED(pointer);   \
    *(pointer) = NULL;   \
  } while (0)
/* Copies the caller's parameter struct over the defaults: fields beyond the size it was compiled
 * with keep their default. */
#define API_PARAMS(into, given)                                                                   \
  do {                                                                                            \
    if (given) {                                                                                  \
      if ((given)->size < sizeof(uint32_t) || (given)->size > 4096)                               \
        return accel__fail(ACCEL_ERROR_ARGUMENT,                                                  \
                           "%s: params.size is %u; start from the _default() function", __func__, \
                           (given)->size);                                                        \
      memcpy(&(into), (given), (given)->size < sizeof(into) ? (given)->size : sizeof(into));      \
      (into).size = sizeof(into);                                                                 \
    }                                                                                             \
  } while (0)
/* Last line of a call on an object with a lock: one call at a time. */
#define API_LOCKED(object, call)           \
  do {                                     \
    pthread_mutex_lock(&(object)->lock);   \
    accel_status status_ = (call);         \
    pthread_mutex_unlock(&(object)->lock); \
    return status_;                        \
  } while (0)

/* n texts (labels, names): none may be NULL.  `what` is the argument's name. */
accel_status accel__check_texts(const char *caller, const char *what, const char *const *texts,
                                uint32_t n);

/* Results own an arena each; one way to free them all. */
#define API_FREE_RESULT(name, type) \
  void name(type **result) {        \
    if (!result) return;            \
    accel__task_free(*result);      \
    *result = NULL;                 \
  }

/* media[n] of a public call: none without a name (api_media.c). */
accel_status accel__check_media(const char *caller, const char *what, const accel_media *media,
                                uint32_t n);

#endif
