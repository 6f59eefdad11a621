/* forecast_tokens.c - Chronos: values become tokens of a T5 by their size against the mean, paths of
 * tokens are drawn as torch.multinomial draws them, and become values again.  Source:
 * chronos-forecasting's ChronosPipeline and MeanScaleUniformBins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/randn.h"
#include "generate/logits.h"
#include "generate/model_stepper.h"
#include "models/model_build.h"
#include "tasks/forecast_job.h"

enum { STEP_ROWS = 256 }; /* paths in one step, at most */

/* One call: the contexts, which grow by what is forecast, and the paths of the block at hand. */
typedef struct paths {
  accel__forecast_job *job;
  accel__session *session;
  accel__model_stepper model;
  accel__generator generator;
  accel__logits_scratch scratch;
  accel__generate_config narrow; /* temperature, top-k, top-p */
  float *center;                 /* [n_centers] values of tokens, scaled */
  uint64_t n_centers;
  float *context; /* [n, width] */
  uint64_t width;
  float *scale;           /* [n] */
  uint32_t samples;       /* of each series */
  uint64_t rows;          /* n * samples */
  int32_t *number;        /* [rows] sequences; -1 none */
  int32_t *token;         /* [rows] the last one */
  accel__step_item *item; /* [rows], in order */
} paths;

/* ---- values and tokens ---- */

/* torch.linspace(low, high, n) in fp32, from both ends, as processors with FMA compute it. */
static void set_centers(paths *p) {
  const accel__forecasting *f = p->job->f;
  const float low = (float)f->tokens.low, high = (float)f->tokens.high,
              step = (high - low) / (float)(p->n_centers - 1);
  for (uint64_t i = 0; i < p->n_centers; i++)
    p->center[i] = i < p->n_centers / 2 ? fmaf(step, (float)i, low)
                                        : fmaf(-step, (float)(p->n_centers - 1 - i), high);
}

/* The mean of absolute values, 1 where that is not above 0. */
static float scale_of(const float *row, uint64_t n) {
  double sum = 0;
  uint64_t seen = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (isnan(row[i])) continue;
    sum += fabsf(row[i]);
    seen++;
  }
  const float scale = seen ? (float)(sum / (double)seen) : 0;
  return scale > 0 ? scale : 1;
}

/* The bin that a scaled value falls in: 1 for those below the first boundary between centers. */
static int32_t token_of(const paths *p, float value) {
  const accel__forecasting *f = p->job->f;
  uint64_t low = 0, high = p->n_centers - 1; /* boundaries between centers that are not above it */
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if ((p->center[middle + 1] + p->center[middle]) / 2 <= value)
      low = middle + 1;
    else
      high = middle;
  }
  const int64_t token = (int64_t)low + 1 + f->tokens.special;
  return (int32_t)(token < f->tokens.n ? token : f->tokens.n - 1);
}

static float value_of(const paths *p, int32_t token) {
  const int64_t at = token - p->job->f->tokens.special - 1, last = (int64_t)p->n_centers - 1;
  return p->center[at < 0 ? 0 : at > last ? last : at];
}

/* ---- the encoder ---- */

/* What was observed of series i as tokens with their places; how many there are. */
static uint64_t encode_series(paths *p, uint32_t i, int32_t *ids, int32_t *places) {
  const accel__forecasting *f = p->job->f;
  const uint64_t most = (uint64_t)f->context, n = p->width < most ? p->width : most;
  const float *row = p->context + i * p->width + (p->width - n);
  uint64_t count = 0;
  p->scale[i] = scale_of(row, n);
  for (uint64_t t = 0; t < n; t++) {
    if (isnan(row[t])) continue;
    ids[count] = token_of(p, row[t] / p->scale[i]);
    places[count++] = (int32_t)t;
  }
  if (f->tokens.use_eos) {
    ids[count] = (int32_t)f->tokens.eos;
    places[count++] = (int32_t)n;
  }
  return count;
}

/* Runs the encoder for series i into the first of its sequences, of which the others are copies. */
static accel_status start_series(paths *p, uint32_t i, int32_t *ids, int32_t *places) {
  accel_endpoint *ep = p->job->ep;
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  const int32_t n = (int32_t)encode_series(p, i, ids, places), *number = p->number + i * p->samples;
  const accel__stepper *s = &p->model.stepper;
  const uint32_t first = 0;
  accel__result found = {0};
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "series %u: no value is there", i);
  accel__batch batch = {.n = 1, .lengths = &n, .tokens = (uint64_t)n, .sequence = number};
  batch.value[accel__entry_input(e, "input_ids")] = ids;
  batch.value[accel__entry_input(e, "position_ids")] = places;
  accel_status status = accel__session_run(
      p->session, (uint32_t)accel__endpoint_entry(ep, "encode"), &batch, &first, 1, &found);
  free(found.data);
  for (uint32_t k = 1; k < p->samples && status == ACCEL_OK; k++)
    status = s->copy(s->self, number[0], number[k]);
  return status;
}

