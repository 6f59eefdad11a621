/* bench_speech.h - the work of --task transcribe, for bench_run.c: a sound of seeded noise, through
 * the encoder and through the whole task. */
#ifndef ACCEL_BENCH_SPEECH_H
#define ACCEL_BENCH_SPEECH_H

#include "bench/bench.h"
#include "bench/bench_collect.h"

typedef struct bench_speech {
  accel_media sound;       /* a WAV file in memory */
  accel_tensors *features; /* what the model's extractor makes of it */
} bench_speech;

/* `samples` of noise.  Free in any case. */
accel_status bench_speech_make(accel *ctx, const char *model, uint32_t samples, uint64_t seed,
                               bench_speech *out);
void bench_speech_free(bench_speech *s);
/* One run of the encoder, then one transcription: new_tokens greedy ones, never ended early.
 * decode_ms: from its first token to its last. */
accel_status bench_speech_run(accel_endpoint *endpoint, const bench_speech *s, uint32_t new_tokens,
                              bench_collector *collector, double *encoder_ms, double *all_ms,
                              double *decode_ms);

#endif
