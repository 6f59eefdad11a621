/* forecast_bolt.c - Chronos-Bolt: contexts are scaled and cut into patches, and quantiles of a
 * horizon that is longer than the model's are made of forecasts on forecasts.  Source:
 * chronos-forecasting's ChronosBoltPipeline. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "tasks/forecast_job.h"
#include "processing/entry_run.h"

static const float LEAST_SCALE = 1e-5f; /* of a context that never changes */

/* A context's mean and spread, as InstanceNorm has them. */
typedef struct scaling {
  float loc, scale;
} scaling;

static scaling scaling_of(const float *row, uint64_t width) {
  double sum = 0, squares = 0;
  uint64_t n = 0;
  for (uint64_t i = 0; i < width; i++) {
    if (isnan(row[i])) continue;
    sum += row[i];
    n++;
  }
  if (!n) return (scaling){0.0f, 1.0f};
  const float loc = (float)(sum / (double)n);
  for (uint64_t i = 0; i < width; i++)
    if (!isnan(row[i])) squares += (double)(row[i] - loc) * (double)(row[i] - loc);
  const float scale = (float)sqrt(squares / (double)n);
  return (scaling){loc, scale == 0 ? LEAST_SCALE : scale};
}

/* One context as patches[count][2 * patch] and mask[count + 1]; missing values are in front of it
 * until it is a whole number of patches. */
static void cut(const accel__forecasting *f, const float *row, uint64_t width, scaling by,
                uint64_t count, float *patches, int32_t *mask) {
  const uint64_t patch = (uint64_t)f->patch, stride = (uint64_t)f->stride,
                 front = (patch - width % patch) % patch;
  for (uint64_t k = 0; k < count; k++, patches += 2 * patch) {
    mask[k] = 0;
    for (uint64_t i = 0; i < patch; i++) {
      const uint64_t at = k * stride + i;
      const float value = at < front ? NAN : row[at - front];
      patches[i] = isnan(value) ? 0.0f : (value - by.loc) / by.scale;
      patches[patch + i] = isnan(value) ? 0.0f : 1.0f;
      if (!isnan(value)) mask[k] = 1;
    }
  }
  mask[count] = 1; /* the REG token's row, where there is one */
}

/* Quantiles [rows, n_quantiles, horizon of the model] of contexts [rows, width], at most
 * ACCEL__FORECAST_ROWS of them. */
static accel_status run_rows(accel__forecast_job *job, const float *context, uint64_t rows,
                             uint64_t width, float *out) {
  const accel__forecasting *f = job->f;
  const uint64_t patch = (uint64_t)f->patch, padded = (width + patch - 1) / patch * patch,
                 count = (padded - patch) / (uint64_t)f->stride + 1,
                 masks = count + (f->reg_token ? 1 : 0),
                 each = f->n_quantiles * (uint64_t)f->horizon;
  float *patches = malloc(rows * count * 2 * patch * sizeof *patches);
  int32_t *mask = malloc((rows * masks + 1) * sizeof *mask);
  scaling *by = malloc(rows * sizeof *by);
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  if (!patches || !mask || !by)
    ACCEL_GOTO(accel__no_memory(rows * count * 2 * patch * sizeof *patches));
  for (uint64_t r = 0; r < rows; r++) {
    const float *row = context + r * width;
    by[r] = scaling_of(row, width);
    cut(f, row, width, by[r], count, patches + r * count * 2 * patch, mask + r * masks);
  }
  accel__batch batch = {0};
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  batch.item[accel__entry_input(e, "patches")] = (accel__item){
      .data = patches, .rank = 3, .dim = {(int64_t)rows, (int64_t)count, (int64_t)(2 * patch)}};
  batch.item[accel__entry_input(e, "patch_mask")] =
      (accel__item){.data = mask, .rank = 2, .dim = {(int64_t)rows, (int64_t)masks}};
  ACCEL_GOTO(accel__entry_run(job->ep, "forward", "quantile_preds", &batch, &found));
  for (uint64_t i = 0; i < rows * each; i++)
    out[i] = ((const float *)found.data)[i] * by[i / each].scale + by[i / each].loc;
done:
  free(found.data);
  free(by);
  free(mask);
  free(patches);
  return status;
}

static accel_status predict(accel__forecast_job *job, const float *context, uint64_t rows,
                            uint64_t width, float *out) {
  const uint64_t each = job->f->n_quantiles * (uint64_t)job->f->horizon;
  for (uint64_t r = 0; r < rows; r += ACCEL__FORECAST_ROWS) {
    const uint64_t n = rows - r < ACCEL__FORECAST_ROWS ? rows - r : ACCEL__FORECAST_ROWS;
    ACCEL_TRY(run_rows(job, context + r * width, n, width, out + r * each));
  }
  return ACCEL_OK;
}

/* ---- longer horizons ---- */

/* context [rows, width] followed by one more forecast each, [rows, more]; at most `most` of the
 * latest values: *to, to be freed. */
static accel_status extend(const float *context, uint64_t rows, uint64_t width, const float *next,
                           uint64_t more, uint64_t most, float **to, uint64_t *to_width) {
  const uint64_t whole = width + more, kept = whole < most ? whole : most, cut_off = whole - kept;
  float *made = malloc(rows * kept * sizeof *made);
  *to = made;
  if (!made) return accel__no_memory(rows * kept * sizeof *made);
  for (uint64_t r = 0; r < rows; r++)
    for (uint64_t i = 0; i < kept; i++) {
      const uint64_t at = i + cut_off;
      made[r * kept + i] = at < width ? context[r * width + at] : next[r * more + at - width];
    }
  *to_width = kept;
  return ACCEL_OK;
}

/* The forecasts of Q quantiles of each of Q paths, [Q, Q, horizon], become Q quantiles [Q, horizon]
 * of all of them. */
