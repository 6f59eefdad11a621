/* glm4.c - GLM-4-0414 and GLM-Z1: GLM with norms behind attention and MLP, too (transformers'
 * Glm4Model and its heads). */
#include "models/glm.h"

static const accel__layer_norms norms = {.attention = "input_layernorm",
                                         .behind_attention = "post_self_attn_layernorm",
                                         .mlp = "post_attention_layernorm",
                                         .behind_mlp = "post_mlp_layernorm"};
static const accel__decoder defaults = {.vocab = 151552,
                                        .hidden = 4096,
                                        .layers = 40,
                                        .heads = 32,
                                        .kv_heads = 2,
                                        .head_dim = 128,
                                        .inner = 13696,
                                        .positions = 131072,
                                        .eps = 1.5625e-7,
                                        .theta = 10000.0,
                                        .partial = 0.5,
                                        .bos = -1,
                                        .eos = -1,
                                        .pad = 151329,
                                        .qkv_bias = true,
                                        .fused_mlp = true,
                                        .norms = &norms,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__glm4_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  return accel__glm_read_rest(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__glm4_read);
}

static const char *const classes[] = {"Glm4Model", "Glm4ForCausalLM",
                                      "Glm4ForSequenceClassification", "Glm4ForTokenClassification",
                                      NULL};
const accel__architecture accel__model_glm4 = {
    .model_type = "glm4", .classes = classes, .build = build};
