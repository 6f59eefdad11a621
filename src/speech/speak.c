/* speak.c - see speak.h. */
#include "speech/speak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "processing/entry_run.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "text/tokenizer.h"

/* ---- texts: durations ---- */

/* int32 [rows], the same speaker for all. */
static int32_t *speakers(const accel_text_to_speech_params *params, int64_t rows) {
  int32_t *ids = malloc((size_t)rows * sizeof *ids);
  for (int64_t i = 0; ids && i < rows; i++) ids[i] = params->speaker;
  return ids;
}

typedef struct job {
  accel_endpoint *ep;
  const accel__speaking *model;
  const accel_text_to_speech_params *params;
  const accel__speak_batch *batch;
  accel__generator *g;
  accel__spoken *out;
  int32_t *speaker; /* [rows] */
  accel__result
      prior[3]; /* means, logarithms of variances [rows, width, model->width], durations */
} job;

static accel_status read_texts(job *j) {
  static const char *const names[] = {"prior_means", "prior_log_variances", "log_duration"};
  const accel__model_entry *e = accel__model_entry_of(j->ep->model, "forward");
  const int64_t rows = j->batch->rows, width = j->batch->width;
  const uint64_t n = 2 * (uint64_t)(rows * width);
  accel__batch batch = {0};
  accel__entry_set(&batch, e, "input_ids",
                   (accel__item){.data = j->batch->ids, .rank = 2, .dim = {rows, width}});
  accel__entry_set(&batch, e, "attention_mask",
                   (accel__item){.data = j->batch->mask, .rank = 2, .dim = {rows, width}});
  accel__entry_set(&batch, e, "speaker_id",
                   (accel__item){.data = j->speaker, .rank = 1, .dim = {rows}});
  float *noise = NULL;
  if (j->model->stochastic) {
    if (!(noise = malloc(n * sizeof *noise))) return accel__no_memory(n * sizeof *noise);
    accel__randn(j->g, noise, n);
    for (uint64_t i = 0; i < n; i++) noise[i] *= (float)j->params->noise_scale_duration;
    accel__entry_set(&batch, e, "duration_noise",
                     (accel__item){.data = noise, .rank = 3, .dim = {rows, 2, width}});
  }
  const accel_status status = accel__entry_run_all(j->ep, "forward", names, 3, &batch, j->prior);
  free(noise);
  return status;
}

static accel_status too_long(const job *j, double frames) {
  return accel__remedy(
      accel__fail(ACCEL_ERROR_LIMIT, "%s: a text takes %.0f seconds of speech, more than %g",
                  j->ep->name, frames * (double)j->model->hop / (double)j->model->rate,
                  j->params->max_seconds),
      "speak it sentence by sentence, or allow more: max_seconds");
}

/* Frames of each token, rounded up, and of each row. */
static accel_status count_frames(job *j) {
  accel__spoken *s = j->out;
  const int64_t rows = j->batch->rows, width = j->batch->width;
  const float scale = (float)(1.0 / j->params->speaking_rate), *given = j->batch->durations;
  const double most = j->params->max_seconds * (double)j->model->rate / (double)j->model->hop;
  s->durations = malloc((size_t)(rows * width) * sizeof *s->durations);
  s->row_frames = malloc((size_t)rows * sizeof *s->row_frames);
  if (!s->durations || !s->row_frames) return accel__no_memory((size_t)(rows * width));
  s->log_durations = j->prior[2].data;
  j->prior[2].data = NULL;
  for (int64_t b = 0; b < rows; b++) {
    double sum = 0;
    for (int64_t i = b * width; i < (b + 1) * width; i++) {
      const float mask = j->batch->mask ? j->batch->mask[i] : 1.0f;
      s->durations[i] = given ? given[i] : ceilf(expf(s->log_durations[i]) * mask * scale);
      if (isnan(s->durations[i]))
        return accel__fail(ACCEL_ERROR_NONFINITE, "%s: a duration is not a number", j->ep->name);
      sum += (double)s->durations[i];
    }
    if (sum > most || sum > INT32_MAX) return too_long(j, sum);
    s->row_frames[b] = sum < 1 ? 1 : (int64_t)sum;
    if (s->row_frames[b] > s->frames) s->frames = s->row_frames[b];
  }
  return ACCEL_OK;
}

/* ---- frames ---- */

