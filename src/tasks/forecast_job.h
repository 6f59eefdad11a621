/* forecast_job.h - time series: what is done around the programs of models that forecast them.  Behind
 * the public function (accel/forecast.h says what it does); arguments are already checked. */
#ifndef ACCEL_TASKS_FORECAST_JOB_H
#define ACCEL_TASKS_FORECAST_JOB_H

#include "accel/forecast.h"
#include "core/arena.h"
#include "dispatch/endpoint.h"

enum { ACCEL__FORECAST_ROWS = 128 }; /* series in one run, at most */

/* One call: the series, what is asked for, and where it goes. */
typedef struct accel__forecast_job {
  accel_endpoint *ep;
  const accel__forecasting *f;
  const accel_series *series;
  uint32_t n;
  accel_forecast_params params; /* complete: horizon, levels, samples ... */
  float *mean;                  /* [n, horizon] */
  float *quantiles;             /* [n, horizon, n_quantiles]; NULL: none are given */
  float *samples;               /* [n, samples, horizon]; NULL: none are drawn */
} accel__forecast_job;

accel_status accel__forecast(accel_endpoint *ep, const accel_series *series, uint32_t n,
                             const accel_forecast_params *params, accel_forecasts **out);

/* By kind of model; each fills what is not NULL. */
accel_status accel__forecast_bolt(accel__forecast_job *job);
accel_status accel__forecast_tokens(accel__forecast_job *job);
accel_status accel__forecast_timesfm(accel__forecast_job *job);
accel_status accel__forecast_patchtst(accel__forecast_job *job);

/* The latest `width` values of a series in row[width], missing ones in front where it has fewer. */
void accel__series_row(const accel_series *series, uint64_t width, float *row);
/* Values of the longest series, at most `most`. */
uint64_t accel__series_width(const accel__forecast_job *job, uint64_t most);
/* torch.quantile of sorted[n]: linear between neighbours, in fp32. */
float accel__quantile(const float *sorted, uint64_t n, double level);
void accel__sort_floats(float *values, uint64_t n);

#endif
