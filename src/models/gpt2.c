/* gpt2.c - GPT-2 (transformers' GPT2Model and its heads). */
#include "models/decoders.h"

accel_status accel__gpt2_read(accel__build *b, accel__gpt *c) {
  bool scaled = true;
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
                    .word_types = true,
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
      ACCEL_GPT_GPT2_FIELDS(*c, &c->positions),
      ACCEL_FIELD_BOOL("scale_attn_weights", &scaled),
      ACCEL_FIELD_BOOL("scale_attn_by_inverse_layer_idx", &c->inverse_layer),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 50256, /*eos*/ 50256, /*pad*/ -1));
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
