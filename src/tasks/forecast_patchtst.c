/* forecast_patchtst.c - PatchTST: as many series at once as the model has channels, missing values
 * told by its mask. */
#include <math.h>
#include <stdlib.h>

#include "models/model_build.h"
#include "tasks/forecast_job.h"
#include "processing/entry_run.h"

static accel_status check(const accel__forecast_job *job) {
  const accel__forecasting *f = job->f;
  if (job->n % (uint64_t)f->channels)
    return accel__remedy(accel__fail(ACCEL_ERROR_ARGUMENT,
                                     "%u series: %s forecasts %lld together (num_input_channels)",
                                     job->n, job->ep->name, (long long)f->channels),
                         "give as many series, or a multiple of them");
  for (uint32_t i = 0; i < job->n; i++)
    if (job->series[i].n < (uint64_t)f->context)
      return accel__fail(
          ACCEL_ERROR_ARGUMENT, "series %u has %llu values, and %s reads %lld (context_length)", i,
          (unsigned long long)job->series[i].n, job->ep->name, (long long)f->context);
  return ACCEL_OK;
}

/* Groups of channels first .. first + groups. */
static accel_status run_groups(accel__forecast_job *job, uint32_t first, uint32_t groups) {
  const accel__forecasting *f = job->f;
  const int64_t channels = f->channels, context = f->context;
  const size_t each = (size_t)(channels * context);
  float *values = malloc(groups * each * sizeof *values),
        *seen = malloc(groups * each * sizeof *seen), *row = malloc((size_t)context * sizeof *row);
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  if (!values || !seen || !row) ACCEL_GOTO(accel__no_memory(groups * each * sizeof *values));
  for (uint32_t s = 0; s < groups * (uint32_t)channels; s++) {
    const size_t to = s / (size_t)channels * each + s % (size_t)channels;
    accel__series_row(&job->series[first * (uint32_t)channels + s], (uint64_t)context, row);
    for (int64_t t = 0; t < context; t++) {
      const size_t at = to + (size_t)(t * channels);
      values[at] = isnan(row[t]) ? 0.0f : row[t];
      seen[at] = isnan(row[t]) ? 0.0f : 1.0f;
    }
  }
  accel__batch batch = {0};
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  const accel__item shape = {.rank = 3, .dim = {groups, context, channels}};
  accel__item *in = &batch.item[accel__entry_input(e, "past_values")];
  *in = shape;
  in->data = values;
  in = &batch.item[accel__entry_input(e, "past_observed_mask")];
  *in = shape;
  in->data = seen;
  ACCEL_GOTO(accel__entry_run(job->ep, "forward", "prediction_outputs", &batch, &found));
  for (uint32_t s = 0; s < groups * (uint32_t)channels; s++)
    for (uint32_t t = 0; t < job->params.horizon; t++) {
      const size_t group = s / (size_t)channels, channel = s % (size_t)channels;
      job->mean[(first * (size_t)channels + s) * job->params.horizon + t] =
          ((const float *)
               found.data)[(group * (size_t)f->horizon + t) * (size_t)channels + channel];
    }
done:
  free(found.data);
  free(row);
  free(seen);
  free(values);
  return status;
}

accel_status accel__forecast_patchtst(accel__forecast_job *job) {
  ACCEL_TRY(check(job));
  const uint32_t groups = job->n / (uint32_t)job->f->channels;
  for (uint32_t i = 0; i < groups; i += ACCEL__FORECAST_ROWS)
    ACCEL_TRY(
        run_groups(job, i, groups - i < ACCEL__FORECAST_ROWS ? groups - i : ACCEL__FORECAST_ROWS));
  return ACCEL_OK;
}
