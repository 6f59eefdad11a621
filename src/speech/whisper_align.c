/* whisper_align.c - attention to frames into times of tokens. */
#include "speech/whisper_align.h"
#include "models/model_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FRAME = 0.02; /* seconds of one of the encoder's, fixed in transformers, too */

/* ---- median ---- */

static bool above(float a, float b) { return isnan(a) ? !isnan(b) : a > b; }

void accel__median_filter(const float *x, int64_t n, int64_t width, float *work, float *out) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < n; i++) {
    if (n <= half) {
      out[i] = x[i];
      continue;
    }
    for (int64_t k = 0; k < width; k++) { /* sorted by insertion: filters are narrow */
      int64_t from = i - half + k, at = k;
      if (from < 0) from = -from;
      if (from >= n) from = 2 * (n - 1) - from;
      for (; at > 0 && above(work[at - 1], x[from]); at--) work[at] = work[at - 1];
      work[at] = x[from];
    }
    out[i] = work[half];
  }
}

/* ---- the way ---- */

enum { BOTH, ROW, COLUMN }; /* the step that leads to a cell */

/* Costs of the ways to column j of each row, from those to column j - 1, and the last step of
 * each. */
static void next_column(const double *cost, int64_t rows, int64_t columns, int64_t j,
                        const float *before, float *now, uint8_t *step) {
  now[0] = INFINITY;
  for (int64_t i = 1; i <= rows; i++) {
    const float both = before[i - 1], row = now[i - 1], column = before[i];
    const int way = both < row && both < column ? BOTH : row < both && row < column ? ROW : COLUMN;
    now[i] = (float)(cost[(i - 1) * columns + j - 1] + (double)(way == BOTH  ? both
                                                                : way == ROW ? row
                                                                             : column));
    step[i * (columns + 1) + j] = (uint8_t)way;
  }
}

accel_status accel__time_warp(const double *cost, int64_t rows, int64_t columns, int32_t *first) {
  const size_t cells = (size_t)(rows + 1) * (size_t)(columns + 1), height = (size_t)rows + 1;
  uint8_t *step = malloc(cells);
  float *before = malloc(2 * height * sizeof *before), *now = before + height;
  if (!step || !before) {
    free(step);
    free(before);
    return accel__no_memory(cells + 2 * height * sizeof *before);
  }
  for (int64_t i = 0; i <= rows; i++) before[i] = i ? INFINITY : 0.0f;
  for (int64_t j = 1; j <= columns; j++) {
    next_column(cost, rows, columns, j, before, now, step);
    float *swap = before;
    before = now;
    now = swap;
  }
  for (int64_t i = rows, j = columns; i > 0;) {
    const int way = j > 0 ? step[i * (columns + 1) + j] : ROW;
    first[i - 1] = (int32_t)(j - 1);
    i -= way != COLUMN;
    j -= way != ROW;
  }
  free(step);
  free(before < now ? before : now);
  return ACCEL_OK;
}

/* ---- attention ---- */

/* Adds one head's attention of n tokens (rows of `frames`) to the first `columns` frames:
 * normalised over the tokens, smoothed, times weight. */
static void add_head(const float *attention, int64_t frames, int64_t n, int64_t columns,
                     int64_t width, float *work, float *sum) {
  float *mean = work, *deviation = mean + columns, *row = deviation + columns,
        *smooth = row + columns, *window = smooth + columns;
  for (int64_t j = 0; j < columns; j++) {
    double all = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) all += (double)attention[i * frames + j];
    all /= (double)n;
    for (int64_t i = 0; i < n; i++) {
      const double d = (double)attention[i * frames + j] - all;
      squares += d * d;
    }
    mean[j] = (float)all;
    deviation[j] = (float)sqrt(squares / (double)n);
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < columns; j++)
      row[j] = (attention[i * frames + j] - mean[j]) / deviation[j];
    accel__median_filter(row, columns, width, window, smooth);
    for (int64_t j = 0; j < columns; j++) sum[i * columns + j] += smooth[j];
  }
}

/* The frames that count, of `frames`: a Python slice ends `count` before the end where that is
 * negative. */
static int64_t sliced(int64_t frames, int64_t count) {
  if (count < 0) return frames + count > 0 ? frames + count : 0;
  return count < frames ? count : frames;
}

