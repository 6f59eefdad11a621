/* forecast_tokens.c - placeholder */
#include "tasks/forecast.h"
accel_status accel__forecast_tokens(accel__forecast_job *job) {
  (void)job;
  return accel__fail(ACCEL_ERROR_UNSUPPORTED, "Chronos is not supported");
}