static accel_status start(paths *p) {
  const uint64_t room = (uint64_t)p->job->f->context + 1;
  int32_t *ids = malloc(2 * room * sizeof *ids);
  if (!ids) return accel__no_memory(2 * room * sizeof *ids);
  accel_status status = ACCEL_OK;
  for (uint64_t r = 0; r < p->rows && status == ACCEL_OK; r++) {
    p->token[r] = (int32_t)p->job->ep->model->decoder_start_id;
    p->number[r] = p->model.stepper.number(p->model.stepper.self);
    if (p->number[r] < 0) status = accel__no_memory(0);
  }
  for (uint32_t i = 0; i < p->job->n && status == ACCEL_OK; i++)
    status = start_series(p, i, ids, ids + room);
  free(ids);
  return status;
}

static void forget(paths *p) {
  for (uint64_t r = 0; r < p->rows; r++) {
    if (p->number[r] >= 0) p->model.stepper.drop(p->model.stepper.self, p->number[r]);
    p->number[r] = -1;
  }
}

/* ---- drawing ---- */

/* torch.multinomial(softmax(scores), 1): the largest of probabilities divided by exponential
 * numbers, one for each token whether it may come or not. */
static int32_t draw(paths *p, const float *scores, size_t vocab) {
  float most = -INFINITY, best = -1;
  double sum = 0;
  int32_t chosen = 0;
  for (size_t k = 0; k < vocab; k++) most = scores[k] > most ? scores[k] : most;
  for (size_t k = 0; k < vocab; k++) sum += expf(scores[k] - most);
  for (size_t k = 0; k < vocab; k++) {
    if (!(scores[k] > -INFINITY)) {
      accel__exponential_skip(&p->generator);
      continue;
    }
    const float probability = expf(scores[k] - most) / (float)sum,
                share = probability / accel__exponential(&p->generator);
    if (share > best) best = share, chosen = (int32_t)k;
  }
  return chosen;
}

/* One more token of rows first .. first + n. */
static accel_status step_rows(paths *p, uint64_t first, uint32_t n, uint32_t past) {
  const accel__stepper *s = &p->model.stepper;
  accel__step_item *item = p->item;
  for (uint32_t r = 0; r < n; r++)
    item[r] = (accel__step_item){
        .sequence = p->number[first + r], .ids = &p->token[first + r], .n = 1, .past_len = past};
  ACCEL_TRY(s->step(s->self, item, n));
  for (uint32_t r = 0; r < n; r++) {
    item[r].scores[p->job->f->tokens.eos] = -INFINITY; /* the horizon is not reached */
    ACCEL_TRY(accel__logits_warpers(&p->narrow, &p->scratch, item[r].scores, s->vocab));
  }
  for (uint32_t r = 0; r < n; r++) p->token[first + r] = draw(p, item[r].scores, s->vocab);
  return ACCEL_OK;
}

/* Values first .. first + steps of all paths, into job->samples. */
static accel_status draw_block(paths *p, uint32_t first, uint32_t steps) {
  const uint32_t horizon = p->job->params.horizon;
  accel_status status = start(p);
  for (uint32_t t = 0; t < steps && status == ACCEL_OK; t++) {
    for (uint64_t r = 0; r < p->rows && status == ACCEL_OK; r += STEP_ROWS)
      status = step_rows(p, r, (uint32_t)(p->rows - r < STEP_ROWS ? p->rows - r : STEP_ROWS), t);
    for (uint64_t r = 0; r < p->rows && status == ACCEL_OK; r++)
      p->job->samples[r * horizon + first + t] =
          value_of(p, p->token[r]) * p->scale[r / p->samples];
  }
  forget(p);
  return status;
}

/* ---- blocks of the horizon ---- */

/* The values at step t of series i's paths, in rising order. */
static void sorted_paths(const paths *p, uint32_t i, uint32_t t, float *out) {
  const uint32_t horizon = p->job->params.horizon;
  for (uint32_t k = 0; k < p->samples; k++)
    out[k] = p->job->samples[((uint64_t)i * p->samples + k) * horizon + t];
  accel__sort_floats(out, p->samples);
}

