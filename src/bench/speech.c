/* speech.c - noise in, so many tokens out. */
#include "bench/speech.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void put(unsigned char *to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = (unsigned char)(value >> 8 * i);
}

/* A WAV file of 16-bit noise. */
static accel_status make_sound(uint32_t samples, uint64_t seed, bench_speech *s) {
  enum { HEADER = 44 };
  unsigned char *wav = malloc(HEADER + 2 * (size_t)samples);
  if (!wav) return ACCEL_ERROR_OUT_OF_MEMORY;
  memcpy(wav, "RIFF    WAVEfmt ", 16);
  put(wav + 4, HEADER - 8 + 2 * samples, 4);
  put(wav + 16, 16, 4);
  put(wav + 20, 1, 2); /* PCM */
  put(wav + 22, 1, 2); /* channels */
  put(wav + 24, BENCH_SAMPLE_RATE, 4);
  put(wav + 28, 2 * BENCH_SAMPLE_RATE, 4);
  put(wav + 32, 2, 2); /* bytes of a frame */
  put(wav + 34, 16, 2);
  memcpy(wav + 36, "data", 4);
  put(wav + 40, 2 * samples, 4);
  for (uint32_t i = 0; i < samples; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    put(wav + HEADER + 2 * i, (uint32_t)(int32_t)((int64_t)(seed >> 51) - 4096), 2);
  }
  s->sound = (accel_media){.name = "noise", .data = wav, .n = HEADER + 2 * (size_t)samples};
  return ACCEL_OK;
}

accel_status bench_speech_make(accel *ctx, const char *model, uint32_t samples, uint64_t seed, bench_speech *out) {
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
  l->last = now_ms();
  if (l->first == 0) l->first = l->last;
  if (l->collector && l->collector->tokens_before) l->collector->tokens_before--;
  if (--l->left == 0 && l->collector) l->collector->tokens_before = UINT32_MAX;
  return 0;
}

accel_status bench_speech_run(accel_endpoint *endpoint, const bench_speech *s, uint32_t new_tokens,
                              bench_collector *collector, double *encoder_ms, double *all_ms, double *decode_ms) {
  static const char *const output = "encoder_last_hidden_state";
  int64_t token = 0; /* for the decoder, which is not run */
  accel_tensor inputs[2] = {s->features->item[0],
                            {.name = "decoder_input_ids", .dtype = ACCEL_I64, .rank = 2, .dim = {1, 1}, .data = &token}};
  accel_tensors *states;
  accel_transcripts *found;
  listener heard = {.left = new_tokens, .collector = collector};
  accel_generate_params limits = accel_generate_params_default();
  accel_transcribe_params how = accel_transcribe_params_default();
  double begin = now_ms();
  if (collector) collector->tokens_before = UINT32_MAX; /* the encoder alone is no step of decoding */
  accel_status status = accel_run_named(endpoint, &(accel_tensors){.n = 2, .item = inputs}, &output, 1, &states);
  if (status != ACCEL_OK) return status;
  accel_tensors_free(&states);
  *encoder_ms = now_ms() - begin;
  if (collector) collector->tokens_before = new_tokens > 1;
  limits.max_new_tokens = (int32_t)new_tokens;
  limits.ignore_eos = 1;
  limits.told = hear;
  limits.told_user = &heard;
  how.generate = &limits;
  begin = now_ms();
  status = accel_transcribe(endpoint, &s->sound, 1, &how, &found);
  if (status != ACCEL_OK) return status;
  *all_ms = now_ms() - begin;
  *decode_ms = heard.last - heard.first;
  accel_transcripts_free(&found);
  return ACCEL_OK;
}
