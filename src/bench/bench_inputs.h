/* bench_inputs.h - the seeded inputs of a timed run, and the output that is asked for. */
#ifndef ACCEL_BENCH_INPUTS_H
#define ACCEL_BENCH_INPUTS_H

#include "bench/bench.h"

/* As transformers' forward names them: input_ids and attention_mask [batch, longest], right padded;
 * or pixel_values [batch, 3, side, side]; or input_values [batch, samples].  What forward demands
 * for the part of the model that is not timed, decoder_input_ids or the texts beside pictures, is
 * one token each: steps that the output does not need are not run.
 */
typedef struct bench_inputs {
  uint32_t n;
  accel_tensor item[8];
} bench_inputs;

/* Makes them from params->seed for what the endpoint takes, and notes lengths, tokens, kind and
 * output in the result.  A model that takes pictures is given pictures, also where it takes texts,
 * too; one that takes boxes of words is given words and pages.  Pictures and sounds of a batch are
 * all of the longest length.  Free in any case. */
accel_status bench_inputs_make(accel *ctx, const bench_params *params, accel_endpoint *endpoint,
                               bench_result *result, bench_inputs *out);
/* Notes kind, lengths, tokens and output without making inputs, of a model that is not loaded and
 * takes and gives what is named. */
accel_status bench_inputs_plan(accel *ctx, const bench_params *params, const accel_strings *inputs,
                               const accel_strings *outputs, bench_result *result);
void bench_inputs_free(bench_inputs *inputs);
/* config.json of the model's files (of a pipeline model_index.json), else of its registry entry, which
 * needs no files; to be deleted; NULL: neither has one. */
struct cJSON *bench_config_of(accel *ctx, const char *model);
/* A number of it, or the first of a list, at the root or in the object `part`; 0: there is none. */
int64_t bench_config_number(const struct cJSON *config, const char *part, const char *key);
/* Adds an input like `like`, of numbers as normalised pictures and sounds have them, from
 * params->seed. */
accel_status bench_signal(const bench_params *params, accel_tensor like, bench_inputs *out);
/* The next number of a series that begins with any state. */
uint64_t bench_random(uint64_t *state);

#endif