/* The contexts with the medians of a block behind them. */
static accel_status extend(paths *p, uint32_t first, uint32_t steps, float *sorted) {
  const uint64_t width = p->width + steps;
  float *longer = malloc(p->job->n * width * sizeof *longer);
  if (!longer) return accel__no_memory(p->job->n * width * sizeof *longer);
  for (uint32_t i = 0; i < p->job->n; i++) {
    float *row = longer + i * width;
    memcpy(row, p->context + i * p->width, p->width * sizeof *row);
    for (uint32_t t = 0; t < steps; t++) {
      sorted_paths(p, i, first + t, sorted);
      row[p->width + t] = sorted[(p->samples - 1) / 2];
    }
  }
  free(p->context);
  p->context = longer;
  p->width = width;
  return ACCEL_OK;
}

static void answer(const paths *p, float *sorted) {
  const accel_forecast_params *asked = &p->job->params;
  for (uint32_t i = 0; i < p->job->n; i++)
    for (uint32_t t = 0; t < asked->horizon; t++) {
      const uint64_t at = (uint64_t)i * asked->horizon + t;
      double sum = 0;
      sorted_paths(p, i, t, sorted);
      for (uint32_t k = 0; k < p->samples; k++) sum += sorted[k];
      p->job->mean[at] = (float)(sum / p->samples);
      for (uint32_t k = 0; k < asked->n_quantiles; k++)
        p->job->quantiles[at * asked->n_quantiles + k] =
            accel__quantile(sorted, p->samples, asked->quantiles[k]);
    }
}

static accel_status draw_paths(paths *p) {
  const uint32_t horizon = p->job->params.horizon, block = (uint32_t)p->job->f->horizon;
  float *sorted = malloc(p->samples * sizeof *sorted);
  if (!sorted) return accel__no_memory(p->samples * sizeof *sorted);
  accel_status status = ACCEL_OK;
  for (uint32_t first = 0; first < horizon && status == ACCEL_OK; first += block) {
    const uint32_t steps = horizon - first < block ? horizon - first : block;
    status = draw_block(p, first, steps);
    if (status == ACCEL_OK && first + steps < horizon) status = extend(p, first, steps, sorted);
  }
  if (status == ACCEL_OK) answer(p, sorted);
  free(sorted);
  return status;
}

/* ---- the call ---- */

static accel_status open_paths(paths *p) {
  const accel__forecast_job *job = p->job;
  const accel__forecasting *f = job->f;
  p->samples = job->params.samples;
  p->rows = (uint64_t)job->n * p->samples;
  p->n_centers = (uint64_t)(f->tokens.n - f->tokens.special - 1);
  p->width = accel__series_width(job, (uint64_t)f->context);
  p->center = malloc(p->n_centers * sizeof *p->center);
  p->context = malloc(job->n * p->width * sizeof *p->context);
  p->scale = malloc(job->n * sizeof *p->scale);
  p->number = malloc(2 * p->rows * sizeof *p->number);
  p->item = malloc(STEP_ROWS * sizeof *p->item);
  if (!p->center || !p->context || !p->scale || !p->number || !p->item)
    return accel__no_memory(2 * p->rows * sizeof *p->number);
  p->token = p->number + p->rows;
  for (uint64_t r = 0; r < p->rows; r++) p->number[r] = -1;
  set_centers(p);
  for (uint32_t i = 0; i < job->n; i++)
    accel__series_row(&job->series[i], p->width, p->context + i * p->width);
  accel__generator_seed(&p->generator, job->params.seed);
  p->narrow = (accel__generate_config){.do_sample = true,
                                       .temperature = job->params.temperature,
                                       .top_p = job->params.top_p,
                                       .top_k = job->params.top_k,
                                       .typical_p = 1,
                                       .top_h = 1};
  ACCEL_TRY(accel__session_open(job->ep, &p->session));
  ACCEL_TRY(accel__model_stepper_open(p->session, &p->model));
  return accel__logits_reserve(&p->scratch, p->model.stepper.vocab);
}

accel_status accel__forecast_tokens(accel__forecast_job *job) {
  paths p = {.job = job};
  accel_status status = open_paths(&p);
  if (status == ACCEL_OK) status = draw_paths(&p);
  if (p.model.session) accel__model_stepper_close(&p.model);
  accel__session_close(&p.session);
  accel__logits_scratch_free(&p.scratch);
  free(p.item);
  free(p.number);
  free(p.scale);
  free(p.context);
  free(p.center);
  return status;
}
