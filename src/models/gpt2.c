/* gpt2.c - GPT-2 (transformers' GPT2Model and its heads). */
#include "models/decoders.h"

accel_status accel__gpt2_read(accel__build *b, accel__gpt *c) {
  bool scaled = true, cross = false;
  *c = (accel__gpt){.vocab = 50257,
                    .hidden = 768,
                    .layers = 12,
                    .heads = 12,
                    .positions = 1024,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .tied = true,
                    .bias = true,
                    .norm_affine = true,
                    .qkv = ACCEL__QKV_TRANSPOSED,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .token_embedding = "wte",
                    .position_embedding = "wpe",
                    .last_norm = "ln_f",
                    .layer = "h",
                    .norm1 = "ln_1",
                    .norm2 = "ln_2",
                    .q = "attn.c_attn",
                    .out = "attn.c_proj",
                    .up = "mlp.c_fc",
                    .down = "mlp.c_proj"};
  const accel__field fields[] = {
      ACCEL_FIELD_INT("vocab_size", &c->vocab, 1, ACCEL__MAX_VOCAB),
      /* transformers' other names of n_embd ... */
      ACCEL_FIELD_INT("hidden_size", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_embd", &c->hidden, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("num_hidden_layers", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("n_layer", &c->layers, 0, ACCEL__MAX_LAYERS),
      ACCEL_FIELD_INT("num_attention_heads", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("n_head", &c->heads, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_INT("max_position_embeddings", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("n_positions", &c->positions, 1, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_INT("n_inner", &c->inner, 1, ACCEL__MAX_WIDTH),
      ACCEL_FIELD_NUMBER("layer_norm_epsilon", &c->eps),
      ACCEL_FIELD_BOOL("tie_word_embeddings", &c->tied),
      ACCEL_FIELD_BOOL("scale_attn_weights", &scaled),
      ACCEL_FIELD_BOOL("scale_attn_by_inverse_layer_idx", &c->inverse_layer),
      ACCEL_FIELD_BOOL("add_cross_attention", &cross),
      ACCEL_FIELD_ACT("activation_function", &c->act),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ -1));
  if (cross) return accel__refuse(b, "field 'add_cross_attention': true is not supported");
  if (c->inner == 0) c->inner = 4 * c->hidden;
  c->kv_heads = c->heads;
  c->unscaled = !scaled;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "transformer.", accel__gpt2_read);
}

static const char *const classes[] = {"GPT2Model",
                                      "GPT2LMHeadModel",
                                      "GPT2ForSequenceClassification",
                                      "GPT2ForTokenClassification",
                                      "GPT2ForQuestionAnswering",
                                      NULL};
const accel__architecture accel__model_gpt2 = {
    .model_type = "gpt2", .classes = classes, .build = build};
