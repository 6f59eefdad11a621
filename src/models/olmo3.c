/* olmo3.c - OLMo 3: OLMo 2 with three sliding layers of four, whose rotations are their own
 * (transformers' Olmo3Model and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 50304,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .inner = 11008,
                                        .positions = 2048,
                                        .eps = 1e-5,
                                        .theta = 500000.0,
                                        .bos = -1,
                                        .eos = 50279,
                                        .pad = 1,
                                        .window = 4096,
                                        .qk_norm = ACCEL__QK_NORM_WHOLE,
                                        .norms = &accel__norms_behind,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__olmo3_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_attention_bias(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  for (int64_t i = 0; i < c->layers; i++) c->sliding[i] = (i + 1) % 4 != 0;
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  return accel__decoder_read_two_ropes(b, c, c->theta, c->theta, NULL);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__olmo3_read);
}

static const char *const classes[] = {"Olmo3Model", "Olmo3ForCausalLM",
                                      "Olmo3ForSequenceClassification", NULL};
const accel__architecture accel__model_olmo3 = {
    .model_type = "olmo3", .classes = classes, .build = build};
