/* sounds.c - transformers' pipeline audio-classification. */
#include <stdlib.h>
#include <string.h>

#include "speech/sounds.h"
#include "dispatch/pack.h"
#include "processing/item_run.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

/* The sounds of a call. */
typedef struct sounds {
  const accel_media *media;
  const accel_classify_params *params;
  const accel__model *model;
  accel__audio_processor processor;
  accel__score_function function;
  accel__arena *arena; /* of the result */
  uint32_t *count;
  const accel_label_score **score;
} sounds;

static accel_status run_sound(void *user, accel_endpoint *ep, uint32_t i, void **found) {
  static const char *const names[] = {"logits"};
  const sounds *s = user;
  accel__sound sound;
  accel_tensors *in = NULL, *out = NULL;
  ACCEL_TRY(accel__media_sound(&s->media[i], s->processor.rate, s->params->max_seconds, &sound));
  accel_status status = accel__sound_tensors(&s->processor, &sound, 1, NULL, ep->ctx->pool, &in);
  accel__sound_free(&sound);
  if (status == ACCEL_OK) status = accel__run_padded(ep, in, names, 1, &out);
  accel__tensors_free(&in);
  *found = out;
  return status;
}

static accel_status take_scores(void *user, uint32_t i, void *found) {
  sounds *s = user;
  accel_tensors *out = found;
  s->count[i] = s->params->top_k;
  const accel_status status =
      accel__rank_labels(out->item[0].data, s->model->labels, (uint32_t)s->model->num_labels,
                         s->function, s->arena, &s->score[i], &s->count[i]);
  accel__tensors_free(&out);
  return status;
}

/* Softmax unless the config's problem_type or the caller says otherwise, for one label, too: unlike
 * texts and pictures. */
static accel_status function_of(const accel__model *model, const char *name,
                                accel__score_function *out) {
  ACCEL_TRY(accel__choose_function(model, name, out));
  const char *problem = model->problem_type;
  if (!name && *out == ACCEL__SCORE_SIGMOID &&
      !(problem && !strcmp(problem, "multi_label_classification")))
    *out = ACCEL__SCORE_SOFTMAX;
  return ACCEL_OK;
}

accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *media, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out) {
  accel_classifications *result = accel__task_result(sizeof *result);
  sounds s = {.media = media, .params = params, .model = ep->model};
  const char *directory = NULL;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  s.arena = accel__task_arena(result);
  s.count = accel__arena_array(s.arena, n, sizeof *s.count);
  s.score = accel__arena_array(s.arena, n, sizeof *s.score);
  accel_status status = s.count && s.score ? accel__task_check(ep, "audio-classification")
                                           : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel__media_directory(ep, &directory);
  if (status == ACCEL_OK) status = accel__audio_processor_load(directory, &s.processor);
  if (status == ACCEL_OK) status = function_of(ep->model, params->function, &s.function);
  if (status == ACCEL_OK)
    status = accel__run_items(
        ep, &(accel__item_run){.n = n, .run = run_sound, .take = take_scores, .user = &s});
  accel__audio_processor_free(&s.processor);
  *result = (accel_classifications){.n = n, .count = s.count, .score = s.score};
  *out = accel__task_finish(result, status);
  return status;
}
