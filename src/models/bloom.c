/* bloom.c - BLOOM (transformers' BloomModel and its heads): positions by ALiBi. */
#include "models/gpt.h"

static accel_status build(const accel__model_request *request, const char *architecture, accel__model *model) {
  accel__build b;
  bool exact = false;
  int64_t parallel = 1;
  accel__gpt c = {.vocab = 250880,
                  .hidden = 64,
                  .layers = 2,
                  .heads = 8,
                  .eps = 1e-5,
                  .tied = true,
                  .bias = true,
                  .norm_affine = true,
                  .qkv = ACCEL__QKV_HEADS,
                  .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                  .words = "word_embeddings",
                  .words_norm = "word_embeddings_layernorm",
                  .last_norm = "ln_f",
                  .layer = "h",
                  .norm1 = "input_layernorm",
                  .norm2 = "post_attention_layernorm",
                  .q = "self_attention.query_key_value",
                  .out = "self_attention.dense",
                  .up = "mlp.dense_h_to_4h",
                  .down = "mlp.dense_4h_to_h"};
  ACCEL_TRY(accel__build_begin(&b, request, architecture, model, "transformer."));
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c.vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c.hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_embed", &c.hidden, 1, ACCEL__MAX_WIDTH), /* the first name of hidden_size */
      ACCEL_FIELD_INT("num_hidden_layers", &c.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("n_layer", &c.layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_head", &c.heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("pretraining_tp", &parallel, 1, 1 << 16), /* slices of sums that are the same in fp32 */
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c.eps),
      ACCEL_FIELD_BOOL("slow_but_exact", &exact),
      ACCEL_FIELD_BOOL("apply_residual_connection_post_layernorm", &c.residual_normed),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c.tied),
  };
  ACCEL_TRY(accel__read_fields(&b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(&b, 1, 2, -1));
  c.inner = 4 * c.hidden;
  c.kv_heads = c.heads;
  c.slopes = accel__alibi_slopes(&b, c.heads);
  if (c.slopes == NULL) return ACCEL_ERROR_OUT_OF_MEMORY;
  return accel__gpt_build(&b, &c);
}

static const char *const classes[] = {"BloomModel",
                                      "BloomForCausalLM",
                                      "BloomForSequenceClassification",
                                      "BloomForTokenClassification",
                                      "BloomForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_bloom = {.model_type = "bloom", .classes = classes, .build = build};
