/* sounds.c - transformers' pipelines over sounds: audio-classification, and automatic-speech-recognition with a CTC head. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack.h"
#include "tasks/media.h"
#include "tasks/processor.h"
#include "tasks/scores.h"
#include "tasks/tasks.h"
#include "text/ctc.h"

/* Reads a sound and runs it for the named outputs. */
static accel_status run_sound(accel_endpoint *ep, const accel__audio_processor *p, const accel_media *media,
                              const char *const *names, uint32_t n_names, accel_tensors **out) {
  accel__sound sound;
  accel_tensors *in = NULL;
  ACCEL_TRY(accel__media_sound(media, p->rate, &sound));
  accel_status status = accel__sound_tensors(p, &sound, 1, NULL, ep->ctx->pool, &in);
  accel__sound_free(&sound);
  if (status == ACCEL_OK) status = accel__run_padded(ep, in, names, n_names, out);
  accel__tensors_free(&in);
  return status;
}

/* Softmax unless the config's problem_type or the caller says otherwise, for one label, too: unlike texts and pictures. */
static accel_status function_of(const accel__model *model, const char *name, accel__score_function *out) {
  ACCEL_TRY(accel__choose_function(model, name, out));
  const char *problem = model->problem_type;
  if (!name && *out == ACCEL__SCORE_SIGMOID && !(problem && !strcmp(problem, "multi_label_classification")))
    *out = ACCEL__SCORE_SOFTMAX;
  return ACCEL_OK;
}

accel_status accel__classify_sounds(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                                    const accel_classify_params *params, accel_classifications **out) {
  static const char *const names[] = {"logits"};
  accel_classifications *result = accel__task_result(sizeof *result);
  accel__audio_processor p = {0};
  accel__score_function function = ACCEL__SCORE_NONE;
  const char *directory = NULL;
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  accel__arena *arena = accel__task_arena(result);
  uint32_t *count = accel__arena_array(arena, n, sizeof *count);
  const accel_label_score **score = accel__arena_array(arena, n, sizeof *score);
  accel_status status = count && score ? accel__task_check(ep, "audio-classification") : ACCEL_ERROR_OUT_OF_MEMORY;
  if (status == ACCEL_OK) status = accel__media_directory(ep, &directory);
  if (status == ACCEL_OK) status = accel__audio_processor_load(directory, &p);
  if (status == ACCEL_OK) status = function_of(ep->model, params->function, &function);
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    accel_tensors *found = NULL;
    count[i] = params->top_k;
    status = run_sound(ep, &p, &sounds[i], names, 1, &found);
    if (status == ACCEL_OK)
      status = accel__rank_labels(found->item[0].data, ep->model->labels, (uint32_t)ep->model->num_labels, function, arena,
                                  &score[i], &count[i]);
    accel__tensors_free(&found);
  }
  accel__audio_processor_free(&p);
  *result = (accel_classifications){.n = n, .count = count, .score = score};
  if (status != ACCEL_OK) accel__task_free(result), result = NULL;
  *out = result;
  return status;
}

/* ---- speech ---- */

typedef struct speech_job {
  accel_endpoint *ep;
  accel__audio_processor processor;
  accel__ctc ctc;
  accel__arena *arena; /* of the result */
  bool chunks, words;
  double seconds; /* of a frame of logits */
} speech_job;

/* Samples of one frame: the strides of the feature extractor multiplied. */
static accel_status frame_of(const accel_endpoint *ep, uint32_t rate, double *seconds) {
  const accel__json *strides = NULL;
  double samples = 1.0;
  ACCEL_TRY(accel__json_array(&ep->config, ep->config.root, "conv_stride", &strides));
  if (!strides) samples = 320.0; /* the class's default: 5 2 2 2 2 2 2 */
  ACCEL_JSON_EACH(item, strides) samples *= item->valuedouble;
  *seconds = samples / rate;
  return ACCEL_OK;
}

static accel_status begin_speech(speech_job *job) {
  const char *directory;
  ACCEL_TRY(accel__task_check(job->ep, "automatic-speech-recognition"));
  ACCEL_TRY(accel__media_directory(job->ep, &directory));
  ACCEL_TRY(accel__audio_processor_load(directory, &job->processor));
  ACCEL_TRY(accel__ctc_load(directory, &job->ctc));
  return frame_of(job->ep, job->processor.rate, &job->seconds);
}

/* logits [1, frames, labels] */
static accel_status read_logits(const speech_job *job, const accel_tensor *logits, const char **text,
                                const accel_chunk **chunks, uint32_t *count) {
  const int64_t frames = logits->dim[1], labels = logits->dim[2];
  int64_t *ids = malloc(((size_t)frames + 1) * sizeof *ids);
  accel__ctc_text found;
  if (!ids) return accel__no_memory((size_t)frames * sizeof *ids);
  for (int64_t f = 0; f < frames; f++)
    ids[f] = (int64_t)accel__argmax((const float *)logits->data + f * labels, (size_t)labels);
  accel_status status = accel__ctc_decode(&job->ctc, ids, frames, job->words, job->arena, &found);
  free(ids);
  ACCEL_TRY(status);
  *text = found.text;
  *count = job->chunks ? found.n : 0;
  accel_chunk *list = accel__arena_array(job->arena, *count, sizeof *list);
  if (!list) return ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < *count; i++)
    list[i] = (accel_chunk){found.piece[i].text, (double)found.piece[i].begin * job->seconds,
                            (double)found.piece[i].end * job->seconds};
  *chunks = list;
  return ACCEL_OK;
}

accel_status accel__transcribe(accel_endpoint *ep, const accel_media *sounds, uint32_t n,
                               const accel_transcribe_params *params, accel_transcripts **out) {
  static const char *const names[] = {"logits"};
  accel_transcripts *result = accel__task_result(sizeof *result);
  speech_job job = {
      .ep = ep, .chunks = params->timestamps != NULL, .words = params->timestamps && !strcmp(params->timestamps, "word")};
  if (!result) return ACCEL_ERROR_OUT_OF_MEMORY;
  job.arena = accel__task_arena(result);
  const char **text = accel__arena_array(job.arena, n, sizeof *text);
  uint32_t *count = accel__arena_array(job.arena, n, sizeof *count);
  const accel_chunk **chunk = accel__arena_array(job.arena, n, sizeof *chunk);
  accel_status status = text && count && chunk ? begin_speech(&job) : ACCEL_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; status == ACCEL_OK && i < n; i++) {
    accel_tensors *found = NULL;
    status = run_sound(ep, &job.processor, &sounds[i], names, 1, &found);
    if (status == ACCEL_OK) status = read_logits(&job, &found->item[0], &text[i], &chunk[i], &count[i]);
    accel__tensors_free(&found);
  }
  accel__audio_processor_free(&job.processor);
  accel__ctc_free(&job.ctc);
  *result = (accel_transcripts){.n = n, .text = text, .count = count, .chunk = chunk};
  if (status != ACCEL_OK) accel__task_free(result), result = NULL;
  *out = result;
  return status;
}
