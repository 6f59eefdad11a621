/* sounds.c - transformers' pipelines audio-classification and zero-shot-audio-classification. */
#include <stdlib.h>
#include <string.h>

#include "speech/sounds.h"
#include "dispatch/pack.h"
#include "processing/item_run.h"
#include "processing/label_texts.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

/* The sounds of a call. */
typedef struct sounds {
  const accel_media *media;
  double max_seconds;
  const char *output; /* logits of the labels, sound by sound */
  const char *const *label;
  uint32_t n_labels, top_k;   /* 0: all */
  const accel_tensors *texts; /* labels that the model reads beside each sound; NULL: none */
  accel__audio_processor processor;
  accel__score_function function;
  accel__arena *arena; /* of the result */
  uint32_t *count;
  const accel_label_score **score;
} sounds;

static accel_status run_sound(void *user, accel_endpoint *ep, uint32_t i, void **found) {
  const sounds *s = user;
  accel__sound sound;
  accel_tensors *in = NULL, *out = NULL;
  ACCEL_TRY(accel__media_sound(&s->media[i], s->processor.rate, s->max_seconds, &sound));
  accel_status status = accel__sound_tensors(&s->processor, &sound, 1, NULL, ep->ctx->pool, &in);
  accel__sound_free(&sound);
  if (status == ACCEL_OK) status = accel__run_media(ep, s->texts, in, &s->output, 1, &out);
  accel__tensors_free(&in);
  *found = out;
  return status;
}

static accel_status take_scores(void *user, uint32_t i, void *found) {
  sounds *s = user;
  accel_tensors *out = found;
  s->count[i] = s->top_k;
  const accel_status status = accel__rank_labels(out->item[0].data, s->label, s->n_labels,
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

/* All of a task but what is special to it: on success s->function and s->texts may follow. */
static accel_status begin(accel_endpoint *ep, const char *task, uint32_t n, void *result,
                          sounds *s) {
  const char *directory = NULL;
  s->arena = accel__task_arena(result);
  s->count = accel__arena_array(s->arena, n, sizeof *s->count);
  s->score = accel__arena_array(s->arena, n, sizeof *s->score);
  if (!s->count || !s->score) return ACCEL_ERROR_OUT_OF_MEMORY;
  ACCEL_TRY(accel__task_check(ep, task));
  ACCEL_TRY(accel__media_directory(ep, &directory));
  return accel__audio_processor_load(directory, &s->processor);
}

static accel_status finish(accel_endpoint *ep, accel_status status, uint32_t n, sounds *s,
                           accel_classifications *result, accel_classifications **out) {
  if (status == ACCEL_OK)
    status = accel__run_items(
        ep, &(accel__item_run){.n = n, .run = run_sound, .take = take_scores, .user = s});
  accel__audio_processor_free(&s->processor);
  *result = (accel_classifications){.n = n, .count = s->count, .score = s->score};
  *out = accel__task_finish(result, status);
  return status;
}

accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *media, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out) {
  accel_classifications *result = accel__task_result(sizeof *result);
  sounds s = {.media = media,
              .max_seconds = params->max_seconds,
              .output = "logits",
              .label = ep->model->labels,
              .n_labels = (uint32_t)ep->model->num_labels,
              .top_k = params->top_k};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = begin(ep, "audio-classification", n, result, &s);
  if (status == ACCEL_OK) status = function_of(ep->model, params->function, &s.function);
  return finish(ep, status, n, &s, result, out);
}

accel_status accel__zero_shot_audio(accel_endpoint *ep, const accel_media *media, uint32_t n,
                                    const char *const *labels, uint32_t n_labels,
                                    const char *hypothesis, double max_seconds,
                                    accel_classifications **out) {
  static const char task[] = "zero-shot-audio-classification";
  const accel__encode_options how = {.add_special_tokens = true};
  accel_classifications *result = accel__task_result(sizeof *result);
  accel_tensors *texts = NULL;
  sounds s = {.media = media,
              .max_seconds = max_seconds,
              .output = "logits_per_audio",
              .label = labels,
              .n_labels = n_labels,
              .function = ACCEL__SCORE_SOFTMAX};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel_status status = begin(ep, task, n, result, &s);
  if (status == ACCEL_OK) status = accel__processor_check(ep, task);
  if (status == ACCEL_OK)
    status = accel__label_tensors(ep, labels, n_labels, hypothesis, &how, 0, &texts);
  s.texts = texts;
  status = finish(ep, status, n, &s, result, out);
  accel__tensors_free(&texts);
  return status;
}
