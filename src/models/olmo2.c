/* olmo2.c - OLMo 2: LLaMA's layers with norms behind attention and MLP, and of all heads of q and k
 * together (transformers' Olmo2Model and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 50304,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-5,
                                        .theta = 10000.0,
                                        .bos = -1,
                                        .eos = 50279,
                                        .pad = 1,
                                        .qk_norm = ACCEL__QK_NORM_WHOLE,
                                        .norms = &accel__norms_behind,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__olmo2_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__olmo2_read);
}

static const char *const classes[] = {"Olmo2Model", "Olmo2ForCausalLM",
                                      "Olmo2ForSequenceClassification", NULL};
const accel__architecture accel__model_olmo2 = {
    .model_type = "olmo2", .classes = classes, .build = build};
