/* forecast_timesfm.c - TimesFM: contexts become scaled patches of a fixed number.  Source:
 * transformers' TimesFmModelForPrediction, without its decomposition into trend and residual. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/model_build.h"
#include "tasks/forecast_job.h"
#include "processing/entry_run.h"

/* What the program is given of one series, and how its answer is scaled back. */
typedef struct context {
  float *patches;     /* [N][2 * patch]: values, then 1 where they are padding */
  int32_t *mask;      /* [N] 0: padding alone */
  int32_t *positions; /* [N] counted from the first patch that is not */
  float mean, deviation;
} context;

/* The latest values with zeros in front: value[N * patch], pad[N * patch]. */
static void place(const accel__forecasting *f, const accel_series *series, float *value,
                  float *pad) {
  const uint64_t width = (uint64_t)f->context, n = series->n < width ? series->n : width;
  accel__series_row(series, width, value);
  for (uint64_t i = 0; i < width; i++) {
    const bool front = i < width - n;
    if (front) value[i] = 0;
    pad[i] = front || fabs((double)value[i] - f->pad_value) < f->tolerance ? 1.0f : 0.0f;
  }
}

/* Mean and deviation of the first patch with at least three values that are no padding; of the last
 * one where there is none. */
static void measure(const accel__forecasting *f, const float *value, const float *pad,
                    context *out) {
  const uint64_t patch = (uint64_t)f->patch, count = (uint64_t)(f->context / f->patch);
  uint64_t at = count - 1, n = 0;
  double sum = 0, squares = 0;
  for (uint64_t k = 0; k < count; k++) {
    double real = 0;
    for (uint64_t i = 0; i < patch; i++) real += 1 - (double)pad[k * patch + i];
    if (real < 3) continue;
    at = k;
    break;
  }
  value += at * patch;
  pad += at * patch;
  for (uint64_t i = 0; i < patch; i++) {
    if (pad[i] != 0) continue;
    sum += value[i];
    n++;
  }
  out->mean = (float)(sum / (double)(n ? n : 1));
  for (uint64_t i = 0; i < patch; i++)
    if (pad[i] == 0) squares += (double)(value[i] - out->mean) * (double)(value[i] - out->mean);
  out->deviation = (float)fmax(sqrt(squares / (double)(n ? n : 1)), f->tolerance);
}

static void prepare(const accel__forecasting *f, const accel_series *series, float *value,
                    float *pad, context *out) {
  const uint64_t patch = (uint64_t)f->patch, count = (uint64_t)(f->context / f->patch);
  uint64_t first = count;
  place(f, series, value, pad);
  measure(f, value, pad, out);
  for (uint64_t k = 0; k < count; k++) {
    float *to = out->patches + k * 2 * patch;
    out->mask[k] = 0;
    for (uint64_t i = 0; i < patch; i++) {
      const bool padding = pad[k * patch + i] != 0;
      to[i] = padding ? 0.0f : (value[k * patch + i] - out->mean) / out->deviation;
      to[patch + i] = pad[k * patch + i];
      if (!padding) out->mask[k] = 1;
    }
    if (out->mask[k] && first == count) first = k;
  }
  for (uint64_t k = 0; k < count; k++)
    out->positions[k] = (int32_t)((k + count - first % count) % count);
}

static void keep(const accel__forecast_job *job, uint32_t series, const context *c,
                 const float *answer) {
  const uint64_t horizon = job->params.horizon, all = job->f->n_quantiles + 1u;
  for (uint64_t t = 0; t < horizon; t++) {
    const uint64_t at = series * horizon + t;
    job->mean[at] = answer[t * all] * c->deviation + c->mean;
    for (uint32_t k = 0; k < job->params.n_quantiles; k++)
      for (uint32_t own = 0; own < job->f->n_quantiles; own++)
        if (job->f->quantiles[own] == job->params.quantiles[k])
          job->quantiles[at * job->params.n_quantiles + k] =
              answer[t * all + own + 1] * c->deviation + c->mean;
  }
}

static accel_status check_levels(const accel__forecast_job *job) {
  for (uint32_t k = 0; k < job->params.n_quantiles; k++) {
    uint32_t own = 0;
    while (own < job->f->n_quantiles && job->f->quantiles[own] != job->params.quantiles[k]) own++;
    if (own == job->f->n_quantiles)
      return accel__fail(ACCEL_ERROR_ARGUMENT,
                         "quantiles[%u] is %g, which is none of the model's %u levels, %g to %g", k,
                         job->params.quantiles[k], own, job->f->quantiles[0],
                         job->f->quantiles[own - 1]);
  }
  return ACCEL_OK;
}

/* Series first .. first + rows. */
static accel_status run_rows(accel__forecast_job *job, uint32_t first, uint32_t rows) {
  const accel__forecasting *f = job->f;
  const int64_t patch = f->patch, count = f->context / patch;
  const size_t each = (size_t)(count * 2 * patch),
               answers = (size_t)f->horizon * (f->n_quantiles + 1u);
  float *patches = malloc(rows * each * sizeof *patches), *room = malloc(each * sizeof *room);
  int32_t *small = malloc((2 * (size_t)count + 1) * rows * sizeof *small), *mask = small,
          *positions = small ? small + rows * (size_t)count : NULL,
          *freq = small ? positions + rows * (size_t)count : NULL;
  context *of = malloc(rows * sizeof *of);
  accel__result found = {0};
  accel_status status = ACCEL_OK;
  if (!patches || !room || !small || !of)
    ACCEL_GOTO(accel__no_memory(rows * each * sizeof *patches));
  for (uint32_t r = 0; r < rows; r++) {
    of[r] = (context){.patches = patches + r * each,
                      .mask = mask + r * (size_t)count,
                      .positions = positions + r * (size_t)count};
    prepare(f, &job->series[first + r], room, room + each / 2, &of[r]);
    freq[r] = (int32_t)job->params.frequency;
  }
  accel__batch batch = {0};
  const accel__model_entry *e = accel__model_entry_of(job->ep->model, "forward");
  batch.item[accel__entry_input(e, "patches")] =
      (accel__item){.data = patches, .rank = 3, .dim = {rows, count, 2 * patch}};
  batch.item[accel__entry_input(e, "patch_mask")] =
      (accel__item){.data = mask, .rank = 2, .dim = {rows, count}};
  batch.item[accel__entry_input(e, "freq")] = (accel__item){.data = freq, .rank = 1, .dim = {rows}};
  if (f->positions)
    batch.item[accel__entry_input(e, "positions")] =
        (accel__item){.data = positions, .rank = 2, .dim = {rows, count}};
  ACCEL_GOTO(accel__entry_run(job->ep, "forward", "full_predictions", &batch, &found));
  for (uint32_t r = 0; r < rows; r++)
    keep(job, first + r, &of[r], (const float *)found.data + r * answers);
done:
  free(found.data);
  free(of);
  free(small);
  free(room);
  free(patches);
  return status;
}

accel_status accel__forecast_timesfm(accel__forecast_job *job) {
  ACCEL_TRY(check_levels(job));
  for (uint32_t i = 0; i < job->n; i += ACCEL__FORECAST_ROWS)
    ACCEL_TRY(
        run_rows(job, i, job->n - i < ACCEL__FORECAST_ROWS ? job->n - i : ACCEL__FORECAST_ROWS));
  return ACCEL_OK;
}
