/* forecast_job.c - time series: arguments against the model, quantiles, results. */
#include "tasks/forecast_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "processing/result.h"

static const double TENTHS[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
enum { N_TENTHS = sizeof TENTHS / sizeof *TENTHS, MAX_HORIZON = 1 << 20, MAX_SAMPLES = 1 << 16 };

/* ---- what the tasks of all kinds need ---- */

void accel__series_row(const accel_series *series, uint64_t width, float *row) {
  const uint64_t n = series->n < width ? series->n : width;
  for (uint64_t i = 0; i < width - n; i++) row[i] = NAN;
  memcpy(row + (width - n), series->values + (series->n - n), n * sizeof *row);
}

uint64_t accel__series_width(const accel__forecast_job *job, uint64_t most) {
  uint64_t width = 0;
  for (uint32_t i = 0; i < job->n; i++)
    if (job->series[i].n > width) width = job->series[i].n;
  return width < most ? width : most;
}

static int compare(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

void accel__sort_floats(float *values, uint64_t n) { qsort(values, n, sizeof *values, compare); }

float accel__quantile(const float *sorted, uint64_t n, double level) {
  const float at = (float)level * (float)(n - 1);
  const uint64_t low = (uint64_t)at, high = low + 1 < n ? low + 1 : low;
  const float weight = at - (float)low, step = sorted[high] - sorted[low];
  return weight < 0.5f ? sorted[low] + weight * step : sorted[high] - step * (1.0f - weight);
}

/* ---- what is asked for ---- */

static accel_status check_series(const accel__forecast_job *job) {
  const bool whole = job->f->kind == ACCEL__FORECAST_TIMESFM;
  for (uint32_t i = 0; i < job->n; i++) {
    for (uint64_t k = 0; k < job->series[i].n; k++) {
      const float value = job->series[i].values[k];
      if (isinf(value))
        return accel__fail(ACCEL_ERROR_ARGUMENT, "series %u: value %llu is infinite", i,
                           (unsigned long long)k);
      if (whole && isnan(value))
        return accel__remedy(
            accel__fail(ACCEL_ERROR_ARGUMENT,
                        "series %u: value %llu is missing, and %s takes no missing values", i,
                        (unsigned long long)k, job->ep->model->architecture),
            "fill it in, by the mean of its neighbours for example");
    }
  }
  return ACCEL_OK;
}

static accel_status complete_horizon(accel__forecast_job *job) {
  const accel__forecasting *f = job->f;
  const bool goes_on = f->kind == ACCEL__FORECAST_TOKENS || f->kind == ACCEL__FORECAST_BOLT;
  if (!job->params.horizon) job->params.horizon = (uint32_t)f->horizon;
  if (!goes_on && job->params.horizon > f->horizon)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "horizon is %u: %s forecasts at most %lld values",
                       job->params.horizon, job->ep->model->architecture, (long long)f->horizon);
  if (job->params.horizon > MAX_HORIZON)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "horizon is %u: at most %d values are possible",
                       job->params.horizon, MAX_HORIZON);
  return ACCEL_OK;
}

static accel_status complete_levels(accel__forecast_job *job) {
  const accel__forecasting *f = job->f;
  accel_forecast_params *p = &job->params;
  if (f->kind == ACCEL__FORECAST_PATCHTST) {
    if (!p->n_quantiles) return ACCEL_OK;
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s gives no quantiles", job->ep->model->architecture);
  }
  if (!p->quantiles) {
    const bool own = f->kind == ACCEL__FORECAST_TIMESFM;
    p->quantiles = own ? f->quantiles : TENTHS;
    p->n_quantiles = own ? f->n_quantiles : N_TENTHS;
  }
  for (uint32_t i = 0; i < p->n_quantiles; i++)
    if (!(p->quantiles[i] > 0 && p->quantiles[i] < 1))
      return accel__fail(ACCEL_ERROR_ARGUMENT, "quantiles[%u] is %g; it must be between 0 and 1", i,
                         p->quantiles[i]);
  return ACCEL_OK;
}