/* A row's frames, each drawn around what its token says: z [width of a frame, frames]. */
static void draw_row(const job *j, int64_t b, const float *noise, float *z) {
  const int64_t C = j->model->width, S = j->batch->width, F = j->out->frames;
  const float *mean = (const float *)j->prior[0].data + b * S * C,
              *log_variance = (const float *)j->prior[1].data + b * S * C,
              *duration = j->out->durations + b * S, scale = (float)j->params->noise_scale;
  int64_t token = 0;
  double until = S > 0 ? (double)duration[0] : 0;
  for (int64_t f = 0; f < F; f++) {
    while (token < S && (double)f >= until)
      if (++token < S) until += (double)duration[token];
    for (int64_t c = 0; c < C; c++) {
      const float m = token < S ? mean[token * C + c] : 0.0f,
                  v = token < S ? expf(log_variance[token * C + c]) : 1.0f;
      z[c * F + f] = m + noise[f * C + c] * v * scale;
    }
  }
}

static accel_status speak_frames(job *j, bool want_spectrogram) {
  static const char *const names[] = {"waveform", "spectrogram"};
  const accel__model_entry *e = accel__model_entry_of(j->ep->model, "waveform");
  const int64_t rows = j->batch->rows, C = j->model->width, F = j->out->frames;
  const size_t n = (size_t)(rows * C * F);
  float *noise = malloc(n * sizeof *noise), *z = malloc(n * sizeof *z),
        *mask = malloc((size_t)(rows * F) * sizeof *mask);
  accel__result results[2] = {{0}, {0}};
  accel_status status = noise && z && mask ? ACCEL_OK : accel__no_memory(n * sizeof *z);
  if (status == ACCEL_OK) {
    /* torch.randn_like of the transposed means */
    if (F > 1)
      accel__randn_strided(j->g, noise, n);
    else
      accel__randn(j->g, noise, n);
    for (int64_t b = 0; b < rows; b++) {
      draw_row(j, b, noise + b * C * F, z + b * C * F);
      for (int64_t f = 0; f < F; f++) mask[b * F + f] = f < j->out->row_frames[b] ? 1.0f : 0.0f;
    }
    accel__batch batch = {0};
    accel__entry_set(&batch, e, "latents",
                     (accel__item){.data = z, .rank = 3, .dim = {rows, C, F}});
    accel__entry_set(&batch, e, "frame_mask",
                     (accel__item){.data = mask, .rank = 2, .dim = {rows, F}});
    accel__entry_set(&batch, e, "speaker_id",
                     (accel__item){.data = j->speaker, .rank = 1, .dim = {rows}});
    status =
        accel__entry_run_all(j->ep, "waveform", names, want_spectrogram ? 2 : 1, &batch, results);
  }
  j->out->waveform = results[0];
  j->out->spectrogram = results[1];
  if (status == ACCEL_OK) j->out->samples = results[0].dim[1];
  free(noise);
  free(z);
  free(mask);
  return status;
}

accel_status accel__speak(accel_endpoint *ep, const accel_text_to_speech_params *params,
                          const accel__speak_batch *batch, bool want_spectrogram,
                          accel__generator *g, accel__spoken *out) {
  *out = (accel__spoken){0};
  job j = {.ep = ep,
           .model = ep->model->speaking,
           .params = params,
           .batch = batch,
           .g = g,
           .out = out,
           .speaker = speakers(params, batch->rows)};
  accel_status status = j.speaker ? ACCEL_OK : accel__no_memory((size_t)batch->rows);
  if (status == ACCEL_OK) status = read_texts(&j);
  if (status == ACCEL_OK) status = count_frames(&j);
  if (status == ACCEL_OK) status = speak_frames(&j, want_spectrogram);
  for (int k = 0; k < 3; k++) free(j.prior[k].data);
  free(j.speaker);
  if (status != ACCEL_OK) accel__spoken_free(out);
  return status;
}

void accel__spoken_free(accel__spoken *s) {
  free(s->row_frames);
  free(s->log_durations);
  free(s->durations);
  free(s->waveform.data);
  free(s->spectrogram.data);
  *s = (accel__spoken){0};
}

/* ---- the task ---- */

