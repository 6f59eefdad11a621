/* api_forecast.c - forecasts of time series: argument checks, then tasks/. */
#include <math.h>

#include "api/api_check.h"
#include "tasks/forecast_job.h"

accel_forecast_params accel_forecast_params_default(void) {
  return (accel_forecast_params){
      .size = sizeof(accel_forecast_params), .temperature = NAN, .top_p = NAN, .top_k = -1};
}

accel_status accel_forecast_series(accel_endpoint *endpoint, const accel_series *series, uint32_t n,
                                   const accel_forecast_params *params, accel_forecasts **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_forecast_params, mine, params);
  API_NEED(series);
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no series are given", __func__);
  for (uint32_t i = 0; i < n; i++)
    if (!series[i].n || !series[i].values)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: series %u has no values", __func__, i);
  if ((mine.quantiles == NULL) != (mine.n_quantiles == 0))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %u quantiles are announced, and %s are given",
                       __func__, mine.n_quantiles, mine.quantiles ? "some" : "none");
  return accel__forecast(endpoint, series, n, &mine, out);
}

API_FREE_RESULT(accel_forecasts_free, accel_forecasts)