static void reduce_paths(const accel__forecasting *f, const float *paths, float *sorted,
                         float *out) {
  const uint64_t q = f->n_quantiles, horizon = (uint64_t)f->horizon;
  for (uint64_t t = 0; t < horizon; t++) {
    for (uint64_t i = 0; i < q * q; i++) sorted[i] = paths[i * horizon + t];
    accel__sort_floats(sorted, q * q);
    for (uint64_t k = 0; k < q; k++)
      out[k * horizon + t] = accel__quantile(sorted, q * q, f->quantiles[k]);
  }
}

/* The answer for a series in the model's own levels, block after block of its horizon. */
static void keep_block(const accel__forecast_job *job, const float *block, uint64_t first,
                       float *all) {
  const uint64_t q = job->f->n_quantiles, horizon = (uint64_t)job->f->horizon,
                 wanted = job->params.horizon;
  for (uint64_t i = 0; i < job->n; i++)
    for (uint64_t t = 0; t < horizon && first + t < wanted; t++)
      for (uint64_t k = 0; k < q; k++)
        all[(i * wanted + first + t) * q + k] = block[(i * q + k) * horizon + t];
}

/* Blocks behind the first: each quantile's path goes on by itself. */
static accel_status go_on(accel__forecast_job *job, const float *context, uint64_t width,
                          float *block, float *all) {
  const accel__forecasting *f = job->f;
  const uint64_t q = f->n_quantiles, horizon = (uint64_t)f->horizon, rows = job->n * q;
  accel_status status = ACCEL_OK;
  float *paths = malloc(rows * width * sizeof *paths), *next = NULL;
  float *found = malloc(rows * q * horizon * sizeof *found),
        *sorted = malloc(q * q * sizeof *sorted);
  if (!paths || !found || !sorted) ACCEL_GOTO(accel__no_memory(rows * q * horizon * sizeof *found));
  for (uint64_t r = 0; r < rows; r++)
    memcpy(paths + r * width, context + r / q * width, width * sizeof *paths);
  for (uint64_t first = horizon; first < job->params.horizon; first += horizon) {
    ACCEL_GOTO(extend(paths, rows, width, block, horizon, (uint64_t)f->context, &next, &width));
    free(paths);
    paths = next;
    ACCEL_GOTO(predict(job, paths, rows, width, found));
    for (uint64_t i = 0; i < job->n; i++)
      reduce_paths(f, found + i * q * q * horizon, sorted, block + i * q * horizon);
    keep_block(job, block, first, all);
  }
done:
  free(sorted);
  free(found);
  free(paths);
  return status;
}

/* ---- levels ---- */

static int32_t level_of(const accel__forecasting *f, double level) {
  for (uint32_t k = 0; k < f->n_quantiles; k++)
    if (f->quantiles[k] == level) return (int32_t)k;
  return -1;
}

/* own [n_quantiles] at one value: the asked levels, between the model's where it has not got all. */
static void take_levels(const accel__forecast_job *job, const float *own, bool has_all,
                        float *around, float *out) {
  const accel__forecasting *f = job->f;
  const uint64_t q = f->n_quantiles;
  memcpy(around + 1, own, q * sizeof *own);
  around[0] = own[0];
  around[q + 1] = own[q - 1];
  if (!has_all) accel__sort_floats(around, q + 2);
  for (uint32_t k = 0; k < job->params.n_quantiles; k++) {
    const double level = job->params.quantiles[k];
    out[k] = has_all ? own[level_of(f, level)] : accel__quantile(around, q + 2, level);
  }
}

static accel_status answer(accel__forecast_job *job, const float *all) {
  const accel__forecasting *f = job->f;
  const uint64_t q = f->n_quantiles, values = (uint64_t)job->n * job->params.horizon;
  const int32_t middle = level_of(f, 0.5);
  bool has_all = true;
  if (middle < 0)
    return accel__fail(ACCEL_ERROR_UNSUPPORTED,
                       "%s: the model's quantiles have no 0.5, which is the mean of its forecast",
                       job->ep->name);
  for (uint32_t k = 0; k < job->params.n_quantiles; k++)
    has_all = has_all && level_of(f, job->params.quantiles[k]) >= 0;
  float *around = malloc((q + 2) * sizeof *around);
  if (!around) return accel__no_memory((q + 2) * sizeof *around);
  for (uint64_t i = 0; i < values; i++) {
    job->mean[i] = all[i * q + (uint64_t)middle];
    if (job->quantiles)
      take_levels(job, all + i * q, has_all, around, job->quantiles + i * job->params.n_quantiles);
  }
  free(around);
  return ACCEL_OK;
}

accel_status accel__forecast_bolt(accel__forecast_job *job) {
  const accel__forecasting *f = job->f;
  const uint64_t width = accel__series_width(job, (uint64_t)f->context), q = f->n_quantiles,
                 horizon = (uint64_t)f->horizon;
  const size_t size = (size_t)job->n * job->params.horizon * q;
  float *context = malloc(job->n * width * sizeof *context),
        *block = malloc(job->n * q * horizon * sizeof *block), *all = malloc(size * sizeof *all);
  accel_status status = ACCEL_OK;
  if (!context || !block || !all) ACCEL_GOTO(accel__no_memory(size * sizeof *all));
  for (uint32_t i = 0; i < job->n; i++)
    accel__series_row(&job->series[i], width, context + i * width);
  ACCEL_GOTO(predict(job, context, job->n, width, block));
  keep_block(job, block, 0, all);
  if (job->params.horizon > horizon) ACCEL_GOTO(go_on(job, context, width, block, all));
  status = answer(job, all);
done:
  free(all);
  free(block);
  free(context);
  return status;
}
