/* api_speech.c - speech from texts: argument checks, then speech/. */
#include <math.h>

#include "api/api_check.h"
#include "speech/speak.h"

accel_text_to_speech_params accel_text_to_speech_params_default(void) {
  return (accel_text_to_speech_params){.size = sizeof(accel_text_to_speech_params),
                                       .speaker = -1,
                                       .speaking_rate = NAN,
                                       .noise_scale = NAN,
                                       .noise_scale_duration = NAN};
}

accel_status accel_text_to_speech(accel_endpoint *endpoint, const char *const *texts, uint32_t n,
                                  const accel_text_to_speech_params *params,
                                  accel_waveforms **out) {
  API_CALL(endpoint, out);
  API_PARAMS(accel_text_to_speech_params, mine, params);
  API_NEED(texts);
  if (!n) return accel__fail(ACCEL_ERROR_ARGUMENT, "%s: no texts are given", __func__);
  ACCEL_TRY(accel__check_texts(__func__, "texts", texts, n));
  return accel__text_to_speech(endpoint, texts, n, &mine, out);
}

API_FREE_RESULT(accel_waveforms_free, accel_waveforms)
