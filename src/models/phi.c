/* phi.c - Phi-1, 1.5 and 2: attention and feed-forward side by side, half of each head turns
 * (transformers' PhiModel and its heads). */
#include "models/decoders.h"

accel_status accel__phi_read(accel__build *b, accel__gpt *c) {
  bool normed = false;
  *c = (accel__gpt){.vocab = 51200,
                    .hidden = 2048,
                    .layers = 24,
                    .heads = 32,
                    .inner = 8192,
                    .position_rule = ACCEL__DEFAULT_ARANGE,
                    .eps = 1e-5,
                    .bias = true,
                    .norm_affine = true,
                    .rotary = true,
                    .parallel = true,
                    .act = {.act = ACCEL_PLUGIN_ACT_GELU_TANH},
                    .token_embedding = "embed_tokens",
                    .last_norm = "final_layernorm",
                    .layer = "layers",
                    .norm1 = "input_layernorm",
                    .q = "self_attn.q_proj",
                    .k = "self_attn.k_proj",
                    .v = "self_attn.v_proj",
                    .out = "self_attn.dense",
                    .up = "mlp.fc1",
                    .down = "mlp.fc2",
                    .token_head = "score",
                    .head_bias = "lm_head.bias"};
  c->longest = 2048;
  const accel__field fields[] = {
      ACCEL_GPT_ROTARY_FIELDS(*c),
      ACCEL_FIELD_NUMBER("layer_norm_eps", &c->eps),
      ACCEL_FIELD_BOOL("qk_layernorm", &normed),
  };
  ACCEL_TRY(accel__read_fields(b, fields, sizeof fields / sizeof *fields));
  ACCEL_TRY(accel__read_token_ids(b, /*bos*/ 1, /*eos*/ 2, /*pad*/ -1));
  if (normed) {
    c->q_norm = "self_attn.q_layernorm";
    c->k_norm = "self_attn.k_layernorm";
  }
  return accel__gpt_read_rope(b, c, 0.5);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__gpt_model(request, architecture, model, "model.", accel__phi_read);
}

static const char *const classes[] = {"PhiModel", "PhiForCausalLM", "PhiForSequenceClassification",
                                      "PhiForTokenClassification", NULL};
const accel__architecture accel__model_phi = {
    .model_type = "phi", .classes = classes, .build = build};
