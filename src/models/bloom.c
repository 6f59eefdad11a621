/* bloom.c - BLOOM (transformers' BloomModel and its heads): positions by ALiBi. */
#include "models/decoders.h"

accel_status accel__bloom_read(accel__build *b, accel__gpt *c) {
  bool exact = false;
  int64_t parallel = 1;
  *c = (accel__gpt){.vocab = 250880,
                    .hidden = 64,
                    .layers = 2,
                    .heads = 8,
                    .bias = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .embedding_norm = "word_embeddings_layernorm",
                    .norm1 = "input_layernorm",
                    .norm2 = "post_attention_layernorm",
                    ACCEL_GPT_BLOOM_PARTS};
  const accel__field fields[] = {
      ACCEL_GPT_BLOOM_FIELDS(*c),
      /* slices of sums that are the same in fp32 */
      ACCEL_FIELD_INT("pretraining_tp", &parallel, 1, 1 << 16),
      ACCEL_FIELD_BOOL("slow_but_exact", &exact),
      ACCEL_FIELD_BOOL("apply_residual_connection_post_layernorm", &c->residual_normed),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 1, /*eos*/ 2, /*pad*/ -1));
  c->inner = 4 * c->hidden;
  return accel__gpt_use_alibi(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__bloom_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Bloom"), NULL};
const accel__architecture accel__model_bloom = {
    .model_type = "bloom", .classes = classes, .build = build};