static accel_status complete_drawing(accel__forecast_job *job) {
  const accel__forecasting *f = job->f;
  accel_forecast_params *p = &job->params;
  if (f->kind == ACCEL__FORECAST_TIMESFM && p->frequency >= f->frequencies)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "frequency is %u; it must be below %lld", p->frequency,
                       (long long)f->frequencies);
  if (f->kind != ACCEL__FORECAST_TOKENS) {
    p->samples = 0;
    return ACCEL_OK;
  }
  if (!p->samples) p->samples = (uint32_t)f->tokens.samples;
  if (isnan(p->temperature)) p->temperature = f->tokens.temperature;
  if (isnan(p->top_p)) p->top_p = f->tokens.top_p;
  if (p->top_k < 0) p->top_k = f->tokens.top_k;
  if (p->samples > MAX_SAMPLES)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "samples is %u: at most %d are possible", p->samples,
                       MAX_SAMPLES);
  if (!(p->temperature > 0) || isinf(p->temperature) || !(p->top_p > 0 && p->top_p <= 1))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "temperature is %g, top_p is %g; they must be above 0, top_p at most 1",
                       p->temperature, p->top_p);
  return ACCEL_OK;
}

/* ---- results ---- */

/* *out: room for everything that is asked for, which job points to, too. */
static accel_status make_result(accel__forecast_job *job, accel_forecasts **out) {
  const accel_forecast_params *p = &job->params;
  accel_forecasts *made = accel__task_result(sizeof *made);
  if (!made) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = accel__task_arena(made);
  const size_t values = (size_t)job->n * p->horizon;
  double *levels = accel__arena_array(arena, p->n_quantiles + 1u, sizeof *levels);
  accel_forecast *item = accel__arena_array(arena, job->n, sizeof *item);
  job->mean = accel__arena_array(arena, values, sizeof *job->mean);
  if (p->n_quantiles)
    job->quantiles = accel__arena_array(arena, values, p->n_quantiles * sizeof(float));
  if (p->samples) job->samples = accel__arena_array(arena, values, p->samples * sizeof(float));
  if (!levels || !item || !job->mean || (p->n_quantiles && !job->quantiles) ||
      (p->samples && !job->samples)) {
    accel__task_free(made);
    return ACCEL_ERROR_OUT_OF_MEMORY;
  }
  if (p->n_quantiles) memcpy(levels, p->quantiles, p->n_quantiles * sizeof *levels);
  for (uint32_t i = 0; i < job->n; i++) {
    const size_t first = (size_t)i * p->horizon;
    item[i] = (accel_forecast){
        .mean = job->mean + first,
        .quantiles = job->quantiles ? job->quantiles + first * p->n_quantiles : NULL,
        .samples = job->samples ? job->samples + first * p->samples : NULL};
  }
  *made = (accel_forecasts){.n = job->n,
                            .horizon = p->horizon,
                            .n_quantiles = p->n_quantiles,
                            .n_samples = p->samples,
                            .levels = levels,
                            .item = item};
  *out = made;
  return ACCEL_OK;
}

accel_status accel__forecast(accel_endpoint *ep, const accel_series *series, uint32_t n,
                             const accel_forecast_params *params, accel_forecasts **out) {
  static accel_status (*const kinds[])(accel__forecast_job *) = {
      [ACCEL__FORECAST_TOKENS] = accel__forecast_tokens,
      [ACCEL__FORECAST_BOLT] = accel__forecast_bolt,
      [ACCEL__FORECAST_TIMESFM] = accel__forecast_timesfm,
      [ACCEL__FORECAST_PATCHTST] = accel__forecast_patchtst};
  accel__forecast_job job = {
      .ep = ep, .f = ep->model->forecasting, .series = series, .n = n, .params = *params};
  if (!job.f)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s (%s) forecasts no time series",
                                     ep->name, ep->model->architecture),
                         "Chronos, Chronos-Bolt, TimesFM and PatchTST models do");
  accel_forecasts *made = NULL;
  ACCEL_TRY(check_series(&job));
  ACCEL_TRY(complete_horizon(&job));
  ACCEL_TRY(complete_levels(&job));
  ACCEL_TRY(complete_drawing(&job));
  ACCEL_TRY(make_result(&job, &made));
  const accel_status status = kinds[job.f->kind](&job);
  *out = accel__task_finish(made, status);
  return status;
}
