/* speech_generate.c - sounds through models that generate their text from the samples of a whole sound
 * (Moonshine): one request a sound. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "generate/generation.h"
#include "models/model_build.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/result.h"
#include "speech/speech.h"

enum { TOGETHER = 8 };

/* Tokens of a second of speech, at most: a text that goes on beyond repeats itself (the models'
 * card has this number). */
static const double TOKENS_PER_SECOND = 6.5;

typedef struct hearing {
  accel__speech *s;
  const accel_generate_params *how;
  uint32_t first; /* window of the first request */
  accel_tensors *values[TOGETHER];
} hearing;

bool accel__hears_whole(const accel_endpoint *ep) {
  const accel__model_entry *e = accel__model_entry_of(ep->model, "encode");
  return e && accel__entry_input(e, "input_values") >= 0;
}

static accel_status make_request(void *user, const accel__generate_plan *plan, uint32_t number,
                                 int64_t context, accel__request *out) {
  hearing *h = user;
  const accel__speech *s = h->s;
  const accel_tensor *values = accel__find_tensor(h->values[number], "input_values");
  if (!values)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: the feature extractor gives no samples",
                       s->ep->name);
  const accel__encoder_input encoder = {.tensor = values, .n_tensors = 1};
  ACCEL_TRY(accel__generate_encoded(s->ep, plan, h->how, &encoder, (accel__ids){0},
                                    h->first + number, context, out));
  const double seconds = (double)s->window[h->first + number].n / s->processor.rate,
               most = seconds * TOKENS_PER_SECOND - 1; /* the start token counts */
  const uint32_t limit = most < 1 ? 1 : (uint32_t)most;
  if (!plan->asked_length && limit < out->options.new_tokens) out->options.new_tokens = limit;
  return ACCEL_OK;
}

static accel_status take(accel__speech *s, const accel_generations *found) {
  for (uint32_t i = 0; i < found->n; i++) {
    const accel_generation *g = &found->item[i];
    const uint32_t sound = s->window[g->prompt].sound;
    int32_t *ids = accel__arena_array(s->arena, g->n, sizeof *ids);
    s->text[sound] = accel__arena_string(s->arena, g->text);
    if (!ids || !s->text[sound]) return ACCEL_ERROR_OUT_OF_MEMORY;
    if (g->n) memcpy(ids, g->ids, g->n * sizeof *ids);
    s->ids[sound] = ids;
    s->n_ids[sound] = g->n;
  }
  return ACCEL_OK;
}

static accel_status run(accel__speech *s, const accel__generate_plan *plan,
                        const accel_generate_params *how, uint32_t first, uint32_t n) {
  hearing h = {.s = s, .how = how, .first = first};
  accel_generations *found = NULL;
  accel_status status = ACCEL_OK;
  for (uint32_t i = 0; i < n && status == ACCEL_OK; i++)
    status = accel__window_tensors(s, &s->window[first + i], NULL, &h.values[i]);
  if (status == ACCEL_OK)
    status = accel__generate_with(s->ep, plan, how, n, make_request, &h, &found);
  if (status == ACCEL_OK) status = take(s, found);
  accel__task_free(found);
  for (uint32_t i = 0; i < n; i++) accel__tensors_free(&h.values[i]);
  return status;
}

/* What only Whisper knows. */
static accel_status check(const accel__speech *s, const accel_generate_params *how) {
  const accel_transcribe_params *p = s->params;
  const char *what = p->language                     ? "language"
                     : p->task                       ? "task"
                     : p->prompt                     ? "prompt"
                     : p->timestamps                 ? "timestamps"
                     : p->n_temperature              ? "temperatures to fall back to"
                     : p->chunk_length > 0           ? "windows of a sound"
                     : how->grammar_kind             ? "grammars"
                     : how->num_return_sequences > 1 ? "several sequences"
                                                     : NULL;
  if (!what) return ACCEL_OK;
  return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: a %s knows no %s", s->ep->name,
                     s->ep->model->architecture, what);
}

accel_status accel__speech_by_generation(accel__speech *s) {
  const accel_generate_params none = accel__generate_defaults(),
                              *how = s->params->generate ? s->params->generate : &none;
  accel__generate_plan plan = {0};
  ACCEL_TRY(check(s, how));
  ACCEL_TRY(accel__processor_check(s->ep, "automatic-speech-recognition"));
  accel_status status = accel__generate_plan_make(s->ep, how, &plan);
  const uint32_t size = accel__processor_for(s->ep)->batch_size,
                 together = size && size < TOGETHER ? size : TOGETHER;
  for (uint32_t i = 0; i < s->n_windows && status == ACCEL_OK; i += together) {
    const uint32_t left = s->n_windows - i;
    status = run(s, &plan, how, i, left < together ? left : together);
    accel__report_progress(s->ep->ctx, "transcribing", i + (left < together ? left : together),
                           s->n_windows);
  }
  accel__generate_plan_free(&plan);
  return status;
}
