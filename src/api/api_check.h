/* api_check.h - argument checks of the public functions, made once, here: below this layer
 * arguments are what they should be. */
#ifndef ACCEL_API_CHECK_H
#define ACCEL_API_CHECK_H

#include <pthread.h>

#include "processing/result.h"
#include "core/status.h"

/* First line of a call without outputs: forgets the thread's last error. */
#define API_BEGIN() accel__clear_error()
/* An argument that may not be NULL. */
#define API_NEED(pointer)                                                               \
  do {                                                                                  \
    if (!(pointer))                                                                     \
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '" #pointer "' is NULL", __func__); \
  } while (0)
/* An output: NULL until the call has succeeded. */
#define API_OUT(pointer) \
  do {                   \
    API_NEED(pointer);   \
    *(pointer) = NULL;   \
  } while (0)
/* First line of a call on an object with one output; neither may be NULL. */
#define API_CALL(object, out) \
  API_BEGIN();                \
  API_OUT(out);               \
  API_NEED(object)
/* Declares `mine`, a parameter struct with its defaults and, over them, what the caller gave. */
#define API_PARAMS(type, mine, given) \
  type mine = type##_default();       \
  ACCEL_TRY(accel__overlay_params(__func__, given, sizeof mine, &(mine)))
/* The same of accel_generate_params, whose values are checked, too. */
#define API_GENERATE_PARAMS(mine, given)          \
  API_PARAMS(accel_generate_params, mine, given); \
  ACCEL_TRY(accel__check_generate_params(__func__, &(mine)))
/* Last line of a call on an object with a lock: one call at a time. */
#define API_LOCKED(object, call)           \
  do {                                     \
    pthread_mutex_lock(&(object)->lock);   \
    accel_status status_ = (call);         \
    pthread_mutex_unlock(&(object)->lock); \
    return status_;                        \
  } while (0)

/* Copies the caller's parameter struct `given` (NULL: nothing) over the defaults in *mine.  Both
 * begin with their size in bytes, a uint32_t: fields beyond the size that the caller was compiled
 * with keep their defaults.  A size that no _default() function sets is an error. */
accel_status accel__overlay_params(const char *caller, const void *given, size_t bytes, void *mine);

/* Last line of a call that fills *out, a struct that begins with its size, which the caller has set:
 * as much of `now` as the caller was compiled with; the size is then what was filled. */
#define API_FILL(out, now) return accel__fill_struct(out, &(now), sizeof(now))
accel_status accel__fill_struct(void *out, const void *now, size_t bytes);

/* Values that no model takes: a list of stop strings without items, more than 1024 log
 * probabilities, beams or sequences. */
accel_status accel__check_generate_params(const char *caller, const accel_generate_params *p);

/* n texts (labels, names): none may be NULL.  `what` is the argument's name. */
accel_status accel__check_texts(const char *caller, const char *what, const char *const *texts,
                                uint32_t n);

/* The inputs of a run: each has a name, data and a possible shape. */
accel_status accel__check_tensors(const char *caller, const accel_tensors *list);

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

/* prompts[n] about pictures (api_generate.c): kinds, texts that a kind needs, their pictures. */
accel_status accel__check_image_prompts(const char *caller, const accel_image_prompt *prompts,
                                        uint32_t n);

#endif
