/* sounds.c - transformers' pipeline audio-classification. */
#include <stdlib.h>
#include <string.h>

#include "speech/sounds.h"
#include "dispatch/pack.h"
#include "processing/media.h"
#include "processing/processor.h"
#include "processing/scores.h"
#include "processing/result.h"

/* Reads a sound and runs it for the named outputs. */
static accel_status run_sound(accel_endpoint *ep, const accel__audio_processor *p,
                              const accel_media *media, double most, const char *const *names,
                              uint32_t n_names, accel_tensors **out) {
  accel__sound sound;
  accel_tensors *in = NULL;
  ACCEL_TRY(accel__media_sound(media, p->rate, most, &sound));
  accel_status status = accel__sound_tensors(p, &sound, 1, NULL, ep->ctx->pool, &in);
  accel__sound_free(&sound);
  if (status == ACCEL_OK) status = accel__run_padded(ep, in, names, n_names, out);
  accel__tensors_free(&in);
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

accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                                    const accel_classify_params *params,
                                    accel_classifications **out) {
  static const char *const names[] = {"logits"};
  accel_classifications *result = accel__task_result(sizeof *result);
  accel__audio_processor p = {0};
  accel__score_function function = ACCEL__SCORE_NONE;
  const char *directory = NULL;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = accel__task_arena(result);
  uint32_t *count = accel__arena_array(arena, n, sizeof *count);
  const accel_label_score **score = accel__arena_array(arena, n, sizeof *score);
  accel_status status =
      count && score ? accel__task_check(ep, "audio-classification") : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel__media_directory(ep, &directory);
  if (status == ACCEL_OK) status = accel__audio_processor_load(directory, &p);
  if (status == ACCEL_OK) status = function_of(ep->model, params->function, &function);
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    accel_tensors *found = NULL;
    count[i] = params->top_k;
    status = run_sound(ep, &p, &sounds[i], params->max_seconds, names, 1, &found);
    if (status == ACCEL_OK)
      status = accel__rank_labels(found->item[0].data, ep->model->labels,
                                  (uint32_t)ep->model->num_labels, function, arena, &score[i],
                                  &count[i]);
    accel__tensors_free(&found);
  }
  accel__audio_processor_free(&p);
  *result = (accel_classifications){.n = n, .count = count, .score = score};
  *out = accel__task_finish(result, status);
  return status;
}
