/* cmd_text_to_speech.c - accel text-to-speech: texts to sound files. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_print.h"
#include "tool/tool_wav.h"

static int write_sound(cli_run *run, const accel_waveform *sound, uint32_t rate, const char *name) {
  size_t n;
  unsigned char *wav = tool_wav_file(sound->samples, sound->n, rate, &n);
  if (!wav) return cli_error(run, ACCEL_ERROR_LIMIT, "%s: too long for a WAV file", name);
  FILE *to = fopen(name, "wb");
  bool written = to && fwrite(wav, 1, n, to) == n;
  if (to && fclose(to) != 0) written = false;
  free(wav);
  return written ? 0 : cli_error(run, ACCEL_ERROR_IO, "%s: %s", name, strerror(errno));
}

static int print_json(cli_run *run, accel_endpoint *endpoint, const accel_waveforms *made) {
  cli_json json;
  int code = cli_json_begin(run, "accel.text-to-speech/1", &json);
  if (code) return code;
  cli_json_placement(&json, accel_placement(endpoint));
  cli_json_int(&json, "sampling_rate", made->rate);
  cli_json_open(&json, "sounds", '[');
  for (uint32_t i = 0; i < made->n; i++) {
    char file[4096];
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "file",
                  cli_numbered(run->value[OPT_OUTPUT], i, made->n, file, sizeof file));
    cli_json_int(&json, "samples", (int64_t)made->item[i].n);
    cli_json_double(&json, "seconds", (double)made->item[i].n / made->rate);
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static int write_all(cli_run *run, accel_endpoint *endpoint, const accel_waveforms *made) {
  for (uint32_t i = 0; i < made->n; i++) {
    char file[4096];
    const char *name = cli_numbered(run->value[OPT_OUTPUT], i, made->n, file, sizeof file);
    const int code = write_sound(run, &made->item[i], made->rate, name);
    if (code) return code;
    if (!cli_flag(run, OPT_JSON)) puts(name);
  }
  return cli_flag(run, OPT_JSON) ? print_json(run, endpoint, made) : 0;
}

static int speak(cli_run *run, accel_endpoint *endpoint, const cli_texts *texts) {
  accel_text_to_speech_params how = accel_text_to_speech_params_default();
  accel_waveforms *made;
  how.seed = (uint64_t)cli_count(run, OPT_SEED, 0);
  how.speaker = (int32_t)cli_count(run, OPT_SPEAKER, how.speaker);
  how.speaking_rate = cli_number(run, OPT_RATE, how.speaking_rate);
  how.noise_scale = cli_number(run, OPT_NOISE_SCALE, how.noise_scale);
  how.noise_scale_duration = cli_number(run, OPT_NOISE_SCALE_DURATION, how.noise_scale_duration);
  how.phonemes = cli_flag(run, OPT_PHONEMES);
  const accel_status status = accel_text_to_speech(endpoint, texts->text, texts->n, &how, &made);
  if (status != ACCEL_OK) return cli_fail(run, status);
  const int code = write_all(run, endpoint, made);
  accel_waveforms_free(&made);
  return code;
}

int cmd_text_to_speech(cli_run *run) {
  if (!run->value[OPT_OUTPUT]) return cli_usage(run, "say where the sound goes: -o FILE.wav");
  return cli_on_plain_texts(run, 1, "text-to-speech", speak);
}
