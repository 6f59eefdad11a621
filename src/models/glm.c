/* glm.c - GLM-4 9B of 2024 (-hf) and GLM-Edge: LLaMA's layers with joined gate and up, half of each
 * head turns by pairs of neighbours (transformers' GlmModel and its heads). */
#include "models/decoders.h"

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
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

/* eos_token_id is a list when absent or null. */
static accel_status default_eos(accel__build *b) {
  static const int64_t ends[] = {151329, 151336, 151338};
  if (!accel__json_is_null_or_absent(b->config, "eos_token_id")) return ACCEL_OK;
  b->model->eos_ids = ends;
  b->model->n_eos = sizeof ends / sizeof *ends;
  return ACCEL_OK;
}

accel_status accel__glm_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(default_eos(b));
  ACCEL_TRY(accel__json_bool(b->file, b->config, "attention_bias", &c->qkv_bias));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  c->rope[0].style = ACCEL_PLUGIN_ROPE_INTERLEAVED;
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__glm_read);
}

static const char *const classes[] = {"GlmModel", "GlmForCausalLM", "GlmForSequenceClassification",
                                      "GlmForTokenClassification", NULL};
const accel__architecture accel__model_glm = {
    .model_type = "glm", .classes = classes, .build = build};
