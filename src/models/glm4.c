/* glm4.c - GLM-4-0414 and GLM-Z1: GLM with norms behind attention and MLP, too (transformers'
 * Glm4Model and its heads). */
#include "models/decoders.h"

static const accel__layer_norms norms = {.attention = "input_layernorm",
                                         .behind_attention = "post_self_attn_layernorm",
                                         .mlp = "post_attention_layernorm",
                                         .behind_mlp = "post_mlp_layernorm"};

accel_status accel__glm4_read(accel__build *b, accel__decoder *c) {
  ACCEL_TRY(accel__glm_read(b, c));
  c->norms = &norms;
  return ACCEL_OK;
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
