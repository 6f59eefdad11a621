/* routes_speech.c - OpenAI's /v1/audio/speech: a text spoken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/serve_reply.h"
#include "tool/tool_wav.h"

/* "voice": the number of a speaker; alone and as text, as clients send it.  Absent, "default": nobody
 * in particular. */
static int32_t read_voice(serve_fields *f) {
  const cJSON *item = field_item(f, "voice");
  if (cJSON_IsNumber(item)) return (int32_t)field_integer(f, "voice", 0, INT32_MAX, -1);
  const char *voice = field_text(f, "voice", "default");
  char *end;
  if (!strcmp(voice, "default")) return -1;
  const long number = strtol(voice, &end, 10);
  if (*voice >= '0' && *voice <= '9' && !*end && number <= INT32_MAX) return (int32_t)number;
  field_wrong(f, "voice", "'%s': voices are numbers of the model's speakers, or default", voice);
  return -1;
}

/* Encoders of compressed sound are not here. */
static const char *read_format(serve_fields *f) {
  const char *format = field_text(f, "response_format", "wav");
  if (strcmp(format, "wav") != 0 && strcmp(format, "pcm") != 0)
    field_wrong(f, "response_format", "'%s' is not supported; known: wav, pcm", format);
  return format;
}

static void answer(serve_request *request, const accel_waveforms *made, const char *format) {
  const accel_waveform *sound = &made->item[0];
  char rate[16];
  size_t n = 2 * sound->n;
  const bool wav = !strcmp(format, "wav");
  unsigned char *body =
      wav ? tool_wav_file(sound->samples, sound->n, made->rate, &n) : malloc(n + 1);
  if (!body) {
    serve_fail(request, 500, NULL, NULL, "no memory for a sound of %zu bytes", n);
    return;
  }
  if (!wav) tool_pcm(body, sound->samples, sound->n);
  snprintf(rate, sizeof rate, "%u", made->rate);
  serve_add_header(request, "x-sampling-rate", rate);
  serve_answer(request, 200, wav ? "audio/wav" : "audio/pcm", (char *)body, n);
}

void route_speech(serve_request *request) {
  static const char *const speakers[] = {"text-to-speech", NULL};
  serve_fields f;
  accel_text_to_speech_params how = accel_text_to_speech_params_default();
  accel_waveforms *made = NULL;
  fields_of_json(&f, request);
  const char *text = field_text(&f, "input", NULL), *format = read_format(&f);
  if (!text && !f.failed) field_wrong(&f, "input", "is the text to speak");
  how.speaker = read_voice(&f);
  how.speaking_rate = field_number(&f, "speed", 0.25, 4.0, how.speaking_rate);
  how.seed = (uint64_t)field_integer(&f, "seed", 0, UINT32_MAX, 0);
  how.noise_scale = field_number(&f, "noise_scale", 0, 100, how.noise_scale);
  how.noise_scale_duration =
      field_number(&f, "noise_scale_duration", 0, 100, how.noise_scale_duration);
  how.phonemes = field_flag(&f, "phonemes", false);
  how.max_seconds = SERVE_MAX_SECONDS;
  if (field_item(&f, "instructions"))
    field_wrong(&f, "instructions", "is not supported: the model follows none");
  if (field_item(&f, "stream_format") &&
      strcmp(field_text(&f, "stream_format", "audio"), "audio") != 0)
    field_wrong(&f, "stream_format", "is not supported; known: audio");
  const serve_model *model = fields_model(&f, speakers);
  if (model) fields_no_adapter(&f, model);
  if (fields_end(&f)) {
    const accel_status status = accel_text_to_speech(model->endpoint, &text, 1, &how, &made);
    if (status == ACCEL_OK) {
      const serve_work work = {.model = model, .characters = count_characters(&text, 1)};
      work_count(request, &work);
      answer(request, made, format);
    } else {
      serve_fail_with(request, status, "input");
    }
  }
  accel_waveforms_free(&made);
  fields_free(&f);
}
