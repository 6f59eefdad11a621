/* generate_config.h - what governs a generation: transformers' GenerationConfig, field by field.
 *
 * A configuration is made of three layers, the later ones winning: the defaults of transformers 5
 * (GenerationConfig._get_default_generation_params), the model's generation_config.json (or,
 * without one, what config.json says in its place), and what the caller asks.  All fields of
 * GenerationConfig are read; those that would change the result and are not implemented are refused
 * by name.
 */
#ifndef ACCEL_GENERATE_GENERATE_CONFIG_H
#define ACCEL_GENERATE_GENERATE_CONFIG_H

#include <stdbool.h>

#include "core/json.h"

typedef struct accel__ids {
  const int32_t *id;
  uint32_t n;
} accel__ids;

/* `bias` is added to the score of the last token where the others are what the sequence ends
 * with. */
typedef struct accel__biased {
  accel__ids ids; /* at least one */
  float bias;
} accel__biased;

typedef enum accel__early {
  ACCEL__EARLY_FALSE,
  ACCEL__EARLY_TRUE,
  ACCEL__EARLY_NEVER
} accel__early;

typedef struct accel__generate_config {
  /* lengths in tokens; -1 not set.  max_length and min_length count the prompt, too, and yield to
   * the others */
  int64_t max_length, max_new_tokens, min_length, min_new_tokens;
  double max_time; /* seconds; 0 none */
  /* strategy */
  bool do_sample;
  uint32_t num_beams, num_return;
  accel__early early_stopping;
  double length_penalty;
  uint64_t seed;
  /* warpers, in effect only under do_sample; 0 (temperature, top_p, typical_p, top_h: 1) switches
   * one off */
  double temperature, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff, top_h;
  int64_t top_k;
  /* processors */
  double repetition_penalty, encoder_repetition_penalty; /* 1: none */
  /* 0: none.  Not transformers': of generated tokens, as vLLM has it */
  double presence_penalty, frequency_penalty;
  int64_t no_repeat_ngram, encoder_no_repeat_ngram; /* 0: none */
  const accel__biased *bias, *bad_words;
  uint32_t n_bias, n_bad_words;
  int64_t forced_bos; /* -1 none */
  accel__ids forced_eos, suppress, begin_suppress;
  /* Whisper's timestamps: tokens from first_timestamp on come in pairs and never fall, the first is
   * at most max_initial_timestamp behind it (-1: any).  0: no such rules; the token before it says
   * "no timestamps" */
  int64_t first_timestamp, max_initial_timestamp;
  bool remove_invalid, renormalize, decays;
  int64_t decay_start;
  double decay_factor;
  /* special tokens; -1 none */
  accel__ids eos;
  int64_t pad, bos, decoder_start;
  const char *const *stop; /* texts that end a generation */
  uint32_t n_stop;
  /* speculation: guesses of a step by prompt lookup (0: none) and of an assistant, longest n-gram; 0:
   * not said */
  int64_t prompt_lookup, assistant_tokens, matching_ngram;
} accel__generate_config;

/* The first two layers: `file` is generation_config.json; NULL: config.json (`config`) is read in
 * its place, literally, as from_pretrained does then.  Memory of the result is the arena's; `seed`
 * is 0. */
accel_status accel__generate_config_read(const accel__json_file *file,
                                         const accel__json_file *config, accel__arena *arena,
                                         accel__generate_config *out);
/* One more layer: the fields of `file` that are there and not null.  Unknown ones are
 * ACCEL_ERROR_ARGUMENT when `strict`. */
accel_status accel__generate_config_overlay(const accel__json_file *file, bool strict,
                                            accel__arena *arena, accel__generate_config *config);
/* Values and combinations that no generation can have: GenerationConfig.validate and the
 * processors' own checks.  `name` is put before messages; vocab: scores of a step; ids beyond it
 * are refused where transformers does. */
accel_status accel__generate_config_check(const accel__generate_config *config, const char *name,
                                          int64_t vocab);

#endif
