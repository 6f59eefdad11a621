/* starcoder2.c - StarCoder2: Mistral's attention in GPT's layers (transformers' Starcoder2Model and
 * its heads). */
#include "models/decoders.h"

accel_status accel__starcoder2_read(accel__build *b, accel__gpt *c) {
  *c = (accel__gpt){.vocab = 49152,
                    .hidden = 3072,
                    .layers = 30,
                    .heads = 24,
                    .kv_heads = 2,
                    .inner = 12288,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .tied = true,
                    .bias = true,
                    .norm_affine = true,
                    .rotary = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .token_embedding = "embed_tokens",
                    .last_norm = "norm",
                    .layer = "layers",
                    .norm1 = "input_layernorm",
                    .norm2 = "post_attention_layernorm",
                    .q = "self_attn.q_proj",
                    .k = "self_attn.k_proj",
                    .v = "self_attn.v_proj",
                    .out = "self_attn.o_proj",
                    .up = "mlp.c_fc",
                    .down = "mlp.c_proj",
                    .token_head = "score"};
  c->longest = 4096;
  const accel__field fields[] = {
      ACCEL_GPT_ROTARY_FIELDS(*c),
      ACCEL_FIELD_INT("sliding_window", &c->window, 0, ACCEL__MAX_POSITIONS),
      ACCEL_FIELD_NUMBER("norm_epsilon", &c->eps),
      ACCEL_FIELD_BOOL("use_bias", &c->bias),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ -1));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = true;
  return accel__gpt_read_rope(b, c, 0);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "model.", accel__starcoder2_read);
}

static const char *const classes[] = {"Starcoder2Model", "Starcoder2ForCausalLM",
                                      "Starcoder2ForSequenceClassification",
                                      "Starcoder2ForTokenClassification", NULL};
const accel__architecture accel__model_starcoder2 = {
    .model_type = "starcoder2", .classes = classes, .build = build};
