/* bench_speech.c - noise in, so many tokens out. */
#include "bench/bench_speech.h"
#include "tool/tool_wav.h"

#include <stdlib.h>

/* A WAV file of 16-bit noise. */
static accel_status make_sound(uint32_t samples, uint64_t seed, bench_speech *s) {
  const size_t n = TOOL_WAV_HEADER + 2 * (size_t)samples;
  unsigned char *wav = malloc(n);
  if (!wav) return ACCEL_ERROR_OUT_OF_MEMORY;
  tool_wav_header(wav, BENCH_SAMPLE_RATE, 2 * samples);
  for (uint32_t i = 0; i < samples; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const int32_t sample = (int32_t)(seed >> 51) - 4096;
    wav[TOOL_WAV_HEADER + 2 * i] = (unsigned char)sample;
    wav[TOOL_WAV_HEADER + 2 * i + 1] = (unsigned char)(sample >> 8);
  }
  s->sound = (accel_media){.name = "noise", .data = wav, .n = n};
  return ACCEL_OK;
}

accel_status bench_speech_make(accel *ctx, const char *model, uint32_t samples, uint64_t seed,
                               bench_speech *out) {
  accel_preprocess_params how = accel_preprocess_params_default();
  *out = (bench_speech){0};
  accel_status status = make_sound(samples, seed, out);
  if (status != ACCEL_OK) return status;
  how.sounds = &out->sound;
  how.n_sounds = 1;
  return accel_preprocess(ctx, model, &how, &out->features);
}

void bench_speech_free(bench_speech *s) {
  free((void *)s->sound.data);
  accel_tensors_free(&s->features);
}

/* When the tokens of the first window came: random weights may say that the sound goes on. */
typedef struct listener {
  double first, last;
  uint32_t left;
  bench_collector *collector;
} listener;

static int hear(void *user, const accel_token_event *event) {
  listener *l = user;
  (void)event;
  if (!l->left) return 0;
  l->last = bench_now_ms();
  if (l->first == 0) l->first = l->last;
  if (l->collector && l->collector->tokens_before) l->collector->tokens_before--;
  if (--l->left == 0 && l->collector) l->collector->tokens_before = UINT32_MAX;
  return 0;
}

accel_status bench_speech_run(accel_endpoint *endpoint, const bench_speech *s, uint32_t new_tokens,
                              bench_collector *collector, double *encoder_ms, double *all_ms,
                              double *decode_ms) {
  static const char *const output = "encoder_last_hidden_state";
  int64_t token = 0; /* for the decoder, which is not run */
  accel_tensor inputs[2] = {
      s->features->item[0],
      {.name = "decoder_input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 1}, .data = &token}};
  accel_tensors *states;
  accel_transcripts *found;
  listener heard = {.left = new_tokens, .collector = collector};
  accel_generate_params limits = accel_generate_params_default();
  accel_transcribe_params how = accel_transcribe_params_default();
  double begin = bench_now_ms();
  /* the encoder alone is no step of decoding */
  if (collector) collector->tokens_before = UINT32_MAX;
  accel_status status =
      accel_run_named(endpoint, &(accel_tensors){.n = 2, .item = inputs}, &output, 1, &states);
  if (status != ACCEL_OK) return status;
  accel_tensors_free(&states);
  *encoder_ms = bench_now_ms() - begin;
  if (collector) collector->tokens_before = new_tokens > 1;
  limits.max_new_tokens = (int32_t)new_tokens;
  limits.ignore_eos = 1;
  limits.on_token = hear;
  limits.on_token_user = &heard;
  how.generate = &limits;
  begin = bench_now_ms();
  status = accel_transcribe(endpoint, &s->sound, 1, &how, &found);
  if (status != ACCEL_OK) return status;
  *all_ms = bench_now_ms() - begin;
  *decode_ms = heard.last - heard.first;
  accel_transcripts_free(&found);
  return ACCEL_OK;
}
