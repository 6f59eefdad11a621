/* api_check.c - checks of parameter structs and lists of arguments. */
#include "api/api_check.h"

#include <string.h>

enum { MAX_PARAMS_BYTES = 4096 }; /* no parameter struct will ever be larger */

accel_status accel__overlay_params(const char *caller, const void *given, size_t bytes,
                                   void *mine) {
  uint32_t size;
  if (!given) return ACCEL_OK;
  memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > MAX_PARAMS_BYTES)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: params.size is %u; start from the _default() function", caller, size);
  memcpy(mine, given, size < bytes ? size : bytes);
  size = (uint32_t)bytes;
  memcpy(mine, &size, sizeof size);
  return ACCEL_OK;
}

accel_status accel__check_texts(const char *caller, const char *what, const char *const *texts,
                                uint32_t n) {
  if (n && !texts) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '%s' is NULL", caller, what);
  for (uint32_t i = 0; i < n; i++)
    if (!texts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s[%u] is NULL", caller, what, i);
  return ACCEL_OK;
}