/* found[k]: output k of entry "align", of `skip + n` rows. */
static accel_status read_times(const accel__alignment *a, const accel__result *found, uint32_t skip,
                               uint32_t n, int64_t heard, float *seconds) {
  const int64_t frames = found[0].dim[2], rows = found[0].dim[1],
                half = heard >= 0 ? heard / 2 : (heard - 1) / 2;
  int64_t columns = frames;
  /* as transformers does */
  for (int twice = 0; twice < 2 && heard != INT64_MAX; twice++) columns = sliced(columns, half);
  const size_t size = (size_t)n * (size_t)columns;
  float *sum = calloc(size + 1, sizeof *sum),
        *work = malloc((4 * (size_t)columns + (size_t)a->median_width) * sizeof *work);
  double *cost = malloc((size + 1) * sizeof *cost);
  int32_t *first = malloc(n * sizeof *first);
  accel_status status =
      sum && work && cost && first ? ACCEL_OK : accel__no_memory(size * sizeof *cost);
  for (uint32_t k = 0; k < a->n && status == ACCEL_OK; k++) {
    const float *head =
        (const float *)found[a->head[k].output].data + (a->head[k].row * rows + skip) * frames;
    add_head(head, frames, n, columns, a->median_width, work, sum);
  }
  for (size_t i = 0; i < size && status == ACCEL_OK; i++) cost[i] = -(double)(sum[i] / (float)a->n);
  if (status == ACCEL_OK) status = accel__time_warp(cost, n, columns, first);
  for (uint32_t i = 0; i <= n && status == ACCEL_OK; i++)
    seconds[i] = (float)(first[i < n ? i : n - 1] * FRAME);
  free(sum);
  free(work);
  free(cost);
  free(first);
  return status;
}

accel_status accel__align_check(const accel_endpoint *ep) {
  const accel__alignment *a = ep->model->alignment;
  if (!a) return accel__fail(ACCEL_ERROR_INTERNAL, "%s: has no cross attention to align", ep->name);
  if (!a->n)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED,
                                     "%s; without it there are no timestamps of words", a->missing),
                         "put alignment_heads into generation_config.json: the pairs [layer, head] "
                         "that the model's publisher gives for it "
                         "(openai/whisper-* have them), or ask for timestamps of segments");
  if (a->median_width % 2 == 0)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: median_filter_width is %lld; it must be odd",
                       ep->config.name, (long long)a->median_width);
  return ACCEL_OK;
}

/* The decoder once more over all tokens: attention as it was while they came one by one. */
static accel_status run(accel__model_stepper *stepper, int32_t base, const accel__step_item *item,
                        uint32_t n_outputs, accel__result *found) {
  const accel__stepper *model = &stepper->stepper;
  const uint32_t entry = (uint32_t)accel__endpoint_entry(stepper->session->ep, "align");
  uint32_t *outputs = malloc(n_outputs * sizeof *outputs);
  if (!outputs) return accel__no_memory(n_outputs * sizeof *outputs);
  for (uint32_t i = 0; i < n_outputs; i++) outputs[i] = i;
  accel_status status = model->copy(model->self, base, item->sequence);
  if (status == ACCEL_OK)
    status = accel__model_stepper_run(stepper, entry, item, 1, outputs, n_outputs, found);
  free(outputs);
  return status;
}

accel_status accel__align(accel__model_stepper *stepper, int32_t base, const int32_t *ids,
                          uint32_t n_prompt, uint32_t n, int64_t heard,
                          const accel_plugin_adapter_use *adapter, float *seconds) {
  const accel__model *m = stepper->session->ep->model;
  const uint32_t n_outputs = accel__model_entry_of(m, "align")->n_outputs;
  const accel__stepper *model = &stepper->stepper;
  memset(seconds, 0, ((size_t)n + 1) * sizeof *seconds);
  if (!n) return ACCEL_OK; /* one token alone: nothing was read after the prompt */
  accel__step_item item = {
      .sequence = model->number(model->self), .ids = ids, .n = n_prompt + n, .adapter = *adapter};
  accel__result *found = calloc(n_outputs, sizeof *found);
  accel_status status =
      item.sequence >= 0 && found ? ACCEL_OK : accel__no_memory(n_outputs * sizeof *found);
  if (status == ACCEL_OK) status = run(stepper, base, &item, n_outputs, found);
  if (status == ACCEL_OK) status = read_times(m->alignment, found, n_prompt, n, heard, seconds);
  for (uint32_t i = 0; found && i < n_outputs; i++) free(found[i].data);
  free(found);
  if (item.sequence >= 0) model->drop(model->self, item.sequence);
  return status;
}
