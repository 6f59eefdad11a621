/* api_check.c - checks of lists of arguments. */
#include "api/api_check.h"

accel_status accel__check_texts(const char *caller, const char *what, const char *const *texts,
                                uint32_t n) {
  if (n && !texts) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '%s' is NULL", caller, what);
  for (uint32_t i = 0; i < n; i++)
    if (!texts[i]) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s[%u] is NULL", caller, what, i);
  return ACCEL_OK;
}
