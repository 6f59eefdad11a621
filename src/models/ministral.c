/* ministral.c - Ministral 8B of 2024: Mistral with sliding and full layers (transformers'
 * MinistralModel and its heads). */
#include "models/decoders.h"

static const accel__decoder defaults = {.vocab = 32000,
                                        .hidden = 4096,
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .inner = 14336,
                                        .positions = 131072,
                                        .eps = 1e-6,
                                        .theta = 10000.0,
                                        .bos = 1,
                                        .eos = 2,
                                        .pad = -1,
                                        .window = 4096,
                                        .qa_transformer = true,
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__ministral_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  ACCEL_TRY(accel__decoder_read_layer_types(b, c));
  return accel__decoder_read_rope(b, c);
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__ministral_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Ministral"), NULL};
const accel__architecture accel__model_ministral = {
    .model_type = "ministral", .classes = classes, .build = build};
