/* mistral.c - Mistral: LLaMA's layers over a sliding window (transformers' MistralModel and its
 * heads). */
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
                                        .act = {.act = ACCEL_PLUGIN_ACT_SILU}};

accel_status accel__mistral_read(accel__build *b, accel__decoder *c) {
  *c = defaults;
  ACCEL_TRY(accel__decoder_read(b, c));
  ACCEL_TRY(accel__decoder_read_window(b, c));
  ACCEL_TRY(accel__decoder_read_rope(b, c));
  return ACCEL_OK;
}

static accel_status build(const accel__model_request *request, const char *architecture,
                          accel__model *model) {
  return accel__decoder_model(request, architecture, model, accel__mistral_read);
}

static const char *const classes[] = {ACCEL_CAUSAL_CLASSES("Mistral"), NULL};
const accel__architecture accel__model_mistral = {
    .model_type = "mistral", .classes = classes, .build = build};
