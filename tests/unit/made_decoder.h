/* made_decoder.h - a small decoder with random weights and a long context: heads in groups, so that
 * single rows attend by kernels of their own. */
#ifndef ACCEL_TESTS_UNIT_MADE_DECODER_H
#define ACCEL_TESTS_UNIT_MADE_DECODER_H

#include "temp.h"
#include "test_endpoint.h"

/* Its directory; layers: 1 and more. */
static inline const char *made_decoder(const char *name, int layers) {
  static char directory[512];
  char config[1024], file[64];
  snprintf(config, sizeof config,
           "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
           "\"vocab_size\": 97, \"hidden_size\": 64, \"intermediate_size\": 96, "
           "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
           "\"head_dim\": 32, \"max_position_embeddings\": 4096, \"bos_token_id\": 1, "
           "\"eos_token_id\": 2}",
           layers);
  snprintf(file, sizeof file, "%s/config.json", name);
  temp_text(file, config);
  snprintf(directory, sizeof directory, "%s/%s", temp_directory(), name);
  return directory;
}

static inline accel_endpoint *open_made(accel *ctx, const char *directory, const char *device,
                                        const char *precision, uint64_t prefix_cache_bytes) {
  accel_init_params how = accel_init_params_default();
  accel_endpoint *ep;
  how.device = device;
  how.precision = precision;
  how.random_weights = 1;
  how.seed = 7;
  how.prefix_cache_bytes = prefix_cache_bytes;
  assert_ok(accel_init(ctx, directory, &how, &ep));
  return ep;
}

/* The same tokens, finishes and log probabilities, bit by bit. */
static inline void check_equal(const accel_generations *a, const accel_generations *b) {
  assert_int_equal(a->n, b->n);
  for (uint32_t i = 0; i < a->n; i++) {
    assert_int_equal(a->item[i].n, b->item[i].n);
    assert_memory_equal(a->item[i].ids, b->item[i].ids, a->item[i].n * sizeof(int32_t));
    assert_string_equal(a->item[i].finish, b->item[i].finish);
    if (a->item[i].logprob)
      assert_memory_equal(a->item[i].logprob, b->item[i].logprob, a->item[i].n * sizeof(float));
  }
}

#endif
