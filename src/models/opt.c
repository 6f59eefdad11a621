/* opt.c - OPT (transformers' OPTModel and its heads). */
#include "models/decoders.h"

accel_status accel__opt_read(accel__build *b, accel__gpt *c) {
  bool before = true, no_last = false;
  *c = (accel__gpt){.vocab = 50272,
                    .hidden = 768,
                    .layers = 12,
                    .heads = 12,
                    .inner = 3072,
                    .positions = 2048,
                    .first_position = 2,
                    .position_rule = ACCEL__DEFAULT_MASK_CUMSUM,
                    .eps = 1e-5,
                    .tied = true,
                    .bias = true,
                    .norm_affine = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_RELU},
                    .token_embedding = "decoder.embed_tokens",
                    .position_embedding = "decoder.embed_positions",
                    .last_norm = "decoder.final_layer_norm",
                    .layer = "decoder.layers",
                    .norm1 = "self_attn_layer_norm",
                    .norm2 = "final_layer_norm",
                    .q = "self_attn.q_proj",
                    .k = "self_attn.k_proj",
                    .v = "self_attn.v_proj",
                    .out = "self_attn.out_proj",
                    .up = "fc1",
                    .down = "fc2",
                    .project_in = "decoder.project_in",
                    .project_out = "decoder.project_out"};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("ffn_dim", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("word_embed_proj_dim", &c->embedding, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_BOOL("do_layer_norm_before", &before),
      ACCEL_FIELD_BOOL("_remove_final_layer_norm", &no_last),
      ACCEL_FIELD_BOOL("enable_bias", &c->bias),
      ACCEL_FIELD_BOOL("layer_norm_elementwise_affine", &c->norm_affine),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_ACT("activation_function", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 2, /*eos*/ 2, /*pad*/ 1));
  c->post_norm = !before;
  if (!before || no_last) c->last_norm = NULL;
  c->kv_heads = c->heads;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "model.", accel__opt_read);
}

static const char *const classes[] = {"OPTModel", "OPTForCausalLM", "OPTForSequenceClassification",
                                      "OPTForQuestionAnswering", NULL};
const accel__architecture accel__model_opt = {
    .model_type = "opt", .classes = classes, .build = build};
