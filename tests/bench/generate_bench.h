/* generate_bench.h - what benchmarks of generation share: a decoder of about 100 million random
 * weights, tokens, checks. */
#ifndef ACCEL_TESTS_GENERATE_BENCH_H
#define ACCEL_TESTS_GENERATE_BENCH_H

#include <string.h>
#include <sys/stat.h>

#include "bench_timer.h"
#include "accel/accel.h"

enum { BENCH_VOCAB = 32000 };

static inline void must(accel_status status, const char *what) {
  if (status == ACCEL_OK) return;
  fprintf(stderr, "%s: %s\n", what, accel_last_error());
  exit(1);
}

static inline uint32_t next_number(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* Writes DIRECTORY/config.json of a LLaMA with so many layers of width 768: 12 are 101 million
 * weights, 2 are 34. */
static inline const char *made_model(const char *directory, int layers) {
  char path[512];
  snprintf(path, sizeof path, "%s/config.json", directory);
  mkdir(directory, 0755);
  FILE *f = fopen(path, "w");
  if (!f) return NULL;
  fprintf(f,
          "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
          "\"vocab_size\": %d, \"hidden_size\": 768, \"intermediate_size\": 1536, "
          "\"num_hidden_layers\": %d, \"num_attention_heads\": 12, \"num_key_value_heads\": 4, "
          "\"max_position_embeddings\": 8192, \"tie_word_embeddings\": true, "
          "\"bos_token_id\": 1, \"eos_token_id\": 2}",
          BENCH_VOCAB, layers);
  return fclose(f) ? NULL : directory;
}

static inline accel_endpoint *open_bench(accel *ctx, const char *model, const char *device,
                                         const char *precision) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = device;
  how.precision = precision;
  how.random_weights = 1;
  must(accel_init(ctx, model, &how, &ep), model);
  return ep;
}

static inline accel *open_context(uint32_t threads) {
  accel_params params = accel_params_default();
  accel *ctx;
  params.threads = threads;
  params.allow_software = 1;
  must(accel_create(&params, &ctx), "create");
  return ctx;
}

#endif