accel_status accel__speak_params(const accel_endpoint *ep, accel_text_to_speech_params *p) {
  enum { USUAL_SECONDS = 3600 };
  const accel__speaking *m = ep->model->speaking;
  if (!m)
    return accel__remedy(accel__fail(ACCEL_ERROR_UNSUPPORTED, "%s: a %s does not speak", ep->name,
                                     ep->model->architecture),
                         "VITS and MMS-TTS models do");
  if (isnan(p->speaking_rate)) p->speaking_rate = m->speaking_rate;
  if (isnan(p->noise_scale)) p->noise_scale = m->noise_scale;
  if (isnan(p->noise_scale_duration)) p->noise_scale_duration = m->noise_scale_duration;
  if (p->max_seconds == 0) p->max_seconds = USUAL_SECONDS;
  if (!(p->speaking_rate > 0) || isinf(p->speaking_rate))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "speaking_rate is %g; it must be above 0",
                       p->speaking_rate);
  if (!(p->noise_scale >= 0 && p->noise_scale_duration >= 0) || isinf(p->noise_scale) ||
      isinf(p->noise_scale_duration))
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "noise_scale is %g, noise_scale_duration %g; they must be at least 0",
                       p->noise_scale, p->noise_scale_duration);
  if (!(p->max_seconds > 0))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "max_seconds is %g; it must be above 0",
                       p->max_seconds);
  if (p->speaker >= 0 && p->speaker >= m->speakers)
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: speaker %d: the model has %lld, from 0 on",
                       ep->name, p->speaker, (long long)m->speakers);
  if (p->speaker < 0) p->speaker = -1;
  return ACCEL_OK;
}

static accel_status speak_text(accel_endpoint *ep, const accel__tokenizer *t, const char *text,
                               uint32_t number, const accel_text_to_speech_params *params,
                               accel__generator *g, accel__arena *arena, accel_waveform *to) {
  const accel__encode_options how = {.phonemes = params->phonemes};
  accel__encoding enc = {0};
  accel__spoken spoken;
  accel_status status = accel__encode(t, text, strlen(text), NULL, 0, &how, &enc);
  const uint32_t n = status == ACCEL_OK ? (uint32_t)enc.n : 0;
  const int32_t *ids = enc.ids;
  if (status == ACCEL_OK && !n)
    status = accel__fail(ACCEL_ERROR_ARGUMENT, "text %u has no character that %s knows", number,
                         ep->name);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    if (ids[i] >= ep->model->vocab_size)
      status = accel__fail(ACCEL_ERROR_ARGUMENT,
                           "text %u: token %d is beyond the model's vocabulary of %lld: a "
                           "character that it does not know",
                           number, ids[i], (long long)ep->model->vocab_size);
  const accel__speak_batch batch = {.rows = 1, .width = n, .ids = ids};
  if (status == ACCEL_OK) status = accel__speak(ep, params, &batch, false, g, &spoken);
  accel__encoding_free(&enc);
  if (status != ACCEL_OK) return status;
  float *samples = accel__arena_array(arena, (size_t)spoken.samples, sizeof *samples);
  if (samples) memcpy(samples, spoken.waveform.data, (size_t)spoken.samples * sizeof *samples);
  *to = (accel_waveform){.samples = samples, .n = (uint64_t)spoken.samples};
  accel__spoken_free(&spoken);
  return samples ? ACCEL_OK : ACCEL_ERROR_OUT_OF_MEMORY;
}

accel_status accel__text_to_speech(accel_endpoint *ep, const char *const *texts, uint32_t n,
                                   const accel_text_to_speech_params *params,
                                   accel_waveforms **out) {
  accel_text_to_speech_params mine = *params;
  accel__tokenizer *tokenizer = NULL;
  accel__generator generator;
  const char *directory;
  ACCEL_TRY(accel__speak_params(ep, &mine));
  ACCEL_TRY(accel__media_directory(ep, &directory));
  accel_waveforms *result = accel__task_result(sizeof *result);
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = accel__task_arena(result);
  accel_waveform *item = accel__arena_array(arena, n, sizeof *item);
  accel_status status =
      item ? accel__characters_load(directory, &tokenizer) : ACCEL_ERROR_OUT_OF_MEMORY;
  accel__generator_seed(&generator, mine.seed);
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++) {
    status = speak_text(ep, tokenizer, texts[i], i, &mine, &generator, arena, &item[i]);
    if (status == ACCEL_OK) accel__report_progress(ep->ctx, "speaking", i + 1, n);
  }
  accel__tokenizer_free(&tokenizer);
  *result = (accel_waveforms){.n = n, .rate = (uint32_t)ep->model->speaking->rate, .item = item};
  *out = accel__task_finish(result, status);
  return status;
}
