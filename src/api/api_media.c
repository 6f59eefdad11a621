/* api_media.c - pictures and sounds: argument checks, then processing/, speech/ and tasks/. */
#include <math.h>
#include <string.h>

#include "api/api_check.h"
#include "processing/media.h"
#include "speech/sounds.h"
#include "speech/speech.h"
#include "tasks/pictures.h"

accel_preprocess_params accel_preprocess_params_default(void) {
  return (accel_preprocess_params){.size = sizeof(accel_preprocess_params)};
}
accel_detect_params accel_detect_params_default(void) {
  return (accel_detect_params){.size = sizeof(accel_detect_params), .threshold = 0.5};
}

accel_status accel__check_media(const char *caller, const char *what, const accel_media *media,
                                uint32_t n) {
  if (n && !media) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: '%s' is NULL", caller, what);
  for (uint32_t i = 0; i < n; i++)
    if (!media[i].name)
      return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: %s[%u].name is NULL", caller, what, i);
  return ACCEL_OK;
}

accel_status accel_preprocess(accel *ctx, const char *model, const accel_preprocess_params *params,
                              accel_tensors **out) {
  API_CALL(ctx, out);
  API_NEED(model);
  API_PARAMS(accel_preprocess_params, mine, params);
  ACCEL_TRY(accel__check_media(__func__, "images", mine.images, mine.n_images));
  ACCEL_TRY(accel__check_media(__func__, "sounds", mine.sounds, mine.n_sounds));
  return accel__preprocess(ctx, model, &mine, out);
}

/* Batches of pictures and sounds take no adapters. */
static accel_status check_no_adapter(const char *caller, const accel_classify_params *params) {
  if (!params->adapter) return ACCEL_OK;
  return accel__remedy(
      accel__fail(ACCEL_ERROR_UNSUPPORTED,
                  "%s: params.adapter: requests about texts alone take adapters", caller),
      "merge the adapter when the model is loaded (accel_init_params.adapters)");
}

accel_status accel_classify_images(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                   const accel_classify_params *params,
                                   accel_classifications **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_classify_params, mine, params);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  ACCEL_TRY(check_no_adapter(__func__, &mine));
  return accel__classify_images(endpoint, images, n, &mine, out);
}

accel_status accel_classify_sounds(accel_endpoint *endpoint, const accel_media *sounds, uint32_t n,
                                   const accel_classify_params *params,
                                   accel_classifications **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_classify_params, mine, params);
  ACCEL_TRY(accel__check_media(__func__, "sounds", sounds, n));
  ACCEL_TRY(check_no_adapter(__func__, &mine));
  return accel__classify_sounds(endpoint, sounds, n, &mine, out);
}

accel_status accel_zero_shot_image(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                   const char *const *labels, uint32_t n_labels,
                                   const char *hypothesis, accel_classifications **out) {
  API_CALL(endpoint, out);
  API_NEED(labels);
  if (!n_labels) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no labels are given", __func__);
  ACCEL_TRY(accel__check_texts(__func__, "labels", labels, n_labels));
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__zero_shot_image(endpoint, images, n, labels, n_labels,
                                hypothesis ? hypothesis : "This is a photo of {}.", out);
}

accel_status accel_zero_shot_audio(accel_endpoint *endpoint, const accel_media *sounds, uint32_t n,
                                   const char *const *labels, uint32_t n_labels,
                                   const char *hypothesis, double max_seconds,
                                   accel_classifications **out) {
  API_CALL(endpoint, out);
  API_NEED(labels);
  if (!n_labels) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no labels are given", __func__);
  if (!(max_seconds >= 0))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: max_seconds is %g", __func__, max_seconds);
  ACCEL_TRY(accel__check_texts(__func__, "labels", labels, n_labels));
  ACCEL_TRY(accel__check_media(__func__, "sounds", sounds, n));
  return accel__zero_shot_audio(endpoint, sounds, n, labels, n_labels,
                                hypothesis ? hypothesis : "This is a sound of {}.", max_seconds,
                                out);
}

accel_status accel_detect_objects(accel_endpoint *endpoint, const accel_media *images, uint32_t n,
                                  const accel_detect_params *params, accel_detections **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_detect_params, mine, params);
  if (!(mine.threshold >= 0.0 && mine.threshold <= 1.0))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: threshold is %g; it must be from 0 to 1",
                       __func__, mine.threshold);
  ACCEL_TRY(accel__check_media(__func__, "images", images, n));
  return accel__detect_objects(endpoint, images, n, &mine, out);
}

accel_transcribe_params accel_transcribe_params_default(void) {
  return (accel_transcribe_params){.size = sizeof(accel_transcribe_params),
                                   .stride_left = NAN,
                                   .stride_right = NAN,
                                   .condition_on_previous = -1,
                                   .compression_ratio_threshold = NAN,
                                   .logprob_threshold = NAN,
                                   .no_speech_threshold = NAN};
}

accel_status accel_transcribe(accel_endpoint *endpoint, const accel_media *sounds, uint32_t n,
                              const accel_transcribe_params *params, accel_transcripts **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_transcribe_params, mine, params);
  if (mine.timestamps && strcmp(mine.timestamps, "char") && strcmp(mine.timestamps, "word") &&
      strcmp(mine.timestamps, "segment") && strcmp(mine.timestamps, "auto"))
    return accel__fail(
        ACCEL_ERROR_ARGUMENT,
        "%s: timestamps is '%s'; it must be NULL, \"char\", \"word\", \"segment\" or \"auto\"",
        __func__, mine.timestamps);
  if (!(mine.chunk_length >= 0 && mine.chunk_length <= 3600) || mine.stride_left < 0 ||
      mine.stride_right < 0)
    return accel__fail(ACCEL_ERROR_ARGUMENT,
                       "%s: chunk_length is %g, strides are %g and %g; seconds, at most 3600",
                       __func__, mine.chunk_length, mine.stride_left, mine.stride_right);
  if (!(mine.max_seconds >= 0))
    return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: max_seconds is %g", __func__, mine.max_seconds);
  if (mine.n_temperature) API_NEED(mine.temperature);
  ACCEL_TRY(accel__check_media(__func__, "sounds", sounds, n));
  return accel__transcribe(endpoint, sounds, n, &mine, out);
}

API_FREE_RESULT(accel_transcripts_free, accel_transcripts)
API_FREE_RESULT(accel_detections_free, accel_detections)
